package serve

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/serve/session"
)

// A client is one session: a client's connection, and a connection to the server for this client
// only. One goroutine runs it: it sends a command to the server and passes the response back before
// it reads the next command. So a statement costs two reads, two writes, and no switch between
// goroutines.
type client struct {
	front   *Front
	user    side // the client's connection
	server  server
	sockets sockets // of both, below TLS
	id      uint32  // of the connection on the server
	traffic traffic
	turn    turn

	// phase is the session's phase, with a number that grows with each change: see sweep.go.
	phase atomic.Uint64
	// gone is set by the sweep: the server has closed an idle connection.
	gone          atomic.Bool
	inTransaction atomic.Bool

	session session.Session
	// pieces ends the pieces of the query that the session is running; nil if none are running.
	pieces   atomic.Pointer[context.CancelCauseFunc]
	answered *answered // the last command, if it was a query in pieces
	// found is the value of FOUND_ROWS() after the client's last statement, if statements of the front
	// have changed it since; else -1. zero says that ROW_COUNT() was 0 after that statement.
	found int64
	zero  bool
}

// A turn says whether the session's loop or its goroutine serves the session at present: see step.
// The loop holds mu while it serves the session; the goroutine holds mu to change these fields.
type turn struct {
	mu     sync.Mutex
	wake   chan wakeReason // the loop hands the session over
	owned  bool            // the session's goroutine serves the session
	busy   bool            // a response is awaited
	partly int             // bytes of a response that are not passed on yet
	final  bool            // the response ends with these bytes
	cause  error           // why the loop can't go on
}

// traffic counts commands, and bytes from and to clients.
type traffic struct{ count, in, out atomic.Int64 }

func (t *traffic) add(other *traffic) {
	t.count.Add(other.count.Load())
	t.in.Add(other.in.Load())
	t.out.Add(other.out.Load())
}

// endPieces ends the pieces of the query that the session is running, from any goroutine.
func (c *client) endPieces(why error) {
	if stop := c.pieces.Load(); stop != nil {
		(*stop)(why)
	}
}

// The phases of a session.
const (
	phaseIdle    = iota // waits for a command
	phaseServer         // waits for the server
	phaseUser           // writes to the client
	phasePieces         // waits for pieces of a query
	phaseOther          // begins to connect, or passes bytes without looking at them
	phaseLoop           // is served by the loop
	phaseConnect        // waits for the client or the server in the handshake
	phaseBits    = 3
	phaseCount   = 1 << phaseBits
)

func (c *client) enter(phase uint64) {
	c.phase.Store((c.phase.Load()>>phaseBits+1)<<phaseBits | phase)
}

// run serves the client until it or the server ends the connection.
func (c *client) run(ctx context.Context) error {
	if err := c.handshake(ctx); err != nil {
		return err
	}
	defer c.release()
	if err := c.front.loops.adopt(c); err != nil {
		return err
	}
	for !c.front.closing.Load() || c.inTransaction.Load() {
		more, err := c.command(ctx)
		if err != nil || !more {
			return err
		}
	}
	return errGone
}

// errGone ends a session whose client or server has closed its connection, which is not an error.
var errGone = errors.New("closed")

// command handles one command of the client, to the end of its response. It reports whether the
// session goes on.
func (c *client) command(ctx context.Context) (more bool, err error) {
	u := &c.user
	if u.r == u.w && c.user.sock != nil {
		c.user.shrink()
		c.server.shrink()
		switch why := c.await(); {
		case why == wakeEnd:
			return false, c.ended(c.turn.cause)
		case c.turn.cause != nil:
			return false, c.lost(c.turn.cause)
		case why == wakeSend:
			if _, err := c.server.Write(u.buf[u.r:u.w]); err != nil {
				return false, c.lost(err)
			}
			if u.r = u.w; !c.turn.busy {
				return true, nil
			}
			err := c.respond()
			return err == nil, err
		case why == wakeRespond:
			err := c.resume()
			return err == nil, err
		}
	}
	for u.w-u.r < mysqlwire.HeaderSize+1 && !u.empty() {
		c.enter(phaseIdle)
		err := u.fill()
		c.enter(phaseOther)
		if err != nil {
			return false, c.ended(err)
		}
	}
	if u.empty() {
		c.refuse(serverErrorOf(codeUnknownCommand, "08S01", "Unknown command"), u.buf[u.r+3]+1)
		return false, nil
	}
	if err := c.wantHead(); err != nil {
		return false, c.ended(err)
	}
	p := u.buf[u.r:u.w]
	if complete := len(p) >= mysqlwire.HeaderSize+mysqlwire.Length(p); !complete && mysqlwire.Length(p) <= session.MaxText+16 && c.examines(p[mysqlwire.HeaderSize:]) {
		if err := u.want(mysqlwire.HeaderSize + mysqlwire.Length(p)); err != nil {
			return false, c.ended(err)
		}
		p = u.buf[u.r:u.w]
	}
	what := p[mysqlwire.HeaderSize]
	if size := mysqlwire.HeaderSize + mysqlwire.Length(p); c.examines(p[mysqlwire.HeaderSize:min(size, len(p))]) {
		handled, err := false, error(nil)
		if len(p) >= size {
			handled, err = c.handle(ctx, p[:size])
		} else {
			err = c.passAnswered(p[mysqlwire.HeaderSize:])
		}
		if err == nil && !handled {
			err = c.restore()
		}
		if handled || err != nil {
			c.found, c.zero = -1, false
			u.r += min(size, u.w-u.r)
			return err == nil, err
		}
	}
	lacks := c.session.Lacking(p[mysqlwire.HeaderSize:]) != nil
	c.note(p)
	switch {
	case what == mysqlwire.ComQuit:
		_, _ = c.server.Write(u.buf[u.r:u.w]) // it closes the connection in any case
		return false, nil
	case silent(what):
		return true, c.send()
	case what == mysqlwire.ComChangeUser:
		name, _, _ := bytes.Cut(p[mysqlwire.HeaderSize+1:], []byte{0})
		user := string(name)
		if err := c.send(); err != nil {
			return false, err
		}
		if err := c.exchange(0); err != nil {
			// After its refusal, the server decides whether the connection goes on.
			return errors.Is(err, errDenied), noDenied(err)
		}
		c.session.Account = user
		return true, nil
	case opaque(what):
		return false, c.pass()
	}
	c.server.reply.follow(p[mysqlwire.HeaderSize:])
	send := c.send
	if lacks {
		send = c.sendTyped
	}
	if err := send(); err != nil {
		return false, err
	}
	err = c.respond()
	return err == nil, err
}

// empty reports that the next packet has no payload.
func (s *side) empty() bool {
	return s.w-s.r >= mysqlwire.HeaderSize && mysqlwire.Length(s.buf[s.r:]) == 0
}

// note notes a command that is passed on. p is as much of its packet as has arrived.
func (c *client) note(p []byte) {
	size := mysqlwire.HeaderSize + mysqlwire.Length(p)
	c.traffic.in.Add(int64(size))
	c.traffic.count.Add(1)
	c.session.Note(p[mysqlwire.HeaderSize:min(size, len(p))], len(p) >= size)
}

// after notes what a response says about the session.
func (c *client) after() {
	c.inTransaction.Store(c.server.reply.status&mysqlwire.StatusInTransaction != 0)
	c.session.After(c.server.reply.outcome())
}

// examines reports whether the session's goroutine has to look at a command. p is the command's
// payload, or the beginning of the payload.
func (c *client) examines(p []byte) bool {
	kind, _ := c.asks(p)
	return kind != session.Other || c.answered != nil
}

// asks returns the kind and the shape of a command. If a query of the same shape was found not
// worth splitting a moment ago, the kind of a query is session.Other: it is passed on whole.
func (c *client) asks(p []byte) (kind session.Kind, shape uint64) {
	if c.front.o.Answer == nil {
		return session.Other, 0
	}
	kind, shape = c.session.Asks(p)
	if kind == session.Query && !c.front.shapes.due(shape, c.front.clock.Load()) {
		c.session.Why = c.front.shapes.why(shape)
		kind = session.Other
	}
	return kind, shape
}

// send passes on the command at the beginning of the buffer; the rest of this command may not have
// arrived yet. Several commands in a row that get no response are sent together.
func (c *client) send() error {
	u := &c.user
	end := u.r
	for {
		p := u.buf[end:u.w]
		if len(p) < mysqlwire.HeaderSize+1 {
			break
		}
		n := mysqlwire.HeaderSize + mysqlwire.Length(p)
		if n > len(p) || n == mysqlwire.HeaderSize+mysqlwire.MaxPayload {
			if end == u.r {
				return c.sendLong()
			}
			break
		}
		end += n
		if !silent(p[mysqlwire.HeaderSize]) {
			break
		}
		next := u.buf[end:u.w]
		if len(next) < mysqlwire.HeaderSize+1 || !silent(next[mysqlwire.HeaderSize]) || len(next) < mysqlwire.HeaderSize+mysqlwire.Length(next) || mysqlwire.Length(next) == mysqlwire.MaxPayload {
			break
		}
		c.note(next)
	}
	if _, err := c.server.Write(u.buf[u.r:end]); err != nil {
		return c.lost(err)
	}
	u.r = end
	return nil
}

// sendLong passes on a command that is not in the buffer as a whole.
func (c *client) sendLong() error {
	for {
		if size, err := c.copyPacket(); err != nil || size < mysqlwire.MaxPayload {
			return err
		}
	}
}

// respond passes the server's response on, and notes what it says about the session.
func (c *client) respond() error {
	s := &c.server
	for {
		n, ended := c.server.reply.feed(s.buf[s.r:s.w])
		if n > 0 {
			c.enter(phaseUser)
			if _, err := c.user.Write(s.buf[s.r : s.r+n]); err != nil {
				return c.ended(err)
			}
			s.r += n
			c.traffic.out.Add(int64(n))
		}
		switch {
		case ended && c.server.reply.expect == expectFile:
			if err := c.file(); err != nil {
				return err
			}
			c.server.reply.expect = expectFirst
		case ended:
			s.shrink()
			c.user.shrink()
			c.after()
			return nil
		}
		if s.r == s.w && s.w == usualBuffer && len(s.buf) == usualBuffer {
			s.buf = make([]byte, largeBuffer) // a long result
		}
		c.enter(phaseServer)
		if err := s.fill(); err != nil {
			return c.ended(err)
		}
	}
}

// resume continues a response that the loop has begun.
func (c *client) resume() error {
	s := &c.server
	c.enter(phaseUser)
	if _, err := c.user.Write(s.buf[s.r : s.r+c.turn.partly]); err != nil {
		return c.ended(err)
	}
	s.r += c.turn.partly
	if c.turn.final && c.server.reply.expect != expectFile {
		c.after()
		return nil
	}
	return c.respond()
}

// file passes on what the client sends for LOAD DATA LOCAL: packets up to an empty packet.
func (c *client) file() error {
	for continued := false; ; {
		size, err := c.copyPacket()
		if err != nil || size == 0 && !continued {
			return err
		}
		continued = size == mysqlwire.MaxPayload
	}
}

// copyPacket passes one packet on from the client, and returns the size of its payload.
func (c *client) copyPacket() (size int, err error) {
	u := &c.user
	if err := u.want(mysqlwire.HeaderSize); err != nil {
		return 0, c.ended(err)
	}
	size = mysqlwire.Length(u.buf[u.r:])
	for left := mysqlwire.HeaderSize + size; left > 0; {
		if u.r == u.w {
			if err := u.fill(); err != nil {
				return 0, c.ended(err)
			}
		}
		n := min(left, u.w-u.r)
		if _, err := c.server.Write(u.buf[u.r : u.r+n]); err != nil {
			return 0, c.lost(err)
		}
		u.r += n
		left -= n
	}
	return size, nil
}

// pass copies bytes in both directions until one side ends.
func (c *client) pass() error {
	if _, err := c.server.Write(c.user.buf[c.user.r:c.user.w]); err != nil {
		return err
	}
	if _, err := c.user.Write(c.server.buf[c.server.r:c.server.w]); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(c.server.Conn, c.user.Conn)
		_ = c.server.SetReadDeadline(past)
	}()
	_, _ = io.Copy(c.user.Conn, c.server.Conn)
	_ = c.user.SetReadDeadline(past)
	<-done
	return nil
}

// lost returns the error of a failed write to the server. Before that, it passes on to the client
// what the server has sent last, e.g. an error about a packet that is too large.
func (c *client) lost(err error) error {
	c.gone.Store(true)
	return c.ended(err)
}

// lastWords is how long to wait for the last words of a server that has closed the connection.
const lastWords = 100 * time.Millisecond

// ended returns the error of a read or write: errGone if the other side has closed its connection.
// If c.gone says that the server has closed its connection, ended first passes on to the client
// what the server has sent last.
func (c *client) ended(err error) error {
	if c.gone.Load() {
		_ = c.server.SetReadDeadline(time.Now().Add(lastWords))
		for c.server.r == c.server.w {
			if c.server.fill() != nil {
				return errGone
			}
		}
		_, _ = c.user.Write(c.server.buf[c.server.r:c.server.w])
		return errGone
	}
	if c.front.closing.Load() && errors.Is(err, os.ErrDeadlineExceeded) {
		return errGone
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err) || errors.Is(err, net.ErrClosed) {
		return errGone
	}
	return err
}
