package rolling

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func must(t rapid.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// mustParse returns the grid of s.
func mustParse(t testing.TB, s string) Grid {
	t.Helper()
	g, err := Parse(s)
	must(t, err)
	return g
}

// at returns the position of a UTC time written as in time.RFC3339.
func at(t testing.TB, s string) int64 {
	t.Helper()
	tm, err := time.Parse(time.RFC3339Nano, s)
	must(t, err)
	return Position(tm)
}

// drawGrid draws a grid of an axis, usual and odd ones.
func drawGrid(t *rapid.T, axis Axis, label string) Grid {
	var g Grid
	var err error
	switch {
	case axis == Sequence:
		g, err = EveryRows(rapid.OneOf(
			rapid.Int64Range(1, 1000), rapid.Int64Range(1, 1e9), rapid.Int64Range(1, math.MaxInt64),
		).Draw(t, label+" rows"))
	case rapid.Bool().Draw(t, label+" by the calendar"):
		g, err = Parse(fmt.Sprintf("%dmo", rapid.OneOf(
			rapid.SampledFrom([]int{1, 2, 3, 6, 12, 24, 12000}), rapid.IntRange(1, 12000),
		).Draw(t, label+" months")))
	default:
		secs := rapid.OneOf(
			rapid.SampledFrom([]int64{1, 60, 900, 3600, 7200, 86400, 2 * 86400, 7 * 86400, 14 * 86400}),
			rapid.Int64Range(1, 1e5), rapid.Int64Range(1, math.MaxInt64/int64(time.Second)),
		).Draw(t, label+" seconds")
		g, err = EveryDuration(time.Duration(secs) * time.Second)
	}
	must(t, err)
	return g
}

// drawPos draws a position within the bounds of g, often near one of them or
// near the bound of a period.
func drawPos(t *rapid.T, g Grid, label string) int64 {
	b := g.Bounds()
	pos := rapid.OneOf(
		rapid.Int64Range(b.From, b.To-1),
		rapid.Int64Range(b.From, b.From+1e6),
		rapid.Int64Range(b.To-1e6, b.To-1),
		rapid.Int64Range(max(0, b.From), 4e15), // 1970 to 2096, or small keys
	).Draw(t, label)
	p, err := g.At(pos)
	must(t, err)
	return rapid.SampledFrom([]int64{pos, p.From, p.To - 1}).Draw(t, label+" exactly")
}

func drawAxis(t *rapid.T) Axis { return rapid.SampledFrom([]Axis{Time, Sequence}).Draw(t, "axis") }

// Every position lies in exactly one period, and the period after it begins
// where it ends.
func TestPeriodsTile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrid(t, drawAxis(t), "grid")
		pos := drawPos(t, g, "position")
		p, err := g.At(pos)
		must(t, err)
		if !p.Contains(pos) {
			t.Fatalf("At(%d) = %v, which doesn't hold it", pos, p)
		}
		for _, edge := range []int64{p.From, p.To - 1, p.From + (p.To-p.From)/2} {
			if q, err := g.At(edge); err != nil || q != p {
				t.Fatalf("At(%d) = %v, %v, but At(%d) = %v", edge, q, err, pos, p)
			}
		}
		b := g.Bounds()
		if p.To < b.To {
			if q, err := g.At(p.To); err != nil || q.From != p.To || q.Overlaps(p) {
				t.Fatalf("after %v comes %v, %v", p, q, err)
			}
		} else if p.To != b.To {
			t.Fatalf("%v ends past the axis", p)
		}
		if p.From > b.From {
			if q, err := g.At(p.From - 1); err != nil || q.To != p.From {
				t.Fatalf("before %v comes %v, %v", p, q, err)
			}
		} else if p.From != b.From {
			t.Fatalf("%v begins before the axis", p)
		}
	})
}

// Names are unique and sort as their periods do, on one grid, across grids of
// an axis, and for periods that begin off their grid.
func TestNamesSortAsPeriods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		axis := drawAxis(t)
		draw := func(label string) Partition {
			g := drawGrid(t, axis, label)
			p, err := g.At(drawPos(t, g, label+" position"))
			must(t, err)
			if rapid.Bool().Draw(t, label+" off the grid") {
				p.From = rapid.Int64Range(p.From, p.To-1).Draw(t, label+" from")
			}
			return g.Named(p)
		}
		a, b := draw("a"), draw("b")
		if rapid.Bool().Draw(t, "close") { // else they hardly ever share a prefix
			g := drawGrid(t, axis, "b's grid")
			b.From = min(a.From+rapid.Int64Range(0, 2e6).Draw(t, "apart"), g.Bounds().To-1)
			b = g.Named(Period{b.From, b.From + 1})
		}
		switch {
		case a.From < b.From && a.Name >= b.Name, a.From > b.From && a.Name <= b.Name:
			t.Fatalf("%s begins at %d, %s at %d: the names sort otherwise", a.Name, a.From, b.Name, b.From)
		}
	})
}

func TestCover(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrid(t, drawAxis(t), "grid")
		from, b := drawPos(t, g, "from"), g.Bounds()
		// A span of about n periods.
		n := rapid.IntRange(1, 40).Draw(t, "periods")
		to := from + 1
		for range n {
			p, err := g.At(min(to, b.To-1))
			must(t, err)
			to = p.To
		}
		to = rapid.Int64Range(from+1, to).Draw(t, "to")
		got, err := g.Cover(Period{from, to}, n+1)
		must(t, err)
		if !got[0].Contains(from) || !got[len(got)-1].Contains(to-1) {
			t.Fatalf("Cover(%d, %d) = %v", from, to, got)
		}
		for i, p := range got {
			if i > 0 && got[i-1].To != p.From {
				t.Fatalf("gap or overlap: %v, %v", got[i-1], p)
			}
			if q, err := g.At(p.From); err != nil || q != p {
				t.Fatalf("%v is no period of the grid: %v, %v", p, q, err)
			}
		}
		if _, err := g.Cover(Period{from, to}, len(got)-1); err == nil {
			t.Fatalf("Cover took %d periods with a limit of %d", len(got), len(got)-1)
		}
		if got, err := g.Cover(Period{to, to}, 1); got != nil || err != nil {
			t.Fatalf("cover of nothing: %v, %v", got, err)
		}
	})
}

// shift agrees with going one period at a time.
func TestShift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGrid(t, drawAxis(t), "grid")
		p, err := g.At(drawPos(t, g, "position"))
		must(t, err)
		n := rapid.IntRange(-40, 40).Draw(t, "by")
		want := p
		for range max(n, -n) {
			pos := want.From - 1
			if n > 0 {
				pos = want.To
			}
			if !g.Bounds().Contains(pos) {
				break
			}
			if want, err = g.At(pos); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := g.shift(p, int64(n)); err != nil || got != want {
			t.Fatalf("shift(%v, %d) = %v, %v, want %v", p, n, got, err, want)
		}
	})
}

// Far beyond the axis there is its first or last period.
func TestShiftFar(t *testing.T) {
	for _, every := range []string{"1s", "1w", "1mo", "1000y", "10 rows", "9223372036854775807 rows"} {
		g := mustParse(t, every)
		b := g.Bounds()
		first, err1 := g.At(b.From)
		last, err2 := g.At(b.To - 1)
		must(t, errors.Join(err1, err2))
		for _, n := range []int64{math.MaxInt64, math.MaxInt64 / 7, 1 << 60} {
			if got, err := g.shift(last, -n); err != nil || got != first {
				t.Errorf("%s: %d before the last is %v, %v, want %v", every, n, got, err, first)
			}
			if got, err := g.shift(first, n); err != nil || got != last {
				t.Errorf("%s: %d after the first is %v, %v, want %v", every, n, got, err, last)
			}
		}
	}
}

func TestCalendar(t *testing.T) {
	for name, c := range map[string]struct{ every, pos, from, to, partition string }{
		"leap day":                  {"1d", "2024-02-29T12:00:00Z", "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z", "p20240229"},
		"leap February":             {"1mo", "2024-02-29T23:59:59.999999Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z", "p202402"},
		"February":                  {"1mo", "2023-02-28T23:59:59Z", "2023-02-01T00:00:00Z", "2023-03-01T00:00:00Z", "p202302"},
		"no leap day in 1900":       {"1d", "1900-02-28T23:00:00Z", "1900-02-28T00:00:00Z", "1900-03-01T00:00:00Z", "p19000228"},
		"leap day in 2000":          {"1d", "2000-02-28T23:00:00Z", "2000-02-28T00:00:00Z", "2000-02-29T00:00:00Z", "p20000228"},
		"quarter":                   {"3mo", "2026-06-30T00:00:00Z", "2026-04-01T00:00:00Z", "2026-07-01T00:00:00Z", "p202604"},
		"year":                      {"1y", "2026-11-20T18:00:00Z", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "p2026"},
		"decade":                    {"10y", "2026-11-20T18:00:00Z", "2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z", "p2020"},
		"Sunday night":              {"1w", "2026-11-22T23:59:59Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z", "p20261116"},
		"Monday":                    {"1w", "2026-11-23T00:00:00Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z", "p20261123"},
		"seven days are a week":     {"7d", "2026-11-22T23:59:59Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z", "p20261116"},
		"week before 1970":          {"1w", "1969-12-31T23:00:00Z", "1969-12-29T00:00:00Z", "1970-01-05T00:00:00Z", "p19691229"},
		"hours before 1970":         {"2h", "1969-12-31T23:59:59.999999Z", "1969-12-31T22:00:00Z", "1970-01-01T00:00:00Z", "p19691231_22"},
		"month before 1970":         {"1mo", "1969-12-31T23:59:59.999999Z", "1969-12-01T00:00:00Z", "1970-01-01T00:00:00Z", "p196912"},
		"minutes":                   {"15m", "2026-11-20T18:44:59Z", "2026-11-20T18:30:00Z", "2026-11-20T18:45:00Z", "p20261120_1830"},
		"minutes at midnight":       {"15m", "2026-11-20T00:00:00Z", "2026-11-20T00:00:00Z", "2026-11-20T00:15:00Z", "p20261120_0000"},
		"seconds":                   {"30s", "2026-11-20T18:30:15Z", "2026-11-20T18:30:00Z", "2026-11-20T18:30:30Z", "p20261120_183000"},
		"day of a clock change":     {"1d", "2026-10-25T01:30:00Z", "2026-10-25T00:00:00Z", "2026-10-26T00:00:00Z", "p20261025"},
		"the axis' first day":       {"1d", "1000-01-01T00:00:00Z", "1000-01-01T00:00:00Z", "1000-01-02T00:00:00Z", "p10000101"},
		"the axis' first week, cut": {"1w", "1000-01-01T00:00:00Z", "1000-01-01T00:00:00Z", "1000-01-06T00:00:00Z", "p10000101"},
		"the axis' last day":        {"1d", "9999-12-31T23:59:59.999999Z", "9999-12-31T00:00:00Z", "", "p99991231"},
		"the axis' last month":      {"1mo", "9999-12-31T23:59:59.999999Z", "9999-12-01T00:00:00Z", "", "p999912"},
		"the axis' last week, cut":  {"1w", "9999-12-31T00:00:00Z", "9999-12-27T00:00:00Z", "", "p99991227"},
		"the axis' last, cut":       {"7y", "9999-12-31T00:00:00Z", "9996-01-01T00:00:00Z", "", "p9996"},
	} {
		t.Run(name, func(t *testing.T) {
			g := mustParse(t, c.every)
			want := Period{at(t, c.from), MaxTime}
			if c.to != "" {
				want.To = at(t, c.to)
			}
			got, err := g.At(at(t, c.pos))
			if err != nil || got != want {
				t.Errorf("period %s at %s: %v to %v, %v; want %s to %s",
					c.every, c.pos, Instant(got.From), Instant(got.To), err, c.from, c.to)
			}
			if got := g.Name(got); got != c.partition {
				t.Errorf("name %s, want %s", got, c.partition)
			}
		})
	}
}

func TestSequence(t *testing.T) {
	for name, c := range map[string]struct {
		rows, pos int64
		want      Period
		partition string
	}{
		"first":        {500000, 0, Period{0, 500000}, "p0000000000000000000"},
		"end of first": {500000, 499999, Period{0, 500000}, "p0000000000000000000"},
		"second":       {500000, 500000, Period{500000, 1000000}, "p0000000000000500000"},
		"one row each": {1, 7, Period{7, 8}, "p0000000000000000007"},
		"last, cut":    {1 << 62, math.MaxInt64 - 1, Period{1 << 62, math.MaxInt64}, "p4611686018427387904"},
		"all in one":   {math.MaxInt64, 5, Period{0, math.MaxInt64}, "p0000000000000000000"},
	} {
		t.Run(name, func(t *testing.T) {
			g, err := EveryRows(c.rows)
			must(t, err)
			got, err := g.At(c.pos)
			if err != nil || got != c.want {
				t.Errorf("At(%d) = %v, %v, want %v", c.pos, got, err, c.want)
			}
			if got := g.Name(got); got != c.partition {
				t.Errorf("name %s, want %s", got, c.partition)
			}
		})
	}
}

func TestOutside(t *testing.T) {
	days, rows := mustParse(t, "1d"), mustParse(t, "10 rows")
	for name, c := range map[string]struct {
		grid Grid
		pos  int64
	}{
		"before the year 1000":   {days, MinTime - 1},
		"in the year 10000":      {days, MaxTime},
		"a time past any":        {days, math.MaxInt64},
		"a time before any":      {days, math.MinInt64},
		"a negative key":         {rows, -1},
		"the largest key of all": {rows, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			if p, err := c.grid.At(c.pos); !errors.Is(err, ErrOutside) {
				t.Errorf("At(%d) = %v, %v, want ErrOutside", c.pos, p, err)
			}
			if _, err := (Policy{Grid: c.grid}).Steps(nil, c.pos); !errors.Is(err, ErrOutside) {
				t.Errorf("Steps at %d: %v, want ErrOutside", c.pos, err)
			}
		})
	}
	if _, err := days.Cover(Period{MaxTime - 1, MaxTime + 1}, 10); !errors.Is(err, ErrOutside) {
		t.Errorf("Cover past the end: %v, want ErrOutside", err)
	}
}

func TestPosition(t *testing.T) {
	for name, c := range map[string]struct {
		time time.Time
		want int64
	}{
		"epoch":                 {time.Unix(0, 0), 0},
		"fractions are cut":     {time.Unix(1, 1999), 1000001},
		"also before the epoch": {time.Unix(-1, 1999), -999999},
		"local time is UTC":     {time.Date(2026, 11, 20, 19, 0, 0, 0, time.FixedZone("", 3600)), 1795197600000000},
		"too late for an int64": {time.Date(400000, 1, 1, 0, 0, 0, 0, time.UTC), math.MaxInt64},
		"too early for one":     {time.Date(-400000, 1, 1, 0, 0, 0, 0, time.UTC), math.MinInt64},
		"the first position":    {time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC), MinTime},
		"the end of positions":  {time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), MaxTime},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Position(c.time); got != c.want {
				t.Errorf("Position(%v) = %d, want %d", c.time, got, c.want)
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		pos := rapid.Int64Range(MinTime, MaxTime).Draw(t, "position")
		if got := Position(Instant(pos)); got != pos {
			t.Fatalf("Position(Instant(%d)) = %d", pos, got)
		}
	})
}

func TestZeroGridIsRefused(t *testing.T) {
	var g Grid
	if g.Valid() {
		t.Error("the zero grid is valid")
	}
	if p, err := g.At(0); err == nil {
		t.Errorf("At of the zero grid: %v", p)
	}
	if s, err := (Policy{}).Steps(nil, 0); err == nil {
		t.Errorf("Steps of the zero policy: %v", s)
	}
	if got := g.String(); got != "no period" {
		t.Errorf("String() = %q", got)
	}
}

func TestConstructorsRefuse(t *testing.T) {
	for name, make := range map[string]func() (Grid, error){
		"no duration":       func() (Grid, error) { return EveryDuration(0) },
		"negative duration": func() (Grid, error) { return EveryDuration(-time.Hour) },
		"half a second":     func() (Grid, error) { return EveryDuration(1500 * time.Millisecond) },
		"no months":         func() (Grid, error) { return Parse("0mo") },
		"too many months":   func() (Grid, error) { return Parse("12001mo") },
		"no rows":           func() (Grid, error) { return EveryRows(0) },
		"negative rows":     func() (Grid, error) { return EveryRows(-5) },
	} {
		t.Run(name, func(t *testing.T) {
			if g, err := make(); err == nil || g.Valid() {
				t.Errorf("got %v, %v, want an error", g, err)
			}
		})
	}
}
