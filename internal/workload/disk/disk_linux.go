package disk

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rowmill/rowmill/internal/engine"
)

// onDisk refuses a folder whose files are in memory, or can't be opened for direct requests.
func onDisk(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	for magic, name := range map[int64]string{unix.TMPFS_MAGIC: "tmpfs", unix.RAMFS_MAGIC: "ramfs"} {
		if int64(st.Type) == magic {
			return engine.Hinted(fmt.Errorf("%s is on %s: its files are in memory, and memory is not a disk", dir, name), "a folder on the disk of the server's data")
		}
	}
	f, err := os.CreateTemp(dir, "rowmill-disk-*")
	if err != nil {
		return engine.Hinted(fmt.Errorf("no file can be made in %s: %w", dir, errors.Unwrap(err)), "a folder that this user may write to")
	}
	defer f.Close()
	direct, err := os.OpenFile(f.Name(), os.O_RDWR|syscall.O_DIRECT, 0)
	err = errors.Join(err, os.Remove(f.Name()))
	if errors.Is(err, unix.EINVAL) {
		return engine.Hinted(fmt.Errorf("the file system of %s can't open files for direct requests (O_DIRECT), so that its cache would be measured", dir),
			"a folder on the disk of the server's data")
	}
	if direct != nil {
		err = errors.Join(err, direct.Close())
	}
	return err
}

func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * st.Frsize, nil
}

// reserve allocates the file's blocks, so that a lack of space is noticed before anything is
// measured.
func reserve(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return f.Truncate(size)
	}
	return os.NewSyscallError("fallocate", err)
}

func allocated(st os.FileInfo) int64 {
	if s, ok := st.Sys().(*syscall.Stat_t); ok {
		return 512 * s.Blocks
	}
	return 0
}

// withParent makes a process end when rowmill ends. The process gets a session of its own, so that
// Ctrl-C in a terminal reaches rowmill alone, and so that the kernel schedules rowmill and the
// process as separate groups (sched_autogroup).
func withParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
