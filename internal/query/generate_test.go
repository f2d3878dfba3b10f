package query

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A random query is built of parts, so that a shorter one can be made by leaving parts out.
type random struct {
	ctes     []string
	distinct bool
	items    []randomItem
	from     string
	joins    []string
	where    []string
	group    []string
	having   []string
	windows  []string
	union    *random
	all      bool
	order    []randomOrder
	limit    int // -1 is none
	offset   int
	// undefined reports that SQL may permit several answers.
	undefined bool
}

type randomItem struct {
	text, alias string
	// loose values are equal for the server though their texts differ.
	loose bool
	class randomClass
}

type randomOrder struct {
	text  string
	item  int // the index of the item that it sorts by, or -1
	loose bool
}

// String returns the query's text.
func (q *random) String() string {
	var b strings.Builder
	if len(q.ctes) > 0 {
		b.WriteString("WITH " + strings.Join(q.ctes, ", ") + " ")
	}
	q.selects(&b)
	for u := q; u.union != nil; u = u.union {
		b.WriteString(" UNION ")
		if u.all {
			b.WriteString("ALL ")
		}
		u.union.selects(&b)
	}
	for i, o := range q.order {
		b.WriteString([]string{" ORDER BY ", ", "}[min(i, 1)] + o.text)
	}
	if q.limit >= 0 {
		fmt.Fprintf(&b, " LIMIT %d", q.limit)
		if q.offset > 0 {
			fmt.Fprintf(&b, " OFFSET %d", q.offset)
		}
	}
	return b.String()
}

func (q *random) selects(b *strings.Builder) {
	b.WriteString("SELECT ")
	if q.distinct {
		b.WriteString("DISTINCT ")
	}
	for i, it := range q.items {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(it.text)
		if it.alias != "" {
			b.WriteString(" AS " + it.alias)
		}
	}
	b.WriteString(" FROM " + q.from)
	for _, j := range q.joins {
		b.WriteString(" " + j)
	}
	clause := func(word, between string, parts []string) {
		if len(parts) > 0 {
			b.WriteString(" " + word + " " + strings.Join(parts, between))
		}
	}
	clause("WHERE", " AND ", q.where)
	clause("GROUP BY", ", ", q.group)
	clause("HAVING", " AND ", q.having)
	clause("WINDOW", ", ", q.windows)
}

// sortedBy returns the columns of the answer whose order is fixed, not nil: those before the first that isn't in the answer, or
// whose values may be equal and not the same.
func (q *random) sortedBy() []int {
	columns := []int{}
	for _, o := range q.order {
		if o.item < 0 || o.loose {
			break
		}
		columns = append(columns, o.item)
	}
	return columns
}

// shorter returns the queries that are made by leaving one part out.
func (q *random) shorter() (out []*random) {
	with := func(change func(*random)) {
		c := *q
		change(&c)
		out = append(out, &c)
	}
	if q.union != nil {
		with(func(c *random) { c.union = nil })
	}
	if q.limit >= 0 {
		with(func(c *random) { c.limit, c.offset = -1, 0 })
	}
	if len(q.order) > 0 {
		with(func(c *random) { c.order = nil })
	}
	for i := range q.order {
		with(func(c *random) { c.order = slices.Delete(slices.Clone(c.order), i, i+1) })
	}
	if q.distinct {
		with(func(c *random) { c.distinct = false })
	}
	for _, list := range []func(*random) *[]string{
		func(r *random) *[]string { return &r.having }, func(r *random) *[]string { return &r.where },
		func(r *random) *[]string { return &r.group }, func(r *random) *[]string { return &r.joins }, func(r *random) *[]string { return &r.ctes },
	} {
		for i := range *list(q) {
			with(func(c *random) { l := list(c); *l = slices.Delete(slices.Clone(*l), i, i+1) })
		}
	}
	for i := range q.items {
		if len(q.items) == 1 || q.union != nil {
			break
		}
		if slices.ContainsFunc(q.order, func(o randomOrder) bool { return o.item >= i }) {
			continue // positions
		}
		with(func(c *random) { c.items = slices.Delete(slices.Clone(c.items), i, i+1) })
	}
	return out
}

// A generator makes random queries.
type generator struct {
	*rand.Rand
	kind     string
	table    *randomTable   // that is cut
	tables   []*randomTable // of which columns may be used
	filtered bool           // the extremes are left out
	number   int            // of aliases
	// lax permits answers that SQL doesn't determine, such as which of several equal texts a group shows, and undefined reports one.
	lax, undefined bool
}

// mostLax is the percentage of queries whose answer may be one that SQL doesn't determine.
const mostLax = 4

// generate returns the query of a number, which is always the same for the same seed.
func generate(kind string, seed uint64, number int) *random {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(number))), kind: kind}
	g.lax = g.chance(mostLax)
	var q *random
	switch n := g.IntN(100); {
	case n < 10:
		q = g.total()
	case n < 45:
		q = g.grouped()
	case n < 50:
		q = g.rolled()
	case n < 63:
		q = g.rows(false)
	case n < 71:
		q = g.rows(true)
	case n < 83:
		q = g.nested()
	case n < 91:
		q = g.unions()
	default:
		q = g.windowed()
	}
	q.undefined = g.undefined
	return q
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, list []T) T { return list[g.IntN(len(list))] }

// shown reports whether one of several equal values may be shown, whose texts differ if they are loose.
func (g *generator) shown(loose bool) bool {
	if loose && g.lax {
		g.undefined = true
	}
	return !loose || g.lax
}

// An expression is one of random ones.
type expression struct {
	text  string
	class randomClass
	// loose values are equal for the server though their texts differ.
	loose bool
	// scale is the number of digits after the point that all values have, by the name of what fixes it; "" if they differ.
	scale string
}

// source chooses the tables and conditions of a query.
func (g *generator) source() *random {
	tables := randomTables(g.kind)
	g.table = pick(g, tables)
	g.tables = []*randomTable{g.table}
	q := &random{from: g.table.name + " " + g.table.alias, limit: -1}
	if g.table.chosen != "" && g.chance(4) {
		q.from = g.table.name + " " + g.table.chosen + " " + g.table.alias
	}
	g.filtered = false
	if g.table.filter != "" && g.chance(85) {
		q.where = append(q.where, g.table.filter)
		g.filtered = true
	}
	if g.chance(15) && g.table.filter != "" {
		q.from = "(SELECT * FROM " + g.table.name + " " + g.table.alias + " WHERE " + g.table.filter + ") " + g.table.alias
		g.filtered = true
	}
	if len(g.table.joins) > 0 && g.chance(35) {
		j := pick(g, g.table.joins)
		g.tables = append(g.tables, j.table)
		g.join(q, j, []string{"JOIN ", "JOIN ", "JOIN ", "LEFT JOIN ", "LEFT JOIN ", "LEFT JOIN ", "RIGHT JOIN ", ", "})
		if second := pick(g, g.table.joins); g.chance(20) && second.table.alias != j.table.alias && strings.HasPrefix(second.on, second.table.alias+".") && len(q.joins) > 0 {
			g.tables = append(g.tables, second.table)
			g.join(q, second, []string{"JOIN ", "LEFT JOIN "})
		}
	}
	if len(g.table.parts) > 0 && g.chance(40) {
		q.where = append(q.where, pick(g, g.table.parts))
	}
	for g.chance(30) {
		q.where = append(q.where, g.condition(2))
	}
	return q
}

// join adds a table to FROM.
func (g *generator) join(q *random, j randomJoin, words []string) {
	word := pick(g, words)
	switch {
	case j.on == "":
		q.joins = append(q.joins, "NATURAL "+strings.ReplaceAll(word, ", ", "JOIN ")+j.name)
	case strings.HasPrefix(j.on, "USING"):
		q.joins = append(q.joins, strings.ReplaceAll(word, ", ", "JOIN ")+j.name+" "+j.on)
	case word == ", ":
		q.from += ", " + j.name
		q.where = append(q.where, j.on)
	default:
		q.joins = append(q.joins, word+j.name+" ON "+j.on)
	}
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
		e := made(sum, "(%s - %s)", col.text, other.text)
		e.class = max(col.class, other.class)
		e.loose = e.class != intClass && sum == ""
		return e
	case 2:
		by := pick(g, []string{"2", "0.5", "-1", "100", "1.10"})
		e := made(col.scale+" and "+by, "%s * %s", col.text, by)
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

// sum returns a number whose sum doesn't depend on the order of the additions, unless the answer may be undefined.
func (g *generator) sum() expression {
	for range 20 {
		if e := g.numeric(1); g.shown(e.class == floatClass) {
			return e
		}
	}
	e, _ := g.column(intClass)
	return e
}

// aggregate returns a call of an aggregate, or an expression of several.
func (g *generator) aggregate() expression {
	e := g.call()
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

func (g *generator) alias() string {
	if g.chance(40) {
		return ""
	}
	g.number++
	return fmt.Sprintf("a%d", g.number)
}

func (g *generator) item(e expression) randomItem {
	return randomItem{text: e.text, alias: g.alias(), loose: e.loose, class: e.class}
}

// total is a query of aggregates without GROUP BY.
func (g *generator) total() *random {
	q := g.source()
	for range 1 + g.IntN(4) {
		q.items = append(q.items, g.item(g.aggregate()))
	}
	if g.chance(10) {
		q.having = append(q.having, "COUNT(*) "+pick(g, someComparisons)+" "+pick(g, someNumbers))
	}
	return q
}

// grouped is a query with GROUP BY.
func (g *generator) grouped() *random {
	q := g.source()
	g.group(q, 1+g.IntN(3))
	for range g.IntN(4) {
		q.items = append(q.items, g.item(g.aggregate()))
	}
	for g.chance(20) {
		n := g.sum().text
		q.having = append(q.having, pick(g, []string{"COUNT(*)", "SUM(" + n + ")", "MAX(" + n + ")", "COUNT(DISTINCT " + n + ")"})+" "+pick(g, someComparisons)+" "+pick(g, someNumbers))
	}
	g.ordered(q)
	return q
}

// group adds keys. A key is shown by what is the same for all of its equal values.
func (g *generator) group(q *random, keys int) {
	for range keys {
		e := g.value(1)
		by := e.text
		shows := g.shown(e.loose)
		switch {
		case shows:
		case g.kind == "mysql" && strings.Trim(by, ".abcdefghijklmnopqrstuvwxyz_0123456789") != "": // it accepts no expression of an expression
			e = expression{text: "COUNT(*)", class: intClass}
		default:
			e = g.told(e)
		}
		if g.chance(90) || len(q.items) == 0 {
			it := g.item(e)
			q.items = append(q.items, it)
			if shows && g.chance(15) {
				if by = it.alias; by == "" || g.chance(50) {
					by = fmt.Sprint(len(q.items))
				}
			}
		}
		q.group = append(q.group, by)
	}
}

// rolled is a query with sums of groups.
func (g *generator) rolled() *random {
	q := g.source()
	for range 1 + g.IntN(2) {
		e := g.single(0)
		q.group = append(q.group, e.text)
		q.items = append(q.items, g.item(e))
	}
	for range 1 + g.IntN(2) {
		q.items = append(q.items, g.item(g.aggregate()))
	}
	if g.kind == "postgres" {
		all := strings.Join(q.group, ", ")
		q.group = []string{pick(g, []string{"ROLLUP (" + all + ")", "CUBE (" + all + ")", "GROUPING SETS ((" + all + "), (" + q.group[0] + "))", "GROUPING SETS ((), (" + all + "))"})}
	} else {
		q.group[len(q.group)-1] += " WITH ROLLUP"
	}
	return q
}

// rows is a query of rows.
func (g *generator) rows(distinct bool) *random {
	q := g.source()
	q.distinct = distinct
	for range 1 + g.IntN(4) {
		e := g.value(1)
		if distinct && !g.shown(e.loose) {
			e = g.told(e)
		}
		q.items = append(q.items, g.item(e))
	}
	g.ordered(q)
	return q
}

// ordered adds ORDER BY, by position or alias, and LIMIT if the order is by all columns, so that rows that tie at the limit are equal.
func (g *generator) ordered(q *random) {
	if g.chance(30) {
		return
	}
	limited := g.chance(50)
	for _, i := range g.Perm(len(q.items)) {
		o := randomOrder{text: fmt.Sprint(i + 1), item: i, loose: q.items[i].loose}
		if q.items[i].alias != "" && g.chance(50) {
			o.text = q.items[i].alias
		}
		if g.chance(30) {
			o.text += " DESC"
		}
		if g.kind == "postgres" && g.chance(15) {
			o.text += pick(g, []string{" NULLS FIRST", " NULLS LAST"})
		}
		q.order = append(q.order, o)
		if !limited && g.chance(30) {
			return
		}
	}
	if limited && !slices.ContainsFunc(q.items, func(it randomItem) bool { return it.loose }) {
		q.limit = pick(g, []int{0, 1, 3, 10, 10, 50, 50, 1000})
		q.offset = pick(g, []int{0, 0, 0, 1, 5, 40})
	}
}

// nested is a query over a derived table or a CTE.
func (g *generator) nested() *random {
	var inner *random
	switch g.IntN(4) {
	case 0:
		inner = g.rows(g.chance(40))
		inner.order, inner.limit, inner.offset = nil, -1, 0
	case 1:
		inner = g.unions()
		inner.order = nil
	default:
		inner = g.source()
		g.group(inner, 1+g.IntN(2))
		for range 1 + g.IntN(2) {
			inner.items = append(inner.items, g.item(g.aggregate()))
		}
	}
	for i := range inner.items {
		inner.items[i].alias = fmt.Sprintf("x%d", i+1)
	}
	for i, by := range inner.group {
		if strings.HasPrefix(by, "a") && !strings.Contains(by, ".") { // an alias that is another now
			inner.group[i] = fmt.Sprint(slices.IndexFunc(inner.items, func(it randomItem) bool { return it.alias != "" }) + 1)
		}
	}
	q := &random{limit: -1, from: "(" + inner.String() + ") t"}
	if g.chance(40) {
		q.ctes, q.from = []string{"t AS (" + inner.String() + ")"}, "t"
	}
	of := func() (randomItem, string) {
		i := g.IntN(len(inner.items))
		return inner.items[i], fmt.Sprintf("t.x%d", i+1)
	}
	it, col := of()
	q.items = []randomItem{{text: "COUNT(*)"}, {text: "COUNT(" + col + ")"}, {text: "COUNT(DISTINCT " + col + ")"}}
	if g.shown(it.loose) && it.class != otherClass {
		q.items[1] = randomItem{text: pick(g, []string{"MIN(", "MAX("}) + col + ")", loose: true}
	}
	if g.chance(50) {
		it, key := of()
		q.group = []string{key}
		if g.shown(it.loose) {
			q.items = append([]randomItem{{text: key, loose: true}}, q.items...)
		}
	}
	if g.chance(30) {
		q.where = append(q.where, col+" IS NOT NULL")
	}
	return q
}

// unions is a query with UNION.
func (g *generator) unions() *random {
	q := g.branch("'one'")
	loose := q.items[1].loose
	last := q
	for n := 0; n == 0 || n < 3 && g.chance(25); n++ {
		other := g.branch("'two'")
		loose = loose || other.items[1].loose || other.items[1].class != q.items[1].class
		last.union, last.all = other, g.chance(70)
		last = other
	}
	for b := q; b.union != nil; b = b.union {
		b.all = b.all || !g.shown(loose)
	}
	if g.chance(50) {
		q.order = []randomOrder{{text: "1", item: 0}, {text: "2", item: 1, loose: true}}
		if !loose && g.chance(50) {
			q.limit = pick(g, []int{1, 10, 100})
		}
	}
	for i := range q.items {
		q.items[i].loose = true
	}
	return q
}

// branch is one of a UNION, with a number that is the same for all of its equal values if it can be.
func (g *generator) branch(name string) *random {
	q := g.source()
	q.items = []randomItem{{text: name, class: textClass}}
	switch g.IntN(4) {
	case 0:
		n := g.sum()
		q.items = append(q.items, randomItem{text: "SUM(" + n.text + ")", class: decimalClass, loose: true})
	case 1:
		key := g.integer()
		q.items = append(q.items, randomItem{text: pick(g, []string{key, "COUNT(*)"}), class: intClass})
		q.group = []string{key}
	default:
		n := g.numeric(1)
		q.items = append(q.items, randomItem{text: n.text, class: n.class, loose: n.loose || n.class != intClass})
	}
	return q
}

// windowed is a query with window functions over groups.
func (g *generator) windowed() *random {
	q := g.source()
	g.group(q, 1+g.IntN(2))
	key := strings.Join(g.keys(q), ", ")
	over := "(ORDER BY " + key + ")"
	if len(q.group) > 1 && g.chance(50) {
		over = "(PARTITION BY " + g.keys(q)[0] + " ORDER BY " + g.keys(q)[1] + ")"
	}
	if g.chance(30) {
		q.windows, over = []string{"w AS " + over}, "w"
	}
	q.items = append(q.items, randomItem{text: "COUNT(*)", class: intClass})
	for range 1 + g.IntN(2) {
		call := pick(g, []string{"ROW_NUMBER()", "RANK()", "DENSE_RANK()", "SUM(COUNT(*))", "MAX(COUNT(*))", "LAG(COUNT(*))", "LEAD(COUNT(*), 2)", "NTILE(3)", "FIRST_VALUE(COUNT(*))", "AVG(COUNT(*))"})
		q.items = append(q.items, randomItem{text: call + " OVER " + over, loose: true})
	}
	q.order = []randomOrder{{text: "1", item: 0, loose: q.items[0].loose}}
	return q
}

// keys are the expressions that a query groups by.
func (g *generator) keys(q *random) (list []string) {
	for _, by := range q.group {
		for i, it := range q.items {
			if by == it.alias || by == fmt.Sprint(i+1) {
				by = it.text
			}
		}
		list = append(list, by)
	}
	return list
}
