package monitor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Limits of a connection; slower clients are cut off. A scrape or a page waits for a look at the
// table: at most Options.LookTimeout, less than writeTimeout by default.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 60 * time.Second
	idleTimeout   = 2 * time.Minute
	headerBytes   = 16 << 10
	// drainTimeout is how long open requests may continue after ctx has ended. Connections that
	// browsers open in advance are waited for, too.
	drainTimeout = 2 * time.Second
)

// Loopback completes an address of HOST:PORT, :PORT or PORT. Without a host, the host is loopback.
func Loopback(addr string) (string, error) {
	if _, err := strconv.ParseUint(addr, 10, 16); err == nil {
		addr = ":" + addr
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil || port == "" {
		return "", fmt.Errorf("%q: want HOST:PORT, :PORT or PORT", addr)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// IsLoopback reports whether an address is one that only this machine can reach.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// Listen listens on an address: see Loopback.
func Listen(addr string) (net.Listener, error) {
	addr, err := Loopback(addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %w", err)
	}
	l, err := net.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: the port is taken by another process, perhaps another rowmill: %w", addr, err)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	return l, nil
}

// ServeOn serves requests on a listener until ctx ends, closes it, and lets open requests finish.
func ServeOn(ctx context.Context, l net.Listener, h http.Handler) error {
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
		// Requests inherit ctx's values but not its cancellation, so that they can finish.
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	stopped := make(chan error, 1)
	end := context.AfterFunc(ctx, func() {
		drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		err := s.Shutdown(drain)
		if err != nil {
			err = s.Close() // cuts off the remaining requests
		}
		stopped <- err
	})
	err := s.Serve(l)
	if !end() && errors.Is(err, http.ErrServerClosed) {
		return <-stopped
	}
	return fmt.Errorf("serve on %s: %w", l.Addr(), err)
}

// knownHost reports whether a request uses a host name of this machine. On loopback connections,
// other names belong to web pages that resolve their own name to this address (DNS rebinding) to
// read private data with a visitor's browser. On connections to other addresses, which are open to
// the network anyway, every name is accepted.
func knownHost(r *http.Request) bool {
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
	own, err := os.Hostname()
	own = strings.ToLower(own)
	short, _, _ := strings.Cut(own, ".")
	return err == nil && (name == own || name == short)
}
