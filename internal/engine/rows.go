package engine

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"math/rand/v2"
	"time"
)

// A Queryer runs queries: a *sql.DB, *sql.Conn or *sql.Tx of Keeper.SQL.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Each passes every row to scan. It stops at scan's first error, and returns it unchanged; other
// errors get their class. With args, the placeholders are question marks: see Driver.Bind.
func Each(ctx context.Context, db Driver, x Queryer, scan func(*sql.Rows) error, query string, args ...any) error {
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

// List returns the values of a query's only column.
func List[T any](ctx context.Context, db Driver, x Queryer, query string, args ...any) ([]T, error) {
	return ListOf(ctx, db, x, func(r *sql.Rows, v *T) error { return r.Scan(v) }, query, args...)
}

// ListOf returns the values that scan reads, one from each row of a query.
func ListOf[T any](ctx context.Context, db Driver, x Queryer, scan func(*sql.Rows, *T) error, query string, args ...any) (out []T, err error) {
	err = Each(ctx, db, x, func(r *sql.Rows) error {
		var v T
		err := scan(r, &v)
		out = append(out, v)
		return err
	}, query, args...)
	return out, err
}

// EachText passes the names of the columns, and the values of every row, to fn, which must not keep
// them. NULL becomes "".
func EachText(ctx context.Context, db Driver, x Queryer, fn func(columns, row []string) error, query string, args ...any) error {
	var columns, row []string
	var values []sql.NullString
	var into []any
	return Each(ctx, db, x, func(r *sql.Rows) (err error) {
		if columns == nil {
			if columns, err = r.Columns(); err != nil {
				return err
			}
			row, values = make([]string, len(columns)), make([]sql.NullString, len(columns))
			for i := range values {
				into = append(into, &values[i])
			}
		}
		if err := r.Scan(into...); err != nil {
			return err
		}
		for i, v := range values {
			row[i] = v.String
		}
		return fn(columns, row)
	}, query, args...)
}

// EachDriverRow passes the values of each row to fn, which may not keep them, and closes the rows.
func EachDriverRow(rows driver.Rows, fn func(values []driver.Value) error) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	values := make([]driver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(values); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := fn(values); err != nil {
			return err
		}
	}
}

// Pairs returns the rows of a query as a map; each row has a name and a value.
func Pairs[V any](ctx context.Context, db Driver, x Queryer, query string, args ...any) (map[string]V, error) {
	out := map[string]V{}
	return out, Each(ctx, db, x, func(r *sql.Rows) error {
		var name string
		var v V
		err := r.Scan(&name, &v)
		out[name] = v
		return err
	}, query, args...)
}

// A Beginner begins transactions: a *sql.DB or a *sql.Conn of Keeper.SQL.
type Beginner interface {
	BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error)
}

// Committed are the options of transactions in which each statement sees the rows that are
// committed when the statement begins, and reads take no locks.
var Committed = &sql.TxOptions{Isolation: sql.LevelReadCommitted}

// InTx runs fn in a transaction, which it commits unless fn fails. Errors have their class.
func InTx(ctx context.Context, db Driver, on Beginner, o *sql.TxOptions, fn func(*sql.Tx) error) error {
	tx, err := on.BeginTx(ctx, o)
	if err != nil {
		return db.Classify(err)
	}
	if err := db.Classify(fn(tx)); err != nil {
		// A transaction that the server or the context has ended can't be rolled back.
		if undone := tx.Rollback(); undone != nil && !errors.Is(undone, sql.ErrTxDone) && !errors.Is(db.Classify(undone), ErrConnectionLost) {
			return errors.Join(err, undone)
		}
		return err
	}
	return db.Classify(tx.Commit())
}

// A Checksum is the number of rows of a set, and a checksum that doesn't depend on their order.
type Checksum struct {
	Rows int64
	Hash string
}

// ChecksumQuery returns the query for a checksum. hash is an expression such as Words.RowHash; from
// and where are the operands of FROM and WHERE.
func ChecksumQuery(hash, from, where string) string {
	return "SELECT COUNT(*), " + hash + " FROM " + from + " WHERE " + where
}

// ReadChecksum computes a checksum: see ChecksumQuery.
func ReadChecksum(ctx context.Context, db Keeper, x Exec, hash, from, where string, args ...any) (c Checksum, err error) {
	q := ChecksumQuery(hash, from, where)
	if len(args) > 0 {
		q = db.Bind(q)
	}
	err = x.QueryRowContext(ctx, q, args...).Scan(&c.Rows, &c.Hash)
	return c, About(ctx, db.Classify(err), "compute the checksum of "+from)
}

// Sleep waits for a time. If ctx ends earlier, it returns ctx's error.
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

// RetryLocks calls fn up to tries times, at least once, while a lock is not granted. In the pauses,
// the statements that have queued behind fn's request go on.
func RetryLocks(ctx context.Context, tries int, fn func() error) error {
	return Retry{First: 50 * time.Millisecond, Last: 500 * time.Millisecond, Tries: max(tries, 1)}.Do(ctx, fn)
}

// Jitter returns a random time between d/2 and 3d/2, so that two competitors don't collide again.
func Jitter(d time.Duration) time.Duration {
	return d/2 + rand.N(d)
}

// Backoff returns the pause after attempt try (from 0): first, doubled up to most, with Jitter.
func Backoff(first, most time.Duration, try int) time.Duration {
	return Jitter(min(first<<min(try, 16), most))
}

// Cached returns the value of a key in a cache, such as a cache of prepared statements. If the key
// has no value, Cached makes one. If the cache is full, which means that it has as many values as
// most says, Cached first removes one of them, and calls drop for it unless drop is nil.
func Cached[K comparable, V any](cache map[K]V, most int, key K, drop func(V) error, make func() (V, error)) (V, error) {
	if v, ok := cache[key]; ok {
		return v, nil
	}
	if len(cache) >= most {
		for k, v := range cache {
			delete(cache, k)
			if drop == nil {
				break
			}
			if err := drop(v); err != nil {
				return v, err
			}
			break
		}
	}
	v, err := make()
	if err == nil {
		cache[key] = v
	}
	return v, err
}
