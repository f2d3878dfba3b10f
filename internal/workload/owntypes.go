package workload

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// Defaults of columns without a description.
const (
	mostDistinct    = 1 << 40
	defaultDistinct = 100_000
	ownTextLeast    = 8
	ownTextMost     = 24
)

const day = int64(86400e6) // in microseconds

// resolution returns the microseconds that a column of times or dates tells apart.
func resolution(t value.Type) int64 {
	if t.Logical == value.Date {
		return day
	}
	return int64(math.Pow10(6 - min(t.Digits, 6)))
}

func integerType(t value.Type) engine.Type {
	if t.Bits == 32 && !t.Unsigned {
		return engine.Int32
	}
	return engine.Int64
}

// column returns the generator of a column. Rows of a tick must differ in a counted one.
func (o *Own) column(p *preset, c *engine.SchemaColumn, counted bool) (ownColumn, error) {
	f := form{Own: o, SchemaColumn: c, clock: p.clock, counted: counted, salt: saltOf(golden, c.Name)}
	if v := o.described(c.Name); v != nil {
		f.v = *v
	}
	if f.v.Order == 0 {
		f.v.Order = rolling.OrderRandom
		if (c.Name == o.Time || c.Auto || c.Kind == value.Time || c.Logical == value.Date) && f.v.Distinct == 0 && f.v.Skew == 0 && f.v.Heavy == nil && !f.v.HasRange {
			f.v.Order = rolling.OrderAscending
		}
	}
	col := ownColumn{Column: engine.Column{Name: c.Name, Null: c.Null}}
	if f.v.Null > 0 && !c.Null {
		return col, o.refuse(c.Name, "leave null out", "null = %v, and the column is NOT NULL", f.v.Null)
	}
	// The factor is the greatest float64 below 2^64.
	col.null = uint64(f.v.Null * 0x1p64 * (1 - 0x1p-53))
	space, err := f.form(&col)
	if err != nil {
		return col, err
	}
	col.source, err = f.source(space)
	return col, err
}

// A form makes numbers values of a column's type.
type form struct {
	*Own
	*engine.SchemaColumn
	v       rolling.ColumnValues
	clock   clock
	counted bool
	salt    uint64
}

// source returns the numbers of a column that has room for space values.
func (f *form) source(space int64) (source, error) {
	tick, share := f.clock.rows, cmp.Or(f.v.New, 1)
	if f.v.Order != rolling.OrderRandom {
		s := source{share: share, last: uint64(float64(f.v.Window) * share)}
		if !f.counted || f.v.Order == rolling.OrderAscending && f.v.Window == 0 && share == 1 {
			return s, nil
		}
		s.last = max(s.last, uint64(tick)+1)
		return s.apart(tick), nil
	}
	usual, most := int64(defaultDistinct), 1.0
	if f.counted {
		usual, most = max(10*tick, 1_000_000), (1-1e-3)/float64(tick)
	}
	distinct := min(cmp.Or(f.v.Distinct, usual), space)
	r, err := newRanks(distinct, f.v.Heavy, f.v.Skew, most)
	if err != nil {
		return source{}, f.refuse(f.Name, "a greater distinct, or a lower rows-per-second", "%d values can't tell apart the %d rows of one time", distinct, tick)
	}
	s := source{ranks: r}
	if f.counted {
		s = s.apart(tick)
	}
	return s, nil
}

// form sets the type and the put of a column, and returns how many values there is room for. It refuses parts of the
// description that mean nothing for the type.
func (f *form) form(col *ownColumn) (space int64, err error) {
	listed, json := f.Logical == value.Enum || f.Logical == value.Set, f.Logical == value.JSON || f.Logical == value.TextOrJSON
	text := !f.Array && (f.Kind == value.Text || f.Kind == value.Bytes && f.Logical == value.Plain || json)
	for _, x := range []struct {
		given, fits bool
		what        string
	}{
		{f.v.HasRange, f.Numeric() && f.Logical != value.Bool, "from and to are for numbers"},
		{f.v.Length[1] > 0, text && !listed, "length is for texts and bytes"},
		{f.v.Words != nil, text && f.Kind == value.Text && f.Logical != value.JSON, "words are for texts"},
	} {
		if x.given && !x.fits {
			return 0, f.refuse(f.Name, "leave it out", "%s, and its type is %s", x.what, f.Native)
		}
	}
	set := func(t engine.Type, size int, p put) { col.Type, col.Size, col.put = t, size, p }
	switch {
	case f.Array:
	case f.Logical == value.Bool && f.Kind == value.Other && f.Type.Exact == 0:
		set(engine.Varchar, 1, words([]string{"f", "t"}))
		return 2, nil
	case f.Logical == value.Bool:
		set(engine.Int64, 0, ints(func(n uint64) int64 { return int64(n % 2) }))
		return 2, nil
	case f.Logical == value.Year:
		set(engine.Int64, 0, ints(func(n uint64) int64 { return 1970 + int64(n%100) }))
		return 100, nil
	case f.Numeric():
		return f.numbers(col)
	case f.Kind == value.Time || f.Logical == value.Date:
		at, unit := f.times()
		if set(engine.Time, 0, ints(at)); f.Logical == value.Date {
			set(engine.Varchar, 10, texts(func(dst []byte, n uint64) []byte {
				dst = value.AppendTime(dst, at(n))
				return dst[:len(dst)-len(" 00:00:00")]
			}))
		}
		return virtualStart / unit, nil
	case f.Logical == value.Clock:
		set(engine.Varchar, 15, texts(clockTime(f.Digits)))
		return 86400, nil
	case f.Logical == value.UUID:
		set(engine.Varchar, 36, texts(f.uuid))
		f.v.Distinct = cmp.Or(f.v.Distinct, mostDistinct)
		return mostDistinct, nil
	case listed || f.v.Words != nil:
		list := f.v.Words
		if list == nil {
			list = f.members()
		}
		for _, w := range list {
			if listed && !slices.Contains(f.members(), w) {
				return 0, f.refuse(f.Name, "one of "+Join(f.members()), "%q is none of its values", w)
			}
			if col.Size = max(col.Size, len(w), 1); f.Length > 0 && len(w) > f.Length {
				return 0, f.refuse(f.Name, "shorter words", "a word has %d bytes, and the column %d", len(w), f.Length)
			}
		}
		if len(list) == 0 {
			return 0, errNoValues
		}
		set(engine.Varchar, col.Size, words(list))
		f.v.Distinct = int64(len(list))
		return f.v.Distinct, nil
	case text:
		return mostDistinct, f.texts(col, json)
	}
	return 0, errNoValues
}

// members returns the members of an Enum or Set that any client can write.
func (f *form) members() []string {
	return slices.DeleteFunc(slices.Clone(f.Members), func(m string) bool { return m == "" || strings.ContainsAny(m, `',\`) })
}

// numberOf returns as what numbers of a type are sent, their greatest value, and how many steps there are from one integer to the next.
func numberOf(t value.Type) (col engine.Column, most, unit float64) {
	switch {
	case t.Kind == value.Int:
		return engine.Column{Type: integerType(t)}, float64(greatestInt(t)), 1
	case t.Kind == value.Decimal && t.Bits == 64: // an integer without a sign
		return engine.Column{Type: engine.Int64}, 1 << 62, 1
	case t.Kind == value.Float && t.Bits == 32: // a multiple of a quarter is exact in every binary fraction
		return engine.Column{Type: engine.Float32}, 1 << 20, 4
	case t.Kind == value.Float || t.Exact > 0:
		return engine.Column{Type: engine.Float64}, mostDistinct, 4
	}
	digits := cmp.Or(t.Precision, anyPrecision)
	unit = math.Pow10(t.Scale)
	return engine.Column{Type: engine.Decimal, Size: digits, Scale: t.Scale}, min((math.Pow10(min(digits, 15))-1)/unit, mostDistinct), unit
}

// numbers makes columns of integers, fractions and decimals.
func (f *form) numbers(col *ownColumn) (space int64, err error) {
	sent, most, unit := numberOf(f.Type)
	col.Type, col.Size, col.Scale = sent.Type, sent.Size, sent.Scale
	least := -most
	if f.Unsigned {
		least = 0
	}
	from, to := 0.0, most
	if f.v.HasRange {
		from, to = f.v.From, f.v.To
	}
	if from < least || to > most {
		return 0, f.refuse(f.Name, "a range within", "%v to %v is beyond %s, of which %v to %v can be had", from, to, f.Native, least, most)
	}
	room, step := uint64(max(min((to-from)*unit+1, mostDistinct), 1)), uint64(1)
	if f.v.HasRange && f.v.Order == rolling.OrderRandom && !f.counted { // spread over the range
		step = max(1, room/uint64(cmp.Or(f.v.Distinct, defaultDistinct)))
	}
	if f.v.Order == rolling.OrderRecent { // no key is near the one before
		step = uint64(coprime(int64(room)))
	}
	first := int64(math.Ceil(from * unit))
	place := func(n uint64) int64 { return first + int64(timesModulo(n, step, room)) }
	switch scale := f.Scale; col.Type {
	case engine.Float32, engine.Float64:
		col.put = func(v *engine.Vector, n uint64) { v.Floats = append(v.Floats, float64(place(n))/4) }
	case engine.Decimal:
		col.put = texts(func(dst []byte, n uint64) []byte {
			return append(dst, value.FormatUnscaled(strconv.FormatInt(place(n), 10), scale)...)
		})
	default:
		col.put = ints(place)
	}
	return int64(room), nil
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

// clockTime appends times of day. A fraction ends in 1: servers leave zeros out, or don't.
func clockTime(digits int) func(dst []byte, n uint64) []byte {
	length, fraction := len("00:00:00"), int64(0)
	if digits > 0 {
		length, fraction = length+1+digits, int64(math.Pow10(6-digits))
	}
	return func(dst []byte, n uint64) []byte {
		var text [26]byte
		return append(dst, value.AppendTime(text[:0], int64(n%86400)*1e6+fraction)[len("1970-01-01 "):][:length]...)
	}
}

func (f *form) uuid(dst []byte, n uint64) []byte {
	a, b := mix(n^f.salt), n
	if f.v.Order == rolling.OrderAscending {
		a, b = n<<16, a
	}
	var id [16]byte
	binary.BigEndian.PutUint64(id[:], a)
	binary.BigEndian.PutUint64(id[8:], b)
	rest := id[:]
	for _, bytes := range [5]int{4, 2, 2, 2, 6} {
		if len(rest) < len(id) {
			dst = append(dst, '-')
		}
		dst, rest = hex.AppendEncode(dst, rest[:bytes]), rest[bytes:]
	}
	return dst
}

// A letter of a text has textBits of a number; there is no upper case, so that texts differ in every collation.
const (
	textBits      = 5
	lettersOfHash = 12
	ownLetters    = "0123456789abcdefghijklmnopqrstuv"
)

// texts makes texts and bytes that begin with the letters of the number: the last one first, unless they ascend.
func (f *form) texts(col *ownColumn, json bool) error {
	least, most := f.v.Length[0], f.v.Length[1]
	name := value.ParseName(f.Native)
	if f.Length > 0 && most > f.Length {
		return f.refuse(f.Name, "at most "+strconv.Itoa(f.Length), "texts of up to %d, and its type is %s", most, f.Native)
	}
	if most == 0 {
		least, most = ownTextLeast, ownTextMost
	}
	if f.Length > 0 {
		least, most = min(least, f.Length), min(most, f.Length)
	}
	if slices.Contains([]string{"char", "character", "bpchar", "binary"}, name.First) && !name.Has("varying") { // padded otherwise
		least, most = f.Length, f.Length
	}
	quote := ""
	if json {
		quote, least, most = `"`, max(least-2, 0), max(most-2, 1)
	}
	if col.Type, col.Size = engine.Varchar, most+2*len(quote); f.Kind == value.Bytes {
		col.Type = engine.Binary
	}
	f.v.Distinct = cmp.Or(f.v.Distinct, mostDistinct)
	width := (bits.Len64(uint64(f.v.Distinct)) + textBits - 1) / textBits
	if f.v.Order != rolling.OrderRandom {
		width = min(10, most)
	}
	if f.counted {
		if width > most {
			return f.refuse(f.Name, "a greater length, or a smaller distinct", "texts of at most %d characters can't number %d values", most, f.v.Distinct)
		}
		least = max(least, width)
	}
	salt, lengths, order := f.salt, uint64(most-least+1), f.v.Order
	col.put = texts(func(dst []byte, n uint64) []byte {
		h := mix(n ^ salt)
		length := least + int(h>>32%lengths)
		if order == rolling.OrderRecent { // still different, and not near the one before
			n *= golden
		}
		dst = append(dst, quote...)
		for i := range length {
			digit := i
			if order == rolling.OrderAscending {
				digit = width - 1 - i
			}
			if i < width {
				dst = append(dst, ownLetters[n>>(textBits*digit)&31])
				continue
			}
			if (i-width)%lettersOfHash == 0 {
				h = mix(h)
			}
			dst = append(dst, ownLetters[h&31])
			h >>= textBits
		}
		return append(dst, quote...)
	})
	return nil
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

func words(list []string) put {
	return texts(func(dst []byte, n uint64) []byte { return append(dst, list[n%uint64(len(list))]...) })
}
