package maintain

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// dropTable drops the table as its owner would, without rowmill.
func (w *world) dropTable() {
	w.t.Helper()
	have, err := w.DB.Catalog().Partitions(w.t.Context(), w.Table.Table)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range w.Declared.Rollups {
		w.exec("DROP VIEW " + r.Name + "_live")
	}
	if err := w.DB.Apply(w.t.Context(), engine.DropTable{Table: w.Table.Table, Partitions: have}); err != nil {
		w.t.Fatal(err)
	}
}

// opened opens a declared table as another process does.
func opened(t *testing.T, db engine.Keeper, d *rolling.Declaration, now int64) *Table {
	t.Helper()
	table, err := Open(t.Context(), db, d, func() time.Time { return rolling.Instant(now) })
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// A table that was applied and dropped is reported as missing.
func TestTableDroppedAfterApply(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, nil)
		d.Source = "readings.toml"
		if err := opened(t, db, d, at(1)).CheckApplied(t.Context()); err == nil || !strings.Contains(err.Error(), "has not been applied") {
			t.Errorf("before: %v", err)
		}
		w := applied(t, db, d, at(0.2))
		if err := opened(t, db, d, at(1)).CheckApplied(t.Context()); err != nil {
			t.Error(err)
		}
		w.dropTable()
		err := opened(t, db, d, at(1)).CheckApplied(t.Context())
		var hint *engine.HintError
		if err == nil || !strings.Contains(err.Error(), "was applied") || !strings.Contains(err.Error(), "isn't there") ||
			!errors.As(err, &hint) || !strings.Contains(hint.Hint, "rowmill apply readings.toml") {
			t.Errorf("dropped: %v", err)
		}
	})
}

// A plan lists the missing ones of rowmill's own tables.
func TestApplyListsMissingTables(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, nil)
		w := applied(t, db, d, at(0.2))
		w.exec("DROP TABLE rowmill_stale")
		plan, err := opened(t, db, d, at(0.2)).PlanApply(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var own []string
		for _, s := range plan.Steps {
			if strings.Contains(s.What, "own tables") {
				own = append(own, s.What)
				if len(s.SQL) != 1 || !strings.Contains(s.SQL[0], "rowmill_stale") {
					t.Errorf("it runs %q", s.SQL)
				}
			}
		}
		if len(own) != 1 || !strings.Contains(own[0], "rowmill_stale") {
			t.Errorf("steps: %q", own)
		}
		if err := plan.Run(t.Context(), func(ApplyStep) {}); err != nil {
			t.Fatal(err)
		}
		if left, err := w.State.Missing(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("still missing: %v, %v", left, err)
		}
	})
}

// A drop begun by an older version of rowmill has no record of its declaration: no
// change of declaration is reported.
func TestDropOfOlderRowmill(t *testing.T) {
	onPoint(t, "drop begun", func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, func(d *rolling.Declaration) { d.Keep = span(time.Hour) }), at(0.2))
		w.hours(0, 2)
		w.now = at(2.6)
		w.killed("drop begun")
		changes, err := w.State.Changes(t.Context(), "readings")
		if err != nil || len(changes) != 1 {
			t.Fatal(changes, err)
		}
		var d dropping
		if err := changes[0].Load(&d); err != nil {
			t.Fatal(err)
		}
		d.Applied = mark{}
		if err := w.State.Advance(t.Context(), w.State.DB(), &changes[0], stepDetach, d); err != nil {
			t.Fatal(err)
		}
		w.keep()
		actions, err := w.State.Actions(t.Context(), "readings", 100)
		if err != nil {
			t.Fatal(err)
		}
		said := ""
		for _, a := range actions {
			said += a.Detail + "\n"
		}
		if strings.Contains(said, "another declaration") || !strings.Contains(said, "older rowmill") {
			t.Errorf("the log says: %s", said)
		}
		if got := w.parts(); !strings.HasPrefix(got, "1-2 ") {
			t.Errorf("there is %s, want 1-2 ...", got)
		}
	})
}
