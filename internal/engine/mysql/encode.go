package mysql

import (
	"database/sql/driver"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// An encoder encodes batches for one table as statements and streams.
type encoder struct {
	prefix string // INSERT INTO t (...) VALUES
	table  string // quoted
	names  string // quoted, the columns in batches
	// serverKey is true if each row begins with the literal 0, for which the server assigns the next
	// AUTO_INCREMENT value.
	serverKey bool
	columns   int // of a batch
	// fields and set are the columns of LOAD DATA, and its SET clause.
	fields, set string
	loadable    *loadable // nil: not yet read
	// ignore skips rows whose key exists. warnings is the number of warnings that the server keeps for
	// a statement: with ignore, a statement may not have more rows.
	ignore   bool
	warnings int
	// update encodes a batch for a second INSERT, after ignore has skipped rows: its suffix, ON
	// DUPLICATE KEY UPDATE, changes existing rows. It is nil without Table.Update.
	update *encoder
	suffix string // after the rows
}

func newEncoder(d dialect, t *engine.Table) encoder {
	cols := t.Inserted()
	e := encoder{table: d.Quote(t.Name), names: d.list(engine.Names(cols)), columns: len(cols), ignore: t.Ignore || t.Update, warnings: mostWarnings}
	e.fields, e.set = d.loadFields(cols)
	names := e.names
	if t.ServerKey != "" {
		e.serverKey = true
		names = d.Quote(t.ServerKey) + ", " + names
	}
	verb := "INSERT"
	if e.ignore {
		verb = "INSERT IGNORE"
	}
	e.prefix = fmt.Sprintf("%s INTO %s (%s) VALUES ", verb, e.table, names)
	if set := t.Replaced(); len(set) > 0 {
		update := e
		update.ignore, update.prefix = false, strings.Replace(e.prefix, verb, "INSERT", 1)
		var to []string
		for _, c := range set {
			to = append(to, d.Quote(c.Name)+" = "+d.words().Sent(c.Name))
		}
		update.suffix = d.words().OnKey(t.PrimaryKey) + strings.Join(to, ", ")
		e.update = &update
	}
	return e
}

// appendInsert appends an INSERT of rows [row, to) of b, with values as literals. It leaves out the
// last rows if the statement would have too many rows, or more than limit bytes; the first row is
// always included. It returns the first row that isn't in the statement.
func (e *encoder) appendInsert(dst []byte, b *engine.Batch, row, to, limit int) ([]byte, int) {
	start := len(dst)
	dst = e.appendRow(append(dst, e.prefix...), b, row)
	last := row + min(to-row, e.rowLimit())
	for row++; row < last; row++ {
		fits := len(dst)
		dst = e.appendRow(append(dst, ','), b, row)
		if len(dst)-start > limit-len(e.suffix) {
			return append(dst[:fits], e.suffix...), row
		}
	}
	return append(dst, e.suffix...), row
}

// appendRow appends the row as a parenthesised list of literals.
func (e *encoder) appendRow(dst []byte, b *engine.Batch, row int) []byte {
	dst = append(dst, '(')
	if e.serverKey {
		dst = append(dst, "0, "...)
	}
	for c := range b.Columns {
		if c > 0 {
			dst = append(dst, ", "...)
		}
		v := &b.Columns[c]
		switch {
		case v.Null(row):
			dst = append(dst, "NULL"...)
		case v.Type == engine.Varchar || v.Type == engine.Char || v.Type == engine.Decimal:
			// A decimal is quoted too: its text may come from a file.
			dst = appendQuoted(dst, v.Value(row))
		case v.Type == engine.Time:
			dst = append(dst, '\'')
			dst = append(value.AppendTime(dst, v.Ints[row]), '\'')
		case v.Type == engine.Binary:
			dst = append(hex.AppendEncode(append(dst, "X'"...), v.Value(row)), '\'')
		case (v.Type == engine.Float64 || v.Type == engine.Float32) && v.Floats[row]-v.Floats[row] != 0:
			// NaN and infinities are encoded as text. The server refuses them as values; without quotes, it
			// would parse them as names.
			dst = append(v.AppendText(append(dst, '\''), row), '\'')
		default:
			dst = v.AppendText(dst, row)
		}
	}
	return append(dst, ')')
}

// appendQuoted appends p as a string literal with backslash escapes. In utf8mb4, no byte of a
// multi-byte character looks like a quote or a backslash.
func appendQuoted(dst, p []byte) []byte {
	dst = append(dst, '\'')
	start := 0
	for i, c := range p {
		var esc byte
		switch c {
		case '\'', '\\':
			esc = c
		case 0:
			esc = '0'
		default:
			continue
		}
		dst = append(append(dst, p[start:i]...), '\\', esc)
		start = i + 1
	}
	return append(append(dst, p[start:]...), '\'')
}

// maxPlaceholders is the largest number of values that a prepared statement can
// bind: the protocol has 16 bits for it.
const maxPlaceholders = 65535

// perStatement returns the largest number of rows that a prepared statement can bind.
func (e *encoder) perStatement() int {
	return max(1, min(e.rowLimit(), maxPlaceholders/max(1, e.columns)))
}

// placeholders returns an INSERT of n rows with a ? for each value.
func (e *encoder) placeholders(n int) string {
	values := slices.Repeat([]string{"?"}, e.columns)
	if e.serverKey {
		values = append([]string{"0"}, values...)
	}
	row := "(" + strings.Join(values, ", ") + ")"
	return e.prefix + strings.Repeat(row+",", n-1) + row
}

// load returns the LOAD DATA statement for a stream of the given name.
func (e *encoder) load(name string) string {
	ignore := ""
	if e.ignore {
		ignore = "IGNORE " // LOCAL implies it; here it is explicit
	}
	return fmt.Sprintf(`LOAD DATA LOCAL INFILE 'Reader::%s' %sINTO TABLE %s CHARACTER SET utf8mb4 `+
		`FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n' (%s)%s`, name, ignore, e.table, e.fields, e.set)
}

// loadFields renders the columns of LOAD DATA and its SET clause. Bytes are sent as hexadecimal
// digits, because they would be invalid in the text's character set.
func (d dialect) loadFields(cols []engine.Column) (fields, set string) {
	names, sets := make([]string, len(cols)), []string(nil)
	for i, c := range cols {
		if names[i] = d.Quote(c.Name); c.Type == engine.Binary {
			variable := fmt.Sprintf("@rowmill_%d", i)
			sets = append(sets, fmt.Sprintf("%s = UNHEX(%s)", names[i], variable))
			names[i] = variable
		}
	}
	if len(sets) > 0 {
		set = " SET " + strings.Join(sets, ", ")
	}
	return strings.Join(names, ", "), set
}

// appendLine appends the row in the format that load declares.
func (e *encoder) appendLine(dst []byte, b *engine.Batch, row int) []byte {
	for c := range b.Columns {
		if c > 0 {
			dst = append(dst, '\t')
		}
		v := &b.Columns[c]
		switch {
		case v.Null(row):
			dst = append(dst, '\\', 'N')
		case v.Type == engine.Varchar || v.Type == engine.Char || v.Type == engine.Decimal:
			dst = engine.AppendEscaped(dst, v.Value(row))
		case v.Type == engine.Binary:
			dst = hex.AppendEncode(dst, v.Value(row))
		case (v.Type == engine.Float64 || v.Type == engine.Float32) && v.Floats[row] == 0:
			dst = append(dst, '0') // as a literal, -0 is 0
		default:
			dst = v.AppendText(dst, row)
		}
	}
	return append(dst, '\n')
}

// A binder converts rows to the driver's values, which are interfaces. It allocates no memory for
// each value: a number's interface points into the binder's memory, which is reused for the next
// batch. So the values are valid until the next call of bind or reset; the driver keeps none.
type binder struct {
	values []driver.Value
	ints   []int64
	floats []float64
	bytes  [][]byte
	text   []byte // times
}

// eface is the compiler's layout of an empty interface: see runtime2.go of Go's runtime. TestBinder
// fails if that layout changes.
type eface struct{ typ, data unsafe.Pointer }

// box returns an interface of sample's type that refers to data.
func box(sample driver.Value, data unsafe.Pointer) driver.Value {
	(*eface)(unsafe.Pointer(&sample)).data = data
	return sample
}

// Samples of the types that the driver accepts.
var (
	intSample   driver.Value = int64(0)
	floatSample driver.Value = float64(0)
	bytesSample driver.Value = []byte{}
)

// bind returns the values of rows [from, to), row by row.
func (n *binder) bind(b *engine.Batch, from, to int) []driver.Value {
	n.reset()
	for row := from; row < to; row++ {
		for c := range b.Columns {
			n.values = append(n.values, n.value(&b.Columns[c], row))
		}
	}
	return n.values
}

func (n *binder) reset() {
	n.values, n.ints, n.floats, n.bytes, n.text = n.values[:0], n.ints[:0], n.floats[:0], n.bytes[:0], n.text[:0]
}

// add binds one value for a column of type t.
func (n *binder) add(t engine.Type, v engine.Value) {
	var bound driver.Value
	switch t {
	case engine.Float32:
		bound = n.float(float64(float32(v.Float)))
	case engine.Float64:
		bound = n.float(v.Float)
	case engine.Time:
		bound = n.time(v.Int)
	default:
		bound = n.int(v.Int)
	}
	n.values = append(n.values, bound)
}

// value binds one value. If a slice grows, values bound earlier still refer to its old memory.
func (n *binder) value(v *engine.Vector, row int) driver.Value {
	if v.Null(row) {
		return nil
	}
	switch v.Type {
	case engine.Float32, engine.Float64:
		return n.float(v.Floats[row])
	case engine.Varchar, engine.Char, engine.Decimal, engine.Binary:
		return n.textValue(v.Value(row))
	case engine.Time:
		return n.time(v.Ints[row])
	}
	return n.int(v.Ints[row])
}

func (n *binder) int(i int64) driver.Value {
	n.ints = append(n.ints, i)
	return box(intSample, unsafe.Pointer(&n.ints[len(n.ints)-1]))
}

func (n *binder) float(f float64) driver.Value {
	n.floats = append(n.floats, f)
	return box(floatSample, unsafe.Pointer(&n.floats[len(n.floats)-1]))
}

func (n *binder) time(us int64) driver.Value {
	start := len(n.text)
	n.text = value.AppendTime(n.text, us)
	return n.textValue(n.text[start:])
}

func (n *binder) textValue(p []byte) driver.Value {
	if p == nil {
		p = []byte{} // the driver sends a nil slice as NULL
	}
	n.bytes = append(n.bytes, p)
	return box(bytesSample, unsafe.Pointer(&n.bytes[len(n.bytes)-1]))
}
