// Package draw makes the random values of rows. Every value is a hash of (seed, writer, sequence
// number, draw), so that any row can be computed again, by itself and in any order. The hash is the
// finalizer of SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators",
// OOPSLA 2014), which passes BigCrush if its input is a counter.
//
//	r := draw.NewStream(seed, 0).Row(17) // row 17 of writer 0
//	price := r.Between(1, 100)
package draw

import (
	"encoding/binary"
	"math/bits"
)

// Golden is 2^64 / golden ratio, the step of the counter.
const Golden = 0x9e3779b97f4a7c15

const (
	writerStep  = 0xd1b54a32d192ed03 // odd, unrelated to golden
	uniformBits = 53                 // of a float64's mantissa
)

// Mix returns a hash of x.
func Mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// A Stream is the random source of one writer.
type Stream uint64

// NewStream returns the stream of a writer, counted from 0; the stream of -1 is no writer's.
func NewStream(seed uint64, writer int) Stream {
	return Stream(Mix(seed+Golden) ^ Mix(uint64(writer+1)*writerStep))
}

// Row returns the values of a row, before the first draw.
func (s Stream) Row(seq int64) Values { return Values(Mix(uint64(s) + uint64(seq)*Golden)) }

// Values are the random values of one row: the n-th value is a hash of n.
type Values uint64

// Next returns a uniform number.
func (d *Values) Next() uint64 {
	*d += Golden
	return Mix(uint64(*d))
}

// Below returns a uniform integer in [0, n). The bias is less than n / 2^64.
func (d *Values) Below(n uint64) int64 {
	hi, _ := bits.Mul64(d.Next(), n)
	return int64(hi)
}

// Float returns a uniform float64 in [0, 1).
func (d *Values) Float() float64 {
	return float64(d.Next()>>(64-uniformBits)) / (1 << uniformBits)
}

// Between returns a uniform integer in [least, most].
func (d *Values) Between(least, most int64) int64 { return least + d.Below(uint64(most-least+1)) }

// Shuffle puts numbers into a random order.
func (d *Values) Shuffle(numbers []int64) {
	for i := range numbers {
		k := d.Below(uint64(i + 1))
		numbers[i], numbers[k] = numbers[k], numbers[i]
	}
}

// Shuffled returns the place of i in a random order of the numbers below n. key chooses the order.
// Each round permutes the numbers below the next power of two; a result of n or more is permuted
// again.
func Shuffled(i, n, key uint64) uint64 {
	size := bits.Len64(n - 1)
	mask, half := uint64(1)<<size-1, (size+1)/2
	for {
		for k := key; k != key+3; k++ {
			i = (i*(Mix(k)|1) + key) & mask
			i ^= i >> half
		}
		if i < n {
			return i
		}
	}
}

// textAlphabet contains the characters of random text: printable, none that needs escaping.
const textAlphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"

// AppendLetters appends n random characters, ten of each draw; none if n is negative.
func AppendLetters(dst []byte, d *Values, n int) []byte {
	for ; n > 0; n -= 10 {
		r := d.Next()
		for range min(n, 10) {
			dst = append(dst, textAlphabet[r%64])
			r >>= 6
		}
	}
	return dst
}

// AppendGroups appends groups of 11 random digits, joined by dashes.
func AppendGroups(dst []byte, d *Values, groups int) []byte {
	for g := range groups {
		if g > 0 {
			dst = append(dst, '-')
		}
		v := uint64(d.Below(1e11))
		high, low := v/1e8, v%1e8
		dst = append(dst, byte('0'+high/100), byte('0'+high/10%10), byte('0'+high%10))
		dst = binary.LittleEndian.AppendUint64(dst, digits8(low))
	}
	return dst
}

// digits8 returns the 8 decimal digits of v < 10^8 as text, the first in the lowest byte. It splits
// all digits at once within one word: halves into hundreds by multiplying with 2^20/100, hundreds
// into digits with 2^10/10, which is exact in these ranges. It makes sbtest several times as fast
// as division by ten would.
func digits8(v uint64) uint64 {
	v = v/10000 | v%10000<<32
	q := v * 10486 >> 20 & 0x0000007f0000007f
	v = q | (v-q*100)<<16
	q = v * 103 >> 10 & 0x000f000f000f000f
	v = q | (v-q*10)<<8
	return v | 0x3030303030303030
}
