package serve

import (
	"slices"

	"github.com/rowmill/rowmill/internal/mysqlwire"
)

// Commands about prepared statements that are passed on. What executions that were answered in pieces have kept from the server, it gets with the
// next one that is passed on.

// A statement is a prepared query that may be split.
type statement struct {
	text   string
	shape  uint64
	params int
	types  []byte // of its parameters, as the client last sent them
	unsent bool   // the server hasn't had these types
	long   bool   // a value was sent in parts
	cursor bool   // the last execution has left a cursor open, which the next one closes
	// changes is that of the client when it was prepared: its database, and how its text was read, are those of that moment.
	changes int
}

// wantHead reads what decides about a command for a prepared statement: which one it is, and the types of its parameters.
func (c *client) wantHead() error {
	u := &c.user
	size := mysqlwire.Length(u.buf[u.r:])
	if !mysqlwire.OfStatement(u.buf[u.r+mysqlwire.HeaderSize]) {
		return nil
	}
	if err := u.want(mysqlwire.HeaderSize + min(size, mysqlwire.ExecutionFlags+1)); err != nil {
		return err
	}
	s := c.statements[mysqlwire.StatementID(u.buf[u.r+mysqlwire.HeaderSize:u.w])]
	if s == nil || u.buf[u.r+mysqlwire.HeaderSize] != mysqlwire.ComStmtExecute {
		return nil
	}
	return u.want(mysqlwire.HeaderSize + min(size, s.boundAt()+1+2*s.params))
}

// lastStatement stands for the statement that was prepared last, on MariaDB. It is passed on as it is: libraries use it right behind COM_STMT_PREPARE, between
// which and it the front prepares nothing.
const lastStatement = 0xFFFFFFFF

// boundAt is where a COM_STMT_EXECUTE of the statement says whether types of parameters follow.
func (s *statement) boundAt() int { return 10 + (s.params+7)/8 }

// noteTypes remembers the types of parameters, which clients send with the first execution only, and reports whether p has them, which
// is the payload of COM_STMT_EXECUTE.
func (s *statement) noteTypes(p []byte) (has bool) {
	at := s.boundAt()
	if s.params > 0 && len(p) > at && p[at] == 1 && len(p) >= at+1+2*s.params {
		s.types = append(s.types[:0], p[at+1:at+1+2*s.params]...)
		return true
	}
	return false
}

// lacksTypes reports a COM_STMT_EXECUTE without the types of its parameters, of which the server has none or older ones: the client sent them
// with an execution that was answered in pieces. p is its payload, or the beginning.
func (c *client) lacksTypes(p []byte) bool {
	if p[0] != mysqlwire.ComStmtExecute {
		return false
	}
	s := c.statements[mysqlwire.StatementID(p)]
	return s != nil && s.unsent && len(p) > s.boundAt() && p[s.boundAt()] == 0
}

// withTypes returns a payload of COM_STMT_EXECUTE with the types in it.
func (s *statement) withTypes(p []byte) []byte {
	at := s.boundAt()
	return slices.Concat(p[:at], []byte{1}, s.types, p[at+1:])
}

// sendTyped passes a COM_STMT_EXECUTE on with the types of its parameters, which it lacks. One that is as long as a packet may be has no room for them,
// and ends the session.
func (c *client) sendTyped() error {
	p, err := c.user.packet(mysqlwire.MaxPayload - 1)
	if err != nil {
		return c.ended(err)
	}
	s := c.statements[mysqlwire.StatementID(p[mysqlwire.HeaderSize:])]
	out, _ := mysqlwire.End(append(mysqlwire.Begin(nil, p[3]), s.withTypes(p[mysqlwire.HeaderSize:])...), 0)
	if _, err := c.server.Write(out); err != nil {
		return c.lost(err)
	}
	s.unsent = false
	return nil
}
