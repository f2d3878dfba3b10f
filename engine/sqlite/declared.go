package sqlite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/engine"
	"github.com/rowmill/rowmill/rolling"
)

// keep renders the steps that change the periods of declared tables.
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
		return transaction(append(out, d.layout(t, s.Have, s.Name)...)...), nil
	}
	return nil, fmt.Errorf("sqlite: no rendering of %T", s)
}

// replace renders Replace. Old stores go first: the new one may have the name of
// one of them.
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

// relayout renders a change of periods, after which there are parts, as one
// transaction. Other views may name this one, which is away for a moment: the
// modern way of renaming would check them, and refuse.
func (d dialect) relayout(t *engine.Table, parts []rolling.Partition, change ...string) []string {
	out := slices.Concat([]string{"DROP VIEW " + d.Quote(t.Name)}, change, d.layout(t, parts))
	return slices.Concat([]string{"PRAGMA legacy_alter_table = ON"}, transaction(out...), []string{"PRAGMA legacy_alter_table = OFF"})
}

func (d dialect) rename(from, to string) string {
	return fmt.Sprintf("ALTER TABLE %s RENAME TO %s", d.Quote(from), d.Quote(to))
}

// note renders that a period is there, forget that it is not.
func (d dialect) note(t *engine.Table, p rolling.Partition) string {
	return fmt.Sprintf("INSERT INTO rowmill_periods (table_name, name, lower, upper) VALUES (%s, %s, %d, %d)",
		quoteText(t.Name), quoteText(p.Name), p.From, p.To)
}

func (d dialect) forget(t *engine.Table, p rolling.Partition) string {
	return fmt.Sprintf("DELETE FROM rowmill_periods WHERE table_name = %s AND name = %s", quoteText(t.Name), quoteText(p.Name))
}

// layout renders what stands under the table's own name: the view of all
// periods, and for a declared table the trigger that takes inserts. More are
// columns besides those of the table.
func (d dialect) layout(t *engine.Table, parts []rolling.Partition, more ...string) []string {
	all, into := columnNames(t)
	for _, name := range more {
		if !slices.ContainsFunc(all, func(c string) bool { return strings.EqualFold(c, name) }) {
			all, into = append(all, name), append(into, name)
		}
	}
	out := []string{d.view(t, all, parts)}
	if t.Definition != nil {
		out = append(out, d.insertTrigger(t, into, parts))
	}
	return out
}

// columnNames returns the columns of a table, and those that can be written to.
func columnNames(t *engine.Table) (all, into []string) {
	if t.Definition == nil {
		for _, c := range t.Columns {
			all = append(all, c.Name)
		}
		return all, slices.Clone(all)
	}
	for _, c := range t.Definition.Columns {
		all = append(all, c.Name)
		if !c.Generated {
			into = append(into, c.Name)
		}
	}
	return all, into
}

// viewComment begins the view of a declared table, and says by which column it
// rolls: nothing else in the file does.
const viewComment = "/* rowmill: rolls by "

// inComment has what a comment can't hold, and unComment undoes it.
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

// ownTrigger reports whether the trigger is the one that takes inserts.
func ownTrigger(table, name string) bool { return name == table+"_rowmill_insert" }

// insertTrigger renders what makes an insert into the view go to the store of
// its row's period. A row outside every period is refused, also by INSERT OR
// IGNORE, and so is a value of the column By that would be compared otherwise
// than its position is: text where an integer is meant, or a time in another
// form than the bounds have.
func (d dialect) insertTrigger(t *engine.Table, into []string, parts []rolling.Partition) string {
	w := words{dialect: d}
	by := "NEW." + d.Quote(t.By)
	within := func(p rolling.Period) string {
		return fmt.Sprintf("%s >= %s AND %s < %s", by, w.Literal(t, p.From), by, w.Literal(t, p.To))
	}
	form, want := fmt.Sprintf("typeof(%s) = 'integer'", by), "an integer"
	if epochOf(t) == 0 {
		form = fmt.Sprintf("typeof(%s) = 'text' AND strftime('%%Y-%%m-%%d %%H:%%M:%%S', substr(%s, 1, 19)) = substr(%s, 1, 19)"+
			" AND (length(%s) = 19 OR length(%s) <= 26 AND substr(%s, 20) GLOB '.[0-9]*' AND substr(%s, 21) NOT GLOB '*[^0-9]*')", by, by, by, by, by, by, by)
		want = "YYYY-MM-DD hh:mm:ss, with up to 6 digits of a second"
	}
	var inside []string
	for _, p := range merged(parts) {
		inside = append(inside, "("+within(p)+")")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "CREATE TRIGGER %s INSTEAD OF INSERT ON %s BEGIN\n", d.Quote(t.Name+"_rowmill_insert"), d.Quote(t.Name))
	fmt.Fprintf(&b, "SELECT CASE WHEN (%s) IS NOT 1 THEN RAISE(ABORT, %s)\nWHEN NOT (%s) THEN RAISE(ABORT, %s) END;\n",
		form, quoteText("rowmill: "+t.Name+"."+t.By+" must be "+want), strings.Join(inside, " OR "), quoteText(outsideText+" of "+t.Name))
	values := make([]string, len(into))
	for i, c := range into {
		values[i] = "NEW." + d.Quote(c)
	}
	for _, p := range slices.Backward(parts) {
		fmt.Fprintf(&b, "INSERT INTO %s (%s) SELECT %s WHERE %s;\n", d.Quote(store(t, p)), d.list(into), strings.Join(values, ", "), within(p.Period))
	}
	b.WriteString("END")
	return b.String()
}

// outsideText is how the trigger says that a row lies outside every period.
const outsideText = "rowmill: row outside every period"

// merged returns the ranges that the partitions, which are in order, cover.
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
