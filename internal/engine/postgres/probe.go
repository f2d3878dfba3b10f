package postgres

import "github.com/rowmill/rowmill/internal/engine"

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
