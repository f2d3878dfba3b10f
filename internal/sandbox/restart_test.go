//go:build linux

package sandbox_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/sandbox"
)

// TestRestart: rows committed before a kill exist after a restart, on the same
// socket and port.
func TestRestart(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*sandbox.Options){
		"mariadb":  func(*sandbox.Options) {},
		"rocksdb":  func(o *sandbox.Options) { o.Kind, o.Storage = "mariadb", sandbox.RocksDB },
		"mysql":    func(o *sandbox.Options) { o.Port = sandbox.PortAuto },
		"postgres": func(o *sandbox.Options) { o.Port = sandbox.PortAuto },
	} {
		t.Run(name, func(t *testing.T) {
			o := sandbox.Options{Kind: name}
			change(&o)
			small := small(t, o.Kind)
			o.Root, o.Memory, o.Redo = small.Root, small.Memory, small.Redo
			s := start(t, o)
			if err := s.Restart(t.Context()); err == nil || !strings.Contains(err.Error(), "still runs") {
				t.Fatalf("restarting a server that runs: %v", err)
			}
			execute(t, s.Info, "CREATE TABLE t (n INT PRIMARY KEY)", "INSERT INTO t VALUES (42)")
			first, password := s.PID, ""
			if s.Port != 0 {
				p, err := os.ReadFile(s.PasswordFile)
				must(t, err)
				password = string(p)
			}
			for range 2 {
				gone := s.Done()
				s.Kill()
				<-gone
				if s.Err() == nil {
					t.Error("no error while it is gone")
				}
				must(t, s.Restart(t.Context()))
				if s.Process() == first || !alive(s.Process()) {
					t.Errorf("process %d after %d", s.Process(), first)
				}
				if err := s.Err(); err != nil {
					t.Errorf("Err of a server that is back: %v", err)
				}
				select {
				case <-s.Done():
					t.Error("Done is closed, and the server runs")
				default:
				}
				want(t, s.Info, map[string]string{"SELECT n FROM t": "42"})
			}
			if s.Port != 0 {
				if p, err := os.ReadFile(s.PasswordFile); err != nil || string(p) != password {
					t.Errorf("the password changed, or %v", err)
				}
			}
			// An interrupted restart leaves no process, and can be repeated.
			s.Kill()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := s.Restart(ctx); err == nil {
				t.Error("a restart that was broken off has no error")
			}
			select {
			case <-s.Done():
			default:
				t.Errorf("process %d is left", s.Process())
			}
			must(t, s.Restart(t.Context()))
			must(t, s.Stop(t.Context()))
			if err := s.Restart(t.Context()); err == nil {
				t.Error("a stopped server was restarted")
			}
			assertGone(t, o.Root)
		})
	}
}

// TestRestartOwnerKilled: a server that was restarted, or is restarting, ends
// with its owner, like the first one.
func TestRestartOwnerKilled(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"mariadb", "postgres"} {
		t.Run(name, func(t *testing.T) {
			o := small(t, name)
			for _, wait := range []time.Duration{50 * time.Millisecond, 400 * time.Millisecond} {
				c := startChild(t, o, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, restartVariable+"=1") })
				c.info(t)
				time.Sleep(wait) // in the restart, and after it
				must(t, c.cmd.Process.Kill())
				io.Copy(io.Discard, c.out)
				c.cmd.Wait()
				eventually(t, "the servers die", func() bool { return len(serversIn(t, o.Root)) == 0 })
			}
			stop(t, start(t, o))
			assertGone(t, o.Root)
		})
	}
}
