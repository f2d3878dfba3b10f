package replicate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
)

// Connections whose sender has not proved its token, at most: those of one address, and all. The
// oldest is closed for a new one, so that idle ones keep no sender out.
const (
	mostOfAddress = 8
	mostUnproven  = 64
)

// A waitingRoom has the connections that are not proven yet, the oldest first.
type waitingRoom struct {
	mu   sync.Mutex
	list []net.Conn
}

func (q *waitingRoom) enter(c net.Conn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	same := func(d net.Conn) bool { return address(d) == address(c) }
	n := 0
	for _, d := range q.list {
		if same(d) {
			n++
		}
	}
	oldest := -1
	if n >= mostOfAddress {
		oldest = slices.IndexFunc(q.list, same)
	} else if len(q.list) >= mostUnproven {
		oldest = 0
	}
	if oldest >= 0 {
		_ = q.list[oldest].Close() // its own goroutine reports it
		q.list = slices.Delete(q.list, oldest, oldest+1)
	}
	q.list = append(q.list, c)
}

func (q *waitingRoom) leave(c net.Conn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = slices.DeleteFunc(q.list, func(d net.Conn) bool { return d == c })
}

// address returns a connection's remote address without the port.
func address(c net.Conn) string {
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	return host
}

func (r *receiver) serve(ctx context.Context, l net.Listener) {
	var unproven waitingRoom
	for {
		c, err := l.Accept()
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				r.end(fmt.Errorf("accept a connection: %w", err))
			}
			return
		}
		unproven.enter(c)
		r.all.Go(func() {
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			defer c.Close() //nolint:errcheck // closed already
			w, err := accept(ctx, c, r.cert, r.Token)
			unproven.leave(c)
			if err == nil {
				err = r.hear(ctx, w)
			}
			if err != nil && ctx.Err() == nil {
				r.Say(fmt.Sprintf("connection of %s: %v", c.RemoteAddr(), err))
			}
		})
	}
}
