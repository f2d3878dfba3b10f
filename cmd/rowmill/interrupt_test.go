package main

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/experiment"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestInterruptEarly checks that an interrupt before a run has begun has the exit code
// of an interrupt, and that nothing is left behind.
func TestInterruptEarly(t *testing.T) {
	if apart(t) {
		return
	}
	testdb.Require(t, "mariadb", sandbox.Installed(t.Context(), "mariadb"))
	for _, at := range []string{"starting mariadb", "is up after", "measuring bytes per row"} {
		t.Run(at, func(t *testing.T) {
			t.Chdir(t.TempDir())
			s := interruptedAt(t, at, "bench", "insert", "--target", "sandbox:mariadb?memory=32MB", "--layout", "rolling", "--rows", "1M", "--out", "run.jsonl")
			wantFailure(t, s, exitInterrupted, experiment.ErrInterruptedEarly.Error())
			if _, err := os.Stat("run.jsonl"); !os.IsNotExist(err) {
				t.Errorf("an empty record was left behind: %v", err)
			}
			nothingLeft(t)
		})
	}
}

// TestHangUp checks that a closed terminal ends the work cleanly, even if SIGHUP
// arrives several times.
func TestHangUp(t *testing.T) {
	// A second listener keeps this process alive, and reports the arrival of each signal.
	arrived := make(chan os.Signal, 1)
	signal.Notify(arrived, syscall.SIGHUP)
	defer signal.Stop(arrived)
	ctx, stop := untilHangUp(t.Context())
	defer stop()
	for range 3 {
		must(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
		select {
		case <-arrived:
		case <-time.After(time.Minute):
			t.Fatal("SIGHUP didn't arrive")
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
			t.Fatal("SIGHUP didn't end the context")
		}
	}
}

// TestNoPlaceForFile checks that failing to create a temporary file is an error, and
// that otherwise even its directory is removed.
func TestNoPlaceForFile(t *testing.T) {
	t.Chdir(t.TempDir())
	benched(t, "insert --target sqlite:?durability=none --rows 10")
	noFiles(t)
	writeFile(t, sandbox.DefaultRoot, "")
	wantFailure(t, verb(t, "bench insert --rows 10"), exitFailed, "make a temporary SQLite file")
}

// TestPipeChild is rowmill in a separate process with its handling of signals, for TestPipe.
func TestPipeChild(t *testing.T) {
	args := os.Getenv("ROWMILL_TEST_PIPE")
	if args == "" {
		t.Skip("runs in a process of its own")
	}
	os.Args = append(os.Args[:1], strings.Split(args, "\n")...)
	main()
}

// piped starts rowmill as TestPipeChild, and returns once it has written to standard error.
func piped(t *testing.T, line string) (*exec.Cmd, io.ReadCloser) {
	t.Helper()
	t.Chdir(t.TempDir())
	c := exec.Command(os.Args[0], "-test.run=^TestPipeChild$")
	c.Env = append(os.Environ(), "ROWMILL_TEST_PIPE="+strings.ReplaceAll(line, " ", "\n"))
	progress, err := c.StderrPipe()
	must(t, err)
	must(t, c.Start())
	_, err = progress.Read(make([]byte, 1))
	must(t, err)
	return c, progress
}

// TestPipe checks that the run continues if the reader of its progress closes the pipe.
func TestPipe(t *testing.T) {
	c, progress := piped(t, "bench insert --target null: --max-time 300ms --interval 30ms --out run.jsonl")
	must(t, progress.Close())
	if err := c.Wait(); err != nil {
		t.Errorf("rowmill: %v", err)
	}
	if rec := records(t, "run.jsonl")[0]; rec.End == nil || rec.End.Stopped != "max-time" {
		t.Errorf("%+v", rec)
	}
}

// TestInterruptTwiceAtOnce checks that a signal sent to the process and at once to its
// group, as timeout does, ends the run cleanly.
func TestInterruptTwiceAtOnce(t *testing.T) {
	c, progress := piped(t, "bench insert --max-time 1m --batch 10000 --interval 30ms --out run.jsonl")
	// Signals of one kind that wait are merged: two kinds, and time to notice the first.
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		must(t, c.Process.Signal(s))
		time.Sleep(2 * time.Millisecond)
	}
	_, err := io.Copy(io.Discard, progress)
	must(t, err)
	if err := c.Wait(); c.ProcessState.ExitCode() != exitInterrupted {
		t.Errorf("rowmill: %v", err)
	}
}
