package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Document builds the report: for each pair the verdict, the differences in the conditions,
// and figures at equal row counts with the ratio B/A.
func (c Comparison) Document() *Document {
	d := &Document{Title: "Comparison", Untitled: true, Data: func() any { return c }}
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
	if len(p.Windows) == 0 {
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
	add := func(name string, v Versus, format func(float64) string) {
		if v.A != nil || v.B != nil {
			t.add(name, format(deref(v.A)), format(deref(v.B)), ratio(deref(v.Ratio)))
		}
	}
	add("seconds to "+count(p.Rows)+" rows", p.Seconds, seconds)
	add("mean rate", p.RowsPerSecond, rowsRate)
	if len(p.Repeats) > 1 {
		for i, v := range p.Repeats {
			add(fmt.Sprintf("mean rate of pair %d", i+1), v, rowsRate)
		}
	}
	for _, win := range p.Windows {
		add(fmt.Sprintf("rate from %s to %s rows", short(float64(win.FromRows)), short(float64(win.ToRows))), win.Versus, rowsRate)
	}
	for _, at := range p.At {
		add("rate at "+short(float64(at.Rows))+" rows", at.Versus, rowsRate)
	}
	for _, l := range p.LatencyUS {
		add(l.Operation+" "+l.Percentile, l.Versus, micros)
	}
	for _, l := range p.ResponseUS {
		add(l.Operation+" response "+l.Percentile, l.Versus, micros)
	}
	add("stalls", p.StallSeconds, func(f float64) string { return figure(f) + " s" })
	add("errors", p.Errors, figure)
	add("size per row (whole run)", p.BytesPerRow, func(f float64) string { return figure(f) + " bytes" })
	add("client CPU per row (whole run)", p.ClientCPU, micros)
	add("server CPU per row (whole run)", p.ServerCPU, micros)
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
	if len(p.Windows) == 0 {
		return "One of the two inserted no rows: there is nothing to compare."
	}
	r, last := deref(p.RowsPerSecond.Ratio), deref(p.Windows[len(p.Windows)-1].Ratio)
	if math.IsNaN(r) || math.IsNaN(last) {
		return "The rates can't be compared."
	}
	rows := short(float64(p.Rows)) + " rows"
	var s string
	switch b := p.Interval; {
	case p.Verdict == Unknown:
		s = fmt.Sprintf("Over %s B runs at %s the rate of A; the runs are too short for a confidence interval.", rows, ratio(r))
	case p.Verdict == NoDifference:
		s = fmt.Sprintf("No difference shown over %s: B runs at %s the rate of A, and the 95%% interval, %s..%s, holds 1.",
			rows, ratio(r), ratio(b.Low), ratio(b.High))
	case p.Verdict == Slower:
		s = fmt.Sprintf("B is slower by %s (95%% interval %s..%s) over %s.", percent(1-r), percent(1-b.High), percent(1-b.Low), rows)
	case r > mostPercent:
		s = fmt.Sprintf("B is faster: it runs at %s the rate of A (95%% interval %s..%s) over %s.", ratio(r), ratio(b.Low), ratio(b.High), rows)
	default:
		s = fmt.Sprintf("B is faster by %s (95%% interval %s..%s) over %s.", percent(r-1), percent(b.Low-1), percent(b.High-1), rows)
	}
	switch p.IntervalFrom {
	case withinRuns:
		s += " The interval knows how the rate varies within these two runs, not how runs differ from each other: for that, use --repeat."
	case betweenRuns:
		s += fmt.Sprintf(" The interval is judged by how %s of runs differ.", plural(len(p.Repeats), "pair", "pairs"))
	}
	s += fmt.Sprintf(" In the last tenth of the rows B runs at %s", ratio(last))
	if b := p.LastTenth; b != nil {
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
