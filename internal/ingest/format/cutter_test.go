package format

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/value"
)

var must = enginetest.Must

// pieces reads 0 to most bytes at a time, and then ends with err.
type pieces struct {
	p    []byte
	most int
	rng  *rand.Rand
	err  error
}

func (r *pieces) Read(p []byte) (int, error) {
	n := copy(p[:min(len(p), r.rng.IntN(r.most)+r.rng.IntN(2))], r.p)
	r.p = r.p[n:]
	if len(r.p) == 0 && (n == 0 || r.rng.IntN(2) == 0) {
		return n, r.err
	}
	return n, nil
}

// cutAll cuts p, read in pieces, into batches.
func cutAll(t *testing.T, f *Format, r io.Reader, rows, size int) ([]*Batch, error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	c := NewCutter(ctx, r, f, rows, size, 0)
	defer c.Wait(stop)
	var out []*Batch
	for {
		b, err := c.Next(ctx)
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			if _, again := c.Next(ctx); again == nil || again.Error() != err.Error() {
				t.Errorf("after error %v the next call has %v", err, again)
			}
			return out, err
		}
		out = append(out, b)
	}
}

// bytesOf returns a batch of a source's bytes.
func bytesOf(data []byte, line, offset int64, first bool) *Batch {
	return &Batch{Cut: state.Cut{Line: line, From: offset}, Data: data, First: first}
}

// texts returns a target of n text columns.
func texts(f *Format, n int) *Target {
	t := &Target{Format: f, byName: map[string]int{}, unit: 1, width: n}
	table, typ := &engine.Table{}, value.Type{Kind: value.Text}
	read, _ := typ.Reader(&value.Notation{}, value.Server{})
	var columns []int
	for i := range n {
		name := string(rune('a' + i))
		t.byName[name], columns = i, append(columns, i)
		t.Columns = append(t.Columns, Column{SchemaColumn: engine.SchemaColumn{Name: name, Null: true, Type: typ}, Reader: read})
		table.Columns = append(table.Columns, engine.Column{Name: name, Type: engine.Varchar, Null: true})
	}
	t.All = newShape(table, columns)
	return t
}

// A row is a parsed row: its values, or the reason for its rejection.
type row struct {
	line, offset int64
	text         string
}

// parsed parses a text from its beginning.
func parsed(p *Parser, data []byte) (*Parser, []row) {
	p.Parse(bytesOf(data, 1, 0, true))
	return p, rowsOf(p, 0)
}

// rowsOf returns the rows of a parser's batch in the order of the source.
func rowsOf(p *Parser, offset int64) []row {
	var out []row
	for i, where := range p.Places {
		text := ""
		for c := range p.Batch.Columns {
			if v := &p.Batch.Columns[c]; v.Null(i) {
				text += "[NULL]"
			} else {
				text += "[" + string(v.AppendText(nil, i)) + "]"
			}
		}
		out = append(out, row{where.Line, offset + int64(where.From), text})
	}
	for _, r := range p.Rejected {
		out = append(out, row{r.Line, r.Offset, fmt.Sprintf("rejected: %s%s: %s", r.Column, r.Reason, r.Row)})
	}
	slices.SortFunc(out, func(a, b row) int { return int(a.offset - b.offset) })
	return out
}

// checkBatches fails unless the batches of p contain the same rows, lines and bytes
// as p parsed in one piece, for any sizes of batches and reads.
func checkBatches(t *testing.T, f *Format, p []byte, rng *rand.Rand) {
	t.Helper()
	whole, want := parsed(NewParser(texts(f, 3)), p)
	if int64(len(want)) != whole.Rows {
		t.Fatalf("%d rows are counted, and %d there", whole.Rows, len(want))
	}
	most := []int{1, 3, 50, 5000}[rng.IntN(4)]
	rows, size := 1+rng.IntN(7), 1+rng.IntN(200)
	batches, err := cutAll(t, f, &pieces{p, most, rng, io.EOF}, rows, size)
	if f.Kind == JSON && err != nil { // what precedes the damage is cut
		n, _ := f.preamble(p, true)
		if _, whole := records(f, p[n:]); whole == nil && !errors.Is(err, errOpenArray) {
			t.Fatalf("cut %q: %v", p, err)
		}
		n = 0
		for _, b := range batches {
			n += len(b.Data)
		}
		p = p[:n]
		_, want = parsed(NewParser(texts(f, 3)), p)
	} else if err != nil {
		t.Fatalf("cut %q: %v", p, err)
	}
	parser := NewParser(texts(f, 3))
	var got []row
	var data []byte
	at, line := int64(0), int64(1)
	for _, b := range batches {
		if b.From != at || b.Line != line || b.To-b.From != int64(len(b.Data)) || b.Hash != HashOf(b.Data) || b.First != (at == 0) {
			t.Fatalf("a batch from byte %d, line %d, of %d bytes, first: %v; want byte %d, line %d", b.From, b.Line, len(b.Data), b.First, at, line)
		}
		at, line = b.To, line+b.Lines
		data = append(data, b.Data...)
		parser.Parse(b)
		if n := int(parser.Rows); n > b.Rows || n > rows {
			t.Errorf("batch %q has %d rows, was cut for %d, of %d", b.Data, n, b.Rows, rows)
		}
		got = append(got, rowsOf(parser, b.From)...)
	}
	if !bytes.Equal(data, p) {
		t.Fatalf("the batches have %q, want %q", data, p)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q in batches of %d rows or %d bytes:\n%v, want\n%v", p, rows, size, got, want)
	}
}

// alphabet contains the characters that delimit records and fields, and some letters.
var alphabet = []string{`"`, `""`, "\n", "\r\n", "\r", ",", "\t", `\`, `\N`, "a", "b", " ", "\xef\xbb\xbf", "\xff", `{"a":`, `}`, "1", "[", "]", "{}"}

func soup(rng *rand.Rand, n int) []byte {
	var out []byte
	for range n {
		out = append(out, alphabet[rng.IntN(len(alphabet))]...)
	}
	return out
}

var formats = []*Format{{Kind: CSV}, {Kind: CSV, NoHeader: true}, {Kind: TSV}, {Kind: TSV, NoHeader: true}, {Kind: JSONL},
	{Kind: JSON}, {Kind: CSV, Escape: true, Comment: "1", SkipLines: 1}}

func TestBatchesHaveTheRowsOfTheWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 3000 {
		f := formats[i%len(formats)]
		checkBatches(t, f, soup(rng, rng.IntN(60)), rng)
		if t.Failed() {
			return
		}
	}
}

func FuzzBatches(f *testing.F) {
	f.Add([]byte("a,b,c\n\"1\n\",2,3\n\n\"4,5,6\n"), byte(0), uint64(1))
	f.Add([]byte("a\tb\tc\n1\\\n\t2\t\\N\n"), byte(2), uint64(2))
	f.Add([]byte("[{\"a\":1},\n{\"b\":\"\\\"]\"}\n]\n"), byte(5), uint64(4))
	f.Add([]byte("x\n1,\"\n\"2\",\"a\\\"\n\",3\n"), byte(6), uint64(5))
	f.Add([]byte("{\"a\":1}\n\n{\"b\":\"\\ud800\"}"), byte(4), uint64(3))
	f.Fuzz(func(t *testing.T, p []byte, which byte, seed uint64) {
		if len(p) > 2000 {
			return
		}
		checkBatches(t, formats[int(which)%len(formats)], p, rand.New(rand.NewPCG(seed, seed)))
	})
}

// TestLongQuotedRecordsInBatches uses records that end with their line because their
// closing quote is too far away, and cuts within the quoted range.
func TestLongQuotedRecordsInBatches(t *testing.T) {
	f := &Format{Kind: CSV, NoHeader: true}
	var p []byte
	p = append(p, "\"stray,2,3\n"...)
	for i := 0; len(p) < maxQuoted+4000; i++ {
		p = fmt.Appendf(p, "%d,b,%s\n", i, strings.Repeat("c", 3000))
	}
	p = append(p, "x,\"y\n\",z\n\"end,of,it\n"...)
	whole, want := parsed(NewParser(texts(f, 3)), p)
	if len(whole.Rejected) != 2 || int(whole.Rows) != bytes.Count(p, []byte("\n"))-1 {
		t.Fatalf("%d of %d rows are rejected, want the two with stray quotes", len(whole.Rejected), whole.Rows)
	}
	for _, rows := range []int{1, 7, 100, 100000} {
		batches, err := cutAll(t, f, bytes.NewReader(p), rows, 64<<20)
		must(t, err)
		var got []row
		parser := NewParser(texts(f, 3))
		for _, b := range batches {
			parser.Parse(b)
			got = append(got, rowsOf(parser, b.From)...)
		}
		if !slices.Equal(got, want) {
			t.Errorf("in batches of %d rows there are %d, want %d, or they differ", rows, len(got), len(want))
		}
	}
}

// randomField returns text for encoding/csv, never the text of NULL.
func randomField(rng *rand.Rand) string {
	var s strings.Builder
	for range rng.IntN(6) {
		s.WriteString([]string{`"`, ",", "\n", "\r\n", "\r", "a", "ü", " ", "\\", ";", "\t"}[rng.IntN(11)])
	}
	return s.String()
}

// TestReadsWhatCSVWriters reads rows written by encoding/csv.
func TestReadsWhatCSVWriters(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 500 {
		var want []string
		var out bytes.Buffer
		w := csv.NewWriter(&out)
		delimiter := []rune{',', ';', '|', '\t'}[rng.IntN(4)]
		w.Comma = delimiter
		for range 1 + rng.IntN(20) {
			fields := []string{randomField(rng), randomField(rng), randomField(rng)}
			must(t, w.Write(fields))
			text := ""
			for _, s := range fields {
				if s == "" {
					s = "NULL"
				}
				text += "[" + s + "]"
			}
			want = append(want, text)
		}
		w.Flush()
		_, rows := parsed(NewParser(texts(&Format{Kind: CSV, NoHeader: true, Delimiter: byte(delimiter)}, 3)), out.Bytes())
		var got []string
		for _, r := range rows {
			got = append(got, r.text)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%q:\n%q, want\n%q", out.Bytes(), got, want)
		}
	}
}

// TestStrayQuoteCostsItsLineOnly inserts one superfluous quote into a valid file.
func TestStrayQuoteCostsItsLineOnly(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	f := &Format{Kind: CSV, NoHeader: true}
	for range 2000 {
		var lines []string
		for range 1 + rng.IntN(12) {
			var fields []string
			for range 3 {
				s := []string{"a", "bc", "10.5", "x y"}[rng.IntN(4)]
				if rng.IntN(3) == 0 {
					s = `"` + s + []string{"", ",", `""z`}[rng.IntN(3)] + `"`
				}
				fields = append(fields, s)
			}
			lines = append(lines, strings.Join(fields, ","))
		}
		_, want := parsed(NewParser(texts(f, 3)), []byte(strings.Join(lines, "\r\n")+"\r\n"))
		bad := rng.IntN(len(lines))
		fields := strings.Split(lines[bad], ",a")
		i := rng.IntN(len(fields))
		if i == 0 && strings.HasPrefix(lines[bad], `"`) || i > 0 && strings.HasPrefix(fields[i], `"`) {
			continue
		}
		if i > 0 {
			fields[i] = `,"a` + fields[i]
			lines[bad] = strings.Join(fields[:i], ",a") + strings.Join(fields[i:], ",a")
		} else {
			lines[bad] = `"` + lines[bad]
		}
		p, got := parsed(NewParser(texts(f, 3)), []byte(strings.Join(lines, "\r\n")+"\r\n"))
		if len(p.Rejected) != 1 || p.Rejected[0].Line != int64(bad+1) || string(p.Rejected[0].Row) != lines[bad] || len(got) != len(want) {
			t.Fatalf("%q with a stray quote in line %d: %v", lines, bad+1, got)
		}
		for i := range got {
			if i != bad && got[i].text != want[i].text {
				t.Fatalf("%q: line %d has %s, want %s", lines, i+1, got[i].text, want[i].text)
			}
		}
	}
}

// TestReadErrorAfterRows checks that complete records read before a stream's error
// are returned.
func TestReadErrorAfterRows(t *testing.T) {
	broken := errors.New("the stream broke")
	rng := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct{ in, want string }{
		{"a,b\n1,2\n3,4\n5", "a,b\n1,2\n3,4\n"},
		{"a,b\n1,2\n3,\"4\n", "a,b\n1,2\n"}, // may continue
		{"a,b\n", "a,b\n"},
		{"a", ""},
		{"", ""},
	} {
		for _, most := range []int{1, 100} {
			batches, err := cutAll(t, &Format{Kind: CSV}, &pieces{[]byte(c.in), most, rng, broken}, 2, 1<<20)
			if !errors.Is(err, broken) {
				t.Errorf("%q: %v, want the error of the stream", c.in, err)
			}
			var got []byte
			for _, b := range batches {
				got = append(got, b.Data...)
			}
			if string(got) != c.want {
				t.Errorf("%q: %q came before the error, want %q", c.in, got, c.want)
			}
		}
	}
}

// TestAgain cuts a source a second time, at the recorded cuts.
func TestAgain(t *testing.T) {
	data := []byte("a,b\n1,\"2\n\"\n3,4\n5,6")
	f := &Format{Kind: CSV}
	first, err := cutAll(t, f, bytes.NewReader(data), 1, 1<<20)
	if err != nil || len(first) != 3 {
		t.Fatalf("%d batches, %v", len(first), err)
	}
	ctx, stop := context.WithCancel(t.Context())
	c := NewCutter(ctx, &pieces{data, 3, rand.New(rand.NewPCG(1, 1)), io.EOF}, f, 1, 1<<20, 0)
	defer c.Wait(stop)
	for _, b := range first {
		again, err := c.Again(ctx, b.Cut)
		if err != nil || again.Cut != b.Cut || !bytes.Equal(again.Data, b.Data) {
			t.Errorf("%+v, %v; want %+v", again, err, b.Cut)
		}
	}
	if c.Total() != HashOf(data) {
		t.Error("the hash of all isn't the data's")
	}
	if _, err := c.Again(ctx, state.Cut{From: int64(len(data)), To: int64(len(data)) + 1}); !errors.Is(err, ErrEnds) {
		t.Errorf("behind the end: %v", err)
	}
	s := NewCutter(ctx, bytes.NewReader(data), f, 1, 1<<20, 0)
	if hash, err := s.Skip(ctx, 11, 3); err != nil || hash != HashOf(data[:11]) || s.At != 11 || s.Line != 4 {
		t.Errorf("skip: %s, %v; it is at %d, line %d", hash, err, s.At, s.Line)
	}
	if b, err := s.Next(ctx); err != nil || string(b.Data) != "3,4\n" || b.Line != 4 || b.First {
		t.Errorf("after skipping: %q, %v", b.Data, err)
	}
	if _, err := s.Skip(ctx, 100, 9); !errors.Is(err, ErrEnds) {
		t.Errorf("skip beyond the end: %v", err)
	}
}

// TestFlush checks that rows of a slow stream are sent without waiting for a full
// batch, and that bytes read are kept when the load ends.
func TestFlush(t *testing.T) {
	in, out := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	c := NewCutter(ctx, in, &Format{Kind: CSV}, 100, 1<<20, time.Millisecond)
	go func() { _, _ = out.Write([]byte("a,b\n1,2\n3")) }()
	b, err := c.Next(ctx)
	if err != nil || string(b.Data) != "a,b\n1,2\n" {
		t.Fatalf("%v, %v", b, err)
	}
	if _, err := out.Write([]byte(",4\n\"5")); err != nil {
		t.Fatal(err)
	}
	for !bytes.Contains(c.buf, []byte("5")) {
		must(t, c.fill(ctx, nil))
	}
	go func() { // an in-memory pipe can't be polled like a system pipe
		time.Sleep(50 * time.Millisecond)
		out.Close()
	}()
	var rest []string
	stop()
	if err := c.Each(ctx, stop, func(b *Batch) error {
		rest = append(rest, string(b.Data))
		return nil
	}); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if len(rest) != 1 || !strings.HasPrefix(rest[0], "3,4\n") {
		t.Errorf("rest: %q", rest)
	}
	c.Wait(stop)
}
