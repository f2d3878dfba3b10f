package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

// MatrixComparisonFormat is the format of the output of MatrixComparison.JSON.
const MatrixComparisonFormat = "rowmill.matrix-comparison/1"

// A MatrixComparison compares each cell of a matrix with the same cell of an older one, at
// equal row counts. A change is judged by Student's t of the mean log ratio against the
// standard deviation of repeats: that pooled over all cells of both matrices, or the cell's
// own if it is greater. The p-values are adjusted by Holm's method: if nothing changed, the
// probability that any cell is reported as changed is at most 5%.
type MatrixComparison struct {
	Format string `json:"format"` // MatrixComparisonFormat
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
}

// A CellChange is one cell in both matrices.
type CellChange struct {
	Name string `json:"name"`
	// Runs counts the pairs of runs compared, up to Rows.
	Runs int   `json:"runs"`
	Rows int64 `json:"rows"`
	// RowsPerSecond contains medians, and the geometric mean of the pairs' ratios.
	RowsPerSecond Versus `json:"rows_per_second"`
	// P is the probability of such a change by chance, Adjusted that by Holm's method; null if
	// the noise isn't known.
	P        *float64 `json:"p"`
	Adjusted *float64 `json:"p_adjusted"`
	// Verdict is Faster or Slower if Adjusted is below 5%.
	Verdict string `json:"verdict"`
}

// significant is the accepted probability of a false alarm over all cells.
const significant = 0.05

// Against compares the matrix with an older one.
func (m *Matrix) Against(old *Matrix) (*MatrixComparison, error) {
	if old.run.Preset != m.run.Preset {
		return nil, fmt.Errorf("report: %s fills the table of preset %s, %s that of %s: their cells have nothing in common", old.Source, old.run.Preset, m.Source, m.run.Preset)
	}
	c := &MatrixComparison{Format: MatrixComparisonFormat, A: old.Source, B: m.Source, Cells: []CellChange{}, Flags: []Flag{}, Unpaired: []string{}, Verdict: Unknown}
	ka, kb := cellKeys(old, m)
	pooled := sumOfSquares{old.noise.ss + m.noise.ss, old.noise.df + m.noise.df}
	c.Freedom, c.NoiseRatio = pooled.df, known(math.Exp(math.Sqrt(pooled.variance())))
	var logs, p []float64
	seen := map[string]int{}
	for _, x := range ka {
		i := slices.IndexFunc(kb, func(y keyedCell) bool { return y.id == x.id })
		if i < 0 {
			c.Unpaired = append(c.Unpaired, "A: "+x.Name+" (no counterpart)")
			continue
		}
		y := kb[i]
		pairs, over := matched(x.runs, y.runs)
		c.Unpaired = append(c.Unpaired, over...)
		if len(pairs) == 0 {
			c.Unpaired = append(c.Unpaired, y.Name+" (no repeat of the same number in both)")
			continue
		}
		one := comparePairs(x.runs, y.runs, pairs)
		if one.RowsPerSecond.Ratio == nil {
			c.Unpaired = append(c.Unpaired, y.Name+" (the rates can't be compared)")
			continue
		}
		for _, f := range one.Flags {
			if f.Kind == "order" {
				continue // it applies to every baseline; the text mentions it once
			}
			if seen[f.Text]++; seen[f.Text] == 1 {
				c.Flags = append(c.Flags, f)
			}
		}
		c.Cells = append(c.Cells, CellChange{Name: y.Name, Runs: len(pairs), Rows: one.Rows, RowsPerSecond: one.RowsPerSecond, Verdict: Unknown})
		log := math.Log(*one.RowsPerSecond.Ratio)
		logs, p = append(logs, log), append(p, chance(log, one.Repeats, pooled))
	}
	for _, y := range kb {
		if !slices.ContainsFunc(ka, func(x keyedCell) bool { return x.id == y.id }) {
			c.Unpaired = append(c.Unpaired, "B: "+y.Name+" (no counterpart)")
		}
	}
	if len(c.Cells) == 0 {
		return c, errors.New("report: the matrices have no complete cell in common")
	}
	for i := range c.Flags {
		if n := seen[c.Flags[i].Text]; n < len(c.Cells) {
			c.Flags[i].Text += fmt.Sprintf(" (in %s of %d)", plural(n, "cell", "cells"), len(c.Cells))
		}
	}
	c.judge(logs, p)
	return c, nil
}

// chance returns the p-value of a cell's mean log ratio; NaN without noise.
func chance(log float64, repeats []Versus, pooled sumOfSquares) float64 {
	s2 := pooled.variance()
	if len(repeats) > 1 {
		var a, b []float64
		for _, r := range repeats {
			a, b = append(a, math.Log(deref(r.A))), append(b, math.Log(deref(r.B)))
		}
		_, va := meanVariance(a)
		_, vb := meanVariance(b)
		s2 = max(s2, (va+vb)/2) // NaN stays
	}
	return tailT(log/math.Sqrt(2*s2/float64(len(repeats))), pooled.df)
}

func (c *MatrixComparison) judge(logs, p []float64) {
	adjusted := holm(p)
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
	mean, _ := meanVariance(logs)
	c.Overall = known(math.Exp(mean))
	if len(logs) > 1 {
		c.Interval, _ = ratioBounds(logs, nil)
	}
	c.Verdict = verdictOf(c.Interval)
	slices.SortStableFunc(c.Cells, func(a, b CellChange) int {
		return cmp.Compare(*a.RowsPerSecond.Ratio, *b.RowsPerSecond.Ratio)
	})
}

// cellKeys returns the cells of two matrices that have a complete run, by what their runs
// did. Durability is part of that if either matrix varies it; else a difference is flagged.
func cellKeys(a, b *Matrix) (ofA, ofB []keyedCell) {
	durable := slices.ContainsFunc(slices.Concat(a.Factors, b.Factors), func(f result.Factor) bool { return f.Name == "durability" && len(f.Levels) > 1 })
	of := func(m *Matrix) (out []keyedCell) {
		for _, c := range m.Cells {
			if len(c.runs) == 0 {
				continue
			}
			r := &c.runs[0].Run
			id := fmt.Sprintf("%s %d %d %d %s", r.Method, r.Batch, r.Writers, r.Indexes, r.Layout)
			if durable {
				id += " " + r.Durability
			}
			if !slices.ContainsFunc(out, func(o keyedCell) bool { return o.id == id }) {
				out = append(out, keyedCell{id, c})
			}
		}
		return out
	}
	return of(a), of(b)
}

// A keyedCell is a cell with complete runs. Its id is common to both matrices.
type keyedCell struct {
	id string
	MatrixCell
}

// Regressions returns the cells shown to be slower by more than the threshold, a fraction,
// and whether all together are. told is false if no cell can be judged for lack of noise.
func (c *MatrixComparison) Regressions(threshold float64) (slower []CellChange, overall, told bool) {
	for _, cell := range c.Cells {
		if cell.Verdict == Slower && *cell.RowsPerSecond.Ratio < 1-threshold {
			slower = append(slower, cell)
		}
	}
	return slower, c.Verdict == Slower && deref(c.Overall) < 1-threshold, c.NoiseRatio != nil
}

// ErrNoRepeats means that the cells of a matrix can't be judged one by one.
var ErrNoRepeats = errors.New("--threshold: single cells can't be judged, because none was run twice")

// Regression describes the regressions beyond the threshold, a fraction, "" for none. A
// threshold below 0 is none.
func (c *MatrixComparison) Regression(threshold float64) (string, error) {
	if threshold < 0 {
		return "", nil
	}
	slower, overall, told := c.Regressions(threshold)
	limit := figures.Share(threshold)
	switch {
	case overall:
		return fmt.Sprintf("all cells together insert at %.3f of the rate of %s, more than %s slower", *c.Overall, c.A, limit), nil
	case len(slower) > 0:
		text := fmt.Sprintf("%s inserts at %.3f of the rate in %s, more than %s slower", slower[0].Name, *slower[0].RowsPerSecond.Ratio, c.A, limit)
		if len(slower) > 1 {
			text += fmt.Sprintf(", and %d more cells", len(slower)-1)
		}
		return text, nil
	case !told:
		return "", ErrNoRepeats
	}
	return "", nil
}

// verdict describes the outcome in sentences.
func (c *MatrixComparison) verdict() []string {
	n := plural(len(c.Cells), "cell", "cells")
	all := fmt.Sprintf("Over %s, %s runs at %s the rate of %s (geometric mean", n, c.B, ratio(deref(c.Overall)), c.A)
	if b := c.Interval; b != nil {
		all += fmt.Sprintf(", 95%% interval %s..%s, judged by how the cells differ", ratio(b.Low), ratio(b.High))
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
			"if nothing had changed, the chance that any cell is listed as changed would be at most 5%%.",
			plural(n[Faster], "cell is", "cells are"), n[Slower], percent(deref(c.NoiseRatio)-1), len(c.Cells)))
	}
	out = append(out, "The two were not made in turn: whatever else changed on the machine between them looks like a difference.")
	if text := unequal(c.Flags); text != "" {
		out = append(out, text)
	}
	return out
}

func (c *MatrixComparison) table() *table {
	t := &table{Header: []string{"cell", "A, rows/s", "B, rows/s", "B/A", "p", "p, corrected", "verdict"}}
	for _, cell := range c.Cells {
		v := cell.RowsPerSecond
		t.add(cell.Name, figure(deref(v.A)), figure(deref(v.B)), ratio(deref(v.Ratio)), chanceText(cell.P), chanceText(cell.Adjusted), cell.Verdict)
	}
	return t
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

// sameCell returns whether two cells have the same levels of all factors that vary on either
// side.
func sameCell(a, b [][]*result.Record) func(x, y *result.Run) bool {
	level := func(r *result.Run, name string) string {
		i := slices.IndexFunc(r.Cell.Factors, func(f result.Factor) bool { return f.Name == name })
		if i < 0 {
			return ""
		}
		return r.Cell.Levels[i]
	}
	valid := func(r *result.Run) bool { return r.Cell != nil && r.Cell.Valid() }
	varies := func(groups [][]*result.Record, name string) bool {
		seen := map[string]bool{}
		for _, g := range groups {
			if r := &g[0].Run; valid(r) && slices.ContainsFunc(r.Cell.Factors, func(f result.Factor) bool { return f.Name == name }) {
				seen[level(r, name)] = true
			}
		}
		return len(seen) > 1
	}
	return func(x, y *result.Run) bool {
		return valid(x) && valid(y) && x.Preset == y.Preset && !slices.ContainsFunc(x.Cell.Factors, func(f result.Factor) bool {
			return level(x, f.Name) != level(y, f.Name) && (varies(a, f.Name) || varies(b, f.Name))
		})
	}
}
