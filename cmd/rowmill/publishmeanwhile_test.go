package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/state"
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
	d, _, err := readDeclaration(l.Context(), l.file, "")
	must(l, err)
	table, err := maintain.Open(l.Context(), l.db, d, func() time.Time { return loadStart })
	must(l, err)
	table.Reached = reached
	o.Publisher, o.Reached, o.Lane, o.Dir = table, reached, ingest.Publish, filepath.Join(l.dir, ".rowmill")
	return o
}

// collect loads a file up to where its rows are collected, and ends there.
func (l *loading) collect(path string) {
	l.Helper()
	ctx, end := context.WithCancel(l.Context())
	defer end()
	o := l.publisher(func(point string) {
		if point == "rows collected" {
			end()
		}
	})
	if _, err := ingest.File(ctx, o, path); !errors.Is(err, context.Canceled) {
		l.Fatalf("the load ended with %v", err)
	}
	l.hasRows(0)
}

// TestPublishCarriesOver inserts rows into a period that is about to be published, before
// and after it is counted. Those with a key of the file win, and exact roll-ups beyond
// whose watermark the period lies have all rows.
func TestPublishCarriesOver(t *testing.T) {
	onStagers(t, func(l *loading) {
		l = newLoading(l.T, l.server, `time   = "ts"`, "time   = \"ts\"\nexact  = true")
		l.tick(loadStart.Add(6 * time.Hour))
		mustPass(l.T, l.run("run", "--once"))
		path := l.write("a.csv", hourOf(100))
		there := map[string]string{"rows collected": "(5, '2026-03-29 01:00:50', 'there'), (500, '2026-03-29 01:50:00', 'there')",
			"publish swap": "(6, '2026-03-29 01:01:00', 'there'), (501, '2026-03-29 01:55:00', 'there')"}
		r, err := ingest.File(l.Context(), l.publisher(func(point string) {
			if rows, is := there[point]; is {
				l.does("INSERT INTO " + l.db.Dialect().Quote("readings") + " (sensor, ts, note) VALUES " + rows)
				mustPass(l.T, l.run("run", "--once"))
				delete(there, point)
			}
		}), path)
		must(l, err)
		if want := (state.Counts{Sent: 100, Inserted: 98, Duplicate: 2}); r.Counts != want || len(there) > 0 {
			t.Errorf("the counts are %+v, want %+v; points not reached: %v", r.Counts, want, there)
		}
		l.hasRows(102)
		won := 0
		for _, row := range l.rows() {
			if strings.HasSuffix(row, "there") {
				won++
			}
		}
		if won != 4 {
			t.Errorf("%d rows that were there are in the table, want 4", won)
		}
		l.has("", "SELECT id FROM rowmill_journal")
		mustPass(l.T, l.run("run", "--once"))
		l.has("102", "SELECT SUM(n) FROM readings_15m")
		l.has("1", "SELECT COUNT(*) FROM readings_15m WHERE n = 2")
		l.prints(exitDone, "a.csv", "nothing to do")
	})
}

// TestFewRowsOfSealedPeriod continues a load whose rows were collected before their period,
// without rows, was sealed, and which the table refuses since.
func TestFewRowsOfSealedPeriod(t *testing.T) {
	onStagers(t, func(l *loading) {
		l = newLoading(l.T, l.server, `keep  = "7d"`, "keep  = \"7d\"\nlate  = \"reject\"", "[[rollup]]", "[seal]\nafter = \"1h\"\n\n[[rollup]]")
		path := l.write("a.csv", hourOf(100))
		l.collect(path)
		l.tick(loadStart.Add(6 * time.Hour))
		mustPass(l.T, l.run("run", "--once"))
		for _, lane := range []ingest.Lane{ingest.Auto, ingest.Publish} {
			o := l.publisher(func(string) {})
			var said strings.Builder
			o.Lane, o.Late, o.Say = lane, true, func(line string) { said.WriteString(line) }
			r, err := ingest.File(l.Context(), o, path)
			must(l, err)
			if want := (state.Counts{Sent: 100, Rejected: 100}); r.Counts != want {
				t.Errorf("lane %s: the counts are %+v, want %+v", lane, r.Counts, want)
			}
			if lane == ingest.Auto && !strings.Contains(said.String(), "it has been sealed, and the table refuses late rows") {
				t.Errorf("it says %s", said.String())
			}
			l.hasRows(0)
		}
	})
}

// TestFewRowsCommittedTwice loads few rows whose commit has no answer, and ends on the
// server only while they are sent again.
func TestFewRowsCommittedTwice(t *testing.T) {
	onStagers(t, func(l *loading) {
		path := l.write("a.csv", hourOf(100))
		l.collect(path)
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
		o.Lane = ingest.Auto
		r, err := ingest.File(l.Context(), o, path)
		must(l, err)
		if want := (state.Counts{Sent: 100, Inserted: 100}); r.Counts != want {
			t.Errorf("the counts are %+v, want %+v", r.Counts, want)
		}
		l.hasRows(0)
	})
}

// TestFinishWaitsForOwn begins a load while another process completes the publication that
// an earlier load of the file has left.
func TestFinishWaitsForOwn(t *testing.T) {
	onSQLite(t, func(l *loading) {
		path := l.write("a.csv", hourOf(100))
		l.collect(path)
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
