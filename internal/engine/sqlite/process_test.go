package sqlite

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// childVariable makes this test binary the child process.
const childVariable = "ROWMILL_TEST_SQLITE_CHILD"

// child starts this test binary as a child process that performs the task what on
// the database, and returns its output. It is killed when the test ends.
func child(t *testing.T, what, path string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChildProcess$", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), childVariable+"="+what+": "+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { kill(cmd) })
	return cmd, bufio.NewReader(out)
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// TestChildProcess is the child process.
func TestChildProcess(t *testing.T) {
	t.Parallel()
	what, path, ok := strings.Cut(os.Getenv(childVariable), ": ")
	if !ok {
		t.Skip("it is run by other tests")
	}
	target := engine.Target{Scheme: "sqlite", Path: path}
	db, err := Open(t.Context(), target)
	must(t, err)
	defer db.Close()
	switch what {
	case "lead":
		if _, err := db.Lead(t.Context(), "keep r"); err != nil {
			t.Fatal(err)
		}
		fmt.Println("leads")
		_, _ = io.Copy(io.Discard, os.Stdin)
		time.Sleep(time.Minute)
	case "copy", "greedy copy":
		// Consecutive transactions of 100 ms each.
		mustExec(t, db, "CREATE TABLE IF NOT EXISTS copied (n INTEGER)")
		fmt.Println("writes")
		for {
			db.pace.mu.Lock()
			if what == "greedy copy" {
				db.pace.next = time.Time{}
			}
			db.pace.mu.Unlock()
			tx, err := db.SQL().BeginTx(t.Context(), nil)
			if err != nil {
				continue // the writer has the lock
			}
			if _, err := tx.Exec("INSERT INTO copied VALUES (1)"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			must(t, tx.Commit())
		}
	case "fill", "greedy fill":
		// Consecutive transactions of a loader, of 50 ms each.
		l, notes, _ := loadingOf(t, db)
		fmt.Println("writes")
		for n := int64(0); ; n++ {
			if what == "greedy fill" {
				db.loads.mu.Lock()
				db.loads.next = time.Time{}
				db.loads.mu.Unlock()
			}
			if err := l.Begin(t.Context()); err != nil {
				continue // the writer has the lock
			}
			b := notes.rows(n)
			if _, err := l.Insert(t.Context(), notes.Table, b, 0, 1); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Millisecond)
			must(t, l.Commit(t.Context()))
		}
	case "load":
		// Each transaction inserts a note and the rows that it counts.
		l, notes, readings := loadingOf(t, db)
		for n := int64(0); ; n++ {
			must(t, l.Begin(t.Context()))
			b := notes.rows(n)
			if _, err := l.Insert(t.Context(), notes.Table, b, 0, 1); err != nil {
				t.Fatal(err)
			}
			for i := range int64(5) { // each with a savepoint
				b := readings.rows(n*25+i*5, n*25+i*5+1, n*25+i*5+2, n*25+i*5+3, n*25+i*5+4)
				if _, err := l.Insert(t.Context(), readings.Table, b, 0, b.Rows()); err != nil {
					t.Fatal(err)
				}
			}
			must(t, l.Commit(t.Context()))
			if n == 0 {
				fmt.Println("loads")
			}
		}
	case "keep":
		table, parts := declared(t, readingsText, "ts", "1d", firstDay, 12)
		fmt.Println("keeps")
		for {
			must(t, changeAll(t.Context(), db, table, parts))
			fmt.Println("round")
		}
	}
}

// changeAll makes every kind of change to periods, starting from any state that an
// earlier run has left: it rebuilds periods 2 and 3, merges them into one, and
// creates and removes the last period.
func changeAll(ctx context.Context, db *DB, table *engine.Table, parts []rolling.Partition) error {
	last := parts[len(parts)-1]
	rebuild := func(p rolling.Partition, old ...rolling.Partition) error {
		have, err := db.Catalog().Partitions(ctx, table)
		if err != nil {
			return err
		}
		if i := rolling.Find(have, p.From); have[i].Period != old[0].Period {
			return nil // an earlier run got further
		}
		statements := append([]string{`DROP TABLE IF EXISTS "rebuilt"`}, db.Words().CreateTemplate(table, "rebuilt", engine.Storage{})...)
		for _, o := range old {
			statements = append(statements, `INSERT INTO "rebuilt" (sensor, ts, value, unit, level) SELECT sensor, ts, value, unit, level FROM `+db.Words().From(table, o))
		}
		for _, q := range statements {
			if _, err := db.SQL().ExecContext(ctx, q); err != nil {
				return fmt.Errorf("%s: %w", q, err)
			}
		}
		out := []string{"out_0", "out_1"}[:len(old)]
		return db.Try(ctx, engine.DropTables{Names: out}, engine.Replace{Table: table, Have: have, Old: old, New: p, With: "rebuilt", Out: out}, engine.DropTables{Names: out})
	}
	both := rolling.Partition{Name: parts[2].Name, Period: rolling.Period{From: parts[2].From, To: parts[3].To}}
	if err := rebuild(both, parts[2], parts[3]); err != nil {
		return err
	}
	if err := rebuild(both, both); err != nil {
		return err
	}
	have, err := db.Catalog().Partitions(ctx, table)
	if err != nil {
		return err
	}
	if have[len(have)-1] != last {
		if err := db.Try(ctx, engine.DropTables{Names: []string{"gone"}}, engine.CreatePartitions{Table: table, New: []rolling.Partition{last}}); err != nil {
			return err
		}
	}
	return db.Try(ctx, engine.Detach{Table: table, Part: last, Into: "gone"},
		engine.Attach{Table: table, Part: last, From: "gone"}, engine.DropPartition{Table: table, Drop: last})
}

// TestTrapKilledBetweenSteps checks that kill -9 at any point leaves each change of
// periods complete or not begun, loses no row and fails no insert of this process.
func TestTrapKilledBetweenSteps(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kept.db")
	db, err := Open(t.Context(), engine.Target{Scheme: "sqlite", Path: path})
	must(t, err)
	defer db.Close()
	table, parts := declared(t, readingsText, "ts", "1d", firstDay, 12)
	mustTry(t, db, engine.CreateTable{Table: table, Partitions: parts[:11]})
	for i, p := range parts[:11] {
		mustExec(t, db, fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000) INSERT INTO readings (sensor, ts, value) SELECT i, %s, %d FROM n",
			db.Words().Literal(table, p.From), i))
	}
	cols, err := db.Describe(t.Context(), "readings")
	must(t, err)
	// All rows before the last period, which takes the inserts, stay unchanged.
	proof := fmt.Sprintf("SELECT count(*), %s FROM readings WHERE ts < %s", db.Words().RowHash(cols.Columns), db.Words().Literal(table, parts[10].From))
	before := lines(t, db, proof)[0]

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var inserted atomic.Int64
	var longest time.Duration
	writer := make(chan error, 1)
	go func() {
		writer <- func() error {
			for ctx.Err() == nil {
				began := time.Now()
				n := inserted.Load()
				if _, err := db.SQL().Exec("INSERT INTO readings (sensor, ts) VALUES (?, ?)", 100_000+n, strings.Trim(db.Words().Literal(table, parts[10].From+1), "'")); err != nil {
					return fmt.Errorf("insert %d: %w", n, err)
				}
				longest = max(longest, time.Since(began))
				inserted.Add(1)
			}
			return nil
		}()
	}()
	kills := 8
	if os.Getenv("ROWMILL_TEST_NIGHTLY") != "" { // testdb.Nightly, which imports this package
		kills = 40
	}
	rnd := rand.New(rand.NewPCG(7, 7))
	for i := range kills {
		cmd, out := child(t, "keep", path)
		says := []string{"keeps\n"}
		if i == kills-1 { // One round must be complete, even on a slow machine.
			says = append(says, "round\n")
		}
		for _, want := range says {
			if line, err := out.ReadString('\n'); err != nil || line != want {
				t.Fatalf("the other process: %q, %v", line, err)
			}
		}
		time.Sleep(time.Duration(rnd.IntN(120)) * time.Millisecond)
		kill(cmd)
		if after := lines(t, db, proof)[0]; after != before {
			t.Fatalf("the rows are %s, and were %s", after, before)
		}
		// The view has exactly the recorded periods, each with its table.
		have, err := db.Catalog().Partitions(t.Context(), table)
		must(t, err)
		view := lines(t, db, "SELECT sql FROM sqlite_schema WHERE name = 'readings'")[0]
		for i, p := range have {
			if !strings.Contains(view, `"`+store(table, p)+`"`) || i > 0 && have[i-1].To != p.From {
				t.Fatalf("periods %v, and the view\n%s", have, view)
			}
		}
		if strings.Count(view, "FROM") != len(have) {
			t.Fatalf("periods %v, and the view\n%s", have, view)
		}
	}
	stop()
	must(t, <-writer)
	if have, err := db.Catalog().Partitions(t.Context(), table); err != nil || have[2].To != parts[3].To {
		t.Errorf("the other processes have changed nothing: %v, %v", have, err)
	}
	wantLines(t, db, "SELECT count(*) FROM readings WHERE sensor >= 100000", fmt.Sprint(inserted.Load()))
	wantLines(t, db, "PRAGMA integrity_check", "ok")
	t.Logf("%d kills, %d inserts, the longest took %v", kills, inserted.Load(), longest)
}

// TestLeadOfKilledProcess checks that a killed process releases its lock.
func TestLeadOfKilledProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "kept.db")
	db, err := Open(t.Context(), engine.Target{Scheme: "sqlite", Path: path})
	must(t, err)
	defer db.Close()
	cmd, out := child(t, "lead", path)
	if line, err := out.ReadString('\n'); err != nil || line != "leads\n" {
		t.Fatalf("the other process: %q, %v", line, err)
	}
	if _, err := db.Lead(t.Context(), "keep r"); !errors.Is(err, engine.ErrLockTimeout) {
		t.Fatalf("while another leads: %v", err)
	}
	kill(cmd)
	l, err := db.Lead(t.Context(), "keep r")
	must(t, err)
	// Another path to the same file uses the same lock.
	link := filepath.Join(t.TempDir(), "link.db")
	must(t, os.Symlink(path, link))
	again, err := Open(t.Context(), engine.Target{Scheme: "sqlite", Path: link})
	must(t, err)
	defer again.Close()
	if _, err := again.Lead(t.Context(), "keep r"); !errors.Is(err, engine.ErrLockTimeout) {
		t.Errorf("by a link: %v", err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

// TestTrapWriterStarves checks that transactions of SQL, and a loader that fills a table at
// full speed, leave gaps. Without them, SQLite's lock, which has no queue, would block
// writers of other processes.
func TestTrapWriterStarves(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		table string // of which the other process inserts a row in each transaction
		most  int64  // transactions of it for which an insert waits: those up to the third gap
	}{
		"copy": {"copied", 3}, "greedy copy": {"copied", 3},
		"fill": {"notes", 60}, "greedy fill": {"notes", 60},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			greedy := strings.HasPrefix(what, "greedy")
			path := filepath.Join(t.TempDir(), "shared.db")
			db, err := Open(t.Context(), engine.Target{Scheme: "sqlite", Path: path})
			must(t, err)
			defer db.Close()
			mustExec(t, db, "CREATE TABLE r (n INTEGER)")
			timeout := 20 * time.Second // more than a slow machine needs
			if greedy {
				timeout = 3 * time.Second
			}
			_, err = db.write.Exec(fmt.Sprintf("PRAGMA busy_timeout = %d", timeout.Milliseconds()), nil)
			must(t, err)
			_, out := child(t, what, path)
			if line, err := out.ReadString('\n'); err != nil || line != "writes\n" {
				t.Fatalf("the other process: %q, %v", line, err)
			}
			written := func() int64 {
				n, err := queryInt(db.write, "SELECT count(*) FROM "+c.table)
				if err != nil {
					return 0
				}
				return n
			}
			for deadline := time.Now().Add(20 * time.Second); written() < 5; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("the other process has written %d times", written())
				}
			}
			// What an insert waits for is counted, since the time it takes depends on the machine.
			run := 3 * time.Second
			if greedy {
				run = 30 * time.Second // ends with the first insert that starves
			}
			var longest int64
			for began := time.Now(); time.Since(began) < run && longest <= c.most; time.Sleep(10 * time.Millisecond) {
				first := written()
				for longest <= c.most {
					_, err := db.write.Exec("INSERT INTO r VALUES (1)", nil)
					longest = max(longest, written()-first)
					if err == nil {
						break
					}
					if !greedy {
						t.Fatal(err)
					}
				}
			}
			t.Logf("an insert waited for up to %d transactions", longest)
			if (longest > c.most) != greedy {
				t.Errorf("an insert waited for %d transactions", longest)
			}
		})
	}
}

// TestTrapDropOfLargeTable checks that others can write while a large table is
// dropped in parts. DROP TABLE would lock the file while it reads the whole table.
func TestTrapDropOfLargeTable(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"", " WITHOUT ROWID"} {
		db := openTest(t, "")
		fill := func() {
			t.Helper()
			mustExec(t, db, "CREATE TABLE big (id INTEGER NOT NULL, ts DATETIME NOT NULL, v REAL, note TEXT, PRIMARY KEY (ts, id))"+end)
			mustExec(t, db, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120000) INSERT INTO big SELECT i, '2026-11-20 00:00:00', i, printf('%.*c', i % 90, 'x') FROM n")
			mustExec(t, db, "CREATE INDEX big_v ON big (v)")
			mustExec(t, db, "CREATE TRIGGER big_t AFTER DELETE ON big BEGIN SELECT RAISE(ABORT, 'no'); END")
		}
		fill()
		mustExec(t, db, "CREATE TABLE other (n INTEGER)")
		mustExec(t, db, "CREATE TABLE small (n INTEGER)")
		ctx, stop := context.WithCancel(t.Context())
		type result struct {
			n       int
			longest time.Duration
			err     error
		}
		done := make(chan result)
		conn, err := db.openReader(ctx) // as another process
		must(t, err)
		go func() {
			var r result
			for ctx.Err() == nil && r.err == nil {
				began := time.Now()
				_, r.err = conn.Exec("INSERT INTO other VALUES (1)", nil)
				r.n, r.longest = r.n+1, max(r.longest, time.Since(began))
				time.Sleep(time.Millisecond)
			}
			done <- r
		}()
		began := time.Now()
		must(t, db.Try(t.Context(), engine.DropTables{Names: []string{"big", "nowhere", "small"}}))
		took := time.Since(began)
		stop()
		r := <-done
		must(t, errors.Join(r.err, conn.Close()))
		t.Logf("dropped in %v, %d inserts meanwhile, of which the longest took %v", took, r.n, r.longest)
		if r.longest > took/2 && r.longest > 500*time.Millisecond {
			t.Errorf("an insert took %v of %v", r.longest, took)
		}
		wantLines(t, db, "SELECT name FROM sqlite_schema ORDER BY name", "other")
		wantLines(t, db, "PRAGMA integrity_check", "ok")
		// The next drop finishes an interrupted one. The name is free immediately.
		fill()
		cut, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		err = db.Try(cut, engine.DropTables{Names: []string{"big"}})
		cancel()
		if err == nil {
			t.Fatal("it was too quick to be broken off")
		}
		wantLines(t, db, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND (name = 'big' OR name LIKE 'rowmill_doomed_%')", "1")
		mustTry(t, db, engine.DropTables{Names: []string{"big"}})
		wantLines(t, db, "SELECT name FROM sqlite_schema ORDER BY name", "other")
	}
}

// TestReadOnlyTransaction checks that a read-only transaction and writers don't
// block each other.
func TestReadOnlyTransaction(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	mustExec(t, db, "CREATE TABLE r (n INTEGER)")
	mustExec(t, db, "INSERT INTO r VALUES (1)")
	conn, err := db.SQL().Conn(t.Context())
	must(t, err)
	defer conn.Close()
	for _, end := range []func(*sql.Tx) error{(*sql.Tx).Commit, (*sql.Tx).Rollback} {
		tx, err := conn.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
		must(t, err)
		var before, after int
		must(t, tx.QueryRow("SELECT sum(n) FROM r").Scan(&before))
		mustExec(t, db, "INSERT INTO r VALUES (1)")
		if err := tx.QueryRow("SELECT sum(n) FROM r").Scan(&after); err != nil || after != before {
			t.Errorf("it saw %d and then %d, %v", before, after, err)
		}
		if _, err := tx.Exec("INSERT INTO r VALUES (1)"); err == nil {
			t.Error("it wrote")
		}
		must(t, end(tx))
		if _, err := conn.ExecContext(t.Context(), "INSERT INTO r VALUES (1)"); err != nil {
			t.Errorf("after its end: %v", err)
		}
	}
}

// TestTryWaitsBounded checks that Try waits for writers of this process with the
// same timeout as for other processes.
func TestTryWaitsBounded(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	table, parts := declared(t, readingsText, "ts", "1d", firstDay, 2)
	mustTry(t, db, engine.CreateTable{Table: table, Partitions: parts})
	must(t, db.lock(t.Context()))
	began := time.Now()
	err := db.Try(t.Context(), engine.DropTables{Names: []string{"x"}})
	db.unlock()
	if !errors.Is(err, engine.ErrLockTimeout) || time.Since(began) > 3*tryTimeout*time.Millisecond {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := db.Try(ctx, engine.DropTables{Names: []string{"x"}}); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
}
