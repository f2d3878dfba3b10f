package postgres_test

import (
	"cmp"
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
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

func open(t testing.TB) *postgres.DB {
	t.Helper()
	return testdb.Open(t, "postgres").(*postgres.DB)
}

// openAlone opens a database on a server that only this package uses, for tests
// that can't share a server with others.
func openAlone(t testing.TB) *postgres.DB {
	t.Helper()
	return testdb.Open(t, "postgres?memory=65MB").(*postgres.DB)
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// session opens another connection, for statements that a writer can't send.
func session(t testing.TB, db *postgres.DB) *pgconn.PgConn {
	t.Helper()
	c, err := db.Dial(within(t))
	must(t, err)
	t.Cleanup(func() { c.Close(context.Background()) })
	return c
}

func exec(t testing.TB, c *pgconn.PgConn, statements ...string) {
	t.Helper()
	for _, q := range statements {
		if _, err := c.Exec(within(t), q).ReadAll(); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

func value(t testing.TB, db *postgres.DB, q string) string {
	t.Helper()
	rows, err := db.Query(within(t), q)
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return string(rows[0][0])
}

var small, rowsOf, must = enginetest.Small, enginetest.RowsOf, enginetest.Must

func smallWriter(t testing.TB, db *postgres.DB, m engine.Method) engine.Writer {
	t.Helper()
	return enginetest.SmallWriter(t, db, m)
}

// blocked waits until a connection waits for a lock.
func blocked(t testing.TB, db *postgres.DB, pid int64) {
	t.Helper()
	for !waits(t, db, pid) {
		time.Sleep(5 * time.Millisecond)
	}
}

func waits(t testing.TB, db *postgres.DB, pid int64) bool {
	t.Helper()
	return value(t, db, fmt.Sprintf("SELECT count(*) FROM pg_locks WHERE pid = %d AND NOT granted", pid)) != "0"
}

func TestServer(t *testing.T) {
	enginetest.RunServer(t, enginetest.Server{
		Open:      func(t testing.TB) engine.Keeper { return open(t) },
		ID:        postgres.PID,
		Waits:     func(t testing.TB, db engine.Keeper, pid int64) bool { return waits(t, db.(*postgres.DB), pid) },
		ShortWait: func(c any) error { return postgres.Run(c, "SET lock_timeout = '10ms'") },
		// The server aborts the transaction whose deadlock check runs first.
		Survive: []string{"SET LOCAL deadlock_timeout = '1h'"},
		Lock:    "LOCK TABLE small",
		Holder: func(t testing.TB, db engine.Keeper, _ string) (pid int64) {
			_ = db.SQL().QueryRowContext(t.Context(), "SELECT pid FROM pg_locks WHERE locktype = 'advisory' "+
				"AND database = (SELECT oid FROM pg_database WHERE datname = current_database())").Scan(&pid)
			return pid
		},
		LockTries: func(db engine.Keeper, n int) { db.(*postgres.DB).SetLockTries(cmp.Or(n, postgres.LockTries)) },
	})
}

func wantCount(t testing.TB, db *postgres.DB, want int) {
	t.Helper()
	if n := value(t, db, "SELECT count(*) FROM small"); n != fmt.Sprint(want) {
		t.Errorf("%s rows, want %d", n, want)
	}
}

// TestWriterOfSlowMachine checks that a writer receives everything that the
// server sends. pgconn reads in the background while a write takes long,
// possibly still when the session is prepared.
func TestWriterOfSlowMachine(t *testing.T) {
	t.Parallel()
	db := open(t)
	db.LingerInWrites(60 * time.Millisecond)
	for _, m := range []engine.Method{engine.Single, engine.Multi} {
		w := smallWriter(t, db, m)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := w.Write(ctx, rowsOf(1, 2)); err != nil {
			t.Fatalf("%s: %v", m, err)
		}
	}
	wantCount(t, db, 2)
}

// TestIdleConnectionKilled checks that the catalog and the pool recover when the
// server terminates their connections.
func TestIdleConnectionKilled(t *testing.T) {
	t.Parallel()
	db := open(t)
	pid := value(t, db, "SELECT pg_backend_pid()")
	other := session(t, db)
	exec(t, other, "SELECT pg_terminate_backend("+pid+", 5000)")
	if got := value(t, db, "SELECT pg_backend_pid()"); got == pid {
		t.Error("the connection was not ended")
	}
	_, err := db.SQL().ExecContext(within(t), "SELECT pg_terminate_backend(pg_backend_pid())")
	if got := db.Classify(err); !errors.Is(got, engine.ErrConnectionLost) {
		t.Errorf("got %v", got)
	}
	run(t, db, "SELECT 1")
}

func rollingTable(t testing.TB, name string, n int) (*engine.Table, []rolling.Partition) {
	t.Helper()
	table := small()
	table.Name, table.By = name, "id"
	var err error
	if table.Grid, err = rolling.Parse("100 rows"); err != nil {
		t.Fatal(err)
	}
	var parts []rolling.Partition
	for pos := int64(0); len(parts) < n; pos = parts[len(parts)-1].To {
		p, err := table.Grid.At(pos)
		must(t, err)
		parts = append(parts, table.Grid.Named(p))
	}
	return table, parts
}

// TestApplyRunsWhatRenderShows compares rendered statements with the server's
// log.
func TestApplyRunsWhatRenderShows(t *testing.T) {
	t.Parallel()
	const kind = "postgres?set=log_statement=all,log_line_prefix=%25p%20"
	target := testdb.Target(t, kind)
	db, err := postgres.Open(within(t), target)
	must(t, err)
	defer db.Close()
	table, parts := rollingTable(t, `it's`, 3)
	table.Indexes = []engine.Index{{Name: "n", Columns: []string{"n"}}}
	steps := []engine.Step{
		engine.CreateTable{Table: table, Partitions: parts[:1]}, engine.CreatePartitions{Table: table, Have: parts[:1], New: parts[1:]},
		engine.DropPartition{Table: table, Have: parts, Drop: parts[0]}, engine.DropTable{Table: table},
	}
	must(t, db.Apply(within(t), steps...))
	dry, err := postgres.Dry(target)
	must(t, err)
	var want []string
	for i, s := range append([]engine.Step{engine.Connect{Maintenance: true}}, steps...) {
		d := dry.Dialect()
		if i == 0 {
			d = db.Dialect() // a dry run has no search path of a server
		}
		statements, err := d.Render(s)
		must(t, err)
		if i == 0 {
			statements = []string{strings.Join(statements, "; ")}
		}
		want = append(want, statements...)
	}
	log := testdb.Server(t, kind).LogTail()
	_, log, found := strings.Cut(log, "LOG:  statement: "+want[0]+"\n")
	if !found {
		t.Fatalf("no session of maintenance in the server's log:\n%s", log)
	}
	var got []string
	for line := range strings.Lines(log) {
		if _, q, ok := strings.Cut(line, "LOG:  statement: "); ok {
			got = append(got, strings.TrimSuffix(q, "\n"))
		} else if rest, ok := strings.CutPrefix(line, "\t"); ok && len(got) > 0 { // continues a statement of several lines
			got[len(got)-1] += "\n" + strings.TrimSuffix(rest, "\n")
		}
	}
	got = got[:min(len(got), len(want)-1)]
	if !slices.Equal(got, want[1:]) {
		t.Errorf("the server got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want[1:], "\n"))
	}
}
