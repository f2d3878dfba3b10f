package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/postgres"
	"github.com/rowmill/rowmill/rolling"
)

// TestTrapDefaultPartition checks that rowmill creates no DEFAULT partition and
// reports an existing one. A DEFAULT partition hides rows that have no period,
// and prevents concurrent detaches of the others.
func TestTrapDefaultPartition(t *testing.T) {
	t.Parallel()
	db := open(t)
	table, parts := rolls(t, db, 2, 1)
	wantValue(t, db, "SELECT partdefid FROM pg_partitioned_table WHERE partrelid = 'rolls'::regclass", "0")
	_, err := db.SQL().ExecContext(within(t), "INSERT INTO rolls VALUES (5000, 1)")
	if !errors.Is(db.Classify(err), engine.ErrNoPartition) {
		t.Errorf("a row outside every period: %v", err)
	}
	run(t, db, "CREATE TABLE rest PARTITION OF rolls DEFAULT", "INSERT INTO rolls VALUES (5000, 1)")
	_, err = db.SQL().ExecContext(within(t), "ALTER TABLE rolls DETACH PARTITION rolls_"+parts[0].Name+" CONCURRENTLY")
	if err == nil {
		t.Error("this server detaches beside a default partition")
	}
	var hint *engine.HintError
	if _, err := db.Catalog().Partitions(within(t), table); !errors.Is(err, engine.ErrUnsupported) || !errors.As(err, &hint) || !strings.Contains(err.Error(), "rest") {
		t.Errorf("partitions: %v", err)
	}
	if s, err := db.Describe(within(t), "rolls"); err != nil || s.Options["default_partition"] != "rest" {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestTrapPendingDetach checks the effects of an interrupted DETACH CONCURRENTLY,
// here by a kill during its wait and by a lock timeout. It stays pending, and no
// other partition can be detached until it is finished. Partitions can still be
// created, and the next step that detaches one finishes it.
func TestTrapPendingDetach(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"killed", "timed out"} {
		for _, next := range []string{"the same", "another", "a replace", "a drop"} {
			t.Run(how+", then "+next, func(t *testing.T) {
				db := open(t)
				db.SetQuietWait(100 * time.Millisecond)
				table, parts := rolls(t, db, 5, 5)
				busy := session(t, db)
				before(db, "CONCURRENTLY", func(c *pgconn.PgConn) {
					exec(t, busy, "BEGIN", "INSERT INTO rolls SELECT 0, 0 WHERE false", "SELECT count(*) FROM rolls")
					if how == "killed" {
						go func() {
							blocked(t, db, int64(c.PID()))
							db.Kill(t.Context(), int64(c.PID()))
						}()
					}
				})
				detach := engine.Detach{Table: table, Have: parts, Part: parts[0], Into: "gone"}
				err := db.Try(within(t), detach)
				if err == nil || (how == "killed") != errors.Is(err, engine.ErrConnectionLost) {
					t.Fatal(err)
				}
				if pending(t, db) != "1" {
					t.Fatalf("%s detaches are pending", pending(t, db))
				}
				other := session(t, db)
				if _, err := other.Exec(within(t), "ALTER TABLE rolls DETACH PARTITION rolls_"+parts[1].Name+" CONCURRENTLY").ReadAll(); err == nil {
					t.Error("this server detaches two at a time")
				}
				// It is still there, and must be finished by the next try.
				wantParts(t, db, table, parts)
				if err := db.Try(within(t), detach); !errors.Is(err, engine.ErrLockTimeout) {
					t.Errorf("beside the transaction: %v", err)
				}
				if b, err := db.Blockers(within(t), table); err != nil || len(b) != 1 || b[0].ID != int64(busy.PID()) {
					t.Errorf("blockers %+v, %v", b, err)
				}
				p := rolling.Partition{Name: "p0000000000000000500", Period: rolling.Period{From: 500, To: 600}}
				step(t, db, engine.CreatePartitions{Table: table, Have: parts, New: []rolling.Partition{p}})
				exec(t, other, "SET lock_timeout = '1s'", "INSERT INTO rolls VALUES (500, 1)")
				exec(t, busy, "COMMIT")

				left := append(slices.Clone(parts[1:]), p)
				switch next {
				case "another":
					step(t, db, engine.Detach{Table: table, Have: parts, Part: parts[1], Into: "gone1"})
					left = left[1:]
				case "a replace":
					apart(t, db, table, "apart", parts[2])
					step(t, db, engine.Replace{Table: table, Have: parts, Old: parts[2:3], New: parts[2], With: "apart", Out: []string{"out"}})
				case "a drop":
					step(t, db, engine.DropPartition{Table: table, Have: parts, Drop: parts[1]})
					left = left[1:]
				}
				step(t, db, detach)
				wantParts(t, db, table, left)
				wantValue(t, db, "SELECT count(*) FROM gone", "100")
			})
		}
	}
}

// TestTrapDroppedWhileRead has partitions replaced by others in one transaction while the list of
// them is read: it must be complete each time.
func TestTrapDroppedWhileRead(t *testing.T) {
	t.Parallel()
	db := open(t)
	table, parts := rolls(t, db, 4, 0)
	first := parts[0]
	done := make(chan error, 1)
	go func() {
		for n := range 10 {
			name := fmt.Sprintf("rolls_r%d", n)
			old := "rolls_" + first.Name
			if n > 0 {
				old = fmt.Sprintf("rolls_r%d", n-1)
			}
			if _, err := db.SQL().ExecContext(within(t), fmt.Sprintf("BEGIN; DROP TABLE %s; CREATE TABLE %s PARTITION OF rolls FOR VALUES FROM (%d) TO (%d); COMMIT", old, name, first.From, first.To)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for reads := 0; ; reads++ {
		got, err := db.Catalog().Partitions(within(t), table)
		if err != nil || len(got) != len(parts) {
			t.Errorf("read %d: %v, %v", reads, got, err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			return
		default:
		}
		if t.Failed() {
			<-done
			return
		}
	}
}

// TestTrapAttachScans checks that a filled table has all indexes and a CHECK before ATTACH.
// Otherwise ATTACH reads the whole table to verify the bounds, and builds the missing indexes.
func TestTrapAttachScans(t *testing.T) {
	t.Parallel()
	db := open(t)
	table, parts := rolls(t, db, 2, 2)
	run(t, db, "ALTER TABLE rolls ADD CONSTRAINT key UNIQUE (n, id)")
	filled := rolling.Partition{Name: "filled", Period: rolling.Period{From: 200, To: 100000}}
	var notices []string
	must(t, db.SetNotice(func(_ *pgconn.PgConn, n *pgconn.Notice) { notices = append(notices, n.Message) }))
	fill := func(name string, p rolling.Partition) {
		t.Helper()
		run(t, db, "CREATE TABLE "+name+" (id BIGINT NOT NULL, n INT NOT NULL)",
			fmt.Sprintf("INSERT INTO %s SELECT n, n FROM generate_series(%d, %d) n", name, p.From, p.To-1))
	}
	const implied = `partition constraint for table "%s" is implied by existing constraints`
	var indexes string
	look := func(name string) func(c *pgconn.PgConn) {
		return func(c *pgconn.PgConn) {
			exec(t, c, "SET client_min_messages = debug1")
			notices = nil
			indexes = value(t, db, "SELECT string_agg(indexrelid::text, ' ' ORDER BY indexrelid) FROM pg_index WHERE indrelid = '"+name+"'::regclass")
		}
	}
	check := func(child string) {
		t.Helper()
		if want := fmt.Sprintf(implied, child); !slices.Contains(notices, want) {
			t.Errorf("the server scanned: it said %q, not %q", notices, want)
		}
		after := value(t, db, "SELECT string_agg(indexrelid::text, ' ' ORDER BY indexrelid) FROM pg_index WHERE indrelid = '"+child+"'::regclass")
		if after != indexes || strings.Count(after, " ") != 2 {
			t.Errorf("indexes were built: %s, before %s", after, indexes)
		}
		wantValue(t, db, "SELECT count(*) FROM pg_constraint WHERE contype = 'c' AND conrelid = '"+child+"'::regclass", "0")
	}
	fill("apart", filled)
	before(db, "ATTACH", look("apart"))
	step(t, db, engine.Attach{Table: table, Have: parts, Part: filled, From: "apart"})
	check("rolls_filled")
	have := append(slices.Clone(parts), filled)
	fill("again", filled)
	before(db, "ATTACH", look("again"))
	step(t, db, engine.Replace{Table: table, Have: have, Old: have[2:], New: filled, With: "again", Out: []string{"out"}})
	check("rolls_filled")
	// Detached and attached again: the CHECK left by DETACH is dropped.
	step(t, db, engine.Detach{Table: table, Have: have, Part: filled, Into: "gone"})
	before(db, "ATTACH", look("gone"))
	step(t, db, engine.Attach{Table: table, Have: parts, Part: filled, From: "gone"})
	check("rolls_filled")

	// For comparison, without these preparations.
	step(t, db, engine.Detach{Table: table, Have: have, Part: filled, Into: "gone"})
	fill("bare", filled)
	before(db, "COMMENT", func(c *pgconn.PgConn) {
		exec(t, c, "SET client_min_messages = debug1")
		notices = nil
		exec(t, c, "ALTER TABLE rolls ATTACH PARTITION bare FOR VALUES FROM (200) TO (100000)")
		if slices.Contains(notices, fmt.Sprintf(implied, "bare")) {
			t.Error("this server doesn't scan")
		}
	})
	step(t, db, engine.DropPartition{Table: table, Have: parts, Drop: parts[0]})
}

// TestTrapPartitionLocks checks that statements about one period name its
// table. A query without a condition on the time locks every partition and each
// of its indexes, and a process has only 16 fast-path locks (up to version 17).
func TestTrapPartitionLocks(t *testing.T) {
	t.Parallel()
	const n = 40
	db := open(t)
	table, parts := rolls(t, db, n, n)
	c := session(t, db)
	locks := func(q string) int {
		t.Helper()
		exec(t, c, "BEGIN", q)
		got, err := strconv.Atoi(value(t, db, fmt.Sprintf("SELECT count(*) FROM pg_locks WHERE locktype = 'relation' AND pid = %d", c.PID())))
		must(t, err)
		exec(t, c, "COMMIT")
		return got
	}
	w := db.Words()
	whole := locks("SELECT sum(n) FROM rolls")
	within := locks("SELECT sum(n) FROM rolls WHERE id >= " + w.Literal(table, parts[7].From) + " AND id < " + w.Literal(table, parts[7].To))
	one := locks("SELECT sum(n) FROM " + w.From(table, parts[7]))
	t.Logf("locks on %d partitions: %d without a condition, %d with one, %d of the period by its name", n, whole, within, one)
	if whole < n || within > 8 || one > 3 {
		t.Errorf("%d locks without a condition, %d with one, %d of the period by its name", whole, within, one)
	}
}

// TestTrapLocalDays checks that bounds are in UTC, whatever time zone the server, the database or
// the account has. Days of a zone with daylight saving time have 23 or 25 hours.
func TestTrapLocalDays(t *testing.T) {
	t.Parallel()
	// The days around the changes of 2026-03-29 and 2026-10-25.
	for kind, table := range kindsOfTables(t) {
		if table.Grid.Axis() == rolling.Sequence {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			setup := open(t)
			run(t, setup, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET TimeZone = ''Europe/Berlin''', current_database()); "+
				"EXECUTE format('ALTER DATABASE %I SET DateStyle = ''German''', current_database()); END $$")
			db, err := postgres.Open(within(t), setup.Target())
			must(t, err)
			defer db.Close()
			var parts []rolling.Partition
			for _, day := range []string{"2026-03-28", "2026-03-29", "2026-03-30", "2026-10-24", "2026-10-25", "2026-10-26"} {
				at, err := time.Parse(time.DateOnly, day)
				must(t, err)
				p, err := table.Grid.At(rolling.Position(at))
				must(t, err)
				parts = append(parts, table.Grid.Named(p))
			}
			d, err := rolling.ReadDefinition("CREATE TABLE r (id INTEGER NOT NULL, ts " + kind + " NOT NULL, PRIMARY KEY (id, ts))")
			must(t, err)
			table.Definition = d
			must(t, db.Apply(within(t), engine.CreateTable{Table: table, Partitions: parts[:2]}))
			step(t, db, engine.CreatePartitions{Table: table, Have: parts[:2], New: parts[2:]})
			wantParts(t, db, table, parts)
			// Each hour is in the period of its UTC day.
			w := db.Words()
			for i, p := range parts {
				for hour := range int64(24) {
					run(t, db, fmt.Sprintf("INSERT INTO r VALUES (%d, %s)", i*24+int(hour), w.FromPosition(table, fmt.Sprint(p.From+hour*3600e6))))
				}
				wantValue(t, db, "SELECT count(*) FROM "+w.From(table, p), "24")
			}
			apart(t, db, table, "apart")
			run(t, db, "INSERT INTO apart SELECT * FROM "+w.From(table, parts[1]))
			step(t, db, engine.Replace{Table: table, Have: parts, Old: parts[1:2], New: parts[1], With: "apart", Out: []string{"out"}})
			step(t, db, engine.Detach{Table: table, Have: parts, Part: parts[1], Into: "gone"})
			step(t, db, engine.Attach{Table: table, Have: parts, Part: parts[1], From: "gone"})
			wantParts(t, db, table, parts)
		})
	}
	// For comparison, a day of that zone.
	db := open(t)
	c := session(t, db)
	exec(t, c, "CREATE TABLE days (ts TIMESTAMPTZ NOT NULL) PARTITION BY RANGE (ts)", "SET TimeZone = 'Europe/Berlin'",
		"CREATE TABLE day PARTITION OF days FOR VALUES FROM ('2026-03-29') TO ('2026-03-30')", "SET TimeZone = 'UTC'")
	got, err := c.Exec(within(t), "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE relname = 'day'").ReadAll()
	if err != nil || string(got[0].Rows[0][0]) != "FOR VALUES FROM ('2026-03-28 23:00:00+00') TO ('2026-03-29 22:00:00+00')" {
		t.Errorf("%s, %v", got[0].Rows[0][0], err)
	}
}

// TestBoundsOfCoarseColumns checks that a column of days refuses hourly periods.
func TestBoundsOfCoarseColumns(t *testing.T) {
	t.Parallel()
	db := open(t)
	hours, err := rolling.Parse("1h")
	must(t, err)
	table := kindsOfTables(t)["date"]
	table.Grid = hours
	table.Definition, err = rolling.ReadDefinition("CREATE TABLE r (ts DATE NOT NULL PRIMARY KEY)")
	must(t, err)
	p, err := hours.At(3600e6)
	must(t, err)
	var hint *engine.HintError
	if err := db.Apply(within(t), engine.CreateTable{Table: table, Partitions: []rolling.Partition{hours.Named(p)}}); !errors.As(err, &hint) {
		t.Errorf("got %v", err)
	}
}

// TestRebuiltSizes compares a rebuilt period with a period whose rows arrived in random order.
func TestRebuiltSizes(t *testing.T) {
	t.Parallel()
	db := open(t)
	for name, c := range map[string]struct {
		rows            int
		columns, values string
		indexes         []string
		most            float64 // limit on the share of the original bytes
	}{
		"narrow rows, three secondary indexes": {60000, "register INT NOT NULL, price REAL NOT NULL, total NUMERIC(12,2) NOT NULL",
			"(random() * 1000)::int, random() * 500, (random() * 1000)::numeric(12,2)", []string{"(price, register)", "(register, n)", "(total)"}, 0.9},
		"rows of 2.5 kB in five values": {6000, `a TEXT COLLATE "C" CHECK (a <> ''), "b c" VARCHAR(600) DEFAULT 'x', d BYTEA, e JSON, f JSONB`,
			"repeat(md5(n::text), 16), repeat(md5((n * 2)::text), 16), decode(repeat(md5((n * 3)::text), 32), 'hex'), " +
				"to_json(repeat(md5((n * 5)::text), 16)), jsonb_build_object('k', repeat(md5((n * 7)::text), 16), 'n', 1.10)", []string{"(lower(a))"}, 0.4},
		"rows of 500 bytes":                {6000, "a TEXT", "repeat(md5(n::text), 16)", nil, 1.05},
		"a generated column, rows of 4 kB": {1000, "a TEXT, l INT GENERATED ALWAYS AS (length(a)) STORED", "repeat(md5(n::text), 128)", nil, 1.05},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, db, "DROP TABLE IF EXISTS rolls, apart, out", "CREATE TABLE rolls (id BIGINT NOT NULL, n INT NOT NULL, "+c.columns+", PRIMARY KEY (id)) PARTITION BY RANGE (id)")
			for _, columns := range c.indexes {
				run(t, db, "CREATE INDEX ON rolls "+columns)
			}
			table, _ := rollingTable(t, "rolls", 1)
			p := rolling.Partition{Name: "p", Period: rolling.Period{From: 0, To: 1000000}}
			parts := []rolling.Partition{p}
			must(t, enginetest.Try(t, db, engine.CreatePartitions{Table: table, New: parts}))
			into := "id, n"
			before, err := db.Describe(within(t), "rolls")
			must(t, err)
			for _, column := range before.Columns[2:] {
				if !column.Generated {
					into += ", " + db.Dialect().Quote(column.Name)
				}
			}
			run(t, db, fmt.Sprintf("INSERT INTO rolls (%s) SELECT n, n, %s FROM (SELECT n FROM generate_series(1, %d) n ORDER BY md5(n::text)) r", into, c.values, c.rows))
			hash := func() string { return value(t, db, "SELECT "+db.Words().RowHash(before.Columns)+" FROM rolls") }
			sum := hash()
			run(t, db, db.Words().CreateTemplate(table, "apart", engine.Storage{Compress: true})...)
			run(t, db, fmt.Sprintf("INSERT INTO apart (%s) SELECT %[1]s FROM rolls_p ORDER BY id", into))
			size := func() engine.Sizes {
				t.Helper()
				s, err := db.Catalog().Sizes(within(t), table)
				must(t, err)
				return s
			}
			plain := size()
			step(t, db, engine.Replace{Table: table, Have: parts, Old: parts, New: p, With: "apart", Out: []string{"out"}})
			rebuilt := size()
			share := float64(rebuilt.Data+rebuilt.Index) / float64(plain.Data+plain.Index)
			t.Logf("%d rows: %d + %d bytes, rebuilt %d + %d, %.0f%%", c.rows, plain.Data, plain.Index, rebuilt.Data, rebuilt.Index, share*100)
			if share > c.most {
				t.Errorf("rebuilt it takes %.2f of the bytes", share)
			}
			if got := hash(); got != sum {
				t.Errorf("the rows have changed: %s, before %s", got, sum)
			}
			after, err := db.Describe(within(t), "rolls_p")
			must(t, err)
			if d := cmp.Diff(before.Columns, after.Columns); d != "" {
				t.Error(d)
			}
			if got, want := len(after.Indexes), len(before.Indexes); got != want {
				t.Errorf("%d secondary indexes, want %d", got, want)
			}
			wantValue(t, db, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'rolls_p'::regclass AND attnum > 0 AND attstorage = 'x'", "0")
		})
	}
}
