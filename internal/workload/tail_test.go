package workload

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestGate checks that no waiting goroutine misses a change, at any time.
func TestGate(t *testing.T) {
	var g gate
	var n atomic.Int64
	const steps, waiters = 5000, 4
	var all sync.WaitGroup
	for range waiters {
		all.Go(func() {
			for i := int64(1); i <= steps; i++ {
				if err := g.await(t.Context(), func() bool { return n.Load() >= i }); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range steps {
		n.Add(1)
		g.signal()
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := g.await(ctx, func() bool { return false }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait for nothing returned %v", err)
	}
}

// TestTail tests rows that are gone, going, in doubt and never sent, in one table.
func TestTail(t *testing.T) {
	var table table
	table.next.Store(100)
	table.doubt = []span{{60, 80}, {0, 10}}
	table.unsent = []span{{90, 100}, {10, 20}}
	for _, c := range []struct {
		gone, going           int64
		acked, doubt, leaving []span
	}{
		{0, 0, []span{{20, 60}, {80, 90}}, []span{{60, 80}, {0, 10}}, nil},
		{15, 65, []span{{80, 90}}, []span{{60, 80}}, []span{{20, 60}}},
	} {
		table.tail.gone.Store(c.gone)
		table.tail.going.Store(c.going)
		acked, doubt := table.sent()
		if leaving := table.leaving(); !slices.Equal(acked, c.acked) || !slices.Equal(doubt, c.doubt) || !slices.Equal(leaving, c.leaving) {
			t.Errorf("below %d gone, below %d going: acknowledged %v, in doubt %v, being deleted %v", c.gone, c.going, acked, doubt, leaving)
		}
	}
	for _, c := range []struct {
		s           span
		least, most int64
	}{{span{20, 60}, 40, 40}, {span{0, 30}, 10, 20}, {span{50, 70}, 10, 20}, {span{85, 100}, 5, 5}, {span{92, 95}, 0, 0}} {
		if least, most := table.there(c.s); least != c.least || most != c.most {
			t.Errorf("of %v %d to %d rows are there, want %d to %d", c.s, least, most, c.least, c.most)
		}
	}
	table.trim()
	if next := table.next.Load(); next != 90 || len(table.unsent) != 1 {
		t.Errorf("the sequence goes on at %d, %d gaps left", next, len(table.unsent))
	}
}

// keeping returns a workload that keeps 3000 rows of 10,000.
func keeping(t *testing.T, db engine.DB) (*Insert, bench.Config) {
	t.Helper()
	w := prepared(t, db, InsertOptions{Preset: "classic", Layout: Plain, Rows: 10000, Batch: 50, Writers: 2, KeepRows: 3000})
	cfg := config(w)
	cfg.Beside = w.Beside()
	return w, cfg
}

// TestDeletes checks that deletes follow inserts and that the expected rows remain,
// also if a delete was executed and its acknowledgement lost, or was not executed.
func TestDeletes(t *testing.T) {
	t.Parallel()
	lost := engine.Classed(engine.ErrConnectionLost, errors.New("the connection was lost"))
	for _, kind := range stores {
		for name, del := range map[string]func(n int64, del func() (int64, error)) (int64, error){
			"well": nil,
			"done, not acknowledged": func(n int64, del func() (int64, error)) (int64, error) {
				if n%10 != 3 {
					return del()
				}
				if _, err := del(); err != nil {
					return 0, err
				}
				return 0, lost
			},
			"not done": func(n int64, del func() (int64, error)) (int64, error) {
				if n%10 == 3 {
					return 0, lost
				}
				return del()
			},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				var n atomic.Int64
				db := &faulty{DB: testdb.Open(t, kind)}
				if del != nil {
					db.del = func(really func() (int64, error)) (int64, error) { return del(n.Add(1), really) }
				}
				w, cfg := keeping(t, db)
				run(t, w, cfg)
				left := w.RowsNow()
				if least, most := w.HeldRows(); left < least || left > most || most != 3150 {
					t.Errorf("%d rows are left, want %d to %d", left, least, most)
				}
				if p := mustHold(t, w, left); p.DeletedRows != 10000-left {
					t.Errorf("%d rows deleted, want %d", p.DeletedRows, 10000-left)
				}
			})
		}
	}
}

// TestDeletesWaitForRows checks that a client whose rows the deletes wait for doesn't wait for the
// deletes, though other clients have filled the table since it took its rows.
func TestDeletesWaitForRows(t *testing.T) {
	t.Parallel()
	w, _ := keeping(t, testdb.Open(t, "sqlite"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	slow, fast, del := clientOf(t, w.Client), clientOf(t, w.Client), clientOf(t, w.deleter)
	slow.Prepare(50)
	del.Prepare(50)
	for w.tables[0].held() <= w.tables[0].tail.keep+w.tables[0].tail.lead {
		fast.Prepare(50)
		if err := fast.Do(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []bench.Client{slow, del} {
		if err := c.(bench.Waiter).Await(ctx); err != nil {
			t.Fatalf("%T: %v", c, err)
		}
		if err := c.Do(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func clientOf(t *testing.T, open func(context.Context, int) (bench.Client, error)) bench.Client {
	t.Helper()
	c, err := open(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestDeleteInDoubt checks that a delete without acknowledgement leaves its rows
// in doubt: either all or none of them exist. The next run deletes them.
func TestDeleteInDoubt(t *testing.T) {
	t.Parallel()
	for _, done := range []bool{true, false} {
		db := &faulty{DB: testdb.Open(t, "sqlite")}
		var n atomic.Int64
		stop, cancel := context.WithCancel(t.Context())
		db.del = func(del func() (int64, error)) (int64, error) {
			if n.Add(1) < 20 {
				return del()
			}
			if done {
				if _, err := del(); err != nil {
					return 0, err
				}
			}
			cancel()
			return 0, engine.Classed(engine.ErrConnectionLost, errors.New("gone"))
		}
		w, cfg := keeping(t, db)
		cfg.Grace = 50 * time.Millisecond
		if _, err := bench.Run(stop, w, cfg); err != nil {
			t.Fatal(err)
		}
		w.tables[0].trim()
		left := w.RowsNow()
		if done {
			left -= 50
		}
		if p := mustHold(t, w, left); !hasWarning(p, "a delete of 50 rows was not acknowledged") {
			t.Errorf("done %v: warnings %q", done, p.Warnings)
		}
		db.del = nil
		c, err := w.deleter(t.Context(), 0)
		ok(t, err)
		ok(t, c.Close())
		if p := mustHold(t, w, w.RowsNow()); len(p.Warnings) > 0 {
			t.Errorf("done %v: warnings %q", done, p.Warnings)
		}
	}
}

// TestDeleteFindsLess checks that a delete that removes other rows than expected ends the run.
func TestDeleteFindsLess(t *testing.T) {
	db := testdb.Open(t, "sqlite")
	w, cfg := keeping(t, db)
	// Row 500 is deleted by another connection as soon as it exists.
	db2 := raw(t, db)
	var once sync.Once
	real := cfg.Beside[0].Client
	cfg.Beside[0].Client = func(ctx context.Context, n int) (bench.Client, error) {
		c, err := real(ctx, n)
		return &before{c.(bench.Waiter), func() { once.Do(func() { exec(t, db2, "DELETE FROM purchases WHERE transactionid = 500") }) }}, err
	}
	out, err := bench.Run(t.Context(), w, cfg)
	if err != nil || out.Err == nil || !strings.Contains(out.Err.Error(), "the server removed 49, and 50 were there") {
		t.Errorf("%v, ended with %v", err, out.Err)
	}
}

// before calls a function before each operation.
type before struct {
	bench.Waiter
	do func()
}

func (b *before) Do(ctx context.Context) error {
	b.do()
	return b.Waiter.Do(ctx)
}

// TestReaders checks that the engines accept every query of each preset, and
// that its values are drawn from existing rows.
func TestReaders(t *testing.T) {
	t.Parallel()
	for _, kind := range stores {
		for _, preset := range []string{"classic", "ibench"} {
			for _, layout := range Layouts() {
				t.Run(kind+"/"+preset+"/"+layout, func(t *testing.T) {
					w := prepared(t, testdb.Open(t, kind), InsertOptions{Preset: preset, Layout: layout, Rows: 3000, Batch: 100,
						PeriodRows: 1000, Readers: 2, ReadAfter: 1000})
					cfg := config(w)
					cfg.Beside = w.Beside()
					run(t, w, cfg)
					r, err := w.newAsker(t.Context(), 0, 0, w.preset.queries, true)
					ok(t, err)
					defer r.Close()
					for range r.queries {
						r.Prepare(1)
						q := r.queries[r.next]
						if _, err := r.querier.Find(t.Context(), q.find, r.values[:q.find.Values()]); err != nil {
							t.Errorf("query %d: %v", r.next, err)
						}
					}
				})
			}
		}
	}
}

// TestPointsAreLive checks that primary keys are drawn from all existing rows, and from no others.
func TestPointsAreLive(t *testing.T) {
	w := newTestInsert(t, testdb.Open(t, "sqlite"), InsertOptions{Preset: "ibench", Layout: Plain, Rows: 100})
	w.tables[0].next.Store(40)
	w.tables[0].tail.gone.Store(30)
	w.tables[0].tail.going.Store(35)
	r, err := w.newAsker(t.Context(), 0, 1, ibenchPoints, false)
	ok(t, err)
	defer r.Close()
	seen := map[int64]bool{}
	for range 200 {
		r.Prepare(1)
		for _, v := range r.values {
			seen[v.Int] = true
		}
	}
	for k := range int64(50) {
		if want := k >= 36 && k <= 40; seen[k] != want {
			t.Errorf("key %d drawn: %v", k, seen[k])
		}
	}
}
