package enginetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// maxText is the size of the largest text column, in characters. Its longest values have 16000
// bytes if all characters take four bytes, less than MySQL's limit of 65535 for a row.
const maxText = 4000

// everyType returns a plain table with a nullable and a NOT NULL column of each
// type, and an index on several columns.
func everyType(name string) *engine.Table {
	t := &engine.Table{
		Name:       name,
		Columns:    []engine.Column{{Name: "id", Type: engine.Int64}},
		PrimaryKey: []string{"id"},
		Indexes: []engine.Index{
			{Name: "numbers", Columns: []string{"i32", "f64"}},
			{Name: "texts", Columns: []string{"chars", "i64_null"}},
		},
	}
	for _, c := range []engine.Column{
		{Name: "i32", Type: engine.Int32}, {Name: "i64", Type: engine.Int64},
		{Name: "f32", Type: engine.Float32}, {Name: "f64", Type: engine.Float64},
		{Name: "at", Type: engine.Time}, {Name: "varchars", Type: engine.Varchar, Size: maxText},
		{Name: "chars", Type: engine.Char, Size: 20}, {Name: "dec", Type: engine.Decimal, Size: 30, Scale: 10},
	} {
		null := c
		null.Name, null.Null = c.Name+"_null", true
		if c.Type == engine.Varchar {
			null.Size = 40 // two of maxText don't fit in a row
		}
		t.Columns = append(t.Columns, c, null)
	}
	return t
}

// A rowFiller appends rows of any table to a batch.
type rowFiller struct {
	cols []engine.Column
	rnd  *rand.Rand
	// noZero omits zero bytes from text.
	noZero bool
}

func newFiller(cols []engine.Column) *rowFiller {
	return &rowFiller{cols: cols, rnd: rand.New(rand.NewPCG(1, 2))}
}

const microsecond, second, day = int64(1), int64(1e6), int64(86400e6)

// Values that encodings often get wrong, for each type.
var (
	edgeInt32   = []int64{0, 1, -1, math.MaxInt32, math.MinInt32, 65536, -256}
	edgeInt64   = []int64{0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1, 1 << 53, 1<<53 + 1, -(1<<53 + 1), 1 << 32}
	edgeFloat32 = []float32{0, float32(math.Copysign(0, -1)), 1, -1, 0.1, 1.0 / 3, 16777217, 123456.789, 1e-10, math.MaxFloat32,
		-math.MaxFloat32, 1.1754944e-38, 8388608.5, 9.9999998e9, 3.4e-5}
	edgeFloat64 = []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 1.0 / 3, math.Pi, 1e21, 1e22, 1e100, 1e-100, math.MaxFloat64, -math.MaxFloat64,
		2.2250738585072014e-308, 1 << 53, 123456789012345678, 5e15, 0.30000000000000004}
	// Whole seconds; the first two are the limits that every server supports.
	edgeTime = []int64{rolling.MinTime, rolling.MaxTime - second, 0, -second, second, -day, 951782400e6, 1709164799e6, 4107542399e6, 1e15}
	edgeText = []string{"", "a", " ", "0", "NULL", `\N`, `\`, `\\`, "'", "''", `"`, "`", `'); DROP TABLE x; --`, "\x00", "a\x00b\x00", "\t", "\n", "\r\n", "a\tb\nc",
		"\x1a", "%s", "?", "é", "日本語", "😀", "\U0010FFFF", "a😀'\\\x00\n", "/*x*/", "${x}", ",", ";", "\u2028", "trailing ", " leading", strings.Repeat("'", 20), strings.Repeat("😀", 20)}
	edgeDecimal = []string{"0.0000000000", "1.0000000000", "-1.0000000000", "0.0000000001", "-0.0000000001", "12345678901234567890.0123456789",
		"99999999999999999999.9999999999", "-99999999999999999999.9999999999", "0.1000000000"}
)

// edges is the number of rows of fillEdges: enough for each value of each type.
var edges = 2 * max(len(edgeText), len(edgeFloat64), len(edgeTime), len(edgeInt64))

// fillEdges appends rows with the edge values of each type. The ids are consecutive, beginning with
// first. In a nullable column, every fifth value is NULL.
func (f *rowFiller) fillEdges(b *engine.Batch, first int64) {
	for i := range edges {
		for c := range f.cols {
			v := &b.Columns[c]
			switch {
			case c == 0:
				v.Ints = append(v.Ints, first+int64(i))
			case f.cols[c].Null && (i+c)%5 == 0:
				v.AppendNull()
			default:
				f.appendEdge(v, f.cols[c], i)
			}
		}
		b.EndRow()
	}
}

func (f *rowFiller) appendEdge(v *engine.Vector, col engine.Column, i int) {
	switch col.Type {
	case engine.Int32:
		v.Ints = append(v.Ints, edgeInt32[i%len(edgeInt32)])
	case engine.Int64:
		v.Ints = append(v.Ints, edgeInt64[i%len(edgeInt64)])
	case engine.Float32:
		v.Floats = append(v.Floats, float64(edgeFloat32[i%len(edgeFloat32)]))
	case engine.Float64:
		v.Floats = append(v.Floats, edgeFloat64[i%len(edgeFloat64)])
	case engine.Time:
		v.Ints = append(v.Ints, edgeTime[i%len(edgeTime)])
	case engine.Decimal:
		v.AppendBytes([]byte(edgeDecimal[i%len(edgeDecimal)]))
	case engine.Char:
		v.AppendBytes([]byte(strings.TrimRight(f.edgeText(i), " ")))
	case engine.Varchar:
		text := f.edgeText(i)
		if i == len(edgeText) && col.Size == maxText {
			text = strings.Repeat("😀", maxText)
		}
		v.AppendBytes([]byte(text))
	}
}

func (f *rowFiller) edgeText(i int) string {
	text := edgeText[i%len(edgeText)]
	if f.noZero {
		text = strings.ReplaceAll(text, "\x00", "0")
	}
	return text
}

// fill appends n random rows with consecutive ids from first on.
func (f *rowFiller) fill(b *engine.Batch, first int64, n int) {
	for i := range n {
		for c := range f.cols {
			v := &b.Columns[c]
			switch {
			case c == 0:
				v.Ints = append(v.Ints, first+int64(i))
			case f.cols[c].Null && f.rnd.IntN(4) == 0:
				v.AppendNull()
			default:
				f.appendRandom(v, f.cols[c])
			}
		}
		b.EndRow()
	}
}

func (f *rowFiller) appendRandom(v *engine.Vector, col engine.Column) {
	switch col.Type {
	case engine.Int32:
		v.Ints = append(v.Ints, int64(int32(f.rnd.Uint32())))
	case engine.Int64:
		v.Ints = append(v.Ints, int64(f.rnd.Uint64()))
	case engine.Float32:
		x := math.Float32frombits(f.rnd.Uint32())
		// No NaN, no infinity, and no denormal number, which has less precision.
		for x != x || math.IsInf(float64(x), 0) || x != 0 && math.Abs(float64(x)) < 1.2e-38 {
			x = math.Float32frombits(f.rnd.Uint32())
		}
		v.Floats = append(v.Floats, float64(x))
	case engine.Float64:
		x := math.Float64frombits(f.rnd.Uint64())
		for x != x || math.IsInf(x, 0) || x != 0 && math.Abs(x) < 2.3e-308 {
			x = math.Float64frombits(f.rnd.Uint64())
		}
		v.Floats = append(v.Floats, x)
	case engine.Time:
		v.Ints = append(v.Ints, f.rnd.Int64N(4e9)*second-1e15)
	case engine.Decimal:
		v.AppendBytes(fmt.Appendf(nil, "%d.%010d", f.rnd.Int64(), f.rnd.Int64N(1e10)))
	default:
		n := f.rnd.IntN(min(col.Size, 20))
		for range n {
			v.Bytes = append(v.Bytes, string([]rune("aZ09'\\%é😀\"")[f.rnd.IntN(10)])...)
		}
		v.EndBytes()
	}
}

// copyRow appends row i of src to dst.
func copyRow(dst, src *engine.Batch, i int) {
	for c := range src.Columns {
		from, to := &src.Columns[c], &dst.Columns[c]
		switch {
		case from.Null(i):
			to.AppendNull()
		case from.Type == engine.Float32 || from.Type == engine.Float64:
			to.Floats = append(to.Floats, from.Floats[i])
		case from.Type == engine.Varchar || from.Type == engine.Char || from.Type == engine.Decimal || from.Type == engine.Binary:
			to.AppendBytes(from.Value(i))
		default:
			to.Ints = append(to.Ints, from.Ints[i])
		}
	}
	dst.EndRow()
}

// copyRows appends all rows of src to dst.
func copyRows(dst, src *engine.Batch) {
	for i := range src.Rows() {
		copyRow(dst, src, i)
	}
}

// text returns a value as text, for messages and comparison. Negative zero becomes 0, because no
// server keeps the sign of zero with every insert method.
func text(v *engine.Vector, i int) string {
	switch {
	case v.Null(i):
		return "NULL"
	case (v.Type == engine.Float32 || v.Type == engine.Float64) && v.Floats[i] == 0:
		return "0"
	case v.Type == engine.Varchar || v.Type == engine.Char:
		return fmt.Sprintf("%.60q of %d bytes", v.Value(i), len(v.Value(i)))
	}
	return string(v.AppendText(nil, i))
}

// compare reports the differences between two sets of rows, matched by id.
func compare(t testing.TB, table *engine.Table, got, want *engine.Batch) {
	t.Helper()
	at := map[int64]int{}
	for i := range got.Rows() {
		id := got.Columns[0].Ints[i]
		if _, twice := at[id]; twice {
			t.Errorf("row %d is there twice", id)
		}
		at[id] = i
	}
	reported := 0
	for i := range want.Rows() {
		id := want.Columns[0].Ints[i]
		j, ok := at[id]
		if !ok {
			t.Errorf("row %d is missing", id)
			reported++
		}
		delete(at, id)
		for c := range want.Columns {
			if ok && text(&got.Columns[c], j) != text(&want.Columns[c], i) {
				t.Errorf("row %d, column %s: got %s, want %s", id, table.Columns[c].Name, text(&got.Columns[c], j), text(&want.Columns[c], i))
				reported++
			}
		}
		if reported > 20 {
			t.Fatal("and more")
		}
	}
	if len(at) > 0 {
		t.Errorf("%d rows are there that nobody wrote", len(at))
	}
}
