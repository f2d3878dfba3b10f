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

// Text writes the comparison for people to read: for each pair of runs what
// makes them unequal first, then figures at equal row counts with the ratio
// B/A.
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
		wrapped(out, "left out: ", "  ", name+" (no counterpart)")
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

// rateVerdict is how far the ratio of two rates must be from 1 to be called a
// difference: the spread of repeated runs on a quiet machine stays below it.
const rateVerdict = 0.05

func (p *Pair) text(w io.Writer) {
	wrapped(w, "A  ", "   ", p.A.Name+" ("+p.A.Source+")")
	wrapped(w, "B  ", "   ", p.B.Name+" ("+p.B.Source+")")
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
	add := func(name string, v Versus, format func(float64) string) {
		if v.A == nil && v.B == nil {
			return
		}
		rows = append(rows, [4]string{oneLine(name), format(deref(v.A)), format(deref(v.B)), ratio(deref(v.Ratio))})
	}
	add("seconds to "+count(p.Rows)+" rows", p.Seconds, seconds)
	add("mean rate", p.RowsPerSecond, rowsRate)
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

// verdict states the outcome in one sentence.
func (p *Pair) verdict() string {
	r, last := deref(p.RowsPerSecond.Ratio), deref(p.Windows[len(p.Windows)-1].Ratio)
	if math.IsNaN(r) || math.IsNaN(last) {
		return "The rates can't be compared."
	}
	s := fmt.Sprintf("Over %s rows B runs at %s the rate of A", short(float64(p.Rows)), ratio(r))
	if math.Abs(r-1) < rateVerdict {
		s = fmt.Sprintf("Over %s rows the mean rates differ by less than %s", short(float64(p.Rows)), percent(rateVerdict))
	}
	if b := p.Interval; b != nil {
		s += fmt.Sprintf(" (95%% interval within these runs: %s to %s)", ratio(b.Low), ratio(b.High))
	}
	s += fmt.Sprintf("; in the last tenth at %s.", ratio(last))
	if kinds := p.unequal(); len(kinds) > 0 {
		s += " Not like with like: unequal " + strings.Join(kinds, ", ") + "."
	}
	return s
}

// unequal names the kinds of flags that put the comparison itself in doubt.
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

// columns writes rows of a name and three figures, aligned, the figures to
// the right.
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
