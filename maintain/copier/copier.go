// Package copier copies rows from one table into another of the same columns,
// in chunks along the primary key: each chunk is one transaction, which also
// notes how far the copy is, so that it goes on after a crash without a row
// lost or doubled. Between chunks it waits while the server has better things
// to do.
package copier

import (
	"context"
	"errors"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/maintain/state"
)

// A Copy says what to copy.
type Copy struct {
	DB engine.Keeper
	// From is what a FROM names, quoted: a table, or a period as
	// Words.From has it. Into is a table, quoted.
	From, Into string
	// Columns are those to copy, in order; Key those of the primary key.
	Columns, Key []engine.SchemaColumn
	// Where, unless empty, is a condition on the rows to copy.
	Where string
	// Lock makes each chunk lock the rows that it reads, so that what changes
	// them meanwhile comes before or after it.
	Lock bool
	// Replace first deletes from Into what lies in the chunk's range of keys.
	Replace bool
	// Chunk is the number of rows of one; 0 is 20,000, or fewer so that
	// one takes a fraction of a second.
	Chunk int
	// After is where to go on: the last key copied, as Done was given it. Nil
	// begins at the start.
	After []string
	// Done notes, in the chunk's transaction, the last key and the number of
	// rows copied so far by this call.
	Done func(ctx context.Context, tx state.Exec, last []string, rows int64) error
	// Limits of the server's load; the zero value waits for nothing.
	Limits Limits
	// Paused is told why the copy waits, and "" when it goes on.
	Paused func(why string)
}

// Limits are how busy a server may be while something copies.
type Limits struct {
	Running    int           // statements that run at a time; 0 is any number
	ReplicaLag time.Duration // 0 is any
}

// Run copies and returns the number of rows.
func (c *Copy) Run(ctx context.Context) (int64, error) { return 0, errors.New("not written yet") }
