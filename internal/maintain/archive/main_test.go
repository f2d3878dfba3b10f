package archive

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

var must = enginetest.Must

func TestMain(m *testing.M) {
	if os.Getenv(killVariable) != "" {
		os.Exit(killedWriter())
	}
	goleak.VerifyTestMain(testdb.Runner{M: m})
}

// servers are the servers on which tests of rows run.
var servers = []string{"sqlite", "mariadb", "mysql", "postgres"}

// onServers runs a test on each supported kind of database, in parallel with
// other tests. Each run has its own database.
func onServers(t *testing.T, test func(t *testing.T, db engine.Keeper)) {
	testdb.OnKinds(t, servers, func(t *testing.T, kind string) { test(t, open(t, kind)) })
}

// A world is a rolling table with one period per day, in its own database.
type world struct {
	testing.TB
	db    engine.Keeper
	table *engine.Table
	s     *engine.Schema
	parts []rolling.Partition
	dir   string
	how   writing
}

// day is the period that tests archive.
var day = rolling.Position(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC))

const dayMicros = int64(24 * 3600 * 1e6)

// newWorld creates the table of a CREATE TABLE statement.
func newWorld(t testing.TB, db engine.Keeper, create string) *world {
	t.Helper()
	w := of(t, db, create)
	w.dir = t.TempDir()
	must(t, db.Apply(t.Context(), engine.CreateTable{Table: w.table, Partitions: w.parts}))
	w.describe()
	return w
}

// of returns the world of a table that need not exist.
func of(t testing.TB, db engine.Keeper, create string) *world {
	t.Helper()
	def, err := rolling.ReadDefinition(create)
	must(t, err)
	grid, err := rolling.Parse("1d")
	must(t, err)
	w := &world{TB: t, db: db}
	w.table = &engine.Table{Name: def.Name, Grid: grid, By: "ts", Definition: def, PrimaryKey: def.PrimaryKey}
	for i := range int64(3) {
		p := rolling.Period{From: day + (i-1)*dayMicros, To: day + i*dayMicros}
		w.parts = append(w.parts, grid.Named(p))
	}
	return w
}

func (w *world) describe() {
	w.Helper()
	var err error
	if w.s, err = w.db.Describe(w.Context(), w.table.Name); err != nil {
		w.Fatal(err)
	}
}

func (w *world) part() rolling.Partition { return w.parts[1] }

func (w *world) exec(q string, args ...any) {
	w.Helper()
	if len(args) > 0 {
		q = w.db.Bind(q)
	}
	if _, err := w.db.SQL().ExecContext(w.Context(), q, args...); err != nil {
		w.Fatalf("%.300s: %v", q, err)
	}
}

func (w *world) quote(name string) string { return w.db.Dialect().Quote(name) }

// hash returns the server's own checksum and row count of an item of a FROM
// clause.
func (w *world) hash(from string) string {
	w.Helper()
	cols, err := columnsOf(w.s, w.s.Names())
	must(w, err)
	var n int64
	var h string
	must(w, w.db.SQL().QueryRowContext(w.Context(), "SELECT COUNT(*), "+w.db.Words().RowHash(cols)+" FROM "+from).Scan(&n, &h))
	return fmt.Sprintf("%d rows %s", n, h)
}

func (w *world) write() Info {
	w.Helper()
	how := w.how
	f, err := how.write(w.Context(), w.db, w.table, w.s, w.part(), w.dir)
	must(w, err)
	return f
}

// template creates an empty table like a period.
func (w *world) template(name string) {
	w.Helper()
	for _, q := range w.db.Words().CreateTemplate(w.table, name, engine.Storage{}) {
		w.exec(q)
	}
}

// roundTrip archives the period, restores it into another table, and compares the
// two by the server's own checksum.
func (w *world) roundTrip() Info {
	w.Helper()
	f := w.write()
	back, err := Verify(w.Context(), f.Path)
	must(w, err)
	if back.Rows != f.Rows || back.Sum != f.Sum || back.Bytes != f.Bytes {
		w.Errorf("wrote %+v, read %+v", f, back)
	}
	w.template("back")
	if _, err := Restore(w.Context(), w.db, w.table, w.s, f.Path, "back", nil); err != nil {
		w.Fatal(err)
	}
	was, is := w.hash(w.db.Words().From(w.table, w.part())), w.hash(w.quote("back"))
	if was != is {
		w.Errorf("the period has %s, and what was restored %s", was, is)
	}
	if !strings.HasPrefix(was, fmt.Sprint(f.Rows)+" ") {
		w.Errorf("%d rows were written of %s", f.Rows, was)
	}
	return f
}

func (w *world) form(f Info, name string) form {
	w.Helper()
	i, err := Look(f.Path)
	must(w, err)
	return i.columns[i.find(name)].Form
}

func isEngine(db engine.Keeper, names ...string) bool {
	for _, n := range names {
		if db.Info().Engine == n {
			return true
		}
	}
	return false
}

func open(t testing.TB, name string) engine.Keeper {
	t.Helper()
	db, ok := testdb.Open(t, name).(engine.Keeper)
	if !ok {
		t.Fatalf("%s keeps no tables", name)
	}
	return db
}
