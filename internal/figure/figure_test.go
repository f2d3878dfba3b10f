package figure_test

import (
	"math"
	"testing"

	"github.com/rowmill/rowmill/internal/figure"
)

func TestFigures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{figure.Count(0), "0"}, {figure.Count(999), "999"}, {figure.Count(-1234567), "-1,234,567"},
		{figure.Count(int64(math.MinInt64)), "-9,223,372,036,854,775,808"},
		{figure.Rounded(59_999.6), "60,000"}, {figure.Rounded(-0.2), "0"}, {figure.Rounded(math.Inf(1)), "-"},
		{figure.Plural(0, "row"), "0 rows"}, {figure.Plural(1, "row"), "1 row"}, {figure.Plural(-1, "row"), "-1 rows"},
		{figure.Plural(1, "retry", "retries"), "1 retry"}, {figure.Plural(1200, "retry", "retries"), "1,200 retries"},
		{figure.Number(1234.5), "1,235"}, {figure.Number(12.34), "12.3"}, {figure.Number(0.0421), "0.04"}, {figure.Number(0.00421), "0.0042"},
		{figure.Number(math.NaN()), "-"}, {figure.Number(1e300), "1e+300"},
		{figure.Short(950), "950"}, {figure.Short(999_499), "999k"}, {figure.Short(999_500), "1M"}, {figure.Short(1_250_000), "1.25M"}, {figure.Short(3e9), "3G"},
		{figure.Bytes(int64(0)), "0 B"}, {figure.Bytes(1023.0), "1023 B"}, {figure.Bytes(1536.0), "1.5 KiB"}, {figure.Bytes(int64(96 << 20)), "96 MiB"},
		{figure.Bytes(int64(math.MaxInt64)), "8192 PiB"},
		{figure.Micros(999.4), "999 µs"}, {figure.Micros(int64(12_500)), "12.5 ms"}, {figure.Micros(int64(3_200_000)), "3.2 s"}, {figure.Micros(-1.0), "-"},
		{figure.Seconds(12.34), "12.3 s"}, {figure.Seconds(312), "312 s (5m12s)"},
		{figure.Clock(10_920), "3h02m"}, {figure.Clock(400_000), "4d15h"}, {figure.Clock(math.NaN()), "-"},
		{figure.Percent(0.0331), "3.3%"}, {figure.Percent(1), "100%"}, {figure.Percent(0.000_04), "0.004%"},
		{figure.Ratio(26.34), "26.3x"}, {figure.Ratio(1), "1.00x"}, {figure.Ratio(math.Inf(1)), "-"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
	for s, want := range map[float64]string{0: "0s", .004: "4ms", .9996: "1s", 1.5: "1.5s", 9.96: "10s", 59.6: "1m", 90: "1m 30s", 612: "10m", 3600: "1h",
		19800: "5h 30m", 86400: "1d", 171000: "1d 23h", 864000: "10d", -90: "-1m 30s", math.Inf(1): "unknown", math.NaN(): "unknown", 1e300: "ages"} {
		if got := figure.Duration(s); got != want {
			t.Errorf("%v s: %q, want %q", s, got, want)
		}
	}
}
