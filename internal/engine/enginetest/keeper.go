package enginetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// RunKeeper runs the suite for engines that keep declared tables. open returns an empty database,
// which is closed and removed at the end of the test that it is called for.
func RunKeeper(t *testing.T, open func(testing.TB) engine.Keeper) {
	s := keepers{open}
	beside(t, []test{
		{"Describe", s.describe},
		{"Define", s.define},
		{"Create", s.create},
		{"Outside", s.outside},
		{"Positions", s.positions},
		{"AsText", s.asText},
		{"RowHash", s.rowHash},
		{"Detach", s.detach},
		{"Older", s.older},
		{"Replace", s.replace},
		{"Readers", s.readers},
		{"Interrupted", s.interrupted},
		{"Drop", s.drop},
		{"AddColumn", s.addColumn},
		{"PeriodSizes", s.periodSizes},
		{"Lead", s.lead},
		{"OddNames", s.oddNames},
		{"Mirror", s.mirror},
		{"Keys", s.keys},
		{"Errors", s.errors},
		{"SessionValues", s.sessionValues},
		{"SessionTransaction", s.sessionTransaction},
		{"SessionErrors", s.sessionErrors},
		{"SessionKill", s.sessionKill},
		{"SessionState", s.sessionState},
		{"SessionSnapshot", s.sessionSnapshot},
		{"Household", s.household},
	})
}

type keepers struct {
	open func(testing.TB) engine.Keeper
}

// types are the engines' names for the types of the tests' tables. Text columns
// accept any character, whatever the server's default.
var types = map[string]struct{ time, float, text, bytes string }{
	"mariadb":  {"DATETIME(6)", "DOUBLE", "VARCHAR(200) CHARACTER SET utf8mb4", "LONGBLOB"},
	"mysql":    {"DATETIME(6)", "DOUBLE", "VARCHAR(200) CHARACTER SET utf8mb4", "LONGBLOB"},
	"postgres": {"TIMESTAMP(6)", "DOUBLE PRECISION", "TEXT", "BYTEA"},
	"sqlite":   {"DATETIME", "DOUBLE", "TEXT", "BLOB"},
}

// A kept is a declared table of the tests, with periods of a day or of 1000 rows.
// Its columns are id and ts, which are its key, and n, price, value, note and raw,
// which may be NULL. Column By is ts, or id for a sequence.
type kept struct {
	*engine.Table
	db    engine.Keeper
	parts []rolling.Partition
	quote func(string) string
}

// kinds are the kinds of column By.
var kinds = []string{"time", "seconds", "microseconds", "sequence"}

// stoodFor reports whether a test may be omitted on db's server because it runs on MariaDB's
// InnoDB. Outside of the nightly run, this is true of MySQL and MyRocks: they get the same
// statements, and take several times as long.
func stoodFor(db engine.DB) bool {
	return os.Getenv(nightly) == "" && (db.Info().Engine == "mysql" || strings.EqualFold(db.Info().Storage, "rocksdb"))
}

// eachKind runs a test with each kind of column By, on a database of its own. Outside of the
// nightly run, MySQL, MyRocks and PostgreSQL omit the kinds seconds and microseconds.
func eachKind[DB engine.Keeper](t *testing.T, open func(testing.TB) DB, run func(t *testing.T, db DB, kind string)) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			db := open(t)
			if strings.HasSuffix(kind, "seconds") && (stoodFor(db) || os.Getenv(nightly) == "" && db.Info().Engine == "postgres") {
				t.Skip("in the nightly run only")
			}
			run(t, db, kind)
		})
	}
}

// keptTable creates a table called name, whose column By is of this kind (see kinds). Its periods
// begin at 2026-11-20, or at key 0.
func keptTable(t testing.TB, db engine.Keeper, name, kind string, periodCount int) *kept {
	t.Helper()
	return keptNames(t, db, name, kind, periodCount, func(column string) string { return column })
}

func keptNames(t testing.TB, db engine.Keeper, name, kind string, periodCount int, rename func(string) string) *kept {
	t.Helper()
	types, ok := types[db.Info().Engine]
	if !ok {
		t.Fatalf("the suite doesn't know the types of %s", db.Info().Engine)
	}
	quote := db.Dialect().Quote
	by, pos := "ts", start-start%day
	k := &kept{db: db, quote: quote, Table: &engine.Table{Name: name, Grid: grid(t, "1d")}}
	byType := types.time
	switch kind {
	case "seconds":
		k.Epoch, byType = time.Second, "BIGINT"
	case "microseconds":
		k.Epoch, byType = time.Microsecond, "BIGINT"
	case "sequence":
		k.Grid, by, pos = grid(t, "1000 rows"), "id", 0
	}
	q := func(column string) string { return quote(rename(column)) }
	text := fmt.Sprintf("CREATE TABLE %s (\n  %s BIGINT NOT NULL,\n  %s %s NOT NULL,\n  %s INT,\n  %s DECIMAL(12,4),\n  %s %s,\n  %s %s,\n  %s %s,\n  PRIMARY KEY (%s, %s)\n)",
		quote(name), q("id"), q("ts"), byType, q("n"), q("price"), q("value"), types.float, q("note"), types.text, q("raw"), types.bytes, q("id"), q("ts"))
	d, err := rolling.ReadDefinition(text)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	k.Definition, k.By = d, rename(by)
	k.parts = periods(t, k.Grid, pos, periodCount)
	return k
}

// created returns the table of keptTable after creating it with its periods.
func created(t testing.TB, db engine.Keeper, name, kind string, periodCount int) *kept {
	t.Helper()
	k := keptTable(t, db, name, kind, periodCount)
	apply(t, db, engine.CreateTable{Table: k.Table, Partitions: k.parts})
	return k
}

// at returns the position of row i of a period, whose rows are spread over it.
func (k *kept) at(p rolling.Partition, i int) int64 {
	if k.Grid.Axis() == rolling.Sequence {
		return p.From + int64(i)
	}
	return p.From + int64(i)*(day/1000)/1000000*1000000
}

// insert inserts rows [from, to) of each period; to is at most 1000. Some values are NULL.
func (k *kept) insert(t testing.TB, parts []rolling.Partition, from, to int) {
	t.Helper()
	tx, err := k.db.SQL().BeginTx(within(t), nil)
	Must(t, err)
	defer tx.Rollback()
	const perStatement = 50
	for _, p := range parts {
		for i := from; i < to; i += perStatement {
			var rows []string
			var args []any
			for j := i; j < min(i+perStatement, to); j++ {
				pos := k.at(p, j)
				id, ts := pos/1000, k.Words().Literal(k.Table, pos)
				if k.Grid.Axis() == rolling.Sequence {
					// Column By is id, so ts can have any value.
					id, ts = pos, "'2026-11-20 18:00:00'"
				}
				rows = append(rows, "(?, "+ts+", ?, ?, ?, ?, ?)")
				args = append(args, id)
				args = append(args, values(j)...)
			}
			k.exec(t, tx, "INSERT INTO "+k.quote(k.Name)+" VALUES "+strings.Join(rows, ", "), args...)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(k.db.Classify(err))
	}
}

// values returns the values of columns n, price, value, note and raw of row i.
func values(i int) []any {
	v := []any{i * 7, fmt.Sprintf("%d.%04d", i, i%10000), float64(i) / 3, edgeText[i%len(edgeText)], []byte{0, byte(i), 0xff, '\''}}
	v[3] = strings.ReplaceAll(v[3].(string), "\x00", "?") // PostgreSQL refuses zero bytes in text
	v[i%5] = nil
	return v
}

// Words returns the Words of the table's engine.
func (k *kept) Words() engine.Words { return k.db.Words() }

// exec executes a statement with question marks as placeholders, in a transaction or on the pool.
// If a lock isn't granted, it tries again, as Retry does.
func (k *kept) exec(t testing.TB, x execer, q string, args ...any) {
	t.Helper()
	if err := Retry(t, func() error { return k.try(x, q, args...) }); err != nil {
		t.Fatalf("%.200s: %v", q, err)
	}
}

func (k *kept) try(x execer, q string, args ...any) error {
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	_, err := x.ExecContext(ctx, k.db.Bind(q), args...)
	return k.db.Classify(err)
}

// schema describes the table.
func (k *kept) schema(t testing.TB, name string) *engine.Schema {
	t.Helper()
	s, err := k.db.Describe(within(t), name)
	if err != nil {
		t.Fatalf("describe: %v", err)
	}
	return s
}

// A content is the number of rows and their checksum.
type content struct {
	Rows        int64
	Hash, Match string
}

// content returns the number and the checksums of the rows in a table or view. from is its quoted
// name. It must have all columns of k.
func (k *kept) content(t testing.TB, from string) content {
	t.Helper()
	var c content
	cols := k.schema(t, k.Name).Columns
	q := fmt.Sprintf("SELECT COUNT(*), %s, %s FROM %s", k.Words().RowHash(cols), k.Words().MatchHash(cols), from)
	err := Retry(t, func() error {
		return k.db.Classify(k.db.SQL().QueryRowContext(within(t), q).Scan(&c.Rows, &c.Hash, &c.Match))
	})
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return c
}

// whole returns the content of the table.
func (k *kept) whole(t testing.TB) content {
	t.Helper()
	return k.content(t, k.quote(k.Name))
}

// of returns the content of a table with that name.
func (k *kept) of(t testing.TB, table string) content {
	t.Helper()
	return k.content(t, k.quote(table))
}

// part returns the content of one period.
func (k *kept) part(t testing.TB, p rolling.Partition) content {
	t.Helper()
	return k.content(t, k.Words().From(k.Table, p))
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s is %v, want %v", what, got, want)
	}
}

// Try tries a step, with Retry.
func Try(t testing.TB, db engine.Keeper, s engine.Step) error {
	t.Helper()
	return Retry(t, func() error { return db.Try(within(t), s) })
}

// Retry calls fn again while its lock isn't granted, as Apply does. The server, which other tests
// share, can lock its own catalog for seconds, and connections that were just killed may still hold
// their locks.
//
// A test that needs more than mostRetries in all fails: what it tests waits for locks, or holds
// them, for too long.
func Retry(t testing.TB, fn func() error) error {
	n, found := retries.LoadOrStore(t, &atomic.Int64{})
	if !found {
		t.Cleanup(func() { retries.Delete(t) })
	}
	left := mostRetries - n.(*atomic.Int64).Load()
	return engine.RetryLocks(within(t), int(max(left, 0))+1, func() error {
		err := fn()
		if errors.Is(err, engine.ErrLockTimeout) {
			n.(*atomic.Int64).Add(1)
		}
		return err
	})
}

const mostRetries = 20

// retries has the number of retries by test.
var retries sync.Map

// step executes a step twice; the second time it must have no effect.
func (k *kept) step(t testing.TB, s engine.Step) {
	t.Helper()
	for i := range 2 {
		if err := Try(t, k.db, s); err != nil {
			t.Fatalf("%T, try %d: %v", s, i+1, err)
		}
	}
}

// wantParts compares the partitions in the catalog.
func (k *kept) wantParts(t testing.TB, want []rolling.Partition) {
	t.Helper()
	wantPartitions(t, k.db, k.Table, want)
}

// without returns the partitions that the catalog has after partition i is removed.
func (k *kept) without(parts []rolling.Partition, i int) []rolling.Partition {
	out := slices.Delete(slices.Clone(parts), i, i+1)
	if !k.db.Capabilities().Gaps && i < len(out) {
		out[i].From = parts[i].From
		if i == 0 { // the first partition keeps its lower bound
			out[i].From = parts[1].From
		}
	}
	return out
}

// template creates an empty table with the table's structure and returns its name.
func (k *kept) template(t testing.TB, name string) string {
	t.Helper()
	for _, q := range k.Words().CreateTemplate(k.Table, name, engine.Storage{}) {
		k.exec(t, k.db.SQL(), q)
	}
	return name
}

// tables returns those of the names that are tables.
func (k *kept) tables(t testing.TB, names ...string) []string {
	t.Helper()
	there := map[string]bool{}
	for _, name := range names {
		ok, err := k.db.Catalog().Exists(within(t), &engine.Table{Name: name})
		Must(t, err)
		if ok {
			there[name] = true
		}
	}
	return slices.Sorted(maps.Keys(there))
}
