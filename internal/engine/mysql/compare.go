package mysql

import (
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// comparedRows is how many rows a statement of Compare sends: each row is a SELECT of a UNION.
const comparedRows = 200

// Compare implements engine.LoaderConn. It sends the rows as a derived table of literals. The
// server converts each literal to the type of its column, and looks the row up by its key.
func (l *loader) Compare(_ context.Context, t *engine.Table, cols []engine.SchemaColumn, b *engine.Batch, from, to int, fn func(engine.Compared)) error {
	d, c := l.db.dialect, engine.NewComparison(t)
	text := func(i int) string {
		if cols[i].Kind == value.Bytes && cols[i].Logical != value.Bit {
			return "HEX(" + d.Quote(cols[i].Name) + ")"
		}
		return d.words().AsText(cols[i])
	}
	c.Equal = func(i int) string {
		return d.Quote(cols[i].Name) + " = " + asStored(cols[i], fmt.Sprint("rowmill.rowmill_c", i))
	}
	c.Differ = func(i int) string { return d.words().differs(cols[i], fmt.Sprint("rowmill.rowmill_c", i)) }
	c.Text = text
	c.Short = func(i int) string { return fmt.Sprintf("LEFT(%s, %d)", text(i), engine.MostStored) }
	e := l.encoder(t)
	head := "SELECT rowmill_n, " + c.Results(len(cols)) + " FROM ("
	tail := ") AS rowmill STRAIGHT_JOIN " + e.table + " FORCE INDEX (PRIMARY) ON " + c.On()
	for row := from; row < to; {
		q := []byte(head)
		for end := min(row+comparedRows, to); row < end; row++ {
			mark := len(q)
			if q = append(q, " UNION ALL SELECT "...); mark == len(head) {
				q = append(q[:mark], "SELECT "...)
			}
			q = append(strconv.AppendInt(q, int64(row), 10), " AS rowmill_n"...)
			for i := range b.Columns {
				one := engine.Batch{Columns: b.Columns[i : i+1]}
				at := len(q) + 1
				q = e.appendRow(append(q, ','), &one, row)
				q[at] = ' ' // without the parentheses
				q = fmt.Appendf(q[:len(q)-1], " AS rowmill_c%d", i)
			}
			if len(q)+len(tail) > l.limit && mark > len(head) {
				q = q[:mark]
				break
			}
		}
		rows, err := l.Conn.conn.(driver.QueryerContext).QueryContext(context.Background(), string(append(q, tail...)), nil)
		if err != nil {
			return err
		}
		if err := readCompared(rows, c, fn); err != nil {
			return err
		}
	}
	return nil
}

func readCompared(rows driver.Rows, c engine.Comparison, fn func(engine.Compared)) (err error) {
	return engine.EachDriverRow(rows, func(values []driver.Value) error {
		n, err := numberIn(values[0])
		if err != nil {
			return err
		}
		found, err := c.ReadValues(int(n), values[1:])
		if err == nil {
			fn(found)
		}
		return err
	})
}

// asStored converts expr, a literal, to the form in which column c compares values.
func asStored(c engine.SchemaColumn, expr string) string {
	switch {
	case c.Logical == value.Bit:
		return expr
	case c.Kind == value.Time:
		return "CAST(" + expr + " AS DATETIME(6))"
	case c.Kind == value.Decimal:
		return fmt.Sprintf("CAST(%s AS DECIMAL(65,%d))", expr, c.Scale)
	case c.Logical == value.Clock:
		return "CAST(" + expr + " AS TIME(6))"
	case c.Logical == value.JSON:
		return "CAST(" + expr + " AS JSON)"
	case c.Kind == value.Bytes && typeName(c.Native) == "BINARY":
		return fmt.Sprintf("CAST(%s AS BINARY(%d))", expr, c.Length)
	case c.Kind == value.Text && c.Collation != "":
		charset, _, _ := strings.Cut(c.Collation, "_")
		return "CONVERT(" + expr + " USING " + charset + ") COLLATE " + c.Collation
	}
	return expr
}

// differs renders the condition that column c doesn't hold the value that it would store for expr.
func (d words) differs(c engine.SchemaColumn, expr string) string {
	name := d.Quote(c.Name)
	same := name + " <=> " + asStored(c, expr)
	switch {
	case c.Kind == value.Float && c.Bits == 32:
		// The nearest FLOAT differs from the value by at most half of its last bit, 2^-24 of the value.
		same = fmt.Sprintf("(%[1]s IS NULL AND %[2]s IS NULL OR COALESCE(ABS(%[1]s - %[2]s) <= ABS(%[2]s) * 5.97e-8 + 1e-45, FALSE))", name, expr)
	case c.Logical == value.Set && !slices.ContainsFunc(c.Members, func(m string) bool { return strings.Contains(m, `\`) }):
		bits := []string{"0"} // expr may list the members in any order
		for i, m := range c.Members {
			bits = append(bits, fmt.Sprintf("IF(FIND_IN_SET(%s, %s), %d, 0)", quoteText(m), asStored(c, expr), uint64(1)<<i))
		}
		same = fmt.Sprintf("(%[1]s IS NULL AND %[2]s IS NULL OR COALESCE(%[1]s + 0 = IF(%[2]s IS NULL, NULL, %[3]s), FALSE))", name, expr, strings.Join(bits, " + "))
	case c.Logical == value.Enum, c.Logical == value.Set, c.Logical == value.JSON:
	case c.Kind == value.Text:
		if typeName(c.Native) == "CHAR" {
			expr = "TRIM(TRAILING ' ' FROM " + expr + ")"
		}
		same = "CAST(CONVERT(" + name + " USING utf8mb4) AS BINARY) <=> CAST(" + expr + " AS BINARY)"
	}
	return "NOT (" + same + ")"
}

func (d words) Differs(c engine.SchemaColumn, a, b string) string {
	if c.Kind == value.Text && c.Logical != value.Enum && c.Logical != value.Set && c.Logical != value.JSON {
		a, b = "CAST("+a+" AS BINARY)", "CAST("+b+" AS BINARY)"
	}
	return "NOT (" + a + " <=> " + b + ")"
}
