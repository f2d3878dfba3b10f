package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
)

func smallQuerier(t *testing.T, db *mysql.DB) engine.Querier {
	t.Helper()
	return enginetest.SmallQuerier(t, db)
}

// TestFindByDriver: a querier that sends through the driver, as with TLS, passes the
// same tests.
func TestFindByDriver(t *testing.T) {
	enginetest.RunQuerier(t, func(t testing.TB) engine.DB { return byDriver{testdb.Open(t, "mariadb").(*mysql.DB)} })
}

// TestSettleBrokenOff: settings are restored also if the wait is interrupted, here
// a wait for a transaction that keeps old rows.
func TestSettleBrokenOff(t *testing.T) { onEachOwn(t, testSettleBrokenOff) }

func testSettleBrokenOff(t *testing.T, db *mysql.DB) {
	smallQuerier(t, db)
	s, old := session(t, db), session(t, db)
	exec(t, s, "SET GLOBAL innodb_max_dirty_pages_pct = 77.5", "SET GLOBAL innodb_max_dirty_pages_pct_lwm = 3.25")
	defer exec(t, s, "SET GLOBAL innodb_max_dirty_pages_pct = DEFAULT", "SET GLOBAL innodb_max_dirty_pages_pct_lwm = DEFAULT")
	exec(t, old, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT", "SELECT * FROM small")
	for range 1500 {
		exec(t, s, "UPDATE small SET n = n + 1 WHERE id = 1")
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, err := db.Settle(ctx, engine.Settle{Tables: []*engine.Table{small()}, Private: true})
		result <- err
	}()
	dirty := func() (high, low float64) {
		must(t, db.Pool().QueryRowContext(within(t), "SELECT @@GLOBAL.innodb_max_dirty_pages_pct, @@GLOBAL.innodb_max_dirty_pages_pct_lwm").Scan(&high, &low))
		return high, low
	}
	for high, _ := dirty(); high != 0; high, _ = dirty() {
		select {
		case err := <-result:
			t.Fatalf("it ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	capacity := func() (n int64) {
		must(t, db.Pool().QueryRowContext(within(t), "SELECT @@GLOBAL.innodb_io_capacity").Scan(&n))
		return n
	}
	for capacity() != 20000 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if high, low := dirty(); high != 77.5 || low != 3.25 {
		t.Errorf("the settings are %v and %v", high, low)
	}
	if n := capacity(); n != 200 {
		t.Errorf("innodb_io_capacity is %d", n)
	}
}

// TestPlansOfFinds: the named index is used, for a range scan.
func TestPlansOfFinds(t *testing.T) { onEach(t, testPlansOfFinds) }

func testPlansOfFinds(t *testing.T, db *mysql.DB) {
	table := small()
	table.Indexes = []engine.Index{{Name: "other", Columns: []string{"n", "id"}}, {Name: "by n", Columns: []string{"n", "id"}}}
	must(t, db.Apply(within(t), engine.CreateTable{Table: table}))
	s := session(t, db)
	exec(t, s, "INSERT INTO small WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 1000) SELECT n, n FROM seq")
	keys := []string{"n", "id"}
	find := engine.Find{Table: table, Index: "by n", On: keys, How: engine.Keyset, Order: keys, Limit: 10}
	statements, err := db.Dialect().Render(find)
	must(t, err)
	rows, err := s.QueryContext(within(t), "EXPLAIN FORMAT=TRADITIONAL "+statements[0], 500, 500, 500)
	must(t, err)
	defer rows.Close()
	columns, err := rows.Columns()
	must(t, err)
	plan, to := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range plan {
		to[i] = &plan[i]
	}
	if !rows.Next() {
		t.Fatal("no plan")
	}
	must(t, rows.Scan(to...))
	got := map[string]string{}
	for i, c := range columns {
		got[c] = plan[i].String
	}
	if got["type"] != "range" || got["key"] != "by n" || strings.Contains(got["Extra"], "filesort") {
		t.Errorf("%s is executed as %v", statements[0], got)
	}
}
