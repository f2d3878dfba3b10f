package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A process is a server's process that this process has started.
type process struct {
	cmd  *exec.Cmd
	ask  os.Signal     // the signal for an orderly shutdown
	done chan struct{} // closed once it has ended and err is set
	err  error
	// endOthers ends the other processes of the server that still run after the
	// first has ended; nil if there are none.
	endOthers func() error
}

// startProcess starts cmd. Unless it is detached, the kernel kills it when this
// process ends, however it ends. A detached process has a session of its own.
func startProcess(cmd *exec.Cmd, k *kind, detached bool) (*process, error) {
	as, err := k.serverAccount()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = serverAttr(detached)
	p := &process{cmd: cmd, ask: k.signal(), done: make(chan struct{})}
	started := make(chan error)
	go func() {
		if !detached {
			// The kernel sends the parent-death signal when the thread that started
			// the child ends, and a thread ends with any goroutine that is locked to
			// it. Therefore this goroutine stays locked to its thread while the
			// child runs. It is then unlocked so that the thread does not end,
			// because other children may have been started from it.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
		}
		err := as.start(cmd)
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// stop asks the process to end, kills it when grace has expired or ctx is done,
// and waits until it has ended. It reports whether it had to kill it.
func (p *process) stop(ctx context.Context, grace time.Duration) (killed bool) {
	// Signal fails only if the process has already ended.
	_ = p.cmd.Process.Signal(p.ask)
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.done:
		p.ended()
		return false
	case <-ctx.Done():
	case <-t.C:
	}
	p.kill()
	return true
}

// kill kills the process and waits until it has ended.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
	p.ended()
}

// ended ends the server's other processes. A failure shows later, when the
// server's files are removed.
func (p *process) ended() {
	if p.endOthers != nil {
		_ = p.endOthers()
	}
}

// commandInGroup returns a command that is killed with all its children when ctx
// is done.
func commandInGroup(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = serverEnv()
	// If a child survives and keeps the output open, Wait returns after this delay.
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// serverEnv returns the environment of servers: that of this process without the
// variables that configure clients, including passwords.
func serverEnv() []string {
	var env []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "MYSQL_") && !strings.HasPrefix(e, "MARIADB_") && !strings.HasPrefix(e, "PG") {
			env = append(env, e)
		}
	}
	return env
}

// endServers ends the processes that are provably the server of the sandbox dir
// with state s: it asks them to end, and kills them when grace has expired.
func endServers(ctx context.Context, dir string, s state, grace time.Duration) error {
	k, err := kindOf(s.Kind)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(grace)
	sent := map[int]syscall.Signal{}
	for {
		pids, err := serversOf(dir, s)
		if err != nil || len(pids) == 0 {
			return err
		}
		sig := k.signal()
		if time.Now().After(deadline) || ctx.Err() != nil {
			sig = syscall.SIGKILL
		}
		for _, pid := range pids {
			if sent[pid] == sig {
				continue
			}
			sent[pid] = sig
			if err := signalServer(pid, dir, s, sig); err != nil {
				return err
			}
		}
		// A killed process that does not end is blocked in the kernel, by a disk.
		if time.Since(deadline) > 30*time.Second {
			return fmt.Errorf("server of %s, process %d, does not end", dir, pids[0])
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// signalServer signals a process after it has verified that it is the server of
// dir. It uses a handle that always refers to the same process.
func signalServer(pid int, dir string, s state, sig syscall.Signal) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer p.Release()
	if ours, err := isServerOf(pid, dir, s); err != nil || !ours {
		return err
	}
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal server of %s, process %d: %w", dir, pid, err)
	}
	return nil
}

// matches reports whether a command line is that of the server of the sandbox dir:
// the program is one of the kind's, and its data directory is that of the sandbox.
func matches(argv []string, dir string, s state) bool {
	k, err := kindOf(s.Kind)
	if err != nil || len(argv) == 0 {
		return false
	}
	program := false
	for _, name := range k.programs {
		program = program || filepath.Base(argv[0]) == name
	}
	if !program {
		return false
	}
	proofs := []string{k.dataDirArg(filepath.Join(dir, dataName))}
	// The same sandbox by another path: it was moved, or is reached through a
	// symbolic link. Its name is random, so the path is sufficient proof.
	was := filepath.Dir(s.DataDir)
	if throwAway.MatchString(filepath.Base(was)) && filepath.Base(was) == filepath.Base(dir) {
		proofs = append(proofs, k.dataDirArg(s.DataDir))
	}
	for _, arg := range argv[1:] {
		if slices.Contains(proofs, arg) {
			return true
		}
	}
	return false
}

// lives reports whether a process belongs to the server of the sandbox dir, by
// its working directory and its program. It is for the child processes of a
// server, whose command lines don't contain the data directory.
func lives(workingDir, program, dir string, s state) bool {
	k, err := kindOf(s.Kind)
	return err == nil && slices.Contains(k.programs, filepath.Base(strings.TrimSuffix(program, removed))) && livesIn(workingDir, dir, s)
}

// livesIn reports whether a process with that working directory may be one of
// those that lives is about.
func livesIn(workingDir, dir string, s state) bool {
	k, err := kindOf(s.Kind)
	return err == nil && k.children && strings.TrimSuffix(workingDir, removed) == filepath.Join(dir, dataName)
}

// removed is the suffix of a file or directory that was removed while it is in
// use, as the kernel lists it.
const removed = " (deleted)"

// tailSize is how much of a log is read for an error, in bytes; tailLines is how
// many of its lines are shown.
const (
	tailSize  = 16 << 10
	tailLines = 12
)

// readTail returns the end of a file, or "" if it can't be read.
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

// indentTail returns the last lines of a log, preferably the significant ones,
// each indented on a separate line, to be appended to an error's text.
func indentTail(log string) string {
	var all, telling []string
	for line := range strings.Lines(log) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		all = append(all, line)
		if !strings.Contains(line, "[Note]") {
			telling = append(telling, line)
		}
	}
	if len(telling) > 0 {
		all = telling
	}
	if len(all) == 0 {
		return ""
	}
	all = all[max(0, len(all)-tailLines):]
	return "; its log ends with:\n  " + strings.Join(all, "\n  ")
}

// causeOr returns the cause of ctx if it has ended, and err otherwise: a program
// that was killed because of ctx reports only the signal.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
