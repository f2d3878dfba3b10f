package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// A table of the user's: its declaration makes a preset, whose rows are drawn as [values]
// describes them. Every value is a number first, of one of the distinct values or of a key that
// came with an earlier row; owntypes.go makes it a value of the column's type.

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
		if err := w.vacate(ctx, left, dropExisting); err != nil {
			return err
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

// vacate makes room for a table: see Describe.
func (w *Insert) vacate(ctx context.Context, t *table, dropExisting bool) error {
	exists, err := w.exists(ctx, t, dropExisting)
	if err == nil && exists {
		err = w.drop(ctx, t)
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

// defaultRate is the rows of a second of the time column.
const defaultRate = 1000

// clock says how the time of a table advances with its rows.
type clock struct {
	seconds int64 // of a tick
	rows    int64 // with the time of one tick
}

func clockOf(perSecond float64) clock {
	if perSecond = cmp.Or(perSecond, defaultRate); perSecond >= 1 {
		return clock{1, int64(math.Round(perSecond))}
	}
	return clock{int64(math.Round(1 / perSecond)), 1}
}

// at returns the time of the tick of a row, and micros the length of one.
func (c clock) at(seq int64) int64 { return virtualStart + seq/c.rows*c.micros() }
func (c clock) micros() int64      { return c.seconds * int64(time.Second/time.Microsecond) }

// within is at with the place of the row within the tick.
func (c clock) within(seq int64) int64 {
	return c.at(seq) + int64(float64(seq%c.rows)*float64(c.micros())/float64(c.rows))
}

// preset returns the table as a preset. Before Describe, it has no rows.
func (o *Own) preset() (preset, error) {
	d := o.Declaration
	p := preset{
		name: d.Name, by: d.Time, axis: d.Period.Axis(), batch: 1000, clock: clockOf(d.Values.RowsPerSecond),
		table:    engine.Table{Name: d.Name, Definition: d.Definition, PrimaryKey: d.Definition.PrimaryKey, By: d.Time},
		declared: len(d.Definition.Keys) + len(d.Definition.Indexes),
	}
	switch {
	case d.Epoch > 0:
		return p, o.refuse(d.Time, "a column of times, or rows = 1000000 under [period]", "a table that rolls by an integer with an epoch can't be measured")
	case d.WholeDays():
		return p, o.refuse(d.Time, "a column with the time of day", "a table that rolls by a date can't be measured: its periods would be whole days")
	case len(d.Shards.Nodes) > 0:
		return p, o.refuse(d.Time, "the declaration without [shards]", "a table on several servers can't be measured")
	}
	by := engine.Column{Name: d.Time, Type: engine.Time}
	if p.axis == rolling.Sequence {
		by.Type = engine.Int64
		p.sequence = func(*engine.Batch, int, stream) int64 { return -1 }
	}
	if o.schema == nil {
		for _, c := range d.Definition.Columns {
			if c.Name == d.Time {
				p.table.Columns = append(p.table.Columns, by)
			} else {
				p.table.Columns = append(p.table.Columns, engine.Column{Name: c.Name, Type: engine.Varchar, Size: 1})
			}
		}
		return p, nil
	}
	return p, o.columns(&p)
}

// columns adds the columns with their generators to the preset.
func (o *Own) columns(p *preset) error {
	by := o.schema.Column(o.Time)
	if by == nil {
		return o.refuse(o.Time, "its name as the server has it", "the server's table has no column of this name")
	}
	p.table.PrimaryKey = o.schema.PrimaryKey
	g := &generator{clock: p.clock}
	counted, err := o.counted(p, by)
	if err != nil {
		return err
	}
	for i := range o.schema.Columns {
		c := &o.schema.Columns[i]
		if c.Generated {
			continue
		}
		var made ownColumn
		switch {
		case c.Name == o.Time && p.axis == rolling.Sequence:
			made = ownColumn{Column: engine.Column{Name: c.Name, Type: integerType(c.Type)}, source: sequenced{share: 1}, put: putInt(1)}
			at := len(p.table.Columns)
			p.sequence = func(b *engine.Batch, row int, _ stream) int64 { return b.Columns[at].Ints[row] - 1 }
		case c.Name == o.Time:
			made = ownColumn{Column: engine.Column{Name: c.Name, Type: engine.Time}, source: sequenced{share: 1}, put: putTime(p.clock, resolution(c.Type), 1)}
		default:
			if made, err = o.column(p, c, counted[c.Name]); errors.Is(err, errNoValues) && (c.Null || c.Default != "") && o.described(c.Name) == nil {
				p.deviations = append(p.deviations, fmt.Sprintf("column %s (%s) is left to the server: no values of this type are known", c.Name, c.Native))
				continue
			}
			if errors.Is(err, errNoValues) {
				return o.refuse(c.Name, "a default or NULL in create, and no [values]", "no values of type %s are known", c.Native)
			} else if err != nil {
				return err
			}
		}
		p.table.Columns = append(p.table.Columns, made.Column)
		g.columns = append(g.columns, made)
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
	for _, key := range slices.Concat([][]string{o.schema.PrimaryKey}, o.schema.Unique) {
		best, most := "", int64(0)
		for _, name := range key {
			c := o.schema.Column(name)
			if c == nil || name == o.Time {
				continue
			}
			space := min(keySpace(*c), mostDistinct)
			if v := o.described(name); v != nil {
				space = cmp.Or(min(int64(len(v.Words)), space), min(v.Distinct, space), space)
			}
			if c.Auto || o.counts(name) {
				space = math.MaxInt64
			}
			if space > most {
				best, most = name, space
			}
		}
		switch {
		case best == "":
			return nil, o.refuse(o.Time, "a key with an integer or a text beside the time, fractions of a second, or a lower rows-per-second",
				"the %d rows of a tick have the same time, and no other column of the key (%s) tells them apart", p.clock.rows, Join(key))
		case most <= p.clock.rows:
			return nil, o.refuse(best, fmt.Sprintf("a greater distinct, or rows-per-second below %d", max(most/p.clock.seconds, 1)),
				"the key (%s) has room for %d rows of one time, and %d have it", Join(key), most, p.clock.rows)
		}
		out[best] = true
	}
	return out, nil
}

// counts reports whether a column is described as a counter.
func (o *Own) counts(name string) bool {
	v := o.described(name)
	return v != nil && v.Order == rolling.OrderAscending && v.Window == 0 && (v.New == 0 || v.New == 1)
}

// A generator fills batches column by column.
type generator struct {
	clock
	columns []ownColumn
}

// An ownColumn makes the values of a column.
type ownColumn struct {
	engine.Column
	null   uint64 // of 2^64, how many draws are NULL
	source source
	put    put
}

// A source numbers the value of a row; u is uniform in [0, 2^64).
type source interface {
	number(seq int64, u uint64) uint64
}

// A put appends the value with a number.
type put func(v *engine.Vector, n uint64)

const nullDraw = 0xa0761d6478bd642f // odd, unrelated to golden

func (g *generator) fill(b *engine.Batch, s stream, first int64, n int) {
	for i := range g.columns {
		c, v, salt := &g.columns[i], &b.Columns[i], uint64(i+1)*golden
		ticks, counted := c.source.(*ticked)
		for seq := first; seq < first+int64(n); seq++ {
			u := mix(uint64(s.row(seq)) + salt)
			if c.null > 0 && mix(u+nullDraw) < c.null {
				v.AppendNull()
				continue
			}
			if counted {
				u = ticks.spread(s, seq)
			}
			c.put(v, c.source.number(seq, u))
		}
	}
	b.EndRows(n)
}

// sequenced numbers the keys that come with time: a new one with a share of the rows, and the row
// has one of the last.
type sequenced struct {
	share float64
	last  uint64 // 0 and 1 are the newest
}

func (k sequenced) number(seq int64, u uint64) uint64 {
	n := uint64(seq)
	if k.share < 1 {
		n = uint64(float64(seq) * k.share)
	}
	if k.last <= 1 {
		return n
	}
	back, _ := bits.Mul64(u, k.last)
	return n + k.last - 1 - back
}

// ranked numbers distinct values, which don't change. The most frequent ones have low ranks, but
// are spread over the numbers.
type ranked struct {
	segments []segment
	guide    [256]uint16 // the segment where draws with a first byte begin
	distinct uint64
	spread   uint64 // coprime to distinct; 1 unless frequencies differ
}

// A segment is a range of ranks of one frequency, and the draws that are theirs.
type segment struct {
	from, until uint64 // until is exclusive, but for the last
	first       uint64
	count       uint64
	per         float64 // ranks of a draw
}

func (r *ranked) number(_ int64, u uint64) uint64 {
	i := r.guide[u>>56]
	for u >= r.segments[i].until && int(i) < len(r.segments)-1 {
		i++
	}
	s := &r.segments[i]
	n := s.first + min(uint64(float64(u-s.from)*s.per), s.count-1)
	if r.spread == 1 {
		return n
	}
	hi, lo := bits.Mul64(n, r.spread)
	return bits.Rem64(hi, lo, r.distinct)
}

// A part is a number of values, which have a share of the draws together.
type part struct {
	count int64
	share float64
}

// newRanked returns the source of distinct values whose first ones have the shares of heavy, and
// the others the rest. No value has more than the share most.
func newRanked(distinct int64, heavy []float64, skew, most float64) (*ranked, error) {
	var parts []part
	left, rest := distinct, 1.0
	add := func(count int64, share float64) {
		parts = append(parts, part{count, share})
		left, rest = left-count, rest-share
	}
	switch {
	case len(heavy) > 0:
		for _, share := range heavy[:min(int64(len(heavy)), distinct-1)] {
			add(1, min(share, rest))
		}
	case skew > 0:
		// Zipf: singly first, then ranges that grow by a quarter.
		all := zipf(1, distinct+1, skew)
		for at := int64(1); left > 1; {
			count := min(max(1, at/4), left-1)
			add(count, zipf(at, at+count, skew)/all)
			at += count
		}
	}
	add(left, max(rest, 0))
	if !limitShares(parts, most) {
		return nil, errTooFrequent
	}
	r := &ranked{distinct: uint64(distinct), spread: 1}
	if len(parts) > 1 {
		r.spread = uint64(coprime(distinct))
	}
	var first, from uint64
	sum := 0.0
	for i, p := range parts {
		sum += p.share
		until := uint64(math.MaxUint64)
		if i < len(parts)-1 {
			until = uint64(min(sum, 1) * (1 << 63) * 2 * (1 - 1e-15))
		}
		if until = max(until, from); until > from {
			r.segments = append(r.segments, segment{from, until, first, uint64(p.count), float64(p.count) / float64(until-from)})
		}
		first, from = first+uint64(p.count), until
	}
	at := 0
	for i := range r.guide {
		for at < len(r.segments)-1 && r.segments[at].until <= uint64(i)<<56 {
			at++
		}
		r.guide[i] = uint16(at)
	}
	return r, nil
}

// limitShares cuts the shares of values that have more than most, in favor of the others. It reports false
// if all of them are too few for that.
func limitShares(parts []part, most float64) bool {
	for range parts {
		over, under := 0.0, 0.0
		for i, p := range parts {
			if limit := most * float64(p.count); p.share >= limit {
				over, parts[i].share = over+p.share-limit, limit
			} else {
				under += p.share
			}
		}
		if over <= 1e-12 {
			return true
		}
		if under == 0 {
			break
		}
		for i, p := range parts {
			if p.share < most*float64(p.count) {
				parts[i].share *= 1 + over/under
			}
		}
	}
	return false
}

// zipf is the integral of x^-skew, which stands for the sum.
func zipf(from, to int64, skew float64) float64 {
	if skew == 1 {
		return math.Log(float64(to) / float64(from))
	}
	return (math.Pow(float64(to), 1-skew) - math.Pow(float64(from), 1-skew)) / (1 - skew)
}

var errTooFrequent = errors.New("too few values")

// ticked makes the numbers of the rows of a tick differ: their draws are spread evenly over all, from
// a start that is the tick's own, and no value has more draws than lie between two of them.
type ticked struct {
	source
	rows, step int64
	between    uint64
	recent     bool // the numbers are of keys that come with time
}

func newTicked(s source, rows int64) *ticked {
	_, recent := s.(sequenced)
	return &ticked{source: s, rows: rows, step: coprime(rows), between: math.MaxUint64 / uint64(rows), recent: recent}
}

func (t *ticked) spread(s stream, seq int64) uint64 {
	d := s.row(-1 - seq/t.rows)
	shift, start := d.below(uint64(t.rows)), uint64(d.below(t.between))
	place := uint64((seq%t.rows)*t.step+shift) % uint64(t.rows)
	return place*t.between + start
}

func (t *ticked) number(seq int64, u uint64) uint64 {
	if t.recent { // from the same newest key for all rows of the tick
		seq -= seq % t.rows
	}
	return t.source.number(seq, u)
}
