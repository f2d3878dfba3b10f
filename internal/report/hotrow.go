package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// nearCeiling is the share of a way's ceiling from which on nothing else is looked for.
const nearCeiling = 0.85

// hotParts are the queries of a run of `bench hotrow`.
var hotParts = []string{"read-count", "read-fan", "transaction"}

// hotRows lays out runs of `bench hotrow`: servers, clients, and ways to count in one row.
func hotRows(recs []result.Record) (*projection, error) {
	p := newProjection(recs, "server", "clients", "way")
	p.doubling = true
	var causes facts
	for i := range recs {
		r, s := &recs[i].Run, &p.sums[i]
		h, allowed := r.HotRow, math.NaN()
		if cpu := s.Client.CPUSeconds + deref(s.Server.CPUSeconds); s.Rows > 0 {
			allowed = float64(r.Machine.Cores) * float64(s.Rows) / cpu
		}
		unknown := func(v float64) float64 {
			if v == 0 {
				return math.NaN()
			}
			return v
		}
		run := s.LatencyUS["run"]
		least, mean, err := recs[i].LeastAndMean("run")
		if err != nil {
			return nil, err
		}
		figures := []float64{s.RowsPerSecond, unknown(h.Ceiling), unknown(h.Ceiling) / unknown(h.Ceiling) * s.RowsPerSecond / h.Ceiling, unknown(h.HeldMicros), allowed, unknown(h.ClientAlone),
			float64(s.Retries) / float64(s.Rows), float64(least), float64(mean), float64(run.P50), float64(run.P99), float64(run.Max)}
		caught := math.NaN()
		if e := recs[i].End; e != nil {
			caught = unknown(e.CatchUpSeconds)
		}
		figures = append(figures, caught)
		server, clients := words(result.EngineName(r.Engine), r.ServerVersion), strconv.Itoa(r.Writers)
		p.add(sample{rec: &recs[i], figures: figures}, server, clients, h.Way)
		for _, part := range hotParts {
			if l, ok := s.LatencyUS[part]; ok {
				if least, mean, err = recs[i].LeastAndMean(part); err != nil {
					return nil, err
				}
				p.add(sample{rec: &recs[i], figures: []float64{float64(l.P99), float64(least), float64(mean), float64(l.P50), float64(l.P95), float64(l.P999), float64(l.Max)}}, part+" on "+server, clients, h.Way)
			}
		}
		if recs[i].End != nil && len(recs[i].End.Causes) > 0 {
			causes = append(causes, fact{"begun again, " + r.Name, causesText(recs[i].End.Causes)})
		}
	}
	us := func(key, name, chart string) measure {
		return measure{key: key, name: name, format: micros[float64], chart: chart, per: 1e3, log: true}
	}
	all := []measure{{key: "runs_per_second", name: "runs/s", chart: "runs/s", compared: true}, {key: "ceiling_per_second", name: "ceiling"},
		{key: "of_ceiling", name: "of it", format: percent}, us("held_us", "lock held", ""), {key: "cpu_allows_per_second", name: "CPU allows"}, {key: "client_alone_per_second", name: "client alone"}, {key: "retries_per_run", name: "retries"},
		us("min_us", "run min", ""), us("mean_us", "avg", ""), us("p50_us", "p50", ""), us("p99_us", "p99", "p99 of runs, ms"), us("max_us", "max", "")}
	part := []measure{us("p99_us", "p99", ""), us("min_us", "min", ""), us("mean_us", "avg", ""), us("p50_us", "p50", ""), us("p95_us", "p95", ""), us("p999_us", "p99.9", ""), us("max_us", "max", "")}
	part[0].smaller = true
	isPart := func(section string) bool { return strings.Contains(section, " on ") }
	if slices.ContainsFunc(recs, func(r result.Record) bool { return r.End != nil && r.End.CatchUpSeconds > 0 }) {
		all = append(all, measure{key: "catch_up_seconds", name: "replica behind", format: func(s float64) string { return micros(1e6 * s) }})
	}
	p.measures = func(section string) []measure {
		if isPart(section) {
			return part
		}
		return all
	}
	p.verdict = func(s *panel) []string {
		if isPart(s.name) {
			return nil
		}
		out := []string{sentence(s.fastest("runs"))}
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
	p.about = causes
	return p, nil
}

// ceiling tells how near a way comes to its ceiling with the most clients, and what keeps it below.
func (s *panel) ceiling(way string) string {
	c := s.cell(s.axis[len(s.axis)-1], way)
	switch {
	case c == nil || math.IsNaN(c.middle(1)) && math.IsNaN(c.middle(4)):
		return ""
	case math.IsNaN(c.middle(1)): // no row is shared, or nothing stored
		return sentence(fmt.Sprintf("%s has no lock as its ceiling; at what a run cost, the cores of this machine allow %s runs/s with %s clients", way, figure(c.middle(4)), s.axis[len(s.axis)-1]))
	}
	rate, ceiling, share, allowed, retries := c.middle(0), c.middle(1), c.middle(2), c.middle(4), c.middle(6)
	text := fmt.Sprintf("%s: %s of the ceiling of %s runs/s with %s clients", way, percent(share), figure(ceiling), s.axis[len(s.axis)-1])
	switch {
	case share >= nearCeiling:
	case rate >= machineFull*allowed:
		text += fmt.Sprintf("; the cores of this machine allow %s", figure(allowed))
	case retries > 1:
		text += fmt.Sprintf("; each run was begun again %s times", figure(retries))
	case s.doubts(c).OthersShare != nil && deref(s.doubts(c).OthersShare) > crowdedShare:
		text += "; other programs used the machine"
	default:
		text += fmt.Sprintf("; the clients wait for the lock, which is passed on %s times as slowly as one client gets it", figure(ceiling/rate))
	}
	return sentence(text)
}

func causesText(n map[string]int64) string {
	var out []string
	for _, cause := range slices.Sorted(maps.Keys(n)) {
		out = append(out, fmt.Sprintf("%s: %s", cause, count(n[cause])))
	}
	return strings.Join(out, ", ")
}
