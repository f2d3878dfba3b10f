package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/target"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// A cluster is a private server with nodes, and a declaration of a table on them.
type cluster struct {
	*testing.T
	*target.DB
	dir, file, clock string
	text             string // of the declaration
}

const shardsTable = `
[table]
name   = "readings"
target = "$TARGET"
create = '''
CREATE TABLE readings (
  sensor BIGINT NOT NULL, ts $TIME NOT NULL, value INT NOT NULL,
  PRIMARY KEY (sensor, ts))'''
time   = "ts"

[period]
every = "1d"
from  = "2026-03-26"
keep  = "30d"

[shards]
by = "sensor"

[shards.nodes]
n1 = "$1"
n2 = "$2"
n3 = "$3"
`

func openCluster(t *testing.T, kind string) *cluster {
	t.Helper()
	option := map[string]string{"mariadb": "spider=3&durability=relaxed&memory=16MB&redo=8MB&port=auto&set=general_log=1", "postgres": "fdw=3&durability=relaxed&memory=16MB&redo=32MB&port=auto&set=log_statement=all"}[kind]
	dir := t.TempDir()
	t.Chdir(dir)
	db, err := target.Open(t.Context(), "sandbox:"+kind+"?"+option, func(string) {})
	if err != nil {
		testdb.Require(t, kind, err)
	}
	must(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &cluster{T: t, DB: db, dir: dir, file: filepath.Join(dir, "readings.toml"), clock: filepath.Join(dir, "clock")}
	var replace []string
	for i, n := range db.Nodes[1:] {
		to := n.Target
		if i == 2 { // with a password
			to = n.Server.TCPTarget()
		}
		replace = append(replace, fmt.Sprintf("$%d", i+1), to)
	}
	c.text = strings.NewReplacer(replace...).Replace(filled(shardsTable, db.Nodes[0].Target, dir))
	c.declare(c.text)
	writeFile(t, c.clock, "2026-03-29T12:00:00Z")
	return c
}

func (c *cluster) declare(text string) {
	c.Helper()
	c.text = text
	writeFile(c, c.file, text)
}

// target returns what the declaration says about a node.
func (c *cluster) target(node string) string {
	_, text, _ := strings.Cut(c.text, "\n"+node+" = ")
	text, _, _ = strings.Cut(text, "\n")
	return text
}

// run runs a verb, which must end with a code and say these texts.
func (c *cluster) run(code int, says []string, verb string, args ...string) session {
	c.Helper()
	return c.runIn(code, "", says, verb, args...)
}

func (c *cluster) runIn(code int, stdin string, says []string, verb string, args ...string) session {
	c.Helper()
	var stdout, stderr bytes.Buffer
	got := run(c.Context(), append([]string{verb, c.file, "--clock", c.clock}, args...), strings.NewReader(stdin), &stdout, &stderr)
	s := session{got, stdout.String(), stderr.String()}
	if s.code != code {
		c.Fatalf("%s %q: exit %d, want %d\n%s%s", verb, args, s.code, code, s.stdout, s.stderr)
	}
	for _, text := range says {
		if !strings.Contains(s.stdout+s.stderr, text) {
			c.Errorf("%s %q doesn't say %q:\n%s%s", verb, args, text, s.stdout, s.stderr)
		}
	}
	return s
}

// rows returns the number of rows and their sum on a server: 0 is the head.
func (c *cluster) rows(server int) (out string, err error) {
	c.Helper()
	db := c.DB.DB
	if server > 0 {
		db = openKeeper(c, c.Nodes[server].Target)
	}
	var n, sum int64
	err = db.(engine.Keeper).SQL().QueryRowContext(c.Context(), "SELECT COUNT(*), COALESCE(SUM(value), 0) FROM readings").Scan(&n, &sum)
	return fmt.Sprint(n, " ", sum), err
}

func (c *cluster) wantRows(server int, want string) {
	c.Helper()
	if got, err := c.rows(server); err != nil || got != want {
		c.Errorf("server %d has rows %q, error %v, want %q", server, got, err, want)
	}
}

// Rows of 99 sensors are on the nodes that the servers themselves choose. A node that is killed is
// named, there is no partial answer, and it catches up.
func TestShards(t *testing.T) {
	if apart(t) {
		return
	}
	for _, kind := range testdb.Kinds(t, "mariadb", "postgres") {
		t.Run(kind, func(t *testing.T) {
			c := openCluster(t, kind)
			c.samePlaces(kind)
			c.run(exitDone, []string{"-- node n3: create table readings", "-- head: create "}, "apply", "--dry-run")
			// Whatever stops it, the next one continues.
			each := 7
			if testdb.Nightly() {
				each = 1
			}
			for n := 0; ; n += each {
				ctx, cancel := context.WithCancel(t.Context())
				a := newApp([]string{"apply", c.file, "--yes", "--clock", c.clock}, strings.NewReader(""), io.Discard, &stepped{after: n + 2, do: cancel})
				if code := a.run(ctx); code == exitDone {
					break
				}
				if n > 30 {
					t.Fatal("apply doesn't advance")
				}
			}
			c.run(exitDone, []string{"nothing to do"}, "apply")
			c.run(exitFailed, []string{"node n1: readings", "node n3: readings", "stopped:"}, "status")
			c.wantSecret()

			head := c.DB.DB.(engine.Presenter)
			keys := []int64{-1 << 63, 1<<63 - 1, -1, 0, 1, 2, 3, -7, 1 << 31, -1 << 31, 1 << 32, -1<<32 - 1, 123456789012345678}
			for i, key := range keys {
				execSQL(t, head, "INSERT INTO readings (sensor, ts, value) VALUES (?, '2026-03-29 06:00:00', ?)", key, i)
			}
			h := &engine.Head{Nodes: make([]engine.HeadNode, 3)}
			for i, key := range keys {
				node := openKeeper(t, c.Nodes[1+head.NodeOf(h, key)].Target)
				var value int
				if err := node.SQL().QueryRowContext(t.Context(), node.Bind("SELECT value FROM readings WHERE sensor = ?"), key).Scan(&value); err != nil || value != i {
					t.Errorf("the row with key %d isn't on the node of NodeOf: %v", key, err)
				}
			}
			execSQL(t, head, "DELETE FROM readings")

			// Two rows of the file can't be read, and one has no period: each is rejected once.
			c.file1("day1.csv", "x,2026-03-29 00:00:00,1\n5,2026-03-29 25:00:00,1\n7,2001-03-29 00:00:00,1\n")
			c.run(exitFailed, []string{"n1: ", "n2: ", "n3: "}, "load", "day1.csv", "--retry", "0s")
			c.wantRows(0, "990 489555")
			if bad := c.badRows("day1.csv"); bad != 3 {
				t.Errorf("%d bad rows, want 3", bad)
			}
			sum := int64(0)
			for server := 1; server <= 3; server++ {
				got, err := c.rows(server)
				must(t, err)
				var n, s int64
				fmt.Sscan(got, &n, &s)
				if sum += s; n < 200 {
					t.Errorf("node %d has %d rows", server, n)
				}
			}
			if sum != 489555 {
				t.Errorf("the nodes have a sum of %d", sum)
			}
			c.run(exitDone, []string{"n3: ", "nothing to do"}, "load", "day1.csv", "--max-bad", "0")

			c.queries()
			if kind == "mariadb" { // of new sessions; a second by default
				execSQL(t, head, "SET GLOBAL spider_connect_retry_interval = 1")
			}
			served := c.serve(kind)
			c.Nodes[2].Server.Kill()
			served("rowmill_n2_")
			for _, args := range [][]string{{"--shards", c.file}, {"--target", c.Nodes[0].Target}} {
				s := rowmill(t.Context(), append([]string{"query", "SELECT COUNT(*) FROM readings"}, args...)...)
				if s.code != exitFailed || s.stdout != "" || !strings.Contains(s.stderr, "n2") {
					t.Errorf("query %q while node 2 is down: exit %d\n%s%s", args, s.code, s.stdout, s.stderr)
				}
			}
			if testdb.Nightly() { // Spider takes two seconds in this session
				if got, err := c.rows(0); err == nil || !strings.Contains(err.Error(), "rowmill_n2_") {
					t.Errorf("a query while node 2 is down: %s, %v", got, err)
				}
			}
			c.file1("day2.csv", "")
			s := c.run(exitFailed, []string{"node n2: ", "no answer from"}, "load", "day2.csv", "--source", "second", "--again", "--retry", "0s")
			if strings.Contains(s.stderr, "node n1:") {
				t.Errorf("other nodes: %s", s.stderr)
			}
			c.run(exitFailed, []string{"node n2: ", "no answer from"}, "apply")
			c.run(exitFailed, []string{"node n2: readings", "! node: node n2: no answer from", "node n3: readings"}, "status")
			c.run(exitFailed, []string{"node n2: no answer from", "n1: seal p20260326", "n3: seal p20260326"}, "run", "--once")
			must(t, c.Nodes[2].Server.Restart(t.Context()))
			served("")
			c.wantRows(0, "990 489555")
			c.run(exitDone, []string{"n2: seal p20260326"}, "run", "--once")
			c.run(exitDone, nil, "load", "day2.csv", "--source", "second")
			c.wantRows(0, "990 489555")

			// stdin, which is read once; a spool for each node; one node alone gets its own rows only.
			c.runIn(exitDone, "sensor,ts,value\n1,2026-03-29 09:30:00,1\n2,2026-03-29 09:30:00,1\n3,2026-03-29 09:30:00,1\n", nil, "load", "-", "--spool", "spool")
			c.wantRows(0, "993 489558")
			writeFile(t, "few.csv", "sensor,ts,value\n1,2026-03-29 10:30:00,1\n2,2026-03-29 10:30:00,1\n3,2026-03-29 10:30:00,1\n4,2026-03-29 10:30:00,1\n5,2026-03-29 10:30:00,1\n6,2026-03-29 10:30:00,1\n")
			for _, n := range []string{"n1", "n2", "n3"} {
				c.run(exitDone, nil, "load", "few.csv", "--target", n)
			}
			c.wantRows(0, "999 489564")

			// A new column is on the nodes first, then on the head.
			before := c.text
			c.declare(strings.Replace(c.text, "value INT NOT NULL,", "value INT NOT NULL, note VARCHAR(20),", 1))
			c.run(exitDone, []string{"node n1: add column note"}, "apply", "--yes")
			execSQL(t, head, "UPDATE readings SET note = 'n' WHERE sensor = 5")
			c.run(exitDone, []string{"nothing to do"}, "apply")
			c.wantRows(0, "999 489564")

			c.slices(kind)

			// Nothing is done for nodes in another order, and for a head that has rows of its own.
			c.declare(strings.NewReplacer("n1 = ", "n2 = ", "n2 = ", "n1 = ").Replace(c.text))
			c.run(exitFailed, []string{"rows would be on the wrong nodes"}, "apply", "--yes")
			c.declare(strings.NewReplacer(c.target("n1"), c.target("n2"), c.target("n2"), c.target("n1")).Replace(before))
			c.run(exitFailed, []string{"the target of node n1 is that of node n2"}, "apply", "--yes")
			c.declare(before)
			c.run(exitUsage, []string{"is on the nodes n1, n2, n3", "--target n1"}, "plan")
			c.run(exitUsage, []string{"is on the nodes n1, n2, n3", "--target n1"}, "restore", "p20260326")
			c.run(exitUsage, []string{"no node of that name, but n1, n2, n3"}, "status", "--target", "n4")
		})
	}
}

// samePlaces refuses one database under two addresses, before anything is created.
func (c *cluster) samePlaces(kind string) {
	c.Helper()
	text := c.text
	defer func() { c.declare(text) }()
	head := c.Nodes[0].Server.TCPTarget()
	others := []struct{ node, target, says string }{
		{"n2", c.Nodes[3].Target, "nodes n2 and n3 are the same database by two addresses"},
		{"n1", head, "node n1 is the table's own target by another address"},
		{"n1", strings.Replace(head, "/rowmill?", "/mysql?", 1), "node n1 is a database of the head's own server"},
	}
	if kind == "postgres" {
		execSQL(c, openKeeper(c, c.Nodes[2].Target), "CREATE DATABASE other TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C.UTF-8' LC_CTYPE 'C.UTF-8'")
		others[2].node, others[2].target, others[2].says = "n2", strings.Replace(c.Nodes[2].Target, "/rowmill?", "/other?", 1), "node n2 has the encoding and collation UTF8 C.UTF-8 C.UTF-8 c, and that of the head "
	}
	for _, o := range others {
		c.declare(strings.Replace(text, c.target(o.node), fmt.Sprintf("%q", o.target), 1))
		c.run(exitFailed, []string{o.says}, "apply", "--yes")
		c.text = text
	}
}

// slices puts whole periods on one node each, by all types of a column of time, and finds the rows
// where the servers put them.
func (c *cluster) slices(kind string) {
	c.Helper()
	before := c.text
	defer func() { c.declare(before) }()
	type column struct{ native, epoch, every, period string }
	columns := map[string][]column{
		"mariadb":  {{"DATETIME(6)", "", "1d", "1d"}, {"TIMESTAMP", "", "1w", "1d"}, {"DATE", "", "2d", "1d"}, {"BIGINT", "ms", "1w", "1w"}, {"INT UNSIGNED", "s", "6h", "1h"}},
		"postgres": {{"timestamptz", "", "1w", "1d"}, {"timestamp(3)", "", "6h", "1h"}, {"date", "", "2d", "1d"}, {"bigint", "us", "1w", "1w"}},
	}[kind]
	if !testdb.Nightly() {
		columns = columns[:1]
	}
	head := c.DB.DB.(engine.Presenter)
	for i, col := range columns {
		name := fmt.Sprintf("t%d", i)
		text := strings.NewReplacer("readings", name, "sensor BIGINT NOT NULL, ts "+timeType(c.Nodes[0].Target), "sensor INT NOT NULL, ts "+col.native, `by = "sensor"`, fmt.Sprintf("by = \"ts\"\nevery = %q", col.every),
			`every = "1d"`, fmt.Sprintf("every = %q", col.period), `from  = "2026-03-26"`, `from = "2026-03-23"`).Replace(strings.Replace(before, ", note VARCHAR(20)", "", 1))
		if col.epoch != "" {
			text = strings.Replace(text, `time   = "ts"`, fmt.Sprintf("time = \"ts\"\nepoch = %q", col.epoch), 1)
		}
		c.declare(text)
		c.run(exitDone, nil, "apply", "--yes")
		c.run(exitDone, []string{"nothing to do"}, "apply")
		d, err := rolling.ParseDeclaration(c.file, []byte(text))
		must(c, err)
		table := &engine.Table{Name: name, Grid: d.Period, By: "ts", Epoch: d.Epoch, Definition: d.Definition}
		h, err := engine.NewHead(table, &d.Shards)
		must(c, err)
		step := 6 * int64(time.Hour/time.Microsecond)
		if d.WholeDays() {
			step *= 4
		}
		nodes, n := map[int]bool{}, 0
		begin := rolling.Position(time.Date(2026, 3, 23, 0, 0, 0, 0, time.UTC))
		var csv strings.Builder
		csv.WriteString("sensor,ts,value\n")
		for pos := begin; pos < begin+7*24*int64(time.Hour/time.Microsecond); pos += step {
			for _, at := range []int64{pos, pos - 1e6} {
				if at < begin || d.WholeDays() && at != pos {
					continue
				}
				n++
				nodes[head.NodeOf(h, at)] = true
				if n%2 == 0 { // half of them through the head, half of them by rowmill
					execSQL(c, head, fmt.Sprintf("INSERT INTO %s (sensor, ts, value) VALUES (%d, %s, %d)", name, n, head.Words().Literal(table, at), at/1e6))
				} else if col.epoch != "" {
					fmt.Fprintf(&csv, "%d,%d,%d\n", n, at/table.ByUnit(), at/1e6)
				} else {
					fmt.Fprintf(&csv, "%d,%s,%d\n", n, rolling.Instant(at).Format(time.DateTime), at/1e6)
				}
			}
		}
		writeFile(c, name+".csv", csv.String())
		c.run(exitDone, nil, "load", name+".csv")
		for node := range 3 {
			db := openKeeper(c, c.Nodes[1+node].Target)
			values, err := engine.List[int64](c.Context(), db, db.SQL(), "SELECT value FROM "+name)
			must(c, err)
			for _, at := range values {
				if want := head.NodeOf(h, at*1e6); want != node {
					c.Errorf("%s: the row of %s is on node %d, and NodeOf says %d", col.native, rolling.Instant(at*1e6), node, want)
				}
			}
			if n -= len(values); len(values) == 0 && nodes[node] {
				c.Errorf("%s: node %d has no rows", col.native, node)
			}
		}
		if n != 0 || len(nodes) < 2 && col.every != "1w" {
			c.Errorf("%s: %d rows are missing, %d nodes", col.native, n, len(nodes))
		}
	}
}

// shardQueries are answered the same way by a plain table, by the head whole, in pieces through the
// head, and in pieces by the nodes.
var shardQueries = []string{
	"SELECT COUNT(*), SUM(value), MIN(sensor), MAX(value), COUNT(DISTINCT ts), AVG(value) FROM readings",
	"SELECT sensor, COUNT(*) AS n, SUM(value) FROM readings GROUP BY sensor HAVING SUM(value) > 4600 ORDER BY 3 DESC, 1 LIMIT 7",
	"SELECT ts, COUNT(*), SUM(sensor) FROM readings WHERE ts >= '2026-03-28' GROUP BY ts ORDER BY ts",
	"SELECT sensor % 7, COUNT(DISTINCT sensor), SUM(value) FROM readings WHERE value % 3 = 1 GROUP BY sensor % 7 ORDER BY 1",
	"SELECT sensor, ts, value FROM readings ORDER BY ts DESC, sensor LIMIT 5 OFFSET 3",
	"SELECT ts, value FROM readings WHERE sensor = 5 ORDER BY ts LIMIT 3",
	"SELECT DISTINCT sensor FROM readings WHERE sensor IN (1, 5, 9, 33) ORDER BY sensor",
	"SELECT COUNT(*) FROM readings WHERE sensor < -1000",
}

// Whole, Spider answers these wrongly, or with an error: without or with a piece for each node, and
// read whole.
var spiderFaults = []string{
	"SELECT sensor % 7 AS s, COUNT(*) FROM readings GROUP BY s WITH ROLLUP",
	"SELECT DATE(ts) AS d, SUM(value) FROM readings WHERE sensor = 5 GROUP BY d WITH ROLLUP",
	"SELECT COUNT(*) FROM readings WHERE EXTRACT(DAY_HOUR FROM ts) = 2600",
	"SELECT COUNT(*) FROM readings WHERE LOCATE('5', value) > 1 AND NULLIF(value, 3) > b'101' AND SYSDATE() > ts",
	"SELECT COUNT(*) FROM readings WHERE value LIKE '1|_5' ESCAPE '|' OR value LIKE '1%5' COLLATE utf8mb4_bin XOR sensor = 3",
	"SELECT ts, RANK() OVER (ORDER BY value) AS n FROM readings WHERE sensor = 5 ORDER BY n",
	"SELECT value FROM readings WHERE sensor = 5 UNION SELECT value + 10000 FROM readings WHERE sensor = 5 ORDER BY 1",
	"SELECT COUNT(*), SUM(a.value) FROM readings a JOIN readings b USING (sensor) WHERE a.sensor <> 5 AND b.sensor NOT IN (7, 9) AND b.ts < a.ts",
	"SELECT sensor, COUNT(*) FROM readings WHERE sensor = 777 GROUP BY sensor",
	"SELECT COUNT(*) FROM readings WHERE DATE(ts) BETWEEN '2026-03-27 23:59:59' AND '2026-03-28 10:00:00'",
	"SELECT - 3 AS c, value FROM readings WHERE sensor = 5 ORDER BY value",
	"SELECT (SELECT COUNT(*) FROM readings) AS n, sensor FROM readings WHERE sensor < 3 OR sensor > 60 GROUP BY sensor ORDER BY 2",
}

func (c *cluster) queries() {
	c.Helper()
	head := c.DB.DB.(engine.Keeper)
	for _, q := range []string{"CREATE TABLE plain_readings (sensor BIGINT NOT NULL, ts " + timeType(c.Nodes[0].Target) + " NOT NULL, value INT NOT NULL, PRIMARY KEY (sensor, ts))",
		"INSERT INTO plain_readings SELECT sensor, ts, value FROM readings"} {
		execSQL(c, head, q)
	}
	ask := func(q string, args ...string) string {
		c.Helper()
		s := rowmill(c.Context(), append([]string{"query", q}, args...)...)
		if s.code != exitDone {
			c.Errorf("query %q %q: exit %d\n%s%s", q, args, s.code, s.stdout, s.stderr)
		}
		return s.stdout
	}
	at := []string{"--target", c.Nodes[0].Target}
	list := shardQueries
	if !testdb.Nightly() {
		list = list[:2]
	}
	for _, q := range list {
		if want, got := ask(strings.Replace(q, "readings", "plain_readings", 1), at...), ask(q, at...); got != want {
			c.Errorf("%s: the head says\n%sand a plain table\n%s", q, got, want)
		}
		for _, args := range [][]string{at, {"--shards", c.file}} {
			var got session
			for n := 0; n == 0 || n < 6 && strings.Contains(got.stderr, "was altered while the query began"); n++ { // right after the table was made, on a busy machine
				time.Sleep(time.Duration(min(n, 1)) * time.Second)
				got = rowmill(c.Context(), append([]string{"query", q, "--check"}, args...)...)
			}
			if got.code != exitDone || !strings.HasPrefix(got.stdout, "the same: ") {
				c.Errorf("%s %q: exit %d\n%s%s", q, args, got.code, got.stdout, got.stderr)
			}
		}
	}
	if c.Nodes[0].Engine == "mariadb" {
		for _, q := range spiderFaults {
			want := ask(strings.ReplaceAll(strings.ReplaceAll(q, "FROM readings", "FROM plain_readings"), "JOIN readings", "JOIN plain_readings"), at...)
			ways := [][]string{at, {"--shards", c.file}}
			if !testdb.Nightly() {
				ways = ways[:1]
			}
			for _, args := range ways {
				if got := ask(q, args...); got != want {
					c.Errorf("%s %q:\n%swant\n%s", q, args, got, want)
				}
			}
		}
		c.invisible(ask)
		execSQL(c, head, "CREATE VIEW all_readings AS SELECT * FROM readings")
		for _, q := range []string{"SELECT COUNT(*) FROM all_readings", "SELECT COUNT(*) FROM readings USE INDEX (PRIMARY)", "SELECT COUNT(*) FROM readings FOR SYSTEM_TIME ALL"} {
			s := rowmill(c.Context(), "query", q, "--target", c.Nodes[0].Target)
			if s.code != exitFailed || !strings.Contains(s.stderr, "readings has its rows on other servers") && !strings.Contains(s.stderr, "all_readings") {
				c.Errorf("%s: exit %d\n%s%s", q, s.code, s.stdout, s.stderr)
			}
		}
	}
	text := c.text
	for _, o := range []struct{ text, says string }{
		{strings.Replace(text, "n3 = "+c.target("n3"), "", 1), "was applied with its rows by sensor on n1, n2, n3, and by sensor on n1, n2 is declared"},
		{strings.NewReplacer(c.target("n1"), c.target("n2"), c.target("n2"), c.target("n1")).Replace(text), "the target of node n1 is that of node n2"},
		{strings.Replace(text, c.target("n2"), fmt.Sprintf("%q", c.Nodes[3].Target), 1), "nodes n2 and n3 are the same database by two addresses"},
	} {
		c.declare(o.text)
		s := rowmill(c.Context(), "query", "--shards", c.file, shardQueries[0])
		if s.code != exitFailed || s.stdout != "" || !strings.Contains(s.stderr, o.says) {
			c.Errorf("a declaration of other nodes: exit %d, want %q\n%s%s", s.code, o.says, s.stdout, s.stderr)
		}
	}
	c.declare(text)
	if c.Nodes[0].Engine == "postgres" { // texts would be in another order on the nodes than where partials are merged
		execSQL(c, head, "CREATE DATABASE other TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C.UTF-8' LC_CTYPE 'C.UTF-8'")
		s := rowmill(c.Context(), "query", "--shards", c.file, "--target", strings.Replace(c.Nodes[0].Target, "/rowmill?", "/other?", 1), shardQueries[0])
		if s.code != exitFailed || s.stdout != "" || !strings.Contains(s.stderr, "that of the head UTF8 C.UTF-8 C.UTF-8 c: texts would be in another order") {
			c.Errorf("a head with another collation: exit %d\n%s%s", s.code, s.stdout, s.stderr)
		}
	}
	s := rowmill(c.Context(), "query", "--shards", c.file, "--check", shardQueries[1])
	if !strings.Contains(s.stdout+s.stderr, "several servers have no common snapshot") {
		c.Errorf("there is no warning about the snapshot: %s%s", s.stdout, s.stderr)
	}
}

// invisible reads a table of Spider with an invisible column, for which a star doesn't stand, and
// by which NATURAL doesn't join.
func (c *cluster) invisible(ask func(string, ...string) string) {
	c.Helper()
	head, node := c.DB.DB.(engine.Keeper), openKeeper(c, c.Nodes[1].Target)
	const columns = " (id INT NOT NULL PRIMARY KEY, hid INT INVISIBLE, `grüß``e \"x` INT)"
	servers, err := engine.List[string](c.Context(), head, head.SQL(), "SELECT Server_name FROM mysql.servers WHERE Server_name LIKE 'rowmill_n1_%'")
	must(c, err)
	execSQL(c, node, "CREATE TABLE `häh?`"+columns)
	for _, q := range []string{"CREATE TABLE `häh?`" + columns + " ENGINE=SPIDER COMMENT='wrapper \"mysql\", srv \"" + servers[0] + "\", table \"häh?\"'", "CREATE TABLE plain_hidden" + columns,
		"CREATE TABLE other (id INT PRIMARY KEY, hid INT)", "INSERT INTO other VALUES (1, 9), (2, 5)",
		"INSERT INTO plain_hidden (id, hid, `grüß``e \"x`) VALUES (1, 2, 3), (2, 5, 7)", "INSERT INTO `häh?` (id, hid, `grüß``e \"x`) VALUES (1, 2, 3), (2, 5, 7)"} {
		execSQL(c, head, q)
	}
	for q, refused := range map[string]bool{
		"SELECT * FROM T ORDER BY id": false, "SELECT x.*, `GRÜß``e \"x` + 1 FROM T AS x WHERE `grüß``e \"x` LIKE '7' ESCAPE '|'": false,
		"SELECT * FROM T NATURAL JOIN other ORDER BY id": false, "SELECT hid FROM T ORDER BY id": false,
		"SELECT x.hid FROM T AS x NATURAL JOIN other": true, "SELECT *, hid FROM T": true,
	} {
		through := strings.ReplaceAll(q, "FROM T", "FROM `häh?`")
		if refused {
			if s := rowmill(c.Context(), "query", through, "--target", c.Nodes[0].Target); s.code != exitFailed || s.stdout != "" || !strings.Contains(s.stderr, "omits the invisible column hid") {
				c.Errorf("%s: exit %d\n%s%s", through, s.code, s.stdout, s.stderr)
			}
			continue
		}
		at := []string{"--target", c.Nodes[0].Target}
		if want, got := ask(strings.ReplaceAll(q, "FROM T", "FROM plain_hidden"), at...), ask(through, at...); got != want {
			c.Errorf("%s:\n%swant\n%s", through, got, want)
		}
	}
}

// serve runs `rowmill serve` in front of MariaDB's head. The function that it returns asks queries,
// which have the head's own answers, and while a node is down an error that names it.
func (c *cluster) serve(kind string) (ask func(down string)) {
	if kind != "mariadb" {
		return func(string) {}
	}
	address, stop := startServe(c.T, c.Nodes[0].Target)
	c.Cleanup(func() { stop() })
	db, err := sql.Open("mysql", "root@tcp("+address+")/rowmill")
	must(c, err)
	c.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(c.Context())
	must(c, err)
	one := func(text string, args ...any) (string, error) {
		var a, b string
		err := conn.QueryRowContext(c.Context(), text, args...).Scan(&a, &b)
		return a + " " + b, err
	}
	ask = func(down string) {
		c.Helper()
		queries := []struct {
			text, want string
			args       []any
		}{
			{"SELECT COUNT(*), SUM(value) FROM readings", "990 489555", nil},
			{"SELECT COUNT(DISTINCT sensor), MAX(value) FROM readings WHERE value > ?", "99 989", []any{3}},
		}
		if down != "" { // each takes two seconds
			queries = queries[:1]
		}
		for _, q := range queries {
			got, err := one(q.text, q.args...)
			if down == "" && (err != nil || got != q.want) || down != "" && (err == nil || !strings.Contains(err.Error(), down)) {
				c.Errorf("%s through serve: %q, %v, want %q; node down %q", q.text, got, err, q.want, down)
			}
		}
		// One piece would do, and yet it would have no snapshot.
		if _, err := one("SELECT COUNT(*), SUM(value) FROM readings WHERE sensor = 3"); err != nil {
			c.Errorf("a query for another node: %v", err)
		}
		var level, code, note string
		if err := conn.QueryRowContext(c.Context(), "SHOW WARNINGS").Scan(&level, &code, &note); err != nil || !strings.Contains(note, "passed on whole: it reads rows of other servers") {
			c.Errorf("a query for one node: %s, %v", note, err)
		}
	}
	ask("")
	return ask
}

// wantSecret checks that the password of node 3 is in no log of the head.
func (c *cluster) wantSecret() {
	c.Helper()
	password := strings.TrimSpace(string(readFile(c, c.Nodes[3].Server.PasswordFile)))
	logged := 0
	must(c, filepath.WalkDir(c.Nodes[0].Server.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".log" {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(password)) {
			c.Errorf("%s has the password", path)
		}
		logged += bytes.Count(text, []byte("readings"))
		return err
	}))
	if logged == 0 {
		c.Error("the head logs no statements")
	}
}

// file1 writes a file of 990 rows of 99 sensors, and of others.
func (c *cluster) file1(name, others string) {
	c.Helper()
	var b strings.Builder
	b.WriteString("sensor,ts,value\n")
	for i := range 990 {
		at := time.Date(2026, 3, 26+i%4, i/99, 0, 0, 0, time.UTC)
		fmt.Fprintf(&b, "%d,%s,%d\n", i%99-30, at.Format(time.DateTime), i)
	}
	writeFile(c, name, b.String()+others)
}

func (c *cluster) badRows(source string) (n int) {
	c.Helper()
	files, err := filepath.Glob(source + ".n?.bad.jsonl")
	must(c, err)
	for _, f := range files {
		n += bytes.Count(readFile(c, f), []byte("\n"))
	}
	return n
}

// A stepped writer calls a function once it was written to so often.
type stepped struct {
	after int
	do    func()
}

func (s *stepped) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("node ")) || bytes.HasPrefix(p, []byte("head: ")) {
		if s.after--; s.after == 0 {
			s.do()
		}
	}
	return len(p), nil
}
