package main

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/ingest/format"
	"github.com/rowmill/rowmill/internal/state"
)

// TestLoadUpdates checks --on-duplicate update: the table's row gets the values of the
// columns that the file has, the last row of a key wins, the counts add up, and a changed
// row counts as such for roll-ups and seals.
func TestLoadUpdates(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, server string) {
		l := newLoading(t, server, `keep  = "7d"`, "keep = \"7d\"\n[seal]\nafter = \"1h\"")
		l.write("a.csv", "sensor,ts,value,note\n1,2026-03-29 00:00:00,1,one\n2,2026-03-29 00:00:01,2,two\n3,2026-03-29 02:00:00,3,\n")
		l.loads(exitDone, "Inserted 3, Updated 0", "a.csv --on-duplicate update")
		// Sealed: the first two hours.
		l.tick(loadStart.Add(4 * time.Hour))
		mustPass(l.T, l.run("run", "--once"))
		sealed := func() (n int) {
			all, err := state.New(l.db).Periods(l.Context(), "readings")
			must(l, err)
			for _, p := range all {
				if p.State == state.Sealed && p.Rows > 0 {
					n++
				}
			}
			return n
		}
		if n := sealed(); n != 2 {
			l.Fatalf("%d periods with rows are sealed, want 2", n)
		}
		l.has("0", "SELECT COUNT(*) FROM rowmill_touched")

		// Without value, which keeps what it has; sensor 9 comes and changes at once.
		l.write("b.csv", "note,sensor,ts\nuno,1,2026-03-29 00:00:00\ntwo,2,2026-03-29 00:00:01\n\n")
		got := l.loads(exitDone, "Sent 2, Inserted 0, Updated 1, Duplicate 1, Rejected 0", "b.csv --on-duplicate update")[0]
		l.has("1", "SELECT COUNT(*) FROM rowmill_touched")
		if !strings.Contains(got.Text(), "0 inserted, 1 updated, 1 already present, 0 rejected") {
			l.Errorf("it says %s", got.Text())
		}
		l.has("1 1 uno; 2 2 two; 3 3 <nil>", "SELECT sensor, value, note FROM readings ORDER BY sensor")
		l.write("c.csv", loadHeader+"9,2026-03-29 02:00:00,1,a\n9,2026-03-29 02:00:00,2,b\n9,2026-03-29 02:00:00,2,b\n3,1999-03-29 02:00:00,3,old\n")
		l.loads(exitFailed, "Sent 4, Inserted 1, Updated 1, Duplicate 1, Rejected 1", "c.csv --on-duplicate update")
		l.has("1 1 uno; 2 2 two; 3 3 <nil>; 9 2 b", "SELECT sensor, value, note FROM readings ORDER BY sensor")
		l.loads(exitDone, "Sent 0, Before 4, Missing 0", "c.csv")
		l.prints(exitDone, "--list", "c.csv", "DIFFERENT")

		// The seals break, as after late rows, and are made anew.
		l.tick(loadStart.Add(8 * time.Hour))
		mustPass(l.T, l.run("run", "--once"))
		mustPass(l.T, l.run("run", "--once"))
		l.has("2", "SELECT COUNT(*) FROM rowmill_actions WHERE action = 'unseal'")
		l.has("4", "SELECT SUM(n) FROM readings_15m")
		if n := sealed(); n != 2 {
			l.Errorf("%d periods with rows are sealed again, want 2", n)
		}

		// A load that was begun one way, and has sent rows, can't be continued another way.
		l.write("d.csv", loadRows(100, 40, false).text)
		l.kill(6, "", "d.csv --batch 10 --writers 1 --on-duplicate update")
		l.loads(exitFailed, "; --on-duplicate was \"update\" and is now \"skip\"", "d.csv")
		l.loads(exitDone, "Sent 40, Rejected 0", "d.csv --on-duplicate update --source elsewhere")
	})
}

// TestLoadUpdateNeedsTheKey checks that a table whose rows can't be updated by the primary
// key alone is refused before anything is sent.
func TestLoadUpdateNeedsTheKey(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, server string) {
		l := newLoading(t, server, "PRIMARY KEY (sensor, ts)", "PRIMARY KEY (sensor, ts), UNIQUE (note, ts)")
		l.write("a.csv", loadHeader+"1,2026-03-29 00:00:00,1,one\n")
		l.loads(exitFailed, "; has another unique key besides its primary key, (note, ts); Try: --on-duplicate skip or error", "a.csv --on-duplicate update")
		l.loads(exitDone, "Inserted 1", "a.csv")
		n := newLoading(t, server, numbered(server, "")...)
		n.write("a.csv", loadHeader+"1,2026-03-29 00:00:00,1,one\n")
		n.loads(exitFailed, "; the source has no column id", "a.csv --on-duplicate update")
		// Objects without the key are inserted, others updated.
		n.write("a.jsonl", `{"id":5,"sensor":1,"ts":"2026-03-29 00:00:00","note":"a"}`+"\n"+`{"sensor":1,"ts":"2026-03-29 00:00:00"}`+"\n"+`{"id":5,"sensor":2,"ts":"2026-03-29 00:00:00"}`+"\n")
		n.loads(exitDone, "Inserted 2, Updated 1", "a.jsonl --on-duplicate update")
		n.has("2 a", "SELECT sensor, note FROM readings WHERE id = 5")
		// The last row of a key wins also if an earlier one has other columns.
		n.write("b.jsonl", `{"id":5,"sensor":3,"ts":"2026-03-29 00:00:00"}`+"\n"+`{"id":5,"sensor":4,"ts":"2026-03-29 00:00:00","note":"b"}`+"\n"+
			`{"id":60,"sensor":1,"ts":"2026-03-29 00:00:00","note":"c"}`+"\n"+`{"id":5,"sensor":5,"ts":"2026-03-29 00:00:00"}`+"\n")
		n.loads(exitDone, "Inserted 1, Updated 3", "b.jsonl --on-duplicate update")
		n.has("5 b", "SELECT sensor, note FROM readings WHERE id = 5")
	})
}

// TestUpdateOfADeadLoader checks that a batch of updates whose commit got no answer is
// counted as the ledger has it, and not sent again.
func TestUpdateOfADeadLoader(t *testing.T) {
	onKeepers(t, func(l *loading) {
		path := l.write("a.csv", loadHeader+"1,2026-03-29 00:00:00,1,one\n1,2026-03-29 00:00:00,2,two\n1,2026-03-29 00:00:00,2,two\n")
		db := &faulty{Keeper: l.db, commit: func(_ int64, commit func() error) error {
			return cmp.Or(commit(), engine.Classed(engine.ErrConnectionLost, errors.New("the connection broke at the commit")))
		}}
		o := l.options(db)
		o.OnDuplicate = format.UpdateDuplicate
		r, err := ingest.File(l.Context(), o, path)
		must(l, err)
		if r.Inserted != 1 || r.Updated != 1 || r.Duplicate != 1 {
			l.Errorf("counted %+v", r.Counts)
		}
	})
}

// TestLoadTellsSkippedRows checks that rows that are skipped are told apart: those with the
// values of the table's row, those with others, and those whose key an earlier row of their
// batch has.
func TestLoadTellsSkippedRows(t *testing.T) {
	onKeepers(t, func(l *loading) {
		at := ",2026-03-29 01:00:00,"
		l.write("a.csv", loadHeader+"1"+at+"1,one\n2"+at+"2.5,two\n3"+at+",\n")
		l.loads(exitDone, "Inserted 3, Different 0, Repeated 0", "a.csv --batch 2")
		l.write("b.csv", loadHeader+"1"+at+"1.0,one\n2"+at+"2.50,TWO\n3"+at+"1,\n5"+at+"5,five\n5"+at+"5,five\n5"+at+"6,five\n6"+at+"6,six\n")
		want := map[int64]string{
			3: `note: the table's row with this key differs: column note is "two" in the table: 2`,
			4: "value: the table's row with this key differs: column value is NULL in the table: 3",
			6: ": it has the same key as line 5 of this file: 5", 7: `value: the table's row with this key differs: column value is "5`,
		}
		got := l.loads(exitDone, "Sent 7, Inserted 2, Duplicate 5, Different 3, Repeated 2, Rejected 0, NotCompared 0", "b.csv --bad s.bad.jsonl --source s")[0]
		if text := got.Text(); !strings.Contains(text, "2 inserted, 5 already present (3 with other values, 2 twice in the source), 0 rejected; see s") {
			l.Errorf("it says %s", text)
		}
		if n := len(l.bad("s.bad.jsonl")); n != len(want) {
			l.Errorf("%d rows are listed, want %d", n, len(want))
		}
		l.refused("s", want)
		l.remove(" WHERE sensor > 3")
		l.has("5 3 2", "SELECT duplicate, different, repeated FROM rowmill_sources WHERE path = 's'")
		l.loads(exitDone, "Inserted 2, Duplicate 5, Different 3, Repeated 0, NotCompared 0", "b.csv --source ss --writers 1 --batch 1")
		l.remove(" WHERE sensor > 3")
		// Without --bad they are only counted, and again after all of them are there.
		l.loads(exitDone, "Inserted 2, Different 3, Repeated 2", "b.csv --again")
		if bad := l.bad("b.csv.bad.jsonl"); bad != nil {
			l.Errorf("listed: %+v", bad)
		}
		l.loads(exitDone, "Duplicate 7, Different 3, Repeated 2, NotCompared 0", "b.csv --again")
		// A row that is refused makes its batch one that isn't compared.
		l.write("c.csv", loadHeader+"1"+at+"7,one\n4"+at+"7,one\n4"+at+"7,one\n")
		l.loads(exitFailed, "Rejected 2, Inserted 1", "c.csv --on-duplicate error")
		l.refused("c.csv", map[int64]string{2: "1" + at, 4: "4" + at})
		l.loadsFrom(loadHeader+"1"+at+"7,one\n1"+at+"7,one\n", exitDone, "Duplicate 2, Different 2, Repeated 1", "- --format csv --bad stream.bad.jsonl")
		l.refused("stream", map[int64]string{2: "differs", 3: "it has the same key as line 2 of this stream"})
	})
}

// TestLoadTellsCollisions checks that a row whose key equals that of another row of the file
// only by the table's collation is told from one that was there.
func TestLoadTellsCollisions(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{"sqlite": "TEXT COLLATE NOCASE", "postgres": "CHAR(8)", "mysql": "VARCHAR(8) COLLATE utf8mb4_general_ci", "mariadb": "VARCHAR(8) COLLATE utf8mb4_general_ci"}
	onEach(t, keepers, func(t *testing.T, server string) {
		kind, other := kinds[strings.SplitN(server, "-", 2)[0]], "ABC"
		if server == "postgres" {
			other = "abc "
		}
		l := newLoading(t, server, "sensor INT NOT NULL", "sensor "+kind+" NOT NULL")
		at := ",2026-03-29 01:00:00,"
		l.write("a.csv", loadHeader+"was"+at+"1,one\n")
		l.loads(exitDone, "Inserted 1", "a.csv")
		l.write("b.csv", loadHeader+"abc"+at+"1,one\nwas"+at+"1,one\n"+other+at+"1,one\nxyz"+at+"2,two\n")
		l.loads(exitDone, "Inserted 2, Duplicate 2, Different 0, Repeated 1, NotCompared 0", "b.csv --bad b.bad.jsonl")
		l.refused("b", map[int64]string{4: "it has the same key as line 2 of this file"})
	})
}
