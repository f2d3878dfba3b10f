package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.Limited = (*DB)(nil)

// Hidden implements engine.Limited. Information is hidden only from accounts without PROCESS.
func (db *server) Hidden(ctx context.Context) ([]engine.Hidden, error) {
	if db.dialect.rocksdb() {
		return nil, nil // MyRocks has its own views, which need no privilege
	}
	// Newer MySQL checks the privilege only when the rows are read.
	err := engine.Each(ctx, db, db.pool, func(*sql.Rows) error { return nil }, db.dialect.files("DATABASE()", "rowmill_tables"))
	if err == nil {
		return nil, nil
	}
	if !missing(err) {
		return nil, fmt.Errorf("check the privileges of the account: %w", err)
	}
	var user string
	if err := db.pool.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&user); err != nil {
		return nil, fmt.Errorf("check the privileges of the account: %w", classify(err))
	}
	return []engine.Hidden{{
		What:  "what periods take on disk, their sizes are the server's estimates; transactions of other accounts, one of which may hold a lock; whether a partition was replaced, without which queries read no roll-up in place of rows",
		Grant: "GRANT PROCESS ON *.* TO " + account(user),
	}}, nil
}

func (db *server) Grants(ctx context.Context, _ []string, rights []engine.Right) ([]string, error) {
	var user, name string
	if err := db.pool.QueryRowContext(ctx, "SELECT CURRENT_USER(), DATABASE()").Scan(&user, &name); err != nil {
		return nil, fmt.Errorf("read the account: %w", err)
	}
	out := make([]string, len(rights))
	for i, r := range rights {
		on := "*"
		if r.Table != "" {
			on = db.dialect.Quote(r.Table)
		}
		out[i] = fmt.Sprintf("GRANT %s ON %s.%s TO %s", r.Privileges, db.dialect.Quote(name), on, account(user))
	}
	return out, nil
}

// account quotes the result of CURRENT_USER() for a GRANT.
func account(current string) string {
	i := strings.LastIndexByte(current, '@')
	if i < 0 {
		return quoteText(current)
	}
	return quoteText(current[:i]) + "@" + quoteText(current[i+1:])
}

// TriggerExists implements engine.TriggerHider. Without the privilege TRIGGER, SHOW CREATE TRIGGER
// reports that the privilege is missing if the trigger exists, else that the trigger is missing.
func (db *server) TriggerExists(ctx context.Context, name string) (bool, error) {
	rows, err := db.pool.QueryContext(ctx, "SHOW CREATE TRIGGER "+db.dialect.Quote(name))
	if err == nil {
		return true, classify(rows.Close())
	}
	var server *mysql.MySQLError
	if errors.As(err, &server) {
		switch server.Number {
		case 1360: // ER_TRG_DOES_NOT_EXIST
			return false, nil
		case 1142, 1227: // ER_TABLEACCESS_DENIED_ERROR, ER_SPECIFIC_ACCESS_DENIED_ERROR
			return true, nil
		}
	}
	return false, fmt.Errorf("look for trigger %s: %w", name, classify(err))
}

// Probe implements engine.ProbeWords. If a probe is killed, the next one drops its table.
func (d words) Probe(n engine.Needs) (statements, undo []string) {
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
