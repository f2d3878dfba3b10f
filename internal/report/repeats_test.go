package report_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/result"
)

// recorded reads the seconds that each hundredth of the rows took, for each run in order.
func recorded(t *testing.T) (runs [][]float64) {
	t.Helper()
	text, err := os.ReadFile("testdata/recorded-runs.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var run []float64
		for _, field := range strings.Fields(line) {
			us, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			run = append(run, float64(us)/1e6)
		}
		if len(run) != 100 {
			t.Fatalf("a run of %d parts", len(run))
		}
		runs = append(runs, run)
	}
	if len(runs) < 40 {
		t.Fatalf("%d runs, want at least 40", len(runs))
	}
	return runs
}

// recordOf returns a run of 100,000 rows, with its rate multiplied by a factor.
func recordOf(parts []float64, rate float64, nth int) result.Record {
	iv := result.Interval{Rows: 100_000, NewRows: 100_000}
	for i, s := range parts {
		iv.Elapsed += s / rate
		iv.Marks = append(iv.Marks, [2]float64{float64(1000 * (i + 1)), iv.Elapsed})
	}
	iv.Seconds = iv.Elapsed
	return result.Record{
		Run:       result.Run{Name: "classic plain on sqlite", Benchmark: result.Benchmark{Preset: "classic", Layout: "plain"}, Database: result.Database{Engine: "sqlite"}, Repeat: nth, Started: time.Unix(int64(nth), 0)},
		Intervals: []result.Interval{iv},
		End:       &result.End{Stopped: "rows", Verified: &result.Verified{Expected: 100_000, Found: 100_000, Checksum: true}},
	}
}

// draw returns two groups of recorded runs: neighbours in time are a pair, as with `--repeat`,
// in a random order. The rates of B are multiplied by a factor.
func draw(runs [][]float64, pairs int, rate float64, try uint64) (a, b []result.Record) {
	rng := rand.New(rand.NewPCG(2012, try))
	for n, p := range rng.Perm(len(runs) / 2)[:pairs] {
		x, y := runs[2*p], runs[2*p+1]
		if rng.IntN(2) == 0 {
			x, y = y, x
		}
		a, b = append(a, recordOf(x, 1, n+1)), append(b, recordOf(y, rate, n+1))
	}
	return a, b
}

// Between two groups of repeats of the same recorded configuration, no difference is
// shown in 95% of the tries, and a simulated difference is found as often, given enough
// repeats: of 200, 190 are expected, and 184 is within two standard errors.
func TestRecordedRepeats(t *testing.T) {
	runs := recorded(t)
	for _, c := range []struct {
		name    string
		pairs   int
		rate    float64
		verdict string
		tries   uint64
		want    int
	}{
		{"a tenth faster, 20 repeats", 20, 1 / 0.9, statistics.Faster, 20, 19},
		{"the same, 20 repeats", 20, 1, statistics.NoDifference, 40, 38},
		{"a tenth slower, 20 repeats", 20, 0.9, statistics.Slower, 40, 38},
		{"two fifths slower, 5 repeats", 5, 0.6, statistics.Slower, 200, 190},
		{"the same, 2 repeats", 2, 1, statistics.NoDifference, 200, 184},
		{"the same, 3 repeats", 3, 1, statistics.NoDifference, 200, 184},
		{"the same, 5 repeats", 5, 1, statistics.NoDifference, 200, 184},
		{"the same, 10 repeats", 10, 1, statistics.NoDifference, 200, 184},
	} {
		t.Run(c.name, func(t *testing.T) {
			right := 0
			for try := range c.tries {
				a, b := draw(runs, c.pairs, c.rate, try)
				cmp := compared(t, a, b)
				p := cmp.Cells[0]
				if p.Verdict == c.verdict {
					right++
				}
				if len(p.Repeats) != c.pairs || len(cmp.Unpaired) != 0 {
					t.Fatalf("%d pairs, left out %q", len(p.Repeats), cmp.Unpaired)
				}
			}
			t.Logf("%q in %d of %d tries", c.verdict, right, c.tries)
			if right < c.want {
				t.Errorf("%q in %d of %d tries, want %d", c.verdict, right, c.tries, c.want)
			}
		})
	}
}

// A comparison lists the repeats that it leaves out, and flags doubtful ones.
func TestRepeatsLeftOut(t *testing.T) {
	runs := recorded(t)
	group := func(from, n int) (out []result.Record) {
		for i := range n {
			out = append(out, recordOf(runs[from+i], 1, i+1))
		}
		return out
	}
	a, b := group(0, 4), group(4, 4)
	b[1].End = nil
	a[3].End.Stopped = "interrupted"
	c := compared(t, a, b)
	if p := c.Cells[0]; len(p.Repeats) != 2 || len(c.Unpaired) != 2 || !strings.Contains(c.Unpaired[0], "of B was not finished (cut off") || !strings.Contains(c.Unpaired[1], "of A was not finished (interrupted") {
		t.Errorf("%d pairs, left out %q", len(p.Repeats), c.Unpaired)
	}
	// Repeats are matched by number, not by position.
	a, b = group(0, 3), group(3, 4)[1:]
	c = compared(t, a, b)
	if p := c.Cells[0]; len(p.Repeats) != 2 || len(c.Unpaired) != 2 {
		t.Errorf("%d pairs of repeats 1-3 with 2-4, left out %q", len(p.Repeats), c.Unpaired)
	}
	// One side after the other instead of alternating.
	a, b = group(0, 3), group(3, 3)
	flagged := func(c *report.Comparison) bool {
		for _, f := range c.Flags {
			if f.Kind == "order" {
				return true
			}
		}
		return false
	}
	if flagged(compared(t, a, b)) {
		t.Error("runs made in turn are flagged")
	}
	for i := range b {
		b[i].Run.Started = b[i].Run.Started.Add(time.Hour)
	}
	if !flagged(compared(t, a, b)) || !flagged(compared(t, b, a)) {
		t.Error("runs that were not made in turn are not flagged")
	}
	// Runs of other configurations are not repeats.
	a = group(0, 4)
	a[2].Run.Batch, a[3].Run.Batch = 10, 10
	if got := report.Repeats(a); len(got) != 2 || len(got[0]) != 2 || len(got[1]) != 2 {
		t.Errorf("%d groups of two batch sizes", len(got))
	}
}

// The proof of a benchmark's last step, or of a search's last trial, holds for all its runs.
func TestCompareProvenParts(t *testing.T) {
	for _, name := range []string{"ibench", "findrate"} {
		t.Run(name, func(t *testing.T) {
			recs := stored(t, name)
			c := compared(t, recs, recs)
			for _, p := range c.Cells {
				if p.Name != p.Against || len(c.Flags) > 0 {
					t.Errorf("%s with %s: %+v", p.Name, p.Against, c.Flags)
				}
			}
			// A step that one side lacks does not shift the others.
			if name == "ibench" {
				for _, p := range compared(t, recs, recs[1:]).Cells {
					if p.Name != p.Against {
						t.Errorf("%s is compared with %s", p.Name, p.Against)
					}
				}
			}
		})
	}
}

// stored reads a recorded run of testdata.
func stored(t *testing.T, name string) []result.Record {
	t.Helper()
	recs, err := result.ReadFile("testdata/records/" + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return recs
}
