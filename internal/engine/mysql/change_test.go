package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/rolling"
)

// day is in microseconds; first is 2026-11-20 as a position.
const (
	day   = int64(24 * time.Hour / time.Microsecond)
	first = int64(1795132800e6)
)

// A kept is a declared table with daily periods.
type kept struct {
	*engine.Table
	t     *testing.T
	db    *mysql.DB
	parts []rolling.Partition
}

// keep creates a table with n daily periods whose column ts has the given type.
func keep(t *testing.T, db *mysql.DB, tsType string, epoch time.Duration, n int) *kept {
	t.Helper()
	d, err := rolling.ReadDefinition("CREATE TABLE readings (id INT NOT NULL, ts " + tsType + " NOT NULL, v INT, PRIMARY KEY (id, ts), KEY v (v))")
	must(t, err)
	g, err := rolling.Parse("1d")
	must(t, err)
	k := &kept{t: t, db: db, Table: &engine.Table{Name: "readings", Definition: d, Grid: g, By: "ts", Epoch: epoch}}
	for i := range int64(n) {
		p, err := g.At(first + i*day)
		must(t, err)
		k.parts = append(k.parts, g.Named(p))
	}
	k.try(engine.CreateTable{Table: k.Table, Partitions: k.parts})
	return k
}

// run runs statements, as enginetest.Retry does.
func (k *kept) run(statements ...string) {
	k.t.Helper()
	for _, q := range statements {
		err := enginetest.Retry(k.t, func() error {
			_, err := k.db.SQL().ExecContext(within(k.t), q)
			return k.db.Classify(err)
		})
		if err != nil {
			k.t.Fatalf("%s: %v", q, err)
		}
	}
}

// insert inserts n rows at a position, with ids starting at from.
func (k *kept) insert(pos int64, from, n int) {
	k.t.Helper()
	k.run(fmt.Sprintf("INSERT INTO readings (id, ts, v) WITH RECURSIVE seq (n) AS (SELECT %d UNION ALL SELECT n + 1 FROM seq WHERE n < %d) SELECT n, %s, n FROM seq",
		from, from+n-1, k.db.Words().Literal(k.Table, pos)))
}

// ids returns the number of rows of a FROM clause and the sum of their ids.
func (k *kept) ids(from string) string {
	k.t.Helper()
	var n, sum sql.NullInt64
	if err := k.db.SQL().QueryRowContext(within(k.t), "SELECT COUNT(*), SUM(id) FROM "+from).Scan(&n, &sum); err != nil {
		k.t.Fatalf("%s: %v", from, err)
	}
	return fmt.Sprintf("%d rows, %d", n.Int64, sum.Int64)
}

func (k *kept) part(i int) string { return k.db.Words().From(k.Table, k.parts[i]) }

func (k *kept) want(from, want string) {
	k.t.Helper()
	if got := k.ids(from); got != want {
		k.t.Errorf("%s has %s, want %s", from, got, want)
	}
}

// have returns the partitions in the catalog, as text.
func (k *kept) have() string {
	k.t.Helper()
	parts, err := k.db.Catalog().Partitions(within(k.t), k.Table)
	must(k.t, err)
	return fmt.Sprint(parts)
}

func (k *kept) try(s engine.Step) {
	k.t.Helper()
	if err := enginetest.Try(k.t, k.db, s); err != nil {
		k.t.Fatalf("%T: %v", s, err)
	}
}

// fill creates a table with the rows of periods.
func (k *kept) fill(name string, parts ...int) {
	k.t.Helper()
	k.run(k.db.Words().CreateTemplate(k.Table, name, engine.Storage{})...)
	for _, i := range parts {
		k.run("INSERT INTO " + name + " SELECT * FROM " + k.part(i))
	}
}

// replace returns the Replace of periods [from, to) by the table with_it.
func (k *kept) replace(from, to int) engine.Replace {
	r := engine.Replace{Table: k.Table, Have: k.parts, Old: k.parts[from:to], With: "with_it"}
	r.New = rolling.Partition{Name: k.parts[to-1].Name, Period: rolling.Period{From: k.parts[from].From, To: k.parts[to-1].To}}
	for i := from; i < to; i++ {
		r.Out = append(r.Out, fmt.Sprintf("out_%d", i))
	}
	return r
}

// errBroken is the error with which a test interrupts a change.
var errBroken = engine.Classed(engine.ErrConnectionLost, errors.New("broken off"))

// breakOff interrupts the next change before its statement n.
func breakOff(_ testing.TB, db engine.Keeper, n int) (stop func() bool) {
	seen := 0
	db.(*mysql.DB).Interrupt(func(string) error {
		if seen++; seen > n {
			return errBroken
		}
		return nil
	})
	return func() bool {
		db.(*mysql.DB).Interrupt(nil)
		return seen > n
	}
}

// TestTrapBrokenOff: every DDL statement commits. Wherever a change is interrupted,
// trying it again leads to the same result, also if rows were inserted meanwhile.
func TestTrapBrokenOff(t *testing.T) {
	t.Parallel()
	kinds := []string{"mysql"}
	if testdb.Nightly() {
		kinds = append(kinds, "mariadb", "mariadb-rocksdb")
	}
	for _, kind := range kinds {
		i := enginetest.Interrupter{Open: func(t testing.TB) engine.Keeper { return testdb.Open(t, kind).(*mysql.DB) }, Break: breakOff, Late: true}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			i.Run(t)
		})
		if kind == "mysql" && testdb.Nightly() { // TestTrapInstantColumn stands for it: MySQL refuses to exchange partitions after a column was added instantly
			t.Run("column added", func(t *testing.T) {
				t.Parallel()
				added := i
				added.Added = true
				added.Run(t)
			})
		}
	}
}

// TestTrapRenameRefused: after MySQL was killed within the last step of a Replace, it can refuse
// that step for good. About one kill in thirty leaves a table so; the error stands for them.
func TestTrapRenameRefused(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "mysql").(*mysql.DB)
	k := keep(t, db, "DATETIME", 0, 2)
	k.insert(first, 1, 10)
	k.fill("with_it")
	k.run("INSERT INTO with_it VALUES (500, " + db.Words().Literal(k.Table, first) + ", 1)")
	refused := 0
	db.Interrupt(func(statement string) error {
		if strings.Contains(statement, "RENAME TO") {
			refused++
			return &driver.MySQLError{Number: 3664, Message: "Failed to delete SDI"}
		}
		return nil
	})
	k.try(k.replace(0, 1))
	if refused != 1 {
		t.Errorf("refused %d times", refused)
	}
	k.want(k.part(0), "1 rows, 500")
	k.want("out_0", "10 rows, 55")
	var comment string
	must(t, db.Pool().QueryRowContext(within(t), "SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'out_0'").Scan(&comment))
	if comment != "" {
		t.Errorf("the table that was renamed keeps the comment %q", comment)
	}
}

// TestTrapBrokenOffWithoutPrivileges: without access to tablespaces, tables are
// distinguished by their rows.
func TestTrapBrokenOffWithoutPrivileges(t *testing.T) {
	testdb.OnKinds(t, servers, func(t *testing.T, kind string) {
		db := testdb.Open(t, kind).(*mysql.DB)
		open := func(t testing.TB) engine.Keeper { return few(t, db, "ALL") }
		enginetest.Interrupter{Open: open, Break: breakOff, Late: true}.Run(t)
	})
}

// keepers counts the accounts that few has created.
var keepers atomic.Int64

// few opens the database as an account with some privileges on it only.
func few(t testing.TB, db *mysql.DB, privileges string) *mysql.DB {
	t.Helper()
	// Accounts belong to the whole server, which other tests share.
	s, user := session(t, db), fmt.Sprintf("keeper_%d_%d", os.Getpid(), keepers.Add(1))
	exec(t, s, "CREATE USER "+user+"@localhost IDENTIFIED BY 'geheim'", "GRANT "+privileges+" ON "+db.Dialect().Quote(db.Target().Path)+".* TO "+user+"@localhost")
	file := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(file, []byte("geheim\n"), 0o600))
	target := db.Target()
	target.User = user
	target.Query.Set("password-file", file)
	out, err := mysql.Open(within(t), target)
	must(t, err)
	t.Cleanup(func() {
		if err := out.Close(); err != nil {
			t.Error(err)
		}
		if _, err := db.Pool().ExecContext(context.Background(), "DROP USER "+user+"@localhost"); err != nil {
			t.Error(err)
		}
	})
	return out
}

// TestFloor: rows older than every period are counted, and not removed with the oldest period.
func TestFloor(t *testing.T) { onEach(t, testFloor) }

func testFloor(t *testing.T, db *mysql.DB) {
	k := keep(t, db, "DATETIME", 0, 3)
	k.insert(first, 1, 10)
	k.insert(first-day+5e6, 100, 3)
	k.insert(first-9*day, 200, 2)
	outside := func(want int64) {
		t.Helper()
		if n, err := db.Outside(within(t), k.Table); n != want || err != nil {
			t.Errorf("%d rows are before the first period, want %d; %v", n, want, err)
		}
	}
	outside(5)
	k.want(k.part(0), "10 rows, 55")
	if got := k.have(); got != fmt.Sprint(k.parts) {
		t.Errorf("partitions %s", got)
	}
	k.try(engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[0], Into: "gone"})
	k.want("gone", "10 rows, 55")
	outside(5)
	k.insert(first+5e6, 300, 1)
	outside(6)
	// An attached older period gets its own rows and leaves the others in the floor.
	old := k.Grid.Named(rolling.Period{From: first - day, To: first})
	k.fill("back")
	k.run("INSERT INTO back VALUES (500, " + db.Words().Literal(k.Table, old.From) + ", 1)")
	k.try(engine.Attach{Table: k.Table, Have: k.parts[1:], Part: old, From: "back"})
	k.want(db.Words().From(k.Table, old), "4 rows, 803")
	outside(3) // one of them in the gap between the old period and the first one
	if got, want := k.have(), fmt.Sprint(append([]rolling.Partition{old}, k.parts[1:]...)); got != want {
		t.Errorf("partitions %s, want %s", got, want)
	}
	k.want("readings", "7 rows, 1504")
	// A period that is created in a gap gets its rows from there.
	between := k.Grid.Named(rolling.Period{From: first - day/2, To: k.parts[1].From})
	between.From = k.parts[0].From
	k.try(engine.CreatePartitions{Table: k.Table, New: []rolling.Partition{between}})
	k.want(db.Words().From(k.Table, between), "1 rows, 300")
	outside(2)
	// All periods can be removed.
	for _, p := range append([]rolling.Partition{old, between}, k.parts[1:]...) {
		k.try(engine.DropTables{Names: []string{"gone"}})
		k.try(engine.Detach{Table: k.Table, Part: p, Into: "gone"})
	}
	if got := k.have(); got != "[]" {
		t.Errorf("partitions %s", got)
	}
	k.try(engine.CreatePartitions{Table: k.Table, New: k.parts[2:]})
	if got := k.have(); got != fmt.Sprint(k.parts[2:]) {
		t.Errorf("partitions %s", got)
	}
}

// TestPartitionsBesideChange: a transaction with rows of a table can read its partitions on another
// connection while a change of the table waits for that transaction.
func TestPartitionsBesideChange(t *testing.T) { onEach(t, testPartitionsBesideChange) }

func testPartitionsBesideChange(t *testing.T, db *mysql.DB) {
	k := keep(t, db, "DATETIME", 0, 2)
	for _, change := range []string{"ALTER TABLE readings ADD COLUMN x INT, ALGORITHM=COPY", "LOCK TABLES readings WRITE"} {
		tx, err := db.SQL().BeginTx(within(t), nil)
		must(t, err)
		_, err = tx.ExecContext(within(t), "INSERT INTO readings (id, ts, v) VALUES (1, "+db.Words().Literal(k.Table, first)+", 1)")
		must(t, err)
		other, err := db.Pool().Conn(within(t))
		must(t, err)
		done := make(chan error, 1)
		go func() {
			_, err := other.ExecContext(within(t), change)
			done <- err
		}()
		for waits := 0; waits == 0; time.Sleep(5 * time.Millisecond) {
			must(t, db.Pool().QueryRowContext(within(t), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE 'Waiting for table metadata lock%' AND DB = DATABASE()").Scan(&waits))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if parts, err := db.Catalog().Partitions(ctx, k.Table); err != nil || len(parts) != 2 {
			t.Errorf("beside %s: %v, %v", change, parts, err)
		}
		cancel()
		must(t, tx.Rollback())
		must(t, <-done)
		must(t, engine.DiscardConn(db, other))
	}
}

// TestEnclose: rows in a gap, too many to be copied, become those of a period, wherever that is
// broken off.
func TestEnclose(t *testing.T) { onEach(t, testEnclose) }

func testEnclose(t *testing.T, db *mysql.DB) {
	for n, broken := 0, true; broken; n++ {
		k := keep(t, db, "DATETIME", 0, 1)
		far := k.Grid.Named(rolling.Period{From: first + 20*day, To: first + 21*day})
		k.try(engine.CreatePartitions{Table: k.Table, New: []rolling.Partition{far}})
		k.insert(first, 1, 10)
		k.insert(first+3*day+5e6, 100, 10)
		k.insert(first+5*day, 200, 10)
		k.insert(first+9*day, 300, 3)
		db.SetSplitRows(12)
		next := k.Grid.Named(rolling.Period{From: first + 4*day, To: first + 5*day})
		err := enginetest.Try(t, db, engine.CreatePartitions{Table: k.Table, New: []rolling.Partition{next}})
		var crowd *engine.CrowdedError
		var hint *engine.HintError
		if !errors.As(err, &crowd) || crowd.Rows != (rolling.Period{From: first + 3*day + 5e6, To: first + 9*day + 1}) ||
			crowd.Part.Period != (rolling.Period{From: first + day, To: far.From}) || !errors.As(err, &hint) || !strings.Contains(hint.Hint, "REORGANIZE PARTITION `rowmill_gap_") {
			t.Fatalf("%v, %+v, %v", err, crowd, hint)
		}
		narrow := k.Grid.Named(rolling.Period{From: first + 3*day, To: first + 4*day})
		if err := db.Enclose(within(t), k.Table, narrow, "rows"); !errors.Is(err, engine.ErrUnsupported) {
			t.Errorf("with too many rows beside it: %v", err)
		}
		wide := k.Grid.Named(rolling.Period{From: first + 3*day, To: first + 6*day})
		stop := breakOff(t, db, n)
		err = db.Enclose(within(t), k.Table, wide, "rows")
		if broken = stop(); broken != (err != nil) {
			t.Fatalf("before statement %d: %v", n, err)
		}
		k.insert(first+4*day, 400, 1)
		for range 2 {
			must(t, db.Enclose(within(t), k.Table, wide, "rows"))
		}
		k.want("readings", "34 rows, 4448")
		k.want(db.Words().From(k.Table, wide), "21 rows, 3490")
		if n, err := db.Outside(within(t), k.Table); n != 3 || err != nil {
			t.Errorf("%d rows are left outside of the periods: %v", n, err)
		}
		if got, want := k.have(), fmt.Sprint([]rolling.Partition{k.parts[0], wide, far}); got != want {
			t.Errorf("partitions %s, want %s", got, want)
		}
		if _, err := db.Describe(within(t), "rows"); !errors.Is(err, engine.ErrNoTable) {
			t.Errorf("the table of its rows: %v", err)
		}
		k.run("DROP TABLE readings")
	}
}

// TestEncloseNothing: the rows of a gap were deleted before they become those of a period, as after
// a crash: it is empty.
func TestEncloseNothing(t *testing.T) { onEach(t, testEncloseNothing) }

func testEncloseNothing(t *testing.T, db *mysql.DB) {
	k := keep(t, db, "DATETIME", 0, 1)
	far := k.Grid.Named(rolling.Period{From: first + 20*day, To: first + 21*day})
	k.try(engine.CreatePartitions{Table: k.Table, New: []rolling.Partition{far}})
	wide := k.Grid.Named(rolling.Period{From: first + 3*day, To: first + 6*day})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	must(t, db.Enclose(ctx, k.Table, wide, "rows"))
	if got, want := k.have(), fmt.Sprint([]rolling.Partition{k.parts[0], wide, far}); got != want {
		t.Errorf("partitions %s, want %s", got, want)
	}
	if _, err := db.Describe(within(t), "rows"); !errors.Is(err, engine.ErrNoTable) {
		t.Errorf("the table of its rows: %v", err)
	}
}

// TestTrapMetadataLock: a change waits for the table's lock for no longer than
// about a second, and so do the statements that queue behind it.
func TestTrapMetadataLock(t *testing.T) { onEach(t, testTrapMetadataLock) }

func testTrapMetadataLock(t *testing.T, db *mysql.DB) {
	k := keep(t, db, "DATETIME", 0, 3)
	k.insert(first, 1, 10)
	k.fill("with_it", 0)
	other := session(t, db)
	exec(t, other, "BEGIN", "SELECT * FROM readings")
	if _, err := db.Pool().ExecContext(t.Context(), "CREATE TABLE unused (id BIGINT PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	insert := func(q string) func(int) error {
		return func(n int) error {
			_, err := db.Pool().ExecContext(t.Context(), q, 1000+n)
			return err
		}
	}
	longer := enginetest.Stall(t, insert("INSERT INTO readings VALUES (?, '2026-11-22', 1)"), insert("INSERT INTO unused VALUES (?)"))
	for _, s := range []engine.Step{
		engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[0], Into: "gone"},
		k.replace(0, 1),
		engine.AddColumn{Table: k.Table, Have: k.parts, Name: "x", Definition: "x INT"},
		engine.CreatePartitions{Table: k.Table, Have: k.parts, New: []rolling.Partition{{Name: "late", Period: rolling.Period{From: k.parts[2].To, To: k.parts[2].To + day}}}},
	} {
		began := time.Now()
		if err := db.Try(within(t), s); !errors.Is(err, engine.ErrLockTimeout) {
			t.Errorf("%T: %v", s, err)
		}
		if took := time.Since(began); took > 2500*time.Millisecond {
			t.Errorf("%T took %v", s, took)
		}
		time.Sleep(200 * time.Millisecond) // let the queued statements pass
	}
	if most := longer(); most > 1800*time.Millisecond {
		t.Errorf("an insert waited for %v", most)
	}
	if blockers := enginetest.Blockers(t, db, k.Table, true); len(blockers) == 0 || blockers[0].User != "root" {
		t.Errorf("blockers %+v", blockers)
	}
	exec(t, other, "ROLLBACK")
	k.try(engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[0], Into: "gone"})
	k.want("gone", "10 rows, 55")
}

// TestTrapDropHoldsLock: the rows of a detached period are dropped while the table
// is in use. Dropping the partition itself would wait for the table's transactions,
// and then lock the table during the drop.
func TestTrapDropHoldsLock(t *testing.T) { onEach(t, testTrapDropHoldsLock) }

func testTrapDropHoldsLock(t *testing.T, db *mysql.DB) {
	k := keep(t, db, "DATETIME", 0, 3)
	k.insert(first, 1, 10)
	k.try(engine.Detach{Table: k.Table, Have: k.parts, Part: k.parts[0], Into: "gone"})
	other := session(t, db)
	exec(t, other, "BEGIN", "SELECT * FROM readings")
	if err := db.Try(within(t), engine.DropPartition{Table: k.Table, Have: k.parts[1:], Drop: k.parts[1]}); !errors.Is(err, engine.ErrLockTimeout) {
		t.Errorf("a partition in use: %v", err)
	}
	k.try(engine.DropTables{Names: []string{"gone"}})
	if _, err := db.Describe(within(t), "gone"); !errors.Is(err, engine.ErrNoTable) {
		t.Errorf("the table is left: %v", err)
	}
}

// TestTrapInstantColumn: MySQL refuses to exchange partitions of a table to which a
// column was added instantly. TestTrapBrokenOff changes such a table.
func TestTrapInstantColumn(t *testing.T) {
	t.Parallel()
	k := keep(t, testdb.Open(t, "mysql").(*mysql.DB), "DATETIME", 0, 2)
	k.try(engine.AddColumn{Table: k.Table, Have: k.parts, Name: "w", Definition: "w INT NOT NULL DEFAULT 5"})
	k.fill("with_it", 1)
	_, err := k.db.SQL().ExecContext(within(t), "ALTER TABLE readings EXCHANGE PARTITION "+k.parts[1].Name+" WITH TABLE with_it WITHOUT VALIDATION")
	if err == nil || !strings.Contains(err.Error(), "1731") {
		t.Fatalf("the exchange: %v", err)
	}
}

// TestTrapForcedCopy: if the server is configured to copy tables, dropping a
// partition would move its rows into the next one.
func TestTrapForcedCopy(t *testing.T) { onEachOwn(t, testTrapForcedCopy) }

func testTrapForcedCopy(t *testing.T, db *mysql.DB) {
	set, undo := "SET GLOBAL old_alter_table = ON", "SET GLOBAL old_alter_table = OFF"
	if db.Info().Engine == "mariadb" {
		set, undo = "SET GLOBAL alter_algorithm = 'COPY'", "SET GLOBAL alter_algorithm = 'DEFAULT'"
	}
	s := session(t, db)
	exec(t, s, set)
	defer exec(t, s, undo)
	forced, err := mysql.Open(within(t), db.Target())
	must(t, err)
	defer forced.Close()
	k := keep(t, forced, "DATETIME", 0, 4)
	for i := range k.parts {
		k.insert(k.parts[i].From, i*100+1, 10)
	}
	k.try(engine.DropPartition{Table: k.Table, Have: k.parts, Drop: k.parts[1]})
	k.want(k.part(2), "10 rows, 2055")
	k.try(engine.DropPartition{Table: k.Table, Have: slices.Delete(slices.Clone(k.parts), 1, 2), Drop: k.parts[0]})
	k.want("readings", "20 rows, 5110")
	if n, err := forced.Outside(within(t), k.Table); n != 0 || err != nil {
		t.Errorf("%d rows in the floor, %v", n, err)
	}
}

var columnTypes = []struct {
	name  string
	epoch time.Duration
	// step is the column's resolution in microseconds.
	step int64
}{
	{"DATETIME", 0, 1e6}, {"DATETIME(6)", 0, 1}, {"DATE", 0, day}, {"TIMESTAMP", 0, 1e6},
	{"INT UNSIGNED", time.Second, 1e6}, {"BIGINT", time.Millisecond, 1e3}, {"BIGINT", time.Microsecond, 1},
}

// TestTrapTimestampPruning: a condition on the partitioning column reads only the
// matching periods. For a TIMESTAMP, this requires partitioning by UNIX_TIMESTAMP.
func TestTrapTimestampPruning(t *testing.T) { onEach(t, testTrapTimestampPruning) }

func testTrapTimestampPruning(t *testing.T, db *mysql.DB) {
	explain := "EXPLAIN FORMAT=TRADITIONAL "
	if db.Info().Engine == "mariadb" {
		explain = "EXPLAIN PARTITIONS "
	}
	for _, c := range columnTypes {
		t.Run(fmt.Sprint(c.name, c.epoch), func(t *testing.T) {
			k := keep(t, db, c.name, c.epoch, 5)
			defer k.run("DROP TABLE readings")
			w := db.Words()
			for i, p := range k.parts {
				k.insert(p.From, i*10, 1)
				if c.step < day {
					k.insert(p.To-c.step, i*10+1, 1)
				}
			}
			for i, p := range k.parts {
				var n, bad int
				q := fmt.Sprintf("SELECT COUNT(*), COALESCE(SUM(%s < %d OR %s >= %d OR id DIV 10 <> %d), 0) FROM %s", w.Position(k.Table, "ts"), p.From, w.Position(k.Table, "ts"), p.To, i, k.part(i))
				if err := db.SQL().QueryRowContext(within(t), q).Scan(&n, &bad); err != nil {
					t.Fatalf("%s: %v", q, err)
				}
				if n == 0 || bad > 0 {
					t.Errorf("period %s has %d rows, %d of them not its own", p.Name, n, bad)
				}
			}
			q := fmt.Sprintf("SELECT COUNT(*) FROM readings WHERE ts >= %s AND ts < %s", w.Literal(k.Table, k.parts[2].From), w.Literal(k.Table, k.parts[2].To))
			rows, err := db.SQL().QueryContext(within(t), explain+q)
			must(t, err)
			defer rows.Close()
			columns, err := rows.Columns()
			must(t, err)
			for rows.Next() {
				values := make([]any, len(columns))
				for i := range values {
					values[i] = new(*string)
				}
				must(t, rows.Scan(values...))
				got := *values[slices.Index(columns, "partitions")].(**string)
				// The servers also read the first partition, because the
				// partitioning expression could be NULL.
				if got == nil || strings.TrimPrefix(*got, "rowmill_floor,") != k.parts[2].Name {
					t.Errorf("%s reads %v", q, got)
				}
			}
			must(t, rows.Err())
		})
	}
	if db.Info().Engine == "mysql" {
		d, err := rolling.ReadDefinition("CREATE TABLE x (ts TIMESTAMP(6) NOT NULL, PRIMARY KEY (ts))")
		must(t, err)
		g, _ := rolling.Parse("1d")
		err = db.Try(within(t), engine.CreateTable{Table: &engine.Table{Name: "x", Definition: d, Grid: g, By: "ts"}, Partitions: []rolling.Partition{{Name: "p", Period: rolling.Period{From: first, To: first + day}}}})
		var hint *engine.HintError
		if !errors.Is(err, engine.ErrUnsupported) || !errors.As(err, &hint) {
			t.Errorf("TIMESTAMP(6): %v", err)
		}
	}
}

// TestTimestampBounds: a position as a bound of a TIMESTAMP column selects the same
// rows whether the server or Go converts it, in every time zone. This includes
// positions that the column can't hold: the beginning of the axis, which means "not
// yet" in state tables, is a lower bound of every row. NULL stays NULL.
func TestTimestampBounds(t *testing.T) { onEach(t, testTimestampBounds) }

func testTimestampBounds(t *testing.T, db *mysql.DB) {
	hour := time.Hour.Microseconds()
	grid, err := rolling.EveryDuration(time.Hour)
	must(t, err)
	for _, typ := range []string{"TIMESTAMP", "TIMESTAMP(6)"} {
		t.Run(typ, func(t *testing.T) {
			def, err := rolling.ReadDefinition("CREATE TABLE x (ts " + typ + " NOT NULL, PRIMARY KEY (ts))")
			must(t, err)
			table := &engine.Table{Name: "x", Definition: def, By: "ts", Grid: grid}
			conn, err := db.SQL().Conn(within(t))
			must(t, err)
			defer conn.Close()
			exec := func(query string, args ...any) {
				t.Helper()
				if _, err := conn.ExecContext(within(t), query, args...); err != nil {
					t.Fatalf("%s: %v", query, err)
				}
			}
			exec("CREATE TABLE x (ts " + typ + " NOT NULL, PRIMARY KEY (ts))")
			exec("CREATE TABLE bounds (id INT PRIMARY KEY, pos BIGINT)")
			defer exec("DROP TABLE x, bounds")
			rows := []int64{1e6, hour - 1e6, hour, 1774666800e6, 1774670400e6, 2147483646e6}
			for _, pos := range rows {
				exec("INSERT INTO x VALUES (FROM_UNIXTIME(?))", pos/1e6)
			}
			w := db.Words()
			made := w.FromPosition(table, "pos")
			for _, zone := range []string{"+00:00", "+05:30", "-07:00"} {
				exec("SET time_zone = ?", zone)
				for _, pos := range []int64{rolling.MinTime, -hour, -1, 0, 1, 1e6, hour, 1774666800e6, 1774670400e6 - 1e6, 2147483646e6, rolling.MaxTime - 1} {
					exec("DELETE FROM bounds")
					exec("INSERT INTO bounds VALUES (1, ?)", pos)
					var from, below int
					q := fmt.Sprintf("SELECT (SELECT COUNT(*) FROM x WHERE ts >= (SELECT %s FROM bounds)), (SELECT COUNT(*) FROM x WHERE ts < (SELECT %s FROM bounds))", made, made)
					if err := conn.QueryRowContext(within(t), q).Scan(&from, &below); err != nil {
						t.Fatalf("%s: %v", q, err)
					}
					i := slices.IndexFunc(rows, func(row int64) bool { return row >= pos })
					if i < 0 {
						i = len(rows)
					}
					if from != len(rows)-i || below != i {
						t.Errorf("%s, position %d: %d rows from there on and %d below; want %d and %d", zone, pos, from, below, len(rows)-i, i)
					}
				}
				var none sql.NullString
				if err := conn.QueryRowContext(within(t), "SELECT "+w.FromPosition(table, "NULL")).Scan(&none); err != nil || none.Valid {
					t.Errorf("%s: NULL is the time %v, %v", zone, none, err)
				}
			}
			exec("SET time_zone = '+00:00'")
		})
	}
}
