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
	t := &terminal{width: width, cut: width > 0}
	if width > 0 {
		t.width = max(width, narrowest)
	}
	t.statusHead(s)
	t.statusPeriods(s)
	t.statusRollups(s)
	t.statusActions(s)
	t.statusProblems(s)
	_, err := io.WriteString(w, t.b.String())
	return err
}

// A terminal is text for a terminal of a width in columns; 0 means no limit.
type terminal struct {
	b     strings.Builder
	width int
	cut   bool // lines that are not wrapped are cut to the width
}

// line writes a line. The text must not contain control characters.
func (t *terminal) line(format string, args ...any) {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	text = strings.TrimRight(text, " ")
	if t.cut {
		text = runewidth.Truncate(text, t.width, "…")
	}
	t.b.WriteString(text + "\n")
}

// wrapped writes text in as many lines as needed. The first begins with lead, the
// others with indent.
func (t *terminal) wrapped(lead, text, indent string) {
	line, empty := lead, true
	for _, word := range strings.Fields(figures.OneLine(text)) {
		if !empty && t.width > 0 && runewidth.StringWidth(line)+1+runewidth.StringWidth(word) > t.width {
			t.line("%s", line)
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	t.line("%s", line)
}

// table writes an empty line and a table without the columns that have no text. The
// columns named in right are right-aligned.
func (t *terminal) table(tb table, right ...int) {
	if len(tb.Rows) == 0 {
		return
	}
	widths, used := tb.widths()
	t.line("")
	for _, row := range append([][]string{tb.Header}, tb.Rows...) {
		line := ""
		for i, text := range row {
			if !used[i] {
				continue
			}
			if line != "" {
				line += "  "
			}
			text = figures.OneLine(text)
			pad := strings.Repeat(" ", widths[i]-runewidth.StringWidth(text))
			if slices.Contains(right, i) {
				line += pad + text
			} else {
				line += text + pad
			}
		}
		t.line("%s", line)
	}
}

// widths returns the widths of the columns in a terminal, and which have text.
func (t *table) widths() (widths []int, used []bool) {
	widths, used = make([]int, len(t.Header)), make([]bool, len(t.Header))
	for i, h := range t.Header {
		widths[i] = runewidth.StringWidth(h)
		for _, row := range t.Rows {
			widths[i] = max(widths[i], runewidth.StringWidth(figures.OneLine(row[i])))
			used[i] = used[i] || row[i] != ""
		}
	}
	return widths, used
}

func (t *terminal) statusHead(s *maintain.Status) {
	kept := "kept without limit"
	if s.Keep != "" {
		kept = "kept " + s.Keep
	}
	by := "not kept by any process"
	if s.Leader != "" {
		by = "kept by " + s.Leader
	}
	if s.Adopting {
		by = "it is being adopted"
		if s.Changes[0].What != "adopt" {
			by = "its adoption is being undone"
		}
		if s.Changes[0].Interrupted {
			by += ", and no process works on it"
		}
	}
	t.wrapped("", fmt.Sprintf("%s on %s (%s): a period every %s, %s ahead, %s", s.Table, s.Target, s.Engine, s.Every, s.Ahead, kept), "  ")
	t.line("%s, at %s UTC", figures.OneLine(by), when(s.At))
	if s.Adopting {
		return
	}
	t.line("")
	switch {
	case s.Headroom != nil && s.HeadroomWanted != nil:
		t.line("headroom  %s of %s", figures.Duration(max(*s.Headroom, 0)), figures.Duration(*s.HeadroomWanted))
	case s.Headroom != nil:
		t.line("headroom  %s", figures.Duration(max(*s.Headroom, 0)))
	case s.HeadroomRows != nil:
		t.line("headroom  %s rows of %s", figures.Count(*s.HeadroomRows), figures.OneLine(s.Ahead))
	}
	t.line("size      %s, about %s in %s", figures.Bytes(s.Bytes), figures.Plural(s.Rows, "row"), figures.Plural(len(s.Periods), "period"))
}

// periods writes the periods, oldest first. Long sequences of similar periods become
// one line. If the lines exceed the width, the end of each period is omitted: it is
// the beginning of the next.
func (t *terminal) statusPeriods(s *maintain.Status) {
	c := table{Header: []string{"PERIOD", "FROM", "TO", "STATE", "ROWS", "SIZE", "ARCHIVE"}}
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
		c.add(name, strings.TrimSuffix(p.From, cut), strings.TrimSuffix(run[n-1].To, cut), state, figures.Count(rows), figures.Bytes(bytes), archive)
	}
	widths, _ := c.widths()
	sum := 0
	for _, w := range widths[:len(widths)-1] { // the last column may be cut
		sum += w + 2
	}
	if t.width > 0 && sum > t.width {
		for _, row := range c.Rows {
			row[2] = ""
		}
	}
	t.table(c, 4, 5)
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

func (t *terminal) statusRollups(s *maintain.Status) {
	c := table{Header: []string{"ROLL-UP", "EVERY", "COMPUTED TO", "BEHIND", "STALE", "ROWS"}}
	for _, r := range s.Rollups {
		c.add(r.Name, r.Every, cmp.Or(r.To, "nothing yet"), figures.Duration(r.Lag), figures.Count(r.Stale), figures.Count(r.Rows))
	}
	t.table(c, 3, 4, 5)
	if len(s.Rollups) > 0 && s.Late != "" {
		t.wrapped("late rows: ", s.Late, "  ")
	}
}

// doings writes the actions in progress, the last and the next actions, and obstacles.
func (t *terminal) statusActions(s *maintain.Status) {
	c := table{Header: []string{"UNDER WAY", "STEP", "SINCE", "DONE", "ROWS", "FAILED TRIES", "ERROR"}}
	for _, x := range s.Changes {
		done := ""
		if x.Percent != nil {
			done = fmt.Sprintf("%.0f%%", *x.Percent)
		}
		rows := ""
		if x.Of > 0 {
			rows = fmt.Sprintf("%s of about %s", figures.Count(x.Rows), figures.Count(x.Of))
		}
		c.add(x.What, x.Step, when(x.Since), done, rows, orBlank(x.Tries), x.Error)
	}
	t.table(c, 3, 4, 5)
	c = table{Header: []string{"LAST", "OF", "AT", "TOOK", "ERROR"}}
	for _, x := range s.Actions[:min(len(s.Actions), lastActions)] {
		c.add(x.Action, x.Detail, when(x.At), figures.Duration(x.Seconds), x.Error)
	}
	t.table(c, 3)
	c = table{Header: []string{"NEXT", "OF", "DUE", "WHY"}}
	for _, x := range s.Next {
		due := "now"
		if x.At != nil && when(*x.At) > s.Now {
			due = when(*x.At)
		}
		c.add(x.Action, x.What, due, x.Why)
	}
	t.table(c)
	c = table{Header: []string{"IN THE WAY", "USER", "HOST", "OPEN FOR", "STATEMENT"}}
	for _, x := range s.Blockers {
		user := x.User
		if x.Own {
			user += " (rowmill)"
		}
		c.add(fmt.Sprint(x.ID), user, x.Host, figures.Duration(x.Age), x.Statement)
	}
	t.table(c, 0, 3)
}

// when formats an instant in UTC, in the format of positions.
func when(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// orBlank formats a number; 0 becomes "".
func orBlank(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func (t *terminal) statusProblems(s *maintain.Status) {
	for _, h := range s.Hidden {
		t.line("")
		t.wrapped("not shown to this account: ", h.What, "  ")
		t.wrapped("  Try: ", h.Grant, "       ")
	}
	t.line("")
	if len(s.Problems) == 0 {
		t.line("No action required.")
		return
	}
	for _, p := range s.Problems {
		t.wrapped("! ", p.Code+": "+p.Text, "  ")
		if p.Try != "" {
			t.wrapped("  Try: ", p.Try, "       ")
		}
	}
}
