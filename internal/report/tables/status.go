// Package tables writes what rowmill says of tables in use: their status, the plan for a table, the
// slow tables of a database, what hinders a server's inserts, and what machines for a table cost.
// Its input is data of other packages, such as internal/maintain; it opens no database.
//
//	err := tables.Status(os.Stdout, status, 80)
package tables

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/report/document"
)

// Limits of the text of a status.
const (
	// alike is the least number of adjacent similar periods that are combined into one line.
	alike = 4
	// lastActions is how many of the last actions are listed.
	lastActions = 6
	// withBothBounds: texts of at least this width show both the beginning and the end of periods.
	withBothBounds = 120
	// narrowest is the least width to which text is cut: narrower text would be unreadable.
	narrowest = 40
)

// Status writes a status in lines of at most width columns; 0 means no limit. Problems
// that require an action come last, because a terminal shows the end.
func Status(w io.Writer, s *maintain.Status, width int) error {
	t := &document.TextWriter{Cut: width > 0}
	if width > 0 {
		t.Width = max(width, narrowest)
	}
	statusHead(t, s)
	t.Tables(statusPeriods(s, t.Width), statusRollups(s))
	if len(s.Rollups) > 0 && s.Late != "" {
		t.Wrapped("late rows: ", "  ", s.Late)
	}
	t.Tables(statusActions(s)...)
	statusProblems(t, s)
	return t.Flush(w)
}

func statusHead(t *document.TextWriter, s *maintain.Status) {
	kept, by := document.Either(s.Keep != "", "retention "+s.Keep, "no retention"), document.Either(s.Leader != "", "run by "+s.Leader, "run by no process")
	if s.Adopting {
		by = document.Either(s.Changes[0].What == "adopt", "it is being adopted", "its adoption is being undone") +
			document.If(s.Changes[0].Interrupted, ", and no process works on it")
	}
	node := ""
	switch {
	case s.Head:
		node = "head: "
	case s.Node != "":
		node = "node " + s.Node + ": "
	}
	if s.Engine == "" { // the server can't be reached
		t.Wrapped("", "  ", fmt.Sprintf("%s%s on %s", node, s.Table, s.Target))
		return
	}
	t.Wrapped("", "  ", node+fmt.Sprintf("%s on %s (%s): a period every %s, %s ahead, %s", s.Table, s.Target, s.Engine, s.Every, s.Ahead, kept))
	t.Wrapped("", "  ", fmt.Sprintf("%s, at %s UTC", by, when(s.At)))
	for _, p := range s.Paused {
		t.Wrapped("", "  ", fmt.Sprintf("paused: %s until %s UTC by %s%s", p.Policy, when(p.Until), p.By, document.If(p.Reason != "", ": "+p.Reason)))
	}
	if s.Adopting {
		return
	}
	t.Block()
	switch {
	case s.Headroom != nil && s.HeadroomWanted != nil:
		t.Line("headroom  %s of %s", figures.Duration(max(*s.Headroom, 0)), figures.Duration(*s.HeadroomWanted))
	case s.Headroom != nil:
		t.Line("headroom  %s", figures.Duration(max(*s.Headroom, 0)))
	case s.HeadroomRows != nil:
		t.Line("headroom  %s rows of %s", figures.Count(*s.HeadroomRows), s.Ahead)
	}
	t.Line("size      %s, about %s in %s", figures.Bytes(s.Bytes), figures.Plural(s.Rows, "row", "rows"), figures.Plural(len(s.Periods), "period", "periods"))
}

// statusPeriods lists the periods, oldest first, with one line for a long sequence of similar
// periods. On a narrow terminal the end of each period is omitted: it is the beginning of the next.
func statusPeriods(s *maintain.Status, width int) *document.Table {
	c := &document.Table{Header: []string{"PERIOD", "FROM", "TO", "STATE", "ROWS", "SIZE", "ARCHIVE"}}
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
			name, archive = fmt.Sprintf("%s +%d", p.Name, n-1), archive+document.If(archive != "", " …")
		}
		state += document.If(p.Rebuilt, ", rebuilt")
		var rows, size int64
		for _, q := range run {
			rows += q.Rows
			size += q.Bytes
		}
		c.Add(name, strings.TrimSuffix(p.From, ":00"), strings.TrimSuffix(run[n-1].To, ":00"), state, figures.Count(rows), figures.Bytes(size), archive)
	}
	if width > 0 && width < withBothBounds {
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

func statusRollups(s *maintain.Status) *document.Table {
	c := &document.Table{Header: []string{"ROLL-UP", "EVERY", "COMPUTED TO", "BEHIND", "STALE", "ROWS"}}
	for _, r := range s.Rollups {
		c.Add(r.Name, r.Every, cmp.Or(r.To, "nothing yet"), figures.Duration(r.Lag), figures.Count(r.Stale), figures.Count(r.Rows))
	}
	return c
}

// statusActions lists the changes in progress, the last and the next actions, and obstacles.
func statusActions(s *maintain.Status) []*document.Table {
	changes := &document.Table{Header: []string{"CHANGE", "STEP", "SINCE", "DONE", "ROWS", "FAILED TRIES", "ERROR"}}
	for _, x := range s.Changes {
		done := document.IfKnown(x.Percent, func(p float64) string { return fmt.Sprintf("%.0f%%", p) })
		rows := document.If(x.Of > 0, fmt.Sprintf("%s of about %s", figures.Count(x.Rows), figures.Count(x.Of)))
		changes.Add(x.What, x.Step, when(x.Since), done, rows, document.IfAny(x.Tries, figures.Count), x.Error)
	}
	last := &document.Table{Header: []string{"ACTION", "OF", "AT", "TOOK", "ERROR"}}
	for _, x := range s.Actions[:min(len(s.Actions), lastActions)] {
		last.Add(x.Action, x.Detail, when(x.At), figures.Duration(x.Seconds), x.Error)
	}
	next := &document.Table{Header: []string{"NEXT", "OF", "DUE", "WHY"}}
	for _, x := range s.Next {
		due := "now"
		if x.At != nil && when(*x.At) > s.Now {
			due = when(*x.At)
		}
		next.Add(x.Action, x.What, due, x.Why)
	}
	obstacles := &document.Table{Header: []string{"IN THE WAY", "USER", "HOST", "OPEN FOR", "STATEMENT"}}
	for _, x := range s.Blockers {
		obstacles.Add(fmt.Sprint(x.ID), x.User+document.If(x.Own, " (rowmill)"), x.Host, figures.Duration(x.Age), x.Statement)
	}
	return []*document.Table{changes, last, next, obstacles}
}

// when formats an instant in UTC, in the format of positions.
func when(t time.Time) string { return t.UTC().Format(time.DateTime) }

func statusProblems(t *document.TextWriter, s *maintain.Status) {
	for _, h := range s.Hidden {
		t.Block()
		t.Wrapped("not shown to this account: ", "  ", h.What)
		t.Wrapped("  Try: ", "       ", h.Grant)
	}
	t.Block()
	for _, n := range s.Notes {
		t.Wrapped("note: ", "  ", n)
	}
	if len(s.Problems) == 0 {
		t.Line("No action required.")
	}
	for _, p := range s.Problems {
		t.Wrapped("! ", "  ", p.Code+": "+p.Text)
		if p.Try != "" {
			t.Wrapped("  Try: ", "       ", p.Try)
		}
	}
}
