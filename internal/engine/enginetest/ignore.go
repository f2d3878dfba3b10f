package enginetest

import (
	"slices"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// ignore checks that a table with Ignore skips rows with an existing key, reports
// their number, keeps the first row of each key, and refuses other rows as tables
// without Ignore do.
func (s suite) ignore(t *testing.T) {
	s.eachMethod(t, func(t *testing.T, db engine.DB, m engine.Method) {
		for _, rolls := range []bool{false, true} {
			if rolls && !db.Capabilities().Rolling {
				continue
			}
			table := timeTable(t, "ignores", "1h")
			table.Ignore = true
			var parts []rolling.Partition
			if rolls {
				table.Name = "ignores rolling"
				parts = periods(t, table.Grid, start, 2)
			} else {
				table.Grid = rolling.Grid{}
			}
			apply(t, db, engine.CreateTable{Table: table, Partitions: parts})
			if slices.Contains(db.Capabilities().NoIgnore, m) {
				_, err := db.Writer(within(t), table, m)
				wantError(t, err, engine.ErrUnsupported)
				continue
			}
			s.ignoreOn(t, db, table, m)
		}
	})
}

func (s suite) ignoreOn(t *testing.T, db engine.DB, table *engine.Table, m engine.Method) {
	w, f := writer(t, db, table, m), newFiller(table.Columns)
	all, b := engine.NewBatch(table.Columns), engine.NewBatch(table.Columns)
	// put writes rows with these ids; those already in the table must be skipped.
	there := map[int64]bool{}
	put := func(ids ...int64) {
		t.Helper()
		b.Reset()
		want := engine.Ack{}
		for i, id := range ids {
			f.fill(b, id, 1) // values differ from those of earlier rows with that key
			b.Columns[1].Ints[i] = start + id*second
			if there[id] {
				want.Skipped++
				continue
			}
			there[id] = true
			want.Rows++
			copyRow(all, b, i)
		}
		if !db.Capabilities().Stores {
			want = engine.Ack{Rows: int64(len(ids))} // it stores no keys, so it skips nothing
		}
		ack, err := w.Write(within(t), b)
		if err != nil || ack.Rows != want.Rows || ack.Skipped != want.Skipped || len(ack.Warnings) > 0 {
			t.Fatalf("rows %v: acknowledged %+v, error %v; want %+v", ids, ack, err, want)
		}
	}
	for range 2 {
		put(1)
		put(2)
		put(1, 2)
	}
	put(2, 3, 3, 4)
	many := make([]int64, 3000)
	for i := range many {
		many[i] = int64(i) * 2 % 2000 // each two or three times
	}
	put(many...)
	wantRows(t, db, table, all)
	if !table.Rolling() || !db.Capabilities().Stores {
		return
	}
	// A row outside every period is not a duplicate. No row of its batch is kept,
	// whether it is alone or with others, of which one is skipped.
	for _, n := range []int{1, 3} {
		b.Reset()
		f.fill(b, 5000, n)
		for i := range n {
			b.Columns[1].Ints[i] = start + (5000+int64(i))*second
		}
		b.Columns[1].Ints[n-1] = start + 365*day
		if n > 1 {
			b.Columns[0].Ints[0], b.Columns[1].Ints[0] = 1, start+second
		}
		_, err := w.Write(within(t), b)
		wantError(t, err, engine.ErrNoPartition)
		if err := w.Reset(within(t)); err != nil {
			t.Fatal(err)
		}
		wantRows(t, db, table, all)
	}
	put(1, 6000)
	wantRows(t, db, table, all)
}
