//go:build unix && !linux

package sandbox

import "syscall"

// inheritLock: without a parent-death signal a server may outlive its owner. It
// then holds the lock of its sandbox, which is left alone.
const inheritLock = true

func serverAttr(detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true}
}

// passDirectories does nothing: the directories around the sandbox must be ones
// that the account can pass.
func passDirectories(*syscall.SysProcAttr) {}

// serversOf finds none: without /proc there is no proof whose server a process
// is. A server that runs holds its sandbox's lock.
func serversOf(string, state) ([]int, error) { return nil, nil }

func isServerOf(int, string, state) (bool, error) { return false, nil }
