package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/rolling"
)

// A table of the user's: its declaration makes a preset, whose rows are drawn as [values]
// describes them. Every value is a number first, of one of the distinct values or of a key that
// came with an earlier row (ownnumbers.go); values.go makes it a value of the column's type.

// Own is a declared table to be measured.
type Own struct {
	*rolling.Declaration
	schema *engine.Schema // nil before Describe
}

// Describe reads what the server makes of the declared columns, as only it knows its types: it
// creates the table and drops it. Another table of its name is refused, or dropped first if
// dropExisting is set. A table that is resumed is described as it is.
func (o *Own) Describe(ctx context.Context, db engine.Keeper, dropExisting, resumed bool) (err error) {
	t := &table{Table: engine.Table{Name: o.Name, Definition: o.Definition}}
	w := &Insert{db: db, tables: []*table{t}}
	if !resumed {
		t.Grid, t.By = o.Period, o.Time // an earlier run's may be rolling
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
		c := clockOf(o.Values.RowsPerSecond)
		return max(length/c.micros(), 1) * c.rows
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
		name: o.Name, by: o.Time, axis: o.Period.Axis(), batch: 1000, clock: clockOf(o.Values.RowsPerSecond),
		table:    engine.Table{Name: o.Name, Definition: o.Definition, By: o.Time},
		declared: len(o.Definition.Keys) + len(o.Definition.Indexes),
	}
	if o.Epoch > 0 || o.WholeDays() || len(o.Shards.Nodes) > 0 {
		return p, o.refuse(o.Time, "a column with the time of day, or rows = 1000000 under [period], and no [shards]",
			"a table that rolls by a date or by an integer with an epoch, or is on several servers, can't be measured")
	}
	if o.schema == nil {
		by := engine.Column{Name: o.Time, Type: pick(p.axis == rolling.Sequence, engine.Int64, engine.Time)}
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
		if errors.Is(err, errNoValues) {
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
	what := pick(p.clock.seconds > 1, fmt.Sprintf("a row every %d seconds", p.clock.seconds), fmt.Sprintf("%d rows a second", p.clock.rows))
	p.deviations = append(p.deviations, "the rows are drawn as [values] of the declaration describes them, by default from the columns' types; its clock begins at 2026-01-01 and has "+what)
	return nil
}

// counts reports whether the values are those of a counter, of which none comes twice.
func counts(v rolling.ColumnValues) bool {
	return v.Order == rolling.OrderAscending && v.Window == 0 && cmp.Or(v.New, 1) == 1
}

// counted returns the columns in which rows of one tick must differ: one of each unique key, unless
// the time, or a counter, distinguishes its rows anyway.
func (o *Own) counted(p *preset, by *engine.SchemaColumn) (map[string]bool, error) {
	out := map[string]bool{}
	if p.axis == rolling.Sequence || p.clock.rows <= p.clock.micros()/resolution(by.Type) {
		return out, nil
	}
	for _, k := range keyColumns(o.schema, o.Time, func(c *engine.SchemaColumn) int64 {
		v := o.Values.Of(c.Name)
		if counts(v) {
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

// column returns the generator of a column. Rows of a tick must differ in a counted one.
func (o *Own) column(p *preset, c *engine.SchemaColumn, counted bool) (col madeColumn, err error) {
	f := form{SchemaColumn: c, v: o.Values.Of(c.Name), clock: p.clock, counted: counted, salt: saltOf(draw.Golden, c.Name)}
	v := &f.v
	if v.Order == 0 {
		advances := c.Name == o.Time || c.Auto || c.Kind == value.Time || c.Logical == value.Date
		v.Order = pick(advances && v.Distinct == 0 && v.Skew == 0 && v.Heavy == nil && !v.HasRange, rolling.OrderAscending, rolling.OrderRandom)
	}
	space, err := f.form(&col)
	if err == nil {
		col.source, err = f.source(space)
	}
	if hint := engine.HintOf(err); hint != "" {
		err = o.refuse(c.Name, hint, "%v", err)
	}
	if c.Name == o.Time && p.axis == rolling.Sequence || c.Auto { // from 1: a server may count where it is given 0
		col.put = ints(func(n uint64) int64 { return int64(n) + 1 })
	}
	return col, err
}

// source returns the numbers of a column that has room for space values.
func (f *form) source(space int64) (s draw.Source, err error) {
	tick := int64(0)
	if f.counted && !counts(f.v) {
		tick = f.clock.rows
	}
	if f.v.Order == rolling.OrderRandom {
		distinct := min(cmp.Or(f.v.Distinct, pick(tick > 0, max(10*tick, 1_000_000), defaultDistinct)), space)
		if s.Ranks = draw.NewRanks(distinct, f.v.Heavy, f.v.Skew, tick); s.Ranks == nil {
			return s, engine.Hinted(fmt.Errorf("%d values can't tell apart the %d rows of one time", distinct, tick), "a greater distinct, or a lower rows-per-second")
		}
	} else {
		s.Share = cmp.Or(f.v.New, 1)
		s.Last = uint64(float64(f.v.Window) * s.Share)
		if tick > 0 {
			s.Last = max(s.Last, uint64(tick)+1)
		}
	}
	return s.Apart(tick), nil
}

// A generator fills batches column by column.
type generator []madeColumn

const nullDraw = 0xa0761d6478bd642f // odd, unrelated to golden

func (g generator) fill(b *engine.Batch, s draw.Stream, first int64, n int) {
	for i := range g {
		c, v, salt := &g[i], &b.Columns[i], uint64(i+1)*draw.Golden
		for seq := first; seq < first+int64(n); seq++ {
			u := draw.Mix(uint64(s.Row(seq)) + salt)
			if c.null > 0 && draw.Mix(u+nullDraw) < c.null {
				v.AppendNull()
				continue
			}
			c.put(v, c.source.Number(s, seq, u))
		}
	}
	b.EndRows(n)
}
