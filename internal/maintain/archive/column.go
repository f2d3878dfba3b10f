package archive

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/tabular"
	"github.com/rowmill/rowmill/internal/value"
)

// A form is the representation of a column's values in a file.
type form string

// Forms. A column whose form can't restore a value falls back to text, and text to bytes.
const (
	formInt       form = "int64"
	formDouble    form = "double"
	formFloat     form = "float" // a floating-point number of 32 bits
	formDecimal   form = "decimal"
	formTimestamp form = "timestamp" // microseconds since 1970, UTC
	formDate      form = "date"      // days since 1970
	formText      form = "text"      // valid UTF-8
	formBytes     form = "bytes"
)

// A column is a column of a file. Its JSON is part of the format.
type column struct {
	Name string `json:"name"`
	// Native is the type as written by the server.
	Native string `json:"native"`
	Kind   string `json:"kind"`
	Null   bool   `json:"null,omitempty"`
	Form   form   `json:"form"`
	// Precision and Scale are set for a decimal.
	Precision int `json:"precision,omitempty"`
	Scale     int `json:"scale,omitempty"`
	// Layout describes how the server writes a time.
	Layout layout `json:"layout,omitzero"`

	layouts []layout // while writing: the layouts that fit all values so far
	nan     bool     // a float column contains NaN
}

var errUnfit = errors.New("doesn't fit")

const maxPrecision = tabular.MaxPrecision

func columnOf(c engine.SchemaColumn) column {
	out := column{Name: c.Name, Native: c.Native, Kind: c.Kind.String(), Null: c.Null, Form: formText}
	switch {
	case c.Kind == value.Int:
		out.Form = formInt
	case c.Kind == value.Float && c.Bits == 32:
		out.Form = formFloat
	case c.Kind == value.Float:
		out.Form = formDouble
	case c.Kind == value.Decimal && c.Precision >= 1 && c.Precision <= maxPrecision && c.Scale >= 0 && c.Scale <= c.Precision:
		out.Form, out.Precision, out.Scale = formDecimal, c.Precision, c.Scale
	case c.Kind == value.Time && c.Logical == value.Date:
		out.Form = formDate
	case c.Kind == value.Time:
		out.Form = formTimestamp
	case c.Kind == value.Bytes:
		out.Form = formBytes
	}
	return out
}

// widen changes the column to a form that represents more values.
func (c *column) widen(null bool) error {
	c.layouts, c.Layout, c.nan = nil, layout{}, false
	switch {
	case null && !c.Null:
		c.Null = true
	case c.Form == formFloat:
		c.Form = formDouble
	case c.Form == formText:
		c.Form = formBytes
	case c.Form == formBytes:
		return fmt.Errorf("column %s: a value fits no form", c.Name)
	default:
		c.Form, c.Precision, c.Scale = formText, 0, 0
	}
	return nil
}

func (c *column) node() parquet.Node {
	var n parquet.Node
	switch c.Form {
	case formInt:
		n = parquet.Encoded(parquet.Int(64), &parquet.DeltaBinaryPacked)
	case formDouble:
		n = parquet.Leaf(parquet.DoubleType)
	case formFloat:
		n = parquet.Leaf(parquet.FloatType)
	case formDecimal:
		n = tabular.Decimal(c.Precision, c.Scale)
	case formTimestamp:
		n = parquet.Encoded(parquet.Timestamp(parquet.Microsecond), &parquet.DeltaBinaryPacked)
	case formDate:
		n = parquet.Date()
	case formText:
		n = parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
	default:
		n = parquet.Leaf(parquet.ByteArrayType)
	}
	if c.Null {
		n = parquet.Optional(n)
	}
	return n
}

// encode converts the server's text to a value, which may share the memory of the text. It returns
// errUnfit if the text could not be restored exactly from the value.
func (c *column) encode(text []byte) (parquet.Value, error) {
	switch c.Form {
	case formInt:
		var buf [20]byte
		v, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil || !bytes.Equal(strconv.AppendInt(buf[:0], v, 10), text) {
			return parquet.Value{}, errUnfit
		}
		return parquet.Int64Value(v), nil
	case formDouble:
		v, err := value.ParseFloat(text, 64)
		if err != nil {
			return parquet.Value{}, errUnfit
		}
		c.nan = c.nan || v != v
		return parquet.DoubleValue(v), nil
	case formFloat:
		return c.encodeFloat(text)
	case formDecimal:
		return c.encodeDecimal(text)
	case formTimestamp, formDate:
		return c.encodeTime(text)
	case formText:
		if !utf8.Valid(text) {
			return parquet.Value{}, errUnfit
		}
	}
	return parquet.ByteArrayValue(text), nil
}

// encodeFloat encodes a 32-bit value. Its text must be the shortest one, or the exact value.
func (c *column) encodeFloat(text []byte) (parquet.Value, error) {
	v, err := value.ParseFloat(text, 32)
	if err != nil {
		return parquet.Value{}, errUnfit
	}
	wide, err := value.ParseFloat(text, 64)
	if err != nil {
		return parquet.Value{}, errUnfit
	}
	if wide != v && !(wide != wide && v != v) {
		short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', -1, 32), 64)
		if err != nil || short != wide {
			return parquet.Value{}, errUnfit
		}
	}
	c.nan = c.nan || v != v
	return parquet.FloatValue(float32(v)), nil
}

func (c *column) encodeDecimal(text []byte) (parquet.Value, error) {
	var buf [maxPrecision + 2]byte
	if len(text) > maxPrecision+2 {
		return parquet.Value{}, errUnfit
	}
	digits, exact := value.AppendUnscaled(buf[:0], text, c.Scale)
	if !exact {
		return parquet.Value{}, errUnfit
	}
	v, fits := tabular.DecimalValue(digits, c.Precision)
	if !fits {
		return parquet.Value{}, errUnfit
	}
	return v, nil
}

// boundAs is the type as which a restoration sends the column's values to the server.
func (c *column) boundAs() engine.Type {
	switch c.Form {
	case formInt:
		return engine.Int64
	case formDouble, formFloat:
		return engine.Float64
	case formText, formBytes:
		if c.Kind == value.Bytes.String() {
			return engine.Binary
		}
	}
	return engine.Varchar
}

// appendTo appends a value to a vector of type boundAs, and returns the value's size.
func (c *column) appendTo(to *engine.Vector, v parquet.Value) int {
	if v.IsNull() {
		to.AppendNull()
		return 8
	}
	switch c.Form {
	case formInt:
		to.Ints = append(to.Ints, v.Int64())
		return 8
	case formDouble:
		to.Floats = append(to.Floats, v.Double())
		return 8
	case formFloat:
		to.Floats = append(to.Floats, float64(v.Float()))
		return 8
	}
	before := len(to.Bytes)
	switch c.Form {
	case formDecimal:
		to.Bytes = append(to.Bytes, c.decimalText(v)...)
	case formTimestamp:
		to.Bytes = c.Layout.append(to.Bytes, v.Int64())
	case formDate:
		to.Bytes = c.Layout.append(to.Bytes, int64(v.Int32())*microsPerDay)
	default:
		to.Bytes = append(to.Bytes, v.ByteArray()...)
	}
	to.EndBytes()
	return len(to.Bytes) - before + 8
}

func (c *column) decimalText(v parquet.Value) string {
	return value.FormatUnscaled(tabular.DecimalDigits(v, c.Precision), c.Scale)
}

func (c *column) check() error {
	switch c.Form {
	case formInt, formDouble, formFloat, formTimestamp, formDate, formText, formBytes:
		return nil
	case formDecimal:
		if c.Precision >= 1 && c.Precision <= maxPrecision && c.Scale >= 0 && c.Scale <= c.Precision {
			return nil
		}
	}
	return fmt.Errorf("column %s: form %q of %d and %d is unknown", c.Name, c.Form, c.Precision, c.Scale)
}
