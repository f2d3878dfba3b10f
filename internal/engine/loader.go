package engine

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Loader inserts rows of several tables in one transaction, on a connection of its own, so that
// notes about rows commit with those rows. Only one goroutine at a time may use it.
//
// The first Insert of a transaction should be the largest. Before each later Insert, the loader
// sets a savepoint or the like, which costs time. With it the loader can undo a refused Insert
// alone. The server converts texts of Varchar, Char and Decimal to the type of the column.
type Loader interface {
	// Begin begins a transaction. The session is strict and in UTC, and waits for locks for a limited
	// time.
	Begin(ctx context.Context) error
	// Insert inserts rows [from, to) of b into t, whose columns are the columns of b, in the same
	// order; the server's table may have more columns. t must not change, because statements are
	// cached by its address.
	//
	// After an ErrRefused the transaction continues without these rows. After any other error the
	// transaction has ended: see Retryable and Reset.
	Insert(ctx context.Context, t *Table, b *Batch, from, to int) (Ack, error)
	// Has reports for each of rows whether its table has a row with these values. Each element of rows
	// is a batch of one row, without NULL. Has is one round trip within the transaction, and sees what
	// was committed before the transaction's first Has. After an error the transaction has ended.
	Has(ctx context.Context, rows ...Rows) ([]bool, error)
	// Compare finds, within the transaction, the rows of t with the primary keys of rows [from, to) of
	// b, and calls fn with each and its first difference from b. cols describe all columns of t. Two
	// values are equal if the server stores them alike: in a decimal column, 1.0 equals 1.00; texts
	// that are equal only by their collation differ. After an error the transaction has ended.
	Compare(ctx context.Context, t *Table, cols []SchemaColumn, b *Batch, from, to int, fn func(Compared)) error
	// Commit commits. After ErrConnectionLost, the server may have committed the transaction.
	Commit(ctx context.Context) error
	// Reset rolls back, and makes the loader usable after an error, if necessary on a new connection.
	Reset(ctx context.Context) error
	Close() error
}

// Rows are rows of a batch, and the table for them.
type Rows struct {
	Table *Table
	Batch *Batch
}

// A Compared is a row of a table that has the key of a row of a batch.
type Compared struct {
	Row int // of the batch
	// Key has the texts of the row's primary key. Rows with equal Keys are the same row.
	Key []string
	// Column is the first column whose value differs, or -1 if none does. Stored is the column's value
	// in the table as text, cut to MostStored characters; nil is NULL.
	Column int
	Stored *string
}

// MostStored is the maximum length of Compared.Stored in characters.
const MostStored = 100

// A LoaderConn is an engine's part of a Loader: a connection and its statements. The Loader knows
// whether a transaction is open, and whether it has rows.
type LoaderConn interface {
	// Between Enter and Leave, the end of ctx interrupts the connection. If err is not nil, Leave ends
	// the transaction, and returns err, or the error of ctx if ctx interrupted the connection.
	Enter(ctx context.Context) error
	Leave(ctx context.Context, err error) error
	// Lost reports whether the connection is lost.
	Lost() bool

	Begin(ctx context.Context) error
	Commit(ctx context.Context) error
	// Insert inserts rows. more reports that the transaction has rows of earlier Inserts. If Insert
	// returns ErrRefused, Undo rolls back what this Insert has inserted.
	Insert(ctx context.Context, t *Table, b *Batch, from, to int, more bool) (Ack, error)
	Undo() error
	Has(ctx context.Context, rows []Rows) ([]bool, error)
	Compare(ctx context.Context, t *Table, cols []SchemaColumn, b *Batch, from, to int, fn func(Compared)) error

	Reset(ctx context.Context) error
	Close() error
}

// NewLoader returns the Loader of a connection of db.
func NewLoader(db Driver, conn LoaderConn) Loader { return &loader{db: db, conn: conn} }

type loader struct {
	db     Driver
	conn   LoaderConn
	open   bool // a transaction is open
	more   bool // it has rows
	closed bool
}

// call runs fn within an open transaction, or without one if open is false. A failure ends the
// transaction.
func (l *loader) call(ctx context.Context, open bool, fn func() error) error {
	if l.closed {
		return errors.New("the loader is closed")
	}
	err := l.conn.Enter(ctx)
	switch {
	case err != nil && !l.open:
		return err
	case err == nil && l.open != open:
		_ = l.conn.Leave(ctx, nil)
		if l.open {
			return errors.New("one is open already")
		}
		return errors.New("no transaction is open")
	case err == nil:
		err = l.db.Classify(fn())
	}
	if err = l.conn.Leave(ctx, err); err != nil {
		l.open, l.more = false, false
	}
	return err
}

func (l *loader) Begin(ctx context.Context) error {
	err := l.call(ctx, false, func() error { return l.conn.Begin(ctx) })
	if err == nil {
		l.open, l.more = true, false
	}
	return About(ctx, err, "begin a transaction")
}

func (l *loader) Commit(ctx context.Context) error {
	sent := false
	err := l.call(ctx, true, func() error {
		sent = true
		return l.conn.Commit(ctx)
	})
	if err == nil {
		l.open, l.more = false, false
	} else if sent && l.conn.Lost() {
		err = Classed(ErrConnectionLost, err) // it may have been committed before ctx ended
	}
	return About(ctx, err, "commit")
}

func (l *loader) Insert(ctx context.Context, t *Table, b *Batch, from, to int) (ack Ack, err error) {
	var refused error
	err = l.call(ctx, true, func() (err error) {
		if err = CheckRows(t, b, from, to); err != nil || from == to {
			return err
		}
		ack, err = l.conn.Insert(ctx, t, b, from, to, l.more)
		if err = l.db.Classify(err); !errors.Is(err, ErrRefused) {
			l.more = true
			return err
		}
		refused = err
		if err := l.conn.Undo(); err != nil {
			return fmt.Errorf("roll back rows that were refused (%v): %w", refused, err)
		}
		return nil
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return Ack{}, About(ctx, err, "insert into "+t.Name)
	}
	return ack, nil
}

func (l *loader) Has(ctx context.Context, rows ...Rows) (has []bool, err error) {
	err = l.call(ctx, true, func() (err error) {
		if err = checkHas(rows); err == nil {
			has, err = l.conn.Has(ctx, rows)
		}
		return err
	})
	return has, About(ctx, err, "look for rows")
}

func (l *loader) Compare(ctx context.Context, t *Table, cols []SchemaColumn, b *Batch, from, to int, fn func(Compared)) error {
	err := l.call(ctx, true, func() error {
		err := CheckRows(t, b, from, to)
		if err == nil && (len(cols) != len(t.Columns) || len(t.PrimaryKey) == 0 || len(t.PrimaryKey) != len(keyOf(t))) {
			err = fmt.Errorf("compare rows of %s without its key, or without its columns", t.Name)
		}
		if err != nil {
			return err
		}
		return l.conn.Compare(ctx, t, cols, b, from, to, fn)
	})
	return About(ctx, err, "compare rows with those of "+t.Name)
}

// keyOf returns the indexes, in the key's order, of the columns of t's primary key.
func keyOf(t *Table) (out []int) {
	for _, name := range t.PrimaryKey {
		if i := t.Column(name); i >= 0 {
			out = append(out, i)
		}
	}
	return out
}

// A Comparison renders a query for LoaderConn.Compare. Its functions get the index of a column.
type Comparison struct {
	Key    []int              // the columns of the primary key
	Equal  func(i int) string // the condition that a stored key value equals the sent one
	Differ func(i int) string // the condition that a stored value differs from the sent one
	Text   func(i int) string // the stored value as text
	Short  func(i int) string // Text, cut to MostStored characters
}

// NewComparison returns a comparison of t's rows.
func NewComparison(t *Table) Comparison { return Comparison{Key: keyOf(t)} }

// On returns the condition that a stored row has the key of a sent row.
func (c Comparison) On() string {
	on := make([]string, len(c.Key))
	for i, k := range c.Key {
		on[i] = c.Equal(k)
	}
	return strings.Join(on, " AND ")
}

// Results returns the select list of the query whose result Read reads: the key, the first column
// that differs, and that column's stored value.
func (c Comparison) Results(columns int) string {
	var out []string
	for _, k := range c.Key {
		out = append(out, c.Text(k))
	}
	which, what := "-1", "NULL"
	var first, value strings.Builder
	for i := range columns {
		if !slices.Contains(c.Key, i) {
			fmt.Fprintf(&first, " WHEN %s THEN %d", c.Differ(i), i)
			fmt.Fprintf(&value, " WHEN %s THEN %s", c.Differ(i), c.Short(i))
		}
	}
	if first.Len() > 0 {
		which, what = "CASE"+first.String()+" ELSE -1 END", "CASE"+value.String()+" END"
	}
	return strings.Join(append(out, which, what), ", ")
}

// Read returns what a row of Results says about the batch's row number row; nil is NULL.
func (c Comparison) Read(row int, values [][]byte) (Compared, error) {
	out := Compared{Row: row}
	n := len(c.Key)
	if len(values) != n+2 {
		return out, fmt.Errorf("%d results of a comparison, want %d", len(values), n+2)
	}
	for _, v := range values[:n] {
		out.Key = append(out.Key, string(v))
	}
	if values[n+1] != nil {
		text := string(values[n+1])
		out.Stored = &text
	}
	var err error
	out.Column, err = strconv.Atoi(string(values[n]))
	return out, err
}

// ReadValues is Read for values of package driver.
func (c Comparison) ReadValues(row int, values []driver.Value) (Compared, error) {
	texts := make([][]byte, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case nil:
		case []byte:
			texts[i] = v
		default:
			texts[i] = fmt.Append(nil, v)
		}
	}
	return c.Read(row, texts)
}

func (l *loader) Reset(ctx context.Context) error {
	if l.closed {
		return errors.New("the loader is closed")
	}
	err := l.conn.Reset(ctx)
	if err == nil {
		l.open, l.more = false, false
	}
	return err
}

// Close closes the connection, which rolls back an open transaction.
func (l *loader) Close() error {
	l.closed, l.open = true, false
	return l.conn.Close()
}

// ConnOf returns the connection of a Loader, for tests of an engine.
func ConnOf(l Loader) LoaderConn { return l.(*loader).conn }

// checkHas returns an error if the caller of Has has made a mistake.
func checkHas(rows []Rows) error {
	for _, r := range rows {
		err := CheckRows(r.Table, r.Batch, 0, 1)
		if err == nil && r.Batch.Rows() != 1 {
			err = fmt.Errorf("%d rows to look for in %s, want 1", r.Batch.Rows(), r.Table.Name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckRows returns an error if the caller has made a mistake, so that rows [from, to) of b can't
// be inserted into t.
func CheckRows(t *Table, b *Batch, from, to int) error {
	if from < 0 || from > to || to > b.Rows() {
		return fmt.Errorf("rows %d to %d of a batch of %d", from, to, b.Rows())
	}
	if t.Update && (len(t.PrimaryKey) == 0 || slices.ContainsFunc(t.PrimaryKey, func(k string) bool { return t.Column(k) < 0 })) {
		return fmt.Errorf("rows without the primary key of %s, by which rows are updated", t.Name)
	}
	if want := len(t.Inserted()); want != len(b.Columns) || want == 0 {
		return fmt.Errorf("a batch of %d columns, want %d", len(b.Columns), want)
	}
	return nil
}
