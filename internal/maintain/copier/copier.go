// Package copier copies rows from one table into another with the same columns, in chunks along the
// primary key. Each chunk is one transaction that locks no row it reads, and also records the
// progress of the copy, so that the copy resumes after a crash without lost or duplicate rows.
// Between chunks it waits while the server's load exceeds the limits.
//
// A copy ends at the highest key that exists when Run begins. Otherwise rows appended
// during the copy could keep it running forever.
package copier

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/state"
)

// A Copy describes what to copy.
type Copy struct {
	DB engine.Keeper
	// From is an item of a FROM clause, quoted: a table, or a period as returned by
	// Words.From. Into is a quoted table name.
	From, Into string
	// Columns are the columns to copy, in order, without generated ones. Key is the primary key.
	Columns, Key []engine.SchemaColumn
	// Where, unless empty, is a condition on the rows to copy.
	Where string
	// Skip keeps the existing row of Into if a copied row has its key.
	Skip bool
	// Each, unless nil, replaces the single INSERT of a chunk. It returns statements with question
	// marks that copy the rows which satisfy the condition where; args are the condition's values.
	Each func(ctx context.Context, tx state.Exec, where string, args []any) ([]Statement, error)
	// Chunk is the number of rows per chunk. If it is 0, the number adapts, up to 20,000 rows, so
	// that a chunk takes a fraction of a second.
	Chunk int
	// After is the last key already copied, as passed to Done; nil starts at the beginning.
	After []string
	// Done records, in the chunk's transaction, the last key and the number of rows copied by this
	// call of Run.
	Done func(ctx context.Context, tx state.Exec, last []string, rows int64) error
	// Again is how often the copy, having reached the end, continues with the rows appended meanwhile.
	Again int
	// Between, unless nil, runs after each chunk, outside of any transaction. The keys that remain to
	// be copied are those between after (excluded) and until; nil means unbounded.
	Between func(ctx context.Context, after, until []string) error
	// Limits are the limits of the server's load; the zero value never waits.
	Limits Limits
	// Paused is called with the reason for each wait, and with "" when the copy continues.
	Paused func(why string)
}

// A Statement is SQL with question marks, and their values.
type Statement struct {
	Query string
	Args  []any
}

// Limits are the load above which copying pauses.
type Limits struct {
	// Running is how many statements may run on the server while copying goes on; 0 means no limit.
	Running int
	// Critical is the number of running statements at which the work ends with ErrCritical; 0 is none.
	Critical int
	// Nice is how long the work rests after each piece, as a multiple of the time that the piece took.
	// With 1, it rests half of the time.
	Nice float64
	// Lag, unless nil, returns why replicas are too far behind; "" if they aren't. It is called before
	// each piece. Piece is the time that a piece should take at most; 0 means no limit.
	Lag   func() string
	Piece time.Duration
	// Waits are called once a second. Each returns a reason to wait, "" if it has none.
	Waits []func(ctx context.Context) (why string, err error)
}

// shortest returns the time that a piece is to take, at most d.
func (l *Limits) shortest(d time.Duration) time.Duration { return min(d, cmp.Or(l.Piece, d)) }

// ErrCritical is returned once the server's load is critical: the work can go on later.
var ErrCritical = errors.New("the server's load is critical")

const (
	// chunkTime is the target duration of a chunk. It bounds how long the chunk's locks are held, and
	// how much work is repeated after a crash.
	chunkTime = 200 * time.Millisecond
	// Rows per chunk: initial, minimum, maximum.
	firstChunk, leastChunk, mostChunk = 1000, 50, 20000
	// lockTries limits the consecutive attempts at a chunk that doesn't get its locks. They take some
	// minutes, because each attempt waits two seconds.
	lockTries = 100
	// The pause between these attempts grows from firstPause to lastPause.
	firstPause, lastPause = 50 * time.Millisecond, 2 * time.Second
)

// Run copies the rows and returns their number.
func (c *Copy) Run(ctx context.Context) (int64, error) {
	rows, err := c.run(ctx)
	if err != nil {
		return rows, fmt.Errorf("copy %s into %s: %w", c.From, c.Into, err)
	}
	return rows, nil
}

func (c *Copy) run(ctx context.Context) (int64, error) {
	keys, err := engine.NewKeys(c.DB, c.Key)
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
	after, size := c.After, c.Chunk
	if size <= 0 {
		size = firstChunk
	}
	throttle := Throttle{DB: c.DB, Limits: c.Limits, Paused: c.Paused}
	for again := 0; ; {
		if err := throttle.Wait(ctx); err != nil {
			return total, err
		}
		began := time.Now()
		var last []string
		var n int64
		waited := false
		err := engine.Retry{First: firstPause, Last: lastPause, Tries: lockTries, Waiting: func(err error) error {
			if c.Chunk <= 0 {
				size = max(size/2, leastChunk)
			}
			waited = true
			c.paused("a chunk waits for locks: " + err.Error())
			return nil
		}}.Do(ctx, func() (err error) {
			began = time.Now()
			last, n, err = c.chunk(ctx, conn, keys, after, until, size, total)
			return err
		})
		if waited {
			c.paused("")
		}
		switch {
		case err != nil || last == nil && again == c.Again:
			return total, err
		case last == nil:
			again++
			if until, err = keys.Last(ctx, c.DB.SQL(), c.From, c.Where); err != nil {
				return total, err
			}
			continue
		}
		total, after = total+n, last
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
	}
}

func (c *Copy) paused(why string) {
	if c.Paused != nil {
		c.Paused(why)
	}
}

// resize returns the next chunk's number of rows, from the last chunk's size and the time it took.
func (c *Copy) resize(size int, took time.Duration) int {
	if c.Chunk > 0 {
		return c.Chunk
	}
	next := float64(size) * float64(c.Limits.shortest(chunkTime)) / float64(max(took, time.Millisecond))
	next = min(max(next, float64(size)/2), float64(size)*2)
	return min(max(int(next), leastChunk), mostChunk)
}

// chunk copies at most size rows after a key in one transaction. It returns the key of the last
// row; nil if there were no rows.
func (c *Copy) chunk(ctx context.Context, conn *sql.Conn, keys *engine.Keys, after, until []string, size int, before int64) (last []string, n int64, err error) {
	err = engine.InTx(ctx, c.DB, conn, engine.Committed, func(tx *sql.Tx) error {
		if last, err = keys.Nth(ctx, tx, c.From, c.Where, after, until, size); err != nil || last == nil {
			return err
		}
		where, args, err := keys.Range(after, last)
		if err != nil {
			return err
		}
		statements, err := c.statements(ctx, tx, where, args)
		if err != nil {
			return err
		}
		for _, s := range statements {
			r, err := tx.ExecContext(ctx, c.DB.Bind(s.Query), s.Args...)
			if err != nil {
				return fmt.Errorf("insert a chunk: %w", err)
			}
			k, err := r.RowsAffected()
			if err != nil {
				return err
			}
			n += k
		}
		if c.Done != nil {
			return c.Done(ctx, tx, last, before+n)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
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

// Insert returns the statement that copies the rows which satisfy a condition.
func (c *Copy) Insert(where string) string {
	rows := engine.CopyRows{Into: c.Into, From: c.From, Where: where, Skip: c.Skip}
	for _, col := range engine.Writable(c.Columns) {
		rows.Columns = append(rows.Columns, col.Name)
	}
	for _, k := range c.Key {
		rows.Key = append(rows.Key, k.Name)
	}
	return c.DB.Words().CopyRows(rows)
}

// A Throttle delays deferrable work while the server's load exceeds the limits. The
// zero Limits delay nothing.
type Throttle struct {
	DB     engine.Keeper
	Limits Limits
	// Paused is called with the reason for each wait, and with "" when the work continues.
	Paused func(why string)

	looked time.Time
	since  time.Time // when Wait returned last
	// pause is about how long a pause takes; 0 is defaultPause. Tests shorten it.
	pause time.Duration
}

const (
	// lookEvery is the minimum interval between queries of the load, which cost the server time.
	lookEvery    = time.Second
	defaultPause = 500 * time.Millisecond
)

// Wait returns when the server is within the limits, or ctx has ended.
func (t *Throttle) Wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	defer func() { t.since = time.Now() }()
	if t.Limits.Nice > 0 && !t.since.IsZero() {
		if err := engine.Sleep(ctx, time.Duration(t.Limits.Nice*float64(time.Since(t.since)))); err != nil {
			return err
		}
	}
	if time.Since(t.looked) < lookEvery && (t.Limits.Lag == nil || t.Limits.Lag() == "") {
		return nil
	}
	for paused := false; ; paused = true {
		why, err := t.exceeded(ctx)
		if err != nil {
			return err
		}
		if t.Paused != nil && (why != "" || paused) {
			t.Paused(why)
		}
		if why == "" {
			t.looked = time.Now()
			return nil
		}
		pause := cmp.Or(t.pause, t.Limits.shortest(defaultPause))
		if err := engine.Sleep(ctx, pause/2+engine.Jitter(pause)); err != nil {
			return err
		}
	}
}

// exceeded returns why the work has to wait; "" if it may continue.
func (t *Throttle) exceeded(ctx context.Context) (why string, err error) {
	if t.Limits.Lag != nil {
		if why := t.Limits.Lag(); why != "" {
			return why, nil
		}
	}
	for _, wait := range t.Limits.Waits {
		if why, err := wait(ctx); err != nil || why != "" {
			return why, err
		}
	}
	if t.Limits.Running == 0 && t.Limits.Critical == 0 {
		return "", nil
	}
	n, err := t.DB.Running(ctx)
	switch most := t.Limits.Critical; {
	case err != nil:
	case most > 0 && n >= most:
		err = engine.Classed(ErrCritical, fmt.Errorf("%s, and %d are critical", figure.Plural(n, "statement runs", "statements run"), most))
	case t.Limits.Running > 0 && n > t.Limits.Running:
		why = fmt.Sprintf("%s, more than %d", figure.Plural(n, "statement runs", "statements run"), t.Limits.Running)
	}
	return why, err
}
