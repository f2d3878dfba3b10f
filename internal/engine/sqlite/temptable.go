package sqlite

import (
	"context"
	"errors"

	"github.com/rowmill/rowmill/internal/engine"
)

// MergeState implements engine.Reader.
func (db *DB) MergeState(st engine.State) engine.State { return st }

// MergeRefusal implements engine.Reader.
func (db *DB) MergeRefusal() string {
	return "its partial results would be merged in a temporary table, and the texts of values don't tell their types"
}

// TempTable implements engine.Reader: a value of SQLite has a type of its own, which isn't in its text, and a column made from a query
// has no collation.
func (db *DB) TempTable(context.Context, *engine.Session, string, string, []engine.ResultColumn) (*engine.TempTable, error) {
	return nil, engine.Classed(engine.ErrUnsupported, errors.New("create a temporary table: the texts of values don't have their types"))
}
