package maintain_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	. "github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/apply"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// partition returns a definition of a partition of the tests' table by hand, from and up to an hour
// of the tests' day; up to the end of time if to is 0, or by default if it is negative.
func partition(db engine.Keeper, name string, from, to float64) string {
	hour := func(n float64) string { return fmt.Sprintf("'%s'", time.UnixMicro(at(n)).UTC().Format(time.DateTime)) }
	end := "MAXVALUE"
	if to > 0 {
		end = hour(to)
	}
	switch {
	case db.Info().Engine != "postgres":
		return fmt.Sprintf("ALTER TABLE readings ADD PARTITION (PARTITION %s VALUES LESS THAN (%s))", name, end)
	case to < 0:
		return "CREATE TABLE " + name + " PARTITION OF readings DEFAULT"
	}
	return fmt.Sprintf("CREATE TABLE %s PARTITION OF readings FOR VALUES FROM (%s) TO (%s)", name, hour(from), end)
}

// TestTakeover: apply takes over a table whose partitions rowmill run can keep. Others are refused
// with the statements that mend them, after which the table is taken over with all of its rows.
func TestTakeover(t *testing.T) {
	const year = 24 * 365
	for name, c := range map[string]struct {
		parts []float64 // the ends of its partitions, the first of which begins at hour 0
		want  string    // of the refusal
	}{
		"periods as declared":       {[]float64{1, 2, 3, 4, 5}, ""},
		"longer ones that are over": {[]float64{3, 4, 5}, ""},
		"without end":               {[]float64{1, 2, 0}, ""},
		"one without end":           {[]float64{0}, ""},
		"a year":                    {[]float64{1, year}, "partition p1 ends at 2027-"},
		"one of a year":             {[]float64{year}, "partition p0 ends at 2027-"},
		"far ahead":                 {[]float64{1, 2, 3, 4, 90, 91}, "partition p4 ends at "},
		"by default":                {[]float64{1, 2, 3, 4, 5, -1}, ""},
		"rows by default":           {[]float64{1, 2, -1}, ""},
	} {
		for _, kind := range append(testdb.Kinds(t, "mariadb", "mysql"), testdb.Kinds(t, "postgres")...) {
			if kind != "postgres" && slices.Contains(c.parts, -1) {
				continue
			}
			t.Run(strings.ReplaceAll(name, " ", "_")+"/"+kind, func(t *testing.T) {
				t.Parallel()
				db := testdb.Open(t, kind).(engine.Keeper)
				d := declare(t, db, nil)
				q := create(db) + " PARTITION BY RANGE"
				if kind == "postgres" {
					exec(t, db.SQL(), q+" (ts)")
				} else {
					exec(t, db.SQL(), q+" COLUMNS (ts) (PARTITION old VALUES LESS THAN ('2000-01-01'))")
				}
				from := 0.0
				for i, to := range c.parts {
					exec(t, db.SQL(), partition(db, fmt.Sprintf("p%d", i), from, to))
					from = to
				}
				if kind != "postgres" && (len(c.parts) == 1) {
					exec(t, db.SQL(), "ALTER TABLE readings DROP PARTITION old")
				}
				w := &world{t: t, now: at(3.6), Table: opened(t, db, d, at(3.6))}
				for hour := range 4 {
					w.insert(at(float64(hour)+0.5), 1, 2)
				}
				a, err := apply.PlanTable(t.Context(), w.Table)
				if c.want != "" && (err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), `"`, ""), c.want)) {
					t.Fatalf("planned: %v", err)
				}
				for range 3 { // what is mended may be the next one's lower bound
					if c.want == "" || err == nil {
						break
					}
					mend, _, _ := strings.Cut(engine.HintOf(err), ", at a time when")
					conn, connErr := db.SQL().Conn(t.Context())
					must(t, connErr)
					for q := range strings.SplitSeq(mend, "; ") {
						if _, err := conn.ExecContext(t.Context(), q); err != nil {
							t.Fatalf("%s: %v", q, err)
						}
					}
					must(t, conn.Close())
					w.Table = opened(t, db, d, w.now)
					a, err = apply.PlanTable(t.Context(), w.Table)
				}
				must(t, err)
				mustRun(t, a)
				w.keep()
				w.wantCount(8)
				s := w.status()
				s.Problems = slices.DeleteFunc(s.Problems, func(p Problem) bool { return p.Code == "stopped" })
				if len(s.Problems) > 0 {
					t.Errorf("problems %+v; %s", s.Problems, w.parts())
				}
				if known, err := w.State.Periods(t.Context(), "readings"); err != nil || len(known) == 0 {
					t.Errorf("nothing is sealed of %s: %v", w.parts(), err)
				}
			})
		}
	}
}

// TestTakeoverOfExpression: a table that is partitioned by an expression of its time is kept by
// bounds of that expression: its periods are created, sealed, merged and dropped, those of the
// former keeper with the others.
func TestTakeoverOfExpression(t *testing.T) {
	for expression, c := range map[string]struct{ every, merge string }{
		"TO_DAYS(ts)":                {"1d", "4d"},
		"TO_SECONDS(ts)":             {"12h", "2d"},
		"YEAR(ts) * 100 + MONTH(ts)": {"1mo", "3mo"},
		"YEAR(ts)":                   {"1y", ""},
	} {
		t.Run(c.every, func(t *testing.T) {
			testdb.OnKinds(t, []string{"mariadb", "mysql"}, func(t *testing.T, kind string) {
				db, g := testdb.Open(t, kind).(engine.Keeper), grid(t, c.every)
				first, err := g.At(at(0))
				must(t, err)
				// Two of them as they were made before: one of two periods, with another name, and one of what
				// has no date.
				old, err := g.At(first.To)
				must(t, err)
				bound := func(pos int64) string {
					return strings.ReplaceAll(expression, "ts", "'"+rolling.Instant(pos).Format(time.DateTime)+"'")
				}
				exec(t, db.SQL(), fmt.Sprintf("%s PARTITION BY RANGE (%s) (PARTITION none VALUES LESS THAN (0), PARTITION before1 VALUES LESS THAN (%s), PARTITION `of old` VALUES LESS THAN (%s))",
					create(db), expression, bound(first.From), bound(old.To)))
				d := declare(t, db, func(d *rolling.Declaration) {
					d.Period, d.Ahead, d.Seal.Compress = g, g.Span(), true
					d.Keep = g.Span()
					d.Keep.Micros, d.Keep.Months = d.Keep.Micros*6, d.Keep.Months*6
					if c.merge != "" {
						d.Seal.Merge = grid(t, c.merge)
					}
				})
				w := applied(t, db, d, old.To-1e6)
				rows := int64(0)
				for range 12 {
					w.insert(w.now, 1, 2)
					w.keep()
					p, err := g.At(w.now + 2e6)
					must(t, err)
					w.now = p.To - 1e6
				}
				w.keep()
				for i, p := range w.partitions() {
					var n, outside int64
					must(t, db.SQL().QueryRowContext(t.Context(), fmt.Sprintf("SELECT COUNT(*), COALESCE(SUM(ts < %s OR ts >= %s), 0) FROM %s",
						db.Words().Literal(w.Table.Table, p.From), db.Words().Literal(w.Table.Table, p.To), db.Words().From(w.Table.Table, p))).Scan(&n, &outside))
					if rows += n; outside > 0 || i == 0 && p.From < d.Keep.Before(w.now)-2*g.Span().Length()*3 {
						t.Errorf("%s has %d rows, %d of them outside; the first period is from %s, and it is %s", p.Name, n, outside, g.Format(p.From), g.Format(w.now))
					}
				}
				if w.wantNoChanges(); rows != w.count() || rows == 0 || rows == 24 {
					t.Errorf("%d rows in periods of %d; %s", rows, w.count(), w.parts())
				}
				if s := w.status(); len(s.Problems) > 1 || len(s.Problems) == 1 && s.Problems[0].Code != "stopped" {
					t.Errorf("problems %+v", s.Problems)
				}
			})
		})
	}
}

// TestTakeoverRefusesWhatRunCannotKeep: what rowmill run would fail at is refused before.
func TestTakeoverRefusesWhatRunCannotKeep(t *testing.T) {
	on(t, []string{"postgres"}, func(t *testing.T, db engine.Keeper) {
		for want, statements := range map[string][]string{
			"has the primary key (), and (sensor, ts) is declared": {"CREATE TABLE readings (sensor INT NOT NULL, ts TIMESTAMP NOT NULL, value INT) PARTITION BY RANGE (ts)"},
			"is in a schema that isn't in search_path": {create(db) + " PARTITION BY RANGE (ts)", "CREATE SCHEMA other",
				strings.Replace(partition(db, "readings_p0", 0, 1), "TABLE readings_p0", "TABLE other.readings_p0", 1)},
		} {
			for _, q := range statements {
				exec(t, db.SQL(), q)
			}
			_, err := apply.PlanTable(t.Context(), opened(t, db, declare(t, db, nil), at(0.5)))
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(engine.HintOf(err), "ALTER TABLE") {
				t.Errorf("%v, want %s", err, want)
			}
			exec(t, db.SQL(), "DROP TABLE readings")
		}
	})
}

// fewRows is the number of rows of a tail that a takeover copies under the lock.
const fewRows = 2000

// TestTakeoverKilled: a takeover that is killed at any point is completed by the next one, with all
// rows, whether these are copied or not.
func TestTakeoverKilled(t *testing.T) {
	for _, kind := range append(testdb.Kinds(t, "mariadb", "mysql"), testdb.Kinds(t, "postgres")...) {
		for _, point := range []string{"undo recorded", "enclose begun", "enclosed", "tail divided"} {
			t.Run(strings.ReplaceAll(point, " ", "_")+"/"+kind, func(t *testing.T) {
				t.Parallel()
				db := testdb.Open(t, kind).(engine.Keeper)
				if kind == "postgres" {
					exec(t, db.SQL(), create(db)+" PARTITION BY RANGE (ts)")
					exec(t, db.SQL(), partition(db, "p0", 0, 1))
					exec(t, db.SQL(), partition(db, "rest", 1, -1))
				} else {
					exec(t, db.SQL(), create(db)+" PARTITION BY RANGE (TO_SECONDS(ts)) (PARTITION p0 VALUES LESS THAN (TO_SECONDS("+db.Words().Literal(TableOf(declare(t, db, nil)), at(1))+")), PARTITION pmax VALUES LESS THAN MAXVALUE)")
				}
				w := &world{t: t, now: at(3.6), Table: opened(t, db, declare(t, db, nil), at(3.6))}
				w.insert(at(0.5), 1)
				var rows []string
				for i := range fewRows + 1 {
					rows = append(rows, fmt.Sprintf("(%d, %s, 1)", i, db.Words().Literal(w.Table.Table, at(1+float64(i%150)/60))))
				}
				w.exec("INSERT INTO readings VALUES " + strings.Join(rows, ", "))
				a := applyPlan(t, w.Table)
				done := make(chan bool)
				w.Reached = func(at string) {
					if at == point {
						done <- true
						runtime.Goexit()
					}
				}
				go func() {
					if err := a.Run(context.Background(), func(apply.Step) {}); err != nil {
						t.Log(err)
					}
					done <- false
				}()
				if !<-done {
					t.Fatalf("%q was not reached", point)
				}
				w.Table = opened(t, db, w.Declared, w.now)
				mustRun(t, applyPlan(t, w.Table))
				if a := applyPlan(t, opened(t, db, w.Declared, w.now)); !a.Empty() {
					t.Errorf("applied twice: %+v", a)
				}
				w.keep()
				w.wantCount(fewRows + 2)
				w.wantNoChanges()
				if got := w.parts(); !strings.HasPrefix(got, "0-1 1-4 4-5 ") {
					t.Errorf("there is %s", got)
				}
			})
		}
	}
}

// TestOverlongPeriod: a period that takes rows for ever is a problem, whoever added it, and apply
// replaces it.
func TestOverlongPeriod(t *testing.T) {
	on(t, []string{"mariadb", "postgres"}, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, nil), at(0.2))
		w.exec(partition(db, "last", 4, 0))
		if got := w.problem("long"); !strings.Contains(got, "has no end, and 1h is declared") || !strings.Contains(got, "rowmill apply FILE") {
			t.Errorf("%q", got)
		}
		a := applyPlan(t, opened(t, db, w.Declared, at(0.2)))
		if len(a.Steps) == 0 || !strings.Contains(strings.ReplaceAll(a.Statements(), `"`, ""), "drop partition last, which has no end") {
			t.Errorf("%+v", a)
		}
		mustRun(t, a)
		w.wantParts("0-1 1-2 2-3 3-4")
	})
}
