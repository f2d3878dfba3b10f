// Package figure formats numbers for messages and reports: figure.Plural(n, "row",
// "rows") is "1 row" or "4,000,000 rows".
package figure

import (
	"fmt"
	"math"
	"strconv"
)

// Count formats an integer with separators: 4,000,000.
func Count[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Plural formats a number with a noun: 1 retry, 2,000 retries. The noun may be
// followed by a verb that agrees with it: 1 row was, 2 rows were.
func Plural[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + many
}

// Rounded formats a number without decimals: 4,000,000. A number that isn't finite is
// "?".
func Rounded(v float64) string {
	if math.IsNaN(v) || math.Abs(v) >= 1<<63 {
		return "?"
	}
	return Count(int64(math.Round(v)))
}

// Micros formats a time given in microseconds: 850 us, 1.2 ms, 34 ms, 5.6 s.
func Micros(us int64) string {
	v, unit := float64(us), "us"
	switch {
	case v >= 999500:
		v, unit = v/1e6, "s"
	case v >= 1000:
		v, unit = v/1000, "ms"
	}
	if unit != "us" && v < 9.95 {
		return fmt.Sprintf("%.1f %s", v, unit)
	}
	return fmt.Sprintf("%.0f %s", v, unit)
}

// Clock formats seconds as a clock does: 1:05, 2:03:04.
func Clock(seconds float64) string {
	if math.IsNaN(seconds) || seconds > 1e9 {
		return "?"
	}
	s := int64(math.Round(max(seconds, 0)))
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
