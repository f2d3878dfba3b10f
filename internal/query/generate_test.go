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

// sortedBy returns the columns of the answer whose order is fixed, not nil: those before the first
// that isn't in the answer, or whose values may be equal and not the same.
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

// extremes ends the condition that leaves out the extremes of values, and with them some equal
// values of different texts.
const extremes = ".id < 5000"

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
		for i, part := range *list(q) {
			if strings.HasSuffix(part, extremes) {
				continue
			}
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
	// lax permits answers that SQL doesn't determine, such as which of several equal texts a group
	// shows, and undefined reports one.
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
	if q.union == nil && g.chance(mostConfused) {
		g.confuse(q)
		g.undefined = true // a name may become that of a column that the groups don't determine
	}
	q.undefined = g.undefined
	return q
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, list []T) T { return list[g.IntN(len(list))] }

// shown reports whether one of several equal values may be shown, whose texts differ if they are
// loose.
func (g *generator) shown(loose bool) bool {
	if loose && g.lax {
		g.undefined = true
	}
	return !loose || g.lax
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
	for i, it := range q.items {
		// On MariaDB and MySQL, HAVING may name an element of the select list.
		if list := g.table.literals[it.class]; g.kind != "postgres" && it.alias != "" && i < len(q.group) && len(list) > 0 && g.chance(15) {
			q.having = append(q.having, it.alias+" "+pick(g, someComparisons)+" "+pick(g, list))
		}
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

// ordered adds ORDER BY, by position or alias, and LIMIT if the order is by all columns, so that
// rows that tie at the limit are equal.
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
		inner.order, inner.limit, inner.offset = nil, -1, 0
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

// branch is one of a UNION, with a number that is the same for all of its equal values if it can
// be.
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
