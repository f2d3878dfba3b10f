package serve

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/serve/session"
)

// handle examines a command, given as a packet. handled reports that the front has answered it
// itself, so that it isn't passed on.
func (c *client) handle(ctx context.Context, p []byte) (handled bool, err error) {
	what, body := p[mysqlwire.HeaderSize], p[mysqlwire.HeaderSize:]
	var t []byte
	if what == mysqlwire.ComQuery {
		t, _ = c.session.Text(body)
	}
	rows := session.ShowsWarnings(t)
	if done := c.answered; done != nil {
		if rows && !done.warned {
			return true, c.warnings(string(t), done.notes)
		}
		if err := c.passAnswered(body); err != nil {
			return true, err
		}
	}
	switch kind, shape := c.asks(body); {
	case kind == session.Show && !c.session.Quiet:
		return true, c.warnings(string(t), []note{{"Note", fmt.Sprint(codeUnknown), "rowmill: passed on whole: " + *c.session.Why}})
	case kind == session.Kill:
		if id, ok := parseKill(string(t)); ok {
			return true, c.kill(p, id)
		}
	case kind == session.Query && what == mysqlwire.ComStmtExecute:
		s := c.session.Statements[mysqlwire.StatementID(body)]
		s.Unsent = s.NoteTypes(body) || s.Unsent
		a := &attempt{c: c, out: outgoing{seq: p[3] + 1}, text: s.Text, prepared: s, values: append([]byte(nil), body...)}
		return a.split(ctx, shape)
	case kind == session.Query && !session.AsksAboutLast(t) && !c.session.Relays(t, true):
		// A query about the statement before it isn't split: it would be about the front's own statement.
		a := &attempt{c: c, out: outgoing{seq: p[3] + 1}, text: string(t)}
		return a.split(ctx, shape)
	}
	return false, nil
}

// passAnswered prepares the server for the command that follows a query in pieces. The server
// doesn't know that query. If the command may ask about it, e.g. SELECT FOUND_ROWS(), passAnswered
// first runs the query on the server. p is the command's payload, or its beginning.
func (c *client) passAnswered(p []byte) error {
	done, what := c.answered, p[0]
	if done == nil || silent(what) || what == mysqlwire.ComPing || what == mysqlwire.ComQuit {
		return nil
	}
	c.answered = nil
	asks := false
	if what == mysqlwire.ComQuery {
		t, all := c.session.Text(p)
		asks = !all || session.AsksAboutLast(t)
	}
	switch {
	case what == mysqlwire.ComReset, what == mysqlwire.ComChangeUser:
		return nil
	case asks, done.found < 0:
		return c.server.repeat(done.text)
	}
	c.found = done.found
	return nil
}

// restore sets FOUND_ROWS() and ROW_COUNT() to their values after the client's last statement: the
// front's own statements have changed these values, and a view or a function in the client's next
// statement may read them.
func (c *client) restore() error {
	found, zero := c.found, c.zero
	c.found, c.zero = -1, false
	if found >= 0 {
		if err := c.server.repeat(findsRows(found)); err != nil {
			return err
		}
	}
	if zero {
		// SET doesn't change FOUND_ROWS(). DO changes it, on MySQL.
		return c.server.repeat("SET SESSION sql_notes = @@SESSION.sql_notes")
	}
	return nil
}

// findsRows returns a query that returns at most one row. After the query, FOUND_ROWS() is n. The
// query has a branch for each digit of n but 0: for 305, one joins 3, 10 and 10 rows, and one has 5
// rows.
func findsRows(n int64) string {
	if n == 0 {
		return "SELECT 1 LIMIT 0"
	}
	digits := strconv.FormatInt(n, 10)
	var branches []string
	for i, d := range digits {
		if d == '0' {
			continue
		}
		b := "SELECT 1 FROM (" + ones(int(d-'0')) + ") AS rowmill"
		for k := range len(digits) - 1 - i {
			b += ", (" + ones(10) + ") AS rowmill_" + strconv.Itoa(k)
		}
		branches = append(branches, "("+b+")")
	}
	branches[0] = strings.Replace(branches[0], "SELECT", "SELECT SQL_CALC_FOUND_ROWS", 1)
	if len(branches) == 1 {
		branches[0] = strings.Trim(branches[0], "()")
	}
	return strings.Join(branches, " UNION ALL ") + " LIMIT 1"
}

// ones returns a query of n rows.
func ones(n int) string { return "SELECT 1" + strings.Repeat(" UNION ALL SELECT 1", n-1) }

// parseKill returns the connection that a KILL QUERY names; ok is false for other commands. A KILL
// of a whole connection also ends the connection's pieces. MariaDB's KILL QUERY ID names a query,
// and ends no pieces.
func parseKill(text string) (id uint64, ok bool) {
	words := strings.Fields(strings.TrimRight(string(session.SkipBlank([]byte(text))), "; \t\r\n"))
	if len(words) != 3 || !strings.EqualFold(words[0], "kill") || !strings.EqualFold(words[1], "query") {
		return 0, false
	}
	id, err := strconv.ParseUint(words[2], 10, 64)
	return id, err == nil
}

// kill passes a KILL QUERY on. If the server accepts it, the client has the privileges for it. Then
// the front also ends the pieces of the query that runs on connection id: the server doesn't know
// that they belong to the query.
func (c *client) kill(p []byte, id uint64) error {
	// Look for the query first: once the server has answered the KILL, the next query may run.
	var stop *context.CancelCauseFunc
	for _, other := range c.front.connected() {
		if other != c && uint64(other.id) == id {
			stop = other.pieces.Load()
		}
	}
	c.note(p)
	c.server.reply.follow(p[mysqlwire.HeaderSize:])
	if _, err := c.server.Write(p); err != nil {
		return c.lost(err)
	}
	if err := c.respond(); err != nil {
		return err
	}
	if !c.server.reply.failed && stop != nil {
		(*stop)(errKilled)
	}
	return nil
}
