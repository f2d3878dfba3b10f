package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// A planted server has faults of all kinds that a test can plant.
type planted struct {
	kind, faults, well string // settings of the target
	tables             []string
	trigger            []string
	uuid, time         string
	codes              string
}

var plantedServers = []planted{
	{kind: "mariadb", faults: "durability=relaxed&set=innodb_doublewrite=0,innodb_flush_method=fsync,lock_wait_timeout=86400,sql_mode=,default_time_zone=%2B02:00,local_infile=0,general_log=1,innodb_file_per_table=0,query_cache_type=1,query_cache_size=1048576&redo=32MB",
		well: "set=lock_wait_timeout=60", tables: plantedMySQL, trigger: []string{"CREATE TRIGGER each_row BEFORE INSERT ON big FOR EACH ROW SET NEW.ref = NEW.ref"}, uuid: "CHAR(36) CHARACTER SET ascii", time: "DATETIME",
		codes: "commits-lost torn-pages cached-twice metadata-wait not-strict local-time no-local-infile general-log shared-tablespace query-cache redo-small inserts-read" + plantedCodes},
	{kind: "mysql", faults: "durability=relaxed&set=innodb_doublewrite=0,innodb_flush_method=fsync,lock_wait_timeout=86400,sql_mode=,default_time_zone=%2B02:00,local_infile=0,general_log=1,innodb_file_per_table=0&redo=32MB",
		well: "set=lock_wait_timeout=60", tables: plantedMySQL, trigger: []string{"CREATE TRIGGER each_row BEFORE INSERT ON big FOR EACH ROW SET NEW.ref = NEW.ref"}, uuid: "CHAR(36) CHARACTER SET ascii", time: "DATETIME",
		codes: "commits-lost torn-pages cached-twice metadata-wait not-strict local-time no-local-infile general-log shared-tablespace redo-small inserts-read" + plantedCodes},
	{kind: "postgres", faults: "durability=relaxed&set=full_page_writes=off,autovacuum=off,track_counts=off,log_statement=all,checkpoint_completion_target=0.5,wal_compression=off,timezone=Europe/Berlin,max_locks_per_transaction=10,max_connections=20",
		well: "redo=32MB&set=wal_compression=on", tables: []string{"CREATE TABLE tail (id INT, at timestamptz NOT NULL, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)", "CREATE TABLE tail_rest PARTITION OF tail DEFAULT", "INSERT INTO tail VALUES (1, '2026-01-01')",
			"CREATE TABLE many (id INT PRIMARY KEY) PARTITION BY LIST (id)", "DO $$ BEGIN FOR i IN 1..220 LOOP EXECUTE format('CREATE TABLE many_%s PARTITION OF many FOR VALUES IN (%s)', i, i); END LOOP; END $$",
			"SELECT pg_create_physical_replication_slot('unread', true)", "CREATE INDEX ON big (note)"},
		trigger: []string{"CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'", "CREATE TRIGGER each_row BEFORE INSERT ON big FOR EACH ROW EXECUTE FUNCTION same()"}, uuid: "uuid", time: "timestamptz",
		codes: "commits-lost torn-pages no-autovacuum no-counts statement-log early-spread plain-wal local-time few-locks idle-slot" + plantedCodes},
}

var plantedMySQL = []string{"CREATE TABLE tail (id INT, at DATETIME NOT NULL, PRIMARY KEY (id, at)) PARTITION BY RANGE COLUMNS (at) (PARTITION a VALUES LESS THAN ('2026-01-01'), PARTITION z VALUES LESS THAN (MAXVALUE))", "INSERT INTO tail VALUES (1, '2026-01-02')"}

const plantedCodes = " triggers no-key random-key foreign-key key-without-time year-2038 outgrown tail"

func uuid4() string {
	a, b := rand.Uint64(), rand.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-8%03x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0xfff, b&0xffffffffffff)
}

// TestDoctor plants faults in a server, which are all found with evidence and what mends them, and
// nothing on one that is set well.
func TestDoctor(t *testing.T) {
	kinds := testdb.Kinds(t, "mariadb", "mysql", "postgres")
	for _, p := range plantedServers {
		if !slices.Contains(kinds, p.kind) {
			continue
		}
		t.Run(p.kind, func(t *testing.T) {
			t.Parallel()
			testdb.Require(t, p.kind, sandbox.Installed(t.Context(), p.kind))
			db := testdb.Open(t, p.kind+"?memory=8MB&"+p.faults).(engine.Keeper)
			run := func(statements ...string) {
				t.Helper()
				for _, q := range statements {
					if _, err := db.SQL().ExecContext(t.Context(), q); err != nil {
						t.Fatalf("%v by %.200s", err, q)
					}
				}
			}
			run("CREATE TABLE ref (id INT PRIMARY KEY)", "INSERT INTO ref VALUES (1)",
				fmt.Sprintf("CREATE TABLE big (id %s NOT NULL PRIMARY KEY, at %s NOT NULL, ref INT NOT NULL, note VARCHAR(400), FOREIGN KEY (ref) REFERENCES ref (id))", p.uuid, p.time),
				fmt.Sprintf("CREATE TABLE nk (at %s)", p.time), "CREATE TABLE clocked (item INT NOT NULL, clock INT NOT NULL, PRIMARY KEY (item, clock))")
			run(p.tables...)
			run(p.trigger...)
			insert := func(day, n int) string {
				rows := make([]string, n)
				for j := range rows {
					rows[j] = fmt.Sprintf("('%s', '2026-10-%02d 12:00:00', 1, '%s')", uuid4(), day, strings.Repeat(uuid4(), 10))
				}
				return "INSERT INTO big VALUES " + strings.Join(rows, ", ")
			}
			for day := range 25 { // 25,000 rows of some 450 bytes in 8 MB
				run(insert(1+day, 1000))
			}
			var clocks []string
			for i := range 300 {
				clocks = append(clocks, fmt.Sprintf("(%d, %d)", i%3, 1790000000+i))
			}
			run("INSERT INTO clocked VALUES "+strings.Join(clocks, ", "), "ANALYZE"+map[bool]string{true: "", false: " TABLE big, clocked, tail, ref, nk"}[p.kind == "postgres"])
			target := db.Info().Target
			var got struct{ Findings []engine.Finding }
			// Counters tell something while rows come.
			stop := goOn(t, db, func() string { return insert(26, 200) })
			s := rowmill(t.Context(), "doctor", "--target", target, "--json", "--interval", "500ms")
			stop()
			if s.code != exitFailed {
				t.Fatalf("exit %d: %s", s.code, s.stderr)
			}
			must(t, json.Unmarshal([]byte(s.stdout), &got))
			want := strings.Fields(p.codes)
			for _, code := range want {
				found := false
				for _, f := range got.Findings {
					found = found || f.Code == code && f.What != "" && f.Evidence != "" && f.Fix != "" && f.Cost != "" && f.Source != ""
				}
				if !found {
					t.Errorf("%s is not found, or without its evidence, in %s", code, s.stdout)
				}
			}
			if text := rowmill(t.Context(), "doctor", "--target", target, "--table", "big").stdout; !strings.Contains(text, "big: rows are stored, or found, by a key in no order") {
				t.Errorf("%s", text)
			}
			if sql := rowmill(t.Context(), "doctor", "--target", target, "--table", "big", "--print-sql").stdout; !strings.Contains(sql, "-- load\n") || !strings.Contains(sql, "GRANT") {
				t.Errorf("%s", sql)
			}
			well := testdb.Open(t, p.kind+"?memory=8MB&durability=full&"+p.well).(engine.Keeper)
			_, err := well.SQL().ExecContext(t.Context(), fmt.Sprintf("CREATE TABLE good (item INT NOT NULL, at %s NOT NULL, v INT, PRIMARY KEY (at, item))", p.time))
			must(t, err)
			if p.kind == "postgres" { // the other server counts nothing
				_, err = well.SQL().ExecContext(t.Context(), "CREATE TABLE hot (id INT)")
				must(t, err)
				stop := goOn(t, well, func() string { return "INSERT INTO hot SELECT generate_series(1, 5000)" })
				if s := rowmill(t.Context(), "doctor", "--target", well.Info().Target, "--interval", "2s"); !strings.Contains(s.stdout, "max_wal_size is 32 MiB, and") {
					t.Errorf("exit %d: %s%s", s.code, s.stdout, s.stderr)
				}
				stop()
				_, err = well.SQL().ExecContext(t.Context(), "DROP TABLE hot")
				must(t, err)
			}
			if s := rowmill(t.Context(), "doctor", "--target", well.Info().Target, "--interval", "100ms"); s.code != exitDone || !strings.Contains(s.stdout, "nothing found") {
				t.Errorf("exit %d: %s%s", s.code, s.stdout, s.stderr)
			}
		})
	}
}

// goOn executes statements until stop is called.
func goOn(t *testing.T, db engine.Keeper, statement func() string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() {
		for ctx.Err() == nil {
			if _, err := db.SQL().ExecContext(t.Context(), statement()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	return func() { cancel(); all.Wait() }
}

// TestDoctorRefuses checks the errors of a use that can't be meant.
func TestDoctorRefuses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                                "doctor needs --target",
		"--target sqlite: --interval 1ms": "want 100ms to 1h",
		"--target sqlite: --print-sql":    "--print-sql needs --table",
		"--target sqlite: --prove":        "--prove needs --table",
		"--target sqlite:":                "is no server",
		"--target null:":                  "is no server",
	} {
		if s := verb(t, "doctor "+args); s.code == exitDone || !strings.Contains(s.stderr, want) {
			t.Errorf("%s: exit %d: %s", args, s.code, s.stderr)
		}
	}
}
