package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// openTerminal opens a pair of pseudo-terminals: text written to the second is read
// from the first, which never answers.
func openTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo-terminals here:", err)
	}
	t.Cleanup(func() { ours.Close() })
	var n, unlocked uint32
	for request, to := range map[uintptr]*uint32{syscall.TIOCGPTN: &n, syscall.TIOCSPTLCK: &unlocked} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, ours.Fd(), request, uintptr(unsafe.Pointer(to))); errno != 0 {
			t.Fatal(errno)
		}
	}
	if theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { theirs.Close() })
	return ours, theirs
}

// onTerminal returns rowmill in a separate process on a terminal.
func onTerminal(theirs *os.File, args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Stdin, c.Stdout, c.Stderr = theirs, theirs, theirs
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "CI=") && !strings.HasPrefix(e, "TERM=") {
			c.Env = append(c.Env, e)
		}
	}
	c.Env = append(c.Env, "TERM=xterm", processVariable+"=1")
	return c
}

// TestTerminalIsAskedNothing checks that no query is sent to the terminal: the command
// would wait for its answer.
func TestTerminalIsAskedNothing(t *testing.T) {
	ours, theirs := openTerminal(t)
	c := onTerminal(theirs, "version")
	if err := c.Run(); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4096)
	n, err := ours.Read(got)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(got[:n]); !strings.Contains(text, "rowmill") || strings.Contains(text, "\x1b") {
		t.Errorf("it wrote %q", text)
	}
}

// TestTerminalType checks that programs started by rowmill see the terminal's type.
func TestTerminalType(t *testing.T) {
	if got := os.Getenv("TERM"); got == "dumb" {
		t.Skip("the tests run on such a terminal")
	}
	before, err := os.ReadFile("/proc/self/environ")
	if err != nil {
		t.Fatal(err)
	}
	want, set := "", false
	for _, e := range strings.Split(string(before), "\x00") {
		if v, ok := strings.CutPrefix(e, "TERM="); ok {
			want, set = v, true
		}
	}
	if got, ok := os.LookupEnv("TERM"); got != want || ok != set {
		t.Errorf("TERM is %q, %v; it was %q, %v", got, ok, want, set)
	}
}
