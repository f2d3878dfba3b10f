package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// periods returns the periods of the table.
func (l *loading) periods() []rolling.Partition {
	l.Helper()
	parts, err := l.db.Catalog().Partitions(l.Context(), l.table)
	must(l, err)
	return parts
}

// drop drops the table without rowmill, as its owner could.
func (l *loading) drop() []rolling.Partition {
	l.Helper()
	parts := l.periods()
	execSQL(l, l.db, "DROP VIEW readings_15m_live")
	must(l, l.db.Apply(l.Context(), engine.DropTable{Table: l.table, Partitions: parts}))
	return parts
}

// remove deletes rows of the table with SQL, as another client could.
func (l *loading) remove(where string) {
	l.Helper()
	for _, p := range l.periods() {
		execSQL(l, l.db, "DELETE FROM "+l.db.Words().From(l.table, p)+where)
	}
}

// released waits until the server has noticed that the connections of a killed load
// are closed.
func (l *loading) released(path string) {
	l.Helper()
	for {
		lease, err := l.db.Lead(l.Context(), "readings/load/"+path)
		if err == nil {
			must(l, lease.Release())
			return
		}
		if !errors.Is(err, engine.ErrLockTimeout) || engine.Sleep(l.Context(), 10*time.Millisecond) != nil {
			l.Fatal(err)
		}
	}
}

// TestApplyAfterDropByHand drops a SQLite table by dropping its view and the tables of
// its periods, one by one. Their entries in rowmill_periods remain.
func TestApplyAfterDropByHand(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	path := l.write("day.csv", loadRows(0, 100, false).text)
	l.load(exitDone, path)
	run := func(q string) {
		t.Helper()
		execSQL(t, l.db, q)
	}
	parts := l.periods()
	run("DROP VIEW readings_15m_live")
	run("DROP VIEW readings")
	apply := func() session {
		return l.run("apply", "--yes")
	}
	if s := apply(); s.code == exitDone || !strings.Contains(s.stderr, "tables of its periods do") {
		t.Errorf("the rows are there, without the view: exit %d: %s", s.code, s.stderr)
	}
	for _, p := range parts {
		run("DROP TABLE readings_" + p.Name)
	}
	// Of two rebuilds that a crash interrupted, one had only begun to copy.
	st := state.New(l.db)
	for i, step := range []string{"copy", "swap"} {
		with := fmt.Sprintf("rowmill_new_readings_%d", parts[i].From)
		run("CREATE TABLE " + with + " (sensor INT)")
		c := &state.Change{Table: "readings", ID: fmt.Sprintf("rebuild %d", parts[i].From), Kind: "rebuild", Step: step}
		if _, err := st.Begin(t.Context(), c, map[string]any{"Old": parts[i : i+1], "New": parts[i], "With": with}); err != nil {
			t.Fatal(err)
		}
	}
	mustPass(t, apply())
	if left, err := st.Changes(t.Context(), "readings"); err != nil || len(left) > 0 {
		t.Errorf("rebuilds of the former table are under way: %+v, %v", left, err)
	}
	for i, stays := range []bool{false, true} {
		if _, err := l.db.Describe(t.Context(), fmt.Sprintf("rowmill_new_readings_%d", parts[i].From)); errors.Is(err, engine.ErrNoTable) == stays {
			t.Errorf("the table of rebuild %d: %v; it stays: %v", i, err, stays)
		}
	}
	l.loads("loaded into the new table", exitDone, "Inserted 100, Before 0", path)
}

// TestLoadIntoTableMadeAnew checks that a table that was dropped and applied again is
// a new table: no source counts as loaded into it, and none of its periods is sealed.
func TestLoadIntoTableMadeAnew(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		f := loadRows(0, 100, false)
		path := l.write("day.csv", f.text)
		l.load(exitDone, path)
		st := state.New(l.db)
		parts := l.periods()
		for i, archive := range []string{"", "archive/p1.parquet"} {
			p := state.Period{Table: "readings", Partition: parts[i], State: state.Archived, Archive: archive}
			must(l, st.Put(l.Context(), st.DB(), p))
		}
		must(l, st.SealedTo(l.Context(), st.DB(), "readings", parts[1].To))
		l.drop()
		apply := l.run("apply", "--yes")
		mustPass(l.T, apply)
		if !strings.Contains(apply.stderr, "begins with a new ledger") {
			l.Errorf("apply doesn't say so: %s", apply.stderr)
		}
		l.loads("loaded into the new table", exitDone, "Sent 100, Inserted 100, Before 0", path)
		l.check("in the new table", "day.csv.bad.jsonl", f)
		known, err := st.Periods(l.Context(), "readings")
		if err != nil || len(known) != 1 || known[0].State != state.Dropped || known[0].Archive == "" {
			l.Errorf("what is known of periods: %+v, %v; want the archived one, dropped", known, err)
		}
		if to, err := st.SealedUpTo(l.Context(), "readings"); err != nil || to > parts[0].From {
			l.Errorf("sealed up to %d, %v", to, err)
		}
		// A running load doesn't restore its information about the former table.
		all, err := st.Sources(l.Context(), "readings", state.FileSource, "")
		if err != nil || len(all) != 1 {
			l.Fatal(all, err)
		}
		must(l, st.ResetRows(l.Context(), st.DB(), "readings"))
		if err := st.Settle(l.Context(), &all[0], nil); err == nil || !strings.Contains(err.Error(), "dropped and created again") {
			l.Errorf("a source that was forgotten is settled: %v", err)
		}
	})
}

// TestLoadMissesRows checks that loaded rows that are no longer in the table are
// reported as missing, however they were removed, unless their period has been
// dropped.
func TestLoadMissesRows(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		f, later := loadRows(0, 100, false), loadRows(1000, 20, false)
		path, other := l.write("day.csv", f.text), l.write("other.csv", strings.ReplaceAll(later.text, "-29 00:", "-29 05:"))
		l.load(exitDone, path)
		l.load(exitDone, other, "--batch", "3")
		got, _ := l.load(exitDone, path, other)
		for i, n := range []int64{100, 20} {
			if g := got[i]; g.Sent != 0 || g.Before != n || time.Since(g.LoadedAt) > time.Hour || g.Missing+g.Gone != 0 || g.Unlooked != "" {
				l.Errorf("nothing is missing: %+v", g)
			}
		}
		s := rowmill(l.Context(), "load", l.file, path)
		mustPass(l.T, s)
		if want := got[0].LoadedAt.Format("on 2006-01-02 15:04 UTC; nothing to do"); !strings.Contains(s.stdout, want) || !strings.Contains(s.stdout, "--again") {
			l.Errorf("want %q and how to load it again: %s", want, s.stdout)
		}

		l.remove(" WHERE sensor < 30")
		got, stderr := l.load(exitFailed, path, other)
		if got[0].Missing != 30 || got[0].Sent != 0 || got[1].Missing != 0 {
			l.Errorf("30 rows were deleted: %+v", got)
		}
		if !strings.Contains(stderr, "30 rows of "+path) || !strings.Contains(stderr, "Try: --again") {
			l.Errorf("stderr: %s", stderr)
		}
		// The added rows of a file that has grown are loaded.
		more := loadRows(2000, 5, false)
		l.write("day.csv", f.text+more.body())
		l.loads("grown", exitFailed, "Sent 5, Missing 30", path)
		l.loads("again", exitDone, "Sent 105, Inserted 30, Duplicate 75, Before 0", path, "--again")
		l.loads("after that", exitDone, "Sent 0, Before 105, Missing 0", path)
		l.remove(" WHERE sensor < 3")
		l.loads("removed on purpose", exitDone, "Sent 0, Missing 0", path, "--accept-missing")
		l.load(exitDone, path)

		// A table that was dropped and created without rowmill.
		parts := l.drop()
		must(l, l.db.Apply(l.Context(), engine.CreateTable{Table: l.table, Partitions: parts}))
		if got, _ := l.load(exitFailed, path, other); got[0].Missing != 102 || got[1].Missing != 20 {
			l.Errorf("created by hand: %+v", got)
		}
		l.load(exitDone, "--again", path, other)
		l.hasRows(125)
	})
}

// TestLoadAcceptsThatAllIsMissing checks that once all rows of a file are accepted as
// missing, later loads report nothing, and --again loads the whole file.
func TestLoadAcceptsThatAllIsMissing(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		path := l.write("day.csv", loadRows(0, 20, false).text)
		l.load(exitDone, path)
		l.remove("")
		l.load(exitDone, path, "--accept-missing")
		for range 2 {
			if got, stderr := l.load(exitDone, path); got[0].Missing != 0 || got[0].Unlooked != "" || stderr != "" {
				l.Errorf("accepted: %+v, %s", got[0], stderr)
			}
		}
		l.loads("again", exitDone, "Inserted 20", path, "--again")
		l.remove(" WHERE sensor < 3")
		l.loads("3 rows were deleted", exitFailed, "Missing 3", path)
	})
}

// TestLoadKnowsWhatRetentionTook checks that rows dropped by retention aren't reported
// as missing.
func TestLoadKnowsWhatRetentionTook(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		f := loadRows(0, 300, false) // in the first two periods
		path := l.write("day.csv", f.text)
		l.load(exitDone, path)
		parts := l.periods()
		lower := 0
		for _, row := range f.want {
			if strings.Contains(row, " 00:") {
				lower++
			}
		}
		if lower == 0 || lower == len(f.want) {
			l.Fatalf("%d of %d rows lie in the first period", lower, len(f.want))
		}
		must(l, l.db.Apply(l.Context(), engine.DropPartition{Table: l.table, Have: parts, Drop: parts[0]}))
		s := rowmill(l.Context(), "load", l.file, path)
		mustPass(l.T, s)
		if want := fmt.Sprintf("%d lay in periods that the table no longer has", lower); !strings.Contains(s.stdout, want) || !strings.Contains(s.stdout, "nothing to do") {
			l.Errorf("want %q: %s", want, s.stdout)
		}
		l.remove("")
		if got, _ := l.load(exitFailed, path); got[0].Gone != int64(lower) || got[0].Missing != int64(len(f.want)-lower) {
			l.Errorf("the rest was deleted: %+v", got[0])
		}
	})
}

// TestLoadAgainWithoutKey checks sources that lack part of the table's key, or have a
// key whose columns may be NULL: only the ledger prevents duplicates.
func TestLoadAgainWithoutKey(t *testing.T) {
	for _, server := range testdb.Kinds(t, keepers...) {
		for name, keys := range map[string]string{"none": "PRIMARY KEY (id, ts)", "nulls": "PRIMARY KEY (id, ts), UNIQUE (note, ts)"} {
			t.Run(server+"/"+name, func(t *testing.T) {
				t.Parallel()
				l := newNumberedOf(t, server, keys)
				f := loadRows(0, 100, false)
				path := l.write("day.csv", f.text)
				l.load(exitDone, path)
				if _, stderr := l.load(exitFailed, path, "--again"); !strings.Contains(stderr, "would be there twice") {
					l.Errorf("stderr: %s", stderr)
				}
				l.remove("")
				l.loads("once they are gone", exitDone, "Inserted 100", path, "--again")
				l.check("again", "day.csv.bad.jsonl", f)
			})
		}
	}
}

// TestLoadMissesRowsOfKilledLoad checks that the ledger of a killed load has the
// committed rows and their periods. A killed load with --again continues without that
// flag.
func TestLoadMissesRowsOfKilledLoad(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		f := loadRows(0, 300, false)
		path := l.write("day.csv", f.text)
		small := []string{"--batch", "20", "--writers", "1"}
		l.kill(6, "", append([]string{path}, small...)...)
		l.released(path)
		n := len(l.rows())
		if n == 0 || n == 300 {
			l.Fatalf("killed at %d rows", n)
		}
		l.remove("")
		if got, _ := l.load(exitFailed, path); got[0].Missing != int64(n) || got[0].Sent != int64(300-n) {
			l.Errorf("%d rows were deleted: %+v", n, got[0])
		}
		if got, _ := l.load(exitFailed, path); got[0].Missing != int64(n) {
			l.Errorf("once it is settled: %+v", got[0])
		}
		l.kill(6, "", append([]string{path, "--again"}, small...)...)
		l.released(path)
		if got, _ := l.load(exitDone, path); got[0].Before == 0 || got[0].Before+got[0].Sent != 300 {
			l.Errorf("loading anew goes on: %+v", got[0])
		}
		l.hasRows(300)
		// Rows that all existed before the load are reported as missing, too.
		l.loads("all is there", exitDone, "Duplicate 300", path, "--again")
		l.remove("")
		l.loads("and then nothing", exitFailed, "Missing 300", path)
	})
}

// TestLoadOwnsRowsThatWereThere checks that rows that were in the table before belong to
// a file, too: they are missed.
func TestLoadOwnsRowsThatWereThere(t *testing.T) {
	t.Parallel()
	onKeepers(t, func(l *loading) {
		f := loadRows(0, 100, false)
		path, other := l.write("day.csv", f.text), l.write("other.csv", f.text)
		l.load(exitDone, path)
		l.loads("the same rows in another file", exitDone, "Duplicate 100", other)
		l.remove("")
		if got, _ := l.load(exitFailed, path, other); got[0].Missing != 100 || got[1].Missing != 100 {
			l.Errorf("100 rows of each file were deleted: %+v", got)
		}
	})
}
