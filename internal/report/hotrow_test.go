package report_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// TestHotRowReport compares the reports of stored runs of `bench hotrow` with a replica, and of one
// that was cut off.
func TestHotRowReport(t *testing.T) {
	recs, err := result.ReadFile("testdata/records/hotrow.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	goldens(t, "hotrow", recs, "txt", "md")
	pngOf(t, document.PNGOptions{}, recs, 1200, 875)
	// The time that the replica needed is in the unit of its size, in each form.
	for _, format := range []string{"txt", "md", "html"} {
		if text := render(t, format, recs); !strings.Contains(text, "replica behind") || !strings.Contains(text, "2.71 ms") || strings.Contains(text, "0.0027") {
			t.Errorf("%s: %s", format, text)
		}
	}
	// A setting that a way has in its target differs on purpose.
	plain := recs[1].Run.Target
	recs[1].Run.Settings = maps.Clone(recs[1].Run.Settings)
	recs[1].Run.Settings["innodb_io_capacity"] = "1"
	for set, flagged := range map[string]bool{"innodb_io_capacity=1": false, "innodb_page_size=8k": true} {
		recs[1].Run.Target = plain + "&set=" + set
		if text := render(t, "txt", recs); strings.Contains(text, "innodb_io_capacity differs") != flagged {
			t.Errorf("%s: flagged %v:\n%s", set, !flagged, text)
		}
	}
	recs[0].End, recs[0].Intervals = nil, recs[0].Intervals[:1]
	if text := render(t, "txt", recs); strings.Contains(text, "NaN") || !strings.Contains(text, "incomplete") && !strings.Contains(text, "cut off") {
		t.Error(text)
	}
}
