package engine_test

import (
	"database/sql/driver"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

func columns() []engine.Column {
	return []engine.Column{
		{Name: "i", Type: engine.Int64}, {Name: "f", Type: engine.Float64}, {Name: "f32", Type: engine.Float32},
		{Name: "t", Type: engine.Time}, {Name: "s", Type: engine.Varchar, Size: 20}, {Name: "d", Type: engine.Decimal, Size: 10, Scale: 2},
	}
}

func fill(b *engine.Batch, n int) {
	b.Reset()
	for i := range n {
		b.Columns[0].Ints = append(b.Columns[0].Ints, int64(i))
		b.Columns[1].Floats = append(b.Columns[1].Floats, float64(i)/3)
		b.Columns[2].Floats = append(b.Columns[2].Floats, float64(float32(i)/3))
		b.Columns[3].Ints = append(b.Columns[3].Ints, 1795197600e6+int64(i)*1e6)
		b.Columns[4].AppendBytes([]byte("abcdefghij"))
		b.Columns[5].AppendBytes([]byte("1234.50"))
		b.EndRow()
	}
}

func TestBatch(t *testing.T) {
	b := engine.NewBatch(columns())
	for range 2 { // the second time in memory that was used before
		b.Reset()
		fill(b, 100)
		for c := range b.Columns {
			b.Columns[c].AppendNull()
		}
		b.EndRow()
		fill2 := "after NULL"
		b.Columns[4].AppendBytes([]byte(fill2))
		if b.Rows() != 101 {
			t.Fatalf("%d rows", b.Rows())
		}
		for c := range b.Columns {
			v := &b.Columns[c]
			for i := range b.Rows() {
				if v.Null(i) != (i == 100) {
					t.Fatalf("column %d, row %d: NULL is %v", c, i, v.Null(i))
				}
			}
		}
		if s := string(b.Columns[4].Value(101)); s != fill2 {
			t.Errorf("value after NULL: %q", s)
		}
		if s := string(b.Columns[4].Value(99)); s != "abcdefghij" {
			t.Errorf("value: %q", s)
		}
	}
	b.Reset()
	fill(b, 1)
	if b.Columns[0].Null(0) || b.Columns[0].Null(100) {
		t.Error("NULL of an earlier batch")
	}
}

func TestAppendText(t *testing.T) {
	v := engine.NewBatch([]engine.Column{{Type: engine.Float32}, {Type: engine.Float64}, {Type: engine.Int32}, {Type: engine.Char, Size: 3}})
	v.Columns[0].Floats = []float64{float64(float32(0.1)), math.MaxFloat32, -math.MaxFloat32, 16777217}
	v.Columns[1].Floats = []float64{0.1, math.MaxFloat64, 1e21, 1}
	v.Columns[2].Ints = []int64{math.MinInt32, 0, -1, 7}
	for _, s := range []string{"", "a'b", "é", "x"} {
		v.Columns[3].AppendBytes([]byte(s))
	}
	want := [][]string{
		{"0.1", "3.4028234663852886e+38", "-3.4028234663852886e+38", "1.6777216e+07"},
		{"0.1", "1.7976931348623157e+308", "1e+21", "1"},
		{"-2147483648", "0", "-1", "7"},
		{"", "a'b", "é", "x"},
	}
	for c := range v.Columns {
		for i := range 4 {
			if got := string(v.Columns[c].AppendText([]byte(">"), i)); got != ">"+want[c][i] {
				t.Errorf("column %d, row %d: %s, want %s", c, i, got, want[c][i])
			}
		}
	}
}

// TestSum: every change of the rows changes their sum; another order doesn't.
func TestSum(t *testing.T) {
	sum := func(change func(*engine.Batch)) engine.Sum {
		b := engine.NewBatch(columns())
		fill(b, 10)
		change(b)
		var s engine.Sum
		s.Add(b, nil)
		return s
	}
	same := sum(func(*engine.Batch) {})
	for name, change := range map[string]func(*engine.Batch){
		"an integer":      func(b *engine.Batch) { b.Columns[0].Ints[3]++ },
		"a float's last":  func(b *engine.Batch) { b.Columns[1].Floats[3] = math.Nextafter(b.Columns[1].Floats[3], 9) },
		"a time":          func(b *engine.Batch) { b.Columns[3].Ints[9]++ },
		"a letter":        func(b *engine.Batch) { b.Columns[4].Bytes[5] = 'X' },
		"where text ends": func(b *engine.Batch) { b.Columns[4].Ends[3]++ },
		"swapped values": func(b *engine.Batch) {
			b.Columns[0].Ints[0], b.Columns[0].Ints[1] = b.Columns[0].Ints[1], b.Columns[0].Ints[0]
		},
		"a row less": func(b *engine.Batch) { b.EndRows(-1) },
	} {
		if s := sum(change); s.Equal(&same) {
			t.Errorf("%s: the sum is the same", name)
		}
	}
	b := engine.NewBatch(columns())
	fill(b, 10)
	var backwards, skipped engine.Sum
	for i := 9; i >= 0; i-- {
		backwards.AddRow(b, i, nil)
	}
	if !backwards.Equal(&same) {
		t.Error("another order gives another sum")
	}
	b.Columns[0].Ints[3]++
	skipped.Add(b, []bool{true, false, false, false, false, false})
	var want engine.Sum
	fill(b, 10)
	want.Add(b, []bool{true, false, false, false, false, false})
	if !skipped.Equal(&want) || skipped.Equal(&same) {
		t.Error("a skipped column counts")
	}
	// NULL is neither 0 nor empty text; negative zero is zero.
	one := func(c engine.Column, add func(*engine.Vector)) engine.Sum {
		b := engine.NewBatch([]engine.Column{c})
		add(&b.Columns[0])
		b.EndRow()
		var s engine.Sum
		s.Add(b, nil)
		return s
	}
	null := one(engine.Column{Type: engine.Int64}, (*engine.Vector).AppendNull)
	zero := one(engine.Column{Type: engine.Int64}, func(v *engine.Vector) { v.Ints = []int64{0} })
	empty := one(engine.Column{Type: engine.Varchar}, func(v *engine.Vector) { v.AppendBytes(nil) })
	if null.Equal(&zero) || null.Equal(&empty) || zero.Equal(&empty) {
		t.Error("NULL, 0 and empty text are not told apart")
	}
	plus := one(engine.Column{Type: engine.Float64}, func(v *engine.Vector) { v.Floats = []float64{0} })
	minus := one(engine.Column{Type: engine.Float64}, func(v *engine.Vector) { v.Floats = []float64{math.Copysign(0, -1)} })
	if !plus.Equal(&minus) {
		t.Error("negative zero is another sum than zero")
	}
}

// fakeRows is a driver's result.
type fakeRows struct {
	columns []string
	rows    [][]driver.Value
	end     error
}

func (r *fakeRows) Columns() []string { return r.columns }
func (r *fakeRows) Close() error      { return nil }
func (r *fakeRows) Next(dst []driver.Value) error {
	if len(r.rows) == 0 {
		return r.end
	}
	copy(dst, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}

func TestScanDriverRows(t *testing.T) {
	at := time.Date(2026, 11, 20, 18, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		typ   engine.Type
		value driver.Value
		want  string // "" is an error
	}{
		"integer":            {engine.Int64, int64(5), "5"},
		"integer as text":    {engine.Int32, []byte("-5"), "-5"},
		"integer for float":  {engine.Float64, int64(5), "5"},
		"float32":            {engine.Float32, float32(0.1), "0.1"},
		"double for float32": {engine.Float32, 0.1, "0.1"},
		"float as text":      {engine.Float64, "0.25", "0.25"},
		"time":               {engine.Time, at, "2026-11-20 18:00:00"},
		"time as text":       {engine.Time, []byte("2026-11-20 18:00:00.000000"), "2026-11-20 18:00:00"},
		"bytes":              {engine.Varchar, []byte("a"), "a"},
		"string":             {engine.Decimal, "1.50", "1.50"},
		"no time":            {engine.Time, "noon", ""},
		"no number":          {engine.Int64, "x", ""},
		"no float":           {engine.Float64, "x", ""},
		"float for text":     {engine.Varchar, 1.5, ""},
		"float for integer":  {engine.Int64, 1.5, ""},
		"time for text":      {engine.Varchar, at, ""},
		"integer for text":   {engine.Varchar, int64(1), ""},
		"boolean":            {engine.Int32, true, "1"},
		"boolean for text":   {engine.Varchar, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			err := engine.ScanDriverRows(&fakeRows{columns: []string{"c"}, rows: [][]driver.Value{{c.value}}, end: io.EOF},
				[]engine.Column{{Name: "c", Type: c.typ}}, func(b *engine.Batch) error {
					got = string(b.Columns[0].AppendText(nil, 0))
					return nil
				})
			if got != c.want || (err == nil) != (c.want != "") {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	rows := func(n int, end error) *fakeRows {
		r := &fakeRows{columns: []string{"c"}, end: end}
		for i := range n {
			r.rows = append(r.rows, []driver.Value{int64(i)})
		}
		return r
	}
	cols := []engine.Column{{Name: "c", Type: engine.Int64}}
	for _, n := range []int{0, 1, 999, 1000, 1001, 2000} {
		seen := 0
		err := engine.ScanDriverRows(rows(n, io.EOF), cols, func(b *engine.Batch) error {
			if b.Rows() == 0 {
				t.Error("an empty batch")
			}
			seen += b.Rows()
			return nil
		})
		if err != nil || seen != n {
			t.Errorf("%d of %d rows, %v", seen, n, err)
		}
	}
	lost := errors.New("lost")
	if err := engine.ScanDriverRows(rows(5, lost), cols, func(*engine.Batch) error { return nil }); !errors.Is(err, lost) {
		t.Errorf("an error of the driver: %v", err)
	}
	if err := engine.ScanDriverRows(rows(5, io.EOF), nil, nil); err == nil || !strings.Contains(err.Error(), "got 1 columns, want 0") {
		t.Errorf("another number of columns: %v", err)
	}
}

func TestNoAllocations(t *testing.T) {
	b := engine.NewBatch(columns())
	fill(b, 1000)
	var sum engine.Sum
	var text []byte
	for name, run := range map[string]func(){
		"fill": func() { fill(b, 1000) },
		"sum":  func() { sum.Add(b, nil) },
		"text": func() {
			text = text[:0]
			for i := range b.Rows() {
				for c := range b.Columns {
					text = b.Columns[c].AppendText(text, i)
				}
			}
		},
	} {
		run()
		if n := testing.AllocsPerRun(5, run); n > 0 {
			t.Errorf("%s: %v allocations for 1000 rows", name, n)
		}
	}
}

func BenchmarkBatch(b *testing.B) {
	const rows = 1000
	batch := engine.NewBatch(columns())
	fill(batch, rows)
	var sum engine.Sum
	for name, run := range map[string]func(){
		"append": func() { fill(batch, rows) },
		"sum":    func() { sum.Add(batch, nil) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*rows), "ns/row")
		})
	}
}

// TestKeepAndTruncate: afterwards, the batch is as if the removed rows had never been appended.
// Rows that are appended later have nothing of them.
func TestKeepAndTruncate(t *testing.T) {
	cols := []engine.Column{{Name: "a", Type: engine.Int64}, {Name: "b", Type: engine.Binary, Size: 9}, {Name: "c", Type: engine.Float64}}
	rnd := rand.New(rand.NewPCG(7, 7))
	for round := range 300 {
		want, got := engine.NewBatch(cols), engine.NewBatch(cols)
		var keep []int
		rows, nulls, most := rnd.IntN(300), rnd.IntN(300), rnd.Float64()
		left := rnd.IntN(rows + 1)
		add := func(i int, to ...*engine.Batch) {
			value := []byte(strings.Repeat("x", rnd.IntN(5)) + strconv.Itoa(i))
			null := i < nulls && rnd.IntN(2) == 0
			for _, b := range to {
				for c := range b.Columns {
					switch v := &b.Columns[c]; {
					case null:
						v.AppendNull()
					case c == 0:
						v.Ints = append(v.Ints, int64(i))
					case c == 1:
						v.AppendBytes(value)
					default:
						v.Floats = append(v.Floats, float64(i))
					}
				}
				b.EndRow()
			}
		}
		for i := range rows {
			if round%2 == 0 && i < left || round%2 == 1 && rnd.Float64() < most {
				keep = append(keep, i)
				add(i, want, got)
			} else {
				add(i, got)
			}
		}
		if round%2 == 0 {
			got.Columns[0].AppendNull() // of a row that isn't ended
			got.Columns[1].AppendBytes([]byte("rest"))
			got.Truncate(left)
		} else {
			got.Keep(keep)
		}
		for i := range 70 {
			add(1000+i, want, got)
		}
		if got.Rows() != want.Rows() {
			t.Fatalf("%d rows are left of %d, want %d", got.Rows()-70, rows, len(keep))
		}
		for i := range want.Rows() { // one by one: a sum doesn't tell their order
			var a, b engine.Sum
			a.AddRow(want, i, nil)
			b.AddRow(got, i, nil)
			if !a.Equal(&b) {
				t.Fatalf("row %d of %d kept is another one", i, len(keep))
			}
		}
	}
}
