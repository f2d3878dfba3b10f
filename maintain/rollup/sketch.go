package rollup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"
	"github.com/axiomhq/hyperloglog"

	"github.com/rowmill/rowmill/engine"
)

// Accuracy is the greatest relative error of a percentile: DDSketch returns a
// value within so much of that of the nearest rank.
const Accuracy = 0.01

// A sketch takes the values, or the sketches, of one aggregate of one row.
type sketch interface {
	// add takes a value as the text, or the number, that the server gave.
	add(v []byte) error
	// merge takes a stored sketch.
	merge(blob []byte) error
	// result returns the readable value, nil without one, and the blob.
	result() (value any, blob []byte, err error)
}

func newSketch(a *aggregate) (sketch, error) {
	if a.Func == "distinct" {
		return &distinct{hyperloglog.New14()}, nil
	}
	m, err := mapping.NewLogarithmicMapping(Accuracy)
	if err != nil {
		return nil, err
	}
	return &percentile{percent: a.Percent, m: m, s: ddsketch.NewDDSketchFromStoreProvider(m, store.BufferedPaginatedStoreConstructor)}, nil
}

// distinct is a HyperLogLog of 2^14 registers: its standard error is
// 1.04/sqrt(2^14), 0.8 %, and far less for a few thousand values.
type distinct struct{ s *hyperloglog.Sketch }

func (d *distinct) add(v []byte) error { d.s.Insert(v); return nil }

func (d *distinct) merge(blob []byte) error {
	o := hyperloglog.New14()
	if err := o.UnmarshalBinary(blob); err != nil {
		return fmt.Errorf("stored HyperLogLog: %w", err)
	}
	return d.s.Merge(o)
}

func (d *distinct) result() (any, []byte, error) {
	blob, err := d.s.MarshalBinary()
	return int64(d.s.Estimate()), blob, err
}

// percentile is a DDSketch. Its store has no bound on the number of bins, so
// that the accuracy holds of all data: values from 1e-300 to 1e300 have 70,000
// bins between them, those of one decade have 116.
type percentile struct {
	percent float64
	m       mapping.IndexMapping
	s       *ddsketch.DDSketch
}

func (p *percentile) add(v []byte) error {
	x, err := strconv.ParseFloat(string(v), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("value %q is no number: %w", v, err)
	}
	if math.IsNaN(x) {
		return nil
	}
	// What is too large for a bin, infinities above all, goes to the last one.
	return p.s.Add(min(max(x, -p.m.MaxIndexableValue()), p.m.MaxIndexableValue()))
}

func (p *percentile) merge(blob []byte) error {
	if err := p.s.DecodeAndMergeWith(blob); err != nil {
		return fmt.Errorf("stored DDSketch: %w", err)
	}
	return nil
}

func (p *percentile) result() (any, []byte, error) {
	var blob []byte
	p.s.Encode(&blob, false)
	n := p.s.GetCount()
	if n == 0 {
		return nil, blob, nil
	}
	num, den := percentRatio(p.percent)
	return p.ranked(max(math.Ceil(n*float64(num)/float64(den)), 1)), blob, nil
}

// ranked returns the value of a rank, from 1: the nearest rank, not the one
// between two that the sketch's own quantiles are. KeyAtRank finds the first bin
// at which the count of values exceeds its argument.
func (p *percentile) ranked(k float64) float64 {
	negative, zero := p.s.GetNegativeValueStore(), p.s.GetZeroCount()
	below := negative.TotalCount()
	switch {
	case k <= below: // the greatest of them have the smallest keys
		return -p.m.Value(negative.KeyAtRank(below - k + 0.5))
	case k <= below+zero:
		return 0
	}
	return p.m.Value(p.s.GetPositiveValueStore().KeyAtRank(k - below - zero - 0.5))
}

// A group is one row of a level: its bucket and the values of its groups.
type group struct {
	bucket int64
	by     string // joined by their lengths
}

// sketches computes the level's sketches for the rows in a range that are in its
// table already, all of whose values it reads through the client.
func (s *Set) sketches(ctx context.Context, tx *sql.Tx, l *level, from, to int64) error {
	var aggs []*aggregate
	for i := range l.aggs {
		if l.aggs[i].sketched() {
			aggs = append(aggs, &l.aggs[i])
		}
	}
	if len(aggs) == 0 {
		return nil
	}
	rows, err := tx.QueryContext(ctx, s.selectSketched(l, aggs, from, to))
	if err != nil {
		return fmt.Errorf("read for sketches: %w", s.db.Classify(err))
	}
	defer rows.Close()
	found := map[group][]sketch{}
	by, values := make([]sql.RawBytes, len(l.by)), make([]sql.RawBytes, len(aggs))
	var bucket int64
	dest := []any{&bucket}
	for i := range by {
		dest = append(dest, &by[i])
	}
	for i := range values {
		dest = append(dest, &values[i])
	}
	var key []byte
	var last group
	var of []sketch
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return fmt.Errorf("read for sketches: %w", err)
		}
		key = key[:0]
		for _, v := range by {
			key = append(strconv.AppendInt(key, int64(len(v)), 10), ':')
			key = append(key, v...)
		}
		if of == nil || last.bucket != bucket || last.by != string(key) {
			last = group{bucket, string(key)}
			if of = found[last]; of == nil {
				for _, a := range aggs {
					sk, err := newSketch(a)
					if err != nil {
						return err
					}
					of = append(of, sk)
				}
				found[last] = of
			}
		}
		for i, v := range values {
			if v == nil {
				continue
			}
			take := of[i].add
			if l.from != nil {
				take = of[i].merge
			}
			if err := take(v); err != nil {
				return fmt.Errorf("%s: %w", aggs[i].Name, err)
			}
		}
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return fmt.Errorf("read for sketches: %w", s.db.Classify(err))
	}
	return s.storeSketches(ctx, tx, l, aggs, found)
}

// selectSketched renders the query for the values to put into sketches, with
// the bucket and the groups of the row they belong to.
func (s *Set) selectSketched(l *level, aggs []*aggregate, from, to int64) string {
	w := s.db.Words()
	renamed := func(c engine.SchemaColumn, prefix string, i int) engine.SchemaColumn {
		c.Name = prefix + strconv.Itoa(i)
		return c
	}
	bucket := s.bucketOf(l, w.Position(s.table, "r."+s.sourceTime(l)))
	inner, outer := []string{bucket + " AS b"}, []string{"b"}
	join := ""
	for i, c := range l.by {
		owner := "r."
		if c.Kind == engine.KindText || c.Kind == engine.KindOther {
			// Values that differ may be equal to the server: its rows say which
			// of them stands for all.
			join, owner = "yes", "u."
		}
		g := renamed(c, "g", i)
		inner, outer = append(inner, owner+s.quote(c.Name)+" AS "+g.Name), append(outer, w.AsText(g))
	}
	for i, a := range aggs {
		g := renamed(a.col, "v", i)
		value := a.Column
		text := w.AsText(g)
		if a.Func == "percentile" {
			text = g.Name
		}
		if l.from != nil {
			value, text = a.src.Name+sufHLL, g.Name
			if a.Func == "percentile" {
				value = a.src.Name + sufDD
			}
		}
		inner, outer = append(inner, "r."+s.quote(value)+" AS "+g.Name), append(outer, text)
	}
	if join != "" {
		join = " JOIN " + s.quote(l.Name) + " u ON u." + s.quote(Bucket) + " = " + w.FromPosition(s.table, bucket)
		for _, c := range l.by {
			join += " AND u." + s.quote(c.Name) + " = r." + s.quote(c.Name)
		}
	}
	return fmt.Sprintf("SELECT %s FROM (SELECT %s FROM %s r%s WHERE %s) q",
		strings.Join(outer, ", "), strings.Join(inner, ", "), s.source(l), join, s.between("r."+s.sourceTime(l), from, to))
}

// storeSketches writes sketches into the rows they belong to.
func (s *Set) storeSketches(ctx context.Context, tx *sql.Tx, l *level, aggs []*aggregate, found map[group][]sketch) error {
	var set []string
	for _, a := range aggs {
		names := a.suffixes()
		set = append(set, s.quote(a.Name)+" = ?", s.quote(a.Name+names[1])+" = ?")
	}
	buckets := map[int64][]group{}
	for g := range found {
		buckets[g.bucket] = append(buckets[g.bucket], g)
	}
	for bucket, groups := range buckets {
		q := fmt.Sprintf("UPDATE %s SET %s WHERE %s = %s", s.quote(l.Name), strings.Join(set, ", "), s.quote(Bucket), s.db.Words().Literal(s.table, bucket))
		for _, c := range l.by {
			q += " AND " + s.quote(c.Name) + " = ?"
		}
		if err := s.storeBucket(ctx, tx, s.db.Bind(q), groups, found); err != nil {
			return fmt.Errorf("store sketches of %s: %w", l.Name, s.db.Classify(err))
		}
	}
	return nil
}

func (s *Set) storeBucket(ctx context.Context, tx *sql.Tx, q string, groups []group, found map[group][]sketch) (err error) {
	stmt, err := tx.PrepareContext(ctx, q)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	for _, g := range groups {
		var args []any
		for _, sk := range found[g] {
			value, blob, err := sk.result()
			if err != nil {
				return err
			}
			args = append(args, value, blob)
		}
		for rest := g.by; rest != ""; {
			length, after, _ := strings.Cut(rest, ":")
			n, err := strconv.Atoi(length)
			if err != nil {
				return err
			}
			args, rest = append(args, after[:n]), after[n:]
		}
		r, err := stmt.ExecContext(ctx, args...)
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		if err != nil {
			return err
		}
		if n > 1 {
			return fmt.Errorf("a group has %d rows", n)
		}
	}
	return nil
}
