package session

import (
	"bytes"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/query/parse"
)

// A followed statement is one of which it is known what it changes in the session. Any other one
// makes the session relayed.
type followed struct {
	word  string // its first
	keeps bool   // it changes neither the database nor how texts are read
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

// Relays reports a text after which the session is relayed: it may say something about the next
// transaction only, such as SET TRANSACTION without a scope, lock tables, for which pieces would
// wait, or have the server record statements, among which the front's own would be. A text with
// several statements is known by its response. t may be the beginning of a long text, in the rest
// of which no calls are looked for.
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

// setRelays reports a SET that has the name of a variable about transactions, and not in the scope
// of the whole session or the server; one that calls a function of a user; or MariaDB's SET
// STATEMENT, which has another statement within it.
func (s *Session) setRelays(t []byte) bool {
	scope, _ := firstWord(bytes.TrimPrefix(SkipBlank(t), []byte("@@")))
	scoped := equalFold(scope, "session") || equalFold(scope, "local") || equalFold(scope, "global")
	scoped = scoped && (bytes.IndexByte(t, ',') < 0 || containsFold(t, "isolation level"))
	return equalFold(scope, "statement") || s.callsUnknown(t, false, !scoped, true)
}

// scanner reads a text by the server's rules. Text in double quotes is a string, unless a mode is
// set that makes it a name.
func (s *Session) scanner(text string) parse.Scanner {
	scanner := parse.NewScanner(text, s.Server.Syntax(nil))
	scanner.Escape(s.Outcome.Status&mysqlwire.StatusNoBackslash == 0)
	return scanner
}

// aboutTransactions reports a name, which what is in double quotes may be.
func aboutTransactions(token string) bool {
	p := []byte(token)
	return p[len(p)-1] != '\'' && (containsFold(p, "isolation") || containsFold(p, "transaction"))
}

// notCalls are words, besides the functions that a Server knows, that stand before parentheses and
// call no function of a user: one with the name of the server's own is called with its database's
// name.
var notCalls = engine.WordSet(`
	all and any as avg between binary by case cast char coalesce concat connection_id convert count current_user database
	decimal distinct div else exists found_rows from group_concat having if ifnull in index is join key last_insert_id like
	limit max min mod not now on or over partition rand row row_count schema select session_user signed sleep some std sum
	sysdate then union unsigned user using uuid values varchar version when where xor`)

// callsUnknown reports that a statement may call a function of a user, or has text that only some
// servers execute. columns says that a list of columns may come first, which looks like a call. If
// transactions is set, it also reports the name of a variable about transactions. In a string, that
// means nothing: MariaDB's connectors have it in a list of variables to track.
func (s *Session) callsUnknown(t []byte, columns, transactions, complete bool) bool {
	text := string(t)
	scan := s.scanner(text)
	for before, name := (parse.Token{}), (parse.Token{}); ; {
		token, err := scan.Next()
		switch {
		case err != nil:
			return complete // the beginning of a long text may end within a string
		case token.Kind == parse.End:
			return false
		case token.Kind == parse.Executable, transactions && aboutTransactions(token.Of(text)):
			return true
		case columns:
			columns = token.Word != "VALUES" && token.Word != "SELECT" && token.Word != "SET" && !strings.EqualFold(token.Of(text), "value")
		case token.Word != "(" || before.Word == "WITH" || before.Word == "RECURSIVE" || before.Word == "AS":
		case name.Kind == parse.Word:
			called := strings.ToLower(name.Of(text))
			if before.Word == "." || !notCalls[called] && s.Server.Function(called, 1) == engine.UnknownFunction && s.Server.Function(called, 2) == engine.UnknownFunction {
				return true
			}
		case name.Kind == parse.Quoted, name.Kind == parse.String && text[name.From] == '"':
			return true
		}
		before, name = name, token
	}
}
