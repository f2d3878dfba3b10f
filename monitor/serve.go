package monitor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Limits of a connection. A scrape and a page take a look's time at most;
// whoever needs longer to send or to read is no client of ours.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 60 * time.Second
	idleTimeout   = 2 * time.Minute
	headerBytes   = 16 << 10
	// drainTimeout is for how long requests under way may go on once ctx ended.
	drainTimeout = 5 * time.Second
)

// Listen listens on an address: HOST:PORT, :PORT for all interfaces, or PORT,
// which is loopback alone.
func Listen(addr string) (net.Listener, error) {
	if _, err := strconv.ParseUint(addr, 10, 16); err == nil {
		addr = net.JoinHostPort("127.0.0.1", addr)
	}
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
		return nil, fmt.Errorf("listen on %q: want HOST:PORT, :PORT or PORT", addr)
	}
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: the port is taken by another process, perhaps a rowmill that runs already: %w", addr, err)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listen on %s: ports below 1024 need rights that this process lacks: %w", addr, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("listen on %s: this machine has no such address: %w", addr, err)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}

// Serve answers requests at the address, as Listen reads it, until ctx ends;
// then it lets those under way finish, and returns nil.
func Serve(ctx context.Context, addr string, h http.Handler) error {
	l, err := Listen(addr)
	if err != nil {
		return err
	}
	return ServeOn(ctx, l, h)
}

// ServeOn does what Serve does, on a listener, which it closes.
func ServeOn(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
		// Requests keep ctx's values, not its end: they are let finish.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	var u unused
	s.ConnState = u.track
	s.RegisterOnShutdown(u.close)
	stopped := make(chan error, 1)
	end := context.AfterFunc(ctx, func() {
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		err := s.Shutdown(drain)
		if err != nil {
			err = s.Close() // those who still wait are cut off
		}
		stopped <- err
	})
	err := s.Serve(l)
	if !end() && errors.Is(err, http.ErrServerClosed) {
		return <-stopped
	}
	return fmt.Errorf("serve on %s: %w", l.Addr(), err)
}

// unused are the connections on which no request has begun to come. Browsers
// open some in advance, and Shutdown would wait 5 s for a request on each.
type unused struct {
	mu    sync.Mutex
	conns map[net.Conn]bool
	ended bool
}

func (u *unused) track(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(u.conns, c)
	case u.ended:
		_ = c.Close() // nothing was read or written
	default:
		if u.conns == nil {
			u.conns = map[net.Conn]bool{}
		}
		u.conns[c] = true
	}
}

func (u *unused) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.ended = true
	for c := range u.conns {
		_ = c.Close() // nothing was read or written
	}
}

// knownHost tells whether a request asks for this server by a name that is
// surely its own. Where the connection comes in on loopback, other names are
// those of web pages that point their own name here (DNS rebinding), to read
// with a visitor's browser what only this machine may read. On other addresses
// any name will do: they are open to the network as it is.
func (m *Monitor) knownHost(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if ok {
		host, _, err := net.SplitHostPort(local.String())
		if ip := net.ParseIP(host); err == nil && ip != nil && !ip.IsLoopback() {
			return true
		}
	}
	name := r.Host
	if host, _, err := net.SplitHostPort(name); err == nil {
		name = host
	}
	name = strings.TrimSuffix(strings.ToLower(strings.Trim(name, "[]")), ".")
	if name == "" || net.ParseIP(name) != nil || name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	for _, h := range m.hosts {
		if name == h {
			return true
		}
	}
	return false
}
