package ingest

import (
	"context"
	"errors"

	"github.com/rowmill/rowmill/internal/state"
)

// singly sends the rows of publications that couldn't be published, in the batches of
// the file, each with a second line of the ledger.
func (l *fileLoad) singly(ctx context.Context, n *collector, t *target, torn error) (err error) {
	if !n.sendsAny() {
		return nil
	}
	cuts, err := l.cutsOf(ctx, l.source)
	if err != nil {
		return err
	}
	ids := make([]string, len(cuts))
	for i, cut := range cuts {
		ids[i] = cut.ID(l.source.Key) + again
	}
	noted, err := retried(ctx, l.load, func() (map[string]state.Batch, error) { return l.state.NotedWith(ctx, l.source.Table, ids) })
	if err != nil {
		return err
	}
	in, err := l.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	c := newCutter(reading, in, &l.format, l.opt.Rows, l.opt.Bytes, 0)
	defer c.wait(stop)
	defer in.unfollow()
	c.tornBy = torn
	if l.source.Loaded > 0 {
		if _, err := c.skip(ctx, l.source.Loaded, l.source.Lines); err != nil {
			return err
		}
	}
	return l.run(ctx, false, func(ctx context.Context, out chan<- *outBatch) error {
		for i, cut := range cuts {
			b, err := l.recut(ctx, c, cut)
			if err != nil {
				return err
			}
			if _, there := noted[ids[i]]; there || !n.sends(cut.From) {
				continue
			}
			b.target = t
			one := &outBatch{batch: b, single: true}
			if err := l.hold(ctx, one); err != nil {
				return err
			}
			out <- one
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	}, func(_ context.Context, _ *outBatch, noted state.Batch) error {
		l.mu.Lock()
		l.sentIn = l.gathered(l.sentIn, extentsOf(noted))
		l.mu.Unlock()
		l.count(noted.Counts, 0)
		return nil
	})
}
