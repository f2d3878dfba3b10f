package maintain

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// TestTrapOldTriggers: status and plan detect triggers of an earlier version, which
// used the time zone of the inserting session. The plan's statements replace them.
// After each of these statements, where a crash could happen, late rows are
// rejected and changes noted, and a new plan completes the rest.
func TestTrapOldTriggers(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, func(d *rolling.Declaration) {
			if zoneless(db) {
				def, err := rolling.ReadDefinition("CREATE TABLE readings (sensor INT NOT NULL, ts TIMESTAMP NOT NULL, value INT, PRIMARY KEY (sensor, ts))")
				if err != nil {
					t.Fatal(err)
				}
				d.Definition = def
			}
			d.Late, d.Exact = rolling.LateReject, true
			d.Seal.After = span(2 * time.Hour)
			d.Rollups = []rolling.Rollup{{Name: "hours", Every: grid(t, "1h"), Select: []rolling.Aggregate{{Name: "n", Func: "count"}}}}
		})
		w := applied(t, db, d, at(0.5))
		for hour := range 6 {
			w.now = at(float64(hour) + 0.5)
			w.keep()
			w.insert(w.now, 1, 2)
		}
		w.mustRun(w.mustPlan(nil)) // the state after apply
		if _, old := w.triggersOf(); old != "" {
			t.Fatalf("of new triggers, status says: %s", old)
		}

		most := 1 // on other servers all is one transaction
		if zoneless(db) {
			most = 20
		}
		for before := range most {
			w.earlier()
			plan, problem := w.triggersOf()
			if !strings.Contains(problem, lateTriggers) || !strings.Contains(problem, exactTriggers) {
				t.Errorf("status says of old triggers: %q", problem)
			}
			if len(plan) == 0 {
				t.Fatal("the plan replaces no triggers")
			}
			if before > len(plan) {
				break
			}
			for i, q := range plan[:before] {
				if _, err := db.SQL().ExecContext(t.Context(), q); err != nil {
					t.Fatalf("%s: %v", q, err)
				}
				w.guarded(fmt.Sprintf("after statement %d, %s", i+1, q), 100*before+i)
			}
			a, err := w.PlanApply(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			w.mustRun(a)
			if plan, problem := w.triggersOf(); len(plan) > 0 || problem != "" {
				t.Fatalf("broken off before statement %d, and applied again: %q is left, status says %q", before, plan, problem)
			}
			w.guarded("replaced", 100*before+99)
			w.foreignZone()
		}

		d.Exact = false
		a, err := w.PlanApply(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.mustRun(a)
		d.Exact = true
		if c, err := w.Rollups.TriggerChange(t.Context()); err != nil || c.Missing == 0 || c.Old > 0 {
			t.Errorf("without exact, %d triggers are gone and %d there, %v", c.Missing, c.Old, err)
		}
	})
}

// zoneless reports whether a server's earlier triggers used time zones, and whether
// each change of a trigger commits by itself.
func zoneless(db engine.Keeper) bool {
	return slices.Contains([]string{"mariadb", "mysql"}, db.Info().Engine)
}

// TestTriggersFound: the triggers of a table whose name has quotes, capitals and
// non-ASCII letters are recognized, so that nothing is left to apply.
func TestTriggersFound(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		for _, name := range []string{"Readings", "Zähler", "it's", `back\slash`} {
			d := declare(t, db, func(d *rolling.Declaration) {
				def, err := rolling.ReadDefinition(strings.Replace(create(db), " readings ", " "+db.Dialect().Quote(name)+" ", 1))
				if err != nil {
					t.Fatal(err)
				}
				d.Name, d.Definition, d.Late = name, def, rolling.LateReject
			})
			w := applied(t, db, d, at(0.5))
			w.mustPlan(nil)
			if _, problem := w.triggersOf(); problem != "" {
				t.Errorf("%s: status says: %s", name, problem)
			}
		}
	})
}

func (w *world) mustPlan(steps []string) *Application {
	w.t.Helper()
	a, err := w.PlanApply(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for _, s := range a.Steps {
		got = append(got, s.What)
	}
	if !slices.Equal(got, steps) {
		w.t.Fatalf("the plan is %q, want %q", got, steps)
	}
	return a
}

func (w *world) mustRun(a *Application) {
	w.t.Helper()
	if err := a.Run(w.t.Context(), func(ApplyStep) {}); err != nil {
		w.t.Fatal(err)
	}
}

// triggersOf returns the statements of a plan that change triggers, and the problem
// that status reports.
func (w *world) triggersOf() (plan []string, problem string) {
	w.t.Helper()
	a, err := w.PlanApply(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range a.Steps {
		if strings.Contains(s.What, "replace the triggers") {
			plan = append(plan, s.SQL...)
		}
	}
	s, err := w.Status(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range s.Problems {
		if p.Code == "triggers" {
			problem = p.Text
		}
	}
	return plan, problem
}

// earlier replaces the triggers with those of an earlier version.
func (w *world) earlier() {
	w.t.Helper()
	old := strings.NewReplacer(
		"CAST(UNIX_TIMESTAMP(NEW.`ts`) * 1000000 AS SIGNED)", "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', NEW.`ts`)",
		"CAST(UNIX_TIMESTAMP(OLD.`ts`) * 1000000 AS SIGNED)", "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', OLD.`ts`)",
		"MAX(sealed_to)", "MAX(sealed_to + 0)", "rowmill_touched (", "rowmill_touched  (")
	run := func(statements []string) {
		w.t.Helper()
		for _, q := range statements {
			if _, err := w.DB.SQL().ExecContext(w.t.Context(), old.Replace(q)); err != nil {
				w.t.Fatalf("%s: %v", old.Replace(q), err)
			}
		}
	}
	change := func() {
		w.t.Helper()
		late, err := w.lateChange(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		run(late.SQL)
		exact, err := w.Rollups.TriggerChange(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		run(exact.SQL)
	}
	w.Declared.Late, w.Declared.Exact = rolling.LateMerge, false
	change()
	w.Declared.Late, w.Declared.Exact = rolling.LateReject, true
	change()
}

// guarded inserts a row of a sealed period, which must be rejected, and a row of an
// unsealed period with a computed bucket, which must be noted.
func (w *world) guarded(when string, sensor int) {
	w.t.Helper()
	q := fmt.Sprintf("INSERT INTO readings (sensor, ts, value) VALUES (%d, %s, 1)", 1000+sensor, w.DB.Words().Literal(w.Table.Table, at(0.7)))
	if _, err := w.DB.SQL().ExecContext(w.t.Context(), q); err == nil || !strings.Contains(err.Error(), "sealed") {
		w.t.Errorf("%s: a row of a sealed period: %v", when, err)
	}
	if _, err := w.DB.SQL().ExecContext(w.t.Context(), "DELETE FROM rowmill_touched"); err != nil {
		w.t.Fatal(err)
	}
	w.insert(at(4.7), 1000+sensor)
	var n int
	if err := w.DB.SQL().QueryRowContext(w.t.Context(), "SELECT COUNT(*) FROM rowmill_touched").Scan(&n); err != nil || n == 0 {
		w.t.Errorf("%s: a late row has %d notes, %v", when, n, err)
	}
}

// foreignZone inserts a row of a sealed period from a session in another time zone,
// in which its text is a time of an unsealed period.
func (w *world) foreignZone() {
	w.t.Helper()
	if !zoneless(w.DB) {
		return
	}
	conn, err := w.DB.SQL().Conn(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(w.t.Context(), "SET SESSION time_zone = '+05:30'"); err != nil {
		w.t.Fatal(err)
	}
	text := rolling.Instant(at(0.7)).Add(330 * time.Minute).Format(time.DateTime)
	if _, err := conn.ExecContext(w.t.Context(), "INSERT INTO readings (sensor, ts, value) VALUES (7, '"+text+"', 1)"); err == nil || !strings.Contains(err.Error(), "sealed") {
		w.t.Errorf("a row of a sealed period, from a session in another time zone: %v", err)
	}
	if _, err := conn.ExecContext(w.t.Context(), "SET SESSION time_zone = '+00:00'"); err != nil {
		w.t.Fatal(err)
	}
}
