package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// If the rate of a way of counting is at least nearCeiling times its ceiling, the ceiling explains
// the rate. If it is more than mostOfCeiling times the ceiling, the ceiling was measured wrongly.
const nearCeiling, mostOfCeiling = 0.85, 1.15

// hotParts are the queries of a run of `bench hotrow`.
var hotParts = []string{"read-count", "read-fan", "transaction"}

// hotRows lays out runs of `bench hotrow`: a section for each server, with the number of clients on
// the axis and a line for each way to count in one row.
func hotRows(recs []result.Record) (experiment, error) {
	p := newProjection(recs, "server", "clients", "way")
	p.doubling = true
	isPart := func(section string) bool { return strings.Contains(section, " on ") }
	hot := func(of func(h *result.HotRow) float64) func(v *view) float64 {
		return func(v *view) float64 { return nonzero(of(v.rec.Run.HotRow)) }
	}
	ceiling := hot(func(h *result.HotRow) float64 { return h.Ceiling })
	p.measures = func(section string) []measure {
		if op, _, part := strings.Cut(section, " on "); part {
			first := times(op, "p99")
			first[0].smaller = true
			return slices.Concat(first, leastAndMean(op, "min"), times(op, "p50", "p95", "p99.9", "max"))
		}
		latencies := times("run", "p50", "p99", "max")
		latencies[1].chart = "p99 of runs"
		return slices.Concat([]measure{{key: "runs_per_second", name: "runs/s", of: rate, chart: "runs/s", compared: true},
			{key: "ceiling_per_second", name: "ceiling", of: ceiling},
			{key: "of_ceiling", name: "of it", format: percent, of: func(v *view) float64 {
				if share := rate(v) / ceiling(v); share <= mostOfCeiling {
					return share
				}
				return math.NaN()
			}},
			micro("held_us", "lock held", "", hot(func(h *result.HotRow) float64 { return h.HeldMicros })),
			{key: "cpu_allows_per_second", name: "CPU allows", of: func(v *view) float64 {
				return float64(v.rec.Run.Machine.Cores) * nonzero(float64(v.sum.Rows)) / (v.sum.Client.CPUSeconds + statistics.Value(v.sum.Server.CPUSeconds))
			}},
			{key: "client_alone_per_second", name: "client alone", of: hot(func(h *result.HotRow) float64 { return h.ClientAlone })},
			{key: "retries_per_run", name: "retries", of: func(v *view) float64 { return float64(v.sum.Retries) / float64(v.sum.Rows) }}},
			leastAndMean("run", "run min"), latencies, []measure{{key: "catch_up_seconds", name: "replica behind", format: brief, of: func(v *view) float64 {
				if v.rec.End == nil {
					return math.NaN()
				}
				return nonzero(v.rec.End.CatchUpSeconds)
			}}})
	}
	proved, runs := 0, int64(0)
	for i := range recs {
		r := &recs[i].Run
		if v := recs[i].Summary().Verified; v != nil && v.Sound() {
			proved, runs = proved+1, runs+v.Found
		}
		server, clients := words(result.EngineName(r.Engine), r.ServerVersion), strconv.Itoa(r.Writers)
		p.run(i, server, clients, r.HotRow.Way)
		for _, part := range hotParts {
			if _, ok := p.vs[i].sum.LatencyUS[part]; ok {
				p.run(i, part+" on "+server, clients, r.HotRow.Way)
			}
		}
		if recs[i].End != nil && len(recs[i].End.Causes) > 0 {
			p.about = append(p.about, document.Fact{Name: "begun again, " + r.Name, Value: causesText(recs[i].End.Causes)})
		}
	}
	if proved > 0 {
		p.about = append(p.about, document.Fact{Name: "proof", Value: fmt.Sprintf("in %d of %s, the counter, the rows and the acknowledged runs are equal: %s in all", proved, plural(len(recs), "measurement", "measurements"), count(runs))})
	}
	p.verdict = func(s *panel) []string {
		if isPart(s.name) {
			return nil
		}
		out := []string{document.AsSentence(s.fastest("runs"))}
		for _, way := range s.lines {
			if text := s.ceiling(way); text != "" {
				out = append(out, text)
			}
		}
		return out
	}
	p.text = func(s *panel) string {
		if isPart(s.name) {
			return ""
		}
		return "A row's lock is held until COMMIT has returned. The ceiling is one over the time for which one client alone holds it, from sending the UPDATE to that answer, " +
			"times the slots; with one-trip it is at least that, because the whole transaction is timed. CPU allows so many runs/s on all cores at what a run cost client and server; the client alone is as many clients on an engine that stores nothing."
	}
	first := &recs[0].Run
	p.title = "Counting in one row: " + strings.Join(p.factors[2].Levels, ", ")
	p.subtitle = append([]string{"runs of three queries, the last of which is a transaction"}, p.common()...)
	if first.HotRow.CacheSeconds > 0 {
		p.subtitle = append(p.subtitle, "the count is read every "+seconds(first.HotRow.CacheSeconds))
	}
	return p, nil
}

// leastAndMean returns the measures of an operation's least and mean latency, from its histograms.
func leastAndMean(op, name string) []measure {
	of := func(pick func(least, mean int64) int64) func(v *view) float64 {
		return func(v *view) float64 {
			least, mean, err := v.rec.LeastAndMean(op)
			if err != nil {
				return math.NaN()
			}
			return float64(pick(least, mean))
		}
	}
	return []measure{micro("min_us", name, "", of(func(least, _ int64) int64 { return least })),
		micro("mean_us", "avg", "", of(func(_, mean int64) int64 { return mean }))}
}

// ceiling says how near a way comes to its ceiling with the most clients, and what limits it.
func (s *panel) ceiling(way string) string {
	most := s.axis[len(s.axis)-1]
	c, clients := s.cell(most, way), plural(int(number(most)), "client", "clients")
	switch {
	case c == nil || math.IsNaN(c.middle(1)) && math.IsNaN(c.middle(4)):
		return ""
	case math.IsNaN(c.middle(1)): // no row is shared, or nothing is stored
		return document.AsSentence(fmt.Sprintf("%s has no lock as its ceiling; at what a run cost, the cores of this machine allow %s runs/s with %s", way, figure(c.middle(4)), clients))
	}
	rate, ceiling, allowed, retries := c.middle(0), c.middle(1), c.middle(4), c.middle(6)
	share := rate / ceiling
	if share > mostOfCeiling {
		return document.AsSentence(fmt.Sprintf("%s: with %s it is faster than the ceiling that was measured with one client, %s runs/s: something slowed that down", way, clients, figure(ceiling)))
	}
	text := fmt.Sprintf("%s: %s of the ceiling of %s runs/s with %s", way, percent(share), figure(ceiling), clients)
	switch {
	case share >= nearCeiling:
	case rate >= machineFull*allowed:
		text += fmt.Sprintf("; the cores of this machine allow %s", figure(allowed))
	case retries > 1:
		text += fmt.Sprintf("; each run was begun again %s times", figure(retries))
	case s.doubts(c).OthersShare != nil && statistics.Value(s.doubts(c).OthersShare) > crowdedShare:
		text += "; other programs used the machine"
	default:
		text += fmt.Sprintf("; the clients wait for the lock, which is passed on %s times as slowly as one client gets it", figure(ceiling/rate))
	}
	return document.AsSentence(text)
}

func causesText(n map[string]int64) string {
	var out []string
	for _, cause := range slices.Sorted(maps.Keys(n)) {
		out = append(out, fmt.Sprintf("%s: %s", cause, count(n[cause])))
	}
	return strings.Join(out, ", ")
}
