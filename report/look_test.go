package report_test

import (
	"github.com/rowmill/rowmill/report"
	"github.com/rowmill/rowmill/result"
	"os"
	"testing"
)

func TestLook(t *testing.T) {
	recs := []result.Record{synthetic(t, plainCourse()), synthetic(t, rollingCourse())}
	dir := os.Getenv("LOOK")
	if dir == "" {
		t.Skip()
	}
	w := func(n string) *os.File { f, _ := os.Create(dir + "/" + n); return f }
	report.Text(w("a.txt"), recs)
	report.Markdown(w("a.md"), recs)
	report.HTML(w("a.html"), recs)
	report.PNG(w("a.png"), recs, report.PNGOptions{})
	report.PNG(w("alog.png"), recs, report.PNGOptions{Log: true})
	f := w("a.jsonl")
	rw := result.NewWriter(f)
	for _, r := range recs {
		rw.Run(r.Run)
		for _, iv := range r.Intervals {
			rw.Interval(iv)
		}
		rw.End(*r.End)
	}
	ol := synthetic(t, openLoop())
	report.HTML(w("open.html"), []result.Record{ol})
	report.Text(w("open.txt"), []result.Record{ol, failed(synthetic(t, course{name: "x", layout: "plain", rows: 4e6, rate: falling, stop: 5, seed: 4}))})
	b := recs[0]
	b.Run.Durability = "relaxed"
	report.Compare(w("cmp.txt"), recs, []result.Record{b, recs[1]})
}
