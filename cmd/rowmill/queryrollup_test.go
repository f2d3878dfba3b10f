package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/maintain"
	"github.com/rowmill/rowmill/internal/query"
	"github.com/rowmill/rowmill/internal/query/plan"
	"github.com/rowmill/rowmill/internal/testdb"
)

// rolledDeclaration is the table whose roll-ups queries read.
const rolledDeclaration = `
[table]
name   = "readings"
target = "$TARGET"
create = '''
CREATE TABLE readings (
  sensor INT NOT NULL, ts $TIME NOT NULL, seq INT NOT NULL, site VARCHAR(10) NOT NULL, n INT, price DECIMAL(10,2), value $DOUBLE,
  PRIMARY KEY (ts, sensor, seq))'''
time   = "ts"
exact  = true

[period]
every = "1d"
ahead = "2d"
keep  = "4d"

[seal]
after = "1h"

[[rollup]]
name   = "readings_15m"
every  = "15m"
by     = ["sensor"]
select = { rows_n = "count(n)", sum_n = "sum(n)", price = "avg(price)", lo = "min(price)", hi = "max(value)" }

[[rollup]]
name = "readings_1d"
from = "readings_15m"
every = "1d"
`

// rolledQueries are queries over it. Those with + before them read a roll-up as long as some of it
// is exact.
var rolledQueries = map[string][]string{
	"": {
		"+SELECT COUNT(*) FROM readings",
		"+SELECT sensor, COUNT(*), SUM(n), COUNT(n), AVG(price), MIN(price) FROM readings GROUP BY sensor ORDER BY sensor",
		"+SELECT COUNT(*) AS c, COUNT(1), SUM(price), AVG(n), SUM(n) / COUNT(*) FROM readings WHERE $AT0 AND sensor IN (1, 2) HAVING COUNT(*) > 0",
		"+SELECT sensor % 2 AS odd, COUNT(*) FROM readings WHERE $AT1 GROUP BY sensor % 2 ORDER BY 1",
		"+SELECT sensor, MIN(price) FROM readings WHERE $AT2 GROUP BY sensor ORDER BY sensor LIMIT 2",
		"+SELECT r.sensor, COUNT(*) FROM readings AS r WHERE r.sensor > 1 GROUP BY r.sensor ORDER BY COUNT(*) DESC, r.sensor",
		"SELECT site, COUNT(*) FROM readings GROUP BY site ORDER BY site",
		"SELECT COUNT(*) FROM readings WHERE n > 3",
		"+SELECT COUNT(DISTINCT sensor) FROM readings",
		"SELECT MAX(value), MIN(n) FROM readings",
		"SELECT MIN(n) FROM readings",
		"SELECT MAX(ts) FROM readings",
		"SELECT COUNT(*) FROM readings WHERE seq = 0 OR sensor = 1",
		"SELECT sensor, ts FROM readings WHERE sensor = 1 ORDER BY ts, seq LIMIT 5",
	},
	"mariadb": {
		"+SELECT DATE(ts) AS d, COUNT(*), SUM(price) FROM readings GROUP BY DATE(ts) ORDER BY d",
		"+SELECT DATE_FORMAT(ts, '%Y-%m-%d %H:00') AS h, sensor, AVG(n) FROM readings WHERE ts >= '2026-11-20 06:07:08' GROUP BY h, sensor ORDER BY h, sensor",
		"+SELECT UNIX_TIMESTAMP(ts) DIV 900 * 900 AS t, COUNT(*) FROM readings GROUP BY 1 ORDER BY 1",
		"+SELECT FLOOR(UNIX_TIMESTAMP(ts) / 86400) AS t, COUNT(*) FROM readings GROUP BY 1 ORDER BY 1",
		"+SELECT EXTRACT(DAY_HOUR FROM ts) AS t, COUNT(*) FROM readings WHERE HOUR(ts) < 7 GROUP BY 1 ORDER BY 1",
		"+SELECT YEAR(ts), MONTH(ts), COUNT(*) FROM readings WHERE ts BETWEEN '2026-11-20' AND '2026-11-22 12:00:00' GROUP BY YEAR(ts), MONTH(ts)",
		"+SELECT sensor, COUNT(*) FROM readings GROUP BY sensor WITH ROLLUP",
		"+SELECT COUNT(*), COUNT(n) FROM readings",
		"SELECT DATE_FORMAT(ts, '%H:%i') AS m, COUNT(*) FROM readings GROUP BY m ORDER BY m",
		"SELECT UNIX_TIMESTAMP(ts) DIV 60 AS t, COUNT(*) FROM readings GROUP BY 1 ORDER BY 1",
		"SELECT COUNT(*) FROM readings WHERE ts <> '2026-11-20 00:00:00'",
		"SELECT DATE(ts + INTERVAL 1 HOUR) AS d, COUNT(*) FROM readings GROUP BY 1 ORDER BY 1",
	},
	"postgres": {
		"+SELECT date_trunc('hour', ts) AS h, sensor, sum(price), avg(n) FROM readings GROUP BY 1, 2 ORDER BY 1, 2",
		"+SELECT ts::date AS d, count(*) FROM readings WHERE ts >= '2026-11-20 06:07:08'::timestamp GROUP BY 1 ORDER BY 1",
		"+SELECT to_char(ts, 'YYYY-MM-DD HH24:00') AS d, count(*) FROM readings GROUP BY 1 ORDER BY 1",
		"+SELECT floor(extract(epoch from ts) / 900)::bigint * 900 AS t, count(*) FROM readings GROUP BY 1 ORDER BY 1",
		"+SELECT sensor, count(*) FROM readings GROUP BY ROLLUP(sensor) ORDER BY sensor",
		"+SELECT count(*), sum(price) FROM readings WHERE ts >= DATE '2026-11-20' AND ts < '2026-11-22'::date",
		"SELECT count(*), sum(price) FROM readings WHERE ts >= DATE '2026-11-20 06:15:00'", // which is midnight
		"SELECT count(*), sum(price) FROM readings WHERE ts < '2026-11-20 06:15:00'::date",
		"SELECT date_trunc('minute', ts) AS h, count(*) FROM readings GROUP BY 1 ORDER BY 1",
		"SELECT to_char(ts, 'HH24:MI') AS h, count(*) FROM readings GROUP BY 1 ORDER BY 1",
	},
	"sqlite": {
		"+SELECT ts / 3600 AS h, COUNT(*), MIN(price) FROM readings GROUP BY ts / 3600 ORDER BY h",
		"+SELECT date(ts, 'unixepoch') AS d, sensor, MIN(price) FROM readings GROUP BY 1, 2 ORDER BY 1, 2",
		"+SELECT strftime('%Y-%m-%d %H', ts, 'unixepoch') AS d, COUNT(*) FROM readings GROUP BY d ORDER BY d",
		"+SELECT ts - ts % 900 AS h, COUNT(n) FROM readings GROUP BY 1 ORDER BY 1",
		"SELECT ts / 60 AS h, COUNT(*) FROM readings GROUP BY 1 ORDER BY h",
	},
}

// A rolledTest is a table with roll-ups, and what asks it.
type rolledTest struct {
	*keptTable
	asker *query.Runner
	state engine.State
	day   time.Time
	asks  int
}

// typed reports whether the server's columns have types, without which groups aren't merged.
func (r *rolledTest) typed() bool { return r.server != "sqlite" }

func (r *rolledTest) at(t time.Time) string {
	if r.server == "sqlite" {
		return fmt.Sprint(t.Unix())
	}
	return t.Format("'2006-01-02 15:04:05'")
}

// insert inserts rows of three sensors, one every seven minutes of a range.
func (r *rolledTest) insert(from, to time.Time, seq int) {
	r.Helper()
	var rows []string
	for i, at := 0, from; at.Before(to); i, at = i+1, at.Add(7*time.Minute) {
		n, price := fmt.Sprint(i%5), fmt.Sprintf("%d.%02d", i%13, i%100)
		if i%4 == 0 {
			n, price = "NULL", "NULL"
		}
		rows = append(rows, fmt.Sprintf("(%d, %s, %d, '%c', %s, %s, %d.5)", i%3+1, r.at(at), seq, "aAbB"[i%4], n, price, i%11))
	}
	execSQL(r, r.db, "INSERT INTO readings VALUES "+strings.Join(rows, ", "))
}

// ask compares the answers of the roll-ups with the server's own, and returns how many queries read
// a roll-up. Besides that of complete roll-ups, it asks a third of the queries each time, or all at
// night.
func (r *rolledTest) ask(what string) (rolled int) {
	r.Helper()
	at := func(from, to time.Duration) string {
		return fmt.Sprintf("ts >= %s AND ts < %s", r.at(r.day.Add(from)), r.at(r.day.Add(to)))
	}
	times := strings.NewReplacer("$AT0", at(0, 48*time.Hour), "$AT1", at(100*time.Minute, 30*time.Hour+time.Second), "$AT2", at(-24*time.Hour, 24*time.Hour))
	all := testdb.Nightly() || what == "complete" || what == "computed again"
	r.asks++
	for i, text := range slices.Concat(rolledQueries[""], rolledQueries[r.server]) {
		if !all && (i+r.asks)%3 != 0 {
			continue
		}
		text, want := strings.CutPrefix(text, "+")
		text = times.Replace(text)
		p, err := r.asker.Plan(r.Context(), text, r.state)
		must(r, err)
		if len(p.Rollups) > 0 {
			rolled++
		}
		if len(p.Rollups) == 0 && want && what == "complete" && r.typed() || len(p.Rollups) > 0 && !want {
			r.Errorf("%s: %s: it reads a roll-up: %t; whole %q, %q", what, text, len(p.Rollups) > 0, p.Whole, p.NoRollup)
		}
		if p.Whole != "" {
			continue
		}
		checked, err := r.asker.Check(r.Context(), p)
		must(r, err)
		if !checked.Same() {
			r.Errorf("%s: %s: %+v", what, text, checked.Differences)
		}
	}
	return rolled
}

// TestQueryRollups checks that queries that read roll-ups have the server's own answer: with late
// rows, changed and removed ones, buckets to be computed again, rows that come between the plan and
// the answer, and periods whose rows are dropped. SQLite answers nearly all of them whole, because
// its types are those of values.
func TestQueryRollups(t *testing.T) {
	t.Parallel()
	onEach(t, []string{"mariadb", "postgres", "sqlite"}, func(t *testing.T, kind string) {
		text := strings.ReplaceAll(rolledDeclaration, "$DOUBLE", map[string]string{"postgres": "DOUBLE PRECISION"}[kind]+map[string]string{"mariadb": "DOUBLE", "sqlite": "DOUBLE"}[kind])
		if kind == "sqlite" {
			text = strings.Replace(strings.Replace(text, "$TIME", "INTEGER", 1), `time   = "ts"`, "time   = \"ts\"\nepoch  = \"s\"", 1)
		}
		r := &rolledTest{keptTable: declareUndisturbed(t, kind, text), day: time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)}
		reader := r.db.(engine.Reader)
		rolled := maintain.NewRolled(reader)
		r.asker = query.New(reader, query.Options{Always: true, Parallel: 2, Rollups: rolled})
		t.Cleanup(func() { must(t, r.asker.Close()) })
		s, err := reader.ReadSession(t.Context(), nil)
		must(t, err)
		r.state, err = reader.ReadState(t.Context(), s)
		must(t, err)
		must(t, s.Close())
		for i, st := range r.state {
			if st.Name == "time_zone" {
				r.state[i].Value = "+00:00"
			}
		}
		maintained := func(at time.Time) {
			t.Helper()
			r.tick(at)
			mustPass(t, r.run("run", "--once"))
		}
		r.tick(r.day.Add(30 * time.Minute))
		mustPass(t, r.run("apply", "--yes"))
		for i := range 3 {
			at := r.day.AddDate(0, 0, i)
			maintained(at.Add(time.Hour))
			r.insert(at, at.AddDate(0, 0, 1), 0)
		}
		r.ask("before the last day is computed")
		now := r.day.AddDate(0, 0, 3).Add(12 * time.Hour)
		maintained(now)
		r.insert(now.Add(-10*time.Hour), now, 1) // some of it below the watermark
		maintained(now.Add(time.Minute))
		full := r.ask("complete")
		// Rows that no refresh has seen yet.
		r.insert(r.day.Add(5*time.Hour), r.day.Add(6*time.Hour), 2)
		r.ask("late rows")
		change := func(q string) { execSQL(r, r.db, q) }
		stored := "readings"
		if kind == "sqlite" {
			stored = "readings_p20261121"
		}
		change(fmt.Sprintf("UPDATE %s SET price = 77 WHERE sensor = 2 AND ts >= %s AND ts < %s", stored, r.at(r.day.Add(30*time.Hour)), r.at(r.day.Add(31*time.Hour))))
		change(fmt.Sprintf("DELETE FROM %s WHERE sensor = 3 AND ts >= %s AND ts < %s", stored, r.at(r.day.Add(40*time.Hour)), r.at(r.day.Add(41*time.Hour))))
		if n := r.ask("changed rows"); n == 0 && r.typed() {
			t.Error("no query reads the buckets that are exact")
		}
		maintained(now.Add(2 * time.Minute))
		if n := r.ask("computed again"); n != full {
			t.Errorf("%d queries read roll-ups, and %d before", n, full)
		}
		change(fmt.Sprintf("INSERT INTO rowmill_stale (rollup_name, bucket) VALUES ('readings_15m', %d), ('readings_1d', %d)", r.day.Add(time.Hour).UnixMicro(), r.day.UnixMicro()))
		change(fmt.Sprintf("UPDATE readings_15m SET raw_rows = raw_rows + 1000 WHERE bucket = %s", r.at(r.day.Add(time.Hour))))
		r.ask("stale buckets")
		change("DELETE FROM rowmill_stale")
		change("UPDATE readings_15m SET raw_rows = raw_rows - 1000 WHERE raw_rows > 1000")

		// Rows that come after the plan: the answer has them.
		p, err := r.asker.Plan(t.Context(), "SELECT COUNT(*) FROM readings", r.state)
		must(t, err)
		before := countRolled(t, r.asker, p)
		change(fmt.Sprintf("INSERT INTO readings VALUES (1, %s, 99, 'a', 1, 1, 1)", r.at(r.day.Add(time.Hour))))
		if (len(p.Rollups) == 0 || before.rerun != "") && r.typed() {
			t.Errorf("it reads a roll-up: %t; %+v", len(p.Rollups) > 0, before)
		}
		if after := countRolled(t, r.asker, p); after.value != before.value+1 || (after.rerun == "") != (len(p.Rollups) == 0) {
			t.Errorf("before %+v, after a row has come %+v", before, after)
		}
		// Dropped rows are in the roll-ups, and not in the answer.
		maintained(r.day.AddDate(0, 0, 5).Add(12 * time.Hour))
		var raw, kept int64
		must(t, r.db.SQL().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM readings").Scan(&raw))
		must(t, r.db.SQL().QueryRowContext(t.Context(), "SELECT SUM(raw_rows) FROM readings_1d").Scan(&kept))
		if raw >= kept {
			t.Errorf("%d rows, %d in the roll-up: nothing was dropped", raw, kept)
		}
		if n := r.ask("dropped periods"); n == 0 && r.typed() {
			t.Error("no query reads the roll-up of the other periods")
		}
		if r.typed() {
			r.truncated()
		}
		// Without exact = true, none is read.
		text, _, _ = strings.Cut(r.text, "exact  = true")
		writeFile(t, r.file, text+strings.TrimPrefix(r.text, text+"exact  = true"))
		mustPass(t, r.run("apply", "--yes"))
		if n := r.ask("not exact"); n > 0 {
			t.Errorf("%d queries read roll-ups that need not be exact", n)
		}
	})
}

// truncated checks that the rows of a partition that was emptied by hand, which no trigger sees,
// are not in an answer.
func (r *rolledTest) truncated() {
	p, err := r.asker.Plan(r.Context(), "SELECT COUNT(*) FROM readings", r.state)
	must(r, err)
	execSQL(r, r.db, map[string]string{"mariadb": "ALTER TABLE readings TRUNCATE PARTITION p20261122", "postgres": "TRUNCATE readings_p20261122"}[r.server])
	var rows int64
	must(r, r.db.SQL().QueryRowContext(r.Context(), "SELECT COUNT(*) FROM readings").Scan(&rows))
	if got := countRolled(r.T, r.asker, p); len(p.Rollups) == 0 || got.value != rows || got.rerun == "" {
		r.Errorf("%d rows are left; %+v with %d roll-ups", rows, got, len(p.Rollups))
	}
}

// A counted is the answer of a query with one number.
type counted struct {
	value int64
	rerun string
}

func (c *counted) Columns([]engine.ResultColumn) error { return nil }

func (c *counted) Row(values [][]byte) error {
	_, err := fmt.Sscan(string(values[0]), &c.value)
	return err
}

func countRolled(t *testing.T, r *query.Runner, p *plan.Plan) counted {
	t.Helper()
	var c counted
	report, err := r.Run(context.WithoutCancel(t.Context()), p, &c)
	must(t, err)
	c.rerun = report.Rerun
	return c
}

// TestQueryRollupSpeed compares a dashboard's query over 100 sealed days and an open one, of 40,000
// rows each, read from a roll-up and from the rows, and prints how long they take. It runs at
// night; TestQueryRollups stands for it otherwise. At its end, a day is emptied that the Runner
// knows to have rows.
func TestQueryRollupSpeed(t *testing.T) {
	testdb.SkipUnlessNightly(t, "TestQueryRollups")
	text := strings.NewReplacer("$DOUBLE", "DOUBLE", "every = \"1d\"\nahead", "every = \"1d\"\nfrom  = \"2026-01-01\"\nahead", "keep  = \"4d\"\n", "", "exact  = true\n", "").Replace(rolledDeclaration)
	r := &rolledTest{keptTable: declare(t, "mariadb", text), day: time.Date(2026, 4, 11, 0, 0, 0, 0, time.UTC)}
	r.tick(r.day)
	mustPass(t, r.run("apply", "--yes"))
	const days, perDay = 101, 40_000
	for day := range days {
		execSQL(t, r.db, fmt.Sprintf("INSERT INTO readings SELECT seq %% 10, '2026-01-01' + INTERVAL %d DAY + INTERVAL seq * 2 SECOND, seq, 'a', seq %% 7, seq %% 1000 / 100, seq FROM seq_0_to_%d", day, perDay-1))
	}
	text = strings.Replace(r.text, "time   = \"ts\"\n", "time   = \"ts\"\nexact  = true\n", 1)
	writeFile(t, r.file, text)
	mustPass(t, r.run("apply", "--yes"))
	r.tick(r.day.Add(20 * time.Hour))
	mustPass(t, r.run("run", "--once"))
	reader := r.db.(engine.Reader)
	r.asker = query.New(reader, query.Options{Parallel: 2, Rollups: maintain.NewRolled(reader)})
	t.Cleanup(func() { must(t, r.asker.Close()) })
	best := func(whole bool, asked int) time.Duration {
		least := time.Hour
		for range asked {
			begin := time.Now()
			p, err := r.asker.Plan(t.Context(), "SELECT DATE(ts) AS day, sensor, COUNT(*), AVG(price), SUM(n) FROM readings WHERE ts >= '2026-01-01' GROUP BY day, sensor", r.state)
			must(t, err)
			if len(p.Rollups) == 0 {
				t.Fatalf("no roll-up is read: %q, %q", p.Whole, p.NoRollup)
			}
			if whole {
				p.Whole = "for comparison"
			}
			report, err := r.asker.Run(t.Context(), p, discarded{})
			must(t, err)
			if report.Rows != days*10 || report.Rerun != "" {
				t.Fatalf("%d rows, %s", report.Rows, report.Rerun)
			}
			least = min(least, time.Since(begin))
		}
		return least
	}
	s, err := reader.ReadSession(t.Context(), nil)
	must(t, err)
	r.state, err = reader.ReadState(t.Context(), s)
	must(t, err)
	must(t, s.Close())
	rows, first := best(true, 2), best(false, 1)
	rolled := best(false, 20)
	t.Logf("from the rows %v, from the roll-up %v, asked again %v: %.0f times as fast", rows, first, rolled, rows.Seconds()/rolled.Seconds())
	p, err := r.asker.Plan(t.Context(), "SELECT COUNT(*) FROM readings", r.state)
	must(t, err)
	execSQL(t, r.db, "ALTER TABLE readings TRUNCATE PARTITION p20260105")
	if got := countRolled(t, r.asker, p); len(p.Rollups) == 0 || got.value != (days-1)*perDay || got.rerun == "" {
		t.Errorf("after TRUNCATE PARTITION: %+v", got)
	}
}

// discarded is a sink.
type discarded struct{}

func (discarded) Columns([]engine.ResultColumn) error { return nil }
func (discarded) Row([][]byte) error                  { return nil }
