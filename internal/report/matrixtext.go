package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// verdicts describes in sentences which choices matter, and which are recommended.
func (m *Matrix) verdicts() []string {
	if len(m.recs) == 0 {
		return []string{"No run of the matrix came to its end: there is nothing to say."}
	}
	var out []string
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

// document builds the report.
func (m *Matrix) document() *Document {
	d := &Document{Title: m.title(), Subtitle: m.subtitle(), Footer: m.footer(), Data: m}
	d.say(false, m.verdicts()...)
	for _, p := range m.Problems {
		d.Notes = append(d.Notes, Note{Text: p})
	}
	for _, l := range m.LeftOut {
		d.Notes = append(d.Notes, Note{Text: "left out: " + l.Factor + "=" + l.Level + ": " + l.Why})
	}
	if c := m.Baseline; c != nil {
		d.add(&section{Title: "Against " + c.A, Parts: c.parts()})
	}
	d.add(&section{Title: "What each choice does", Parts: m.effects().some()}, &section{Title: "All cells, the fastest first", Fold: true, Parts: m.cells().some()})
	return d
}

// Text, Markdown, JSON, HTML and PNG write the report.
func (m *Matrix) Text(w io.Writer) error { return m.document().Text(w) }

func (m *Matrix) Markdown(w io.Writer) error { return m.document().Markdown(w) }

func (m *Matrix) JSON(w io.Writer) error { return m.document().JSON(w) }

// effects returns the table of what each choice does.
func (m *Matrix) effects() *table {
	t := &table{Header: []string{"choice", "against", "ratio", "least", "most", "cells compared"},
		Note: "Ratio is the geometric mean, all else equal; least and most are of two cells that differ in nothing else."}
	for _, e := range m.Effects {
		t.add(e.Factor+" "+e.Level, e.Base, ratio(deref(e.Ratio)), ratio(deref(e.Low)), ratio(deref(e.High)), fmt.Sprint(e.Pairs))
	}
	return t
}

func (m *Matrix) cells() *table {
	t := &table{Header: []string{"cell", "rows/s", "of the best", "runs", "slowest", "fastest", ""}}
	for _, c := range m.Cells {
		row := []string{c.Name, none, none, fmt.Sprint(len(c.Rates)), "", "", strings.Join(c.notes(), "; ")}
		if c.Rate != nil {
			row[1], row[2] = figure(*c.Rate), percent(*c.Rate / *m.Cells[0].Rate)
		}
		if len(c.Rates) > 1 {
			row[4], row[5] = figure(slices.Min(c.Rates)), figure(slices.Max(c.Rates))
		}
		t.add(row...)
	}
	return t
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

// document builds the report of the comparison.
func (c *MatrixComparison) document() *Document {
	return &Document{Title: c.B + " against " + c.A, Untitled: true, Parts: c.parts(), Data: c}
}

// parts returns the outcome, what makes it doubtful, and the cells.
func (c *MatrixComparison) parts() []Part {
	out := []Part{facts{{"A", c.A}, {"B", c.B}}}
	var doubts notes
	for _, f := range c.Flags {
		doubts = append(doubts, Note{Text: f.Text})
	}
	out = append(out, doubts)
	for _, line := range c.verdict() {
		out = append(out, paragraph(line))
	}
	inner := &section{Title: "Cells, the one that lost most first", Parts: []Part{c.table()}}
	for _, name := range c.Unpaired {
		inner.Parts = append(inner.Parts, paragraph("left out: "+name))
	}
	return append(out, inner)
}

// Text and JSON write the comparison.
func (c *MatrixComparison) Text(w io.Writer) error { return c.document().Text(w) }

func (c *MatrixComparison) JSON(w io.Writer) error { return c.document().JSON(w) }
