// Package session remembers what the statements of a client's session with a MariaDB or MySQL
// server have changed, as far as this decides whether a query may be split. It does no input or
// output: its caller passes it commands, and the outcomes of their responses.
//
// The state in which the next query runs has to be known exactly. Package session knows the effects
// of applications' statements and of connectors' usual settings. After any other statement the
// session is relayed: all its queries are passed on whole, until COM_RESET_CONNECTION,
// COM_CHANGE_USER or a new connection.
//
//	s := session.Session{Server: reader, Account: "alice"}
//	s.Note(append([]byte{mysqlwire.ComQuery}, "CALL p()"...), true)
//	s.After(session.Outcome{Status: mysqlwire.StatusAutocommit})
//	s.Refusal() // not nil: the session is relayed
package session

import (
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// A Server says how it reads texts.
type Server interface {
	Syntax(engine.State) sqltext.Syntax
	Function(name string, args int) engine.FunctionKind
}

// A Session is the state of a client's session since it began, or since its last reset.
type Session struct {
	// Server is nil if no query is split; then nothing is noted.
	Server Server
	// Account is the name of the client's account.
	Account string
	// Attributes: the client's commands may have query attributes. KeepsMeta: the client keeps the
	// definitions of columns. Executions of prepared statements of such clients are passed on whole.
	Attributes, KeepsMeta bool

	// Relayed reports that all queries are passed on whole until the session is reset.
	Relayed bool
	// Quiet reports that the session may have turned notes off.
	Quiet bool
	// Why is the reason for which the last query was passed on whole; nil if it was split, or if the
	// reason is unknown.
	Why *string
	// Outcome is the outcome of the last command.
	Outcome    Outcome
	Statements map[uint32]*Statement
	preparing  *Statement // the one whose COM_STMT_PREPARE has no response yet
}

// An Outcome is the effect of a command on the session, as its response tells.
type Outcome struct {
	Status   uint16 // mysqlwire.StatusInTransaction and others
	Failed   bool
	Affected bool // rows were changed
	Several  bool // there was more than one result
	// Statement is the id of the statement that was prepared, Params its number of parameters.
	Statement uint32
	Params    int
}

// MaxText is the length up to which texts of statements are examined.
const MaxText = 64 << 10

// maxStatements limits how many prepared statements of a session are remembered; further statements
// are relayed.
const maxStatements = 1024

// Reset begins the session anew.
func (s *Session) Reset() {
	*s = Session{Server: s.Server, Account: s.Account, Attributes: s.Attributes, KeepsMeta: s.KeepsMeta, Outcome: s.Outcome}
}

// Note notes a command that is passed on. p is its payload, or the beginning of a long one.
func (s *Session) Note(p []byte, complete bool) {
	if s.Server == nil {
		return
	}
	s.preparing = nil
	if mysqlwire.OfStatement(p[0]) && mysqlwire.StatementID(p) == lastPrepared {
		s.relayStatements() // the id may stand for any of them
	}
	switch st := s.Statements[mysqlwire.StatementID(p)]; p[0] {
	case mysqlwire.ComQuery, mysqlwire.ComStmtPrepare:
		s.noteText(p, complete)
	case mysqlwire.ComStmtExecute:
		if st == nil {
			s.Why = nil
		} else {
			st.note(p)
		}
	case mysqlwire.ComStmtLongData:
		if st != nil {
			st.Relayed = true
		}
	case mysqlwire.ComStmtClose:
		delete(s.Statements, mysqlwire.StatementID(p))
	case mysqlwire.ComInitDB:
		s.relayStatements()
	case mysqlwire.ComBulkExecute: // never a query
		s.Why = nil
	case mysqlwire.ComReset, mysqlwire.ComChangeUser:
		s.Reset()
	}
}

// noteText notes a COM_QUERY or COM_STMT_PREPARE.
func (s *Session) noteText(p []byte, complete bool) {
	t, all := s.Text(p)
	complete = complete && all
	word, _ := firstWord(SkipBlank(t))
	f, _ := followedStatement(word)
	s.Quiet = s.Quiet || !f.keeps && containsFold(t, "sql_notes")
	s.Relayed = s.Relayed || s.Relays(t, complete)
	if p[0] == mysqlwire.ComQuery {
		if !f.keeps {
			s.relayStatements()
		}
		switch k := kindOf(t); {
		case k == Query && s.Relayed:
			s.Why = &whyRelayed
		case k != Query && k != Show:
			s.Why = nil
		}
		return
	}
	// For instance, a prepared SET has its effect only when it is executed.
	s.Relayed = s.Relayed || !f.keeps
	if complete && kindOf(t) == Query && !AsksAboutLast(t) && len(s.Statements) < maxStatements && !s.Attributes && !s.KeepsMeta {
		s.preparing = &Statement{Text: string(t), Shape: Shape(t, s.Account)}
	}
}

// relayStatements marks all statements prepared so far as relayed, to be passed on whole: the
// server has parsed them with other settings than the session now has.
func (s *Session) relayStatements() {
	for _, st := range s.Statements {
		st.Relayed = true
	}
}

// After notes the outcome of the command.
func (s *Session) After(o Outcome) {
	s.Outcome = o
	if o.Several { // the texts behind the first statement were not examined
		s.Relayed, s.Quiet = true, true
	}
	if st := s.preparing; st != nil && !o.Failed {
		st.Params = o.Params
		if s.Statements == nil {
			s.Statements = map[uint32]*Statement{}
		}
		s.Statements[o.Statement] = st
	}
	s.preparing = nil
}

// A Kind is what a command asks for.
type Kind int

// Kinds of commands.
const (
	Other Kind = iota
	Query      // a query that may be split
	Kill
	Show
)

// Asks returns what a command asks for; for a Query, also its shape. p may be only the beginning of
// the command's payload. If a query can't be split in the session's present state, Asks sets Why to
// the reason, and returns Other.
func (s *Session) Asks(p []byte) (k Kind, shape uint64) {
	switch p[0] {
	case mysqlwire.ComQuery:
		t, all := s.Text(p)
		if !all {
			return Other, 0
		}
		switch k := kindOf(t); k {
		case Query:
			if s.Why = s.Refusal(); s.Why == nil {
				return k, Shape(t, s.Account)
			}
		case Kill:
			return k, 0
		case Show:
			if s.Why != nil && ShowsWarnings(t) {
				return k, 0
			}
		}
	case mysqlwire.ComStmtExecute:
		st := s.Statements[mysqlwire.StatementID(p)]
		if st == nil || st.Relayed {
			s.Why = &whyPrepared
		} else if s.Why = s.Refusal(); s.Why == nil {
			return Query, st.Shape
		}
	}
	return Other, 0
}

// Why all queries of a session are passed on whole.
var (
	whyRelayed = "a statement of the session may have locked tables, recorded statements or said something about the next transaction, " +
		"and the session hasn't been reset since"
	whyPrepared = "a prepared query is split only if nothing that the session has done since may change what it means, and not for " +
		"libraries that keep definitions of columns or have query attributes"
	whyNotNow = "a transaction is open, or rows were changed just before"
	whyManual = "autocommit is off, as it is for Python's drivers unless they connect with autocommit=True"
)

// Refusal returns why no query of the session may be split at present; nil if a query may be split.
// After a statement that has changed rows, no query is split: the query may read a view that calls
// ROW_COUNT(), and the front could not restore that value.
func (s *Session) Refusal() *string {
	switch {
	case s.Relayed:
		return &whyRelayed
	case s.Outcome.Status&mysqlwire.StatusAutocommit == 0:
		return &whyManual
	case s.Outcome.Status&mysqlwire.StatusInTransaction != 0, s.Outcome.Affected:
		return &whyNotNow
	}
	return nil
}

// Text returns the first MaxText bytes of the text of a COM_QUERY or COM_STMT_PREPARE. all reports
// that it is the whole text. For a command with query attributes, it returns nil and false.
func (s *Session) Text(p []byte) (t []byte, all bool) {
	t = p[1:]
	if p[0] == mysqlwire.ComQuery && s.Attributes {
		if len(t) < 2 || t[0] != 0 || t[1] != 1 {
			return nil, false
		}
		t = t[2:]
	}
	return t[:min(len(t), MaxText)], len(t) <= MaxText
}
