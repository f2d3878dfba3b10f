package lane

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A Collector collects the rows of the periods that are published, while the rows of other periods
// are sent. Before a batch is recorded as loaded, the Collector records which of the batch's
// periods are published.
type Collector struct {
	*Load
	target *format.Target
	layout *layout
	file   *spillFile
	// base is an offset in the source. Only rows from base on may get new publications: rows before it
	// may already be in the ledger.
	base int64
	// all are the publications, in the order of their periods. Each has an index, by which the sorters
	// find it. A new publication makes a new slice; the old one is never changed.
	all atomic.Pointer[[]*publication]

	// collected counts the rows in the sorters; publishing is when publishing began, as Load.Elapsed.
	collected, publishing atomic.Int64

	mu      sync.Mutex
	sent    map[int64]bool // the first positions of periods whose rows are sent
	sorters []*sorter
	// bySender has the sorters by the sender that fills them.
	bySender map[*sender]*sorter
	inserts  bool   // whether rows of empty periods are inserted
	asked    bool   // whether Publishable was called
	refused  string // why the account may not publish

	// written counts the rows written so far for each publication, by the start of its period.
	// sentIn has the extents of the completed publications, whose rows are in the table. Load.mu
	// protects both.
	written map[int64]int64
	sentIn  []state.Extent
}

type publication struct {
	*state.Publication
	index int
}

// Collect returns the Collector for a file of size bytes, or nil if all rows are sent. published
// are the publications that are already recorded. The batches before offset base are recorded
// already.
func (l *Load) Collect(ctx context.Context, t *format.Target, published []*state.Publication, base, size int64) (*Collector, error) {
	if l.Opt.Dry {
		return nil, nil
	}
	why, err := l.sendsAll(t, published, size)
	if err != nil {
		return nil, err
	}
	wanted := why == ""
	if !wanted && len(published) == 0 {
		return nil, nil
	}
	n := l.newCollector(t, size)
	n.base = base
	var all []*publication
	for i, p := range published {
		if routed(p) && !wanted {
			// Nothing is published this time, so the publication's rows are sent.
			p.State = state.Single
			if p.ToByte == 0 {
				p.ToByte = base
			}
			if err := l.Retry(ctx, func() error { return l.State.PutPublication(ctx, l.State.DB(), p) }); err != nil {
				return nil, err
			}
		}
		all = append(all, &publication{p, i})
	}
	if n.all.Store(&all); !wanted {
		n.asked, n.refused = true, "all rows are sent"
	}
	return n, nil
}

func routed(p *state.Publication) bool { return p.State == state.Routed }

// Collects reports whether rows of the recorded batch that begins at from are collected.
func (n *Collector) Collects(from int64) bool {
	return n != nil && slices.ContainsFunc(*n.all.Load(), func(p *publication) bool { return routed(p.Publication) && p.Has(p.From, from) })
}

// find returns the publication to which a row belongs, or nil.
func find(all []*publication, pos, from int64) *publication {
	i, there := slices.BinarySearchFunc(all, pos, func(p *publication, pos int64) int { return p.Compare(pos) })
	if !there || !all[i].Has(pos, from) {
		return nil
	}
	return all[i]
}

// sorterOf returns the sorter that only this sender uses.
func (n *Collector) sorterOf(of *sender) *sorter {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := n.bySender[of]
	if s == nil {
		s = newSorter(n.layout, n.Opt.Memory/int64(n.Opt.Writers), n.file)
		n.bySender[of] = s
		n.sorters = append(n.sorters, s)
	}
	return s
}

// take removes the rows of publications from a parsed batch and collects them. It doesn't collect
// rows that are already in the table, or that an earlier attempt to send the batch has collected.
func (n *Collector) take(s *sender, b *Batch, p *format.Parser) error {
	all := *n.all.Load()
	if len(all) == 0 {
		return nil
	}
	var last *publication
	var taken []int
	var into *sorter
	collects := false
	rows, keep, collected := p.Batch.Rows(), p.Kept[:0], int64(0)
	for i := range rows {
		pos := p.Position(i)
		if last == nil || !last.Contains(pos) {
			if last = find(all, pos, b.From); last != nil {
				if collects = last.State == state.Routed && !slices.Contains(b.taken, last.index); collects && !slices.Contains(taken, last.index) {
					taken = append(taken, last.index)
				}
			}
		}
		if last == nil {
			keep = append(keep, i)
			continue
		}
		if !collects {
			continue
		}
		if into == nil {
			into = n.sorterOf(s)
		}
		if err := into.add(last.index, p.Batch, i, pos, b.From+int64(p.Places[i].From)); err != nil {
			return err
		}
		collected++
	}
	n.collected.Add(collected)
	b.taken = append(b.taken, taken...)
	p.Kept = keep
	if len(keep) < rows {
		p.Rows -= int64(rows - len(keep))
		p.Keep(keep)
	}
	return nil
}

// only removes all rows of a parsed batch, except those whose publication is in state.Single.
func (n *Collector) only(b *Batch, p *format.Parser) {
	all, keep := *n.all.Load(), p.Kept[:0]
	for i := range p.Batch.Rows() {
		if f := find(all, p.Position(i), b.From); f != nil && f.State == state.Single {
			keep = append(keep, i)
		}
	}
	p.Kept = keep
	p.Keep(keep)
	p.Rows, p.Rejected = int64(len(keep)), p.Rejected[:0]
}

// route takes the rows to publish from a batch, and returns the ranges of the rows to send.
func (n *Collector) route(ctx context.Context, s *sender, b *Batch, p *format.Parser, ranges []state.Extent) ([]state.Extent, error) {
	if b.From < n.base {
		return ranges, nil
	}
	left := ranges[:0]
	for _, r := range ranges {
		is, err := n.publishes(ctx, r.From)
		if err != nil {
			return nil, err
		}
		if !is {
			left = append(left, r)
		}
	}
	if len(left) == len(ranges) {
		return left, nil
	}
	return left, n.take(s, b, p)
}

// publishes reports whether the period of a position is published. It decides once for each period.
func (n *Collector) publishes(ctx context.Context, pos int64) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all := *n.all.Load()
	if find(all, pos, n.base) != nil {
		return true, nil
	}
	parts, _, err := n.periods.look(ctx, false)
	if err != nil {
		return false, err
	}
	i := rolling.Find(parts, pos)
	if i < 0 {
		return false, nil // the period was dropped a moment ago
	}
	part := parts[i]
	if n.sent[part.From] {
		return false, nil
	}
	is, err := n.decide(ctx, part, all)
	if err != nil {
		return false, err
	}
	if !is {
		n.sent[part.From] = true
	}
	return is, nil
}

func (n *Collector) decide(ctx context.Context, part rolling.Partition, all []*publication) (bool, error) {
	if n.refused != "" || slices.ContainsFunc(all, func(p *publication) bool { return p.Overlaps(part.Period) }) {
		return false, nil
	}
	rows, err := n.rowsIn(ctx, part, 1)
	if err != nil || rows == 0 && n.inserts {
		return false, err
	}
	if rows > 0 {
		why, err := n.unmerged(ctx, part.Period)
		if why != "" && n.Opt.Lane == Merge {
			n.Say("period %s: live, because its rows can't be merged: %s", part.Name, why)
		}
		if err != nil || why != "" {
			return false, err
		}
	}
	if !n.asked {
		n.asked = true
		err := n.Retry(ctx, func() error { return n.Opt.Publisher.Publishable(ctx) })
		if err != nil {
			if ctx.Err() != nil || n.Opt.Lane.forced() {
				return false, err
			}
			n.refused = err.Error()
			n.Say("rows are inserted into the periods, because none can be published: %v", err)
			return false, nil
		}
	}
	p := &state.Publication{Table: n.Source.Table, Source: n.Source.Key, Period: part.Period, FromByte: n.base, State: state.Routed}
	tried := false
	err = n.Retry(ctx, func() error {
		err := n.State.AddPublications(ctx, n.State.DB(), []*state.Publication{p})
		if tried && errors.Is(err, engine.ErrDuplicateKey) {
			return nil // the connection broke after the commit
		}
		tried = true
		return err
	})
	if err != nil {
		return false, err
	}
	n.Opt.Reached("publication noted")
	more := append(slices.Clone(all), &publication{p, len(all)})
	slices.SortFunc(more, func(a, b *publication) int { return cmp.Compare(a.From, b.From) })
	n.all.Store(&more)
	return true, nil
}

// counts returns the number of rows of a publication, and their lowest and highest position.
func (n *Collector) counts(p *publication) (rows, first, last int64) {
	first, last = p.To, p.From
	for _, s := range n.sorters {
		if p.index < len(s.groups) {
			g := &s.groups[p.index]
			rows, first, last = rows+g.rows, min(first, g.first), max(last, g.last)
		}
	}
	return rows, first, last
}

// rowsOf passes the rows of a publication to write, in the order of the key or of the source.
func (n *Collector) rowsOf(ctx context.Context, p *publication, sourceOrder bool, write func(*engine.Batch) error) (err error) {
	buffer := n.runBuffer()
	var all []cursor
	for _, s := range n.sorters {
		all = append(all, s.cursors(p.index, buffer)...)
	}
	if sourceOrder {
		file := &spillFile{dir: n.Opt.Dir}
		defer func() { err = errors.Join(err, file.close()) }()
		again := newSorter(newLayout(n.layout.columns, nil), n.Opt.Memory/8, file)
		if err := n.each(ctx, n.layout, all, 1, func(b *engine.Batch, ordinal uint64) error {
			return again.add(0, b, 0, 0, int64(ordinal))
		}); err != nil {
			return err
		}
		return n.each(ctx, again.layout, again.cursors(0, buffer), n.Opt.Rows, func(b *engine.Batch, _ uint64) error { return write(b) })
	}
	return n.each(ctx, n.layout, all, n.Opt.Rows, func(b *engine.Batch, _ uint64) error { return write(b) })
}

// each passes merged rows on, in batches of up to the number rows, with the last row's ordinal.
func (n *Collector) each(ctx context.Context, l *layout, all []cursor, rows int, fn func(*engine.Batch, uint64) error) error {
	m, err := newMerge(all)
	if err != nil {
		return err
	}
	b, size := engine.NewBatch(l.columns), 0
	for {
		row, more, err := m.next()
		if err != nil {
			return err
		}
		var ordinal uint64
		if more {
			if ordinal, err = l.decode(row, b); err != nil {
				return err
			}
			size += len(row)
		}
		if b.Rows() > 0 && (!more || b.Rows() == rows || size >= n.Opt.Bytes) {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := fn(b, ordinal); err != nil {
				return err
			}
			b.Reset()
			size = 0
		}
		if !more {
			return nil
		}
	}
}

// runBuffer returns the size of each run's buffer. All buffers take about an eighth of Memory.
func (n *Collector) runBuffer() int {
	runs := 1
	for _, s := range n.sorters {
		for _, g := range s.groups {
			runs = max(runs, len(g.runs))
		}
	}
	share := n.Opt.Memory / 8 / int64(runs*len(n.sorters)*max(n.Opt.Parallel, 1))
	return int(min(max(share, 4<<10), 256<<10))
}

// Close removes the temporary file.
func (n *Collector) Close() error {
	if n == nil {
		return nil
	}
	return n.file.close()
}

func (n *Collector) label(p *publication) string {
	return "period " + n.Opt.Table.Grid.Name(p.Period)
}
