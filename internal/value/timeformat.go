package value

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A TimeFormat is the form of times, with the directives of strptime:
//
//	%Y %y  year of four digits; of two, where 69 to 99 are 1969 to 1999, 00 to 68 2000 to 2068
//	%m %b  month from 1 to 12; its English name, whole or its first three letters (also %B, %h)
//	%d     day of the month (also %e); %j is the day of the year
//	%a     English name of the weekday, whole or three letters; it must fit the date (also %A)
//	%H %I  hour from 0 to 23; from 1 to 12, with %p for AM or PM
//	%M %S  minute; second from 0 to 59
//	%f     up to nine digits of a second
//	%z     offset from UTC: Z, +02, +0200 or +02:00
//	%F %T %R %D  %Y-%m-%d, %H:%M:%S, %H:%M, %m/%d/%y
//	%%     a percent sign
//
// Numbers other than years may lack a leading zero, or have a blank instead of it. All other
// characters stand for themselves.
type TimeFormat struct {
	layout string
	parts  []timePart
}

var (
	_ encoding.TextMarshaler   = &TimeFormat{}
	_ encoding.TextUnmarshaler = &TimeFormat{}
)

// A timePart is a directive, or a character that stands for itself if directive is 0.
type timePart struct{ directive, literal byte }

var compounds = strings.NewReplacer("%%", "%%", "%F", "%Y-%m-%d", "%T", "%H:%M:%S", "%R", "%H:%M", "%D", "%m/%d/%y", "%B", "%b", "%h", "%b", "%A", "%a", "%e", "%d")

// directives are all except compounds such as %F. Each has the part of a time that it sets.
var directives = map[byte]string{'Y': "year", 'y': "year", 'm': "month", 'b': "month", 'd': "day", 'j': "day of the year", 'a': "weekday",
	'H': "hour", 'I': "hour", 'p': "AM or PM", 'M': "minute", 'S': "second", 'f': "fraction", 'z': "offset"}

// ParseTimeFormat parses a layout, which must determine a day and have no part of a time twice.
func ParseTimeFormat(layout string) (*TimeFormat, error) {
	f := &TimeFormat{layout: layout}
	has := map[string]byte{}
	for p := compounds.Replace(layout); p != ""; p = p[1:] {
		if p[0] != '%' {
			f.parts = append(f.parts, timePart{literal: p[0]})
			continue
		}
		if p = p[1:]; p == "" {
			return nil, errors.New("it ends with %")
		}
		sets := directives[p[0]]
		switch {
		case p[0] == '%':
			f.parts = append(f.parts, timePart{literal: '%'})
			continue
		case sets == "":
			return nil, fmt.Errorf("%%%c is unknown: there are %%Y %%y %%m %%b %%d %%j %%a %%H %%I %%p %%M %%S %%f %%z %%F %%T %%R %%D", p[0])
		case has[sets] != 0:
			return nil, fmt.Errorf("it has the %s twice", sets)
		}
		has[sets] = p[0]
		f.parts = append(f.parts, timePart{directive: p[0]})
	}
	day := has["month"] != 0 && has["day"] != 0
	switch {
	case has["year"] == 0 || day == (has["day of the year"] != 0) || !day && (has["month"] != 0 || has["day"] != 0):
		return nil, errors.New("it must have a year, and either month and day or the day of the year")
	case (has["hour"] == 'I') != (has["AM or PM"] != 0):
		return nil, errors.New("%I and %p belong together")
	case has["minute"] != 0 && has["hour"] == 0 || has["second"] != 0 && has["minute"] == 0 || has["fraction"] != 0 && has["second"] == 0:
		return nil, errors.New("minutes need the hour, seconds the minutes, and a fraction the seconds")
	}
	return f, nil
}

// String returns the layout.
func (f *TimeFormat) String() string { return f.layout }

// MarshalText returns the layout.
func (f *TimeFormat) MarshalText() ([]byte, error) { return []byte(f.layout), nil }

// UnmarshalText parses a layout.
func (f *TimeFormat) UnmarshalText(text []byte) error {
	parsed, err := ParseTimeFormat(string(text))
	if err == nil {
		*f = *parsed
	}
	return err
}

// TimeFormatOf returns the form of a column's times, nil for the usual one.
func (n *Notation) TimeFormatOf(column string) *TimeFormat {
	for name, f := range n.TimeFormats {
		if name != "" && strings.EqualFold(name, column) {
			return f
		}
	}
	return n.TimeFormats[""]
}

// TimeFormatsText returns the forms of times in one text.
func (n *Notation) TimeFormatsText() string {
	var out []string
	for name, f := range n.TimeFormats {
		if name != "" {
			name += "="
		}
		out = append(out, name+f.layout)
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

var (
	months   = []string{"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"}
	weekdays = []string{"sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"}
)

// Parse reads a time as ParseTime does, in the format's form.
func (f *TimeFormat) Parse(p []byte, zone *time.Location) (us int64, exact bool, err error) {
	wrong := func() (int64, bool, error) { return 0, false, fmt.Errorf("it is not a time of the form %s", f.layout) }
	year, month, day, ofYear, weekday := 0, 1, 1, 0, -1
	hour, minute, second, micros, half := 0, 0, 0, 0, 0
	offset, zoned := int64(0), false
	exact = true
	ok := true
	for _, part := range f.parts {
		switch part.directive {
		case 0:
			if len(p) == 0 || p[0] != part.literal {
				return wrong()
			}
			p = p[1:]
		case 'Y':
			if len(p) < 4 {
				return wrong()
			}
			year, ok = digits(p[:4])
			p = p[4:]
		case 'y':
			if len(p) < 2 {
				return wrong()
			}
			year, ok = digits(p[:2])
			if p = p[2:]; year < 69 { // as POSIX has it
				year += 100
			}
			year += 1900
		case 'm':
			month, p, ok = upTo(p, 2, 1, 12)
		case 'b':
			month, p, ok = nameIn(months, p)
			month++
		case 'd':
			day, p, ok = upTo(p, 2, 1, 31)
		case 'j':
			ofYear, p, ok = upTo(p, 3, 1, 366)
		case 'a':
			weekday, p, ok = nameIn(weekdays, p)
		case 'H':
			hour, p, ok = upTo(p, 2, 0, 23)
		case 'I':
			hour, p, ok = upTo(p, 2, 1, 12)
			hour %= 12
		case 'p':
			if len(p) < 2 || p[1]|0x20 != 'm' || p[0]|0x20 != 'a' && p[0]|0x20 != 'p' {
				return wrong()
			}
			if p[0]|0x20 == 'p' {
				half = 12
			}
			p = p[2:]
		case 'M':
			minute, p, ok = upTo(p, 2, 0, 59)
		case 'S':
			second, p, ok = upTo(p, 2, 0, 59)
		case 'f':
			fraction, rest := leadingDigits(p)
			if len(fraction) == 0 || len(fraction) > 9 {
				return wrong()
			}
			scale := 100000
			for _, c := range fraction {
				micros += int(c-'0') * scale
				exact = exact && (scale > 0 || c == '0')
				scale /= 10
			}
			p = rest
		case 'z':
			end := bytes.IndexAny(p, " \t,;)]")
			if end < 0 {
				end = len(p)
			}
			offset, ok = offsetOf(p[:end])
			zoned, p = true, p[end:]
		}
		if !ok {
			return wrong()
		}
	}
	if len(p) > 0 {
		return wrong()
	}
	first := days(year, month, day)
	if ofYear > 0 {
		first = days(year, 1, ofYear)
	}
	switch leap := daysIn(year, 2) == 29; {
	case ofYear == 366 && !leap || ofYear == 0 && day > daysIn(year, month):
		return 0, false, errNoDay
	case weekday >= 0 && (first%7+11)%7 != int64(weekday): // 1970-01-01 was a Thursday
		return 0, false, errWeekday
	}
	us = (first*86400+int64((hour+half)*3600+minute*60+second))*1e6 + int64(micros)
	switch {
	case zoned:
		return us - offset*1e6, exact, nil
	case zone == nil || zone == time.UTC:
		return us, exact, nil
	}
	us, err = local(us, zone)
	return us, exact, err
}

var (
	errNoDay   = errors.New("the month has no such day")
	errWeekday = errors.New("the day is another day of the week")
)

// upTo reads a number of up to n digits within a range. Blanks may replace leading zeros.
func upTo(p []byte, n, from, to int) (int, []byte, bool) {
	blank := 0
	for blank < n-1 && blank < len(p) && p[blank] == ' ' {
		blank++
	}
	end := blank
	for end < min(n, len(p)) && p[end]-'0' <= 9 {
		end++
	}
	v, ok := digits(p[blank:end])
	return v, p[end:], ok && v >= from && v <= to
}

// nameIn reads a name, or its first three letters, and returns its index.
func nameIn(names []string, p []byte) (int, []byte, bool) {
	for i, name := range names {
		for _, n := range []int{len(name), 3} {
			if len(p) >= n && strings.EqualFold(unsafeString(p[:n]), name[:n]) {
				return i, p[n:], true
			}
		}
	}
	return 0, p, false
}
