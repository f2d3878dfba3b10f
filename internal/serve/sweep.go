package serve

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// A session's goroutine waits for only one of its two connections. The sweep watches the other one:
// the server may close its connection while the session is idle, because the server is stopped or
// the connection is killed; and the client may close its own while pieces run.

// sweepEvery is the longest time until a closed connection is noticed. Looking at a connection
// costs about a microsecond.
const sweepEvery = 200 * time.Millisecond

// slowClient is how long a client may go without reading anything before it is cut off.
const slowClient = 10 * time.Minute

// A link is the network connection below any encryption.
type link struct{ raw syscall.RawConn }

// A hanger tells whether the other end of a connection has closed it.
type hanger interface{ hungUp() bool }

func linkOf(conn net.Conn) link {
	if s, ok := conn.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return link{raw}
		}
	}
	return link{}
}

// hungUp reports that the other end has closed the connection.
func (l link) hungUp() (is bool) {
	if l.raw == nil {
		return false
	}
	err := l.raw.Control(func(fd uintptr) { is = hungUp(fd) })
	return is || err != nil
}

// link notes the session's connections for the sweep.
func (c *client) link() { c.user.link, c.server.link = linkOf(c.user.Conn), linkOf(c.server.Conn) }

// sweep looks at all sessions until ctx ends.
func (f *Front) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	type seen struct {
		phase uint64
		since time.Time
	}
	last := map[*client]seen{} // what the sweep before has seen
	f.clock.Store(uint64(time.Now().UnixMilli()))
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		f.clock.Store(uint64(now.UnixMilli()))
		next := map[*client]seen{}
		for _, c := range f.connected() {
			phase := c.phase.Load()
			switch phase % phaseCount {
			case phaseIdle:
				if c.server.link.hungUp() && c.phase.Load() == phase {
					c.gone.Store(true)
					_ = c.user.SetReadDeadline(past)
				}
			case phaseConnect:
				// The server ends a slow handshake. Its last words have until the next sweep.
				if c.server.link.hungUp() {
					if last[c].phase == phase {
						c.cut()
					}
					next[c] = seen{phase, now}
				}
			case phasePieces:
				if c.user.link.hungUp() || c.server.link.hungUp() {
					c.endPieces(errGone)
				}
			case phaseUser:
				s := last[c]
				if s.phase != phase {
					s = seen{phase, now}
				}
				next[c] = s
				if now.Sub(s.since) > slowClient {
					_ = c.user.SetWriteDeadline(past)
				}
			}
		}
		last = next
	}
}

// isReset reports the error of a connection that the other end has closed.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
