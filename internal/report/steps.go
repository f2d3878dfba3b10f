package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// A benchmark contains the steps of one benchmark, in order.
type benchmark []view

// splitSteps separates the steps of longer benchmarks, one list each, from other runs.
func splitSteps(recs []result.Record) (others []result.Record, steps [][]result.Record) {
	for i := range recs {
		s := recs[i].Run.Step
		if s == nil {
			others = append(others, recs[i])
			continue
		}
		n := len(steps)
		if n > 0 {
			before := &steps[n-1][len(steps[n-1])-1]
			if before.Source == recs[i].Source && before.Run.Step.Benchmark == s.Benchmark && before.Run.Step.Number < s.Number {
				steps[n-1] = append(steps[n-1], recs[i])
				continue
			}
		}
		steps = append(steps, []result.Record{recs[i]})
	}
	return others, steps
}

// loading returns the runs that insert, or all of them if none does.
func loading(recs []result.Record) []result.Record {
	return only(recs, func(r *result.Run) bool { return r.Loads() })
}

// only returns the runs that satisfy a condition, or all if none does.
func only(recs []result.Record, is func(*result.Run) bool) []result.Record {
	out := slices.DeleteFunc(slices.Clone(recs), func(r result.Record) bool { return !is(&r.Run) })
	if len(out) == 0 {
		return recs
	}
	return out
}

func (v *view) asks() bool { return v.sum.Step != nil && v.sum.Step.Query != "" }

// stepName returns the name of a run's step, "" for other runs.
func stepName(r *result.Run) string {
	if r.Step == nil {
		return ""
	}
	return r.Step.Name
}

func (b benchmark) title() string {
	r := &b[0].rec.Run
	return fmt.Sprintf("%s on %s", r.Step.Benchmark, b[0].server())
}

func (b benchmark) verdicts() []string {
	last := &b[len(b)-1]
	first := b[0].rec.Run
	out := []string{fmt.Sprintf("the insert benchmark (%s) on %s: %d of %s", first.Step.Benchmark, first.Engine, len(b), plural(first.Step.Of, "step", "steps"))}
	var failed, passed, asked []string
	var off float64
	keep := int64(0)
	for i := range b {
		s := b[i].sum.Step
		if b[i].asks() {
			asked = append(asked, fmt.Sprintf("%s in %s", figure(s.QueriesPerSecond), s.Name))
		}
		switch {
		case s.SLA == nil:
		case s.SLA.Failed:
			failed = append(failed, fmt.Sprintf("%s (%s of %s)", s.Name, percent(s.SLA.Share), rowsRate(s.SLA.Asked)))
		default:
			passed = append(passed, s.Name)
		}
		if s.Held != nil {
			off, keep = max(off, s.Held.Off), s.KeepRows
		}
	}
	for i, names := range [][]string{asked, failed, passed} {
		if len(names) > 0 {
			out = append(out, []string{"queries per second: ", "the SLA failed in ", "the SLA was met in "}[i]+strings.Join(names, ", "))
		}
	}
	if keep > 0 {
		out = append(out, fmt.Sprintf("deletes kept the tables within %s of %s", percent(off), plural(keep, "row", "rows")))
	}
	switch {
	case last.sum.Verified != nil:
		out = append(out, "verified after the last step: "+strings.TrimPrefix(last.verified(), "yes: "))
	case last.midway():
		out = append(out, "not verified: the rows are checked after the last step, which is missing here")
	}
	return out
}

// parts adds one benchmark's part of the report. If named is set, the sections' titles contain the
// benchmark's title.
func (b benchmark) parts(d *document.Document, named bool) {
	d.Say(false, b.verdicts()...)
	of := onlyIf(named, ": "+b.title())
	all := allProblems(b)
	for i := range all {
		all[i].Label = cmp.Or(all[i].Label, b[0].label)
	}
	d.Notes = append(d.Notes, all...)
	for _, s := range []*document.Section{b.rates(), b.latencies(), b.buckets(), b.costs(), b.did()} {
		s.Title += of
		d.Add(s)
	}
	d.Add(&document.Section{Title: "How it was run" + of, Parts: []document.Part{b.facts()}})
}

// table returns a section with a table, to which rows adds the rows of each step.
func (b benchmark) table(title, note string, header []string, rows func(v *view, s *result.StepSummary, add func(cells ...string))) *document.Section {
	t := &document.Table{Header: header, Note: note}
	for i := range b {
		rows(&b[i], b[i].sum.Step, t.AddKnown)
	}
	return &document.Section{Title: title, Parts: t.Parts()}
}

func (b benchmark) rates() *document.Section {
	return b.table("Rates", "Inserts and deletes are rows per second. The SLA is 95% of the rate asked for. Rows held are those at the step's end, off is by how much they differed from those to keep at most.",
		[]string{"step", "seconds", "rows", "inserts/s", "deletes/s", "queries/s", "asked", "SLA", "rows held", "off", "stalls"},
		func(v *view, s *result.StepSummary, add func(cells ...string)) {
			if !v.rec.Run.Loads() {
				add(s.Name, figure(v.sum.Seconds), "", "", "", "", "", "", count(s.EndRows), "", "")
				return
			}
			asked, sla, off := "", "", ""
			if s.SLA != nil {
				asked, sla = figure(s.SLA.Asked), either(s.SLA.Failed, "FAILED "+percent(s.SLA.Share), "met")
			}
			if s.Held != nil {
				off = percent(s.Held.Off)
			}
			add(s.Name, figure(v.sum.Seconds), count(v.sum.Rows), figure(s.InsertsPerSecond), document.IfAny(s.DeletesPerSecond, figure), document.IfAny(s.QueriesPerSecond, figure),
				asked, sla, count(s.EndRows), off, document.IfAny(v.sum.StallSeconds, func(f float64) string { return figure(f) + " s" }))
		})
}

// stepOps are the operations of the steps, in the order of the tables.
var stepOps = []string{"insert", "delete", "query"}

func (b benchmark) latencies() *document.Section {
	header := []string{"step"}
	for _, op := range stepOps {
		header = append(header, op+" p50", "p99", "max")
	}
	return b.table("Response times", "From the intended start where a rate was asked for, so that waiting counts; else from when it was sent.", header,
		func(v *view, s *result.StepSummary, add func(cells ...string)) {
			if !v.rec.Run.Loads() {
				return
			}
			row := []string{s.Name}
			for _, op := range stepOps {
				l, ok := v.sum.ResponseUS[op]
				if !ok {
					l = v.sum.LatencyUS[op]
				}
				for _, us := range []int64{l.P50, l.P99, l.Max} {
					row = append(row, onlyIf(l.Count > 0, micros(us)))
				}
			}
			add(row...)
		})
}

func (b benchmark) buckets() *document.Section {
	header := []string{"step"}
	for _, us := range result.BucketMicros() {
		header = append(header, "<="+strings.ReplaceAll(micros(us), " ", ""))
	}
	return b.table("Operations by response time", "", append(header, "more"), func(_ *view, s *result.StepSummary, add func(cells ...string)) {
		for _, op := range stepOps {
			if counts, ok := s.Buckets[op]; ok {
				row := []string{s.Name + " " + op}
				for _, n := range counts {
					row = append(row, countIfAny(n))
				}
				add(row...)
			}
		}
	})
}

func (b benchmark) costs() *document.Section {
	return b.table("Cost of an operation", "An insert is a row, with its delete where deletes run. The disk's figures are of the whole device where that is known, else of the server's process. "+
		"Memory is the most that was seen, of some servers since they started.",
		[]string{"step", "per", "disk read", "disk written", "client CPU", "server CPU", "tables", "server's memory"},
		func(v *view, s *result.StepSummary, add func(cells ...string)) {
			size := document.IfKnown(v.sum.SizeBytes, func(z result.Size) string { return bytes(z.Data + z.Index) })
			c := cmp.Or(s.Cost, &result.Cost{})
			add(s.Name, c.Per, document.IfKnown(c.ReadBytes, bytes), document.IfKnown(c.WrittenBytes, bytes), document.IfKnown(c.ClientMicros, micros), document.IfKnown(c.ServerMicros, micros), size, document.IfAny(s.MemoryBytes, bytes))
		})
}

// did returns the section about steps without inserts: what they did, and how long it took.
func (b benchmark) did() *document.Section {
	return b.table("Indexes and settling", "", []string{"step", "what", "seconds", "dirty pages before", "after"}, func(_ *view, s *result.StepSummary, add func(cells ...string)) {
		before, after := "", ""
		if len(s.DirtyBytes) == 2 {
			before, after = bytes(s.DirtyBytes[0]), bytes(s.DirtyBytes[1])
		}
		for _, what := range slices.Sorted(maps.Keys(s.Did)) {
			add(s.Name, what, figure(s.Did[what]), before, after)
			before, after = "", "" // per step, not per action
		}
	})
}

func (b benchmark) facts() document.Facts {
	r := &b[0].rec.Run
	out := document.Facts{{Name: "clients", Value: fmt.Sprintf("%s of %s, method %s, seed %d", plural(r.Writers, "client", "clients"),
		plural(r.Step.Tables, "table", "tables"), r.Method, r.Seed)}}
	for _, f := range b[0].facts() {
		if slices.Contains(conditions, f.Name) {
			out = append(out, f)
		}
	}
	for _, d := range r.Deviations {
		out = append(out, document.Fact{Name: "deviation", Value: d})
	}
	return out
}

// constantSize compares the runs whose tables were kept at a number of rows.
func constantSize(vs []view) *document.Section {
	c := &document.Columns{}
	for i := range vs {
		if vs[i].rec.Run.KeepRows > 0 && vs[i].rec.Run.Search == nil {
			c.Labels, c.Facts = append(c.Labels, vs[i].label), append(c.Facts, vs[i].constant())
		}
	}
	if len(c.Labels) == 0 {
		return nil
	}
	t := c.Sheet()
	t.Note = "Bounds are without the rows that come in while a drop is awaited. Rates are from when the tables had their size. Bloat is the tables' bytes on disk for each row held at the end, against those when the size was reached."
	return &document.Section{Title: "Constant size", Parts: []document.Part{t}}
}

func (v *view) constant() []document.Fact {
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
	out := []document.Fact{{Name: "rows to keep", Value: count(r.Run.KeepRows)}, {Name: "bounds", Value: fmt.Sprintf("%s to %s", count(r.Run.HeldRows[0]), count(r.Run.HeldRows[1]))},
		{Name: "rows held", Value: held}, {Name: "removed by", Value: by}, {Name: "removals", Value: removals}, {Name: "rows removed", Value: rows}}
	times := func(name string, l result.Latency) {
		for _, q := range []struct {
			name string
			us   int64
		}{{" p50", l.P50}, {" p99", l.P99}, {" max", l.Max}} {
			out = append(out, document.Fact{Name: name + q.name, Value: cmp.Or(onlyIf(l.Count > 0, micros(q.us)), none)})
		}
	}
	times("removal", removal)
	out = append(out, document.Fact{Name: "inserts/s at that size", Value: rate})
	times("insert", insert)
	return append(out, document.Fact{Name: "size at the end", Value: size}, document.Fact{Name: "bytes for each row", Value: perRow}, document.Fact{Name: "bloat", Value: bloat},
		document.Fact{Name: "purge lag at most", Value: v.lag()}, document.Fact{Name: "stalls", Value: v.stalls()})
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

// lags are the counters of cleanup work that removed rows cause.
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
