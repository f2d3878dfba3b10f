package ingest

import (
	"slices"

	"github.com/rowmill/rowmill/internal/engine"
)

// A part is the rows of a batch that are inserted into the same columns. A column
// whose key is absent from an object gets its default, which no value can express, so
// the column is left out of the insert.
type part struct {
	table *engine.Table
	plain *engine.Table // the same table, but duplicates are errors
	batch *engine.Batch
	// rows are the indexes of its rows in the parser's batch; nil means all rows.
	rows []int
}

// place returns the index of a row in the parser's batch.
func (p *part) place(row int) int {
	if p.rows == nil {
		return row
	}
	return p.rows[row]
}

// A shape is the columns of a part. It is reused, because a loader caches prepared
// data for each table.
type shape struct {
	part
	columns []int
}

// shapeOf returns the shape without the columns whose bits are set.
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

// absentIn records that the current object has no value for a column.
func (p *parser) absentIn(column int) {
	for len(p.absent) < (len(p.columns)+7)/8 {
		p.absent = append(p.absent, 0)
	}
	p.absent[column/8] |= 1 << (column % 8)
}

// parts groups the batch's rows by their columns, the largest group first, because
// inserts after the first of a transaction cost more.
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

// pick returns a batch with some columns (nil means all) and some rows of b. It may
// share b's values.
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
