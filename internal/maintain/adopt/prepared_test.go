package adopt

import (
	"errors"
	"testing"
)

// TestTrapPreparedStatements: statements prepared before the cut-over continue to
// work.
func TestTrapPreparedStatements(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(500)
		conn, err := w.users.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		insert, err := conn.PrepareContext(t.Context(), w.db.Bind(insertSQL+"(?, ?, ?, ?, ?, ?, ?)"))
		if err != nil {
			t.Fatal(err)
		}
		defer insert.Close()
		remove, err := conn.PrepareContext(t.Context(), w.db.Bind("DELETE FROM events WHERE id = ?"))
		if err != nil {
			t.Fatal(err)
		}
		defer remove.Close()
		o := w.options()
		late, err := conn.PrepareContext(t.Context(), w.db.Bind(insertSQL+"(?, ?, ?, ?, ?, ?, ?)")) // executed once before and once after
		if err != nil {
			t.Fatal(err)
		}
		defer late.Close()
		id := int64(1000)
		o.at = func(point string) error {
			if point == "swap: locked" || point == "swap: renaming" || point == "swap: renamed" || point == "swap: sentry gone" {
				return nil
			}
			id++
			if _, err := insert.ExecContext(t.Context(), values(id, 1, spread(id))...); err != nil {
				t.Fatalf("insert at %q: %v", point, err)
			}
			w.truth[id] = row{spread(id), 1}
			if _, err := remove.ExecContext(t.Context(), id-1001); err != nil {
				t.Fatalf("delete at %q: %v", point, err)
			}
			delete(w.truth, id-1001)
			if point == "verify: noted" || point == "clean: done" {
				id++
				if _, err := late.ExecContext(t.Context(), values(id, 1, spread(id))...); err != nil {
					t.Fatalf("insert once before and at %q: %v", point, err)
				}
				w.truth[id] = row{spread(id), 1}
			}
			return nil
		}
		if err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		w.check("events")
	})
}

// TestTrapPreparedWhileTriggerWaits: statements are prepared while a trigger waits
// for its lock, and executed once the trigger exists.
func TestTrapPreparedWhileTriggerWaits(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(500)
		stop := w.load(6, 500)
		for range 5 {
			o := w.options()
			o.at = func(point string) error {
				if point == "triggers: done" {
					return errKilled
				}
				return nil
			}
			if err := Run(t.Context(), o); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			if err := Undo(t.Context(), w.options()); err != nil {
				t.Fatal(err)
			}
		}
		stop()
		w.check("events")
	})
}
