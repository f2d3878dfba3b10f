package workload

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A filler appends the value of a column of a row to its vector. now is the
// present time, as a position.
type filler func(v *engine.Vector, row, now int64)

// errNoValues is the reason why the server must fill a column.
var errNoValues = errors.New("no values of this type are known; give it a default, or let it be NULL")

// digit returns the i-th number in a type's name.
func digit(digits []int, i, without int) int {
	if i < len(digits) {
		return digits[i]
	}
	return without
}

// intRanges are the maximum values of integer types.
var intRanges = map[string]int64{"tinyint": math.MaxInt8, "smallint": math.MaxInt16, "int2": math.MaxInt16, "mediumint": 1<<23 - 1,
	"int": math.MaxInt32, "integer": math.MaxInt32, "int4": math.MaxInt32, "year": 0}

// Limits of generated values: short texts, small numbers.
const (
	textLength    = 12
	smallNumbers  = 1000
	maxTextLength = 64
)

// keySpace returns the number of different values that a column can have as part
// of a key.
func keySpace(c engine.SchemaColumn) int64 {
	name, digits := engine.NativeType(c.Native)
	switch c.Kind {
	case engine.KindInt:
		if n, ok := intRanges[name]; ok {
			return n
		}
		return math.MaxInt64
	case engine.KindDecimal:
		whole := digit(digits, 0, 10) - digit(digits, 1, 0)
		return int64(math.Pow10(min(max(whole, 0), 18))) - 1
	case engine.KindText, engine.KindBytes:
		switch name {
		case "enum", "set", "json", "bit":
			return 0
		}
		return int64(math.Pow(16, float64(min(digit(digits, 0, textLength), textLength)))) - 1
	}
	if name == "uuid" {
		return math.MaxInt64
	}
	return 0
}

// byColumn returns the filler of the column that partitions the table.
func (w *Keep) byColumn(t *engine.Table, c engine.SchemaColumn) (filler, engine.Column, error) {
	col := engine.Column{Name: c.Name, Type: engine.Time}
	switch {
	case t.Grid.Axis() == rolling.Sequence:
		col.Type = engine.Int64
		return func(v *engine.Vector, row, _ int64) { v.Ints = append(v.Ints, row) }, col, nil
	case t.Epoch > 0:
		col.Type = engine.Int64
		per := t.Epoch.Microseconds()
		return func(v *engine.Vector, _, now int64) { v.Ints = append(v.Ints, now/per) }, col, nil
	case c.Kind != engine.KindTime:
		return nil, col, errNoValues
	}
	return wholeSeconds, col, nil
}

// wholeSeconds appends the present time, in the representation of writers.
func wholeSeconds(v *engine.Vector, _, now int64) {
	v.Ints = append(v.Ints, now-(now%1e6+1e6)%1e6)
}

// column returns the filler of any other column. If rows must differ in it, the
// values are a permutation of all keys; otherwise they are random.
func (w *Keep) column(c engine.SchemaColumn, counted bool) (filler, engine.Column, error) {
	name, digits := engine.NativeType(c.Native)
	col := engine.Column{Name: c.Name, Null: c.Null}
	salt := w.opt.Seed
	for _, b := range []byte(c.Name) {
		salt = mix(salt ^ uint64(b))
	}
	value := func(row int64) uint64 { return mix(salt ^ uint64(row)) }
	space := min(w.opt.Keys, keySpace(c))
	if counted {
		step := coprime(space)
		value = func(row int64) uint64 { return uint64((row%space)*step%space + 1) }
	}
	// below returns a number of the key space, or a small one.
	below := func(row, most int64) int64 {
		if counted {
			return min(int64(value(row)), most)
		}
		return int64(value(row) % uint64(max(min(smallNumbers, most), 1)))
	}
	switch c.Kind {
	case engine.KindInt:
		col.Type = engine.Int64
		if intRanges[name] == math.MaxInt32 {
			col.Type = engine.Int32 // binary protocols require the column's own type
		}
		most := int64(math.MaxInt64)
		if n, ok := intRanges[name]; ok {
			most = n
		}
		return func(v *engine.Vector, row, _ int64) { v.Ints = append(v.Ints, below(row, most)) }, col, nil
	case engine.KindFloat:
		col.Type = engine.Float64
		if name == "float" || name == "float4" || name == "real" {
			col.Type = engine.Float32
		}
		// A quarter of an integer is exact in every binary floating-point type.
		return func(v *engine.Vector, row, _ int64) { v.Floats = append(v.Floats, float64(value(row)%40_000)/4) }, col, nil
	case engine.KindDecimal:
		col.Type = engine.Decimal
		col.Size = min(max(digit(digits, 0, 10), 1), 65)
		most := int64(math.Pow10(min(max(col.Size-digit(digits, 1, 0), 0), 18))) - 1
		return func(v *engine.Vector, row, _ int64) {
			v.Bytes = strconv.AppendInt(v.Bytes, below(row, most), 10)
			v.EndBytes()
		}, col, nil
	case engine.KindTime:
		col.Type = engine.Time
		return wholeSeconds, col, nil
	case engine.KindText, engine.KindBytes, engine.KindOther:
		col.Type, col.Size = engine.Varchar, min(max(digit(digits, 0, textLength), 1), maxTextLength)
		text, err := textOf(c, name, counted, value, min(col.Size, textLength))
		return func(v *engine.Vector, row, _ int64) {
			v.Bytes = text(v.Bytes, row)
			v.EndBytes()
		}, col, err
	}
	return nil, col, errNoValues
}

// textOf returns the filler for types that are written as text.
func textOf(c engine.SchemaColumn, name string, counted bool, value func(int64) uint64, length int) (func([]byte, int64) []byte, error) {
	switch {
	case name == "enum" || name == "set":
		words := literals(c.Native)
		if len(words) == 0 {
			return nil, errNoValues
		}
		return func(dst []byte, row int64) []byte { return append(dst, words[value(row)%uint64(len(words))]...) }, nil
	case name == "longtext" && !counted:
		// MariaDB's JSON type is longtext: a quoted text is valid as both.
		return func(dst []byte, row int64) []byte { return fmt.Appendf(dst, `"%012x"`, value(row)>>16) }, nil
	case name == "json" || name == "jsonb":
		return func(dst []byte, row int64) []byte { return fmt.Appendf(dst, `{"n": %d}`, value(row)%smallNumbers) }, nil
	case name == "uuid":
		return func(dst []byte, row int64) []byte {
			a := value(row)
			b := mix(a)
			return fmt.Appendf(dst, "%08x-%04x-4%03x-8%03x-%012x", uint32(a>>32), uint16(a>>16), a&0xfff, b>>52, b&(1<<48-1))
		}, nil
	case name == "boolean" || name == "bool":
		return func(dst []byte, row int64) []byte { return append(dst, "tf"[value(row)&1]) }, nil
	case c.Kind == engine.KindOther || name == "bit" || strings.HasSuffix(name, "[]") || isSpatial[name]:
		return nil, errNoValues
	case counted:
		return func(dst []byte, row int64) []byte { return fmt.Appendf(dst, "%0*x", length, value(row)) }, nil
	}
	return func(dst []byte, row int64) []byte {
		text := fmt.Sprintf("%016x", value(row))
		return append(dst, text[:min(length, len(text))]...)
	}, nil
}

// isSpatial are types whose values are not written as text.
var isSpatial = map[string]bool{"geometry": true, "point": true, "linestring": true, "polygon": true, "multipoint": true,
	"multilinestring": true, "multipolygon": true, "geometrycollection": true, "geomcollection": true}

// literals returns the words of enum('a','b') that contain no quote.
func literals(native string) (out []string) {
	for _, m := range regexp.MustCompile(`'([^',\\]+)'`).FindAllStringSubmatch(native, -1) {
		out = append(out, m[1])
	}
	return out
}

// coprime returns a step with which a walk visits all n values, in an order that
// is not favorable to an index.
func coprime(n int64) int64 {
	if n <= 2 {
		return 1
	}
	// The golden ratio spreads the steps most evenly.
	for step := int64(float64(n)*0.618033988749895) | 1; ; step++ {
		if gcd(step, n) == 1 {
			return step
		}
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
