package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// mirror keeps a rolling table equal to a plain one, exchanges their names, and turns back.
func (s keepers) mirror(t *testing.T) {
	db := s.open(t)
	k := created(t, db, "kept_new", "time", 3)
	k.exec(t, db.SQL(), strings.Replace(k.Definition.Text, k.quote("kept_new"), k.quote("kept"), 1))
	plain := *k
	plain.Table = &engine.Table{Name: "kept"}
	schema := plain.schema(t, "kept")
	var key, cols []engine.SchemaColumn
	for _, c := range schema.Columns {
		cols = append(cols, c)
		if slices.Contains(schema.PrimaryKey, c.Name) {
			key = append(key, c)
		}
	}
	table := *k.Table
	table.Name = "kept"
	m := engine.Mirror{DB: db, Table: &table, Aside: "kept_old", Log: "kept_log", Late: "kept_late", Columns: cols, Plain: key,
		Source: engine.MirrorSide{Name: "kept", Key: key}, Target: engine.MirrorSide{Name: "kept_new", Key: key, Rolls: true, Periods: k.parts}}
	sql := db.Mirroring(&m)
	hook := func() {
		t.Helper()
		for _, q := range sql.Tables() {
			k.exec(t, db.SQL(), q)
		}
		triggers, err := sql.Triggers(within(t))
		Must(t, err)
		for _, trigger := range triggers {
			if err := sql.CreateTrigger(within(t), trigger); err != nil {
				t.Fatalf("%s: %v", trigger.Name, err)
			}
		}
		var names []string
		for _, trigger := range triggers {
			names = append(names, trigger.Name)
		}
		if have := k.schema(t, m.Source.Name).Triggers; !slices.Equal(slices.Sorted(slices.Values(have)), names) {
			t.Fatalf("triggers %q, want %q", have, names)
		}
	}
	unhook := func(on string) {
		t.Helper()
		triggers, functions := sql.DropTriggers(on)
		for _, q := range append(append(triggers, functions...), "DROP TABLE "+k.quote(m.Log)) {
			k.exec(t, db.SQL(), q)
		}
	}
	replay := func(limit int, later engine.Predicate) {
		t.Helper()
		for n := 1; n > 0; {
			tx, err := db.SQL().BeginTx(within(t), nil)
			Must(t, err)
			if n, err = sql.Replay(within(t), tx, limit, later); err != nil {
				t.Fatalf("replay: %v", db.Classify(err))
			}
			Must(t, tx.Commit())
		}
	}
	equal := func() {
		t.Helper()
		want(t, "the target", k.of(t, m.Target.Name), k.of(t, m.Source.Name))
	}
	hook()
	plain.insert(t, k.parts, 0, 40)
	replay(7, engine.Predicate{})
	want(t, "rows of the target", k.of(t, "kept_new").Rows, 120)
	equal()
	// Four rows: one changes, one moves to another period, one is deleted, one leaves all periods.
	id := func(i, row int) string { return fmt.Sprint(k.at(k.parts[i], row) / 1000) }
	at := func(i, row int) string { return k.Words().Literal(&table, k.at(k.parts[i], row)) }
	k.exec(t, db.SQL(), "UPDATE kept SET n = -1 WHERE id = "+id(0, 3))
	k.exec(t, db.SQL(), "UPDATE kept SET ts = "+at(2, 500)+" WHERE id = "+id(0, 4))
	k.exec(t, db.SQL(), "DELETE FROM kept WHERE id = "+id(1, 5))
	k.exec(t, db.SQL(), "UPDATE kept SET ts = "+k.Words().Literal(&table, k.parts[2].To+5*day)+" WHERE id = "+id(1, 6))
	replay(1000, engine.Predicate{})
	want(t, "rows outside of every period", countRows(t, db, m.Late), 1)
	want(t, "rows of the target", k.of(t, "kept_new").Rows, k.of(t, "kept").Rows-1)
	k.exec(t, db.SQL(), "DELETE FROM kept WHERE id = "+id(1, 6))
	replay(1000, engine.Predicate{})
	want(t, "rows outside of every period", countRows(t, db, m.Late), 0)
	equal()
	// An entry of a row that the copy has yet to reach is discarded, unless the engine
	// has one writer at a time.
	k.exec(t, db.SQL(), "UPDATE kept SET n = -2 WHERE id = "+id(2, 1))
	replay(1000, engine.Predicate{Text: "id > ?", Args: []any{k.at(k.parts[1], 999) / 1000}})
	if got := countRows(t, db, "kept_new WHERE n = -2"); got != 0 && !db.Capabilities().SerialWrites {
		t.Errorf("%d rows were copied that the copy has yet to reach", got)
	}
	k.exec(t, db.SQL(), "UPDATE kept SET n = -2 WHERE id = "+id(2, 1))

	final := 0
	cutOver := func(point string) error {
		return sql.CutOver(within(t), engine.CutOver{
			Point: func(name string) error {
				if name == point {
					return context.Canceled
				}
				return nil
			},
			Final: func(ctx context.Context, x engine.Exec) error {
				final++
				n, err := sql.Replay(ctx, x, 1000, engine.Predicate{})
				if err == nil && n == 0 && !m.Source.Rolls && point == "" {
					t.Error("no change was left for the cut-over")
				}
				return err
			},
			Record: func(ctx context.Context, x engine.Exec) error { return nil },
		})
	}
	// A cut-over that is broken off under the lock changes nothing and can be repeated.
	if err := cutOver("swap: locked"); err == nil {
		t.Error("a cut-over that was broken off succeeded")
	}
	Must(t, sql.Recover(within(t)))
	want(t, "the table is rolling", k.schema(t, "kept").Partitioned, false)
	Must(t, Retry(t, func() error { final = 0; return cutOver("") }))
	k.Table = &table
	want(t, "calls under the lock", final, 1)
	want(t, "the table is rolling", k.schema(t, "kept").Partitioned, true)
	want(t, "the table", k.of(t, "kept"), k.of(t, "kept_old"))
	want(t, "changed rows", countRows(t, db, "kept WHERE n = -2"), 1)
	unhook("kept_old")

	parts, err := db.Catalog().Partitions(within(t), &table)
	Must(t, err)
	// Back to a plain table, unless the rolling one is a view: no trigger sees the changes of a view.
	m.Source, m.Target, m.Aside = engine.MirrorSide{Name: "kept", Key: key, Rolls: true, Periods: parts}, engine.MirrorSide{Name: "kept_old", Key: key}, "kept_new"
	sql = db.Mirroring(&m)
	if db.Capabilities().PeriodTables {
		if s := k.schema(t, "kept"); !s.View {
			t.Error("a rolling table is no view")
		}
		return
	}
	hook()
	k.exec(t, db.SQL(), "UPDATE kept SET n = -3 WHERE id = "+id(2, 2))
	Must(t, cutOver(""))
	want(t, "the table is rolling", k.schema(t, "kept").Partitioned, false)
	want(t, "changed rows", countRows(t, db, "kept WHERE n = -3"), 1)
	unhook("kept_new")
}

// keys checks that a row is found by the text of each of its values. It then checks that CopyRows
// copies rows, and that CopyRows fails if a row's key already exists or, with Skip, keeps the
// existing row.
func (s keepers) keys(t *testing.T) {
	db := s.open(t)
	k := created(t, db, "kept", "sequence", 1)
	k.insert(t, k.parts, 0, 20)
	k.exec(t, db.SQL(), fmt.Sprintf("UPDATE kept SET n = 1, price = 2.5, value = 0.25, note = %s WHERE id < 10", "'x'"))
	k.template(t, "copied")
	for _, c := range k.schema(t, "kept").Columns {
		if !slices.Contains([]string{"id", "ts", "n", "price", "value", "note", "raw"}, c.Name) {
			continue
		}
		text := one[string](t, db, "SELECT "+db.Words().KeyText(c)+" FROM kept WHERE id = 7")
		place, value, err := db.Words().KeyValue(c, text)
		Must(t, err)
		if n := one[int](t, db, "SELECT COUNT(*) FROM kept WHERE id = 7 AND "+k.quote(c.Name)+" = "+place, value); n != 1 {
			t.Errorf("%s = %s, with %q: %d rows", c.Name, place, text, n)
		}
	}
	rows := engine.CopyRows{Into: k.quote("copied"), From: k.Words().From(k.Table, k.parts[0]), Columns: k.schema(t, "kept").Names(), Key: []string{"id"}, Where: "id < 10"}
	k.exec(t, db.SQL(), db.Words().CopyRows(rows))
	if err := k.try(db.SQL(), db.Words().CopyRows(rows)); err == nil {
		t.Error("rows whose keys exist were copied")
	}
	rows.Where, rows.Skip = "id < 20", true
	k.exec(t, db.SQL(), "UPDATE copied SET n = 99 WHERE id = 3")
	k.exec(t, db.SQL(), db.Words().CopyRows(rows))
	want(t, "copied rows", countRows(t, db, "copied"), 20)
	want(t, "kept rows", countRows(t, db, "copied WHERE n = 99"), 1)
	if db.Capabilities().RowValues {
		want(t, "rows after a key", countRows(t, db, "kept WHERE (id, n) > (7, 0) AND id < 10"), 3)
	}
}

// countRows counts the rows of an operand of FROM.
func countRows(t testing.TB, db engine.Keeper, from string) int64 {
	t.Helper()
	return one[int64](t, db, "SELECT COUNT(*) FROM "+from)
}

// one returns the only value of a query's only row.
func one[T any](t testing.TB, db engine.Keeper, q string, args ...any) (v T) {
	t.Helper()
	if err := db.SQL().QueryRowContext(within(t), db.Bind(q), args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", q, db.Classify(err))
	}
	return v
}
