package postgres

import (
	"context"
	"fmt"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.Limited = (*DB)(nil)

// Hidden implements engine.Limited.
func (db *DB) Hidden(ctx context.Context) ([]engine.Hidden, error) {
	var sees bool
	var user string
	err := db.pool.QueryRowContext(ctx, "SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'), current_user::text").Scan(&sees, &user)
	if err != nil {
		return nil, fmt.Errorf("check the privileges of the account: %w", classify(err))
	}
	if sees {
		return nil, nil
	}
	return []engine.Hidden{{
		What:  "how old transactions of other accounts are and what they run, one of which may hold a lock",
		Grant: "GRANT pg_read_all_stats TO " + db.dialect.Quote(user),
	}}, nil
}

// Probe implements engine.ProbeWords, in a transaction that is rolled back.
func (words) Probe(n engine.Needs) (statements, undo []string) {
	const table = engine.ProbeTable
	statements = []string{
		"BEGIN",
		"CREATE TABLE " + table + " (id INTEGER NOT NULL PRIMARY KEY)",
		"CREATE VIEW " + table + "_view AS SELECT id FROM " + table,
	}
	if n.Triggers {
		statements = append(statements,
			"CREATE FUNCTION "+table+"_insert() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
			"CREATE TRIGGER "+table+"_insert BEFORE INSERT ON "+table+" FOR EACH ROW EXECUTE FUNCTION "+table+"_insert()")
	}
	if n.Locks {
		statements = append(statements, "LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE")
	}
	if n.Temporary {
		statements = append(statements, "CREATE TEMPORARY TABLE "+table+"_apart (id INTEGER NOT NULL PRIMARY KEY)")
	}
	return append(statements, "ROLLBACK"), []string{"ROLLBACK"}
}
