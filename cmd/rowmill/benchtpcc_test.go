package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/report/reference"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/result"
)

// tpccSummary runs `bench tpcc` on a hundredth of two warehouses.
func tpccSummary(t *testing.T, args string) result.Summary {
	t.Helper()
	s := benched(t, "tpcc --warehouses 2 --terminals 2 --scale 0.01 --json --out tpcc.jsonl "+args)
	var got report.Summaries
	must(t, json.Unmarshal([]byte(s.stdout), &got))
	if len(got.Runs) != 1 || got.Runs[0].TPCC == nil || got.Runs[0].TPCC.Note != result.NotAudited {
		t.Fatalf("%s", s.stdout)
	}
	return got.Runs[0]
}

// TestBenchTPCC measures for a moment: the record has the rate, the transactions and the proof, and
// its report says what it is not.
func TestBenchTPCC(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	s := tpccSummary(t, "--target sqlite: --time 1s --warmup 200ms --html tpcc.html --png tpcc.png --md tpcc.md")
	if s.Rows == 0 || s.TPCC.NewOrdersPerMinute < 1 || len(s.LatencyUS) != 5 || len(s.Beside) != 4 || len(s.TPCC.Conditions) < 20 || s.Verified == nil || !s.Verified.Sound() {
		t.Errorf("%+v, %+v", s, s.TPCC)
	}
	// What the warm-up did is proven with the rest, and isn't in the figures.
	if r := records(t, "tpcc.jsonl")[0]; r.Run.WarmupSeconds != 0.2 || s.Rows >= s.Verified.Expected || r.Intervals[0].Rows != r.Intervals[0].NewRows {
		t.Errorf("%d rows of %d with the warm-up; first interval %d, %d", s.Rows, s.Verified.Expected, r.Intervals[0].Rows, r.Intervals[0].NewRows)
	}
	if !strings.Contains(strings.Join(s.Warnings, "\n"), "no keying time: ") {
		t.Errorf("warnings %q", s.Warnings)
	}
	for _, file := range []string{"tpcc.html", "tpcc.md"} {
		page, err := os.ReadFile(file)
		must(t, err)
		if text := string(page); !strings.Contains(text, result.NotAudited) || strings.Contains(strings.ToLower(text), "tpmc") {
			t.Errorf("%s: %s", file, text)
		}
	}
	shown := verb(t, "report tpcc.jsonl")
	for _, want := range []string{"new orders/min; all ", "Response times by transaction", "stock-level", "1: W_YTD = sum(D_YTD)", "0 contradict it"} {
		if shown.code != exitDone || !strings.Contains(shown.stdout, want) {
			t.Errorf("exit %d: no %q in %s%s", shown.code, want, shown.stdout, shown.stderr)
		}
	}
}

// TestBenchTPCCKeying checks that users who type and think make few new orders.
func TestBenchTPCCKeying(t *testing.T) {
	t.Chdir(t.TempDir())
	if s := tpccSummary(t, "--target sqlite:?durability=none --scale 0.005 --time 500ms --keying"); s.Rows != 0 || !s.TPCC.Keying {
		t.Errorf("%+v, %+v", s, s.TPCC)
	}
	wantFailure(t, verb(t, "bench tpcc --target null: --time 200ms"), exitUsage, "transactions need their rows")
}

// TestBenchTPCCKills kills private servers: no acknowledged transaction is lost.
func TestBenchTPCCKills(t *testing.T) {
	if apart(t) {
		return
	}
	testdb.SkipUnlessNightly(t, "workload.TestTPCCDoubt")
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql", "postgres") {
		t.Run(kind, func(t *testing.T) {
			t.Chdir(t.TempDir())
			s := tpccSummary(t, "--target sandbox:"+kind+" --time 20s --deep --kill-server-every 4s")
			end := records(t, "tpcc.jsonl")[0].End
			if end.Kills < 2 || end.Causes["lost connection"] == 0 || !s.Verified.Sound() || s.Failure != "" {
				t.Errorf("%+v, %+v", end, s)
			}
		})
	}
	s := verb(t, "bench tpcc --target sandbox:mariadb?durability=none --kill-server-every 2s")
	if s.code == exitDone || !strings.Contains(s.stderr, "may lose the transactions") {
		t.Errorf("exit %d: %s", s.code, s.stderr)
	}
}

// TestBenchTPCCNodes runs it on several servers: each transaction is on all nodes of a cluster,
// also while they are killed in turn, and the share that crosses Spider's nodes is as the
// definition says.
func TestBenchTPCCNodes(t *testing.T) {
	if apart(t) {
		return
	}
	testdb.SkipUnlessNightly(t, "TestBenchTPCC")
	t.Chdir(t.TempDir())
	s := tpccSummary(t, "--target sandbox:mariadb?galera=3&memory=192MB --time 60s --deep --kill-server-every 15s")
	end := records(t, "tpcc.jsonl")[0].End
	if s.TPCC.Nodes != 3 || end.Kills < 2 || !s.Verified.Sound() || s.Failure != "" {
		t.Errorf("%+v, %+v", end, s)
	}
	must(t, os.Remove("tpcc.jsonl"))
	s = tpccSummary(t, "--target sandbox:mariadb?spider=2&memory=64MB --time 10s --deep")
	if c := s.TPCC.Crossing; c == nil || c.Expected <= 0 || !s.TPCC.Sharded || !s.Verified.Sound() || s.Failure != "" {
		t.Errorf("%+v, %+v", c, s)
	}
	contains(t, verb(t, "report tpcc.jsonl").stdout, "on 2 nodes", "cross nodes: expected", " transactions cross nodes, expected")
	if s := verb(t, "bench tpcc --target sandbox:mariadb?spider=2 --kill-server-every 2s"); s.code == exitDone || !strings.Contains(s.stderr, "a transaction on several nodes") {
		t.Errorf("exit %d: %s", s.code, s.stderr)
	}
}

// TestTPCCScenario runs the transactions by a declaration, with figures that were published
// elsewhere.
func TestTPCCScenario(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, os.WriteFile("mine.toml", []byte(`name = "mine"
title = "two runs"
target = "sqlite:"
[tpcc]
terminals = 2
time = "300ms"
[[run]]
name = "full"
[[run]]
name = "relaxed"
option = "durability=relaxed"
[[published]]
run = "full"
figure = "tpcc-orders"
value = 1000
source = "a test"
[[check]]
claim = "a new order takes no hour"
figure = "relaxed.tpcc-response"
below = 3_600_000
`), 0o600))
	sc := scenarioOf(t, benched(t, "scenario mine.toml --scale 0.005 --json --out run.jsonl"))
	if len(sc.Missing) > 0 || len(sc.Beside) != 1 || sc.Beside[0].Ours == nil || sc.Checks[0].Verdict != reference.Agrees {
		t.Errorf("%+v", sc)
	}
	if recs := records(t, "run.jsonl"); len(recs) != 2 || recs[1].Run.Durability != "relaxed" || recs[0].Run.TPCC.Scale != 0.005 {
		t.Errorf("%+v", recs)
	}
	contains(t, verb(t, "report run.jsonl").stdout, "full: ", "new orders/min; all ", "mine, at scale 0.005: 1 of 1 check")
	for args, want := range map[string]string{"--scale 2": "scale 2: want 0.005 to 1", "--scale 0.005 --time 0": "time 0s: want more than 0", "--scale 0.005 --target null:": "run full: null stores nothing"} {
		if s := verb(t, "bench scenario mine.toml "+args); s.code == exitDone || !strings.Contains(s.stderr, want) {
			t.Errorf("%s: exit %d: %s", args, s.code, s.stderr)
		}
	}
}

// TestTPCCScenarioNodes runs the built-in one: new orders by nodes, with the share of transactions
// that cross them.
func TestTPCCScenarioNodes(t *testing.T) {
	testdb.SkipUnlessNightly(t, "TestTPCCScenario")
	t.Chdir(t.TempDir())
	sc := scenarioOf(t, benched(t, "scenario dbt2-cluster-2009 --scale 0.005 --time 5s --target sandbox:mariadb?memory=64MB --json --out run.jsonl"))
	if len(sc.Missing) > 0 || len(sc.Beside) != 3 || sc.Checks[4].Verdict == reference.NotMeasured {
		t.Errorf("%+v", sc)
	}
	contains(t, verb(t, "report run.jsonl").stdout, "on 1, 2, 3, 4 nodes", "of perfect scaling", "cross nodes: expected")
}
