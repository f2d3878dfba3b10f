package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/query"
	"github.com/rowmill/rowmill/internal/testdb"
)

// cachedDeclaration is of a table whose triggers note every change.
const cachedDeclaration = `
[table]
name   = "readings"
target = "$TARGET"
exact  = true
create = '''
CREATE TABLE readings (
  sensor INT NOT NULL, ts $TIME NOT NULL, value INT NOT NULL,
  PRIMARY KEY (sensor, ts))'''
time   = "ts"

[period]
every = "1h"
ahead = "6h"
keep  = "9h"

[seal]
after    = "30m"
compress = true
archive  = "$DIR/archive"

[[rollup]]
name   = "readings_10m"
every  = "10m"
by     = ["sensor"]
select = { n = "count(*)" }
`

// An answer keeps the rows of a query.
type answer struct{ rows []string }

func (a *answer) Columns([]engine.ResultColumn) error { return nil }

func (a *answer) Row(values [][]byte) error {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = string(v)
		if v == nil {
			list[i] = "NULL"
		}
	}
	a.rows = append(a.rows, strings.Join(list, "|"))
	return nil
}

// A cachedQuery asks one query of a table with cached partials, and compares each answer with the
// server's own.
type cachedQuery struct {
	*keptTable
	reader engine.Reader
	runner *query.Runner
	text   string
	state  engine.State
}

// all fills the cache, and returns how many periods come from it then.
func (c *cachedQuery) all(what string) (cached int) {
	c.Helper()
	c.ask(what)
	return c.ask(what).Cached
}

// ask returns how many periods came from the cache.
func (c *cachedQuery) ask(what string) *query.Report {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	plan, err := c.runner.Plan(ctx, c.text, c.state)
	must(c, err)
	if plan.Whole != "" {
		c.Fatalf("%s: not split: %s", what, plan.Whole)
	}
	var got, want answer
	report, err := c.runner.Run(ctx, plan, &got)
	if err != nil {
		c.Fatalf("%s: %v", what, err)
	}
	s, err := c.reader.ReadSession(ctx, nil)
	must(c, err)
	defer s.Close()
	must(c, s.Text(ctx, c.text, nil, want.Row))
	if slices.Sort(got.rows); !slices.Equal(got.rows, want.rows) {
		c.Errorf("%s: the answer with %d cached periods is\n%q\nwant\n%q", what, report.Cached, got.rows, want.rows)
	}
	if report.Rerun != "" {
		c.Errorf("%s: %s", what, report.Rerun)
	}
	return report
}

// asks checks the number of periods that come from the cache.
func (c *cachedQuery) asks(what string, cached int) {
	c.Helper()
	if r := c.ask(what); r.Cached != cached {
		c.Errorf("%s: %d periods came from the cache, want %d (%s)", what, r.Cached, cached, r.Uncached)
	}
}

// TestCachedPartials: the partial results of sealed periods are used again, and never after their
// rows have changed, in whatever way: by rowmill load, by writers, maintenance, DDL, a drop and a
// restore.
func TestCachedPartials(t *testing.T) {
	t.Parallel()
	onEach(t, testdb.Kinds(t, "mariadb", "mysql"), func(t *testing.T, server string) {
		d := declareUndisturbed(t, server, cachedDeclaration)
		start := time.Date(2026, 11, 20, 0, 10, 0, 0, time.UTC)
		d.tick(start)
		mustPass(t, d.run("apply", "--yes"))
		for hour := range 7 {
			d.insert(start.Add(time.Duration(hour)*time.Hour), hour+1)
		}
		maintained := func(hour int) {
			t.Helper()
			d.tick(start.Add(time.Duration(hour)*time.Hour + 35*time.Minute))
			mustPass(t, d.run("run", "--once"))
		}
		settle := func() { time.Sleep(2100 * time.Millisecond) } // DDL is noticed by times in seconds
		maintained(6)
		settle()
		reader := d.db.(engine.Reader)
		c := &cachedQuery{keptTable: d, reader: reader, runner: query.New(reader, query.Options{Always: true, Parallel: 2}),
			text: "SELECT sensor, COUNT(*) AS n, SUM(value) AS total, AVG(value) AS mean, MAX(ts) AS last FROM readings GROUP BY sensor ORDER BY sensor"}
		defer func() { must(t, c.runner.Close()) }()
		session, err := reader.ReadSession(t.Context(), nil)
		must(t, err)
		defer session.Close()
		c.state, err = reader.ReadState(t.Context(), session)
		must(t, err)

		c.asks("at first", 0)
		all := c.all("again")
		if all < 5 {
			t.Fatalf("%d periods came from the cache: %s", all, c.ask("why").Uncached)
		}
		if s := c.runner.CacheStats(); s.Periods != all || s.Bytes == 0 || s.Hits == 0 || s.Misses == 0 {
			t.Errorf("%+v", s)
		}
		d.insert(start.Add(6*time.Hour+30*time.Minute), 100)
		c.asks("after a row of the open period", all)
		mustPass(t, d.run("run", "--once"))
		c.ask("and its note's end") // maintenance may have altered the table: then MySQL forgets when rows last changed
		c.asks("and its note's end, again", all)

		text := c.text
		c.text = strings.Replace(text, " FROM", "  from", 1)
		c.asks("with other blanks", all)
		c.text = strings.Replace(text, "MAX", "MIN", 1)
		c.asks("another query", 0)
		for _, other := range []string{
			"SELECT sensor, COUNT(*) FROM readings WHERE ts < NOW() + INTERVAL 100 YEAR GROUP BY sensor ORDER BY sensor",
			"SELECT sensor, COUNT(*) FROM readings WHERE sensor IN (SELECT sensor FROM readings) GROUP BY sensor ORDER BY sensor",
		} {
			c.text = other
			for range 2 {
				plan, err := c.runner.Plan(t.Context(), other, c.state)
				must(t, err)
				report, err := c.runner.Run(t.Context(), plan, &answer{})
				must(t, err)
				if report.Cached > 0 || plan.Whole == "" && report.Uncached == "" {
					t.Errorf("%s: %d cached, %q", other, report.Cached, report.Uncached)
				}
			}
		}
		c.text = text

		// One period changes at a time: while its note is there, and after it is consumed.
		hour := func(h int) string { return start.Add(time.Duration(h) * time.Hour).Format("2006-01-02 15:04:05") }
		csv := filepath.Join(d.dir, "late.csv")
		writeFile(t, csv, fmt.Sprintf("sensor,ts,value\n77,%s,5\n", hour(1)))
		for what, change := range map[string]func(){
			"loaded":   func() { mustPass(t, d.run("load", csv)) },
			"inserted": func() { execSQL(t, d.db, "INSERT INTO readings VALUES (78, '"+hour(2)+"', 6)") },
			"updated": func() {
				execSQL(t, d.db, "UPDATE readings SET value = value + 1 WHERE sensor = 1 AND ts >= '"+hour(3)+"' AND ts < '"+hour(4)+"'")
			},
			"deleted": func() {
				execSQL(t, d.db, "DELETE FROM readings WHERE sensor = 2 AND ts >= '"+hour(4)+"' AND ts < '"+hour(5)+"'")
			},
			"moved": func() {
				execSQL(t, d.db, "UPDATE readings SET ts = '"+hour(1)+"' + INTERVAL 1 MINUTE WHERE sensor = 0 AND ts = '"+hour(2)+"'")
			},
		} {
			changed := 1
			if what == "moved" {
				changed = 2
			}
			all := c.all("before " + what)
			change()
			if what == "loaded" {
				c.ask(what) // a load may alter the table
			} else {
				c.asks(what, all-changed)
			}
			c.asks(what+", again", all-changed)
			mustPass(t, d.run("run", "--once"))
			c.ask(what + ", and its note's end")
			c.ask(what + ", filled")
			if again := c.ask(what + ", again").Cached; again < all-changed {
				t.Errorf("%s: %d periods, %d before", what, again, all)
			}
		}

		// Definition, partitions.
		part := "p20261120_05"
		parts, err := d.db.Catalog().Partitions(t.Context(), d.table)
		must(t, err)
		if len(parts) > 5 {
			part = parts[4].Name
		}
		for _, q := range []string{
			"ALTER TABLE readings ADD COLUMN note INT DEFAULT 3",
			"ALTER TABLE readings DROP COLUMN note",
			"ALTER TABLE readings TRUNCATE PARTITION " + d.db.Dialect().Quote(part),
		} {
			execSQL(t, d.db, q)
			c.ask(q)
			if testdb.Nightly() {
				settle()
				c.ask(q + ", settled")
				c.ask(q + ", again")
			}
		}
		// Drops, and a restored period, whose rows are another one's then.
		maintained(12)
		settle()
		c.ask("after drops")
		c.ask("after drops, again")
		dropped := parts[1].Name
		mustPass(t, d.run("restore", dropped, "--yes"))
		c.ask("restored")
		c.ask("restored, again")
		execSQL(t, d.db, "DROP TRIGGER IF EXISTS rowmill_touch_delete_readings")
		if r := c.ask("without a trigger"); r.Cached > 0 || !strings.Contains(r.Uncached, "triggers") {
			t.Errorf("without a trigger: %d cached, %s", r.Cached, r.Uncached)
		}
	})
}

// BenchmarkCachedPartials asks a dashboard's query of 100 sealed periods and an open one: whole, in
// pieces, and with cached partials.
func BenchmarkCachedPartials(b *testing.B) {
	url := testdb.Target(b, "mariadb").String()
	const hours, rows = 101, 25000 // of a period
	dir := b.TempDir()
	file, clock, csv := filepath.Join(dir, "readings.toml"), filepath.Join(dir, "clock"), filepath.Join(dir, "rows.csv")
	writeFile(b, file, filled(strings.Replace(cachedDeclaration, `keep  = "9h"`, "", 1), url, dir))
	start := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	end := start.Add(hours * time.Hour)
	writeFile(b, clock, end.Add(-time.Minute).Format(time.RFC3339))
	run := func(args ...string) {
		b.Helper()
		if s := rowmill(b.Context(), append(args, "--clock", clock)...); s.code != exitDone {
			b.Fatalf("%v: %+v", args, s)
		}
	}
	run("apply", file, "--yes")
	var text strings.Builder
	text.WriteString("sensor,ts,value\n")
	for i := range hours * rows {
		fmt.Fprintf(&text, "%d,%s,%d\n", i%50, start.Add(time.Duration(i)*time.Hour/rows).Format("2006-01-02 15:04:05"), i)
	}
	writeFile(b, csv, text.String())
	run("load", file, csv)
	run("run", file, "--once")
	time.Sleep(3 * time.Second)
	db := openKeeper(b, url)
	reader := db.(engine.Reader)
	session, err := reader.ReadSession(b.Context(), nil)
	must(b, err)
	defer session.Close()
	st, err := reader.ReadState(b.Context(), session)
	must(b, err)
	const question = "SELECT sensor, COUNT(*) AS n, SUM(value) AS total, AVG(value) AS mean FROM readings GROUP BY sensor ORDER BY sensor"
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			must(b, session.Text(b.Context(), question, nil, (&answer{}).Row))
		}
	})
	for _, x := range []struct {
		name string
		o    query.Options
	}{{"pieces", query.Options{NoCache: true}}, {"cached", query.Options{}}} {
		runner := query.New(reader, x.o)
		b.Run(x.name, func(b *testing.B) {
			var report *query.Report
			once := func() {
				plan, err := runner.Plan(b.Context(), question, st)
				must(b, err)
				report, err = runner.Run(b.Context(), plan, &answer{})
				must(b, err)
			}
			once() // which fills the cache
			for b.Loop() {
				once()
			}
			b.ReportMetric(float64(report.Cached), "periods")
		})
		must(b, runner.Close())
	}
}
