package postgres

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// A byKind is the way in which the By column represents positions.
type byKind int

const (
	byInteger     byKind = iota // the position, or with an Epoch the number of Epoch units since 1970
	byTimestamp                 // without time zone: UTC
	byTimestampTZ               // an instant
	byDate                      // days in UTC
)

// microsPerDay is the length of a day in microseconds, the resolution of type date.
const microsPerDay = int64(24 * time.Hour / time.Microsecond)

// kindOf returns how the table's By column represents positions. It uses the
// declared type, which may come from a user's CREATE TABLE statement.
func kindOf(t *engine.Table) byKind {
	switch {
	case t.Grid.Axis() == rolling.Sequence || t.Epoch > 0:
		return byInteger
	case t.Column(t.By) >= 0 || t.Definition == nil:
		return byTimestamp
	}
	switch words := byType(t); {
	case len(words) == 0:
		return byTimestamp
	case words[0] == "date":
		return byDate
	case words[0] == "timestamptz", strings.Contains(strings.Join(words, " "), "with time zone"):
		return byTimestampTZ
	}
	return byTimestamp
}

// byType returns the declared type of the By column as words in lower case,
// without punctuation. A precision is a word, too.
func byType(t *engine.Table) []string {
	if t.Definition == nil {
		return nil
	}
	for _, c := range t.Definition.Columns {
		if c.Name == t.By {
			return strings.FieldsFunc(strings.ToLower(c.Type), func(r rune) bool {
				return (r < 'a' || r > 'z') && r != '_' && r != '.' && (r < '0' || r > '9')
			})
		}
	}
	return nil
}

// integerType returns the type of an integer By column.
func integerType(t *engine.Table) string {
	if i := t.Column(t.By); i >= 0 && t.Columns[i].Type == engine.Int32 {
		return "integer"
	}
	if words := byType(t); len(words) > 0 {
		switch words[0] {
		case "smallint", "int2", "smallserial", "serial2":
			return "smallint"
		case "int", "integer", "int4", "serial", "serial4":
			return "integer"
		}
	}
	return "bigint"
}

// floorDiv divides and rounds towards negative infinity. The divisor is positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// timeText formats a position on a time axis, with the fraction of a second
// only if it is not zero.
func timeText(pos int64) string {
	if pos%1e6 == 0 {
		return string(value.AppendTime(nil, pos))
	}
	return rolling.Instant(pos).Format(value.TimeLayout + ".000000")
}

// byValue formats a position as the text of a value of the By column.
func byValue(t *engine.Table, pos int64) string {
	switch kindOf(t) {
	case byTimestamp:
		return timeText(pos)
	case byTimestampTZ:
		return timeText(pos) + "+00"
	case byDate:
		return strings.TrimSuffix(timeText(floorDiv(pos, microsPerDay)*microsPerDay), " 00:00:00")
	}
	if t.Epoch > 0 && t.Grid.Axis() == rolling.Time {
		pos = floorDiv(pos, t.Epoch.Microseconds())
	}
	return strconv.FormatInt(pos, 10)
}

// byLiteral formats a position as a literal of the By column's type.
func byLiteral(t *engine.Table, pos int64) string {
	v := byValue(t, pos)
	switch kindOf(t) {
	case byTimestamp:
		return "TIMESTAMP '" + v + "'"
	case byTimestampTZ:
		return "TIMESTAMPTZ '" + v + "'"
	case byDate:
		return "DATE '" + v + "'"
	}
	if pos < 0 {
		return "(" + v + ")"
	}
	return v
}

// bounds renders a partition's range, including its start and excluding its
// end.
func bounds(t *engine.Table, p rolling.Partition) string {
	value := func(pos int64) string {
		v := byValue(t, pos)
		if kindOf(t) != byInteger {
			v = quoteText(v)
		}
		return v
	}
	return fmt.Sprintf("FOR VALUES FROM (%s) TO (%s)", value(p.From), value(p.To))
}

// checkBounds refuses bounds that the By column can't represent: the server
// would truncate them silently.
func checkBounds(t *engine.Table, p rolling.Partition) error {
	unit := int64(1)
	switch {
	case kindOf(t) == byDate:
		unit = microsPerDay
	case kindOf(t) == byInteger && t.Epoch > 0 && t.Grid.Axis() == rolling.Time:
		unit = t.Epoch.Microseconds()
	}
	if p.From%unit != 0 || p.To%unit != 0 {
		return engine.Hinted(fmt.Errorf("partition %s of %s: its bounds %s and %s can't be values of column %s, which is coarser",
			p.Name, t.Name, timeText(p.From), timeText(p.To), t.By), "a longer period, of whole days for a date")
	}
	return nil
}

// parseBounds parses the bounds of a range partition as pg_get_expr prints
// them, FOR VALUES FROM ('0') TO ('1000').
func parseBounds(t *engine.Table, s string) (from, to int64, err error) {
	if s == "DEFAULT" {
		return 0, 0, engine.Hinted(engine.Classed(engine.ErrUnsupported,
			fmt.Errorf("it is the default partition: it takes rows outside every period, each new period requires a scan of it, and no partition can be detached while inserts continue")),
			"move its rows to periods of their own, then ALTER TABLE ... DETACH PARTITION it")
	}
	text, ok := strings.CutPrefix(s, "FOR VALUES FROM (")
	first, second, between := strings.Cut(text, ") TO (")
	second, end := strings.CutSuffix(second, ")")
	if !ok || !between || !end {
		return 0, 0, fmt.Errorf("bounds %s are not a range", s)
	}
	if from, err = parseBound(t, first); err != nil {
		return 0, 0, err
	}
	to, err = parseBound(t, second)
	return from, to, err
}

// parseBound parses one bound, as printed in a session prepared by Session: a
// number or a time, quoted or not, with or without a zone, which is always UTC.
// Tables that rowmill did not create may also have MINVALUE, MAXVALUE, infinity
// and times beyond the axis, which become the end of the axis.
func parseBound(t *engine.Table, s string) (int64, error) {
	ends := t.Grid.Bounds()
	text := strings.TrimSuffix(strings.TrimPrefix(s, "'"), "'")
	switch text {
	case "MINVALUE", "-infinity":
		return ends.From, nil
	case "MAXVALUE", "infinity":
		return ends.To, nil
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if t.Epoch > 0 && t.Grid.Axis() == rolling.Time {
			unit := t.Epoch.Microseconds()
			switch { // limit to the axis
			case n < ends.From/unit:
				return ends.From, nil
			case n > ends.To/unit:
				return ends.To, nil
			}
			n *= unit
		}
		return n, nil
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
