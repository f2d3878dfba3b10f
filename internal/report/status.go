package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain"
)

// Limits of the text of a status.
const (
	// alike is the least number of adjacent similar periods that are combined into one
	// line.
	alike = 4
	// lastActions is how many of the last actions are listed.
	lastActions = 6
	// narrowest is the least width to which text is cut: narrower text would be
	// unreadable.
	narrowest = 40
)

// Status writes a status in lines of at most width columns; 0 means no limit. Problems
// that require an action come last, because a terminal shows the end.
func Status(w io.Writer, s *maintain.Status, width int) error {
	t := &textWriter{cut: width > 0}
	if width > 0 {
		t.width = max(width, narrowest)
	}
	t.statusHead(s)
	for _, tb := range []*table{statusPeriods(s, t.width), statusRollups(s)} {
		t.statusTable(tb)
	}
	if len(s.Rollups) > 0 && s.Late != "" {
		t.wrapped("late rows: ", "  ", s.Late)
	}
	for _, tb := range statusActions(s) {
		t.statusTable(tb)
	}
	t.statusProblems(s)
	return t.writeTo(w)
}

func (t *textWriter) statusTable(tb *table) {
	if len(tb.Rows) > 0 {
		t.block()
		t.table(tb.filled(), "")
	}
}

func (t *textWriter) statusHead(s *maintain.Status) {
	kept, by := either(s.Keep != "", "retention "+s.Keep, "no retention"), either(s.Leader != "", "run by "+s.Leader, "run by no process")
	if s.Adopting {
		by = either(s.Changes[0].What == "adopt", "it is being adopted", "its adoption is being undone") +
			onlyIf(s.Changes[0].Interrupted, ", and no process works on it")
	}
	node := ""
	switch {
	case s.Head:
		node = "head: "
	case s.Node != "":
		node = "node " + oneLine(s.Node) + ": "
	}
	if s.Engine == "" { // it can't be reached
		t.wrapped("", "  ", fmt.Sprintf("%s%s on %s", node, s.Table, s.Target))
		return
	}
	t.wrapped("", "  ", node+fmt.Sprintf("%s on %s (%s): a period every %s, %s ahead, %s", s.Table, s.Target, s.Engine, s.Every, s.Ahead, kept))
	t.line("%s, at %s UTC", oneLine(by), when(s.At))
	for _, p := range s.Paused {
		t.wrapped("", "  ", fmt.Sprintf("paused: %s until %s UTC by %s%s", p.Policy, when(p.Until), oneLine(p.By), onlyIf(p.Reason != "", ": "+oneLine(p.Reason))))
	}
	if s.Adopting {
		return
	}
	t.block()
	switch {
	case s.Headroom != nil && s.HeadroomWanted != nil:
		t.line("headroom  %s of %s", figures.Duration(max(*s.Headroom, 0)), figures.Duration(*s.HeadroomWanted))
	case s.Headroom != nil:
		t.line("headroom  %s", figures.Duration(max(*s.Headroom, 0)))
	case s.HeadroomRows != nil:
		t.line("headroom  %s rows of %s", count(*s.HeadroomRows), oneLine(s.Ahead))
	}
	t.line("size      %s, about %s in %s", bytes(s.Bytes), plural(s.Rows, "row", "rows"), plural(len(s.Periods), "period", "periods"))
}

// statusPeriods lists the periods, oldest first, long sequences of similar ones in one line.
// If the lines exceed the width, the end of each period is omitted: it is the beginning of
// the next.
func statusPeriods(s *maintain.Status, width int) *table {
	c := &table{Header: []string{"PERIOD", "FROM", "TO", "STATE", "ROWS", "SIZE", "ARCHIVE"}}
	cut := timeTail(s.Periods)
	for i := 0; i < len(s.Periods); {
		p, n := s.Periods[i], 1
		for i+n < len(s.Periods) && isLike(s.Periods[i+n-1], s.Periods[i+n]) {
			n++
		}
		if n < alike {
			n = 1
		}
		run := s.Periods[i : i+n]
		i += n
		name, state, archive := p.Name, p.State, p.Archive
		if n > 1 {
			name, archive = fmt.Sprintf("%s +%d", p.Name, n-1), archive+onlyIf(archive != "", " …")
		}
		state += onlyIf(p.Rebuilt, ", rebuilt")
		var rows, size int64
		for _, q := range run {
			rows += q.Rows
			size += q.Bytes
		}
		c.add(name, strings.TrimSuffix(p.From, cut), strings.TrimSuffix(run[n-1].To, cut), state, count(rows), bytes(size), archive)
	}
	sum := 0
	for i := range len(c.Header) - 1 { // the last column may be cut
		widest := 0
		for _, row := range append(c.Rows, c.Header) {
			widest = max(widest, runewidth.StringWidth(oneLine(row[i])))
		}
		sum += widest + 2
	}
	if width > 0 && sum > width {
		for _, row := range c.Rows {
			row[2] = ""
		}
	}
	return c
}

// isLike reports whether two adjacent periods may share a line.
func isLike(p, q maintain.PeriodStatus) bool {
	return p.State == q.State && p.Rebuilt == q.Rebuilt && (p.Archive == "") == (q.Archive == "") && p.To == q.From
}

// timeTail returns the common end of all bounds, which can be omitted: the time of day
// if all are midnight, or the seconds if all are zero.
func timeTail(periods []maintain.PeriodStatus) string {
	for _, tail := range []string{" 00:00:00", ":00"} {
		if !slices.ContainsFunc(periods, func(p maintain.PeriodStatus) bool {
			return !strings.HasSuffix(p.From, tail) || !strings.HasSuffix(p.To, tail)
		}) {
			return tail
		}
	}
	return ""
}

func statusRollups(s *maintain.Status) *table {
	c := &table{Header: []string{"ROLL-UP", "EVERY", "COMPUTED TO", "BEHIND", "STALE", "ROWS"}}
	for _, r := range s.Rollups {
		c.add(r.Name, r.Every, cmp.Or(r.To, "nothing yet"), figures.Duration(r.Lag), count(r.Stale), count(r.Rows))
	}
	return c
}

// statusActions lists the changes in progress, the last and the next actions, and obstacles.
func statusActions(s *maintain.Status) []*table {
	changes := &table{Header: []string{"CHANGE", "STEP", "SINCE", "DONE", "ROWS", "FAILED TRIES", "ERROR"}}
	for _, x := range s.Changes {
		done := ifKnown(x.Percent, func(p float64) string { return fmt.Sprintf("%.0f%%", p) })
		rows := onlyIf(x.Of > 0, fmt.Sprintf("%s of about %s", count(x.Rows), count(x.Of)))
		changes.add(x.What, x.Step, when(x.Since), done, rows, countIfAny(x.Tries), x.Error)
	}
	last := &table{Header: []string{"ACTION", "OF", "AT", "TOOK", "ERROR"}}
	for _, x := range s.Actions[:min(len(s.Actions), lastActions)] {
		last.add(x.Action, x.Detail, when(x.At), figures.Duration(x.Seconds), x.Error)
	}
	next := &table{Header: []string{"NEXT", "OF", "DUE", "WHY"}}
	for _, x := range s.Next {
		due := "now"
		if x.At != nil && when(*x.At) > s.Now {
			due = when(*x.At)
		}
		next.add(x.Action, x.What, due, x.Why)
	}
	obstacles := &table{Header: []string{"IN THE WAY", "USER", "HOST", "OPEN FOR", "STATEMENT"}}
	for _, x := range s.Blockers {
		obstacles.add(fmt.Sprint(x.ID), x.User+onlyIf(x.Own, " (rowmill)"), x.Host, figures.Duration(x.Age), x.Statement)
	}
	return []*table{changes, last, next, obstacles}
}

// when formats an instant in UTC, in the format of positions.
func when(t time.Time) string { return t.UTC().Format(time.DateTime) }

func (t *textWriter) statusProblems(s *maintain.Status) {
	for _, h := range s.Hidden {
		t.block()
		t.wrapped("not shown to this account: ", "  ", h.What)
		t.wrapped("  Try: ", "       ", h.Grant)
	}
	t.block()
	for _, n := range s.Notes {
		t.wrapped("note: ", "  ", oneLine(n))
	}
	if len(s.Problems) == 0 {
		t.line("No action required.")
	}
	for _, p := range s.Problems {
		t.wrapped("! ", "  ", p.Code+": "+p.Text)
		if p.Try != "" {
			t.wrapped("  Try: ", "       ", p.Try)
		}
	}
}
