package adopt

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestPlan: the statements printed for an adoption, an undo or a finish are those then
// executed, and printing them changes nothing.
func TestPlan(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(300)
		w.exec("CREATE UNIQUE INDEX by_name ON events (name, ver, id)")
		had, o := w.tables(), w.options()
		statements, notes, err := Plan(t.Context(), o)
		all := w.planned(statements, err)
		w.wantTables(had...)
		for _, want := range []string{"events__rowmill_log", "CREATE TRIGGER", "INSERT", "p20260328", "events__rowmill_old", "DROP TRIGGER"} {
			if !strings.Contains(all, want) {
				t.Errorf("no %s in the plan:\n%s", want, all)
			}
		}
		if said := strings.Join(notes, "\n"); !strings.HasPrefix(said, "300 rows are copied into") || !strings.Contains(said, "no longer unique: PRIMARY KEY (id), UNIQUE (name, ver, id)") {
			t.Errorf("notes %q", notes)
		}
		if _, err := PlanFinish(t.Context(), o); err == nil {
			t.Error("there is nothing to finish")
		}
		o.at = killedAt("copy: noted")
		if err := Run(t.Context(), o); !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		if _, notes, err := Plan(t.Context(), o); err != nil || len(notes) != 1 || !strings.Contains(notes[0], "at step verify") {
			t.Errorf("under way: %q, %v", notes, err)
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
				if of == "events" && !Kept(w.change()) || undo == nil || err != nil && !strings.Contains(err.Error(), "views read the rolling table, which is to be dropped: mine") {
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
