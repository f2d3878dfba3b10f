package mysqlfront

import (
	"bytes"

	"github.com/rowmill/rowmill/internal/engine"
)

// SET TRANSACTION without a scope is about the next transaction only, which may be a query by itself. No server tells a client
// whether it is in effect, and EXPLAIN would end it. So it is looked for in the texts of statements.

// An aboutNext is what may have been said about the next transaction.
type aboutNext int

const (
	nothing aboutNext = iota
	perhaps           // by a procedure or a function, or by a statement that isn't known: the next query is passed on whole
	said              // by the client itself: queries are passed on until a transaction has ended
)

// harmless are the first words of statements, besides keeping, that say nothing about the next transaction.
var harmless = []string{"use", "set", "create", "alter", "drop", "truncate", "rename", "analyze", "optimize", "check", "flush", "grant", "revoke", "prepare", "deallocate"}

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
	case !complete, further(rest):
		return perhaps
	case equalFold(word, "select"), equalFold(word, "with"), set:
		// A function may say it, if no table is read.
		if c.callsUnknown(rest) {
			return perhaps
		}
		return nothing
	case oneOf(word, keeping), oneOf(word, harmless):
		return nothing
	}
	return perhaps
}

// endsNext returns up to what a statement ends, because it is, or ends, a transaction itself.
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

// noteNext notes what a statement says about the next transaction, and up to what it ends.
func (c *client) noteNext(about, ended aboutNext) {
	if about != nothing {
		c.next = max(c.next, about)
	} else if c.next <= ended {
		c.next = nothing
	}
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
