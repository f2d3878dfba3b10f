package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/engine"
)

// What a workload knows of a server that crashes under it: which rows the
// durability chosen allows it to lose. Those are the rows acknowledged within
// engine.Info.CrashLoss before the crash. Any other row that was acknowledged
// must be there.

// crashSlack is how much longer before a crash than engine.Info.CrashLoss an
// acknowledged row may be lost: the servers' threads that write the log come
// late on a busy machine, which their documentation allows ("not guaranteed to
// happen every second").
const crashSlack = 2 * time.Second

// ExpectCrashes prepares the workload for a server that crashes and comes back:
// outage returns nil while it is up, and while it is down what is closed when it
// takes connections again. The caller reports each crash with Crashed. It
// refuses a workload whose proof a crash would spoil.
func (w *Insert) ExpectCrashes(outage func() <-chan struct{}) error {
	if w.preset.table.ServerKey != "" && w.opt.Layout == Rolling {
		return engine.Hinted(fmt.Errorf("preset %s leaves its keys to the server, which after a crash goes on with others than before: "+
			"which period a row lies in isn't known then", w.preset.name), "--layout plain, or --preset classic")
	}
	switch {
	case w.preset.twin != nil:
		return engine.Hinted(fmt.Errorf("preset %s sends some rows twice: which of the two a crash took isn't known", w.preset.name), "--preset classic")
	case w.opt.KeepRows > 0 || w.opt.Readers > 0:
		return engine.Hinted(errors.New("deletes and queries beside the inserts don't wait for a server that is killed"), "without --keep-rows and --readers; --keep-periods bounds the size")
	}
	w.outage = outage
	for _, t := range w.tables {
		t.recent.keep = w.lossWindow()
	}
	return nil
}

// lossWindow is how long before a crash rows may have been acknowledged that it
// lost; 0 is that it may lose none.
func (w *Insert) lossWindow() time.Duration {
	if loss := w.db.Info().CrashLoss; loss > 0 {
		return loss + crashSlack
	}
	return 0
}

// Crashed notes that the server was killed at a moment. It is to be called when
// its processes are gone and it has not been started again.
func (w *Insert) Crashed(at time.Time) {
	w.mu.Lock()
	w.crashes++
	w.mu.Unlock()
	for _, t := range w.tables {
		t.recent.crashed(at)
	}
}

// awaitServer waits until a server that is down is back, or ctx ends, and
// reports whether it was down.
func (w *Insert) awaitServer(ctx context.Context) (waited bool) {
	if w.outage == nil {
		return false
	}
	for {
		back := w.outage()
		if back == nil {
			return waited
		}
		waited = true
		select {
		case <-back:
		case <-ctx.Done():
			return waited
		}
	}
}

// recent knows the batches that a crash may take: those acknowledged within keep,
// and those that crashes so far may have taken. The zero value knows none.
type recent struct {
	keep time.Duration
	// epoch counts the crashes. A batch that was sent before one and whose
	// acknowledgement is read after it was acknowledged by the server that is
	// gone.
	epoch atomic.Int64

	mu      sync.Mutex
	batches []acknowledgement // of this epoch, in the order of their times
	first   int               // of those that are young enough
	atRisk  []span
}

type acknowledgement struct {
	rows span
	at   time.Time
}

// note adds a batch that was sent in an epoch and has just been acknowledged.
func (r *recent) note(rows span, epoch int64) {
	if r.keep == 0 || rows.rows() == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if epoch != r.epoch.Load() {
		r.atRisk = append(r.atRisk, rows)
		return
	}
	now := time.Now()
	for r.first < len(r.batches) && now.Sub(r.batches[r.first].at) > r.keep {
		r.first++
	}
	if r.first > len(r.batches)/2 { // the old ones go when they are most
		r.batches = r.batches[:copy(r.batches, r.batches[r.first:])]
		r.first = 0
	}
	r.batches = append(r.batches, acknowledgement{rows, now})
}

// crashed begins an epoch.
func (r *recent) crashed(at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch.Add(1)
	for _, b := range r.batches[r.first:] {
		if at.Sub(b.at) <= r.keep {
			r.atRisk = append(r.atRisk, b.rows)
		}
	}
	r.batches, r.first = nil, 0
}

// risk returns the rows that crashes may have taken, in order.
func (r *recent) risk() []span {
	r.mu.Lock()
	defer r.mu.Unlock()
	risk := slices.Clone(r.atRisk)
	slices.SortFunc(risk, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	return risk
}

// reset forgets all batches.
func (r *recent) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches, r.first, r.atRisk = nil, 0, nil
}

// without returns the rows of spans that are in none of others; both are in
// order, and none of their spans overlap.
func without(spans, others []span) []span {
	var out []span
	for _, s := range spans {
		for len(others) > 0 && others[0].to <= s.from {
			others = others[1:]
		}
		for len(others) > 0 && others[0].from < s.to {
			if o := others[0]; s.from < o.from {
				out = append(out, span{s.from, o.from})
			}
			s.from = min(others[0].to, s.to)
			if others[0].to > s.to {
				break
			}
			others = others[1:]
		}
		if s.from < s.to {
			out = append(out, s)
		}
	}
	return out
}
