package result

import (
	"slices"
	"strings"
	"testing"
)

// trialRecord returns a trial with one interval per list of response times in microseconds.
func trialRecord(t *testing.T, rate float64, purpose string, backlog int64, stopped string, intervals ...[]int64) *Record {
	t.Helper()
	r := &Record{Run: Run{Load: Load{
		Rate: rate, Batch: 10, Writers: 4, IntervalSeconds: 1,
		Search: &Search{Trial: 3, Purpose: purpose, LimitUS: 20000, TrialSeconds: float64(len(intervals)), RampSeconds: 1, TableRows: 500},
	}}}
	rows := int64(0)
	for i, times := range intervals {
		e, n := encoded(t, times...), int64(10*len(times))
		rows += n
		iv := Interval{Elapsed: float64(i + 1), Seconds: 1, Rows: rows, NewRows: n, WaitSeconds: 2,
			Latency: map[string]Histogram{"insert": e}, Response: map[string]Histogram{"insert": e}}
		if i == len(intervals)-1 {
			iv.Backlog = backlog
		}
		r.Intervals = append(r.Intervals, iv)
	}
	if stopped != "" {
		r.End = &End{Stopped: stopped}
	}
	return r
}

// times returns n operations of 5 ms, `over` of them of 50 ms.
func times(n, over int) []int64 {
	return append(slices.Repeat([]int64{50000}, over), slices.Repeat([]int64{5000}, n-over)...)
}

func TestTrialVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		over    []int // of 100 operations in each second
		backlog int64
		stopped string
		pass    bool
		close   bool
		verdict string
	}{
		"holds":                  {[]int{0, 0, 0, 0}, 0, "max-time", true, false, VerdictHeld},
		"the ramp is left out":   {[]int{100, 0, 0, 0}, 0, "max-time", true, false, VerdictHeld},
		"a close pass":           {[]int{0, 1, 1, 1}, 0, "max-time", true, true, VerdictHeld},
		"a close fail":           {[]int{0, 4, 3, 2}, 0, "max-time", false, true, VerdictBroke},
		"clearly broke":          {[]int{0, 6, 6, 6}, 0, "max-time", false, false, VerdictBroke},
		"ended early":            {[]int{0, 90}, 0, StoppedDecided, false, false, VerdictBroke},
		"a short backlog":        {[]int{0, 0, 0, 0}, 2, "max-time", true, false, VerdictHeld},
		"unfinished are counted": {[]int{0, 0, 0, 0}, 30, "max-time", false, false, VerdictBroke},
		"interrupted":            {[]int{0, 0, 0, 0}, 0, "interrupted", true, false, VerdictNone},
		"failed":                 {[]int{0, 50, 0, 0}, 0, "failed", false, false, VerdictNone},
		"killed":                 {[]int{0, 0}, 0, "", true, false, VerdictNone},
		"nothing measured":       {nil, 0, "max-time", false, true, VerdictBroke},
	} {
		t.Run(name, func(t *testing.T) {
			var ivs [][]int64
			for _, n := range c.over {
				ivs = append(ivs, times(100, n))
			}
			got := trialRecord(t, 1000, "bracket", c.backlog, c.stopped, ivs...).Trial()
			if got.Pass != c.pass || got.Close != c.close || got.Verdict != c.verdict {
				t.Errorf("%+v", got)
			}
			if n := len(c.over); got.TableRows != [2]int64{500, 500 + int64(1000*n)} || n > 1 && (got.Seconds != float64(n-1) || got.Busy != 0.5) {
				t.Errorf("rows %v, %v s, busy %v", got.TableRows, got.Seconds, got.Busy)
			}
		})
	}
	if (&Record{Run: Run{Load: Load{Search: &Search{}}}}).Trial() != nil || (&Record{}).Trial() != nil {
		t.Error("a run that is no trial has a verdict")
	}
}

// TestTrialStandstill: a server that finishes nothing has only waiting operations.
func TestTrialStandstill(t *testing.T) {
	ivs := [][]int64{times(100, 0), times(100, 0), times(100, 0), times(100, 0), nil}
	got := trialRecord(t, 1000, "confirm", 100, "max-time", ivs...).Trial()
	// The oldest of 100 waited for a second.
	if got.Pass || got.P99US < 900e3 || got.P99US > 1001e3 || got.Operations != 398 {
		t.Errorf("%+v", got)
	}
}

func TestTrialDecided(t *testing.T) {
	slow := func(purpose string, over int) *Record {
		r := trialRecord(t, 1000, purpose, 0, "", times(100, 0), times(100, over))
		r.Run.Search.TrialSeconds = 11 // 1000 operations are judged
		return r
	}
	for name, c := range map[string]struct {
		r    *Record
		want bool
	}{
		"not yet":            {slow("halve", 40), false},
		"decided":            {slow("halve", 60), true},
		"confirming goes on": {slow("confirm", 60), false},
		"as does above":      {slow("above", 60), false},
		"no trial":           {&Record{}, false},
	} {
		if got := c.r.Decided(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The result warns about a response time that hardly depends on the rate.
func TestCapacityOfFlatResponse(t *testing.T) {
	for name, c := range map[string]struct {
		p99  int64
		want bool
	}{"flat": {16000, true}, "steep": {9000, false}} {
		got := Capacity{P99LimitUS: 20000, RowsPerSecond: 3000, Trials: []Trial{
			{Number: 1, Rate: 2000, P99US: c.p99, Verdict: VerdictHeld},
			{Number: 2, Rate: 3000, P99US: 19000, Verdict: VerdictHeld},
		}}
		got.warn([]*Record{{}})
		said := slices.ContainsFunc(got.Warnings, func(w string) bool { return strings.Contains(w, "depends little on the rate") })
		if said != c.want {
			t.Errorf("%s: warnings %q", name, got.Warnings)
		}
	}
}
