package format

import (
	"bufio"
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/text/encoding/htmlindex"

	"github.com/rowmill/rowmill/internal/engine"
)

// TestRowsByOptions reads rows with the options on how they are written.
func TestRowsByOptions(t *testing.T) {
	const some, all = "sensor,ts,value,note", "sensor,ts,value,note,more,raw,price,doc"
	const day = "2026-03-29"
	csv := &Format{Kind: CSV, NoHeader: true}
	for _, c := range []struct {
		f       *Format
		columns string
		in      string
		want    string // the row, or a part of the reason for its rejection
	}{
		{&Format{Kind: CSV, NoHeader: true, Nulls: []string{"NA", "", "-"}}, all, `1,` + day + `,NA,"NA",-,NA,NA,`, `[1][2026-03-29 00:00:00][NULL][NA][NULL][NULL][NULL][NULL]`},
		{&Format{Kind: CSV, NoHeader: true, Nulls: []string{"NA"}}, all, `1,` + day + `,NA,"NA",\N,,,`, `[1][2026-03-29 00:00:00][NULL][NA][\N][NULL][NULL][NULL]`},
		{&Format{Kind: CSV, NoHeader: true, Nulls: []string{"NA"}, NullQuoted: true}, all, `1,` + day + `,"NA",x,"NA","",,`, `[1][2026-03-29 00:00:00][NULL][x][NULL][][NULL][NULL]`},
		{&Format{Kind: CSV, NoHeader: true, Nulls: []string{""}, NullQuoted: true}, all, `1,` + day + `,"",x,"","","",`, `[1][2026-03-29 00:00:00][NULL][x][NULL][NULL][NULL][NULL]`},
		{&Format{Kind: CSV, NoHeader: true, Nulls: []string{""}}, some, `1,` + day + `,1,`, "rejected: noteit is NULL"},
		{&Format{Kind: TSV, NoHeader: true, Nulls: []string{""}}, all, "1\t" + day + "\t\tx\t\t\t\t", "[1][2026-03-29 00:00:00][NULL][x][NULL][NULL][NULL][NULL]"},
		{&Format{Kind: JSONL, Nulls: []string{"NA"}, NullQuoted: true}, some, `{"sensor":1,"ts":"2026-03-29","note":"x","value":"NA"}`, "[1][2026-03-29 00:00:00][NULL][x]"},
		{&Format{Kind: JSONL, SkipColumns: []string{"Colour"}}, some, `{"sensor":1,"ts":"2026-03-29","note":"x","colour":1}`, "[1][2026-03-29 00:00:00][NULL][x]"},
		{&Format{Kind: JSONL, Set: []Constant{{"note", "x"}}}, "sensor,ts,value", `{"sensor":1,"ts":"2026-03-29"}`, "[1][2026-03-29 00:00:00][NULL][x]"},
		{&Format{Kind: JSONL, Set: []Constant{{"note", "x"}}}, "sensor,ts,value", `{"sensor":1,"ts":"2026-03-29","note":"y"}`, `it has key "note", which --set gives a value`},
		{&Format{Kind: CSV, NoHeader: true, Set: []Constant{{"ts", day}}}, "-,sensor,note", `a,1,x`, "[1][x][2026-03-29 00:00:00]"},
		{&Format{Kind: CSV, NoHeader: true, Set: []Constant{{"ts", day}}}, "-,sensor,note", `a,1`, "it has 2 fields for 3 columns"},
		{&Format{Kind: CSV, NoHeader: true, Escape: true}, some, `1,` + day + `,\N,"a \"b\", ""c"" \\ \n\N"`, "[1][2026-03-29 00:00:00][NULL][a \"b\", \"c\" \\ \nN]"},
		{&Format{Kind: CSV, NoHeader: true, Escape: true}, some, `1,` + day + `,1,a\,b\"c`, `[1][2026-03-29 00:00:00][1][a,b"c]`},
		{csv, some, `1,` + day + `,1,"a \"b\""`, "--escape backslash"},
		{csv, some, `1,06/05/2024,1,x`, "--time-format reads other forms"},
		{csv, some, `1,1715000000,1,x`, "--unix-times s, ms, us or ns reads numbers"},
		{csv, some, `1,` + day + `,"1,5",x`, "--decimal-comma, if it is"},
		{csv, some, `1,` + day + ` 00:00:00.0000001,1,x`, "--truncate-times cuts"},
		{csv, some, `1,` + day + ",1,\xff", "--encoding latin1, if"},
		{&Format{Kind: JSONL}, some, `{"sensor":1,"value":NaN}`, "it is not a JSON object: byte 21: invalid character 'N'"},
		{&Format{Kind: JSONL}, some, `{"sensor":1,}`, "it is not a JSON object: byte 13: invalid character '}'"},
	} {
		p := parserOf(t, c.f, c.columns)
		p.Parse(bytesOf([]byte(c.in), 1, 0, true))
		got := rowsOf(p, 0)
		if len(got) != 1 || strings.HasPrefix(c.want, "[") && got[0].text != c.want || !strings.Contains(got[0].text, c.want) {
			t.Errorf("%q: %v, want %s", c.in, got, c.want)
		}
	}
}

// TestDecimalComma reads numbers with a decimal comma, also where JSON has them as strings.
func TestDecimalComma(t *testing.T) {
	db, table, schema := measurements(t)
	o := &Reading{Table: table, Schema: schema}
	o.Values.DecimalComma = true
	for _, c := range []struct{ in, want string }{
		{`{"sensor":1,"ts":"2026-03-29","note":"1,5.2","value":"-1,5","price":"2,25"}`, "[1][2026-03-29 00:00:00][-1.5][1,5.2][2.25]"},
		{`{"sensor":1,"ts":"2026-03-29","note":"","value":1.5,"price":2.25}`, "[1][2026-03-29 00:00:00][1.5][][2.25]"},
		{`{"sensor":1,"ts":"2026-03-29","note":"","value":"1.234,5"}`, "it has a point, and --decimal-comma"},
		{`{"sensor":1,"ts":"2026-03-29","note":"","value":"1,2,3"}`, "it is not a number"},
		{`{"sensor":"1.234","ts":"2026-03-29","note":""}`, "it has a point"},
	} {
		target, err := NewTarget(db.Capabilities(), &Format{Kind: JSONL}, strings.Split("sensor,ts,value,note,price", ","), o)
		must(t, err)
		p := NewParser(target)
		p.Parse(bytesOf([]byte(c.in), 1, 0, true))
		if got := rowsOf(p, 0); len(got) != 1 || !strings.Contains(got[0].text, c.want) {
			t.Errorf("%s: %v, want %s", c.in, got, c.want)
		}
	}
}

// TestBeginnings cuts sources whose rows don't begin at their first byte, read in pieces.
func TestBeginnings(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		f    Format
		in   string
		want string // the lines of the rows, and their first fields
	}{
		{Format{Kind: CSV, SkipLines: 2}, "report \"of\nmarch\na,b,c\n1,2,3\n", "4:1 "},
		{Format{Kind: CSV, SkipLines: 2, NoHeader: true}, "\xef\xbb\xbfreport \"of\nmarch\n1,2,3\n4,5,6", "3:1 4:4 "},
		{Format{Kind: CSV, Comment: "#"}, "\xef\xbb\xbf#x\n# \"y\na,b,c\n1,2,3\n#4,5,\"\n7,8,9\n#", "4:1 6:7 "},
		{Format{Kind: CSV, Comment: "--", SkipLines: 1}, "x\n-- y\n-a,b,c\n-1,2,3\n--4,5,6\n-7,8,9\n-", "4:-1 6:-7 7:rejected: it has 1 field for 3 columns "},
		{Format{Kind: CSV, Comment: "#", NoHeader: true}, "#x\n1,2,3\n", "2:1 "},
		{Format{Kind: TSV, Comment: "#"}, "#x\\\na\tb\tc\n1\t2\t3\n#\\\n4\t5\t6\n", "3:1 5:4 "},
		{Format{Kind: CSV, SkipLines: 9}, "a\nb\n", ""},
		{Format{Kind: CSV, Comment: "#"}, "#a\n#b", ""},
		{Format{Kind: JSON}, "\xef\xbb\xbf\n [\n {\"a\":1,\n \"b\":\"a]},\\\"\"},\n\n{\"a\":{\"x\":\"]}\"}}\n , {\"a\":null} ]\n\n", "3:1 6:{\"x\":\"]}\"} 7:NULL "},
		{Format{Kind: JSON}, "[]", ""},
		{Format{Kind: JSON}, "[{\"a\":1},5,{\"a\":2},]", "1:1 1:rejected: it is not a JSON object 1:2 "},
		{Format{Kind: JSON}, "[{\"a\":1},[{\"a\":5},{\"a\":6}],{\"a\":2}] [{\"a\":3}]", "1:1 1:rejected: it is not a JSON object 1:2 1:rejected: it is not a JSON object: byte 8: unexpected end of JSON input "},
		{Format{Kind: JSON}, "[[{\"a\":1}],{\"a\":2}]", "1:rejected: it is not a JSON object 1:2 "},
		{Format{Kind: JSON}, "[{\"a\":1}{\"a\":2},,{\"a\":3}]", "1:rejected: it is not a JSON object: byte 8: invalid character '{' after top-level value 1:rejected: it is not a JSON object: byte 0: unexpected end of JSON input 1:3 "},
	} {
		for range 20 {
			checkBatches(t, &c.f, []byte(c.in), rng)
		}
		_, rows := parsed(NewParser(texts(&c.f, 3)), []byte(c.in))
		got := ""
		for _, r := range rows {
			text, _, _ := strings.Cut(strings.TrimPrefix(r.text, "["), "][")
			text, _, _ = strings.Cut(strings.TrimSuffix(text, "]"), "object:")
			if strings.HasPrefix(text, "rejected") {
				text = r.text[:strings.LastIndex(r.text, ": ")]
			}
			got += strings.TrimSpace(string(rune('0'+r.line))+":"+text) + " "
		}
		if got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}

// TestBrokenArrays: what is before the damage is cut, and then there is an error.
func TestBrokenArrays(t *testing.T) {
	for in, want := range map[string]string{
		`[{"a":1},{"a":2}`:              "line 1: " + errOpenArray.Error(),
		"[{\"a\":1},\n":                 errOpenArray.Error(),
		`[{"a":1},`:                     errOpenArray.Error(),
		"[{\"a\":1},\n{\"a\":\"x":       "line 2: " + errOpenArray.Error(),
		"[{\"a\":1},\n{\"a\":\"x\n\"}]": "line 2: " + errOpenString.Error(),
	} {
		got, err := cutAll(t, &Format{Kind: JSON}, strings.NewReader(in), 1, 1000)
		if len(got) != 1 || string(got[0].Data) != `[{"a":1},` || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d batches, %v; want one, and %s", in, len(got), err, want)
		}
	}
}

// TestEncodings reads text that isn't UTF-8.
func TestEncodings(t *testing.T) {
	const text = "name\tplace\n\"Jos\u00e9 \"\"\u20ac\"\"\"\tK\u00f6ln\n"
	encode := func(name string) []byte {
		e, err := htmlindex.Get(name)
		must(t, err)
		out, err := e.NewEncoder().Bytes([]byte(text))
		must(t, err)
		return out
	}
	little, big := encode("utf-16le"), encode("utf-16be")
	for _, c := range []struct {
		in             []byte
		encoding, want string
		wide           bool
	}{
		{[]byte(text), "", text, false},
		{encode("windows-1252"), "latin1", text, false},
		{encode("windows-1252"), "CP1252", text, false},
		{encode("iso-8859-15"), "latin-9", text, false},
		{append([]byte("\xff\xfe"), little...), "", text, true},
		{append([]byte("\xfe\xff"), big...), "", text, true},
		{append([]byte("\xfe\xff"), big...), "utf-16", text, true},
		{little, "utf-16le", text, false},
		{big, "utf-16be", text, false},
		{pack(t, ".gz", append([]byte("\xff\xfe"), little...)), "", text, true},
		{[]byte("\xff\xfea\x00\x00\xd8b\x00c"), "", "a\xffb\xff", true}, // half of a pair, and of a unit
		{[]byte("a\x81\x40"), "gb18030", "a\u4e02", false},
		{[]byte("\xff"), "", "\xff", false},
	} {
		name := c.encoding
		if name == "latin-9" {
			name = "iso-8859-15"
		}
		canonical := ""
		if name != "" {
			var err error
			canonical, err = Encoding(name)
			must(t, err)
		}
		for _, most := range []int{1, 3, 10000} {
			in, err := OpenStream(t.Context(), &pieces{c.in, most, rand.New(rand.NewPCG(5, 6)), io.EOF}, canonical)
			must(t, err)
			got, err := io.ReadAll(in)
			if err != nil || string(got) != c.want || in.wide != c.wide {
				t.Errorf("%q as %q: %q, %v, wide: %v; want %q", c.in, c.encoding, got, err, in.wide, c.want)
			}
		}
	}
	for _, name := range []string{"", "latin", "iso-2022-kr", "\x00"} {
		if _, err := Encoding(name); err == nil {
			t.Errorf("encoding %q is known", name)
		}
	}
	long := append([]byte("\xff\xfe"), bytes.Repeat(little, 20000)...)
	path := filepath.Join(t.TempDir(), "day.csv")
	must(t, os.WriteFile(path, long, 0o600))
	if got, err := readFile(path); err != nil || string(got) != strings.Repeat(text, 20000) {
		t.Errorf("%d bytes of a long text, %v", len(got), err)
	}
}

// TestDetectBehind: lines that are skipped don't tell the format, of files and of streams.
func TestDetectBehind(t *testing.T) {
	for _, c := range []struct {
		f        Format
		in, want string
	}{
		{Format{SkipLines: 1}, "report, of, march\na\tb\n1\t2\n", "tsv"},
		{Format{SkipLines: 2}, "{\n\"a\nx,y\n", "csv"},
		{Format{Comment: "#"}, "# a, b, c\n#\nx\ty\n", "tsv"},
		{Format{Comment: "#", SkipLines: 1, NoHeader: true}, "a,b\n# c,d\n1\t2\n", "tsv"},
		{Format{SkipLines: 9}, "a\tb\n", "csv"},
	} {
		file := c.f
		must(t, file.Detect(&Input{Reader: bufio.NewReaderSize(strings.NewReader(c.in), blockSize)}, true))
		stream := c.f
		must(t, stream.Detect(&Input{Reader: bufio.NewReaderSize(iotest.OneByteReader(strings.NewReader(c.in)), blockSize)}, false))
		if string(file.Kind) != c.want || string(stream.Kind) != c.want {
			t.Errorf("%q: %s, %s as a stream, want %s", c.in, file.Kind, stream.Kind, c.want)
		}
	}
}

func TestDetect(t *testing.T) {
	for in, want := range map[string]string{
		"a,b\n1,2\n": "csv", "a\n": "csv", "": "csv", "a;b\n": "csv", "a\tb\n": "tsv", "a\tb,c\n": "tsv", "a\tb,c,d\n": "csv",
		"\"a\"\tb\n": "csv tab", "a\t\"b\"\n": "csv tab", "\xff\xfea\x00\t\x00b\x00\n\x00": "csv tab",
		" \n[ {": "json", "\xef\xbb\xbf[]": "json", "{\"a\":1}\n": "jsonl", "{\"a\":1": "jsonl",
		"{\n\"a\": [": "neither in an array nor in one line", "PAR1\x15": "parquet", "a\x00b": "byte 1 is zero",
		"m,a=b c=1,d=\"e f\" 1774746000000000000\n": "lineprotocol", "# note\nm c=1i 5\r\nm c=2i 6": "lineprotocol",
		"m c=1\n": "csv", "m,a=b 5\n": "csv", "a b,c=d e\n": "csv", "sensor,ts=x,value\n": "csv",
	} {
		for _, packed := range []bool{false, true} {
			path := filepath.Join(t.TempDir(), "day")
			content := []byte(in)
			if packed {
				content = pack(t, ".gz", content)
			}
			must(t, os.WriteFile(path, content, 0o600))
			f, err := OfFile(t.Context(), path, Format{})
			got := string(f.Kind)
			if f.Delimiter == '\t' {
				got += " tab"
			}
			if err != nil {
				got = err.Error()
			}
			if !strings.HasSuffix(got, want) && (err == nil || !strings.Contains(got, want)) {
				t.Errorf("%q: %s, want %s", in, got, want)
			}
		}
	}
}

// FuzzDetect: the format of a content is one that can be read, and the same however it arrives.
func FuzzDetect(f *testing.F) {
	for _, s := range []string{"a,b\n", "a\tb\n", "\"a\"\tb\n", "[{\"a\":1}]", "{\"a\":1}\n", "m a=1 5\n", "#x\nm a=\"b\n\" 5\n", "PAR1", "PGDMP", "-- MySQL dump \n", "PK\x03\x04",
		"\xff\xfea\x00\t\x00", "a\x00", "\xd0\xcf\x11\xe0"} {
		f.Add([]byte(s), 0, "")
		f.Add([]byte("x\n# y\n"+s), 1, "#")
	}
	f.Fuzz(func(t *testing.T, p []byte, skip int, comment string) {
		given := Format{SkipLines: max(skip, 0) % 100, Comment: comment, Dumps: []engine.Dump{backslashed, standard}}
		detected := func(r io.Reader) (Format, error) {
			own := given
			return own, own.Detect(&Input{Reader: bufio.NewReaderSize(r, blockSize)}, true)
		}
		one, err := detected(bytes.NewReader(p))
		other, otherErr := detected(iotest.OneByteReader(bytes.NewReader(p)))
		if one.Kind != other.Kind || one.Delimiter != other.Delimiter || (err == nil) != (otherErr == nil) {
			t.Fatalf("%q: %s %v, in pieces %s %v", p, one.Kind, err, other.Kind, otherErr)
		}
		if err == nil && (KindOf("x."+string(one.Kind)) == "" && one.Kind != JSON && one.Kind != Dump && one.Kind != LineProtocol || one.Kind == Dump && one.dump == nil) {
			t.Errorf("%q: %q", p, one.Kind)
		}
	})
}

// FuzzEncoding: text in an encoding becomes UTF-8, the same however it arrives.
func FuzzEncoding(f *testing.F) {
	for i := range Encodings() {
		f.Add([]byte("a\xe9\x80\xff\xfe\x00b\r\n\xd8\x00\x81\x30"), byte(i))
	}
	f.Fuzz(func(t *testing.T, p []byte, which byte) {
		name, err := Encoding(Encodings()[int(which)%len(Encodings())])
		must(t, err)
		read := func(r io.Reader) []byte {
			in, _, err := decode(bufio.NewReader(r), name)
			must(t, err)
			out, err := io.ReadAll(in)
			must(t, err)
			return out
		}
		want := read(bytes.NewReader(p))
		if got := read(iotest.OneByteReader(bytes.NewReader(p))); !bytes.Equal(got, want) {
			t.Errorf("%q as %s: %q, in pieces %q", p, name, want, got)
		}
		if bytes.Contains(want, replacement) && name != "" {
			t.Errorf("%q as %s has a replacement character: %q", p, name, want)
		}
	})
}
