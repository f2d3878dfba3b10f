package state_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
)

// A recorded source is what a load may know of it, beside what the database has.
type recorded struct {
	source    state.Source
	cuts      []state.Cut // that are recorded, in order
	committed map[string]bool
	settled   int // of cuts
}

// FuzzLedger records and commits batches of a file in any order, breaks transactions off, sends
// batches twice, settles and tidies. The ledger always has exactly what was committed, and what a
// load after a crash reads is what was recorded.
func FuzzLedger(f *testing.F) {
	f.Add([]byte{0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 6})
	f.Add([]byte{0, 10, 20, 30, 1, 11, 21, 31, 41, 2, 12, 4, 0, 1, 11, 4, 5})
	f.Add([]byte{0, 0, 0, 11, 3, 1, 4, 6, 0, 1, 4, 5, 6, 1})
	db := testdb.Open(f, "sqlite").(engine.Keeper)
	st := state.New(db)
	if err := st.Ensure(f.Context()); err != nil {
		f.Fatal(err)
	}
	l, err := db.Loader(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = l.Close() })
	n := 0
	f.Fuzz(func(t *testing.T, steps []byte) {
		n++
		ctx := t.Context()
		r := &recorded{source: state.Source{Table: fmt.Sprintf("t%d", n), Path: "/day.csv", Kind: state.FileSource, Key: fmt.Sprintf("%016x", n)}, committed: map[string]bool{}}
		for _, step := range steps[:min(len(steps), 60)] {
			if err := r.step(ctx, st, l, int(step%7), int(step/10)); err != nil {
				t.Fatalf("step %d of %v: %v", step, steps, err)
			}
			if err := r.check(ctx, st); err != nil {
				t.Fatalf("after step %d of %v: %v", step, steps, err)
			}
		}
	})
}

func (r *recorded) step(ctx context.Context, st *state.Store, l engine.Loader, what, which int) error {
	switch what {
	case 0: // the next batch is cut
		from := int64(len(r.cuts)) * 100
		c := state.Cut{From: from, To: from + 100, Line: from + 1, Lines: 10, Hash: fmt.Sprintf("%x", which)}
		r.cuts = append(r.cuts, c)
		if len(r.cuts) == 1 {
			return st.BeginSource(ctx, &r.source, []state.Cut{c})
		}
		return st.PutCuts(ctx, r.source.Table, r.source.Key, []state.Cut{c})
	case 1, 2, 3: // a batch is sent, also a second time; 3 is broken off before its commit
		if len(r.cuts) == 0 {
			return nil
		}
		return r.send(ctx, l, r.cuts[which%len(r.cuts)], what == 3)
	case 4: // all that is committed from the beginning on is settled
		n := r.settled
		for n < len(r.cuts) && r.committed[r.cuts[n].ID(r.source.Key)] {
			n++
		}
		if n == r.settled {
			return nil
		}
		s := r.source
		s.Loaded, s.Finished = r.cuts[n-1].To, n == len(r.cuts)
		r.source, r.settled = s, n
		return st.Settle(ctx, &r.source, nil)
	case 5: // lines that are older than a day are removed: there are none
		return st.Tidy(ctx, r.source.Table, time.Now().Add(-24*time.Hour))
	}
	if !r.source.Finished || r.settled < len(r.cuts) {
		return nil
	}
	// A day later those of a loaded file are.
	if err := st.Tidy(ctx, r.source.Table, time.Now().Add(time.Hour)); err != nil {
		return err
	}
	clear(r.committed)
	return nil
}

func (r *recorded) send(ctx context.Context, l engine.Loader, c state.Cut, broken bool) error {
	b := state.Batch{Table: r.source.Table, ID: c.ID(r.source.Key), Lower: c.From, Upper: c.To, Counts: state.Counts{Sent: 10, Inserted: 9, Rejected: 1}}
	err := l.Begin(ctx)
	for _, rows := range b.Rows(false) {
		if err == nil {
			_, err = l.Insert(ctx, rows.Table, rows.Batch, 0, rows.Batch.Rows())
		}
	}
	switch {
	case errors.Is(err, engine.ErrDuplicateKey) && r.committed[b.ID]:
		return l.Reset(ctx)
	case err != nil:
		return errors.Join(err, l.Reset(ctx))
	case r.committed[b.ID]:
		return fmt.Errorf("batch %s is taken twice", b.ID)
	case broken:
		return l.Reset(ctx)
	}
	r.committed[b.ID] = true
	return l.Commit(ctx)
}

// check compares what a load would read with what was done.
func (r *recorded) check(ctx context.Context, st *state.Store) error {
	noted, err := st.NotedOf(ctx, r.source.Table, r.source.Key, r.cuts)
	if err != nil {
		return err
	}
	for _, c := range r.cuts {
		if b, is := noted[c.ID(r.source.Key)]; is != r.committed[c.ID(r.source.Key)] || is && b.Sent != 10 {
			return fmt.Errorf("batch %s is in the ledger: %v, %+v", c.ID(r.source.Key), is, b)
		}
	}
	cuts, err := st.Cuts(ctx, r.source.Table, r.source.Key)
	if err != nil || !slices.Equal(cuts, r.cuts[r.settled:]) && len(cuts)+len(r.cuts)-r.settled > 0 {
		return fmt.Errorf("the cuts are %v, want %v: %w", cuts, r.cuts[r.settled:], err)
	}
	s, err := st.Source(ctx, r.source.Table, r.source.Key)
	switch {
	case err != nil:
		return err
	case (s == nil) != (len(r.cuts) == 0):
		return fmt.Errorf("the source is %+v", s)
	case s != nil && (s.Loaded != r.source.Loaded || s.Finished != r.source.Finished):
		return fmt.Errorf("the source is loaded up to %d, %v; want %d, %v", s.Loaded, s.Finished, r.source.Loaded, r.source.Finished)
	}
	return nil
}
