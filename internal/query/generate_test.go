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
	union    *random
	all      bool
	order    []randomOrder
	limit    int // -1 is none
	offset   int
}

type randomItem struct {
	text, alias string
	// loose values are equal for the server though their someTexts differ.
	loose bool
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
	if q.union != nil {
		b.WriteString(" UNION ")
		if q.all {
			b.WriteString("ALL ")
		}
		q.union.selects(&b)
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

// A class of values, by which the generator chooses functions.
type randomClass int

const (
	intClass randomClass = iota
	decimalClass
	floatClass
	textClass
	timeClass
	otherClass
	classes
)

// A randomTable is a table that the generator reads.
type randomTable struct {
	name, alias string
	columns     [classes][]string
	loose       []string // of textClass, with values that are equal and not the same
	key         string   // unique in the table
	// filter leaves out the extremes of values, at which arithmetic fails.
	filter string
	// literals are texts of each class to compare with.
	literals [classes][]string
	// joins are those with other tables, whose columns are in more.
	joins []randomJoin
	// parts are conditions on the partitioning columns.
	parts []string
}

type randomJoin struct {
	text  string
	table *randomTable
}

var (
	someNumbers  = []string{"0", "1", "2", "3", "5", "7", "10", "-1", "-20", "50", "99", "1000"}
	someDecimals = []string{"0", "0.5", "-0.25", "10.00", "123.456", "-999.99", "1e3", "0.000001"}
	someTexts    = []string{"'abc'", "'a'", "''", "'0123'", "'123'", "'beta'", "'x'", "'ü'", "'a '", "'t1'", "'E'"}
	someTimes    = []string{"'2024-01-01'", "'2024-02-29'", "'2024-06-01 00:00:00'", "'2023-12-05 10:30:00'", "'2024-10-15'", "'2025-05-05'"}
)

func literals() [classes][]string {
	return [classes][]string{intClass: someNumbers, decimalClass: someDecimals, floatClass: someDecimals, textClass: someTexts, timeClass: someTimes}
}

// randomTables returns the partitioned tables of a kind of server.
func randomTables(kind string) []*randomTable {
	hosts := &randomTable{alias: "h", key: "id", literals: literals(), columns: [classes][]string{intClass: {"id"}, decimalClass: {"weight"}, textClass: {"name", "rack"}, timeClass: {"since"}}}
	customers := &randomTable{alias: "c", key: "id", literals: literals(), columns: [classes][]string{intClass: {"id"}, decimalClass: {"credit"}, textClass: {"name", "segment"}}}
	plain := &randomTable{alias: "p", key: "id", literals: literals(), columns: [classes][]string{intClass: {"id", "k", "host_id"}, decimalClass: {"d"}, textClass: {"v"}, timeClass: {"day"}}}
	orders := &randomTable{
		name: "orders", alias: "o", key: "id", literals: literals(),
		columns: [classes][]string{intClass: {"id", "customer_id", "qty"}, decimalClass: {"amount", "tax"}, textClass: {"status"}, timeClass: {"placed"}},
		joins:   []randomJoin{{"customers c ON c.id = o.customer_id", customers}, {"plain p ON p.id = o.id", plain}, {"hosts h ON h.id = o.qty", hosts}},
		parts:   []string{"o.id < 100", "o.id IN (1, 7, 13, 300)", "o.id = 77", "o.id BETWEEN 50 AND 250"},
	}
	inner := *orders
	inner.joins = nil
	events := &randomTable{
		name: "events", alias: "e", key: "id", filter: "e.id < 5000", literals: literals(),
		columns: [classes][]string{
			intClass: {"id", "host_id", "i", "si", "b", "host_id", "i"}, decimalClass: {"d", "d0", "d65", "d"}, floatClass: {"f", "g"},
			textClass: {"v", "vb", "c", "tx"}, timeClass: {"at", "day", "ts"}, otherClass: {"en", "bl"},
		},
		joins: []randomJoin{{"hosts h ON h.id = e.host_id", hosts}, {"plain p ON p.id = e.id", plain}, {"orders o ON o.id = e.id", &inner}, {"plain p ON p.host_id = e.host_id AND p.k = 1", plain}},
		parts: []string{
			"e.at >= '2024-04-10' AND e.at < '2024-08-05'", "e.at < '2024-02-01'", "e.at BETWEEN '2024-02-29 23:59:59' AND '2024-06-01'", "e.at >= '2024-12-01'",
			"(e.at < '2023-12-01' OR e.at > '2024-11-15')", "e.at >= '2024-09-01' AND e.at < '2024-10-01'", "e.at = '2024-06-01'",
		},
	}
	visits := &randomTable{
		name: "visits", alias: "v", key: "id", literals: literals(),
		columns: [classes][]string{intClass: {"id", "region", "ms"}, decimalClass: {"price"}, textClass: {"page"}, timeClass: {"at"}},
		loose:   []string{"page"},
		joins:   []randomJoin{{"hosts h ON h.id = v.region", hosts}, {"plain p ON p.id = v.id", plain}},
		parts:   []string{"v.region IN (1, 4, 7)", "v.region IS NULL", "v.region > 2", "(v.region = 5 OR v.region IS NULL)", "v.region NOT IN (1, 2)", "v.region = 99"},
	}
	metrics := &randomTable{
		name: "metrics", alias: "m", key: "seq", literals: literals(),
		columns: [classes][]string{intClass: {"seq", "cnt"}, decimalClass: {"value"}, textClass: {"host", "metric", "note"}, timeClass: {"day"}},
		joins:   []randomJoin{{"hosts h ON h.id = m.cnt % 11", hosts}},
		parts:   []string{"m.day BETWEEN '2024-01-05' AND '2024-01-20'", "m.day = '2024-01-20' AND m.host < 'h5'", "m.host IN ('h1', 'h7')", "m.day > '2024-02-05'"},
	}
	logs := &randomTable{
		name: "logs", alias: "l", key: "id", literals: literals(),
		columns: [classes][]string{intClass: {"id", "level", "bytes"}, textClass: {"msg"}, timeClass: {"at"}},
		joins:   []randomJoin{{"hosts h ON h.id = l.level", hosts}},
		parts:   []string{"l.at >= '2023-01-01' AND l.at < '2024-01-01'", "l.at < '2022-06-01'", "l.id = 77"},
	}
	words := &randomTable{
		name: "words", alias: "w", key: "id", literals: literals(),
		columns: [classes][]string{intClass: {"id", "x"}, textClass: {"ci", "pad"}},
		parts:   []string{"w.id < 45", "w.id IN (3, 33, 63)"},
		loose:   []string{"ci", "pad"},
	}
	near := &randomTable{
		name: "near", alias: "n", key: "id", literals: literals(),
		columns: [classes][]string{intClass: {"id", "k", "i"}, decimalClass: {"d"}, floatClass: {"g"}},
		parts:   []string{"n.id = 7", "n.id IN (1, 2, 3)"},
	}
	nulls := &randomTable{
		name: "nulls", alias: "u", key: "id", literals: literals(),
		columns: [classes][]string{intClass: {"id", "i"}, decimalClass: {"d"}, floatClass: {"g"}, textClass: {"v"}, timeClass: {"day"}},
		parts:   []string{"u.id < 15"},
	}
	empties := *nulls
	empties.name = "empties"
	if kind == "postgres" {
		events.columns[otherClass] = append(events.columns[otherClass], "u", "bt", "ip", "bo", "dur", "js", "ar")
		events.columns[textClass] = append(events.columns[textClass], "vi")
		events.columns[decimalClass] = append(events.columns[decimalClass], "n")
		events.loose = []string{"vi", "c", "n", "dur", "js"}
		words.columns[textClass] = append(words.columns[textClass], "vb", "icu")
	} else {
		events.columns[otherClass] = append(events.columns[otherClass], "st", "bt", "vbin", "bin4", "dur", "y", "bo")
		events.columns[intClass] = append(events.columns[intClass], "ti", "tu", "mi", "iu", "bu")
		events.columns[textClass] = append(events.columns[textClass], "l")
		events.loose = []string{"f", "g"}
		words.columns[textClass] = append(words.columns[textClass], "uni", "nopad", "l1", "asc_")
		words.loose = append(words.loose, "uni", "nopad", "l1", "asc_")
		words.columns[otherClass] = []string{"bytes"}
	}
	return []*randomTable{events, events, events, events, orders, orders, visits, visits, metrics, logs, words, near, nulls, &empties}
}

// A generator makes random queries.
type generator struct {
	*rand.Rand
	kind   string
	table  *randomTable   // that is cut
	tables []*randomTable // of which columns may be used
	number int            // of aliases
}

// generate returns the query of a number, which is always the same for the same seed.
func generate(kind string, seed uint64, number int) *random {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, uint64(number))), kind: kind}
	switch n := g.IntN(100); {
	case n < 12:
		return g.total()
	case n < 52:
		return g.grouped()
	case n < 67:
		return g.rows(false)
	case n < 76:
		return g.rows(true)
	case n < 88:
		return g.nested()
	case n < 94:
		return g.unions()
	default:
		return g.windowed()
	}
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, list []T) T { return list[g.IntN(len(list))] }

// source chooses the tables and conditions of a query.
func (g *generator) source() *random {
	tables := randomTables(g.kind)
	g.table = pick(g, tables)
	g.tables = []*randomTable{g.table}
	q := &random{from: g.table.name + " " + g.table.alias, limit: -1}
	if g.table.filter != "" && g.chance(85) {
		q.where = append(q.where, g.table.filter)
	}
	if g.chance(20) && g.table.filter != "" {
		q.from = "(SELECT * FROM " + g.table.name + " " + g.table.alias + " WHERE " + g.table.filter + ") " + g.table.alias
	}
	if len(g.table.joins) > 0 && g.chance(35) {
		j := pick(g, g.table.joins)
		g.tables = append(g.tables, j.table)
		switch n := g.IntN(10); {
		case n < 5:
			q.joins = append(q.joins, "JOIN "+j.text)
		case n < 9:
			q.joins = append(q.joins, "LEFT JOIN "+j.text)
		default:
			q.joins = append(q.joins, "RIGHT JOIN "+j.text)
		}
		if second := pick(g, g.table.joins); g.chance(20) && second.table.alias != j.table.alias {
			g.tables = append(g.tables, second.table)
			q.joins = append(q.joins, pick(g, []string{"JOIN ", "LEFT JOIN "})+second.text)
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

// column returns a column of a randomClass, and whether it is loose; false if no table has one.
func (g *generator) column(c randomClass) (text string, loose, ok bool) {
	t := g.table
	if g.chance(25) {
		t = pick(g, g.tables)
	}
	if len(t.columns[c]) == 0 {
		t = g.table
	}
	if len(t.columns[c]) == 0 {
		return "", false, false
	}
	name := pick(g, t.columns[c])
	return t.alias + "." + name, slices.Contains(t.loose, name), true
}

// number returns an expression of a number: exact unless floats are allowed.
func (g *generator) numeric(depth int) (text string, c randomClass) {
	c = intClass
	if g.chance(40) {
		c = decimalClass
	}
	if g.chance(6) {
		c = floatClass
	}
	col, _, ok := g.column(c)
	if !ok {
		c = intClass
		col, _, _ = g.column(c)
	}
	if depth == 0 || g.chance(55) {
		return col, c
	}
	other, c2 := g.numeric(depth - 1)
	wider := max(c, c2)
	switch g.IntN(12) {
	case 0:
		return col + " + " + other, wider
	case 1:
		return "(" + col + " - " + other + ")", wider
	case 2:
		return col + " * " + pick(g, []string{"2", "0.5", "-1", "100", "1.10"}), max(c, decimalClass)
	case 3:
		return "-" + col, c
	case 4:
		if c == intClass {
			return col + " % " + pick(g, []string{"2", "3", "7", "10"}), c
		}
		return "ROUND(" + g.exact(col, c) + ", 1)", c
	case 5:
		return "ABS(" + col + ")", c
	case 6:
		return "COALESCE(" + col + ", 0)", c
	case 7:
		return "CASE WHEN " + g.condition(0) + " THEN " + col + " ELSE " + other + " END", wider
	case 8:
		return "CASE WHEN " + g.condition(1) + " THEN " + col + " END", c
	case 9:
		return col + " / " + pick(g, []string{"3", "7", "0.3", "100"}), max(c, decimalClass)
	case 10:
		return "NULLIF(" + col + ", " + pick(g, someNumbers) + ")", c
	default:
		if text, _, ok := g.column(timeClass); ok {
			return "EXTRACT(" + pick(g, []string{"MONTH", "DAY", "YEAR"}) + " FROM " + text + ")", intClass
		}
		return "(" + col + ")", c
	}
}

// exact makes a binary fraction a decimal where the function wants one.
func (g *generator) exact(text string, c randomClass) string {
	if c == floatClass {
		return "CAST(" + text + " AS DECIMAL(30,6))"
	}
	return text
}

// text returns an expression of text.
func (g *generator) text(depth int) (text string, loose bool) {
	col, loose, ok := g.column(textClass)
	if !ok {
		col, _, _ = g.column(intClass)
		return col, false
	}
	if depth == 0 || g.chance(60) {
		return col, loose
	}
	switch g.IntN(5) {
	case 0:
		return "UPPER(" + col + ")", loose
	case 1:
		return "CONCAT(" + col + ", " + pick(g, someTexts) + ")", loose
	case 2:
		return "SUBSTRING(" + col + ", 1, 2)", true
	case 3:
		return "COALESCE(" + col + ", '-')", loose
	default:
		return "CASE WHEN " + g.condition(0) + " THEN " + col + " ELSE 'none' END", loose
	}
}

// value returns an expression of any class.
func (g *generator) value(depth int) (text string, c randomClass, loose bool) {
	switch g.IntN(10) {
	case 0, 1, 2, 3:
		text, c = g.numeric(depth)
		return text, c, c == floatClass || g.kind == "postgres" && c == decimalClass
	case 4, 5, 6:
		text, loose = g.text(depth)
		return text, textClass, loose
	case 7, 8:
		if text, loose, ok := g.column(timeClass); ok {
			if depth > 0 && g.chance(30) {
				return "CAST(" + text + " AS DATE)", timeClass, loose
			}
			return text, timeClass, loose
		}
	default:
		if text, loose, ok := g.column(otherClass); ok {
			return text, otherClass, loose
		}
	}
	text, c = g.numeric(0)
	return text, c, c == floatClass || g.kind == "postgres" && c == decimalClass
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
	col, _, ok := g.column(c)
	if !ok {
		c = intClass
		col, _, _ = g.column(c)
	}
	lits := g.table.literals[c]
	switch g.IntN(9) {
	case 0:
		return col + " BETWEEN " + pick(g, lits) + " AND " + pick(g, lits)
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
			other, _, _ := g.column(c)
			return col + " " + pick(g, someComparisons) + " " + other
		}
		fallthrough
	default:
		return col + " " + pick(g, someComparisons) + " " + pick(g, lits)
	}
}

// subquery returns a condition with a subquery.
func (g *generator) subquery() string {
	col, _, _ := g.column(intClass)
	dimension := pick(g, []string{"hosts", "plain", "customers"})
	limit := pick(g, []string{"id < 5", "id > 3", "id IN (2, 4, 9)", "id IS NULL", "id > 0"})
	if g.chance(15) {
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

// aggregate returns a call of an aggregate, or an expression of several.
func (g *generator) aggregate() (text string, loose bool) {
	n, c := g.numeric(1)
	floats := c == floatClass
	switch g.IntN(22) {
	case 0, 1, 2:
		return "COUNT(*)", false
	case 3:
		v, _, _ := g.value(1)
		return "COUNT(" + v + ")", false
	case 4:
		v, _, _ := g.value(1)
		return "COUNT(DISTINCT " + v + ")", false
	case 5, 6, 7, 8:
		return "SUM(" + n + ")", floats
	case 9, 10:
		return "AVG(" + n + ")", floats
	case 11, 12, 13:
		v, c, loose := g.value(1)
		if c == otherClass {
			v, c = g.numeric(0)
			loose = c == floatClass
		}
		return pick(g, []string{"MIN", "MAX"}) + "(" + v + ")", loose
	case 14:
		return pick(g, []string{"SUM", "AVG"}) + "(DISTINCT " + n + ")", floats
	case 15:
		n, c := g.numeric(0)
		if c == floatClass || len(g.tables) > 1 {
			n = "0" // the order of additions is up to the server
		}
		return pick(g, []string{"VAR_POP", "STDDEV_SAMP", "VAR_SAMP", "STDDEV_POP"}) + "(" + n + ")", true
	case 16:
		i, _, _ := g.column(intClass)
		return pick(g, []string{"BIT_AND", "BIT_OR"}) + "(" + i + ")", false
	case 17:
		col, _, _ := g.column(intClass)
		key := g.table.alias + "." + g.table.key
		distinct, by := "", key
		if g.chance(40) {
			distinct, by = "DISTINCT ", col
		} else if g.tables[len(g.tables)-1] != g.table {
			by += ", " + col // a join repeats the key
		}
		if g.kind == "postgres" {
			if distinct != "" {
				by = "CAST(" + col + " AS TEXT)"
			}
			return "STRING_AGG(" + distinct + "CAST(" + col + " AS TEXT), ',' ORDER BY " + by + ")", true
		}
		return "GROUP_CONCAT(" + distinct + col + " ORDER BY " + by + ")", true
	case 18:
		m, _ := g.aggregate()
		if strings.Contains(m, "CONCAT") || strings.Contains(m, "STRING_AGG") || strings.Contains(m, "M(") && !strings.HasPrefix(m, "SUM(") {
			m = "COUNT(*)"
		}
		return "CASE WHEN COUNT(*) > " + pick(g, someNumbers) + " THEN " + "SUM(" + n + ")" + " ELSE 0 END", floats
	case 19:
		return pick(g, []string{"COALESCE(SUM(" + n + "), 0)", "SUM(" + n + ") * 2", "SUM(" + n + ") / COUNT(*)", "MAX(" + n + ") - MIN(" + n + ")", "ROUND(AVG(" + g.exact(n, c) + "), 2)"}), floats
	default:
		i, _, _ := g.column(intClass)
		return "SUM(CASE WHEN " + g.condition(0) + " THEN " + i + " ELSE 0 END)", false
	}
}

func (g *generator) alias() string {
	if g.chance(40) {
		return ""
	}
	g.number++
	return fmt.Sprintf("a%d", g.number)
}

// total is a query of aggregates without GROUP BY.
func (g *generator) total() *random {
	q := g.source()
	for range 1 + g.IntN(4) {
		text, loose := g.aggregate()
		q.items = append(q.items, randomItem{text: text, alias: g.alias(), loose: loose})
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
		text, loose := g.aggregate()
		q.items = append(q.items, randomItem{text: text, alias: g.alias(), loose: loose})
	}
	for g.chance(20) {
		n, _ := g.numeric(0)
		q.having = append(q.having, pick(g, []string{"COUNT(*)", "SUM(" + n + ")", "MAX(" + n + ")", "COUNT(DISTINCT " + n + ")"})+" "+pick(g, someComparisons)+" "+pick(g, someNumbers))
	}
	g.ordered(q)
	return q
}

// group adds keys.
func (g *generator) group(q *random, keys int) {
	for range keys {
		text, _, loose := g.value(1)
		q.group = append(q.group, text)
		if g.chance(90) || len(q.items) == 0 {
			q.items = append(q.items, randomItem{text: text, alias: g.alias(), loose: loose})
		}
	}
}

// rows is a query of rows.
func (g *generator) rows(distinct bool) *random {
	q := g.source()
	q.distinct = distinct
	for range 1 + g.IntN(4) {
		text, _, loose := g.value(1)
		q.items = append(q.items, randomItem{text: text, alias: g.alias(), loose: loose})
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
		q.order = append(q.order, o)
		if !limited && g.chance(30) {
			return
		}
	}
	if limited && !slices.ContainsFunc(q.items, func(it randomItem) bool { return it.loose }) {
		q.limit = pick(g, []int{0, 1, 3, 10, 50, 1000})
		q.offset = pick(g, []int{0, 0, 0, 1, 5, 40})
	}
}

// nested is a query over a derived table or a CTE.
func (g *generator) nested() *random {
	var inner *random
	switch g.IntN(3) {
	case 0:
		inner = g.rows(g.chance(40))
		inner.order, inner.limit, inner.offset = nil, -1, 0
	default:
		inner = g.source()
		g.group(inner, 1+g.IntN(2))
		for range 1 + g.IntN(2) {
			text, loose := g.aggregate()
			inner.items = append(inner.items, randomItem{text: text, loose: loose})
		}
	}
	for i := range inner.items {
		inner.items[i].alias = fmt.Sprintf("x%d", i+1)
	}
	q := &random{limit: -1, from: "(" + inner.String() + ") t"}
	if g.chance(40) {
		q.ctes, q.from = []string{"t AS (" + inner.String() + ")"}, "t"
	}
	col := fmt.Sprintf("t.x%d", 1+g.IntN(len(inner.items)))
	q.items = []randomItem{{text: "COUNT(*)"}, {text: "MAX(" + col + ")", loose: true}, {text: "COUNT(DISTINCT " + col + ")"}}
	if strings.HasSuffix(inner.items[0].text, ".en") || g.kind == "postgres" {
		q.items[1] = randomItem{text: "COUNT(" + col + ")"}
	}
	if g.chance(50) {
		key := fmt.Sprintf("t.x%d", 1+g.IntN(len(inner.items)))
		q.items = append([]randomItem{{text: key, loose: true}}, q.items...)
		q.group = []string{key}
	}
	if g.chance(30) {
		q.where = append(q.where, col+" IS NOT NULL")
	}
	return q
}

// unions is a query with UNION.
func (g *generator) unions() *random {
	q := g.source()
	t1, _ := g.numeric(1)
	q.items = []randomItem{{text: "'one'"}, {text: t1, loose: true}}
	other := g.source()
	t2, _ := g.numeric(1)
	other.items = []randomItem{{text: "'two'"}, {text: t2, loose: true}}
	if g.chance(50) {
		other.items[1].text = "SUM(" + t2 + ")"
	}
	q.union, q.all = other, g.chance(70)
	if g.chance(50) {
		q.order = []randomOrder{{text: "1", item: 0}, {text: "2", item: 1, loose: true}}
	}
	return q
}

// windowed is a query with window functions over groups.
func (g *generator) windowed() *random {
	q := g.source()
	g.group(q, 1)
	key := q.items[0].text
	call := pick(g, []string{"ROW_NUMBER()", "RANK()", "SUM(COUNT(*))", "MAX(COUNT(*))", "LAG(COUNT(*))"})
	q.items = append(q.items, randomItem{text: "COUNT(*)"}, randomItem{text: call + " OVER (ORDER BY " + key + ")", loose: true})
	q.order = []randomOrder{{text: "1", item: 0, loose: q.items[0].loose}}
	return q
}
