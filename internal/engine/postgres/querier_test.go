package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/postgres"
)

func smallQuerier(t *testing.T, db *postgres.DB) engine.Querier {
	t.Helper()
	w := smallWriter(t, db, engine.Multi)
	if _, err := w.Write(within(t), rowsOf(1, 2, 3)); err != nil {
		t.Fatal(err)
	}
	q, err := db.Querier(within(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close() })
	return q
}

// Calls on the table small. Both wait for a lock on the whole table.
var (
	allSmall    = &engine.Find{Table: small(), On: []string{"id"}}
	removeSmall = &engine.Delete{Table: small(), By: "id"}
	calls       = map[string]func(context.Context, engine.Querier) error{
		"find": func(ctx context.Context, q engine.Querier) error {
			_, err := q.Find(ctx, allSmall, []engine.Value{{}})
			return err
		},
		"delete": func(ctx context.Context, q engine.Querier) error {
			_, err := q.Delete(ctx, removeSmall, 1, 2)
			return err
		},
	}
)

// TestQueryWhileBlocked checks that a call that waits for a lock ends with its
// context or its connection, and deletes nothing.
func TestQueryWhileBlocked(t *testing.T) {
	t.Parallel()
	db := open(t)
	for name, call := range calls {
		for _, end := range []string{"cancel", "kill"} {
			q, other := smallQuerier(t, db), session(t, db)
			if err := call(within(t), q); err != nil {
				t.Fatal(err)
			}
			exec(t, other, "BEGIN", "LOCK TABLE small")
			ctx, cancel := context.WithCancel(t.Context())
			result, pid := make(chan error, 1), postgres.QuerierPID(q)
			go func() { result <- call(ctx, q) }()
			blocked(t, db, pid)
			want := engine.ErrConnectionLost
			if end == "cancel" {
				cancel()
				want = context.Canceled
			} else {
				db.Kill(t.Context(), pid)
			}
			if err := <-result; !errors.Is(err, want) {
				t.Errorf("%s, %s: got %v", name, end, err)
			}
			cancel()
			exec(t, other, "ROLLBACK")
			if err := call(within(t), q); !errors.Is(err, engine.ErrConnectionLost) || !engine.Retryable(err) {
				t.Errorf("%s, %s: before Reset: %v", name, end, err)
			}
			if err := q.Reset(within(t)); err != nil {
				t.Fatal(err)
			}
			n, err := q.Find(within(t), allSmall, []engine.Value{{}})
			if want := map[string]int{"find": 3, "delete": 2}[name]; n != want || err != nil {
				t.Errorf("%s, %s: %d rows, %v, want %d", name, end, n, err, want)
			}
		}
	}
}

// TestQueryLockTimeout checks that a call fails when its lock is not granted in
// time, and that the querier then works without Reset.
func TestQueryLockTimeout(t *testing.T) {
	t.Parallel()
	db := open(t)
	for name, call := range calls {
		q, other := smallQuerier(t, db), session(t, db)
		if err := postgres.RunQuerier(q, "SET lock_timeout = '10ms'"); err != nil {
			t.Fatal(err)
		}
		exec(t, other, "BEGIN", "LOCK TABLE small")
		for range 2 { // first not yet prepared, then after a failure
			if err := call(within(t), q); !errors.Is(err, engine.ErrLockTimeout) || !engine.Retryable(err) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		exec(t, other, "ROLLBACK")
		if err := call(within(t), q); err != nil {
			t.Errorf("%s: then: %v", name, err)
		}
		if got := value(t, db, fmt.Sprintf("SELECT state FROM pg_stat_activity WHERE pid = %d", postgres.QuerierPID(q))); got != "idle" {
			t.Errorf("%s leaves a connection that is %s", name, got)
		}
	}
}

// TestPlansOfFinds checks that a keyset condition scans a range of its index,
// with a custom plan and with a generic one.
func TestPlansOfFinds(t *testing.T) {
	t.Parallel()
	db := open(t)
	table := small()
	table.Columns = append(table.Columns, engine.Column{Name: "price", Type: engine.Float32})
	table.Indexes = []engine.Index{{Name: "market", Columns: []string{"price", "n"}}}
	if err := db.Apply(within(t), engine.CreateTable{Table: table}); err != nil {
		t.Fatal(err)
	}
	s := session(t, db)
	exec(t, s, "INSERT INTO small SELECT i, i % 100, (i % 5000) / 10.0 FROM generate_series(1, 20000) i", "ANALYZE small")
	keys := []string{"price", "n"}
	find := engine.Find{Table: table, Columns: keys, Index: "market", On: keys, How: engine.Keyset, Order: keys, Limit: 10}
	statements, err := db.Dialect().Render(find)
	if err != nil {
		t.Fatal(err)
	}
	exec(t, s, "PREPARE q (REAL, INT) AS "+statements[0])
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		exec(t, s, "SET plan_cache_mode = "+mode)
		results, err := s.Exec(within(t), "EXPLAIN EXECUTE q (250.5, 50)").ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var plan strings.Builder
		for _, row := range results[0].Rows {
			plan.Write(append(row[0], '\n'))
		}
		if p := plan.String(); !strings.Contains(p, "using small_market_idx") || !strings.Contains(p, "Index Cond: (price >=") || strings.Contains(p, "Sort") {
			t.Errorf("%s:\n%s", mode, p)
		}
	}
}

// TestSettleFewPrivileges checks that missing privileges become warnings.
func TestSettleFewPrivileges(t *testing.T) {
	db := open(t)
	smallQuerier(t, db)
	s := session(t, db)
	exec(t, s, "CREATE ROLE settler LOGIN PASSWORD 'geheim'")
	defer exec(t, s, "DROP ROLE settler")
	t.Setenv("PGPASSWORD", "geheim")
	target := db.Target()
	target.User = "settler"
	few, err := postgres.Open(within(t), target)
	if err != nil {
		t.Fatal(err)
	}
	defer few.Close()
	step := engine.Settle{Tables: []*engine.Table{small()}}
	warnings, err := few.Settle(within(t), step)
	if all := strings.Join(warnings, "\n"); err != nil || !strings.Contains(all, "no checkpoint") || !strings.Contains(all, `"small"`) {
		t.Errorf("warnings %q, %v", warnings, err)
	}
	_, err = db.Settle(within(t), engine.Settle{Tables: []*engine.Table{{Name: "nowhere"}}})
	if !errors.Is(err, engine.ErrNoTable) {
		t.Errorf("of a table that is not there: %v", err)
	}
}

// TestIntegersOutOfRange checks that no value is truncated to its column's
// width.
func TestIntegersOutOfRange(t *testing.T) {
	t.Parallel()
	db := open(t)
	q := smallQuerier(t, db)
	byN := &engine.Find{Table: small(), On: []string{"n"}, How: engine.Equal}
	if _, err := q.Find(within(t), byN, []engine.Value{{Int: 1 + 1<<32}}); err == nil || engine.Retryable(err) {
		t.Errorf("got %v", err)
	}
	if n, err := q.Find(within(t), byN, []engine.Value{{Int: 1}}); n != 3 || err != nil {
		t.Errorf("then %d rows, %v", n, err)
	}
}
