package report

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rowmill/rowmill/result"
)

// A matrixTable is one table of the report, common to text, Markdown and HTML.
type matrixTable struct {
	Title, Note string
	Header      []string
	Rows        [][]string
}

// verdicts describes in sentences which choices matter, and which are recommended.
func (m *Matrix) verdicts() []string {
	if len(m.recs) == 0 {
		return []string{"No run of the matrix came to its end: there is nothing to say."}
	}
	var out []string
	var mains, pairs []string
	noise := ""
	for _, s := range m.Shares {
		part := fmt.Sprintf("%s %s", s.Name, shareText(s.Share))
		switch {
		case len(s.Of) == 1:
			mains = append(mains, part)
		case len(s.Of) == 2 && s.Share >= 0.02 && len(pairs) < 3:
			pairs = append(pairs, part)
		case strings.Contains(s.Name, "noise"):
			noise = shareText(s.Share)
		}
	}
	if len(mains) > 0 {
		text := "Of the variance of the rate's logarithm the choices explain: " + strings.Join(mains, ", ")
		if len(pairs) > 0 {
			text += "; two together beyond that: " + strings.Join(pairs, ", ")
		}
		if m.NoiseRatio != nil {
			text += "; noise is " + noise
		}
		out = append(out, text+".")
	}
	if names := m.unshown(); len(names) > 0 {
		out = append(out, "No effect beyond noise is shown of "+strings.Join(names, ", ")+".")
	}
	if e := m.strongest(); e != nil {
		out = append(out, e.text())
	}
	if best, worst := m.ends(); best != nil && worst != nil {
		out = append(out, fmt.Sprintf("Best is %s with %s, worst %s with %s: %s apart.", best.Name, rowsRate(*best.Rate), worst.Name, rowsRate(*worst.Rate), ratio(*best.Rate / *worst.Rate)))
	}
	for _, r := range m.Recommended {
		out = append(out, r.text(len(m.Recommended) > 1))
	}
	if m.NoiseRatio != nil {
		out = append(out, fmt.Sprintf("Repeats of a cell differ by %s (standard deviation over all cells).", percent(*m.NoiseRatio-1)))
	}
	return out
}

// unshown returns the choices whose share may be due to the variation between
// repeats.
func (m *Matrix) unshown() []string {
	var out []string
	for _, s := range m.Shares {
		if len(s.Of) == 1 && s.Against == "noise" && s.P != nil && *s.P >= significant {
			out = append(out, s.Name)
		}
	}
	return out
}

// ends returns the fastest and the slowest cell; nil if there is only one.
func (m *Matrix) ends() (best, worst *MatrixCell) {
	n := 0
	for i := range m.Cells {
		if m.Cells[i].Rate != nil {
			n++
			worst = &m.Cells[i]
		}
	}
	if n < 2 {
		return nil, nil
	}
	return &m.Cells[0], worst
}

// strongest returns the effect that changes the rate most.
func (m *Matrix) strongest() *Effect {
	var out *Effect
	size := func(e *Effect) float64 { return max(*e.Ratio, 1 / *e.Ratio) }
	for i := range m.Effects {
		if e := &m.Effects[i]; e.Ratio != nil && (out == nil || size(e) > size(out)) {
			out = e
		}
	}
	return out
}

func (e *Effect) text() string {
	s := fmt.Sprintf("%s %s is %s %s %s, all else equal (geometric mean", e.Factor, e.Level, ratio(deref(e.Ratio)), e.Factor, e.Base)
	if e.Pairs > 1 {
		s += fmt.Sprintf("; %s to %s from cell to cell", ratio(*e.Low), ratio(*e.High))
	}
	return sentence(s + ")")
}

func (r *Recommendation) text(several bool) string {
	s := "Recommended"
	if several {
		s += " with " + indexesText(r.Indexes)
	}
	s += fmt.Sprintf(": %s, %s.", r.Cell, rowsRate(r.Rate))
	if r.Alike > 0 {
		s += fmt.Sprintf(" %s slower by no more than noise.", plural(int64(r.Alike), "other cell is", "other cells are"))
	}
	if r.Gain != nil {
		s += fmt.Sprintf(" With durability %s the same runs at %s of that", r.Weaker, ratio(*r.Gain))
		if r.CheapestGain != nil && *r.CheapestGain < cheaper**r.Gain {
			s += fmt.Sprintf("; full durability costs least (%s) with %s", ratio(*r.CheapestGain), r.Cheapest)
		}
		s += "."
	}
	return s
}

// cheaper is the ratio of two gains below which the text treats them as different:
// runs vary by up to a tenth.
const cheaper = 0.9

func indexesText(n string) string {
	if n == "1" {
		return "1 index"
	}
	return n + " indexes"
}

// shareText formats a share of the variance; below a thousandth the digits are
// meaningless.
func shareText(f float64) string {
	if f >= 0 && f < 0.001 {
		return "<0.1%"
	}
	return percent(f)
}

// tables returns the tables of the report, in order.
func (m *Matrix) tables() []matrixTable {
	var out []matrixTable
	if len(m.Shares) > 0 {
		t := matrixTable{Title: "Which choices matter", Header: []string{"choice", "share of variance", "degrees of freedom", "F", "p"},
			Note: "Sums of squares of the logarithm of the rate (type II) over their total: eta squared. p is the chance of such a share without a cause, against the noise of repeats, or without them against what is left. What is shared, where cells are missing, can't be told apart."}
		for _, s := range m.Shares {
			df, f := none, none
			if s.DF > 0 {
				df = fmt.Sprint(s.DF)
			}
			if s.F != nil {
				f = figure(*s.F)
			}
			t.Rows = append(t.Rows, []string{s.Name, shareText(s.Share), df, f, chanceText(s.P)})
		}
		out = append(out, t)
	}
	if len(m.Effects) > 0 {
		t := matrixTable{Title: "What each choice does", Header: []string{"choice", "against", "ratio", "least", "most", "cells compared"},
			Note: "Ratio is the geometric mean, all else equal; least and most are of two cells that differ in nothing else."}
		for _, e := range m.Effects {
			t.Rows = append(t.Rows, []string{e.Factor + " " + e.Level, e.Base, ratio(deref(e.Ratio)), ratio(deref(e.Low)), ratio(deref(e.High)), fmt.Sprint(e.Pairs)})
		}
		out = append(out, t)
	}
	t := matrixTable{Title: "All cells, the fastest first", Header: []string{"cell", "rows/s", "of the best", "runs", "slowest", "fastest", ""}}
	for _, c := range m.Cells {
		row := []string{c.Name, none, none, fmt.Sprint(len(c.Rates)), none, none, strings.Join(c.notes(), "; ")}
		if c.Rate != nil {
			row[1], row[2] = figure(*c.Rate), percent(*c.Rate / *m.Cells[0].Rate)
		}
		if len(c.Rates) > 1 {
			row[4], row[5] = figure(slices.Min(c.Rates)), figure(slices.Max(c.Rates))
		}
		t.Rows = append(t.Rows, row)
	}
	return append(out, t)
}

// notes returns the peculiarities of a cell.
func (c *MatrixCell) notes() []string {
	var out []string
	for i, f := range c.Failures {
		if !slices.Contains(c.Failures[:i], f) {
			out = append(out, "failed: "+f)
		}
	}
	if c.ClientBound {
		out = append(out, "limited by rowmill")
	}
	if c.Rate == nil && len(out) == 0 {
		out = append(out, "not complete")
	}
	return out
}

// problems returns the matrix's problems and the levels left out.
func (m *Matrix) problems() []string {
	out := slices.Clone(m.Problems)
	for _, l := range m.LeftOut {
		out = append(out, leftOutText(l))
	}
	return out
}

func leftOutText(l result.LeftOut) string {
	return "left out: " + l.Factor + "=" + l.Level + ": " + l.Why
}

// Text writes the report as text.
func (m *Matrix) Text(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, oneLine(m.title()))
	wrapped(out, "", "  ", m.subtitle())
	fmt.Fprintln(out)
	for _, line := range m.verdicts() {
		wrapped(out, "", "  ", line)
	}
	for _, p := range m.problems() {
		wrapped(out, "! ", "  ", p)
	}
	for _, t := range m.tables() {
		fmt.Fprintf(out, "\n%s\n", t.Title)
		aligned(out, t.Header, t.Rows)
	}
	if m.Baseline != nil {
		fmt.Fprintln(out)
		m.Baseline.text(out)
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write text report: %w", err)
	}
	return nil
}

// Text writes the comparison as text.
func (c *MatrixComparison) Text(w io.Writer) error {
	out := bufio.NewWriter(w)
	c.text(out)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write comparison: %w", err)
	}
	return nil
}

func (c *MatrixComparison) text(w io.Writer) {
	wrapped(w, "A  ", "   ", c.A)
	wrapped(w, "B  ", "   ", c.B)
	fmt.Fprintln(w)
	for _, f := range c.Flags {
		wrapped(w, "  ! ", "    ", f.Text)
	}
	for _, line := range c.verdict() {
		wrapped(w, "", "  ", line)
	}
	fmt.Fprintf(w, "\nCells, the one that lost most first\n")
	aligned(w, c.header(), c.rows())
	for _, name := range c.Unpaired {
		wrapped(w, "left out: ", "  ", name)
	}
}

// JSON writes the comparison as indented JSON.
func (c *MatrixComparison) JSON(w io.Writer) error { return writeJSON(w, c) }

// aligned writes a table with left-aligned text in the first and last column and
// right-aligned figures between them.
func aligned(w io.Writer, header []string, rows [][]string) {
	width := make([]int, len(header))
	for _, r := range append([][]string{header}, rows...) {
		for i, cell := range r {
			width[i] = max(width[i], utf8.RuneCountInString(oneLine(cell)))
		}
	}
	for _, r := range append([][]string{header}, rows...) {
		var b strings.Builder
		for i, cell := range r {
			cell = oneLine(cell)
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			words := i == len(r)-1 && (header[i] == "" || header[i] == "verdict")
			switch {
			case i == 0:
				b.WriteString("  " + cell + pad)
			case words:
				b.WriteString("   " + cell)
			default:
				b.WriteString("   " + pad + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	}
}

// Markdown writes the content of Text as tables.
func (m *Matrix) Markdown(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "# %s\n\n%s\n\n", markdownText(m.title()), markdownText(m.subtitle()))
	for _, line := range m.verdicts() {
		fmt.Fprintf(out, "%s\n\n", markdownText(line))
	}
	for _, p := range m.problems() {
		fmt.Fprintf(out, "- %s\n", markdownText(p))
	}
	for _, t := range m.tables() {
		fmt.Fprintf(out, "\n## %s\n\n", t.Title)
		markdownTable(out, t.Header, t.Rows)
		if t.Note != "" {
			fmt.Fprintf(out, "\n%s\n", markdownText(t.Note))
		}
	}
	if c := m.Baseline; c != nil {
		fmt.Fprintf(out, "\n## Against %s\n\n", markdownText(c.A))
		for _, line := range c.verdict() {
			fmt.Fprintf(out, "%s\n\n", markdownText(line))
		}
		for _, f := range c.Flags {
			fmt.Fprintf(out, "- %s\n", markdownText(f.Text))
		}
		fmt.Fprintln(out)
		markdownTable(out, c.header(), c.rows())
		for _, name := range c.Unpaired {
			fmt.Fprintf(out, "\nLeft out: %s\n", markdownText(name))
		}
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write Markdown report: %w", err)
	}
	return nil
}
