package result

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// A SteadyGoal says what a run of `bench steady` must achieve in addition to its rate. It also
// names the machine and the time zone of the run.
type SteadyGoal struct {
	// P99LimitUS is the limit of each interval's p99 in microseconds, measured from
	// the time an operation was due; 0 means none.
	P99LimitUS int64 `json:"p99_limit_us,omitempty"`
	// Host is the machine's name.
	Host string `json:"host,omitempty"`
	// Zone and UTCOffsetSeconds are the local time zone at the run's start, and are used
	// throughout the run, even across a change to or from summer time.
	Zone             string `json:"zone,omitempty"`
	UTCOffsetSeconds int    `json:"utc_offset_seconds"`
}

// Location returns the run's time zone.
func (g *SteadyGoal) Location() *time.Location { return time.FixedZone(g.Zone, g.UTCOffsetSeconds) }

// Steadiness says when a constant load was below target, and what coincided with those times (no
// proof of a cause). docs/statistics.md has the definitions and their sources. An interval is below
// target if its p99 exceeded the limit, or if too few rows were acknowledged: fewer than keptShare
// of the rows due in the interval, less one batch for rounding at the interval's ends.
type Steadiness struct {
	Host       string  `json:"host,omitempty"`
	Zone       string  `json:"zone,omitempty"`
	Asked      float64 `json:"asked_rows_per_second"`
	P99LimitUS int64   `json:"p99_limit_us,omitempty"`
	// Seconds is the time judged. The other times are parts of it, and may overlap.
	Seconds      float64 `json:"seconds"`
	BelowSeconds float64 `json:"below_seconds"`
	SlowSeconds  float64 `json:"slow_seconds"` // time below the rate
	LateSeconds  float64 `json:"late_seconds"` // time above the p99 limit
	BelowShare   float64 `json:"below_share"`
	// Stretches is the number of stretches below target.
	Stretches int      `json:"stretches"`
	Longest   *Stretch `json:"longest"`
	// ResponseUS is the response time of inserts, from when they were due.
	ResponseUS Latency `json:"response_us"`
	// Medians are the medians over all intervals of the figures examined, by name.
	Medians map[string]float64 `json:"medians"`
	// Hours are the clock hours of the run; Worst has the largest share of time below target.
	Hours []SteadyHour `json:"hours"`
	Worst *SteadyHour  `json:"worst_hour"`
	// Causes are the possible causes of time below target, in the order in which that time is
	// attributed to them. If the run can't be judged, there are none, and Unjudged says why.
	Causes   []Cause `json:"causes"`
	Unjudged string  `json:"unjudged,omitempty"`
	// Unexplained is the share of the time below target that no shown cause explains.
	Unexplained float64 `json:"unexplained_share"`
	// Missing lists candidates without figures.
	Missing []string `json:"missing,omitempty"`
}

// A Stretch is a time below target, in seconds since the run's start.
type Stretch struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
}

// Seconds returns the length of the stretch.
func (s Stretch) Seconds() float64 { return s.To - s.From }

// A SteadyHour is the part of a run within one clock hour.
type SteadyHour struct {
	Start        time.Time `json:"start"`
	Seconds      float64   `json:"seconds"`
	BelowSeconds float64   `json:"below_seconds"`
	Rate         float64   `json:"rows_per_second"`
	P99US        int64     `json:"p99_us"`
	// Steal and CPUPressure are means, null if the figure is missing.
	Steal       *float64 `json:"steal"`
	CPUPressure *float64 `json:"cpu_pressure"`
}

// BelowShare returns the share of the hour's time below target.
func (h *SteadyHour) BelowShare() float64 {
	if h.Seconds <= 0 {
		return 0
	}
	return h.BelowSeconds / h.Seconds
}

// A judged is an interval, and whether it is below target.
type judged struct {
	*Interval
	slow, late bool
	response   Histogram
}

func (j *judged) below() bool { return j.slow || j.late }

func belowTarget(ivs []judged) iter.Seq2[int, int] {
	return stretches(len(ivs), func(i int) bool { return ivs[i].below() })
}

// stretches yields each stretch of indexes that have a condition: its first index and the index
// after its last.
func stretches(n int, has func(i int) bool) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for i := 0; i < n; i++ {
			from := i
			for i < n && has(i) {
				i++
			}
			if i > from && !yield(from, i) {
				return
			}
		}
	}
}

// Steadiness judges a run of bench steady; nil for other runs.
func (r *Record) Steadiness() *Steadiness {
	goal := r.Run.Steady
	if goal == nil || r.Run.Rate <= 0 {
		return nil
	}
	s := &Steadiness{Host: goal.Host, Zone: goal.Zone, Asked: r.Run.Rate, P99LimitUS: goal.P99LimitUS, Medians: map[string]float64{}, Hours: []SteadyHour{}, Causes: []Cause{}}
	ivs := r.judge()
	var merged Merger
	for i := range ivs {
		j := &ivs[i]
		s.Seconds += j.Seconds
		if j.slow {
			s.SlowSeconds += j.Seconds
		}
		if j.late {
			s.LateSeconds += j.Seconds
		}
		if j.response.Count > 0 {
			_ = merged.Add(j.response) // damaged histograms appear in the summary's warnings
		}
		if j.below() {
			s.BelowSeconds += j.Seconds
		}
	}
	for i, end := range belowTarget(ivs) {
		s.Stretches++
		from, to := ivs[i].Elapsed-ivs[i].Seconds, ivs[end-1].Elapsed
		if s.Longest == nil || to-from > s.Longest.Seconds() {
			s.Longest = &Stretch{round3(from), round3(to)}
		}
	}
	if s.Seconds > 0 {
		s.BelowShare = s.BelowSeconds / s.Seconds
	}
	s.ResponseUS = merged.Latency()
	s.hours(r, ivs)
	s.explain(ivs)
	for _, v := range []*float64{&s.Seconds, &s.BelowSeconds, &s.SlowSeconds, &s.LateSeconds} {
		*v = round3(*v)
	}
	return s
}

func (r *Record) judge() []judged {
	var out []judged
	for i := range r.Intervals {
		iv := &r.Intervals[i]
		if r.Run.Brief(iv) || iv.Seconds <= 0 {
			continue
		}
		j := judged{Interval: iv, response: iv.Response[iv.Operation()]}
		j.slow = float64(iv.NewRows+int64(r.Run.Batch)) < keptShare*r.Run.Rate*iv.Seconds
		if limit := r.Run.Steady.P99LimitUS; limit > 0 {
			// An interval in which no due operation finished is late too, although it has no figure.
			j.late = j.response.P99 > limit || j.response.Count == 0 && j.slow
		}
		out = append(out, j)
	}
	return out
}

func (s *Steadiness) hours(r *Record, ivs []judged) {
	zone := r.Run.Steady.Location()
	shift := time.Duration(r.Run.Steady.UTCOffsetSeconds) * time.Second
	hourOf := func(j *judged) time.Time {
		at := r.Run.Started.Add(time.Duration((j.Elapsed - j.Seconds) * float64(time.Second)))
		// Truncate operates on absolute time, and zones may be offset by half an hour.
		return at.Add(shift).Truncate(time.Hour).Add(-shift).In(zone)
	}
	for i := 0; i < len(ivs); {
		h := SteadyHour{Start: hourOf(&ivs[i])}
		var rows int64
		var merged Merger
		var counted []Interval
		for ; i < len(ivs) && hourOf(&ivs[i]).Equal(h.Start); i++ {
			j := &ivs[i]
			h.Seconds += j.Seconds
			rows += j.NewRows
			if j.below() {
				h.BelowSeconds += j.Seconds
			}
			if j.response.Count > 0 {
				_ = merged.Add(j.response)
			}
			counted = append(counted, *j.Interval)
		}
		h.P99US = merged.Latency().P99
		h.Rate = float64(rows) / h.Seconds
		means := mean(counted)
		for name, to := range map[string]**float64{figSteal: &h.Steal, figCPUPressure: &h.CPUPressure} {
			if v, ok := means[name]; ok {
				*to = &v
			}
		}
		h.Seconds, h.BelowSeconds = round3(h.Seconds), round3(h.BelowSeconds)
		s.Hours = append(s.Hours, h)
	}
	if len(s.Hours) > 0 {
		s.Worst = new(slices.MaxFunc(s.Hours, func(a, b SteadyHour) int {
			return cmp.Or(cmp.Compare(a.BelowShare(), b.BelowShare()), cmp.Compare(a.P99US, b.P99US))
		}))
	}
}
