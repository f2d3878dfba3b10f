package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// A staging fills a table without indexes by COPY and then builds the indexes, all in one
// transaction, which begins by truncating the table. So the server may write the rows frozen and,
// with wal_level minimal, without WAL. The table is created in an earlier transaction, because
// creating it locks the rolling table until the transaction ends.
type staging struct {
	engine.Link[*wire]
	enc    encoder
	buf    []byte
	copies bool // whether rows are sent by COPY, not by INSERT
	// copy and copyBinary are the COPY statements; copyBinary is for tables whose columns all have
	// binary forms. indexes are the statements that create the indexes, the primary key first.
	copy, copyBinary string
	indexes          []string
	// unique is the statement that deletes all but the first of the rows with the same primary key.
	// It is "" if no rows are to be skipped, or if they are skipped while they are written.
	unique string
	sent   int64
	done   engine.Staged
}

var _ engine.Stager = (*DB)(nil)

func (db *server) Stage(ctx context.Context, t *engine.Table, o engine.StageOptions) (engine.Staging, error) {
	return engine.Stage(ctx, db, db.catalog(), t, o, func(s *engine.Schema) (engine.StagingConn, error) {
		return db.stage(ctx, t, o, s)
	})
}

func (db *server) stage(ctx context.Context, t *engine.Table, o engine.StageOptions, schema *engine.Schema) (*staging, error) {
	if err := checkName("a standalone table", o.Name); err != nil {
		return nil, err
	}
	d := db.dialect
	s := &staging{enc: newEncoder(d, o.Table()), copies: copies(o.Columns, schema)}
	s.copy, s.copyBinary = s.enc.copyText(", FREEZE"), strings.TrimSuffix(s.enc.copyStatement(), ")")+", FREEZE)"
	s.Dial = func(ctx context.Context) (*wire, error) {
		return db.dialWire(ctx, loadSession...)
	}
	if err := s.Connect(ctx); err != nil {
		return nil, err
	}
	statements := append([]string{"DROP TABLE IF EXISTS " + d.Quote(o.Name)}, d.createTemplate(t, o.Name, o.Storage, " EXCLUDING INDEXES")...)
	err := s.Do(ctx, func() error { return classify(s.runAll(statements...)) })
	if err == nil {
		var rows [][][]byte
		rows, err = db.query(ctx, d.missingIndexes(t, o.Name))
		for _, row := range rows {
			s.indexes = append(s.indexes, string(row[0]))
		}
	}
	begin := []string{beginStatement, "SET CONSTRAINTS ALL IMMEDIATE", "TRUNCATE " + d.Quote(o.Name)}
	if keys := len(schema.Unique) + len(schema.UniqueOther); o.Skip && (keys > 0 || len(schema.PrimaryKey) == 0) {
		// Skip rows as they come: a row skipped for one key must not use up a value of another key.
		begin = append(begin, s.indexes...)
		s.indexes, s.copies = nil, false
	} else if o.Skip {
		q := d.Quote(o.Name)
		s.unique = fmt.Sprintf("DELETE FROM %s t USING (SELECT ctid AS at, row_number() OVER (PARTITION BY %s ORDER BY ctid) AS nth FROM %s) d "+
			"WHERE t.ctid = d.at AND d.nth > 1", q, d.list(schema.PrimaryKey), q)
	}
	if o.Bare {
		s.indexes = slices.DeleteFunc(s.indexes, func(q string) bool { return !strings.Contains(q, " PRIMARY KEY ") && !strings.Contains(q, "UNIQUE") })
	}
	if err == nil {
		err = s.Do(ctx, func() error {
			err := s.runAll(begin...)
			if s.enc.forms = binaryForms(o.Columns, schema); err == nil && s.enc.forms != nil {
				var r reply
				if err = s.Conn.exchange(appendQuery(nil, s.enc.sameTypes(schema)), &r); r.came > 0 { // the table was altered a moment ago
					s.enc.forms = nil
				}
			}
			return classify(err)
		})
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// runAll executes statements in order, up to the first that fails.
func (s *staging) runAll(statements ...string) error {
	for _, q := range statements {
		if err := s.Conn.run(q); err != nil {
			return fmt.Errorf("%s: %w", engine.FirstWords(q), err)
		}
	}
	return nil
}

func (s *staging) Write(ctx context.Context, b *engine.Batch) error {
	return s.Do(ctx, func() error {
		var r reply
		if err := s.write(b, &r); err != nil {
			return classify(err)
		}
		s.sent += int64(b.Rows())
		s.done.Rows += r.rows
		return nil
	})
}

func (s *staging) write(b *engine.Batch, r *reply) error {
	s.enc.err = nil
	if s.copies && s.enc.forms != nil {
		err := s.Conn.copyRows(&s.buf, s.copyBinary, &s.enc, s.enc.copyRow(s.enc.forms, b), true, 0, b.Rows(), math.MaxInt, r)
		if !errors.Is(err, errText) {
			return err
		}
		s.enc.err, s.enc.forms = nil, nil
	}
	if s.copies {
		return s.Conn.copyRows(&s.buf, s.copy, &s.enc, s.enc.copyRow(nil, b), false, 0, b.Rows(), copyChunk, r)
	}
	for row := 0; row < b.Rows(); {
		var err error
		if s.buf, row, err = s.enc.appendMessage(s.buf[:0], b, row, b.Rows()); err != nil {
			return engine.Classed(engine.ErrRefused, err)
		}
		if err := s.Conn.exchange(s.buf, r); err != nil {
			return err
		}
	}
	return nil
}

// Run executes a statement in the staging's transaction.
func (s *staging) Run(ctx context.Context, statement string) (rows int64, err error) {
	err = s.Do(ctx, func() error {
		var r reply
		err := s.Conn.exchange(appendQuery(nil, statement), &r)
		rows = r.rows
		return classify(err)
	})
	return rows, err
}

func (s *staging) Finish(ctx context.Context) (engine.Staged, error) {
	err := s.Do(ctx, func() error {
		for _, q := range s.indexes {
			if err := s.index(q); err != nil {
				return classify(fmt.Errorf("%s: %w", engine.FirstWords(q), err))
			}
		}
		return classify(s.Conn.run(commitStatement))
	})
	s.done.Skipped = s.sent - s.done.Rows
	return s.done, err
}

// index runs q, which builds an index. If q fails because rows have the same primary key, and
// duplicates may be skipped, index deletes the surplus rows and runs q again.
func (s *staging) index(q string) error {
	if s.unique == "" || !strings.Contains(q, " PRIMARY KEY ") {
		return s.Conn.run(q)
	}
	if err := s.Conn.run(loadSavepoint); err != nil {
		return err
	}
	err := s.Conn.run(q)
	if !errors.Is(classify(err), engine.ErrDuplicateKey) {
		return err
	}
	var r reply
	err = s.runAll(loadBack)
	if err == nil {
		err = s.Conn.exchange(appendQuery(nil, s.unique), &r)
	}
	if err == nil {
		s.done.Rows -= r.rows
		err = s.Conn.run(q)
	}
	return err
}
