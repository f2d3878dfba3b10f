package mysql

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/mysqlwire"
)

// A tunnel encrypts a connection below the driver. If the driver itself encrypted, readConn
// couldn't read what the server sends. The driver believes that it has a Unix socket, where the
// handshake has no request for TLS. The tunnel sends this request before the driver's answer to the
// greeting. Because of this additional packet, the driver's sequence numbers are one less than the
// server's until the handshake ends.
type tunnel struct {
	net.Conn // of the network, then of TLS
	ctx      context.Context
	config   *tls.Config
	optional bool // without TLS if the server has none

	shift   byte
	began   bool   // the driver has answered the greeting
	pending []byte // read from the server for the driver
	offers  bool   // the server has TLS
}

// tlsOf returns the TLS settings for a target's option; nil is no TLS.
func tlsOf(cfg *mysql.Config) *tls.Config {
	switch cfg.TLSConfig {
	case "true":
		host, _, err := net.SplitHostPort(cfg.Addr)
		if err != nil {
			host = cfg.Addr
		}
		return &tls.Config{ServerName: host}
	case "skip-verify", "preferred":
		return &tls.Config{InsecureSkipVerify: true}
	}
	return nil
}

// greet reads the server's greeting and keeps it for the driver.
func (t *tunnel) greet() error {
	p, err := t.packet()
	if err != nil {
		return err
	}
	t.pending = p
	body := p[4:]
	if len(body) == 0 || body[0] == mysqlwire.Error {
		t.offers = false
		return nil // the driver returns the error
	}
	at := 1
	for at < len(body) && body[at] != 0 { // the version
		at++
	}
	at += 1 + 4 + 8 + 1 // the connection's id, the first part of the salt, a zero
	if at+2 > len(body) {
		return malformed()
	}
	t.offers = binary.LittleEndian.Uint16(body[at:])&mysqlwire.CapSSL != 0
	if !t.offers && !t.optional {
		return mysql.ErrNoTLS
	}
	return nil
}

// packet reads a packet with its header.
func (t *tunnel) packet() ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(t.Conn, head); err != nil {
		return nil, err
	}
	p := append(head, make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)...)
	_, err := io.ReadFull(t.Conn, p[4:])
	return p, err
}

func (t *tunnel) Read(b []byte) (int, error) {
	if len(t.pending) == 0 {
		if t.shift == 0 {
			return t.Conn.Read(b)
		}
		p, err := t.packet()
		if err != nil {
			return 0, err
		}
		p[3] -= t.shift
		t.pending = p
	}
	n := copy(b, t.pending)
	t.pending = t.pending[n:]
	return n, nil
}

// Write implements net.Conn. Until the handshake has ended, the driver writes one packet at a time.
func (t *tunnel) Write(b []byte) (int, error) {
	switch {
	case !t.began:
		t.began = true
		if !t.offers {
			return t.Conn.Write(b)
		}
		if err := t.encrypt(b); err != nil {
			return 0, err
		}
	case t.shift > 0 && len(b) >= 4 && b[3] == 0: // the first command
		t.shift = 0
	}
	if t.shift == 0 {
		return t.Conn.Write(b)
	}
	p := append([]byte(nil), b...)
	p[3] += t.shift
	return t.Conn.Write(p)
}

// encrypt begins TLS before the driver's answer to the greeting. The answer's first part serves as
// the request for TLS.
func (t *tunnel) encrypt(answer []byte) error {
	const part = 4 + 4 + 1 + 23 // capabilities, the largest packet, the character set, more capabilities
	if len(answer) < 4+part {
		return errors.New("begin TLS: the driver's answer is too short")
	}
	answer[4], answer[5] = answer[4]|mysqlwire.CapSSL&0xff, answer[5]|mysqlwire.CapSSL>>8
	request := append([]byte{part, 0, 0, 1}, answer[4:4+part]...)
	if _, err := t.Conn.Write(request); err != nil {
		return err
	}
	c := tls.Client(t.Conn, t.config)
	if err := c.HandshakeContext(t.ctx); err != nil {
		return fmt.Errorf("begin TLS: %w", err)
	}
	t.Conn, t.shift = c, 1
	return nil
}
