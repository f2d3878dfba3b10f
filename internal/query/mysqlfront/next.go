package mysqlfront

import (
	"bytes"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
)

// SET TRANSACTION without a scope is about the next transaction only, which may be a query by itself. No server tells a client
// whether it is in effect, and EXPLAIN would end it. So it is looked for in the texts of statements.

// An aboutNext is what may have been said about the next transaction.
type aboutNext int

const (
	nothing aboutNext = iota
	perhaps           // by a procedure or a function, or by a statement that isn't known: queries are passed on until one has certainly used it up
	said              // by the client itself: queries are passed on until a transaction has ended
)

// harmless are the first words of statements, besides keeping, that say nothing about the next transaction.
var harmless = []string{"use", "set", "create", "alter", "drop", "truncate", "rename", "analyze", "optimize", "check", "flush", "grant", "revoke", "prepare", "deallocate"}

// evaluating are the first words of statements that may call functions.
var evaluating = []string{"select", "with", "values", "insert", "replace", "update", "delete", "show", "explain", "describe", "desc"}

// withoutColumns returns the part of an INSERT behind its list of columns, which looks like a call.
func withoutColumns(word, rest []byte) []byte {
	i := bytes.IndexByte(rest, '(')
	if i < 0 || !equalFold(word, "insert") && !equalFold(word, "replace") {
		return rest
	}
	for _, w := range []string{"value", "select", "set"} {
		if containsFold(rest[:i], w) {
			return rest
		}
	}
	return rest[i+1:]
}

// aboutNext returns what a statement says about the next transaction. t is its text, or the beginning of a long one.
func (c *client) aboutNext(t []byte, complete bool) aboutNext {
	rest := skipBlank(t)
	word, rest := firstWord(rest)
	set := equalFold(word, "set")
	if set && (containsFold(rest, "isolation") || containsFold(rest, "transaction")) {
		scope, _ := firstWord(bytes.TrimPrefix(skipBlank(rest), []byte("@@")))
		if complete && oneOf(scope, []string{"session", "local", "global"}) && !further(rest) &&
			(bytes.IndexByte(rest, ',') < 0 || containsFold(rest, "isolation level")) {
			return nothing
		}
		return said
	}
	switch {
	case !complete, further(rest), set && !keepsWithin(rest):
		return perhaps
	case set, oneOf(word, evaluating):
		// A function may say it, if no table with transactions is used.
		if c.callsUnknown(withoutColumns(word, rest)) {
			return perhaps
		}
		return nothing
	case oneOf(word, keeping), oneOf(word, harmless):
		return nothing
	}
	return perhaps
}

// keepsWithin reports that a SET has no statement of another kind than keeping within it, as MariaDB's SET STATEMENT ... FOR has. t is its text behind
// SET. It takes the word in a string for one, too, and doesn't read
// comments that are executed.
func keepsWithin(t []byte) bool {
	if bytes.Contains(t, []byte("/*!")) || bytes.Contains(t, []byte("/*M!")) {
		return false
	}
	if word, _ := firstWord(skipBlank(t)); !equalFold(word, "statement") {
		return true
	}
	found := false
	for i := 0; i < len(t); i++ {
		word, rest := firstWord(t[i:])
		if equalFold(word, "for") {
			if word, _ := firstWord(skipBlank(rest)); !oneOf(word, keeping) {
				return false
			}
			found = true
		}
		i += len(word)
	}
	return found
}

// endsNext returns up to what a statement ends if it succeeds, because it is, or ends, a transaction itself.
func endsNext(t []byte) aboutNext {
	word, rest := firstWord(skipBlank(t))
	switch {
	case equalFold(word, "commit"), equalFold(word, "rollback"):
		return said
	case (equalFold(word, "select") || equalFold(word, "with")) && containsFold(rest, "from"):
		return perhaps
	}
	return nothing
}

// noteNext notes what a statement says about the next transaction, before it is passed on. t is its text, or the beginning.
func (c *client) noteNext(about aboutNext, t []byte, complete bool) {
	c.ends, c.using = nothing, ""
	switch {
	case about != nothing:
		c.next, c.used = max(c.next, about), ""
	case c.next != nothing:
		c.ends = endsNext(t)
		if c.ends == perhaps && complete && len(t) <= mostText {
			c.using = string(t)
		} else if !keeps(t) {
			c.used = "" // names are those of another database, perhaps
		}
	}
}

// endNext notes what the statement has ended that was passed on.
func (c *client) endNext() {
	switch {
	case c.reply.failed:
	case c.ends == said:
		c.next = nothing
	case c.using != "" && c.reply.rows:
		c.used = c.using
	}
	c.ends, c.using = nothing, ""
}

// usedUp reports that the query c.used was certainly a transaction by itself: one of its tables has transactions, and was read. A query of dual,
// of tables of other engines, or with a condition that is never true is none.
func (c *client) usedUp(syntax engine.Syntax) bool {
	q, err := parse.Parse(c.used, syntax)
	if err != nil || q.Body == nil || len(q.Rest) > 0 {
		return false
	}
	var tables []*parse.From
	for _, f := range q.Body.From {
		tables = append(tables, f.Tables()...)
	}
	if len(tables) > 1 || q.Body.Where != nil {
		// It has returned rows, which an aggregate of no rows does as well.
		calls := len(q.Body.GroupBy) == 0 && q.Body.Having != nil || q.Body.Rollup || q.Body.Sets
		q.Walk(nil, func(e *parse.Expr) bool {
			calls = calls || len(q.Body.GroupBy) == 0 && e.Kind == parse.Call
			return !calls
		})
		if calls {
			return false
		}
	}
	_, ctes := tablesOf(q)
	for _, t := range tables {
		if t.Query != nil || t.Table == "" || ctes[strings.ToLower(t.Table)] {
			continue
		}
		r, err := c.ask("SHOW CREATE TABLE " + nameOf(t))
		if err != nil {
			_ = c.refusal(err) // it notes a connection that can't be used
			return false
		}
		if len(r.rows) == 1 && len(r.rows[0]) == 2 && bytes.HasPrefix(r.rows[0][1], []byte("CREATE TABLE ")) &&
			bytes.Contains(r.rows[0][1], []byte("\n) ENGINE=InnoDB")) {
			return true
		}
	}
	return false
}

// further reports text behind a semicolon.
func further(t []byte) bool {
	i := bytes.IndexByte(t, ';')
	return i >= 0 && len(bytes.TrimLeft(t[i:], "; \t\r\n")) > 0
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

// callsUnknown reports that a statement may call a function of a user. It doesn't read strings and comments, and so may be
// wrong about a statement that calls none.
func (c *client) callsUnknown(t []byte) bool {
	for i := 0; ; i++ {
		next := bytes.IndexByte(t[i:], '(')
		if next < 0 {
			return false
		}
		i += next
		end := len(bytes.TrimRight(t[:i], " \t\r\n"))
		begin := end
		for begin > 0 && nameByte(t[begin-1]) {
			begin--
		}
		var lower [32]byte
		switch {
		case begin == end && (end == 0 || t[end-1] != '`' && t[end-1] != '"' && !bytes.HasSuffix(t[:end], []byte("*/"))):
			continue // no name
		case begin == end, begin > 0 && t[begin-1] == '.', end-begin > len(lower):
			return true
		}
		for k, b := range t[begin:end] {
			if lower[k] = b; b >= 'A' && b <= 'Z' {
				lower[k] = b | 0x20
			}
		}
		name := lower[:end-begin]
		if !notCalls[string(name)] && c.front.o.Reader.Function(string(name), 1) == engine.UnknownFunction && c.front.o.Reader.Function(string(name), 2) == engine.UnknownFunction {
			return true
		}
	}
}

func nameByte(b byte) bool {
	return b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9' || b == '_' || b == '$' || b >= 0x80
}
