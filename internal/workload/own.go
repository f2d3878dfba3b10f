package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/internal/workload/column"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/rolling"
)

// Own is a table that the user has declared, made into a preset. The declaration's [values] says
// how the values of its rows are drawn.
type Own struct {
	*rolling.Declaration
	schema *engine.Schema // nil before Describe
}

// Describe reads the columns' types from the server. For this purpose it creates the table and
// drops it again. If a table of this name exists already, Describe refuses it, or drops it first if
// dropExisting is set. If resumed is set, it only reads the existing table.
func (o *Own) Describe(ctx context.Context, db engine.Keeper, dropExisting, resumed bool) (err error) {
	t := &table{Table: engine.Table{Name: o.Name, Definition: o.Definition}}
	w := &Insert{db: db, tables: []*table{t}}
	if !resumed {
		t.Grid, t.By = o.Period, o.Time // an earlier run may have left a rolling table
		if err := w.clear(ctx, dropExisting); err != nil {
			return err
		}
		t.Grid = rolling.Grid{}
		defer func() {
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUp)
			defer cancel()
			err = errors.Join(err, w.Drop(clean))
		}()
		if _, err := w.create(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", o.Source, err)
		}
	}
	if o.schema, err = db.Describe(ctx, o.Name); err != nil {
		err = fmt.Errorf("%s: describe table %s: %w", o.Source, o.Name, err)
	}
	return err
}

// PeriodRows returns the number of rows in a period as declared; 0 if it is to be measured.
func (o *Own) PeriodRows() int64 {
	switch length := o.Period.Span().Length(); {
	case !o.Period.Valid():
		return 0
	case o.Period.Axis() == rolling.Sequence:
		return length
	default:
		c := draw.ClockOf(o.Values.RowsPerSecond)
		return max(length/c.Micros(), 1) * c.Rows
	}
}

// refuse returns the error of a column at its place in the file.
func (o *Own) refuse(column, hint, format string, args ...any) error {
	v := o.Values.Of(column)
	text := fmt.Sprintf("column %s: ", column) + fmt.Sprintf(format, args...)
	return engine.Hinted(&rolling.Error{Source: o.Source, Line: v.Line, Column: v.Place, Text: text, Hint: hint}, "%s", hint)
}

// preset returns the table as a preset. Before Describe, it has no rows.
func (o *Own) preset() (preset, error) {
	p := preset{
		name: o.Name, by: o.Time, axis: o.Period.Axis(), batch: 1000, clock: draw.ClockOf(o.Values.RowsPerSecond),
		table:    engine.Table{Name: o.Name, Definition: o.Definition, By: o.Time},
		declared: len(o.Definition.Keys) + len(o.Definition.Indexes),
	}
	if o.Epoch > 0 || o.WholeDays() || len(o.Shards.Nodes) > 0 {
		return p, o.refuse(o.Time, "a column with the time of day, or rows = 1000000 under [period], and no [shards]",
			"a table that rolls by a date or by an integer with an epoch, or is on several servers, can't be measured")
	}
	if o.schema == nil {
		by := engine.Column{Name: o.Time, Type: engine.Time}
		if p.axis == rolling.Sequence {
			by.Type = engine.Int64
		}
		p.table.Columns, p.table.PrimaryKey = []engine.Column{by}, []string{o.Time}
	} else if err := o.columns(&p); err != nil {
		return p, err
	}
	if at := p.table.Column(o.Time); p.axis == rolling.Sequence {
		p.sequence = func(b *engine.Batch, row int, _ draw.Stream) int64 { return b.Columns[at].Ints[row] - 1 }
	}
	return p, nil
}

// columns adds the columns with their generators to the preset.
func (o *Own) columns(p *preset) error {
	by := o.schema.Column(o.Time)
	if by == nil {
		return o.refuse(o.Time, "its name as the server has it", "the server's table has no column of this name")
	}
	counted, err := o.counted(p, by)
	if err != nil {
		return err
	}
	var g generator
	for i := range o.schema.Columns {
		c := &o.schema.Columns[i]
		if c.Generated {
			continue
		}
		made, err := o.column(p, c, counted[c.Name])
		if errors.Is(err, column.ErrNoValues) {
			if (c.Null || c.Default != "") && o.Values.Of(c.Name).Column == "" {
				p.deviations = append(p.deviations, fmt.Sprintf("column %s (%s) is left to the server: no values of this type are known", c.Name, c.Native))
				continue
			}
			err = o.refuse(c.Name, "a default or NULL in create, and no [values]", "no values of type %s are known", c.Native)
		}
		if err != nil {
			return err
		}
		p.table.Columns, g = append(p.table.Columns, made.Column), append(g, made)
	}
	p.fill, p.table.PrimaryKey = g.fill, o.schema.PrimaryKey
	what := fmt.Sprintf("%d rows a second", p.clock.Rows)
	if p.clock.Seconds > 1 {
		what = fmt.Sprintf("a row every %d seconds", p.clock.Seconds)
	}
	p.deviations = append(p.deviations, "the rows are drawn as [values] of the declaration describes them, by default from the columns' types; its clock begins at 2026-01-01 and has "+what)
	return nil
}

// counted returns one column of each unique key: in these columns, rows of the same tick of the
// clock must differ. It returns none if the table's time column, or counter, already differs in all
// rows of a tick.
func (o *Own) counted(p *preset, by *engine.SchemaColumn) (map[string]bool, error) {
	out := map[string]bool{}
	if p.axis == rolling.Sequence || p.clock.Rows <= p.clock.Micros()/column.Resolution(by.Type) {
		return out, nil
	}
	for _, k := range keyColumns(o.schema, o.Time, func(c *engine.SchemaColumn) int64 {
		v := o.Values.Of(c.Name)
		if column.Counts(v) {
			return math.MaxInt64
		}
		return min(cmp.Or(int64(len(v.Words)), v.Distinct, column.MostDistinct), column.KeySpace(*c), column.MostDistinct)
	}) {
		if k.room <= p.clock.Rows {
			return nil, o.refuse(cmp.Or(k.column, o.Time), "a greater distinct, a lower rows-per-second, fractions of a second, or a key with an integer or a text beside the time",
				"the key (%s) has room for %d rows of one time, and %d have it", Join(k.key), k.room, p.clock.Rows)
		}
		out[k.column] = true
	}
	return out, nil
}

// column returns the generator of a column, in which the rows of a tick differ if it is counted.
func (o *Own) column(p *preset, c *engine.SchemaColumn, counted bool) (col column.Generator, err error) {
	f := column.Column{SchemaColumn: c, Values: o.Values.Of(c.Name), Clock: p.clock, Counted: counted, Salt: draw.Salt(draw.Golden, c.Name)}
	v := &f.Values
	if v.Order == 0 {
		advances := c.Name == o.Time || c.Auto || c.Kind == value.Time || c.Logical == value.Date
		v.Order = rolling.OrderRandom
		if advances && v.Distinct == 0 && v.Skew == 0 && v.Heavy == nil && !v.HasRange {
			v.Order = rolling.OrderAscending
		}
	}
	col, space, err := f.Generator()
	if err == nil {
		col.Source, err = f.NumberSource(space)
	}
	if hint := engine.HintOf(err); hint != "" {
		err = o.refuse(c.Name, hint, "%v", err)
	}
	if c.Name == o.Time && p.axis == rolling.Sequence || c.Auto { // from 1: a server may count where it is given 0
		col.Put = func(v *engine.Vector, n uint64) { v.Ints = append(v.Ints, int64(n)+1) }
	}
	return col, err
}

// A generator fills batches column by column.
type generator []column.Generator

func (g generator) fill(b *engine.Batch, s draw.Stream, first int64, n int) {
	for i := range g {
		for seq := first; seq < first+int64(n); seq++ {
			g[i].Append(&b.Columns[i], s, seq, uint64(i+1)*draw.Golden)
		}
	}
	b.EndRows(n)
}
