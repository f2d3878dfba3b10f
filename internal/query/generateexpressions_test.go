package query

import (
	"fmt"
	"slices"
	"strings"
)

// An expression is one of random ones.
type expression struct {
	text  string
	class randomClass
	// loose values are equal for the server though their texts differ.
	loose bool
	// scale is the number of digits after the point that all values have, by the name of what fixes
	// it; "" if they differ.
	scale string
}

// column returns a column of a class; false if no table has one.
func (g *generator) column(c randomClass) (expression, bool) {
	t := g.table
	if g.chance(25) {
		t = pick(g, g.tables)
	}
	if len(t.columns[c]) == 0 {
		t = g.table
	}
	if len(t.columns[c]) == 0 {
		return expression{}, false
	}
	name := pick(g, t.columns[c])
	e := expression{text: t.alias + "." + name, class: c, loose: t.isLoose(name, g.filtered)}
	if !e.loose {
		e.scale = "of " + t.name + "." + name
	}
	if c == intClass {
		e.scale = "0"
	}
	return e, true
}

// integer returns a column of integers, which all tables have.
func (g *generator) integer() string {
	e, _ := g.column(intClass)
	return e.text
}

// numeric returns an expression of a number.
func (g *generator) numeric(depth int) expression {
	c := intClass
	if g.chance(40) {
		c = decimalClass
	}
	if g.chance(6) {
		c = floatClass
	}
	col, ok := g.column(c)
	if !ok {
		col, _ = g.column(intClass)
	}
	if depth == 0 || g.chance(55) {
		return col
	}
	other := g.numeric(depth - 1)
	// made is an expression of these. Its values have the digits that scale tells.
	made := func(scale, format string, args ...any) expression {
		e := expression{text: fmt.Sprintf(format, args...), class: col.class, scale: scale}
		e.loose = e.class != intClass && scale == ""
		return e
	}
	// either has values of both, with digits of their own.
	either := func(format string, args ...any) expression {
		e := made("", format, args...)
		e.class = max(col.class, other.class)
		if e.loose = e.class != intClass && (col.loose || other.loose || col.scale != other.scale); !e.loose {
			e.scale = col.scale
		}
		return e
	}
	sum := ""
	if col.scale != "" && other.scale != "" {
		sum = col.scale + " and " + other.scale
	}
	switch g.IntN(16) {
	case 0:
		e := made(sum, "%s + %s", col.text, other.text)
		e.class = max(col.class, other.class)
		e.loose = e.class != intClass && sum == ""
		return e
	case 1:
		e := made(sum, "(%s - %s)", g.signed(col), g.signed(other))
		e.class = max(col.class, other.class)
		e.loose = e.class != intClass && sum == ""
		return e
	case 2:
		by := pick(g, []string{"2", "0.5", "-1", "100", "1.10"})
		e := made(col.scale+" and "+by, "%s * %s", g.signed(col), by)
		e.loose = col.loose || col.class == floatClass // -0
		e.class = max(col.class, decimalClass)
		return e
	case 3:
		e := made(col.scale, "-%s", col.text)
		e.loose = col.loose || col.class == floatClass
		return e
	case 4:
		if col.class == intClass {
			return made("0", "%s %% %s", col.text, pick(g, []string{"2", "3", "7", "10"}))
		}
		return made("", "ROUND(%s, 1)", col.exact())
	case 5:
		return made(col.scale, "ABS(%s)", col.text)
	case 6:
		e := made("", "COALESCE(%s, 0)", col.text)
		if col.class == intClass {
			e.scale = "0"
		}
		return e
	case 7:
		return either("CASE WHEN %s THEN %s ELSE %s END", g.condition(0), col.text, other.text)
	case 8:
		return made(col.scale, "CASE WHEN %s THEN %s END", g.condition(1), col.text)
	case 9:
		e := made("", "%s / %s", col.text, pick(g, []string{"3", "7", "0.3", "100"}))
		e.class = max(col.class, decimalClass)
		e.loose = true
		return e
	case 10:
		e := made(col.scale, "NULLIF(%s, %s)", col.text, pick(g, someNumbers))
		e.loose = e.loose || col.class == floatClass
		return e
	case 11:
		return either("%s(%s, %s)", pick(g, []string{"GREATEST", "LEAST"}), col.text, other.text)
	case 12:
		e := made("", "%s(%s)", pick(g, []string{"FLOOR", "CEIL", "SIGN"}), col.text)
		e.loose = col.class != intClass
		return e
	case 13:
		if text, _ := g.text(0); text.class == textClass {
			return expression{text: pick(g, []string{"CHAR_LENGTH(", "OCTET_LENGTH("}) + text.text + ")", class: intClass, scale: "0"}
		}
		return col
	case 14:
		if g.chance(70) {
			return col
		}
		return expression{text: "(SELECT COUNT(*) FROM hosts zh WHERE zh.id < " + g.integer() + ")", class: intClass, scale: "0"}
	default:
		if at, ok := g.column(timeClass); ok {
			e := expression{text: "EXTRACT(" + pick(g, []string{"MONTH", "DAY", "YEAR"}) + " FROM " + at.text + ")", class: intClass, scale: "0"}
			return e
		}
		return made(col.scale, "(%s)", col.text)
	}
}

// exact makes a binary fraction a decimal where the function wants one.
func (e expression) exact() string {
	if e.class == floatClass {
		return "CAST(" + e.text + " AS DECIMAL(30,6))"
	}
	return e.text
}

// signed is the text of a number whose differences may be below 0: unsigned integers give an error
// then, or none if the server tests another condition first.
func (g *generator) signed(e expression) string {
	if g.kind != "postgres" && slices.Contains([]string{"e.id", "e.tu", "e.mi", "e.iu", "e.bu", "m.cnt"}, e.text) {
		return "CAST(" + e.text + " AS SIGNED)"
	}
	return e.text
}

// text returns an expression of text; without one, false and a number.
func (g *generator) text(depth int) (expression, bool) {
	col, ok := g.column(textClass)
	if !ok {
		col, _ = g.column(intClass)
		return col, false
	}
	if depth == 0 || g.chance(60) {
		return col, true
	}
	e := col
	switch g.IntN(8) {
	case 0:
		e.text = pick(g, []string{"UPPER(", "LOWER("}) + col.text + ")"
	case 1:
		e.text = "CONCAT(" + col.text + ", " + pick(g, someTexts) + ")"
	case 2:
		e.text, e.loose = "SUBSTRING("+col.text+", 1, 2)", true
	case 3:
		e.text = "COALESCE(" + col.text + ", '-')"
	case 4:
		e.text, e.loose = "REPLACE("+col.text+", 'a', '')", true
	case 5:
		e.text, e.loose = "TRIM("+col.text+")", true
	case 6:
		e.text, e.loose = "NULLIF("+col.text+", "+pick(g, someTexts)+")", col.loose
	default:
		e.text = "CASE WHEN " + g.condition(0) + " THEN " + col.text + " ELSE 'none' END"
	}
	return e, true
}

// value returns an expression of any class.
func (g *generator) value(depth int) expression {
	switch g.IntN(10) {
	case 0, 1, 2, 3:
		return g.numeric(depth)
	case 4, 5, 6:
		e, _ := g.text(depth)
		return e
	case 7, 8:
		if e, ok := g.column(timeClass); ok {
			if depth > 0 && g.chance(30) {
				e.text = "CAST(" + e.text + " AS DATE)"
			}
			return e
		}
	default:
		if e, ok := g.column(otherClass); ok {
			return e
		}
	}
	return g.numeric(0)
}

// single returns an expression of which one of several equal values may be shown.
func (g *generator) single(depth int) expression {
	for range 20 {
		if e := g.value(depth); g.shown(e.loose) {
			return e
		}
	}
	e, _ := g.column(intClass)
	return e
}

// told returns an expression that is the same for equal values, however they are written.
func (g *generator) told(e expression) expression {
	list := g.table.literals[e.class]
	text := "(" + e.text + ") IS NULL"
	if len(list) > 0 && g.chance(80) {
		text = "(" + e.text + ") " + pick(g, someComparisons) + " " + pick(g, list)
	}
	return expression{text: "CASE WHEN " + text + " THEN 1 ELSE 0 END", class: intClass, scale: "0"}
}

var someComparisons = []string{"=", "<>", "<", "<=", ">", ">="}

// condition returns a condition.
func (g *generator) condition(depth int) string {
	if depth > 0 && g.chance(30) {
		a, b := g.condition(depth-1), g.condition(depth-1)
		return pick(g, []string{"(" + a + " OR " + b + ")", "(" + a + " AND " + b + ")", "NOT (" + a + ")", "(NOT " + a + " OR " + b + ")"})
	}
	if depth > 1 && g.chance(20) {
		return g.subquery()
	}
	c := pick(g, []randomClass{intClass, intClass, intClass, decimalClass, decimalClass, floatClass, textClass, textClass, timeClass})
	e, ok := g.column(c)
	if !ok {
		c = intClass
		e, _ = g.column(c)
	}
	col, lits := e.text, g.table.literals[c]
	switch g.IntN(11) {
	case 0:
		return col + pick(g, []string{"", "", " NOT"}) + " BETWEEN " + pick(g, lits) + " AND " + pick(g, lits)
	case 1:
		return col + pick(g, []string{"", " NOT"}) + " IN (" + pick(g, lits) + ", " + pick(g, lits) + pick(g, []string{"", ", NULL"}) + ")"
	case 2:
		return col + " IS " + pick(g, []string{"", "NOT "}) + "NULL"
	case 3:
		if c == textClass {
			return col + pick(g, []string{"", " NOT"}) + " LIKE " + pick(g, []string{"'a%'", "'%b%'", "'_'", "'%1%'"})
		}
		fallthrough
	case 4:
		if c == intClass {
			return col + " " + pick(g, someComparisons) + " " + g.integer()
		}
		fallthrough
	case 5:
		return "(" + g.integer() + ", " + col + ") " + pick(g, []string{"=", "<", ">=", "<>"}) + " (" + pick(g, someNumbers) + ", " + pick(g, lits) + ")"
	case 6:
		if g.kind == "postgres" {
			return col + " IS " + pick(g, []string{"", "NOT "}) + "DISTINCT FROM " + pick(g, lits)
		}
		return col + " <=> " + pick(g, lits)
	default:
		return col + " " + pick(g, someComparisons) + " " + pick(g, lits)
	}
}

// subquery returns a condition with a subquery.
func (g *generator) subquery() string {
	col := g.integer()
	dimension := pick(g, []string{"hosts", "plain", "customers"})
	limit := pick(g, []string{"id < 5", "id > 3", "id IN (2, 4, 9)", "id IS NULL", "id > 0"})
	if g.chance(15) && g.table.key != "login" {
		dimension = g.table.name // the table itself
		limit = g.table.key + " < 40"
		return col + pick(g, []string{"", " NOT"}) + " IN (SELECT " + g.table.key + " FROM " + dimension + " WHERE " + limit + ")"
	}
	switch g.IntN(4) {
	case 0, 1:
		return col + pick(g, []string{"", " NOT"}) + " IN (SELECT id FROM " + dimension + " WHERE " + limit + ")"
	case 2:
		return pick(g, []string{"", "NOT "}) + "EXISTS (SELECT 1 FROM " + dimension + " z WHERE z.id = " + col + " AND z." + limit + ")"
	default:
		return col + " " + pick(g, someComparisons) + " (SELECT " + pick(g, []string{"MIN", "MAX", "COUNT"}) + "(id) FROM " + dimension + " WHERE " + limit + ")"
	}
}

// sum returns a number whose sum doesn't depend on the order of the additions, unless the answer
// may be undefined.
func (g *generator) sum() expression {
	for range 20 {
		if e := g.numeric(1); g.shown(e.class == floatClass) {
			return e
		}
	}
	e, _ := g.column(intClass)
	return e
}

// around are functions and operations over a number, of any server and of MariaDB and MySQL.
var around = []string{
	"ABS(%s)", "FLOOR(%s)", "SIGN(%s)", "%s IS NULL", "COALESCE(%s, 0)", "NULLIF(%s, 3)", "CAST(%s AS DECIMAL(65,2))", "%s > 3", "%s BETWEEN 1 AND 20", "%s IN (1, 2, 3)",
	"CASE WHEN %s > 2 THEN 'many' ELSE 'few' END", "GREATEST(%s, 3)", "CONCAT(%s, '-')", "(%s) * 2", "-(%s + 0.0)", "(%s) %% 7",
}

var aroundHere = []string{
	"IF(%s > 2, 1, NULL)", "LENGTH(%s)", "HEX(%s)", "LPAD(%s, 8, '*')", "CAST(%s AS CHAR)", "(%s) DIV 3", "%s = '3'", "%s LIKE '1%%'", "FORMAT(%s, 2)", "BIT_COUNT(%s)", "(%s) & 7",
	"CONV(%s, 10, 16)", "REVERSE(%s)", "ISNULL(%s)", "%s <=> 2", "%s XOR 1", "ELT(%s, 'a', 'b')", "FIELD(%s, 1, 2)", "STRCMP(%s, '2')", "SEC_TO_TIME(%s)", "TRUNCATE(%s, 0)", "CRC32(%s)", "QUOTE(%s)",
}

// aggregate returns a call of an aggregate, or an expression of several.
func (g *generator) aggregate() expression {
	e := g.call()
	if g.chance(12) && !e.loose && (e.class == intClass || e.class == decimalClass) {
		forms := around
		if g.kind != "postgres" && g.chance(60) {
			forms = aroundHere
		}
		return expression{text: fmt.Sprintf(pick(g, forms), e.text), class: otherClass, loose: true}
	}
	if g.kind == "postgres" && g.chance(8) && strings.HasSuffix(e.text, ")") && strings.Count(e.text, "(") >= 1 && !strings.ContainsAny(e.text, "*/") && !strings.HasPrefix(e.text, "COALESCE") && !strings.HasPrefix(e.text, "ROUND") && !strings.Contains(e.text, ") - ") {
		e.text += " FILTER (WHERE " + g.condition(1) + ")"
	}
	return e
}

func (g *generator) call() expression {
	switch g.IntN(25) {
	case 0, 1, 2:
		return expression{text: "COUNT(*)", class: intClass}
	case 3:
		return expression{text: "COUNT(" + g.value(1).text + ")", class: intClass}
	case 4:
		return expression{text: "COUNT(DISTINCT " + g.value(1).text + ")", class: intClass}
	case 5, 6, 7, 8:
		n := g.sum()
		return expression{text: "SUM(" + n.text + ")", class: decimalClass, loose: n.class == floatClass}
	case 9, 10:
		n := g.sum()
		return expression{text: "AVG(" + n.text + ")", class: decimalClass, loose: n.class == floatClass}
	case 11, 12, 13:
		v := g.value(1)
		if v.class == otherClass {
			v = g.numeric(0)
		}
		v.text = pick(g, []string{"MIN", "MAX"}) + "(" + v.text + ")"
		if !g.shown(v.loose) {
			return g.told(v)
		}
		return v
	case 14:
		n := g.sum()
		if n.loose {
			n, _ = g.column(intClass)
		}
		return expression{text: pick(g, []string{"SUM", "AVG"}) + "(DISTINCT " + n.text + ")", class: decimalClass, loose: n.class == floatClass}
	case 15, 16:
		n := g.numeric(0)
		if n.class == floatClass || len(g.tables) > 1 && g.kind != "postgres" {
			n.text = "0" // the order of additions is up to the server
		}
		return expression{text: pick(g, []string{"VAR_POP", "STDDEV_SAMP", "VAR_SAMP", "STDDEV_POP"}) + "(" + n.text + ")", class: floatClass, loose: true}
	case 17:
		return expression{text: pick(g, []string{"BIT_AND", "BIT_OR"}) + "(" + g.integer() + ")", class: intClass}
	case 18, 19:
		return g.list()
	case 20:
		n := g.sum()
		return expression{text: "CASE WHEN COUNT(*) > " + pick(g, someNumbers) + " THEN " + "SUM(" + n.text + ")" + " ELSE 0 END", class: decimalClass, loose: true}
	case 21:
		n := g.sum()
		forms := []string{"COALESCE(SUM(" + n.text + "), 0)", "SUM(" + n.text + ") * 2", "SUM(" + n.text + ") / COUNT(*)", "ROUND(AVG(" + n.exact() + "), 2)"}
		if g.shown(n.loose) {
			forms = append(forms, "MAX("+n.text+") - MIN("+n.text+")")
		}
		return expression{text: pick(g, forms), class: decimalClass, loose: true}
	case 22:
		if g.kind == "postgres" {
			return expression{text: pick(g, []string{"BOOL_AND(", "BOOL_OR(", "EVERY("}) + g.condition(1) + ")", class: otherClass}
		}
		return expression{text: "COUNT(DISTINCT " + g.integer() + ", " + g.value(1).text + ")", class: intClass}
	default:
		return expression{text: "SUM(CASE WHEN " + g.condition(0) + " THEN " + g.integer() + " ELSE 0 END)", class: intClass}
	}
}

// list is an aggregate of a list with an order.
func (g *generator) list() expression {
	col := g.integer()
	key := g.table.alias + "." + g.table.key
	distinct, by := "", key
	if g.chance(40) {
		distinct, by = "DISTINCT ", col
	} else if len(g.tables) > 1 {
		by += ", " + col // a join repeats the key
	}
	order := pick(g, []string{"", "", " DESC"})
	e := expression{class: textClass, loose: true}
	if g.kind == "postgres" {
		if distinct != "" {
			by = "CAST(" + col + " AS TEXT)"
		}
		e.text = "STRING_AGG(" + distinct + "CAST(" + col + " AS TEXT), " + pick(g, []string{"','", "'; '", "''"}) + " ORDER BY " + by + order + ")"
		return e
	}
	e.text = "GROUP_CONCAT(" + distinct + col + " ORDER BY " + by + order + pick(g, []string{"", "", " SEPARATOR '; '", " SEPARATOR ''"}) + ")"
	return e
}
