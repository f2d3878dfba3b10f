package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
)

const (
	// bindMax limits the number of bound values per statement: SQLite permits 32,766.
	bindMax = 30_000
	// insertRows and insertBytes limit one INSERT. Servers accept at least 4 MB per
	// statement.
	insertRows  = 500
	insertBytes = 1 << 20
	// commitRows and commitBytes limit one transaction.
	commitRows  = 20_000
	commitBytes = 16 << 20
)

// Restore inserts the rows of a file of t, in batches, into the standalone table
// into, which must be empty and have the columns of t. It then reads them back: their
// number and checksum must be those of the file. s is the schema of t. Columns added
// to t since the file was written get their default. note, which may be nil, is
// called with the number of rows so far.
//
// After an error or a crash, into may contain some of the rows; the caller must drop
// and recreate it.
func Restore(ctx context.Context, db engine.Keeper, t *engine.Table, s *engine.Schema, path string, into string, note func(rows int64)) (File, error) {
	fail := func(err error) (File, error) {
		return File{}, fmt.Errorf("restore %s into %s: %w", path, into, err)
	}
	i, err := Look(path)
	if err != nil {
		return fail(err)
	}
	if err := i.fits(t, s); err != nil {
		return fail(err)
	}
	columns, err := columnsOf(s, i.Columns())
	if err != nil {
		return fail(err)
	}
	in := &filling{ctx: ctx, db: db, into: db.Dialect().Quote(into), columns: columns}
	var there int64
	if err := db.SQL().QueryRowContext(ctx, "SELECT COUNT(*) FROM (SELECT 1 FROM "+in.into+" LIMIT 1) AS r").Scan(&there); err != nil {
		return fail(db.Classify(err))
	}
	if there > 0 {
		return fail(errors.New("the table has rows already"))
	}
	if err := in.fill(path, note); err != nil {
		return fail(err)
	}
	got, err := readBack(ctx, db, s, in.into, &i)
	if err != nil {
		return fail(fmt.Errorf("read it back: %w", err))
	}
	if got.rows != i.Rows || got.String() != i.Sum {
		return fail(fmt.Errorf("the table has %s with checksum %s, the file %s with %s", figure.Plural(got.rows, "row", "rows"), got.String(), figure.Count(i.Rows), i.Sum))
	}
	return File{Path: path, Rows: i.Rows, Sum: i.Sum, Bytes: i.Bytes}, nil
}

// fits checks whether a file's rows can be inserted into the current table t.
func (i *Info) fits(t *engine.Table, s *engine.Schema) error {
	if i.Table != t.Name {
		return engine.Hinted(fmt.Errorf("the file is of table %s, not of %s", i.Table, t.Name), "the declaration of %s", i.Table)
	}
	for _, c := range i.columns {
		have := s.Column(c.Name)
		if have == nil {
			return engine.Hinted(fmt.Errorf("the file has column %s, which table %s no longer has", c.Name, t.Name),
				"reading the file with a tool for Parquet, or adding the column again")
		}
		if have.Generated {
			return fmt.Errorf("the file has column %s, which the server now computes", c.Name)
		}
	}
	for _, c := range s.Columns {
		if !c.Null && c.Default == "" && !c.Generated && !c.Auto && i.find(c.Name) < 0 {
			return engine.Hinted(fmt.Errorf("table %s has since gained column %s, which has no default", t.Name, c.Name),
				"giving the column a default")
		}
	}
	return nil
}

// A filling inserts rows into a table.
type filling struct {
	ctx     context.Context
	db      engine.Keeper
	into    string
	columns []engine.SchemaColumn

	tx        *sql.Tx
	whole     *sql.Stmt // the INSERT of a full batch, in tx
	args      []any
	rows      int // in args
	bytes     int // in args
	pending   int // rows of tx
	pendBytes int
	total     int64
}

func (f *filling) fill(path string, note func(int64)) (err error) {
	defer func() {
		if f.tx != nil {
			err = errors.Join(err, f.rollback())
		}
	}()
	_, err = read(f.ctx, path, func(i *Info, row parquet.Row) error {
		for n, v := range row {
			a := i.columns[n].decode(v)
			switch a := a.(type) {
			case string:
				f.bytes += len(a)
			case []byte:
				f.bytes += len(a)
			}
			f.bytes += 8
			f.args = append(f.args, a)
		}
		f.rows++
		f.total++
		if f.rows < f.batch() && f.bytes < insertBytes {
			return nil
		}
		if err := f.insert(); err != nil {
			return err
		}
		if f.pending < commitRows && f.pendBytes < commitBytes {
			return nil
		}
		if note != nil {
			note(f.total)
		}
		return f.commit()
	})
	if err == nil {
		err = f.insert()
	}
	if err == nil {
		err = f.commit()
	}
	if err == nil && note != nil {
		note(f.total)
	}
	return err
}

// batch returns the number of rows of a full batch.
func (f *filling) batch() int { return max(1, min(insertRows, bindMax/len(f.columns))) }

func (f *filling) statement(rows int) string {
	names := make([]string, len(f.columns))
	for i, c := range f.columns {
		names[i] = f.db.Dialect().Quote(c.Name)
	}
	row := "(" + strings.Repeat("?, ", len(names)-1) + "?)"
	return "INSERT INTO " + f.into + " (" + strings.Join(names, ", ") + ") VALUES " +
		strings.Join(slices.Repeat([]string{row}, rows), ", ")
}

func (f *filling) insert() error {
	if f.rows == 0 {
		return nil
	}
	var err error
	if f.tx == nil {
		if f.tx, err = f.db.SQL().BeginTx(f.ctx, nil); err != nil {
			return f.db.Classify(err)
		}
	}
	if f.rows == f.batch() {
		if f.whole == nil {
			if f.whole, err = f.tx.PrepareContext(f.ctx, f.db.Bind(f.statement(f.rows))); err != nil {
				return f.db.Classify(err)
			}
		}
		_, err = f.whole.ExecContext(f.ctx, f.args...)
	} else {
		_, err = f.tx.ExecContext(f.ctx, f.db.Bind(f.statement(f.rows)), f.args...)
	}
	if err != nil {
		return f.db.Classify(err)
	}
	f.pending += f.rows
	f.pendBytes += f.bytes
	clear(f.args)
	f.args, f.rows, f.bytes = f.args[:0], 0, 0
	return nil
}

func (f *filling) commit() error {
	if f.tx == nil {
		return nil
	}
	var err error
	if f.whole != nil {
		err = f.whole.Close()
	}
	err = errors.Join(err, f.tx.Commit())
	f.tx, f.whole, f.pending, f.pendBytes = nil, nil, 0, 0
	return f.db.Classify(err)
}

func (f *filling) rollback() error {
	err := f.tx.Rollback()
	f.tx, f.whole = nil, nil
	if errors.Is(err, sql.ErrTxDone) {
		return nil // ctx has ended
	}
	return err
}

// readBack computes the checksum of a table as a file with the columns of i would
// contain it.
func readBack(ctx context.Context, db engine.Keeper, s *engine.Schema, from string, i *Info) (*sum, error) {
	columns, err := columnsOf(s, i.Columns())
	if err != nil {
		return nil, err
	}
	key, err := columnsOf(s, s.PrimaryKey)
	if err != nil {
		return nil, err
	}
	var total sum
	var text []byte
	forms := slices.Clone(i.columns)
	for n := range forms {
		if l := forms[n].Layout; forms[n].Form == formTimestamp || forms[n].Form == formDate {
			forms[n].layouts = []layout{l}
		}
	}
	values := make([]parquet.Value, len(forms))
	r := &reader{db: db, from: from, columns: columns, key: key}
	err = r.each(ctx, func(row []sql.RawBytes) error {
		text = text[:0]
		for n := range forms {
			v, err := forms[n].value(row[n], n, &text)
			if err != nil {
				return fmt.Errorf("column %s holds %.100q, which the file doesn't", forms[n].Name, row[n])
			}
			values[n] = v
		}
		total.add(values)
		return ctx.Err()
	})
	return &total, err
}
