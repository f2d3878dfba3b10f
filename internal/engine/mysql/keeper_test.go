package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestLead: a lock, identified by its name and database, has one holder at a time,
// and is lost when the holder's connection ends.
func TestLead(t *testing.T) { onEach(t, testLead) }

func testLead(t *testing.T, db *mysql.DB) {
	name := "keeper of a table with a name that is longer than a lock's may be, by far"
	l, err := db.Lead(within(t), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Lead(within(t), name); !errors.Is(err, engine.ErrLockTimeout) {
		t.Errorf("second leader: %v", err)
	}
	other, err := db.Lead(within(t), "other")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := testdb.Open(t, db.Info().Engine).(*mysql.DB)
	same, err := elsewhere.Lead(within(t), name)
	if err != nil {
		t.Errorf("the lock of another database: %v", err)
	} else if err := same.Release(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(l.Release(), l.Release()); err != nil {
		t.Error(err)
	}
	select {
	case <-l.Lost():
	default:
		t.Error("a lease that was given back is not lost")
	}
	again, err := db.Lead(within(t), name)
	if err != nil {
		t.Fatal(err)
	}
	db.Kill(within(t), db.LeaseConnectionID(within(t), name))
	select {
	case <-again.Lost():
	case <-time.After(10 * time.Second):
		t.Error("a lease whose connection was killed is not lost")
	}
	if err := errors.Join(again.Release(), other.Release()); err != nil {
		t.Error(err)
	}
}

// TestLeadIsExclusive: of many concurrent attempts, one gets the lock.
func TestLeadIsExclusive(t *testing.T) { onEach(t, testLeadIsExclusive) }

func testLeadIsExclusive(t *testing.T, db *mysql.DB) {
	type result struct {
		lease engine.Lease
		err   error
	}
	results := make(chan result)
	for range 8 {
		go func() {
			l, err := db.Lead(context.WithoutCancel(t.Context()), "x")
			results <- result{l, err}
		}()
	}
	held := 0
	for range 8 {
		r := <-results
		if r.err == nil {
			held++
			defer r.lease.Release()
		} else if !errors.Is(r.err, engine.ErrLockTimeout) {
			t.Error(r.err)
		}
	}
	if held != 1 {
		t.Errorf("%d have the lock", held)
	}
}

// TestSQL: the pool's connections have the settings of maintenance.
func TestSQL(t *testing.T) { onEach(t, testSQL) }

func testSQL(t *testing.T, db *mysql.DB) {
	isolation := "transaction_isolation"
	if db.Info().Engine == "mariadb" {
		isolation = "tx_isolation"
	}
	var level, zone, mode string
	var wait, rowWait int
	err := db.SQL().QueryRowContext(within(t), db.Bind(fmt.Sprintf("SELECT @@%s, @@time_zone, @@sql_mode, @@lock_wait_timeout, @@innodb_lock_wait_timeout + ?", isolation)), 1).
		Scan(&level, &zone, &mode, &wait, &rowWait)
	if err != nil {
		t.Fatal(err)
	}
	if level != "READ-COMMITTED" || zone != "+00:00" || !sameModes(mode, mysql.KeepMode) || wait != 1 || rowWait != 6 {
		t.Errorf("isolation %s, zone %s, mode %s, waits %d and %d", level, zone, mode, wait, rowWait)
	}
	if err := db.Classify(nil); err != nil {
		t.Error(err)
	}
	_, err = db.SQL().ExecContext(within(t), "SELECT * FROM nix")
	if err := db.Classify(err); !errors.Is(err, engine.ErrNoTable) {
		t.Errorf("got %v", err)
	}
}

// sameModes compares SQL modes, regardless of their order.
func sameModes(got, quoted string) bool {
	a, b := strings.Split(got, ","), strings.Split(strings.Trim(quoted, "'"), ",")
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// TestTriggerExists: for an account without the TRIGGER privilege, which isn't
// shown triggers, existing ones are distinguished from missing ones.
func TestTriggerExists(t *testing.T) { onEach(t, testTriggerExists) }

func testTriggerExists(t *testing.T, db *mysql.DB) {
	table := small()
	if err := db.Apply(within(t), engine.CreateTable{Table: table}); err != nil {
		t.Fatal(err)
	}
	s, few := session(t, db), few(t, db, "SELECT, INSERT")
	trigger := engine.Trigger{Name: "it`s", Table: "small", Body: "SET @rowmill = 1", Other: &engine.Trigger{Name: "other", Table: "small", Body: "SET @rowmill = 1"}}
	exec(t, s, "CREATE TRIGGER `it``s` BEFORE INSERT ON small FOR EACH ROW SET @rowmill = 1")
	have := db.Words().(engine.LateWords).HaveTriggers
	want := func(db *mysql.DB, missing, hidden int) {
		t.Helper()
		c, err := engine.ChangeTriggers(within(t), db, have, "small", []engine.Trigger{trigger}, true)
		if err != nil || c.Missing != missing || c.Hidden != hidden {
			t.Errorf("%d are missing, of which %d are hidden, %v; want %d, %d", c.Missing, c.Hidden, err, missing, hidden)
		}
	}
	want(db, 0, 0)
	want(few, 1, 1)
	exec(t, s, "DROP TRIGGER `it``s`")
	want(db, 1, 0)
	want(few, 1, 0)
}

// TestHaveTriggersOpens: MariaDB opens only one table to list the triggers of one,
// and no other database to list those of all.
func TestHaveTriggersOpens(t *testing.T) { onEach(t, testHaveTriggersOpens) }

func testHaveTriggersOpens(t *testing.T, db *mysql.DB) {
	if db.Info().Engine == "mysql" {
		return // its catalog opens no tables
	}
	for table, want := range map[string]string{"": `"scanned_databases": 1`, "small": `"scanned_databases": 0`} {
		q := "EXPLAIN FORMAT=JSON " + db.Words().(engine.LateWords).HaveTriggers(table)
		var plan string
		if err := db.SQL().QueryRowContext(within(t), q).Scan(&plan); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan, want) {
			t.Errorf("triggers of table %q: want %s in %s", table, want, plan)
		}
	}
}

// TestBlockersOfOtherDatabases: if the server doesn't report who holds a table's
// lock, statements in other databases are blockers only if they name this database.
func TestBlockersOfOtherDatabases(t *testing.T) {
	t.Parallel()
	for _, kind := range testdb.Kinds(t, "mariadb", "mysql") {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db := testdb.Open(t, kind+"?set=performance_schema=OFF").(*mysql.DB)
			k := keep(t, db, "DATETIME", 0, 2)
			var name string
			if err := db.SQL().QueryRowContext(within(t), "SELECT DATABASE()").Scan(&name); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 2)
			t.Cleanup(func() { // before the database is closed
				cancel()
				for range 2 {
					<-ended
				}
			})
			statements := []string{
				"SELECT SLEEP(300) /* of a table readings elsewhere */",
				fmt.Sprintf("SELECT SLEEP(300) /* of `%s`.readings */", name),
			}
			for _, q := range statements {
				conn, err := db.SQL().Conn(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := conn.ExecContext(ctx, "USE information_schema"); err != nil {
					t.Fatal(err)
				}
				go func() {
					_, err := conn.ExecContext(ctx, q)
					_ = conn.Close()
					ended <- err
				}()
			}
			for running := 0; running < len(statements); time.Sleep(time.Millisecond) {
				if err := within(t).Err(); err != nil {
					t.Fatal(err)
				}
				sessions, err := db.Sessions(within(t))
				if err != nil {
					t.Fatal(err)
				}
				running = 0
				for _, s := range sessions {
					for _, q := range statements {
						if s.Statement == q {
							running++
						}
					}
				}
			}
			blockers, err := db.Blockers(within(t), k.Table)
			if err != nil || len(blockers) != 1 || !strings.Contains(blockers[0].Statement, name) {
				t.Errorf("blockers %+v, %v, want the one that names %s", blockers, err, name)
			}
		})
	}
}

// TestTune: undo restores a changed setting, also after the run's context has
// ended. A setting that can't be changed fails and stays unchanged.
func TestTune(t *testing.T) {
	for _, kind := range []string{"mariadb", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			db := testdb.Open(t, kind+ownServer)
			tuner := db.(engine.Tuner)
			for _, c := range []struct{ name, value, now string }{
				{"innodb_adaptive_hash_index", "ON", "1"},
				{"innodb-adaptive-hash-index", "OFF", "0"},
				{"INNODB_LRU_SCAN_DEPTH", "1500", "1500"},
				{"innodb_max_dirty_pages_pct", "12.5", "12.5"},
				{"ft_boolean_syntax", `+ -><()~*:""&^`, `+ -><()~*:""&^`},
				{"init_connect", "7", "7"}, // text that looks like a number
				{"default_week_format", "3", "3"},
			} {
				ctx, cancel := context.WithCancel(t.Context())
				got, err := tuner.Tune(ctx, c.name, c.value)
				cancel()
				if err != nil || got.Now != c.now {
					t.Fatalf("%s=%s: %+v, %v", c.name, c.value, got, err)
				}
				if err := got.Undo(t.Context()); err != nil {
					t.Fatal(err)
				}
				again, err := tuner.Tune(t.Context(), c.name, c.value)
				if err != nil || again.Before != got.Before {
					t.Errorf("%s was %s, and %s after it was undone (%v)", c.name, got.Before, again.Before, err)
				}
				if err := again.Undo(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range []struct {
				name, value string
				unsupported bool
			}{
				{"port", "1", true},
				{"innodb_page_size", "4096", true},
				{"no_such_setting", "1", false},
				{"innodb_adaptive_hash_index", "perhaps", false},
				{"sql_mode = '', GLOBAL x", "1", false},
			} {
				if _, err := tuner.Tune(t.Context(), c.name, c.value); err == nil || errors.Is(err, engine.ErrUnsupported) != c.unsupported {
					t.Errorf("%s=%s: %v, unsupported should be %v", c.name, c.value, err, c.unsupported)
				}
			}
		})
	}
}
