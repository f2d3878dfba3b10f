package format

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

func records(f *Format, p []byte) (out []string, err error) {
	for len(p) > 0 {
		n, err := f.End(p, true)
		if err != nil {
			return out, err
		}
		if n <= 0 || n > len(p) {
			return out, errors.New("end: no progress")
		}
		out = append(out, string(p[:n]))
		p = p[n:]
	}
	return out, nil
}

func TestEnd(t *testing.T) {
	csv, tsv, jsonl := &Format{Kind: CSV}, &Format{Kind: TSV}, &Format{Kind: JSONL}
	semicolon, bar := &Format{Kind: CSV, Delimiter: ';'}, &Format{Kind: CSV, Delimiter: '|'}
	for _, c := range []struct {
		name string
		f    *Format
		in   string
		want []string
	}{
		{"plain", csv, "a,b\nc,d\n", []string{"a,b\n", "c,d\n"}},
		{"no break at the end", csv, "a,b\nc,d", []string{"a,b\n", "c,d"}},
		{"CRLF", csv, "a,b\r\n\"c\",d\r\n", []string{"a,b\r\n", "\"c\",d\r\n"}},
		{"blank lines", csv, "\n\r\na\n", []string{"\n", "\r\n", "a\n"}},
		{"break in quotes", csv, "a,\"b\nc\",d\ne\n", []string{"a,\"b\nc\",d\n", "e\n"}},
		{"CRLF in quotes", csv, "\"b\r\nc\"\r\ne\n", []string{"\"b\r\nc\"\r\n", "e\n"}},
		{"doubled quotes", csv, "\"a\"\"b\n\"\"c\",d\ne\n", []string{"\"a\"\"b\n\"\"c\",d\n", "e\n"}},
		{"nothing but doubled quotes", csv, "\"\"\"\"\n\"\"\"\n\"\"\"\n", []string{"\"\"\"\"\n", "\"\"\"\n\"\"\"\n"}},
		{"empty quotes", csv, "\"\",\"\"\nx\n", []string{"\"\",\"\"\n", "x\n"}},
		{"quotes at the end without a break", csv, "x,\"a\nb\"", []string{"x,\"a\nb\""}},
		{"quote within an unquoted field", csv, "5\" pipe,a\nb,6\"\n7\n", []string{"5\" pipe,a\n", "b,6\"\n", "7\n"}},
		{"quote behind a blank", csv, "a, \"b\nc\"\n", []string{"a, \"b\n", "c\"\n"}},
		{"stray quote", csv, "\"a,b\nc,d\ne,f\n", []string{"\"a,b\n", "c,d\n", "e,f\n"}},
		{"stray quote before quotes", csv, "\"a,b\nc,\"d\"\ne,f\n", []string{"\"a,b\n", "c,\"d\"\n", "e,f\n"}},
		{"stray quote before quotes of one line", csv, "\"a,\"b\"\n\"c\nd\"\n", []string{"\"a,\"b\"\n", "\"c\nd\"\n"}},
		{"stray quote in the last line", csv, "a\nb,\"c", []string{"a\n", "b,\"c"}},
		{"text behind quotes", csv, "\"a\"b\n\"c\nd\"e\nf\n", []string{"\"a\"b\n", "\"c\n", "d\"e\n", "f\n"}},
		{"semicolon", semicolon, "\"a\nb\";c,d\ne\n", []string{"\"a\nb\";c,d\n", "e\n"}},
		{"comma isn't the delimiter", semicolon, "\"a\nb\",c;d\n", []string{"\"a\n", "b\",c;d\n"}},
		{"bar", bar, "a|\"b\n\"|c\nd\n", []string{"a|\"b\n\"|c\n", "d\n"}},
		{"byte order mark before a quote", csv, "\xef\xbb\xbf\"a\nb\",c\nd\n", []string{"\xef\xbb\xbf\"a\nb\",c\n", "d\n"}},
		{"tabs", tsv, "a\tb\nc\t\"d\n", []string{"a\tb\n", "c\t\"d\n"}},
		{"escaped break", tsv, "a\\\nb\tc\nd\n", []string{"a\\\nb\tc\n", "d\n"}},
		{"escaped backslash before a break", tsv, "a\\\\\nb\\\\\\\nc\n", []string{"a\\\\\n", "b\\\\\\\nc\n"}},
		{"escaped break at the end", tsv, "a\nb\\\n", []string{"a\n", "b\\\n"}},
		{"backslash at the end", tsv, "a\nb\\", []string{"a\n", "b\\"}},
		{"objects", jsonl, "{\"a\":\"\\n\"}\n{\"b\":\n2}", []string{"{\"a\":\"\\n\"}\n", "{\"b\":\n", "2}"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := records(c.f, []byte(c.in))
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("records of %q: %q, %v; want %q", c.in, got, err, c.want)
			}
			checkPrefixes(t, c.f, []byte(c.in))
		})
	}
}

// checkPrefixes fails if a prefix of p gives another end than all of p.
func checkPrefixes(t *testing.T, f *Format, p []byte) {
	t.Helper()
	for len(p) > 0 {
		want, err := f.End(p, true)
		if err != nil || want <= 0 || want > len(p) {
			t.Fatalf("end of %q: %d, %v", p, want, err)
		}
		for k := range len(p) + 1 {
			if got, err := f.End(p[:k:k], false); err != nil || got != 0 && got != want {
				t.Fatalf("end of %q, of which %q is read: %d, %v; want %d", p, p[:k], got, err, want)
			}
		}
		// The end of a record must be found without the bytes after it.
		if got, err := f.End(p[:want:want], true); err != nil || got != want {
			t.Fatalf("end of record %q: %d, %v; want %d", p[:want], got, err, want)
		}
		p = p[want:]
	}
}

// TestEndLong compares the ends of long records found in prefixes of about the
// limits with those found in the whole.
func TestEndLong(t *testing.T) {
	csv, tsv, jsonl := &Format{Kind: CSV}, &Format{Kind: TSV}, &Format{Kind: JSONL}
	// n bytes, including the closing quote
	quoted := func(n int) int { return n - len("\"a\n") - len("\"") }
	lines := strings.Repeat("x,y\n", maxQuoted/3)
	around := 1
	if testdb.Nightly() {
		around = 3
	}
	var room []byte // one buffer for all, for the longest record
	for _, c := range []struct {
		name  string
		f     *Format
		head  string // followed by so many x
		xs    int
		tail  string
		want  int
		fails bool
	}{
		{"longest line", csv, "", maxRecord - 1, "\nb\n", maxRecord, false},
		{"longest line without a break", csv, "", maxRecord, "", maxRecord, false},
		{"too long a line", csv, "", maxRecord, "\nb\n", 0, true},
		{"too long a line without a break", csv, "", maxRecord + 1, "", 0, true},
		{"too long an object", jsonl, "", maxRecord, "\n", 0, true},
		{"too long a line of TSV", tsv, "\\\n", maxRecord - 2, "x\n", 0, true},
		{"too long a line with a quote", csv, "\"", maxRecord, "\nb\n", 0, true},
		{"too long a line in quotes", csv, "\"", maxRecord, "\"\nb\n", 0, true},
		{"too long a line in quotes without a break", csv, "\"", maxRecord, "\"", 0, true},
		{"long line in quotes", csv, "\"", maxQuoted, "\"\nb\n", maxQuoted + 3, false},
		{"longest line in quotes", csv, "\"", maxRecord - 3, "\"\nb\n", maxRecord, false},
		{"quotes up to the limit", csv, "\"a\n", quoted(maxQuoted - 1), "\"\nb\n", maxQuoted, false},
		{"quotes up to the limit and one", csv, "\"a\n", quoted(maxQuoted), "\"\nb\n", 3, false},
		{"quotes to the end at the limit", csv, "\"a\n", quoted(maxQuoted), "\"", maxQuoted, false},
		{"quotes to the end beyond the limit", csv, "\"a\n", quoted(maxQuoted + 1), "\"", 3, false},
		{"doubled quote on the limit", csv, "\"a\n", quoted(maxQuoted), "\"\"x\"\nb\n", 3, false},
		{"unquoted field beyond the limit", csv, "\"a\nb\",", maxQuoted, "\nc\n", 3, false},
		{"unclosed quote", csv, "\"a\n" + lines, 0, "", 3, false},
		{"quote closed a long way on", csv, "\"a\n" + lines, 0, "\"\n", 3, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			room = slices.Grow(append(room[:0], c.head...), c.xs+len(c.tail))
			p := room[:len(c.head)+c.xs]
			for done := copy(p[len(c.head):], "x"); done < c.xs; {
				done += copy(p[len(c.head)+done:], p[len(c.head):len(c.head)+done])
			}
			p = append(p, c.tail...)
			got, err := c.f.End(p, true)
			if got != c.want || (err != nil) != c.fails {
				t.Fatalf("end: %d, %v; want %d, fails: %v", got, err, c.want, c.fails)
			}
			failed := false
			for _, limit := range []int{1, 4, maxQuoted, maxRecord, len(p)} {
				for k := limit - around; k <= limit+around; k++ {
					if k < 0 || k > len(p) {
						continue
					}
					n, err := c.f.End(p[:k], false)
					failed = failed || err != nil
					if err != nil && !c.fails || n != 0 && n != c.want {
						t.Errorf("end of the first %d bytes: %d, %v; want %d or none yet", k, n, err, c.want)
					}
				}
			}
			if c.fails && !failed && len(p) > maxRecord {
				t.Error("no part of it was found too long")
			}
			if c.want > 0 {
				if n, err := c.f.End(p[:c.want], true); n != c.want || err != nil {
					t.Errorf("end of the record alone: %d, %v; want %d", n, err, c.want)
				}
			}
		})
	}
}

func TestSplit(t *testing.T) {
	csv, tsv := &Format{Kind: CSV}, &Format{Kind: TSV}
	null := &Format{Kind: CSV, Nulls: []string{"NULL"}}
	for _, c := range []struct {
		name string
		f    *Format
		in   string
		want string // fields in brackets: ' means quoted, 0 NULL
		err  error
	}{
		{"plain", csv, "a,b", "[a][b]", nil},
		{"empty fields", csv, ",,", "[][][]", nil},
		{"one empty field", csv, "", "[]", nil},
		{"quotes", csv, `"a",b,"c,d"`, "['a][b]['c,d]", nil},
		{"empty quotes", csv, `"",""`, "['][']", nil},
		{"doubled quotes", csv, `"a""b","""",""""""`, `['a"b]['"]['""]`, nil},
		{"breaks in quotes", csv, "\"a\nb\r\nc\",d", "['a\nb\r\nc][d]", nil},
		{"NULL", csv, `\N,"\N",\n`, `[0\N]['\N][\n]`, nil},
		{"another NULL", null, `NULL,"NULL",\N`, `[0NULL]['NULL][\N]`, nil},
		{"quotes within", csv, `5" pipe,a""b,c"`, `[5" pipe][a""b][c"]`, nil},
		{"blanks stay", csv, ` a , "b"`, `[ a ][ "b"]`, nil},
		{"unclosed", csv, `a,"b`, "", errUnclosed},
		{"unclosed for a doubled quote", csv, `a,"b""`, "", errUnclosed},
		{"text behind", csv, `"a"b,c`, "", errBehind},
		{"blank behind", csv, `"a" ,c`, "", errBehind},
		{"empty last field behind quotes", csv, `"a",`, "['a][]", nil},
		{"semicolons", &Format{Kind: CSV, Delimiter: ';'}, `a,b;"c;d"`, "[a,b]['c;d]", nil},
		{"bars", &Format{Kind: CSV, Delimiter: '|'}, `a|"b|"|`, "[a]['b|][]", nil},
		{"tabs in CSV", &Format{Kind: CSV, Delimiter: '\t'}, "a\t\"b\tc\"", "[a]['b\tc]", nil},
		{"TSV", tsv, "a\t\tb\t", "[a][][b][]", nil},
		{"TSV has no quotes", tsv, "\"a\tb\"", "[\"a][b\"]", nil},
		{"TSV escapes", tsv, `\t\n\r\b\f\v\\\0\Z\x` + "\\\t\\\n", "[\t\n\r\b\f\v\\\x00\x1ax\t\n]", nil},
		{"TSV NULL", tsv, `\N` + "\t" + `\\N` + "\t" + `a\N` + "\tN", `[0\N][\N][aN][N]`, nil},
		{"TSV backslash at the end", tsv, `a\`, `[a\]`, nil},
		{"TSV with commas", &Format{Kind: TSV, Delimiter: ','}, `a\,b,c`, "[a,b][c]", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			fields, _, err := c.f.split([]byte(c.in), nil, nil)
			if !errors.Is(err, c.err) {
				t.Fatalf("split %q: %v, want %v", c.in, err, c.err)
			}
			if err != nil {
				return
			}
			got := ""
			for _, f := range fields {
				mark := ""
				switch {
				case f.null:
					mark = "0"
				case f.quoted:
					mark = "'"
				}
				got += "[" + mark + string(f.value) + "]"
			}
			if got != c.want {
				t.Errorf("split %q: %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct {
		f    Format
		in   string
		want string
		ok   bool
	}{
		{Format{Kind: CSV}, "\xef\xbb\xbfsensor, ts ,\"value\"\r\n", "sensor|ts|value", true},
		{Format{Kind: CSV}, "\xef\xbb\xbf\"sen,sor\",ts\n", "sen,sor|ts", true},
		{Format{Kind: TSV}, "sensor\tts\n", "sensor|ts", true},
		{Format{Kind: CSV}, "sensor,\"ts\n", "", false},
	} {
		got, err := c.f.HeaderNames([]byte(c.in))
		if (err == nil) != c.ok || c.ok && strings.Join(got, "|") != c.want {
			t.Errorf("names of %q: %q, %v; want %q", c.in, got, err, c.want)
		}
	}
}

func TestKindOf(t *testing.T) {
	for path, want := range map[string]Kind{"a.csv": CSV, "A.CSV.GZ": CSV, "x/a.tsv.zst": TSV, "a.ndjson": JSONL, "a.jsonl.gz": JSONL, "a.lp.gz": LineProtocol, "a.gz": "", "csv": "", "a.csv.bz2": CSV, "a.csv.xz": CSV, "a.csv.zip": CSV, "a.json": "", "a.zip/b.tsv": TSV, "a.sql.zst": Dump, "": ""} {
		if got := KindOf(path); got != want {
			t.Errorf("kind of %q: %q, want %q", path, got, want)
		}
	}
}

func TestFormatValidate(t *testing.T) {
	for kind, delimiters := range map[Kind]string{CSV: "|;\t", TSV: ",", JSONL: "\x00", LineProtocol: "\x00"} {
		for _, d := range []byte(delimiters + "\"\n\r\\\x80\xff") {
			good := strings.Contains(delimiters, string(rune(d))) || kind.Keyed()
			if err := (&Format{Kind: kind, Delimiter: d}).Validate(); (err == nil) != good {
				t.Errorf("%s with delimiter %q: %v", kind, d, err)
			}
		}
	}
	if f := (Format{Kind: "xml"}); f.Validate() == nil {
		t.Error("xml is taken")
	}
}

func FuzzEnd(f *testing.F) {
	for _, s := range []string{"a,\"b\nc\"\nd\n", "\"a\n\"b\"\n", "a\\\nb\n", "\"\"\"\n\"\",\"\n", "\xef\xbb\xbf\"\n\"", "a\"\r\n\"b\"\r\n"} {
		f.Add([]byte(s), byte(0))
		f.Add([]byte(s), byte(1))
		f.Add([]byte(s), byte(2))
		f.Add([]byte(s), byte(4))
		f.Add([]byte(s), byte(6))
	}
	f.Fuzz(func(t *testing.T, p []byte, which byte) {
		if len(p) > 600 {
			return
		}
		format := []*Format{{Kind: CSV}, {Kind: TSV}, {Kind: JSONL}, {Kind: CSV, Delimiter: ';', Nulls: []string{"x"}}, {Kind: LineProtocol}, {Kind: CSV, Escape: true, Comment: "a"},
			{Kind: TSV, Delimiter: '|', Comment: "#"}}[which%7]
		checkPrefixes(t, format, p)
		cut, err := records(format, p)
		if err != nil || strings.Join(cut, "") != string(p) {
			t.Fatalf("records of %q: %q, %v", p, cut, err)
		}
		for _, r := range cut {
			line := trimBreak([]byte(r))
			before := bytes.Clone(line)
			if format.Kind.Keyed() {
				_, _ = format.HeaderNames(line)
				continue
			}
			fields, _, err := format.split(line, nil, nil)
			if err == nil && len(fields) == 0 {
				t.Errorf("record %q has no fields", r)
			}
			if !bytes.Equal(before, line) {
				t.Errorf("splitting %q changed it to %q", before, line)
			}
		}
	})
}
