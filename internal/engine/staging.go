package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// A Staging is a standalone table that is filled in the server's fastest way and then becomes a
// period (Attach, Replace). Only one goroutine at a time may use it. After any error except an
// error of Close, the table must be dropped.
//
// Nobody else sees the table. It may get all rows in one transaction, and its indexes only in
// Finish. Rows must lie within the period: Attach and Replace may check that. The rolling table's
// triggers don't run.
type Staging interface {
	// Write appends the rows of b. It is fastest in the order of the primary key.
	Write(ctx context.Context, b *Batch) error
	// Run executes a statement that copies rows into the table, or uses its rows to change another
	// table. It returns ErrUnsupported on an engine without MergeWords.
	Run(ctx context.Context, statement string) (rows int64, err error)
	// Finish commits the rows, and builds a period's indexes and constraints. If two rows have the
	// same key, Write or Finish returns ErrDuplicateKey, unless StageOptions.Skip is set. For a value
	// that the server refuses or would change, Write or Finish returns ErrRefused.
	Finish(ctx context.Context) (Staged, error)
	// Close closes the connection, also after an error.
	Close() error
}

// Staged is the result of a Staging.
type Staged struct {
	Rows int64 // in the table
	// Skipped is the number of rows whose key an earlier row has.
	Skipped int64
}

// StageOptions describe a Staging.
type StageOptions struct {
	// Name is the standalone table's name. An existing table of that name, left by an interrupted
	// load, is dropped.
	Name string
	// Columns are those for which rows have values, in order; other columns get their defaults.
	Columns []Column
	// Skip keeps the first of several rows with the same key. It makes the load slower.
	Skip bool
	// Bare omits indexes that are not unique, for a table that never becomes a period.
	Bare bool
	Storage
}

// A Stager is a Keeper that can create Stagings.
type Stager interface {
	Keeper
	// Stage creates the standalone table for a period of t, and opens a connection to fill it. It
	// returns ErrUnsupported if the server would assign values to a column that o.Columns lacks: in
	// each standalone table, the count would begin anew.
	Stage(ctx context.Context, t *Table, o StageOptions) (Staging, error)
}

// Check returns an error if rows with the columns of o can't be staged for the table t.
func (o *StageOptions) Check(t *Table, s *Schema) error {
	switch {
	case o.Name == "" || o.Name == t.Name:
		return fmt.Errorf("%q can't be the name of a standalone table for a period of %s", o.Name, t.Name)
	case len(o.Columns) == 0:
		return errors.New("the rows have no columns")
	}
	for _, c := range o.Columns {
		if have := s.Find(c.Name); have == nil {
			return fmt.Errorf("table %s has no column %s", t.Name, c.Name)
		} else if have.Generated {
			return fmt.Errorf("column %s of table %s is generated", c.Name, t.Name)
		}
	}
	for _, c := range s.Columns {
		if c.Auto && !slices.ContainsFunc(o.Columns, func(have Column) bool { return s.Find(have.Name).Name == c.Name }) {
			return Classed(ErrUnsupported, fmt.Errorf("the server assigns the values of column %s of table %s", c.Name, t.Name))
		}
	}
	return nil
}

// Table describes the standalone table for inserts.
func (o *StageOptions) Table() *Table {
	return &Table{Name: o.Name, Columns: o.Columns, Ignore: o.Skip}
}

// A StagingConn is the part of a Staging that differs between engines. It may also have Run.
type StagingConn interface {
	Write(ctx context.Context, b *Batch) error
	Finish(ctx context.Context) (Staged, error)
	Close() error
}

// Stage implements Stager.Stage. c describes t; create creates the standalone table, and the
// connection that fills it. Once a call of the Staging has failed, the Staging makes no more calls
// of the connection.
func Stage(ctx context.Context, db Driver, c interface {
	Describe(ctx context.Context, name string) (*Schema, error)
}, t *Table, o StageOptions, create func(*Schema) (StagingConn, error)) (Staging, error) {
	s, err := c.Describe(ctx, t.Name)
	if err == nil {
		err = o.Check(t, s)
	}
	var conn StagingConn
	if err == nil {
		conn, err = create(s)
	}
	if err != nil {
		return nil, About(ctx, err, "create table "+o.Name)
	}
	return &staging{db: db, table: o.Table(), conn: conn}, nil
}

type staging struct {
	db    Driver
	table *Table
	conn  StagingConn
	ended error // why no call is possible any more
}

func (s *staging) call(ctx context.Context, fn func() error) error {
	if s.ended != nil {
		return fmt.Errorf("fill table %s: %w", s.table.Name, s.ended)
	}
	err := ctx.Err()
	if err == nil {
		err = s.db.Classify(fn())
	}
	if err != nil {
		s.ended = errors.New("an earlier call failed")
		if ctx.Err() != nil && !errors.Is(err, ctx.Err()) && !errors.Is(err, ErrRefused) {
			err = ctx.Err()
		}
		return About(ctx, err, "fill table "+s.table.Name)
	}
	return nil
}

func (s *staging) Write(ctx context.Context, b *Batch) error {
	return s.call(ctx, func() error {
		if err := CheckRows(s.table, b, 0, b.Rows()); err != nil || b.Rows() == 0 {
			return err
		}
		return s.conn.Write(ctx, b)
	})
}

func (s *staging) Run(ctx context.Context, statement string) (rows int64, err error) {
	err = s.call(ctx, func() (err error) {
		conn, is := s.conn.(interface {
			Run(ctx context.Context, statement string) (int64, error)
		})
		if !is {
			return Classed(ErrUnsupported, errors.New("this engine's tables are filled by rows alone"))
		}
		rows, err = conn.Run(ctx, statement)
		return err
	})
	return rows, err
}

func (s *staging) Finish(ctx context.Context) (done Staged, err error) {
	err = s.call(ctx, func() (err error) {
		done, err = s.conn.Finish(ctx)
		return err
	})
	if err != nil {
		return Staged{}, err
	}
	s.ended = errors.New("it is finished")
	return done, nil
}

func (s *staging) Close() error {
	s.ended = errors.New("it is closed")
	return s.conn.Close()
}
