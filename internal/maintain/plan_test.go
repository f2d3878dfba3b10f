package maintain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rowmill/rowmill/internal/engine/enginetest"
	. "github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

var must = enginetest.Must

func grid(t testing.TB, s string) rolling.Grid {
	t.Helper()
	g, err := rolling.Parse(s)
	must(t, err)
	return g
}

func span(d time.Duration) rolling.Span { return rolling.Span{Micros: d.Microseconds()} }

// at returns a position on the tests' day, hours after its start.
func at(hours float64) int64 {
	return rolling.Position(time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)) + int64(hours*3600e6)
}

// hourly returns the partitions of a range of hours, without its end.
func hourly(t *testing.T, from, to int) []rolling.Partition {
	g := grid(t, "1h")
	parts, err := g.Cover(rolling.Period{From: at(float64(from)), To: at(float64(to))}, 1000)
	must(t, err)
	out := make([]rolling.Partition, len(parts))
	for i, p := range parts {
		out[i] = g.Named(p)
	}
	return out
}

// justNow represents the present of the view in which a record is used.
const justNow = -1

func known(st string, rows int64, parts ...rolling.Partition) []state.Period {
	var out []state.Period
	for _, p := range parts {
		out = append(out, state.Period{Partition: p, State: st, Rows: rows, Checked: justNow})
	}
	return out
}

// summary formats a plan as lines of due and next tasks.
func summary(d *rolling.Declaration, v View) string {
	v.Gaps = !v.Gaps // most cases are about engines with lower bounds; those that set Gaps are about the others
	v.Known = slices.Clone(v.Known)
	for i := range v.Known {
		if v.Known[i].Checked == justNow {
			v.Known[i].Checked = v.Now
		}
	}
	tasks, err := Plan(d, v)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, task := range tasks {
		fmt.Fprintf(&b, "%s %s", task.Kind, task.Label())
		if task.New.Name != "" {
			fmt.Fprintf(&b, " -> %s", task.New.Name)
		}
		if task.Due > v.Now {
			fmt.Fprintf(&b, " at %s", d.Period.Format(task.Due))
		}
		if task.Waits != "" {
			fmt.Fprintf(&b, " (%s)", task.Waits)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestPlan(t *testing.T) {
	hour := grid(t, "1h")
	base := rolling.Declaration{Name: "readings", Period: hour, Ahead: span(2 * time.Hour)}
	with := func(change func(*rolling.Declaration)) *rolling.Declaration {
		d := base
		change(&d)
		return &d
	}
	keeping := func(d *rolling.Declaration) { d.Keep = span(4 * time.Hour); d.Seal.After = span(time.Hour) }
	rolledUp := func(d *rolling.Declaration) { keeping(d); d.Rollups = []rolling.Rollup{{Name: "readings_1h"}} }
	for _, test := range []struct {
		name string
		d    *rolling.Declaration
		v    View
		want string
	}{
		{"empty", &base, View{Now: at(0.5)}, "create p20260328_00, p20260328_01, p20260328_02\n"},
		{"enough", &base, View{Now: at(0.5), Parts: hourly(t, 0, 3)},
			"create p20260328_03 at 2026-03-28 01:00:00\nseal p20260328_00 at 2026-03-28 01:00:00\n"},
		{"after a standstill", &base, View{Now: at(5.5), Parts: hourly(t, 0, 2)},
			"create p20260328_02 to p20260328_07 (6 periods)\nseal p20260328_00\nseal p20260328_01\n"},
		{"nothing is dropped unsealed", with(keeping), View{Now: at(6), Parts: hourly(t, 0, 9)},
			"create p20260328_09 at 2026-03-28 07:00:00\nseal p20260328_00\nseal p20260328_01\nseal p20260328_02\nseal p20260328_03\nseal p20260328_04\n" +
				"seal p20260328_05 at 2026-03-28 07:00:00\ndrop p20260328_00 (not sealed)\ndrop p20260328_01 (not sealed)\ndrop p20260328_02 at 2026-03-28 07:00:00\n"},
		{"dropped once sealed", with(keeping), View{Now: at(6), Parts: hourly(t, 0, 9), Known: known(state.Sealed, 10, hourly(t, 0, 5)...)},
			"create p20260328_09 at 2026-03-28 07:00:00\nseal p20260328_05 at 2026-03-28 07:00:00\n" +
				"drop p20260328_00\ndrop p20260328_01\ndrop p20260328_02 at 2026-03-28 07:00:00\n"},
		{"nothing is dropped while there is a way back", with(keeping), View{Now: at(6), Parts: hourly(t, 0, 9), Known: known(state.Sealed, 10, hourly(t, 0, 5)...), Adopting: true},
			"create p20260328_09 at 2026-03-28 07:00:00\nseal p20260328_05 at 2026-03-28 07:00:00\n" +
				"drop p20260328_00 (the adoption of the table is not finished: rowmill apply FILE --finish, which can't be undone)\n" +
				"drop p20260328_01 (the adoption of the table is not finished: rowmill apply FILE --finish, which can't be undone)\ndrop p20260328_02 at 2026-03-28 07:00:00\n"},
		{"oldest first, where the next takes its range", with(keeping), View{Now: at(6), Parts: hourly(t, 0, 9), Known: known(state.Sealed, 10, hourly(t, 0, 5)...), Gaps: true},
			"create p20260328_09 at 2026-03-28 07:00:00\nseal p20260328_05 at 2026-03-28 07:00:00\n" +
				"drop p20260328_00\ndrop p20260328_01 (an older period is due first)\ndrop p20260328_02 at 2026-03-28 07:00:00\n"},
		{"oldest first, as a drop seals the roll-ups of all time below", with(rolledUp), View{Now: at(7), Parts: hourly(t, 0, 10),
			Known: append(known(state.Restored, 10, hourly(t, 0, 1)...), known(state.Sealed, 10, hourly(t, 2, 6)...)...)},
			"create p20260328_10 at 2026-03-28 08:00:00\nrollup \nseal p20260328_01\nseal p20260328_06 at 2026-03-28 08:00:00\n" +
				"drop p20260328_01 (not sealed)\ndrop p20260328_02 (an older period is due first)\ndrop p20260328_03 at 2026-03-28 08:00:00\n"},
		{"not before an older one has ended", with(rolledUp), View{Now: at(6), Parts: hourly(t, 1, 9), Known: known(state.Sealed, 10, hourly(t, 1, 5)...),
			Busy: []rolling.Period{{From: at(0), To: at(1)}}},
			"create p20260328_09 at 2026-03-28 07:00:00\nrollup \nseal p20260328_05 at 2026-03-28 07:00:00\n" +
				"drop p20260328_01 (an older period is due first)\ndrop p20260328_02 at 2026-03-28 07:00:00\n"},
		{"before an older one is restored", with(rolledUp), View{Now: at(6), Parts: hourly(t, 1, 9), Known: known(state.Sealed, 10, hourly(t, 1, 5)...),
			Busy: []rolling.Period{{From: at(0), To: at(1)}}, Restoring: []rolling.Period{{From: at(0), To: at(1)}}},
			"create p20260328_09 at 2026-03-28 07:00:00\nrollup \nseal p20260328_05 at 2026-03-28 07:00:00\n" +
				"drop p20260328_01\ndrop p20260328_02 at 2026-03-28 07:00:00\n"},
		{"archived before dropped", with(func(d *rolling.Declaration) { keeping(d); d.Seal.Archive = "archive" }),
			View{Now: at(6), Parts: hourly(t, 0, 9), Known: known(state.Sealed, 10, hourly(t, 0, 5)...)},
			"create p20260328_09 at 2026-03-28 07:00:00\nseal p20260328_05 at 2026-03-28 07:00:00\n" +
				"archive p20260328_00\narchive p20260328_01\narchive p20260328_02\narchive p20260328_03\narchive p20260328_04\n" +
				"drop p20260328_00 (not archived)\ndrop p20260328_01 (not archived)\ndrop p20260328_02 at 2026-03-28 07:00:00\n"},
		{"restored ones stay", with(keeping), View{Now: at(6), Parts: hourly(t, 0, 9),
			Known: append(known(state.Restored, 10, hourly(t, 0, 1)...), known(state.Sealed, 10, hourly(t, 1, 5)...)...)},
			"create p20260328_09 at 2026-03-28 07:00:00\nseal p20260328_05 at 2026-03-28 07:00:00\n" +
				"drop p20260328_01\ndrop p20260328_02 at 2026-03-28 07:00:00\n"},
		{"merged when the day is over", with(func(d *rolling.Declaration) { d.Seal.Merge = grid(t, "1d") }),
			View{Now: at(24), Parts: hourly(t, 0, 27), Known: known(state.Sealed, 10, hourly(t, 0, 24)...)},
			"create p20260329_03 at 2026-03-29 01:00:00\nseal p20260329_00 at 2026-03-29 01:00:00\n" +
				"merge p20260328_00 to p20260328_11 (12 periods) -> p20260328_00\nmerge p20260328_12 to p20260328_23 (12 periods) -> p20260328_12\n"},
		{"not before", with(func(d *rolling.Declaration) { d.Seal.Merge = grid(t, "1d") }),
			View{Now: at(23), Parts: hourly(t, 0, 26), Known: known(state.Sealed, 10, hourly(t, 0, 23)...)},
			"create p20260329_02 at 2026-03-29 00:00:00\nseal p20260328_23 at 2026-03-29 00:00:00\n"},
		{"in the sizes that can be swapped", with(func(d *rolling.Declaration) { d.Seal.Merge = grid(t, "3h") }),
			View{Now: at(3), Parts: hourly(t, 0, 6), Known: known(state.Sealed, 10, hourly(t, 0, 3)...), SwapRows: 25},
			"create p20260328_06 at 2026-03-28 04:00:00\nseal p20260328_03 at 2026-03-28 04:00:00\nmerge p20260328_00, p20260328_01 -> p20260328_00\n"},
		{"compressed one by one", with(func(d *rolling.Declaration) { d.Seal.Compress = true }),
			View{Now: at(2), Parts: hourly(t, 0, 5), Known: known(state.Sealed, 10, hourly(t, 0, 2)...)},
			"create p20260328_05 at 2026-03-28 03:00:00\nseal p20260328_02 at 2026-03-28 03:00:00\nrebuild p20260328_00 -> p20260328_00\nrebuild p20260328_01 -> p20260328_01\n"},
		{"a change under way comes first", with(keeping), View{Now: at(6), Parts: hourly(t, 0, 9), Known: known(state.Sealed, 10, hourly(t, 0, 5)...),
			Busy: []rolling.Period{{From: at(0), To: at(1)}}},
			"create p20260328_09 at 2026-03-28 07:00:00\nseal p20260328_05 at 2026-03-28 07:00:00\n" +
				"drop p20260328_00 (a change of it is under way)\ndrop p20260328_01\ndrop p20260328_02 at 2026-03-28 07:00:00\n"},
		{"looked at again when its age has doubled", with(func(d *rolling.Declaration) {}), View{Now: at(2.5), Parts: hourly(t, 0, 6), Known: []state.Period{
			{Partition: hourly(t, 0, 1)[0], State: state.Sealed, Checked: at(1.5)}, {Partition: hourly(t, 1, 2)[0], State: state.Sealed, Checked: at(2)}}},
			"create p20260328_06 at 2026-03-28 04:00:00\nseal p20260328_02 at 2026-03-28 03:00:00\ncheck p20260328_00\n"},
		{"no more than the server allows", &base, View{Now: at(0.5), MaxPeriods: 2},
			"create p20260328_00, p20260328_01, p20260328_02 (the table would have 3 periods and the server allows 2: merge or drop some, or take a longer period)\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(strings.Split(test.want, "\n"), strings.Split(summary(test.d, test.v), "\n")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A period that was checked while the clock ran ahead is checked again as soon as
// the clock is right, not only when it reaches that time again.
func TestChecksAfterClockSetBack(t *testing.T) {
	p := hourly(t, 0, 1)[0]
	v := View{Now: at(2), Parts: []rolling.Partition{p}, Known: []state.Period{{Table: "readings", Partition: p, State: state.Sealed, Checked: at(9)}}}
	if got := PlanChecks(v); len(got) != 1 || got[0].Due != v.Now {
		t.Errorf("checked in the future: %+v, want one that is due", got)
	}
	v.Known[0].Checked = at(1.8)
	if got := PlanChecks(v); len(got) != 0 {
		t.Errorf("checked a moment ago: %+v", got)
	}
}
