package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// tpccRuns lays out runs of `bench tpcc`: one section, nodes on the axis, and a line per server.
func tpccRuns(recs []result.Record) (experiment, error) {
	p := newProjection(recs, "transaction", "nodes", "server")
	lines := tpccLines(recs)
	base, crossing := p.vs[0].sum.TPCC, false // base is the run with the fewest nodes
	for i := range p.vs {
		t := p.vs[i].sum.TPCC
		if crossing = crossing || t.Crossing != nil; tpccNodes(&t.TPCC) < tpccNodes(&base.TPCC) || base.NewOrdersPerMinute == 0 {
			base = t
		}
	}
	crossed := func(of func(c *result.Crossing) float64) func(v *view) float64 {
		return func(v *view) float64 {
			if v.sum.TPCC.Crossing == nil {
				return math.NaN()
			}
			return of(v.sum.TPCC.Crossing)
		}
	}
	share := func(v float64) string { return onlyIf(!math.IsNaN(v), fmt.Sprintf("%.3f%%", 100*v)) }
	all := slices.Concat([]measure{{key: "new_orders_per_minute", name: "new orders/min", chart: "new orders/min", compared: true,
		of: func(v *view) float64 { return v.sum.TPCC.NewOrdersPerMinute }},
		{key: "share_of_perfect_scaling", name: "of perfect scaling", format: percent, of: func(v *view) float64 {
			n, least := tpccNodes(&v.sum.TPCC.TPCC), tpccNodes(&base.TPCC)
			if n == least {
				return math.NaN()
			}
			return v.sum.TPCC.NewOrdersPerMinute * float64(least) / float64(n) / nonzero(base.NewOrdersPerMinute)
		}},
		{key: "crossing_expected", name: "cross nodes: expected", format: share, of: crossed(func(c *result.Crossing) float64 { return c.Expected })},
		{key: "crossing_measured", name: "measured", format: share, of: crossed(func(c *result.Crossing) float64 { return c.Measured })},
		{key: "crossing_off", name: "off by", format: func(v float64) string { return onlyIf(!math.IsNaN(v), fmt.Sprintf("%+.2f%%", 100*v)) },
			of: crossed(func(c *result.Crossing) float64 { return c.Measured/c.Expected - 1 })}}, times("", "p50", "p99", "max"), costs("transaction", "transaction"))
	p.measures = func(string) []measure { return all }
	for i := range recs {
		p.run(i, result.NewOrder, strconv.Itoa(tpccNodes(recs[i].Run.TPCC)), lines[i])
	}
	p.doubling = true // the axis then has only whole numbers of nodes
	p.verdict = func(*panel) []string { return p.tpccSentences() }
	p.text = func(*panel) string {
		return strings.TrimSpace(onlyIf(len(p.factors[1].Levels) > 1, "Perfect is the rate of the run with the fewest nodes, by node. ") + onlyIf(crossing, "The warehouses are divided among the nodes: "+
			"a transaction crosses them if it changes rows of several, and what is expected follows from the definition and the terminals' homes."))
	}
	if len(p.factors[1].Levels) == 1 {
		p.drawn = p.tpccCharts()
	}
	p.title, p.more = p.tpccTitle(), p.tpccParts()
	r := &recs[0].Run
	p.subtitle = append([]string{plural(r.TPCC.Warehouses, "warehouse", "warehouses"), plural(r.TPCC.Terminals, "terminal", "terminals"), seconds(r.MaxTimeSeconds),
		onlyIf(r.TPCC.Scale > 0, fmt.Sprintf("warehouses with %g of their rows", r.TPCC.Scale))}, p.common()...)
	return p, nil
}

func tpccNodes(t *result.TPCC) int { return max(t.Nodes, 1) }

// tpccLines names each run by its server, and by all conditions in which runs of this server
// differ, except the number of nodes. Runs with the same name make one line.
func tpccLines(recs []result.Record) (out []string) {
	of := []func(r *result.Run) string{func(r *result.Run) string { return r.ServerVersion }, func(r *result.Run) string { return r.Storage },
		func(r *result.Run) string { return called("durability", r.Durability) }, func(r *result.Run) string { return cacheText(r.CacheBytes) },
		func(r *result.Run) string { return plural(r.TPCC.Terminals, "terminal", "terminals") },
		func(r *result.Run) string { return plural(r.TPCC.Warehouses, "warehouse", "warehouses") },
		func(r *result.Run) string { return onlyIf(r.TPCC.Keying, "with keying time") },
		func(r *result.Run) string { return fmt.Sprintf("%g of the rows", cmp.Or(r.TPCC.Scale, 1)) }}
	several := slices.DeleteFunc(slices.Clone(recs), func(r result.Record) bool { return r.Run.TPCC.Nodes <= 1 })
	for i := range recs {
		r := &recs[i].Run
		name := oneLine(result.EngineName(r.Engine))
		for _, f := range of {
			if slices.ContainsFunc(recs, func(o result.Record) bool { return o.Run.Engine == r.Engine && f(&o.Run) != f(r) }) {
				name = document.Listed(", ", name, f(r))
			}
		}
		if r.TPCC.Sharded && slices.ContainsFunc(several, func(o result.Record) bool { return !o.Run.TPCC.Sharded }) {
			name += ", warehouses divided"
		}
		out = append(out, name)
	}
	return out
}

// tpccNames are short names of the runs.
func (p *projection) tpccNames(lines []string) []string {
	nodes := func(i int) string { return plural(tpccNodes(p.recs[i].Run.TPCC), "node", "nodes") }
	return document.Distinct(len(p.recs), func(i int) string {
		if s := p.recs[i].Run.Scenario; s != nil {
			return s.Run
		}
		return ""
	}, func(i int) string { return lines[i] }, nodes, func(i int) string { return lines[i] + ", " + nodes(i) }, func(i int) string { return p.recs[i].Run.Name })
}

func (p *projection) tpccTitle() string {
	title := "New orders (" + result.NotAudited + "): " + strings.Join(p.factors[2].Levels, ", ")
	p.sorted(1)
	if nodes := p.factors[1].Levels; len(nodes) > 1 || nodes[0] != "1" {
		title += " on " + strings.Join(nodes, ", ") + " nodes"
	}
	return title
}

// tpccParts returns the retries by cause, the response times of each transaction, and the proof.
func (p *projection) tpccParts() (out []document.Part) {
	names := p.tpccNames(tpccLines(p.recs))
	rates := &document.Table{Header: []string{"run", "new orders/min", "per warehouse", "retries", "by cause"},
		Note: "New orders include those that were rolled back. " + result.NotAudited + ": this is no result of TPC-C."}
	times := &document.Table{Header: []string{"run", "transaction", "count", "p50", "p95", "p99", "p99.9", "max"}, Note: "From the first try to the answer, without keying and thinking."}
	for i := range p.recs {
		s := &p.vs[i].sum
		t, retries := s.TPCC, none
		if n := s.Retries; n > 0 {
			retries = count(n)
		}
		rates.Add(names[i], figure(t.NewOrdersPerMinute), figure(t.NewOrdersPerMinute/float64(t.Warehouses)), retries, causesText(t.Causes))
		for _, op := range ops(s.LatencyUS) {
			l := s.LatencyUS[op]
			times.Add(names[i], op, count(l.Count), micros(l.P50), micros(l.P95), micros(l.P99), micros(l.P999), micros(l.Max))
		}
	}
	out = append(out, &document.Section{Title: "New orders and retries", Parts: []document.Part{rates}}, &document.Section{Title: "Response times by transaction", Parts: []document.Part{times}})
	if proof := p.tpccProof(names); len(proof.Rows) > 0 {
		out = append(out, &document.Section{Title: "Proof", Parts: []document.Part{proof}})
	}
	return out
}

// tpccProof has a row for each condition, and a column for each run. With several runs, a column
// says what was found only if the condition doesn't hold.
func (p *projection) tpccProof(names []string) *document.Table {
	out := &document.Table{Header: append([]string{"condition"}, names...), Bad: map[int]bool{}}
	if len(p.recs) > 1 {
		out.Note = "The report of one run alone says what was found."
	}
	rows := map[string]int{}
	for i := range p.recs {
		for _, c := range p.vs[i].sum.TPCC.Conditions {
			row, ok := rows[c.Name]
			if !ok {
				row = len(out.Rows)
				rows[c.Name] = row
				out.Add(append([]string{c.Name}, slices.Repeat([]string{none}, len(p.recs))...)...)
			}
			found := either(len(p.recs) > 1, "holds", c.Found)
			if !c.Holds {
				found = "DOESN'T HOLD: " + c.Found
				out.Bad[row] = true
			}
			out.Rows[row][1+i] = found
		}
	}
	return out
}

// tpccCharts draw new orders per minute over time.
func (p *projection) tpccCharts() document.Charts {
	c := &document.Chart{Title: "new orders/min", X: document.Scale{Name: "seconds"}, Height: 250}
	for i := range p.recs {
		run := &p.recs[i].Run
		name := p.cellOf(i).levels[2]
		l := document.Line{Name: name, Style: p.style(name)}
		for k := range p.recs[i].Intervals {
			if iv := &p.recs[i].Intervals[k]; !run.Brief(iv) {
				c.X.To = max(c.X.To, iv.Elapsed)
				l.X, l.Y = append(l.X, iv.Elapsed), append(l.Y, 60*iv.Rate())
				l.Tips = append(l.Tips, fmt.Sprintf("%s, %s: %s new orders/min", run.Name, seconds(iv.Elapsed), figure(60*iv.Rate())))
			}
		}
		c.Lines = append(c.Lines, l)
	}
	return document.Charts{c}
}

// cellOf returns the cell of a record.
func (p *projection) cellOf(i int) *gridCell {
	return p.cells[slices.IndexFunc(p.cells, func(c *gridCell) bool { return slices.Contains(c.records(), &p.recs[i]) })]
}

// tpccSentences returns the results in sentences.
func (p *projection) tpccSentences() (out []string) {
	names := p.tpccNames(tpccLines(p.recs))
	for i := range p.recs {
		t, end := p.vs[i].sum.TPCC, p.recs[i].End
		failed := len(slices.DeleteFunc(slices.Clone(t.Conditions), func(c result.Condition) bool { return c.Holds }))
		proof := "not examined"
		switch {
		case failed > 0:
			proof = fmt.Sprintf("%d of %d conditions DON'T HOLD", failed, len(t.Conditions))
		case len(t.Conditions) > 0:
			proof = fmt.Sprintf("all %d conditions hold", len(t.Conditions))
		}
		if end != nil && end.Kills > 0 {
			proof += ", after " + plural(end.Kills, "kill of the server", "kills of the server")
		}
		text := fmt.Sprintf("%s: %s new orders/min", names[i], figure(t.NewOrdersPerMinute))
		if scaled := p.cellOf(i).figureOf(&p.recs[i], 1); !math.IsNaN(scaled) {
			text += ", " + percent(scaled) + " of perfect scaling"
		}
		if c := t.Crossing; c != nil {
			text += fmt.Sprintf("; %.2f%% of %s cross nodes, expected %.2f%%", 100*c.Measured, plural(c.Transactions, "transaction", "transactions"), 100*c.Expected)
		}
		out = append(out, text+"; "+proof+".")
	}
	return append(out, "The result is "+result.NotAudited+".")
}
