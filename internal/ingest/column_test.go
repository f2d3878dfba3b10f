package ingest

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/value"
)

// parseOne appends a value to a vector that already contains one. It fails unless
// the vector is unchanged after an error, or has exactly one more value.
func parseOne(t *testing.T, typ engine.Type, parse func(*engine.Vector, []byte) error, text, before string) (string, error) {
	t.Helper()
	v := engine.Vector{Type: typ}
	if err := parse(&v, []byte(before)); err != nil {
		t.Fatalf("%q: %v", before, err)
	}
	first := string(v.AppendText(nil, 0))
	in := []byte(text)
	err := parse(&v, in)
	values := len(v.Ints) + len(v.Floats) + len(v.Ends)
	if string(in) != text {
		t.Errorf("reading %q changed it to %q", text, in)
	}
	if got := string(v.AppendText(nil, 0)); got != first {
		t.Errorf("%q changed the value before from %q to %q", text, first, got)
	}
	if err != nil {
		if values != 1 || len(v.Ends) == 1 && len(v.Bytes) != v.Ends[0] {
			t.Errorf("%q: %v, and it left something", text, err)
		}
		return "", err
	}
	if values != 2 {
		t.Fatalf("%q gave %d values", text, values-1)
	}
	return string(v.AppendText(nil, 1)), nil
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
		got, err := parseOne(t, engine.Int64, parseInt, c.in, "5")
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
		got, err := parseOne(t, engine.Int64, parseInt, s, "5")
		want, wantErr := strconv.ParseInt(s, 10, 64)
		if (err == nil) != (wantErr == nil) || err == nil && got != strconv.FormatInt(want, 10) {
			t.Errorf("%q: %s, %v; strconv has %d, %v", s, got, err, want, wantErr)
		}
	})
}

func TestParseFloat(t *testing.T) {
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
		got, err := parseOne(t, engine.Float64, parseFloat, c.in, "5")
		if !errors.Is(err, c.err) {
			t.Errorf("%q: %v, want %v", c.in, err, c.err)
		}
		if err == nil {
			want, _ := strconv.ParseFloat(c.in, 64)
			if is, _ := strconv.ParseFloat(got, 64); math.Float64bits(is) != math.Float64bits(want) {
				t.Errorf("%q: %s, want %v", c.in, got, want)
			}
		}
		if got, err := parseOne(t, engine.Varchar, parseFloatText, c.in, "5"); !errors.Is(err, c.asTxt) || err == nil && got != c.in {
			t.Errorf("%q as text: %q, %v; want %v", c.in, got, err, c.asTxt)
		}
	}
}

func TestDecimal(t *testing.T) {
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
		{-2, "500", ""}, {-2, "5e2", ""}, {-1, "1.5", ""},
		{2, "1e99999999999999999999", "out of range"}, {-1, "1e-9999999", "out of range"},
		{2, "", "no number"}, {2, ".", "no number"}, {2, "-", "no number"}, {2, "1e", "no number"}, {2, "1e+", "no number"}, {2, "1e1.5", "no number"}, {2, "1e5_0", "no number"},
		{2, "1,5", "no number"}, {2, " 1", "no number"}, {2, "1 ", "no number"}, {2, "0x1p5", "no number"}, {2, "1_0", "no number"}, {2, "--1", "no number"}, {2, "1p5", "no number"},
		{2, "Infinity", "no number"}, {2, "NaN", "no number"}, {2, "1.2.3", "no number"}, {2, "1d5", "no number"}, {2, "1\x00", "no number"},
	} {
		got, err := parseOne(t, engine.Varchar, decimalOf(c.scale, false), c.in, "5e3")
		switch {
		case c.want == "" && (err != nil || got != c.in):
			t.Errorf("%q with scale %d: %q, %v; want it as it is", c.in, c.scale, got, err)
		case c.want == fine && (err == nil || !strings.Contains(err.Error(), "digits after the point")):
			t.Errorf("%q with scale %d: %v, want it too fine", c.in, c.scale, err)
		case c.want != "" && c.want != fine && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q with scale %d: %v, want %s", c.in, c.scale, err, c.want)
		}
	}
	if got, err := parseOne(t, engine.Varchar, decimalOf(2, true), "NaN", "5"); err != nil || got != "NaN" {
		t.Errorf("NaN: %q, %v", got, err)
	}
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
		_, err := parseOne(t, engine.Varchar, decimalOf(scale, false), s, "5")
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
		if ok != (err == nil) {
			t.Errorf("%q with scale %d: %v; as a fraction it fits: %v", s, scale, err, ok)
		}
	})
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
		parse, before := parseHex, "4142"
		if c.encoding == Base64 {
			parse, before = parseBase64, "QUI="
		}
		got, err := parseOne(t, engine.Binary, parse, c.in, before)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s %q: %q, %v; want %q, %v", c.encoding, c.in, got, err, c.want, c.err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(rng.Uint32())
		}
		for _, text := range []string{base64.StdEncoding.EncodeToString(p), base64.RawStdEncoding.EncodeToString(p)} {
			if got, err := parseOne(t, engine.Binary, parseBase64, text, "QUI"); err != nil || got != string(p) {
				t.Errorf("%q: %q, %v; want %q", text, got, err, p)
			}
		}
		if got, err := parseOne(t, engine.Binary, parseHex, hex.EncodeToString(p), "4142"); err != nil || got != string(p) {
			t.Errorf("%q in hex: %q, %v", p, got, err)
		}
	}
}

func TestAppendText(t *testing.T) {
	for _, c := range []struct {
		in     string
		noZero bool
		err    error
	}{
		{"", false, nil}, {"äöü€𝄞", true, nil}, {"a\x00b", false, nil}, {"a\x00b", true, errZero}, {"\xff", false, errUTF8}, {"a\xc3", true, errUTF8}, {"\xed\xa0\x80", false, errUTF8}, {"\xc0\x80", true, errUTF8},
	} {
		parse := func(v *engine.Vector, text []byte) error { return appendText(v, text, c.noZero) }
		if got, err := parseOne(t, engine.Varchar, parse, c.in, "x"); !errors.Is(err, c.err) || err == nil && got != c.in {
			t.Errorf("%q: %q, %v; want %v", c.in, got, err, c.err)
		}
	}
}

func TestNewColumn(t *testing.T) {
	db, ok := testdb.Open(t, "sqlite").(engine.Keeper)
	if !ok {
		t.Fatal("it keeps no tables")
	}
	for _, c := range []struct {
		native    string
		kind      value.Kind
		good, bad string
		as        engine.Type
	}{
		{"INTEGER", engine.KindInt, "5", "x", engine.Int64},
		{"REAL", engine.KindFloat, "5.5", "NaN", engine.Float64},
		{"DECIMAL(10,2)", engine.KindDecimal, "5.25", "5.255", engine.Varchar},
		{"DECIMAL(10)", engine.KindDecimal, "5", "5.5", engine.Varchar},
		{"bigint unsigned", engine.KindDecimal, "18446744073709551615", "1.5", engine.Varchar},
		{"bigint(20) unsigned", engine.KindDecimal, "18446744073709551615", "1.5", engine.Varchar},
		{"DATETIME", engine.KindTime, "2026-01-01", "x", engine.Time},
		{"BLOB", engine.KindBytes, "00", "0", engine.Binary},
		{"TEXT", engine.KindText, "x", "\xff", engine.Varchar},
		{"uuid", engine.KindOther, "x", "\xff", engine.Varchar},
	} {
		col, as, err := newColumn(engine.SchemaColumn{Name: "c", Native: c.native, Type: value.Type{Kind: c.kind}}, db, &ValueOptions{})
		if err != nil || as.Type != c.as || col.json {
			t.Errorf("%s: %+v, %v", c.native, as, err)
			continue
		}
		if _, err := parseOne(t, as.Type, col.parse, c.good, c.good); err != nil {
			t.Errorf("%s: %q: %v", c.native, c.good, err)
		}
		if _, err := parseOne(t, as.Type, col.parse, c.bad, c.good); err == nil {
			t.Errorf("%s takes %q", c.native, c.bad)
		}
	}
	for _, native := range []string{"json", "jsonb", "JSON"} {
		if col, _, err := newColumn(engine.SchemaColumn{Native: native}, db, &ValueOptions{}); err != nil || !col.json {
			t.Errorf("%s isn't JSON, %v", native, err)
		}
	}
	if _, _, err := newColumn(engine.SchemaColumn{Type: value.Type{Kind: value.Bytes}}, db, &ValueOptions{Bytes: "base32"}); err == nil {
		t.Error("base32 is taken")
	}
	for _, encoding := range Encodings() {
		if _, _, err := newColumn(engine.SchemaColumn{Type: value.Type{Kind: value.Bytes}}, db, &ValueOptions{Bytes: encoding}); err != nil {
			t.Error(err)
		}
	}
}
