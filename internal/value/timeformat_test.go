package value

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestTimeFormat(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		layout, text string
		zone         *time.Location
		want         string // in UTC, or a part of the error
	}{
		{"%d.%m.%Y %H:%M", "29.03.2026 01:05", nil, "2026-03-29T01:05:00Z"},
		{"%d.%m.%Y %H:%M", "9.3.2026 1:05", nil, "2026-03-09T01:05:00Z"},
		{"%d.%m.%Y %H:%M", " 9. 3.2026  1: 5", nil, "2026-03-09T01:05:00Z"},
		{"%d.%m.%Y %H:%M", "29.03.2026 01:05:00", nil, "it is not a time of the form %d.%m.%Y %H:%M"},
		{"%d.%m.%Y %H:%M", "29.03.2026 01:60", nil, "it is not a time"},
		{"%d.%m.%Y %H:%M", "29.03.2026", nil, "it is not a time"},
		{"%d.%m.%Y %H:%M", "29.03.26 01:05", nil, "it is not a time"},
		{"%d.%m.%Y", "29.02.2026", nil, "the month has no such day"},
		{"%d.%m.%Y", "29.02.2024", nil, "2024-02-29T00:00:00Z"},
		{"%d.%m.%Y", "29.2.0000", nil, "0000-02-29T00:00:00Z"},
		{"%d.%m.%Y", "0.01.2026", nil, "it is not a time"},
		{"%d.%m.%Y", "x", nil, "it is not a time"},
		{"%d.%m.%Y", "", nil, "it is not a time"},
		{"%d.%m.%Y %H:%M", "29.03.2026 03:30", berlin, "2026-03-29T01:30:00Z"},
		{"%d.%m.%Y %H:%M", "29.03.2026 02:30", berlin, "there is no such time"},
		{"%d.%m.%Y %H:%M", "25.10.2026 02:30", berlin, "it occurs twice"},
		{"%d/%b/%Y:%H:%M:%S %z", "29/Mar/2026:01:05:06 +0200", berlin, "2026-03-28T23:05:06Z"}, // Apache's
		{"%d/%b/%Y:%H:%M:%S %z", "29/MARCH/2026:01:05:06 -01:30", nil, "2026-03-29T02:35:06Z"},
		{"%d/%b/%Y:%H:%M:%S %z", "29/Mrz/2026:01:05:06 +0200", nil, "it is not a time"},
		{"%d/%b/%Y:%H:%M:%S %z", "29/Mar/2026:01:05:06 CEST", nil, "it is not a time"},
		{"%a %b %e %T %Y", "Sun Mar  1 01:02:03 2026", nil, "2026-03-01T01:02:03Z"}, // C's asctime
		{"%A, %B %d %Y", "Thursday, January 1 1970", nil, "1970-01-01T00:00:00Z"},
		{"%a %F", "Wed 1969-12-31", nil, "1969-12-31T00:00:00Z"},
		{"%a %F", "Thu 1969-12-31", nil, "another day of the week"},
		{"%m/%d/%Y %I:%M:%S %p", "3/9/2026 12:00:01 AM", nil, "2026-03-09T00:00:01Z"},
		{"%m/%d/%Y %I:%M:%S %p", "3/9/2026 12:00:01 pm", nil, "2026-03-09T12:00:01Z"},
		{"%m/%d/%Y %I:%M:%S %p", "3/9/2026 1:00:01 PM", nil, "2026-03-09T13:00:01Z"},
		{"%m/%d/%Y %I:%M:%S %p", "3/9/2026 13:00:01 PM", nil, "it is not a time"},
		{"%D", "03/09/68", nil, "2068-03-09T00:00:00Z"},
		{"%D", "03/09/69", nil, "1969-03-09T00:00:00Z"},
		{"%y%j", "24366", nil, "2024-12-31T00:00:00Z"},
		{"%y%j", "26366", nil, "no such day"},
		{"%Y%m%d%H%M%S", "20260329010203", nil, "2026-03-29T01:02:03Z"},
		{"%FT%T.%fZ", "2026-03-29T01:02:03.25Z", nil, "2026-03-29T01:02:03.25Z"},
		{"%F %T,%f", "2026-03-29 01:02:03,123456000", nil, "2026-03-29T01:02:03.123456Z"}, // log4j's comma
		{"%F %T,%f", "2026-03-29 01:02:03,1234567", nil, "finer"},
		{"%F %T,%f", "2026-03-29 01:02:03,1234567890", nil, "it is not a time"},
		{"100%% %F", "100% 2026-03-29", nil, "2026-03-29T00:00:00Z"},
		{"%%F%F", "%F2026-03-29", nil, "2026-03-29T00:00:00Z"},
	} {
		f, err := ParseTimeFormat(c.layout)
		if err != nil {
			t.Errorf("%s: %v", c.layout, err)
			continue
		}
		us, exact, err := f.Parse([]byte(c.text), c.zone)
		got := time.UnixMicro(us).UTC().Format(time.RFC3339Nano)
		switch {
		case err != nil:
			got = err.Error()
		case !exact:
			got = "finer"
		}
		if got != c.want && (err == nil || !strings.Contains(got, c.want)) {
			t.Errorf("%q as %s: %s, want %s", c.text, c.layout, got, c.want)
		}
	}
	for layout, want := range map[string]string{
		"%d.%m": "must have a year", "%Y": "must have a year", "%Y-%m": "must have a year", "%Y-%m-%d %j": "must have a year", "%Y %j %m": "must have a year", "": "must have a year",
		"%Y-%m-%d %i": "%i is unknown", "%": "ends with %", "%F %Y": "the year twice", "%F %I": "belong together", "%F %p": "belong together",
		"%F %M": "need the hour", "%F %H:%S": "seconds the minutes", "%F %f": "a fraction the seconds", "%F %H %I": "the hour twice", "%-d.%m.%Y": "%- is unknown",
	} {
		if _, err := ParseTimeFormat(layout); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", layout, err, want)
		}
	}
}

// TestTimeFormatsOfColumns stores the forms, and asks for those of columns.
func TestTimeFormatsOfColumns(t *testing.T) {
	own, err := ParseTimeFormat("%d.%m.%Y")
	if err != nil {
		t.Fatal(err)
	}
	n := Notation{TimeFormats: map[string]*TimeFormat{"ts": own}}
	stored, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	var back Notation
	if err := json.Unmarshal(stored, &back); err != nil || back.TimeFormatsText() != "ts=%d.%m.%Y" || back.TimeFormatOf("TS") == nil || back.TimeFormatOf("day") != nil {
		t.Errorf("%s: %v, %q", stored, err, back.TimeFormatsText())
	}
	if us, _, err := back.TimeFormatOf("ts").Parse([]byte("02.01.1970"), nil); err != nil || us != microsPerDay {
		t.Errorf("%d, %v", us, err)
	}
	r, err := Type{Kind: Time, Logical: Date}.Reader(&Notation{TimeFormat: own}, Server{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Int([]byte("1970-01-02")); err == nil {
		t.Error("a date of another form is read")
	}
}

// FuzzTimeFormat: what strftime of another program would write is read as the same time.
func FuzzTimeFormat(f *testing.F) {
	f.Add("%d.%m.%Y %H:%M:%S", "29.03.2026 01:05:06", int64(0))
	f.Add("%a, %d %b %y %I:%M:%S.%f %p %z", "Sun, 29 Mar 26 01:05:06.5 AM +02", int64(1774746306))
	f.Fuzz(func(t *testing.T, layout, text string, seconds int64) {
		if format, err := ParseTimeFormat(layout); err == nil {
			_, _, _ = format.Parse([]byte(text), time.UTC)
		}
		at := time.Unix(seconds%4e9, 0).UTC()
		if at.Year() < 1969 || at.Year() > 2068 {
			return
		}
		format, err := ParseTimeFormat("%a, %d %b %y %I:%M:%S %p %z")
		if err != nil {
			t.Fatal(err)
		}
		us, exact, err := format.Parse([]byte(at.Format("Mon, 02 Jan 06 03:04:05 PM -0700")), nil)
		if err != nil || !exact || us != at.UnixMicro() {
			t.Errorf("%v: %d, %v", at, us, err)
		}
	})
}
