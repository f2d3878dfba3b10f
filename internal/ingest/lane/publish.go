package lane

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// A Publisher puts the rows of a publication into their period, all at once.
type Publisher interface {
	// Publishable returns an error if the account or the table doesn't permit publishing.
	Publishable(ctx context.Context) error
	// Mergeable returns the reason why rows can't be merged with the rows of a period.
	Mergeable(ctx context.Context, p rolling.Period) error
	// Publish creates a table with these columns, calls fill to write p's rows into it, and replaces
	// the period by it. Publish may call fill again, for the rows in source order. With p.Merges the
	// period keeps its rows, even if a new row has the same key. Publish records p's new state and
	// counts in the transaction of the change. It returns state.ErrFilled if the period has got many
	// rows, and engine.ErrRefused if the server refuses some of p's rows. After either error, none of
	// p's rows is in the table.
	Publish(ctx context.Context, p *state.Publication, columns []engine.Column, fill func(ctx context.Context, sourceOrder bool, write func(*engine.Batch) error) error) error
	// FinishPublications looks for publications of the source whose processes have died. It completes
	// each, or removes its tables. On return, no publication of the source is in progress.
	FinishPublications(ctx context.Context, source string) error
}

// PublishAll puts all collected rows into the table. The source was read up to byte offset to.
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

// publishOne puts a publication's rows into the table. It returns the lane of the rows, "" if they
// are to be sent in batches.
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

// note adds to the number of rows written of a publication; 0 resets that number.
func (n *Collector) note(p *publication, rows int64) {
	n.Load.mu.Lock()
	defer n.Load.mu.Unlock()
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

// SecondLine ends the ID of a batch's second line in the ledger. A batch gets a second line if rows
// of it could not be published and are sent after all.
const SecondLine = "~"

// SendsAny reports whether there are publications whose rows are sent.
func (n *Collector) SendsAny() bool {
	return slices.ContainsFunc(*n.all.Load(), func(p *publication) bool { return p.State == state.Single })
}

// Sends reports whether rows of a batch belong to publications whose rows are sent.
func (n *Collector) Sends(from int64) bool {
	return slices.ContainsFunc(*n.all.Load(), func(p *publication) bool { return p.State == state.Single && p.Has(p.From, from) })
}

// RecordedOf returns a source's cuts, its publications, and the lines of the ledger of both.
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
			p.State = state.Published // the ledger has its counts
		}
	}
	return cuts, published, noted, nil
}
