package mysql

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/mysqlwire"
)

// This file has the client's side of the protocol of MariaDB and MySQL: for text statements without
// a result, and for the answers to prepared statements. The driver copies the statement and
// allocates three objects for the answer; for single rows, that takes as much of the client's CPU
// time as encoding the row. Here, a statement is sent from the buffer in which it was encoded, and
// its answer is parsed in place. Everything else uses the driver. The packets are documented at
// https://mariadb.com/kb/en/com_query/ and .../ok_packet/, .../err_packet/,
// .../result-set-packets/.

const (
	// packetHead is the space for a packet's header before a statement: three bytes of length, the
	// sequence number, the command.
	packetHead = 5
)

// emptyHead is the space for a header.
var emptyHead [packetHead]byte

// send sends the statement that begins at packetHead of packet, and returns the number of affected
// rows.
func (c *conn) send(packet []byte) (affected int64, err error) {
	body := len(packet) - (packetHead - 1)
	c.warned = -1
	if c.wrapped || body > c.largest {
		res, err := c.runBytes(packet[packetHead:])
		if err != nil {
			return 0, err
		}
		return res.RowsAffected()
	}
	packet[0], packet[1], packet[2], packet[3], packet[4] = byte(body), byte(body>>8), byte(body>>16), 0, mysqlwire.ComQuery
	if _, err := c.net.Write(packet); err != nil {
		return 0, lost(err)
	}
	affected, c.warned, err = c.answers.ok(1)
	return affected, err
}

// dataHead is the length of the header of a packet with data for LOAD DATA LOCAL. mostData is the
// length of the longest such packet, far below any server's max_allowed_packet.
const (
	dataHead = 4
	mostData = 128 << 10
)

// sendData sends the LOAD DATA LOCAL statement that begins at packetHead of packet, and then its
// data. Each call of fill returns dataHead bytes for a header, followed by a part of the data; at
// the end, it returns nothing. sendData returns the number of affected rows. Even if the server
// refuses the statement, it reads all of the data before it answers.
func (c *conn) sendData(packet []byte, fill func() []byte) (affected int64, err error) {
	body := len(packet) - (packetHead - 1)
	c.warned = -1
	packet[0], packet[1], packet[2], packet[3], packet[4] = byte(body), byte(body>>8), byte(body>>16), 0, mysqlwire.ComQuery
	if _, err := c.net.Write(packet); err != nil {
		return 0, lost(err)
	}
	asked, err := c.answers.asks()
	if err != nil || !asked {
		if err == nil {
			err = malformed()
		}
		return 0, err
	}
	seq := c.answers.seq
	for more := true; more; {
		data := fill()
		more = len(data) > dataHead
		for at := dataHead; at < len(data) || !more; {
			to := min(at+mostData, len(data))
			head := data[at-dataHead : to] // overwrites bytes that were sent
			n := to - at
			head[0], head[1], head[2], head[3] = byte(n), byte(n>>8), byte(n>>16), seq
			seq++
			if _, err := c.net.Write(head); err != nil {
				return 0, lost(err)
			}
			if at = to; !more {
				break // an empty packet ends the data
			}
		}
	}
	affected, c.warned, err = c.answers.ok(seq)
	return affected, err
}

// lost is the error for a lost connection. malformed is the error for an answer that violates the
// protocol.
func lost(err error) error { return fmt.Errorf("%w: %w", mysql.ErrInvalidConn, err) }
func malformed() error     { return lost(errors.New("malformed answer of the server")) }

// ok reads the answer to a statement without a result: one packet with the sequence number seq. It
// returns the number of affected rows, and the number of warnings, which is -1 if it is unknown.
func (r *packets) ok(seq byte) (affected int64, warned int, err error) {
	p, err := r.only(seq)
	if err != nil {
		return 0, -1, err
	}
	return parseAnswer(p)
}

// asks reads the answer to LOAD DATA LOCAL and reports whether it asks for the data.
func (r *packets) asks() (bool, error) {
	p, err := r.only(1)
	if err != nil || len(p) > 0 && p[0] == mysqlwire.File {
		return err == nil, err
	}
	_, _, err = parseAnswer(p)
	return false, err
}

// only reads an answer that consists of one packet.
func (r *packets) only(seq byte) ([]byte, error) {
	r.at, r.have, r.seq = 0, 0, seq
	p, err := r.packet()
	if err == nil && r.at != r.have {
		err = malformed()
	}
	return p, err
}

// parseAnswer parses an OK packet, for ok, or returns the error of an error packet.
func parseAnswer(p []byte) (affected int64, warned int, err error) {
	if e := mysqlwire.ReadError(p); e != nil {
		out := &mysql.MySQLError{Number: e.Code, Message: e.Text}
		copy(out.SQLState[:], e.State)
		return 0, -1, out
	}
	d, ok := mysqlwire.ReadDone(p)
	switch {
	case !ok || p[0] != mysqlwire.OK || d.Affected > math.MaxInt64:
		return 0, -1, malformed()
	case !d.Complete:
		return int64(d.Affected), -1, nil
	}
	return int64(d.Affected), int(d.Warnings), nil
}

// count reads the whole answer to a prepared statement: OK, an error, or a result set (the number
// of columns, their definitions, and rows up to an end packet). It returns the number of affected
// rows or of the result's rows.
func (r *packets) count() (int64, error) {
	r.at, r.have, r.seq = 0, 0, 1
	defer r.release()
	p, err := r.packet()
	if err != nil {
		return 0, err
	}
	if len(p) == 0 || p[0] == mysqlwire.OK || p[0] == mysqlwire.Error {
		n, _, err := parseAnswer(p)
		return n, err
	}
	columns, rest, ok := mysqlwire.Int(p)
	if !ok || columns < 1 || columns > 1<<16 {
		return 0, malformed()
	}
	// Here MariaDB reports whether it omits the metadata, which the client has cached.
	for described := len(rest) == 0 || rest[len(rest)-1] != 0; described && columns > 0; columns-- {
		if _, err := r.packet(); err != nil {
			return 0, err
		}
	}
	for rows := int64(0); ; rows++ {
		switch p, err := r.packet(); {
		case err != nil:
			return 0, err
		case len(p) == 0:
			return 0, malformed()
		case p[0] == mysqlwire.OK: // as a row of the binary protocol begins
		case p[0] == mysqlwire.EOF && r.at == r.have:
			_, _, err := parseEnd(p)
			return rows, err
		case p[0] == mysqlwire.Error:
			_, _, err := parseAnswer(p)
			return 0, err
		default:
			return 0, malformed()
		}
	}
}

// A tap keeps the first bytes that are read from a connection after the tap was opened: the
// beginning of the answer to the driver's command.
type tap struct {
	open  bool
	bytes [9]byte
	n     int
}

// through keeps the bytes of a read, and returns the read's result unchanged.
func (t *tap) through(p []byte, n int, err error) (int, error) {
	if t.open && n > 0 {
		t.n += copy(t.bytes[t.n:], p[:n])
	}
	return n, err
}

// statementID is the server's id of a statement in the answer to COM_STMT_PREPARE, after the
// packet's header and OK; 0 if the answer is of another kind, or encrypted.
func (t *tap) statementID() uint32 {
	if t.n < len(t.bytes) || t.bytes[3] != 1 || t.bytes[4] != mysqlwire.OK {
		return 0
	}
	return binary.LittleEndian.Uint32(t.bytes[5:])
}
