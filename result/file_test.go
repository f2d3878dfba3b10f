package result

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rowmill/rowmill/internal/testdb"
)

func full(t testing.TB) Record {
	t.Helper()
	checksum, cpu := true, 9.25
	h := encoded(t, 100, 2000, 30_000)
	r := Record{
		Source: "run.jsonl",
		Run: Run{
			Type: "run", Format: Format, Name: "classic rolling", Started: time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC), Rowmill: "v1", Command: []string{"bench", "insert"},
			Benchmark: Benchmark{Workload: "insert", Preset: "classic", Layout: "rolling"}, Load: Load{
				Seed: math.MaxUint64, Rows: 2000, MaxTimeSeconds: 60, Writers: 2, Batch: 100, Method: "multi-row",
				Indexes: 3, Rate: 500, IntervalSeconds: 1,
			},
			Retention: Retention{Period: "1000 rows", PeriodWhy: "asked for", KeepPeriods: 4}, Deviations: []string{"none"},
			Database: Database{
				Target: "sandbox:mariadb", Engine: "mariadb", ServerVersion: "10.11.19", Storage: "InnoDB", Durability: "full", CacheBytes: 64 << 20, Embedded: true,
				Settings: map[string]string{"fsync": "on"}, Schema: []string{"CREATE TABLE t (a INT)"},
			},
			Machine:  Machine{2, "cpu", 8 << 30, "6.1", "linux", "amd64", "vda", "ext4"},
			Counters: []Counter{{Name: "page_reads", Group: "server", Unit: "pages/s", Help: "pages read"}}, Warnings: []string{"a warning"},
		},
		Intervals: []Interval{
			{Type: "interval", Elapsed: 1, Seconds: 1, Rows: 1000, NewRows: 1000, Marks: [][2]float64{{500, 0.5}}, Latency: map[string]Histogram{"insert": h}, Response: map[string]Histogram{"insert": h},
				Backlog: 3, Late: 1, Errors: 2, Retries: 4, BusySeconds: 0.25, WaitSeconds: 1.5, Counters: map[string]float64{"page_reads": 7.5}, Events: []Event{{0.5, 0.01, "create partition", "p1"}}},
			{Type: "interval", Elapsed: 2, Seconds: 1, Rows: 2000, NewRows: 1000, Latency: map[string]Histogram{"insert": h}},
		},
	}
	s := r.Summary()
	r.End = &End{Type: "summary", Stopped: "rows", Failure: "none", Verified: &Verified{Expected: 2000, Found: 2000, Checksum: true}, Periods: []Period{{Name: "p1", From: "0", To: "1000", Expected: 1000, Found: 1000, Checksum: &checksum}},
		DroppedRows: 5, Size: &Size{100, 200, 0.15}, ClientCPUSeconds: 1.5, ServerCPUSeconds: &cpu, Warnings: []string{"the end"}, Summary: &s}
	return r
}

func written(t testing.TB, recs ...Record) string {
	t.Helper()
	var b strings.Builder
	w := NewWriter(&b)
	for _, r := range recs {
		err := w.Run(r.Run)
		for _, iv := range r.Intervals {
			err = errors.Join(err, w.Interval(iv))
		}
		if r.End != nil {
			err = errors.Join(err, w.End(*r.End))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestRoundTrip(t *testing.T) {
	want := []Record{full(t), full(t)}
	want[1].Run.Name, want[1].Run.Layout = "classic plain", "plain"
	got, err := Read(strings.NewReader(written(t, want...)), "run.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read back differently (-want +got):\n%s", diff)
	}
}

// A kill may cut the file anywhere after its header.
func TestReadCutAnywhere(t *testing.T) {
	text := written(t, full(t))
	header := strings.IndexByte(text, '\n')
	step := 7
	if testdb.Nightly() {
		step = 1
	}
	for n := 0; n <= len(text); n += step {
		recs, err := Read(strings.NewReader(text[:n]), "run.jsonl")
		if n < header {
			if err == nil {
				t.Fatalf("cut within the header, after %d bytes, and yet read", n)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cut after %d bytes: %v", n, err)
		}
		whole := strings.Count(text[header+1:max(n, header+1)], "\n")
		if got := len(recs[0].Intervals); got < min(whole, 2) || got > 2 {
			t.Fatalf("cut after %d bytes: %d intervals, want %d", n, got, min(whole, 2))
		}
		if recs[0].End == nil && len(recs[0].Warnings) == 0 {
			t.Fatalf("cut after %d bytes: no warning", n)
		}
	}
}

func TestReadErrors(t *testing.T) {
	good := written(t, full(t))
	header, rest, _ := strings.Cut(good, "\n")
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "f: no run in it"},
		{"blank lines", "\n\n \n", "f: no run in it"},
		{"no record", "PK\x03\x04\n", "f:1: not a line of a run record"},
		{"no header", rest, "f:1: a run record begins with a line of type \"run\", not \"interval\""},
		{"a later format", `{"type":"run","format":"rowmill.run/2"}` + "\n", `f:1: format "rowmill.run/2", this rowmill reads "rowmill.run/1"`},
		{"a damaged line in the middle", header + "\n{\"type\":\"interval\",\n" + rest, "f:2: not a line of a run record"},
		{"a number too large", header + "\n{\"type\":\"interval\",\"rows\":1e400}\n" + rest, "f:2: interval"},
		{"a fraction of a row", header + "\n{\"type\":\"interval\",\"rows\":1.5}\n" + rest, "f:2: interval"},
		{"text for a number", header + "\n{\"type\":\"interval\",\"elapsed\":\"1\"}\n" + rest, "f:2: interval"},
		{"a list", "[]\n", "f:1: not a line of a run record"},
		{"an endless line", header + "\n" + strings.Repeat("x", maxLine+1<<17), "too long"},
		{"a line of a later version", header + "\n{\"type\":\"trace\",\"rows\":\"x\"}\n" + rest, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			recs, err := Read(strings.NewReader(c.text), "f")
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
			if err == nil && (len(recs) != 1 || len(recs[0].Intervals) != 2) {
				t.Errorf("read as %+v", recs)
			}
		})
	}
}

func TestWriterLeavesOutWhatIsNoNumber(t *testing.T) {
	var b bytes.Buffer
	counters := map[string]float64{"a": math.NaN(), "b": math.Inf(1), "c": 3}
	if err := NewWriter(&b).Interval(Interval{Counters: counters}); err != nil {
		t.Fatal(err)
	}
	var iv Interval
	if err := json.Unmarshal(b.Bytes(), &iv); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]float64{"c": 3}, iv.Counters); diff != "" {
		t.Error(diff)
	}
	if len(counters) != 3 {
		t.Error("the caller's counters were changed")
	}
}

type lines struct{ n int }

func (l *lines) Write(p []byte) (int, error) {
	if bytes.Count(p, []byte("\n")) != 1 || p[len(p)-1] != '\n' {
		return 0, errors.New("not one line")
	}
	l.n++
	return len(p), nil
}

// A reader of the file, or a kill, must never meet an incomplete line.
func TestWriterWritesWholeLines(t *testing.T) {
	r := full(t)
	r.Run.Schema = []string{"CREATE TABLE t (\n  a INT\n)"}
	var l lines
	w := NewWriter(&l)
	if err := errors.Join(w.Run(r.Run), w.Interval(r.Intervals[0]), w.End(*r.End)); err != nil || l.n != 3 {
		t.Errorf("%d lines, %v", l.n, err)
	}
}

func TestDamagedLatencyBecomesAWarning(t *testing.T) {
	r := full(t)
	r.Intervals[0].Latency = map[string]Histogram{"insert": {Latency: Latency{Count: 9}, HDR: "!"}}
	s := r.Summary()
	if s.LatencyUS["insert"].Count != 3 || !strings.Contains(strings.Join(s.Warnings, "\n"), "1 latency distributions are damaged and were left out: latency of insert in interval 1") {
		t.Errorf("%+v %q", s.LatencyUS, s.Warnings)
	}
}

// Read returns an error, or records whose summaries can be written as JSON and read again.
func FuzzRead(f *testing.F) {
	// Short seeds: the fuzzer spends its time minimizing long ones.
	const header = `{"type":"run","format":"rowmill.run/1","rate":9,"counters":[{"name":"page_reads","unit":"pages/s"}]}`
	rest := `{"type":"interval","elapsed":1,"seconds":1,"rows":9,"new_rows":9,"marks":[[5,0.5]],"counters":{"page_reads":7}}` + "\n" +
		`{"type":"summary","stopped":"rows","size_bytes":{"data":1,"index":2}}` + "\n"
	text := header + "\n" + rest
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Add(header + "\n")
	f.Add(header + "\n" + `{"type":"interval","elapsed":1e308,"seconds":1e-308,"rows":9223372036854775807,"new_rows":-9223372036854775808,"errors":-1,"counters":{"page_reads":1e308,"cache_bytes":-1}}` + "\n" + rest)
	f.Add(header + "\n" + `{"type":"interval","elapsed":-1,"marks":[[1e308,1e308],[-5,0]],"backlog":-9,"latency_us":{"":{"count":1,"hdr":"HISTFA=="}}}`)
	f.Add(`{"type":"run","format":"rowmill.run/1","rate":1e-300,"writers":-1,"batch":-1}` + "\n" + `{"type":"interval","elapsed":5e-324,"rows":1}`)
	f.Fuzz(func(t *testing.T, text string) {
		recs, err := Read(strings.NewReader(text), "f")
		if err != nil {
			return
		}
		for i := range recs {
			s := recs[i].Summary()
			recs[i].Stalls()
			p, err := json.Marshal(s)
			if err != nil {
				t.Fatalf("summary %+v: %v", s, err)
			}
			var back Summary
			if err := json.Unmarshal(p, &back); err != nil {
				t.Fatalf("summary %s: %v", p, err)
			}
			again, err := Read(strings.NewReader(written(t, recs[i])), "f")
			if err != nil || len(again) != 1 || len(again[0].Intervals) != len(recs[i].Intervals) {
				t.Fatalf("written again it reads as %d records: %v", len(again), err)
			}
		}
	})
}

// A tightFile is a file on a disk with room for a given number of bytes.
type tightFile struct {
	*os.File
	room int
}

func (f *tightFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p[:min(len(p), f.room)])
	f.room -= n
	if err == nil && n < len(p) {
		err = errors.New("no space left on device")
	}
	return n, err
}

// TestFullDisk: the part of a line written to a full disk is removed, so that the end fits.
func TestFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.jsonl")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	disk := &tightFile{f, 1 << 20}
	w, r := NewWriter(disk), full(t)
	if err := errors.Join(w.Run(r.Run), w.Interval(r.Intervals[0])); err != nil {
		t.Fatal(err)
	}
	disk.room = 100
	if err := w.Interval(r.Intervals[1]); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Fatalf("error %v", err)
	}
	disk.room = 1 << 20
	if err := errors.Join(w.End(*r.End), f.Close()); err != nil {
		t.Fatal(err)
	}
	recs, err := ReadFile(path)
	if err != nil || len(recs) != 1 || len(recs[0].Intervals) != 1 || recs[0].End == nil || len(recs[0].Warnings) > 0 {
		t.Errorf("records %+v, %v", recs, err)
	}
}
