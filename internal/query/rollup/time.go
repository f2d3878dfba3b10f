package rollup

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query/parse"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// A Time finds out whether expressions of a roll-up's time column have one value for all rows of a
// bucket. In buckets of an hour, date_trunc('day', ts) has one value, and second(ts) has several.
type Time struct {
	table  *engine.RolledTable
	level  *engine.RolledLevel
	utc    bool // the session's time zone is UTC
	same   func(a, b string) bool
	traits engine.Semantics
}

// Lengths of granules in microseconds.
const (
	aSecond = int64(time.Second / time.Microsecond)
	aMinute = 60 * aSecond
	anHour  = 60 * aMinute
	aDay    = 24 * anHour
)

// A granule is a range of time within which an expression has one value. Its length is either step
// microseconds, in a grid that begins in 1970, or the number of months in the field months.
type granule struct{ step, months int64 }

// finer returns the longest granule that divides both.
func (g granule) finer(h granule) granule {
	switch {
	case g.months > 0 && h.months > 0:
		return granule{months: gcd(g.months, h.months)}
	case g.months > 0:
		return h
	case h.months > 0:
		return g
	}
	return granule{step: gcd(g.step, h.step)}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// within reports whether every bucket of a grid lies within one granule.
func (g granule) within(every rolling.Grid) bool {
	b := every.Bucketing()
	switch {
	case g.months > 0 && b.Months > 0:
		return g.months%b.Months == 0
	case g.months > 0:
		return b.Step > 0 && aDay%b.Step == 0 && b.Origin%b.Step == 0
	case b.Months > 0:
		return false
	}
	return b.Step > 0 && g.step > 0 && g.step%b.Step == 0 && b.Origin%b.Step == 0
}

var (
	perSecond = granule{step: aSecond}
	perMinute = granule{step: aMinute}
	perHour   = granule{step: anHour}
	perDay    = granule{step: aDay}
	perMonth  = granule{months: 1}
	perYear   = granule{months: 12}
)

// timeFunctions are functions whose first argument is a time, and whose other arguments are
// constants. Each has one value within its granule.
var timeFunctions = map[string]granule{
	"date": perDay, "to_days": perDay, "day": perDay, "dayofmonth": perDay, "dayofweek": perDay, "dayofyear": perDay, "dayname": perDay,
	"weekday": perDay, "week": perDay, "weekofyear": perDay, "yearweek": perDay, "last_day": perMonth, "month": perMonth, "monthname": perMonth,
	"quarter": perMonth, "year": perYear, "hour": perHour, "minute": perMinute, "second": perSecond,
}

// timeFields are the units of EXTRACT, and the fields of date_trunc and date_part.
var timeFields = map[string]granule{
	"century": perYear, "decade": perYear, "year": perYear, "isoyear": perDay, "quarter": perMonth, "month": perMonth, "year_month": perMonth, "week": perDay,
	"day": perDay, "dow": perDay, "doy": perDay, "isodow": perDay, "hour": perHour, "day_hour": perHour, "minute": perMinute, "hour_minute": perMinute,
	"day_minute": perMinute,
}

// The letters after % in formats of DATE_FORMAT and of strftime, with the granules that they show.
var (
	dateFormats = map[byte]granule{'Y': perYear, 'y': perYear, 'm': perMonth, 'c': perMonth, 'b': perMonth, 'M': perMonth, 'd': perDay, 'e': perDay, 'j': perDay,
		'a': perDay, 'W': perDay, 'D': perDay, 'U': perDay, 'u': perDay, 'v': perDay, 'V': perDay, 'x': perDay, 'X': perDay, 'w': perDay,
		'H': perHour, 'h': perHour, 'I': perHour, 'k': perHour, 'l': perHour, 'p': perHour, 'i': perMinute, 'S': perSecond, 's': perSecond, 'T': perSecond, 'r': perSecond}
	timeFormats = map[byte]granule{'Y': perYear, 'm': perMonth, 'd': perDay, 'j': perDay, 'w': perDay, 'W': perDay, 'H': perHour, 'M': perMinute, 'S': perSecond, 's': perSecond}
)

// charFormat divides a format of to_char into patterns, of which charFormats has the known ones.
var charFormat = regexp.MustCompile(`YYYY|HH24|MM|DD|MI|SS|[A-Za-z0-9]+|.`)

var charFormats = map[string]granule{"YYYY": perYear, "MM": perMonth, "DD": perDay, "HH24": perHour, "MI": perMinute, "SS": perSecond}

// fixed reports whether an expression without aggregates has one value for all rows of the table
// that one row of the roll-up stands for: it depends only on the roll-up's groups, and on parts of
// the time that are the same throughout a bucket.
func (t *Time) fixed(e *parse.Expr) bool {
	e = parse.Bare(e)
	if e.Query != nil || e.Over != nil || e.Filter != nil || e.OrderBy != nil || e.Qualified || e.Star || e.Distinct {
		return false
	}
	switch e.Kind {
	case parse.Literal:
		return true
	case parse.Param, parse.Subquery, parse.Exists:
		return false
	case parse.Column:
		if t.isTime(e) {
			return t.own().within(t.level.Every)
		}
		return t.group(e) != ""
	}
	if g, ok := t.granule(e); ok {
		return g.within(t.level.Every)
	}
	return !slices.ContainsFunc(e.Args, func(a *parse.Expr) bool { return !t.fixed(a) })
}

// own is the granule of the time column's own values.
func (t *Time) own() granule {
	switch {
	case t.table.Unit > 0:
		return granule{step: max(t.table.Unit.Microseconds(), 1)}
	case t.table.Time.Logical == value.Date:
		return perDay
	}
	return granule{step: 1}
}

// isInstant reports whether an expression is the time column as a date and time.
func (t *Time) isInstant(e *parse.Expr) bool {
	if t.table.Unit == 0 {
		return t.isTime(e)
	}
	e = parse.Bare(e)
	return t.table.Unit == time.Second && t.utc && e.Kind == parse.Call && (e.Name == "from_unixtime" || e.Name == "to_timestamp") && len(e.Args) == 1 && t.isTime(e.Args[0])
}

// isTime reports whether an expression is the time column.
func (t *Time) isTime(e *parse.Expr) bool {
	e = parse.Bare(e)
	return e.Kind == parse.Column && t.same(e.Names[len(e.Names)-1], t.table.Time.Name)
}

// group returns the name of the column if e is a column by which the roll-up groups; else "". It
// also returns "" if a group may have several values, e.g. 'a' and 'A': the roll-up keeps only one
// of them.
func (t *Time) group(e *parse.Expr) string {
	for _, name := range t.level.By {
		if !t.same(e.Names[len(e.Names)-1], name) {
			continue
		}
		for _, c := range t.table.Columns {
			if c.Name == name && !c.Virtual && t.exact(c) {
				return name
			}
		}
	}
	return ""
}

// exact reports whether values of a column are equal only if they are the same.
func (t *Time) exact(c engine.SchemaColumn) bool {
	switch c.Kind {
	case value.Int, value.Time, value.Bytes:
		return true
	case value.Decimal:
		return c.Precision > 0 // the same number of digits for all
	case value.Text:
		return t.traits.ExactText(c)
	}
	return false
}

// granule returns the granule of an expression of the time column. It returns false for an
// expression whose granule it doesn't know.
func (t *Time) granule(e *parse.Expr) (granule, bool) {
	if n, ok := t.division(e); ok {
		return granule{step: n}, true
	}
	if e.Kind == parse.Cast && strings.EqualFold(e.Type, "date") && t.isInstant(e.Args[0]) {
		return perDay, true
	}
	if e.Kind != parse.Call || len(e.Args) == 0 {
		return granule{}, false
	}
	last, _ := literalText(e.Args[len(e.Args)-1])
	seconds := t.table.Unit == time.Second && t.traits.UnixEpoch && last == "unixepoch" // the argument before 'unixepoch' counts seconds
	switch first := t.isInstant(e.Args[0]); e.Name {
	case "extract":
		g, ok := timeFields[strings.ToLower(e.Unit)]
		return g, ok && first
	case "date_trunc", "date_part":
		field, ok := literalText(e.Args[0])
		if len(e.Args) != 2 || !ok || !t.isInstant(e.Args[1]) {
			break
		}
		g, ok := timeFields[strings.ToLower(field)]
		return g, ok
	case "date_format":
		if len(e.Args) == 2 && first {
			return percentFormat(e.Args[1], dateFormats)
		}
	case "strftime":
		if len(e.Args) == 2 && t.isInstant(e.Args[1]) || len(e.Args) == 3 && t.isTime(e.Args[1]) && seconds {
			return percentFormat(e.Args[0], timeFormats)
		}
	case "from_unixtime":
		if len(e.Args) == 2 && t.table.Unit == time.Second && t.isTime(e.Args[0]) && t.utc {
			return percentFormat(e.Args[1], dateFormats)
		}
	case "to_char":
		if format, ok := literalText(e.Args[len(e.Args)-1]); ok && first && len(e.Args) == 2 {
			g := perYear
			for _, word := range charFormat.FindAllString(format, -1) {
				h, known := charFormats[word]
				switch {
				case known:
					g = g.finer(h)
				case strings.ContainsAny(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"):
					return granule{}, false
				}
			}
			return g, true
		}
	default:
		g, ok := timeFunctions[e.Name]
		first = first || seconds && len(e.Args) == 2 && t.isTime(e.Args[0])
		for _, a := range e.Args[1:] {
			ok = ok && parse.Bare(a).Kind == parse.Literal
		}
		return g, ok && first
	}
	return granule{}, false
}

// percentFormat returns the granule of a format: that of '%Y-%m' is a month.
func percentFormat(e *parse.Expr, letters map[byte]granule) (granule, bool) {
	format, ok := literalText(e)
	g := perYear
	for i := 0; ok && i < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		if i++; i == len(format) {
			return g, false
		}
		if format[i] == '%' {
			continue
		}
		h, known := letters[format[i]]
		g, ok = g.finer(h), known
	}
	return g, ok
}

// literalText returns the text of a plain string.
func literalText(e *parse.Expr) (string, bool) {
	e = parse.Bare(e)
	if e.Kind != parse.Literal {
		return "", false
	}
	return plainText(e.Name)
}

// plainText returns what is between the quotes of a string without escapes.
func plainText(s string) (string, bool) {
	if len(s) < 2 || s[0] != '\'' && s[0] != '"' || s[len(s)-1] != s[0] || strings.ContainsAny(s[1:len(s)-1], `'"\`) {
		return "", false
	}
	return s[1 : len(s)-1], true
}

// division returns the length in microseconds of the intervals into which an expression divides
// time: x DIV n, FLOOR(x / n) or x - x % n, where x counts units of time since 1970.
func (t *Time) division(e *parse.Expr) (int64, bool) {
	e = parse.Bare(e)
	switch {
	case e.Kind == parse.Binary && e.Name == "DIV":
		return t.quotient(e)
	case e.Kind == parse.Binary && e.Name == "/" && t.traits.IntegerDivision && t.table.Unit > 0 && t.isTime(e.Args[0]):
		return t.quotient(e) // of integers
	case e.Kind == parse.Call && e.Name == "floor" && len(e.Args) == 1:
		if q := parse.Bare(e.Args[0]); q.Kind == parse.Binary && q.Name == "/" {
			return t.quotient(q)
		}
	case e.Kind == parse.Binary && e.Name == "-":
		r := parse.Bare(e.Args[1])
		remainder := r.Kind == parse.Binary && (r.Name == "%" || r.Name == "MOD") || r.Kind == parse.Call && r.Name == "mod" && len(r.Args) == 2
		if remainder && parse.Equal(e.Args[0], r.Args[0], func(a, b []string) bool { return t.same(a[len(a)-1], b[len(b)-1]) }) {
			return t.quotient(r)
		}
	}
	return 0, false
}

// quotient returns the length in microseconds of n units for a division such as x DIV n: x counts
// units of time since 1970, and n is a literal.
func (t *Time) quotient(e *parse.Expr) (int64, bool) {
	x := parse.Bare(e.Args[0])
	unit := int64(0)
	switch {
	case t.isTime(x):
		unit = t.table.Unit.Microseconds()
	case t.table.Unit > 0:
	case x.Kind == parse.Call && x.Name == "unix_timestamp" && len(x.Args) == 1 && t.isTime(x.Args[0]) && t.utc,
		x.Kind == parse.Call && x.Name == "extract" && x.Unit == "EPOCH" && t.isTime(x.Args[0]):
		unit = aSecond
	}
	n, err := strconv.ParseInt(parse.Bare(e.Args[1]).Name, 10, 64)
	if unit <= 0 || parse.Bare(e.Args[1]).Kind != parse.Literal || err != nil || n <= 0 || n > aDay*1000/unit {
		return 0, false
	}
	return n * unit, true
}

// timeLayouts are the forms of literals that are understood. The first is that of a date.
var timeLayouts = []string{"2006-01-02", "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02 15:04:05.999999"}

// bound returns the position of a literal that the time column is compared with.
func (t *Time) bound(e *parse.Expr) (int64, bool) {
	e = parse.Bare(e)
	types := []string{""}
	if e.Kind == parse.Cast && t.traits.TypedLiterals {
		types[0], e = strings.ToLower(e.Type), parse.Bare(e.Args[0])
	}
	if e.Kind != parse.Literal {
		return 0, false
	}
	if t.table.Unit > 0 {
		n, err := strconv.ParseInt(e.Name, 10, 64)
		unit := max(t.table.Unit.Microseconds(), 1)
		if types[0] != "" || err != nil || n > rolling.MaxTime/unit || n < -rolling.MaxTime/unit {
			return 0, false
		}
		return n * unit, true
	}
	s := e.Name
	if i := strings.IndexAny(s, `'"`); i > 0 {
		types, s = append(types, strings.ToLower(strings.TrimSpace(s[:i]))), s[i:]
	} else if types[0] == "" && t.traits.TypedLiterals && t.table.Time.Logical == value.Date {
		types[0] = "date" // a bare string becomes a value of the column's type
	}
	layouts := timeLayouts
	for _, is := range types {
		switch is {
		case "", "timestamp", "timestamp without time zone":
		case "timestamptz", "timestamp with time zone":
			if !t.utc {
				return 0, false
			}
		case "date": // which has no time of day, whatever the string says
			layouts = layouts[:1]
		default:
			return 0, false
		}
	}
	s, ok := plainText(s)
	if !ok {
		return 0, false
	}
	for _, layout := range layouts {
		if at, err := time.Parse(layout, s); err == nil && at.Nanosecond()%1000 == 0 {
			return rolling.Position(at), true
		}
	}
	return 0, false
}

// bounded returns the range of times to which a condition such as ts >= '2024-01-01' limits the
// rows; ok is false for other conditions.
func (t *Time) bounded(c *parse.Expr) (from, to int64, ok bool) {
	from, to = math.MinInt64, math.MaxInt64
	switch {
	case c.Kind == parse.Between && !c.Not && t.isTime(c.Args[0]):
		low, ok1 := t.bound(c.Args[1])
		high, ok2 := t.bound(c.Args[2])
		return low, high + 1, ok1 && ok2
	case c.Kind != parse.Binary || len(c.Args) != 2:
		return from, to, false
	}
	op, x, y := c.Name, c.Args[0], c.Args[1]
	if t.isTime(y) {
		x, y = y, x
		op = parse.Flipped[op]
	}
	if !t.isTime(x) {
		return from, to, false
	}
	at, ok := t.bound(y)
	switch op {
	case "<":
		to = at
	case "<=":
		to = at + 1
	case ">":
		from = at + 1
	case ">=":
		from = at
	default:
		ok = false
	}
	return from, to, ok
}
