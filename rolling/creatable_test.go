package rolling

import (
	"strings"
	"testing"
	"time"
)

// TestCreatable: a missing period is that of the grid, less what others have of it, and only within
// the range.
func TestCreatable(t *testing.T) {
	day := int64(24 * time.Hour / time.Microsecond)
	g, err := Parse("1d")
	if err != nil {
		t.Fatal(err)
	}
	keep, err := ParseSpan("30d")
	if err != nil {
		t.Fatal(err)
	}
	start := Position(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
	at := func(days float64) int64 { return start + int64(days*float64(day)) }
	c := &Creatable{Grid: g, Keep: keep, Range: Period{at(-30), at(3)}, Sealed: at(-30)}
	have := []Partition{{"merged", Period{at(-10), at(-5.5)}}, {"p20261101", Period{at(0), at(1)}}}
	for _, test := range []struct {
		name     string
		pos      int64
		from, to float64
		as, why  string
	}{
		{"before all", at(-11.5), -12, -11, "p20261020", ""},
		{"beside a merged one", at(-5.2), -5.5, -5, "p20261026_12", ""},
		{"in a gap", at(-2), -2, -1, "p20261030", ""},
		{"after all", at(2.9), 2, 3, "p20261103", ""},
		{"the oldest", at(-30), -30, -29, "p20261002", ""},
		{"older than keep", at(-30) - 1, 0, 0, "", `2026-10-01 23:59:59.999999 is older than keep = "30d": retention drops periods before 2026-10-02`},
		{"the far future", at(3), 0, 0, "", "2026-11-04 00:00:00 lies too far in the future: periods are created up to 2026-11-04"},
		{"no axis has it", MaxTime, 0, 0, "", "outside of what any period can contain"},
	} {
		p, err := c.For(have, test.pos)
		if test.why != "" {
			if err == nil || !strings.Contains(err.Error(), test.why) {
				t.Errorf("%s: %v, %v; want %q", test.name, p, err, test.why)
			}
			continue
		}
		if want := (Partition{test.as, Period{at(test.from), at(test.to)}}); err != nil || p != want {
			t.Errorf("%s: %v, %v; want %v", test.name, p, err, want)
			continue
		}
		all := Insert(have, p)
		if i := Find(all, test.pos); len(all) != 3 || i < 0 || all[i] != p {
			t.Errorf("%s: it is not found in %v", test.name, all)
		}
	}
	missing, err := c.Missing(have, at(-11.3), at(1), 8)
	if err != nil || len(missing) != 8 || missing[0].Period != (Period{at(-12), at(-11)}) || missing[2].Period != (Period{at(-5.5), at(-5)}) {
		t.Errorf("missing are %v, %v", missing, err)
	}
	if missing, err := c.Missing(have, at(-11.3), at(1), 7); err == nil || !strings.Contains(err.Error(), "more than 7 periods of 1d from 2026-10-20 16:48:00 to 2026-11-02") {
		t.Errorf("missing are %v, %v", missing, err)
	}
	if missing, err := c.Missing(have, at(-40), at(-28), 8); err != nil || len(missing) != 2 {
		t.Errorf("missing are %v, %v", missing, err)
	}
	c.Sealed = at(-7)
	if _, err := c.For(nil, at(-7)-1); err == nil || !strings.Contains(err.Error(), "up to where roll-ups are sealed") {
		t.Errorf("before what is sealed: %v", err)
	}
}
