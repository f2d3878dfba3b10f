package sqlite

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// Lead implements engine.Keeper. It locks a file beside the database, PATH-rowmill-NAME.lock, with
// a lock of the operating system, which ends with the process. Release keeps the file, except if
// the lock is for loading a source or publishing a period: there may be any number of such locks.
// On a network file system the lock is as reliable as that system's locks.
func (db *database) Lead(ctx context.Context, name string) (engine.Lease, error) {
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
			if f.Truncate(0) == nil {
				_, _ = f.WriteAt([]byte(engine.Process()+"\n"), 0) // for Holder; the lock holds without it
			}
			return &lease{file: f, remove: strings.Contains(name, "/load/") || strings.Contains(name, "/publish/"), lost: make(chan struct{})}, nil
		}
	}
}

func (db *database) Holder(name string) (string, error) {
	path, err := lockPath(db.path, name)
	if err != nil {
		return "", fmt.Errorf("look at the lock %s: %w", name, err)
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look at the lock %s: %w", name, err)
	}
	defer f.Close()
	held, err := shareFile(f)
	if err != nil || !held {
		return "", errors.Join(err, unlockFile(f))
	}
	text, err := io.ReadAll(io.LimitReader(f, maxName))
	return cmp.Or(strings.TrimSpace(string(text)), "another process"), err
}

// Stamp implements engine.LocalFile by the sizes and times of the database's files. A change of the
// database appends to the write-ahead log or a journal, or writes the file, and so changes one of
// these. Times have steps of some milliseconds: a file written just now may be written again
// without a trace, so Stamp then returns no stamp.
func (db *database) Stamp() string {
	out := ""
	for _, suffix := range []string{"", "-wal", "-journal"} {
		info, err := os.Stat(db.path + suffix)
		if errors.Is(err, os.ErrNotExist) && suffix != "" || err == nil && info.Size() == 0 {
			continue
		}
		if err != nil || time.Since(info.ModTime()) < time.Second {
			return ""
		}
		out += fmt.Sprintf("%s %d %d;", suffix, info.Size(), info.ModTime().UnixNano())
	}
	return out
}

var _ engine.LocalFile = (*DB)(nil)

// takeLock locks the file at a path. It returns nil if the file was removed or
// replaced meanwhile: a lock on it would have no effect.
func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	return lockOpened(f, path)
}

// lockOpened is takeLock for an open file. It closes the file unless it returns it.
func lockOpened(f *os.File, path string) (*os.File, error) {
	held, err := lockFile(f)
	if err == nil && held {
		err = engine.Classed(engine.ErrLockTimeout, fmt.Errorf("another process holds the lock on %s", path))
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

// lockPath returns the path of a lock's file. It is the same for every path and
// symbolic link to the database.
func lockPath(path, name string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	escaped := url.PathEscape(name)
	// A name that is too long for a file is shortened and followed by its hash,
	// after a character that no escaped name contains.
	if spare := maxName - len(filepath.Base(path)+"-rowmill-.lock"); len(escaped) > spare {
		sum := sha256.Sum256([]byte(name))
		hash := "#" + hex.EncodeToString(sum[:16])
		escaped = escaped[:min(max(spare-len(hash), 0), readable)] + hash
	}
	return path + "-rowmill-" + escaped + ".lock", nil
}

const (
	// maxName is the maximum length of a file's name, in bytes.
	maxName = 255
	// readable is the length of the part of a long lock name that its file's name contains, in bytes.
	readable = 64
)

type lease struct {
	file   *os.File
	remove bool // Release also removes the file
	once   sync.Once
	lost   chan struct{}
}

// Lost implements engine.Lease. Only Release ends the lock.
func (l *lease) Lost() <-chan struct{} { return l.lost }

func (l *lease) Release() (err error) {
	l.once.Do(func() {
		close(l.lost)
		if l.remove {
			// The file is still locked, so that a process that has opened it finds
			// that it was removed. A failure to remove it has no consequences.
			_ = os.Remove(l.file.Name())
		}
		err = errors.Join(unlockFile(l.file), l.file.Close())
	})
	return err
}
