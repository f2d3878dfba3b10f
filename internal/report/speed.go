package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// saturated is a share of the highest rate. A rate that reaches it counts as no longer growing with
// more clients, because repeated cells differ by up to a tenth.
const saturated = 0.9

// speedTest lays out the cells of `bench mixed` or `bench points`: a section for each operation,
// with the number of clients on the axis and a line for each contender.
func speedTest(recs []result.Record) (experiment, error) {
	p := newProjection(recs, "operation", "clients", "contender")
	p.doubling = true
	counts := map[string]string{} // the unit of a section's rates; "" for inserts and selects together
	p.measures = func(section string) []measure {
		if unit := counts[section]; unit != "" {
			latencies := times("", "p50", "p99", "max")
			latencies[1].chart = "p99"
			first := measure{key: strings.ReplaceAll(unit, " ", "_") + "_per_second", name: unit + "/s", of: rate, chart: unit + "/s", compared: true}
			return slices.Concat([]measure{first}, latencies, costs("operation", "op"))
		}
		return append([]measure{{key: "operations_per_second", name: "operations/s", of: func(v *view) float64 { return v.operations() / v.sum.Seconds }},
			{key: "inserted_rows_per_second", name: "rows/s inserted", of: rate, chart: "rows/s inserted", compared: true},
			{key: "selects_per_second", name: "selects/s", compared: true, of: func(v *view) (selects float64) {
				for _, d := range v.sum.Beside {
					selects += d.PerSecond
				}
				return selects
			}},
			micro("insert_p50_us", "insert p50", "", times("insert", "p50")[0].of), micro("insert_p99_us", "p99", "p99 of inserts", times("insert", "p99")[0].of),
			micro("select_p50_us", "select p50", "", times("select-pk", "p50")[0].of),
			micro("select_p99_us", "p99", "", times("select-pk", "p99")[0].of)}, costs("operation", "op")...)
	}
	for i := range recs {
		c := recs[i].Run.Speed
		section := c.Operation
		if c.Points > 0 {
			section = "select of " + plural(c.Points, "point", "points")
		}
		counts[section] = c.Counts
		if c.Readers > 0 && c.Readers < c.Clients { // selects run beside the inserts
			counts[section] = ""
		}
		p.run(i, section, strconv.Itoa(c.Clients), p.label(i))
	}
	p.verdict = func(s *panel) []string {
		text := s.fastest(counts[s.name])
		switch {
		case len(p.contenders) == 2 && p.contenders[0].Setting != "":
			text = s.settings()
		case counts[s.name] == "":
			text = s.together()
		}
		return []string{document.AsSentence(s.name + ": " + text)}
	}
	r := &recs[0].Run
	p.title = speedTitle(p)
	p.subtitle = append([]string{r.Preset + " table of " + short(float64(r.Speed.Filled)) + " rows", seconds(r.MaxTimeSeconds) + " a cell"}, p.common()...)
	return p, nil
}

// operations returns the number of operations of a run.
func (v *view) operations() (all float64) {
	for _, l := range v.sum.LatencyUS {
		all += float64(l.Count)
	}
	return all
}

// costs returns the measures of the CPU time of an operation, and of how busy the client is.
func costs(operation, short string) []measure {
	each := func(cpu func(v *view) *float64) func(v *view) float64 {
		return func(v *view) float64 {
			if v.rec.End == nil || v.operations() == 0 {
				return math.NaN()
			}
			return 1e6 * statistics.Value(cpu(v)) / v.operations()
		}
	}
	return []measure{{key: "server_cpu_us_per_" + operation, name: "server CPU/" + short, format: micros[float64],
		of: each(func(v *view) *float64 { return v.sum.Server.CPUSeconds })},
		{key: "client_cpu_us_per_" + operation, name: "client CPU/" + short, format: micros[float64],
			of: each(func(v *view) *float64 { return &v.sum.Client.CPUSeconds })},
		{key: "client_share", name: "client busy", format: percent, of: func(v *view) float64 {
			var busy, wait float64
			for i := range v.rec.Intervals {
				busy, wait = busy+v.rec.Intervals[i].BusySeconds, wait+v.rec.Intervals[i].WaitSeconds
			}
			return busy / (busy + wait)
		}}}
}

func speedTitle(p *projection) string {
	names := p.contenders[0].Label
	for i, c := range p.contenders[1:] {
		names += either(i == len(p.contenders)-2, " and ", ", ") + c.Label
	}
	what := "Speed of " + either(p.recs[0].Run.Workload == "points", "selects of points", "inserts and selects")
	return what + onlyIf(p.contenders[0].Setting != "", " on "+result.EngineName(p.contenders[0].Engine)) + ": " + names
}

// best returns the cell of a line with the greatest first figure; nil without one.
func (s *panel) best(line string) (best *gridCell) {
	for _, at := range s.axis {
		if c := s.cell(at, line); c != nil && c.middle(0) > 0 && (best == nil || c.middle(0) > best.middle(0)) {
			best = c
		}
	}
	return best
}

// clients formats a level of the axis, e.g. "8 clients".
func clients(at string) string { return plural(int(number(at)), "client", "clients") }

// fastest names the fastest contender, and says where the rates stop growing: at the smallest
// number of clients that reaches nine tenths of the peak.
func (s *panel) fastest(unit string) string {
	var ranked []*gridCell
	var ends []string
	for _, name := range s.lines {
		peak := s.best(name)
		if peak == nil {
			continue
		}
		ranked = append(ranked, peak)
		at := slices.DeleteFunc(slices.Clone(s.axis), func(at string) bool { return s.cell(at, name) == nil })
		if enough := slices.IndexFunc(at, func(at string) bool { return s.cell(at, name).middle(0) >= saturated*peak.middle(0) }); len(at) > 1 {
			ends = append(ends, either(len(ends) == 0, "the rate of ", "that of ")+name+either(enough == len(at)-1, " still grows at ", " stops growing at ")+clients(at[enough]))
		}
	}
	if len(ranked) == 0 {
		return "nothing was measured"
	}
	slices.SortStableFunc(ranked, func(a, b *gridCell) int { return cmp.Compare(b.middle(0), a.middle(0)) })
	best := ranked[0]
	peak := fmt.Sprintf("%s %s/s at %s", figure(best.middle(0)), unit, clients(best.levels[1]))
	out := best.levels[2] + " reaches " + peak
	if len(ranked) > 1 {
		next := ranked[1]
		out = fmt.Sprintf("%s is fastest, %s, %s the best of %s", best.levels[2], peak, ratio(best.middle(0)/next.middle(0)), next.levels[2])
		if c := s.between(next, best); c != nil && c.Verdict == statistics.NoDifference {
			out = cantTell(c, best.levels[2]+" and "+next.levels[2], " at their best", func(v float64) string { return figure(v) + " " + unit + "/s" })
		}
	}
	return document.Listed("; ", out, strings.Join(ends, ", "))
}

// together reports the rates of inserts and selects with the most clients. It names no winner,
// because the faster of the two operations would decide a sum of both rates.
func (s *panel) together() string {
	at := s.axis[len(s.axis)-1]
	var parts []string
	for _, name := range s.lines {
		if c := s.cell(at, name); c != nil {
			parts = append(parts, fmt.Sprintf("%s inserts %s rows/s beside %s selects/s", name, figure(c.middle(1)), figure(c.middle(2))))
		}
	}
	return fmt.Sprintf("at %s %s", clients(at), strings.Join(parts, ", "))
}

// settings compares the second setting with the first, for each number of clients.
func (s *panel) settings() string {
	a, b := s.factors[2].Levels[0], s.factors[2].Levels[1]
	var parts []string
	for _, n := range s.axis {
		c := s.change(n, b)
		if c == nil {
			continue
		}
		at := "at " + clients(n)
		switch c.Verdict {
		case statistics.NoDifference:
			parts = append(parts, cantTell(c, "they", " "+at, figure))
		case statistics.Unknown:
			parts = append(parts, fmt.Sprintf("%s %s the rate, from one run of each: --repeat tells how sure that is", at, ratio(*c.Ratio)))
		default:
			parts = append(parts, at+" "+changedBy(c, ""))
		}
	}
	if len(parts) == 0 {
		return "the settings can't be compared: no cell was measured with both"
	}
	return fmt.Sprintf("with %s against %s: %s", b, a, strings.Join(parts, "; "))
}
