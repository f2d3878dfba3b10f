// Package copier copies rows from one table into another of the same columns,
// in chunks along the primary key: each chunk is one transaction, which also
// notes how far the copy is, so that it goes on after a crash without a row
// lost or doubled. Between chunks it waits while the server has better things
// to do.
//
// A copy ends at the key that is the highest when Run begins: rows that are
// appended meanwhile would otherwise keep it going for ever.
package copier

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/state"
)

// A Copy says what to copy.
type Copy struct {
	DB engine.Keeper
	// From is what a FROM names, quoted: a table, or a period as
	// Words.From has it. Into is a table, quoted.
	From, Into string
	// Columns are those to copy, in order; generated ones are left out. Key are
	// those of the primary key.
	Columns, Key []engine.SchemaColumn
	// Where, unless empty, is a condition on the rows to copy.
	Where string
	// Lock makes each chunk lock the rows that it reads, so that what changes
	// them meanwhile comes before or after it. Without it no row is locked, and
	// a chunk is of one moment.
	Lock bool
	// Replace first deletes from Into what lies in the chunk's range of keys.
	Replace bool
	// Skip leaves rows of Into as they are where a row of their key is there.
	Skip bool
	// Each, unless nil, stands in for the one INSERT of a chunk: it returns
	// statements, with question marks, that copy the rows for which the
	// condition holds, whose values are args.
	Each func(ctx context.Context, tx state.Exec, where string, args []any) ([]Statement, error)
	// Chunk is the number of rows of one; 0 is 20,000, or fewer so that
	// one takes a fraction of a second.
	Chunk int
	// After is where to go on: the last key copied, as Done was given it. Nil
	// begins at the start.
	After []string
	// Done notes, in the chunk's transaction, the last key and the number of
	// rows copied so far by this call.
	Done func(ctx context.Context, tx state.Exec, last []string, rows int64) error
	// Again is how often the copy goes on, at its end, with the rows that were
	// appended meanwhile.
	Again int
	// Between, unless nil, runs after each chunk, outside of any transaction. It
	// is told what the copy will come to: the keys after one, up to another,
	// where nil is no bound.
	Between func(ctx context.Context, after, until []string) error
	// Limits of the server's load; the zero value waits for nothing.
	Limits Limits
	// Paused is told why the copy waits, and "" when it goes on.
	Paused func(why string)
}

// A Statement is SQL with question marks, and their values.
type Statement struct {
	Query string
	Args  []any
}

// Limits are how busy a server may be while something copies.
type Limits struct {
	Running    int           // statements that run at a time; 0 is any number
	ReplicaLag time.Duration // 0 is any
}

const (
	// chunkTime is what a chunk should take: locks that it holds, and what it
	// must do again after a crash, are bounded by it.
	chunkTime = 200 * time.Millisecond
	// Rows of a chunk: the first, the fewest, the most.
	firstChunk, leastChunk, mostChunk = 1000, 50, 20000
	// lockTries is how often in a row a chunk that doesn't get its locks is
	// tried again: some minutes, where each try waits two seconds.
	lockTries = 100
	// firstPause and lastPause are how long it waits in between.
	firstPause, lastPause = 50 * time.Millisecond, 2 * time.Second
)

// Run copies and returns the number of rows.
func (c *Copy) Run(ctx context.Context) (int64, error) {
	rows, err := c.run(ctx)
	if err != nil {
		return rows, fmt.Errorf("copy %s into %s: %w", c.From, c.Into, err)
	}
	return rows, nil
}

func (c *Copy) run(ctx context.Context) (int64, error) {
	keys, err := NewKeys(c.DB, c.Key)
	if err != nil {
		return 0, err
	}
	until, err := keys.Last(ctx, c.DB.SQL(), c.From, c.Where)
	if err != nil || until == nil {
		return 0, err
	}
	conn, err := c.DB.SQL().Conn(ctx)
	if err != nil {
		return 0, c.DB.Classify(err)
	}
	defer conn.Close()
	var total int64
	after, size, tries := c.After, c.Chunk, 0
	if size <= 0 {
		size = firstChunk
	}
	throttle := Throttle{DB: c.DB, Limits: c.Limits, Paused: c.Paused}
	for again := 0; ; {
		if err := throttle.Wait(ctx); err != nil {
			return total, err
		}
		began := time.Now()
		last, n, err := c.chunk(ctx, conn, keys, after, until, size, total)
		switch {
		case err == nil && last == nil && again == c.Again:
			return total, nil
		case err == nil && last == nil:
			again++
			if until, err = keys.Last(ctx, c.DB.SQL(), c.From, c.Where); err != nil {
				return total, err
			}
		case err == nil:
			total, after, tries = total+n, last, 0
			size = c.resize(size, time.Since(began))
			if c.Between != nil {
				bound := until
				if again < c.Again {
					bound = nil
				}
				if err := c.Between(ctx, after, bound); err != nil {
					return total, err
				}
			}
		case !errors.Is(err, engine.ErrLockTimeout) && !errors.Is(err, engine.ErrDeadlock) || ctx.Err() != nil:
			return total, err
		default:
			if tries++; tries >= lockTries {
				return total, err
			}
			if c.Chunk <= 0 {
				size = max(size/2, leastChunk)
			}
			c.paused("a chunk waits for locks: " + err.Error())
			if err := engine.Sleep(ctx, engine.Backoff(firstPause, lastPause, tries)); err != nil {
				return total, err
			}
			c.paused("")
		}
	}
}

func (c *Copy) paused(why string) {
	if c.Paused != nil {
		c.Paused(why)
	}
}

// resize returns the rows of the next chunk, when one took that long.
func (c *Copy) resize(size int, took time.Duration) int {
	if c.Chunk > 0 {
		return c.Chunk
	}
	next := float64(size) * float64(chunkTime) / float64(max(took, time.Millisecond))
	next = min(max(next, float64(size)/2), float64(size)*2)
	return min(max(int(next), leastChunk), mostChunk)
}

// chunk copies the rows after a key, at most size of them, in one transaction,
// and returns the last one's key: nil when there were none.
func (c *Copy) chunk(ctx context.Context, conn *sql.Conn, keys *Keys, after, until []string, size int, before int64) (last []string, n int64, err error) {
	// Each statement sees what is committed when it begins, and reads without
	// locks but for those that it asks for.
	var o *sql.TxOptions
	if c.DB.Info().Engine != "sqlite" {
		o = &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	tx, err := conn.BeginTx(ctx, o)
	if err != nil {
		return nil, 0, c.DB.Classify(err)
	}
	done := false
	defer func() {
		if !done {
			// A transaction that the server has ended, or the context, has
			// nothing to roll back.
			_ = tx.Rollback()
		}
		err = c.DB.Classify(err)
	}()
	last, err = keys.Nth(ctx, tx, c.From, c.Where, after, until, size)
	if err != nil || last == nil {
		return nil, 0, err
	}
	where, args, err := keys.Range(after, last)
	if err != nil {
		return nil, 0, err
	}
	statements, err := c.statements(ctx, tx, where, args)
	if err != nil {
		return nil, 0, err
	}
	if c.Replace {
		q := "DELETE FROM " + c.Into + " WHERE " + where
		if _, err := tx.ExecContext(ctx, c.DB.Bind(q), args...); err != nil {
			return nil, 0, fmt.Errorf("clear the chunk's place: %w", err)
		}
	}
	for _, s := range statements {
		r, err := tx.ExecContext(ctx, c.DB.Bind(s.Query), s.Args...)
		if err != nil {
			return nil, 0, fmt.Errorf("insert a chunk: %w", err)
		}
		k, err := r.RowsAffected()
		if err != nil {
			return nil, 0, err
		}
		n += k
	}
	if c.Done != nil {
		if err := c.Done(ctx, tx, last, before+n); err != nil {
			return nil, 0, err
		}
	}
	if err := tx.Commit(); err != nil {
		return nil, 0, fmt.Errorf("commit a chunk: %w", err)
	}
	done = true
	return last, n, nil
}

func (c *Copy) statements(ctx context.Context, tx state.Exec, where string, args []any) ([]Statement, error) {
	if c.Where != "" {
		where = "(" + where + ") AND (" + c.Where + ")"
	}
	if c.Each != nil {
		return c.Each(ctx, tx, where, args)
	}
	return []Statement{{c.Insert(where), args}}, nil
}

// Insert returns the statement that copies the rows for which a condition holds.
func (c *Copy) Insert(where string) string {
	quote := c.DB.Dialect().Quote
	var names []string
	for _, col := range c.Columns {
		if !col.Generated {
			names = append(names, quote(col.Name))
		}
	}
	list := strings.Join(names, ", ")
	verb, tail := "INSERT INTO ", ""
	name := c.DB.Info().Engine
	if c.Skip {
		switch name {
		case "postgres":
			tail = " ON CONFLICT DO NOTHING"
		case "sqlite":
			verb = "INSERT OR IGNORE INTO "
		default:
			// Not INSERT IGNORE, which bends values and drops rows that have no
			// partition.
			tail = " ON DUPLICATE KEY UPDATE " + names[0] + " = " + c.Into + "." + names[0]
		}
	}
	lock := ""
	if c.Lock && name == "postgres" {
		lock = " FOR SHARE"
	} else if c.Lock && name != "sqlite" {
		lock = " LOCK IN SHARE MODE"
	}
	into := "(" + list + ")"
	if name == "postgres" {
		into += " OVERRIDING SYSTEM VALUE" // of identity columns
	}
	q := fmt.Sprintf("%s%s %s SELECT %s FROM %s WHERE %s", verb, c.Into, into, list, c.From, where)
	order := make([]string, len(c.Key))
	for i, k := range c.Key {
		order[i] = quote(k.Name)
	}
	return q + " ORDER BY " + strings.Join(order, ", ") + lock + tail
}
