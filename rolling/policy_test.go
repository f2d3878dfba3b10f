package rolling

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// apply returns the partitions after the steps.
func apply(have []Partition, s Steps) []Partition {
	out := slices.DeleteFunc(slices.Clone(have), func(h Partition) bool { return slices.Contains(s.Drop, h) })
	return append(out, s.Create...)
}

// kept returns the first period of g that retention keeps, one at a time.
func kept(t *rapid.T, g Grid, pos int64, keep int) Period {
	p, err := g.At(pos)
	for range keep - 1 {
		if err == nil && p.From > g.Bounds().From {
			p, err = g.At(p.From - 1)
		}
	}
	must(t, err)
	return p
}

// A table that lives through jumps of its position, also backwards, changes of
// grid and of policy always has the partitions it needs, without gap or
// overlap, and loses only what is past retention.
func TestStepsOverALife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		axis := drawAxis(t)
		p := Policy{Grid: drawGrid(t, axis, "grid")}
		pos := drawPos(t, p.Grid, "start")
		var have []Partition
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			if rapid.IntRange(0, 4).Draw(t, "change of grid") == 0 {
				p.Grid = drawGrid(t, axis, "new grid")
			}
			p.Ahead = rapid.IntRange(0, 5).Draw(t, "ahead")
			p.Keep = rapid.IntRange(0, 6).Draw(t, "keep")
			present, err := p.Grid.At(pos)
			must(t, err)
			moved, err := p.Grid.shift(present, int64(rapid.IntRange(-3, 30).Draw(t, "moved by")))
			must(t, err)
			pos = rapid.Int64Range(moved.From, moved.To-1).Draw(t, "position")

			s, err := p.Steps(have, pos)
			if err != nil {
				// A much finer grid may need more partitions than are allowed.
				if !strings.Contains(err.Error(), "take a longer period") {
					t.Fatal(err)
				}
				continue
			}
			checkSteps(t, p, have, s, pos)
			have = apply(have, s)
			again, err := p.Steps(have, pos)
			if err != nil || len(again.Create)+len(again.Drop) > 0 || len(again.Gaps) > 0 {
				t.Fatalf("after the steps there is still %+v, %v", again, err)
			}
		}
	})
}

func checkSteps(t *rapid.T, p Policy, have []Partition, s Steps, pos int64) {
	t.Helper()
	end := kept(t, p.Grid, pos, 1).From
	if len(have) > 0 {
		end = have[len(have)-1].To
	}
	all := slices.Clone(have)
	for _, c := range s.Create {
		if c.From != end || c.To <= c.From {
			t.Fatalf("create %v after %d", c, end)
		}
		for _, h := range all {
			if h.Overlaps(c.Period) || strings.EqualFold(h.Name, c.Name) {
				t.Fatalf("create %v beside %v", c, h)
			}
		}
		all = append(all, c)
		end = c.To
	}
	// The position is held, and so are the periods ahead of it.
	if last := all[len(all)-1]; last.To <= pos {
		t.Fatalf("nothing holds %d: %v", pos, all)
	}
	if all[0].From <= pos && Find(all, pos) < 0 {
		t.Fatalf("nothing holds %d: %v", pos, all)
	}
	ahead := kept(t, p.Grid, pos, 1)
	for range max(p.Ahead, 1) {
		if ahead.To < p.Grid.Bounds().To {
			ahead, _ = p.Grid.At(ahead.To)
		}
	}
	if end < ahead.To {
		t.Fatalf("ready up to %d, want %d", end, ahead.To)
	}
	// Exactly what is past retention goes.
	for _, h := range all {
		gone := slices.Contains(s.Drop, h)
		want := p.Keep > 0 && h.To <= kept(t, p.Grid, pos, p.Keep).From
		if gone != want {
			t.Fatalf("drop of %v: %v, want %v (keep %d of %s at %d)", h, gone, want, p.Keep, p.Grid, pos)
		}
		if gone && h.To > pos {
			t.Fatalf("drops %v, which holds %d or more", h, pos)
		}
	}
}

// parts returns partitions that end where the next begins, named a, b, c, ...
func parts(bounds ...int64) []Partition {
	var out []Partition
	for i := 1; i < len(bounds); i++ {
		out = append(out, Partition{string(rune('a' + i - 1)), Period{bounds[i-1], bounds[i]}})
	}
	return out
}

func TestSteps(t *testing.T) {
	tens := mustParse(t, "10 rows")
	for name, c := range map[string]struct {
		policy Policy
		have   []Partition
		pos    int64
		create []Period
		drop   string
		gaps   []Period
	}{
		"new table":                   {policy: Policy{Grid: tens}, pos: 25, create: []Period{{20, 30}, {30, 40}}},
		"new table, more ahead":       {policy: Policy{Grid: tens, Ahead: 3}, pos: 0, create: []Period{{0, 10}, {10, 20}, {20, 30}, {30, 40}}},
		"nothing to do":               {policy: Policy{Grid: tens}, have: parts(0, 10, 20), pos: 9},
		"next is needed":              {policy: Policy{Grid: tens}, have: parts(0, 10, 20), pos: 10, create: []Period{{20, 30}}},
		"position before all":         {policy: Policy{Grid: tens}, have: parts(50, 60), pos: 3},
		"lead already longer":         {policy: Policy{Grid: tens}, have: parts(0, 10, 20, 30, 40), pos: 5},
		"unsorted":                    {policy: Policy{Grid: tens, Keep: 1}, have: append(parts(10, 20), parts(0, 10)...), pos: 15, create: []Period{{20, 30}}, drop: "a"},
		"keep two":                    {policy: Policy{Grid: tens, Keep: 2}, have: parts(0, 10, 20, 30, 40), pos: 25, drop: "a"},
		"keep more than there are":    {policy: Policy{Grid: tens, Keep: 1 << 40}, have: parts(0, 10, 20, 30, 40), pos: 25},
		"partly past retention":       {policy: Policy{Grid: tens, Keep: 1}, have: parts(0, 15, 40), pos: 12},
		"finer grid":                  {policy: Policy{Grid: mustParse(t, "5 rows")}, have: parts(0, 12), pos: 11, create: []Period{{12, 15}, {15, 20}}},
		"coarser grid":                {policy: Policy{Grid: mustParse(t, "100 rows")}, have: parts(0, 10), pos: 15, create: []Period{{10, 100}, {100, 200}}},
		"idle, everything kept":       {policy: Policy{Grid: tens}, have: parts(0, 10), pos: 35, create: []Period{{10, 20}, {20, 30}, {30, 40}, {40, 50}}},
		"idle past retention":         {policy: Policy{Grid: tens, Keep: 2}, have: parts(0, 10), pos: 1005, create: []Period{{10, 1000}, {1000, 1010}, {1010, 1020}}, drop: "a"},
		"gap is reported, not filled": {policy: Policy{Grid: tens}, have: append(parts(0, 10), Partition{"z", Period{30, 60}}), pos: 40, gaps: []Period{{10, 30}}},
		"partition without an end":    {policy: Policy{Grid: tens}, have: parts(0, 10, math.MaxInt64), pos: 1e15},
		"the axis' end":               {policy: Policy{Grid: tens, Ahead: 5}, have: parts(0, math.MaxInt64-7), pos: math.MaxInt64 - 1, create: []Period{{math.MaxInt64 - 7, math.MaxInt64}}},
	} {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(c.have)
			s, err := c.policy.Steps(c.have, c.pos)
			must(t, err)
			if !slices.Equal(before, c.have) {
				t.Errorf("the caller's partitions were changed to %v", c.have)
			}
			var create []Period
			for _, p := range s.Create {
				create = append(create, p.Period)
			}
			var drop strings.Builder
			for _, p := range s.Drop {
				drop.WriteString(p.Name)
			}
			if !slices.Equal(create, c.create) || drop.String() != c.drop || !slices.Equal(s.Gaps, c.gaps) {
				t.Errorf("got create %v, drop %q, gaps %v\nwant   %v,      %q,      %v", create, drop.String(), s.Gaps, c.create, c.drop, c.gaps)
			}
		})
	}
}

func TestStepsRefuse(t *testing.T) {
	tens := mustParse(t, "10 rows")
	for name, c := range map[string]struct {
		policy Policy
		have   []Partition
		pos    int64
		want   string
	}{
		"overlap":          {Policy{Grid: tens}, append(parts(0, 10), parts(9, 20)...), 5, "overlap"},
		"one in another":   {Policy{Grid: tens}, append(parts(0, 100), parts(20, 30)...), 5, "overlap"},
		"twice the same":   {Policy{Grid: tens}, append(parts(0, 10), parts(0, 10)...), 5, "overlap"},
		"empty partition":  {Policy{Grid: tens}, parts(0, 10, 10), 5, "partition b holds nothing"},
		"backwards":        {Policy{Grid: tens}, parts(10, 0), 5, "partition a holds nothing"},
		"a second for 1 y": {Policy{Grid: mustParse(t, "1s")}, parts(0, 1e6), 365 * day, "take a longer period"},
		"far too ahead":    {Policy{Grid: tens, Ahead: 1 << 40}, nil, 5, "take a longer period"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := c.policy.Steps(c.have, c.pos)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %d to create, %v; want an error with %q", len(s.Create), err, c.want)
			}
		})
	}
}

// A table from elsewhere may name its partitions after their ends.
func TestStepsAvoidNamesInUse(t *testing.T) {
	g := mustParse(t, "1d")
	from := at(t, "2026-11-20T00:00:00Z")
	have := []Partition{{"P20261121", Period{from, from + day}}}
	s, err := Policy{Grid: g}.Steps(have, from)
	must(t, err)
	if len(s.Create) != 1 || s.Create[0].Name != "p20261121x" {
		t.Errorf("create %v, want one partition p20261121x", s.Create)
	}
}

func TestFind(t *testing.T) {
	have := append(parts(0, 10, 20), Partition{"c", Period{30, 40}})
	for name, c := range map[string]struct {
		have []Partition
		pos  int64
		want int
	}{
		"before all":    {have, -1, -1},
		"first":         {have, 0, 0},
		"end of first":  {have, 9, 0},
		"bound":         {have, 10, 1},
		"gap":           {have, 25, -1},
		"after a gap":   {have, 30, 2},
		"after all":     {have, 40, -1},
		"no partitions": {nil, 5, -1},
		"end of last":   {have, 39, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Find(c.have, c.pos); got != c.want {
				t.Errorf("Find(%d) = %d, want %d", c.pos, got, c.want)
			}
		})
	}
}

func BenchmarkAt(b *testing.B) {
	for _, every := range []string{"2h", "1mo", "500000 rows"} {
		b.Run(every, func(b *testing.B) {
			g := mustParse(b, every)
			b.ReportAllocs()
			for pos := int64(0); b.Loop(); pos = (pos + 1e9) % 1e15 {
				if _, err := g.At(pos); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFind(b *testing.B) {
	bounds := make([]int64, 1001)
	for i := range bounds {
		bounds[i] = int64(i) * 1000
	}
	have := parts(bounds...)
	b.ReportAllocs()
	for pos := int64(0); b.Loop(); pos = (pos + 777) % 1e6 {
		if Find(have, pos) < 0 {
			b.Fatal("not found")
		}
	}
}
