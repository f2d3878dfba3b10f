package oltp

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/result"
)

// tpccRun loads a small TPCC, runs transactions on it, with a fault, and examines it.
func tpccRun(t *testing.T, db engine.DB, terminals int, transactions int64, prepare func(w *TPCC)) ([]result.Condition, error) {
	t.Helper()
	w, err := NewTPCC(db, TPCCOptions{Warehouses: 2, Terminals: terminals, Seed: 7, Scale: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Load(t.Context(), true, func(int64) {}); err != nil {
		t.Fatal(err)
	}
	if err := w.ProveLoad(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	prepare(w)
	out, err := bench.Run(t.Context(), w, bench.Config{Operation: result.NewOrder, Clients: terminals, Batch: 1, Rows: transactions})
	if err := errors.Join(err, out.Err); err != nil {
		t.Fatal(err)
	}
	v, found, _, err := w.Prove(t.Context(), true)
	if err == nil && !v.Sound() {
		t.Errorf("%+v", v)
	}
	return found, err
}

// TestTPCC runs the transactions on every kind of server: all conditions hold.
func TestTPCC(t *testing.T) {
	testdb.OnKinds(t, []string{"sqlite", "mariadb", "mysql", "postgres"}, func(t *testing.T, kind string) {
		found, err := tpccRun(t, testdb.Open(t, kind), 3, 150, func(*TPCC) {})
		if err != nil || len(found) < 25 {
			t.Errorf("%d conditions: %v", len(found), err)
		}
	})
}

// TestTPCCFaults makes each fault that is known of other generators, and more: the proof finds it,
// by the condition that is for it. Those with a star are made always, and the others nightly.
func TestTPCCFaults(t *testing.T) {
	t.Parallel()
	supplier := regexp.MustCompile(`s_w_id = \d+`)
	of := func(op string, fault func(c *tpccTerminal)) func(w *TPCC) {
		return func(w *TPCC) {
			w.change = func(c *tpccTerminal) {
				if c.kind.op == op {
					fault(c)
				}
			}
		}
	}
	instead := func(old, with string) func(w *TPCC) {
		return func(w *TPCC) {
			w.rewrite = func(_ *tpccTerminal, q string) string { return strings.Replace(q, old, with, 1) }
		}
	}
	changed := func(statement, old, with string) func(w *TPCC) {
		pattern := regexp.MustCompile(old)
		return func(w *TPCC) {
			w.rewrite = func(_ *tpccTerminal, q string) string {
				if strings.HasPrefix(q, statement) {
					return pattern.ReplaceAllString(q, with)
				}
				return q
			}
		}
	}
	transactions := int64(200)
	if testdb.Nightly() {
		transactions = 600
	}
	db := testdb.Open(t, "sqlite")
	for name, c := range map[string]struct {
		fault func(w *TPCC)
		want  string // of the failed conditions
	}{
		"* remote lines served from the home warehouse's stock": {func(w *TPCC) {
			w.rewrite = func(c *tpccTerminal, q string) string {
				if strings.HasPrefix(q, "UPDATE stock") {
					return supplier.ReplaceAllString(q, "s_w_id = "+digits(c.home))
				}
				return q
			}
		}, "stock:"},
		"another warehouse is always the home": {of(result.NewOrder, func(c *tpccTerminal) {
			for i := range c.lines {
				c.lines[i].supply = c.home
			}
		}), "lines from a remote warehouse"},
		"payments of the home's customers alone": {of("payment", func(c *tpccTerminal) { c.v["c_w_id"], c.v["c_d_id"] = c.v["w_id"], c.v["d_id"] }), "payments of remote customers"},
		"* the home drawn anew": {func(w *TPCC) {
			w.change = func(c *tpccTerminal) { c.v["w_id"] = digits(c.d.Between(1, 2)) }
		}, "of its terminal's home"},
		"nine districts delivered": {instead("GROUP BY no_d_id", "AND no_d_id < 10 GROUP BY no_d_id"), ""},
		"S_YTD not updated":        {instead(", s_ytd = s_ytd + ", ", s_ytd = s_ytd + 0 * "), "stock:"},
		"S_ORDER_CNT not updated":  {instead("s_order_cnt = s_order_cnt + 1", "s_order_cnt = s_order_cnt + 0"), "stock:"},
		"S_REMOTE_CNT not updated": {instead("s_remote_cnt = s_remote_cnt + 1", "s_remote_cnt = s_remote_cnt + 0"), "stock:"},
		"* the unknown item first": {of(result.NewOrder, func(c *tpccTerminal) {
			if l := c.lines; l[len(l)-1].item > c.w.items {
				l[0], l[len(l)-1] = l[len(l)-1], l[0]
			}
		}), "the unknown item is the last"},
		"no unknown item": {of(result.NewOrder, func(c *tpccTerminal) {
			if l := c.lines[len(c.lines)-1]; l.item > c.w.items {
				l.item = c.w.items
			}
		}), "rolled-back new orders"},
		"committed in place of rolled back":               {instead("ROLLBACK", "COMMIT"), "4: "},
		"rolled back in place of committed":               {instead("COMMIT", "ROLLBACK"), "each acknowledged one is there"},
		"no customer by name":                             {of("payment", func(c *tpccTerminal) { c.v["c_last"] = "" }), "customers by last name"},
		"a payment the district lacks":                    {instead("SET d_ytd = d_ytd + ", "SET d_ytd = d_ytd + 0 * "), "1: "},
		"a payment the warehouse lacks":                   {instead("SET w_ytd = w_ytd + ", "SET w_ytd = w_ytd + 0.01 + "), "1: "},
		"a payment of another amount in history":          {changed("INSERT INTO history", `, \d+\.\d\d, '`, ", 0.01, '"), "8: "},
		"a delivery that the customer is not charged for": {instead("SET c_balance = c_balance + CASE", "SET c_balance = c_balance + 0 * CASE"), "10: "},
		"a delivery without its lines":                    {instead("SET ol_delivery_d = ", "SET ol_delivery_d = NULL + "), "7: "},
		"an order number skipped":                         {instead("d_next_o_id + 1", "d_next_o_id + 2"), "3: "},
		"an order without its new order":                  {changed("INSERT INTO new_order", `\)$`, " + 100)"), "5: "},
		"five lines in each order":                        {of(result.NewOrder, func(c *tpccTerminal) { c.lines = c.lines[:5] }), "lines of an order"},
	} {
		t.Run(name, func(t *testing.T) {
			if name[0] != '*' {
				testdb.SkipUnlessNightly(t, "those with a star")
			}
			_, err := tpccRun(t, db, 1, transactions, c.fault)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %q to fail: %v", c.want, err)
			}
		})
	}
}

// TestTPCCDoubt breaks connections before and after each fifth COMMIT is executed: no acknowledged
// transaction is lost, and none is made twice.
func TestTPCCDoubt(t *testing.T) {
	testdb.OnKinds(t, []string{"mariadb", "postgres"}, func(t *testing.T, kind string) {
		commits := 0
		_, err := tpccRun(t, testdb.Open(t, kind), 1, 80, func(w *TPCC) {
			w.rewrite = func(c *tpccTerminal, q string) string {
				if q != "COMMIT" {
					return q
				}
				if commits++; commits%5 == 1 {
					if _, err := c.s.Exec(t.Context(), q); err != nil {
						t.Error(err)
					}
				}
				if commits%5 <= 1 {
					if err := c.s.Close(); err != nil {
						t.Error(err)
					}
				}
				return q
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}
