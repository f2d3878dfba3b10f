package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// A refusal is a batch of rows that a server refuses.
type refusal struct {
	name    string
	table   *engine.Table
	batch   *engine.Batch
	classes []error
}

// strictTypes reports whether the engine checks a value against its column's type.
// SQLite does not.
func (lo *loading) strictTypes() bool { return !lo.db.Capabilities().Untyped }

// refusals returns batches of which only the last row is refused.
func (lo *loading) refusals() []refusal {
	lo.Helper()
	null := engine.NewBatch(lo.notes.Columns)
	for i := range 3 {
		null.Columns[0].AppendBytes(fmt.Appendf(nil, "null %d", i))
		if i == 2 {
			null.Columns[1].AppendNull()
		} else {
			null.Columns[1].Ints = append(null.Columns[1].Ints, 1)
		}
		null.EndRow()
	}
	outside := lo.readings(801, 802)
	outside.Columns[1].Ints[1] = lo.parts[1].To + day
	first := []string{"fresh 1", "1"}
	out := []refusal{
		{"a key that is there", lo.notes, lo.entries("fresh 2", "there"), []error{engine.ErrDuplicateKey}},
		{"a key twice", lo.notes, lo.entries("fresh 3", "fresh 3"), []error{engine.ErrDuplicateKey}},
		{"a key of a period that is there", lo.rolls, lo.readings(800, 7), []error{engine.ErrDuplicateKey}},
		{"NULL where it can't be", lo.notes, null, nil},
		{"outside every period", lo.rolls, outside, []error{engine.ErrNoPartition}},
	}
	if !lo.strictTypes() {
		return out
	}
	for name, row := range map[string][]string{
		"no number": {"x", "abc"}, "half a number": {"x", "12 apples"}, "empty text for a number": {"x", ""}, "a number that is too large": {"x", "3000000000"},
		"text that is too long": {"a key of twenty-one c", "1"},
	} {
		table, b := texts("notes", []string{"k", "n"}, first, row)
		out = append(out, refusal{name, table, b, nil})
	}
	for name, at := range map[string]string{"no time": "yesterdayish", "a day that never was": "2026-02-30 00:00:00"} {
		table, b := texts("notes", []string{"k", "n", "at"}, []string{"fresh 4", "1", "2026-02-28 00:00:00"}, []string{"x", "1", at})
		out = append(out, refusal{name, table, b, nil})
	}
	table, b := texts("readings", []string{"id", "ts", "price"}, []string{"803", "2026-11-20 00:00:00", "12345678.1234"}, []string{"804", "2026-11-20 00:00:00", "123456789.1234"})
	table.Grid, table.By = lo.rolls.Grid, lo.rolls.By
	return append(out, refusal{"a decimal that is too large", table, b, nil})
}

// eachRefusal runs fn for each refusal in turn, except those with the class
// without. Each table has i+1 rows before fn, which must commit one more to each.
func (s loaders) eachRefusal(t *testing.T, without error, fn func(lo *loading, i int, r refusal)) {
	all := s.loading(t)
	all.begin()
	all.insert(all.notes, all.entries("there"))
	all.insert(all.rolls, all.readings(7))
	all.commit()
	refusals := slices.DeleteFunc(all.refusals(), func(r refusal) bool { return without != nil && slices.Contains(r.classes, without) })
	for i, r := range refusals {
		t.Run(r.name, func(t *testing.T) {
			lo := *all
			lo.TB = t
			fn(&lo, i, r)
			lo.rows(i+2, i+2)
		})
	}
}

// refused checks that a refused Insert doesn't undo earlier ones of the
// transaction, and that later ones and Commit succeed.
func (s loaders) refused(t *testing.T) {
	s.eachRefusal(t, nil, func(lo *loading, i int, r refusal) {
		lo.begin()
		lo.insert(lo.notes, lo.entries(fmt.Sprint("before ", i)))
		for range 2 {
			lo.refuse(r.table, r.batch, r.classes...)
		}
		lo.insert(lo.rolls, lo.readings(int64(100+i)))
		lo.refuse(r.table, r.batch, r.classes...)
		lo.commit()
		lo.rows(i+2, i+2)
		// The whole transaction can still be rolled back.
		lo.begin()
		lo.insert(lo.notes, lo.entries(fmt.Sprint("after ", i)))
		lo.refuse(r.table, r.batch, r.classes...)
		lo.reset()
	})
}

// refusedFirst is refused with the refused Insert as the first of the transaction.
func (s loaders) refusedFirst(t *testing.T) {
	s.eachRefusal(t, nil, func(lo *loading, i int, r refusal) {
		lo.begin()
		lo.refuse(r.table, r.batch, r.classes...)
		lo.refuse(r.table, r.batch, r.classes...)
		lo.insert(lo.notes, lo.entries(fmt.Sprint("later ", i)))
		lo.insert(lo.rolls, lo.readings(int64(100+i)))
		lo.rows(i+1, i+1)
		lo.commit()
		lo.rows(i+2, i+2)
		lo.begin()
		lo.refuse(r.table, r.batch, r.classes...)
		lo.commit()
	})
}

// ignoreRefused checks that Ignore skips only rows with existing keys, and that
// other rows are refused even after some were skipped.
func (s loaders) ignoreRefused(t *testing.T) {
	s.eachRefusal(t, engine.ErrDuplicateKey, func(lo *loading, i int, r refusal) {
		table, some, skips := *r.table, *lo.notes, *lo.rolls
		table.Ignore, some.Ignore, skips.Ignore = true, true, true
		lo.begin()
		lo.refuse(&table, r.batch, r.classes...) // the first
		lo.insertSome(&some, lo.entries("there", fmt.Sprint("x", i)), 0, 2, engine.Ack{Rows: 1, Skipped: 1})
		lo.refuse(&table, r.batch, r.classes...)
		lo.insertSome(&skips, lo.readings(7, int64(100+i)), 0, 2, engine.Ack{Rows: 1, Skipped: 1})
		lo.refuse(&table, r.batch, r.classes...)
		// The refused row alone.
		alone := r.batch.Rows() - 1
		if _, err := lo.l.Insert(within(lo), &table, r.batch, alone, alone+1); !errors.Is(err, engine.ErrRefused) {
			lo.Fatalf("alone: %v", err)
		}
		lo.commit()
	})
}

// refusedByTrigger checks that the error of a trigger that refuses rows of a sealed
// period is a refusal, and that an Insert with one such row inserts nothing.
func (s loaders) refusedByTrigger(t *testing.T) {
	lo := s.loading(t)
	words, ok := lo.Words().(engine.LateWords)
	if !ok {
		t.Fatal("the engine can't refuse late rows")
	}
	boundary := fmt.Sprintf("(SELECT %d)", lo.parts[0].From+1000*second)
	var periods []string
	if lo.schema(t, lo.rolls.Name).View {
		for _, p := range lo.parts {
			periods = append(periods, lo.rolls.Name+"_"+p.Name)
		}
	}
	for _, trigger := range words.Refuse(lo.Table, periods, boundary) {
		for _, q := range trigger.Statements {
			lo.exec(t, lo.db.SQL(), q)
		}
	}
	for _, ignore := range []bool{false, true} {
		table := *lo.rolls
		table.Ignore = ignore
		before := lo.count("readings")
		lo.begin()
		lo.refuse(&table, lo.readings(2000, 7))
		lo.insert(&table, lo.readings(int64(2000+before)))
		lo.refuse(&table, lo.readings(3000, 7))
		lo.commit()
		lo.rows(before+1, 0)
	}
}

// notRefused checks that errors not caused by the rows are not refusals.
func (s loaders) notRefused(t *testing.T) {
	lo := s.loading(t)
	for name, columns := range map[string][]string{"no such column": {"k", "nowhere"}} {
		t.Run(name, func(t *testing.T) {
			table, b := texts("notes", columns, []string{"a", "1"})
			lo.begin()
			if _, err := lo.l.Insert(within(t), table, b, 0, 1); err == nil || errors.Is(err, engine.ErrRefused) || engine.Retryable(err) {
				t.Errorf("got %v", err)
			}
			lo.reset()
		})
	}
	lo.begin()
	if _, err := lo.l.Insert(within(t), lo.notes, lo.readings(1), 0, 1); err == nil || errors.Is(err, engine.ErrRefused) {
		t.Errorf("a batch of other columns: %v", err)
	}
	lo.reset()
	for _, r := range [][2]int{{-1, 1}, {0, 2}, {1, 0}} {
		lo.begin()
		if _, err := lo.l.Insert(within(t), lo.notes, lo.entries("a"), r[0], r[1]); err == nil || errors.Is(err, engine.ErrRefused) {
			t.Errorf("rows %d to %d of one: %v", r[0], r[1], err)
		}
		lo.reset()
	}
	lo.rows(0, 0)
}
