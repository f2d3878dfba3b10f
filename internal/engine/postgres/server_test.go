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

// small is a table with a key and a number.
func small() *engine.Table {
	return &engine.Table{
		Name: "small", Columns: []engine.Column{{Name: "id", Type: engine.Int64}, {Name: "n", Type: engine.Int32}},
		PrimaryKey: []string{"id"},
	}
}

func rowsOf(ids ...int64) *engine.Batch {
	b := engine.NewBatch(small().Columns)
	for _, id := range ids {
		b.Columns[0].Ints = append(b.Columns[0].Ints, id)
		b.Columns[1].Ints = append(b.Columns[1].Ints, 1)
		b.EndRow()
	}
	return b
}

// session opens another connection, for statements that a writer can't send.
func session(t testing.TB, db *postgres.DB) *pgconn.PgConn {
	t.Helper()
	c, err := db.Dial(within(t))
	if err != nil {
		t.Fatal(err)
	}
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

func smallWriter(t testing.TB, db *postgres.DB, m engine.Method) engine.Writer {
	t.Helper()
	if err := db.Apply(within(t), engine.DropTable{Table: small()}, engine.CreateTable{Table: small()}); err != nil {
		t.Fatal(err)
	}
	w, err := db.Writer(within(t), small(), m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// blocked waits until a connection waits for a lock.
func blocked(t testing.TB, db *postgres.DB, pid int64) {
	t.Helper()
	for value(t, db, fmt.Sprintf("SELECT count(*) FROM pg_locks WHERE pid = %d AND NOT granted", pid)) == "0" {
		time.Sleep(5 * time.Millisecond)
	}
}

func wantCount(t testing.TB, db *postgres.DB, want int) {
	t.Helper()
	if n := value(t, db, "SELECT count(*) FROM small"); n != fmt.Sprint(want) {
		t.Errorf("%s rows, want %d", n, want)
	}
}

// start calls Write in the background.
func start(ctx context.Context, w engine.Writer, b *engine.Batch) <-chan error {
	result := make(chan error, 1)
	go func() {
		_, err := w.Write(ctx, b)
		result <- err
	}()
	return result
}

func eachMethod(t *testing.T, run func(*testing.T, *postgres.DB, engine.Method)) {
	db := open(t)
	for _, m := range db.Capabilities().Methods {
		t.Run(string(m), func(t *testing.T) { run(t, db, m) })
	}
}

func TestDeadlock(t *testing.T) {
	t.Parallel()
	eachMethod(t, func(t *testing.T, db *postgres.DB, m engine.Method) {
		w, other := smallWriter(t, db, m), session(t, db)
		// The server aborts the transaction whose deadlock check runs first.
		exec(t, other, "SET deadlock_timeout = '1h'", "BEGIN", "INSERT INTO small VALUES (2, 1)")
		result := start(t.Context(), w, rowsOf(1, 2))
		blocked(t, db, postgres.PID(w)) // holds 1, waits for 2
		ended := make(chan error, 1)
		go func() {
			_, err := other.Exec(context.Background(), "INSERT INTO small VALUES (1, 1)").ReadAll()
			ended <- err
		}()
		err := <-result
		if !errors.Is(err, engine.ErrDeadlock) || !engine.Retryable(err) {
			t.Fatalf("got %v", err)
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		exec(t, other, "ROLLBACK")
		if _, err := w.Write(within(t), rowsOf(1, 2)); err != nil {
			t.Fatal(err)
		}
		wantCount(t, db, 2)
	})
}

func TestLockTimeout(t *testing.T) {
	t.Parallel()
	eachMethod(t, func(t *testing.T, db *postgres.DB, m engine.Method) {
		w, other := smallWriter(t, db, m), session(t, db)
		if err := postgres.Run(w, "SET lock_timeout = '10ms'"); err != nil {
			t.Fatal(err)
		}
		exec(t, other, "BEGIN", "INSERT INTO small VALUES (2, 1)")
		_, err := w.Write(within(t), rowsOf(1, 2))
		if !errors.Is(err, engine.ErrLockTimeout) || !engine.Retryable(err) {
			t.Fatalf("got %v", err)
		}
		// Key 1 must be free at once, before Reset.
		exec(t, other, "INSERT INTO small VALUES (1, 1)", "ROLLBACK")
		if _, err := w.Write(within(t), rowsOf(1, 2)); err != nil {
			t.Fatal(err)
		}
		wantCount(t, db, 2)
	})
}

// TestCancelWhileBlocked checks that a Write that waits for a lock ends with
// its context, and that its statements are executed neither then nor later.
func TestCancelWhileBlocked(t *testing.T) {
	t.Parallel()
	eachMethod(t, func(t *testing.T, db *postgres.DB, m engine.Method) {
		w, other := smallWriter(t, db, m), session(t, db)
		exec(t, other, "BEGIN", "INSERT INTO small VALUES (2, 1)")
		ctx, cancel := context.WithCancel(t.Context())
		result := start(ctx, w, rowsOf(1, 2))
		blocked(t, db, postgres.PID(w))
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v", err)
		}
		exec(t, other, "ROLLBACK")
		wantCount(t, db, 0)
		if _, err := w.Write(within(t), rowsOf(1)); !errors.Is(err, engine.ErrConnectionLost) {
			t.Errorf("a write before Reset: %v", err)
		}
		if err := w.Reset(within(t)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(within(t), rowsOf(1, 2)); err != nil {
			t.Errorf("after Reset: %v", err)
		}
		wantCount(t, db, 2)
	})
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

func TestConnectionKilled(t *testing.T) {
	t.Parallel()
	eachMethod(t, func(t *testing.T, db *postgres.DB, m engine.Method) {
		w, other := smallWriter(t, db, m), session(t, db)
		if _, err := w.Write(within(t), rowsOf(1)); err != nil {
			t.Fatal(err)
		}
		db.Kill(t.Context(), postgres.PID(w)) // between two batches
		lost := func(err error) {
			t.Helper()
			if !errors.Is(err, engine.ErrConnectionLost) || !engine.Retryable(err) {
				t.Fatalf("got %v", err)
			}
			if err := w.Reset(within(t)); err != nil {
				t.Fatal(err)
			}
		}
		_, err := w.Write(within(t), rowsOf(2, 3))
		lost(err)
		exec(t, other, "BEGIN", "INSERT INTO small VALUES (3, 1)")
		result := start(t.Context(), w, rowsOf(2, 3))
		blocked(t, db, postgres.PID(w))
		db.Kill(t.Context(), postgres.PID(w)) // during a batch
		lost(<-result)
		exec(t, other, "ROLLBACK")
		if _, err := w.Write(within(t), rowsOf(2, 3)); err != nil {
			t.Fatal(err)
		}
		wantCount(t, db, 3)
	})
}

// TestIdleConnectionKilled checks that the catalog recovers when the server
// terminates its idle connections.
func TestIdleConnectionKilled(t *testing.T) {
	t.Parallel()
	db := open(t)
	pid := value(t, db, "SELECT pg_backend_pid()")
	other := session(t, db)
	exec(t, other, "SELECT pg_terminate_backend("+pid+", 5000)")
	if got := value(t, db, "SELECT pg_backend_pid()"); got == pid {
		t.Error("the connection was not ended")
	}
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
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, table.Grid.Named(p))
	}
	return table, parts
}

// TestApplyWaitsForLock checks that DDL waits for transactions that use the
// table, for a bounded time.
func TestApplyWaitsForLock(t *testing.T) {
	t.Parallel()
	db := open(t)
	w, other := smallWriter(t, db, engine.Multi), session(t, db)
	if _, err := w.Write(within(t), rowsOf(1)); err != nil {
		t.Fatal(err)
	}
	exec(t, other, "BEGIN", "SELECT * FROM small")
	db.SetLockTries(1)
	if err := db.Apply(within(t), engine.DropTable{Table: small()}); !errors.Is(err, engine.ErrLockTimeout) {
		t.Fatalf("got %v", err)
	}
	db.SetLockTries(postgres.LockTries)
	result := make(chan error, 1)
	go func() { result <- db.Apply(t.Context(), engine.DropTable{Table: small()}) }()
	time.Sleep(2300 * time.Millisecond) // more than one try
	exec(t, other, "COMMIT")
	if err := <-result; err != nil {
		t.Fatalf("after the lock was free: %v", err)
	}
}

// TestApplyRunsWhatRenderShows compares rendered statements with the server's
// log.
func TestApplyRunsWhatRenderShows(t *testing.T) {
	t.Parallel()
	const kind = "postgres?set=log_statement=all,log_line_prefix=%25p%20"
	target := testdb.Target(t, kind)
	db, err := postgres.Open(within(t), target)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	table, parts := rollingTable(t, `it's`, 3)
	table.Indexes = []engine.Index{{Name: "n", Columns: []string{"n"}}}
	steps := []engine.Step{
		engine.CreateTable{Table: table, Partitions: parts[:1]}, engine.CreatePartitions{Table: table, Have: parts[:1], New: parts[1:]},
		engine.DropPartition{Table: table, Have: parts, Drop: parts[0]}, engine.DropTable{Table: table},
	}
	if err := db.Apply(within(t), steps...); err != nil {
		t.Fatal(err)
	}
	dry, err := postgres.Dry(target)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i, s := range append([]engine.Step{engine.Connect{Maintenance: true}}, steps...) {
		d := dry.Dialect()
		if i == 0 {
			d = db.Dialect() // a dry run has no search path of a server
		}
		statements, err := d.Render(s)
		if err != nil {
			t.Fatal(err)
		}
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
