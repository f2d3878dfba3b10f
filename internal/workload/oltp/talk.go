// Package oltp contains the workloads of transactions, one file each: a hot row, many tables, and
// TPC-C in three files, its rows, its transactions and the proof of them. Each client has a
// connection, on which it sends statements in text (talk.go).
package oltp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// A talk is one client's transactions of statements in text, whose values stand in place of $NAME.
// The first error ends a transaction: its other statements are not sent. Without a session, on an
// engine that stores nothing, it does all but send.
type talk struct {
	open func(ctx context.Context, st engine.State) (*engine.Session, error)
	s    *engine.Session
	v    map[string]string
	sent string // the last statement
	err  error
	// asked, if a commit was sent and not answered, is a query for what the transaction has written in
	// the first place.
	asked string
	// rewrite is a fault, for tests.
	rewrite func(statement string) string
}

func (c *talk) fill(q string) string {
	return os.Expand(q, func(name string) string { return c.v[name] })
}

// next returns a statement with its values.
func (c *talk) next(q string) string {
	if c.sent = c.fill(q); c.rewrite != nil && c.err == nil {
		c.sent = c.rewrite(c.sent)
	}
	return c.sent
}

// exec runs a statement, and returns how many rows it changed: without a session as many as wanted.
func (c *talk) exec(ctx context.Context, want int, q string) int {
	q = c.next(q)
	if c.err != nil || c.s == nil {
		return want
	}
	n, err := c.s.Exec(ctx, q)
	c.err = err
	return int(n)
}

// change runs a statement that changes a known number of rows.
func (c *talk) change(ctx context.Context, want int, q string) {
	if n := c.exec(ctx, want, q); n != want && c.err == nil {
		c.err = fmt.Errorf("%d rows were changed, want %d: %s", n, want, c.sent)
	}
}

// rows returns the rows of a query: without a session one, of ones.
func (c *talk) rows(ctx context.Context, q string) (out [][]string) {
	q = c.next(q)
	if c.s == nil {
		return [][]string{{"1", "1", "1", "1"}}
	}
	if c.err == nil {
		c.err = c.s.Text(ctx, q, nil, func(values [][]byte) error {
			row := make([]string, len(values))
			for i, v := range values {
				row[i] = string(v)
			}
			out = append(out, row)
			return nil
		})
	}
	return out
}

// row notes the first values of the only row of a query by these names.
func (c *talk) row(ctx context.Context, q string, names ...string) {
	rows := c.rows(ctx, q)
	if len(rows) != 1 && c.err == nil {
		c.err = fmt.Errorf("%d rows were found, want one: %s", len(rows), c.sent)
	}
	for i, name := range names {
		if c.err == nil {
			c.v[name] = harmless(rows[0][i])
		}
	}
}

// harmless is a text in which no character has a meaning within quotes: the tables have no others,
// but for a foreign hand.
func harmless(text string) string {
	return strings.NewReplacer("'", "-", `\`, "-", "$", "-").Replace(text)
}

// commit ends a transaction. The query is that of asked.
func (c *talk) commit(ctx context.Context, query string) {
	if c.err == nil && c.s != nil {
		c.asked = c.fill(query)
	}
	c.exec(ctx, 0, "COMMIT")
}

// done reports whether a commit that was not answered has happened: a session finds the value.
func (c *talk) done(ctx context.Context, s *engine.Session, value string) (done bool, err error) {
	text, err := firstValue(ctx, s, c.asked)
	return err == nil && text == value, err
}

// recover rolls back after an error, on a new session if the connection is lost. An error that was
// an answer to a commit says that it has not happened.
func (c *talk) recover(ctx context.Context, failed error) error {
	if !errors.Is(failed, engine.ErrConnectionLost) {
		c.asked = ""
	}
	s, err := renewed(ctx, c.s, failed, func(ctx context.Context) (*engine.Session, error) { return c.open(ctx, nil) })
	c.s = s
	return err
}

func (c *talk) close() error {
	if c.s == nil {
		return nil
	}
	return c.s.Close()
}

// A cause is why transactions are begun again.
type cause struct {
	class error
	name  string
}

var usualCauses = []cause{{engine.ErrDeadlock, "deadlock"}, {engine.ErrLockTimeout, "lock timeout"}, {engine.ErrConnectionLost, "lost connection"}}

// causes counts them.
type causes struct {
	mu sync.Mutex
	of map[string]int64
}

// add counts the first cause whose class an error has: one of its own, or a usual one.
func (k *causes) add(failed error, own ...cause) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range append(own, usualCauses...) {
		if errors.Is(failed, c.class) {
			if k.of == nil {
				k.of = map[string]int64{}
			}
			k.of[c.name]++
			return
		}
	}
}

// firstValue returns the first value of a query's first row; "" without one.
func firstValue(ctx context.Context, s *engine.Session, q string) (out string, err error) {
	err = s.Text(ctx, q, nil, func(values [][]byte) error {
		if out == "" {
			out = string(values[0])
		}
		return nil
	})
	return out, err
}

// renewed makes a session ready for an operation that is begun again: it rolls back, or opens a new
// one if the connection is lost.
func renewed(ctx context.Context, s *engine.Session, failed error, open func(context.Context) (*engine.Session, error)) (*engine.Session, error) {
	if !errors.Is(failed, engine.ErrConnectionLost) {
		if _, err := s.Exec(ctx, "ROLLBACK"); err == nil || !errors.Is(err, engine.ErrConnectionLost) {
			return s, err
		}
	}
	next, err := open(ctx)
	if err != nil {
		return s, err
	}
	return next, s.Close()
}

func digits[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// decimal returns a decimal of so many units, with scale digits after the point.
func decimal(units int64, scale int) string { return value.FormatUnscaled(digits(units), scale) }

func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}
