package mysql

import (
	"context"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// A housekeeper creates and drops databases: see engine.Housekeeper.
type housekeeper struct{ *server }

func (db housekeeper) HasDatabase(ctx context.Context, name string) (found bool, err error) {
	err = db.pool.QueryRowContext(ctx, "SELECT COUNT(*) > 0 FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = "+quoteText(name)).Scan(&found)
	return found, engine.About(ctx, db.Classify(err), "look for database "+name)
}

func (db housekeeper) CreateDatabase(ctx context.Context, name string) error {
	_, err := db.pool.ExecContext(ctx, "CREATE DATABASE "+db.dialect.Quote(name))
	return engine.About(ctx, db.Classify(err), "create database "+name)
}

func (db housekeeper) DropDatabase(ctx context.Context, name string) error {
	_, err := db.pool.ExecContext(ctx, "DROP DATABASE IF EXISTS "+db.dialect.Quote(name))
	return engine.About(ctx, db.Classify(err), "drop database "+name)
}

// caches limit the cached data of open tables. A server lowers them if it may open only few files.
var caches = []string{"table_definition_cache", "table_open_cache", "table_open_cache_instances", "open_files_limit", "innodb_open_files", "innodb_file_per_table", "max_connections"}

// Household implements engine.Housekeeper. It reads the size of the dictionary: on MySQL, the
// dictionary is a tablespace of its own; on MariaDB, it is in InnoDB's system tablespace, and each
// table also has a file .frm.
func (db housekeeper) Household(ctx context.Context) (h engine.Household, err error) {
	h.Opened = -1
	dictionary := "SELECT COALESCE(SUM(FILE_SIZE), 0) FROM information_schema.INNODB_TABLESPACES WHERE NAME = 'mysql'"
	if db.dialect.mariadb {
		dictionary = "SELECT COALESCE(SUM(FILE_SIZE), 0) FROM information_schema.INNODB_SYS_TABLESPACES WHERE SPACE = 0"
	}
	if err = db.Classify(db.pool.QueryRowContext(ctx, dictionary).Scan(&h.DictionaryBytes)); err != nil {
		return h, engine.Hinted(fmt.Errorf("read the dictionary's size: %w", err), "GRANT PROCESS ON *.* to the account")
	}
	if h.Caches, err = db.catalog().settings(ctx, caches); err == nil {
		var name string
		err = db.Classify(db.pool.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Opened\\_tables'").Scan(&name, &h.Opened))
	}
	return h, engine.About(ctx, err, "read what the server keeps of tables")
}

// HoldTables implements engine.Housekeeper with LOCK TABLES, because each session that locks a
// table opens the table for itself.
func (db housekeeper) HoldTables(tables []string) []string {
	list := make([]string, len(tables))
	for i, t := range tables {
		list[i] = db.dialect.Quote(t) + " READ"
	}
	return []string{"LOCK TABLES " + strings.Join(list, ", ")}
}
