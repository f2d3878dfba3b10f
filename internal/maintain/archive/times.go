package archive

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/rowmill/rowmill/internal/value"
)

const microsPerDay = 24 * 3600 * 1e6

// A layout is how a server writes the times of a column. An engine that stores times as text needs
// exactly the same text back.
type layout struct {
	// Sep separates date and time; "" means a date alone.
	Sep string `json:"sep,omitempty"`
	// Digits is the number of fractional digits of the second; -1 means as many as needed.
	Digits int `json:"digits,omitempty"`
	// Zone is the suffix: one of zones.
	Zone string `json:"zone,omitempty"`
}

// zones are the notations for UTC, and no zone.
var zones = []string{"", "Z", "+00", "+00:00", "+0000"}

// append appends the text of an instant.
func (l layout) append(dst []byte, micros int64) []byte {
	const date, clock = len(time.DateOnly), len(value.TimeLayout)
	from := len(dst)
	dst = value.AppendTime(dst, micros)
	b := dst[from:]
	if l.Sep == "" {
		return append(dst[:from+date], l.Zone...)
	}
	b[date] = l.Sep[0]
	switch {
	case l.Digits == 0:
		b = b[:clock]
	case l.Digits > 0:
		if len(b) == clock {
			dst = append(dst, ".000000"...)
			b = dst[from:]
		}
		b = b[:clock+1+min(l.Digits, 6)]
	case len(b) > clock:
		b = bytes.TrimRight(b, "0")
	}
	return append(dst[:from+len(b)], l.Zone...)
}

// layoutsOf returns the layouts that a text may have, first the one with a fixed number of digits.
func layoutsOf(text string) []layout {
	l, rest := layout{}, text[len(time.DateOnly):]
	if len(rest) > len(time.TimeOnly) && (rest[0] == ' ' || rest[0] == 'T') {
		l.Sep, rest = rest[:1], rest[1+len(time.TimeOnly):]
		if fraction, after := rest, strings.TrimLeft(strings.TrimPrefix(rest, "."), "0123456789"); strings.HasPrefix(rest, ".") {
			l.Digits, rest = len(fraction)-len(after)-1, after
		}
	}
	if l.Zone = rest; !slices.Contains(zones, rest) {
		return nil
	}
	if l.Sep == "" {
		return []layout{l}
	}
	trimmed := l
	trimmed.Digits = -1
	return []layout{l, trimmed}
}

// encodeTime encodes a time. It returns errUnfit unless one layout restores the texts of this time
// and of all previous times of the column.
func (c *column) encodeTime(text []byte) (parquet.Value, error) {
	micros, exact, err := value.ParseTime(text, nil)
	if err != nil || !exact || string(text[:4]) == "0000" {
		return parquet.Value{}, errUnfit
	}
	if len(c.layouts) == 0 {
		c.layouts = layoutsOf(string(text))
	}
	var buf [40]byte
	c.layouts = slices.DeleteFunc(c.layouts, func(l layout) bool { return string(l.append(buf[:0], micros)) != string(text) })
	if len(c.layouts) == 0 {
		return parquet.Value{}, errUnfit
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
