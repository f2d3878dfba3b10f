package maintain_test

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	. "github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/apply"
	"github.com/rowmill/rowmill/internal/maintain/schedule"
	"github.com/rowmill/rowmill/rolling"
)

// TestFrom: apply creates the periods since the declaration's from, of a new table and of one that
// exists, as far as keep allows, and says how many.
func TestFrom(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		since := func(hours float64, keep time.Duration) *rolling.Declaration {
			return declare(t, db, func(d *rolling.Declaration) {
				d.From, d.Keep = rolling.Instant(at(hours)), span(keep)
			})
		}
		w := applied(t, db, since(-4.5, 12*time.Hour), at(0.2))
		w.wantParts("-5--4 -4--3 -3--2 -2--1 -1-0 0-1 1-2 2-3 3-4")
		w.insert(at(-4.9), 1)
		earlier := opened(t, db, since(-8, 12*time.Hour), w.now)
		plan := applyPlan(t, earlier)
		if got := fmt.Sprint(plan.Steps); !strings.Contains(got, "create 3 earlier periods") {
			t.Errorf("the plan is %s", got)
		}
		mustRun(t, plan)
		w.wantParts("-8--7 -7--6 -6--5 -5--4 -4--3 -3--2 -2--1 -1-0 0-1 1-2 2-3 3-4")
		if again := applyPlan(t, opened(t, db, since(-8, 12*time.Hour), w.now)); !again.Empty() {
			t.Errorf("the plan isn't empty: %v", again.Steps)
		}
		if _, err := apply.PlanTable(t.Context(), opened(t, db, since(-20, 12*time.Hour), w.now)); err == nil || !strings.Contains(err.Error(), "is older than keep = \"12h\" allows") {
			t.Errorf("older than keep: %v", err)
		}
		if _, err := apply.PlanTable(t.Context(), opened(t, db, since(-24*366*2, 0), w.now)); err == nil || !strings.Contains(err.Error(), "periods of 1h from") {
			t.Errorf("very many periods: %v", err)
		}
	})
}

// TestHistoryOfRollups: rows of created periods get into roll-ups, also below a watermark. Below
// what is sealed because rows were dropped, they would not, and no period is created.
func TestHistoryOfRollups(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		levels := func(d *rolling.Declaration) {
			d.Seal.After = span(time.Minute)
			count := []rolling.Aggregate{{Name: "n", Func: "count"}}
			d.Rollups = []rolling.Rollup{{Name: "readings_1h", Every: grid(t, "1h"), Select: count}, {Name: "readings_2h", From: "readings_1h", Every: grid(t, "2h"), Select: count}}
		}
		w := applied(t, db, declare(t, db, func(d *rolling.Declaration) { levels(d); d.Keep = span(6 * time.Hour) }), at(0.2))
		w.insert(at(0.3), 1, 2)
		w.now = at(3.5)
		w.keep()
		create := func(hour float64) error {
			t.Helper()
			c, err := w.Creatable(t.Context())
			must(t, err)
			p, err := c.For(w.partitions(), at(hour))
			if err == nil {
				must(t, w.CreatePeriods(t.Context(), []rolling.Partition{p}))
				must(t, w.CreatePeriods(t.Context(), []rolling.Partition{p})) // no error if it is there
			}
			return err
		}
		sums := func(want string) {
			t.Helper()
			w.keep()
			if got := fmt.Sprint(w.number("SELECT SUM(n) FROM readings_1h"), w.number("SELECT SUM(n) FROM readings_2h")); got != want {
				t.Errorf("the levels have %s rows, want %s", got, want)
			}
		}
		sums("2 2")
		must(t, create(-1.5))
		w.insert(at(-1.4), 1, 2, 3)
		must(t, w.InTx(t.Context(), func(x *sql.Tx) error {
			return w.State.Touch(t.Context(), x, "readings", "load", rolling.Period{From: at(-1.4), To: at(-1.4) + 1})
		}))
		sums("5 5")
		w.now = at(6.5) // the period at -2 is dropped
		sums("5 5")
		if got := w.parts(); strings.HasPrefix(got, "-2") {
			t.Errorf("it was not dropped: %s", got)
		}
		longer := opened(t, db, declare(t, db, func(d *rolling.Declaration) { levels(d); d.Keep = span(60 * time.Hour) }), w.now)
		mustRun(t, applyPlan(t, longer))
		if err := create(-3.5); err == nil || !strings.Contains(err.Error(), "up to where roll-ups are sealed") {
			t.Errorf("a period below what is sealed: %v; %s", err, w.parts())
		}
		must(t, create(-0.5))
	})
}

// TestCreateTogether: of two processes that create the same periods, and others that overlap them,
// none fails.
func TestCreateTogether(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, nil), at(0.2))
		var parts []rolling.Partition
		for i := range 12 {
			p, err := w.Table.Table.Grid.At(at(float64(-30 + i)))
			must(t, err)
			parts = append(parts, w.Table.Table.Grid.Named(p))
		}
		done := make(chan error)
		const processes = 3
		for range processes {
			other := opened(t, db, w.Declared, w.now)
			go func() {
				done <- engine.Retry{First: time.Millisecond, Last: time.Second, Until: time.Now().Add(time.Minute)}.Do(t.Context(), func() error { return other.CreatePeriods(t.Context(), parts) })
			}()
		}
		for range processes {
			must(t, <-done)
		}
		if got := w.partitions(); fmt.Sprint(got[:12]) != fmt.Sprint(parts) {
			t.Errorf("there are %v, want %v", got, parts)
		}
		wide := rolling.Partition{Name: "wide", Period: rolling.Period{From: parts[3].From, To: parts[5].To}}
		must(t, w.CreatePeriods(t.Context(), []rolling.Partition{wide}))
		w.wantParts("-30--29 ")
	})
}

// TestAheadOfLaterPeriods: a period far in the future, which a load has created, doesn't keep
// maintenance from creating those of the present and ahead of it.
func TestAheadOfLaterPeriods(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, nil), at(0.2))
		p, err := w.Table.Table.Grid.At(at(400))
		must(t, err)
		must(t, w.CreatePeriods(t.Context(), []rolling.Partition{w.Table.Table.Grid.Named(p)}))
		v, tasks, err := w.Plan(t.Context())
		must(t, err)
		if tasks[0].Kind != Create || tasks[0].Due != at(1) || tasks[0].Parts[0].From != at(4) {
			t.Errorf("next is %v; %v", tasks[0], v.Parts)
		}
		w.now = at(5.5)
		want := "no period covers the present: inserts fail"
		if _, keeps := db.(engine.Outsider); keeps {
			want = "no period covers the present: new rows are kept, and neither sealed nor archived"
		}
		if got := w.problem("headroom"); !strings.Contains(got, want) || strings.Contains(got, "clock") {
			t.Errorf("status: %q", got)
		}
		w.keep()
		w.wantParts("0-1 1-2 2-3 3-4 5-6 6-7 7-8 8-9 400-401")
		w.insert(at(5.5), 1)
		w.insert(at(8.5), 1)
		for _, code := range []string{"headroom", "gap"} {
			if got := w.problem(code); got != "" {
				t.Errorf("afterwards: %s", got)
			}
		}
	})
}

// TestCrowdedGap: if other programs have inserted many rows where periods are due, maintenance that
// ran too late makes them a period and goes on, also after a crash.
func TestCrowdedGap(t *testing.T) {
	on(t, []string{"mariadb", "mysql"}, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, nil), at(0.2))
		create := func(from float64) error {
			p, err := w.Table.Table.Grid.At(at(from))
			must(t, err)
			return w.CreatePeriods(t.Context(), []rolling.Partition{w.Table.Table.Grid.Named(p)})
		}
		must(t, create(400))
		w.insert(at(5), 1)
		w.insert(at(7.2), 1)
		w.insert(at(30), 1)
		const n = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 320) "
		_, err := db.SQL().ExecContext(t.Context(), "INSERT INTO readings (sensor, ts) "+n+"SELECT a.i * 1000 + b.i, "+db.Words().Literal(w.Table.Table, at(6.1))+" FROM n AS a, n AS b")
		must(t, err)
		rows := w.count()
		w.now = at(7.5)
		ctx, crash := context.WithCancel(t.Context())
		w.Reached = func(point string) {
			if point == "enclose begun" {
				crash()
			}
		}
		if err := schedule.Once(ctx, w.Table); err == nil {
			t.Fatal("it wasn't interrupted")
		}
		w.Reached = nil
		w.keep()
		w.wantParts("0-1 1-2 2-3 3-4 5-8 8-9 9-10 10-11 400-401")
		w.wantCount(rows)
		if n, err := db.(engine.Outsider).Outside(t.Context(), w.Table.Table); n != 1 || err != nil {
			t.Errorf("%d rows are outside of the periods: %v", n, err)
		}
		must(t, create(6)) // it is there
	})
}

// TestTriggersOfCreated: maintenance creates the triggers of a period whose loader was killed
// before it created them.
func TestTriggersOfCreated(t *testing.T) {
	on(t, []string{"sqlite"}, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, func(d *rolling.Declaration) { d.Late = rolling.LateReject }), at(0.2))
		w.keep() // its process goes on
		p, err := w.Table.Table.Grid.At(at(-3.5))
		must(t, err)
		must(t, enginetest.Try(t, db, engine.CreatePartitions{Table: w.Table.Table, Have: w.partitions(), New: []rolling.Partition{w.Table.Table.Grid.Named(p)}}))
		if missing, _, err := w.TriggerState(t.Context()); err != nil || len(missing) == 0 {
			t.Fatalf("no triggers are missing: %v", err)
		}
		_, err = w.Pass(t.Context(), Creating, nil, time.Time{})
		must(t, err)
		if missing, _, err := w.TriggerState(t.Context()); err != nil || len(missing) > 0 {
			t.Errorf("missing are %v, %v", missing, err)
		}
	})
}
