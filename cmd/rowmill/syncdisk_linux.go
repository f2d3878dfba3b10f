package main

import (
	"context"
	"os"

	"golang.org/x/sys/unix"
)

// syncDisk writes what the filesystem of the working directory, where private
// servers and temporary files live, holds in memory, so that one cell's writing isn't
// done at the cost of the next. It is given up on when ctx ends.
func syncDisk(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Best effort: what can't be synced now will be written later.
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
