//go:build linux

package sandbox_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// restartable returns the servers that are killed and restarted.
func restartable() map[string]sandbox.Options {
	return map[string]sandbox.Options{
		"mariadb":  {Memory: 16 << 20, Redo: 8 << 20},
		"rocksdb":  {Memory: 16 << 20, Redo: 8 << 20, Storage: sandbox.RocksDB},
		"mysql":    {Kind: "mysql", Memory: 16 << 20, Redo: 8 << 20, Port: sandbox.PortAuto},
		"postgres": {Kind: "postgres", Memory: 16 << 20, Redo: 64 << 20, Port: sandbox.PortAuto},
	}
}

// TestRestart: rows committed before a kill exist after a restart, on the same
// socket and port.
func TestRestart(t *testing.T) {
	for name, o := range restartable() {
		t.Run(name, func(t *testing.T) {
			o.Root = filepath.Join(t.TempDir(), "root")
			s, err := sandbox.Start(t.Context(), o, t.Logf)
			if err != nil && strings.Contains(err.Error(), sandbox.ErrNotInstalled.Error()) {
				testdb.Require(t, name, err)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			})
			query := func(q string) string {
				t.Helper()
				if o.Kind == "postgres" {
					got, err := askPostgres(t, s.Target(), q)
					if err != nil {
						t.Fatal(err)
					}
					return got
				}
				if !strings.HasPrefix(q, "SELECT") {
					execute(t, s.Info, q)
					return ""
				}
				return ask(t, s.Info, q)
			}
			if err := s.Restart(t.Context()); err == nil || !strings.Contains(err.Error(), "still runs") {
				t.Fatalf("restarting a server that runs: %v", err)
			}
			query("CREATE TABLE t (n INT PRIMARY KEY)")
			query("INSERT INTO t VALUES (42)")
			first, password := s.PID, ""
			if s.Port != 0 {
				p, err := os.ReadFile(s.PasswordFile)
				if err != nil {
					t.Fatal(err)
				}
				password = string(p)
			}
			for range 2 {
				gone := s.Done()
				s.Kill()
				<-gone
				if s.Err() == nil {
					t.Error("no error while it is gone")
				}
				if err := s.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
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
				if got := query("SELECT n FROM t"); got != "42" {
					t.Errorf("got %q", got)
				}
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
			if err := s.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
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
	for _, name := range []string{"mariadb", "postgres"} {
		t.Run(name, func(t *testing.T) {
			testdb.Require(t, name, sandbox.Installed(t.Context(), name))
			o := restartable()[name]
			o.Port = ""
			o.Root = filepath.Join(t.TempDir(), "root")
			for _, wait := range []time.Duration{50 * time.Millisecond, 400 * time.Millisecond} {
				c := startChild(t, o, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, restartVariable+"=1") })
				info := c.info(t)
				time.Sleep(wait)
				if err := c.cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				io.Copy(io.Discard, c.out)
				c.cmd.Wait()
				eventually(t, "the servers die", func() bool {
					return len(serversIn(t, o.Root)) == 0 && (name != "postgres" || len(postgresProcesses(t, info.DataDir)) == 0)
				})
			}
			s, err := sandbox.Start(t.Context(), o, t.Logf)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
			assertGone(t, o.Root)
		})
	}
}
