package archive

import (
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"
)

const microsPerDay = 24 * 3600 * 1e6

// A layout describes how a server writes the times of a column, so that the original
// text can be restored: for an engine that stores times as text, the text is the
// value.
type layout struct {
	// Sep separates date and time; "" means a date alone.
	Sep string `json:"sep,omitempty"`
	// Digits is the number of fractional digits of the second; -1 means as many as
	// needed.
	Digits int `json:"digits,omitempty"`
	// Zone is the suffix: one of zones.
	Zone string `json:"zone,omitempty"`
}

// zones are the notations for UTC, and no zone.
var zones = []string{"", "Z", "+00", "+00:00", "+0000"}

// format returns the text of an instant.
func (l layout) format(micros int64) string {
	t := time.UnixMicro(micros).UTC()
	b := t.AppendFormat(make([]byte, 0, 40), time.DateOnly)
	if l.Sep == "" {
		return string(append(b, l.Zone...))
	}
	b = append(b, l.Sep...)
	b = t.AppendFormat(b, time.TimeOnly)
	switch {
	case l.Digits < 0:
		b = t.AppendFormat(b, ".999999")
	case l.Digits > 0:
		b = t.AppendFormat(b, "."+strings.Repeat("0", min(l.Digits, 6)))
	}
	return string(append(b, l.Zone...))
}

// parseTime reads a time and returns the layouts that format it to the same text.
func parseTime(text string) (micros int64, fit []layout, ok bool) {
	if len(text) < len(time.DateOnly) {
		return 0, nil, false
	}
	date, rest := text[:len(time.DateOnly)], text[len(time.DateOnly):]
	t, err := time.Parse(time.DateOnly, date)
	if err != nil || t.Year() < 1 {
		return 0, nil, false
	}
	l := layout{}
	if rest != "" && (rest[0] == ' ' || rest[0] == 'T') {
		l.Sep, rest = rest[:1], rest[1:]
		if len(rest) < len(time.TimeOnly) {
			return 0, nil, false
		}
		clock, err := time.Parse(time.TimeOnly, rest[:len(time.TimeOnly)])
		if err != nil {
			return 0, nil, false
		}
		t = t.Add(time.Duration(clock.Hour())*time.Hour + time.Duration(clock.Minute())*time.Minute + time.Duration(clock.Second())*time.Second)
		rest = rest[len(time.TimeOnly):]
		if strings.HasPrefix(rest, ".") {
			rest = rest[1:]
			n, scale := 0, int64(100000)
			for ; n < len(rest) && rest[n] >= '0' && rest[n] <= '9'; n++ {
				micros += int64(rest[n]-'0') * scale
				scale /= 10
			}
			if n == 0 || n > 6 {
				return 0, nil, false
			}
			l.Digits, rest = n, rest[n:]
		}
	}
	l.Zone = rest
	micros += t.UnixMicro()
	for _, z := range zones {
		if z != l.Zone {
			continue
		}
		trimmed := l
		trimmed.Digits = -1
		for _, l := range []layout{l, trimmed} {
			if l.format(micros) == text {
				fit = append(fit, l)
			}
		}
		if l.Sep == "" {
			fit = fit[:min(len(fit), 1)]
		}
	}
	return micros, fit, len(fit) > 0
}

// encodeTime encodes a time. It requires a layout that fits all previous times of the
// column.
func (c *column) encodeTime(text []byte) (parquet.Value, error) {
	s := string(text)
	var micros int64
	if len(c.layouts) == 0 {
		var ok bool
		if micros, c.layouts, ok = parseTime(s); !ok {
			return parquet.Value{}, errUnfit
		}
	} else {
		var ok bool
		if micros, _, ok = parseTime(s); !ok {
			return parquet.Value{}, errUnfit
		}
		fit := c.layouts[:0]
		for _, l := range c.layouts {
			if l.format(micros) == s {
				fit = append(fit, l)
			}
		}
		if c.layouts = fit; len(fit) == 0 {
			return parquet.Value{}, errUnfit
		}
	}
	c.Layout = c.layouts[0]
	if c.Form == formTimestamp {
		return parquet.Int64Value(micros), nil
	}
	if micros%microsPerDay != 0 || c.Layout.Sep != "" {
		return parquet.Value{}, errUnfit
	}
	return parquet.Int32Value(int32(micros / microsPerDay)), nil
}
