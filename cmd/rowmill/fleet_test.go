package main

import (
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// TestRunDirectory: the tables of a directory are kept whatever is wrong with some of them, of
// which each is reported once with its cause; files come, change and go without a restart.
func TestRunDirectory(t *testing.T) {
	n, groups, every := 8, 1, "1d"
	if testdb.Nightly() {
		n, groups, every = 300, 5, "1m"
	}
	testdb.OnKinds(t, keepers, func(t *testing.T, kind string) {
		target := testdb.Target(t, kind).String()
		dir := manyDeclared(t, func(int) string { return target }, every, n)
		db := openKeeper(t, target)
		path := func(i int) string { return filepath.Join(dir, fmt.Sprintf("t%04d.toml", i)) }
		text := func(i int) string { return manyText(target, every, i) }
		causes := map[string]string{}
		for g := range groups {
			maps.Copy(causes, breakTables(t, db, target, every, path, 10*g))
		}
		must(t, os.Mkdir(path(2000), 0o755))
		writeFile(t, filepath.Join(dir, ".#t0001.toml"), "an editor's")

		addr := freePort(t)
		r := startMany(t, dir, "--interval", "300ms", "--listen", addr)
		kept := []string{"t0001", "t0002", "t0004", "t0006", "t0007"}
		for _, name := range kept {
			r.waits(1, " keeps "+name+" on", time.Minute)
		}
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
		if testdb.Nightly() {
			inTime(t, addr, n-4*groups)
		}
		code, metrics, err := fetch("http://" + addr + "/metrics")
		if err != nil || code != http.StatusOK || !strings.Contains(metrics, `rowmill_broken{table="t1000"} 1`) || !strings.Contains(metrics, `rowmill_broken{table="t0001"} 0`) || !strings.Contains(metrics, `rowmill_headroom_seconds{table="t0007"} `) {
			t.Errorf("metrics: %d %v\n%s", code, err, linesWith(metrics, "rowmill_"))
		}
		if n, causes := broken(metrics), len(linesWith(metrics, "rowmill_broken_cause{")); n != 10*groups || causes != n {
			t.Errorf("%d tables are broken with %d causes, want %d", n, causes, 10*groups)
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

		wantDone(t, rowmill(t.Context(), "apply", path(1000), "--yes")) // noticed without a change of the file
		r.waits(1, " keeps t1000 on", 90*time.Second)
		writeFile(t, path(0)+".new", text(0))
		must(t, os.Rename(path(0)+".new", path(0)))
		r.waits(1, " keeps t0000 on", time.Minute)
		must(t, os.Remove(path(6)))
		r.waits(1, "no longer keeps t0006", time.Minute)
		alone := filepath.Join(t.TempDir(), "t0006.toml")
		writeFile(t, alone, text(6))
		if s := rowmill(t.Context(), "run", alone, "--once"); s.code != exitDone || strings.Contains(s.stderr, "another process") {
			t.Errorf("its lock is not free: exit %d, %s", s.code, s.stderr)
		}
	})
}

// breakTables breaks ten declarations, each in another way, and returns what the log calls them,
// and the cause that it gives. Tables first, first+3, first+4 and first+5 exist.
func breakTables(t *testing.T, db engine.Keeper, target, every string, path func(int) string, first int) map[string]string {
	t.Helper()
	text := func(i int) string { return manyText(target, every, i) }
	own, lost, kept, fresh := first, first+5, first+4, 1000+first
	writeFile(t, path(own), "[table\nname =")
	writeFile(t, path(first+3), strings.Replace(text(first+1), "every = ", "evry = ", 1))
	writeFile(t, path(kept), strings.Replace(text(kept), "keep = \"120", "keep = \"150", 1)) // not applied
	drop := "DROP TABLE "
	if db.Capabilities().PeriodTables {
		drop = "DROP VIEW "
	}
	execSQL(t, db, fmt.Sprintf("%st%04d", drop, lost))
	writeFile(t, path(fresh), text(fresh)) // never applied
	writeFile(t, path(fresh+1), manyText("mariadb://nobody@127.0.0.1:1/none", every, fresh+1))
	writeFile(t, path(fresh+2), manyText("sqlite:/no/such/directory/file.db", every, fresh+2))
	writeFile(t, path(fresh+3), manyText("oracle://x", every, fresh+3))
	writeFile(t, path(fresh+4), strings.Replace(text(fresh+1), target, "", 1))
	twice := fmt.Sprintf("twice%d.toml", first)
	writeFile(t, filepath.Join(filepath.Dir(path(0)), twice), text(first+1))
	name := func(i int, more string) string { return fmt.Sprintf("t%04d%s", i, more) }
	return map[string]string{name(own, ".toml"): "not kept", name(first+3, ".toml"): "evry", name(fresh, ""): "has not been applied", name(fresh+1, ""): "no answer from",
		name(fresh+2, ""): "no such", name(fresh+3, ".toml"): "unknown scheme", name(fresh+4, ".toml"): "target", twice + " is not kept": ", too",
		name(kept, " is kept as it was applied"): "keep", name(lost, ""): "no longer exists"}
}

// broken is the number of tables that can't be kept as they are declared.
func broken(metrics string) (n int) {
	for _, line := range linesWith(metrics, "rowmill_broken{") {
		n += strings.Count(line, "} 1")
	}
	return n
}

// inTime checks for three minutes, in each of which a period of each of so many tables becomes due,
// that none is late by more than mostLate.
func inTime(t *testing.T, addr string, tables int) {
	t.Helper()
	const mostLate = 10 * time.Second // the usual interval
	least := map[string]float64{}
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		_, metrics, err := fetch("http://" + addr + "/metrics")
		must(t, err)
		for _, line := range linesWith(metrics, "rowmill_headroom_seconds{") {
			name, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
			seconds, err := strconv.ParseFloat(value, 64)
			must(t, err)
			if was, ok := least[name]; !ok || seconds < was {
				least[name] = seconds
			}
		}
	}
	late, worst := 0, math.Inf(1)
	for _, seconds := range least {
		if worst = min(worst, seconds); seconds < (3*time.Minute - mostLate).Seconds() {
			late++
		}
	}
	t.Logf("%d tables had always periods for at least %.1f s, of 180 s that are declared", len(least), worst)
	if len(least) < tables || late > 0 {
		t.Errorf("%d tables, of which %d are late, want %d and 0", len(least), late, tables)
	}
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
	for args, want := range map[string]string{"pause x.toml": "a pause of 0s", "pause x.toml --for 1h --policy drop": "want create, rollup", "pause x.toml --for 9000h": "at most a year", "resume x.toml --policy x": "want create, rollup"} {
		if s := rowmill(t.Context(), strings.Fields(args)...); s.code != exitUsage || !strings.Contains(s.stderr, want) {
			t.Errorf("%s: exit %d, %s", args, s.code, s.stderr)
		}
	}
}

// pauseKilled kills pause and resume at times of their runs: a pause is set or it isn't, is ended
// or isn't, and others stay.
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
	var whole time.Duration // of the fastest run that wasn't killed
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
		if took := time.Since(began); err != nil {
			killed++
		} else if whole == 0 || took < whole {
			whole = took
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
	policyOf := func(action string) string { return cmp.Or(state.PolicyOf(action), action) }
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
		wantDone(t, rowmill(t.Context(), "pause", d.file, "--policy", "adopt", "--for", "1h"))
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
