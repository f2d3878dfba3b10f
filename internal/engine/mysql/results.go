package mysql

import (
	"fmt"
	"io"

	"github.com/go-sql-driver/mysql"
)

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
