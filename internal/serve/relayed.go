package serve

import (
	"bytes"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/query/parse"
)

// A session is relayed, all of its queries whole, from a statement on after which no server tells a client what holds for its next query: SET TRANSACTION
// without a scope, which is about the next transaction only, whatever may contain it, locks on tables, for which pieces would wait, and the recording of statements. It ends where the session begins anew,
// by COM_RESET_CONNECTION, COM_CHANGE_USER or a new connection.

// Why sessions are relayed, for SHOW WARNINGS.
var (
	whyTraced = "the session may have set profiling or optimizer_trace, which would show rowmill's own statements, and hasn't been reset since"
	whyDrifts = "a statement was prepared that may change the session when it is executed, and the session hasn't been reset since"
	whyHidden = "a statement of the session may have locked tables or said something about the next transaction, and the session hasn't been reset since"
)

// harmless are the first words of statements, besides keeping, that say nothing about the next transaction.
var harmless = []string{"use", "create", "alter", "drop", "truncate", "rename", "optimize", "check", "grant", "revoke", "prepare", "deallocate"}

// evaluating are the first words of statements that may call functions.
var evaluating = []string{"select", "with", "values", "insert", "replace", "update", "delete", "show", "explain", "describe", "desc", "analyze", "do", "set"}

// relays returns why the session is relayed from a statement on; nil if it isn't. t is its text, or the beginning of a long one, in the rest of which no
// calls are looked for. A text with several statements is known by its response.
func (c *client) relays(t []byte, complete bool) *string {
	if c.relayed != nil {
		return c.relayed
	}
	if !keeps(t) && traces(t) {
		return &whyTraced
	}
	word, rest := firstWord(skipBlank(t))
	if equalFold(word, "set") {
		// MariaDB's SET STATEMENT has another statement within it.
		scope, _ := firstWord(bytes.TrimPrefix(skipBlank(rest), []byte("@@")))
		scoped := oneOf(scope, []string{"session", "local", "global"}) && (bytes.IndexByte(rest, ',') < 0 || containsFold(rest, "isolation level"))
		if equalFold(scope, "statement") || !scoped && c.aboutTransactions(rest) || bytes.Contains(rest, []byte("/*")) {
			return &whyHidden
		}
	}
	switch {
	case oneOf(word, evaluating):
		if columns := equalFold(word, "insert") || equalFold(word, "replace"); !c.callsUnknown(rest, columns, complete) {
			return nil
		}
	case oneOf(word, keeping) && !containsFold(rest, "atomic"), oneOf(word, harmless): // BEGIN NOT ATOMIC has other statements within it
		return nil
	}
	return &whyHidden
}

// scanner reads a text by the session's rules, as far as they are known.
func (c *client) scanner(text string) parse.Scanner {
	scanner := parse.NewScanner(text, c.front.o.Reader.Syntax(c.mode))
	scanner.Escape(c.reply.status&mysqlwire.StatusNoBackslash == 0)
	return scanner
}

// aboutTransactions reports that a SET has the name of a variable about transactions outside of strings: MariaDB's libraries have it in a list of variables to track.
func (c *client) aboutTransactions(t []byte) bool {
	if !containsFold(t, "isolation") && !containsFold(t, "transaction") {
		return false
	}
	text := string(t)
	for s := c.scanner(text); ; {
		token, err := s.Next()
		if err != nil || token.Kind == parse.End {
			return err != nil
		}
		// What is in double quotes may be a name.
		if name := []byte(token.Of(text)); name[len(name)-1] != '\'' && (containsFold(name, "isolation") || containsFold(name, "transaction")) {
			return true
		}
	}
}

func oneOf(word []byte, list []string) bool {
	for _, w := range list {
		if equalFold(word, w) {
			return true
		}
	}
	return false
}

// notCalls are words, besides the functions that a Reader knows, that stand before parentheses and call no function
// of a user: with the name of one of the server's own, that is called with its database's name.
var notCalls = map[string]bool{
	"all": true, "and": true, "any": true, "as": true, "avg": true, "between": true, "binary": true, "by": true, "case": true, "cast": true,
	"char": true, "coalesce": true, "concat": true, "connection_id": true, "convert": true, "count": true, "current_user": true, "database": true,
	"decimal": true, "distinct": true, "div": true, "else": true, "exists": true, "found_rows": true, "from": true, "group_concat": true,
	"having": true, "if": true, "ifnull": true, "in": true, "index": true, "is": true, "join": true, "key": true, "last_insert_id": true, "like": true,
	"limit": true, "max": true, "min": true, "mod": true, "not": true, "now": true, "on": true, "or": true, "over": true, "partition": true,
	"rand": true, "row": true, "row_count": true, "schema": true, "select": true, "session_user": true, "signed": true, "sleep": true, "some": true,
	"std": true, "sum": true, "sysdate": true, "then": true, "union": true, "unsigned": true, "user": true, "using": true, "uuid": true, "values": true,
	"varchar": true, "version": true, "when": true, "where": true, "xor": true,
}

// callsUnknown reports that a statement may call a function of a user. columns says that a list of columns may come first, which looks like a call.
func (c *client) callsUnknown(t []byte, columns, complete bool) bool {
	if bytes.IndexByte(t, '(') < 0 {
		return false
	}
	text, reader := string(t), c.front.o.Reader
	s := c.scanner(text)
	for before, name := (parse.Token{}), (parse.Token{}); ; {
		token, err := s.Next()
		switch {
		case err != nil:
			return complete // the beginning of a long text may end within a string
		case token.Kind == parse.End:
			return false
		case token.Kind == parse.Executable:
			return true
		case columns:
			columns = token.Word != "VALUES" && token.Word != "SELECT" && token.Word != "SET" && !strings.EqualFold(token.Of(text), "value")
		case token.Word != "(" || before.Word == "WITH" || before.Word == "RECURSIVE" || before.Word == "AS":
		case name.Kind == parse.Word:
			called := strings.ToLower(name.Of(text))
			if before.Word == "." || !notCalls[called] && reader.Function(called, 1) == engine.UnknownFunction && reader.Function(called, 2) == engine.UnknownFunction {
				return true
			}
		case name.Kind == parse.Quoted:
			return true
		}
		before, name = name, token
	}
}
