//go:build !linux

package serve

import "golang.org/x/sys/unix"

// hungUp reports whether the other end of a connection has closed it. Bytes that the other end sent
// before must have been read.
func hungUp(fd uintptr) bool {
	n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return n == 0 && err == nil || err == unix.ECONNRESET
}
