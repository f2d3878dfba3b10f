package rollup_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/rolling"
)

// A model computes roll-ups from rows, one by one.
type model []row

func (m model) groups(r rolling.Rollup) map[string][]row {
	out := map[string][]row{}
	for _, x := range m {
		key := fmt.Sprint(r.Every.Floor(x.at))
		for _, by := range r.By {
			switch by {
			case "sensor":
				key += fmt.Sprint("|", x.sensor)
			case "site":
				key += "|" + x.site
			}
		}
		out[key] = append(out[key], x)
	}
	return out
}

func (x row) column(name string) any {
	switch name {
	case "value":
		return x.value
	case "n":
		return x.n
	}
	return x.note
}

// number converts a value to a number, if it is one.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	}
	return 0, false
}

func less(a, b any) int {
	x, num := number(a)
	y, _ := number(b)
	if num {
		return cmp.Compare(x, y)
	}
	return strings.Compare(a.(string), b.(string))
}

// want is the expected value of an aggregate: a text, or a number with a relative
// tolerance.
type want struct {
	text        string
	value       float64
	tolerance   float64
	null, words bool
}

func aggregateOf(rows []row, a rolling.Aggregate) want {
	var values []any
	at := map[int]int64{}
	for _, x := range rows {
		if a.Column == "" {
			values = append(values, 1)
		} else if v := x.column(a.Column); v != nil {
			at[len(values)] = x.at
			values = append(values, v)
		}
	}
	count := float64(len(values))
	switch a.Func {
	case "count":
		return want{value: count}
	case "distinct":
		slices.SortFunc(values, less)
		return want{value: float64(len(slices.CompactFunc(values, func(x, y any) bool { return less(x, y) == 0 }))), tolerance: 0.03}
	}
	if len(values) == 0 {
		return want{null: true}
	}
	exactly := func(v any) want {
		if x, ok := number(v); ok {
			return want{value: x}
		}
		return want{text: v.(string), words: true}
	}
	var sum, mean, m2 float64
	for _, v := range values {
		x, _ := number(v)
		sum += x
	}
	mean = sum / count
	for _, v := range values {
		x, _ := number(v)
		m2 += (x - mean) * (x - mean)
	}
	switch a.Func {
	case "sum":
		return want{value: sum, tolerance: 1e-9}
	case "avg":
		return want{value: mean, tolerance: 1e-9}
	case "variance":
		return want{value: m2 / count, tolerance: 1e-6}
	case "stddev":
		return want{value: math.Sqrt(m2 / count), tolerance: 1e-6}
	case "min":
		return exactly(slices.MinFunc(values, less))
	case "max":
		return exactly(slices.MaxFunc(values, less))
	case "first", "last":
		sign, best := 1, 0
		if a.Func == "last" {
			sign = -1
		}
		for i := range values {
			if c := sign * cmp.Or(cmp.Compare(at[i], at[best]), less(values[i], values[best])); c < 0 {
				best = i
			}
		}
		return exactly(values[best])
	}
	slices.SortFunc(values, less)
	k := int(math.Ceil(math.Round(count*a.Percent*1e6) / 1e6 / 100))
	w := exactly(values[k-1])
	w.tolerance = 0.0101
	return w
}

// is reports whether a server's text matches the value.
func (w want) is(text string) bool {
	if w.null || text == "NULL" {
		return w.null && text == "NULL"
	}
	if w.words {
		return text == w.text
	}
	x, err := strconv.ParseFloat(text, 64)
	return err == nil && math.Abs(x-w.value) <= w.tolerance*max(math.Abs(w.value), 1e-3)+1e-12
}

// differs compares rows of a level (key, number of raw rows, aggregates) with the
// model's, and describes the first difference. Buckets outside p are ignored.
func (m model) differs(r rolling.Rollup, rows []string, p rolling.Period) string {
	groups := m.groups(r)
	for key := range groups {
		bucket, _, _ := strings.Cut(key, "|")
		if pos, _ := strconv.ParseInt(bucket, 10, 64); !p.Contains(pos) {
			delete(groups, key)
		}
	}
	for _, line := range rows {
		cells := strings.Split(line, "|")
		key := strings.Join(cells[:1+len(r.By)], "|")
		if pos, _ := strconv.ParseInt(cells[0], 10, 64); !p.Contains(pos) {
			continue
		}
		of, ok := groups[key]
		if !ok {
			return fmt.Sprintf("row %s: no such rows, or twice", line)
		}
		delete(groups, key)
		cells = cells[1+len(r.By):]
		if cells[0] != fmt.Sprint(len(of)) {
			return fmt.Sprintf("row %s: %s raw rows, want %d", line, cells[0], len(of))
		}
		for i, a := range r.Select {
			if w := aggregateOf(of, a); !w.is(cells[1+i]) {
				return fmt.Sprintf("row %s: %s = %s, want %+v of %v", line, a.Name, cells[1+i], w, of)
			}
		}
	}
	for key, of := range groups {
		return fmt.Sprintf("group %s of %d rows is missing", key, len(of))
	}
	return ""
}

// rows reads a level's table or view in the format of differs.
func (f *fixture) rows(r rolling.Rollup, from string) []string {
	f.t.Helper()
	cols := []string{f.db.Words().Position(f.table, "bucket")}
	cols = append(cols, r.By...)
	cols = append(cols, "raw_rows")
	for _, a := range r.Select {
		cols = append(cols, a.Name)
	}
	return f.read("SELECT " + strings.Join(cols, ", ") + " FROM " + from)
}

// everything is the range of all positions.
var everything = rolling.Period{From: math.MinInt64, To: math.MaxInt64}

// checkViews compares all live views with the model.
func (f *fixture) checkViews(m model, when string) {
	f.t.Helper()
	for _, r := range f.decl.Rollups {
		if d := m.differs(r, f.rows(r, r.Name+"_live"), everything); d != "" {
			f.t.Fatalf("%s: %s_live: %s", when, r.Name, d)
		}
	}
}

// checkTables compares the levels' tables with the model, up to a position.
func (f *fixture) checkTables(m model, upTo int64) {
	f.t.Helper()
	for _, r := range f.decl.Rollups {
		if d := m.differs(r, f.rows(r, r.Name), rolling.Period{From: math.MinInt64, To: r.Every.Floor(upTo)}); d != "" {
			f.t.Fatalf("%s: %s", r.Name, d)
		}
	}
}
