package workload

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// A server that crashes during the workload may lose the rows that were acknowledged within the
// time engine.Info.CrashLoss before the crash. That time depends on the server's durability. All
// other rows must exist.

// crashSlack is added to engine.Info.CrashLoss: on a busy machine, the servers' threads that write
// the log are delayed, which their documentation allows ("not guaranteed to happen every second").
const crashSlack = 2 * time.Second

// ExpectCrashes prepares the workload for a server that crashes and restarts. outage returns nil
// while the server is up, as bench.Config.Outage does. The caller reports each crash with Crashed.
func (w *Insert) ExpectCrashes(outage func() <-chan struct{}) error {
	switch {
	case w.preset.twin != nil:
		return engine.Hinted(fmt.Errorf("preset %s sends some rows twice: which of the two a crash lost is unknown", w.preset.name), "--preset classic")
	case w.opt.KeepRows > 0 || w.opt.Readers > 0:
		return engine.Hinted(errors.New("deletes and queries beside the inserts don't wait for a server that is killed"), "without --keep-rows and --readers; --keep-periods bounds the size")
	}
	w.outage = outage
	for _, t := range w.tables {
		t.recent.keep = w.lossWindow()
	}
	return nil
}

// lossWindow returns a time. A crash may lose the rows that were acknowledged within this time
// before the crash. It is 0 if a crash loses no acknowledged row.
func (w *Insert) lossWindow() time.Duration {
	if loss := w.db.Info().CrashLoss; loss > 0 {
		return loss + crashSlack
	}
	return 0
}

// Crashed records that the server was killed at the given time. It must be called after the
// server's processes have ended and before the server is restarted.
func (w *Insert) Crashed(at time.Time) {
	w.mu.Lock()
	w.crashes++
	w.mu.Unlock()
	for _, t := range w.tables {
		t.recent.crashed(at)
	}
}

// recent remembers the batches that a crash may lose: those acknowledged less than the time keep
// ago, and those that earlier crashes may have lost. The zero value keeps no batches.
type recent struct {
	keep time.Duration
	// epoch counts the crashes. If epoch has changed since a batch was sent, the server that
	// acknowledged the batch may have crashed since then.
	epoch atomic.Int64

	mu      sync.Mutex
	batches []acknowledgement // of this epoch, ordered by time
	first   int               // index of the first batch that was acknowledged within keep
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
	if r.first > len(r.batches)/2 {
		r.batches = r.batches[:copy(r.batches, r.batches[r.first:])]
		r.first = 0
	}
	r.batches = append(r.batches, acknowledgement{rows, now})
}

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

// risk returns the rows that crashes may have lost, in order.
func (r *recent) risk() []span {
	r.mu.Lock()
	defer r.mu.Unlock()
	risk := slices.Clone(r.atRisk)
	slices.SortFunc(risk, byFirst)
	return risk
}

func (r *recent) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches, r.first, r.atRisk = nil, 0, nil
}

// without returns the rows of spans that are in none of others. Each of the two lists is in order,
// and its spans don't overlap.
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
