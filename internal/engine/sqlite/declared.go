package sqlite

import (
	"cmp"
	"fmt"
	"regexp"
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
			return nil, fmt.Errorf("detach partition %s of %s: it is the only partition", s.Part.Name, s.Table.Name)
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
	case engine.Release:
		return d.release(s)
	case engine.DropTables:
		return s.Statements(d), nil
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

// release renders Release: it copies the view's rows into a plain table, and drops the view with
// its triggers.
func (d dialect) release(s engine.Release) ([]string, error) {
	if s.Table.Definition == nil {
		return nil, fmt.Errorf("release %s: it has no definition", s.Table.Name)
	}
	var columns []string
	for _, c := range s.Table.Definition.Columns {
		if !c.Generated {
			columns = append(columns, d.Quote(c.Name))
		}
	}
	names, plain := strings.Join(columns, ", "), s.Table.Name+"__rowmill_plain"
	out := []string{s.Table.Definition.As(d.Quote(plain)), fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s", d.Quote(plain), names, names, d.Quote(s.Table.Name)), "DROP VIEW " + d.Quote(s.Table.Name)}
	out = append(out, d.dropStores(s.Table, s.Have)...)
	out = append(out, d.rename(plain, s.Table.Name))
	for _, ix := range s.Table.Definition.Indexes {
		out = append(out, ix.As(d.Quote(ix.Name), d.Quote(s.Table.Name)))
	}
	return slices.Concat([]string{"PRAGMA legacy_alter_table = ON"}, transaction(out...), []string{"PRAGMA legacy_alter_table = OFF"}), nil
}

// replace renders Replace. It renames the old stores first, because the new store may have the name
// of an old one.
func (d dialect) replace(s engine.Replace) ([]string, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("replace partitions of %s: %w", s.Table.Name, err)
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
	slices.SortFunc(parts, func(a, b rolling.Partition) int { return cmp.Compare(a.From, b.From) })
	return parts
}

// relayout renders one transaction that drops the view, makes the change, and creates the view of
// parts, the periods after the change. Without legacy_alter_table, ALTER TABLE RENAME would check
// other views, which may refer to the dropped one.
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

// layout renders the view of the periods in parts. The view has the table's columns and the columns
// in more. For a declared table, layout also renders the view's triggers.
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
		return engine.Names(t.Columns)
	}
	for _, c := range t.Definition.Columns {
		names = append(names, c.Name)
	}
	return names
}

// viewComment begins a comment in the view. It names the column By, which nothing else records.
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

// periodsPerTrigger is the number of periods for each trigger. For every row, SQLite initializes
// all triggers, and evaluates a statement per period. With 500 periods, a row takes 50 us with 16
// or 32 periods per trigger, 100 us with 4, and 5 ms with one trigger for all.
const periodsPerTrigger = 16

// Messages of the triggers. classify recognizes the first.
const (
	outsideText = "rowmill: row outside every period"
	movesText   = "rowmill: an UPDATE can't take a row to another period; delete it and insert it there"
)

// ownTrigger reports whether a trigger on a table was rendered by triggers.
func ownTrigger(table, name string) bool { return strings.HasPrefix(name, table+"_rowmill_") }

// triggers renders the triggers that apply changes of the view to the periods' tables, in SQL only,
// so that any client can write.
//
// The triggers refuse rows outside of all periods, even those of an INSERT OR IGNORE. They also
// refuse values of By that don't sort like their position: text for an integer, or a time in
// another format. A column that an INSERT omits is NULL to a trigger, which stores the default if
// the column is NOT NULL.
func (d dialect) triggers(t *engine.Table, columns []rolling.DefinedColumn, parts []rolling.Partition) []string {
	r := router{d: d, t: t, key: t.PrimaryKey}
	if len(r.key) == 0 {
		r.key = t.Definition.PrimaryKey
	}
	for _, c := range columns {
		value := "NEW." + d.Quote(c.Name)
		if def := defaultOf(c.Text); def != "" && (c.NotNull || saysNotNull(c.Text)) {
			value = "COALESCE(" + value + ", " + def + ")"
		}
		if strings.EqualFold(c.Name, t.By) {
			r.by = value
		}
		if !c.Generated {
			r.names, r.values = append(r.names, c.Name), append(r.values, r.spelt(c.Name, value))
		}
	}
	if r.by == "" {
		r.by = "NEW." + d.Quote(t.By)
	}
	var out []string
	i := 0
	for group := range slices.Chunk(parts, periodsPerTrigger) {
		i++
		out = append(out, r.insert(i, group), r.update(i, group), r.delete(i, group))
	}
	// SQLite runs the last trigger first. This only decides which of several errors is reported.
	return append(out, r.checks(parts)...)
}

// spelt returns an expression for a column's new value, as it is stored. If By is a time, its text
// gets six fractional digits, or none if they are zero, as in words.Literal: one instant in two
// formats would be two keys.
func (r *router) spelt(column, value string) string {
	if !strings.EqualFold(column, r.t.By) || epochOf(r.t) != 0 {
		return value
	}
	return fmt.Sprintf("substr(%s, 1, 19) || CASE WHEN rtrim(substr(%s, 20), '.0') = '' THEN '' ELSE '.' || substr(substr(%s, 21) || '00000', 1, 6) END", value, value, value)
}

// A router renders the triggers of one table.
type router struct {
	d             dialect
	t             *engine.Table
	key           []string
	by            string // the new value of the column By
	names, values []string
}

func (r *router) within(by string, p rolling.Period) string {
	w := words{dialect: r.d}
	return fmt.Sprintf("%s >= %s AND %s < %s", by, w.Literal(r.t, p.From), by, w.Literal(r.t, p.To))
}

func (r *router) old() string { return "OLD." + r.d.Quote(r.t.By) }

// trigger renders one trigger; on is INSERT, UPDATE or DELETE.
func (r *router) trigger(name, on, when string, body ...string) string {
	if when != "" {
		when = " WHEN " + when
	}
	return fmt.Sprintf("CREATE TRIGGER %s INSTEAD OF %s ON %s%s BEGIN\n%s;\nEND", r.d.Quote(r.t.Name+"_rowmill_"+name), on, r.d.Quote(r.t.Name), when, strings.Join(body, ";\n"))
}

// checks renders the triggers that refuse a row whose position has the wrong form or is in no
// period.
func (r *router) checks(parts []rolling.Partition) []string {
	form, want := fmt.Sprintf("typeof(%s) = 'integer'", r.by), "an integer"
	if epochOf(r.t) == 0 {
		form = fmt.Sprintf("typeof(%s) = 'text' AND strftime('%%Y-%%m-%%d %%H:%%M:%%S', substr(%s, 1, 19)) = substr(%s, 1, 19) AND substr(%s, 12, 2) < '24'"+
			" AND (length(%s) = 19 OR length(%s) BETWEEN 21 AND 26 AND substr(%s, 20, 1) = '.' AND substr(%s, 21) NOT GLOB '*[^0-9]*')", r.by, r.by, r.by, r.by, r.by, r.by, r.by, r.by)
		want = "YYYY-MM-DD hh:mm:ss, with up to 6 digits of a second"
	}
	var inside []string
	for _, p := range merged(parts) {
		inside = append(inside, "("+r.within(r.by, p)+")")
	}
	check := fmt.Sprintf("SELECT CASE WHEN (%s) IS NOT 1 THEN RAISE(ABORT, %s)\nWHEN NOT (%s) THEN RAISE(ABORT, %s) END",
		form, quoteText("rowmill: "+r.t.Name+"."+r.t.By+" must be "+want), strings.Join(inside, " OR "), quoteText(outsideText+" of "+r.t.Name))
	return []string{
		r.trigger("insert", "INSERT", "", check),
		r.trigger("update", "UPDATE", r.by+" IS NOT "+r.old(), check),
	}
}

// when renders the condition that a value lies in the range of a group, which may have gaps.
func (r *router) when(by string, group []rolling.Partition) string {
	return r.within(by, rolling.Period{From: group[0].From, To: group[len(group)-1].To})
}

func (r *router) insert(i int, group []rolling.Partition) string {
	var body []string
	for _, p := range group {
		body = append(body, fmt.Sprintf("INSERT INTO %s (%s) SELECT %s WHERE %s", r.d.Quote(store(r.t, p)), r.d.list(r.names), strings.Join(r.values, ", "), r.within(r.by, p.Period)))
	}
	return r.trigger(fmt.Sprintf("insert_%d", i), "INSERT", r.when(r.by, group), body...)
}

// keyIs renders the condition that finds the old row.
func (r *router) keyIs() string {
	terms := make([]string, len(r.key))
	for i, c := range r.key {
		terms[i] = r.d.Quote(c) + " IS OLD." + r.d.Quote(c)
	}
	return strings.Join(terms, " AND ")
}

func (r *router) update(i int, group []rolling.Partition) string {
	set, stays := make([]string, len(r.names)), make([]string, len(group))
	for i, c := range r.names {
		value := "NEW." + r.d.Quote(c)
		if as := r.spelt(c, value); as != value { // an unchanged value keeps its stored format
			value = "CASE WHEN " + value + " IS OLD." + r.d.Quote(c) + " THEN " + value + " ELSE " + as + " END"
		}
		set[i] = r.d.Quote(c) + " = " + value
	}
	for i, p := range group {
		stays[i] = "(" + r.within(r.old(), p.Period) + " AND " + r.within("NEW."+r.d.Quote(r.t.By), p.Period) + ")"
	}
	body := []string{fmt.Sprintf("SELECT RAISE(ABORT, %s) WHERE NEW.%s IS NOT %s AND NOT (%s)", quoteText(movesText), r.d.Quote(r.t.By), r.old(), strings.Join(stays, " OR "))}
	for _, p := range group {
		body = append(body, fmt.Sprintf("UPDATE %s SET %s WHERE %s AND %s", r.d.Quote(store(r.t, p)), strings.Join(set, ", "), r.keyIs(), r.within(r.old(), p.Period)))
	}
	return r.trigger(fmt.Sprintf("update_%d", i), "UPDATE", r.when(r.old(), group), body...)
}

func (r *router) delete(i int, group []rolling.Partition) string {
	var body []string
	for _, p := range group {
		body = append(body, fmt.Sprintf("DELETE FROM %s WHERE %s AND %s", r.d.Quote(store(r.t, p)), r.keyIs(), r.within(r.old(), p.Period)))
	}
	return r.trigger(fmt.Sprintf("delete_%d", i), "DELETE", r.when(r.old(), group), body...)
}

// tokens matches comments, quoted texts and names, numbers, words, and single characters.
var tokens = regexp.MustCompile("(?s)--[^\n]*\n?|/\\*.*?(?:\\*/|$)|\\[[^]]*(?:\\]|$)|[xX]?'(?:[^']|'')*(?:'|$)|\"(?:[^\"]|\"\")*(?:\"|$)|" +
	"`(?:[^`]|``)*(?:`|$)|[0-9.](?:[eE][+-]|[\\w.\\x{80}-\\x{10FFFF}])*|[\\w\\x{80}-\\x{10FFFF}]+|.")

// tokensOf returns a definition's tokens, without comments. A part in parentheses is one token.
func tokensOf(text string) (out []string) {
	depth := 0
	for _, t := range tokens.FindAllString(text, -1) {
		if strings.TrimSpace(t) == "" || strings.HasPrefix(t, "--") || strings.HasPrefix(t, "/*") {
			t = " "
		}
		switch {
		case depth > 0:
			out[len(out)-1] += t
		case t != " ":
			out = append(out, t)
		}
		switch t {
		case "(":
			depth++
		case ")":
			depth = max(depth-1, 0)
		}
	}
	return out
}

// saysNotNull reports whether a column's definition contains NOT NULL.
func saysNotNull(text string) bool {
	all := tokensOf(text) // what is in parentheses or quoted is within a token
	for i, word := range all[:max(len(all)-1, 0)] {
		if strings.EqualFold(word, "NOT") && strings.EqualFold(all[i+1], "NULL") {
			return true
		}
	}
	return false
}

// defaultOf returns the default of a column's definition as an expression, or "".
func defaultOf(text string) string {
	all := tokensOf(text)
	i := slices.IndexFunc(all, func(t string) bool { return strings.EqualFold(t, "DEFAULT") }) + 1
	n := i
	for n < len(all) && (all[n] == "+" || all[n] == "-") {
		n++
	}
	if i == 0 || n == len(all) {
		return ""
	}
	def := strings.Join(all[i:n+1], "")
	if strings.HasPrefix(def, `"`) || named.MatchString(def) && !constants[strings.ToUpper(def)] {
		// SQLite accepts a name as text in DEFAULT, but not in an expression.
		def = quoteText(strings.ReplaceAll(strings.Trim(def, `"`), `""`, `"`))
	}
	return def
}

// named matches an unquoted name.
var named = regexp.MustCompile(`^[A-Za-z_\x{80}-\x{10FFFF}][^']*$`)

// constants are the unquoted words that SQLite doesn't take for text in DEFAULT.
var constants = map[string]bool{"NULL": true, "TRUE": true, "FALSE": true, "CURRENT_TIME": true, "CURRENT_DATE": true, "CURRENT_TIMESTAMP": true}

// renameTable renders engine.Rename. If other views or triggers refer to the table,
// legacy_alter_table must be ON while the statements run.
func (d dialect) renameTable(s engine.Rename) ([]string, error) {
	if len(s.Have) == 0 {
		return []string{d.rename(s.Table.Name, s.To)}, nil
	}
	to := *s.Table
	to.Name = s.To
	out := []string{"DROP VIEW " + d.Quote(s.Table.Name)}
	for _, p := range s.Have {
		out = append(out, d.rename(store(s.Table, p), store(&to, p)))
	}
	out = append(out, "UPDATE rowmill_periods SET table_name = "+quoteText(s.To)+" WHERE table_name = "+quoteText(s.Table.Name))
	return append(out, d.layout(&to, s.Have)...), nil
}
