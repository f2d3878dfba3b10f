package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

// A KeepFigures is the JSON format of a run of inserts beside a table's maintenance.
type KeepFigures struct {
	Format  string         `json:"format"` // rowmill.keep/1
	Summary result.Summary `json:"summary"`
	result.Keep
	Backlog int64 `json:"backlog"`
	Rows    int64 `json:"rows"`
}

// NewKeepFigures returns the figures of a run that has ended.
func NewKeepFigures(rec *result.Record) *KeepFigures {
	f := &KeepFigures{Format: "rowmill.keep/1", Summary: rec.Summary()}
	if rec.End != nil && rec.End.Keep != nil {
		f.Keep = *rec.End.Keep
	}
	if n := len(rec.Intervals); n > 0 {
		f.Backlog, f.Rows = rec.Intervals[n-1].Backlog, rec.Intervals[n-1].Rows
	}
	return f
}

// JSON writes the figures.
func (f *KeepFigures) JSON(w io.Writer) error { return writeJSON(w, f) }

// mostStalls is the maximum number of stalls listed in the text, the longest ones.
const mostStalls = 40

// Text writes the figures as lines, and the stalls as a table.
func (f *KeepFigures) Text(w io.Writer) error {
	var t terminal
	line := func(what, format string, args ...any) {
		t.line("%-12s %s", what, figures.OneLine(fmt.Sprintf(format, args...)))
	}
	s := &f.Summary
	line("inserted", "%s in %s, %s rows/s", figures.Plural(f.Rows, "row"), figures.Duration(s.Seconds), figures.Rounded(s.RowsPerSecond))
	if f.Backlog > 0 {
		line("behind", "%s inserts were due and not done", figures.Count(f.Backlog))
	}
	if l, ok := s.LatencyUS["insert"]; ok {
		line("insert", "p50 %s, p99 %s, p99.9 %s", figures.Micros(l.P50), figures.Micros(l.P99), figures.Micros(l.P999))
	}
	if l, ok := s.ResponseUS["insert"]; ok {
		line("from due", "p50 %s, p99 %s, p99.9 %s, longest %s", figures.Micros(l.P50), figures.Micros(l.P99), figures.Micros(l.P999), figures.Micros(l.Max))
	}
	disk := ""
	if f.Longest.Sync > 0 {
		disk = fmt.Sprintf("; syncing another file took %s then", latencyOf(f.Longest.Sync))
	}
	line("longest", "longest insert %s%s%s", latencyOf(f.Longest.Seconds), duringText(f.Longest.During), disk)
	if d := f.Disk; d != nil {
		line("disk", "%s of another file, %d of them over 10 ms, longest %s", figures.Plural(d.Syncs, "sync"), d.Slow, latencyOf(d.Longest))
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
	line("errors", "%s", figures.Count(total))
	for text, n := range f.Errors {
		line("", "%dx %s", n, text)
	}
	if len(f.Stalls) == 0 {
		line("stalls", "none over %s", figures.Micros(int64(f.StallMS*1000)))
	} else {
		line("stalls", "%d over %s, of %s", len(f.Stalls), figures.Micros(int64(f.StallMS*1000)), figures.Plural(f.Slow, "insert"))
		t.table(f.table(), 1, 2, 3)
	}
	_, err := io.WriteString(w, t.b.String())
	return err
}

// table lists the longest stalls in order of time; the sync column is for a disk that
// was timed.
func (f *KeepFigures) table() table {
	listed := slices.SortedStableFunc(slices.Values(f.Stalls), func(a, b result.KeepStall) int { return cmp.Compare(b.Seconds, a.Seconds) })
	listed = listed[:min(len(listed), mostStalls)]
	slices.SortFunc(listed, func(a, b result.KeepStall) int { return a.At.Compare(b.At) })
	t := table{Header: []string{"AT (UTC)", "LONGEST", "SYNC", "INSERTS", "DURING"}}
	for _, s := range listed {
		t.add(s.At.Format("15:04:05.000"), latencyOf(s.Seconds), f.syncText(s.Sync), figures.Count(s.Inserts),
			cmp.Or(strings.Join(s.During, "; "), "nothing of rowmill's"))
	}
	return t
}

// syncText returns how long a sync took during a stall; "" for a disk that was not
// timed.
func (f *KeepFigures) syncText(s float64) string {
	switch {
	case f.Disk == nil:
		return ""
	case s > 0:
		return latencyOf(s)
	case f.Disk.Error != "":
		return "?"
	}
	return "-"
}

// maintenance counts the actions.
func (f *KeepFigures) maintenance() string {
	var parts []string
	for _, action := range []string{"create", "rollup", "seal", "check", "rebuild", "merge", "archive", "drop"} {
		if n := f.Actions[action]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", action, n))
		}
	}
	if n := len(f.Failed); n > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", n))
	}
	return cmp.Or(strings.Join(parts, ", "), "none: does rowmill run keep the table?")
}

func (f *KeepFigures) found() string {
	if f.Found == nil {
		return "not counted"
	}
	text := fmt.Sprintf("%s acknowledged, %s found", figures.Count(f.Rows), figures.Count(*f.Found))
	if f.Dropped > 0 {
		text += fmt.Sprintf(", counting %s in periods dropped since", figures.Count(f.Dropped))
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

// latencyOf formats a latency given in seconds.
func latencyOf(s float64) string { return figures.Micros(int64(s * 1e6)) }
