package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
)

var must = enginetest.Must

// beside runs statements that begin a transaction on another connection, after which
// writers wait for 20 ms only, and returns a function that rolls it back.
func beside(t *testing.T, db *DB, statements ...string) (end func()) {
	t.Helper()
	_, err := db.write.Exec("PRAGMA busy_timeout = 20", nil)
	must(t, err)
	other, err := db.connect(t.Context(), nil)
	must(t, err)
	t.Cleanup(func() { other.Close() })
	run := func(q string) {
		t.Helper()
		_, err := other.Exec(q, nil)
		must(t, err)
	}
	for _, q := range statements {
		run(q)
	}
	return func() { t.Helper(); run("ROLLBACK") }
}

// purchases returns a table with the columns and the three secondary indexes of
// the insert benchmark.
func purchases() *engine.Table {
	return &engine.Table{
		Name: "purchases",
		Columns: []engine.Column{
			{Name: "transactionid", Type: engine.Int64}, {Name: "dateandtime", Type: engine.Time},
			{Name: "cashregisterid", Type: engine.Int32}, {Name: "customerid", Type: engine.Int32},
			{Name: "productid", Type: engine.Int32}, {Name: "price", Type: engine.Float32},
			{Name: "data", Type: engine.Varchar, Size: 20},
		},
		PrimaryKey: []string{"transactionid"},
		Indexes: []engine.Index{
			{Name: "marketsegment", Columns: []string{"price", "customerid"}},
			{Name: "registersegment", Columns: []string{"cashregisterid", "price", "customerid"}},
			{Name: "pdc", Columns: []string{"price", "dateandtime", "customerid"}},
		},
	}
}

func fillPurchases(b *engine.Batch, rnd *rand.Rand, first int64, n int) {
	b.Reset()
	for i := range n {
		b.Columns[0].Ints = append(b.Columns[0].Ints, first+int64(i))
		b.Columns[1].Ints = append(b.Columns[1].Ints, 1795197600e6+int64(i)*1e6)
		b.Columns[2].Ints = append(b.Columns[2].Ints, rnd.Int64N(1000))
		customer := rnd.Int64N(100000)
		b.Columns[3].Ints = append(b.Columns[3].Ints, customer)
		b.Columns[4].Ints = append(b.Columns[4].Ints, rnd.Int64N(10000))
		b.Columns[5].Floats = append(b.Columns[5].Floats, float64(float32((rnd.Float64()*500+float64(customer))/100)))
		b.Columns[6].AppendBytes([]byte("aaaaaaaaaa0123456789"[:10+i%10]))
		b.EndRow()
	}
}

// purchasesOf creates the table purchases and returns a writer of it, and an empty batch.
func purchasesOf(t testing.TB, db *DB, m engine.Method) (*writer, *engine.Batch) {
	t.Helper()
	must(t, db.Apply(t.Context(), engine.CreateTable{Table: purchases()}))
	return writerOf(t, db, m), engine.NewBatch(purchases().Columns)
}

func writerOf(t testing.TB, db *DB, m engine.Method) *writer {
	t.Helper()
	w, err := db.Writer(t.Context(), purchases(), m)
	must(t, err)
	t.Cleanup(func() { w.Close() })
	return w.(*writer)
}

func countRows(t *testing.T, db *DB) int64 {
	t.Helper()
	n, err := queryInt(db.write, "SELECT COUNT(*) FROM purchases")
	must(t, err)
	return n
}

// expiring is a context that is canceled after left calls of Err.
type expiring struct {
	context.Context
	left int
}

func (c *expiring) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestFailedWrite checks the errors of batches for which the disk has no room, whose
// context ends within them, or that another connection's lock stops. None of their rows
// is stored, and the writer works again.
func TestFailedWrite(t *testing.T) {
	t.Parallel()
	pages := func(n int) func(*testing.T, *DB) {
		return func(t *testing.T, db *DB) {
			_, err := db.write.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", n), nil)
			must(t, err)
		}
	}
	var unlock func()
	lock := func(t *testing.T, db *DB) { unlock = beside(t, db, "BEGIN IMMEDIATE") }
	free := func(*testing.T, *DB) { unlock() }
	for name, c := range map[string]struct {
		rows          int
		before, after func(*testing.T, *DB)
		calls         int // of the context's Err, before it ends; 0 is no end
		class         error
		retryable     bool
	}{
		"disk full":     {rows: 5000, before: pages(20), after: pages(1e6), class: engine.ErrDiskFull},
		"cancelled":     {rows: 5000, calls: 3, class: context.Canceled},
		"locked, a row": {rows: 1, before: lock, after: free, class: engine.ErrLockTimeout, retryable: true},
		"locked":        {rows: 10, before: lock, after: free, class: engine.ErrLockTimeout, retryable: true},
	} {
		for _, m := range capabilities().Methods {
			db := openTest(t, "")
			w, b := purchasesOf(t, db, m)
			rnd := rand.New(rand.NewPCG(1, 2))
			fillPurchases(b, rnd, 0, 10)
			_, err := w.Write(t.Context(), b)
			must(t, err)
			if c.before != nil {
				c.before(t, db)
			}
			ctx := t.Context()
			if c.calls > 0 {
				ctx = &expiring{ctx, c.calls}
			}
			fillPurchases(b, rnd, 10, c.rows)
			if _, err := w.Write(ctx, b); !errors.Is(err, c.class) || engine.Retryable(err) != c.retryable {
				t.Errorf("%s, %s: got %v", name, m, err)
			}
			if c.class == engine.ErrLockTimeout {
				if err := db.Apply(t.Context(), engine.CreateTable{Table: orders(t, "")}); !errors.Is(err, c.class) {
					t.Errorf("%s: apply: %v", name, err)
				}
			}
			if c.after != nil {
				c.after(t, db)
			}
			if n := countRows(t, db); n != 10 {
				t.Errorf("%s, %s: %d rows, want 10", name, m, n)
			}
			if _, err := w.Write(t.Context(), b); err != nil {
				t.Errorf("%s, %s: then: %v", name, m, err)
			}
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "text")
	must(t, os.WriteFile(text, []byte(strings.Repeat("no database\n", 100)), 0o600))
	for _, c := range []struct {
		target, want string
		class        error
	}{
		{dir + "/x/y.db", "no such directory", engine.ErrUnreachable},
		{text + "/y.db", "is not a directory", engine.ErrUnreachable},
		{dir, "unable to open", engine.ErrUnreachable},
		{text, "not a database", engine.ErrUnreachable},
		{"//host/x", "a file, not a host", nil},
		{":memory:", "belongs to one connection", nil},
		{"x?sync=1", `no option "sync"`, nil},
		{"x?cache=1K", "less than the 64K", nil},
		{"x?cache=much", "want a number", nil},
		{"x?durability=some", "want full, relaxed, none", nil},
		{"x?journal=paper", "want wal", nil},
	} {
		open := func(ctx context.Context, t engine.Target) (engine.DB, error) { return Open(ctx, t) }
		enginetest.WantNotOpened(t, open, "sqlite:"+c.target, c.want, c.class, "")
	}
}

func TestTemporaryFile(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	db, err := Open(t.Context(), engine.Target{Scheme: "sqlite"})
	must(t, err)
	path := db.path
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", filepath.Dir(path), err)
	}
	// The error of a closed database contains "closed".
	if err := db.Apply(t.Context(), engine.DropTable{Table: purchases()}); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("apply on a closed database: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
}

// TestSettings checks that the connection has the settings of the target.
func TestSettings(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]map[string]string{
		"":                              {"journal_mode": "wal", "synchronous": "0", "cache_size": "-2000"},
		"&cache=16MB&journal=truncate":  {"journal_mode": "truncate", "cache_size": "-16384"},
		"&journal=memory":               {"journal_mode": "memory", "busy_timeout": "10000"},
		"&journal=persist&cache=1G":     {"journal_mode": "persist", "cache_size": "-1048576"},
		"&journal=delete&cache=1048576": {"journal_mode": "delete", "cache_size": "-1024"},
		"&journal=off":                  {"journal_mode": "off"},
	} {
		got, err := openTest(t, options).Catalog().Settings(t.Context())
		must(t, err)
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%s: %s is %q, want %q", options, k, got[k], v)
			}
		}
	}
}

// TestSizesAgainstFile compares Sizes with the number of pages of the file.
func TestSizesAgainstFile(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	w, b := purchasesOf(t, db, engine.Prepared)
	fillPurchases(b, rand.New(rand.NewPCG(1, 2)), 0, 30000)
	if _, err := w.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	got, err := db.Catalog().Sizes(t.Context(), purchases())
	must(t, err)
	pages, err := queryInt(db.write, "SELECT page_count FROM pragma_page_count()")
	must(t, err)
	// The file has one more page, for the schema.
	if want := (pages - 1) * 4096; got.Data+got.Index != want {
		t.Errorf("%+v is %d pages, the file has %d", got, (got.Data+got.Index)/4096, pages)
	}
}

// TestDry checks that no file is created and the statements are those of a run.
func TestDry(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x", "y.db")
	target, err := engine.ParseTarget("sqlite:" + path + "?durability=relaxed")
	must(t, err)
	dry, err := Dry(target)
	must(t, err)
	if info := dry.Info(); info.Engine != "sqlite" || info.Durability != "relaxed" || info.CacheBytes != defaultCache {
		t.Errorf("info %+v", info)
	}
	real := openTest(t, "")
	for _, s := range []engine.Step{engine.CreateTable{Table: purchases()}, engine.Measure{Table: purchases()}} {
		a, errA := dry.Dialect().Render(s)
		b, errB := real.Dialect().Render(s)
		if errA != nil || errB != nil || fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("%T: %q, %v; %q, %v", s, a, errA, b, errB)
		}
	}
	if fmt.Sprint(dry.Capabilities()) != fmt.Sprint(real.Capabilities()) {
		t.Error("other capabilities than a run's")
	}
	if _, err := os.Stat(filepath.Dir(path)); !os.IsNotExist(err) {
		t.Errorf("something was made: %v", err)
	}
	target.Query.Set("durability", "some")
	if _, err := Dry(target); err == nil {
		t.Error("it takes what Open refuses")
	}
}

// TestSampleWhileBusy checks that a sample doesn't wait and its figures are NaN.
func TestSampleWhileBusy(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	c, err := db.Counters(t.Context(), purchases())
	must(t, err)
	must(t, db.lock(t.Context()))
	defer db.unlock()
	dst := make([]float64, len(c.Describe()))
	must(t, c.Sample(t.Context(), dst))
	for i, d := range c.Describe() {
		file := strings.HasSuffix(d.Name, "file_bytes") || d.Name == engine.CounterWAL || d.Name == engine.CounterCache
		if math.IsNaN(dst[i]) == file {
			t.Errorf("%s is %v", d.Name, dst[i])
		}
	}
}

func TestGrow(t *testing.T) {
	t.Parallel()
	c := &counters{}
	for i, step := range []struct{ sample, want float64 }{{100, 100}, {1 << 31, 1 << 31}, {1<<32 - 10, 1<<32 - 10}, {20, 1<<32 + 20}, {30, 1<<32 + 30}} {
		if got := c.grow(0, step.sample); got != step.want {
			t.Errorf("sample %d: %v, want %v", i, got, step.want)
		}
	}
	if got := c.grow(0, math.NaN()); !math.IsNaN(got) {
		t.Errorf("what can't be read is %v", got)
	}
	if got := c.grow(0, 31); got != 1<<32+31 {
		t.Errorf("after that: %v", got)
	}
}

// TestWriteAllocates checks that a batch of any size needs only a few allocations.
func TestWriteAllocates(t *testing.T) {
	for _, m := range capabilities().Methods {
		db := openTest(t, "")
		w, b := purchasesOf(t, db, m)
		rnd, next := rand.New(rand.NewPCG(1, 2)), int64(0)
		n := testing.AllocsPerRun(5, func() {
			fillPurchases(b, rnd, next, 1000)
			next += 1000
			if _, err := w.Write(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		})
		if n > 10 {
			t.Errorf("%s: %v allocations for 1000 rows", m, n)
		}
	}
}
