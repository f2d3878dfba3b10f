package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
)

// A housekeeper creates and drops databases: see engine.Housekeeper.
type housekeeper struct{ *server }

func (db housekeeper) HasDatabase(ctx context.Context, name string) (bool, error) {
	rows, err := db.query(ctx, "SELECT datname FROM pg_database WHERE datname = "+quoteText(name))
	return len(rows) > 0, engine.About(ctx, err, "look for database "+name)
}

func (db housekeeper) CreateDatabase(ctx context.Context, name string) error {
	_, err := db.pool.ExecContext(ctx, "CREATE DATABASE "+db.dialect.Quote(name))
	return engine.About(ctx, db.Classify(err), "create database "+name)
}

// DropDatabase implements engine.Housekeeper. FORCE ends sessions that were closed a moment ago but
// are still there.
func (db housekeeper) DropDatabase(ctx context.Context, name string) error {
	_, err := db.pool.ExecContext(ctx, "DROP DATABASE IF EXISTS "+db.dialect.Quote(name)+" WITH (FORCE)")
	return engine.About(ctx, db.Classify(err), "drop database "+name)
}

// caches limit how many tables and files are open. What a connection caches of tables has no limit.
var caches = []string{"max_files_per_process", "max_locks_per_transaction", "max_connections"}

// Household implements engine.Housekeeper. The dictionary is the tables of pg_catalog.
func (db housekeeper) Household(ctx context.Context) (engine.Household, error) {
	h := engine.Household{Opened: -1, Caches: map[string]string{}}
	rows, err := db.query(ctx, "SELECT COALESCE(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r'")
	if err == nil {
		h.DictionaryBytes, err = strconv.ParseInt(string(rows[0][0]), 10, 64)
	}
	if err != nil {
		return h, fmt.Errorf("read the dictionary's size: %w", err)
	}
	rows, err = db.query(ctx, "SELECT name, current_setting(name) FROM pg_settings WHERE name IN ("+engine.QuoteList(caches, quoteText)+")")
	if err != nil {
		return h, fmt.Errorf("read what the server keeps of tables: %w", err)
	}
	for _, row := range rows {
		h.Caches[string(row[0])] = string(row[1])
	}
	return h, nil
}

// HoldTables implements engine.Housekeeper by a query of each table, because a connection keeps the
// description of each table that it has read.
func (db housekeeper) HoldTables(tables []string) []string {
	out := make([]string, len(tables))
	for i, t := range tables {
		out[i] = "SELECT COUNT(*) FROM " + db.dialect.Quote(t)
	}
	return out
}
