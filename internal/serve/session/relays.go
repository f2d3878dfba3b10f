package session

import (
	"bytes"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// A followed statement is one whose effect on the session is known. After any other statement, the
// session is relayed: all of its further queries are passed on whole.
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

// Relays reports whether a statement makes the session relayed: from then on, no query is split.
// Such a statement sets only the next transaction, e.g. SET TRANSACTION without a scope; locks
// tables, for which pieces would wait; or lets the server record all statements, including the
// front's. If t is only the beginning of a long text, complete is false; calls in the rest are not
// looked for.
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

// setRelays reports whether a SET makes the session relayed. This is so if the SET may call a
// function of a user, if it is MariaDB's SET STATEMENT, which contains another statement, or if it
// sets a variable about transactions without first saying SESSION, LOCAL or GLOBAL.
func (s *Session) setRelays(t []byte) bool {
	scope, _ := firstWord(bytes.TrimPrefix(SkipBlank(t), []byte("@@")))
	scoped := equalFold(scope, "session") || equalFold(scope, "local") || equalFold(scope, "global")
	scoped = scoped && (bytes.IndexByte(t, ',') < 0 || containsFold(t, "isolation level"))
	return equalFold(scope, "statement") || s.callsUnknown(t, false, !scoped, true)
}

// scanner returns a scanner of a text by the server's rules. Text in double quotes is a string,
// unless the server's SQL mode makes it a name.
func (s *Session) scanner(text string) sqltext.Scanner {
	scanner := sqltext.NewScanner(text, s.Server.Syntax(nil))
	scanner.Escape(s.Outcome.Status&mysqlwire.StatusNoBackslash == 0)
	return scanner
}

// aboutTransactions reports whether a token is the name of a variable such as
// transaction_isolation. The name may be in double quotes; a token in single quotes is a string.
func aboutTransactions(token string) bool {
	p := []byte(token)
	return p[len(p)-1] != '\'' && (containsFold(p, "isolation") || containsFold(p, "transaction"))
}

// notCalls are words that may stand before parentheses without calling a user's function.
// (Session.callsUnknown also asks the Server, which knows further functions.) To call a user's
// function that has the name of a built-in one, a statement must name its database.
var notCalls = engine.WordSet(`
	all and any as avg between binary by case cast char coalesce concat connection_id convert count current_user database
	decimal distinct div else exists found_rows from group_concat having if ifnull in index is join key last_insert_id like
	limit max min mod not now on or over partition rand row row_count schema select session_user signed sleep some std sum
	sysdate then union unsigned user using uuid values varchar version when where xor`)

// callsUnknown reports whether a statement may call a function of a user, or has text that only
// some servers execute. columns says that a list of columns may come first, as in INSERT INTO t
// (a), which looks like a call. If transactions is set, callsUnknown also reports names of
// variables about transactions. It ignores these names in strings, because MariaDB's connectors set
// a variable to a list of them.
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
