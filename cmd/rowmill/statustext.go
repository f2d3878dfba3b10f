package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"

	"github.com/rowmill/rowmill/internal/figure"
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

// writeStatus writes a status in lines of at most width columns; 0 means no limit.
// Problems that require an action come last, because a terminal shows the end.
func writeStatus(w io.Writer, s *maintain.Status, width int) error {
	t := &statusText{width: width}
	if width > 0 {
		t.width = max(width, narrowest)
	}
	t.head(s)
	t.periods(s)
	t.rollups(s)
	t.doings(s)
	t.problems(s)
	_, err := io.WriteString(w, t.b.String())
	return err
}

type statusText struct {
	b     strings.Builder
	width int
}

// line writes a line, cut to the width. The text must not contain control characters.
func (t *statusText) line(text string) {
	text = strings.TrimRight(text, " ")
	if t.width > 0 {
		text = runewidth.Truncate(text, t.width, "…")
	}
	t.b.WriteString(text + "\n")
}

// wrapped writes text in as many lines as needed. The first begins with lead, the
// others with indent.
func (t *statusText) wrapped(lead, text, indent string) {
	line, empty := lead, true
	for _, word := range strings.Fields(figure.OneLine(text)) {
		if !empty && t.width > 0 && runewidth.StringWidth(line)+1+runewidth.StringWidth(word) > t.width {
			t.line(line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	t.line(line)
}

// A cells is a table. right is the alignment of its columns, one letter each: l for
// left, r for right.
type cells struct {
	head  []string
	right string
	rows  [][]string
}

func (c *cells) add(row ...string) { c.rows = append(c.rows, row) }

// width returns the width of the table without its last column.
func (c *cells) width() int {
	sum := 0
	for i := range c.head[:len(c.head)-1] {
		widest := runewidth.StringWidth(c.head[i])
		for _, row := range c.rows {
			widest = max(widest, runewidth.StringWidth(figure.OneLine(row[i])))
		}
		sum += widest + 2
	}
	return sum
}

// table writes an empty line and the table. It omits columns without any text.
func (t *statusText) table(c cells) {
	if len(c.rows) == 0 {
		return
	}
	widths, used := make([]int, len(c.head)), make([]bool, len(c.head))
	for i, h := range c.head {
		widths[i] = runewidth.StringWidth(h)
		for _, row := range c.rows {
			widths[i] = max(widths[i], runewidth.StringWidth(figure.OneLine(row[i])))
			used[i] = used[i] || row[i] != ""
		}
	}
	t.line("")
	for _, row := range append([][]string{c.head}, c.rows...) {
		line := ""
		for i, text := range row {
			if !used[i] {
				continue
			}
			if line != "" {
				line += "  "
			}
			text = figure.OneLine(text)
			pad := strings.Repeat(" ", widths[i]-runewidth.StringWidth(text))
			if i < len(c.right) && c.right[i] == 'r' {
				line += pad + text
			} else {
				line += text + pad
			}
		}
		t.line(line)
	}
}

func (t *statusText) head(s *maintain.Status) {
	kept := "kept for good"
	if s.Keep != "" {
		kept = "kept " + s.Keep
	}
	by := "kept by nobody"
	if s.Leader != "" {
		by = "kept by " + s.Leader
	}
	if s.Adopting {
		by = "it is being adopted"
		if len(s.Changes) > 0 && s.Changes[0].Interrupted {
			by += ", and nobody works at it"
		}
	}
	t.wrapped("", fmt.Sprintf("%s on %s (%s): a period every %s, %s ahead, %s", s.Table, s.Target, s.Engine, s.Every, s.Ahead, kept), "  ")
	t.line(figure.OneLine(fmt.Sprintf("%s, at %s UTC", by, when(s.At))))
	if s.Adopting {
		return
	}
	t.line("")
	switch {
	case s.Headroom != nil && s.HeadroomWanted != nil:
		t.line(fmt.Sprintf("headroom  %s of %s", figure.Duration(max(*s.Headroom, 0)), figure.Duration(*s.HeadroomWanted)))
	case s.Headroom != nil:
		t.line("headroom  " + figure.Duration(max(*s.Headroom, 0)))
	case s.HeadroomRows != nil:
		t.line(fmt.Sprintf("headroom  %s rows of %s", figure.Count(*s.HeadroomRows), figure.OneLine(s.Ahead)))
	}
	t.line(fmt.Sprintf("size      %s, about %s in %s", figure.Bytes(s.Bytes), plural(s.Rows, "row"), plural(len(s.Periods), "period")))
}

// periods writes the periods, oldest first. Long sequences of similar periods become
// one line. If the lines exceed the width, the end of each period is omitted: it is
// the beginning of the next.
func (t *statusText) periods(s *maintain.Status) {
	c := cells{head: []string{"PERIOD", "FROM", "TO", "STATE", "ROWS", "SIZE", "ARCHIVE"}, right: "llllrrl"}
	cut := timeTail(s.Periods)
	for i := 0; i < len(s.Periods); {
		p := s.Periods[i]
		n := 1
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
			name = fmt.Sprintf("%s +%d", p.Name, n-1)
			if archive != "" {
				archive += " …"
			}
		}
		if p.Rebuilt {
			state += ", rebuilt"
		}
		var rows, bytes int64
		for _, q := range run {
			rows += q.Rows
			bytes += q.Bytes
		}
		c.add(name, strings.TrimSuffix(p.From, cut), strings.TrimSuffix(run[n-1].To, cut), state, figure.Count(rows), figure.Bytes(bytes), archive)
	}
	if t.width > 0 && c.width() > t.width {
		for _, row := range c.rows {
			row[2] = ""
		}
	}
	t.table(c)
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

func (t *statusText) rollups(s *maintain.Status) {
	c := cells{head: []string{"ROLL-UP", "EVERY", "COMPUTED TO", "BEHIND", "STALE", "ROWS"}, right: "lllrrr"}
	for _, r := range s.Rollups {
		c.add(r.Name, r.Every, cmp.Or(r.To, "nothing yet"), figure.Duration(r.Lag), figure.Count(r.Stale), figure.Count(r.Rows))
	}
	t.table(c)
	if len(s.Rollups) > 0 && s.Late != "" {
		t.wrapped("late rows: ", s.Late, "  ")
	}
}

// doings writes the actions in progress, the last and the next actions, and obstacles.
func (t *statusText) doings(s *maintain.Status) {
	c := cells{head: []string{"UNDER WAY", "STEP", "SINCE", "DONE", "ROWS", "FAILED TRIES", "ERROR"}, right: "lllrrrl"}
	for _, x := range s.Changes {
		done := ""
		if x.Percent != nil {
			done = fmt.Sprintf("%.0f%%", *x.Percent)
		}
		rows := ""
		if x.Of > 0 {
			rows = fmt.Sprintf("%s of about %s", figure.Count(x.Rows), figure.Count(x.Of))
		}
		c.add(x.What, x.Step, when(x.Since), done, rows, some(x.Tries), x.Error)
	}
	t.table(c)
	c = cells{head: []string{"LAST", "OF", "AT", "TOOK", "ERROR"}, right: "lllrl"}
	for _, x := range s.Actions[:min(len(s.Actions), lastActions)] {
		c.add(x.Action, x.Detail, when(x.At), figure.Duration(x.Seconds), x.Error)
	}
	t.table(c)
	c = cells{head: []string{"NEXT", "OF", "DUE", "WHY"}}
	for _, x := range s.Next {
		due := "now"
		if x.At != nil && when(*x.At) > s.Now {
			due = when(*x.At)
		}
		c.add(x.Action, x.What, due, x.Why)
	}
	t.table(c)
	c = cells{head: []string{"IN THE WAY", "USER", "HOST", "OPEN FOR", "STATEMENT"}, right: "rllrl"}
	for _, x := range s.Blockers {
		user := x.User
		if x.Own {
			user += " (rowmill)"
		}
		c.add(fmt.Sprint(x.ID), user, x.Host, figure.Duration(x.Age), x.Statement)
	}
	t.table(c)
}

// when formats an instant in UTC, in the format of positions.
func when(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// some formats a number; 0 becomes "".
func some(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func (t *statusText) problems(s *maintain.Status) {
	for _, h := range s.Hidden {
		t.line("")
		t.wrapped("not shown to this account: ", h.What, "  ")
		t.wrapped("  Try: ", h.Grant, "       ")
	}
	t.line("")
	if len(s.Problems) == 0 {
		t.line("Nothing needs a person.")
		return
	}
	for _, p := range s.Problems {
		t.wrapped("! ", p.Code+": "+p.Text, "  ")
		if p.Try != "" {
			t.wrapped("  Try: ", p.Try, "       ")
		}
	}
}
