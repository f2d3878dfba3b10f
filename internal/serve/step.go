package serve

import (
	"errors"

	"github.com/rowmill/rowmill/internal/mysqlwire"
)

// errAgain reports that a read or write would have to wait.
var errAgain = errors.New("not ready")

// A wakeReason is why a loop hands a session over to its goroutine.
type wakeReason int

const (
	wakeCommand wakeReason = iota // a command is to be handled
	wakeSend                      // a command is partly sent
	wakeRespond                   // a response is partly passed on
	wakeEnd                       // a side has closed its connection, or failed: c.turn.cause
)

// await hands the session to its loop and waits until the loop hands it back.
func (c *client) await() wakeReason {
	c.turn.mu.Lock()
	c.turn.owned, c.turn.cause = false, nil
	c.turn.busy, c.turn.partly = false, 0
	c.user.ready, c.server.ready = true, true // perhaps: step tries to read
	c.phase.Store(phaseLoop)
	c.step()
	c.turn.mu.Unlock()
	return <-c.turn.wake
}

// giveBack hands the session over to its goroutine. c.turn.mu is held.
func (c *client) giveBack(why wakeReason, cause error) {
	c.turn.owned, c.turn.cause = true, cause
	c.phase.Store(phaseOther)
	c.turn.wake <- why
}

// step does all that can be done for a session without waiting. The caller holds c.turn.mu, and the
// loop serves the session. A panic ends only this session, not the other sessions of the loop.
func (c *client) step() {
	defer func() {
		if bug := recover(); bug != nil {
			err := c.front.panicked(c, bug)
			if !c.turn.owned {
				c.giveBack(wakeEnd, err)
			}
		}
	}()
	for {
		if c.turn.busy {
			if !c.server.ready || !c.stepServer() {
				return
			}
			continue
		}
		if c.server.ready && !c.stepIdleServer() {
			return
		}
		if !c.user.ready || !c.stepUser() {
			return
		}
	}
}

// stepIdleServer reads from a server that nobody has asked: if the server has sent something, it is
// about to close the connection.
func (c *client) stepIdleServer() (goOn bool) {
	s := &c.server
	n, err := 0, error(nil)
	if s.r == s.w {
		s.room()
		n, err = c.server.sock.read(s.buf[s.w:])
		s.w += n
	}
	if err == errAgain {
		c.server.ready = false
		return true
	}
	c.gone.Store(true)
	c.giveBack(wakeEnd, err)
	return false
}

// stepUser reads from the client and passes a small command on.
func (c *client) stepUser() (goOn bool) {
	u := &c.user
	u.room()
	n, err := c.user.sock.read(u.buf[u.w:])
	if err == errAgain {
		c.user.ready = false
		return false
	}
	if err != nil {
		c.giveBack(wakeEnd, err)
		return false
	}
	c.user.ready = n == len(u.buf)-u.w || c.user.sock.hangup
	u.w += n
	p := u.buf[u.r:u.w]
	// One whole command, and nothing behind it.
	if len(p) < mysqlwire.HeaderSize+1 || mysqlwire.HeaderSize+mysqlwire.Length(p) != len(p) || !c.simple(p[mysqlwire.HeaderSize:]) {
		c.giveBack(wakeCommand, nil)
		return false
	}
	c.note(p)
	c.server.reply.follow(p[mysqlwire.HeaderSize:])
	c.turn.busy = !silent(p[mysqlwire.HeaderSize])
	n, err = c.server.sock.write(p)
	u.r += n
	if err == errAgain {
		err = nil
	}
	if n < len(p) || err != nil {
		c.giveBack(wakeSend, err)
		return false
	}
	return true
}

// simple reports a command that is passed on without a further look.
func (c *client) simple(p []byte) bool {
	return (expected[p[0]] != expectNothing || silent(p[0])) && !c.examines(p) && c.session.Lacking(p) == nil
}

// stepServer passes on the part of a response that has arrived.
func (c *client) stepServer() (goOn bool) {
	s := &c.server
	s.room()
	n, err := c.server.sock.read(s.buf[s.w:])
	if err == errAgain {
		c.server.ready = false
		return false
	}
	if err != nil {
		c.giveBack(wakeEnd, err)
		return false
	}
	long := n == len(s.buf)-s.w
	c.server.ready = long || c.server.sock.hangup
	s.w += n
	n, ended := c.server.reply.feed(s.buf[s.r:s.w])
	for n > 0 {
		k, err := c.user.sock.write(s.buf[s.r : s.r+n])
		s.r += k
		n -= k
		c.traffic.out.Add(int64(k))
		if err == errAgain {
			c.turn.partly, c.turn.final = n, ended
			c.giveBack(wakeRespond, nil)
			return false
		}
		if err != nil {
			c.giveBack(wakeEnd, err)
			return false
		}
	}
	if !ended && !long {
		return true
	}
	if !ended || c.server.reply.expect == expectFile {
		c.turn.partly, c.turn.final = 0, ended
		c.giveBack(wakeRespond, nil)
		return false
	}
	c.turn.busy = false
	c.after()
	return true
}

// room makes room for a read.
func (s *side) room() {
	switch {
	case s.buf == nil:
		s.buf = make([]byte, usualBuffer)
	case s.r == s.w:
		s.r, s.w = 0, 0
	case s.w == len(s.buf) && s.r > 0:
		s.w = copy(s.buf, s.buf[s.r:s.w])
		s.r = 0
	case s.w == len(s.buf):
		s.buf = append(s.buf, make([]byte, len(s.buf))...)
	}
}

// recall ends a session that is idle, if its loop serves it.
func (c *client) recall() {
	c.turn.mu.Lock()
	defer c.turn.mu.Unlock()
	if c.phase.Load() == phaseLoop && !c.turn.owned && !c.turn.busy && !c.inTransaction.Load() {
		c.giveBack(wakeEnd, errGone)
	}
}
