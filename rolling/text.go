package rolling

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Name returns the partition name of the grid's period p. Names sort in the order of
// their periods, on one grid and across grids of one axis. Times are p2026, p202611,
// p20261120, p20261120_18, p20261120_1830, p20261120_183015 (with the precision that
// the start needs, to microseconds as p20261120_183015_250000). Sequences are p and
// the 19-digit start.
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

// layout returns the shortest time layout that distinguishes the grid's starts, and
// this one: a partition may start off the grid if the grid has changed.
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

// Format returns a position in readable form: UTC to the microsecond without
// trailing zeros, or the number.
func (g Grid) Format(pos int64) string {
	if g.axis == Sequence {
		return strconv.FormatInt(pos, 10)
	}
	return Instant(pos).Format("2006-01-02 15:04:05.999999")
}

// A unit accepted by Parse, in microseconds.
type unit struct {
	name string
	us   int64
}

// units are the units of fixed length over time, longest first, so that String
// chooses the shortest form.
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

// Parse reads a period: a whole number and a unit, s, m, h, d, w (Monday to
// Sunday), mo, y, or "rows" for a sequence. Everything is UTC.
func Parse(s string) (Grid, error) {
	bad := func() (Grid, error) {
		return Grid{}, fmt.Errorf("period %q: want a number and a unit: 30s, 15m, 2h, 1d, 1w, 1mo, 1y or 500000 rows", s)
	}
	tooLong := func() (Grid, error) { return Grid{}, fmt.Errorf("period %q: at most 1000 years", s) }
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
			return tooLong()
		}
		return EveryMonths(int(n * months))
	}
	for _, u := range units {
		if u.name == unit {
			if n > 1000*366*day/u.us {
				return tooLong()
			}
			g := Grid{axis: Time, step: n * u.us}
			if g.step%week == 0 {
				g.origin = monday
			}
			return g, nil
		}
	}
	return bad()
}
