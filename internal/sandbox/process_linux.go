package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// inheritLock means that a server that ends with its owner also holds the lock
// of its sandbox. On Linux it does not: an unlocked sandbox is one whose owner
// is gone, and a server left in it is found by its command line.
const inheritLock = false

// serverAttr puts the server into a separate process group, so that it does not
// receive a terminal's Ctrl-C.
func serverAttr(detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// startPassing starts a command that does not run as root with the capability to
// pass through, and write to, directories owned by root. Unlike most
// capabilities, this one (CAP_DAC_OVERRIDE) is available to root in containers.
//
// PostgreSQL checks with access(2) whether it may execute itself. For that call
// the kernel drops the capability of an account that is not root, unless
// SECBIT_NO_SETUID_FIXUP is set, which the child inherits from the thread that
// starts it. If setting it is refused, all users must be able to pass through
// the directories of the server's program, as is the case for packages.
func startPassing(cmd *exec.Cmd) error {
	cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_DAC_OVERRIDE}
	runtime.LockOSThread()
	before, err := unix.PrctlRetInt(unix.PR_GET_SECUREBITS, 0, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECUREBITS, uintptr(before)|secbitNoSetuidFixup, 0, 0, 0)
	}
	started := cmd.Start()
	if err != nil || unix.Prctl(unix.PR_SET_SECUREBITS, uintptr(before), 0, 0, 0) == nil {
		runtime.UnlockOSThread()
	} // else the thread ends with the goroutine that is locked to it
	return started
}

// secbitNoSetuidFixup is SECBIT_NO_SETUID_FIXUP of linux/securebits.h.
const secbitNoSetuidFixup = 1 << 2

// serversOf returns the processes that are provably servers of a sandbox.
func serversOf(dir string, s state) ([]int, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("look for running servers: %w", err)
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("look for running servers: %w", err)
	}
	var pids []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		ours, err := isServerOf(pid, dir, s)
		if err != nil {
			return nil, err
		}
		if ours {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// isServerOf reports whether a process of the calling user is the server of a
// sandbox. A process that has ended is not, even if it is not reaped yet.
func isServerOf(pid int, dir string, s state) (bool, error) {
	path := "/proc/" + strconv.Itoa(pid)
	fi, err := os.Stat(path)
	if err != nil {
		return false, ended(err)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !ok || !runsServers(st.Uid, s) {
		return false, nil
	}
	data, err := os.ReadFile(path + "/cmdline")
	if err != nil {
		return false, ended(err)
	}
	if matches(strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00"), dir, s) {
		return true, nil
	}
	workingDir, err := os.Readlink(path + "/cwd")
	if err != nil {
		return false, ended(err)
	}
	// This excludes a shell in that directory: the program must be the server's.
	program, err := os.Readlink(path + "/exe")
	if errors.Is(err, fs.ErrNotExist) {
		// The process is ending. It has no program any more, and until it has given
		// its memory back a new server finds the shared part of it in use.
		return livesIn(workingDir, dir, s), nil
	} else if err != nil {
		return false, ended(err)
	}
	return lives(workingDir, program, dir, s), nil
}

// runsServers reports whether the servers of a sandbox run as the given user.
func runsServers(uid uint32, s state) bool {
	if int(uid) == os.Geteuid() {
		return true
	}
	k, err := kindOf(s.Kind)
	if err != nil {
		return false
	}
	as, err := k.serverAccount()
	return err == nil && as != nil && as.uid == uid
}

// ended removes errors that are caused by a process that ends while it is examined.
func ended(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}
