package result

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rowmill/rowmill/internal/figure"
)

// A Search in a run's header means that the run is part of a search for the highest rate with a
// response time within its limit. The run fills the table, or is a trial of one rate. All trials
// insert into the same table.
type Search struct {
	// Trial is the number of the trial, from 1; 0 is the filling.
	Trial int `json:"trial"`
	// Purpose is "bracket", "halve", "confirm" (the rate found must pass again) or
	// "above" (a rate a fifth higher must fail).
	Purpose string `json:"purpose,omitempty"`
	// LimitUS is the limit of the 99th percentile of the response time.
	LimitUS int64 `json:"p99_limit_us"`
	// TrialSeconds is the length of a trial, whose first RampSeconds are not judged.
	TrialSeconds float64 `json:"trial_seconds"`
	RampSeconds  float64 `json:"ramp_seconds"`
	// TableRows counts the rows at the start of the trial. SettleRows of them were inserted at
	// SettleRate during the SettleSeconds before the trial, while the server completed its pending
	// work.
	TableRows     int64   `json:"table_rows,omitempty"`
	SettleSeconds float64 `json:"settle_seconds,omitempty"`
	SettleRate    float64 `json:"settle_rate,omitempty"`
	SettleRows    int64   `json:"settle_rows,omitempty"`
}

// A Searched is the state of a search after a run.
type Searched struct {
	// State is "searching", "found", "none" (not even the lowest rate passed) or
	// "gave up" (too many trials).
	State string `json:"state"`
	// Low is the highest rate known to pass, High the lowest known to fail, in rows/s.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
	// Inserted is the number of rows inserted since the table was created.
	Inserted int64 `json:"inserted"`
}

// A Trial is the result of a run at one rate.
type Trial struct {
	Number  int    `json:"trial"`
	Purpose string `json:"purpose"`
	// Rate is the requested rate, Done the achieved rate, in rows/s.
	Rate float64 `json:"rate"`
	Done float64 `json:"done"`
	// TableRows is the number of rows in the table at the trial's start and end.
	TableRows [2]int64 `json:"table_rows"`
	// Seconds and Operations are the time and the operations that were judged.
	Seconds    float64 `json:"seconds"`
	Operations int64   `json:"operations"`
	// P99US is the 99th percentile of the response time, over the operations due after the ramp. An
	// unfinished operation counts with the time that it has waited. ServiceP99US is the 99th
	// percentile of the time from sending an operation to its answer.
	P99US        int64 `json:"p99_us"`
	ServiceP99US int64 `json:"service_p99_us"`
	// Over is the share of the operations that took longer than the limit.
	Over float64 `json:"over"`
	// Backlog is the number of operations due but unfinished at the end.
	Backlog int64 `json:"backlog"`
	// Overloaded is true if less than 95% of the rate was achieved, or if the backlog
	// was growing beyond what can be worked off within the limit.
	Overloaded bool `json:"overloaded"`
	// Busy is the share of the writers' time spent waiting for the database.
	Busy float64 `json:"busy"`
	// Late is the number of operations that began late.
	Late int64 `json:"late"`
	// Pass is the verdict: true if the backlog is bounded and P99US is within the limit. Close means
	// that the verdict was narrow.
	Pass  bool `json:"pass"`
	Close bool `json:"close"`
	// Verdict is "held", "broke" or, for a trial that was cut short, "no verdict".
	Verdict string `json:"verdict"`
}

// Verdicts of a trial.
const (
	VerdictHeld  = "held"
	VerdictBroke = "broke"
	VerdictNone  = "no verdict"
)

const (
	// overShare is the share of operations that may exceed the limit, by definition of the p99.
	overShare = 0.01
	// A verdict is clear if the share of operations slower than the limit of the response time is at
	// most clearlyFew or at least clearlyMany: a single stall more or less doesn't change it. If the
	// share exceeds clearlyMany, a trial ends early.
	clearlyFew, clearlyMany = overShare / 5, overShare * 5
	// StoppedDecided is the value of End.Stopped for a trial that ended early.
	StoppedDecided = "decided"
)

// flatShare detects a response time that hardly depends on the rate: already in a trial at no more
// than flatShare of the rate found, the 99th percentile was at least flatShare of its limit.
const flatShare = 0.75

// IsTrial reports whether the run is a trial of a rate.
func (r *Record) IsTrial() bool { return r.Run.Search != nil && r.Run.Search.Trial > 0 }

// Trial returns the result of a trial, even if it was cut off; nil if the run isn't a trial.
func (r *Record) Trial() *Trial {
	if !r.IsTrial() {
		return nil
	}
	s := r.Run.Search
	t := &Trial{Number: s.Trial, Purpose: s.Purpose, Rate: r.Run.Rate, TableRows: [2]int64{s.TableRows, s.TableRows}, Verdict: VerdictNone}
	if n := len(r.Intervals); n > 0 {
		last := &r.Intervals[n-1]
		t.Backlog, t.TableRows[1] = last.Backlog, s.TableRows+last.Rows
		if r.Run.KeepRows > 0 {
			t.TableRows[1] = last.HeldRows
		}
	}
	if o := r.OpenLoop(); o != nil {
		// A backlog that is worked off within the limit is an ordinary queue.
		every := 1e6 * float64(max(r.Run.Batch, 1)) / r.Run.Rate
		queue := float64(o.Backlog) * every
		t.Done, t.Overloaded = o.Done, o.Done < keptShare*o.Asked || o.Growing && queue > float64(s.LimitUS)
	}
	c := counted(r)
	t.Seconds, t.Operations, t.P99US, t.ServiceP99US, t.Late = c.seconds, c.response.TotalCount(), c.response.ValueAtQuantile(99), c.service.ValueAtQuantile(99), c.late
	if t.Operations > 0 {
		t.Over = float64(c.over) / float64(t.Operations)
	}
	if c.seconds > 0 {
		t.Busy = c.wait / (c.seconds * float64(max(r.Run.Writers, 1)))
	}
	// A trial "above" fails only by its response time, not by a backlog that has not affected it yet.
	t.Pass = t.Operations > 0 && t.Over <= overShare && (!t.Overloaded || t.Purpose == "above")
	t.Close = t.Over < clearlyMany
	if t.Pass {
		t.Close = t.Over > clearlyFew
	}
	if e := r.End; e != nil && (e.Stopped == "max-time" || e.Stopped == StoppedDecided) {
		t.Verdict = VerdictBroke
		if t.Pass {
			t.Verdict = VerdictHeld
		}
	}
	return t
}

// A weighed contains the judged part of a trial.
type weighed struct {
	response, service *hdrhistogram.Histogram
	over, late        int64 // operations
	seconds, wait     float64
}

// counted adds up a trial's intervals after the ramp. It also counts the operations that were due
// but unfinished at the trial's end: without them, a stalled server would appear fast. The newest
// of these is taken to have been due at the end, and each other one earlier by the time between two
// operations at the rate. Those that have waited for less than the limit can't be judged yet, and
// are left out. Damaged distributions are omitted.
func counted(r *Record) weighed {
	c := weighed{response: NewHistogram(), service: NewHistogram()}
	limit := r.Run.Search.LimitUS
	for i := range r.Intervals {
		iv := &r.Intervals[i]
		if iv.Elapsed-iv.Seconds < r.Run.Search.RampSeconds-iv.Seconds/2 {
			continue
		}
		c.seconds += iv.Seconds
		c.wait += iv.WaitSeconds
		c.late += iv.Late
		op := iv.Operation()
		if h, err := iv.Response[op].Decode(); err == nil {
			c.response.Merge(h)
		}
		if h, err := iv.Latency[op].Decode(); err == nil {
			c.service.Merge(h)
		}
	}
	n := len(r.Intervals)
	if n == 0 || c.seconds == 0 || r.Run.Rate <= 0 {
		return c
	}
	every := 1e6 * float64(max(r.Run.Batch, 1)) / r.Run.Rate // microseconds
	backlog := r.Intervals[n-1].Backlog
	for i := int64(float64(limit)/every) + 1; i <= backlog; i++ {
		_ = c.response.RecordValue(min(int64(float64(i)*every), histogramMax))
	}
	for _, bar := range c.response.Distribution() {
		if bar.From > limit {
			c.over += bar.Count
		}
	}
	return c
}

// Decided reports whether a trial in progress is certain to fail clearly: continuing would only add
// to the server's pending work. Trials with the purpose "confirm" or "above" run to their end,
// because their figures are reported.
func (r *Record) Decided() bool {
	if !r.IsTrial() || r.Run.Search.Purpose == "confirm" || r.Run.Search.Purpose == "above" {
		return false
	}
	s := r.Run.Search
	all := r.Run.Rate / float64(max(r.Run.Batch, 1)) * (s.TrialSeconds - s.RampSeconds)
	return float64(counted(r).over) > clearlyMany*max(all, 1)
}

// A Capacity is the result of a search.
type Capacity struct {
	Name   string `json:"name"`
	Layout string `json:"layout"`
	Engine string `json:"engine"`
	Repeat int    `json:"repeat,omitempty"`
	// State is Searched.State, or "interrupted" if the search was cut short.
	State string `json:"state"`
	// P99LimitUS is the requested limit.
	P99LimitUS int64 `json:"p99_limit_us"`
	// RowsPerSecond is the rate found. P99US is the 99th percentile of the response time in the trial
	// that confirmed the rate, and Rows the number of rows in the table at that time.
	RowsPerSecond float64 `json:"rows_per_second"`
	Rows          int64   `json:"rows"`
	P99US         int64   `json:"p99_us"`
	// BrokenOff is why an interrupted search has no result.
	BrokenOff string `json:"broken_off,omitempty"`
	// Above is the trial which shows that a higher rate fails.
	Above *Trial `json:"above"`
	// Low and High are the bracket; 0 means unknown.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// FilledRows counts the rows inserted before the first trial, in a closed loop.
	FilledRows int64 `json:"filled_rows"`
	// Trials are all trials in order.
	TrialSeconds float64   `json:"trial_seconds"`
	RampSeconds  float64   `json:"ramp_seconds"`
	Trials       []Trial   `json:"trials"`
	Verified     *Verified `json:"verified"`
	SizeBytes    *Size     `json:"size_bytes"`
	Warnings     []string  `json:"warnings"`
	// Source is the name of the file.
	Source string `json:"-"`
}

// Capacities returns the result of each search in the records, including incomplete ones.
func Capacities(recs []Record) []Capacity {
	var out []Capacity
	for _, runs := range Searches(recs) {
		out = append(out, capacity(runs))
	}
	return out
}

// Searches returns the runs of each search: its filling, then its trials.
func Searches(recs []Record) [][]*Record {
	var out [][]*Record
	for i := range recs {
		r := &recs[i]
		if r.Run.Search == nil {
			continue
		}
		n := len(out)
		if n == 0 || r.Run.Search.Trial == 0 || out[n-1][0].Source != r.Source {
			out = append(out, nil)
			n++
		}
		out[n-1] = append(out[n-1], r)
	}
	return out
}

func capacity(runs []*Record) Capacity {
	first := &runs[0].Run
	c := Capacity{
		Name: first.Name, Layout: first.Layout, Engine: first.Engine, Repeat: first.Repeat, Source: runs[0].Source,
		State: "interrupted", P99LimitUS: first.Search.LimitUS, TrialSeconds: first.Search.TrialSeconds, RampSeconds: first.Search.RampSeconds,
		Trials: []Trial{}, Warnings: []string{},
	}
	for _, r := range runs {
		if t := r.Trial(); t != nil {
			c.Trials = append(c.Trials, *t)
		} else if n := len(r.Intervals); n > 0 {
			c.FilledRows = r.Intervals[n-1].Rows
		}
		e := r.End
		if e == nil {
			continue
		}
		if s := e.Search; s != nil {
			c.Low, c.High = s.Low, s.High
			if s.State != "searching" {
				c.State = s.State
			}
		}
		if e.Failure != "" {
			c.State = "failed"
			c.Warnings = append(c.Warnings, "failed: "+e.Failure)
		}
		if e.Verified != nil {
			c.Verified = e.Verified
		}
		if e.Size != nil {
			c.SizeBytes = e.Size
		}
	}
	c.conclude()
	if c.State == "interrupted" {
		last := runs[len(runs)-1]
		c.BrokenOff = map[string]string{StoppedKilled: "rowmill was killed", "interrupted": "it was interrupted"}[last.Stopped()]
		switch {
		case c.BrokenOff != "":
		case last.Run.Search.Trial == 0:
			c.BrokenOff = "its record ends after the filling"
		default:
			c.BrokenOff = fmt.Sprintf("its record ends after trial %d", last.Run.Search.Trial)
		}
	}
	c.warn(runs)
	return c
}

// conclude finds the trials that confirm the rate found by a search.
func (c *Capacity) conclude() {
	if c.State != "found" {
		return
	}
	for i := range c.Trials {
		t := &c.Trials[i]
		switch {
		case t.Purpose == "confirm" && t.Verdict == VerdictHeld && t.Rate == c.Low:
			c.RowsPerSecond, c.Rows, c.P99US = t.Rate, t.TableRows[1], t.P99US
		case t.Purpose == "above" && t.Verdict == VerdictBroke:
			c.Above = t
		}
	}
	if c.RowsPerSecond == 0 || c.Above == nil {
		c.State = "interrupted" // the record lacks the trials that confirmed it
	}
}

const (
	// fewOperations is the minimum for a meaningful p99: ten operations lie beyond the p99.
	fewOperations = 1000
	// If the writers wait for the database for more than busyWriters of the time, they are too few to
	// begin operations when due. If they wait for less than idleWriters of the time, late operations
	// are the client's fault.
	busyWriters, idleWriters = 0.85, 0.5
	// latePart is the share of late operations from which on the client is the cause.
	latePart = overShare
)

// warn adds warnings about whatever makes the result doubtful, with advice.
func (c *Capacity) warn(runs []*Record) {
	say := func(format string, args ...any) { c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...)) }
	for i := range c.Trials {
		if t := &c.Trials[i]; t.Verdict != VerdictNone && t.Rate <= flatShare*c.RowsPerSecond && float64(t.P99US) >= flatShare*float64(c.P99LimitUS) {
			say("p99 depends little on the rate here: it was %s at %s rows/s already, so that chance decides what holds, and another search may find another rate; "+
				"a higher --p99 or a longer --trial gives a rate that can be found again", figure.Micros(t.P99US), figure.Rounded(t.Rate))
			break
		}
	}
	batch := max(runs[len(runs)-1].Run.Batch, 1)
	var late []string
	var edge *Trial // the trial of the lowest rate that broke
	few := int64(math.MaxInt64)
	for i := range c.Trials {
		t := &c.Trials[i]
		if t.Verdict == VerdictNone {
			continue
		}
		if t.Purpose == "confirm" {
			few = min(few, t.Operations)
		}
		if t.Verdict == VerdictHeld {
			continue
		}
		if edge == nil || t.Rate < edge.Rate {
			edge = t
		}
		if t.Busy < idleWriters && t.ServiceP99US <= c.P99LimitUS && float64(t.Late) > latePart*float64(t.Operations) {
			late = append(late, fmt.Sprint(t.Number))
		}
	}
	if edge != nil && edge.Busy > busyWriters && edge.ServiceP99US <= c.P99LimitUS/2 {
		say("the writers may be the limit: in trial %d none of them was idle while the database answered within half of the limit, so operations waited for a writer; more --writers show whether the database takes more",
			edge.Number)
	}
	if len(late) > 0 {
		say("client-bound: in trial %s rowmill began operations late though writers were free: it, or what else runs on this machine, left it too little CPU time to offer the rate; run it on a machine of its own",
			strings.Join(late, ", "))
	}
	if few < fewOperations {
		say("few operations: the p99 of a confirming trial stands on %d operations of %d rows, %d of them beyond it; a longer --trial or a smaller --batch tells more", few, batch, few/100)
	}
	switch c.State {
	case "none":
		if n := len(c.Trials); n > 0 && c.Trials[n-1].ServiceP99US > c.P99LimitUS {
			say("too slow for the limit: the database's own time, without waiting, has a p99 of %s for %d rows; fewer rows in a --batch, or a higher --p99",
				figure.Micros(c.Trials[n-1].ServiceP99US), batch)
		}
		say("no rate found: not even %s rows/s held the limit; a trial of less would have fewer than 100 operations, of which a p99 says nothing", figure.Rounded(c.High))
	case "gave up":
		say("gave up after %d trials: their verdicts contradict each other, so something else than the rate decides them; a longer --trial, a quieter machine, or another limit", len(c.Trials))
	}
	for _, r := range runs {
		if !r.IsTrial() {
			continue // the filling has its own report
		}
		text := func(w string) string { return w }
		c.Warnings = union(c.Warnings, r.Run.Warnings, text)
		if r.End != nil {
			// Counters missing in a trial don't affect any verdict.
			c.Warnings = union(c.Warnings, slices.DeleteFunc(slices.Clone(r.End.Warnings), func(w string) bool { return strings.HasPrefix(w, "server counters missing") }), text)
		}
	}
}
