package report

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// ComparisonFormat is the format of the output of Comparison.JSON.
const ComparisonFormat = "rowmill.comparison/3"

// A Comparison compares each cell of an experiment, or each configuration of runs, with its
// counterpart in another record.
//
// A cell is judged by Student's t: the mean of the log ratios of its repeats, against their
// standard deviation. This is the deviation pooled over all cells, or the cell's own if that is
// greater. The p-values are adjusted by Holm's method: if nothing changed, the probability that any
// cell is called changed is at most 5%. Configurations are judged by the intervals of their ratios.
type Comparison struct {
	Format string `json:"format"` // ComparisonFormat
	A      string `json:"a"`      // the names of the files
	B      string `json:"b"`
	// Cells are the cells that both records have, the largest loss first.
	Cells []CellChange `json:"cells"`
	// Overall is the geometric mean of the ratios of all cells. Interval is the 95% confidence
	// interval of Overall, computed from how much these ratios vary.
	Overall  *float64           `json:"ratio"`
	Interval *statistics.Bounds `json:"ratio_95"`
	Verdict  string             `json:"verdict"`
	// NoiseRatio is e to the power of the standard deviation of repeats, pooled over the cells;
	// Freedom are its degrees of freedom. For configurations, and for cells without repeats,
	// NoiseRatio is null and Freedom 0. Single cells without repeats aren't judged.
	NoiseRatio *float64 `json:"noise_ratio"`
	Freedom    int      `json:"degrees_of_freedom"`
	// Flags lists what makes cells hard to compare, each once.
	Flags []Flag `json:"flags"`
	// Unpaired lists the cells and runs left out, with the reason.
	Unpaired []string `json:"unpaired"`

	names    []string // the shortest names that distinguish the files
	detailed bool     // configurations are compared, each with a chart and a table of figures
}

// A CellChange compares one figure, in Unit, between the cell Name in B and the cell Against in A.
type CellChange struct {
	Name    string `json:"name"`
	Against string `json:"against"`
	Unit    string `json:"unit"`
	// Rows is the row count up to which runs are compared; 0 means that whole runs are compared.
	Rows int64 `json:"rows,omitempty"`
	statistics.Change
	// P is the probability that chance alone makes such a change, Adjusted is P after Holm's method.
	// The verdict follows from Adjusted or, without repeats, when both are null, from the interval.
	P        *float64 `json:"p"`
	Adjusted *float64 `json:"p_adjusted"`
	// LastTenth compares the rates over the last tenth of the rows. Figures has all figures of a
	// configuration: rates, latencies, stalls and errors up to Rows rows, and the bytes and the CPU
	// time per row of whole runs.
	LastTenth *statistics.Change `json:"last_tenth,omitempty"`
	Figures   []PairFigure       `json:"figures,omitempty"`

	format func(float64) string
	pairs  [][2]view
}

// significant is the accepted probability of a false alarm over all cells.
const significant = 0.05

// A gridSide is one side of a comparison of cells.
type gridSide struct {
	source, preset string
	factors        []result.Factor
	cells          []comparedCell
	noise          statistics.SumOfSquares
	detailed       bool
}

// A comparedCell is a cell with the figure to compare.
type comparedCell struct {
	name   string
	levels []string
	runs   []*result.Record
	measure
	figure func(r *result.Record) float64 // nil: the mean rate at equal row counts
}

// varied returns the factors in which the cells of a side differ.
func (s *gridSide) varied() (out []string) {
	for f, factor := range s.factors {
		if slices.ContainsFunc(s.cells, func(c comparedCell) bool { return c.levels[f] != s.cells[0].levels[f] }) {
			out = append(out, factor.Name)
		}
	}
	return out
}

// ids returns an id of each cell; cells of two sides with the same id are a pair. An id has the
// cell's levels of the factors that either side varies, and a number, by which cells with the same
// levels differ.
func (s *gridSide) ids(other *gridSide) (out []string) {
	varied, seen := append(s.varied(), other.varied()...), map[string]int{}
	for _, c := range s.cells {
		id := c.key
		for f, factor := range s.factors {
			if slices.Contains(varied, factor.Name) {
				id += "\x00" + factor.Name + "=" + c.levels[f]
			}
		}
		seen[id]++
		out = append(out, id+"\x00"+strconv.Itoa(seen[id]))
	}
	return out
}

// side returns the projection's figures to compare.
func (p *projection) side() gridSide {
	out := gridSide{source: p.recs[0].Source, factors: p.factors}
	for _, s := range p.panels() {
		for k, m := range s.measures {
			if !m.compared {
				continue
			}
			noise := statistics.WithinCells(p.observations(k, func(c *gridCell) bool { return c.levels[0] == s.name }))
			out.noise.SS, out.noise.DF = out.noise.SS+noise.SS, out.noise.DF+noise.DF
			for _, c := range p.cells {
				if c.levels[0] == s.name && !math.IsNaN(c.middle(k)) {
					out.cells = append(out.cells, comparedCell{document.Listed(", ", p.name(c), m.name), c.levels, c.records(), m,
						func(r *result.Record) float64 { return c.figureOf(r, k) }})
				}
			}
		}
	}
	return out
}

// Compare compares record b with the older record a. If both are of one family of experiments, it
// compares them cell by cell; otherwise it compares their runs, up to equal numbers of rows.
func Compare(a, b []result.Record) (*Comparison, error) {
	fa, err := familyOf(a)
	fb, errB := familyOf(b)
	if err = cmp.Or(err, errB); err != nil {
		return nil, err
	}
	if fa.name != fb.name {
		if fa.alone || fb.alone {
			return nil, fmt.Errorf("compare %s, which holds %s, with %s, which holds %s: they have nothing in common", a[0].Source, fa.name, b[0].Source, fb.name)
		}
		fa, fb = runsFamily, runsFamily
	}
	x, err := fa.layOut(a)
	if err != nil {
		return nil, err
	}
	y, err := fb.layOut(b)
	if err != nil {
		return nil, err
	}
	return compareCells(x.side(), y.side())
}

// compareCells compares the cells of b with the cells of the older side a.
func compareCells(a, b gridSide) (*Comparison, error) {
	if a.preset != b.preset {
		return nil, fmt.Errorf("report: %s fills the table of preset %s, %s that of %s: their cells have nothing in common", a.source, a.preset, b.source, b.preset)
	}
	c := &Comparison{Format: ComparisonFormat, A: a.source, B: b.source, names: shortest(a.source, b.source), detailed: a.detailed && b.detailed,
		Cells: []CellChange{}, Flags: []Flag{}, Unpaired: []string{}}
	pooled := statistics.SumOfSquares{SS: a.noise.SS + b.noise.SS, DF: a.noise.DF + b.noise.DF}
	if c.detailed {
		pooled = statistics.SumOfSquares{} // configurations are judged by the intervals of their ratios
	}
	c.Freedom, c.NoiseRatio = pooled.DF, statistics.Known(math.Exp(math.Sqrt(pooled.Variance())))
	var all [][2]*result.Record
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
		if c.Unpaired = append(c.Unpaired, over...); len(pairs) == 0 {
			continue
		}
		cell := CellChange{}
		if y.figure == nil {
			cell = atEqualRows(pairs, c.detailed)
		} else if one := changed(pairs, func(side int, r *result.Record) float64 { return []*comparedCell{&x, &y}[side].figure(r) }, y.smaller); one != nil {
			cell.Change = *one
		} else {
			c.Unpaired = append(c.Unpaired, y.name+" (no run of both came to its end)")
			continue
		}
		cell.Name, cell.Against, cell.Unit, cell.format = y.name, x.name, y.key, y.text
		c.Cells, all = append(c.Cells, cell), append(all, pairs...)
		for _, f := range flagsOf(pairs) {
			if seen[f.Text]++; seen[f.Text] == 1 {
				c.Flags = append(c.Flags, f)
			}
		}
	}
	for i, y := range b.cells {
		if !slices.Contains(ofA, ofB[i]) {
			c.Unpaired = append(c.Unpaired, "B: "+y.name+" (no counterpart)")
		}
	}
	if len(c.Cells) == 0 {
		return nil, fmt.Errorf("report: %s and %s have no complete cell in common: %s", a.source, b.source, strings.Join(c.Unpaired, ", "))
	}
	for i := range c.Flags {
		if n := seen[c.Flags[i].Text]; n < len(c.Cells) {
			c.Flags[i].Text += fmt.Sprintf(" (in %s of %d)", plural(n, "cell", "cells"), len(c.Cells))
		}
	}
	if first, second := statistics.Separate(all); first != "" {
		c.Flags = append([]Flag{{"order", "", first, second, fmt.Sprintf(
			"not made in turn: all runs of %s were made before those of %s, so whatever else changed in between looks like a difference", first, second)}}, c.Flags...)
	}
	c.judge(pooled)
	return c, nil
}

// shortest returns names of the paths, as short as possible, e.g. "old.jsonl" or "1/x.jsonl".
func shortest(paths ...string) []string {
	return document.Distinct(len(paths), func(i int) string { return filepath.Base(paths[i]) },
		func(i int) string {
			return filepath.Join(filepath.Base(filepath.Dir(paths[i])), filepath.Base(paths[i]))
		}, func(i int) string { return paths[i] })
}

// judge fills in the p-values and verdicts of the cells, and the verdict on all cells together.
func (c *Comparison) judge(pooled statistics.SumOfSquares) {
	var logs, p []float64
	for i := range c.Cells {
		if r := c.Cells[i].Ratio; r != nil && *r > 0 {
			logs = append(logs, math.Log(*r))
		}
		p = append(p, c.Cells[i].Chance(pooled))
	}
	for i, adjusted := range statistics.Holm(p) {
		cell := &c.Cells[i]
		cell.P, cell.Adjusted = statistics.Known(p[i]), statistics.Known(adjusted)
		switch {
		case cell.Adjusted == nil:
		case adjusted >= significant:
			cell.Verdict = statistics.NoDifference
		default:
			cell.Verdict = either(*cell.Ratio < 1, statistics.Slower, statistics.Faster)
		}
	}
	mean, _ := statistics.MeanVariance(logs)
	c.Overall = statistics.Known(math.Exp(mean))
	if c.Interval = c.Cells[0].Interval; len(logs) > 1 {
		c.Interval, _ = statistics.RatioBounds(logs, nil)
	}
	c.Verdict = statistics.Judge(c.Interval)
	slices.SortStableFunc(c.Cells, func(a, b CellChange) int { return cmp.Compare(statistics.Value(a.Ratio), statistics.Value(b.Ratio)) })
}

// An Unjudged is the error if the runs are too few or too short to judge whether a loss exceeds the
// threshold. Try is what to do, e.g. "--repeat 5".
type Unjudged struct{ Text, Try string }

func (e *Unjudged) Error() string { return "--threshold: " + e.Text }

// undecided reports whether the runs are too few to tell a regression from chance. That is so if
// the difference may be chance, and if either the measured loss exceeds both the threshold and a
// tenth, or the interval is so wide that it would hide even a loss of half the rate.
func (c *CellChange) undecided(threshold float64) bool {
	return c.Verdict == statistics.NoDifference && (*c.Ratio < min(1-threshold, keptFlatness) || c.P == nil && c.hides())
}

// hides reports whether the interval is so wide that it would hide a loss of half the rate.
func (c *CellChange) hides() bool { return c.Interval.High >= 2**c.Ratio }

// Regression describes a loss that exceeds the threshold, e.g. 0.1, and is not chance: the loss of
// all cells together, or else of the worst cell. It returns "" if there is no such loss, or the
// threshold is negative. The error is Unjudged if a cell can't be judged.
func (c *Comparison) Regression(threshold float64) (string, error) {
	if threshold < 0 {
		return "", nil
	}
	limit := figures.Share(threshold)
	if len(c.Cells) > 1 && c.Verdict == statistics.Slower && *c.Overall < 1-threshold {
		return fmt.Sprintf("all cells together run at %.3f of the rate of %s, more than %s slower", *c.Overall, c.names[0], limit), nil
	}
	first := func(verdict func(cell *CellChange) bool) *CellChange {
		for i := range c.Cells {
			if verdict(&c.Cells[i]) {
				return &c.Cells[i]
			}
		}
		return nil
	}
	rate := func(cell *CellChange) string {
		if cell.Name == cell.Against {
			return "the rate in " + c.names[0]
		}
		return "the rate of " + cell.Against + " in " + c.names[0]
	}
	if cell := first(func(cell *CellChange) bool { return cell.Verdict == statistics.Slower && *cell.Ratio < 1-threshold }); cell != nil {
		return fmt.Sprintf("%s runs at %.3f of %s, more than %s slower", cell.Name, *cell.Ratio, rate(cell), limit) +
			onlyIf(len(cell.Repeats) == 1, "; with one run on each side the difference may be chance: --repeat shows whether it is"), nil
	}
	if cell := first(func(cell *CellChange) bool { return cell.Verdict == statistics.Unknown }); cell != nil {
		return "", &Unjudged{fmt.Sprintf("%s can't be judged: there is one run on each side%s", cell.Name, onlyIf(c.detailed, ", too short for an interval")), "--repeat 5"}
	}
	if cell := first(func(cell *CellChange) bool { return cell.undecided(threshold) }); cell != nil {
		why := fmt.Sprintf("the interval, %s from %s, is too wide to tell", interval(cell.Interval), plural(len(cell.Repeats), "pair", "pairs"))
		if c.NoiseRatio != nil {
			why = "repeats differ by " + percent(*c.NoiseRatio-1)
		}
		return "", &Unjudged{fmt.Sprintf("%s can't be judged: it runs at %s %s, but %s", cell.Name, ratio(*cell.Ratio), rate(cell), why),
			"--repeat " + strconv.Itoa(max(5, 2*len(cell.Repeats)))}
	}
	return "", nil
}

// one returns the noun for what is compared.
func (c *Comparison) one() string { return either(c.detailed, "configuration", "cell") }

// verdict returns the results in sentences.
func (c *Comparison) verdict() (out []string) {
	if len(c.Cells) > 1 || !c.detailed {
		all := fmt.Sprintf("Over %s, %s runs at %s the rate of %s (geometric mean", plural(len(c.Cells), c.one(), c.one()+"s"), c.names[1], ratio(statistics.Value(c.Overall)), c.names[0])
		if c.Interval != nil {
			all += fmt.Sprintf(", 95%% interval %s, judged by how the %s differ", interval(c.Interval), either(len(c.Cells) > 1, c.one()+"s", "runs"))
		}
		out = append(out, all+"): "+map[string]string{statistics.Unknown: "too little to tell a difference", statistics.NoDifference: statistics.NoDifference, statistics.Faster: "faster", statistics.Slower: "slower"}[c.Verdict]+".")
	} else {
		out = append(out, c.Cells[0].verdict())
	}
	if c.NoiseRatio != nil {
		n := map[string]int{}
		for _, cell := range c.Cells {
			n[cell.Verdict]++
		}
		out = append(out, fmt.Sprintf("Beyond noise, %s faster and %d slower. Repeats differ by %s; Student's t for each cell, with Holm's correction for testing %d: "+
			"if nothing had changed, the chance that any cell is listed as changed would be at most 5%%. Intervals are those of each cell alone.",
			plural(n[statistics.Faster], "cell is", "cells are"), n[statistics.Slower], percent(*c.NoiseRatio-1), len(c.Cells)))
	} else if !c.detailed {
		out = append(out, "Single cells can't be judged: no cell of either was run twice, so the noise isn't known; --repeat 3 tells.")
	}
	if text := unequal(c.Flags); text != "" {
		out = append(out, text)
	}
	return out
}

// Document builds the report: the verdict, how the conditions differ, the cells, and the figures of
// configurations.
func (c *Comparison) Document() *document.Document {
	d := &document.Document{Title: c.names[1] + " against " + c.names[0], Untitled: true, Notes: flagged(c.Flags), Sheet: c.sheet, Data: func() any { return c }}
	d.Say(false, c.verdict()...)
	if !c.detailed {
		d.Add(&document.Section{Title: "Cells, the one that lost most first", Parts: c.parts()})
		return d
	}
	d.Add(&document.Section{Title: onlyIf(len(c.Cells) > 1, "Configurations, the one that lost most first"), Parts: c.parts()})
	d.Picture = func(opts document.PNGOptions) *document.Picture {
		p := &document.Picture{Legend: sideLegend(), Rows: []document.Charts{nil}}
		for i := range c.Cells {
			ch := c.Cells[i].chart()
			ch.Y.Log = opts.Log
			p.Rows[0] = append(p.Rows[0], ch)
		}
		return p
	}
	for i := range c.Cells {
		cell := &c.Cells[i]
		s := &document.Section{}
		if len(c.Cells) > 1 {
			s.Title, s.Parts = cell.Name, []document.Part{document.Paragraph(cell.verdict())}
		}
		if cell.Rows > 0 {
			s.Parts = append(s.Parts, document.Later{In: document.InHTML, Parts: cell.charts}, cell.table())
		}
		d.Add(s)
	}
	return d
}

// parts returns the files, the table of the cells, and a list of the cells and runs left out.
func (c *Comparison) parts() []document.Part {
	about := document.Facts{{Name: "A", Value: c.A}, {Name: "B", Value: c.B}}
	t := &document.Table{Header: []string{c.one(), "A", "B", "B/A", "95% interval", "p", "verdict"}}
	for i := range c.Cells {
		cell := &c.Cells[i]
		t.Add(cell.Name, cell.format(statistics.Value(cell.A)), cell.format(statistics.Value(cell.B)), ratio(statistics.Value(cell.Ratio)),
			interval(cell.Interval), chanceText(cell.Adjusted), cell.Verdict)
	}
	out := []document.Part{about, t}
	if cell := &c.Cells[0]; c.detailed && len(c.Cells) == 1 {
		about[0].Value, about[1].Value = cell.Against+" ("+c.A+")", cell.Name+" ("+c.B+")"
		out = out[:1]
	}
	if len(c.Unpaired) > 0 {
		out = append(out, document.Paragraph("Left out: "+strings.Join(c.Unpaired, "; ")+"."))
	}
	return out
}

func chanceText(p *float64) string {
	return either(p != nil && *p < 0.001, "<0.001", cmp.Or(document.IfKnown(p, func(p float64) string { return fmt.Sprintf("%.3f", p) }), none))
}
