package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Files of a sandbox directory. lockFile is locked by the owner, or by a server that outlives it.
const (
	lockFile     = "lock"
	stateFile    = "sandbox.json"
	logFile      = "server.log"
	passwordFile = "password"
	pidFile      = "pid"
	dataName     = "data"
	tmpName      = "tmp"
	socketName   = "s"
)

// ourFiles are all names that this package and its servers create in a sandbox directory, in the
// order of removal: the files that identify it as a sandbox are last.
var ourFiles = []string{
	dataName, dataName + ".new", tmpName, socketName, socketName + ".lock", pidFile, logFile,
	passwordFile, stateFile + ".new", stateFile, lockFile,
}

var (
	throwAway = regexp.MustCompile(`^sandbox-[0-9a-f]{16}$`)
	named     = regexp.MustCompile(`^named-([A-Za-z0-9][A-Za-z0-9._-]{0,62})$`)
)

const stateFormat = "rowmill.sandbox/1"

// A state describes a sandbox in its directory.
type state struct {
	Format string `json:"format"`
	// Target is the text form of the options. Throwaway marks a sandbox that is removed when its owner
	// process has ended; named and kept sandboxes stay.
	Target    string `json:"target"`
	Throwaway bool   `json:"throwaway"`
	Kind      string `json:"kind"`
	Version   string `json:"version"`
	PID       int    `json:"pid"`
	DataDir   string `json:"data_dir"`
	Socket    string `json:"socket"`
	// Role is the server's role in a topology, or "".
	Role string `json:"role,omitempty"`
	// SocketDir is a directory outside the sandbox that contains only the socket, or "".
	SocketDir string `json:"socket_dir,omitempty"`
	Port      int    `json:"port,omitempty"`
	// Group is the port by which the members of a cluster find this one.
	Group   int       `json:"group,omitempty"`
	Started time.Time `json:"started"`

	dir  string // the sandbox
	kind *kind
}

func parseState(data []byte) (state, error) {
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return state{}, err
	}
	if s.Format != stateFormat {
		return state{}, fmt.Errorf("format %q, not %s", s.Format, stateFormat)
	}
	var err error
	if s.kind, err = kindOf(s.Kind); err != nil {
		return state{}, err
	}
	if s.SocketDir != "" && !socketDirName.MatchString(filepath.Base(s.SocketDir)) {
		return state{}, fmt.Errorf("socket directory %q is not one of rowmill's", s.SocketDir)
	}
	return s, nil
}

func readState(dir string) (state, error) {
	path := filepath.Join(dir, stateFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return state{}, err
	}
	s, err := parseState(data)
	if err != nil {
		return state{}, fmt.Errorf("read %s: %w", path, err)
	}
	s.dir = dir
	return s, nil
}

func (s *state) write() error {
	s.Format = stateFormat
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, stateFile)
	if err := os.WriteFile(path+".new", append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func (s *state) info(o Options) Info {
	i := Info{
		Kind: s.Kind, Version: s.Version, PID: s.PID, Dir: s.dir, DataDir: filepath.Join(s.dir, dataName), Socket: s.Socket,
		Port: s.Port, Group: s.Group, Role: s.Role, User: User, Database: Database, Options: o, Started: s.Started,
	}
	if s.Port != 0 {
		i.PasswordFile = filepath.Join(s.dir, passwordFile)
	}
	return i
}

// release removes the files of a sandbox whose server has ended, and closes its lock. If keep is
// set, it removes only the directory that was created for the socket.
func (s *state) release(lock *os.File, keep bool) error {
	if keep {
		return errors.Join(removeSocketDir(s.SocketDir), lock.Close())
	}
	return errors.Join(removeSandbox(s.dir, s.SocketDir), lock.Close())
}

var errLocked = errors.New("in use by another process")

// tryLock locks a directory; closing the returned file unlocks it. If create is set, it creates a
// missing lock file. It returns errLocked if another process holds the lock.
func tryLock(dir string, create bool) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	flags := os.O_RDWR | syscall.O_NOFOLLOW
	if create {
		flags |= os.O_CREATE
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR {
			break
		}
	}
	switch {
	case err == syscall.EWOULDBLOCK:
		return nil, errors.Join(errLocked, f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	// The previous holder may have removed the file; the lock is then without effect.
	held, err := f.Stat()
	if err == nil {
		var there fs.FileInfo
		if there, err = os.Lstat(path); err == nil && !os.SameFile(held, there) {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lockPoll is the interval between attempts to lock. A lock of a Root is held for milliseconds, a
// lock of templates for about a second.
const lockPoll = 20 * time.Millisecond

func waitLock(ctx context.Context, dir string) (*os.File, error) {
	for {
		f, err := tryLock(dir, true)
		if !errors.Is(err, errLocked) {
			return f, err
		}
		if err := sleep(ctx, lockPoll); err != nil {
			return nil, fmt.Errorf("wait for the lock of %s: %w", dir, err)
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// lockRoot creates the root directory if necessary, and locks it. Callers hold this lock while they
// create, search or remove sandboxes in it.
func lockRoot(ctx context.Context, root string) (*os.File, error) {
	for {
		if err := makeRoot(root); err != nil {
			return nil, err
		}
		f, err := waitLock(ctx, root)
		if errors.Is(err, fs.ErrNotExist) && ctx.Err() == nil {
			continue // another process has just removed the empty root
		}
		return f, err
	}
}

// rootMark marks a root that this package has created and may remove; git ignores it.
const (
	rootMark     = ".gitignore"
	rootMarkText = "# Made by rowmill for its sandboxes; removed when empty.\n*\n"
)

func makeRoot(root string) error {
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
		return err
	}
	err := os.Mkdir(root, 0o700)
	if errors.Is(err, fs.ErrExist) {
		// The root must belong to this user: its owner could replace the sandboxes in it.
		return ownDirectory(root)
	}
	if err != nil {
		return err
	}
	err = os.WriteFile(filepath.Join(root, rootMark), []byte(rootMarkText), 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed again by another process; lockRoot recreates it
	}
	return err
}

// tidyRoot removes an empty root that this package has created, unless another process uses it.
func tidyRoot(root string) {
	f, err := tryLock(root, false)
	if err != nil {
		return
	}
	defer f.Close()
	mark, err := os.ReadFile(filepath.Join(root, rootMark))
	if err != nil || !strings.HasPrefix(rootMarkText, string(mark)) { // a killed process may have written a part
		return
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.Name() != rootMark && e.Name() != lockFile {
			return
		}
	}
	// If this fails, only an empty directory remains.
	_ = os.Remove(filepath.Join(root, rootMark))
	_ = os.Remove(filepath.Join(root, lockFile))
	_ = os.Remove(root)
}

// sweep finds the throwaway sandboxes under root whose owner process has ended. It stops their
// servers and removes them. The caller holds the root's lock. All else stays.
func sweep(ctx context.Context, root string, logf func(string, ...any)) {
	entries, err := os.ReadDir(root)
	if err != nil {
		logf("look for leftovers in %s: %v", root, err)
		return
	}
	for _, e := range entries {
		if !throwAway.MatchString(e.Name()) || ctx.Err() != nil {
			continue
		}
		dir := filepath.Join(root, e.Name())
		removed, err := sweepOne(ctx, dir)
		switch {
		case err != nil:
			logf("leave %s as it is: %v", dir, err)
		case removed:
			logf("removed %s, left behind by a process that was killed", dir)
		}
	}
}

func sweepOne(ctx context.Context, dir string) (removed bool, err error) {
	if err := ownDirectory(dir); err != nil {
		return false, err
	}
	lock, err := tryLock(dir, false)
	if errors.Is(err, fs.ErrNotExist) {
		// Either dir is not a sandbox, or its owner was killed before it created the lock file; then dir
		// is empty. Remove removes only an empty directory.
		return os.Remove(dir) == nil, nil
	}
	if errors.Is(err, errLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s, err := readState(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Its owner was killed before it wrote the state, hence before it started a server.
		s.dir = dir
	case err != nil || !s.Throwaway:
		return false, errors.Join(err, lock.Close())
	default:
		if err := s.endServers(ctx, 0); err != nil {
			return false, errors.Join(err, lock.Close())
		}
	}
	return true, s.release(lock, false)
}

func ownDirectory(dir string) error {
	fi, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to another user", dir)
	}
	return nil
}

// removeSandbox removes what this package has created in dir, and then dir, if it is empty. The
// caller holds the sandbox's lock, and its server has ended.
func removeSandbox(dir, socketDir string) error {
	errs := []error{removeSocketDir(socketDir)}
	sockets, err := postgresSockets(dir)
	errs = append(errs, err, removeSharedMemory(filepath.Join(dir, dataName)))
	for _, name := range slices.Concat(sockets, ourFiles) {
		// The lock is removed only after all other files, so that the next sweep
		// completes an interrupted removal.
		if name == lockFile && errors.Join(errs...) != nil {
			break
		}
		errs = append(errs, os.RemoveAll(filepath.Join(dir, name)))
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// maxSocketPath is the longest path of a Unix socket in bytes: sun_path has 104 on BSD and
// macOS, 108 on Linux, with the terminating zero.
const maxSocketPath = 103

var socketDirName = regexp.MustCompile(`^rowmill-[0-9a-f]{16}$`)

// socketPlace returns the path of a sandbox's socket: in the sandbox's directory or, if this path
// is too long for a socket, in socketDir, a new directory elsewhere that the caller must create.
func socketPlace(dir, id, name string) (socket, socketDir string, err error) {
	if socket = filepath.Join(dir, name); len(socket) <= maxSocketPath {
		return socket, "", nil
	}
	for _, tmp := range []string{os.Getenv("XDG_RUNTIME_DIR"), os.TempDir(), "/tmp"} {
		if !filepath.IsAbs(tmp) {
			continue
		}
		socketDir = filepath.Join(tmp, "rowmill-"+id)
		if fi, err := os.Stat(tmp); err != nil || !fi.IsDir() {
			continue
		}
		if socket = filepath.Join(socketDir, name); len(socket) <= maxSocketPath {
			return socket, socketDir, nil
		}
	}
	return "", "", fmt.Errorf("place the socket of %s: its path, and those in the temporary directories, are longer than the %d bytes a socket can have", dir, maxSocketPath)
}

// removeSocketDir removes a directory with its sockets; for "", it does nothing. It removes no
// other files: the path comes from a state file, which somebody may have changed.
func removeSocketDir(dir string) error {
	if dir == "" {
		return nil
	}
	if err := ownDirectory(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	sockets, err := postgresSockets(dir)
	if err != nil {
		return err
	}
	for _, name := range append(sockets, socketName, socketName+".lock") {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Remove(dir)
}

func shellQuote(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
