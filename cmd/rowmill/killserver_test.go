package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestKillServer checks that a server that is killed repeatedly has every row that it acknowledged,
// except for those that its settings allow it to lose. Outside the nightly run, it tests one target
// of each kind: one that may lose rows, and one that may not.
func TestKillServer(t *testing.T) {
	if apart(t) {
		return
	}
	most, every, rate := "3s", 800*time.Millisecond, " --rate 10k"
	if testdb.Nightly() {
		most, every, rate = "4s", 1500*time.Millisecond, ""
	}
	kinds, done := testdb.Kinds(t, "mariadb", "mysql", "postgres"), map[bool]bool{}
	for _, c := range []struct {
		name, target string
		full         bool // no row may be lost
		args         string
	}{
		{"mariadb", "sandbox:mariadb?memory=64MB&redo=64MB", true, "--layout plain --writers 3"},
		{"mariadb", "sandbox:mariadb?memory=64MB&redo=64MB&durability=relaxed", true, "--layout rolling --period-rows 1k --keep-periods 3 --writers 2"},
		{"mariadb", "sandbox:mariadb?memory=64MB&redo=64MB&durability=none", false, "--layout rolling --period-rows 20k --writers 2 --preset timeseries"},
		{"mariadb", "sandbox:mariadb?memory=64MB&redo=64MB&durability=none", false, "--preset sbtest --batch 50"},
		{"rocksdb", "sandbox:mariadb?memory=64MB&redo=64MB&engine=rocksdb", true, "--layout rolling --period-rows 20k --writers 2"},
		{"rocksdb", "sandbox:mariadb?memory=64MB&redo=64MB&engine=rocksdb&durability=relaxed", false, "--writers 2"},
		{"mysql", "sandbox:mysql?memory=64MB&redo=64MB", true, "--preset ibench --writers 2"},
		{"postgres", "sandbox:postgres?memory=64MB", true, "--layout rolling --period-rows 2k --keep-periods 3 --writers 2"},
		{"postgres", "sandbox:postgres?memory=64MB&durability=none", false, "--method load --writers 2"},
	} {
		if !testdb.Nightly() && (done[c.full] || c.full && c.name != kinds[0]) {
			continue
		}
		done[c.full] = true
		t.Run(c.target[len("sandbox:"):], func(t *testing.T) {
			t.Chdir(t.TempDir())
			args := []string{"--target", c.target, "--max-time", most, "--kill-server-every", every.String()}
			if !strings.Contains(c.args, "--batch") {
				args = append(args, "--batch", "100")
			}
			s := verb(t, "bench insert --interval 250ms --out run.jsonl --json "+c.args+rate, args...)
			if s.code != exitDone && strings.Contains(s.stderr, sandbox.ErrNotInstalled.Error()) {
				testdb.Require(t, c.name, errors.New(s.stderr))
			}
			mustPass(t, s)
			rec, sum := records(t, "run.jsonl")[0], summaries(t, s)[0]
			v := sum.Verified
			if v == nil || !v.Sound() || c.full && v.Lost != 0 || v.Expected == 0 || v.Expected+rec.End.DroppedRows < sum.Rows {
				t.Fatalf("verified %+v, %d rows, %d dropped", v, sum.Rows, rec.End.DroppedRows)
			}
			if v.Lost != rec.End.LostRows || (v.Lost > 0) != strings.Contains(strings.Join(sum.Warnings, "\n"), "acknowledged and lost") {
				t.Errorf("%d rows lost, %d in the end, warnings %q", v.Lost, rec.End.LostRows, sum.Warnings)
			}
			events := map[string]int{}
			for _, iv := range rec.Intervals {
				for _, e := range iv.Events {
					events[e.What]++
				}
				for name, value := range iv.Counters {
					if value < 0 && !strings.Contains(name, "age") {
						t.Errorf("at %.2f s %s is %v", iv.Elapsed, name, value)
					}
				}
			}
			if n := events["kill server"]; n == 0 || n != events["server back"] || n != rec.End.Kills || rec.Run.KillServerSeconds != every.Seconds() {
				t.Errorf("events %v, %d kills every %v s", events, rec.End.Kills, rec.Run.KillServerSeconds)
			}
			if sum.Server.CPUSeconds == nil || *sum.Server.CPUSeconds <= 0 {
				t.Errorf("server CPU %v", sum.Server.CPUSeconds)
			}
			contains(t, verb(t, "report run.jsonl").stdout, "the server was killed")
			nothingLeft(t)
		})
	}
}
