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
		return nil, fmt.Errorf("find out what the account may see: %w", classify(err))
	}
	if sees {
		return nil, nil
	}
	return []engine.Hidden{{
		What:  "how old transactions of other accounts are and what they run, one of which may hold a lock",
		Grant: "GRANT pg_read_all_stats TO " + db.dialect.Quote(user),
	}}, nil
}
