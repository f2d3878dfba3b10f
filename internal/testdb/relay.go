package testdb

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A Relay forwards connections to a server's Unix socket, so that all connections of the clients
// can be cut at once, as if their process were killed: the server sees what it would see then, and
// later messages of the clients do not reach it.
type Relay struct {
	listener *net.UnixListener
	server   string
	answers  func(client *net.UnixConn, server io.Reader)

	mu    sync.Mutex
	gone  bool
	conns []net.Conn
	all   sync.WaitGroup
}

// NewRelay listens at a path until the test ends, and forwards the clients' messages to the
// server's socket. answers forwards the server's answers to a client; when it returns, the
// connection ends. If answers is nil, all answers are forwarded.
func NewRelay(t testing.TB, path, server string, answers func(client *net.UnixConn, server io.Reader)) *Relay {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	if answers == nil {
		answers = func(client *net.UnixConn, server io.Reader) { _, _ = io.Copy(client, server) } // ends when either side closes
	}
	r := &Relay{listener: l, server: server, answers: answers}
	r.all.Go(r.accept)
	t.Cleanup(r.Close)
	return r
}

func (r *Relay) accept() {
	for {
		client, err := r.listener.AcceptUnix()
		if err != nil {
			return // the relay was cut
		}
		server, err := net.Dial("unix", r.server)
		if err != nil {
			_ = client.Close() // the client reports that the server does not answer
			continue
		}
		if !r.keep(client, server) {
			return
		}
		r.all.Go(func() {
			_, _ = io.Copy(server, client)
			_ = server.Close() // this ends the forwarding of answers
		})
		r.all.Go(func() {
			r.answers(client, server)
			_, _ = client.Close(), server.Close()
		})
	}
}

// keep records connections; after a cut it closes them and returns false.
func (r *Relay) keep(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		for _, c := range conns {
			_ = c.Close()
		}
		return false
	}
	r.conns = append(r.conns, conns...)
	return true
}

// Cut closes all connections, and refuses new ones.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
	_ = r.listener.Close()
	for _, c := range r.conns {
		_ = c.Close() // both ends may already have closed it
	}
}

// Close cuts the connections, and waits for the relay's goroutines.
func (r *Relay) Close() {
	r.Cut()
	r.all.Wait()
}
