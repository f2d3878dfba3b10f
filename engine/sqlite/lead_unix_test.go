//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"syscall"
	"testing"
)

// A lock that is released is free at once, also while a process is being started,
// which shares the open file until its program runs.
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
