package maintain_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	. "github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/apply"
	"github.com/rowmill/rowmill/internal/maintain/schedule"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// problem returns the text of a problem and its hint, "" if there is none.
func (w *world) problem(code string) string {
	w.t.Helper()
	s := w.status()
	i := slices.IndexFunc(s.Problems, func(p Problem) bool { return p.Code == code })
	if i < 0 {
		return ""
	}
	return s.Problems[i].Text + "\n" + s.Problems[i].Try
}

// TestClockThatRanAhead: if all periods exist ahead of the present and none contains
// it, another pass creates none for the present, and status doesn't suggest one.
func TestClockThatRanAhead(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "sqlite").(engine.Keeper)
	w := applied(t, db, declare(t, db, func(d *rolling.Declaration) { d.Keep = span(2 * time.Hour) }), at(0.2))
	w.now = at(40)
	w.keep()
	w.now = at(0.5)
	w.keep()
	if got := w.problem("headroom"); !strings.Contains(got, "The first one begins at "+w.Table.Table.Grid.Format(at(38))) || strings.Contains(got, "--once") {
		t.Errorf("%q; periods %s", got, w.parts())
	}
}

// TestRestoredPeriod: a restored period between dropped ones is not reported as a
// gap. Its roll-ups can be recomputed, those of other periods can't.
func TestRestoredPeriod(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, func(d *rolling.Declaration) {
			d.Keep = span(4 * time.Hour)
			d.Seal.Archive = t.TempDir()
			total := []rolling.Aggregate{{Name: "total", Func: "sum", Column: "value"}}
			d.Rollups = []rolling.Rollup{
				{Name: "readings_1h", Every: grid(t, "1h"), Select: total},
				{Name: "readings_6h", Every: grid(t, "6h"), From: "readings_1h", Select: total},
			}
		})
		w := applied(t, db, d, at(0.2))
		w.hours(0, 12)
		w.now = at(12.2)
		w.keep()
		sums := func() (hours, sixes string) {
			t.Helper()
			for name, out := range map[string]*string{"readings_1h": &hours, "readings_6h": &sixes} {
				rows, err := db.SQL().QueryContext(t.Context(), "SELECT total FROM "+name+"_live ORDER BY bucket")
				must(t, err)
				for rows.Next() {
					var n int64
					must(t, rows.Scan(&n))
					*out += fmt.Sprint(n, " ")
				}
				must(t, errors.Join(rows.Err(), rows.Close()))
			}
			return hours, sixes
		}
		hours, _ := sums()
		path, err := w.FindArchive(t.Context(), w.Table.Table.Grid.Named(rolling.Period{From: at(2), To: at(3)}).Name)
		must(t, err)
		r, err := w.PlanRestore(t.Context(), path, "")
		must(t, err)
		must(t, r.Run(t.Context(), nil, nil))
		t.Log(w.parts())
		if got := w.problem("gap"); got != "" {
			t.Errorf("after a restoration: %s", got)
		}
		exec(t, db.SQL(), "UPDATE readings SET value = value + 1000 WHERE ts < "+db.Words().Literal(w.Table.Table, at(3)))
		for _, around := range []rolling.Period{{From: at(1.5), To: at(2.5)}, {From: at(2), To: at(3.1)}, {From: at(0), To: at(12)}} {
			if _, err := w.RefreshRange(t.Context(), around.From, around.To); err == nil || !strings.Contains(err.Error(), "are dropped") {
				t.Errorf("with rows that are gone: %v", err)
			}
		}
		if got, _ := sums(); got != hours {
			t.Errorf("refused, and the levels have %s, had %s", got, hours)
		}
		if _, err := w.RefreshRange(t.Context(), at(2), at(3)); err != nil {
			t.Fatal(err)
		}
		if got, _ := sums(); got != strings.Repeat("42 ", 2)+"3042 "+strings.Repeat("42 ", 9) {
			t.Errorf("the levels have %s, had %s", got, hours)
		}
		if _, got := sums(); !strings.HasPrefix(got, fmt.Sprint(6*42+3000, " ")) {
			t.Errorf("six hours have %s", got)
		}
		if !db.Capabilities().Gaps {
			return
		}
		have := w.partitions()
		must(t, enginetest.Try(t, db, engine.DropPartition{Table: w.Table.Table, Have: have, Drop: have[3]}))
		if got := w.problem("gap"); !strings.Contains(got, "no period from "+w.Table.Table.Grid.Format(at(10))) {
			t.Errorf("with a period dropped by hand: %q; %s", got, w.parts())
		}
	})
}

// TestChangedRollup: an impossible change of a level's table is rejected in the
// plan, before anything is changed.
func TestChangedRollup(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		every := func(s string) *rolling.Declaration {
			return declare(t, db, func(d *rolling.Declaration) {
				d.Seal.After = span(time.Hour)
				d.Rollups = []rolling.Rollup{{Name: "readings_1h", Every: grid(t, s), Select: []rolling.Aggregate{{Name: "n", Func: "count"}}}}
			})
		}
		w := applied(t, db, every("1h"), at(0.2))
		for period, want := range map[string]string{"1h": "", "2h": "its bucket is 1h, and its rows can't be converted to 2h"} {
			_, err := apply.PlanTable(t.Context(), opened(t, db, every(period), w.now))
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", period, err)
			}
		}
	})
}

// TestOnceBesideAnother: a table that another process keeps is left alone, which is reported
// once, and its tasks aren't reported as waiting.
func TestOnceBesideAnother(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "sqlite").(engine.Keeper)
	w := applied(t, db, declare(t, db, nil), at(0.2))
	lease, err := db.Lead(t.Context(), w.Table.LeaderLock())
	must(t, err)
	var said []Event
	w.Say = func(e Event) { said = append(said, e) }
	w.keep()
	must(t, lease.Release())
	said = slices.DeleteFunc(said, func(e Event) bool { return e.Action != "lead" })
	if len(said) != 1 || said[0].Waiting || !strings.HasSuffix(said[0].Detail, "another process keeps the table") {
		t.Errorf("it said %+v", said)
	}
}

// dropped records n dropped periods before those of the table.
func (w *world) dropped(n int) {
	w.t.Helper()
	row := func(i int) string {
		from := at(0) - int64(i+1)*3600e6
		return fmt.Sprintf("('readings', %d, %d, 'p%d', '%s', 1, 'x', %d, 0, '/archive/p%d', 'y', 1)", from, from+3600e6, i, state.Dropped, from, i)
	}
	for i := 0; i < n; i += 500 {
		rows := make([]string, 500)
		for j := range rows {
			rows[j] = row(i + j)
		}
		q := "INSERT INTO rowmill_states (table_name, lower_pos, upper_pos, name, state, row_count, checksum, checked_pos, rebuilt, archive, archive_sum, updated_us) VALUES "
		exec(w.t, w.DB.SQL(), q+strings.Join(rows, ", "))
	}
}

// TestViewReadsExistingPeriods: looking at a table that has dropped thousands of
// periods reads the records of those that it has.
func TestViewReadsExistingPeriods(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, nil), at(0.2))
		w.insert(at(0.5), 1, 2)
		w.now = at(2.2)
		w.keep()
		before, err := w.View(t.Context())
		must(t, err)
		w.dropped(5000)
		v, err := w.View(t.Context())
		if err != nil || len(v.Known) != 2 || !slices.Equal(v.Known, before.Known) || !slices.Equal(v.Parts, before.Parts) {
			t.Errorf("%d records of %d periods, had %d; error %v", len(v.Known), len(v.Parts), len(before.Known), err)
		}
		if all, err := w.State.Periods(t.Context(), "readings"); err != nil || len(all) != 5002 {
			t.Errorf("%d records in all, error %v", len(all), err)
		}
		if db.Info().Engine != "sqlite" {
			return
		}
		var plan, ignored string
		if err := db.SQL().QueryRow("EXPLAIN QUERY PLAN SELECT * FROM rowmill_states WHERE table_name = 'readings' AND lower_pos >= 0 AND state <> 'dropped' ORDER BY lower_pos").
			Scan(&ignored, &ignored, &ignored, &plan); err != nil || !strings.Contains(plan, "table_name=? AND lower_pos>?") {
			t.Errorf("plan %q, error %v", plan, err)
		}
	})
}

// TestActionsAreTrimmed: the log of actions keeps the newest ones, and old ones are
// removed in portions.
func TestActionsAreTrimmed(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, nil), at(0.2))
		const n = 11500
		for i := 0; i < n; i += 500 {
			rows := make([]string, 500)
			for j := range rows {
				rows[j] = fmt.Sprintf("('readings', %d, 0, 'create', 'p', 0, '', 0, 'x')", i+j)
			}
			q := "INSERT INTO rowmill_actions (table_name, at_us, serial, action, detail, took_us, error, locked, by_whom) VALUES "
			exec(t, db.SQL(), q+strings.Join(rows, ", "))
		}
		for _, want := range []int{1500, 1000, 1000} {
			for range TrimEvery {
				w.Log(t.Context(), "test", "", 0, nil)
			}
			all, err := w.State.Actions(t.Context(), "readings", 2*n)
			old := slices.DeleteFunc(all, func(a state.Action) bool { return a.Action == "test" })
			if err != nil || len(old) > want || len(all) < 900 {
				t.Errorf("%d old of %d actions, want at most %d; error %v", len(old), len(all), want, err)
			}
		}
	})
}

// BenchmarkView shows that a look at a table costs by its live periods, not by all it
// ever had.
func BenchmarkView(b *testing.B) {
	for _, n := range []int{0, 5000} {
		b.Run(fmt.Sprintf("dropped=%d", n), func(b *testing.B) {
			db := testdb.Open(b, "sqlite").(engine.Keeper)
			w := applied(b, db, declare(b, db, nil), at(0.2))
			w.dropped(n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.View(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestManyActions: each action is counted, also a failure that the log has already, and status
// knows the last success and the last failure of each kind, whatever else has happened since.
func TestManyActions(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, nil), at(0.2))
		counted := map[string]int{}
		w.Count = func(e Event) { counted[fmt.Sprint(e.Action, " ", e.Err == nil)]++ }
		w.Log(t.Context(), "archive", "p0", time.Second, nil)
		for range 2 {
			w.Log(t.Context(), "drop", "p1", time.Second, errors.New("disk full"))
		}
		for range 60 {
			w.Log(t.Context(), "seal", "p", time.Second, nil)
		}
		s := w.status()
		var latest []string
		for _, a := range s.Latest {
			latest = append(latest, fmt.Sprint(a.Action, " ", a.Error == ""))
		}
		if want := []string{"seal true", "drop false", "archive true"}; !slices.Equal(latest, want) || len(s.Actions) != MaxActions {
			t.Errorf("latest %v of %d, want %v", latest, len(s.Actions), want)
		}
		if counted["seal true"] != 60 || counted["drop false"] != 2 || counted["archive true"] != 1 {
			t.Errorf("counted %v", counted)
		}
		if got := w.problem("failed"); !strings.Contains(got, "drop p1: disk full") {
			t.Errorf("problem %q", got)
		}
	})
}

// TestKeptTables: a table with rows of a period that no change in progress needs is a problem until
// somebody has removed it, whatever else has happened since.
func TestKeptTables(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, func(d *rolling.Declaration) { d.Seal.Compress = true }), at(0.2))
		w.insert(at(0.5), 1, 2)
		part := w.partitions()[0]
		names := []string{Standalone("readings", "out", part) + "_1f3a", Standalone("readings", "old", part) + "_ffffff", Standalone("readings", "drop", part)}
		for _, name := range append(names, Standalone("readings_1", "out", part)+"_1f", "rowmill_out_readings_1_2_3") {
			w.exec("CREATE TABLE " + db.Dialect().Quote(name) + " (sensor INT NOT NULL PRIMARY KEY)")
		}
		got := func() (out []string) {
			for _, p := range w.status().Problems {
				if p.Code == "leftover" && strings.Contains(p.Text, "of the period from "+w.Table.Table.Grid.Format(part.From)) {
					out = append(out, strings.Fields(p.Text)[1])
				}
			}
			slices.Sort(out)
			return out
		}
		slices.Sort(names)
		if !slices.Equal(got(), names) {
			t.Errorf("kept %v, want %v; %+v", got(), names, w.status().Problems)
		}
		_, err := w.State.Begin(t.Context(), &state.Change{Table: "readings", ID: "drop 1", Kind: string(Drop), Step: StepCheck}, Dropping{Table: names[0]})
		must(t, err)
		w.exec("DROP TABLE " + db.Dialect().Quote(names[1]))
		if want := names[2:]; !slices.Equal(got(), want) {
			t.Errorf("kept %v, want %v", got(), want)
		}
	})
}

// TestProblemsOnce: a problem that several parts of a look find is listed once.
func TestProblemsOnce(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, nil), at(0.2))
		w.keep()
		w.dropTable()
		if err := schedule.Once(t.Context(), w.Table); err == nil {
			t.Error("it is kept")
		}
		if s := w.status(); len(s.Problems) != 1 || s.Problems[0].Code != Declaring {
			t.Errorf("%+v", s.Problems)
		}
	})
}

// TestOpenNote: periods are too many when, open on 50 connections, they take more than half as much
// as the memory for pages. Where the costs, or that memory, are not known, nothing is said.
func TestOpenNote(t *testing.T) {
	t.Parallel()
	cost := engine.OpenCost{Base: 1 << 40, Connection: 1 << 30, Partition: 24 << 10, Each: 2 << 10} // 124 KiB for each, whatever the rest
	const cache = 124 << 20
	for name, c := range map[string]struct {
		periods int
		cost    engine.OpenCost
		cache   int64
		want    bool
	}{"half": {512, cost, cache, false}, "more": {513, cost, cache, true}, "less memory": {512, cost, cache - 1024, true},
		"unknown costs": {8000, engine.OpenCost{}, cache, false}, "unknown memory": {8000, cost, 0, false}} {
		got := OpenNote(c.periods, c.cost, c.cache)
		if (got != "") != c.want || c.want && (!strings.HasPrefix(got, fmt.Sprintf("%d periods are too many for 12", c.periods)) || !strings.Contains(got, "take about 62")) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestStatusNotes: the status of a table of so many periods has the note, and requires no action
// for it.
func TestStatusNotes(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, "mariadb") {
		db := testdb.Open(t, kind).(engine.Keeper)
		many := int(engine.OpenShare * float64(db.Info().CacheBytes) / db.Capabilities().Open.Partitions(1, engine.OpenConnections))
		w := applied(t, db, declare(t, db, func(d *rolling.Declaration) { d.Ahead = span(time.Duration(many/2) * time.Hour) }), at(0.2))
		for _, hour := range []float64{0.2, float64(many/2) + 3} { // what has passed stays
			w.now = at(hour)
			w.keep()
			if s := w.status(); len(s.Problems) > 0 || (len(s.Notes) > 0) != (hour > 1) {
				t.Errorf("%d periods of %d: notes %q, problems %v", len(s.Periods), many, s.Notes, s.Problems)
			}
		}
	}
}
