package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// inheritLock says whether a server that isn't detached also holds its sandbox's lock. On Linux it
// doesn't: if such a server is left in an unlocked sandbox, it is found by its command line.
const inheritLock = false

// serverAttr puts the server into a separate process group, so that it does not
// receive a terminal's Ctrl-C.
func serverAttr(k *kind, detached bool) *syscall.SysProcAttr {
	if detached {
		return &syscall.SysProcAttr{Setsid: true}
	}
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: k.deathSignal}
}

// startPassing starts a command, which does not run as root, with the capability CAP_DAC_OVERRIDE:
// so it can enter directories owned by root, and write to them. Root has this capability in
// containers, too.
//
// PostgreSQL checks with access(2) whether it may execute its own program. For this call, the
// kernel drops the capability unless SECBIT_NO_SETUID_FIXUP is set, which a child inherits from the
// thread that starts it. If the bit can't be set, all users must be able to enter the directories
// of the server's program, as is usual for packages.
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

func (s *state) servers() ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("look for running servers: %w", err)
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		ours, err := s.isServer(pid)
		if err != nil {
			return nil, err
		}
		if ours {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// isServer reports whether a process is the sandbox's server. An ended process is not, even if it
// is not reaped yet.
func (s *state) isServer(pid int) (bool, error) {
	path := "/proc/" + strconv.Itoa(pid)
	fi, err := os.Stat(path)
	if err != nil {
		return false, ended(err)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); !ok || !s.kind.runsAs(st.Uid) {
		return false, nil
	}
	data, err := os.ReadFile(path + "/cmdline")
	if err != nil {
		return false, ended(err)
	}
	if s.matches(strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")) {
		return true, nil
	}
	workingDir, err := os.Readlink(path + "/cwd")
	if err != nil || !s.isHome(workingDir) {
		return false, ended(err)
	}
	// This excludes a shell in that directory: the program must be the server's.
	program, err := os.Readlink(path + "/exe")
	if errors.Is(err, fs.ErrNotExist) {
		// The process is ending, and has no program any more. It counts as the server: until the kernel
		// has freed its memory, a new server would find the shared part of this memory in use.
		return true, nil
	}
	return err == nil && s.isProgram(program), ended(err)
}

func (k *kind) runsAs(uid uint32) bool {
	if int(uid) == os.Geteuid() {
		return true
	}
	as, err := k.account()
	return err == nil && as != nil && as.uid == uid
}

// ended drops errors caused by a process that ends while it is examined.
func ended(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) || errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// removeSharedMemory removes the segment of System V shared memory by which a killed PostgreSQL
// server reserved its data directory. No server of the directory may run. The kernel would keep the
// segment forever, and has room for only 4096.
func removeSharedMemory(dataDir string) error {
	text, err := os.ReadFile(filepath.Join(dataDir, "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was shut down
	}
	if err != nil {
		return err
	}
	key, id, ok := parsePostmaster(string(text))
	if !ok {
		return nil // killed before it had one
	}
	var segment unix.SysvShmDesc
	// The id may belong to another segment by now. So the key must be the one that was derived from
	// the directory, and no process may use the segment.
	if _, err := unix.SysvShmCtl(id, unix.IPC_STAT, &segment); err != nil || segment.Perm.Key != key || segment.Nattch > 0 {
		return nil
	}
	_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	return err
}

// parsePostmaster parses key and id of the segment in the seventh line of postmaster.pid.
func parsePostmaster(text string) (key int32, id int, ok bool) {
	lines := strings.Split(text, "\n")
	if len(lines) < 7 {
		return 0, 0, false
	}
	fields := strings.Fields(lines[6])
	if len(fields) != 2 {
		return 0, 0, false
	}
	// The server prints the key as an unsigned number.
	k, err1 := strconv.ParseUint(fields[0], 10, 32)
	id, err2 := strconv.Atoi(fields[1])
	return int32(uint32(k)), id, err1 == nil && err2 == nil
}
