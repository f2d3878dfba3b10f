package oltp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

const (
	// tablesSteps is the number of steps in which tables are opened, and connections made.
	tablesSteps = 10
	// endPatience is how long the processes of closed connections may take to end.
	endPatience = 10 * time.Second
)

// Later completes c, the costs of a phase after the creation of the tables, and adds c to the costs
// of the run. began is when the phase began.
func (w *Tables) Later(ctx context.Context, c result.TablesCost, began time.Time) error {
	c.Objects, c.Seconds = w.made, time.Since(began).Seconds()
	if err := w.cost(ctx, &c); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.costs = append(w.costs, c)
	return nil
}

// OpenAll opens all tables on one connection, and again on a second one, and measures the costs.
func (w *Tables) OpenAll(ctx context.Context) (err error) {
	before, err := w.Processes()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.ended(ctx, before)) }() // after both sessions are closed
	first, err := w.session(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, first.Close()) }()
	from := 0
	for _, to := range steps(w.opt.Tables) {
		began := time.Now()
		if err := w.open(ctx, first, from, to); err != nil {
			return err
		}
		if err := w.Later(ctx, result.TablesCost{Phase: result.TablesOpened, Opened: to * max(w.opt.Partitions, 1)}, began); err != nil {
			return err
		}
		from = to
	}
	second, err := w.session(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, second.Close()) }()
	began := time.Now()
	if err := w.open(ctx, second, 0, w.opt.Tables); err != nil {
		return err
	}
	return w.Later(ctx, result.TablesCost{Phase: result.TablesReopened, Opened: w.opt.Tables * max(w.opt.Partitions, 1)}, began)
}

// ended waits until the server has no more than the given number of processes: the processes of
// closed connections have then ended and freed their memory. After endPatience, it gives up.
func (w *Tables) ended(ctx context.Context, processes int) error {
	for end := time.Now().Add(endPatience); time.Now().Before(end); {
		n, err := w.Processes()
		if err != nil || n <= processes || engine.Sleep(ctx, 50*time.Millisecond) != nil {
			return err
		}
	}
	return nil
}

// steps returns n divided into tablesSteps equal steps, e.g. 10, 20, ... 100 for 100.
func steps(n int) (out []int) {
	for i := range tablesSteps {
		out = append(out, (i+1)*n/tablesSteps)
	}
	return slices.DeleteFunc(slices.Compact(out), func(n int) bool { return n == 0 })
}

// Connect opens the connections, and then lets each of them open tables, and measures the costs.
func (w *Tables) Connect(ctx context.Context) (err error) {
	var all []*engine.Session
	defer func() {
		for _, s := range all {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, n := range steps(w.opt.Connections) {
		began := time.Now()
		for len(all) < n {
			s, err := w.session(ctx)
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		if err := w.Later(ctx, result.TablesCost{Phase: result.TablesIdle, Connections: n}, began); err != nil {
			return err
		}
	}
	held := 0
	for _, n := range steps(w.opt.Connections) {
		began := time.Now()
		for ; held < n; held++ {
			if err := w.hold(ctx, all[held], w.opt.Open); err != nil {
				return err
			}
		}
		if err := w.Later(ctx, result.TablesCost{Phase: result.TablesHeld, Opened: w.opt.Open * max(w.opt.Partitions, 1), Connections: n}, began); err != nil {
			return err
		}
	}
	return nil
}

// open makes a session open the tables [from, to), one after the other.
func (w *Tables) open(ctx context.Context, s *engine.Session, from, to int) error {
	for i := from; i < to; i++ {
		if _, err := firstValue(ctx, s, "SELECT COUNT(*) FROM "+w.db.Dialect().Quote(w.Table(i).Name)); err != nil {
			return fmt.Errorf("open table %s: %w", w.Table(i).Name, err)
		}
	}
	return nil
}

// hold makes a session open the first n tables with all of their partitions, and keep them open.
func (w *Tables) hold(ctx context.Context, s *engine.Session, n int) error {
	names := make([]string, n)
	for i := range names {
		names[i] = w.Table(i).Name
	}
	for _, q := range w.keeper.HoldTables(names) {
		if _, err := s.Exec(ctx, q); err != nil {
			return fmt.Errorf("open %s: %w", figure.Plural(n, "table"), err)
		}
	}
	return nil
}

// session opens a session as any client does.
func (w *Tables) session(ctx context.Context) (*engine.Session, error) {
	return engine.Talk(ctx, w.keeper)
}
