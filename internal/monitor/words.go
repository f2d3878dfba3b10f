package monitor

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration formats seconds for people, with two units at most: 2d 3h, 45m, 12s,
// 250ms. Months and years have no fixed length and are not used.
func Duration(seconds float64) string {
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) {
		return "unknown"
	}
	if seconds < 0 {
		return "-" + Duration(-seconds)
	}
	if seconds == 0 {
		return "0s"
	}
	if seconds < 0.9995 {
		return fmt.Sprintf("%.0fms", seconds*1000)
	}
	if seconds < 9.95 {
		return strings.TrimSuffix(fmt.Sprintf("%.1f", seconds), ".0") + "s"
	}
	if seconds > 1e12 {
		return "ages"
	}
	s := int64(math.Round(seconds))
	units := []struct {
		name string
		s    int64
	}{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}}
	for i, u := range units {
		if s < u.s {
			continue
		}
		out := fmt.Sprintf("%d%s", s/u.s, u.name)
		// From ten of a unit on, the next smaller unit is insignificant.
		if i+1 < len(units) && s/u.s < 10 {
			if rest := s % u.s / units[i+1].s; rest > 0 {
				out += fmt.Sprintf(" %d%s", rest, units[i+1].name)
			}
		}
		return out
	}
	return "10s" // seconds is above 9.95
}

// Bytes formats a size for people: 64 MiB, 1.2 GiB.
func Bytes(n int64) string {
	v, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	i := 0
	for math.Abs(v) >= 1024 && i < len(units)-1 {
		v /= 1024
		i++
	}
	if i == 0 || math.Abs(v) >= 100 {
		return fmt.Sprintf("%.0f %s", v, units[i])
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") + " " + units[i]
}

// Count formats a number with thousands separators: 60,000.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// short formats a number with three digits at most: 850, 5.2 k, 1.3 M.
func short(v float64) string {
	for _, u := range []struct {
		per  float64
		name string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if v >= u.per*0.9995 {
			digits := 1
			if v/u.per >= 99.95 {
				digits = 0
			}
			return strings.TrimSuffix(strconv.FormatFloat(v/u.per, 'f', digits, 64), ".0") + u.name
		}
	}
	if v > 0 && v < 9.95 {
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// at formats a time, in UTC.
func at(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }

// layouts are the formats of positions of time axes in a status.
var layouts = []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999", "2006-01-02T15:04:05.999999", "2006-01-02 15:04", "2006-01-02"}

// position parses a period's bound: seconds since 1970, or a key value. ok is false
// if it is neither.
func position(s string) (v float64, isTime, ok bool) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return float64(n), false, true
	}
	for _, l := range layouts {
		if t, err := time.Parse(l, s); err == nil {
			return float64(t.UnixMilli()) / 1000, true, true
		}
	}
	return 0, false, false
}
