package report

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// Text writes the comparison as text. For each pair of runs, the differences in
// their conditions come first, then figures at equal row counts with the ratio B/A.
func (c Comparison) Text(w io.Writer) error {
	out := bufio.NewWriter(w)
	for i := range c.Pairs {
		if i > 0 {
			fmt.Fprintln(out)
		}
		c.Pairs[i].text(out)
	}
	for i, name := range c.Unpaired {
		if i == 0 && len(c.Pairs) > 0 {
			fmt.Fprintln(out)
		}
		wrapped(out, "left out: ", "  ", name)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

func (p *Pair) text(w io.Writer) {
	wrapped(w, "A  ", "   ", p.A.text())
	wrapped(w, "B  ", "   ", p.B.text())
	fmt.Fprintln(w)
	for _, f := range p.Flags {
		wrapped(w, "  ! ", "    ", f.Text)
	}
	if len(p.Flags) > 0 {
		fmt.Fprintln(w)
	}
	if len(p.Windows) == 0 {
		fmt.Fprintln(w, "  one of the two inserted no rows: there is nothing to compare")
		return
	}
	rows := [][4]string{{"at equal rows", "A", "B", "B/A"}}
	if len(p.Repeats) > 1 {
		rows[0][0] += ", medians of " + plural(int64(len(p.Repeats)), "pair", "pairs")
	}
	add := func(name string, v Versus, format func(float64) string) {
		if v.A == nil && v.B == nil {
			return
		}
		rows = append(rows, [4]string{oneLine(name), format(deref(v.A)), format(deref(v.B)), ratio(deref(v.Ratio))})
	}
	add("seconds to "+count(p.Rows)+" rows", p.Seconds, seconds)
	add("mean rate", p.RowsPerSecond, rowsRate)
	if len(p.Repeats) > 1 {
		for i, v := range p.Repeats {
			add(fmt.Sprintf("  of pair %d", i+1), v, rowsRate)
		}
	}
	for _, win := range p.Windows {
		add(fmt.Sprintf("rate from %s to %s rows", short(float64(win.FromRows)), short(float64(win.ToRows))), win.Versus, rowsRate)
	}
	for _, at := range p.At {
		add("rate at "+short(float64(at.Rows))+" rows", at.Versus, rowsRate)
	}
	for _, l := range p.LatencyUS {
		add(l.Operation+" "+l.Percentile, l.Versus, micros)
	}
	for _, l := range p.ResponseUS {
		add(l.Operation+" response "+l.Percentile, l.Versus, micros)
	}
	add("stalls", p.StallSeconds, func(f float64) string { return figure(f) + " s" })
	add("errors", p.Errors, figure)
	add("size per row (whole run)", p.BytesPerRow, func(f float64) string { return figure(f) + " bytes" })
	add("client CPU per row (whole run)", p.ClientCPU, micros)
	add("server CPU per row (whole run)", p.ServerCPU, micros)
	columns(w, rows)
	fmt.Fprintln(w)
	wrapped(w, "  ", "  ", p.verdict())
}

func (s *Side) text() string {
	out := s.Name + " (" + s.Source + ")"
	if s.Runs > 1 {
		out += ", " + plural(int64(s.Runs), "run", "runs")
	}
	return out
}

// verdict describes the outcome and its reliability.
func (p *Pair) verdict() string {
	r, last := deref(p.RowsPerSecond.Ratio), deref(p.Windows[len(p.Windows)-1].Ratio)
	if math.IsNaN(r) || math.IsNaN(last) {
		return "The rates can't be compared."
	}
	rows := short(float64(p.Rows)) + " rows"
	var s string
	switch b := p.Interval; p.Verdict {
	case Unknown:
		s = fmt.Sprintf("Over %s B runs at %s the rate of A; the runs are too short to tell how sure that is.", rows, ratio(r))
	case NoDifference:
		s = fmt.Sprintf("No difference shown over %s: B runs at %s the rate of A, and the 95%% interval, %s..%s, holds 1.",
			rows, ratio(r), ratio(b.Low), ratio(b.High))
	case Slower:
		s = fmt.Sprintf("B is slower by %s (95%% interval %s..%s) over %s.", percent(1-r), percent(1-b.High), percent(1-b.Low), rows)
	case Faster:
		s = fmt.Sprintf("B is faster by %s (95%% interval %s..%s) over %s.", percent(r-1), percent(b.Low-1), percent(b.High-1), rows)
	}
	switch p.IntervalFrom {
	case withinRuns:
		s += " The interval knows how the rate varies within these two runs, not how runs differ from each other: for that, repeat them."
	case betweenRuns:
		s += fmt.Sprintf(" The interval is judged by how %s of runs differ.", plural(int64(len(p.Repeats)), "pair", "pairs"))
	}
	s += fmt.Sprintf(" In the last tenth of the rows B runs at %s", ratio(last))
	if b := p.LastTenth; b != nil {
		s += fmt.Sprintf(" (%s..%s)", ratio(b.Low), ratio(b.High))
	}
	s += "."
	if kinds := p.unequal(); len(kinds) > 0 {
		s += " Not like with like: unequal " + strings.Join(kinds, ", ") + "."
	}
	return s
}

// unequal names the kinds of flags that call the comparison itself into question.
func (p *Pair) unequal() []string {
	var out []string
	for _, kind := range []string{"durability", "engine", "server", "cache", "machine", "schema"} {
		if slices.ContainsFunc(p.Flags, func(f Flag) bool { return f.Kind == kind }) {
			out = append(out, map[string]string{"server": "server version"}[kind])
			if out[len(out)-1] == "" {
				out[len(out)-1] = kind
			}
		}
	}
	return out
}

// columns writes aligned rows of a name and three right-aligned figures.
func columns(w io.Writer, rows [][4]string) {
	var width [4]int
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	for _, r := range rows {
		line := "  " + r[0] + strings.Repeat(" ", width[0]-utf8.RuneCountInString(r[0]))
		for i, cell := range r[1:] {
			line += strings.Repeat(" ", 3+width[i+1]-utf8.RuneCountInString(cell)) + cell
		}
		fmt.Fprintln(w, line)
	}
}
