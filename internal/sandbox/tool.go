package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// An account is the user that runs a server which refuses to run as root. It owns the data
// directory; root owns the directories above, so that no other user can access the socket.
type account struct{ uid, gid uint32 }

// start starts a command, whose SysProcAttr must be set, as the account; nil is the caller.
func (a *account) start(cmd *exec.Cmd) error {
	if a == nil {
		return cmd.Start()
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	// The account may not be allowed to enter the caller's working directory: it gets the capability
	// for that only when the program has started.
	cmd.Dir = "/"
	return startPassing(cmd)
}

// run runs a program as the account, and returns its standard output and error. When ctx ends, the
// program is killed with all its children.
func (a *account) run(ctx context.Context, stdin io.Reader, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = serverEnv()
	// If a child survives and keeps the output open, Wait returns after this delay.
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &out
	err := a.start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx) // otherwise the error is only the signal
	}
	if err != nil {
		err = fmt.Errorf("run %s: %w%s", name, err, indentTail(out.String()))
	}
	return out.String(), err
}

// serverEnv returns this process's environment without the variables of clients, such as passwords.
func serverEnv() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "MYSQL_") && !strings.HasPrefix(e, "MARIADB_") && !strings.HasPrefix(e, "PG") {
			env = append(env, e)
		}
	}
	return env
}

// tailSize is how many bytes of a log are read for an error, tailLines how many lines are shown.
const (
	tailSize  = 16 << 10
	tailLines = 12
)

func readTail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return ""
	}
	buf := make([]byte, min(fi.Size(), tailSize))
	n, _ := f.ReadAt(buf, fi.Size()-int64(len(buf)))
	return string(buf[:n])
}

// indentTail returns the most telling lines of a log, indented, to be appended to an error: the
// lines from the first error on, or else the last lines. Lines marked [Note] are left out if there
// are others.
func indentTail(log string) string {
	var all, significant []string
	first := -1 // of the errors among the significant lines
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		all = append(all, line)
		if !strings.Contains(line, "[Note]") {
			if first < 0 && saysError.MatchString(line) {
				first = len(significant)
			}
			significant = append(significant, line)
		}
	}
	if len(significant) > 0 {
		all = significant
	}
	switch {
	case len(all) == 0:
		return ""
	case first >= 0:
		return "; its log says:\n  " + strings.Join(all[first:min(len(all), first+tailLines)], "\n  ")
	}
	return "; its log ends with:\n  " + strings.Join(all[max(0, len(all)-tailLines):], "\n  ")
}

// saysError matches a line of a server's log that reports an error, such as "[ERROR] InnoDB: …" and
// "FATAL:  …".
var saysError = regexp.MustCompile(`\b(ERROR|FATAL|PANIC)\b`)
