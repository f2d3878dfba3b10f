package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A table of the user's: its declaration makes a preset, whose rows are drawn as [values]
// describes them. Every value is a number first, of one of the distinct values or of a key that
// came with an earlier row (ownnumbers.go); owntypes.go makes it a value of the column's type.

// Own is a declared table to be measured.
type Own struct {
	*rolling.Declaration
	schema *engine.Schema // nil before Describe
}

// Describe reads what the server makes of the declared columns, as only it knows its types: it
// creates the table and drops it. Another table of its name is refused, or dropped first if
// dropExisting is set. A table that is resumed is described as it is.
func (o *Own) Describe(ctx context.Context, db engine.Keeper, dropExisting, resumed bool) (err error) {
	w := &Insert{db: db}
	t := &table{Table: engine.Table{Name: o.Name, Definition: o.Definition}}
	fail := func(what string, err error) error {
		return fmt.Errorf("%s: %s table %s: %w", o.Source, what, o.Name, err)
	}
	if !resumed {
		left := &table{Table: t.Table} // an earlier run's may be rolling
		left.Grid, left.By = o.Period, o.Time
		if exists, err := w.exists(ctx, left, dropExisting); err != nil {
			return err
		} else if exists {
			if err := w.drop(ctx, left); err != nil {
				return err
			}
		}
		defer func() {
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
			defer cancel()
			err = errors.Join(err, w.drop(clean, t))
		}()
		if err := db.Apply(ctx, engine.CreateTable{Table: &t.Table}); err != nil {
			return fail("create", err)
		}
	}
	if o.schema, err = db.Describe(ctx, o.Name); err != nil {
		return fail("describe", err)
	}
	return nil
}

// PeriodRows returns the number of rows in a period as declared; 0 if it is to be measured.
func (o *Own) PeriodRows() int64 {
	switch length := o.Period.Span().Length(); {
	case !o.Period.Valid():
		return 0
	case o.Period.Axis() == rolling.Sequence:
		return length
	default:
		c := clockOf(o.Values.RowsPerSecond)
		return max(length/c.micros(), 1) * c.rows
	}
}

// refuse returns the error of a column at its place in the file.
func (o *Own) refuse(column, hint, format string, args ...any) error {
	e := &rolling.Error{Source: o.Source, Text: fmt.Sprintf("column %s: ", column) + fmt.Sprintf(format, args...), Hint: hint}
	if v := o.described(column); v != nil {
		e.Line, e.Column = v.Line, v.Place
	}
	return engine.Hinted(e, "%s", hint)
}

func (o *Own) described(column string) *rolling.ColumnValues {
	for i := range o.Values.Columns {
		if o.Values.Columns[i].Column == column {
			return &o.Values.Columns[i]
		}
	}
	return nil
}

// preset returns the table as a preset. Before Describe, it has no rows.
func (o *Own) preset() (preset, error) {
	d := o.Declaration
	p := preset{
		name: d.Name, by: d.Time, axis: d.Period.Axis(), batch: 1000, clock: clockOf(d.Values.RowsPerSecond),
		table:    engine.Table{Name: d.Name, Definition: d.Definition, PrimaryKey: d.Definition.PrimaryKey, By: d.Time},
		declared: len(d.Definition.Keys) + len(d.Definition.Indexes),
	}
	if d.Epoch > 0 || d.WholeDays() || len(d.Shards.Nodes) > 0 {
		return p, o.refuse(d.Time, "a column with the time of day, or rows = 1000000 under [period], and no [shards]",
			"a table that rolls by a date or by an integer with an epoch, or is on several servers, can't be measured")
	}
	if o.schema != nil {
		return p, o.columns(&p)
	}
	by := engine.Column{Name: d.Time, Type: engine.Time}
	if p.axis == rolling.Sequence {
		by.Type = engine.Int64
		p.sequence = func(*engine.Batch, int, stream) int64 { return -1 }
	}
	p.table.Columns, p.table.PrimaryKey = []engine.Column{by}, []string{by.Name}
	return p, nil
}

// columns adds the columns with their generators to the preset.
func (o *Own) columns(p *preset) error {
	by := o.schema.Column(o.Time)
	if by == nil {
		return o.refuse(o.Time, "its name as the server has it", "the server's table has no column of this name")
	}
	p.table.PrimaryKey = o.schema.PrimaryKey
	var g generator
	counted, err := o.counted(p, by)
	if err != nil {
		return err
	}
	for i := range o.schema.Columns {
		c := &o.schema.Columns[i]
		if c.Generated {
			continue
		}
		made, err := o.column(p, c, counted[c.Name])
		unknown := errors.Is(err, errNoValues)
		switch {
		case unknown && (c.Null || c.Default != "") && o.described(c.Name) == nil:
			p.deviations = append(p.deviations, fmt.Sprintf("column %s (%s) is left to the server: no values of this type are known", c.Name, c.Native))
			continue
		case unknown:
			return o.refuse(c.Name, "a default or NULL in create, and no [values]", "no values of type %s are known", c.Native)
		case err != nil:
			return err
		case c.Name == o.Time && p.axis == rolling.Sequence: // from 1
			made.put = ints(func(n uint64) int64 { return int64(n) + 1 })
			at := len(p.table.Columns)
			p.sequence = func(b *engine.Batch, row int, _ stream) int64 { return b.Columns[at].Ints[row] - 1 }
		}
		p.table.Columns = append(p.table.Columns, made.Column)
		g = append(g, made)
	}
	p.fill = g.fill
	what := fmt.Sprintf("%d rows a second", p.clock.rows)
	if p.clock.seconds > 1 {
		what = fmt.Sprintf("a row every %d seconds", p.clock.seconds)
	}
	p.deviations = append(p.deviations, "the rows are drawn as [values] of the declaration describes them, by default from the columns' types; its clock begins at 2026-01-01 and has "+what)
	return nil
}

// counted returns the columns in which rows of one tick must differ: one of each unique key, unless
// the time, or a counter, distinguishes its rows anyway.
func (o *Own) counted(p *preset, by *engine.SchemaColumn) (map[string]bool, error) {
	out := map[string]bool{}
	if p.axis == rolling.Sequence || p.clock.rows <= p.clock.micros()/resolution(by.Type) {
		return out, nil
	}
	for _, k := range keyColumns(o.schema, o.Time, func(c *engine.SchemaColumn) int64 {
		v := o.described(c.Name)
		if v == nil {
			return min(keySpace(*c), mostDistinct)
		}
		if v.Order == rolling.OrderAscending && v.Window == 0 && (v.New == 0 || v.New == 1) { // a counter
			return math.MaxInt64
		}
		return min(cmp.Or(int64(len(v.Words)), v.Distinct, mostDistinct), keySpace(*c), mostDistinct)
	}) {
		if k.room <= p.clock.rows {
			return nil, o.refuse(cmp.Or(k.column, o.Time), "a greater distinct, a lower rows-per-second, fractions of a second, or a key with an integer or a text beside the time",
				"the key (%s) has room for %d rows of one time, and %d have it", Join(k.key), k.room, p.clock.rows)
		}
		out[k.column] = true
	}
	return out, nil
}

// A generator fills batches column by column.
type generator []ownColumn

// An ownColumn makes the values of a column.
type ownColumn struct {
	engine.Column
	null   uint64 // of 2^64, how many draws are NULL
	source source
	put    put
}

// A put appends the value with a number.
type put func(v *engine.Vector, n uint64)

const nullDraw = 0xa0761d6478bd642f // odd, unrelated to golden

func (g generator) fill(b *engine.Batch, s stream, first int64, n int) {
	for i := range g {
		c, v, salt := &g[i], &b.Columns[i], uint64(i+1)*golden
		for seq := first; seq < first+int64(n); seq++ {
			u := mix(uint64(s.row(seq)) + salt)
			if c.null > 0 && mix(u+nullDraw) < c.null {
				v.AppendNull()
				continue
			}
			c.put(v, c.source.number(s, seq, u))
		}
	}
	b.EndRows(n)
}
