package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/rolling"
)

// A loaded is a declared table whose rows are specified by an integer column.
type loaded struct {
	*engine.Table
	parts []rolling.Partition
}

// rolls creates a table called name, which rolls by its column id, with n periods
// from pos on. It also has a column note.
func rolls(t testing.TB, db *DB, name, native, every string, epoch time.Duration, pos int64, n int) *loaded {
	t.Helper()
	table, parts := declared(t, fmt.Sprintf("CREATE TABLE %s (id %s NOT NULL, note TEXT DEFAULT 'none', PRIMARY KEY (id)) WITHOUT ROWID", name, native), "id", every, pos, n)
	table.Epoch = epoch
	have, err := db.Catalog().Exists(t.Context(), table)
	must(t, err)
	if !have {
		mustTry(t, db, engine.CreateTable{Table: table, Partitions: parts})
	}
	kind := engine.Int64
	if native == "DATETIME" {
		kind = engine.Time
	}
	return &loaded{&engine.Table{Name: name, Columns: []engine.Column{{Name: "ID", Type: kind}}, Grid: table.Grid, By: "id", Epoch: epoch, Definition: table.Definition}, parts}
}

// rows returns a batch of ids.
func (l *loaded) rows(ids ...int64) *engine.Batch {
	b := engine.NewBatch(l.Columns)
	b.Columns[0].Ints = append(b.Columns[0].Ints, ids...)
	b.EndRows(len(ids))
	return b
}

func openLoader(t testing.TB, db *DB) engine.Loader {
	t.Helper()
	l, err := db.Loader(t.Context())
	must(t, err)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// loadingOf opens a loader for a plain table and a table that rolls by sequence. It
// creates missing tables.
func loadingOf(t testing.TB, db *DB) (l engine.Loader, notes, readings *loaded) {
	t.Helper()
	mustExec(t, db, "CREATE TABLE IF NOT EXISTS notes (ID INTEGER PRIMARY KEY, x BLOB)")
	notes = &loaded{Table: &engine.Table{Name: "notes", Columns: []engine.Column{{Name: "ID", Type: engine.Int64}}}}
	return openLoader(t, db), notes, rolls(t, db, "seq", "INTEGER", "100 rows", 0, 0, 100)
}

func mustBegin(t testing.TB, l engine.Loader) {
	t.Helper()
	must(t, l.Begin(t.Context()))
}

func mustCommit(t testing.TB, l engine.Loader) {
	t.Helper()
	must(t, l.Commit(t.Context()))
}

func mustInsert(t testing.TB, l engine.Loader, table *engine.Table, b *engine.Batch) {
	t.Helper()
	if ack, err := l.Insert(t.Context(), table, b, 0, b.Rows()); err != nil || ack.Rows != int64(b.Rows()) || ack.Skipped != 0 {
		t.Fatalf("%+v, %v", ack, err)
	}
}

func wantRefused(t testing.TB, l engine.Loader, table *engine.Table, b *engine.Batch, class error) {
	t.Helper()
	if _, err := l.Insert(t.Context(), table, b, 0, b.Rows()); !errors.Is(err, class) || !errors.Is(err, engine.ErrRefused) || engine.Retryable(err) {
		t.Fatalf("got %v", err)
	}
}

// freeTurn fails the test if the turn of the DB is held.
func freeTurn(t testing.TB, db *DB) {
	t.Helper()
	if len(db.turn) != 0 {
		t.Fatal("the turn isn't given back")
	}
}

// TestTrapLoaderRoutes checks that rows in any order are inserted into their
// periods, for each kind of column By, and that values that don't sort like their
// position are refused. No query would find them in the period they are stored in.
func TestTrapLoaderRoutes(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	l := openLoader(t, db)
	const day = int64(86400e6)
	for name, c := range map[string]struct {
		native, every string
		epoch         time.Duration
		pos, unit     int64
	}{
		"times":    {"DATETIME", "1d", 0, firstDay, 1},
		"seconds":  {"INTEGER", "1d", time.Second, firstDay, 1e6},
		"early":    {"INTEGER", "1d", time.Second, -2 * day, 1e6},
		"millis":   {"BIGINT", "1d", time.Millisecond, firstDay, 1e3},
		"micros":   {"INTEGER", "1d", time.Microsecond, firstDay, 1},
		"sequence": {"INTEGER", "1000 rows", 0, 0, 1},
		"many":     {"INTEGER", "1000 rows", 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			defer l.Reset(t.Context())
			n := 4
			if name == "many" {
				n = 3 * mostStored
			}
			table := rolls(t, db, name, c.native, c.every, c.epoch, c.pos, n)
			var ids []int64
			for _, p := range table.parts {
				step := (p.To - p.From) / 4 / c.unit * c.unit
				for k := range int64(4) {
					ids = append(ids, (p.From+k*step)/c.unit)
				}
				ids = append(ids, (p.To-c.unit)/c.unit)
			}
			rand.New(rand.NewPCG(3, 4)).Shuffle(len(ids), func(i, k int) { ids[i], ids[k] = ids[k], ids[i] })
			mustBegin(t, l)
			mustInsert(t, l, table.Table, table.rows(ids...))
			ignores := *table.Table
			ignores.Ignore = true
			if ack, err := l.Insert(t.Context(), &ignores, table.rows(ids...), 1, len(ids)); err != nil || ack.Rows != 0 || ack.Skipped != int64(len(ids)-1) {
				t.Errorf("%+v, %v", ack, err)
			}
			good := ids[0]
			bads := []int64{c.pos/c.unit - 1, table.parts[n-1].To / c.unit, math.MinInt64, math.MaxInt64, math.MinInt64 / 2}
			if power := c.unit & -c.unit; power > 1 { // multiplied by the unit, this overflows to a valid position, modulo 2^64
				bads = append(bads, good+(1<<62)/power*4)
			}
			for _, bad := range bads {
				wantRefused(t, l, table.Table, table.rows(bad), engine.ErrNoPartition)
			}
			null := table.rows()
			null.Columns[0].AppendNull()
			null.EndRow()
			wantRefused(t, l, table.Table, null, engine.ErrNoPartition)
			mustCommit(t, l)
			if d := engine.ConnOf(l).(*loader).tables[table.Table]; len(d.tables) != min(n, mostStored) {
				t.Errorf("%d prepared statements", len(d.tables))
			}
			for _, p := range table.parts {
				within := fmt.Sprintf("%s >= %d AND %s < %d", db.Words().Position(table.Table, "id"), p.From, db.Words().Position(table.Table, "id"), p.To)
				wantLines(t, db, "SELECT count(*), sum("+within+"), min(note) FROM "+db.Words().From(table.Table, p), "5|5|none")
			}
			for _, kind := range []engine.Type{engine.Varchar, engine.Float64, engine.Time, engine.Int64, engine.Binary} {
				if kind == table.Columns[0].Type {
					continue
				}
				other := *table.Table
				other.Columns = []engine.Column{{Name: "id", Type: kind}}
				b := engine.NewBatch(other.Columns)
				v := &b.Columns[0]
				switch kind {
				case engine.Varchar, engine.Binary:
					v.AppendBytes([]byte("2026-11-20"))
				case engine.Float64:
					v.Floats = append(v.Floats, float64(good))
				default:
					v.Ints = append(v.Ints, good)
				}
				b.EndRow()
				mustBegin(t, l)
				if _, err := l.Insert(t.Context(), &other, b, 0, 1); err == nil || errors.Is(err, engine.ErrRefused) || engine.Retryable(err) {
					t.Errorf("vector of type %d: %v", kind, err)
				}
				freeTurn(t, db)
			}
		})
	}
	gone := rolls(t, db, "gone", "DATETIME", "1d", 0, firstDay, 1)
	mustTry(t, db, engine.DropTable{Table: gone.Table, Partitions: gone.parts})
	mustBegin(t, l)
	if _, err := l.Insert(t.Context(), gone.Table, gone.rows(firstDay), 0, 1); !errors.Is(err, engine.ErrNoTable) {
		t.Errorf("no table: %v", err)
	}
	freeTurn(t, db)
}

// TestLoaderTurn checks that the turn is released exactly once, in every case.
func TestLoaderTurn(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	l, notes, _ := loadingOf(t, db)
	end := beside(t, db, "BEGIN IMMEDIATE")
	if err := l.Begin(t.Context()); !errors.Is(err, engine.ErrLockTimeout) || !engine.Retryable(err) || errors.Is(err, engine.ErrRefused) {
		t.Fatalf("the file is locked: %v", err)
	}
	freeTurn(t, db)
	must(t, l.Reset(t.Context()))
	end()
	// The turn of another loader is not released.
	second := openLoader(t, db)
	mustBegin(t, second)
	mustInsert(t, second, notes.Table, notes.rows(2))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := l.Begin(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the turn is taken: %v", err)
	}
	must(t, errors.Join(l.Reset(t.Context()), l.Close(), l.Close()))
	mustCommit(t, second)
	// Close within a transaction.
	mustBegin(t, second)
	mustInsert(t, second, notes.Table, notes.rows(3))
	must(t, second.Close())
	freeTurn(t, db)
	wantLines(t, db, "SELECT id FROM notes", "2")
	if err := second.Begin(t.Context()); err == nil {
		t.Error("begun after Close")
	}
	freeTurn(t, db)
}

// TestLoaderCanceled cancels a context in the middle of an Insert.
func TestLoaderCanceled(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	l, notes, _ := loadingOf(t, db)
	ids := make([]int64, 5000)
	for i := range ids {
		ids[i] = int64(i)
	}
	mustBegin(t, l)
	b := notes.rows(ids...)
	if _, err := l.Insert(&expiring{t.Context(), 3}, notes.Table, b, 0, b.Rows()); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	freeTurn(t, db)
	wantLines(t, db, "SELECT count(*) FROM notes", "0")
	mustBegin(t, l)
	mustInsert(t, l, notes.Table, b)
	mustCommit(t, l)
}

// TestTrapLoaderSeesPeriodsOfOthers has another DB create and remove periods.
func TestTrapLoaderSeesPeriodsOfOthers(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	second, err := Open(t.Context(), engine.Target{Scheme: "sqlite", Path: db.path})
	must(t, err)
	defer second.Close()
	table := rolls(t, db, "r", "DATETIME", "1d", 0, firstDay, 3)
	whole, _ := declared(t, table.Definition.Text, "id", "1d", firstDay, 0)
	l := openLoader(t, db)
	load := func(at int64) error {
		mustBegin(t, l)
		_, err := l.Insert(t.Context(), table.Table, table.rows(at), 0, 1)
		mustCommit(t, l)
		return err
	}
	p := table.parts
	next := rolling.Partition{Name: "p20261123", Period: rolling.Period{From: p[2].To, To: p[2].To + 86400e6}}
	if err := load(next.From); !errors.Is(err, engine.ErrNoPartition) {
		t.Fatalf("got %v", err)
	}
	mustTry(t, second, engine.CreatePartitions{Table: whole, Have: p, New: []rolling.Partition{next}})
	must(t, load(next.From))
	must(t, load(p[0].From))
	mustTry(t, second, engine.Detach{Table: whole, Part: p[0], Into: "away"})
	if err := load(p[0].From + 1); !errors.Is(err, engine.ErrNoPartition) {
		t.Fatalf("got %v", err)
	}
	wantLines(t, db, "SELECT (SELECT count(*) FROM away), (SELECT count(*) FROM r)", "1|1")
	mustTry(t, db, engine.Attach{Table: whole, Part: p[0], From: "away"})
	must(t, load(p[0].From+1))
	wantLines(t, db, "SELECT count(*) FROM r", "3")
}

// TestLoaderBesideWriter uses a loader and a writer on one table whose keys the
// engine assigns.
func TestLoaderBesideWriter(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	table := &engine.Table{Name: "w", Columns: []engine.Column{{Name: "id", Type: engine.Int64, Auto: true}, {Name: "n", Type: engine.Int64}}, PrimaryKey: []string{"id"}}
	must(t, db.Apply(t.Context(), engine.CreateTable{Table: table}))
	keyed := *table
	keyed.ServerKey = "id"
	w, err := db.Writer(t.Context(), &keyed, engine.Prepared)
	must(t, err)
	defer w.Close()
	const batches, each = 50, 40
	own := engine.NewBatch(keyed.Inserted())
	for range each {
		own.Columns[0].Ints = append(own.Columns[0].Ints, 1)
	}
	own.EndRows(each)
	l := openLoader(t, db)
	b := engine.NewBatch(keyed.Inserted())
	b.Columns[0].Ints = append(b.Columns[0].Ints, 2)
	b.EndRow()
	written := make(chan error, 1)
	go func() {
		var errs []error
		for range batches {
			_, err := w.Write(context.Background(), own)
			errs = append(errs, err)
		}
		written <- errors.Join(errs...)
	}()
	for range batches {
		mustBegin(t, l)
		mustInsert(t, l, &keyed, b) // SQLite assigns the key
		mustInsert(t, l, &keyed, b)
		mustCommit(t, l)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	wantLines(t, db, "SELECT n, count(*) FROM w GROUP BY n ORDER BY n", fmt.Sprintf("1|%d", batches*each), fmt.Sprintf("2|%d", 2*batches))
}

// TestTrapLoaderKilled checks that kill -9 leaves only complete transactions.
func TestTrapLoaderKilled(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "loaded.db")
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 5 {
		cmd, out := child(t, "load", path)
		if line, err := out.ReadString('\n'); err != nil || line != "loads\n" {
			t.Fatalf("the other process: %q, %v", line, err)
		}
		time.Sleep(time.Duration(20+rnd.IntN(60)) * time.Millisecond)
		kill(cmd)
		db, err := Open(t.Context(), engine.Target{Scheme: "sqlite", Path: path})
		must(t, err)
		wantLines(t, db, "SELECT (SELECT count(*) FROM seq) - 25 * count(*), count(*) > 0, max(id) + 1 - count(*) FROM notes", "0|1|0")
		for _, q := range []string{"DELETE FROM seq", "DELETE FROM notes"} {
			mustExec(t, db, q)
		}
		must(t, db.Close())
	}
}

// BenchmarkLoader measures a transaction of a note and 1000 rows of a rolling
// table, in the order of its periods or shuffled over 20 periods.
func BenchmarkLoader(b *testing.B) {
	for _, shuffled := range []bool{false, true} {
		b.Run(fmt.Sprintf("shuffled=%v", shuffled), func(b *testing.B) {
			db := openTest(b, "&cache=64MB")
			l, notes, _ := loadingOf(b, db)
			const rows = 1000
			table := rolls(b, db, "r", "INTEGER", "10000000 rows", 0, 0, 20)
			batch, note := table.rows(make([]int64, rows)...), notes.rows(0)
			n := int64(0)
			load := func() {
				for i := range batch.Columns[0].Ints {
					n++
					batch.Columns[0].Ints[i] = n
					if shuffled {
						batch.Columns[0].Ints[i] += n % 20 * 10_000_000
					}
				}
				note.Columns[0].Ints[0] = n
				mustBegin(b, l)
				mustInsert(b, l, notes.Table, note)
				mustInsert(b, l, table.Table, batch)
				mustCommit(b, l)
			}
			load()
			b.ReportAllocs()
			for b.Loop() {
				load()
			}
			b.ReportMetric(float64(rows*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// limitLength is SQLITE_LIMIT_LENGTH, the limit on the length of text or a blob.
const limitLength = 0

// TestLoaderRefuses checks that errors caused by rows are refusals and keep the
// earlier rows, and that others end the transaction and release the turn.
func TestLoaderRefuses(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	execute := func(q string) func() {
		return func() {
			_, err := db.write.Exec(q, nil)
			must(t, err)
		}
	}
	execute("PRAGMA foreign_keys = ON")()
	longest := db.write.SetLimit(limitLength, 1e6)
	defer db.write.SetLimit(limitLength, longest)
	enginetest.Refusals{
		Setup: []string{
			"CREATE TABLE log (x)",
			"CREATE TABLE r (a INTEGER PRIMARY KEY, b TEXT NOT NULL DEFAULT 'b' CHECK (b <> 'no'), c TEXT UNIQUE, d TEXT REFERENCES parent (id))",
			"CREATE TABLE parent (id TEXT PRIMARY KEY)",
			"CREATE TRIGGER logs AFTER INSERT ON r BEGIN INSERT INTO log VALUES (1), (2), (3); END",
			"CREATE TRIGGER raises BEFORE INSERT ON r BEGIN SELECT CASE NEW.c WHEN 'abort' THEN RAISE(ABORT, 'not this one') WHEN 'fail' THEN RAISE(FAIL, 'not this one') WHEN 'rollback' THEN RAISE(ROLLBACK, 'not this one') END; END",
			"CREATE TABLE strictly (a INTEGER, b BLOB) STRICT",
			"CREATE TABLE passes (a TEXT UNIQUE ON CONFLICT IGNORE)",
			"INSERT INTO r VALUES (1, 'b', 'c', NULL)", "DELETE FROM log",
		},
		Tables: []string{"r", "log", "strictly"},
		Refused: []enginetest.Refusal{
			{Name: "key", Table: "r", Row: []any{"a", "1"}, Class: engine.ErrDuplicateKey},
			{Name: "unique", Table: "r", Row: []any{"c", "c"}, Class: engine.ErrDuplicateKey},
			{Name: "null", Table: "r", Row: []any{"b", nil}},
			{Name: "check", Table: "r", Row: []any{"b", "no"}},
			{Name: "mismatch", Table: "r", Row: []any{"a", "one"}},
			{Name: "parent", Table: "r", Row: []any{"d", "nobody"}},
			{Name: "abort", Table: "r", Row: []any{"c", "abort"}},
			{Name: "fail", Table: "r", Row: []any{"c", "fail"}},
			{Name: "strict", Table: "strictly", Row: []any{"a", "one"}},
			{Name: "too long", Table: "r", Row: []any{"c", strings.Repeat("x", 2e6)}},
			{Name: "row length", Table: "r", Row: []any{"b", strings.Repeat("x", 6e5), "c", strings.Repeat("x", 6e5)}},
		},
		Ended: []enginetest.Refusal{
			{Name: "no table", Table: "nowhere", Row: []any{"a", "1"}, Class: engine.ErrNoTable},
			{Name: "no column", Table: "r", Row: []any{"nowhere", "1"}},
			{Name: "read-only", Table: "r", Row: []any{"c", "z"}, Before: execute("PRAGMA query_only = ON"), After: execute("PRAGMA query_only = OFF")},
			{Name: "disk full", Table: "r", Row: []any{"c", strings.Repeat("x", 9e5)}, Class: engine.ErrDiskFull,
				Before: execute("PRAGMA max_page_count = 1"), After: execute("PRAGMA max_page_count = 1000000")},
		},
	}.Run(t, db)
	freeTurn(t, db)

	l, notes, _ := loadingOf(t, db)
	one := func(table, column, value string) (*engine.Table, *engine.Batch) {
		to := &engine.Table{Name: table, Columns: []engine.Column{{Name: column, Type: engine.Varchar}}}
		b := engine.NewBatch(to.Columns)
		b.Columns[0].AppendBytes([]byte(value))
		b.EndRow()
		return to, b
	}
	t.Run("rollback", func(t *testing.T) {
		bad, b := one("r", "c", "rollback")
		mustBegin(t, l)
		wantRefused(t, l, bad, b, engine.ErrRefused)
		mustInsert(t, l, notes.Table, notes.rows(9000))
		if _, err := l.Insert(t.Context(), bad, b, 0, 1); err == nil || errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "not this one") {
			t.Errorf("got %v", err)
		}
		freeTurn(t, db)
		wantLines(t, db, "SELECT count(*) FROM notes WHERE id = 9000", "0")
	})
	t.Run("acknowledged", func(t *testing.T) { // without the trigger's rows and skipped rows
		table, b := one("r", "c", "new")
		passes, p := one("passes", "a", "x")
		mustBegin(t, l)
		mustInsert(t, l, table, b)
		mustInsert(t, l, passes, p)
		if ack, err := l.Insert(t.Context(), passes, p, 0, 1); err != nil || ack.Rows != 0 || ack.Skipped != 0 {
			t.Errorf("%+v, %v", ack, err)
		}
		ignores := *table
		ignores.Ignore = true
		if ack, err := l.Insert(t.Context(), &ignores, b, 0, 1); err != nil || ack.Rows != 0 || ack.Skipped != 1 {
			t.Errorf("%+v, %v", ack, err)
		}
		mustCommit(t, l)
		wantLines(t, db, "SELECT count(*) FROM log", "3")
	})
}
