package result

import (
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/rowmill/rowmill/internal/figure"
)

// A Point of a run: Rows rows were acknowledged in the first Elapsed seconds.
type Point struct {
	Rows    float64
	Elapsed float64
}

// A Curve is the course of a run: points with strictly increasing time and
// non-decreasing rows, starting at (0, 0).
type Curve []Point

// Curve returns the run's course, from its intervals and the marks in them.
func (r *Record) Curve() Curve {
	var pts []Point
	for _, iv := range r.Intervals {
		for _, m := range iv.Marks {
			pts = append(pts, Point{m[0], m[1]})
		}
		pts = append(pts, Point{float64(iv.Rows), iv.Elapsed})
	}
	sort.SliceStable(pts, func(i, j int) bool { return pts[i].Elapsed < pts[j].Elapsed })
	c := Curve{{}}
	for _, p := range pts {
		last := &c[len(c)-1]
		switch {
		case math.IsInf(p.Rows+p.Elapsed, 0) || p.Rows < last.Rows:
		case p.Elapsed > last.Elapsed:
			c = append(c, p)
		case p.Elapsed == last.Elapsed && p.Elapsed > 0:
			// A large batch passes several marks at one time. They become one point, which has the rows of
			// the last mark: these rows took the time since the previous batch, not zero time.
			last.Rows = p.Rows
		}
	}
	return c
}

// Rows returns the number of rows at the end of the curve.
func (c Curve) Rows() float64 { return c[len(c)-1].Rows }

// TimeAt returns the time at which the number of rows was first reached,
// interpolated between points; NaN beyond the curve's end.
func (c Curve) TimeAt(rows float64) float64 {
	i := sort.Search(len(c), func(i int) bool { return c[i].Rows >= rows })
	switch {
	case i == len(c):
		return math.NaN()
	case i == 0:
		return c[0].Elapsed
	}
	a, b := c[i-1], c[i]
	return a.Elapsed + (b.Elapsed-a.Elapsed)*(rows-a.Rows)/(b.Rows-a.Rows)
}

// RateBetween returns the mean rate, in rows per second, while the number of rows rose from `from`
// to `to`; NaN if the curve ends before `to`.
func (c Curve) RateBetween(from, to float64) float64 {
	if to <= from {
		return math.NaN()
	}
	return (to - from) / (c.TimeAt(to) - c.TimeAt(from))
}

// Windows divides the curve into n windows of equal rows and returns the mean rate
// of each; nil if there are no rows.
func (c Curve) Windows(n int) []float64 {
	total := c.Rows()
	if total <= 0 {
		return nil
	}
	out := make([]float64, n)
	for i := range out {
		out[i] = c.RateBetween(total*float64(i)/float64(n), total*float64(i+1)/float64(n))
	}
	return out
}

// tenths is the number of parts over which Rate is defined.
const tenths = 10

func (c Curve) rate() Rate {
	w := c.Windows(tenths)
	if w == nil {
		return Rate{}
	}
	r := Rate{First: w[0], Last: w[tenths-1], Min: slices.Min(w)}
	if r.First > 0 {
		r.Flatness = r.Last / r.First
	}
	return r
}

// kneeWindows is the resolution of the knee: fiftieths of the rows.
const kneeWindows = 50

// kneeRows returns the knee: the number of rows at which the rate fell below half of the first
// tenth's rate. ok is false if no tenth of the rows was that slow. lasting means that most of the
// rows after the knee were inserted that slowly. If the rate recovered, the knee is the first
// fiftieth of the rows that is slow itself and begins a slow tenth.
func (c Curve) kneeRows() (rows float64, lasting, ok bool) {
	r := c.rate()
	half := r.First / 2
	if r.First <= 0 || r.Min >= half {
		return 0, false, false
	}
	const tenth = kneeWindows / tenths
	total := c.Rows()
	fiftieths := c.Windows(kneeWindows)
	at := func(i int) float64 { return total * float64(i) / kneeWindows }
	// The median, because a few very slow parts would decide the mean.
	for i, rate := range fiftieths[:kneeWindows-tenth+1] {
		if rate < half && median(fiftieths[i:]) < half {
			return at(i), true, true
		}
	}
	for i, rate := range fiftieths {
		end := min(i+tenth, kneeWindows)
		if rate < half && c.RateBetween(at(i), at(end)) < half {
			return at(i), end == kneeWindows, true
		}
	}
	// No fiftieth qualifies: the slow part is somewhere in the slowest tenth.
	return total * float64(slices.Index(c.Windows(tenths), r.Min)) / tenths, false, true
}

// median returns the median of values, the upper one if their number is even.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return v[len(v)/2]
}

// Figures that explain a knee, by their names in package engine.
const (
	figCache         = "cache_bytes"
	figTableIndex    = "table_index_bytes"
	figTableData     = "table_data_bytes"
	figPageReads     = "page_reads"
	figPageWrites    = "page_writes"
	figCheckpointAge = "checkpoint_age_bytes"
	figCheckpointMax = "checkpoint_max_bytes"
	figLogWaits      = "log_waits"
	figPurgeLag      = "purge_lag_transactions"
	figSteal         = "os_cpu_steal"
)

// knee locates the knee of the run and its probable cause; nil if there is none, because the rate
// of each tenth of the rows was at least half of the first tenth's rate.
func (r *Record) knee(c Curve) *Knee {
	rows, lasting, ok := c.kneeRows()
	if !ok {
		return nil
	}
	why := r.why(c, rows, lasting)
	if !lasting {
		why += fmt.Sprintf("; the rate recovered, to %s rows/s in the last tenth", figure.Rounded(c.rate().Last))
	}
	return &Knee{Rows: int64(math.Round(rows)), Why: why}
}

// why explains the knee: it compares the run's first tenth with the part after the knee. That part
// goes to the end of the run or, if the rate recovered, over a tenth of the rows.
func (r *Record) why(c Curve, rows float64, lasting bool) string {
	total := c.Rows()
	before := r.means(0, max(total/tenths, 1))
	end := total
	if !lasting {
		end = min(rows+total/tenths, total)
	}
	after := r.means(rows, end)
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }

	cache := float64(r.Run.CacheBytes)
	if v, ok := after[figCache]; ok && v > 0 {
		cache = v
	}
	index, data := r.sizeAt(rows, figTableIndex), r.sizeAt(rows, figTableData)
	if cache > 0 && index+data > 0.5*cache {
		switch {
		case index > 0:
			add("the secondary indexes had grown to %s and the rows to %s, against a cache of %s", figure.Bytes(index), figure.Bytes(data), figure.Bytes(cache))
		default:
			add("the table had grown to %s, against a cache of %s", figure.Bytes(data), figure.Bytes(cache))
		}
	}
	perRow := func(name, what string) {
		rb, ra := before.perRow(name), after.perRow(name)
		if ra > 0.05 && ra > 2*rb {
			add("%s rose from %s to %s per row", what, figure.Number(rb), figure.Number(ra))
		}
	}
	perRow(figPageReads, "page reads")
	if n := len(parts); n > 0 && strings.HasPrefix(parts[n-1], "page reads") {
		for _, read := range []string{"server_io_read_bytes", "disk_read_bytes"} {
			if v, ok := after[read]; ok && v < leastPage/2*after[figPageReads] {
				parts[n-1] += ", from the system's cache: the disk read " + figure.Bytes(v) + "/s"
				break
			}
		}
	}
	if text := r.diskReads(after); text != "" {
		parts = append(parts, text)
	}
	perRow(figPageWrites, "page writes")
	if age, limit := after[figCheckpointAge], after[figCheckpointMax]; limit > 0 && age > 0.75*limit {
		add("the checkpoint age stood at %.0f%% of its limit of %s, where the server throttles writes", 100*age/limit, figure.Bytes(limit))
	}
	if w := after[figLogWaits]; w > 1 {
		add("the log buffer was waited for %.0f times a second", w)
	}
	if lag := after[figPurgeLag]; lag > 1e5 && lag > 4*before[figPurgeLag] {
		add("purge had fallen %.0f transactions behind", lag)
	}
	if steal := after[figSteal]; steal > 0.1 && steal > 2*before[figSteal] {
		add("%.0f%% of the CPU time was stolen by the host", 100*steal)
	}
	if len(parts) == 0 {
		return "none of the recorded counters moved with it"
	}
	return strings.Join(parts, "; ")
}

// leastPage is the size of the smallest usual page, in bytes.
const leastPage = 4096

// figures maps counters to their means over a part of a run, weighted by time.
type figures map[string]float64

// rowsRate is the key of the insert rate in the results of means.
const rowsRate = "\x00rows/s"

func (f figures) perRow(name string) float64 {
	if f[rowsRate] <= 0 {
		return 0
	}
	return f[name] / f[rowsRate]
}

// means returns the means of the figures over the intervals that begin at `from` rows or later, and
// before `to` rows.
func (r *Record) means(from, to float64) figures {
	var part []Interval
	for _, iv := range r.Intervals {
		if begin := float64(iv.Rows - iv.NewRows); begin >= from && begin < to {
			part = append(part, iv)
		}
	}
	return mean(part)
}

// sizeAt returns the size of the table's data, or of its indexes if name is figTableIndex, when the
// table had the given number of rows. If the final size was measured, the result is that size in
// proportion to the rows, because the sizes that servers report during the run lag behind.
// Otherwise it is the size that the server had reported by that number of rows.
func (r *Record) sizeAt(rows float64, name string) float64 {
	kept := 0.0
	if r.End != nil && len(r.Intervals) > 0 {
		kept = float64(r.Intervals[len(r.Intervals)-1].Rows - r.End.DroppedRows)
	}
	if r.End != nil && r.End.Size != nil && kept > 0 {
		final := float64(r.End.Size.Data)
		if name == figTableIndex {
			final = float64(r.End.Size.Index)
		}
		return final * rows / kept
	}
	var best float64
	for _, iv := range r.Intervals {
		if v, ok := iv.Counters[name]; ok {
			best = v
		}
		if float64(iv.Rows) >= rows {
			break
		}
	}
	return best
}
