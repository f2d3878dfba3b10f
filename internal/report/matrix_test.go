package report_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/internal/statistics"
	"github.com/rowmill/rowmill/internal/testbrowser"
	"github.com/rowmill/rowmill/result"
)

// A grid describes a matrix with known rates.
type grid struct {
	source  string
	factors []result.Factor
	repeats int
	rate    func(levels map[string]string) float64
	noise   float64 // standard deviation of the rate's logarithm
	seed    uint64
	leftOut []result.LeftOut
}

func wide() grid {
	return grid{
		source: "matrix.jsonl", repeats: 2, noise: 0.03, seed: 1,
		factors: []result.Factor{
			{Name: "method", Levels: []string{"multi", "load"}}, {Name: "batch", Levels: []string{"1", "100", "1000"}},
			{Name: "writers", Levels: []string{"1", "4"}}, {Name: "indexes", Levels: []string{"0", "3"}}, {Name: "layout", Levels: []string{"plain"}},
			{Name: "durability", Levels: []string{"full", "none"}},
		},
		rate: func(l map[string]string) float64 {
			rate := map[string]float64{"1": 400, "100": 20e3, "1000": 60e3}[l["batch"]]
			if l["durability"] == "none" {
				rate *= map[string]float64{"1": 8, "100": 1.3, "1000": 1.02}[l["batch"]]
			}
			if l["writers"] == "4" {
				rate *= 1.6
			}
			if l["indexes"] == "3" {
				rate *= 0.4
			}
			if l["method"] == "load" && l["batch"] != "1" {
				rate *= 1.25
			}
			return rate
		},
		leftOut: []result.LeftOut{{Factor: "method", Level: "pipeline", Why: "mariadb has multi, single, prepared, load"}},
	}
}

func (g grid) records() []result.Record {
	rng := rand.New(rand.NewPCG(g.seed, 5))
	all := [][]string{{}}
	for _, f := range g.factors {
		var next [][]string
		for _, l := range all {
			for _, level := range f.Levels {
				next = append(next, append(slices.Clone(l), level))
			}
		}
		all = next
	}
	var out []result.Record
	for repeat := range g.repeats {
		for _, at := range rng.Perm(len(all)) {
			levels := map[string]string{}
			for i, f := range g.factors {
				levels[f.Name] = all[at][i]
			}
			number := func(name string) int { n, _ := strconv.Atoi(levels[name]); return n }
			cell := &result.Cell{Factors: g.factors, LeftOut: g.leftOut, Repeats: g.repeats, Runs: g.repeats * len(all), Levels: all[at], Order: len(out) + 1}
			run := result.Run{
				Type: "run", Format: result.Format, Name: cell.Name(), Cell: cell, Rowmill: "v0.2.0", Command: []string{"bench", "matrix"},
				Started:   time.Date(2026, 5, 4, 10, 0, len(out), 0, time.UTC),
				Benchmark: result.Benchmark{Workload: "insert", Preset: "classic", Layout: levels["layout"]}, Load: result.Load{
					Method: levels["method"], Batch: number("batch"), Writers: number("writers"),
					Indexes: number("indexes"), Seed: 1, Rows: 100e3, IntervalSeconds: 1,
				},
				Database: result.Database{
					Durability: levels["durability"],
					Target:     "sandbox:mariadb?memory=64MB", Engine: "mariadb", ServerVersion: "10.11.19", CacheBytes: 64 * mib,
				},
				Machine: result.Machine{Cores: 2, CPU: "EPYC 7B13"},
			}
			if g.repeats > 1 {
				run.Repeat = repeat + 1
			}
			rate := g.rate(levels) * math.Exp(g.noise*rng.NormFloat64())
			rec := result.Record{Source: g.source, Run: run, End: &result.End{Stopped: "rows", Verified: &result.Verified{Expected: 100e3, Found: 100e3, Checksum: true}}}
			for i := range 4 {
				seconds := 100e3 / rate
				rec.Intervals = append(rec.Intervals, result.Interval{Elapsed: seconds * float64(i+1) / 4, Seconds: seconds / 4, Rows: 25e3 * int64(i+1), NewRows: 25e3, WaitSeconds: seconds / 4})
			}
			out = append(out, rec)
		}
	}
	return out
}

// unlucky returns a matrix with a failed, a cut off, and an interrupted and repeated cell.
func unlucky() []result.Record {
	g := wide()
	g.repeats = 1
	recs := g.records()
	recs[3].End.Stopped, recs[3].End.Failure = "failed", "Error 1114 (HY000): The table 'purchases' is full"
	again := recs[5]
	recs[5].End = &result.End{Stopped: "interrupted"}
	recs[7].End = nil
	return append(recs, again)
}

func matrixOf(t *testing.T, recs []result.Record) *report.Matrix {
	t.Helper()
	m, err := report.NewMatrix(recs)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMatrixGoldens(t *testing.T) {
	for name, recs := range map[string][]result.Record{"matrix": wide().records(), "matrix_unlucky": unlucky()} {
		t.Run(name, func(t *testing.T) {
			goldens(t, name, recs, "txt", "md", "json")
		})
	}
}

// TestMatrixShares: the analysis finds the simulated effects.
func TestMatrixShares(t *testing.T) {
	g := wide()
	g.noise = 0.001
	m := matrixOf(t, g.records())
	sum := 0.0
	for _, s := range m.Shares {
		sum += s.Share
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("the shares add up to %v", sum)
	}
	if m.Shares[0].Name != "batch" || m.Shares[0].Share < 0.7 || m.Shares[0].P == nil || *m.Shares[0].P > 0.001 {
		t.Errorf("first %+v", m.Shares[0])
	}
	i := slices.IndexFunc(m.Shares, func(s report.Share) bool { return s.Name == "batch x durability" })
	if i < 0 || m.Shares[i].Share < 0.02 {
		t.Errorf("the interaction that is there is not found: %+v", m.Shares)
	}
	for _, e := range m.Effects {
		want := map[string]float64{"writers 4": 1.6, "indexes 3": 0.4, "method load": math.Pow(1.25, 2.0/3)}[e.Factor+" "+e.Level]
		if want > 0 && math.Abs(*e.Ratio/want-1) > 0.003 {
			t.Errorf("%s %s is %v, want %v", e.Factor, e.Level, *e.Ratio, want)
		}
	}
	if e := m.Effects[len(m.Effects)-1]; e.Factor != "durability" || math.Abs(*e.Low-1.02) > 0.01 || math.Abs(*e.High-8) > 0.05 || e.Pairs != 24 {
		t.Errorf("durability: %+v", e)
	}
	if len(m.Recommended) != 2 || !strings.Contains(m.Recommended[1].Cell, "method=load batch=1000 writers=4 indexes=3 durability=full") ||
		m.Recommended[1].Gain == nil || math.Abs(*m.Recommended[1].Gain-1.02) > 0.01 {
		t.Errorf("recommended %+v", m.Recommended)
	}
}

// TestMatrixMissing: without a tenth of the cells the simulated effects are still found.
func TestMatrixMissing(t *testing.T) {
	g := wide()
	g.noise = 0
	g.rate = func(l map[string]string) float64 {
		batch, _ := strconv.ParseFloat(l["batch"], 64)
		rate := 100 * batch
		if l["writers"] == "4" {
			rate *= 2
		}
		return rate
	}
	var recs []result.Record
	for i, r := range g.records() {
		if i%9 != 0 {
			recs = append(recs, r)
		}
	}
	m := matrixOf(t, recs)
	for _, e := range m.Effects {
		want := map[string]float64{"batch 100": 100, "batch 1000": 1000, "writers 4": 2}[e.Factor+" "+e.Level]
		if want == 0 {
			want = 1
		}
		if math.Abs(*e.Ratio/want-1) > 1e-9 {
			t.Errorf("%s %s is %v, want %v", e.Factor, e.Level, *e.Ratio, want)
		}
	}
	if !strings.Contains(strings.Join(m.Problems, "\n"), "incomplete: 11 runs of 96 are not done") {
		t.Errorf("problems %q", m.Problems)
	}
}

// TestMatrixBaseline: exactly the changed cells are found.
func TestMatrixBaseline(t *testing.T) {
	old, slow := wide(), wide()
	old.repeats, slow.repeats, slow.seed, slow.source, old.source = 3, 3, 8, "new.jsonl", "old.jsonl"
	slow.rate = func(l map[string]string) float64 {
		rate := wide().rate(l)
		if l["method"] == "load" && l["batch"] == "1000" && l["durability"] == "full" {
			rate *= 0.6
		}
		return rate
	}
	c, err := report.Compare(old.records(), slow.records())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "matrix_compare.txt", c.Document().Text)
	if text, err := c.Regression(0.1); err != nil || !strings.HasPrefix(text, "method=load batch=1000 writers=1 indexes=3 durability=full runs at 0.5") || !strings.HasSuffix(text, " slower") {
		t.Errorf("%q, %v", text, err)
	}
	// In the opposite direction through compare: the same cells are faster.
	c, err = report.Compare(slow.records(), old.records())
	if err != nil {
		t.Fatal(err)
	}
	if text, err := c.Regression(0); text != "" || err != nil || c.Cells[len(c.Cells)-1].Verdict != statistics.Faster {
		t.Errorf("slower: %q, %v", text, err)
	}
}

// TestMatrixFalseAlarms: with Holm's method, at most 5% of the pairs have a false alarm.
func TestMatrixFalseAlarms(t *testing.T) {
	alarms := 0
	for i := range uint64(40) {
		a, b := wide(), wide()
		a.seed, b.seed, a.noise, b.noise = 100+i, 200+i, 0.1, 0.1
		c, err := report.Compare(b.records(), a.records())
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(c.Cells, func(c report.CellChange) bool { return c.Verdict != statistics.NoDifference }) {
			alarms++
		}
	}
	if alarms > 4 {
		t.Errorf("%d of 40 have a false alarm", alarms)
	}
}

// TestMatrixGuards: different tables, different durability, and no repeats.
func TestMatrixGuards(t *testing.T) {
	one := wide()
	one.repeats = 1
	recs, other := one.records(), one.records()
	for i := range other {
		other[i].Run.ServerVersion = "11.4.2"
		other[i].Source = "other.jsonl"
	}
	c, err := report.Compare(recs, other)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := c.Document().Text(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"different server version: 10.11.19 against 11.4.2", "Not like with like", "can't be judged", "Holm"} {
		if strings.Contains(text.String(), want) == (want == "Holm") {
			t.Errorf("%q in:\n%s", want, text.String())
		}
	}
	for i := range other {
		other[i].Run.Preset = "ibench"
	}
	if _, err := report.Compare(recs, other); err == nil || !strings.Contains(err.Error(), "preset") {
		t.Errorf("other presets: %v", err)
	}
	if _, err := report.NewMatrix([]result.Record{synthetic(t, plainCourse())}); err == nil {
		t.Error("a run of no matrix was taken")
	}
	// The records of two matrices are reported as ordinary runs.
	if report.IsMatrix(append(recs, other...)) {
		t.Error("two files are one matrix")
	}
}

// TestMatrixPNG draws each matrix, including an empty one.
func TestMatrixPNG(t *testing.T) {
	none := unlucky()[7:8]
	for name, recs := range map[string][]result.Record{"whole": wide().records(), "unlucky": unlucky(), "nothing": none} {
		t.Run(name, func(t *testing.T) { pngOf(t, document.PNGOptions{}, recs, 1200, 675) })
	}
	for _, format := range []string{"txt", "md", "json", "html"} {
		render(t, format, none)
	}
}

func TestMatrixInBrowser(t *testing.T) {
	open := opener(t)
	for name, recs := range map[string][]result.Record{"matrix": wide().records(), "matrix-unlucky": unlucky()} {
		t.Run(name, func(t *testing.T) {
			b := open(t, 1280, 900, recs)
			b.Settle()
			if n := testbrowser.Eval[int](b.Tab, `document.querySelectorAll(".row circle").length`); n < 5*40 {
				t.Errorf("the charts of the choices have %d dots", n)
			}
			if wide := testbrowser.Eval[bool](b.Tab, `document.documentElement.scrollWidth > innerWidth`); wide {
				t.Error("the page is wider than the window")
			}
			b.Shot(name)
			b.Run(click(`[data-theme-set="dark"]`))
			b.Settle()
			if got := testbrowser.Eval[string](b.Tab, `document.documentElement.dataset.theme`); got != "dark" {
				t.Errorf("the theme is %s", got)
			}
			b.Shot(name + "-dark")
		})
	}
	t.Run("phone", func(t *testing.T) {
		b := open(t, 390, 800, wide().records())
		b.Settle()
		if wide := testbrowser.Eval[bool](b.Tab, `document.documentElement.scrollWidth > innerWidth`); wide {
			t.Error("the page is wider than the window")
		}
		b.Shot("matrix-phone")
	})
}
