package result

import (
	"math"
	"testing"
)

// sawtooth returns periods of 1000 rows: 100 rows/s over the first half, then 50.
func sawtooth(periods int) *Record {
	r := &Record{Run: Run{Retention: Retention{PeriodRows: 1000}}}
	var rows int64
	var at float64
	for range 2 * periods {
		rate := 100.0
		if rows%1000 != 0 {
			rate = 50
		}
		for range 5 {
			rows += 100
			at += 100 / rate
			r.Intervals = append(r.Intervals, Interval{Rows: rows, NewRows: 100, Elapsed: at, Seconds: 100 / rate})
		}
	}
	return r
}

func TestFigure(t *testing.T) {
	r := sawtooth(5)
	r.Run.TPCC, r.End = &TPCC{}, &End{Size: &Size{PerRow: 123}, Crossing: &Crossing{Expected: 0.08, Measured: 0.09}}
	r.Intervals[0].Latency = map[string]Histogram{NewOrder: encoded(t, 3000, 5000)}
	for n, seconds := range map[string]float64{"1": 0.25, "50": 1, "100": 4} {
		r.Intervals[0].Events = append(r.Intervals[0].Events, Event{What: ScanEvent, Object: n, Seconds: seconds})
	}
	r.Intervals[1].Costs = []TablesCost{{Phase: TablesCreated, Objects: 10, DiskBytes: 500, PSSBytes: 100, CreateSeconds: 2}, {Phase: TablesCreated, Objects: 30, DiskBytes: 1500, PSSBytes: 160, CreateSeconds: 3},
		{Phase: TablesOpened, Objects: 30, PSSBytes: 9000}}
	disk := &Record{Run: Run{Benchmark: Benchmark{Disk: &Disk{Kind: DiskRandom, BlockBytes: 8192, Depth: 5}}}, Intervals: []Interval{{Elapsed: 2, Seconds: 2, Rows: 20_000, NewRows: 20_000}}}
	for name, want := range map[string]float64{"disk-requests": 10_000, "disk-bytes": 81.92, "disk-latency": 500, "nosuch": math.NaN()} {
		if got := disk.Figure(name); math.Abs(got-want) > 1e-9 || math.IsNaN(got) != math.IsNaN(want) {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	r.Run.HotRow = &HotRow{}
	for name, want := range map[string]float64{
		"hot-rate":   5000.0 / 75,
		"table-disk": 50, "table-memory": 3, "table-create-first": 2, "table-create-last": 3,
		"mean": 5000.0 / 75, "first": 100, "last": 50, "min": 50, "max": 100,
		"period-start": 100, "period-end": 50, "rows": 5000, "bytes-per-row": 123, "scan-one": 0.25, "scan-all": 4,
		"tpcc-orders": 60 * 5000.0 / 75, "tpcc-response": 4.002, "tpcc-crossing": 0.09, "tpcc-crossing-expected": 0.08,
		"nosuch": math.NaN(),
	} {
		if got := r.Figure(name); math.Abs(got-want) > 1e-9 || math.IsNaN(got) != math.IsNaN(want) {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	for _, k := range Figures() {
		if math.IsNaN(r.Figure(k.Name)) && math.IsNaN(disk.Figure(k.Name)) {
			t.Errorf("%s is no figure of a whole record", k.Name)
		}
		if got := (&Record{}).Figure(k.Name); !math.IsNaN(got) && got != 0 {
			t.Errorf("%s of nothing is %v", k.Name, got)
		}
	}
	r.Run.Batch = 500 // ten batches: halves
	if first, last := r.Figure("first"), r.Figure("last"); math.Abs(first-2500/37.5) > 7 || math.Abs(last-2500/37.5) > 7 {
		t.Errorf("the halves of ten batches have rates %v and %v", first, last)
	}
	r.Run.Batch = 1000
	if got := r.Figure("max"); !math.IsNaN(got) {
		t.Errorf("five batches have a fastest tenth, %v", got)
	}
	r.Run.Batch = 0
	one := sawtooth(1)
	if got := one.Figure("period-end"); !math.IsNaN(got) {
		t.Errorf("period-end of one period is %v", got)
	}
	r.Run.PeriodRows = 0
	if got := r.Figure("period-start"); !math.IsNaN(got) {
		t.Errorf("period-start of a plain table is %v", got)
	}
}
