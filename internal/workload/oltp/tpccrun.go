package oltp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/result"
)

// A tpccKind is one of the transactions: its share in percent, the seconds for which a user types
// before it and thinks after it (clauses 5.2.3 and 5.2.5), the statements between BEGIN and COMMIT,
// and a query that returns the date that the transaction has written; "" if it writes no date.
type tpccKind struct {
	op            string
	share         int
	keying, think float64
	send          func(c *tpccTerminal, ctx context.Context)
	written       string
}

var tpccKinds = []tpccKind{
	{result.NewOrder, 45, 18, 12, (*tpccTerminal).newOrder, "SELECT o_entry_d FROM orders WHERE o_w_id = $w_id AND o_d_id = $d_id AND o_id = $o_id"},
	{"payment", 43, 3, 12, (*tpccTerminal).payment, "SELECT h_date FROM history WHERE h_w_id = $w_id AND h_date = $now"},
	{"order-status", 4, 2, 10, (*tpccTerminal).orderStatus, ""},
	{"delivery", 4, 2, 5, (*tpccTerminal).deliver,
		"SELECT ol_delivery_d FROM order_line WHERE ol_w_id = $w_id AND ol_d_id = $d_id AND ol_o_id = $o_id AND ol_number = 1"},
	{"stock-level", 4, 2, 5, (*tpccTerminal).stockLevel, ""},
}

// A tpccFact is something that a terminal did in acknowledged transactions: a kind of transaction,
// or one of the facts below.
type tpccFact struct {
	what     string
	terminal int
}

const (
	factOrder      = "order"     // an order that was not rolled back
	factDelivered  = "delivered" // a delivery of at least one order
	factSkipped    = "skipped"   // a district without an order to deliver
	factNamed      = "named"     // the customer was found by name
	factNameable   = "nameable"  // the customer was found by name or by number
	factRolledBack = "rolled back"
	factEarly      = "early" // rolled back for an item that was not the last
)

// A deck deals numbers in a random order, each as often as it is in the deck. When all are dealt,
// the whole deck is shuffled again.
type deck struct {
	shares []int // element i: how often the deck has number i
	left   []int64
}

func percent(n int) deck { return deck{shares: []int{100 - n, n}} }

func (k *deck) deal(d *draw.Values) int64 {
	if len(k.left) == 0 {
		for i, n := range k.shares {
			k.left = append(k.left, slices.Repeat([]int64{int64(i)}, n)...)
		}
		d.Shuffle(k.left)
	}
	last := len(k.left) - 1
	out := k.left[last]
	k.left = k.left[:last]
	return out
}

// A tpccTerminal is one connection.
type tpccTerminal struct {
	// talk.v has the values that the user enters and the values that the transaction has read, under
	// the names of columns and variables in the definition.
	talk
	w              *TPCC
	n              int   // from 0
	home, district int64 // its warehouse, and the district of its stock levels
	d              draw.Values
	kind           tpccKind
	lines          []*tpccLine // of an order
	facts          []string
	began          time.Time
	at             int64   // the date of the transaction
	think          float64 // seconds after the last transaction

	mix, sizes, rollback, byName, remotePay, remoteLine deck
	away                                                deck // the other warehouses
}

type tpccLine struct {
	item, supply, quantity int64 // supply is a warehouse
	cents                  int64 // price of one item, -1 if there is no such item
	dist                   string
}

// Client implements bench.Workload. A terminal's home doesn't change.
func (w *TPCC) Client(ctx context.Context, n int) (_ bench.Client, err error) {
	remote := pick(w.opt.Warehouses > 1, 1, 0)
	c := &tpccTerminal{talk: talk{v: map[string]string{}}, w: w, n: n, home: int64(n%w.opt.Warehouses) + 1, district: int64(n/w.opt.Warehouses%districts) + 1,
		d:        draw.NewStream(w.opt.Seed, n+len(tpccTables)+1).Row(0),
		rollback: percent(1), byName: percent(60), remotePay: percent(15 * remote), remoteLine: percent(remote),
		sizes: deck{shares: slices.Concat(make([]int, 5), slices.Repeat([]int{1}, 11))}}
	for _, k := range tpccKinds {
		c.mix.shares = append(c.mix.shares, k.share)
	}
	c.away.shares = slices.Repeat([]int{1}, w.opt.Warehouses)
	c.away.shares[c.home-1] = 0
	if w.rewrite != nil {
		c.rewrite = func(q string) string { return w.rewrite(c, q) }
	}
	c.open = w.opt.Members[c.Server()].(engine.Reader).ReadSession
	c.s, err = c.open(ctx, nil)
	return c, err
}

// Server implements bench.Placed.
func (c *tpccTerminal) Server() int { return c.n % len(c.w.opt.Members) }

// Background implements bench.Workload.
func (w *TPCC) Background(context.Context, func(what, object string, began time.Time)) error {
	return nil
}

// Crashed is called when the server was killed. It has nothing to do: each terminal finds out by
// itself whether a commit that was not answered has happened.
func (w *TPCC) Crashed(time.Time) {}

// Prepare implements bench.Client: it draws the kind of the next transaction, and the values that
// the user enters (clauses 2.4.1 to 2.8.1).
func (c *tpccTerminal) Prepare(int) {
	w, v := c.w, c.v
	c.kind, c.began = tpccKinds[c.mix.deal(&c.d)], time.Time{}
	clear(v)
	v["w_id"], v["d_id"], v["c_id"] = digits(c.home), digits(c.d.Between(1, districts)), digits(nuRand(&c.d, 1023, w.customerC, 1, w.customers))
	v["c_w_id"], v["c_d_id"] = v["w_id"], v["d_id"]
	switch c.kind.op {
	case result.NewOrder:
		c.order()
	case "payment":
		v["amount"] = decimal(c.d.Between(100, 500_000), 2)
		if c.remotePay.deal(&c.d) == 1 {
			v["c_w_id"], v["c_d_id"] = digits(1+c.away.deal(&c.d)), digits(c.d.Between(1, districts))
		}
	case "delivery":
		v["carrier"] = digits(c.d.Between(1, 10))
	case "stock-level":
		v["d_id"], v["threshold"] = digits(c.district), digits(c.d.Between(10, 20))
	}
	if (c.kind.op == "payment" || c.kind.op == "order-status") && c.byName.deal(&c.d) == 1 {
		v["c_last"] = lastName(nuRand(&c.d, 255, w.nameRun, 0, min(w.customers, 1000)-1))
	}
	if w.change != nil {
		w.change(c)
	}
}

// order deals the lines of an order. In one of a hundred orders, the last item doesn't exist.
func (c *tpccTerminal) order() {
	w := c.w
	c.lines = nil
	for n := c.sizes.deal(&c.d); int64(len(c.lines)) < n; {
		line := &tpccLine{item: nuRand(&c.d, 8191, w.itemC, 1, w.items), supply: c.home, quantity: c.d.Between(1, 10)}
		if slices.ContainsFunc(c.lines, func(l *tpccLine) bool { return l.item == line.item }) {
			continue
		}
		if c.remoteLine.deal(&c.d) == 1 {
			line.supply = 1 + c.away.deal(&c.d)
		}
		c.lines = append(c.lines, line)
	}
	if c.rollback.deal(&c.d) == 1 {
		c.lines[len(c.lines)-1].item = w.items + 1
	}
}

// Await implements bench.Waiter: the user thinks about the last answer, and types.
func (c *tpccTerminal) Await(ctx context.Context) error {
	if !c.w.opt.Keying {
		return nil
	}
	wait := c.think + c.kind.keying
	c.think = min(-math.Log(max(c.d.Float(), 1e-9)), 10) * c.kind.think
	return engine.Sleep(ctx, time.Duration(wait*float64(time.Second)))
}

// Do implements bench.Client. If the COMMIT of the previous try was not answered, but the rows of
// the transaction exist, Do counts the transaction as done and does not repeat it.
func (c *tpccTerminal) Do(ctx context.Context) error {
	if c.began.IsZero() {
		c.began = time.Now()
	}
	if c.asked != "" {
		s, err := c.open(ctx, c.w.opt.Causal)
		if err != nil {
			return err
		}
		done, err := c.done(ctx, s, c.v["now"])
		if err = errors.Join(err, s.Close()); done && err == nil {
			c.acknowledged()
		}
		if done || err != nil {
			return err
		}
	}
	terminals := int64(c.w.opt.Terminals)
	c.at = max(time.Now().UnixMicro()/terminals*terminals+int64(c.n), c.at+terminals)
	c.v["now"] = digits(c.at)
	c.err, c.asked, c.facts = nil, "", []string{c.kind.op}
	c.exec(ctx, pick(c.kind.written == "", "BEGIN", c.w.begin))
	c.kind.send(c, ctx)
	if slices.Contains(c.facts, factRolledBack) {
		c.exec(ctx, "ROLLBACK")
	} else {
		c.commit(ctx, c.kind.written)
	}
	if c.err == nil {
		c.acknowledged()
	}
	return c.err
}

// acknowledged counts the transaction.
func (c *tpccTerminal) acknowledged() {
	c.asked = ""
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.count(c.n, c.facts)
	c.w.Took(c.kind.op, time.Since(c.began))
}

func (w *TPCC) count(terminal int, facts []string) {
	for _, f := range facts {
		w.tally[tpccFact{f, terminal}]++
	}
}

// newOrder executes TPC-C's transaction New-Order (clause 2.4.2). If an item of the order is
// unknown, the transaction is rolled back, but only after all of its statements were executed.
func (c *tpccTerminal) newOrder(ctx context.Context) {
	c.change(ctx, 1, "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $w_id AND d_id = $d_id")
	c.row(ctx, "SELECT d_next_o_id - 1, d_tax, w_tax, c_discount, c_last, c_credit FROM district, warehouse, customer"+
		" WHERE d_w_id = $w_id AND d_id = $d_id AND w_id = d_w_id AND c_w_id = d_w_id AND c_d_id = d_id AND c_id = $c_id", "o_id")
	c.prices(ctx)
	supplied, outcome := map[int64][]*tpccLine{}, []string{factOrder}
	for i, l := range c.lines {
		if l.cents >= 0 {
			supplied[l.supply] = append(supplied[l.supply], l)
		} else if outcome = []string{factRolledBack}; i < len(c.lines)-1 {
			outcome = append(outcome, factEarly)
		}
	}
	for _, supply := range slices.Sorted(maps.Keys(supplied)) { // sorted, so that no two orders wait for each other
		c.take(ctx, supply, supplied[supply])
	}
	var values []string
	for i, l := range c.lines {
		if l.cents >= 0 {
			values = append(values, fmt.Sprintf("($o_id, $d_id, $w_id, %d, %d, %d, NULL, %d, %s, '%s')",
				i+1, l.item, l.supply, l.quantity, decimal(l.cents*l.quantity, 2), l.dist))
		}
	}
	c.v["ol_cnt"], c.v["all_local"] = digits(len(c.lines)), pick(len(supplied) == 1 && supplied[c.home] != nil, "1", "0")
	c.change(ctx, 1, "INSERT INTO orders VALUES ($o_id, $d_id, $w_id, $c_id, $now, NULL, $ol_cnt, $all_local)")
	c.change(ctx, 1, "INSERT INTO new_order VALUES ($o_id, $d_id, $w_id)")
	c.change(ctx, len(values), "INSERT INTO order_line VALUES "+strings.Join(values, ", "))
	c.facts = append(c.facts, outcome...)
}

// ask runs query q, in which $items stands for the items of lines. The first value of each row that
// q returns is an item: ask calls note with this item's line and the second value.
func (c *tpccTerminal) ask(ctx context.Context, lines []*tpccLine, q string, note func(l *tpccLine, value string)) {
	var ids []string
	of := map[string]*tpccLine{}
	for _, l := range lines {
		ids = append(ids, digits(l.item))
		of[ids[len(ids)-1]] = l
	}
	c.v["items"] = strings.Join(ids, ", ")
	for _, r := range c.rows(ctx, q) {
		if l := of[r[0]]; l != nil {
			note(l, r[1])
		}
	}
}

// prices reads the prices of an order's items.
func (c *tpccTerminal) prices(ctx context.Context) {
	for _, l := range c.lines {
		l.cents = -1
	}
	c.ask(ctx, c.lines, "SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id IN ($items)", func(l *tpccLine, value string) {
		price, _ := strconv.ParseFloat(value, 64) // no error: value is a decimal of the server
		l.cents = int64(math.Round(100 * price))
	})
}

// take subtracts the quantities of lines from the stock of the warehouse supply. It also reads into
// each line the stock's text for the order's district (S_DIST_xx).
func (c *tpccTerminal) take(ctx context.Context, supply int64, lines []*tpccLine) {
	quantity := []byte("CASE s_i_id")
	for _, l := range lines {
		quantity = fmt.Appendf(quantity, " WHEN %d THEN %d", l.item, l.quantity)
	}
	c.v["supply"], c.v["quantity"], c.v["remote"] = digits(supply), string(quantity)+" END", pick(supply == c.home, "0", "1")
	c.v["dist"] = "s_dist_" + pick(len(c.v["d_id"]) < 2, "0", "") + c.v["d_id"]
	c.ask(ctx, lines, "SELECT s_i_id, $dist, s_quantity, s_data FROM stock WHERE s_w_id = $supply AND s_i_id IN ($items)", func(l *tpccLine, value string) {
		l.dist = harmless(value)
	})
	c.change(ctx, len(lines), "UPDATE stock SET s_quantity = s_quantity - $quantity + CASE WHEN s_quantity - $quantity < 10 THEN 91 ELSE 0 END,"+
		" s_ytd = s_ytd + $quantity, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + $remote WHERE s_w_id = $supply AND s_i_id IN ($items)")
}

// theCustomer is the condition for the customer who was entered or found.
const theCustomer = " WHERE c_w_id = $c_w_id AND c_d_id = $c_d_id AND c_id = $c_id"

// find finds the customer. Among customers with the same last name, it takes the middle one in the
// order of first names (clause 2.5.2.2).
func (c *tpccTerminal) find(ctx context.Context) {
	if c.facts = append(c.facts, factNameable); c.v["c_last"] == "" {
		return
	}
	c.facts = append(c.facts, factNamed)
	rows := c.rows(ctx, "SELECT c_id FROM customer WHERE c_w_id = $c_w_id AND c_d_id = $c_d_id AND c_last = '$c_last' ORDER BY c_first")
	if len(rows) == 0 { // the next statement finds no such customer
		rows = [][]string{{"0"}}
	}
	c.v["c_id"] = rows[(len(rows)-1)/2][0]
}

// payment executes TPC-C's transaction Payment (clause 2.5.2). The warehouse's row is locked last,
// because all payments to the warehouse change it.
func (c *tpccTerminal) payment(ctx context.Context) {
	c.find(ctx)
	c.change(ctx, 1, "UPDATE customer SET c_balance = c_balance - $amount, c_ytd_payment = c_ytd_payment + $amount, c_payment_cnt = c_payment_cnt + 1"+theCustomer)
	c.row(ctx, "SELECT c_credit, c_data, w_name, d_name, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit_lim, c_discount, c_balance,"+
		" w_street_1, w_street_2, w_city, w_state, w_zip, d_street_1, d_street_2, d_city, d_state, d_zip FROM customer, warehouse, district"+
		theCustomer+" AND w_id = $w_id AND d_w_id = w_id AND d_id = $d_id", "credit", "data", "w_name", "d_name")
	if c.v["credit"] == "BC" {
		data := c.fill("$c_id $c_d_id $c_w_id $d_id $w_id $amount $data")
		c.v["data"] = data[:min(len(data), 500)]
		c.change(ctx, 1, "UPDATE customer SET c_data = '$data'"+theCustomer)
	}
	c.change(ctx, 1, "UPDATE district SET d_ytd = d_ytd + $amount WHERE d_w_id = $w_id AND d_id = $d_id")
	c.change(ctx, 1, "INSERT INTO history VALUES ($c_id, $c_d_id, $c_w_id, $d_id, $w_id, $now, $amount, '$w_name    $d_name')")
	c.change(ctx, 1, "UPDATE warehouse SET w_ytd = w_ytd + $amount WHERE w_id = $w_id")
}

// orderStatus is clause 2.6.2.
func (c *tpccTerminal) orderStatus(ctx context.Context) {
	c.find(ctx)
	c.row(ctx, "SELECT c_balance, c_first, c_middle, c_last FROM customer"+theCustomer)
	c.row(ctx, "SELECT o_id, o_ol_cnt, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = $w_id AND o_d_id = $d_id AND o_c_id = $c_id ORDER BY o_id DESC LIMIT 1", "o_id", "ol_cnt")
	lines := c.rows(ctx, "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = $w_id AND ol_d_id = $d_id AND ol_o_id = $o_id")
	if c.err == nil && digits(len(lines)) != c.v["ol_cnt"] {
		c.err = fmt.Errorf("%d lines were found, and o_ol_cnt of the order is %s: %s", len(lines), c.v["ol_cnt"], c.sent)
	}
}

// errOvertaken means that another delivery took an order, so that this delivery must be repeated.
var errOvertaken = errors.New("overtaken by another delivery")

// of returns the condition for orders or customers; each of rows is a district and a number in it.
func (c *tpccTerminal) of(prefix, column string, rows [][]string) string {
	var each []string
	for _, r := range rows {
		each = append(each, fmt.Sprintf("(%s_d_id = %s AND %s = %s)", prefix, r[0], column, r[1]))
	}
	return fmt.Sprintf(" WHERE %s_w_id = $w_id AND (%s)", prefix, strings.Join(each, " OR "))
}

// deliver is clause 2.7.4, for all districts in one transaction.
func (c *tpccTerminal) deliver(ctx context.Context) {
	oldest := c.rows(ctx, "SELECT no_d_id, MIN(no_o_id) FROM new_order WHERE no_w_id = $w_id GROUP BY no_d_id")
	c.facts = append(c.facts, slices.Repeat([]string{factSkipped}, districts-len(oldest))...)
	if len(oldest) == 0 {
		c.v["o_id"] = "0" // no order: the query kind.written finds nothing
		return
	}
	locked := 0
	if len(c.w.opt.Shards) > 0 { // Spider deletes the rows and reports that it deleted none (MariaDB 10.11)
		locked = len(c.rows(ctx, "SELECT no_o_id FROM new_order"+c.of("no", "no_o_id", oldest)+" FOR UPDATE"))
	}
	if taken := c.exec(ctx, "DELETE FROM new_order"+c.of("no", "no_o_id", oldest)); max(taken, locked) != len(oldest) && c.err == nil {
		c.err = engine.Classed(engine.ErrLockTimeout, errOvertaken)
	}
	customers := c.rows(ctx, "SELECT o_d_id, o_c_id FROM orders"+c.of("o", "o_id", oldest))
	c.change(ctx, len(oldest), "UPDATE orders SET o_carrier_id = $carrier"+c.of("o", "o_id", oldest))
	amounts := ""
	for _, r := range c.rows(ctx, "SELECT ol_d_id, SUM(ol_amount) FROM order_line"+c.of("ol", "ol_o_id", oldest)+" GROUP BY ol_d_id") {
		sum, _ := strconv.ParseFloat(r[1], 64) // no error: a decimal of the server
		amounts += fmt.Sprintf(" WHEN %s THEN %.2f", r[0], sum)
	}
	c.exec(ctx, "UPDATE order_line SET ol_delivery_d = $now"+c.of("ol", "ol_o_id", oldest))
	c.change(ctx, len(customers), "UPDATE customer SET c_balance = c_balance + CASE c_d_id"+amounts+" END, c_delivery_cnt = c_delivery_cnt + 1"+c.of("c", "c_id", customers))
	c.facts, c.v["d_id"], c.v["o_id"] = append(c.facts, factDelivered), oldest[0][0], oldest[0][1]
}

// stockLevel is clause 2.8.2.
func (c *tpccTerminal) stockLevel(ctx context.Context) {
	c.row(ctx, "SELECT d_next_o_id FROM district WHERE d_w_id = $w_id AND d_id = $d_id", "next")
	c.row(ctx, "SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = $w_id AND ol_d_id = $d_id AND ol_o_id < $next AND ol_o_id >= $next - 20"+
		" AND s_w_id = $w_id AND s_i_id = ol_i_id AND s_quantity < $threshold")
}

// Recover implements bench.Client.
func (c *tpccTerminal) Recover(ctx context.Context, failed error) error {
	own := []cause{{errOvertaken, "delivery overtaken"}}
	if c.asked != "" {
		own = append(own, cause{engine.ErrDeadlock, "write set refused at COMMIT"})
	}
	c.w.causes.add(failed, own...)
	return c.recover(ctx, failed)
}

// Close implements bench.Client.
func (c *tpccTerminal) Close() error {
	if c.asked != "" {
		c.w.mu.Lock()
		c.w.doubts = append(c.w.doubts, c)
		c.w.mu.Unlock()
	}
	return c.close()
}

// Causes returns how often transactions were begun again, by the error that ended them.
func (w *TPCC) Causes() map[string]int64 { return w.causes.of }
