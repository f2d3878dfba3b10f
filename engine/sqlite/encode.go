package sqlite

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/engine"
)

// An encoder turns batches into statements for one table of rows.
type encoder struct {
	prefix  string // INSERT INTO t (...) VALUES
	key     bool   // the first column is the key that the engine assigns
	columns int    // of the table
}

func newEncoder(d dialect, t *engine.Table, name string) encoder {
	var names []string
	if t.ServerKey != "" {
		names = append(names, t.ServerKey)
	}
	for _, c := range t.Inserted() {
		names = append(names, c.Name)
	}
	return encoder{
		prefix:  fmt.Sprintf("INSERT INTO %s (%s) VALUES ", d.Quote(name), d.list(names)),
		key:     t.ServerKey != "",
		columns: len(names),
	}
}

// appendInsert appends an INSERT of rows [from, to) of b, values as literals;
// the rows get keys from key on where the engine assigns them.
func (e *encoder) appendInsert(dst []byte, b *engine.Batch, from, to int, key int64) []byte {
	dst = append(dst, e.prefix...)
	for i := from; i < to; i++ {
		if i > from {
			dst = append(dst, ',')
		}
		dst = append(dst, '(')
		if e.key {
			dst = append(strconv.AppendInt(dst, key+int64(i-from), 10), ", "...)
		}
		for c := range b.Columns {
			if c > 0 {
				dst = append(dst, ", "...)
			}
			dst = appendLiteral(dst, &b.Columns[c], i)
		}
		dst = append(dst, ')')
	}
	return dst
}

func appendLiteral(dst []byte, v *engine.Vector, row int) []byte {
	switch {
	case v.Null(row):
		return append(dst, "NULL"...)
	case v.Type == engine.Varchar || v.Type == engine.Char || v.Type == engine.Decimal:
		dst = append(dst, '\'')
		for _, c := range v.Value(row) {
			if c == '\'' {
				dst = append(dst, '\'')
			}
			dst = append(dst, c)
		}
		return append(dst, '\'')
	case v.Type == engine.Time:
		dst = append(dst, '\'')
		return append(engine.AppendTime(dst, v.Ints[row]), '\'')
	}
	return v.AppendText(dst, row)
}

// placeholders returns an INSERT of n rows with a ? for each value.
func (e *encoder) placeholders(n int) string {
	row := "(" + strings.Repeat("?, ", e.columns-1) + "?)"
	return e.prefix + strings.Repeat(row+",", n-1) + row
}
