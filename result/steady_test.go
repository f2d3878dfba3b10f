package result

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// A steadyCourse describes a constant load of 100 rows/s in batches of 10, in intervals of 10 s.
type steadyCourse struct {
	n     int
	limit int64 // of the p99
	// at modifies an interval before it is added.
	at func(i int, iv *Interval, rng *rand.Rand)
}

var latencies = map[int64]Histogram{}

// histogram returns 100 latencies around a median in microseconds.
func histogram(t testing.TB, us int64) Histogram {
	t.Helper()
	if h, ok := latencies[us]; ok {
		return h
	}
	var values []int64
	for i := range int64(100) {
		values = append(values, us+us*i/200)
	}
	e := encoded(t, values...)
	latencies[us] = e
	return e
}

func (c steadyCourse) record(t testing.TB) *Record {
	t.Helper()
	r := &Record{Run: Run{Benchmark: Benchmark{Workload: "steady"}, Load: Load{Rate: 100, Batch: 10, Writers: 1, IntervalSeconds: 10},
		Started:   time.Date(2026, 3, 28, 22, 15, 0, 0, time.UTC),
		Retention: Retention{Steady: &SteadyGoal{P99LimitUS: c.limit, Host: "one", Zone: "IST", UTCOffsetSeconds: 19800}}}}
	rng := rand.New(rand.NewPCG(7, uint64(c.n)))
	var rows int64
	for i := range c.n {
		iv := Interval{Elapsed: 10 * float64(i+1), Seconds: 10, NewRows: 1000, Counters: map[string]float64{
			figSteal: 0.004 * rng.Float64(), figCPUPressure: 0.03 * rng.Float64(), figIOPressure: 0.1 * rng.Float64(), figWork: 0.005 + 0.0002*rng.Float64()}}
		fine := histogram(t, 1000+100*rng.Int64N(10))
		iv.Latency, iv.Response = map[string]Histogram{"insert": fine}, map[string]Histogram{"insert": fine}
		if c.at != nil {
			c.at(i, &iv, rng)
		}
		rows += iv.NewRows
		iv.Rows = rows
		r.Intervals = append(r.Intervals, iv)
	}
	return r
}

func cause(t *testing.T, s *Steadiness, name string) Cause {
	t.Helper()
	for _, c := range s.Causes {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("no %s among the causes %+v, %s", name, s.Causes, s.Unjudged)
	return Cause{}
}

const day = 8640

// troubled reports whether an interval is in a troubled time: 3 of 100, in 17 stretches a day.
func troubled(i int) bool { return i%500 >= 485 }

// stolen adds stolen time to an interval.
func stolen(iv *Interval, rng *rand.Rand) {
	iv.Counters[figSteal] = 0.2 + 0.3*rng.Float64()
	iv.Counters[figCPUPressure] = 0.5
	iv.Counters[figWork] = 0.008
}

func slowed(t *testing.T, iv *Interval) {
	iv.NewRows = 700
	iv.Response = map[string]Histogram{"insert": histogram(t, 40_000)}
}

func TestStealExplains(t *testing.T) {
	within := func(v, lo, hi float64) bool { return v >= lo && v <= hi }
	for _, c := range []struct {
		name   string
		at     func(i int, iv *Interval, rng *rand.Rand)
		lo, hi float64 // of the share that steal explains
		shown  bool
	}{
		{"all", func(i int, iv *Interval, rng *rand.Rand) {
			if troubled(i) {
				slowed(t, iv)
				stolen(iv, rng)
			}
		}, 0.99, 1, true},
		{"nothing: there is none", func(i int, iv *Interval, _ *rand.Rand) {
			if troubled(i) {
				slowed(t, iv)
			}
		}, 0, 0.05, false},
		{"all, on a machine where much is stolen always", func(i int, iv *Interval, rng *rand.Rand) {
			iv.Counters[figSteal] = 0.4 * rng.Float64()
			if troubled(i) {
				slowed(t, iv)
				iv.Counters[figSteal] = 0.35 + 0.1*rng.Float64()
				iv.Counters[figWork] = 0.008
			}
		}, 0.99, 1, true},
		{"nothing: it comes and goes by itself", func(i int, iv *Interval, rng *rand.Rand) {
			if troubled(i) {
				slowed(t, iv)
			}
			if rng.IntN(3) == 0 {
				iv.Counters[figSteal] = 0.2 + 0.3*rng.Float64()
			}
		}, 0, 0.1, false},
		{"half", func(i int, iv *Interval, rng *rand.Rand) {
			if troubled(i) {
				slowed(t, iv)
				if i/500%2 == 0 {
					stolen(iv, rng)
				}
			}
		}, 0.4, 0.6, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := steadyCourse{n: day, at: c.at}.record(t).Steadiness()
			if !within(s.BelowShare, 0.028, 0.031) || s.Stretches != 17 || s.SlowSeconds != s.BelowSeconds || s.LateSeconds != 0 {
				t.Errorf("share %v in %d stretches, slow %v, late %v", s.BelowShare, s.Stretches, s.SlowSeconds, s.LateSeconds)
			}
			if s.Longest == nil || s.Longest.Seconds() != 150 {
				t.Errorf("longest %+v", s.Longest)
			}
			steal := cause(t, s, "steal")
			if !within(steal.Explained, c.lo, c.hi) || steal.Shown != c.shown {
				t.Errorf("steal explains %v (%v), shown %v, in %d episodes; want %v to %v, %v",
					steal.Explained, steal.ExplainedIn95, steal.Shown, steal.Episodes, c.lo, c.hi, c.shown)
			}
			if b := steal.ExplainedIn95; b == nil || b[0] > steal.Explained || max(0, b[1]) < steal.Explained {
				t.Errorf("interval %v of %v", b, steal.Explained)
			}
			if !within(steal.Attributed+s.Unexplained, 0.999, 1.001) {
				t.Errorf("attributed %v, unexplained %v: pressure that comes with steal is steal's", steal.Attributed, s.Unexplained)
			}
			if work := cause(t, s, "fixed work"); work.Shown != c.shown || work.Attributed != 0 {
				t.Errorf("fixed work shown %v, attributed %v", work.Shown, work.Attributed)
			}
			if _, err := json.Marshal(s); err != nil {
				t.Error(err)
			}
		})
	}
}

// Pressure without steal; and a limit on the p99 shows what the rate hides.
func TestPressureIsNoSteal(t *testing.T) {
	s := steadyCourse{n: day, limit: 20_000, at: func(i int, iv *Interval, _ *rand.Rand) {
		if troubled(i) {
			iv.Response = map[string]Histogram{"insert": histogram(t, 40_000)}
			iv.Counters[figCPUPressure] = 0.9
		}
	}}.record(t).Steadiness()
	if s.SlowSeconds != 0 || s.LateSeconds != s.BelowSeconds || s.BelowSeconds == 0 {
		t.Errorf("slow %v, late %v, below %v", s.SlowSeconds, s.LateSeconds, s.BelowSeconds)
	}
	if p, steal := cause(t, s, "CPU pressure"), cause(t, s, "steal"); !p.Shown || p.Attributed != 1 || steal.Shown || steal.Attributed != 0 {
		t.Errorf("pressure %+v, steal %+v", p, steal)
	}
}

// A single stretch may be a coincidence: no time is attributed. An outage needs no association.
func TestOnce(t *testing.T) {
	s := steadyCourse{n: day, at: func(i int, iv *Interval, rng *rand.Rand) {
		if i >= 4000 && i < 4060 {
			slowed(t, iv)
			stolen(iv, rng)
		}
		if i >= 6000 && i < 6030 {
			iv.NewRows, iv.Response, iv.Latency = 0, nil, nil
			if i == 6000 {
				iv.Errors = 1
			}
		}
	}}.record(t).Steadiness()
	steal, lost := cause(t, s, "steal"), cause(t, s, "lost connection")
	if steal.Episodes != 1 || steal.Shown || steal.Explained < 0.6 || steal.Attributed != 0 {
		t.Errorf("%+v", steal)
	}
	if !lost.Shown || math.Abs(lost.Attributed-1.0/3) > 0.01 || math.Abs(lost.InBelow-1.0/3) > 1e-9 {
		t.Errorf("%+v", lost)
	}
	if math.Abs(s.Unexplained-2.0/3) > 0.01 {
		t.Errorf("unexplained %v", s.Unexplained)
	}
}

func TestSteadyTarget(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit int64
		rows  int64
		us    int64
		slow  bool
		late  bool
	}{
		{"as asked", 0, 1000, 1000, false, false},
		{"a batch and 5% short", 0, 940, 1000, false, false},
		{"more than that short", 0, 930, 1000, true, false},
		{"late without a limit", 0, 1000, 90_000, false, false},
		{"late", 50_000, 1000, 90_000, false, true},
		{"in time", 50_000, 1000, 1000, false, false},
		{"nothing done", 50_000, 0, 0, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := steadyCourse{n: 1, limit: c.limit, at: func(_ int, iv *Interval, _ *rand.Rand) {
				iv.NewRows = c.rows
				iv.Response = map[string]Histogram{"insert": {}}
				if c.us > 0 {
					iv.Response["insert"] = histogram(t, c.us)
				}
			}}.record(t)
			if j := r.judge()[0]; j.slow != c.slow || j.late != c.late {
				t.Errorf("slow %v, late %v", j.slow, j.late)
			}
		})
	}
}

// Hours are those of the machine's clock, here half an hour off UTC's.
func TestSteadyHours(t *testing.T) {
	r := steadyCourse{n: 720, at: func(i int, iv *Interval, rng *rand.Rand) {
		if i >= 100 && i < 190 { // 22:31:40 to 22:46:40 UTC, 04:01:40 to 04:16:40 local time
			slowed(t, iv)
			stolen(iv, rng)
		}
	}}.record(t)
	s := r.Steadiness()
	var starts []string
	for _, h := range s.Hours {
		starts = append(starts, h.Start.Format("02T15:04"))
	}
	if got := strings.Join(starts, " "); got != "29T03:00 29T04:00 29T05:00" {
		t.Errorf("hours %s", got)
	}
	if w := s.Worst; w == nil || w.Start.Hour() != 4 || w.BelowSeconds != 900 || w.BelowShare() != 0.25 || *w.Steal < 0.05 {
		t.Errorf("worst %+v", w)
	}
}

// Too little data is not judged, and no figures are invented.
func TestTooLittle(t *testing.T) {
	for name, r := range map[string]*Record{
		"no intervals": steadyCourse{n: 0}.record(t),
		"few":          steadyCourse{n: 30, at: func(i int, iv *Interval, _ *rand.Rand) { iv.NewRows = int64(i) }}.record(t),
		"never on target": steadyCourse{n: 200, at: func(_ int, iv *Interval, _ *rand.Rand) {
			iv.NewRows = 1
		}}.record(t),
		"never below": steadyCourse{n: 200}.record(t),
		"no figures": steadyCourse{n: 200, at: func(i int, iv *Interval, _ *rand.Rand) {
			iv.Counters = nil
			if troubled(i) || i%7 == 0 {
				slowed(t, iv)
			}
		}}.record(t),
	} {
		t.Run(name, func(t *testing.T) {
			s := r.Steadiness()
			if _, err := json.Marshal(r.Summary()); err != nil {
				t.Fatal(err)
			}
			for _, c := range s.Causes {
				if c.Shown {
					t.Errorf("%+v", c)
				}
			}
			if s.BelowSeconds > 0 && s.Unexplained != 1 {
				t.Errorf("unexplained %v", s.Unexplained)
			}
			if name == "no figures" && len(s.Missing) == 0 {
				t.Error("nothing said to be missing")
			}
		})
	}
	if (&Record{Run: Run{Load: Load{Rate: 5}}}).Steadiness() != nil {
		t.Error("a run of another workload was judged")
	}
}

// Unrelated conditions are rarely shown as causes: in one of forty tries.
func TestFalseCauses(t *testing.T) {
	const tries = 60
	shown := 0
	for try := range tries {
		s := steadyCourse{n: 1000 + try, at: func(i int, iv *Interval, rng *rand.Rand) {
			// Both last for several intervals, independently of each other.
			if (i+37*try)%90 < 8 {
				slowed(t, iv)
			}
			if (i+11*try)%73 < 9 {
				iv.Counters[figSteal] = 0.3 + 0.1*rng.Float64()
			}
		}}.record(t).Steadiness()
		if cause(t, s, "steal").Shown {
			shown++
		}
	}
	if shown > tries/8 {
		t.Errorf("steal that goes with nothing was shown in %d of %d tries", shown, tries)
	}
	t.Logf("shown in %d of %d", shown, tries)
}

func TestExplained(t *testing.T) {
	for _, c := range []struct {
		f    sums
		want float64
	}{
		{sums{10, 0, 0, 100}, 1},
		{sums{0, 10, 5, 100}, 0},
		{sums{10, 10, 100, 100}, 0},
		// 30 of 40 with the cause, 10 of 60 without: RR 4.5; 0.75 of the cases had
		// it.
		{sums{30, 10, 10, 50}, 0.75 * (1 - 1/4.5)},
	} {
		if got := explained(c.f); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %v, want %v", c.f, got, c.want)
		}
	}
	if !math.IsNaN(explained(sums{0, 0, 1, 1})) {
		t.Error("a fraction of nothing")
	}
}

func BenchmarkSteadinessDay(b *testing.B) {
	r := steadyCourse{n: 86_400, at: func(i int, iv *Interval, rng *rand.Rand) {
		if troubled(i) {
			iv.NewRows = 500
			stolen(iv, rng)
		}
	}}.record(b)
	for b.Loop() {
		r.Steadiness()
	}
}
