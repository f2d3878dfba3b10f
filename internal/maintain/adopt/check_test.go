package adopt

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
)

// TestRunRefuses: tables that can't be adopted are refused before anything is
// changed.
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before []string // on the plain table
		key    string   // of the declaration
		change func(definition string) string
		kinds  []string
		want   string
	}{
		"rows share the new key": {key: "(ts)", want: "rows of the table may share it"},
		"key without the time":   {key: "(id)", want: "lacks ts, by which the table rolls"},
		"a foreign key": {before: []string{"CREATE TABLE other (event BIGINT, FOREIGN KEY (event) REFERENCES events (id))"},
			kinds: []string{"mariadb", "mysql", "postgres"}, want: "foreign keys"},
		"a trigger": {before: []string{"CREATE TRIGGER mine AFTER INSERT ON events BEGIN SELECT 1; END"}, kinds: []string{"sqlite"}, want: "triggers, which would stay with the old table: mine"},
		"a trigger of MySQL": {before: []string{"CREATE TRIGGER mine BEFORE INSERT ON events FOR EACH ROW SET NEW.ver = 1"},
			kinds: []string{"mariadb", "mysql"}, want: "triggers, which would stay with the old table: mine"},
		"a view": {before: []string{"CREATE VIEW mine AS SELECT id FROM events"}, kinds: []string{"postgres"}, want: "views would go on reading the old table: mine"},
		"a column of the declaration only": {change: func(d string) string { return strings.Replace(d, "ver BIGINT", "more INT, ver BIGINT", 1) },
			want: "column more is in the declaration only"},
		"a column of the table only": {change: func(d string) string { return strings.Replace(d, "name VARCHAR(40), ", "", 1) },
			want: "column name, which the declaration lacks"},
		"another type": {change: func(d string) string { return strings.Replace(d, "VARCHAR(40)", "VARCHAR(41)", 1) }, want: "column name is"},
		"another collation": {change: func(d string) string { return strings.Replace(d, "utf8mb4_bin", "utf8mb4_general_ci", 1) },
			kinds: []string{"mariadb", "mysql"}, want: "collation of column name is utf8mb4_bin"},
		"another collation of PostgreSQL": {change: func(d string) string { return strings.Replace(d, "VARCHAR(40)", `VARCHAR(40) COLLATE "en-x-icu"`, 1) },
			kinds: []string{"postgres"}, want: "collation of column name is the default in the table"},
		"a time that no period holds":    {before: []string{"INSERT INTO events (id, ts, ver) VALUES (77, '0001-01-01 00:00:00', 1)"}, want: "1 row has a ts that no period can hold"},
		"an instant in another spelling": {before: []string{"INSERT INTO events (id, ts, ver) VALUES (77, '2026-03-28 12:00:00.5', 1)"}, kinds: []string{"sqlite"}, want: "1 row has a ts that no period can hold"},
		"infinity":                       {before: []string{"INSERT INTO events (id, ts, ver) VALUES (77, 'infinity', 1)"}, kinds: []string{"postgres"}, want: "1 row has a ts that no period can hold"},
		"too many periods":               {before: []string{"INSERT INTO events (id, ts, ver) VALUES (77, '1900-01-01 00:00:00', 1)"}, want: "take a longer period"},
	} {
		t.Run(name, func(t *testing.T) {
			kinds := c.kinds
			if kinds == nil {
				kinds = servers
			}
			on(t, kinds, func(t *testing.T, w *world) {
				w.fill(50)
				for _, q := range c.before {
					w.exec(q)
				}
				key := c.key
				if key == "" {
					key = "(id, ts)"
				}
				text := definition(w.kind, key)
				if c.change != nil {
					text = c.change(text)
				}
				w.d = declareNow(text)
				had := w.tables()
				err := Run(t.Context(), w.options())
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("error %v, want %q", err, c.want)
				}
				if strings.HasPrefix(c.want, "collation of column") {
					// Detected by the server, in the objects created beside the
					// table.
					if err := Undo(t.Context(), w.options()); err != nil {
						t.Fatal(err)
					}
				}
				if got := w.tables(); !slices.Equal(got, had) || w.rolls() {
					t.Errorf("tables %v, had %v", got, had)
				}
			})
		})
	}
}

// TestTrapRowsOutsideEveryPeriod: a row inserted during the adoption with a time
// outside of every period makes no insert fail and isn't lost.
func TestTrapRowsOutsideEveryPeriod(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(800)
		o := w.options()
		done := false
		o.at = func(point string) error {
			if point == "copy: chunk" && !done {
				done = true
				w.exec("INSERT INTO events (id, ts, ver) VALUES (9001, '2199-01-01 00:00:00', 1), (9002, '1700-01-01 00:00:00', 1), (9003, '2198-01-01 00:00:00', 1)")
				w.exec("UPDATE events SET ts = '2199-01-01 00:00:00' WHERE id = 5")
				w.exec("UPDATE events SET ts = '2026-03-29 00:00:00' WHERE id = 9003")
			}
			return nil
		}
		if err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		var n, late int
		if err := w.db.SQL().QueryRow("SELECT COUNT(*) FROM events").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if err := w.db.SQL().QueryRow("SELECT COUNT(*) FROM events_late WHERE id IN (5, 9001, 9002) AND rowmill_reason LIKE 'outside%' AND rowmill_at_us > 0").Scan(&late); err != nil {
			t.Fatal(err)
		}
		if n != 800 || late != 3 {
			t.Errorf("%d rows and %d late ones, want 800 and 3", n, late)
		}
		if err := Finish(t.Context(), w.options()); err != nil {
			t.Fatal(err)
		}
		if got := w.tables(); !slices.Equal(got, []string{"events", "events_late"}) {
			t.Errorf("tables %v", got)
		}
	})
}

// TestVerifyRepairs: changes that fire no trigger are found by the comparison, and
// copied.
func TestVerifyRepairs(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(1200)
		o := w.options()
		o.at = func(point string) error {
			if point == "copy: noted" {
				into := "events__rowmill_new"
				if w.kind == "sqlite" {
					into = "events__rowmill_new_p20260329"
				}
				w.exec("DELETE FROM " + into + " WHERE id BETWEEN 100 AND 200")
				w.exec("UPDATE " + into + " SET v = 1 WHERE id BETWEEN 700 AND 800")
			}
			return nil
		}
		if err := Run(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		w.check("events")
	})
}

// TestTrapCounterGoesOn: generated keys continue from the previous counter, also if
// the rows with the highest keys were deleted.
func TestTrapCounterGoesOn(t *testing.T) {
	on(t, concurrent, func(t *testing.T, w *world) {
		w.fill(100)
		for range 50 {
			w.exec("INSERT INTO events (ts, ver) VALUES ('2026-03-29 00:00:00', 1)")
		}
		w.exec("DELETE FROM events WHERE id > 100")
		if err := Run(t.Context(), w.options()); err != nil {
			t.Fatal(err)
		}
		w.exec("INSERT INTO events (ts, ver) VALUES ('2026-03-29 00:00:00', 1)")
		var id int64
		if err := w.db.SQL().QueryRow("SELECT MAX(id) FROM events").Scan(&id); err != nil {
			t.Fatal(err)
		}
		if id != 151 {
			t.Errorf("the next row has id %d, want 151", id)
		}
	})
}

// TestTrapOpenTransaction: a transaction that has used the table delays the cut-over
// and is reported; inserts wait no longer than one attempt.
func TestTrapOpenTransaction(t *testing.T) {
	on(t, concurrent, func(t *testing.T, w *world) {
		w.fill(500)
		o := w.options()
		release := func() {}
		o.at = func(point string) error {
			if point == "verify: noted" {
				tx, err := w.users.Begin()
				if err != nil {
					return err
				}
				release = func() { _ = tx.Rollback() }
				var n int
				return tx.QueryRow("SELECT COUNT(*) FROM events").Scan(&n)
			}
			return nil
		}
		var blockers []engine.Blocker
		paused := 0
		o.Progress = func(p Progress) {
			if strings.Contains(p.Paused, "change the names waits for the lock") {
				blockers = append(blockers, p.Blockers...)
				if paused++; paused == 2 {
					release()
				}
			}
		}
		stop := w.load(2, 500)
		err := Run(t.Context(), o)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		w.check("events")
		if paused < 2 {
			t.Errorf("it was held up %d times", paused)
		}
		if len(blockers) == 0 || blockers[0].ID == 0 {
			t.Errorf("blockers %v", blockers)
		}
		t.Logf("the longest transaction %v", w.stall)
	})
}

// TestPlan: the plan changes nothing, and lists the statements that are then
// executed.
func TestPlan(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(300)
		had := w.tables()
		o := w.options()
		statements, notes, err := Plan(t.Context(), o.DB, o.State, o.Table, o.Schema, o.Declared)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.tables(); !slices.Equal(got, had) {
			t.Errorf("tables %v, had %v", got, had)
		}
		all := strings.Join(statements, ";\n")
		for _, want := range []string{"events__rowmill_log", "CREATE TRIGGER", "INSERT", "p20260328", "events__rowmill_old", "DROP TRIGGER"} {
			if !strings.Contains(all, want) {
				t.Errorf("no %s in the plan:\n%s", want, all)
			}
		}
		if len(notes) < 2 || !strings.Contains(notes[0], "300 rows are copied into") {
			t.Errorf("notes %q", notes)
		}
		o.at = func(point string) error {
			if point == "copy: noted" {
				return errKilled
			}
			return nil
		}
		if err := Run(t.Context(), o); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		if _, notes, err := Plan(context.Background(), o.DB, state.New(w.db), o.Table, o.Schema, o.Declared); err != nil || len(notes) != 1 || !strings.Contains(notes[0], "at step verify") {
			t.Errorf("under way: %q, %v", notes, err)
		}
	})
}
