package sqlite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// periodsPerTrigger is the number of periods for each trigger. A trigger contains
// one statement per period, which SQLite evaluates for every row, and SQLite
// initializes the memory of every trigger for every row. Measured with 500
// periods, a row takes some 50 us with 16 or 32 periods per trigger, 100 us with
// 4, and 5 ms with a single trigger. With 40 periods it takes 10 us; an insert
// into the period's own table takes 5 us.
const periodsPerTrigger = 16

// Messages of the triggers. classify recognizes the first.
const (
	outsideText = "rowmill: row outside every period"
	movesText   = "rowmill: an UPDATE can't take a row to another period; delete it and insert it there"
)

// ownTrigger reports whether a trigger on a table was rendered by triggers.
func ownTrigger(table, name string) bool { return strings.HasPrefix(name, table+"_rowmill_") }

// triggers renders the triggers that apply changes of the view to the tables of
// the rows' periods. They use only SQL, so that any client can write.
//
// A row outside every period is refused, even by INSERT OR IGNORE. So is a value of
// the column By that doesn't sort like its position: text instead of an integer, or
// a time in a format other than that of the bounds. Fractional seconds are stored
// in one format, whatever their number of digits. A trigger sees NULL for a column
// that an INSERT omits: NULL is replaced by the default if the column is NOT NULL,
// and is stored otherwise.
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
	// SQLite runs the last trigger first. The order determines only which error is
	// reported for a row with several: any error undoes the whole statement.
	return append(out, r.checks(parts)...)
}

// spelt returns the expression for a column's new value as it is stored. Times of
// the column By are stored in the format of words.Literal: with six fractional
// digits, or none. In different formats one instant would be two keys.
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

// checks renders the triggers that refuse rows.
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

// when renders the condition that a value lies between the start of a group's
// first period and the end of its last one. The group may have gaps.
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

// clauses calls fn for each word of a column's definition outside quotes and
// parentheses, with the text that follows it; fn returns false to stop.
func clauses(text string, fn func(word, rest string) bool) {
	for depth := 0; text != ""; {
		n := tokenLength(text)
		token := text[:n]
		text = text[n:]
		switch {
		case token == "(":
			depth++
		case token == ")":
			depth--
		case depth == 0 && isWord(token[0]) && !fn(strings.ToUpper(token), text):
			return
		}
	}
}

func isWord(c byte) bool {
	return c == '_' || c >= 0x80 || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// tokenLength returns the length of the first token: a comment, a quoted string or
// name, a word, a number, or one character.
func tokenLength(s string) int {
	until := func(from int, end string) int {
		if i := strings.Index(s[from:], end); i >= 0 {
			return from + i + len(end)
		}
		return len(s)
	}
	switch c := s[0]; {
	case strings.HasPrefix(s, "--"):
		return until(2, "\n")
	case strings.HasPrefix(s, "/*"):
		return until(2, "*/")
	case c == '[':
		return until(1, "]")
	case c == '\'' || c == '"' || c == '`':
		n := until(1, string(c))
		for n < len(s) && s[n] == c { // a doubled quote is part of the text
			n = until(n+1, string(c))
		}
		return n
	case (c == 'x' || c == 'X') && strings.HasPrefix(s[1:], "'"): // bytes
		return until(2, "'")
	case isWord(c) || c == '.':
		n := 1
		for n < len(s) && (isWord(s[n]) || s[n] == '.' || (s[n] == '+' || s[n] == '-') && '0' <= c && c <= '9' && (s[n-1] == 'e' || s[n-1] == 'E')) {
			n++
		}
		return n
	}
	return 1
}

// saysNotNull reports whether a column's definition contains NOT NULL.
func saysNotNull(text string) (yes bool) {
	clauses(text, func(word, rest string) bool {
		yes = word == "NOT" && strings.HasPrefix(strings.ToUpper(strings.TrimSpace(rest)), "NULL")
		return !yes
	})
	return yes
}

// defaultOf returns the default of a column's definition as an expression, or ""
// if it has none.
func defaultOf(text string) (def string) {
	clauses(text, func(word, rest string) bool {
		if word != "DEFAULT" {
			return true
		}
		for depth := 0; rest != ""; {
			n := tokenLength(rest)
			token := rest[:n]
			rest = rest[n:]
			switch {
			case strings.TrimSpace(token) == "" || strings.HasPrefix(token, "--") || strings.HasPrefix(token, "/*"):
				if depth == 0 {
					continue
				}
				token = " "
			case token == "(":
				depth++
			case token == ")":
				depth--
			}
			if depth < 0 {
				break
			}
			def += token
			if depth == 0 && token != "+" && token != "-" {
				break
			}
		}
		return false
	})
	switch {
	case strings.HasPrefix(def, `"`), def != "" && isWord(def[0]) && !strings.ContainsAny(def[:1], "0123456789") && !strings.Contains(def, "'") && !constants[strings.ToUpper(def)]:
		// SQLite accepts a name as text in DEFAULT, but not in an expression.
		def = quoteText(strings.ReplaceAll(strings.Trim(def, `"`), `""`, `"`))
	}
	return def
}

// constants are the words that, as a default, are not text.
var constants = map[string]bool{"NULL": true, "TRUE": true, "FALSE": true, "CURRENT_TIME": true, "CURRENT_DATE": true, "CURRENT_TIMESTAMP": true}
