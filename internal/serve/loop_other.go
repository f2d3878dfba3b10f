//go:build !linux

package serve

import "net"

// loops exist on Linux alone: elsewhere the sessions' goroutines wait for their sockets.
type loops struct{}

func startLoops(int) (*loops, error) { return nil, nil }
func (*loops) stop() error           { return nil }
func (*loops) adopt(*client) error   { return nil }
func (*client) release()             {}

// A sock is never made.
type sock struct {
	net.Conn
	hangup bool
}

func (*sock) read([]byte) (int, error)  { return 0, errAgain }
func (*sock) write([]byte) (int, error) { return 0, errAgain }
