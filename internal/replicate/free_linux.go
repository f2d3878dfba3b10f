package replicate

import "syscall"

// freeBytes returns the bytes that a directory's file system has left, -1 if unknown.
func freeBytes(dir string) int64 {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return -1
	}
	return int64(s.Bavail) * s.Bsize
}
