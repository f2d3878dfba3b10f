package sqlite

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// An encoder converts batches to statements for one stored table.
type encoder struct {
	prefix  string // INSERT INTO t (...) VALUES
	suffix  string // after the rows
	key     bool   // the first column is the key that the engine assigns
	columns int    // of the table
}

func newEncoder(d dialect, t *engine.Table, name string) encoder {
	names := engine.Names(t.Inserted())
	if t.ServerKey != "" {
		names = append([]string{t.ServerKey}, names...)
	}
	suffix := ""
	switch set := t.Replaced(); {
	case len(set) > 0 && !t.Ignore:
		suffix = d.onConflictUpdate(t, name, set)
	case t.Ignore || t.Update:
		// INSERT OR IGNORE would also skip rows that violate other constraints.
		suffix = " ON CONFLICT DO NOTHING"
	}
	return encoder{
		suffix:  suffix,
		prefix:  fmt.Sprintf("INSERT INTO %s (%s) VALUES ", d.Quote(name), d.list(names)),
		key:     t.ServerKey != "",
		columns: len(names),
	}
}

// onConflictUpdate returns the end of an INSERT that replaces some columns of the existing row with
// the same primary key, if the new values of these columns differ from the row's. Values of
// different bytes differ, whatever the column's collation.
func (d dialect) onConflictUpdate(t *engine.Table, name string, set []engine.Column) string {
	var to, differ []string
	for _, c := range set {
		sent := "excluded." + d.Quote(c.Name)
		to = append(to, d.Quote(c.Name)+" = "+sent)
		differ = append(differ, d.Quote(name)+"."+d.Quote(c.Name)+" COLLATE BINARY IS NOT "+sent)
	}
	return fmt.Sprintf(" ON CONFLICT (%s) DO UPDATE SET %s WHERE %s", d.list(t.PrimaryKey), strings.Join(to, ", "), strings.Join(differ, " OR "))
}

// appendInsert appends an INSERT of rows [from, to) of b with values as literals.
// If the engine assigns keys, row i gets the key key+i.
func (e *encoder) appendInsert(dst []byte, b *engine.Batch, from, to int, key int64) []byte {
	dst = append(dst, e.prefix...)
	for i := from; i < to; i++ {
		if i > from {
			dst = append(dst, ',')
		}
		dst = append(dst, '(')
		if e.key {
			dst = append(strconv.AppendInt(dst, key+int64(i), 10), ", "...)
		}
		for c := range b.Columns {
			if c > 0 {
				dst = append(dst, ", "...)
			}
			dst = appendLiteral(dst, &b.Columns[c], i)
		}
		dst = append(dst, ')')
	}
	return append(dst, e.suffix...)
}

func appendLiteral(dst []byte, v *engine.Vector, row int) []byte {
	switch {
	case v.Null(row):
		return append(dst, "NULL"...)
	case v.Type == engine.Varchar || v.Type == engine.Char || v.Type == engine.Decimal:
		return appendQuoted(dst, v.Value(row))
	case v.Type == engine.Binary:
		return append(hex.AppendEncode(append(dst, "X'"...), v.Value(row)), '\'')
	case v.Type == engine.Float32:
		// With the digits of a double: so every insert method stores the same value.
		return strconv.AppendFloat(dst, v.Floats[row], 'g', -1, 64)
	case v.Type == engine.Time:
		dst = append(dst, '\'')
		return append(value.AppendTime(dst, v.Ints[row]), '\'')
	}
	return v.AppendText(dst, row)
}

// appendQuoted appends p as a text literal. Text with a NUL is written in hex,
// because a NUL ends a statement.
func appendQuoted(dst, p []byte) []byte {
	if bytes.IndexByte(p, 0) >= 0 {
		return append(hex.AppendEncode(append(dst, "CAST(X'"...), p), "' AS TEXT)"...)
	}
	dst = append(dst, '\'')
	for {
		i := bytes.IndexByte(p, '\'')
		if i < 0 {
			return append(append(dst, p...), '\'')
		}
		dst = append(append(dst, p[:i+1]...), '\'')
		p = p[i+1:]
	}
}

// appendBound appends the row's values in the format that stmt.run reads: a letter for the type,
// then the 8 bytes of a number, or the length and the bytes of text or binary data.
func (e *encoder) appendBound(dst []byte, b *engine.Batch, row int, key int64) []byte {
	if e.key {
		dst = binary.NativeEndian.AppendUint64(append(dst, 'i'), uint64(key))
	}
	for c := range b.Columns {
		v := &b.Columns[c]
		switch {
		case v.Null(row):
			dst = append(dst, 'n')
		case v.Type == engine.Float32 || v.Type == engine.Float64:
			dst = binary.NativeEndian.AppendUint64(append(dst, 'f'), math.Float64bits(v.Floats[row]))
		case v.Type == engine.Varchar || v.Type == engine.Char || v.Type == engine.Decimal:
			dst = appendBytes(dst, 't', v.Value(row))
		case v.Type == engine.Binary:
			dst = appendBytes(dst, 'b', v.Value(row))
		case v.Type == engine.Time:
			dst = appendTime(dst, v.Ints[row])
		default:
			dst = binary.NativeEndian.AppendUint64(append(dst, 'i'), uint64(v.Ints[row]))
		}
	}
	return dst
}

func appendBytes(dst []byte, kind byte, p []byte) []byte {
	return append(binary.NativeEndian.AppendUint32(append(dst, kind), uint32(len(p))), p...)
}

// appendTime appends a time in the format of appendBound.
func appendTime(dst []byte, us int64) []byte {
	at := len(dst)
	dst = value.AppendTime(append(dst, 't', 0, 0, 0, 0), us)
	binary.NativeEndian.PutUint32(dst[at+1:], uint32(len(dst)-at-5))
	return dst
}

// placeholders returns an INSERT of n rows with a ? for each value.
func (e *encoder) placeholders(n int) string {
	row := "(" + strings.Repeat("?, ", e.columns-1) + "?)"
	return e.prefix + strings.Repeat(row+",", n-1) + row + e.suffix
}
