package figure_test

import (
	"math"
	"testing"

	"github.com/rowmill/rowmill/internal/figure"
)

func TestParseCount(t *testing.T) {
	cases := []struct {
		in   string
		want float64 // -1 if refused
	}{
		{"0", 0}, {"1500000", 1500000}, {"1_500_000", 1500000}, {"1.5M", 1500000}, {"10k", 10000}, {"2G", 2e9}, {"1e6", 1e6},
		{"", -1}, {"M", -1}, {"-1", -1}, {"0x10", -1}, {"NaN", -1}, {"Inf", -1}, {"1.5MB", -1}, {"1e400", -1}, {"1 000", -1},
	}
	for _, c := range cases {
		got, err := figure.ParseCount(c.in)
		if (err != nil) != (c.want < 0) || err == nil && got != c.want {
			t.Errorf("ParseCount(%q) = %v, %v; want %v", c.in, got, err, c.want)
		}
	}
}

func FuzzParseCount(f *testing.F) {
	for _, s := range []string{"1.5M", "1_0", "0x1p-2", "1e9k", "∞"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := figure.ParseCount(s); err == nil && (math.IsNaN(v) || math.IsInf(v, 0) || v < 0) {
			t.Errorf("ParseCount(%q) = %v", s, v)
		}
	})
}
