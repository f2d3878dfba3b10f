package mysql

import (
	"context"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/engine"
)

var _ engine.Limited = (*DB)(nil)

// Hidden implements engine.Limited. Everything that rowmill would like to see
// and an account may not be shown takes the privilege PROCESS.
func (db *DB) Hidden(ctx context.Context) ([]engine.Hidden, error) {
	if db.dialect.rocksdb() {
		return nil, nil // it has views of its own, for which no privilege is asked
	}
	rows, err := db.pool.QueryContext(ctx, db.dialect.tablespaces("DATABASE()", "rowmill_tables"))
	if err == nil {
		for rows.Next() {
		}
		if err = rows.Err(); err == nil {
			err = rows.Close()
		}
	}
	if err == nil {
		return nil, nil
	}
	if !missing(err) {
		return nil, fmt.Errorf("find out what the account may see: %w", classify(err))
	}
	var user string
	if err := db.pool.QueryRowContext(ctx, "SELECT CURRENT_USER()").Scan(&user); err != nil {
		return nil, fmt.Errorf("find out what the account may see: %w", classify(err))
	}
	return []engine.Hidden{{
		What:  "what periods take on disk, their sizes are the server's estimates; transactions of other accounts, one of which may hold a lock",
		Grant: "GRANT PROCESS ON *.* TO " + account(user),
	}}, nil
}

// account quotes what CURRENT_USER() returns, for a GRANT.
func account(current string) string {
	i := strings.LastIndexByte(current, '@')
	if i < 0 {
		return quoteText(current)
	}
	return quoteText(current[:i]) + "@" + quoteText(current[i+1:])
}
