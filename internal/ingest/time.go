package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

var (
	errNoTime   = errors.New("it is no time such as 2026-03-29 01:00:00 or 2026-03-29T01:00:00Z")
	errNoSuch   = errors.New("there is no such time in its time zone: the clock was put forward")
	errTwice    = errors.New("it is there twice in its time zone: the clock was put back; write it with its offset")
	errNotWhole = errors.New("it has a time of day, and the column keeps days")
)

// timeOf returns the parser of times for a column: RFC 3339, or the SQL form, with a
// blank or a T between date and time, with or without an offset. A date alone means
// its midnight. name and digits describe the column's type.
func timeOf(name string, digits []int, engineName string, o *ValueOptions) func(v *engine.Vector, text []byte) error {
	keeps := 6
	if engineName == "mysql" || engineName == "mariadb" {
		keeps = 0
	}
	if len(digits) > 0 {
		keeps = min(digits[0], 6)
	}
	unit, zone := int64(1), o.Zone
	for range 6 - keeps {
		unit *= 10
	}
	if name == "date" {
		unit = 24 * 3600e6
		zone = nil // a date is the same in each zone
	}
	tooFine := fmt.Errorf("it has more than the %d digits of a second that the column keeps", keeps)
	return func(v *engine.Vector, text []byte) error {
		us, exact, err := parseTime(text, zone)
		if err != nil && o.Unix != "" {
			us, exact, err = parseUnix(text, units[o.Unix])
		}
		if err != nil {
			return err
		}
		rest := us % unit
		if rest < 0 {
			rest += unit
		}
		if (rest != 0 || !exact) && !o.TruncateTimes {
			if name == "date" {
				return errNotWhole
			}
			return tooFine
		}
		v.Ints = append(v.Ints, us-rest)
		return nil
	}
}

// units gives, for each unit of numbers, the decimal digits by which it exceeds a
// microsecond: a second is 10^6 microseconds.
var units = map[string]int{"s": 6, "ms": 3, "us": 0, "ns": -3}

// Units returns the units in which numbers in time columns may count since 1970.
func Units() []string { return []string{"s", "ms", "us", "ns"} }

// parseUnix reads a number of units since 1970, with or without a fraction, and
// returns it in microseconds. exact reports that it has no digits beyond a
// microsecond.
func parseUnix(p []byte, digits int) (us int64, exact bool, err error) {
	negative := len(p) > 0 && p[0] == '-'
	if negative {
		p = p[1:]
	}
	whole, fraction, _ := bytes.Cut(p, []byte("."))
	if digits < 0 { // finer than a microsecond
		n := max(len(whole)+digits, 0)
		whole, fraction, digits = whole[:n], slices.Concat(whole[n:], fraction), 0
		if n == 0 {
			whole = []byte("0")
		}
	}
	exact = true
	n := int64(0)
	for i := range len(whole) + max(digits, len(fraction)) {
		c := byte('0')
		switch {
		case i < len(whole):
			c = whole[i]
		case i-len(whole) < len(fraction):
			c = fraction[i-len(whole)]
		}
		if c -= '0'; c > 9 {
			return 0, false, errNoTime
		}
		if i >= len(whole)+digits {
			exact = exact && c == 0
			continue
		}
		if n > math.MaxInt64/10-1 {
			return 0, false, errNoTime
		}
		n = n*10 + int64(c)
	}
	if len(whole) == 0 {
		return 0, false, errNoTime
	}
	if negative {
		n = -n
		if !exact {
			n-- // round down, as for times before 1970
		}
	}
	return n, exact, nil
}

// number reads p, which must consist of digits.
func number(p []byte) (n int, ok bool) {
	for _, c := range p {
		c -= '0'
		if c > 9 {
			return 0, false
		}
		n = n*10 + int(c)
	}
	return n, len(p) > 0
}

// parseTime reads a time and returns it in microseconds since 1970 in UTC. exact
// reports that it has no digits beyond a microsecond.
func parseTime(p []byte, zone *time.Location) (us int64, exact bool, err error) {
	exact = true
	if len(p) < 10 || p[4] != '-' || p[7] != '-' {
		return 0, false, errNoTime
	}
	year, ok1 := number(p[:4])
	month, ok2 := number(p[5:7])
	day, ok3 := number(p[8:10])
	if !ok1 || !ok2 || !ok3 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return 0, false, errNoTime
	}
	hour, minute, second, micros := 0, 0, 0, 0
	rest := p[10:]
	if len(rest) > 0 {
		if len(rest) < 6 || rest[0] != ' ' && rest[0] != 'T' && rest[0] != 't' || rest[3] != ':' {
			return 0, false, errNoTime
		}
		hour, ok1 = number(rest[1:3])
		minute, ok2 = number(rest[4:6])
		if rest = rest[6:]; len(rest) >= 3 && rest[0] == ':' {
			second, ok3 = number(rest[1:3])
			rest = rest[3:]
		} else if len(rest) > 0 && rest[0] == '.' {
			return 0, false, errNoTime // a fraction of a minute
		}
		if !ok1 || !ok2 || !ok3 || hour > 23 || minute > 59 || second > 59 {
			return 0, false, errNoTime
		}
		if len(rest) > 1 && rest[0] == '.' {
			i := 1
			for scale := 100000; i < len(rest) && rest[i]-'0' <= 9; i++ {
				micros += int(rest[i]-'0') * scale
				if scale == 0 && rest[i] != '0' {
					exact = false
				}
				scale /= 10
			}
			if i == 1 {
				return 0, false, errNoTime
			}
			rest = rest[i:]
		}
	}
	us = (days(year, month, day)*86400+int64(hour*3600+minute*60+second))*1e6 + int64(micros)
	if len(rest) == 0 {
		if zone == nil || zone == time.UTC {
			return us, exact, nil
		}
		us, err := local(us, zone)
		return us, exact, err
	}
	offset, ok := offsetOf(rest)
	if !ok {
		return 0, false, errNoTime
	}
	return us - offset*1e6, exact, nil
}

// offsetOf reads Z, +02, +0200 or +02:00, with or without a blank before it, and
// returns the offset in seconds.
func offsetOf(p []byte) (int64, bool) {
	if len(p) > 1 && p[0] == ' ' {
		p = p[1:]
	}
	if string(p) == "Z" || string(p) == "z" || string(p) == "UTC" {
		return 0, true
	}
	if len(p) < 3 || p[0] != '+' && p[0] != '-' {
		return 0, false
	}
	hours, ok := number(p[1:3])
	minutes := 0
	switch rest := p[3:]; {
	case len(rest) == 3 && rest[0] == ':':
		var more bool
		minutes, more = number(rest[1:])
		ok = ok && more
	case len(rest) == 2:
		var more bool
		minutes, more = number(rest)
		ok = ok && more
	case len(rest) != 0:
		ok = false
	}
	if !ok || hours > 18 || minutes > 59 {
		return 0, false
	}
	seconds := int64(hours*3600 + minutes*60)
	if p[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}

// local returns the instant of a civil time in a zone. The civil time is given as if
// it were UTC. It refuses times that a clock change skips or repeats.
func local(civil int64, zone *time.Location) (int64, error) {
	// The offset changes at most once within the two days around the time.
	before := offsetAt(civil-24*3600e6, zone)
	after := offsetAt(civil+24*3600e6, zone)
	first, second := civil-before, civil-after
	is := func(us, offset int64) bool { return offsetAt(us, zone) == offset }
	switch {
	case before == after:
		return first, nil
	case is(first, before) && is(second, after):
		return 0, errTwice
	case is(first, before):
		return first, nil
	case is(second, after):
		return second, nil
	}
	return 0, errNoSuch
}

// offsetAt returns a zone's offset at an instant. Both are in microseconds.
func offsetAt(us int64, zone *time.Location) int64 {
	_, seconds := time.UnixMicro(us).In(zone).Zone()
	return int64(seconds) * 1e6
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// days returns the days from 1970-01-01 to a date of the Gregorian calendar. Source:
// Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil.
func days(year, month, day int) int64 {
	y, m := int64(year), int64(month)
	if m <= 2 {
		y--
	}
	era := y / 400
	if y < 0 {
		era = (y - 399) / 400
	}
	yoe := y - era*400
	doy := (153*((m+9)%12)+2)/5 + int64(day) - 1
	doe := yoe*365 + yoe/4 - yoe/100 + doy
	return era*146097 + doe - 719468
}
