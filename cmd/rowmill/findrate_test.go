package main

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/result"
)

// capacities parses the --json output of a command.
func capacities(t *testing.T, s session) []result.Capacity {
	t.Helper()
	var out report.Summaries
	if err := json.Unmarshal([]byte(s.stdout), &out); err != nil {
		t.Fatalf("stdout is no summary: %v\nexit %d, stdout: %s\nstderr: %s", err, s.code, s.stdout, s.stderr)
	}
	return out.Capacity
}

// findArgs returns the arguments of a search of a few seconds: short trials, and a
// limit that a busy machine meets at some rate.
func findArgs(target string, more ...string) []string {
	return append([]string{"bench", "insert", "--find-rate", "--target", target, "--p99", "100ms", "--trial", "200ms", "--interval", "20ms",
		"--rows", "5k", "--writers", "2", "--batch", "10", "--out", "run.jsonl", "--json"}, more...)
}

// TestFindRateKept checks that the table keeps the size at which a rate is asked for.
func TestFindRateKept(t *testing.T) {
	t.Chdir(t.TempDir())
	s := rowmill(t.Context(), findArgs("sqlite:?durability=none", "--rows", "10k", "--keep-rows", "10k", "--time", "2s")...)
	mustPass(t, s)
	found := capacities(t, s)[0]
	for _, trial := range found.Trials {
		// A batch of each writer may be on its way, and a hundredth is deleted later.
		for _, rows := range trial.TableRows {
			if rows < 10_000 || rows > 10_120 {
				t.Errorf("trial %d: %d rows in the table", trial.Number, rows)
			}
		}
	}
	if len(found.Trials) == 0 || found.Verified == nil || found.Verified.Found != found.Verified.Expected {
		t.Errorf("%+v", found)
	}
}

// TestFindRate checks on real databases that the search ends, each trial is recorded,
// and the whole table is proven.
func TestFindRate(t *testing.T) {
	t.Chdir(t.TempDir())
	most := "2s" // the nightly run has time to find the rate
	if testdb.Nightly() {
		most = "20s"
	}
	for _, kind := range testdb.OneKind(t, "sqlite", "mariadb", "postgres") {
		t.Run(kind, func(t *testing.T) {
			target := "sqlite:?durability=none"
			if kind != "sqlite" {
				target = testdb.Target(t, kind).String()
			}
			s := rowmill(t.Context(), findArgs(target, "--layout", "plain,rolling", "--period-rows", "20k", "--drop-existing",
				"--html", "run.html", "--md", "run.md", "--max-time", most)...)
			mustPass(t, s)
			found := capacities(t, s)
			if len(found) != 2 || found[0].Layout != "plain" || found[1].Layout != "rolling" {
				t.Fatalf("capacities: %+v", found)
			}
			for _, c := range found {
				checkCapacity(t, &c)
			}
			recs := records(t, "run.jsonl")
			if n := 2 + len(found[0].Trials) + len(found[1].Trials); len(recs) != n {
				t.Errorf("%d runs in the record, want %d", len(recs), n)
			}
			contains(t, verb(t, "report run.jsonl").stdout, "Capacity of plain", "Capacity of rolling")
		})
	}
	nothingLeft(t)
}

func checkCapacity(t *testing.T, c *result.Capacity) {
	t.Helper()
	if len(c.Trials) == 0 || c.P99LimitUS != 100000 || c.FilledRows != 5000 {
		t.Fatalf("%s: %+v", c.Layout, c)
	}
	rows := c.FilledRows
	for i, trial := range c.Trials {
		if trial.Number != i+1 || trial.Rate <= 0 || trial.Verdict == result.VerdictNone || trial.TableRows[0] < rows || trial.TableRows[1] < trial.TableRows[0] {
			t.Errorf("%s: trial %+v after %d rows", c.Layout, trial, rows)
		}
		rows = trial.TableRows[1]
	}
	proven(t, c.Layout, c.Verified, rows)
	switch c.State {
	case bench.SearchFound:
		if c.RowsPerSecond <= 0 || c.P99US > c.P99LimitUS || c.Above == nil || c.Above.Rate < 1.19*c.RowsPerSecond {
			t.Errorf("%s: found %+v", c.Layout, c)
		}
	case bench.SearchNone, bench.SearchGaveUp, "interrupted":
		t.Logf("%s: %s", c.Layout, c.State)
	default:
		t.Errorf("%s: state %q", c.Layout, c.State)
	}
}

// TestFindRateResume checks that a search that was interrupted, or killed while it
// wrote a line, continues with the existing trials and table.
func TestFindRateResume(t *testing.T) {
	for _, kind := range testdb.Kinds(t, "sqlite", "mariadb") {
		for _, killed := range []bool{false, true} {
			if killed != (kind == "sqlite") && !testdb.Nightly() {
				continue
			}
			layout := "plain"
			if killed == (kind == "sqlite") {
				layout = "rolling"
			}
			t.Run(kind+"/"+layout+map[bool]string{false: "/interrupted", true: "/killed"}[killed], func(t *testing.T) {
				t.Chdir(t.TempDir())
				target := "sqlite:here.db?durability=none"
				if kind != "sqlite" {
					target = testdb.Target(t, kind).String()
				}
				args := findArgs(target, "--layout", layout, "--max-time", "3s")
				if layout == "rolling" {
					args = append(args, "--period-rows", "3k")
				}
				wantFailure(t, interruptedAt(t, `(?s)trial 2: .*\n +0\.\ds .*\n +0\.\ds `, args...), exitInterrupted)
				before := records(t, "run.jsonl")
				if killed {
					cutLastRun(t, "run.jsonl", len(before))
				}
				forgetCommands(t, "run.jsonl")
				s := rowmill(t.Context(), "bench", "insert", "--resume", "run.jsonl", "--json")
				mustPass(t, s)
				found := capacities(t, s)
				if len(found) != 1 || len(found[0].Trials) < len(before)-1 {
					t.Fatalf("capacities: %+v", found)
				}
				if v := found[0].Verified; v == nil || v.Found != v.Expected || !v.Checksum {
					t.Errorf("verified %+v, warnings %q", v, found[0].Warnings)
				}
				if found[0].State != "interrupted" {
					wantFailure(t, verb(t, "bench insert --resume run.jsonl"), exitUsage, "search is complete")
				}
			})
		}
	}
}

// cutLastRun truncates the last run to its header, an interval and an incomplete line,
// as a kill does.
func cutLastRun(t *testing.T, path string, runs int) {
	t.Helper()
	text := readFile(t, path)
	var kept []byte
	headers, after := 0, 0
	for line := range bytes.Lines(text) {
		if bytes.HasPrefix(line, []byte(`{"type":"run"`)) {
			headers++
		}
		if headers == runs {
			after++
		}
		if after == 3 {
			kept = append(kept, line[:len(line)/2]...)
			break
		}
		kept = append(kept, line...)
	}
	writeFile(t, path, string(kept))
}

// TestFindRateLost checks that a search is not continued on a table that lost rows.
func TestFindRateLost(t *testing.T) {
	t.Chdir(t.TempDir())
	interruptedAt(t, `(?s)trial 1: .*\n +0\.\ds .*\n +0\.\ds `, findArgs("sqlite:here.db?durability=none")...)
	benched(t, "insert --target sqlite:here.db --rows 100 --drop-existing")
	wantFailure(t, verb(t, "bench insert --resume run.jsonl"), exitFailed, "the table held 100 rows", "Try: ")
}
