package maintain

import (
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

// Creatable returns which missing periods rows may have at present: those that
// retention would not drop, up to one period after those that are created ahead.
func (t *Table) Creatable(ctx context.Context) (*rolling.Creatable, error) {
	t, err := t.Follow(ctx)
	if err != nil {
		return nil, err
	}
	d := t.Declared
	c := &rolling.Creatable{Grid: d.Period, Keep: d.Keep, Range: d.Period.Bounds()}
	now, err := t.Now(ctx)
	if err != nil {
		return nil, err
	}
	if c.Range.From, err = oldest(d, now); err != nil {
		return nil, err
	}
	// A sequence is filled from its beginning: what follows the last period is near.
	newest := now
	if d.Period.Axis() == rolling.Sequence {
		have, err := t.DB.Catalog().Partitions(ctx, t.Table)
		if err != nil {
			return nil, err
		}
		if n := len(have); n > 0 {
			newest = max(newest, have[n-1].To)
		}
	}
	c.Range.To = d.Period.Span().After(d.Period.Ceil(d.Ahead.After(newest)))
	if t.Rollups == nil {
		return c, nil
	}
	known, err := t.State.Periods(ctx, t.Table.Name)
	if err != nil {
		return nil, err
	}
	for _, k := range known {
		if k.State == state.Dropped {
			c.Closed = append(c.Closed, k.Period)
		}
	}
	return c, nil
}

// oldest returns the beginning of the oldest period that retention would not drop.
func oldest(d *rolling.Declaration, now int64) (int64, error) {
	b := d.Period.Bounds()
	if d.Keep.IsZero() {
		return b.From, nil
	}
	at := min(max(min(d.Keep.Before(now), d.Seal.After.Before(now)), b.From), b.To-1)
	p, err := d.Period.At(at)
	for err == nil {
		if due, _ := dropDue(d, rolling.Partition{Period: p}); due > now || p.To >= b.To {
			return p.From, nil
		}
		p, err = d.Period.At(p.To)
	}
	return 0, err
}

// createAtOnce is how many periods one step creates: each costs some milliseconds under the
// table's lock.
const createAtOnce = 8

// spareFor returns how many of the periods that a server allows are left to those that
// are created ahead: history must not stop the table from rolling.
func spareFor(most int) int { return most / 10 }

// CreatePeriods creates periods that rows need, as Creatable allows them. Those that
// overlap with an existing one are left out: another process may have created it. On
// return, inserts find the others, with their triggers.
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
		if most := t.DB.Capabilities().MaxPeriods; most > 0 && len(have)+len(missing) > most-spareFor(most) {
			return engine.Hinted(fmt.Errorf("the rows need %s more, and the table has %d: the server allows %d, of which a tenth is left to new rows",
				figure.Plural(len(missing), "period", "periods"), len(have), most), "a longer period, or merge = \"1mo\" below [seal]; or only the rows of fewer periods")
		}
		some := missing[:min(len(missing), createAtOnce)]
		t.reach("create period")
		if err := t.tryLocked(ctx, engine.CreatePartitions{Table: t.Table, Have: have, New: some}); err != nil {
			now, lookErr := t.DB.Catalog().Partitions(ctx, t.Table)
			if lookErr != nil || len(now) == len(have) { // no other process has created it meanwhile
				if errors.Is(err, engine.ErrLockTimeout) {
					err = t.blocked(ctx, err)
				}
				return fmt.Errorf("create %s: %w", label(Task{Parts: some}), err)
			}
			continue
		}
		made = append(made, some...)
		t.reach("period created")
	}
	if len(made) == 0 {
		return nil
	}
	if err := t.triggers(ctx); err != nil {
		return fmt.Errorf("triggers of %s: %w", label(Task{Parts: made}), err)
	}
	t.reach("period triggers")
	t.log(ctx, string(Create), label(Task{Parts: made})+", for rows that are loaded", time.Since(began), nil)
	return nil
}

// A Loading is a file that a process is loading.
type Loading struct {
	Path string
	// Period is the range of the rows that are loaded so far, which the rest may lie in,
	// too; it is empty before the first batch.
	rolling.Period
}

func (l *Loading) why() string { return l.Path + " is being loaded into it" }

// loading returns the files that are being loaded. A load that was killed has lost its lock.
// Streams, which may never end, are not among them.
func (t *Table) loading(ctx context.Context) ([]Loading, error) {
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

// waitForLoads returns a waitError if a load fills a period that is about to be sealed with a
// number of rows. One without rows may have been created for rows that are on their way.
func (t *Table) waitForLoads(ctx context.Context, p rolling.Partition, rows int64) error {
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
