package main

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/rowmill/rowmill/engine"
)

// lock keeps two commands from writing one record. The lock ends with the
// process, however that ends.
func (o *recordFile) lock() error {
	if o.f == nil {
		return nil
	}
	err := syscall.Flock(int(o.f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return engine.Hinted(fmt.Errorf("another rowmill is writing %s", o.path), "wait until it has ended")
	}
	// Devices and some network filesystems have no locks; then there is none.
	return nil
}

// failed tells that the last write to the record did not succeed.
func (o *recordFile) failed() bool { return o.f != nil && o.Writer.Failed() }
