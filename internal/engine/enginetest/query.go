package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// saleRows is how many rows fillSales writes.
const saleRows = 2000

// sales returns a table with indexed columns of each type that Find supports. It rolls by its key,
// with periods of as many rows as every says. If every is 0, it is plain.
func sales(t testing.TB, name string, every int) *engine.Table {
	table := &engine.Table{
		Name: name,
		Columns: []engine.Column{
			{Name: "id", Type: engine.Int64}, {Name: "customer", Type: engine.Int32}, {Name: "price", Type: engine.Float32},
			{Name: "weight", Type: engine.Float64}, {Name: "at", Type: engine.Time}, {Name: "note", Type: engine.Varchar, Size: 16_000},
		},
		PrimaryKey: []string{"id"},
		Indexes: []engine.Index{
			{Name: "market", Columns: []string{"price", "customer"}},
			{Name: "pdc", Columns: []string{"price", "at", "customer"}},
			{Name: "heavy", Columns: []string{"weight"}},
			{Name: "day", Columns: []string{"at", "customer"}},
		},
	}
	if every > 0 {
		table.Grid, table.By = grid(t, fmt.Sprintf("%d rows", every)), "id"
	}
	return table
}

// sale returns row i. Most prices don't equal the double of their decimal text.
func sale(i int64) (customer int64, price, weight float64, at int64) {
	return i * 7 % 50, float64(float32(123.45) + float32(i%40)/10), float64(i%100) / 3, start + i%300*second
}

// fillSales appends rows [from, to), one of a hundred with a long note.
func fillSales(b *engine.Batch, from, to int64) {
	for i := from; i < to; i++ {
		customer, price, weight, at := sale(i)
		b.Columns[0].Ints = append(b.Columns[0].Ints, i)
		b.Columns[1].Ints = append(b.Columns[1].Ints, customer)
		b.Columns[2].Floats = append(b.Columns[2].Floats, price)
		b.Columns[3].Floats = append(b.Columns[3].Floats, weight)
		b.Columns[4].Ints = append(b.Columns[4].Ints, at)
		note := int(i % 300)
		if i%100 == 99 {
			note = 16_000 // longer than a querier's buffer for answers
		}
		b.Columns[5].AppendBytes([]byte(strings.Repeat("n", note)))
		b.EndRow()
	}
}

// querier opens a querier that is closed when the test ends.
func querier(t testing.TB, db engine.DB) engine.Querier {
	t.Helper()
	q, err := db.Querier(within(t))
	if err != nil {
		t.Fatalf("querier: %v", err)
	}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("close querier: %v", err)
		}
	})
	return q
}

// eachSales runs a test on a plain table of sales, and on a rolling one. The tables have indexes
// only if indexes is true. The CreateTable that the test gets always has them.
func (s suite) eachSales(t *testing.T, indexes bool, run func(*testing.T, engine.DB, *engine.Table, engine.CreateTable)) {
	for _, every := range []int{0, 700} {
		name := "plain"
		if every > 0 {
			name = "rolls"
		}
		t.Run(name, func(t *testing.T) {
			db, table := s.open(t), sales(t, name, every)
			create := engine.CreateTable{Table: table}
			if every > 0 {
				if !db.Capabilities().Rolling {
					t.Skip("the engine has no rolling tables")
				}
				create.Partitions = periods(t, table.Grid, 0, 3)
			}
			bare := *table
			if !indexes {
				bare.Indexes = nil
			}
			apply(t, db, engine.CreateTable{Table: &bare, Partitions: create.Partitions})
			b := engine.NewBatch(table.Columns)
			fillSales(b, 0, saleRows)
			write(t, writer(t, db, table, db.Capabilities().Methods[0]), b)
			run(t, db, table, create)
		})
	}
}

// salesWhere counts the rows for which a condition is true.
func salesWhere(holds func(id, customer int64, price, weight float64, at int64) bool) (n int) {
	for i := range int64(saleRows) {
		customer, price, weight, at := sale(i)
		if holds(i, customer, price, weight, at) {
			n++
		}
	}
	return n
}

// A search is a Find with its values and the number of rows that it must return.
type search struct {
	name   string
	find   engine.Find
	values []engine.Value
	want   int
}

func searches() []search {
	ints := func(n ...int64) (v []engine.Value) {
		for _, i := range n {
			v = append(v, engine.Value{Int: i})
		}
		return v
	}
	_, price, weight, at := sale(1234)
	customer, _, _, _ := sale(1234)
	point := []engine.Value{{Float: price}, {Int: customer}}
	is := float32(price)
	var list []engine.Value
	for i := range int64(10) {
		list = append(list, engine.Value{Int: i*251 + 3})
	}
	market := []string{"price", "customer"}
	return []search{
		{"key", engine.Find{On: []string{"id"}, How: engine.Equal}, ints(1234), 1},
		{"no such key", engine.Find{On: []string{"id"}, How: engine.Equal}, ints(saleRows), 0},
		{"keys", engine.Find{On: []string{"id"}, How: engine.In, Points: 10}, list, 8},
		{"a key twice", engine.Find{On: []string{"id"}, How: engine.In, Points: 3}, ints(5, 5, -1), 1},
		{"at least", engine.Find{On: []string{"id"}}, ints(1990), 10},
		{"above", engine.Find{On: []string{"id"}, How: engine.Above}, ints(1990), 9},
		{"all", engine.Find{On: []string{"id"}}, ints(0), saleRows},
		{"limit", engine.Find{Columns: []string{"id", "note"}, On: []string{"id"}, Order: []string{"id"}, Limit: 13}, ints(100), 13},
		{"limit above what there is", engine.Find{On: []string{"id"}, Order: []string{"id"}, Limit: 13}, ints(1995), 5},
		{"float", engine.Find{Index: "market", On: []string{"price"}, How: engine.Equal}, point[:1],
			salesWhere(func(_, _ int64, p, _ float64, _ int64) bool { return float32(p) == is })},
		// A value computed as a double: it exists only after rounding to float32.
		{"float from a double", engine.Find{Index: "market", On: []string{"price"}, How: engine.Equal}, []engine.Value{{Float: 123.45}},
			salesWhere(func(_, _ int64, p, _ float64, _ int64) bool { return float32(p) == 123.45 })},
		{"floats", engine.Find{Index: "market", On: []string{"price"}, How: engine.In, Points: 2}, []engine.Value{{Float: 123.45}, {Float: price}},
			salesWhere(func(_, _ int64, p, _ float64, _ int64) bool { return float32(p) == 123.45 || float32(p) == is })},
		{"double", engine.Find{Index: "heavy", Columns: []string{"weight"}, On: []string{"weight"}, How: engine.Equal}, []engine.Value{{Float: weight}}, saleRows / 100},
		{"time", engine.Find{Index: "day", Columns: []string{"at", "customer"}, On: []string{"at"}, How: engine.Equal}, ints(at),
			salesWhere(func(_, _ int64, _, _ float64, a int64) bool { return a == at })},
		{"after a time", engine.Find{Index: "day", On: []string{"at"}, How: engine.Above}, ints(at),
			salesWhere(func(_, _ int64, _, _ float64, a int64) bool { return a > at })},
		{"several", engine.Find{Index: "market", On: market, How: engine.Equal}, point,
			salesWhere(func(_, c int64, p, _ float64, _ int64) bool { return float32(p) == is && c == customer })},
		{"keyset of one", engine.Find{Index: "market", On: market[:1], How: engine.Keyset}, point[:1],
			salesWhere(func(_, _ int64, p, _ float64, _ int64) bool { return float32(p) >= is })},
		{"keyset of two", engine.Find{Index: "market", On: market, How: engine.Keyset}, point,
			salesWhere(func(_, c int64, p, _ float64, _ int64) bool {
				return float32(p) > is || float32(p) == is && c >= customer
			})},
		{"keyset of three", engine.Find{Index: "pdc", Columns: []string{"price", "at", "customer"}, On: []string{"price", "at", "customer"}, How: engine.Keyset},
			[]engine.Value{{Float: price}, {Int: at}, {Int: customer}},
			salesWhere(func(_, c int64, p, _ float64, a int64) bool {
				return float32(p) > is || float32(p) == is && (a > at || a == at && c >= customer)
			})},
		{"keyset with a limit", engine.Find{Index: "market", Columns: market, On: market, How: engine.Keyset, Order: market, Limit: 10}, point, 10},
	}
}

// find checks how many rows Find returns for each condition, several times on one querier, with
// different values.
func (s suite) find(t *testing.T) {
	s.eachSales(t, true, func(t *testing.T, db engine.DB, table *engine.Table, _ engine.CreateTable) {
		q, all := querier(t, db), searches()
		for round := range 7 { // after some rounds, a server may change its plan
			for i := range all {
				c := &all[i]
				c.find.Table = table
				rows, err := q.Find(within(t), &c.find, c.values)
				if err != nil {
					t.Fatalf("%s: %v", c.name, err)
				}
				if want := c.want; db.Capabilities().Stores && rows != want {
					t.Errorf("round %d: %s: %d rows, want %d", round, c.name, rows, want)
				}
				statements, err := db.Dialect().Render(c.find)
				if err != nil || len(statements) != 1 {
					t.Errorf("%s: rendered as %q, %v", c.name, statements, err)
				}
			}
		}
		if !db.Capabilities().Stores {
			return
		}
		key := &engine.Find{Table: table, On: []string{"id"}, How: engine.Equal}
		after := &engine.Find{Table: table, On: []string{"id"}}
		for range 3 { // a key outside every partition, and an existing key
			for _, f := range []*engine.Find{key, after} {
				for id, want := range map[int64]int{1 << 40: 0, saleRows - 1: 1} {
					if rows, err := q.Find(within(t), f, []engine.Value{{Int: id}}); rows != want || err != nil {
						t.Fatalf("row %d: %d rows, %v, want %d", id, rows, err, want)
					}
				}
			}
		}
		for i := int64(0); i < saleRows; i += 7 {
			if rows, err := q.Find(within(t), key, []engine.Value{{Int: i}}); rows != 1 || err != nil {
				t.Fatalf("row %d: %d rows, %v", i, rows, err)
			}
		}
		// Find rows by their price, the exact float32 that was stored.
		price := &engine.Find{Table: table, Index: "market", On: []string{"price", "customer"}, How: engine.Equal}
		for i := range int64(200) {
			customer, p, _, _ := sale(i)
			if rows, err := q.Find(within(t), price, []engine.Value{{Float: p}, {Int: customer}}); rows < 1 || err != nil {
				t.Fatalf("row %d by its price %v: %d rows, %v", i, p, rows, err)
			}
		}
		// Later rows are visible: no snapshot stays open.
		b := engine.NewBatch(table.Columns)
		fillSales(b, saleRows, saleRows+10)
		write(t, writer(t, db, table, db.Capabilities().Methods[0]), b)
		if rows, err := q.Find(within(t), key, []engine.Value{{Int: saleRows}}); rows != 1 || err != nil {
			t.Errorf("a row that was just written: %d rows, %v", rows, err)
		}
	})
}

// findAllocations checks that calls of a prepared Find don't allocate, however many
// rows it returns. It is skipped with the race detector, which allocates.
func (s suite) findAllocations(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	s.eachSales(t, true, func(t *testing.T, db engine.DB, table *engine.Table, _ engine.CreateTable) {
		q, ctx := querier(t, db), within(t)
		key := &engine.Find{Table: table, On: []string{"id"}, How: engine.Equal}
		market := []string{"price", "customer"}
		keyset := &engine.Find{Table: table, Index: "market", On: market, How: engine.Keyset, Order: market, Limit: 100}
		after := &engine.Find{Table: table, Index: "day", On: []string{"at"}, Limit: 10}
		values := make([]engine.Value, 2)
		ask := func() {
			values[0].Int, values[0].Float, values[1].Int = start, 124, 10
			_, err1 := q.Find(ctx, keyset, values)
			_, err2 := q.Find(ctx, after, values[:1])
			values[0].Int = 1234
			_, err3 := q.Find(ctx, key, values[:1])
			Must(t, errors.Join(err1, err2, err3))
		}
		for range 10 {
			ask()
		}
		// A fraction of an allocation per call of ask may be from another goroutine.
		if n := testing.AllocsPerRun(50, ask); n >= 1 {
			t.Errorf("%v allocations for 3 finds", n)
		}
	})
}

// findRefusals checks that the querier refuses invalid requests and still works.
func (s suite) findRefusals(t *testing.T) {
	db, table := s.open(t), sales(t, "refused", 0)
	apply(t, db, engine.CreateTable{Table: table})
	q := querier(t, db)
	one := []engine.Value{{Int: 1}}
	for name, c := range map[string]struct {
		find   engine.Find
		values []engine.Value
		want   string
	}{
		"column read":     {engine.Find{Columns: []string{"nix"}, On: []string{"id"}}, one, "column nix"},
		"column":          {engine.Find{On: []string{"nix"}}, one, "column nix"},
		"order":           {engine.Find{On: []string{"id"}, Order: []string{"nix"}}, one, "column nix"},
		"index":           {engine.Find{On: []string{"id"}, Index: "nix"}, one, "index nix"},
		"no column":       {engine.Find{}, nil, "no column"},
		"two columns":     {engine.Find{On: []string{"id", "price"}}, make([]engine.Value, 2), "2 columns"},
		"text":            {engine.Find{On: []string{"note"}, How: engine.Equal}, one, "column note"},
		"condition":       {engine.Find{On: []string{"id"}, How: 99}, one, "condition 99"},
		"no points":       {engine.Find{On: []string{"id"}, How: engine.In}, nil, "0 values"},
		"too many points": {engine.Find{On: []string{"id"}, How: engine.In, Points: engine.MaxPoints + 1}, nil, "values"},
		"points":          {engine.Find{On: []string{"id"}, Points: 1}, one, "Points"},
		"limit":           {engine.Find{On: []string{"id"}, Limit: -1}, one, "limit -1"},
		"few values":      {engine.Find{On: []string{"id"}, How: engine.In, Points: 2}, one, "1 values"},
		"many values":     {engine.Find{On: []string{"id"}}, make([]engine.Value, 2), "2 values"},
	} {
		c.find.Table = table
		if _, err := q.Find(within(t), &c.find, c.values); err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Count(err.Error(), "refused") != 1 || engine.Retryable(err) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if !strings.Contains(name, "values") {
			if _, err := db.Dialect().Render(c.find); err == nil {
				t.Errorf("%s was rendered", name)
			}
		}
	}
	for by, want := range map[string]string{"nix": "column nix", "price": "column price", "note": "column note"} {
		if _, err := q.Delete(within(t), &engine.Delete{Table: table, By: by}, 0, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("delete by %s: %v", by, err)
		}
	}
	if _, err := q.Find(within(t), &engine.Find{}, nil); err == nil || !strings.Contains(err.Error(), "no table") {
		t.Errorf("a find in no table: %v", err)
	}
	if _, err := q.Delete(within(t), &engine.Delete{}, 0, 1); err == nil || !strings.Contains(err.Error(), "no table") {
		t.Errorf("a delete from no table: %v", err)
	}
	if _, err := q.Find(within(t), &engine.Find{Table: table, On: []string{"id"}}, one); err != nil {
		t.Errorf("after the refusals, without Reset: %v", err)
	}
	if !db.Capabilities().Stores {
		return
	}
	nowhere := &engine.Find{Table: sales(t, "nowhere", 0), On: []string{"id"}}
	gone := &engine.Delete{Table: nowhere.Table, By: "id"}
	for range 2 {
		_, err := q.Find(within(t), nowhere, one)
		wantError(t, err, engine.ErrNoTable)
		_, err = q.Delete(within(t), gone, 0, 1)
		wantError(t, err, engine.ErrNoTable)
	}
	apply(t, db, engine.CreateTable{Table: nowhere.Table})
	if _, err := q.Find(within(t), nowhere, one); err != nil {
		t.Errorf("once the table is there: %v", err)
	}
	if _, err := q.Delete(within(t), gone, 0, 1); err != nil {
		t.Errorf("once the table is there: %v", err)
	}
}

// cancelFind checks that the end of a context interrupts a Find or a Delete, and
// that a context that ends later has no effect on the next call.
func (s suite) cancelFind(t *testing.T) {
	s.eachSales(t, true, func(t *testing.T, db engine.DB, table *engine.Table, _ engine.CreateTable) {
		q := querier(t, db)
		all := &engine.Find{Table: table, On: []string{"id"}, Order: []string{"note", "weight"}}
		values := []engine.Value{{Int: 0}}
		for round := range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(round*15)*time.Millisecond)
			for {
				if _, err := q.Find(ctx, all, values); err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("a find that was broken off: %v", err)
					}
					break
				}
			}
			cancel()
			if err := q.Reset(within(t)); err != nil {
				t.Fatalf("reset: %v", err)
			}
			if rows, err := q.Find(within(t), all, values); err != nil || rows != saleRows && db.Capabilities().Stores {
				t.Errorf("after Reset: %d rows, %v", rows, err)
			}
		}
		some, ten := &engine.Delete{Table: table, By: "id"}, &engine.Find{Table: table, On: []string{"id"}, Limit: 10}
		for i := range int64(50) {
			ctx, cancel := context.WithCancel(t.Context())
			_, err1 := q.Find(ctx, ten, values)
			_, err2 := q.Delete(ctx, some, i, i+1)
			cancel()
			Must(t, errors.Join(err1, err2))
		}
		_, err := q.Find(canceled(), all, values)
		wantError(t, err, context.Canceled)
		_, err = q.Delete(canceled(), some, 0, 1000)
		wantError(t, err, context.Canceled)
		_, err = db.Querier(canceled())
		wantError(t, err, context.Canceled)
		if rows, err := q.Find(within(t), all, values); err != nil || rows != saleRows-50 && db.Capabilities().Stores {
			t.Errorf("at the end: %d rows, %v", rows, err)
		}
	})
}
