package workload

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/result"
)

// A tpccKind is one of the transactions: its share in percent, and for how many seconds a user types before and thinks
// after it, by clauses 5.2.3 and 5.2.5.
type tpccKind struct {
	op            string
	share         int
	keying, think float64
}

var tpccKinds = []tpccKind{
	{result.NewOrder, 45, 18, 12}, {"payment", 43, 3, 12}, {"order-status", 4, 2, 10}, {"delivery", 4, 2, 5}, {"stock-level", 4, 2, 5},
}

// A tpccFact is something that terminals did and that was acknowledged: a transaction, or one of the facts below.
type tpccFact struct {
	what     string
	terminal int
}

const (
	factOrder      = "order"     // that was not rolled back
	factDelivered  = "delivered" // a delivery of at least one order
	factSkipped    = "skipped"   // a district without an order to deliver
	factNamed      = "named"     // the customer was found by name
	factNameable   = "nameable"  // by name or by number
	factRolledBack = "rolled back"
	factEarly      = "early" // rolled back for an item that was not the last
)

// A deck deals numbers in a random order, each as often as it is in the deck, and then again.
type deck struct {
	shares []int // of number i
	left   []int
}

func percent(n int) deck { return deck{shares: []int{100 - n, n}} }

func (k *deck) deal(d *draws) int {
	if len(k.left) == 0 {
		var all []int
		for i, n := range k.shares {
			all = append(all, slices.Repeat([]int{i}, n)...)
		}
		for _, at := range shuffled(int64(len(all)), d) {
			k.left = append(k.left, all[at])
		}
	}
	last := len(k.left) - 1
	out := k.left[last]
	k.left = k.left[:last]
	return out
}

// A tpccInput is what a user enters.
type tpccInput struct {
	kind                  tpccKind
	warehouse, district   int64
	customer              int64
	name                  string // of the customer, instead of the number; "" if the number is known
	cWarehouse, cDistrict int64
	amount                string
	carrier, threshold    int64
	lines                 []tpccLine
}

type tpccLine struct{ item, supply, quantity int64 } // supply is a warehouse

// A tpccTerminal is one connection. On an engine that stores nothing it does all but send.
type tpccTerminal struct {
	w              *TPCC
	s              *engine.Session
	n              int   // from 0
	home, district int64 // its warehouse, and the district of its stock levels
	d              draws
	in             tpccInput
	think          float64 // seconds, about the last transaction
	began          time.Time
	at             int64 // the date of the transaction
	facts          []string
	asked          *tpccDoubt // a commit that was sent and not answered
	ctx            context.Context
	err            error // of the transaction: its other statements are not sent

	mix, sizes, rollback, byName, remotePay, remoteLine deck
	away                                                [2]deck // the other warehouses, of payments and of lines
}

// A tpccDoubt is a transaction whose commit was not answered. It is done if the query's value is its date.
type tpccDoubt struct {
	query string
	at    int64
	facts []string
	n     int
}

func (b *tpccDoubt) done(ctx context.Context, s *engine.Session) (done bool, err error) {
	err = s.Text(ctx, b.query, nil, func(values [][]byte) error {
		done = string(values[0]) == digits(b.at)
		return nil
	})
	return done, err
}

// Client implements bench.Workload. A terminal's home doesn't change.
func (w *TPCC) Client(ctx context.Context, n int) (_ bench.Client, err error) {
	c := &tpccTerminal{w: w, n: n, home: int64(n%w.opt.Warehouses) + 1, district: int64(n/w.opt.Warehouses%districts) + 1, d: newStream(w.opt.Seed, n+len(tpccTables)+1).row(0),
		rollback: percent(1), byName: percent(60), remotePay: percent(15), remoteLine: percent(1), sizes: deck{shares: slices.Concat(make([]int, 5), slices.Repeat([]int{1}, 11))}}
	for _, k := range tpccKinds {
		c.mix.shares = append(c.mix.shares, k.share)
	}
	for i := range c.away {
		c.away[i].shares = slices.Repeat([]int{1}, w.opt.Warehouses)
		c.away[i].shares[c.home-1] = 0
	}
	if w.db.Capabilities().Stores {
		c.s, err = c.session(ctx, nil)
	}
	return c, err
}

// session opens one on the terminal's member.
func (c *tpccTerminal) session(ctx context.Context, st engine.State) (*engine.Session, error) {
	return c.w.opt.Members[c.n%len(c.w.opt.Members)].(engine.Reader).ReadSession(ctx, st)
}

// Background implements bench.Workload.
func (w *TPCC) Background(context.Context, func(what, object string, began time.Time)) error {
	return nil
}

// Crashed is called when the server was killed; a terminal whose commit was not answered looks for it.
func (w *TPCC) Crashed(time.Time) {}

func (c *tpccTerminal) between(least, most int64) int64 {
	return least + c.d.below(uint64(most-least+1))
}

// Prepare implements bench.Client: it deals the transaction and what the user enters (clauses 2.4.1 to 2.8.1).
func (c *tpccTerminal) Prepare(int) {
	w, several := c.w, c.w.opt.Warehouses > 1
	in := tpccInput{kind: tpccKinds[c.mix.deal(&c.d)], warehouse: c.home, cWarehouse: c.home, district: c.between(1, districts)}
	in.cDistrict, in.customer = in.district, nuRand(&c.d, 1023, w.customerC, 1, w.customers)
	switch in.kind.op {
	case result.NewOrder:
		for n := c.sizes.deal(&c.d); len(in.lines) < n; {
			line := tpccLine{nuRand(&c.d, 8191, w.itemC, 1, w.items), c.home, c.between(1, 10)}
			if slices.ContainsFunc(in.lines, func(l tpccLine) bool { return l.item == line.item }) {
				continue
			}
			if c.remoteLine.deal(&c.d) == 1 && several {
				line.supply = 1 + int64(c.away[1].deal(&c.d))
			}
			in.lines = append(in.lines, line)
		}
		if c.rollback.deal(&c.d) == 1 {
			in.lines[len(in.lines)-1].item = w.items + 1 // which no item has
		}
	case "payment":
		in.amount = decimal(c.between(100, 500_000), 2)
		if c.remotePay.deal(&c.d) == 1 && several {
			in.cWarehouse, in.cDistrict = 1+int64(c.away[0].deal(&c.d)), c.between(1, districts)
		}
	case "delivery":
		in.carrier = c.between(1, 10)
	case "stock-level":
		in.district, in.threshold = c.district, c.between(10, 20)
	}
	if (in.kind.op == "payment" || in.kind.op == "order-status") && c.byName.deal(&c.d) == 1 {
		in.name = lastName(nuRand(&c.d, 255, w.nameRun, 0, min(w.customers, 1000)-1))
	}
	c.in, c.began = in, time.Time{}
	if w.change != nil {
		w.change(c)
	}
}

// Await implements bench.Waiter: the user thinks about the last answer, and types.
func (c *tpccTerminal) Await(ctx context.Context) error {
	if !c.w.opt.Keying {
		return nil
	}
	wait := c.think + c.in.kind.keying
	c.think = min(-math.Log(max(c.d.float(), 1e-9)), 10) * c.in.kind.think
	return engine.Sleep(ctx, time.Duration(wait*float64(time.Second)))
}

// Do implements bench.Client.
func (c *tpccTerminal) Do(ctx context.Context) error {
	if c.began.IsZero() {
		c.began = time.Now()
	}
	if c.asked != nil {
		s, err := c.session(ctx, c.w.opt.Causal)
		if err != nil {
			return err
		}
		done, err := c.asked.done(ctx, s)
		if err := errors.Join(err, s.Close()); err != nil {
			return err
		}
		if done {
			c.facts = c.asked.facts
			c.acknowledged()
			return nil
		}
	}
	terminals := int64(c.w.opt.Terminals)
	c.at = max(time.Now().UnixMicro()/terminals*terminals+int64(c.n), c.at+terminals)
	c.ctx, c.err, c.asked, c.facts = ctx, nil, nil, []string{c.in.kind.op}
	switch c.in.kind.op {
	case result.NewOrder:
		c.newOrder()
	case "payment":
		c.payment()
	case "order-status":
		c.orderStatus()
	case "delivery":
		c.deliver()
	case "stock-level":
		c.stockLevel()
	}
	if c.err == nil {
		c.acknowledged()
	}
	return c.err
}

// acknowledged counts the transaction.
func (c *tpccTerminal) acknowledged() {
	c.asked = nil
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.count(c.n, c.facts)
	c.w.Took(c.in.kind.op, time.Since(c.began))
}

func (w *TPCC) count(terminal int, facts []string) {
	for _, f := range facts {
		w.tally[tpccFact{f, terminal}]++
	}
}

// exec runs a statement, and returns how many rows it changed. On an engine that stores nothing these are as many as wanted.
func (c *tpccTerminal) exec(want int, format string, args ...any) int64 {
	q := c.statement(format, args)
	if c.err != nil || c.s == nil {
		return int64(want)
	}
	var n int64
	n, c.err = c.s.Exec(c.ctx, q)
	return n
}

func (c *tpccTerminal) statement(format string, args []any) string {
	q := fmt.Sprintf(format, args...)
	if c.w.rewrite != nil && c.err == nil {
		q = c.w.rewrite(c, q)
	}
	return q
}

// change runs a statement that changes a known number of rows.
func (c *tpccTerminal) change(want int, format string, args ...any) {
	if n := c.exec(want, format, args...); n != int64(want) && c.err == nil {
		c.err = fmt.Errorf("%d rows were changed, want %d: %s", n, want, fmt.Sprintf(format, args...))
	}
}

// rows returns the rows of a query. On an engine that stores nothing there is one, of ones.
func (c *tpccTerminal) rows(format string, args ...any) (out [][]string) {
	q := c.statement(format, args)
	if c.s == nil {
		return [][]string{{"1", "1", "1", "1"}}
	}
	if c.err == nil {
		c.err = c.s.Text(c.ctx, q, nil, func(values [][]byte) error {
			row := make([]string, len(values))
			for i, v := range values {
				row[i] = string(v)
			}
			out = append(out, row)
			return nil
		})
	}
	return out
}

// row returns the only row of a query; after an error, one of empty texts.
func (c *tpccTerminal) row(format string, args ...any) []string {
	rows := c.rows(format, args...)
	if len(rows) != 1 && c.err == nil {
		c.err = fmt.Errorf("%d rows were found, want one: %s", len(rows), fmt.Sprintf(format, args...))
	}
	if c.err != nil {
		return make([]string, 4)
	}
	return rows[0]
}

// commit ends a transaction that has written a row whose date the query reads.
func (c *tpccTerminal) commit(query string, args ...any) {
	if c.err == nil && c.s != nil {
		c.asked = &tpccDoubt{fmt.Sprintf(query, args...), c.at, c.facts, c.n}
	}
	c.exec(0, "COMMIT")
}

// newOrder is clause 2.4.2. The unknown item of one order in a hundred is missed when all others were served.
func (c *tpccTerminal) newOrder() {
	in := &c.in
	c.exec(0, "%s", c.w.begin)
	c.change(1, "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = %d AND d_id = %d", in.warehouse, in.district)
	order := c.row("SELECT d_next_o_id - 1, d_tax, w_tax, c_discount, c_last, c_credit FROM district, warehouse, customer"+
		" WHERE d_w_id = %d AND d_id = %d AND w_id = d_w_id AND c_w_id = d_w_id AND c_d_id = d_id AND c_id = %d", in.warehouse, in.district, in.customer)[0]
	var ids, values []string
	var supplies []int64
	for _, l := range in.lines {
		ids, supplies = append(ids, digits(l.item)), append(supplies, l.supply)
	}
	prices, dist := map[string]float64{}, map[string]string{}
	for _, r := range c.rows("SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id IN (%s)", strings.Join(ids, ", ")) {
		prices[r[0]], _ = strconv.ParseFloat(r[1], 64) // of digits
	}
	unknown := -1
	known := make([]bool, len(in.lines))
	for i, l := range in.lines {
		if _, known[i] = prices[ids[i]]; c.s == nil {
			known[i] = l.item <= c.w.items
		}
		if !known[i] {
			unknown = i
		}
	}
	slices.Sort(supplies) // so that no two orders wait for each other
	supplies = slices.Compact(supplies)
	for _, supply := range supplies {
		c.take(supply, known, dist)
	}
	for i, l := range in.lines {
		if known[i] {
			amount := decimal(int64(math.Round(100*prices[ids[i]]))*l.quantity, 2)
			values = append(values, fmt.Sprintf("(%s, %d, %d, %d, %d, %d, NULL, %d, %s, '%s')", order, in.district, in.warehouse, i+1, l.item, l.supply, l.quantity, amount, harmless(dist[ids[i]])))
		}
	}
	local := pick(len(supplies) == 1 && supplies[0] == in.warehouse, 1, 0)
	c.change(1, "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_carrier_id, o_ol_cnt, o_all_local) VALUES (%s, %d, %d, %d, %d, NULL, %d, %d)",
		order, in.district, in.warehouse, in.customer, c.at, len(in.lines), local)
	c.change(1, "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (%s, %d, %d)", order, in.district, in.warehouse)
	c.change(len(values), "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_delivery_d, ol_quantity, ol_amount, ol_dist_info) VALUES %s", strings.Join(values, ", "))
	if unknown < 0 {
		c.facts = append(c.facts, factOrder)
		c.commit("SELECT o_entry_d FROM orders WHERE o_w_id = %d AND o_d_id = %d AND o_id = %s", in.warehouse, in.district, order)
		return
	}
	c.exec(0, "ROLLBACK")
	if c.facts = append(c.facts, factRolledBack); unknown < len(in.lines)-1 {
		c.facts = append(c.facts, factEarly)
	}
}

// take serves the lines with a known item that a warehouse supplies, and notes what its stock says of the district.
func (c *tpccTerminal) take(supply int64, known []bool, dist map[string]string) {
	var ids []string
	var cases strings.Builder
	for i, l := range c.in.lines {
		if known[i] && l.supply == supply {
			ids = append(ids, digits(l.item))
			fmt.Fprintf(&cases, " WHEN %d THEN %d", l.item, l.quantity)
		}
	}
	if len(ids) == 0 {
		return
	}
	quantity, where := "CASE s_i_id"+cases.String()+" END", fmt.Sprintf("WHERE s_w_id = %d AND s_i_id IN (%s)", supply, strings.Join(ids, ", "))
	c.change(len(ids), "UPDATE stock SET s_quantity = s_quantity - %[1]s + CASE WHEN s_quantity - %[1]s < 10 THEN 91 ELSE 0 END, s_ytd = s_ytd + %[1]s, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + %[2]d %[3]s",
		quantity, pick(supply == c.in.warehouse, 0, 1), where)
	for _, r := range c.rows("SELECT s_i_id, s_dist_%02d, s_quantity, s_data FROM stock %s", c.in.district, where) {
		dist[r[0]] = r[1]
	}
}

// harmless is text within quotes, in which no character has a meaning: the tables have no others, but for a foreign hand.
func harmless(text string) string { return strings.NewReplacer("'", "-", `\`, "-").Replace(text) }

// find looks for the customer: by name it is the one in the middle, by first name (clause 2.5.2.2).
func (c *tpccTerminal) find() {
	if c.facts = append(c.facts, factNameable); c.in.name == "" {
		return
	}
	c.facts = append(c.facts, factNamed)
	rows := c.rows("SELECT c_id FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_last = '%s' ORDER BY c_first", c.in.cWarehouse, c.in.cDistrict, c.in.name)
	if len(rows) > 0 {
		c.in.customer, _ = strconv.ParseInt(rows[(len(rows)-1)/2][0], 10, 64)
	} else if c.err == nil {
		c.err = fmt.Errorf("no customer of district %d of warehouse %d has the name %s", c.in.cDistrict, c.in.cWarehouse, c.in.name)
	}
}

// payment is clause 2.5.2. The warehouse, which all payments to it change, is locked last.
func (c *tpccTerminal) payment() {
	in := &c.in
	c.exec(0, "%s", c.w.begin)
	c.find()
	customer := fmt.Sprintf("WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", in.cWarehouse, in.cDistrict, in.customer)
	c.change(1, "UPDATE customer SET c_balance = c_balance - %[1]s, c_ytd_payment = c_ytd_payment + %[1]s, c_payment_cnt = c_payment_cnt + 1 %[2]s", in.amount, customer)
	is := c.row("SELECT c_credit, c_data, w_name, d_name, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since, c_credit_lim, c_discount, c_balance,"+
		" w_street_1, w_street_2, w_city, w_state, w_zip, d_street_1, d_street_2, d_city, d_state, d_zip FROM customer, warehouse, district %s AND w_id = %d AND d_w_id = w_id AND d_id = %d", customer, in.warehouse, in.district)
	if is[0] == "BC" {
		data := fmt.Sprintf("%d %d %d %d %d %s %s", in.customer, in.cDistrict, in.cWarehouse, in.district, in.warehouse, in.amount, harmless(is[1]))
		c.change(1, "UPDATE customer SET c_data = '%s' %s", data[:min(len(data), 500)], customer)
	}
	c.change(1, "UPDATE district SET d_ytd = d_ytd + %s WHERE d_w_id = %d AND d_id = %d", in.amount, in.warehouse, in.district)
	c.change(1, "INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data) VALUES (%d, %d, %d, %d, %d, %d, %s, '%s')",
		in.customer, in.cDistrict, in.cWarehouse, in.district, in.warehouse, c.at, in.amount, harmless(is[2]+"    "+is[3]))
	c.change(1, "UPDATE warehouse SET w_ytd = w_ytd + %s WHERE w_id = %d", in.amount, in.warehouse)
	c.commit("SELECT h_date FROM history WHERE h_w_id = %d AND h_date = %d", in.warehouse, c.at)
}

// orderStatus is clause 2.6.2.
func (c *tpccTerminal) orderStatus() {
	in := &c.in
	c.exec(0, "BEGIN")
	c.find()
	c.row("SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = %d AND c_d_id = %d AND c_id = %d", in.warehouse, in.district, in.customer)
	order := c.row("SELECT o_id, o_ol_cnt, o_entry_d, o_carrier_id FROM orders WHERE o_w_id = %d AND o_d_id = %d AND o_c_id = %d ORDER BY o_id DESC LIMIT 1", in.warehouse, in.district, in.customer)
	lines := c.rows("SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id = %s", in.warehouse, in.district, order[0])
	if c.err == nil && digits(len(lines)) != order[1] {
		c.err = fmt.Errorf("order %s of district %d of warehouse %d has %d lines, and its o_ol_cnt is %s", order[0], in.district, in.warehouse, len(lines), order[1])
	}
	c.exec(0, "COMMIT")
}

// errOvertaken means that another delivery took an order, and that this one is to begin again.
var errOvertaken = errors.New("overtaken by another delivery")

// deliver is clause 2.7.4, for all districts in one transaction.
func (c *tpccTerminal) deliver() {
	in := &c.in
	c.exec(0, "%s", c.w.begin)
	oldest := c.rows("SELECT no_d_id, MIN(no_o_id) FROM new_order WHERE no_w_id = %d GROUP BY no_d_id", in.warehouse)
	c.facts = append(c.facts, slices.Repeat([]string{factSkipped}, districts-len(oldest))...)
	if len(oldest) == 0 {
		c.exec(0, "COMMIT")
		return
	}
	where := func(prefix, column string, rows [][]string) string {
		var each []string
		for _, r := range rows {
			each = append(each, fmt.Sprintf("(%s_d_id = %s AND %s = %s)", prefix, r[0], column, r[1]))
		}
		return fmt.Sprintf("WHERE %s_w_id = %d AND (%s)", prefix, in.warehouse, strings.Join(each, " OR "))
	}
	var locked int64
	if len(c.w.opt.Shards) > 0 { // Spider deletes rows and says that they were none (MariaDB 10.11)
		locked = int64(len(c.rows("SELECT no_o_id FROM new_order %s FOR UPDATE", where("no", "no_o_id", oldest))))
	}
	if taken := c.exec(len(oldest), "DELETE FROM new_order %s", where("no", "no_o_id", oldest)); max(taken, locked) != int64(len(oldest)) && c.err == nil {
		c.err = engine.Classed(engine.ErrLockTimeout, errOvertaken)
	}
	customers := c.rows("SELECT o_d_id, o_c_id FROM orders %s", where("o", "o_id", oldest))
	c.change(len(oldest), "UPDATE orders SET o_carrier_id = %d %s", in.carrier, where("o", "o_id", oldest))
	var amounts strings.Builder
	for _, r := range c.rows("SELECT ol_d_id, SUM(ol_amount) FROM order_line %s GROUP BY ol_d_id", where("ol", "ol_o_id", oldest)) {
		sum, _ := strconv.ParseFloat(r[1], 64) // of digits
		fmt.Fprintf(&amounts, " WHEN %s THEN %.2f", r[0], sum)
	}
	c.exec(0, "UPDATE order_line SET ol_delivery_d = %d %s", c.at, where("ol", "ol_o_id", oldest))
	c.change(len(customers), "UPDATE customer SET c_balance = c_balance + CASE c_d_id%s END, c_delivery_cnt = c_delivery_cnt + 1 %s", amounts.String(), where("c", "c_id", customers))
	c.facts = append(c.facts, factDelivered)
	c.commit("SELECT ol_delivery_d FROM order_line WHERE ol_w_id = %d AND ol_d_id = %s AND ol_o_id = %s AND ol_number = 1", in.warehouse, oldest[0][0], oldest[0][1])
}

// stockLevel is clause 2.8.2.
func (c *tpccTerminal) stockLevel() {
	in := &c.in
	c.exec(0, "BEGIN")
	next := c.row("SELECT d_next_o_id FROM district WHERE d_w_id = %d AND d_id = %d", in.warehouse, in.district)[0]
	c.row("SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = %d AND ol_d_id = %d AND ol_o_id < %s AND ol_o_id >= %s - 20 AND s_w_id = %d AND s_i_id = ol_i_id AND s_quantity < %d",
		in.warehouse, in.district, next, next, in.warehouse, in.threshold)
	c.exec(0, "COMMIT")
}

// tpccCauses are why a transaction is begun again.
var tpccCauses = []retryCause{
	{errOvertaken, false, "delivery overtaken"}, {engine.ErrDeadlock, true, "write set refused at COMMIT"}, {engine.ErrDeadlock, false, "deadlock"},
	{engine.ErrLockTimeout, false, "lock timeout"}, {engine.ErrConnectionLost, false, "lost connection"},
}

// Recover implements bench.Client.
func (c *tpccTerminal) Recover(ctx context.Context, failed error) (err error) {
	c.w.mu.Lock()
	countCause(c.w.causes, tpccCauses, failed, c.asked != nil)
	c.w.mu.Unlock()
	if !errors.Is(failed, engine.ErrConnectionLost) {
		c.asked = nil // it was answered: it did not commit
	}
	c.s, err = renewed(ctx, c.s, failed, func(ctx context.Context) (*engine.Session, error) { return c.session(ctx, nil) })
	return err
}

// Close implements bench.Client.
func (c *tpccTerminal) Close() error {
	if c.asked != nil {
		c.w.mu.Lock()
		c.w.doubts = append(c.w.doubts, c.asked)
		c.w.mu.Unlock()
	}
	if c.s == nil {
		return nil
	}
	return c.s.Close()
}

// Causes returns how often transactions were begun again, by the error that ended them.
func (w *TPCC) Causes() map[string]int64 { return w.causes }
