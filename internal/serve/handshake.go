package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"time"

	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/serve/session"
)

// The handshake is relayed: the client gets the server's random bytes, and the server gets the
// client's answer to them. So all methods of authentication work. The front sees a password only if
// the method sends it as it is, within TLS or over a socket; the front doesn't keep it.

// connectTimeout limits the time to reach the server. handshakeTimeout limits the whole handshake,
// like the server's connect_timeout: it includes the time to type a one-time password.
const (
	connectTimeout   = 10 * time.Second
	handshakeTimeout = 60 * time.Second
)

// maxHandshake limits the packets of a client that isn't authenticated yet. Such a packet has
// connection attributes of at most 64 KiB. The buffer for it grows to at most twice maxHandshake.
const maxHandshake = 72 << 10

// masked are the capabilities that the front doesn't offer to clients. It can't follow the bytes of
// a compressed connection, nor results without column definitions: MariaDB and MySQL write them
// differently.
const masked = mysqlwire.CapCompress | mysqlwire.CapZstd | mysqlwire.CapOptionalMeta

// refuse sends an error in place of, or during, the handshake.
func (c *client) refuse(e *mysqlwire.ServerError, seq byte) {
	_ = c.user.SetWriteDeadline(time.Now().Add(connectTimeout))
	_, _ = c.user.Write(e.Packet(seq)) // the client may be gone
}

// dial connects to the server.
func (f *Front) dial(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: connectTimeout, KeepAlive: keepAlive}
	return d.DialContext(ctx, f.o.Wire.Network, f.o.Wire.Address)
}

// handshake connects the client to the server. If the error is errRefused, the client has been told
// why it is refused.
func (c *client) handshake(ctx context.Context) error {
	upstream, err := c.front.dial(ctx)
	if err != nil {
		c.refuse(serverErrorOf(codeNoServer, "HY000", fmt.Sprintf("rowmill serve: no answer from the server: %v", err)), 0)
		return fmt.Errorf("connect to the server: %w", err)
	}
	c.server.Conn = upstream
	c.sockets.add(upstream)
	c.link()
	c.enter(phaseConnect)
	defer c.enter(phaseOther)
	deadline := time.Now().Add(handshakeTimeout)
	if err := errors.Join(c.user.SetDeadline(deadline), c.server.SetDeadline(deadline)); err != nil {
		return err
	}
	greeting, err := c.server.packet(maxHandshake)
	if err != nil {
		c.refuse(serverErrorOf(codeNoServer, "HY000", fmt.Sprintf("rowmill serve: the server at %s closed the connection: %v", c.front.o.Wire.Address, err)), 0)
		return fmt.Errorf("read the server's greeting: %w", err)
	}
	offered, err := c.greet(greeting)
	if err != nil {
		return err
	}
	answer, err := c.user.packet(maxHandshake)
	if err != nil {
		return noClient(err)
	}
	if len(answer) < mysqlwire.HeaderSize+32 || binary.LittleEndian.Uint32(answer[mysqlwire.HeaderSize:])&mysqlwire.CapProtocol41 == 0 {
		c.refuse(serverErrorOf(codeUnknown, "HY000", "rowmill serve: this client speaks a protocol older than 4.1"), answer[3]+1)
		return errRefused
	}
	answer, shift, err := c.secure(ctx, answer, offered)
	if err != nil {
		return err
	}
	return c.authenticate(answer, offered, shift)
}

// errRefused ends a session whose client has been told why. errDenied is the errRefused for a
// client whose account the server itself has refused.
var (
	errRefused = errors.New("refused")
	errDenied  = fmt.Errorf("access denied: %w", errRefused)
)

// noDenied returns err, or nil for errDenied.
func noDenied(err error) error {
	if errors.Is(err, errDenied) {
		return nil
	}
	return err
}

// noClient replaces err by errRefused if the client has closed the connection, as probes do, or was
// cut off; it returns any other err.
func noClient(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return errRefused
	}
	return err
}

// greet passes the server's greeting on, without the capabilities that are not offered.
func (c *client) greet(p []byte) (offered uint32, err error) {
	body := p[mysqlwire.HeaderSize:]
	if len(body) > 0 && body[0] == mysqlwire.Error {
		// The greeting is an error: too many connections, or a host that is blocked.
		_, err := c.user.Write(p)
		return 0, errors.Join(errRefused, err)
	}
	version := bytes.IndexByte(body, 0)
	// After the version: id (4), random bytes (8), a zero, capabilities (2), character set (1),
	// status (2), capabilities (2), length (1), six zeros, MariaDB's capabilities (4).
	at := version + 1
	if len(body) == 0 || body[0] != 10 || version < 0 || len(body) < at+31 {
		c.refuse(serverErrorOf(codeNoServer, "HY000", "rowmill serve: the server does not speak the MySQL protocol"), 0)
		return 0, fmt.Errorf("read the server's greeting: %w", errPacket)
	}
	c.id = binary.LittleEndian.Uint32(body[at:])
	low, high := body[at+13:at+15], body[at+18:at+20]
	offered = uint32(binary.LittleEndian.Uint16(low)) | uint32(binary.LittleEndian.Uint16(high))<<16
	if offered&mysqlwire.CapProtocol41 == 0 || offered&mysqlwire.CapPluginAuth == 0 {
		c.refuse(serverErrorOf(codeNoServer, "HY000", "rowmill serve: the server speaks a protocol older than 5.5"), 0)
		return 0, fmt.Errorf("read the server's greeting: %w", errPacket)
	}
	shown := offered &^ masked
	if c.front.o.TLS != nil && (offered&mysqlwire.CapSSL != 0 || c.front.o.Wire.Network == "unix") {
		shown |= mysqlwire.CapSSL
	} else {
		shown &^= mysqlwire.CapSSL
	}
	binary.LittleEndian.PutUint16(low, uint16(shown))
	binary.LittleEndian.PutUint16(high, uint16(shown>>16))
	_, err = c.user.Write(p)
	return offered, err
}

// secure encrypts the connections to the client and to the server as the client and the options ask
// for. It returns the client's answer to the greeting, and the shift of sequence numbers: see
// exchange. Within TLS, methods of authentication send the password as it is. So if the client uses
// TLS, the front also uses TLS to the server, unless it reaches the server over a socket.
func (c *client) secure(ctx context.Context, answer []byte, offered uint32) (first []byte, shift int, err error) {
	wants := binary.LittleEndian.Uint32(answer[mysqlwire.HeaderSize:])&mysqlwire.CapSSL != 0
	if wants && (c.front.o.TLS == nil || len(answer) != mysqlwire.HeaderSize+32) {
		c.refuse(serverErrorOf(codeUnknown, "08S01", "rowmill serve: TLS was not offered"), answer[3]+1)
		return nil, 0, errRefused
	}
	upstream := offered&mysqlwire.CapSSL != 0 && (wants && c.front.o.Wire.Network != "unix" || c.front.o.Wire.Encrypted)
	if c.front.o.Wire.Encrypted && !upstream {
		c.refuse(serverErrorOf(codeNoServer, "08S01", "rowmill serve: the target asks for TLS, and the server doesn't offer it"), answer[3]+1)
		return nil, 0, errRefused
	}
	if upstream {
		request := bytes.Clone(answer[:mysqlwire.HeaderSize+32])
		request[0], request[1], request[2], request[3] = 32, 0, 0, 1
		flags := binary.LittleEndian.Uint32(request[mysqlwire.HeaderSize:])
		binary.LittleEndian.PutUint32(request[mysqlwire.HeaderSize:], flags|mysqlwire.CapSSL)
		if _, err := c.server.Write(request); err != nil {
			return nil, 0, err
		}
		over := tls.Client(c.server.plain(), c.front.o.Wire.TLS)
		if err := over.HandshakeContext(ctx); err != nil {
			c.refuse(serverErrorOf(codeNoServer, "08S01", fmt.Sprintf("rowmill serve: TLS with the server: %v", err)), answer[3]+1)
			return nil, 0, fmt.Errorf("TLS with the server: %w", err)
		}
		c.server.Conn = over
	}
	if upstream {
		shift++ // the server has had one packet more
	}
	if wants {
		shift--
		over := tls.Server(c.user.plain(), c.front.o.TLS)
		if err := over.HandshakeContext(ctx); err != nil {
			return nil, 0, noClient(fmt.Errorf("TLS with the client: %w", err))
		}
		c.user.Conn = over
		again, err := c.user.packet(maxHandshake)
		if err != nil {
			return nil, 0, noClient(err)
		}
		if answer = again; len(answer) < mysqlwire.HeaderSize+32 {
			return nil, 0, errPacket
		}
	}
	flags := binary.LittleEndian.Uint32(answer[mysqlwire.HeaderSize:]) &^ mysqlwire.CapSSL
	if upstream {
		flags |= mysqlwire.CapSSL
	}
	binary.LittleEndian.PutUint32(answer[mysqlwire.HeaderSize:], flags)
	return answer, shift, nil
}

// plain returns the connection below TLS: bytes that have been read already come first.
func (s *side) plain() net.Conn {
	early := bytes.Clone(s.buf[s.r:s.w])
	s.r, s.w = 0, 0
	if len(early) == 0 {
		return s.Conn
	}
	return &prefixed{s.Conn, early}
}

type prefixed struct {
	net.Conn
	early []byte
}

func (p *prefixed) Read(to []byte) (int, error) {
	if len(p.early) > 0 {
		n := copy(to, p.early)
		p.early = p.early[n:]
		return n, nil
	}
	return p.Conn.Read(to)
}

// authenticate passes on the client's answer to the greeting, and then the packets of both sides,
// until the server accepts or refuses the client.
func (c *client) authenticate(answer []byte, offered uint32, shift int) error {
	body := answer[mysqlwire.HeaderSize:]
	caps := binary.LittleEndian.Uint32(body) & offered &^ masked
	c.server.caps, c.server.mariadb = caps, offered&mysqlwire.CapMySQL == 0
	var extended uint32
	if offered&mysqlwire.CapMySQL == 0 && caps&mysqlwire.CapMySQL == 0 {
		extended = binary.LittleEndian.Uint32(body[28:])
	}
	name, _, _ := bytes.Cut(body[32:], []byte{0})
	user := string(name)
	c.session = session.Session{Server: c.front.o.Reader, Account: user, Attributes: caps&mysqlwire.CapAttributes != 0, KeepsMeta: extended&mysqlwire.CapCacheMeta != 0}
	c.server.reply.eofs = caps&mysqlwire.CapDeprecateEOF == 0
	c.server.reply.meta = extended&mysqlwire.CapCacheMeta != 0
	binary.LittleEndian.PutUint32(body, binary.LittleEndian.Uint32(body)&^masked)
	answer[3] = byte(int(answer[3]) + shift)
	if _, err := c.server.Write(answer); err != nil {
		return err
	}
	err := c.exchange(shift)
	if err != nil {
		return err
	}
	return errors.Join(c.user.SetDeadline(time.Time{}), c.server.SetDeadline(time.Time{}))
}

// exchange passes the packets of an authentication in both directions, up to the server's last
// packet. If only one of the two connections had packets about TLS, its sequence numbers differ
// from those of the other connection by shift.
func (c *client) exchange(shift int) error {
	done := make(chan error, 1)
	go func() {
		for {
			p, err := c.user.packet(maxHandshake)
			if err == nil {
				p[3] = byte(int(p[3]) + shift)
				_, err = c.server.Write(p)
			}
			if err != nil {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					_ = c.server.SetReadDeadline(past) // nothing will come
				}
				done <- err
				return
			}
		}
	}()
	seq := byte(0) // of the last packet to the client
	for {
		p, err := c.server.packet(maxHandshake)
		// The goroutine that reads from the client must not read what follows the authentication. So it
		// ends before the client is told that it may go on.
		last := err != nil || len(p) == mysqlwire.HeaderSize || p[mysqlwire.HeaderSize] == mysqlwire.OK || p[mysqlwire.HeaderSize] == mysqlwire.Error
		mismatch := !last && c.needsKey(p[mysqlwire.HeaderSize:])
		if last || mismatch {
			_ = c.user.SetReadDeadline(past)
			if stopped := <-done; err != nil && !errors.Is(stopped, os.ErrDeadlineExceeded) {
				return noClient(stopped)
			}
			_ = c.user.SetReadDeadline(time.Time{})
		}
		if err != nil {
			c.refuse(serverErrorOf(codeNoServer, "08S01", fmt.Sprintf("rowmill serve: the server closed the connection: %v", err)), seq+1)
			return err
		}
		p[3] = byte(int(p[3]) - shift)
		seq = p[3]
		if mismatch {
			c.refuse(serverErrorOf(codeUnknown, "08S01", "rowmill serve: the server asks for the password itself, which is not passed between an encrypted connection and one that is not. "+
				"Try: connect with TLS, which needs serve's --tls-cert, or give serve a target with host and port and without tls"), p[3])
			return errRefused
		}
		if last && p[mysqlwire.HeaderSize] == mysqlwire.OK && c.front.o.Wire.Network == "unix" {
			p = bytes.Clone(p)
			if err := c.checkPeer(p[3]); err != nil {
				return err
			}
		}
		if _, err := c.user.Write(p); err != nil {
			return err
		}
		if !last {
			continue
		}
		if p[mysqlwire.HeaderSize] == mysqlwire.Error {
			return errDenied
		}
		c.server.reply.read(p[mysqlwire.HeaderSize:])
		c.session.Outcome.Status = c.server.reply.status
		return nil
	}
}

// byPeer are the methods of authentication that ask the kernel which user is at the other end of a
// socket. For the server, this is always rowmill's user, whoever rowmill's client is.
var byPeer = regexp.MustCompile(`(?i)\b(unix_socket|auth_socket)\b`)

// checkPeer refuses an account that the server has just accepted, if the account has a method of
// byPeer: the packets don't show whether the server has accepted it by this method or by another.
// seq is the number of the error packet for the client.
func (c *client) checkPeer(seq byte) error {
	account, err := c.server.ask("SHOW CREATE USER CURRENT_USER()")
	why := "this account is authenticated by the socket's other end, which is rowmill and not the client"
	var refused *mysqlwire.ServerError
	switch {
	case errors.As(err, &refused):
		why = "the server doesn't say whether this account is authenticated by the socket's other end, which is rowmill and not the client: " + refused.Text
	case err != nil:
		return err
	case len(account.rows) == 1 && !byPeer.Match(bytes.Join(account.rows[0], nil)):
		c.found, c.zero = 0, true // as on a new connection
		return c.restore()
	}
	c.refuse(serverErrorOf(codeAccessDenied, "28000", "rowmill serve: access denied: "+why+". Try: an account with a password, or serve with a --target that has a host and a port"), seq)
	return errRefused
}

// past is a deadline that ends a read at once.
var past = time.Unix(1, 0)

// needsKey reports that the server, by caching_sha2_password, asks for the whole password, but only
// one of the two connections, from the client or to the server, counts as safe. Then one side
// encrypts the password by the server's key, and the other side takes it as plain.
func (c *client) needsKey(p []byte) bool {
	if len(p) != 2 || p[0] != 1 || p[1] != 4 {
		return false
	}
	_, secured := c.user.Conn.(*tls.Conn)
	_, over := c.server.Conn.(*tls.Conn)
	return secured != (over || c.front.o.Wire.Network == "unix")
}
