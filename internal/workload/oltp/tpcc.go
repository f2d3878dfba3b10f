package oltp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/workload"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/rolling"
)

// Limits of a TPCC.
const (
	MaxWarehouses = 10_000
	MaxTerminals  = 1000
	minTPCCScale  = 0.005
	districts     = 10 // of a warehouse
	// loadDate is the date of the first row; a run's dates are later than those of all loaded rows.
	loadDate = int64(1_500_000_000_000_000)
	// loadBatch is the number of rows per statement of the load. With so many rows, the cost of the
	// statement itself doesn't matter.
	loadBatch = 5000
)

// TPCCOptions are the parameters of a TPCC.
type TPCCOptions struct {
	Warehouses, Terminals int
	Seed                  uint64
	// Keying makes terminals wait as TPC-C's users do, who type and think.
	Keying bool
	// Scale is the share of a warehouse's rows that are loaded, for tests; 0 is all of them.
	Scale float64
	// Members are the nodes of a cluster, in which each node takes all statements; terminals are
	// divided among them. Without members, the database takes all statements. A session with the
	// settings Causal waits until its member has the commits of all other members.
	Members []engine.DB
	Causal  engine.State
	// Shards are the nodes among which the warehouses are divided; the database presents them as one.
	Shards []engine.DB
}

// A TPCC is TPC-C's schema, its rows and its five transactions. Its figures are no TPC-C results,
// which take an audit and have rules for response times and prices.
//
// A date is a number of microseconds since 1970. Its remainder after division by the number of
// terminals is the number of the terminal that wrote it. So a row shows its writer, and a
// transaction whose commit was not answered can be found.
type TPCC struct {
	db     engine.DB
	opt    TPCCOptions
	tables []*tpccTable
	// items is the number of items. customers is the number of customers in each district. After the
	// load, each customer has one order; undelivered is how many of a district's orders are not
	// delivered yet.
	items, customers, undelivered int64
	// The constants C of NURand; those of names differ between load and run (clause 2.1.6.1).
	nameLoad, nameRun, customerC, itemC int64
	begin                               string
	// Took is called with the time of each transaction, from the first try to the answer.
	Took func(op string, d time.Duration)

	head *engine.Head // of a table on Shards

	mu     sync.Mutex
	tally  map[tpccFact]int64
	doubts []*tpccTerminal // terminals that ended with a commit that was not answered
	causes causes

	// change and rewrite make faults, in tests of the proof.
	change  func(c *tpccTerminal)
	rewrite func(c *tpccTerminal, statement string) string
}

// tpccTables are the tables of clause 1.3 with columns, primary key and index. Each column has a
// name, a type and a rule by which clause 4.3.3 fills it, e.g. "i_price n5.2 100..10000". Types: i
// and d are integers of 32 and 64 bits, v and c texts, n decimals; with ? the column may be NULL.
// Rules: A..B is a random number of units, or a random text with that number of characters; A means
// A..A; a word is the name of a rule in tpccNumbers or tpccTexts.
var tpccTables = []struct{ name, columns, key, index string }{
	{"item", "i_id i n, i_im_id i 1..10000, i_name v24 14..24, i_price n5.2 100..10000, i_data v50 data", "i_id", ""},
	{"warehouse", "w_id i w, w_name v10 6..10, " + tpccAddress("w") + ", w_tax n4.4 0..2000, w_ytd n12.2 wytd", "w_id", ""},
	{"district", "d_id i d, d_w_id i w, d_name v10 6..10, " + tpccAddress("d") + ", d_tax n4.4 0..2000, d_ytd n12.2 dytd, d_next_o_id i next", "d_w_id, d_id", ""},
	{"customer", "c_id i n, c_d_id i d, c_w_id i w, c_first v16 8..16, c_middle c2 middle, c_last v16 name, " + tpccAddress("c") + ", c_phone c16 phone, " +
		"c_since d date, c_credit c2 credit, c_credit_lim n12.2 5000000, c_discount n4.4 0..5000, c_balance n12.2 -1000, c_ytd_payment n12.2 1000, " +
		"c_payment_cnt i 1, c_delivery_cnt i 0, c_data v500 300..500", "c_w_id, c_d_id, c_id", "c_w_id, c_d_id, c_last, c_first"},
	{"history", "h_c_id i n, h_c_d_id i d, h_c_w_id i w, h_d_id i d, h_w_id i w, h_date d date, h_amount n6.2 1000, h_data v24 12..24", "h_w_id, h_date", ""},
	{"orders", "o_id i n, o_d_id i d, o_w_id i w, o_c_id i customer, o_entry_d d date, o_carrier_id i? carrier, o_ol_cnt i lines, o_all_local i 1",
		"o_w_id, o_d_id, o_id", "o_w_id, o_d_id, o_c_id, o_id"},
	{"new_order", "no_o_id i n, no_d_id i d, no_w_id i w", "no_w_id, no_d_id, no_o_id", ""},
	{"order_line", "ol_o_id i n, ol_d_id i d, ol_w_id i w, ol_number i line, ol_i_id i item, ol_supply_w_id i w, ol_delivery_d d? delivery, " +
		"ol_quantity i 5, ol_amount n6.2 amount, ol_dist_info c24 24..24", "ol_w_id, ol_d_id, ol_o_id, ol_number", ""},
	{"stock", "s_i_id i n, s_w_id i w, s_quantity i 10..100, s_dist_01 c24 24..24, s_dist_02 c24 24..24, s_dist_03 c24 24..24, s_dist_04 c24 24..24, " +
		"s_dist_05 c24 24..24, s_dist_06 c24 24..24, s_dist_07 c24 24..24, s_dist_08 c24 24..24, s_dist_09 c24 24..24, s_dist_10 c24 24..24, " +
		"s_ytd i 0, s_order_cnt i 0, s_remote_cnt i 0, s_data v50 data", "s_w_id, s_i_id", ""},
}

func tpccAddress(of string) string {
	return strings.ReplaceAll("@street_1 v20 10..20, @street_2 v20 10..20, @city v20 10..20, @state c2 2..2, @zip c9 zip", "@", of+"_")
}

// NewTPCC checks the options. It does not access the database.
func NewTPCC(db engine.DB, opt TPCCOptions) (*TPCC, error) {
	opt.Scale = cmp.Or(opt.Scale, 1)
	switch {
	case opt.Warehouses < 1 || opt.Warehouses > MaxWarehouses:
		return nil, fmt.Errorf("%d warehouses: want 1 to %d", opt.Warehouses, MaxWarehouses)
	case opt.Terminals < 1 || opt.Terminals > MaxTerminals:
		return nil, fmt.Errorf("%d terminals: want 1 to %d", opt.Terminals, MaxTerminals)
	case !(opt.Scale >= minTPCCScale && opt.Scale <= 1):
		return nil, fmt.Errorf("scale %v: want %v to 1", opt.Scale, minTPCCScale)
	case !db.Capabilities().Stores:
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("%s stores nothing, and transactions need their rows", db.Info().Engine))
	}
	w := &TPCC{db: db, opt: opt, begin: "BEGIN", items: int64(100_000 * opt.Scale), customers: int64(3000 * opt.Scale),
		Took: func(string, time.Duration) {}, tally: map[tpccFact]int64{}}
	w.undelivered = w.customers * 3 / 10
	if len(opt.Members) == 0 {
		w.opt.Members = []engine.DB{db}
	}
	if db.Capabilities().SerialWrites {
		w.begin = "BEGIN IMMEDIATE" // a transaction that first reads would fail if another has written in between
	}
	c := draw.NewStream(opt.Seed, -1).Row(0)
	w.nameLoad, w.customerC, w.itemC = c.Below(256), c.Below(1024), c.Below(8192)
	for delta := int64(0); delta < 65 || delta > 119 || delta == 96 || delta == 112; {
		w.nameRun = c.Below(256)
		delta = max(w.nameRun-w.nameLoad, w.nameLoad-w.nameRun)
	}
	for i, of := range tpccTables {
		t := &tpccTable{Table: engine.Table{Name: of.name, PrimaryKey: strings.Split(of.key, ", ")}, stream: draw.NewStream(opt.Seed, i)}
		for text := range strings.SplitSeq(of.columns, ", ") {
			column, fill := tpccColumn(text)
			t.Columns, t.fill = append(t.Columns, column), append(t.fill, fill)
		}
		if of.index != "" {
			t.Indexes = []engine.Index{{Name: of.name + "_by", Columns: strings.Split(of.index, ", ")}}
		}
		w.tables = append(w.tables, t)
	}
	return w, nil
}

// Deviations lists the differences from TPC-C.
func (w *TPCC) Deviations() []string {
	out := []string{
		"TPC-C-like, not audited: the rules of TPC-C for response times, the length of a run, isolation and prices are not applied; isolation is the server's default",
		"dates are integers, microseconds since 1970; modulo the number of terminals they are that of the terminal",
		"history has a primary key, (h_w_id, h_date); there are no foreign keys",
		"the items of an order differ; a statement serves all its lines, or all that come from one warehouse",
		"terminals wait for their deliveries, which are not queued",
		"transactions, rollbacks, remote warehouses and customers by name are dealt from shuffled decks, one of each for a terminal, so that their shares hold in short runs, too",
	}
	if w.opt.Scale != 1 {
		out = append(out, fmt.Sprintf("a test: warehouses have %g of the rows of TPC-C's", w.opt.Scale))
	}
	return out
}

// Tables returns the tables.
func (w *TPCC) Tables() []*engine.Table { return plain(w.tables) }

// A tpccTable is a table with its random stream and, for each column, the function that fills it.
type tpccTable struct {
	engine.Table
	stream draw.Stream
	fill   []tpccFiller
}

func plain(tables []*tpccTable) (out []*engine.Table) {
	for _, t := range tables {
		out = append(out, &t.Table)
	}
	return out
}

// A tpccRow is the input of the functions that fill the columns of a row.
type tpccRow struct {
	of      *TPCC
	d       draw.Values
	u       int64 // the number of the row, or of a line's order, among those of all warehouses
	w, dist int64
	n       int64 // within the district, or of an item
	line    int64
}

func (r *tpccRow) delivered() bool { return r.n <= r.of.customers-r.of.undelivered }

// lines returns the number of lines of the order.
func (r *tpccRow) lines() int64 {
	d := draw.NewStream(r.of.opt.Seed, len(tpccTables)).Row(r.u)
	return d.Between(5, 15)
}

// customer returns the customer of the order; each customer of the district has one order.
func (r *tpccRow) customer() int64 {
	key := draw.NewStream(r.of.opt.Seed, len(tpccTables)).Row(-r.w*districts - r.dist)
	return 1 + int64(draw.Shuffled(uint64(r.n-1), uint64(r.of.customers), uint64(key)))
}

// tpccNumbers has the rules that compute a numeric value. A decimal is in units of its last digit;
// -1 is NULL in a column that may be NULL. Rule w returns the number of the warehouse, d that of
// the district, and n that of the row in its district; in tables item and stock, n is the item's
// number.
var tpccNumbers = map[string]func(r *tpccRow) int64{
	"w":        func(r *tpccRow) int64 { return r.w },
	"d":        func(r *tpccRow) int64 { return r.dist },
	"n":        func(r *tpccRow) int64 { return r.n },
	"line":     func(r *tpccRow) int64 { return r.line },
	"lines":    (*tpccRow).lines,
	"item":     func(r *tpccRow) int64 { return r.d.Between(1, r.of.items) },
	"customer": (*tpccRow).customer,
	"next":     func(r *tpccRow) int64 { return r.of.customers + 1 },
	"date":     func(r *tpccRow) int64 { return loadDate + r.u },
	"wytd":     func(r *tpccRow) int64 { return districts * r.of.customers * 1000 },
	"dytd":     func(r *tpccRow) int64 { return r.of.customers * 1000 },
	"carrier":  func(r *tpccRow) int64 { return pick(r.delivered(), r.d.Between(1, 10), -1) },
	"delivery": func(r *tpccRow) int64 { return pick(r.delivered(), loadDate+r.u, -1) },
	"amount":   func(r *tpccRow) int64 { return pick(r.delivered(), 0, r.d.Between(1, 999_999)) },
}

// tpccTexts append texts.
var tpccTexts = map[string]func(dst []byte, r *tpccRow) []byte{
	"zip":    func(dst []byte, r *tpccRow) []byte { return fmt.Appendf(dst, "%04d11111", r.d.Below(10_000)) },
	"phone":  func(dst []byte, r *tpccRow) []byte { return fmt.Appendf(dst, "%016d", r.d.Below(1e16)) },
	"middle": func(dst []byte, _ *tpccRow) []byte { return append(dst, "OE"...) },
	"credit": func(dst []byte, r *tpccRow) []byte { return append(dst, pick(r.d.Below(10) == 0, "BC", "GC")...) },
	"name": func(dst []byte, r *tpccRow) []byte {
		if r.n <= 1000 {
			return append(dst, lastName(r.n-1)...)
		}
		return append(dst, lastName(nuRand(&r.d, 255, r.of.nameLoad, 0, 999))...)
	},
	"data": func(dst []byte, r *tpccRow) []byte {
		text := draw.AppendLetters(dst, &r.d, int(r.d.Between(26, 50)))
		if r.d.Below(10) == 0 {
			copy(text[len(dst)+int(r.d.Below(19)):], "ORIGINAL")
		}
		return text
	},
}

// lastName is clause 4.3.2.3.
func lastName(n int64) string {
	syllables := [...]string{"BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"}
	return syllables[n/100%10] + syllables[n/10%10] + syllables[n%10]
}

// nuRand is clause 2.1.6.
func nuRand(d *draw.Values, a, c, x, y int64) int64 {
	return ((d.Between(0, a)|d.Between(x, y))+c)%(y-x+1) + x
}

// A tpccFiller appends a row's value of a column.
type tpccFiller func(v *engine.Vector, r *tpccRow)

// tpccColumn reads a column of tpccTables.
func tpccColumn(text string) (c engine.Column, _ tpccFiller) {
	f := strings.Fields(text)
	size, scale, _ := strings.Cut(f[1][1:], ".")
	c = engine.Column{Name: f[0], Null: size == "?"}
	c.Size, _ = strconv.Atoi(size)
	c.Scale, _ = strconv.Atoi(scale)
	c.Type = map[byte]engine.Type{'i': engine.Int32, 'd': engine.Int64, 'v': engine.Varchar, 'c': engine.Char, 'n': engine.Decimal}[f[1][0]]
	from, to, _ := strings.Cut(f[2], "..")
	least, _ := strconv.ParseInt(from, 10, 64)
	most, _ := strconv.ParseInt(cmp.Or(to, from), 10, 64)
	number, write := tpccNumbers[f[2]], tpccTexts[f[2]]
	if number == nil {
		number = func(r *tpccRow) int64 { return r.d.Between(least, most) }
	}
	if write == nil {
		write = func(dst []byte, r *tpccRow) []byte {
			return draw.AppendLetters(dst, &r.d, int(r.d.Between(least, most)))
		}
	}
	return c, func(v *engine.Vector, r *tpccRow) {
		if c.Type == engine.Varchar || c.Type == engine.Char {
			v.Bytes = write(v.Bytes, r)
			v.EndBytes()
		} else if n := number(r); c.Null && n < 0 {
			v.AppendNull()
		} else if c.Type == engine.Decimal {
			v.AppendBytes([]byte(decimal(n, c.Scale)))
		} else {
			v.Ints = append(v.Ints, n)
		}
	}
}

// Load creates the tables with their rows. It returns the statements that created the schema.
func (w *TPCC) Load(ctx context.Context, dropExisting bool, progress func(rows int64)) (schema []string, err error) {
	if schema, err = w.create(ctx, dropExisting); err != nil {
		return nil, err
	}
	all, ctx := errgroup.WithContext(ctx)
	if all.SetLimit(max(runtime.NumCPU(), 2)); w.db.Capabilities().SerialWrites {
		all.SetLimit(1)
	}
	var rows int64
	for _, t := range w.tables {
		for warehouse := range int64(pick(t.Name == "item", 1, w.opt.Warehouses)) {
			all.Go(func() error {
				return engine.About(ctx, w.fill(ctx, t, warehouse+1, func(n int) {
					w.mu.Lock()
					defer w.mu.Unlock()
					rows += int64(n)
					progress(rows)
				}), "fill table "+t.Name)
			})
		}
	}
	return schema, all.Wait()
}

// create creates the tables. With shards, each shard gets all tables but item. In the database
// itself, one table of each name then shows the rows of all shards.
func (w *TPCC) create(ctx context.Context, dropExisting bool) (schema []string, err error) {
	setup := func(db engine.DB, tables []*tpccTable) ([]string, error) {
		return workload.CreatePlain(ctx, db, plain(tables), dropExisting)
	}
	if len(w.opt.Shards) == 0 {
		return setup(w.db, w.tables)
	}
	items, shared := w.tables[:1], w.tables[1:]
	if schema, err = setup(w.db, items); err != nil {
		return nil, err
	}
	var nodes []rolling.Node
	var made []string // the statements for one node
	for i, db := range w.opt.Shards {
		nodes = append(nodes, rolling.Node{Name: fmt.Sprintf("n%d", i+1), Target: db.Info().Target})
		if made, err = setup(db, shared); err != nil {
			return nil, fmt.Errorf("node %d: %w", i+1, err)
		}
	}
	for _, t := range shared {
		shown, err := w.present(ctx, t, nodes)
		if err != nil {
			return nil, fmt.Errorf("present table %s: %w", t.Name, err)
		}
		schema = append(schema, shown...)
	}
	return append(schema, made...), nil
}

// present makes the database show the nodes' tables of the same name as one table. The first column
// of the key, the warehouse, decides on which node a row is.
func (w *TPCC) present(ctx context.Context, t *tpccTable, nodes []rolling.Node) (schema []string, err error) {
	text, err := w.db.Dialect().Render(engine.CreateTable{Table: &t.Table})
	if err != nil {
		return nil, err
	}
	d, err := rolling.ReadDefinition(text[0])
	if err != nil {
		return nil, err
	}
	if w.head, err = engine.NewHead(&engine.Table{Name: t.Name, Definition: d}, &rolling.Shards{By: t.PrimaryKey[0], Nodes: nodes}); err != nil {
		return nil, err
	}
	steps, err := w.db.(engine.Presenter).Present(ctx, w.head)
	for i := 0; i < len(steps) && err == nil; i++ {
		schema, err = append(schema, steps[i].SQL...), steps[i].Run(ctx)
	}
	return schema, err
}

// shard returns the index of the shard that has a warehouse; 0 without shards.
func (w *TPCC) shard(warehouse int64) int {
	if len(w.opt.Shards) == 0 {
		return 0
	}
	return w.db.(engine.Presenter).NodeOf(w.head, warehouse)
}

// fill writes the rows of a warehouse, by the bulk method if the server has it and permits it.
func (w *TPCC) fill(ctx context.Context, t *tpccTable, warehouse int64, done func(rows int)) error {
	db := w.db
	if len(w.opt.Shards) > 0 && t.Name != "item" {
		db = w.opt.Shards[w.shard(warehouse)]
	}
	err := w.write(ctx, db, engine.Load, t, warehouse, done)
	if errors.Is(err, engine.ErrUnsupported) {
		err = w.write(ctx, db, db.Capabilities().Methods[0], t, warehouse, done)
	}
	return err
}

func (w *TPCC) write(ctx context.Context, db engine.DB, m engine.Method, t *tpccTable, warehouse int64, done func(rows int)) (err error) {
	wr, err := db.Writer(ctx, &t.Table, m)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, wr.Close()) }()
	parts, each, from := int64(districts), w.customers, int64(0)
	switch t.Name {
	case "item", "stock":
		parts, each = 1, w.items
	case "warehouse", "district":
		parts, each = pick(t.Name == "warehouse", int64(1), districts), 1
	case "new_order":
		from = w.customers - w.undelivered
	}
	r, b := tpccRow{of: w, w: warehouse}, engine.NewBatch(t.Columns)
	for r.dist = 1; r.dist <= parts; r.dist++ {
		for r.n = from + 1; r.n <= each; r.n++ {
			r.u = ((warehouse-1)*parts+r.dist-1)*each + r.n - 1
			r.d = t.stream.Row(r.u)
			lines := pick(t.Name == "order_line", r.lines(), 1)
			for r.line = 1; r.line <= lines; r.line++ {
				for i, fill := range t.fill {
					fill(&b.Columns[i], &r)
				}
				b.EndRow()
			}
			if last := r.n == each && r.dist == parts; b.Rows() < loadBatch && !last {
				continue
			}
			if _, err := wr.Write(ctx, b); err != nil {
				return err
			}
			done(b.Rows())
			b.Reset()
		}
	}
	return nil
}
