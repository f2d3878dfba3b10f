// Package oltp contains workloads of transactions: a hot row, many tables, and TPC-C with its rows
// (tpcc.go), transactions (tpccrun.go) and proof (tpccproof.go). Each client has a connection, on
// which it sends statements as text (talk.go).
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

// A talk sends the transactions of one client as text, with values in place of $NAME. After the
// first error, the other statements of a transaction are not sent.
type talk struct {
	open func(ctx context.Context, st engine.State) (*engine.Session, error)
	s    *engine.Session
	v    map[string]string
	sent string // the last statement
	err  error
	// asked, if a commit was sent and not answered, is a query that finds a row of the transaction.
	asked string
	// rewrite makes a fault, in tests.
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

// exec runs a statement and returns how many rows it changed.
func (c *talk) exec(ctx context.Context, q string) int {
	q = c.next(q)
	if c.err != nil {
		return 0
	}
	n, err := c.s.Exec(ctx, q)
	c.err = err
	return int(n)
}

// change runs a statement that changes a known number of rows.
func (c *talk) change(ctx context.Context, want int, q string) {
	if n := c.exec(ctx, q); n != want && c.err == nil {
		c.err = fmt.Errorf("%d rows were changed, want %d: %s", n, want, c.sent)
	}
}

// rows returns the rows of a query.
func (c *talk) rows(ctx context.Context, q string) (out [][]string) {
	q = c.next(q)
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

// row keeps the first values of the only row of a query under these names.
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

// harmless replaces the characters that have a meaning within quotes. rowmill's rows have none.
func harmless(text string) string {
	return strings.NewReplacer("'", "-", `\`, "-", "$", "-").Replace(text)
}

// commit ends a transaction. query returns a value that only this transaction can have written. If
// the COMMIT is not answered, done uses query to find out whether the transaction was committed.
func (c *talk) commit(ctx context.Context, query string) {
	if c.err == nil {
		c.asked = c.fill(query)
	}
	c.exec(ctx, "COMMIT")
}

// done reports whether a commit that was not answered has happened: if it has, the query c.asked
// returns the given value.
func (c *talk) done(ctx context.Context, s *engine.Session, value string) (done bool, err error) {
	text, err := firstValue(ctx, s, c.asked)
	return err == nil && text == value, err
}

// recover rolls back after an error, on a new session if the connection is lost. If the connection
// is not lost, the transaction is certainly not committed, and done needn't ask whether it is.
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

// A cause is a reason for repeating transactions.
type cause struct {
	class error
	name  string
}

var usualCauses = []cause{{engine.ErrDeadlock, "deadlock"}, {engine.ErrLockTimeout, "lock timeout"}, {engine.ErrConnectionLost, "lost connection"}}

// causes counts repeated transactions by cause.
type causes struct {
	mu sync.Mutex
	of map[string]int64
}

// add counts the first cause that matches an error: one of own, or of the usual causes.
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

// renewed makes a session ready to repeat an operation: it rolls back, or opens another session if
// the connection is lost.
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

// decimal returns a number of units as text, e.g. "1.05" for 105 with scale 2.
func decimal(units int64, scale int) string { return value.FormatUnscaled(digits(units), scale) }

func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}
