package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A querier reads on its own connection, with a page cache of the target's size, and
// deletes on the DB's write connection, taking turns with the writers. Each execution of
// a prepared statement is one call of C, and allocates nothing.
type querier struct {
	db     *database
	conn   *connection // nil when closed
	handle handle
	stop   *stopper // interrupts the connection that executes a statement
	watch  *engine.Watch
	buf    []byte
	finds  map[*engine.Find]*finder

	deletes map[*engine.Delete]*deletion
	epoch   int64 // the DB's epoch when deletes were prepared
}

// A finder is a prepared Find.
type finder struct {
	stmt  stmt
	types []engine.Type // of its values
}

// A deletion is a prepared Delete for the current periods.
type deletion struct {
	parts []rolling.Partition // none for a plain table
	stmts []stmt              // one for each of parts; one for a plain table
}

// readPragmas returns the pragmas of a target that apply to a querier: the lock
// timeout and the cache size.
func readPragmas(pragmas []string) []string { return []string{pragmas[0], pragmas[len(pragmas)-1]} }

func (db *database) Querier(ctx context.Context) (engine.Querier, error) {
	conn, err := db.connect(ctx, readPragmas(db.pragmas))
	if err != nil {
		return nil, err
	}
	h, err := handleOf(conn)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", db.path, err), conn.Close())
	}
	q := &querier{db: db, conn: conn, handle: h, stop: newStopper(), finds: map[*engine.Find]*finder{}, deletes: map[*engine.Delete]*deletion{}}
	q.watch = engine.NewWatch(q.stop)
	q.stop.attach(h)
	return q, nil
}

// Reset implements engine.Querier. It has nothing to do: there is no connection to a server that
// could be lost, and no call leaves a transaction open.
func (q *querier) Reset(ctx context.Context) error { return ctx.Err() }

func (q *querier) Close() error {
	if q.conn == nil {
		return nil
	}
	q.watch.Close()
	for _, s := range q.finds {
		s.stmt.close()
	}
	q.db.turn <- struct{}{} // the deletes belong to the write connection
	q.forget()
	q.db.unlock()
	err := classify(q.conn.Close())
	q.conn = nil
	q.stop.free()
	return err
}

// forget closes the prepared deletes.
func (q *querier) forget() {
	for _, d := range q.deletes {
		for _, s := range d.stmts {
			s.close()
		}
	}
	clear(q.deletes)
}

// errClosed is returned by a querier after Close.
var errClosed = errors.New("the querier is closed")

func (q *querier) Find(ctx context.Context, f *engine.Find, values []engine.Value) (int, error) {
	if q.conn == nil {
		return 0, errClosed
	}
	if err := q.watch.Begin(ctx); err != nil {
		return 0, err
	}
	rows, err := q.find(f, values)
	if q.watch.End() && err != nil {
		return 0, ctx.Err()
	}
	return rows, err
}

// about adds the operation and the table to an error.
func about(what string, t *engine.Table, err error) error {
	return fmt.Errorf("%s %s: %w", what, t.Name, classify(err))
}

func (q *querier) find(f *engine.Find, values []engine.Value) (int, error) {
	s, ok := q.finds[f]
	if !ok {
		text, err := dialect{}.find(*f)
		if err != nil {
			return 0, err
		}
		s = &finder{}
		if s.stmt, err = q.handle.prepare(text); err != nil {
			return 0, about("find in", f.Table, err)
		}
		for i := range f.Values() {
			s.types = append(s.types, f.Type(i))
		}
		q.finds[f] = s
	}
	if err := f.Check(values); err != nil {
		return 0, err
	}
	q.buf = q.buf[:0]
	for i, v := range values {
		q.buf = appendValue(q.buf, s.types[i], v)
	}
	rows, err := s.stmt.run(q.buf, len(values), 1)
	if err != nil {
		return 0, about("find in", f.Table, err)
	}
	return int(rows), nil
}

// appendValue appends a value in the format of encoder.appendBound.
func appendValue(dst []byte, t engine.Type, v engine.Value) []byte {
	switch t {
	case engine.Float32:
		return binary.NativeEndian.AppendUint64(append(dst, 'f'), math.Float64bits(float64(float32(v.Float))))
	case engine.Float64:
		return binary.NativeEndian.AppendUint64(append(dst, 'f'), math.Float64bits(v.Float))
	case engine.Time:
		return appendTime(dst, v.Int)
	}
	return binary.NativeEndian.AppendUint64(append(dst, 'i'), uint64(v.Int))
}

// Delete implements engine.Querier. In a rolling table, it deletes the rows of all periods in one
// transaction.
func (q *querier) Delete(ctx context.Context, d *engine.Delete, from, to int64) (int64, error) {
	if q.conn == nil {
		return 0, errClosed
	}
	if err := q.db.lock(ctx); err != nil {
		return 0, err
	}
	defer q.db.unlock()
	// Prepare outside the watch, which could interrupt the preparation.
	of, err := q.deletion(ctx, d)
	if err != nil {
		return 0, err
	}
	if err := q.watch.Begin(ctx); err != nil {
		return 0, err
	}
	q.stop.attach(q.db.handle)
	rows, err := q.delete(d, of, from, to)
	detach(q.db.handle)
	interrupted := q.watch.End()
	if err == nil {
		return rows, nil
	}
	if interrupted {
		err = ctx.Err()
	} else {
		err = about("delete from", d.Table, err)
	}
	return 0, errors.Join(err, q.db.rollback())
}

func (q *querier) delete(d *engine.Delete, of *deletion, from, to int64) (rows int64, err error) {
	t := d.Table.Columns[d.Table.Column(d.By)].Type
	q.buf = appendValue(appendValue(q.buf[:0], t, engine.Value{Int: from}), t, engine.Value{Int: to})
	if err := q.db.run(beginStatement); err != nil {
		return 0, err
	}
	for i, s := range of.stmts {
		if len(of.parts) > 0 && d.By == d.Table.By && (of.parts[i].To <= from || of.parts[i].From >= to) {
			continue
		}
		n, err := s.run(q.buf, 2, 1)
		if err != nil {
			return 0, err
		}
		rows += n
	}
	return rows, q.db.run(commitStatement)
}

// deletion returns the prepared Delete, and prepares it again after the schema has changed.
func (q *querier) deletion(ctx context.Context, d *engine.Delete) (*deletion, error) {
	if q.epoch != q.db.epoch {
		q.forget()
		q.epoch = q.db.epoch
	}
	if of, ok := q.deletes[d]; ok {
		return of, nil
	}
	if err := d.Validate(); err != nil {
		return nil, err
	}
	of := &deletion{}
	if d.Table.Rolling() {
		var err error
		if of.parts, err = q.db.Catalog().Partitions(ctx, d.Table); err != nil {
			return nil, err
		}
	}
	for _, name := range stores(d.Table, of.parts) {
		s, err := q.db.handle.prepare(dialect{}.deleteFrom(d, name))
		if err != nil {
			for _, s := range of.stmts {
				s.close()
			}
			return nil, about("delete from", d.Table, err)
		}
		of.stmts = append(of.stmts, s)
	}
	q.deletes[d] = of
	return of, nil
}

// stores returns the tables that hold t's rows.
func stores(t *engine.Table, parts []rolling.Partition) []string {
	if !t.Rolling() {
		return []string{t.Name}
	}
	var out []string
	for _, p := range parts {
		out = append(out, store(t, p))
	}
	return out
}

// find renders a Find. INDEXED BY works only for a table, not for the view of a rolling one.
func (d dialect) find(f engine.Find) (string, error) {
	if err := f.Validate(); err != nil {
		return "", err
	}
	from := d.Quote(f.Table.Name)
	if f.Index != "" && !f.Table.Rolling() {
		from += " INDEXED BY " + d.Quote(f.Table.Name+"_"+f.Index)
	}
	return f.Select(from, engine.Wording{
		Quote: d.Quote, Value: func(i int) string { return "?" + strconv.Itoa(i+1) }, Leading: true,
	}), nil
}

func (d dialect) deleteFrom(s *engine.Delete, name string) string {
	by := d.Quote(s.By)
	return fmt.Sprintf("DELETE FROM %s WHERE %s >= ?1 AND %s < ?2", d.Quote(name), by, by)
}

// delete renders a Delete.
func (d dialect) delete(s engine.Delete) ([]string, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	name := s.Table.Name
	if s.Table.Rolling() {
		name += "_PERIOD" // once for each period that can contain such rows
	}
	return []string{beginStatement, d.deleteFrom(&s, name), commitStatement}, nil
}

// createIndexes renders CreateIndexes, for each period in turn.
func (d dialect) createIndexes(s engine.CreateIndexes) ([]string, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Table.Rolling() && len(s.Partitions) == 0 {
		return nil, fmt.Errorf("create indexes of %s: a rolling table needs its partitions named", s.Table.Name)
	}
	var out []string
	for _, name := range stores(s.Table, s.Partitions) {
		for _, ix := range s.Indexes {
			out = append(out, d.createIndex(name, ix))
		}
	}
	return transaction(out...), nil
}

// checkpoint copies the write-ahead log to the database file and empties the log. In a journal mode
// other than WAL it does nothing.
const checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)"

func (db *database) Settle(ctx context.Context, s engine.Settle) (warnings []string, err error) {
	if err := db.lock(ctx); err != nil {
		return nil, err
	}
	defer db.unlock()
	statements, err := db.Dialect().Render(s)
	if err != nil {
		return nil, err
	}
	for _, q := range statements {
		err := each(db.write, q, nil, func(row []driver.Value) error {
			if busy, _ := row[0].(int64); busy != 0 {
				warnings = append(warnings, "settle: a reader kept part of the write-ahead log from being written to the file")
			}
			return nil
		})
		if err != nil {
			return warnings, fmt.Errorf("settle: %s: %w", q, err)
		}
	}
	return warnings, nil
}
