package adopt

import "syscall"

// room returns the free bytes of the file system that contains dir; ok is false
// if they are unknown.
func room(dir string) (free int64, ok bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * s.Bsize, true
}
