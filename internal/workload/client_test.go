package workload

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/workload/draw"
)

var errLost = engine.Classed(engine.ErrConnectionLost, errors.New("lost on purpose"))

// TestLostConnections breaks connections while rows are sent, some before the
// commit, some after it, and not all can be reestablished at the first try. No
// acknowledged row may be missing, and no batch may be incomplete.
func TestLostConnections(t *testing.T) {
	t.Parallel()
	for _, kind := range stores {
		for _, preset := range []string{"classic", "timeseries", "daily", "sbtest"} {
			for _, layout := range Layouts() {
				if preset == "sbtest" && layout == Rolling {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", kind, preset, layout), func(t *testing.T) {
					var n, resets atomic.Int64
					db := &faulty{DB: testdb.Open(t, kind)}
					db.write = func(write func() (engine.Ack, error)) (engine.Ack, error) {
						switch draw.Mix(uint64(n.Add(1))) % 6 { // random, but the same in every run
						case 1:
							return engine.Ack{}, errLost
						case 2:
							if _, err := write(); err != nil {
								return engine.Ack{}, err
							}
							return engine.Ack{}, errLost
						}
						return write()
					}
					db.reset = func(reset func() error) error {
						if draw.Mix(uint64(resets.Add(1)))%2 > 0 { // as for a server that restarts
							return engine.Classed(engine.ErrUnreachable, errors.New("not yet"))
						}
						return reset()
					}
					const rows, batch = 2500, 50
					w := prepared(t, db, InsertOptions{Preset: preset, Layout: layout, Rows: rows, Batch: batch, Writers: 3, PeriodRows: 1000})
					out := run(t, w, config(w))
					p := verify(t, w)
					if !p.Checksum || p.Expected != p.Found || out.Rows != rows {
						t.Fatalf("%d rows acknowledged; %+v", out.Rows, p)
					}
					if w.tables[0].ServerKey == "" {
						if want := distinctRows(preset, rows); p.Found != want || len(p.Warnings) > 0 {
							t.Errorf("%+v", p)
						}
						return
					}
					// A third of the tries is lost, and half of these are committed.
					doubt := doubtRows(w)
					if p.Found <= rows || p.Found >= rows+doubt || doubt != w.tables[0].next.Load()-rows {
						t.Errorf("%d rows in doubt; %+v", doubt, p)
					}
				})
			}
		}
	}
}

// TestRecoverDoubtsOnce checks that a batch whose connection was lost is in
// doubt only once, however many tries it takes to reconnect.
func TestRecoverDoubtsOnce(t *testing.T) {
	down := engine.Classed(engine.ErrUnreachable, errors.New("down"))
	for _, again := range []bool{true, false} {
		t.Run(fmt.Sprintf("again=%t", again), func(t *testing.T) {
			db := &faulty{DB: testdb.Open(t, "null"), write: func(func() (engine.Ack, error)) (engine.Ack, error) { return engine.Ack{}, errLost }}
			w := prepared(t, db, InsertOptions{Preset: "sbtest", Layout: Plain})
			c, err := w.Client(t.Context(), 0)
			ok(t, err)
			c.Prepare(10)
			failed := c.Do(t.Context())
			db.reset = func(func() error) error { return down }
			for range 3 {
				if err := c.Recover(t.Context(), failed); !errors.Is(err, engine.ErrUnreachable) {
					t.Fatalf("Recover returned %v", err)
				}
			}
			want := int64(10)
			if again {
				db.reset, db.write = nil, nil
				ok(t, c.Recover(t.Context(), failed))
				ok(t, c.Do(t.Context()))
				want = 20
			}
			ok(t, c.Close())
			table := w.tables[0]
			if len(table.doubt) != 1 || table.doubt[0] != (span{0, 10}) || table.next.Load() != want {
				t.Errorf("in doubt %v of %d rows", table.doubt, table.next.Load())
			}
		})
	}
}

// TestDuplicateKey checks that after other failures a batch that is sent again is
// not in doubt, and that a duplicate key means success only after a lost connection.
func TestDuplicateKey(t *testing.T) {
	db := testdb.Open(t, "sqlite")
	w := prepared(t, db, InsertOptions{Preset: "classic", Layout: Plain, Rows: 100})
	ctx := t.Context()
	c, err := w.Client(ctx, 0)
	ok(t, err)
	c.Prepare(10)
	ok(t, c.Do(ctx))
	w.tables[0].next.Store(5)
	c.Prepare(10)
	if err := c.Do(ctx); !errors.Is(err, engine.ErrDuplicateKey) {
		t.Fatalf("keys that are there: %v", err)
	}
	ok(t, c.Recover(ctx, engine.Classed(engine.ErrDeadlock, errors.New("deadlock"))))
	if err := c.Do(ctx); !errors.Is(err, engine.ErrDuplicateKey) {
		t.Errorf("after a deadlock, which was rolled back: %v", err)
	}
	ok(t, c.Recover(ctx, errLost))
	if err := c.Do(ctx); err != nil {
		t.Errorf("after a connection was lost: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseUnsent checks that a batch that was prepared and never sent is not in
// doubt: it must not be in the table.
func TestCloseUnsent(t *testing.T) {
	db := testdb.Open(t, "sqlite")
	w := prepared(t, db, InsertOptions{Preset: "classic", Layout: Rolling, Rows: 100, PeriodRows: 50})
	c, err := w.Client(t.Context(), 0)
	ok(t, err)
	c.Prepare(10)
	ok(t, c.Do(t.Context()))
	c.Prepare(10)
	ok(t, c.Close())
	if p := mustHold(t, w, 10); len(p.Warnings) > 0 {
		t.Errorf("warnings %q", p.Warnings)
	}
	if first := w.tables[0].roller.oldest(); first != 19 {
		t.Errorf("a closed client keeps rows from %d on pending", first)
	}
	// The same applies to a client that was waiting for a period.
	c, err = w.Client(t.Context(), 0)
	ok(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	c.Prepare(1000)
	if err := c.Do(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no period, and Do returned %v", err)
	}
	ok(t, c.Close())
	mustHold(t, w, 10)
}

// TestKilledConnections kills connections with the server's KILL, those that insert
// and those that create and drop periods: every acknowledged row must exist.
func TestKilledConnections(t *testing.T) {
	t.Parallel()
	for _, o := range []InsertOptions{
		{Preset: "classic", Layout: Plain},
		{Preset: "classic", Layout: Rolling, Method: engine.Single},
		{Preset: "classic", Layout: Rolling, KeepPeriods: 3, Method: engine.Load},
		{Preset: "timeseries", Layout: Rolling, Method: engine.Prepared},
		{Preset: "sbtest", Layout: Plain},
	} {
		o.Writers, o.Batch, o.PeriodRows = 4, 100, 2000
		t.Run(fmt.Sprintf("%s/%s/%s/keep=%d", o.Preset, o.Layout, o.Method, o.KeepPeriods), func(t *testing.T) {
			db := testdb.Open(t, "mariadb")
			w := prepared(t, db, o)
			killer, done := raw(t, db), make(chan error, 1)
			var killed int
			begun := &opened{Insert: w, last: o.Writers - 1, is: make(chan struct{})}
			ctx, end := context.WithCancel(t.Context())
			go func() {
				var err error
				<-begun.is // a connection that is killed while its client is opened ends the run
				killed, err = killOneByOne(killer, 30)
				end()
				done <- err
			}()
			cfg := config(w)
			cfg.MaxTime = time.Minute
			out, err := bench.Run(ctx, begun, cfg)
			ok(t, errors.Join(<-done, err))
			if out.Err != nil {
				t.Fatal(out.Err)
			}
			p := verify(t, w)
			// This uses the remaining connections of the pool, which may have been killed last.
			if _, err := w.Sizes(t.Context()); err != nil {
				t.Error(err)
			}
			if !p.Checksum || p.Expected != p.Found || p.Found+p.DroppedRows < out.Rows || killed < 5 || out.Rows == 0 {
				t.Errorf("%d rows acknowledged, %d connections killed; %+v", out.Rows, killed, p)
			}
			if w.tables[0].ServerKey == "" && p.Found+p.DroppedRows != out.Rows {
				t.Errorf("%d rows acknowledged; %+v", out.Rows, p)
			}
			t.Logf("%d rows acknowledged, %d connections killed, %d rows in doubt", out.Rows, killed, doubtRows(w))
		})
	}
}

// doubtRows returns the number of rows in doubt of the first table.
func doubtRows(w *Insert) (n int64) {
	for _, s := range w.tables[0].doubt {
		n += s.rows()
	}
	return n
}

// An opened is a workload that tells when its last client is open.
type opened struct {
	*Insert
	last int
	once sync.Once
	is   chan struct{}
}

func (o *opened) Client(ctx context.Context, n int) (bench.Client, error) {
	c, err := o.Insert.Client(ctx, n)
	if n == o.last || err != nil {
		o.once.Do(func() { close(o.is) })
	}
	return c, err
}

// killOneByOne kills one of the connections to its database n times, 4 ms apart,
// and returns how many it killed.
func killOneByOne(db *sql.DB, n int) (killed int, err error) {
	last := int64(0)
	for range n {
		time.Sleep(4 * time.Millisecond)
		var id int64
		// The connection after the last one, so that each gets its turn.
		err := db.QueryRow(fmt.Sprintf("SELECT ID FROM information_schema.PROCESSLIST "+
			"WHERE DB = DATABASE() AND ID <> CONNECTION_ID() ORDER BY ID <= %d, ID LIMIT 1", last)).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return killed, err
		}
		if _, err := db.Exec(fmt.Sprintf("KILL %d", id)); err == nil {
			killed++
		}
		last = id
	}
	return killed, nil
}
