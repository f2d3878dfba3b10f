package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rowmill/rowmill/result"
)

// A grid is a table of figures: Text, Markdown and HTML show the same ones.
type grid struct {
	Title string
	Note  string
	// Header names the columns; the first column contains the rows' names.
	Header []string
	Rows   [][]string
}

func (g *grid) add(cells ...string) { g.Rows = append(g.Rows, cells) }

// A benchmark contains the steps of one benchmark, in order.
type benchmark []view

// splitSteps separates the runs that are steps of a longer benchmark from the
// others, one list per benchmark.
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

// loading returns the runs that are charted: those that insert, or all of them if
// none does.
func loading(recs []result.Record) []result.Record {
	return only(recs, func(r *result.Run) bool { return r.Loads() })
}

// loads returns the charted runs that share a picture: the steps that insert at full
// speed, which are more informative than those at a fixed rate.
func loads(recs []result.Record) []result.Record {
	return only(loading(recs), func(r *result.Run) bool { return r.Step == nil || r.Rate == 0 })
}

// only returns the runs that satisfy a condition, or all if none does.
func only(recs []result.Record, is func(*result.Run) bool) []result.Record {
	out := slices.DeleteFunc(slices.Clone(recs), func(r result.Record) bool { return !is(&r.Run) })
	if len(out) == 0 {
		return recs
	}
	return out
}

// asks reports whether the run is a step that is judged by its queries.
func (v *view) asks() bool { return v.sum.Step != nil && v.sum.Step.Query != "" }

// stepName returns the name of a run's step, "" for other runs.
func stepName(r *result.Run) string {
	if r.Step == nil {
		return ""
	}
	return r.Step.Name
}

// title describes the benchmark and where it ran.
func (b benchmark) title() string {
	r := &b[0].rec.Run
	return fmt.Sprintf("%s on %s", r.Step.Benchmark, b[0].server())
}

// verdicts describes the benchmark's results in a few sentences.
func (b benchmark) verdicts() []string {
	last := &b[len(b)-1]
	first := b[0].rec.Run
	out := []string{fmt.Sprintf("the insert benchmark (%s) on %s: %d of %s", first.Step.Benchmark, first.Engine, len(b), plural(int64(first.Step.Of), "step", "steps"))}
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
	if len(asked) > 0 {
		out = append(out, "queries per second: "+strings.Join(asked, ", "))
	}
	if len(failed) > 0 {
		out = append(out, "the SLA failed in "+strings.Join(failed, ", "))
	}
	if len(passed) > 0 {
		out = append(out, "the SLA was met in "+strings.Join(passed, ", "))
	}
	if keep > 0 {
		out = append(out, fmt.Sprintf("deletes kept the tables within %s of %s", percent(off), plural(keep, "row", "rows")))
	}
	switch {
	case last.sum.Verified != nil:
		out = append(out, "verified after the last step: "+last.verified())
	case last.midway():
		out = append(out, "not verified: the rows are checked after the last step, which is missing here")
	}
	return out
}

// grids returns the benchmark's tables.
func (b benchmark) grids() []grid {
	out := []grid{b.rates(), b.latencies(), b.buckets(), b.costs()}
	if did := b.did(); len(did.Rows) > 0 {
		out = append(out, did)
	}
	return out
}

func (b benchmark) rates() grid {
	g := grid{Title: "Rates", Header: []string{"step", "seconds", "rows", "inserts/s", "deletes/s", "queries/s", "asked", "SLA", "rows held", "off", "stalls"},
		Note: "Inserts and deletes are rows per second. The SLA is 95% of the rate asked for. Rows held are those at the step's end, off is by how much they differed from those to keep at most."}
	for i := range b {
		v := &b[i]
		s := v.sum.Step
		row := []string{s.Name, figure(v.sum.Seconds)}
		if !v.rec.Run.Loads() {
			g.add(append(row, none, none, none, none, none, none, count(s.EndRows), none, none)...)
			continue
		}
		asked, sla, off := none, none, none
		if s.SLA != nil {
			asked, sla = figure(s.SLA.Asked), "met"
			if s.SLA.Failed {
				sla = "FAILED " + percent(s.SLA.Share)
			}
		}
		if s.Held != nil {
			off = percent(s.Held.Off)
		}
		stalls := none
		if v.sum.StallSeconds > 0 {
			stalls = figure(v.sum.StallSeconds) + " s"
		}
		g.add(append(row, count(v.sum.Rows), figure(s.InsertsPerSecond), perSecond(s.DeletesPerSecond), perSecond(s.QueriesPerSecond),
			asked, sla, count(s.EndRows), off, stalls)...)
	}
	return g
}

func perSecond(f float64) string {
	if f == 0 {
		return none
	}
	return figure(f)
}

// stepOps are the operations of the steps, in the order of the tables.
var stepOps = []string{"insert", "delete", "query"}

func (b benchmark) latencies() grid {
	g := grid{Title: "Response times", Header: []string{"step"},
		Note: "From the intended start where a rate was asked for, so that waiting counts; else from when it was sent."}
	for _, op := range stepOps {
		g.Header = append(g.Header, op+" p50", "p99", "max")
	}
	for i := range b {
		if !b[i].rec.Run.Loads() {
			continue
		}
		row := []string{b[i].sum.Step.Name}
		for _, op := range stepOps {
			l, ok := b[i].sum.ResponseUS[op]
			if !ok {
				l, ok = b[i].sum.LatencyUS[op]
			}
			if !ok {
				row = append(row, none, none, none)
				continue
			}
			row = append(row, micros(float64(l.P50)), micros(float64(l.P99)), micros(float64(l.Max)))
		}
		g.add(row...)
	}
	return g
}

func (b benchmark) buckets() grid {
	g := grid{Title: "Operations by response time", Header: []string{"step"}}
	for _, us := range result.BucketMicros() {
		g.Header = append(g.Header, "<="+strings.ReplaceAll(micros(float64(us)), " ", ""))
	}
	g.Header = append(g.Header, "more")
	for i := range b {
		all := b[i].sum.Step.Buckets
		for _, op := range stepOps {
			counts, ok := all[op]
			if !ok {
				continue
			}
			row := []string{b[i].sum.Step.Name + " " + op}
			for _, n := range counts {
				if n == 0 {
					row = append(row, none)
				} else {
					row = append(row, count(n))
				}
			}
			g.add(row...)
		}
	}
	return g
}

func (b benchmark) costs() grid {
	g := grid{Title: "Cost of an operation", Header: []string{"step", "per", "disk read", "disk written", "client CPU", "server CPU", "tables", "server's memory"},
		Note: "An insert is a row, with its delete where deletes run. The disk's figures are of the whole device where that is known, else of the server's process. Memory is the most that was seen, of some servers since they started."}
	for i := range b {
		s := b[i].sum.Step
		size, memory := none, none
		if z := b[i].sum.SizeBytes; z != nil {
			size = bytes(float64(z.Data + z.Index))
		}
		if s.MemoryBytes > 0 {
			memory = bytes(s.MemoryBytes)
		}
		row := []string{s.Name, none, none, none, none, none}
		if c := s.Cost; c != nil {
			of := func(v *float64, write func(float64) string) string {
				if v == nil {
					return none
				}
				return write(*v)
			}
			row = []string{s.Name, c.Per, of(c.ReadBytes, bytes), of(c.WrittenBytes, bytes), of(c.ClientMicros, micros), of(c.ServerMicros, micros)}
		}
		g.add(append(row, size, memory)...)
	}
	return g
}

// did returns the table of the actions of steps without inserts.
func (b benchmark) did() grid {
	g := grid{Title: "Indexes and settling", Header: []string{"step", "what", "seconds", "dirty pages before", "after"}}
	for i := range b {
		s := b[i].sum.Step
		before, after := none, none
		if len(s.DirtyBytes) == 2 {
			before, after = bytes(s.DirtyBytes[0]), bytes(s.DirtyBytes[1])
		}
		for _, what := range slices.Sorted(maps.Keys(s.Did)) {
			g.add(s.Name, what, figure(s.Did[what]), before, after)
			before, after = none, none // per step, not per action
		}
	}
	return g
}

func (g *grid) write(w io.Writer) {
	fmt.Fprintf(w, "\n%s\n", g.Title)
	g.columns(w, "  ")
	if g.Note != "" {
		wrapped(w, "  ", "  ", g.Note)
	}
}

// columns writes header and rows, the first column left-aligned and the others
// right-aligned.
func (g *grid) columns(w io.Writer, indent string) {
	rows := append([][]string{g.Header}, g.Rows...)
	width := make([]int, len(g.Header))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], utf8.RuneCountInString(oneLine(cell)))
		}
	}
	for _, r := range rows {
		line := indent
		for i, cell := range r {
			cell = oneLine(cell)
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line += cell + pad
			} else {
				line += "  " + pad + cell
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

// benchmarkText writes the report of one benchmark's steps.
func benchmarkText(w io.Writer, recs []result.Record) error {
	vs, err := views(recs)
	if err != nil {
		return err
	}
	b := benchmark(vs)
	for _, line := range b.verdicts() {
		wrapped(w, "", "  ", sentence(line))
	}
	for _, p := range allProblems(vs) {
		mark := "! "
		if p.serious {
			mark = "!! "
		}
		wrapped(w, mark+p.label+": ", "   ", p.text)
	}
	for _, g := range b.grids() {
		g.write(w)
	}
	writeFacts(w, b.title(), b.facts())
	return nil
}

// facts describes the benchmark's conditions.
func (b benchmark) facts() []fact {
	r := &b[0].rec.Run
	out := []fact{{"clients", fmt.Sprintf("%s of %s, method %s, seed %d", plural(int64(r.Writers), "client", "clients"),
		plural(int64(r.Step.Tables), "table", "tables"), r.Method, r.Seed)}}
	for _, f := range b[0].facts() {
		if slices.Contains([]string{"server", "settings", "machine", "target"}, f.name) {
			out = append(out, f)
		}
	}
	for _, d := range r.Deviations {
		out = append(out, fact{"deviation", d})
	}
	return out
}

// benchmarkMarkdown writes the content of benchmarkText as Markdown.
func benchmarkMarkdown(w io.Writer, recs []result.Record) error {
	vs, err := views(recs)
	if err != nil {
		return err
	}
	b := benchmark(vs)
	fmt.Fprintf(w, "# %s\n\n", markdownText(b.title()))
	for _, line := range b.verdicts() {
		fmt.Fprintf(w, "%s\n\n", markdownText(sentence(line)))
	}
	for _, p := range allProblems(vs) {
		strong := ""
		if p.serious {
			strong = "**"
		}
		fmt.Fprintf(w, "- %s%s: %s%s\n", strong, markdownText(p.label), markdownText(p.text), strong)
	}
	for _, g := range b.grids() {
		g.markdown(w)
	}
	fmt.Fprint(w, "\n## How it was run\n\n")
	rows := [][]string{}
	for _, f := range b.facts() {
		rows = append(rows, []string{f.name, f.value})
	}
	markdownTable(w, []string{"", ""}, rows)
	return nil
}

func (g *grid) markdown(w io.Writer) {
	fmt.Fprintf(w, "\n## %s\n\n", markdownText(g.Title))
	markdownTable(w, g.Header, g.Rows)
	if g.Note != "" {
		fmt.Fprintf(w, "\n%s\n", markdownText(g.Note))
	}
}
