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
	// commitRows and commitBytes limit one transaction.
	commitRows  = 20_000
	commitBytes = 16 << 20
	// A row of at least largeRow bytes is sent as bound values. As literals, its text could be
	// twice as long, and longer than a server accepts.
	largeRow = 1 << 20
)

// Restore inserts the rows of a file, in batches, into the standalone table named into. The file
// has rows of table t; s is the schema of t. The standalone table must be empty and have the
// columns of t. Columns that were added to t after the file was written get their default. Restore
// then reads the rows back, and compares their number and checksum with those of the file. It calls
// note, which may be nil, with the number of rows inserted so far.
//
// After an error or a crash, the standalone table may have some of the rows; the caller must drop
// and recreate it.
func Restore(ctx context.Context, db engine.Keeper, t *engine.Table, s *engine.Schema, path string, into string, note func(rows int64)) (Info, error) {
	fail := func(err error) (Info, error) {
		return Info{}, fmt.Errorf("restore %s into %s: %w", path, into, err)
	}
	i, err := Look(path)
	if err != nil {
		return fail(err)
	}
	if err := i.fits(t, s); err != nil {
		return fail(err)
	}
	quoted := db.Dialect().Quote(into)
	var there int64
	if err := db.SQL().QueryRowContext(ctx, "SELECT COUNT(*) FROM (SELECT 1 FROM "+quoted+" LIMIT 1) AS r").Scan(&there); err != nil {
		return fail(db.Classify(err))
	}
	if there > 0 {
		return fail(errors.New("the table has rows already"))
	}
	if err := i.fill(ctx, db, into, note); err != nil {
		return fail(err)
	}
	got, err := readBack(ctx, db, s, quoted, &i)
	if err != nil {
		return fail(fmt.Errorf("read it back: %w", err))
	}
	if got.rows != i.Rows || got.String() != i.Sum {
		return fail(fmt.Errorf("the table has %s with checksum %s, the file %s with %s", figure.Plural(got.rows, "row", "rows"), got.String(), figure.Count(i.Rows), i.Sum))
	}
	return i, nil
}

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

// fill inserts the file's rows into a table.
func (i *Info) fill(ctx context.Context, db engine.Keeper, into string, note func(int64)) error {
	table := &engine.Table{Name: into}
	for _, c := range i.columns {
		table.Columns = append(table.Columns, engine.Column{Name: c.Name, Type: c.boundAs(), Null: c.Null})
	}
	l, err := db.Loader(ctx)
	if err != nil {
		return err
	}
	b, size, total := engine.NewBatch(table.Columns), 0, int64(0)
	flush := func() error {
		err := l.Begin(ctx)
		if err == nil {
			_, err = l.Insert(ctx, table, b, 0, b.Rows())
		}
		if err == nil {
			err = l.Commit(ctx)
		}
		total += int64(b.Rows())
		b.Reset()
		if size = 0; err == nil && note != nil {
			note(total)
		}
		return err
	}
	_, err = read(ctx, i.Path, func(i *Info, row parquet.Row) error {
		before := size
		for n, v := range row {
			size += i.columns[n].appendTo(&b.Columns[n], v)
		}
		b.EndRow()
		switch {
		case size-before >= largeRow:
			err := insertLast(ctx, db, table, b)
			b.Truncate(b.Rows() - 1)
			size, total = before, total+1
			return err
		case b.Rows() < commitRows && size < commitBytes:
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	return errors.Join(err, l.Close())
}

// insertLast inserts the last row of a batch with bound values.
func insertLast(ctx context.Context, db engine.Keeper, t *engine.Table, b *engine.Batch) error {
	places, args := make([]string, len(b.Columns)), make([]any, len(b.Columns))
	for n := range b.Columns {
		v, last := &b.Columns[n], b.Rows()-1
		places[n] = "?"
		switch {
		case v.Null(last):
		case v.Type == engine.Int64:
			args[n] = v.Ints[last]
		case v.Type == engine.Float64:
			args[n] = v.Floats[last]
		case v.Type == engine.Binary:
			args[n] = append([]byte{}, v.Value(last)...)
		default:
			args[n] = string(v.Value(last))
		}
	}
	q := db.Words().CopyRows(engine.CopyRows{Into: db.Dialect().Quote(t.Name), Columns: engine.Names(t.Columns), Values: "(" + strings.Join(places, ", ") + ")"})
	_, err := db.SQL().ExecContext(ctx, db.Bind(q), args...)
	return db.Classify(err)
}

// readBack returns the checksum that a file with i's columns and the table's rows would have.
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
