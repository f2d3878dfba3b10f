// Package rollup keeps the roll-ups of a rolling table: tables of one row for
// each bucket of time and group, computed from the raw rows, or from a finer
// roll-up, and right again after late rows.
package rollup

import (
	"context"
	"errors"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/maintain/state"
	"github.com/rowmill/rowmill/rolling"
)

// A Set is the roll-ups of one rolling table.
type Set struct {
	db       engine.Keeper
	st       *state.Store
	table    *engine.Table
	schema   *engine.Schema
	declared *rolling.Declaration
}

// A Level is how one roll-up stands.
type Level struct {
	Name  string
	Every rolling.Grid
	// Watermark is the position up to which buckets are computed; Begun is false
	// while none is.
	Watermark int64
	Begun     bool
	// SealedTo is the position below which buckets are never computed again.
	SealedTo int64
	// Stale is the number of buckets below the watermark to be computed again.
	Stale int64
	// Rows is the number of rows of its table.
	Rows int64
	// Updated is when it was last refreshed.
	Updated time.Time
}

var errTodo = errors.New("roll-ups: not written yet")

// New checks the declaration's roll-ups against the table's schema.
func New(db engine.Keeper, st *state.Store, t *engine.Table, s *engine.Schema, d *rolling.Declaration) (*Set, error) {
	return &Set{db, st, t, s, d}, nil
}

// Statements returns what Create would run on a database that has none of it.
func (s *Set) Statements() ([]string, error) { return nil, nil }

// Create makes what is missing of the roll-ups' tables, views and triggers. It
// is to be called again after periods were created, replaced or dropped.
func (s *Set) Create(ctx context.Context) error {
	if len(s.declared.Rollups) == 0 {
		return nil
	}
	return errTodo
}

// Refresh computes what is stale and all whole buckets that end at or before
// upTo, and returns how many buckets it computed.
func (s *Set) Refresh(ctx context.Context, upTo int64) (int, error) {
	if len(s.declared.Rollups) == 0 {
		return 0, nil
	}
	return 0, errTodo
}

// Check compares the rows of each bucket in p with what the roll-ups have
// counted, and marks buckets that differ stale.
func (s *Set) Check(ctx context.Context, p rolling.Period) (stale int, err error) { return 0, nil }

// Proof returns the number of raw rows of a period, and why they must not be
// dropped yet, or "".
func (s *Set) Proof(ctx context.Context, p rolling.Period) (rows int64, why string, err error) {
	return 0, "roll-ups are not written yet", nil
}

// Seal notes, in the transaction of x, that raw rows below upTo are going:
// buckets with any of them are never computed again.
func (s *Set) Seal(ctx context.Context, x state.Exec, upTo int64) error { return nil }

// Unseal notes, in the transaction of x, that raw rows from a position on are
// there, all of them: those buckets may be computed again.
func (s *Set) Unseal(ctx context.Context, x state.Exec, from int64) error { return nil }

// RefreshRange computes all buckets in a range anew.
func (s *Set) RefreshRange(ctx context.Context, from, to int64) (int, error) { return 0, errTodo }

// Expire removes the rows of levels that have passed their retention.
func (s *Set) Expire(ctx context.Context, now int64) error { return nil }

// Status returns how the levels stand, in the declaration's order.
func (s *Set) Status(ctx context.Context, now int64) ([]Level, error) { return nil, nil }

// Undeclared returns the roll-ups of the table that are no longer declared:
// they are left alone.
func (s *Set) Undeclared(ctx context.Context) ([]string, error) { return nil, nil }
