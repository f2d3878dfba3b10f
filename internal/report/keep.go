package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// A KeepFigures is the JSON format of a run of inserts beside a table's maintenance.
type KeepFigures struct {
	Format  string         `json:"format"` // rowmill.keep/1
	Summary result.Summary `json:"summary"`
	result.Keep
	Backlog int64 `json:"backlog"`
	Rows    int64 `json:"rows"`
	// Without is the previous run, which had no maintenance; nil if there was no such run.
	Without *result.Summary `json:"without,omitempty"`
	// unmaintained is set if nobody maintained the table during the run.
	unmaintained bool
}

// NewKeepFigures returns the figures of a run that has ended.
func NewKeepFigures(rec *result.Record) *KeepFigures {
	f := &KeepFigures{Format: "rowmill.keep/1", Summary: rec.Summary()}
	f.unmaintained = rec.Run.Side == result.Unmaintained
	if rec.End != nil && rec.End.Keep != nil {
		f.Keep = *rec.End.Keep
	}
	if n := len(rec.Intervals); n > 0 {
		f.Backlog, f.Rows = rec.Intervals[n-1].Backlog, rec.Intervals[n-1].Rows
	}
	return f
}

// JSON writes the figures.
func (f *KeepFigures) JSON(w io.Writer) error { return document.WriteJSON(w, f) }

// mostStalls is the maximum number of stalls listed. The longest stalls are listed.
const mostStalls = 10

// Text writes the figures as lines, and the stalls as a table.
func (f *KeepFigures) Text(w io.Writer) error {
	var t document.TextWriter
	for _, l := range f.lines() {
		t.Line("%-12s %s", l.Name, l.Value)
	}
	t.Tables(f.table())
	return t.Flush(w)
}

// upkeep returns the sections of the runs beside maintenance.
func upkeep(vs []view) (out []document.Part) {
	for i := range vs {
		if r := vs[i].rec; r.End != nil && r.End.Keep != nil {
			f := NewKeepFigures(r)
			out = append(out, &document.Section{Title: "Inserts beside maintenance: " + r.Run.Name, Parts: append([]document.Part{f.lines()}, f.table().Parts()...)})
		}
	}
	return out
}

func (f *KeepFigures) lines() (out document.Facts) {
	line := func(what, format string, args ...any) {
		out = append(out, document.Fact{Name: what, Value: oneLine(fmt.Sprintf(format, args...))})
	}
	s := &f.Summary
	line("inserted", "%s in %s, %s rows/s", plural(f.Rows, "row", "rows"), figures.Duration(s.Seconds), figures.Rounded(s.RowsPerSecond))
	if f.Backlog > 0 {
		line("behind", "%s inserts were due and not done", count(f.Backlog))
	}
	if l, ok := s.LatencyUS["insert"]; ok {
		line("insert", "%s", latency(l))
	}
	if l, ok := s.ResponseUS["insert"]; ok {
		line("from due", "%s", latency(l))
		if f.Without != nil {
			line("unmaintained", "%s", latency(f.Without.ResponseUS["insert"]))
		}
	}
	disk := onlyIf(f.Longest.Sync > 0, fmt.Sprintf("; syncing another file took %s then", micros(1e6*f.Longest.Sync)))
	line("longest", "%s (%s)%s", micros(1e6*f.Longest.Seconds), maintained(f.Longest.During), disk)
	if d := f.Disk; d != nil {
		line("disk", "%s of another file, %d of them over 10 ms, longest %s", plural(d.Syncs, "sync", "syncs"), d.Slow, micros(1e6*d.Longest))
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
	line("errors", "%s", count(total))
	for _, text := range slices.Sorted(maps.Keys(f.Errors)) {
		line("", "%dx %s", f.Errors[text], text)
	}
	limit := micros(f.StallMS * 1000)
	if len(f.Stalls) == 0 {
		line("stalls", "none over %s", limit)
	} else {
		line("stalls", "%d over %s, of %s", len(f.Stalls), limit, plural(f.Slow, "insert", "inserts"))
	}
	return out
}

// table lists the longest stalls in order of time; the sync column exists if the disk was timed.
func (f *KeepFigures) table() *document.Table {
	listed := slices.SortedStableFunc(slices.Values(f.Stalls), func(a, b result.KeepStall) int { return cmp.Compare(b.Seconds, a.Seconds) })
	listed = listed[:min(mostStalls, len(listed))]
	slices.SortFunc(listed, func(a, b result.KeepStall) int { return a.At.Compare(b.At) })
	t := &document.Table{Header: []string{"at (UTC)", "longest", "sync", "inserts", "during"}}
	if more := len(f.Stalls) - len(listed); more > 0 {
		t.Note = fmt.Sprintf("The %d longest; %s more are in the JSON.", mostStalls, count(more))
	}
	for _, s := range listed {
		sync := none
		switch {
		case f.Disk == nil:
			sync = ""
		case s.Sync > 0:
			sync = micros(1e6 * s.Sync)
		case f.Disk.Error != "":
			sync = "?"
		}
		t.Add(s.At.Format("15:04:05.000"), micros(1e6*s.Seconds), sync, count(s.Inserts), maintained(s.During))
	}
	return t
}

// maintenance counts the actions.
func (f *KeepFigures) maintenance() string {
	var parts []string
	for _, action := range []string{"create", "rollup", "seal", "check", "rebuild", "merge", "archive", "drop"} {
		if n := f.Actions[action]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", action, n))
		}
	}
	parts = append(parts, onlyIf(len(f.Failed) > 0, fmt.Sprintf("%d failed", len(f.Failed))))
	return either(f.unmaintained, "none, to compare with", cmp.Or(document.Listed(", ", parts...), "none: does rowmill run keep the table?"))
}

func (f *KeepFigures) found() string {
	if f.Found == nil {
		return "not counted"
	}
	return fmt.Sprintf("%s acknowledged, %s found", count(f.Rows), count(*f.Found)) +
		onlyIf(f.Dropped > 0, fmt.Sprintf(", counting %s in periods dropped since", count(f.Dropped)))
}

// maintained says what maintenance did at the time of a stall.
func maintained(during []string) string { return cmp.Or(strings.Join(during, "; "), "no maintenance") }
