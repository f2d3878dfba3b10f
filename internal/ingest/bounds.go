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

// lookAgain is the minimum interval between two reads of the table's periods when
// rows lie outside of them.
const lookAgain = time.Second

// bounds cache a table's periods for all senders.
type bounds struct {
	db    engine.Keeper
	table *engine.Table
	// late means that late rows, those below the position up to which all periods
	// are sealed, are refused.
	late   bool
	sealed func(ctx context.Context) (int64, error)

	mu     sync.Mutex
	parts  []rolling.Partition
	upTo   int64
	looked time.Time
}

// look reads the periods, unless they were read within lookAgain.
func (b *bounds) look(ctx context.Context) ([]rolling.Partition, int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.looked) < lookAgain {
		return b.parts, b.upTo, nil
	}
	parts, err := b.db.Catalog().Partitions(ctx, b.table)
	if err != nil {
		return nil, 0, err
	}
	upTo := int64(0)
	if b.late {
		if upTo, err = b.sealed(ctx); err != nil {
			return nil, 0, err
		}
	}
	b.parts, b.upTo, b.looked = parts, upTo, time.Now()
	return parts, upTo, nil
}

// known returns the cached periods.
func (b *bounds) known() ([]rolling.Partition, int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.parts, b.upTo
}

func (b *bounds) outside(parts []rolling.Partition, pos int64) error {
	at := b.table.Grid.Format(pos)
	if len(parts) == 0 {
		return fmt.Errorf("%s lies outside every period: the table has none", at)
	}
	return fmt.Errorf("%s lies outside every period: they run from %s to %s", at, b.table.Grid.Format(parts[0].From), b.table.Grid.Format(parts[len(parts)-1].To))
}

// check keeps the rows of a parser's batch that can be sent and rejects the
// others. It returns the range of the kept rows in each period.
func (b *bounds) check(ctx context.Context, p *parser, data []byte, offset int64) ([]state.Extent, error) {
	parts, upTo := b.known()
	rows := p.batch.Rows()
	bad := false
	for i := range rows {
		if pos := p.position(i); rolling.Find(parts, pos) < 0 || b.late && pos < upTo {
			bad = true
			break
		}
	}
	if bad || parts == nil {
		var err error
		if parts, upTo, err = b.look(ctx); err != nil {
			return nil, err
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
			p.reject(p.places[i], offset, data, p.columns[p.by].Name, b.outside(parts, pos))
			continue
		}
		if b.late && pos < upTo {
			p.reject(p.places[i], offset, data, p.columns[p.by].Name,
				fmt.Errorf("%s is late: all before %s is sealed, and the table refuses late rows", b.table.Grid.Format(pos), b.table.Grid.Format(upTo)))
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
