package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/testdb"
)

// tool runs a client program of a server, and skips the test without it.
func (l *loading) tool(name string, args ...string) string {
	l.Helper()
	_, err := exec.LookPath(name)
	testdb.Require(l, name, err)
	c := exec.Command(name, args...)
	var stderr strings.Builder
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		l.Fatalf("%s %q: %v\n%s", name, args, err, stderr.String())
	}
	return string(out)
}

// dumps runs the program that dumps the database, without tables of rowmill's own.
func (l *loading) dumps(args ...string) string {
	l.Helper()
	if l.server == "postgres" {
		return l.tool("pg_dump", append([]string{"-h", l.at.Query.Get("host"), "-p", l.at.Query.Get("port"), "-U", l.at.User, "-t", "readings*", "-t", "other", l.at.Path}, args...)...)
	}
	return l.tool("mariadb-dump", append(append([]string{"--no-defaults", "-u", l.at.User, "-S", l.at.Query.Get("socket")}, args...), l.at.Path, "other", "readings")...)
}

// TestLoadDumps loads dumps of each program, with the options that change their form, into
// the server that they are from and into another.
func TestLoadDumps(t *testing.T) {
	t.Parallel()
	for server, forms := range map[string]map[string][]string{
		"mariadb": {"default": nil, "hex": {"--hex-blob", "--skip-extended-insert"}, "complete": {"--complete-insert", "--no-create-info", "--compact"}},
		"postgres": {"copy": {"--load-via-partition-root"}, "inserts": {"--inserts", "--load-via-partition-root"},
			"columns": {"--column-inserts", "--rows-per-insert=7", "--load-via-partition-root", "--data-only"}},
	} {
		t.Run(server, func(t *testing.T) {
			t.Parallel()
			source := newCarried(t, server)
			source.does("CREATE TABLE other (a VARCHAR(80))")
			source.does("INSERT INTO other VALUES ('INSERT INTO readings VALUES (1); it''s')")
			n := len(source.rows())
			for form, options := range forms {
				dump := source.dumps(options...)
				into := []string{server}
				if testdb.Nightly() {
					into = append(into, "sqlite", map[string]string{"mariadb": "postgres", "postgres": "mysql"}[server])
				} else if form == "default" || form == "copy" {
					into = append(into, "sqlite")
				}
				for _, to := range into {
					t.Run(form+" into "+to, func(t *testing.T) {
						l := newLoading(t, to, withColumns(carriedColumns(to))...)
						path := l.write("dump.sql.gz", pack(t, "dump.sql.gz", dump))
						for k := 1; l.killed(k, "", "dump.sql.gz --batch 10 --writers 1"); k += 5 {
							if k > 100 {
								t.Fatal("it doesn't end")
							}
						}
						l.loads(exitDone, fmt.Sprintf("Sent 0, Before %d, BeforeRejected 0", n), filepath.Base(path))
						l.carries(source)
					})
				}
			}
		})
	}
}

// TestLoadMydumper loads the files that mydumper writes for a table, compressed.
func TestLoadMydumper(t *testing.T) {
	t.Parallel()
	source := newCarried(t, "mariadb")
	l := newLoading(t, "mariadb", withColumns(carriedColumns("mariadb"))...)
	dir := filepath.Join(l.dir, "dump")
	source.tool("mydumper", "--socket", source.at.Query.Get("socket"), "--user", source.at.User, "--database", source.at.Path, "--regex", "^"+source.at.Path+`\.readings$`,
		"--outputdir", dir, "--rows", "10", "--compress", "--no-schemas")
	files, err := filepath.Glob(filepath.Join(dir, "*.readings*.sql*"))
	must(t, err)
	if len(files) == 0 {
		files, _ = filepath.Glob(filepath.Join(dir, "*"))
		t.Fatalf("it wrote %q", files)
	}
	l.loads(exitDone, "", strings.Join(files, " "))
	l.carries(source)
}

// TestLoadDumpTrouble: dumps that can't be loaded are refused with what to do.
func TestLoadDumpTrouble(t *testing.T) {
	t.Parallel()
	l := newLoading(t, "sqlite")
	l.write("custom.sql", "PGDMP\x01\x0e\n")
	l.prints(exitFailed, "custom.sql", "a format of its own", "pg_restore -f FILE.sql -a -t TABLE")
	l.write("other.sql", "INSERT INTO `r2026` (sensor, ts, note) VALUES (1,'2026-03-29 01:00:00','a'),(2,'2026-03-29 01:00:00','b');\n")
	l.prints(exitFailed, "other.sql", "no rows of a table readings; it has rows of r2026", "--from-table")
	l.loads(exitDone, "Sent 2, Inserted 2, Finished true", "other.sql --from-table r2*")
	l.loads(exitDone, "Sent 0, Before 2", "other.sql --from-table r2*")
	l.write("cut.sql", "-- MySQL dump 10.13\nINSERT INTO `readings` (sensor, ts) VALUES (3,'2026-03-29 01:00:00'),(4,'2026-03-\n")
	l.prints(exitFailed, "cut.sql", "after row 1 of table readings: it ends in the middle of a statement")
	l.hasRows(3) // the row before is loaded
	l.write("bad.sql", "INSERT INTO `readings` VALUES (5,'0000-00-00 00:00:00',1,'a'),(6,'2026-03-29 01:00:00',1,'a');\n")
	l.loads(exitFailed, "Sent 2, Inserted 1, Rejected 1", "bad.sql --format dump")
	l.refused("bad.sql", map[int64]string{2: "0000-00-00"})
	l.loadsFrom("USE x;INSERT INTO `u` VALUES (1);INSERT INTO `readings` (ts, sensor) VALUES ('2026-03-29 01:00:00',7);", exitDone, "Sent 1, Inserted 1", "- --format dump")
	const latin = "-- MySQL dump 10.13\n/*!40101 SET NAMES latin1 */;\nINSERT INTO `readings` VALUES (9,'2026-03-29 01:00:00',1,'\xc3\xa9');\n-- Dump completed\n"
	l.write("latin.sql", latin)
	l.prints(exitFailed, "latin.sql", "its text is in the character set latin1", "Try: --encoding latin1")
	l.loads(exitDone, "Inserted 1", "latin.sql --encoding latin1")
	l.has("\u00c3\u00a9", "SELECT note FROM readings r WHERE sensor = 9")
	l.write("two.sql", "CREATE TABLE `u` (a int);INSERT INTO `u` VALUES (1);INSERT INTO `readings` (ts, sensor) VALUES ('2026-03-29 01:00:00',8);\n")
	l.loads(exitDone, "Inserted 1; 2 statements were skipped in the dump, with the rows of u", "two.sql")
}

// TestLoadDumpOfComputed: columns that the server computes are skipped in dumps, whatever they have
// there.
func TestLoadDumpOfComputed(t *testing.T) {
	t.Parallel()
	onEach(t, keepers, func(t *testing.T, server string) {
		blob := map[bool]string{true: "BYTEA", false: "BLOB"}[server == "postgres"]
		l := newLoading(t, server, withColumns("twice INT GENERATED ALWAYS AS (sensor * 2) STORED, raw "+blob+",")...)
		l.write("my.sql", "-- MySQL dump 10.13\nCREATE TABLE `readings` (`sensor` int, `ts` datetime, `value` double, `note` text, `twice` int GENERATED ALWAYS AS (`sensor` * 2), `raw` blob);\n"+
			"INSERT INTO `readings` VALUES (1,'2026-03-29 01:00:00',1,'a',DEFAULT,'r'),(2,'2026-03-29 01:00:00',1,'b',7,NULL),(3,'2026-03-29 01:00:00',1,'c',NULL,NULL);\n-- Dump completed\n")
		l.loads(exitDone, "Inserted 3", "my.sql")
		l.write("pg.sql", "-- PostgreSQL database dump\nINSERT INTO public.readings VALUES (4, '2026-03-29 01:00:00', 1, 'd', DEFAULT, NULL);\n-- PostgreSQL database dump complete\n")
		l.loads(exitDone, "Inserted 1", "pg.sql")
		l.has("1 2 a; 2 4 b; 3 6 c; 4 8 d", "SELECT sensor, twice, note FROM readings r ORDER BY sensor")
		if server == "mariadb" || server == "postgres" { // and in those that its own program writes
			l.does("CREATE TABLE other (a INT)")
			options := map[string][]string{"postgres": {"--inserts", "--load-via-partition-root"}}[server]
			l.write("real.sql", l.dumps(options...))
			l.remove(" WHERE sensor > 1")
			l.loads(exitDone, "Inserted 3, Duplicate 1", "real.sql")
			l.has("1 2 a; 2 4 b; 3 6 c; 4 8 d", "SELECT sensor, twice, note FROM readings r ORDER BY sensor")
		}
		l.write("day.csv", "sensor,ts,twice\n4,2026-03-29 01:00:00,8\n")
		l.prints(exitFailed, "day.csv", "computed by the server", "Try: --skip-columns twice")
		l.write("default.sql", "-- MySQL dump 10.13\nINSERT INTO `readings` VALUES (5,DEFAULT,1,'a','r');\n-- Dump completed\n")
		l.prints(exitFailed, "default.sql", "DEFAULT, for column ts, is not a literal value")
		l.write("bytes.sql", "-- MySQL dump 10.13\nINSERT INTO `readings` VALUES (5,'2026-03-29 01:00:00',1,'a',_binary '\xe9');\n-- Dump completed\n")
		l.prints(exitFailed, "bytes.sql --encoding latin1", "bytes for column raw were read as text in windows-1252", "Try: a dump with --hex-blob")
	})
}

// TestLoadLiterals loads literals from dumps into columns of several types. The server, which is
// given the same INSERT, says what they are. What it refuses is refused, and so is what it would
// round.
func TestLoadLiterals(t *testing.T) {
	t.Parallel()
	const all = "TRUE false 12 007 +5 -1.50 .5 '7' '0x0A'"
	my, pg := strings.Fields("b'1010' b'01000001' 0b101 0x0A 0x41 x'0a' X'' b'' "+all), strings.Fields("B'00001010' X'0A' "+all)
	const columns = "big BIGINT, d DECIMAL(20,2), f DOUBLE PRECISION, flag BOOLEAN, bits BIT(8), raw VARBINARY(20), txt VARCHAR(40)"
	onEach(t, []string{"mariadb", "mysql", "postgres"}, func(t *testing.T, server string) {
		columns, list, mark, end := columns, my, "-- MySQL dump 10.13\n", "-- Dump completed\n"
		query := "SELECT sensor, big, d, f, flag, bits + 0, txt, raw FROM %s r ORDER BY sensor"
		if server == "postgres" {
			columns, list, mark, end = strings.ReplaceAll(columns, "VARBINARY(20)", "BYTEA"), pg, "-- PostgreSQL database dump\n", "-- PostgreSQL database dump complete\n"
			query = strings.Replace(query, "bits + 0", "CAST(bits AS TEXT)", 1)
		}
		l := newLoading(t, server, withColumns(columns+",")...)
		l.does("CREATE TABLE oracle (sensor INT, " + columns + ")")
		sensor := 0
		for column := range strings.SplitSeq(columns, ", ") {
			name, _, _ := strings.Cut(column, " ")
			begin := fmt.Sprintf("%sINSERT INTO readings (sensor, ts, %s) VALUES ", mark, name)
			var rows []string
			for _, literal := range list {
				sensor++
				row := fmt.Sprintf("(%d, '2026-03-29 01:00:00', %s)", sensor, literal)
				if _, err := l.db.SQL().ExecContext(t.Context(), fmt.Sprintf("INSERT INTO oracle (sensor, %s) VALUES (%d, %s)", name, sensor, literal)); err == nil {
					rows = append(rows, row)
					continue
				}
				l.write("refused.sql", begin+row+";\n"+end)
				s := rowmill(t.Context(), "load", l.file, filepath.Join(l.dir, "refused.sql"), "--dry-run", "--bad", filepath.Join(l.dir, "refused.jsonl"))
				if s.code != exitFailed && !(server == "postgres" && name != "raw") { // words for numbers, which have other types elsewhere
					t.Errorf("%s into %s: exit %d, and the server refuses it", literal, name, s.code)
				}
			}
			l.write("good.sql", begin+strings.Join(rows, ", ")+";\n"+end)
			l.loads(anyCode, "Finished true", "good.sql --source "+name)
		}
		is, want := l.query(fmt.Sprintf(query, "readings")), l.query(fmt.Sprintf(query, "oracle"))
		if len(is) < len(want)*3/4 {
			t.Errorf("%d rows, and the server has %d", len(is), len(want))
		}
		for _, row := range is {
			if !slices.Contains(want, row) {
				t.Errorf("%q is none of the server's\n%q", row, want)
			}
		}
	})
}
