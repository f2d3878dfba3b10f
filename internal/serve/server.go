package serve

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/rowmill/rowmill/internal/mysqlwire"
)

// A server is a client's own connection to the server. Between two commands of the client, the
// front sends its own statements on this connection, to read the session's settings and to check
// the client's privileges.
type server struct {
	side
	reply   reply // to the last command
	caps    uint32
	mariadb bool
	last    []byte // the payload that ended the rows of the last own statement
	broken  bool   // the connection can't be used any more
}

// maxOwnAnswer limits the answers to own statements.
const maxOwnAnswer = 16 << 20

// An ownResult is the answer to an own statement. Values are texts; nil is NULL.
type ownResult struct {
	definitions [][]byte // payloads of the columns' definitions
	rows        [][][]byte
}

// asQuery returns a query as a command.
func (s *server) asQuery(text string) []byte {
	p := append(mysqlwire.Begin(nil, 0), mysqlwire.ComQuery)
	if s.caps&mysqlwire.CapAttributes != 0 {
		p = append(p, 0, 1) // no parameters, in one set
	}
	p, _ = mysqlwire.End(append(p, text...), 0)
	return p
}

// ask runs a query of the front's own on the client's connection. Its error is a
// *mysqlwire.ServerError if the server refuses it.
func (s *server) ask(text string) (*ownResult, error) {
	r := &ownResult{}
	err := s.converse(s.asQuery(text), maxOwnAnswer, func(expect expectation, payload []byte) error {
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

// askRow runs a query of the front's own that returns one row. If the server refuses the query, the
// error is a reason to pass the client's query on: see refusal.
func (s *server) askRow(text string) ([][]byte, error) {
	r, err := s.ask(text)
	if err == nil && len(r.rows) != 1 {
		err = errPacket
	}
	if err != nil {
		return nil, s.refusal(err)
	}
	return r.rows[0], nil
}

// repeat runs a query on the client's own connection and drops the answer, so that the next
// FOUND_ROWS(), for example, is about that query.
func (s *server) repeat(text string) error {
	err := s.converse(s.asQuery(text), math.MaxInt, func(expectation, []byte) error { return nil })
	var refused *mysqlwire.ServerError
	if errors.As(err, &refused) {
		return nil
	}
	return err
}

// refusal makes an error of the server a reason to pass the query on.
func (s *server) refusal(err error) error {
	var e *mysqlwire.ServerError
	if errors.As(err, &e) {
		if e.Code == codeInterrupted {
			return errKilled // as the whole query would have been
		}
		return &notSplit{whyRefused, e.Error()}
	}
	s.broken = true
	return err
}

// converse sends a command, and calls fn for each payload of the response, together with what the
// reply expected at this place. An error packet is returned as a *mysqlwire.ServerError. After any
// other error, e.g. a response of more than limit bytes, the connection can't be used any more.
// converse sets s.last to the payload of the packet that ends the rows.
func (s *server) converse(command []byte, limit int, fn func(expectation, []byte) error) error {
	s.last = nil
	s.reply.follow(command[mysqlwire.HeaderSize:])
	if _, err := s.Write(command); err != nil {
		return err
	}
	var failed error
	for size := 0; s.reply.expect != expectNothing; {
		expect := s.reply.expect
		p, err := s.packet(mysqlwire.MaxPayload)
		if err != nil {
			return err
		}
		if size += len(p); size > limit {
			return fmt.Errorf("an answer of more than %d bytes: %w", limit, errPacket)
		}
		if n, _ := s.reply.feed(p); n != len(p) {
			return errPacket
		}
		payload := p[mysqlwire.HeaderSize:]
		switch {
		case s.reply.failed:
			refused := mysqlwire.ReadError(payload)
			if refused == nil {
				return errPacket
			}
			failed = errors.Join(failed, refused)
		case expect == expectRows && s.reply.expect != expectRows:
			s.last = bytes.Clone(payload)
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
