package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
)

// byDriver is a DB whose loaders send through the driver, as with TLS.
type byDriver struct{ *mysql.DB }

func (d byDriver) Loader(ctx context.Context) (engine.Loader, error) {
	l, err := d.DB.Loader(ctx)
	if err == nil {
		mysql.LoadByDriver(l)
	}
	return l, err
}

func TestLoaderByDriver(t *testing.T) {
	enginetest.RunLoader(t, func(t testing.TB) engine.Keeper { return byDriver{testdb.Open(t, "mariadb").(*mysql.DB)} })
}

// smallStatements is a DB whose loaders send one row per statement in small
// inserts, and some hundred rows in large ones.
type smallStatements struct{ *mysql.DB }

func (s smallStatements) Loader(ctx context.Context) (engine.Loader, error) {
	l, err := s.DB.Loader(ctx)
	return smallStatementsLoader{l}, err
}

type smallStatementsLoader struct{ engine.Loader }

func (l smallStatementsLoader) Insert(ctx context.Context, t *engine.Table, b *engine.Batch, from, to int) (engine.Ack, error) {
	limit := 1
	if to-from > 100 {
		limit = 10_000
	}
	mysql.LimitLoader(l.Loader, limit)
	return l.Loader.Insert(ctx, t, b, from, to)
}

func TestLoaderSmallStatements(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"mysql", "mariadb-rocksdb"} {
		t.Run(kind, func(t *testing.T) {
			enginetest.RunLoader(t, func(t testing.TB) engine.Keeper { return smallStatements{testdb.Open(t, kind).(*mysql.DB)} })
		})
	}
}

func openLoader(t *testing.T, db *mysql.DB) engine.Loader {
	t.Helper()
	l, err := db.Loader(within(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func begin(t *testing.T, l engine.Loader) {
	t.Helper()
	if err := l.Begin(within(t)); err != nil {
		t.Fatal(err)
	}
}

func insert(t *testing.T, l engine.Loader, table *engine.Table, ids ...int64) (engine.Ack, error) {
	t.Helper()
	return l.Insert(within(t), table, rowsOf(ids...), 0, len(ids))
}

func mustInsert(t *testing.T, l engine.Loader, table *engine.Table, ids ...int64) {
	t.Helper()
	if ack, err := insert(t, l, table, ids...); err != nil || ack.Rows != int64(len(ids)) {
		t.Fatalf("insert %d: %+v, %v", ids, ack, err)
	}
}

func commit(t *testing.T, l engine.Loader) {
	t.Helper()
	if err := l.Commit(within(t)); err != nil {
		t.Fatal(err)
	}
}

func createSmall(t *testing.T, db *mysql.DB) *engine.Table {
	t.Helper()
	table := small()
	if err := db.Apply(within(t), engine.CreateTable{Table: table}); err != nil {
		t.Fatal(err)
	}
	return table
}

func countSmall(t *testing.T, db *mysql.DB) (n int) {
	t.Helper()
	if err := db.SQL().QueryRowContext(within(t), "SELECT COUNT(*) FROM small").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestLoaderSession: loader sessions are strict and in UTC, limit their waits and
// take no gap locks, also on another connection after Reset.
func TestLoaderSession(t *testing.T) { onEach(t, testLoaderSession) }

func testLoaderSession(t *testing.T, db *mysql.DB) {
	l := openLoader(t, db)
	isolation := "transaction_isolation"
	if db.Info().Engine == "mariadb" {
		isolation = "tx_isolation"
	}
	for range 2 {
		for _, is := range []string{
			"@@sql_mode LIKE '%STRICT_ALL_TABLES%'", "@@sql_mode LIKE '%NO_AUTO_VALUE_ON_ZERO%'", "@@sql_mode NOT LIKE '%NO_BACKSLASH%'",
			"@@time_zone = '+00:00'", "@@lock_wait_timeout = 10", "@@innodb_lock_wait_timeout = 10", "@@sql_notes = 0", "@@max_error_count = 65535",
			"@@" + isolation + " = 'READ-COMMITTED'", "@@character_set_client = 'utf8mb4'",
		} {
			if n, err := mysql.Number(l, "SELECT "+is); n != 1 || err != nil {
				t.Errorf("not %s: %v", is, err)
			}
		}
		db.Kill(within(t), mysql.ConnectionID(l))
		if err := l.Reset(within(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTrapBeginCommits: BEGIN commits an open transaction. A loader's Begin
// doesn't, not even after an error.
func TestTrapBeginCommits(t *testing.T) { onEach(t, testTrapBeginCommits) }

func testTrapBeginCommits(t *testing.T, db *mysql.DB) {
	table := createSmall(t, db)
	c := session(t, db)
	exec(t, c, "BEGIN", "INSERT INTO small VALUES (1, 1)", "BEGIN", "ROLLBACK")
	if countSmall(t, db) != 1 {
		t.Fatal("the server has mended its ways")
	}
	l := openLoader(t, db)
	begin(t, l)
	mustInsert(t, l, table, 2)
	if err := l.Begin(within(t)); err == nil {
		t.Error("begun twice")
	}
	if err := l.Reset(within(t)); err != nil {
		t.Fatal(err)
	}
	begin(t, l)
	mustInsert(t, l, table, 3)
	if _, err := insert(t, l, &engine.Table{Name: "nowhere", Columns: table.Columns}, 4); !errors.Is(err, engine.ErrNoTable) {
		t.Fatal(err)
	}
	if err := l.Begin(within(t)); err == nil {
		commit(t, l)
	}
	if n := countSmall(t, db); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
}

// TestTrapDuplicateLocksGap: with REPEATABLE READ, a row refused as a duplicate
// locks the keys around it until the transaction ends.
func TestTrapDuplicateLocksGap(t *testing.T) { onEach(t, testTrapDuplicateLocksGap) }

func testTrapDuplicateLocksGap(t *testing.T, db *mysql.DB) {
	table := createSmall(t, db)
	a, b := openLoader(t, db), openLoader(t, db)
	begin(t, a)
	mustInsert(t, a, table, 10, 20, 30)
	commit(t, a)
	begin(t, a)
	mustInsert(t, a, table, 1)
	if _, err := insert(t, a, table, 20); !errors.Is(err, engine.ErrDuplicateKey) {
		t.Fatal(err)
	}
	began := time.Now()
	begin(t, b)
	mustInsert(t, b, table, 15, 25)
	commit(t, b)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it waited for %v", took)
	}
	commit(t, a)
}

// TestLoaderRepeats: MyRocks has no savepoints to roll back to. The transaction's
// statements are sent again. If another transaction has taken a key in between, the
// whole transaction must be retried.
func TestLoaderRepeats(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "mariadb-rocksdb").(*mysql.DB)
	table := createSmall(t, db)
	c := session(t, db)
	exec(t, c, "BEGIN", "INSERT INTO small VALUES (1000, 1)", "SAVEPOINT a", "INSERT INTO small VALUES (1001, 1)")
	if _, err := c.ExecContext(within(t), "ROLLBACK TO SAVEPOINT a"); err == nil {
		t.Fatal("the server has learnt it")
	}
	exec(t, c, "ROLLBACK")
	ignores := *table
	ignores.Ignore = true
	l := openLoader(t, db)
	mysql.LimitLoader(l, 60)
	for i := range int64(3) {
		begin(t, l)
		mustInsert(t, l, table, i*100+1, i*100+2, i*100+3)
		for range 3 {
			if _, err := insert(t, l, table, i*100+4, i*100+5, i*100+1); !errors.Is(err, engine.ErrDuplicateKey) {
				t.Fatal(err)
			}
			if ack, err := insert(t, l, &ignores, i*100+1, i*100+6); err != nil || ack.Rows+ack.Skipped != 2 {
				t.Fatalf("%+v, %v", ack, err)
			}
		}
		commit(t, l)
		if n := countSmall(t, db); n != int(i+1)*4 {
			t.Errorf("%d rows after %d transactions", n, i+1)
		}
	}
	// A transaction that waits for a key may get it while the statements are sent
	// again. Either way, no row is lost or duplicated.
	for round := range int64(10) {
		key := 5000 + round
		begin(t, l)
		mustInsert(t, l, table, key)
		done := make(chan error, 1)
		go func() {
			_, err := db.Pool().ExecContext(context.WithoutCancel(t.Context()), fmt.Sprintf("INSERT INTO small VALUES (%d, 7)", key))
			done <- err
		}()
		time.Sleep(50 * time.Millisecond)
		_, err := insert(t, l, table, 6000, 1)
		switch {
		case errors.Is(err, engine.ErrRefused):
			commit(t, l)
		case engine.Retryable(err):
			if err := l.Reset(within(t)); err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatal(err)
		}
		other := db.Classify(<-done)
		if taken := other == nil; taken == errors.Is(err, engine.ErrRefused) || !taken && !errors.Is(other, engine.ErrDuplicateKey) {
			t.Fatalf("the loader got %v, the other %v", err, other)
		}
	}
	if n := countSmall(t, db); n != 12+10 {
		t.Errorf("%d rows", n)
	}
}

// TestLoaderKillQuery: after KILL QUERY, the whole transaction can be retried on
// the same connection.
func TestLoaderKillQuery(t *testing.T) { onEach(t, testLoaderKillQuery) }

func testLoaderKillQuery(t *testing.T, db *mysql.DB) {
	table := createSmall(t, db)
	a, b := openLoader(t, db), openLoader(t, db)
	begin(t, a)
	mustInsert(t, a, table, 1)
	begin(t, b)
	mustInsert(t, b, table, 2)
	id, done := mysql.ConnectionID(b), make(chan error, 1)
	ctx := within(t)
	go func() {
		_, err := b.Insert(ctx, table, rowsOf(1), 0, 1)
		done <- err
	}()
	time.Sleep(300 * time.Millisecond)
	exec(t, session(t, db), fmt.Sprintf("KILL QUERY %d", id))
	if err := <-done; !engine.Retryable(err) || errors.Is(err, engine.ErrRefused) || errors.Is(err, engine.ErrConnectionLost) {
		t.Errorf("got %v", err)
	}
	mustInsert(t, a, table, 2) // not locked by any session
	commit(t, a)
	if err := b.Reset(within(t)); err != nil {
		t.Fatal(err)
	}
	begin(t, b)
	mustInsert(t, b, table, 3)
	commit(t, b)
	if n := countSmall(t, db); n != 3 || mysql.ConnectionID(b) != id {
		t.Errorf("%d rows, connection %d, before %d", n, mysql.ConnectionID(b), id)
	}
}

// TestLoaderCancelCommit: the result of a COMMIT interrupted by the context's end
// is unknown, and the error reports this. Here, a lock delays the commit.
func TestLoaderCancelCommit(t *testing.T) { onEach(t, testLoaderCancelCommit) }

func testLoaderCancelCommit(t *testing.T, db *mysql.DB) {
	table := createSmall(t, db)
	l := openLoader(t, db)
	begin(t, l)
	mustInsert(t, l, table, 1)
	c := session(t, db)
	exec(t, c, "FLUSH TABLES WITH READ LOCK")
	ctx, cancel := context.WithTimeout(within(t), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := l.Commit(ctx)
	took := time.Since(began)
	exec(t, c, "UNLOCK TABLES")
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, engine.ErrConnectionLost) || took > 8*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
	if err := l.Reset(within(t)); err != nil {
		t.Fatal(err)
	}
	was := countSmall(t, db)
	begin(t, l)
	mustInsert(t, l, table, 2)
	commit(t, l)
	if n := countSmall(t, db); n != was+1 {
		t.Errorf("%d rows, %d before", n, was)
	}
}

// TestLoaderEncoders: the encoders of new tables don't accumulate.
func TestLoaderEncoders(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "mariadb").(*mysql.DB)
	createSmall(t, db)
	l := openLoader(t, db)
	begin(t, l)
	for i := range int64(600) {
		mustInsert(t, l, small(), i)
	}
	commit(t, l)
	if n := mysql.LoaderEncoders(l); n > 256 {
		t.Errorf("%d are kept", n)
	}
	if n := countSmall(t, db); n != 600 {
		t.Errorf("%d rows", n)
	}
}
