package adopt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// number returns the number that a query returns.
func (w *world) number(q string) (n int64) {
	w.t.Helper()
	if err := w.db.SQL().QueryRow(q).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", q, err)
	}
	return n
}

// differing returns the number of rows that differ between the two tables.
func (w *world) differing(key string) int64 {
	w.t.Helper()
	return w.number("SELECT COUNT(*) FROM events o LEFT JOIN events__rowmill_new n ON n."+key+" = o."+key+" AND n.ts = o.ts AND n.ver = o.ver WHERE n.ver IS NULL") +
		w.number("SELECT COUNT(*) FROM events__rowmill_new n LEFT JOIN events o ON n."+key+" = o."+key+" AND n.ts = o.ts AND n.ver = o.ver WHERE o.ver IS NULL")
}

const inPeriod, inNone = "2026-03-29 00:00:00", "2199-01-01 00:00:00"

// TestTrapRowAheadOfTheCopyGoesStale: a row ahead of the copy leaves the periods and
// comes back. Its entry from the time outside is then applied, and must not copy the
// row, because later changes of it are left to the copy, which keeps existing rows.
func TestTrapRowAheadOfTheCopyGoesStale(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(1200)
		w.exec("INSERT INTO events (id, ts, ver) VALUES (1201, '" + inPeriod + "', 1)")
		o := w.options()
		chunks, differ := 0, int64(-1)
		o.at = func(p string) error {
			switch p {
			case "copy: chunk":
				switch chunks++; chunks {
				case 1:
					w.exec("UPDATE events SET ts = '" + inNone + "' WHERE id IN (1000, 1001, 1002)")
				case 2:
					w.exec("UPDATE events SET ts = '" + inPeriod + "', ver = 2 WHERE id IN (1000, 1001, 1002)")
				case 3:
					w.exec("UPDATE events SET ver = 3 WHERE id = 1000")
					w.exec("UPDATE events SET ts = '2026-03-30 00:00:00', ver = 3 WHERE id = 1001")
					w.exec("DELETE FROM events WHERE id = 1002")
				}
			case "copy: noted":
				differ = w.differing("id")
			}
			return nil
		}
		if err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if chunks < 4 || differ != 0 {
			t.Errorf("%d chunks, and %d rows differ when all are copied", chunks, differ)
		}
		if n := w.number("SELECT COUNT(*) FROM events WHERE id IN (1000, 1001, 1002) AND ver = 3"); n != 2 {
			t.Errorf("%d of the rows are there in the end, want 2", n)
		}
	})
}

// TestTrapRowAheadHoldsUniqueValue: such a row would keep its old value of a second
// unique key, which another row has since taken. Copying the chunk again could never
// resolve this.
func TestTrapRowAheadHoldsUniqueValue(t *testing.T) {
	on(t, concurrent, func(t *testing.T, w *world) {
		w.fill(6000)
		w.exec("UPDATE events SET ver = id, ts = '" + inPeriod + "'")
		w.exec("CREATE UNIQUE INDEX u ON events (ver)")
		w.d = declareNow(strings.Replace(definition(w.kind, "(id, ts)"), "PRIMARY KEY", "UNIQUE (ver, ts), PRIMARY KEY", 1))
		o := w.options()
		o.Chunk = 500
		chunks, differ := 0, int64(-1)
		o.at = func(p string) error {
			switch p {
			case "copy: chunk":
				switch chunks++; chunks {
				case 1:
					w.exec("UPDATE events SET ts = '" + inNone + "' WHERE id = 5900")
				case 2:
					w.exec("UPDATE events SET ts = '" + inPeriod + "' WHERE id = 5900")
				case 3:
					w.exec("UPDATE events SET ver = 99999 WHERE id = 5900")
					w.exec("UPDATE events SET ver = 5900 WHERE id = 3500")
				}
			case "copy: noted":
				differ = w.differing("id")
			}
			return nil
		}
		if err := Run(t.Context(), o); err != nil || chunks < 4 || differ != 0 {
			t.Errorf("error %v; %d chunks, and %d rows differ when all are copied", err, chunks, differ)
		}
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
		chunks, differ := 0, int64(-1)
		o.at = func(p string) error {
			if p == "copy: chunk" {
				if chunks++; chunks == 1 {
					w.exec("UPDATE events SET ver = 9 WHERE id >= 5200")
				}
			}
			if p == "copy: noted" {
				differ = w.differing("id")
			}
			return nil
		}
		if err := Run(t.Context(), o); err != nil || chunks < 2 || differ != 0 {
			t.Errorf("error %v; %d chunks, and %d rows differ when all are copied", err, chunks, differ)
		}
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
				if err := Run(t.Context(), w.options()); err != nil {
					t.Fatal(err)
				}
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
					if n := w.number("SELECT COUNT(*) FROM events__rowmill_old WHERE id = 7 AND ver = 2"); n != 1 {
						t.Errorf("the row that moved is %d times in the plain table", n)
					}
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
