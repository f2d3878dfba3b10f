package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// A PairFigure is one figure of both sides, in Unit.
type PairFigure struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	statistics.Versus
	format func(float64) string
}

// pairing has the factors by which configurations of two records are paired. A factor that neither
// record varies is ignored: so records with one configuration each can always be compared.
var pairing = []struct {
	name string
	of   func(r *result.Run) string
}{
	{"step", stepName}, {"side", func(r *result.Run) string { return r.Side }}, {"layout", func(r *result.Run) string { return r.Layout }},
	{"preset", func(r *result.Run) string { return r.Preset }}, {"engine", func(r *result.Run) string { return r.Engine }},
	{"method", func(r *result.Run) string { return r.Method }}, {"batch", func(r *result.Run) string { return count(r.Batch) }},
	{"writers", func(r *result.Run) string { return count(r.Writers) }}, {"indexes", func(r *result.Run) string { return count(r.Indexes) }},
	{"durability", func(r *result.Run) string { return r.Durability }},
}

// side returns the configurations of the runs.
func (recs runs) side() gridSide {
	out := gridSide{source: recs[0].Source, detailed: true}
	for _, f := range pairing {
		out.factors = append(out.factors, result.Factor{Name: f.name})
	}
	for _, group := range runsOf(charted(Proven(recs))) {
		c := comparedCell{name: group[0].Run.Unnumbered(), runs: group, measure: rowsPerSecond}
		for _, f := range pairing {
			c.levels = append(c.levels, f.of(&group[0].Run))
		}
		out.cells = append(out.cells, c)
	}
	return out
}

// rowsPerSecond is the rate of runs that insert.
var rowsPerSecond = measure{key: "rows_per_second", name: "rows/s", format: rowsRate}

// Proven copies the proof of the rows from the last part of a run with several steps or trials to
// all other parts, which lack it. Callers that select some records of a file call Proven first.
func Proven(recs []result.Record) []result.Record {
	out := slices.Clone(recs)
	for i := len(out) - 2; i >= 0; i-- {
		r, next := &out[i], &out[i+1]
		if r.End == nil || r.End.Verified != nil || next.End == nil || r.Source != next.Source || r.Run.Layout != next.Run.Layout {
			continue
		}
		if s, t := r.Run.Step, next.Run.Step; s != nil && t != nil && s.Benchmark == t.Benchmark && s.Number < t.Number ||
			r.Run.Search != nil && next.Run.Search != nil && r.Run.Search.Trial < next.Run.Search.Trial {
			end := *r.End
			end.Verified, r.End = next.End.Verified, &end
		}
	}
	return out
}

// windows is the number of parts of the rows whose rates are compared.
const windows = 10

// roundRows are the row counts at which insert benchmarks are usually quoted.
var roundRows = []int64{1e6, 10e6, 100e6, 1e9, 10e9}

// maxRows is the largest number of rows that a float64 represents exactly.
const maxRows = 1 << 53

// upTo summarizes a run up to the interval in which it reached the given number of rows.
func upTo(r *result.Record, rows int64) result.Summary {
	part := *r
	part.End = nil
	i := slices.IndexFunc(r.Intervals, func(iv result.Interval) bool { return iv.Rows >= rows })
	if i >= 0 {
		part.Intervals = r.Intervals[:i+1]
	}
	return part.Summary()
}

// atEqualRows compares the mean rates of pairs of runs up to the number of rows that all of them
// reached. If detailed, it compares all figures up to this number of rows, except sizes and CPU
// time per row, which are those of whole runs. A single pair has an interval only if detailed.
func atEqualRows(pairs [][2]*result.Record, detailed bool) (c CellChange) {
	c.Change, c.Rows = statistics.Change{Repeats: []statistics.Versus{}, Verdict: statistics.Unknown}, maxRows
	for _, p := range pairs {
		both := [2]view{{rec: p[0], curve: p[0].Curve()}, {rec: p[1], curve: p[1].Curve()}}
		c.Rows = int64(min(both[0].curve.Rows(), both[1].curve.Rows(), float64(c.Rows)))
		c.pairs = append(c.pairs, both)
	}
	n := float64(c.Rows)
	values := func(f func(v *view) float64) (out [][2]float64) {
		for i := range c.pairs {
			out = append(out, [2]float64{f(&c.pairs[i][0]), f(&c.pairs[i][1])})
		}
		return out
	}
	rate := func(from, to float64) func(v *view) float64 {
		return func(v *view) float64 { return v.curve.RateBetween(from, to) }
	}
	if c.Rows > 0 {
		var splits []statistics.Split
		for _, p := range c.pairs {
			if s, ok := statistics.NewSplit(p[0].curve, p[1].curve, c.Rows); ok && (detailed || len(pairs) > 1) {
				splits = append(splits, s)
			}
		}
		c.Change = statistics.NewChange(values(rate(0, n)), false, splits)
		last := statistics.NewChange(values(rate(0.9*n, n)), false, nil) // a tenth is too short for the block bootstrap
		c.LastTenth = &last
	}
	if !detailed {
		return c
	}
	add := func(name, unit string, format func(float64) string, f func(v *view) float64) {
		if v := statistics.Over(values(f)); v.A != nil || v.B != nil {
			c.Figures = append(c.Figures, PairFigure{name, unit, v, format})
		}
	}
	if c.Rows > 0 {
		add("mean rate", "rows/s", rowsRate, rate(0, n))
		for i, v := range c.Repeats {
			if len(c.Repeats) > 1 {
				c.Figures = append(c.Figures, PairFigure{fmt.Sprintf("mean rate of pair %d", i+1), "rows/s", v, rowsRate})
			}
		}
		add("seconds to "+count(c.Rows)+" rows", "seconds", seconds, func(v *view) float64 { return v.curve.TimeAt(n) })
		for i := range windows {
			from, to := n*float64(i)/windows, n*float64(i+1)/windows
			add(fmt.Sprintf("rate from %s to %s rows", short(math.Round(from)), short(math.Round(to))), "rows/s", rowsRate, rate(from, to))
		}
	}
	for _, at := range roundRows {
		if at <= c.Rows {
			add("rate at "+short(float64(at))+" rows", "rows/s", rowsRate, rate(0.9*float64(at), float64(at)))
		}
	}
	summarize := func(of func(r *result.Record) result.Summary) {
		for i := range c.pairs {
			for k := range c.pairs[i] {
				c.pairs[i][k].sum = of(c.pairs[i][k].rec)
			}
		}
	}
	summarize(func(r *result.Record) result.Summary { return upTo(r, c.Rows) })
	for _, times := range []struct {
		what string
		of   func(*view) map[string]result.Latency
	}{{" ", func(v *view) map[string]result.Latency { return v.sum.LatencyUS }}, {" response ", func(v *view) map[string]result.Latency { return v.sum.ResponseUS }}} {
		for _, op := range ops(times.of(&c.pairs[0][0])) {
			for _, q := range percentileNames {
				add(op+times.what+q.name, "us", micros, func(v *view) float64 {
					if l, ok := times.of(v)[op]; ok && l.Count >= q.least {
						return float64(q.of(l))
					}
					return math.NaN()
				})
			}
		}
	}
	add("stalls", "seconds", func(f float64) string { return figure(f) + " s" }, func(v *view) float64 { return v.sum.StallSeconds })
	add("errors", "", figure, func(v *view) float64 { return float64(v.sum.Errors) })
	summarize((*result.Record).Summary)
	add("size per row (whole run)", "bytes", func(f float64) string { return figure(f) + " bytes" }, func(v *view) float64 {
		if v.sum.SizeBytes == nil {
			return math.NaN()
		}
		return v.sum.SizeBytes.PerRow
	})
	perRow := func(of func(s *result.Summary) *float64) func(v *view) float64 {
		return func(v *view) float64 {
			if v.rec.End == nil || v.sum.Rows == 0 {
				return math.NaN()
			}
			return 1e6 * statistics.Value(of(&v.sum)) / float64(v.sum.Rows)
		}
	}
	add("client CPU per row (whole run)", "us", micros, perRow(func(s *result.Summary) *float64 { return &s.Client.CPUSeconds }))
	add("server CPU per row (whole run)", "us", micros, perRow(func(s *result.Summary) *float64 { return s.Server.CPUSeconds }))
	return c
}

// percentileNames are the percentiles of latencies. Each is shown only if there are at least as
// many operations as least says: of fewer, it would just be the longest latency.
var percentileNames = []struct {
	name  string
	least int64
	of    func(result.Latency) int64
}{
	{"p50", 2, func(l result.Latency) int64 { return l.P50 }},
	{"p95", 20, func(l result.Latency) int64 { return l.P95 }},
	{"p99", 100, func(l result.Latency) int64 { return l.P99 }},
	{"p99.9", 1000, func(l result.Latency) int64 { return l.P999 }},
	{"max", 0, func(l result.Latency) int64 { return l.Max }},
}

// verdict returns the result of a configuration in sentences, with what its interval is based on.
func (c *CellChange) verdict() string {
	if c.Rows == 0 {
		return "One of the two inserted no rows: there is nothing to compare."
	}
	r, last := statistics.Value(c.Ratio), statistics.Value(c.LastTenth.Ratio)
	if math.IsNaN(r) || math.IsNaN(last) {
		return "The rates can't be compared."
	}
	rows := short(float64(c.Rows)) + " rows"
	var s string
	switch {
	case c.Verdict == statistics.Unknown:
		s = fmt.Sprintf("Over %s B runs at %s the rate of A; the runs are too short for a confidence interval.", rows, ratio(r))
	case c.Verdict == statistics.NoDifference && c.hides():
		s = fmt.Sprintf("Too few runs to tell over %s: B runs at %s the rate of A, and the 95%% interval, %s, would hide even half the rate.",
			rows, ratio(r), interval(c.Interval))
	case c.Verdict == statistics.NoDifference:
		s = fmt.Sprintf("No difference shown over %s: B runs at %s the rate of A, and the 95%% interval is %s%s.", rows, ratio(r), interval(c.Interval),
			onlyIf(c.Reversed(), ", while the medians say the reverse"))
	default:
		s = fmt.Sprintf("B is %s over %s.", changedBy(&c.Change, "95% interval "), rows)
	}
	switch c.From {
	case statistics.WithinRuns:
		s += " The interval knows how the rate varies within these two runs, not how runs differ from each other: for that, use --repeat."
	case statistics.BetweenRuns:
		s += fmt.Sprintf(" The interval is judged by how %s of runs differ.", plural(len(c.Repeats), "pair", "pairs"))
	}
	return strings.TrimSpace(s + " In the last tenth of the rows B runs at " + changeText(c.LastTenth) + ".")
}

func (c *CellChange) charts() []document.Part {
	var sets []distribution
	for k, name := range []string{"A", "B"} {
		set := distribution{name: name, style: sideStyle(k)}
		for i := range c.pairs {
			set.vs = append(set.vs, &c.pairs[i][k])
		}
		sets = append(sets, set)
	}
	return []document.Part{sideLegend(), c.chart(), distributions(sets)}
}

func (c *CellChange) table() *document.Table {
	t := &document.Table{Header: []string{"at equal rows", "A", "B", "B/A"}}
	if len(c.Repeats) > 1 {
		t.Header[0] += ", medians of " + plural(len(c.Repeats), "pair", "pairs")
	}
	for _, f := range c.Figures {
		t.Add(f.Name, f.format(statistics.Value(f.A)), f.format(statistics.Value(f.B)), ratio(statistics.Value(f.Ratio)))
	}
	return t
}

func sideStyle(k int) document.Style { return document.NthStyle(1 - k) }

func sideLegend() document.Legend {
	return document.Legend{{Label: "A", Style: sideStyle(0)}, {Label: "B", Style: sideStyle(1)}}
}

// chart plots the rates of both sides, up to the row count that all runs reached.
func (c *CellChange) chart() *document.Chart {
	out := &document.Chart{Title: "rows inserted per second (rows/s)", X: document.Scale{Name: "rows inserted", To: max(1, float64(c.Rows))}, Ends: true}
	out.Note = onlyIf(len(c.pairs) > 1, "a line for each run")
	mean := [2]*float64{c.A, c.B}
	for i := range c.pairs {
		for k, name := range []string{"A", "B"} {
			v := &c.pairs[i][k]
			at := addRate(out, v.curve, v.windows(pictureWindows), document.Line{Name: name, Style: sideStyle(k), Thin: i > 0})
			if at >= 0 && i == 0 {
				out.Lines[at].End = []string{short(statistics.Value(mean[k])) + " rows/s", "on average"}
			}
		}
	}
	return out
}
