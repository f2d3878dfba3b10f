package lane

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// sortColumns have each way in which a value is encoded, as a key and otherwise.
var sortColumns = []engine.Column{{Name: "a", Type: engine.Int64}, {Name: "note", Type: engine.Varchar, Null: true}, {Name: "b", Type: engine.Varchar},
	{Name: "x", Type: engine.Float64, Null: true}, {Name: "c", Type: engine.Float64, Null: true}, {Name: "n", Type: engine.Int64, Null: true}}

// sortedRow appends a row that follows from r, and returns it as text that sorts as its key.
func sortedRow(b *engine.Batch, r *rand.Rand, ordinal int) string {
	texts := []string{"", "a", "a\x00", "a\x00\x01", "a\xff", "ab", "\x00", strings.Repeat("long", 20)}
	a, text := int64(r.IntN(5)-2), texts[r.IntN(len(texts))]
	v := b.Columns
	v[0].Ints = append(v[0].Ints, a)
	if r.IntN(3) == 0 {
		v[1].AppendNull()
	} else {
		v[1].AppendBytes([]byte(fmt.Sprint("note", ordinal)))
	}
	v[2].AppendBytes([]byte(text))
	v[3].AppendNull()
	c := []float64{math.Inf(-1), -1.5, math.Copysign(0, -1), 0, 2, math.MaxFloat64}[r.IntN(6)]
	null := r.IntN(5) == 0
	if null {
		v[4].AppendNull()
		c = math.NaN() // the lowest, as NULL
	} else {
		v[4].Floats = append(v[4].Floats, c)
	}
	v[5].Ints = append(v[5].Ints, int64(ordinal)-7)
	b.EndRow()
	rank := 0
	if !null {
		rank = 1 + slices.Index([]float64{math.Inf(-1), -1.5, 0, 0, 2, math.MaxFloat64}, c)
		if c == 0 && !math.Signbit(c) {
			rank++
		}
	}
	return fmt.Sprintf("%d %x %d %09d", a+2, text+"\x00", rank, ordinal)
}

func dumpRow(b *engine.Batch, i int) string {
	var out []byte
	for c := range b.Columns {
		if v := &b.Columns[c]; v.Null(i) {
			out = append(out, "NULL|"...)
		} else {
			out = append(v.AppendText(out, i), '|')
		}
	}
	return string(out)
}

// TestSorter sorts the rows of several periods, with a memory in which few of them fit and
// with one in which all do, and compares every value.
func TestSorter(t *testing.T) {
	for _, limit := range []int64{1, 1 << 20, 1 << 40} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			const groups = 3
			dir := t.TempDir()
			r := rand.New(rand.NewPCG(1, 2))
			file := &spillFile{dir: dir}
			layout := newLayout(sortColumns, []string{"a", "b", "c"})
			n := &Collector{Load: &Load{Opt: &Sending{Rows: 1000, Bytes: 1 << 20, Memory: 16 << 20, Parallel: 1, Dir: dir}}, layout: layout,
				sorters: []*sorter{newSorter(layout, limit, file), newSorter(layout, limit, file)}}
			type row struct{ key, text string }
			want := make([][]row, groups)
			b := engine.NewBatch(sortColumns)
			for i := range 60000 {
				b.Reset()
				key, g := sortedRow(b, r, i), r.IntN(groups)
				if err := n.sorters[i%2].add(g, b, 0, int64(i), int64(i)); err != nil {
					t.Fatal(err)
				}
				want[g] = append(want[g], row{key, dumpRow(b, 0)})
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("%d files are left by a process that is killed: %v", len(left), err)
			}
			if (file.f != nil) != (limit < 1<<40) {
				t.Errorf("limit %d: the file is %v", limit, file.f)
			}
			for g := range groups {
				p := &publication{index: g}
				inOrder := slices.Clone(want[g])
				slices.SortFunc(want[g], func(a, b row) int { return cmp.Compare(a.key, b.key) })
				for _, sourceOrder := range []bool{false, true} {
					expect, at := want[g], 0
					if sourceOrder {
						expect = inOrder
					}
					err := n.rowsOf(context.Background(), p, sourceOrder, func(b *engine.Batch) error {
						for i := range b.Rows() {
							if at >= len(expect) || dumpRow(b, i) != expect[at].text {
								return fmt.Errorf("row %d is %q", at, dumpRow(b, i))
							}
							at++
						}
						return nil
					})
					if err != nil || at != len(expect) {
						t.Fatalf("group %d, in the order of the source %v: %d of %d rows: %v", g, sourceOrder, at, len(expect), err)
					}
				}
			}
			if err := file.close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// FuzzRowCode checks that encoded rows decode to themselves, and compare as their keys.
func FuzzRowCode(f *testing.F) {
	f.Add([]byte("a\x00"), []byte("a"), int64(-1), int64(1), 0.5, -0.5)
	f.Add([]byte{}, []byte{0, 255}, int64(math.MinInt64), int64(0), math.Inf(1), 0.0)
	layout := newLayout(sortColumns, []string{"b", "a", "c"})
	f.Fuzz(func(t *testing.T, p, q []byte, m, n int64, x, y float64) {
		if x != x || y != y {
			return // no server has a NaN in a key
		}
		b := engine.NewBatch(sortColumns)
		add := func(p []byte, n int64, x float64) {
			v := b.Columns
			v[0].Ints = append(v[0].Ints, n)
			v[1].AppendBytes(p)
			v[2].AppendBytes(p)
			v[3].Floats = append(v[3].Floats, x)
			v[4].Floats = append(v[4].Floats, x)
			v[5].AppendNull()
			b.EndRow()
		}
		add(p, m, x)
		add(q, n, y)
		first, second := layout.append(nil, b, 0, 5), layout.append(nil, b, 1, 6)
		out := engine.NewBatch(sortColumns)
		for _, row := range [][]byte{first, second} {
			if _, err := layout.decode(row, out); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 2 {
			if got, want := dumpRow(out, i), dumpRow(b, i); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		want := cmp.Or(bytes.Compare(p, q), cmp.Compare(m, n))
		if want == 0 && x != y {
			want = cmp.Compare(x, y)
		}
		if want != 0 && bytes.Compare(first, second) != want {
			t.Errorf("%q %d %v and %q %d %v compare as %d", p, m, x, q, n, y, bytes.Compare(first, second))
		}
		for i := range first { // a damaged row is an error
			_, _ = layout.decode(first[:i], engine.NewBatch(sortColumns))
		}
	})
}

// BenchmarkSorter adds rows to be published, and sorts them, in rows. Its ceiling is that of
// copying them once.
func BenchmarkSorter(b *testing.B) {
	for _, order := range []string{"sorted", "shuffled"} {
		b.Run(order, func(b *testing.B) {
			columns := []engine.Column{{Name: "id", Type: engine.Int64}, {Name: "at", Type: engine.Time}, {Name: "price", Type: engine.Float64}, {Name: "data", Type: engine.Varchar}}
			layout := newLayout(columns, []string{"id", "at"})
			const rows = 5000
			batch := engine.NewBatch(columns)
			for i := range rows {
				id := int64(i)
				if order == "shuffled" {
					id = int64(rand.Uint64() >> 2)
				}
				batch.Columns[0].Ints = append(batch.Columns[0].Ints, id)
				batch.Columns[1].Ints = append(batch.Columns[1].Ints, int64(i)*1e6)
				batch.Columns[2].Floats = append(batch.Columns[2].Floats, 0.5)
				batch.Columns[3].AppendBytes([]byte("0123456789"))
				batch.EndRow()
			}
			dir := b.TempDir()
			file := &spillFile{dir: dir}
			s := newSorter(layout, 64<<20, file)
			b.ReportAllocs()
			for i := range b.N {
				if err := s.add(0, batch, i%rows, 0, int64(i)); err != nil {
					b.Fatal(err)
				}
			}
			m, err := newMerge(s.cursors(0, 64<<10))
			if err != nil {
				b.Fatal(err)
			}
			out := engine.NewBatch(columns)
			for {
				row, more, err := m.next()
				if err != nil {
					b.Fatal(err)
				}
				if !more {
					break
				}
				if _, err := layout.decode(row, out); err != nil {
					b.Fatal(err)
				}
				if out.Rows() == rows {
					out.Reset()
				}
			}
			if err := file.close(); err != nil {
				b.Error(err)
			}
		})
	}
}
