package query

import "strings"

// mostConfused is the percentage of queries in which names are made that several things have.
const mostConfused = 15

// bare returns a column without its table; "" if the text is no column.
func bare(text string) string {
	column := text[strings.Index(text, ".")+1:]
	if strings.Trim(text, ".abcdefghijklmnopqrstuvwxyz_0123456789") != "" || column == "" || text[0] <= '9' {
		return ""
	}
	return column
}

// name is the name that an element of the select list has of itself, or is given.
func (it randomItem) name() string {
	if it.alias != "" {
		return it.alias
	}
	return bare(it.text)
}

// confuse gives elements names that columns or other elements have, and leaves out tables. So a
// name in another clause may be one of several things to the server, or none: then both answers are
// its error.
func (g *generator) confuse(q *random) {
	var columns, shown []string
	for _, t := range g.tables {
		for _, list := range t.columns {
			columns = append(columns, list...)
		}
	}
	for _, it := range q.items {
		if c := bare(it.text); c != "" {
			shown = append(shown, c)
		}
	}
	for i := range q.items {
		it := &q.items[i]
		switch {
		case len(shown) > 0 && g.chance(35):
			it.alias = pick(g, shown)
		case g.chance(10):
			it.alias = pick(g, columns)
		case it.alias != "" && i > 0 && g.chance(8):
			it.alias = q.items[i-1].alias
		}
		if g.chance(10) {
			it.alias = strings.ToUpper(it.alias)
		}
		if c := bare(it.text); c != "" && g.chance(25) {
			it.text = c
		}
	}
	for i, by := range q.group {
		if c := bare(by); c != "" && g.chance(40) {
			q.group[i] = c
		} else if g.chance(10) {
			if name := pick(g, q.items).alias; name != "" && !strings.Contains(by, "ROLLUP") && !strings.Contains(by, "(") {
				q.group[i] = name
			}
		}
	}
	if name := pick(g, q.items).name(); len(q.group) > 0 && name != "" && g.chance(15) {
		q.having = append(q.having, name+pick(g, []string{" IS NOT NULL", " > 3", " <> 1"}))
	}
	g.orderByName(q)
}

// orderByName sorts by names of elements, and by columns that no element shows.
func (g *generator) orderByName(q *random) {
	for i := range q.order {
		o := &q.order[i]
		if o.item < 0 {
			continue
		}
		_, direction, _ := strings.Cut(o.text, " ")
		it := q.items[o.item]
		name := it.name()
		if c := bare(it.text); c != "" && g.chance(30) {
			name = c
		}
		if name == "" || strings.Contains(it.text, ".") && g.chance(20) {
			o.text = strings.TrimSpace(it.text + " " + direction)
			continue
		}
		o.text = strings.TrimSpace(name + " " + direction)
		of := 0
		for k, other := range q.items {
			if strings.EqualFold(other.name(), name) {
				of++
				o.item, o.loose = k, other.loose
			}
		}
		if of != 1 {
			o.item = -1
			q.limit, q.offset = -1, 0
			return
		}
	}
}
