// Package figure formats integers for messages and reports: figure.Plural(n,
// "row", "rows") is "1 row" or "4,000,000 rows".
package figure

import "strconv"

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
