package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// GridComparisonFormat is the format of the output of GridComparison.JSON.
const GridComparisonFormat = "rowmill.grid-comparison/1"

// Compared is a comparison of two records: of runs at equal row counts, or of an experiment's cells.
type Compared interface {
	Document() *Document
	// Regression describes the regressions beyond the threshold, a fraction, "" for none. A threshold below 0 is none.
	// The error Unjudged says that the runs can't be judged by it.
	Regression(threshold float64) (string, error)
}

// Compare compares two records as their family is compared: the cells of experiments with the same cells, others at equal
// row counts, and so are two single cells.
func Compare(a, b []result.Record) (Compared, error) {
	fa, err := familyOf(a)
	if err != nil {
		return nil, err
	}
	fb, err := familyOf(b)
	switch {
	case err != nil:
		return nil, err
	case fa.name != fb.name && (fa.alone || fb.alone):
		return nil, fmt.Errorf("compare %s, which holds %s, with %s, which holds %s: they have nothing in common", a[0].Source, fa.name, b[0].Source, fb.name)
	case fa.name != fb.name || fa.cells == nil:
		return NewComparison(a, b)
	}
	x, err := fa.cells(a)
	if err != nil {
		return nil, err
	}
	y, err := fb.cells(b)
	if err != nil {
		return nil, err
	}
	if !fa.alone && len(x.cells) == 1 && len(y.cells) == 1 {
		return NewComparison(a, b)
	}
	return compareCells(x, y)
}

// A GridComparison compares each cell of a grid with the same cell of an older one. A change is judged by Student's t of
// the mean log ratio against the standard deviation of repeats: that pooled over all cells of both, or the cell's own if
// it is greater. The p-values are adjusted by Holm's method: if nothing changed, the probability that any cell is
// reported as changed is at most 5%.
type GridComparison struct {
	Format string `json:"format"` // GridComparisonFormat
	A      string `json:"a"`      // the files
	B      string `json:"b"`
	// Cells are the cells that both have, the largest loss first.
	Cells []CellChange `json:"cells"`
	// Overall is the geometric mean of the cells' ratios, Interval its 95% confidence interval,
	// based on how these vary.
	Overall  *float64 `json:"ratio"`
	Interval *Bounds  `json:"ratio_95"`
	Verdict  string   `json:"verdict"`
	// NoiseRatio is e to the power of the pooled standard deviation of repeats, with Freedom
	// degrees of freedom; null and 0 without repeats, when single cells can't be judged.
	NoiseRatio *float64 `json:"noise_ratio"`
	Freedom    int      `json:"degrees_of_freedom"`
	// Flags contains the flags of all cells, each once.
	Flags []Flag `json:"flags"`
	// Unpaired lists the cells and runs left out, with the reason.
	Unpaired []string `json:"unpaired"`

	unit string // of all cells; "" if their names have it
}

// A CellChange is one figure of a cell in both grids. A and B are medians in Unit; the ratio is the geometric mean of
// those of the pairs of runs, above 1 if B is the better one, and Interval its 95% interval, from how they differ.
type CellChange struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Runs counts the pairs of runs compared, up to Rows for the cells of a matrix.
	Runs int   `json:"runs"`
	Rows int64 `json:"rows,omitempty"`
	Versus
	Interval *Bounds `json:"ratio_95"`
	// P is the probability of such a change by chance, Adjusted that by Holm's method; null if
	// the noise isn't known.
	P        *float64 `json:"p"`
	Adjusted *float64 `json:"p_adjusted"`
	// Verdict is Faster or Slower if Adjusted is below 5%.
	Verdict string `json:"verdict"`

	format func(float64) string
}

// significant is the accepted probability of a false alarm over all cells.
const significant = 0.05

// A gridSide is one side of a comparison of cells.
type gridSide struct {
	source, preset, unit string
	factors              []result.Factor
	// free reports whether a factor is ignored if neither side varies it; the difference is flagged.
	free  func(factor int) bool
	cells []comparedCell
	noise statistics.SumOfSquares
}

// A comparedCell is a figure of a cell.
type comparedCell struct {
	name   string
	levels []string
	runs   []*result.Record
	measure
	figure func(r *result.Record) float64 // nil: the mean rate at equal row counts
}

// varies reports whether a factor identifies cells.
func (s *gridSide) varies(f int) bool {
	return !s.free(f) || slices.ContainsFunc(s.cells, func(c comparedCell) bool { return c.levels[f] != s.cells[0].levels[f] })
}

// ids identify the cells of both sides: by the levels of the factors that either varies.
func (s *gridSide) ids(other *gridSide) (out []string) {
	for _, c := range s.cells {
		id := c.key
		for f, factor := range s.factors {
			g := slices.IndexFunc(other.factors, func(o result.Factor) bool { return o.Name == factor.Name })
			if s.varies(f) || g >= 0 && other.varies(g) {
				id += "\x00" + factor.Name + "=" + c.levels[f]
			}
		}
		out = append(out, id)
	}
	return out
}

// side returns the projection's figures to compare.
func (p *projection) side() gridSide {
	out := gridSide{source: p.recs[0].Source, factors: p.factors, free: func(f int) bool { return f == p.servers }}
	for _, s := range p.panels() {
		for k, m := range s.measures {
			if !m.compared {
				continue
			}
			noise := statistics.WithinCells(p.observations(k, func(c *gridCell) bool { return c.levels[0] == s.name }))
			out.noise.SS, out.noise.DF = out.noise.SS+noise.SS, out.noise.DF+noise.DF
			for _, c := range p.cells {
				if c.levels[0] == s.name && !math.IsNaN(c.middle(k)) {
					out.cells = append(out.cells, comparedCell{listed(", ", p.name(c), m.name), c.levels, c.records(), m, func(r *result.Record) float64 { return c.figureOf(r, k) }})
				}
			}
		}
	}
	return out
}

// compareCells compares the cells of b with those of a, the older.
func compareCells(a, b gridSide) (*GridComparison, error) {
	if a.preset != b.preset {
		return nil, fmt.Errorf("report: %s fills the table of preset %s, %s that of %s: their cells have nothing in common", a.source, a.preset, b.source, b.preset)
	}
	c := &GridComparison{Format: GridComparisonFormat, A: a.source, B: b.source, Cells: []CellChange{}, Flags: []Flag{}, Unpaired: []string{}, Verdict: Unknown, unit: a.unit}
	pooled := statistics.SumOfSquares{SS: a.noise.SS + b.noise.SS, DF: a.noise.DF + b.noise.DF}
	c.Freedom, c.NoiseRatio = pooled.DF, known(math.Exp(math.Sqrt(pooled.Variance())))
	var logs, p []float64
	seen := map[string]int{}
	ofA, ofB := a.ids(&b), b.ids(&a)
	for n, x := range a.cells {
		i := slices.Index(ofB, ofA[n])
		if i < 0 {
			c.Unpaired = append(c.Unpaired, "A: "+x.name+" (no counterpart)")
			continue
		}
		y := b.cells[i]
		pairs, over := matched(x.runs, y.runs)
		c.Unpaired = append(c.Unpaired, over...)
		if len(pairs) == 0 {
			c.Unpaired = append(c.Unpaired, y.name+" (no repeat of the same number in both)")
			continue
		}
		one, flags, rows := y.against(&x, pairs)
		if one == nil || one.Ratio == nil {
			c.Unpaired = append(c.Unpaired, y.name+" (they can't be compared)")
			continue
		}
		for _, f := range flags {
			if f.Kind == "order" {
				continue // it applies to every baseline; the text mentions it once
			}
			if seen[f.Text]++; seen[f.Text] == 1 {
				c.Flags = append(c.Flags, f)
			}
		}
		c.Cells = append(c.Cells, CellChange{Name: y.name, Unit: y.key, Runs: len(one.Repeats), Rows: rows, Versus: one.Versus, Interval: one.Interval, Verdict: Unknown, format: y.text})
		log := math.Log(*one.Ratio)
		logs, p = append(logs, log), append(p, chance(log, one.Repeats, pooled))
	}
	for i, y := range b.cells {
		if !slices.Contains(ofA, ofB[i]) {
			c.Unpaired = append(c.Unpaired, "B: "+y.name+" (no counterpart)")
		}
	}
	if len(c.Cells) == 0 {
		return nil, fmt.Errorf("report: %s and %s have no complete cell in common", a.source, b.source)
	}
	for i := range c.Flags {
		if n := seen[c.Flags[i].Text]; n < len(c.Cells) {
			c.Flags[i].Text += fmt.Sprintf(" (in %s of %d)", plural(n, "cell", "cells"), len(c.Cells))
		}
	}
	c.judge(logs, p)
	return c, nil
}

// against compares the pairs of runs, of x on side A.
func (y *comparedCell) against(x *comparedCell, pairs [][2]*result.Record) (*change, []Flag, int64) {
	if y.figure == nil {
		p := comparePairs(x.runs, y.runs, pairs)
		out := &change{Versus: p.RowsPerSecond, Repeats: p.Repeats}
		if p.IntervalFrom == statistics.BetweenRuns {
			out.Interval = p.Interval
		}
		return out, p.Flags, p.Rows
	}
	one := changed(pairs, func(side int, r *result.Record) float64 { return []*comparedCell{x, y}[side].figure(r) }, y.smaller)
	a, b := pairs[0][0], pairs[0][1]
	found := flags(a, b, a.Summary(), b.Summary())
	found = slices.DeleteFunc(found, func(f Flag) bool {
		return f.Kind == "verified" && a.Run.Speed != nil && f.A == f.B && f.A == "not verified" // selects insert nothing
	})
	if ta, tb := tableOf(&a.Run), tableOf(&b.Run); ta != tb {
		found = append(found, Flag{Kind: "workload", What: "table", A: ta, B: tb, Text: "different tables, rows or durations: " + ta + " against " + tb})
	}
	return one, found, 0
}

// chance returns the p-value of a cell's mean log ratio; NaN without noise.
func chance(log float64, repeats []Versus, pooled statistics.SumOfSquares) float64 {
	s2 := pooled.Variance()
	if len(repeats) > 1 {
		var a, b []float64
		for _, r := range repeats {
			a, b = append(a, math.Log(deref(r.A))), append(b, math.Log(deref(r.B)))
		}
		_, va := statistics.MeanVariance(a)
		_, vb := statistics.MeanVariance(b)
		s2 = max(s2, (va+vb)/2) // NaN stays
	}
	return statistics.TailT(log/math.Sqrt(2*s2/float64(len(repeats))), pooled.DF)
}

// judge fills in the verdicts, of the logarithms of the ratios and their p-values.
func (c *GridComparison) judge(logs, p []float64) {
	adjusted := statistics.Holm(p)
	for i := range c.Cells {
		cell := &c.Cells[i]
		cell.P, cell.Adjusted = known(p[i]), known(adjusted[i])
		switch {
		case cell.Adjusted == nil:
		case *cell.Adjusted >= significant:
			cell.Verdict = NoDifference
		case logs[i] < 0:
			cell.Verdict = Slower
		default:
			cell.Verdict = Faster
		}
	}
	mean, _ := statistics.MeanVariance(logs)
	c.Overall = known(math.Exp(mean))
	if c.Interval = c.Cells[0].Interval; len(logs) > 1 {
		c.Interval, _ = statistics.RatioBounds(logs, nil)
	}
	c.Verdict = verdictOf(c.Interval)
	slices.SortStableFunc(c.Cells, func(a, b CellChange) int {
		return cmp.Compare(*a.Versus.Ratio, *b.Versus.Ratio)
	})
}

// Regression describes the cells that are shown to be slower by more than the threshold, and whether all together are.
func (c *GridComparison) Regression(threshold float64) (string, error) {
	if threshold < 0 {
		return "", nil
	}
	limit := figures.Share(threshold)
	if overall := deref(c.Overall); c.Verdict == Slower && overall < 1-threshold {
		return fmt.Sprintf("all cells together run at %.3f of the rate of %s, more than %s slower", overall, c.A, limit), nil
	}
	var shown, untold []CellChange
	for _, cell := range c.Cells {
		switch r := *cell.Ratio; {
		case cell.Verdict == Slower && r < 1-threshold:
			shown = append(shown, cell)
		case cell.Verdict == NoDifference && r < min(1-threshold, keptFlatness):
			untold = append(untold, cell)
		}
	}
	more := func(n int) string {
		if n > 1 {
			return ", and " + plural(n-1, "more cell", "more cells")
		}
		return ""
	}
	switch {
	case len(shown) > 0:
		return fmt.Sprintf("%s runs at %.3f of the rate in %s, more than %s slower%s", shown[0].Name, *shown[0].Ratio, c.A, limit, more(len(shown))), nil
	case c.NoiseRatio == nil:
		return "", &Unjudged{"single cells can't be judged, because none was run twice", "--repeat 3"}
	case len(untold) > 0:
		return "", &Unjudged{fmt.Sprintf("%s can't be judged: it runs at %s the rate in %s, but repeats differ by %s%s", untold[0].Name, ratio(*untold[0].Ratio), c.A,
			percent(*c.NoiseRatio-1), more(len(untold))), "more repeats, --repeat 5"}
	}
	return "", nil
}

// verdict describes the outcome in sentences.
func (c *GridComparison) verdict() []string {
	n := plural(len(c.Cells), "cell", "cells")
	all := fmt.Sprintf("Over %s, %s runs at %s the rate of %s (geometric mean", n, c.B, ratio(deref(c.Overall)), c.A)
	if b := c.Interval; b != nil {
		all += fmt.Sprintf(", 95%% interval %s..%s, judged by how the %s differ", ratio(b.Low), ratio(b.High), map[bool]string{true: "cells", false: "runs"}[len(c.Cells) > 1])
	}
	all += "): " + map[string]string{Unknown: "too little to tell a difference", NoDifference: NoDifference, Faster: "faster", Slower: "slower"}[c.Verdict] + "."
	out := []string{all}
	if c.NoiseRatio == nil {
		out = append(out, "Single cells can't be judged: no cell of either was run twice, so the noise isn't known; --repeat 3 tells.")
	} else {
		n := map[string]int{}
		for _, cell := range c.Cells {
			n[cell.Verdict]++
		}
		out = append(out, fmt.Sprintf("Beyond noise, %s faster and %d slower. Repeats differ by %s; Student's t for each cell, with Holm's correction for testing %d: "+
			"if nothing had changed, the chance that any cell is listed as changed would be at most 5%%. Intervals are those of each cell alone.",
			plural(n[Faster], "cell is", "cells are"), n[Slower], percent(deref(c.NoiseRatio)-1), len(c.Cells)))
	}
	if c.A != c.B {
		out = append(out, "The two were not made in turn: whatever else changed on the machine between them looks like a difference.")
	}
	if text := unequal(c.Flags); text != "" {
		out = append(out, text)
	}
	return out
}

// Document builds the report of the comparison.
func (c *GridComparison) Document() *Document {
	d := &Document{Title: c.B + " against " + c.A, Untitled: true, Notes: flagged(c.Flags), sheet: c.sheet, Data: func() any { return c }}
	d.say(false, c.verdict()...)
	d.add(&section{Title: "Cells, the one that lost most first", Parts: c.parts()})
	return d
}

func (c *GridComparison) parts() []Part {
	unit := ""
	if c.unit != "" {
		unit = ", " + c.unit
	}
	t := &table{Header: []string{"cell", "A" + unit, "B" + unit, "B/A", "95% interval", "p", "p, corrected", "verdict"}}
	for _, cell := range c.Cells {
		interval := ""
		if b := cell.Interval; b != nil {
			interval = ratio(b.Low) + ".." + ratio(b.High)
		}
		t.add(cell.Name, cell.format(deref(cell.A)), cell.format(deref(cell.B)), ratio(*cell.Ratio), interval, chanceText(cell.P), chanceText(cell.Adjusted), cell.Verdict)
	}
	out := []Part{facts{{"A", c.A}, {"B", c.B}}, t}
	for _, name := range c.Unpaired {
		out = append(out, paragraph("left out: "+name))
	}
	return out
}

func chanceText(p *float64) string {
	switch {
	case p == nil:
		return none
	case *p < 0.001:
		return "<0.001"
	}
	return fmt.Sprintf("%.3f", *p)
}
