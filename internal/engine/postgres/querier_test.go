package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/postgres"
)

func smallQuerier(t *testing.T, db *postgres.DB) engine.Querier {
	t.Helper()
	return enginetest.SmallQuerier(t, db)
}

// TestPlansOfFinds checks that a keyset condition scans a range of its index,
// with a custom plan and with a generic one.
func TestPlansOfFinds(t *testing.T) {
	t.Parallel()
	db := open(t)
	table := small()
	table.Columns = append(table.Columns, engine.Column{Name: "price", Type: engine.Float32})
	table.Indexes = []engine.Index{{Name: "market", Columns: []string{"price", "n"}}}
	must(t, db.Apply(within(t), engine.CreateTable{Table: table}))
	s := session(t, db)
	exec(t, s, "INSERT INTO small SELECT i, i % 100, (i % 5000) / 10.0 FROM generate_series(1, 20000) i", "ANALYZE small")
	keys := []string{"price", "n"}
	find := engine.Find{Table: table, Columns: keys, Index: "market", On: keys, How: engine.Keyset, Order: keys, Limit: 10}
	statements, err := db.Dialect().Render(find)
	must(t, err)
	exec(t, s, "PREPARE q (REAL, INT) AS "+statements[0])
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		exec(t, s, "SET plan_cache_mode = "+mode)
		results, err := s.Exec(within(t), "EXPLAIN EXECUTE q (250.5, 50)").ReadAll()
		must(t, err)
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
	must(t, err)
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

// TestOrdinaryAccountReads checks that an ordinary account may set the settings of a session.
func TestOrdinaryAccountReads(t *testing.T) {
	db := open(t)
	exec(t, session(t, db), "CREATE ROLE reader LOGIN PASSWORD 'geheim'")
	defer exec(t, session(t, db), "DROP ROLE reader")
	t.Setenv("PGPASSWORD", "geheim")
	target := db.Target()
	target.User = "reader"
	few, err := postgres.Open(within(t), target)
	must(t, err)
	defer few.Close()
	s, err := few.ReadSession(within(t), nil)
	must(t, err)
	defer s.Close()
	st, err := few.ReadState(within(t), s)
	must(t, err)
	must(t, s.SetStates(within(t), st))
}
