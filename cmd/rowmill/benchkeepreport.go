package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/probe"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/result"
)

// A rowCount is the number of rows in a table and in its dropped periods.
type rowCount struct {
	table, dropped int64
	// moving: a period was being removed from the table during the count, so its rows
	// may have been counted twice or not at all.
	moving bool
}

func (c rowCount) all() int64 { return c.table + c.dropped }

func countRows(ctx context.Context, k *kept) (c rowCount, err error) {
	before, err := readLeaving(ctx, k)
	if err != nil {
		return c, err
	}
	err = k.DB.SQL().QueryRowContext(ctx, "SELECT COUNT(*) FROM "+k.DB.Dialect().Quote(k.Declared.Name)).Scan(&c.table)
	if err != nil {
		return c, fmt.Errorf("count the rows of %s: %w", k.Declared.Name, k.DB.Classify(err))
	}
	after, err := readLeaving(ctx, k)
	c.dropped, c.moving = before.dropped, before.changes > 0 || after != before
	return c, err
}

// leaving is the number of changes in progress, and the number of rows that the
// dropped periods had.
type leaving struct {
	changes int
	dropped int64
}

func readLeaving(ctx context.Context, k *kept) (l leaving, err error) {
	changes, err := k.State.Changes(ctx, k.Declared.Name)
	if err != nil {
		return l, err
	}
	l.changes = len(changes)
	periods, err := k.State.Periods(ctx, k.Declared.Name)
	for _, p := range periods {
		if p.State == state.Dropped {
			l.dropped += p.Rows
		}
	}
	return l, err
}

// A doing is a maintenance action.
type doing struct {
	Action, Detail string
	From, To       time.Time
	Failed         string
}

func (d doing) String() string { return strings.TrimSpace(d.Action + " " + d.Detail) }

// A maintenanceLog holds the maintenance actions of a run. Its methods may be called
// from several goroutines.
type maintenanceLog struct {
	mu   sync.Mutex
	list []doing
	seen map[doing]bool
}

// add records an action, and reports whether it is new.
func (l *maintenanceLog) add(action, detail string, end time.Time, took time.Duration, err error) bool {
	d := doing{Action: action, Detail: detail, From: end.Add(-took), To: end}
	if err != nil {
		d.Failed = err.Error()
	} else if took == 0 {
		return false // waiting, or already recorded
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[doing]bool{}
	}
	if l.seen[d] {
		return false
	}
	l.seen[d] = true
	l.list = append(l.list, d)
	return true
}

// A diskLog holds how long the disk took to sync a separate file during a run. It is
// read once all entries have been added.
type diskLog struct {
	count   int64
	longest time.Duration
	slow    []probe.Sync // those that took at least slowSync
	err     error
}

// slowSync is the duration from which a sync may contribute to a slow insert.
const slowSync = 10 * time.Millisecond

func (l *diskLog) add(s probe.Sync) {
	l.count++
	l.longest = max(l.longest, s.Took)
	if s.Took >= slowSync {
		l.slow = append(l.slow, s)
	}
}

// during returns the longest slow sync that overlaps from and to; 0 means none.
func (l *diskLog) during(from, to time.Time) (longest time.Duration) {
	for _, s := range l.slow {
		if s.Began.Before(to) && s.Began.Add(s.Took).After(from) {
			longest = max(longest, s.Took)
		}
	}
	return longest
}

// justBefore is how long after its end an action may still slow down inserts: pages
// are written, files removed.
const justBefore = time.Second

// retried is how long after a failure an action is assumed to be retried, unless it
// has succeeded since: repeated failures are recorded every 30 seconds.
const retried = time.Minute

// during returns the actions that overlap from and to, the shortest first because it
// is the most specific. If there are none, it returns the actions that have failed and
// are being retried, or those that had ended just before.
func (l *maintenanceLog) during(from, to time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []doing
	for _, d := range l.list {
		if d.From.Before(to) && d.To.After(from) {
			found = append(found, d)
		}
	}
	slices.SortStableFunc(found, func(a, b doing) int { return cmp.Compare(a.To.Sub(a.From), b.To.Sub(b.From)) })
	out := []string{}
	for _, d := range found {
		out = append(out, d.String())
	}
	if len(out) > 0 {
		return out
	}
	pending := map[string]doing{}
	for _, d := range l.list {
		if ago := from.Sub(d.To); d.Failed != "" && ago >= 0 && ago < retried {
			pending[d.Action] = d
		} else if d.Failed == "" && d.To.Before(from) {
			delete(pending, d.Action)
		}
	}
	for _, action := range slices.Sorted(maps.Keys(pending)) {
		out = append(out, "another try of "+pending[action].String())
	}
	if len(out) > 0 {
		return out
	}
	var last *doing
	for i, d := range l.list {
		if ago := from.Sub(d.To); ago >= 0 && ago < justBefore && (last == nil || d.To.After(last.To)) {
			last = &l.list[i]
		}
	}
	if last != nil {
		out = append(out, fmt.Sprintf("%s after %s", figure.Duration(from.Sub(last.To).Seconds()), last))
	}
	return out
}

// A stall is a time during which inserts were slow.
type stall struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"` // of its longest insert
	Inserts int       `json:"inserts"`
	During  []string  `json:"during"`
	// Sync is how long a sync of another file took during the stall, in seconds; 0
	// means less than 10 ms, or not measured.
	Sync float64 `json:"sync_seconds,omitempty"`
	to   time.Time
}

// stalls joins slow inserts that overlap, in order.
func (l *maintenanceLog) stalls(slow []workload.SlowInsert) []stall {
	slices.SortFunc(slow, func(a, b workload.SlowInsert) int { return a.Began.Compare(b.Began) })
	out := []stall{}
	for _, s := range slow {
		end := s.Began.Add(s.Took)
		if n := len(out); n > 0 && s.Began.Before(out[n-1].to) {
			last := &out[n-1]
			last.Inserts++
			last.Seconds = max(last.Seconds, s.Took.Seconds())
			if end.After(last.to) {
				last.to = end
			}
			continue
		}
		out = append(out, stall{At: s.Began.UTC(), Seconds: s.Took.Seconds(), Inserts: 1, to: end})
	}
	for i := range out {
		out[i].During = l.during(out[i].At, out[i].to)
	}
	return out
}

// keepFigures is the output of `rowmill bench keep --json`.
type keepFigures struct {
	Format  string           `json:"format"` // rowmill.keep/1
	Summary result.Summary   `json:"summary"`
	Longest stall            `json:"longest"`
	StallMS float64          `json:"stall_ms"` // threshold from which inserts are listed
	Stalls  []stall          `json:"stalls"`
	Slow    int64            `json:"slow_inserts"`
	Errors  map[string]int64 `json:"errors"`
	Backlog int64            `json:"backlog"`
	Rows    int64            `json:"rows"`
	Found   *int64           `json:"found"` // rows added during the run; null if not counted
	Dropped int64            `json:"dropped_rows"`
	Actions map[string]int   `json:"actions"`
	Failed  []string         `json:"failed_actions"`
	Disk    *keepDisk        `json:"disk,omitempty"` // omitted if the server's disk can't be timed
}

// keepDisk is the durations of syncs of a separate file.
type keepDisk struct {
	Syncs   int64   `json:"syncs"`
	Slow    int     `json:"slow"`            // 10 ms and longer
	Longest float64 `json:"longest_seconds"` // of all
	Error   string  `json:"error,omitempty"` // why measuring ended early
}

func (r *keepRun) figures() keepFigures {
	slow, n := r.w.Stalls()
	longest := r.w.Longest()
	f := keepFigures{Format: "rowmill.keep/1", Summary: *r.rec.End.Summary, StallMS: float64(r.f.stall) / 1e6, Stalls: r.done.stalls(slow), Slow: n,
		Errors: r.w.Errors(), Rows: r.rows(), Actions: map[string]int{}, Failed: []string{}}
	f.Longest = stall{At: longest.Began.UTC(), Seconds: longest.Took.Seconds(), Inserts: 1, During: r.done.during(longest.Began, longest.Began.Add(longest.Took))}
	if d := r.disk; d != nil {
		f.Disk = &keepDisk{Syncs: d.count, Slow: len(d.slow), Longest: d.longest.Seconds()}
		if d.err != nil {
			f.Disk.Error = d.err.Error()
		}
		f.Longest.Sync = d.during(longest.Began, longest.Began.Add(longest.Took)).Seconds()
		for i, s := range f.Stalls {
			f.Stalls[i].Sync = d.during(s.At, s.to).Seconds()
		}
	}
	if n := len(r.rec.Intervals); n > 0 {
		f.Backlog = r.rec.Intervals[n-1].Backlog
	}
	if r.after != nil {
		found := r.after.all() - r.before.all()
		f.Found, f.Dropped = &found, r.after.dropped-r.before.dropped
	}
	for _, d := range r.done.list {
		if d.Failed != "" {
			f.Failed = append(f.Failed, d.String()+": "+d.Failed)
			continue
		}
		f.Actions[d.Action]++
	}
	return f
}

// errInsertsFailed is returned if an insert failed.
var errInsertsFailed = errors.New("inserts met errors")

// report prints the figures and writes the requested files.
func (r *keepRun) report(a *app) error {
	f := r.figures()
	taken, err := a.writeFiles(r.f.reports, []result.Record{*r.rec})
	switch {
	case r.f.reports.json:
		out := json.NewEncoder(a.stdout)
		out.SetIndent("", "  ")
		err = errors.Join(err, out.Encode(f))
	case !taken:
		_, failed := a.stdout.Write([]byte(f.text()))
		err = errors.Join(err, failed)
	}
	if len(f.Errors) > 0 && r.rec.End.Failure == "" {
		err = errors.Join(err, errInsertsFailed)
	}
	return err
}

// mostStalls is the maximum number of stalls listed in the text, the longest ones.
const mostStalls = 40

// text formats the figures as text.
func (f *keepFigures) text() string {
	var b strings.Builder
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "%-12s %s\n", what, plainText(fmt.Sprintf(format, args...)))
	}
	s := &f.Summary
	line("inserted", "%s in %s, %s rows/s", plural(f.Rows, "row"), figure.Duration(s.Seconds), figure.Count(int64(s.RowsPerSecond+.5)))
	if f.Backlog > 0 {
		line("behind", "%s inserts were due and not done", figure.Count(f.Backlog))
	}
	if l, ok := s.LatencyUS["insert"]; ok {
		line("insert", "p50 %s, p99 %s, p99.9 %s", millis(l.P50), millis(l.P99), millis(l.P999))
	}
	if l, ok := s.ResponseUS["insert"]; ok {
		line("from due", "p50 %s, p99 %s, p99.9 %s, longest %s", millis(l.P50), millis(l.P99), millis(l.P999), millis(l.Max))
	}
	disk := ""
	if f.Longest.Sync > 0 {
		disk = fmt.Sprintf("; syncing another file took %s then", millis(int64(f.Longest.Sync*1e6)))
	}
	line("longest", "longest insert %s%s%s", millis(int64(f.Longest.Seconds*1e6)), duringText(f.Longest.During), disk)
	if d := f.Disk; d != nil {
		line("disk", "%s of another file, %d of them over %s, longest %s", plural(d.Syncs, "sync"), d.Slow, millis(slowSync.Microseconds()), millis(int64(d.Longest*1e6)))
		if d.Error != "" {
			line("", "no more of them: %s", d.Error)
		}
	}
	line("maintenance", "%s", f.maintenance())
	for _, text := range f.Failed {
		line("", "%s", text)
	}
	line("rows", "%s", f.found())
	total := int64(0)
	for _, n := range f.Errors {
		total += n
	}
	line("errors", "%s", figure.Count(total))
	for text, n := range f.Errors {
		line("", "%dx %s", n, text)
	}
	if len(f.Stalls) == 0 {
		line("stalls", "none over %s", millis(int64(f.StallMS*1000)))
		return b.String()
	}
	line("stalls", "%d over %s, of %s", len(f.Stalls), millis(int64(f.StallMS*1000)), plural(f.Slow, "insert"))
	listed := slices.SortedStableFunc(slices.Values(f.Stalls), func(a, b stall) int { return cmp.Compare(b.Seconds, a.Seconds) })
	listed = listed[:min(len(listed), mostStalls)]
	slices.SortFunc(listed, func(a, b stall) int { return a.At.Compare(b.At) })
	t := &statusText{}
	c := cells{head: []string{"AT (UTC)", "LONGEST", "INSERTS", "DURING"}, right: "lrrl"}
	if f.Disk != nil {
		c = cells{head: []string{"AT (UTC)", "LONGEST", "SYNC", "INSERTS", "DURING"}, right: "lrrrl"}
	}
	for _, s := range listed {
		during := strings.Join(s.During, "; ")
		if during == "" {
			during = "nothing of rowmill's"
		}
		row := []string{s.At.Format("15:04:05.000"), millis(int64(s.Seconds * 1e6))}
		if f.Disk != nil {
			row = append(row, f.syncText(s.Sync))
		}
		c.add(append(row, figure.Count(int64(s.Inserts)), during)...)
	}
	t.table(c)
	return b.String() + t.b.String()
}

// syncText returns how long a sync took during a stall.
func (f *keepFigures) syncText(seconds float64) string {
	switch {
	case seconds > 0:
	case f.Disk.Error != "":
		return "?"
	default:
		return "-"
	}
	return millis(int64(seconds * 1e6))
}

// maintenance counts the actions.
func (f *keepFigures) maintenance() string {
	var parts []string
	for _, action := range []string{"create", "rollup", "seal", "check", "rebuild", "merge", "archive", "drop"} {
		if n := f.Actions[action]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", action, n))
		}
	}
	if n := len(f.Failed); n > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", n))
	}
	if len(parts) == 0 {
		return "none: does rowmill run keep the table?"
	}
	return strings.Join(parts, ", ")
}

func (f *keepFigures) found() string {
	if f.Found == nil {
		return "not counted"
	}
	text := fmt.Sprintf("%s acknowledged, %s found", figure.Count(f.Rows), figure.Count(*f.Found))
	if f.Dropped > 0 {
		text += fmt.Sprintf(", counting %s in periods dropped since", figure.Count(f.Dropped))
	}
	return text
}

func duringText(during []string) string {
	switch len(during) {
	case 0:
		return ", while rowmill did nothing"
	case 1:
		if strings.Contains(during[0], " after ") {
			return ", " + during[0]
		}
		return " during " + during[0]
	}
	return " during " + during[0] + " and " + strings.Join(during[1:], ", ")
}

// millis formats microseconds as milliseconds.
func millis(us int64) string {
	ms := float64(us) / 1000
	if ms >= 100 {
		return fmt.Sprintf("%.0f ms", ms)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", ms), ".0") + " ms"
}
