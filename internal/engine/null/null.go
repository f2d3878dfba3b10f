// Package null is an engine that counts rows and stores nothing. A benchmark
// against it measures the maximum rate at which rows can be generated.
package null

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// DB is an open null target.
type DB struct {
	engine.DB // that of a dry run, for methods that null doesn't define
	rows      atomic.Int64

	mu    sync.Mutex
	parts map[string][]rolling.Partition // by table; has a key for every created table
}

// Open returns the null engine. The target must have no host, path or options.
func Open(t engine.Target) (*DB, error) {
	if t.Path != "" || t.Host != "" {
		return nil, fmt.Errorf("target %s: the null engine takes no path and no host", t)
	}
	if err := t.Options(); err != nil {
		return nil, err
	}
	caps := engine.Capabilities{
		Methods:  []engine.Method{engine.Multi, engine.Single, engine.Prepared, engine.Load},
		Rolling:  true,
		Gaps:     true,
		Embedded: true,
	}
	dry := engine.Dry(engine.Info{Engine: "null", Version: "1", Target: "null:"}, caps, dialect{})
	return &DB{DB: dry, parts: map[string][]rolling.Partition{}}, nil
}

func (db *DB) Catalog() engine.Catalog { return catalog{db} }

// Apply implements engine.DB. It records tables and partitions.
func (db *DB) Apply(ctx context.Context, steps ...engine.Step) error {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, s := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		switch s := s.(type) {
		case engine.CreateTable:
			if err := s.Table.Validate(); err != nil {
				return err
			}
			if s.Table.Rolling() && len(s.Partitions) == 0 {
				return fmt.Errorf("create table %s: a rolling table needs a first partition", s.Table.Name)
			}
			if _, ok := db.parts[s.Table.Name]; ok {
				return engine.Classed(engine.ErrTableExists, fmt.Errorf("create table %s: it exists", s.Table.Name))
			}
			db.parts[s.Table.Name] = slices.Clone(s.Partitions)
		case engine.CreateIndexes:
			if err := s.Validate(); err != nil {
				return err
			}
			if err := db.there("create indexes of", s.Table); err != nil {
				return err
			}
		case engine.DropTable:
			delete(db.parts, s.Table.Name)
		case engine.CreatePartitions:
			if err := db.there("create partitions of", s.Table); err != nil {
				return err
			}
			db.parts[s.Table.Name] = append(db.parts[s.Table.Name], s.New...)
		case engine.DropPartition:
			if len(db.parts[s.Table.Name]) == 1 {
				return fmt.Errorf("drop partition %s of %s: it is the only partition", s.Drop.Name, s.Table.Name)
			}
			db.parts[s.Table.Name] = slices.DeleteFunc(db.parts[s.Table.Name], func(p rolling.Partition) bool { return p.Name == s.Drop.Name })
		}
	}
	return nil
}

// there returns an error if a table doesn't exist; the caller holds db.mu.
func (db *DB) there(what string, t *engine.Table) error {
	if _, ok := db.parts[t.Name]; !ok {
		return engine.Classed(engine.ErrNoTable, fmt.Errorf("%s %s: no such table", what, t.Name))
	}
	return nil
}

func (db *DB) Writer(ctx context.Context, t *engine.Table, m engine.Method) (engine.Writer, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	if !slices.Contains(db.Capabilities().Methods, m) {
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("null: no insert method %q", m))
	}
	return &writer{rows: &db.rows}, ctx.Err()
}

func (db *DB) Querier(ctx context.Context) (engine.Querier, error) {
	return &querier{valid: map[any]bool{}}, ctx.Err()
}

// Settle implements engine.DB. It does nothing.
func (db *DB) Settle(ctx context.Context, _ engine.Settle) ([]string, error) { return nil, ctx.Err() }

// Scan implements engine.DB. It fails, because the engine stores no rows.
func (db *DB) Scan(context.Context, *engine.Table, *rolling.Partition, func(*engine.Batch) error) error {
	return engine.Classed(engine.ErrUnsupported, fmt.Errorf("scan: the null engine stores nothing"))
}

func (db *DB) Counters(context.Context, ...*engine.Table) (engine.Counters, error) {
	return counters{db}, nil
}

type writer struct{ rows *atomic.Int64 }

func (w *writer) Write(ctx context.Context, b *engine.Batch) (engine.Ack, error) {
	if err := ctx.Err(); err != nil {
		return engine.Ack{}, err
	}
	n := int64(b.Rows())
	w.rows.Add(n)
	return engine.Ack{Rows: n}, nil
}

func (w *writer) Reset(context.Context) error { return nil }
func (w *writer) Close() error                { return nil }

// A querier finds nothing and removes nothing.
type querier struct{ valid map[any]bool }

// check validates each Find or Delete once, as engines with prepared statements do.
func (q *querier) check(s interface{ Validate() error }) error {
	if q.valid[s] {
		return nil
	}
	err := s.Validate()
	q.valid[s] = err == nil
	return err
}

func (q *querier) Find(ctx context.Context, f *engine.Find, values []engine.Value) (int, error) {
	err := q.check(f)
	if err == nil {
		err = f.Check(values)
	}
	return 0, cmp.Or(err, ctx.Err())
}

func (q *querier) Delete(ctx context.Context, d *engine.Delete, _, _ int64) (int64, error) {
	return 0, cmp.Or(q.check(d), ctx.Err())
}

func (q *querier) Reset(context.Context) error { return nil }
func (q *querier) Close() error                { return nil }

type counters struct{ db *DB }

func (c counters) Describe() []engine.Counter {
	return []engine.Counter{{Name: engine.CounterRows, Unit: "rows", Cumulative: true, Help: "rows accepted"}}
}

func (c counters) Sample(_ context.Context, dst []float64) error {
	dst[0] = float64(c.db.rows.Load())
	return nil
}

func (c counters) Close() error { return nil }

type catalog struct{ db *DB }

func (c catalog) Exists(_ context.Context, t *engine.Table) (bool, error) {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	_, ok := c.db.parts[t.Name]
	return ok, nil
}

func (c catalog) Partitions(_ context.Context, t *engine.Table) ([]rolling.Partition, error) {
	c.db.mu.Lock()
	defer c.db.mu.Unlock()
	return slices.Clone(c.db.parts[t.Name]), c.db.there("table", t)
}

func (c catalog) Sizes(context.Context, *engine.Table) (engine.Sizes, error) {
	return engine.Sizes{}, nil
}

func (c catalog) Settings(context.Context) (map[string]string, error) {
	return map[string]string{}, nil
}

// dialect renders steps as SQL comments.
type dialect struct{}

func (dialect) Quote(ident string) string {
	return `"` + strings.ReplaceAll(ident, `"`, `""`) + `"`
}

func (d dialect) Render(s engine.Step) ([]string, error) {
	switch s := s.(type) {
	case engine.CreateTable:
		return []string{"-- count rows of " + d.Quote(s.Table.Name)}, s.Table.Validate()
	case engine.Insert:
		return []string{fmt.Sprintf("-- count %d rows of %s", s.Batch.Rows(), d.Quote(s.Table.Name))}, nil
	case engine.Find:
		return []string{"-- find no rows of " + d.Quote(s.Table.Name)}, s.Validate()
	case engine.Delete:
		return []string{"-- delete no rows of " + d.Quote(s.Table.Name)}, s.Validate()
	}
	return nil, nil
}
