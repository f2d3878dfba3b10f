package engine

import (
	"context"
	"fmt"
)

// ProbeTable is the scratch table on which privileges are tried.
const ProbeTable = "rowmill_probe"

// Needs are what an account has to be allowed besides creating, changing and
// dropping tables and views, and reading and writing rows.
type Needs struct {
	// Triggers are needed by exact roll-ups, late = "reject", and adoption.
	Triggers bool
	// Locks are those of whole tables, which an adoption takes.
	Locks bool
	// Temporary tables are needed to compute roll-ups.
	Temporary bool
}

// ProbeWords are those of an engine with privileges.
type ProbeWords interface {
	// Probe returns statements that do, with a table called ProbeTable, what the
	// needs say, and leave nothing; undo removes what is left of them after
	// one has failed. All run on one connection.
	Probe(n Needs) (statements, undo []string)
}

// Probe tries whether the account of db has the privileges that are needed, so
// that a change doesn't fail in its middle for the lack of one.
func Probe(ctx context.Context, db Keeper, n Needs) error {
	words, ok := db.Words().(ProbeWords)
	if !ok {
		return nil
	}
	c, err := db.SQL().Conn(ctx)
	if err != nil {
		return db.Classify(err)
	}
	defer c.Close()
	statements, undo := words.Probe(n)
	for _, q := range statements {
		if _, err := c.ExecContext(ctx, q); err != nil {
			err = fmt.Errorf("check the account's privileges with the scratch table %s: %w", ProbeTable, db.Classify(err))
			for _, q := range undo {
				// What was not made, or may not be dropped, says what failed.
				_, _ = c.ExecContext(context.WithoutCancel(ctx), q)
			}
			return err
		}
	}
	return nil
}
