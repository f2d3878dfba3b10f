// Package rolling describes rolling tables: logical tables whose rows lie in periods
// (time partitions, or ranges of a sequence), so that inserts touch only the newest
// one.
//
// It is pure arithmetic. The input is a grid, a policy, the partitions a table has
// and a position on its axis. The output is the partitions it should have and the
// steps to create them. It never accesses a server (package engine does) and never
// reads a clock (callers pass positions).
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

// String returns "time" or "sequence".
func (a Axis) String() string {
	if a == Sequence {
		return "sequence"
	}
	return "time"
}

// The positions a period may contain. Times are those that every supported server
// can store in a DATETIME or TIMESTAMP: years 1000 to 9999 (MySQL's range).
const (
	MinTime     int64 = -30610224000000000 // 1000-01-01T00:00:00Z
	MaxTime     int64 = 253402300800000000 // 10000-01-01T00:00:00Z, exclusive
	MinSequence int64 = 0
	MaxSequence int64 = 1<<63 - 1 // exclusive
)

// ErrOutside is returned for a position that no period can contain.
var ErrOutside = errors.New("position outside every period")

// Position returns t as a position on a time axis. Fractions of a microsecond are
// rounded towards the past, so that a period never contains an instant before it. A
// time outside the range of an int64 becomes the nearest int64, which lies outside
// every period.
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

// Overlaps reports whether the periods share a position.
func (p Period) Overlaps(q Period) bool { return p.From < q.To && q.From < p.To }

// A Partition is a period with its name on the server.
type Partition struct {
	Name string
	Period
}

// A Grid divides an axis into periods without gap or overlap. Periods of a
// fixed length are aligned to the epoch (weeks to Monday, sequences to 0);
// periods of months to the calendar. The zero Grid is invalid: make one with
// EveryDuration, EveryMonths, EveryRows or Parse.
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

// EveryDuration returns a grid of periods of d over time. It refuses anything but
// whole seconds, at least one. For months and years, whose length varies, use
// EveryMonths.
func EveryDuration(d time.Duration) (Grid, error) {
	if d < time.Second || d%time.Second != 0 {
		return Grid{}, fmt.Errorf("period %v: a period over time is a whole number of seconds, at least 1s", d)
	}
	g := Grid{axis: Time, step: d.Microseconds()}
	if g.step%week == 0 {
		g.origin = monday
	}
	return g, nil
}

// EveryMonths returns a grid of periods of n calendar months over time, counted
// from January of year 0, so that 3 gives quarters and 12 gives years.
func EveryMonths(n int) (Grid, error) {
	if n < 1 || n > maxMonths {
		return Grid{}, fmt.Errorf("period of %d months: want 1 to %d", n, maxMonths)
	}
	return Grid{axis: Time, months: int64(n)}, nil
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

// At returns the period that contains pos. The first and the last period of an axis
// end at its bounds. It returns ErrOutside for a position that no server could
// store.
func (g Grid) At(pos int64) (Period, error) {
	if !g.Valid() {
		return Period{}, errors.New("no period is set")
	}
	b := g.Bounds()
	if !b.Contains(pos) {
		return Period{}, fmt.Errorf("%w: %s position %d is not in [%d, %d)", ErrOutside, g.axis, pos, b.From, b.To)
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

// shift returns the period n periods after p, or before it if n is negative; the
// axis' last or first period if there are not that many. It takes constant time.
func (g Grid) shift(p Period, n int64) (Period, error) {
	b := g.Bounds()
	first, last := b.From, b.To-1
	pos := first
	switch {
	case g.months > 0:
		// 9000 years of months limit n, so that the product can't overflow.
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

// monthStart returns the position at which month n begins, counted from
// January of year 0.
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

// Cover returns the periods that together contain every position of span, in order.
// It refuses a span that needs more than limit periods.
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
