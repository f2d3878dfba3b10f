package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/mysql"
)

func smallQuerier(t *testing.T, db *mysql.DB) engine.Querier {
	t.Helper()
	return enginetest.SmallQuerier(t, db)
}

// TestFindByDriver: a Find through the driver, as with TLS, finds the same rows.
func TestFindByDriver(t *testing.T) { onEach(t, testFindByDriver) }

func testFindByDriver(t *testing.T, db *mysql.DB) {
	table := &engine.Table{Name: "kinds", PrimaryKey: []string{"id"}, Columns: []engine.Column{
		{Name: "id", Type: engine.Int64}, {Name: "n", Type: engine.Int32}, {Name: "price", Type: engine.Float32},
		{Name: "weight", Type: engine.Float64}, {Name: "at", Type: engine.Time}, {Name: "data", Type: engine.Varchar, Size: 10000},
	}}
	if err := db.Apply(within(t), engine.CreateTable{Table: table}); err != nil {
		t.Fatal(err)
	}
	w, err := db.Writer(within(t), table, engine.Multi)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	b, at := engine.NewBatch(table.Columns), int64(1795197600e6)
	for i := range int64(100) {
		b.Columns[0].Ints = append(b.Columns[0].Ints, math.MinInt64+i)
		b.Columns[1].Ints = append(b.Columns[1].Ints, -i)
		b.Columns[2].Floats = append(b.Columns[2].Floats, float64(float32(i)/10))
		b.Columns[3].Floats = append(b.Columns[3].Floats, float64(i)/10)
		b.Columns[4].Ints = append(b.Columns[4].Ints, at+i*1e6)
		b.Columns[5].AppendBytes([]byte(strings.Repeat("é", int(i*100)))) // rows longer than the answer buffer
		b.EndRow()
	}
	if _, err := w.Write(within(t), b); err != nil {
		t.Fatal(err)
	}
	for _, driver := range []bool{false, true} {
		q, err := db.Querier(within(t))
		if err != nil {
			t.Fatal(err)
		}
		if driver {
			mysql.UseDriver(q)
		}
		for name, c := range map[string]struct {
			find   engine.Find
			values []engine.Value
			want   int
		}{
			"all":    {engine.Find{On: []string{"id"}}, []engine.Value{{Int: math.MinInt64}}, 100},
			"int":    {engine.Find{On: []string{"n"}, How: engine.Equal}, []engine.Value{{Int: -3}}, 1},
			"float":  {engine.Find{On: []string{"price"}, How: engine.Equal}, []engine.Value{{Float: 4.1}}, 1},
			"double": {engine.Find{On: []string{"weight"}, How: engine.In, Points: 2}, []engine.Value{{Float: 4.1}, {Float: 4.2}}, 2},
			"time":   {engine.Find{On: []string{"at", "n"}, How: engine.Keyset}, []engine.Value{{Int: at + 90e6}, {Int: -90}}, 10},
		} {
			c.find.Table = table
			for range 2 {
				if n, err := q.Find(within(t), &c.find, c.values); n != c.want || err != nil {
					t.Errorf("%s, by the driver %v: %d rows, %v, want %d", name, driver, n, err, c.want)
				}
			}
		}
		if n, err := q.Delete(within(t), &engine.Delete{Table: table, By: "at"}, at, at+0); n != 0 || err != nil {
			t.Errorf("delete, by the driver %v: %d rows, %v", driver, n, err)
		}
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}
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
		_, err := db.Settle(ctx, engine.Settle{Tables: []*engine.Table{small()}})
		result <- err
	}()
	dirty := func() (high, low float64) {
		if err := db.Pool().QueryRowContext(within(t), "SELECT @@GLOBAL.innodb_max_dirty_pages_pct, @@GLOBAL.innodb_max_dirty_pages_pct_lwm").Scan(&high, &low); err != nil {
			t.Fatal(err)
		}
		return high, low
	}
	for high, _ := dirty(); high != 0; high, _ = dirty() {
		select {
		case err := <-result:
			t.Fatalf("it ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if high, low := dirty(); high != 77.5 || low != 3.25 {
		t.Errorf("the settings are %v and %v", high, low)
	}
}

// TestSettleFewPrivileges: a missing privilege becomes a warning.
func TestSettleFewPrivileges(t *testing.T) { onEachAlone(t, testSettleFewPrivileges) }

func testSettleFewPrivileges(t *testing.T, db *mysql.DB) {
	smallQuerier(t, db)
	few := few(t, db, "ALL")
	warnings, err := few.Settle(within(t), engine.Settle{Tables: []*engine.Table{small()}})
	if err != nil || len(warnings) == 0 || !strings.Contains(warnings[0], "dirty pages are written later") {
		t.Errorf("warnings %q, %v", warnings, err)
	}
	if _, err := db.Settle(within(t), engine.Settle{Tables: []*engine.Table{{Name: "nowhere"}}}); !errors.Is(err, engine.ErrNoTable) {
		t.Errorf("of a table that is not there: %v", err)
	}
}

// TestPlansOfFinds: the named index is used, for a range scan.
func TestPlansOfFinds(t *testing.T) { onEach(t, testPlansOfFinds) }

func testPlansOfFinds(t *testing.T, db *mysql.DB) {
	table := small()
	table.Indexes = []engine.Index{{Name: "other", Columns: []string{"n", "id"}}, {Name: "by n", Columns: []string{"n", "id"}}}
	if err := db.Apply(within(t), engine.CreateTable{Table: table}); err != nil {
		t.Fatal(err)
	}
	s := session(t, db)
	exec(t, s, "INSERT INTO small WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 1000) SELECT n, n FROM seq")
	keys := []string{"n", "id"}
	find := engine.Find{Table: table, Index: "by n", On: keys, How: engine.Keyset, Order: keys, Limit: 10}
	statements, err := db.Dialect().Render(find)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.QueryContext(within(t), "EXPLAIN FORMAT=TRADITIONAL "+statements[0], 500, 500, 500)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	plan, to := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range plan {
		to[i] = &plan[i]
	}
	if !rows.Next() {
		t.Fatal("no plan")
	}
	if err := rows.Scan(to...); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for i, c := range columns {
		got[c] = plan[i].String
	}
	if got["type"] != "range" || got["key"] != "by n" || strings.Contains(got["Extra"], "filesort") {
		t.Errorf("%s is executed as %v", statements[0], got)
	}
}
