package spool

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// syncFile returns when a file's data and size, or a directory's entries, are on
// disk. The file's times are not needed, so fdatasync suffices.
func syncFile(f *os.File, dir bool) error {
	if dir {
		return f.Sync()
	}
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if err == nil {
			return nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("fdatasync %s: %w", f.Name(), err)
		}
	}
}
