// Package mysqlwire has the packets of the protocol of MariaDB and MySQL, for both ends of a
// connection: headers, length-encoded values, the answers OK, EOF and ERR, and definitions of
// columns. It reads and writes slices of bytes, and uses no connection.
//
// https://mariadb.com/kb/en/clientserver-protocol/ and
// https://dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html define the packets.
package mysqlwire

import (
	"encoding/binary"
	"fmt"
)

// A packet's header has four bytes: three for the length of the payload, and a sequence number. A
// payload of MaxPayload bytes continues in the next packet.
const (
	HeaderSize = 4
	MaxPayload = 1<<24 - 1
)

// First bytes of payloads.
const (
	OK    = 0x00
	File  = 0xFB // a request for the data of LOAD DATA LOCAL
	EOF   = 0xFE
	Error = 0xFF
)

// ClassicEOF is the length of an EOF packet. The server sends one after the columns and one after
// the rows. If CapDeprecateEOF was negotiated, an OK packet ends the rows instead. That packet
// begins with EOF, but is longer than ClassicEOF.
const ClassicEOF = 5

// Capabilities, which client and server negotiate when they connect.
const (
	CapMySQL         = 1 << 0 // the server is no MariaDB
	CapConnectWithDB = 1 << 3
	CapCompress      = 1 << 5
	CapLocalFiles    = 1 << 7
	CapProtocol41    = 1 << 9
	CapSSL           = 1 << 11
	CapPluginAuth    = 1 << 19
	CapLenencAuth    = 1 << 21
	CapDeprecateEOF  = 1 << 24
	CapOptionalMeta  = 1 << 25
	CapZstd          = 1 << 26
	CapAttributes    = 1 << 27 // COM_QUERY has parameters before its text
	// MariaDB's own capabilities, in a separate field.
	CapCacheMeta uint32 = 1 << 4 // a count of columns says whether definitions follow
)

// Bits of a server's status.
const (
	StatusInTransaction = 1 << 0
	StatusAutocommit    = 1 << 1
	StatusMoreResults   = 1 << 3
	StatusCursor        = 1 << 6
	StatusNoBackslash   = 1 << 9 // \ is a character of strings like others
)

// Length returns the length of a packet's payload.
func Length(header []byte) int {
	return int(header[0]) | int(header[1])<<8 | int(header[2])<<16
}

// Begin appends a packet's header, which End completes.
func Begin(to []byte, seq byte) []byte { return append(to, 0, 0, 0, seq) }

// End completes the packet whose header is at start, and returns the sequence number of the next
// packet. It divides a packet whose payload is longer than MaxPayload.
func End(to []byte, start int) (_ []byte, seq byte) {
	seq = to[start+3]
	for {
		n := len(to) - start - HeaderSize
		if n < MaxPayload {
			to[start], to[start+1], to[start+2], to[start+3] = byte(n), byte(n>>8), byte(n>>16), seq
			return to, seq + 1
		}
		to[start], to[start+1], to[start+2], to[start+3] = 0xFF, 0xFF, 0xFF, seq
		seq++
		start += HeaderSize + MaxPayload
		to = append(to, 0, 0, 0, 0)
		copy(to[start+HeaderSize:], to[start:])
	}
}

// AppendInt appends a length-encoded integer.
func AppendInt(to []byte, n uint64) []byte {
	switch {
	case n < 251:
		return append(to, byte(n))
	case n < 1<<16:
		return append(to, 0xFC, byte(n), byte(n>>8))
	case n < 1<<24:
		return append(to, 0xFD, byte(n), byte(n>>8), byte(n>>16))
	}
	return binary.LittleEndian.AppendUint64(append(to, 0xFE), n)
}

// Int reads a length-encoded integer, and returns the bytes after it. ok is false if the integer is
// NULL or p is too short.
func Int(p []byte) (n uint64, rest []byte, ok bool) {
	if len(p) == 0 || p[0] == 0xFB || p[0] == 0xFF {
		return 0, p, false
	}
	if p[0] < 0xFB {
		return uint64(p[0]), p[1:], true
	}
	size := [...]int{2, 3, 8}[p[0]-0xFC]
	if len(p) < 1+size {
		return 0, p, false
	}
	for i := size; i > 0; i-- {
		n = n<<8 | uint64(p[i])
	}
	return n, p[1+size:], true
}

// Bytes reads a length-encoded string.
func Bytes(p []byte) (s, rest []byte, ok bool) {
	n, rest, ok := Int(p)
	if !ok || n > uint64(len(rest)) {
		return nil, p, false
	}
	return rest[:n], rest[n:], true
}

// A Done is the content of an OK packet or of an EOF packet.
type Done struct {
	Affected         uint64
	Status, Warnings uint16
	// Complete is false if the packet ends before the status and the number of warnings.
	Complete bool
}

// ReadDone reads the payload of an OK packet, or of an EOF packet of either form. ok is false if
// the payload lacks the number of rows.
func ReadDone(p []byte) (d Done, ok bool) {
	if len(p) == ClassicEOF && p[0] == EOF {
		return Done{Warnings: binary.LittleEndian.Uint16(p[1:]), Status: binary.LittleEndian.Uint16(p[3:]), Complete: true}, true
	}
	if len(p) == 0 {
		return d, false
	}
	d.Affected, p, ok = Int(p[1:])
	if !ok {
		return d, false
	}
	if _, p, d.Complete = Int(p); len(p) < 4 { // the last insert id
		d.Complete = false
	}
	if d.Complete {
		d.Status, d.Warnings = binary.LittleEndian.Uint16(p), binary.LittleEndian.Uint16(p[2:])
	}
	return d, true
}

// A ServerError is an error as the protocol transmits it.
type ServerError struct {
	Code  uint16
	State string // SQLSTATE, "" if the server gave none
	Text  string
}

func (e *ServerError) Error() string {
	return fmt.Sprintf("Error %d (%s): %s", e.Code, e.State, e.Text)
}

// Packet returns the error as a packet.
func (e *ServerError) Packet(seq byte) []byte {
	p := Begin(nil, seq)
	p = append(p, Error, byte(e.Code), byte(e.Code>>8), '#')
	p = append(p, (e.State + "HY000")[:5]...)
	p, _ = End(append(p, e.Text[:min(len(e.Text), 4096)]...), 0)
	return p
}

// ReadError reads the payload of an ERR packet; nil if p isn't one.
func ReadError(p []byte) *ServerError {
	if len(p) < 3 || p[0] != Error {
		return nil
	}
	e := &ServerError{Code: binary.LittleEndian.Uint16(p[1:]), Text: string(p[3:])}
	if len(p) >= 9 && p[3] == '#' {
		e.State, e.Text = string(p[4:9]), string(p[9:])
	}
	return e
}

// A Column is the definition of a column.
type Column struct {
	Name           string
	Computed       bool // of an expression, not of a table
	Charset, Flags uint16
	Length         uint32
	Type, Decimals byte
}

// ReadColumn reads the definition of a column; ok is false if p isn't one.
func ReadColumn(p []byte) (c Column, ok bool) {
	var s []byte
	for i := range 6 { // catalog, database, table and its own name, column and its own name
		if s, p, ok = Bytes(p); !ok {
			return c, false
		}
		switch i {
		case 3:
			c.Computed = len(s) == 0
		case 4:
			c.Name = string(s)
		}
	}
	if len(p) > 13 { // MariaDB may add a text about the type, before the part of fixed length
		if _, rest, ok := Bytes(p); ok {
			p = rest
		}
	}
	if len(p) < 11 {
		return c, false
	}
	c.Charset, c.Length = binary.LittleEndian.Uint16(p[1:]), binary.LittleEndian.Uint32(p[3:])
	c.Type, c.Flags, c.Decimals = p[7], binary.LittleEndian.Uint16(p[8:]), p[10]
	return c, true
}
