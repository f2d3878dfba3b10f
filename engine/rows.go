package engine

import (
	"context"
	"database/sql"
	"time"
)

// A Queryer runs queries: a *sql.DB, *sql.Conn or *sql.Tx of Keeper.SQL.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Each hands every row of a query to scan, and stops at scan's first error,
// which it returns as it is. With args, the query's placeholders are question
// marks: see Keeper.Bind. Errors of the server are marked with their class.
func Each(ctx context.Context, db Keeper, x Queryer, scan func(*sql.Rows) error, query string, args ...any) error {
	if len(args) > 0 {
		query = db.Bind(query)
	}
	rows, err := x.QueryContext(ctx, query, args...)
	if err != nil {
		return db.Classify(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return db.Classify(rows.Err())
}

// Sleep waits for a time, or until ctx ends, whose error it returns then.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
