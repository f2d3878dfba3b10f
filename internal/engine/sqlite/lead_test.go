package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// leading returns a database and the directory of its lock files.
func leading(t *testing.T) (db *DB, dir string) {
	t.Helper()
	dir = t.TempDir()
	path := filepath.Join(dir, "a.db")
	must(t, os.WriteFile(path, nil, 0o600))
	return newDB(&database{path: path}), dir
}

// TestLeadOfLongNames takes locks whose names are too long for a file name.
func TestLeadOfLongNames(t *testing.T) {
	t.Parallel()
	db, dir := leading(t)
	long := "readings/load//" + strings.Repeat("ä", 1000)
	var held []engine.Lease
	for _, name := range []string{long, long + "x", "readings/publish/1783296000000000", "readings/" + strings.Repeat("x", 300), "readings/tidy"} {
		lease, err := db.Lead(t.Context(), name)
		must(t, err)
		held = append(held, lease)
		if _, err := db.Lead(t.Context(), name); !errors.Is(err, engine.ErrLockTimeout) {
			t.Errorf("a second one: %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "a.db-rowmill-readings%2Ftidy.lock")); err != nil {
		t.Error(err)
	}
	for _, l := range held {
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*.lock"))
	if err != nil || len(left) != 2 || strings.Contains(strings.Join(left, ""), "load") {
		t.Errorf("%v is left, %v; want those of no load and no publication", left, err)
	}
}

// TestLeadWhileFilesAreRemoved takes one lock in several goroutines, while each
// release removes its file. Only one may hold the lock at a time.
func TestLeadWhileFilesAreRemoved(t *testing.T) {
	t.Parallel()
	db, _ := leading(t)
	var all sync.WaitGroup
	var have, taken atomic.Int64
	for range 4 {
		all.Go(func() {
			for range 2000 {
				lease, err := db.Lead(t.Context(), "readings/load/a")
				if errors.Is(err, engine.ErrLockTimeout) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := have.Add(1); n != 1 {
					t.Errorf("%d have it", n)
				}
				taken.Add(1)
				have.Add(-1)
				if err := lease.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if taken.Load() == 0 {
		t.Error("nobody had it")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := db.Lead(ended, "readings/load/a"); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context: %v", err)
	}
}

// TestLockOfARemovedFile locks a file that was removed or replaced after it was
// opened.
func TestLockOfARemovedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.lock")
	for _, replaced := range []bool{false, true} {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			err = os.Remove(path)
		}
		if err == nil && replaced {
			err = os.WriteFile(path, nil, 0o600)
		}
		must(t, err)
		if got, err := lockOpened(f, path); got != nil || err != nil {
			t.Errorf("replaced: %v: it is a lock, %v", replaced, err)
		}
		if got, err := takeLock(path); got == nil || err != nil {
			t.Errorf("replaced: %v: none is taken, %v", replaced, err)
		} else {
			got.Close()
		}
	}
}
