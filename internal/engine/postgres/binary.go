package postgres

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// With COPY in binary format, the client writes no text and the server reads none: this saves a
// third of the work for a row of numbers. rowmill uses it only if the server stores the same value
// as from text. So the column's type must be known, and the binary form must be what the type's
// input function makes of the text.

// A binaryForm appends the length of a value, and then the value itself. The value isn't NULL. It
// reports false if the server might read the value's text as another value, or refuse it.
type binaryForm func(dst []byte, v *engine.Vector, row int) (_ []byte, ok bool)

// binaryForms returns the forms in which values of cols are sent, or nil if a column has no binary
// form.
func binaryForms(cols []engine.Column, s *engine.Schema) []binaryForm {
	forms := make([]binaryForm, len(cols))
	for i, c := range cols {
		have := s.Find(c.Name)
		if have == nil || have.Array {
			return nil
		}
		if forms[i] = binaryFormOf(c.Type, have); forms[i] == nil {
			return nil
		}
	}
	return forms
}

func binaryFormOf(t engine.Type, have *engine.SchemaColumn) binaryForm {
	text := t == engine.Varchar || t == engine.Char || t == engine.Decimal
	integer := t == engine.Int32 || t == engine.Int64
	switch {
	case have.Kind == value.Int && integer:
		return map[int]binaryForm{16: binaryInt2, 32: binaryInt4, 64: binaryInt8}[have.Bits]
	case have.Kind == value.Float && text:
		return map[int]binaryForm{32: binaryFloat4, 64: binaryFloat8}[have.Bits]
	case have.Kind == value.Decimal && text:
		return binaryDecimal
	case have.Kind == value.Time && have.Logical == value.Plain && t == engine.Time:
		return binaryTime
	case have.Kind == value.Text && text && have.Native != "name", // the server truncates names
		have.Kind == value.Bytes && t == engine.Binary:
		return binaryBytes
	case have.Logical == value.Bool && text:
		return binaryBool
	}
	return nil
}

func binaryInt2(dst []byte, v *engine.Vector, row int) ([]byte, bool) {
	n := v.Ints[row]
	return binary.BigEndian.AppendUint16(append(dst, 0, 0, 0, 2), uint16(n)), n == int64(int16(n))
}

func binaryInt4(dst []byte, v *engine.Vector, row int) ([]byte, bool) {
	n := v.Ints[row]
	return binary.BigEndian.AppendUint32(append(dst, 0, 0, 0, 4), uint32(n)), n == int64(int32(n))
}

func binaryInt8(dst []byte, v *engine.Vector, row int) ([]byte, bool) {
	return binary.BigEndian.AppendUint64(append(dst, 0, 0, 0, 8), uint64(v.Ints[row])), true
}

func binaryFloat4(dst []byte, v *engine.Vector, row int) ([]byte, bool) {
	x, ok := finite(v.Value(row), 32)
	return binary.BigEndian.AppendUint32(append(dst, 0, 0, 0, 4), math.Float32bits(float32(x))), ok
}

func binaryFloat8(dst []byte, v *engine.Vector, row int) ([]byte, bool) {
	x, ok := finite(v.Value(row), 64)
	return binary.BigEndian.AppendUint64(append(dst, 0, 0, 0, 8), math.Float64bits(x)), ok
}

// finite reads a floating-point number. It reports false for NaN and infinities, and for a number
// so close to 0 that it reads as 0: the server refuses such a number.
func finite(text []byte, bits int) (float64, bool) {
	x, err := value.ParseFloat(text, bits)
	return x, err == nil && x-x == 0 && (x != 0 || !bytes.ContainsAny(text, "123456789"))
}

func binaryDecimal(dst []byte, v *engine.Vector, row int) ([]byte, bool) {
	start := len(dst)
	dst, ok := appendNumeric(append(dst, 0, 0, 0, 0), v.Value(row))
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
	return dst, ok
}

// firstYear is the beginning of the year 1. The server's text of a time has no year 0.
const firstYear = int64(-62135596800e6)

func binaryTime(dst []byte, v *engine.Vector, row int) ([]byte, bool) {
	us := v.Ints[row]
	return binary.BigEndian.AppendUint64(append(dst, 0, 0, 0, 8), uint64(us-epoch)), us >= firstYear
}

func binaryBytes(dst []byte, v *engine.Vector, row int) ([]byte, bool) {
	p := v.Value(row)
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(p))), p...), true
}

func binaryBool(dst []byte, v *engine.Vector, row int) ([]byte, bool) {
	is, ok := value.Truth(v.Value(row))
	if is {
		return append(dst, 0, 0, 0, 1, 1), ok
	}
	return append(dst, 0, 0, 0, 1, 0), ok
}

// errText reports a value that is sent as text only.
var errText = errors.New("a value that COPY takes as text only")

// appendForms appends the row in the binary format.
func (e *encoder) appendForms(dst []byte, forms []binaryForm, b *engine.Batch, row int) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(forms)))
	for c, form := range forms {
		v, ok := &b.Columns[c], true
		if v.Null(row) {
			dst = append(dst, 0xff, 0xff, 0xff, 0xff)
		} else if dst, ok = form(dst, v, row); !ok {
			e.fail(c, errText)
		}
	}
	return dst
}

// mistyped reports whether the server has read more or fewer bytes than rowmill sent for a value.
// The code is then invalid_binary_representation, or protocol_violation, which here does not mean
// that the connection is lost.
func mistyped(err error) bool {
	var server *pgconn.PgError
	return errors.As(err, &server) && (server.Code == "08P01" || server.Code == "22P03")
}

// sameTypes returns a query that has a result if the columns' types are no longer those of s. The
// same eight bytes are a number in one type and a time in another. The query runs once the COPY has
// locked the table, so that the types can't change afterwards.
func (e *encoder) sameTypes(s *engine.Schema) string {
	types := make([]string, len(e.columns))
	for i, c := range e.columns {
		types[i] = fmt.Sprintf("(%s, %s)", quoteText(c.Name), quoteText(s.Find(c.Name).Native))
	}
	return fmt.Sprintf("SELECT 1 FROM pg_catalog.pg_attribute WHERE attrelid = %s::pg_catalog.regclass AND "+
		"(attname, pg_catalog.format_type(atttypid, atttypmod)) IN (%s) HAVING count(*) <> %d", quoteText(e.table), strings.Join(types, ", "), len(types))
}
