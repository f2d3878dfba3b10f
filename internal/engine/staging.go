package engine

import "context"

// A Staging is a standalone table that is filled on the server's fastest path and then
// becomes a period (Attach, Replace). Nobody else sees it until then. It must not be used
// by several goroutines at once.
//
// An implementation may leave indexes out until Finish, and may keep all rows in one
// transaction. After any error except that of Close, the table must be dropped.
type Staging interface {
	// Write appends the rows of b, whose columns are those of StageOptions. Rows in the
	// order of the primary key are the fastest.
	Write(ctx context.Context, b *Batch) error
	// Finish commits the rows, and builds the indexes and constraints that a period has.
	// Without StageOptions.Skip, two rows with one key, by the server's comparison, are
	// ErrDuplicateKey. A value that the server refuses or would change is ErrRefused.
	Finish(ctx context.Context) (Staged, error)
	// Close closes the connection, in any case.
	Close() error
}

// Staged is the result of a Staging.
type Staged struct {
	Rows int64 // in the table
	// Skipped rows have the key of a row that was written before.
	Skipped int64
}

// StageOptions describe a Staging.
type StageOptions struct {
	// Name is the name of the standalone table. An existing table of that name is
	// dropped: it was left by an interrupted load.
	Name string
	// Columns are those that rows have, in order; the others get their defaults.
	Columns []Column
	// Skip keeps the first of several rows with one key, at the cost of speed.
	Skip bool
	Storage
}

// A Stager is a Keeper that has stagings.
type Stager interface {
	Keeper
	// Stage creates the standalone table for a period of t, and opens a connection of
	// its own to fill it.
	Stage(ctx context.Context, t *Table, o StageOptions) (Staging, error)
}
