package maintain_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	. "github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/apply"
	"github.com/rowmill/rowmill/internal/maintain/schedule"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// TestTrapOldTriggers: status and plan detect triggers of an earlier version or
// declaration. The plan's statements replace them. After each of these statements,
// where a crash could happen, late rows are rejected and changes noted, and a new plan
// completes the rest.
func TestTrapOldTriggers(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w, d := guardedTable(t, db, "")
		mustRun(t, w.mustPlan(nil)) // the state after apply
		if _, old := w.triggersOf(); old != "" {
			t.Fatalf("of new triggers, status says: %s", old)
		}

		most := 1 // on other servers all is one transaction
		if slices.Contains([]string{"mariadb", "mysql"}, db.Info().Engine) {
			most = 20
		}
		for before := range most {
			w.earlier()
			plan, problem := w.triggersOf()
			if !strings.Contains(problem, LateTriggersText) || !strings.Contains(problem, ExactTriggersText) {
				t.Errorf("status says of old triggers: %q", problem)
			}
			if len(plan) == 0 {
				t.Fatal("the plan replaces no triggers")
			}
			if before > len(plan) {
				break
			}
			for i, q := range plan[:before] {
				exec(t, db.SQL(), q)
				w.guarded(fmt.Sprintf("after statement %d, %s", i+1, q), 100*before+i)
			}
			mustRun(t, applyPlan(t, w.Table))
			if plan, problem := w.triggersOf(); len(plan) > 0 || problem != "" {
				t.Fatalf("broken off before statement %d, and applied again: %q is left, status says %q", before, plan, problem)
			}
			w.guarded("replaced", 100*before+99)
		}

		d.Exact = false
		mustRun(t, applyPlan(t, w.Table))
		d.Exact = true
		if c, err := w.Rollups.TriggerChange(t.Context()); err != nil || c.Missing == 0 || c.Old > 0 {
			t.Errorf("without exact, %d triggers are gone and %d there, %v", c.Missing, c.Old, err)
		}
	})
}

// guardedTable returns a table whose late rows are rejected, and whose other rows are
// noted for an exact roll-up; by is the type of its time. It is kept for six hours.
func guardedTable(t *testing.T, db engine.Keeper, by string) (*world, *rolling.Declaration) {
	d := declare(t, db, func(d *rolling.Declaration) {
		if by != "" {
			d.Definition = defined(t, "CREATE TABLE readings (sensor INT NOT NULL, ts "+by+" NOT NULL, value INT, PRIMARY KEY (sensor, ts))")
		}
		d.Late, d.Exact = rolling.LateReject, true
		d.Seal.After = span(2 * time.Hour)
		d.Rollups = counts(t, "hours")
	})
	w := applied(t, db, d, at(0.5))
	for hour := range 6 {
		w.now = at(float64(hour) + 0.5)
		w.keep()
		w.insert(w.now, 1, 2)
	}
	return w, d
}

// TestTriggersFound: the triggers of a table whose name has quotes, capitals and
// non-ASCII letters are recognized, so that nothing is left to apply.
func TestTriggersFound(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		for _, name := range []string{"Readings", "Zähler", "it's", `back\slash`} {
			d := declare(t, db, func(d *rolling.Declaration) {
				def := defined(t, strings.Replace(create(db), " readings ", " "+db.Dialect().Quote(name)+" ", 1))
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

func (w *world) mustPlan(steps []string) *apply.Plan {
	w.t.Helper()
	a := applyPlan(w.t, w.Table)
	var got []string
	for _, s := range a.Steps {
		got = append(got, s.What)
	}
	if !slices.Equal(got, steps) {
		w.t.Fatalf("the plan is %q, want %q", got, steps)
	}
	return a
}

// triggersOf returns the statements of a plan that change triggers, and the problem
// that status reports.
func (w *world) triggersOf() (plan []string, problem string) {
	w.t.Helper()
	a := applyPlan(w.t, w.Table)
	for _, s := range a.Steps {
		if strings.Contains(s.What, "replace the triggers") {
			plan = append(plan, s.SQL...)
		}
	}
	return plan, w.problem("triggers")
}

// earlier replaces the triggers with those of an earlier version.
func (w *world) earlier() {
	w.t.Helper()
	w.dropTriggers(true, true)
	late, err := w.LateChange(w.t.Context())
	must(w.t, err)
	exact, err := w.Rollups.TriggerChange(w.t.Context())
	must(w.t, err)
	old := strings.NewReplacer("MAX(sealed_to)", "MAX(sealed_to + 0)", "rowmill_touched (", "rowmill_touched  (")
	for _, q := range slices.Concat(late.SQL, exact.SQL) {
		w.exec(old.Replace(q))
	}
}

// guarded inserts a row of a sealed period, which must be rejected, and a row of an
// unsealed period with a computed bucket, which must be noted.
func (w *world) guarded(when string, sensor int) {
	w.t.Helper()
	q := fmt.Sprintf("INSERT INTO readings (sensor, ts, value) VALUES (%d, %s, 1)", 1000+sensor, w.DB.Words().Literal(w.Table.Table, at(0.7)))
	if _, err := w.DB.SQL().ExecContext(w.t.Context(), q); err == nil || !strings.Contains(err.Error(), "sealed") {
		w.t.Errorf("%s: a row of a sealed period: %v", when, err)
	}
	exec(w.t, w.DB.SQL(), "DELETE FROM rowmill_touched")
	w.insert(at(4.7), 1000+sensor)
	var n int
	if err := w.DB.SQL().QueryRowContext(w.t.Context(), "SELECT COUNT(*) FROM rowmill_touched").Scan(&n); err != nil || n == 0 {
		w.t.Errorf("%s: a late row has %d notes, %v", when, n, err)
	}
}

// TestTrapMissingTriggers: if declared triggers are missing, for example because an
// apply was killed before it created them, status reports a problem and rowmill run
// requests them. If triggers belong to periods, its first pass creates them.
func TestTrapMissingTriggers(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, func(d *rolling.Declaration) {
			d.Late, d.Exact, d.Source = rolling.LateReject, true, "readings.toml"
			d.Seal.After = span(2 * time.Hour)
			d.Rollups = counts(t, "hours")
		})
		w := applied(t, db, d, at(0.5))
		w.wantTriggers("as applied")
		for _, of := range []struct {
			name        string
			late, exact bool
		}{{LateTriggersText, true, false}, {ExactTriggersText, false, true}} {
			w.dropTriggers(of.late, of.exact)
			w.wantTriggers(of.name+" dropped", of.name)
			err := opened(t, db, d, at(1)).MissingTriggers(t.Context())
			if perPeriod := w.Schema.View; perPeriod {
				if err != nil {
					t.Error(err)
				}
				must(t, schedule.Once(t.Context(), opened(t, db, d, at(0.5))))
				w.wantTriggers("after a pass")
				w.dropTriggers(of.late, of.exact)
			} else if !errors.Is(err, ErrTriggers) || !strings.Contains(err.Error(), of.name+" are missing") {
				t.Errorf("%s dropped: %v", of.name, err)
			}
			mustRun(t, applyPlan(t, w.Table))
			w.wantTriggers("applied again")
			if err := opened(t, db, d, at(1)).MissingTriggers(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// dropTriggers drops the triggers that reject late rows, or those of exact roll-ups.
func (w *world) dropTriggers(late, exact bool) {
	w.t.Helper()
	reject := w.Declared.Late
	defer func() { w.Declared.Late, w.Declared.Exact = reject, true }()
	if late {
		w.Declared.Late = rolling.LateMerge
		c, err := w.LateChange(w.t.Context())
		must(w.t, err)
		w.execAll(c.SQL)
	}
	if exact {
		w.Declared.Exact = false
		c, err := w.Rollups.TriggerChange(w.t.Context())
		must(w.t, err)
		w.execAll(c.SQL)
	}
}

func (w *world) execAll(statements []string) {
	w.t.Helper()
	for _, q := range statements {
		w.exec(q)
	}
}

// wantTriggers compares the triggers that status reports.
func (w *world) wantTriggers(when string, missing ...string) {
	w.t.Helper()
	s := w.status()
	var got []string
	for _, p := range s.Problems {
		if p.Code == "triggers" {
			got = append(got, p.Text)
		}
	}
	switch {
	case len(missing) == 0 && len(got) > 0:
		w.t.Errorf("%s: status says %q", when, got)
	case len(missing) > 0 && (len(got) != 1 || !strings.Contains(got[0], strings.Join(missing, ", and ")+" are missing")):
		w.t.Errorf("%s: status says %q, want that they are missing: %q", when, got, missing)
	}
}

// TestLateReject: a row of a sealed period is rejected with a message that states
// the reason; a row of a period that is over but not sealed is accepted.
func TestLateReject(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, func(d *rolling.Declaration) {
			d.Late = rolling.LateReject
			d.Seal.After = span(time.Hour)
			d.Seal.Merge = grid(t, "2h")
		})
		w := applied(t, db, d, at(0.5))
		w.insert(w.now, 1, 2)
		for hour := 1; hour < 4; hour++ {
			w.now = at(float64(hour) + 0.5)
			w.keep()
			w.insert(w.now, 1, 2)
		}
		w.insert(at(2.6), 5) // over, not sealed
		q := fmt.Sprintf("INSERT INTO readings (sensor, ts, value) VALUES (9, %s, 1)", db.Words().Literal(w.Table.Table, at(1.7)))
		_, err := db.SQL().ExecContext(t.Context(), q)
		if err == nil || !strings.Contains(err.Error(), "sealed") {
			t.Errorf("a row of a sealed period: %v", err)
		}
		w.wantCount(9)
		d.Late = rolling.LateMerge
		mustRun(t, applyPlan(t, w.Table))
		w.insert(at(1.7), 9)
	})
}

// TestHostileNames: a table declared with capitals is kept on a server that stores
// names in lower case: created ahead, sealed, merged, rolled up, dropped.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql") {
		t.Run(kind, func(t *testing.T) {
			keepCapitals(t, testdb.Open(t, kind+"?set=lower_case_table_names=1").(engine.Keeper))
		})
	}
}

// TestHostileKeep: the same on servers whose defaults differ from all settings that
// sessions rely on.
func TestHostileKeep(t *testing.T) {
	testdb.SkipUnlessNightly(t, "engine/mysql and engine/postgres TestHostile")
	for _, kind := range []string{"mariadb", "mysql", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			keepCapitals(t, testdb.Open(t, testdb.Hostile(t, kind)).(engine.Keeper))
		})
	}
}

// keepCapitals keeps a table for twelve hours whose name, like that of its roll-up,
// contains capitals.
func keepCapitals(t *testing.T, db engine.Keeper) {
	d := declare(t, db, func(d *rolling.Declaration) {
		def := defined(t, strings.Replace(create(db), " readings ", " "+db.Dialect().Quote("MyReadings")+" ", 1))
		d.Name, d.Definition = "MyReadings", def
		keepsHalfDay(t, d)
		d.Exact = true
		d.Rollups = []rolling.Rollup{{Name: "MyHours", Every: grid(t, "1h"), By: []string{"sensor"},
			Select: []rolling.Aggregate{{Name: "n", Func: "count"}, {Name: "mean", Func: "avg", Column: "value"}}}}
	})
	w := applied(t, db, d, at(0.2))
	w.wantParts("0-1 1-2 2-3 3-4")
	w.halfDay()
	// Each of the 12 hours has three sensors; one of the first hours has another one.
	quote := db.Dialect().Quote
	var buckets, n int64
	var mean float64
	q := "SELECT COUNT(*), SUM(n), SUM(mean) FROM " + quote("MyHours")
	must(t, db.SQL().QueryRowContext(t.Context(), q).Scan(&buckets, &n, &mean))
	if want := 12.0*(7+14+21) + 77*7; buckets != 37 || n != 361 || mean != want {
		t.Errorf("the roll-up has %d buckets of %d rows, means that add up to %v; want 37, 361, %v", buckets, n, mean, want)
	}
	s := w.status()
	if len(s.Problems) > 0 {
		t.Errorf("problems %+v", s.Problems)
	}
}

// TestHostileWriters: rowmill's triggers and views run in the sessions of other
// programs. In a session with another time zone, a late row is still rejected or
// noted, and the live view is correct.
func TestHostileWriters(t *testing.T) {
	on(t, []string{"mariadb", "mysql", "postgres"}, func(t *testing.T, db engine.Keeper) {
		by := map[string]string{"postgres": "TIMESTAMPTZ"}[db.Info().Engine]
		w, _ := guardedTable(t, db, cmp.Or(by, "TIMESTAMP"))
		// Periods up to hour 3 are sealed.
		for i, zone := range []string{"+05:30", "-07:00"} {
			conn, err := db.SQL().Conn(t.Context())
			must(t, err)
			defer conn.Close()
			offset := map[string]time.Duration{"+05:30": 5*time.Hour + 30*time.Minute, "-07:00": -7 * time.Hour}[zone]
			settings := []string{"SET SESSION time_zone = '" + zone + "', sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES', div_precision_increment = 0"}
			back := "SET SESSION time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES', div_precision_increment = 4"
			if db.Info().Engine == "postgres" {
				settings = []string{"SET TIME ZONE INTERVAL '" + zone + "' HOUR TO MINUTE", "SET DateStyle = 'SQL, DMY'", "SET search_path = pg_catalog, public"}
				back = "SET TimeZone = 'UTC'; SET DateStyle = 'ISO, YMD'"
			}
			for _, q := range settings {
				exec(t, conn, q)
			}
			insert := func(hour float64) error {
				text := rolling.Instant(at(hour)).Add(offset).Format("2006-01-02 15:04:05")
				_, err := conn.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO readings (sensor, ts, value) VALUES (%d, '%s', 1)", 10+i, text))
				return err
			}
			for _, hour := range []float64{0.25, 2.75} {
				if err := insert(hour); err == nil || !strings.Contains(err.Error(), "sealed") {
					t.Errorf("%s: a row of %v h, which is sealed: %v", zone, hour, err)
				}
			}
			for _, hour := range []float64{3.75, 4.75, 5.75} {
				if err := insert(hour); err != nil {
					t.Errorf("%s: a row of %v h: %v", zone, hour, err)
				}
			}
			live := func(when string) {
				t.Helper()
				rows, err := conn.QueryContext(t.Context(), "SELECT h.n, (SELECT COUNT(*) FROM readings r WHERE r.ts >= h.bucket AND r.ts < h.bucket + INTERVAL '1' HOUR) FROM hours_live h")
				must(t, err)
				defer rows.Close()
				sum := int64(0)
				for rows.Next() {
					var n, raw int64
					must(t, rows.Scan(&n, &raw))
					if n != raw {
						t.Errorf("%s, %s: a bucket of %d rows has %d in the live view", zone, when, raw, n)
					}
					sum += n
				}
				must(t, rows.Err())
				if want := int64(12 + 3*(i+1)); sum != want {
					t.Errorf("%s, %s: the live view has %d rows, want %d", zone, when, sum, want)
				}
			}
			live("with late rows")
			w.keep()
			live("rolled up")
			exec(t, conn, back)
		}
	})
}
