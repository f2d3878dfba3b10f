package serve

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/rowmill/rowmill/internal/mysqlwire"
)

// A side is one of the two connections of a session, with the bytes that were read from it and not
// yet passed on.
type side struct {
	net.Conn
	buf  []byte
	r, w int

	link  hanger // the connection below TLS: the sweep asks whether its other end is closed
	sock  *sock  // nil without a loop
	ready bool   // something may be read
}

// usualBuffer holds most statements and answers; largeBuffer is for long results.
const (
	usualBuffer = 16 << 10
	largeBuffer = 256 << 10
)

// fill reads once, and appends to the bytes that are in the buffer.
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

// want reads until the buffer has n bytes.
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

// errPacket is the error for a packet that is too long, or not of the expected form.
var errPacket = errors.New("a packet is too long, or not of the MySQL protocol")

// packet reads a packet of at most limit bytes, and returns it with its header. The slice is valid
// until the next call.
func (s *side) packet(limit int) ([]byte, error) {
	if err := s.want(mysqlwire.HeaderSize); err != nil {
		return nil, err
	}
	n := mysqlwire.Length(s.buf[s.r:])
	if n > limit {
		return nil, fmt.Errorf("read a packet of %d bytes: %w", n, errPacket)
	}
	if err := s.want(mysqlwire.HeaderSize + n); err != nil {
		return nil, err
	}
	p := s.buf[s.r : s.r+mysqlwire.HeaderSize+n]
	s.r += mysqlwire.HeaderSize + n
	return p, nil
}

// Errors of the front have the codes of the server's errors with the same meaning.
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

func serverErrorOf(code uint16, state, text string) *mysqlwire.ServerError {
	return &mysqlwire.ServerError{Code: code, State: state, Text: text}
}
