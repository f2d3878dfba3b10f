package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// MatrixFormat is the format of the output of Matrix.JSON.
const MatrixFormat = "rowmill.matrix/1"

// A Matrix is the analysis of an insert-method matrix: which choices matter, and
// which cells are best. It analyses the logarithm of the mean rate of each run,
// because choices multiply a rate, and because a choice then counts by its factor
// rather than by the rows/s it adds to the fastest cells.
type Matrix struct {
	Format  string          `json:"format"` // MatrixFormat
	Source  string          `json:"source"`
	Factors []result.Factor `json:"factors"`
	// Asked is the number of runs that the matrix has, Done the number of complete
	// runs, which are analysed.
	Asked int `json:"runs_asked"`
	Done  int `json:"runs_done"`
	// Problems lists what a reader must know before reading the figures.
	Problems []string         `json:"problems"`
	LeftOut  []result.LeftOut `json:"left_out"`
	// Shares are the shares of the variance of the rate's logarithm (eta squared)
	// explained by each choice, by each pair of choices beyond that, and the
	// remainder; they add up to 1.
	Shares []Share `json:"shares"`
	// NoiseRatio is the variation between repeats of a cell: e to the power of their
	// standard deviation, over all cells; null without repeats.
	NoiseRatio *float64 `json:"noise_ratio"`
	noise      sumOfSquares
	// Effects compares the levels of each choice with its first.
	Effects []Effect `json:"effects"`
	// Cells are the cells with runs: first those with complete runs, the fastest
	// first, then the others.
	Cells []MatrixCell `json:"cells"`
	// Recommended are the recommended cells, one for each number of indexes: which
	// indexes a table needs depends on its queries, not on the loading.
	Recommended []Recommendation  `json:"recommended"`
	Baseline    *MatrixComparison `json:"baseline,omitempty"`

	run    *result.Run      // the header of the first one
	recs   []*result.Record // complete runs only
	byKey  map[string][]int // indexes in recs, by cell
	varied []int            // factors with several levels among the cells with a rate
	rate   map[string]float64
}

// A Share is one source of the variation between runs.
type Share struct {
	// Of is the choice or the pair of choices that the share belongs to; empty for
	// remainders, which are identified by Name.
	Of   []string `json:"of"`
	Name string   `json:"name"`
	// Share is a share of the total sum of squares. For unbalanced data, the part
	// that several choices explain together may be negative.
	Share float64 `json:"share"`
	DF    int     `json:"degrees_of_freedom"`
	// F and P test the share against Against, "noise" or "rest"; null if there is
	// nothing to test against.
	F       *float64 `json:"f"`
	P       *float64 `json:"p"`
	Against string   `json:"against,omitempty"`
}

// An Effect compares one level of a choice with its first level.
type Effect struct {
	Factor string `json:"factor"`
	Level  string `json:"level"`
	Base   string `json:"base"`
	// Ratio is the geometric mean of the rates relative to those of Base, all else
	// being equal; if cells are missing, it is fitted without interactions. It is
	// null if it can't be separated from the effects of other choices.
	Ratio *float64 `json:"ratio"`
	// Low and High are the lowest and the highest ratio of two cells that differ in
	// nothing else, Pairs the number of such pairs.
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
	Pairs int      `json:"pairs"`
}

// A MatrixCell is one combination of levels.
type MatrixCell struct {
	Name   string   `json:"name"`
	Levels []string `json:"levels"`
	// Rate is the geometric mean of the rates of its runs in rows/s; null if no run
	// is complete. Rates contains the runs' rates, in the order of their repeats.
	Rate  *float64  `json:"rows_per_second"`
	Rates []float64 `json:"rates"`
	// ClientBound is true if rowmill itself limited the rate of one of the runs.
	ClientBound bool `json:"client_bound,omitempty"`
	// Failures are the errors of its failed runs.
	Failures []string `json:"failures,omitempty"`
	key      string
}

// A Recommendation is the fastest cell at the strongest durability measured, for a
// given number of indexes.
type Recommendation struct {
	Indexes string  `json:"indexes"`
	Cell    string  `json:"cell"`
	Rate    float64 `json:"rows_per_second"`
	// Alike is the number of other cells with the same indexes and durability that
	// are slower by no more than noise, by Student's t at 95% of the noise of all
	// repeats; 0 without repeats.
	Alike int `json:"alike"`
	// Weaker is the weakest durability measured, and Gain the ratio by which the
	// same cell is faster with it; null with a single durability.
	Weaker string   `json:"weaker,omitempty"`
	Gain   *float64 `json:"gain"`
	// Cheapest is the cell in which full durability costs least, among those at
	// least half as fast as the recommended one, and CheapestGain its gain.
	Cheapest     string   `json:"cheapest_durability,omitempty"`
	CheapestGain *float64 `json:"cheapest_gain"`
}

// IsMatrix reports whether the runs belong to one matrix.
func IsMatrix(recs []result.Record) bool {
	for i := range recs {
		r, first := &recs[i], &recs[0]
		if r.Run.Cell == nil || !r.Run.Cell.Valid() || r.Source != first.Source || !sameFactors(r.Run.Cell, first.Run.Cell) {
			return false
		}
	}
	return len(recs) > 0
}

func sameFactors(a, b *result.Cell) bool {
	return slices.EqualFunc(a.Factors, b.Factors, func(x, y result.Factor) bool {
		return x.Name == y.Name && slices.Equal(x.Levels, y.Levels)
	})
}

// CellComplete reports whether a run of a matrix came to its end. Failed runs count
// as complete; failed identifies them.
func CellComplete(r *result.Record) (complete, failed bool) {
	v := view{rec: r}
	switch how := v.incomplete(); {
	case how == "":
		return true, false
	case r.End != nil && r.End.Stopped == "failed":
		return true, true
	}
	return false, false
}

// NewMatrix analyses the runs of one matrix. If there are several runs of the same
// repeat of a cell, as after an interruption and a resume, the last complete one
// counts.
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
		Problems: []string{}, LeftOut: slices.Clone(first.Cell.LeftOut), Shares: []Share{}, Effects: []Effect{}, Cells: []MatrixCell{},
		Recommended: []Recommendation{}, run: first, byKey: map[string][]int{}, rate: map[string]float64{},
	}
	if m.LeftOut == nil {
		m.LeftOut = []result.LeftOut{}
	}
	m.gather(recs)
	m.analyse()
	m.recommend()
	m.warn(recs)
	return m, nil
}

// gather collects the runs that count, by cell.
func (m *Matrix) gather(recs []result.Record) {
	type place struct {
		key    string
		repeat int
	}
	last, failed := map[place]*result.Record{}, map[place]*result.Record{}
	var order []place
	for i := range recs {
		r := &recs[i]
		at := place{r.Run.Cell.Key(), r.Run.Repeat}
		if !slices.Contains(order, at) {
			order = append(order, at)
		}
		switch complete, bad := CellComplete(r); {
		case bad:
			failed[at] = r
		case complete:
			last[at] = r
		}
	}
	slices.SortStableFunc(order, func(x, y place) int { return cmp.Compare(x.repeat, y.repeat) })
	for _, at := range order {
		i := slices.IndexFunc(m.Cells, func(c MatrixCell) bool { return c.key == at.key })
		if i < 0 {
			j := slices.IndexFunc(recs, func(r result.Record) bool { return r.Run.Cell.Key() == at.key })
			m.Cells = append(m.Cells, MatrixCell{Name: recs[j].Run.Cell.Name(), Levels: recs[j].Run.Cell.Levels, Rates: []float64{}, key: at.key})
			i = len(m.Cells) - 1
		}
		c := &m.Cells[i]
		r := last[at]
		if r == nil {
			if f := failed[at]; f != nil {
				c.Failures = append(c.Failures, f.End.Failure)
			}
			continue
		}
		s := r.Summary()
		if !(s.RowsPerSecond > 0) {
			c.Failures = append(c.Failures, "no rows were inserted")
			continue
		}
		c.Rates = append(c.Rates, s.RowsPerSecond)
		c.ClientBound = c.ClientBound || s.Client.Bound
		m.byKey[at.key] = append(m.byKey[at.key], len(m.recs))
		m.recs = append(m.recs, r)
	}
	m.Done = len(m.recs)
	for i := range m.Cells {
		c := &m.Cells[i]
		if len(c.Rates) == 0 {
			continue
		}
		var logs float64
		for _, r := range c.Rates {
			logs += math.Log(r) / float64(len(c.Rates))
		}
		rate := math.Exp(logs)
		c.Rate, m.rate[c.key] = &rate, rate
	}
	slices.SortStableFunc(m.Cells, func(a, b MatrixCell) int {
		x, y := 0.0, 0.0
		if a.Rate != nil {
			x = *a.Rate
		}
		if b.Rate != nil {
			y = *b.Rate
		}
		return cmp.Compare(y, x)
	})
}

// warn collects the problems that a reader must know.
func (m *Matrix) warn(recs []result.Record) {
	add := func(format string, args ...any) { m.Problems = append(m.Problems, fmt.Sprintf(format, args...)) }
	failed, bound, short, unproven := 0, 0, 0, 0
	for _, c := range m.Cells {
		failed += len(c.Failures)
		if c.ClientBound {
			bound++
		}
	}
	for _, r := range m.recs {
		if r.End.Stopped == "max-time" && r.Run.Rows > 0 {
			short++
		}
		if r.End.Verified == nil {
			unproven++
		}
	}
	if left := m.Asked - m.Done - failed; left > 0 {
		add("incomplete: %s of %s not done; rowmill bench matrix --resume %s goes on", plural(left, "run", "runs"), count(m.Asked)+map[bool]string{true: " is", false: " are"}[left == 1], m.Source)
	}
	if failed > 0 {
		add("%s failed and %s not in the analysis", plural(failed, "run", "runs"), map[bool]string{true: "is", false: "are"}[failed == 1])
	}
	if m.NoiseRatio == nil {
		add("no cell was run twice: interactions and noise can't be told apart, so a small share may be either; --repeat 2 tells")
	}
	if short > 0 {
		add("%s ended by --max-time before the rows asked for: a slow cell is measured while its table is smaller than that of a fast one", plural(short, "run was", "runs were"))
	}
	if bound > 0 {
		add("in %s rowmill itself was the limit: the database could take more there", plural(bound, "cell", "cells"))
	}
	if unproven > 0 {
		add("%s not verified: the rows in the table were not compared with those sent", plural(unproven, "run was", "runs were"))
	}
	for _, same := range []struct {
		what string
		of   func(*result.Run) string
	}{
		{"server versions", func(r *result.Run) string { return r.ServerVersion }},
		{"versions of rowmill", func(r *result.Run) string { return r.Rowmill }},
		{"processors", func(r *result.Run) string { return r.Machine.CPU }},
		{"cache sizes", func(r *result.Run) string { return sizeOrNone(r.CacheBytes) }},
	} {
		var values []string
		for i := range recs {
			if v := same.of(&recs[i].Run); v != "" && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if len(values) > 1 {
			add("the runs have different %s: %s", same.what, strings.Join(values, ", "))
		}
	}
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
