package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/template"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// A layout is a table with partitions as others make them: a file of testdata/layouts. Its
// statements are separated by empty lines, and its first lines say what is expected, texts that are
// separated by semicolons:
//
//	-- layout: what it is, for the table of docs/takeover.md
//	-- server: mysql, for MariaDB and MySQL, or postgres
//	-- table: its name, "events" without this line
//	-- says: in what init prints
//	-- plan: in what apply --dry-run prints, besides rowmill's own tables; without this line, nothing is done to the table
//	-- refused: in the error of init
//	-- apply: in the error of apply
//	-- mend: a statement after which apply takes it over
type layout struct {
	file       string
	header     map[string]string
	statements []string
}

var layoutHeader = regexp.MustCompile(`(?m)^-- (\w+): (.*)\n`)

// readLayouts reads the layouts. Their times are of today, in UTC.
func readLayouts(t *testing.T) (out []layout) {
	t.Helper()
	today := time.Now().UTC().Truncate(24 * time.Hour)
	day := func(n int) time.Time { return today.AddDate(0, 0, n) }
	month := func(n int) time.Time {
		return time.Date(today.Year(), today.Month()+time.Month(n), 1, 0, 0, 0, 0, time.UTC)
	}
	words := template.FuncMap{
		"date": func(n int) string { return day(n).Format(time.DateOnly) }, "month": func(n int) string { return month(n).Format(time.DateOnly) },
		"unix": func(n int) int64 { return day(n).Unix() }, "unixmonth": func(n int) int64 { return month(n).Unix() },
		"ym": func(n int) string { return month(n).Format("200601") }, "year": func(n int) int { return today.Year() + n },
		"uuid": func(n int) string { return fmt.Sprintf("%012x7000800000000000%04d", day(n).UnixMilli(), 0) },
	}
	files, err := filepath.Glob(filepath.Join("testdata", "layouts", "*.sql"))
	must(t, err)
	for _, file := range files {
		text := string(readFile(t, file))
		l := layout{file: strings.TrimSuffix(filepath.Base(file), ".sql"), header: map[string]string{"table": "events"}}
		for _, m := range layoutHeader.FindAllStringSubmatch(text, -1) {
			l.header[m[1]] = m[2]
		}
		var b bytes.Buffer
		made, err := template.New(file).Funcs(words).Parse(layoutHeader.ReplaceAllString(text, ""))
		must(t, err)
		must(t, made.Execute(&b, nil))
		l.statements = strings.Split(strings.TrimSpace(b.String()), "\n\n")
		out = append(out, l)
	}
	return out
}

// outcome says in the documentation what becomes of a layout.
func (l *layout) outcome() string {
	code := func(texts string) string { return "`" + strings.ReplaceAll(texts, "; ", "`, `") + "`" }
	switch h := l.header; {
	case h["refused"] != "":
		return "`init` refuses it: " + code(strings.ReplaceAll(h["refused"], "`", ""))
	case h["mend"] != "":
		return "`apply` refuses it until " + code(h["mend"])
	case h["apply"] != "":
		return "`apply` refuses it: " + code(h["apply"])
	case h["plan"] != "":
		return "taken over: " + code(strings.ReplaceAll(h["plan"], "`", ""))
	}
	return "taken over; nothing to do"
}

// ownViews are the statements by which PostgreSQL gets rowmill's own views.
var ownViews = regexp.MustCompile(`(?s)DO \$rowmill\$ BEGIN\nCREATE OR REPLACE VIEW "?rowmill_(jobs|job_history)"? .*?\nEND \$rowmill\$;`)

// TestLayouts: init writes a declaration of each layout, and apply takes the table over with all of
// its rows, or one of them refuses it with what to do. The table of docs/takeover.md says the same.
func TestLayouts(t *testing.T) {
	t.Parallel()
	layouts := readLayouts(t)
	rows := "| layout | outcome |\n|---|---|\n"
	for _, l := range layouts {
		rows += fmt.Sprintf("| %s | %s |\n", l.header["layout"], l.outcome())
	}
	if doc := string(readFile(t, filepath.Join("..", "..", "docs", "takeover.md"))); !strings.Contains(doc, rows) {
		t.Errorf("docs/takeover.md lacks this table:\n%s", rows)
	}
	for _, kind := range append(testdb.Kinds(t, "mariadb", "mysql"), testdb.Kinds(t, "postgres")...) {
		for _, l := range layouts {
			n, _, _ := strings.Cut(l.file, "-")
			number, err := strconv.Atoi(n)
			must(t, err)
			few := number%5 == 0 || number%7 == 0 // of each kind one, with both kinds of tails
			if (l.header["server"] == "postgres") != (kind == "postgres") || !few && !testdb.Nightly() {
				continue
			}
			t.Run(l.file+"/"+kind, func(t *testing.T) {
				t.Parallel()
				l.check(t, kind)
			})
		}
	}
}

// restarted returns the statement that starts again what a plan stops, "" if there is nothing.
func restarted(plan string) string {
	for q := range strings.SplitSeq(plan, "\n") {
		for off, on := range map[string]string{" DISABLE;": " ENABLE", " = 'off'": " = 'on'", "active = false": "active = true"} {
			if strings.Contains(q, off) {
				return strings.TrimSuffix(strings.Replace(q, off, on, 1), ";")
			}
		}
	}
	return ""
}

func (l *layout) check(t *testing.T, kind string) {
	target, table := testdb.Target(t, kind).String(), l.header["table"]
	db := openKeeper(t, target)
	for _, q := range l.statements {
		execSQL(t, db, q)
	}
	has := func(what, text, key string) {
		t.Helper()
		for want := range strings.SplitSeq(l.header[key], "; ") {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q:\n%s", what, want, text)
			}
		}
	}
	count := func() (n int) {
		must(t, db.SQL().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+db.Dialect().Quote(table)).Scan(&n))
		return n
	}
	before := count()
	s := rowmill(t.Context(), "init", "--target", target, "--table", table)
	if l.header["refused"] != "" {
		if has("the error", s.stderr, "refused"); s.code != exitFailed {
			t.Errorf("exit %d: %s", s.code, s.stdout)
		}
		return
	}
	wantDone(t, s)
	for want := range strings.SplitSeq(l.header["says"], "; ") {
		if !strings.Contains(strings.ReplaceAll(s.stdout, "\n#", ""), want) {
			t.Errorf("the declaration lacks %q:\n%s", want, s.stdout)
		}
	}
	file := filepath.Join(t.TempDir(), "table.toml")
	writeFile(t, file, s.stdout)
	dry := rowmill(t.Context(), "apply", file, "--dry-run")
	if l.header["apply"] != "" {
		if has("the error", dry.stderr, "apply"); dry.code != exitFailed {
			t.Errorf("exit %d: %s", dry.code, dry.stdout)
		}
		if l.header["mend"] == "" {
			return
		}
		execSQL(t, db, l.header["mend"])
		dry = rowmill(t.Context(), "apply", file, "--dry-run")
	}
	wantDone(t, dry)
	has("the plan", dry.stdout, "plan")
	others := slices.DeleteFunc(strings.Split(ownViews.ReplaceAllString(dry.stdout, ""), "\n"), func(q string) bool {
		return strings.HasPrefix(q, "--") || strings.Contains(q, "rowmill_") || q == "" || q == "BEGIN;" || q == "ROLLBACK;"
	})
	if l.header["plan"] == "" && len(others) > 0 {
		t.Errorf("the plan has %q", others)
	}
	wantDone(t, rowmill(t.Context(), "apply", file, "--yes"))
	if s := rowmill(t.Context(), "apply", file, "--dry-run"); !strings.Contains(s.stdout, "nothing to do") {
		t.Errorf("applied twice: %s%s", s.stdout, s.stderr)
	}
	wantDone(t, rowmill(t.Context(), "run", file, "--once"))
	if n := count(); n != before {
		t.Errorf("%d rows, and there were %d", n, before)
	}
	if s := rowmill(t.Context(), "status", file); s.code != exitDone || strings.Contains(s.stdout, "creates or drops") {
		t.Errorf("status: exit %d\n%s%s", s.code, s.stdout, s.stderr)
	}
	if again := restarted(dry.stdout); again != "" {
		execSQL(t, db, again)
		if s := rowmill(t.Context(), "status", file); s.code != exitFailed || !strings.Contains(s.stdout, "creates or drops partitions of table "+table) {
			t.Errorf("started again, status: exit %d\n%s%s", s.code, s.stdout, s.stderr)
		}
		wantDone(t, rowmill(t.Context(), "apply", file, "--yes"))
	}
	undone := rowmill(t.Context(), "apply", file, "--undo", "--yes")
	wantDone(t, undone)
	if n := count(); n != before {
		t.Errorf("%d rows after --undo, and there were %d", n, before)
	}
	if rivaled := db.(engine.Rivaled); strings.Contains(l.header["plan"], "stop ") {
		if found, err := rivaled.Rivals(t.Context(), table); err != nil || len(found) != 1 {
			t.Errorf("after --undo, there are %+v, %v\n%s", found, err, undone.stderr)
		}
	}
}

// filledByDay makes a table of rows of the last ten days: those of the last one are in a tail
// without an end.
func filledByDay(t *testing.T, db engine.Keeper, kind, table string, rows, tail int) {
	t.Helper()
	today := time.Now().UTC().Truncate(24 * time.Hour)
	day := func(n int) string { return today.AddDate(0, 0, n).Format(time.DateOnly) }
	if kind == "postgres" {
		execSQL(t, db, "CREATE TABLE "+table+" (id bigint NOT NULL, at timestamp NOT NULL, v int NOT NULL, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)")
		execSQL(t, db, "CREATE TABLE "+table+"_rest PARTITION OF "+table+" DEFAULT")
		for n := -9; n < 0; n++ {
			execSQL(t, db, fmt.Sprintf("CREATE TABLE %s_d%d PARTITION OF %[1]s FOR VALUES FROM ('%[3]s') TO ('%[4]s')", table, -n, day(n), day(n+1)))
		}
		execSQL(t, db, fmt.Sprintf("INSERT INTO %s SELECT i, timestamp '%s' + least(i::bigint * 9 / %d, 9) * interval '1 day' + i %% 7200 * interval '1 millisecond', i FROM generate_series(0, %d - 1) i", table, day(-9), rows-tail, rows))
		return
	}
	parts := ""
	for n := -9; n < 0; n++ {
		parts += fmt.Sprintf("PARTITION d%d VALUES LESS THAN (TO_DAYS('%s')), ", -n, day(n+1))
	}
	execSQL(t, db, "CREATE TABLE "+table+" (id BIGINT NOT NULL, at DATETIME NOT NULL, v INT NOT NULL, PRIMARY KEY (id, at), KEY at (at)) PARTITION BY RANGE (TO_DAYS(at)) ("+parts+"PARTITION rest VALUES LESS THAN MAXVALUE)")
	const numbers = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999) SELECT 1000000 * %[4]d + 1000 * a.i + b.i AS i FROM n a, n b"
	for million := 0; million*1_000_000 < rows; million++ {
		execSQL(t, db, fmt.Sprintf("INSERT INTO %[1]s SELECT i, '%[2]s' + INTERVAL LEAST(i * 9 DIV %[5]d, 9) DAY + INTERVAL i %% 7200 SECOND, i FROM ("+numbers+") q WHERE i < %[3]d", table, day(-9), rows, million, rows-tail))
	}
}

// files returns the numbers of the files that have the rows of a table's partitions.
func files(t *testing.T, db engine.Keeper, kind, table string) []string {
	t.Helper()
	q := "SELECT CAST(SPACE AS CHAR) FROM information_schema." + map[string]string{"mariadb": "INNODB_SYS_TABLESPACES", "mysql": "INNODB_TABLESPACES"}[kind] + " WHERE NAME LIKE CONCAT(DATABASE(), '/" + table + "#p#%')"
	if kind == "postgres" {
		q = "SELECT relfilenode::text FROM pg_class WHERE oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass('" + table + "'))"
	}
	out, err := engine.List[string](t.Context(), db, db.SQL(), q)
	must(t, err)
	return out
}

// TestTakeoverCopiesNothing: a table with a filled tail is taken over while four clients insert:
// each of its files is there afterwards, as a partition, and no insert fails. The figures are
// printed: with an equal tail, they don't depend on the number of rows.
func TestTakeoverCopiesNothing(t *testing.T) {
	t.Parallel()
	sizes := []struct{ rows, tail int }{{30_000, 3000}, {60_000, 3000}} // shorter tails are copied
	if testdb.Nightly() {
		sizes[1].rows = 10_000_000
		sizes = append(sizes, struct{ rows, tail int }{1_000_000, 100_000})
	}
	for _, kind := range append(testdb.Kinds(t, "mariadb", "mysql"), testdb.Kinds(t, "postgres")...) {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			target := testdb.Target(t, kind).String()
			db := openKeeper(t, target)
			for i, size := range sizes {
				table, rows, tail := fmt.Sprintf("events%d", i), size.rows, size.tail
				filledByDay(t, db, kind, table, rows, tail)
				before := files(t, db, kind, table)
				s := rowmill(t.Context(), "init", "--target", target, "--table", table)
				wantDone(t, s)
				file := filepath.Join(t.TempDir(), "events.toml")
				writeFile(t, file, s.stdout)

				ctx, stop := context.WithCancel(t.Context())
				var inserted, longest atomic.Int64
				var writers sync.WaitGroup
				for w := range 4 {
					writers.Go(func() {
						conn, err := db.SQL().Conn(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						defer engine.DiscardConn(db, conn)
						// As a program does, and not as maintenance, which gives up after a second.
						wait := "SET SESSION lock_wait_timeout = 60, innodb_lock_wait_timeout = 60"
						if kind == "postgres" {
							wait = "SET lock_timeout = '60s'"
						}
						if _, err = conn.ExecContext(t.Context(), wait); err != nil {
							t.Error(err)
							return
						}
						for n := 0; ctx.Err() == nil; n++ {
							began := time.Now()
							_, err := conn.ExecContext(t.Context(), fmt.Sprintf("INSERT INTO %s VALUES (%d, '%s', 0)", table, 1_000_000_000*(w+1)+n, began.UTC().Format(time.DateTime)))
							if err != nil {
								t.Errorf("insert: %v", err)
								return
							}
							inserted.Add(1)
							for took := time.Since(began).Microseconds(); ; {
								if most := longest.Load(); took <= most || longest.CompareAndSwap(most, took) {
									break
								}
							}
							time.Sleep(time.Millisecond)
						}
					})
				}
				time.Sleep(200 * time.Millisecond) // measures the usual inserts
				usual, began := longest.Swap(0), time.Now()
				s = rowmill(t.Context(), "apply", file, "--yes")
				took := time.Since(began)
				stop()
				writers.Wait()
				wantDone(t, s)
				after := files(t, db, kind, table)
				for _, f := range before {
					if !slices.Contains(after, f) {
						t.Errorf("file %s of %v is not among %v", f, before, after)
					}
				}
				var n int64
				must(t, db.SQL().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n))
				if n != int64(rows)+inserted.Load() {
					t.Errorf("%d rows, want %d and %d inserted", n, rows, inserted.Load())
				}
				if s := rowmill(t.Context(), "apply", file, "--dry-run"); !strings.Contains(s.stdout, "nothing to do") {
					t.Errorf("%s%s", s.stdout, s.stderr)
				}
				t.Logf("%d rows, %d of them in the tail: apply took %s, the longest of %d inserts %s, %s before", rows, tail, took.Round(time.Millisecond), inserted.Load(), time.Duration(longest.Load())*time.Microsecond, time.Duration(usual)*time.Microsecond)
			}
		})
	}
}
