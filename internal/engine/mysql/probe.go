package mysql

import "github.com/rowmill/rowmill/internal/engine"

// Probe implements engine.ProbeWords. A process that is killed during the probe
// leaves the scratch table, which the next probe drops.
func (d dialect) Probe(n engine.Needs) (statements, undo []string) {
	const table, view = engine.ProbeTable, engine.ProbeTable + "_view"
	// Another process may be using the same name.
	const lock, unlock = "DO GET_LOCK('" + table + "', 60)", "DO RELEASE_LOCK('" + table + "')"
	drop := []string{"DROP VIEW IF EXISTS " + view, "DROP TABLE IF EXISTS " + table}
	statements = append([]string{lock}, drop...)
	statements = append(statements,
		"CREATE TABLE "+table+" (id INT NOT NULL PRIMARY KEY)",
		"ALTER TABLE "+table+" ADD COLUMN n INT, ADD KEY n (n)",
		"CREATE VIEW "+view+" AS SELECT id FROM "+table,
	)
	if n.Triggers {
		statements = append(statements, "CREATE TRIGGER "+table+"_insert BEFORE INSERT ON "+table+" FOR EACH ROW SET NEW.n = 1")
	}
	statements = append(statements, "INSERT INTO "+table+" (id) VALUES (1)", "UPDATE "+table+" SET id = 2", "DELETE FROM "+table+" WHERE id = 2")
	if n.Locks {
		statements = append(statements, "LOCK TABLES "+table+" WRITE", "UNLOCK TABLES")
	}
	if n.Temporary {
		statements = append(statements, "CREATE TEMPORARY TABLE "+table+"_apart (id INT NOT NULL PRIMARY KEY)", "DROP TEMPORARY TABLE "+table+"_apart")
	}
	return append(append(statements, drop...), unlock), append(append([]string{"UNLOCK TABLES"}, drop...), unlock)
}
