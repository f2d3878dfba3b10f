// Package figure formats numbers with their units, for messages, reports and pages:
// figure.Plural(n, "row") is "1 row" or "4,000,000 rows", figure.Bytes(n) "1.2 GiB",
// figure.Micros(us) "12.5 ms". NaN and infinities are None. It also parses counts and shares as
// users write them: 1.5M, 5%.
package figure

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// None is shown in place of a missing figure.
const None = "-"

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// Count formats an integer with separators: 4,000,000.
func Count[N int | int64](n N) string { return grouped(strconv.FormatInt(int64(n), 10)) }

// Rounded formats a number, rounded to an integer, with separators: 60,000.
func Rounded(f float64) string {
	if !finite(f) {
		return None
	}
	return grouped(strconv.FormatFloat(math.Round(f)+0, 'f', 0, 64)) // +0 turns -0 into 0
}

// grouped inserts the separators into an integer.
func grouped(s string) string {
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Plural formats a number with a noun: 1 row, 2,000 rows. If the plural isn't the noun with an s,
// the caller gives it. Both forms may include a verb: 1 row was, 2 rows were.
func Plural[N int | int64](n N, one string, many ...string) string {
	switch {
	case n == 1:
		return "1 " + one
	case len(many) == 0:
		return Count(n) + " " + one + "s"
	}
	return Count(n) + " " + many[0]
}

// Number formats a number with three to four significant digits, without an exponent up to 10^15.
func Number(f float64) string {
	switch a := math.Abs(f); {
	case !finite(f):
		return None
	case a == 0:
		return "0"
	case a >= 1e15:
		return strconv.FormatFloat(f, 'g', 4, 64)
	case a >= 0.01:
		return digits(f)
	}
	return strconv.FormatFloat(f, 'g', 2, 64)
}

// digits formats a number with three significant digits, or with all digits of its integer part if
// that has more than three.
func digits(f float64) string {
	switch a := math.Abs(f); {
	case a > 0 && a < 0.01: // 0.005 is not 0.01
		return strconv.FormatFloat(f, 'g', 2, 64)
	case a >= 100:
		return Rounded(f)
	case a >= 10:
		return TrimZeros(strconv.FormatFloat(f, 'f', 1, 64))
	}
	return TrimZeros(strconv.FormatFloat(f, 'f', 2, 64))
}

// TrimZeros returns a number without the zeros at the end of its fraction: 1.50 is 1.5, 0.000 is 0.
func TrimZeros(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// Rate formats rows per second.
func Rate(rowsPerSecond float64) string { return Number(rowsPerSecond) + " rows/s" }

// Short formats a count for axes and sentences: 640k, 1.25M, 3G.
func Short(f float64) string {
	switch a := math.Abs(f); {
	case !finite(f):
		return None
	case a >= 999.5e6:
		return digits(f/1e9) + "G"
	case a >= 999.5e3:
		return digits(f/1e6) + "M"
	case a >= 1e3:
		return digits(f/1e3) + "k"
	}
	return digits(f)
}

// Bytes formats a size: 64 MiB, 1.2 GiB.
func Bytes[N int64 | float64](n N) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	f, i := float64(n), 0
	for math.Abs(f) >= 1024 && i < len(units)-1 {
		f /= 1024
		i++
	}
	if i == 0 || math.Abs(f) >= 100 {
		return fmt.Sprintf("%.0f %s", f, units[i])
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", f), ".0") + " " + units[i]
}

// Micros formats a latency given in microseconds: 850 µs, 12.5 ms, 3.2 s.
func Micros[N int64 | float64](us N) string {
	switch f := float64(us); {
	case !finite(f) || f < 0:
		return None
	case f < 1000:
		return Number(f) + " µs"
	case f < 1e6:
		return Number(f/1e3) + " ms"
	default:
		return Number(f/1e6) + " s"
	}
}

// Seconds formats a duration given in seconds; from two minutes on, it appends the
// form of Clock: 312 s (5m12s).
func Seconds(s float64) string {
	out := Number(s) + " s"
	if s < 120 || s >= 1e9 || math.IsNaN(s) {
		return out
	}
	return out + " (" + Clock(s) + ")"
}

// Clock formats a duration given in seconds as 5m12s, 3h02m or 12d03h.
func Clock(s float64) string {
	if !finite(s) || s < 0 || s >= 1e9 {
		return None
	}
	n := int64(math.Round(s))
	switch {
	case n < 60:
		return fmt.Sprintf("%ds", n)
	case n < 3600:
		return fmt.Sprintf("%dm%02ds", n/60, n%60)
	case n < 100*3600:
		return fmt.Sprintf("%dh%02dm", n/3600, n/60%60)
	}
	return fmt.Sprintf("%dd%02dh", n/86400, n/3600%24)
}

// Duration formats seconds with two units at most: 2d 3h, 45m, 12s, 250ms. Months and
// years have no fixed length and are not used.
func Duration(seconds float64) string {
	switch {
	case !finite(seconds):
		return "unknown"
	case seconds < 0:
		return "-" + Duration(-seconds)
	case seconds == 0:
		return "0s"
	case seconds < 0.9995:
		return fmt.Sprintf("%.0fms", seconds*1000)
	case seconds < 9.95:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", seconds), ".0") + "s"
	case seconds > 1e12:
		return "ages"
	}
	s := int64(math.Round(seconds))
	units := []struct {
		name string
		s    int64
	}{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}}
	i := 0
	for s < units[i].s {
		i++
	}
	u := units[i]
	out := fmt.Sprintf("%d%s", s/u.s, u.name)
	// From ten of a unit on, the next smaller unit is insignificant.
	if i+1 < len(units) && s/u.s < 10 {
		if rest := s % u.s / units[i+1].s; rest > 0 {
			out += fmt.Sprintf(" %d%s", rest, units[i+1].name)
		}
	}
	return out
}

// Percent formats a fraction as a percentage.
func Percent(f float64) string {
	p := 100 * f
	switch a := math.Abs(p); {
	case !finite(p):
		return None
	case a == 0 || a >= 10:
		return fmt.Sprintf("%.0f%%", p)
	case a >= 0.1:
		return TrimZeros(fmt.Sprintf("%.1f", p)) + "%"
	}
	return strconv.FormatFloat(p, 'g', 2, 64) + "%"
}

// Ratio formats a quotient: 26.3x, 0.97x, 1.00x.
func Ratio(f float64) string {
	switch a := math.Abs(f); {
	case !finite(f):
		return None
	case a >= 0.01 && a < 10:
		return strconv.FormatFloat(f, 'f', 2, 64) + "x"
	}
	return Number(f) + "x"
}

// OneLine turns external text, such as a server's message, into one line without
// control sequences for a terminal.
func OneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// Words formats a number with three digits and a word: 2.34 million.
func Words(n float64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f billion", n/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2f million", n/1e6)
	case n >= 1000:
		return Count(int64(n))
	case n == math.Trunc(n) || n >= 100:
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.2g", n)
}

// Span formats a length of time, given in seconds, in one unit: 3.2 days.
func Span(seconds float64) string {
	for _, u := range []struct {
		name string
		s    float64
	}{{"years", 365 * 86400}, {"days", 86400}, {"hours", 3600}, {"minutes", 60}} {
		if v := seconds / u.s; v >= 2 {
			return fmt.Sprintf("%.1f %s", v, u.name)
		}
	}
	return fmt.Sprintf("%.0f seconds", seconds)
}
