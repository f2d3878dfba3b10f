package serve

import (
	"bytes"
	"strings"
	"sync/atomic"

	"github.com/rowmill/rowmill/internal/mysqlwire"
)

// A kind is what the front has to know about a statement.
type kind int

const (
	plain   kind = iota
	selects      // a query that may be split
	kills
	shows
)

// mostText limits the texts of statements that are looked at.
const mostText = 64 << 10

// kindOf classifies a statement by its first words.
func kindOf(text []byte) kind {
	switch word, _ := firstWord(skipBlank(text)); {
	case equalFold(word, "select"), equalFold(word, "with"):
		return selects
	case equalFold(word, "kill"):
		return kills
	case equalFold(word, "show"):
		return shows
	}
	return plain
}

// skipBlank skips white space, parentheses, and comments that aren't executed.
func skipBlank(p []byte) []byte {
	for {
		p = bytes.TrimLeft(p, " \t\r\n\v\f(")
		end := -1
		switch {
		case bytes.HasPrefix(p, []byte("/*")) && len(p) > 3 && p[2] != '!' && (p[2] != 'M' || p[3] != '!'):
			if end = bytes.Index(p[2:], []byte("*/")); end >= 0 {
				end += 4
			}
		case len(p) > 0 && p[0] == '#', len(p) > 2 && p[0] == '-' && p[1] == '-' && p[2] <= ' ':
			if end = bytes.IndexByte(p, '\n'); end >= 0 {
				end++
			}
		default:
			return p
		}
		if end < 0 {
			return p
		}
		p = p[end:]
	}
}

func firstWord(p []byte) (word, rest []byte) {
	i := 0
	for i < len(p) && (p[i]|0x20 >= 'a' && p[i]|0x20 <= 'z' || p[i] == '_') {
		i++
	}
	return p[:i], p[i:]
}

func equalFold(p []byte, lower string) bool {
	return len(p) == len(lower) && strings.EqualFold(string(p), lower)
}

// containsFold looks for a word in lower case.
func containsFold(p []byte, lower string) bool {
	for i := 0; i+len(lower) <= len(p); i++ {
		if p[i]|0x20 == lower[0] && strings.EqualFold(string(p[i:i+len(lower)]), lower) {
			return true
		}
	}
	return false
}

// The parameters of hashes: FNV-1a of 64 bits.
const hashOffset, hashPrime = 14695981039346656037, 1099511628211

// hashOf adds bytes to a hash.
func hashOf[T []byte | string](h uint64, p T) uint64 {
	for i := range len(p) {
		h = (h ^ uint64(p[i])) * hashPrime
	}
	return h
}

// shapeOf returns a hash of a statement without its numbers and strings, so that a statement with other values has the
// same.
func shapeOf(p []byte) uint64 {
	h := uint64(hashOffset)
	inName := false
	for i := 0; i < len(p); i++ {
		b := p[i]
		switch {
		case b == '\'' || b == '"':
			for i++; i < len(p) && p[i] != b; i++ {
				if p[i] == '\\' {
					i++
				}
			}
			b = '?'
		case b >= '0' && b <= '9' && !inName:
			for i+1 < len(p) && (p[i+1] >= '0' && p[i+1] <= '9' || p[i+1] == '.') {
				i++
			}
			b = '?'
		}
		inName = b|0x20 >= 'a' && b|0x20 <= 'z' || b >= '0' && b <= '9' || b == '_' || b == '`' || b >= 0x80
		h = (h ^ uint64(b)) * hashPrime
	}
	return max(1, h)
}

// shapeOf returns the hash of a statement of this client's account: the server may refuse it to one and not to another.
func (c *client) shapeOf(t []byte) uint64 {
	return max(1, hashOf(shapeOf(t), c.account()))
}

// shapes remember until when statements of a shape needn't be looked at, because they are passed on whole. A shape
// may lose its place to another one; it is then looked at once more.
type shapes [1 << 12]struct {
	shape, until atomic.Uint64
	why          atomic.Pointer[string]
}

// due reports that a statement is to be looked at. now is in milliseconds.
func (s *shapes) due(shape, now uint64) bool {
	at := &s[shape%uint64(len(s))]
	return at.shape.Load() != shape || at.until.Load() <= now
}

// rest says that statements of a shape needn't be looked at until a time, and why.
func (s *shapes) rest(shape, until uint64, why *string) {
	at := &s[shape%uint64(len(s))]
	at.until.Store(until)
	at.why.Store(why)
	at.shape.Store(shape)
}

// why returns why statements of a shape are passed on whole.
func (s *shapes) why(shape uint64) *string { return s[shape%uint64(len(s))].why.Load() }

// text returns the text of a COM_QUERY or COM_STMT_PREPARE; nil if it is long, or has parameters of its own.
func (c *client) text(p []byte) []byte {
	t := p[1:]
	if p[0] == mysqlwire.ComQuery && c.caps&mysqlwire.CapAttributes != 0 {
		if len(t) < 2 || t[0] != 0 || t[1] != 1 {
			return nil
		}
		t = t[2:]
	}
	if len(t) > mostText {
		return nil
	}
	return t
}

// keeping are the first words of statements that change neither the database nor how texts are read.
var keeping = []string{"select", "with", "values", "table", "insert", "replace", "update", "delete", "load", "begin", "start", "commit", "rollback", "savepoint", "release",
	"show", "explain", "describe", "desc", "unlock", "kill"}

// keeps reports a text that doesn't change what prepared statements to come mean.
func keeps(text []byte) bool {
	word, rest := firstWord(skipBlank(text))
	return !further(rest) && oneOf(word, keeping)
}

// further reports text behind a semicolon.
func further(t []byte) bool {
	i := bytes.IndexByte(t, ';')
	return i >= 0 && len(bytes.TrimLeft(t[i:], "; \t\r\n")) > 0
}

// traces reports a text that may have the server record the session's statements, among which the front's own would be.
func traces(text []byte) bool {
	return containsFold(text, "profiling") || containsFold(text, "optimizer_trace")
}

// before notes what a command changes about the session. p is its payload, or the beginning of a long one.
func (c *client) before(p []byte, complete bool) {
	if c.front.o.Answer == nil {
		return
	}
	c.preparing = nil
	if mysqlwire.OfStatement(p[0]) && mysqlwire.StatementID(p) == lastStatement {
		c.changes++ // it may be any of them
	}
	switch p[0] {
	case mysqlwire.ComQuery:
		t := c.attributeless(p[1:])
		keeps := keeps(t)
		if c.statements != nil && (!complete || !keeps) {
			c.changes++
		}
		c.quiet = c.quiet || !keeps && quiets(t)
		c.relayed = c.relays(t[:min(len(t), mostText)], complete && len(t) <= mostText)
		if k := kindOf(t); k != selects && (k != shows || c.why == nil || !complete) {
			c.why = nil
		}
	case mysqlwire.ComStmtPrepare:
		t := p[1:min(len(p), 1+mostText)]
		complete = complete && len(t) == len(p)-1
		keeps := keeps(t)
		c.quiet = c.quiet || !keeps && quiets(t)
		if c.relayed = c.relays(t, complete); c.relayed == nil && !keeps {
			c.relayed = &whyDrifts
		}
		if complete && kindOf(t) == selects && !asksAboutLast(t) && len(c.statements) < mostStatements && c.caps&mysqlwire.CapAttributes == 0 && !c.reply.meta {
			c.preparing = &statement{text: string(t), shape: c.shapeOf(t), changes: c.changes}
		}
	case mysqlwire.ComStmtExecute, mysqlwire.ComBulkExecute:
		if s := c.statements[mysqlwire.StatementID(p)]; s != nil {
			s.cursor = p[0] == mysqlwire.ComStmtExecute && len(p) > mysqlwire.ExecutionFlags && p[mysqlwire.ExecutionFlags] != 0
			if p[0] == mysqlwire.ComStmtExecute && s.noteTypes(p) {
				s.unsent = false
			}
		} else {
			c.why = nil
		}
	case mysqlwire.ComStmtLongData:
		if s := c.statements[mysqlwire.StatementID(p)]; s != nil {
			s.long = true
		}
	case mysqlwire.ComStmtReset:
		if s := c.statements[mysqlwire.StatementID(p)]; s != nil {
			s.long, s.cursor = false, false
		}
	case mysqlwire.ComStmtClose:
		delete(c.statements, mysqlwire.StatementID(p))
	case mysqlwire.ComInitDB:
		c.changes++
	case mysqlwire.ComReset, mysqlwire.ComChangeUser:
		c.relayed, c.mode, c.quiet, c.why = nil, nil, false, nil
		clear(c.statements)
	}
}

// quiets reports a statement after which the session may want no notes, until its settings are read.
func quiets(t []byte) bool { return containsFold(t, "sql_notes") }

// attributeless skips the head of a COM_QUERY that may have parameters.
func (c *client) attributeless(t []byte) []byte {
	if c.caps&mysqlwire.CapAttributes != 0 && len(t) > 2 && t[0] == 0 {
		return t[2:]
	}
	return t
}

// mostStatements limits the prepared statements that a session remembers; further ones are passed on whole.
const mostStatements = 1024

// after notes what a response says about the session.
func (c *client) after() {
	c.inTransaction.Store(c.reply.status&mysqlwire.StatusInTransaction != 0)
	if c.reply.several && c.relayed == nil {
		c.relayed = &whyHidden
	}
	if s := c.preparing; s != nil && !c.reply.failed {
		s.params = c.reply.params
		if c.statements == nil {
			c.statements = map[uint32]*statement{}
		}
		c.statements[c.reply.statement] = s
	}
	c.preparing = nil
}

// examines reports a command that the session's goroutine has to look at. p may be the beginning of its payload.
func (c *client) examines(p []byte) bool {
	if c.front.o.Answer == nil {
		return false
	}
	if c.answered != nil {
		return true
	}
	switch p[0] {
	case mysqlwire.ComQuery:
		t := c.text(p)
		switch k := kindOf(t); k {
		case selects:
			return c.due(c.shapeOf(t))
		case kills:
			return true
		case shows:
			return c.why != nil && showsWarnings(t)
		}
	case mysqlwire.ComStmtExecute:
		s := c.statements[mysqlwire.StatementID(p)]
		if s == nil || s.long || s.cursor || s.changes != c.changes {
			c.why = &whyPrepared
			return false
		}
		return c.due(s.shape)
	}
	return false
}

// Why queries are not looked at, for SHOW WARNINGS.
var (
	whyPrepared = "a prepared query is split only if nothing that the session has done since may change what it means, and not for libraries that keep " +
		"definitions of columns or have query attributes"
	whyNotNow = "a transaction is open, or rows were changed just before"
	whyManual = "autocommit is off, as it is for Python's drivers unless they connect with autocommit=True"
)

// due reports that a query of a shape is to be looked at.
func (c *client) due(shape uint64) bool {
	switch {
	case c.relayed != nil:
		c.why = c.relayed
	case c.reply.status&mysqlwire.StatusAutocommit == 0:
		c.why = &whyManual
	case !c.maySplit():
		c.why = &whyNotNow
	case !c.front.shapes.due(shape, c.front.clock.Load()):
		c.why = c.front.shapes.why(shape)
	default:
		c.why = nil
		return true
	}
	return false
}

// maySplit reports that the session is in a state in which a query may be split: not relayed, outside of a transaction, and not after a
// statement that has changed rows: no statement of the front's own restores ROW_COUNT(), which the query's views may call.
func (c *client) maySplit() bool {
	return c.reply.status&(mysqlwire.StatusInTransaction|mysqlwire.StatusAutocommit) == mysqlwire.StatusAutocommit && c.relayed == nil && !c.reply.affected
}
