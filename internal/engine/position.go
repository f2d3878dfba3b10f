package engine

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// A ByKind is the way in which a table's By column represents positions.
type ByKind int

// Kinds of By columns.
const (
	ByInteger   ByKind = iota // the position, or with an Epoch the number of units since 1970
	ByTimestamp               // date and time without time zone, in UTC
	ByInstant                 // a point in time
	ByDate                    // days in UTC
)

// ByKind returns how the By column represents positions. kindOf returns the kind of a column of
// times, given its declared type.
func (t *Table) ByKind(kindOf func(native string) ByKind) ByKind {
	if t.Grid.Axis() == rolling.Sequence || t.Epoch > 0 {
		return ByInteger
	}
	if t.Definition != nil {
		if c := t.Definition.Column(t.By); c != nil {
			return kindOf(c.Type)
		}
	}
	return ByTimestamp
}

// CountsTime reports whether the By column is an integer that counts ByUnit since 1970.
func (t *Table) CountsTime() bool { return t.Epoch > 0 && t.Grid.Axis() == rolling.Time }

// ByUnit is by how much the position grows if an integer By column grows by one.
func (t *Table) ByUnit() int64 {
	if t.CountsTime() {
		return max(t.Epoch.Microseconds(), 1)
	}
	return 1
}

// FloorDiv divides and rounds towards negative infinity. The divisor is positive.
func FloorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// ParseBound parses a partition's bound from a catalog: a number of units, or a time in UTC, quoted
// or not. A table that rowmill did not create may have a bound beyond the axis: for such a bound,
// ParseBound returns the end of the axis.
func (t *Table) ParseBound(s string, unit int64) (int64, error) {
	ends := t.Grid.Bounds()
	text := strings.TrimSuffix(strings.TrimPrefix(s, "'"), "'")
	switch text {
	case "MINVALUE", "-infinity":
		return ends.From, nil
	case "MAXVALUE", "infinity":
		return ends.To, nil
	}
	// MySQL keeps '20240101' as written: quoted digits in a time column are no number.
	quotedTime := text != s && t.Grid.Axis() == rolling.Time && !t.CountsTime()
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && !quotedTime {
		switch {
		case unit == 1:
			return n, nil
		case n < ends.From/unit:
			return ends.From, nil
		case n > ends.To/unit:
			return ends.To, nil
		}
		return n * unit, nil
	}
	if t.Grid.Axis() == rolling.Time {
		if strings.HasSuffix(text, " BC") {
			return ends.From, nil
		}
		if year, _, ok := strings.Cut(text, "-"); ok && len(year) > len("9999") {
			if n, err := strconv.ParseUint(year, 10, 32); err == nil && n <= math.MaxInt32 {
				return ends.To, nil
			}
		}
	}
	for _, layout := range []string{value.TimeLayout, value.TimeLayout + "-07", time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil { // it accepts fractions, too
			return rolling.Position(at), nil
		}
	}
	return 0, fmt.Errorf("bound %s is neither a number nor a time", s)
}
