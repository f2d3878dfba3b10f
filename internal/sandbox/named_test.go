//go:build linux

package sandbox_test

import (
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

// startNamed starts a named server that is stopped when the test ends.
func startNamed(t *testing.T, name string, o sandbox.Options) sandbox.Info {
	t.Helper()
	needServer(t)
	info, err := sandbox.StartNamed(t.Context(), name, o, t.Logf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		list, err := sandbox.List(o.Root)
		if err != nil {
			t.Error(err)
		}
		for _, in := range list {
			if err := sandbox.StopNamed(t.Context(), o.Root, in.Name, false); in.Name == name && err != nil {
				t.Error(err)
			}
		}
	})
	return info
}

// only returns the single sandbox under a root.
func only(t *testing.T, root string) sandbox.Instance {
	t.Helper()
	list, err := sandbox.List(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		t.Fatalf("sandboxes %v", list)
	}
	return list[0]
}

func TestNamed(t *testing.T) {
	o := small(t)
	info := startNamed(t, "a", o)
	execute(t, info, "CREATE TABLE a (id INT)")
	in := only(t, o.Root)
	if in.Name != "a" || in.State != sandbox.Running || in.Bytes < o.Redo {
		t.Errorf("listed as %+v", in)
	}
	in.Info.Started, info.Started = info.Started, info.Started.UTC()
	if diff := cmp.Diff(info, in.Info, cmp.Comparer(func(a, b sandbox.Options) bool { return a.Target() == b.Target() })); diff != "" {
		t.Errorf("Info of StartNamed and List (-/+):\n%s", diff)
	}
	if _, err := sandbox.StartNamed(t.Context(), "a", o, nil); !errors.Is(err, sandbox.ErrRunning) {
		t.Errorf("second start: %v", err)
	}
	// A throwaway server under the same root does not affect it.
	stop(t, start(t, o))
	if got := ask(t, info, "SELECT COUNT(*) FROM a"); got != "0" {
		t.Errorf("%s rows", got)
	}

	if err := sandbox.StopNamed(t.Context(), o.Root, "a", true); err != nil {
		t.Fatal(err)
	}
	if in := only(t, o.Root); in.State != sandbox.Stopped || in.PID != 0 || alive(info.PID) {
		t.Errorf("after a stop that keeps data: %+v", in)
	}
	info = startNamed(t, "a", o)
	execute(t, info, "INSERT INTO a VALUES (1)")
	if err := syscall.Kill(info.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the crash is seen", func() bool { return only(t, o.Root).State == sandbox.Crashed })
	stop(t, start(t, o))
	info = startNamed(t, "a", o)
	if got := ask(t, info, "SELECT COUNT(*) FROM a"); got != "1" {
		t.Errorf("%s rows after a crash", got)
	}

	if err := sandbox.StopNamed(t.Context(), o.Root, "b", false); err == nil || !strings.Contains(err.Error(), "only a") {
		t.Errorf("stopping another: %v", err)
	}
	if err := sandbox.StopNamed(t.Context(), o.Root, "a", false); err != nil {
		t.Fatal(err)
	}
	assertGone(t, o.Root)
	if err := sandbox.StopNamed(t.Context(), o.Root, "a", false); err == nil || !strings.Contains(err.Error(), "there is none") {
		t.Errorf("stopping it again: %v", err)
	}
}

func TestNamedRefuses(t *testing.T) {
	o := small(t)
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

// TestNamedOutlivesOwner: a named server keeps running when the process that
// started it ends, and any other process can list and stop it.
func TestNamedOutlivesOwner(t *testing.T) {
	needServer(t)
	o := small(t)
	c := startChild(t, o, func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, nameVariable+"=a") })
	info := c.info(t)
	if err := c.cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, c.stderr)
	}
	if got := ask(t, info, "SELECT DATABASE()"); got != "rowmill" {
		t.Errorf("database %q", got)
	}
	if in := only(t, o.Root); in.State != sandbox.Running || in.PID != info.PID {
		t.Errorf("listed as %+v", in)
	}
	if sid, err := unix.Getsid(info.PID); err != nil || sid != info.PID {
		t.Errorf("session %d, %v: closing the terminal ends the server", sid, err)
	}
	if err := sandbox.StopNamed(t.Context(), o.Root, "a", false); err != nil {
		t.Fatal(err)
	}
	if alive(info.PID) {
		t.Error("it still runs")
	}
	assertGone(t, o.Root)
}

// TestListForeign: directories that are not sandboxes are not listed, and damage
// is reported.
func TestListForeign(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"named-a", "other", "sandbox-0123456789abcdef"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := sandbox.List(root); err != nil || len(list) != 0 {
		t.Errorf("listed %v, %v", list, err)
	}
	if err := os.WriteFile(filepath.Join(root, "named-a", "sandbox.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := sandbox.List(root); err == nil || !strings.Contains(err.Error(), "named-a") {
		t.Errorf("listed %v, %v", list, err)
	}
	if list, err := sandbox.List(filepath.Join(root, "none")); err != nil || len(list) != 0 {
		t.Errorf("listed %v, %v", list, err)
	}
}
