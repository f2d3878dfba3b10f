package workload

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/workload/draw"
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

func fill(p preset, s draw.Stream, first int64, n int) *engine.Batch {
	b := engine.NewBatch(p.table.Inserted())
	p.fill(b, s, first, n)
	return b
}

// TestRowsArePure checks that a row depends only on the seed, the writer and its
// sequence number: not on its batch, or on the rows generated before.
func TestRowsArePure(t *testing.T) {
	t.Parallel()
	for _, p := range presets() {
		t.Run(p.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := draw.NewStream(rapid.Uint64().Draw(t, "seed"), rapid.IntRange(0, 1000).Draw(t, "writer"))
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

// TestRowsStay checks that the rows of a seed are those of earlier versions; otherwise their
// records and tables are not comparable. A difference here is a change of format.
func TestRowsStay(t *testing.T) {
	t.Parallel()
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
		b := fill(p, draw.NewStream(1, 0), 0, 100000)
		sum.Add(b, nil)
		if got := fmt.Sprintf("%016x %s", sum.Hash, rowText(b, 99999)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestDraws checks that what rows draw is uniform, by a chi-square test over 100 bins,
// and differs between seeds, writers and rows. The data are determined by the seeds, so
// the result is always the same; TestRowsStay has what the presets make of it.
func TestDraws(t *testing.T) {
	const bins = 100
	var counts [2][bins]float64
	n, seen := 0, map[uint64]bool{}
	for seed := range uint64(50) {
		for writer := range 50 {
			s := draw.NewStream(seed, writer)
			for seq := range int64(40) {
				d := s.Row(seq)
				first := d
				seen[first.Next()] = true
				counts[0][d.Below(bins)]++
				counts[1][int(d.Float()*bins)]++
				n++
			}
		}
	}
	if len(seen) != n {
		t.Errorf("%d rows begin with %d different values", n, len(seen))
	}
	for i, all := range counts {
		mean, chi := float64(n)/bins, 0.0
		for _, c := range all {
			chi += (c - mean) * (c - mean) / mean
		}
		if chi > 160 { // p < 0.0001 at 99 degrees of freedom
			t.Errorf("%s: chi-square %.0f", []string{"below", "float"}[i], chi)
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
		b := fill(p, draw.NewStream(1, 0), 0, 1000)
		if n := testing.AllocsPerRun(10, func() { b.Reset(); p.fill(b, draw.NewStream(1, 0), 777, 1000) }); n != 0 {
			t.Errorf("%s: %v allocations for a batch", p.name, n)
		}
	}
}
