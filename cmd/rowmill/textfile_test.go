package main

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// bounded runs a command line that must end soon, even after its context has ended.
func bounded(t *testing.T, ctx context.Context, args ...string) session {
	t.Helper()
	ended := make(chan session, 1)
	go func() { ended <- rowmill(ctx, args...) }()
	select {
	case s := <-ended:
		return s
	case <-time.After(time.Minute):
		t.Fatalf("%s doesn't end", strings.Join(args, " "))
		return session{}
	}
}

// TestDeclarationFiles checks that a declaration must be a regular file of limited
// size.
func TestDeclarationFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo, huge := filepath.Join(dir, "fifo.toml"), filepath.Join(dir, "huge.toml")
	must(t, syscall.Mkfifo(fifo, 0o600))
	writeFile(t, huge, strings.Repeat("# rows\n", 1<<18))
	for file, says := range map[string]string{
		fifo:        "is a FIFO, not a regular file",
		huge:        "has more than 1 MiB",
		"/dev/full": "/dev/full is a device, not a regular file", // endless, like /dev/zero
		dir:         "is a directory, not a regular file",
	} {
		verbs := [][]string{{"plan", file}, {"apply", file, "--yes"}, {"load", file, "-", "--format", "csv"}, {"status", file},
			{"restore", file, "--list"}, {"bench", "keep", file}}
		if file != dir { // which may have several
			verbs = append(verbs, []string{"run", file, "--once"})
		}
		if strings.HasSuffix(file, ".toml") {
			verbs = append(verbs, []string{"bench", "scenario", file})
		}
		for _, args := range verbs {
			s := bounded(t, t.Context(), args...)
			if s.code == exitDone || !strings.Contains(s.stderr, says) {
				t.Errorf("%s: exit %d, stderr: %s", strings.Join(args, " "), s.code, s.stderr)
			}
		}
	}
}

// TestReadEnds checks that a signal ends reading from a file that has no writer.
func TestReadEnds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo, table := filepath.Join(dir, "fifo"), filepath.Join(dir, "readings.toml")
	must(t, syscall.Mkfifo(fifo, 0o600))
	text := filled(plainDeclaration, "sqlite:"+filepath.Join(dir, "db"), dir)
	writeFile(t, table, text)
	if _, err := rolling.ParseDeclarationFor(table, []byte(text), ""); err != nil {
		t.Fatal(err)
	}
	mustPass(t, rowmill(t.Context(), "apply", table, "--yes"))
	if s := bounded(t, t.Context(), "restore", table, "--file", fifo, "--yes"); s.code != exitFailed || !strings.Contains(s.stderr, "not a regular file") {
		t.Errorf("restore: exit %d, stderr: %s", s.code, s.stderr)
	}
	for _, args := range [][]string{{"report", fifo}, {"compare", fifo, fifo}, {"load", table, fifo, "--format", "csv"}, {"plan", table, "--record", fifo},
		{"bench", "insert", "--resume", fifo}, {"bench", "scenario", "--resume", fifo},
		{"bench", "insert", "--target", "mysql://root@localhost/db?password-file=" + fifo}, {"bench", "insert", "--target", "postgres://root@localhost/db?password-file=" + fifo}} {
		ctx, cancel := context.WithCancel(t.Context())
		opened := make(chan bool, 1)
		ended := make(chan struct{})
		go func() { // a writer can open the FIFO once the command reads it, which then waits
			w, err := -1, error(nil)
			for ctx.Err() == nil {
				if w, err = syscall.Open(fifo, syscall.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
					break
				}
				select {
				case <-ended:
					opened <- false
					return
				case <-time.After(time.Millisecond):
				}
			}
			cancel()
			<-ended
			if w >= 0 {
				_ = syscall.Close(w)
			}
			opened <- w >= 0
		}()
		s := bounded(t, ctx, args...)
		close(ended)
		if !<-opened {
			t.Errorf("%s: didn't open the file", strings.Join(args, " "))
		}
		cancel()
		if s.code != exitInterrupted || strings.Contains(s.stderr, "context canceled") {
			t.Errorf("%s: exit %d, stderr: %s", strings.Join(args, " "), s.code, s.stderr)
		}
	}
}
