package result

import (
	"math"
	"strings"
	"testing"
)

// course makes a record from rates in rows/s, each over a tenth of a million rows.
func course(rates ...float64) *Record {
	r := &Record{}
	part := 1e6 / float64(len(rates))
	var rows, elapsed float64
	for _, rate := range rates {
		for left := part; left > 0.5; {
			n := math.Round(min(rate, left))
			rows, elapsed, left = rows+n, elapsed+n/rate, left-n
			r.Intervals = append(r.Intervals, Interval{Elapsed: elapsed, Seconds: n / rate, Rows: int64(rows), NewRows: int64(n)})
		}
	}
	return r
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-6*max(1, math.Abs(want)) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestRateAndKnee(t *testing.T) {
	const none = -1
	for _, c := range []struct {
		name             string
		rates            []float64 // over tenths of a million rows
		first, last, low float64
		knee             int64
		why              string
	}{
		{"flat", []float64{1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5}, 1e5, 1e5, 1e5, none, ""},
		{"rising", []float64{2e4, 3e4, 4e4, 5e4, 6e4, 7e4, 8e4, 9e4, 1e5, 1e5}, 2e4, 1e5, 2e4, none, ""},
		{"exactly half is no knee", []float64{1e5, 1e5, 5e4, 5e4, 5e4, 5e4, 5e4, 5e4, 5e4, 5e4}, 1e5, 5e4, 5e4, none, ""},
		{"just below half", []float64{1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 1e5, 49e3}, 1e5, 49e3, 49e3, 900_000, ""},
		{"a step", []float64{1e5, 1e5, 1e5, 2e4, 2e4, 2e4, 2e4, 2e4, 2e4, 2e4}, 1e5, 2e4, 2e4, 300_000, ""},
		{"a slow fall", []float64{1e5, 9e4, 8e4, 7e4, 6e4, 52e3, 45e3, 4e4, 35e3, 3e4}, 1e5, 3e4, 3e4, 600_000, ""},
		{"a recovery", []float64{1e5, 1e5, 1e5, 1e4, 1e4, 1e5, 1e5, 1e5, 1e5, 1e5}, 1e5, 1e5, 1e4, 300_000, "the rate recovered, to 100,000 rows/s in the last tenth"},
		{"down, up and down", []float64{1e5, 1e5, 2e4, 1e5, 1e5, 1e5, 1e5, 1e5, 2e4, 2e4}, 1e5, 2e4, 2e4, 800_000, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := course(c.rates...)
			s := r.Summary()
			near(t, "first", s.Rate.First, c.first)
			near(t, "last", s.Rate.Last, c.last)
			near(t, "min", s.Rate.Min, c.low)
			if want := math.Round(1000*c.last/c.first) / 1000; s.Rate.Flatness != want {
				t.Errorf("flatness is %v, want %v", s.Rate.Flatness, want)
			}
			if (s.Knee != nil) != (c.knee != none) || s.Knee != nil && s.Knee.Rows != c.knee {
				t.Fatalf("knee %+v, want %d", s.Knee, c.knee)
			}
			if s.Knee != nil && (!strings.Contains(s.Knee.Why, c.why) || c.why == "" && strings.Contains(s.Knee.Why, "recovered")) {
				t.Errorf("the knee is explained by %q, want %q in it", s.Knee.Why, c.why)
			}
		})
	}
}

// Tenths are tenths of the rows, not of the time, and are refined by marks.
func TestRateOverRows(t *testing.T) {
	first := Interval{Elapsed: 90, Seconds: 90, Rows: 900, NewRows: 900}
	one := Interval{Elapsed: 10, Seconds: 10, Rows: 1000, NewRows: 1000}
	marked := one
	marked.Marks = [][2]float64{{900, 1}}
	for name, c := range map[string]struct {
		ivs         []Interval
		first, last float64
	}{
		// Half of the time is spent on the last tenth.
		"two intervals": {[]Interval{first, {Elapsed: 190, Seconds: 100, Rows: 1000, NewRows: 100}}, 10, 1},
		"without marks": {[]Interval{one}, 100, 100},
		"with a mark":   {[]Interval{marked}, 900, 11.1},
	} {
		s := (&Record{Intervals: c.ivs}).Summary()
		near(t, name+": first", s.Rate.First, c.first)
		near(t, name+": last", s.Rate.Last, c.last)
		if (s.Knee != nil) != (c.last < c.first/2) {
			t.Errorf("%s: knee %+v", name, s.Knee)
		}
	}
}

func TestCurveOfOddRecords(t *testing.T) {
	for _, c := range []struct {
		name string
		rec  Record
		rows int64
	}{
		{"no intervals", Record{}, 0},
		{"an interval of nothing", Record{Intervals: []Interval{{}}}, 0},
		{"no rows at all", Record{Intervals: []Interval{{Elapsed: 1, Seconds: 1}, {Elapsed: 2, Seconds: 1}}}, 0},
		{"one row", Record{Intervals: []Interval{{Elapsed: 1, Seconds: 1, Rows: 1, NewRows: 1}}}, 1},
		{"time that stands still", Record{Intervals: []Interval{{Elapsed: 0, Rows: 5, NewRows: 5}}}, 5},
		{"time that goes back", Record{Intervals: []Interval{{Elapsed: 5, Rows: 5}, {Elapsed: 3, Rows: 9}}}, 9},
		{"a negative count", Record{Intervals: []Interval{{Elapsed: 1, Seconds: 1, Rows: -5, NewRows: -5}}}, -5},
		{"the largest numbers", Record{Intervals: []Interval{{Elapsed: math.MaxFloat64, Seconds: math.MaxFloat64, Rows: math.MaxInt64, NewRows: math.MaxInt64}}}, math.MaxInt64},
		{"the smallest time", Record{Intervals: []Interval{{Elapsed: math.SmallestNonzeroFloat64, Seconds: math.SmallestNonzeroFloat64, Rows: 10, NewRows: 10}}}, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.rec.Summary()
			if s.Rows != c.rows {
				t.Errorf("%d rows, want %d", s.Rows, c.rows)
			}
			for _, f := range []float64{s.Seconds, s.RowsPerSecond, s.Rate.First, s.Rate.Last, s.Rate.Min, s.Rate.Flatness, s.StallSeconds} {
				if math.IsNaN(f) || math.IsInf(f, 0) {
					t.Errorf("a figure that JSON can't hold: %+v", s)
				}
			}
		})
	}
}

func TestTimeAt(t *testing.T) {
	c := Curve{{0, 0}, {100, 1}, {100, 5}, {200, 6}}
	for _, p := range []struct{ rows, want float64 }{{0, 0}, {50, 0.5}, {100, 1}, {150, 5.5}, {200, 6}} {
		near(t, "time", c.TimeAt(p.rows), p.want)
	}
	if !math.IsNaN(c.TimeAt(201)) {
		t.Error("a time past the end")
	}
	// The pause after the hundredth row belongs to the rows after it.
	near(t, "rate before the pause", c.RateBetween(0, 100), 100)
	near(t, "rate after it", c.RateBetween(100, 200), 20)
	if !math.IsNaN(c.RateBetween(50, 50)) {
		t.Error("a rate over nothing")
	}
}

func TestKneeIsExplained(t *testing.T) {
	r := course(1e5, 1e5, 1e5, 1e4, 1e4, 1e4, 1e4, 1e4, 1e4, 1e4)
	r.Run.CacheBytes = 64 << 20
	for i := range r.Intervals {
		iv := &r.Intervals[i]
		iv.Counters = map[string]float64{"table_index_bytes": float64(iv.Rows) * 150, "table_data_bytes": float64(iv.Rows) * 60}
		if iv.Rows > 310_000 {
			iv.Counters["page_reads"], iv.Counters["checkpoint_age_bytes"] = 30e3, 90<<20
			iv.Counters["checkpoint_max_bytes"], iv.Counters["os_cpu_steal"] = 100<<20, 0.3
		}
	}
	knee := r.Summary().Knee
	if knee == nil {
		t.Fatal("no knee")
	}
	for _, want := range []string{"secondary indexes had grown to", "cache of 64 MiB", "page reads rose from 0 to 3", "checkpoint age stood at 90%", "30% of the CPU time was stolen"} {
		if !strings.Contains(knee.Why, want) {
			t.Errorf("explained by %q, want %q in it", knee.Why, want)
		}
	}
	// The system saw no read: its own cache had the pages.
	for i := range r.Intervals {
		r.Intervals[i].Counters["disk_read_bytes"] = 0
	}
	if why := r.Summary().Knee.Why; !strings.Contains(why, "per row, from the system's cache: the disk read 0 B/s") {
		t.Errorf("explained by %q", why)
	}
	for i := range r.Intervals {
		r.Intervals[i].Counters = nil
	}
	if why := r.Summary().Knee.Why; why != "none of the recorded counters moved with it" {
		t.Errorf("without counters explained by %q", why)
	}
}

// A batch that passes several marks at once took its time, not zero time.
func TestCurveOfLargeBatches(t *testing.T) {
	rec := Record{Intervals: []Interval{
		{Elapsed: 1, Rows: 0},
		{Elapsed: 2.5, Rows: 80, Marks: [][2]float64{{20, 2}, {40, 2}, {60, 2}, {80, 2}}},
		{Elapsed: 4.00001, Rows: 160, Marks: [][2]float64{{100, 4}, {120, 4}, {140, 4}, {160, 4}}},
	}}
	for _, rate := range rec.Curve().Windows(10) {
		if rate < 10 || rate > 90 {
			t.Errorf("%.0f rows/s, of batches of 80 rows in 1.5 and 2 s: %v", rate, rec.Curve())
		}
	}
}
