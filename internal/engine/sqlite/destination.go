package sqlite

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A destination is a table into which a writer or a loader inserts rows, with its periods.
//
// Rows of a rolling table are inserted into the tables of their periods, which runs the triggers of
// those tables. The destination itself checks what the view's triggers would check: the type of
// column By, and that a period exists.
type destination struct {
	db     *database
	table  *engine.Table
	method engine.Method
	// For a rolling table: by is the index of column By in a batch, or -1 if By is the key that the
	// engine assigns. unit is the number of positions in one unit of By, or 0 for times. parts are the
	// periods, and stores has the names of their tables.
	by     int
	unit   int64
	parts  []rolling.Partition
	stores []string

	tables map[string]*stored // by name
	buf    []byte
	// update updates rows whose key exists; nil without Table.Update.
	update *destination
}

// A stored is a table of a destination. With the method Prepared, it has a prepared INSERT of one
// row. SQLite would allow 32766 values in a statement, but an INSERT of several rows is not faster.
type stored struct {
	enc  encoder
	stmt stmt
}

const (
	// rowsPerCall and bytesPerCall limit the data of one call of SQLite. A canceled
	// context is noticed between two calls.
	rowsPerCall  = 256
	bytesPerCall = 1 << 20
	// rowsPerText is the maximum number of rows of an INSERT with literals. SQLite itself limits only
	// the length of the statement, to 1 GB.
	rowsPerText = 1000
	// mostStored is the maximum number of prepared statements of a destination. Each period with
	// inserted rows has one, of some 10 KB.
	mostStored = 64
)

// destination returns the destination for a table. The caller holds the turn.
func (db *database) destination(t *engine.Table, m engine.Method) (*destination, error) {
	d := &destination{db: db, table: t, method: m, tables: map[string]*stored{}}
	if !t.Rolling() {
		return d, nil
	}
	d.unit = epochOf(t)
	d.by = slices.IndexFunc(t.Inserted(), func(c engine.Column) bool { return strings.EqualFold(c.Name, t.By) })
	if d.by < 0 && t.By != t.ServerKey {
		return nil, fmt.Errorf("the rows have no column %s, by which the table rolls", t.By)
	}
	var err error
	if d.parts, err = periods(db.write, t); err != nil {
		return nil, err
	}
	if len(d.parts) == 0 {
		return nil, engine.Classed(engine.ErrNoTable, fmt.Errorf("no table %s, or it has no periods", t.Name))
	}
	for _, p := range d.parts {
		d.stores = append(d.stores, store(t, p))
	}
	return d, nil
}

// forget closes the prepared statements.
func (d *destination) forget() {
	if d.update != nil {
		d.update.forget()
	}
	for _, s := range d.tables {
		_ = d.drop(s)
	}
	clear(d.tables)
}

func (d *destination) drop(s *stored) error {
	if d.method == engine.Prepared {
		s.stmt.close()
	}
	return nil
}

// stored returns one of the tables.
func (d *destination) stored(name string) (*stored, error) {
	return engine.Cached(d.tables, mostStored, name, d.drop, func() (s *stored, err error) {
		s = &stored{enc: newEncoder(dialect{}, d.table, name)}
		if d.method == engine.Prepared {
			s.stmt, err = d.db.handle.prepare(s.enc.placeholders(1))
		}
		return s, err
	})
}

// fits returns an error if the table rolls by times and column By of b has no times, or if the
// table rolls by integers and the column has no integers. Other values would be stored in a period
// in which no query searches for them.
func (d *destination) fits(b *engine.Batch) error {
	if !d.table.Rolling() {
		return nil
	}
	kind := b.Columns[d.by].Type
	switch {
	case d.unit == 0 && kind != engine.Time:
		return fmt.Errorf("the table rolls by times in %s, and the rows have none", d.table.By)
	case d.unit > 0 && kind != engine.Int32 && kind != engine.Int64:
		return fmt.Errorf("the table rolls by integers in %s, and the rows have none", d.table.By)
	}
	return nil
}

// position returns the position of row i, or false if it has none.
func (d *destination) position(b *engine.Batch, i int, key int64) (pos int64, ok bool) {
	n := key + int64(i)
	if d.by >= 0 {
		v := &b.Columns[d.by]
		if v.Null(i) {
			return 0, false
		}
		n = v.Ints[i]
	}
	if d.unit <= 1 {
		return n, true
	}
	if high, low := bits.Mul64(uint64(max(n, -n)), uint64(d.unit)); high != 0 || low > math.MaxInt64 {
		return 0, false
	}
	return n * d.unit, true
}

// route returns the table for row from, and the end of the rows that go to the same table.
func (d *destination) route(b *engine.Batch, from, to int, key int64) (string, int, error) {
	if !d.table.Rolling() {
		return d.table.Name, to, nil
	}
	pos, ok := d.position(b, from, key)
	i := -1
	if ok {
		i = rolling.Find(d.parts, pos)
	}
	if i < 0 {
		value := "NULL"
		switch {
		case d.by < 0:
			value = fmt.Sprint(pos)
		case !b.Columns[d.by].Null(from):
			value = string(b.Columns[d.by].AppendText(nil, from))
		}
		return "", 0, engine.Classed(engine.ErrNoPartition, engine.Classed(engine.ErrRefused,
			fmt.Errorf("row outside every period: %s = %s", d.table.By, value)))
	}
	end := from + 1
	for ; end < to; end++ {
		if pos, ok = d.position(b, end, key); !ok || !d.parts[i].Contains(pos) {
			break
		}
	}
	return d.stores[i], end, nil
}

// insert inserts rows [from, to) of b and returns the number of rows inserted. Row i has
// the key key+i, if the engine assigns keys.
func (d *destination) insert(ctx context.Context, b *engine.Batch, from, to int, key int64) (n int64, err error) {
	for from < to {
		name, end, err := d.route(b, from, to, key)
		if err != nil {
			return 0, err
		}
		s, err := d.stored(name)
		if err != nil {
			return 0, err
		}
		for from < end {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			next, done, err := d.call(s, b, from, end, key)
			if err != nil {
				return 0, err
			}
			from, n = next, n+done
		}
	}
	if d.table.ServerKey != "" {
		d.db.nextKey[d.table.Name] = key + int64(to)
	}
	return n, nil
}

// call inserts rows from row from on with one call, and returns the first row after them.
func (d *destination) call(s *stored, b *engine.Batch, from, to int, key int64) (next int, n int64, err error) {
	switch d.method {
	case engine.Multi:
		next = min(from+rowsPerText, to)
	case engine.Single:
		next = from + 1
	default:
		d.buf = d.buf[:0]
		for next = from; next < min(to, from+rowsPerCall) && len(d.buf) < bytesPerCall; next++ {
			d.buf = s.enc.appendBound(d.buf, b, next, key+int64(next))
		}
		n, err = s.stmt.run(d.buf, s.enc.columns, next-from)
		return next, n, err
	}
	d.buf = s.enc.appendInsert(d.buf[:0], b, from, next, key)
	n, err = d.db.handle.exec(d.buf)
	return next, n, err
}
