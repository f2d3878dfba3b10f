package session

import (
	"slices"

	"github.com/rowmill/rowmill/internal/mysqlwire"
)

// A Statement is a prepared query that may be split.
type Statement struct {
	Text   string
	Shape  uint64
	Params int
	Types  []byte // of its parameters, as the client last sent them
	// Unsent reports that the server hasn't got the parameters' types, because the client sent them
	// with an execution that was split.
	Unsent bool
	// Relayed says that executions are passed on whole: since the statement was prepared, the session
	// has run USE or SET, has sent a parameter of the statement in parts, or has opened a cursor.
	Relayed bool
}

// lastPrepared stands for the id of the statement prepared last. MariaDB's clients use it to
// execute this statement before they have the response to its COM_STMT_PREPARE, which has the id.
const lastPrepared = 0xFFFFFFFF

// BoundAt is where a COM_STMT_EXECUTE of the statement says whether types of parameters follow.
func (st *Statement) BoundAt() int { return 10 + (st.Params+7)/8 }

// note notes a COM_STMT_EXECUTE that is passed on.
func (st *Statement) note(p []byte) {
	if len(p) > mysqlwire.ExecutionFlags && p[mysqlwire.ExecutionFlags] != 0 {
		st.Relayed = true
	}
	if st.NoteTypes(p) {
		st.Unsent = false
	}
}

// NoteTypes remembers the types of a statement's parameters if p, the payload of a
// COM_STMT_EXECUTE, has them. It reports whether p has them: clients send them only with the first
// execution.
func (st *Statement) NoteTypes(p []byte) (has bool) {
	at := st.BoundAt()
	if st.Params > 0 && len(p) > at && p[at] == 1 && len(p) >= at+1+2*st.Params {
		st.Types = append(st.Types[:0], p[at+1:at+1+2*st.Params]...)
		return true
	}
	return false
}

// Lacking returns the statement of p if p is a COM_STMT_EXECUTE without the types of parameters,
// and the server hasn't got the types in an earlier packet; nil for any other p.
func (s *Session) Lacking(p []byte) *Statement {
	if p[0] != mysqlwire.ComStmtExecute {
		return nil
	}
	st := s.Statements[mysqlwire.StatementID(p)]
	if st == nil || !st.Unsent || len(p) <= st.BoundAt() || p[st.BoundAt()] != 0 {
		return nil
	}
	return st
}

// WithTypes returns a payload of COM_STMT_EXECUTE with the types in it.
func (st *Statement) WithTypes(p []byte) []byte {
	at := st.BoundAt()
	return slices.Concat(p[:at], []byte{1}, st.Types, p[at+1:])
}
