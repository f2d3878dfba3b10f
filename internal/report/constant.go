package report

import (
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// constantSize compares the runs whose tables were kept at a number of rows: the
// cost of removing the oldest rows, and what remained of them.
func constantSize(vs []view) *section {
	g := &table{Header: []string{""},
		Note: "Bounds are without the rows that come in while a drop is awaited. Rates are from when the tables had their size. Bloat is the tables' bytes on disk for each row held at the end, against those when the size was reached."}
	for _, name := range constantNames {
		g.add(name)
	}
	for i := range vs {
		if vs[i].rec.Run.KeepRows == 0 {
			continue
		}
		g.Header = append(g.Header, vs[i].label)
		for j, cell := range vs[i].constant() {
			g.Rows[j] = append(g.Rows[j], cell)
		}
	}
	if len(g.Header) == 1 {
		return nil
	}
	return &section{Title: "Constant size", Parts: []Part{g}}
}

// constantNames are the names of that table's rows.
var constantNames = []string{
	"rows to keep", "bounds", "rows held", "removed by", "removals", "rows removed", "removal p50", "removal p99", "removal max",
	"inserts/s at that size", "insert p50", "insert p99", "insert max", "size at the end", "bytes for each row", "bloat", "purge lag at most", "stalls",
}

// constant returns the run's figures, in the order of constantNames.
func (v *view) constant() []string {
	r := v.rec
	keep := float64(r.Run.KeepRows)
	held := none
	if h := r.Held(); h != nil {
		held = fmt.Sprintf("%s to %s", count(h.Least), count(h.Most))
	}
	by, removals, rows, p50, p99, worst := v.removals()
	rate := none
	if v.curve.Rows() > keep {
		rate = figure(v.curve.RateBetween(keep, v.curve.Rows()))
	}
	insert := v.sum.LatencyUS["insert"]
	size, perRow, bloat := none, none, none
	if z := v.sum.SizeBytes; z != nil {
		size, perRow = bytes(float64(z.Data+z.Index)), figure(z.PerRow)
	}
	if z := v.sum.SizeBytes; z != nil && r.End.SizeReached != nil && r.End.SizeReached.PerRow > 0 {
		bloat = ratio(z.PerRow / r.End.SizeReached.PerRow)
	}
	return []string{
		count(r.Run.KeepRows), fmt.Sprintf("%s to %s", count(r.Run.HeldRows[0]), count(r.Run.HeldRows[1])), held,
		by, removals, rows, p50, p99, worst,
		rate, micros(float64(insert.P50)), micros(float64(insert.P99)), micros(float64(insert.Max)),
		size, perRow, bloat, v.lag(), v.stalls(),
	}
}

// removals describes how the oldest rows were removed, and how long that took.
func (v *view) removals() (by, n, rows, p50, p99, worst string) {
	if d, ok := v.sum.Beside["delete"]; ok {
		l := v.sum.LatencyUS["delete"]
		return "deletes", count(d.Operations), count(d.Rows), micros(float64(l.P50)), micros(float64(l.P99)), micros(float64(l.Max))
	}
	h := result.NewHistogram()
	for i := range v.rec.Intervals {
		for _, e := range v.rec.Intervals[i].Events {
			if strings.HasPrefix(e.What, "drop partition") {
				_ = h.RecordValue(max(1, int64(1e6*e.Seconds))) // fails only above a day
			}
		}
	}
	if h.TotalCount() == 0 {
		return "drops of periods", "0", "0", none, none, none
	}
	gone := none
	if v.rec.End != nil {
		gone = count(v.rec.End.DroppedRows)
	}
	l := result.LatencyOf(h)
	return "drops of periods", count(l.Count), gone, micros(float64(l.P50)), micros(float64(l.P99)), micros(float64(l.Max))
}

// lags maps figures to the cleanup work that removed rows leave behind.
var lags = []struct{ name, of string }{
	{"purge_lag_transactions", "transactions not purged"},
	{"dead_tuples", "dead rows"},
}

func (v *view) lag() string {
	for _, l := range lags {
		most, known := 0.0, false
		for i := range v.rec.Intervals {
			if n, ok := v.rec.Intervals[i].Counters[l.name]; ok {
				most, known = max(most, n), true
			}
		}
		if known {
			return figure(most) + " " + l.of
		}
	}
	return none
}
