//go:build unix

package ingest

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// readyLook is how often it is looked whether to go on waiting, in milliseconds.
const readyLook = 100

// ready waits until a read of r returns at once, and reports false when ctx has
// ended. Of what isn't a file of the system it can't be known: the read waits.
func ready(ctx context.Context, r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return ctx.Err() == nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return ctx.Err() == nil // the read says why
	}
	for ctx.Err() == nil {
		n := 0
		failed := raw.Control(func(fd uintptr) {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, readyLook)
		})
		if failed != nil || n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return ctx.Err() == nil
		}
	}
	return false
}
