package mysql

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/mysqlwire"
)

// Results of queries are read from the connection's own bytes. The driver would parse numbers, and
// lose the server's text of a FLOAT, a ZEROFILL or a DOUBLE with fixed digits.

// A readConn is a driver's connection whose results can be read as texts.
type readConn struct {
	driverConn
	net   net.Conn
	watch *engine.Watch
	in    packets
	out   []byte   // the last packet that was sent
	row   [][]byte // the current row
}

// driverConn has the interfaces of the driver's connection that package sql uses.
type driverConn interface {
	driver.Conn
	driver.Pinger
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnPrepareContext
	driver.ConnBeginTx
	driver.SessionResetter
	driver.Validator
	driver.NamedValueChecker
}

func (c *readConn) Close() error {
	c.watch.Close()
	return c.driverConn.Close()
}

// text implements engine.SessionWords.Text.
func text(ctx context.Context, conn any, query string, head func([]engine.ResultColumn) error, row func([][]byte) error) (engine.TextEnd, error) {
	c, ok := conn.(*readConn)
	if !ok {
		return engine.TextEnd{Warnings: -1}, engine.Classed(engine.ErrUnsupported, errors.New("this connection has no texts"))
	}
	var end engine.TextEnd
	err := c.interruptible(ctx, func() (err error) {
		end, err = c.text(query, head, row)
		return err
	})
	return end, err
}

// describe implements engine.SessionWords.Describe.
func describe(ctx context.Context, conn any, query string) (cols []engine.ResultColumn, err error) {
	c, ok := conn.(*readConn)
	if !ok {
		return nil, engine.Classed(engine.ErrUnsupported, errors.New("this connection describes no queries"))
	}
	err = c.interruptible(ctx, func() error {
		cols, err = c.describe(query)
		return err
	})
	return cols, err
}

// interruptible runs fn. When ctx ends, fn's network calls fail.
func (c *readConn) interruptible(ctx context.Context, fn func() error) error {
	if err := c.watch.Begin(ctx); err != nil {
		return err
	}
	err := fn()
	c.in.release()
	if c.watch.End() && err != nil {
		return errors.Join(ctx.Err(), err)
	}
	return err
}

func (c *readConn) text(query string, head func([]engine.ResultColumn) error, row func([][]byte) error) (end engine.TextEnd, err error) {
	end.Warnings = -1
	if err := c.send(mysqlwire.ComQuery, query); err != nil {
		return end, err
	}
	p, err := c.in.packet()
	if err != nil {
		return end, err
	}
	if len(p) > 0 && (p[0] == mysqlwire.OK || p[0] == mysqlwire.Error) {
		end.Affected, end.Warnings, err = parseAnswer(p)
		if err != nil {
			return end, err
		}
		if _, end.Status, err = parseEnd(p); err == nil && end.Status&mysqlwire.StatusMoreResults != 0 {
			err = severalResults()
		}
		return end, err
	}
	if len(p) > 0 && p[0] == mysqlwire.File {
		return end, lost(errors.New("the statement asks for a file of the client, which it doesn't get"))
	}
	count, rest, ok := mysqlwire.Int(p)
	// MariaDB then reports whether column packets follow, which a text result always has.
	if !ok || len(rest) > 1 || len(rest) == 1 && rest[0] != 1 || count < 1 || count > 1<<16 {
		return end, malformed()
	}
	cols, err := c.columns(int(count))
	if err != nil {
		return end, err
	}
	if err := head(cols); err != nil {
		return end, err
	}
	if cap(c.row) < len(cols) {
		c.row = make([][]byte, len(cols))
	}
	values := c.row[:len(cols)]
	defer clear(values)
	for {
		p, err := c.in.packet()
		switch {
		case err != nil:
			return end, err
		case len(p) == 0:
			return end, malformed()
		case p[0] == mysqlwire.Error:
			_, _, err := parseAnswer(p)
			return end, err
		case p[0] == mysqlwire.EOF && len(p) < mysqlwire.MaxPayload:
			if end.Warnings, end.Status, err = parseEnd(p); err != nil {
				return end, err
			}
			if end.Status&mysqlwire.StatusMoreResults != 0 {
				return end, severalResults()
			}
			if c.in.at != c.in.have {
				return end, malformed()
			}
			return end, nil
		}
		for i := range values {
			if len(p) > 0 && p[0] == mysqlwire.File { // NULL
				values[i], p = nil, p[1:]
				continue
			}
			n, rest, ok := mysqlwire.Int(p)
			if !ok || n > uint64(len(rest)) {
				return end, malformed()
			}
			values[i], p = rest[:n:n], rest[n:]
		}
		if len(p) > 0 {
			return end, malformed()
		}
		if err := row(values); err != nil {
			return end, err
		}
	}
}

// severalResults is the error of a statement with more than one result, such as a CALL. After it,
// the connection can't be used.
func severalResults() error { return lost(errors.New("the statement has several results")) }

// parseEnd reads the packet after the last row. Servers before MySQL 5.7.5 and MariaDB 10.2 send a
// shorter packet after the last row, and one more packet after the columns. parseEnd returns an
// error for such packets.
func parseEnd(p []byte) (warnings int, status uint16, err error) {
	d, ok := mysqlwire.ReadDone(p)
	switch {
	case len(p) == mysqlwire.ClassicEOF:
		return -1, 0, lost(errors.New("the server, or a proxy, is older than MySQL 5.7.5 and MariaDB 10.2"))
	case !ok || !d.Complete:
		return -1, 0, malformed()
	}
	return int(d.Warnings), d.Status, nil
}

// columns reads column definitions, and copies their packets.
func (c *readConn) columns(count int) ([]engine.ResultColumn, error) {
	cols := make([]engine.ResultColumn, count)
	for i := range cols {
		p, err := c.in.packet()
		if err != nil {
			return nil, err
		}
		if len(p) > 0 && p[0] == mysqlwire.Error {
			_, _, err := parseAnswer(p)
			return nil, err
		}
		if cols[i], err = parseColumn(append([]byte(nil), p...)); err != nil {
			return nil, err
		}
	}
	return cols, nil
}

// describe prepares a query, and closes it.
func (c *readConn) describe(query string) ([]engine.ResultColumn, error) {
	if err := c.send(mysqlwire.ComStmtPrepare, query); err != nil {
		return nil, err
	}
	p, err := c.in.packet()
	if err != nil {
		return nil, err
	}
	if len(p) == 0 || p[0] != mysqlwire.OK {
		_, _, err := parseAnswer(p)
		if err == nil {
			err = malformed()
		}
		return nil, err
	}
	if len(p) < 9 {
		return nil, malformed()
	}
	id := string(p[1:5])
	count, params := int(binary.LittleEndian.Uint16(p[5:])), int(binary.LittleEndian.Uint16(p[7:]))
	if _, err := c.columns(params); err != nil {
		return nil, err
	}
	cols, err := c.columns(count)
	if err != nil {
		return nil, err
	}
	if err := c.send(mysqlwire.ComStmtClose, id); err != nil { // it has no answer
		return nil, err
	}
	if params > 0 {
		return nil, fmt.Errorf("the query has %d parameters", params)
	}
	return cols, nil
}

// send sends a command. A long command takes several packets.
func (c *readConn) send(command byte, body string) error {
	if c.in.at != c.in.have {
		return malformed() // an answer to nothing
	}
	c.in.at, c.in.have = 0, 0
	seq, first := byte(0), true
	for more := true; more; first = false {
		n := len(body)
		if first {
			n++
		}
		more = n >= mysqlwire.MaxPayload
		n = min(n, mysqlwire.MaxPayload)
		c.out = append(c.out[:0], byte(n), byte(n>>8), byte(n>>16), seq)
		if first {
			c.out = append(c.out, command)
			n--
		}
		c.out = append(c.out, body[:n]...)
		body = body[n:]
		seq++
		if _, err := c.net.Write(c.out); err != nil {
			return lost(err)
		}
	}
	c.in.seq = seq
	if cap(c.out) > mostKept {
		c.out = nil
	}
	return nil
}

const (
	// Sizes of buffers for reading results. leastBuffer is the first of a session, because there may
	// be thousands of sessions. textBuffer is for long results. mostKept is the largest buffer that is
	// kept for the next result.
	leastBuffer = 1 << 10
	textBuffer  = 64 << 10
	mostKept    = 1 << 20
)

// A packets reads a server's packets, of any size.
type packets struct {
	src      io.Reader
	buf      []byte
	at, have int    // the unread part of buf
	seq      byte   // the sequence number of the next packet
	long     []byte // a packet of several parts
}

// release frees a large buffer. All of its data must have been read.
func (r *packets) release() {
	if len(r.buf) > mostKept {
		r.buf, r.at, r.have = nil, 0, 0
	}
	r.long = nil
}

// packet reads a packet, which is valid until the next call.
func (r *packets) packet() ([]byte, error) {
	p, err := r.part()
	if err != nil || len(p) < mysqlwire.MaxPayload {
		return p, err
	}
	r.long = append(r.long[:0], p...)
	for len(p) == mysqlwire.MaxPayload {
		if p, err = r.part(); err != nil {
			return nil, err
		}
		r.long = append(r.long, p...)
	}
	return r.long, nil
}

func (r *packets) part() ([]byte, error) {
	if err := r.fill(4); err != nil {
		return nil, err
	}
	head := r.buf[r.at:]
	size := mysqlwire.Length(head)
	if head[3] != r.seq {
		return nil, malformed()
	}
	r.seq++
	if err := r.fill(4 + size); err != nil {
		return nil, err
	}
	body := r.buf[r.at+4 : r.at+4+size]
	r.at += 4 + size
	return body, nil
}

// fill reads until n bytes are available at r.at.
func (r *packets) fill(n int) error {
	if r.have-r.at >= n {
		return nil
	}
	if r.at == r.have {
		r.at, r.have = 0, 0
	}
	if r.at+n > len(r.buf) {
		to := r.buf
		if n > len(to) || len(to) < textBuffer { // the result is longer than the buffer
			to = make([]byte, max(leastBuffer, min(8*len(to), textBuffer), n+n/4))
		}
		r.have = copy(to, r.buf[r.at:r.have])
		r.buf, r.at = to, 0
	}
	for r.have-r.at < n {
		got, err := r.src.Read(r.buf[r.have:])
		r.have += got
		if err != nil && r.have-r.at < n {
			return lost(err)
		}
	}
	return nil
}
