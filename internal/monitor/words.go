package monitor

import (
	"strconv"
	"time"
)

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
