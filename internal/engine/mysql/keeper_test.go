package mysql_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestTriggerExists: for an account without the TRIGGER privilege, which isn't
// shown triggers, existing ones are distinguished from missing ones.
func TestTriggerExists(t *testing.T) { onEach(t, testTriggerExists) }

func testTriggerExists(t *testing.T, db *mysql.DB) {
	table := small()
	must(t, db.Apply(within(t), engine.CreateTable{Table: table}))
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
		must(t, db.SQL().QueryRowContext(within(t), q).Scan(&plan))
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
			must(t, db.SQL().QueryRowContext(within(t), "SELECT DATABASE()").Scan(&name))
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
				must(t, err)
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
				must(t, within(t).Err())
				sessions, err := db.Sessions(within(t))
				must(t, err)
				running = 0
				for _, s := range sessions {
					for _, q := range statements {
						if s.Statement == q {
							running++
						}
					}
				}
			}
			blockers := enginetest.Blockers(t, db, k.Table, true)
			if len(blockers) != 1 || !strings.Contains(blockers[0].Statement, name) {
				t.Errorf("blockers %+v, want the one that names %s", blockers, name)
			}
		})
	}
}
