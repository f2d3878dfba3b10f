package mysql

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A byKind is the representation of positions in the column that a table is
// partitioned by. It determines the partitioning expression and the form of a bound.
type byKind int

const (
	bySequence  byKind = iota // an integer key: RANGE (c)
	byEpoch                   // an integer that counts Table.Epoch: RANGE (c)
	byDatetime                // DATETIME(n): RANGE COLUMNS (c)
	byDate                    // DATE: RANGE COLUMNS (c)
	byTimestamp               // TIMESTAMP(n): RANGE (UNIX_TIMESTAMP(c)), the only function allowed there
)

// kindOf returns the kind of t's column. A declared table has the column's type in
// its definition.
func kindOf(t *engine.Table) byKind {
	if t.Grid.Axis() == rolling.Sequence {
		return bySequence
	}
	if t.Epoch > 0 {
		return byEpoch
	}
	if i := t.Column(t.By); i < 0 && t.Definition != nil {
		for _, c := range t.Definition.Columns {
			if !strings.EqualFold(c.Name, t.By) {
				continue
			}
			switch typeName(c.Type) {
			case "DATE":
				return byDate
			case "TIMESTAMP":
				return byTimestamp
			}
		}
	}
	return byDatetime
}

// typeName returns the first word of a type in upper case: DATETIME of "datetime(6)".
func typeName(native string) string {
	name, _ := engine.NativeType(native)
	return strings.ToUpper(name)
}

// epochUnit is the column's unit, in microseconds.
func epochUnit(t *engine.Table) int64 { return max(t.Epoch.Microseconds(), 1) }

// partitionBy renders the partitioning expression.
func (d dialect) partitionBy(t *engine.Table) string {
	switch kindOf(t) {
	case byDatetime, byDate:
		return "RANGE COLUMNS (" + d.Quote(t.By) + ")"
	case byTimestamp:
		return "RANGE (UNIX_TIMESTAMP(" + d.Quote(t.By) + "))"
	}
	return "RANGE (" + d.Quote(t.By) + ")"
}

// bound renders the upper bound of a partition, as in its definition. It returns an
// error for a bound between two values that the column or its partitioning can
// represent.
func bound(t *engine.Table, pos int64) (string, error) {
	unit := int64(1)
	switch kindOf(t) {
	case bySequence:
		return strconv.FormatInt(pos, 10), nil
	case byEpoch:
		unit = epochUnit(t)
	case byTimestamp:
		unit = time.Second.Microseconds()
	case byDate:
		unit = 24 * time.Hour.Microseconds()
	case byDatetime:
		return datetimeText(pos), nil
	}
	if pos%unit != 0 {
		return "", fmt.Errorf("bound %s of table %s lies between two values of column %s", t.Grid.Format(pos), t.Name, t.By)
	}
	if kindOf(t) == byDate {
		return "'" + rolling.Instant(pos).Format(time.DateOnly) + "'", nil
	}
	return strconv.FormatInt(pos/unit, 10), nil
}

// datetimeText renders a position as a DATETIME literal, with fractional seconds
// only if needed.
func datetimeText(pos int64) string {
	layout := engine.TimeLayout
	if pos%time.Second.Microseconds() != 0 {
		layout += ".000000"
	}
	return "'" + rolling.Instant(pos).Format(layout) + "'"
}

// parseBound parses an upper bound: a number, a time or a date in quotes, or
// MAXVALUE, which tables not created by rowmill may have.
func parseBound(t *engine.Table, s string) (int64, error) {
	if s == "MAXVALUE" {
		return t.Grid.Bounds().To, nil
	}
	if text, quoted := strings.CutPrefix(s, "'"); quoted {
		text = strings.TrimSuffix(text, "'")
		for _, layout := range []string{engine.TimeLayout, time.DateOnly} {
			if at, err := time.Parse(layout, text); err == nil { // also parses fractions
				return rolling.Position(at), nil
			}
		}
		return 0, fmt.Errorf("bound %s is no time", s)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("bound %s is no number", s)
	}
	unit := int64(1)
	switch kindOf(t) {
	case byEpoch:
		unit = epochUnit(t)
	case byTimestamp:
		unit = time.Second.Microseconds()
	}
	if unit == 1 {
		return n, nil
	}
	// A bound outside the axis is clamped to its end.
	b := t.Grid.Bounds()
	return min(max(n, b.From/unit), b.To/unit) * unit, nil
}
