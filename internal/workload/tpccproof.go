package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/result"
)

// A tpccCondition is a query for the number of rows that contradict it. Money is compared by ROUND: exactly where it is DECIMAL, and to
// half a cent where an engine has fractions only.
type tpccCondition struct {
	name  string
	query string // $NAME stands for a value of the proof
	// When it is examined: after the load and after each run, unless deep is asked for or it holds at one time alone.
	deep, loadOnly, runOnly bool
	// across means that it is about rows of several warehouses.
	across bool
}

// tpccConditions are those of clause 3.3.2, in order, and one about the stock, which they lack.
var tpccConditions = []tpccCondition{
	{name: "1: W_YTD = sum(D_YTD)", query: `
		SELECT COUNT(*) FROM warehouse
		LEFT JOIN (SELECT d_w_id AS w, SUM(d_ytd) AS total FROM district GROUP BY d_w_id) x ON w = w_id
		WHERE ROUND(w_ytd - COALESCE(total, 0), 2) <> 0`},
	{name: "2: D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)", query: `
		SELECT COUNT(*) FROM district
		LEFT JOIN (SELECT o_w_id AS w, o_d_id AS d, MAX(o_id) AS last FROM orders GROUP BY o_w_id, o_d_id) x ON w = d_w_id AND d = d_id
		LEFT JOIN (SELECT no_w_id AS nw, no_d_id AS nd, MAX(no_o_id) AS newest FROM new_order GROUP BY no_w_id, no_d_id) y ON nw = d_w_id AND nd = d_id
		WHERE d_next_o_id - 1 <> COALESCE(last, 0) OR d_next_o_id - 1 <> COALESCE(newest, d_next_o_id - 1)`},
	{name: "3: NO_O_ID has no gaps", query: `
		SELECT COUNT(*) FROM (
			SELECT no_w_id FROM new_order GROUP BY no_w_id, no_d_id HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)) x`},
	{name: "4: sum(O_OL_CNT) = order lines", query: `
		SELECT COUNT(*) FROM district
		LEFT JOIN (SELECT o_w_id AS w, o_d_id AS d, SUM(o_ol_cnt) AS total FROM orders GROUP BY o_w_id, o_d_id) x ON w = d_w_id AND d = d_id
		LEFT JOIN (SELECT ol_w_id AS lw, ol_d_id AS ld, COUNT(*) AS n FROM order_line GROUP BY ol_w_id, ol_d_id) y ON lw = d_w_id AND ld = d_id
		WHERE COALESCE(total, 0) <> COALESCE(n, 0)`},
	{name: "5: O_CARRIER_ID is null for new orders alone", deep: true, query: `
		SELECT COUNT(*) FROM orders
		LEFT JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
		WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)`},
	{name: "6: O_OL_CNT = lines of the order", deep: true, query: `
		SELECT COUNT(*) FROM orders
		LEFT JOIN (SELECT ol_w_id AS w, ol_d_id AS d, ol_o_id AS o, COUNT(*) AS n FROM order_line GROUP BY ol_w_id, ol_d_id, ol_o_id) x
			ON w = o_w_id AND d = o_d_id AND o = o_id
		WHERE o_ol_cnt <> COALESCE(n, 0)`},
	{name: "7: OL_DELIVERY_D is null where O_CARRIER_ID is", deep: true, query: `
		SELECT COUNT(*) FROM order_line
		LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
		WHERE o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)`},
	{name: "8: W_YTD = sum(H_AMOUNT)", deep: true, query: `
		SELECT COUNT(*) FROM warehouse
		LEFT JOIN (SELECT h_w_id AS w, SUM(h_amount) AS total FROM history GROUP BY h_w_id) x ON w = w_id
		WHERE ROUND(w_ytd - COALESCE(total, 0), 2) <> 0`},
	{name: "9: D_YTD = sum(H_AMOUNT)", deep: true, query: `
		SELECT COUNT(*) FROM district
		LEFT JOIN (SELECT h_w_id AS w, h_d_id AS d, SUM(h_amount) AS total FROM history GROUP BY h_w_id, h_d_id) x ON w = d_w_id AND d = d_id
		WHERE ROUND(d_ytd - COALESCE(total, 0), 2) <> 0`},
	{name: "10: C_BALANCE = delivered - sum(H_AMOUNT)", deep: true, across: true, query: `
		SELECT COUNT(*) FROM customer
		LEFT JOIN (` + deliveredByCustomer + `) x ON w = c_w_id AND d = c_d_id AND c = c_id
		LEFT JOIN (
			SELECT h_c_w_id AS hw, h_c_d_id AS hd, h_c_id AS hc, SUM(h_amount) AS paid FROM history GROUP BY h_c_w_id, h_c_d_id, h_c_id) y
			ON hw = c_w_id AND hd = c_d_id AND hc = c_id
		WHERE ROUND(c_balance - COALESCE(total, 0) + COALESCE(paid, 0), 2) <> 0`},
	{name: "11: orders - new orders are those delivered at first", loadOnly: true, query: `
		SELECT COUNT(*) FROM district
		LEFT JOIN (SELECT o_w_id AS w, o_d_id AS d, COUNT(*) AS n FROM orders GROUP BY o_w_id, o_d_id) x ON w = d_w_id AND d = d_id
		LEFT JOIN (SELECT no_w_id AS nw, no_d_id AS nd, COUNT(*) AS m FROM new_order GROUP BY no_w_id, no_d_id) y ON nw = d_w_id AND nd = d_id
		WHERE COALESCE(n, 0) - COALESCE(m, 0) <> $delivered`},
	{name: "12: C_BALANCE + C_YTD_PAYMENT = delivered", deep: true, query: `
		SELECT COUNT(*) FROM customer
		LEFT JOIN (` + deliveredByCustomer + `) x ON w = c_w_id AND d = c_d_id AND c = c_id
		WHERE ROUND(c_balance + c_ytd_payment - COALESCE(total, 0), 2) <> 0`},
	{name: "stock: S_YTD, S_ORDER_CNT, S_REMOTE_CNT = those of new order lines", runOnly: true, across: true, query: `
		SELECT COUNT(*) FROM stock
		LEFT JOIN (
			SELECT ol_supply_w_id AS w, ol_i_id AS i, SUM(ol_quantity) AS total, COUNT(*) AS n, SUM(CASE WHEN ol_supply_w_id <> ol_w_id THEN 1 ELSE 0 END) AS remote
			FROM order_line WHERE ol_o_id > $loaded GROUP BY ol_supply_w_id, ol_i_id) x ON w = s_w_id AND i = s_i_id
		WHERE s_ytd <> COALESCE(total, 0) OR s_order_cnt <> COALESCE(n, 0) OR s_remote_cnt <> COALESCE(remote, 0)`},
}

const deliveredByCustomer = `
	SELECT o_w_id AS w, o_d_id AS d, o_c_id AS c, SUM(ol_amount) AS total FROM orders
	JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
	WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id`

// Of the transactions that a terminal's new rows show: their terminals, warehouses, and number.
const (
	writtenOrders     = "SELECT o_entry_d % $terminals, o_w_id, COUNT(*) FROM orders WHERE o_id > $loaded GROUP BY o_entry_d % $terminals, o_w_id"
	writtenPayments   = "SELECT h_date % $terminals, h_w_id, COUNT(*) FROM history WHERE h_date >= $since GROUP BY h_date % $terminals, h_w_id"
	writtenDeliveries = "SELECT ol_delivery_d % $terminals, ol_w_id, COUNT(DISTINCT ol_delivery_d) FROM order_line WHERE ol_delivery_d >= $since" +
		" GROUP BY ol_delivery_d % $terminals, ol_w_id"
)

// A tpccProof examines the tables on one connection.
type tpccProof struct {
	w *TPCC
	s *engine.Session
	// parts are the sessions on the shards, or s alone. A condition about one warehouse is examined there: Spider's answers
	// to MAX() with GROUP BY are wrong (MariaDB 10.11).
	parts []*engine.Session
	ctx   context.Context
	// values are what queries have as $NAME.
	values map[string]string
	out    []result.Condition
	err    error // of a query
}

func (w *TPCC) proof(ctx context.Context, db engine.DB, examine func(p *tpccProof)) ([]result.Condition, error) {
	p := &tpccProof{w: w, ctx: ctx, values: map[string]string{"terminals": digits(w.opt.Terminals), "loaded": digits(w.customers), "delivered": digits(w.customers - w.undelivered),
		"since": digits(w.running())}}
	if p.s, p.err = db.(engine.Reader).ReadSession(ctx, w.opt.Causal); p.err != nil {
		return nil, p.err
	}
	p.parts = []*engine.Session{p.s}
	for i, shard := range w.opt.Shards {
		s, err := shard.(engine.Reader).ReadSession(ctx, nil)
		if err != nil {
			return nil, errors.Join(err, p.s.Close())
		}
		defer s.Close()
		p.parts = append(p.parts[:i], s)
	}
	examine(p)
	err := errors.Join(p.err, p.s.Close())
	for _, c := range p.out {
		if !c.Holds {
			err = errors.Join(err, fmt.Errorf("condition %s: %s", c.Name, c.Found))
		}
	}
	return p.out, err
}

// ProveLoad examines condition 11, which holds only now, and with deep all others.
func (w *TPCC) ProveLoad(ctx context.Context, deep bool) error {
	_, err := w.proof(ctx, w.db, func(p *tpccProof) {
		p.conditions(func(c *tpccCondition) bool { return !c.runOnly && (deep || !c.deep) })
	})
	return err
}

// Prove examines the tables after a run whose clients are closed: the conditions of clause 3.3.2, of which deep has those from 5
// on; that stock and order lines agree; that each acknowledged transaction is there once, and its terminal's home is one; and the audit's
// bands. What doesn't hold is an error.
func (w *TPCC) Prove(ctx context.Context, deep bool) (_ *result.Verified, _ []result.Condition, crossing *result.Crossing, _ error) {
	v := &result.Verified{Counted: true}
	out, err := w.proof(ctx, w.db, func(p *tpccProof) {
		for _, b := range w.doubts {
			done, err := b.done(ctx, p.s, b.v["now"])
			if p.err = errors.Join(p.err, err); done {
				w.count(b.n, b.facts)
			}
		}
		w.doubts = nil
		p.conditions(func(c *tpccCondition) bool { return !c.loadOnly && (deep || !c.deep) })
		v.Found, v.Expected = p.acknowledged("new orders", factOrder, writtenOrders), w.total(factOrder)
		p.acknowledged("payments", "payment", writtenPayments)
		p.acknowledged("deliveries", factDelivered, writtenDeliveries)
		all, skipped := districts*w.total("delivery"), w.total(factSkipped)
		want, got := all-skipped, p.value("SELECT COUNT(*) FROM (SELECT ol_w_id FROM order_line WHERE ol_delivery_d >= $since GROUP BY ol_w_id, ol_d_id, ol_o_id) x")
		p.add("deliveries: one order of each district", float64(want) == got, fmt.Sprintf("%.0f orders, of %d", got, want))
		most := pick(w.opt.Scale < 1, scaledSkipped, mostSkipped)
		p.add(fmt.Sprintf("deliveries: at most %d%% of districts had none", most), skipped <= max(1, all*most/100), fmt.Sprintf("%d of %d", skipped, all))
		p.bands()
		if len(w.opt.Shards) > 0 {
			crossing = p.crossing()
		}
	})
	for i := 1; i < len(w.opt.Members); i++ {
		more, failed := w.proof(ctx, w.opt.Members[i], func(p *tpccProof) {
			p.acknowledged(fmt.Sprintf("new orders on node %d", i+1), factOrder, writtenOrders)
		})
		out, err = append(out, more...), errors.Join(err, failed)
	}
	return v, out, crossing, err
}

// crossing compares the share of transactions whose rows are on several shards with what the definition gives for the terminals' homes.
// Orders that were rolled back have no rows.
func (p *tpccProof) crossing() *result.Crossing {
	w, apart := p.w, func(v []float64) bool { return p.w.shard(int64(v[0])) != p.w.shard(int64(v[1])) }
	orders, crossed, all, expected := map[[3]float64]bool{}, 0.0, 0.0, 0.0
	p.query("SELECT DISTINCT ol_w_id, ol_supply_w_id, ol_d_id, ol_o_id FROM order_line WHERE ol_supply_w_id <> ol_w_id AND ol_o_id > $loaded", func(v []float64) {
		if apart(v) {
			orders[[3]float64{v[0], v[2], v[3]}] = true
		}
	})
	p.query("SELECT h_w_id, h_c_w_id, COUNT(*) FROM history WHERE h_c_w_id <> h_w_id AND h_date >= $since GROUP BY h_w_id, h_c_w_id", func(v []float64) {
		if apart(v) {
			crossed += v[2]
		}
	})
	crossed += float64(len(orders))
	for n := range w.opt.Terminals {
		home, others := w.shard(int64(n%w.opt.Warehouses)+1), 0.0
		for i := range w.opt.Warehouses {
			if w.shard(int64(i)+1) != home {
				others += 1 / float64(max(w.opt.Warehouses-1, 1))
			}
		}
		order := 10 * 0.01 * others // of its 10 lines, as one of 100 that follow each other is remote: two of an order hardly ever are
		for _, k := range tpccKinds {
			all += float64(w.tally[tpccFact{k.op, n}])
		}
		expected += float64(w.tally[tpccFact{factOrder, n}])*order + float64(w.tally[tpccFact{"payment", n}])*0.15*others
	}
	if all == 0 {
		return nil
	}
	c := &result.Crossing{Transactions: int64(all), Expected: expected / all, Measured: crossed / all}
	holds, chance := p.within(c.Measured, all, 0.995*c.Expected, 1.005*c.Expected, c.Expected*(1-c.Expected))
	p.add("transactions that cross nodes: within 0.5% of what is expected", holds, fmt.Sprintf("%.3f%% of %d, expected %.3f%%; off by %+.3f points, %+.2f%% of it%s",
		100*c.Measured, c.Transactions, 100*c.Expected, 100*(c.Measured-c.Expected), 100*(c.Measured/c.Expected-1), chance))
	return c
}

// running is before all dates of a run.
func (w *TPCC) running() int64 { return loadDate + int64(w.opt.Warehouses)*districts*w.customers }

func (w *TPCC) total(what string) (n int64) {
	for f, of := range w.tally {
		if f.what == what {
			n += of
		}
	}
	return n
}

func (p *tpccProof) add(name string, holds bool, found string) {
	if p.err == nil {
		p.out = append(p.out, result.Condition{Name: name, Holds: holds, Found: found})
	}
}

func (p *tpccProof) query(q string, row func(values []float64)) {
	if p.err != nil {
		return
	}
	q = os.Expand(q, func(name string) string { return p.values[name] })
	p.err = p.s.Text(p.ctx, q, nil, func(texts [][]byte) error {
		values := make([]float64, len(texts))
		for i, text := range texts {
			if text == nil {
				continue // of no rows: 0
			}
			var err error
			if values[i], err = strconv.ParseFloat(string(text), 64); err != nil {
				return err
			}
		}
		row(values)
		return nil
	})
	if p.err != nil {
		p.err = fmt.Errorf("examine the tables: %w: %s", p.err, q)
	}
}

func (p *tpccProof) value(q string) (v float64) {
	p.query(q, func(values []float64) { v = values[0] })
	return v
}

// conditions examines those that hold at this time: on the shards, if they are about one warehouse.
func (p *tpccProof) conditions(holds func(c *tpccCondition) bool) {
	whole := p.s
	defer func() { p.s = whole }()
	for i := range tpccConditions {
		c, n := &tpccConditions[i], 0.0
		if !holds(c) {
			continue
		}
		parts := p.parts
		if c.across {
			parts = []*engine.Session{whole}
		}
		for _, p.s = range parts {
			n += p.value(c.query)
		}
		p.add(c.name, n == 0, fmt.Sprintf("%.0f contradict it", n))
	}
}

// acknowledged compares transactions by terminal and warehouse with those acknowledged to terminals at home.
func (p *tpccProof) acknowledged(name, fact, q string) (found int64) {
	type at struct{ terminal, warehouse int }
	got := map[at]int64{}
	p.query(q, func(v []float64) {
		got[at{int(v[0]), int(v[1])}] += int64(v[2])
		found += int64(v[2])
	})
	away, wrong := found, 0
	for n := range p.w.opt.Terminals {
		home := got[at{n, n%p.w.opt.Warehouses + 1}]
		if away -= home; home != p.w.tally[tpccFact{fact, n}] {
			wrong++
		}
	}
	p.add(name+": each acknowledged one is there, of its terminal's home", away == 0 && wrong == 0,
		fmt.Sprintf("%d found, %d acknowledged; %d of a warehouse that is not their terminal's; %d terminals differ", found, p.w.total(fact), away, wrong))
	return found
}

// bands are those of clause 9.2.2.5.
func (p *tpccProof) bands() {
	w := p.w
	several := w.opt.Warehouses > 1
	orders := float64(w.total(result.NewOrder))
	p.band("rolled-back new orders", "%", 100*float64(w.total(factRolledBack)), orders, 0.9, 1.1, 0)
	early := w.total(factEarly)
	p.add("the unknown item is the last", early == 0, fmt.Sprintf("in %d orders it is not", early))
	var lines, remote, placed, paid, away float64
	p.query("SELECT COUNT(*), SUM(CASE WHEN ol_supply_w_id <> ol_w_id THEN 1 ELSE 0 END) FROM order_line WHERE ol_o_id > $loaded", func(v []float64) { lines, remote = v[0], v[1] })
	placed = p.value("SELECT COUNT(*) FROM orders WHERE o_id > $loaded")
	p.band("lines of an order", "", lines, placed, 9.5, 10.5, 10) // of a uniform number from 5 to 15
	p.query("SELECT COUNT(*), SUM(CASE WHEN h_c_w_id <> h_w_id THEN 1 ELSE 0 END) FROM history WHERE h_date >= $since", func(v []float64) { paid, away = v[0], v[1] })
	if several {
		p.band("lines from a remote warehouse", "%", 100*remote, lines, 0.95, 1.05, 0)
		p.band("payments of remote customers", "%", 100*away, paid, 14, 16, 0)
	}
	p.band("customers by last name", "%", 100*float64(w.total(factNamed)), float64(w.total(factNameable)), 57, 63, 0)
	var all float64
	for _, k := range tpccKinds {
		all += float64(w.total(k.op))
	}
	for _, k := range tpccKinds[1:] {
		p.band(k.op+" of all transactions", "%", 100*float64(w.total(k.op)), all, float64(k.share)-0.5, float64(k.share)+0.5, 0)
	}
}

// band adds a condition that sum/n is from low to high; variance is that of a single value.
func (p *tpccProof) band(name, unit string, sum, n, low, high, variance float64) {
	if n == 0 {
		p.add("audit: "+name, true, "none")
		return
	}
	if unit == "%" { // of hundreds
		middle := (low + high) / 200
		variance = 1e4 * middle * (1 - middle)
	}
	holds, chance := p.within(sum/n, n, low, high, variance)
	p.add("audit: "+name, holds, fmt.Sprintf("%.2f%s, band %g to %g%s%s", sum/n, unit, low, high, unit, chance))
}

// within reports whether a mean of n values is from low to high. The values are dealt from decks, of which those of all terminals may be at
// any card, and a share of 2% at most is not counted: a short run may miss the band by four standard deviations of that.
func (p *tpccProof) within(mean, n, low, high, variance float64) (holds bool, chance string) {
	miss := max(low-mean, mean-high)
	slack := 4 * math.Sqrt(variance*(deckLeft*float64(p.w.opt.Terminals)+0.02*n)) / n
	if miss > 0 && miss <= slack {
		chance = fmt.Sprintf("; chance explains that in %.0f", n)
	}
	return miss <= slack, chance
}

// mostSkipped is how many percent of districts may have no order to deliver, by clause 2.7.4.2. A part of a warehouse's rows has a part of the 900
// orders that each district has in reserve. A generator that skips one district of ten is found in either case.
const mostSkipped, scaledSkipped = int64(1), int64(5)

// deckLeft is the variance of a deck of 100 cards, in those of a card, when half of it is dealt: 50 * 50/99.
const deckLeft = 25
