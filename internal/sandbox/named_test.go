//go:build linux

package sandbox_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/rowmill/rowmill/internal/sandbox"
)

// only returns the single sandbox under a root.
func only(t *testing.T, root string) sandbox.Instance {
	t.Helper()
	list, err := sandbox.List(root)
	must(t, err)
	if len(list) != 1 {
		t.Fatalf("sandboxes %v", list)
	}
	return list[0]
}

// TestNamed: a named server keeps running when the process that started it ends. Any
// other process can list it, stop it, and start it again with its data.
func TestNamed(t *testing.T) {
	t.Parallel()
	eachKind(t, func(t *testing.T, o sandbox.Options) {
		c := startChild(t, o, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, nameVariable+"=a") })
		info := c.info(t)
		t.Cleanup(func() { _ = sandbox.StopNamed(context.Background(), o.Root, "a", false) })
		if err := c.cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, c.stderr)
		}
		execute(t, info, "CREATE TABLE a (id INT)")
		if sid, err := unix.Getsid(info.PID); err != nil || sid != info.PID {
			t.Errorf("session %d, %v: closing the terminal ends the server", sid, err)
		}
		in := only(t, o.Root)
		if in.Name != "a" || in.State != sandbox.Running || in.Bytes < 8<<20 || in.ClientCommand() == "" {
			t.Errorf("listed as %+v", in)
		}
		if diff := cmp.Diff(info, in.Info, cmp.Comparer(func(a, b sandbox.Options) bool { return a.Target() == b.Target() })); diff != "" {
			t.Errorf("Info of StartNamed and List (-/+):\n%s", diff)
		}
		if _, err := sandbox.StartNamed(t.Context(), "a", o, nil); !errors.Is(err, sandbox.ErrRunning) {
			t.Errorf("second start: %v", err)
		}
		// A throwaway server under the same root does not affect it.
		stop(t, start(t, o))
		want(t, info, map[string]string{"SELECT COUNT(*) FROM a": "0"})

		again := func() sandbox.Info {
			t.Helper()
			info, err := sandbox.StartNamed(t.Context(), "a", o, t.Logf)
			must(t, err)
			return info
		}
		must(t, sandbox.StopNamed(t.Context(), o.Root, "a", true))
		if in := only(t, o.Root); in.State != sandbox.Stopped || in.PID != 0 || alive(info.PID) {
			t.Errorf("after a stop that keeps data: %+v", in)
		}
		info = again()
		execute(t, info, "INSERT INTO a VALUES (1)")
		must(t, syscall.Kill(info.PID, syscall.SIGKILL))
		eventually(t, "the crash is seen", func() bool { return only(t, o.Root).State == sandbox.Crashed })
		want(t, again(), map[string]string{"SELECT COUNT(*) FROM a": "1"})

		for _, stop := range []struct{ name, want string }{{"b", "there is none"}, {"a", ""}, {"a", "there is none"}} {
			err := sandbox.StopNamed(t.Context(), o.Root, stop.name, false)
			if (err == nil) != (stop.want == "") || err != nil && !strings.Contains(err.Error(), stop.want) {
				t.Errorf("stopping %s: %v, want %q", stop.name, err, stop.want)
			}
		}
		if left := serversIn(t, o.Root); len(left) > 0 {
			t.Errorf("processes %v are left", left)
		}
		assertGone(t, o.Root)
	})
}

func TestNamedRefuses(t *testing.T) {
	o := small(t, "mariadb")
	kept := o
	kept.Keep = t.TempDir()
	for name, test := range map[string]struct {
		name string
		o    sandbox.Options
	}{
		"empty name":   {"", o},
		"path as name": {"../a", o},
		"hidden name":  {".a", o},
		"long name":    {strings.Repeat("a", 64), o},
		"keep":         {"a", kept},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := sandbox.StartNamed(t.Context(), test.name, test.o, t.Logf); err == nil {
				t.Error("it started")
			}
			assertGone(t, o.Root)
		})
	}
}

// TestListForeign: directories that are not sandboxes are not listed, and damage
// is reported.
func TestListForeign(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"named-a", "other", "sandbox-0123456789abcdef"} {
		must(t, os.Mkdir(filepath.Join(root, name), 0o700))
	}
	if list, err := sandbox.List(root); err != nil || len(list) != 0 {
		t.Errorf("listed %v, %v", list, err)
	}
	must(t, os.WriteFile(filepath.Join(root, "named-a", "sandbox.json"), []byte("{"), 0o600))
	if list, err := sandbox.List(root); err == nil || !strings.Contains(err.Error(), "named-a") {
		t.Errorf("listed %v, %v", list, err)
	}
	if list, err := sandbox.List(filepath.Join(root, "none")); err != nil || len(list) != 0 {
		t.Errorf("listed %v, %v", list, err)
	}
}
