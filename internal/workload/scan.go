package workload

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/rolling"
)

// OpScan is the operation of a Scan: a sum for each of several partitions.
const OpScan = "scan"

// ScanOptions are the parameters of a Scan.
type ScanOptions struct {
	Seed uint64
	// Rows are those of the table, divided evenly among Partitions.
	Rows       int64
	Partitions int
}

const (
	// MaxScanPartitions is a number of partitions that every server creates by one statement.
	MaxScanPartitions = 1000
	// minScanRows is the least number of rows in a partition.
	minScanRows = 10
)

// A Scan fills table fact, which a report of 2010 describes. Each partition has one value of i1.
// The Scan queries the sum of qty*price for each value of i1 in the first n partitions. An answer
// that differs in a byte from the computed answer is an error.
type Scan struct {
	*Insert
	opt ScanOptions
	// scale is the number of digits after the point of the sums.
	scale int
	// sums are the sums of qty*price by partition, in units of the last digit.
	sums []int64
}

// NewScan checks the options. It does not access the database.
func NewScan(db engine.DB, opt ScanOptions) (*Scan, error) {
	switch {
	case opt.Partitions < 1 || opt.Partitions > MaxScanPartitions:
		return nil, fmt.Errorf("%d partitions: want 1 to %d", opt.Partitions, MaxScanPartitions)
	case opt.Rows < minScanRows*int64(opt.Partitions) || opt.Rows > MaxMixedRows:
		return nil, fmt.Errorf("%d rows in %d partitions: want %d to %d", opt.Rows, opt.Partitions, minScanRows*opt.Partitions, MaxMixedRows)
	}
	w := &Scan{opt: opt, scale: priceScale}
	caps := db.Capabilities()
	if !caps.Stores || !caps.Rolling {
		return nil, engine.Classed(engine.ErrUnsupported, fmt.Errorf("%s has no partitions to read", db.Info().Engine))
	}
	p := preset{name: OpScan, table: factTable(), fill: w.fillFact, deviations: []string{
		"the primary key is (id, i1), which the report's table lacks: a server that needs one would add one of its own",
		"i1, qty are 32-bit integers, id and a_id signed ones of 64 bits",
		"i1 is 0 to partitions-1, and query n reads the first n of them",
	}}
	if caps.PeriodTables {
		// The engine's decimals are binary fractions, whose sums depend on the order of additions.
		grid, err := rolling.EveryRows(1)
		if err != nil {
			return nil, err
		}
		p.table.Grid, w.scale = grid, 0
		price := &p.table.Columns[p.table.Column("price")]
		*price = engine.Column{Name: price.Name, Type: engine.Int32}
		p.deviations = append(p.deviations, "the partitions are periods of a rolling table", "price is an integer, in thousandths")
	} else {
		p.table.Values = opt.Partitions
	}
	method, err := chooseMethod(db, "")
	if err != nil {
		return nil, err
	}
	w.Insert = newInsert(db, InsertOptions{Preset: OpScan, Layout: Plain, Seed: opt.Seed, Writers: 1, Batch: fillBatch, Method: method}, p)
	return w, w.Tables()[0].Validate()
}

// priceScale and priceDigits are the decimal places and the digits of column price.
const priceScale, priceDigits = 3, 7

// factTable is the table of the report.
func factTable() engine.Table {
	return engine.Table{
		Name: "fact",
		Columns: []engine.Column{
			{Name: "id", Type: engine.Int64}, {Name: "a_id", Type: engine.Int64},
			{Name: "b_id", Type: engine.Int32}, {Name: "c_id", Type: engine.Int32},
			{Name: "i1", Type: engine.Int32}, {Name: "qty", Type: engine.Int32},
			{Name: "score", Type: engine.Decimal, Size: 10, Scale: 10}, {Name: "price", Type: engine.Decimal, Size: priceDigits, Scale: priceScale},
			{Name: "i2", Type: engine.Int32}, {Name: "i3", Type: engine.Int32},
			{Name: "wide_row", Type: engine.Char, Size: 54},
		},
		PrimaryKey: []string{"id", "i1"}, By: "i1",
	}
}

// factRow returns the values of a row from which the sums are computed, and d for drawing its other
// values.
func (w *Scan) factRow(s draw.Stream, seq int64) (d draw.Values, partition int, qty, price int64) {
	d = s.Row(seq)
	qty, price = d.Below(32768), d.Below(1e7)
	return d, int(seq * int64(w.opt.Partitions) / w.opt.Rows), qty, price
}

func (w *Scan) fillFact(b *engine.Batch, s draw.Stream, first int64, n int) {
	c := b.Columns
	for seq := first; seq < first+int64(n); seq++ {
		d, partition, qty, price := w.factRow(s, seq)
		c[0].Ints = append(c[0].Ints, seq+1)
		c[1].Ints = append(c[1].Ints, d.Below(1e9))
		c[2].Ints = append(c[2].Ints, d.Below(1e6))
		c[3].Ints = append(c[3].Ints, d.Below(1e4))
		c[4].Ints = append(c[4].Ints, int64(partition))
		c[5].Ints = append(c[5].Ints, qty)
		c[6].Bytes = append(c[6].Bytes, value.FormatUnscaled(strconv.FormatInt(d.Below(1e10), 10), 10)...)
		c[6].EndBytes()
		if w.scale == 0 {
			c[7].Ints = append(c[7].Ints, price)
		} else {
			c[7].Bytes = append(c[7].Bytes, value.FormatUnscaled(strconv.FormatInt(price, 10), priceScale)...)
			c[7].EndBytes()
		}
		c[8].Ints = append(c[8].Ints, d.Below(1e9))
		c[9].Ints = append(c[9].Ints, d.Below(100))
		c[10].Bytes = draw.AppendGroups(c[10].Bytes, &d, 4)
		c[10].EndBytes()
	}
	b.EndRows(n)
}

// Fill creates the table with its rows. It returns the statements that created the schema.
func (w *Scan) Fill(ctx context.Context, dropExisting bool, progress func(rows int64)) (schema []string, err error) {
	t := w.tables[0]
	step := engine.CreateTable{Table: &t.Table}
	if t.Rolling() {
		for i := range w.opt.Partitions {
			p, err := t.Grid.At(int64(i))
			if err != nil {
				return nil, err
			}
			step.Partitions = append(step.Partitions, t.Grid.Named(p))
		}
	}
	if schema, err = w.db.Dialect().Render(step); err != nil {
		return nil, err
	}
	if err := w.clear(ctx, dropExisting); err != nil {
		return nil, err
	}
	if err := w.db.Apply(ctx, step); err != nil {
		return nil, fmt.Errorf("create table %s: %w", t.Name, err)
	}
	w.sums = make([]int64, w.opt.Partitions)
	err = w.loadFast(ctx, transfer{into: &t.Table, stream: t.stream, rows: span{0, w.opt.Rows}, batch: fillBatch, method: w.Insert.opt.Method, patience: rollPatience,
		done: func(b *engine.Batch, next int64) {
			for seq := next - int64(b.Rows()); seq < next; seq++ {
				_, partition, qty, price := w.factRow(t.stream, seq)
				w.sums[partition] += qty * price
			}
			t.next.Store(next)
			progress(next)
		}})
	if err != nil {
		return schema, fmt.Errorf("fill table %s: %w", t.Name, err)
	}
	return schema, nil
}

// Query returns query n: the sums over the first n partitions.
func (w *Scan) Query(n int) string {
	values := make([]string, n)
	for i := range values {
		values[i] = strconv.Itoa(i)
	}
	return "SELECT i1, SUM(qty*price) FROM fact WHERE i1 IN (" + strings.Join(values, ",") + ") GROUP BY i1"
}

// answer returns the right answer to query n: sorted lines, each a row with tabs between its
// values.
func (w *Scan) answer(n int) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = strconv.Itoa(i) + "\t" + value.FormatUnscaled(strconv.FormatInt(w.sums[i], 10), w.scale)
	}
	slices.Sort(lines)
	return lines
}

// An Asker asks a database queries in one of the ways of a scan.
type Asker interface {
	// Ask returns the rows of the answer, values with tabs between them.
	Ask(ctx context.Context, query string) ([]string, error)
	Close() error
}

// A ScanRun asks queries of a Scan, one after the other, and notes how long each took. It is a
// bench.Workload of one client.
type ScanRun struct {
	w     *Scan
	asker Asker
	// turns are the queries in order.
	turns []int

	mu    sync.Mutex
	took  []ScanTook
	began time.Time
}

// A ScanTook is the time of one query over some partitions.
type ScanTook struct {
	Partitions int
	// Elapsed is its end, since the run's start, and Seconds its duration.
	Elapsed, Seconds float64
}

// Run returns a run of queries. Each element of partitions is the number of partitions that a query
// sums; in each round, there is one query for each element. The caller closes the asker.
func (w *Scan) Run(asker Asker, partitions []int, rounds int) *ScanRun {
	r := &ScanRun{w: w, asker: asker}
	for range rounds {
		r.turns = append(r.turns, partitions...)
	}
	return r
}

// Queries is the number of queries of the run.
func (r *ScanRun) Queries() int { return len(r.turns) }

// Took returns the times noted since the last call.
func (r *ScanRun) Took() []ScanTook {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.took
	r.took = nil
	return out
}

// Client implements bench.Workload.
func (r *ScanRun) Client(context.Context, int) (bench.Client, error) {
	r.began = time.Now()
	return &scanClient{run: r, next: -1}, nil
}

// Background implements bench.Workload; there is no work beside the queries.
func (r *ScanRun) Background(context.Context, func(what, object string, began time.Time)) error {
	return nil
}

type scanClient struct {
	run  *ScanRun
	next int
}

// Prepare implements bench.Client.
func (c *scanClient) Prepare(int) { c.next++ }

// Do implements bench.Client.
func (c *scanClient) Do(ctx context.Context) error {
	n := c.run.turns[c.next%len(c.run.turns)]
	query := c.run.w.Query(n)
	begin := time.Now()
	rows, err := c.run.asker.Ask(ctx, query)
	end := time.Now()
	if err != nil {
		return fmt.Errorf("ask for the sums over %d partitions: %w", n, err)
	}
	slices.Sort(rows)
	if want := c.run.w.answer(n); !slices.Equal(rows, want) {
		return fmt.Errorf("the sums over %d partitions are wrong: %.200q, want %.200q", n, rows, want)
	}
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	c.run.took = append(c.run.took, ScanTook{n, end.Sub(c.run.began).Seconds(), end.Sub(begin).Seconds()})
	return nil
}

// Recover implements bench.Client: an asker needs no preparation.
func (c *scanClient) Recover(context.Context, error) error { return nil }

// Close implements bench.Client.
func (c *scanClient) Close() error { return nil }
