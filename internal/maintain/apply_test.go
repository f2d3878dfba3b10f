package maintain

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
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
		if _, err := db.SQL().ExecContext(t.Context(), "CREATE TABLE readings_1h (id INT NOT NULL PRIMARY KEY)"); err != nil {
			t.Fatal(err)
		}
		d := declare(t, db, func(d *rolling.Declaration) { d.Rollups = counts(t, "readings_1h") })
		table, err := Open(t.Context(), db, d, func() time.Time { return rolling.Instant(at(5)) })
		if err != nil {
			t.Fatal(err)
		}
		_, err = table.PlanApply(t.Context())
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
			table, err := Open(t.Context(), db, declare(t, db, change), func() time.Time { return rolling.Instant(at(5)) })
			if err != nil {
				t.Fatal(err)
			}
			plan, err := table.PlanApply(t.Context())
			if err != nil {
				t.Fatal(err)
			}
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
