package rollup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain/copier"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// Columns of a roll-up's table in addition to its groups and its aggregates.
const (
	// Bucket is the start of the bucket, of the type of the raw time column.
	Bucket = "bucket"
	// RawRows is the number of raw rows that a row aggregates.
	RawRows = "raw_rows"
)

// A level is one roll-up, with its source and its columns.
type level struct {
	rolling.Rollup
	from     *level // nil for raw rows
	children []*level
	by       []engine.SchemaColumn
	aggs     []aggregate
	keys     *copier.Keys
	batch    int64 // buckets that are computed together; see paced
	// The numbers of rows that a statement reads, that one counts, and that a
	// transaction replaces.
	reading, counting, writing *pace
}

// An aggregate is an aggregate of a level, with its source.
type aggregate struct {
	rolling.Aggregate
	col engine.SchemaColumn // the aggregated column; empty for count(*)
	src *aggregate          // the aggregate of the finer level from which it is merged
}

// Suffixes of the columns with the state from which an aggregate is merged.
const (
	sufN    = "__n"    // avg, stddev, variance: the number of values
	sufSum  = "__sum"  // avg: their sum
	sufMean = "__mean" // stddev, variance
	sufM2   = "__m2"   // stddev, variance: the sum of squared distances from the mean
	sufAt   = "__at"   // first, last: the time
	sufHLL  = "__hll"  // distinct: HyperLogLog
	sufDD   = "__dd"   // percentile: DDSketch
)

// A column of a level's table.
type column struct{ name, typ string }

// family groups functions with the same stored columns.
func family(fn string) string {
	if fn == "variance" {
		return "stddev"
	}
	return fn
}

// sketched reports whether an aggregate is computed on the client.
func (a *aggregate) sketched() bool { return a.Func == "distinct" || a.Func == "percentile" }

// newLevels checks the declaration's roll-ups against the schema.
func newLevels(s *engine.Schema, d *rolling.Declaration) ([]*level, error) {
	var out []*level
	for _, r := range d.Rollups {
		l := &level{Rollup: r, batch: 1, reading: newPace(mostPiece), counting: newPace(mostCounted), writing: newPace(mostPiece)}
		if r.From != "" {
			i := slices.IndexFunc(out, func(o *level) bool { return o.Name == r.From })
			if i < 0 {
				return nil, fmt.Errorf("roll-up %s: there is no roll-up %s before it", r.Name, r.From)
			}
			l.from = out[i]
			l.from.children = append(l.from.children, l)
			l.Rollup = inherited(r, l.from.Rollup)
		}
		if err := l.resolve(s, d); err != nil {
			return nil, fmt.Errorf("roll-up %s: %w", r.Name, err)
		}
		out = append(out, l)
	}
	return out, nil
}

// inherited returns a roll-up completed from the one that it is computed from: with
// all of its groups and aggregates, if it names none.
func inherited(r, from rolling.Rollup) rolling.Rollup {
	if len(r.By) == 0 && len(r.Select) == 0 {
		r.By = from.By
	}
	if len(r.Select) == 0 {
		r.Select = from.Select
	}
	return r
}

// declaredSpec returns the spec of a declared roll-up, without its view.
func declaredSpec(d *rolling.Declaration, i int) spec {
	all := slices.Clone(d.Rollups)
	for k, r := range all {
		if of := slices.IndexFunc(all[:k], func(o rolling.Rollup) bool { return o.Name == r.From }); of >= 0 {
			all[k] = inherited(r, all[of])
		}
	}
	return newSpec(all[i])
}

// resolve finds the level's columns in the schema.
func (l *level) resolve(s *engine.Schema, d *rolling.Declaration) error {
	if !l.Every.Valid() {
		return errors.New("it has no bucket length")
	}
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
		case c.Name == d.Time:
			return fmt.Errorf("by %s: each bucket has its time already", name)
		case l.from != nil && !slices.Contains(l.from.By, name):
			return fmt.Errorf("by %s: %s, which it is made from, doesn't group by it", name, l.from.Name)
		}
		l.by = append(l.by, *c)
	}
	if len(l.Select) == 0 {
		return errors.New("it selects nothing")
	}
	for _, a := range l.Select {
		g := aggregate{Aggregate: a}
		if a.Column != "" {
			c := s.Column(a.Column)
			if c == nil {
				return fmt.Errorf("%s = %s(%s): table %s has no such column", a.Name, a.Func, a.Column, s.Name)
			}
			g.col = *c
		}
		if err := g.check(); err != nil {
			return fmt.Errorf("%s = %s(%s): %w", a.Name, a.Func, a.Column, err)
		}
		if l.from != nil && (a.Func != "count" || a.Column != "") {
			i := slices.IndexFunc(l.from.aggs, func(o aggregate) bool { return family(o.Func) == family(a.Func) && o.Column == a.Column })
			if i < 0 {
				return engine.Hinted(fmt.Errorf("%s = %s(%s): %s, which it is made from, doesn't have it", a.Name, a.Func, a.Column, l.from.Name),
					"select %s(%s) there too", a.Func, a.Column)
			}
			g.src = &l.from.aggs[i]
		}
		l.aggs = append(l.aggs, g)
	}
	return l.clashes()
}

// check rejects aggregates of unsuitable types.
func (a *aggregate) check() error {
	number := a.col.Numeric()
	switch a.Func {
	case "count":
		return nil
	case "sum", "avg", "stddev", "variance", "percentile":
		if !number {
			return fmt.Errorf("column %s is not a number but of type %s", a.Column, a.col.Native)
		}
	case "min", "max", "first", "last":
		if !number && a.col.Kind != value.Time && a.col.Kind != value.Text {
			return fmt.Errorf("column %s is of type %s, whose least and greatest value not every server can determine", a.Column, a.col.Native)
		}
	case "distinct":
	case "median", "mode":
		return fmt.Errorf("the %s of a bucket can't be computed from those of smaller ones: take percentile or distinct, which are estimates", a.Func)
	default:
		return fmt.Errorf("there is no aggregate %s", a.Func)
	}
	if a.Func == "percentile" && !(a.Percent > 0 && a.Percent < 100) {
		return fmt.Errorf("a percentile is above 0 and below 100, not %v", a.Percent)
	}
	return nil
}

// clashes rejects columns with the same name. Servers ignore case.
func (l *level) clashes() error {
	seen := map[string]string{}
	add := func(name, what string) error {
		key := strings.ToLower(name)
		if other := seen[key]; other != "" {
			return engine.Hinted(fmt.Errorf("column %s is both %s and %s", name, other, what), "give the aggregate another name")
		}
		seen[key] = what
		return nil
	}
	errs := []error{add(Bucket, "the bucket"), add(RawRows, "the number of raw rows")}
	for _, c := range l.by {
		errs = append(errs, add(c.Name, "a group"))
	}
	for i := range l.aggs {
		a := &l.aggs[i]
		for j, suffix := range a.suffixes() {
			what := "aggregate " + a.Name
			if j > 0 {
				what = "a part of aggregate " + a.Name
			}
			errs = append(errs, add(a.Name+suffix, what))
		}
	}
	return errors.Join(errs...)
}

// suffixes returns the suffixes of the aggregate's columns, the readable one first.
func (a *aggregate) suffixes() []string {
	switch a.Func {
	case "avg":
		return []string{"", sufN, sufSum}
	case "stddev", "variance":
		return []string{"", sufN, sufMean, sufM2}
	case "first", "last":
		return []string{"", sufAt}
	case "distinct":
		return []string{"", sufHLL}
	case "percentile":
		return []string{"", sufDD}
	}
	return []string{""}
}

// columns returns the aggregate's columns with their types.
func (s *Set) columns(a *aggregate) []column {
	double, blob := s.sums.Double(), s.db.Words().Blob()
	at := s.sums.SumColumn(*s.schema.Column(s.declared.Time))
	var types []string
	switch a.Func {
	case "count":
		types = []string{"BIGINT"}
	case "sum":
		types = []string{s.sums.SumType(a.col)}
	case "avg":
		types = []string{double, "BIGINT", s.sums.SumType(a.col)}
	case "stddev", "variance":
		types = []string{double, "BIGINT", double, double}
	case "min", "max":
		types = []string{s.sums.SumColumn(a.col)}
	case "first", "last":
		types = []string{s.sums.SumColumn(a.col), at}
	case "distinct":
		types = []string{"BIGINT", blob}
	case "percentile":
		types = []string{double, blob}
	}
	var out []column
	for i, suffix := range a.suffixes() {
		out = append(out, column{a.Name + suffix, types[i]})
	}
	return out
}

// key returns the names of the level's primary key: the bucket and its groups.
func (l *level) key() []string {
	out := []string{Bucket}
	for _, c := range l.by {
		out = append(out, c.Name)
	}
	return out
}

// quote quotes names and joins them.
func (s *Set) quote(names ...string) string {
	d := s.db.Dialect()
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = d.Quote(n)
	}
	return strings.Join(out, ", ")
}

// createTable renders the statement that creates the level's table. Rows are accessed by
// bucket, and arrive in the order of buckets, so the key begins with the bucket.
func (s *Set) createTable(l *level) string {
	return "CREATE TABLE IF NOT EXISTS " + s.quote(l.Name) + " (" + s.tableBody(l) + ")"
}

// tableBody renders its columns and its key.
func (s *Set) tableBody(l *level) string {
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
