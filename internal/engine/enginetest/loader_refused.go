package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// strictTypes reports whether the engine checks a value against its column's type.
// SQLite does not.
func (lo *loading) strictTypes() bool { return !lo.db.Capabilities().Untyped }

// refusals returns batches of which only the last row is refused.
func (lo *loading) refusals() []Refusal {
	lo.Helper()
	null := engine.NewBatch(lo.notes.Columns)
	null.Columns[0].AppendBytes([]byte("null 1"))
	null.Columns[0].AppendBytes([]byte("null 2"))
	null.Columns[1].Ints = append(null.Columns[1].Ints, 1)
	null.Columns[1].AppendNull()
	null.EndRows(2)
	outside := lo.readings(801, 802)
	outside.Columns[1].Ints[1] = lo.parts[1].To + day
	out := []Refusal{
		{Name: "a key that is there", of: lo.notes, rows: lo.entries("fresh 2", "there"), Class: engine.ErrDuplicateKey},
		{Name: "a key twice", of: lo.notes, rows: lo.entries("fresh 3", "fresh 3"), Class: engine.ErrDuplicateKey},
		{Name: "a key of a period that is there", of: lo.rolls, rows: lo.readings(800, 7), Class: engine.ErrDuplicateKey},
		{Name: "NULL where it can't be", of: lo.notes, rows: null},
		{Name: "outside every period", of: lo.rolls, rows: outside, Class: engine.ErrNoPartition},
	}
	if !lo.strictTypes() {
		return out
	}
	for name, row := range map[string][]string{
		"no number": {"x", "abc"}, "half a number": {"x", "12 apples"}, "empty text for a number": {"x", ""}, "a number that is too large": {"x", "3000000000"},
		"text that is too long": {"a key of twenty-one c", "1"},
	} {
		table, b := texts("notes", []string{"k", "n"}, []string{"fresh 1", "1"}, row)
		out = append(out, Refusal{Name: name, of: table, rows: b})
	}
	for name, at := range map[string]string{"no time": "yesterdayish", "a day that never was": "2026-02-30 00:00:00"} {
		table, b := texts("notes", []string{"k", "n", "at"}, []string{"fresh 4", "1", "2026-02-28 00:00:00"}, []string{"x", "1", at})
		out = append(out, Refusal{Name: name, of: table, rows: b})
	}
	table, b := texts("readings", []string{"id", "ts", "price"}, []string{"803", "2026-11-20 00:00:00", "12345678.1234"}, []string{"804", "2026-11-20 00:00:00", "123456789.1234"})
	table.Grid, table.By = lo.rolls.Grid, lo.rolls.By
	return append(out, Refusal{Name: "a decimal that is too large", of: table, rows: b})
}

// there is loading with a row in each table. Some refusals have the keys of these rows.
func (s loaders) there(t *testing.T) *loading {
	lo := s.loading(t)
	lo.begin()
	lo.insert(lo.notes, lo.entries("there"))
	lo.insert(lo.rolls, lo.readings(7))
	lo.commit()
	return lo
}

func (s loaders) refused(t *testing.T) {
	lo := s.there(t)
	Refusals{Tables: []string{"notes", "readings"}, Refused: lo.refusals()}.Run(t, lo.db)
}

// ignoreRefused checks that Ignore skips only rows with existing keys, and that
// other rows are refused even after some were skipped.
func (s loaders) ignoreRefused(t *testing.T) {
	lo := s.there(t)
	for i, r := range lo.refusals() {
		if r.Class == engine.ErrDuplicateKey {
			continue
		}
		table, some, skips := *r.of, *lo.notes, *lo.rolls
		table.Ignore, some.Ignore, skips.Ignore = true, true, true
		lo.begin()
		lo.refuse(&table, r.rows) // as the transaction's first Insert
		lo.insertSome(&some, lo.entries("there", fmt.Sprint("x", i)), 0, 2, engine.Ack{Rows: 1, Skipped: 1})
		lo.refuse(&table, r.rows)
		lo.insertSome(&skips, lo.readings(7, int64(100+i)), 0, 2, engine.Ack{Rows: 1, Skipped: 1})
		lo.refuse(&table, r.rows)
		// The refused row alone.
		alone := r.rows.Rows() - 1
		if _, err := lo.l.Insert(within(lo), &table, r.rows, alone, alone+1); !errors.Is(err, engine.ErrRefused) {
			lo.Fatalf("%s, alone: %v", r.Name, err)
		}
		lo.commit()
	}
	n := len(lo.refusals()) - 3 + 1
	lo.rows(n, n)
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

// notRefused checks that an error that the row didn't cause isn't engine.ErrRefused.
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

// Refusals are rows whose insert must fail.
type Refusals struct {
	// Setup are the statements that create Tables. The number of rows in Tables must stay the same.
	Setup  []string
	Tables []string
	// Refused are bad rows: their inserts fail with engine.ErrRefused, and the transaction goes on.
	// Ended are rows whose insert fails for another reason, and ends the transaction.
	Refused, Ended []Refusal
}

// A Refusal is one row whose insert must fail. The error must be of class Class, and contain Text;
// nil and "" allow any error. Before and After may be nil; they are called before and after the
// insert.
type Refusal struct {
	Name, Table   string
	Row           []any // names and values of columns: text, int64 or nil
	Class         error
	Text          string
	Before, After func()

	of   *engine.Table // instead of Table and Row
	rows *engine.Batch
}

// batch returns the table and the row as a loader needs them.
func (r Refusal) batch() (*engine.Table, *engine.Batch) {
	if r.of != nil {
		return r.of, r.rows
	}
	t := &engine.Table{Name: r.Table}
	for i := 0; i < len(r.Row); i += 2 {
		kind := engine.Varchar
		if _, ok := r.Row[i+1].(int64); ok {
			kind = engine.Int64
		}
		t.Columns = append(t.Columns, engine.Column{Name: r.Row[i].(string), Type: kind, Size: 1000, Null: true})
	}
	b := engine.NewBatch(t.Columns)
	for i := range b.Columns {
		switch v := r.Row[2*i+1].(type) {
		case nil:
			b.Columns[i].AppendNull()
		case int64:
			b.Columns[i].Ints = append(b.Columns[i].Ints, v)
		case string:
			b.Columns[i].AppendBytes([]byte(v))
		}
	}
	b.EndRow()
	return t, b
}

// Run checks that a refused row leaves the transaction as it was, whether it is the first
// Insert or a later one, and that any other error ends the transaction.
func (x Refusals) Run(t *testing.T, db engine.Keeper) {
	lo := &loading{TB: t, kept: &kept{db: db}, l: OpenLoader(t, db)}
	for _, q := range append(x.Setup, "CREATE TABLE entries (k VARCHAR(20) NOT NULL PRIMARY KEY, n INT NOT NULL)") {
		lo.exec(lo, db.SQL(), q)
	}
	lo.notes = &engine.Table{Name: "entries", Columns: []engine.Column{{Name: "k", Type: engine.Varchar, Size: 20}, {Name: "n", Type: engine.Int32}}}
	counts := func() (out []int) {
		for _, table := range x.Tables {
			out = append(out, lo.count(table))
		}
		return out
	}
	before := counts()
	for i, r := range append(x.Refused, x.Ended...) {
		t.Run(r.Name, func(t *testing.T) {
			lo := *lo
			lo.TB = t
			table, b := r.batch()
			for _, first := range []bool{true, false} {
				there := lo.count("entries")
				lo.begin()
				if !first {
					lo.insert(lo.notes, lo.entries(fmt.Sprint("before ", i)))
				}
				if i >= len(x.Refused) {
					r.ends(&lo, table, b)
					want(t, "rows", lo.count("entries"), there)
					continue
				}
				lo.refuse(table, b, slices.DeleteFunc([]error{r.Class}, func(err error) bool { return err == nil })...)
				lo.refuse(table, b)
				lo.insert(lo.notes, lo.entries(fmt.Sprint("later ", i, first)))
				lo.refuse(table, b)
				lo.commit()
				want(t, "rows", lo.count("entries"), there+map[bool]int{true: 1, false: 2}[first])
			}
			if after := counts(); !slices.Equal(after, before) {
				t.Errorf("%d rows of %s, before %d", after, x.Tables, before)
			}
		})
	}
}

// ends inserts a row whose error ends the transaction.
func (r Refusal) ends(lo *loading, table *engine.Table, b *engine.Batch) {
	lo.Helper()
	if r.Before != nil {
		r.Before()
	}
	_, err := lo.l.Insert(within(lo), table, b, 0, 1)
	if r.After != nil {
		r.After()
	}
	if err == nil || errors.Is(err, engine.ErrRefused) || engine.Retryable(err) || r.Class != nil && !errors.Is(err, r.Class) || !strings.Contains(err.Error(), r.Text) {
		lo.Fatalf("got %v", err)
	}
	if _, err := lo.l.Insert(within(lo), lo.notes, lo.entries("over"), 0, 1); err == nil || errors.Is(err, engine.ErrRefused) {
		lo.Errorf("in a transaction that is over: %v", err)
	}
	if err := lo.l.Commit(within(lo)); err == nil {
		lo.Error("a transaction that is over was committed")
	}
	lo.reset()
}
