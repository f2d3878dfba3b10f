package postgres

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// microsPerDay is the length of a day in microseconds, the resolution of type date.
const microsPerDay = int64(24 * time.Hour / time.Microsecond)

// kindOf returns how the table's By column represents positions.
func kindOf(t *engine.Table) engine.ByKind {
	return t.ByKind(func(native string) engine.ByKind {
		switch words := typeWords(native); {
		case len(words) > 0 && words[0] == "date":
			return engine.ByDate
		case len(words) > 0 && words[0] == "timestamptz", strings.Contains(strings.Join(words, " "), "with time zone"):
			return engine.ByInstant
		}
		return engine.ByTimestamp
	})
}

// typeWords returns the words of a declared type in lower case, without punctuation. A
// precision is a word, too.
func typeWords(native string) []string {
	return strings.FieldsFunc(strings.ToLower(native), func(r rune) bool {
		return (r < 'a' || r > 'z') && r != '_' && r != '.' && (r < '0' || r > '9')
	})
}

// integerType returns the type of an integer By column.
func integerType(t *engine.Table) string {
	if i := t.Column(t.By); i >= 0 && t.Columns[i].Type == engine.Int32 {
		return "integer"
	}
	if t.Definition == nil || t.Definition.Column(t.By) == nil {
		return "bigint"
	}
	switch words := append(typeWords(t.Definition.Column(t.By).Type), ""); words[0] {
	case "smallint", "int2", "smallserial", "serial2":
		return "smallint"
	case "int", "integer", "int4", "serial", "serial4":
		return "integer"
	}
	return "bigint"
}

// timeText formats a position on a time axis, with the fraction of a second only if it is not zero.
func timeText(pos int64) string {
	if pos%1e6 == 0 {
		return string(value.AppendTime(nil, pos))
	}
	return rolling.Instant(pos).Format(value.TimeLayout + ".000000")
}

// byValue formats a position as the text of a value of the By column.
func byValue(t *engine.Table, pos int64) string {
	switch kindOf(t) {
	case engine.ByTimestamp:
		return timeText(pos)
	case engine.ByInstant:
		return timeText(pos) + "+00"
	case engine.ByDate:
		return strings.TrimSuffix(timeText(engine.FloorDiv(pos, microsPerDay)*microsPerDay), " 00:00:00")
	}
	return strconv.FormatInt(engine.FloorDiv(pos, t.ByUnit()), 10)
}

// byLiteral formats a position as a literal of the By column's type.
func byLiteral(t *engine.Table, pos int64) string {
	v := byValue(t, pos)
	switch kindOf(t) {
	case engine.ByTimestamp:
		return "TIMESTAMP '" + v + "'"
	case engine.ByInstant:
		return "TIMESTAMPTZ '" + v + "'"
	case engine.ByDate:
		return "DATE '" + v + "'"
	}
	if pos < 0 {
		return "(" + v + ")"
	}
	return v
}

// bounds renders a partition's range, including its start and excluding its end.
func bounds(t *engine.Table, p rolling.Partition) string {
	value := func(pos int64) string {
		v := byValue(t, pos)
		if kindOf(t) != engine.ByInteger {
			v = quoteText(v)
		}
		return v
	}
	return fmt.Sprintf("FOR VALUES FROM (%s) TO (%s)", value(p.From), value(p.To))
}

// checkBounds refuses bounds that the By column can't represent: the server
// would truncate them silently.
func checkBounds(t *engine.Table, p rolling.Partition) error {
	unit := t.ByUnit()
	if kindOf(t) == engine.ByDate {
		unit = microsPerDay
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
	text, ok := strings.CutPrefix(s, "FOR VALUES FROM (")
	first, second, between := strings.Cut(text, ") TO (")
	second, end := strings.CutSuffix(second, ")")
	if !ok || !between || !end {
		return 0, 0, fmt.Errorf("bounds %s are not a range", s)
	}
	if from, err = t.ParseBound(first, t.ByUnit()); err != nil {
		return 0, 0, err
	}
	to, err = t.ParseBound(second, t.ByUnit())
	return from, to, err
}
