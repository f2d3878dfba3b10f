package maintain_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rowmill/rowmill/internal/engine"
	. "github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/maintain/apply"
	"github.com/rowmill/rowmill/internal/maintain/schedule"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// onServers runs a test on each required kind of database.
func onServers(t *testing.T, test func(t *testing.T, db engine.Keeper)) {
	on(t, []string{"sqlite", "mariadb", "mysql", "postgres"}, test)
}

// on is onServers for the given kinds.
func on(t *testing.T, kinds []string, test func(t *testing.T, db engine.Keeper)) {
	testdb.OnKinds(t, kinds, func(t *testing.T, kind string) { test(t, testdb.Open(t, kind).(engine.Keeper)) })
}

// create returns the CREATE TABLE statement of the tests' table for a server.
func create(db engine.Keeper) string {
	time := "DATETIME"
	if db.Info().Engine == "postgres" {
		time = "TIMESTAMP"
	}
	return "CREATE TABLE readings (sensor INT NOT NULL, ts " + time + " NOT NULL, value INT, PRIMARY KEY (sensor, ts))"
}

// declare returns a declaration of the table.
func declare(t testing.TB, db engine.Keeper, change func(*rolling.Declaration)) *rolling.Declaration {
	t.Helper()
	def := defined(t, create(db))
	d := &rolling.Declaration{Name: "readings", Target: db.Info().Target, Definition: def, Time: "ts", Period: grid(t, "1h"), Ahead: span(3 * time.Hour)}
	if change != nil {
		change(d)
	}
	if d.Seal.After.IsZero() {
		d.Seal.After = span(time.Second)
	}
	d.Text = declarationText(d)
	return d
}

// declarationText returns a declaration as TOML.
func declarationText(d *rolling.Declaration) string {
	text := fmt.Sprintf("[table]\nname = %q\ntarget = %q\ntime = %q\nexact = %t\ncreate = '''%s'''\n", d.Name, d.Target, d.Time, d.Exact, d.Definition.Text)
	for _, ix := range d.Definition.Indexes {
		text = strings.TrimSuffix(text, "'''\n") + ";\n" + ix.Text + "'''\n"
	}
	line := func(key string, value fmt.Stringer) {
		if s := value.String(); s != "" && s != "no period" {
			text += fmt.Sprintf("%s = %q\n", key, s)
		}
	}
	if d.Epoch > 0 {
		text += fmt.Sprintf("epoch = %q\n", rolling.EpochName(d.Epoch))
	}
	if text += "[period]\n"; d.Period.Axis() == rolling.Sequence {
		text += "rows = " + strings.TrimSuffix(d.Period.String(), " rows") + "\n"
	} else {
		line("every", d.Period)
	}
	if !d.From.IsZero() {
		text += fmt.Sprintf("from = %q\n", d.From.Format(time.RFC3339))
	}
	line("ahead", d.Ahead)
	line("keep", d.Keep)
	line("late", d.Late)
	text += fmt.Sprintf("[seal]\ncompress = %t\n", d.Seal.Compress)
	line("after", d.Seal.After)
	line("merge", d.Seal.Merge)
	if d.Seal.Archive != "" {
		text += fmt.Sprintf("archive = %q\n", d.Seal.Archive)
	}
	for _, l := range d.Rollups {
		text += fmt.Sprintf("[[rollup]]\nname = %q\nevery = %q\n", l.Name, l.Every)
		if l.From != "" {
			text += fmt.Sprintf("from = %q\n", l.From)
		}
		line("keep", l.Keep)
		text += fmt.Sprintf("by = [%s]\nselect = {", strings.ReplaceAll(strings.Trim(fmt.Sprintf("%q", l.By), "[]"), "\" \"", "\", \""))
		for i, a := range l.Select {
			text += fmt.Sprintf("%s%s = %q", strings.Repeat(", ", min(i, 1)), a.Name, a)
		}
		text += "}\n"
	}
	return text
}

// A world is a table under test with a clock of its own.
type world struct {
	*Table
	t   testing.TB
	now int64
}

// applied opens the declared table and creates it.
func applied(t testing.TB, db engine.Keeper, d *rolling.Declaration, now int64) *world {
	t.Helper()
	w := &world{t: t, now: now}
	table, err := Open(t.Context(), db, d, func() time.Time { return rolling.Instant(w.now) })
	must(t, err)
	w.Table = table
	table.SetBreath(time.Millisecond) // no other session queues behind the test
	table.Say = func(e Event) {
		t.Logf("%s %s %s %v", rolling.Instant(w.now).Format(time.DateTime), e.Action, e.Detail, e.Err)
	}
	mustRun(t, applyPlan(t, table))
	return w
}

// insert inserts rows of some sensors at a position.
func (w *world) insert(pos int64, sensors ...int) {
	w.t.Helper()
	for _, s := range sensors {
		q := fmt.Sprintf("INSERT INTO %s (sensor, ts, value) VALUES (%d, %s, %d)", w.DB.Dialect().Quote(w.Table.Table.Name), s, w.DB.Words().Literal(w.Table.Table, pos), s*7)
		if _, err := w.DB.SQL().ExecContext(w.t.Context(), q); err != nil {
			w.t.Fatalf("insert at %s: %v", rolling.Instant(pos), err)
		}
	}
}

// keep executes the due tasks of all lanes twice, so that each lane sees the
// results of the others.
func (w *world) keep() {
	w.t.Helper()
	if err := schedule.Once(w.t.Context(), w.Table); err != nil {
		w.t.Fatalf("keep: %v", err)
	}
}

// parts lists the partitions as FROM-TO hours of the test's day.
func (w *world) parts() string {
	w.t.Helper()
	have := w.partitions()
	var out []string
	for _, p := range have {
		out = append(out, fmt.Sprintf("%d-%d", (p.From-at(0))/3600e6, (p.To-at(0))/3600e6))
	}
	return strings.Join(out, " ")
}

// wantParts compares the partitions. What is wanted is their beginning if it ends with
// a space.
func (w *world) wantParts(want string) {
	w.t.Helper()
	if got := w.parts(); got != want && !(strings.HasSuffix(want, " ") && strings.HasPrefix(got, want)) {
		w.t.Errorf("there is %s, want %s", got, want)
	}
}

// wantMerged compares the partitions: as merged, or as they are where a table with triggers can't
// be merged.
func (w *world) wantMerged(merged, single string) (merges bool) {
	w.t.Helper()
	merges = !w.DB.Capabilities().MergesUntriggered || !w.Declared.Exact && w.Declared.Late != rolling.LateReject
	if !merges {
		merged = single
	}
	w.wantParts(merged)
	return merges
}

func (w *world) count() int64 {
	w.t.Helper()
	return w.number("SELECT COUNT(*) FROM " + w.DB.Dialect().Quote(w.Table.Table.Name))
}

func (w *world) wantCount(want int64) {
	w.t.Helper()
	if got := w.count(); got != want {
		w.t.Errorf("%d rows are there, want %d", got, want)
	}
}

// TestKeep: a table is created ahead, sealed, merged, rolled up and dropped. Its name has
// capitals.
func TestKeep(t *testing.T) { onServers(t, keepCapitals) }

// keepsHalfDay sets the policies of the table for halfDay.
func keepsHalfDay(t *testing.T, d *rolling.Declaration) {
	d.Keep = span(6 * time.Hour)
	d.Seal.After = span(30 * time.Minute)
	d.Seal.Merge = grid(t, "3h")
	d.Seal.Compress = true
}

// halfDay keeps the table for twelve hours, of which six remain: 30 rows arrive
// each hour, and one late row reaches a sealed and merged period.
func (w *world) halfDay() {
	w.t.Helper()
	for hour := range 12 {
		w.now = at(float64(hour) + 0.6)
		w.keep()
		for i := range 10 {
			w.insert(w.now+int64(i)*1e6, 1, 2, 3)
		}
		if hour == 4 {
			w.insert(at(2.2), 77)
		}
	}
	w.now = at(12.6)
	w.keep()
	w.wantMerged("6-9 9-12 12-13 13-14 14-15 15-16", "6-7 7-8 8-9 9-10 10-11 11-12 12-13 13-14 14-15 15-16")
	w.wantCount(6 * 30)
	w.wantNoChanges()
}

// TestTriggersAndSwaps: a table whose triggers use other tables supports merges and
// drops like any other.
func TestTriggersAndSwaps(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, func(d *rolling.Declaration) {
			d.Keep = span(6 * time.Hour)
			d.Late, d.Exact = rolling.LateReject, true
			d.Seal.Merge = grid(t, "3h")
			d.Rollups = []rolling.Rollup{{Name: "readings_1h", Every: grid(t, "1h"), By: []string{"sensor"},
				Select: []rolling.Aggregate{{Name: "n", Func: "count"}}}}
		})
		w := applied(t, db, d, at(0.2))
		w.hours(0, 12)
		hours := int64(9)
		if !w.wantMerged("3-6 6-9 9-10 10-11 11-12 12-13 13-14 14-15", "5-6 6-7 7-8 8-9 9-10 10-11 11-12 12-13 13-14 14-15") {
			hours = 7 // a merged period is dropped as a whole
		}
		w.wantCount(hours * 3)
	})
}

// TestTrapRowsOlderThanEveryPeriod: if partitions have no lower bounds, a row that
// is older than all of them is stored separately and raises an alarm. Otherwise it
// is rejected. It is never lost silently.
func TestTrapRowsOlderThanEveryPeriod(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, nil), at(5.5))
		q := fmt.Sprintf("INSERT INTO readings (sensor, ts, value) VALUES (9, %s, 1)", db.Words().Literal(w.Table.Table, at(1.7)))
		_, err := db.SQL().ExecContext(t.Context(), q)
		s, statusErr := w.Status(t.Context())
		if statusErr != nil {
			t.Fatal(statusErr)
		}
		if _, floor := db.(engine.Outsider); !floor {
			if err == nil {
				t.Error("it was taken")
			}
			return
		}
		if err != nil || w.count() != 1 || len(s.Problems) != 1 || s.Problems[0].Code != "outside" {
			t.Errorf("insert: %v; %d rows; problems %+v", err, w.count(), s.Problems)
		}
	})
}

// TestChangedValues: if values of a sealed period change but not its number of
// rows, its checksum is recomputed before it is dropped.
func TestChangedValues(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, func(d *rolling.Declaration) {
			d.Keep = span(4 * time.Hour)
			d.Rollups = []rolling.Rollup{{Name: "readings_1h", Every: grid(t, "1h"), Select: []rolling.Aggregate{{Name: "total", Func: "sum", Column: "value"}}}}
		})
		w := applied(t, db, d, at(0.2))
		w.hours(0, 4)
		w.exec("UPDATE readings SET value = value + 1000 WHERE ts < " + db.Words().Literal(w.Table.Table, at(1)))
		w.hours(4, 6)
		total := w.number("SELECT total FROM readings_1h WHERE bucket = " + db.Words().Literal(w.Table.Table, at(0)))
		if want := int64(3000 + 7*(1+2+3)); total != want || strings.HasPrefix(w.parts(), "0-1") {
			t.Errorf("the bucket says %d, want %d; periods %s", total, want, w.parts())
		}
	})
}

// TestForeignPartitions: a table partitioned in a way that rowmill doesn't use is
// not treated as a rolling table.
func TestForeignPartitions(t *testing.T) {
	t.Parallel()
	for _, server := range testdb.Kinds(t, "mariadb", "mysql") {
		db := testdb.Open(t, server).(engine.Keeper)
		_, err := db.SQL().ExecContext(t.Context(), create(db)+" PARTITION BY RANGE (MONTH(ts)) (PARTITION a VALUES LESS THAN (7))")
		must(t, err)
		table, err := Open(t.Context(), db, declare(t, db, nil), time.Now)
		if err == nil {
			_, err = apply.PlanTable(t.Context(), table)
		}
		if err == nil || !strings.Contains(err.Error(), "is partitioned by RANGE (month(") || !strings.Contains(engine.HintOf(err), "REMOVE PARTITIONING") {
			t.Errorf("%s: %v", server, err)
		}
	}
}

// defined reads a CREATE TABLE statement.
func defined(t testing.TB, text string) *rolling.Definition {
	t.Helper()
	d, err := rolling.ReadDefinition(text)
	must(t, err)
	return d
}

// applyPlan plans to apply a table's declaration.
func applyPlan(t testing.TB, table *Table) *apply.Plan {
	t.Helper()
	a, err := apply.PlanTable(t.Context(), table)
	must(t, err)
	return a
}

func mustRun(t testing.TB, a *apply.Plan) {
	t.Helper()
	must(t, a.Run(t.Context(), func(apply.Step) {}))
}

func (w *world) status() *Status {
	w.t.Helper()
	s, err := w.Status(w.t.Context())
	must(w.t, err)
	return s
}

func (w *world) partitions() []rolling.Partition {
	w.t.Helper()
	parts, err := w.DB.Catalog().Partitions(w.t.Context(), w.Table.Table)
	must(w.t, err)
	return parts
}

// records returns those of the table's periods.
func (w *world) records() []state.Period {
	w.t.Helper()
	all, err := w.State.Periods(w.t.Context(), w.Table.Table.Name)
	must(w.t, err)
	return all
}

// actions returns the log, newest first.
func (w *world) actions() []state.Action {
	w.t.Helper()
	all, err := w.State.Actions(w.t.Context(), w.Table.Table.Name, 100)
	must(w.t, err)
	return all
}

// wantNoChanges checks that no change is in progress.
func (w *world) wantNoChanges() {
	w.t.Helper()
	if changes, err := w.State.Changes(w.t.Context(), w.Table.Table.Name); err != nil || len(changes) > 0 {
		w.t.Errorf("%d changes are in progress: %+v, error %v", len(changes), changes, err)
	}
}

func TestMain(m *testing.M) { testdb.Main(m) }

// Tables whose long names begin alike don't share the tables beside them.
func TestStandaloneNames(t *testing.T) {
	t.Parallel()
	p := rolling.Partition{Period: rolling.Period{From: math.MinInt64, To: math.MaxInt64}}
	seen := map[string]string{}
	for _, table := range []string{"readings", "readings_of_all_sensors_a", "readings_of_all_sensors_b", "readings_of_all_sensors_" + strings.Repeat("c", 40), strings.Repeat("\u00e4", 31), strings.Repeat("\u00e4", 30) + "b"} {
		name := Standalone(table, "drop", p)
		if was, has := seen[name]; has {
			t.Errorf("%s and %s share %s", table, was, name)
		}
		seen[name] = table
		if len(name) > 63 || !utf8.ValidString(name) {
			t.Errorf("%s: %q, %d bytes", table, name, len(name))
		}
	}
}

// due lists the due tasks, except for the refresh of roll-ups, which is always due.
func (w *world) due() []string {
	w.t.Helper()
	now, err := w.Follow(w.t.Context())
	must(w.t, err)
	v, tasks, err := now.Plan(w.t.Context())
	must(w.t, err)
	var out []string
	for _, task := range tasks {
		if task.Kind != Rollup && task.Due <= v.Now {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", task.Kind, task.Label(), task.Waits)))
		}
	}
	return out
}

// All due tasks are done in one call, however often one lane waits for another.
func TestOnceDoesAll(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		d := declare(t, db, func(d *rolling.Declaration) {
			d.Keep, d.Ahead = span(20*time.Hour), span(12*time.Hour)
			d.Rollups = counts(t, "readings_1h")
		})
		w := applied(t, db, d, at(0.2))
		for hour := range 8 {
			w.insert(at(float64(hour)+0.5), 1, 2)
		}
		w.now = at(19.6) // each is sealed, and checked again
		w.keep()
		v, err := w.View(t.Context())
		must(t, err)
		w.LastFailed(string(Check))
		must(t, w.Do(t.Context(), Task{Kind: Check, Parts: v.Parts[:1]}, v))
		if !slices.ContainsFunc(w.actions(), func(a state.Action) bool { return a.Action == string(Check) }) {
			t.Error("a check that found nothing has left the failure before it as the log's last word")
		}
		for hour := range 8 {
			w.insert(at(float64(hour)+0.9), 9)
		}
		w.now = at(29.6) // and all are due to be dropped
		w.keep()
		if due := w.due(); len(due) > 0 {
			t.Errorf("after one call there is left to do:\n%s", strings.Join(due, "\n"))
		}
	})
}

// Due tasks that can't be done are listed in an error.
func TestOnceSaysWhatIsLeft(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, func(d *rolling.Declaration) { d.Keep = span(time.Hour) }), at(0.2))
		w.hours(0, 2)
		have := w.partitions()
		c := &state.Change{Table: "readings", ID: "restore", Kind: string(Restore), Step: StepAttach}
		if _, err := w.State.Begin(t.Context(), c, Restoring{Part: have[0]}); err != nil {
			t.Fatal(err)
		}
		w.now = at(2.6)
		err := schedule.Once(t.Context(), w.Table)
		if want := "drop " + have[0].Name + ", which waits: a change of it is under way"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("kept: %v, want an error with %q", err, want)
		}
		must(t, w.State.End(t.Context(), w.State.DB(), c))
		w.keep()
		w.wantParts("1-2 ")
	})
}

// A refresh of roll-ups is listed as next if there is something to compute, and
// otherwise for the end of the next bucket.
func TestNextRefresh(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		w := applied(t, db, declare(t, db, func(d *rolling.Declaration) {
			d.Rollups = []rolling.Rollup{
				{Name: "by_hour", Every: grid(t, "1h"), Select: []rolling.Aggregate{{Name: "n", Func: "count"}}},
				{Name: "by_day", Every: grid(t, "1d"), Select: []rolling.Aggregate{{Name: "n", Func: "count"}}},
			}
		}), at(0.2))
		w.hours(0, 2)
		w.keep()
		for _, c := range []struct {
			now, due float64
			what     string
		}{{1.6, 2, "by_hour"}, {2.2, 2.2, "by_hour"}} {
			w.now = at(c.now)
			s := w.status()
			var got []string
			for _, n := range s.Next {
				if n.Action == string(Rollup) {
					got = append(got, n.What+" at "+n.At.Format(time.DateTime))
				}
			}
			if want := c.what + " at " + rolling.Instant(at(c.due)).Format(time.DateTime); strings.Join(got, ", ") != want {
				t.Errorf("at %.1f the next refresh is %q, want %q", c.now, got, want)
			}
		}
	})
}
