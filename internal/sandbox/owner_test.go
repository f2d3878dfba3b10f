//go:build linux

package sandbox_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/sandbox"
)

// TestOwnerKilled: the server of a killed process ends with it, also while it
// executes a statement, and the next start removes its files, inside and outside
// the root, and processes that outlived a killed server.
func TestOwnerKilled(t *testing.T) {
	t.Parallel()
	for name, deep := range map[string]string{"short path": "", "long path": strings.Repeat("long/", 30)} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, o sandbox.Options) {
				o.Root = filepath.Join(filepath.Dir(o.Root), deep, "root")
				c := startChild(t, o)
				info := c.info(t)
				if o.Kind == "postgres" {
					busyPostgres(t, info)
				}
				if deep != "" { // a server that can't end its other processes any more
					must(t, syscall.Kill(info.PID, syscall.SIGKILL))
				}
				killOwner(t, c, info)
				if deep == "" {
					eventually(t, "all of its processes end", func() bool { return len(serversIn(t, info.Dir)) == 0 })
				}
				s := start(t, o)
				for _, p := range serversIn(t, info.Dir) {
					t.Errorf("process %s is left", p)
				}
				assertGone(t, info.Dir)
				assertGone(t, filepath.Dir(info.Socket))
				stop(t, s)
				assertGone(t, o.Root)
			})
		})
	}
}

// TestOwnerKilledEarly kills owners at random moments of their start.
func TestOwnerKilledEarly(t *testing.T) {
	t.Parallel()
	o := small(t, "mariadb")
	for i := range 12 {
		c := startChild(t, o)
		time.Sleep(time.Duration(i) * 20 * time.Millisecond)
		must(t, c.cmd.Process.Kill())
		io.Copy(io.Discard, c.out)
		c.cmd.Wait()
	}
	eventually(t, "the servers die", func() bool { return len(serversIn(t, o.Root)) == 0 })
	stop(t, start(t, o))
	assertGone(t, o.Root)
}

func TestOwnerTerminated(t *testing.T) {
	t.Parallel()
	o := small(t, "mariadb")
	c := startChild(t, o)
	info := c.info(t)
	pgid, err := syscall.Getpgid(info.PID)
	must(t, err)
	if own, err := syscall.Getpgid(c.cmd.Process.Pid); err != nil || pgid == own {
		t.Errorf("the server is in its owner's process group %d: Ctrl-C reaches it (%v)", own, err)
	}
	must(t, c.cmd.Process.Signal(syscall.SIGTERM))
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, c.stderr)
	}
	if alive(info.PID) {
		t.Error("the server still runs")
	}
	assertGone(t, o.Root)
}

// TestStartTogether: processes that start at the same time, without a template,
// don't interfere with each other.
func TestStartTogether(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	o := small(t, "mariadb")
	var children []*child
	for range 3 {
		children = append(children, startChild(t, o))
	}
	seen := map[string]bool{}
	for _, c := range children {
		info := c.info(t)
		seen[ask(t, info, "SELECT @@datadir")] = true
	}
	if len(seen) != 3 {
		t.Errorf("data directories %v", seen)
	}
	templates, err := os.ReadDir(filepath.Join(cache, "rowmill/templates"))
	if err != nil || len(templates) != 2 { // one of them is the lock
		t.Errorf("templates %v, %v", templates, err)
	}
	for _, c := range children {
		must(t, c.cmd.Process.Signal(syscall.SIGTERM))
	}
	for _, c := range children {
		if err := c.cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, c.stderr)
		}
	}
	assertGone(t, o.Root)
}

// TestOrdinaryUser starts servers as nobody.
func TestOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user; the other tests have run as one")
	}
	const nobody = 65534
	eachKind(t, func(t *testing.T, o sandbox.Options) {
		if o.Kind == "mysql" {
			t.Skip("its program is in the cache of root")
		}
		// Its parent is not accessible to other users, unlike that of t.TempDir.
		home, err := os.MkdirTemp("", "sandbox-test-")
		must(t, err)
		t.Cleanup(func() { os.RemoveAll(home) })
		exe, err := os.ReadFile("/proc/self/exe")
		must(t, err)
		program := filepath.Join(home, "program")
		must(t, errors.Join(os.WriteFile(program, exe, 0o755), os.Chown(home, nobody, nobody)))
		o.Root = filepath.Join(home, ".rowmill")
		c := startChild(t, o, func(cmd *exec.Cmd) {
			cmd.Path, cmd.Args, cmd.Dir = program, []string{program}, home
			cmd.Env = append(cmd.Env, "HOME="+home, "XDG_CACHE_HOME=", "PATH=/usr/bin:/bin")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		})
		info := c.info(t)
		want(t, info, map[string]string{"SELECT 1": "1"})
		fi, err := os.Stat(info.DataDir)
		if err != nil || fi.Sys().(*syscall.Stat_t).Uid != nobody {
			t.Errorf("data directory %v, %v", fi, err)
		}
		// As root, Start refuses directories of other users.
		if _, err := sandbox.Start(t.Context(), o, t.Logf); err == nil || !strings.Contains(err.Error(), "belongs to another user") {
			t.Errorf("root in a user's directory: %v", err)
		}
		must(t, c.cmd.Process.Signal(syscall.SIGTERM))
		if err := c.cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, c.stderr)
		}
		assertGone(t, o.Root)
	})
}

// TestForeignServer: a server in a directory that looks like a sandbox, but is
// not provably one, is not stopped.
func TestForeignServer(t *testing.T) {
	t.Parallel()
	o := small(t, "mariadb")
	kept := o
	kept.Keep = filepath.Join(t.TempDir(), "kept")
	s := start(t, kept)
	stop(t, s)

	for _, test := range []struct {
		name  string
		files map[string]string
		ours  bool
	}{
		{"no lock", nil, false},
		{"no state that can be read", map[string]string{"lock": "", "sandbox.json": "{"}, false},
		{"state of another format", map[string]string{"lock": "", "sandbox.json": `{"format": "other/1"}`}, false},
		{"kept", map[string]string{"lock": "", "sandbox.json": `{"format": "rowmill.sandbox/1", "kind": "mariadb", "throwaway": false}`}, false},
		{"ours", map[string]string{"lock": "", "sandbox.json": `{"format": "rowmill.sandbox/1", "kind": "mariadb", "throwaway": true}`}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := small(t, "mariadb")
			dir := filepath.Join(o.Root, "sandbox-0123456789abcdef")
			must(t, os.CopyFS(filepath.Join(dir, "data"), os.DirFS(s.DataDir)))
			for name, text := range test.files {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			info := s.Info
			info.Socket = filepath.Join(t.TempDir(), "s")
			args := []string{"--no-defaults", "--datadir=" + filepath.Join(dir, "data"), "--socket=" + info.Socket,
				"--skip-networking", "--innodb-log-file-size=8M"}
			if os.Geteuid() == 0 {
				args = append(args, "--user=root")
			}
			cmd := exec.Command(strings.Fields(s.Params()["command"])[0], args...)
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			started, ended := make(chan error), make(chan struct{})
			go func() {
				runtime.LockOSThread() // Pdeathsig is tied to the thread
				defer runtime.UnlockOSThread()
				defer close(ended)
				err := cmd.Start()
				started <- err
				if err == nil {
					cmd.Wait()
				}
			}()
			must(t, <-started)
			defer func() { cmd.Process.Kill(); <-ended }()
			eventually(t, "the foreign server is up", func() bool {
				db, err := connect(t, info)
				db.Close()
				return err == nil
			})

			stop(t, start(t, o))
			if test.ours {
				select {
				case <-ended:
				case <-time.After(10 * time.Second):
					t.Error("it runs on")
				}
				assertGone(t, dir)
				return
			}
			if got := ask(t, info, "SELECT DATABASE()"); got != "rowmill" {
				t.Errorf("database %q", got)
			}
			if _, err := os.Stat(filepath.Join(dir, "data", "ibdata1")); err != nil {
				t.Error(err)
			}
		})
	}
}
