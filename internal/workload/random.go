package workload

import "math/bits"

// Rows are drawn from a counter-based generator: every value is a hash of (seed,
// writer, sequence, draw), so any row can be recomputed independently and in any
// order. The hash is the finalizer of SplitMix64 (Steele, Lea, Flood: "Fast
// Splittable Pseudorandom Number Generators", OOPSLA 2014), which passes
// BigCrush if its input is a counter.

const (
	golden      = 0x9e3779b97f4a7c15 // 2^64 / golden ratio, the counter's step
	writerStep  = 0xd1b54a32d192ed03 // odd, unrelated to golden
	uniformBits = 53                 // of a float64's mantissa
)

func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// A stream is the random source of one writer.
type stream uint64

func newStream(seed uint64, writer int) stream {
	return stream(mix(seed+golden) ^ mix(uint64(writer+1)*writerStep))
}

// row returns the random source of the row with a sequence number.
func (s stream) row(seq int64) draws { return draws(mix(uint64(s) + uint64(seq)*golden)) }

// draws are the random values of one row: the n-th value is a hash of n.
type draws uint64

// next returns 64 random bits and advances.
func (d *draws) next() uint64 {
	*d += golden
	return mix(uint64(*d))
}

// below returns a uniform integer in [0, n). The bias is less than n / 2^64.
func (d *draws) below(n uint64) int64 {
	hi, _ := bits.Mul64(d.next(), n)
	return int64(hi)
}

// float returns a uniform float64 in [0, 1).
func (d *draws) float() float64 {
	return float64(d.next()>>(64-uniformBits)) / (1 << uniformBits)
}
