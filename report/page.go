package report

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// A pageData is what the page's script draws; it stands in the page as JSON.
type pageData struct {
	Runs     []runData     `json:"runs"`
	Counters []counterData `json:"counters"`
}

// A runData is the series of one run. Rows and Time are the ends of the
// intervals, and every series of Latency, Response, Counters, Backlog, Errors
// and Retries has one figure for each.
type runData struct {
	Label string    `json:"label"`
	Light string    `json:"light"`
	Dark  string    `json:"dark"`
	Dash  []float64 `json:"dash"`
	// Rate has positions of its own, which are finer where the marks allow it.
	Rate rateData `json:"rate"`
	Rows axis     `json:"rows"`
	Time axis     `json:"time"`
	// Latency and Response are in microseconds, by operation and percentile.
	Latency  map[string]map[string]series `json:"latency"`
	Response map[string]map[string]series `json:"response"`
	Counters map[string]series            `json:"counters"`
	Backlog  series                       `json:"backlog,omitempty"`
	Errors   series                       `json:"errors,omitempty"`
	Retries  series                       `json:"retries,omitempty"`
	Events   []eventData                  `json:"events"`
	Knee     *markData                    `json:"knee"`
	// Asked is the rate asked for in rows/s; 0 is a closed loop.
	Asked float64 `json:"asked,omitempty"`
}

// A rateData is the rate against either axis.
type rateData struct {
	Rows rateOver `json:"rows"`
	Time rateOver `json:"time"`
}

type rateOver struct {
	At   axis   `json:"at"`
	Rate series `json:"rate"`
}

// A markData is a place on both axes.
type markData struct {
	Rows float64 `json:"rows"`
	Time float64 `json:"time"`
}

type eventData struct {
	markData
	Seconds float64 `json:"seconds"`
	What    string  `json:"what"`
}

// A counterData describes one chart of counters.
type counterData struct {
	Name  string `json:"name"`
	Group string `json:"group"`
	Unit  string `json:"unit"`
	Help  string `json:"help"`
	// Limit names a counter that is drawn as the limit of this one.
	Limit string `json:"limit,omitempty"`
}

// limits are counters that bound others: drawn together, a chart shows at a
// glance when an index outgrows the cache.
var limits = map[string]string{
	"cache_used_bytes":     "cache_bytes",
	"cache_dirty_bytes":    "cache_bytes",
	"table_data_bytes":     "cache_bytes",
	"table_index_bytes":    "cache_bytes",
	"checkpoint_age_bytes": "checkpoint_max_bytes",
}

// perRow are counters whose figure for each inserted row explains more than
// their rate, as it stays level while only the rate of inserts changes.
var perRow = []struct{ of, name, unit, help string }{
	{"page_reads", "page_reads_per_row", "pages/row", "pages read from disk for each inserted row"},
	{"page_writes", "page_writes_per_row", "pages/row", "pages written to disk for each inserted row"},
	{"redo_written_bytes", "redo_written_bytes_per_row", "bytes/row", "redo or WAL written for each inserted row"},
	{"os_disk_write_bytes", "os_disk_write_bytes_per_row", "bytes/row", "written to disk for each inserted row"},
}

func newPageData(vs []view) pageData {
	st := styles(vs)
	var d pageData
	for i := range vs {
		d.Runs = append(d.Runs, vs[i].data(st[i]))
	}
	d.Counters = pageCounters(vs)
	return d
}

// pageCounters lists the charts of counters that any run has figures for.
func pageCounters(vs []view) []counterData {
	out := []counterData{}
	seen := map[string]bool{}
	add := func(c counterData) {
		if !seen[c.Name] {
			seen[c.Name] = true
			out = append(out, c)
		}
	}
	for i := range vs {
		rec := vs[i].rec
		has := map[string]bool{}
		for j := range rec.Intervals {
			for name := range rec.Intervals[j].Counters {
				has[name] = true
			}
		}
		for _, c := range rec.Run.Counters {
			if !has[c.Name] {
				continue
			}
			delete(has, c.Name)
			add(counterData{c.Name, c.Group, c.Unit, c.Help, limits[c.Name]})
			for _, p := range perRow {
				if p.of == c.Name {
					add(counterData{p.name, c.Group, p.unit, p.help, ""})
				}
			}
		}
		// Figures that the header doesn't describe are shown all the same.
		for _, name := range slices.Sorted(maps.Keys(has)) {
			group := "server"
			if before, _, ok := strings.Cut(name, "_"); ok && (before == "os" || before == "client") {
				group = before
			}
			add(counterData{name, group, "", "", limits[name]})
		}
	}
	return out
}

func (v *view) data(s style) runData {
	bs, _ := buckets(v.rec.Intervals)
	d := runData{
		Label: oneLine(v.label), Light: s.light, Dark: s.dark, Dash: s.dash, Asked: v.rec.Run.Rate,
		Rate: v.rateData(bs), Rows: axis{}, Time: axis{}, Events: []eventData{},
		Latency:  percentiles(bs, func(iv *result.Interval) map[string]result.Histogram { return iv.Latency }),
		Response: percentiles(bs, func(iv *result.Interval) map[string]result.Histogram { return iv.Response }),
		Counters: map[string]series{},
	}
	names := map[string]bool{}
	for i, b := range bs {
		d.Rows, d.Time = d.Rows.add(float64(b.last().Rows)), d.Time.add(b.last().Elapsed)
		for j := range b {
			for name := range b[j].Counters {
				names[name] = true
			}
		}
		for k, count := range []func(*result.Interval) int64{
			func(iv *result.Interval) int64 { return iv.Backlog },
			func(iv *result.Interval) int64 { return iv.Errors },
			func(iv *result.Interval) int64 { return iv.Retries },
		} {
			var n int64
			for j := range b {
				if k == 0 {
					n = max(n, count(&b[j]))
				} else {
					n += count(&b[j])
				}
			}
			dst := []*series{&d.Backlog, &d.Errors, &d.Retries}[k]
			if *dst == nil {
				*dst = make(series, len(bs))
			}
			(*dst)[i] = float64(n)
		}
	}
	for _, s := range []*series{&d.Backlog, &d.Errors, &d.Retries} {
		if !slices.ContainsFunc(*s, func(f float64) bool { return f != 0 }) {
			*s = nil
		}
	}
	for name := range names {
		s := make(series, len(bs))
		for i, b := range bs {
			s[i] = b.counter(name)
		}
		d.Counters[name] = s
	}
	for _, p := range perRow {
		if of, ok := d.Counters[p.of]; ok {
			s := make(series, len(bs))
			for i, b := range bs {
				s[i] = math.NaN()
				if rate := b.rate(); rate > 0 {
					s[i] = of[i] / rate
				}
			}
			d.Counters[p.name] = s
		}
	}
	v.marks(&d)
	return d
}

// maxEvents bounds the events drawn; the events beyond it are in the record.
const maxEvents = 2000

func (v *view) marks(d *runData) {
	for i := range v.rec.Intervals {
		for _, e := range v.rec.Intervals[i].Events {
			if len(d.Events) < maxEvents {
				d.Events = append(d.Events, eventData{
					markData{math.Round(rowsAt(v.curve, e.Elapsed)), e.Elapsed}, e.Seconds, oneLine(strings.TrimSpace(e.What + " " + e.Object))})
			}
		}
	}
	if k := v.sum.Knee; k != nil {
		at := v.curve.TimeAt(float64(k.Rows))
		if math.IsNaN(at) {
			at = v.sum.Seconds
		}
		d.Knee = &markData{float64(k.Rows), math.Round(at*1e3) / 1e3}
	}
}

// fineWindows is how many points a rate gets at most from the course of the
// run, whose marks stand at each hundredth of the rows beside the intervals.
const fineWindows = 200

// rateData returns the rate over equal parts of the rows, and over intervals;
// for a run of few intervals both are the former, where its marks tell more.
func (v *view) rateData(bs []bucket) rateData {
	var d rateData
	if n := min(fineWindows, len(v.curve)-1); n > 0 && v.curve.Rows() > 0 {
		total := v.curve.Rows()
		for i, rate := range v.curve.Windows(n) {
			end := total * float64(i+1) / float64(n)
			d.Rows.At, d.Rows.Rate = d.Rows.At.add(end), append(d.Rows.Rate, rate)
			d.Time.At, d.Time.Rate = d.Time.At.add(v.curve.TimeAt(end)), append(d.Time.Rate, rate)
		}
	}
	if len(bs) >= len(d.Time.At) || len(bs) >= fineWindows/2 {
		d.Time = rateOver{}
		for _, b := range bs {
			d.Time.At, d.Time.Rate = d.Time.At.add(b.last().Elapsed), append(d.Time.Rate, b.rate())
		}
	}
	return d
}

// percentiles returns, by operation, the series p50, p95, p99 and max.
func percentiles(bs []bucket, of func(*result.Interval) map[string]result.Histogram) map[string]map[string]series {
	names := map[string]bool{}
	for _, b := range bs {
		for i := range b {
			for op := range of(&b[i]) {
				names[op] = true
			}
		}
	}
	out := map[string]map[string]series{}
	for op := range names {
		p50, p95, p99, worst := make(series, len(bs)), make(series, len(bs)), make(series, len(bs)), make(series, len(bs))
		for i, b := range bs {
			l, ok := b.latency(op, of)
			p50[i], p95[i], p99[i], worst[i] = float64(l.P50), float64(l.P95), float64(l.P99), float64(l.Max)
			if !ok {
				p50[i], p95[i], p99[i], worst[i] = math.NaN(), math.NaN(), math.NaN(), math.NaN()
			}
		}
		out[op] = map[string]series{"p50": p50, "p95": p95, "p99": p99, "max": worst}
	}
	return out
}
