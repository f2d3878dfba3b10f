package ingest

import (
	"context"
	"errors"

	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/state"
)

// singly sends the rows that couldn't be published, in the same batches as before. The ledger
// already has a line for each of these batches, so each gets a second line.
func (l *fileLoad) singly(ctx context.Context, n *lane.Collector, t *format.Target, torn error) (err error) {
	if !n.SendsAny() {
		return nil
	}
	cuts, err := l.cutsOf(ctx, l.Source)
	if err != nil {
		return err
	}
	ids := make([]string, len(cuts))
	for i, cut := range cuts {
		ids[i] = cut.ID(l.Source.Key) + lane.SecondLine
	}
	noted, err := lane.Retried(ctx, l.Load, func() (map[string]state.Batch, error) { return l.State.NotedWith(ctx, l.Source.Table, ids) })
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
	c := format.NewCutter(reading, in, &l.format, l.opt.Rows, l.opt.Bytes, 0)
	defer c.Wait(stop)
	defer in.Unfollow()
	c.TornBy = torn
	if l.Source.Loaded > 0 {
		if _, err := c.Skip(ctx, l.Source.Loaded, l.Source.Lines); err != nil {
			return err
		}
	}
	return l.Run(ctx, false, func(ctx context.Context, out chan<- *lane.Batch) error {
		for i, cut := range cuts {
			b, err := l.recut(ctx, c, cut)
			if err != nil {
				return err
			}
			if _, there := noted[ids[i]]; there || !n.Sends(cut.From) {
				continue
			}
			b.Target = t
			one := &lane.Batch{Batch: b, Single: true}
			if err := l.Hold(ctx, one); err != nil {
				return err
			}
			out <- one
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		return nil
	}, func(_ context.Context, _ *lane.Batch, noted state.Batch) error {
		l.mu.Lock()
		l.sentIn = l.Gathered(l.sentIn, lane.ExtentsOf(noted))
		l.mu.Unlock()
		l.Count(noted.Counts, 0)
		return nil
	})
}
