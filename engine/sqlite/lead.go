package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rowmill/rowmill/engine"
)

// Lead implements engine.Keeper. The lock is the operating system's, on a file
// beside the database, PATH-rowmill-NAME.lock: it is released when its process
// ends, however that ends. The file stays there, but for the lock of a source that
// is loaded, of which there are any number. On a file system of a network it is
// as good as that system's locks.
func (db *DB) Lead(ctx context.Context, name string) (engine.Lease, error) {
	path, err := lockPath(db.path, name)
	if err != nil {
		return nil, fmt.Errorf("take the lock %s: %w", name, err)
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f, err := takeLock(path)
		if err != nil {
			return nil, fmt.Errorf("take the lock %s: %w", name, err)
		}
		if f != nil {
			return &lease{file: f, remove: strings.Contains(name, "/load/"), lost: make(chan struct{})}, nil
		}
	}
}

// takeLock locks the file of that path. It returns nil where somebody has removed
// the file meanwhile, so that a lock on it is none.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	return lockOpened(f, path)
}

// lockOpened is takeLock for a file that was opened, which it closes unless it
// returns it.
func lockOpened(f *os.File, path string) (*os.File, error) {
	held, err := lockFile(f)
	if err == nil && held {
		err = engine.Classed(engine.ErrLockTimeout, fmt.Errorf("somebody else has %s", path))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	is, err := f.Stat()
	if err == nil {
		var at os.FileInfo
		if at, err = os.Stat(path); err == nil && os.SameFile(is, at) {
			return f, nil
		}
	}
	f.Close()
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return nil, err
}

// lockPath returns the file of a lock: the same by whatever way the database
// is reached.
func lockPath(path, name string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	escaped := url.PathEscape(name)
	// Of a name that is too long for a file the hash goes on, behind a sign that no
	// escaped name has.
	if spare := maxName - len(filepath.Base(path)+"-rowmill-.lock"); len(escaped) > spare {
		sum := sha256.Sum256([]byte(name))
		hash := "#" + hex.EncodeToString(sum[:16])
		escaped = escaped[:min(max(spare-len(hash), 0), readable)] + hash
	}
	return path + "-rowmill-" + escaped + ".lock", nil
}

const (
	// maxName is the longest name of a file, in bytes.
	maxName = 255
	// readable is how much of a long lock's name is in that of its file.
	readable = 64
)

type lease struct {
	file   *os.File
	remove bool // the file, too
	once   sync.Once
	lost   chan struct{}
}

// Lost implements engine.Lease: nothing but Release takes the lock away.
func (l *lease) Lost() <-chan struct{} { return l.lost }

// Release implements engine.Lease.
func (l *lease) Release() (err error) {
	l.once.Do(func() {
		close(l.lost)
		if l.remove {
			// Still locked: who has opened it sees that it is gone. One that can't
			// be removed does no harm.
			_ = os.Remove(l.file.Name())
		}
		err = errors.Join(unlockFile(l.file), l.file.Close())
	})
	return err
}
