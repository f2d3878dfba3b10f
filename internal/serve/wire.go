package serve

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// A packet has a header of four bytes: the length of its payload in three, and a sequence number. A payload
// of maxPayload bytes is continued by the next packet.
const (
	headerSize = 4
	maxPayload = 1<<24 - 1
)

// Capabilities, which client and server negotiate when they connect.
const (
	capMySQL         = 1 << 0 // the server is no MariaDB
	capConnectWithDB = 1 << 3
	capCompress      = 1 << 5
	capLocalFiles    = 1 << 7
	capProtocol41    = 1 << 9
	capSSL           = 1 << 11
	capPluginAuth    = 1 << 19
	capLenencAuth    = 1 << 21
	capDeprecateEOF  = 1 << 24
	capOptionalMeta  = 1 << 25
	capZstd          = 1 << 26
	capAttributes    = 1 << 27 // COM_QUERY has parameters before its text
	// MariaDB's own, in a field of their own.
	capCacheMeta uint32 = 1 << 4 // a count of columns says whether definitions follow
)

// Bits of a server's status.
const (
	statusInTransaction = 1 << 0
	statusAutocommit    = 1 << 1
	statusMoreResults   = 1 << 3
	statusCursor        = 1 << 6
	statusNoBackslash   = 1 << 9 // \ is a character of strings like others
)

// First bytes of responses.
const (
	respOK    = 0x00
	respFile  = 0xFB
	respEOF   = 0xFE
	respError = 0xFF
)

// A side is one of the two connections of a session, with the bytes that were read from it and not
// yet passed on.
type side struct {
	net.Conn
	buf  []byte
	r, w int
}

// usualBuffer holds most statements and answers; largeBuffer is for long results.
const (
	usualBuffer = 16 << 10
	largeBuffer = 256 << 10
)

// fill reads once, behind the bytes that are there.
func (s *side) fill() error {
	s.room()
	n, err := s.Conn.Read(s.buf[s.w:])
	s.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// want reads until n bytes are there.
func (s *side) want(n int) error {
	for s.w-s.r < n {
		if err := s.fill(); err != nil {
			return err
		}
	}
	return nil
}

// shrink gives back a buffer that a large packet or result needed.
func (s *side) shrink() {
	if len(s.buf) > usualBuffer && s.w-s.r <= usualBuffer {
		small := make([]byte, usualBuffer)
		s.r, s.w = 0, copy(small, s.buf[s.r:s.w])
		s.buf = small
	}
}

// errPacket is for a packet that is longer than any of its kind.
var errPacket = errors.New("a packet is too long, or not of the MySQL protocol")

// packet reads a packet of at most limit bytes, and returns it with its header. It is valid until the next call.
func (s *side) packet(limit int) ([]byte, error) {
	if err := s.want(headerSize); err != nil {
		return nil, err
	}
	n := length(s.buf[s.r:])
	if n > limit {
		return nil, fmt.Errorf("read a packet of %d bytes: %w", n, errPacket)
	}
	if err := s.want(headerSize + n); err != nil {
		return nil, err
	}
	p := s.buf[s.r : s.r+headerSize+n]
	s.r += headerSize + n
	return p, nil
}

// length returns the length of a packet's payload.
func length(header []byte) int {
	return int(header[0]) | int(header[1])<<8 | int(header[2])<<16
}

// begin appends a packet's header, to be completed by end.
func begin(to []byte, seq byte) []byte { return append(to, 0, 0, 0, seq) }

// end completes the packet whose header is at start, dividing it into several if it is longer than
// maxPayload, and returns the sequence number for the next one.
func end(to []byte, start int) (_ []byte, seq byte) {
	seq = to[start+3]
	for {
		n := len(to) - start - headerSize
		if n < maxPayload {
			to[start], to[start+1], to[start+2], to[start+3] = byte(n), byte(n>>8), byte(n>>16), seq
			return to, seq + 1
		}
		to[start], to[start+1], to[start+2], to[start+3] = 0xFF, 0xFF, 0xFF, seq
		seq++
		start += headerSize + maxPayload
		to = append(to, 0, 0, 0, 0)
		copy(to[start+headerSize:], to[start:])
	}
}

// appendLenenc appends a length-encoded integer.
func appendLenenc(to []byte, n uint64) []byte {
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

// lenenc reads a length-encoded integer. ok is false for NULL and if p is too short.
func lenenc(p []byte) (n uint64, rest []byte, ok bool) {
	if len(p) == 0 {
		return 0, p, false
	}
	size := 0
	switch p[0] {
	case 0xFB, 0xFF:
		return 0, p, false
	case 0xFC:
		size = 2
	case 0xFD:
		size = 3
	case 0xFE:
		size = 8
	default:
		return uint64(p[0]), p[1:], true
	}
	if len(p) < 1+size {
		return 0, p, false
	}
	for i := size; i > 0; i-- {
		n = n<<8 | uint64(p[i])
	}
	return n, p[1+size:], true
}

// lenencBytes reads a length-encoded string.
func lenencBytes(p []byte) (s, rest []byte, ok bool) {
	n, rest, ok := lenenc(p)
	if !ok || n > uint64(len(rest)) {
		return nil, p, false
	}
	return rest[:n], rest[n:], true
}

// A serverError is an error in the form of the protocol.
type serverError struct {
	Code  uint16
	State string // SQLSTATE
	Text  string
}

func (e *serverError) Error() string {
	return fmt.Sprintf("Error %d (%s): %s", e.Code, e.State, e.Text)
}

// Errors of the front have codes of the server's that mean the same.
const (
	codeTooManyConnections = 1040
	codeShutdown           = 1053
	codeUnknown            = 1105
	codeInterrupted        = 1317
	codeNoServer           = 1429 // unable to connect to a foreign data source
	codeOutOfMemory        = 1041
	codeAccessDenied       = 1698 // by a method without a password
	codeNoDatabase         = 1046 // none is selected
	codeUnknownCommand     = 1047
	codeNoTable            = 1146
)

// packet returns the error as a packet.
func (e *serverError) packet(seq byte) []byte {
	p := begin(nil, seq)
	p = append(p, respError, byte(e.Code), byte(e.Code>>8), '#')
	p = append(p, (e.State + "HY000")[:5]...)
	p, _ = end(append(p, e.Text[:min(len(e.Text), 4096)]...), 0)
	return p
}

// readError reads the payload of an error packet.
func readError(p []byte) *serverError {
	e := &serverError{Code: codeUnknown, State: "HY000", Text: "malformed error packet"}
	if len(p) < 3 || p[0] != respError {
		return e
	}
	e.Code, e.Text = binary.LittleEndian.Uint16(p[1:]), string(p[3:])
	if len(p) >= 9 && p[3] == '#' {
		e.State, e.Text = string(p[4:9]), string(p[9:])
	}
	return e
}
