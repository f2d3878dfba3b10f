package report_test

import (
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report/document"
	"github.com/rowmill/rowmill/result"
)

// storedTPCC is a stored record of the scenario dbt2-cluster-2009: one server, and the warehouses
// divided among two to four.
func storedTPCC(t *testing.T) []result.Record {
	t.Helper()
	recs, err := result.ReadFile("testdata/records/tpcc.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return recs
}

func TestTPCCReport(t *testing.T) {
	goldens(t, "tpcc", storedTPCC(t), "txt", "md")
	pngOf(t, document.PNGOptions{}, storedTPCC(t), 1200, 675)
	for name, c := range map[string]struct {
		recs       func() []result.Record
		want, lack string
	}{
		"one": {func() []result.Record { return storedTPCC(t)[:1] }, "0 contradict it", "perfect scaling"},
		"cut off": {func() []result.Record {
			recs := storedTPCC(t)[:2]
			recs[1].End, recs[1].Intervals = nil, nil
			return recs
		}, "not examined", "NaN"},
		"a condition that doesn't hold": {func() []result.Record {
			recs := storedTPCC(t)
			c := &recs[2].End.Conditions[3]
			c.Holds, c.Found = false, "7 contradict it"
			return recs
		}, "HOLD: 7 contradict it", ""},
		"terminals": {func() []result.Record {
			recs := storedTPCC(t)[:1]
			more := storedTPCC(t)[0]
			more.Run.TPCC.Terminals, more.Run.Scenario = 24, nil
			recs[0].Run.Scenario = nil
			return append(recs, more)
		}, "MariaDB, 24 terminals: ", "perfect scaling"},
	} {
		text := render(t, "txt", c.recs())
		if !strings.Contains(text, c.want) || c.lack != "" && strings.Contains(text, c.lack) {
			t.Errorf("%s: want %q and not %q: %s", name, c.want, c.lack, text)
		}
	}
}
