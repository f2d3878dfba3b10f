package ingest

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
)

func TestParseUnix(t *testing.T) {
	for _, c := range []struct {
		text, unit string
		us         int64
		exact      bool
	}{
		{"0", "s", 0, true}, {"1774746000", "s", 1774746000e6, true}, {"1774746000.25", "s", 1774746000250000, true},
		{"1774746000123", "ms", 1774746000123000, true}, {"1774746000123.4567", "ms", 1774746000123456, false},
		{"1774746000123456", "us", 1774746000123456, true}, {"1774746000123456789", "ns", 1774746000123456, false},
		{"1774746000123456000", "ns", 1774746000123456, true}, {"7", "ns", 0, false}, {"-1", "s", -1e6, true}, {"-0.0000015", "s", -2, false},
	} {
		us, exact, err := parseUnix([]byte(c.text), units[c.unit])
		if err != nil || us != c.us || exact != c.exact {
			t.Errorf("%s %s: %d, %t, %v; want %d, %t", c.text, c.unit, us, exact, err, c.us, c.exact)
		}
	}
	for _, text := range []string{"", "-", ".", ".5", "1e9", "12a", "1.2.3", "99999999999999999999", "--1", "+1", " 1"} {
		if us, _, err := parseUnix([]byte(text), 6); err == nil {
			t.Errorf("%q is %d", text, us)
		}
	}
	rnd := rand.New(rand.NewPCG(3, 3))
	for range 5000 {
		unit := Units()[rnd.IntN(4)]
		text := fmt.Sprintf("%d.%0*d", rnd.Int64N(1e9), 1+rnd.IntN(12), rnd.Int64N(1e6))
		if rnd.IntN(2) == 0 {
			text = "-" + text
		}
		us, exact, err := parseUnix([]byte(text), units[unit])
		want, _ := new(big.Rat).SetString(text)
		scale := new(big.Rat).SetInt64(map[string]int64{"s": 1e6, "ms": 1e3, "us": 1, "ns": 1}[unit])
		if want.Mul(want, scale); unit == "ns" {
			want.Quo(want, new(big.Rat).SetInt64(1000))
		}
		floor := new(big.Int).Div(want.Num(), want.Denom()) // rounds down, as denominators are positive
		if err != nil || us != floor.Int64() || exact != want.IsInt() {
			t.Fatalf("%s %s: %d, %t, %v; want %s", text, unit, us, exact, err, floor)
		}
	}
}
