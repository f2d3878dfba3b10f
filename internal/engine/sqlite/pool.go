package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
)

// poolSize limits the connections of SQL. Only one writes at a time, and each has
// a page cache of the target's size.
const poolSize = 8

// A connector opens the connections of SQL to the DB's file, with the same pragmas
// and with the functions that Words needs. Its write transactions begin with BEGIN
// IMMEDIATE. A transaction that first reads and then writes would otherwise fail
// immediately with SQLITE_BUSY if another transaction has written in between.
type connector struct{ db *DB }

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.db.connectWith(ctx, "?_txlock=immediate", c.db.pragmas)
	if err != nil {
		return nil, err
	}
	if err := registerFunctions(conn); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", c.db.path, err), conn.Close())
	}
	return &pooled{conn, c.db}, nil
}

// Driver implements driver.Connector.
func (c connector) Driver() driver.Driver { return newDriver() }

// SQL implements engine.Keeper.
func (db *DB) SQL() *sql.DB { return db.pool }

func (db *DB) openPool() {
	db.pool = sql.OpenDB(connector{db})
	db.pool.SetMaxOpenConns(poolSize)
	db.pool.SetMaxIdleConns(2)
}

// Bind implements engine.Keeper. SQLite's placeholders are question marks.
func (db *DB) Bind(query string) string { return query }

// Classify implements engine.Keeper.
func (db *DB) Classify(err error) error { return classify(err) }

// textOf returns a value as text that SQLite reads back as the same value in a
// column of the same affinity. SQLite's own conversion of a real keeps only 15
// digits.
func textOf(v any) any {
	switch v := v.(type) {
	case float64:
		switch {
		case math.IsInf(v, 1):
			return "9e999"
		case math.IsInf(v, -1):
			return "-9e999"
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return v
}

// A rowHash is an aggregate: the sum, modulo 2^128, of a hash of each row (the
// first half of its SHA-256). It doesn't depend on the order of the rows.
type rowHash struct {
	high, low uint64
	buf       []byte
}

// Step adds a row.
func (h *rowHash) Step(values ...any) {
	h.buf = appendRow(h.buf[:0], values)
	sum := sha256.Sum256(h.buf)
	var carry uint64
	h.low, carry = bits.Add64(h.low, binary.BigEndian.Uint64(sum[8:]), 0)
	h.high, _ = bits.Add64(h.high, binary.BigEndian.Uint64(sum[:]), carry)
}

// Done returns the sum in hexadecimal digits; "0" for no rows.
func (h *rowHash) Done() string {
	if h.high == 0 {
		return strconv.FormatUint(h.low, 16)
	}
	return fmt.Sprintf("%x%016x", h.high, h.low)
}

// appendRow appends values so that different rows have different encodings: a
// letter for the type, then the 8 bytes of a number, or the length and the bytes of
// text.
func appendRow(dst []byte, values []any) []byte {
	for _, v := range values {
		switch v := v.(type) {
		case int64:
			dst = binary.BigEndian.AppendUint64(append(dst, 'i'), uint64(v))
		case float64:
			dst = binary.BigEndian.AppendUint64(append(dst, 'f'), math.Float64bits(v))
		case string:
			dst = append(binary.BigEndian.AppendUint64(append(dst, 't'), uint64(len(v))), v...)
		case []byte:
			dst = append(binary.BigEndian.AppendUint64(append(dst, 'b'), uint64(len(v))), v...)
		default:
			dst = append(dst, 'n')
		}
	}
	return dst
}

var _ engine.Keeper = (*DB)(nil)
