package rolling

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	hours := func(n int64) Grid { return Grid{axis: Time, step: n * 3600 * second} }
	weeks := func(n int64) Grid { return Grid{axis: Time, step: n * week, origin: monday} }
	for text, c := range map[string]struct {
		grid Grid
		out  string
	}{
		"30s":             {Grid{axis: Time, step: 30 * second}, "30s"},
		"90s":             {Grid{axis: Time, step: 90 * second}, "90s"},
		"15m":             {Grid{axis: Time, step: 900 * second}, "15m"},
		"120m":            {hours(2), "2h"},
		"2h":              {hours(2), "2h"},
		"1d":              {hours(24), "1d"},
		"1w":              {weeks(1), "1w"},
		"14d":             {weeks(2), "2w"},
		"1mo":             {Grid{axis: Time, months: 1}, "1mo"},
		"24mo":            {Grid{axis: Time, months: 24}, "2y"},
		"1y":              {Grid{axis: Time, months: 12}, "1y"},
		"1000y":           {Grid{axis: Time, months: 12000}, "1000y"},
		"500000 rows":     {Grid{axis: Sequence, step: 500000}, "500000 rows"},
		"1row":            {Grid{axis: Sequence, step: 1}, "1 rows"},
		" 2 h ":           {hours(2), "2h"},
		"0002h":           {hours(2), "2h"},
		"366000d":         {Grid{axis: Time, step: 366000 * day}, "366000d"},
		"9000000000 rows": {Grid{axis: Sequence, step: 9000000000}, "9000000000 rows"},
	} {
		t.Run(text, func(t *testing.T) {
			g, err := Parse(text)
			if err != nil || g != c.grid {
				t.Fatalf("Parse(%q) = %+v, %v, want %+v", text, g, err, c.grid)
			}
			if got := g.String(); got != c.out {
				t.Errorf("String() = %q, want %q", got, c.out)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{
		"", " ", "h", "2", "-2h", "+2h", "0h", "0 rows", "1.5h", "2hours", "2h30m", "2 H", "two hours", "2 mo nths",
		"1001y", "12001mo", "366001d", "99999999999999999999s", "9223372036854775807y",
		"1537228672809129302y", // times 12 this is 8 in 64 bits
	} {
		g, err := Parse(text)
		if err == nil {
			t.Errorf("Parse(%q) = %v, want an error", text, g)
			continue
		}
		if want := fmt.Sprintf("period %q", text); !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q): %v: doesn't name %s", text, err, want)
		}
	}
}

// What String writes, Parse reads.
func TestParseRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrid(t, drawAxis(t), "grid")
		if got, err := Parse(g.String()); err != nil || got != g {
			t.Fatalf("Parse(%q) = %+v, %v, want %+v", g.String(), got, err, g)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"30s", "15m", "2h", "1d", "1w", "1mo", "1y", "500000 rows", "", "-1d", "2h30m", "1537228672809129302y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		g, err := Parse(s)
		if err != nil {
			if g.Valid() {
				t.Fatalf("Parse(%q): an error and a grid, %v", s, g)
			}
			return
		}
		if again, err := Parse(g.String()); err != nil || again != g {
			t.Fatalf("Parse(%q) = %v, but Parse(%q) = %v, %v", s, g, g.String(), again, err)
		}
		b := g.Bounds()
		for _, pos := range []int64{b.From, 0, b.To - 1} {
			if p, err := g.At(pos); err != nil || !p.Contains(pos) || p.From < b.From || p.To > b.To {
				t.Fatalf("%v: At(%d) = %v, %v", g, pos, p, err)
			}
		}
	})
}

func TestFormat(t *testing.T) {
	for name, c := range map[string]struct{ every, pos, want string }{
		"whole second":  {"1d", "2026-11-20T18:00:00Z", "2026-11-20 18:00:00"},
		"with fraction": {"1d", "2026-11-20T18:00:00.25Z", "2026-11-20 18:00:00.25"},
		"before 1970":   {"1d", "1969-12-31T23:59:59.999999Z", "1969-12-31 23:59:59.999999"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := mustParse(t, c.every).Format(at(t, c.pos)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	if got := mustParse(t, "10 rows").Format(12345); got != "12345" {
		t.Errorf("a key: got %q", got)
	}
}

// Names off the grid say as much as their start needs.
func TestNamesOffTheGrid(t *testing.T) {
	for name, c := range map[string]struct{ every, from, want string }{
		"day at an hour":     {"1d", "2026-11-20T18:00:00Z", "p20261120_18"},
		"month within one":   {"1mo", "2026-11-20T00:00:00Z", "p20261120"},
		"year from a month":  {"1y", "2026-11-01T00:00:00Z", "p202611"},
		"hour at a fraction": {"1h", "2026-11-20T18:30:15.25Z", "p20261120_183015_250000"},
		"year, before 1970":  {"1y", "1969-06-15T12:00:00.5Z", "p19690615_120000_500000"},
	} {
		t.Run(name, func(t *testing.T) {
			from := at(t, c.from)
			if got := mustParse(t, c.every).Name(Period{from, from + 1}); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
