package sandbox

import (
	"os/exec"
	"syscall"
)

// An account is whom a server runs as where it refuses to run as root.
//
// Its data directory belongs to the account; the directories around it stay
// root's, so that nobody else gets to the socket. On Linux the server is given
// the right to pass them.
type account struct{ uid, gid uint32 }

// apply makes a command, which has its SysProcAttr, run as the account. None
// is the calling user.
func (a *account) apply(cmd *exec.Cmd) {
	if a == nil {
		return
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	passDirectories(cmd.SysProcAttr)
	// The account may not be able to enter the caller's working directory
	// before the program begins, when it gets its rights.
	cmd.Dir = "/"
}
