package mysql

import (
	"fmt"
	"io"

	"github.com/go-sql-driver/mysql"
)

// results reads the answer to a prepared statement: OK, an error, or a number of
// columns, what describes each, and rows up to an end. Rows are counted, and
// otherwise passed over. The packets are those of
// https://mariadb.com/kb/en/result-set-packets/.
type results struct {
	buf      [16 << 10]byte
	at, have int  // what of buf was read and not yet looked at
	seq      byte // the number of the next packet
}

// Heads of packets. A row in the binary protocol begins with 0 as OK does.
const (
	headOK, headRow  = 0x00, 0x00
	headEnd, headErr = 0xfe, 0xff
)

// classicEnd is the length of an end's packet where the server has one after
// the columns as well: before MySQL 5.7.5 and MariaDB 10.2. Later ones end with
// an OK packet of another head, which is longer.
const classicEnd = 5

// count reads one whole answer, and returns the rows affected or received.
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
	// A MariaDB that leaves out what the client knows already says so here.
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
			for size == maxPacket { // a row of more than 16 MB goes on
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

// packet reads one packet. It returns its size and as much of its body as the
// buffer holds, valid until the next call.
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
		// The buffer is full of this packet. What is kept of it is enough of
		// any but a row, of which only the beginning counts: the rest is read
		// over its second half.
		n, err := src.Read(r.buf[len(r.buf)/2:][:min(rest, len(r.buf)/2)])
		if rest -= n; err != nil && rest > 0 {
			return nil, 0, fmt.Errorf("%w: %w", mysql.ErrInvalidConn, err)
		}
	}
	return body, size, nil
}

// fill reads until there are n bytes at r.at.
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
