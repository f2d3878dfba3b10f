package engine

import (
	"context"
	"fmt"
)

// ProbeTable is the scratch table on which privileges are tested.
const ProbeTable = "rowmill_probe"

// Needs are the privileges that an account must have in addition to creating,
// changing and dropping tables and views, and reading and writing rows.
type Needs struct {
	// Triggers are needed by exact roll-ups, late = "reject", and adoption.
	Triggers bool
	// Locks are locks on whole tables, which an adoption takes.
	Locks bool
	// Temporary tables are needed to compute roll-ups.
	Temporary bool
}

// ProbeWords are the Words of an engine with privileges.
type ProbeWords interface {
	// Probe returns statements that use the needed privileges on a table called
	// ProbeTable, and leave nothing behind; undo removes what remains after one has
	// failed. All run on one connection.
	Probe(n Needs) (statements, undo []string)
}

// Probe tests whether the account of db has the necessary privileges, so that a
// change doesn't fail halfway because one is missing.
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
				// An undo statement may fail because its object was not created or
				// can't be dropped: the first error is returned.
				_, _ = c.ExecContext(context.WithoutCancel(ctx), q)
			}
			return err
		}
	}
	return nil
}
