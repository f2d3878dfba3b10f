package workload

import (
	"context"
	"fmt"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/figure"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/rolling"
)

// A query is one kind of query: the rows it finds, and how its values are drawn.
type query struct {
	find   *engine.Find
	values func(d *draw.Values, live span, out []engine.Value)
}

// A connection is the connection of a client that finds or deletes rows.
type connection struct{ querier engine.Querier }

func (c connection) Recover(ctx context.Context, _ error) error { return c.querier.Reset(ctx) }

func (c connection) Close() error { return c.querier.Close() }

// An asker runs one table's queries, one after the other.
type asker struct {
	connection
	w       *Insert
	table   *table
	queries []query
	// turns selects the queries in turn, as in the classic benchmark; otherwise each is drawn at
	// random, as in the modern benchmark.
	turns  bool
	stream draw.Stream
	asked  int64
	below  int64 // rows below it were acknowledged at the last refresh
	after  int64 // number of rows in the table before the first query
	values []engine.Value
	next   int // index of the next query
}

// queryStreams separates the readers' streams from the streams of rows, which are numbered from 0.
const queryStreams = 1 << 32

// limit is the maximum number of rows returned by a query by an index.
const limit = 10

// points is the number of primary keys in a query by primary keys.
const points = 10

// newAsker opens the n-th asker of a run. Runs with different numbers draw different values.
func (w *Insert) newAsker(ctx context.Context, n, run int, queries func(*engine.Table) []query, turns bool) (*asker, error) {
	t := w.tables[n%len(w.tables)]
	q, err := w.db.Querier(ctx)
	if err != nil {
		return nil, err
	}
	r := &asker{connection: connection{q}, w: w, table: t, queries: queries(&t.Table), turns: turns,
		stream: draw.NewStream(w.opt.Seed, queryStreams+run<<20+n)}
	for _, q := range r.queries {
		r.values = append(r.values, make([]engine.Value, max(0, q.find.Values()-len(r.values)))...)
	}
	return r, nil
}

func (r *asker) Prepare(int) {
	d := r.stream.Row(r.asked)
	r.next = int(r.asked % int64(len(r.queries)))
	if !r.turns {
		r.next = int(d.Below(uint64(len(r.queries))))
	}
	r.asked++
	q := r.queries[r.next]
	q.values(&d, r.live(), r.values[:q.find.Values()])
}

// refreshEvery is the number of queries after which an asker refreshes the number of inserted
// rows: a refresh costs more than drawing a query's values.
const refreshEvery = 32

// live returns a range of rows that certainly exist in the table, apart from rows in doubt; it is
// never empty.
func (r *asker) live() span {
	t := r.table
	if r.asked%refreshEvery == 1 {
		r.below = t.acknowledgedBelow()
	}
	s := span{max(t.tail.gone.Load(), t.tail.going.Load()), r.below}
	if t.roller != nil {
		s.from = max(s.from, r.w.firstAt(t.roller.dropping.Load()))
	}
	s.to = max(s.to, s.from+1)
	return s
}

// Await implements bench.Waiter: queries wait until the table holds some rows.
func (r *asker) Await(ctx context.Context) error {
	if r.after == 0 {
		return nil
	}
	err := r.table.tail.moved.await(ctx, func() bool { return r.table.acknowledgedBelow() >= r.after })
	if err == nil {
		r.after = 0
	}
	return err
}

func (r *asker) Do(ctx context.Context) error {
	q := r.queries[r.next]
	_, err := r.querier.Find(ctx, q.find, r.values[:q.find.Values()])
	return err
}

func below(n uint64) func(*draw.Values, span, []engine.Value) {
	return func(d *draw.Values, _ span, out []engine.Value) { out[0].Int = d.Below(n) }
}

// byIndex finds the first rows of an index whose first column is at or above a value (how).
func byIndex(t *engine.Table, index int, how engine.Condition) *engine.Find {
	ix := t.Indexes[index]
	return &engine.Find{Table: t, Columns: ix.Columns, Index: ix.Name, On: ix.Columns[:1], How: how, Order: ix.Columns, Limit: limit}
}

func ibenchRanges(t *engine.Table) []query {
	all := []query{}
	for i, how := range []engine.Condition{engine.AtLeast, engine.Above, engine.AtLeast}[:len(t.Indexes)] {
		all = append(all, query{byIndex(t, i, how), below([]uint64{10000, 1000, 500}[i])})
	}
	return all
}

func ibenchPoints(t *engine.Table) []query {
	key := t.PrimaryKey[0]
	return []query{{
		find: &engine.Find{Table: t, On: []string{key}, How: engine.In, Points: points},
		values: func(d *draw.Values, live span, out []engine.Value) {
			for i := range out {
				out[i].Int = 1 + live.from + d.Below(uint64(live.rows()))
			}
		},
	}}
}

// classicQueries are the queries of iiBench: one by the primary key and one per index. Each finds
// the rows that follow a value in the order of the key or index.
func classicQueries(t *engine.Table) []query {
	key := t.PrimaryKey[0]
	all := []query{{
		find: &engine.Find{Table: t, On: []string{key}, How: engine.AtLeast, Order: []string{key}, Limit: limit},
		values: func(d *draw.Values, live span, out []engine.Value) {
			out[0].Int = 1 + live.from + d.Below(uint64(live.rows()))
		},
	}}
	for _, ix := range t.Indexes {
		find := &engine.Find{Table: t, Columns: ix.Columns, Index: ix.Name, On: ix.Columns, How: engine.Keyset, Order: ix.Columns, Limit: limit}
		all = append(all, query{find, func(d *draw.Values, live span, out []engine.Value) {
			// As in a row of the table, the price depends on customerid.
			customer := d.Below(100000)
			price := classicPrice(d, customer)
			register, row := d.Below(1000), live.from+d.Below(uint64(live.rows()))
			for i, c := range ix.Columns {
				switch c {
				case "price":
					out[i].Float = price
				case "customerid":
					out[i].Int = customer
				case "cashregisterid":
					out[i].Int = register
				case "dateandtime":
					out[i].Int = purchasesClock.At(row)
				}
			}
		}})
	}
	return all
}

// Beside returns the loads that run beside the inserts as the options say: queries, and deletes
// that keep a plain table's number of rows constant.
func (w *Insert) Beside() []bench.Load {
	var out []bench.Load
	if w.opt.KeepRows > 0 && w.opt.Layout == Plain {
		out = append(out, w.deletes(w.opt.Batch))
	}
	if w.opt.Readers > 0 {
		out = append(out, bench.Load{Operation: opQuery, Clients: w.opt.Readers, Batch: 1,
			Client: func(ctx context.Context, n int) (bench.Client, error) {
				r, err := w.newAsker(ctx, n, 0, w.preset.queries, w.preset.turns)
				if err == nil {
					r.after = w.opt.ReadAfter / int64(len(w.tables))
				}
				return r, err
			}})
	}
	return out
}

func (w *Insert) follow() error {
	if w.opt.Readers > 0 && w.preset.queries == nil {
		return engine.Hinted(fmt.Errorf("preset %s has no queries", w.preset.name), "--preset classic, or ibench")
	}
	for _, t := range w.tables {
		t.tail.followed = w.opt.Readers > 0 || w.opt.KeepRows > 0
	}
	if w.opt.KeepRows == 0 {
		return nil
	}
	tables := int64(len(w.tables))
	if w.opt.KeepRows%tables != 0 {
		return engine.Hinted(fmt.Errorf("keep %d rows: they can't be shared by %d tables", w.opt.KeepRows, tables),
			"--keep-rows %d", (w.opt.KeepRows/tables+1)*tables)
	}
	if w.opt.Layout != Plain {
		return nil // whole periods are dropped instead: see keepPeriods
	}
	if err := w.checkDeletes(w.opt.Batch); err != nil {
		return err
	}
	for _, t := range w.tables {
		if err := t.keepRows(w.opt.KeepRows/tables, w.opt.Batch, w.perTable()); err != nil {
			return err
		}
	}
	return nil
}

// perTable returns the maximum number of clients that insert into one table.
func (w *Insert) perTable() int { return (w.opt.Writers + len(w.tables) - 1) / len(w.tables) }

// keptParts is the minimum number of periods into which --keep-rows is divided. With 10, a table
// has at most a tenth more rows than --keep-rows: the rows of the period being filled.
const keptParts = 10

// keepPeriods makes a rolling table keep the rows of --keep-rows in full periods, beside the period
// that is being filled. --keep-rows must be a multiple of period, the rows of a period. If measured
// is set, the user has not chosen period: keepPeriods then reduces it to the next such number.
func (w *Insert) keepPeriods(period int64, measured bool) (int64, error) {
	keep, unit := w.opt.KeepRows/int64(len(w.tables)), int64(1)
	if w.preset.axis == rolling.Time {
		unit = w.preset.clock.Rows
	}
	parts := keep / period
	if measured {
		for parts = max(keptParts, (keep+period-1)/period); parts < keep && (keep%parts != 0 || keep/parts%unit != 0); {
			parts++
		}
	}
	if parts == 0 || keep%parts != 0 || keep/parts%unit != 0 || !measured && keep != parts*period {
		return 0, engine.Hinted(fmt.Errorf("no periods of equal length, of a multiple of %s each, divide the %s to keep", figure.Plural(unit, "row"), figure.Plural(keep, "row")),
			"--period-rows auto, and a round number for --keep-rows")
	}
	w.opt.KeepPeriods = int(parts) + 1
	return keep / parts, nil
}

// HeldRows returns the least and the largest number of rows that all tables together have, once
// they have reached the size that the options require; 0 if the size is not limited.
func (w *Insert) HeldRows() (least, most int64) {
	if w.opt.KeepRows == 0 {
		return 0, 0
	}
	least = w.opt.KeepRows
	for _, t := range w.tables {
		if t.Rolling() {
			most += int64(w.opt.KeepPeriods) * w.opt.PeriodRows
		} else {
			most += t.tail.most
		}
	}
	return least, most
}
