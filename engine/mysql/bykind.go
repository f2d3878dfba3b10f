package mysql

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A byKind is how the column that a table rolls by holds its positions, and so
// how the table is cut and how a bound is written.
type byKind int

const (
	bySequence  byKind = iota // an integer key: RANGE (c)
	byEpoch                   // an integer that counts Table.Epoch: RANGE (c)
	byDatetime                // DATETIME(n): RANGE COLUMNS (c)
	byDate                    // DATE: RANGE COLUMNS (c)
	byTimestamp               // TIMESTAMP(n): RANGE (UNIX_TIMESTAMP(c)), the only function that is legal there
)

// kindOf says how t is cut. A table that was declared has its column's type in
// the definition.
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

// typeName returns the first word of a type, in capitals: DATETIME of
// "datetime(6)".
func typeName(native string) string {
	name, _ := engine.NativeType(native)
	return strings.ToUpper(name)
}

// epochUnit is what the column counts, in microseconds.
func epochUnit(t *engine.Table) int64 { return max(t.Epoch.Microseconds(), 1) }

// partitionBy is the clause that says what a table is cut by.
func (d dialect) partitionBy(t *engine.Table) string {
	switch kindOf(t) {
	case byDatetime, byDate:
		return "RANGE COLUMNS (" + d.Quote(t.By) + ")"
	case byTimestamp:
		return "RANGE (UNIX_TIMESTAMP(" + d.Quote(t.By) + "))"
	}
	return "RANGE (" + d.Quote(t.By) + ")"
}

// bound is the upper bound of a partition, as its definition has it. It refuses
// one between two values that the column, or its partitioning, tells apart.
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

// datetimeText is a position as a literal of a DATETIME, with as many digits of
// the second as it needs.
func datetimeText(pos int64) string {
	layout := engine.TimeLayout
	if pos%time.Second.Microseconds() != 0 {
		layout += ".000000"
	}
	return "'" + rolling.Instant(pos).Format(layout) + "'"
}

// parseBound reads an upper bound: a number, a time or a date in quotes, or
// MAXVALUE, which tables from elsewhere may have.
func parseBound(t *engine.Table, s string) (int64, error) {
	if s == "MAXVALUE" {
		return t.Grid.Bounds().To, nil
	}
	if text, quoted := strings.CutPrefix(s, "'"); quoted {
		text = strings.TrimSuffix(text, "'")
		for _, layout := range []string{engine.TimeLayout, time.DateOnly} {
			if at, err := time.Parse(layout, text); err == nil { // it reads fractions, too
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
	// A bound beyond every position is the end of the axis.
	b := t.Grid.Bounds()
	return min(max(n, b.From/unit), b.To/unit) * unit, nil
}
