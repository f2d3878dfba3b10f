package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// SyncEvery is how often Syncs writes: often enough for any stall of a tenth of
// a second to meet a write, and seldom enough not to be one of its causes.
const SyncEvery = 50 * time.Millisecond

// syncSize is how much it writes, in bytes: a page of the file system's.
const syncSize = 4096

// A Sync is a write that was synced to disk: when it began, and how long that
// took.
type Sync struct {
	Began time.Time
	Took  time.Duration
}

// Syncs has a file of its own written and synced each SyncEvery, as a commit has
// the server's log, until ctx ends, and removes it then. It tells each write:
// where one takes as long as an insert that began at the same moment, the disk
// is why. The file should lie beside the server's, and must not be there.
func Syncs(ctx context.Context, path string, tell func(Sync)) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("time syncs: %w", err)
	}
	defer func() {
		if failed := errors.Join(f.Close(), os.Remove(path)); failed != nil && err == nil {
			err = fmt.Errorf("time syncs: %w", failed)
		}
	}()
	data := make([]byte, syncSize)
	tick := time.NewTicker(SyncEvery)
	defer tick.Stop()
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
		case <-tick.C:
		}
	}
}
