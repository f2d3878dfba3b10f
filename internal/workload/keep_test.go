package workload

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/internal/workload/draw"
	"github.com/rowmill/rowmill/rolling"
)

// keptTables are tables with columns of all kinds, in each server's SQL.
var keptTables = map[string]string{
	"mariadb": "CREATE TABLE kept (sensor INT NOT NULL, ts DATETIME NOT NULL, tag VARCHAR(20) NOT NULL, code CHAR(3) NOT NULL, small TINYINT, " +
		"big BIGINT UNSIGNED, price DECIMAL(8,2) NOT NULL, value DOUBLE NOT NULL, single FLOAT, state ENUM('on','off') NOT NULL, doc JSON, " +
		"raw VARBINARY(16), seen TIMESTAMP NULL, kind VARCHAR(8) DEFAULT 'x', twice INT AS (sensor * 2), flags BIT(3), span TIME, " +
		"PRIMARY KEY (sensor, ts), UNIQUE KEY tag (tag, ts))",
	"postgres": "CREATE TABLE kept (sensor INTEGER NOT NULL, ts TIMESTAMP NOT NULL, tag VARCHAR(20) NOT NULL, code CHAR(3) NOT NULL, small SMALLINT, " +
		"big BIGINT, price NUMERIC(8,2) NOT NULL, value DOUBLE PRECISION NOT NULL, single REAL, doc JSONB, id UUID NOT NULL, yes BOOLEAN NOT NULL, " +
		"raw BYTEA, seen TIMESTAMPTZ, kind TEXT DEFAULT 'x', twice INT GENERATED ALWAYS AS (sensor * 2) STORED, list INT[], " +
		"PRIMARY KEY (sensor, ts), UNIQUE (tag, ts))",
	"sqlite": "CREATE TABLE kept (sensor INTEGER NOT NULL, ts DATETIME NOT NULL, tag VARCHAR(20) NOT NULL, price DECIMAL(8,2) NOT NULL, value DOUBLE NOT NULL, " +
		"raw BLOB, seen DATETIME, kind TEXT DEFAULT 'x', PRIMARY KEY (sensor, ts), UNIQUE (tag, ts))",
}

// keptTable creates a table and returns its descriptions by the engine and the catalog.
func keptTable(t *testing.T, db engine.Keeper, create, by string, grid rolling.Grid) (*engine.Table, *engine.Schema) {
	t.Helper()
	if _, err := db.SQL().ExecContext(t.Context(), create); err != nil {
		t.Fatal(err)
	}
	s, err := db.Describe(t.Context(), "kept")
	ok(t, err)
	return &engine.Table{Name: "kept", By: by, Grid: grid, PrimaryKey: s.PrimaryKey}, s
}

func keeperOf(t *testing.T, kind string) engine.Keeper {
	t.Helper()
	db, ok := testdb.Open(t, kind).(engine.Keeper)
	if !ok {
		t.Fatalf("%s keeps no tables", kind)
	}
	return db
}

func hourly(t *testing.T) rolling.Grid {
	t.Helper()
	g, err := rolling.EveryDuration(time.Hour)
	ok(t, err)
	return g
}

// simpleTable has types that every method supports.
var simpleTable = map[string]string{
	"sqlite":   "CREATE TABLE kept (sensor INTEGER NOT NULL, ts DATETIME NOT NULL, value DOUBLE NOT NULL, tag VARCHAR(20), PRIMARY KEY (sensor, ts))",
	"mariadb":  "CREATE TABLE kept (sensor INT NOT NULL, ts DATETIME NOT NULL, value DOUBLE NOT NULL, tag VARCHAR(20), PRIMARY KEY (sensor, ts))",
	"postgres": "CREATE TABLE kept (sensor INTEGER NOT NULL, ts TIMESTAMP NOT NULL, value DOUBLE PRECISION NOT NULL, tag VARCHAR(20), PRIMARY KEY (sensor, ts))",
}

// TestKeepInserts checks that rows can be generated for every type of a server, by every method,
// all in the same second, and that none is lost because of a duplicate key.
func TestKeepInserts(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 20, 12, 0, 0, 123456000, time.UTC)
	for _, kind := range []string{"sqlite", "mariadb", "mysql", "postgres"} {
		sql := kind
		if kind == "mysql" {
			sql = "mariadb"
		}
		for name, create := range map[string]string{"all types": keptTables[sql], "all methods": simpleTable[sql]} {
			t.Run(kind+" "+name, func(t *testing.T) {
				db := keeperOf(t, kind)
				table, schema := keptTable(t, db, create, "ts", hourly(t))
				if db.Capabilities().Embedded {
					table.Grid = rolling.Grid{} // without periods, which another test covers
				}
				methods := db.Capabilities().Methods
				if name == "all types" {
					methods = methods[:1]
				}
				for i, method := range methods {
					w, err := NewKeep(db, table, schema, KeepOptions{Method: method, Keys: 1000, Rate: 500, Now: func() time.Time { return noon.Add(time.Duration(i) * time.Hour) }})
					ok(t, err)
					insertKept(t, w)
				}
				var rows, keys int64
				ok(t, db.SQL().QueryRowContext(t.Context(), "SELECT COUNT(*), COUNT(DISTINCT sensor) FROM kept").Scan(&rows, &keys))
				if want := int64(1000 * len(methods)); rows != want || keys != 1000 {
					t.Errorf("%d rows of %d keys, want %d of 1000", rows, keys, want)
				}
				if err := db.SQL().QueryRowContext(t.Context(), "SELECT COUNT(*) FROM kept WHERE tag IS NULL OR value < 0 OR ts < '2026-11-20 12:00:00'").Scan(&rows); err != nil || rows > 0 {
					t.Errorf("%d rows without what they should have: %v", rows, err)
				}
			})
		}
	}
}

// insertKept inserts 1000 rows.
func insertKept(t *testing.T, w *Keep) {
	t.Helper()
	c, err := w.Client(t.Context(), 0)
	ok(t, err)
	for range 5 {
		c.Prepare(200)
		if err := c.Do(t.Context()); err != nil {
			t.Fatalf("%s: %v", w.Method(), err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if n := w.Notes(); n.Longest.Took <= 0 || len(n.Errors) > 0 || len(n.Warnings) > 0 {
		t.Errorf("%s: %+v", w.Method(), n)
	}
}

// TestKeepSequence checks that a sequence continues after the highest key.
func TestKeepSequence(t *testing.T) {
	db := keeperOf(t, "sqlite")
	grid, err := rolling.EveryRows(1000)
	ok(t, err)
	table, schema := keptTable(t, db, "CREATE TABLE kept (id INTEGER NOT NULL PRIMARY KEY, v TEXT)", "id", grid)
	table.Grid = rolling.Grid{}
	w, err := NewKeep(db, &engine.Table{Name: "kept", By: "id", Grid: grid}, schema, KeepOptions{Now: time.Now})
	ok(t, err)
	w.table.Grid = rolling.Grid{}
	w.StartAt(500)
	c, err := w.Client(t.Context(), 0)
	ok(t, err)
	c.Prepare(10)
	ok(t, errors.Join(c.Do(t.Context()), c.Close()))
	var low, high int64
	if err := db.SQL().QueryRowContext(t.Context(), "SELECT MIN(id), MAX(id) FROM kept").Scan(&low, &high); err != nil || low != 500 || high != 509 {
		t.Errorf("keys %d to %d, %v", low, high, err)
	}
}

func TestKeepRefuses(t *testing.T) {
	db := keeperOf(t, "sqlite")
	ts := engine.SchemaColumn{Name: "ts", Type: value.Type{Kind: value.Time}}
	id := engine.SchemaColumn{Name: "id", Type: value.Type{Kind: value.Int, Bits: 32}}
	small := engine.SchemaColumn{Name: "id", Type: value.Type{Kind: value.Int, Bits: 8}}
	text := engine.SchemaColumn{Name: "ts", Native: "text", Type: value.Type{Kind: value.Text}}
	point := engine.SchemaColumn{Name: "x", Native: "point", Type: value.Type{Kind: value.Bytes, Logical: value.Spatial}}
	nullable := point
	nullable.Null = true
	for name, c := range map[string]struct {
		cols []engine.SchemaColumn
		key  []string
		o    KeepOptions
		want string
	}{
		"good":              {[]engine.SchemaColumn{id, ts, nullable}, []string{"id", "ts"}, KeepOptions{}, ""},
		"only the time":     {[]engine.SchemaColumn{id, ts}, []string{"ts"}, KeepOptions{}, "no column besides ts"},
		"too few keys":      {[]engine.SchemaColumn{id, ts}, []string{"id", "ts"}, KeepOptions{Keys: 100, Rate: 1000}, "room for 100 different rows"},
		"small column":      {[]engine.SchemaColumn{small, ts}, []string{"id", "ts"}, KeepOptions{Rate: 1000}, "room for 127"},
		"unknown type":      {[]engine.SchemaColumn{id, ts, point}, []string{"id", "ts"}, KeepOptions{}, "column x (point): no values"},
		"time is a text":    {[]engine.SchemaColumn{id, text}, []string{"id", "ts"}, KeepOptions{}, "column ts (text)"},
		"key space below 1": {[]engine.SchemaColumn{id, ts}, []string{"id", "ts"}, KeepOptions{Keys: -1}, "key space of -1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewKeep(db, &engine.Table{Name: "kept", By: "ts", Grid: hourly(t)}, &engine.Schema{Name: "kept", Columns: c.cols, PrimaryKey: c.key}, c.o)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestCoprime checks that a walk visits every key once before it repeats any,
// for any number of keys.
func TestCoprime(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{1, 2, 3, 7, 100, 127, 1000, 4096, 1_000_000} {
		step, seen := draw.Coprime(n), map[int64]bool{}
		for i := range n {
			seen[i%n*step%n] = true
		}
		if int64(len(seen)) != n {
			t.Errorf("a walk by %d visits %d of %d", step, len(seen), n)
		}
	}
}

// A slowWriter takes as long as the test specifies, or fails.
type slowWriter struct {
	takes []time.Duration
	fails []error
	calls int
}

func (w *slowWriter) Write(_ context.Context, b *engine.Batch) (engine.Ack, error) {
	i := w.calls
	w.calls++
	time.Sleep(w.takes[i])
	return engine.Ack{Rows: int64(b.Rows())}, w.fails[i]
}
func (w *slowWriter) Reset(context.Context) error { return nil }
func (w *slowWriter) Close() error                { return nil }

// TestKeepNotes checks that slow inserts are listed and failures counted, and that a
// batch whose first try may have been committed isn't an error if its keys exist.
func TestKeepNotes(t *testing.T) {
	lost := engine.Classed(engine.ErrConnectionLost, errors.New("gone away"))
	duplicate := engine.Classed(engine.ErrDuplicateKey, errors.New("duplicate"))
	s := &slowWriter{takes: []time.Duration{0, 30 * time.Millisecond, 0, 0, 0}, fails: []error{nil, nil, lost, duplicate, duplicate}}
	w := &Keep{opt: KeepOptions{Stall: 20 * time.Millisecond, Now: time.Now}}
	var c bench.Client = &keepClient{w: w, writer: s, batch: engine.NewBatch(nil)}
	do := func() error { return c.Do(t.Context()) }
	for range 2 {
		c.Prepare(3)
		ok(t, do())
	}
	c.Prepare(3)
	if err := do(); !errors.Is(err, engine.ErrConnectionLost) {
		t.Errorf("got %v", err)
	}
	ok(t, c.Recover(t.Context(), lost))
	if err := do(); err != nil {
		t.Errorf("a batch that was committed after all: %v", err)
	}
	c.Prepare(3)
	if err := do(); !errors.Is(err, engine.ErrDuplicateKey) {
		t.Errorf("a key that somebody else has: %v", err)
	}
	n := w.Notes()
	if n.Slow != 1 || len(n.Stalls) != 1 || n.Stalls[0].Took < 30*time.Millisecond || n.Longest != n.Stalls[0] || !maps.Equal(n.Errors, map[string]int64{"gone away": 1, "duplicate": 1}) {
		t.Errorf("%+v", n)
	}
}
