package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rowmill/rowmill/engine"
)

// A Sequence is how far the rows of one table have come: what is needed, beside
// the options, to insert into a table of an earlier run and to prove its rows.
// Ranges are [from, to).
type Sequence struct {
	Table string
	// Next is the first row that was never made ready.
	Next int64
	// Doubt holds rows that were sent and not acknowledged, Unsent those that
	// were made ready and never sent.
	Doubt, Unsent [][2]int64
}

// Sequences returns where the tables stand. No client may be at work.
func (w *Insert) Sequences() []Sequence {
	var out []Sequence
	for _, t := range w.tables {
		t.mu.Lock()
		s := Sequence{Table: t.Name, Next: t.next.Load(), Doubt: ranges(t.doubt), Unsent: ranges(t.unsent)}
		t.mu.Unlock()
		out = append(out, s)
	}
	return out
}

// ranges returns spans in order. They are not joined: a batch in doubt is there
// as a whole or not at all.
func ranges(spans []span) [][2]int64 {
	sorted := slices.Clone(spans)
	slices.SortFunc(sorted, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var out [][2]int64
	for _, s := range sorted {
		out = append(out, [2]int64{s.from, s.to})
	}
	return out
}

// Resume takes over the tables of an earlier run with the same options, in the
// place of Setup. It counts their rows, and fails when they are fewer than the
// sequences say. More are the rows of a process that ended before it could note
// how far it had come: those are in doubt from then on, and the sequence goes
// on after them. strays is how many batches such a process can have made ready
// and not sent. Periods that were dropped meanwhile can't be taken over.
// progress is as Verify has it.
func (w *Insert) Resume(ctx context.Context, at []Sequence, strays int64, progress func(rows int64)) (rows int64, err error) {
	if w.opt.Layout == Rolling && !w.tables[0].Rolling() {
		return 0, errors.New("resume rolling tables: the period isn't known")
	}
	if w.opt.KeepPeriods > 0 {
		return 0, engine.Classed(engine.ErrUnsupported, errors.New("resume: tables whose oldest periods are dropped can't be taken over"))
	}
	if len(at) != len(w.tables) {
		return 0, fmt.Errorf("resume: the record has %d tables, the workload %d", len(at), len(w.tables))
	}
	if progress == nil {
		progress = func(int64) {}
	}
	for i, t := range w.tables {
		n, err := w.resume(ctx, t, at[i], strays, func(n int64) { progress(rows + n) })
		if err != nil {
			return rows, fmt.Errorf("resume table %s: %w", t.Name, err)
		}
		rows += n
	}
	return rows, nil
}

func (w *Insert) resume(ctx context.Context, t *table, at Sequence, strays int64, progress func(rows int64)) (int64, error) {
	if at.Table != t.Name {
		return 0, fmt.Errorf("the record has table %s in its place", at.Table)
	}
	exists, err := w.db.Catalog().Exists(ctx, &t.Table)
	if err != nil {
		return 0, err
	}
	if !exists {
		return 0, engine.Hinted(engine.Classed(engine.ErrNoTable, fmt.Errorf("it isn't in %s any more", w.db.Info().Target)), "begin anew, without --resume")
	}
	t.reset()
	if t.Rolling() {
		parts, err := w.db.Catalog().Partitions(ctx, &t.Table)
		if err != nil {
			return 0, err
		}
		if len(parts) == 0 {
			return 0, errors.New("it has no periods: it is another table")
		}
		t.roller.reset(parts)
	}
	c := &check{w: w, t: t, progress: progress, sorted: t.Rolling() && t.ServerKey == ""}
	if t.Rolling() {
		c.periods = t.roller.parts
	}
	found := int64(0)
	if err := c.readAll(ctx, func(_ int, b *engine.Batch) { found += int64(b.Rows()) }); err != nil {
		return 0, err
	}
	sum := func(rs [][2]int64) (n int64) {
		for _, r := range rs {
			n += r[1] - r[0]
		}
		return n
	}
	most := at.Next - sum(at.Unsent)
	least := most - sum(at.Doubt)
	if found < least {
		return 0, engine.Hinted(fmt.Errorf("it holds %d rows, %d were acknowledged: it is another table, or rows were lost", found, least), "begin anew, without --resume")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range at.Doubt {
		t.doubt = append(t.doubt, span{r[0], r[1]})
	}
	for _, r := range at.Unsent {
		t.unsent = append(t.unsent, span{r[0], r[1]})
	}
	next := at.Next
	batch := int64(w.opt.Batch)
	for range (max(0, found-least)+batch-1)/batch + strays {
		t.doubt = append(t.doubt, span{next, next + batch})
		next += batch
	}
	t.next.Store(next)
	return found, nil
}
