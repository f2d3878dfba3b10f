package rollup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// Columns of a roll-up's table in addition to its groups and its aggregates.
const (
	// Bucket is the start of the bucket, of the type of the raw time column.
	Bucket = engine.RolledBucket
	// RawRows is the number of raw rows that a row aggregates.
	RawRows = engine.RolledRows
)

type level struct {
	rolling.Rollup
	from     *level // nil for raw rows
	children []*level
	by       []engine.SchemaColumn
	aggs     []aggregate
	keys     *engine.Keys
	batch    int // buckets that are computed together; see paced
	// How many rows a statement reads, a statement counts, and a transaction replaces.
	reading, counting, writing *pace
}

type aggregate struct {
	rolling.Aggregate
	col engine.SchemaColumn // the aggregated column; empty for count(*)
	src *aggregate          // the aggregate of the finer level from which it is merged
}

// Suffixes of the columns with the state from which an aggregate is merged.
const (
	sufN    = engine.RolledNumber // avg, stddev, variance: the number of values
	sufSum  = engine.RolledSum    // avg: their sum
	sufMean = "__mean"            // stddev, variance: the mean
	sufM2   = "__m2"              // stddev, variance: the sum of squared distances from the mean
	sufAt   = "__at"              // first, last: the time of the value
	sufHLL  = "__hll"             // distinct: HyperLogLog
	sufDD   = "__dd"              // percentile: DDSketch
)

type column struct{ name, typ string }

// family groups functions with the same stored columns.
func family(fn string) string {
	if fn == "variance" {
		return "stddev"
	}
	return fn
}

// sketched aggregates are computed on the client.
func (a *aggregate) sketched() bool { return a.Func == "distinct" || a.Func == "percentile" }

// newLevels finds the columns of the declaration's roll-ups in the schema. The declaration was
// checked before; here the table's actual types are checked.
func newLevels(s *engine.Schema, d *rolling.Declaration) ([]*level, error) {
	var out []*level
	for _, r := range d.Rollups {
		l := &level{Rollup: r, batch: 1, reading: newPace(mostPiece), counting: newPace(mostCounted), writing: newPace(mostPiece)}
		if r.From != "" {
			l.from = out[slices.IndexFunc(out, func(o *level) bool { return o.Name == r.From })]
			l.from.children = append(l.from.children, l)
		}
		if err := l.resolve(s); err != nil {
			return nil, fmt.Errorf("roll-up %s: %w", r.Name, err)
		}
		out = append(out, l)
	}
	return out, nil
}

// columns returns the columns of the table that the level is computed from.
func (l *level) columns(t *engine.Table) []string {
	out := append([]string{t.By}, l.By...)
	for _, a := range l.aggs {
		if a.Column != "" {
			out = append(out, a.Column)
		}
	}
	return out
}

func (l *level) resolve(s *engine.Schema) error {
	for _, name := range l.By {
		c := s.Column(name)
		switch {
		case c == nil:
			return fmt.Errorf("by %s: table %s has no such column", name, s.Name)
		case c.Null:
			return engine.Hinted(fmt.Errorf("by %s: it may be NULL, and a key can't be", name),
				"declare it NOT NULL, or group by a generated column such as COALESCE(%s, ...)", name)
		case c.Kind == value.Float:
			return engine.Hinted(fmt.Errorf("by %s: it is a binary fraction, and whether two values are equal depends on rounding", name), "group by a decimal or an integer")
		}
		l.by = append(l.by, *c)
	}
	for _, a := range l.Select {
		g := aggregate{Aggregate: a}
		if a.Column != "" {
			c := s.Column(a.Column)
			if c == nil {
				return fmt.Errorf("%s = %s: table %s has no such column", a.Name, a, s.Name)
			}
			g.col = *c
			if err := g.check(); err != nil {
				return fmt.Errorf("%s = %s: %w", a.Name, a, err)
			}
			if l.from != nil {
				g.src = l.from.source(a)
			}
		}
		l.aggs = append(l.aggs, g)
	}
	return nil
}

// source returns the level's aggregate from which a coarser level merges a.
func (l *level) source(a rolling.Aggregate) *aggregate {
	return &l.aggs[slices.IndexFunc(l.aggs, func(o aggregate) bool { return family(o.Func) == family(a.Func) && o.Column == a.Column })]
}

func (a *aggregate) check() error {
	number := a.col.Numeric()
	switch a.Func {
	case "sum", "avg", "stddev", "variance", "percentile":
		if !number {
			return fmt.Errorf("column %s is not a number but of type %s", a.Column, a.col.Native)
		}
	case "min", "max", "first", "last":
		if !number && a.col.Kind != value.Time && a.col.Kind != value.Text {
			return fmt.Errorf("column %s is of type %s, whose least and greatest value not every server can determine", a.Column, a.col.Native)
		}
	}
	return nil
}

// stored has the aggregates with several columns, and the suffixes of their columns' names. The
// readable column comes first. Other aggregates have only the readable column.
var stored = map[string][]string{
	"avg":        {"", sufN, sufSum},
	"stddev":     {"", sufN, sufMean, sufM2},
	"variance":   {"", sufN, sufMean, sufM2},
	"first":      {"", sufAt},
	"last":       {"", sufAt},
	"distinct":   {"", sufHLL},
	"percentile": {"", sufDD},
}

func (a *aggregate) suffixes() []string {
	if all := stored[a.Func]; all != nil {
		return all
	}
	return []string{""}
}

func (s creator) columns(a *aggregate) (out []column) {
	for _, suffix := range a.suffixes() {
		typ := "BIGINT"
		switch {
		case suffix == sufN, a.Func == "count", suffix == "" && a.Func == "distinct":
		case suffix == sufSum, a.Func == "sum":
			typ = s.sums.SumType(a.col)
		case suffix == sufAt:
			typ = s.sums.SumColumn(*s.schema.Column(s.declared.Time))
		case suffix == sufHLL, suffix == sufDD:
			typ = s.db.Words().Blob()
		case slices.Contains([]string{"avg", "stddev", "variance", "percentile"}, a.Func):
			typ = s.sums.Double()
		default:
			typ = s.sums.SumColumn(a.col)
		}
		out = append(out, column{a.Name + suffix, typ})
	}
	return out
}

func (l *level) key() []string {
	out := []string{Bucket}
	for _, c := range l.by {
		out = append(out, c.Name)
	}
	return out
}

func (s *Set) quote(names ...string) string {
	d := s.db.Dialect()
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = d.Quote(n)
	}
	return strings.Join(out, ", ")
}

// createTable renders the statement that creates the level's table. Its key begins with the bucket,
// because rows are read and arrive by bucket.
func (s creator) createTable(l *level) string {
	return "CREATE TABLE IF NOT EXISTS " + s.quote(l.Name) + " (" + s.tableBody(l) + ")"
}

func (s creator) tableBody(l *level) string {
	t := s.schema.Column(s.declared.Time)
	lines := []string{s.quote(Bucket) + " " + s.sums.SumColumn(*t) + " NOT NULL"}
	for _, c := range l.by {
		lines = append(lines, s.quote(c.Name)+" "+s.sums.SumColumn(c)+" NOT NULL")
	}
	lines = append(lines, s.quote(RawRows)+" BIGINT NOT NULL")
	for i := range l.aggs {
		for _, c := range s.columns(&l.aggs[i]) {
			lines = append(lines, s.quote(c.name)+" "+c.typ+" NULL")
		}
	}
	lines = append(lines, "PRIMARY KEY ("+s.quote(l.key()...)+")")
	return "\n  " + strings.Join(lines, ",\n  ") + "\n"
}
