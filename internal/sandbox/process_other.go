//go:build unix && !linux

package sandbox

import (
	"os/exec"
	"syscall"
)

// inheritLock is true because without a parent-death signal a server may outlive its owner. It then
// holds the lock of its sandbox, so that the sandbox is not removed.
const inheritLock = true

func serverAttr(_ *kind, detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}

// startPassing starts a command. Its account must be able to pass through the
// directories around the sandbox.
func startPassing(cmd *exec.Cmd) error { return cmd.Start() }

// servers returns none: without /proc there is no proof which sandbox a process
// belongs to. A running server holds its sandbox's lock.
func (s *state) servers() ([]int, error) { return nil, nil }

func (s *state) isServer(int) (bool, error) { return false, nil }

func removeSharedMemory(string) error { return nil }
