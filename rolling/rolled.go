package rolling

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Rolled turns the statements of a plain table into those of a table that can roll by a column, and
// describes each change in a sentence. In the result the column is NOT NULL, the primary key and
// all unique keys contain it, and there are no foreign keys and no keys that a partitioned table
// can't have. The rest of the text stays, comments included. written is the column's name as SQL
// writes it. A table without a primary key or without the column is an error.
func (d *Definition) Rolled(by, written string) (text string, changes []string, err error) {
	c := d.Column(by)
	switch {
	case c == nil:
		return "", nil, fmt.Errorf("table %s has no column %s", d.Name, by)
	case len(d.PrimaryKey) == 0:
		return "", nil, fmt.Errorf("table %s has no primary key, by which rows are told apart", d.Name)
	}
	r := roller{d: d, by: c, written: written}
	for _, item := range d.items {
		r.item(item)
	}
	r.gone(d.items)
	out := r.text(d.Text)
	for _, ix := range d.Indexes {
		out += ";\n" + r.index(ix)
	}
	return out, r.changes, nil
}

// A roller collects the edits of a definition.
type roller struct {
	d       *Definition
	by      *DefinedColumn
	written string
	edits   []edit
	changes []string
	added   []string // keys to add after the last item
}

type edit struct {
	place
	text string
}

func (r *roller) edit(p place, text string) { r.edits = append(r.edits, edit{p, text}) }

func (r *roller) say(format string, args ...any) {
	r.changes = append(r.changes, fmt.Sprintf(format, args...))
}

func (r *roller) has(columns []string) bool {
	return slices.ContainsFunc(columns, func(c string) bool { return strings.EqualFold(c, r.by.Name) })
}

// wider says what a key with one more column no longer checks.
func (r *roller) wider(key string, columns []string) {
	r.say("%s has %s as its last column, because each period checks its own rows only: that (%s) alone is unique is no longer checked", key, r.by.Name, strings.Join(columns, ", "))
}

func (r *roller) item(i definedItem) {
	switch i.kind {
	case primaryItem:
		if !r.has(i.columns) {
			r.edit(place{i.end, i.end}, ", "+r.written)
			r.wider("the primary key", i.columns)
		}
	case uniqueItem:
		if !r.has(i.columns) {
			r.edit(place{i.end, i.end}, ", "+r.written)
			r.wider("unique key "+cmp.Or(i.name, "("+strings.Join(i.columns, ", ")+")"), i.columns)
		}
	case specialItem:
		r.say("the index %s on (%s) is left out: tables with partitions have none of its kind", i.name, strings.Join(i.columns, ", "))
	case foreignItem:
		r.say("%s is left out: a table that rolls has no foreign keys; let the application or a report check it", strings.Join(strings.Fields(r.d.Text[i.from:i.to]), " "))
	case columnItem:
		r.column(i)
	}
}

func (r *roller) column(i definedItem) {
	is := i.name == r.by.Name
	name := r.d.Text[i.from:i.end]
	if i.primary.is() && !is {
		c, notNull := r.d.Column(i.name), "NOT NULL"
		if c.saysNotNull {
			notNull = ""
		}
		r.edit(i.primary, notNull)
		if strings.EqualFold(c.Type, "integer") {
			r.say("column %s no longer counts by itself, as an INTEGER PRIMARY KEY alone does: each insert must give it", i.name)
		}
		r.added = append(r.added, fmt.Sprintf("PRIMARY KEY (%s, %s)", name, r.written))
		r.wider("the primary key", []string{i.name})
	}
	if i.unique.is() && !is {
		r.edit(i.unique, "")
		r.added = append(r.added, fmt.Sprintf("UNIQUE (%s, %s)", name, r.written))
		r.wider("unique key ("+i.name+")", []string{i.name})
	}
	if i.references.is() {
		r.edit(i.references, "")
		r.say("column %s is without its %s: a table that rolls has no foreign keys; let the application or a report check it", i.name, strings.Join(strings.Fields(r.d.Text[i.references.from:i.references.to]), " "))
	}
	if is && !r.by.saysNotNull {
		for _, null := range i.nulls {
			r.edit(null, "")
		}
		r.edit(place{i.to, i.to}, " NOT NULL")
		r.say("column %s is NOT NULL: a row without it has no period", i.name)
	}
}

// gone cuts out the items that the table can't have, and adds keys after the last one that stays.
func (r *roller) gone(items []definedItem) {
	last := -1
	for n, i := range items {
		if i.kind != foreignItem && i.kind != specialItem {
			last = n
			continue
		}
		// The first item is a column, so that an item comes before this one.
		r.edit(place{items[n-1].to, i.to}, "")
	}
	for _, key := range r.added {
		r.edit(place{items[last].to, items[last].to}, ",\n  "+key)
	}
}

func (r *roller) text(text string) string {
	slices.SortStableFunc(r.edits, func(a, b edit) int { return cmp.Or(a.from-b.from, a.to-b.to) })
	var b strings.Builder
	at := 0
	for _, e := range r.edits {
		b.WriteString(text[at:max(at, e.from)])
		b.WriteString(e.text)
		at = max(at, e.to)
	}
	return b.String() + text[at:]
}

func (r *roller) index(ix DefinedIndex) string {
	if !ix.Unique || r.has(ix.Columns) {
		return ix.Text
	}
	r.wider("unique index "+ix.Name, ix.Columns)
	return ix.Text[:ix.end] + ", " + r.written + ix.Text[ix.end:]
}
