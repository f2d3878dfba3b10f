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

// A process is the process of a server that this program has started.
type process struct {
	cmd  *exec.Cmd
	ask  os.Signal     // the signal for an orderly shutdown
	done chan struct{} // closed once it has ended and err is set
	err  error
	// endOthers ends other processes of the server that outlive the first; nil if there are none.
	endOthers func() error
}

// startProcess starts cmd. If detached, the process gets a session of its own, and may outlive this
// program. Otherwise the kernel ends it when this program ends, for whatever reason.
func startProcess(cmd *exec.Cmd, k *kind, detached bool) (*process, error) {
	as, err := k.account()
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr = serverAttr(k, detached)
	p := &process{cmd: cmd, ask: k.stopSignal, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		if !detached {
			// The kernel sends the parent-death signal when the thread that started the child ends. A thread
			// ends with the goroutine that is locked to it. So this goroutine stays locked to its thread as
			// long as the child runs. Then it unlocks the thread, so that the thread doesn't end: it may
			// have started other children.
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

// stop asks the process to end, kills it when grace has expired or ctx is done, and reports whether
// it was killed.
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

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
	p.ended()
}

// ended ends the server's other processes. If it can't, the removal of the server's files fails.
func (p *process) ended() {
	if p.endOthers != nil {
		_ = p.endOthers()
	}
}

// exit describes how a process has ended.
func (p *process) exit() string {
	if p.err != nil {
		return p.err.Error()
	}
	return "it ended by itself"
}

// endServers asks the sandbox's server processes to end; it kills those that haven't ended after
// grace. It touches only processes of which isServer has proved that they are the sandbox's.
func (s *state) endServers(ctx context.Context, grace time.Duration) error {
	deadline := time.Now().Add(grace)
	sent := map[int]syscall.Signal{}
	for {
		pids, err := s.servers()
		if err != nil || len(pids) == 0 {
			return err
		}
		sig := s.kind.stopSignal
		if time.Now().After(deadline) || ctx.Err() != nil {
			sig = syscall.SIGKILL
		}
		for _, pid := range pids {
			if sent[pid] == sig {
				continue
			}
			sent[pid] = sig
			if err := s.signal(pid, sig); err != nil {
				return err
			}
		}
		// A killed process that does not end is blocked in the kernel, by a disk.
		if time.Since(deadline) > 30*time.Second {
			return fmt.Errorf("server of %s, process %d, does not end", s.dir, pids[0])
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// signal sends a signal to a process, but only if the process is the sandbox's server. The handle p
// is opened before this check, and keeps referring to the process that was checked.
func (s *state) signal(pid int, sig syscall.Signal) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	defer p.Release()
	if ours, err := s.isServer(pid); err != nil || !ours {
		return err
	}
	if err := p.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal server of %s, process %d: %w", s.dir, pid, err)
	}
	return nil
}

// matches reports whether a command line is that of the sandbox's server.
func (s *state) matches(argv []string) bool {
	if len(argv) == 0 {
		return false
	}
	if slices.Contains(s.kind.helpers, filepath.Base(argv[0])) {
		within := s.DataDir + string(filepath.Separator)
		return s.DataDir != "" && slices.ContainsFunc(argv[1:], func(arg string) bool { return strings.HasPrefix(strings.TrimPrefix(arg, s.kind.dataDirArg), within) })
	}
	if !slices.Contains(s.kind.programs, filepath.Base(argv[0])) {
		return false
	}
	proofs := []string{s.kind.dataDirArg + filepath.Join(s.dir, dataName)}
	// The sandbox may have another path than when it was created: it was moved, or is reached through
	// a symbolic link. Then the old path is also a proof that this is the sandbox's server, since the
	// directory's name is random.
	was := filepath.Base(filepath.Dir(s.DataDir))
	if throwAway.MatchString(was) && was == filepath.Base(s.dir) {
		proofs = append(proofs, s.kind.dataDirArg+s.DataDir)
	}
	return slices.ContainsFunc(argv[1:], func(arg string) bool { return slices.Contains(proofs, arg) })
}

// removed is the kernel's suffix of a file or directory that was removed while in use.
const removed = " (deleted)"

func (s *state) isProgram(file string) bool {
	return slices.Contains(s.kind.programs, filepath.Base(strings.TrimSuffix(file, removed)))
}

// isHome reports whether a process with this working directory may be a child process of the
// sandbox's server. Such a child's command line doesn't contain the data directory.
func (s *state) isHome(workingDir string) bool {
	return s.kind.children && strings.TrimSuffix(workingDir, removed) == filepath.Join(s.dir, dataName)
}
