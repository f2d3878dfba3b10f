package sqlite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// keep renders changes of periods, columns and names of declared tables.
func (d dialect) keep(s engine.Step) ([]string, error) {
	switch s := s.(type) {
	case engine.Detach:
		left := slices.DeleteFunc(slices.Clone(s.Have), func(p rolling.Partition) bool { return p.Name == s.Part.Name })
		if len(left) == 0 {
			return nil, fmt.Errorf("detach partition %s of %s: it is the only one", s.Part.Name, s.Table.Name)
		}
		return d.relayout(s.Table, left,
			d.rename(store(s.Table, s.Part), s.Into),
			d.forget(s.Table, s.Part)), nil
	case engine.Attach:
		have := slices.DeleteFunc(slices.Clone(s.Have), func(p rolling.Partition) bool { return p == s.Part })
		if err := fits(s.Table, len(have)+1); err != nil {
			return nil, err
		}
		return d.relayout(s.Table, inOrder(append(have, s.Part)),
			d.rename(s.From, store(s.Table, s.Part)),
			d.note(s.Table, s.Part)), nil
	case engine.Replace:
		return d.replace(s)
	case engine.DropTables:
		var out []string
		for _, name := range s.Names {
			out = append(out, "DROP TABLE IF EXISTS "+d.Quote(name))
		}
		return out, nil
	case engine.Rename:
		return d.renameTable(s)
	case engine.AddColumn:
		t := s.Table
		if !t.Rolling() {
			return []string{"ALTER TABLE " + d.Quote(t.Name) + " ADD COLUMN " + s.Definition}, nil
		}
		var out []string
		for _, p := range s.Have {
			out = append(out, "ALTER TABLE "+d.Quote(store(t, p))+" ADD COLUMN "+s.Definition)
		}
		out = append(out, "DROP VIEW "+d.Quote(t.Name))
		return transaction(append(out, d.layout(t, s.Have, rolling.DefinedColumn{Name: s.Name, Text: s.Definition})...)...), nil
	}
	return nil, fmt.Errorf("sqlite: no rendering of %T", s)
}

// replace renders Replace. The old stores are renamed first, because the new
// store may have the name of one of them.
func (d dialect) replace(s engine.Replace) ([]string, error) {
	if len(s.Old) == 0 || len(s.Out) != len(s.Old) {
		return nil, fmt.Errorf("replace partitions of %s: %d old ones, and %d tables for their rows", s.Table.Name, len(s.Old), len(s.Out))
	}
	if slices.Contains(s.Out, s.With) {
		return nil, fmt.Errorf("replace partitions of %s: table %s can't hold both the new rows and the old ones", s.Table.Name, s.With)
	}
	left := []rolling.Partition{s.New}
	for _, p := range s.Have {
		if !slices.ContainsFunc(s.Old, func(o rolling.Partition) bool { return o.Name == p.Name }) && p.Name != s.New.Name {
			left = append(left, p)
		}
	}
	var out []string
	for i, p := range s.Old {
		out = append(out, d.rename(store(s.Table, p), s.Out[i]), d.forget(s.Table, p))
	}
	out = append(out, d.rename(s.With, store(s.Table, s.New)), d.note(s.Table, s.New))
	return d.relayout(s.Table, inOrder(left), out...), nil
}

func inOrder(parts []rolling.Partition) []rolling.Partition {
	slices.SortFunc(parts, func(a, b rolling.Partition) int {
		if a.From < b.From {
			return -1
		}
		return 1
	})
	return parts
}

// relayout renders a change of periods, which leaves parts, as one transaction.
// The view doesn't exist during the change. Other views may refer to it, and
// without legacy_alter_table ALTER TABLE RENAME checks them and fails.
func (d dialect) relayout(t *engine.Table, parts []rolling.Partition, change ...string) []string {
	out := slices.Concat([]string{"DROP VIEW " + d.Quote(t.Name)}, change, d.layout(t, parts))
	return slices.Concat([]string{"PRAGMA legacy_alter_table = ON"}, transaction(out...), []string{"PRAGMA legacy_alter_table = OFF"})
}

func (d dialect) rename(from, to string) string {
	return fmt.Sprintf("ALTER TABLE %s RENAME TO %s", d.Quote(from), d.Quote(to))
}

// note renders the INSERT of a period into rowmill_periods.
func (d dialect) note(t *engine.Table, p rolling.Partition) string {
	return fmt.Sprintf("INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES (%s, %s, %d, %d)",
		quoteText(t.Name), quoteText(p.Name), p.From, p.To)
}

// forget renders the DELETE of a period from rowmill_periods.
func (d dialect) forget(t *engine.Table, p rolling.Partition) string {
	return fmt.Sprintf("DELETE FROM rowmill_periods WHERE table_name = %s AND name = %s", quoteText(t.Name), quoteText(p.Name))
}

// layout renders the view of all periods, which has the table's own name, and,
// for a declared table, the triggers that apply changes of the view. More are
// columns in addition to those of the table.
func (d dialect) layout(t *engine.Table, parts []rolling.Partition, more ...rolling.DefinedColumn) []string {
	names := columnNames(t)
	var columns []rolling.DefinedColumn
	if t.Definition != nil {
		columns = t.Definition.Columns
	}
	for _, c := range more {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, c.Name) }) {
			names, columns = append(names, c.Name), append(slices.Clone(columns), c)
		}
	}
	out := []string{d.view(t, names, parts)}
	if t.Definition != nil {
		out = append(out, d.triggers(t, columns, parts)...)
	}
	return out
}

// columnNames returns the names of a table's columns.
func columnNames(t *engine.Table) (names []string) {
	if t.Definition == nil {
		for _, c := range t.Columns {
			names = append(names, c.Name)
		}
		return names
	}
	for _, c := range t.Definition.Columns {
		names = append(names, c.Name)
	}
	return names
}

// viewComment begins the comment in the view of a declared table that names the
// column By. Nothing else in the file records that column.
const viewComment = "/* rowmill: rolls by "

// inComment escapes characters that a comment can't contain; unComment unescapes.
var (
	inComment = strings.NewReplacer("%", "%25", "*", "%2A", "\n", "%0A")
	unComment = strings.NewReplacer("%25", "%", "%2A", "*", "%0A", "\n")
)

// rollsBy returns the column that a view's comment names.
func rollsBy(view string) string {
	_, rest, ok := strings.Cut(view, viewComment)
	by, _, end := strings.Cut(rest, " */\n")
	if !ok || !end {
		return ""
	}
	return unComment.Replace(by)
}

// merged returns the ranges of partitions, in order, with adjacent ones joined.
func merged(parts []rolling.Partition) (out []rolling.Period) {
	for _, p := range parts {
		if n := len(out); n > 0 && out[n-1].To == p.From {
			out[n-1].To = p.To
		} else {
			out = append(out, p.Period)
		}
	}
	return out
}
