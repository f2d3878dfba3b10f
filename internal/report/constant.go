package report

import (
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// constantSize compares the runs whose tables were kept at a number of rows.
func constantSize(vs []view) *section {
	c := &columns{}
	for i := range vs {
		if vs[i].rec.Run.KeepRows > 0 {
			c.Labels, c.Facts = append(c.Labels, vs[i].label), append(c.Facts, vs[i].constant())
		}
	}
	if len(c.Labels) == 0 {
		return nil
	}
	t := c.Sheet()
	t.Note = "Bounds are without the rows that come in while a drop is awaited. Rates are from when the tables had their size. Bloat is the tables' bytes on disk for each row held at the end, against those when the size was reached."
	return &section{Title: "Constant size", Parts: []Part{t}}
}

func (v *view) constant() []fact {
	r := v.rec
	keep := float64(r.Run.KeepRows)
	held, rate, size, perRow, bloat := none, none, none, none, none
	if h := r.Held(); h != nil {
		held = fmt.Sprintf("%s to %s", count(h.Least), count(h.Most))
	}
	if v.curve.Rows() > keep {
		rate = figure(v.curve.RateBetween(keep, v.curve.Rows()))
	}
	if z := v.sum.SizeBytes; z != nil {
		size, perRow = bytes(z.Data+z.Index), figure(z.PerRow)
		if r.End.SizeReached != nil && r.End.SizeReached.PerRow > 0 {
			bloat = ratio(z.PerRow / r.End.SizeReached.PerRow)
		}
	}
	by, removals, rows, removal := v.removals()
	insert := v.sum.LatencyUS["insert"]
	out := []fact{{"rows to keep", count(r.Run.KeepRows)}, {"bounds", fmt.Sprintf("%s to %s", count(r.Run.HeldRows[0]), count(r.Run.HeldRows[1]))},
		{"rows held", held}, {"removed by", by}, {"removals", removals}, {"rows removed", rows}}
	for _, op := range []struct {
		name string
		l    result.Latency
	}{{"removal", removal}, {"insert", insert}} {
		if op.name == "insert" {
			out = append(out, fact{"inserts/s at that size", rate})
		}
		for _, q := range []struct {
			name string
			us   int64
		}{{" p50", op.l.P50}, {" p99", op.l.P99}, {" max", op.l.Max}} {
			value := micros(q.us)
			if op.l.Count == 0 {
				value = none
			}
			out = append(out, fact{op.name + q.name, value})
		}
	}
	return append(out, fact{"size at the end", size}, fact{"bytes for each row", perRow}, fact{"bloat", bloat},
		fact{"purge lag at most", v.lag()}, fact{"stalls", v.stalls()})
}

// removals describes how the oldest rows were removed, and how long that took.
func (v *view) removals() (by, n, rows string, took result.Latency) {
	if d, ok := v.sum.Beside["delete"]; ok {
		return "deletes", count(d.Operations), count(d.Rows), v.sum.LatencyUS["delete"]
	}
	h := result.NewHistogram()
	for i := range v.rec.Intervals {
		for _, e := range v.rec.Intervals[i].Events {
			if strings.HasPrefix(e.What, "drop partition") {
				_ = h.RecordValue(max(1, int64(1e6*e.Seconds))) // fails only above a day
			}
		}
	}
	took = result.LatencyOf(h)
	switch {
	case took.Count == 0:
		rows = "0"
	case v.rec.End == nil:
		rows = none
	default:
		rows = count(v.rec.End.DroppedRows)
	}
	return "drops of periods", count(took.Count), rows, took
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
