package monitor

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// A pipes listener takes its connections from a channel, not from the system.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return address("pipes") }

// Browsers open connections that they may use later: shutdown doesn't wait for a
// request on them.
func TestServeEndsBesideUnusedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- ServeOn(ctx, listener, http.NotFoundHandler()) }()
		client, server := net.Pipe()
		defer client.Close()
		listener.conns <- server
		synctest.Wait()
		began := time.Now()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took >= time.Second {
			t.Errorf("it took %v to end beside a connection without a request", took)
		}
		if _, err := client.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the connection is still open: %v", err)
		}
	})
}
