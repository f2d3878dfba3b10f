package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/sizing"
)

// TestPlanPrices prices a declared table by a record of it, and a record alone.
func TestPlanPrices(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	record, page := filepath.Join(dir, "run.jsonl"), filepath.Join(dir, "prices.html")
	file, _ := planTable(t, "sqlite", "CREATE TABLE readings (sensor BIGINT NOT NULL, ts TEXT NOT NULL, value NUMERIC(12,2), PRIMARY KEY (sensor, ts))", planPeriod)
	mustPass(t, rowmill(t.Context(), "bench", "insert", "--layout", "plain,rolling", "--rows", "5000", "--interval", "10s", "--out", record))
	prices := filepath.Join(here(t), "../../docs/prices/network-2017.toml")
	for name, args := range map[string][]string{"record": {}, "declaration": {file, "--rate", "500/s", "--memory", "64MB", "--sample-rows", "2000", "--html", page, "--servers", "3"}} {
		args = append([]string{"plan", "--prices", prices, "--record", record}, args...)
		s := rowmill(t.Context(), args...)
		if s.code != exitDone || !strings.Contains(s.stdout, "Choices that nothing else beats") || !strings.Contains(s.stdout, "reached in 99 of 100 intervals") {
			t.Fatalf("%s: exit %d: %s%s", name, s.code, s.stdout, s.stderr)
		}
		var o sizing.Offers
		must(t, json.Unmarshal([]byte(rowmill(t.Context(), append(args, "--json")...).stdout), &o))
		if len(o.All) == 0 || !o.All[0].Best || o.Fastest < 0 || name == "declaration" && math.IsNaN(o.Share()) || o.All[0].Month < 490.56 {
			t.Errorf("%s: %+v", name, o)
		}
	}
	if html, err := os.ReadFile(page); err != nil || !strings.Contains(string(html), "<svg") || !strings.Contains(string(html), "3 x r4.4xlarge") && !strings.Contains(string(html), "3 servers") {
		t.Errorf("the page: %v, %.200s", err, html)
	}
	broken := filepath.Join(dir, "broken.toml")
	writeFile(t, broken, "date = \"2026-11-30\"\ncurrency = \"$\"\n[[machine]]\nname = \"m\"\ncpus = 2\nmemory_gb = 8\n")
	for args, want := range map[string]string{
		"--prices " + broken + " --record " + record: `machine "m" has no price`,
		"--prices " + broken:                         "a --record of bench insert",
		"--servers 2 " + file:                        "--html and --servers are for --prices",
		"":                                           "rowmill plan needs FILE.toml",
		"--prices nowhere.toml --record " + record:                           "nowhere.toml",
		file + " --row-bytes 100 --memory 1GB --rate 5/s --prices " + prices: "no rate is known that could be promised",
	} {
		if s := rowmill(t.Context(), append([]string{"plan"}, strings.Fields(args)...)...); s.code == exitDone || !strings.Contains(s.stderr, want) {
			t.Errorf("%s: exit %d: %s", args, s.code, s.stderr)
		}
	}
}
