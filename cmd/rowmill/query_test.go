package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/tabular"
	"github.com/rowmill/rowmill/internal/testdb"
)

// asked opens a database with the table readings, and returns its target.
func asked(t *testing.T, kind string) (engine.Keeper, string) {
	t.Helper()
	url := testdb.Target(t, kind).String()
	db := openKeeper(t, url)
	execSQL(t, db, "CREATE TABLE readings (id INT NOT NULL PRIMARY KEY, sensor VARCHAR(20), value DECIMAL(12,2))")
	for _, v := range []string{"(1, 'a', 1.50)", "(2, NULL, NULL)", "(3, 'b\tc', 1234567890.25)", "(4, '', -0.05)"} {
		execSQL(t, db, "INSERT INTO readings VALUES "+v)
	}
	return db, url
}

func TestQueryFormats(t *testing.T) {
	onEach(t, keepers, func(t *testing.T, kind string) {
		_, url := asked(t, kind)
		dir := t.TempDir()
		const q = "SELECT id, sensor, value FROM readings ORDER BY id"
		number := `"1.50"` // a column of an engine that lets it have any value
		rows := []string{`"1234567890.25"`, `"-0.05"`}
		if kind != "sqlite" {
			number, rows = "1.50", []string{"1234567890.25", "-0.05"}
		}
		for format, want := range map[string]string{
			"tsv":             "id\tsensor\tvalue\n1\ta\t1.50\n2\t\\N\t\\N\n3\tb\\tc\t1234567890.25\n4\t\t-0.05\n",
			"tsv --no-header": "1\ta\t1.50\n2\t\\N\t\\N\n3\tb\\tc\t1234567890.25\n4\t\t-0.05\n",
			"csv":             "id,sensor,value\n1,a,1.50\n2,,\n3,b\tc,1234567890.25\n4,\"\",-0.05\n",
			"ndjson":          `{"id":1,"sensor":"a","value":` + number + "}\n" + `{"id":2,"sensor":null,"value":null}` + "\n" + `{"id":3,"sensor":"b\tc","value":` + rows[0] + "}\n" + `{"id":4,"sensor":"","value":` + rows[1] + "}\n",
		} {
			if kind == "sqlite" { // it stores 1.50 as 1.5, and types belong to values
				want = strings.NewReplacer("1.50", "1.5", `"id":1,`, `"id":"1",`, `"id":2,`, `"id":"2",`, `"id":3,`, `"id":"3",`, `"id":4,`, `"id":"4",`).Replace(want)
			}
			s := verb(t, "query --target "+url+" --format "+format, q)
			if s.code != exitDone || s.stdout != want || s.stderr != "" {
				t.Errorf("%s: exit %d, stderr %q, got\n%s\nwant\n%s", format, s.code, s.stderr, s.stdout, want)
			}
		}
		s := verb(t, "query --target "+url+" --format table", q)
		if s.code != exitDone || !strings.Contains(s.stdout, `b\tc`) || !strings.HasPrefix(s.stdout, "+--") {
			t.Errorf("exit %d, %s%s", s.code, s.stdout, s.stderr)
		}
		path := filepath.Join(dir, "a.parquet")
		if s := verb(t, "query --target "+url+" --out "+path, q); s.code != exitDone || s.stdout != "" {
			t.Fatalf("exit %d, %s%s", s.code, s.stdout, s.stderr)
		}
		data := readFile(t, path)
		f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
		must(t, err)
		if f.NumRows() != 4 {
			t.Errorf("the file has %d rows", f.NumRows())
		}
		// A failed query leaves no file, and none of an earlier one is lost.
		if s := verb(t, "query --target "+url+" --out "+path, "SELECT nosuch FROM readings"); s.code != exitFailed || !strings.Contains(s.stderr, "nosuch") {
			t.Errorf("exit %d, %s", s.code, s.stderr)
		}
		if !bytes.Equal(readFile(t, path), data) {
			t.Error("the earlier answer was replaced")
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
			t.Errorf("left behind: %v, %v", list, err)
		}
	})
}

// TestQueryInputs checks where statements come from, and that several are run in turn.
func TestQueryInputs(t *testing.T) {
	_, url := asked(t, "sqlite")
	file := filepath.Join(t.TempDir(), "all.sql")
	writeFile(t, file, "-- two; statements\nSELECT 1 AS \"a;b\";\nSELECT ';' AS c;;\n")
	const want = "a;b\n1\nc\n;\n"
	if s := verb(t, "query --target "+url+" --file "+file); s.code != exitDone || s.stdout != want {
		t.Errorf("exit %d, %q, %s", s.code, s.stdout, s.stderr)
	}
	for _, args := range []string{"query --target " + url, "query --target " + url + " --file -", "query - --target " + url} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), bytes.NewReader(readFile(t, file)), &stdout, &stderr); code != exitDone || stdout.String() != want {
			t.Errorf("%s: exit %d, %q, %s", args, code, stdout.String(), stderr.String())
		}
	}
	s := verb(t, "query --target "+url, "SELECT 1 AS a; SELECT nosuch; SELECT 3")
	if s.code != exitFailed || s.stdout != "a\n1\n" || !strings.Contains(s.stderr, "statement 2 of 3 (line 1): ") {
		t.Errorf("exit %d, %q, %s", s.code, s.stdout, s.stderr)
	}
}

// TestQueryMissingFile checks that a name that is mistyped creates no database.
func TestQueryMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mistyped.db")
	s := verb(t, "query --target sqlite:"+path, "SELECT 1")
	if _, err := os.Stat(path); s.code != exitFailed || !strings.Contains(s.stderr, "there is no file "+path) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("exit %d, %s, %v", s.code, s.stderr, err)
	}
}

// TestQueryRefuses checks that nothing but queries is run, and nothing at all if one of
// several statements isn't one.
func TestQueryRefuses(t *testing.T) {
	onEach(t, keepers, func(t *testing.T, kind string) {
		db, url := asked(t, kind)
		cases := map[string]string{
			"DELETE FROM readings":                                     "it is not a query",
			"SELECT 1; UPDATE readings SET id = 9":                     "statement 2 of 2 (line 1): UPDATE",
			"(DELETE FROM readings)":                                   "it is not a query",
			"/* x */ -- y\n DROP TABLE readings":                       "it is not a query",
			"WITH x AS (SELECT 1) DELETE FROM readings":                "main statement is DELETE",
			"WITH x AS (SELECT 1) INSERT INTO readings SELECT 5, '',1": "main statement is INSERT",
			"\ufeffSELECT 1;\r\n\r\nDROP TABLE readings":               "statement 2 of 2 (line 3): DROP",
			"SELECT id INTO there FROM readings":                       "INTO stores rows on the server",
			"ANALYZE readings":                                         "it is not a query",
			"SELECT 1;\n\x00SELECT 2":                                  "zero byte on line 2",
			"":                                                         "no statement",
			" ; ":                                                      "no statement",
		}
		switch kind {
		case "mariadb", "mysql":
			cases["/*!50000 DELETE FROM readings */"] = "it is not a query"
			for _, q := range []string{
				"SELECT * FROM readings INTO OUTFILE '/tmp/x'", "(SELECT 1 INTO OUTFILE '/tmp/x')", "SELECT 1 /*! INTO OUTFILE '/tmp/x' */",
				"SELECT 1 /*!50000 INTO */ OUTFILE '/tmp/x'", "SELECT 1 AS $a INTO OUTFILE '/tmp/x'", "VALUES (1) INTO OUTFILE '/tmp/x'",
			} {
				cases[q] = "INTO stores"
			}
			cases["ANALYZE TABLE readings"] = "it is not a query"
		case "postgres":
			cases["WITH x AS (DELETE FROM readings RETURNING id) SELECT * FROM x"] = "read-only transaction"
			cases["EXPLAIN ANALYZE DELETE FROM readings"] = "read-only transaction"
		}
		if kind == "mariadb" {
			cases["ANALYZE DELETE FROM readings"] = "READ ONLY transaction"
			cases["ANALYZE FORMAT=JSON SELECT 1 INTO OUTFILE '/tmp/x'"] = "INTO stores"
		}
		for q, want := range cases {
			s := verb(t, "query --target "+url, q)
			if s.code != exitFailed || s.stdout != "" || !strings.Contains(s.stderr, want) {
				t.Errorf("%s: exit %d, %q, %s: want %s", q, s.code, s.stdout, s.stderr, want)
			}
		}
		n, err := engine.List[int](t.Context(), db, db.SQL(), "SELECT COUNT(*) FROM readings WHERE id < 5")
		must(t, err)
		if n[0] != 4 {
			t.Errorf("%d rows are left of 4", n[0])
		}
	})
}

// TestQueryFewPrivileges checks that an account that may not read is told all that a query needs,
// that one that may only read gets its answers, and that --explain tells it that a query is whole
// whose merge the server refuses it.
func TestQueryFewPrivileges(t *testing.T) {
	onEach(t, servers, func(t *testing.T, kind string) {
		url := testdb.Target(t, kind).String()
		db := openKeeper(t, url)
		user := fmt.Sprintf("rowmill_reads_%d", os.Getpid())
		at := newAccount(t, db, kind, user)
		reads := strings.Replace(url, "://root@", "://"+user+"@", 1)
		// Before the account has any: the table, its partitions, and those that the merge needs.
		denied := func(want ...string) {
			t.Helper()
			s := verb(t, "query --target "+reads, "SELECT n, COUNT(*) FROM fact GROUP BY n")
			for _, w := range want {
				if s.code != exitFailed || !strings.Contains(s.stderr, "\n"+w) || strings.Contains(s.stderr, "OWNER") {
					t.Errorf("exit %d, want %s: %s%s", s.code, w, s.stdout, s.stderr)
				}
			}
		}
		if kind == "postgres" {
			execSQL(t, db, "CREATE TABLE fact (p INT, n INT) PARTITION BY RANGE (p)")
			execSQL(t, db, "CREATE TABLE fact_0 PARTITION OF fact FOR VALUES FROM (MINVALUE) TO (50000)")
			execSQL(t, db, "CREATE TABLE fact_1 PARTITION OF fact FOR VALUES FROM (50000) TO (MAXVALUE)")
			execSQL(t, db, "INSERT INTO fact SELECT i, i % 7 FROM generate_series(1, 100000) AS s (i)")
			execSQL(t, db, "ANALYZE fact")
			denied("GRANT USAGE ON SCHEMA public TO "+user+";", "GRANT SELECT ON ALL TABLES IN SCHEMA public TO "+user+";")
			execSQL(t, db, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO "+at)
			execSQL(t, db, "DO $$ BEGIN EXECUTE 'REVOKE TEMP ON DATABASE ' || quote_ident(current_database()) || ' FROM PUBLIC'; END $$")
		} else {
			ten := "(SELECT 0 AS d" + strings.Repeat(" UNION ALL SELECT 1", 9) + ")"
			execSQL(t, db, "CREATE TABLE fact (p INT, n INT) PARTITION BY RANGE (p) (PARTITION p0 VALUES LESS THAN (2), PARTITION p1 VALUES LESS THAN (100))")
			execSQL(t, db, fmt.Sprintf("INSERT INTO fact SELECT a.d + b.d, c.d FROM %s a, %[1]s b, %[1]s c, %[1]s d, %[1]s e", ten))
			execSQL(t, db, "CREATE TABLE mine (n INT)")
			execSQL(t, db, "GRANT SELECT ON mine TO "+at)
			denied("GRANT SELECT, CREATE TEMPORARY TABLES ON `")
			execSQL(t, db, "GRANT SELECT ON fact TO "+at)
		}
		execSQL(t, db, "CREATE TABLE rowmill_tables (name INT)") // of tables that are kept, which the account may not read
		url = reads
		for _, q := range []string{"SELECT n, COUNT(*) FROM fact GROUP BY n", "SELECT COUNT(*) FROM fact WHERE p = 3"} {
			if s := verb(t, "query --target "+url, q); s.code != exitDone {
				t.Errorf("%s: exit %d, %s", q, s.code, s.stderr)
			}
		}
		s := verb(t, "query --explain --target "+url, "SELECT n, COUNT(*) + 1 FROM fact GROUP BY n HAVING COUNT(*) > 1")
		if s.code != exitDone || !strings.HasPrefix(s.stdout, "split       no: merge on the server: create temporary tables: ") {
			t.Errorf("exit %d, %s%s", s.code, s.stdout, s.stderr)
		}
	})
}

// longQuery is one that runs for a minute, and running what is left of it on the server.
var longQuery, running = map[string]string{
	"mariadb":  "SELECT SLEEP(60) AS long_query",
	"mysql":    "SELECT SLEEP(60) AS long_query",
	"postgres": "SELECT pg_sleep(60) AS long_query",
}, map[string]string{
	"mariadb":  "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '%long%query%' AND id <> CONNECTION_ID()",
	"mysql":    "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE '%long%query%' AND id <> CONNECTION_ID()",
	"postgres": "SELECT COUNT(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%long%query%' AND pid <> pg_backend_pid()",
}

// TestQueryInterrupted checks that Ctrl-C ends the query on the server.
func TestQueryInterrupted(t *testing.T) {
	onEach(t, servers, func(t *testing.T, kind string) {
		db, url := asked(t, kind)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan session, 1)
		go func() { ended <- rowmill(ctx, "query", "--target", url, longQuery[kind]) }()
		awaitRunning(t, db, kind, 1)
		stop()
		select {
		case s := <-ended:
			if s.code != exitInterrupted || !strings.Contains(s.stderr, "interrupted") {
				t.Errorf("exit %d, %s", s.code, s.stderr)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the query goes on")
		}
		awaitRunning(t, db, kind, 0)
	})
}

func awaitRunning(t *testing.T, db engine.Keeper, kind string, want int) {
	t.Helper()
	n := []int{-1}
	for end := time.Now().Add(20 * time.Second); n[0] != want && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var err error
		n, err = engine.List[int](t.Context(), db, db.SQL(), running[kind])
		must(t, err)
	}
	if n[0] != want {
		t.Fatalf("%d statements are running, want %d", n[0], want)
	}
}

// A closedPipe is a standard output whose reader has gone after some bytes.
type closedPipe struct{ left int }

func (p *closedPipe) Write(b []byte) (int, error) {
	if p.left -= len(b); p.left < 0 {
		return 0, syscall.EPIPE
	}
	return len(b), nil
}

// TestQueryBrokenPipe checks that a reader that has gone, such as head, ends the query.
func TestQueryBrokenPipe(t *testing.T) {
	onEach(t, servers, func(t *testing.T, kind string) {
		db, url := asked(t, kind)
		many := map[string]string{
			"mariadb":  "SELECT seq AS long_query FROM seq_1_to_1000000000",
			"mysql":    "WITH RECURSIVE d AS (SELECT 0 AS n UNION ALL SELECT n+1 FROM d WHERE n < 999) SELECT a.n AS long_query FROM d a, d b, d c",
			"postgres": "SELECT a AS long_query FROM generate_series(1, 1000) a, generate_series(1, 1000) b, generate_series(1, 1000) c",
		}[kind]
		var stderr bytes.Buffer
		code := run(t.Context(), []string{"query", "--target", url, many}, strings.NewReader(""), &closedPipe{left: 100_000}, &stderr)
		if code != exitPipe || stderr.Len() > 0 {
			t.Errorf("exit %d, %s", code, stderr.String())
		}
		awaitRunning(t, db, kind, 0)
	})
}

// TestQueryExamples runs the examples of the help, on a database that has their table.
func TestQueryExamples(t *testing.T) {
	_, url := asked(t, "mariadb")
	t.Chdir(t.TempDir())
	writeFile(t, "month.sql", "SELECT sensor, value FROM readings WHERE value > 0")
	a := newApp(nil, strings.NewReader(""), io.Discard, io.Discard)
	c := queries{a}.queryCommand()
	examples := strings.Split(strings.ReplaceAll(c.Example, "\\\n", ""), "\n")
	if len(examples) != 2 {
		t.Fatalf("%d examples: %q", len(examples), examples)
	}
	for i, line := range examples {
		var args []string
		for n, part := range strings.Split(line, "'") {
			if n%2 == 1 {
				args = append(args, part)
			} else {
				args = append(args, strings.Fields(part)...)
			}
		}
		for n, arg := range args {
			if strings.HasPrefix(arg, "mariadb://") {
				args[n] = url
			}
		}
		s := rowmill(t.Context(), args[1:]...)
		if s.code != exitDone || s.stderr != "" {
			t.Errorf("%s: exit %d, %s", line, s.code, s.stderr)
		}
		if i == 0 && !strings.Contains(s.stdout, "1234567890.25") {
			t.Errorf("%s: %s", line, s.stdout)
		}
	}
	if _, err := os.Stat("month.parquet"); err != nil {
		t.Error(err)
	}
}

// parted creates a table of 62,500 rows in four partitions, enough to be split, and returns its
// target.
func parted(t *testing.T, kind string) (engine.Keeper, string) {
	t.Helper()
	url := testdb.Target(t, kind).String()
	db := openKeeper(t, url)
	if kind == "postgres" {
		execSQL(t, db, "CREATE TABLE parted (id INT NOT NULL, k INT NOT NULL, amount DECIMAL(10,2), PRIMARY KEY (id, k)) PARTITION BY LIST (k)")
		for k := range 4 {
			execSQL(t, db, fmt.Sprintf("CREATE TABLE parted_%d PARTITION OF parted FOR VALUES IN (%d)", k, k))
		}
		execSQL(t, db, "INSERT INTO parted SELECT i, i % 4, i / 7.0 FROM generate_series(1, 62500) i")
		execSQL(t, db, "ANALYZE parted")
		return db, url
	}
	execSQL(t, db, "CREATE TABLE parted (id INT NOT NULL, k INT NOT NULL, amount DECIMAL(10,2), PRIMARY KEY (id, k)) PARTITION BY LIST (k) ("+
		"PARTITION p0 VALUES IN (0), PARTITION p1 VALUES IN (1), PARTITION p2 VALUES IN (2), PARTITION p3 VALUES IN (3))")
	execSQL(t, db, "INSERT INTO parted WITH RECURSIVE d AS (SELECT 0 AS n UNION ALL SELECT n+1 FROM d WHERE n < 249) "+
		"SELECT a.n * 250 + b.n, (a.n * 250 + b.n) % 4, (a.n * 250 + b.n) / 7 FROM d a, d b")
	return db, url
}

const grouped = "SELECT id % 10 AS digit, COUNT(*), SUM(amount) FROM parted WHERE k < 3 GROUP BY id % 10 ORDER BY id % 10"

// TestQueryExplain checks what --explain says of a query that is split, and of one that isn't.
func TestQueryExplain(t *testing.T) {
	t.Parallel()
	onEach(t, servers, func(t *testing.T, kind string) {
		_, url := parted(t, kind)
		s := verb(t, "query --parallel 2 --by-range --explain --target "+url, "SELECT MAX(id) + RAND() FROM parted; SELECT COUNT(*) FROM parted WHERE k = 1")
		if s.code != exitDone && kind != "postgres" { // which has no RAND
			t.Fatalf("exit %d, %s", s.code, s.stderr)
		}
		if kind != "postgres" && strings.Count(s.stdout, "split       no: ") != 2 {
			t.Errorf("%s", s.stdout)
		}
		s = verb(t, "query --json --explain --target "+url, grouped)
		var e struct {
			Format, Why string
			Split       bool
		}
		if err := json.Unmarshal([]byte(s.stdout), &e); err != nil || e.Format != "rowmill.explain/1" {
			t.Errorf("%v: exit %d, %s%s", err, s.code, s.stdout, s.stderr)
		}
		if e.Split == (e.Why != "") {
			t.Errorf("split %v, because %q", e.Split, e.Why)
		}
	})
}

// TestQueryInterruptedInPieces checks that Ctrl-C, and a reader that has gone, end all pieces on
// the server.
func TestQueryInterruptedInPieces(t *testing.T) {
	t.Parallel()
	onEach(t, servers, func(t *testing.T, kind string) {
		db, url := parted(t, kind)
		slow := "SELECT k, MAX(LENGTH(REPEAT(CONCAT(id, amount), 20000))) AS longest FROM parted AS long_query GROUP BY k"
		if kind == "postgres" {
			slow = "SELECT k, MAX(LENGTH(REPEAT(CAST(id AS TEXT), 2000000))) AS longest FROM parted AS long_query GROUP BY k"
		}
		if s := verb(t, "query --parallel 2 --explain --target "+url, slow); !strings.Contains(s.stdout, "on 2 sessions") {
			t.Fatalf("it is not split: %s%s", s.stdout, s.stderr)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan session, 1)
		go func() { ended <- rowmill(ctx, "query", "--parallel", "2", "--target", url, slow) }()
		awaitRunning(t, db, kind, 2)
		stop()
		select {
		case s := <-ended:
			if s.code != exitInterrupted {
				t.Errorf("exit %d, %s", s.code, s.stderr)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("the query goes on")
		}
		awaitRunning(t, db, kind, 0)
		var stderr bytes.Buffer
		if code := run(t.Context(), []string{"query", "--parallel", "2", "--target", url, "SELECT id, k AS long_query FROM parted"}, strings.NewReader(""), &closedPipe{left: 1000}, &stderr); code != exitPipe {
			t.Errorf("exit %d, %s", code, stderr.String())
		}
		awaitRunning(t, db, kind, 0)
	})
}

// TestQueryChecks checks that --check compares a query that is split, however small it is.
func TestQueryChecks(t *testing.T) {
	t.Parallel()
	onEach(t, servers, func(t *testing.T, kind string) {
		_, url := parted(t, kind)
		s := verb(t, "query --parallel 2 --check --target "+url, grouped)
		if s.code != exitDone || !strings.HasPrefix(s.stdout, "the same: 10 rows of 3 columns, whole and from ") {
			t.Errorf("exit %d, %s%s", s.code, s.stdout, s.stderr)
		}
		s = verb(t, "query --check --json --target "+url, grouped)
		var c struct {
			Same, Compared bool
			Rows           int64
		}
		if err := json.Unmarshal([]byte(s.stdout), &c); err != nil || !c.Same || !c.Compared || c.Rows != 10 {
			t.Errorf("%v: exit %d, %s%s", err, s.code, s.stdout, s.stderr)
		}
		s = verb(t, "query --check --target "+url, "SELECT 1")
		if s.code != exitDone || !strings.HasPrefix(s.stdout, "nothing to compare: ") {
			t.Errorf("exit %d, %s%s", s.code, s.stdout, s.stderr)
		}
	})
}

// A faultyWriter panics.
type faultyWriter struct{}

func (faultyWriter) Write([]byte) (int, error) { panic("a bug in the output") }

// TestQueryShowsStack panics while rows are passed on: the error has the stack, which a report of
// it needs.
func TestQueryShowsStack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	writeFile(t, path, "")
	const rows = "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 100000) SELECT n FROM r"
	var stderr strings.Builder
	a := newApp([]string{"query", rows, "--target", "sqlite:" + path}, strings.NewReader(""), faultyWriter{}, &stderr)
	if code := a.run(t.Context()); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	if got := stderr.String(); !strings.Contains(got, "please report it: a bug in the output\n") || !strings.Contains(got, "faultyWriter") {
		t.Errorf("no stack: %s", got)
	}
}

// TestQueryFormatOfOut chooses the format by the name of --out.
func TestQueryFormatOfOut(t *testing.T) {
	for _, test := range []struct {
		out          string
		format, want tabular.Format
		refused      string
	}{
		{"a.csv", "", "csv", ""}, {"a.TAB", "", "tsv", ""}, {"a.txt", "", "table", ""}, {"dir.d/a", "", "tsv", ""}, {".answer", "", "tsv", ""}, {"", "", "tsv", ""},
		{"a.xlsx", "", "", "no format has the ending .xlsx"}, {"a.csv.gz", "", "", "the ending .gz"}, {"a.xlsx", "csv", "csv", ""},
	} {
		f := queryFlags{target: "mariadb://u@h/d", snapshot: snapshotAuto, out: test.out, format: test.format}
		err := f.complete([]string{"SELECT 1"}, false)
		if test.refused == "" && (err != nil || f.format != test.want) || test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)) {
			t.Errorf("--out %q --format %q: %q, %v", test.out, test.format, f.format, err)
		}
	}
}
