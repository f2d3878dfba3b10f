package mysql_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

var servers = []string{"mariadb", "mysql"}

// onEach runs a test on a database of each kind, in parallel with other tests.
func onEach(t *testing.T, test func(*testing.T, *mysql.DB)) {
	t.Parallel()
	for _, kind := range servers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			test(t, testdb.Open(t, kind).(*mysql.DB))
		})
	}
}

// onEachAlone is onEach, not in parallel, for tests that change this process's
// environment.
func onEachAlone(t *testing.T, test func(*testing.T, *mysql.DB)) {
	for _, kind := range servers {
		t.Run(kind, func(t *testing.T) { test(t, testdb.Open(t, kind).(*mysql.DB)) })
	}
}

// onEachOwn is onEach on servers that only this package uses, one test at a time,
// for tests that change global variables.
func onEachOwn(t *testing.T, test func(*testing.T, *mysql.DB)) {
	for _, kind := range servers {
		t.Run(kind, func(t *testing.T) { test(t, testdb.Open(t, kind+ownServer).(*mysql.DB)) })
	}
}

// ownServer is appended to a kind for a server other than the shared one.
const ownServer = "?memory=65MB"

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// session returns another connection, for statements that a writer doesn't send.
func session(t testing.TB, db *mysql.DB) *sql.Conn {
	t.Helper()
	c, err := db.Pool().Conn(within(t))
	must(t, err)
	t.Cleanup(func() {
		_, err := c.ExecContext(context.WithoutCancel(t.Context()), "ROLLBACK")
		if err := errors.Join(err, c.Close()); err != nil && !errors.Is(err, sql.ErrConnDone) {
			t.Error(err)
		}
	})
	return c
}

func exec(t testing.TB, c *sql.Conn, statements ...string) {
	t.Helper()
	for _, q := range statements {
		if _, err := c.ExecContext(within(t), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

var small, rowsOf, must = enginetest.Small, enginetest.RowsOf, enginetest.Must

func smallWriter(t *testing.T, db *mysql.DB, m engine.Method) engine.Writer {
	t.Helper()
	return enginetest.SmallWriter(t, db, m)
}

// blocked waits until a statement of a connection waits for a row lock.
func blocked(t *testing.T, db *mysql.DB, connection int64) {
	t.Helper()
	// The server refreshes the view only if it was not read for 100 ms.
	for within(t); !waits(t, db, connection); time.Sleep(120 * time.Millisecond) {
	}
}

// waits reports whether a connection waits for a row's or a table's lock.
func waits(t testing.TB, db *mysql.DB, connection int64) bool {
	t.Helper()
	var n int
	err := db.Pool().QueryRowContext(t.Context(), fmt.Sprintf("SELECT (SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id = %d AND trx_state = 'LOCK WAIT') + "+
		"(SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = %[1]d AND STATE LIKE 'Waiting for table%%')", connection)).Scan(&n)
	if err != nil && strings.Contains(err.Error(), "Error 3854") {
		return false // MySQL 9.7 can't list a statement of another test with bytes that aren't UTF-8
	}
	must(t, err)
	return n > 0
}

func TestServer(t *testing.T) {
	t.Parallel()
	for _, kind := range servers {
		t.Run(kind, func(t *testing.T) {
			enginetest.RunServer(t, enginetest.Server{
				Open:  func(t testing.TB) engine.Keeper { return testdb.Open(t, kind).(engine.Keeper) },
				ID:    mysql.ConnectionID,
				Waits: func(t testing.TB, db engine.Keeper, id int64) bool { return waits(t, db.(*mysql.DB), id) },
				ShortWait: func(c any) error {
					return mysql.Run(c, "SET SESSION innodb_lock_wait_timeout = 1, lock_wait_timeout = 1")
				},
				// The server rolls back the transaction with fewer changes.
				Survive: []string{"INSERT INTO small WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 1000) SELECT n + 1000, 1 FROM seq"},
				Lock:    "LOCK TABLES small WRITE", Unlock: "UNLOCK TABLES",
				Holder: func(t testing.TB, db engine.Keeper, name string) int64 {
					return db.(*mysql.DB).LeaseConnectionID(t.Context(), name)
				},
				LockTries: func(db engine.Keeper, n int) { db.(*mysql.DB).SetLockTries(cmp.Or(n, mysql.LockTries)) },
			})
		})
	}
}

func count(t *testing.T, db *mysql.DB) (n int) {
	t.Helper()
	must(t, db.Pool().QueryRowContext(within(t), "SELECT COUNT(*) FROM small").Scan(&n))
	return n
}

// TestApplyRunsWhatRenderShows compares the rendered statements with the server's log.
func TestApplyRunsWhatRenderShows(t *testing.T) {
	t.Parallel()
	for _, kind := range servers {
		t.Run(kind, func(t *testing.T) { testApplyRunsWhatRenderShows(t, kind) })
	}
}

func testApplyRunsWhatRenderShows(t *testing.T, kind string) {
	target := testdb.Target(t, kind+"?set=general_log=1,log_output=TABLE")
	db, err := mysql.Open(within(t), target)
	must(t, err)
	defer db.Close()
	grid, err := rolling.Parse("2h")
	must(t, err)
	table := &engine.Table{
		Name: "it's", Columns: []engine.Column{{Name: "at", Type: engine.Time}, {Name: "a`b", Type: engine.Varchar, Size: 9}},
		PrimaryKey: []string{"at"}, Grid: grid, By: "at",
	}
	var parts []rolling.Partition
	for pos := int64(1795197600e6); len(parts) < 3; pos = parts[len(parts)-1].To {
		p, err := grid.At(pos)
		must(t, err)
		parts = append(parts, grid.Named(p))
	}
	steps := []engine.Step{
		engine.CreateTable{Table: table, Partitions: parts[:1]}, engine.CreatePartitions{Table: table, Have: parts[:1], New: parts[1:]},
		engine.DropPartition{Table: table, Have: parts, Drop: parts[0]}, engine.DropTable{Table: table},
	}
	must(t, db.Apply(within(t), steps...))
	dry, err := mysql.Dry(target)
	must(t, err)
	var want []string
	for _, s := range append([]engine.Step{engine.Connect{Maintenance: true}}, steps...) {
		statements, err := dry.Dialect().Render(s)
		must(t, err)
		want = append(want, statements...)
	}
	rows, err := db.Pool().QueryContext(within(t), `SELECT CONVERT(argument USING utf8mb4) FROM mysql.general_log
WHERE command_type = 'Query' AND thread_id = (SELECT thread_id FROM mysql.general_log WHERE CONVERT(argument USING utf8mb4) LIKE 'CREATE TABLE%' AND command_type = 'Query')
ORDER BY event_time`)
	must(t, err)
	defer rows.Close()
	var got []string
	for rows.Next() {
		var q string
		must(t, rows.Scan(&q))
		// Queries of a connection itself: its id, and the largest packet.
		if q != "SELECT CONNECTION_ID()" && q != "SELECT @@max_allowed_packet" {
			got = append(got, q)
		}
	}
	// The driver sends the first statement of Session{} in a different form, and
	// Open sends queries about the server.
	first := slices.Index(got, want[1])
	if first < 0 || !slices.Equal(got[first:first+len(want)-1], want[1:]) {
		t.Errorf("the server got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want[1:], "\n"))
	}
}

func openTarget(ctx context.Context, t engine.Target) (engine.DB, error) { return mysql.Open(ctx, t) }

func TestUnreachable(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("MYSQL_PWD", "geheim")
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, []byte("geheim\n"), 0o600))
	for target, where := range map[string]string{
		"mariadb://joe@/db?socket=/nowhere/x.sock":         "/nowhere/x.sock as user \"joe\"",
		"mysql://joe@127.0.0.1:1/db?password-file=" + file: "127.0.0.1:1 as user \"joe\"",
		"mysql://joe@nowhere.invalid/db":                   "nowhere.invalid:3306 as user \"joe\"",
	} {
		enginetest.WantNotOpened(t, openTarget, target, where, engine.ErrUnreachable, "geheim")
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, kind := range servers {
		socket := "?socket=" + testdb.Target(t, kind).Query.Get("socket")
		for target, want := range map[string]string{
			"mariadb://root@/" + socket:                                     "name of one database",
			"mariadb://root@/a/b" + socket:                                  "name of one database",
			"mariadb:db":                                                    "neither a host nor a socket",
			"mariadb://root@h/db?colour=red":                                `no option "colour"`,
			"mariadb://root@h/db?tls=maybe":                                 "tls=maybe; want false, true",
			"mariadb://root@/nowhere" + socket:                              "nknown database",
			"mariadb://joe@/mysql" + socket:                                 "denied",
			"mariadb://root@/mysql" + socket + "&password-file=/nowhere/pw": "password file",
		} {
			enginetest.WantNotOpened(t, openTarget, target, want, nil, "")
		}
		enginetest.WantNotOpened(t, openTarget, "mariadb://root@/mysql"+socket+"&engine=tape", `no storage engine "tape"; it has`, engine.ErrUnsupported, "")
	}
}

// TestBlockedWriterStopsNothing: a writer that waits for the server keeps its
// thread, but delays neither the garbage collector nor other goroutines.
func TestBlockedWriterStopsNothing(t *testing.T) { onEach(t, testBlockedWriterStopsNothing) }

func testBlockedWriterStopsNothing(t *testing.T, db *mysql.DB) {
	other := session(t, db)
	var writers []engine.Writer
	for i := range runtime.GOMAXPROCS(0) + 2 {
		table := small()
		table.Name = fmt.Sprintf("small%d", i)
		must(t, db.Apply(within(t), engine.CreateTable{Table: table}))
		w, err := db.Writer(within(t), table, engine.Multi)
		must(t, err)
		t.Cleanup(func() { w.Close() })
		writers = append(writers, w)
		if i == 0 {
			exec(t, other, "BEGIN")
		}
		exec(t, other, "INSERT INTO "+table.Name+" VALUES (1, 1)")
	}
	results := make(chan error, len(writers))
	ids := make([]int64, len(writers))
	for i, w := range writers {
		ids[i] = mysql.ConnectionID(w)
		go func() {
			_, err := w.Write(t.Context(), rowsOf(1))
			results <- err
		}()
	}
	for _, id := range ids {
		blocked(t, db, id)
	}
	began := time.Now()
	for range 5 {
		runtime.GC()
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("5 garbage collections took %v", took)
	}
	exec(t, other, "ROLLBACK")
	for range writers {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

func TestCountersConnectionKilled(t *testing.T) { onEach(t, testCountersConnectionKilled) }

// testCountersConnectionKilled checks that counters continue after their connection
// was lost, and that closing a lost connection is not an error.
func testCountersConnectionKilled(t *testing.T, db *mysql.DB) {
	c, err := db.Counters(within(t), small())
	must(t, err)
	figures := make([]float64, len(c.Describe()))
	for range 2 {
		must(t, c.Sample(within(t), figures))
		id := mysql.CountersConnectionID(t.Context(), c)
		db.Kill(t.Context(), id)
		if err := c.Sample(within(t), figures); err != nil {
			t.Errorf("on a killed connection: %v", err)
		}
		if again := mysql.CountersConnectionID(t.Context(), c); again == id {
			t.Errorf("still on connection %d, which was killed", id)
		}
	}
	db.Kill(t.Context(), mysql.CountersConnectionID(t.Context(), c))
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
