package serve

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Go's scheduler wakes several threads for a goroutine that waits for a socket, which costs more
// than everything else about a small statement. So a few loops watch the sockets of sessions
// instead. A loop waits for events, and itself passes on small statements and their answers. It
// hands everything else over to the session's goroutine: a statement that may be split, a
// connection that doesn't take what is written, a file. The goroutine hands the session back when
// it waits for the next command.

// A loop waits for events of some sessions' sockets.
type loop struct {
	fd, wake int // epoll, and the eventfd that ends it
	mu       sync.Mutex
	socks    map[int32]*sock // by descriptor
}

// loops are the loops of a front.
type loops struct {
	list []*loop
	next int
	// procs is how much GOMAXPROCS has been raised.
	procs int
	mu    sync.Mutex
	all   sync.WaitGroup
}

// procs is held while GOMAXPROCS is changed.
var procs sync.Mutex

// addProcs adds n, the number of loops, to GOMAXPROCS. A loop waits in a system call, for less time
// than a statement takes. While at least one other processor is idle, Go's scheduler leaves the
// loop its processor, and doesn't check every 20 us what else it could run there.
func addProcs(n int) {
	procs.Lock()
	defer procs.Unlock()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
}

// startLoops starts n loops.
func startLoops(n int) (*loops, error) {
	ls := &loops{}
	addProcs(n)
	ls.procs = n
	for range n {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return nil, errors.Join(os.NewSyscallError("epoll_create1", err), ls.stop())
		}
		wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err == nil {
			err = unix.EpollCtl(fd, unix.EPOLL_CTL_ADD, wake, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(wake)})
		}
		if err != nil {
			return nil, errors.Join(os.NewSyscallError("eventfd", err), unix.Close(fd), ls.stop())
		}
		l := &loop{fd: fd, wake: wake, socks: map[int32]*sock{}}
		ls.list = append(ls.list, l)
		ls.all.Go(l.run)
	}
	return ls, nil
}

// stop ends the loops, when no session is left.
func (ls *loops) stop() error {
	var errs []error
	addProcs(-ls.procs)
	for _, l := range ls.list {
		_, err := unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		errs = append(errs, err)
	}
	ls.all.Wait()
	for _, l := range ls.list {
		errs = append(errs, unix.Close(l.fd), unix.Close(l.wake))
	}
	return errors.Join(errs...)
}

// run handles events until the loop is stopped.
func (l *loop) run() {
	events := make([]unix.EpollEvent, 128)
	for {
		n, err := unix.EpollWait(l.fd, events, -1)
		if err != nil && err != unix.EINTR {
			panic(os.NewSyscallError("epoll_wait", err)) // a descriptor of our own, used wrongly
		}
		for _, e := range events[:max(n, 0)] {
			if e.Fd == int32(l.wake) {
				return
			}
			l.mu.Lock()
			s := l.socks[e.Fd]
			l.mu.Unlock()
			if s != nil {
				s.event(e.Events)
			}
		}
	}
}

// watched are the events for which a socket is watched while no goroutine waits to write to it. If
// they included EPOLLOUT, a Unix socket would wake the loop each time the other end reads.
const watched = unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET

// A sock is a session's socket that a loop watches. It is a net.Conn for the session's goroutine.
type sock struct {
	net.Conn // closed; for its addresses
	of       *client
	loop     *loop
	server   bool // it is the connection to the server, and not to the client

	in, out chan struct{} // signals of events for the session's goroutine

	mu     sync.Mutex
	fd     int  // -1 when closed
	late   bool // its deadline has passed
	hangup bool
}

// adopt moves both connections of a session to a loop. If one of them uses TLS, both remain with
// the session's goroutine.
func (ls *loops) adopt(c *client) error {
	if ls == nil {
		return nil
	}
	user, ok := c.user.Conn.(syscall.Conn)
	server, also := c.server.Conn.(syscall.Conn)
	if !ok || !also {
		return nil
	}
	ls.mu.Lock()
	l := ls.list[ls.next%len(ls.list)]
	ls.next++
	ls.mu.Unlock()
	c.turn.mu.Lock()
	defer c.turn.mu.Unlock()
	c.turn.owned = true
	c.turn.wake = make(chan wakeReason, 1)
	for _, from := range []struct {
		side *side
		conn syscall.Conn
	}{{&c.user, user}, {&c.server.side, server}} {
		s, err := l.add(from.side.Conn, from.conn)
		if err != nil {
			return err
		}
		s.of, s.server = c, from.side == &c.server.side
		from.side.sock, from.side.Conn, from.side.link = s, s, s
		c.sockets.add(s)
		l.mu.Lock()
		l.socks[int32(s.fd)] = s
		l.mu.Unlock()
		if err := unix.EpollCtl(l.fd, unix.EPOLL_CTL_ADD, s.fd, &unix.EpollEvent{Events: watched, Fd: int32(s.fd)}); err != nil {
			return os.NewSyscallError("epoll_ctl", err)
		}
	}
	return nil
}

// add returns a socket with a descriptor that Go's poller doesn't watch, and closes the original.
func (l *loop) add(from net.Conn, conn syscall.Conn) (*sock, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	var failed error
	if err := raw.Control(func(old uintptr) { fd, failed = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	if failed != nil {
		return nil, os.NewSyscallError("fcntl", failed)
	}
	_ = from.Close() // the duplicate stays open
	return &sock{Conn: from, loop: l, fd: fd, in: make(chan struct{}, 1), out: make(chan struct{}, 1)}, nil
}

// event handles events of the socket. The loop calls it.
func (s *sock) event(events uint32) {
	if events&unix.EPOLLOUT != 0 {
		signal(s.out)
	}
	c := s.of
	c.turn.mu.Lock()
	defer c.turn.mu.Unlock()
	if s.server {
		c.server.ready = true
	} else {
		c.user.ready = true
	}
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		s.hangup = true
		signal(s.out)
	}
	if c.turn.owned {
		signal(s.in)
		return
	}
	c.step()
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// read and write return errAgain in place of waiting.
func (s *sock) read(p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN:
			return 0, errAgain
		case errno != 0:
			return 0, os.NewSyscallError("read", errno)
		case n == 0:
			return 0, io.EOF
		default:
			return int(n), nil
		}
	}
}

func (s *sock) write(p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_SENDTO, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_NOSIGNAL, 0, 0)
		switch {
		case errno == syscall.EINTR:
		case errno == syscall.EAGAIN:
			return 0, errAgain
		case errno != 0:
			return 0, os.NewSyscallError("write", errno)
		default:
			return int(n), nil
		}
	}
}

// Read implements net.Conn, for the session's goroutine.
func (s *sock) Read(p []byte) (int, error) {
	for {
		if n, err := s.read(p); err != errAgain {
			return n, err
		}
		if s.isLate() {
			return 0, os.ErrDeadlineExceeded
		}
		<-s.in
	}
}

// Write implements net.Conn.
func (s *sock) Write(p []byte) (done int, err error) {
	waits := false
	for done < len(p) {
		n, err := s.write(p[done:])
		done += n
		if err == nil {
			continue
		}
		if err != errAgain {
			return done, err
		}
		if s.isLate() {
			return done, os.ErrDeadlineExceeded
		}
		if !waits {
			waits = true
			if err := s.watch(watched | unix.EPOLLOUT); err != nil {
				return done, err
			}
			defer func() { err = errors.Join(err, s.watch(watched)) }()
			continue
		}
		<-s.out
	}
	return done, nil
}

// watch changes the events that the loop waits for.
func (s *sock) watch(events uint32) error {
	err := unix.EpollCtl(s.loop.fd, unix.EPOLL_CTL_MOD, s.fd, &unix.EpollEvent{Events: events, Fd: int32(s.fd)})
	return os.NewSyscallError("epoll_ctl", err)
}

func (s *sock) isLate() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late
}

// SetDeadline implements net.Conn, but knows only two deadlines: the zero time is none, and any
// other time is taken as passed.
func (s *sock) SetDeadline(t time.Time) error {
	s.mu.Lock()
	s.late = !t.IsZero()
	s.mu.Unlock()
	signal(s.in)
	signal(s.out)
	return nil
}

func (s *sock) SetReadDeadline(t time.Time) error  { return s.SetDeadline(t) }
func (s *sock) SetWriteDeadline(t time.Time) error { return s.SetDeadline(t) }

// hungUp implements hanger.
func (s *sock) hungUp() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fd < 0 || hungUp(uintptr(s.fd))
}

// Close shuts the connection down, from any goroutine; release gives the descriptor back.
func (s *sock) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd >= 0 {
		_ = unix.Shutdown(s.fd, unix.SHUT_RDWR) // the other side may have done it
	}
	s.late = true
	signal(s.in)
	signal(s.out)
	return nil
}

// release closes the descriptors of a session, which no goroutine uses any more.
func (c *client) release() {
	for _, s := range []*sock{c.user.sock, c.server.sock} {
		if s == nil {
			continue
		}
		s.loop.mu.Lock()
		delete(s.loop.socks, int32(s.fd))
		s.loop.mu.Unlock()
		// An event that the loop already has does nothing to a session that is owned.
		c.turn.mu.Lock()
		c.turn.owned = true
		s.mu.Lock()
		_ = unix.Close(s.fd) // nothing follows
		s.fd = -1
		s.mu.Unlock()
		c.turn.mu.Unlock()
	}
}
