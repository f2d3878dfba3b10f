package experiment

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// syncDisk writes the cached changes of the working directory's filesystem to disk. Private servers
// and temporary files are on this filesystem, and the writes of one cell must not slow down the
// next cell. syncDisk stops waiting when ctx ends.
func syncDisk(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Best effort: changes that can't be synced are written later.
		if dir, err := os.Open("."); err == nil {
			_ = unix.Syncfs(int(dir.Fd()))
			_ = dir.Close()
		}
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
