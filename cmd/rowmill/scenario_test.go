package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/report"
	"github.com/rowmill/rowmill/internal/report/reference"
	"github.com/rowmill/rowmill/result"
)

func TestScenarioList(t *testing.T) {
	golden(t, here(t), "scenario-list.txt", benched(t, "scenario --list").stdout)
}

// TestScenarioPrint checks that a printed scenario can be run as a file.
func TestScenarioPrint(t *testing.T) {
	t.Chdir(t.TempDir())
	s := benched(t, "scenario daily-2009 --print")
	writeFile(t, "mine.toml", s.stdout)
	if again := benched(t, "scenario mine.toml --print"); again.stdout != s.stdout {
		t.Error("a file prints otherwise than what it was printed from")
	}
	writeFile(t, "mine.toml", strings.Replace(s.stdout, `"daily"`, `"dayly"`, 1))
	wantFailure(t, verb(t, "bench scenario mine.toml"), exitUsage, "mine.toml:28:3: run plain-1", `unknown preset "dayly"`)
}

// scenarioOf parses the --json output.
func scenarioOf(t *testing.T, s session) reference.Result {
	t.Helper()
	mustPass(t, s)
	var out report.Summaries
	must(t, json.Unmarshal([]byte(s.stdout), &out))
	if len(out.Scenarios) != 1 {
		t.Fatalf("%d scenarios in %s", len(out.Scenarios), s.stdout)
	}
	for _, r := range out.Runs {
		if r.Verified == nil || !r.Verified.Sound() {
			t.Errorf("%s: verified %+v", r.Name, r.Verified)
		}
	}
	return out.Scenarios[0]
}

// TestScenarios runs each built-in scenario at a small scale, and checks that every
// figure to which it refers exists. The values are meaningless at this size.
func TestScenarios(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		name, target, scale string
		runs                int
	}{
		{"ec2-2012", "sqlite:?durability=none", "0.01", 2},
		{"time-partitions-2012", mariadb(t), "0.03", 2},
		{"daily-2009", "sqlite:?durability=none", "0.0125", 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := verb(t, "bench scenario --interval 50ms --max-time 10m --out run.jsonl --html run.html --md run.md --png run.png --json", c.name, "--target", c.target, "--scale", c.scale)
			sc := scenarioOf(t, s)
			if sc.Name != c.name || len(sc.Missing) > 0 || len(sc.Beside) == 0 || len(sc.Checks) == 0 {
				t.Errorf("%+v", sc)
			}
			for _, b := range sc.Beside {
				// At this size, the largest batches are too few for tenths.
				if b.Ours == nil != (c.name == "daily-2009" && strings.HasPrefix(b.Run, "plain-") && b.Run != "plain-1") {
					t.Errorf("%+v", b)
				}
			}
			for _, v := range sc.Checks {
				if c.name != "daily-2009" && (v.Ours == nil || v.Verdict == reference.NotMeasured) {
					t.Errorf("%+v", v)
				}
			}
			recs := records(t, "run.jsonl")
			if len(recs) != c.runs {
				t.Fatalf("%d runs, want %d", len(recs), c.runs)
			}
			for _, r := range recs {
				x := r.Run.Scenario
				if x == nil || x.Run == "" || x.Declaration == "" || r.Run.Layout == "rolling" && r.Run.PeriodRows == 0 {
					t.Errorf("%+v", r.Run)
				}
				if share := float64(r.Run.CacheBytes) / float64(max(x.FinalBytes, 1)); strings.HasPrefix(c.target, "sqlite") && (share < x.MemoryShare*0.9 || share > x.MemoryShare*1.1) {
					t.Errorf("%s: a cache of %d bytes is %.3f of %d, want %v", x.Run, r.Run.CacheBytes, share, x.FinalBytes, x.MemoryShare)
				}
			}
			filesWritten(t)
			contains(t, string(readFile(t, "run.html")), "Beside the published figures")
			contains(t, string(readFile(t, "run.md")), "published to the first")
			contains(t, verb(t, "report run.jsonl").stdout, "Beside the published figures", "checks of its shape agree")
		})
	}
}

// TestManyTablesChecks: each check of many-tables-2012 agrees with what MariaDB 10.11 costs, and
// differs when its figure is another.
func TestManyTablesChecks(t *testing.T) {
	d, err := experiment.LoadScenario(t.Context(), "many-tables-2012")
	must(t, err)
	for name, c := range map[string]struct {
		amiss string // a part of the claim that differs
		spoil func(files, one *result.TablesCost)
	}{
		"as measured":         {"", func(_, _ *result.TablesCost) {}},
		"one tablespace":      {"one tablespace takes less disk", func(_, one *result.TablesCost) { one.DiskBytes = 3 << 30 }},
		"slower at the end":   {"created about as fast", func(files, _ *result.TablesCost) { files.CreateSeconds = 0.01 }},
		"memory without use":  {"less than 10 kB of memory", func(files, _ *result.TablesCost) { files.PSSBytes = 400 << 20 }},
		"nothing of one file": {"", func(_, one *result.TablesCost) { one.Phase = "" }},
	} {
		first := result.TablesCost{Phase: result.TablesCreated, Objects: 1000, PSSBytes: 90 << 20, DiskBytes: 200 << 20, CreateSeconds: 0.002}
		files, one := first, first
		for c, disk := range map[*result.TablesCost]int64{&files: 2100 << 20, &one: 1700 << 20} {
			c.Objects, c.DiskBytes, c.PSSBytes, c.CreateSeconds = 20_000, disk, 95<<20, 0.003
		}
		c.spoil(&files, &one)
		var recs []result.Record
		for run, last := range map[string]result.TablesCost{"files": files, "one": one} {
			recs = append(recs, result.Record{Run: result.Run{Retention: result.Retention{Scenario: d.Record(run, 1, 0)}}, Intervals: []result.Interval{{Costs: []result.TablesCost{first, last}}}, End: &result.End{Stopped: "rows"}})
		}
		sc := reference.Results(recs)[0]
		if len(sc.Checks) != 3 || len(sc.Beside) != 2 {
			t.Fatalf("%+v", sc)
		}
		for _, v := range sc.Checks {
			want := reference.Agrees
			switch {
			case c.amiss != "" && strings.Contains(v.Claim, c.amiss):
				want = reference.Differs
			case name == "nothing of one file" && strings.HasPrefix(v.Claim, "one "):
				want = reference.NotMeasured
			}
			if v.Verdict != want {
				t.Errorf("%s: %s: %s, want %s: %s", name, v.Claim, v.Verdict, want, v.Why)
			}
		}
	}
}

// mine is a scenario of two runs, the first of which takes some seconds.
const mine = `name   = "mine"
title  = "two runs"
rows   = 20_000
target = "sqlite:"
durability = "none"
memory = { share = 0.5, of = "slow" }

[defaults]
preset  = "timeseries"
batch   = 100

[[run]]
name = "fast"

[[run]]
name = "slow"
rate = 10_000

[[check]]
claim  = "as fast as it may"
figure = "slow.mean"
above  = 100
`

// TestScenarioResume checks that an interrupted scenario continues with the missing runs.
func TestScenarioResume(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	writeFile(t, "mine.toml", mine)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	go func() { // once the second run has begun
		for ctx.Err() == nil {
			if recs, err := result.ReadFile("run.jsonl"); err == nil && len(recs) == 2 && len(recs[1].Intervals) > 0 {
				interrupt()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	s := rowmill(ctx, strings.Fields("bench scenario mine.toml --interval 50ms --out run.jsonl --seed 7")...)
	wantFailure(t, s, exitInterrupted)
	contains(t, s.stdout, "slow didn't come to its end")
	must(t, os.Remove("mine.toml")) // the record contains it
	cutOff(t, "run.jsonl")
	forgetCommands(t, "run.jsonl")
	wantFailure(t, verb(t, "bench scenario --resume run.jsonl --scale 2"), exitUsage, "--scale can't be given with --resume")
	sc := scenarioOf(t, verb(t, "bench scenario --resume run.jsonl --json"))
	if len(sc.Missing) > 0 || sc.Checks[0].Verdict != reference.Agrees {
		t.Errorf("%+v", sc)
	}
	recs := records(t, "run.jsonl")
	if len(recs) != 3 || recs[2].Run.Seed != 7 || recs[2].Run.Scenario.Run != "slow" || recs[2].Run.IntervalSeconds != 0.05 || recs[2].Run.CacheBytes != recs[1].Run.CacheBytes {
		t.Fatalf("%d records: %+v", len(recs), recs[len(recs)-1].Run)
	}
	if runs := summaries(t, verb(t, "report run.jsonl --json")); len(runs) != 2 || runs[1].Rows != 20000 {
		t.Errorf("the run that was interrupted is reported beside the one made for it: %+v", runs)
	}
	benched(t, "scenario --resume run.jsonl") // nothing is left to do
	if n := len(records(t, "run.jsonl")); n != 3 {
		t.Errorf("%d records after nothing was left to do", n)
	}
}

// TestScenarioMemoryFloor checks that a memory size below a server's minimum is
// refused, not changed.
func TestScenarioMemoryFloor(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFile(t, "mine.toml", strings.Replace(mine, "share = 0.5", "share = 0.01", 1))
	wantFailure(t, verb(t, "bench scenario mine.toml"), exitUsage, "takes at least 64 KiB", "Try: --scale")
	// A target that specifies its memory keeps it.
	contains(t, benched(t, "scenario mine.toml --target sqlite:?cache=1MB --scale 0.2").stdout, "memory is the target's, 1 MiB")
}
