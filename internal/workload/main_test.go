package workload

import (
	"context"
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"github.com/rowmill/rowmill/internal/bench"
	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testdb.Runner{M: m}) }

// stores are the kinds of databases that the tests run on.
var stores = []string{"sqlite", "mariadb"}

// raw opens a test's database without rowmill.
func raw(t *testing.T, db engine.DB) *sql.DB {
	t.Helper()
	target, err := engine.ParseTarget(db.Info().Target)
	ok(t, err)
	driver, source := testdb.SQLiteDriver, "file:"+(&url.URL{Path: target.Path}).EscapedPath()+"?_busy_timeout=10000"
	if target.Scheme != "sqlite" {
		c := mysql.NewConfig()
		c.User, c.Net, c.Addr, c.DBName = target.User, "unix", target.Query.Get("socket"), target.Path
		driver, source = "mysql", c.FormatDSN()
	}
	out, err := sql.Open(driver, source)
	ok(t, err)
	out.SetMaxOpenConns(1)
	t.Cleanup(func() {
		if err := out.Close(); err != nil {
			t.Error(err)
		}
	})
	return out
}

// exec runs statements and returns how many rows the last one affected.
func exec(t *testing.T, db *sql.DB, statements ...string) int64 {
	t.Helper()
	var n int64
	for _, q := range statements {
		r, err := db.Exec(q)
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		if n, err = r.RowsAffected(); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

func number(t *testing.T, db *sql.DB, query string) int64 {
	t.Helper()
	var n int64
	if err := db.QueryRow(query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func newTestInsert(t testing.TB, db engine.DB, o InsertOptions) *Insert {
	t.Helper()
	if o.Seed == 0 {
		o.Seed = 1
	}
	w, err := NewInsert(db, o)
	ok(t, err)
	return w
}

// prepared returns a workload whose tables exist.
func prepared(t testing.TB, db engine.DB, o InsertOptions) *Insert {
	t.Helper()
	w := newTestInsert(t, db, o)
	setUp(t, w)
	return w
}

// ok ends a test that can't go on after an error.
func ok(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	if err != nil {
		t.Helper() // not before: benchmarks call ok for each operation
		t.Fatal(err)
	}
}

func setUp(t testing.TB, w *Insert) {
	t.Helper()
	ok(t, w.Measure(t.Context()))
	if _, err := w.Setup(t.Context(), false); err != nil {
		t.Fatal(err)
	}
}

// config returns the configuration of a test's run.
func config(w *Insert) bench.Config {
	o := w.Options()
	return bench.Config{Operation: "insert", Clients: o.Writers, Batch: o.Batch, Rows: o.Rows, Grace: 5 * time.Second}
}

// run runs a workload and requires it to succeed.
func run(t testing.TB, w *Insert, cfg bench.Config) bench.Outcome {
	t.Helper()
	out, err := bench.Run(t.Context(), w, cfg)
	ok(t, err)
	if out.Err != nil {
		t.Fatal(out.Err)
	}
	return out
}

func verify(t testing.TB, w *Insert) Proof {
	t.Helper()
	p, err := w.Verify(t.Context(), unseen)
	ok(t, err)
	return p
}

// mustHold fails the test unless the table contains the given number of rows,
// exactly those that were sent.
func mustHold(t testing.TB, w *Insert, rows int64) Proof {
	t.Helper()
	p := verify(t, w)
	if !p.Checksum || p.Expected != rows || p.Found != rows {
		t.Errorf("want proof of %d rows, got %+v", rows, p)
	}
	return p
}

// faulty is a database with hooks by which a test makes it fail, or say something else
// of itself. A hook around an operation calls it or not.
type faulty struct {
	engine.DB
	apply func(ctx context.Context, steps []engine.Step) error
	write func(write func() (engine.Ack, error)) (engine.Ack, error)
	reset func(reset func() error) error
	del   func(del func() (int64, error)) (int64, error)
	info  func(*engine.Info)
	caps  func(*engine.Capabilities)
}

func (f *faulty) Info() engine.Info {
	info := f.DB.Info()
	if f.info != nil {
		f.info(&info)
	}
	return info
}

func (f *faulty) Capabilities() engine.Capabilities {
	caps := f.DB.Capabilities()
	if f.caps != nil {
		f.caps(&caps)
	}
	return caps
}

func (f *faulty) Apply(ctx context.Context, steps ...engine.Step) error {
	if f.apply != nil {
		return f.apply(ctx, steps)
	}
	return f.DB.Apply(ctx, steps...)
}

func (f *faulty) Querier(ctx context.Context) (engine.Querier, error) {
	inner, err := f.DB.Querier(ctx)
	return &faultyQuerier{inner, f}, err
}

type faultyQuerier struct {
	engine.Querier
	db *faulty
}

func (q *faultyQuerier) Delete(ctx context.Context, d *engine.Delete, from, to int64) (int64, error) {
	del := func() (int64, error) { return q.Querier.Delete(ctx, d, from, to) }
	if q.db.del == nil {
		return del()
	}
	return q.db.del(del)
}

func (f *faulty) Writer(ctx context.Context, t *engine.Table, m engine.Method) (engine.Writer, error) {
	inner, err := f.DB.Writer(ctx, t, m)
	return &faultyWriter{inner, f}, err
}

type faultyWriter struct {
	engine.Writer
	db *faulty
}

func (w *faultyWriter) Write(ctx context.Context, b *engine.Batch) (engine.Ack, error) {
	write := func() (engine.Ack, error) { return w.Writer.Write(ctx, b) }
	if w.db.write == nil {
		return write()
	}
	return w.db.write(write)
}

func (w *faultyWriter) Reset(ctx context.Context) error {
	reset := func() error { return w.Writer.Reset(ctx) }
	if w.db.reset == nil {
		return reset()
	}
	return w.db.reset(reset)
}

func hasWarning(p Proof, part string) bool {
	return strings.Contains(strings.Join(p.Warnings, "\n"), part)
}

func ptr[T any](v T) *T { return &v }

func noEvent(string, string, time.Time) {}

// unseen is progress that nobody looks at.
func unseen(int64) {}

// gone fails the test if one of the tables exists.
func gone(t *testing.T, db engine.DB, tables ...*engine.Table) {
	t.Helper()
	for _, table := range tables {
		if exists, err := db.Catalog().Exists(t.Context(), table); err != nil || exists {
			t.Errorf("%s is left: %v, %v", table.Name, exists, err)
		}
	}
}

// onStores runs a test on a new database of each kind.
func onStores(t *testing.T, test func(t *testing.T, db engine.DB)) {
	t.Helper()
	for _, kind := range stores {
		t.Run(kind, func(t *testing.T) { test(t, testdb.Open(t, kind)) })
	}
}
