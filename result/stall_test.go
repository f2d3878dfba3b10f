package result

import (
	"math"
	"strings"
	"testing"
)

// steady returns n intervals of a second at the given rate, with one counter.
func steady(n int, rate int64) []Interval {
	out := make([]Interval, n)
	for i := range out {
		out[i] = Interval{Elapsed: float64(i + 1), Seconds: 1, NewRows: rate, Counters: map[string]float64{"disk_write_bytes": 20 << 20, "os_load": 1}}
	}
	return out
}

func count(ivs []Interval) {
	var rows int64
	for i := range ivs {
		rows += ivs[i].NewRows
		ivs[i].Rows = rows
	}
}

func TestStalls(t *testing.T) {
	falling := steady(60, 0)
	for i := range falling {
		falling[i].NewRows = int64(100_000 * math.Pow(0.95, float64(i)))
	}
	one, two, first := steady(40, 1000), steady(40, 1000), steady(40, 1000)
	one[20].NewRows = 400
	two[10].NewRows, two[11].NewRows, two[30].NewRows = 0, 100, 450
	first[0].NewRows = 10
	for _, c := range []struct {
		name    string
		ivs     []Interval
		seconds float64
		stalls  int
	}{
		{"none", steady(40, 1000), 0, 0},
		{"a rate that falls is no stall", falling, 0, 0},
		{"one", one, 1, 1},
		{"two, one of them of two intervals", two, 3, 2},
		{"at the start", first, 1, 1},
		{"too few intervals to tell", one[20:22], 0, 0},
		{"nothing", nil, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			count(c.ivs)
			r := Record{Intervals: c.ivs}
			stalls := r.Stalls()
			if len(stalls) != c.stalls {
				t.Fatalf("%d stalls, want %d: %+v", len(stalls), c.stalls, stalls)
			}
			var sum float64
			for _, s := range stalls {
				sum += s.Seconds()
			}
			near(t, "time in stalls", sum, c.seconds)
			near(t, "stall seconds of the summary", r.Summary().StallSeconds, c.seconds)
		})
	}
}

func TestStallIsExplained(t *testing.T) {
	ivs := steady(40, 1000)
	ivs[20].NewRows = 100
	ivs[20].Counters = map[string]float64{"disk_write_bytes": 200 << 20, "os_load": 1, "checkpoint_age_bytes": 97, "checkpoint_max_bytes": 100, "undescribed": 9e9}
	ivs[20].Events = []Event{{Elapsed: 20.5, Seconds: 0.4, What: "drop partition", Object: "p0003"}}
	ivs[20].Retries = 2
	count(ivs)
	r := Record{Run: Run{Counters: []Counter{{Name: "disk_write_bytes", Unit: "bytes/s"}, {Name: "os_load"}}}, Intervals: ivs}
	stalls := r.Stalls()
	if len(stalls) != 1 {
		t.Fatalf("%d stalls", len(stalls))
	}
	s := stalls[0]
	near(t, "from", s.From, 20)
	near(t, "to", s.To, 21)
	near(t, "rate", s.Rate, 100)
	near(t, "rate around", s.Around, 1000)
	if s.Rows != 20_000 {
		t.Errorf("it began at %d rows", s.Rows)
	}
	want := "drop partition p0003 took 400 ms; 0 errors and 2 retries; checkpoint age at 97% of its limit; disk_write_bytes rose from 20 MiB/s to 200 MiB/s"
	if s.Why != want {
		t.Errorf("explained by %q, want %q", s.Why, want)
	}
	r.Intervals[20].Counters, r.Intervals[20].Events, r.Intervals[20].Retries = nil, nil, 0
	if why := r.Stalls()[0].Why; why != "" {
		t.Errorf("without figures explained by %q", why)
	}
}

func TestOpenLoop(t *testing.T) {
	// loop returns a run with the given backlogs at the ends of its intervals.
	loop := func(asked float64, done int64, backlogs ...int64) *Record {
		r := &Record{Run: Run{Load: Load{Rate: asked, Writers: 2, Batch: 100}}, Intervals: steady(len(backlogs), done)}
		for i, b := range backlogs {
			r.Intervals[i].Backlog = b
		}
		count(r.Intervals)
		return r
	}
	for _, c := range []struct {
		name       string
		rec        *Record
		overloaded bool
		want       string
	}{
		{"kept up", loop(1000, 1000, 1, 0, 1, 2, 1, 0, 1, 1), false, ""},
		{"a checkpoint that was caught up with", loop(1000, 1000, 0, 0, 40, 60, 30, 0, 0, 0), false, ""},
		{"a checkpoint at the very end", loop(1000, 990, 0, 0, 0, 0, 0, 0, 0, 50), false, ""},
		{"growing", loop(1000, 500, 5, 10, 15, 20, 25, 30, 35, 40), true, "overload: offered 1,000 rows/s, done 500 rows/s (50%), backlog 40 operations and growing"},
		{"growing slowly", loop(1000, 980, 1, 2, 4, 8, 10, 12, 14, 17), true, "and growing"},
		// A run that is limited by rows stops offering; the backlog drains.
		{"drained at the end", loop(60_000, 20_000, 40, 80, 120, 90, 60, 40, 20, 0), true, "overload: offered 60,000 rows/s, done 20,000 rows/s (33%), backlog up to 120 operations"},
		{"a tenth not done, and no backlog left", loop(1000, 900, 4, 8, 12, 9, 6, 3, 1, 0), true, "done 900 rows/s (90%), backlog up to 12 operations"},
		{"closed loop", loop(0, 500, 0, 0, 0, 0), false, ""},
		{"no intervals", loop(1000, 0), false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.rec.OpenLoop()
			if o != nil && o.Overloaded != c.overloaded || o == nil && c.overloaded {
				t.Errorf("%+v, want overloaded %v", o, c.overloaded)
			}
			var got string
			for _, w := range c.rec.Summary().Warnings {
				if strings.HasPrefix(w, "overload:") {
					got = w
				}
			}
			if (got != "") != c.overloaded || !strings.Contains(got, c.want) {
				t.Errorf("warning %q, want %q in it", got, c.want)
			}
		})
	}
}
