package tabular

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"reflect"
	"strconv"

	"github.com/parquet-go/parquet-go"
)

// MaxPrecision is the most digits of a decimal that all common readers of Parquet take.
const MaxPrecision = 38

// A Field is a column of a Parquet schema.
type Field struct {
	Name string
	Node parquet.Node
}

// NewSchema returns a schema whose columns keep their order. (parquet.Group sorts them by name.)
func NewSchema(name string, fields []Field) *parquet.Schema {
	g := &group{fields: make([]parquet.Field, len(fields))}
	for i, f := range fields {
		g.fields[i] = &field{f.Node, f.Name}
	}
	return parquet.NewSchema(name, g)
}

// A group is the root of a schema.
type group struct {
	parquet.Group // for methods that don't depend on columns
	fields        []parquet.Field
}

// Fields returns the columns in their order.
func (g *group) Fields() []parquet.Field { return g.fields }

// GoType is not used.
func (g *group) GoType() reflect.Type { return reflect.TypeFor[map[string]any]() }

type field struct {
	parquet.Node
	name string
}

func (f *field) Name() string { return f.name }

func (f *field) Value(base reflect.Value) reflect.Value {
	return base.MapIndex(reflect.ValueOf(f.name))
}

// Decimal returns a column of decimals: precision is 1 to MaxPrecision, scale 0 to precision.
func Decimal(precision, scale int) parquet.Node {
	as := parquet.FixedLenByteArrayType(decimalBytes(precision))
	if precision <= 9 {
		as = parquet.Int32Type
	} else if precision <= 18 {
		as = parquet.Int64Type
	}
	return parquet.Decimal(scale, precision, as)
}

// decimalBytes returns a decimal's bytes: precision*log2(10) bits, and one for the sign.
func decimalBytes(precision int) int {
	return int(math.Ceil((float64(precision)*math.Log2(10) + 1) / 8))
}

// DecimalValue returns a value from its digits, e.g. -1250 for -12.50; false if there are too many.
func DecimalValue(digits []byte, precision int) (parquet.Value, bool) {
	if len(bytes.TrimLeft(digits, "-")) == 0 || len(bytes.TrimLeft(digits, "-0")) > precision {
		return parquet.Value{}, false
	}
	if precision <= 18 {
		v, err := strconv.ParseInt(string(digits), 10, 64)
		if precision <= 9 {
			return parquet.Int32Value(int32(v)), err == nil
		}
		return parquet.Int64Value(v), err == nil
	}
	// 38 digits are less than 2^127.
	negative := digits[0] == '-'
	var high, low uint64
	for _, c := range bytes.TrimLeft(digits, "-") {
		if c -= '0'; c > 9 {
			return parquet.Value{}, false
		}
		carry, l := bits.Mul64(low, 10)
		var more uint64
		low, more = bits.Add64(l, uint64(c), 0)
		high = high*10 + carry + more
	}
	if negative { // two's complement
		var borrow uint64
		low, borrow = bits.Sub64(0, low, 0)
		high, _ = bits.Sub64(0, high, borrow)
	}
	var out [16]byte
	binary.BigEndian.PutUint64(out[:8], high)
	binary.BigEndian.PutUint64(out[8:], low)
	return parquet.FixedLenByteArrayValue(out[16-decimalBytes(precision):]), true
}

// DecimalDigits is the inverse of DecimalValue.
func DecimalDigits(v parquet.Value, precision int) string {
	switch {
	case precision <= 9:
		return strconv.FormatInt(int64(v.Int32()), 10)
	case precision <= 18:
		return strconv.FormatInt(v.Int64(), 10)
	}
	b := v.ByteArray()
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(len(b)*8)))
	}
	return n.String()
}
