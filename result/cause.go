package result

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/rowmill/rowmill/internal/figure"
)

// A Cause is a condition that may be why a constant load fell below its target. Each interval of
// the run either had the condition or did not. Shares are shares of intervals.
type Cause struct {
	Name string `json:"name"`
	What string `json:"what"`
	// Figure is the name of the record's figure, if the cause is based on one: an interval has the
	// cause if the figure is above Threshold, or below it if Low is set.
	Figure    string  `json:"figure,omitempty"`
	Unit      string  `json:"unit,omitempty"`
	Threshold float64 `json:"threshold"`
	Low       bool    `json:"low,omitempty"`
	// A Direct cause is known to stop inserts, so no association has to be shown for it. A Witness
	// only shows that processor time was short, and so no time is attributed to it.
	Direct  bool `json:"direct,omitempty"`
	Witness bool `json:"witness,omitempty"`
	// InBelow and InOn are the shares of the intervals below and on target that had the cause.
	InBelow float64 `json:"in_below"`
	InOn    float64 `json:"in_on"`
	// MedianBelow and MedianOn are the figure's medians over the intervals below and on target.
	MedianBelow float64 `json:"median_below"`
	MedianOn    float64 `json:"median_on"`
	// Explained is the share of the time below target that the cause explains: the population
	// attributable fraction. Its 95% interval is null if it can't be computed.
	Explained     float64     `json:"explained"`
	ExplainedIn95 *[2]float64 `json:"explained_in_95"`
	// Episodes is the number of separate stretches below target that had the cause.
	Episodes int `json:"episodes"`
	// Shown is true if the association exceeds chance and was seen often enough.
	Shown bool `json:"shown"`
	// Attributed is what this cause adds to the share that the shown causes before it explain.
	Attributed float64 `json:"attributed"`
}

// A candidate is a cause to look for.
type candidate struct {
	name, what, figure, unit string
	low, direct, witness     bool
	// An interval has the cause only if the value is above floor, and also above the product of
	// relative and the median over the intervals on target.
	floor, relative float64
	// in returns the value in an interval; false if it is unknown. Without in, the value is figure.
	in func(ivs []judged, i int) (float64, bool)
	// instead names a better candidate. If its values are known, the present candidate is left out.
	instead string
}

const (
	figCPUPressure = "pressure_cpu_some"
	figIOPressure  = "pressure_io_some"
	figFrequency   = "cpu_frequency"
	figWork        = "work_seconds"
)

// candidates are the possible causes of slow intervals, in the order in which the time below target
// is attributed to them: a lost connection, causes outside the machine, other processes, the run
// and the server, the disk. The last one, the fixed work, only shows that processor time was short:
// no time is attributed to it. Steal precedes CPU pressure, because stolen time makes processes
// wait. A checkpoint precedes waiting for the disk, because a checkpoint writes.
var candidates = []candidate{
	{name: "lost connection", what: "the connection was lost, or operations were tried again", direct: true, in: disturbed},
	{name: "steal", what: "the host gave CPU time to others", figure: figSteal, unit: "fraction", floor: 0.01},
	{name: "throttling", what: "the control group's CPU quota was used up", figure: "cgroup_throttled", unit: "seconds/s", floor: 0.01},
	{name: "frequency", what: "the processors ran slower", figure: figFrequency, unit: "Hz", low: true, relative: 0.95},
	{name: "CPU pressure", what: "other processes of this machine wanted the processors", figure: figCPUPressure, unit: "fraction", floor: 0.05},
	{name: "memory pressure", what: "tasks waited for memory", figure: "pressure_memory_some", unit: "fraction", floor: 0.01},
	{name: "partitions", what: "a period was created or dropped", in: func(ivs []judged, i int) (float64, bool) { return float64(len(ivs[i].Events)), true }},
	{name: "checkpoint", what: "the checkpoint age was near the limit of the log", unit: "fraction", floor: 0.75, in: checkpointAge},
	{name: "checkpoint", what: "the checkpointer wrote and synced", unit: "fraction", floor: 0.05, in: checkpointWrites},
	{name: "I/O pressure", what: "tasks waited for the disk", figure: figIOPressure, unit: "fraction", floor: 0.05},
	{name: "iowait", what: "processors were idle while a task waited for the disk", figure: "os_cpu_iowait", unit: "fraction", floor: 0.05, instead: "I/O pressure"},
	{name: "fixed work", what: "a fixed piece of computing took longer, too", figure: figWork, unit: "seconds", relative: 1.2, witness: true},
}

// disturbed returns 1 for an interval with errors or retries, and for intervals without rows that
// follow it, because failed attempts to reconnect don't count as errors.
func disturbed(ivs []judged, i int) (float64, bool) {
	for ; i >= 0; i-- {
		if ivs[i].Errors+ivs[i].Retries > 0 {
			return 1, true
		}
		if ivs[i].NewRows > 0 {
			break
		}
	}
	return 0, true
}

func checkpointAge(ivs []judged, i int) (float64, bool) {
	c := ivs[i].Counters
	limit := c[figCheckpointMax]
	return c[figCheckpointAge] / limit, limit > 0
}

// checkpointWrites returns the seconds per second that the checkpointer spent writing and syncing.
func checkpointWrites(ivs []judged, i int) (float64, bool) {
	c := ivs[i].Counters
	write, ok := c["checkpoint_write_us"]
	return (write + c["checkpoint_sync_us"]) / 1e6, ok
}

// Limits of a judgement. An interval is on target unless its rate was too low or its response time
// too long. Quantiles need leastOn intervals on target, and the bootstrap needs leastJudged
// intervals in total. A condition that occurs in fewer than leastEpisodes stretches of time may be
// a coincidence. A figure is high if it exceeds the quantile highQuantile of its values on target;
// a higher limit would miss causes on a machine that is always under pressure. The attributable
// fraction subtracts intervals that exceed the limit by chance.
const (
	leastOn       = 20
	leastJudged   = 40
	leastEpisodes = 3
	highQuantile  = 0.75
)

func (s *Steadiness) explain(ivs []judged) {
	var values [][]float64 // of each candidate; nil means unknown
	known := map[string]bool{}
	for i := range candidates {
		c := &candidates[i]
		v := c.values(ivs)
		if v != nil && c.figure != "" {
			s.Medians[c.figure] = quantile(slices.DeleteFunc(slices.Clone(v), math.IsNaN), 0.5)
		}
		if c.instead != "" && known[c.instead] {
			v = nil
		}
		known[c.name] = known[c.name] || v != nil
		values = append(values, v)
	}
	for i := range candidates {
		if c := &candidates[i]; !known[c.name] && c.instead == "" && !slices.Contains(s.Missing, c.name) {
			s.Missing = append(s.Missing, c.name)
		}
	}
	below := 0
	for from, to := range belowTarget(ivs) {
		below += to - from
	}
	switch {
	case below == 0:
		return
	case len(ivs) < leastJudged || len(ivs)-below < leastOn:
		s.Unjudged = fmt.Sprintf("too few to tell what goes with the others: %s, %d of them on target; it takes %d, and %d on target",
			figure.Plural(len(ivs), "interval", "intervals"), len(ivs)-below, leastJudged, leastOn)
		s.Unexplained = 1
		return
	}
	// The time below target is attributed by sequential attributable fractions (Eide and Gefeller
	// 1995): the shown causes are added one by one. All causes added so far together explain a share
	// of that time. The cause added last gets the increase of this share.
	any, together := make([]bool, len(ivs)), 0.0
	for i := range candidates {
		if values[i] == nil {
			continue
		}
		c, has, ok := candidates[i].judge(ivs, values[i])
		if !ok {
			continue
		}
		if c.Shown && !c.Witness {
			for k := range ivs {
				any[k] = any[k] || has[k]
			}
			now := max(together, explained(fourfolds(ivs, any).total()))
			c.Attributed, together = now-together, now
		}
		s.Causes = append(s.Causes, c)
	}
	s.Unexplained = 1 - together
}

// values returns the candidate's value in each interval, NaN if unknown; nil if it
// is unknown in half of the intervals or more.
func (c *candidate) values(ivs []judged) []float64 {
	in := c.in
	if in == nil {
		in = func(ivs []judged, i int) (float64, bool) {
			v, ok := ivs[i].Counters[c.figure]
			return v, ok
		}
	}
	out := make([]float64, len(ivs))
	n := 0
	for i := range ivs {
		v, ok := in(ivs, i)
		if !ok || math.IsNaN(v) || math.IsInf(v, 0) {
			v = math.NaN()
		} else {
			n++
		}
		out[i] = v
	}
	if 2*n <= len(ivs) {
		return nil
	}
	return out
}

// judge determines how a candidate is associated with the time below target, and which intervals
// have that cause. ok is false if too few intervals on target have the figure.
func (c *candidate) judge(ivs []judged, values []float64) (out Cause, has []bool, ok bool) {
	out = Cause{Name: c.name, What: c.what, Figure: c.figure, Unit: c.unit, Low: c.low, Direct: c.direct, Witness: c.witness}
	sign := 1.0
	if c.low {
		sign = -1 // so that higher is always worse
	}
	var on, below []float64
	for i, v := range values {
		switch {
		case math.IsNaN(v):
		case ivs[i].below():
			below = append(below, sign*v)
		default:
			on = append(on, sign*v)
		}
	}
	if len(on) < leastOn {
		return out, nil, false
	}
	threshold := max(quantile(on, highQuantile), sign*c.floor)
	if c.relative > 0 {
		threshold = max(threshold, c.relative*quantile(on, 0.5))
	}
	if c.in != nil && c.unit == "" { // a count of occurrences: one is enough
		threshold = 0
	}
	out.Threshold, out.MedianBelow, out.MedianOn = sign*threshold, sign*quantile(below, 0.5), sign*quantile(on, 0.5)
	if math.IsNaN(out.MedianBelow) {
		out.MedianBelow = 0
	}
	has = make([]bool, len(ivs))
	for i, v := range values {
		has[i] = sign*v > threshold
	}
	for from, to := range belowTarget(ivs) {
		if slices.Contains(has[from:to], true) {
			out.Episodes++
		}
	}
	table := fourfolds(ivs, has)
	all := table.total()
	out.InBelow, out.InOn = share(all[belowWith], all[belowWithout]), share(all[onWith], all[onWithout])
	out.Explained, out.ExplainedIn95 = max(0, explained(all)), table.in95(explained)
	out.Shown = out.Episodes >= leastEpisodes && out.ExplainedIn95 != nil && out.ExplainedIn95[0] > 0
	if c.direct {
		out.Shown = out.Episodes > 0
	}
	return out, has, true
}

// quantile returns the nearest-rank quantile; NaN for an empty list.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	v := slices.Sorted(slices.Values(values))
	return v[max(0, int(math.Ceil(q*float64(len(v))))-1)]
}

// The block bootstrap over time (Künsch 1989): blocks of neighbouring intervals are drawn with
// replacement, because disturbances of a machine last for some time. A run is divided into about 20
// blocks; for a run of a day, a block is longer than an hour. With a thousand rounds, two digits of
// a 95% interval are reproducible.
const (
	blocksInRun     = 20
	bootstrapRounds = 1000
	// leastDrawn is the minimum share of rounds that must yield a value.
	leastDrawn = 0.9
)

// sums are counts over intervals: a fourfold table.
type sums [4]float64

func (s sums) plus(o sums, sign float64) sums {
	for i := range s {
		s[i] += sign * o[i]
	}
	return s
}

// prefixes holds cumulative sums: element i covers the first i intervals.
type prefixes []sums

func (p prefixes) total() sums { return p[len(p)-1] }

// in95 returns the 95% interval of a statistic. The statistic is NaN in a round in which it has no
// value. in95 returns nil if there are too many such rounds.
func (p prefixes) in95(statistic func(sums) float64) *[2]float64 {
	n := len(p) - 1
	length := max(1, n/blocksInRun)
	// A constant seed, so that the same record always gives the same report.
	rng := rand.New(rand.NewPCG(1, 95))
	drawn := make([]float64, 0, bootstrapRounds)
	for range bootstrapRounds {
		var sum sums
		for range (n + length - 1) / length {
			at := rng.IntN(n - length + 1)
			sum = sum.plus(p[at+length].plus(p[at], -1), 1)
		}
		if v := statistic(sum); !math.IsNaN(v) {
			drawn = append(drawn, v)
		}
	}
	if float64(len(drawn)) < leastDrawn*bootstrapRounds {
		return nil
	}
	slices.Sort(drawn)
	return &[2]float64{drawn[len(drawn)*25/1000], drawn[len(drawn)*975/1000-1]}
}

// A fourfold table counts intervals: below target or on target, with or without a cause.
const (
	belowWith = iota
	belowWithout
	onWith
	onWithout
)

// fourfolds counts the intervals. has tells which intervals have the cause.
func fourfolds(ivs []judged, has []bool) prefixes {
	out := make(prefixes, len(ivs)+1)
	for i := range ivs {
		cell := onWithout
		if ivs[i].below() {
			cell = belowWithout
		}
		if has[i] {
			cell--
		}
		out[i+1] = out[i]
		out[i+1][cell]++
	}
	return out
}

func share(with, without float64) float64 {
	if with+without == 0 {
		return 0
	}
	return with / (with + without)
}

// explained returns the population attributable fraction of a fourfold table, in Miettinen's form
// (1974): p * (1 - 1/RR), where p is the share of the intervals below target that had the cause,
// and RR is the risk of being below target with the cause, divided by the risk without it. The
// fraction estimates the share of the time below target that would not have occurred if intervals
// with the cause were below target as rarely as intervals without it. It is NaN if no interval is
// below target.
func explained(f sums) float64 {
	switch {
	case f[belowWith]+f[belowWithout] == 0:
		return math.NaN()
	case f[belowWith] == 0:
		return 0
	}
	exposed, others := share(f[belowWith], f[onWith]), share(f[belowWithout], f[onWithout])
	return share(f[belowWith], f[belowWithout]) * (1 - others/exposed)
}
