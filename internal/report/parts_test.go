package report_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/result"
)

func card(t *testing.T, page, label string) string {
	t.Helper()
	for _, c := range regexp.MustCompile(`(?s)<article class="card".*?</article>`).FindAllString(page, -1) {
		text := strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(c, " ")), " ")
		if strings.HasPrefix(text, label+" ") {
			return text
		}
	}
	t.Fatalf("no card of %s", label)
	return ""
}

// TestQuerySteps: the headline of a query step is its query rate, on its card and
// above all tables.
func TestQuerySteps(t *testing.T) {
	t.Parallel()
	recs := steps(t)
	page := render(t, "html", recs)
	if text := card(t, page, "qr100"); !strings.HasPrefix(text, "qr100 900 queries/s beside 100 rows/s inserted") {
		t.Errorf("card: %s", text)
	}
	if text := card(t, page, "l.i1"); !strings.Contains(text, "rows/s in the last tenth of the rows") {
		t.Errorf("card: %s", text)
	}
	for _, text := range []string{page, render(t, "txt", recs)} {
		if want := "Queries per second: 900 in qr100, 700 in qp1000."; !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
}

// TestPartsAreCheckedWithTheWhole: a step that others follow, and a trial, state
// when their rows are checked.
func TestPartsAreCheckedWithTheWhole(t *testing.T) {
	t.Parallel()
	recs := steps(t)
	page := render(t, "html", recs)
	if !strings.Contains(page, "with all steps, after the last") || !strings.Contains(page, "checksum equal") || strings.Contains(page, "not checked") {
		t.Error("the page doesn't say when the rows of a step are checked")
	}
	// Without the last step, the rows were not verified.
	if text := render(t, "txt", recs[:5]); !strings.Contains(text, "Not verified: the rows are checked after the last step, which is missing here.") {
		t.Errorf("text: %s", text)
	}
	c, err := report.NewComparison(recs[4:5], recs[4:5])
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range c.Pairs[0].Flags {
		if f.Kind == "verified" && f.A != "verified with all steps, after the last" {
			t.Errorf("%+v", f)
		}
	}
}

// TestCountedRows: rows that were counted but not compared are sound, and the report
// says that they were only counted.
func TestCountedRows(t *testing.T) {
	t.Parallel()
	rec := steadyRun(100e3, 5000)
	rec.End.Verified = &result.Verified{Expected: 12_000, Found: 12_000, Counted: true}
	text, page := render(t, "txt", []result.Record{rec}), render(t, "html", []result.Record{rec})
	if !strings.Contains(text, "yes: 12,000 rows counted of 12,000 expected, their values not compared") || strings.Contains(text, "!") {
		t.Errorf("text: %s", text)
	}
	if !strings.Contains(page, "12,000 rows counted of 12,000 expected") {
		t.Error("the page doesn't say that rows were counted")
	}
	rec.End.Verified.Found--
	if text := render(t, "txt", []result.Record{rec}); !strings.Contains(text, "FAILED: 11,999 rows counted of 12,000 expected") {
		t.Errorf("text: %s", text)
	}
}

// TestNotVerified: a run whose rows were not read states this once, with the reason.
func TestNotVerified(t *testing.T) {
	t.Parallel()
	rec := steadyRun(100e3, 5000)
	rec.End.Verified = nil
	if text := render(t, "txt", []result.Record{rec}); !strings.Contains(text, "! not verified: the rows in the table were not compared with those sent") {
		t.Errorf("text: %s", text)
	}
	rec.End.Warnings = []string{"not verified: --no-verify was given"}
	if text := render(t, "txt", []result.Record{rec}); strings.Count(text, "! not verified") != 1 || !strings.Contains(text, "! not verified: --no-verify was given") {
		t.Errorf("text: %s", text)
	}
}
