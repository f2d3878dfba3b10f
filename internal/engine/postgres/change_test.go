package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/postgres"
	"github.com/rowmill/rowmill/rolling"
)

// rolls creates the table rolls with n periods. The first filled periods have 100 rows each.
func rolls(t testing.TB, db *postgres.DB, n, filled int) (*engine.Table, []rolling.Partition) {
	t.Helper()
	table, parts := rollingTable(t, "rolls", n)
	table.Indexes = []engine.Index{{Name: "n", Columns: []string{"n"}}}
	must(t, db.Apply(within(t), engine.CreateTable{Table: table, Partitions: parts}))
	run(t, db, fmt.Sprintf("INSERT INTO rolls SELECT n, n FROM generate_series(0, %d) n", filled*100-1))
	return table, parts
}

// apart creates a detached table with the rows of the given periods.
func apart(t testing.TB, db *postgres.DB, table *engine.Table, name string, parts ...rolling.Partition) {
	t.Helper()
	run(t, db, db.Words().CreateTemplate(table, name, engine.Storage{Compress: true})...)
	for _, p := range parts {
		run(t, db, fmt.Sprintf("INSERT INTO %s SELECT * FROM %s ORDER BY id", db.Dialect().Quote(name), db.Words().From(table, p)))
	}
}

func partitions(t testing.TB, db *postgres.DB, table *engine.Table) []rolling.Partition {
	t.Helper()
	got, err := db.Catalog().Partitions(within(t), table)
	must(t, err)
	return got
}

func wantParts(t testing.TB, db *postgres.DB, table *engine.Table, want []rolling.Partition) {
	t.Helper()
	if got := partitions(t, db, table); !slices.Equal(got, want) {
		t.Errorf("partitions %v, want %v", got, want)
	}
}

func wantTables(t testing.TB, db *postgres.DB, want string) {
	t.Helper()
	if got := tables(t, db); got != want {
		t.Errorf("tables %s, want %s", got, want)
	}
}

// tables returns the names of the database's tables, in order.
func tables(t testing.TB, db *postgres.DB) string {
	t.Helper()
	return value(t, db, "SELECT string_agg(relname, ' ' ORDER BY relname) FROM pg_class WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace")
}

// tablesOf returns the names of a table with these periods and of others, in order.
func tablesOf(parts []rolling.Partition, others ...string) string {
	names := append(others, "readings")
	for _, p := range parts {
		names = append(names, "readings_"+p.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func pending(t testing.TB, db *postgres.DB) string {
	t.Helper()
	return value(t, db, "SELECT count(*) FROM pg_inherits WHERE inhdetachpending")
}

// step applies a step twice: the second time there is nothing to do.
func step(t testing.TB, db *postgres.DB, s engine.Step) {
	t.Helper()
	for range 2 {
		if err := enginetest.Try(t, db, s); err != nil {
			t.Fatalf("%T: %v", s, err)
		}
	}
}

// before calls fn once, before the first statement that contains text is sent.
func before(db *postgres.DB, text string, fn func(c *pgconn.PgConn)) {
	db.SetBefore(func(c *pgconn.PgConn, statements []string) {
		if strings.Contains(strings.Join(statements, "; "), text) {
			db.SetBefore(nil)
			fn(c)
		}
	})
}

// TestKilledBetweenStatements checks that a step whose connection is lost at
// any statement ends in the same state when it is tried again.
func TestKilledBetweenStatements(t *testing.T) {
	t.Parallel()
	enginetest.Interrupter{
		Open: func(t testing.TB) engine.Keeper { return open(t) },
		Break: func(t testing.TB, k engine.Keeper, n int) func() bool {
			db, sent := k.(*postgres.DB), 0
			db.SetBefore(func(c *pgconn.PgConn, _ []string) {
				if sent == n {
					value(t, db, fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", c.PID()))
				}
				sent++
			})
			return func() bool {
				db.SetBefore(nil)
				return sent > n
			}
		},
		Clean: func(t testing.TB, k engine.Keeper, parts []rolling.Partition) {
			db := k.(*postgres.DB)
			wantTables(t, db, tablesOf(parts))
			wantValue(t, db, "SELECT count(*) FROM pg_constraint c JOIN pg_class r ON r.oid = c.conrelid AND r.relispartition WHERE contype = 'c'", "0")
		},
		Every: true,
	}.Run(t)
}

// TestPartitionsBesideTransactions checks that an open transaction on the table
// delays neither the creation of a partition nor inserts. A step that needs a
// period exclusively fails in time and leaves no trace.
func TestPartitionsBesideTransactions(t *testing.T) {
	t.Parallel()
	i := enginetest.Interrupter{Every: true, Open: func(t testing.TB) engine.Keeper {
		db := open(t)
		db.SetQuietWait(200 * time.Millisecond)
		return db
	}}
	i.Prepared(t, func(t *testing.T, k engine.Keeper, table *engine.Table, s engine.Step, after []rolling.Partition, left []string) {
		t.Parallel()
		db, waits := k.(*postgres.DB), true
		switch s.(type) {
		case engine.Attach, engine.CreatePartitions, engine.DropTables:
			waits = false
		}
		state := func() string {
			return fmt.Sprint(partitions(t, db, table), value(t, db, "SELECT count(*) FROM readings"), tables(t, db), pending(t, db))
		}
		busy, before := session(t, db), state()
		exec(t, busy, "BEGIN", "UPDATE readings SET n = 1")
		parts := partitions(t, db, table)
		inserts := watchInserts(t, db, "readings (id, ts) VALUES (-1, "+db.Words().Literal(table, parts[len(parts)-1].From)+") ON CONFLICT (id, ts)")
		err := db.Try(within(t), s)
		if waits && (!errors.Is(err, engine.ErrLockTimeout) || !strings.Contains(err.Error(), fmt.Sprint("process ", busy.PID()))) || !waits && err != nil {
			t.Errorf("beside a transaction of process %d: %v", busy.PID(), err)
		}
		// No insert has waited for the transaction.
		if longest := inserts(); longest > 500*time.Millisecond {
			t.Errorf("an insert took %v", longest)
		}
		run(t, db, "DELETE FROM readings WHERE id = -1")
		if now := state(); waits && now != before {
			t.Errorf("%s, before %s", now, before)
		}
		blockers, err := db.Blockers(within(t), table)
		if err != nil || len(blockers) != 1 || blockers[0].ID != int64(busy.PID()) || blockers[0].Age <= 0 ||
			blockers[0].Host != "local" || blockers[0].User == "" || !strings.HasPrefix(blockers[0].Statement, "UPDATE readings") {
			t.Errorf("blockers %+v, %v", blockers, err)
		}
		exec(t, busy, "COMMIT")
		step(t, db, s)
		wantParts(t, db, table, after)
		wantTables(t, db, tablesOf(after, left...))
	})
}

// watchInserts upserts one row into a table, in a period that the steps do not touch, until the
// returned function is called, which returns how much longer the slowest statement took than the
// slowest one on an unused table.
func watchInserts(t testing.TB, db *postgres.DB, into string) (stop func() time.Duration) {
	t.Helper()
	run(t, db, "DROP TABLE IF EXISTS unused", "CREATE TABLE unused (id int PRIMARY KEY, n int)")
	upsert := func(into string) func(int) error {
		c := session(t, db)
		return func(int) error {
			_, err := c.Exec(context.Background(), "INSERT INTO "+into+" DO UPDATE SET n = -1").ReadAll()
			return err
		}
	}
	longer := enginetest.Stall(t, upsert(into), upsert("unused VALUES (399, -1) ON CONFLICT (id)"))
	return func() time.Duration {
		defer run(t, db, "DROP TABLE unused")
		return longer()
	}
}

// TestStall runs steps during inserts, and begins a transaction just before a
// step takes its lock. No insert may wait for longer than the bound.
func TestStall(t *testing.T) {
	t.Parallel()
	db := open(t)
	table, parts := rolls(t, db, 4, 4)
	run(t, db, "INSERT INTO rolls SELECT n, n FROM generate_series(0, 99) n ON CONFLICT DO NOTHING")
	inserts := watchInserts(t, db, "rolls VALUES (399, -1) ON CONFLICT (id)")
	for i := range 3 {
		name := fmt.Sprint("with", i)
		apart(t, db, table, name, parts[:1]...)
		step(t, db, engine.Replace{Table: table, Have: parts, Old: parts[:1], New: parts[0], With: name, Out: []string{fmt.Sprint("out", i)}})
	}
	step(t, db, engine.AddColumn{Table: table, Have: parts, Name: "x", Definition: "x INT"})
	step(t, db, engine.Detach{Table: table, Have: parts, Part: parts[1], Into: "gone"})
	step(t, db, engine.Attach{Table: table, Have: parts, Part: parts[1], From: "gone"})
	t.Logf("longest insert beside 3 replaces, an added column, a detach and an attach: %v", inserts())

	for text, s := range map[string]engine.Step{
		"LOCK TABLE":   engine.AddColumn{Table: table, Have: parts, Name: "y", Definition: "y INT"},
		"CONCURRENTLY": engine.Detach{Table: table, Have: parts, Part: parts[2], Into: "gone2"},
	} {
		busy := session(t, db)
		inserts = watchInserts(t, db, "rolls VALUES (399, -1) ON CONFLICT (id)")
		before(db, text, func(*pgconn.PgConn) { exec(t, busy, "BEGIN", "SELECT count(*) FROM rolls") })
		if err := db.Try(within(t), s); !errors.Is(err, engine.ErrLockTimeout) {
			t.Errorf("%T: %v", s, err)
		}
		longest := inserts()
		t.Logf("longest insert beside a %T that waits for a transaction: %v", s, longest)
		if longest > 2*time.Second { // the bound is 1 s, the rest is for a busy machine
			t.Errorf("an insert waited %v", longest)
		}
		exec(t, busy, "COMMIT")
		step(t, db, s)
	}
}

// TestReplaceBesideSnapshots checks that Replace waits for a transaction whose
// snapshot is older than the new rows: it would see neither them nor the old rows.
func TestReplaceBesideSnapshots(t *testing.T) {
	// A transaction in any database affects the snapshots of all databases.
	db := openAlone(t)
	db.SetQuietWait(100 * time.Millisecond)
	table, parts := rolls(t, db, 2, 2)
	run(t, db, "CREATE TABLE other AS SELECT 1 AS one")
	reader := session(t, db)
	exec(t, reader, "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT * FROM other")
	// A transaction that writes in another database for hours: snapshots taken
	// meanwhile have its ID as their xmin.
	foreign := session(t, openAlone(t))
	exec(t, foreign, "BEGIN", "CREATE TABLE written (n INT)")
	apart(t, db, table, "apart", parts[0])
	s := engine.Replace{Table: table, Have: parts, Old: parts[:1], New: parts[0], With: "apart", Out: []string{"out"}}
	if err := db.Try(within(t), s); !errors.Is(err, engine.ErrLockTimeout) || !strings.Contains(err.Error(), "snapshot") {
		t.Fatalf("beside an old snapshot: %v", err)
	}
	sees := func() {
		t.Helper()
		rows, err := reader.Exec(within(t), "SELECT count(*) FROM rolls").ReadAll()
		if err != nil || string(rows[0].Rows[0][0]) != "200" {
			t.Errorf("the reader sees %s rows, %v", rows[0].Rows[0][0], err)
		}
	}
	sees()
	exec(t, reader, "COMMIT", "BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT * FROM other")
	// This snapshot is newer than the table's rows.
	step(t, db, s)
	sees()
}

// TestOrphans checks that a partition's table that a crash between DETACH and
// DROP left behind is dropped with the next partition, or with the table.
func TestOrphans(t *testing.T) {
	t.Parallel()
	db := open(t)
	table, parts := rolls(t, db, 4, 4)
	orphan := func(i int) {
		t.Helper()
		before(db, "DROP TABLE", func(c *pgconn.PgConn) {
			value(t, db, fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", c.PID()))
		})
		if err := db.Apply(within(t), engine.DropPartition{Table: table, Have: parts[i:], Drop: parts[i]}); !errors.Is(err, engine.ErrConnectionLost) {
			t.Fatal(err)
		}
		if got := tables(t, db); !strings.Contains(got, parts[i].Name) {
			t.Fatalf("tables %s: none stayed behind", got)
		}
	}
	orphan(0)
	must(t, db.Apply(within(t), engine.DropPartition{Table: table, Have: parts[1:], Drop: parts[1]}))
	wantTables(t, db, "rolls rolls_"+parts[2].Name+" rolls_"+parts[3].Name)
	// An orphan that a later step needs is not dropped.
	before(db, "DETACH", func(c *pgconn.PgConn) { value(t, db, fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", c.PID())) })
	if err := db.Apply(within(t), engine.DropPartition{Table: table, Have: parts[2:], Drop: parts[3]}); !errors.Is(err, engine.ErrConnectionLost) {
		t.Fatal(err)
	}
	step(t, db, engine.Detach{Table: table, Have: parts[2:], Part: parts[3], Into: "wanted"})
	orphan(2)
	// A table with a partition's name that never was a partition stays.
	run(t, db, "CREATE TABLE rolls_"+parts[1].Name+" (id BIGINT)")
	err := db.Apply(within(t), engine.DropPartition{Table: table, Have: parts, Drop: parts[1]})
	var hint *engine.HintError
	if err == nil || !errors.As(err, &hint) {
		t.Errorf("a table that was no partition is dropped: %v", err)
	}
	must(t, db.Apply(within(t), engine.DropTable{Table: table, Partitions: parts}))
	wantTables(t, db, "rolls_"+parts[1].Name+" wanted")
}

// TestPartitionsOfOthers checks that partitions created outside rowmill keep their names.
func TestPartitionsOfOthers(t *testing.T) {
	t.Parallel()
	db := open(t)
	table, parts := rolls(t, db, 2, 2)
	run(t, db, "ALTER TABLE rolls_"+parts[0].Name+` RENAME TO "the ""first"""`)
	got := partitions(t, db, table)
	if got[0].Name != `"the ""first"""` || got[1] != parts[1] {
		t.Fatalf("partitions %v", got)
	}
	if sizes, err := db.PeriodSizes(within(t), table); err != nil || sizes[got[0].Name].Rows != 100 || sizes[got[0].Name].Data == 0 || sizes[got[0].Name].Index == 0 {
		t.Errorf("sizes %v, %v", sizes, err)
	}
	wantValue(t, db, "SELECT count(*) FROM "+db.Words().From(table, got[0]), "100")
	apart(t, db, table, "apart", got[0])
	step(t, db, engine.Replace{Table: table, Have: got, Old: got[:1], New: got[0], With: "apart", Out: []string{"out"}})
	step(t, db, engine.Detach{Table: table, Have: got, Part: got[0], Into: "gone"})
	step(t, db, engine.Attach{Table: table, Have: got, Part: got[0], From: "gone"})
	wantParts(t, db, table, got)
}

func TestChangesThatAreRefused(t *testing.T) {
	t.Parallel()
	db := open(t)
	table, parts := rolls(t, db, 3, 3)
	run(t, db, "CREATE TABLE taken (id BIGINT)", "CREATE VIEW v AS SELECT 1 AS one")
	apart(t, db, table, "apart")
	run(t, db, "INSERT INTO apart VALUES (5000, 1)")
	next := rolling.Partition{Name: "next", Period: rolling.Period{From: 300, To: 400}}
	replace := engine.Replace{Table: table, Have: parts, Old: parts[:1], New: parts[0], With: "apart", Out: []string{"out"}}
	with := func(change func(*engine.Replace)) engine.Replace {
		r := replace
		change(&r)
		return r
	}
	long := strings.Repeat("x", 64)
	for name, c := range map[string]struct {
		step engine.Step
		want string
	}{
		"detach into a table that is there": {engine.Detach{Table: table, Part: parts[0], Into: "taken"}, "there is a table taken already"},
		"detach into a long name":           {engine.Detach{Table: table, Part: parts[0], Into: long}, "63 bytes"},
		"detach nothing":                    {engine.Detach{Table: table, Part: next, Into: "gone"}, "neither this partition nor table gone"},
		"attach rows outside":               {engine.Attach{Table: table, Part: next, From: "apart"}, "rowmill_bounds_300_400"},
		"attach other columns":              {engine.Attach{Table: table, Part: next, From: "taken"}, `column "n" does not exist`},
		"attach a partition":                {engine.Attach{Table: table, Part: next, From: "rolls_" + parts[0].Name}, "not a standalone table"},
		"attach a view":                     {engine.Attach{Table: table, Part: next, From: "v"}, "not a standalone table"},
		"attach where there is one":         {engine.Attach{Table: table, Part: parts[0], From: "apart"}, "already"},
		"attach, overlapping":               {engine.Attach{Table: table, Part: rolling.Partition{Name: "over", Period: rolling.Period{From: 250, To: 6000}}, From: "apart"}, "overlap"},
		"replace by rows outside":           {replace, "rowmill_bounds_0_100"},
		"replace what isn't there":          {with(func(r *engine.Replace) { r.Old, r.New = []rolling.Partition{next}, next }), "no partition next"},
		"replace by nothing":                {with(func(r *engine.Replace) { r.With = "nothing" }), "no table nothing"},
		"replace into a table":              {with(func(r *engine.Replace) { r.Out = []string{"taken"} }), "a table taken already"},
		"replace by itself":                 {with(func(r *engine.Replace) { r.With = "rolls" }), "its own partition"},
		"replace to nowhere":                {with(func(r *engine.Replace) { r.Out = nil }), "0 tables"},
		"replace none":                      {with(func(r *engine.Replace) { r.Old, r.Out = nil, nil }), "0 partitions, and 0 tables"},
		"replace by other bounds":           {with(func(r *engine.Replace) { r.New.To = 150 }), "other bounds"},
		"replace what isn't adjacent": {with(func(r *engine.Replace) {
			r.Old, r.Out, r.New.To = []rolling.Partition{parts[0], parts[2]}, []string{"a", "b"}, 300
		}), "not adjacent"},
		"drop a partition as a table": {engine.DropTables{Names: []string{"rolls_" + parts[0].Name}}, "is a partition of rolls"},
		"drop a view":                 {engine.DropTables{Names: []string{"v"}}, "not a table"},
		"no definition":               {engine.AddColumn{Table: table, Name: "x"}, "no definition"},
		"a definition of nonsense":    {engine.AddColumn{Table: table, Name: "x", Definition: "x NONSENSE"}, "nonsense"},
		"a column that takes long":    {engine.AddColumn{Table: table, Name: "x", Definition: "x TEXT DEFAULT pg_sleep(0.1)"}, "takes more than 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			err := db.Try(within(t), c.step)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			wantParts(t, db, table, parts)
		})
	}
	wantValue(t, db, "SELECT count(*) FROM rolls", "300")
}
