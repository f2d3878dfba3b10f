package adopt

import "syscall"

// room returns the bytes that are free where a directory lies; ok tells whether
// that can be known.
func room(dir string) (free int64, ok bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * s.Bsize, true
}
