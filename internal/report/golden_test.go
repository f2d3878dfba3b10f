package report_test

import (
	"bytes"
	"flag"
	"fmt"
	"image"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, write func(io.Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (write it with -update)", err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s differs (-want +got; -update writes it anew):\n%s", path, diff)
	}
}

// formats are the renderers of a report.
var formats = map[string]func(*document.Document, io.Writer) error{
	"txt": (*document.Document).Text, "md": (*document.Document).Markdown, "json": (*document.Document).JSON, "html": (*document.Document).HTML,
	"png": func(d *document.Document, w io.Writer) error { return d.PNG(w, document.PNGOptions{}) },
}

func render(t testing.TB, format string, recs []result.Record) string {
	t.Helper()
	return rendered(t, formats[format], recs)
}

func rendered(t testing.TB, write func(*document.Document, io.Writer) error, recs []result.Record) string {
	t.Helper()
	d, err := report.New(recs)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := write(d, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func picture(opts document.PNGOptions) func(*document.Document, io.Writer) error {
	return func(d *document.Document, w io.Writer) error { return d.PNG(w, opts) }
}

// pngOf decodes the picture of runs, and checks its size.
func pngOf(t testing.TB, opts document.PNGOptions, recs []result.Record, width, height int) image.Image {
	t.Helper()
	img, err := png.Decode(strings.NewReader(rendered(t, picture(opts), recs)))
	if err != nil {
		t.Fatal(err)
	}
	if b := img.Bounds(); b.Dx() != width || b.Dy() != height {
		t.Errorf("a picture of %v, want %d x %d", b, width, height)
	}
	return img
}

func compared(t testing.TB, a, b []result.Record) *report.Comparison {
	t.Helper()
	c, err := report.Compare(a, b)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// goldens compares the reports of runs, of the given kinds, with files of testdata.
func goldens(t *testing.T, name string, recs []result.Record, kinds ...string) {
	t.Helper()
	d, err := report.New(recs)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		golden(t, name+"."+kind, func(w io.Writer) error {
			if kind == "json" {
				return report.JSON(w, recs)
			}
			return formats[kind](d, w)
		})
	}
}

// goldenRecords returns the records of the golden files, by file name.
func goldenRecords(t *testing.T) map[string][]result.Record {
	t.Helper()
	short := course{name: "classic plain on mariadb", layout: "plain", rows: 4e6, rate: falling, stop: 30, seed: 9}
	lost := synthetic(t, course{name: "classic plain on mariadb", layout: "plain", rows: 1e6, rate: flat, seed: 5})
	lost.End.Verified = &result.Verified{Expected: 1e6, Found: 999_000}
	bound := synthetic(t, course{name: "ceiling", layout: "plain", rows: 1e6, rate: flat, seed: 6})
	for i := range bound.Intervals {
		bound.Intervals[i].BusySeconds, bound.Intervals[i].WaitSeconds = 0.9, 0.1
	}
	empty := synthetic(t, short)
	empty.Intervals, empty.End = nil, nil
	var repeated []result.Record
	for i, c := range []course{plainCourse(), rollingCourse(), rollingCourse(), plainCourse(), plainCourse(), rollingCourse()} {
		c.seed = uint64(20 + i)
		r := synthetic(t, c)
		r.Run.Repeat = 1 + i/2
		r.Run.Name = fmt.Sprintf("%s #%d", r.Run.Name, r.Run.Repeat)
		repeated = append(repeated, r)
	}
	return map[string][]result.Record{
		"repeated":   repeated,
		"pair":       {synthetic(t, plainCourse()), synthetic(t, rollingCourse())},
		"overloaded": {synthetic(t, openLoop())},
		"failed":     {failed(synthetic(t, short))},
		"cut_off":    {cutOff(synthetic(t, short))},
		"lost_rows":  {lost},
		"bound":      {bound},
		"empty":      {empty},
	}
}

func TestGoldens(t *testing.T) {
	for name, recs := range goldenRecords(t) {
		t.Run(name, func(t *testing.T) {
			goldens(t, name, recs, "txt", "md", "json")
		})
	}
}

func TestCompareGolden(t *testing.T) {
	before := []result.Record{synthetic(t, plainCourse()), synthetic(t, rollingCourse())}
	slower := rollingCourse()
	slower.rate = func(rows float64) float64 { return 0.8 * flat(rows) }
	slower.rows, slower.seed = 3e6, 11
	after := []result.Record{synthetic(t, slower)}
	before[0].Source, before[1].Source, after[0].Source = "before.jsonl", "before.jsonl", "after.jsonl"
	r := &after[0].Run
	r.Durability, r.Settings["innodb_flush_log_at_trx_commit"] = "relaxed", "2"
	r.ServerVersion, r.Machine.Cores, r.Machine.CPU = "10.11.20", 4, "EPYC 9R14"
	r.Schema = []string{"CREATE TABLE purchases (\n  transactionid BIGINT NOT NULL AUTO_INCREMENT,\n  PRIMARY KEY (transactionid)\n)"}
	after[0].End.Verified = nil
	c := compared(t, before, after)
	golden(t, "compare.txt", c.Document().Text)
	golden(t, "compare.json", c.Document().JSON)
}
