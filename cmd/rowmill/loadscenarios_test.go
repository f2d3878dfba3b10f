package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/cli"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/state"
)

// A scenario is a sequence of loads into a table on one or several kinds of databases.
type loadScenario struct {
	on  func(*testing.T, func(*loading))
	run func(*loading)
}

// TestLoad runs the scenarios.
func TestLoad(t *testing.T) {
	t.Parallel()
	for name, s := range loadScenarios {
		t.Run(name, func(t *testing.T) { s.on(t, s.run) })
	}
}

const loadHeader = "sensor,ts,value,note\n"

var loadScenarios = map[string]loadScenario{
	// As when each new file replaces the last.
	"former content": {onNumbered, func(l *loading) {
		a, b, more := loadRows(0, 100, true), loadRows(1000, 60, false), loadRows(2000, 20, false)
		l.write("day.csv", a.text)
		l.loads(anyCode, "", "day.csv")
		l.write("day.csv", b.text)
		l.loads(exitDone, "", "day.csv")
		l.write("day.csv", a.text)
		l.loads(exitDone, "Sent 0, Before 100, Finished true", "day.csv")
		l.write("day.csv", b.text+more.body())
		l.loads(exitDone, "Sent 20, Before 60", "day.csv")
		l.check("day.csv.bad.jsonl", a, b, more)
	}},

	// Rotated, moved and linked files aren't loaded again.
	"another path": {onNumbered, func(l *loading) {
		first, more, second, third, fourth := loadRows(0, 100, false), loadRows(500, 30, false), loadRows(1000, 60, false), loadRows(2000, 300, false), loadRows(4000, 10, false)
		path := l.write("log.csv", first.text)
		l.loads(exitDone, "", "log.csv")
		// The file has grown before it is rotated, and another file takes its name.
		l.write("old.csv", first.text+more.body())
		l.write("log.csv", second.text)
		l.loads(exitDone, "Sent 30, Before 100; loaded already as "+path, "old.csv")
		l.loads(exitDone, "Sent 60, Before 0", "log.csv")
		must(l, os.Symlink(path, filepath.Join(l.dir, "link.csv")))
		l.write("old.csv.gz", pack(l.T, "old.csv.gz", first.text+more.body()))
		l.loads(exitDone, "Sent 0, Before 60, 1.Sent 0, 1.Before 130, 2.Sent 0, 2.Before 130", "link.csv old.csv.gz old.csv")
		// A file that was loaded in part is continued, too.
		l.write("third.csv", third.text)
		l.kill(6, "", "third.csv --batch 20 --writers 1")
		l.write("moved.csv", third.text)
		if got := l.loads(exitDone, "Sent 300", "moved.csv")[0]; got.Continued == 0 {
			l.Errorf("begun by another name: %+v", got)
		}
		// A header alone doesn't make two files the same.
		l.write("a.csv", loadHeader)
		l.write("b.csv", fourth.text)
		l.loads(exitDone, "1.Sent 10, 1.Before 0", "a.csv b.csv")
		l.check("log.csv.bad.jsonl", first, more, second, third, fourth)
	}},

	// A file that is being copied begins like the loaded one: it isn't loaded as a
	// different file, and isn't an error.
	"copy in the making": {onNumbered, func(l *loading) {
		f := loadRows(0, 300, false)
		l.write("day.csv", f.text)
		l.loads(exitDone, "", "day.csv")
		l.write("copy.csv", f.text[:6001])
		l.loads(exitDone, "Sent 0; left for the next load", "copy.csv")
		l.write("copy.csv", f.text)
		l.loads(exitDone, "Sent 0, Before 300", "copy.csv")
		l.check("copy.csv.bad.jsonl", f)
	}},

	"two paths begun at once": {onNumbered, begunAtOnce},
	// The lock on their first bytes is lost before anything is recorded.
	"two paths begun at once, and a lock is lost": {onNumbered, func(l *loading) {
		f := loadRows(0, 200, false)
		path := l.write("day.csv", f.text)
		l.write("copy.csv", f.text)
		inside, open := make(chan bool), make(chan bool)
		var once sync.Once
		var name string
		var begun *losingLease
		db := &faulty{Keeper: l.db, leading: func(next string) {
			if name = next; !strings.Contains(name, path) && !strings.Contains(name, "/begun/") {
				once.Do(func() {
					_ = begun.Release()
					close(begun.lost)
					close(inside)
					<-open
				})
			}
		}, led: func(lease engine.Lease) engine.Lease {
			if begun == nil && strings.Contains(name, "/begun/") {
				begun = &losingLease{lease, make(chan struct{})}
				return begun
			}
			return lease
		}}
		end := l.begin(l.options(db), path, inside)
		l.loads(exitDone, "Sent 200", "copy.csv")
		close(open)
		must(l, end())
		l.check("bad.jsonl", f)
	}},
	// If no row could be loaded, the file is known, but its contents are not.
	"two paths begun at once after nothing of one was loaded": {onNumbered, func(l *loading) {
		l.write("day.csv", loadRows(0, 200, false).text)
		l.loads(exitFailed, "Rejected 200, Inserted 0", "day.csv --columns ts,sensor,value,note --header")
		begunAtOnce(l)
	}},

	// After the connection with the lock is lost, as by a restart of the server, the
	// load takes the lock again, continues, and counts its rows once.
	"lost lock": {onNumbered, func(l *loading) {
		f, g := loadRows(0, 1000, false), loadRows(10_000, 1000, false)
		path := l.write("day.csv", f.text)
		var mu sync.Mutex
		var leases []chan struct{}
		db := &faulty{Keeper: l.db, led: func(lease engine.Lease) engine.Lease {
			mu.Lock()
			defer mu.Unlock()
			leases = append(leases, make(chan struct{}))
			return &losingLease{lease, leases[len(leases)-1]}
		}}
		lose := func() (some bool) {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range leases {
				close(c)
			}
			some, leases = len(leases) > 0, nil
			return some
		}
		o := l.options(db)
		o.Rows = 20
		var steps, lost, said atomic.Int64
		o.Say = func(line string) {
			if strings.Contains(line, "the lock on this source is lost") {
				said.Add(1)
			}
		}
		o.Reached = func(string) {
			// The second time once the lock has been taken again.
			if n := lost.Load(); n < 2 && steps.Add(1) >= 20+40*n && lose() {
				lost.Add(1)
			}
		}
		// With Again, a file that was not loaded before continues, too.
		for i, path := range []string{path, l.write("new.csv", g.text)} {
			o.Again = i == 1
			steps.Store(0)
			lost.Store(0)
			said.Store(0)
			r, err := ingest.File(l.Context(), o, path)
			must(l, err)
			if r.Sent != 1000 || r.Inserted != 1000 || r.Before != 0 || !r.Finished || said.Load() != 2 || i == 1 && !r.LoadedAt.IsZero() {
				l.Errorf("loaded: %+v, said %d times", r, said.Load())
			}
		}
		l.check("bad.jsonl", f, g)
		l.has("1000 1000 0 0; 1000 1000 0 0", "SELECT sent, inserted, duplicate, rejected FROM rowmill_sources")
		// Without time for retries, the load ends with the reason.
		o.Again, o.RetryFor, o.Reached = false, 0, func(string) {
			time.Sleep(20 * time.Millisecond)
			lose()
		}
		l.write("day.csv", f.text+loadRows(5000, 500, false).body())
		if _, err := ingest.File(l.Context(), o, path); err == nil || !strings.Contains(err.Error(), "the lock on this source is lost") {
			l.Errorf("without --retry: %v", err)
		}
	}},

	// Another process continues the load after the lock is lost: both count all of its rows.
	"lost lock, and another load in between": {onNumbered, func(l *loading) {
		f := loadRows(0, 1000, false)
		path := l.write("day.csv", f.text)
		lost, leads := make(chan struct{}), 0
		var other ingest.Outcome
		db := &faulty{Keeper: l.db, led: func(lease engine.Lease) engine.Lease { return &losingLease{lease, lost} }}
		db.leading = func(string) {
			select {
			case <-lost:
			default:
				return
			}
			if leads++; leads == 1 {
				lost = make(chan struct{})
				other = l.loads(exitDone, "Finished true", "day.csv")[0]
			}
		}
		o := l.options(db)
		o.Rows, o.Writers = 20, 1
		var steps atomic.Int64
		o.Reached = func(string) {
			if steps.Add(1) == 20 {
				close(lost)
			}
		}
		r, err := ingest.File(l.Context(), o, path)
		must(l, err)
		if leads == 0 || other.Sent == 0 || r.Sent != 1000 || other.Continued == 0 || other.Sent != 1000 {
			l.Errorf("this load counts %d of 1000 rows, the other one %d, of which %d were sent before", r.Sent, other.Sent, other.Continued)
		}
		l.check("bad.jsonl", f)
		l.has("1000 1000", "SELECT sent, inserted FROM rowmill_sources")
	}},

	// A partly loaded file isn't continued with options that interpret its bytes
	// differently; rows added to a complete file may be.
	"other options": {onNumbered, func(l *loading) {
		f, more := loadRows(0, 300, false), loadRows(1000, 10, false)
		l.write("day.csv", f.text)
		l.kill(4, "", "day.csv --batch 20 --writers 1")
		for _, option := range []string{"--time-zone Europe/Berlin", "--delimiter ;", "--null NULL", "--truncate-times", "--bytes raw", "--unix-times ms",
			"--columns sensor,ts,value,note", "--header=false", "--encoding latin1", "--skip-lines 1", "--comment x", "--escape backslash", "--null-quoted",
			"--skip-columns note", "--set note=x", "--decimal-comma", "--time-format %F"} {
			name := strings.FieldsFunc(option, func(r rune) bool { return r == ' ' || r == '=' })[0]
			l.loads(exitFailed, "; was begun with other options: "+name+"; Try: the same options; --again, which", "day.csv "+option)
		}
		l.loads(exitDone, "", "day.csv")
		l.check("day.csv.bad.jsonl", f)
		l.write("day.csv", f.text+more.body())
		l.loads(exitDone, "", "day.csv --null NULL")
		l.check("day.csv.bad.jsonl", f, more)
	}},

	// A load that ended because of its bad rows begins anew with corrected options, unless some
	// of its rows are in the table.
	"corrected options": {onKeepers, func(l *loading) {
		bad, good := "sensor,ts,value,note\n", "sensor,ts,value,note\n1,2026-03-29 00:30:00,1,x\n"
		for i := range 60 {
			row := fmt.Sprintf("%d,29/03/2026T01:00:%02d,1,x\n", i, i)
			bad, good = bad+row, good+row
		}
		l.write("bad.csv", bad)
		const wrong, right = " --max-bad 20 --batch 10 --writers 1", " --time-format %d/%m/%YT%T"
		l.loads(exitFailed, "Finished false, Inserted 0; more than 20 rows can't be loaded", "bad.csv"+wrong)
		l.loads(exitDone, "Sent 60, Inserted 60, Continued 0, Before 0; begins anew; --time-format was", "bad.csv"+right)
		if rows := l.bad("bad.csv.bad.jsonl"); len(rows) > 0 {
			l.Errorf("%d bad rows are left", len(rows))
		}
		l.loads(exitDone, "Sent 0, Before 60", "bad.csv"+right)
		l.remove("")
		l.write("good.csv", good)
		l.loads(exitFailed, "Finished false", "good.csv"+wrong)
		l.loads(exitFailed, "; begun with other options; Try: the same options; --again", "good.csv"+right)
		l.loads(exitFailed, "Sent 61, Inserted 60, Rejected 1", "good.csv --again"+right)
		l.hasRows(61)
	}},

	// The table is dropped and created between two batches of a load. No batch of that
	// load may be committed into the new table, so that the next one, which starts from
	// the beginning, inserts no row twice.
	"table made anew during the load": {onNumbered, func(l *loading) {
		f := loadRows(0, 100, false)
		path := l.write("day.csv", f.text)
		o := l.options(&faulty{Keeper: l.db, begin: func(_ context.Context, n int64) error {
			if n == 3 {
				l.drop()
				mustPass(l.T, l.run("apply", "--yes"))
			}
			return nil
		}})
		o.Rows, o.Writers = 20, 1
		if _, err := ingest.File(l.Context(), o, path); !errors.Is(err, state.ErrForgotten) || cli.HintOf(err) == "" {
			l.Errorf("the load into the former table ends in %v, hint %q", err, cli.HintOf(err))
		}
		l.hasRows(0)
		l.loads(exitDone, "Inserted 100, Before 0", "day.csv")
		l.check("day.csv.bad.jsonl", f)
	}},

	// A table that was dropped and applied again is a new table: no source counts as
	// loaded into it, and none of its periods is sealed.
	"table made anew": {onKeepers, func(l *loading) {
		f := loadRows(0, 100, false)
		l.write("day.csv", f.text)
		l.loads(exitDone, "", "day.csv")
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
		l.loads(exitDone, "Sent 100, Inserted 100, Before 0", "day.csv")
		l.check("day.csv.bad.jsonl", f)
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
	}},

	// The view and the tables of the periods are dropped one by one. Their entries in
	// rowmill_periods remain.
	"table dropped by hand": {onSQLite, func(l *loading) {
		l.write("day.csv", loadRows(0, 100, false).text)
		l.loads(exitDone, "", "day.csv")
		parts := l.periods()
		execSQL(l, l.db, "DROP VIEW readings_15m_live")
		execSQL(l, l.db, "DROP VIEW readings")
		if s := l.run("apply", "--yes"); s.code == exitDone || !strings.Contains(s.stderr, "tables of its periods do") {
			l.Errorf("the rows are there, without the view: exit %d: %s", s.code, s.stderr)
		}
		for _, p := range parts {
			execSQL(l, l.db, "DROP TABLE readings_"+p.Name)
		}
		// Of two rebuilds that a crash interrupted, one had only begun to copy.
		st := state.New(l.db)
		for i, step := range []string{"copy", "swap"} {
			with := fmt.Sprintf("rowmill_new_readings_%d", parts[i].From)
			execSQL(l, l.db, "CREATE TABLE "+with+" (sensor INT)")
			c := &state.Change{Table: "readings", ID: fmt.Sprintf("rebuild %d", parts[i].From), Kind: "rebuild", Step: step}
			_, err := st.Begin(l.Context(), c, map[string]any{"Old": parts[i : i+1], "New": parts[i], "With": with})
			must(l, err)
		}
		mustPass(l.T, l.run("apply", "--yes"))
		if left, err := st.Changes(l.Context(), "readings"); err != nil || len(left) > 0 {
			l.Errorf("rebuilds of the former table are under way: %+v, %v", left, err)
		}
		for i, stays := range []bool{false, true} {
			if _, err := l.db.Describe(l.Context(), fmt.Sprintf("rowmill_new_readings_%d", parts[i].From)); errors.Is(err, engine.ErrNoTable) == stays {
				l.Errorf("the table of rebuild %d: %v; it stays: %v", i, err, stays)
			}
		}
		l.loads(exitDone, "Inserted 100, Before 0", "day.csv")
	}},

	// Loaded rows that are no longer in the table are missing, however they were
	// removed.
	"missing rows": {onKeepers, func(l *loading) {
		f, later := loadRows(0, 100, false), loadRows(1000, 20, false)
		path := l.write("day.csv", f.text)
		l.write("other.csv", strings.ReplaceAll(later.text, "-29 00:", "-29 05:"))
		l.loads(exitDone, "", "day.csv")
		l.loads(exitDone, "", "other.csv --batch 3")
		got := l.loads(exitDone, "Sent 0, Before 100, Missing 0, Gone 0, Unlooked , 1.Sent 0, 1.Before 20, 1.Missing 0, 1.Gone 0, 1.Unlooked ", "day.csv other.csv")
		if time.Since(got[0].LoadedAt) > time.Hour {
			l.Errorf("loaded at %s", got[0].LoadedAt)
		}
		l.prints(exitDone, "day.csv", got[0].LoadedAt.Format("on 2006-01-02 15:04 UTC; nothing to do"), "--again")
		l.remove(" WHERE sensor < 30")
		l.loads(exitFailed, "Missing 30, Sent 0, 1.Missing 0; 30 rows of "+path+"; Try: --again", "day.csv other.csv")
		// The added rows of a file that has grown are loaded.
		l.write("day.csv", f.text+loadRows(2000, 5, false).body())
		l.loads(exitFailed, "Sent 5, Missing 30", "day.csv")
		l.loads(exitDone, "Sent 105, Inserted 30, Duplicate 75, Before 0", "day.csv --again")
		l.loads(exitDone, "Sent 0, Before 105, Missing 0", "day.csv")
		l.remove(" WHERE sensor < 3")
		l.loads(exitDone, "Sent 0, Missing 0", "day.csv --accept-missing")
		l.loads(exitDone, "", "day.csv")
		// A table that was dropped and created without rowmill.
		parts := l.drop()
		must(l, l.db.Apply(l.Context(), engine.CreateTable{Table: l.table, Partitions: parts}))
		l.loads(exitFailed, "Missing 102, 1.Missing 20", "day.csv other.csv")
		l.loads(exitDone, "", "--again day.csv other.csv")
		l.hasRows(125)
	}},

	// Once all rows of a file are accepted as missing, later loads report nothing.
	"all is missing": {onKeepers, func(l *loading) {
		l.write("day.csv", loadRows(0, 20, false).text)
		l.loads(exitDone, "", "day.csv")
		l.remove("")
		l.loads(exitDone, "", "day.csv --accept-missing")
		for range 2 {
			l.loads(exitDone, "Missing 0, Unlooked ", "day.csv")
		}
		l.loads(exitDone, "Inserted 20", "day.csv --again")
		l.remove(" WHERE sensor < 3")
		l.loads(exitFailed, "Missing 3", "day.csv")
	}},

	// Rows dropped by retention aren't missing.
	"retention": {onKeepers, func(l *loading) {
		f := loadRows(0, 300, false) // in the first two periods
		l.write("day.csv", f.text)
		l.loads(exitDone, "", "day.csv")
		parts := l.periods()
		lower := strings.Count(strings.Join(f.want, "\n"), " 00:")
		must(l, l.db.Apply(l.Context(), engine.DropPartition{Table: l.table, Have: parts, Drop: parts[0]}))
		l.prints(exitDone, "day.csv", fmt.Sprintf("%d lay in periods that the table no longer has", lower), "nothing to do")
		l.remove("")
		l.loads(exitFailed, fmt.Sprintf("Gone %d, Missing %d", lower, len(f.want)-lower), "day.csv")
	}},

	// The source lacks part of the table's key, or has a key whose columns may be NULL:
	// only the ledger prevents duplicates.
	"again without a key": {onKeys, func(l *loading) {
		f := loadRows(0, 100, false)
		l.write("day.csv", f.text)
		l.loads(exitDone, "", "day.csv")
		l.loads(exitFailed, "; would be there twice", "day.csv --again")
		l.remove("")
		l.loads(exitDone, "Inserted 100", "day.csv --again")
		l.check("day.csv.bad.jsonl", f)
	}},

	// The ledger of a killed load has the committed rows and their periods. A killed
	// load with --again continues without that flag.
	"missing rows of a killed load": {onKeepers, func(l *loading) {
		l.write("day.csv", loadRows(0, 300, false).text)
		// killed waits until the server has noticed that the connections are closed.
		killed := func(args string) {
			l.kill(6, "", args+" --batch 20 --writers 1")
			path := filepath.Join(l.dir, strings.Fields(args)[0])
			l.waits("released", func() bool {
				lease, err := l.db.Lead(l.Context(), "readings/load/"+path)
				if err == nil {
					must(l, lease.Release())
				} else if !errors.Is(err, engine.ErrLockTimeout) {
					l.Fatal(err)
				}
				return err == nil
			})
		}
		killed("day.csv")
		n := len(l.rows())
		if n == 0 || n == 300 {
			l.Fatalf("killed at %d rows", n)
		}
		l.remove("")
		l.loads(exitFailed, fmt.Sprintf("Missing %d, Sent 300, Continued %d", n, n), "day.csv")
		l.loads(exitFailed, fmt.Sprintf("Missing %d", n), "day.csv")
		killed("day.csv --again")
		if got := l.loads(exitDone, "Sent 300", "day.csv")[0]; got.Continued == 0 {
			l.Errorf("loading anew goes on: %+v", got)
		}
		l.hasRows(300)
		// What a killed load has committed is loaded again, too.
		l.write("part.csv", loadRows(1000, 300, false).text)
		killed("part.csv")
		if got := l.loads(exitDone, "Sent 300, Before 0", "part.csv --again")[0]; got.Duplicate == 0 || got.Duplicate+got.Inserted != 300 {
			l.Errorf("again, of a part: %+v", got)
		}
		l.remove(" WHERE sensor >= 1000")
		// Rows that all existed before the load are missing, too.
		l.loads(exitDone, "Duplicate 300", "day.csv --again")
		l.remove("")
		l.loads(exitFailed, "Missing 300", "day.csv")
	}},

	// A file of which no row could be loaded doesn't count as loaded: the corrected
	// command loads it.
	"nothing of a file": {onKeepers, func(l *loading) {
		l.write("day.csv", "2026-03-29 01:00:00,1,1\n2026-03-29 01:00:01,2,1\n2026-03-29 01:00:02,3,1\n")
		for range 2 {
			l.loads(exitFailed, "Rejected 3, Inserted 0", "day.csv --header=false --columns value,ts,sensor --batch 2")
		}
		l.refused("day.csv", map[int64]string{1: "", 2: "", 3: ""})
		l.loads(exitDone, "Inserted 3, Rejected 0", "day.csv --header=false --columns ts,sensor,value")
		l.refused("day.csv", nil)
	}},

	// A day after a file was loaded, its entries of the ledger are deleted. Those of a
	// file that is not loaded completely stay.
	"tidy ledger": {onKeepers, func(l *loading) {
		l.write("done.csv", loadRows(0, 100, false).text)
		l.loads(exitDone, "", "done.csv --batch 10")
		l.write("begun.csv", loadRows(1000, 100, false).text)
		l.kill(9, "", "begun.csv --batch 10 --writers 1")
		st := state.New(l.db)
		lines := func(path string) int {
			return len(l.query("SELECT batch FROM rowmill_ledger AS g JOIN rowmill_sources AS s ON s.source = SUBSTR(g.batch, 1, 16) WHERE s.path LIKE '%" + path + "'"))
		}
		begun := lines("begun.csv")
		if begun == 0 || begun == 10 {
			l.Fatalf("killed after %d batches", begun)
		}
		tidied := func(before time.Duration, done int) {
			l.Helper()
			must(l, st.Tidy(l.Context(), "readings", time.Now().Add(before)))
			if lines("done.csv") != done || lines("begun.csv") != begun {
				l.Errorf("%d and %d lines are left, want %d and %d", lines("done.csv"), lines("begun.csv"), done, begun)
			}
		}
		tidied(-time.Minute, 10)
		tidied(time.Minute, 0)
		l.loads(exitDone, "", "begun.csv")
		l.hasRows(200)
		l.loads(exitDone, "Sent 0, Before 100", "done.csv")
	}},

	// A file larger than the limit on cutting batches ahead.
	"beyond what is cut ahead": {onSQLite, func(l *loading) {
		var b strings.Builder
		for i := range 6000 {
			fmt.Fprintf(&b, "%d,2026-03-29 01:00:00,1.%s,ok\n", i, strings.Repeat("9", 8000))
		}
		l.write("day.csv", b.String())
		l.loads(exitDone, "Inserted 6000", "day.csv --header=false")
	}},

	// A file that has become empty counts as changed.
	"empty file": {onSQLite, func(l *loading) {
		f := loadRows(0, 10, false)
		l.write("empty.csv", "")
		l.write("day.csv", f.text)
		l.loads(exitDone, "Finished true, Sent 0", "empty.csv day.csv")
		l.write("day.csv", "")
		l.loads(exitFailed, "; shorter than it was", "day.csv")
		l.check("day.csv.bad.jsonl", f)
	}},

	// A file first loaded with only its header is later identified by its rows.
	"head that grows": {onSQLite, func(l *loading) {
		a, b := loadRows(0, 300, false), loadRows(1000, 200, false)
		for _, text := range []string{loadHeader, a.text} {
			l.write("day.csv", text)
			l.loads(exitDone, "", "day.csv")
		}
		l.has("4096", "SELECT head FROM rowmill_sources")
		l.write("day.csv", b.text)
		l.loads(exitDone, "Sent 200", "day.csv")
		l.check("day.csv.bad.jsonl", a, b)
	}},

	// --max-bad applies to the file, not to each attempt.
	"most bad rows": {onSQLite, func(l *loading) {
		l.write("day.csv", loadHeader+strings.Repeat("x,2026-03-29 01:00:00,1,ok\n", 10))
		for range 3 {
			l.loads(exitFailed, "", "day.csv --batch 1 --writers 1 --max-bad 4")
		}
		l.has("4 0 4", "SELECT SUM(sent), SUM(inserted), SUM(rejected) FROM rowmill_ledger")
	}},

	// A log is copied and truncated while it is read: the incomplete row at its end is
	// not loaded.
	"truncated meanwhile": {onSQLite, func(l *loading) {
		f := loadRows(0, 10_000, false).wide()
		path := l.write("day.csv", f.text)
		o := l.options(l.db)
		o.Rows = 20
		var once sync.Once
		o.Reached = func(string) {
			once.Do(func() { must(l, os.Truncate(path, int64(len(f.text)*3/4+5))) })
		}
		r, err := ingest.File(l.Context(), o, path)
		if err == nil || !strings.Contains(err.Error(), "truncated while it was read") || r.Finished || len(l.bad("bad.jsonl")) > 0 {
			l.Errorf("%+v, %v, bad rows: %+v", r, err, l.bad("bad.jsonl"))
		}
		got := l.rows()
		if len(got) == 0 || len(got) >= len(f.want) || got[len(got)-1] != f.want[len(got)-1] {
			l.Errorf("%d rows", len(got))
		}
	}},

	// A dry run has a separate file of bad rows, which holds only those of the last dry
	// run; it doesn't change the file of a load.
	"dry runs": {onSQLite, func(l *loading) {
		l.write("day.csv", loadHeader+"x,2026-03-29 01:00:00,1,ok\n1,2026-03-29 01:00:00,1,ok\n")
		files := func(dry, bad int) {
			l.Helper()
			if d, b := len(l.bad("day.csv.dry.jsonl")), len(l.bad("day.csv.bad.jsonl")); d != dry || b != bad {
				l.Errorf("%d and %d bad rows, want %d of the dry run and %d", d, b, dry, bad)
			}
		}
		for range 2 {
			l.loads(exitFailed, "", "day.csv --dry-run")
		}
		files(1, 0)
		l.loads(exitFailed, "", "day.csv")
		for range 2 {
			l.loads(exitFailed, "", "day.csv --dry-run --bad day.csv.bad.jsonl")
		}
		files(1, 2)
		l.write("day.csv", loadHeader)
		l.loads(exitDone, "", "day.csv --dry-run")
		files(0, 2)
	}},
}

// onKeys is onKeepers with keys of which the source has no whole one without NULL.
func onKeys(t *testing.T, fn func(l *loading)) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, server string) {
		for _, keys := range []string{"", ", UNIQUE (note, ts)"} {
			fn(newLoading(t, server, numbered(server, keys)...))
		}
	})
}

// A losingLease is lost when its channel is closed.
type losingLease struct {
	engine.Lease
	lost chan struct{}
}

func (l *losingLease) Lost() <-chan struct{} { return l.lost }

// begunAtOnce begins to load the same bytes by two names at the same moment. Because
// nothing is recorded yet, each could treat the bytes as new.
func begunAtOnce(l *loading) {
	f := loadRows(0, 200, false)
	path := l.write("day.csv", f.text)
	l.write("copy.csv", f.text)
	inside, open := make(chan bool), make(chan bool)
	var once sync.Once
	// The lock on the known contents takes long.
	db := &faulty{Keeper: l.db, leading: func(name string) {
		if !strings.Contains(name, path) && !strings.Contains(name, "/begun/") {
			once.Do(func() {
				close(inside)
				<-open
			})
		}
	}}
	end := l.begin(l.options(db), path, inside)
	second := make(chan []ingest.Outcome, 1)
	go func() {
		defer close(second)
		second <- l.loads(anyCode, "", "copy.csv")
	}()
	select {
	case got := <-second:
		l.Errorf("the second one didn't wait: %+v", got)
	case <-time.After(time.Second):
	}
	close(open)
	must(l, end())
	if got := <-second; len(got) > 0 && got[0].Sent != 0 { // already loaded, or still being loaded
		l.Errorf("the second one: %+v", got)
	}
	l.check("bad.jsonl", f)
}

// TestLoadBadInput checks that invalid arguments are refused before anything is
// loaded.
func TestLoadBadInput(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	l.write("good.csv", loadRows(0, 10, false).text)
	l.write("rows.csv", "1,2026-03-29 01:00:00,1,a\n2,2026-03-29 01:00:00,2,b\n")
	l.write("dump.sql", "/*!40103 SET TIME_ZONE='+00:00' */;INSERT INTO `readings` (ts, sensor) VALUES ('2026-03-29 01:00:00',8);\n")
	must(t, os.Mkdir(filepath.Join(l.dir, "empty"), 0o755))
	for _, c := range []struct {
		args string
		code int
		says []string
	}{
		{"", exitUsage, []string{"no source is given"}},
		{"good.csv missing.csv", exitFailed, []string{"missing.csv: no such file", "nothing has been loaded"}},
		{"empty", exitFailed, []string{"is a directory without files of a known format", "Try: --format"}},
		{"*.tsv", exitFailed, []string{"no file matches the pattern", "nothing has been loaded"}},
		{"good.csv --files 0", exitUsage, []string{"want 1 to 64"}},
		{"- good.csv --format csv", exitUsage, []string{"another source"}},
		{"good.csv --format xml", exitUsage, []string{`"xml" for "--format" flag`, "want csv, tsv, jsonl"}},
		{"good.csv --spool .", exitUsage, []string{"--spool is for stdin"}},
		{"good.csv rows.csv --source x", exitUsage, []string{"names one source"}},
		{"good.csv --batch -1", exitUsage, []string{"want 0 or more"}},
		{"good.csv --writers -1", exitUsage, []string{"want 1 to 64"}},
		{"good.csv --time-zone Europe/Nowhere", exitUsage, []string{"no such zone", "Europe/Berlin"}},
		{"good.csv --time-zone +25:00", exitUsage, []string{"no such offset"}},
		{"good.csv --delimiter ab", exitUsage, []string{"one character"}},
		{`good.csv --delimiter "`, exitUsage, []string{"can't be a delimiter"}},
		{"good.csv --bytes octal", exitUsage, []string{"hex, base64, raw"}},
		{"good.csv --unix-times days", exitUsage, []string{"s, ms, us, ns"}},
		{"good.csv --on-duplicate replace", exitUsage, []string{"skip, update, error"}},
		{"good.csv --delimiter ;", exitFailed, []string{"isn't one of table readings", "Try: --delimiter ','"}},
		{"good.csv --list", exitUsage, []string{"--list is about all"}},
		{"good.csv --columns sensor,,ts", exitUsage, []string{"--columns: name 2 is empty"}},
		{"good.csv --columns sensor,ts,note,value", exitFailed, []string{"the header, has sensor, ts, value, note, and the columns are given as sensor, ts, note, value", "Try: no --columns"}},
		{"good.csv --encoding klingon", exitUsage, []string{`encoding "klingon" is unknown`, "windows-1252"}},
		{"good.csv --escape slash", exitUsage, []string{"doubled, backslash"}},
		{"good.csv --skip-lines -1", exitUsage, []string{"want 0 or more"}},
		{"good.csv --format tsv --escape backslash", exitUsage, []string{"in tsv they always do"}},
		{"good.csv --format json --comment #", exitUsage, []string{"lines of json can't be skipped"}},
		{"good.csv --format jsonl --null NA", exitUsage, []string{"--null without --null-quoted is for csv, tsv, and has no meaning for jsonl", "without it"}},
		{"good.csv --format lineprotocol --time-format %F", exitUsage, []string{"--time-format for timestamps is for csv"}},
		{"good.csv --measurement m", exitFailed, []string{"good.csv: --measurement is for lineprotocol, and has no meaning for csv"}},
		{"good.csv --from-table u", exitFailed, []string{"--from-table is for dump"}},
		{"dump.sql --null NA", exitFailed, []string{"--null without --null-quoted is for csv, tsv, and has no meaning for dump"}},
		{"dump.sql --time-zone Europe/Berlin", exitFailed, []string{"--time-zone +00:00"}},
		{"good.csv --set note=x --set Note=y", exitUsage, []string{"another for the same column"}},
		{"good.csv --set note", exitUsage, []string{"COLUMN=VALUE"}},
		{"good.csv --time-format ts=%d.%m", exitUsage, []string{"it must have a year"}},
		{"good.csv --time-format %F --unix-times s", exitUsage, []string{"--unix-times and --time-format"}},
		{"good.csv --time-format note=%F", exitFailed, []string{"--time-format note: it is not a column of times"}},
		{"good.csv --columns sensor,when,value,note", exitFailed, []string{`column "when"`, "sensor, ts, value, note"}},
		{"rows.csv --columns=sensor,ts,value,note", exitFailed, []string{"is a row of values", "--header=false"}},
	} {
		l.prints(c.code, c.args, c.says...)
	}
	l.hasRows(0)
	l.loadsFrom("", exitDone, "Sent 0, Finished true", "- --format csv")
	l.write("berlin.sql", "/*!40103 SET TIME_ZONE='Europe/Berlin' */;INSERT INTO `readings` (ts, sensor) VALUES ('2026-03-29 03:00:00',1);\n")
	l.loads(exitDone, "Duplicate 0", "berlin.sql --time-zone Europe/Berlin --dry-run")
	l.loads(exitDone, "Inserted 1", "rows.csv --columns=sensor,ts,value,note --header")
	l.loads(exitDone, "Inserted 1, Duplicate 1", "rows.csv --columns=sensor,ts,value,note --header=false --source=again")
	l.prints(exitDone, "good.csv --time-zone -01:00")
}

func TestProgressOfLoad(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	for want, p := range map[string]lane.Progress{
		"0 rows, 0 rows/s, 0% of 4 MiB loaded":                  {Size: 4 * mb, Elapsed: time.Second},
		"1,000 rows, 100 rows/s, 25% of 4 MiB loaded, 30s left": {Rows: 1000, Bytes: mb, Size: 4 * mb, Sent: mb, Sending: 10 * time.Second, Elapsed: 12 * time.Second},
		// Half of it was loaded before.
		"1,000 rows, 100 rows/s, 75% of 4 MiB loaded, 10s left":                                    {Rows: 1000, Bytes: 3 * mb, Size: 4 * mb, Sent: mb, Sending: 10 * time.Second, Elapsed: time.Minute},
		"1,000 rows, 100 rows/s, 99% of 4 MiB loaded, 0s left":                                     {Rows: 1000, Bytes: 4*mb - 1, Size: 4 * mb, Sent: 4*mb - 1, Sending: 10 * time.Second, Elapsed: 10 * time.Second},
		"10 rows, 5 rows/s, 1 MiB in the spool, which is full: the sender has been waiting for 3s": {Rows: 10, Waiting: mb, Full: 3 * time.Second, Elapsed: 2 * time.Second},
		"50 rows, 5 rows/s, 25% of 4 MiB loaded, 30s left, 1,000 rows collected to be published":   {Rows: 50, Bytes: mb, Size: 4 * mb, Sent: mb, Sending: 10 * time.Second, Collected: 1000},
		"50 rows; publishing 250 of 1,000 collected rows, 12s left":                                {Rows: 50, Size: 4 * mb, Sending: 10 * time.Second, Collected: 1000, Written: 250, Publishing: 4 * time.Second},
	} {
		if got := p.Text(false); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	dry := lane.Progress{Rows: 10, Bytes: 5 * mb, Size: 4 * mb, Sent: 5 * mb, Sending: 2 * time.Second, Elapsed: 2 * time.Second}
	if got := dry.Text(true); got != "10 rows, 5 rows/s, 100% of 4 MiB checked" {
		t.Error(got)
	}
}

// TestLoadProgressIsWhatIsAcknowledged checks that progress is measured by the rows
// that the server has acknowledged, not by those read: a file in memory is read in an
// instant.
func TestLoadProgressIsWhatIsAcknowledged(t *testing.T) {
	t.Parallel()
	f := loadRows(0, 3000, false)
	// A file is decompressed at most 4 KiB ahead of the rows, which is a quarter of
	// this file.
	for name, most := range map[string]float64{"day.csv": 0.25, "day.csv.gz": 0.5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLoading(t, "sqlite")
			text := f.text
			if name != "day.csv" {
				text = pack(t, name, text)
			}
			stands, open := make(chan bool), make(chan bool)
			o := l.options(&faulty{Keeper: l.db, begin: func(_ context.Context, n int64) error {
				if n == 3 {
					close(stands)
					<-open
				}
				return nil
			}})
			o.Rows, o.Writers, o.Every = 300, 1, 5*time.Millisecond
			var seen atomic.Int64
			var last atomic.Pointer[lane.Progress]
			o.Progress = func(p lane.Progress) {
				last.Store(&p)
				seen.Add(1)
			}
			end := l.begin(o, l.write(name, text), stands)
			// Two batches of ten are committed. The first report may be older.
			at := seen.Load()
			l.waits("reports", func() bool { return seen.Load() >= at+3 })
			p := last.Load()
			if share := float64(p.Bytes) / float64(p.Size); p.Rows != 600 || share < 0.15 || share > most || p.Sent != p.Bytes || p.Sending <= 0 {
				t.Errorf("%+v, %.2f of the file; two tenths are committed", p, share)
			}
			close(open)
			must(t, end())
		})
	}
}

// TestLoadWaitsForServer checks that a load waits for a server that is down when the
// load begins.
func TestLoadWaitsForServer(t *testing.T) {
	t.Parallel()
	onEach(t, servers, func(t *testing.T, server string) {
		l := newLoading(t, server)
		socket := map[bool]string{true: "host", false: "socket"}[server == "postgres"]
		there := l.at.Query.Get(socket)
		late, err := os.MkdirTemp("", "rm")
		must(l, err)
		defer os.RemoveAll(late)
		late += "/s"
		at := l.at
		at.Query.Set(socket, late)
		l.write("readings.toml", strings.Replace(l.text, l.target, at.String(), 1))
		l.write("day.csv", loadRows(0, 10, false).text)
		l.prints(exitFailed, "day.csv --retry 0s", "!tried again")
		ctx, cancel := context.WithCancel(l.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		began := time.Now()
		if out := rowmill(ctx, "load", l.file, filepath.Join(l.dir, "day.csv"), "--bad", l.dir+"/bad.jsonl"); out.code != exitInterrupted || time.Since(began) > time.Minute {
			l.Errorf("interrupted: exit %d after %s\n%s", out.code, time.Since(began), out.stderr)
		}
		time.AfterFunc(1500*time.Millisecond, func() {
			if err := os.Symlink(there, late); err != nil {
				l.Error(err)
			}
		})
		l.loads(exitDone, "Inserted 10; will be tried again: ", "day.csv")
	})
}
