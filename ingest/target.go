package ingest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A target is the table that rows go into, as a source's columns see it.
type target struct {
	format  *Format
	table   *engine.Table
	plain   *engine.Table // the same, which passes over no duplicates
	columns []column
	byName  map[string]int
	by      int   // the column that the table rolls by
	unit    int64 // what one of an integer's is worth in positions
}

// newTarget returns how rows of these columns go into t, which the catalog
// describes as s.
func newTarget(db engine.Keeper, t *engine.Table, s *engine.Schema, f *Format, names []string, o *Options) (*target, error) {
	out := &target{format: f, by: -1, unit: 1, byName: map[string]int{}}
	table := *t
	table.Columns, table.Ignore = nil, o.Duplicates != RejectDuplicates
	for _, name := range names {
		c := s.Find(name)
		switch {
		case c == nil:
			return nil, unknownColumn(name, t, s, names, f)
		case c.Generated:
			return nil, fmt.Errorf("column %s of table %s is computed by the server: it can't be loaded", c.Name, t.Name)
		}
		if _, twice := out.byName[c.Name]; twice {
			return nil, fmt.Errorf("column %s is named twice", c.Name)
		}
		typed := *c
		if strings.EqualFold(c.Name, t.By) && c.Kind == engine.KindText && t.Grid.Axis() == rolling.Time && t.Epoch == 0 {
			typed.Kind = engine.KindTime // as SQLite, which has no type for them, keeps times
		}
		col, as, err := newColumn(typed, db, &o.Values)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.Name, err)
		}
		if c.Name == t.By || strings.EqualFold(c.Name, t.By) {
			if out.by = len(out.columns); as.Type != engine.Time && as.Type != engine.Int64 {
				return nil, fmt.Errorf("column %s, by which table %s rolls, is of type %s, which can't be loaded", c.Name, t.Name, c.Native)
			}
		}
		out.byName[c.Name] = len(out.columns)
		out.columns = append(out.columns, col)
		table.Columns = append(table.Columns, as)
	}
	if out.by < 0 {
		return nil, engine.Hinted(fmt.Errorf("there is no column %s, by which table %s rolls; there are %s", t.By, t.Name, strings.Join(names, ", ")),
			"a source with %s, or --columns with the names in the order of the fields", t.By)
	}
	var missing []string
	for _, c := range s.Columns {
		if _, there := out.byName[c.Name]; !there && !c.Null && c.Default == "" && !c.Generated && !c.Auto {
			missing = append(missing, c.Name)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("table %s must have a value for %s, and the source has only %s", t.Name, strings.Join(missing, ", "), strings.Join(names, ", "))
	}
	if t.Grid.Axis() == rolling.Time && t.Epoch > 0 {
		out.unit = max(int64(t.Epoch/time.Microsecond), 1)
	}
	plain := table
	plain.Ignore = false
	out.table, out.plain = &table, &plain
	return out, nil
}

// targetOf finds where the fields go, by the options, the header or the first
// row; nil where the source is empty.
func (l *load) targetOf(ctx context.Context, c *cutter, f *Format) (*target, error) {
	record, err := c.peek(ctx)
	if err != nil || len(record) == 0 {
		return nil, err
	}
	names := f.Columns
	switch {
	case names != nil:
	case f.header():
		if names, err = f.names(record); err != nil {
			return nil, fmt.Errorf("line 1, the header: %w", err)
		}
	case f.Kind == JSONL:
		first, err := f.names(record)
		if err != nil {
			return nil, fmt.Errorf("line 1: %w", err)
		}
		names = first
		// Columns that may be NULL may come in later rows.
		for _, col := range l.opt.Schema.Columns {
			if find(first, col.Name) < 0 && col.Null && col.Default == "" && !col.Generated && !col.Auto {
				names = append(names, col.Name)
			}
		}
	default:
		names = l.opt.Schema.Names()
	}
	t, err := newTarget(l.db, l.opt.Table, l.opt.Schema, f, names, l.opt)
	if err != nil && f.header() && f.Columns == nil {
		return nil, fmt.Errorf("line 1, the header: %w", err)
	}
	if err == nil && f.header() && f.Columns != nil && !f.Header && t.hasValues(record) {
		return nil, engine.Hinted(errors.New("line 1, which would be passed over as a header, is a row of values"),
			"--header=false, if it is one; --header, if it is the header all the same")
	}
	return t, err
}

// hasValues reports whether a source's first record is a row: in the place of
// the column that the table rolls by it has a value, which no name is.
func (t *target) hasValues(record []byte) bool {
	fields, _, err := t.format.split(trimBreak(bytes.TrimPrefix(record, byteOrderMark)), nil, nil)
	if err != nil || len(fields) != len(t.columns) {
		return false
	}
	v := engine.Vector{Type: t.table.Columns[t.by].Type}
	return t.columns[t.by].parse(&v, fields[t.by].value) == nil
}

// unknownColumn is the error for a field whose column isn't there.
func unknownColumn(name string, t *engine.Table, s *engine.Schema, names []string, f *Format) error {
	err := fmt.Errorf("column %q isn't one of table %s, whose columns are %s", name, t.Name, strings.Join(s.Names(), ", "))
	switch {
	case !f.header() || f.Columns != nil:
		return engine.Hinted(err, "--columns with the names in the order of the fields")
	case slices.ContainsFunc(names, isValue):
		return engine.Hinted(fmt.Errorf("%w; the line looks like a row of values", err),
			"--header=false where the first line has values, with --columns unless the fields are the table's columns in order")
	}
	return engine.Hinted(err, "--columns with the names in the order of the fields; --header=false where the first line has values")
}

// isValue reports whether a text is a number or a time, which are hardly names.
func isValue(text string) bool {
	_, noNumber := strconv.ParseFloat(text, 64)
	_, _, noTime := parseTime([]byte(text), nil)
	return noNumber == nil && strings.ContainsAny(text, "0123456789") || noTime == nil
}
