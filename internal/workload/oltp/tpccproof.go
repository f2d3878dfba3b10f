package oltp

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

// tpccWhen is the set of times at which a condition is examined.
type tpccWhen int

const (
	atLoad tpccWhen = 1 << iota
	atRun
	deep   // only if all conditions are asked for
	across // not a time: the condition is about rows of several warehouses
	always = atLoad | atRun
)

// tpccConditions are the twelve conditions of clause 3.3.2, in order, and one about the stock. Each
// query counts the rows that contradict the condition; $NAME stands for a value of the proof. Money
// is compared with ROUND: that is exact for DECIMAL, and tolerates half a cent in an engine that
// has binary fractions only. If no index helps to compute one row's sum, a joined subquery computes
// the sums of all rows.
var tpccConditions = []struct {
	name  string
	when  tpccWhen
	query string
}{
	{"1: W_YTD = sum(D_YTD)", always, `
		warehouse WHERE ROUND(w_ytd - COALESCE((SELECT SUM(d_ytd) FROM district WHERE d_w_id = w_id), 0), 2) <> 0`},
	{"2: D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)", always, `
		district WHERE d_next_o_id - 1 <> COALESCE((SELECT MAX(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id), 0)
			OR d_next_o_id - 1 <> (SELECT MAX(no_o_id) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id)`},
	{"3: NO_O_ID has no gaps", always, `
		(SELECT no_w_id FROM new_order GROUP BY no_w_id, no_d_id HAVING MAX(no_o_id) - MIN(no_o_id) + 1 <> COUNT(*)) x`},
	{"4: sum(O_OL_CNT) = order lines", always, `
		district WHERE COALESCE((SELECT SUM(o_ol_cnt) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id), 0)
			<> (SELECT COUNT(*) FROM order_line WHERE ol_w_id = d_w_id AND ol_d_id = d_id)`},
	{"5: O_CARRIER_ID is null for new orders alone", always | deep, `
		orders WHERE (o_carrier_id IS NULL) <> EXISTS (SELECT no_o_id FROM new_order WHERE no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id)`},
	{"6: O_OL_CNT = lines of the order", always | deep, `
		orders WHERE o_ol_cnt <> (SELECT COUNT(*) FROM order_line WHERE ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id)`},
	{"7: OL_DELIVERY_D is null where O_CARRIER_ID is", always | deep, `
		order_line LEFT JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
		WHERE o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)`},
	{"8: W_YTD = sum(H_AMOUNT)", always | deep, `
		warehouse WHERE ROUND(w_ytd - COALESCE((SELECT SUM(h_amount) FROM history WHERE h_w_id = w_id), 0), 2) <> 0`},
	{"9: D_YTD = sum(H_AMOUNT)", always | deep, `
		district LEFT JOIN (SELECT h_w_id AS w, h_d_id AS d, SUM(h_amount) AS total FROM history GROUP BY h_w_id, h_d_id) x ON w = d_w_id AND d = d_id
		WHERE ROUND(d_ytd - COALESCE(total, 0), 2) <> 0`},
	{"10: C_BALANCE = delivered - sum(H_AMOUNT)", always | deep | across, `
		customer LEFT JOIN $delivered_to ON w = c_w_id AND d = c_d_id AND c = c_id
		LEFT JOIN (SELECT h_c_w_id AS hw, h_c_d_id AS hd, h_c_id AS hc, SUM(h_amount) AS paid FROM history GROUP BY h_c_w_id, h_c_d_id, h_c_id) y
			ON hw = c_w_id AND hd = c_d_id AND hc = c_id
		WHERE ROUND(c_balance - COALESCE(total, 0) + COALESCE(paid, 0), 2) <> 0`},
	{"11: orders - new orders are those delivered at first", atLoad, `
		district WHERE (SELECT COUNT(*) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
			- (SELECT COUNT(*) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id) <> $delivered`},
	{"12: C_BALANCE + C_YTD_PAYMENT = delivered", always | deep, `
		customer LEFT JOIN $delivered_to ON w = c_w_id AND d = c_d_id AND c = c_id
		WHERE ROUND(c_balance + c_ytd_payment - COALESCE(total, 0), 2) <> 0`},
	{"stock: S_YTD, S_ORDER_CNT, S_REMOTE_CNT = those of new order lines", atRun | across, `
		stock LEFT JOIN (
			SELECT ol_supply_w_id AS w, ol_i_id AS i, SUM(ol_quantity) AS total, COUNT(*) AS n, SUM(CASE WHEN ol_supply_w_id <> ol_w_id THEN 1 ELSE 0 END) AS remote
			FROM order_line WHERE ol_o_id > $loaded GROUP BY ol_supply_w_id, ol_i_id) x ON w = s_w_id AND i = s_i_id
		WHERE s_ytd <> COALESCE(total, 0) OR s_order_cnt <> COALESCE(n, 0) OR s_remote_cnt <> COALESCE(remote, 0)`},
}

// tpccDeliveredTo returns the amount that was delivered to each customer.
const tpccDeliveredTo = `(SELECT o_w_id AS w, o_d_id AS d, o_c_id AS c, SUM(ol_amount) AS total
	FROM orders JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
	WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) x`

// A tpccWritten is a kind of transaction that can be counted from the rows. query counts it by
// terminal and warehouse. The counts must be as many as were acknowledged, tallied under fact.
type tpccWritten struct{ name, fact, query string }

var (
	writtenOrders = tpccWritten{"new orders", factOrder,
		"SELECT o_entry_d % $terminals, o_w_id, COUNT(*) FROM orders WHERE o_id > $loaded GROUP BY o_entry_d % $terminals, o_w_id"}
	writtenPayments = tpccWritten{"payments", "payment",
		"SELECT h_date % $terminals, h_w_id, COUNT(*) FROM history WHERE h_date >= $since GROUP BY h_date % $terminals, h_w_id"}
	writtenDeliveries = tpccWritten{"deliveries", factDelivered, "SELECT ol_delivery_d % $terminals, ol_w_id, COUNT(DISTINCT ol_delivery_d) FROM order_line" +
		" WHERE ol_delivery_d >= $since GROUP BY ol_delivery_d % $terminals, ol_w_id"}
)

// A tpccProof examines the tables on one connection.
type tpccProof struct {
	w   *TPCC
	ctx context.Context
	s   *engine.Session
	// parts are the sessions on the shards, or s alone if there are none. Conditions about one
	// warehouse are examined on the shards, as Spider's answers to MAX() with GROUP BY are wrong
	// (MariaDB 10.11).
	parts  []*engine.Session
	values map[string]string // the values for $NAME in queries
	out    []result.Condition
	err    error // the first error of a query
}

// proof opens the sessions, calls examine, and returns the conditions that examine has added. If a
// condition doesn't hold, proof also returns an error.
func (w *TPCC) proof(ctx context.Context, db engine.DB, examine func(p *tpccProof)) (_ []result.Condition, err error) {
	p := &tpccProof{w: w, ctx: ctx, values: map[string]string{
		"terminals": digits(w.opt.Terminals), "loaded": digits(w.customers), "delivered": digits(w.customers - w.undelivered),
		"since": digits(w.running()), "delivered_to": tpccDeliveredTo,
	}}
	for _, of := range append([]engine.DB{db}, w.opt.Shards...) {
		s, err := of.(engine.Reader).ReadSession(ctx, pick(of == db, w.opt.Causal, nil))
		if err != nil {
			return nil, err
		}
		defer s.Close()
		p.parts = append(p.parts, s)
	}
	if p.s = p.parts[0]; len(p.parts) > 1 {
		p.parts = p.parts[1:]
	}
	examine(p)
	for _, c := range p.out {
		if !c.Holds {
			p.err = errors.Join(p.err, fmt.Errorf("condition %s: %s", c.Name, c.Found))
		}
	}
	return p.out, p.err
}

// ProveLoad examines the conditions after the load; condition 11 holds only at that time. With all,
// ProveLoad also examines conditions that take long.
func (w *TPCC) ProveLoad(ctx context.Context, all bool) error {
	_, err := w.proof(ctx, w.db, func(p *tpccProof) { p.conditions(atLoad, all) })
	return err
}

// Prove examines the tables after a run whose clients are closed: the conditions of clause 3.3.2
// (with all, also conditions that take long to examine); the agreement of stock and order lines;
// that each acknowledged transaction is in the tables once, in the home warehouse of its terminal;
// and the bands of the audit. A failure is an error.
func (w *TPCC) Prove(ctx context.Context, all bool) (_ *result.Verified, _ []result.Condition, crossing *result.Crossing, _ error) {
	v := &result.Verified{Counted: true}
	out, err := w.proof(ctx, w.db, func(p *tpccProof) {
		for _, b := range w.doubts {
			done, err := b.done(ctx, p.s, b.v["now"])
			if p.err = errors.Join(p.err, err); done {
				w.count(b.n, b.facts)
			}
		}
		w.doubts = nil
		p.conditions(atRun, all)
		v.Found, v.Expected = p.acknowledged(writtenOrders, ""), w.total(factOrder)
		p.acknowledged(writtenPayments, "")
		p.acknowledged(writtenDeliveries, "")
		p.skipped()
		p.bands()
		if len(w.opt.Shards) > 0 {
			crossing = p.crossing()
		}
	})
	for i := 1; i < len(w.opt.Members); i++ {
		more, failed := w.proof(ctx, w.opt.Members[i], func(p *tpccProof) { p.acknowledged(writtenOrders, fmt.Sprintf(" on node %d", i+1)) })
		out, err = append(out, more...), errors.Join(err, failed)
	}
	return v, out, crossing, err
}

// conditions examines the conditions for when; it examines those about one warehouse on the shards.
func (p *tpccProof) conditions(when tpccWhen, all bool) {
	for _, c := range tpccConditions {
		if c.when&when == 0 || c.when&deep != 0 && !all {
			continue
		}
		contradict, on := 0.0, p.parts
		if c.when&across != 0 {
			on = []*engine.Session{p.s}
		}
		for _, n := range p.rows("SELECT COUNT(*) FROM "+c.query, on...) {
			contradict += n[0]
		}
		p.add(c.name, contradict == 0, fmt.Sprintf("%.0f contradict it", contradict))
	}
}

// acknowledged examines one kind of transactions, whose rows show by which terminal and in which
// warehouse they were made. For each terminal, the rows must show as many transactions as were
// acknowledged to the terminal, all in its home warehouse. It returns the number of transactions
// that the rows show.
func (p *tpccProof) acknowledged(of tpccWritten, where string) (found int64) {
	type at struct{ terminal, warehouse int }
	got := map[at]int64{}
	for _, v := range p.rows(of.query) {
		got[at{int(v[0]), int(v[1])}] += int64(v[2])
		found += int64(v[2])
	}
	away, wrong := found, 0
	for n := range p.w.opt.Terminals {
		home := got[at{n, n%p.w.opt.Warehouses + 1}]
		if away -= home; home != p.w.tally[tpccFact{of.fact, n}] {
			wrong++
		}
	}
	p.add(of.name+where+": each acknowledged one is there, of its terminal's home", away == 0 && wrong == 0,
		fmt.Sprintf("%d found, %d acknowledged; %d of a warehouse that is not their terminal's; %d terminals differ", found, p.w.total(of.fact), away, wrong))
	return found
}

// mostSkipped is the percentage of districts that may have no order to deliver (clause 2.7.4.2).
// scaledSkipped is the percentage for scales below 1, at which a district begins with fewer than
// 900 orders to deliver. Both are low enough to find a generator that skips one district of ten.
const mostSkipped, scaledSkipped = int64(1), int64(5)

// skipped examines whether each delivery has delivered one order of each district.
func (p *tpccProof) skipped() {
	all, skipped := districts*p.w.total("delivery"), p.w.total(factSkipped)
	want, got := all-skipped, p.row("SELECT COUNT(*) FROM (SELECT ol_w_id FROM order_line WHERE ol_delivery_d >= $since GROUP BY ol_w_id, ol_d_id, ol_o_id) x")[0]
	p.add("deliveries: one order of each district", float64(want) == got, fmt.Sprintf("%.0f orders, of %d", got, want))
	most := pick(p.w.opt.Scale < 1, scaledSkipped, mostSkipped)
	p.add(fmt.Sprintf("deliveries: at most %d%% of districts had none", most), skipped <= max(1, all*most/100), fmt.Sprintf("%d of %d", skipped, all))
}

// bands examines whether the mix of transactions is within the limits of clause 9.2.2.5.
func (p *tpccProof) bands() {
	w, total := p.w, func(fact string) float64 { return float64(p.w.total(fact)) }
	p.percent("rolled-back new orders", total(factRolledBack), total(result.NewOrder), 0.9, 1.1)
	early := w.total(factEarly)
	p.add("the unknown item is the last", early == 0, fmt.Sprintf("in %d orders it is not", early))
	lines := p.row("SELECT COUNT(*), SUM(CASE WHEN ol_supply_w_id <> ol_w_id THEN 1 ELSE 0 END) FROM order_line WHERE ol_o_id > $loaded")
	placed := p.row("SELECT COUNT(*) FROM orders WHERE o_id > $loaded")
	p.band("lines of an order", "", lines[0], placed[0], 9.5, 10.5, 10) // of a uniform number from 5 to 15
	paid := p.row("SELECT COUNT(*), SUM(CASE WHEN h_c_w_id <> h_w_id THEN 1 ELSE 0 END) FROM history WHERE h_date >= $since")
	if w.opt.Warehouses > 1 {
		p.percent("lines from a remote warehouse", lines[1], lines[0], 0.95, 1.05)
		p.percent("payments of remote customers", paid[1], paid[0], 14, 16)
	}
	p.percent("customers by last name", total(factNamed), total(factNameable), 57, 63)
	all := 0.0
	for _, k := range tpccKinds {
		all += total(k.op)
	}
	for _, k := range tpccKinds[1:] {
		p.percent(k.op+" of all transactions", total(k.op), all, float64(k.share)-0.5, float64(k.share)+0.5)
	}
}

// percent adds the condition that part of n is from low to high percent.
func (p *tpccProof) percent(name string, part, n, low, high float64) {
	middle := (low + high) / 200
	p.band(name, "%", 100*part, n, low, high, 1e4*middle*(1-middle))
}

// band adds the condition that sum/n is from low to high; variance is the variance of one value.
func (p *tpccProof) band(name, unit string, sum, n, low, high, variance float64) {
	if n == 0 {
		p.add("audit: "+name, true, "none")
		return
	}
	holds, chance := p.within(sum/n, n, low, high, variance)
	p.add("audit: "+name, holds, fmt.Sprintf("%.2f%s, band %g to %g%s%s", sum/n, unit, low, high, unit, chance))
}

// deckLeft is the variance of the sum of 50 cards dealt from a deck of 100, as a multiple of the
// variance of one card: 50 * 50/99.
const deckLeft = 25

// within reports whether a mean of n values is from low to high, or misses that band by chance: by
// at most four standard deviations. The mean of a short run varies for two reasons. Each terminal
// deals the values from a deck, which the end of the run may leave partly dealt; and up to 2% of
// the values are not counted.
func (p *tpccProof) within(mean, n, low, high, variance float64) (holds bool, chance string) {
	miss := max(low-mean, mean-high)
	slack := 4 * math.Sqrt(variance*(deckLeft*float64(p.w.opt.Terminals)+0.02*n)) / n
	if miss > 0 && miss <= slack {
		chance = fmt.Sprintf("; chance explains that in %.0f", n)
	}
	return miss <= slack, chance
}

// crossing examines the share of transactions whose rows are on several shards. It compares it with
// the share that follows from TPC-C's definition and the terminals' home warehouses. Orders that
// were rolled back have no rows.
func (p *tpccProof) crossing() *result.Crossing {
	w, crossed, all, expected := p.w, 0.0, 0.0, 0.0
	orders := map[[3]float64]bool{} // that cross
	for _, v := range p.rows("SELECT DISTINCT ol_w_id, ol_supply_w_id, ol_d_id, ol_o_id FROM order_line WHERE ol_supply_w_id <> ol_w_id AND ol_o_id > $loaded") {
		if w.shard(int64(v[0])) != w.shard(int64(v[1])) {
			orders[[3]float64{v[0], v[2], v[3]}] = true
		}
	}
	for _, v := range p.rows("SELECT h_w_id, h_c_w_id, COUNT(*) FROM history WHERE h_c_w_id <> h_w_id AND h_date >= $since GROUP BY h_w_id, h_c_w_id") {
		if w.shard(int64(v[0])) != w.shard(int64(v[1])) {
			crossed += v[2]
		}
	}
	for n := range w.opt.Terminals {
		others := 0.0 // the share of other warehouses that are on another shard
		for i := range w.opt.Warehouses {
			if w.shard(int64(i)+1) != w.shard(int64(n%w.opt.Warehouses)+1) {
				others += 1 / float64(max(w.opt.Warehouses-1, 1))
			}
		}
		for _, k := range tpccKinds {
			all += float64(w.tally[tpccFact{k.op, n}])
		}
		// An order has 10 lines, and one line of 100 is remote. Two remote lines in an order are rare.
		expected += others * (10*0.01*float64(w.tally[tpccFact{factOrder, n}]) + 0.15*float64(w.tally[tpccFact{"payment", n}]))
	}
	if all == 0 {
		return nil
	}
	c := &result.Crossing{Transactions: int64(all), Expected: expected / all, Measured: (crossed + float64(len(orders))) / all}
	holds, chance := p.within(c.Measured, all, 0.995*c.Expected, 1.005*c.Expected, c.Expected*(1-c.Expected))
	p.add("transactions that cross nodes: within 0.5% of what is expected", holds, fmt.Sprintf("%.3f%% of %d, expected %.3f%%; off by %+.3f points, %+.2f%% of it%s",
		100*c.Measured, c.Transactions, 100*c.Expected, 100*(c.Measured-c.Expected), 100*(c.Measured/c.Expected-1), chance))
	return c
}

// running returns a time after all dates of the load and before all dates of a run.
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

// rows returns the rows of a query whose values are numbers. It runs the query on the given
// sessions, or on p.s if none are given. It reads NULL, e.g. a sum of no rows, as 0.
func (p *tpccProof) rows(q string, on ...*engine.Session) (out [][]float64) {
	if len(on) == 0 {
		on = []*engine.Session{p.s}
	}
	q = os.Expand(q, func(name string) string { return p.values[name] })
	for _, s := range on {
		if p.err != nil {
			return nil
		}
		p.err = engine.About(p.ctx, s.Text(p.ctx, q, nil, func(texts [][]byte) (err error) {
			values := make([]float64, len(texts))
			for i, text := range texts {
				if text != nil && err == nil {
					values[i], err = strconv.ParseFloat(string(text), 64)
				}
			}
			out = append(out, values)
			return err
		}), "examine the tables: "+q)
	}
	return out
}

// row returns the first row of a query; zeros after an error.
func (p *tpccProof) row(q string) []float64 { return append(p.rows(q), make([]float64, 2))[0] }
