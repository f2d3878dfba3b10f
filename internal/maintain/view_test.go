package maintain

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
)

// dropped records n dropped periods before those of the table.
func (w *world) dropped(n int) {
	w.t.Helper()
	row := func(i int) string {
		from := at(0) - int64(i+1)*3600e6
		return fmt.Sprintf("('readings', %d, %d, 'p%d', '%s', 1, 'x', %d, 0, '/archive/p%d', 'y', 1)", from, from+3600e6, i, state.Dropped, from, i)
	}
	for i := 0; i < n; i += 500 {
		rows := make([]string, 500)
		for j := range rows {
			rows[j] = row(i + j)
		}
		q := "INSERT INTO rowmill_states (table_name, lower_pos, upper_pos, name, state, row_count, checksum, checked_pos, rebuilt, archive, archive_sum, updated_us) VALUES "
		if _, err := w.DB.SQL().ExecContext(w.t.Context(), q+strings.Join(rows, ", ")); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestViewReadsExistingPeriods: looking at a table that has dropped thousands of
// periods reads the records of those that it has.
func TestViewReadsExistingPeriods(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, nil), at(0.2))
		w.insert(at(0.5), 1, 2)
		w.now = at(2.2)
		w.keep()
		before, err := w.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.dropped(5000)
		v, err := w.View(t.Context())
		if err != nil || len(v.Known) != 2 || !slices.Equal(v.Known, before.Known) || !slices.Equal(v.Parts, before.Parts) {
			t.Errorf("%d records of %d periods, had %d; error %v", len(v.Known), len(v.Parts), len(before.Known), err)
		}
		if all, err := w.State.Periods(t.Context(), "readings"); err != nil || len(all) != 5002 {
			t.Errorf("%d records in all, error %v", len(all), err)
		}
		if db.Info().Engine != "sqlite" {
			return
		}
		var plan, ignored string
		if err := db.SQL().QueryRow("EXPLAIN QUERY PLAN SELECT * FROM rowmill_states WHERE table_name = 'readings' AND lower_pos >= 0 AND state <> 'dropped' ORDER BY lower_pos").
			Scan(&ignored, &ignored, &ignored, &plan); err != nil || !strings.Contains(plan, "table_name=? AND lower_pos>?") {
			t.Errorf("plan %q, error %v", plan, err)
		}
	})
}

// TestActionsAreTrimmed: the log of actions keeps the newest ones, and old ones are
// removed in portions.
func TestActionsAreTrimmed(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, nil), at(0.2))
		const n = 11500
		for i := 0; i < n; i += 500 {
			rows := make([]string, 500)
			for j := range rows {
				rows[j] = fmt.Sprintf("('readings', %d, 0, 'create', 'p', 0, '', 0, 'x')", i+j)
			}
			q := "INSERT INTO rowmill_actions (table_name, at_us, serial, action, detail, took_us, error, locked, by_whom) VALUES "
			if _, err := db.SQL().ExecContext(t.Context(), q+strings.Join(rows, ", ")); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []int{1500, 1000, 1000} {
			for range trimEvery {
				w.log(t.Context(), "test", "", 0, nil)
			}
			all, err := w.State.Actions(t.Context(), "readings", 2*n)
			old := slices.DeleteFunc(all, func(a state.Action) bool { return a.Action == "test" })
			if err != nil || len(old) > want || len(all) < 900 {
				t.Errorf("%d old of %d actions, want at most %d; error %v", len(old), len(all), want, err)
			}
		}
	})
}

func BenchmarkView(b *testing.B) {
	for _, n := range []int{0, 5000} {
		b.Run(fmt.Sprintf("dropped=%d", n), func(b *testing.B) {
			db := testdb.Open(b, "sqlite").(engine.Keeper)
			w := applied(b, db, declare(b, db, nil), at(0.2))
			w.dropped(n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.View(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
