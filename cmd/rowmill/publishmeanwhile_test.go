package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/declared"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// hourOf returns a file of n rows in hour 1, of sensors from 0 on, one per ten seconds.
func hourOf(n int) string {
	var b strings.Builder
	b.WriteString("sensor,ts,value,note\n")
	for i := range n {
		fmt.Fprintf(&b, "%d,2026-03-29 01:%02d:%02d,0.5,file\n", i, i/6, i%6*10)
	}
	return b.String()
}

// publisher returns the options of a load in this process that publishes, with a function
// that is called at each of its points, and of its publications'.
func (l *loading) publisher(reached func(point string)) ingest.Options {
	l.Helper()
	o := l.options(l.db)
	d, err := declared.Parse(l.Context(), l.file, "")
	must(l, err)
	table, err := maintain.Open(l.Context(), l.db, d, func() time.Time { return loadStart })
	must(l, err)
	table.Reached = reached
	o.Publisher, o.Reached, o.Lane, o.Dir = table, reached, lane.Publish, filepath.Join(l.dir, ".rowmill")
	return o
}

// stop loads a file up to a point of the load or its publication, and ends there.
func (l *loading) stop(path, at string) {
	l.Helper()
	ctx, end := context.WithCancel(l.Context())
	defer end()
	rows := len(l.rows())
	o := l.publisher(func(point string) {
		if point == at {
			end()
		}
	})
	if _, err := ingest.File(ctx, o, path); !errors.Is(err, context.Canceled) {
		l.Fatalf("the load ended with %v", err)
	}
	l.hasRows(rows)
}

// TestPublishMeanwhile inserts rows into a period that is about to be published: it is not
// replaced, and the rows of the file are inserted beside those, except for those with the same
// value of a key. Exact roll-ups beyond whose watermark the period lies have all rows.
func TestPublishMeanwhile(t *testing.T) {
	onStagers(t, func(l *loading) {
		l = newLoading(l.T, l.server, `time   = "ts"`, "time   = \"ts\"\nexact  = true", "PRIMARY KEY (sensor, ts)", "PRIMARY KEY (sensor, ts), UNIQUE (value, ts)")
		l.tick(loadStart.Add(6 * time.Hour))
		mustPass(l.T, l.run("run", "--once"))
		for i, at := range []string{"rows collected", "publish swap"} {
			hour := func(text string) string { return strings.ReplaceAll(text, " 01:", fmt.Sprintf(" %02d:", i+1)) }
			r, err := ingest.File(l.Context(), l.publisher(func(point string) {
				if point == at {
					at = ""
					l.does("INSERT INTO " + l.db.Dialect().Quote("readings") + " (sensor, ts, value, note) VALUES " +
						hour("(6, '2026-03-29 01:01:00', 1, 'there'), (501, '2026-03-29 01:55:00', 1, 'there'), (502, '2026-03-29 01:02:00', 0.5, 'there')"))
					mustPass(l.T, l.run("run", "--once"))
				}
			}), l.write(fmt.Sprint(i, ".csv"), hour(hourOf(100))))
			must(l, err)
			if r.Sent != 100 || r.Inserted != 98 || r.Duplicate != 2 || at != "" {
				t.Errorf("the counts are %+v; point not reached: %q", r.Counts, at)
			}
			l.hasRows(101 * (i + 1))
			l.has(fmt.Sprint(3*(i+1)), "SELECT COUNT(*) FROM readings WHERE note = 'there'")
			l.has("", "SELECT id FROM rowmill_journal")
		}
		mustPass(l.T, l.run("run", "--once"))
		l.has("202", "SELECT SUM(n) FROM readings_15m")
		l.prints(exitDone, "0.csv", "nothing to do")
	})
}

// TestPublishAltered alters the table before a filled table becomes a period. The load fills
// another one; after the end of the load, maintenance gives it up, and the next load fills another.
func TestPublishAltered(t *testing.T) {
	onStagers(t, func(l *loading) {
		alter := func(column string) {
			l.text = strings.Replace(l.text, "PRIMARY KEY", column+" INT, PRIMARY KEY", 1)
			writeFile(l, l.file, l.text)
			mustPass(l.T, l.run("apply", "--yes"))
		}
		path, filled := l.write("a.csv", hourOf(100)), 0
		r, err := ingest.File(l.Context(), l.publisher(func(point string) {
			switch {
			case point == "publish staged":
				filled++
			case point == "publish swap" && filled == 1:
				alter("more")
			}
		}), path)
		must(l, err)
		if want := (state.Counts{Sent: 100, Inserted: 100}); r.Counts != want || filled != 2 {
			t.Errorf("the counts are %+v, want %+v; %d tables were filled", r.Counts, want, filled)
		}
		path = l.write("b.csv", strings.ReplaceAll(hourOf(100), " 01:", " 02:"))
		l.stop(path, "publish swap")
		alter("other")
		mustPass(l.T, l.run("run", "--once"))
		l.has("", "SELECT id FROM rowmill_journal")
		if log := l.query("SELECT detail FROM rowmill_actions WHERE action = 'publish'"); !strings.Contains(strings.Join(log, "\n"), "given up, because the table was altered meanwhile") {
			t.Errorf("the log has %q", log)
		}
		l.prints(exitDone, "b.csv --lane publish", "100 inserted", "publish p20260329_02: 100 rows")
		l.hasRows(200)
		l.has("0", "SELECT COUNT(more) + COUNT(other) FROM readings")
	})
}

// TestPublishOfDroppedPeriod drops a period just before it is replaced. The publication is given
// up, and its rows are sent: where partitions have no lower bounds, the next one takes them.
func TestPublishOfDroppedPeriod(t *testing.T) {
	onStagers(t, func(l *loading) {
		path := l.write("a.csv", hourOf(100))
		r, err := ingest.File(l.Context(), l.publisher(func(point string) {
			if point != "publish swap" {
				return
			}
			table := l.publisher(nil).Publisher.(*maintain.Table).Table
			have, err := l.db.Catalog().Partitions(l.Context(), table)
			must(l, err)
			i := slices.IndexFunc(have, func(p rolling.Partition) bool { return p.Name == "p20260329_01" })
			must(l, l.db.Try(l.Context(), engine.Detach{Table: table, Have: have, Part: have[i], Into: "gone"}))
		}), path)
		must(l, err)
		if r.Sent != 100 || r.Inserted+r.Rejected != 100 || r.Rejected%100 != 0 {
			t.Errorf("the counts are %+v", r.Counts)
		}
		l.hasRows(int(r.Inserted))
		l.has("", "SELECT id FROM rowmill_journal")
	})
}

// TestPublishLocked: maintenance doesn't wait for the lock that completes a publication, and says
// what blocks it.
func TestPublishLocked(t *testing.T) {
	t.Parallel()
	onEach(t, servers, func(t *testing.T, server string) {
		l := newLoading(t, server)
		l.stop(l.write("a.csv", hourOf(100)), "publish swap")
		tx, err := l.db.SQL().BeginTx(t.Context(), nil)
		must(t, err)
		defer tx.Rollback()
		var n int
		must(t, tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+l.db.Dialect().Quote("readings")).Scan(&n))
		table := l.publisher(nil).Publisher.(*maintain.Table)
		if _, err := table.Pass(t.Context(), maintain.Rebuilding, nil, time.Time{}); !errors.Is(err, engine.ErrLockTimeout) || !strings.Contains(err.Error(), "publish p20260329_01") || !strings.Contains(err.Error(), "blocked by") {
			t.Errorf("the pass ends with %v", err)
		}
		must(t, tx.Rollback())
		mustPass(t, l.run("run", "--once"))
		l.hasRows(100)
		l.loads(exitDone, "Finished true, Sent 100, Continued 100", "a.csv")
	})
}

// TestFewRowsOfSealedPeriod continues a load whose rows were collected before their period,
// without rows, was sealed, and which the table refuses since.
func TestFewRowsOfSealedPeriod(t *testing.T) {
	onStagers(t, func(l *loading) {
		l = newLoading(l.T, l.server, `keep  = "7d"`, "keep  = \"7d\"\nlate  = \"reject\"", "[[rollup]]", "[seal]\nafter = \"1h\"\n\n[[rollup]]")
		path := l.write("a.csv", hourOf(100))
		l.stop(path, "rows collected")
		l.tick(loadStart.Add(6 * time.Hour))
		mustPass(l.T, l.run("run", "--once"))
		for _, name := range []lane.Lane{lane.Auto, lane.Publish} {
			o := l.publisher(func(string) {})
			var said strings.Builder
			o.Lane, o.Late, o.Say = name, true, func(line string) { said.WriteString(line) }
			r, err := ingest.File(l.Context(), o, path)
			must(l, err)
			if want := (state.Counts{Sent: 100, Rejected: 100}); r.Counts != want {
				t.Errorf("lane %s: the counts are %+v, want %+v", name, r.Counts, want)
			}
			if name == lane.Auto && !strings.Contains(said.String(), "it has been sealed, and the table refuses late rows") {
				t.Errorf("it says %s", said.String())
			}
			l.hasRows(0)
		}
	})
}

// TestFewRowsWithoutKeep continues a load whose rows were collected, into a table that keeps all
// of its periods: this load has not read which ones there are before it inserts the rows.
func TestFewRowsWithoutKeep(t *testing.T) {
	t.Parallel()
	onEach(t, []string{"mysql", "mariadb"}, func(t *testing.T, server string) { // they store no lower bounds
		l := newLoading(t, server, `keep  = "7d"`, "")
		path := l.write("a.csv", hourOf(100)+"x,2026-03-29 01:00:00,0.5,bad\n") // so that its batch is in the ledger
		l.stop(path, "rows collected")
		var said strings.Builder
		o := l.publisher(func(string) {})
		o.Lane, o.Say = lane.Auto, func(line string) { said.WriteString(line) }
		_, err := ingest.File(l.Context(), o, path)
		must(l, err)
		if strings.Contains(said.String(), "live, because") {
			t.Errorf("it says %s", said.String())
		}
		l.hasRows(100)
	})
}

// TestFewRowsCommittedTwice loads few rows whose commit has no answer, and ends on the
// server only while they are sent again.
func TestFewRowsCommittedTwice(t *testing.T) {
	onStagers(t, func(l *loading) {
		path := l.write("a.csv", hourOf(100))
		l.stop(path, "rows collected")
		o := l.publisher(func(point string) {
			if point != "rows collected" {
				return
			}
			for _, p := range l.query("SELECT source, lower_pos FROM rowmill_publications") {
				source, from, _ := strings.Cut(p, " ")
				execSQL(l, l.db, "INSERT INTO rowmill_ledger (table_name, batch, lower_pos, upper_pos, sent, inserted, updated, duplicate, different, repeated, rejected, at_us) "+
					"VALUES ('readings', ?, ?, ?, 100, 100, 0, 0, 0, 0, 0, ?)", source+"@period "+from, from, from, time.Now().UnixMicro())
			}
		})
		o.Lane = lane.Auto
		r, err := ingest.File(l.Context(), o, path)
		must(l, err)
		if want := (state.Counts{Sent: 100, Inserted: 100}); r.Counts != want {
			t.Errorf("the counts are %+v, want %+v", r.Counts, want)
		}
		l.hasRows(0)
	})
}

// TestMissingWhileChanging looks for the rows of a file while another process replaces a period.
func TestMissingWhileChanging(t *testing.T) {
	onSQLite(t, func(l *loading) {
		l.write("a.csv", hourOf(100))
		l.loads(exitDone, "Inserted 100", "a.csv")
		l.remove(" WHERE sensor < 10")
		lease, err := l.db.Lead(l.Context(), "readings/publish/1")
		must(l, err)
		st, change := state.New(l.db), state.Change{Table: "readings", ID: "publish 1", Kind: "publish", Step: "clean"}
		_, err = st.Begin(l.Context(), &change, map[string]any{"Table": "readings", "Source": "another", "From": 1, "Out": "gone"})
		must(l, err)
		l.loads(exitDone, "Missing 0, Unlooked publish 1 is under way", "a.csv")
		must(l, lease.Release())
		l.loads(exitFailed, "Missing 10, Unlooked ", "a.csv")
	})
}

// TestFinishWaitsForOwn begins a load while another process completes the publication that
// an earlier load of the file has left.
func TestFinishWaitsForOwn(t *testing.T) {
	onSQLite(t, func(l *loading) {
		path := l.write("a.csv", hourOf(100))
		l.stop(path, "rows collected")
		source := l.query("SELECT source FROM rowmill_publications")[0]
		table := l.publisher(func(string) {}).Publisher
		from := l.query("SELECT lower_pos FROM rowmill_publications")[0]
		lease, err := l.db.Lead(l.Context(), "readings/publish/"+from)
		must(l, err)
		change := state.Change{Table: "readings", ID: "publish " + from, Kind: "publish", Step: "clean"}
		_, err = state.New(l.db).Begin(l.Context(), &change, map[string]any{"Table": "readings", "Source": source, "From": json.Number(from), "Out": "gone"})
		must(l, err)
		ctx, end := context.WithTimeout(l.Context(), 500*time.Millisecond)
		defer end()
		if err := table.FinishPublications(ctx, "another"); err != nil {
			t.Errorf("another source waits: %v", err)
		}
		if err := table.FinishPublications(ctx, source); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, engine.ErrLockTimeout) {
			t.Errorf("the source doesn't wait: %v", err)
		}
		must(l, lease.Release())
	})
}
