package engine

import (
	"context"
	"database/sql"
	"math/rand/v2"
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

// Jitter is a time around d, from half of it to half as much again, so that
// those who lost the same race don't meet again.
func Jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d)
}

// Backoff is how long to wait after try, from 0: first, and double of that each
// time, at most most, with Jitter.
func Backoff(first, most time.Duration, try int) time.Duration {
	return Jitter(min(first<<min(try, 16), most))
}
