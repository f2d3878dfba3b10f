package serve

import "github.com/rowmill/rowmill/internal/mysqlwire"

// Commands for prepared statements that are passed on. A client sends the types of parameters only
// with the first execution. If the first execution was split, the server has not got the types, so
// rowmill adds them to the next execution that it passes on.

// wantHead reads as much of a command for a prepared statement as is needed to decide what to do
// with it: up to the statement's id and the types of its parameters.
func (c *client) wantHead() error {
	u := &c.user
	size := mysqlwire.Length(u.buf[u.r:])
	if !mysqlwire.OfStatement(u.buf[u.r+mysqlwire.HeaderSize]) {
		return nil
	}
	if err := u.want(mysqlwire.HeaderSize + min(size, mysqlwire.ExecutionFlags+1)); err != nil {
		return err
	}
	s := c.session.Statements[mysqlwire.StatementID(u.buf[u.r+mysqlwire.HeaderSize:u.w])]
	if s == nil || u.buf[u.r+mysqlwire.HeaderSize] != mysqlwire.ComStmtExecute {
		return nil
	}
	return u.want(mysqlwire.HeaderSize + min(size, s.BoundAt()+1+2*s.Params))
}

// sendTyped passes on a COM_STMT_EXECUTE that lacks the types of its parameters, with the types
// added. If the command with the types doesn't fit into one packet, the session ends.
func (c *client) sendTyped() error {
	p, err := c.user.packet(mysqlwire.MaxPayload - 1)
	if err != nil {
		return c.ended(err)
	}
	s := c.session.Statements[mysqlwire.StatementID(p[mysqlwire.HeaderSize:])]
	out, _ := mysqlwire.End(append(mysqlwire.Begin(nil, p[3]), s.WithTypes(p[mysqlwire.HeaderSize:])...), 0)
	if _, err := c.server.Write(out); err != nil {
		return c.lost(err)
	}
	s.Unsent = false
	return nil
}
