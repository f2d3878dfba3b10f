package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/ingest/lane"
	"github.com/rowmill/rowmill/internal/maintain"
)

// onMergers runs a test on the servers whose periods can be merged with rows: not on SQLite.
func onMergers(t *testing.T, fn func(l *loading)) {
	onStagers(t, func(l *loading) {
		if _, is := l.db.Words().(engine.MergeWords); is {
			fn(l)
		}
	})
}

// sealing are the replacements that have periods sealed and rebuilt an hour after their end.
var sealing = []string{"[[rollup]]", "[seal]\nafter = \"1h\"\ncompress = true\n\n[[rollup]]"}

// TestMerge merges a file with a sealed period: late rows, rows that are there, and rows with
// other values. The period stays sealed, and isn't rebuilt again.
func TestMerge(t *testing.T) {
	onMergers(t, func(l *loading) {
		l = newLoading(l.T, l.server, sealing...)
		l.write("a.csv", hourOf(100))
		l.loads(exitDone, "Inserted 100", "a.csv")
		l.tick(loadStart.Add(6 * time.Hour))
		mustPass(l.T, l.run("run", "--once"))
		sealed := "SELECT state, row_count, rebuilt FROM rowmill_states WHERE lower_pos = (SELECT MIN(lower_pos) FROM rowmill_states WHERE row_count > 0)"
		l.has("sealed 100 1", sealed)

		late := strings.NewReplacer("2026-03-29 01:00:10,0.5,file", "2026-03-29 01:00:10,0.5,other").Replace(hourOf(10)) +
			"7,2026-03-29 01:50:00,0.5,late\n8,2026-03-29 01:50:00,0.5,late\n8,2026-03-29 01:50:00,0.5,twice\n1,2026-03-29 06:50:00,0.5,open\n"
		l.write("b.csv", late)
		l.loads(exitDone, "Sent 14; period p20260329_01: 13 rows, merged; period p20260329_06: 1 row, published", "b.csv --lane merge --dry-run")
		l.hasRows(100)
		l.loads(exitDone, "Sent 14, Inserted 3, Duplicate 11, Different 1, NotCompared 1; 1 period merged, 13 rows; 1 period published, 1 row", "b.csv --lane merge")
		l.hasRows(103)
		l.has("sealed 102 1", sealed)
		l.has("file", "SELECT note FROM readings WHERE sensor = 1 AND value < 1 AND note <> 'open'")
		l.has("late", "SELECT note FROM readings WHERE sensor = 8 AND note <> 'file'")
		l.has("", "SELECT id FROM rowmill_journal")
		mustPass(l.T, l.run("run", "--once"))
		l.has("102", "SELECT SUM(n) FROM readings_15m")
		l.has("sealed 102 1", sealed)
		l.has("0", "SELECT COUNT(*) FROM rowmill_actions WHERE action = 'unseal'")
		l.prints(exitDone, "b.csv", "nothing to do")

		// All rows are there.
		l.loads(exitDone, "Sent 14, Inserted 0, Duplicate 14, Different 1", "b.csv --lane merge --again")
		l.has("sealed 102 1", sealed)
		// They are listed only by inserts.
		l.loads(exitDone, "Duplicate 14, Different 2; period p20260329_01: live, because its rows can't be merged: --bad lists", "b.csv --lane merge --again --bad x")
	})
}

// TestMergeLive has the rows of periods that can't be merged inserted.
func TestMergeLive(t *testing.T) {
	onSQLite(t, func(l *loading) {
		l.tick(loadStart.Add(6 * time.Hour))
		l.write("a.csv", hourOf(100))
		l.loads(exitDone, "Inserted 100", "a.csv --lane merge")
		l.loads(exitDone, "Duplicate 100; live, because its rows can't be merged: only one client at a time", "a.csv --lane merge --again")
	})
}

// TestMergeMeanwhile has others insert and change rows of a period while it is merged: it is not
// replaced, and the rows of the file are inserted beside theirs.
func TestMergeMeanwhile(t *testing.T) {
	onMergers(t, func(l *loading) {
		l.tick(loadStart.Add(6 * time.Hour))
		l.write("a.csv", strings.ReplaceAll(hourOf(50), "file", "old"))
		l.loads(exitDone, "Inserted 50", "a.csv")
		mustPass(l.T, l.run("run", "--once"))
		readings, now := l.db.Dialect().Quote("readings"), loadStart.Add(6*time.Hour)
		for i, at := range []string{"publish merging", "publish merged", "publish swap"} {
			n, reached := 60+6*i, false
			o := l.publisher(func(point string) {
				if point == at && !reached {
					reached = true
					l.does(fmt.Sprintf("INSERT INTO %s (sensor, ts, note) VALUES (%d, '2026-03-29 01:%02d:50', 'there'), (%d, '2026-03-29 01:55:00', 'there')", readings, n-1, (n-1)/6, 600+i))
					l.does(fmt.Sprintf("UPDATE %s SET note = 'changed' WHERE sensor = %d", readings, i))
				}
			})
			o.Lane, o.Publisher.(*maintain.Table).Now = lane.Merge, maintain.Clock(func() time.Time { return now })
			r, err := ingest.File(l.Context(), o, l.write(at+".csv", strings.ReplaceAll(hourOf(n), "file", fmt.Sprint("file", i))))
			must(l, err)
			if r.Sent != int64(n) || r.Inserted+r.Duplicate != r.Sent || !reached {
				l.Errorf("%s: reached %v, %+v", at, reached, r.Counts)
			}
			l.has(fmt.Sprint(i+1), "SELECT COUNT(*) FROM readings WHERE note = 'changed'")
			l.has(fmt.Sprint(2*i+2), "SELECT COUNT(*) FROM readings WHERE note = 'there'")
			l.has("", "SELECT id FROM rowmill_journal")
		}
		l.has("1", "SELECT COUNT(*) FROM rowmill_actions WHERE detail LIKE '%given up, because others wrote to the period meanwhile%'")
		l.hasRows(75)

		// A period that is not over takes inserts.
		now = loadStart
		o := l.publisher(func(point string) {
			if point == "publish begun" {
				l.Error("a period that is not over is merged")
			}
		})
		o.Lane, o.Publisher.(*maintain.Table).Now = lane.Merge, maintain.Clock(func() time.Time { return now })
		_, err := ingest.File(l.Context(), o, l.write("d.csv", hourOf(120)))
		must(l, err)
	})
}

// halfThere loads about half of the rows that can be loaded, at a time when their periods are
// over, and writes the file with all of them.
func (l *loading) halfThere(p published) {
	l.Helper()
	l.tick(loadStart.Add(6 * time.Hour))
	half := "sensor,ts,value,note\n"
	for i, row := range p.want {
		if i%2 == 0 {
			f := strings.Fields(row)
			half += fmt.Sprintf("%s,%s %s,0.5,%s\n", f[0], f[1], f[2], f[3])
		}
	}
	l.write("half.csv", half)
	l.loads(exitDone, "Finished true", "half.csv")
	l.write("all.csv", p.text)
}
