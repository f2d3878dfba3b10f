package rollup

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/encoding"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"
	"github.com/axiomhq/hyperloglog"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// Accuracy is the maximum relative error of a percentile. The percentile is the value with the
// nearest rank; DDSketch returns a value that differs from it by at most this share.
const Accuracy = 0.01

// A sketch accumulates the values, or the sketches, of one aggregate of one row.
type sketch interface {
	// add adds a value, given as the server returned it.
	add(v []byte) error
	// merge adds a stored sketch.
	merge(blob []byte) error
	bytes() int
	// result returns the readable value, nil if there is none, and the blob.
	result() (value any, blob []byte, err error)
}

// newSketch returns an empty sketch; m are the bins of percentiles.
func newSketch(a *aggregate, m mapping.IndexMapping) sketch {
	if a.Func == "distinct" {
		return &distinct{s: hyperloglog.New14()}
	}
	return &percentile{percent: a.Percent, m: m}
}

// distinct is a HyperLogLog of 2^14 registers. Its standard error is 1.04/sqrt(2^14), 0.8 %, and
// much less for a few thousand values.
type distinct struct {
	s     *hyperloglog.Sketch
	taken int // number of added values, including repeated ones
}

func (d *distinct) add(v []byte) error { d.s.Insert(v); d.taken++; return nil }

func (d *distinct) merge(blob []byte) error {
	o := hyperloglog.New14()
	if err := o.UnmarshalBinary(blob); err != nil {
		return fmt.Errorf("stored HyperLogLog: %w", err)
	}
	d.taken += len(blob)
	return d.s.Merge(o)
}

// Few values are stored as a list, many as 2^14 registers.
func (d *distinct) bytes() int { return min(300+16*d.taken, 1<<14+300) }

func (d *distinct) result() (any, []byte, error) {
	blob, err := d.s.MarshalBinary()
	return int64(d.s.Estimate()), blob, err
}

// percentile is a DDSketch without a limit of bins, so that the accuracy holds for all data: values
// from 1e-300 to 1e300 take 70,000 bins, values of one decade 116.
type percentile struct {
	percent float64
	m       mapping.IndexMapping
	few     []float64          // values not yet in s, which is nil while there are few
	s       *ddsketch.DDSketch // some kilobytes, whatever it contains
}

// fewValues are kept individually: each of many groups has only a few rows.
const fewValues = 32

func (p *percentile) sketch() (*ddsketch.DDSketch, error) {
	if p.s == nil {
		p.s = ddsketch.NewDDSketchFromStoreProvider(p.m, store.BufferedPaginatedStoreConstructor)
	}
	for _, x := range p.few {
		if err := p.s.Add(x); err != nil {
			return nil, err
		}
	}
	p.few = nil
	return p.s, nil
}

// 3,000 is the measured size of a sketch of values that span a few decades.
func (p *percentile) bytes() int {
	n := 80 + 8*cap(p.few)
	if p.s != nil {
		n += 3000
	}
	return n
}

func (p *percentile) add(v []byte) error {
	x, err := strconv.ParseFloat(string(v), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("value %q is not a number: %w", v, err)
	}
	if math.IsNaN(x) {
		return nil
	}
	// Values too large for a bin, such as infinities, go to the last bin.
	x = min(max(x, -p.m.MaxIndexableValue()), p.m.MaxIndexableValue())
	if p.s != nil {
		return p.s.Add(x)
	}
	if p.few = append(p.few, x); len(p.few) < fewValues {
		return nil
	}
	_, err = p.sketch()
	return err
}

func (p *percentile) merge(blob []byte) error {
	s, err := p.sketch()
	if err != nil {
		return err
	}
	if err = checkPercentile(blob, p.m); err == nil {
		err = s.DecodeAndMergeWith(blob)
	}
	if err != nil {
		return fmt.Errorf("stored DDSketch: %w", err)
	}
	return nil
}

func (p *percentile) result() (any, []byte, error) {
	var blob []byte
	s, err := p.sketch()
	if err != nil {
		return nil, nil, err
	}
	s.Encode(&blob, false)
	n := s.GetCount()
	if n == 0 {
		return nil, blob, nil
	}
	num, den := percentRatio(p.percent)
	return p.ranked(max(math.Ceil(n*float64(num)/float64(den)), 1)), blob, nil
}

// ranked returns the value of rank k; the least value has rank 1. The quantiles of the library are
// not used, because they interpolate. KeyAtRank(r) returns the first bin up to which there are more
// than r values.
func (p *percentile) ranked(k float64) float64 {
	negative, zero := p.s.GetNegativeValueStore(), p.s.GetZeroCount()
	below := negative.TotalCount()
	switch {
	case k <= below: // among negative values, the greatest have the smallest keys
		return -p.m.Value(negative.KeyAtRank(below - k + 0.5))
	case k <= below+zero:
		return 0
	}
	return p.m.Value(p.s.GetPositiveValueStore().KeyAtRank(k - below - zero - 0.5))
}

const (
	// sketchMemory is the approximate memory of sketches at which they are stored and cleared.
	sketchMemory = 256 << 20
	// storeRows and storeBytes limit one statement that stores sketches: servers
	// limit the number of bound values and the length of a statement.
	storeRows, storeBytes = 200, 512 << 10
)

// A group is one row of a level.
type group struct {
	bucket int64
	by     string // the group's values, each after its length, e.g. "2:DE4:male"
}

func (g group) values() (out []any) {
	for rest := g.by; rest != ""; {
		length, after, _ := strings.Cut(rest, ":")
		n, _ := strconv.Atoi(length) // written by appendGroup
		out, rest = append(out, after[:n]), after[n:]
	}
	return out
}

func appendGroup(key []byte, v []byte) []byte {
	key = append(strconv.AppendInt(key, int64(len(v)), 10), ':')
	return append(key, v...)
}

// sketches holds the sketches of a stage's rows. The client computes them from the values of the
// stage's source. If the stage already has a sketch of a group, it is merged with the new one.
type sketches struct {
	set    *Set
	st     *stage
	aggs   []*aggregate
	bins   mapping.IndexMapping
	found  map[group][]sketch
	bytes  int  // approximate size of found
	stored bool // some sketches are in the stage
}

const overhead = 150

func (k *sketches) of(g group) []sketch {
	of := k.found[g]
	if of != nil {
		return of
	}
	for _, a := range k.aggs {
		sk := newSketch(a, k.bins)
		k.bytes += sk.bytes()
		of = append(of, sk)
	}
	k.found[g] = of
	k.bytes += overhead + len(g.by)
	return of
}

// read adds the values of a piece of the source. The stage has the rows of the piece already.
func (k *sketches) read(ctx context.Context, x execer, where string, args []any) error {
	if len(k.aggs) == 0 {
		return nil
	}
	take := func(sk sketch, v []byte) error { return sk.add(v) }
	if k.st.l.from != nil {
		take = func(sk sketch, v []byte) error { return sk.merge(v) }
	}
	return k.each(ctx, x, k.set.selectSketched(k.st, k.aggs, where), args, func(g group, values []sql.RawBytes) error {
		of := k.of(g)
		for i, v := range values {
			if v == nil {
				continue
			}
			k.bytes -= of[i].bytes()
			if err := take(of[i], v); err != nil {
				return fmt.Errorf("%s: %w", k.aggs[i].Name, err)
			}
			k.bytes += of[i].bytes()
		}
		return nil
	})
}

// each reads a bucket, the values of its groups, and a value for each of the sketches.
func (k *sketches) each(ctx context.Context, x execer, q string, args []any, fn func(group, []sql.RawBytes) error) error {
	by, values := make([]sql.RawBytes, len(k.st.l.by)), make([]sql.RawBytes, len(k.aggs))
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
	return k.set.each(ctx, x, func(rows *sql.Rows) error {
		if err := rows.Scan(dest...); err != nil {
			return fmt.Errorf("read for sketches: %w", err)
		}
		key = key[:0]
		for _, v := range by {
			key = appendGroup(key, v)
		}
		if last.bucket != bucket || last.by != string(key) {
			last = group{bucket, string(key)}
		}
		return fn(last, values)
	}, q, args...)
}

// selectSketched renders the query for the values to add to sketches. Each value comes with the
// bucket of its row and the row's values of the group columns.
func (s *Set) selectSketched(st *stage, aggs []*aggregate, where string) string {
	l, w := st.l, s.db.Words()
	renamed := func(c engine.SchemaColumn, prefix string, i int) engine.SchemaColumn {
		c.Name = prefix + strconv.Itoa(i)
		return c
	}
	// Only the innermost query has the columns of the source, to which the condition refers.
	bucket := s.bucketOf(l, w.Position(s.table, "r.t0"))
	source := []string{s.sourceOf(l).column + " AS t0"}
	inner, outer := []string{bucket + " AS b"}, []string{"b"}
	join := ""
	for i, c := range l.by {
		name := "b" + strconv.Itoa(i)
		source = append(source, s.quote(c.Name)+" AS "+name)
		group := "r." + name
		if c.Kind == value.Text || c.Kind == value.Other {
			// The server may treat different texts as equal, and group them together. The query
			// joins the stage, because the stage has the text that represents the group.
			join, group = "yes", "u."+s.quote(c.Name)
		}
		g := renamed(c, "g", i)
		inner, outer = append(inner, group+" AS "+g.Name), append(outer, w.AsText(g))
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
		source = append(source, s.quote(value)+" AS "+g.Name)
		inner, outer = append(inner, "r."+g.Name+" AS "+g.Name), append(outer, text)
	}
	if join != "" {
		join = " JOIN " + st.table.Name + " u ON u." + s.quote(Bucket) + " = " + w.FromPosition(s.table, bucket)
		for i, c := range l.by {
			join += " AND u." + s.quote(c.Name) + " = r.b" + strconv.Itoa(i)
		}
	}
	return fmt.Sprintf("SELECT %s FROM (SELECT %s FROM (SELECT %s FROM %s WHERE %s) r%s) q",
		strings.Join(outer, ", "), strings.Join(inner, ", "), strings.Join(source, ", "), s.sourceOf(l).from, where, join)
}

func (k *sketches) store(ctx context.Context, x execer) error {
	groups := make([]group, 0, len(k.found))
	for g := range k.found {
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.bucket, b.bucket), strings.Compare(a.by, b.by))
	})
	for some := range slices.Chunk(groups, storeRows) {
		if k.stored {
			if err := k.mergeStored(ctx, x, some); err != nil {
				return err
			}
		}
		for len(some) > 0 {
			n, err := k.storeSome(ctx, x, some)
			if err != nil {
				return fmt.Errorf("store sketches of %s: %w", k.st.l.Name, k.set.db.Classify(err))
			}
			some = some[n:]
		}
	}
	k.stored = k.stored || len(groups) > 0
	clear(k.found)
	k.bytes = 0
	return nil
}

// storeSome writes as many groups as one statement takes, and returns their number.
func (k *sketches) storeSome(ctx context.Context, x execer, some []group) (int, error) {
	s, l := k.set, k.st.l
	var q strings.Builder
	var args []any
	rows, size := 0, 0
	for _, g := range some {
		if rows > 0 {
			q.WriteString(", ")
		}
		by := g.values()
		fmt.Fprintf(&q, "(%s%s, 0%s)", s.db.Words().Literal(s.table, g.bucket), strings.Repeat(", ?", len(by)), strings.Repeat(", ?", 2*len(k.aggs)))
		args = append(args, by...)
		for _, sk := range k.found[g] {
			value, blob, err := sk.result()
			if err != nil {
				return 0, err
			}
			args, size = append(args, value, blob), size+len(blob)
		}
		if rows++; size >= storeBytes {
			break
		}
	}
	names := append(l.key(), RawRows)
	var set []string
	for _, a := range k.aggs {
		for _, suffix := range a.suffixes() {
			names = append(names, a.Name+suffix)
			set = append(set, s.quote(a.Name+suffix)+" = "+s.sums.Sent(a.Name+suffix))
		}
	}
	_, err := s.exec(ctx, x, fmt.Sprintf("INSERT INTO %s (%s) VALUES %s%s%s", k.st.table.Name, s.quote(names...), q.String(), s.sums.OnKey(l.key()), strings.Join(set, ", ")), args...)
	return rows, err
}

func (k *sketches) mergeStored(ctx context.Context, x execer, some []group) error {
	s, l, w := k.set, k.st.l, k.set.db.Words()
	cols := []string{w.Position(s.table, s.quote(Bucket))}
	for _, c := range l.by {
		cols = append(cols, w.AsText(c))
	}
	for _, a := range k.aggs {
		cols = append(cols, s.quote(a.Name+a.suffixes()[1]))
	}
	var terms []string
	var args []any
	for _, g := range some {
		term := s.quote(Bucket) + " = " + w.Literal(s.table, g.bucket)
		for _, c := range l.by {
			term += " AND " + s.quote(c.Name) + " = ?"
		}
		terms, args = append(terms, "("+term+")"), append(args, g.values()...)
	}
	q := fmt.Sprintf("SELECT %s FROM %s WHERE %s", strings.Join(cols, ", "), k.st.table.Name, strings.Join(terms, " OR "))
	return k.each(ctx, x, q, args, func(g group, values []sql.RawBytes) error {
		of := k.found[g]
		for i, v := range values {
			if v == nil || of == nil {
				continue
			}
			if err := of[i].merge(v); err != nil {
				return fmt.Errorf("%s: %w", k.aggs[i].Name, err)
			}
		}
		return nil
	})
}

// A checker takes the place of the library's store when a stored sketch is decoded. It keeps no
// bins, and only checks them: the library ignores errors within bins, and if a damaged sketch has a
// bin with a huge number, the library allocates memory for all bins up to it.
type checker struct {
	store.Store     // nil: decoding calls only the methods below
	lowest, highest int
	err             error
}

// checkPercentile returns an error for a stored DDSketch that is truncated or has impossible bins.
func checkPercentile(blob []byte, m mapping.IndexMapping) error {
	c := &checker{lowest: m.Index(m.MinIndexableValue()), highest: m.Index(m.MaxIndexableValue())}
	s, err := ddsketch.DecodeDDSketch(blob, func() store.Store { return c }, m)
	if err == nil && !(s.GetZeroCount() >= 0 && s.GetZeroCount() <= math.MaxInt64) {
		err = fmt.Errorf("a count of %v", s.GetZeroCount())
	}
	return cmp.Or(c.err, err)
}

func (c *checker) Add(index int) { c.AddWithCount(index, 1) }

func (c *checker) AddWithCount(index int, count float64) {
	if index < c.lowest || index > c.highest || !(count >= 0 && count <= math.MaxInt64) {
		c.err = fmt.Errorf("bin %d with a count of %v", index, count)
	}
}

func (c *checker) DecodeAndMergeWith(b *[]byte, bins encoding.SubFlag) error {
	if err := store.DecodeAndMergeWith(c, b, bins); err != nil {
		c.err = err
	}
	return c.err
}
