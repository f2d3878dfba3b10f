package main

import (
	"bytes"
	"database/sql"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// processVariable makes the test binary run as rowmill, so that it can be killed.
const processVariable = "ROWMILL_TEST_PROCESS"

// process starts rowmill in a separate process.
func process(t *testing.T, args ...string) (cmd *exec.Cmd, stderr *bytes.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd, stderr = exec.Command(exe, args...), &bytes.Buffer{}
	cmd.Env = append(os.Environ(), processVariable+"=1")
	cmd.Stderr = stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, stderr
}

// lineCount returns the number of lines of a file; 0 if it doesn't exist.
func lineCount(path string) int {
	text, _ := os.ReadFile(path)
	return bytes.Count(text, []byte("\n"))
}

// killedUntilDone runs a command, kills it at random moments, also while it resumes, and
// has it resumed until it comes to its end. It returns the number of kills.
func killedUntilDone(t *testing.T, record string, kills int, args []string, resume ...string) (killed int) {
	t.Helper()
	for range 60 {
		// It is killed before the record has grown, or once it has some more lines.
		before, more := lineCount(record), rand.IntN(6)
		cmd, stderr := process(t, args...)
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for over := false; !over; {
			select {
			case err := <-ended:
				if err != nil {
					t.Fatalf("after %d kills: %v: %s", killed, err, stderr)
				}
				if killed < 2 {
					t.Errorf("it was killed %d times only", killed)
				}
				return killed
			case <-time.After(2 * time.Millisecond):
				over = killed < kills && lineCount(record) >= before+more
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-ended
		killed++
		switch {
		case lineCount(record) > 0:
			args = resume
			if killed%2 == 0 { // as after a crash of the machine
				cutOff(t, record)
			}
		case !slices.Contains(args, "--drop-existing"):
			args = append(args, "--drop-existing") // killed before anything was recorded
		}
	}
	t.Fatal("it never came to its end")
	return 0
}

// cutOff appends the beginning of a line to a record.
func cutOff(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(`{"type":"interval","elap`)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestResumeKilled kills rowmill at random moments, also while it resumes, until the
// load is complete. The table must equal that of an uninterrupted run.
func TestResumeKilled(t *testing.T) {
	const rows = 60_000
	kills := 3
	if testdb.Nightly() {
		kills = 5
	}
	for _, c := range []struct{ name, target, args string }{
		{"sqlite", "sqlite:a.db?durability=none", "--layout plain,rolling --period-rows 7k --batch 50 --writers 2"},
		{"sqlite, periods dropped", "sqlite:a.db?durability=none", "--layout rolling --period-rows 7k --keep-periods 2 --batch 50"},
		{"mariadb", "", "--preset timeseries --layout rolling --period-rows 7k --keep-periods 3 --batch 20 --writers 4"},
		{"mariadb, a table for each", "", "--preset ibench --batch 20 --writers 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if c.target == "" {
				c.target = mariadb(t)
			}
			args := append([]string{"bench", "insert", "--target", c.target, "--rows", "60k", "--interval", "20ms", "--out", "run.jsonl", "--json"},
				strings.Fields(c.args)...)
			killed := killedUntilDone(t, "run.jsonl", kills, args, "bench", "insert", "--resume", "run.jsonl", "--json")
			for _, rec := range records(t, "run.jsonl") {
				sum := rec.Summary()
				v := sum.Verified
				if v == nil || !v.Sound() || v.Found+rec.End.DroppedRows != rows || sum.Rows != rows {
					t.Errorf("%s: %d rows, verified %+v, dropped %d, %q", rec.Run.Name, sum.Rows, v, rec.End.DroppedRows, sum.Failure)
				}
				last := 0.0
				for _, iv := range rec.Intervals {
					if iv.Elapsed < last || iv.Rows > rows {
						t.Errorf("interval ends at %v s with %d rows, after %v s", iv.Elapsed, iv.Rows, last)
					}
					last = iv.Elapsed
				}
				t.Logf("%d kills; %s: %d pieces, %.2f s", killed, rec.Run.Name, len(rec.Pieces), sum.Seconds)
			}
			mustPass(t, rowmill(t.Context(), "report", "run.jsonl", "--html", "run.html"))
			again := rowmill(t.Context(), "bench", "insert", "--resume", "run.jsonl")
			mustPass(t, again)
			if !strings.Contains(again.stderr, "nothing to do") {
				t.Errorf("resuming what is done: %s", again.stderr)
			}
		})
	}
}

// interrupted runs a load and interrupts it after its first intervals.
func interrupted(t *testing.T, args ...string) {
	t.Helper()
	s := interruptedAt(t, `(?m)^ +0\.[2-9]s `, append([]string{"bench", "insert", "--out", "run.jsonl", "--interval", "100ms"}, args...)...)
	if s.code != exitInterrupted {
		t.Fatalf("exit %d: %s", s.code, s.stderr)
	}
}

// forgetCommands replaces the command lines in a record: what is continued or repeated is
// in its Spec.
func forgetCommands(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile(`"command":\[[^]]*\]`).ReplaceAll(text, []byte(`"command":["bench","nonsense","--warp","9"]`))
	if bytes.Equal(changed, text) {
		t.Fatal("the record has no command line")
	}
	if err := os.WriteFile(path, changed, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestResumeInterrupted checks that a run interrupted by Ctrl-C is continued with the
// record's flags, followed by the runs that had not begun, and that an incomplete line
// at the record's end is removed.
func TestResumeInterrupted(t *testing.T) {
	t.Chdir(t.TempDir())
	interrupted(t, "--target", "sqlite:a.db?durability=none", "--layout", "plain,rolling", "--rows", "40k", "--rate", "20k", "--batch", "100", "--period-rows", "9k")
	cutOff(t, "run.jsonl")
	forgetCommands(t, "run.jsonl")
	for _, c := range [][2]string{
		{"--rows 50k", "--rows 50000: the flags come from the record, where it is 40000"},
		{"--drop-existing", "--drop-existing true"},
		{"--out other.jsonl", "--out other.jsonl"},
	} {
		s := rowmill(t.Context(), append([]string{"bench", "insert", "--resume", "run.jsonl"}, strings.Fields(c[0])...)...)
		if s.code != exitUsage || !strings.Contains(s.stderr, c[1]) {
			t.Errorf("%s: exit %d, %s", c[0], s.code, s.stderr)
		}
	}
	s := rowmill(t.Context(), "bench", "insert", "--resume", "run.jsonl", "--rows", "40k", "--json")
	mustPass(t, s)
	runs, recs := summaries(t, s), records(t, "run.jsonl")
	if len(runs) != 2 || len(recs) != 2 || len(recs[0].Pieces) != 2 || recs[1].Pieces != nil {
		t.Fatalf("%d summaries, records %+v", len(runs), recs)
	}
	for _, r := range runs {
		if v := r.Verified; r.Rows != 40000 || v == nil || !v.Sound() || v.Found != 40000 {
			t.Errorf("%s: %d rows, verified %+v", r.Layout, r.Rows, v)
		}
	}
	if w := strings.Join(runs[0].Warnings, "\n"); !strings.Contains(w, "interrupted at ") || !strings.Contains(w, "resumed") {
		t.Errorf("warnings %s", w)
	}
	from := recs[0].Pieces[1].Resumes
	if from.Rows == 0 || from.Seconds <= 0 || from.Stopped != "interrupted" {
		t.Errorf("resumes %+v", from)
	}
}

// TestResumeRefused checks that a record that can't be continued, or a table whose
// rows the run did not insert, is refused.
func TestResumeRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	resume := func(code int, says ...string) {
		t.Helper()
		s := rowmill(t.Context(), "bench", "insert", "--resume", "run.jsonl")
		if s.code != code {
			t.Errorf("exit %d", s.code)
		}
		for _, want := range append(says, "Try: ") {
			if !strings.Contains(s.stderr, want) {
				t.Errorf("stderr lacks %q: %s", want, s.stderr)
			}
		}
	}
	resume(exitUsage, "run.jsonl", "no such file")
	interrupted(t, "--rows", "1M", "--rate", "10k")
	resume(exitUsage, "removed with it", "sqlite:PATH", "keep=DIR")
	interrupted(t, "--target", "sqlite:s.db?durability=none", "--preset", "sbtest", "--rows", "1M", "--rate", "10k")
	resume(exitUsage, "preset sbtest: a row doesn't contain its sequence number")
	interrupted(t, "--target", "sqlite:b.db?durability=none", "--rows", "1M", "--rate", "10k", "--batch", "100")
	db, err := sql.Open(testdb.SQLiteDriver, "b.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("UPDATE purchases SET productid = productid + 1 WHERE transactionid = 50"); err != nil {
		t.Fatal(err)
	}
	resume(exitFailed, "did not insert", "--drop-existing")
	if _, err := db.Exec("DROP TABLE purchases"); err != nil {
		t.Fatal(err)
	}
	resume(exitFailed, "purchases no longer exists")
	if err := os.Remove("b.db"); err != nil {
		t.Fatal(err)
	}
	resume(exitUsage, "no longer exists")
	if _, err := os.Stat("b.db"); err == nil {
		t.Error("a refused resumption made a database")
	}
}

// TestResumeKept checks that a kept private server is started again after a kill of
// rowmill, which kills the server too.
func TestResumeKept(t *testing.T) {
	testdb.Require(t, "mariadb", sandbox.Installed(t.Context(), "mariadb"))
	t.Chdir(t.TempDir())
	keep := filepath.Join(t.TempDir(), "kept")
	cmd, stderr := process(t, "bench", "insert", "--target", "sandbox:mariadb?memory=32MB&redo=32MB&keep="+keep, "--rows", "60k", "--rate", "30k",
		"--batch", "100", "--interval", "50ms", "--out", "run.jsonl")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if b, _ := os.ReadFile("run.jsonl"); bytes.Count(b, []byte("\n")) > 5 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(stderr)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	s := rowmill(t.Context(), "bench", "insert", "--resume", "run.jsonl", "--json")
	mustPass(t, s)
	if r := summaries(t, s)[0]; r.Rows != 60000 || r.Verified == nil || !r.Verified.Sound() || r.Verified.Found != 60000 {
		t.Errorf("%d rows, verified %+v", r.Rows, r.Verified)
	}
}
