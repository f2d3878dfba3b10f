package replicate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
)

// mostUnproven is how many connections may be open before their senders have proved that they know
// the token. One more connection closes the oldest of them. So idle connections keep no sender out.
const mostUnproven = 64

// A waitingRoom has the connections that are not proven yet, the oldest first.
type waitingRoom struct {
	mu   sync.Mutex
	list []net.Conn
}

func (q *waitingRoom) enter(c net.Conn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) >= mostUnproven {
		_ = q.list[0].Close() // its own goroutine reports it
		q.list = q.list[1:]
	}
	q.list = append(q.list, c)
}

func (q *waitingRoom) leave(c net.Conn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.list = slices.DeleteFunc(q.list, func(d net.Conn) bool { return d == c })
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
