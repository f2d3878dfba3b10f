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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// poolSize limits the connections of the pool that SQL returns. Only one of them writes at a time,
// and each takes memory for a page cache of the target's size.
const poolSize = 8

// boundSize limits a bound DB's connections: maintenance holds one while it asks for another.
const boundSize = 4

// A connector opens the connections of the pool that SQL returns. They have the DB's pragmas, and
// the functions that Words uses. Their write transactions begin with BEGIN IMMEDIATE: after a plain
// BEGIN, a write that follows a read may fail.
type connector struct{ db *database }

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

func (c connector) Driver() driver.Driver { return newDriver() }

func (db *database) SQL() *sql.DB { return db.pool }

// Session implements engine.Keeper. The settings are pragmas.
func (db *database) Session(ctx context.Context) (*engine.Session, error) {
	return engine.OpenSession(ctx, db, db.pool, sessionWords(), nil)
}

func sessionWords() engine.SessionWords {
	pragma := func(name string) (string, error) {
		if name == "" || strings.Trim(strings.ToLower(name), "abcdefghijklmnopqrstuvwxyz_") != "" {
			return "", errors.New("that is not a name of a pragma")
		}
		return "PRAGMA " + name, nil
	}
	return engine.SessionWords{
		Get: pragma,
		Set: func(name, value string) (string, error) {
			q, err := pragma(name)
			return q + " = " + quoteText(value), err
		},
	}
}

func (db *database) Kill(context.Context, int64) error {
	return engine.Classed(engine.ErrUnsupported, errors.New("end a connection: SQLite has no server"))
}

func (db *database) openPool() {
	db.pool = sql.OpenDB(connector{db})
	db.pool.SetMaxOpenConns(poolSize)
	db.pool.SetMaxIdleConns(2)
	db.reads = sql.OpenDB(connector{db})
}

// Bound implements engine.Bounded. Each connection has the schema of all tables in memory, so a
// bound DB has at most boundSize connections for reading and writing. Connections that are unused
// for a second are closed, and their memory is returned to the system.
func (db *database) Bound() {
	db.turn <- struct{}{}
	db.bound = true
	_ = errors.Join(db.write.Close(), db.reads.Close()) // nothing is lost with them
	db.write, db.reads = nil, db.pool
	<-db.turn
	db.pool.SetMaxOpenConns(boundSize)
	db.pool.SetMaxIdleConns(boundSize)
	db.pool.SetConnMaxIdleTime(time.Second)
	shareHeap()
}

func (c *pooled) Close() error {
	err := c.connection.Close()
	if c.db.bound && trimming.CompareAndSwap(false, true) {
		time.AfterFunc(trimPause, func() {
			trimming.Store(false)
			trimHeap()
		})
	}
	return err
}

// trimming is true while a timer runs, which the closing of a connection starts. After trimPause,
// when most unused connections are closed, the timer returns their memory to the system.
var trimming atomic.Bool

const trimPause = 3 * time.Second

// borrow takes a connection of the pool as the write connection of a bound DB, for one turn.
func (db *database) borrow(ctx context.Context) (err error) {
	if db.lent, err = db.pool.Conn(ctx); err != nil {
		return classify(err)
	}
	err = db.lent.Raw(func(c any) (err error) {
		db.write = c.(*pooled).connection
		db.handle, err = handleOf(db.write)
		return err
	})
	if err != nil {
		db.giveBack()
	}
	return err
}

func (db *database) giveBack() {
	_ = db.lent.Close() // it returns to the pool
	db.write, db.lent = nil, nil
}

// Bind implements engine.Keeper. SQLite's placeholders are question marks.
func (db *database) Bind(query string) string { return query }

func (db *database) Classify(err error) error { return classify(err) }

// textOf returns a value as text. If the text is stored in a column that has the affinity of the
// value's own column, SQLite reads it back as the same value. SQLite's own conversion of a real
// keeps only 15 digits.
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
	case []byte:
		if v != nil && len(v) == 0 { // NULL is a nil slice
			return "" // an empty blob would become NULL on its way back
		}
	}
	return v
}

// A rowHash is an aggregate of rows: it hashes each row, and adds up the hashes modulo 2^128. A
// row's hash is the first half of its SHA-256. The sum doesn't depend on the order of the rows.
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

// appendRow appends values so that different rows have different encodings: a letter for the type,
// then the 8 bytes of a number, or the length and the bytes of text.
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

// SQLite has no queue for its lock: a process that waits for the lock tries again after at most 100
// ms. So rowmill leaves the lock free for a gap of more than 100 ms after each long transaction.
// Loaders leave a gap after they have held the lock for longLoad in total: this costs a tenth of
// their time.
const (
	longTransaction = 20 * time.Millisecond
	longLoad        = time.Second
	gap             = 120 * time.Millisecond
)

// A pace enforces gaps in which rowmill leaves the lock free. One pace has the gaps after long
// transactions of this process, another has the gaps between the transactions of loaders. Writers
// of batches never wait for the end of a gap: the gaps give them a chance to take the lock.
type pace struct {
	mu   sync.Mutex
	next time.Time
	// For loaders: how long they have held the lock in total since the last gap, and when they last
	// released it.
	sum  time.Duration
	last time.Time
}

// loaded records that a loader released the file's lock, which it held since began.
func (p *pace) loaded(began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if began.Sub(p.last) >= gap {
		p.sum = 0
	}
	p.last = now
	if p.sum += now.Sub(began); p.sum >= longLoad {
		p.sum, p.next = 0, now.Add(gap)
	}
}

// held records that the file's lock, held since began, was released.
func (p *pace) held(began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(began) >= longTransaction {
		p.next = now.Add(gap)
	}
}

// wait waits for the end of a gap.
func (p *pace) wait(ctx context.Context) error {
	for {
		p.mu.Lock()
		left := time.Until(p.next)
		p.mu.Unlock()
		if left <= 0 {
			return ctx.Err()
		}
		t := time.NewTimer(left)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}

// A pooled connection belongs to the pool that SQL returns. In this process, only one pooled
// connection at a time has a write transaction, and begins it after the gap that pace enforces.
type pooled struct {
	*connection
	db *database
}

// BeginTx implements driver.ConnBeginTx. A read-only transaction takes no lock that blocks others,
// and sees what was committed before its first read.
func (c *pooled) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if o.ReadOnly {
		return c.beginReadOnly(ctx)
	}
	bounded, cancel := context.WithTimeout(ctx, busyTimeout*time.Millisecond)
	defer cancel()
	select {
	case c.db.txTurn <- struct{}{}:
	case <-bounded.Done():
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, engine.Classed(engine.ErrLockTimeout, fmt.Errorf("%s: another transaction of this process is open", c.db.path))
	}
	tx, err := c.begin(ctx, o)
	if err != nil {
		<-c.db.txTurn
	}
	return tx, err
}

func (c *pooled) begin(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if err := c.db.pace.wait(ctx); err != nil {
		return nil, err
	}
	tx, err := c.connection.BeginTx(ctx, o)
	if err != nil {
		return nil, err
	}
	return &pooledTx{Tx: tx, db: c.db, began: time.Now()}, nil
}

func (c *pooled) beginReadOnly(ctx context.Context) (driver.Tx, error) {
	for _, q := range []string{"PRAGMA query_only = ON", "BEGIN"} {
		if _, err := c.ExecContext(ctx, q, nil); err != nil {
			_, off := c.ExecContext(context.WithoutCancel(ctx), "PRAGMA query_only = OFF", nil)
			return nil, errors.Join(err, off)
		}
	}
	return readTx{c}, nil
}

// A readTx is a read-only transaction.
type readTx struct{ c *pooled }

func (t readTx) Commit() error   { return t.end("COMMIT") }
func (t readTx) Rollback() error { return t.end("ROLLBACK") }

func (t readTx) end(q string) error {
	var errs []error
	for _, q := range []string{q, "PRAGMA query_only = OFF"} {
		_, err := t.c.ExecContext(context.Background(), q, nil)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

type pooledTx struct {
	driver.Tx
	db    *database
	began time.Time
	once  sync.Once
}

// Commit implements driver.Tx. A failed COMMIT leaves the transaction open. The driver rolls it
// back; database/sql doesn't.
func (t *pooledTx) Commit() error   { defer t.end(); return t.Tx.Commit() }
func (t *pooledTx) Rollback() error { defer t.end(); return t.Tx.Rollback() }

func (t *pooledTx) end() {
	t.once.Do(func() {
		t.db.pace.held(t.began)
		<-t.db.txTurn
	})
}

var _ interface {
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnPrepareContext
	driver.Pinger
} = (*pooled)(nil)
