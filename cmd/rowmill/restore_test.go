package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain/archive"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// An archived is a table some of whose periods exist only in files.
type archived struct{ *keptTable }

// newArchived keeps a table for half a day, until its first hours are dropped.
func newArchived(t *testing.T, server string) *archived {
	t.Helper()
	w := &archived{declare(t, server, crashDeclaration)}
	start := time.Date(2026, 3, 29, 0, 40, 0, 0, time.UTC)
	for hour := range 12 {
		now := start.Add(time.Duration(hour) * time.Hour)
		w.tick(now)
		if hour == 0 {
			mustPass(t, w.run("apply", "--yes"))
		}
		mustPass(t, w.run("run", "--once"))
		w.insert(now, hour)
	}
	return w
}

// state returns the state of the table, including leftovers of a restoration.
func (w *archived) state() string {
	w.Helper()
	out := crashState(w.T, w.db, w.table)
	for _, what := range []string{"back", "into"} {
		for h := range int64(4) {
			name := fmt.Sprintf("rowmill_%s_readings_%d", what, rolling.Position(time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC))+h*3600e6)
			if _, err := w.db.Describe(w.Context(), name); err == nil {
				out += "left behind: table " + name + "\n"
			}
		}
	}
	return out
}

// killed runs a verb so that it kills itself at the n-th point, and reports whether it
// did.
func (w *archived) killed(n int, verb string, args ...string) bool {
	w.Helper()
	s := ended(w.T, killable(n, append([]string{verb, w.file, "--clock", w.clock}, args...)...), "")
	if s.code > exitDone {
		w.Fatalf("it was to be killed at point %d: %+v", n, s)
	}
	return s.code < 0
}

// firstArchive returns the oldest period that exists only in a file.
func (w *archived) firstArchive() (name string, rows int64) {
	w.Helper()
	s := w.run("restore", "--list", "--json")
	mustPass(w.T, s)
	var list struct {
		Archives []struct {
			Period string `json:"period"`
			Rows   int64  `json:"rows"`
		} `json:"archives"`
	}
	must(w, json.Unmarshal([]byte(s.stdout), &list))
	if len(list.Archives) == 0 {
		w.Fatal("nothing was archived")
	}
	return list.Archives[0].Period, list.Archives[0].Rows
}

// TestRestore checks that a dropped period is restored unchanged, is exempt from
// retention until it is released, and is then dropped again; or that it becomes a
// separate table. A kill at any point must not change the result.
func TestRestore(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, server string) {
		w := newArchived(t, server)
		period, rows := w.firstArchive()
		dropped := w.state()
		if strings.Contains(dropped, "period "+period+" ") || !strings.Contains(dropped, " dropped ") {
			t.Fatalf("period %s is still there:\n%s", period, dropped)
		}
		mustPass(t, w.run("restore", period, "--yes"))
		restored := w.state()
		if !strings.Contains(restored, fmt.Sprintf("period %s %d\n", period, rows)) || !strings.Contains(restored, " restored ") {
			t.Fatalf("after restore:\n%s", restored)
		}
		mustPass(t, w.run("run", "--once"))
		if got := w.state(); got != restored {
			t.Fatalf("retention has changed what was restored:\n%s\nwas\n%s", got, restored)
		}
		if again := w.run("restore", period, "--yes"); again.code != exitFailed || !strings.Contains(again.stderr, "has that period") {
			t.Errorf("restored twice: %+v", again)
		}
		points, step := 0, 1
		if server != "sqlite" && !testdb.Nightly() {
			step = 3
		}
		for n := 1; ; n += step {
			mustPass(t, w.run("restore", period, "--release", "--yes"))
			mustPass(t, w.run("run", "--once"))
			if got := w.state(); got != dropped {
				t.Fatalf("released and dropped:\n%s\nwas\n%s", got, dropped)
			}
			if !w.killed(n, "restore", period, "--yes") {
				break
			}
			points++
			// Maintenance must neither seal nor drop a period that is restored in
			// part.
			mustPass(t, w.run("run", "--once"))
			if again := w.run("restore", period, "--yes"); again.code != exitDone && !strings.Contains(again.stderr, "has that period") {
				t.Fatalf("killed at point %d: %+v", n, again)
			}
			if got := w.state(); got != restored {
				t.Fatalf("killed at point %d it ends as\n%s\nwant\n%s", n, got, restored)
			}
		}
		if points < 8/step {
			t.Errorf("it was killed at %d points only", points)
		}
		w.restoreInto(period, rows, step)
	})
}

// restoreInto restores into a separate table, killed at each step-th point.
func (w *archived) restoreInto(period string, rows int64, step int) {
	w.Helper()
	before := w.state()
	points := 0
	for n := 1; ; n += step {
		killed := w.killed(n, "restore", period, "--into", "old readings", "--yes")
		if killed {
			points++
			again := w.run("restore", period, "--into", "old readings", "--yes")
			if again.code != exitDone && !strings.Contains(again.stderr, "exists already") {
				w.Fatalf("killed at point %d: %+v", n, again)
			}
		}
		if got := count(w.T, w.db, w.db.Dialect().Quote("old readings")); got != rows {
			w.Fatalf("killed at point %d: %d rows of %d", n, got, rows)
		}
		if got := w.state(); got != before {
			w.Fatalf("killed at point %d, the rolling table is\n%s\nwas\n%s", n, got, before)
		}
		if again := w.run("restore", period, "--into", "old readings", "--yes"); again.code != exitFailed || !strings.Contains(again.stderr, "exists already") {
			w.Fatalf("into a table that is there: %+v", again)
		}
		must(w, w.db.Try(w.Context(), engine.DropTables{Names: []string{"old readings"}}))
		if !killed {
			break
		}
	}
	if points < 8/step {
		w.Errorf("it was killed at %d points only", points)
	}
}

// TestRestoredAndChanged checks that the original values of a period whose rows were
// changed stay in a file when it is archived again.
func TestRestoredAndChanged(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"sqlite", "postgres"} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			w := newArchived(t, server)
			period, rows := w.firstArchive()
			mustPass(t, w.run("restore", period, "--yes"))
			folder := filepath.Join(filepath.Dir(w.file), "archive", "readings")
			before, err := archive.Look(filepath.Join(folder, period+".parquet"))
			must(t, err)
			from, to := w.db.Words().Literal(w.table, before.From), w.db.Words().Literal(w.table, before.To)
			execSQL(t, w.db, "UPDATE readings SET value = value + 1 WHERE ts >= "+from+" AND ts < "+to)
			mustPass(t, w.run("restore", period, "--release", "--yes"))
			mustPass(t, w.run("run", "--once"))
			mustPass(t, w.run("run", "--once"))
			after, err := archive.Verify(t.Context(), before.Path)
			if err != nil || after.Sum == before.Sum || after.Rows != rows {
				t.Fatalf("archived anew: %+v, %v", after, err)
			}
			old, err := filepath.Glob(filepath.Join(folder, period+".*.old"))
			if err != nil || len(old) != 1 {
				t.Fatalf("kept %v, %v", old, err)
			}
			if kept, err := archive.Verify(t.Context(), old[0]); err != nil || kept.Sum != before.Sum || kept.Rows != rows {
				t.Errorf("kept %+v, %v", kept, err)
			}
		})
	}
}

// TestRestoreRefuses checks that an impossible restoration is refused with the reason,
// and leaves nothing behind.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	w := newArchived(t, "sqlite")
	period, _ := w.firstArchive()
	before := w.state()
	path := filepath.Join(filepath.Dir(w.file), "archive", "readings", period+".parquet")
	whole := readFile(t, path)
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no period", nil, exitUsage, "no period is given"},
		{"both", []string{period, "--file", path}, exitUsage, "both name what to restore"},
		{"unknown", []string{"p2020"}, exitFailed, "no archive of that period"},
		{"list of one", []string{period, "--list"}, exitUsage, "--list takes no period"},
		{"verify alone", []string{period, "--verify"}, exitUsage, "--verify requires --list"},
		{"released", []string{period, "--release", "--yes"}, exitFailed, "no restored period"},
		{"not confirmed", []string{period}, exitUsage, "not confirmed"},
		{"no file", []string{"--file", path + "x", "--yes"}, exitFailed, "no such file"},
		{"into itself", []string{period, "--into", "readings", "--yes"}, exitFailed, "exists already"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := w.run("restore", c.args...)
			if s.code != c.code || !strings.Contains(s.stderr, c.says) {
				t.Errorf("exit %d, %s", s.code, s.stderr)
			}
		})
	}
	for _, at := range []int{4, len(whole) / 3, len(whole) - 20} {
		bad := bytes.Clone(whole)
		bad[at] ^= 4
		must(t, os.WriteFile(path, bad, 0o600))
		if s := w.run("restore", period, "--yes"); s.code != exitFailed || !strings.Contains(s.stderr, "damaged") {
			t.Errorf("file with byte %d changed: exit %d, %s", at, s.code, s.stderr)
		}
		if s := w.run("restore", "--list", "--verify"); s.code != exitFailed || !strings.Contains(s.stdout, "can't be used") {
			t.Errorf("file with byte %d changed is listed: exit %d, %s", at, s.code, s.stdout)
		}
	}
	if got := w.state(); got != before {
		t.Errorf("left behind:\n%s\nwas\n%s", got, before)
	}
	must(t, os.WriteFile(path, whole, 0o600))
	mustPass(t, w.run("restore", "--list", "--verify"))
	s := w.run("restore", "--file", path, "--json", "--yes")
	mustPass(t, s)
	if !strings.Contains(s.stdout, `"format": "rowmill.restore/1"`) || !strings.Contains(s.stderr, "holds period "+period) {
		t.Errorf("%s\n%s", s.stdout, s.stderr)
	}
}

// TestRestoreWaits checks that while a transaction is open on the table, the
// restoration repeatedly waits a short time for its lock, names the blocking session,
// and is completed once the transaction ends.
func TestRestoreWaits(t *testing.T) {
	t.Parallel()
	for _, server := range testdb.Kinds(t, "mariadb", "mysql") { // on other servers, a reader doesn't block attaching a partition
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			w := newArchived(t, server)
			period, rows := w.firstArchive()
			tx, err := w.db.SQL().BeginTx(t.Context(), nil)
			must(t, err)
			var n int64
			must(t, tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM readings").Scan(&n))
			said, stderr := io.Pipe()
			done := make(chan int, 1)
			go func() {
				done <- run(t.Context(), []string{"restore", w.file, "--clock", w.clock, period, "--yes"}, strings.NewReader(""), io.Discard, stderr)
				stderr.Close()
			}()
			lines, text := bufio.NewReader(said), ""
			for !strings.Contains(text, "waiting for the table's lock") {
				line, err := lines.ReadString('\n')
				if text += line; err != nil {
					t.Fatalf("it ended with %d under an open transaction: %s", <-done, text)
				}
			}
			must(t, tx.Rollback())
			rest, err := io.ReadAll(lines)
			must(t, err)
			if code := <-done; code != exitDone {
				t.Errorf("afterwards it ended with %d: %s%s", code, text, rest)
			}
			if !strings.Contains(text+string(rest), "blocked by rowmill's own connection ") { // the test's own connection
				t.Errorf("it doesn't say who is in the way: %s%s", text, rest)
			}
			if got := count(t, w.db, "readings"); got != n+rows {
				t.Errorf("%d rows, want %d", got, n+rows)
			}
		})
	}
}
