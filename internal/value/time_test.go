package value

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata"
)

func zoneOf(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

func TestParseTime(t *testing.T) {
	for _, c := range []struct {
		in   string
		want string // RFC 3339, "" if invalid
	}{
		{"2026-03-29", "2026-03-29T00:00:00Z"},
		{"2026-03-29 01:02", "2026-03-29T01:02:00Z"},
		{"2026-03-29 01:02:03", "2026-03-29T01:02:03Z"},
		{"2026-03-29T01:02:03", "2026-03-29T01:02:03Z"},
		{"2026-03-29t01:02:03z", "2026-03-29T01:02:03Z"},
		{"2026-03-29T01:02:03.5Z", "2026-03-29T01:02:03.5Z"},
		{"2026-03-29 01:02:03.123456 UTC", "2026-03-29T01:02:03.123456Z"},
		{"2026-03-29 01:02:03.1234560000", "2026-03-29T01:02:03.123456Z"},
		{"2026-03-29 01:02:03+02", "2026-03-28T23:02:03Z"},
		{"2026-03-29 01:02:03 +0200", "2026-03-28T23:02:03Z"},
		{"2026-03-29 01:02-05:30", "2026-03-29T06:32:00Z"},
		{"2026-03-29T01:02Z", "2026-03-29T01:02:00Z"},
		{"2026-03-29 01:02:03-00:00", "2026-03-29T01:02:03Z"},
		{"2026-12-31 23:59:59.999999-18", "2027-01-01T17:59:59.999999Z"},
		{"1969-12-31 23:59:59.999999", "1969-12-31T23:59:59.999999Z"},
		{"0000-01-01", "0000-01-01T00:00:00Z"},
		{"0000-02-29", "0000-02-29T00:00:00Z"},
		{"9999-12-31 23:59:59.999999", "9999-12-31T23:59:59.999999Z"},
		{"2000-02-29", "2000-02-29T00:00:00Z"},
		{"2024-02-29 00:00", "2024-02-29T00:00:00Z"},
		{in: "1900-02-29"}, {in: "2023-02-29"}, {in: "2023-04-31"}, {in: "2023-00-01"}, {in: "2023-13-01"}, {in: "2023-01-00"}, {in: "0000-00-00"},
		{in: "2026-03-29 24:00:00"}, {in: "2026-03-29 23:60:00"}, {in: "2026-03-29 23:59:60"},
		{in: ""}, {in: "2026"}, {in: "2026-3-29"}, {in: "2026-03-29 "}, {in: "2026-03-29 1:00:00"}, {in: "2026-03-29 01"}, {in: "2026-03-29 01:00:0"},
		{in: "2026-03-29_01:00:00"}, {in: "2026/03/29"}, {in: "20260329"}, {in: "29.03.2026"}, {in: " 2026-03-29"}, {in: "-026-03-29"}, {in: "+2026-03-29"},
		{in: "2026-03-29 01:00:00."}, {in: "2026-03-29 01:00:00.Z"}, {in: "2026-03-29 01:00:00.+02"}, {in: "2026-03-29 01:00.5"}, {in: "2026-03-29 01:00:00,5"},
		{in: "2026-03-29 01:00:00 "}, {in: "2026-03-29 01:00:00  Z"}, {in: "2026-03-29 01:00:00Zx"}, {in: "2026-03-29 01:00:00+2"}, {in: "2026-03-29 01:00:00+02:"},
		{in: "2026-03-29 01:00:00+02:60"}, {in: "2026-03-29 01:00:00+19"}, {in: "2026-03-29 01:00:00+02:00:00"}, {in: "2026-03-29 01:00:00 CET"}, {in: "2026-03-29Z"},
		{in: "infinity"}, {in: "now"}, {in: "0044-03-15 BC"}, {in: "12026-03-29"}, {in: "2026-03-29 0１:00:00"},
	} {
		us, exact, err := ParseTime([]byte(c.in), nil)
		if c.want == "" {
			if !errors.Is(err, errNoTime) {
				t.Errorf("%q: %v, %v; want it refused", c.in, time.UnixMicro(us).UTC(), err)
			}
			continue
		}
		want, wantErr := time.Parse(time.RFC3339, c.want)
		if wantErr != nil {
			t.Fatal(wantErr)
		}
		if err != nil || us != want.UnixMicro() || !exact {
			t.Errorf("%q: %v, exact %v, %v; want %s", c.in, time.UnixMicro(us).UTC(), exact, err, c.want)
		}
	}
}

// TestEachDay compares all days of the years 0 to 9999 with package time.
func TestEachDay(t *testing.T) {
	for day := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 10000; day = day.AddDate(0, 0, 1) {
		us, _, err := ParseTime(day.AppendFormat(nil, time.DateOnly), nil)
		if err != nil || us != day.UnixMicro() {
			t.Fatalf("%s: %d, %v; want %d", day.Format(time.DateOnly), us, err, day.UnixMicro())
		}
	}
}

func TestTimesThatColumnsKeep(t *testing.T) {
	const day, second = 24 * 3600e6, 1e6
	whole, milli, micro, date := Type{Kind: Time}, Type{Kind: Time, Digits: 3}, Type{Kind: Time, Digits: 6}, Type{Kind: Time, Logical: Date}
	truncate := Notation{TruncateTimes: true}
	berlin := Notation{Zone: zoneOf(t, "Europe/Berlin")}
	for _, c := range []struct {
		typ  Type
		n    Notation
		in   string
		want int64
		ok   bool
	}{
		{whole, Notation{}, "1970-01-01 00:00:01", second, true},
		{whole, Notation{}, "1970-01-01 00:00:01.000000000", second, true},
		{whole, Notation{}, "1970-01-01 00:00:01.5", 0, false},
		{whole, truncate, "1970-01-01 00:00:01.999999", second, true},
		{whole, truncate, "1969-12-31 23:59:58.999999", -2 * second, true},
		{milli, Notation{}, "1970-01-01 00:00:00.001", 1000, true},
		{milli, Notation{}, "1970-01-01 00:00:00.0011", 0, false},
		{milli, truncate, "1969-12-31 23:59:59.9999", -1000, true},
		{whole, Notation{}, "1970-01-01 00:00:00.1", 0, false},
		{micro, Notation{}, "1970-01-01 00:00:00.000001", 1, true},
		{micro, Notation{}, "1970-01-01 00:00:00.0000001", 0, false},
		{micro, truncate, "1970-01-01 00:00:00.0000019", 1, true},
		{micro, truncate, "1969-12-31 23:59:59.9999991", -1, true},
		{micro, Notation{}, "1970-01-01 00:00:00.000001", 1, true},
		{date, Notation{}, "1970-01-02", day, true},
		{date, Notation{}, "1970-01-02 00:00:00", day, true},
		{date, Notation{}, "1970-01-02 00:00:01", 0, false},
		{date, truncate, "1970-01-02 23:59:59.9999999", day, true},
		{date, truncate, "1969-12-31 23:59:59", -day, true},
		{date, berlin, "1970-01-02", day, true},
		{date, berlin, "1970-01-02 00:00", day, true},
		{date, berlin, "1970-01-02 00:00+01", 0, false},
		{whole, berlin, "1970-01-02", day - 3600*second, true},
		{whole, berlin, "1970-01-02 00:00Z", day, true},
		{whole, berlin, "2026-03-29 02:30:00", 0, false}, // the clock was set forward
		{whole, berlin, "2026-10-25 02:30:00", 0, false}, // it was set back
		{whole, berlin, "2026-10-25 02:30:00+01:00", 1792891800 * second, true},
	} {
		got, err := read(t, readerOf(t, c.typ, c.n, Server{}), c.in)
		if (err == nil) != c.ok || c.ok && got != fmt.Sprint(c.want) {
			t.Errorf("%+v, %q: %s, %v, want %v", c.typ, c.in, got, err, c.want)
		}
	}
}

// TestLocalTimes compares with a search of all instants at which a clock of the
// zone shows a time, mostly near clock changes.
func TestLocalTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const hour = 3600e6
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "Europe/Dublin", "America/Sao_Paulo", "Asia/Gaza", "Pacific/Apia", "Antarctica/Troll", "America/Caracas"} {
		zone := zoneOf(t, name)
		var changes []int64
		for at := time.Date(1975, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2035; {
			_, next := at.In(zone).ZoneBounds()
			if next.IsZero() {
				break
			}
			changes = append(changes, next.UnixMicro())
			at = next.UTC()
		}
		if len(changes) < 3 {
			t.Fatalf("%s has %d changes", name, len(changes))
		}
		for range 20000 {
			near := changes[rng.IntN(len(changes))]
			civil := near + offsetAt(near, zone) + rng.Int64N(60*hour) - 30*hour
			if rng.IntN(2) == 0 { // at a whole quarter of an hour
				civil -= civil % (hour / 4)
			}
			offsets := map[int64]bool{}
			for h := int64(-48); h <= 48; h++ {
				offsets[offsetAt(civil+h*hour, zone)] = true
			}
			var at []int64
			for offset := range offsets {
				if us := civil - offset; offsetAt(us, zone) == offset {
					at = append(at, us)
				}
			}
			us, err := local(civil, zone)
			switch {
			case len(at) == 0 && errors.Is(err, errNoSuch), len(at) == 2 && errors.Is(err, errTwice), len(at) == 1 && err == nil && us == at[0]:
			default:
				t.Fatalf("%s in %s: %v, %v; want one of %v", time.UnixMicro(civil).UTC(), name, time.UnixMicro(us).UTC(), err, at)
			}
		}
	}
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2026-03-29", "2026-03-29T01:02:03.5Z", "2026-03-29 01:02:03.123456789+02:00", "1969-12-31 23:59:59.9999999", "2026-03-29 01:02-0530"} {
		f.Add(s)
	}
	layouts := []string{time.RFC3339, time.DateTime, time.DateOnly, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05Z07", "2006-01-02 15:04:05-0700"}
	f.Fuzz(func(t *testing.T, s string) {
		us, exact, err := ParseTime([]byte(s), nil)
		if err != nil {
			return
		}
		for _, layout := range layouts {
			want, wantErr := time.Parse(layout, s)
			if wantErr != nil {
				continue
			}
			// UnixMicro truncates finer digits. Package time keeps 9 digits.
			if us != want.UnixMicro() || exact && want.Nanosecond()%1000 != 0 {
				t.Errorf("%q: %d, exact %v; package time has %d", s, us, exact, want.UnixNano())
			}
		}
		// The formatted time reads back as the same time.
		text := AppendTime(nil, us)
		if again, exact, err := ParseTime(text, nil); us >= -62167219200e6 && us <= 253402300799999999 && (err != nil || !exact || again != us) {
			t.Errorf("%q is %d, and %s is %d, %v", s, us, text, again, err)
		}
	})
}

func TestParseUnix(t *testing.T) {
	for _, c := range []struct {
		text, unit string
		us         int64
		exact      bool
	}{
		{"0", "s", 0, true}, {"1774746000", "s", 1774746000e6, true}, {"1774746000.25", "s", 1774746000250000, true},
		{"1774746000123", "ms", 1774746000123000, true}, {"1774746000123.4567", "ms", 1774746000123456, false},
		{"1774746000123456", "us", 1774746000123456, true}, {"1774746000123456789", "ns", 1774746000123456, false},
		{"1774746000123456000", "ns", 1774746000123456, true}, {"7", "ns", 0, false}, {"-1", "s", -1e6, true}, {"-0.0000015", "s", -2, false},
	} {
		us, exact, err := parseUnix([]byte(c.text), units[c.unit])
		if err != nil || us != c.us || exact != c.exact {
			t.Errorf("%s %s: %d, %t, %v; want %d, %t", c.text, c.unit, us, exact, err, c.us, c.exact)
		}
	}
	for _, text := range []string{"", "-", ".", ".5", "1e9", "12a", "1.2.3", "99999999999999999999", "--1", "+1", " 1"} {
		if us, _, err := parseUnix([]byte(text), 6); err == nil {
			t.Errorf("%q is %d", text, us)
		}
	}
	rnd := rand.New(rand.NewPCG(3, 3))
	for range 5000 {
		unit := Units()[rnd.IntN(4)]
		text := fmt.Sprintf("%d.%0*d", rnd.Int64N(1e9), 1+rnd.IntN(12), rnd.Int64N(1e6))
		if rnd.IntN(2) == 0 {
			text = "-" + text
		}
		us, exact, err := parseUnix([]byte(text), units[unit])
		want, _ := new(big.Rat).SetString(text)
		scale := new(big.Rat).SetInt64(map[string]int64{"s": 1e6, "ms": 1e3, "us": 1, "ns": 1}[unit])
		if want.Mul(want, scale); unit == "ns" {
			want.Quo(want, new(big.Rat).SetInt64(1000))
		}
		floor := new(big.Int).Div(want.Num(), want.Denom()) // rounds down, as denominators are positive
		if err != nil || us != floor.Int64() || exact != want.IsInt() {
			t.Fatalf("%s %s: %d, %t, %v; want %s", text, unit, us, exact, err, floor)
		}
	}
}

func TestAppendTime(t *testing.T) {
	first, end := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro(), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	check := func(us int64) {
		t.Helper()
		want := time.UnixMicro(us).UTC().Format(TimeLayout)
		if us%1e6 != 0 {
			want = time.UnixMicro(us).UTC().Format(TimeLayout + ".000000")
		}
		if got := string(AppendTime(nil, us)); got != want {
			t.Errorf("AppendTime(%d) = %s, want %s", us, got, want)
		}
	}
	for _, us := range []int64{0, -1, -1e6, 1e6, 999999, 951782399e6, 951782400e6, 951868800e6, 1709164799e6, 4107542399e6,
		first, end - 1, end, math.MaxInt64, math.MinInt64} {
		check(us)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		check(rnd.Int64N(end-first) + first)
	}
	for day := int64(0); day < 366*150; day++ { // each day of 150 years
		check(day * 86400e6)
	}
}
