//go:build unix && !linux

package sandbox

import (
	"os/exec"
	"syscall"
)

// inheritLock is true because this system has no parent-death signal, and a server may outlive its
// owner. The server then holds its sandbox's lock, so that the sandbox is not removed.
const inheritLock = true

func serverAttr(_ *kind, detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}

// startPassing starts a command. The command's account must be able to enter the directories above
// the sandbox, since on this system it gets no capability to enter them.
func startPassing(cmd *exec.Cmd) error { return cmd.Start() }

// servers returns none: without /proc there is no proof which sandbox a process
// belongs to. A running server holds its sandbox's lock.
func (s *state) servers() ([]int, error) { return nil, nil }

func (s *state) isServer(int) (bool, error) { return false, nil }

func removeSharedMemory(string) error { return nil }
