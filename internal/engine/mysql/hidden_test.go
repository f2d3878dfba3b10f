package mysql_test

import (
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
)

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
