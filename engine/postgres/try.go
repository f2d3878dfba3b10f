package postgres

import (
	"context"

	"github.com/rowmill/rowmill/engine"
)

// Try implements engine.Keeper.
func (db *DB) Try(ctx context.Context, steps ...engine.Step) error {
	return db.apply(ctx, 1, steps)
}

// Blockers implements engine.Keeper.
func (db *DB) Blockers(ctx context.Context, t *engine.Table) ([]engine.Blocker, error) {
	return nil, nil
}
