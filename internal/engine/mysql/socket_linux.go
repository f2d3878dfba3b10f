package mysql

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// patience is the longest time for which a system call on a socket blocks before the deadline is
// checked. An interruption may come that much later, and Go's garbage collector may wait for the
// thread that long.
const patience = 10 * time.Millisecond

// A socket is a connection's network connection. It starts as an ordinary one; block converts it to
// a file descriptor. Waiting for the descriptor blocks the thread without notifying Go's scheduler:
// see docs/decisions/0002. The thread keeps its processor while it waits, so that a program with N
// blocking writers must raise GOMAXPROCS by N.
//
// Only one goroutine may read, write, block and close. Any goroutine may call SetDeadline, but not
// concurrently with block.
type socket struct {
	net.Conn // until block is called
	tap

	blocks   bool
	fd       int          // valid if blocks is set; -1 when closed
	deadline atomic.Int64 // Unix nanoseconds; 0 is none
}

// block makes the connection blocking. It doesn't change a connection without a descriptor, such as
// one inside TLS.
func (s *socket) block() error {
	if s.blocks {
		return nil
	}
	c, ok := s.Conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	// Go's poller must not watch the duplicate: every answer of the server would wake it.
	var dup uintptr
	var errno syscall.Errno
	if err := raw.Control(func(fd uintptr) {
		dup, _, errno = syscall.Syscall(syscall.SYS_FCNTL, fd, syscall.F_DUPFD_CLOEXEC, 0)
	}); err != nil {
		return err
	}
	if errno != 0 {
		return os.NewSyscallError("fcntl", errno)
	}
	s.fd = int(dup)
	if err := s.take(); err != nil {
		return errors.Join(fmt.Errorf("make the connection blocking: %w", err), syscall.Close(s.fd))
	}
	s.blocks = true
	return nil
}

func (s *socket) take() error {
	wait := syscall.NsecToTimeval(int64(patience))
	if err := syscall.SetsockoptTimeval(s.fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &wait); err != nil {
		return err
	}
	// Closing the original removes it from the poller; the duplicate stays open.
	if err := s.Conn.Close(); err != nil {
		return err
	}
	return syscall.SetNonblock(s.fd, false)
}

func (s *socket) Read(p []byte) (int, error) {
	if !s.blocks {
		n, err := s.Conn.Read(p)
		return s.through(p, n, err)
	}
	if err := s.await(); err != nil {
		return 0, err
	}
	n, err := s.call("read", syscall.SYS_READ, p)
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return s.through(p, n, err)
}

func (s *socket) Write(p []byte) (int, error) {
	if !s.blocks {
		return s.Conn.Write(p)
	}
	done := 0
	for done < len(p) {
		n, err := s.call("write", syscall.SYS_WRITE, p[done:])
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// A pollfd is struct pollfd of poll(2), pollIn is POLLIN.
type pollfd struct {
	fd              int32
	events, revents int16
}

const pollIn = 1

// await waits until data can be read. A blocking read would wait, too, but on a Unix socket it
// would wake up twice for each statement: the first time when the server reads the statement from
// the socket's buffer.
func (s *socket) await() error {
	fd := pollfd{fd: int32(s.fd), events: pollIn}
	for {
		wait := syscall.NsecToTimespec(int64(patience)) // the call modifies it
		n, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fd)), 1, uintptr(unsafe.Pointer(&wait)), 0, 0, 0)
		switch {
		case errno == 0 && n > 0:
			return nil // also for an error or an end, which read reports
		case errno == 0 || errno == syscall.EINTR:
			if err := s.pause(); err != nil {
				return err
			}
		default:
			return os.NewSyscallError("ppoll", errno)
		}
	}
}

// call repeats a system call until it succeeds or fails. It doesn't notify Go's scheduler, which
// therefore neither hands over the processor nor wakes a thread.
func (s *socket) call(name string, trap uintptr, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(trap, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR, syscall.EAGAIN:
			if err := s.pause(); err != nil {
				return 0, err
			}
		default:
			return 0, os.NewSyscallError(name, errno)
		}
	}
}

// pause is called after a wait without data. It fails if the deadline has passed.
func (s *socket) pause() error {
	if d := s.deadline.Load(); d != 0 && time.Now().UnixNano() >= d {
		return os.ErrDeadlineExceeded
	}
	// The runtime interrupts a system call when it needs the processor or stops the
	// world. These loops have no other preemption point.
	runtime.Gosched()
	return nil
}

// SetDeadline ends a read or write that waits with an error, at the time t or up to patience later.
// It is for interruptions only: a read or write that needn't wait succeeds even after t.
func (s *socket) SetDeadline(t time.Time) error {
	if !s.blocks {
		return s.Conn.SetDeadline(t)
	}
	if t.IsZero() {
		s.deadline.Store(0)
	} else {
		s.deadline.Store(t.UnixNano())
	}
	return nil
}

func (s *socket) Close() error {
	if !s.blocks {
		return s.Conn.Close()
	}
	if s.fd < 0 {
		return nil // the driver closes a broken connection twice
	}
	err := syscall.Close(s.fd)
	s.fd = -1
	return err
}
