// Package rolling describes rolling tables: logical tables whose rows lie in periods (time
// partitions, or ranges of a sequence), so that inserts touch only the newest one.
//
// It is pure arithmetic. The input is a grid, a policy, the partitions a table has and a position
// on its axis. The output is the partitions it should have and the steps to create them. It never
// accesses a server (package engine does) and never reads a clock (callers pass positions).
//
// A position is an int64. On a time axis it counts microseconds since
// 1970-01-01T00:00:00Z, always UTC, because local hours repeat and vanish at
// daylight-saving changes. On a sequence axis it is the value of an integer key.
//
//	g, _ := rolling.Parse("2h")
//	p, _ := g.At(rolling.Position(time.Now()))
//	fmt.Println(g.Name(p)) // p20261120_18
package rolling

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Axis is the unit of the positions of a rolling table.
type Axis int

const (
	// Time positions are microseconds since the Unix epoch, UTC.
	Time Axis = iota
	// Sequence positions are values of an integer key, from 0.
	Sequence
)

// The positions that a period may contain. Times are limited to the years 1000 to 9999 (MySQL's
// range), which every supported server can store in a DATETIME or TIMESTAMP.
const (
	MinTime     int64 = -30610224000000000 // 1000-01-01T00:00:00Z
	MaxTime     int64 = 253402300800000000 // 10000-01-01T00:00:00Z, exclusive
	MinSequence int64 = 0
	MaxSequence int64 = 1<<63 - 1 // exclusive
)

// ErrOutside is returned for a position that no period can contain.
var ErrOutside = errors.New("position outside every period")

// Position returns t as a position on a time axis. Fractions of a microsecond are rounded towards
// the past, so that a period never contains an instant before the period's start. A time outside
// the range of an int64 becomes the nearest int64, which lies outside every period.
func Position(t time.Time) int64 {
	const limit = math.MaxInt64/second - 1
	switch s := t.Unix(); {
	case s > limit:
		return math.MaxInt64
	case s < -limit:
		return math.MinInt64
	default:
		return s*second + int64(t.Nanosecond()/1000)
	}
}

// Instant returns the time, in UTC, at a position on a time axis.
func Instant(pos int64) time.Time { return time.UnixMicro(pos).UTC() }

// A Period is a half-open range of positions, From <= position < To.
type Period struct{ From, To int64 }

// Contains reports whether pos lies in the period.
func (p Period) Contains(pos int64) bool { return p.From <= pos && pos < p.To }

// Compare returns -1 if the period lies before pos, 0 if it contains pos, 1 if it lies after pos.
func (p Period) Compare(pos int64) int {
	switch {
	case p.To <= pos:
		return -1
	case p.From > pos:
		return 1
	}
	return 0
}

// Overlaps reports whether the periods share a position.
func (p Period) Overlaps(q Period) bool { return p.From < q.To && q.From < p.To }

// A Partition is a period with its name on the server.
type Partition struct {
	Name string
	Period
}

// A Grid divides an axis into periods without gap or overlap. Periods of a fixed length are aligned
// to the epoch (weeks to Monday, sequences to 0); periods of months to the calendar. The zero Grid
// is invalid: make one with EveryDuration, EveryRows or Parse.
type Grid struct {
	axis   Axis
	step   int64 // microseconds or key values; 0 when months is set
	months int64
	origin int64 // a position where a period begins
}

const (
	second = int64(1e6)
	day    = 24 * 3600 * second
	week   = 7 * day
	monday = 4 * day // 1970-01-05, the first Monday after the epoch

	maxMonths = 12000 // 1000 years: a longer period rolls nothing
)

// EveryDuration returns a grid of periods of d over time; d must be whole seconds, at least one.
// For months and years, whose length varies, use Parse.
func EveryDuration(d time.Duration) (Grid, error) {
	if d < time.Second || d%time.Second != 0 {
		return Grid{}, fmt.Errorf("period %v: a period over time is a whole number of seconds, at least 1s", d)
	}
	return everyMicros(d.Microseconds()), nil
}

func everyMicros(step int64) Grid {
	g := Grid{axis: Time, step: step}
	if step%week == 0 {
		g.origin = monday
	}
	return g
}

// EveryRows returns a grid of periods of n key values over a sequence.
func EveryRows(n int64) (Grid, error) {
	if n < 1 {
		return Grid{}, fmt.Errorf("period of %d rows: want at least 1", n)
	}
	return Grid{axis: Sequence, step: n}, nil
}

// Axis returns the axis that the grid divides.
func (g Grid) Axis() Axis { return g.axis }

// Valid reports whether the grid was made by one of the constructors.
func (g Grid) Valid() bool { return g.step > 0 || g.months > 0 }

// Bounds returns the range of positions that the grid's periods can contain.
func (g Grid) Bounds() Period {
	if g.axis == Sequence {
		return Period{MinSequence, MaxSequence}
	}
	return Period{MinTime, MaxTime}
}

// At returns the period that contains pos. The first period of an axis begins at the axis's lower
// bound, and the last ends at its upper bound. At returns ErrOutside for a position that no server
// could store.
func (g Grid) At(pos int64) (Period, error) {
	if !g.Valid() {
		return Period{}, errors.New("no period is set")
	}
	b := g.Bounds()
	if !b.Contains(pos) {
		return Period{}, fmt.Errorf("%w: %d is not in [%d, %d)", ErrOutside, pos, b.From, b.To)
	}
	if g.months > 0 {
		return clip(g.atMonths(pos), b), nil
	}
	from := floorDiv(pos-g.origin, g.step)*g.step + g.origin
	to := b.To
	if from <= b.To-g.step {
		to = from + g.step
	}
	return clip(Period{from, to}, b), nil
}

func (g Grid) atMonths(pos int64) Period {
	t := Instant(pos)
	n := floorDiv(int64(t.Year())*12+int64(t.Month())-1, g.months) * g.months
	return Period{monthStart(n), monthStart(n + g.months)}
}

// shift returns the period n periods after p, or the axis' first or last one. n may be negative.
func (g Grid) shift(p Period, n int64) (Period, error) {
	b := g.Bounds()
	first, last := b.From, b.To-1
	pos := first
	switch {
	case g.months > 0:
		// n is limited to the months of 10,000 years, so that the product can't overflow.
		n = min(max(n, -120000), 120000)
		t := Instant(p.From)
		pos = monthStart(int64(t.Year())*12 + int64(t.Month()) - 1 + n*g.months)
	case n < 0 && -n <= (p.From-first)/g.step:
		pos = p.From + n*g.step
	case n >= 0 && n <= (last-p.From)/g.step:
		pos = p.From + n*g.step
	case n >= 0:
		pos = last
	}
	return g.At(min(max(pos, first), last))
}

// monthStart returns the position at which month n begins, counted from January of year 0.
func monthStart(n int64) int64 {
	return Position(time.Date(int(floorDiv(n, 12)), time.Month(n-floorDiv(n, 12)*12)+1, 1, 0, 0, 0, 0, time.UTC))
}

func clip(p, b Period) Period { return Period{max(p.From, b.From), min(p.To, b.To)} }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

// Cover returns the periods that contain the positions of span, in order, at most limit.
func (g Grid) Cover(span Period, limit int) ([]Period, error) {
	var out []Period
	for pos := span.From; pos < span.To; {
		p, err := g.At(pos)
		if err != nil {
			return nil, err
		}
		if len(out) == limit {
			return nil, fmt.Errorf("more than %d periods of %s between %s and %s: take a longer period",
				limit, g, g.Format(span.From), g.Format(span.To))
		}
		out = append(out, p)
		pos = p.To
	}
	return out, nil
}

// A Span is a length of time, of calendar months, or of key values. The zero Span is unlimited.
type Span struct {
	Micros, Months, Rows int64
}

// ParseSpan reads a length as Parse does: 30s, 15m, 2h, 1d, 1w, 1mo, 1y, or a number of rows.
func ParseSpan(s string) (Span, error) {
	g, err := Parse(s)
	if err != nil {
		return Span{}, err
	}
	return g.Span(), nil
}

// Span returns the length of the grid's periods.
func (g Grid) Span() Span {
	switch {
	case g.axis == Sequence:
		return Span{Rows: g.step}
	case g.months > 0:
		return Span{Months: g.months}
	}
	return Span{Micros: g.step}
}

// String returns the span in the syntax of ParseSpan; "" for the zero Span.
func (s Span) String() string {
	switch {
	case s.Rows > 0:
		return Grid{axis: Sequence, step: s.Rows}.String()
	case s.Months > 0 && s.Micros == 0:
		return Grid{months: s.Months}.String()
	case s.Micros > 0 && s.Micros%second == 0:
		return Grid{step: s.Micros}.String()
	case s.IsZero():
		return ""
	}
	return fmt.Sprintf("%d months and %d microseconds", s.Months, s.Micros)
}

// Length returns the span in the axis' unit, months as their mean length.
func (s Span) Length() int64 {
	const month = day * 146097 / 4800 // the mean of the 400 years after which the calendar repeats
	if s.Rows > 0 {
		return s.Rows
	}
	return s.Micros + s.Months*month
}

// IsZero reports whether the span is unlimited.
func (s Span) IsZero() bool { return s == Span{} }

// Before returns the position one span before pos, After one span after pos, within the axis.
func (s Span) Before(pos int64) int64 { return s.add(pos, -1) }

// After is described at Before.
func (s Span) After(pos int64) int64 { return s.add(pos, 1) }

func (s Span) add(pos, sign int64) int64 {
	if s.Rows > 0 {
		if sign > 0 && pos > MaxSequence-s.Rows {
			return MaxSequence
		}
		return max(pos+sign*s.Rows, MinSequence)
	}
	if s.Months > 0 {
		pos = Position(Instant(pos).AddDate(0, int(sign*s.Months), 0))
	}
	return min(max(pos+sign*s.Micros, MinTime), MaxTime)
}

// Divides reports whether each period of grid other consists of whole periods of g.
func (g Grid) Divides(other Grid) bool {
	switch {
	case !g.Valid() || !other.Valid() || g.axis != other.axis:
		return false
	case g.months > 0:
		return other.months > 0 && other.months%g.months == 0
	case other.months > 0:
		return day%g.step == 0
	}
	return other.step%g.step == 0 && (other.origin-g.origin)%g.step == 0
}

// Name returns the partition name of the grid's period p. Names sort in the order of their periods,
// also across the grids of one axis. Names of times are p2026, p202611, p20261120, p20261120_18,
// p20261120_1830, p20261120_183015 or, to microseconds, p20261120_183015_250000, as precise as the
// period's start. Names of sequences are p and the start in 19 digits.
func (g Grid) Name(p Period) string {
	if g.axis == Sequence {
		return fmt.Sprintf("p%019d", p.From)
	}
	name := "p" + Instant(p.From).Format(g.layout(p.From))
	if us := p.From - floorDiv(p.From, second)*second; us != 0 {
		name += fmt.Sprintf("_%06d", us)
	}
	return name
}

// layout returns the shortest time layout that is exact for from and for the starts of all periods.
func (g Grid) layout(from int64) string {
	t := Instant(from)
	fits := func(unit int64) bool { return g.step%unit == 0 && floorDiv(from, unit)*unit == from }
	switch {
	case g.months > 0 && g.months%12 == 0 && t.YearDay() == 1 && fits(day):
		return "2006"
	case g.months > 0 && t.Day() == 1 && fits(day):
		return "200601"
	case fits(day):
		return "20060102"
	case fits(3600 * second):
		return "20060102_15"
	case fits(60 * second):
		return "20060102_1504"
	}
	return "20060102_150405"
}

// Named returns p with its name.
func (g Grid) Named(p Period) Partition { return Partition{g.Name(p), p} }

// Format returns a position as text: UTC to the microsecond without trailing zeros, or a number.
func (g Grid) Format(pos int64) string {
	if g.axis == Sequence {
		return strconv.FormatInt(pos, 10)
	}
	return Instant(pos).Format("2006-01-02 15:04:05.999999")
}

// ParsePosition reads a position. On a time axis, the text is a time, in UTC unless it has an
// offset. On a sequence axis, it is a number that is not negative.
func (g Grid) ParsePosition(text string) (int64, error) {
	if g.axis == Sequence {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%q is not a key", text)
		}
		return n, nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02", "2006-01-02 15:04", "2006-01-02 15:04:05.999999", "2006-01-02T15:04:05.999999"} {
		if t, err := time.Parse(layout, text); err == nil {
			return Position(t), nil
		}
	}
	return 0, fmt.Errorf("%q is not a time", text)
}

// A unit of Parse, in microseconds.
type unit struct {
	name string
	us   int64
}

// units of fixed length, longest first, so that String chooses the shortest form.
var units = []unit{{"w", week}, {"d", day}, {"h", 3600 * second}, {"m", 60 * second}, {"s", second}}

// String returns the grid in the syntax of Parse: "2h", "1d", "3mo", "500000 rows".
func (g Grid) String() string {
	switch {
	case !g.Valid():
		return "no period"
	case g.axis == Sequence:
		return fmt.Sprintf("%d rows", g.step)
	case g.months > 0 && g.months%12 == 0:
		return fmt.Sprintf("%dy", g.months/12)
	case g.months > 0:
		return fmt.Sprintf("%dmo", g.months)
	}
	// Every step is a whole number of seconds, so one of the units divides it.
	i := slices.IndexFunc(units, func(u unit) bool { return g.step%u.us == 0 })
	return fmt.Sprintf("%d%s", g.step/units[i].us, units[i].name)
}

// Parse reads a period: a number and s, m, h, d, w (from Monday), mo, y, or "rows". All is UTC.
func Parse(s string) (Grid, error) {
	bad := func() (Grid, error) {
		return Grid{}, fmt.Errorf("period %q: want a number and a unit: 30s, 15m, 2h, 1d, 1w, 1mo, 1y or 500000 rows, at most 1000 years", s)
	}
	text := strings.TrimSpace(s)
	digits := strings.IndexFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	if digits <= 0 {
		return bad()
	}
	n, err := strconv.ParseInt(text[:digits], 10, 64)
	if err != nil || n < 1 {
		return bad()
	}
	unit := strings.TrimSpace(text[digits:])
	switch unit {
	case "rows", "row":
		return EveryRows(n)
	case "mo", "y":
		months := int64(1)
		if unit == "y" {
			months = 12
		}
		if n > maxMonths/months {
			return bad()
		}
		return Grid{axis: Time, months: n * months}, nil
	}
	for _, u := range units {
		if u.name == unit {
			if n > 1000*366*day/u.us {
				return bad()
			}
			return everyMicros(n * u.us), nil
		}
	}
	return bad()
}

// A Bucketing is how a grid divides its axis, in the form that SQL needs. With a grid of months,
// Step is 0, and a bucket begins with each month whose number, counted from January of year 0, is a
// multiple of Months. With any other grid, Months is 0, and a bucket begins at each position whose
// distance from Origin is a multiple of Step.
type Bucketing struct{ Step, Origin, Months int64 }

// Bucketing returns how the grid divides its axis.
func (g Grid) Bucketing() Bucketing { return Bucketing{g.step, g.origin, g.months} }

// Floor returns the start of the period that contains pos, limited to the axis.
func (g Grid) Floor(pos int64) int64 {
	b := g.Bounds()
	p, err := g.At(min(max(pos, b.From), b.To-1))
	if err != nil {
		return b.From
	}
	if pos >= b.To {
		return b.To
	}
	return p.From
}

// Ceil returns pos if a period begins there, else the end of the period that contains pos.
func (g Grid) Ceil(pos int64) int64 {
	b := g.Bounds()
	if pos <= b.From {
		return b.From
	}
	p, err := g.At(min(pos, b.To) - 1)
	if err != nil {
		return b.To
	}
	return p.To
}
