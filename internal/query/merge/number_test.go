package merge

import (
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// randomNumber returns the text of a number with up to digits digits, in the form of servers.
func randomNumber(r *rand.Rand, digits, scale int) string {
	whole := 1 + r.IntN(digits)
	var b strings.Builder
	for i := range whole {
		d := r.IntN(10)
		if i == 0 && whole > 1 && d == 0 {
			d = 1 + r.IntN(9)
		}
		b.WriteByte(byte('0' + d))
	}
	if scale > 0 {
		b.WriteByte('.')
		for range scale {
			b.WriteByte(byte('0' + r.IntN(10)))
		}
	}
	s := b.String()
	if strings.Trim(s, "0.") != "" && r.IntN(2) == 0 {
		s = "-" + s
	}
	return s
}

func bigOf(t *testing.T, text string) *big.Int {
	n, ok := new(big.Int).SetString(strings.Replace(text, ".", "", 1), 10)
	if !ok {
		t.Fatalf("%q is no number", text)
	}
	return n
}

func parsed(t *testing.T, text string, scale int) wide {
	n, w, large, ok := ParseNumber([]byte(text), scale)
	if !ok {
		t.Fatalf("parse %q with scale %d: refused", text, scale)
	}
	if !large {
		w = wideOf(n)
	}
	return w
}

func TestNumbersAreExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		scale := r.IntN(31)
		a, b := randomNumber(r, 35, scale), randomNumber(r, 1+r.IntN(35), scale)
		x, y := parsed(t, a, scale), parsed(t, b, scale)
		if got := string(appendWide(nil, x, scale)); got != a {
			t.Fatalf("%s with scale %d was written as %s", a, scale, got)
		}
		sum, ok := x.add(y)
		want := new(big.Int).Add(bigOf(t, a), bigOf(t, b))
		if got := string(appendWide(nil, sum, 0)); !ok || got != want.String() {
			t.Fatalf("%s + %s: %s, want %s", a, b, got, want)
		}
		if got := x.compare(y); got != bigOf(t, a).Cmp(bigOf(t, b)) {
			t.Fatalf("compare %s with %s: %d", a, b, got)
		}
		count := uint64(1 + r.IntN(1_000_000))
		to := scale + r.IntN(9)
		q, ok := quotient(x, count, scale, to)
		if got, want := string(appendWide(nil, q, 0)), bigQuotient(bigOf(t, a), count, scale, to).String(); !ok || got != want {
			t.Fatalf("%s / %d with %d digits: %s, want %s", a, count, to, got, want)
		}
	}
}

// bigQuotient divides as decimal_div of MySQL does: to whole groups of nine digits, then it rounds.
func bigQuotient(sum *big.Int, count uint64, from, to int) *big.Int {
	digits := quotientDigits(from, to)
	ten := big.NewInt(10)
	q := new(big.Int).Mul(sum, new(big.Int).Exp(ten, big.NewInt(int64(digits-from)), nil))
	q.Quo(q, new(big.Int).SetUint64(count))
	if digits == to {
		return q
	}
	unit := new(big.Int).Exp(ten, big.NewInt(int64(digits-to)), nil)
	half := new(big.Int).Quo(unit, big.NewInt(2))
	if q.Sign() < 0 {
		half.Neg(half)
	}
	return q.Quo(q.Add(q, half), unit)
}

func TestNumbersInOtherFormsAreRefused(t *testing.T) {
	for _, c := range []struct {
		text  string
		scale int
	}{
		{"", 0}, {"-", 0}, {"-0", 0}, {"007", 0}, {"+1", 0}, {"1e3", 0}, {" 1", 0}, {"1 ", 0}, {"1.5", 0}, {"1", 1}, {"1.", 1}, {"1.55", 1}, {".5", 1},
		{"-0.00", 2}, {"00.50", 2}, {"1-2", 0}, {"NaN", 0}, {"--1", 0}, {"-.5", 1}, {"0x1", 0}, {"1.2.3", 3},
		{"-0." + strings.Repeat("0", 30), 30}, {strings.Repeat("9", 90), 0}, {"-" + strings.Repeat("9", 78), 0},
	} {
		if _, _, _, ok := ParseNumber([]byte(c.text), c.scale); ok {
			t.Errorf("%q with scale %d was accepted", c.text, c.scale)
		}
	}
}

func TestSumsBeyond256BitsAreNoticed(t *testing.T) {
	x := parsed(t, strings.Repeat("5", 77), 0)
	if _, ok := x.add(x); ok {
		t.Error("an overflow wasn't noticed")
	}
	if _, ok := x.negate().add(x.negate()); ok {
		t.Error("an overflow of negative numbers wasn't noticed")
	}
	if _, ok := quotient(x, 3, 0, 4); ok {
		t.Error("an overflow of a quotient wasn't noticed")
	}
	if tenTo65.fits() || !parsed(t, strings.Repeat("9", 65), 0).fits() || !parsed(t, "-"+strings.Repeat("9", 65), 0).fits() {
		t.Error("65 digits fit, and 66 don't")
	}
}

func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "-1", "12.50", "-0.01", "18446744073709551615", "99999999999999999999999999999999999.999999999999999999999999999999"} {
		f.Add(s, uint8(2))
	}
	f.Fuzz(func(t *testing.T, text string, scale uint8) {
		n, w, large, ok := ParseNumber([]byte(text), int(scale%40))
		if !ok {
			return
		}
		if !large {
			w = wideOf(n)
		}
		if got := string(appendWide(nil, w, int(scale%40))); got != text {
			t.Errorf("%q became %q", text, got)
		}
	})
}
