package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/rowmill/rowmill/internal/engine"
)

// A wire is the connection of a writer, a querier or a loader: the client's side of the
// few messages that they use, which are sent and read in place, without an allocation.
// pgconn establishes, encrypts and authenticates it. The formats are those of
// https://www.postgresql.org/docs/current/protocol-message-formats.html.
type wire struct {
	db  *server
	net net.Conn
	// from is the connection's reader. When a write takes long, pgconn starts to read net in the
	// background. A read through from returns that data before it reads net.
	from io.Reader
	pid  uint32 // of the server's process
	in   []byte // data received
	// in[at:have] is the unread data.
	at, have int
	tx       byte // reply.tx of the last reply
	watch    *engine.Watch
}

// errProtocol reports a reply that violates the protocol.
var errProtocol = errors.New("malformed answer of the server")

// dialWire opens a connection for a writer or querier, and executes statements on it.
func (db *server) dialWire(ctx context.Context, statements ...string) (*wire, error) {
	var from io.Reader
	cfg := db.config.Copy()
	build := cfg.BuildFrontend
	// The last frontend built belongs to the connection that pgconn has chosen.
	cfg.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		from = r
		return build(r, w)
	}
	c, err := db.connectAs(ctx, cfg, engine.Connect{})
	if err != nil {
		return nil, err
	}
	if err := execAll(ctx, c, statements...); err != nil {
		discard(c)
		return nil, err
	}
	h, err := c.Hijack()
	if err != nil {
		discard(c)
		return nil, fmt.Errorf("take over the connection: %w", err)
	}
	if n := h.Frontend.ReadBufferLen(); n > 0 {
		_ = h.Conn.Close()
		return nil, engine.Classed(engine.ErrConnectionLost, fmt.Errorf("take over the connection: the server sent %d unexpected bytes", n))
	}
	return &wire{db: db, net: h.Conn, from: from, pid: h.PID, in: make([]byte, 8<<10), tx: 'I', watch: engine.NewWatch(h.Conn)}, nil
}

// A reply collects the server's answer to a batch.
type reply struct {
	rows     int64 // affected, or found
	came     int   // rows that were received
	done     int   // statements completed
	err      *pgconn.PgError
	warnings []string
	tx       byte // 'I' idle, 'T' in a transaction, 'E' in one that failed
}

// mostWarnings is the number of warnings kept per batch.
const mostWarnings = 5

// finish reads until the server is ready for the next query, or has ended the
// connection. It returns the server's error, if any, or else that of the connection.
func (c *wire) finish(r *reply) error {
	for {
		kind, body, err := c.message()
		if err == nil {
			err = r.take(kind, body)
		}
		if err == nil && kind != 'Z' {
			continue
		}
		c.tx = r.tx
		if r.err != nil && !errors.Is(err, errProtocol) {
			return r.err
		}
		return err
	}
}

// await reads until that many statements are completed, or one has failed.
func (c *wire) await(r *reply, statements int) error {
	for r.done < statements && r.err == nil {
		kind, body, err := c.message()
		if err != nil {
			return err
		}
		if err := r.take(kind, body); err != nil {
			return err
		}
		if kind == 'Z' {
			return errProtocol
		}
	}
	return nil
}

// ack returns the acknowledgement of rows that were sent.
func (r *reply) ack(sent int, ignore bool) engine.Ack {
	ack := engine.Ack{Rows: r.rows, Warnings: r.warnings}
	if ignore {
		ack.Skipped = int64(sent) - r.rows
	}
	return ack
}

func (r *reply) take(kind byte, body []byte) error {
	switch kind {
	case 'D': // DataRow
		r.came++
	case 'C': // CommandComplete
		r.done++
		r.rows += affected(body)
	case 'Z': // ReadyForQuery
		if len(body) != 1 || body[0] != 'I' && body[0] != 'T' && body[0] != 'E' {
			return errProtocol
		}
		r.tx = body[0]
	case 'E': // ErrorResponse
		var m pgproto3.ErrorResponse
		if err := m.Decode(body); err != nil {
			return fmt.Errorf("%w: %w", errProtocol, err)
		}
		if r.err == nil {
			r.err = pgconn.ErrorResponseToPgError(&m)
		}
	case 'N': // NoticeResponse
		var m pgproto3.NoticeResponse
		if err := m.Decode(body); err != nil {
			return fmt.Errorf("%w: %w", errProtocol, err)
		}
		if m.SeverityUnlocalized == "WARNING" && len(r.warnings) < mostWarnings {
			r.warnings = append(r.warnings, m.Message)
		}
	}
	// Other messages confirm steps and are ignored: a later message shows the result.
	return nil
}

// affected returns the number at the end of a command tag such as "INSERT 0 12".
func affected(tag []byte) (n int64) {
	end := len(tag) - 1 // without the zero byte
	i := end
	for i > 0 && tag[i-1] >= '0' && tag[i-1] <= '9' {
		i--
	}
	for ; i < end; i++ {
		n = n*10 + int64(tag[i]-'0')
	}
	return n
}

// maxMessage is the longest message that is accepted, in bytes. No expected
// message is longer than an error's text.
const maxMessage = 64 << 20

// message reads one message. Its body is valid until the next call.
func (c *wire) message() (kind byte, body []byte, err error) {
	if err := c.fill(5); err != nil {
		return 0, nil, err
	}
	kind = c.in[c.at]
	size := int(binary.BigEndian.Uint32(c.in[c.at+1:]))
	if size < 4 || size > maxMessage {
		return 0, nil, errProtocol
	}
	if err := c.fill(1 + size); err != nil {
		return 0, nil, err
	}
	body = c.in[c.at+5 : c.at+1+size]
	c.at += 1 + size
	return kind, body, nil
}

// fill reads until n bytes from c.at are available.
func (c *wire) fill(n int) error {
	if c.have-c.at >= n {
		return nil
	}
	if c.at+n > len(c.in) {
		if n > len(c.in) {
			c.in = append(make([]byte, 0, 2*n), c.in[c.at:c.have]...)[:2*n]
		} else {
			copy(c.in, c.in[c.at:c.have])
		}
		c.at, c.have = 0, c.have-c.at
	}
	for c.have-c.at < n {
		got, err := c.from.Read(c.in[c.have:])
		c.have += got
		if err != nil && c.have-c.at < n {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

func (c *wire) send(p []byte) error {
	_, err := c.net.Write(p)
	return err
}

// run executes a statement with the simple query protocol.
func (c *wire) run(q string) error {
	var r reply
	return c.exchange(appendQuery(nil, q), &r)
}

// exchange sends messages and reads the reply.
func (c *wire) exchange(messages []byte, r *reply) error {
	if err := c.send(messages); err != nil {
		return err
	}
	return c.finish(r)
}

// appendQuery appends the message of a text statement.
func appendQuery(dst []byte, q string) []byte {
	dst, start := beginMessage(dst, 'Q')
	dst = append(append(dst, q...), 0)
	endMessage(dst, start)
	return dst
}

// beginMessage appends the header of a message; endMessage fills in its length.
func beginMessage(dst []byte, kind byte) (_ []byte, start int) {
	return append(dst, kind, 0, 0, 0, 0), len(dst)
}

func endMessage(p []byte, start int) {
	binary.BigEndian.PutUint32(p[start+1:], uint32(len(p)-start-1))
}

func (c *wire) Watch() *engine.Watch { return c.watch }

// rollbackWait bounds the wait for a ROLLBACK: the network may have failed with the statement.
const rollbackWait = 5 * time.Second

// Rollback implements engine.Linked. Without a transaction, it sends an empty statement:
// the server would log a warning about ROLLBACK.
func (c *wire) Rollback() error {
	limit := func(at time.Time) error { return c.watch.Hold(func() error { return c.net.SetDeadline(at) }) }
	if err := limit(time.Now().Add(rollbackWait)); err != nil {
		return err
	}
	statement := rollbackStatement
	if c.tx == 'I' {
		statement = ""
	}
	return errors.Join(c.run(statement), limit(time.Time{}))
}

func (c *wire) Answered(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) || errors.Is(err, errUnsent)
}

// Kill implements engine.Linked. It fails if the server is gone.
func (c *wire) Kill(ctx context.Context) { _ = c.db.kill(ctx, c.pid) }

// Close implements engine.Linked. It sends a Terminate message, which fails if the server is gone,
// and closes the connection.
func (c *wire) Close() error {
	c.watch.Close()
	_ = c.net.SetDeadline(time.Now().Add(time.Second))
	_ = c.send([]byte{'X', 0, 0, 0, 4})
	return c.net.Close()
}
