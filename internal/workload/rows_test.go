package workload

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// rowText formats row i of a batch, for comparison and messages.
func rowText(b *engine.Batch, i int) string {
	var out []byte
	for c := range b.Columns {
		out = append(b.Columns[c].AppendText(out, i), '|')
	}
	return string(out)
}

func fill(p preset, s stream, first int64, n int) *engine.Batch {
	b := engine.NewBatch(p.table.Inserted())
	p.fill(b, s, first, n)
	return b
}

// TestRowsArePure checks that a row depends only on the seed, the writer and its
// sequence number: not on its batch, or on the rows generated before.
func TestRowsArePure(t *testing.T) {
	for _, p := range presets() {
		t.Run(p.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := newStream(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 1000).Draw(t, "writer"))
				first := rapid.Int64Range(0, 1<<40).Draw(t, "first")
				n := rapid.IntRange(1, 2500).Draw(t, "rows")
				whole := fill(p, s, first, n)
				if whole.Rows() != n {
					t.Fatalf("%d rows, want %d", whole.Rows(), n)
				}
				for c, v := range whole.Columns {
					if len(v.Ints)+len(v.Floats)+len(v.Ends) != n {
						t.Fatalf("column %d has another number of values than rows", c)
					}
				}
				// In other pieces, in any order, into a used batch.
				used := fill(p, s, 12345, 7)
				for range 20 {
					from := rapid.IntRange(0, n-1).Draw(t, "from")
					size := rapid.IntRange(1, n-from).Draw(t, "size")
					used.Reset()
					p.fill(used, s, first+int64(from), size)
					i := rapid.IntRange(0, size-1).Draw(t, "row")
					if got, want := rowText(used, i), rowText(whole, from+i); got != want {
						t.Fatalf("row %d: %s in one batch, %s in another", first+int64(from+i), want, got)
					}
				}
			})
		})
	}
}

// TestRowsStay checks that the rows of a seed are those of earlier versions;
// otherwise their records and tables are not comparable. A difference here is a
// change of format.
func TestRowsStay(t *testing.T) {
	for name, want := range map[string]string{
		// The checksum of the first 100000 rows, and row 99999.
		"classic":    "451d422ef769a4a4 100000|2026-01-01 00:00:09|796|85614|3565|856.4391|",
		"ibench":     "a9105d8580a8ea68 100000|2026-01-01 00:00:09|856|79607|3565|29|aaaaaaaaaaaavVmyiJY|",
		"timeseries": "c2b410280796d8a7 1476|2026-01-01 00:01:39|856.144495902865|",
		"daily":      "93b456bb196b8105 783|661|2026-01-01 00:01:39|805077155|77988657|805078|77989|3ILWewZm68JvouApzQdL98vKNRgpnbtmwHNEWwPFURWl5NcG6tl0jhnziS|",
		"sbtest": "c731831d2c109822 8562|79607871380-35655667462-05981580051-85327590837-03226537461-" +
			"98470355385-53873530313-01900307957-55983755672-39414088105|" +
			"91033190378-60113461711-33844878126-48198365981-22801859332|",
	} {
		p, err := findPreset(name)
		ok(t, err)
		var sum engine.Sum
		b := fill(p, newStream(1, 0), 0, 100000)
		sum.Add(b, nil)
		if got := fmt.Sprintf("%016x %s", sum.Hash, rowText(b, 99999)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestStreamsDiffer(t *testing.T) {
	seen := map[uint64]string{}
	for seed := range uint64(50) {
		for writer := range 50 {
			s := newStream(seed, writer)
			for seq := range int64(4) {
				d := s.row(seq)
				v, name := d.next(), fmt.Sprintf("seed %d, writer %d, row %d", seed, writer, seq)
				if other, ok := seen[v]; ok {
					t.Fatalf("%s and %s begin with the same value", name, other)
				}
				seen[v] = name
			}
		}
	}
}

// uniform fails the test unless integers are uniform in [low, high): by the
// extremes, the mean, and a chi-square test over 100 bins. The data are
// determined by the seed, so the result is always the same.
func uniform(t *testing.T, what string, values []int64, low, high int64) {
	t.Helper()
	const bins = 100
	var counts [bins]float64
	var sum float64
	for _, v := range values {
		if v < low || v >= high {
			t.Errorf("%s: %d is not in [%d, %d)", what, v, low, high)
			return
		}
		counts[(v-low)*bins/(high-low)]++
		sum += float64(v)
	}
	n := float64(len(values))
	width := float64(high - low)
	if mean, want := sum/n, float64(low)+(width-1)/2; math.Abs(mean-want) > 4*width/math.Sqrt(12*n) {
		t.Errorf("%s: mean %v, want %v", what, mean, want)
	}
	var chi float64
	for _, c := range counts {
		chi += (c - n/bins) * (c - n/bins) / (n / bins)
	}
	if chi > 160 { // p < 0.0001 at 99 degrees of freedom
		t.Errorf("%s: chi-square %.0f over %d bins", what, chi, bins)
	}
	if spare := 10 * width / n; float64(slices.Min(values)) > float64(low)+spare || float64(slices.Max(values)) < float64(high-1)-spare {
		t.Errorf("%s: from %d to %d, want [%d, %d)", what, slices.Min(values), slices.Max(values), low, high)
	}
}

// TestRowsAreUniform checks the distribution of every random column, and the clock and
// the keys of 200,000 rows. TestRowsStay has an example of the texts.
func TestRowsAreUniform(t *testing.T) {
	const rows = 200000
	type column struct {
		at        int
		low, high int64
	}
	for _, c := range []struct {
		preset    preset
		key       int // column with the sequence number, from 1; -1: none
		clock     int // column with the time; -1: none
		perSecond int64
		uniform   []column
	}{
		{classic(), 0, 1, 10000, []column{{2, 0, 1000}, {3, 0, 100000}, {4, 0, 10000}}},
		{ibench(), 0, 1, 10000, []column{{2, 0, 1000}, {3, 0, 100000}, {4, 0, 10000}, {5, 0, 500}}},
		{timeseries(), -1, 1, 1000, []column{{0, 0, sensors}}},
		{daily(), -1, 2, 1000, []column{{3, 0, 1 << 30}, {4, 0, 1 << 30}}},
		{sbtest(), -1, -1, 0, []column{{0, 1, 10001}}},
	} {
		columns := fill(c.preset, newStream(1, 0), 0, rows).Columns
		for _, u := range c.uniform {
			uniform(t, fmt.Sprintf("%s, column %d", c.preset.name, u.at), columns[u.at].Ints, u.low, u.high)
		}
		for i := range int64(rows) {
			if c.key >= 0 && columns[c.key].Ints[i] != i+1 {
				t.Fatalf("%s: row %d has key %d", c.preset.name, i, columns[c.key].Ints[i])
			}
			if c.clock >= 0 && columns[c.clock].Ints[i] != virtualStart+i/c.perSecond*1e6 {
				t.Fatalf("%s: row %d is at %d", c.preset.name, i, columns[c.clock].Ints[i])
			}
		}
	}
	// The price of classic is (U[0,1) * 500 + customerid) / 100, as a float32.
	c := fill(classic(), newStream(1, 0), 0, rows).Columns
	random := make([]int64, rows)
	for i, price := range c[5].Floats {
		random[i] = min(max(int64((price*100-float64(c[3].Ints[i]))*100), 0), 49999) // the error of a float32 is 3
		if float64(float32(price)) != price {
			t.Fatalf("price %v is no float32", price)
		}
	}
	uniform(t, "classic, price", random, 0, 50000)
	c = fill(daily(), newStream(1, 0), 0, rows).Columns
	for i := range random {
		random[i] = c[0].Ints[i]*devicesPerCustomer + c[1].Ints[i]
	}
	uniform(t, "daily, key", random, 0, sensors)
	c = fill(timeseries(), newStream(1, 0), 0, rows).Columns
	keys := map[[2]int64]bool{}
	for i, v := range c[2].Floats {
		random[i] = int64(v * 1000)
		keys[[2]int64{c[0].Ints[i], c[1].Ints[i]}] = true
	}
	uniform(t, "timeseries, value * 1000", random, 0, 1e6)
	if len(keys) != rows {
		t.Errorf("timeseries: %d different keys of %d rows", len(keys), rows)
	}
}

func TestDigits(t *testing.T) {
	var got [8]byte
	for half := range uint64(10000) {
		for _, v := range []uint64{half, half * 10000, half*10000 + 9999 - half} {
			binary.LittleEndian.PutUint64(got[:], digits8(v))
			if want := fmt.Sprintf("%08d", v); string(got[:]) != want {
				t.Fatalf("%q, want %q", got, want)
			}
		}
	}
}

// TestFirstAt checks that firstAt is the inverse of position.
func TestFirstAt(t *testing.T) {
	for _, name := range []string{"classic", "timeseries", "daily"} {
		w := newTestInsert(t, testdb.Open(t, "null"), InsertOptions{Preset: name, Layout: Plain})
		rapid.Check(t, func(t *rapid.T) {
			pos := w.position(rapid.Int64Range(0, 1<<40).Draw(t, "seq")) + rapid.Int64Range(-2e6, 2e6).Draw(t, "off")
			first := w.firstAt(pos)
			if w.position(first) < pos || first > 0 && w.position(first-1) >= pos {
				t.Fatalf("position %d: first row %d, which is at %d", pos, first, w.position(first))
			}
		})
		for _, pos := range []int64{0, -5, rolling.MinTime} {
			if got := w.firstAt(pos); got != 0 {
				t.Errorf("position %d: first row %d", pos, got)
			}
		}
	}
}

func TestFillAllocates(t *testing.T) {
	for _, p := range presets() {
		b := fill(p, newStream(1, 0), 0, 1000)
		if n := testing.AllocsPerRun(10, func() { b.Reset(); p.fill(b, newStream(1, 0), 777, 1000) }); n != 0 {
			t.Errorf("%s: %v allocations for a batch", p.name, n)
		}
	}
}
