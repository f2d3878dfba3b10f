package format

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
)

// schemaOf returns a table with columns of text, except those in bytes.
func schemaOf(names []string, inBytes ...string) *engine.Schema {
	s := &engine.Schema{Name: "t"}
	for _, name := range names {
		c := engine.SchemaColumn{Name: name, Type: value.Type{Kind: value.Text}, Null: true}
		for _, b := range inBytes {
			if b == name {
				c.Type.Kind = value.Bytes
			}
		}
		s.Columns = append(s.Columns, c)
	}
	return s
}

// textOf returns the text as which a Parquet file is read.
func textOf(path string, s *engine.Schema, names []string) (string, error) {
	in, _, err := OpenParquet(path, s, &Format{Columns: names})
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(in)
	return string(text), errors.Join(err, in.Close())
}

// TestParquetOfAnotherWriter reads files that pyarrow wrote (testdata/make_parquet.py). A
// text that differs from these would make partly loaded files count as changed.
func TestParquetOfAnotherWriter(t *testing.T) {
	all := strings.Fields("sensor ts ms ns utc day clock_ms clock_us dec9 dec38 text dict bin fixed yes u8 u32 u64 i64 f32 f64")
	rows := [][]string{
		{"1", "2026-03-29 01:00:00", "1969-12-31 23:59:59.999", "2026-01-02 03:04:05.678901", "2026-01-02 03:04:05.678901Z", "2026-01-02", "01:02:03", "01:02:03",
			"1234567.89", "123456789012345678901234567890.12345678", `a\tb\\c\nd\re`, "NULL", "00ff", "abcd", "1", "255", "4294967295", "18446744073709551615",
			"-9223372036854775808", "0.10000000149011612", "0.1"},
		append([]string{"2", "2026-03-29 01:00:00.25"}, strings.Fields(strings.Repeat(`\N `, 19))...),
		{"-3", "2026-03-29 02:00:00", "2026-01-02 00:00:00", "2026-01-02 00:00:00", "2026-01-02 00:00:00Z", "1969-12-31", "23:59:59.999", "23:59:59.999999",
			"-0.05", "-0.00000001", "", `\\N`, "", "efgh", "0", "0", "0", "0", "9223372036854775807", "9.999999680285692e+37", "5e-324"},
	}
	want := ""
	for _, row := range rows {
		want += strings.Join(row, "\t") + "\n"
	}
	got, err := textOf("testdata/pyarrow.parquet", schemaOf(all, "bin"), all)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	some := strings.Fields("ms sensor ts")
	got, err = textOf("testdata/pyarrow-int96.parquet", schemaOf(some), []string{"MS", "sensor", "ts"})
	want = "1969-12-31 23:59:59.999\t1\t2026-03-29 01:00:00\n\\N\t2\t2026-03-29 01:00:00.25\n2026-01-02 00:00:00\t-3\t2026-03-29 02:00:00\n"
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("int96: %v\n%s", err, diff)
	}
	for _, c := range []struct {
		names []string
		in    string // names of the table's columns, if not all
		want  string
	}{
		{nil, "", "column list has several values in a row"},
		{[]string{"sensor", "struct"}, "", "column struct has several values in a row"},
		{[]string{"sensor", "none"}, "", "it has no column none; its columns are sensor, ts"},
		{[]string{"sensor", "ts"}, "sensor", "column ts isn't one of table t, whose columns are sensor"},
	} {
		s := schemaOf(append([]string{"list", "struct", "none"}, all...))
		if c.in != "" {
			s = schemaOf([]string{c.in})
		}
		if _, err := textOf("testdata/pyarrow.parquet", s, c.names); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.names, err, c.want)
		}
	}
}

// TestParquetSkipped: columns that are to be skipped must be there.
func TestParquetSkipped(t *testing.T) {
	path := writeParquet(t, 1, &parquet.Snappy, 1)
	for name, want := range map[string]string{"NOTE": "", "colour": "--skip-columns colour: the columns of the source are sensor, ts, note"} {
		in, names, err := OpenParquet(path, schemaOf(writtenColumns), &Format{SkipColumns: []string{name}})
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		must(t, err)
		if must(t, in.Close()); !slices.Equal(names, []string{"sensor", "ts"}) {
			t.Errorf("%s: %v", name, names)
		}
	}
}

// writeParquet writes n rows of sensor and ts into a file with small row groups.
func writeParquet(t testing.TB, n int, codec compress.Codec, group int64) string {
	t.Helper()
	type row struct {
		Sensor int32   `parquet:"sensor"`
		TS     int64   `parquet:"ts,timestamp(microsecond)"`
		Note   *string `parquet:"note"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[row](&b, parquet.Compression(codec), parquet.MaxRowsPerRowGroup(group), parquet.PageBufferSize(512))
	for i := range n {
		note := fmt.Sprint("note ", i)
		r := row{int32(i), int64(i) * 1e6, &note}
		if i%3 == 0 {
			r.Note = nil
		}
		if _, err := w.Write([]row{r}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

var writtenColumns = []string{"sensor", "ts", "note"}

// TestParquetCodecs reads files of all codecs, over several pages and row groups, and
// without rows.
func TestParquetCodecs(t *testing.T) {
	for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Zstd, &parquet.Lz4Raw, &parquet.Brotli} {
		for _, n := range []int{0, 1, 2000} {
			got, err := textOf(writeParquet(t, n, codec, 700), schemaOf(writtenColumns), nil)
			if lines := strings.Count(got, "\n"); err != nil || lines != n {
				t.Errorf("%s: %d rows, want %d: %v", codec, lines, n, err)
			}
			if n == 2000 && (!strings.HasSuffix(got, "1999\t1970-01-01 00:33:19Z\tnote 1999\n") || !strings.HasPrefix(got, "0\t1970-01-01 00:00:00Z\t\\N\n1\t")) {
				t.Errorf("%s: %.40q ... %q", codec, got, got[len(got)-40:])
			}
		}
	}
}

func TestParquetDecimals(t *testing.T) {
	for _, c := range []struct {
		v    parquet.Value
		want string
	}{
		{parquet.Int32Value(-5), "-0.05"},
		{parquet.Int64Value(12345), "123.45"},
		{parquet.ByteArrayValue([]byte{0xff}), "-0.01"},
		{parquet.FixedLenByteArrayValue(big.NewInt(1 << 40).Bytes()), "10995116277.76"},
		{parquet.ByteArrayValue(nil), "0.00"},
	} {
		if got := string(parquetDecimal(c.v.Kind(), 2)(nil, c.v)); got != c.want {
			t.Errorf("%v: %s, want %s", c.v, got, c.want)
		}
	}
}

// TestDamagedParquet truncates a file and changes its bytes: reading it fails or returns
// rows, and never panics.
func TestDamagedParquet(t *testing.T) {
	whole, err := os.ReadFile(writeParquet(t, 300, &parquet.Snappy, 100))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "damaged.parquet")
	read := func(data []byte) (string, error) {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return textOf(path, schemaOf(writtenColumns), nil)
	}
	for n := 0; n < len(whole); n += 37 {
		if _, err := read(whole[:n]); err == nil || !strings.Contains(err.Error(), "damaged.parquet") {
			t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	for i := 4; i < len(whole); i += 41 {
		data := bytes.Clone(whole)
		data[i] ^= 0x55
		_, _ = read(data) // a checksum is optional, so that not every change is found
	}
	if _, err := read([]byte("sensor,ts\n1,2\n")); err == nil || !strings.Contains(err.Error(), "doesn't begin with PAR1") {
		t.Error(err)
	}
}

// TestHostileParquet: what a file says that it has is compared with the file before memory is
// reserved for it.
func TestHostileParquet(t *testing.T) {
	whole, err := os.ReadFile(writeParquet(t, 5, &parquet.Snappy, 100))
	must(t, err)
	path := filepath.Join(t.TempDir(), "hostile.parquet")
	// The first page begins behind the magic. Its header is written anew in each case, which
	// leaves the description at the end as it is.
	var protocol thrift.CompactProtocol
	n, err := thriftEnd(whole[len(parquetMagic):])
	must(t, err)
	var head format.PageHeader
	must(t, thrift.Unmarshal(&protocol, whole[len(parquetMagic):len(parquetMagic)+n], &head))
	page := func(change func(h *format.PageHeader)) []byte {
		h := head
		change(&h)
		written, err := thrift.Marshal(&protocol, h)
		must(t, err)
		return slices.Concat(whole[:len(parquetMagic)], written, whole[len(parquetMagic)+n:])
	}
	footer := func(text string) []byte {
		out := append([]byte(parquetMagic), text...)
		return append(binary.LittleEndian.AppendUint32(out, uint32(len(text))), parquetMagic...)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"compressed":   {page(func(h *format.PageHeader) { h.CompressedPageSize = 1 << 30 }), "damaged"},
		"uncompressed": {page(func(h *format.PageHeader) { h.UncompressedPageSize = 1 << 30 }), "damaged"},
		"values": {page(func(h *format.PageHeader) {
			h.DataPageHeader.V.NumValues, h.DataPageHeaderV2.V.NumValues, h.DictionaryPageHeader.V.NumValues = 1<<30, 1<<30, 1<<30
		}), "damaged"},
		"list":         {footer("\x15\x02\x29\xfc\x80\x80\x80\x80\x04" + strings.Repeat("\x00", 100)), "can't be read"},
		"text":         {footer("\x15\x02\x18\x80\x80\x80\x80\x04"), "can't be read"},
		"nested":       {footer(strings.Repeat("\x1c", 1<<20)), "can't be read"},
		"footer":       {append(append([]byte(parquetMagic), 0xff, 0xff, 0xff, 0x7f), parquetMagic...), "can't be read"},
		"only a magic": {[]byte(parquetMagic), "can't be read"},
	} {
		must(t, os.WriteFile(path, c.data, 0o600))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := textOf(path, schemaOf(writtenColumns), nil)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; err == nil || !strings.Contains(err.Error(), c.want) || used > 64<<20 {
			t.Errorf("%s: %d MiB, %v", name, used>>20, err)
		}
	}
}

// FuzzParquet reads damaged files.
func FuzzParquet(f *testing.F) {
	for _, n := range []int{0, 5} {
		data, err := os.ReadFile(writeParquet(f, n, &parquet.Uncompressed, 3))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	s := schemaOf(writtenColumns, "note")
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parquetFile(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		func() {
			defer parquetPanic(&err)
			r := &parquetReader{in: &Input{}, file: bytes.NewReader(data), of: p, rows: max(p.NumRows(), 1)}
			if _, err := r.choose(p.Root(), s, &Format{}); err != nil {
				return
			}
			defer r.close()
			_, _ = io.Copy(io.Discard, io.LimitReader(r, 1<<20))
		}()
	})
}

func BenchmarkParquet(b *testing.B) {
	path := writeParquet(b, 100_000, &parquet.Snappy, 50_000)
	s := schemaOf(writtenColumns)
	b.ReportAllocs()
	for b.Loop() {
		in, _, err := OpenParquet(path, s, &Format{})
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, in)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(n)
		if err := in.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
