//go:build !linux

package mysql

import "net"

// A socket is a connection's network connection; see socket_linux.go.
type socket struct {
	net.Conn
	tap
}

func (s *socket) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	return s.through(p, n, err)
}

func (s *socket) block() error { return nil }
