package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	figures "github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/result"
)

// none is shown in place of a missing figure.
const none = "-"

func count[N int | int64](n N) string { return figures.Count(n) }

// figure formats a number with three to four significant digits, without an exponent
// up to 10^15.
func figure(f float64) string {
	switch a := math.Abs(f); {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return none
	case a == 0:
		return "0"
	case a >= 1e15:
		return strconv.FormatFloat(f, 'g', 4, 64)
	case a >= 100:
		return count(int64(math.Round(f)))
	case a >= 10:
		return trimZeros(strconv.FormatFloat(f, 'f', 1, 64))
	case a >= 0.01:
		return trimZeros(strconv.FormatFloat(f, 'f', 2, 64))
	}
	return strconv.FormatFloat(f, 'g', 2, 64)
}

func trimZeros(s string) string {
	if strings.Contains(s, ".") {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// short formats a count for axes and sentences: 640k, 1.25M, 3G.
func short(f float64) string {
	a := math.Abs(f)
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return none
	case a >= 999.5e6:
		return trimZeros(strconv.FormatFloat(f/1e9, 'f', shortDigits(a/1e9), 64)) + "G"
	case a >= 999.5e3:
		return trimZeros(strconv.FormatFloat(f/1e6, 'f', shortDigits(a/1e6), 64)) + "M"
	case a >= 1e3:
		return trimZeros(strconv.FormatFloat(f/1e3, 'f', shortDigits(a/1e3), 64)) + "k"
	}
	return trimZeros(strconv.FormatFloat(f, 'f', shortDigits(a), 64))
}

func shortDigits(a float64) int {
	switch {
	case a >= 100:
		return 0
	case a >= 10:
		return 1
	}
	return 2
}

// rowsRate formats a rate in rows per second.
func rowsRate(f float64) string { return figure(f) + " rows/s" }

// micros formats a latency given in microseconds.
func micros(us float64) string {
	switch {
	case math.IsNaN(us) || math.IsInf(us, 0) || us < 0:
		return none
	case us < 1000:
		return figure(us) + " µs"
	case us < 1e6:
		return figure(us/1e3) + " ms"
	}
	return figure(us/1e6) + " s"
}

// seconds formats a duration given in seconds; from two minutes on, it appends the
// form of clock.
func seconds(s float64) string {
	out := figure(s) + " s"
	if s < 120 || s >= 1e9 || math.IsNaN(s) {
		return out
	}
	return out + " (" + clock(s) + ")"
}

// clock formats a duration given in seconds as 5m12s or 3h02m.
func clock(s float64) string {
	if math.IsNaN(s) || math.IsInf(s, 0) || s < 0 || s >= 1e9 {
		return none
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

// percent formats a fraction as a percentage.
func percent(f float64) string {
	p := 100 * f
	switch a := math.Abs(p); {
	case math.IsNaN(p) || math.IsInf(p, 0):
		return none
	case a == 0 || a >= 10:
		return fmt.Sprintf("%.0f%%", p)
	case a >= 0.1:
		return trimZeros(fmt.Sprintf("%.1f", p)) + "%"
	}
	return strconv.FormatFloat(p, 'g', 2, 64) + "%"
}

// ratio formats a quotient: 26.3x, 0.97x, 1.00x.
func ratio(f float64) string {
	switch a := math.Abs(f); {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return none
	case a >= 0.01 && a < 10:
		return strconv.FormatFloat(f, 'f', 2, 64) + "x"
	}
	return figure(f) + "x"
}

func bytes(n float64) string { return result.Bytes(n) }

func plural[N int | int64](n N, one, many string) string { return figures.Plural(n, one, many) }
