package rolling_test

import (
	"testing"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

func TestSpan(t *testing.T) {
	at := rolling.Position(time.Date(2026, 3, 31, 12, 0, 0, 0, time.UTC))
	for _, c := range []struct{ text, again, before, after string }{
		{"30s", "30s", "2026-03-31 11:59:30", "2026-03-31 12:00:30"},
		{"120m", "2h", "2026-03-31 10:00:00", "2026-03-31 14:00:00"},
		{"1w", "1w", "2026-03-24 12:00:00", "2026-04-07 12:00:00"},
		{"1mo", "1mo", "2026-03-03 12:00:00", "2026-05-01 12:00:00"}, // as Go's calendar has it
		{"24mo", "2y", "2024-03-31 12:00:00", "2028-03-31 12:00:00"},
		{"1000y", "1000y", "1026-03-31 12:00:00", "3026-03-31 12:00:00"},
	} {
		s, err := rolling.ParseSpan(c.text)
		must(t, err)
		g, _ := rolling.Parse("1s")
		if s.String() != c.again || g.Format(s.Before(at)) != c.before || g.Format(s.After(at)) != c.after {
			t.Errorf("%s: %s, %s, %s", c.text, s, g.Format(s.Before(at)), g.Format(s.After(at)))
		}
	}
	rows, err := rolling.ParseSpan("2000 rows")
	if err != nil || rows.String() != "2000 rows" || rows.Before(500) != 0 || rows.After(500) != 2500 ||
		rows.After(rolling.MaxSequence-1) != rolling.MaxSequence || rows.Length() != 2000 {
		t.Errorf("%v, %v", rows, err)
	}
	if s := (rolling.Span{}); s.String() != "" || s.After(at) != at {
		t.Errorf("zero: %s", s)
	}
	for _, bad := range []string{"", "1", "h", "-1h", "1.5h", "1 fortnight", "0s"} {
		if s, err := rolling.ParseSpan(bad); err == nil {
			t.Errorf("%q is %v", bad, s)
		}
	}
}

func TestGridDivides(t *testing.T) {
	for _, c := range []struct {
		g, other string
		want     bool
	}{
		{"1m", "1h", true}, {"1h", "1m", false}, {"7m", "1h", false}, {"1h", "1d", true}, {"1d", "1w", true},
		{"5h", "1w", false}, {"8h", "1w", true}, {"1d", "1mo", true}, {"1w", "1mo", false}, {"36h", "1mo", false},
		{"1mo", "1y", true}, {"5mo", "1y", false}, {"1mo", "4w", false}, {"1h", "1h", true}, {"2w", "4w", true},
		{"7h", "1w", false}, // 168 hours are 24 of them, but Mondays fall between
		{"10 rows", "100 rows", true}, {"30 rows", "100 rows", false}, {"1h", "100 rows", false},
	} {
		g, err := rolling.Parse(c.g)
		must(t, err)
		other, err := rolling.Parse(c.other)
		must(t, err)
		if got := g.Divides(other); got != c.want {
			t.Errorf("%s divides %s: %v", c.g, c.other, got)
		}
		if !c.want {
			continue
		}
		at := rolling.Position(time.Date(2027, 5, 17, 3, 4, 5, 0, time.UTC))
		if g.Axis() == rolling.Sequence {
			at = 123456
		}
		long, _ := other.At(at)
		for _, end := range []int64{long.From, long.To} {
			if p, _ := g.At(end); p.From != end {
				t.Errorf("%s begins or ends at %d, within a period of %s", c.other, end, c.g)
			}
		}
	}
	if (rolling.Grid{}).Divides(rolling.Grid{}) {
		t.Error("no grid divides no grid")
	}
}
