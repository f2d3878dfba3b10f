package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// verdicts describes in sentences which choices matter, and which are recommended.
func (m *Matrix) verdicts() []string {
	if m.Done == 0 {
		return []string{"No run of the matrix came to its end: there is nothing to say."}
	}
	var out, unshown []string
	for _, s := range m.Shares {
		// The share may be due to the variation between repeats.
		if len(s.Of) == 1 && s.Against == "noise" && s.P != nil && *s.P >= significant {
			unshown = append(unshown, s.Name)
		}
	}
	if len(unshown) > 0 {
		out = append(out, "No effect beyond noise is shown of "+strings.Join(unshown, ", ")+".")
	}
	var strongest *Effect
	for i := range m.Effects {
		if e := &m.Effects[i]; e.Ratio != nil && (strongest == nil || e.size() > strongest.size()) {
			strongest = e
		}
	}
	if strongest != nil {
		out = append(out, strongest.text())
	}
	if rated := m.rated(); len(rated) > 1 {
		best, worst := rated[0], rated[len(rated)-1]
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

// rated returns the cells that have a rate, the fastest first.
func (m *Matrix) rated() []MatrixCell {
	return slices.DeleteFunc(slices.Clone(m.Cells), func(c MatrixCell) bool { return c.Rate == nil })
}

// size is the effect's factor, whichever level is the faster one; 0 if it is unknown.
func (e *Effect) size() float64 {
	if e.Ratio == nil {
		return 0
	}
	return max(*e.Ratio, 1 / *e.Ratio)
}

// title and subtitle describe what was measured, and where.
func (m *Matrix) title() string {
	var names []string
	for _, f := range m.Factors {
		if len(f.Levels) > 1 {
			names = append(names, f.Name)
		}
	}
	return "What matters for inserting into " + result.EngineName(m.run.Engine) + ": " + strings.Join(names, ", ")
}

func (m *Matrix) subtitle() string {
	r := m.run
	parts := []string{words(result.EngineName(r.Engine), r.ServerVersion), r.Preset}
	if r.CacheBytes > 0 {
		parts = append(parts, bytes(r.CacheBytes)+" cache")
	}
	if r.Rows > 0 {
		parts = append(parts, short(float64(r.Rows))+" rows a run")
	}
	if r.MaxTimeSeconds > 0 {
		parts = append(parts, clock(r.MaxTimeSeconds)+" at most")
	}
	for _, f := range m.Factors {
		if len(f.Levels) == 1 {
			parts = append(parts, f.Name+" "+f.Levels[0])
		}
	}
	return listed(" · ", append(parts, some(r.Machine.Cores, "core", "cores"))...)
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
		n, _ := strconv.Atoi(r.Indexes) // the level of a factor of numbers
		s += " with " + plural(n, "index", "indexes")
	}
	s += fmt.Sprintf(": %s, %s.", r.Cell, rowsRate(r.Rate))
	if r.Alike > 0 {
		s += fmt.Sprintf(" %s slower by no more than noise.", plural(r.Alike, "other cell is", "other cells are"))
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

// Document builds the report.
func (m *Matrix) Document() *Document {
	d := &Document{Title: m.title(), Subtitle: m.subtitle(), Footer: footer(m.run), Data: func() any { return m }}
	d.say(false, m.verdicts()...)
	for _, p := range m.Problems {
		d.Notes = append(d.Notes, Note{Text: p})
	}
	for _, l := range m.LeftOut {
		d.Notes = append(d.Notes, Note{Text: "left out: " + l.Factor + "=" + l.Level + ": " + l.Why})
	}
	if c := m.Baseline; c != nil {
		against := &section{Title: "Against " + c.A, Parts: []Part{flagged(c.Flags)}}
		for _, line := range c.verdict() {
			against.Parts = append(against.Parts, paragraph(line))
		}
		against.Parts = append(against.Parts, c.parts()...)
		d.add(against)
	}
	if m.Done > 0 && len(m.varied) > 0 {
		d.picture = func(PNGOptions) *picture { return &picture{Rows: []charts{m.charts()}, Lines: []string{matrixHint}} }
		d.add(&section{Title: "Rows per second of each cell", Parts: []Part{m.heat(),
			paragraph("The stronger the colour, the faster, on a logarithmic scale. Rates are geometric means of repeats.")}, In: inHTML},
			&section{Title: "Rows per second by each choice", In: inHTML, Parts: []Part{m.charts(), paragraph(matrixHint)}})
	}
	d.add(&section{Title: "What each choice does", Parts: m.effects().parts()}, &section{Title: "All cells, the fastest first", Fold: true, Parts: m.cells().parts()})
	return d
}

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

// Document builds the report of the comparison.
func (c *MatrixComparison) Document() *Document {
	d := &Document{Title: c.B + " against " + c.A, Untitled: true, Notes: flagged(c.Flags), Data: func() any { return c }}
	d.say(false, c.verdict()...)
	d.add(&section{Title: "Cells, the one that lost most first", Parts: c.parts()})
	return d
}

func (c *MatrixComparison) parts() []Part {
	out := []Part{facts{{"A", c.A}, {"B", c.B}}, c.table()}
	for _, name := range c.Unpaired {
		out = append(out, paragraph("left out: "+name))
	}
	return out
}

// matrixHint explains the charts.
const matrixHint = "A dot is the rate of a cell in rows/s, logarithmic; bars are geometric means, whose greatest ratio is the choice's effect, all else equal."

// charts plots the rates of all cells by the level of each choice that was varied, with
// a common axis. The bar is the geometric mean.
func (m *Matrix) charts() charts {
	low, high := m.extremes()
	pad := max(0.05, (high-low)*0.05)
	var out charts
	for n, f := range m.varied {
		levels := m.Factors[f].Levels
		c := &chart{Title: m.Factors[f].Name, X: scale{To: float64(len(levels))}, Y: scale{Log: true, From: math.Exp(low - pad), To: math.Exp(high + pad)},
			Width: float64(len(levels)) + 0.5, Height: 340}
		most := 0.0
		for _, e := range m.Effects {
			if e.Factor == c.Title && e.size() > most {
				most = e.size()
				c.Note = "up to " + ratio(most)
			}
		}
		for l, level := range levels {
			at := float64(l) + 0.5
			c.X.Ticks = append(c.X.Ticks, tick{at, level})
			dots := line{Style: nthStyle(n), Dots: true, Bare: true}
			for i := range m.Cells {
				if cell := &m.Cells[i]; cell.Rate != nil && cell.Levels[f] == level {
					// Multiples of the golden ratio spread the dots evenly.
					_, aside := math.Modf(float64(i) * 0.618034)
					dots.X, dots.Y = append(dots.X, at+(aside-0.5)*0.5), append(dots.Y, *cell.Rate)
					dots.Tips = append(dots.Tips, cell.Name+": "+rowsRate(*cell.Rate))
				}
			}
			if len(dots.Y) == 0 {
				continue
			}
			mean := geometricMean(dots.Y)
			c.Lines = append(c.Lines, dots, line{Style: style{colour: len(palette) - 1}, X: []float64{at - 0.32, at + 0.32}, Y: []float64{mean, mean}})
		}
		out = append(out, c)
	}
	return out
}

// A heatMap shows the rates of all cells as a table, coloured by their logarithm. The
// row names are those of the first columns.
type heatMap struct {
	Names, Columns []string
	Rows           []heatRow
}

func (*heatMap) Kind() string { return "heat" }

type heatRow struct {
	Names []string
	Cells []heatCell
}

// heatCell is one cell of the table; Heat is 0 (the slowest) to heats-1, -1 without
// a rate.
type heatCell struct {
	Text, Name string
	Heat       int
}

const (
	heats      = 10 // more shades can't be distinguished
	maxColumns = 12
)

// heat arranges the cells: the one or two choices with the strongest effect along
// the columns, so that the colours follow them, the others along the rows.
func (m *Matrix) heat() *heatMap {
	share := func(f int) float64 {
		i := slices.IndexFunc(m.Shares, func(s Share) bool { return len(s.Of) == 1 && s.Of[0] == m.Factors[f].Name })
		if i < 0 {
			return 0
		}
		return m.Shares[i].Share
	}
	strong := slices.Clone(m.varied)
	slices.SortStableFunc(strong, func(a, b int) int { return cmp.Compare(share(b), share(a)) })
	across := strong[:1]
	if len(strong) > 2 && len(m.Factors[strong[0]].Levels)*len(m.Factors[strong[1]].Levels) <= maxColumns {
		across = []int{strong[1], strong[0]}
	}
	down := slices.DeleteFunc(slices.Clone(m.varied), func(f int) bool { return slices.Contains(across, f) })
	h := &heatMap{}
	for _, f := range down {
		h.Names = append(h.Names, m.Factors[f].Name)
	}
	columns := m.combinations(across)
	for _, c := range columns {
		var names []string
		for _, f := range across {
			names = append(names, m.Factors[f].Name+" "+c[f])
		}
		h.Columns = append(h.Columns, strings.Join(names, ", "))
	}
	for _, row := range m.combinations(down) {
		var r heatRow
		for _, f := range down {
			r.Names = append(r.Names, row[f])
		}
		for _, c := range columns {
			r.Cells = append(r.Cells, m.heatCell(row, c))
		}
		if slices.ContainsFunc(r.Cells, func(c heatCell) bool { return c.Text != none }) {
			h.Rows = append(h.Rows, r)
		}
	}
	return h
}

// heatCell finds the cell with the given levels; factors that aren't varied match
// any level.
func (m *Matrix) heatCell(row, col map[int]string) heatCell {
	i := slices.IndexFunc(m.Cells, func(c MatrixCell) bool {
		return !slices.ContainsFunc(m.varied, func(f int) bool { return c.Levels[f] != cmp.Or(row[f], col[f]) })
	})
	if i < 0 {
		return heatCell{none, "not measured", -1}
	}
	c := &m.Cells[i]
	if c.Rate == nil {
		return heatCell{strings.Split(c.notes()[0], ":")[0], c.Name + ": " + strings.Join(c.notes(), "; "), -1}
	}
	heat := heats - 1
	if low, high := m.extremes(); high > low {
		heat = min(heats-1, int(heats*(math.Log(*c.Rate)-low)/(high-low)))
	}
	return heatCell{short(*c.Rate), c.Name + ": " + rowsRate(*c.Rate), heat}
}

// extremes returns the logarithms of the lowest and the highest rate.
func (m *Matrix) extremes() (low, high float64) {
	rated := m.rated()
	return math.Log(*rated[len(rated)-1].Rate), math.Log(*rated[0].Rate)
}

// combinations returns all combinations of the levels of some factors, the last
// factor varying fastest.
func (m *Matrix) combinations(factors []int) []map[int]string {
	out := []map[int]string{{}}
	for _, f := range factors {
		var next []map[int]string
		for _, c := range out {
			for _, level := range m.Factors[f].Levels {
				d := maps.Clone(c)
				d[f] = level
				next = append(next, d)
			}
		}
		out = next
	}
	return out
}
