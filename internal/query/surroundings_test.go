package query

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// A surrounding is settings of a session with which all queries are compared.
type surrounding struct {
	name string
	on   []string
	// carried settings change answers: engine.Reader.ReadState has to have them. planned change how
	// the server computes them.
	carried, planned engine.State
}

var surroundings = []surrounding{
	{
		name: "ansi", on: []string{"mariadb", "mysql"},
		carried: engine.State{{Name: "sql_mode", Value: "ANSI"}, {Name: "time_zone", Value: "+05:45"}, {Name: "div_precision_increment", Value: "0"}, {Name: "collation_connection", Value: "utf8mb4_bin"}},
	},
	{
		name: "no mode", on: []string{"mariadb", "mysql"},
		carried: engine.State{{Name: "sql_mode", Value: ""}, {Name: "time_zone", Value: "-11:00"}, {Name: "div_precision_increment", Value: "30"}, {Name: "group_concat_max_len", Value: "7"}, {Name: "max_sort_length", Value: "2048"}},
	},
	{
		name: "other operators", on: []string{"mariadb", "mysql"},
		carried: engine.State{
			{Name: "sql_mode", Value: "HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,REAL_AS_FLOAT,IGNORE_SPACE"},
			{Name: "time_zone", Value: "Europe/Berlin"}, {Name: "collation_connection", Value: "utf8mb4_danish_ci"}, {Name: "default_week_format", Value: "3"}, {Name: "lc_time_names", Value: "de_DE"},
		},
	},
	{
		name: "strict", on: []string{"mariadb", "mysql"},
		carried: engine.State{{Name: "sql_mode", Value: "TRADITIONAL,ONLY_FULL_GROUP_BY"}, {Name: "time_zone", Value: "SYSTEM"}},
		planned: engine.State{
			{Name: "optimizer_switch", Value: "derived_merge=off,materialization=off,semijoin=off,index_merge=off"}, {Name: "big_tables", Value: "ON"}, {Name: "tmp_table_size", Value: "1024"}, {Name: "max_heap_table_size", Value: "16384"},
			{Name: "sort_buffer_size", Value: "32768"}, {Name: "join_buffer_size", Value: "1024"},
		},
	},
	{
		name: "SQL", on: []string{"postgres"},
		carried: engine.State{
			{Name: "datestyle", Value: "SQL, DMY"}, {Name: "intervalstyle", Value: "sql_standard"}, {Name: "extra_float_digits", Value: "-15"}, {Name: "bytea_output", Value: "escape"}, {Name: "timezone", Value: "America/New_York"},
			{Name: "lc_numeric", Value: "C"}, {Name: "lc_monetary", Value: "C"}, {Name: "xmlbinary", Value: "hex"},
		},
	},
	{
		name: "other literals", on: []string{"postgres"},
		carried: engine.State{
			{Name: "standard_conforming_strings", Value: "off"}, {Name: "search_path", Value: `nowhere, "$user", pg_catalog, public`}, {Name: "quote_all_identifiers", Value: "on"}, {Name: "transform_null_equals", Value: "on"},
			{Name: "array_nulls", Value: "off"}, {Name: "datestyle", Value: "German, DMY"}, {Name: "intervalstyle", Value: "postgres_verbose"}, {Name: "extra_float_digits", Value: "0"}, {Name: "row_security", Value: "off"},
		},
	},
	{
		name: "other plans", on: []string{"postgres"},
		carried: engine.State{{Name: "timezone", Value: "Europe/Berlin"}, {Name: "datestyle", Value: "Postgres, MDY"}, {Name: "intervalstyle", Value: "iso_8601"}},
		planned: engine.State{
			{Name: "enable_hashagg", Value: "off"}, {Name: "enable_hashjoin", Value: "off"}, {Name: "enable_partitionwise_aggregate", Value: "on"}, {Name: "enable_partitionwise_join", Value: "on"}, {Name: "enable_partition_pruning", Value: "off"},
			{Name: "work_mem", Value: "64kB"},
		},
	},
}

// surrounded compares the written queries, and random ones with a fixed seed, in sessions with
// other settings.
func (d *differential) surrounded(t *testing.T) {
	testdb.SkipUnlessNightly(t, "mysql_states.sql and postgres.sql of the written queries")
	queries := readWritten(t, d.kind)
	for _, s := range surroundings {
		if !slices.Contains(s.on, d.kind) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			var carried engine.State
			for _, x := range s.carried {
				if !slices.ContainsFunc(d.state, func(have engine.Setting) bool { return have.Name == x.Name }) {
					t.Errorf("%s is not read from sessions", x.Name)
				}
				if x.Value == "Europe/Berlin" && !d.accepts(t, x) { // whose names of zones have not been loaded
					x.Value = "+02:00"
				}
				carried = append(carried, x)
			}
			settings := slices.Concat(carried, s.planned)
			var tally tally
			each := func(n int, run func(i int)) {
				next := make(chan int, n)
				for i := range n {
					next <- i
				}
				close(next)
				var wg sync.WaitGroup
				for range comparers {
					wg.Go(func() {
						for i := range next {
							run(i)
						}
					})
				}
				wg.Wait()
			}
			ctx := context.Background()
			each(len(queries), func(i int) {
				q := queries[i]
				h, err := d.compare(ctx, q.text, slices.Concat(settings, q.settings), q.order)
				if err != nil {
					t.Errorf("%s/%s: %v\n%s", q.file, q.name, err, q.text)
				}
				tally.add(h)
			})
			each(generatedQueries, func(i int) {
				q := generate(d.kind, fixedSeed, i+1)
				h, err := d.compare(ctx, q.String(), settings, q.sortedBy())
				if err != nil && !h.isServers(err, q) {
					t.Errorf("query %d of %s=%d: %v\n%s", i+1, seedVariable, fixedSeed, err, q)
				}
				tally.add(h)
			})
			t.Logf("%s, %s: %s", d.kind, s.name, &tally)
		})
	}
}

// accepts reports whether the server has a value for a setting.
func (d *differential) accepts(t *testing.T, x engine.Setting) bool {
	s, err := d.reader.ReadSession(context.Background(), engine.State{x})
	if err != nil {
		return false
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return true
}
