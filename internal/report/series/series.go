// Package series turns the intervals of a run into points for charts. Each figure has at most
// maxPoints points. A point that represents several intervals also has their extreme values. The
// script of an HTML page draws the points of a Page.
//
//	page := series.Page{Runs: []series.Run{series.NewRun(series.Source{Record: rec, Summary: &sum, Curve: rec.Curve()})}}
package series

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// A Page is the data drawn by the page's script.
type Page struct {
	Runs     []Run     `json:"runs"`
	Counters []Counter `json:"counters"`
	// Apart gives each run its own chart of the rate, as for the steps of a benchmark.
	Apart bool `json:"apart,omitempty"`
	// Axis is the first axis of all charts if that isn't rows; "day" offers the time of day as well.
	Axis string `json:"axis,omitempty"`
}

// A Run contains the series of one run, with one figure for each interval's end in Rows and Time.
type Run struct {
	Label string    `json:"label"`
	Light string    `json:"light"`
	Dark  string    `json:"dark"`
	Dash  []float64 `json:"dash"`
	// Rate has its own positions: a run's marks allow finer positions than its intervals.
	Rate Rates `json:"rate"`
	Rows Axis  `json:"rows"`
	Time Axis  `json:"time"`
	// Latency and Response are in microseconds, by operation and percentile.
	Latency  map[string]map[string]Values `json:"latency"`
	Response map[string]map[string]Values `json:"response"`
	Counters map[string]Figure            `json:"counters"`
	Backlog  Values                       `json:"backlog,omitempty"`
	Errors   Values                       `json:"errors,omitempty"`
	Retries  Values                       `json:"retries,omitempty"`
	Events   []Event                      `json:"events"`
	Stalls   []Stall                      `json:"stalls"`
	Knee     *Mark                        `json:"knee"`
	// Asked is the requested rate in rows/s; 0 means a closed loop.
	Asked float64 `json:"asked,omitempty"`
	// Limit is the highest p99 allowed, in microseconds. Shift, added to elapsed seconds, gives
	// seconds since the midnight before the first run.
	Limit float64 `json:"limit,omitempty"`
	Shift float64 `json:"shift,omitempty"`
}

// A Figure has a figure at each of the points: its mean and, if the points represent several
// intervals, its extremes.
type Figure struct {
	Mean Values `json:"mean"`
	Lo   Values `json:"lo,omitempty"`
	Hi   Values `json:"hi,omitempty"`
}

func (f *Figure) add(s spread, ranged bool) {
	f.Mean = append(f.Mean, s.mean)
	if ranged {
		f.Lo, f.Hi = append(f.Lo, s.lo), append(f.Hi, s.hi)
	}
}

// A Rates is the rate over the rows, and over the time.
type Rates struct {
	Rows RatesOver `json:"rows"`
	Time RatesOver `json:"time"`
}

type RatesOver struct {
	At Axis `json:"at"`
	Figure
	// Smooth is the moving mean of a rate that goes up and down.
	Smooth Values `json:"smooth,omitempty"`
}

// A Mark is a moment of the run, as a position on both axes.
type Mark struct {
	Rows float64 `json:"rows"`
	Time float64 `json:"time"`
}

type Event struct {
	Mark
	Seconds float64 `json:"seconds"`
	What    string  `json:"what"`
}

type Stall struct {
	From    Mark    `json:"from"`
	To      Mark    `json:"to"`
	Seconds float64 `json:"seconds"`
	Why     string  `json:"why"`
}

// A Counter describes one chart of counters.
type Counter struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	Unit  string `json:"unit"`
	Help  string `json:"help"`
	// Limit names the counter that is drawn as the limit of this one.
	Limit string `json:"limit,omitempty"`
	// Telling counters explain most drops of a rate; the others are folded away.
	Telling bool `json:"telling,omitempty"`
}

// limits maps a counter to another counter that bounds it. Both are drawn in one chart, which shows
// when an index outgrows the cache.
var limits = map[string]string{
	"cache_used_bytes":     "cache_bytes",
	"cache_dirty_bytes":    "cache_bytes",
	"table_data_bytes":     "cache_bytes",
	"table_index_bytes":    "cache_bytes",
	"checkpoint_age_bytes": "checkpoint_max_bytes",
}

// perRow are the counters that are also shown divided by the inserted rows. If only the insert rate
// changes, these quotients stay constant.
var perRow = []struct{ of, name, unit, help string }{
	{"page_reads", "page_reads_per_row", "pages/row", "pages that the database's cache lacked, for each inserted row"},
	{"page_writes", "page_writes_per_row", "pages/row", "pages written for each inserted row"},
	{"redo_written_bytes", "redo_written_bytes_per_row", "bytes/row", "redo or WAL written for each inserted row"},
	{"server_io_write_bytes", "server_io_write_bytes_per_row", "bytes/row", "written by the server for each inserted row"},
	{"disk_write_bytes", "disk_write_bytes_per_row", "bytes/row", "written to the disk for each inserted row"},
}

// rank returns the place of a counter in the list telling; a counter that isn't in the list comes
// after all others. The name may begin with a server: "NODE/page_reads".
func rank(name string, telling []string) int {
	return (slices.Index(telling, name[strings.LastIndex(name, "/")+1:]) + len(telling) + 1) % (len(telling) + 1)
}

// Counters describes the counters that any of the runs has. The counters in telling come first.
func Counters(runs []*result.Record, telling []string) []Counter {
	out := []Counter{}
	seen := map[string]bool{}
	add := func(c Counter) {
		if !seen[c.Name] {
			seen[c.Name], c.Telling = true, rank(c.Name, telling) < len(telling)
			out = append(out, c)
		}
	}
	has := map[string]bool{}
	for _, r := range runs {
		maps.Copy(has, counterNames(r.Intervals))
	}
	for _, r := range runs {
		for _, c := range r.Run.Counters {
			if !has[c.Name] {
				continue
			}
			add(Counter{Name: c.Name, Group: c.Group, Unit: c.Unit, Help: c.Help, Limit: limits[c.Name]})
			for _, p := range perRow {
				if p.of == c.Name {
					add(Counter{Name: p.name, Group: c.Group, Unit: p.unit, Help: p.help})
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(has)) { // counters that no header describes are shown, too
		group, _, _ := strings.Cut(name, "_")
		if group != "os" && group != "client" {
			group = "server"
		}
		add(Counter{Name: name, Group: group, Limit: limits[name]})
	}
	slices.SortStableFunc(out, func(a, b Counter) int { return cmp.Compare(rank(a.Name, telling), rank(b.Name, telling)) })
	return out
}

// counterNames are the names of the counters that intervals have.
func counterNames(ivs []result.Interval) map[string]bool {
	out := map[string]bool{}
	for i := range ivs {
		for name := range ivs[i].Counters {
			out[name] = true
		}
	}
	return out
}

// A Source is a run, with values that the caller has already derived from its record.
type Source struct {
	Record  *result.Record
	Summary *result.Summary
	Curve   result.Curve
	Stalls  []result.Stall
	Label   string
	Style   document.Style
	// Minor is set for a repeat that another run represents: its knee is not marked.
	Minor bool
}

// NewRun returns the series of a run.
func NewRun(v *Source) Run {
	bs, size := buckets(v.Record.Intervals)
	d := Run{
		Label: figures.OneLine(v.Label), Light: document.Palette[v.Style.Colour].Light, Dark: document.Palette[v.Style.Colour].Dark, Dash: v.Style.Dashes, Asked: v.Record.Run.Rate,
		Rate: v.rates(bs), Rows: Axis{}, Time: Axis{}, Events: []Event{}, Stalls: []Stall{},
		Latency:  percentiles(bs, v.Summary.LatencyUS, func(iv *result.Interval) map[string]result.Histogram { return iv.Latency }),
		Response: percentiles(bs, v.Summary.ResponseUS, func(iv *result.Interval) map[string]result.Histogram { return iv.Response }),
		Counters: map[string]Figure{},
	}
	for _, b := range bs {
		d.Rows, d.Time = d.Rows.add(float64(b.last().Rows)), d.Time.add(b.last().Elapsed)
		var backlog, errs, retries int64
		for j := range b {
			backlog = max(backlog, b[j].Backlog)
			errs += b[j].Errors
			retries += b[j].Retries
		}
		d.Backlog, d.Errors, d.Retries = append(d.Backlog, float64(backlog)), append(d.Errors, float64(errs)), append(d.Retries, float64(retries))
	}
	for _, s := range []*Values{&d.Backlog, &d.Errors, &d.Retries} {
		if !slices.ContainsFunc(*s, func(f float64) bool { return f != 0 }) {
			*s = nil
		}
	}
	for name := range counterNames(v.Record.Intervals) {
		var f Figure
		for _, b := range bs {
			f.add(b.counter(name), size > 1)
		}
		d.Counters[name] = f
	}
	for _, p := range perRow {
		if of, ok := d.Counters[p.of]; ok {
			s := make(Values, len(bs))
			for i, b := range bs {
				s[i] = math.NaN()
				if rate := b.Rate(); rate > 0 {
					s[i] = of.Mean[i] / rate
				}
			}
			d.Counters[p.name] = Figure{Mean: s}
		}
	}
	v.marks(&d)
	return d
}

// The maximum number of marks drawn; the record has all of them.
const (
	maxEvents = 2000
	maxStalls = 300
)

func (v *Source) marks(d *Run) {
	for i := range v.Record.Intervals {
		for _, e := range v.Record.Intervals[i].Events {
			if len(d.Events) < maxEvents {
				d.Events = append(d.Events, Event{
					v.markAt(e.Elapsed), e.Seconds, figures.OneLine(strings.TrimSpace(e.What + " " + e.Object))})
			}
		}
	}
	for _, s := range LongestStalls(v.Stalls, maxStalls) {
		d.Stalls = append(d.Stalls, Stall{v.markAt(s.From), v.markAt(s.To), s.Seconds(), figures.OneLine(s.Why)})
	}
	// One line is enough for repeats: their knees are close to each other.
	if k := v.Summary.Knee; k != nil && !v.Minor {
		at := v.Curve.TimeAt(float64(k.Rows))
		if math.IsNaN(at) {
			at = v.Summary.Seconds
		}
		d.Knee = &Mark{float64(k.Rows), millionths(at)}
	}
}

func (v *Source) markAt(elapsed float64) Mark {
	return Mark{math.Round(rowsAt(v.Curve, elapsed)), millionths(elapsed)}
}

// LongestStalls returns the n longest stalls, in order of time.
func LongestStalls(stalls []result.Stall, n int) []result.Stall {
	out := slices.SortedStableFunc(slices.Values(stalls), func(a, b result.Stall) int { return cmp.Compare(b.Seconds(), a.Seconds()) })
	out = out[:min(n, len(out))]
	slices.SortFunc(out, func(a, b result.Stall) int { return cmp.Compare(a.From, b.From) })
	return out
}

// The curve of the rate over rows has at most fineWindows points. It may have up to longWindows
// points if the run has at least longWindows * longEnough intervals.
const (
	fineWindows = 200
	longWindows = 600
	longEnough  = 20
)

// rates returns the rate by rows (over equal parts of the rows) and the rate by time (over
// intervals). If the run has few intervals, the rate by time is also that over equal parts of the
// rows: for these, the record has the times of more moments than the intervals.
func (v *Source) rates(bs []Bucket) Rates {
	var d Rates
	most := fineWindows
	if len(v.Record.Intervals) >= longWindows*longEnough {
		most = longWindows
	}
	if n := min(max(1, v.Record.Run.Parts(v.Curve, most)), len(v.Curve)-1); n > 0 && v.Curve.Rows() > 0 {
		total := v.Curve.Rows()
		for i, s := range v.rateSpreads(n) {
			end := total * float64(i+1) / float64(n)
			d.Rows.At, d.Time.At = d.Rows.At.add(end), d.Time.At.add(v.Curve.TimeAt(end))
			d.Rows.add(s, true)
			d.Time.add(s, true)
		}
	}
	if len(bs) >= len(d.Time.At) || len(bs) >= fineWindows/2 {
		d.Time = RatesOver{}
		for _, b := range bs {
			d.Time.At = d.Time.At.add(b.last().Elapsed)
			d.Time.add(b.rates(), len(b) > 1 || d.Time.Lo != nil)
		}
	}
	d.Rows.Smooth, d.Time.Smooth = document.Smoothed(d.Rows.Mean), document.Smoothed(d.Time.Mean)
	return d
}

// rateSpreads returns the rate of each of n equal parts of the rows, with the extreme rates of the
// intervals that begin in the part.
func (v *Source) rateSpreads(n int) []spread {
	out := make([]spread, n)
	for i, rate := range v.Curve.Windows(n) {
		out[i] = spread{rate, rate, rate}
	}
	total := v.Curve.Rows()
	for i := range v.Record.Intervals {
		iv := &v.Record.Intervals[i]
		begin := float64(iv.Rows-iv.NewRows) / total * float64(n)
		if end := float64(iv.Rows) / total * float64(n); begin >= 0 && begin < float64(n) && end-begin <= 1 {
			out[int(begin)].span(iv.Rate())
		}
	}
	return out
}

// percentiles returns, by operation, the series p50, p95, p99 and max.
func percentiles(bs []Bucket, all map[string]result.Latency, of func(*result.Interval) map[string]result.Histogram) map[string]map[string]Values {
	var m result.Merger
	out := map[string]map[string]Values{}
	for op := range all {
		out[op] = map[string]Values{}
		for _, b := range bs {
			l, ok := b.Latency(&m, op, of)
			for name, us := range map[string]int64{"p50": l.P50, "p95": l.P95, "p99": l.P99, "max": l.Max} {
				v := math.NaN()
				if ok {
					v = float64(us)
				}
				out[op][name] = append(out[op][name], v)
			}
		}
	}
	return out
}

// maxPoints is the maximum number of points of a series: a chart is about 1,100 pixels wide.
const maxPoints = 1000

// Values is a list of figures for a chart; a missing figure is NaN. In JSON, figures have five
// significant digits, finer than a pixel, and NaN becomes null.
type Values []float64

// MarshalJSON implements json.Marshaler.
func (s Values) MarshalJSON() ([]byte, error) { return jsonNumbers(s, 'g', 5) }

// An Axis is a list of strictly increasing positions.
type Axis []float64

// MarshalJSON implements json.Marshaler.
func (a Axis) MarshalJSON() ([]byte, error) { return jsonNumbers(a, 'f', -1) }

// jsonNumbers encodes figures in a format of strconv, and NaN as null.
func jsonNumbers(all []float64, format byte, precision int) ([]byte, error) {
	out := append(make([]byte, 0, 8*len(all)+2), '[')
	for i, f := range all {
		if i > 0 {
			out = append(out, ',')
		}
		if math.IsNaN(f) || math.IsInf(f, 0) {
			out = append(out, "null"...)
			continue
		}
		out = strconv.AppendFloat(out, f, format, precision, 64)
	}
	return append(out, ']'), nil
}

// millionths rounds to six decimals, unless the number is too large for that.
func millionths(f float64) float64 {
	if r := math.Round(f*1e6) / 1e6; !math.IsNaN(r) && !math.IsInf(r, 0) {
		return r
	}
	return f
}

// add appends a position to an axis. Charts need increasing positions. An interval without rows
// ends at the row where it began; add then moves its end a little.
func (a Axis) add(f float64) Axis {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		f = 0
	}
	f = millionths(f)
	if n := len(a); n > 0 && f <= a[n-1] {
		f = max(a[n-1]+1e-6, math.Nextafter(a[n-1], math.Inf(1)))
	}
	return append(a, f)
}

// A Bucket is a list of consecutive intervals that share one point in the charts.
type Bucket []result.Interval

// PerPoint returns how many of n intervals share a point.
func PerPoint(n int) int { return max(1, (n+maxPoints-1)/maxPoints) }

// buckets divides intervals into at most maxPoints buckets of a size.
func buckets(ivs []result.Interval) (out []Bucket, size int) {
	size = PerPoint(len(ivs))
	for chunk := range slices.Chunk(ivs, size) {
		out = append(out, chunk)
	}
	return out, size
}

// Parts divides the intervals of a run with this number of rows into n parts of equal rows. An
// interval that extends into the next part belongs to the part where it begins.
func Parts(ivs []result.Interval, rows float64, n int) []Bucket {
	out := make([]Bucket, n)
	at := 0
	for i := range out {
		end, upTo := at, rows*float64(i+1)/float64(n)
		for end < len(ivs) && (i == n-1 || float64(ivs[end].Rows-ivs[end].NewRows) < upTo) {
			end++
		}
		out[i], at = ivs[at:end], end
	}
	return out
}

func (b Bucket) last() *result.Interval { return &b[len(b)-1] }

// Rate returns the rows per second; NaN if the bucket took no time.
func (b Bucket) Rate() float64 {
	var rows int64
	var secs float64
	for i := range b {
		rows += b[i].NewRows
		secs += b[i].Seconds
	}
	if secs <= 0 {
		return math.NaN()
	}
	return float64(rows) / secs
}

// rates returns the spread of the intervals' rates.
func (b Bucket) rates() spread {
	s := newSpread()
	for i := range b {
		s.span(b[i].Rate())
	}
	s.mean = b.Rate()
	return s
}

// A spread has the mean of a figure over the intervals of a bucket, weighted by their duration, and
// the extremes. All are NaN if no interval has the figure.
type spread struct{ mean, lo, hi float64 }

func newSpread() spread { return spread{math.NaN(), math.NaN(), math.NaN()} }

func (s *spread) span(v float64) {
	if !(s.lo <= v) {
		s.lo = v
	}
	if !(s.hi >= v) {
		s.hi = v
	}
}

// Mean returns the mean of a counter, weighted by time; NaN if the bucket lacks the counter.
func (b Bucket) Mean(counter string) float64 { return b.counter(counter).mean }

func (b Bucket) counter(name string) spread {
	var sum, weight float64
	out := newSpread()
	for i := range b {
		v, ok := b[i].Counters[name]
		if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		secs := max(b[i].Seconds, 1e-9)
		sum += v * secs
		weight += secs
		out.span(v)
	}
	if weight > 0 {
		out.mean = sum / weight
	}
	return out
}

// Latency returns the latencies of an operation over a bucket; ok is false if none were measured.
// It takes percentiles from the merged histograms of the intervals. If a histogram is damaged, it
// takes the highest percentile of any interval instead, which never makes a server look better.
func (b Bucket) Latency(m *result.Merger, op string, of func(*result.Interval) map[string]result.Histogram) (out result.Latency, ok bool) {
	m.Reset()
	damaged := false
	for i := range b {
		h, has := of(&b[i])[op]
		if !has || h.Count == 0 {
			continue
		}
		if len(b) > 1 && m.Add(h) != nil {
			damaged = true
		}
		ok = true
		out.Count += h.Count
		out.P50, out.P95, out.P99 = max(out.P50, h.P50), max(out.P95, h.P95), max(out.P99, h.P99)
		out.P999, out.Max = max(out.P999, h.P999), max(out.Max, h.Max)
	}
	if len(b) > 1 && !damaged && m.Count() > 0 {
		worst := out.Max
		out = m.Latency()
		out.Max = max(out.Max, worst)
	}
	return out, ok
}

// rowsAt returns the number of rows that a run had after the given seconds.
func rowsAt(c result.Curve, elapsed float64) float64 {
	i := sort.Search(len(c), func(i int) bool { return c[i].Elapsed >= elapsed })
	switch {
	case i == len(c):
		return c.Rows()
	case i == 0:
		return 0
	}
	a, b := c[i-1], c[i]
	return a.Rows + (b.Rows-a.Rows)*(elapsed-a.Elapsed)/(b.Elapsed-a.Elapsed)
}
