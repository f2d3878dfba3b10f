package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// A staging fills a table on the write connection. Each batch is a transaction of its own, so that
// other writers can write between two batches.
type staging struct {
	db   *database
	t    *engine.Table
	o    engine.StageOptions
	to   *destination
	done engine.Staged
	// watch interrupts statements by stop.
	stop  *stopper
	watch *engine.Watch
}

var _ engine.Stager = (*DB)(nil)

func (db *database) Stage(ctx context.Context, t *engine.Table, o engine.StageOptions) (engine.Staging, error) {
	return engine.Stage(ctx, db, db.catalog(), t, o, func(*engine.Schema) (engine.StagingConn, error) {
		s := &staging{db: db, t: t, o: o, stop: newStopper()}
		s.watch = engine.NewWatch(s.stop)
		err := s.create(ctx, func() []string {
			return append([]string{"DROP TABLE IF EXISTS " + dialect{}.Quote(o.Name)}, s.statements(true)...)
		})
		if err != nil {
			err = errors.Join(err, s.Close())
		}
		return s, err
	})
}

// statements returns the statements that create the table, with its unique indexes if rows may be
// skipped. If table is false, it returns the statements for the other indexes, which are created
// later.
func (s *staging) statements(table bool) (out []string) {
	for i, q := range s.db.Words().CreateTemplate(s.t, s.o.Name, s.o.Storage) {
		early := i == 0 || s.o.Skip && strings.HasPrefix(strings.ToUpper(q), "CREATE UNIQUE")
		if early == table {
			out = append(out, q)
		}
	}
	return out
}

// create executes the statements that render returns, as one transaction, which the end of ctx
// interrupts. It calls render when it has the DB's lock, so that no other writer of this process
// can take the name of an index that render has chosen.
func (s *staging) create(ctx context.Context, render func() []string) error {
	if err := s.db.lock(ctx); err != nil {
		return err
	}
	defer s.db.unlock()
	statements := render()
	s.db.epoch++
	return s.db.transact(func() error {
		if err := s.watch.Begin(ctx); err != nil {
			return err
		}
		s.stop.attach(s.db.handle)
		var err error
		for _, q := range statements {
			if err = s.db.exec(q); err != nil {
				err = fmt.Errorf("%s: %w", engine.FirstWords(q), err)
				break
			}
		}
		detach(s.db.handle)
		if s.watch.End() && err != nil {
			err = ctx.Err()
		}
		return err
	})
}

func (s *staging) Write(ctx context.Context, b *engine.Batch) error {
	if err := s.db.lock(ctx); err != nil {
		return err
	}
	defer s.db.unlock()
	var n int64
	err := s.db.transact(func() (err error) {
		if s.to == nil {
			if s.to, err = s.db.destination(s.o.Table(), engine.Prepared); err != nil {
				return err
			}
		}
		n, err = s.to.insert(ctx, b, 0, b.Rows(), 0)
		return err
	})
	if err == nil {
		s.done.Rows += n
		s.done.Skipped += int64(b.Rows()) - n
	}
	return err
}

func (s *staging) Finish(ctx context.Context) (engine.Staged, error) {
	return s.done, s.create(ctx, func() []string { return s.statements(false) })
}

// Close closes the prepared statements.
func (s *staging) Close() error {
	s.db.turn <- struct{}{}
	defer s.db.unlock()
	if s.to != nil {
		s.to.forget()
		s.to = nil
	}
	if s.stop != nil {
		s.watch.Close()
		s.stop.free()
		s.stop = nil
	}
	return nil
}
