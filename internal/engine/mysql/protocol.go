package mysql

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/go-sql-driver/mysql"
)

// The client's side of one command of the protocol of MariaDB and MySQL: a text
// statement, answered by OK or an error. For single rows, the driver would use as
// much of the client's CPU time as encoding the row: it copies the statement and
// allocates three objects for the answer. Here, a statement is sent from the buffer
// in which it was encoded, and its answer is parsed in place. Everything else uses
// the driver. The packets are documented at https://mariadb.com/kb/en/com_query/
// and .../ok_packet/, .../err_packet/.

const (
	// packetHead is the space before a statement for its packet's header: three
	// bytes of length, the sequence number, the command.
	packetHead = 5
	comQuery   = 3
	// maxPacket is the length from which the protocol splits packets.
	maxPacket = 1<<24 - 1
)

// emptyHead is the space for a header.
var emptyHead [packetHead]byte

// An answer is a buffer for reading answers.
type answer struct{ buf [1024]byte }

// send sends a statement, which begins at packetHead of packet, and returns the
// number of affected rows.
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
	packet[0], packet[1], packet[2], packet[3], packet[4] = byte(body), byte(body>>8), byte(body>>16), 0, comQuery
	if _, err := c.net.Write(packet); err != nil {
		return 0, fmt.Errorf("%w: %w", mysql.ErrInvalidConn, err)
	}
	reply, err := c.answer.read(c.net)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", mysql.ErrInvalidConn, err)
	}
	c.warned = warningsOf(reply)
	return parseAnswer(reply)
}

// warningsOf returns the number of warnings in an OK packet, which follows the
// affected rows, the last key and the status; -1 if there is none.
func warningsOf(p []byte) int {
	if len(p) == 0 || p[0] != headOK {
		return -1
	}
	at := 1
	for range 2 {
		if at >= len(p) {
			return -1
		}
		switch p[at] {
		case 0xfc:
			at += 3
		case 0xfd:
			at += 4
		case 0xfe:
			at += 9
		default:
			at++
		}
	}
	if len(p) < at+4 {
		return -1
	}
	return int(binary.LittleEndian.Uint16(p[at+2:]))
}

// errMalformed is the error for an answer that violates the protocol.
var errMalformed = errors.New("malformed answer of the server")

// read reads one packet and returns its body. A body longer than the buffer is
// truncated: only an error's text can be that long.
func (a *answer) read(r io.Reader) ([]byte, error) {
	n, err := io.ReadAtLeast(r, a.buf[:], 4)
	if err != nil {
		return nil, err
	}
	size := int(a.buf[0]) | int(a.buf[1])<<8 | int(a.buf[2])<<16
	if a.buf[3] != 1 || size == 0 || n > 4+size {
		return nil, errMalformed
	}
	whole := min(4+size, len(a.buf))
	if n < whole {
		if _, err := io.ReadFull(r, a.buf[n:whole]); err != nil {
			return nil, err
		}
	}
	if rest := int64(4 + size - whole); rest > 0 {
		if _, err := io.CopyN(io.Discard, r, rest); err != nil {
			return nil, err
		}
	}
	return a.buf[4:whole], nil
}

// parseAnswer returns the affected rows of an OK packet, or the error of an
// error packet.
func parseAnswer(p []byte) (affected int64, err error) {
	if len(p) == 0 {
		return 0, fmt.Errorf("%w: %w", mysql.ErrInvalidConn, errMalformed)
	}
	switch {
	case p[0] == 0:
		if n, ok := lengthEncoded(p[1:]); ok {
			return n, nil
		}
	case p[0] == 0xff && len(p) >= 3:
		e := &mysql.MySQLError{Number: binary.LittleEndian.Uint16(p[1:])}
		p = p[3:]
		if len(p) >= 6 && p[0] == '#' {
			copy(e.SQLState[:], p[1:6])
			p = p[6:]
		}
		e.Message = string(p)
		return 0, e
	}
	return 0, fmt.Errorf("%w: %w", mysql.ErrInvalidConn, errMalformed)
}

// lengthEncoded reads an integer of 1, 3, 4 or 9 bytes.
func lengthEncoded(p []byte) (n int64, ok bool) {
	if len(p) == 0 {
		return 0, false
	}
	size := 0
	switch p[0] {
	case 0xfb, 0xff:
		return 0, false // NULL, and an error's header
	case 0xfc:
		size = 2
	case 0xfd:
		size = 3
	case 0xfe:
		size = 8
	default:
		return int64(p[0]), true
	}
	if len(p) < 1+size {
		return 0, false
	}
	var v uint64
	for i := size; i > 0; i-- {
		v = v<<8 | uint64(p[i])
	}
	return int64(v), v < 1<<63
}

// results reads the answer to a prepared statement: OK, an error, or a result set
// (the number of columns, their definitions, and rows up to an end packet). Rows
// are counted and otherwise skipped. The packets are documented at
// https://mariadb.com/kb/en/result-set-packets/.
type results struct {
	buf      [16 << 10]byte
	at, have int  // the unread part of buf
	seq      byte // the sequence number of the next packet
}

// First bytes of packets. A row in the binary protocol begins with 0, like OK.
const (
	headOK, headRow  = 0x00, 0x00
	headEnd, headErr = 0xfe, 0xff
)

// classicEnd is the length of the end packet of servers that also send one after
// the columns: before MySQL 5.7.5 and MariaDB 10.2. Later ones end with an OK
// packet with a different first byte, which is longer.
const classicEnd = 5

// count reads one whole answer and returns the rows affected or received.
func (r *results) count(src io.Reader) (int64, error) {
	r.at, r.have, r.seq = 0, 0, 1
	head, _, err := r.packet(src)
	if err != nil {
		return 0, err
	}
	if len(head) == 0 || head[0] == headOK || head[0] == headErr {
		return parseAnswer(head)
	}
	columns, ok := lengthEncoded(head)
	if !ok || columns < 1 || columns > 1<<16 {
		return 0, malformed()
	}
	// MariaDB reports here if it omits the metadata that the client has cached.
	described := len(head) == 1 || head[len(head)-1] != 0
	for ; described && columns > 0; columns-- {
		if _, _, err := r.packet(src); err != nil {
			return 0, err
		}
	}
	var rows int64
	for first := true; ; first = false {
		head, size, err := r.packet(src)
		switch {
		case err != nil:
			return 0, err
		case len(head) == 0:
			return 0, malformed()
		case head[0] == headRow:
			rows++
			for size == maxPacket { // a row of more than 16 MB continues
				if _, size, err = r.packet(src); err != nil {
					return 0, err
				}
			}
		case head[0] == headEnd && first && size == classicEnd:
		case head[0] == headEnd:
			if r.at != r.have {
				return 0, malformed()
			}
			return rows, nil
		case head[0] == headErr:
			return parseAnswer(head)
		default:
			return 0, malformed()
		}
	}
}

func malformed() error { return fmt.Errorf("%w: %w", mysql.ErrInvalidConn, errMalformed) }

// packet reads one packet. It returns its size and the part of its body that fits
// in the buffer, valid until the next call.
func (r *results) packet(src io.Reader) (body []byte, size int, err error) {
	if err := r.fill(src, 4); err != nil {
		return nil, 0, err
	}
	head := r.buf[r.at:]
	size = int(head[0]) | int(head[1])<<8 | int(head[2])<<16
	if head[3] != r.seq {
		return nil, 0, malformed()
	}
	r.seq++
	r.at += 4
	whole := min(size, len(r.buf))
	if err := r.fill(src, whole); err != nil {
		return nil, 0, err
	}
	body = r.buf[r.at : r.at+whole]
	r.at += whole
	for rest := size - whole; rest > 0; {
		// The buffer is full. The part that was read suffices for any packet except
		// a row, and of a row only the beginning is used: the rest is read into the
		// second half of the buffer and discarded.
		n, err := src.Read(r.buf[len(r.buf)/2:][:min(rest, len(r.buf)/2)])
		if rest -= n; err != nil && rest > 0 {
			return nil, 0, fmt.Errorf("%w: %w", mysql.ErrInvalidConn, err)
		}
	}
	return body, size, nil
}

// fill reads until n bytes are available at r.at.
func (r *results) fill(src io.Reader, n int) error {
	if r.at+n > len(r.buf) {
		r.have = copy(r.buf[:], r.buf[r.at:r.have])
		r.at = 0
	}
	for r.have-r.at < n {
		got, err := src.Read(r.buf[r.have:])
		r.have += got
		if err != nil && r.have-r.at < n {
			return fmt.Errorf("%w: %w", mysql.ErrInvalidConn, err)
		}
	}
	return nil
}

// A tap keeps the first bytes that are read from a connection after it was opened:
// those of the answer to the driver's command.
type tap struct {
	open  bool
	bytes [9]byte
	n     int
}

// through takes what was read and returns the result of the read.
func (t *tap) through(p []byte, n int, err error) (int, error) {
	if t.open && n > 0 {
		t.n += copy(t.bytes[t.n:], p[:n])
	}
	return n, err
}

// statementID is the server's id of the statement in an answer to COM_STMT_PREPARE,
// which follows the packet's header and OK; 0 if the answer is another, or encrypted.
func (t *tap) statementID() uint32 {
	if t.n < len(t.bytes) || t.bytes[3] != 1 || t.bytes[4] != headOK {
		return 0
	}
	return binary.LittleEndian.Uint32(t.bytes[5:])
}
