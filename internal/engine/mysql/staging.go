package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// A staging fills a table that has only its primary key, by LOAD DATA. Then it adds the other
// indexes in one statement, which sorts their entries. It doesn't use MariaDB's bulk path for empty
// tables (unique_checks and foreign_key_checks off), which needs all rows in one transaction.
type staging struct {
	engine.Link[*conn]
	db       *server
	enc      encoder
	loadable loadable
	source   source
	buf      []byte
	indexes  string // the statement that adds the other indexes; "": none
	open     bool   // a transaction is open
	sent     int    // bytes in the open transaction, roughly
	done     engine.Staged
}

// commitBytes is the size at which a transaction of staged rows is committed. The commit takes
// little time compared with the inserts, and a rollback doesn't take long.
const commitBytes = 16 << 20

var _ engine.Stager = (*DB)(nil)

func (db *server) Stage(ctx context.Context, t *engine.Table, o engine.StageOptions) (engine.Staging, error) {
	return engine.Stage(ctx, db, db.catalog(), t, o, func(s *engine.Schema) (engine.StagingConn, error) {
		return db.stage(ctx, t, o, s)
	})
}

func (db *server) stage(ctx context.Context, t *engine.Table, o engine.StageOptions, schema *engine.Schema) (*staging, error) {
	if err := db.dialect.checkName(o.Name); err != nil {
		return nil, err
	}
	create, err := db.likePeriod(ctx, db.pool, t, o.Name)
	if err != nil {
		return nil, err
	}
	s := &staging{db: db, enc: newEncoder(db.dialect, o.Table())}
	if strings.EqualFold(schema.Options["engine"], "InnoDB") {
		if create, s.indexes = laterIndexes(create, schema, o.Skip); o.Bare {
			s.indexes = ""
		}
	}
	s.Dial = func(ctx context.Context) (*conn, error) { return db.dialWith(ctx, loading, (*conn).keepWarnings) }
	if err := s.Connect(ctx); err != nil {
		return nil, err
	}
	s.source.open()
	err = s.Do(ctx, func() (err error) {
		s.enc.warnings = s.Conn.warnings
		statements := append([]string{"DROP TABLE IF EXISTS " + db.dialect.Quote(o.Name), create}, db.dialect.words().compress(o.Name, o.Storage)...)
		for _, q := range statements {
			if _, err := s.Conn.run(q); err != nil {
				return fmt.Errorf("%s: %w", engine.FirstWords(q), classify(err))
			}
		}
		s.loadable, err = s.Conn.loadable(o.Name, o.Columns)
		return classify(err)
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// indexLine matches the line of a secondary index in SHOW CREATE TABLE, if the list of its columns
// begins with a quoted name.
var indexLine = regexp.MustCompile("^  (UNIQUE )?KEY `(?:[^`]|``)*` \\(`((?:[^`]|``)*)`")

// laterIndexes removes the secondary indexes from the result of SHOW CREATE TABLE, and returns the
// statement that adds them. It keeps unique indexes if rows must be skipped, and an index that an
// AUTO_INCREMENT column needs.
func laterIndexes(create string, schema *engine.Schema, skip bool) (without, add string) {
	lines := strings.Split(create, "\n")
	kept := lines[:1:1]
	var indexes []string
	for _, line := range lines[1:] {
		m := indexLine.FindStringSubmatch(line)
		if m == nil || skip && m[1] != "" {
			kept = append(kept, line)
			continue
		}
		if c := schema.Find(strings.ReplaceAll(m[2], "``", "`")); c == nil || c.Auto {
			kept = append(kept, line)
			continue
		}
		indexes = append(indexes, " ADD"+strings.TrimSuffix(line[1:], ","))
	}
	if len(indexes) == 0 {
		return create, ""
	}
	for i := len(kept) - 2; i > 0; i-- { // the last definition has no comma
		if strings.HasPrefix(kept[i+1], ")") {
			kept[i] = strings.TrimSuffix(kept[i], ",")
			break
		}
	}
	head, _, _ := strings.Cut(strings.TrimPrefix(create, "CREATE TABLE "), " (\n")
	return strings.Join(kept, "\n"), "ALTER TABLE " + head + strings.Join(indexes, ",")
}

func (s *staging) Close() error {
	s.Drop()
	s.source.close()
	return nil
}

func (s *staging) Write(ctx context.Context, b *engine.Batch) error {
	return s.Do(ctx, func() error { return classify(s.write(b)) })
}

func (s *staging) write(b *engine.Batch) error {
	rows := b.Rows()
	for from := 0; from < rows; {
		if !s.open {
			if err := s.Conn.runAll(beginStatement); err != nil {
				return err
			}
			s.open, s.sent = true, 0
		}
		to, affected, skipped, err := s.send(b, from, rows)
		if err != nil {
			return err
		}
		s.done.Rows += affected
		s.done.Skipped += skipped
		from = to
		if s.sent > commitBytes {
			if err := s.commit(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *staging) commit() error {
	s.open = false
	return s.Conn.runAll(commitStatement)
}

// send sends one statement with rows from row from on, and returns the row after its last.
func (s *staging) send(b *engine.Batch, from, rows int) (to int, affected, skipped int64, err error) {
	to = from + min(rows-from, s.enc.rowLimit())
	if s.loadable.fits(b, from, to) {
		affected, err = s.source.load(s.Conn, &s.enc, b, from, to)
		if err == nil {
			s.sent += s.source.stream.sent
			skipped, err = s.Conn.loaded(to-from, affected, s.enc.ignore)
			return to, affected, skipped, err
		}
		if !errors.Is(classify(err), engine.ErrUnsupported) {
			return to, 0, 0, err
		}
		s.loadable.columns = false // the server has local_infile off
	}
	limit := max(min(s.Conn.largest, s.db.maxPacket/2), 1024)
	s.buf, to = s.enc.appendInsert(append(s.buf[:0], emptyHead[:]...), b, from, to, limit)
	s.sent += len(s.buf)
	affected, err = s.Conn.send(s.buf)
	if err == nil && s.enc.ignore {
		skipped, err = s.Conn.skipped(to-from, affected)
	}
	return to, affected, skipped, err
}

// Run executes a statement as a transaction of its own.
func (s *staging) Run(ctx context.Context, statement string) (rows int64, err error) {
	err = s.Do(ctx, func() (err error) {
		if s.open {
			err = s.commit()
		}
		var done driver.Result
		if err == nil {
			done, err = s.Conn.run(statement)
		}
		if err == nil {
			rows, err = done.RowsAffected()
		}
		return classify(err)
	})
	return rows, err
}

func (s *staging) Finish(ctx context.Context) (engine.Staged, error) {
	err := s.Do(ctx, func() error {
		if s.open {
			if err := s.commit(); err != nil {
				return classify(err)
			}
		}
		if s.indexes == "" {
			return nil
		}
		_, err := s.Conn.run(s.indexes)
		return classify(err)
	})
	return s.done, err
}
