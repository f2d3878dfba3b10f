//go:build unix

package probe

import (
	"syscall"
	"time"
)

// processCPU returns the user and system CPU time of this process, in seconds,
// without its children.
func processCPU() (float64, bool) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, false
	}
	return (time.Duration(u.Utime.Nano()) + time.Duration(u.Stime.Nano())).Seconds(), true
}
