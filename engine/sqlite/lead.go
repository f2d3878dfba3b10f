package sqlite

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"github.com/rowmill/rowmill/engine"
)

// Lead implements engine.Keeper. The lock is the operating system's, on a file
// beside the database, PATH-rowmill-NAME.lock, which stays there: it is
// released when its process ends, however that ends. On a file system of a
// network it is as good as that system's locks.
func (db *DB) Lead(ctx context.Context, name string) (engine.Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path, err := lockPath(db.path, name)
	if err != nil {
		return nil, fmt.Errorf("take the lock %s: %w", name, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("take the lock %s: %w", name, err)
	}
	held, err := lockFile(f)
	if err == nil && held {
		err = engine.Classed(engine.ErrLockTimeout, fmt.Errorf("somebody else has %s", path))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("take the lock %s: %w", name, err)
	}
	return &lease{file: f, lost: make(chan struct{})}, nil
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
	return path + "-rowmill-" + url.PathEscape(name) + ".lock", nil
}

type lease struct {
	file *os.File
	once sync.Once
	lost chan struct{}
}

// Lost implements engine.Lease: nothing but Release takes the lock away.
func (l *lease) Lost() <-chan struct{} { return l.lost }

// Release implements engine.Lease.
func (l *lease) Release() (err error) {
	l.once.Do(func() {
		close(l.lost)
		err = l.file.Close()
	})
	return err
}
