package maintain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A creator creates periods, ahead and for rows that are loaded.
type creator struct{ *table }

func (t *Table) creator() creator { return creator{t} }

// Creatable returns the range in which loads may create periods. It begins with the oldest period
// that retention keeps, and ends one period after those that are created ahead.
func (t *Table) Creatable(ctx context.Context) (*rolling.Creatable, error) {
	t, err := t.Follow(ctx)
	if err != nil {
		return nil, err
	}
	now, err := t.Now(ctx)
	if err != nil {
		return nil, err
	}
	return t.CreatableAt(ctx, now)
}

// CreatableAt is Creatable at a position, by the declaration of t.
func (t *Table) CreatableAt(ctx context.Context, now int64) (c *rolling.Creatable, err error) {
	d := t.Declared
	c = &rolling.Creatable{Grid: d.Period, Keep: d.Keep, Range: d.Period.Bounds()}
	if c.Range.From, err = Oldest(d, now); err != nil {
		return nil, err
	}
	// A load of a sequence goes on after the last period, even if now is still below that period.
	newest := now
	if d.Period.Axis() == rolling.Sequence && t.Schema != nil {
		have, err := t.DB.Catalog().Partitions(ctx, t.Table)
		if err != nil {
			return nil, err
		}
		if n := len(have); n > 0 {
			newest = max(newest, have[n-1].To)
		}
	}
	c.Range.To = d.Period.Span().After(d.Period.Ceil(d.Ahead.After(newest)))
	c.Sealed = c.Range.From
	if t.Rollups != nil {
		c.Sealed, err = t.Rollups.SealedTo(ctx, now)
	}
	return c, err
}

// Oldest returns the start of the oldest period that retention keeps.
func Oldest(d *rolling.Declaration, now int64) (int64, error) {
	b := d.Period.Bounds()
	if d.Keep.IsZero() {
		return b.From, nil
	}
	at := min(max(min(d.Keep.Before(now), d.Seal.After.Before(now)), b.From), b.To-1)
	p, err := d.Period.At(at)
	for err == nil {
		if due, _ := DropDue(d, rolling.Partition{Period: p}); due > now || p.To >= b.To {
			return p.From, nil
		}
		p, err = d.Period.At(p.To)
	}
	return 0, err
}

// createAtOnce is how many periods one step creates: each takes some milliseconds under the table's
// lock.
const createAtOnce = 8

// SpareFor returns how many of the periods that a server allows are reserved for periods created
// ahead, so that loads of old rows don't use them up.
func SpareFor(most int) int { return most / 10 }

// CreatePeriods creates periods that rows need, as far as Creatable allows. It leaves out a period
// that overlaps an existing one, which another process may have created. On return, inserts find
// the created periods, with their triggers.
func (t *Table) CreatePeriods(ctx context.Context, parts []rolling.Partition) error {
	began := time.Now()
	var made []rolling.Partition
	for {
		have, err := t.DB.Catalog().Partitions(ctx, t.Table)
		if err != nil {
			return err
		}
		missing := slices.DeleteFunc(slices.Clone(parts), func(p rolling.Partition) bool {
			return slices.ContainsFunc(have, func(h rolling.Partition) bool { return h.Overlaps(p.Period) })
		})
		if len(missing) == 0 {
			break
		}
		byFrom := func(a, b rolling.Partition) int { return cmp.Compare(a.From, b.From) }
		slices.SortFunc(missing, byFrom)
		all := slices.Concat(have, missing)
		slices.SortFunc(all, byFrom)
		if most, n := t.DB.Capabilities().MaxPeriods, (View{Gaps: t.DB.Capabilities().Gaps}).partitions(all); most > 0 && n > most-SpareFor(most) {
			return engine.Hinted(fmt.Errorf("the rows need %s more, and the table would have %d partitions: the server allows %d, of which a tenth is left to new rows",
				figure.Plural(len(missing), "period", "periods"), n, most), "a longer period, or merge = \"1mo\" below [seal]; or only the rows of fewer periods")
		}
		some := missing[:min(len(missing), createAtOnce)]
		t.Reach("create period")
		enclosed, err := t.creator().createIn(ctx, engine.CreatePartitions{Table: t.Table, Have: have, New: some})
		if enclosed != "" {
			t.Log(ctx, string(Enclose), enclosed, time.Since(began), err)
			continue
		}
		if err != nil {
			now, lookErr := t.DB.Catalog().Partitions(ctx, t.Table)
			if lookErr != nil || len(now) == len(have) { // no other process has created it meanwhile
				if errors.Is(err, engine.ErrLockTimeout) {
					err = t.Blocked(ctx, err)
				}
				return fmt.Errorf("create %s: %w", Task{Parts: some}.Label(), err)
			}
			continue
		}
		made = append(made, some...)
		t.Reach("period created")
	}
	if len(made) == 0 {
		return nil
	}
	if err := t.guard().triggers(ctx); err != nil {
		return fmt.Errorf("triggers of %s: %w", Task{Parts: made}.Label(), err)
	}
	t.Reach("period triggers")
	t.Log(ctx, string(Create), Task{Parts: made}.Label()+", for rows that are loaded", time.Since(began), nil)
	return nil
}

// A Loading is a file that is being loaded, with the range of its rows so far. The range is empty
// before the first batch. Later rows of the file are likely to lie in the range.
type Loading struct {
	Path string
	rolling.Period
}

func (l *Loading) why() string { return l.Path + " is being loaded into it" }

// loading returns the files that are being loaded, but no streams, because these may never end. The
// load of a file holds a lock; a load without it was killed.
func (t creator) loading(ctx context.Context) ([]Loading, error) {
	files, err := t.State.Unfinished(ctx, t.Table.Name)
	if err != nil {
		return nil, err
	}
	var out []Loading
	for i := range files {
		lease, err := t.DB.Lead(ctx, state.LoadLock(t.Table.Name, files[i].Key))
		switch {
		case err == nil:
			if err := lease.Release(); err != nil {
				return nil, err
			}
		case errors.Is(err, engine.ErrLockTimeout):
			reach, err := t.State.Reach(ctx, &files[i])
			if err != nil {
				return nil, err
			}
			out = append(out, Loading{files[i].Path, reach})
		default:
			return nil, err
		}
	}
	return out, nil
}

// waitForLoads returns a waitError if a load may still add rows to a period that is about to be
// sealed. That is a period in the range of a load or, while any load runs, a period without rows.
func (t creator) waitForLoads(ctx context.Context, p rolling.Partition, rows int64) error {
	loads, err := t.loading(ctx)
	if err != nil {
		return err
	}
	if load := (View{Loading: loads}).filling([]rolling.Partition{p}); load != nil {
		return &waitError{fmt.Sprintf("%s is not sealed: %s", p.Name, load.why())}
	}
	if rows == 0 && len(loads) > 0 {
		return &waitError{fmt.Sprintf("%s is not sealed: it has no rows, and %s is being loaded", p.Name, loads[0].Path)}
	}
	return nil
}
