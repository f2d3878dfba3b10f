package result

import (
	"fmt"
	"math"
	"strings"

	"github.com/rowmill/rowmill/internal/figure"
)

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

// knee locates the knee of the run and its probable cause; nil if no tenth of the
// rows fell below half of the first.
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

// why compares the run's first tenth with its course from the knee on: to the end,
// or over a tenth if the rate recovered.
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
			add("%s rose from %.2f to %.2f per row", what, rb, ra)
		}
	}
	perRow(figPageReads, "page reads")
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

// means returns the figures over the intervals that begin between `from` rows
// (inclusive) and `to` rows (exclusive).
func (r *Record) means(from, to float64) figures {
	var part []Interval
	for _, iv := range r.Intervals {
		if begin := float64(iv.Rows - iv.NewRows); begin >= from && begin < to {
			part = append(part, iv)
		}
	}
	return mean(part)
}

// sizeAt returns a size of the table at the given number of rows. If the final size
// was measured, it is proportional to that, because the sizes that servers report
// during the run lag behind; otherwise it is the size reported by then.
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
