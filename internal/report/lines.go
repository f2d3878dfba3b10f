package report

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// lineColumns are the columns of progress lines.
const lineColumns = "%9s %15s %6s %12s %12s %12s %9s"

// Lines formats the progress lines of one run, none with a newline.
type Lines struct {
	Run  *result.Run
	pace result.Pace
}

// Header returns the header of the columns. Where a rate is requested, times are response times,
// from when an operation was due, else service times.
func (l *Lines) Header() string {
	times := either(l.Run.Rate > 0, "response", "service")
	return fmt.Sprintf(lineColumns, "elapsed", "rows", "done", "rows/s", "p99 "+times, "max "+times, "left")
}

// Line returns the line of the next interval: elapsed time, rows and their share of those
// requested, rate, p99 and longest time, the time left, and backlog, errors and retries if there
// are any.
func (l *Lines) Line(iv result.Interval) string {
	l.pace.Add(l.Run, &iv)
	pace := either(l.Run.Brief(&iv), none, figure(iv.Rate()))
	done := either(l.Run.Rows > 0 || l.Run.MaxTimeSeconds > 0, fmt.Sprintf("%.0f%%", math.Floor(100*l.pace.Done)), none)
	left := either(math.IsInf(l.pace.Left, 1), none, clock(l.pace.Left))
	p99, worst := none, none
	if l := iv.Timed(iv.Operation()); l.Count > 0 {
		p99, worst = micros(l.P99), micros(l.Max)
	}
	line := fmt.Sprintf(lineColumns, fmt.Sprintf("%.1fs", iv.Elapsed), count(iv.Rows), done, pace, p99, worst, left)
	extra := troubles(iv.Backlog, iv.Errors, iv.Retries)
	for _, op := range slices.Sorted(maps.Keys(iv.Beside)) {
		extra = append(extra, besideText(op, &iv))
	}
	return line + onlyIf(len(extra) > 0, "  "+strings.Join(extra, ", "))
}

func besideText(op string, iv *result.Interval) string {
	t, text := iv.Beside[op], op
	if iv.Seconds > 0 {
		text += " " + figure(float64(t.Rows)/iv.Seconds) + "/s"
	}
	if l := iv.Timed(op); l.Count > 0 {
		text += " p99 " + micros(l.P99)
	}
	return strings.Join(append([]string{text}, troubles(t.Backlog, t.Errors, t.Retries)...), " ")
}

// troubles names the counts that are not 0.
func troubles(backlog, errors, retries int64) (out []string) {
	for i, n := range []int64{backlog, errors, retries} {
		if n > 0 {
			out = append(out, []string{"backlog ", "errors ", "retries "}[i]+count(n))
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

// IbenchLines formats the insert benchmark's interval lines of one run, for all clients
// together. Columns i_ are for the interval, t_ for the run so far: seconds, inserted and
// deleted rows and queries per second, then totals. Columns max_ are the longest response times
// in the interval in microseconds, from the intended start if a rate was requested.
type IbenchLines struct {
	deleted, queries, retries, retriedDeletes, retriedQueries int64
}

// Line returns the line of the next interval, without a newline.
func (l *IbenchLines) Line(iv *result.Interval) string {
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

// Ibench writes the interval lines of the runs that insert, each below its name.
func Ibench(w io.Writer, recs []result.Record) error {
	return intervalLines(w, recs, func(out io.Writer, r *result.Record) {
		fmt.Fprintln(out, IbenchHeader())
		var l IbenchLines
		for i := range r.Intervals {
			fmt.Fprintln(out, l.Line(&r.Intervals[i]))
		}
	})
}

// Intervals writes the progress lines printed during the runs.
func Intervals(w io.Writer, recs []result.Record) error {
	return intervalLines(w, recs, func(out io.Writer, r *result.Record) {
		l := Lines{Run: &r.Run}
		fmt.Fprintln(out, l.Header())
		for i := range r.Intervals {
			fmt.Fprintln(out, l.Line(r.Intervals[i]))
		}
	})
}

func intervalLines(w io.Writer, recs []result.Record, write func(io.Writer, *result.Record)) error {
	if len(recs) == 0 {
		return errNoRuns
	}
	out := bufio.NewWriter(w)
	for i := range recs {
		if !recs[i].Run.Loads() {
			continue
		}
		fmt.Fprintf(out, "# %s\n", oneLine(recs[i].Run.Name))
		write(out, &recs[i])
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write interval lines: %w", err)
	}
	return nil
}
