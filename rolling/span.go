package rolling

import "fmt"

// A Span is a length along an axis: of time, of calendar months, or of key
// values. The zero Span is unlimited.
type Span struct {
	Micros, Months, Rows int64
}

// ParseSpan reads a length in the syntax of Parse: 30s, 15m, 2h, 1d, 1w, 1mo, 1y, or
// a number of rows.
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

// Before returns the position one span before pos, After the one after it; both are
// limited to the axis.
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

// Divides reports whether each period of the other grid consists of whole periods of
// this one.
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
