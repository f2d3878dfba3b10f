package value

import (
	"errors"
	"math/big"
	"strings"
	"testing"
)

func bitsOf(t testing.TB, width int, kind Kind, untyped bool) Reader {
	t.Helper()
	return readerOf(t, Type{Kind: kind, Logical: Bit, Bits: width}, Notation{}, Server{Untyped: untyped})
}

func TestBits(t *testing.T) {
	const tooMany = "more than the"
	for _, c := range []struct {
		width     int
		in        string
		want, err string // want contains binary digits
	}{
		{8, "10", "00001010", ""}, {8, "0", "00000000", ""}, {8, "255", "11111111", ""}, {8, "007", "00000111", ""},
		{8, "256", "", tooMany}, {8, "00001010", "00001010", ""}, {8, "11111111", "11111111", ""},
		{8, "1111111", "", tooMany}, // seven digits are a decimal number
		{8, "b'10'", "00000010", ""}, {8, "B'10'", "00000010", ""}, {8, "0b10", "00000010", ""}, {8, "0x10", "00010000", ""}, {8, "x'f'", "00001111", ""},
		{8, "0x1FF", "", tooMany}, {8, "b'100000000'", "", tooMany}, {8, "0b0000000010", "00000010", ""},
		{1, "0", "0", ""}, {1, "1", "1", ""}, {1, "2", "", tooMany}, {1, "10", "", tooMany},
		{2, "10", "10", ""}, {2, "11", "11", ""}, {2, "01", "01", ""}, {2, "3", "11", ""},
		{10, "1000", "1111101000", ""}, {10, "1024", "", tooMany},
		{64, "18446744073709551615", strings.Repeat("1", 64), ""}, {64, "18446744073709551616", "", tooMany},
		{64, "9223372036854775808", "1" + strings.Repeat("0", 63), ""}, {64, strings.Repeat("0", 60) + "1010", strings.Repeat("0", 60) + "1010", ""},
		{100, "1267650600228229401496703205375", strings.Repeat("1", 100), ""}, {64, strings.Repeat("9", 1000), "", tooMany},
		{8, "", "", "number of bits"}, {8, "-1", "", "number of bits"}, {8, "+1", "", "number of bits"}, {8, "1.0", "", "number of bits"}, {8, "true", "", "number of bits"},
		{8, "t", "", "number of bits"}, {8, "\x01", "", "number of bits"}, {8, "b'12'", "", "number of bits"}, {8, "0x", "", "number of bits"}, {8, "x''", "", "number of bits"},
		{8, "0xg", "", "number of bits"}, {8, " 1", "", "number of bits"}, {8, "a0", "", "number of bits"}, {8, "１", "", "number of bits"},
	} {
		got, err := read(t, bitsOf(t, c.width, Other, false), c.in)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("BIT(%d) %q: %s, %v; want %s, %s", c.width, c.in, got, err, c.want, c.err)
		}
	}
	if got, err := read(t, bitsOf(t, 10, Bytes, false), "513"); got != "\x02\x01" || err != nil {
		t.Errorf("as bytes: %q, %v", got, err)
	}
	if got, err := read(t, bitsOf(t, 10, Other, true), "513"); got != "513" || err != nil {
		t.Errorf("as an integer: %q, %v", got, err)
	}
	if got, err := read(t, bitsOf(t, 64, Other, true), "9223372036854775808"); !errors.Is(err, errIntRange) {
		t.Errorf("beyond an integer: %q, %v", got, err)
	}
}

// FuzzBits checks that the bits read equal the digits, and that all forms agree.
func FuzzBits(f *testing.F) {
	for _, s := range []string{"10", "00001010", "b'10'", "0x0A", "x'f'", "18446744073709551616", "-1", "\x01", ""} {
		f.Add(s, 8)
		f.Add(s, 64)
	}
	f.Fuzz(func(t *testing.T, s string, width int) {
		// BIT(1) is also read from words.
		if width < 1 || width > 200 || width == 1 && !strings.ContainsAny(s, "0123456789") {
			return
		}
		b := bitsOf(t, width, Other, false)
		got, err := read(t, b, s)
		if err != nil {
			return
		}
		if len(got) != width {
			t.Fatalf("BIT(%d) %q: %s", width, s, got)
		}
		n, _ := new(big.Int).SetString(got, 2)
		if len(s) != width || strings.Trim(s, "01") != "" {
			want, base := s, 10
			if low := strings.ToLower(strings.Trim(s, "'")); strings.HasPrefix(low, "0b") || strings.HasPrefix(low, "b'") {
				want, base = low[2:], 2
			} else if strings.HasPrefix(low, "0x") || strings.HasPrefix(low, "x'") {
				want, base = low[2:], 16
			}
			if is, ok := new(big.Int).SetString(want, base); !ok || is.Cmp(n) != 0 {
				t.Fatalf("BIT(%d) %q is read as %s", width, s, got)
			}
		}
		for _, form := range []string{n.String(), got, "b'" + got + "'", "0x" + n.Text(16)} {
			if again, err := read(t, b, form); err != nil || again != got {
				t.Fatalf("BIT(%d) %q is %s, and %q is %s, %v", width, s, got, form, again, err)
			}
		}
	})
}
