package workload

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/rolling"
)

// Values of the columns of any table, by the types that a server has described: of a declared
// table's (own.go), and of a table under maintenance (keep.go).

// Defaults of columns without a description.
const (
	mostDistinct    = 1 << 40
	defaultDistinct = 100_000
	ownTextLeast    = 8
	ownTextMost     = 24
)

// A madeColumn makes the values of a column.
type madeColumn struct {
	engine.Column
	null   uint64 // of 2^64, how many draws are NULL
	source draw.Source
	put    put
}

// A put appends the value with a number.
type put func(v *engine.Vector, n uint64)

// A form makes numbers values of a column's type.
type form struct {
	*engine.SchemaColumn
	v       rolling.ColumnValues
	clock   clock
	counted bool // rows of a tick must differ
	salt    uint64
}

// form sets the type and the put of a column, and returns how many values there is room for. It
// refuses, with a hint, parts of the description that mean nothing for the type; without values of
// the type it is errNoValues.
func (f *form) form(col *madeColumn) (space int64, err error) {
	col.Column = engine.Column{Name: f.Name, Type: engine.Varchar, Size: 1, Null: f.Null} // the size is as declared
	if f.v.Null > 0 && !f.Null {
		return 0, engine.Hinted(fmt.Errorf("null = %v, and the column is NOT NULL", f.v.Null), "leave null out")
	}
	col.null = uint64(f.v.Null * 0x1p64 * (1 - 0x1p-53)) // the factor is the greatest float64 below 2^64
	listed, json := f.Logical == value.Enum || f.Logical == value.Set, f.Logical == value.JSON || f.Logical == value.TextOrJSON
	number := f.Numeric() || f.Logical == value.Bool || f.Logical == value.Year
	text := !f.Array && (f.Kind == value.Text || f.Kind == value.Bytes && f.Logical == value.Plain || json)
	list := f.list()
	for _, x := range []struct {
		given, fits bool
		what        string
	}{
		{f.v.HasRange, number, "from and to are for numbers"},
		{f.v.Length[1] > 0, text && !listed, "length is for texts and bytes"},
		{f.v.Length[1] > f.Length, f.Length == 0, fmt.Sprintf("texts of up to %d", f.v.Length[1])},
		{f.v.Words != nil, text && f.Kind == value.Text && f.Logical != value.JSON, "words are for texts"},
		{listed, !slices.ContainsFunc(f.v.Words, func(w string) bool { return !slices.Contains(list, w) }), "words are some of its values"},
	} {
		if x.given && !x.fits {
			return 0, engine.Hinted(fmt.Errorf("%s, and its type is %s", x.what, f.Native), "leave it out, or what the type has")
		}
	}
	if f.v.Words != nil {
		list = f.v.Words
	}
	switch {
	case f.Array:
	case len(list) > 0:
		col.put = texts(func(dst []byte, n uint64) []byte { return append(dst, list[n%uint64(len(list))]...) })
		f.v.Distinct = int64(len(list))
		return f.v.Distinct, nil
	case number:
		return f.numbers(col)
	case f.Kind == value.Time || f.Logical == value.Date:
		at, unit := f.times()
		if col.Type, col.put = engine.Time, ints(at); f.Logical == value.Date {
			col.Type, col.put = engine.Varchar, timeTexts(at, 0, len("1970-01-01"))
		}
		return virtualStart / unit, nil
	case f.Logical == value.Clock:
		to, fraction := len(value.TimeLayout), int64(0)
		if f.Digits > 0 { // a fraction ends in 1: servers leave zeros out, or don't
			to, fraction = to+1+f.Digits, int64(math.Pow10(6-f.Digits))
		}
		col.put = timeTexts(func(n uint64) int64 { return int64(n%86400)*1e6 + fraction }, len("1970-01-01 "), to)
		return 86400, nil
	case f.Logical == value.UUID:
		col.put, f.v.Distinct = texts(f.uuid), cmp.Or(f.v.Distinct, mostDistinct)
		return mostDistinct, nil
	case text && !listed:
		return f.texts(col, json), nil
	}
	return 0, errNoValues
}

// list returns the values of a type that has some by name: members that any client can write, or
// truths that are no numbers.
func (f *form) list() []string {
	if f.Logical == value.Bool && f.Kind == value.Other && f.Type.Exact == 0 {
		return []string{"f", "t"}
	}
	return slices.DeleteFunc(slices.Clone(f.Members), func(m string) bool { return m == "" || strings.ContainsAny(m, `',\`) })
}

// numberOf returns as what numbers of a type are sent, their least and greatest value, and how many
// steps there are from one integer to the next.
func numberOf(t value.Type) (col engine.Column, least, most, unit float64) {
	unit = 1
	switch digits := cmp.Or(t.Precision, anyPrecision); {
	case t.Logical == value.Bool:
		return engine.Column{Type: engine.Int64}, 0, 1, 1
	case t.Logical == value.Year:
		return engine.Column{Type: engine.Int64}, 1970, 2069, 1
	case t.Kind == value.Int:
		col.Type, most = pick(t.Bits == 32 && !t.Unsigned, engine.Int32, engine.Int64), float64(greatestInt(t))
	case t.Kind == value.Decimal && t.Bits == 64: // an integer without a sign
		col.Type, most = engine.Int64, 1<<62
	case t.Kind == value.Float && t.Bits == 32: // a multiple of a quarter is exact in every binary fraction
		col.Type, most, unit = engine.Float32, 1<<20, 4
	case t.Kind == value.Float || t.Exact > 0:
		col.Type, most, unit = engine.Float64, mostDistinct, 4
	default:
		unit = math.Pow10(t.Scale)
		col, most = engine.Column{Type: engine.Decimal, Size: digits, Scale: t.Scale}, min((math.Pow10(min(digits, 15))-1)/unit, mostDistinct)
	}
	return col, pick(t.Unsigned, 0, -most), most, unit
}

// numbers makes columns of integers, fractions and decimals.
func (f *form) numbers(col *madeColumn) (space int64, err error) {
	sent, least, most, unit := numberOf(f.Type)
	col.Type, col.Size, col.Scale = sent.Type, sent.Size, sent.Scale
	from, to := max(least, 0), most
	if f.v.HasRange {
		from, to = f.v.From, f.v.To
	}
	if from < least || to > most {
		return 0, engine.Hinted(fmt.Errorf("%v to %v is beyond %s, of which %v to %v can be had", from, to, f.Native, least, most), "a range within")
	}
	first, room, step := int64(math.Ceil(from*unit)), uint64(max(min((to-from)*unit+1, mostDistinct), 1)), uint64(1)
	if f.v.HasRange && f.v.Order == rolling.OrderRandom && !f.counted { // spread over the range
		step = max(1, room/uint64(cmp.Or(f.v.Distinct, defaultDistinct)))
	}
	if f.v.Order == rolling.OrderRecent { // no key is near the one before
		step = uint64(draw.Coprime(int64(room)))
	}
	place := func(n uint64) int64 { return first + int64(draw.TimesModulo(n, step, room)) }
	switch scale := f.Scale; col.Type {
	case engine.Float32, engine.Float64:
		col.put = func(v *engine.Vector, n uint64) { v.Floats = append(v.Floats, float64(place(n))/4) }
	case engine.Decimal:
		col.put = texts(func(dst []byte, n uint64) []byte { return append(dst, decimal(place(n), scale)...) })
	default:
		col.put = ints(place)
	}
	return int64(room), nil
}

// resolution returns the microseconds that a column of times or dates tells apart.
func resolution(t value.Type) int64 {
	if t.Logical == value.Date {
		return 86400e6
	}
	return int64(math.Pow10(6 - min(t.Digits, 6)))
}

// times returns the time of a number: when the key was new, or one of the past; and its resolution.
func (f *form) times() (at func(n uint64) int64, unit int64) {
	unit = resolution(f.Type)
	if f.v.Order == rolling.OrderRandom {
		unit = max(unit, 1e6)
		return func(n uint64) int64 { return (virtualStart/unit - int64(n)%(virtualStart/unit)) * unit }, unit
	}
	clock, share := f.clock, cmp.Or(f.v.New, 1)
	return func(n uint64) int64 {
		t := clock.within(int64(float64(n) / share))
		return t - t%unit
	}, unit
}

// timeTexts makes texts of the characters [from, to) of times.
func timeTexts(at func(n uint64) int64, from, to int) put {
	return texts(func(dst []byte, n uint64) []byte {
		var text [26]byte
		return append(dst, value.AppendTime(text[:0], at(n))[from:to]...)
	})
}

func (f *form) uuid(dst []byte, n uint64) []byte {
	a, b := draw.Mix(n^f.salt), n
	if f.v.Order == rolling.OrderAscending {
		a, b = n<<16, a
	}
	for i := range 32 {
		if i == 16 {
			a = b
		}
		if i >= 8 && i <= 20 && i%4 == 0 {
			dst = append(dst, '-')
		}
		dst, a = append(dst, "0123456789abcdef"[a>>60]), a<<4
	}
	return dst
}

// A letter of a number has textBits of it; there is no upper case, so that texts differ in every
// collation.
const (
	textBits   = 5
	ownLetters = "0123456789abcdefghijklmnopqrstuv"
)

// texts makes texts and bytes that begin with the letters of the number: the last one first, unless
// they ascend.
func (f *form) texts(col *madeColumn, json bool) (space int64) {
	least, most, quote := f.v.Length[0], f.v.Length[1], ""
	if most == 0 {
		least, most = ownTextLeast, ownTextMost
	}
	if f.Length > 0 {
		least, most = min(least, f.Length), min(most, f.Length)
	}
	name := value.ParseName(f.Native)
	if f.Length > 0 && slices.Contains([]string{"char", "character", "bpchar", "binary"}, name.First) && !name.Has("varying") { // padded otherwise
		least, most = f.Length, f.Length
	}
	if json {
		quote, least, most = `"`, max(least-2, 0), max(most-2, 1)
	}
	space = 1 << min(textBits*most, bits.Len64(mostDistinct)-1)
	f.v.Distinct = min(cmp.Or(f.v.Distinct, mostDistinct), space)
	width, ascends, spread := (bits.Len64(uint64(f.v.Distinct-1))+textBits-1)/textBits, f.v.Order == rolling.OrderAscending, uint64(1)
	if f.v.Order != rolling.OrderRandom {
		width = min(10, most)
	}
	if f.v.Order == rolling.OrderRecent { // still different, and not near the one before
		spread = draw.Golden
	}
	if f.counted {
		least = max(least, width)
	}
	if f.Kind == value.Bytes {
		col.Type = engine.Binary
	}
	salt, lengths := f.salt, uint64(most-least+1)
	col.put = texts(func(dst []byte, n uint64) []byte {
		h := draw.Mix(n ^ salt)
		length := least + int(h>>32%lengths)
		dst, n = append(dst, quote...), n*spread
		for i := range min(width, length) {
			dst = append(dst, ownLetters[n>>(textBits*pick(ascends, width-1-i, i))&31])
		}
		d := draw.Values(h)
		return append(draw.AppendLetters(dst, &d, length-width), quote...)
	})
	return space
}

func ints(of func(n uint64) int64) put {
	return func(v *engine.Vector, n uint64) { v.Ints = append(v.Ints, of(n)) }
}

func texts(appended func(dst []byte, n uint64) []byte) put {
	return func(v *engine.Vector, n uint64) {
		v.Bytes = appended(v.Bytes, n)
		v.EndBytes()
	}
}

func digits[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// decimal returns the text of a number of units, of which 10^scale make one.
func decimal(units int64, scale int) string { return value.FormatUnscaled(digits(units), scale) }
