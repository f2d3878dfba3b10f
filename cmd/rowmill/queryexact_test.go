package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/query"
	"github.com/rowmill/rowmill/internal/testdb"
)

// unseen are changes of the partition $P of the table readings that its triggers don't see. O is a
// table like it. The rows of the partition, or its triggers, are others afterwards.
var unseen = map[string]map[string][]string{
	"mysql": {
		"truncated":           {"ALTER TABLE readings TRUNCATE PARTITION $P"},
		"truncated, refilled": {"ALTER TABLE readings TRUNCATE PARTITION $P", "INSERT INTO readings VALUES (9, $AT, 9, 'a', 1, 1, 1)"},
		"exchanged":           {"TRUNCATE TABLE O", "INSERT INTO O VALUES (9, $AT, 9, 'a', 1, 1, 1)", "ALTER TABLE readings EXCHANGE PARTITION $P WITH TABLE O"},
		"exchanged, changed and exchanged back": {"TRUNCATE TABLE O", "ALTER TABLE readings EXCHANGE PARTITION $P WITH TABLE O", "UPDATE O SET n = n + 1, price = price + 1",
			"ALTER TABLE readings EXCHANGE PARTITION $P WITH TABLE O"},
		"exchanged, changed and exchanged back, another one rebuilt": {"TRUNCATE TABLE O", "ALTER TABLE readings EXCHANGE PARTITION $P WITH TABLE O", "UPDATE O SET n = n + 1, price = price + 1",
			"ALTER TABLE readings EXCHANGE PARTITION $P WITH TABLE O", "ALTER TABLE readings REBUILD PARTITION $NEXT"},
		"changed without a trigger": {"DROP TRIGGER rowmill_touch_update_readings", "UPDATE readings SET n = n + 1", "apply"},
	},
	"postgres": {
		"truncated":           {"TRUNCATE readings_$P"},
		"truncated, refilled": {"TRUNCATE readings_$P", "INSERT INTO readings VALUES (9, $AT, 9, 'a', 1, 1, 1)"},
		"detached, changed and attached": {"ALTER TABLE readings DETACH PARTITION readings_$P", "UPDATE readings_$P SET n = n + 1, price = price + 1",
			"ALTER TABLE readings ATTACH PARTITION readings_$P FOR VALUES FROM ($FROM) TO ($TO)"},
		"dropped and created": {"DROP TABLE readings_$P", "CREATE TABLE readings_$P PARTITION OF readings FOR VALUES FROM ($FROM) TO ($TO)",
			"INSERT INTO readings VALUES (9, $AT, 9, 'a', 1, 1, 1)"},
		"changed with triggers disabled":    {"ALTER TABLE readings DISABLE TRIGGER rowmill_touch_update", "UPDATE readings SET n = n + 1", "ALTER TABLE readings ENABLE ALWAYS TRIGGER rowmill_touch_update"},
		"changed as a replica changes rows": {"DO $$BEGIN SET LOCAL session_replication_role = replica; UPDATE readings SET n = n + 1; END$$"},
	},
}

// An untold is a server that doesn't tell in time when partitions were changed.
type untold struct {
	engine.Reader
	engine.PartIdentifier
}

func (untold) PartsWritten(context.Context, string, string) (*engine.PartsWritten, error) {
	return nil, nil
}

// TestQueryExact: the answers from roll-ups and cached results are those of the server after each
// change of a partition that no trigger sees, of the process that has asked before and of a new
// one. A run of the maintenance makes the roll-ups usable again.
func TestQueryExact(t *testing.T) {
	t.Parallel()
	onEach(t, []string{"mariadb", "mysql", "postgres"}, func(t *testing.T, kind string) {
		text := strings.ReplaceAll(rolledDeclaration, "$DOUBLE", map[bool]string{true: "DOUBLE PRECISION", false: "DOUBLE"}[kind == "postgres"])
		r := &rolledTest{keptTable: declareUndisturbed(t, kind, text), day: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}
		reader := r.db.(engine.Reader)
		runner := func(o query.Options) *query.Runner {
			o.Always, o.Parallel, o.Rollups = true, 2, maintain.NewRolled(reader)
			out := query.New(reader, o)
			t.Cleanup(func() { must(t, out.Close()) })
			return out
		}
		r.asker = runner(query.Options{})
		cached := runner(query.Options{NoRollups: true})
		s, err := reader.ReadSession(t.Context(), nil)
		must(t, err)
		r.state, err = reader.ReadState(t.Context(), s)
		must(t, err)
		must(t, s.Close())
		r.tick(r.day.Add(30 * time.Minute))
		mustPass(t, r.run("apply", "--yes"))
		r.insert(r.day, r.day.AddDate(0, 0, 3), 0)
		now := r.day.AddDate(0, 0, 3).Add(2 * time.Hour)
		maintained := func() {
			t.Helper()
			now = now.Add(time.Minute)
			r.tick(now)
			mustPass(t, r.run("run", "--once"))
		}
		maintained()
		other := "CREATE TABLE O LIKE readings"
		if kind != "postgres" {
			execSQL(t, r.db, other)
			execSQL(t, r.db, "ALTER TABLE O REMOVE PARTITIONING")
		}
		// ask compares both answers, and returns whether roll-ups were read and how many periods came
		// from the cache.
		const text1 = "SELECT sensor, COUNT(*), SUM(n), SUM(price) FROM readings GROUP BY sensor ORDER BY sensor"
		ask := func(what string, asker *query.Runner) (rollups, cached int) {
			t.Helper()
			p, err := asker.Plan(t.Context(), text1, r.state)
			must(t, err)
			var got, want answer
			report, err := asker.Run(t.Context(), p, &got)
			must(t, err)
			s, err := reader.ReadSession(t.Context(), r.state)
			must(t, err)
			defer s.Close()
			must(t, s.Text(t.Context(), text1, nil, want.Row))
			if fmt.Sprint(got.rows) != fmt.Sprint(want.rows) {
				t.Errorf("%s: %q, want %q; roll-ups %d, cached %d, %s", what, got.rows, want.rows, len(p.Rollups), report.Cached, report.Rerun)
			}
			if report.Rerun == "" {
				rollups = len(p.Rollups)
			}
			return rollups, report.Cached
		}
		usable := func(what string) {
			t.Helper()
			if kind != "postgres" {
				testdb.NextSecond(t, r.db.SQL()) // after which commits are told from those before
			}
			maintained()
			if n, _ := ask(what, r.asker); n == 0 {
				p, err := r.asker.Plan(t.Context(), text1, r.state)
				t.Fatalf("%s: no roll-up is read: %s, %s, %v", what, p.Whole, p.NoRollup, err)
			}
		}
		usable("at first")
		ask("at first", cached)
		if kind != "postgres" { // a server that doesn't tell in time when partitions were changed
			execSQL(t, r.db, "ALTER TABLE O COMMENT = 'altered'")
			slow := query.New(reader, query.Options{Always: true, Parallel: 2, Rollups: maintain.NewRolled(untold{reader, reader.(engine.PartIdentifier)})})
			t.Cleanup(func() { must(t, slow.Close()) })
			p, err := slow.Plan(t.Context(), text1, r.state)
			must(t, err)
			if len(p.Rollups) > 0 || !strings.Contains(p.NoRollup, "in time") {
				t.Errorf("%d roll-ups are read though it isn't known when partitions were changed: %s", len(p.Rollups), p.NoRollup)
			}
		}
		changes := unseen["mysql"]
		if kind == "postgres" {
			changes = unseen["postgres"]
		}
		i := 0
		for what, statements := range changes {
			i++
			day := r.day.AddDate(0, 0, i%3)
			name := "p" + day.Format("20060102")
			ask(what+", before", cached)
			for _, q := range statements {
				if q == "apply" {
					mustPass(t, r.run("apply", "--yes"))
					continue
				}
				execSQL(t, r.db, strings.NewReplacer("$P", name, "$NEXT", "p"+r.day.AddDate(0, 0, (i+1)%3).Format("20060102"), "$AT", r.at(day.Add(7*time.Minute)), "$FROM", r.at(day), "$TO", r.at(day.AddDate(0, 0, 1))).Replace(q))
			}
			ask(what, r.asker)
			ask(what+", by a new process", runner(query.Options{}))
			ask(what+", cached", cached)
			maintained()
			usable(what + ", computed again")
			ask(what+", cached again", cached)
		}
		// An earlier version had no record of partitions, and its triggers of PostgreSQL didn't fire
		// always.
		execSQL(t, r.db, "DROP TABLE rowmill_parts")
		refused := func(why string) {
			t.Helper()
			p, err := r.asker.Plan(t.Context(), text1, r.state)
			must(t, err)
			if len(p.Rollups) > 0 || !strings.Contains(p.NoRollup, why) {
				t.Errorf("%d roll-ups are read: %s; want none: %s", len(p.Rollups), p.NoRollup, why)
			}
		}
		maintained()
		if kind == "postgres" {
			execSQL(t, r.db, "ALTER TABLE readings ENABLE TRIGGER rowmill_touch_update")
			maintained()
			refused("made by an earlier version")
		} else {
			refused("an earlier version has not recorded")
		}
		mustPass(t, r.run("apply", "--yes"))
		refused("not recorded yet")
		usable("after an upgrade")
		if kind != "postgres" {
			// The maintenance is the first to see it, and begins with another change of the table.
			for _, q := range unseen["mysql"]["exchanged, changed and exchanged back"] {
				execSQL(t, r.db, strings.ReplaceAll(q, "$P", "p20261121"))
			}
			now = now.AddDate(0, 0, 1)
			maintained()
			ask("after another period was created", r.asker)
			usable("after another period was created")
		}
		// A column becomes another one of the same name.
		execSQL(t, r.db, "ALTER TABLE readings ADD COLUMN m INT DEFAULT 100")
		maintained()
		usable("column added")
		for _, names := range [][2]string{{"n", "x"}, {"m", "n"}, {"x", "m"}} {
			execSQL(t, r.db, "ALTER TABLE readings RENAME COLUMN "+names[0]+" TO "+names[1])
		}
		ask("columns renamed", r.asker)
		ask("columns renamed, by a new process", runner(query.Options{}))
		ask("columns renamed, cached", cached)
		maintained()
		usable("columns renamed, computed again")
	})
}

// TestQueryExactDomains: a roll-up's groups of a domain have values that its collation makes equal.
func TestQueryExactDomains(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer("$DOUBLE", "DOUBLE PRECISION", "site VARCHAR(10)", "site folding", `by     = ["sensor"]`, `by     = ["sensor", "site"]`).Replace(rolledDeclaration)
	r := &rolledTest{keptTable: declare(t, "postgres", text), day: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}
	execSQL(t, r.db, "CREATE COLLATION folded (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
	execSQL(t, r.db, "CREATE DOMAIN folding AS text COLLATE folded")
	r.tick(r.day.Add(30 * time.Minute))
	mustPass(t, r.run("apply", "--yes"))
	execSQL(t, r.db, "INSERT INTO readings SELECT 1, timestamp '2026-11-20' + i * interval '1 min', i, (ARRAY['aa', 'AA', 'b'])[1 + i % 3], i, i, i FROM generate_series(0, 2000) i")
	for i := range 2 {
		r.tick(r.day.AddDate(0, 0, 3).Add(time.Duration(i) * time.Minute))
		mustPass(t, r.run("run", "--once"))
	}
	r.answersOf(nil, map[string]bool{
		"SELECT md5(site) AS k, COUNT(*), SUM(n) FROM readings GROUP BY md5(site) ORDER BY 1": false,
		"SELECT COUNT(*) FROM readings WHERE site::text COLLATE \"C\" = 'aa'":                 false,
		"SELECT sensor, COUNT(*), SUM(n) FROM readings GROUP BY sensor":                       true,
	})
}

// TestQueryExactVirtual: a roll-up has values that its own sessions have computed from a virtual
// column, with four digits.
func TestQueryExactVirtual(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql") {
		t.Run(kind, func(t *testing.T) {
			text := strings.NewReplacer("$TIME", "DATETIME", "value $DOUBLE,", "u DECIMAL(30,12) AS (n / 7) VIRTUAL,", `max(value)`, `max(u)`).Replace(rolledDeclaration)
			r := &rolledTest{keptTable: declareUndisturbed(t, kind, text), day: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}
			r.tick(r.day.Add(30 * time.Minute))
			mustPass(t, r.run("apply", "--yes"))
			execSQL(t, r.db, "INSERT INTO readings (sensor, ts, seq, site, n, price) WITH RECURSIVE s (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM s WHERE i < 800) "+
				"SELECT i % 3, '2026-11-20' + INTERVAL i MINUTE, i, 'x', i, i FROM s")
			for i := range 2 {
				r.tick(r.day.AddDate(0, 0, 3).Add(time.Duration(i) * time.Minute))
				mustPass(t, r.run("run", "--once"))
			}
			r.answersOf([]engine.Setting{{Name: "div_precision_increment", Value: "9"}}, map[string]bool{
				"SELECT sensor, MAX(u), COUNT(*) FROM readings GROUP BY sensor ORDER BY sensor": false,
				"SELECT sensor, COUNT(*) FROM readings GROUP BY sensor ORDER BY sensor":         true,
			})
		})
	}
}

// answersOf compares answers of queries with the server's own in sessions with some settings. Their
// values are whether they read roll-ups.
func (r *rolledTest) answersOf(set []engine.Setting, queries map[string]bool) {
	t := r.T
	t.Helper()
	reader := r.db.(engine.Reader)
	s, err := reader.ReadSession(t.Context(), nil)
	must(t, err)
	defer func() { must(t, s.Close()) }()
	for _, x := range set {
		must(t, s.SetState(t.Context(), x.Name, x.Value))
	}
	st, err := reader.ReadState(t.Context(), s)
	must(t, err)
	asker := query.New(reader, query.Options{Always: true, Parallel: 2, Rollups: maintain.NewRolled(reader)})
	defer func() { must(t, asker.Close()) }()
	for q, rolled := range queries {
		p, err := asker.Plan(t.Context(), q, st)
		must(t, err)
		var got, want answer
		_, err = asker.Run(t.Context(), p, &got)
		must(t, err)
		must(t, s.Text(t.Context(), q, nil, want.Row))
		if fmt.Sprint(got.rows) != fmt.Sprint(want.rows) || (len(p.Rollups) > 0) != rolled {
			t.Errorf("%s: %q, want %q; roll-ups %d %s", q, got.rows, want.rows, len(p.Rollups), p.NoRollup)
		}
	}
}
