package engine

import (
	"context"
	"fmt"
)

// A Loader inserts rows of several tables in one transaction, on a connection
// of its own, so that what is noted of rows commits with them. It is not for
// several goroutines at once.
//
// The first Insert of a transaction costs the least, because what comes after it
// must be taken back alone where it is refused: insert many rows before few.
//
// Rows go as INSERT statements of text or of bound values, as few as the
// server's limits allow. Values of Varchar, Char and Decimal are sent as text
// that the server reads as values of whatever type its column has.
type Loader interface {
	// Begin begins a transaction. The session is strict and in UTC, and waits a
	// bounded time for locks.
	Begin(ctx context.Context) error
	// Insert inserts the rows of b from from up to but without to. Of t it takes
	// the name, the columns (those of b, in order), Ignore, and where the table
	// rolls its periods; t may have fewer columns than the table on the server.
	// What is worked out from t is kept for its address: it must not change.
	//
	// After an error that is ErrRefused nothing of those rows is in the
	// transaction, and it goes on with what was inserted before. After any
	// other the transaction is over: see Retryable, and Reset.
	Insert(ctx context.Context, t *Table, b *Batch, from, to int) (Ack, error)
	// Has reports of each of the rows, which stand alone in their batches, whether
	// its table has a row with these values in these columns, none of them NULL.
	// It is one round trip, within the transaction, and sees what was committed
	// before the first Has of the transaction began. After an error the transaction
	// is over.
	Has(ctx context.Context, rows ...Rows) ([]bool, error)
	// Commit commits. After ErrConnectionLost it may have been committed.
	Commit(ctx context.Context) error
	// Reset makes the loader usable after an error, on a new connection if the
	// old one is lost: nothing of a transaction is left that wasn't committed.
	Reset(ctx context.Context) error
	Close() error
}

// Rows are rows of a batch for a table, to be inserted together with others.
type Rows struct {
	Table *Table
	Batch *Batch
}

// CheckHas returns what makes rows none that a Loader can look for: a mistake of the
// caller's.
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

// CheckRows returns what makes rows from from up to but without to of b none
// that a Loader can insert into t: a mistake of the caller's.
func CheckRows(t *Table, b *Batch, from, to int) error {
	if from < 0 || from > to || to > b.Rows() {
		return fmt.Errorf("rows %d to %d of a batch of %d", from, to, b.Rows())
	}
	if want := len(t.Inserted()); want != len(b.Columns) || want == 0 {
		return fmt.Errorf("a batch of %d columns, want %d", len(b.Columns), want)
	}
	return nil
}
