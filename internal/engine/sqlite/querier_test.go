package sqlite

import (
	"database/sql/driver"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
)

func filledQuerier(t *testing.T, db *DB, rows int) *querier {
	t.Helper()
	w, b := purchasesOf(t, db, engine.Prepared)
	fillPurchases(b, rand.New(rand.NewPCG(1, 2)), 0, rows)
	if _, err := w.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	q, err := db.Querier(t.Context())
	must(t, err)
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	return q.(*querier)
}

// TestBrokenOff checks that the stopper's flag interrupts a running statement, which
// then has no effect. enginetest checks that the end of a context sets the flag.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	q := filledQuerier(t, db, 5000)
	find := &engine.Find{Table: purchases(), On: []string{"transactionid"}}
	remove := &engine.Delete{Table: purchases(), By: "transactionid"}
	must(t, q.stop.SetDeadline(time.Unix(1, 0)))
	if n, err := q.Find(t.Context(), find, []engine.Value{{}}); n != 0 || err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("find: %d rows, %v", n, err)
	}
	if n, err := q.Delete(t.Context(), remove, 0, 1e6); n != 0 || err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("delete: %d rows, %v", n, err)
	}
	if n := countRows(t, db); n != 5000 {
		t.Errorf("%d rows are left", n)
	}
	// Writers share the connection that deletes, and are not interrupted.
	b := engine.NewBatch(purchases().Columns)
	fillPurchases(b, rand.New(rand.NewPCG(1, 2)), 5000, 5000)
	if _, err := writerOf(t, db, engine.Multi).Write(t.Context(), b); err != nil {
		t.Error(err)
	}
	must(t, q.stop.SetDeadline(time.Time{}))
	if n, err := q.Find(t.Context(), find, []engine.Value{{}}); n != 10000 || err != nil {
		t.Errorf("then %d rows, %v", n, err)
	}
	if n, err := q.Delete(t.Context(), remove, 10, 1e6); n != 9990 || err != nil {
		t.Errorf("then %d rows, %v", n, err)
	}
}

// TestQuerierLocked uses a querier while another connection has the file locked,
// and checks the settings that it has from the target.
func TestQuerierLocked(t *testing.T) {
	t.Parallel()
	db := openTest(t, "&cache=1MB")
	q := filledQuerier(t, db, 10)
	for pragma, want := range map[string]int64{"busy_timeout": busyTimeout, "cache_size": -1024} {
		if n, err := queryInt(q.conn, "PRAGMA "+pragma); n != want || err != nil {
			t.Errorf("%s is %d, %v, want %d", pragma, n, err, want)
		}
	}
	end := beside(t, db, "BEGIN IMMEDIATE")
	remove := &engine.Delete{Table: purchases(), By: "transactionid"}
	if _, err := q.Delete(t.Context(), remove, 0, 5); !errors.Is(err, engine.ErrLockTimeout) || !engine.Retryable(err) {
		t.Errorf("got %v", err)
	}
	find := &engine.Find{Table: purchases(), On: []string{"transactionid"}}
	if n, err := q.Find(t.Context(), find, []engine.Value{{}}); n != 10 || err != nil { // readers don't wait
		t.Errorf("%d rows, %v", n, err)
	}
	end()
	if n, err := q.Delete(t.Context(), remove, 0, 5); n != 5 || err != nil {
		t.Errorf("%d rows, %v", n, err)
	}
}

// TestSettleBeside checks that Settle warns about a reader that prevents it from
// emptying the log, and empties the log afterwards.
func TestSettleBeside(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	filledQuerier(t, db, 1000)
	end := beside(t, db, "BEGIN", "SELECT * FROM purchases")
	if warnings, err := db.Settle(t.Context(), engine.Settle{}); err != nil || len(warnings) != 1 {
		t.Errorf("warnings %q, %v", warnings, err)
	}
	end()
	if warnings, err := db.Settle(t.Context(), engine.Settle{}); err != nil || len(warnings) != 0 {
		t.Errorf("warnings %q, %v", warnings, err)
	}
}

// TestPlansOfFinds checks that a Find searches its index, which is named in the
// statement for a plain table and chosen by the planner for a rolling one.
func TestPlansOfFinds(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	roll := orders(t, "2h")
	must(t, db.Apply(t.Context(), engine.CreateTable{Table: purchases()}, engine.CreateTable{Table: roll, Partitions: enginetest.Periods(t, roll.Grid, 1795197600e6)}))
	values := []driver.Value{int64(1), int64(2)}
	for _, find := range []engine.Find{
		{Table: purchases(), Columns: []string{"price", "customerid"}, Index: "marketsegment", On: []string{"price", "customerid"}, How: engine.Keyset, Order: []string{"price", "customerid"}, Limit: 10},
		{Table: purchases(), Index: "pdc", On: []string{"price"}, Order: []string{"price", "dateandtime", "customerid"}, Limit: 10},
		{Table: roll, Index: "market", On: []string{"price", "register"}, How: engine.Keyset, Order: []string{"price", "register"}, Limit: 10},
		{Table: roll, On: []string{"id"}, How: engine.Equal},
	} {
		statements, err := db.Dialect().Render(find)
		must(t, err)
		var plan []string
		if err := each(db.write, "EXPLAIN QUERY PLAN "+statements[0], values[:find.Values()], func(row []driver.Value) error {
			plan = append(plan, row[3].(string))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		all := strings.Join(plan, "\n")
		if !strings.Contains(all, "SEARCH") || !strings.Contains(all, find.Index) || strings.Contains(all, "SCAN") || strings.Contains(all, "B-TREE") {
			t.Errorf("%s:\n%s", statements[0], all)
		}
	}
}
