package postgres

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// An encoder converts batches of one table to the server's input: literals in a
// statement, or values in the binary format. It allocates nothing per row.
type encoder struct {
	prefix  string // of an INSERT, up to and including "VALUES "
	suffix  string // of an INSERT, after its rows
	table   string // quoted
	names   string
	columns []engine.Column
	limit   int // on the length of a statement of several rows, in bytes
	// copy is a loader's COPY statement in text format; "" before it is known. noCopy means that COPY
	// can't send the table's rows. pause is how many of the next Inserts don't try COPY.
	copy   string
	noCopy bool
	pause  int
	// forms are the columns' forms in binary COPY; nil if a column has none. verify is the query to
	// run after a binary COPY (see sameTypes). plain is how many of the next Inserts don't try binary
	// COPY.
	forms  []binaryForm
	verify string
	plain  int
	err    error // the first value that can't be encoded
	// update encodes rows of the same batch for an INSERT that updates rows whose key exists; it is
	// nil without Table.Update. key contains the indexes of the primary key's columns.
	update *encoder
	key    []int
}

// statementLimit is the maximum length of a statement of several rows, in bytes. The server accepts
// up to a gigabyte, but needs many times a statement's size to parse it.
const statementLimit = 16 << 20

func newEncoder(d dialect, t *engine.Table) encoder {
	cols := t.Inserted()
	e := encoder{table: d.Quote(t.Name), names: d.list(engine.Names(cols)), columns: cols, limit: statementLimit}
	e.prefix = fmt.Sprintf("INSERT INTO %s (%s) VALUES ", e.table, e.names)
	if t.Ignore || t.Update {
		e.suffix = " ON CONFLICT DO NOTHING"
	}
	if set := t.Replaced(); len(set) > 0 {
		update := e
		update.suffix = d.onConflictUpdate(t, set)
		e.update = &update
		for _, name := range t.PrimaryKey {
			e.key = append(e.key, slices.IndexFunc(cols, func(c engine.Column) bool { return c.Name == name }))
		}
	}
	return e
}

// errZeroByte reports text with a zero byte. PostgreSQL can't store it, and in
// a message the byte would end the statement.
var errZeroByte = errors.New("text with a zero byte, which PostgreSQL can't store")

var errNumber = errors.New("it is not a decimal number")

func (e *encoder) fail(c int, err error) {
	if e.err == nil {
		e.err = fmt.Errorf("column %s: %w", e.columns[c].Name, err)
	}
}

// appendInsert appends an INSERT of the rows of b, beginning with the given row. It adds rows up to
// but not including to, as many as the limit allows. It returns the first row that isn't in the
// statement.
func (e *encoder) appendInsert(dst []byte, b *engine.Batch, row, to int) ([]byte, int) {
	start := len(dst)
	dst = append(dst, e.prefix...)
	dst = e.appendRow(dst, b, row)
	for row++; row < to && len(dst)-start < e.limit; row++ {
		dst = append(dst, ',')
		dst = e.appendRow(dst, b, row)
	}
	return append(dst, e.suffix...), row
}

// appendMessage appends the message with appendInsert's statement.
func (e *encoder) appendMessage(dst []byte, b *engine.Batch, row, to int) (_ []byte, next int, err error) {
	dst, start := beginMessage(dst, 'Q')
	dst, next = e.appendInsert(dst, b, row, to)
	dst = append(dst, 0)
	endMessage(dst, start)
	if e.err != nil {
		err = fmt.Errorf("%w: %w", errUnsent, e.err)
	}
	return dst, next, err
}

// appendRow appends the row as a parenthesised list of literals.
func (e *encoder) appendRow(dst []byte, b *engine.Batch, row int) []byte {
	dst = append(dst, '(')
	for c := range b.Columns {
		if c > 0 {
			dst = append(dst, ',')
		}
		v := &b.Columns[c]
		switch {
		case v.Null(row):
			dst = append(dst, "NULL"...)
		case v.Type == engine.Varchar || v.Type == engine.Char || v.Type == engine.Decimal:
			// Decimals are quoted, too: their text may come from a file.
			var ok bool
			if dst, ok = appendQuoted(dst, v.Value(row)); !ok {
				e.fail(c, errZeroByte)
			}
		case v.Type == engine.Int32 || v.Type == engine.Int64:
			dst = strconv.AppendInt(dst, v.Ints[row], 10)
		case v.Type == engine.Binary:
			dst = append(hex.AppendEncode(append(dst, `'\x`...), v.Value(row)), '\'')
		default:
			// Unquoted, 1.5 would be parsed as numeric first, which is slower.
			dst = append(dst, '\'')
			dst = append(v.AppendText(dst, row), '\'')
		}
	}
	return append(dst, ')')
}

// appendQuoted appends p as a string literal in which a backslash has no
// special meaning. It reports false if p contains a zero byte.
func appendQuoted(dst, p []byte) (_ []byte, ok bool) {
	dst = append(dst, '\'')
	start := 0
	for i, c := range p {
		switch c {
		case '\'':
			dst = append(append(dst, p[start:i]...), '\'')
			start = i
		case 0:
			return dst, false
		}
	}
	return append(append(dst, p[start:]...), '\''), true
}

// maxPlaceholders is how many values a prepared statement can bind: the
// protocol counts them in 16 bits.
const maxPlaceholders = 65535

// perStatement is how many rows a prepared statement can bind.
func (e *encoder) perStatement() int { return max(1, maxPlaceholders/max(1, len(e.columns))) }

// placeholders returns an INSERT of n rows with a placeholder for each value.
func (e *encoder) placeholders(n int) string {
	var q strings.Builder
	q.WriteString(e.prefix)
	for i := range n {
		if i > 0 {
			q.WriteByte(',')
		}
		for c := range e.columns {
			if c == 0 {
				q.WriteByte('(')
			} else {
				q.WriteByte(',')
			}
			q.WriteByte('$')
			q.WriteString(strconv.Itoa(i*len(e.columns) + c + 1))
		}
		q.WriteByte(')')
	}
	q.WriteString(e.suffix)
	return q.String()
}

// copyStatement returns the COPY statement that takes a stream of rows.
func (e *encoder) copyStatement() string {
	return fmt.Sprintf("COPY %s (%s) FROM STDIN (FORMAT binary)", e.table, e.names)
}

// oids are the OIDs of types, which never change (pg_type.dat of the server's source). A parameter
// has the OID of its value's type, so that the server converts the value if the table's column has
// a wider type.
var oids = map[engine.Type]uint32{
	engine.Int32: 23, engine.Int64: 20, engine.Float32: 700, engine.Float64: 701, engine.Time: 1114,
	engine.Varchar: 1043, engine.Char: 1042, engine.Decimal: 1700, engine.Binary: 17,
}

// epoch is PostgreSQL's, 2000-01-01, in microseconds since 1970.
const epoch = int64(946684800e6)

// appendBinary appends a row's values in the binary format of COPY and of bound values,
// each preceded by its length, which is -1 for NULL.
func (e *encoder) appendBinary(dst []byte, b *engine.Batch, row int) []byte {
	for c := range b.Columns {
		v := &b.Columns[c]
		if v.Null(row) {
			dst = append(dst, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		switch v.Type {
		case engine.Int32:
			n := v.Ints[row]
			if n != int64(int32(n)) {
				e.fail(c, fmt.Errorf("%d is out of range", n))
			}
			dst = binary.BigEndian.AppendUint32(append(dst, 0, 0, 0, 4), uint32(n))
		case engine.Float32:
			dst = binary.BigEndian.AppendUint32(append(dst, 0, 0, 0, 4), math.Float32bits(float32(v.Floats[row])))
		case engine.Float64:
			dst = binary.BigEndian.AppendUint64(append(dst, 0, 0, 0, 8), math.Float64bits(v.Floats[row]))
		case engine.Time:
			dst = binary.BigEndian.AppendUint64(append(dst, 0, 0, 0, 8), uint64(v.Ints[row]-epoch))
		case engine.Varchar, engine.Char, engine.Binary:
			p := v.Value(row)
			dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(p))), p...)
		case engine.Decimal:
			start := len(dst)
			dst = append(dst, 0, 0, 0, 0)
			var ok bool
			if dst, ok = appendNumeric(dst, v.Value(row)); !ok {
				e.fail(c, fmt.Errorf("%.40q: %w", v.Value(row), errNumber))
			}
			binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
		default:
			dst = binary.BigEndian.AppendUint64(append(dst, 0, 0, 0, 8), uint64(v.Ints[row]))
		}
	}
	return dst
}

// appendNumeric appends decimal text, [-+]DIGITS[.DIGITS], as 16-bit numbers: the count of
// base-10000 digits, the exponent of the first of them, the sign, the number of decimals that the
// text has, and the base-10000 digits (numeric_recv in numeric.c).
func appendNumeric(dst, text []byte) (_ []byte, ok bool) {
	start := len(dst)
	sign := uint16(0)
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		if text[0] == '-' {
			sign = 0x4000
		}
		text = text[1:]
	}
	whole, frac, _ := bytes.Cut(text, []byte("."))
	if len(whole)+len(frac) == 0 {
		return dst, false
	}
	whole = bytes.TrimLeft(whole, "0")
	groups := (len(whole) + 3) / 4
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	weight := groups - 1
	begun := false
	for g := range groups + (len(frac)+3)/4 {
		var n uint16
		for k := range 4 {
			digit := byte('0')
			if i := g*4 + k - (groups*4 - len(whole)); g < groups {
				if i >= 0 {
					digit = whole[i]
				}
			} else if i := (g-groups)*4 + k; i < len(frac) {
				digit = frac[i]
			}
			if digit < '0' || digit > '9' {
				return dst[:start], false
			}
			n = n*10 + uint16(digit-'0')
		}
		if n == 0 && !begun {
			weight--
			continue
		}
		begun = true
		dst = binary.BigEndian.AppendUint16(dst, n)
	}
	for begun && dst[len(dst)-1] == 0 && dst[len(dst)-2] == 0 {
		dst = dst[:len(dst)-2]
	}
	head := dst[start:]
	digits := (len(head) - 8) / 2
	if digits == 0 {
		weight, sign = 0, 0
	}
	if len(frac) > math.MaxInt16/2 || digits > math.MaxInt16 || weight > math.MaxInt16 {
		return dst[:start], false
	}
	binary.BigEndian.PutUint16(head, uint16(digits))
	binary.BigEndian.PutUint16(head[2:], uint16(int16(weight)))
	binary.BigEndian.PutUint16(head[4:], sign)
	binary.BigEndian.PutUint16(head[6:], uint16(len(frac)))
	return dst, true
}

// resultFormat returns the format in which values of a type are read: 1 for binary, 0 for text.
func resultFormat(t engine.Type) int16 {
	if t == engine.Varchar || t == engine.Char || t == engine.Decimal {
		return 0
	}
	return 1
}

// appendResult appends a value in the format of resultFormat. Integers and
// floats may have any width.
func appendResult(v *engine.Vector, p []byte) error {
	if p == nil {
		v.AppendNull()
		return nil
	}
	switch v.Type {
	case engine.Varchar, engine.Decimal, engine.Binary:
		v.AppendBytes(p)
		return nil
	case engine.Char: // padded with blanks to its size
		v.AppendBytes(bytes.TrimRight(p, " "))
		return nil
	}
	float := v.Type == engine.Float32 || v.Type == engine.Float64
	switch {
	case float && len(p) == 4:
		v.Floats = append(v.Floats, float64(math.Float32frombits(binary.BigEndian.Uint32(p))))
	case v.Type == engine.Float64 && len(p) == 8:
		v.Floats = append(v.Floats, math.Float64frombits(binary.BigEndian.Uint64(p)))
	case v.Type == engine.Time && len(p) == 8:
		v.Ints = append(v.Ints, int64(binary.BigEndian.Uint64(p))+epoch)
	case !float && v.Type != engine.Time && len(p) == 2:
		v.Ints = append(v.Ints, int64(int16(binary.BigEndian.Uint16(p))))
	case !float && v.Type != engine.Time && len(p) == 4:
		v.Ints = append(v.Ints, int64(int32(binary.BigEndian.Uint32(p))))
	case !float && v.Type != engine.Time && len(p) == 8:
		v.Ints = append(v.Ints, int64(binary.BigEndian.Uint64(p)))
	default:
		return fmt.Errorf("a value of %d bytes came back", len(p))
	}
	return nil
}
