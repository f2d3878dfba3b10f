//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"syscall"
	"testing"
)

// TestLeadReleasedWhileAProcessIsStarted checks that a released lock can be taken
// immediately, even while a new process shares the open file between fork and exec.
func TestLeadReleasedWhileAProcessIsStarted(t *testing.T) {
	db, _ := leading(t)
	held, err := db.Lead(t.Context(), "readings/keep")
	must(t, err)
	shared, err := syscall.Dup(int(held.(*lease).file.Fd()))
	must(t, err)
	defer syscall.Close(shared)
	must(t, held.Release())
	again, err := db.Lead(t.Context(), "readings/keep")
	must(t, err)
	must(t, again.Release())
}
