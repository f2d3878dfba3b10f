//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"errors"
	"os"
	"syscall"
)

// lockFile locks the file while it is open; held means that another open file holds the lock.
func lockFile(f *os.File) (held bool, err error) { return flock(f, syscall.LOCK_EX) }

// shareFile locks the file against lockFile, but not against other calls of shareFile.
func shareFile(f *os.File) (held bool, err error) { return flock(f, syscall.LOCK_SH) }

func flock(f *os.File, how int) (held bool, err error) {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return true, nil
		}
		return false, err
	}
}

// unlockFile releases the lock. Closing the file is not sufficient, because a
// child process shares the open file between fork and exec.
func unlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
