package adopt

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/testdb"
)

// rolls reports whether the table is a rolling table.
func (w *world) rolls() bool {
	w.t.Helper()
	s, err := w.db.Describe(context.Background(), "events")
	must(w.t, err)
	return s.Partitioned
}

// rowsVariable sets the number of rows of TestRun; docs/adopt.md uses 2000000.
const rowsVariable = "ROWMILL_ADOPT_ROWS"

// TestRun adopts a table under a load of inserts and some other changes: the rows are
// equal, no statement fails, and another call changes nothing. Finish removes what is
// left.
func TestRun(t *testing.T) {
	rows := int64(3000)
	if s := os.Getenv(rowsVariable); s != "" {
		n, err := strconv.ParseInt(s, 10, 64)
		must(t, err)
		rows = n
	} else if testdb.Nightly() {
		rows = 20000
	}
	onServers(t, func(t *testing.T, w *world) {
		if w.kind == "sqlite" && rows > 100000 {
			t.Skip("a file has one writer at a time")
		}
		w.fill(rows)
		w.changing = 0.05
		stop := w.load(4, rows)
		w.wrote(50)
		o := w.options()
		o.Chunk = 0
		steps := map[string]time.Duration{}
		stalls := map[string]time.Duration{}
		step, began := "", time.Now()
		count := 0
		o.Progress = func(p Progress) {
			if p.Step == step {
				return
			}
			w.mu.Lock()
			steps[step], stalls[step] = time.Since(began), w.stall
			step, began, w.stall = p.Step, time.Now(), 0
			if p.Step == stepCopy {
				count = w.count
			}
			w.mu.Unlock()
		}
		all := time.Now()
		must(t, Run(t.Context(), o))
		took := time.Since(all)
		w.wrote(50)
		stop()
		stalls[stepClean] = max(stalls[stepClean], w.stall)
		w.check("events")
		var d data
		must(t, w.change().Load(&d))
		t.Logf("%d rows in %v: copied in %v (%.0f rows/s), compared in %v (%.0f rows/s), %d chunks repaired; %d transactions of 4 writers meanwhile (%.0f/s), %d deadlocks among them",
			rows, took.Round(time.Millisecond), steps[stepCopy].Round(time.Millisecond), float64(rows)/steps[stepCopy].Seconds(), steps[stepVerify].Round(time.Millisecond), float64(rows)/steps[stepVerify].Seconds(),
			d.Repaired, w.count-count, float64(w.count-count)/took.Seconds(), w.deadlocks)
		t.Logf("checked in %v, triggers made in %v, names changed in %v, cleaned up in %v", steps[stepCheck].Round(time.Millisecond),
			steps[stepTriggers].Round(time.Millisecond), steps[stepSwap].Round(time.Millisecond), steps[stepClean].Round(time.Millisecond))
		t.Logf("the longest transaction of a writer: %v before, %v while triggers were made, %v while rows were copied, %v compared, %v while the names changed, %v after",
			max(stalls[""], stalls[stepCheck]).Round(time.Millisecond), stalls[stepTriggers].Round(time.Millisecond), stalls[stepCopy].Round(time.Millisecond),
			stalls[stepVerify].Round(time.Millisecond), stalls[stepSwap].Round(time.Millisecond), stalls[stepClean].Round(time.Millisecond))
		if d.Repaired > 0 {
			t.Errorf("%d chunks differed, though all that was written runs the triggers", d.Repaired)
		}
		w.wantTables("events", "events__rowmill_old")
		if err := Run(t.Context(), w.options()); err != nil || !w.rolls() {
			t.Errorf("again: %v", err)
		}
		must(t, Finish(t.Context(), w.options()))
		w.wantTables("events")
		if c := w.change(); c != nil {
			t.Errorf("under way: %v", c)
		}
	})
}

// TestPostponed: while the cut-over waits and writers go on, changes are applied, and the tables
// are compared again.
func TestPostponed(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(1000)
		stop := w.load(2, 1000)
		o := w.options()
		o.again = time.Millisecond
		asked, compared := 0, 0
		o.Postpone = func(context.Context) (string, error) {
			if asked++; asked < 4 {
				w.wrote(20)
				return "not yet", nil
			}
			return "", nil
		}
		o.Progress = func(p Progress) {
			if p.Step == stepSwap && p.Paused == "" && p.Rows > 0 {
				compared++
			}
		}
		must(t, Run(t.Context(), o))
		stop()
		w.check("events")
		if asked != 4 || compared < 2 && !o.DB.Capabilities().SerialWrites {
			t.Errorf("asked %d times, compared %d chunks again", asked, compared)
		}
	})
}

// TestTrapPreparedStatements: statements prepared before the cut-over continue to
// work.
func TestTrapPreparedStatements(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(500)
		conn, err := w.users.Conn(t.Context())
		must(t, err)
		defer conn.Close()
		insert, err := conn.PrepareContext(t.Context(), w.db.Bind(insertSQL+"(?, ?, ?, ?, ?, ?, ?)"))
		must(t, err)
		defer insert.Close()
		remove, err := conn.PrepareContext(t.Context(), w.db.Bind("DELETE FROM events WHERE id = ?"))
		must(t, err)
		defer remove.Close()
		o := w.options()
		late, err := conn.PrepareContext(t.Context(), w.db.Bind(insertSQL+"(?, ?, ?, ?, ?, ?, ?)")) // executed once before and once after
		must(t, err)
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
		must(t, Run(t.Context(), o))
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
			o.at = killedAt("triggers: done")
			if err := Run(t.Context(), o); !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			must(t, Undo(t.Context(), w.options()))
		}
		stop()
		w.check("events")
	})
}

// TestPlan: the statements printed for an adoption, an undo or a finish are those then
// executed, and printing them changes nothing.
func TestPlan(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(300)
		w.exec("CREATE UNIQUE INDEX by_name ON events (name, ver, id)")
		had, o := w.tables(), w.options()
		plan, err := Plan(t.Context(), o)
		must(t, err)
		all := w.planned(plan.Statements, nil)
		w.wantTables(had...)
		for _, want := range []string{"events__rowmill_log", "CREATE TRIGGER", "INSERT", "p20260328", "events__rowmill_old", "DROP TRIGGER"} {
			if !strings.Contains(all, want) {
				t.Errorf("no %s in the plan:\n%s", want, all)
			}
		}
		if said := strings.Join(plan.Notes, "\n"); !strings.HasPrefix(said, "300 rows are copied into") || !strings.Contains(said, "no longer unique: PRIMARY KEY (id), UNIQUE (name, ver, id)") {
			t.Errorf("notes %q", plan.Notes)
		}
		if _, err := PlanFinish(t.Context(), o); err == nil {
			t.Error("there is nothing to finish")
		}
		o.at = killedAt("copy: noted")
		if err := Run(t.Context(), o); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		if plan, err := Plan(t.Context(), o); err != nil || len(plan.Notes) != 1 || !strings.Contains(plan.Notes[0], "at step verify") {
			t.Errorf("under way: %+v, %v", plan, err)
		}
		before := w.tables()
		cancel := w.planned(PlanUndo(t.Context(), w.options()))
		if !strings.Contains(cancel, "events__rowmill_new") || strings.Contains(cancel, "RENAME") {
			t.Errorf("before the names change:\n%s", cancel)
		}
		if _, err := PlanFinish(t.Context(), w.options()); err == nil {
			t.Error("it can't be finished yet")
		}
		must(t, Run(t.Context(), w.options()))
		if slices.Equal(before, w.tables()) {
			t.Fatal("the adoption has changed nothing")
		}
		// A view of a user that reads the rolling table prevents its removal.
		view := func(of string) {
			if w.kind != "postgres" {
				return
			}
			w.exec("CREATE VIEW mine AS SELECT id FROM " + of)
			_, err := PlanUndo(t.Context(), w.options())
			undo := Undo(t.Context(), w.options())
			for _, err := range []error{err, undo} {
				if of == "events" && (err == nil || !Kept(w.change())) || undo == nil || err != nil && !strings.Contains(err.Error(), "view mine would stay with events__rowmill_new") {
					t.Errorf("with a view of %s: %v", of, err)
				}
			}
			w.exec("DROP VIEW mine")
		}
		view("events")
		before = w.tables()
		finish := w.planned(PlanFinish(t.Context(), w.options()))
		if got := strings.Count(finish, "DROP TABLE"); got != 1 || !strings.Contains(finish, "events__rowmill_old") {
			t.Errorf("the end:\n%s", finish)
		}
		undo := w.planned(PlanUndo(t.Context(), w.options()))
		for _, want := range []string{"RENAME", "events__rowmill_old", "events__rowmill_new"} {
			if !strings.Contains(undo, want) {
				t.Errorf("the way back has no %s:\n%s", want, undo)
			}
		}
		if got := w.tables(); !slices.Equal(got, before) || !w.rolls() {
			t.Errorf("planning made %v of %v", got, before)
		}
		if c := w.change(); !Kept(c) {
			t.Errorf("the adoption is at %+v", c)
		}
		w.check("events")
		// Halfway through an undo, only the rest is planned.
		o = w.options()
		o.at = killedAt("back-swap: noted")
		if err := Undo(t.Context(), o); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		rest := w.planned(PlanUndo(t.Context(), w.options()))
		if strings.Contains(rest, "RENAME") || !strings.Contains(rest, "events__rowmill_new") {
			t.Errorf("the rest of the way back:\n%s", rest)
		}
		view("events__rowmill_new")
		must(t, Undo(t.Context(), w.options()))
		w.check("events")
	})
}

func (w *world) planned(statements []string, err error) string {
	w.t.Helper()
	must(w.t, err)
	return strings.Join(statements, "\n")
}
