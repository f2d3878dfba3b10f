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
	if err != nil {
		t.Fatal(err)
	}
	shared, err := syscall.Dup(int(held.(*lease).file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(shared)
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := db.Lead(t.Context(), "readings/keep")
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Fatal(err)
	}
}
