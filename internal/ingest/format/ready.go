package format

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// readyLook is the interval, in milliseconds, at which ready checks ctx.
const readyLook = 100

// ready waits until a read of r would return immediately, and reports false if ctx has ended. A
// reader without a file descriptor can't be polled, so its read may still block.
func ready(ctx context.Context, r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return ctx.Err() == nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return ctx.Err() == nil // the read returns the error
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
