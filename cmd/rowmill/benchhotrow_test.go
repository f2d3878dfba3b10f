package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestHotRowKilled: the counter, the rows and the acknowledged runs are equal after the source was
// killed, in nightly 20 times on each server, and with a replica.
func TestHotRowKilled(t *testing.T) {
	if apart(t) {
		return
	}
	args, least := "?memory=64MB&redo=64MB --ways append --kill-server-every 700ms --time 1500ms", 1
	if testdb.Nightly() {
		args, least = "?memory=64MB&redo=64MB&replicas=1 --ways plain,append --kill-server-every 800ms --time 20s", 20
	}
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql", "postgres") {
		t.Run(kind, func(t *testing.T) {
			testdb.Require(t, kind, sandbox.Installed(t.Context(), kind))
			t.Chdir(t.TempDir())
			kills := 0 // of the source
			for n := 0; kills < least && n < 10; n++ {
				file := fmt.Sprintf("hot%d.jsonl", n)
				mustPass(t, verb(t, "bench hotrow --clients 4 --out "+file+" --target sandbox:"+kind+args))
				for _, rec := range records(t, file) {
					for _, iv := range rec.Intervals {
						for _, e := range iv.Events {
							if e.What == "kill server" && !strings.Contains(e.Object, "replica") {
								kills++
							}
						}
					}
					if v := rec.End.Verified; v == nil || !v.Sound() || v.Expected == 0 || rec.End.Kills == 0 {
						t.Errorf("%s: %d kills, verified %+v", rec.Run.Name, rec.End.Kills, v)
					}
				}
			}
			if kills < least {
				t.Errorf("%d kills of the source", kills)
			}
			t.Logf("%d kills of the source", kills)
			nothingLeft(t)
		})
	}
}

func TestBenchHotRow(t *testing.T) {
	if apart(t) {
		return
	}
	for _, kind := range testdb.Kinds(t, keepers...) {
		t.Run(kind, func(t *testing.T) {
			url := "sqlite:"
			if kind != "sqlite" {
				url = testdb.Target(t, kind).String()
			}
			t.Chdir(t.TempDir())
			s := benched(t, "hotrow --target "+url+" --clients 2,4 --runs 100 --ways plain,one-trip --out hot.jsonl --json")
			var got report.Summaries
			must(t, json.Unmarshal([]byte(s.stdout), &got))
			if got.Grid == nil || len(got.Grid.Cells) != 16 || len(got.Runs) != 4 {
				t.Fatalf("%s", s.stdout)
			}
			for _, rec := range records(t, "hot.jsonl") {
				v := rec.End.Verified
				if v == nil || !v.Sound() || v.Expected != 100 || rec.Run.HotRow.Ceiling <= 0 || rec.Intervals[0].Latency["transaction"].Count == 0 {
					t.Errorf("%s: %+v, %+v", rec.Run.Name, v, rec.Run.HotRow)
				}
			}
			if s := verb(t, "report hot.jsonl"); s.code != exitDone || !strings.Contains(s.stdout, "of the ceiling of") {
				t.Errorf("exit %d, %s%s", s.code, s.stdout, s.stderr)
			}
			if kind == "sqlite" {
				s := interruptedAt(t, "read-count", "bench", "hotrow", "--target", url, "--clients", "2", "--time", "60s", "--interval", "100ms", "--out", "cut.jsonl")
				wantFailure(t, s, exitInterrupted, "interrupted")
				if end := records(t, "cut.jsonl")[0].End; end.Stopped != "interrupted" || end.Failure != "" || end.Verified != nil {
					t.Errorf("after an interrupt: %+v", end)
				}
				return
			}
			if s := verb(t, "bench hotrow --target "+url+" --runs 10 --clients 2"); s.code == exitDone || !strings.Contains(s.stderr, "table fan_of exists") {
				t.Errorf("existing tables: exit %d, %s", s.code, s.stderr)
			}
		})
	}
}
