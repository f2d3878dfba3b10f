package workload

import (
	"cmp"
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
	smallDistinct   = 100
	ownTextLeast    = 8
	ownTextMost     = 24
	ownJSONMost     = 60
)

// resolution returns the microseconds that a column of times tells apart.
func resolution(t value.Type) int64 { return int64(math.Pow10(6 - min(t.Digits, 6))) }

func integerType(t value.Type) engine.Type {
	if t.Bits == 32 && !t.Unsigned {
		return engine.Int32
	}
	return engine.Int64
}

// column returns the generator of a column that isn't the time. Rows of a tick must differ in a
// counted one.
func (o *Own) column(p *preset, c *engine.SchemaColumn, counted bool) (ownColumn, error) {
	v := rolling.ColumnValues{}
	if d := o.described(c.Name); d != nil {
		v = *d
	}
	f := form{Own: o, SchemaColumn: c, v: v, clock: p.clock, counted: counted, salt: golden}
	for _, b := range []byte(c.Name) {
		f.salt = mix(f.salt ^ uint64(b))
	}
	if f.v.Order == 0 {
		f.v.Order = rolling.OrderRandom
		if (c.Auto || c.Kind == value.Time || c.Logical == value.Date) && !f.random() {
			f.v.Order = rolling.OrderAscending
		}
	}
	col := ownColumn{Column: engine.Column{Name: c.Name, Null: c.Null}}
	if v.Null > 0 && !c.Null {
		return col, o.refuse(c.Name, "leave null out", "null = %v, and the column is NOT NULL", v.Null)
	}
	// The factor is the greatest float64 below 2^64.
	col.null = uint64(v.Null * 0x1p64 * (1 - 0x1p-53))
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

// random reports whether the description is one of distinct values.
func (f *form) random() bool {
	return f.v.Distinct > 0 || f.v.Skew > 0 || len(f.v.Heavy) > 0 || f.v.HasRange || f.v.Words != nil
}

// source returns the numbers of a column that has room for space values.
func (f *form) source(space int64) (source, error) {
	rows := f.clock.rows
	if f.v.Order != rolling.OrderRandom {
		share := cmp.Or(f.v.New, 1)
		s := sequenced{share: share, last: uint64(float64(f.v.Window) * share)}
		if f.v.Order == rolling.OrderAscending && f.v.Window == 0 && share == 1 || !f.counted {
			return s, nil
		}
		s.last = max(s.last, uint64(rows)+1)
		return newTicked(s, rows), nil
	}
	distinct := min(f.v.Distinct, space)
	if distinct == 0 {
		distinct = min(defaultDistinct, space)
		if f.counted {
			distinct = min(max(10*rows, 1_000_000), space)
		}
	}
	most := 1.0
	if f.counted {
		most = (1 - 1e-3) / float64(rows)
	}
	r, err := newRanked(distinct, f.v.Heavy, f.v.Skew, most)
	if err != nil {
		return nil, f.refuse(f.Name, "a greater distinct, or a lower rows-per-second", "%d values can't tell apart the %d rows of one time", distinct, rows)
	}
	if f.counted {
		return newTicked(r, rows), nil
	}
	return r, nil
}

// only refuses parts of the description that mean nothing for the type.
func (f *form) only(numbers, lengths, words bool) error {
	what := ""
	switch {
	case f.v.HasRange && !numbers:
		what = "from and to are for numbers"
	case f.v.Length[1] > 0 && !lengths:
		what = "length is for texts and bytes"
	case f.v.Words != nil && !words:
		what = "words are for texts"
	default:
		return nil
	}
	return f.refuse(f.Name, "leave it out", "%s, and its type is %s", what, f.Native)
}

// form sets the type and the put of a column, and returns how many values there is room for.
func (f *form) form(col *ownColumn) (space int64, err error) {
	number, text := f.Numeric() || f.Logical == value.Year, false
	if !f.Array {
		text = f.Kind == value.Text || f.Kind == value.Bytes && f.Logical == value.Plain || f.Logical == value.JSON
	}
	if err := f.only(number && f.Logical != value.Bool, text && f.Logical != value.Enum && f.Logical != value.Set, text && f.Logical != value.JSON && f.Kind == value.Text); err != nil {
		return 0, err
	}
	switch {
	case f.Array:
	case f.Logical == value.Bool && f.Kind == value.Other && f.Type.Exact == 0:
		col.Type, col.Size, col.put = engine.Varchar, 1, putWord([]string{"f", "t"})
		return 2, nil
	case f.Logical == value.Bool:
		col.Type, col.put = engine.Int64, putInt(0)
		return 2, nil
	case f.Logical == value.Year:
		col.Type, col.put = engine.Int64, func(v *engine.Vector, n uint64) { v.Ints = append(v.Ints, 1970+int64(n%100)) }
		return 100, nil
	case f.Kind == value.Int, f.Kind == value.Float, f.Kind == value.Decimal:
		return f.numbers(col)
	case f.Logical == value.Date:
		const day = 86400e6
		col.Type, col.Size, col.put = engine.Varchar, 10, func(v *engine.Vector, n uint64) {
			at := virtualStart - int64(n%20_000)*day
			if f.v.Order != rolling.OrderRandom {
				at = f.clock.within(int64(float64(n) / cmp.Or(f.v.New, 1)))
			}
			v.Bytes = value.AppendTime(v.Bytes, at-at%day)
			v.Bytes = v.Bytes[:len(v.Bytes)-len(" 00:00:00")]
			v.EndBytes()
		}
		return 20_000, nil
	case f.Kind == value.Time:
		col.Type, col.put = engine.Time, putTime(f.clock, resolution(f.Type), cmp.Or(f.v.New, 1))
		if f.v.Order == rolling.OrderRandom {
			col.put = func(v *engine.Vector, n uint64) { v.Ints = append(v.Ints, virtualStart-int64(n%100_000_000)*1e6) }
		}
		return 100_000_000, nil
	case f.Logical == value.Clock:
		col.Type, col.Size, col.put = engine.Varchar, 15, putClock(f.Digits)
		return 86400, nil
	case f.Logical == value.UUID:
		col.Type, col.Size, col.put = engine.Varchar, 36, putUUID(f.salt, f.v.Order == rolling.OrderAscending)
		if f.v.Distinct == 0 {
			f.v.Distinct = mostDistinct
		}
		return mostDistinct, nil
	case f.Logical == value.Enum || f.Logical == value.Set || f.v.Words != nil:
		return f.words(col)
	case text:
		return f.texts(col)
	}
	return 0, errNoValues
}

func (f *form) words(col *ownColumn) (space int64, err error) {
	words := f.v.Words
	if f.Logical == value.Enum || f.Logical == value.Set {
		known := slices.DeleteFunc(slices.Clone(f.Members), func(m string) bool { return m == "" || strings.ContainsAny(m, `',\`) })
		if words == nil {
			words = known
		}
		if len(words) == 0 {
			return 0, errNoValues
		}
		for _, w := range words {
			if !slices.Contains(known, w) {
				return 0, f.refuse(f.Name, "one of "+Join(known), "%q is none of its values", w)
			}
		}
	}
	col.Type, col.Size = engine.Varchar, max(1, len(slices.MaxFunc(words, func(a, b string) int { return len(a) - len(b) })))
	if f.Length > 0 && col.Size > f.Length {
		return 0, f.refuse(f.Name, "shorter words", "a word has %d bytes, and the column %d", col.Size, f.Length)
	}
	f.v.Distinct, col.put = int64(len(words)), putWord(words)
	return int64(len(words)), nil
}

// numbers makes columns of integers, fractions and decimals, in steps of their scale.
func (f *form) numbers(col *ownColumn) (space int64, err error) {
	unit, most := 1.0, float64(mostDistinct)
	switch {
	case f.Kind == value.Int:
		col.Type = integerType(f.Type)
		most = float64(greatestInt(f.Type))
	case f.Kind == value.Decimal && f.Bits == 64: // an integer without a sign
		col.Type, most = engine.Int64, 1<<62
	case f.Kind == value.Float || f.Type.Exact > 0:
		// A multiple of a quarter is exact in every binary fraction.
		col.Type, unit = engine.Float64, 4
		if f.Bits == 32 {
			col.Type, most = engine.Float32, 1<<20
		}
	default:
		col.Type, col.Size, col.Scale = engine.Decimal, cmp.Or(f.Precision, anyPrecision), f.Scale
		unit = math.Pow10(f.Scale)
		most = min(math.Pow10(min(col.Size, 15))-1, most*unit) / unit
	}
	least := -most
	if f.Unsigned {
		least = 0
	}
	if f.v.HasRange && (f.v.From < least || f.v.To > most) {
		return 0, f.refuse(f.Name, "a range within", "%v to %v is beyond %s, of which %v to %v can be had", f.v.From, f.v.To, f.Native, least, most)
	}
	from, span := 0.0, most
	if f.v.HasRange {
		from, span = math.Ceil(f.v.From*unit), f.v.To-f.v.From
	}
	room := uint64(max(min(span*unit+1, mostDistinct), 1))
	distinct := cmp.Or(min(uint64(f.v.Distinct), room), min(defaultDistinct, room))
	if f.Kind == value.Int && f.Bits > 0 && f.Bits <= 16 && f.v.Distinct == 0 && !f.v.HasRange && !f.counted {
		distinct = min(smallDistinct, room)
	}
	if f.v.Distinct == 0 && !f.counted {
		f.v.Distinct = int64(distinct)
	}
	step := uint64(1)
	if f.v.HasRange && f.v.Order == rolling.OrderRandom && !f.counted {
		step = max(1, room/distinct)
	}
	salt, recent := f.salt, f.v.Order == rolling.OrderRecent
	place := func(n uint64) int64 {
		if recent {
			n = mix(n ^ salt)
		}
		return int64(from) + int64(n*step%room)
	}
	scale := f.Scale
	switch col.Type {
	case engine.Float32, engine.Float64:
		col.put = func(v *engine.Vector, n uint64) { v.Floats = append(v.Floats, float64(place(n))/4) }
	case engine.Decimal:
		col.put = func(v *engine.Vector, n uint64) {
			v.Bytes = appendScaled(v.Bytes, place(n), scale)
			v.EndBytes()
		}
	default:
		col.put = func(v *engine.Vector, n uint64) { v.Ints = append(v.Ints, place(n)) }
	}
	return int64(room), nil
}

// appendScaled appends n / 10^scale.
func appendScaled(dst []byte, n int64, scale int) []byte {
	if n < 0 {
		dst, n = append(dst, '-'), -n
	}
	start := len(dst)
	dst = strconv.AppendInt(dst, n, 10)
	if scale == 0 {
		return dst
	}
	for len(dst)-start <= scale {
		dst = slices.Insert(dst, start, '0')
	}
	return slices.Insert(dst, len(dst)-scale, '.')
}

// textBits is how many bits a character of a text has; its alphabet has no upper case, so that
// texts differ in every collation.
const (
	textBits      = 5
	lettersOfHash = 12
	ownLetters    = "0123456789abcdefghijklmnopqrstuv"
)

func (f *form) texts(col *ownColumn) (space int64, err error) {
	least, most := f.v.Length[0], f.v.Length[1]
	name := value.ParseName(f.Native)
	fixed := (slices.Contains([]string{"char", "character", "bpchar", "binary"}, name.First) && !name.Has("varying"))
	limit := f.Length
	if limit > 0 && most > limit {
		return 0, f.refuse(f.Name, "at most "+strconv.Itoa(limit), "texts of up to %d, and its type is %s", most, f.Native)
	}
	if most == 0 {
		least, most = ownTextLeast, ownTextMost
		if f.Logical == value.JSON || f.Logical == value.TextOrJSON {
			most = ownJSONMost
		}
		if limit > 0 {
			least, most = min(least, limit), min(most, limit)
		}
	}
	before, after := "", ""
	switch {
	case f.Logical == value.JSON:
		before, after = `{"v": "`, `"}`
	case f.Logical == value.TextOrJSON:
		before, after = `"`, `"`
	}
	wide := len(before) + len(after)
	least, most = max(least-wide, 0), max(most-wide, 1)
	col.Type, col.Size = engine.Varchar, max(most+wide, 1)
	switch {
	case f.Kind == value.Bytes:
		col.Type = engine.Binary
		if fixed {
			least, most = limit, limit
		}
	case fixed:
		col.Type = engine.Char
	}
	recent, ascending := f.v.Order == rolling.OrderRecent, f.v.Order == rolling.OrderAscending
	f.v.Distinct = cmp.Or(f.v.Distinct, mostDistinct)
	width := 13 // of any number
	if !recent {
		width = (bits.Len64(uint64(f.v.Distinct)) + textBits - 1) / textBits
		if ascending {
			width = min(10, most)
		}
	}
	if f.counted {
		if width > most {
			return 0, f.refuse(f.Name, "a greater length, or a smaller distinct", "texts of at most %d characters can't number %d values", most, f.v.Distinct)
		}
		least = max(least, width)
	}
	salt, lengths := f.salt, uint64(most-least+1)
	col.put = func(v *engine.Vector, n uint64) {
		h := mix(n ^ salt)
		length := least + int(h>>32%lengths)
		if recent {
			n = h
		}
		dst := append(v.Bytes, before...)
		for i := range length {
			if i < width {
				dst = append(dst, ownLetters[n>>(textBits*(width-1-i))&31])
				continue
			}
			if (i-width)%lettersOfHash == 0 {
				h = mix(h)
			}
			dst = append(dst, ownLetters[h&31])
			h >>= textBits
		}
		v.Bytes = append(dst, after...)
		v.EndBytes()
	}
	return mostDistinct, nil
}

func putInt(from int64) put {
	return func(v *engine.Vector, n uint64) { v.Ints = append(v.Ints, from+int64(n)) }
}

// putTime appends the time at which a key was new, a share of the rows having one.
func putTime(c clock, resolution int64, share float64) put {
	return func(v *engine.Vector, n uint64) {
		seq := int64(n)
		if share < 1 {
			seq = int64(float64(n) / share)
		}
		at := c.within(seq)
		v.Ints = append(v.Ints, at-at%resolution)
	}
}

func putWord(words []string) put {
	return func(v *engine.Vector, n uint64) {
		v.Bytes = append(v.Bytes, words[n%uint64(len(words))]...)
		v.EndBytes()
	}
}

// putClock appends times of day. A fraction ends in 1: servers leave zeros out, or don't.
func putClock(digits int) put {
	fraction := ""
	if digits > 0 {
		fraction = "." + strings.Repeat("0", digits-1) + "1"
	}
	return func(v *engine.Vector, n uint64) {
		dst := v.Bytes
		for i, x := range [3]uint64{n / 3600 % 24, n / 60 % 60, n % 60} {
			if i > 0 {
				dst = append(dst, ':')
			}
			dst = append(dst, byte('0'+x/10), byte('0'+x%10))
		}
		v.Bytes = append(dst, fraction...)
		v.EndBytes()
	}
}

func putUUID(salt uint64, ascending bool) put {
	const digits = "0123456789abcdef"
	return func(v *engine.Vector, n uint64) {
		a, b := mix(n^salt), n
		if ascending {
			a, b = n<<16, mix(n^salt)
		}
		dst := v.Bytes
		for i := range 32 {
			x := a
			if i >= 16 {
				x = b
			}
			if i == 8 || i == 12 || i == 16 || i == 20 {
				dst = append(dst, '-')
			}
			dst = append(dst, digits[x>>(60-4*(i%16))&15])
		}
		v.Bytes = dst
		v.EndBytes()
	}
}
