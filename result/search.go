package result

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Search in a run's header tells that the run is part of a search for the
// highest rate at which the response time holds: the filling of the table, or a
// trial of one rate on that table, which goes on growing.
type Search struct {
	// Trial counts from 1; 0 is the filling, with which a search begins.
	Trial int `json:"trial"`
	// Purpose is why this rate is tried: "bracket", "halve", "confirm" (the
	// rate found must pass again) or "above" (a fifth more must fail).
	Purpose string `json:"purpose,omitempty"`
	// LimitUS is what the 99th percentile of the response time is to keep to.
	LimitUS int64 `json:"p99_limit_us"`
	// TrialSeconds is how long a trial lasts. What was done in its first
	// RampSeconds is not judged.
	TrialSeconds float64 `json:"trial_seconds"`
	RampSeconds  float64 `json:"ramp_seconds"`
	// TableRows is how many rows the table held as the trial began. SettleRows
	// of them were inserted in the SettleSeconds before, at SettleRate, so that
	// the trial began on a server that had worked off what was left undone.
	TableRows     int64   `json:"table_rows,omitempty"`
	SettleSeconds float64 `json:"settle_seconds,omitempty"`
	SettleRate    float64 `json:"settle_rate,omitempty"`
	SettleRows    int64   `json:"settle_rows,omitempty"`
}

// A Searched is what the end of such a run says: what is known after it.
type Searched struct {
	// State is "searching", or how the search ended: "found", "none" (not even
	// the least rate passed), "gave up" (too many trials).
	State string `json:"state"`
	// Low is the highest rate known to pass, High the lowest known to fail, in
	// rows/s; 0 is none.
	Low  float64 `json:"low,omitempty"`
	High float64 `json:"high,omitempty"`
	// Inserted is how many rows were inserted since the table was made.
	Inserted int64 `json:"inserted"`
}

// A Trial is what the run of one rate gave.
type Trial struct {
	Number  int    `json:"trial"`
	Purpose string `json:"purpose"`
	// Rate was asked for, Done is what was done, in rows/s.
	Rate float64 `json:"rate"`
	Done float64 `json:"done"`
	// TableRows is how many rows the table held at its begin and at its end.
	TableRows [2]int64 `json:"table_rows"`
	// Seconds and Operations are what the verdict is made from.
	Seconds    float64 `json:"seconds"`
	Operations int64   `json:"operations"`
	// P99US is the response time's, of the operations that were due after the
	// ramp; those not finished at the end count with the time they had waited.
	// ServiceP99US is that of the database alone.
	P99US        int64 `json:"p99_us"`
	ServiceP99US int64 `json:"service_p99_us"`
	// Over is the share of the operations that took longer than the limit.
	Over float64 `json:"over"`
	// Backlog is how many operations were due and not finished at the end.
	Backlog int64 `json:"backlog"`
	// Overloaded tells that less than 95% of the rate was done, or that the
	// backlog grew to the end and beyond what is worked off within the limit.
	Overloaded bool `json:"overloaded"`
	// Busy is the share of their time that the writers waited for the database.
	Busy float64 `json:"busy"`
	// Late is how many operations were begun late.
	Late int64 `json:"late"`
	// Pass is the verdict: the backlog is bounded and P99US within the limit.
	// Close tells that it was a close thing.
	Pass  bool `json:"pass"`
	Close bool `json:"close"`
	// Verdict is "held", "broke" or, of a trial that was not brought to its
	// end and doesn't count, "no verdict".
	Verdict string `json:"verdict"`
}

// Verdicts of a trial.
const (
	VerdictHeld  = "held"
	VerdictBroke = "broke"
	VerdictNone  = "no verdict"
)

const (
	// overShare is what the 99th percentile leaves to be over the limit.
	overShare = 0.01
	// A verdict is clear when the share over the limit is a fifth of that, or
	// five times it: so far, neither one stall nor its absence turns it.
	clearlyFew, clearlyMany = overShare / 5, overShare * 5
	// decidedShare of all operations that a trial would have, over the limit,
	// end it early.
	decidedShare = clearlyMany
	// StoppedDecided is why such a trial stopped.
	StoppedDecided = "decided"
)

// flatShare of the rate found at flatShare of the limit or more says that the
// response time is not made by the rate.
const flatShare = 0.75

// IsTrial tells that the run is a trial of a rate.
func (r *Record) IsTrial() bool { return r.Run.Search != nil && r.Run.Search.Trial > 0 }

// Trial returns what a trial gave, also of one that was cut off; nil when the
// run is no trial.
func (r *Record) Trial() *Trial {
	if !r.IsTrial() {
		return nil
	}
	s := r.Run.Search
	t := &Trial{Number: s.Trial, Purpose: s.Purpose, Rate: r.Run.Rate, TableRows: [2]int64{s.TableRows, s.TableRows}, Verdict: VerdictNone}
	if n := len(r.Intervals); n > 0 {
		t.Backlog, t.TableRows[1] = r.Intervals[n-1].Backlog, s.TableRows+r.Intervals[n-1].Rows
	}
	if o := r.OpenLoop(); o != nil {
		// A backlog that is worked off within the limit is a queue like any.
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
	// That more breaks is shown by the response time, not by a backlog that has
	// not yet reached it.
	t.Pass = t.Operations > 0 && t.Over <= overShare && (!t.Overloaded || t.Purpose == "above")
	switch {
	case t.Pass:
		t.Close = t.Over > clearlyFew
	default:
		t.Close = t.Over < clearlyMany
	}
	if e := r.End; e != nil && (e.Stopped == "max-time" || e.Stopped == StoppedDecided) {
		t.Verdict = VerdictBroke
		if t.Pass {
			t.Verdict = VerdictHeld
		}
	}
	return t
}

// A weighed is what of a trial is judged.
type weighed struct {
	response, service *hdrhistogram.Histogram
	over, late        int64 // operations
	seconds, wait     float64
}

// counted adds up a trial's intervals after the ramp, and what was due and not
// finished at its end: a server that stands still finishes nothing, and would
// pass for a fast one. The newest of these was due just now, the one before it
// one operation's time earlier, and so on; those that have not yet waited for
// the limit can't be judged. A damaged distribution is left out.
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

// Decided tells that a trial under way will fail whatever comes: so many of
// the operations that are due in all of it are over the limit that it would
// fail clearly. One that goes on only adds to what the server must work off.
// Trials that confirm are brought to their end, so that their figures stand
// for the whole of it.
func (r *Record) Decided() bool {
	if !r.IsTrial() || r.Run.Search.Purpose == "confirm" || r.Run.Search.Purpose == "above" {
		return false
	}
	s := r.Run.Search
	all := r.Run.Rate / float64(max(r.Run.Batch, 1)) * (s.TrialSeconds - s.RampSeconds)
	return float64(counted(r).over) > decidedShare*max(all, 1)
}

// A Capacity is what a search found.
type Capacity struct {
	Name   string `json:"name"`
	Layout string `json:"layout"`
	Engine string `json:"engine"`
	Repeat int    `json:"repeat,omitempty"`
	// State is that of Searched, or "interrupted" where the search was broken
	// off; then Low and High are what it knew.
	State string `json:"state"`
	// P99LimitUS was asked for.
	P99LimitUS int64 `json:"p99_limit_us"`
	// RowsPerSecond is the rate found; 0 when none was. Rows is how many the
	// table held as it was confirmed, P99US the response time's there.
	RowsPerSecond float64 `json:"rows_per_second"`
	Rows          int64   `json:"rows"`
	P99US         int64   `json:"p99_us"`
	// Above is the trial that shows that more breaks; null when there is none.
	Above *Trial `json:"above"`
	// Low and High are the bracket; 0 is unknown.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// FilledRows were inserted before the first trial, in a closed loop.
	FilledRows int64 `json:"filled_rows"`
	// Trials are all, in order.
	TrialSeconds float64   `json:"trial_seconds"`
	RampSeconds  float64   `json:"ramp_seconds"`
	Trials       []Trial   `json:"trials"`
	Verified     *Verified `json:"verified"`
	SizeBytes    *Size     `json:"size_bytes"`
	Warnings     []string  `json:"warnings"`
	// Source is the file.
	Source string `json:"-"`
}

// Capacities returns what each search in the records found, as far as it went.
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
	c.warn(runs)
	return c
}

// conclude finds the confirming trials of a search that found a rate.
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
		c.State = "interrupted" // the record lost the trials that confirmed it
	}
}

const (
	// fewOperations is how many a percentile of 99 should stand on at least:
	// ten beyond it.
	fewOperations = 1000
	// Writers that wait for the database for more than busyWriters of their
	// time have none left to begin an operation when it is due; those that do
	// so for less than idleWriters have, and yet began late.
	busyWriters, idleWriters = 0.85, 0.5
	// latePart of the operations, begun late while writers were idle, are the
	// client's doing.
	latePart = overShare
)

// warn says what makes the result doubtful, and what to do about it.
func (c *Capacity) warn(runs []*Record) {
	say := func(format string, args ...any) { c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...)) }
	for i := range c.Trials {
		if t := &c.Trials[i]; t.Verdict != VerdictNone && t.Rate <= flatShare*c.RowsPerSecond && float64(t.P99US) >= flatShare*float64(c.P99LimitUS) {
			say("p99 depends little on the rate here: it was %s at %s rows/s already, so that chance decides what holds, and another search may find another rate; "+
				"a higher --p99 or a longer --trial gives a rate that can be found again", microseconds(t.P99US), grouped(t.Rate))
			break
		}
	}
	batch, writers := max(runs[len(runs)-1].Run.Batch, 1), runs[0].Run.Writers
	var late []string
	var edge *Trial // of the lowest rate that broke
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
		say("the writers may be the limit: in trial %d all %d were busy while the database answered within half of the limit, so operations waited for a writer; more --writers show whether the database takes more",
			edge.Number, writers)
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
				microseconds(c.Trials[n-1].ServiceP99US), batch)
		}
		say("no rate found: not even %s rows/s held the limit; a trial of less would have fewer than 100 operations, of which a p99 says nothing", grouped(c.High))
	case "gave up":
		say("gave up after %d trials: their verdicts contradict each other, so something else than the rate decides them; a longer --trial, a quieter machine, or another limit", len(c.Trials))
	}
	for _, r := range runs {
		if !r.IsTrial() {
			continue // the filling is reported by itself
		}
		for _, w := range r.Run.Warnings {
			if !slices.Contains(c.Warnings, w) {
				c.Warnings = append(c.Warnings, w)
			}
		}
		if r.End == nil {
			continue
		}
		for _, w := range r.End.Warnings {
			// Counters that are missing in a trial bear on no verdict.
			if !slices.Contains(c.Warnings, w) && !strings.HasPrefix(w, "server counters missing") {
				c.Warnings = append(c.Warnings, w)
			}
		}
	}
}
