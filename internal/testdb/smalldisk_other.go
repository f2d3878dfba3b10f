//go:build !linux

package testdb

import "testing"

// SmallDisk skips the test: it needs Linux.
func SmallDisk(t testing.TB, _ int) string {
	t.Skip("a file system of a limited size needs Linux")
	return ""
}
