package testdb

import (
	"fmt"
	"syscall"
	"testing"
)

// SmallDisk mounts a file system of the given size for the test. Where mounting isn't permitted, it
// skips the test.
func SmallDisk(t testing.TB, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("a file system of %d bytes can't be mounted here: %v", bytes, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
