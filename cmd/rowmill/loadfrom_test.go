package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/sandbox"
	"github.com/rowmill/rowmill/internal/testdb"
)

// onPairs runs a test for pairs of databases, the one to read and the one to load into; in the
// nightly set for all pairs.
func onPairs(t *testing.T, fn func(t *testing.T, from, into string)) {
	t.Parallel()
	pairs := [][2]string{{"postgres", "mariadb"}, {"mysql", "sqlite"}}
	if testdb.Nightly() {
		pairs = nil
		kinds := []string{"sqlite", "mariadb", "mysql", "postgres"}
		for _, from := range kinds {
			for _, into := range kinds {
				pairs = append(pairs, [2]string{from, into})
			}
		}
	}
	for _, p := range pairs {
		t.Run(p[0]+" to "+p[1], func(t *testing.T) {
			t.Parallel()
			fn(t, p[0], p[1])
		})
	}
}

// insertRows inserts rows of sensors from a first one on, one each.
func (l *loading) insertRows(table string, first, n int) {
	l.Helper()
	var rows []string
	for i := range n {
		at := loadStart.Add(time.Duration(i*7%3600) * time.Second)
		rows = append(rows, fmt.Sprintf("(%d, '%s', 0.25, 'n%d')", first+i, at.Format("2006-01-02 15:04:05"), i))
	}
	for part := range slices.Chunk(rows, 500) {
		l.does("INSERT INTO " + table + " (sensor, ts, value, note) VALUES " + strings.Join(part, ", "))
	}
}

// does executes a statement.
func (l *loading) does(statement string) {
	l.Helper()
	if _, err := l.db.SQL().ExecContext(l.Context(), statement); err != nil {
		l.Fatalf("%.200s: %v", statement, err)
	}
}

// same compares the rows of two tables.
func (l *loading) same(other *loading) {
	l.Helper()
	if is, want := l.rows(), other.rows(); !slices.Equal(is, want) {
		l.Errorf("%d rows, want %d:\n%.300q\n%.300q", len(is), len(want), is, want)
	}
}

// TestLoadFrom kills a load of another server's table at many points. The table has no key
// that the source has, so that only the ledger prevents duplicates.
func TestLoadFrom(t *testing.T) {
	onPairs(t, func(t *testing.T, from, into string) {
		source := newLoading(t, from)
		l := newLoading(t, into, numbered(into, "")...)
		source.insertRows("readings", 1000, 1000)
		flags := "--writers 1 --batch 50 --from " + source.target
		last := session{code: -1}
		for n := 1; last.code < 0; n += 3 {
			if n > 300 {
				t.Fatal("it doesn't end")
			}
			last = l.exec(n, "", flags)
		}
		if last.code != exitDone || !strings.Contains(last.stdout, "1,000 rows in") {
			t.Errorf("exit %d\n%s%s", last.code, last.stdout, last.stderr)
		}
		if got := l.loads(exitDone, "Sent 0, Finished true, Rejected 0; only rows with a higher key", flags)[0]; got.Before != 1000 {
			t.Errorf("%+v", got)
		}
		l.same(source)
		// Rows before the last key are not found, and those after it are.
		source.insertRows("readings", 0, 1)
		source.insertRows("readings", 3000, 70)
		l.loads(exitDone, "Sent 70, Before 1000", flags)
		l.prints(exitFailed, flags+" --again", "has no key without NULL")
		l.prints(exitFailed, flags+" --columns ts,sensor,value", "other options", "--again")
		l.insertRows("readings", 0, 1)
		l.same(source)
		l.prints(exitDone, "--list", "loaded", " readings")
	})
}

// TestLoadFromTrouble: what can't be read or loaded is refused or a bad row.
func TestLoadFromTrouble(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, server string) {
		source, l := newLoading(t, server, withColumns("more INT,")...), newLoading(t, server)
		from := "--from " + source.target
		l.prints(exitFailed, from, "lacks: more", "--columns sensor,ts,value,note")
		l.prints(exitFailed, from+" --from-table other", "other", "--from-table")
		l.prints(exitUsage, "--from "+l.target, "it is the table into which it would be loaded")
		l.prints(exitUsage, from+" day.csv", "can't be combined with day.csv")
		l.prints(exitUsage, from+" --time-zone Europe/Berlin", "times are in UTC")
		l.prints(exitUsage, "--since 5m", "--from URL")
		l.prints(exitUsage, from+" --since soon", "neither a length of time nor a time")
		l.prints(exitUsage, from+" --until 5m", "--until needs --since")
		l.prints(exitUsage, from+" --since 5m --until 10m", "not before")
		only := from + " --columns sensor,ts,note"
		l.loads(exitDone, "Sent 0, Finished true", only)
		source.insertRows("readings", 0, 120)
		source.does("CREATE TABLE plain (sensor INT NOT NULL, ts VARCHAR(30), value INT, note VARCHAR(30))")
		source.does("INSERT INTO plain VALUES (1, '2026-03-29 01:00:00', 1, 'NULL'), (2, '2026-13-29 01:00:00', 1, ''), (3, '2019-01-01 00:00:00', NULL, NULL), " +
			"(4, '2026-03-29 01:00:00', 2, 'far too long for the column')")
		l.loads(exitDone, "Sent 120, Inserted 120", only+" --dry-run")
		l.hasRows(0)
		l.loads(exitDone, "Sent 120, Inserted 120, Duplicate 0", only)
		l.loads(exitDone, "Sent 120, Inserted 0, Duplicate 120; it is loaded again", only+" --again")
		l.loads(exitDone, "Sent 0, Before 120", only)
		source.does("CREATE TABLE keyed (sensor INT NOT NULL, ts VARCHAR(30), note VARCHAR(30), PRIMARY KEY (sensor))")
		source.does("INSERT INTO keyed VALUES (1, '2026-03-29 01:00:00', 'far too long for the column'), (2, '2026-03-29 01:00:00', 'far too long for the column')")
		l.prints(exitFailed, from+" --from-table keyed --max-bad 1", "more than 1 row")
		l.loads(exitDone, "Sent 2, Inserted 2; begins anew", from+" --from-table keyed --columns sensor,ts")
		l.remove(" WHERE ts = '2026-03-29 01:00:00'")
		// A table without a key is read in one pass, each time.
		l.loads(exitFailed, "Sent 4, Inserted 1, Rejected 3; in one pass", from+" --from-table plain --batch 3")
		l.loads(exitFailed, "Sent 4, Inserted 0, Duplicate 1, Rejected 3", from+" --from-table plain")
		l.refused("readings", map[int64]string{2: "ts: ", 3: "older than keep", 4: "note"})
		l.has("NULL", "SELECT note FROM readings r WHERE sensor = 1 AND ts = '2026-03-29 01:00:00'")
	})
}

// A dialectText is the SQL of each kind of server for one thing.
type dialectText struct{ my, pg, lite string }

func (d dialectText) of(server string) string {
	switch {
	case server == "postgres" && d.pg != "":
		return d.pg
	case server == "sqlite" && d.lite != "":
		return d.lite
	}
	return d.my
}

// carried are columns and their values, in the SQL of each kind of server: the type, the values,
// and the expression that reads a value in one form.
var carried = []struct {
	name   string
	typ    dialectText
	values []dialectText
	read   dialectText
}{
	{"i", dialectText{my: "BIGINT"}, []dialectText{{my: "-9223372036854775808"}, {my: "9223372036854775807"}}, dialectText{my: "i"}},
	{"u", dialectText{my: "DECIMAL(20,0)", lite: "TEXT"}, []dialectText{{my: "18446744073709551615", lite: "'18446744073709551615'"}, {my: "0", lite: "'0'"}}, dialectText{my: "CAST(u AS CHAR(30))", pg: "u::text"}},
	{"d", dialectText{my: "DECIMAL(30,10)", lite: "TEXT"}, []dialectText{{my: "-12345678901234567890.0123456789", lite: "'-12345678901234567890.0123456789'"}, {my: "0.1000000000", lite: "'0.1000000000'"}}, dialectText{my: "CAST(d AS CHAR(40))", pg: "d::text"}},
	{"f", dialectText{my: "DOUBLE", pg: "DOUBLE PRECISION"}, []dialectText{{my: "0.1e0"}, {my: "5e-324"}, {my: "-1.7976931348623157e308"}, {my: "0.30000000000000004e0"}}, dialectText{my: "f"}},
	{"at", dialectText{my: "DATETIME(6)", pg: "TIMESTAMP", lite: "DATETIME"}, []dialectText{{my: "'2026-03-29 02:30:00.000001'"}, {my: "'1000-01-01 00:00:00.000007'"}},
		dialectText{my: "CAST(at AS CHAR(26))", pg: "to_char(at, 'YYYY-MM-DD HH24:MI:SS.US')"}},
	{"tz", dialectText{my: "TIMESTAMP(6) NULL", pg: "TIMESTAMPTZ", lite: "DATETIME"}, []dialectText{{my: "'2026-03-29 02:30:00.250000'", pg: "'2026-03-29 02:30:00.25+00'"}},
		dialectText{my: "CAST(tz AS CHAR(26))", pg: "to_char(tz AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"}},
	{"day", dialectText{my: "DATE"}, []dialectText{{my: "'2024-02-29'"}}, dialectText{my: "CAST(day AS CHAR(10))"}},
	{"clock", dialectText{my: "TIME(3)"}, []dialectText{{my: "'23:59:59.125'"}}, dialectText{my: "CAST(clock AS CHAR(12))"}},
	{"txt", dialectText{my: "TEXT"}, []dialectText{
		{my: "CONVERT(X'5C4E' USING utf8mb4)", pg: `convert_from('\x5C4E', 'UTF8')`, lite: "CAST(X'5C4E' AS TEXT)"}, {my: "'NULL'"}, {my: "''"}, {my: "' a '"},
		{my: "CONVERT(X'0922275C0A0D0D0AE697A5F09F988009' USING utf8mb4)", pg: `convert_from('\x0922275C0A0D0D0AE697A5F09F988009', 'UTF8')`, lite: "CAST(X'0922275C0A0D0D0AE697A5F09F988009' AS TEXT)"}},
		dialectText{my: "HEX(txt)", pg: "upper(encode(convert_to(txt, 'UTF8'), 'hex'))"}},
	{"raw", dialectText{my: "VARBINARY(40)", pg: "BYTEA", lite: "BLOB"}, []dialectText{{my: "X'000102090A0D5C5C4E27FFFE80'", pg: `'\x000102090A0D5C5C4E27FFFE80'`}, {my: "X''", pg: "''"}},
		dialectText{my: "HEX(raw)", pg: "upper(encode(raw, 'hex'))"}},
	{"b", dialectText{my: "BOOLEAN"}, []dialectText{{my: "TRUE"}, {my: "FALSE"}}, dialectText{my: "b + 0", pg: "b::int"}},
	{"bits", dialectText{my: "BIT(9)"}, []dialectText{{my: "b'101000001'", lite: "321"}, {my: "b'000000010'", lite: "2"}, {my: "b'000000000'", lite: "0"}},
		dialectText{my: "bits + 0", pg: "bits::int", lite: "bits"}},
	{"j", dialectText{my: "JSON", pg: "JSONB"}, []dialectText{{my: `'{"a": "x\\ty"}'`, pg: `'{"a": "x\ty"}'`, lite: `'{"a": "x\ty"}'`}, {my: "'[]'"}}, dialectText{my: "CAST(j AS CHAR(20))", pg: "j::text"}},
	{"c", dialectText{my: "CHAR(3)"}, []dialectText{{my: "'äb'"}}, dialectText{my: "c", pg: "rtrim(c)", lite: "rtrim(c)"}},
}

// TestLoadFromValues loads values of every type that servers share, and NULL in each column.
func TestLoadFromValues(t *testing.T) {
	onPairs(t, func(t *testing.T, from, into string) {
		source, l := newCarried(t, from), newLoading(t, into, withColumns(carriedColumns(into))...)
		l.loads(exitDone, fmt.Sprintf("Sent %d, Inserted %[1]d", len(source.rows())), "--from "+source.target)
		l.carries(source)
	})
}

// carriedColumns are the columns of carried, each followed by a comma.
func carriedColumns(server string) string {
	var list strings.Builder
	for _, c := range carried {
		fmt.Fprintf(&list, "%s %s, ", c.name, c.typ.of(server))
	}
	return list.String()
}

// newCarried creates a table with a row for each of the values of carried.
func newCarried(t *testing.T, server string) *loading {
	t.Helper()
	l := newLoading(t, server, withColumns(carriedColumns(server))...)
	sensor := 0
	for _, c := range carried {
		for _, v := range append(c.values, dialectText{my: "NULL"}) {
			sensor++
			l.does(fmt.Sprintf("INSERT INTO readings (sensor, ts, %s) VALUES (%d, '2026-03-29 01:00:00', %s)", c.name, sensor, v.of(server)))
		}
	}
	return l
}

// carries compares the rows with those of a table of newCarried.
func (l *loading) carries(source *loading) {
	l.Helper()
	l.same(source)
	for _, c := range carried {
		read := func(l *loading) []string {
			return l.query(fmt.Sprintf("SELECT sensor, %s FROM readings r WHERE %s IS NOT NULL ORDER BY sensor", c.read.of(l.server), c.name))
		}
		is, want := read(l), read(source)
		for i := range want {
			if i >= len(is) || is[i] != want[i] {
				l.Fatalf("%s: %q, want %q", c.name, is[min(i, len(is)):], want[i:])
			}
		}
		if len(is) > len(want) {
			l.Errorf("%s: %q, want %q", c.name, is, want)
		}
	}
}

// TestTwoSites: each of two sites loads the other's last half hour, again and again, while both
// take inserts; loads overlap, and some are killed. In the end both have all rows of that time,
// once.
func TestTwoSites(t *testing.T) {
	onPairs(t, func(t *testing.T, from, into string) {
		a, b := newLoading(t, from), newLoading(t, into)
		load := func(l, other *loading) string { return "--since 30m --from " + other.target + " --clock " + l.clock }
		// Of the rows, one each 2 s from 00:00 to 01:00 in turn at each site, those from 00:10 on are
		// loaded.
		insert := func(l *loading, first, n int) {
			var rows []string
			for i := first; i < first+n; i++ {
				at := loadStart.Add(-40*time.Minute + time.Duration(i)*2*time.Second)
				rows = append(rows, fmt.Sprintf("(%d, '%s', 1, 'live')", i%7, at.Format("2006-01-02 15:04:05")))
			}
			l.does("INSERT INTO readings (sensor, ts, value, note) VALUES " + strings.Join(rows, ", "))
		}
		const each, rounds = 150, 6
		var all sync.WaitGroup
		for round := range rounds {
			for n := range 2 { // two loads of each site overlap
				all.Go(func() { a.killed(round%3*(n+2), "", load(a, b)) })
				all.Go(func() { b.killed(round%2*(n+3), "", load(b, a)) })
			}
			insert(a, 2*round*each, each)
			insert(b, (2*round+1)*each, each)
			all.Wait()
		}
		b.loads(exitDone, "Rejected 0", load(b, a))
		a.loads(exitDone, "Rejected 0", load(a, b))
		b.loads(exitDone, "Rejected 0, Inserted 0, Finished true", load(b, a))
		recent := func(l *loading) []string {
			return slices.DeleteFunc(l.rows(), func(row string) bool { return strings.Fields(row)[2] < "00:10:00" })
		}
		is, want := recent(a), recent(b)
		if len(is) != 2*rounds*each-300 || !slices.Equal(is, want) {
			t.Errorf("%d rows here and %d there, want %d", len(is), len(want), 2*rounds*each-300)
		}
		// 300 rows are older, of which each site has its own.
		if n, m := len(a.rows())-len(is), len(b.rows())-len(want); n+m != 300 {
			t.Errorf("%d older rows here and %d there", n, m)
		}
		b.loads(exitDone, "Sent 30", "--since 2026-03-29T00:00:00Z --until 39m --from "+a.target+" --clock "+b.clock)
		b.prints(exitDone, load(b, a), "!rows/s,", "0 rejected")
	})
}

// TestLoadFromWideRows: a chunk whose rows are wider than those before is divided, and a load
// that is killed afterwards continues with its parts.
func TestLoadFromWideRows(t *testing.T) {
	t.Parallel()
	source, l := newLoading(t, "sqlite", withColumns("body TEXT,")...), newLoading(t, "sqlite", append(withColumns("body TEXT,"), numbered("sqlite", "")...)...)
	source.insertRows("readings", 0, 1460)
	source.does("INSERT INTO readings (sensor, ts, body) WITH RECURSIVE n(i) AS (SELECT 1460 UNION ALL SELECT i + 1 FROM n WHERE i < 1499) SELECT i, '2026-03-29 00:59:59', hex(zeroblob(500000)) FROM n")
	flags := "--writers 1 --from " + source.target
	l.kill(8, "", flags)
	if got := l.loads(exitDone, "Finished true, Sent 1500, Rejected 0", flags)[0]; got.Continued == 0 || got.Batches < 4 {
		t.Errorf("%+v", got)
	}
	l.same(source)
	l.has("40 1000000", "SELECT COUNT(body), MAX(length(body)) FROM readings r")
}

// TestLoadFromKilledServers kills the server that is read, the one that is loaded into, or the
// load, at random times. Only the ledger prevents duplicates.
func TestLoadFromKilledServers(t *testing.T) {
	testdb.SkipUnlessNightly(t, "TestLoadFrom")
	const kills, rows = 12, 6000
	for _, p := range [][2]string{{"postgres", "mariadb"}, {"mysql", "postgres"}} {
		t.Run(p[0]+" to "+p[1], func(t *testing.T) {
			t.Parallel()
			var private [2]*sandbox.Server
			for i, kind := range p {
				private[i] = privateServer(t, kind)
			}
			source := newLoadingAt(t, p[0], private[0].Target())
			l := newLoadingAt(t, p[1], private[1].Target(), numbered(p[1], "")...)
			source.insertRows("readings", 0, rows)
			r := rand.New(rand.NewPCG(7, uint64(len(t.Name()))))
			took := 4 * time.Second
			for n, run := 0, 0; n < kills || run == 0; {
				args := fmt.Sprintf("--batch 100 --retry 60s --source %d --from %s", run, source.target)
				began := time.Now()
				s := l.disturbed(0, args, time.Duration(r.Int64N(int64(took))), func(load *os.Process) {
					n++
					if victim := r.IntN(5); victim < 4 {
						private[victim%2].Kill()
						must(t, private[victim%2].Restart(t.Context()))
					} else {
						_ = load.Kill() // it may have ended
					}
				})
				if s.code > 0 {
					t.Fatalf("after %d kills: exit %d\n%s", n, s.code, s.stderr)
				}
				if s.code < 0 {
					continue
				}
				took = min(took, time.Since(began))
				for _, db := range []engine.Keeper{source.db, l.db} {
					_, _ = db.Describe(t.Context(), "readings") // a connection may be lost
				}
				l.same(source)
				l.does("DELETE FROM readings")
				run++
				if t.Failed() {
					t.Fatalf("after %d kills:\n%s", n, s.stderr)
				}
			}
		})
	}
}
