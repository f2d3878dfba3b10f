package sandbox

import (
	"bytes"
	"os/exec"
	"syscall"
)

// An account is whom a server runs as where it refuses to run as root.
//
// Its data directory belongs to the account; the directories around it stay
// root's, so that nobody else gets to the socket. On Linux the server is given
// the right to pass them.
type account struct{ uid, gid uint32 }

// start starts a command, which has its SysProcAttr, as the account. None is the
// calling user.
func (a *account) start(cmd *exec.Cmd) error {
	if a == nil {
		return cmd.Start()
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	// The account may not be able to enter the caller's working directory
	// before the program begins, when it gets its rights.
	cmd.Dir = "/"
	return startPassing(cmd)
}

// output runs a command as the account, and returns all that it prints.
func (a *account) output(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := a.start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	return out.Bytes(), err
}
