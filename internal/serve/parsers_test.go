package serve

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/serve/session"
	"github.com/rowmill/rowmill/internal/sqltext"
)

var testSyntax = sqltext.Syntax{Backslash: true, DoubleQuoted: true, Backquoted: true, Introducer: true, HashComments: true, DashSpace: true, ExecutableComments: true, UserVars: true, LimitComma: true}

func TestParseKill(t *testing.T) {
	for text, want := range map[string]uint64{
		"KILL QUERY 77": 77, "/* x */ kill query 5;": 5, "KILL 5": 0, "KILL CONNECTION 5": 0, "KILL QUERY": 0, "KILL QUERY ID 9": 0, "KILL QUERY CONNECTION_ID()": 0, "": 0,
	} {
		if got, ok := parseKill(text); got != want || ok != (want > 0) {
			t.Errorf("%q: %d, %v", text, got, ok)
		}
	}
}

func TestShapes(t *testing.T) {
	var s shapes
	if !s.due(7, 100) {
		t.Error("a new shape isn't due")
	}
	why := "small"
	if s.rest(7, 200, &why); s.due(7, 199) || s.why(7) != &why || !s.due(7, 200) {
		t.Error("a shape isn't due at its time")
	}
}

// TestParameters puts values of all types in the places of parameters.
func TestParameters(t *testing.T) {
	lenencText := func(s string) string { return string(mysqlwire.AppendInt(nil, uint64(len(s)))) + s }
	for _, test := range []struct {
		kind   byte
		sign   byte
		value  string
		want   string
		refuse bool
	}{
		{typeTiny, 0, "\xff", "(-1)", false}, {typeTiny, 0x80, "\xff", "", true}, {typeShort, 0, "\x00\x80", "(-32768)", false},
		{typeLong, 0x80, "\xff\xff\xff\xff", "", true}, {typeLonglong, 0, "\x00\x00\x00\x00\x00\x00\x00\x80", "(-9223372036854775808)", false},
		{typeDouble, 0, "\x00\x00\x00\x00\x00\x00\xf8\x3f", "1.5e+00", false}, {typeDouble, 0, "\x00\x00\x00\x00\x00\x00\xf0\x7f", "", true}, {typeFloat, 0, "\x00\x00\x00\xc0", "(-2e+00)", false},
		{typeVarString, 0, lenencText(`it's \ "ä"`), `'it''s \\ "ä"'`, false}, {typeVarString, 0, lenencText("\xff"), "", true},
		{typeNewDecimal, 0, lenencText("-12.50"), "(-12.50)", false}, {typeNewDecimal, 0, lenencText("1; DROP TABLE t"), "", true},
		{typeBlob, 0, lenencText("ab"), "_binary'ab'", false}, {typeBlob, 0, lenencText("a\x00"), "", true},
		{typeDate, 0, lenencText("\xe8\x07\x02\x1d"), "DATE'2024-02-29'", false}, {typeDate, 0, lenencText(""), "", true},
		{typeDatetime, 0, lenencText("\xe8\x07\x02\x1d\x01\x02\x03\x04\x00\x00\x00"), "TIMESTAMP'2024-02-29 01:02:03.000004'", false},
		{typeTime, 0, lenencText("\x00\x00\x00\x00\x00\x01\x02\x03"), "", true}, {typeTiny, 0, "", "", true}, {99, 0, "x", "", true},
	} {
		s := &session.Statement{Params: 1, Types: []byte{test.kind, test.sign}}
		p := "\x17\x01\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01" + string(test.kind) + string([]byte{test.sign}) + test.value
		if test.kind >= 0x80 {
			p = "\x17\x01\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01" + string([]byte{test.kind, test.sign}) + test.value
		}
		literals, _, err := parameters(s, []byte(p), false)
		if (err != nil) != test.refuse || err == nil && literals[0] != test.want {
			t.Errorf("type %d, value %q: %q, %v; want %q", test.kind, test.value, literals, err, test.want)
		}
	}
	for _, test := range []struct {
		text     string
		literals []string
		want     string
	}{
		{"SELECT a FROM t WHERE b = ? AND c IN (?, ?) LIMIT ?", []string{"1", "'?'", "NULL", "5"}, "SELECT a FROM t WHERE b = 1 AND c IN ('?', NULL) LIMIT 5"},
		{"SELECT a FROM t JOIN u ON t.x = ? WHERE '?' = b AND ? < c AND d BETWEEN ? AND ?", []string{"1", "2", "3", "4"}, "SELECT a FROM t JOIN u ON t.x = 1 WHERE '?' = b AND 2 < c AND d BETWEEN 3 AND 4"},
		{"SELECT a FROM t WHERE b - ? > 3", []string{"1"}, ""}, {"SELECT a FROM t WHERE b > 3 - ?", []string{"1"}, ""}, {"SELECT a FROM t WHERE CONCAT(?, b) = 'x'", []string{"1"}, ""}, {"SELECT a FROM t WHERE b AND ?", []string{"1"}, ""},
		{"SELECT ? FROM t", []string{"1"}, ""}, {"SELECT a FROM t ORDER BY ?", []string{"1"}, ""}, {"SELECT a FROM t GROUP BY ?", []string{"1"}, ""},
		{"SELECT a FROM t LIMIT ?", []string{"'10'"}, "SELECT a FROM t LIMIT 10"}, {"SELECT a FROM t LIMIT ?", []string{"''"}, ""}, {"SELECT a FROM t LIMIT ?", []string{"_binary'1'"}, ""}, {"SELECT a FROM t WHERE b = ?", []string{"1", "2"}, ""},
	} {
		got, err := insertLiterals(test.text, test.literals, testSyntax)
		if (err != nil) != (test.want == "") || got != test.want {
			t.Errorf("%s: %q, %v", test.text, got, err)
		}
	}
}

func FuzzParameters(f *testing.F) {
	f.Add([]byte("\x17\x01\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01\x08\x00\x05\x00\x00\x00\x00\x00\x00\x00"), byte(1))
	f.Add([]byte("\x17\x01\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01\xfd\x00\x03it'\x06\x00"), byte(2))
	f.Fuzz(func(t *testing.T, p []byte, params byte) {
		s := &session.Statement{Params: int(params % 8)}
		s.NoteTypes(p)
		literals, _, err := parameters(s, p, false)
		if err != nil {
			return
		}
		// Each value is one literal: the text has as many tokens of a condition as it has
		// parameters.
		text := "SELECT a FROM t WHERE b IN (0" + strings.Repeat(", ?", len(literals)) + ")"
		if _, err := insertLiterals(text, literals, testSyntax); err != nil {
			t.Fatalf("%q: %v", literals, err)
		}
	})
}

func FuzzPackets(f *testing.F) {
	f.Add([]byte(definition), []byte("\x011\xfb"), "KILL QUERY 5")
	f.Add([]byte("\x03def\x00"), []byte("\xfc"), "SET TRANSACTION READ ONLY; LOCK")
	f.Fuzz(func(t *testing.T, a, b []byte, text string) {
		// None of them may panic, or read beyond its input.
		mysqlwire.ReadColumn(a)
		_, _ = typeOf(a)
		_, _ = textRow(b, 2)
		mysqlwire.ReadError(a)
		parseKill(text)
		if to, err := appendBinary(nil, text, columnType{kind: byte(len(a))}); err == nil && len(to) == 0 {
			t.Errorf("%q of type %d has no form", text, byte(len(a)))
		}
	})
}

func TestBinaryValues(t *testing.T) {
	for _, test := range []struct {
		kind  byte
		flags uint16
		text  string
		want  string
	}{
		{typeTiny, 0, "-5", "\xfb"}, {typeShort, flagUnsigned, "65535", "\xff\xff"}, {typeLong, 0, "000042", "\x2a\x00\x00\x00"}, {typeYear, flagUnsigned, "2024", "\xe8\x07"},
		{typeLonglong, flagUnsigned, "18446744073709551615", "\xff\xff\xff\xff\xff\xff\xff\xff"}, {typeTiny, 0, "300", ""}, {typeLong, 0, "x", ""},
		{typeDate, 0, "2024-02-29", "\x04\xe8\x07\x02\x1d"}, {typeDate, 0, "0000-00-00", "\x00"}, {typeDatetime, 0, "2024-02-29 00:00:00.000", "\x04\xe8\x07\x02\x1d"},
		{typeDatetime, 0, "2024-02-29 01:02:03", "\x07\xe8\x07\x02\x1d\x01\x02\x03"}, {typeTimestamp, 0, "2024-02-29 01:02:03.5", "\x0b\xe8\x07\x02\x1d\x01\x02\x03\x20\xa1\x07\x00"},
		{typeTime, 0, "00:00:00", ""}, {typeDatetime, 0, "2024-02-29 01:02", ""}, {typeDate, 0, "24-02-29", ""},
		{typeVarString, 0, "ab", "\x02ab"}, {typeDouble, 0, "1.5", ""}, {typeDatetime, 0, "yesterday", ""},
	} {
		got, err := appendBinary(nil, test.text, columnType{kind: test.kind, flags: test.flags})
		if (err != nil) != (test.want == "") || err == nil && !bytes.Equal(got, []byte(test.want)) {
			t.Errorf("type %d, %q: %q, %v; want %q", test.kind, test.text, got, err, test.want)
		}
	}
	// A packet of more than 16 MB is divided.
	long := append(mysqlwire.Begin(nil, 3), make([]byte, mysqlwire.MaxPayload+5)...)
	p, seq := mysqlwire.End(long, 0)
	if seq != 5 || mysqlwire.Length(p) != mysqlwire.MaxPayload || p[3] != 3 || mysqlwire.Length(p[mysqlwire.HeaderSize+mysqlwire.MaxPayload:]) != 5 || p[mysqlwire.HeaderSize+mysqlwire.MaxPayload+3] != 4 || len(p) != mysqlwire.MaxPayload+5+2*mysqlwire.HeaderSize {
		t.Errorf("sequence %d, %d bytes", seq, len(p))
	}
}

func BenchmarkExamines(b *testing.B) {
	c := &client{front: &Front{o: Options{Answer: &counting{}}}}
	c.session.Outcome.Status = mysqlwire.StatusAutocommit
	p := append([]byte{mysqlwire.ComQuery}, "SELECT c FROM sbtest1 WHERE id = 500123 AND k BETWEEN 17 AND 42 ORDER BY c LIMIT 10"...)
	why := "few rows"
	c.front.shapes.rest(session.Shape(p[1:], ""), 1<<60, &why)
	b.ReportAllocs()
	for b.Loop() {
		if c.examines(p) {
			b.Fatal("the statement is due")
		}
	}
}
