package result

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pieces returns a run killed at 1.5 s, with unrecorded rows, and resumed an hour later.
func pieces(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	w := NewWriter(&out)
	started := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	iv := func(elapsed, seconds float64, rows, newRows int64) Interval {
		return Interval{Elapsed: elapsed, Seconds: seconds, Rows: rows, NewRows: newRows, Counters: map[string]float64{"client_cpu": 0.5, "server_cpu": 1}}
	}
	server := 3.0
	for _, err := range []error{
		w.Run(Run{Name: "x", Started: started, Load: Load{IntervalSeconds: 1, Rows: 4000}, Counters: []Counter{{Name: "client_cpu"}}}),
		w.Interval(iv(1, 1, 1000, 1000)),
		w.Run(Run{Name: "x", Started: started.Add(time.Hour), Counters: []Counter{{Name: "client_cpu"}, {Name: "server_cpu"}},
			Resumes: &Resumes{Rows: 1500, Seconds: 1.5, PausedSeconds: 3598.5, Stopped: StoppedKilled, Refilled: 100, Missing: 40}}),
		w.Interval(iv(2.5, 1, 2500, 1000)),
		w.Interval(iv(4, 1.5, 4000, 1500)),
		w.End(End{Stopped: "rows", Verified: &Verified{Expected: 4000, Found: 4000, Checksum: true}, ClientCPUSeconds: 2, ServerCPUSeconds: &server}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

func TestPiecesAreOneRun(t *testing.T) {
	recs, err := Read(strings.NewReader(pieces(t)), "test")
	if err != nil {
		t.Fatal(err)
	}
	if len(recs) != 1 || len(recs[0].Pieces) != 2 || len(recs[0].Intervals) != 4 || recs[0].Broken() || len(recs[0].Run.Counters) != 2 {
		t.Fatalf("%+v", recs)
	}
	s := recs[0].Summary()
	if s.Rows != 4000 || s.Seconds != 4 || s.RowsPerSecond != 1000 {
		t.Errorf("%d rows in %v s", s.Rows, s.Seconds)
	}
	near(t, "flatness", s.Rate.Flatness, 1)
	near(t, "client CPU", s.Client.CPUSeconds, 2.5)
	near(t, "server CPU", *s.Server.CPUSeconds, 4)
	text := strings.Join(s.Warnings, "\n")
	for _, want := range []string{"killed at 1,500 rows, after 1.5 s, and resumed 59m later", "last 500 rows before that is estimated", "at least 40 rows"} {
		if !strings.Contains(text, want) {
			t.Errorf("warnings lack %q: %s", want, text)
		}
	}
}

// TestBrokenPieces checks what the record of an interrupted run tells about it.
func TestBrokenPieces(t *testing.T) {
	lines := strings.SplitAfter(pieces(t), "\n")
	for _, c := range []struct {
		lines   int
		rows    int64
		seconds float64
	}{{1, 0, 0}, {2, 1000, 1}, {3, 1500, 1.5}, {4, 2500, 2.5}} {
		recs, err := Read(strings.NewReader(strings.Join(lines[:c.lines], "")), "test")
		if err != nil {
			t.Fatal(err)
		}
		r := &recs[0]
		rows, seconds := r.Done()
		if !r.Broken() || r.Stopped() != StoppedKilled || rows != c.rows || seconds != c.seconds {
			t.Errorf("%d lines: broken %v (%s), %d rows in %v s", c.lines, r.Broken(), r.Stopped(), rows, seconds)
		}
	}
}

func TestMend(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", ""},
		{"{\"a\":1}\n", "{\"a\":1}\n"},
		{"{\"a\":1}\n{\"b\":", "{\"a\":1}\n"},
		{"{\"a\":1}\n{\"b\":2}", "{\"a\":1}\n{\"b\":2}\n"},
		{"{\"a\":1}\n" + strings.Repeat("x", 3*mendChunk), "{\"a\":1}\n"},
		{"{\"a\"", ""},
	} {
		path := filepath.Join(t.TempDir(), "r")
		if err := os.WriteFile(path, []byte(c.in), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := Mend(f); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("next\n"); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if got, err := os.ReadFile(path); err != nil || string(got) != c.want+"next\n" {
			t.Errorf("%.40q became %.60q, %v", c.in, got, err)
		}
	}
}
