package report_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// A madeCell describes a run of a cell.
type madeCell struct {
	operation       string
	clients         int
	engine          string
	rate            float64 // main operations a second
	beside          float64 // selects a second, of a mixed one
	p99             int64   // in microseconds
	setting, side   string
	repeat          int
	busy            float64 // share of the clients' time
	others          float64 // share of all cores
	client, server  float64 // CPU seconds
	warning, failed string
}

const cellSeconds = 10

func (m madeCell) record(t *testing.T) result.Record {
	t.Helper()
	main, counts, readers := m.operation, result.CountsQueries, m.clients
	if m.operation == "insert" || m.operation == "mixed" {
		main, counts, readers = "insert", result.CountsRows, 0
	}
	run := result.Run{
		Name: fmt.Sprintf("%s, %d clients on %s", m.operation, m.clients, m.engine), Benchmark: result.Benchmark{
			Workload: "mixed", Preset: "sbtest", Layout: "plain",
			Speed: &result.Speed{Operation: m.operation, Clients: m.clients, Counts: counts, TableRows: 1e5, Filled: 1e5},
		},
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Rowmill: "1.0",
		Load: result.Load{MaxTimeSeconds: cellSeconds, IntervalSeconds: 1, Writers: m.clients, Batch: 1}, Database: result.Database{
			Target: "sandbox:" + m.engine, Engine: m.engine,
			ServerVersion: "15.4", Durability: "full", CacheBytes: 256 * mib,
		},
		Side: m.side, Repeat: m.repeat,
		Machine: result.Machine{Cores: 2, CPU: "AMD EPYC", MemoryBytes: 8 << 30},
	}
	if m.engine == "mariadb" {
		run.Durability, run.ServerVersion = "relaxed", "10.11.4"
	}
	if m.setting != "" {
		run.Workload, run.Speed.Points = "points", 10
		run.Speed.Setting = m.setting
	}
	if m.operation == "mixed" {
		readers = m.clients / 2
	}
	run.Speed.Readers = readers
	rec := result.Record{Run: run, Source: "speed.jsonl"}
	var rows int64
	for i := range cellSeconds {
		rows += int64(m.rate)
		iv := result.Interval{Elapsed: float64(i + 1), Seconds: 1, Rows: rows, NewRows: int64(m.rate), Latency: map[string]result.Histogram{},
			Counters:    map[string]float64{"os_cpu_user": (m.client+m.server)/cellSeconds/2 + m.others, "os_cpu_system": 0},
			BusySeconds: m.busy * float64(m.clients), WaitSeconds: (1 - m.busy) * float64(m.clients)}
		put := func(op string, n float64) {
			h := result.NewHistogram()
			if err := h.RecordValues(m.p99/2, int64(n*0.98)); err != nil {
				t.Fatal(err)
			}
			if err := h.RecordValues(m.p99, int64(n)-int64(n*0.98)); err != nil {
				t.Fatal(err)
			}
			var err error
			if iv.Latency[op], err = result.EncodeHistogram(h); err != nil {
				t.Fatal(err)
			}
		}
		put(main, m.rate)
		if m.operation == "mixed" {
			put("select-pk", m.beside)
			iv.Beside = map[string]result.Tally{"select-pk": {Rows: int64(m.beside)}}
		}
		rec.Intervals = append(rec.Intervals, iv)
	}
	rec.End = &result.End{Stopped: "max-time", ClientCPUSeconds: m.client, ServerCPUSeconds: &m.server}
	if m.warning != "" {
		rec.End.Warnings = []string{m.warning}
	}
	if m.failed != "" {
		rec.End.Stopped, rec.End.Failure = "failed", m.failed
	}
	return rec
}

func matrix(t *testing.T) []result.Record {
	t.Helper()
	var out []result.Record
	for i, clients := range []int{1, 2, 4, 8} {
		for _, m := range []madeCell{
			{operation: "insert", engine: "mariadb", rate: []float64{1000, 1900, 3500, 6000}[i], p99: 1500, client: 0.5, server: 6, busy: 0.01},
			{operation: "insert", engine: "postgres", rate: []float64{1500, 2900, 3000, 2800}[i], p99: 2500, client: 0.7, server: 8, busy: 0.02},
			{operation: "select-pk", engine: "mariadb", rate: []float64{15000, 29000, 30000, 30500}[i], p99: 200, client: 12, server: 7, busy: 0.03},
			{operation: "select-pk", engine: "postgres", rate: []float64{12000, 20000, 21000, 21500}[i], p99: 400, client: 3, server: 15, busy: 0.6},
		} {
			m.clients = clients
			if clients == 8 && m.engine == "postgres" {
				m.others = 0.25
				m.warning = "mariadb, which was not measured, used 21% of a core during the cell"
			}
			out = append(out, m.record(t))
		}
	}
	return append(out,
		madeCell{operation: "mixed", engine: "mariadb", clients: 8, rate: 300, beside: 20000, p99: 900, client: 4, server: 9}.record(t),
		madeCell{operation: "mixed", engine: "postgres", clients: 8, rate: 800, beside: 9000, p99: 1900, client: 4, server: 9,
			failed: "select-pk in sbtest1: 0 rows came for [id] = [77], want 1"}.record(t))
}

// settings compares two settings five times: B is a tenth faster at 8 clients alone.
func settings(t *testing.T) []result.Record {
	t.Helper()
	var out []result.Record
	for repeat, noise := range []float64{1, 1.02, 0.97, 1.01, 0.99} {
		for _, clients := range []int{1, 8} {
			faster := 1.0
			if clients == 8 {
				faster = 1.1
			}
			rate := 5000 * float64(clients)
			out = append(out,
				madeCell{operation: "points", engine: "mariadb", clients: clients, setting: "x=A", side: "A", repeat: repeat + 1, rate: rate * noise, p99: 900, client: 1, server: 9}.record(t),
				madeCell{operation: "points", engine: "mariadb", clients: clients, setting: "x=B", side: "B", repeat: repeat + 1, rate: rate * faster * (2 - noise), p99: 800, client: 1, server: 9}.record(t))
		}
	}
	return out
}

func TestSpeedGoldens(t *testing.T) {
	for name, recs := range map[string][]result.Record{"speed_mixed": matrix(t), "speed_settings": settings(t)} {
		t.Run(name, func(t *testing.T) {
			goldens(t, name, recs, "txt", "md")
			golden(t, name+".json", func(w io.Writer) error {
				var got report.Summaries
				if err := json.Unmarshal([]byte(render(t, "json", recs)), &got); err != nil || len(got.Runs) != len(recs) {
					t.Fatalf("%d runs, %v", len(got.Runs), err)
				}
				enc := json.NewEncoder(w)
				enc.SetIndent("", " ")
				return enc.Encode(got.Grid)
			})
			page := render(t, "html", recs)
			if charts := map[string]int{"speed_mixed": 6, "speed_settings": 2}[name]; strings.Count(page, `<svg class="chart-svg"`) != charts || strings.Count(page, "<circle") < 2*charts {
				t.Errorf("the page has %d charts, want %d", strings.Count(page, `<svg class="chart-svg"`), charts)
			}
			pngOf(t, document.PNGOptions{}, recs, 1200, 675)
		})
	}
}

// A column without a value in any row is omitted: an embedded engine has no server.
func TestSpeedWithoutServer(t *testing.T) {
	rec := madeCell{operation: "select-pk", engine: "sqlite", clients: 1, rate: 1000, p99: 100, client: 1}.record(t)
	rec.End.ServerCPUSeconds = nil
	for _, format := range []string{"txt", "md"} {
		if out := render(t, format, []result.Record{rec}); !strings.Contains(out, "client CPU/op") || strings.Contains(out, "server CPU/op") {
			t.Errorf("%s", out)
		}
	}
}

// A cell whose rows are not all there says so before any figure.
func TestSpeedLostRows(t *testing.T) {
	rec := madeCell{operation: "insert", engine: "mariadb", clients: 1, rate: 1000, p99: 100}.record(t)
	rec.End.Verified = &result.Verified{Expected: 10_000, Found: 9_999, Checksum: true}
	if text := render(t, "txt", []result.Record{rec}); !strings.Contains(text, "!! insert, 1 clients on mariadb: verification FAILED: 9,999 rows found of 10,000 expected") {
		t.Error(text)
	}
}

// Unusual records are reported as well: cut off, with a single client, empty.
func TestSpeedOdd(t *testing.T) {
	whole := madeCell{operation: "select-pk", engine: "sqlite", clients: 1, rate: 1000, p99: 100}.record(t)
	cut := whole
	cut.End, cut.Intervals = nil, whole.Intervals[:3]
	empty := whole
	empty.Intervals = nil
	for name, recs := range map[string][]result.Record{"one": {whole}, "cut off": {cut}, "empty": {empty}} {
		t.Run(name, func(t *testing.T) {
			for _, format := range []string{"txt", "md", "json", "html"} {
				if out := render(t, format, recs); strings.Contains(out, "NaN") {
					t.Errorf("%s", out)
				}
			}
			pngOf(t, document.PNGOptions{Log: true}, recs, 1200, 675)
		})
	}
	if _, err := report.New([]result.Record{whole, synthetic(t, plainCourse())}); err == nil || !strings.Contains(err.Error(), "report them apart") {
		t.Errorf("cells with other runs: %v", err)
	}
}

// What a run was disturbed by is counted once, in however many cells it has figures.
func TestDisturbedRuns(t *testing.T) {
	text := render(t, "txt", stored(t, "tables"))
	if !strings.Contains(text, "!! disturbed in 1 of 1 run: ") || strings.Contains(text, " cells:") {
		t.Error(text)
	}
}
