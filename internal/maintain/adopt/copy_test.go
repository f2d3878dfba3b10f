package adopt

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// number returns the number that a query returns.
func (w *world) number(q string) (n int64) {
	w.t.Helper()
	if err := w.db.SQL().QueryRow(q).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", q, err)
	}
	return n
}

// wantNumber checks the number that a query returns.
func (w *world) wantNumber(want int64, q string) {
	w.t.Helper()
	if got := w.number(q); got != want {
		w.t.Errorf("%s: %d, want %d", q, got, want)
	}
}

// wantTables checks which tables and views there are.
func (w *world) wantTables(want ...string) {
	w.t.Helper()
	if got := w.tables(); !slices.Equal(got, want) {
		w.t.Errorf("tables %v, want %v", got, want)
	}
}

// differing returns the number of rows that differ between the two tables.
func (w *world) differing(key string) int64 {
	w.t.Helper()
	return w.number("SELECT COUNT(*) FROM events o LEFT JOIN events__rowmill_new n ON n."+key+" = o."+key+" AND n.ts = o.ts AND n.ver = o.ver WHERE n.ver IS NULL") +
		w.number("SELECT COUNT(*) FROM events__rowmill_new n LEFT JOIN events o ON n."+key+" = o."+key+" AND n.ts = o.ts AND n.ver = o.ver WHERE o.ver IS NULL")
}

// whileCopying adopts the table and calls fn after each chunk, with its number. When
// all of the chunks, which are at least so many, are copied, both tables are equal.
func (w *world) whileCopying(o Options, least int, fn func(chunk int)) {
	w.t.Helper()
	chunks, differ := 0, int64(-1)
	o.at = func(p string) error {
		switch p {
		case "copy: chunk":
			chunks++
			fn(chunks)
		case "copy: noted":
			differ = w.differing("id")
		}
		return nil
	}
	if err := Run(context.Background(), o); err != nil || chunks < least || differ != 0 {
		w.t.Errorf("error %v; %d chunks, and %d rows differ when all are copied", err, chunks, differ)
	}
}

// uniqueVersions gives the table a second unique key.
func (w *world) uniqueVersions() {
	w.exec("UPDATE events SET ver = id, ts = '" + inPeriod + "'")
	w.exec("CREATE UNIQUE INDEX u ON events (ver)")
	w.d = declareNow(strings.Replace(definition(w.kind, "(id, ts)"), "PRIMARY KEY", "UNIQUE (ver, ts), PRIMARY KEY", 1))
}

const inPeriod, inNone = "2026-03-29 00:00:00", "2199-01-01 00:00:00"

// TestTrapRowAheadOfTheCopyGoesStale: a row ahead of the copy leaves the periods and
// comes back. Its entry from the time outside is then applied, and must not copy the
// row, because later changes of it are left to the copy, which keeps existing rows.
func TestTrapRowAheadOfTheCopyGoesStale(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(1200)
		w.exec("INSERT INTO events (id, ts, ver) VALUES (1201, '" + inPeriod + "', 1)")
		w.whileCopying(w.options(), 4, func(chunk int) {
			switch chunk {
			case 1:
				w.exec("UPDATE events SET ts = '" + inNone + "' WHERE id IN (1000, 1001, 1002)")
			case 2:
				w.exec("UPDATE events SET ts = '" + inPeriod + "', ver = 2 WHERE id IN (1000, 1001, 1002)")
			case 3:
				w.exec("UPDATE events SET ver = 3 WHERE id = 1000")
				w.exec("UPDATE events SET ts = '2026-03-30 00:00:00', ver = 3 WHERE id = 1001")
				w.exec("DELETE FROM events WHERE id = 1002")
			}
		})
		w.wantNumber(2, "SELECT COUNT(*) FROM events WHERE id IN (1000, 1001, 1002) AND ver = 3")
	})
}

// TestTrapRowAheadHoldsUniqueValue: such a row would keep its old value of a second
// unique key, which another row has since taken. Copying the chunk again could never
// resolve this.
func TestTrapRowAheadHoldsUniqueValue(t *testing.T) {
	on(t, concurrent, func(t *testing.T, w *world) {
		w.fill(6000)
		w.uniqueVersions()
		o := w.options()
		o.Chunk = 500
		w.whileCopying(o, 4, func(chunk int) {
			switch chunk {
			case 1:
				w.exec("UPDATE events SET ts = '" + inNone + "' WHERE id = 5900")
			case 2:
				w.exec("UPDATE events SET ts = '" + inPeriod + "' WHERE id = 5900")
			case 3:
				w.exec("UPDATE events SET ver = 99999 WHERE id = 5900")
				w.exec("UPDATE events SET ver = 5900 WHERE id = 3500")
			}
		})
	})
}

// TestTrapCopyEndedBehindItsLastChunk: a copy interrupted after its last chunk has
// applied changes of rows beyond the key that it recorded. When it resumes, these
// changes must not be left to the copy, which keeps existing rows.
func TestTrapCopyEndedBehindItsLastChunk(t *testing.T) {
	on(t, concurrent, func(t *testing.T, w *world) {
		w.fill(600)
		add := func(from, n int) {
			for id := from; id < from+n; id++ {
				w.exec(fmt.Sprintf("INSERT INTO events (id, ts, ver) VALUES (%d, '%s', 1)", id, inPeriod))
			}
		}
		o := w.options()
		chunks := 0
		o.at = func(p string) error {
			if p == "copy: done" {
				return errKilled
			}
			if p == "copy: chunk" {
				// The last round, which is bounded, and after it.
				if chunks++; chunks >= 2 && chunks <= 4 {
					add(2000+chunks, 1)
				} else if chunks == 5 {
					add(5000, 400)
				}
			}
			return nil
		}
		if err := Run(t.Context(), o); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		if n := w.number("SELECT MAX(id) FROM events__rowmill_new"); n != 5399 {
			t.Fatalf("the last row there is %d, so that nothing is tested", n)
		}
		o = w.options()
		o.Chunk = 100
		w.whileCopying(o, 2, func(chunk int) {
			if chunk == 1 {
				w.exec("UPDATE events SET ver = 9 WHERE id >= 5200")
			}
		})
	})
}

// TestTrapEntriesInAnyOrder: PostgreSQL returns the log's entries in no particular
// order, so the two entries of a moved row may be applied in separate batches, in
// either order. Neither may remove the row that the other has copied.
func TestTrapEntriesInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, last := range []bool{false, true} {
		t.Run(fmt.Sprintf("last first %v", last), func(t *testing.T) {
			on(t, concurrent, func(t *testing.T, w *world) {
				w.fill(50)
				must(t, Run(t.Context(), w.options()))
				o := w.options()
				moved := false
				o.at = func(p string) error {
					if p != "back: noted" {
						return nil
					}
					moved = true
					w.exec("UPDATE events SET ts = '2026-03-30 11:00:00', ver = 2 WHERE id = 7")
					j, err := open(t.Context(), o)
					if err != nil {
						return err
					}
					m := j.back()
					ops := []string{"<>", "="}
					if last {
						slices.Reverse(ops)
					}
					// Each alone in the log, one after the other.
					second := " WHERE ts " + ops[1] + " '2026-03-30 11:00:00'"
					w.exec("CREATE TABLE kept AS SELECT id, ts FROM events__rowmill_log" + second)
					w.exec("DELETE FROM events__rowmill_log" + second)
					for i := range ops {
						if i == 1 {
							w.exec("INSERT INTO events__rowmill_log (id, ts) SELECT id, ts FROM kept")
						}
						if n, err := m.replayOnce(t.Context()); err != nil || n != 1 {
							return fmt.Errorf("%d entries repeated: %w", n, err)
						}
					}
					w.wantNumber(1, "SELECT COUNT(*) FROM events__rowmill_old WHERE id = 7 AND ver = 2")
					w.exec("DROP TABLE kept")
					return nil
				}
				if err := Undo(t.Context(), o); err != nil || !moved {
					t.Fatalf("error %v, moved %v", err, moved)
				}
			})
		})
	}
}

// TestTrapRowsOutsideEveryPeriod: a row with a time outside of every period that is
// inserted while rows are copied makes no insert fail and isn't lost. One that comes
// after the check and before the triggers exist is not logged: it would only be in the
// old table, which is dropped.
func TestTrapRowsOutsideEveryPeriod(t *testing.T) {
	t.Parallel()
	for point, c := range map[string]struct {
		rows, late int64
		ids        string // of the late rows
		writes     []string
	}{
		"copy: chunk": {800, 3, "5, 9001, 9002", []string{
			"INSERT INTO events (id, ts, ver) VALUES (9001, '2199-01-01 00:00:00', 1), (9002, '1700-01-01 00:00:00', 1), (9003, '2198-01-01 00:00:00', 1)",
			"UPDATE events SET ts = '2199-01-01 00:00:00' WHERE id = 5",
			"UPDATE events SET ts = '2026-03-29 00:00:00' WHERE id = 9003"}},
		"begun": {798, 4, "1, 350, 7777, 7778", []string{ // among the rows, before and after them
			"UPDATE events SET ts = '" + inNone + "' WHERE id IN (1, 350)",
			"INSERT INTO events (id, ts, ver) VALUES (7777, '" + inNone + "', 1), (7778, '1700-01-01 00:00:00', 1)"}},
	} {
		t.Run(point, func(t *testing.T) {
			onServers(t, func(t *testing.T, w *world) {
				w.fill(800)
				o, writes := w.options(), c.writes
				o.at = func(p string) error {
					if p == point {
						for _, q := range writes {
							w.exec(q)
						}
						writes = nil
					}
					return nil
				}
				must(t, Run(t.Context(), o))
				w.wantNumber(c.rows, "SELECT COUNT(*) FROM events")
				w.wantNumber(c.late, "SELECT COUNT(*) FROM events_late WHERE id IN ("+c.ids+") AND rowmill_reason LIKE 'outside%' AND rowmill_at_us > 0")
				w.wantNumber(c.late, "SELECT COUNT(*) FROM events_late")
				must(t, Finish(t.Context(), w.options()))
				w.wantTables("events", "events_late")
			})
		})
	}
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
		w.wantTables("events")
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
		w.whileCopying(o, 5, func(chunk int) {
			if chunk == 3 {
				w.exec("UPDATE events SET ver = 2")
			}
		})
	})
}

// TestTrapEntriesLeftTooEarly: the entry of a row ahead of the copy may be left to
// the copy only after earlier entries are applied, such as that of the row that has
// given up its value of a second unique key.
func TestTrapEntriesLeftTooEarly(t *testing.T) {
	on(t, concurrent, func(t *testing.T, w *world) {
		w.fill(900)
		w.uniqueVersions()
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
			w.wantNumber(0, "SELECT COUNT(*) FROM events__rowmill_log WHERE id = 5")
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
				must(t, Run(t.Context(), o))
				w.wantNumber(3, "SELECT COUNT(*) FROM events WHERE id IN (0, 650, 7777)")
				w.wantNumber(1, "SELECT COUNT(*) FROM events_late")
				w.wantNumber(1, "SELECT COUNT(*) FROM events_late WHERE id = 7778")
			})
		})
	}
}
