package enginetest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// RunLoader runs the suite for engines that insert into several tables in one
// transaction. open is as for RunKeeper.
func RunLoader(t *testing.T, open func(testing.TB) engine.Keeper) {
	s := loaders{keepers{open}}
	beside(t, append(s.rows(), []test{
		{"Together", s.together},
		{"Transactions", s.transactions},
		{"Has", s.has},
		{"Waits", s.waits},
		{"LockTimeout", s.lockTimeout},
		{"CancelBetween", s.cancelBetween},
		{"TwoAtOnce", s.twoAtOnce},
		{"Closed", s.loaderClosed},
	}...))
}

// RunLoaderRows is for an engine with several ways to send rows. It runs those tests of the suite
// whose outcome depends on the way; in the nightly run, it runs all of them.
func RunLoaderRows(t *testing.T, open func(testing.TB) engine.Keeper) {
	if os.Getenv(nightly) != "" {
		RunLoader(t, open)
		return
	}
	beside(t, loaders{keepers{open}}.rows())
}

func (s loaders) rows() []test {
	return []test{
		{"Refused", s.refused},
		{"RefusedByTrigger", s.refusedByTrigger},
		{"NotRefused", s.notRefused},
		{"Ignore", s.ignoring},
		{"IgnoreRefused", s.ignoreRefused},
		{"Update", s.updating},
		{"UpdateRefused", s.updateRefused},
		{"Compare", s.compare},
		{"CompareAsStored", s.compareAsStored},
		{"CompareKeys", s.compareKeys},
		{"RoundTrip", s.loadRoundTrip},
		{"Text", s.loadText},
		{"OddText", s.oddText},
		{"ZeroBytes", s.loadZeroBytes},
		{"Binary", s.loadBinary},
		{"Fractions", s.fractions},
		{"Subranges", s.subranges},
		{"ManyRows", s.manyRows},
		{"LongRows", s.longRows},
		{"OddNames", s.loadOddNames},
		{"CancelWait", s.cancelWait},
	}
}

type loaders struct{ keepers }

// OpenLoader opens a loader that is closed when the test ends.
func OpenLoader(t testing.TB, db engine.Keeper) engine.Loader {
	t.Helper()
	l, err := db.Loader(within(t))
	if err != nil {
		t.Fatalf("loader: %v", err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close loader: %v", err)
		}
	})
	return l
}

// A loading is a loader and the two tables that it fills: readings, a rolling
// table of two days with the key (id, ts), and notes, a plain table with a key, a
// number and a time.
type loading struct {
	testing.TB
	*kept
	l engine.Loader
	// rolls and notes are the tables readings and notes as the loader needs them.
	rolls, notes *engine.Table
}

// keptColumns returns the columns of a kept as the columns of a batch.
func keptColumns() []engine.Column {
	return []engine.Column{
		{Name: "id", Type: engine.Int64}, {Name: "ts", Type: engine.Time}, {Name: "n", Type: engine.Int32, Null: true},
		{Name: "price", Type: engine.Decimal, Size: 12, Scale: 4, Null: true}, {Name: "value", Type: engine.Float64, Null: true},
		{Name: "note", Type: engine.Varchar, Size: 200, Null: true}, {Name: "raw", Type: engine.Binary, Null: true},
	}
}

func (s loaders) loading(t testing.TB) *loading {
	t.Helper()
	db := s.open(t)
	lo := &loading{TB: t, kept: created(t, db, "readings", "time", 2), l: OpenLoader(t, db)}
	lo.rolls = &engine.Table{Name: "readings", Columns: keptColumns(), Grid: lo.Grid, By: lo.By}
	lo.plain("notes", "k VARCHAR(20) NOT NULL PRIMARY KEY, n INT NOT NULL, at "+types[db.Info().Engine].time)
	lo.notes = &engine.Table{Name: "notes", Columns: []engine.Column{{Name: "k", Type: engine.Varchar, Size: 20}, {Name: "n", Type: engine.Int32}}}
	return lo
}

// plain creates a plain table.
func (lo *loading) plain(name, columns string) {
	lo.Helper()
	lo.exec(lo, lo.db.SQL(), "CREATE TABLE "+lo.quote(name)+" ("+columns+")")
}

// another returns the same tables with a new loader.
func (lo *loading) another() *loading {
	lo.Helper()
	o := *lo
	o.l = OpenLoader(lo, lo.db)
	return &o
}

// readings returns a row of the first day for each id; its time is id seconds after the day's
// start. Nullable values are NULL.
func (lo *loading) readings(ids ...int64) *engine.Batch {
	b := engine.NewBatch(lo.rolls.Columns)
	for _, id := range ids {
		b.Columns[0].Ints = append(b.Columns[0].Ints, id)
		b.Columns[1].Ints = append(b.Columns[1].Ints, lo.parts[0].From+id*second)
		for c := 2; c < len(b.Columns); c++ {
			b.Columns[c].AppendNull()
		}
		b.EndRow()
	}
	return b
}

// entries returns rows of notes.
func (lo *loading) entries(keys ...string) *engine.Batch {
	b := engine.NewBatch(lo.notes.Columns)
	for i, k := range keys {
		b.Columns[0].AppendBytes([]byte(k))
		b.Columns[1].Ints = append(b.Columns[1].Ints, int64(i))
		b.EndRow()
	}
	return b
}

// texts returns a table whose columns have these names and a text type, and a batch with these
// rows.
func texts(table string, columns []string, rows ...[]string) (*engine.Table, *engine.Batch) {
	t := &engine.Table{Name: table}
	for _, c := range columns {
		t.Columns = append(t.Columns, engine.Column{Name: c, Type: engine.Varchar, Size: 1000, Null: true})
	}
	b := engine.NewBatch(t.Columns)
	for _, r := range rows {
		for c := range r {
			b.Columns[c].AppendBytes([]byte(r[c]))
		}
		b.EndRow()
	}
	return t, b
}

// Begin begins a transaction, and Commit commits it.
func Begin(t testing.TB, l engine.Loader) {
	t.Helper()
	if err := l.Begin(within(t)); err != nil {
		t.Fatalf("begin: %v", err)
	}
}

func Commit(t testing.TB, l engine.Loader) {
	t.Helper()
	if err := l.Commit(within(t)); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

// Insert inserts all rows of a batch, none of which may be skipped.
func Insert(t testing.TB, l engine.Loader, table *engine.Table, b *engine.Batch) {
	t.Helper()
	insertSome(t, l, table, b, 0, b.Rows(), engine.Ack{Rows: int64(b.Rows())})
}

func insertSome(t testing.TB, l engine.Loader, table *engine.Table, b *engine.Batch, from, to int, want engine.Ack) {
	t.Helper()
	ack, err := l.Insert(within(t), table, b, from, to)
	if err != nil {
		t.Fatalf("insert into %s: %v", table.Name, err)
	}
	if ack.Rows != want.Rows || ack.Skipped != want.Skipped {
		t.Fatalf("insert into %s: acknowledged %d and skipped %d rows, want %d and %d", table.Name, ack.Rows, ack.Skipped, want.Rows, want.Skipped)
	}
}

// Refuse inserts rows that must be refused. The error must have these classes, too.
func Refuse(t testing.TB, l engine.Loader, table *engine.Table, b *engine.Batch, classes ...error) {
	t.Helper()
	ack, err := l.Insert(within(t), table, b, 0, b.Rows())
	for _, class := range append(classes, engine.ErrRefused) {
		if !errors.Is(err, class) {
			t.Fatalf("insert into %s: acknowledged %d rows, error %v; want one of class %q", table.Name, ack.Rows, err, class)
		}
	}
	if engine.Retryable(err) {
		t.Errorf("rows that are refused are called retryable: %v", err)
	}
	if ack.Rows != 0 || ack.Skipped != 0 {
		t.Errorf("acknowledged %+v of rows that were refused", ack)
	}
}

func (lo *loading) begin()  { lo.Helper(); Begin(lo, lo.l) }
func (lo *loading) commit() { lo.Helper(); Commit(lo, lo.l) }

func (lo *loading) reset() {
	lo.Helper()
	if err := lo.l.Reset(within(lo)); err != nil {
		lo.Fatalf("reset: %v", err)
	}
}

func (lo *loading) insert(t *engine.Table, b *engine.Batch) {
	lo.Helper()
	Insert(lo, lo.l, t, b)
}

func (lo *loading) insertSome(t *engine.Table, b *engine.Batch, from, to int, want engine.Ack) {
	lo.Helper()
	insertSome(lo, lo.l, t, b, from, to, want)
}

func (lo *loading) refuse(t *engine.Table, b *engine.Batch, classes ...error) {
	lo.Helper()
	Refuse(lo, lo.l, t, b, classes...)
}

// count returns the number of rows that other connections see.
func (lo *loading) count(from string) int {
	lo.Helper()
	var n int
	q := "SELECT COUNT(*) FROM " + from
	if err := lo.db.SQL().QueryRowContext(within(lo), q).Scan(&n); err != nil {
		lo.Fatalf("%s: %v", q, lo.db.Classify(err))
	}
	return n
}

// rows checks the numbers of rows in both tables.
func (lo *loading) rows(readings, notes int) {
	lo.Helper()
	if r, n := lo.count("readings"), lo.count("notes"); r != readings || n != notes {
		lo.Fatalf("there are %d readings and %d notes, want %d and %d", r, n, readings, notes)
	}
}

// together checks that rows of two tables are committed together, only by Commit.
func (s loaders) together(t *testing.T) {
	lo := s.loading(t)
	fill := func(n int64) {
		t.Helper()
		lo.begin()
		lo.insert(lo.notes, lo.entries(fmt.Sprint(n)))
		lo.insert(lo.rolls, lo.readings(n*10, n*10+1))
	}
	fill(1)
	lo.rows(0, 0)
	lo.commit()
	lo.rows(2, 1)
	fill(2)
	lo.reset()
	lo.rows(2, 1)
	fill(2)
	lo.commit()
	lo.rows(4, 2)
	other := lo.another()
	other.begin()
	other.insert(lo.notes, lo.entries("gone"))
	other.insert(lo.rolls, lo.readings(90))
	Must(t, errors.Join(other.l.Close(), other.l.Close()))
	fill(3)
	lo.commit()
	lo.rows(6, 3)
	lo.begin()
	lo.commit() // empty
	lo.rows(6, 3)
}

// has checks that a loader finds rows by their values, both its own and those
// committed by others, and that the transaction continues.
func (s loaders) has(t *testing.T) {
	lo := s.loading(t)
	look := func(want ...bool) {
		t.Helper()
		var rows []engine.Rows
		for _, k := range []string{"o'ne", `t\wo`, "three", ""} {
			table, b := texts("notes", []string{"k"}, []string{k})
			rows = append(rows, engine.Rows{Table: table, Batch: b})
		}
		b := lo.entries("o'ne")
		b.Columns[1].Ints[0] = 1
		got, err := lo.l.Has(within(t), append(rows, engine.Rows{Table: lo.notes, Batch: lo.entries("o'ne")}, engine.Rows{Table: lo.notes, Batch: b})...)
		if err != nil {
			t.Fatalf("look for rows: %v", err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("found %v, want %v", got, want)
		}
	}
	other := lo.another()
	other.begin()
	other.insert(lo.notes, lo.entries("o'ne"))
	other.commit()
	lo.begin()
	look(true, false, false, false, true, false)
	lo.insert(lo.notes, lo.entries(`t\wo`))
	look(true, true, false, false, true, false)
	lo.refuse(lo.notes, lo.entries("o'ne"), engine.ErrDuplicateKey)
	lo.insert(lo.rolls, lo.readings(1))
	look(true, true, false, false, true, false)
	lo.commit()
	lo.rows(1, 2)
	if got, err := lo.l.Has(within(t)); err == nil {
		t.Errorf("found %v without a transaction", got)
	}
	lo.reset()

	// The transaction sees changes that others commit before its first Has.
	if !lo.db.Capabilities().SerialWrites {
		lo.begin()
		lo.insert(lo.rolls, lo.readings(2))
		other.begin()
		other.insert(lo.notes, lo.entries("three"))
		other.commit()
		look(true, true, true, false, true, false)
		lo.commit()
	}
	lo.begin()
	if _, err := lo.l.Has(within(t), engine.Rows{Table: &engine.Table{Name: "nowhere", Columns: lo.notes.Columns}, Batch: lo.entries("a")}); !errors.Is(err, engine.ErrNoTable) {
		t.Errorf("look in a table that isn't there: %v", err)
	}
	lo.reset()
	lo.begin()
	lo.insert(lo.notes, lo.entries("four"))
	lo.commit()
}

// transactions checks that calls in the wrong order are errors and commit nothing.
func (s loaders) transactions(t *testing.T) {
	lo := s.loading(t)
	if _, err := lo.l.Insert(within(t), lo.notes, lo.entries("a"), 0, 1); err == nil || errors.Is(err, engine.ErrRefused) {
		t.Errorf("an insert without a transaction: %v", err)
	}
	lo.reset()
	if err := lo.l.Commit(within(t)); err == nil {
		t.Error("committed without a transaction")
	}
	lo.reset()
	lo.begin()
	lo.insert(lo.notes, lo.entries("b"))
	if err := lo.l.Begin(within(t)); err == nil {
		t.Error("begun twice")
	}
	lo.reset()
	lo.rows(0, 0)
	lo.begin()
	lo.insert(lo.notes, lo.entries("c"))
	lo.reset()
	lo.rows(0, 0)
	lo.begin()
	lo.insert(lo.notes, lo.entries("f"))
	lo.commit()
	lo.rows(0, 1)
}

// ignoring checks that rows with an existing key, including duplicates within the
// batch, are counted exactly, and that the first row of each key is kept.
func (s loaders) ignoring(t *testing.T) {
	lo := s.loading(t)
	rolls, notes := *lo.rolls, *lo.notes
	rolls.Ignore, notes.Ignore = true, true
	lo.begin()
	lo.insertSome(&notes, lo.entries("a", "b", "a", "c", "c", "c"), 0, 6, engine.Ack{Rows: 3, Skipped: 3})
	lo.insertSome(&notes, lo.entries("a", "b", "d"), 0, 3, engine.Ack{Rows: 1, Skipped: 2})
	lo.insertSome(&notes, lo.entries("a"), 0, 1, engine.Ack{Skipped: 1})
	lo.insertSome(&rolls, lo.readings(1, 2, 2, 3), 0, 4, engine.Ack{Rows: 3, Skipped: 1})
	lo.insertSome(&rolls, lo.readings(4), 0, 1, engine.Ack{Rows: 1})
	lo.commit()
	lo.rows(4, 4)
	if n := lo.count("notes WHERE k = 'c' AND n = 3 OR k = 'a' AND n = 0"); n != 2 {
		t.Errorf("%d rows as they were first, want 2", n)
	}
	lo.begin()
	lo.insertSome(&rolls, lo.readings(1, 2, 3, 4), 0, 4, engine.Ack{Skipped: 4})
	lo.insertSome(&rolls, lo.readings(4, 5, 1), 0, 3, engine.Ack{Rows: 1, Skipped: 2})
	// Without Ignore it is still an error.
	lo.refuse(lo.rolls, lo.readings(6, 1), engine.ErrDuplicateKey)
	lo.commit()
	lo.rows(5, 4)
	ids := make([]int64, 3000)
	for i := range ids {
		ids[i] = int64(i%2000) + 4 // 2 exist already, and 1000 are duplicates
	}
	lo.begin()
	lo.insertSome(&rolls, lo.readings(ids...), 0, len(ids), engine.Ack{Rows: 1998, Skipped: 1002})
	lo.commit()
	lo.rows(2003, 4)
}

// loadOddNames loads into tables and columns with unusual names.
func (s loaders) loadOddNames(t *testing.T) {
	db := s.open(t)
	l := OpenLoader(t, db)
	for _, odd := range []string{"select", "a`b", `a"b`, "a'b", "100%s", "a.b", "a;--b", "a?b", "$x", "日本"} {
		k := keptNames(t, db, odd, "time", 1, func(column string) string { return column + " " + odd })
		err := db.Apply(within(t), engine.CreateTable{Table: k.Table, Partitions: k.parts})
		if errors.Is(err, engine.ErrUnsupported) {
			continue
		}
		Must(t, err)
		lo := &loading{TB: t, kept: k, l: l, rolls: &engine.Table{Name: odd, Columns: keptColumns(), Grid: k.Grid, By: k.By}}
		for i := range lo.rolls.Columns {
			lo.rolls.Columns[i].Name += " " + odd
		}
		lo.begin()
		lo.insert(lo.rolls, lo.readings(1))
		ignores := *lo.rolls
		ignores.Ignore = true
		lo.insertSome(&ignores, lo.readings(1, 2), 0, 2, engine.Ack{Rows: 1, Skipped: 1})
		lo.refuse(lo.rolls, lo.readings(1), engine.ErrDuplicateKey)
		lo.commit()
		want(t, "rows of "+odd, lo.count(lo.quote(odd)), 2)
	}
}

// batch returns rows [from, to) of a period, with the same values as insert.
func (k *kept) batch(p rolling.Partition, from, to int) *engine.Batch {
	b := engine.NewBatch(keptColumns())
	if k.Epoch != 0 {
		b.Columns[1].Type = engine.Int64
	}
	for i := from; i < to; i++ {
		pos := k.at(p, i)
		id, ts := pos/1000, pos
		switch {
		case k.Grid.Axis() == rolling.Sequence:
			id, ts = pos, start
		case k.Epoch != 0:
			ts = pos / k.Epoch.Microseconds()
		}
		b.Columns[0].Ints = append(b.Columns[0].Ints, id)
		b.Columns[1].Ints = append(b.Columns[1].Ints, ts)
		for c, x := range values(i) {
			appendAny(&b.Columns[c+2], x)
		}
		b.EndRow()
	}
	return b
}
