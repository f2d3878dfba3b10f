package lane

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// MaxCreated is the largest number of periods that a load creates, without AnyPeriods.
const MaxCreated = 1000

// Periods create missing periods of the table.
type Periods interface {
	// Creatable returns which periods may be created at present.
	Creatable(ctx context.Context) (*rolling.Creatable, error)
	// CreatePeriods creates the periods parts, except those that overlap existing periods.
	CreatePeriods(ctx context.Context, parts []rolling.Partition) error
}

// lookAgain is the minimum interval between two reads of the periods when rows lie outside of them.
const lookAgain = time.Second

// periods cache a table's periods for all senders, and create missing ones.
type periods struct {
	db    engine.Keeper
	state *state.Store
	table *engine.Table
	// late means that rows below the position up to which all periods are sealed are refused.
	late bool
	// creates, unless nil, creates missing periods. any: without limit. dry: they're only listed.
	creates  Periods
	any, dry bool
	creating sync.Mutex
	created  int

	mu        sync.Mutex
	parts     []rolling.Partition
	upTo      int64
	dropped   int64 // retention has dropped the periods up to here; read before the parts
	looked    time.Time
	creatable *rolling.Creatable
	asked     time.Time // when creatable was read
}

// look returns the periods, and the position up to which they are sealed. If again is set, it reads
// both from the database, unless that was done less than lookAgain ago.
func (t *periods) look(ctx context.Context, again bool) ([]rolling.Partition, int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.parts != nil && (!again || t.dry || time.Since(t.looked) < lookAgain) {
		return t.parts, t.upTo, nil
	}
	return t.read(ctx)
}

// read reads the periods anew. The caller holds mu.
func (t *periods) read(ctx context.Context) ([]rolling.Partition, int64, error) {
	if t.passesOn() {
		var err error
		if t.dropped, err = t.state.DroppedTo(ctx, t.table.Name); err != nil {
			return nil, 0, err
		}
	}
	parts, err := t.db.Catalog().Partitions(ctx, t.table)
	if err != nil {
		return nil, 0, err
	}
	upTo := int64(math.MinInt64)
	if t.late {
		if upTo, err = t.state.SealedUpTo(ctx, t.table.Name); err != nil {
			return nil, 0, err
		}
	}
	t.parts, t.upTo, t.looked = parts, upTo, time.Now()
	return parts, upTo, nil
}

// passesOn reports that periods have no lower bounds: rows of a dropped period go to the next one.
func (t *periods) passesOn() bool { return !t.db.Capabilities().Gaps }

// errDropped means that retention has dropped a period since the periods were read, so that rows of
// the transaction are in a later period than their own. The next attempt rejects these rows.
var errDropped = engine.Classed(engine.ErrLockTimeout, errors.New("retention has dropped a period to which rows were sent"))

// before is called shortly before the commit. It reads what is needed to record the inserted rows:
// see state.Before. From then until the commit, no period can be dropped. If rows have lost their
// period already, it returns errDropped.
func (t *periods) before(ctx context.Context, loader engine.Loader, source *state.Source, ranges []state.Extent) (rolled bool, err error) {
	if !t.passesOn() {
		rolled, _, err = state.Before(ctx, loader, source, nil)
		return rolled, Forgotten(err)
	}
	t.mu.Lock()
	parts, dropped := t.parts, t.dropped
	t.mu.Unlock()
	rolled, moved, err := state.Before(ctx, loader, source, &dropped)
	if err == nil && (parts == nil || moved || len(ranges) > 0 && ranges[0].From < dropped) {
		t.mu.Lock()
		parts, _, err = t.read(ctx)
		t.mu.Unlock()
	}
	for _, r := range ranges {
		if i := rolling.Find(parts, r.From); err == nil && (i < 0 || !parts[i].Contains(r.To-1)) {
			err = errDropped
		}
	}
	return rolled, Forgotten(err)
}

// allowed returns which periods may be created; nil is none. With now, the answer is a new one.
func (t *periods) allowed(ctx context.Context, now bool) (*rolling.Creatable, error) {
	if t.creates == nil {
		return nil, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !now && t.creatable != nil && time.Since(t.asked) < lookAgain && t.table.Grid.Axis() == rolling.Time {
		return t.creatable, nil
	}
	c, err := t.creates.Creatable(ctx)
	if err != nil {
		return nil, err
	}
	if t.any {
		c.Range.To = c.Grid.Bounds().To
	}
	t.creatable, t.asked = c, time.Now()
	return c, nil
}

// missing returns the periods to create for rows of a parsed batch that lie in none of the parts.
func (t *periods) missing(p *format.Parser, c *rolling.Creatable, parts []rolling.Partition, upTo int64) (out []rolling.Partition) {
	for i := range p.Batch.Rows() {
		pos := p.Position(i)
		if t.late && pos < upTo || rolling.Find(parts, pos) >= 0 {
			continue
		}
		if part, err := c.For(parts, pos); err == nil {
			parts, out = rolling.Insert(parts, part), append(out, part)
		}
	}
	return out
}

// create creates the periods that a batch lacks, and returns all periods. In a dry run, it adds
// them only to t.parts.
func (t *periods) create(ctx context.Context, l *Load, p *format.Parser, c *rolling.Creatable) (parts []rolling.Partition, upTo int64, err error) {
	t.creating.Lock()
	defer t.creating.Unlock()
	for range createTries {
		t.mu.Lock()
		if !t.dry {
			_, _, err = t.read(ctx)
		}
		parts, upTo = t.parts, t.upTo
		t.mu.Unlock()
		if err != nil {
			return nil, 0, err
		}
		wanted := t.missing(p, c, parts, upTo)
		if len(wanted) == 0 {
			return parts, upTo, nil
		}
		if n := t.created + len(wanted); n > MaxCreated && !t.any && !t.dry {
			return nil, 0, engine.Hinted(fmt.Errorf("rows would have %s created, and a load creates at most %d; the last is for %s",
				figure.Plural(n, "period", "periods"), MaxCreated, t.table.Grid.Format(wanted[len(wanted)-1].From)),
				"--create-periods=always, if the times are right: --dry-run lists the periods")
		}
		if !t.dry {
			if err := t.creates.CreatePeriods(ctx, wanted); err != nil {
				return nil, 0, err
			}
		}
		t.created += len(wanted)
		l.mu.Lock()
		t.mu.Lock()
		for _, w := range wanted {
			l.Result.Created = append(l.Result.Created, w.Name)
			t.parts = rolling.Insert(t.parts, w) // until parts is read again, which a dry run never does
		}
		t.mu.Unlock()
		l.mu.Unlock()
	}
	return nil, 0, engine.Classed(engine.ErrLockTimeout, errors.New("another process creates or drops the periods that rows need"))
}

// createTries limits attempts for one batch: other processes may create or drop periods meanwhile.
const createTries = 4

// outside returns why a row outside of all periods is rejected.
func (t *periods) outside(c *rolling.Creatable, parts []rolling.Partition, pos int64) error {
	if c != nil {
		if _, err := c.For(parts, pos); err != nil {
			return err
		}
	}
	at := t.table.Grid.Format(pos)
	if len(parts) == 0 {
		return fmt.Errorf("%s lies outside every period: the table has none", at)
	}
	return fmt.Errorf("%s lies outside every period: they run from %s to %s", at, t.table.Grid.Format(parts[0].From), t.table.Grid.Format(parts[len(parts)-1].To))
}

// check creates the periods that a parsed batch's rows lack. It then keeps the rows that can be
// sent and rejects the others. It returns the range of the kept rows in each period.
func (t *periods) check(ctx context.Context, s *sender, p *format.Parser) ([]state.Extent, error) {
	parts, upTo, err := t.look(ctx, false)
	if err != nil {
		return nil, err
	}
	rows := p.Batch.Rows()
	var c *rolling.Creatable
	for i := range rows {
		if pos := p.Position(i); rolling.Find(parts, pos) < 0 || t.late && pos < upTo {
			if parts, upTo, err = t.look(ctx, true); err == nil {
				c, err = t.allowed(ctx, false)
			}
			if err == nil && c != nil && len(t.missing(p, c, parts, upTo)) > 0 {
				// Retention may have dropped the period a moment ago.
				if c, err = t.allowed(ctx, true); err == nil && c != nil {
					parts, upTo, err = t.create(ctx, s.Load, p, c)
				}
			}
			if err != nil {
				return nil, err
			}
			break
		}
	}
	s.expired = 0
	ranges := make([]state.Extent, len(parts))
	keep := p.Kept[:0]
	last := -1
	for i := range rows {
		pos := p.Position(i)
		if last < 0 || !parts[last].Contains(pos) {
			last = rolling.Find(parts, pos)
		}
		if t.late && pos < upTo {
			p.Reject(p.Places[i], p.Columns[p.By].Name,
				fmt.Errorf("%s is late: all before %s is sealed, and the table refuses late rows", t.table.Grid.Format(pos), t.table.Grid.Format(upTo)))
			continue
		}
		if last < 0 {
			if c != nil && pos < c.Range.From {
				s.expired++
			}
			p.Reject(p.Places[i], p.Columns[p.By].Name, t.outside(c, parts, pos))
			continue
		}
		r := &ranges[last]
		if r.Rows++; r.Rows == 1 {
			r.Period = rolling.Period{From: pos, To: pos + 1}
		} else {
			r.From, r.To = min(r.From, pos), max(r.To, pos+1)
		}
		keep = append(keep, i)
	}
	p.Kept = keep
	if len(keep) < rows {
		p.Keep(keep)
	}
	return slices.DeleteFunc(ranges, func(e state.Extent) bool { return e.Rows == 0 }), nil
}
