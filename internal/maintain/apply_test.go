package maintain_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	. "github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/apply"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

func counts(t *testing.T, names ...string) (out []rolling.Rollup) {
	for _, name := range names {
		out = append(out, rolling.Rollup{Name: name, Every: grid(t, "1h"), Select: []rolling.Aggregate{{Name: "n", Func: "count"}}})
	}
	return out
}

// A roll-up whose name is in use is rejected before the table is created.
func TestApplyNameTaken(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		exec(t, db.SQL(), "CREATE TABLE readings_1h (id INT NOT NULL PRIMARY KEY)")
		d := declare(t, db, func(d *rolling.Declaration) { d.Rollups = counts(t, "readings_1h") })
		_, err := apply.PlanTable(t.Context(), opened(t, db, d, at(5)))
		if err == nil || !strings.Contains(err.Error(), "readings_1h: the table of that name") {
			t.Errorf("planned: %v", err)
		}
		if _, err := db.Describe(t.Context(), "readings"); !errors.Is(err, engine.ErrNoTable) {
			t.Errorf("the table: %v", err)
		}
	})
}

// Only new objects are listed as new.
func TestApplyListsWhatIsNew(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		applied(t, db, declare(t, db, func(d *rolling.Declaration) { d.Rollups = counts(t, "first") }), at(5))
		steps := func(change func(*rolling.Declaration)) string {
			t.Helper()
			plan := applyPlan(t, opened(t, db, declare(t, db, change), at(5)))
			var out []string
			for _, s := range plan.Steps {
				if strings.HasPrefix(s.What, "check ") {
					continue
				}
				for _, q := range s.SQL {
					if strings.Contains(q, "first") {
						t.Errorf("what is there is made again: %s", q)
					}
				}
				out = append(out, s.What)
			}
			return strings.Join(out, "\n")
		}
		const note = "record the declaration in rowmill_tables"
		if got, want := steps(func(d *rolling.Declaration) { d.Rollups = counts(t, "first", "second") }), "create roll-ups second\n"+note; got != want {
			t.Errorf("a second one: %q, want %q", got, want)
		}
		if got := steps(func(d *rolling.Declaration) { d.Rollups, d.Keep = counts(t, "first"), span(9*time.Hour) }); got != note {
			t.Errorf("another retention: %q, want %q", got, note)
		}
	})
}

// dropTable drops the table as its owner would, without rowmill.
func (w *world) dropTable() {
	w.t.Helper()
	have := w.partitions()
	for _, r := range w.Declared.Rollups {
		w.exec("DROP VIEW " + r.Name + "_live")
	}
	must(w.t, w.DB.Apply(w.t.Context(), engine.DropTable{Table: w.Table.Table, Partitions: have}))
}

// opened opens a declared table as another process does.
func opened(t testing.TB, db engine.Keeper, d *rolling.Declaration, now int64) *Table {
	t.Helper()
	table, err := Open(t.Context(), db, d, func() time.Time { return rolling.Instant(now) })
	must(t, err)
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
		if err == nil || !strings.Contains(err.Error(), "was applied") || !strings.Contains(err.Error(), "no longer exists") ||
			!errors.As(err, &hint) || !strings.Contains(hint.Hint, "rowmill apply readings.toml") {
			t.Errorf("dropped: %v", err)
		}
	})
}

// A plan lists the missing ones of rowmill's own tables, and the columns that tables of an earlier
// version lack.
func TestApplyListsMissingTables(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, nil)
		w := applied(t, db, d, at(0.2))
		w.exec("ALTER TABLE rowmill_tables DROP COLUMN format")
		w.exec("DROP TABLE rowmill_stale")
		plan := applyPlan(t, opened(t, db, d, at(0.2)))
		var own []string
		for _, s := range plan.Steps {
			if strings.Contains(s.What, "own tables") {
				own = append(own, s.What)
				if len(s.SQL) != 2 || !strings.Contains(s.SQL[0], "rowmill_stale") || !strings.Contains(s.SQL[1], "ALTER TABLE rowmill_tables ADD COLUMN format ") {
					t.Errorf("it runs %q", s.SQL)
				}
			}
		}
		if len(own) != 1 || !strings.Contains(own[0], "rowmill_stale") {
			t.Errorf("steps: %q", own)
		}
		mustRun(t, plan)
		if left, _, err := w.State.Missing(t.Context()); err != nil || len(left) > 0 {
			t.Errorf("still missing: %v, %v", left, err)
		}
		if d, err := w.State.Declared(t.Context(), "readings"); err != nil || d == nil || d.Format != state.Format {
			t.Errorf("the declaration is %v, %v", d, err)
		}
	})
}
