package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/ingest"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/state"
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

// TestMergeCarriesOver has others insert, change and delete rows of a period while it is merged.
// Their rows win over those of the file.
func TestMergeCarriesOver(t *testing.T) {
	onMergers(t, func(l *loading) {
		l.tick(loadStart.Add(6 * time.Hour))
		l.write("a.csv", strings.ReplaceAll(hourOf(50), "file", "old"))
		l.loads(exitDone, "Inserted 50", "a.csv")
		mustPass(l.T, l.run("run", "--once"))
		path := l.write("b.csv", hourOf(100))
		readings := l.db.Dialect().Quote("readings")
		insert := "INSERT INTO " + readings + " (sensor, ts, note) VALUES "
		at := map[string]string{
			"publish merging": insert + "(60, '2026-03-29 01:10:00', 'there'), (600, '2026-03-29 01:55:00', 'there')",
			"publish merged":  insert + "(61, '2026-03-29 01:10:10', 'there'), (601, '2026-03-29 01:55:00', 'there')",
			"publish swap":    insert + "(602, '2026-03-29 01:56:00', 'there')",
		}
		now := loadStart.Add(6 * time.Hour)
		load := func(path string) state.Counts {
			o := l.publisher(func(point string) {
				if q, is := at[point]; is {
					l.does(q)
					delete(at, point)
				}
			})
			o.Lane = ingest.Merge
			o.Publisher.(*maintain.Table).Now = maintain.Clock(func() time.Time { return now })
			r, err := ingest.File(l.Context(), o, path)
			must(l, err)
			return r.Counts
		}
		if got, want := load(path), (state.Counts{Sent: 100, Inserted: 48, Duplicate: 52, Different: 50}); got != want || len(at) > 0 {
			l.Errorf("the counts are %+v, want %+v; points not reached: %v", got, want, at)
		}
		l.hasRows(103)
		won := slices.DeleteFunc(l.rows(), func(row string) bool { return !strings.HasSuffix(row, "there") })
		if len(won) != 5 {
			l.Errorf("%d rows that were there are in the table, want 5", len(won))
		}
		l.has("", "SELECT id FROM rowmill_journal")
		mustPass(l.T, l.run("run", "--once"))
		l.has("103", "SELECT SUM(n) FROM readings_15m")

		// A row that was changed at the wrong moment is kept for inspection.
		at["publish merged"] = "UPDATE " + readings + " SET note = 'changed' WHERE sensor = 3"
		load(l.write("c.csv", hourOf(110)))
		l.hasRows(113)
		l.has("1", "SELECT COUNT(*) FROM rowmill_actions WHERE detail LIKE '%their last state is in table rowmill_out_readings%'")

		// A period that is not over takes inserts.
		now, at["publish begun"] = loadStart, "a period that is not over is merged"
		load(l.write("d.csv", hourOf(120)))
		l.hasRows(123)
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
