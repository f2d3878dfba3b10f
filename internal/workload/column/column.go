// Package column makes values for a column of any table. The server has described the column's
// type; a declaration may describe its values. A [draw.Source] chooses a number for each row, and a
// [Generator] turns the number into a value of the column's type.
package column

import (
	"cmp"
	"errors"
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

// MostDistinct is the largest number of distinct values of a column.
const MostDistinct = 1 << 40

// Defaults of columns that the declaration doesn't describe: the number of distinct values, and the
// length of texts.
const (
	defaultDistinct       = 100_000
	leastLetters, letters = 8, 24
)

// Limits of values without a declared size.
const (
	textLength   = 12 // letters of a text in a unique key
	anyPrecision = 10 // digits of a decimal declared without a precision
)

// ErrNoValues means that rowmill knows no values of a column's type: the server must fill the
// column.
var ErrNoValues = errors.New("no values of this type are known; give it a default, or let it be NULL")

// A Generator makes the values of a column.
type Generator struct {
	engine.Column
	Source draw.Source
	// Put appends the value of a number to the column's vector.
	Put Put

	null uint64 // how many of 2^64 draws are NULL
}

// A Put appends the value of number n.
type Put func(v *engine.Vector, n uint64)

// nullDraw separates the draw for NULL from the draw for the value: it is odd, and unrelated to
// draw.Golden.
const nullDraw = 0xa0761d6478bd642f

// Append appends the value of row seq; salt is the column's own.
func (g *Generator) Append(v *engine.Vector, s draw.Stream, seq int64, salt uint64) {
	u := draw.Mix(uint64(s.Row(seq)) + salt)
	if g.null > 0 && draw.Mix(u+nullDraw) < g.null {
		v.AppendNull()
		return
	}
	g.Put(v, g.Source.Number(s, seq, u))
}

// A Column is a column as the server describes it, with its Values as a declaration describes them.
type Column struct {
	*engine.SchemaColumn
	Values rolling.ColumnValues
	// Clock is the table's clock. Counted means that all rows of a tick have different values.
	Clock   draw.Clock
	Counted bool
	Salt    uint64
}

// Generator returns a generator of the column's values, and how many different values it can make.
// The caller sets the generator's Source. Generator refuses, with a hint, a declared description
// that doesn't fit the type, e.g. a length for integers. The error is ErrNoValues if no values of
// the type are known.
func (c *Column) Generator() (g Generator, space int64, err error) {
	g.Column = engine.Column{Name: c.Name, Type: engine.Varchar, Size: 1, Null: c.Null} // any valid Size: the server has the table
	if c.Values.Null > 0 && !c.Null {
		return g, 0, engine.Hinted(fmt.Errorf("null = %v, and the column is NOT NULL", c.Values.Null), "leave null out")
	}
	g.null = uint64(c.Values.Null * 0x1p64 * (1 - 0x1p-53)) // the factor is the greatest float64 below 2^64
	listed, json := c.Logical == value.Enum || c.Logical == value.Set, c.Logical == value.JSON || c.Logical == value.TextOrJSON
	number := c.Numeric() || c.Logical == value.Bool || c.Logical == value.Year
	text := !c.Array && (c.Kind == value.Text || c.Kind == value.Bytes && c.Logical == value.Plain || json)
	list := c.list()
	for _, x := range []struct {
		given, fits bool
		what        string
	}{
		{c.Values.HasRange, number, "from and to are for numbers"},
		{c.Values.Length[1] > 0, text && !listed, "length is for texts and bytes"},
		{c.Values.Length[1] > c.Length, c.Length == 0, fmt.Sprintf("texts of up to %d", c.Values.Length[1])},
		{c.Values.Words != nil, text && c.Kind == value.Text && c.Logical != value.JSON, "words are for texts"},
		{listed, !slices.ContainsFunc(c.Values.Words, func(w string) bool { return !slices.Contains(list, w) }), "words are some of its values"},
	} {
		if x.given && !x.fits {
			return g, 0, engine.Hinted(fmt.Errorf("%s, and its type is %s", x.what, c.Native), "leave it out, or what the type has")
		}
	}
	if c.Values.Words != nil {
		list = c.Values.Words
	}
	switch {
	case c.Array:
	case len(list) > 0:
		g.Put = texts(func(dst []byte, n uint64) []byte { return append(dst, list[n%uint64(len(list))]...) })
		c.Values.Distinct = int64(len(list))
		return g, c.Values.Distinct, nil
	case number:
		space, err = c.numbers(&g)
		return g, space, err
	case c.Kind == value.Time || c.Logical == value.Date:
		at, unit := c.times()
		if g.Type, g.Put = engine.Time, ints(at); c.Logical == value.Date {
			g.Type, g.Put = engine.Varchar, timeTexts(at, 0, len("1970-01-01"))
		}
		return g, draw.VirtualStart / unit, nil
	case c.Logical == value.Clock:
		to, fraction := len(value.TimeLayout), int64(0)
		if c.Digits > 0 { // a fraction ends in 1, because only some servers leave out zeros at the end
			to, fraction = to+1+c.Digits, int64(math.Pow10(6-c.Digits))
		}
		g.Put = timeTexts(func(n uint64) int64 { return int64(n%86400)*1e6 + fraction }, len("1970-01-01 "), to)
		return g, 86400, nil
	case c.Logical == value.UUID:
		g.Put, c.Values.Distinct = texts(c.uuid), cmp.Or(c.Values.Distinct, MostDistinct)
		return g, MostDistinct, nil
	case text && !listed:
		return g, c.texts(&g, json), nil
	}
	return g, 0, ErrNoValues
}

// list returns the values of a type that has a fixed list of them: the members of an enumeration,
// except members that need escaping, or the booleans of a server that doesn't store booleans as
// numbers.
func (c *Column) list() []string {
	if c.Logical == value.Bool && c.Kind == value.Other && c.Type.Exact == 0 {
		return []string{"f", "t"}
	}
	return slices.DeleteFunc(slices.Clone(c.Members), func(m string) bool { return m == "" || strings.ContainsAny(m, `',\`) })
}

// NumberOf says as which type the numbers of a column of type t are sent, and which numbers are
// possible: those from least to most, in steps of 1/unit. For binary fractions, unit is 4.
func NumberOf(t value.Type) (sent engine.Column, least, most, unit float64) {
	unit = 1
	switch digits := cmp.Or(t.Precision, anyPrecision); {
	case t.Logical == value.Bool:
		return engine.Column{Type: engine.Int64}, 0, 1, 1
	case t.Logical == value.Year:
		return engine.Column{Type: engine.Int64}, 1970, 2069, 1
	case t.Kind == value.Int && t.Bits == 32 && !t.Unsigned:
		sent.Type, most = engine.Int32, float64(greatestInt(t))
	case t.Kind == value.Int:
		sent.Type, most = engine.Int64, float64(greatestInt(t))
	case t.Kind == value.Decimal && t.Bits == 64: // an integer without a sign
		sent.Type, most = engine.Int64, 1<<62
	case t.Kind == value.Float && t.Bits == 32: // a multiple of a quarter is exact in every binary fraction
		sent.Type, most, unit = engine.Float32, 1<<20, 4
	case t.Kind == value.Float || t.Exact > 0:
		sent.Type, most, unit = engine.Float64, MostDistinct, 4
	default:
		unit = math.Pow10(t.Scale)
		sent, most = engine.Column{Type: engine.Decimal, Size: digits, Scale: t.Scale}, min((math.Pow10(min(digits, 15))-1)/unit, MostDistinct)
	}
	if !t.Unsigned {
		least = -most
	}
	return sent, least, most, unit
}

// numbers completes the generator of a column of integers, fractions or decimals.
func (c *Column) numbers(g *Generator) (space int64, err error) {
	sent, least, most, unit := NumberOf(c.Type)
	g.Type, g.Size, g.Scale = sent.Type, sent.Size, sent.Scale
	from, to := max(least, 0), most
	if c.Values.HasRange {
		from, to = c.Values.From, c.Values.To
	}
	if from < least || to > most {
		return 0, engine.Hinted(fmt.Errorf("%v to %v is beyond %s, of which %v to %v can be had", from, to, c.Native, least, most), "a range within")
	}
	first, room, step := int64(math.Ceil(from*unit)), uint64(max(min((to-from)*unit+1, MostDistinct), 1)), uint64(1)
	if c.Values.HasRange && c.Values.Order == rolling.OrderRandom && !c.Counted { // spread over the range
		step = max(1, room/uint64(cmp.Or(c.Values.Distinct, defaultDistinct)))
	}
	if c.Values.Order == rolling.OrderRecent { // no key is near the one before
		step = uint64(draw.Coprime(int64(room)))
	}
	place := func(n uint64) int64 { return first + int64(draw.TimesModulo(n, step, room)) }
	switch scale := c.Scale; g.Type {
	case engine.Float32, engine.Float64:
		g.Put = func(v *engine.Vector, n uint64) { v.Floats = append(v.Floats, float64(place(n))/4) }
	case engine.Decimal:
		g.Put = texts(func(dst []byte, n uint64) []byte {
			return append(dst, value.FormatUnscaled(strconv.FormatInt(place(n), 10), scale)...)
		})
	default:
		g.Put = ints(place)
	}
	return int64(room), nil
}

// Resolution returns the smallest difference between two values of a type of times or dates, in
// microseconds.
func Resolution(t value.Type) int64 {
	if t.Logical == value.Date {
		return 86400e6
	}
	return int64(math.Pow10(6 - min(t.Digits, 6)))
}

// times returns the function that turns a number into a time, and the resolution of these times.
// Number n becomes the time when key n was new or, in random order, a time before the clock's
// start.
func (c *Column) times() (at func(n uint64) int64, unit int64) {
	unit = Resolution(c.Type)
	if c.Values.Order == rolling.OrderRandom {
		unit = max(unit, 1e6)
		return func(n uint64) int64 { return (draw.VirtualStart/unit - int64(n)%(draw.VirtualStart/unit)) * unit }, unit
	}
	clock, share := c.Clock, cmp.Or(c.Values.New, 1)
	return func(n uint64) int64 {
		t := clock.Within(int64(float64(n) / share))
		return t - t%unit
	}, unit
}

// timeTexts makes a text of characters [from, to) of each time, e.g. of "2026-01-31 12:30:00".
func timeTexts(at func(n uint64) int64, from, to int) Put {
	return texts(func(dst []byte, n uint64) []byte {
		var text [26]byte
		return append(dst, value.AppendTime(text[:0], at(n))[from:to]...)
	})
}

func (c *Column) uuid(dst []byte, n uint64) []byte {
	a, b := draw.Mix(n^c.Salt), n
	if c.Values.Order == rolling.OrderAscending {
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

// A text begins with its number, written in letters of alphabet; each letter stands for textBits
// bits. The alphabet has no upper case, so that the texts differ in every collation.
const (
	textBits = 5
	alphabet = "0123456789abcdefghijklmnopqrstuv"
)

// texts completes the generator of a column of texts or bytes. Each value begins with its number,
// written in letters of the alphabet; the lowest bits come first, unless the values ascend.
func (c *Column) texts(g *Generator, json bool) (space int64) {
	least, most, quote := c.Values.Length[0], c.Values.Length[1], ""
	if most == 0 {
		least, most = leastLetters, letters
	}
	if c.Length > 0 {
		least, most = min(least, c.Length), min(most, c.Length)
	}
	name := value.ParseName(c.Native)
	if c.Length > 0 && slices.Contains([]string{"char", "character", "bpchar", "binary"}, name.First) && !name.Has("varying") { // padded otherwise
		least, most = c.Length, c.Length
	}
	if json {
		quote, least, most = `"`, max(least-2, 0), max(most-2, 1)
	}
	space = 1 << min(textBits*most, bits.Len64(MostDistinct)-1)
	c.Values.Distinct = min(cmp.Or(c.Values.Distinct, MostDistinct), space)
	width, ascends, spread := (bits.Len64(uint64(c.Values.Distinct-1))+textBits-1)/textBits, c.Values.Order == rolling.OrderAscending, uint64(1)
	if c.Values.Order != rolling.OrderRandom {
		width = min(10, most)
	}
	if c.Values.Order == rolling.OrderRecent { // texts stay different, and no text is near the one before
		spread = draw.Golden
	}
	if c.Counted {
		least = max(least, width)
	}
	if c.Kind == value.Bytes {
		g.Type = engine.Binary
	}
	salt, lengths := c.Salt, uint64(most-least+1)
	g.Put = texts(func(dst []byte, n uint64) []byte {
		h := draw.Mix(n ^ salt)
		length := least + int(h>>32%lengths)
		dst, n = append(dst, quote...), n*spread
		for i := range min(width, length) {
			at := i
			if ascends {
				at = width - 1 - i
			}
			dst = append(dst, alphabet[n>>(textBits*at)&31])
		}
		d := draw.Values(h)
		return append(draw.AppendLetters(dst, &d, length-width), quote...)
	})
	return space
}

func ints(of func(n uint64) int64) Put {
	return func(v *engine.Vector, n uint64) { v.Ints = append(v.Ints, of(n)) }
}

func texts(appended func(dst []byte, n uint64) []byte) Put {
	return func(v *engine.Vector, n uint64) {
		v.Bytes = appended(v.Bytes, n)
		v.EndBytes()
	}
}

// KeySpace returns the number of different values that a column can have as part of a key.
func KeySpace(c engine.SchemaColumn) int64 {
	switch {
	case c.Logical == value.UUID:
		return math.MaxInt64
	case c.Kind == value.Int:
		return greatestInt(c.Type)
	case c.Kind == value.Decimal:
		return wholeNumbers(c.Type)
	case c.Kind == value.Text && !slices.Contains([]value.Logical{value.Enum, value.Set, value.JSON}, c.Logical), c.Kind == value.Bytes && c.Logical != value.Bit:
		return int64(math.Pow(16, float64(min(cmp.Or(c.Length, textLength), textLength)))) - 1
	}
	return 0
}

// greatestInt returns the greatest value that writers can send for an integer column. They send
// signed integers, also for unsigned columns: the result is the greatest signed integer of the
// width.
func greatestInt(t value.Type) int64 {
	if t.Logical == value.Year {
		return 0
	}
	t.Unsigned = false
	_, most := t.IntRange()
	return most
}

// wholeNumbers returns the greatest integer of at most 18 digits that a decimal column holds.
func wholeNumbers(t value.Type) int64 {
	return int64(math.Pow10(min(max(cmp.Or(t.Precision, anyPrecision)-t.Scale, 0), 18))) - 1
}

// Counts reports whether the values come from a counter, which never repeats a value.
func Counts(v rolling.ColumnValues) bool {
	return v.Order == rolling.OrderAscending && v.Window == 0 && cmp.Or(v.New, 1) == 1
}

// NumberSource returns the source of the numbers of a column that can have space different values.
func (c *Column) NumberSource(space int64) (s draw.Source, err error) {
	tick := int64(0) // successive rows whose values must differ; 0 is none
	distinct := int64(defaultDistinct)
	if c.Counted && !Counts(c.Values) {
		tick = c.Clock.Rows
		distinct = max(10*tick, 1_000_000)
	}
	if c.Values.Order == rolling.OrderRandom {
		distinct = min(cmp.Or(c.Values.Distinct, distinct), space)
		if s.Ranks = draw.NewRanks(distinct, c.Values.Heavy, c.Values.Skew, tick); s.Ranks == nil {
			return s, engine.Hinted(fmt.Errorf("%d values can't tell apart the %d rows of one time", distinct, tick), "a greater distinct, or a lower rows-per-second")
		}
	} else {
		s.Share = cmp.Or(c.Values.New, 1)
		s.Last = uint64(float64(c.Values.Window) * s.Share)
		if tick > 0 {
			s.Last = max(s.Last, uint64(tick)+1)
		}
	}
	return s.Apart(tick), nil
}
