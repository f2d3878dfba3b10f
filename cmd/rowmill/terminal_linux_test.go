package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/charmbracelet/x/term"
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

// TestTerminalIsAskedNothing checks that no query is sent to the terminal: the command would wait
// for its answer, or the shell would get it. A view of a run leaves the terminal as it was.
func TestTerminalIsAskedNothing(t *testing.T) {
	for name, c := range map[string]struct {
		args, want string
		plain      bool
	}{
		"version": {"version", "rowmill", true},
		"view":    {"bench insert --target null: --max-time 1s --interval 100ms", "done: ", false},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := openTerminal(t)
			before, err := term.GetState(theirs.Fd())
			must(t, err)
			got := make(chan string)
			go func() {
				var text strings.Builder
				_, _ = io.Copy(&text, ours) // until the terminal is closed
				got <- text.String()
			}()
			cmd := onTerminal(theirs, strings.Fields(c.args)...)
			if err := cmd.Run(); err != nil {
				t.Error(err)
			}
			after, err := term.GetState(theirs.Fd())
			if err != nil || !reflect.DeepEqual(after, before) {
				t.Errorf("the terminal's state is %+v, was %+v: %v", after, before, err)
			}
			theirs.Close()
			text := <-got
			if !strings.Contains(text, c.want) || c.plain && strings.Contains(text, "\x1b") {
				t.Errorf("it wrote %q", text)
			}
			// Queries of modes, keys, colours, attributes and the cursor's position.
			if q := regexp.MustCompile(`\x1b(\[\??[0-9;]*(\$p|u|c|n)|\][0-9]+;\?)`).FindString(text); q != "" {
				t.Errorf("it asked %q in %q", q, text)
			}
		})
	}
}

// TestLoadOnTerminal checks that the progress of a load takes one line of a terminal, also where
// it publishes many periods.
func TestLoadOnTerminal(t *testing.T) {
	onSQLite(t, func(l *loading) {
		l.write("day.csv", publishedRows(600).text)
		ours, theirs := openTerminal(l.T)
		got := make(chan string)
		go func() {
			text, _ := io.ReadAll(ours) // until the terminal is closed
			got <- string(text)
		}()
		c := onTerminal(theirs, "load", l.file, "day.csv", "--lane", "publish", "--clock", l.clock)
		c.Dir = l.dir
		if err := c.Run(); c.ProcessState.ExitCode() != exitFailed { // it has bad rows
			l.Error(err)
		}
		theirs.Close()
		text := <-got
		for line := range strings.Lines(text) {
			if shown := line[strings.LastIndex(line, "\r\x1b[K")+1:]; strings.Contains(shown, "publish p2026") {
				l.Errorf("it leaves the line %q", line)
			}
		}
		if !strings.Contains(text, "publish p20260329_00: 100 rows") || !strings.Contains(text, "5 periods published, 501 rows") {
			l.Errorf("it shows %q", text)
		}
	})
}
