package report

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

func storedRuns(t *testing.T, name string) []result.Record {
	t.Helper()
	recs, err := result.ReadFile("testdata/records/" + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

// A texts is a canvas that keeps what is written on it.
type texts struct {
	at map[string]document.XY
}

func (c *texts) Stroke([]document.XY, document.Pen)             {}
func (c *texts) Dot(document.XY, float64, string, bool, string) {}
func (c *texts) Text(at document.XY, s string, _ document.Face) { c.at[s] = at }

// TestSearchPicture: the picture of a search shows its trials and its answer, not the filling.
func TestSearchPicture(t *testing.T) {
	t.Parallel()
	d, err := New(storedRuns(t, "findrate"))
	if err != nil {
		t.Fatal(err)
	}
	p, cv := d.Picture(document.PNGOptions{}), &texts{at: map[string]document.XY{}}
	if err := p.Draw(cv, document.Box{X0: 0, Y0: 0, X1: 1200, Y1: 675}, d.Title, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"12,955 rows/s", "offered, rows/s", "limit 50 ms"} {
		if _, ok := cv.at[want]; !ok {
			t.Errorf("%q is not in %v", want, cv.at)
		}
	}
}

// TestShortest: two records are named by the last parts of their paths that differ.
func TestShortest(t *testing.T) {
	t.Parallel()
	for paths, want := range map[[2]string]string{{"/a/b/old.jsonl", "new.jsonl"}: "old.jsonl new.jsonl", {"/a/1/x.jsonl", "/a/2/x.jsonl"}: "1/x.jsonl 2/x.jsonl",
		{"/a/1/x.jsonl", "/b/1/x.jsonl"}: "/a/1/x.jsonl /b/1/x.jsonl", {"x.jsonl", "x.jsonl"}: "x.jsonl #1 x.jsonl #2"} {
		if got := strings.Join(shortest(paths[:]...), " "); got != want {
			t.Errorf("%v: %s, want %s", paths, got, want)
		}
	}
}

// TestNoKill: a run that ended before the first kill of its server says so, and its sentence names
// none.
func TestNoKill(t *testing.T) {
	t.Parallel()
	v := &views(storedRuns(t, "killserver"))[0]
	if got, sentence := v.kills(), v.verdict(); got != "none: the run ended before the first, after 1 s" || strings.Contains(sentence, "kill") {
		t.Errorf("%s; %s", got, sentence)
	}
	v.rec.Intervals[0].Events = append(v.rec.Intervals[0].Events, result.Event{What: "kill server"})
	if sentence := v.verdict(); !strings.HasSuffix(sentence, "; the server was killed 1 time") {
		t.Error(sentence)
	}
}

// TestManyRuns: the labels of six runs stand near their lines, and the legend has all of them.
func TestManyRuns(t *testing.T) {
	t.Parallel()
	var recs []result.Record
	for i := range 6 {
		r := result.Record{Run: result.Run{Name: fmt.Sprint("run ", i), Benchmark: result.Benchmark{Layout: fmt.Sprintf("a layout with a long name, number %d", i)}, Load: result.Load{Batch: 1, Writers: 1}}}
		for s := range 100 {
			r.Intervals = append(r.Intervals, result.Interval{Elapsed: float64(s + 1), Seconds: 1, Rows: int64(s+1) * 1000, NewRows: 1000})
		}
		recs = append(recs, r)
	}
	vs := views(recs)
	cv := &texts{at: map[string]document.XY{}}
	if err := ratePicture(vs, document.PNGOptions{}).Draw(cv, document.Box{X0: 0, Y0: 0, X1: 1200, Y1: 675}, "", ""); err != nil {
		t.Fatal(err)
	}
	low, high := math.Inf(1), math.Inf(-1)
	for i := range vs {
		if _, ok := cv.at[vs[i].label]; !ok {
			t.Errorf("%s is not in the legend: %v", vs[i].label, cv.at)
		}
		at, ok := cv.at[vs[i].label+" 1k"]
		if !ok {
			t.Errorf("%s has no label: %v", vs[i].label, cv.at)
		}
		low, high = min(low, at.Y), max(high, at.Y)
	}
	if high-low > 6*document.LabelRow {
		t.Errorf("the labels of lines at one height stand %.0f pixels apart", high-low)
	}
}

// TestStallOfStep: a stall in a step is not its knee.
func TestStallOfStep(t *testing.T) {
	t.Parallel()
	r := result.Record{Run: result.Run{Step: &result.Step{Name: "l.i1", Benchmark: "ibench", Number: 3, Of: 11}, Load: result.Load{Batch: 50}}}
	rows := int64(0)
	for s := range 50 {
		n := int64(1000)
		if s >= 20 && s < 30 {
			n = 20
		}
		rows += n
		r.Intervals = append(r.Intervals, result.Interval{Elapsed: float64(s + 1), Seconds: 1, Rows: rows, NewRows: n})
	}
	if r.Summary().Knee == nil {
		t.Fatal("this run has no knee at all")
	}
	if vs := views([]result.Record{r}); vs[0].sum.Knee != nil {
		t.Errorf("%+v", vs[0].sum.Knee)
	}
}

// TestKeepReport: the report of inserts beside maintenance is about maintenance.
func TestKeepReport(t *testing.T) {
	t.Parallel()
	recs := storedRuns(t, "keep")
	recs[0].End.Keep = &result.Keep{StallMS: 100, Actions: map[string]int{"seal": 3, "drop": 1}, Longest: result.KeepStall{Seconds: .3, During: []string{"seal p1"}}}
	d, err := New(recs)
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(*strings.Builder) error{
		"text": func(b *strings.Builder) error { return d.Text(b) }, "page": func(b *strings.Builder) error { return d.HTML(b) },
		"Markdown": func(b *strings.Builder) error { return d.Markdown(b) },
	} {
		var out strings.Builder
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Inserts beside maintenance", "seal 3, drop 1", "300 ms (seal p1)"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, out.String())
			}
		}
	}
	if !strings.Contains(d.Title, "beside its maintenance") {
		t.Errorf("title %q", d.Title)
	}
}
