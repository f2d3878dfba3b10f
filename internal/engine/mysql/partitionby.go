package mysql

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// A boundForm is an expression of a column of times, such as TO_DAYS(column), by which tables that
// rowmill did not create are partitioned. It grows with the column. partitionBy renders the form of
// rowmill's own tables.
type boundForm struct {
	// name identifies the form in engine.Table.Bounds.
	name string
	// forms are the spellings of the expression that the function plain may return, with a question
	// mark for the column. rowmill itself writes the first one.
	forms []string
	// of returns the expression's value at a time; at returns the first time with a value.
	of func(t time.Time) int64
	at func(n int64) time.Time
}

// dayZero is TO_DAYS('1970-01-01').
const dayZero = engine.YearZero / (24 * 60 * 60)

var boundForms = []boundForm{
	{"days", []string{"to_days(?)"},
		func(t time.Time) int64 { return engine.FloorDiv(t.Unix(), 24*60*60) + dayZero },
		func(n int64) time.Time { return time.Unix((n-dayZero)*24*60*60, 0) }},
	{"seconds", []string{"to_seconds(?)"},
		func(t time.Time) int64 { return t.Unix() + engine.YearZero },
		func(n int64) time.Time { return time.Unix(n-engine.YearZero, 0) }},
	{"years", []string{"year(?)"},
		func(t time.Time) int64 { return int64(t.Year()) },
		func(n int64) time.Time { return time.Date(int(n), 1, 1, 0, 0, 0, 0, time.UTC) }},
	{"months", []string{"year(?) * 100 + month(?)", "extract(year_month from ?)"},
		func(t time.Time) int64 { return int64(t.Year()*100 + int(t.Month())) },
		func(n int64) time.Time { // 202400 is reached in January, 202413 in the next one
			return time.Date(int(n/100), time.Month(min(max(n%100, 1), 13)), 1, 0, 0, 0, 0, time.UTC)
		}},
	{"seconds since 1970", []string{"floor(unix_timestamp(?))"},
		func(t time.Time) int64 { return t.Unix() },
		func(n int64) time.Time { return time.Unix(n, 0) }},
}

// formOf returns the form of a table's bounds; nil stands for the form of rowmill's own tables.
func formOf(t *engine.Table) *boundForm {
	if i := slices.IndexFunc(boundForms, func(f boundForm) bool { return f.name == t.Bounds }); i >= 0 {
		return &boundForms[i]
	}
	return nil
}

// expression returns the form's expression for a column.
func (f *boundForm) expression(column string) string {
	return strings.ReplaceAll(f.forms[0], "?", column)
}

// recognize returns the column and the form of a partitioning expression, given as the catalog has
// it. form is "" for the expression by which rowmill's own tables are partitioned. by is "" if
// rowmill can't compute the expression's values.
func recognize(expression string, columns []engine.SchemaColumn) (by, form string) {
	text := plain(expression)
	for _, c := range columns {
		name := plain(c.Name)
		switch {
		case c.Kind == value.Int && text == name, c.Kind == value.Time && (text == name || text == "unix_timestamp"+name):
			return c.Name, ""
		case c.Kind != value.Time:
			continue
		}
		for _, f := range boundForms {
			for _, as := range f.forms {
				if text == strings.ReplaceAll(plain(as), "?", name) {
					return c.Name, f.name
				}
			}
		}
	}
	return "", ""
}

// parseBound reads an upper bound from the catalog. Beyond the axis, it returns the axis's end.
func parseBound(t *engine.Table, text string) (int64, error) {
	f := formOf(t)
	n, err := strconv.ParseInt(text, 10, 64)
	if f == nil || err != nil {
		return t.ParseBound(text, boundUnit(t))
	}
	ends := t.Grid.Bounds()
	switch {
	case n <= f.of(rolling.Instant(ends.From)):
		return ends.From, nil
	case n > f.of(rolling.Instant(ends.To-1)):
		return ends.To, nil
	}
	return rolling.Position(f.at(n)), nil
}

// bound renders the upper bound of a partition, as in its definition. It returns an error if the
// column, or its partitioning, can't represent the bound exactly.
func bound(t *engine.Table, pos int64) (string, error) {
	if pos >= t.Grid.Bounds().To {
		return "MAXVALUE", nil
	}
	between := func(what string) error {
		return engine.Hinted(fmt.Errorf("bound %s of table %s lies between two values of %s", t.Grid.Format(pos), t.Name, what), "a longer period, such as 1d, 1mo or 1y")
	}
	if f := formOf(t); f != nil {
		n := f.of(rolling.Instant(pos))
		if rolling.Position(f.at(n)) != pos {
			return "", between(f.expression(t.By) + ", by which it is partitioned")
		}
		return strconv.FormatInt(n, 10), nil
	}
	unit := boundUnit(t)
	switch {
	case kindOf(t) == engine.ByTimestamp:
		return datetimeText(pos), nil
	case pos%unit != 0:
		return "", between("column " + t.By)
	case kindOf(t) == engine.ByDate:
		return dateText(pos), nil
	}
	return strconv.FormatInt(pos/unit, 10), nil
}

func dateText(pos int64) string { return "'" + rolling.Instant(pos).Format(time.DateOnly) + "'" }
