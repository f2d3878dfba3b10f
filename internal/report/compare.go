package report

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// ComparisonFormat is the format of the output of Comparison.JSON.
const ComparisonFormat = "rowmill.comparison/2"

// A Comparison compares the runs of two records.
type Comparison struct {
	Format string `json:"format"` // ComparisonFormat
	Pairs  []Pair `json:"pairs"`
	// Unpaired lists the runs left out, with the reason.
	Unpaired []string `json:"unpaired"`
}

// A Pair is two configurations compared at equal row counts, each with one run or with
// several repeats. Figures of a run that got further exclude what it did after the common
// row count, except for sizes and CPU time, which are given per row. With repeats, figures
// are medians, and ratios are geometric means of the pairs' ratios.
type Pair struct {
	A Side `json:"a"`
	B Side `json:"b"`
	// Rows is the row count up to which all runs are compared.
	Rows int64 `json:"rows"`
	// Repeats contains the mean rates up to Rows, pair by pair of runs that alternated.
	Repeats []Versus `json:"repeats"`
	// RowsPerSecond is the mean rate up to Rows, LastTenth that over their last tenth. Interval and LastTenthIn95 are
	// the 95% confidence intervals of their ratios; null if there is too little data. IntervalFrom is "between runs", or
	// "within runs" with one run per side.
	RowsPerSecond Versus  `json:"rows_per_second"`
	LastTenth     Versus  `json:"last_tenth"`
	Interval      *Bounds `json:"ratio_95"`
	LastTenthIn95 *Bounds `json:"last_tenth_ratio_95"`
	IntervalFrom  string  `json:"interval_from"`
	// Verdict compares B with A: NoDifference, Faster, Slower or Unknown.
	Verdict string `json:"verdict"`
	// Figures are all that is compared: times and rates at equal row counts, latencies, stalls and errors until then, and
	// bytes and CPU time per row of the whole run.
	Figures []PairFigure `json:"figures"`
	// Flags lists what makes the two hard to compare.
	Flags []Flag `json:"flags"`

	twins []twin
}

const meanRate = "mean rate"

// A Side identifies the runs of one side; Rows is that of the run that got least far.
type Side struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Layout string `json:"layout"`
	Rows   int64  `json:"rows"`
	Runs   int    `json:"runs"`
}

// Versus is one figure of both runs; null if unknown. Ratio is B/A.
type Versus struct {
	A     *float64 `json:"a"`
	B     *float64 `json:"b"`
	Ratio *float64 `json:"ratio"`
}

// A PairFigure is one figure of both sides, in Unit.
type PairFigure struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	Versus
	format func(float64) string
}

func versus(a, b float64) Versus {
	v := Versus{A: known(a), B: known(b)}
	if v.A != nil && v.B != nil && a != 0 {
		v.Ratio = known(b / a)
	}
	return v
}

// NewComparison groups the runs of two records by configuration, pairs the groups and
// compares each pair. Groups are paired if layout, preset and engine are equal; then if
// layout and preset are; then if the layout is. A single group on each side is always
// paired.
func NewComparison(a, b []result.Record) (Comparison, error) {
	c := Comparison{Format: ComparisonFormat, Pairs: []Pair{}, Unpaired: []string{}}
	if len(a) == 0 || len(b) == 0 {
		return c, errNoRuns
	}
	ga, gb := runsOf(charted(Proven(a))), runsOf(charted(Proven(b)))
	partner, left := pairUp(ga, gb)
	for i, j := range partner {
		if j < 0 {
			continue
		}
		pairs, over := matched(ga[i], gb[j])
		c.Pairs = append(c.Pairs, comparePairs(ga[i], gb[j], pairs))
		c.Unpaired = append(c.Unpaired, over...)
	}
	c.Unpaired = append(c.Unpaired, left...)
	return c, nil
}

// Proven returns the records, each part of a longer run (a step, a trial) with the proof that its last part has for all.
// Records that are chosen from those of a file need it before.
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

// An Unjudged is the error of a threshold that the runs are too few, or too short, to judge by. Try is what to do.
type Unjudged struct{ Text, Try string }

func (e *Unjudged) Error() string { return "--threshold: " + e.Text }

// Bounds are the bounds of a figure's interval.
type Bounds = statistics.Bounds

// change95 says by how much a ratio outside of 1 differs from it, with its named interval.
func change95(b *Bounds, r float64, interval string) string {
	switch {
	case r < 1:
		return fmt.Sprintf("slower by %s (%s%s..%s)", percent(1-r), interval, percent(1-b.High), percent(1-b.Low))
	case r > mostPercent:
		return fmt.Sprintf("%s as fast (%s%s..%s)", ratio(r), interval, ratio(b.Low), ratio(b.High))
	}
	return fmt.Sprintf("faster by %s (%s%s..%s)", percent(r-1), interval, percent(b.Low-1), percent(b.High-1))
}

// Verdicts of a comparison.
const (
	// NoDifference means that the interval of the ratio contains 1.
	NoDifference = "no difference shown"
	Faster       = "faster"
	Slower       = "slower"
	// Unknown means that there is no interval.
	Unknown = "unknown"
)

func verdictOf(b *Bounds) string {
	switch {
	case b == nil:
		return Unknown
	case b.High < 1:
		return Slower
	case b.Low > 1:
		return Faster
	}
	return NoDifference
}

// undecided reports whether the runs are too few to tell a regression beyond the threshold from chance: so much slower
// was measured and not shown, by more than runs of one configuration usually differ, or the interval is so wide that
// even half the rate would not have been shown.
func undecided(ratio float64, b *Bounds, threshold float64) bool {
	return verdictOf(b) == NoDifference && (ratio < min(1-threshold, keptFlatness) || hides(ratio, b))
}

// hides reports whether an interval is so wide that half the rate would not be shown.
func hides(ratio float64, b *Bounds) bool { return b.High >= 2*ratio }

// Regression describes the regressions beyond the threshold, a fraction, "" for none: pairs whose interval of the ratio
// lies below 1, and the ratio itself below 1-threshold. A threshold below 0 is none. The error Unjudged
// says that a pair can't be.
func (c Comparison) Regression(threshold float64) (string, error) {
	if len(c.Pairs) == 0 {
		return "", errors.New("compare: no run of one side has the layout of a run of the other")
	}
	if threshold < 0 {
		return "", nil
	}
	var shown []*Pair
	var untold error
	for i := range c.Pairs {
		p := &c.Pairs[i]
		r := deref(p.RowsPerSecond.Ratio)
		switch {
		case p.Verdict == Slower && r < 1-threshold:
			shown = append(shown, p)
		case untold != nil:
		case p.Verdict == Unknown:
			untold = &Unjudged{fmt.Sprintf("%q can't be judged: its runs are too short for an interval, and there is one on each side", p.B.Name), "--repeat 5"}
		case undecided(r, p.Interval, threshold):
			untold = &Unjudged{fmt.Sprintf("%q can't be judged: it runs at %s the rate of %q, but the interval, %s..%s from %s, is too wide to tell", p.B.Name, ratio(r), p.A.Name,
				ratio(p.Interval.Low), ratio(p.Interval.High), plural(len(p.Repeats), "pair", "pairs")), "--repeat " + strconv.Itoa(max(5, 2*len(p.Repeats)))}
		}
	}
	if len(shown) == 0 {
		return "", untold
	}
	p := shown[0]
	text := fmt.Sprintf("%q of %s inserts at %.3f of the rate of %q of %s, more than %s slower", p.B.Name, p.B.Source,
		*p.RowsPerSecond.Ratio, p.A.Name, p.A.Source, figures.Share(threshold))
	if len(p.Repeats) == 1 {
		text += "; with one run on each side the difference may be chance: --repeat shows whether it is"
	}
	if len(shown) > 1 {
		text += fmt.Sprintf(", and %d more", len(shown)-1)
	}
	return text, nil
}

// pairUp returns for each group of a the index of its partner in b, or -1, and the names
// of the groups without one.
func pairUp(a, b [][]*result.Record) (partner []int, left []string) {
	partner, back := slices.Repeat([]int{-1}, len(a)), slices.Repeat([]int{-1}, len(b))
	key := func(runs []*result.Record) []string {
		r := &runs[0].Run
		return []string{stepName(r), r.Layout, r.Preset, r.Engine}
	}
	// First those that have all in common. With nothing but the step in common, two are paired only if they are the only ones:
	// two configurations are always compared.
	for same := 4; same > 1 || same == 1 && len(a) == 1 && len(b) == 1; same-- {
		for i := range a {
			for j := range b {
				if partner[i] < 0 && back[j] < 0 && slices.Equal(key(a[i])[:same], key(b[j])[:same]) {
					partner[i], back[j] = j, i
				}
			}
		}
	}
	if len(a) == len(b) && !slices.ContainsFunc(partner, func(j int) bool { return j >= 0 }) {
		for i := range a {
			partner[i], back[i] = i, i
		}
	}
	alone := func(side string, groups [][]*result.Record, others []int) {
		for i, runs := range groups {
			if others[i] < 0 {
				left = append(left, side+": "+groupName(runs)+onlyIf(len(runs) > 1, ", "+plural(len(runs), "run", "runs"))+" (no counterpart)")
			}
		}
	}
	alone("A", a, partner)
	alone("B", b, back)
	return partner, left
}

// windows is the number of parts in which the common rows are compared.
const windows = 10

// roundRows are the row counts at which insert benchmarks are usually quoted.
var roundRows = []int64{1e6, 10e6, 100e6, 1e9, 10e9}

// maxRows is the largest number of rows that a float64 represents exactly.
const maxRows = 1 << 53

// A twin is one pair of runs with the figures derived from each.
type twin struct {
	rec   [2]*result.Record
	curve [2]result.Curve
	whole [2]result.Summary
	part  [2]result.Summary // up to the common rows
}

func newTwins(pairs [][2]*result.Record) (twins []twin, rows int64) {
	twins = make([]twin, len(pairs))
	rows = maxRows
	for i, p := range pairs {
		for k, r := range p {
			twins[i].rec[k], twins[i].curve[k], twins[i].whole[k] = r, r.Curve(), r.Summary()
			rows = int64(min(twins[i].curve[k].Rows(), float64(rows)))
		}
	}
	for i := range twins {
		for k, r := range twins[i].rec {
			twins[i].part[k] = upTo(r, rows)
		}
	}
	return twins, rows
}

func comparePairs(a, b []*result.Record, pairs [][2]*result.Record) Pair {
	twins, rows := newTwins(pairs)
	// each computes a figure over all runs.
	each := func(f func(t *twin, k int) float64) Versus {
		values := make([][2]float64, len(twins))
		for i := range twins {
			values[i] = [2]float64{f(&twins[i], 0), f(&twins[i], 1)}
		}
		return over(values)
	}
	rate := func(from, to float64) func(t *twin, k int) float64 {
		return func(t *twin, k int) float64 { return t.curve[k].RateBetween(from, to) }
	}
	p := Pair{A: side(groupName(a), twins, 0), B: side(groupName(b), twins, 1), Rows: rows, Repeats: []Versus{}, Figures: []PairFigure{}, Verdict: Unknown, twins: twins}
	add := func(name, unit string, format func(float64) string, v Versus) {
		if v.A != nil || v.B != nil {
			p.Figures = append(p.Figures, PairFigure{name, unit, v, format})
		}
	}
	if n := float64(rows); rows > 0 {
		add("seconds to "+count(rows)+" rows", "seconds", seconds, each(func(t *twin, k int) float64 { return t.curve[k].TimeAt(n) }))
		p.RowsPerSecond, p.LastTenth = each(rate(0, n)), each(rate(0.9*n, n))
		add(meanRate, "rows/s", rowsRate, p.RowsPerSecond)
		for i := range twins {
			v := versus(rate(0, n)(&twins[i], 0), rate(0, n)(&twins[i], 1))
			if p.Repeats = append(p.Repeats, v); len(twins) > 1 {
				add(fmt.Sprintf("mean rate of pair %d", i+1), "rows/s", rowsRate, v)
			}
		}
		p.bounds(twins)
		for i := range windows {
			from, to := n*float64(i)/windows, n*float64(i+1)/windows
			add(fmt.Sprintf("rate from %s to %s rows", short(math.Round(from)), short(math.Round(to))), "rows/s", rowsRate, each(rate(from, to)))
		}
	}
	for _, at := range roundRows {
		if at <= rows {
			add("rate at "+short(float64(at))+" rows", "rows/s", rowsRate, each(rate(0.9*float64(at), float64(at))))
		}
	}
	for _, times := range []struct {
		what string
		of   func(*result.Summary) map[string]result.Latency
	}{{" ", func(s *result.Summary) map[string]result.Latency { return s.LatencyUS }}, {" response ", func(s *result.Summary) map[string]result.Latency { return s.ResponseUS }}} {
		for _, op := range ops(times.of(&twins[0].part[0])) {
			for _, q := range percentileNames {
				add(op+times.what+q.name, "us", micros, each(func(t *twin, k int) float64 {
					if l, ok := times.of(&t.part[k])[op]; ok && l.Count >= q.least {
						return float64(q.of(l))
					}
					return math.NaN()
				}))
			}
		}
	}
	add("stalls", "seconds", func(f float64) string { return figure(f) + " s" }, each(func(t *twin, k int) float64 { return t.part[k].StallSeconds }))
	add("errors", "", figure, each(func(t *twin, k int) float64 { return float64(t.part[k].Errors) }))
	add("size per row (whole run)", "bytes", func(f float64) string { return figure(f) + " bytes" }, each(func(t *twin, k int) float64 {
		if z := t.whole[k].SizeBytes; z != nil {
			return z.PerRow
		}
		return math.NaN()
	}))
	perRow := func(of func(t *twin, k int) *float64) Versus {
		return each(func(t *twin, k int) float64 {
			if t.whole[k].Rows == 0 || t.rec[k].End == nil {
				return math.NaN()
			}
			return 1e6 * deref(of(t, k)) / float64(t.whole[k].Rows)
		})
	}
	add("client CPU per row (whole run)", "us", micros, perRow(func(t *twin, k int) *float64 { return &t.whole[k].Client.CPUSeconds }))
	add("server CPU per row (whole run)", "us", micros, perRow(func(t *twin, k int) *float64 { return t.whole[k].Server.CPUSeconds }))
	p.Flags = allFlags(pairs, twins)
	return p
}

func (p *Pair) bounds(twins []twin) {
	var whole, last []float64
	var splits []statistics.Split
	n := float64(p.Rows)
	for i := range twins {
		a, b := twins[i].curve[0], twins[i].curve[1]
		whole = append(whole, math.Log(b.RateBetween(0, n)/a.RateBetween(0, n)))
		last = append(last, math.Log(b.RateBetween(0.9*n, n)/a.RateBetween(0.9*n, n)))
		if s, ok := statistics.NewSplit(a, b, p.Rows); ok {
			splits = append(splits, s)
		}
	}
	p.Interval, p.IntervalFrom = statistics.RatioBounds(whole, splits)
	// A tenth is too short for the block bootstrap.
	p.LastTenthIn95, _ = statistics.RatioBounds(last, nil)
	p.Verdict = judged(p.Interval, p.IntervalFrom == statistics.BetweenRuns && p.RowsPerSecond.reversed())
}

// allFlags collects the flags of all pairs of runs, each once.
func allFlags(pairs [][2]*result.Record, twins []twin) []Flag {
	all := []Flag{}
	if first, second := separate(pairs); first != "" {
		all = append(all, Flag{"order", "", first, second, fmt.Sprintf(
			"not made in turn: all runs of %s were made before those of %s, so whatever else changed in between looks like a difference", first, second)})
	}
	for i := range twins {
		t := &twins[i]
		for _, f := range flags(t.rec[0], t.rec[1], t.whole[0], t.whole[1]) {
			if !slices.Contains(all, f) {
				all = append(all, f)
			}
		}
	}
	return all
}

func side(name string, twins []twin, k int) Side {
	s := Side{Name: name, Source: twins[0].rec[k].Source, Layout: twins[0].rec[k].Run.Layout, Rows: maxRows, Runs: len(twins)}
	for i := range twins {
		s.Rows = min(s.Rows, twins[i].whole[k].Rows)
	}
	return s
}

// upTo summarizes a run until the interval in which it had the given rows.
func upTo(r *result.Record, rows int64) result.Summary {
	part := *r
	part.End = nil
	i := slices.IndexFunc(r.Intervals, func(iv result.Interval) bool { return iv.Rows >= rows })
	if i >= 0 {
		part.Intervals = r.Intervals[:i+1]
	}
	return part.Summary()
}

// percentileNames are the figures that say how long operations took; of fewer than the least number of operations, one is
// just the longest.
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

// deref returns the figure, or NaN for nil.
func deref(f *float64) float64 {
	if f == nil {
		return math.NaN()
	}
	return *f
}

// A Flag is a difference between two runs, or a weakness of either, that a reader must
// know before believing their comparison.
type Flag struct {
	// Kind is "durability", "engine", "server", "settings", "cache", "machine", "schema",
	// "workload", "verified", "client-bound", "incomplete" or "order".
	Kind string `json:"kind"`
	// What differs, such as "cores"; empty if Kind suffices.
	What string `json:"what,omitempty"`
	A    string `json:"a"`
	B    string `json:"b"`
	// Text describes the flag in one sentence.
	Text string `json:"text"`
}

func flags(a, b *result.Record, sa, sb result.Summary) []Flag {
	out := []Flag{}
	// differ adds a flag if two values differ; an empty value is shown as "-".
	differ := func(kind, what, a, b, text string) {
		if a != b {
			a, b = cmp.Or(a, none), cmp.Or(b, none)
			out = append(out, Flag{kind, what, a, b, fmt.Sprintf("%s: %s against %s", text, a, b)})
		}
	}
	x, y := &a.Run, &b.Run
	// The memory that the kernel leaves varies by a few pages from boot to boot.
	near := max(x.Machine.MemoryBytes, y.Machine.MemoryBytes)-min(x.Machine.MemoryBytes, y.Machine.MemoryBytes) <= x.Machine.MemoryBytes/100
	for _, p := range properties {
		what := p.name
		if what == p.kind {
			what = ""
		}
		switch {
		case p.kind == "" || p.kind == "machine" && p.name == "memory" && near:
		case p.kind == "durability":
			differ(p.kind, what, p.of(x), p.of(y), "unequal durability: a crash may lose more in one than in the other")
			for _, name := range durabilitySettings {
				differ(p.kind, name, x.Settings[name], y.Settings[name], "unequal durability: "+name+" differs")
			}
		case p.kind == "schema":
			if !slices.Equal(x.Schema, y.Schema) {
				va, vb := firstDifference(x.Schema, y.Schema)
				differ(p.kind, "", va, vb, "the tables were made by different statements")
			}
		default:
			differ(p.kind, what, p.of(x), p.of(y), "different "+onlyIf(p.kind == "server", "server ")+p.name)
		}
	}
	if x.Engine == y.Engine { // settings of different engines are not comparable
		names := map[string]bool{}
		for _, settings := range []map[string]string{x.Settings, y.Settings} {
			for name := range settings {
				names[name] = true
			}
		}
		for _, name := range sortedNames(names) {
			if !slices.Contains(durabilitySettings, name) {
				differ("settings", name, x.Settings[name], y.Settings[name], "setting "+name+" differs")
			}
		}
	}
	// Runs that are doubtful by themselves.
	doubt := func(kind, sound, text string, of func(r *result.Record, s result.Summary) string) {
		if va, vb := of(a, sa), of(b, sb); va != sound || vb != sound {
			out = append(out, Flag{kind, "", va, vb, fmt.Sprintf("%s: A %s, B %s", text, va, vb)})
		}
	}
	doubt("verified", "verified", "not proven that every row arrived", func(r *result.Record, s result.Summary) string {
		whole := (&view{rec: r}).whole()
		switch v := s.Verified; {
		case v == nil && whole != "": // the last part is not among the records
			return "verified " + whole
		case v == nil:
			return "not verified"
		case !v.Sound():
			return "verification failed"
		}
		return "verified"
	})
	doubt("client-bound", "not client-bound", "rowmill itself limited the rate", func(_ *result.Record, s result.Summary) string {
		if s.Client.Bound {
			return "client-bound"
		}
		return "not client-bound"
	})
	doubt("incomplete", "complete", "a run did not come to its end", func(r *result.Record, _ result.Summary) string {
		return cmp.Or((&view{rec: r}).incomplete(), "complete")
	})
	return out
}

// firstDifference returns the first lines that differ between two schemas.
func firstDifference(a, b []string) (x, y string) {
	la, lb := strings.Split(strings.Join(a, "\n"), "\n"), strings.Split(strings.Join(b, "\n"), "\n")
	for i := range max(len(la), len(lb)) {
		x, y = "", ""
		if i < len(la) {
			x = strings.TrimSpace(la[i])
		}
		if i < len(lb) {
			y = strings.TrimSpace(lb[i])
		}
		if x != y {
			return x, y
		}
	}
	// The lines are equal; statements are split differently, or spaces differ.
	return plural(len(a), "statement", "statements"), plural(len(b), "statement", "statements") + ", other spaces"
}

func sizeOrNone(n int64) string { return ifAny(n, bytes) }

// Document builds the report: for each pair the verdict, the differences in the conditions,
// and figures at equal row counts with the ratio B/A.
func (c Comparison) Document() *Document {
	d := &Document{Title: "Comparison", Untitled: true, sheet: c.sheet, Data: func() any { return c }}
	for i := range c.Pairs {
		p := &c.Pairs[i]
		parts := []Part{facts{{"A", p.A.text()}, {"B", p.B.text()}}}
		name := p.B.Name + " against " + p.A.Name
		if len(c.Pairs) == 1 {
			d.Title, d.Subtitle = name, p.A.Source+" · "+p.B.Source
			d.say(false, p.verdict())
			d.Notes = flagged(p.Flags)
			d.add(&section{Parts: append(parts, p.parts()...)})
			break
		}
		parts = append(parts, flagged(p.Flags), paragraph(p.verdict()))
		d.add(&section{Title: name, Parts: append(parts, p.parts()...)})
	}
	var left section
	for _, name := range c.Unpaired {
		left.Parts = append(left.Parts, paragraph("left out: "+name))
	}
	d.add(&left)
	d.picture = func(opts PNGOptions) *picture {
		p := &picture{Legend: legend{{"A", sideStyle(0)}, {"B", sideStyle(1)}}, Rows: []charts{nil}}
		for i := range c.Pairs {
			ch := c.Pairs[i].chart()
			ch.Y.Log = opts.Log
			p.Rows[0] = append(p.Rows[0], ch)
		}
		return p
	}
	return d
}

// flagged returns what makes two hard to compare.
func flagged(flags []Flag) (out notes) {
	for _, f := range flags {
		out = append(out, Note{Text: f.Text})
	}
	return out
}

func (p *Pair) parts() []Part {
	if p.Rows == 0 {
		return nil
	}
	return []Part{later{inHTML, p.charts}, &section{Parts: []Part{p.table()}}}
}

func (p *Pair) charts() []Part {
	out := []Part{legend{{"A", sideStyle(0)}, {"B", sideStyle(1)}}, p.chart()}
	var sets []distribution
	for k, name := range []string{"A", "B"} {
		set := distribution{name: name, style: sideStyle(k)}
		for i := range p.twins {
			set.recs = append(set.recs, p.twins[i].rec[k])
		}
		sets = append(sets, set)
	}
	return append(out, distributions(sets))
}

func (p *Pair) table() *table {
	t := &table{Header: []string{"at equal rows", "A", "B", "B/A"}}
	if len(p.Repeats) > 1 {
		t.Header[0] += ", medians of " + plural(len(p.Repeats), "pair", "pairs")
	}
	for _, f := range p.Figures {
		t.add(f.Name, f.format(deref(f.A)), f.format(deref(f.B)), ratio(deref(f.Ratio)))
	}
	return t
}

func (s *Side) text() string {
	out := s.Name + " (" + s.Source + ")"
	if s.Runs > 1 {
		out += ", " + plural(s.Runs, "run", "runs")
	}
	return out
}

// verdict describes the outcome and its reliability.
func (p *Pair) verdict() string {
	if p.Rows == 0 {
		return "One of the two inserted no rows: there is nothing to compare."
	}
	r, last := deref(p.RowsPerSecond.Ratio), deref(p.LastTenth.Ratio)
	if math.IsNaN(r) || math.IsNaN(last) {
		return "The rates can't be compared."
	}
	rows := short(float64(p.Rows)) + " rows"
	var s string
	switch b := p.Interval; {
	case p.Verdict == Unknown:
		s = fmt.Sprintf("Over %s B runs at %s the rate of A; the runs are too short for a confidence interval.", rows, ratio(r))
	case p.Verdict == NoDifference && hides(r, b):
		s = fmt.Sprintf("Too few runs to tell over %s: B runs at %s the rate of A, and the 95%% interval, %s..%s, would hide even half the rate.",
			rows, ratio(r), ratio(b.Low), ratio(b.High))
	case p.Verdict == NoDifference:
		s = fmt.Sprintf("No difference shown over %s: B runs at %s the rate of A, and the 95%% interval is %s..%s%s.", rows, ratio(r), ratio(b.Low), ratio(b.High),
			onlyIf(p.RowsPerSecond.reversed(), ", while the medians say the reverse"))
	default:
		s = fmt.Sprintf("B is %s over %s.", change95(b, r, "95% interval "), rows)
	}
	switch p.IntervalFrom {
	case statistics.WithinRuns:
		s += " The interval knows how the rate varies within these two runs, not how runs differ from each other: for that, use --repeat."
	case statistics.BetweenRuns:
		s += fmt.Sprintf(" The interval is judged by how %s of runs differ.", plural(len(p.Repeats), "pair", "pairs"))
	}
	s += fmt.Sprintf(" In the last tenth of the rows B runs at %s", ratio(last))
	if b := p.LastTenthIn95; b != nil {
		s += fmt.Sprintf(" (%s..%s)", ratio(b.Low), ratio(b.High))
	}
	return strings.TrimSpace(s + ". " + unequal(p.Flags))
}

// unequal says which kinds of flags call the comparison itself into question.
func unequal(flags []Flag) string {
	var kinds []string
	for _, kind := range []string{"durability", "engine", "server", "cache", "machine", "schema"} {
		if slices.ContainsFunc(flags, func(f Flag) bool { return f.Kind == kind }) {
			kinds = append(kinds, strings.Replace(kind, "server", "server version", 1))
		}
	}
	if len(kinds) == 0 {
		return ""
	}
	return "Not like with like: unequal " + strings.Join(kinds, ", ") + "."
}

func sideStyle(k int) style { return nthStyle(1 - k) }

// chart plots the rate of both sides over their rows, up to those that all runs have.
func (p *Pair) chart() *chart {
	c := &chart{Title: "rows inserted per second (rows/s)", X: scale{Name: "rows inserted", To: max(1, float64(p.Rows))}, Ends: true}
	if len(p.twins) > 1 {
		c.Note = "a line for each run"
	}
	mean := [2]*float64{p.RowsPerSecond.A, p.RowsPerSecond.B}
	for i := range p.twins {
		for k, name := range []string{"A", "B"} {
			v := view{rec: p.twins[i].rec[k], curve: p.twins[i].curve[k]}
			at := c.addRate(v.curve, v.windows(pictureWindows), line{Name: name, Style: sideStyle(k), Thin: i > 0})
			if at >= 0 && i == 0 {
				c.Lines[at].End = []string{short(deref(mean[k])) + " rows/s", "on average"}
			}
		}
	}
	return c
}
