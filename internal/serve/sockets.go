package serve

import (
	"net"
	"sync"
)

// sockets are the network connections of a session, which any goroutine may close.
type sockets struct {
	mu     sync.Mutex
	conns  []net.Conn
	closed bool
}

// add notes a connection, and closes it if the session has been cut off.
func (s *sockets) add(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, c)
	if s.closed {
		_ = c.Close()
	}
}

// list returns the connections. Connections that are added later are closed.
func (s *sockets) list() []net.Conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.conns
}
