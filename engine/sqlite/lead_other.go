//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package sqlite

import (
	"errors"
	"os"

	"github.com/rowmill/rowmill/engine"
)

// lockFile needs a system with flock.
func lockFile(*os.File) (held bool, err error) {
	return false, engine.Classed(engine.ErrUnsupported, errors.New("no file locks on this operating system"))
}

// unlockFile has nothing to give back.
func unlockFile(*os.File) error { return nil }
