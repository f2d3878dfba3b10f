package draw

import (
	"math"
	"math/bits"
	"sort"
)

// A Source chooses the number of a column's value for each row. With Ranks, the value is one of a
// fixed set. Without Ranks, it is one of the newest keys: keys are counted up as rows are added.
type Source struct {
	Ranks *Ranks // nil: keys that are counted up
	// Share is the share of rows that bring a new key. Each row has one of the Last newest keys;
	// with Last 0 or 1 it has the newest key.
	Share float64
	Last  uint64
	// tick is the number of successive rows whose numbers must differ; 0 means that none must. The
	// draws are divided into cells, each at least as large as the range of draws that gives the most
	// frequent value, and the rows of a tick get draws from different cells.
	tick  int64
	cells uint64
}

// roundedShares makes a limit on shares a little stricter, because shares are rounded.
const roundedShares = 1 - 1e-3

// Apart returns a source in which the rows of a tick have different numbers: rows 0 to tick-1, rows
// tick to 2*tick-1, and so on. It requires that no value has more than 1/tick of the rows.
func (c Source) Apart(tick int64) Source {
	largest := 1 / float64(max(c.Last, 1)) // share of the most frequent value
	if c.Ranks != nil {
		largest = c.Ranks.largest
	}
	c.tick, c.cells = tick, max(uint64(tick), uint64(roundedShares/largest))
	return c
}

// Number returns the number of the value of a row; u is uniform in [0, 2^64).
func (c *Source) Number(s Stream, seq int64, u uint64) uint64 {
	if c.tick > 0 {
		d, width := s.Row(-1-seq/c.tick), math.MaxUint64/c.cells
		u = Shuffled(uint64(seq%c.tick), c.cells, d.Next())*width + uint64(d.Below(width))
	}
	if c.Ranks != nil {
		return c.Ranks.number(u)
	}
	if c.tick > 0 { // all rows of a tick count back from the same newest key
		seq -= seq % c.tick
	}
	n := uint64(float64(seq) * c.Share)
	if c.Last <= 1 {
		return n
	}
	back, _ := bits.Mul64(u, c.Last)
	return n + c.Last - 1 - back
}

// Ranks assigns a number to each of the distinct values. Frequent values have low ranks, but their
// numbers are spread over all numbers.
type Ranks struct {
	parts    []part
	distinct uint64
	spread   uint64  // coprime to distinct; 1 unless frequencies differ
	largest  float64 // share of the most frequent value
}

// A part is a range of equally frequent ranks, and the range of draws in [0, 1) that choose them.
type part struct {
	first, count uint64
	from, share  float64
}

func (r *Ranks) number(u uint64) uint64 {
	x := float64(u) * 0x1p-64
	p := &r.parts[sort.Search(len(r.parts)-1, func(i int) bool { return x < r.parts[i+1].from })]
	n := p.first + min(uint64((x-p.from)/p.share*float64(p.count)), p.count-1)
	if r.spread == 1 {
		return n
	}
	return TimesModulo(n, r.spread, r.distinct)
}

// TimesModulo returns n * by modulo modulus.
func TimesModulo(n, by, modulus uint64) uint64 {
	hi, lo := bits.Mul64(n, by)
	return bits.Rem64(hi, lo, modulus)
}

// NewRanks returns ranks of distinct values. heavy has the shares of the rows that the first values
// get; with skew, the shares follow a Zipf distribution instead. The other rows are divided evenly
// among the other values. With a tick, no value gets two rows of a tick: the next values get the
// excess. The result is nil if the rows of a tick can't all differ.
func NewRanks(distinct int64, heavy []float64, skew float64, tick int64) *Ranks {
	r := &Ranks{distinct: uint64(distinct), spread: 1}
	left, from, over, most := distinct, 0.0, 0.0, 1.0
	if tick > 0 {
		most = roundedShares / float64(tick)
	}
	add := func(count int64, share float64) {
		share += over
		over = max(share-most*float64(count), 0)
		if share -= over; share > 0 {
			r.parts = append(r.parts, part{uint64(distinct - left), uint64(count), from, share})
			r.largest = max(r.largest, share/float64(count))
		}
		left, from = left-count, from+share
	}
	for _, share := range heavy[:min(int64(len(heavy)), distinct-1)] {
		add(1, share)
	}
	for at := int64(1); skew > 0 && left > 1; { // singly first, then ranges that grow by a quarter
		count := min(max(1, at/4), left-1)
		add(count, zipf(at, at+count, skew)/zipf(1, distinct+1, skew))
		at += count
	}
	if add(left, max(1-from-over, 0)); over > 1e-9 {
		return nil
	}
	if len(r.parts) > 1 {
		r.spread = uint64(Coprime(distinct))
	}
	return r
}

// zipf is the integral of x^-skew, which stands for the sum.
func zipf(from, to int64, skew float64) float64 {
	if skew == 1 {
		return math.Log(float64(to) / float64(from))
	}
	return (math.Pow(float64(to), 1-skew) - math.Pow(float64(from), 1-skew)) / (1 - skew)
}

// Coprime returns a step with which a walk visits all n values, in an order that
// is not favorable to an index.
func Coprime(n int64) int64 {
	if n <= 2 {
		return 1
	}
	// The golden ratio spreads the steps most evenly.
	for step := int64(float64(n)*0.618033988749895) | 1; ; step++ {
		if gcd(step, n) == 1 {
			return step
		}
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
