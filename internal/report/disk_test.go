package report_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// storedDisk is a stored record of `bench disk`: filling, random reads and writes at two depths,
// and an fsync.
func storedDisk(t *testing.T) []result.Record {
	t.Helper()
	recs, err := result.ReadFile("testdata/records/disk.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

func TestDiskReport(t *testing.T) {
	goldens(t, "disk", storedDisk(t), "txt", "md")
	pngOf(t, document.PNGOptions{}, storedDisk(t), 1200, 675)
	recs := storedDisk(t)[:2]
	recs[1].End, recs[1].Intervals = nil, nil
	if text := render(t, "txt", recs); !strings.Contains(text, "cut off") && !strings.Contains(text, "incomplete") || strings.Contains(text, "NaN") {
		t.Error(text)
	}
}

// TestDiskDoubts changes one thing at a time of a job that nothing is said about, and looks for the
// reason to doubt it.
func TestDiskDoubts(t *testing.T) {
	const job, flushes = 2, 5 // a random read, and the fsyncs
	halves := func(r *result.Record, first, last int64) {
		r.Intervals, r.Run.IntervalSeconds = nil, 0.1
		var rows int64
		for i := range 30 {
			more := first
			if i >= 12 {
				more = last
			}
			rows += more
			r.Intervals = append(r.Intervals, result.Interval{Elapsed: float64(i+1) / 10, Seconds: 0.1, Rows: rows, NewRows: more,
				Counters: map[string]float64{"disk_read_bytes": float64(more) * 10 * 16384}})
		}
	}
	for want, change := range map[string]func(recs []result.Record){
		"a burst ended meanwhile":                 func(recs []result.Record) { halves(&recs[job], 1000, 300) },
		"it was slower at first":                  func(recs []result.Record) { halves(&recs[job], 300, 1000) },
		"CPU saturated":                           func(recs []result.Record) { uses(recs[job], map[string]float64{result.DiskSubmitterCPU: 0.97}) },
		"CPU quota used up":                       func(recs []result.Record) { uses(recs[job], map[string]float64{"cgroup_throttled": 0.4}) },
		"above the bandwidth of large requests":   func(recs []result.Record) { recs[flushes-1].Run.Disk.BlockBytes = 200 << 10 },
		"less reached the device":                 func(recs []result.Record) { halves(&recs[job], 1000, 1000); recs[job].Run.Disk.BlockBytes *= 4 },
		"other programs used this disk":           func(recs []result.Record) { halves(&recs[job], 1000, 1000); recs[job].Run.Disk.BlockBytes /= 4 },
		"not proven durable":                      func(recs []result.Record) { flushesTake(t, &recs[flushes], 20) },
		"each write reads first":                  func(recs []result.Record) { recs[flushes].Run.Disk.SectorBytes = 8192 },
		"compresses it or finds duplicates":       func(recs []result.Record) { recs[job].Run.Disk.AllocatedBytes = 1 << 20 },
		"fio was ended by a signal: killed":       func(recs []result.Record) { recs[job].End.Failure = "fio was ended by a signal: killed" },
		"a cache of the disk, of a controller or": func(recs []result.Record) {},
	} {
		recs := storedDisk(t)
		flushesTake(t, &recs[flushes], 1000)
		before := render(t, "txt", recs)
		change(recs)
		flat := func(text string) string { return strings.Join(strings.Fields(text), " ") }
		if text := flat(render(t, "txt", recs)); !strings.Contains(text, want) {
			t.Errorf("%s isn't said: %s", want, text)
		} else if !strings.HasPrefix(want, "a cache") && strings.Contains(flat(before), want) {
			t.Errorf("%s is said of the stored record: %s", want, before)
		}
	}
}

// uses sets counters of all intervals.
func uses(r result.Record, counters map[string]float64) {
	for i := range r.Intervals {
		maps.Copy(r.Intervals[i].Counters, counters)
	}
}

// TestOthersOfDisk checks that neither fio, nor its reports, nor what the kernel does for its
// requests is taken for other programs, and that steal is called so.
func TestOthersOfDisk(t *testing.T) {
	// On 2 cores, fio and rowmill use a quarter of each: half of a core.
	busy := map[string]float64{"os_cpu_user": 0.1, "os_cpu_system": 0.5, "os_cpu_steal": 0, "os_cpu_interrupts": 0.25, "kernel_threads_cpu": 0.2}
	for name, c := range map[string]struct {
		more         map[string]float64
		want, absent string
	}{
		"alone":          {nil, "fio", "others"},
		"other programs": {map[string]float64{"os_cpu_user": 0.4}, "others 30%", "steal"},
		"the host":       {map[string]float64{"os_cpu_steal": 0.2}, "steal 20%", "others"},
	} {
		recs := storedDisk(t)[1:3]
		for i := range recs {
			uses(recs[i], busy)
			uses(recs[i], c.more)
			recs[i].End.ClientCPUSeconds = 0.5 * recs[i].Intervals[len(recs[i].Intervals)-1].Elapsed
		}
		text := render(t, "txt", recs)
		_, table, _ := strings.Cut(text, "\nrandom, ")
		if disturbed := strings.Contains(text, "DISTURBED"); !strings.Contains(table, c.want) || strings.Contains(table, c.absent) || disturbed != (c.more != nil) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// flushesTake replaces the latencies of fsync.
func flushesTake(t *testing.T, r *result.Record, micros int64) {
	t.Helper()
	h := result.NewHistogram()
	if err := h.RecordValues(micros, 1000); err != nil {
		t.Fatal(err)
	}
	encoded, err := result.EncodeHistogram(h)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Intervals {
		r.Intervals[i].Latency = map[string]result.Histogram{result.DiskFlush: encoded}
	}
}

// TestDiskSettings checks formulas by figures that are easy to compute.
func TestDiskSettings(t *testing.T) {
	var recs []result.Record
	add := func(kind string, size int64, depth, writes int, perSecond int64) {
		recs = append(recs, result.Record{Run: result.Run{Benchmark: result.Benchmark{Disk: &result.Disk{Kind: kind, BlockBytes: size, Depth: depth, WritePercent: writes}}},
			Intervals: []result.Interval{{Elapsed: 1, Seconds: 1, Rows: perSecond, NewRows: perSecond}}, End: &result.End{}})
	}
	const kib, mib = 1 << 10, 1 << 20
	add(result.DiskRandom, 8*kib, 1, 0, 100)
	add(result.DiskRandom, 8*kib, 8, 0, 370)
	add(result.DiskRandom, 8*kib, 32, 0, 400)
	add(result.DiskRandom, 16*kib, 32, 100, 2000)
	add(result.DiskSequential, mib, 8, 0, 100)
	add(result.DiskSequential, mib, 8, 100, 400)
	want := map[string]float64{"innodb_io_capacity": 500, "innodb_io_capacity_max": 1000, "innodb_flush_neighbors": 1, "effective_io_concurrency": 8, "random_page_cost": 12.8}
	got := result.DiskSettings(recs)
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for _, s := range got {
		if s.Value != want[s.Name] || s.Formula == "" || s.Source == "" {
			t.Errorf("%+v, want %v", s, want[s.Name])
		}
	}
	m := result.NewMeasuredDisk(append(recs[:3:3], recs[3:]...), "disk.jsonl")
	if text := m.Share(92, 9000, 1); text != "92% of the 100 random reads/s of 8 KiB that this disk did at queue depth 1, and 23% of the 400 at 32" {
		t.Error(text)
	}
	if at := m.At(8192, 5); at.Depth != 8 {
		t.Errorf("%+v", at)
	}
}
