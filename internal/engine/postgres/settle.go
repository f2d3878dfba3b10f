package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
)

const checkpoint = "CHECKPOINT"

// insufficientPrivilege is the SQLSTATE of a missing privilege.
const insufficientPrivilege = "42501"

// settle renders Settle: VACUUM (ANALYZE) of each table, then a checkpoint.
func (d dialect) settle(s engine.Settle) []string {
	var out []string
	for _, t := range s.Tables {
		out = append(out, "VACUUM (ANALYZE) "+d.Quote(t.Name))
	}
	return append(out, checkpoint)
}

// Settle implements engine.DB. It changes no setting.
func (db *DB) Settle(ctx context.Context, s engine.Settle) (warnings []string, err error) {
	cfg := db.config.Copy()
	// VACUUM without the privilege for a table only raises a warning.
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.SeverityUnlocalized == "WARNING" && len(warnings) < mostWarnings {
			warnings = append(warnings, "settle: "+n.Message)
		}
	}
	c, err := db.connectAs(ctx, cfg, engine.Session{Maintenance: true})
	if err != nil {
		return nil, err
	}
	defer discard(c)
	for _, q := range db.dialect.settle(s) {
		err := db.retrying(ctx, db.lockTries, func() error { return db.transact(ctx, c, q) })
		var server *pgconn.PgError
		if q == checkpoint && errors.As(err, &server) && server.Code == insufficientPrivilege {
			warnings = append(warnings, fmt.Sprintf("settle: no checkpoint, dirty pages are written later: %s; GRANT pg_checkpoint lets an account do it from PostgreSQL 15 on", server.Message))
			continue
		}
		if err != nil {
			return warnings, fmt.Errorf("settle: %w", err)
		}
	}
	return warnings, nil
}
