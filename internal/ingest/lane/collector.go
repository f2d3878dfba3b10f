package lane

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A Lane is how rows reach the table.
type Lane string

// Lanes.
const (
	// Auto publishes the rows of empty periods, and merges those of others that are over,
	// if that is worth it.
	Auto Lane = "auto"
	// Live inserts all rows into the periods.
	Live Lane = "live"
	// Publish publishes the rows of all empty periods, however few.
	Publish Lane = "publish"
	// Merge publishes those, and merges the rows of all other periods that are over,
	// however few.
	Merge Lane = "merge"
)

// Lanes are the names of all lanes.
var Lanes = []string{string(Auto), string(Live), string(Publish), string(Merge)}

// A Publisher makes the rows of a publication the rows of their period.
type Publisher interface {
	// Publishable returns an error if the account or the table doesn't permit it.
	Publishable(ctx context.Context) error
	// Mergeable returns the reason why rows can't be merged with those of a period.
	Mergeable(ctx context.Context, p rolling.Period) error
	// Publish creates a table with these columns, which fill fills, and replaces the
	// period by it. fill may be called again, then with the rows in the order of the
	// source. If p.Merges, rows that the period has are merged with them, of which they
	// are those that stay. Publish sets p's state and counts, and records them in the transaction
	// that ends the change. It returns state.ErrFilled if the period has got many rows,
	// and engine.ErrRefused if the server refuses some of the rows; none of them is in
	// the table then.
	Publish(ctx context.Context, p *state.Publication, columns []engine.Column, fill func(ctx context.Context, sourceOrder bool, write func(*engine.Batch) error) error) error
	// FinishPublications completes the publications of processes that have died, or
	// removes what they have left. On return, none of the source is under way.
	FinishPublications(ctx context.Context, source string) error
}

const (
	DefaultMemory = 256 << 20
	// smallFile is the size of a file that is not worth a publication, and fewIndexesFile that
	// of one whose rows are inserted into empty periods of a table with one index besides its
	// primary key, or none: while these fit in memory, a publication costs more.
	smallFile      = 4 << 20
	fewIndexesFile = 64 << 20
	// fewRows is the number of rows of a period that are inserted in one transaction
	// rather than published: a publication costs about ten statements.
	fewRows = 20000
	// mergeShare is how many rows that a period has are copied for each row merged with
	// them; beyond, they are inserted. A merge writes a new row twice and copies each old
	// one, on the sorted path: n rows take the time of 2n + old of them. Inserts took a
	// fifth of a merge's time while the period's indexes were in memory, and seven times
	// as long where they were not (docs/loading.md).
	mergeShare = 10
)

// A Collector collects the rows of a file that are published, by period, while the other rows
// are sent. Which rows it takes is recorded in the database before any batch with such
// rows is recorded as loaded.
type Collector struct {
	*Load
	target *format.Target
	layout *layout
	file   *spillFile
	// base is the offset from which rows of periods without a publication may get one.
	// Batches before may be in the ledger with such rows.
	base int64
	// all are the publications in order, each with its index in the sorters; they are
	// replaced as a whole.
	all atomic.Pointer[[]*publication]

	// collected counts the rows in the sorters, and publishing is when the first of them
	// was passed on, as time.Since(began).
	collected, publishing atomic.Int64

	mu      sync.Mutex
	sent    map[int64]bool // the first positions of periods whose rows are sent
	sorters []*sorter
	// bySender has the same sorters.
	bySender map[*sender]*sorter
	inserts  bool   // whether rows of empty periods are inserted
	asked    bool   // whether the account may publish
	refused  string // why not

	// written counts the rows that are written for each publication, by its period, and sentIn
	// are the extents of those that are in the table. load.mu protects them.
	written map[int64]int64
	sentIn  []state.Extent
}

type publication struct {
	*state.Publication
	index int
}

// Collect begins the collection of a reading of a file of a size, from the recorded publications,
// and up to where batches are recorded. It returns nil if all rows are sent.
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
			// Its rows are sent instead.
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

// forced reports that a load fails if the lane can't be taken.
func (l Lane) forced() bool { return l == Publish || l == Merge }

func routed(p *state.Publication) bool { return p.State == state.Routed }

// Collects reports whether rows of a recorded batch are collected.
func (n *Collector) Collects(from int64) bool {
	return n != nil && slices.ContainsFunc(*n.all.Load(), func(p *publication) bool { return routed(p.Publication) && p.Has(p.From, from) })
}

// find returns the publication to which a row belongs, or nil.
func find(all []*publication, pos, from int64) *publication {
	i, there := slices.BinarySearchFunc(all, pos, func(p *publication, pos int64) int {
		switch {
		case p.To <= pos:
			return -1
		case p.From > pos:
			return 1
		}
		return 0
	})
	if !there || !all[i].Has(pos, from) {
		return nil
	}
	return all[i]
}

// sorterOf returns the sorter of a sender, which it alone uses.
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

// take removes the rows of publications from a parsed batch. It collects them, unless they
// are in the table, or an earlier attempt to send the batch has collected them.
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

// only leaves those rows in a parsed batch that belong to publications whose rows are
// sent. Everything else about the batch is in the ledger already.
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

// route takes the rows of a batch that are published. The ranges are those of its rows,
// which may be sent; it returns those that are left.
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

// publishes decides, once for each period of a reading, whether its rows are published.
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
		return false, nil // gone a moment ago
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
	slices.SortFunc(more, func(a, b *publication) int {
		if a.From < b.From {
			return -1
		}
		return 1
	})
	n.all.Store(&more)
	return true, nil
}

// counts returns the number of rows of a publication, and their lowest and highest
// position.
func (n *Collector) counts(p *publication) (rows, first, last int64) {
	first, last = p.To, p.From
	for _, s := range n.sorters {
		rows += s.rows(p.index)
		first, last = s.span(p.index, first, last)
	}
	return rows, first, last
}

// rowsOf passes the rows of a publication to write, in the order of the key or of the
// source.
func (n *Collector) rowsOf(ctx context.Context, p *publication, sourceOrder bool, write func(*engine.Batch) error) (err error) {
	buffer := n.runBuffer()
	var all []cursor
	for _, s := range n.sorters {
		all = append(all, s.cursors(p.index, buffer)...)
	}
	if sourceOrder {
		file := &spillFile{dir: n.Opt.Dir}
		defer func() { err = errors.Join(err, file.close()) }()
		again := newSorter(n.layout.inFileOrder(), n.Opt.Memory/8, file)
		if err := n.each(ctx, n.layout, all, 1, func(b *engine.Batch, ordinal uint64) error {
			return again.add(0, b, 0, 0, int64(ordinal))
		}); err != nil {
			return err
		}
		return n.each(ctx, again.layout, again.cursors(0, buffer), n.Opt.Rows, func(b *engine.Batch, _ uint64) error { return write(b) })
	}
	return n.each(ctx, n.layout, all, n.Opt.Rows, func(b *engine.Batch, _ uint64) error { return write(b) })
}

// each passes the merged rows of cursors on, in batches of at most that many rows, with
// the ordinal of the last one.
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

// runBuffer is the size of the buffer with which a run is read. All of those that are
// read at a time fit a fraction of the memory.
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

func (n *Collector) Close() error {
	if n == nil {
		return nil
	}
	return n.file.close()
}

// label names the period of a publication for users.
func (n *Collector) label(p *publication) string {
	return "period " + n.Opt.Table.Grid.Name(p.Period)
}

// PublishAll puts all collected rows into the table. All batches up to byte to have been
// read.
func (n *Collector) PublishAll(ctx context.Context, to int64) error {
	var due []*publication
	for _, p := range *n.all.Load() {
		if routed(p.Publication) {
			due = append(due, p)
		}
	}
	if len(due) == 0 {
		return nil
	}
	err := n.Retry(ctx, func() error { return n.State.EndPublications(ctx, n.Source.Table, n.Source.Key, to) })
	if err != nil {
		return err
	}
	n.Opt.Reached("rows collected")
	n.publishing.Store(int64(n.Elapsed()))
	ctx, fail := context.WithCancelCause(ctx)
	var ticking sync.WaitGroup
	if n.Opt.Progress != nil {
		ticking.Go(func() { n.Load.progress(ctx) })
	}
	defer ticking.Wait()
	defer fail(nil)
	work := make(chan *publication)
	var all sync.WaitGroup
	var went [len(together)]struct{ periods, rows int64 }
	for range min(n.Opt.Parallel, len(due)) {
		all.Go(func() {
			for p := range work {
				if ctx.Err() == nil {
					lane, err := n.publishOne(ctx, p, to)
					if err != nil {
						fail(err)
						continue
					}
					n.Load.mu.Lock()
					if i := slices.Index(together[:], lane); i >= 0 {
						went[i].periods++
						went[i].rows += p.Sent
					}
					n.Load.mu.Unlock()
				}
			}
		})
	}
	for _, p := range due {
		work <- p
	}
	close(work)
	all.Wait()
	for i, one := range went {
		if one.periods > 0 {
			n.Say("%s %s, %s", figure.Plural(one.periods, "period", "periods"), together[i].did(), figure.Plural(one.rows, "row", "rows"))
		}
	}
	return context.Cause(ctx)
}

// together are the lanes in which the rows of a publication go in all at once.
var together = [...]Lane{Publish, Merge, Live}

// did says what became of rows that went in together.
func (l Lane) did() string {
	return map[Lane]string{Publish: "published", Merge: "merged", Live: "with few rows: live"}[l]
}

// publishOne puts the rows of a publication into the table. It returns their lane, or "" if
// they are left to be sent in batches.
func (n *Collector) publishOne(ctx context.Context, p *publication, to int64) (lane Lane, err error) {
	if p.ToByte == 0 {
		p.ToByte = to
	}
	rows, first, last := n.counts(p)
	if rows == 0 {
		return "", nil
	}
	p.Counts, p.First, p.Last = state.Counts{Sent: rows}, first, last
	lane, why, err := n.choose(ctx, p.Period, rows)
	if err != nil {
		return "", err
	}
	p.Merges, p.Compared = lane == Merge, 0
	switch {
	case why == tooFew:
		err = n.insertFew(ctx, p)
	case lane == Live:
		n.Say("%s: live, %s: %s", n.label(p), figure.Plural(rows, "row", "rows"), why)
		return "", n.single(ctx, p)
	default:
		err = n.Retry(ctx, func() error {
			n.note(p, 0)
			return n.Opt.Publisher.Publish(ctx, p.Publication, n.layout.columns, func(ctx context.Context, sourceOrder bool, write func(*engine.Batch) error) error {
				n.note(p, 0)
				return n.rowsOf(ctx, p, sourceOrder, func(b *engine.Batch) error {
					err := write(b)
					n.note(p, int64(b.Rows()))
					return err
				})
			})
		})
		if err == nil {
			n.countTogether(p.Counts, p.Extents())
			n.notCompared.Add(p.Duplicate - p.Compared)
		}
	}
	if !errors.Is(err, engine.ErrRefused) && !errors.Is(err, state.ErrFilled) && !errors.Is(err, engine.ErrUnsupported) || ctx.Err() != nil {
		return lane, err
	}
	n.Say("%s: live, because its rows can't be published: %v", n.label(p), err)
	return "", n.single(ctx, p)
}

// single records that the rows of a publication are sent in batches.
func (n *Collector) single(ctx context.Context, p *publication) error {
	p.Counts, p.State = state.Counts{}, state.Single
	return n.Retry(ctx, func() error { return n.State.PutPublication(ctx, n.State.DB(), p.Publication) })
}

// note notes the progress of a publication: rows more are written, 0 begins anew.
func (n *Collector) note(p *publication, rows int64) {
	n.Load.mu.Lock()
	defer n.Load.mu.Unlock()
	if n.written == nil {
		n.written = map[int64]int64{}
	}
	if rows == 0 {
		n.written[p.From] = 0
	}
	n.written[p.From] += rows
}

// countTogether counts the rows of a publication that are in the table.
func (n *Collector) countTogether(c state.Counts, in []state.Extent) {
	n.Load.mu.Lock()
	n.sentIn = n.Gathered(n.sentIn, in)
	n.Load.mu.Unlock()
	n.Count(c, 0)
}

// RowsSent returns the extents of the collected rows that are in the table.
func (n *Collector) RowsSent() []state.Extent {
	if n == nil {
		return nil
	}
	return n.sentIn
}

// Describe adds to a Progress how far the collected rows have come.
func (n *Collector) Describe(p *Progress) {
	if n == nil {
		return
	}
	p.Collected = n.collected.Load()
	if began := n.publishing.Load(); began > 0 {
		p.Publishing = p.Elapsed - time.Duration(began)
	}
	n.Load.mu.Lock()
	defer n.Load.mu.Unlock()
	for _, rows := range n.written {
		p.Written += rows
	}
}

// SecondLine ends the id in the ledger of the second line of a batch.
const SecondLine = "~"

// SendsAny reports whether there are publications whose rows are sent.
func (n *Collector) SendsAny() bool {
	return slices.ContainsFunc(*n.all.Load(), func(p *publication) bool { return p.State == state.Single })
}

// Sends reports whether rows of a batch belong to publications whose rows are sent.
func (n *Collector) Sends(from int64) bool {
	return slices.ContainsFunc(*n.all.Load(), func(p *publication) bool { return p.State == state.Single && p.Has(p.From, from) })
}

// RecordedOf returns what is recorded of a source that is not loaded to its end: its
// cuts, its publications, and the lines of the ledger of both.
func RecordedOf(ctx context.Context, st *state.Store, s *state.Source) (cuts []state.Cut, published []*state.Publication, noted map[string]state.Batch, err error) {
	if cuts, err = st.Cuts(ctx, s.Table, s.Key); err != nil {
		return nil, nil, nil, err
	}
	if published, err = st.Publications(ctx, s.Table, s.Key); err != nil {
		return nil, nil, nil, err
	}
	var ids []string
	for _, cut := range cuts {
		ids = append(ids, cut.ID(s.Key))
		if len(published) > 0 {
			ids = append(ids, cut.ID(s.Key)+SecondLine)
		}
	}
	for _, p := range published {
		ids = append(ids, fewID(s.Key, p))
	}
	if noted, err = st.NotedWith(ctx, s.Table, ids); err != nil {
		return nil, nil, nil, err
	}
	for _, p := range published {
		if _, there := noted[fewID(s.Key, p)]; there {
			p.State = state.Published // its counts are those of the ledger
		}
	}
	return cuts, published, noted, nil
}
