package sandbox

import (
	"bytes"
	"os/exec"
	"syscall"
)

// An account is the user that a server runs as if it refuses to run as root.
//
// Its data directory is owned by the account; the directories around it are
// owned by root, so that no other user can access the socket. On Linux the
// server is given the capability to pass through them.
type account struct{ uid, gid uint32 }

// start starts a command, whose SysProcAttr must be set, as the account; a nil
// account is the calling user.
func (a *account) start(cmd *exec.Cmd) error {
	if a == nil {
		return cmd.Start()
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: a.uid, Gid: a.gid}
	// The account may not be able to enter the caller's working directory before
	// the program has started and has its capability.
	cmd.Dir = "/"
	return startPassing(cmd)
}

// output runs a command as the account, and returns its standard output and error.
func (a *account) output(cmd *exec.Cmd) ([]byte, error) {
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := a.start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	return out.Bytes(), err
}
