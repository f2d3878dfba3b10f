package report

import (
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/rowmill/rowmill/result"
)

// ComparisonFormat names the format of what CompareJSON writes.
const ComparisonFormat = "rowmill.comparison/1"

// A Comparison sets the runs of two records side by side.
type Comparison struct {
	Format string `json:"format"` // ComparisonFormat
	Pairs  []Pair `json:"pairs"`
	// Unpaired names the runs that have no counterpart.
	Unpaired []string `json:"unpaired"`
}

// A Pair is two runs compared at equal row counts: figures of the run that
// got further leave out what it did after the other's end, except for sizes
// and CPU time, which are known for whole runs only and are given per row.
type Pair struct {
	A Side `json:"a"`
	B Side `json:"b"`
	// Rows is the row count up to which the two are compared.
	Rows int64 `json:"rows"`
	// Seconds is how long each took to reach Rows.
	Seconds Versus `json:"seconds"`
	// RowsPerSecond is the mean rate up to Rows.
	RowsPerSecond Versus `json:"rows_per_second"`
	// Interval is where the ratio of the mean rates lies with 95% confidence,
	// judged by how the rates vary within these two runs; null when they are
	// too short to tell. It doesn't know how runs differ from day to day.
	Interval *Bounds `json:"ratio_95"`
	// Windows holds the mean rates over ten equal parts of Rows.
	Windows []Window `json:"windows"`
	// At holds the rates at round row counts that both reached: the mean over
	// the tenth of the rows before.
	At []At `json:"at"`
	// LatencyUS and ResponseUS are microseconds, by operation.
	LatencyUS  []LatencyVersus `json:"latency_us"`
	ResponseUS []LatencyVersus `json:"response_us"`
	// StallSeconds is up to Rows; Errors too.
	StallSeconds Versus `json:"stall_seconds"`
	Errors       Versus `json:"errors"`
	BytesPerRow  Versus `json:"bytes_per_row"`
	// ClientCPU and ServerCPU are microseconds per row.
	ClientCPU Versus `json:"client_cpu_us_per_row"`
	ServerCPU Versus `json:"server_cpu_us_per_row"`
	// Flags says what makes the two hard to compare.
	Flags []Flag `json:"flags"`
}

// A Side identifies one run of a pair.
type Side struct {
	Name   string `json:"name"`
	Source string `json:"source"`
	Layout string `json:"layout"`
	Rows   int64  `json:"rows"`
}

// Versus is one figure of both runs; null where a run doesn't have it. Ratio
// is B/A, null where there is none.
type Versus struct {
	A     *float64 `json:"a"`
	B     *float64 `json:"b"`
	Ratio *float64 `json:"ratio"`
}

// A Window is a part of the rows, and the mean rates over it in rows/s.
type Window struct {
	FromRows int64 `json:"from_rows"`
	ToRows   int64 `json:"to_rows"`
	Versus
}

// At is the rate of both runs at a number of rows, in rows/s.
type At struct {
	Rows int64 `json:"rows"`
	Versus
}

// LatencyVersus is one percentile of one operation.
type LatencyVersus struct {
	Operation  string `json:"operation"`
	Percentile string `json:"percentile"`
	Versus
}

func versus(a, b float64) Versus {
	ok := func(f float64) *float64 {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil
		}
		return &f
	}
	v := Versus{A: ok(a), B: ok(b)}
	if v.A != nil && v.B != nil && a != 0 {
		v.Ratio = ok(b / a)
	}
	return v
}

// NewComparison pairs the runs of two records and compares each pair. Runs
// are paired when layout and preset agree, or only layout, in order; with one
// run on each side they are a pair whatever they are.
func NewComparison(a, b []result.Record) (Comparison, error) {
	c := Comparison{Format: ComparisonFormat, Pairs: []Pair{}, Unpaired: []string{}}
	if len(a) == 0 || len(b) == 0 {
		return c, errNoRuns
	}
	pairs, left := pairUp(a, b)
	for _, p := range pairs {
		c.Pairs = append(c.Pairs, comparePair(&a[p[0]], &b[p[1]]))
	}
	c.Unpaired = append(c.Unpaired, left...)
	return c, nil
}

// JSON writes the comparison, indented, for programs.
func (c Comparison) JSON(w io.Writer) error { return writeJSON(w, c) }

// Slowest returns the pair in which B's rate fell back most against A's, and
// its ratio: the lesser of that of the mean rates and that of the last tenth.
// Nil when no pair has rates.
func (c Comparison) Slowest() (*Pair, float64) {
	var slowest *Pair
	least := math.Inf(1)
	for i := range c.Pairs {
		p := &c.Pairs[i]
		if len(p.Windows) == 0 {
			continue
		}
		for _, r := range []*float64{p.RowsPerSecond.Ratio, p.Windows[len(p.Windows)-1].Ratio} {
			if r != nil && *r < least {
				slowest, least = p, *r
			}
		}
	}
	return slowest, least
}

// pairUp returns pairs of indexes into a and b, in the order of a, and the
// names of the runs that are left over.
func pairUp(a, b []result.Record) (pairs [][2]int, left []string) {
	partner := make([]int, len(a))
	for i := range partner {
		partner[i] = -1
	}
	taken := make([]bool, len(b))
	for _, same := range []func(x, y *result.Run) bool{
		func(x, y *result.Run) bool {
			return x.Layout == y.Layout && x.Preset == y.Preset && x.Engine == y.Engine
		},
		func(x, y *result.Run) bool { return x.Layout == y.Layout && x.Preset == y.Preset },
		func(x, y *result.Run) bool { return x.Layout == y.Layout },
		// What is left is paired only when it is one run on each side: two
		// records of one run each are compared whatever they are.
		func(x, y *result.Run) bool { return len(a) == 1 && len(b) == 1 },
	} {
		for i := range a {
			for j := range b {
				if partner[i] < 0 && !taken[j] && same(&a[i].Run, &b[j].Run) {
					partner[i], taken[j] = j, true
				}
			}
		}
	}
	if !slices.ContainsFunc(partner, func(j int) bool { return j >= 0 }) && len(a) == len(b) {
		for i := range a {
			partner[i], taken[i] = i, true
		}
	}
	for i, j := range partner {
		if j >= 0 {
			pairs = append(pairs, [2]int{i, j})
		} else {
			left = append(left, "A: "+a[i].Run.Name)
		}
	}
	for j := range b {
		if !taken[j] {
			left = append(left, "B: "+b[j].Run.Name)
		}
	}
	return pairs, left
}

// windows is how many parts the common rows are compared in.
const windows = 10

// roundRows are the row counts at which benchmarks of inserts are quoted.
var roundRows = []int64{1e6, 10e6, 100e6, 1e9, 10e9}

// maxRows is the greatest number of rows that a float64 holds exactly; a record
// with more is wrong.
const maxRows = 1 << 53

func comparePair(a, b *result.Record) Pair {
	ca, cb := a.Curve(), b.Curve()
	whole := [2]result.Summary{a.Summary(), b.Summary()}
	rows := int64(min(ca.Rows(), cb.Rows(), maxRows))
	p := Pair{
		A: side(a, whole[0]), B: side(b, whole[1]), Rows: rows,
		Windows: []Window{}, At: []At{}, LatencyUS: []LatencyVersus{}, ResponseUS: []LatencyVersus{},
	}
	n := float64(rows)
	if rows > 0 {
		p.Seconds = versus(ca.TimeAt(n), cb.TimeAt(n))
		p.RowsPerSecond = versus(ca.RateBetween(0, n), cb.RateBetween(0, n))
		p.Interval = ratioBounds(ca, cb, rows)
		for i := range windows {
			from, to := n*float64(i)/windows, n*float64(i+1)/windows
			p.Windows = append(p.Windows, Window{int64(math.Round(from)), int64(math.Round(to)), versus(ca.RateBetween(from, to), cb.RateBetween(from, to))})
		}
	}
	for _, at := range roundRows {
		if at <= rows {
			from, to := 0.9*float64(at), float64(at)
			p.At = append(p.At, At{at, versus(ca.RateBetween(from, to), cb.RateBetween(from, to))})
		}
	}
	sa, sb := upTo(a, rows), upTo(b, rows)
	p.LatencyUS = latencies(sa.LatencyUS, sb.LatencyUS)
	p.ResponseUS = latencies(sa.ResponseUS, sb.ResponseUS)
	p.StallSeconds = versus(sa.StallSeconds, sb.StallSeconds)
	p.Errors = versus(float64(sa.Errors), float64(sb.Errors))
	p.BytesPerRow = versus(bytesPerRow(whole[0]), bytesPerRow(whole[1]))
	p.ClientCPU = versus(clientPerRow(a, whole[0]), clientPerRow(b, whole[1]))
	p.ServerCPU = versus(serverPerRow(whole[0]), serverPerRow(whole[1]))
	p.Flags = flags(a, b, whole[0], whole[1])
	return p
}

func side(r *result.Record, s result.Summary) Side {
	return Side{Name: r.Run.Name, Source: r.Source, Layout: r.Run.Layout, Rows: s.Rows}
}

// Bounds is an interval of a figure.
type Bounds struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// The block bootstrap: equal parts of the rows, drawn with replacement in
// blocks of neighbours, because neighbouring rates depend on each other. A
// block is longer than a checkpoint's stall, and there are enough of them to
// draw from; a thousand rounds settle the second digit of a 95% interval.
const (
	bootParts  = 100
	bootBlock  = 5
	bootRounds = 1000
)

// ratioBounds returns the 95% interval of the ratio of two mean rates over the
// same rows, after Künsch's moving block bootstrap (1989). Parts of the rows
// are drawn for both runs together, so that a rate that falls in both in the
// same way adds nothing to the width. Nil for runs with fewer points than
// parts.
func ratioBounds(a, b result.Curve, rows int64) *Bounds {
	if len(a) <= bootParts || len(b) <= bootParts {
		return nil
	}
	var ta, tb [bootParts]float64
	for i := range bootParts {
		from, to := float64(rows)*float64(i)/bootParts, float64(rows)*float64(i+1)/bootParts
		ta[i], tb[i] = a.TimeAt(to)-a.TimeAt(from), b.TimeAt(to)-b.TimeAt(from)
	}
	// The same draws for the same records, so that reports are reproducible.
	rng := rand.New(rand.NewPCG(1, 95))
	ratios := make([]float64, 0, bootRounds)
	for range bootRounds {
		var sa, sb float64
		for range bootParts / bootBlock {
			at := rng.IntN(bootParts - bootBlock + 1)
			for i := at; i < at+bootBlock; i++ {
				sa += ta[i]
				sb += tb[i]
			}
		}
		if r := sa / sb; !math.IsNaN(r) && !math.IsInf(r, 0) {
			ratios = append(ratios, r)
		}
	}
	if len(ratios) < bootRounds {
		return nil
	}
	slices.Sort(ratios)
	return &Bounds{ratios[bootRounds*25/1000], ratios[bootRounds*975/1000-1]}
}

// upTo summarizes what a run did until it had the given rows, in whole
// intervals: the one in which they were reached still counts.
func upTo(r *result.Record, rows int64) result.Summary {
	part := *r
	part.End = nil
	i := slices.IndexFunc(r.Intervals, func(iv result.Interval) bool { return iv.Rows >= rows })
	if i >= 0 {
		part.Intervals = r.Intervals[:i+1]
	}
	return part.Summary()
}

func latencies(a, b map[string]result.Latency) []LatencyVersus {
	out := []LatencyVersus{}
	for _, op := range ops(a) {
		x := a[op]
		y, ok := b[op]
		if !ok {
			continue
		}
		for _, q := range []struct {
			name string
			a, b int64
		}{{"p50", x.P50, y.P50}, {"p95", x.P95, y.P95}, {"p99", x.P99, y.P99}, {"p99.9", x.P999, y.P999}, {"max", x.Max, y.Max}} {
			out = append(out, LatencyVersus{op, q.name, versus(float64(q.a), float64(q.b))})
		}
	}
	return out
}

func bytesPerRow(s result.Summary) float64 {
	if s.SizeBytes == nil {
		return math.NaN()
	}
	return s.SizeBytes.PerRow
}

func clientPerRow(r *result.Record, s result.Summary) float64 {
	if r.End == nil || s.Rows == 0 {
		return math.NaN()
	}
	return 1e6 * s.Client.CPUSeconds / float64(s.Rows)
}

func serverPerRow(s result.Summary) float64 {
	if s.Server.CPUSeconds == nil || s.Rows == 0 {
		return math.NaN()
	}
	return 1e6 * *s.Server.CPUSeconds / float64(s.Rows)
}

// deref returns NaN for a figure that isn't there.
func deref(f *float64) float64 {
	if f == nil {
		return math.NaN()
	}
	return *f
}
