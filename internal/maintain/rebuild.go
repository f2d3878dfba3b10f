package maintain

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain/copier"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A rebuilder rebuilds periods sorted and compressed, and merges them.
type rebuilder struct{ *table }

func (t *Table) rebuilder() rebuilder { return rebuilder{t} }

// A rebuilding is the recorded state of a rebuild or a merge.
type rebuilding struct {
	Old  []rolling.Partition
	New  rolling.Partition
	With string
	Out  []string
	// Part and After are the progress of the copy: the partition and the last key.
	Part  int
	After []string
	// Sums are the checksums of the copy's rows, by the old partition from which they came.
	Sums []engine.Checksum
}

func (r *rebuilding) task() Task {
	kind := Rebuild
	if len(r.Old) > 1 {
		kind = Merge
	}
	return Task{Kind: kind, Parts: r.Old, New: r.New}
}

func (r *rebuilding) period() (rolling.Partition, bool) { return r.New, true }

func (r *rebuilding) tables(step string) (copies, rows []string) {
	if slices.Contains([]string{stepPrepare, stepCopy, stepCompact, stepCompare}, step) {
		copies = []string{r.With}
	}
	return copies, append(slices.Clone(r.Out), r.With)
}

func (r *rebuilding) resume(ctx context.Context, t *Table, c *state.Change) (string, error) {
	return t.rebuilder().continueRebuild(ctx, c)
}

// Steps of a rebuild.
const (
	stepPrepare = "prepare"
	stepCopy    = "copy"
	stepCompact = "compact"
	stepCompare = "compare"
	stepSwap    = "swap"
	stepClean   = "clean"
)

// rebuild writes the rows of one or more sealed periods sorted and, if so declared, compressed, and
// replaces the periods with the result, unless others have written to them meanwhile.
func (t rebuilder) rebuild(ctx context.Context, task Task) (string, error) {
	// Names must not recur, because a table of an interrupted change may have the only copy of rows.
	once := fmt.Sprintf("_%x", time.Now().UnixMilli()&0xffffff)
	r := rebuilding{Old: task.Parts, New: task.New, With: Standalone(t.Table.Name, "new", task.New)}
	for _, p := range task.Parts {
		r.Out = append(r.Out, Standalone(t.Table.Name, "old", p)+once)
	}
	c := &state.Change{Table: t.Table.Name, ID: fmt.Sprintf("rebuild %d", task.New.From), Kind: string(Rebuild), Step: stepPrepare}
	if _, err := t.State.Begin(ctx, c, r); err != nil {
		return "", err
	}
	t.Reach("rebuild begun")
	return t.continueRebuild(ctx, c)
}

// continueRebuild completes a rebuild from its current step.
func (t rebuilder) continueRebuild(ctx context.Context, c *state.Change) (string, error) {
	var r rebuilding
	if err := c.Load(&r); err != nil {
		return "", err
	}
	for {
		t.Reach("rebuild " + c.Step)
		next, err := "", error(nil)
		switch c.Step {
		case stepPrepare:
			next, err = stepCopy, t.createCopy(ctx, r.With)
		case stepCopy:
			next, err = stepCompact, t.copyRows(ctx, c, &r)
		case stepCompact:
			next, err = stepCompare, t.compact(ctx, &r)
		case stepCompare:
			next, err = stepSwap, t.sumCopy(ctx, &r)
		case stepSwap:
			next, err = stepClean, t.swap(ctx, &r)
			if why := unswapped(err); why != "" {
				return t.abandonRebuild(ctx, c, &r, why, nil)
			}
		case stepClean:
			return t.clean(ctx, c, &r)
		default:
			return "", fmt.Errorf("journal of %s: %s is at step %q, which this version doesn't know", c.Table, c.ID, c.Step)
		}
		if err != nil {
			if lost := t.dropper().lost(ctx, r.Old, r.Out); len(lost) > 0 {
				return t.abandonRebuild(ctx, c, &r, "others have dropped "+lost[0].Name, lost)
			}
			return "", err
		}
		t.Reach("rebuild " + c.Step + " done")
		if err := t.State.Advance(ctx, t.State.DB(), c, next, r); err != nil {
			return "", err
		}
	}
}

// createCopy creates an empty table like the rolling one, without partitions. It first drops what
// an interrupted change has left under that name.
func (t rebuilder) createCopy(ctx context.Context, name string) error {
	if err := t.DB.Try(ctx, engine.DropTables{Names: []string{name}}); err != nil {
		return err
	}
	t.Reach("copy cleared")
	for _, q := range t.DB.Words().CreateTemplate(t.Table, name, engine.Storage{Compress: t.Declared.Seal.Compress}) {
		if _, err := t.DB.SQL().ExecContext(ctx, q); err != nil {
			return fmt.Errorf("create table %s: %w", name, t.DB.Classify(err))
		}
	}
	return nil
}

func (t rebuilder) copyRows(ctx context.Context, c *state.Change, r *rebuilding) error {
	paused := t.pauses(ctx, c, r.New.Name)
	for r.Part < len(r.Old) {
		cp := copier.Copy{
			DB: t.DB, From: t.DB.Words().From(t.Table, r.Old[r.Part]), Into: t.DB.Dialect().Quote(r.With),
			Columns: t.columns(), Key: t.Schema.Key(), After: r.After, Limits: t.Limits, Paused: paused,
			Done: func(ctx context.Context, tx state.Exec, last []string, _ int64) error {
				r.After = last
				return t.State.Advance(ctx, tx, c, stepCopy, r)
			},
		}
		if _, err := cp.Run(ctx); err != nil {
			return fmt.Errorf("rebuild %s: %w", r.New.Name, err)
		}
		r.Part, r.After = r.Part+1, nil
		if err := t.State.Advance(ctx, t.State.DB(), c, stepCopy, r); err != nil {
			return err
		}
		t.Reach("rebuild copied a part")
	}
	return nil
}

// reasonEvery is the minimum interval between reports of different reasons why a copy waits.
const reasonEvery = 10 * time.Second

// pauses returns a function that reports why the copy of a period waits, and that it continues.
func (t rebuilder) pauses(ctx context.Context, c *state.Change, period string) func(why string) {
	var said string
	var at time.Time
	return func(why string) {
		if why == said || why != "" && said != "" && time.Since(at) < reasonEvery {
			return
		}
		said, at = why, time.Now()
		t.Report(Event{At: at, Action: c.Kind, Detail: period + ": " + cmp.Or(why, "copying continues"), Waiting: why != ""})
		if err := t.State.Waits(ctx, c, why); err != nil && ctx.Err() == nil {
			t.Report(Event{At: time.Now(), Action: "log", Err: err})
		}
	}
}

// compact sorts and packs indexes that grew row by row.
func (t rebuilder) compact(ctx context.Context, r *rebuilding) error {
	words, ok := t.DB.Words().(engine.CompactWords)
	if !ok {
		return nil
	}
	for _, q := range words.Compact(r.With) {
		if _, err := t.DB.SQL().ExecContext(ctx, q); err != nil {
			return fmt.Errorf("compact table %s: %w", r.With, t.DB.Classify(err))
		}
	}
	return nil
}

// sumCopy computes the sums of the rows that were copied from each partition.
func (t rebuilder) sumCopy(ctx context.Context, r *rebuilding) error {
	r.Sums = nil
	for _, p := range r.Old {
		sum, err := t.sums().checksum(ctx, t.DB.Dialect().Quote(r.With), &p.Period)
		if err != nil {
			return err
		}
		r.Sums = append(r.Sums, sum)
	}
	return nil
}

// proofs returns the proofs that the old partitions still have rows with these sums.
func (t rebuilder) proofs(old []rolling.Partition, sums []engine.Checksum) []engine.Proof {
	out := make([]engine.Proof, len(old))
	for i, p := range old {
		from, sum := t.DB.Words().From(t.Table, p), sums[i]
		if sum.Rows == 0 {
			out[i].Query = "SELECT COUNT(*), '' FROM (SELECT 1 AS one FROM " + from + " LIMIT 1) AS r"
		} else {
			out[i] = engine.Proof{Query: engine.ChecksumQuery(t.DB.Words().RowHash(t.columns()), from, "1 = 1"), Sum: sum}
		}
	}
	return out
}

// unswapped returns why a swap was refused, if the table or its rows have changed; otherwise "".
func unswapped(err error) string {
	switch {
	case errors.Is(err, engine.ErrDiffers):
		return "the table was altered while it was rebuilt"
	case errors.Is(err, engine.ErrWritten):
		return "rows arrived while it was rebuilt"
	}
	return ""
}

// abandonRebuild ends a rebuild whose copy can't be used. It removes the copy, and breaks the seals
// of the periods, so that the periods are sealed and rebuilt again, except those in lost, which
// other programs have dropped. If the server was killed between two statements of the swap, a table
// of r.Out has the rows of a period, and abandonRebuild puts these rows back.
func (t rebuilder) abandonRebuild(ctx context.Context, c *state.Change, r *rebuilding, why string, lost []rolling.Partition) (string, error) {
	for _, out := range r.Out {
		there, err := t.Exists(ctx, out)
		if err == nil && there {
			err = t.putBack(ctx, out)
		}
		if err != nil {
			return "", fmt.Errorf("%s, and table %s may have rows of it: %w", why, out, err)
		}
	}
	r.Part, r.After = 0, nil
	if err := t.State.Advance(ctx, t.State.DB(), c, stepPrepare, r); err != nil {
		return "", err
	}
	if err := t.DB.Try(ctx, engine.DropTables{Names: append(r.Out, r.With)}); err != nil {
		return "", err
	}
	err := t.inTx(ctx, func(tx *sql.Tx) error {
		for _, p := range r.Old {
			if slices.Contains(lost, p) {
				continue
			}
			if err := t.State.Forget(ctx, tx, t.Table.Name, p.Period); err != nil {
				return err
			}
		}
		return t.State.End(ctx, tx, c)
	})
	return r.New.Name + ": " + why + "; it will be sealed again first", err
}

// putBack moves the rows of a table back into the rolling table, except rows whose key the rolling
// table already has: the rolling table's row is newer.
func (t rebuilder) putBack(ctx context.Context, out string) error {
	d, cols := t.DB.Dialect(), t.columns()
	table, out := d.Quote(t.Table.Name), d.Quote(out)
	return t.inTx(ctx, func(tx *sql.Tx) error {
		return engine.ExecEach(ctx, tx, []string{
			fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s o WHERE NOT EXISTS (SELECT 1 FROM %s n WHERE %s)", table, engine.Quoted(d, cols, ""),
				engine.Quoted(d, cols, "o."), out, table, engine.EqualIn(d, t.Schema.Key(), "o.", "n.")),
			"DELETE FROM " + out,
		})
	})
}

func (t rebuilder) swap(ctx context.Context, r *rebuilding) error {
	proofs := t.proofs(r.Old, r.Sums)
	return t.Alter(ctx, func(have []rolling.Partition) engine.Step {
		return engine.Replace{Table: t.Table, Have: have, Old: r.Old, New: r.New, With: r.With, Out: r.Out, Proofs: proofs}
	})
}

func (t rebuilder) clean(ctx context.Context, c *state.Change, r *rebuilding) (string, error) {
	var want int64
	for _, old := range r.Sums {
		want += old.Rows
	}
	now, err := t.Now(ctx)
	if err != nil {
		return "", err
	}
	part, err := t.find(ctx, r.New.Period)
	if due, drops := DropDue(t.Declared, r.New); err != nil && drops && due <= now {
		if len(t.dropper().lost(ctx, []rolling.Partition{r.New}, nil)) > 0 {
			k := state.Period{Table: t.Table.Name, Partition: r.New, Rows: want, Checked: now}
			return lostText(k), errors.Join(t.DB.Try(ctx, engine.DropTables{Names: r.Out}), t.dropper().lose(ctx, k, c))
		}
	}
	if err != nil {
		return "", err
	}
	s, err := t.sums().checksum(ctx, t.DB.Words().From(t.Table, part), nil)
	if err != nil {
		return "", err
	}
	if err := t.DB.Try(ctx, engine.DropTables{Names: r.Out}); err != nil {
		return "", err
	}
	t.Reach("rebuild cleaned")
	if err := t.guard().triggers(ctx); err != nil {
		return "", err
	}
	k := state.Period{Table: t.Table.Name, Partition: part, State: state.Sealed, Rows: s.Rows, Checksum: s.Hash, Checked: now, Rebuilt: true}
	err = t.inTx(ctx, func(tx *sql.Tx) error {
		if err := t.State.Forget(ctx, tx, t.Table.Name, part.Period); err != nil {
			return err
		}
		if s.Rows == want { // otherwise the next pass seals the period and refreshes the roll-ups
			if err := t.State.Put(ctx, tx, k); err != nil {
				return err
			}
		}
		return t.State.End(ctx, tx, c)
	})
	return fmt.Sprintf("%s: %s of %s", part.Name, figure.Plural(s.Rows, "row"), figure.Plural(len(r.Old), "period")), err
}

func (t *Table) find(ctx context.Context, p rolling.Period) (rolling.Partition, error) {
	have, err := t.DB.Catalog().Partitions(ctx, t.Table)
	if err != nil {
		return rolling.Partition{}, err
	}
	if i := rolling.Find(have, p.From); i >= 0 && have[i].Period == p {
		return have[i], nil
	}
	return rolling.Partition{}, fmt.Errorf("table %s has no period from %s to %s", t.Table.Name, t.Table.Grid.Format(p.From), t.Table.Grid.Format(p.To))
}
