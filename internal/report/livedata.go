package report

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// A pageData is the data drawn by the page's script.
type pageData struct {
	Runs     []runData     `json:"runs"`
	Counters []counterData `json:"counters"`
	// Apart gives each run its own chart of the rate, as for the steps of a benchmark.
	Apart bool `json:"apart,omitempty"`
	// Axis is the first axis of all charts if it isn't that of rows; "day" offers the time of day as
	// well.
	Axis string `json:"axis,omitempty"`
}

// A runData contains the series of one run, with one figure for each interval's end in Rows
// and Time.
type runData struct {
	Label string    `json:"label"`
	Light string    `json:"light"`
	Dark  string    `json:"dark"`
	Dash  []float64 `json:"dash"`
	// Rate has its own positions, which are finer if the marks allow it.
	Rate rateData `json:"rate"`
	Rows axis     `json:"rows"`
	Time axis     `json:"time"`
	// Latency and Response are in microseconds, by operation and percentile.
	Latency  map[string]map[string]series `json:"latency"`
	Response map[string]map[string]series `json:"response"`
	Counters map[string]figureData        `json:"counters"`
	Backlog  series                       `json:"backlog,omitempty"`
	Errors   series                       `json:"errors,omitempty"`
	Retries  series                       `json:"retries,omitempty"`
	Events   []eventData                  `json:"events"`
	Stalls   []stallData                  `json:"stalls"`
	Knee     *markData                    `json:"knee"`
	// Asked is the requested rate in rows/s; 0 means a closed loop.
	Asked float64 `json:"asked,omitempty"`
	// Limit is that of the p99, in microseconds; Shift converts elapsed seconds to those of the first
	// run's first day.
	Limit float64 `json:"limit,omitempty"`
	Shift float64 `json:"shift,omitempty"`
}

// A figureData is a figure over the points: its mean and, if they represent several
// intervals, its extremes.
type figureData struct {
	Mean series `json:"mean"`
	Lo   series `json:"lo,omitempty"`
	Hi   series `json:"hi,omitempty"`
}

func (f *figureData) add(s spread, ranged bool) {
	f.Mean = append(f.Mean, s.mean)
	if ranged {
		f.Lo, f.Hi = append(f.Lo, s.lo), append(f.Hi, s.hi)
	}
}

// A rateData is the rate against either axis.
type rateData struct {
	Rows rateOver `json:"rows"`
	Time rateOver `json:"time"`
}

type rateOver struct {
	At axis `json:"at"`
	figureData
	// Smooth is the moving mean of a rate that goes up and down.
	Smooth series `json:"smooth,omitempty"`
}

// A markData is a position on both axes.
type markData struct {
	Rows float64 `json:"rows"`
	Time float64 `json:"time"`
}

type eventData struct {
	markData
	Seconds float64 `json:"seconds"`
	What    string  `json:"what"`
}

type stallData struct {
	From    markData `json:"from"`
	To      markData `json:"to"`
	Seconds float64  `json:"seconds"`
	Why     string   `json:"why"`
}

// A counterData describes one chart of counters.
type counterData struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	Unit  string `json:"unit"`
	Help  string `json:"help"`
	// Limit names the counter that is drawn as the limit of this one.
	Limit string `json:"limit,omitempty"`
	// Telling counters explain most drops of a rate; the others are folded away.
	Telling bool `json:"telling,omitempty"`
}

// limits maps counters to those that bound them, drawn in one chart: they show when an index
// outgrows the cache.
var limits = map[string]string{
	"cache_used_bytes":     "cache_bytes",
	"cache_dirty_bytes":    "cache_bytes",
	"table_data_bytes":     "cache_bytes",
	"table_index_bytes":    "cache_bytes",
	"checkpoint_age_bytes": "checkpoint_max_bytes",
}

// perRow are the counters also shown per inserted row, which stays constant if only the insert
// rate changes.
var perRow = []struct{ of, name, unit, help string }{
	{"page_reads", "page_reads_per_row", "pages/row", "pages that the database's cache lacked, for each inserted row"},
	{"page_writes", "page_writes_per_row", "pages/row", "pages written for each inserted row"},
	{"redo_written_bytes", "redo_written_bytes_per_row", "bytes/row", "redo or WAL written for each inserted row"},
	{"server_io_write_bytes", "server_io_write_bytes_per_row", "bytes/row", "written by the server for each inserted row"},
	{"disk_write_bytes", "disk_write_bytes_per_row", "bytes/row", "written to the disk for each inserted row"},
}

// telling lists the counters that explain most drops of a rate, most important first.
var telling = []string{
	"page_reads_per_row", "table_index_bytes", "checkpoint_age_bytes", "page_reads", "table_data_bytes", "cache_used_bytes",
	"page_writes_per_row", "page_writes", "cache_dirty_bytes", "redo_written_bytes_per_row", "redo_written_bytes", result.FigureDelay, result.FigureDelayWorst,
}

// liveRuns are the charts of the runs that can be zoomed, those of telling counters first.
func liveRuns(vs []view, telling []string) *document.Live {
	st := styles(vs)
	d := &pageData{Counters: pageCounters(vs, telling), Apart: len(vs) > 1 && !slices.ContainsFunc(vs, func(v view) bool { return v.rec.Run.Step == nil })}
	l := &document.Live{PerPoint: 1}
	for i := range vs {
		v := &vs[i]
		d.Runs = append(d.Runs, v.data(st[i]))
		_, size := buckets(v.rec.Intervals)
		l.PerPoint = max(l.PerPoint, size)
		if k := v.sum.Knee; k != nil {
			l.Knees = append(l.Knees, document.LiveKnee{Label: v.label, At: count(k.Rows), Why: document.AsSentence(k.Why), Style: st[i]})
		}
		if v.loop != nil {
			l.Loops = append(l.Loops, document.Note{Label: v.label, Text: document.AsSentence(v.openLoop())})
		}
	}
	l.Data = d
	return l
}

// rank is the place of a counter among the telling ones, also of one of several servers.
func rank(name string, telling []string) int {
	return (slices.Index(telling, name[strings.LastIndex(name, "/")+1:]) + len(telling) + 1) % (len(telling) + 1)
}

func pageCounters(vs []view, telling []string) []counterData {
	out := []counterData{}
	seen := map[string]bool{}
	add := func(c counterData) {
		if !seen[c.Name] {
			seen[c.Name], c.Telling = true, rank(c.Name, telling) < len(telling)
			out = append(out, c)
		}
	}
	has := map[string]bool{}
	for i := range vs {
		maps.Copy(has, counterNames(vs[i].rec.Intervals))
	}
	for i := range vs {
		for _, c := range vs[i].rec.Run.Counters {
			if !has[c.Name] {
				continue
			}
			add(counterData{Name: c.Name, Group: c.Group, Unit: c.Unit, Help: c.Help, Limit: limits[c.Name]})
			for _, p := range perRow {
				if p.of == c.Name {
					add(counterData{Name: p.name, Group: c.Group, Unit: p.unit, Help: p.help})
				}
			}
		}
	}
	for _, name := range sortedNames(has) { // those that no header describes are shown as well
		group, _, _ := strings.Cut(name, "_")
		if group != "os" && group != "client" {
			group = "server"
		}
		add(counterData{Name: name, Group: group, Limit: limits[name]})
	}
	slices.SortStableFunc(out, func(a, b counterData) int { return cmp.Compare(rank(a.Name, telling), rank(b.Name, telling)) })
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

func (v *view) data(s document.Style) runData {
	bs, size := buckets(v.rec.Intervals)
	d := runData{
		Label: oneLine(v.label), Light: document.Palette[s.Colour].Light, Dark: document.Palette[s.Colour].Dark, Dash: s.Dashes, Asked: v.rec.Run.Rate,
		Rate: v.rateData(bs), Rows: axis{}, Time: axis{}, Events: []eventData{}, Stalls: []stallData{},
		Latency:  percentiles(bs, v.sum.LatencyUS, func(iv *result.Interval) map[string]result.Histogram { return iv.Latency }),
		Response: percentiles(bs, v.sum.ResponseUS, func(iv *result.Interval) map[string]result.Histogram { return iv.Response }),
		Counters: map[string]figureData{},
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
	for _, s := range []*series{&d.Backlog, &d.Errors, &d.Retries} {
		if !slices.ContainsFunc(*s, func(f float64) bool { return f != 0 }) {
			*s = nil
		}
	}
	for name := range counterNames(v.rec.Intervals) {
		var f figureData
		for _, b := range bs {
			f.add(b.counter(name), size > 1)
		}
		d.Counters[name] = f
	}
	for _, p := range perRow {
		if of, ok := d.Counters[p.of]; ok {
			s := make(series, len(bs))
			for i, b := range bs {
				s[i] = math.NaN()
				if rate := b.rate(); rate > 0 {
					s[i] = of.Mean[i] / rate
				}
			}
			d.Counters[p.name] = figureData{Mean: s}
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

func (v *view) marks(d *runData) {
	for i := range v.rec.Intervals {
		for _, e := range v.rec.Intervals[i].Events {
			if len(d.Events) < maxEvents {
				d.Events = append(d.Events, eventData{
					v.markAt(e.Elapsed), e.Seconds, oneLine(strings.TrimSpace(e.What + " " + e.Object))})
			}
		}
	}
	for _, s := range v.longestStalls(maxStalls) {
		d.Stalls = append(d.Stalls, stallData{v.markAt(s.From), v.markAt(s.To), s.Seconds(), oneLine(s.Why)})
	}
	// One line is enough for repeats: their knees are close to each other.
	if k := v.sum.Knee; k != nil && !v.minor {
		at := v.curve.TimeAt(float64(k.Rows))
		if math.IsNaN(at) {
			at = v.sum.Seconds
		}
		d.Knee = &markData{float64(k.Rows), millionths(at)}
	}
}

func (v *view) markAt(elapsed float64) markData {
	return markData{math.Round(rowsAt(v.curve, elapsed)), millionths(elapsed)}
}

// longest returns the n longest of some stalls, the longest first.
func longest[T any](stalls []T, n int, seconds func(T) float64) []T {
	out := slices.SortedStableFunc(slices.Values(stalls), func(a, b T) int { return cmp.Compare(seconds(b), seconds(a)) })
	return out[:min(n, len(out))]
}

// longestStalls returns the run's n longest stalls, in order of time.
func (v *view) longestStalls(n int) []result.Stall {
	out := longest(v.stalled, n, func(s result.Stall) float64 { return s.Seconds() })
	slices.SortFunc(out, func(a, b result.Stall) int { return cmp.Compare(a.From, b.From) })
	return out
}

// The number of points of a rate over rows: that of the run's course, but at most fineWindows,
// or longWindows if each window still contains longEnough intervals.
const (
	fineWindows = 200
	longWindows = 600
	longEnough  = 20
)

// rateData returns the rate over equal parts of the rows, and over intervals; for a run of few
// intervals the former for both, because the marks give more detail.
func (v *view) rateData(bs []bucket) rateData {
	var d rateData
	most := fineWindows
	if len(v.rec.Intervals) >= longWindows*longEnough {
		most = longWindows
	}
	if n := min(v.windows(most), len(v.curve)-1); n > 0 && v.curve.Rows() > 0 {
		total := v.curve.Rows()
		for i, s := range v.rateSpreads(n) {
			end := total * float64(i+1) / float64(n)
			d.Rows.At, d.Time.At = d.Rows.At.add(end), d.Time.At.add(v.curve.TimeAt(end))
			d.Rows.add(s, true)
			d.Time.add(s, true)
		}
	}
	if len(bs) >= len(d.Time.At) || len(bs) >= fineWindows/2 {
		d.Time = rateOver{}
		for _, b := range bs {
			d.Time.At = d.Time.At.add(b.last().Elapsed)
			d.Time.add(b.rates(), len(b) > 1 || d.Time.Lo != nil)
		}
	}
	d.Rows.Smooth, d.Time.Smooth = document.Smoothed(d.Rows.Mean), document.Smoothed(d.Time.Mean)
	return d
}

// rateSpreads returns the rate over n equal parts of the rows, with the extremes of the
// intervals in each.
func (v *view) rateSpreads(n int) []spread {
	out := make([]spread, n)
	for i, rate := range v.curve.Windows(n) {
		out[i] = spread{rate, rate, rate}
	}
	total := v.curve.Rows()
	for i := range v.rec.Intervals {
		iv := &v.rec.Intervals[i]
		begin := float64(iv.Rows-iv.NewRows) / total * float64(n)
		if end := float64(iv.Rows) / total * float64(n); begin >= 0 && begin < float64(n) && end-begin <= 1 {
			out[int(begin)].span(iv.Rate())
		}
	}
	return out
}

// percentiles returns, by operation, the series p50, p95, p99 and max.
func percentiles(bs []bucket, all map[string]result.Latency, of func(*result.Interval) map[string]result.Histogram) map[string]map[string]series {
	var m result.Merger
	out := map[string]map[string]series{}
	for op := range all {
		out[op] = map[string]series{}
		for _, b := range bs {
			l, ok := b.latency(&m, op, of)
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

// A series is a list of figures for a chart, NaN for missing ones. In JSON, figures have five
// significant digits, finer than a pixel, and NaN becomes null.
type series []float64

// MarshalJSON implements json.Marshaler.
func (s series) MarshalJSON() ([]byte, error) { return jsonNumbers(s, 'g', 5) }

// An axis is a list of strictly increasing positions.
type axis []float64

// MarshalJSON implements json.Marshaler.
func (a axis) MarshalJSON() ([]byte, error) { return jsonNumbers(a, 'f', -1) }

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

// add appends a position, further than the last one: charts need increasing positions,
// and an interval without rows ends where it began.
func (a axis) add(f float64) axis {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		f = 0
	}
	f = millionths(f)
	if n := len(a); n > 0 && f <= a[n-1] {
		f = max(a[n-1]+1e-6, math.Nextafter(a[n-1], math.Inf(1)))
	}
	return append(a, f)
}

// A bucket is a list of consecutive intervals that share one point in the charts.
type bucket []result.Interval

// buckets divides intervals into at most maxPoints buckets of a size.
func buckets(ivs []result.Interval) ([]bucket, int) {
	size := max(1, (len(ivs)+maxPoints-1)/maxPoints)
	var out []bucket
	for chunk := range slices.Chunk(ivs, size) {
		out = append(out, chunk)
	}
	return out, size
}

func (b bucket) last() *result.Interval { return &b[len(b)-1] }

func (b bucket) rate() float64 {
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
func (b bucket) rates() spread {
	s := newSpread()
	for i := range b {
		s.span(b[i].Rate())
	}
	s.mean = b.rate()
	return s
}

// A spread is the mean of a figure over a bucket, weighted by time, and its extremes; all are
// NaN if no interval has the figure.
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

func (b bucket) counter(name string) spread {
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

// latency returns the distribution of an operation over the bucket; ok is false if nothing was
// measured. Percentiles are those of the merged histograms; if one can't be decoded, the
// highest of the intervals, which never makes a server look better.
func (b bucket) latency(m *result.Merger, op string, of func(*result.Interval) map[string]result.Histogram) (out result.Latency, ok bool) {
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
