package enginetest

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// deletes deletes ranges of a key and of a time, from plain tables and across periods.
func (s suite) deletes(t *testing.T) {
	s.eachSales(t, true, func(t *testing.T, db engine.DB, table *engine.Table, create engine.CreateTable) {
		if !db.Capabilities().Stores {
			t.Skip("the engine stores nothing")
		}
		q, byID, byTime := querier(t, db), &engine.Delete{Table: table, By: "id"}, &engine.Delete{Table: table, By: "at"}
		there := map[int64]bool{}
		for i := range int64(saleRows) {
			there[i] = true
		}
		for _, c := range []struct {
			of       *engine.Delete
			from, to int64
		}{
			{byID, 0, 0}, {byID, -5, 10}, {byID, 0, 10}, {byID, 10, 11}, {byID, 20, 10}, {byID, 690, 720}, {byID, 1990, 5000},
			{byTime, start + 20*second, start + 22*second}, {byTime, start - day, start}, {byID, 600, 1500}, {byTime, start, start + 100*second},
		} {
			want := int64(0)
			for i := range there {
				pos := i
				if c.of == byTime {
					_, _, _, pos = sale(i)
				}
				if pos >= c.from && pos < c.to {
					delete(there, i)
					want++
				}
			}
			if got, err := q.Delete(within(t), c.of, c.from, c.to); err != nil || got != want {
				t.Errorf("delete %s from %d to %d: %d rows, %v, want %d", c.of.By, c.from, c.to, got, err, want)
			}
		}
		var got, want []int64
		for i := range there {
			want = append(want, i)
		}
		got = append(got, read(t, db, table, nil).Columns[0].Ints...)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%d rows are left, want %d", len(got), len(want))
		}
		if !table.Rolling() {
			return
		}
		// Periods are created and dropped after a Delete was prepared.
		parts := create.Partitions
		next := periods(t, table.Grid, parts[2].To, 1)
		apply(t, db, engine.CreatePartitions{Table: table, Have: parts, New: next})
		apply(t, db, engine.DropPartition{Table: table, Have: append(parts[:3:3], next...), Drop: parts[0]})
		b := engine.NewBatch(table.Columns)
		fillSales(b, next[0].From, next[0].From+10)
		write(t, writer(t, db, table, db.Capabilities().Methods[0]), b)
		if n, err := q.Delete(within(t), byID, next[0].From-1, next[0].From+5); err != nil || n != 5 {
			t.Errorf("delete from a new period: %d rows, %v, want 5", n, err)
		}
		find := &engine.Find{Table: table, On: []string{"id"}}
		if n, err := q.Find(within(t), find, []engine.Value{{Int: next[0].From}}); err != nil || n != 5 {
			t.Errorf("find in a new period: %d rows, %v, want 5", n, err)
		}
	})
}

// createIndexes checks that indexes on existing rows are used and have a size.
func (s suite) createIndexes(t *testing.T) {
	s.eachSales(t, false, func(t *testing.T, db engine.DB, table *engine.Table, create engine.CreateTable) {
		q := querier(t, db)
		find := &engine.Find{Table: table, Index: "market", On: []string{"price", "customer"}, How: engine.Equal}
		customer, price, _, _ := sale(77)
		values := []engine.Value{{Float: price}, {Int: customer}}
		bad := engine.CreateIndexes{Table: table, Partitions: create.Partitions}
		for _, indexes := range [][]engine.Index{nil, {{Name: "x"}}, {{Columns: []string{"id"}}}, {{Name: "x", Columns: []string{"nix"}}}} {
			bad.Indexes = indexes
			if err := db.Apply(within(t), bad); err == nil {
				t.Errorf("indexes %v were created", indexes)
			}
		}
		step := engine.CreateIndexes{Table: table, Indexes: table.Indexes, Partitions: create.Partitions}
		other := *table
		other.Name = "nowhere"
		wantError(t, db.Apply(within(t), engine.CreateIndexes{Table: &other, Indexes: table.Indexes, Partitions: create.Partitions}), engine.ErrNoTable)
		apply(t, db, step)
		rows, err := q.Find(within(t), find, values)
		if err != nil || rows < 1 && db.Capabilities().Stores {
			t.Errorf("by the index: %d rows, %v", rows, err)
		}
		if !db.Capabilities().Stores {
			return
		}
		sizes, err := db.Catalog().Sizes(within(t), table)
		Must(t, err)
		// An entry of the smallest index has 16 bytes; servers compress.
		if sizes.Index < saleRows*4 {
			t.Errorf("sizes %+v with %d indexes over %d rows", sizes, len(table.Indexes), saleRows)
		}
		b := engine.NewBatch(table.Columns)
		fillSales(b, saleRows, saleRows+10)
		write(t, writer(t, db, table, db.Capabilities().Methods[0]), b)
		if err := db.Apply(within(t), step); err == nil {
			t.Error("the same indexes were created twice")
		}
	})
}

// settle checks that Settle completes without warnings, and can be canceled.
func (s suite) settle(t *testing.T) {
	s.eachSales(t, true, func(t *testing.T, db engine.DB, table *engine.Table, _ engine.CreateTable) {
		step := engine.Settle{Tables: []*engine.Table{table}}
		before, err := db.Catalog().Settings(within(t))
		Must(t, err)
		statements, err := db.Dialect().Render(step)
		if err != nil || len(statements) == 0 && db.Capabilities().Stores {
			t.Errorf("rendered as %q, %v", statements, err)
		}
		q := querier(t, db)
		if _, err := q.Delete(within(t), &engine.Delete{Table: table, By: "id"}, 0, 1000); err != nil {
			t.Fatal(err)
		}
		warnings, err := db.Settle(within(t), step)
		if err != nil || len(warnings) > 0 {
			t.Errorf("warnings %q, %v", warnings, err)
		}
		if _, err := db.Settle(canceled(), step); !errors.Is(err, context.Canceled) {
			t.Errorf("after the end: %v", err)
		}
		after, err := db.Catalog().Settings(within(t))
		Must(t, err)
		for name, v := range before {
			if after[name] != v {
				t.Errorf("setting %s was %q and is %q", name, v, after[name])
			}
		}
	})
}
