package ingest

import (
	"slices"

	"github.com/rowmill/rowmill/engine"
)

// A part is rows of a batch that go into the same columns: those of an object
// whose keys aren't there get their defaults, which no value stands for.
type part struct {
	table *engine.Table
	plain *engine.Table // the same, which passes over no duplicates
	batch *engine.Batch
	// rows are the places of its rows in the parser's batch; nil has all of them.
	rows []int
}

// place returns where in the parser's batch a row is.
func (p *part) place(row int) int {
	if p.rows == nil {
		return row
	}
	return p.rows[row]
}

// A shape is the columns of a part. It is kept, as a loader keeps what it works
// out for a table.
type shape struct {
	part
	columns []int
}

// shapeOf returns the shape of rows without the columns whose bits are set.
func (p *parser) shapeOf(absent []byte) *shape {
	if s := p.shapes[string(absent)]; s != nil {
		return s
	}
	s := &shape{}
	table := *p.table
	table.Columns = nil
	for i := range p.columns {
		if absent[i/8]>>(i%8)&1 == 0 {
			s.columns = append(s.columns, i)
			table.Columns = append(table.Columns, p.table.Columns[i])
		}
	}
	plain := table
	plain.Ignore = false
	s.table, s.plain = &table, &plain
	if p.shapes == nil {
		p.shapes = map[string]*shape{}
	}
	p.shapes[string(absent)] = s
	return s
}

// absentIn notes that a row of an object has no value for a column.
func (p *parser) absentIn(column int) {
	for len(p.absent) < (len(p.columns)+7)/8 {
		p.absent = append(p.absent, 0)
	}
	p.absent[column/8] |= 1 << (column % 8)
}

// parts returns the batch's rows by their columns, the most first: what comes
// after the first insert of a transaction costs more.
func (p *parser) parts() []*part {
	if !slices.ContainsFunc(p.rowShapes, func(s *shape) bool { return s != nil }) {
		return []*part{{table: p.table, plain: p.plain, batch: p.batch}}
	}
	rows := map[*shape][]int{}
	var order []*shape
	for i, s := range p.rowShapes {
		if rows[s] == nil {
			order = append(order, s)
		}
		rows[s] = append(rows[s], i)
	}
	slices.SortStableFunc(order, func(a, b *shape) int { return len(rows[b]) - len(rows[a]) })
	var out []*part
	for _, s := range order {
		if s == nil { // all columns
			out = append(out, &part{p.table, p.plain, pick(p.batch, nil, rows[s]), rows[s]})
			continue
		}
		out = append(out, &part{s.table, s.plain, pick(p.batch, s.columns, rows[s]), rows[s]})
	}
	return out
}

// pick returns a batch of some columns, nil for all, and some rows of another,
// whose values it may share.
func pick(b *engine.Batch, columns, rows []int) *engine.Batch {
	out := &engine.Batch{}
	if columns == nil {
		for i := range b.Columns {
			columns = append(columns, i)
		}
	}
	for _, c := range columns {
		from := &b.Columns[c]
		if len(rows) == b.Rows() {
			out.Columns = append(out.Columns, *from)
			continue
		}
		v := engine.Vector{Type: from.Type}
		for _, row := range rows {
			switch {
			case from.Null(row):
				v.AppendNull()
			case len(from.Ends) > 0:
				v.AppendBytes(from.Value(row))
			case len(from.Floats) > 0:
				v.Floats = append(v.Floats, from.Floats[row])
			default:
				v.Ints = append(v.Ints, from.Ints[row])
			}
		}
		out.Columns = append(out.Columns, v)
	}
	out.EndRows(len(rows))
	return out
}
