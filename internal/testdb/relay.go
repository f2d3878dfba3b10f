package testdb

import (
	"io"
	"net"
	"sync"
	"testing"
)

// A Relay stands between clients and a server's Unix socket, so that all of the
// clients' connections can be cut at once, as they are when their process is
// killed: the server sees the same, and what they do afterwards reaches nobody.
type Relay struct {
	listener *net.UnixListener
	server   string
	answers  func(client *net.UnixConn, server io.Reader)

	mu    sync.Mutex
	gone  bool
	conns []net.Conn
	all   sync.WaitGroup
}

// NewRelay listens at a path, until the test's end, and passes on what clients say
// to the server's socket. Its answers are passed on by answers, which returns when
// a connection is to end; nil passes on all.
func NewRelay(t testing.TB, path, server string, answers func(client *net.UnixConn, server io.Reader)) *Relay {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	if answers == nil {
		answers = func(client *net.UnixConn, server io.Reader) { _, _ = io.Copy(client, server) } // it ends as either side does
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
			return // it is cut
		}
		server, err := net.Dial("unix", r.server)
		if err != nil {
			_ = client.Close() // the client says that nobody answers
			continue
		}
		if !r.keep(client, server) {
			return
		}
		r.all.Go(func() {
			_, _ = io.Copy(server, client)
			_ = server.Close() // which ends the answers
		})
		r.all.Go(func() {
			r.answers(client, server)
			_, _ = client.Close(), server.Close()
		})
	}
}

// keep notes connections, and reports false and closes them once all are cut.
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

// Cut ends all connections, and lets none begin.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone = true
	_ = r.listener.Close()
	for _, c := range r.conns {
		_ = c.Close() // both ends may have done so
	}
}

// Close cuts, and waits for all that the relay does.
func (r *Relay) Close() {
	r.Cut()
	r.all.Wait()
}
