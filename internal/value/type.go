// Package value has the types of columns and their values: what a type holds, and how its values
// are read from text, checked and written.
//
// A Type comes from an engine's catalog, which parses the server's name of the type once
// (ParseName). All other code asks the Type, and doesn't look at the name.
//
// The package knows no server and no batch: what is read is an int64, a float64 or bytes, which the
// caller puts where it belongs.
package value

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Kind is a class of types whose values are transported in the same way.
type Kind int

const (
	Other   Kind = iota // the server's text, which the server also accepts
	Int                 // fits an int64
	Float               // a binary fraction
	Decimal             // a decimal fraction, or an integer beyond int64
	Time                // an instant or a civil time, to the microsecond, UTC
	Text                // characters
	Bytes               // anything
)

// String returns the kind's name.
func (k Kind) String() string {
	return [...]string{"other", "integer", "float", "decimal", "time", "text", "bytes"}[k]
}

// A Logical type says what values mean if their Kind doesn't say it, like Parquet's logical types.
// Kinds differ between servers: JSON is Text on one and Other on another.
type Logical int

const (
	Plain      Logical = iota
	Bit                // Type.Bits bits
	Bool               // true or false
	Date               // a day; not set for a Time with a time of day
	Clock              // a time of day, or a span of hours
	Interval           // a span of time
	Year               // four digits
	Enum               // one of Type.Members
	Set                // some of Type.Members
	JSON               //
	UUID               //
	Spatial            // a geometry
	TextOrJSON         // text, which a constraint may restrict to JSON
)

// A Type is the type of a column.
type Type struct {
	Kind    Kind
	Logical Logical
	// Bits is the width of an integer, of a binary fraction or of a Bit; 0 is unknown.
	Bits     int
	Unsigned bool
	// Precision is a decimal's number of digits, 0 for any number; Scale is how many follow the point.
	Precision, Scale int
	// Exact is 0, unless the server stores all numbers except 64-bit integers as binary fractions,
	// whatever the column's type. It is then the number of digits that a fraction keeps.
	Exact int
	// NaN reports that numbers include NaN, and binary fractions the infinities.
	NaN bool
	// Digits is the number of digits of a second that a Time, Clock or Interval keeps.
	Digits int
	// Length is the maximum length of text in characters, and of bytes; 0 is unlimited or unknown.
	Length int
	// Members are an Enum's or a Set's members. One with backslashes is listed also unescaped.
	Members []string
	// Array reports that values are arrays. Nothing is known about their elements.
	Array bool
}

// IntRange returns the smallest and the largest value of an integer type, within an int64.
func (t Type) IntRange() (from, to int64) {
	bits := t.Bits
	if bits == 0 {
		bits = 64
	}
	switch {
	case !t.Unsigned:
		return math.MinInt64 >> (64 - bits), math.MaxInt64 >> (64 - bits)
	case bits == 64:
		return 0, math.MaxInt64
	}
	return 0, 1<<bits - 1
}

// Numeric reports whether values are numbers.
func (t Type) Numeric() bool { return t.Kind == Int || t.Kind == Float || t.Kind == Decimal }

// Whole returns how many digits before the point a decimal keeps, or -1 for any number.
func (t Type) Whole() int {
	if t.Precision == 0 {
		return -1
	}
	return t.Precision - t.Scale
}

// SortsByValue reports whether a server sorts the type by the value that its text shows, so that a
// range of rows can begin at a value. It is false for an Enum and a Set, which sort by their
// members' places, for binary fractions, which may not equal their own text, and for unknown types.
func (t Type) SortsByValue() bool {
	return t.Kind != Other && t.Kind != Float && t.Logical != Enum && t.Logical != Set
}

// A Name is the name of a type as a catalog or a declaration has it, taken apart.
type Name struct {
	// First is the first word in lower case.
	First string
	// words are all of them, without what is in parentheses.
	words []string
	// Numbers are the numbers in the parentheses, Members the quoted words there.
	Numbers []int
	Members []string
	Array   bool
}

// ParseName takes a type's name apart: "DECIMAL(10,2) UNSIGNED" gives decimal, 10 and 2, and
// unsigned; "timestamp(3) with time zone" gives timestamp and 3.
func ParseName(native string) Name {
	before, rest, _ := strings.Cut(native, "(")
	inside, after := rest, ""
	if end := closing(rest); end >= 0 {
		inside, after = rest[:end], rest[end+1:]
	}
	n := Name{words: strings.Fields(strings.ToLower(before + " " + after)), Array: strings.HasSuffix(native, "]")}
	if len(n.words) > 0 {
		n.First = n.words[0]
	}
	if strings.Contains(inside, "'") {
		n.Members = members(inside)
		return n
	}
	for _, text := range strings.Split(inside, ",") {
		number, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil {
			n.Numbers = nil
			break
		}
		n.Numbers = append(n.Numbers, number)
	}
	return n
}

// Number returns the number at place i. If there is none, it returns the parameter without.
func (n Name) Number(i, without int) int {
	if i < len(n.Numbers) {
		return n.Numbers[i]
	}
	return without
}

// Has reports whether the name has the word, in lower case.
func (n Name) Has(word string) bool { return slices.Contains(n.words, word) }

// closing returns the place of the parenthesis that ends a list of numbers or quoted words, or -1.
func closing(text string) int {
	quoted := false
	for i := range len(text) {
		switch {
		case text[i] == '\'':
			quoted = !quoted // a doubled quote changes it twice
		case text[i] == ')' && !quoted:
			return i
		}
	}
	return -1
}

// members returns the words of 'a','it”s'. One with a backslash is listed also unescaped.
func members(list string) (out []string) {
	for {
		_, text, found := strings.Cut(list, "'")
		if !found {
			return out
		}
		end := 0
		for ; end < len(text) && (text[end] != '\'' || strings.HasPrefix(text[end+1:], "'")); end++ {
			if text[end] == '\'' {
				end++
			}
		}
		if end >= len(text) {
			return out // without a closing quote
		}
		member := strings.ReplaceAll(text[:end], "''", "'")
		out = append(out, member)
		if strings.Contains(member, `\`) {
			out = append(out, strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r", `\0`, "\x00").Replace(member))
		}
		list = text[end+1:]
	}
}
