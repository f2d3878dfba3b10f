package report

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// LineHeader returns the header of the columns that Line writes, without a newline.
func LineHeader() string {
	return fmt.Sprintf("%9s %15s %6s %12s %10s %10s %9s", "elapsed", "rows", "done", "rows/s", "p99", "max", "left")
}

// Line returns one line of progress for an interval of a run, without a newline: elapsed time,
// rows and their share of those requested, rate, p99 and maximum of the service time, the time
// left at that rate, and backlog, errors and retries if there are any.
func Line(iv result.Interval, run *result.Run) string {
	total := run.Rows
	done, left, pace := none, none, none
	if !run.Brief(&iv) {
		pace = figure(iv.Rate())
	}
	if total > 0 {
		done = fmt.Sprintf("%.0f%%", 100*float64(iv.Rows)/float64(total))
		if rate := iv.Rate(); rate > 0 {
			left = clock(float64(max(total-iv.Rows, 0)) / rate)
		}
	}
	p99, worst := none, none
	if l := iv.Latency[iv.Operation()]; l.Count > 0 {
		p99, worst = micros(l.P99), micros(l.Max)
	}
	line := fmt.Sprintf("%9s %15s %6s %12s %10s %10s %9s",
		fmt.Sprintf("%.1fs", iv.Elapsed), count(iv.Rows), done, pace, p99, worst, left)
	var extra []string
	if iv.Backlog > 0 {
		extra = append(extra, "backlog "+count(iv.Backlog))
	}
	if iv.Errors > 0 {
		extra = append(extra, plural(iv.Errors, "error", "errors"))
	}
	if iv.Retries > 0 {
		extra = append(extra, plural(iv.Retries, "retry", "retries"))
	}
	for _, op := range slices.Sorted(maps.Keys(iv.Beside)) {
		extra = append(extra, besideText(op, &iv))
	}
	if len(extra) > 0 {
		line += "  " + strings.Join(extra, ", ")
	}
	return line
}

func besideText(op string, iv *result.Interval) string {
	t, text := iv.Beside[op], op
	if iv.Seconds > 0 {
		text += " " + figure(float64(t.Rows)/iv.Seconds) + "/s"
	}
	if l := iv.Latency[op]; l.Count > 0 {
		text += " p99 " + micros(l.P99)
	}
	for _, n := range []struct {
		count int64
		what  string
	}{{t.Backlog, "backlog"}, {t.Errors, "errors"}, {t.Retries, "retries"}} {
		if n.count > 0 {
			text += " " + n.what + " " + count(n.count)
		}
	}
	return text
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
	longest := func(op string) int64 {
		if h, ok := iv.Response[op]; ok {
			return h.Max
		}
		return iv.Latency[op].Max
	}
	per := func(n int64, seconds float64) float64 {
		if seconds <= 0 {
			return 0
		}
		return float64(n) / seconds
	}
	return fmt.Sprintf("%.3f\t%.3f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d",
		iv.Seconds, iv.Elapsed, per(iv.NewRows, iv.Seconds), per(iv.Rows, iv.Elapsed),
		per(deletes.Rows, iv.Seconds), per(l.deleted, iv.Elapsed), per(asked, iv.Seconds), per(l.queries, iv.Elapsed),
		longest(iv.Operation()), longest("delete"), longest("query"), iv.Rows, l.deleted, l.queries,
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
		fmt.Fprintln(out, LineHeader())
		for i := range r.Intervals {
			fmt.Fprintln(out, Line(r.Intervals[i], &r.Run))
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
