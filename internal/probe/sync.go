package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// SyncEvery is the interval of Syncs' writes if syncs are fast: short enough that a write coincides
// with every stall of a tenth of a second, and long enough that the writes don't cause stalls.
const SyncEvery = 50 * time.Millisecond

// syncSize is the size of a write in bytes: a page of the file system.
const syncSize = 4096

// A Sync is a write that was synced to disk: when it began, and its duration.
type Sync struct {
	Began time.Time
	Took  time.Duration
}

// Syncs writes to a file of its own in dir and syncs it, every SyncEvery until ctx ends. A server
// does the same with its log at a commit. Syncs passes each write to tell. If a write takes as long
// as an insert that began at the same moment, the disk is what delays both.
func Syncs(ctx context.Context, dir string, tell func(Sync)) (err error) {
	f, err := os.CreateTemp(dir, "synced-*")
	if err != nil {
		return fmt.Errorf("time syncs: %w", err)
	}
	defer func() {
		if failed := errors.Join(f.Close(), os.Remove(f.Name())); failed != nil && err == nil {
			err = fmt.Errorf("time syncs: %w", failed)
		}
	}()
	data := make([]byte, syncSize)
	for {
		s := Sync{Began: time.Now()}
		data[0]++
		if _, err := f.WriteAt(data, 0); err != nil {
			return fmt.Errorf("time syncs: %w", err)
		}
		if err := f.Sync(); err != nil {
			return fmt.Errorf("time syncs: %w", err)
		}
		s.Took = time.Since(s.Began)
		tell(s)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(SyncEvery-s.Took, SyncEvery/2)):
		}
	}
}
