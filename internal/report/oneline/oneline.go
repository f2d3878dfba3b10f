// Package oneline writes one interval of a run, or one run, in a line: for a terminal while runs
// are measured, and for scripts that expect the lines of the insert benchmark (iibench).
//
//	lines := oneline.Progress{Run: &rec.Run}
//	fmt.Println(lines.Header())
//	fmt.Println(lines.Line(rec.Intervals[0]))
package oneline

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// lineColumns are the columns of progress lines.
const lineColumns = "%9s %15s %6s %12s %12s %12s %9s"

// Progress formats the progress lines of one run, without newlines.
type Progress struct {
	Run  *result.Run
	pace result.Pace
}

// Header returns the header of the columns. If a rate was requested, the latencies count from when
// an operation was due ("response"), else from when it was sent ("service").
func (l *Progress) Header() string {
	times := document.Either(l.Run.Rate > 0, "response", "service")
	return fmt.Sprintf(lineColumns, "elapsed", "rows", "done", "rows/s", "p99 "+times, "max "+times, "left")
}

// Line returns the line of the next interval: elapsed time, rows and their share of the requested
// rows, rate, p99 and longest latency, and the time left; then backlog, errors and retries if there
// are any.
func (l *Progress) Line(iv result.Interval) string {
	l.pace.Add(l.Run, &iv)
	pace := document.Either(l.Run.Brief(&iv), figures.None, figures.Number(iv.Rate()))
	done := document.Either(l.Run.Rows > 0 || l.Run.MaxTimeSeconds > 0, fmt.Sprintf("%.0f%%", math.Floor(100*l.pace.Done)), figures.None)
	left := document.Either(math.IsInf(l.pace.Left, 1), figures.None, figures.Clock(l.pace.Left))
	p99, worst := figures.None, figures.None
	if l := iv.Timed(iv.Operation()); l.Count > 0 {
		p99, worst = figures.Micros(l.P99), figures.Micros(l.Max)
	}
	line := fmt.Sprintf(lineColumns, fmt.Sprintf("%.1fs", iv.Elapsed), figures.Count(iv.Rows), done, pace, p99, worst, left)
	extra := troubles(iv.Backlog, iv.Errors, iv.Retries)
	for _, op := range slices.Sorted(maps.Keys(iv.Beside)) {
		extra = append(extra, besideText(op, &iv))
	}
	return line + document.If(len(extra) > 0, "  "+strings.Join(extra, ", "))
}

func besideText(op string, iv *result.Interval) string {
	t, text := iv.Beside[op], op
	if iv.Seconds > 0 {
		text += " " + figures.Number(float64(t.Rows)/iv.Seconds) + "/s"
	}
	if l := iv.Timed(op); l.Count > 0 {
		text += " p99 " + figures.Micros(l.P99)
	}
	return strings.Join(append([]string{text}, troubles(t.Backlog, t.Errors, t.Retries)...), " ")
}

// troubles names the counts that are not 0.
func troubles(backlog, errors, retries int64) (out []string) {
	for i, n := range []int64{backlog, errors, retries} {
		if n > 0 {
			out = append(out, []string{"backlog ", "errors ", "retries "}[i]+figures.Count(n))
		}
	}
	return out
}

// ibenchColumns are the columns of the insert benchmark's interval lines.
var ibenchColumns = []string{
	"i_sec", "t_sec", "i_ips", "t_ips", "i_dps", "t_dps", "i_qps", "t_qps", "max_i", "max_d", "max_q",
	"t_ins", "t_del", "t_query", "retry_i", "retry_d", "retry_q",
}

// IbenchHeader returns the header line of these columns.
func IbenchHeader() string { return strings.Join(ibenchColumns, "\t") }

// Ibench formats the insert benchmark's line for each interval of a run, over all clients. Columns
// i_ are of the interval, t_ of the run so far: seconds, then rows inserted, rows deleted and
// queries per second. Columns max_ are the interval's longest latencies, in microseconds; if a rate
// was requested, they count from when an operation was due. The run's totals follow.
type Ibench struct {
	deleted, queries, retries, retriedDeletes, retriedQueries int64
}

// Line returns the line of the next interval, without a newline.
func (l *Ibench) Line(iv *result.Interval) string {
	deletes, queries := iv.Beside["delete"], iv.Beside["query"]
	asked := iv.Latency["query"].Count
	l.deleted += deletes.Rows
	l.queries += asked
	l.retries += iv.Retries
	l.retriedDeletes += deletes.Retries
	l.retriedQueries += queries.Retries
	per := func(n int64, seconds float64) float64 {
		if seconds <= 0 {
			return 0
		}
		return float64(n) / seconds
	}
	return fmt.Sprintf("%.3f\t%.3f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d",
		iv.Seconds, iv.Elapsed, per(iv.NewRows, iv.Seconds), per(iv.Rows, iv.Elapsed),
		per(deletes.Rows, iv.Seconds), per(l.deleted, iv.Elapsed), per(asked, iv.Seconds), per(l.queries, iv.Elapsed),
		iv.Timed(iv.Operation()).Max, iv.Timed("delete").Max, iv.Timed("query").Max, iv.Rows, l.deleted, l.queries,
		l.retries, l.retriedDeletes, l.retriedQueries)
}

// WriteIbench writes the interval lines of the runs that insert, each below its name.
func WriteIbench(w io.Writer, recs []result.Record) error {
	return intervalLines(w, recs, func(out io.Writer, r *result.Record) {
		fmt.Fprintln(out, IbenchHeader())
		var l Ibench
		for i := range r.Intervals {
			fmt.Fprintln(out, l.Line(&r.Intervals[i]))
		}
	})
}

// WriteProgress writes the progress lines printed during the runs.
func WriteProgress(w io.Writer, recs []result.Record) error {
	return intervalLines(w, recs, func(out io.Writer, r *result.Record) {
		l := Progress{Run: &r.Run}
		fmt.Fprintln(out, l.Header())
		for i := range r.Intervals {
			fmt.Fprintln(out, l.Line(r.Intervals[i]))
		}
	})
}

func intervalLines(w io.Writer, recs []result.Record, write func(io.Writer, *result.Record)) error {
	out := bufio.NewWriter(w)
	for i := range recs {
		if !recs[i].Run.Loads() {
			continue
		}
		fmt.Fprintf(out, "# %s\n", figures.OneLine(recs[i].Run.Name))
		write(out, &recs[i])
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write interval lines: %w", err)
	}
	return nil
}

// Cell describes the result of a cell in a few words.
func Cell(s result.Summary) string {
	unit := "rows"
	if s.Speed != nil {
		unit = s.Speed.Counts
	}
	out := figures.Number(s.RowsPerSecond) + " " + unit + "/s"
	for _, op := range slices.Sorted(maps.Keys(s.LatencyUS)) {
		if d, ok := s.Beside[op]; ok {
			out += fmt.Sprintf(", %s %s queries/s p99 %s", op, figures.Number(d.PerSecond), figures.Micros(s.LatencyUS[op].P99))
			continue
		}
		out += ", p99 " + figures.Micros(s.LatencyUS[op].P99)
	}
	return out + document.If(s.Client.Bound, ", client-bound") + document.If(s.Failure != "", ", FAILED")
}

// Scan describes the result of a run in a few words.
func Scan(s result.Summary) string {
	if s.Scan == nil || len(s.Scan.Points) == 0 {
		return "no query was answered"
	}
	first, last := s.Scan.Points[0], s.Scan.Points[len(s.Scan.Points)-1]
	out := fmt.Sprintf("%s at %s", figures.Micros(1e6*first.Seconds), figures.Plural(first.Partitions, "partition", "partitions"))
	return out + document.If(last.Partitions != first.Partitions, fmt.Sprintf(", %s at %d", figures.Micros(1e6*last.Seconds), last.Partitions)) +
		document.If(s.Failure != "", ", FAILED")
}

// Disk describes the result of a job in a few words.
func Disk(s result.Summary) string {
	if s.Disk == nil || s.Rows == 0 {
		return "nothing was measured" + document.If(s.Failure != "", ", FAILED")
	}
	l := s.LatencyUS[s.Disk.Operation()]
	return fmt.Sprintf("%s/s, %s/s, p50 %s, p99 %s", figures.Number(s.RowsPerSecond), figures.Bytes(s.Disk.BytesPerSecond), figures.Micros(l.P50), figures.Micros(l.P99)) +
		document.Listed("", document.If(s.Disk.Trend != "", ", it "+s.Disk.Trend), document.If(s.Disk.Saturated(), ", CPU saturated"), document.If(s.Failure != "", ", FAILED"))
}
