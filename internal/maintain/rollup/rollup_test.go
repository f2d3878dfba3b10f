package rollup_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/maintain/rollup"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

var must = enginetest.Must

func TestMain(m *testing.M) { testdb.Main(m) }

// kinds are the databases that support roll-ups.
var kinds = []string{"sqlite", "postgres", "mariadb", "mysql"}

// onEach runs a test on each required kind of database, in parallel with other
// tests: each has a database of its own.
func onEach(t *testing.T, fn func(t *testing.T, kind string)) { on(t, kinds, fn) }

// on is onEach for the given kinds.
func on(t *testing.T, kinds []string, fn func(t *testing.T, kind string)) {
	testdb.OnKinds(t, kinds, fn)
}

// patience is how long a test waits for an expected event: far longer than it takes
// on a slow machine.
const patience = time.Minute

// A fixture is a rolling table with roll-ups.
type fixture struct {
	t     testing.TB
	db    engine.Keeper
	st    *state.Store
	table *engine.Table
	decl  *rolling.Declaration
	parts []rolling.Partition
	set   *rollup.Set
}

const (
	second = int64(1e6)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
)

// start is the start of the first period: the day before European clocks are set back.
var start = rolling.Position(time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC))

func grid(t testing.TB, s string) rolling.Grid {
	t.Helper()
	g, err := rolling.Parse(s)
	must(t, err)
	return g
}

func definitionText(kind string) string {
	datetime, double := "DATETIME", "DOUBLE"
	if kind == "postgres" {
		datetime, double = "TIMESTAMP", "DOUBLE PRECISION"
	}
	key, index := ", KEY ts (ts)", ""
	if kind == "postgres" || kind == "sqlite" {
		key, index = "", "; CREATE INDEX readings_ts ON readings (ts)"
	}
	return fmt.Sprintf("CREATE TABLE readings (sensor INT NOT NULL, site VARCHAR(20) NOT NULL, ts %s NOT NULL, seq INT NOT NULL, value %s, n INT, note VARCHAR(40), PRIMARY KEY (sensor, ts, seq)%s)%s", datetime, double, key, index)
}

// all contains all kinds of aggregates.
var all = []rolling.Aggregate{
	{Name: "c", Func: "count"}, {Name: "cv", Func: "count", Column: "value"}, {Name: "s", Func: "sum", Column: "value"},
	{Name: "sn", Func: "sum", Column: "n"}, {Name: "a", Func: "avg", Column: "value"}, {Name: "an", Func: "avg", Column: "n"},
	{Name: "lo", Func: "min", Column: "value"}, {Name: "hi", Func: "max", Column: "note"},
	{Name: "sd", Func: "stddev", Column: "value"}, {Name: "vr", Func: "variance", Column: "n"},
	{Name: "fv", Func: "first", Column: "value"}, {Name: "lv", Func: "last", Column: "note"},
	{Name: "d", Func: "distinct", Column: "note"}, {Name: "dn", Func: "distinct", Column: "n"},
	{Name: "p50", Func: "percentile", Column: "value", Percent: 50}, {Name: "p99", Func: "percentile", Column: "n", Percent: 99.5},
}

func levels(t testing.TB) []rolling.Rollup {
	return []rolling.Rollup{
		{Name: "r10m", Every: grid(t, "10m"), By: []string{"sensor", "site"}, Select: all},
		{Name: "r1h", From: "r10m", Every: grid(t, "1h"), By: []string{"sensor", "site"}, Select: all},
		{Name: "r1d", From: "r1h", Every: grid(t, "1d"), By: []string{"site"}, Select: all},
		{Name: "rmo", Every: grid(t, "1mo"), Select: []rolling.Aggregate{{Name: "c", Func: "count"}, {Name: "s", Func: "sum", Column: "value"}}},
	}
}

// open creates an empty rolling table of days, with roll-ups.
func open(t testing.TB, kind string, exact bool, rollups []rolling.Rollup) *fixture {
	t.Helper()
	db, ok := testdb.Open(t, kind).(engine.Keeper)
	if !ok {
		t.Skipf("%s keeps no rolling tables", kind)
	}
	return openOn(t, db, kind, exact, rollups)
}

func openOn(t testing.TB, db engine.Keeper, kind string, exact bool, rollups []rolling.Rollup) *fixture {
	t.Helper()
	def, err := rolling.ReadDefinition(definitionText(kind))
	must(t, err)
	f := &fixture{t: t, db: db, st: state.New(db)}
	f.decl = &rolling.Declaration{Name: "readings", Definition: def, Time: "ts", Period: grid(t, "1d"), Exact: exact, Rollups: rollups}
	f.table = &engine.Table{Name: "readings", Grid: f.decl.Period, By: "ts", Definition: def, PrimaryKey: def.PrimaryKey}
	for i := range int64(5) {
		p, err := f.decl.Period.At(start + i*day)
		must(t, err)
		f.parts = append(f.parts, f.decl.Period.Named(p))
	}
	ctx := context.Background()
	must(t, db.Apply(ctx, engine.CreateTable{Table: f.table, Partitions: f.parts}))
	must(t, f.st.Ensure(ctx))
	f.reload()
	must(t, f.set.Create(ctx))
	return f
}

// filled is a table with rows that are in the roll-ups up to a position.
func filled(t testing.TB, kind string, rollups []rolling.Rollup, upTo int64, rows ...row) (*fixture, model) {
	t.Helper()
	f := open(t, kind, false, rollups)
	f.load(rows...)
	f.refresh(upTo)
	return f, rows
}

// reload creates the set again, as a newly started process does.
func (f *fixture) reload() {
	f.t.Helper()
	schema, err := f.db.Describe(context.Background(), f.table.Name)
	must(f.t, err)
	if f.set, err = rollup.New(f.db, f.st, f.table, schema, f.decl); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) exec(q string, args ...any) {
	f.t.Helper()
	if _, err := f.db.SQL().ExecContext(context.Background(), f.db.Bind(q), args...); err != nil {
		f.t.Fatalf("%s: %v", q, err)
	}
}

// A row is a row of readings. NULLs are nil.
type row struct {
	sensor int
	site   string
	at     int64
	seq    int
	value  any
	n      any
	note   any
}

// into is the target of an INSERT of a row: in SQLite the table of its period,
// elsewhere the rolling table.
func (f *fixture) into(at int64) string {
	if f.db.Info().Engine != "sqlite" {
		return "readings"
	}
	for _, p := range f.parts {
		if p.Contains(at) {
			return "readings_" + p.Name
		}
	}
	f.t.Fatalf("no period for %d", at)
	return ""
}

func (f *fixture) lit(pos int64) string { return f.db.Words().Literal(f.table, pos) }

// bypass inserts rows without a note.
func (f *fixture) bypass(x state.Exec, rows ...row) {
	f.t.Helper()
	for _, r := range rows {
		q := fmt.Sprintf("INSERT INTO %s (sensor, site, ts, seq, value, n, note) VALUES (?, ?, %s, ?, ?, ?, ?)", f.into(r.at), f.lit(r.at))
		if _, err := x.ExecContext(context.Background(), f.db.Bind(q), r.sensor, r.site, r.seq, r.value, r.n, r.note); err != nil {
			f.t.Fatal(err)
		}
	}
}

// load inserts rows as a loader does, in one transaction with its note.
func (f *fixture) load(rows ...row) {
	f.t.Helper()
	f.inTx(func(tx *sql.Tx) error {
		f.bypass(tx, rows...)
		f.note(tx, rows...)
		return nil
	})
}

// inTx commits what fn does in a transaction.
func (f *fixture) inTx(fn func(tx *sql.Tx) error) {
	f.t.Helper()
	tx := f.begin()
	must(f.t, fn(tx))
	f.commit(tx)
}

// touch leaves a note of changed rows from start.
func (f *fixture) touch(to int64) {
	f.t.Helper()
	f.inTx(func(tx *sql.Tx) error {
		return f.st.Touch(context.Background(), tx, "readings", "a test", rolling.Period{From: start, To: to})
	})
}

func (f *fixture) note(x state.Exec, rows ...row) {
	f.t.Helper()
	lower, upper := rows[0].at, rows[0].at
	for _, r := range rows {
		lower, upper = min(lower, r.at), max(upper, r.at)
	}
	must(f.t, f.st.Touch(context.Background(), x, "readings", "a test", rolling.Period{From: lower, To: upper + 1}))
}

func (f *fixture) begin() *sql.Tx {
	f.t.Helper()
	tx, err := f.db.SQL().BeginTx(context.Background(), nil)
	must(f.t, err)
	return tx
}

func (f *fixture) commit(tx *sql.Tx) {
	f.t.Helper()
	must(f.t, tx.Commit())
}

func (f *fixture) refresh(upTo int64) int {
	f.t.Helper()
	return f.recompute(func() (int, error) { return f.set.Refresh(context.Background(), upTo) })
}

// watched is refresh with a function that is called before each statement.
func (f *fixture) watched(upTo int64, fn func(ctx context.Context, q string)) {
	f.t.Helper()
	f.set.Before(fn)
	f.refresh(upTo)
	f.set.Before(nil)
}

// recompute repeats an operation on roll-ups until it keeps its lock, which it may lose
// on a busy machine.
func (f *fixture) recompute(fn func() (int, error)) int {
	f.t.Helper()
	for {
		n, err := fn()
		if err == nil {
			return n
		}
		if !errors.Is(err, rollup.ErrFenced) {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) read(q string) []string {
	f.t.Helper()
	rows, err := f.db.SQL().QueryContext(context.Background(), q)
	if err != nil {
		f.t.Fatalf("%s: %v", q, f.db.Classify(err))
	}
	defer rows.Close()
	cols, err := rows.Columns()
	must(f.t, err)
	var out []string
	for rows.Next() {
		vals, dest := make([]sql.NullString, len(cols)), make([]any, len(cols))
		for i := range vals {
			dest[i] = &vals[i]
		}
		must(f.t, rows.Scan(dest...))
		var line []string
		for _, v := range vals {
			if !v.Valid {
				v.String = "NULL"
			}
			line = append(line, v.String)
		}
		out = append(out, strings.Join(line, "|"))
	}
	must(f.t, rows.Err())
	slices.Sort(out)
	return out
}

func (f *fixture) one(q string) string {
	f.t.Helper()
	r := f.read(q)
	if len(r) != 1 {
		f.t.Fatalf("%s: %d rows: %v", q, len(r), r)
	}
	return r[0]
}
