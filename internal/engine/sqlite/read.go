package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// A reader implements engine.Reader, for queries in pieces.
type reader struct {
	*database
	facts schemaFacts
}

// ReadSession implements engine.Reader. A client's State is empty: none of the pragmas that clients
// rely on changes an answer.
func (db *reader) ReadSession(ctx context.Context, st engine.State) (*engine.Session, error) {
	words := sessionWords()
	words.Text, words.Describe = textResult, describe
	return engine.OpenSession(ctx, db, db.reads, words, st)
}

func (db *reader) ReadState(context.Context, *engine.Session) (engine.State, error) {
	return engine.State{}, nil
}

func (db *reader) StateRefusal(engine.State) string { return "" }

// Freeze implements engine.Reader. It can freeze nothing: the current time is the machine's.
func (db *reader) Freeze(context.Context, *engine.Session) (engine.State, error) { return nil, nil }

func (db *reader) Cores() int { return runtime.NumCPU() }

// textBuffer is the size of the buffer for rows.
const textBuffer = 64 << 10

// textResult is engine.SessionWords.Text. It returns values as the texts to which SQLite itself
// converts them, and which SQLite's shell prints. The text of a blob is the blob's bytes.
func textResult(ctx context.Context, conn any, query string, head func([]engine.ResultColumn) error, row func([][]byte) error) (end engine.TextEnd, err error) {
	end.Warnings = -1
	h, err := handleOf(conn.(*pooled).connection)
	if err != nil {
		return end, err
	}
	s, err := only(h, query)
	if err != nil {
		return end, err
	}
	defer s.close()
	stop := newStopper()
	defer stop.free()
	watch := engine.NewWatch(stop)
	defer watch.Close()
	if err := watch.Begin(ctx); err != nil {
		return end, err
	}
	stop.attach(h)
	defer detach(h)
	names, types := s.columns()
	if len(names) > 0 {
		if err := head(columnsOf(names, types)); err != nil {
			return end, err
		}
	}
	values := make([][]byte, len(names))
	buf, state := make([]byte, textBuffer), int32(0)
	for {
		n := s.texts(buf, &state)
		if n < 0 {
			buf = make([]byte, -n)
			continue
		}
		for at := 0; at < n; {
			for i := range values {
				length := int32(binary.NativeEndian.Uint32(buf[at:]))
				at += 4
				if values[i] = nil; length >= 0 {
					values[i] = buf[at : at+int(length) : at+int(length)]
					at += int(length)
				}
			}
			if err := row(values); err != nil {
				return end, err
			}
		}
		switch state {
		case 0, codeRow:
			continue
		case codeDone:
			if len(names) == 0 {
				end.Affected = h.changed()
			}
			return end, nil
		}
		err := s.failed(state)
		if state&0xff == codeError { // caused by a value: the statement itself was prepared without an error
			err = engine.Classed(engine.ErrRefused, err)
		}
		if watch.End() {
			err = errors.Join(ctx.Err(), err)
		}
		return end, err
	}
}

// only prepares the only statement of a text.
func only(h handle, query string) (stmt, error) {
	s, rest, err := h.prepareFirst(query)
	if err != nil {
		return stmt{}, err
	}
	if s.empty() {
		return stmt{}, errors.New("there is no statement")
	}
	if rest > 0 {
		next, _, err := h.prepareFirst(query[len(query)-rest:])
		if err != nil || !next.empty() {
			if err == nil {
				next.close()
			}
			s.close()
			return stmt{}, errors.New("there are several statements")
		}
		next.close()
	}
	return s, nil
}

// describe is engine.SessionWords.Describe.
func describe(_ context.Context, conn any, query string) ([]engine.ResultColumn, error) {
	h, err := handleOf(conn.(*pooled).connection)
	if err != nil {
		return nil, err
	}
	s, err := only(h, query)
	if err != nil {
		return nil, err
	}
	defer s.close()
	names, types := s.columns()
	return columnsOf(names, types), nil
}

// columnsOf describes the columns of a result by their declared types. In SQLite each value also
// has a type of its own, which can't be told from the value's text.
func columnsOf(names, types []string) []engine.ResultColumn {
	cols := make([]engine.ResultColumn, len(names))
	for i, name := range names {
		cols[i] = engine.ResultColumn{Name: name, Native: strings.ToUpper(types[i]), Class: engine.ClassOther}
	}
	return cols
}

// ExplainQuery implements engine.Reader. SQLite reads all tables of a rolling table's view.
func (db *reader) ExplainQuery(ctx context.Context, s *engine.Session, query string) (*engine.QueryPlan, error) {
	plan := &engine.QueryPlan{Parallel: 1, Rows: -1}
	version, _, err := schemaVersion(ctx, s)
	if err != nil || db.facts.described(version, query) != nil { // it has been prepared before
		return plan, err
	}
	err = s.Text(ctx, "EXPLAIN QUERY PLAN "+query, nil, func([][]byte) error { return nil })
	return plan, err
}

// snapshotTries limits how often the sessions begin their transactions. If another connection
// writes while they begin, they begin again.
const snapshotTries = 20

// OneSnapshot implements engine.Reader. A transaction sees what is committed at its first read. All
// sessions see the same if nothing was committed while they began; a further connection checks
// that. If something was committed in each try, and lock is set, the sessions begin under a lock on
// the file. Tables need no locks: the snapshot has their definitions.
func (db *reader) OneSnapshot(ctx context.Context, sessions []*engine.Session, _ []string, lock bool) (proof string, err error) {
	rollback := func() error {
		var errs []error
		for _, s := range sessions {
			errs = append(errs, s.Rollback(context.WithoutCancel(ctx)))
		}
		return errors.Join(errs...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, rollback())
		}
	}()
	begin := func() error {
		for _, s := range sessions {
			if err := s.Begin(ctx, engine.Transaction{ReadOnly: true}); err != nil {
				return err
			}
			if err := s.Text(ctx, "SELECT 1 FROM sqlite_schema LIMIT 1", nil, func([][]byte) error { return nil }); err != nil {
				return err
			}
		}
		return nil
	}
	if len(sessions) == 1 {
		return "one session reads all rows", begin()
	}
	monitor, err := db.reads.Conn(ctx)
	if err != nil {
		return "", classify(err)
	}
	defer func() { err = errors.Join(err, engine.DiscardConn(db, monitor)) }()
	for try := range snapshotTries {
		if try > 0 {
			if err := rollback(); err != nil {
				return "", err
			}
		}
		before, err := version64(ctx, monitor)
		if err != nil {
			return "", err
		}
		if err := begin(); err != nil {
			return "", err
		}
		after, err := version64(ctx, monitor)
		if err != nil {
			return "", err
		}
		if before == after {
			return "nothing was committed while all sessions began", nil
		}
	}
	if !lock {
		return "", nil
	}
	if err := rollback(); err != nil {
		return "", err
	}
	if _, err := monitor.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		if errors.Is(classify(err), engine.ErrLockTimeout) {
			return "", begin()
		}
		return "", classify(err)
	}
	failed := begin()
	_, err = monitor.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	return "all sessions began while the file was locked against writes", errors.Join(failed, classify(err))
}

// version64 returns a number that changes with each commit of any other connection.
func version64(ctx context.Context, c *sql.Conn) (v int64, err error) {
	return v, classify(c.QueryRowContext(ctx, "PRAGMA data_version").Scan(&v))
}

var _ driver.Conn = (*pooled)(nil)
