package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// SyncEvery is how often Syncs writes where syncs are quick: often enough for any
// stall of a tenth of a second to meet a write, and seldom enough not to be one
// of its causes.
const SyncEvery = 50 * time.Millisecond

// syncSize is how much it writes, in bytes: a page of the file system's.
const syncSize = 4096

// A Sync is a write that was synced to disk: when it began, and how long that
// took.
type Sync struct {
	Began time.Time
	Took  time.Duration
}

// Syncs has a file of its own in dir written and synced each SyncEvery, as a commit
// has the server's log, until ctx ends, and removes it then. It tells each write:
// where one takes as long as an insert that began at the same moment, the disk
// is why. The directory should be on the disk of the server's files.
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
