package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// Compare implements engine.LoaderConn with a query for each row. SQLite converts a bound value to
// the affinity of the column that it is compared with, as it does when it stores the value.
func (l *loader) Compare(ctx context.Context, t *engine.Table, cols []engine.SchemaColumn, b *engine.Batch, from, to int, fn func(engine.Compared)) error {
	d, err := l.destination(t)
	if err != nil {
		return err
	}
	c := engine.NewComparison(t)
	name := func(i int) string { return dialect{}.Quote(cols[i].Name) }
	c.Equal = func(i int) string { return fmt.Sprintf("%s = ?%d", name(i), i+1) }
	c.Differ = func(i int) string { return fmt.Sprintf("%s COLLATE BINARY IS NOT ?%d", name(i), i+1) }
	c.Text = func(i int) string {
		return fmt.Sprintf("CASE typeof(%[1]s) WHEN 'blob' THEN hex(%[1]s) ELSE CAST(%[1]s AS TEXT) END", name(i))
	}
	c.Short = func(i int) string { return fmt.Sprintf("substr(%s, 1, %d)", c.Text(i), engine.MostStored) }
	query := "SELECT " + c.Results(len(cols)) + " FROM %s WHERE " + c.On()
	args := make([]driver.Value, len(cols))
	for row := from; row < to; row++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		store, _, err := d.route(b, row, row+1, 0)
		if err != nil {
			return err
		}
		for i := range args {
			args[i] = bound(&b.Columns[i], row)
		}
		values, err := l.first(fmt.Sprintf(query, dialect{}.Quote(store)), args, len(c.Key)+2)
		if err != nil {
			return err
		}
		if values == nil {
			continue
		}
		found, err := c.Read(row, values)
		if err != nil {
			return err
		}
		fn(found)
	}
	return nil
}

// first returns the first row of a query as text; nil is NULL, or no row.
func (l *loader) first(query string, args []driver.Value, columns int) ([][]byte, error) {
	rows, err := l.db.write.Query(query, args)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	values := make([]driver.Value, columns)
	if err := rows.Next(values); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	out := make([][]byte, columns)
	for i, v := range values {
		switch v := v.(type) {
		case nil:
		case []byte:
			out[i] = append([]byte{}, v...)
		default:
			out[i] = fmt.Append([]byte{}, v)
		}
	}
	return out, nil
}

// bound returns a value of a vector as the driver binds it.
func bound(v *engine.Vector, row int) driver.Value {
	switch {
	case v.Null(row):
		return nil
	case v.Type == engine.Float32 || v.Type == engine.Float64:
		return v.Floats[row]
	case v.Type == engine.Varchar || v.Type == engine.Char || v.Type == engine.Decimal:
		return string(v.Value(row))
	case v.Type == engine.Binary:
		return append([]byte{}, v.Value(row)...)
	case v.Type == engine.Time:
		return string(value.AppendTime(nil, v.Ints[row]))
	}
	return v.Ints[row]
}
