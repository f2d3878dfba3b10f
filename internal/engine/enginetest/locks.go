package enginetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// periodSizes checks the names, approximate numbers of rows and sizes of periods.
func (s keepers) periodSizes(t *testing.T) {
	db := s.open(t)
	k := created(t, db, "readings", "time", 3)
	k.insert(t, k.parts[:1], 0, 1000)
	k.insert(t, k.parts[1:2], 0, 100)
	if limited, ok := db.(engine.Limited); ok { // nothing is hidden from an account with all privileges
		if hidden, err := limited.Hidden(within(t)); err != nil || len(hidden) > 0 {
			t.Errorf("hidden: %+v, %v", hidden, err)
		}
	}
	sizes, err := db.PeriodSizes(within(t), k.Table)
	Must(t, err)
	want(t, "the number of periods", len(sizes), 3)
	for i, p := range k.parts {
		got, ok := sizes[p.Name]
		rows := []int64{1000, 100, 0}[i]
		// Every server needs more than 20 bytes per row. For the empty period, RocksDB may report some
		// tens of rows, which really are in the period beside it.
		if !ok || got.Rows < rows/2 || got.Rows > rows*2+50 || got.Data < rows*20 || got.Index < 0 {
			t.Errorf("period %s with %d rows: %+v", p.Name, rows, got)
		}
	}
}

// lead checks that a lock has one holder until it is released.
func (s keepers) lead(t *testing.T) {
	db := s.open(t)
	const name = "keep table/odd name's"
	first, err := db.Lead(within(t), name)
	Must(t, err)
	began := time.Now()
	_, err = db.Lead(within(t), name)
	wantError(t, err, engine.ErrLockTimeout)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the refusal took %v", took)
	}
	other, err := db.Lead(within(t), "another name")
	Must(t, err)
	select {
	case <-first.Lost():
		t.Error("the lock is lost while it is held")
	case <-other.Lost():
		t.Error("the other lock is lost while it is held")
	case <-time.After(50 * time.Millisecond):
	}
	Must(t, errors.Join(other.Release(), first.Release(), first.Release()))
	select {
	case <-first.Lost():
	case <-time.After(longest):
		t.Error("a released lock isn't lost")
	}
	second, err := db.Lead(within(t), name)
	if err != nil {
		t.Fatalf("after its release: %v", err)
	}
	if err := second.Release(); err != nil {
		t.Error(err)
	}
	if _, err := db.Lead(canceled(), name); err == nil {
		t.Error("taken after the context's end")
	}
	// A long name, and the same name in another database.
	long := strings.Repeat("n", 60)
	a, err := db.Lead(within(t), long)
	Must(t, err)
	defer a.Release()
	b, err := s.open(t).Lead(within(t), long)
	if err != nil {
		t.Fatalf("the same name in another database: %v", err)
	}
	defer b.Release()
}

// blocked checks that an open transaction on the table blocks a change of its
// periods only for a limited time, and that Blockers reports it.
func (s keepers) blocked(t *testing.T) {
	db := s.open(t)
	k := created(t, db, "readings", "time", 3)
	k.insert(t, k.parts, 0, 20)
	whole := k.whole(t)
	detach := engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[0], Into: "gone"}
	k.fill(t, "rebuilt", k.parts[1:2])
	replace := k.merge(t, 1, 1, k.parts[1].Name, "rebuilt")
	add := engine.AddColumn{Table: k.Table, Have: k.parts, Name: "extra", Definition: "extra INT"}

	tx, err := db.SQL().BeginTx(within(t), nil)
	Must(t, err)
	defer tx.Rollback()
	k.exec(t, tx, "UPDATE "+k.Words().From(k.Table, k.parts[0])+" SET n = 1")
	k.exec(t, tx, "UPDATE "+k.Words().From(k.Table, k.parts[1])+" SET n = 1")
	for _, step := range []engine.Step{detach, replace, add} {
		began := time.Now()
		wantError(t, db.Try(within(t), step), engine.ErrLockTimeout)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("%T waited %v", step, took)
		}
	}
	// An embedded engine reports no blockers.
	if !db.Capabilities().Embedded {
		blockers := Blockers(t, db, k.Table, true)
		if len(blockers) == 0 {
			t.Fatal("nobody is named")
		}
		b := blockers[0]
		if b.ID == 0 || b.User == "" || b.Age <= 0 || b.Age > longest || len(b.Statement) > 250 {
			t.Errorf("the blocker is %+v", b)
		}
		if !b.Own {
			t.Errorf("a connection of SQL isn't known as rowmill's own: %+v", b)
		}
	}
	Must(t, tx.Rollback())
	want(t, "the whole table", k.whole(t), whole)
	k.wantParts(t, k.parts)
	if blockers := Blockers(t, db, k.Table, false); len(blockers) > 0 {
		t.Errorf("blockers are left: %+v", blockers)
	}
	k.step(t, replace)
	want(t, "the whole table", k.whole(t), whole)
	k.step(t, detach)
	k.wantParts(t, k.without(k.parts, 0))
}

// running checks that Running counts a plausible number of statements on an idle server.
func (s keepers) running(t *testing.T) {
	n, err := s.open(t).Running(within(t))
	Must(t, err)
	if n < 0 || n > 20 {
		t.Errorf("%d statements run on an idle server", n)
	}
}

// oddNames changes periods of tables and columns with unusual names.
func (s keepers) oddNames(t *testing.T) {
	db := s.open(t)
	for _, odd := range []string{"select", "a b`\"'c", "100%s.a\\b", "a;--b?$x/*x*/", "ünï✓日本", "Aa"} {
		t.Run(odd, func(t *testing.T) {
			k := keptNames(t, db, odd, "time", 3, func(column string) string { return column + " " + odd })
			w := k.Words()
			err := db.Apply(within(t), engine.CreateTable{Table: k.Table, Partitions: k.parts})
			if errors.Is(err, engine.ErrUnsupported) {
				t.Skip(err)
			}
			Must(t, err)
			want(t, "By", k.schema(t, odd).By, k.By)
			for i, p := range k.parts {
				k.exec(t, db.SQL(), fmt.Sprintf("INSERT INTO %s (%s, %s) VALUES (?, %s)", k.quote(odd), k.quote("id "+odd), k.quote("ts "+odd), w.Literal(k.Table, p.From)), i)
			}
			whole := k.whole(t)
			want(t, "rows", whole.Rows, 3)
			k.fill(t, "with "+odd, k.parts[:2])
			r := k.merge(t, 0, 2, k.parts[0].Name+"x", "with "+odd)
			r.Out = []string{"o1 " + odd, "o2 " + odd}
			k.step(t, r)
			k.parts = replaced(k.parts, r)
			k.step(t, engine.DropTables{Names: r.Out})
			k.step(t, engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[0], Into: "out " + odd})
			k.step(t, engine.Attach{Table: k.Table, Have: k.parts[1:], Part: k.parts[0], From: "out " + odd})
			k.wantParts(t, k.parts)
			want(t, "the whole table", k.whole(t), whole)
			Must(t, Try(t, db, engine.AddColumn{Table: k.Table, Have: k.parts, Name: "x" + odd, Definition: k.quote("x"+odd) + " INT"}))
			if k.schema(t, odd).Column("x"+odd) == nil {
				t.Error("the column isn't there")
			}
			if sizes, err := db.PeriodSizes(within(t), k.Table); err != nil || len(sizes) != 2 {
				t.Errorf("sizes %v, %v", sizes, err)
			}
			if _, err := db.Blockers(within(t), k.Table); err != nil {
				t.Error(err)
			}
			by := k.quote(k.By)
			q := fmt.Sprintf("%s WHERE %s = %s", k.quote(odd), by, w.FromPosition(k.Table, w.Position(k.Table, by)))
			want(t, "rows by their position", countRows(t, db, q), 3)
		})
	}
}

// errors checks Classify and steps that must fail.
func (s keepers) errors(t *testing.T) {
	db := s.open(t)
	k := created(t, db, "readings", "time", 2)
	if err := db.Classify(nil); err != nil {
		t.Errorf("nil became %v", err)
	}
	wantError(t, k.try(db.SQL(), "SELECT 1 FROM nowhere"), engine.ErrNoTable)
	ts := k.Words().Literal(k.Table, k.parts[0].From)
	insert := "INSERT INTO readings (id, ts) VALUES (1, " + ts + ")"
	k.exec(t, db.SQL(), insert)
	wantError(t, k.try(db.SQL(), insert), engine.ErrDuplicateKey)
	if got := db.Bind("a ? b ? c"); strings.Count(got, "?") != 2 && !strings.Contains(got, "$2") {
		t.Errorf("bound as %q", got)
	}
	// Steps on a missing table, or with a missing source.
	nowhere := *k.Table
	nowhere.Name = "nowhere"
	for _, step := range []engine.Step{
		engine.Detach{Table: &nowhere, Have: k.parts, Part: k.parts[0], Into: "gone"},
		engine.Attach{Table: k.Table, Have: k.parts, Part: periods(t, k.Grid, k.parts[1].To, 1)[0], From: "nowhere"},
		engine.Replace{Table: k.Table, Have: k.parts, Old: k.parts[:1], New: k.parts[0], With: "nowhere", Out: []string{"out"}},
		engine.Replace{Table: k.Table, Have: k.parts, Old: k.parts[:1], New: k.parts[0], With: "readings"},
		engine.AddColumn{Table: &nowhere, Have: k.parts, Name: "x", Definition: "x INT"},
	} {
		if err := db.Try(within(t), step); err == nil {
			t.Errorf("%+v was taken", step)
		}
	}
	k.wantParts(t, k.parts)
	want(t, "rows", k.whole(t).Rows, 1)
	if _, err := db.PeriodSizes(within(t), &nowhere); !errors.Is(err, engine.ErrNoTable) {
		t.Errorf("sizes of a table that isn't there: %v", err)
	}
	if !strings.Contains(strings.ToUpper(db.Words().Text()), "TEXT") {
		t.Errorf("text is %q", db.Words().Text())
	}
	k.exec(t, db.SQL(), fmt.Sprintf("CREATE TABLE longer (id INT NOT NULL PRIMARY KEY, t %s, b %s)", db.Words().Text(), db.Words().Blob()))
	k.exec(t, db.SQL(), "INSERT INTO longer VALUES (1, ?, ?)", strings.Repeat("x", 1<<20), []byte(strings.Repeat("\x00", 1<<20)))
}

// Blockers returns the transactions that hold the table. It waits up to 10 s: until there are some
// if some is true, otherwise until there are none. InnoDB lists transactions from a cache, which
// lives longer when others read it.
func Blockers(t testing.TB, k engine.Keeper, table *engine.Table, some bool) []engine.Blocker {
	t.Helper()
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		blockers, err := k.Blockers(within(t), table)
		Must(t, err)
		if len(blockers) > 0 == some || time.Since(began) > 10*time.Second {
			return blockers
		}
	}
}
