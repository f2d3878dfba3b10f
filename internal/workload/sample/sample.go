// Package sample learns how the values of a table are distributed, from its server's statistics and
// from a sample of its rows: how many different values a column has, how frequent, long and large
// they are, and in which order they come. It keeps no value of the table.
//
//	learned, err := sample.Learn(ctx, d, db, "orders") // completes d.Values
package sample

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/internal/workload/column"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/rolling"
)

// A sample has at most this share of a table's pages, and about so many rows at most and at least.
const (
	sampledShare = 0.01
	mostSampled  = 20_000
	leastSampled = 100
)

// Thresholds for conclusions from a sample.
const (
	ascends      = 0.9    // share of distant pairs in order: above it, a column follows the time
	recurs       = 4      // values recur if near rows have the same one so many times as often as distant rows
	leastNear    = 20_000 // pairs of near rows, to say how often near rows have the same value
	leastMatches = 30     // near pairs with the same value, needed as well
	sureMatches  = 100    // distant pairs with the same value: with fewer, the server's number of values is better
	skewed       = 3      // if the server's number of values is so many times the sample's, the server's is better
	leastPairs   = 100    // pairs at some distance, to say something of that distance
	leastCount   = 10     // a frequent value is in at least so many rows of the sample
	leastHeavy   = 0.01   // a frequent value has at least this share of the rows
	usualTimes   = 3      // a frequent value is so many times as frequent as the mean
	fewValues    = 20     // up to so many values, all count as frequent
	mostHeavy    = 100
	allDifferent = 0.9 // share of different values: above it, all are taken to differ
)

// Learned says from what a table's values were learned.
type Learned struct {
	*engine.TableSample
	Sampled int64    // rows
	Without []string // columns of which nothing was learned
}

// Learn completes the declaration's [values] from the table of the given name in db. A column that
// the declaration already describes is left as it is.
func Learn(ctx context.Context, d *rolling.Declaration, db engine.TableSampler, name string) (learned Learned, err error) {
	fail := func(err error) (Learned, error) {
		switch {
		case errors.Is(err, engine.ErrNoTable):
			err = engine.Hinted(err, "--sample-table NAME")
		case errors.Is(err, engine.ErrDenied):
			err = engine.Hinted(err, "a user with the privilege SELECT on it")
		}
		return learned, fmt.Errorf("sample table %s: %w", name, err)
	}
	s, err := db.Describe(ctx, name)
	if err != nil {
		return fail(err)
	}
	by := s.Find(d.Time)
	if by == nil {
		return fail(engine.Hinted(fmt.Errorf("it has no column %s, by which %s rolls", d.Time, d.Source), "--sample-table NAME"))
	}
	columns := []*learner{{SchemaColumn: by}}
	for _, c := range d.Definition.Columns {
		switch of := s.Find(c.Name); {
		case c.Name == d.Time, c.Generated:
		case of == nil || of.Array || of.Virtual:
			learned.Without = append(learned.Without, c.Name)
		default:
			columns = append(columns, &learner{SchemaColumn: of, declared: c.Name})
		}
	}
	var list []string
	for _, c := range columns {
		list = append(list, db.Words().AsText(*c.SchemaColumn))
	}
	l := &learning{}
	seen := map[uint64]bool{}
	l.TableSample, err = db.SampleTable(ctx, s, list, engine.Sampling{Share: sampledShare, Rows: mostSampled}, func(block int, row []sql.NullString) {
		learned.Sampled++
		whole := hashOf(row...)
		if seen[whole] || !row[0].Valid { // the sampled ranges may overlap
			return
		}
		seen[whole] = true
		l.blocks = append(l.blocks, block)
		for i, c := range columns {
			c.add(row[i])
		}
	})
	if err != nil {
		return fail(err)
	}
	if learned.TableSample = l.TableSample; len(l.blocks) < leastSampled {
		return fail(engine.Hinted(fmt.Errorf("%g%% of its pages have %d different rows: too few to learn from", 100*sampledShare, len(l.blocks)), "a larger table, or [values] by hand"))
	}
	l.place(columns, d.Period.Axis())
	if d.Values.RowsPerSecond == 0 {
		d.Values.RowsPerSecond = l.rate(columns)
	}
	for _, c := range columns[1:] {
		if d.Values.Of(c.declared).Column == "" {
			d.Values.Columns = append(d.Values.Columns, l.learn(c))
		}
	}
	return learned, nil
}

// hashOf returns a hash of texts and NULLs.
func hashOf(row ...sql.NullString) uint64 {
	h := fnv.New64a()
	for _, v := range row {
		fmt.Fprintf(h, "%t%q", v.Valid, v.String)
	}
	return draw.Mix(h.Sum64())
}

// A learner keeps what is needed of the values in one column of a sample: hashes, and numbers by
// which values are compared.
type learner struct {
	*engine.SchemaColumn
	declared string
	hashes   []uint64
	numbers  []float64 // NaN for NULL
	null     float64
	lengths  [2]float64 // sums of lengths and of their squares
	most     float64    // of absolute numbers
	negative bool
}

func (c *learner) add(v sql.NullString) {
	c.hashes = append(c.hashes, hashOf(v))
	if !v.Valid {
		c.null++
		c.numbers = append(c.numbers, math.NaN())
		return
	}
	number := 0.0
	f, err := strconv.ParseFloat(v.String, 64)
	at, _, failed := value.ParseTime([]byte(v.String), nil)
	switch {
	case c.Kind == value.Time && failed == nil:
		number = float64(at)
	case c.Numeric() && err == nil:
		number = f
		c.most, c.negative = max(c.most, math.Abs(f)), c.negative || f < 0
	default: // the first bytes of a text
		for i := range 8 {
			number *= 256
			if i < len(v.String) {
				number += float64(v.String[i])
			}
		}
	}
	c.numbers = append(c.numbers, number)
	length := float64(len(v.String))
	if c.Kind == value.Bytes {
		length /= 2 // hexadecimal digits
	}
	c.lengths[0], c.lengths[1] = c.lengths[0]+length, c.lengths[1]+length*length
}

// A learning compares the rows of a sample in pairs.
type learning struct {
	*engine.TableSample
	blocks []int
	at     []float64 // the place of each row among all of the table's, by its time
	order  []int     // the rows by place
	// apart means that the rows of a block are neighbors by a key that doesn't follow the time. A
	// value that the rows of a block share then says nothing about rows of the same time.
	apart bool
	// The table also covers some time before the first block and after the last one. beyond is this
	// time, of both sides together, as a share of the time from the first block to the last: on each
	// side it is half of the time between two blocks.
	beyond float64
}

// place computes each row's place among all of the table's rows, in the order of the time column.
// It assumes that times advance evenly from row to row.
func (l *learning) place(columns []*learner, axis rolling.Axis) {
	by := columns[0].numbers
	l.order, l.at = make([]int, len(by)), slices.Clone(by)
	for i := range by {
		l.order[i] = i
	}
	slices.SortStableFunc(l.order, func(a, b int) int { return cmp.Compare(l.at[a], l.at[b]) })
	for _, c := range columns {
		if c.Name == l.Key {
			l.apart = l.follows(c).share() < ascends
		}
	}
	least := by[l.order[0]]
	span := max(by[l.order[len(by)-1]]-least, 1)
	if n := float64(len(groups(l.order, l.block))); !l.apart && n > 1 {
		l.beyond = 1 / (n - 1)
	}
	span *= 1 + l.beyond
	if axis == rolling.Sequence && span < 2*float64(l.Rows) {
		l.Rows = int64(span) // few numbers are missing
	}
	for i, x := range by {
		l.at[i] = (x - least) / span * float64(l.Rows)
	}
}

func (l *learning) block(row int) int { return l.blocks[row] }

// rate returns the table's rows per second; 0 is unknown. It derives them from the first column of
// times that ascend in the order of the time column.
func (l *learning) rate(columns []*learner) float64 {
	for _, c := range columns {
		if c.Kind != value.Time || c.Logical == value.Date || c.null > 0 || l.follows(c).share() < ascends {
			continue
		}
		if span := (slices.Max(c.numbers) - slices.Min(c.numbers)) / 1e6 * (1 + l.beyond); span > 0 {
			return min(max(float64(l.Rows)/span, 0.001), 1e9)
		}
	}
	return 0
}

// byDistance counts pairs of rows by the magnitude of their distance in rows: element i counts
// distances from 2^(i-1) to 2^i.
type byDistance [64]float64

func magnitude(distance float64) int { return bits.Len64(uint64(math.Round(distance))) }

// count adds the pairs of rows, times sign. The rows are in the order of their places.
func (d *byDistance) count(at []float64, rows []int, sign float64) {
	all, before := float64(len(rows))*float64(len(rows)-1)/2, 0.0
	for i := range d {
		if before == all {
			return
		}
		n, b, end := 0.0, 0, math.Exp2(float64(i))-0.5
		for a := range rows {
			for b < len(rows) && at[rows[b]]-at[rows[a]] < end {
				b++
			}
			n += float64(b - a - 1)
		}
		d[i], before = d[i]+sign*(n-before), n
	}
}

// groups divides rows by a key.
func groups[K comparable](rows []int, key func(row int) K) map[K][]int {
	out := map[K][]int{}
	for _, i := range rows {
		out[key(i)] = append(out[key(i)], i)
	}
	return out
}

// pairs counts the pairs of rows with a value, and the pairs whose two values are the same.
func (l *learning) pairs(c *learner) (all, same byDistance) {
	count := func(d *byDistance, rows []int) {
		d.count(l.at, rows, 1)
		for _, within := range groups(rows, l.block) {
			if l.apart {
				d.count(l.at, within, -1)
			}
		}
	}
	there := slices.DeleteFunc(slices.Clone(l.order), func(i int) bool { return math.IsNaN(c.numbers[i]) })
	count(&all, there)
	for _, rows := range groups(there, func(i int) uint64 { return c.hashes[i] }) {
		if len(rows) > 1 {
			count(&same, rows)
		}
	}
	return all, same
}

// A following counts pairs of rows that have different values in a column. pairs counts all of
// them; turned counts those in which the later row has the lower value.
type following struct {
	pairs, turned byDistance
	span          float64 // the greatest distance
}

// follows compares rows that are 1, 2, 4 and so on apart in the sample.
func (l *learning) follows(c *learner) (f following) {
	f.span = l.at[l.order[len(l.order)-1]] - l.at[l.order[0]]
	for lag := 1; lag < len(l.order); lag *= 2 {
		for i, b := range l.order[lag:] {
			a := l.order[i]
			distance := l.at[b] - l.at[a]
			if !(c.numbers[a] != c.numbers[b]) || math.IsNaN(c.numbers[a]+c.numbers[b]) || distance == 0 {
				continue
			}
			f.pairs[magnitude(distance)]++
			if c.numbers[b] < c.numbers[a] {
				f.turned[magnitude(distance)]++
			}
		}
	}
	return f
}

// share returns the share of distant pairs that have the order of their times.
func (f following) share() float64 {
	n, turned := 0.0, 0.0
	for i := max(magnitude(f.span)-2, 0); i < len(f.pairs); i++ {
		n, turned = n+f.pairs[i], turned+f.turned[i]
	}
	if n < leastPairs {
		return 0
	}
	return 1 - turned/n
}

// learn returns the description of a column.
func (l *learning) learn(c *learner) rolling.ColumnValues {
	v := rolling.ColumnValues{Column: c.declared}
	rows := float64(len(c.hashes))
	if c.Null {
		v.Null = c.null / rows
	}
	if rows == c.null {
		return v
	}
	listed := c.Logical == value.Enum || c.Logical == value.Set
	switch {
	case listed || c.Logical == value.Bool:
	case c.Kind == value.Text, c.Kind == value.Bytes && c.Logical == value.Plain, c.Logical == value.JSON:
		// The range of an even distribution of the same mean and deviation.
		mean := c.lengths[0] / (rows - c.null)
		half := math.Sqrt(max(c.lengths[1]/(rows-c.null)-mean*mean, 0) * 3)
		v.Length = [2]int{int(max(math.Round(mean-half), 0)), int(max(math.Round(mean+half), 1))}
		if c.Length > 0 {
			v.Length[1] = min(v.Length[1], c.Length)
		}
	case c.Numeric() && c.Logical != value.Year && c.Kind != value.Float:
		// From 0 (or -To, if some are negative) to 2^n - 1 or the greatest number of the type.
		_, _, most, _ := column.NumberOf(c.Type)
		v.HasRange, v.To = true, min(math.Exp2(math.Ceil(math.Log2(c.most+1)))-1, most)
		if c.negative {
			v.From = -v.To
		}
	}
	all, same := l.pairs(c)
	near, far, distant := l.rates(&all, &same)
	f := l.follows(c)
	switch {
	case listed:
		v.Heavy = l.heavy(c)
		v.Heavy = v.Heavy[:min(len(v.Heavy), len(c.Members))]
	case c.Kind != value.Float && f.share() > ascends:
		v.Order, v.HasRange, v.From, v.To = rolling.OrderAscending, false, 0, 0
		for i, n := range f.pairs {
			if n >= leastPairs && f.turned[i]/n > 0.125 {
				v.Window = int64(2 * math.Exp2(float64(i)))
			}
		}
		if share := l.Columns[c.Name].Distinct / float64(l.Rows); c.Kind != value.Time && share > 0 && share < allDifferent {
			v.New = min(max(share, 1e-6), 1)
		}
	case near > recurs*far:
		v.Order, v.HasRange, v.From, v.To = rolling.OrderRecent, false, 0, 0
		again := again(&all, &same, near, far)
		v.Window = int64(max(2*again/near, 1))
		v.New = min(max(1/(2*again), 1e-6), 1)
	default:
		v.Order = rolling.OrderRandom
		l.distinct(c, far, distant, &v)
	}
	return v
}

// rates compares pairs of rows by whether their values are the same. near is the share of such
// pairs among the rows that are nearest in time; 0 if these have fewer than leastMatches such
// pairs. far is that share among the rows at least a quarter of the table apart, and distant the
// number of their pairs with the same value.
func (l *learning) rates(all, same *byDistance) (near, far, distant float64) {
	n, matches, others := 0.0, 0.0, 0.0
	for i := range all {
		switch {
		case i > magnitude(float64(l.Rows))-2:
			others, distant = others+all[i], distant+same[i]
		case n < leastNear || matches < leastMatches:
			n, matches = n+all[i], matches+same[i]
		}
	}
	if others > 0 {
		far = max(distant, 1) / others
	}
	if matches >= leastMatches {
		near = matches / n
	}
	return near, far, distant
}

// again estimates how many later rows have the same key as a given row, without the rows that have
// it by chance. The estimate is a sum over all distances between two rows. For a distance with too
// few pairs of rows in the sample, again takes the rate of the nearest distance with enough pairs.
func again(all, same *byDistance, near, far float64) (sum float64) {
	rate := func(i int) float64 {
		for by := range len(all) {
			for _, j := range []int{i - by, i + by} {
				if j >= 0 && j < len(all) && all[j] >= leastPairs && all[j]*near >= leastCount {
					return same[j] / all[j]
				}
			}
		}
		return 0
	}
	for i := range 62 {
		r := rate(i)
		if r < near/8 {
			break
		}
		sum += (min(r, near) - far) * math.Exp2(float64(max(i-1, 0)))
	}
	return max(sum, 0.5)
}

// heavy returns the share of rows that each frequent value of a column has, the greatest share
// first: from the server's statistics or, if they list no frequent values, from the sample.
func (l *learning) heavy(c *learner) (out []float64) {
	counts := groups(l.order, func(i int) uint64 { return c.hashes[i] })
	there, values, shares := 1-c.null/float64(len(c.hashes)), float64(len(counts)), l.Columns[c.Name].Heavy
	if len(shares) > 0 {
		values = max(values, l.Columns[c.Name].Distinct)
	} else if !l.apart || c.Name != l.Key { // blocks are by l.Key: the sample has all rows of a value, or none
		for _, rows := range counts {
			if len(rows) >= leastCount && !math.IsNaN(c.numbers[rows[0]]) {
				shares = append(shares, float64(len(rows))/float64(len(l.order)))
			}
		}
	}
	sum := 0.0
	for _, share := range shares {
		sum += share
	}
	for _, share := range shares {
		share = math.Floor(share/max(there, sum)*1e4) / 1e4 // rounded down, the shares are at most 1 together
		if values <= fewValues || share >= max(usualTimes/values, leastHeavy) {
			out = append(out, share)
		}
	}
	slices.SortFunc(out, func(a, b float64) int { return cmp.Compare(b, a) })
	return out[:min(len(out), mostHeavy)]
}

// distinct is for a column whose values recur independently of time: it learns how many different
// values the column has. It computes this number from how often distant rows have the same value,
// or takes it from the server's statistics.
func (l *learning) distinct(c *learner, far, matches float64, v *rolling.ColumnValues) {
	v.Heavy = l.heavy(c)
	sum, squares := 0.0, 0.0
	for _, h := range v.Heavy {
		sum, squares = sum+h, squares+h*h
	}
	known := l.Columns[c.Name].Distinct
	if known > 0 {
		known = drawnFrom(known, float64(l.Rows)*(1-c.null/float64(len(c.hashes))))
	}
	distinct := float64(column.MostDistinct)
	if far > squares && matches > 0 {
		distinct = float64(len(v.Heavy)) + (1-sum)*(1-sum)/(far-squares)
	}
	if known > 0 && (matches < sureMatches || known > skewed*distinct) {
		distinct = known
	}
	seen := float64(len(groups(l.order, func(i int) uint64 { return c.hashes[i] })))
	if c.null > 0 {
		seen--
	}
	if sum > 0.99 && seen <= float64(len(v.Heavy)) {
		distinct = float64(len(v.Heavy))
	}
	distinct = min(max(distinct, seen), column.MostDistinct)
	if v.HasRange { // the range may have fewer numbers
		distinct = min(distinct, (v.To-v.From)*math.Pow10(c.Scale)+1)
	}
	v.Distinct = int64(distinct)
	v.Heavy = v.Heavy[:min(int64(len(v.Heavy)), v.Distinct)]
}

// drawnFrom estimates from how many values the values of rows were drawn at random. rows is the
// number of rows, and seen is how many different values they have.
func drawnFrom(seen, rows float64) float64 {
	if seen > allDifferent*rows {
		return column.MostDistinct
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
