package engine

import (
	"context"
	"fmt"
)

// A Loader inserts rows of several tables in one transaction, on a connection of its
// own, so that notes about rows commit with those rows. It must not be used by
// several goroutines at once.
//
// The first Insert of a transaction costs the least, because later ones must be
// undone separately if they are refused: insert many rows before few.
//
// Rows are sent as INSERT statements of text or of bound values, as few as the
// server's limits permit. Values of Varchar, Char and Decimal are sent as text that
// the server converts to the type of the column.
type Loader interface {
	// Begin begins a transaction. The session is strict and in UTC, and its waits
	// for locks are limited.
	Begin(ctx context.Context) error
	// Insert inserts rows [from, to) of b. It uses t's name, columns (those of b, in
	// order), Ignore, and its periods if the table rolls; t may have fewer columns
	// than the table on the server. Data derived from t is cached by its address: t
	// must not change.
	//
	// After an ErrRefused none of those rows is in the transaction, which continues
	// with the rows inserted before. After any other error the transaction is over:
	// see Retryable, and Reset.
	Insert(ctx context.Context, t *Table, b *Batch, from, to int) (Ack, error)
	// Has reports for each of the rows (one per batch) whether its table has a row
	// with these values in these columns, none of them NULL. It is one round trip,
	// within the transaction, and sees data committed before the first Has of the
	// transaction began. After an error the transaction is over.
	Has(ctx context.Context, rows ...Rows) ([]bool, error)
	// Commit commits. After ErrConnectionLost it may have been committed.
	Commit(ctx context.Context) error
	// Reset makes the loader usable after an error, on a new connection if the old
	// one was lost: uncommitted work is rolled back.
	Reset(ctx context.Context) error
	Close() error
}

// Rows are rows of a batch for a table, to be inserted together with others.
type Rows struct {
	Table *Table
	Batch *Batch
}

// CheckHas returns an error if a Loader can't look for the rows, which is a mistake
// of the caller.
func CheckHas(rows []Rows) error {
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

// CheckRows returns an error if a Loader can't insert rows [from, to) of b into t,
// which is a mistake of the caller.
func CheckRows(t *Table, b *Batch, from, to int) error {
	if from < 0 || from > to || to > b.Rows() {
		return fmt.Errorf("rows %d to %d of a batch of %d", from, to, b.Rows())
	}
	if want := len(t.Inserted()); want != len(b.Columns) || want == 0 {
		return fmt.Errorf("a batch of %d columns, want %d", len(b.Columns), want)
	}
	return nil
}
