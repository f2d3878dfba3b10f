package ingest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// lookAgain is the minimum interval between two reads of the periods when rows lie outside of them.
const lookAgain = time.Second

// periods cache a table's periods for all senders.
type periods struct {
	db    engine.Keeper
	state *state.Store
	table *engine.Table
	// late means that late rows, those below the position up to which all periods
	// are sealed, are refused.
	late bool

	mu     sync.Mutex
	parts  []rolling.Partition
	upTo   int64
	looked time.Time
}

// look returns the periods and the position up to which they are sealed. With again, it
// reads them, unless they were read within lookAgain.
func (t *periods) look(ctx context.Context, again bool) ([]rolling.Partition, int64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.parts != nil && !again || time.Since(t.looked) < lookAgain {
		return t.parts, t.upTo, nil
	}
	parts, err := t.db.Catalog().Partitions(ctx, t.table)
	if err != nil {
		return nil, 0, err
	}
	upTo := int64(0)
	if t.late {
		if upTo, err = t.state.SealedUpTo(ctx, t.table.Name); err != nil {
			return nil, 0, err
		}
	}
	t.parts, t.upTo, t.looked = parts, upTo, time.Now()
	return parts, upTo, nil
}

func (t *periods) outside(parts []rolling.Partition, pos int64) error {
	at := t.table.Grid.Format(pos)
	if len(parts) == 0 {
		return fmt.Errorf("%s lies outside every period: the table has none", at)
	}
	return fmt.Errorf("%s lies outside every period: they run from %s to %s", at, t.table.Grid.Format(parts[0].From), t.table.Grid.Format(parts[len(parts)-1].To))
}

// check keeps the rows of a parsed batch that can be sent and rejects the others. It
// returns the range of the kept rows in each period.
func (t *periods) check(ctx context.Context, p *parser) ([]state.Extent, error) {
	parts, upTo, err := t.look(ctx, false)
	if err != nil {
		return nil, err
	}
	rows := p.batch.Rows()
	for i := range rows {
		if pos := p.position(i); rolling.Find(parts, pos) < 0 || t.late && pos < upTo {
			if parts, upTo, err = t.look(ctx, true); err != nil {
				return nil, err
			}
			break
		}
	}
	ranges := make([]state.Extent, len(parts))
	keep := p.kept[:0]
	last := -1
	for i := range rows {
		pos := p.position(i)
		if last < 0 || !parts[last].Contains(pos) {
			last = rolling.Find(parts, pos)
		}
		if last < 0 {
			p.reject(p.places[i], p.columns[p.by].Name, t.outside(parts, pos))
			continue
		}
		if t.late && pos < upTo {
			p.reject(p.places[i], p.columns[p.by].Name,
				fmt.Errorf("%s is late: all before %s is sealed, and the table refuses late rows", t.table.Grid.Format(pos), t.table.Grid.Format(upTo)))
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
	p.kept = keep
	if len(keep) < rows {
		p.keep(keep)
	}
	return slices.DeleteFunc(ranges, func(e state.Extent) bool { return e.Rows == 0 }), nil
}
