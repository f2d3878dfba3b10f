package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rowmill/rowmill/internal/engine"
)

// A parse reads a value into a vector.
type parse = func(v *engine.Vector, text []byte) error

// Errors of values that a server would silently change.
var (
	errMember = errors.New("it is none of the column's members; a number would be taken for one's place")
	errYear   = errors.New("it is no year of four digits")
)

// unbent refuses values that the server would silently change, and passes the others
// to next. name and digits describe the column's type.
func unbent(next parse, c engine.SchemaColumn, name string, digits []int, server string, o *ValueOptions) parse {
	my, pg := server == "mysql" || server == "mariadb", server == "postgres"
	switch {
	case !my && !pg || strings.HasSuffix(c.Native, "]"): // an array
		return next
	case my && (name == "enum" || name == "set"):
		return memberOf(next, membersOf(c.Native), name == "set")
	case my && name == "year":
		return func(v *engine.Vector, text []byte) error {
			if _, ok := number(text); !ok || len(text) != 4 {
				return errYear
			}
			return next(v, text)
		}
	case my && c.Kind == engine.KindFloat && len(digits) == 2:
		check := scaleOf(digits[1], false)
		return func(v *engine.Vector, text []byte) error {
			if err := check(text); err != nil {
				return err
			}
			return next(v, text)
		}
	case c.Kind != engine.KindTime && (name == "time" || pg && name == "interval"):
		keeps := 0
		switch {
		case len(digits) > 0:
			keeps = digits[0]
		case pg:
			keeps = 6
		}
		return fractionOf(next, keeps, name == "interval", o.TruncateTimes)
	case c.Kind == engine.KindText && len(digits) == 1 && (name == "char" || name == "varchar" || pg && (name == "character" || name == "bpchar")):
		tooLong := fmt.Errorf("it has more than the %d characters that the column keeps", digits[0])
		return func(v *engine.Vector, text []byte) error {
			if len(text) > digits[0] && utf8.RuneCount(text) > digits[0] {
				return tooLong
			}
			return next(v, text)
		}
	}
	return next
}

// membersOf returns the members of a type such as "enum('a','it”s')". The catalog may
// show backslashes escaped, so a member with a backslash is returned in both
// readings.
func membersOf(native string) []string {
	_, rest, _ := strings.Cut(native, "(")
	var out []string
	for {
		_, text, found := strings.Cut(rest, "'")
		if !found {
			return out
		}
		end := closingOf(text)
		if end < 0 {
			return out
		}
		member := strings.ReplaceAll(text[:end], "''", "'")
		out = append(out, member)
		if strings.Contains(member, `\`) {
			out = append(out, strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r", `\0`, "\x00").Replace(member))
		}
		rest = text[end+1:]
	}
}

// closingOf returns the position of the quote that closes an SQL string literal.
func closingOf(text string) int {
	for i := 0; i < len(text); i++ {
		if text[i] != '\'' {
			continue
		}
		if i+1 == len(text) || text[i+1] != '\'' {
			return i
		}
		i++
	}
	return -1
}

// memberOf refuses numbers that are not members, which the server would read as
// indexes, and for an ENUM also the empty text. Other texts that are not members are
// refused by the server, which compares by collation.
func memberOf(next parse, members []string, set bool) parse {
	return func(v *engine.Vector, text []byte) error {
		is := bytes.TrimRight(text, " ")
		digits := bytes.TrimLeft(is, " \t\n\v\f\r+-")
		_, isNumber := number(digits)
		if !isNumber && (set || len(digits) > 0) {
			return next(v, text)
		}
		if set && len(is) == 0 {
			return next(v, text)
		}
		if !slices.ContainsFunc(members, func(m string) bool { return strings.EqualFold(strings.TrimRight(m, " "), unsafeString(is)) }) {
			return errMember
		}
		return next(v, text)
	}
}

// fractionOf refuses or truncates times of day with more fractional digits than the
// column stores. In an interval, only seconds that follow a colon are checked.
func fractionOf(next parse, keeps int, interval, truncate bool) parse {
	tooFine := fmt.Errorf("it has more than the %d digits of a second that the column keeps", keeps)
	return func(v *engine.Vector, text []byte) error {
		dot := bytes.IndexByte(text, '.')
		if dot < 0 {
			return next(v, text)
		}
		begin := len(bytes.TrimRight(text[:dot], "0123456789"))
		if interval && (begin == 0 || text[begin-1] != ':') {
			return next(v, text)
		}
		end := dot + 1
		for end < len(text) && text[end]-'0' <= 9 {
			end++
		}
		from := min(dot+1+keeps, end)
		if len(bytes.TrimRight(text[from:end], "0")) == 0 {
			return next(v, text)
		}
		if !truncate {
			return tooFine
		}
		if keeps == 0 {
			from = dot
		}
		return next(v, slices.Concat(text[:from], text[end:]))
	}
}
