package report_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/result"
)

// searched returns a search on a server that sustains about 120,000 rows/s.
func searched(t *testing.T, layout string, trials []trialCourse, state string) []result.Record {
	t.Helper()
	name := "classic " + layout + " on mariadb"
	head := result.Search{LimitUS: 800000, TrialSeconds: 15, RampSeconds: 3}
	fill := synthetic(t, course{name: name, layout: layout, rows: 1e6, rate: flat, seed: 31})
	fill.Run.Search = &head
	fill.End.Verified = nil
	fill.End.Search = &result.Searched{State: "searching", Inserted: 1e6}
	recs := []result.Record{fill}
	rows, low, high := int64(1e6), 0.0, 0.0
	for i, c := range trials {
		r := synthetic(t, course{name: fmt.Sprintf("%s, trial %d", name, i+1), layout: layout, rows: 1e9, rate: flat, asked: c.rate, stop: 15, seed: uint64(40 + i)})
		s := head
		s.Trial, s.Purpose, s.TableRows = i+1, c.purpose, rows
		r.Run.Search = &s
		r.End.Verified, r.End.Size = nil, nil
		rows += r.Intervals[len(r.Intervals)-1].Rows
		if r.Trial().Pass {
			low = max(low, c.rate)
		} else if high == 0 || c.rate < high {
			high = c.rate
		}
		r.End.Search = &result.Searched{State: "searching", Low: low, High: high, Inserted: rows}
		if i == len(trials)-1 && state != "" {
			r.End.Search.State = state
			r.End.Verified = &result.Verified{Expected: rows, Found: rows, Checksum: true}
			r.End.Size = &result.Size{Data: rows * 58, Index: rows * 96, PerRow: 154}
		}
		recs = append(recs, r)
	}
	return recs
}

type trialCourse struct {
	rate    float64
	purpose string
}

var foundCourse = []trialCourse{{77e3, "bracket"}, {100e3, "bracket"}, {130e3, "bracket"}, {103e3, "halve"}, {103e3, "confirm"}, {123600, "above"}}

func searchRecords(t *testing.T) map[string][]result.Record {
	found := searched(t, "plain", foundCourse, "found")
	none := searched(t, "plain", []trialCourse{{150e3, "bracket"}, {140e3, "bracket"}}, "none")
	killed := searched(t, "plain", foundCourse[:4], "")
	killed[4] = cutOff(killed[4])
	return map[string][]result.Record{
		"search":         found,
		"search_layouts": append(found, searched(t, "rolling", foundCourse, "found")...),
		"search_none":    none,
		"search_killed":  killed,
		"search_filling": {killed[0]},
	}
}

func TestSearchGoldens(t *testing.T) {
	for name, recs := range searchRecords(t) {
		t.Run(name, func(t *testing.T) {
			goldens(t, name, recs, "txt", "md")
			page := render(t, "html", recs)
			if n, want := strings.Count(page, "<figcaption>Response time, p99, over the offered rate"), len(result.Searches(recs)); name != "search_filling" && n != want {
				t.Errorf("%d charts of trials, want %d", n, want)
			}
			if strings.Contains(page, "NaN") || strings.Contains(page, "Inf<") {
				t.Error("the page has a figure that is no number")
			}
		})
	}
}

// TestSearchJSON: the JSON contains the runs, and the capacities in addition.
func TestSearchJSON(t *testing.T) {
	recs := searched(t, "plain", foundCourse, "found")
	var out report.Summaries
	if err := json.Unmarshal([]byte(render(t, "json", recs)), &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Runs) != len(recs) || len(out.Capacity) != 1 {
		t.Fatalf("%d runs, %d capacities", len(out.Runs), len(out.Capacity))
	}
	c := out.Capacity[0]
	if c.State != "found" || c.RowsPerSecond != 103e3 || c.Above == nil || math.Abs(c.Above.Rate/c.RowsPerSecond-1.2) > 0.001 ||
		c.Rows != c.Trials[4].TableRows[1] || len(c.Trials) != 6 || c.Verified == nil {
		t.Errorf("capacity: %+v", c)
	}
	goldens(t, "search", recs, "json")
}
