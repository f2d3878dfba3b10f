package session

import (
	"bytes"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// A followed statement has a known effect on the session. After any other statement, the session is
// relayed.
type followed struct {
	word  string // its first word
	keeps bool   // it changes neither the database nor how the server reads texts
	calls bool   // it may call functions
}

var followedStatements = []followed{
	{"select", true, true}, {"with", true, true}, {"insert", true, true}, {"update", true, true}, {"delete", true, true}, {"replace", true, true},
	{"begin", true, false}, {"commit", true, false}, {"set", false, true}, {"show", true, true}, {"values", true, true}, {"explain", true, true},
	{"describe", true, true}, {"desc", true, true}, {"analyze", false, true}, {"do", false, true},
	{"table", true, false}, {"load", true, false}, {"start", true, false}, {"rollback", true, false}, {"savepoint", true, false},
	{"release", true, false}, {"unlock", true, false}, {"kill", true, false}, {"use", false, false},
	{"create", false, false}, {"alter", false, false}, {"drop", false, false}, {"truncate", false, false}, {"rename", false, false},
	{"optimize", false, false}, {"check", false, false}, {"grant", false, false}, {"revoke", false, false},
	{"prepare", false, false}, {"deallocate", false, false},
}

func followedStatement(word []byte) (followed, bool) {
	for _, f := range followedStatements {
		if equalFold(word, f.word) {
			return f, true
		}
	}
	return followed{}, false
}

// Relays reports a text after which the session is relayed. Such a statement sets the next
// transaction only, as SET TRANSACTION does without a scope; or locks tables, for which pieces
// would wait; or has the server record statements, the front's own included. If t is only the
// beginning of a long text, complete is false, and calls in the rest are not looked for.
func (s *Session) Relays(t []byte, complete bool) bool {
	word, rest := firstWord(SkipBlank(t))
	f, ok := followedStatement(word)
	switch {
	case !ok, !f.keeps && (containsFold(rest, "profiling") || containsFold(rest, "optimizer_trace")):
		return true
	case !f.calls:
		return f.word == "begin" && containsFold(rest, "atomic") // MariaDB's block of statements
	case f.word == "set":
		return s.setRelays(rest)
	}
	return bytes.IndexByte(rest, '(') >= 0 && s.callsUnknown(rest, f.word == "insert" || f.word == "replace", false, complete)
}

// setRelays reports a SET of a variable about transactions, unless it is for the whole session or
// the server; a SET that calls a function of a user; and MariaDB's SET STATEMENT, which has another
// statement within it.
func (s *Session) setRelays(t []byte) bool {
	scope, _ := firstWord(bytes.TrimPrefix(SkipBlank(t), []byte("@@")))
	scoped := equalFold(scope, "session") || equalFold(scope, "local") || equalFold(scope, "global")
	scoped = scoped && (bytes.IndexByte(t, ',') < 0 || containsFold(t, "isolation level"))
	return equalFold(scope, "statement") || s.callsUnknown(t, false, !scoped, true)
}

// scanner reads a text by the server's rules. Text in double quotes is a string, unless a mode is
// set that makes it a name.
func (s *Session) scanner(text string) sqltext.Scanner {
	scanner := sqltext.NewScanner(text, s.Server.Syntax(nil))
	scanner.Escape(s.Outcome.Status&mysqlwire.StatusNoBackslash == 0)
	return scanner
}

// aboutTransactions reports the name of a variable such as transaction_isolation, also in double
// quotes. A string in single quotes is no name.
func aboutTransactions(token string) bool {
	p := []byte(token)
	return p[len(p)-1] != '\'' && (containsFold(p, "isolation") || containsFold(p, "transaction"))
}

// notCalls are words that may stand before parentheses, besides the functions that a Server knows:
// they never call a function of a user. A user's function with the name of a built-in function must
// be called with its database's name.
var notCalls = engine.WordSet(`
	all and any as avg between binary by case cast char coalesce concat connection_id convert count current_user database
	decimal distinct div else exists found_rows from group_concat having if ifnull in index is join key last_insert_id like
	limit max min mod not now on or over partition rand row row_count schema select session_user signed sleep some std sum
	sysdate then union unsigned user using uuid values varchar version when where xor`)

// callsUnknown reports that a statement may call a function of a user, or has text that only some
// servers execute. columns says that a list of columns, which looks like a call, may come first, as
// in INSERT INTO t (a). With transactions, it also reports the name of a variable about
// transactions, except in a string: MariaDB's connectors set a variable to a list of these.
func (s *Session) callsUnknown(t []byte, columns, transactions, complete bool) bool {
	text := string(t)
	scan := s.scanner(text)
	for before, name := (sqltext.Token{}), (sqltext.Token{}); ; {
		token, err := scan.Next()
		switch {
		case err != nil:
			return complete // the beginning of a long text may end within a string
		case token.Kind == sqltext.End:
			return false
		case token.Kind == sqltext.Executable, transactions && aboutTransactions(token.Of(text)):
			return true
		case columns:
			columns = token.Word != "VALUES" && token.Word != "SELECT" && token.Word != "SET" && !strings.EqualFold(token.Of(text), "value")
		case token.Word != "(" || before.Word == "WITH" || before.Word == "RECURSIVE" || before.Word == "AS":
		case name.Kind == sqltext.Word:
			called := strings.ToLower(name.Of(text))
			if before.Word == "." || !notCalls[called] && s.Server.Function(called, 1) == engine.UnknownFunction && s.Server.Function(called, 2) == engine.UnknownFunction {
				return true
			}
		case name.Kind == sqltext.Quoted, name.Kind == sqltext.String && text[name.From] == '"':
			return true
		}
		before, name = name, token
	}
}
