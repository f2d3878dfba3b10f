//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sqlite

import (
	"errors"
	"os"

	"github.com/rowmill/rowmill/internal/engine"
)

// lockFile returns an error, because it needs flock.
func lockFile(*os.File) (held bool, err error) {
	return false, engine.Classed(engine.ErrUnsupported, errors.New("no file locks on this operating system"))
}

func shareFile(f *os.File) (held bool, err error) { return lockFile(f) }

// unlockFile does nothing.
func unlockFile(*os.File) error { return nil }
