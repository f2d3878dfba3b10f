package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// TestRunDirectory: the tables of a directory are kept whatever is wrong with some of them, of which each is reported once with its cause;
// files come, change and go without a restart.
func TestRunDirectory(t *testing.T) {
	testdb.OnKinds(t, keepers, func(t *testing.T, kind string) {
		target := testdb.Target(t, kind).String()
		dir := manyDeclared(t, target, 8)
		db := openKeeper(t, target)
		path := func(i int) string { return filepath.Join(dir, fmt.Sprintf("t%04d.toml", i)) }
		good := manyText(target, 1)
		writeFile(t, path(0), "[table\nname =")
		writeFile(t, path(3), strings.Replace(good, "every = ", "evry = ", 1))
		writeFile(t, path(90), manyText(target, 90)) // never applied
		writeFile(t, path(91), manyText("mariadb://nobody@127.0.0.1:1/none", 91))
		writeFile(t, path(92), manyText("sqlite:/no/such/directory/file.db", 92))
		writeFile(t, path(93), manyText("oracle://x", 93))
		writeFile(t, path(94), strings.Replace(good, target, "", 1))
		writeFile(t, filepath.Join(dir, "twice.toml"), good)
		writeFile(t, path(4), strings.Replace(manyText(target, 4), `keep = "30d"`, `keep = "40d"`, 1)) // not applied
		drop := "DROP TABLE t0005"
		if db.Capabilities().PeriodTables {
			drop = "DROP VIEW t0005"
		}
		execSQL(t, db, drop)
		must(t, os.Mkdir(path(95), 0o755))
		writeFile(t, filepath.Join(dir, ".#t0001.toml"), "an editor's")

		addr := freePort(t)
		r := startMany(t, dir, "--interval", "300ms", "--listen", addr)
		kept := []string{"t0001", "t0002", "t0004", "t0006", "t0007"}
		for _, name := range kept {
			r.waits(1, " keeps "+name+" on", time.Minute)
		}
		causes := map[string]string{"t0000.toml": "not kept", "t0003.toml": "evry", "t0090": "has not been applied", "t0091": "no answer from", "t0092": "no such", "t0093.toml": "unknown scheme",
			"t0094.toml": "target", "twice.toml is not kept": "is that of", "t0004 is kept as it was applied": "keep", "t0005": "no longer exists"}
		for what, cause := range causes {
			r.waits(1, what, time.Minute)
			if lines := linesWith(r.says(), what); len(lines) == 0 || !strings.Contains(strings.Join(lines, "\n"), cause) {
				t.Errorf("%s: %q lacks %q", what, lines, cause)
			}
		}
		time.Sleep(2 * time.Second) // for further reports, of which there are to be none
		for what := range causes {
			if lines := linesWith(r.says(), what+" is not kept"); len(lines) > 1 {
				t.Errorf("reported again: %q", lines)
			}
		}
		code, metrics, err := fetch("http://" + addr + "/metrics")
		if err != nil || code != http.StatusOK || !strings.Contains(metrics, `rowmill_broken{table="t0090"} 1`) || !strings.Contains(metrics, `rowmill_broken{table="t0001"} 0`) || !strings.Contains(metrics, `rowmill_headroom_seconds{table="t0007"} `) {
			t.Errorf("metrics: %d %v\n%s", code, err, linesWith(metrics, "rowmill_"))
		}
		if code, page, err := fetch("http://" + addr + "/"); err != nil || code != http.StatusOK || !strings.Contains(page, "has not been applied") || !strings.Contains(page, `href="table/t0007/"`) {
			t.Errorf("page: %d %v\n%s", code, err, page)
		}
		if code, page, err := fetch("http://" + addr + "/table/t0007/"); err != nil || code != http.StatusOK || !strings.Contains(page, "this process") {
			t.Errorf("page of a table: %d %v\n%s", code, err, page)
		}
		if code, _, _ := fetch("http://" + addr + "/healthz"); code != http.StatusServiceUnavailable {
			t.Errorf("health: %d", code)
		}

		wantDone(t, rowmill(t.Context(), "apply", path(90), "--yes")) // noticed without a change of the file
		r.waits(1, " keeps t0090 on", 90*time.Second)
		writeFile(t, path(0)+".new", manyText(target, 0))
		must(t, os.Rename(path(0)+".new", path(0)))
		r.waits(1, " keeps t0000 on", time.Minute)
		must(t, os.Remove(path(6)))
		r.waits(1, "no longer keeps t0006", time.Minute)
		alone := filepath.Join(t.TempDir(), "t0006.toml")
		writeFile(t, alone, manyText(target, 6))
		if s := rowmill(t.Context(), "run", alone, "--once"); s.code != exitDone || strings.Contains(s.stderr, "another process") {
			t.Errorf("its lock is not free: exit %d, %s", s.code, s.stderr)
		}
	})
}

func linesWith(text, what string) (out []string) {
	for line := range strings.Lines(text) {
		if strings.Contains(line, what) {
			out = append(out, line)
		}
	}
	return out
}

// TestPause: what is paused isn't done until it is resumed, and status says so.
func TestPause(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, kind string) {
		d := declare(t, kind, intsTable+"[period]\nevery = \"1h\"\nahead = \"3h\"\nkeep = \"1d\"\n[seal]\nafter = \"1h\"\n")
		start := time.Date(2026, 3, 20, 12, 10, 0, 0, time.UTC)
		d.tick(start)
		wantDone(t, d.run("apply", "--yes"))
		d.insert(start, 1)
		d.tick(start.Add(3 * time.Hour))
		status := func() (s maintain.Status) {
			t.Helper()
			must(t, json.Unmarshal([]byte(d.run("status", "--json").stdout), &s))
			return s
		}
		wantDone(t, rowmill(t.Context(), "pause", d.file, "--policy", "keep", "--for", "1h", "--reason", "an audit"))
		wantDone(t, d.run("run", "--once"))
		s := status()
		if len(s.Paused) != 1 || s.Paused[0].Policy != "keep" || s.Paused[0].Reason != "an audit" || s.Periods[0].State != "closing" {
			t.Errorf("paused %+v, period %+v", s.Paused, s.Periods[0])
		}
		jobsAgree(t, d)
		if text := d.run("status").stdout; !strings.Contains(text, "paused: keep until ") || !strings.Contains(text, ": an audit") {
			t.Errorf("status: %s", text)
		}
		if len(s.Periods) < 6 {
			t.Errorf("periods are not created while another policy is paused: %d", len(s.Periods))
		}
		wantDone(t, rowmill(t.Context(), "resume", d.file))
		wantDone(t, d.run("run", "--once"))
		if s = status(); len(s.Paused) != 0 || s.Periods[0].State != "sealed" {
			t.Errorf("resumed: paused %+v, period %+v", s.Paused, s.Periods[0])
		}
		jobsAgree(t, d)
		wantDone(t, rowmill(t.Context(), "pause", d.file, "--for", "1ms"))
		d.tick(start.Add(4 * time.Hour))
		wantDone(t, d.run("run", "--once"))
		if s = status(); len(s.Paused) != 0 || s.Periods[1].State != "sealed" {
			t.Errorf("a pause that has ended: %+v, period %+v", s.Paused, s.Periods[1])
		}
		jobsAgree(t, d)
		pauseKilled(t, d)
	})
	for args, want := range map[string]string{"pause x.toml": "--for 0s", "pause x.toml --for 1h --policy drop": "unknown policy", "pause x.toml --for 9000h": "at most a year", "resume x.toml --policy x": "unknown policy", "apply x.toml --pause -1s": "--pause -1s: want more", "apply x.toml --pause 1h --undo": "--pause does nothing else"} {
		if s := rowmill(t.Context(), strings.Fields(args)...); s.code != exitUsage || !strings.Contains(s.stderr, want) {
			t.Errorf("%s: exit %d, %s", args, s.code, s.stderr)
		}
	}
}

// pauseKilled kills pause and resume at times of their runs: a pause is set or it isn't, is ended or isn't, and others stay.
func pauseKilled(t *testing.T, d *keptTable) {
	t.Helper()
	wantDone(t, rowmill(t.Context(), "pause", d.file, "--policy", "create", "--for", "2h", "--reason", "stays"))
	now := func() string {
		var s maintain.Status
		must(t, json.Unmarshal([]byte(d.run("status", "--json").stdout), &s))
		text := ""
		for _, p := range s.Paused {
			text += p.Policy + " " + p.Reason + ";"
		}
		return text
	}
	n := 4
	if testdb.Nightly() {
		n = 50
	}
	var whole time.Duration // of a run that isn't killed
	killed := 0
	for i := range n {
		before, after := now(), "create stays;"
		args := []string{"resume", d.file, "--policy", "keep"}
		if i%2 == 0 {
			reason := fmt.Sprint("number ", i)
			args, after = []string{"pause", d.file, "--policy", "keep", "--for", "1h", "--reason", reason}, after+"keep "+reason+";"
		}
		c := killable(0, args...)
		began := time.Now()
		must(t, c.Start())
		if whole > 0 {
			time.Sleep(whole * time.Duration(i) / time.Duration(n))
			_ = c.Process.Kill()
		}
		err := c.Wait()
		if whole == 0 {
			whole = time.Since(began)
		}
		if err != nil {
			killed++
		}
		if is := now(); is != after && (err == nil || is != before) {
			t.Errorf("%v, ended by %v: %s, before it %s", args, err, is, before)
		}
	}
	if killed == 0 {
		t.Error("none was killed")
	}
}

// jobsAgree compares rowmill_jobs and rowmill_job_history with the status of a table.
func jobsAgree(t *testing.T, d *keptTable) {
	t.Helper()
	var s maintain.Status
	must(t, json.Unmarshal([]byte(d.run("status", "--json").stdout), &s))
	policyOf := func(action string) string {
		for _, p := range state.Policies {
			if slices.Contains(p.Actions, action) {
				return p.Name
			}
		}
		return action
	}
	us := func(column string) string {
		return "COALESCE(" + d.db.Words().Position(&engine.Table{}, column) + ", 0)"
	}
	type job struct {
		policy, state, task, last, result, reason string
		next, until                               int64
	}
	read := func(from string, columns ...string) (out []job) {
		t.Helper()
		must(t, engine.Each(t.Context(), d.db, d.db.SQL(), func(r *sql.Rows) error {
			var j job
			err := r.Scan(&j.policy, &j.state, &j.task, &j.last, &j.result, &j.reason, &j.next, &j.until)
			out = append(out, j)
			return err
		}, "SELECT "+strings.Join(columns, ", ")+" FROM "+from))
		return out
	}
	jobs := read("rowmill_jobs ORDER BY policy", "policy", "state", "next_task", "COALESCE(last_task, '')", "COALESCE(last_result, '')", "COALESCE(pause_reason, '')", us("next_start"), us("paused_until"))
	if len(jobs) != len(maintain.Lanes) {
		t.Errorf("jobs: %+v", jobs)
	}
	for _, got := range jobs {
		want := job{policy: got.policy, state: "scheduled"}
		if i := slices.IndexFunc(s.Next, func(n maintain.NextStatus) bool { return policyOf(n.Action) == got.policy }); i >= 0 {
			want.task, want.next = s.Next[i].Action+" "+s.Next[i].What, max(s.Next[i].At.UnixMicro(), got.next)
			if due := rolling.Instant(got.next).Format(time.DateTime); due <= s.Now { // status says now
				want.next = got.next
			}
		} else {
			want.task, want.next = got.task, got.next // status lists no more
		}
		if i := slices.IndexFunc(s.Actions, func(a maintain.ActionStatus) bool { return policyOf(a.Action) == got.policy }); i >= 0 {
			want.last, want.result = s.Actions[i].Action, map[bool]string{true: "ok", false: "failed"}[s.Actions[i].Error == ""]
		}
		for _, p := range s.Paused {
			if p.Policy == got.policy || p.Policy == state.PauseAll {
				want.state, want.reason, want.until = "paused", p.Reason, p.Until.UnixMicro()
			}
		}
		if got != want {
			t.Errorf("job %+v, status says %+v", got, want)
		}
	}
	history := read("rowmill_job_history", "policy", "result", "detail", "action", "by_whom", "error", us("ended"), us("started"))
	if len(history) < len(s.Actions) {
		t.Fatalf("%d actions in the history, status has %d", len(history), len(s.Actions))
	}
	for i, a := range s.Actions {
		got, end := history[i], a.At.UnixMicro()
		want := job{policyOf(a.Action), got.state, a.Detail, a.Action, a.By, a.Error, end, end - int64(math.Round(a.Seconds*1e6))}
		if got != want || (got.state == "ok") != (a.Error == "") {
			t.Errorf("history %+v, status says %+v", got, want)
		}
	}
}

// TestPauseAdoption: an adoption that is paused copies and swaps nothing until it is resumed.
func TestPauseAdoption(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, kind string) {
		d := declare(t, kind, intsTable+"[period]\nevery = \"1d\"\nahead = \"2d\"\n")
		execSQL(t, d.db, "CREATE TABLE readings (sensor INT NOT NULL, ts "+timeType(d.target)+" NOT NULL, value INT NOT NULL, PRIMARY KEY (sensor, ts))")
		d.insert(time.Now().UTC().Truncate(time.Second), 1)
		wantDone(t, rowmill(t.Context(), "apply", d.file, "--pause", "1h"))
		ended := make(chan session, 1)
		go func() { ended <- rowmill(t.Context(), "apply", d.file, "--yes") }()
		for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			if s := rowmill(t.Context(), "status", d.file); strings.Contains(s.stdout, "paused: adopt until") {
				break
			} else if time.Now().After(end) {
				t.Fatalf("status: %s%s", s.stdout, s.stderr)
			}
		}
		select {
		case s := <-ended:
			t.Fatalf("it has ended: %d %s", s.code, s.stderr)
		case <-time.After(2 * time.Second):
		}
		wantDone(t, rowmill(t.Context(), "resume", d.file, "--policy", "adopt"))
		s := <-ended
		wantDone(t, s)
		if !strings.Contains(s.stderr, "paused until ") {
			t.Errorf("the progress doesn't say why: %s", s.stderr)
		}
	})
}
