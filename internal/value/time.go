package value

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

var (
	errNoTime   = errors.New("it is not a time such as 2026-03-29 01:00:00 or 2026-03-29T01:00:00Z")
	errNoDate   = errors.New("it is not a date such as 2026-03-29")
	errNoClock  = errors.New("it is neither a time of day such as 01:00:00 nor a span of up to 838:59:59")
	errNoSuch   = errors.New("there is no such time in its time zone, because the clock was set forward")
	errTwice    = errors.New("it occurs twice in its time zone, because the clock was set back: write it with its offset")
	errNotWhole = errors.New("it has a time of day, and the column stores only days")
)

const microsPerDay = 24 * 3600e6

func (t Type) times(n *Notation) func(text []byte) (int64, error) {
	keeps := min(t.Digits, 6)
	unit, zone, form := int64(1), n.Zone, n.TimeFormat
	for range 6 - keeps {
		unit *= 10
	}
	lost := fmt.Errorf("it has more than the %d digits of a second that the column stores", keeps)
	if t.Logical == Date {
		unit, zone, lost = microsPerDay, nil, errNotWhole // a date is the same in each zone
	}
	return func(text []byte) (int64, error) {
		us, exact, err := int64(0), false, error(nil)
		if form == nil {
			us, exact, err = ParseTime(text, zone)
		} else {
			us, exact, err = form.Parse(text, zone)
		}
		if err != nil && n.Unix != "" && form == nil {
			us, exact, err = parseUnix(text, units[n.Unix])
		}
		if err != nil {
			return 0, err
		}
		if unit == 1 && exact {
			return us, nil
		}
		rest := us % unit
		if rest < 0 {
			rest += unit
		}
		if (rest != 0 || !exact) && !n.TruncateTimes {
			return 0, lost
		}
		return us - rest, nil
	}
}

// dates returns the reader of dates that are sent as text.
func dates(n *Notation) func(dst, text []byte) ([]byte, error) {
	read := Type{Kind: Time, Logical: Date}.times(n)
	return func(dst, text []byte) ([]byte, error) {
		day, err := read(text)
		if errors.Is(err, errNoTime) {
			err = errNoDate
		}
		if err != nil {
			return dst, err
		}
		at := time.UnixMicro(day).UTC()
		if at.Year() < 0 || at.Year() > 9999 {
			return dst, errNoDate
		}
		return at.AppendFormat(dst, time.DateOnly), nil
	}
}

// fractions returns a function that reads times of day and intervals. If a text has nonzero digits
// of a second beyond those that the column stores, the function refuses the text or, with
// n.TruncateTimes, cuts these digits off. In an interval, only a number after a colon counts
// seconds.
func (t Type) fractions(n *Notation, plain func(dst, text []byte) ([]byte, error)) func(dst, text []byte) ([]byte, error) {
	tooFine := fmt.Errorf("it has more than the %d digits of a second that the column stores", t.Digits)
	return func(dst, text []byte) ([]byte, error) {
		dot := bytes.IndexByte(text, '.')
		if dot < 0 {
			return plain(dst, text)
		}
		begin := len(bytes.TrimRight(text[:dot], "0123456789"))
		if t.Logical == Interval && (begin == 0 || text[begin-1] != ':') {
			return plain(dst, text)
		}
		fraction, rest := leadingDigits(text[dot+1:])
		keeps := min(t.Digits, len(fraction))
		switch {
		case len(bytes.TrimRight(fraction[keeps:], "0")) == 0:
			return plain(dst, text)
		case !n.TruncateTimes:
			return dst, tooFine
		case t.Digits == 0:
			return plain(dst, slices.Concat(text[:dot], rest))
		}
		return plain(dst, slices.Concat(text[:dot+1+keeps], rest))
	}
}

// appendClock reads times of day, and spans with up to three digits of hours as MySQL has them, and
// writes both in one form.
func appendClock(dst, text []byte) ([]byte, error) {
	const most = 838 // hours, as in MySQL
	rest := bytes.TrimPrefix(text, []byte("-"))
	parts := bytes.Split(rest, []byte(":"))
	hours, ok := digits(parts[0])
	if !ok || len(parts[0]) > 3 || hours > most || len(parts) < 2 || len(parts) > 3 {
		return dst, errNoClock
	}
	var fraction []byte
	if len(parts) == 3 {
		var point bool
		parts[2], fraction, point = bytes.Cut(parts[2], []byte("."))
		trimmed := bytes.TrimRight(fraction, "0")
		if point && (!onlyDigits(fraction, '9') || len(trimmed) > 6) {
			return dst, errNoClock
		}
		fraction = trimmed
	} else {
		parts = append(parts, []byte("00"))
	}
	for _, p := range parts[1:] {
		if n, is := digits(p); !is || len(p) != 2 || n > 59 {
			return dst, errNoClock
		}
	}
	if len(rest) < len(text) {
		dst = append(dst, '-')
	}
	dst = fmt.Appendf(dst, "%02d:%s:%s", hours, parts[1], parts[2])
	if len(fraction) > 0 {
		dst = append(append(dst, '.'), fraction...)
	}
	return dst, nil
}

// units gives the power of ten of a unit in microseconds: a second is 10^6.
var units = map[string]int{"s": 6, "ms": 3, "us": 0, "ns": -3}

// Units returns the units in which numbers in time columns may count since 1970.
func Units() []string { return []string{"s", "ms", "us", "ns"} }

// parseUnix reads a number of units since 1970, with or without a fraction, and returns
// microseconds. A unit is 10^finer microseconds; see units. exact reports that the digits beyond a
// microsecond are zeros or missing.
func parseUnix(p []byte, finer int) (us int64, exact bool, err error) {
	negative := len(p) > 0 && p[0] == '-'
	if negative {
		p = p[1:]
	}
	whole, fraction, _ := bytes.Cut(p, []byte("."))
	if finer < 0 { // finer than a microsecond
		n := max(len(whole)+finer, 0)
		whole, fraction, finer = whole[:n], slices.Concat(whole[n:], fraction), 0
		if n == 0 {
			whole = []byte("0")
		}
	}
	exact = true
	n := int64(0)
	for i := range len(whole) + max(finer, len(fraction)) {
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
		if i >= len(whole)+finer {
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

// ParseTime reads a time, as RFC 3339 or in the SQL form with a blank or a T between date and time.
// A time without an offset is in zone; a date alone means its midnight. It returns microseconds
// since 1970 in UTC. exact reports that the time has only zeros beyond a microsecond.
func ParseTime(p []byte, zone *time.Location) (us int64, exact bool, err error) {
	exact = true
	if len(p) < 10 || p[4] != '-' || p[7] != '-' {
		return 0, false, errNoTime
	}
	year, ok1 := digits(p[:4])
	month, ok2 := digits(p[5:7])
	day, ok3 := digits(p[8:10])
	if !ok1 || !ok2 || !ok3 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		return 0, false, errNoTime
	}
	hour, minute, second, micros := 0, 0, 0, 0
	rest := p[10:]
	if len(rest) > 0 {
		if len(rest) < 6 || rest[0] != ' ' && rest[0] != 'T' && rest[0] != 't' || rest[3] != ':' {
			return 0, false, errNoTime
		}
		hour, ok1 = digits(rest[1:3])
		minute, ok2 = digits(rest[4:6])
		if rest = rest[6:]; len(rest) >= 3 && rest[0] == ':' {
			second, ok3 = digits(rest[1:3])
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

// offsetOf reads Z, +02, +0200 or +02:00, with or without a blank before it, in seconds.
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
	hours, ok := digits(p[1:3])
	rest, minutes, more := p[3:], 0, true
	if len(rest) == 3 && rest[0] == ':' {
		rest = rest[1:]
	}
	if len(rest) > 0 {
		minutes, more = digits(rest)
	}
	if !ok || !more || len(rest) != 0 && len(rest) != 2 || hours > 18 || minutes > 59 {
		return 0, false
	}
	seconds := int64(hours*3600 + minutes*60)
	if p[0] == '-' {
		seconds = -seconds
	}
	return seconds, true
}

// local returns the instant of a civil time, which is given as if it were UTC. It fails if a clock
// change skips or repeats the civil time.
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

// offsetAt returns a zone's offset at an instant, both in microseconds.
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

// TimeLayout is the layout, in UTC, for servers that take times as text.
const TimeLayout = "2006-01-02 15:04:05"

// AppendTime appends a time, given as microseconds since the epoch, in TimeLayout, with six
// fractional digits if it has a fraction. Four-digit years are formatted without package time,
// which would otherwise take most of the time of encoding a row.
func AppendTime(dst []byte, us int64) []byte {
	secs := us / 1e6
	days := secs / 86400
	rest := secs % 86400
	if us < 0 || days > 2932896 { // before 1970 or past 9999
		at := time.UnixMicro(us).UTC()
		if at.Nanosecond() == 0 {
			return at.AppendFormat(dst, TimeLayout)
		}
		return at.AppendFormat(dst, TimeLayout+".000000")
	}
	// See Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
	z := days + 719468
	era := z / 146097
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	d := doy - (153*mp+2)/5 + 1
	m := mp + 3
	y := yoe + era*400
	if m > 12 {
		m -= 12
		y++
	}
	two := func(n int64) (byte, byte) { return byte('0' + n/10), byte('0' + n%10) }
	y1, y2 := two(y / 100)
	y3, y4 := two(y % 100)
	m1, m2 := two(m)
	d1, d2 := two(d)
	h1, h2 := two(rest / 3600)
	i1, i2 := two(rest % 3600 / 60)
	s1, s2 := two(rest % 60)
	dst = append(dst, y1, y2, y3, y4, '-', m1, m2, '-', d1, d2, ' ', h1, h2, ':', i1, i2, ':', s1, s2)
	if fraction := us % 1e6; fraction != 0 {
		f1, f2 := two(fraction / 10000)
		f3, f4 := two(fraction / 100 % 100)
		f5, f6 := two(fraction % 100)
		dst = append(dst, '.', f1, f2, f3, f4, f5, f6)
	}
	return dst
}
