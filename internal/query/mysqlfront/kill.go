package mysqlfront

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// handle looks at a command before it is passed on. handled is set if it isn't to be passed on any more. p is the packet.
func (c *client) handle(ctx context.Context, p []byte) (handled bool, err error) {
	what, body := p[headerSize], p[headerSize:]
	t := c.text(body)
	rows, count := false, false
	if what == comQuery && kindOf(t) == shows {
		rows, count = showsWarnings(t)
	}
	if done := c.answered; done != nil {
		if (rows || count) && !done.warned {
			return true, c.warnings(string(t), count, done.notes)
		}
		if err := c.passAnswered(body, t); err != nil {
			return true, err
		}
	}
	if !c.examines(body) {
		return false, nil
	}
	switch {
	case rows && !c.quiet:
		return true, c.warnings(string(t), false, []note{{"Note", fmt.Sprint(codeUnknown), "rowmill: passed on whole: " + *c.why}})
	case what == comProcessKill && len(body) >= 5:
		return true, c.kill(p, killed{id: uint64(binary.LittleEndian.Uint32(body[1:])), hard: true})
	case what == comQuery && kindOf(t) == kills:
		if k, ok := parseKill(string(t)); ok {
			return true, c.kill(p, k)
		}
	case what == comQuery && kindOf(t) == selects && asksAboutLast(t):
		// The front's own statements would change the answer.
	case what == comQuery && kindOf(t) == selects:
		return c.split(ctx, shapeOf(t), &execution{seq: p[3] + 1, text: string(t)})
	case what == comStmtExecute && c.caps&capAttributes == 0:
		s := c.statements[statementID(body)]
		s.noteTypes(body)
		return c.split(ctx, s.shape, &execution{seq: p[3] + 1, text: s.text, prepared: s, values: append([]byte(nil), body...)})
	}
	return false, nil
}

// asksAboutLast reports a statement whose answer depends on the statement before it.
func asksAboutLast(t []byte) bool {
	for _, word := range []string{"found_rows", "warning_count", "error_count", "row_count", "diagnostics"} {
		if containsFold(t, word) {
			return true
		}
	}
	return false
}

// passAnswered leaves a query in pieces behind, whose rows a command may ask about. p is its payload, or the beginning, t its text; nil is unknown.
func (c *client) passAnswered(p, t []byte) error {
	done, what := c.answered, p[0]
	if done == nil || silent(what) || what == comPing || what == comQuit {
		return nil
	}
	c.answered = nil
	asks, hides := false, what == comStmtExecute && c.statements[statementID(p)] == nil
	if what == comQuery {
		asks = t == nil || asksAboutLast(t) || kindOf(t) == shows && (containsFold(t, "warnings") || containsFold(t, "errors"))
		hides = c.aboutNext(t, true) != nothing
	}
	known := done.found >= 0 && done.found <= mostFound
	switch {
	case what == comReset, what == comChangeUser:
		return nil
	case asks, hides && !known:
		return c.repeat(done.text)
	case known:
		c.found = done.found
	}
	return nil
}

// mostFound limits the rows by which FOUND_ROWS() is restored.
const mostFound = 100_000

// restore makes FOUND_ROWS() what the client's own statements would have made it: a view or a function may call it.
func (c *client) restore() error {
	n := c.found
	c.found = -1
	if n < 0 || n > mostFound {
		return nil
	}
	text := "SELECT 1"
	for size, k := int64(1), 0; size < n; size, k = 10*size, k+1 {
		text += []string{" FROM ", ", "}[min(k, 1)] + "(SELECT 1" + strings.Repeat(" UNION ALL SELECT 1", 9) + ") AS rowmill_" + strconv.Itoa(k)
	}
	return c.repeat(text + " LIMIT " + strconv.FormatInt(n, 10))
}

// repeat runs a query that was answered in pieces on the client's own connection, for a statement that asks about it.
func (c *client) repeat(text string) error {
	p := append(begin(nil, 0), comQuery)
	if c.caps&capAttributes != 0 {
		p = append(p, 0, 1)
	}
	p, _ = end(append(p, text...), 0)
	c.reply.start(expectFirst)
	err := c.converse(p, math.MaxInt, func(expectation, []byte) error { return nil })
	var refused *serverError
	if errors.As(err, &refused) {
		return nil
	}
	return err
}

// A killed says what a KILL is about.
type killed struct {
	id   uint64
	user string // of KILL USER, which names no connection
	hard bool   // the connection, and not only what it runs
}

// parseKill reads KILL. Another form than these, such as MariaDB's with the number of a query, is passed on, and ends no pieces.
func parseKill(text string) (k killed, ok bool) {
	words := strings.Fields(strings.TrimRight(string(skipBlank([]byte(text))), "; \t\r\n"))
	if len(words) < 2 || !strings.EqualFold(words[0], "kill") {
		return k, false
	}
	k.hard = true
	last := words[len(words)-1]
	for _, w := range words[1 : len(words)-1] {
		switch {
		case strings.EqualFold(w, "hard"), strings.EqualFold(w, "soft"), strings.EqualFold(w, "connection"):
		case strings.EqualFold(w, "query"):
			k.hard = false
		case strings.EqualFold(w, "user"):
			name, _, _ := strings.Cut(last, "@")
			k.user = strings.Trim(name, "'`\"")
		default:
			return k, false
		}
	}
	if k.user != "" {
		return k, true
	}
	var err error
	k.id, err = strconv.ParseUint(last, 10, 64)
	return k, err == nil
}

// kill passes a KILL on. If the server accepts it, it has checked the privileges: then pieces of queries of that connection, which
// the server doesn't know, end as well.
func (c *client) kill(p []byte, k killed) error {
	// Those that run now: when the server has answered, they may already run the next query.
	var ends []func()
	for _, other := range c.front.connected() {
		if other != c && (k.user != "" && other.account() == k.user || k.user == "" && uint64(other.id) == k.id) {
			if stop := other.running(); stop != nil {
				ends = append(ends, func() { stop(errKilled) })
			}
		}
	}
	c.note(p)
	c.reply.start(expectFirst)
	if _, err := c.server.Write(p); err != nil {
		return c.lost(err)
	}
	if err := c.respond(); err != nil {
		return err
	}
	c.after()
	if !c.reply.failed {
		for _, end := range ends {
			end()
		}
	}
	return nil
}
