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

// patience is how long a blocked call on a socket lasts at most before it looks
// whether it is still wanted. It bounds how late an interruption is, and how
// long Go's garbage collector may have to wait for the thread.
const patience = 10 * time.Millisecond

// A socket is the network connection of a writer. It starts as an ordinary one;
// block turns it into a file descriptor that its goroutine's thread blocks on,
// unknown to Go's scheduler.
//
// For single rows that is two thirds of a client's CPU time: an ordinary
// connection tries to read, finds nothing, parks its goroutine, waits for the
// poller, wakes a thread and reads again, while the runtime's monitor is woken
// to watch all this. Here a statement is a write, a wait and a read. The price is
// that the thread keeps its processor (a P of GOMAXPROCS) while it waits, so
// whoever runs N blocking writers gives the runtime N more of them; engine
// capabilities say so.
//
// One goroutine reads, writes, blocks and closes. SetDeadline is for any, but
// not at the same time as block.
type socket struct {
	net.Conn // until block

	blocks   bool
	fd       int          // once it blocks; -1 when closed
	deadline atomic.Int64 // Unix nanoseconds; 0 is none
}

// block makes the connection a blocking one. A connection that has no
// descriptor, as one inside TLS, stays as it is.
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
	// A duplicate that Go's poller doesn't know: it would be woken by every
	// answer of the server.
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
		return errors.Join(fmt.Errorf("make the connection a blocking one: %w", err), syscall.Close(s.fd))
	}
	s.blocks = true
	return nil
}

func (s *socket) take() error {
	wait := syscall.NsecToTimeval(int64(patience))
	if err := syscall.SetsockoptTimeval(s.fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &wait); err != nil {
		return err
	}
	// Closing the original takes it off the poller; the duplicate stays open.
	if err := s.Conn.Close(); err != nil {
		return err
	}
	return syscall.SetNonblock(s.fd, false)
}

func (s *socket) Read(p []byte) (int, error) {
	if !s.blocks {
		return s.Conn.Read(p)
	}
	if err := s.await(); err != nil {
		return 0, err
	}
	n, err := s.call("read", syscall.SYS_READ, p)
	if n == 0 && err == nil && len(p) > 0 {
		err = io.EOF
	}
	return n, err
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

// A pollfd is struct pollfd of poll(2), and pollIn its POLLIN.
type pollfd struct {
	fd              int32
	events, revents int16
}

const pollIn = 1

// await waits until there is something to read. A read could wait by itself,
// but on a Unix socket it would be woken a second time for each statement, when
// the server takes the statement out of the socket's buffer.
func (s *socket) await() error {
	fd := pollfd{fd: int32(s.fd), events: pollIn}
	for {
		wait := syscall.NsecToTimespec(int64(patience)) // the call changes it
		n, _, errno := syscall.RawSyscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fd)), 1, uintptr(unsafe.Pointer(&wait)), 0, 0, 0)
		switch {
		case errno == 0 && n > 0:
			return nil // also for an error or an end: read tells
		case errno == 0 || errno == syscall.EINTR:
			if err := s.pause(); err != nil {
				return err
			}
		default:
			return os.NewSyscallError("ppoll", errno)
		}
	}
}

// call makes a system call until it does something. It is a raw one: the
// scheduler isn't told, so nothing is handed over and nothing woken.
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

// pause is called when a wait was in vain: it ends one whose deadline is past.
func (s *socket) pause() error {
	if d := s.deadline.Load(); d != 0 && time.Now().UnixNano() >= d {
		return os.ErrDeadlineExceeded
	}
	// The runtime interrupts a call when it wants the processor or has the
	// world to stop. Nothing else in these loops lets it.
	runtime.Gosched()
	return nil
}

// SetDeadline lets a read or write that waits fail once the moment is past, up
// to patience later. It is for interrupting: one that has not to wait is done.
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
		return nil // the driver closes a broken connection once more
	}
	err := syscall.Close(s.fd)
	s.fd = -1
	return err
}
