package mysql

import (
	"bytes"
	"database/sql/driver"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
)

// unquote parses a string literal like the server and returns the text after it.
func unquote(t *testing.T, s []byte) (value, rest []byte) {
	t.Helper()
	if len(s) == 0 || s[0] != '\'' {
		t.Fatalf("no literal: %q", s)
	}
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\'':
			return value, s[i+1:]
		case '\\':
			i++
			if s[i] == '0' {
				value = append(value, 0)
				continue
			}
			fallthrough
		default:
			value = append(value, s[i])
		}
	}
	t.Fatalf("literal without an end: %q", s)
	return nil, nil
}

// FuzzQuote: a literal is parsed to the original text, and nothing follows it.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "'", "\\", "\\'", "'); DROP TABLE x; -- ", "\x00", "a\\", "😀", "\xff\x27", "\n\t\r\x1a"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		value, rest := unquote(t, append(appendQuoted(nil, p), "; rest"...))
		if !bytes.Equal(value, p) || string(rest) != "; rest" {
			t.Fatalf("%q is read as %q, followed by %q", p, value, rest)
		}
	})
}

// FuzzLine: a line of LOAD DATA has as many fields as columns, and each is parsed
// to the original text.
func FuzzLine(f *testing.F) {
	f.Add([]byte("a"), []byte("\t\n\\"), true)
	f.Add([]byte("\\N"), []byte{0, 9, 10, 13}, false)
	f.Add([]byte("\\"), []byte("N"), false)
	f.Fuzz(func(t *testing.T, p, q []byte, null bool) {
		table := &engine.Table{Name: "t", Columns: []engine.Column{{Name: "a", Type: engine.Varchar}, {Name: "b", Type: engine.Decimal, Null: true}, {Name: "c", Type: engine.Char}}}
		b := engine.NewBatch(table.Columns)
		b.Columns[0].AppendBytes(p)
		if null {
			b.Columns[1].AppendNull()
		} else {
			b.Columns[1].AppendBytes(q)
		}
		b.Columns[2].AppendBytes(q)
		b.EndRow()
		e := newEncoder(dialect{}, table)
		line := e.appendLine(nil, b, 0)
		var fields [][]byte
		field, isNull := []byte{}, []bool{false}
		for i := 0; i < len(line); i++ {
			switch c := line[i]; c {
			case '\t', '\n':
				fields = append(fields, field)
				field, isNull = []byte{}, append(isNull, false)
				if c == '\n' && i != len(line)-1 {
					t.Fatalf("more than one line: %q", line)
				}
			case '\\':
				i++
				switch line[i] {
				case 'N':
					isNull[len(isNull)-1] = true
				case '0':
					field = append(field, 0)
				case 't':
					field = append(field, '\t')
				case 'n':
					field = append(field, '\n')
				case 'r':
					field = append(field, '\r')
				default:
					field = append(field, line[i])
				}
			default:
				field = append(field, c)
			}
		}
		if len(fields) != 3 || line[len(line)-1] != '\n' {
			t.Fatalf("%d fields in %q", len(fields), line)
		}
		if !bytes.Equal(fields[0], p) || !bytes.Equal(fields[2], q) || isNull[0] || isNull[2] || isNull[1] != null || !null && !bytes.Equal(fields[1], q) {
			t.Fatalf("%q, %q are read as %q (NULL: %v)", p, q, fields, isNull)
		}
	})
}

// TestBinder: a binder binds the right values, also when its memory grows and is
// reused. The test fails if Go's layout of interfaces changes.
func TestBinder(t *testing.T) {
	t.Parallel()
	table := &engine.Table{Columns: []engine.Column{{Type: engine.Int64}, {Type: engine.Float64}, {Type: engine.Varchar, Null: true}, {Type: engine.Time}}}
	var n binder
	for round := range 3 {
		b := engine.NewBatch(table.Columns)
		var want []driver.Value
		for i := range 500 {
			b.Columns[0].Ints = append(b.Columns[0].Ints, int64(i-100)<<uint(i%60))
			b.Columns[1].Floats = append(b.Columns[1].Floats, float64(i*round)/7)
			want = append(want, int64(i-100)<<uint(i%60), float64(i*round)/7)
			if i%3 == 0 {
				b.Columns[2].AppendNull()
				want = append(want, nil)
			} else {
				s := strings.Repeat("x", (i+round)%5)
				b.Columns[2].AppendBytes([]byte(s))
				want = append(want, s)
			}
			b.Columns[3].Ints = append(b.Columns[3].Ints, int64(i)*1e6)
			want = append(want, fmt.Sprintf("1970-01-01 00:%02d:%02d", i/60, i%60))
			b.EndRow()
		}
		got := n.bind(b, 0, b.Rows())
		if len(got) != len(want) {
			t.Fatalf("%d values, want %d", len(got), len(want))
		}
		for i, v := range got {
			if p, ok := v.([]byte); ok {
				if p == nil {
					t.Fatalf("value %d would be NULL", i)
				}
				v = string(p)
			}
			if v != want[i] {
				t.Fatalf("value %d is %v (%T), want %v", i, v, v, want[i])
			}
		}
	}
	// An empty text in a batch without other text.
	b := engine.NewBatch([]engine.Column{{Type: engine.Varchar}})
	b.Columns[0].AppendBytes(nil)
	b.EndRow()
	if p, ok := n.bind(b, 0, 1)[0].([]byte); !ok || p == nil {
		t.Error("empty text is bound as NULL")
	}
	if intSample != driver.Value(int64(0)) || floatSample != driver.Value(float64(0)) {
		t.Error("the samples were written to")
	}
}

// encodings returns each method's encoding of a batch before it reaches the driver.
func encodings() map[string]func() {
	b, e := enginetest.Repeat(purchases(), batch(), 1000), newEncoder(dialect{}, purchases())
	var text, line []byte
	var n binder
	kinds := &engine.Table{Name: "t", Columns: []engine.Column{{Name: "id", Type: engine.Int64}, {Name: "at", Type: engine.Time},
		{Name: "note", Type: engine.Varchar}, {Name: "raw", Type: engine.Binary}}}
	rows := engine.NewBatch(kinds.Columns)
	for i := range int64(1000) {
		rows.Columns[0].Ints = append(rows.Columns[0].Ints, i)
		rows.Columns[1].Ints = append(rows.Columns[1].Ints, 1795197600e6+i*1001)
		rows.Columns[2].AppendBytes([]byte("it's a note"))
		rows.Columns[3].AppendBytes([]byte{0, '\'', 0xff, byte(i)})
		rows.EndRow()
	}
	l := &loader{db: &server{}, encoders: map[*engine.Table]*encoder{}, limit: 16 << 10}
	return map[string]func(){
		"text": func() { text, _ = e.appendInsert(text[:0], b, 0, b.Rows(), math.MaxInt) },
		"load": func() {
			line = line[:0]
			for i := range b.Rows() {
				line = e.appendLine(line, b, i)
			}
		},
		"prepared": func() { n.bind(b, 0, b.Rows()) },
		"loader": func() {
			e := l.encoder(kinds)
			for row := 0; row < rows.Rows(); {
				row = l.encode(e, rows, row, rows.Rows())
			}
		},
	}
}

// TestLoaderEncodes: a loader's statements contain every row once, in order. Each
// has as many rows as fit, and at least one.
func TestLoaderEncodes(t *testing.T) {
	t.Parallel()
	table := &engine.Table{Name: "t", Columns: []engine.Column{{Name: "id", Type: engine.Int32}, {Name: "raw", Type: engine.Binary}}}
	b := engine.NewBatch(table.Columns)
	for i, size := range []int{0, 1, 30, 100, 0, 0, 1000, 2} {
		b.Columns[0].Ints = append(b.Columns[0].Ints, int64(i))
		b.Columns[1].AppendBytes(bytes.Repeat([]byte{0xa5}, size))
		b.EndRow()
	}
	for _, limit := range []int{1, 50, 100, 160, 250, 300, 2200, 1 << 20} {
		for from := range b.Rows() {
			for to := from + 1; to <= b.Rows(); to++ {
				l := &loader{db: &server{}, encoders: map[*engine.Table]*encoder{}, limit: limit}
				e, got := l.encoder(table), ""
				for row := from; row < to; {
					next := l.encode(e, b, row, to)
					if next <= row || next > to {
						t.Fatalf("limit %d: rows %d to %d of %d", limit, row, next, to)
					}
					statement, ok := strings.CutPrefix(string(l.buf[packetHead:]), e.prefix)
					if !ok {
						t.Fatalf("limit %d: %.100q", limit, l.buf)
					}
					if next > row+1 && len(l.buf) > limit {
						t.Errorf("limit %d: rows %d to %d are %d bytes", limit, row, next, len(l.buf))
					}
					if next < to && len(e.appendRow(append(l.buf, ','), b, next)) <= limit {
						t.Errorf("limit %d: row %d fits, too", limit, next)
					}
					got += "," + statement
					row = next
				}
				whole, _ := e.appendInsert(nil, b, from, to, math.MaxInt)
				if want := strings.TrimPrefix(string(whole), e.prefix); got != ","+want {
					t.Fatalf("limit %d: got %.200q, want %.200q", limit, got[1:], want)
				}
			}
		}
	}
	e := newEncoder(dialect{}, table)
	if got := string(e.appendRow(nil, b, 1)); got != "(1, X'a5')" {
		t.Errorf("got %s", got)
	}
}

func TestEncodeAllocates(t *testing.T) {
	for name, encode := range encodings() {
		encode()
		if n := testing.AllocsPerRun(5, encode); n > 0 {
			t.Errorf("%s: %v allocations for 1000 rows", name, n)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for name, encode := range encodings() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				encode()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*1000), "ns/row")
		})
	}
}
