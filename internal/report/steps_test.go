package report_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report/oneline"
	"github.com/rowmill/rowmill/result"
)

// An act is a step of a synthetic benchmark, with the operations of each second.
type act struct {
	name             string
	seconds          int
	inserts, deletes int64 // rows in each second
	queries          int64
	batch            int
	asked            float64
	keep             int64
	did              []string
}

var acts = []act{
	{name: "l.i0", seconds: 2, inserts: 100_000, batch: 100},
	{name: "l.x", seconds: 1, did: []string{"purchases.marketsegment", "purchases.registersegment", "purchases.pdc"}},
	{name: "l.i1", seconds: 4, inserts: 20_000, deletes: 19_950, batch: 50, keep: 200_000},
	{name: "settle", seconds: 1, did: []string{""}},
	{name: "qr100", seconds: 3, inserts: 100, deletes: 100, queries: 900, batch: 50, asked: 100, keep: 200_000},
	{name: "qp1000", seconds: 3, inserts: 900, deletes: 900, queries: 700, batch: 50, asked: 1000, keep: 200_000},
}

// steps returns the records of the synthetic benchmark.
func steps(t testing.TB) []result.Record {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 7))
	var out []result.Record
	held := int64(0)
	like := synthetic(t, plainCourse()).Run
	for i, a := range acts {
		run := like
		run.Name, run.Workload, run.Preset, run.Rows, run.Batch, run.Rate = "ibench "+a.name+" on mariadb", "ibench", "ibench", a.inserts*int64(a.seconds), a.batch, a.asked
		dirty := float64(40 * mib)
		run.Step = &result.Step{Benchmark: "ibench", Name: a.name, Number: i + 1, Of: len(acts), Tables: 1, StartRows: held, KeepRows: a.keep, DirtyBytes: &dirty}
		run.Deviations = []string{"query steps last 3s; published: 30m0s"}
		if a.queries > 0 {
			run.Step.Query = a.name[:2]
		}
		rec := result.Record{Source: "run.jsonl", Run: run}
		rows := int64(0)
		for s := range a.seconds {
			rows += a.inserts
			held += a.inserts - a.deletes
			iv := result.Interval{Type: "interval", Elapsed: float64(s + 1), Seconds: 1, Rows: rows, NewRows: a.inserts, HeldRows: held, Retries: int64(s % 2),
				WaitSeconds: 0.9, BusySeconds: 0.1, Latency: map[string]result.Histogram{}, Counters: map[string]float64{
					"disk_read_bytes": 1 * mib, "disk_write_bytes": 20 * mib, "client_cpu": 0.2, "server_cpu": 0.9,
					"server_peak_bytes": 160 * mib, "cache_dirty_bytes": float64((a.seconds - s - 1) * mib)}}
			if a.inserts > 0 {
				iv.Latency["insert"] = spread(t, rng, a.inserts/int64(a.batch), 900, 0)
			}
			if a.asked > 0 {
				iv.Response = map[string]result.Histogram{"insert": spread(t, rng, a.inserts/int64(a.batch), 900, 3000)}
			}
			if a.deletes > 0 {
				iv.Latency["delete"] = spread(t, rng, a.deletes/int64(a.batch), 700, 0)
				iv.Beside = map[string]result.Tally{"delete": {Rows: a.deletes, Retries: 1}}
			}
			if a.queries > 0 {
				iv.Latency["query"] = spread(t, rng, a.queries, 150, 0)
				iv.Beside["query"] = result.Tally{Rows: a.queries}
			}
			for j, object := range a.did {
				what := "create index"
				if object == "" {
					what = "settle"
				}
				iv.Events = append(iv.Events, result.Event{Elapsed: 0.3 * float64(j+1), Seconds: 0.3, What: what, Object: object})
			}
			rec.Intervals = append(rec.Intervals, iv)
		}
		server := 0.9 * float64(a.seconds)
		rec.End = &result.End{Stopped: "rows", ClientCPUSeconds: 0.2 * float64(a.seconds), ServerCPUSeconds: &server,
			Size: &result.Size{Data: held * 60, Index: held * 90, PerRow: 150}}
		if i == len(acts)-1 {
			rec.End.Verified, rec.End.DeletedRows = &result.Verified{Expected: held, Found: held, Checksum: true}, 82_800
		}
		out = append(out, rec)
	}
	return out
}

func TestStepsGolden(t *testing.T) {
	recs := steps(t)
	goldens(t, "steps", recs, "txt", "md", "json")
	golden(t, "steps.lines", func(w io.Writer) error { return oneline.WriteIbench(w, recs) })
	golden(t, "steps.intervals", func(w io.Writer) error { return oneline.WriteProgress(w, recs) })
}

// constant returns runs that kept their table's size, one for each method.
func constant(t testing.TB) []result.Record {
	t.Helper()
	plain, rolling := synthetic(t, plainCourse()), synthetic(t, rollingCourse())
	for _, r := range []*result.Record{&plain, &rolling} {
		r.Run.KeepRows = 500_000
		r.Intervals = slices.Clone(r.Intervals)
	}
	plain.Run.HeldRows, rolling.Run.HeldRows = [2]int64{500_000, 505_000}, [2]int64{500_000, 1_000_000}
	rng := rand.New(rand.NewPCG(3, 9))
	dropped := int64(0)
	for i := range plain.Intervals {
		iv := &plain.Intervals[i]
		before := max(500_000, iv.Rows-iv.NewRows)
		iv.HeldRows = min(iv.Rows, 500_000)
		if gone := max(0, iv.Rows-before); gone > 0 {
			iv.Latency = map[string]result.Histogram{"insert": iv.Latency["insert"], "delete": spread(t, rng, 20, 9000, 0)}
			iv.Beside = map[string]result.Tally{"delete": {Rows: gone}}
		}
		iv.Counters["purge_lag_transactions"] = 900
	}
	for i := range rolling.Intervals {
		iv := &rolling.Intervals[i]
		if iv.Rows-dropped > 1_000_000 {
			dropped += 500_000
			iv.Events = append(iv.Events, result.Event{Elapsed: iv.Elapsed - 0.1, Seconds: 0.012, What: "drop partition", Object: "purchases p0"})
		}
		iv.HeldRows = iv.Rows - dropped
	}
	plain.End.SizeReached, rolling.End.SizeReached = &result.Size{PerRow: 110}, &result.Size{PerRow: 152}
	plain.End.DeletedRows, rolling.End.DroppedRows = 3_500_000, dropped
	return []result.Record{plain, rolling}
}

func TestConstantSizeGolden(t *testing.T) {
	recs := constant(t)
	goldens(t, "constant", recs, "txt", "md")
}

// Every report handles steps alone, of several benchmarks, beside other runs, and cut off.
func TestStepsAnywhere(t *testing.T) {
	all := steps(t)
	other := steps(t)
	for i := range other {
		other[i].Source = "other.jsonl"
	}
	cases := map[string][]result.Record{
		"two benchmarks": slices.Concat(all, other),
		"beside a run":   append([]result.Record{synthetic(t, plainCourse())}, all...),
		"before a run":   append(slices.Clone(all), synthetic(t, plainCourse())),
	}
	for i := range all {
		cut := slices.Clone(all[:i+1])
		cut[i].End = nil
		cases["cut off in "+all[i].Run.Step.Name] = cut
		empty := slices.Clone(cut)
		empty[i].Intervals = nil
		cases["nothing of "+all[i].Run.Step.Name] = empty
		cases[all[i].Run.Step.Name+" alone"] = all[i : i+1]
	}
	for name, recs := range cases {
		var text strings.Builder
		if err := errors.Join(oneline.WriteIbench(&text, recs), oneline.WriteProgress(&text, recs)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, format := range []string{"txt", "md", "json"} {
			text.WriteString(render(t, format, recs))
		}
		for _, bad := range []string{"NaN", "+Inf", "%!"} {
			if strings.Contains(text.String(), bad) {
				t.Errorf("%s: %s in it", name, bad)
			}
		}
		if page := render(t, "html", recs); strings.Contains(name, "benchmark") && strings.Count(page, "Operations by response time") < 2 {
			t.Errorf("%s: the page lacks a benchmark's tables", name)
		}
		if strings.HasPrefix(name, "two") || strings.HasPrefix(name, "nothing") { // pictures take long
			render(t, "png", recs)
		}
	}
}
