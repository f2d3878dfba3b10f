package main

import (
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/state"
)

// A between database calls a function before the n-th transaction of a load begins.
type between struct {
	engine.Keeper
	n      int64
	begun  atomic.Int64
	before func()
}

func (b *between) Loader(ctx context.Context) (engine.Loader, error) {
	l, err := b.Keeper.Loader(ctx)
	return &betweenLoader{l, b}, err
}

type betweenLoader struct {
	engine.Loader
	db *between
}

func (l *betweenLoader) Begin(ctx context.Context) error {
	if l.db.begun.Add(1) == l.db.n {
		l.db.before()
	}
	return l.Loader.Begin(ctx)
}

// TestLoadWhileTableIsMadeAnew drops and recreates a table between two batches of a
// load whose rows have no key. No batch of that load may be committed into the new
// table, so that the next load, which starts from the beginning, inserts no row twice.
func TestLoadWhileTableIsMadeAnew(t *testing.T) {
	t.Parallel()
	onNumbered(t, func(l *loading) {
		f := loadRows(0, 100, false)
		path := l.write("day.csv", f.text)
		db := &between{Keeper: l.db, n: 3, before: func() {
			l.drop()
			mustPass(l.T, rowmill(l.Context(), "apply", l.file, "--clock", filepath.Join(l.dir, "clock"), "--yes"))
		}}
		o := l.options(db)
		o.Rows, o.Writers = 20, 1
		_, err := ingest.File(l.Context(), o, path)
		if !errors.Is(err, state.ErrForgotten) || hintOf(err) == "" {
			l.Errorf("the load into the former table ends in %v, hint %q", err, hintOf(err))
		}
		if n := len(l.rows()); n != 0 {
			l.Errorf("it has committed %d rows into the new table", n)
		}
		if got, _ := l.load(exitDone, path); got[0].Inserted != 100 || got[0].Before != 0 {
			l.Errorf("loaded into the new table: %+v", got[0])
		}
		l.check("in the new table", "day.csv.bad.jsonl", f)
	})
}
