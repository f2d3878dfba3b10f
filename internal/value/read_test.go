package value

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// read reads a text, and fails if the reader changes the text, or what it appends to.
func read(t testing.TB, r Reader, text string) (string, error) {
	t.Helper()
	in := []byte(text)
	var got string
	var err error
	switch {
	case r.Int != nil:
		var n int64
		n, err = r.Int(in)
		got = strconv.FormatInt(n, 10)
	case r.Float != nil:
		var f float64
		f, err = r.Float(in)
		got = strconv.FormatFloat(f, 'g', -1, 64)
	default:
		const before = "before"
		var p []byte
		p, err = r.Append([]byte(before), in)
		if !strings.HasPrefix(string(p), before) || err != nil && string(p) != before {
			t.Errorf("%q, %v: %q is left of what was before", text, err, p)
		}
		got = strings.TrimPrefix(string(p), before)
	}
	if string(in) != text {
		t.Errorf("reading %q changed it to %q", text, in)
	}
	if err != nil {
		return "", err
	}
	return got, nil
}

// readerOf returns the reader of a type.
func readerOf(t testing.TB, typ Type, n Notation, s Server) Reader {
	t.Helper()
	r, err := typ.Reader(&n, s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestParseInt(t *testing.T) {
	for _, c := range []struct {
		in, want string
		err      error
	}{
		{"0", "0", nil}, {"-0", "0", nil}, {"+7", "7", nil}, {"-7", "-7", nil}, {"007", "7", nil},
		{"9223372036854775807", "9223372036854775807", nil},
		{"-9223372036854775808", "-9223372036854775808", nil},
		{"0000000000000000000009223372036854775807", "9223372036854775807", nil},
		{"-0000000000000000000000000000000000000001", "-1", nil},
		{"9223372036854775808", "", errIntRange}, {"-9223372036854775809", "", errIntRange},
		{"18446744073709551615", "", errIntRange}, {"18446744073709551616", "", errIntRange}, {"-18446744073709551616", "", errIntRange},
		{"92233720368547758070", "", errIntRange}, {strings.Repeat("9", 400), "", errIntRange},
		{"true", "", errNoInt}, {"false", "", errNoInt}, {"TRUE", "", errNoInt}, {"t", "", errNoInt}, {"f", "", errNoInt}, {"-true", "", errNoInt},
		{"", "", errNoInt}, {"-", "", errNoInt}, {"+", "", errNoInt}, {"--1", "", errNoInt}, {"+-1", "", errNoInt},
		{" 1", "", errNoInt}, {"1 ", "", errNoInt}, {"1_000", "", errNoInt}, {"1,000", "", errNoInt}, {"0x10", "", errNoInt},
		{"1.0", "", errNoInt}, {"1e3", "", errNoInt}, {"１", "", errNoInt}, {"1\x00", "", errNoInt}, {"NULL", "", errNoInt},
	} {
		got, err := read(t, Reader{Int: ParseInt}, c.in)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q: %s, %v; want %s, %v", c.in, got, err, c.want, c.err)
		}
	}
}

func FuzzParseInt(f *testing.F) {
	for _, s := range []string{"9223372036854775807", "-9223372036854775808", "-0", "+1", "1_0", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := read(t, Reader{Int: ParseInt}, s)
		want, wantErr := strconv.ParseInt(s, 10, 64)
		if (err == nil) != (wantErr == nil) || err == nil && got != strconv.FormatInt(want, 10) {
			t.Errorf("%q: %s, %v; strconv has %d, %v", s, got, err, want, wantErr)
		}
	})
}

func TestFloats(t *testing.T) {
	binary, text := readerOf(t, Type{Kind: Float}, Notation{}, Server{}), readerOf(t, Type{Kind: Float, NaN: true}, Notation{}, Server{})
	for _, c := range []struct {
		in         string
		err, asTxt error // of a value sent as binary, and of one sent as text
	}{
		{"0", nil, nil}, {"-0.0", nil, nil}, {"+1.5", nil, nil}, {".5", nil, nil}, {"5.", nil, nil}, {"1e10", nil, nil}, {"1E-7", nil, nil}, {"1e-400", nil, nil},
		{"1.7976931348623157e308", nil, nil}, {"5e-324", nil, nil}, {strings.Repeat("9", 300), nil, nil},
		{"1.8e308", errRange, errRange}, {"-1e400", errRange, errRange},
		{"NaN", errNoNumber, nil}, {"nan", errNoNumber, nil}, {"Infinity", errNoNumber, nil}, {"-inf", errNoNumber, nil},
		{"0x10", errNoNumber, errNoNumber}, {"0x1p-2", errNoNumber, errNoNumber}, {"0X1P4", errNoNumber, errNoNumber}, {"0x_1p4", errNoNumber, errNoNumber}, {"0x1p9999", errNoNumber, errNoNumber},
		{"1_000", errNoNumber, errNoNumber}, {"", errNoNumber, errNoNumber}, {" 1", errNoNumber, errNoNumber}, {"1 ", errNoNumber, errNoNumber},
		{"1,5", errNoNumber, errNoNumber}, {".", errNoNumber, errNoNumber}, {"1e", errNoNumber, errNoNumber}, {"true", errNoNumber, errNoNumber}, {"1\x00", errNoNumber, errNoNumber},
	} {
		got, err := read(t, binary, c.in)
		if !errors.Is(err, c.err) {
			t.Errorf("%q: %v, want %v", c.in, err, c.err)
		}
		if err == nil {
			want, _ := strconv.ParseFloat(c.in, 64)
			if is, _ := strconv.ParseFloat(got, 64); math.Float64bits(is) != math.Float64bits(want) {
				t.Errorf("%q: %s, want %v", c.in, got, want)
			}
		}
		if got, err := read(t, text, c.in); !errors.Is(err, c.asTxt) || err == nil && got != c.in {
			t.Errorf("%q as text: %q, %v; want %v", c.in, got, err, c.asTxt)
		}
	}
}

func TestDecimal(t *testing.T) {
	decimal := func(scale int) Reader {
		typ := Type{Kind: Decimal, Precision: 65, Scale: scale}
		if scale < 0 {
			typ = Type{Kind: Decimal}
		}
		return readerOf(t, typ, Notation{}, Server{})
	}
	const fine = "fine" // fine: too many digits for the scale
	for _, c := range []struct {
		scale int
		in    string
		want  string // "": accepted; otherwise fine, or a part of another error
	}{
		{2, "0", ""}, {2, "1.25", ""}, {2, "-1.250000", ""}, {2, "+.5", ""}, {2, "5.", ""}, {2, "000.00", ""}, {2, strings.Repeat("9", 60) + ".99", ""},
		{2, "1.255", fine}, {2, "0.001", fine}, {0, "1.5", fine}, {0, "1.0", ""}, {0, "1", ""},
		{-1, "1.23456789012345678901234567890", ""}, {-1, "1e-30", ""},
		{2, "1e2", ""}, {2, "125e-2", ""}, {2, "1.25E+0", ""}, {2, "1250e-3", ""}, {2, "1.2345e2", ""}, {2, "0e-9", ""}, {2, "0.000e-9", ""},
		{2, "125e-3", fine}, {2, "1.255e0", fine}, {2, "1e-3", fine}, {2, "1.2345e1", fine}, {0, "15e-1", fine}, {0, "150e-1", ""},
		{-1, "1.5", ""},
		{2, "1e99999999999999999999", "out of range"}, {-1, "1e-9999999", "out of range"},
		{2, "", "not a number"}, {2, ".", "not a number"}, {2, "-", "not a number"}, {2, "1e", "not a number"}, {2, "1e+", "not a number"}, {2, "1e1.5", "not a number"}, {2, "1e5_0", "not a number"},
		{2, "1,5", "not a number"}, {2, " 1", "not a number"}, {2, "1 ", "not a number"}, {2, "0x1p5", "not a number"}, {2, "1_0", "not a number"}, {2, "--1", "not a number"}, {2, "1p5", "not a number"},
		{2, "Infinity", "not a number"}, {2, "NaN", "not a number"}, {2, "1.2.3", "not a number"}, {2, "1d5", "not a number"}, {2, "1\x00", "not a number"},
	} {
		got, err := read(t, decimal(c.scale), c.in)
		switch {
		case c.want == "" && (err != nil || got != c.in):
			t.Errorf("%q with scale %d: %q, %v; want it as it is", c.in, c.scale, got, err)
		case c.want == fine && (err == nil || !strings.Contains(err.Error(), "digits after the point")):
			t.Errorf("%q with scale %d: %v, want it too fine", c.in, c.scale, err)
		case c.want != "" && c.want != fine && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q with scale %d: %v, want %s", c.in, c.scale, err, c.want)
		}
	}
	if got, err := read(t, readerOf(t, Type{Kind: Decimal, NaN: true}, Notation{}, Server{}), "NaN"); err != nil || got != "NaN" {
		t.Errorf("NaN: %q, %v", got, err)
	}
}

// BenchmarkFloat reads a number that passes as it is written, and one that is converted.
func BenchmarkFloat(b *testing.B) {
	for _, text := range []string{"26.46794", "26.467940000000000"} {
		b.Run(text, func(b *testing.B) {
			r, in := readerOf(b, Type{Kind: Float, Bits: 64}, Notation{}, Server{}), []byte(text)
			var out []byte
			b.ReportAllocs()
			for b.Loop() {
				out, _ = r.Append(out[:0], in)
			}
		})
	}
}

// FuzzFloat checks that the text that is sent for a binary fraction is the same number as its
// value, also where it passes as it is written, and that both are refused alike.
func FuzzFloat(f *testing.F) {
	for _, s := range []string{
		"39.02", "-0.50", "007", "0", "-0", "-0.00", "0.1", "123456789012345", "1234567890123456", "999999999999.999", "0.000000000000001", "9007199254740993",
		"0.1234567890123456789", "1e5", "+1.5", ".5", "5.", "-", ".", "", "1.2.3", "1-2", "--1", "0x10", "1_0", "NaN", "inf", "1e400", "5e-324", "1 ", "1,5",
	} {
		f.Add(s)
	}
	types := []Type{{Kind: Float, Bits: 64}, {Kind: Float, Bits: 32}, {Kind: Float, Bits: 32, Precision: 7, Scale: 2}, {Kind: Float, Bits: 64, NaN: true}}
	f.Fuzz(func(t *testing.T, s string) {
		for _, typ := range types {
			r := readerOf(t, typ, Notation{}, Server{})
			sent, err := r.Append([]byte("1"), []byte(s))
			want, wantErr := ParseFloat([]byte(s), 64)
			if r.Float != nil {
				want, wantErr = r.Float([]byte(s))
			}
			if fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Errorf("%+v %q: %v as text, %v as a value", typ, s, err, wantErr)
			}
			if err != nil {
				continue
			}
			got, err := ParseFloat(sent[1:], 64)
			if err != nil || got != want && !(got != got && want != want) || !typ.NaN && math.Signbit(got) != math.Signbit(want+0) {
				t.Errorf("%+v %q: %g is sent as %s, %v", typ, s, want, sent[1:], err)
			}
		}
	})
}

// FuzzDecimal compares the check of a decimal's scale with an exact fraction.
func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"1.25", "-100e-3", ".5E1", "0.0e7", "00120.0"} {
		f.Add(s, 2)
	}
	f.Fuzz(func(t *testing.T, s string, scale int) {
		if scale = scale & 7; len(s) > 30 || strings.ContainsAny(s, "/_xXpPbBoO") {
			return
		}
		_, err := read(t, readerOf(t, Type{Kind: Decimal, Precision: 65, Scale: scale}, Notation{}, Server{}), s)
		if i := strings.IndexAny(s, "eE"); i >= 0 {
			if n, err := strconv.Atoi(s[i+1:]); err == nil && (n > 500 || n < -500) {
				return
			}
		}
		r, ok := new(big.Rat).SetString(s)
		if ok {
			r.Mul(r, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)))
			ok = r.IsInt()
		}
		if p, is := AppendInteger(nil, []byte(s)); is {
			n, _ := new(big.Int).SetString(string(p), 10)
			if whole, _ := new(big.Rat).SetString(s); n == nil || !whole.IsInt() || whole.Num().Cmp(n) != 0 {
				t.Errorf("%q is the integer %s", s, p)
			}
		}
		if ok != (err == nil) {
			t.Errorf("%q with scale %d: %v; as a fraction it fits: %v", s, scale, err, ok)
		}
	})
}

func TestAppendInteger(t *testing.T) {
	for text, want := range map[string]string{
		"5.0": "5", "-1.20e1": "-12", "0.0e-5": "0", "-0.0": "-0", "1e3": "1000", "0.01e5": "1000", "12.50e2": "1250", "-14.00": "-14", "1.5E1": "15", "120e-1": "12", "0e-9": "0", "9223372036854775807.0": "9223372036854775807", "1e39": "1" + strings.Repeat("0", 39),
		"1e64": "", "1.5": "", "15e-1": "", "1e-1": "", "x": "", "1e99999999": "",
	} {
		got, is := AppendInteger([]byte("7"), []byte(text))
		if is != (want != "") || string(got) != "7"+want {
			t.Errorf("%q: %q, %v, want %q", text, got[1:], is, want)
		}
	}
}

// TestUnscaled checks that only the exact text of a decimal is taken apart, and that
// it is given back.
func TestUnscaled(t *testing.T) {
	for _, c := range []struct {
		text  string
		scale int
		want  string // "": not exact
	}{
		{"1.25", 2, "125"}, {"-0.05", 2, "-005"}, {"0.00", 2, "000"}, {"12", 0, "12"}, {"0", 0, "0"}, {"-7", 0, "-7"}, {strings.Repeat("9", 38), 0, strings.Repeat("9", 38)},
		{"1.2", 2, ""}, {"1.250", 2, ""}, {"+1.25", 2, ""}, {"01.25", 2, ""}, {".25", 2, ""}, {"-0.00", 2, ""}, {"-0", 0, ""}, {"1.", 0, ""}, {"12e0", 0, ""}, {"x", 0, ""}, {"", 0, ""}, {"NaN", 0, ""},
	} {
		got, exact := AppendUnscaled([]byte("7"), []byte(c.text), c.scale)
		if exact != (c.want != "") || string(got) != "7"+c.want {
			t.Errorf("%q with scale %d: %q, %v, want %q", c.text, c.scale, got[1:], exact, c.want)
		}
		if n, ok := new(big.Int).SetString(c.want, 10); ok && FormatUnscaled(n.String(), c.scale) != c.text {
			t.Errorf("%s with scale %d is written %s", n, c.scale, FormatUnscaled(n.String(), c.scale))
		}
	}
}

func TestBytesAreRead(t *testing.T) {
	for _, c := range []struct {
		encoding, in, want string
		err                error
	}{
		{Hex, "", "", nil}, {Hex, "00ff", "\x00\xff", nil}, {Hex, "DEADbeef", "\xde\xad\xbe\xef", nil}, {Hex, `\xdead`, "\xde\xad", nil}, {Hex, "0xDEAD", "\xde\xad", nil}, {Hex, `\x`, "", nil},
		{Hex, "0", "", errHex}, {Hex, "0g", "", errHex}, {Hex, "aabbccddg0", "", errHex}, {Hex, "aabbc", "", errHex}, {Hex, "x00", "", errHex}, {Hex, "0x0x00", "", errHex}, {Hex, " 00", "", errHex},
		{Base64, "", "", nil}, {Base64, "QQ==", "A", nil}, {Base64, "QQ", "A", nil}, {Base64, "QUI=", "AB", nil}, {Base64, "QUJD", "ABC", nil}, {Base64, "+/+/", "\xfb\xff\xbf", nil},
		{Base64, "Q", "", errBase64}, {Base64, "QR==", "", errBase64}, {Base64, "Q=Q=", "", errBase64}, {Base64, "QUJD===", "", errBase64}, {Base64, "-_-_", "", errBase64}, {Base64, "QUJDQ!", "", errBase64},
	} {
		got, err := read(t, readerOf(t, Type{Kind: Bytes}, Notation{Bytes: c.encoding}, Server{}), c.in)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s %q: %q, %v; want %q, %v", c.encoding, c.in, got, err, c.want, c.err)
		}
	}
	if _, err := (Type{Kind: Bytes}).Reader(&Notation{Bytes: "base32"}, Server{}); err == nil {
		t.Error("base32 is taken")
	}
}

func TestTexts(t *testing.T) {
	for _, c := range []struct {
		in     string
		noZero bool
		err    error
	}{
		{"", false, nil}, {"äöü€𝄞", true, nil}, {"a\x00b", false, nil}, {"a\x00b", true, errZero}, {"\xff", false, errUTF8}, {"a\xc3", true, errUTF8}, {"\xed\xa0\x80", false, errUTF8}, {"\xc0\x80", true, errUTF8},
	} {
		for _, kind := range []Kind{Text, Other} {
			if got, err := read(t, readerOf(t, Type{Kind: kind}, Notation{}, Server{NoZeroBytes: c.noZero}), c.in); !errors.Is(err, c.err) || err == nil && got != c.in {
				t.Errorf("%q: %q, %v; want %v", c.in, got, err, c.err)
			}
		}
	}
}

// TestValuesThatServersChange uses values that a server would silently change.
func TestValuesThatServersChange(t *testing.T) {
	enum := func(members ...string) Type { return Type{Kind: Text, Logical: Enum, Members: members} }
	set := func(members ...string) Type { return Type{Kind: Text, Logical: Set, Members: members} }
	clock := func(digits int) Type { return Type{Logical: Clock, Digits: digits} }
	interval := Type{Logical: Interval, Digits: 1}
	for _, c := range []struct {
		typ      Type
		in, want string // want is "" if the value is refused
		cut      string // the value with TruncateTimes, "" if it is want
	}{
		{enum("a", "2", ""), "2", "2", ""}, {enum("a", "b"), "B", "B", ""}, {enum("a", "b"), "2", "", ""}, {enum("a", "b"), " +2 ", "", ""}, {enum("a", "b"), "  ", "", ""},
		{enum("a", "b"), "c", "c", ""}, // refused by the server
		{set("a", "b"), "3", "", ""}, {set("a", "b"), "a,b", "a,b", ""}, {set("1", "2"), "2", "2", ""}, {set("a"), " ", " ", ""},
		{clock(0), "12:00:00.5", "", "12:00:00"}, {clock(0), "12:00:00.000", "12:00:00.000", ""},
		{clock(2), "-838:00:00.25", "-838:00:00.25", ""}, {clock(2), "120000.255", "", "120000.25"},
		{clock(3), "12:00:00.1234+02:00", "", "12:00:00.123+02:00"}, {clock(6), "12:00:00.123456+02:00", "12:00:00.123456+02:00", ""},
		{interval, "1.25 days 02:00:00.5", "1.25 days 02:00:00.5", ""}, {interval, "1 day 02:00:00.25", "", "1 day 02:00:00.2"},
		{Type{Kind: Text, Length: 3}, "äöü", "äöü", ""}, {Type{Kind: Text, Length: 3}, "äö  ", "", ""}, {Type{Array: true}, "{abcde}", "{abcde}", ""},
		{Type{Kind: Int, Logical: Year}, "2024", "2024", ""}, {Type{Kind: Int, Logical: Year}, "24", "", ""}, {Type{Kind: Int, Logical: Year}, "-024", "", ""},
		{Type{Kind: Float, Precision: 7, Scale: 2}, "1.25", "1.25", ""}, {Type{Kind: Float, Precision: 7, Scale: 2}, "1.255", "", ""},
	} {
		for _, truncate := range []bool{false, true} {
			want := c.want
			if truncate && c.cut != "" {
				want = c.cut
			}
			got, err := read(t, readerOf(t, c.typ, Notation{TruncateTimes: truncate}, Server{}), c.in)
			if got != want || (err == nil) != (want != "") {
				t.Errorf("%+v, truncating: %v, %q: %q, %v, want %q", c.typ, truncate, c.in, got, err, want)
			}
		}
	}
	empty := readerOf(t, enum("a", "2", ""), Notation{}, Server{})
	if _, err := read(t, empty, ""); err != nil {
		t.Errorf("the empty member: %v", err)
	}
}

// untyped are types with values that an untyped server would store although the type
// doesn't have them (bad), and others in the form in which they are written.
var untyped = []struct {
	typ    Type
	values map[string]string
}{
	{Type{Logical: Date}, map[string]string{"2024-12-31": "2024-12-31", "2024-12-31 00:00:00": "2024-12-31", "12/31/2024": bad, "2024-02-30": bad, "2024-12-31 01:00:00": bad, "today": bad, "": bad, "20241231": bad, "1969-12-31": "1969-12-31"}},
	{Type{Logical: Clock}, map[string]string{"1:02:03": "01:02:03", "01:02": "01:02:00", "23:59:59.250": "23:59:59.25", "-838:59:59": "-838:59:59", "839:00:00": bad, "24:60:00": bad, "noon": bad, "1:2:3": bad, "01:02:03.": bad, "01:02:03.1234567": bad, "01:02.5": bad, "01:02:03:04": bad}},
	{Type{Kind: Decimal, Precision: 8, Scale: 2}, map[string]string{"999999.99": "999999.99", "1000000": bad, "-1000000": bad, "0001000.5": "0001000.5", "1e5": "1e5", "1e6": bad, "0.01e8": bad, "100000000e-3": "100000000e-3", "0.001": bad, "x": bad}},
	{Type{Kind: Decimal, Precision: 3}, map[string]string{"999": "999", "1000": bad, "1.5": bad}},
	{Type{Kind: Decimal, Precision: 2, Scale: 2}, map[string]string{"0.99": "0.99", "1": bad}},
	{Type{Kind: Decimal}, map[string]string{"123456789012": "123456789012"}},
	{Type{Kind: Decimal, Exact: 15}, map[string]string{"9223372036854775807": "9223372036854775807", "9007199254740993.0": "9007199254740993", "1e5": "100000", "0.00": "0", "18446744073709551615": bad, "1.8e19": "1.8e19",
		"1234567890123.45": "1234567890123.45", "12345678901234.56": bad, "0.00123456789012345": "0.00123456789012345", "1e400": bad, "1e-320": bad, "-0.1": "-0.1", "x": bad}},
	{Type{Logical: JSON, Exact: 15}, map[string]string{"[12345678901234.56]": "[12345678901234.56]", "12345678901234.56": bad, "1.5": "1.5"}},
	{Type{Logical: UUID, Exact: 15}, map[string]string{"12345678901234567890123456789012": bad, "1234567890123456789012345678901e": "1234567890123456789012345678901e"}},
	{Type{Kind: Int, Bits: 16}, map[string]string{"32767": "32767", "32768": bad, "-32768": "-32768", "-32769": bad, "t": bad}},
	{Type{Kind: Int, Bits: 8, Unsigned: true}, map[string]string{"255": "255", "256": bad, "-1": bad}},
	{Type{Kind: Int, Bits: 64, Unsigned: true}, map[string]string{"9223372036854775807": "9223372036854775807", "-1": bad}},
	{Type{Kind: Int, Bits: 64}, map[string]string{"99999999999": "99999999999", "true": bad, "9223372036854775807": "9223372036854775807"}},
	{Type{Kind: Text, Length: 3}, map[string]string{"äöü": "äöü", "äöüß": bad, "": ""}},
	{Type{Kind: Text}, map[string]string{"12/31/2024": "12/31/2024"}},
	{Type{Logical: Bool}, map[string]string{"true": "1", "t": "1", "F": "0", "0": "0", "1": "1", "2": bad, "yes": "1", "Off": "0", "ON": "1", "n": "0", "no": "0", "tru": bad, "": bad, "falsely": bad}},
	{Type{Kind: Int, Bits: 8, Logical: Bool}, map[string]string{"true": "1", "Y": "1", "off": "0", "1": "1", "0": "0", "-128": "-128", "128": bad, "tru": bad, "1.0": bad}},
	{Type{Kind: Bytes, Logical: Bit, Bits: 1}, map[string]string{"true": "1", "no": "0", "1": "1", "b'0'": "0", "2": bad, "tru": bad}},
	{Type{Kind: Bytes, Logical: Bit, Bits: 2}, map[string]string{"true": bad, "t": bad, "2": "2"}},
	{Type{Logical: Year}, map[string]string{"2024": "2024", "24": bad}},
	{Type{Logical: JSON}, map[string]string{`{"a": 1}`: `{"a": 1}`, "{": bad, strings.Repeat("[", MaxJSONDepth+1) + strings.Repeat("]", MaxJSONDepth+1): bad}},
	{Type{Logical: Bit, Bits: 8}, map[string]string{"10": "10", "256": bad, "b'11'": "3"}},
	{Type{Kind: Time, Digits: 6}, map[string]string{"1970-01-01 00:00:00.123": "123000", "12/31/2024": bad}},
}

const bad = "!"

func TestUntyped(t *testing.T) {
	for _, c := range untyped {
		r := readerOf(t, c.typ, Notation{}, Server{Untyped: true})
		for in, want := range c.values {
			got, err := read(t, r, in)
			if (err == nil) != (want != bad) || err == nil && got != want {
				t.Errorf("%+v: %q is %q, %v, want %q", c.typ, in, got, err, want)
			}
		}
	}
}

// FuzzUntyped checks that a value that was accepted and written is accepted again,
// unchanged.
func FuzzUntyped(f *testing.F) {
	var readers []Reader
	for i, c := range untyped[:len(untyped)-1] { // without the last, which is written as a number
		readers = append(readers, readerOf(f, c.typ, Notation{}, Server{Untyped: true}))
		for _, s := range []string{"2024-12-31", "01:02:03.25", "-838:59:59", "1e5", "t", "äöü", "32768", "{}", "0.1e9999999999999999999"} {
			f.Add(i, s)
		}
	}
	f.Fuzz(func(t *testing.T, i int, s string) {
		if i < 0 || i >= len(readers) {
			return
		}
		once, err := read(t, readers[i], s)
		if err != nil {
			return
		}
		if !utf8.ValidString(once) || untyped[i].typ.Logical == Clock && strings.ContainsAny(once, " T") {
			t.Fatalf("%+v: %q is written %q", untyped[i].typ, s, once)
		}
		if again, err := read(t, readers[i], once); err != nil || again != once {
			t.Fatalf("%+v: %q is written %q, and that %q, %v", untyped[i].typ, s, once, again, err)
		}
	})
}
