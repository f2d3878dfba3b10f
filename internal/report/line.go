package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// LineHeader returns the header of the columns that Line writes, without a newline.
func LineHeader() string {
	return fmt.Sprintf("%9s %15s %6s %12s %10s %10s %9s", "elapsed", "rows", "done", "rows/s", "p99", "max", "left")
}

// Line returns one line of progress for an interval of a run, without a newline:
// elapsed time, rows so far, their share of the requested rows, the interval's rate
// in rows/s (omitted for intervals too short for one), the 99th percentile and
// maximum of its service time over all operations, the time left at that rate, and
// backlog, errors and retries if there are any.
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
		p99, worst = micros(float64(l.P99)), micros(float64(l.Max))
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

// besideText describes the operations of a load beside the main one in an interval.
func besideText(op string, iv *result.Interval) string {
	t, text := iv.Beside[op], op
	if iv.Seconds > 0 {
		text += " " + figure(float64(t.Rows)/iv.Seconds) + "/s"
	}
	if l := iv.Latency[op]; l.Count > 0 {
		text += " p99 " + micros(float64(l.P99))
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
