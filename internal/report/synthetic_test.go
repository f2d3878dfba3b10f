package report_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rowmill/rowmill/result"
)

// A course describes a server; the same course always gives the same record.
type course struct {
	name, layout string
	rows         int64
	// rate returns the rate in rows/s at a number of rows.
	rate func(rows float64) float64
	// asked is the requested rate of an open loop in rows/s; 0 means a closed loop.
	asked float64
	// period is the number of rows in a partition; 0 means no partitions.
	period int64
	// stop ends the run after a number of intervals; 0 means at the last row.
	stop int
	seed uint64
}

const (
	mib   = 1 << 20
	batch = 1000
)

// falling is the rate of a plain table that outgrows its cache at 560,000 rows.
func falling(rows float64) float64 {
	if rows < 560e3 {
		return 144e3 - 0.012*rows
	}
	return max(4500, 137e3*math.Pow(560e3/rows, 2.6))
}

func flat(rows float64) float64 { return 121e3 - 0.001*rows }

func plainCourse() course {
	return course{name: "classic plain on mariadb", layout: "plain", rows: 4e6, rate: falling, seed: 1}
}

func rollingCourse() course {
	return course{name: "classic rolling on mariadb", layout: "rolling", rows: 4e6, rate: flat, period: 500e3, seed: 2}
}

// openLoop requests more than the server sustains once the table has grown.
func openLoop() course {
	return course{name: "classic plain at 60k/s", layout: "plain", rows: 100e6, rate: falling, asked: 60e3, stop: 120, seed: 3}
}

var counters = []result.Counter{
	{Name: "os_cpu_user", Group: "os", Unit: "fraction", Help: "CPU time in programs, of all cores"},
	{Name: "os_cpu_iowait", Group: "os", Unit: "fraction", Help: "CPU time idle while waiting for disks"},
	{Name: "os_cpu_steal", Group: "os", Unit: "fraction", Help: "CPU time that the host gave to others, of all cores"},
	{Name: "disk_read_bytes", Group: "os", Unit: "bytes/s", Help: "read from the data's disk"},
	{Name: "disk_write_bytes", Group: "os", Unit: "bytes/s", Help: "written to the data's disk"},
	{Name: "client_cpu", Group: "client", Unit: "cores", Help: "CPU time of rowmill's process per second"},
	{Name: "client_heap_bytes", Group: "client", Unit: "bytes", Help: "rowmill's heap"},
	{Name: "cache_bytes", Group: "server", Unit: "bytes", Help: "buffer pool size"},
	{Name: "cache_dirty_bytes", Group: "server", Unit: "bytes", Help: "buffer pool pages not yet written back"},
	{Name: "page_reads", Group: "server", Unit: "pages/s", Help: "pages read from disk: requests the buffer pool missed"},
	{Name: "page_writes", Group: "server", Unit: "pages/s", Help: "pages written to disk"},
	{Name: "checkpoint_age_bytes", Group: "server", Unit: "bytes", Help: "redo written since the last checkpoint"},
	{Name: "checkpoint_max_bytes", Group: "server", Unit: "bytes", Help: "checkpoint age at which writes are held up"},
	{Name: "table_data_bytes", Group: "server", Unit: "bytes", Help: "rows and primary key"},
	{Name: "table_index_bytes", Group: "server", Unit: "bytes", Help: "secondary indexes"},
	{Name: "row_lock_waits", Group: "server", Unit: "ops/s", Help: "waits for row locks"},
}

// made caches the records, by course. Courses that differ only in their rate need
// different names or seeds.
var made = map[string]result.Record{}

// synthetic returns the record of a course, which the caller may change.
func synthetic(t testing.TB, c course) result.Record {
	t.Helper()
	key := fmt.Sprint(c.name, c.layout, c.rows, c.asked, c.period, c.stop, c.seed)
	rec, ok := made[key]
	if !ok {
		rec = c.record(t)
		made[key] = rec
	}
	rec.Intervals = slices.Clone(rec.Intervals)
	rec.Run.Settings = maps.Clone(rec.Run.Settings)
	end := *rec.End
	rec.End = &end
	return rec
}

func (c course) record(t testing.TB) result.Record {
	t.Helper()
	rng := rand.New(rand.NewPCG(c.seed, 7))
	rec := result.Record{Source: "run.jsonl", Run: result.Run{
		Type: "run", Format: result.Format, Name: c.name, Rowmill: "v0.1.0",
		Started:   time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC),
		Command:   []string{"bench", "insert", "--preset", "classic", "--layout", c.layout},
		Benchmark: result.Benchmark{Workload: "insert", Preset: "classic", Layout: c.layout}, Load: result.Load{
			Seed: 1, Rows: c.rows, Writers: 1, Batch: batch,
			Method: "multi-row", Indexes: 3, Rate: c.asked, IntervalSeconds: 1,
		},
		Database: result.Database{
			Target: "sandbox:mariadb?memory=64MB", Engine: "mariadb", ServerVersion: "10.11.19", Storage: "InnoDB",
			Durability: "full", CacheBytes: 64 * mib,
			Settings: map[string]string{
				"innodb_buffer_pool_size": "67108864", "innodb_flush_log_at_trx_commit": "1", "innodb_doublewrite": "ON",
				"innodb_log_file_size": "100663296", "innodb_page_size": "16384", "log_bin": "OFF", "sql_mode": "STRICT_TRANS_TABLES",
			},
			Schema: []string{"CREATE TABLE purchases (\n  transactionid INT NOT NULL AUTO_INCREMENT,\n  price FLOAT NOT NULL,\n" +
				"  PRIMARY KEY (transactionid),\n  KEY marketsegment (price, customerid)\n) ENGINE=InnoDB"},
		},
		Machine:  result.Machine{Cores: 2, CPU: "EPYC 7B13", MemoryBytes: 8 << 30, Kernel: "6.1.0", OS: "linux", Arch: "amd64", Disk: "nvme0n1", Filesystem: "ext4"},
		Counters: counters,
	}}
	if c.period > 0 {
		rec.Run.Period = fmt.Sprintf("%d rows", c.period)
		rec.Run.PeriodWhy = "its indexes fill half of the cache"
	}
	var rows, backlog, made int64
	elapsed, carry := 0.0, 0.0
	for rows < c.rows && (c.stop == 0 || len(rec.Intervals) < c.stop) {
		// Occasionally a checkpoint takes most of a second.
		speed := c.rate(float64(rows)) * (0.94 + 0.12*rng.Float64())
		checkpoint := rng.IntN(45) == 0
		if checkpoint {
			speed *= 0.35
		}
		able := speed
		if c.asked > 0 {
			able = min(speed, c.asked+float64(backlog*batch))
			carry = min(carry, batch)
		}
		carry += able
		n := int64(carry) / batch * batch
		carry -= float64(n)
		span := 1.0
		if rows+n > c.rows {
			span, n = float64(c.rows-rows)/float64(n), c.rows-rows
		}
		iv := result.Interval{Type: "interval", Elapsed: round3(elapsed + span), Seconds: round3(span), Rows: rows + n, NewRows: n}
		hundredth := c.rows / 100
		for m := (rows/hundredth + 1) * hundredth; m <= rows+n && n > 0; m += hundredth {
			iv.Marks = append(iv.Marks, [2]float64{float64(m), round3(elapsed + span*float64(m-rows)/float64(n))})
		}
		iv.Latency = map[string]result.Histogram{"insert": spread(t, rng, n/batch, 1e6*batch/speed, 0)}
		if c.asked > 0 {
			due := int64(c.asked*(elapsed+span)) / batch
			backlog = max(0, due-(rows+n)/batch)
			iv.Backlog = backlog
			if backlog > 1 {
				iv.Late = n / batch
			}
			// The last row to arrive was due when that many rows had been requested.
			wait := 1e6 * max(0, elapsed+span/2-float64(rows+n/2)/c.asked)
			iv.Response = map[string]result.Histogram{"insert": spread(t, rng, n/batch, 1e6*batch/speed, wait)}
		}
		if rng.IntN(60) == 0 {
			iv.Retries = 1
		}
		iv.BusySeconds, iv.WaitSeconds = round3(span*speed*1.1e-6), round3(span*(1-speed*1.1e-6))
		iv.Counters = figures(rng, c, float64(rows+n), speed)
		if checkpoint {
			iv.Counters["checkpoint_age_bytes"] = 78 * mib
		}
		for ; c.period > 0 && made <= (rows+n)/c.period+1; made++ {
			iv.Events = append(iv.Events, result.Event{
				Elapsed: round3(elapsed + span/2), Seconds: 0.021, What: "create partitions", Object: fmt.Sprintf("p%04d", made)})
		}
		rows, elapsed = rows+n, elapsed+span
		rec.Intervals = append(rec.Intervals, iv)
	}
	server := round3(elapsed * 0.9)
	stopped := "rows"
	if rows < c.rows {
		stopped, rec.Run.MaxTimeSeconds = "max-time", elapsed
	}
	rec.End = &result.End{
		Type: "summary", Stopped: stopped, ClientCPUSeconds: round3(float64(rows) * 1.1e-6), ServerCPUSeconds: &server,
		Verified: &result.Verified{Expected: rows, Found: rows, Checksum: true},
		Size:     &result.Size{Data: rows * 58, Index: rows * 96, PerRow: 154},
	}
	return rec
}

func figures(rng *rand.Rand, c course, rows, speed float64) map[string]float64 {
	index, data := rows*96, rows*58
	hot := index
	if c.period > 0 {
		hot = math.Mod(rows, float64(c.period)) * 96
	}
	miss := max(0, 1-64*mib*0.8/max(hot, 1))
	reads := speed * 3 * miss * 0.9 * (0.9 + 0.2*rng.Float64())
	out := map[string]float64{
		"os_cpu_user": 0.2 + 0.3*(1-miss), "os_cpu_iowait": 0.6 * miss, "os_cpu_steal": 0.01 * rng.Float64(),
		"disk_read_bytes": reads * 16384, "disk_write_bytes": speed*300 + reads*9000,
		"client_cpu": speed * 1.1e-6, "client_heap_bytes": (18 + 9*rng.Float64()) * mib,
		"cache_bytes": 64 * mib, "cache_dirty_bytes": (20 + 25*rng.Float64()) * mib,
		"page_reads": reads, "page_writes": reads*0.8 + speed*0.004,
		"checkpoint_age_bytes": (30 + 40*rng.Float64()) * mib, "checkpoint_max_bytes": 81 * mib,
		"table_data_bytes": data, "table_index_bytes": index, "row_lock_waits": 0,
	}
	for name, v := range out {
		out[name] = round3(v)
	}
	return out
}

// spread returns a latency distribution with a long tail around a median in microseconds.
func spread(t testing.TB, rng *rand.Rand, n int64, median, wait float64) result.Histogram {
	t.Helper()
	h := result.NewHistogram()
	for range n {
		v := median * math.Exp(0.25*rng.NormFloat64())
		if rng.IntN(70) == 0 {
			v *= 4 + 12*rng.Float64()
		}
		if err := h.RecordValue(max(1, int64(wait+v))); err != nil {
			t.Fatal(err)
		}
	}
	enc, err := result.EncodeHistogram(h)
	if err != nil {
		t.Fatal(err)
	}
	return enc
}

func round3(f float64) float64 { return math.Round(f*1e3) / 1e3 }

func failed(rec result.Record) result.Record {
	rec.End.Stopped = "failed"
	rec.End.Failure = "insert batch 1204: Error 1114 (HY000): The table 'purchases' is full"
	rec.End.Verified, rec.End.Size, rec.End.ServerCPUSeconds = nil, nil, nil
	return rec
}

// cutOff turns the record into that of a killed run, as Read returns it.
func cutOff(rec result.Record) result.Record {
	rec.End = nil
	rec.Intervals = slices.Clone(rec.Intervals)
	rec.Warnings = append(rec.Warnings, "the run was cut off: its record has no end, the figures cover what was written")
	return rec
}

// oddRecords returns unusual records that every report must handle.
func oddRecords(t *testing.T) map[string][]result.Record {
	t.Helper()
	base := synthetic(t, course{name: "short", layout: "plain", rows: 4e6, rate: falling, stop: 30, seed: 9})
	one, empty, bare, hostile, long := base, base, base, base, base
	one.Intervals = base.Intervals[:1]
	empty.Intervals = nil
	bare.Run.Counters = nil
	bare.Intervals = slices.Clone(base.Intervals)
	for i := range bare.Intervals {
		bare.Intervals[i].Counters, bare.Intervals[i].Latency, bare.Intervals[i].Marks = nil, nil, nil
	}
	bare.Intervals[3].Counters = map[string]float64{"os_load": math.NaN(), "unknown": 3}
	const script = `</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">` + "\x1b]0;hacked\a"
	hostile.Run.Layout, hostile.Run.Name, hostile.Run.Preset = script, script, script
	hostile.Run.ServerVersion, hostile.Run.Machine.CPU = script, "javascript:window.hacked=1"
	hostile.Run.Settings = map[string]string{script: script}
	hostile.Run.Schema = []string{script + "-->"}
	hostile.Run.Warnings = []string{script}
	hostile.Run.Counters = []result.Counter{{Name: "__proto__", Group: "os", Unit: script, Help: script}, {Name: "x", Group: script, Unit: "bytes", Help: script}}
	hostile.Intervals = slices.Clone(base.Intervals)
	for i := range hostile.Intervals {
		hostile.Intervals[i].Counters = map[string]float64{"__proto__": float64(i), "x": float64(i)}
		hostile.Intervals[i].Latency = map[string]result.Histogram{script: base.Intervals[i].Latency["insert"]}
		hostile.Intervals[i].Events = []result.Event{{Elapsed: float64(i), What: script, Object: script}}
	}
	hostile = failed(hostile)
	hostile.End.Failure = script
	long.Intervals = nil
	for i := range 3_000 {
		iv := base.Intervals[i%30]
		iv.Marks, iv.NewRows, iv.Rows, iv.Elapsed = nil, 1000, int64(i+1)*1000, float64(i+1)
		if i%500 == 0 {
			iv.NewRows = 0 // a stall
		}
		if i > 0 {
			iv.Rows = long.Intervals[i-1].Rows + iv.NewRows
		}
		long.Intervals = append(long.Intervals, iv)
	}
	second := base
	second.Source = "other.jsonl"
	rolling := synthetic(t, rollingCourse())
	other := rolling
	other.Source = "other.jsonl"
	return map[string][]result.Record{
		"one interval":  {one},
		"no intervals":  {empty},
		"no counters":   {bare},
		"hostile names": {hostile},
		"long run":      {long},
		"cut off":       {cutOff(base)},
		"several files": {base, rolling, second, other},
		"open loop":     {synthetic(t, openLoop())},
	}
}
