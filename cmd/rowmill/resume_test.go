package main

import (
	"bytes"
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
	cmd, stderr = exec.Command(os.Args[0], args...), &bytes.Buffer{}
	cmd.Env = append(os.Environ(), processVariable+"=1")
	cmd.Stderr = stderr
	must(t, cmd.Start())
	return cmd, stderr
}

// lineCount returns the number of lines of a file; 0 if it doesn't exist.
func lineCount(path string) int {
	text, _ := os.ReadFile(path)
	return bytes.Count(text, []byte("\n"))
}

// killedUntilDone runs a command, kills it at random moments, also while it resumes, and
// has it resumed until it comes to its end.
func killedUntilDone(t *testing.T, record string, kills int, args []string, resume ...string) {
	t.Helper()
	for killed := 0; killed < 60; killed++ {
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
				return
			case <-time.After(2 * time.Millisecond):
				over = killed < kills && lineCount(record) >= before+more
			}
		}
		must(t, cmd.Process.Kill())
		<-ended
		switch {
		case lineCount(record) > 0:
			args = resume
			if killed%2 == 1 { // as after a crash of the machine
				cutOff(t, record)
			}
		case !slices.Contains(args, "--drop-existing"):
			args = append(args, "--drop-existing") // killed before anything was recorded
		}
	}
	t.Fatal("it never came to its end")
}

// cutOff appends the beginning of a line to a record.
func cutOff(t *testing.T, path string) {
	t.Helper()
	writeFile(t, path, string(readFile(t, path))+`{"type":"interval","elap`)
}

// TestResumeKilled kills rowmill at random moments, also while it resumes, until the
// load is complete. The table must equal that of an uninterrupted run.
func TestResumeKilled(t *testing.T) {
	if apart(t) {
		return
	}
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
			args := strings.Fields("bench insert --rows 60k --interval 20ms --out run.jsonl --json --target " + c.target + " " + c.args)
			killedUntilDone(t, "run.jsonl", kills, args, "bench", "insert", "--resume", "run.jsonl", "--json")
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
			}
			mustPass(t, verb(t, "report run.jsonl --html run.html"))
			contains(t, benched(t, "insert --resume run.jsonl").stderr, "nothing to do")
		})
	}
}

// interrupted runs a load and interrupts it after its first intervals.
func interrupted(t *testing.T, line string) {
	t.Helper()
	s := interruptedAt(t, `(?m)^ +0\.[2-9]s `, strings.Fields("bench insert --out run.jsonl --interval 100ms "+line)...)
	wantFailure(t, s, exitInterrupted)
}

// forgetCommands replaces the command lines in a record: what is continued or repeated is
// in its Spec.
func forgetCommands(t *testing.T, path string) {
	t.Helper()
	text := readFile(t, path)
	changed := regexp.MustCompile(`"command":\[[^]]*\]`).ReplaceAll(text, []byte(`"command":["bench","nonsense","--warp","9"]`))
	if bytes.Equal(changed, text) {
		t.Fatal("the record has no command line")
	}
	writeFile(t, path, string(changed))
}

// TestResumeInterrupted checks that a run interrupted by Ctrl-C is continued with the
// record's flags, followed by the runs that had not begun, and that an incomplete line
// at the record's end is removed.
func TestResumeInterrupted(t *testing.T) {
	if apart(t) {
		return
	}
	t.Chdir(t.TempDir())
	interrupted(t, "--target sqlite:a.db?durability=none --layout plain,rolling --rows 40k --rate 20k --batch 100 --period-rows 9k")
	cutOff(t, "run.jsonl")
	forgetCommands(t, "run.jsonl")
	for args, says := range map[string]string{
		"--rows 50k":        "--rows can't be given with --resume",
		"--drop-existing":   "--drop-existing can't be given",
		"--out other.jsonl": "--out can't be given",
	} {
		wantFailure(t, verb(t, "bench insert --resume run.jsonl "+args), exitUsage, says)
	}
	s := benched(t, "insert --resume run.jsonl --json")
	runs, recs := summaries(t, s), records(t, "run.jsonl")
	if len(runs) != 2 || len(recs) != 2 || len(recs[0].Pieces) != 2 || recs[1].Pieces != nil {
		t.Fatalf("%d summaries, records %+v", len(runs), recs)
	}
	for _, r := range runs {
		proven(t, r.Layout, r.Verified, 40000)
	}
	contains(t, strings.Join(runs[0].Warnings, "\n"), "interrupted at ", "resumed")
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
		wantFailure(t, verb(t, "bench insert --resume run.jsonl"), code, append(says, "Try: ")...)
	}
	resume(exitUsage, "run.jsonl", "no such file")
	interrupted(t, "--rows 1M --rate 10k")
	resume(exitUsage, "removed with it", "sqlite:PATH", "keep=DIR")
	interrupted(t, "--target sqlite:s.db?durability=none --preset sbtest --rows 1M --rate 10k")
	resume(exitUsage, "preset sbtest: a row doesn't contain its sequence number")
	interrupted(t, "--target sqlite:b.db?durability=none --rows 1M --rate 10k --batch 100")
	db := openKeeper(t, "sqlite:b.db")
	execSQL(t, db, "UPDATE purchases SET productid = productid + 1 WHERE transactionid = 50")
	resume(exitFailed, "did not insert", "--drop-existing")
	execSQL(t, db, "DROP TABLE purchases")
	resume(exitFailed, "purchases no longer exists")
	must(t, os.Remove("b.db"))
	resume(exitUsage, "no longer exists")
	if _, err := os.Stat("b.db"); err == nil {
		t.Error("a refused resumption made a database")
	}
}

// TestResumeKept checks that a kept private server is started again after a kill of
// rowmill, which kills the server too.
func TestResumeKept(t *testing.T) {
	if apart(t) {
		return
	}
	testdb.Require(t, "mariadb", sandbox.Installed(t.Context(), "mariadb"))
	t.Chdir(t.TempDir())
	keep := filepath.Join(t.TempDir(), "kept")
	cmd, stderr := process(t, strings.Fields("bench insert --rows 60k --rate 30k --batch 100 --interval 50ms --out run.jsonl --target sandbox:mariadb?memory=32MB&redo=32MB&keep="+keep)...)
	for deadline := time.Now().Add(time.Minute); lineCount("run.jsonl") <= 5; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(stderr)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	r := summaries(t, benched(t, "insert --resume run.jsonl --json"))[0]
	proven(t, r.Name, r.Verified, 60000)
}
