package lane

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// fewID returns the ledger's ID for a publication whose rows are inserted in one transaction.
func fewID(source string, p *state.Publication) string {
	return fmt.Sprintf("%s@period %d", source, p.From)
}

// insertFew inserts the rows of a publication in one transaction with their line of the ledger.
func (n *Collector) insertFew(ctx context.Context, p *publication) (err error) {
	loader, err := Retried(ctx, n.Load, func() (engine.Loader, error) { return n.Opt.DB.Loader(ctx) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, loader.Close()) }()
	out := state.Batch{Table: n.Source.Table, ID: fewID(n.Source.Key, p.Publication), Lower: p.First, Upper: p.Last}
	began := false
	err = n.Retry(ctx, func() error {
		if began {
			_ = loader.Reset(ctx) // if no connection can be opened, the attempt reports it
			if there, err := n.notedFew(ctx, &out); there || err != nil {
				return err
			}
		}
		began = true
		if n.Opt.Late {
			_, upTo, err := n.periods.look(ctx, true)
			if err != nil {
				return err
			}
			if p.First < upTo {
				return fmt.Errorf("%w: it has been sealed, and the table refuses late rows", state.ErrFilled)
			}
		}
		err := n.commitFew(ctx, loader, p, &out)
		if errors.Is(err, errCompare) {
			n.dontCompare(err)
			if err = loader.Reset(ctx); err == nil {
				err = n.commitFew(ctx, loader, p, &out)
			}
		}
		if errors.Is(err, errDone) {
			// An earlier attempt has committed, after the ledger was read; its answer was lost.
			_ = loader.Reset(ctx)
			there, lookErr := n.notedFew(ctx, &out)
			if there || lookErr != nil {
				return lookErr
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	n.note(p, out.Sent)
	n.notCompared.Add(out.Duplicate - p.Compared)
	p.State, p.Counts = state.Published, out.Counts
	within := rolling.Period{From: p.First, To: p.Last + 1}
	n.countTogether(out.Counts, []state.Extent{{Period: within, Rows: out.Inserted}})
	return nil
}

// notedFew reports whether the ledger has a batch's line. If so, it copies the line's counts.
func (n *Collector) notedFew(ctx context.Context, out *state.Batch) (bool, error) {
	noted, err := n.State.Noted(ctx, n.State.DB(), out.Table, out.ID)
	if noted != nil {
		out.Counts = noted.Counts
	}
	return noted != nil, err
}

func (n *Collector) commitFew(ctx context.Context, loader engine.Loader, p *publication, out *state.Batch) error {
	if err := loader.Begin(ctx); err != nil {
		return err
	}
	out.Counts = state.Counts{}
	err := n.rowsOf(ctx, p, true, func(b *engine.Batch) error {
		ack, err := loader.Insert(ctx, n.target.All.Table, b, 0, b.Rows())
		if err == nil && ack.Rows+ack.Skipped != int64(b.Rows()) {
			err = fmt.Errorf("%s sent; the server took %d and had %d: the numbers don't add up, and nothing was committed",
				figure.Plural(int64(b.Rows()), "row was", "rows were"), ack.Rows, ack.Skipped)
		}
		out.Add(state.Counts{Sent: int64(b.Rows()), Inserted: ack.Rows, Duplicate: ack.Skipped})
		return err
	})
	if err != nil {
		return err
	}
	if p.Compared, err = n.compareFew(ctx, loader, p, out); err != nil {
		return err
	}
	err = n.record(ctx, loader, out, []state.Extent{{Period: rolling.Period{From: p.First, To: p.Last + 1}}})
	if errors.Is(err, errDropped) {
		err = fmt.Errorf("%w: %v", state.ErrFilled, err)
	}
	if err != nil {
		return err
	}
	n.Opt.Reached("before commit of few rows")
	if err := loader.Commit(ctx); err != nil {
		return err
	}
	n.Opt.Reached("after commit of few rows")
	return nil
}

// compareFew compares a publication's rows with the table's rows if the insert has skipped some
// rows. It adds the skipped rows with other values to out.Different, and those whose key occurred
// before to out.Repeated.
func (n *Collector) compareFew(ctx context.Context, loader engine.Loader, p *publication, out *state.Batch) (compared int64, err error) {
	all := n.target.All
	if out.Duplicate == 0 || !n.target.Comparable || !all.HasKey() || !n.mayCompare(int(out.Sent)) {
		return 0, nil
	}
	cols := make([]engine.SchemaColumn, len(n.layout.columns))
	for i, c := range n.layout.columns {
		cols[i] = *n.Opt.Schema.Find(c.Name)
	}
	keys := map[string]bool{}
	err = n.rowsOf(ctx, p, true, func(b *engine.Batch) error {
		err := loader.Compare(ctx, all.Table, cols, b, 0, b.Rows(), func(c engine.Compared) {
			if c.Column >= 0 {
				out.Different++
			}
			key := strings.Join(c.Key, "\xff")
			if keys[key] {
				out.Repeated++
			}
			keys[key] = true
		})
		if err != nil && !Transient(err) && ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", errCompare, err)
		}
		return err
	})
	return out.Duplicate, err
}
