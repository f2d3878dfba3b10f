package upkeep

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/probe"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// An action is one action of a table's maintenance.
type action struct {
	name, detail string
	from, to     time.Time
	failed       string
}

func (a action) String() string { return strings.TrimSpace(a.name + " " + a.detail) }

// A Log holds the maintenance actions of a run. Its methods may be called from several goroutines.
type Log struct {
	mu   sync.Mutex
	list []action
	seen map[action]bool
}

// Add records an action that has ended, and reports whether it is new.
func (l *Log) Add(e maintain.Event) bool {
	a := action{name: e.Action, detail: e.Detail, from: e.At.Add(-e.Took), to: e.At}
	if e.Err != nil {
		a.failed = e.Err.Error()
	} else if e.Took == 0 {
		return false // waiting, or already recorded
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[action]bool{}
	}
	if l.seen[a] {
		return false
	}
	l.seen[a] = true
	l.list = append(l.list, a)
	return true
}

const (
	// justBefore is how long after its end an action may still slow down inserts: pages are written,
	// files removed.
	justBefore = time.Second
	// A failed action is assumed to be retried until it succeeds, or until this time has passed since
	// its last recorded failure: while an action is retried, a failure is recorded every 30 seconds.
	retried = time.Minute
	// slowSync is the duration from which a sync of the disk may contribute to a slow insert.
	slowSync = 10 * time.Millisecond
)

// during returns the actions between from and to, the shortest first because it explains most. If
// there are none, it returns actions that have failed and are being retried, or else the action
// that ended just before.
func (l *Log) during(from, to time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []action
	var last *action // that ended just before
	pending := map[string]action{}
	for i, a := range l.list {
		ago := from.Sub(a.to)
		if a.from.Before(to) && a.to.After(from) {
			found = append(found, a)
		}
		if a.failed != "" && ago >= 0 && ago < retried {
			pending[a.name] = a
		} else if a.failed == "" && ago > 0 {
			delete(pending, a.name)
		}
		if ago >= 0 && ago < justBefore && (last == nil || a.to.After(last.to)) {
			last = &l.list[i]
		}
	}
	out := []string{}
	switch {
	case len(found) > 0:
		slices.SortStableFunc(found, func(a, b action) int { return cmp.Compare(a.to.Sub(a.from), b.to.Sub(b.from)) })
		for _, a := range found {
			out = append(out, a.String())
		}
	case len(pending) > 0:
		for _, name := range slices.Sorted(maps.Keys(pending)) {
			out = append(out, "another try of "+pending[name].String())
		}
	case last != nil:
		out = append(out, fmt.Sprintf("%s after %s", figure.Duration(from.Sub(last.to).Seconds()), last))
	}
	return out
}

// stalls joins slow inserts that overlap, and explains them.
func (l *Log) stalls(slow []workload.SlowInsert, disk *Syncs) []result.KeepStall {
	slices.SortFunc(slow, func(a, b workload.SlowInsert) int { return a.Began.Compare(b.Began) })
	out := []result.KeepStall{}
	var ends []time.Time
	for _, s := range slow {
		end := s.Began.Add(s.Took)
		last := len(out) - 1
		if last < 0 || !s.Began.Before(ends[last]) {
			out, ends = append(out, result.KeepStall{At: s.Began.UTC(), Seconds: s.Took.Seconds(), Inserts: 1}), append(ends, end)
			continue
		}
		out[last].Inserts++
		out[last].Seconds = max(out[last].Seconds, s.Took.Seconds())
		if end.After(ends[last]) {
			ends[last] = end
		}
	}
	for i := range out {
		out[i].During = l.during(out[i].At, ends[i])
		if disk != nil {
			out[i].Sync = disk.during(out[i].At, ends[i]).Seconds()
		}
	}
	return out
}

// Figures returns what a run's record says of slow inserts, maintenance and the disk. disk is nil
// if the disk was not timed. Inserts that took stall or longer are listed.
func (l *Log) Figures(notes workload.KeepNotes, stall time.Duration, disk *Syncs) *result.Keep {
	f := &result.Keep{StallMS: float64(stall) / 1e6, Slow: notes.Slow, Errors: map[string]int64{}, Actions: map[string]int{}, Failed: []string{}}
	maps.Copy(f.Errors, notes.Errors)
	f.Stalls, f.Longest = l.stalls(notes.Stalls, disk), l.stalls([]workload.SlowInsert{notes.Longest}, disk)[0]
	if disk != nil {
		f.Disk = &result.KeepDisk{Syncs: disk.count, Slow: len(disk.slow), Longest: disk.longest.Seconds()}
		if disk.err != nil {
			f.Disk.Error = disk.err.Error()
		}
	}
	for _, a := range l.list {
		if a.failed != "" {
			f.Failed = append(f.Failed, a.String()+": "+a.failed)
		} else {
			f.Actions[a.name]++
		}
	}
	return f
}

// Syncs are the times that the disk took to sync a separate file during a run.
type Syncs struct {
	count   int64
	longest time.Duration
	slow    []probe.Sync // those that took at least slowSync
	err     error
}

// Watch times the disk of a folder until ctx ends. The figures may be read after that.
func (l *Syncs) Watch(ctx context.Context, dir string) { l.err = probe.Syncs(ctx, dir, l.add) }

func (l *Syncs) add(s probe.Sync) {
	l.count++
	l.longest = max(l.longest, s.Took)
	if s.Took >= slowSync {
		l.slow = append(l.slow, s)
	}
}

// during returns the time of the longest slow sync between from and to; 0 if there was none.
func (l *Syncs) during(from, to time.Time) (longest time.Duration) {
	for _, s := range l.slow {
		if s.Began.Before(to) && s.Began.Add(s.Took).After(from) {
			longest = max(longest, s.Took)
		}
	}
	return longest
}
