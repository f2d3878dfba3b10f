package adopt

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// TestTrapRowsOutsideBeforeTheTriggers: a row outside of every period that is
// inserted after the check and before the triggers exist is not logged. It would only
// be in the old table, which is dropped.
func TestTrapRowsOutsideBeforeTheTriggers(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(700)
		o := w.options()
		o.at = func(p string) error {
			if p == "begun" {
				// Among the rows, before and after them.
				w.exec("UPDATE events SET ts = '" + inNone + "' WHERE id IN (1, 350)")
				w.exec("INSERT INTO events (id, ts, ver) VALUES (7777, '" + inNone + "', 1), (7778, '1700-01-01 00:00:00', 1)")
			}
			return nil
		}
		if err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if n, late := w.number("SELECT COUNT(*) FROM events"), w.number("SELECT COUNT(*) FROM events_late WHERE id IN (1, 350, 7777, 7778)"); n != 698 || late != 4 {
			t.Errorf("%d rows and %d late ones, want 698 and 4", n, late)
		}
		if n := w.number("SELECT COUNT(*) FROM events_late"); n != 4 {
			t.Errorf("%d late rows in all", n)
		}
		if err := Finish(t.Context(), w.options()); err != nil {
			t.Fatal(err)
		}
		if got := w.tables(); !slices.Equal(got, []string{"events", "events_late"}) {
			t.Errorf("tables %v", got)
		}
	})
}

// TestTrapNullInKey: SQLite permits NULL in a primary key, also in several rows. No
// chunk along the key contains such rows.
func TestTrapNullInKey(t *testing.T) {
	t.Parallel()
	const def = "CREATE TABLE events (id TEXT, ts DATETIME NOT NULL, ver BIGINT, PRIMARY KEY "
	plain := func(t *testing.T) *world {
		w := newWorld(t, "sqlite")
		w.exec("DROP TABLE events")
		w.exec(def + "(id))")
		w.exec("INSERT INTO events VALUES ('a', '" + inPeriod + "', 1)")
		w.d = declareNow(def + "(id, ts))")
		return w
	}
	t.Run("before", func(t *testing.T) {
		w := plain(t)
		w.exec("INSERT INTO events VALUES (NULL, '" + inPeriod + "', 1), (NULL, '" + inPeriod + "', 1)")
		err := Run(t.Context(), w.options())
		var hint *engine.HintError
		if err == nil || !strings.Contains(err.Error(), "2 rows have NULL in a column of the primary key") || !errors.As(err, &hint) || hint.Hint != `SELECT rowid, * FROM "events" WHERE "id" IS NULL` {
			t.Fatalf("error %v, to be tried %+v", err, hint)
		}
		if got := w.tables(); !slices.Equal(got, []string{"events"}) {
			t.Errorf("tables %v", got)
		}
	})
	t.Run("meanwhile", func(t *testing.T) {
		w := plain(t)
		o := w.options()
		o.at = func(p string) error {
			if p == "verify: noted" {
				w.exec("INSERT INTO events VALUES (NULL, '" + inPeriod + "', 1)")
			}
			return nil
		}
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "1 row has NULL in a column of the primary key") {
			t.Fatalf("error %v", err)
		}
		w.exec("DELETE FROM events WHERE id IS NULL")
		if err := Run(t.Context(), w.options()); err != nil || w.number("SELECT COUNT(*) FROM events") != 1 {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// TestTrapLogSortsAsTheTable: a text column may have another collation than the
// database. Rows ahead of the copy must be determined alike in the log and in the
// table.
func TestTrapLogSortsAsTheTable(t *testing.T) {
	on(t, concurrent, func(t *testing.T, w *world) {
		at, collate := "DATETIME", "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
		if w.kind == "postgres" {
			at, collate = "TIMESTAMP", `COLLATE "en-x-icu"`
		}
		w.exec("DROP TABLE events")
		def := "CREATE TABLE events (id VARCHAR(40) " + collate + " NOT NULL, ts " + at + " NOT NULL, ver INT, PRIMARY KEY "
		w.exec(def + "(id))")
		var rows []string
		for i := range 1500 {
			rows = append(rows, "('"+string("Aa"[i%2])+strings.Repeat("x", i%3)+strings.Repeat("y", i/3%20)+string(rune('a'+i/60))+"', '"+inPeriod+"', 1)")
		}
		verb, tail := "INSERT IGNORE INTO", "" // keys that differ only in case are equal
		if w.kind == "postgres" {
			verb, tail = "INSERT INTO", " ON CONFLICT DO NOTHING"
		}
		w.exec(verb + " events VALUES " + strings.Join(rows, ", ") + tail)
		w.d = declareNow(def + "(id, ts))")
		o := w.options()
		o.Chunk = 100
		chunks, differ := 0, int64(-1)
		o.at = func(p string) error {
			if p == "copy: chunk" {
				if chunks++; chunks == 3 {
					w.exec("UPDATE events SET ver = 2")
				}
			}
			if p == "copy: noted" {
				differ = w.differing("id")
			}
			return nil
		}
		if err := Run(t.Context(), o); err != nil || chunks < 5 || differ != 0 {
			t.Errorf("error %v; %d chunks, and %d rows differ when all are copied", err, chunks, differ)
		}
	})
}

// TestTrapEntriesLeftTooEarly: the entry of a row ahead of the copy may be left to
// the copy only after earlier entries are applied, such as that of the row that has
// given up its value of a second unique key.
func TestTrapEntriesLeftTooEarly(t *testing.T) {
	on(t, concurrent, func(t *testing.T, w *world) {
		w.fill(900)
		w.exec("UPDATE events SET ver = id, ts = '" + inPeriod + "'")
		w.exec("CREATE UNIQUE INDEX u ON events (ver)")
		w.d = declareNow(strings.Replace(definition(w.kind, "(id, ts)"), "PRIMARY KEY", "UNIQUE (ver, ts), PRIMARY KEY", 1))
		o := w.options()
		done := false
		o.at = func(p string) error {
			if p != "copy: chunk" || done {
				return nil
			}
			done = true
			w.exec("UPDATE events SET ver = 99999 WHERE id = 5")
			w.exec("UPDATE events SET ver = 5 WHERE id = 800")
			if w.kind == "postgres" {
				// As if the second entry had reused the space of a deleted one.
				w.exec("INSERT INTO events__rowmill_log (id, ts) SELECT id, ts FROM events WHERE id = 5")
				w.exec("DELETE FROM events__rowmill_log WHERE id = 5 AND ctid < (SELECT max(ctid) FROM events__rowmill_log)")
			}
			j, err := open(t.Context(), o)
			if err != nil {
				return err
			}
			m := j.forward()
			if err := errors.Join(m.readPeriods(t.Context()), m.leave(j.data.After, nil, m.Inside(""))); err != nil {
				return err
			}
			tx, err := w.db.SQL().BeginTx(t.Context(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
			if err != nil {
				return err
			}
			entries := 1
			if w.kind != "postgres" {
				entries = 2 // the row before and after
			}
			if _, err := m.sql.Replay(t.Context(), tx, entries, m.coming); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			if err := tx.Commit(); err != nil {
				return err
			}
			if n := w.number("SELECT COUNT(*) FROM events__rowmill_log WHERE id = 5"); n != 0 {
				t.Errorf("the entry of the row that gave the value up is still there %d times", n)
			}
			return nil
		}
		if err := Run(t.Context(), o); err != nil || !done {
			t.Errorf("error %v, done %v", err, done)
		}
	})
}

// TestTrapPeriodForLateRow: a period for a row outside of every period may be created
// while the table is adopted, or when an adoption resumes. The row then belongs to
// the rolling table, and is not a late row.
func TestTrapPeriodForLateRow(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"copy: chunk", "copy: noted"} {
		t.Run(point, func(t *testing.T) {
			onServers(t, func(t *testing.T, w *world) {
				w.fill(700)
				o := w.options()
				chunks := 0
				o.at = func(p string) error {
					if p == "begun" {
						w.exec("INSERT INTO events (id, ts, ver) VALUES (0, '2026-04-08 00:00:00', 1), (650, '2026-04-08 00:00:00', 1), (7777, '2026-04-08 00:00:00', 1), (7778, '" + inNone + "', 1)")
					}
					if p == "copy: chunk" {
						chunks++
					}
					if p == point && (chunks == 2 || p == "copy: noted") {
						return errKilled
					}
					return nil
				}
				w.exec("DELETE FROM events WHERE id = 650")
				if err := Run(t.Context(), o); !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
				if n := w.number("SELECT COUNT(*) FROM events_late"); n == 0 {
					t.Fatal("no row is late, so that nothing is tested")
				}
				o = w.options()
				now := o.Now
				o.Now = func(ctx context.Context) (int64, error) {
					pos, err := now(ctx)
					return pos + 6*86400e6, err
				}
				if err := Run(t.Context(), o); err != nil {
					t.Fatal(err)
				}
				if n, late := w.number("SELECT COUNT(*) FROM events WHERE id IN (0, 650, 7777)"), w.number("SELECT COUNT(*) FROM events_late"); n != 3 || late != 1 || w.number("SELECT COUNT(*) FROM events_late WHERE id = 7778") != 1 {
					t.Errorf("%d rows of the new period and %d late ones, want 3 and 1", n, late)
				}
			})
		})
	}
}
