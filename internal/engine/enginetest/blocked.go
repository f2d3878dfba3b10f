package enginetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// A Server is what the tests of RunServer need to know of a server.
type Server struct {
	// Open returns an empty database.
	Open func(testing.TB) engine.Keeper
	// ID returns the server's id of the connection of a writer or a querier.
	ID func(connection any) int64
	// Waits reports whether a connection waits for a lock.
	Waits func(t testing.TB, db engine.Keeper, id int64) bool
	// ShortWait makes the connection of a writer or a querier wait for a lock for at
	// most a second.
	ShortWait func(connection any) error
	// Survive are statements with which a transaction begins, so that the server, if there is a
	// deadlock, rolls back the other transaction.
	Survive []string
	// Lock locks the table small against reading, within a transaction. Unlock releases the lock; ""
	// means the end of the transaction.
	Lock, Unlock string
	// Holder returns the server's id of the connection that holds a lease.
	Holder func(t testing.TB, db engine.Keeper, name string) int64
	// LockTries sets how often Apply tries a step; 0 is the usual number.
	LockTries func(db engine.Keeper, tries int)
}

// RunServer runs the tests of operations that wait on a server for another session's lock, and of
// connections that are ended on the server.
func RunServer(t *testing.T, s Server) {
	beside(t, []test{
		{"Deadlock", s.deadlock},
		{"LockTimeout", s.lockTimeout},
		{"CancelWhileBlocked", s.cancelWhileBlocked},
		{"ConnectionKilled", s.connectionKilled},
		{"ApplyWaitsForLock", s.applyWaitsForLock},
		{"QueryWhileBlocked", s.queryWhileBlocked},
		{"QueryLockTimeout", s.queryLockTimeout},
		{"Leases", s.leases},
	})
}

// Small returns a table with a key and a number.
func Small() *engine.Table {
	return &engine.Table{
		Name: "small", Columns: []engine.Column{{Name: "id", Type: engine.Int64}, {Name: "n", Type: engine.Int32}},
		PrimaryKey: []string{"id"},
	}
}

// RowsOf returns rows of the table small.
func RowsOf(ids ...int64) *engine.Batch {
	b := engine.NewBatch(Small().Columns)
	for _, id := range ids {
		b.Columns[0].Ints = append(b.Columns[0].Ints, id)
		b.Columns[1].Ints = append(b.Columns[1].Ints, 1)
		b.EndRow()
	}
	return b
}

// SmallWriter creates the table small, in place of an existing one, and returns a writer of the
// table. The writer is closed when the test ends.
func SmallWriter(t testing.TB, db engine.DB, m engine.Method) engine.Writer {
	t.Helper()
	apply(t, db, engine.DropTable{Table: Small()}, engine.CreateTable{Table: Small()})
	return writer(t, db, Small(), m)
}

// SmallQuerier creates the table small with rows 1, 2 and 3, and returns a querier.
func SmallQuerier(t testing.TB, db engine.DB) engine.Querier {
	t.Helper()
	write(t, SmallWriter(t, db, engine.Multi), RowsOf(1, 2, 3))
	return querier(t, db)
}

// startWrite calls Write in the background.
func startWrite(ctx context.Context, w engine.Writer, ids ...int64) <-chan error {
	result := make(chan error, 1)
	go func() {
		_, err := w.Write(ctx, RowsOf(ids...))
		result <- err
	}()
	return result
}

// blocked waits until the connection with this id waits for a lock.
func (s Server) blocked(t testing.TB, db engine.Keeper, id int64) {
	t.Helper()
	// A server may refresh its view of locks only if it was not read for 100 ms.
	for end := time.Now().Add(longest); !s.Waits(t, db, id); time.Sleep(120 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the connection doesn't wait for a lock")
		}
	}
}

// transaction begins a transaction with some statements in a session of its own.
func transaction(t testing.TB, db engine.Keeper, statements ...string) *engine.Session {
	t.Helper()
	c := session(t, db)
	Must(t, c.Begin(within(t), engine.Transaction{}))
	for _, q := range statements {
		run(t, c, -1, q)
	}
	return c
}

func rollback(t testing.TB, c *engine.Session) {
	t.Helper()
	Must(t, c.Rollback(within(t)))
}

func wantRetryable(t testing.TB, err, class error) {
	t.Helper()
	if !errors.Is(err, class) || !engine.Retryable(err) {
		t.Fatalf("got error %v, want one of class %q that is retryable", err, class)
	}
}

func wantSmall(t testing.TB, db engine.Keeper, want int) {
	t.Helper()
	if n := one[int](t, db, "SELECT COUNT(*) FROM small"); n != want {
		t.Errorf("%d rows, want %d", n, want)
	}
}

// eachMethod runs a test with a writer of each method.
func (s Server) eachMethod(t *testing.T, run func(*testing.T, engine.Keeper, engine.Writer)) {
	db := s.Open(t)
	for _, m := range db.Capabilities().Methods {
		t.Run(string(m), func(t *testing.T) { run(t, db, SmallWriter(t, db, m)) })
	}
}

const insertFirst, insertSecond = "INSERT INTO small VALUES (1, 1)", "INSERT INTO small VALUES (2, 1)"

func (s Server) deadlock(t *testing.T) {
	s.eachMethod(t, func(t *testing.T, db engine.Keeper, w engine.Writer) {
		other := transaction(t, db, append(s.Survive, insertSecond)...)
		id := s.ID(w)
		result := startWrite(t.Context(), w, 1, 2)
		s.blocked(t, db, id) // the writer holds 1 and waits for 2
		ended := make(chan error, 1)
		go func() {
			_, err := other.Exec(context.WithoutCancel(t.Context()), insertFirst)
			ended <- err
		}()
		wantRetryable(t, <-result, engine.ErrDeadlock)
		Must(t, <-ended)
		rollback(t, other)
		Must(t, w.Reset(within(t)))
		write(t, w, RowsOf(1, 2))
		wantSmall(t, db, 2)
	})
}

// lockTimeout checks that a batch whose lock is not granted in time leaves no row and
// no lock, and that the writer then works without Reset.
func (s Server) lockTimeout(t *testing.T) {
	s.eachMethod(t, func(t *testing.T, db engine.Keeper, w engine.Writer) {
		Must(t, s.ShortWait(w))
		other := transaction(t, db, insertSecond)
		_, err := w.Write(within(t), RowsOf(1, 2))
		wantRetryable(t, err, engine.ErrLockTimeout)
		run(t, other, 1, insertFirst) // row 1 is not locked, even before Reset
		rollback(t, other)
		write(t, w, RowsOf(1, 2))
		wantSmall(t, db, 2)
	})
}

// cancelWhileBlocked checks that a Write that waits for a lock ends when its context ends, and that
// its statements are executed neither at that time nor later.
func (s Server) cancelWhileBlocked(t *testing.T) {
	s.eachMethod(t, func(t *testing.T, db engine.Keeper, w engine.Writer) {
		other := transaction(t, db, insertSecond)
		ctx, cancel := context.WithCancel(t.Context())
		id := s.ID(w)
		result := startWrite(ctx, w, 1, 2)
		s.blocked(t, db, id)
		cancel()
		wantError(t, <-result, context.Canceled)
		rollback(t, other)
		wantSmall(t, db, 0)
		if _, err := w.Write(within(t), RowsOf(1)); !errors.Is(err, engine.ErrConnectionLost) {
			t.Errorf("a write before Reset: %v", err)
		}
		Must(t, w.Reset(within(t)))
		write(t, w, RowsOf(1, 2))
		wantSmall(t, db, 2)
	})
}

// connectionKilled ends a writer's connection on the server, between two batches and
// within one.
func (s Server) connectionKilled(t *testing.T) {
	s.eachMethod(t, func(t *testing.T, db engine.Keeper, w engine.Writer) {
		write(t, w, RowsOf(1))
		kill := func(id int64) {
			t.Helper()
			Must(t, db.Kill(within(t), id))
		}
		lost := func(err error) {
			t.Helper()
			wantRetryable(t, err, engine.ErrConnectionLost)
			Must(t, w.Reset(within(t)))
		}
		kill(s.ID(w))
		_, err := w.Write(within(t), RowsOf(2, 3))
		lost(err)
		other := transaction(t, db, "INSERT INTO small VALUES (3, 1)")
		id := s.ID(w)
		result := startWrite(t.Context(), w, 2, 3)
		s.blocked(t, db, id)
		kill(id)
		lost(<-result)
		rollback(t, other)
		write(t, w, RowsOf(2, 3))
		wantSmall(t, db, 3)
	})
}

// applyWaitsForLock checks that a change of a table waits for transactions that use
// it, for a limited time.
func (s Server) applyWaitsForLock(t *testing.T) {
	db := s.Open(t)
	write(t, SmallWriter(t, db, engine.Multi), RowsOf(1))
	other := transaction(t, db)
	wantRow(t, other, "1", "SELECT id FROM small")
	drop := engine.DropTable{Table: Small()}
	s.LockTries(db, 1)
	wantError(t, db.Apply(within(t), drop), engine.ErrLockTimeout)
	s.LockTries(db, 0)
	result := make(chan error, 1)
	go func() { result <- db.Apply(t.Context(), drop) }()
	time.Sleep(2300 * time.Millisecond) // longer than one try, in which the server waits for 2 s
	Must(t, other.Rollback(within(t)))
	if err := <-result; err != nil {
		t.Fatalf("after the lock was free: %v", err)
	}
}

// Calls of a querier on the table small; both wait for a lock on the whole table.
var (
	findSmall   = &engine.Find{Table: Small(), On: []string{"id"}}
	removeSmall = &engine.Delete{Table: Small(), By: "id"}
	queries     = map[string]func(context.Context, engine.Querier) error{
		"find": func(ctx context.Context, q engine.Querier) error {
			return failure(q.Find(ctx, findSmall, []engine.Value{{}}))
		},
		"delete": func(ctx context.Context, q engine.Querier) error { return failure(q.Delete(ctx, removeSmall, 1, 2)) },
	}
)

func (s Server) unlock(t testing.TB, c *engine.Session) {
	t.Helper()
	if s.Unlock != "" {
		run(t, c, -1, s.Unlock)
	}
	rollback(t, c)
}

// queryWhileBlocked checks that a Querier's call that waits for a lock ends when its context ends
// or its connection is lost, and deletes nothing.
func (s Server) queryWhileBlocked(t *testing.T) {
	db := s.Open(t)
	for name, call := range queries {
		for _, end := range []string{"cancel", "kill"} {
			t.Run(name+", "+end, func(t *testing.T) {
				q := SmallQuerier(t, db)
				Must(t, call(within(t), q))
				other := transaction(t, db, s.Lock)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				id, result := s.ID(q), make(chan error, 1)
				go func() { result <- call(ctx, q) }()
				s.blocked(t, db, id)
				want := engine.ErrConnectionLost
				if end == "cancel" {
					cancel()
					want = context.Canceled
				} else if err := db.Kill(within(t), id); err != nil {
					t.Fatal(err)
				}
				wantError(t, <-result, want)
				s.unlock(t, other)
				wantRetryable(t, call(within(t), q), engine.ErrConnectionLost)
				Must(t, q.Reset(within(t)))
				n, err := q.Find(within(t), findSmall, []engine.Value{{}})
				if want := map[string]int{"find": 3, "delete": 2}[name]; n != want || err != nil {
					t.Errorf("%d rows, %v, want %d", n, err, want)
				}
			})
		}
	}
}

// queryLockTimeout checks that a Querier's call fails when its lock is not granted in time, and
// that the querier then works without Reset.
func (s Server) queryLockTimeout(t *testing.T) {
	db := s.Open(t)
	for name, call := range queries {
		q := SmallQuerier(t, db)
		Must(t, s.ShortWait(q))
		other := transaction(t, db, s.Lock)
		for range 2 { // first not yet prepared, then after a failure
			wantRetryable(t, call(within(t), q), engine.ErrLockTimeout)
		}
		s.unlock(t, other)
		if err := call(within(t), q); err != nil {
			t.Errorf("%s: then: %v", name, err)
		}
	}
	q := SmallQuerier(t, db)
	Must(t, s.ShortWait(q))
	other := transaction(t, db, "UPDATE small SET n = 5 WHERE id = 3")
	wantRetryable(t, failure(q.Delete(within(t), removeSmall, 0, 10)), engine.ErrLockTimeout)
	rollback(t, other)
	if n, err := q.Delete(within(t), removeSmall, 0, 10); n != 3 || err != nil {
		t.Errorf("then %d rows, %v", n, err)
	}
}

// WantNotOpened checks the error of opening a target: its text, and its class unless that is nil.
// If secret isn't "", the error must have a hint, and neither the error nor the hint may contain
// the secret.
func WantNotOpened(t testing.TB, open func(context.Context, engine.Target) (engine.DB, error), target, want string, class error, secret string) {
	t.Helper()
	parsed, err := engine.ParseTarget(target)
	Must(t, err)
	db, err := open(within(t), parsed)
	if err == nil {
		_ = db.Close()
		t.Fatal("it was opened")
	}
	var hint *engine.HintError
	text := err.Error()
	if errors.As(err, &hint) {
		text += hint.Hint
	} else if secret != "" {
		t.Errorf("%v: without a hint", err)
	}
	if !strings.Contains(err.Error(), want) || class != nil && !errors.Is(err, class) || secret != "" && strings.Contains(text, secret) {
		t.Errorf("got %q, want %q", text, want)
	}
}

// leases checks that exactly one of several simultaneous attempts gets a lock, and that the lock is
// lost with the connection that holds it.
func (s Server) leases(t *testing.T) {
	type result struct {
		lease engine.Lease
		err   error
	}
	db, results := s.Open(t), make(chan result, 8)
	ctx := within(t)
	for range cap(results) {
		go func() {
			l, err := db.Lead(ctx, "x")
			results <- result{l, err}
		}()
	}
	var held engine.Lease
	for range cap(results) {
		switch r := <-results; {
		case r.err != nil:
			wantError(t, r.err, engine.ErrLockTimeout)
		case held != nil:
			t.Fatal("two have the lock")
		default:
			held = r.lease
		}
	}
	if held == nil {
		t.Fatal("no attempt got the lock")
	}
	db.Kill(within(t), s.Holder(t, db, "x"))
	select {
	case <-held.Lost():
	case <-time.After(longest):
		t.Fatal("a lease whose connection was killed is not lost")
	}
	again, err := db.Lead(within(t), "x")
	if err != nil {
		t.Fatalf("after the first is lost: %v", err)
	}
	if err := errors.Join(held.Release(), again.Release(), again.Release()); err != nil {
		t.Error(err)
	}
}
