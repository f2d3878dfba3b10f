package report

import (
	"fmt"
	"slices"

	"github.com/rowmill/rowmill/result"
)

// tpccParts are the parts of a speed test that only runs of `bench tpcc` have: new orders per minute, the response
// times of each transaction, why some were begun again, and the proof.
func (p *projection) tpccParts() (out []Part) {
	rates := &table{Header: []string{"run", "new orders/min", "a warehouse", "retries", "by cause"},
		Note: "New orders include those that were rolled back. " + result.NotAudited + ": this is no result of TPC-C."}
	times := &table{Header: []string{"run", "transaction", "count", "p50", "p95", "p99", "p99.9", "max"}, Note: "From the first try to the answer, without keying and thinking."}
	proof := &table{Header: []string{"run", "condition", "found", ""}, Bad: map[int]bool{}}
	nodes := &table{Header: []string{"run", "nodes", "new orders/min", "of perfect scaling", "transactions that cross nodes", "expected"}}
	base, several := p.tpccBase()
	for i := range p.recs {
		run, s := &p.recs[i].Run, &p.sums[i]
		t := s.TPCC
		if t == nil {
			continue
		}
		retries := none
		if n := s.Retries; n > 0 {
			retries = count(n)
		}
		if several {
			scaled, crossed, expected := none, none, none
			if n := max(t.Nodes, 1); base.NewOrdersPerMinute > 0 && n > max(base.Nodes, 1) {
				scaled = percent(t.NewOrdersPerMinute * float64(max(base.Nodes, 1)) / float64(n) / base.NewOrdersPerMinute)
			}
			if c := t.Crossing; c != nil {
				crossed, expected = fmt.Sprintf("%.2f%%", 100*c.Measured), fmt.Sprintf("%.2f%%", 100*c.Expected)
			}
			nodes.add(run.Name, count(int64(max(t.Nodes, 1))), figure(t.NewOrdersPerMinute), scaled, crossed, expected)
		}
		rates.add(run.Name, figure(t.NewOrdersPerMinute), figure(t.NewOrdersPerMinute/float64(t.Warehouses)), retries, causesText(t.Causes))
		for _, op := range ops(s.LatencyUS) {
			l := s.LatencyUS[op]
			times.add(run.Name, op, count(l.Count), micros(l.P50), micros(l.P95), micros(l.P99), micros(l.P999), micros(l.Max))
		}
		for _, c := range t.Conditions {
			if !c.Holds {
				proof.Bad[len(proof.Rows)] = true
			}
			proof.add(run.Name, c.Name, c.Found, verdictText(c.Holds))
		}
	}
	switch len(rates.Rows) {
	case 0:
		return nil
	case 1: // the title names the run
		for _, t := range []*table{rates, times, proof, nodes} {
			t.Header = t.Header[1:]
			for k := range t.Rows {
				t.Rows[k] = t.Rows[k][1:]
			}
		}
	}
	out = append(out, &section{Title: result.NotAudited, Parts: []Part{rates}}, &section{Title: "Response times by transaction", Parts: []Part{times}})
	if several {
		nodes.Note = "Perfect is the rate of the run with the fewest nodes, by node. Each node of a cluster has all rows; where the warehouses are divided among nodes, a transaction crosses them if it changes rows of several."
		out = append(out, &section{Title: "By number of nodes", Parts: []Part{nodes}})
	}
	if len(proof.Rows) > 0 {
		out = append(out, &section{Title: "Proof", Parts: []Part{proof}})
	}
	return out
}

// tpccBase returns the run with the fewest nodes, and whether any has several.
func (p *projection) tpccBase() (base result.TPCCSummary, several bool) {
	for i := range p.sums {
		if t := p.sums[i].TPCC; t != nil {
			several = several || t.Nodes > 1
			if base.NewOrdersPerMinute == 0 || max(t.Nodes, 1) < max(base.Nodes, 1) {
				base = *t
			}
		}
	}
	return base, several
}

// tpccCharts draw new orders per minute over time; nil for other runs.
func (p *projection) tpccCharts() charts {
	c := &chart{Title: "new orders/min", X: scale{Name: "seconds"}, Height: 250}
	for i := range p.recs {
		run := &p.recs[i].Run
		if run.TPCC == nil {
			return nil
		}
		l := line{Name: p.label(i), Style: p.style(p.label(i))}
		for k := range p.recs[i].Intervals {
			if iv := &p.recs[i].Intervals[k]; !run.Brief(iv) {
				l.X, l.Y = append(l.X, iv.Elapsed), append(l.Y, 60*iv.Rate())
				l.Tips = append(l.Tips, fmt.Sprintf("%s, %s: %s new orders/min", run.Name, seconds(iv.Elapsed), figure(60*iv.Rate())))
			}
		}
		c.Lines = append(c.Lines, l)
	}
	return charts{c}
}

// tpccLines are the results of such runs in sentences.
func (p *projection) tpccLines() (out []string) {
	for i := range p.recs {
		if t := p.sums[i].TPCC; t != nil {
			failed := len(slices.DeleteFunc(slices.Clone(t.Conditions), func(c result.Condition) bool { return c.Holds }))
			proof := "not examined"
			switch {
			case failed > 0:
				proof = fmt.Sprintf("%d of %d conditions DON'T HOLD", failed, len(t.Conditions))
			case len(t.Conditions) > 0:
				proof = fmt.Sprintf("all %d conditions hold", len(t.Conditions))
			}
			if end := p.recs[i].End; end != nil && end.Kills > 0 {
				proof += ", after " + plural(end.Kills, "kill of the server", "kills of the server")
			}
			out = append(out, fmt.Sprintf("%s: %s new orders/min (%s); %s.", p.recs[i].Run.Name, figure(t.NewOrdersPerMinute), result.NotAudited, proof))
		}
	}
	return out
}

func verdictText(holds bool) string {
	if holds {
		return "holds"
	}
	return "DOESN'T HOLD"
}
