package report_test

import (
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// TestTablesReport compares the reports of stored runs of `bench tables`, and of one that was
// killed while it created tables.
func TestTablesReport(t *testing.T) {
	recs, err := result.ReadFile("testdata/records/tables.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	goldens(t, "tables", recs, "txt", "md")
	pngOf(t, document.PNGOptions{}, recs, 1200, 1035)
	recs[0].End = nil
	recs[0].Intervals = recs[0].Intervals[:2]
	text := render(t, "txt", recs)
	if !strings.Contains(text, "Creating partitions") || strings.Contains(text, "A later day") || strings.Contains(text, "NaN") {
		t.Error(text)
	}
	recs[0].Intervals = nil
	if text := render(t, "txt", recs); !strings.Contains(text, "incomplete") && !strings.Contains(text, "cut off") {
		t.Error(text)
	}
}
