package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/result"
)

// saturated is the share of the peak from which on more clients count as no improvement:
// repeated cells differ by less than a tenth.
const saturated = 0.9

// speedTest lays out the cells of `bench mixed` or `bench points`: operations, clients, and contenders.
func speedTest(recs []result.Record) (experiment, error) {
	p := newProjection(recs, "operation", "clients", "contender")
	p.doubling, p.servers = true, 2
	counts := map[string]string{} // what a section's rates count; "" for inserts and selects together
	p.measures = func(section string) []measure {
		if unit := counts[section]; unit != "" {
			return append([]measure{{key: strings.ReplaceAll(unit, " ", "_") + "_per_second", name: unit + "/s", of: rate, chart: unit + "/s", compared: true},
				micro("p50_us", "p50", "", latencyOf("", p50)), micro("p99_us", "p99", "p99, ms", latencyOf("", p99)), micro("max_us", "max", "", latencyOf("", longestOf))}, costs("operation", "op")...)
		}
		return append([]measure{{key: "operations_per_second", name: "operations/s", of: func(v *view) float64 { return v.operations() / v.sum.Seconds }},
			{key: "inserted_rows_per_second", name: "rows/s inserted", of: rate, chart: "rows/s inserted", compared: true},
			{key: "selects_per_second", name: "selects/s", compared: true, of: func(v *view) (selects float64) {
				for _, d := range v.sum.Beside {
					selects += d.PerSecond
				}
				return selects
			}},
			micro("insert_p50_us", "insert p50", "", latencyOf("insert", p50)), micro("insert_p99_us", "p99", "p99 of inserts, ms", latencyOf("insert", p99)),
			micro("select_p50_us", "select p50", "", latencyOf("select-pk", p50)), micro("select_p99_us", "p99", "", latencyOf("select-pk", p99))}, costs("operation", "op")...)
	}
	for i := range recs {
		c := recs[i].Run.Speed
		section := c.Operation
		if c.Points > 0 {
			section = "select of " + plural(c.Points, "point", "points")
		}
		counts[section] = c.Counts
		if mixes(c) {
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
		return []string{s.name + ": " + sentence(text)}
	}
	p.title, p.subtitle = speedTitle(p), speedSubtitle(p)
	return p, nil
}

// mixes reports whether selects run beside the inserts.
func mixes(c *result.Speed) bool { return c.Readers > 0 && c.Readers < c.Clients }

// operations counts those of a run.
func (v *view) operations() (all float64) {
	for _, l := range v.sum.LatencyUS {
		all += float64(l.Count)
	}
	return all
}

// costs are what an operation costs server and client, and how busy the client is.
func costs(operation, short string) []measure {
	each := func(cpu func(v *view) *float64) func(v *view) float64 {
		return func(v *view) float64 {
			if v.rec.End == nil || v.operations() == 0 {
				return math.NaN()
			}
			return 1e6 * deref(cpu(v)) / v.operations()
		}
	}
	return []measure{{key: "server_cpu_us_per_" + operation, name: "server CPU/" + short, format: micros[float64], of: each(func(v *view) *float64 { return v.sum.Server.CPUSeconds })},
		{key: "client_cpu_us_per_" + operation, name: "client CPU/" + short, format: micros[float64], of: each(func(v *view) *float64 { return &v.sum.Client.CPUSeconds })},
		{key: "client_share", name: "client busy", format: percent, of: func(v *view) float64 {
			var busy, wait float64
			for i := range v.rec.Intervals {
				busy, wait = busy+v.rec.Intervals[i].BusySeconds, wait+v.rec.Intervals[i].WaitSeconds
			}
			return busy / (busy + wait)
		}}}
}

// CellLine describes the result of a cell in a few words.
func CellLine(s result.Summary) string {
	unit := "rows"
	if s.Speed != nil {
		unit = s.Speed.Counts
	}
	out := figure(s.RowsPerSecond) + " " + unit + "/s"
	for _, op := range ops(s.LatencyUS) {
		if d, ok := s.Beside[op]; ok {
			out += fmt.Sprintf(", %s %s queries/s p99 %s", op, figure(d.PerSecond), micros(s.LatencyUS[op].P99))
			continue
		}
		out += ", p99 " + micros(s.LatencyUS[op].P99)
	}
	return out + onlyIf(s.Client.Bound, ", client-bound") + onlyIf(s.Failure != "", ", FAILED")
}

func speedTitle(p *projection) string {
	var names []string
	for _, c := range p.contenders {
		names = append(names, c.Label)
	}
	what := "Speed of inserts and selects"
	if p.recs[0].Run.Workload == "points" {
		what = "Speed of selects of points"
	}
	if p.contenders[0].Setting != "" {
		what += " on " + result.EngineName(p.contenders[0].Engine)
	}
	if last := len(names) - 1; last > 0 {
		names = []string{strings.Join(names[:last], ", ") + " and " + names[last]}
	}
	return what + ": " + names[0]
}

func speedSubtitle(p *projection) []string {
	r := &p.recs[0].Run
	parts := []string{r.Preset + " table of " + short(float64(r.Speed.Filled)) + " rows", seconds(r.MaxTimeSeconds) + " a cell"}
	if r.WarmupSeconds > 0 {
		parts = append(parts, "after a warm-up of "+seconds(r.WarmupSeconds))
	}
	if n := p.repeats(); n > 1 {
		parts = append(parts, fmt.Sprintf("medians of %d runs", n))
	}
	return append(parts, p.common()...)
}

// course is a contender's rates by clients: its peak, and the smallest number of clients that reaches nine tenths of it;
// 0 if more clients than measured may increase the rate further.
type course struct {
	name                string
	peak                float64
	at, saturated, last int
	several             bool
}

func (s *panel) course(name string) course {
	out := course{name: name}
	var rates []float64
	var clients []int
	for _, at := range s.axis {
		if c := s.cell(at, name); c != nil {
			rates, clients = append(rates, c.middle(0)), append(clients, int(number(at)))
		}
	}
	if len(rates) == 0 {
		return out
	}
	most := slices.Index(rates, slices.Max(rates))
	out.peak, out.at, out.last, out.several = rates[most], clients[most], clients[len(clients)-1], len(clients) > 1
	if i := slices.IndexFunc(rates, func(r float64) bool { return r >= saturated*out.peak }); i < len(rates)-1 {
		out.saturated = clients[i]
	}
	return out
}

// growth tells from which number of clients on the rate no longer grows.
func (c course) growth() string {
	if c.saturated == 0 {
		return c.name + " still grows at " + plural(c.last, "client", "clients")
	}
	return c.name + " stops growing at " + plural(c.saturated, "client", "clients")
}

// fastest names the fastest contender and where growth ends.
func (s *panel) fastest(unit string) string {
	var ranked []course
	var ends []string
	for _, name := range s.lines {
		if c := s.course(name); c.peak > 0 {
			if ranked = append(ranked, c); c.several {
				ends = append(ends, c.growth())
			}
		}
	}
	if len(ranked) == 0 {
		return "nothing was measured"
	}
	slices.SortStableFunc(ranked, func(a, b course) int { return cmp.Compare(b.peak, a.peak) })
	best := ranked[0]
	peak := fmt.Sprintf("%s %s/s at %s", figure(best.peak), unit, plural(best.at, "client", "clients"))
	out := best.name + " reaches " + peak
	if len(ranked) > 1 {
		next := ranked[1]
		out = fmt.Sprintf("%s is fastest, %s, %s the best of %s", best.name, peak, ratio(best.peak/next.peak), next.name)
		if c := s.between(s.cell(strconv.Itoa(next.at), next.name), s.cell(strconv.Itoa(best.at), best.name)); c != nil && c.Verdict == NoDifference {
			out = c.cantTell(best.name+" and "+next.name, " at their best", func(v float64) string { return figure(v) + " " + unit + "/s" })
		}
	}
	return listed("; ", out, strings.Join(ends, ", "))
}

// together reports both parts of a mixed rate at the largest number of clients. It names no winner, because the faster
// operation dominates the sum.
func (s *panel) together() string {
	at := s.axis[len(s.axis)-1]
	var parts []string
	for _, name := range s.lines {
		if c := s.cell(at, name); c != nil {
			parts = append(parts, fmt.Sprintf("%s inserts %s rows/s beside %s selects/s", name, figure(c.middle(1)), figure(c.middle(2))))
		}
	}
	return fmt.Sprintf("at %s %s", plural(int(number(at)), "client", "clients"), strings.Join(parts, ", "))
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
		at := "at " + plural(int(number(n)), "client", "clients")
		switch c.Verdict {
		case NoDifference:
			parts = append(parts, c.cantTell("they", " "+at, figure))
		case Unknown:
			parts = append(parts, fmt.Sprintf("%s %s the rate, from one run of each: --repeat tells how sure that is", at, ratio(*c.Ratio)))
		default:
			parts = append(parts, at+" "+c.by(""))
		}
	}
	if len(parts) == 0 {
		return "the settings can't be compared: no cell was measured with both"
	}
	return fmt.Sprintf("with %s against %s: %s", b, a, strings.Join(parts, "; "))
}
