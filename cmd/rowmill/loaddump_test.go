package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
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
	l.hasRows(2)
	l.write("bad.sql", "INSERT INTO `readings` VALUES (5,'0000-00-00 00:00:00',1,'a'),(6,'2026-03-29 01:00:00',1,'a');\n")
	l.loads(exitFailed, "Sent 2, Inserted 1, Rejected 1", "bad.sql --format dump")
	l.refused("bad.sql", map[int64]string{2: "0000-00-00"})
	l.loadsFrom("USE x;INSERT INTO `u` VALUES (1);INSERT INTO `readings` (ts, sensor) VALUES ('2026-03-29 01:00:00',7);", exitDone, "Sent 1, Inserted 1", "- --format dump")
	l.write("two.sql", "CREATE TABLE `u` (a int);INSERT INTO `u` VALUES (1);INSERT INTO `readings` (ts, sensor) VALUES ('2026-03-29 01:00:00',8);\n")
	l.loads(exitDone, "Inserted 1; 2 statements were skipped in the dump, with the rows of u", "two.sql")
}
