package workload

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// Learning the values of a table from what its server knows, and from a sample of its rows. What is
// kept of them are numbers of values, frequencies, lengths, magnitudes and orders, and no value.

// sampleLimit is the share of a table's pages that are sampled at most.
const sampleLimit = 0.01

const (
	mostSampled  = 20_000 // rows to compare
	leastSampled = 100
	allDifferent = 0.9    // of the rows, above which values are taken to be all different
	ascends      = 0.9    // of pairs, from which a column is taken to follow the time
	recurs       = 4      // times as often as by chance, from which near rows share keys
	leastMatches = 30     // of pairs, for a conclusion
	leastNear    = 20_000 // pairs of near rows, to say how often they share a key
	leastCount   = 10     // of a frequent value in a sample
	fewValues    = 20     // of which each has its own frequency
	leastHeavy   = 0.01   // of the rows, from which a value of a sample counts as frequent
	pairsDrawn   = 400_000
)

// Learned says what was read to learn a table's values.
type Learned struct {
	Rows, Sampled int64
	Blocks        int
	Pages         int64
}

// A learner has one column of a sample. Values are kept as hashes and as ranks only.
type learner struct {
	column  *engine.SchemaColumn
	hashes  []uint64
	numbers []float64 // by which values are compared
	null    int
	sum     float64 // of lengths, and of their squares
	squares float64
	most    float64 // of absolute numbers
	least   float64
}

// Learn completes the declaration's values from the table of that name in db. The declaration's own
// descriptions are replaced.
func (o *Own) Learn(ctx context.Context, db engine.Profiler, name string) (learned Learned, err error) {
	fail := func(err error) (Learned, error) { return learned, fmt.Errorf("sample table %s: %w", name, err) }
	s, err := db.Describe(ctx, name)
	if err != nil {
		return fail(err)
	}
	by := s.Find(o.Time)
	if by == nil {
		return fail(engine.Hinted(fmt.Errorf("it has no column %s, by which %s rolls", o.Time, o.Source), "--sample-table NAME"))
	}
	p, err := db.Profile(ctx, s)
	if err != nil {
		return fail(err)
	}
	columns := []*learner{{column: by}}
	for _, c := range o.Definition.Columns {
		if of := s.Find(c.Name); of != nil && of != by && !of.Generated && !of.Array {
			columns = append(columns, &learner{column: of})
		}
	}
	var list []string
	for _, c := range columns {
		list = append(list, db.Words().AsText(*c.column))
	}
	blocks, rows := map[int]bool{}, map[uint64]bool{}
	err = db.SampleRows(ctx, s, p, list, sampleLimit, func(block int, row []sql.NullString) {
		blocks[block] = true
		learned.Sampled++
		whole := hashOf(row...)
		if len(columns[0].hashes) == mostSampled || rows[whole] { // ranges may overlap
			return
		}
		rows[whole] = true
		for i, c := range columns {
			c.add(row[i])
		}
	})
	if err != nil {
		return fail(err)
	}
	n := len(columns[0].hashes)
	learned.Rows, learned.Blocks, learned.Pages = p.Rows, len(blocks), p.Pages
	if n < leastSampled {
		return fail(engine.Hinted(fmt.Errorf("%d rows are on %g%% of its pages: too few to learn from", n, 100*sampleLimit), "a larger table, or [values] by hand"))
	}
	l := &learning{own: o, profile: p, order: make([]int, n), axis: o.Period.Axis()}
	l.place(columns[0])
	o.Values = rolling.Values{RowsPerSecond: l.rate(columns)}
	for _, c := range columns[1:] {
		o.Values.Columns = append(o.Values.Columns, l.learn(c))
	}
	return learned, nil
}

func hashOf(row ...sql.NullString) uint64 {
	h := fnv.New64a()
	for _, v := range row {
		_, _ = h.Write(append([]byte(v.String), 0)) // never fails
	}
	return mix(h.Sum64())
}

func (c *learner) add(v sql.NullString) {
	if !v.Valid {
		c.null++
	}
	hash := hashOf(v)
	if !v.Valid {
		hash = mix(uint64(len(c.hashes)) ^ nullDraw) // NULLs are not equal
	}
	c.hashes = append(c.hashes, hash)
	number := math.NaN()
	switch f, err := strconv.ParseFloat(v.String, 64); {
	case !v.Valid:
	case c.column.Kind == value.Time && c.column.Logical != value.Date:
		if us, _, err := value.ParseTime([]byte(v.String), nil); err == nil {
			number = float64(us)
		}
	case c.column.Numeric() && err == nil:
		number = f
		c.most, c.least = max(c.most, math.Abs(f)), min(c.least, f)
	default:
		number = 0
		for i := range 8 {
			number *= 256
			if i < len(v.String) {
				number += float64(v.String[i])
			}
		}
	}
	c.numbers = append(c.numbers, number)
	length := float64(len(v.String))
	if c.column.Kind == value.Bytes {
		length /= 2 // hexadecimal digits
	}
	if v.Valid {
		c.sum, c.squares = c.sum+length, c.squares+length*length
	}
}

type learning struct {
	own     *Own
	profile *engine.Profile
	axis    rolling.Axis
	at      []float64 // the place of each sampled row among all of the table's, by its time
	order   []int     // the sampled rows by place
	span    float64   // of the time column
}

// place computes where the rows lie in the order of the time column, which is taken to advance evenly.
func (l *learning) place(by *learner) {
	least, most := slices.Min(by.numbers), slices.Max(by.numbers)
	l.span = most - least
	rows := float64(l.profile.Rows)
	if l.axis == rolling.Sequence {
		rows = max(l.span, 1)
		l.profile.Rows = int64(rows)
	}
	for i, x := range by.numbers {
		l.at = append(l.at, (x-least)/max(l.span, 1)*rows)
		l.order[i] = i
	}
	slices.SortStableFunc(l.order, func(a, b int) int { return cmp.Compare(l.at[a], l.at[b]) })
}

// rate returns the rows of a second, by the time column, or by another that follows it.
func (l *learning) rate(columns []*learner) float64 {
	for _, c := range columns {
		if c.column.Kind != value.Time || c.column.Logical == value.Date || c.null > 0 || l.ascending(c) < ascends {
			continue
		}
		if span := (slices.Max(c.numbers) - slices.Min(c.numbers)) / 1e6; span > 0 {
			return min(max(float64(l.profile.Rows)/span, 0.001), 1e9)
		}
	}
	return 0
}

// pairs draws pairs of rows of different times with values, and passes the distance of the two in
// rows, a being the earlier one. Half of them are neighbors in the sample.
func (l *learning) pairs(c *learner, fn func(distance float64, a, b int)) {
	n := len(l.order)
	d := draws(1)
	for i := range pairsDrawn {
		a := int(d.below(uint64(n)))
		b := int(d.below(uint64(n)))
		if i%2 == 0 {
			b = min(a+1+int(d.below(uint64(min(n, 100)))), n-1)
		}
		if a > b {
			a, b = b, a
		}
		a, b = l.order[a], l.order[b]
		if a != b && !math.IsNaN(c.numbers[a]) && !math.IsNaN(c.numbers[b]) {
			fn(l.at[b]-l.at[a], a, b)
		}
	}
}

// ascending returns the share of pairs of distant rows whose values have the order of their times.
func (l *learning) ascending(c *learner) float64 {
	n, up := 0, 0
	l.pairs(c, func(distance float64, a, b int) {
		if distance > float64(l.profile.Rows)/4 && c.hashes[a] != c.hashes[b] {
			if n++; c.numbers[b] > c.numbers[a] {
				up++
			}
		}
	})
	if n < leastSampled {
		return 0
	}
	return float64(up) / float64(n)
}

// A profileOf counts pairs by the magnitude of their distance.
type profileOf [64]struct{ pairs, matches, turned float64 }

func (l *learning) byDistance(c *learner) (p profileOf) {
	l.pairs(c, func(distance float64, a, b int) {
		x := &p[bits.Len64(uint64(math.Round(distance)))]
		x.pairs++
		switch {
		case c.hashes[a] == c.hashes[b]:
			x.matches++
		case c.numbers[b] < c.numbers[a] && distance > 0:
			x.turned++
		}
	})
	return p
}

func (l *learning) learn(c *learner) rolling.ColumnValues {
	n, of := len(c.hashes), c.column
	v := rolling.ColumnValues{Column: l.own.Definition.Column(of.Name).Name}
	there := float64(n - c.null)
	if of.Null {
		v.Null = float64(c.null) / float64(n)
	}
	if there == 0 {
		return v
	}
	switch {
	case of.Kind == value.Text && of.Logical != value.Enum && of.Logical != value.Set, of.Kind == value.Bytes && of.Logical == value.Plain, of.Logical == value.JSON:
		// The range of an even distribution of the same mean and deviation.
		mean := c.sum / there
		half := math.Sqrt(max(c.squares/there-mean*mean, 0) * 3)
		v.Length = [2]int{int(max(math.Round(mean-half), 0)), int(max(math.Round(mean+half), 1))}
		if of.Length > 0 {
			v.Length[1] = min(v.Length[1], of.Length)
		}
	case of.Numeric() && of.Logical != value.Bool && of.Logical != value.Year && of.Kind != value.Float:
		// A power of two: the magnitude, not the greatest value.
		v.HasRange, v.To = true, math.Exp2(math.Ceil(math.Log2(c.most+1)))-1
		if c.least < 0 {
			v.From = -v.To
		}
		l.fit(&v, of)
	}
	if of.Logical == value.Enum || of.Logical == value.Set {
		v.Heavy = l.heavy(c)
		v.Heavy = v.Heavy[:min(len(v.Heavy), len(of.Members))]
		return v
	}
	p := l.byDistance(c)
	if c.column.Kind != value.Float && l.ascending(c) > ascends {
		v.Order, v.HasRange, v.From, v.To = rolling.OrderAscending, false, 0, 0
		l.ascendingKeys(c, p, &v)
		return v
	}
	near, far, matched := 0.0, 0.0, 0.0
	nearPairs, farPairs := 0.0, 0.0
	for i, x := range p {
		if math.Exp2(float64(i)) > float64(l.profile.Rows)/4 {
			far, farPairs = far+x.matches, farPairs+x.pairs
		} else if nearPairs < leastNear || near < leastMatches {
			near, nearPairs = near+x.matches, nearPairs+x.pairs
		}
		matched += x.matches
	}
	if by := max(far, 1) / max(farPairs, 1); matched >= leastMatches && near >= leastMatches && near/nearPairs > recurs*by {
		v.Order, v.HasRange, v.From, v.To = rolling.OrderRecent, false, 0, 0
		v.Window = int64(2 * halfWay(p, near/nearPairs))
		v.New = min(max(nearPairs/near/float64(v.Window), 1e-6), 1)
		return v
	}
	v.Order = rolling.OrderRandom
	l.distinct(c, far/max(farPairs, 1), far, &v)
	return v
}

// fit keeps a range within the declared type, as far as its digits say it.
func (l *learning) fit(v *rolling.ColumnValues, of *engine.SchemaColumn) {
	most := math.MaxInt64 / 2.0
	switch {
	case of.Kind == value.Int:
		most = float64(greatestInt(of.Type))
	case of.Precision > 0:
		most = math.Pow10(of.Precision-of.Scale) - 1
	}
	v.To = min(v.To, most)
	v.From = max(v.From, -v.To)
}

// ascendingKeys learns how many rows have a key of an ascending column, and within which distance.
func (l *learning) ascendingKeys(c *learner, p profileOf, v *rolling.ColumnValues) {
	turned, pairs, matches := 0.0, 0.0, 0.0
	for i, x := range p {
		if x.pairs < leastSampled {
			continue
		}
		if x.turned/x.pairs > 0.125 {
			v.Window = int64(2 * math.Exp2(float64(i)))
		}
		turned += x.turned
		if pairs < leastSampled {
			pairs, matches = pairs+x.pairs, matches+x.matches
		}
	}
	if c.column.Kind == value.Time {
		return // equal times are those of a tick
	}
	distinct := l.profile.Columns[c.column.Name].Distinct
	if share := distinct / float64(max(l.profile.Rows, 1)); distinct > 0 && share < allDifferent {
		v.New = min(max(share, 1e-6), 1)
	}
}

// halfWay returns the distance from which rows have the same key less than half as often as near
// ones: between the last distance at which they do and the first one at which they don't, of those
// with enough pairs to tell.
func halfWay(p profileOf, near float64) float64 {
	low, high := 0, len(p)-1
	for i, x := range p {
		if x.pairs*near >= leastMatches && x.matches/x.pairs >= near/2 {
			low = i
		}
	}
	for i := high; i > low; i-- {
		if p[i].pairs*near >= leastMatches {
			high = i - 1
		}
	}
	return math.Exp2(float64(low+max(high, low)) / 2)
}

// heavy returns the shares of the values that are frequent in the server's statistics, or else in the sample.
func (l *learning) heavy(c *learner) (out []float64) {
	if known := l.profile.Columns[c.column.Name].Heavy; len(known) > 0 {
		return slices.Clone(known[:min(len(known), 100)])
	}
	if c.column.Name == l.profile.Clustered {
		return nil // a sample has all rows of some of its values
	}
	counts := map[uint64]int{}
	for i, h := range c.hashes {
		if !math.IsNaN(c.numbers[i]) {
			counts[h]++
		}
	}
	usual := 3 / float64(len(counts)) // three times the share of a value if all had the same
	if len(counts) <= fewValues {
		usual = 0
	}
	for _, n := range counts {
		if share := float64(n) / float64(len(c.hashes)); share >= max(leastHeavy, usual) && n >= leastCount {
			out = append(out, share)
		}
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out[:min(len(out), 100)]
}

// distinct learns the number of values of a column that recur independently of time: from the server's
// statistics, or from how often two distant rows have the same.
func (l *learning) distinct(c *learner, match, matches float64, v *rolling.ColumnValues) {
	rows := float64(max(l.profile.Rows, 1))
	v.Heavy = l.heavy(c)
	sum, squares := 0.0, 0.0
	for _, h := range v.Heavy {
		sum, squares = sum+h, squares+h*h
	}
	seen := map[uint64]bool{}
	for i, h := range c.hashes {
		if !math.IsNaN(c.numbers[i]) {
			seen[h] = true
		}
	}
	distinct := l.profile.Columns[c.column.Name].Distinct
	switch {
	case distinct > 0:
		distinct = drawnFrom(distinct, rows)
	case c.column.Name == l.profile.Clustered:
		distinct = drawnFrom(rows*float64(len(seen))/float64(len(c.hashes)), rows)
	case matches < 3:
		distinct = mostDistinct
	case match > squares:
		distinct = float64(len(v.Heavy)) + (1-sum)*(1-sum)/(match-squares)
	}
	v.Distinct = int64(min(max(distinct, float64(len(seen)), 1), mostDistinct))
	if sum > 0.999 && len(seen) <= len(v.Heavy) {
		v.Distinct = int64(len(v.Heavy))
	}
	if v.HasRange { // the digits may be fewer than the values
		scale := math.Pow10(c.column.Scale)
		v.Distinct = int64(min(float64(v.Distinct), (v.To-v.From)*scale+1))
	}
	if n := int64(len(v.Heavy)); n > v.Distinct {
		v.Heavy = v.Heavy[:v.Distinct]
	}
}

// drawnFrom returns of how many values some are seen when each of the rows draws one.
func drawnFrom(seen, rows float64) float64 {
	if seen > allDifferent*rows {
		return mostDistinct
	}
	low, high := seen, 100*seen
	for range 60 {
		if mid := (low + high) / 2; mid*-math.Expm1(-rows/mid) < seen {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}
