package result

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes formats a size for messages: 64 MiB, 1.2 GiB.
func Bytes(n float64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for math.Abs(n) >= 1024 && i < len(units)-1 {
		n /= 1024
		i++
	}
	if i == 0 || math.Abs(n) >= 100 {
		return fmt.Sprintf("%.0f %s", n, units[i])
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0") + " " + units[i]
}

// microseconds formats a latency with three figures: 850 µs, 12.5 ms, 3.2 s.
func microseconds(us int64) string {
	v, unit := float64(us), "µs"
	if v >= 1e6 {
		v, unit = v/1e6, "s"
	} else if v >= 1e3 {
		v, unit = v/1e3, "ms"
	}
	digits := 2
	if v >= 100 || unit == "µs" {
		digits = 0
	} else if v >= 10 {
		digits = 1
	}
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if digits > 0 {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s + " " + unit
}

// grouped formats a number without decimals, with thousands separators: 60,000.
func grouped(f float64) string {
	s := strconv.FormatFloat(math.Abs(f), 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if f <= -0.5 {
		s = "-" + s
	}
	return s
}
