package serve

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/rowmill/rowmill/internal/mysqlwire"
)

// The front's own statements on the client's connection: they read the session's settings and prove its privileges. They
// are sent between two commands of the client, and their responses are read here.

// mostOwn limits the answers to own statements.
const mostOwn = 16 << 20

// An ownResult is the answer to an own statement. Values are texts; nil is NULL.
type ownResult struct {
	definitions [][]byte // payloads of the columns' definitions
	rows        [][][]byte
}

// asQuery returns a query as a command.
func (c *client) asQuery(text string) []byte {
	p := append(mysqlwire.Begin(nil, 0), mysqlwire.ComQuery)
	if c.caps&mysqlwire.CapAttributes != 0 {
		p = append(p, 0, 1) // no parameters, in one set
	}
	p, _ = mysqlwire.End(append(p, text...), 0)
	return p
}

// ask runs a query of the front's own on the client's connection. Its error is a *serverError if the server refuses it.
func (c *client) ask(text string) (*ownResult, error) {
	r := &ownResult{}
	err := c.converse(c.asQuery(text), mostOwn, func(expect expectation, payload []byte) error {
		switch expect {
		case expectSkip:
			r.definitions = append(r.definitions, bytes.Clone(payload))
		case expectRows:
			row, err := textRow(payload, len(r.definitions))
			if err != nil {
				return err
			}
			r.rows = append(r.rows, row)
		case expectFirst:
			if len(payload) > 0 && payload[0] == mysqlwire.File {
				return errPacket
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%.40s: %w", text, err)
	}
	return r, nil
}

// converse sends a command and passes the payloads of its response to fn, with what the reply expected. An error packet
// is returned as a *serverError. After an error of another kind, such as a response of more than limit bytes, the connection can't be used. The payload
// of the packet that ends rows is c.last.
func (c *client) converse(command []byte, limit int, fn func(expectation, []byte) error) error {
	c.last = nil
	c.reply.follow(command[mysqlwire.HeaderSize:])
	if _, err := c.server.Write(command); err != nil {
		return err
	}
	var failed error
	for size := 0; c.reply.expect != expectNothing; {
		expect := c.reply.expect
		p, err := c.server.packet(mysqlwire.MaxPayload)
		if err != nil {
			return err
		}
		if size += len(p); size > limit {
			return fmt.Errorf("an answer of more than %d bytes: %w", limit, errPacket)
		}
		if n, _ := c.reply.feed(p); n != len(p) {
			return errPacket
		}
		payload := p[mysqlwire.HeaderSize:]
		switch {
		case c.reply.failed:
			failed = errors.Join(failed, readError(payload))
		case expect == expectRows && c.reply.expect != expectRows:
			c.last = bytes.Clone(payload)
		default:
			if err := fn(expect, payload); err != nil {
				return err
			}
		}
	}
	return failed
}

// textRow divides a row of the text protocol into its values, which are copies.
func textRow(p []byte, columns int) ([][]byte, error) {
	p = bytes.Clone(p)
	row := make([][]byte, 0, columns)
	for len(p) > 0 {
		if p[0] == 0xFB {
			row, p = append(row, nil), p[1:]
			continue
		}
		value, rest, ok := mysqlwire.Bytes(p)
		if !ok {
			return nil, errPacket
		}
		row, p = append(row, value[:len(value):len(value)]), rest
	}
	if len(row) != columns {
		return nil, errPacket
	}
	return row, nil
}
