package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// MatrixFormat is the format of the output of Matrix.JSON.
const MatrixFormat = "rowmill.matrix/2"

// A Matrix is the analysis of an insert-method matrix: which choices matter, and which cells are
// best. It analyses the logarithms of the runs' mean rates, because a choice multiplies the rate.
type Matrix struct {
	Format  string          `json:"format"` // MatrixFormat
	Source  string          `json:"source"`
	Factors []result.Factor `json:"factors"`
	// Asked counts the runs of the whole matrix. Done counts the complete runs, which are the ones
	// analysed. Failed counts the failed runs.
	Asked  int `json:"runs_asked"`
	Done   int `json:"runs_done"`
	Failed int `json:"runs_failed"`
	// Problems lists what a reader must know before reading the figures.
	Problems []string         `json:"problems"`
	LeftOut  []result.LeftOut `json:"left_out"`
	// Shares divide the variance of the rate's logarithm (eta squared): into what each choice
	// explains, what each pair of choices explains in addition, and the rest. They add up to 1.
	Shares []Share `json:"shares"`
	// NoiseRatio is e to the power of the standard deviation of repeats of a cell.
	NoiseRatio *float64 `json:"noise_ratio"`
	// Effects compares the levels of each choice with its first.
	Effects []Effect `json:"effects"`
	// Cells are the cells with runs, the fastest first, and cells without complete runs last.
	Cells []GridCell `json:"cells"`
	// Recommended has one recommended cell for each number of indexes: how many indexes a table needs
	// depends on its queries.
	Recommended []Recommendation `json:"recommended"`
	Baseline    *Comparison      `json:"baseline,omitempty"`

	*projection // has one run for each repeat of a cell, and the levels of complete runs
	run         *result.Run
	noise       statistics.SumOfSquares
	varied      []int // factors with several levels among the cells with a rate
}

// A Share is one source of the variation between runs.
type Share struct {
	// Of is the choice or the pair of choices; empty for remainders, which Name identifies.
	Of   []string `json:"of"`
	Name string   `json:"name"`
	// Share is this source's share of the total sum of squares. If cells are missing, the share that
	// choices explain only together may be negative.
	Share float64 `json:"share"`
	DF    int     `json:"degrees_of_freedom"`
	// F and P test the share against Against, "noise" or "rest".
	F       *float64 `json:"f"`
	P       *float64 `json:"p"`
	Against string   `json:"against,omitempty"`
}

// An Effect compares one level of a choice with its first level.
type Effect struct {
	Factor string `json:"factor"`
	Level  string `json:"level"`
	Base   string `json:"base"`
	// Ratio is the geometric mean of the rates with Level, relative to the rates with Base, all else
	// being equal. If cells are missing, it is estimated as if choices didn't interact. Ratio is null
	// if it can't be separated from the effects of other choices.
	Ratio *float64 `json:"ratio"`
	// Pairs is the number of pairs of cells that differ only in these two levels. Low and High are the
	// lowest and the highest ratio of such a pair.
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
	Pairs int      `json:"pairs"`
}

// A Recommendation is the fastest cell at the strongest durability, among all cells with this
// number of indexes.
type Recommendation struct {
	Indexes string  `json:"indexes"`
	Cell    string  `json:"cell"`
	Rate    float64 `json:"rows_per_second"`
	// Alike counts the other cells, with the same Indexes and durability as Cell, whose lower rate may
	// be noise (Student's t at 95%); 0 without repeats.
	Alike int `json:"alike"`
	// Weaker is the weakest durability measured. Gain is by what factor the cell is faster with Weaker
	// than with its own durability.
	Weaker string   `json:"weaker,omitempty"`
	Gain   *float64 `json:"gain"`
	// Cheapest is the cell with the smallest Gain, i.e. where full durability costs least, of the
	// cells at least half as fast as the recommended one. CheapestGain is its Gain.
	Cheapest     string   `json:"cheapest_durability,omitempty"`
	CheapestGain *float64 `json:"cheapest_gain"`
}

// IsMatrix reports whether the runs belong to one matrix.
func IsMatrix(recs []result.Record) bool {
	return len(recs) > 0 && !slices.ContainsFunc(recs, func(r result.Record) bool { return !ofMatrix(&r, &recs[0]) })
}

// ofMatrix reports whether a run belongs to the matrix of the first.
func ofMatrix(r, first *result.Record) bool {
	return r.Run.Cell != nil && r.Run.Cell.Valid() && first.Run.Cell != nil && r.Source == first.Source &&
		slices.EqualFunc(r.Run.Cell.Factors, first.Run.Cell.Factors, func(x, y result.Factor) bool {
			return x.Name == y.Name && slices.Equal(x.Levels, y.Levels)
		})
}

// NewMatrix analyses the runs of one matrix. If a repeat of a cell was run several times, e.g.
// after a resume, the last complete run counts, else the last failed run, else the last run.
func NewMatrix(recs []result.Record) (*Matrix, error) {
	if len(recs) == 0 {
		return nil, errNoRuns
	}
	if !IsMatrix(recs) {
		return nil, errors.New("report: these runs are not those of one matrix")
	}
	first := &recs[0].Run
	m := &Matrix{
		Format: MatrixFormat, Source: recs[0].Source, Factors: first.Cell.Factors, Asked: first.Cell.Runs,
		Problems: []string{}, LeftOut: append([]result.LeftOut{}, first.Cell.LeftOut...), Shares: []Share{}, Effects: []Effect{},
		Cells: []GridCell{}, Recommended: []Recommendation{}, run: first,
	}
	m.gather(recs)
	m.analyse()
	m.recommend()
	for _, n := range m.notes() {
		m.Problems = append(m.Problems, document.Listed(": ", n.Label, n.Text))
	}
	return m, nil
}

// gather adds the runs to the grid.
func (m *Matrix) gather(recs []result.Record) {
	failed := func(r *result.Record) bool { return r.Stopped() == "failed" || !r.Broken() && r.End.Failure != "" }
	worth := func(r *result.Record) int {
		switch {
		case complete(r):
			return 2
		case failed(r):
			return 1
		}
		return 0
	}
	key := func(r *result.Record) string { return fmt.Sprint(r.Run.Repeat, "\x00", r.Run.Cell.Key()) }
	best := map[string]int{}
	for i := range recs {
		if b, ok := best[key(&recs[i])]; !ok || worth(&recs[i]) >= worth(&recs[b]) {
			best[key(&recs[i])] = i
		}
	}
	var counted []result.Record
	for _, i := range slices.Sorted(maps.Values(best)) {
		counted = append(counted, recs[i])
	}
	slices.SortStableFunc(counted, func(x, y result.Record) int { return cmp.Compare(x.Run.Repeat, y.Run.Repeat) })
	var names []string
	for _, f := range m.Factors {
		names = append(names, f.Name)
	}
	m.projection = newProjection(counted, names...)
	for i := range counted {
		r, rate := &counted[i], math.NaN()
		switch {
		case complete(r) && m.vs[i].sum.RowsPerSecond > 0:
			rate = m.vs[i].sum.RowsPerSecond
			m.Done++
		case complete(r) || failed(r):
			m.Failed++
		}
		m.add(sample{v: &m.vs[i], figures: []float64{rate}}, r.Run.Cell.Levels...)
	}
	slices.SortStableFunc(m.cells, func(a, b *gridCell) int { return cmp.Compare(b.middle(0), a.middle(0)) })
	for f, factor := range m.Factors { // in the declared order, whichever was run first
		m.factors[f].Levels = slices.DeleteFunc(slices.Clone(factor.Levels), func(l string) bool {
			return !slices.ContainsFunc(m.rated(), func(c *gridCell) bool { return c.levels[f] == l })
		})
	}
	for _, c := range m.cells {
		m.Cells = append(m.Cells, m.cellData(c, []measure{rowsPerSecond}))
	}
}

// rated returns the cells that have a rate, the fastest first.
func (m *Matrix) rated() []*gridCell {
	n := 0
	for n < len(m.cells) && m.cells[n].middle(0) > 0 {
		n++
	}
	return m.cells[:n]
}

// beside returns the rate of the cell that has the given level of one factor, and c's levels of all
// other factors; NaN if there is no such cell.
func (m *Matrix) beside(c *gridCell, factor int, level string) float64 {
	levels := slices.Clone(c.levels)
	levels[factor] = level
	if c = m.at(levels...); c == nil {
		return math.NaN()
	}
	return c.middle(0)
}

// cellName is the name of a cell, by the factors that the matrix varies.
func cellName(c *gridCell) string { return c.samples[0].v.rec.Run.Cell.Name() }

// side returns the cells with a rate.
func (m *Matrix) side() gridSide {
	out := gridSide{source: m.Source, preset: m.run.Preset, factors: m.Factors, noise: m.noise}
	for _, c := range m.rated() {
		one := comparedCell{name: cellName(c), levels: c.levels, measure: rowsPerSecond}
		for _, s := range c.counted() {
			one.runs = append(one.runs, s.v.rec)
		}
		out.cells = append(out.cells, one)
	}
	out.detailed = len(out.cells) == 1
	return out
}

// notes returns what a reader must know before the figures.
func (m *Matrix) notes() (out []document.Note) {
	add := func(n int, format string, args ...any) {
		if n > 0 {
			out = append(out, document.Note{Text: fmt.Sprintf(format, args...)})
		}
	}
	are := func(n int) string { return either(n == 1, "is", "are") }
	short, once := 0, 0
	for i := range m.recs {
		if r := &m.recs[i]; r.Stopped() == "max-time" && r.Run.Rows > 0 {
			short++
		}
	}
	if m.NoiseRatio == nil {
		once = 1
	}
	left := m.Asked - m.Done - m.Failed
	add(left, "incomplete: %s of %s %s not done; rowmill bench matrix --resume %s goes on", plural(left, "run", "runs"), count(m.Asked), are(left), m.Source)
	add(m.Failed, "%s failed and %s not in the analysis", plural(m.Failed, "run", "runs"), are(m.Failed))
	add(once, "no cell was run twice: interactions and noise can't be told apart, so a small share may be either; --repeat 2 tells")
	add(short, "%s ended by --time before the rows asked for: a slow cell is measured while its table is smaller than that of a fast one", plural(short, "run was", "runs were"))
	out = append(out, gridNotes(m.vs)...)
	for i := range m.recs {
		for _, f := range flags(&m.vs[0], &m.vs[i]) {
			if n := (document.Note{Text: f.Text}); slices.Contains([]string{"server", "cache", "machine", "rowmill"}, f.Kind) && !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}

// analyse fills in the shares and effects.
func (m *Matrix) analyse() {
	size := make([]int, len(m.factors))
	for f, factor := range m.factors {
		if size[f] = len(factor.Levels); size[f] > 1 {
			m.varied = append(m.varied, f)
		}
	}
	obs := m.observations(0, func(*gridCell) bool { return true })
	if len(obs) == 0 {
		return
	}
	v := statistics.Analyse(obs, size)
	m.shares(&v)
	m.noise, m.NoiseRatio = v.Noise, statistics.Known(math.Exp(math.Sqrt(v.Noise.Variance())))
	effects := statistics.Effects(obs, size)
	for _, f := range m.varied {
		levels := m.factors[f].Levels
		for i, level := range levels[1:] {
			e := Effect{Factor: m.Factors[f].Name, Level: level, Base: levels[0], Ratio: statistics.Known(math.Exp(effects[f][i+1]))}
			var ratios []float64
			for _, c := range m.rated() {
				if base := m.beside(c, f, e.Base); c.levels[f] == level && base > 0 {
					ratios = append(ratios, c.middle(0)/base)
				}
			}
			if e.Pairs = len(ratios); e.Pairs > 0 {
				e.Low, e.High = new(slices.Min(ratios)), new(slices.Max(ratios))
			}
			m.Effects = append(m.Effects, e)
		}
	}
}

// shares derives the table of shares from an analysis.
func (m *Matrix) shares(v *statistics.Variance) {
	if v.Total.DF < 1 || v.Total.SS <= 0 {
		return
	}
	test, against := v.Noise, "noise"
	if test.DF == 0 {
		test, against = v.Rest, "rest"
	}
	rest := v.Total.SS - v.Rest.SS
	for i, t := range v.Terms {
		rest -= v.Of[i].SS
		if v.Of[i].DF == 0 {
			continue
		}
		s := Share{Share: v.Of[i].SS / v.Total.SS, DF: v.Of[i].DF}
		for _, f := range t {
			s.Of = append(s.Of, m.Factors[f].Name)
		}
		s.Name = strings.Join(s.Of, " x ")
		if test.DF > 0 && test.SS > 0 {
			f := v.Of[i].Variance() / test.Variance()
			s.F, s.P, s.Against = statistics.Known(f), statistics.Known(statistics.TailF(f, s.DF, test.DF)), against
		}
		m.Shares = append(m.Shares, s)
	}
	slices.SortStableFunc(m.Shares, func(a, b Share) int {
		return cmp.Or(cmp.Compare(len(a.Of), len(b.Of)), cmp.Compare(b.Share, a.Share))
	})
	remain := func(name string, s statistics.SumOfSquares) {
		m.Shares = append(m.Shares, Share{Of: []string{}, Name: name, Share: s.SS / v.Total.SS, DF: s.DF})
	}
	switch more := (statistics.SumOfSquares{SS: max(0, v.Rest.SS-v.Noise.SS), DF: v.Rest.DF - v.Noise.DF}); {
	case v.Noise.DF > 0:
		if more.DF > 0 {
			remain("three choices or more", more)
		}
		remain("noise: repeats differ", v.Noise)
	case v.Rest.DF > 0 && v.Pairs:
		remain("more than two choices, and noise", v.Rest)
	case v.Rest.DF > 0:
		remain("two choices, and noise", v.Rest)
	}
	// If all cells have the same number of runs, only rounding error remains.
	if math.Abs(rest) > 1e-6*v.Total.SS {
		remain("shared: cells are missing", statistics.SumOfSquares{SS: rest})
	}
}

// durabilities lists the durability levels, the strongest first.
var durabilities = []string{"full", "relaxed", "none"}

func (m *Matrix) recommend() {
	find := func(name string) int {
		return slices.IndexFunc(m.Factors, func(f result.Factor) bool { return f.Name == name })
	}
	indexes, durability := find("indexes"), find("durability")
	if indexes < 0 {
		return
	}
	strong, weak := "", ""
	if durability >= 0 {
		there := slices.DeleteFunc(slices.Clone(durabilities), func(d string) bool { return !slices.Contains(m.factors[durability].Levels, d) })
		if len(there) > 0 {
			strong, weak = there[0], there[len(there)-1]
		}
	}
	for _, level := range m.Factors[indexes].Levels {
		var out *Recommendation
		var best *gridCell
		for _, c := range m.rated() { // sorted, the fastest first
			rate := c.middle(0)
			if c.levels[indexes] != level || strong != "" && c.levels[durability] != strong {
				continue
			}
			if out == nil {
				best, out = c, &Recommendation{Indexes: level, Cell: cellName(c), Rate: rate}
			} else if m.alike(best, c) {
				out.Alike++
			}
			if strong == weak || rate < out.Rate/2 {
				continue
			}
			gain := statistics.Known(m.beside(c, durability, weak) / rate)
			if c == best {
				out.Weaker, out.Gain = weak, gain
			}
			if gain != nil && (out.CheapestGain == nil || *gain < *out.CheapestGain) {
				out.Cheapest, out.CheapestGain = cellName(c), gain
			}
		}
		if out != nil {
			m.Recommended = append(m.Recommended, *out)
		}
	}
}

// alike reports whether the difference between two cells may be noise.
func (m *Matrix) alike(a, b *gridCell) bool {
	n := 1/float64(len(a.counted())) + 1/float64(len(b.counted()))
	return math.Abs(math.Log(a.middle(0)/b.middle(0))) < statistics.Student975(m.noise.DF)*math.Sqrt(m.noise.Variance()*n) // false if the noise is unknown
}

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
		out = append(out, fmt.Sprintf("Best is %s with %s, worst %s with %s: %s apart.",
			cellName(best), rowsRate(best.middle(0)), cellName(worst), rowsRate(worst.middle(0)), ratio(best.middle(0)/worst.middle(0))))
	}
	for _, r := range m.Recommended {
		out = append(out, r.text(len(m.Recommended) > 1))
	}
	if m.NoiseRatio != nil {
		out = append(out, fmt.Sprintf("Repeats of a cell differ by %s (standard deviation over all cells).", percent(*m.NoiseRatio-1)))
	}
	return out
}

// size returns the ratio of the faster level to the slower one; 0 if it is unknown.
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
		names = append(names, onlyIf(len(f.Levels) > 1, f.Name))
	}
	return "What matters for inserting into " + result.EngineName(m.run.Engine) + ": " + document.Listed(", ", names...)
}

func (m *Matrix) subtitle() string {
	r := m.run
	parts := []string{words(result.EngineName(r.Engine), r.ServerVersion), r.Preset, cacheText(r.CacheBytes),
		onlyIf(r.Rows > 0, short(float64(r.Rows))+" rows a run"), onlyIf(r.MaxTimeSeconds > 0, clock(r.MaxTimeSeconds)+" at most")}
	for _, f := range m.Factors {
		parts = append(parts, onlyIf(len(f.Levels) == 1, f.Name+" "+f.Levels[0]))
	}
	return document.Listed(" · ", append(parts, some(r.Machine.Cores, "core", "cores"))...)
}

func (e *Effect) text() string {
	s := fmt.Sprintf("%s %s is %s %s %s, all else equal (geometric mean", e.Factor, e.Level, ratio(statistics.Value(e.Ratio)), e.Factor, e.Base)
	if e.Pairs > 1 {
		s += fmt.Sprintf("; %s to %s from cell to cell", ratio(*e.Low), ratio(*e.High))
	}
	return document.AsSentence(s + ")")
}

func (r *Recommendation) text(several bool) string {
	s := "Recommended"
	if several {
		n, _ := strconv.Atoi(r.Indexes) // the levels of this factor are numbers
		s += " with " + plural(n, "index", "indexes")
	}
	s += fmt.Sprintf(": %s, %s.", r.Cell, rowsRate(r.Rate))
	s += onlyIf(r.Alike > 0, fmt.Sprintf(" %s slower by no more than noise.", plural(r.Alike, "other cell is", "other cells are")))
	if r.Gain != nil {
		s += fmt.Sprintf(" With durability %s the same runs at %s of that", r.Weaker, ratio(*r.Gain))
		if r.CheapestGain != nil && *r.CheapestGain < cheaper**r.Gain {
			s += fmt.Sprintf("; full durability costs least (%s) with %s", ratio(*r.CheapestGain), r.Cheapest)
		}
		s += "."
	}
	return s
}

// cheaper is a factor: the text calls a gain smaller than another one only if it is less than this
// factor times the other gain. The rates of repeated runs differ by up to a tenth.
const cheaper = 0.9

// Document builds the report.
func (m *Matrix) Document() *document.Document {
	d := &document.Document{Title: m.title(), Subtitle: m.subtitle(), Footer: footer(m.run),
		Sheet: func() *document.Table { return cellSheet(m.Factors, m.Cells) }, Notes: m.notes(), Data: func() any { return m }}
	d.Say(false, m.verdicts()...)
	for _, l := range m.LeftOut {
		d.Notes = append(d.Notes, document.Note{Text: "left out: " + l.Factor + "=" + l.Level + ": " + l.Why})
	}
	if c := m.Baseline; c != nil {
		against := &document.Section{Title: "Against " + c.names[0], Parts: []document.Part{flagged(c.Flags)}}
		for _, line := range c.verdict() {
			against.Parts = append(against.Parts, document.Paragraph(line))
		}
		against.Parts = append(against.Parts, c.parts()...)
		d.Add(against)
	}
	if m.Done > 0 && len(m.varied) > 0 {
		d.Picture = func(document.PNGOptions) *document.Picture {
			return &document.Picture{Rows: []document.Charts{m.charts()}, Lines: []string{matrixHint}}
		}
		d.Add(&document.Section{Title: "Rows per second by each choice", In: document.InHTML, Parts: []document.Part{m.charts(), document.Paragraph(matrixHint)}})
	}
	d.Add(&document.Section{Title: "What each choice does", Parts: m.effects().Parts()}, &document.Section{Title: "All cells, the fastest first", Fold: true, Parts: m.cellTable().Parts()})
	addDelays(d, m.recs)
	return d
}

func (m *Matrix) effects() *document.Table {
	t := &document.Table{Header: []string{"choice", "against", "ratio", "least", "most", "cells compared"},
		Note: "Ratio is the geometric mean, all else equal; least and most are of two cells that differ in nothing else."}
	for _, e := range m.Effects {
		t.Add(e.Factor+" "+e.Level, e.Base, ratio(statistics.Value(e.Ratio)), ratio(statistics.Value(e.Low)), ratio(statistics.Value(e.High)), fmt.Sprint(e.Pairs))
	}
	return t
}

func (m *Matrix) cellTable() *document.Table {
	t := &document.Table{Header: []string{"cell", "rows/s", "of the best", "runs", "slowest", "fastest", "notes"}}
	for _, c := range m.cells {
		rate, runs := c.middle(0), len(c.counted())
		row := []string{cellName(c), figure(rate), percent(rate / m.cells[0].middle(0)), fmt.Sprint(runs), "", "", m.remarks(c)}
		if low, high := c.extremes(); low < high {
			row[4], row[5] = figure(low), figure(high)
		}
		t.Add(row...)
	}
	return t
}

// matrixHint explains the charts.
const matrixHint = "A dot is the rate of a cell in rows/s, logarithmic; bars are geometric means, whose greatest ratio is the choice's effect, all else equal."

// charts draws a chart for each choice that was varied: the rates of all cells by the choice's
// level. All charts have the same axis of rates. A bar is a geometric mean.
func (m *Matrix) charts() document.Charts {
	rated := m.rated()
	low, high := math.Log(rated[len(rated)-1].middle(0)), math.Log(rated[0].middle(0))
	pad := max(0.05, (high-low)*0.05)
	var out document.Charts
	for n, f := range m.varied {
		levels := m.Factors[f].Levels
		c := &document.Chart{Title: m.Factors[f].Name, X: document.Scale{To: float64(len(levels))}, Y: document.Scale{Log: true, From: math.Exp(low - pad), To: math.Exp(high + pad)},
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
			c.X.Ticks = append(c.X.Ticks, document.Tick{At: at, Label: level})
			dots := document.Line{Style: document.NthStyle(n), Dots: true, Bare: true}
			for i, cell := range rated {
				if rate := cell.middle(0); cell.levels[f] == level {
					// Multiples of the golden ratio spread the dots evenly.
					_, aside := math.Modf(float64(i) * 0.618034)
					dots.X, dots.Y = append(dots.X, at+(aside-0.5)*0.5), append(dots.Y, rate)
					dots.Tips = append(dots.Tips, cellName(cell)+": "+rowsRate(rate))
				}
			}
			if len(dots.Y) == 0 {
				continue
			}
			mean := statistics.GeometricMean(dots.Y)
			c.Lines = append(c.Lines, dots, document.Line{Style: document.Style{Colour: len(document.Palette) - 1}, X: []float64{at - 0.32, at + 0.32}, Y: []float64{mean, mean}})
		}
		out = append(out, c)
	}
	return out
}
