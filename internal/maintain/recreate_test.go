package maintain_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	. "github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/adopt"
	"github.com/rowmill/rowmill/internal/maintain/apply"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// levels declares two roll-ups, the second computed from the first.
func levels(t *testing.T) func(*rolling.Declaration) {
	return func(d *rolling.Declaration) {
		count := []rolling.Aggregate{{Name: "n", Func: "count"}}
		d.Keep = span(240 * time.Hour)
		d.Rollups = []rolling.Rollup{{Name: "by_half", Every: grid(t, "30m"), Select: count}, {Name: "by_six", From: "by_half", Every: grid(t, "6h"), Select: count}}
	}
}

// buckets lists the buckets of a roll-up as HOUR=ROWS.
func (w *world) buckets(from string) string {
	w.t.Helper()
	q := fmt.Sprintf("SELECT %s, n FROM %s r ORDER BY bucket", w.DB.Words().Position(w.Table.Table, "bucket"), from)
	rows, err := w.DB.SQL().QueryContext(w.t.Context(), q)
	must(w.t, err)
	defer rows.Close()
	var out []string
	for rows.Next() {
		var pos, n int64
		must(w.t, rows.Scan(&pos, &n))
		out = append(out, fmt.Sprintf("%g=%d", float64(pos-at(0))/3600e6, n))
	}
	must(w.t, rows.Err())
	return strings.Join(out, " ")
}

func (w *world) wantBuckets(when string, want map[string]string) {
	w.t.Helper()
	for from, want := range want {
		if got := w.buckets(from); got != want {
			w.t.Errorf("%s: %s has %s, want %s", when, from, got, want)
		}
	}
}

// If a table is dropped and created again, its buckets outlive its rows up to where the
// new table begins. Rows of the new table are counted as for any other table, including
// those in the range of the former one and those of writers that leave no notes.
func TestRollupsOfTableMadeAnew(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, levels(t))
		w := applied(t, db, d, at(7.2))
		w.insert(at(7.1), 1, 2)
		w.now = at(8.2)
		w.insert(at(7.6), 1, 2, 3)
		w.insert(at(8.1), 1, 2, 3, 4)
		w.now = at(8.7)
		w.keep()
		w.wantBuckets("before", map[string]string{"by_half": "7=2 7.5=3 8=4", "by_half_live": "7=2 7.5=3 8=4", "by_six_live": "6=9"})
		w.dropTable()

		now := at(8.8)
		anew := opened(t, db, d, now)
		plan := applyPlan(t, anew)
		for _, want := range []string{"roll-up by_half: buckets before 2026-03-28 08:00:00 are kept", "the former table", "roll-up by_six: buckets before 2026-03-28 06:00:00"} {
			if got := strings.Join(plan.Notes, "\n"); !strings.Contains(got, want) {
				t.Errorf("the plan doesn't say %q: %s", want, got)
			}
		}
		stopped, cancel := context.WithCancel(t.Context()) // before the table is created
		err := plan.Run(stopped, func(s apply.Step) {
			if strings.HasPrefix(s.What, "create table") {
				cancel()
			}
		})
		if err == nil {
			t.Error("apply was stopped and says nothing")
		}
		// If the former table is renamed back, its roll-ups are unchanged.
		w.wantBuckets("stopped", map[string]string{"by_half": "7=2 7.5=3 8=4"})
		w = applied(t, db, d, now)
		w.wantBuckets("made anew", map[string]string{"by_half": "7=2 7.5=3", "by_half_live": "7=2 7.5=3", "by_six_live": ""})
		w.insert(at(8.1), 9) // in a bucket of the former table, without a note
		w.insert(at(8.6), 7, 8)
		w.wantBuckets("with rows", map[string]string{"by_half_live": "7=2 7.5=3 8=1 8.5=2", "by_six_live": "6=3"})
		w.now = at(12.6)
		w.keep()
		w.wantBuckets("in the end", map[string]string{"by_half": "7=2 7.5=3 8=1 8.5=2", "by_half_live": "7=2 7.5=3 8=1 8.5=2", "by_six": "6=8", "by_six_live": "6=8"})
		for w.now = at(13.6); w.now < at(17); w.now += at(1) - at(0) {
			w.keep()
		}
		w.wantBuckets("sealed", map[string]string{"by_half": "7=2 7.5=3 8=1 8.5=2", "by_six": "6=8"})

		// A roll-up that was dropped too begins empty.
		w.dropTable()
		w.exec("DROP TABLE by_half")
		w = applied(t, db, d, at(20.2))
		w.insert(at(20.1), 1)
		w.now = at(21.2)
		w.keep()
		w.wantBuckets("dropped, too", map[string]string{"by_half": "20=1", "by_half_live": "20=1", "by_six": "6=8"})
	})
}

// threeBuckets returns a table whose finer roll-up has three buckets.
func threeBuckets(t *testing.T, db engine.Keeper) (*world, *rolling.Declaration) {
	d := declare(t, db, levels(t))
	w := applied(t, db, d, at(7.2))
	w.insert(at(7.1), 1, 2)
	w.insert(at(7.6), 1, 2, 3)
	w.now = at(8.7)
	w.insert(at(8.1), 1, 2, 3, 4)
	w.keep()
	return w, d
}

// Roll-ups whose buckets can't be continued under the current declaration are
// rejected before any of them is removed. Those that are not in the declaration are
// truncated like the others.
func TestTableMadeAnewKeepsRollups(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w, d := threeBuckets(t, db)
		was := map[string]string{"by_half": "7=2 7.5=3 8=4"}
		w.wantBuckets("before", was)
		w.dropTable()
		marks := func() (out string) {
			err := engine.Each(t.Context(), db, db.SQL(), func(r *sql.Rows) error {
				var name string
				var watermark, sealed, checked int64
				err := r.Scan(&name, &watermark, &sealed, &checked)
				out += fmt.Sprintln(name, watermark, sealed, checked)
				return err
			}, "SELECT name, watermark, sealed_to, checked_us FROM rowmill_rollups ORDER BY name")
			must(t, err)
			return out
		}
		before := marks()
		for what, change := range map[string]func(*rolling.Declaration){
			"its bucket is 30m":     func(d *rolling.Declaration) { d.Rollups[0].Every = grid(t, "1d"); d.Rollups = d.Rollups[:1] },
			"its source is by_half": func(d *rolling.Declaration) { d.Rollups[1].From = "" },
			"column n is count()": func(d *rolling.Declaration) {
				d.Rollups[0].Select[0] = rolling.Aggregate{Name: "n", Func: "sum", Column: "value"}
			},
			"its grouping is , and its": func(d *rolling.Declaration) { d.Rollups[0].By = []string{"sensor"} },
		} {
			other := declare(t, db, func(d *rolling.Declaration) { levels(t)(d); change(d) })
			plan, err := apply.PlanTable(t.Context(), opened(t, db, other, at(8.8)))
			var hint *engine.HintError
			if err == nil || !strings.Contains(err.Error(), what) || !errors.As(err, &hint) {
				t.Errorf("%q: %v", what, err)
			}
			if err == nil {
				_ = plan.Run(t.Context(), func(apply.Step) {})
			}
			w.wantBuckets(what, was)
		}
		if got := marks(); got != before {
			t.Errorf("marks were\n%sand are\n%s", before, got)
		}

		// A roll-up that is removed from the declaration and declared again later.
		applied(t, db, declare(t, db, func(d *rolling.Declaration) { levels(t)(d); d.Rollups = nil }), at(8.8))
		w = applied(t, db, d, at(8.9))
		w.wantBuckets("made anew", map[string]string{"by_half": "7=2 7.5=3", "by_half_live": "7=2 7.5=3"})
		w.insert(at(8.6), 7, 8)
		w.now = at(9.7)
		w.keep()
		w.wantBuckets("in the end", map[string]string{"by_half": "7=2 7.5=3 8.5=2", "by_half_live": "7=2 7.5=3 8.5=2"})
	})
}

// The records of a dropped table are removed in one step, just before the new table
// is created, even if its declaration is no longer stored.
func TestFormerTableIsForgottenAtOnce(t *testing.T) {
	onPoint(t, "detached", func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, func(d *rolling.Declaration) { levels(t)(d); d.Keep = span(time.Hour) })
		w := applied(t, db, d, at(5.2))
		w.insert(at(5.1), 1, 2)
		w.now = at(8.7)
		w.insert(at(8.1), 1, 2, 3, 4)
		w.killed("detached")
		changes, err := w.State.Changes(t.Context(), "readings")
		if err != nil || len(changes) != 1 || changes[0].Kind != string(Drop) {
			t.Fatalf("under way: %+v, %v", changes, err)
		}
		was := w.buckets("by_half")
		if !strings.HasPrefix(was, "5=2 ") {
			t.Fatalf("before: %s", was)
		}
		w.dropTable()
		if err := w.Undeclare(t.Context()); err != nil { // as apply --undo does
			t.Fatal(err)
		}

		plan := applyPlan(t, opened(t, db, d, at(8.8)))
		stopped, cancel := context.WithCancel(t.Context())
		defer cancel()
		err = plan.Run(stopped, func(s apply.Step) {
			if strings.HasPrefix(s.What, "create table") {
				cancel()
			}
		})
		if err == nil {
			t.Error("apply was stopped and says nothing")
		}
		w.wantBuckets("stopped", map[string]string{"by_half": was})

		w = applied(t, db, d, at(8.8))
		w.wantBuckets("made anew", map[string]string{"by_half": "5=2", "by_half_live": "5=2"})
		w.wantNoChanges()
		actions := w.actions()
		if said := fmt.Sprint(actions); !strings.Contains(said, "ended, the table was dropped; table rowmill_drop_readings_") {
			t.Errorf("the log doesn't name the table with the rows of the drop: %s", said)
		}
		w.insert(at(8.6), 7, 8)
		w.keep()
		w.wantParts("8-9 ")
		w.now = at(9.7)
		w.keep()
		w.wantBuckets("in the end", map[string]string{"by_half": "5=2 8.5=2", "by_half_live": "5=2 8.5=2"})
	})
}

// A plain table with the name of a dropped one is adopted although records of the
// dropped one exist. With another axis it is rejected before it is copied. Roll-ups
// and ledger start where its rows begin.
func TestAdoptInPlaceOfDroppedTable(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		change := func(d *rolling.Declaration) {
			text := "CREATE TABLE readings (sensor INT NOT NULL, ts BIGINT NOT NULL, value INT, PRIMARY KEY (sensor, ts))"
			def := defined(t, text)
			d.Definition, d.Epoch = def, time.Second
			levels(t)(d)
		}
		d := declare(t, db, change)
		w := applied(t, db, d, at(6.2))
		seconds := func(h float64, sensor int) {
			t.Helper()
			w.exec(fmt.Sprintf("INSERT INTO readings (sensor, ts) VALUES (%d, %d)", sensor, at(h)/1e6))
		}
		seconds(6.1, 1)
		seconds(6.1, 2)
		w.now = at(8.7)
		seconds(8.1, 1)
		w.keep()
		w.wantBuckets("before", map[string]string{"by_half": "6=2 8=1"})
		if known, err := w.State.Periods(t.Context(), "readings"); err != nil || len(known) == 0 {
			t.Fatalf("no period is sealed: %v, %v", known, err)
		}
		w.dropTable()
		w.exec("CREATE TABLE readings (sensor INT NOT NULL, ts BIGINT NOT NULL, value INT, PRIMARY KEY (sensor, ts))")
		seconds(7.6, 7)
		seconds(8.1, 7)
		seconds(8.2, 8)

		ms := declare(t, db, func(d *rolling.Declaration) { change(d); d.Epoch = time.Millisecond })
		_, err := apply.PlanTable(t.Context(), opened(t, db, ms, at(8.8)))
		if err == nil || !strings.Contains(err.Error(), "is a plain table now, and its roll-ups have buckets") || !strings.Contains(err.Error(), `epoch was "s" and is "ms"`) {
			t.Errorf("another unit: %v", err)
		}
		k := opened(t, db, d, at(8.8))
		plan, err := apply.PlanTable(t.Context(), k)
		if err != nil || !plan.Adopt {
			t.Fatalf("%+v, %v", plan, err)
		}
		if said := strings.Join(plan.Notes, "\n"); !strings.Contains(said, "is a plain table now") || !strings.Contains(said, "roll-up by_half: buckets before 2026-03-28 07:00:00 are kept") {
			t.Errorf("the plan says: %s", said)
		}
		o := adopt.Options{DB: db, State: k.State, Table: k.Table, Schema: k.Schema, Declared: d, Now: k.Now, Before: plan.Before, AllowDuplicates: true}
		must(t, adopt.Run(t.Context(), o))
		w = applied(t, db, d, at(8.8))
		want := map[string]string{"by_half": "6=2", "by_half_live": "6=2 7.5=1 8=2"}
		w.wantBuckets("adopted", want)
		if known, err := w.State.Periods(t.Context(), "readings"); err != nil || len(known) > 0 {
			t.Errorf("known of periods: %+v, %v", known, err)
		}
		w.now = at(9.7)
		w.keep()
		want["by_half"] = want["by_half_live"]
		w.wantBuckets("in the end", want)
		if err := opened(t, db, d, at(9.8)).CheckApplied(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Buckets that were stale when their table was dropped are kept, and the plan and
// the log warn that they may lack rows.
func TestTableMadeAnewSaysWhatIsUnfinished(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w, d := threeBuckets(t, db)
		for _, bucket := range []float64{7, 8} { // the last is the one before the watermark
			w.exec(fmt.Sprintf("INSERT INTO rowmill_stale (rollup_name, bucket) VALUES ('by_half', %d)", at(bucket)))
		}
		must(t, w.State.Touch(t.Context(), w.State.DB(), "readings", "a test", rolling.Period{From: at(7.6), To: at(7.7)}))
		w.dropTable()
		plan := applyPlan(t, opened(t, db, d, at(9.2)))
		w = applied(t, db, d, at(9.2))
		actions := w.actions()
		for where, text := range map[string]string{"plan": strings.Join(plan.Notes, "\n"), "log": fmt.Sprint(actions)} {
			for _, want := range []string{"computed up to 2026-03-28 08:00:00", "2 buckets were to be computed again, and 1 note of changed rows had not been taken in: buckets may lack rows"} {
				if !strings.Contains(text, want) {
					t.Errorf("the %s doesn't say %q: %s", where, want, text)
				}
			}
		}
		w.wantBuckets("made anew", map[string]string{"by_half": "7=2 7.5=3 8=4"})
	})
}

// Existing periods can't be read with another axis or another unit: apply fails
// before it changes anything.
func TestApplyRefusesAnotherAxis(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		counted := func(change func(*rolling.Declaration)) *rolling.Declaration {
			return declare(t, db, func(d *rolling.Declaration) {
				def := defined(t, "CREATE TABLE readings (sensor INT NOT NULL, ts BIGINT NOT NULL, value INT, PRIMARY KEY (sensor, ts))")
				d.Definition, d.Epoch = def, time.Second
				levels(t)(d)
				if change != nil {
					change(d)
				}
			})
		}
		ms := counted(func(d *rolling.Declaration) { d.Epoch = time.Millisecond })
		rows := counted(func(d *rolling.Declaration) {
			d.Epoch, d.Period, d.Rollups, d.Keep = 0, grid(t, "500000 rows"), nil, rolling.Span{}
			d.Ahead, d.Seal.After = grid(t, "500000 rows").Span(), grid(t, "500000 rows").Span()
		})
		w := applied(t, db, counted(nil), at(0.2))
		refused := func(when string, d *rolling.Declaration, want ...string) {
			t.Helper()
			plan, err := apply.PlanTable(t.Context(), opened(t, db, d, at(0.3)))
			if err == nil {
				t.Errorf("%s: it is planned: %+v", when, plan)
				return
			}
			var hint *engine.HintError
			if !errors.As(err, &hint) {
				t.Errorf("%s: no hint: %v", when, err)
			}
			for _, s := range want {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%s: it doesn't say %q: %v", when, s, err)
				}
			}
		}
		refused("another unit", ms, `epoch was "s"`, `is "ms"`)
		refused("another axis", rows, "1h", "500000 rows", "time", "sequence")
		if d, err := w.State.Declared(t.Context(), "readings"); err != nil || d.Revision != 1 {
			t.Errorf("declared: %+v, %v", d, err)
		}

		// A dropped table can be created again with another axis, but its roll-ups
		// can't.
		w.dropTable()
		refused("dropped, with roll-ups", ms, "by_half", `epoch was "s"`)
		w.exec("DROP TABLE by_half")
		w.exec("DROP TABLE by_six")
		w = applied(t, db, ms, at(0.3))
		part := w.parts()
		if !strings.HasPrefix(part, "0-1 ") {
			t.Errorf("made anew with %s", part)
		}
		w.dropTable()
		old := state.Period{Table: "readings", Partition: hourly(t, 0, 1)[0], State: state.Archived, Archive: "archive/p.parquet"}
		must(t, w.State.Put(t.Context(), w.State.DB(), old))
		w.exec("DROP TABLE by_half")
		w.exec("DROP TABLE by_six")
		refused("dropped, with archives", rows, "archive", "sequence")
	})
}
