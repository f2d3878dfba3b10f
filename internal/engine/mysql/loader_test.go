package mysql_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// byDriver is a DB whose loaders and queriers send through the driver, as with TLS.
type byDriver struct{ *mysql.DB }

func (d byDriver) Loader(ctx context.Context) (engine.Loader, error) {
	l, err := d.DB.Loader(ctx)
	if err == nil {
		mysql.LoadByDriver(l)
	}
	return l, err
}

func (d byDriver) Querier(ctx context.Context) (engine.Querier, error) {
	q, err := d.DB.Querier(ctx)
	if err == nil {
		mysql.UseDriver(q)
	}
	return q, err
}

func TestLoaderByDriver(t *testing.T) {
	enginetest.RunLoaderRows(t, func(t testing.TB) engine.Keeper { return byDriver{testdb.Open(t, "mariadb").(*mysql.DB)} })
}

// smallStatements is a DB whose loaders send one row per statement in small
// inserts, and some hundred rows in large ones.
type smallStatements struct{ *mysql.DB }

func (s smallStatements) Loader(ctx context.Context) (engine.Loader, error) {
	l, err := s.DB.Loader(ctx)
	return smallStatementsLoader{l}, err
}

type smallStatementsLoader struct{ engine.Loader }

func (l smallStatementsLoader) Insert(ctx context.Context, t *engine.Table, b *engine.Batch, from, to int) (engine.Ack, error) {
	limit := 1
	if to-from > 100 {
		limit = 10_000
	}
	mysql.LimitLoader(l.Loader, limit)
	return l.Loader.Insert(ctx, t, b, from, to)
}

func TestLoaderSmallStatements(t *testing.T) {
	t.Parallel()
	list := []string{"mariadb"}
	if testdb.Nightly() {
		list = append(list, "mysql", "mariadb-rocksdb")
	}
	for _, kind := range list {
		t.Run(kind, func(t *testing.T) {
			enginetest.RunLoaderRows(t, func(t testing.TB) engine.Keeper { return smallStatements{testdb.Open(t, kind).(*mysql.DB)} })
		})
	}
}

// TestLoaderLoads runs the suite with LOAD DATA wherever it is possible.
func TestLoaderLoads(t *testing.T) {
	t.Parallel()
	list := []string{"mariadb"}
	if testdb.Nightly() {
		list = append(list, "mysql")
	}
	for _, kind := range list {
		t.Run(kind, func(t *testing.T) {
			enginetest.RunLoaderRows(t, func(t testing.TB) engine.Keeper {
				db := testdb.Open(t, kind).(*mysql.DB)
				db.SetLoadRows(1)
				return db
			})
		})
	}
}

// TestFloatsAsText checks that the server reads a binary fraction that passes as it is written,
// by LOAD DATA and by a statement, as the literal of its value.
func TestFloatsAsText(t *testing.T) { onEach(t, testFloatsAsText) }

func testFloatsAsText(t *testing.T, db *mysql.DB) {
	_, err := db.Pool().ExecContext(within(t), "CREATE TABLE f (n INT NOT NULL PRIMARY KEY, a DOUBLE NOT NULL, b DOUBLE NOT NULL, c FLOAT NOT NULL, d FLOAT NOT NULL)")
	must(t, err)
	texts := []string{"39.02", "-0.50", "007", "0.00", "-0", "0.1", "123456789012345", "-99999999.9999999", "0.000000000000001", "16777217", "1e5", ".5", "1e-320"}
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		texts = append(texts, strconv.FormatFloat(rnd.NormFloat64()*math.Pow(10, float64(rnd.IntN(8))), 'f', rnd.IntN(8), 64))
	}
	read, err := value.Type{Kind: value.Float}.Reader(&value.Notation{}, value.Server{})
	must(t, err)
	table := &engine.Table{Name: "f", Columns: []engine.Column{{Name: "n", Type: engine.Int32}}}
	for i, name := range []string{"a", "b", "c", "d"} {
		table.Columns = append(table.Columns, engine.Column{Name: name, Type: []engine.Type{engine.Varchar, engine.Float64}[i%2]})
	}
	b := engine.NewBatch(table.Columns)
	for i, text := range texts {
		b.Columns[0].Ints = append(b.Columns[0].Ints, int64(i))
		x, err := read.Float([]byte(text))
		must(t, err)
		for c := 1; c <= 3; c += 2 {
			v := &b.Columns[c]
			v.Bytes, err = read.Append(v.Bytes, []byte(text))
			must(t, err)
			v.EndBytes()
			b.Columns[c+1].Floats = append(b.Columns[c+1].Floats, x)
		}
		b.EndRow()
	}
	for _, least := range []int{1, 1 << 20} {
		db.SetLoadRows(least)
		l := openLoader(t, db)
		begin(t, l)
		ack, err := l.Insert(within(t), table, b, 0, b.Rows())
		must(t, err)
		same, err := mysql.Number(l, "SELECT COUNT(*) FROM f WHERE a = b AND c = d AND CAST(a AS CHAR) = CAST(b AS CHAR) AND CAST(c AS CHAR) = CAST(d AS CHAR)")
		must(t, err)
		if ack.Rows != int64(len(texts)) || same != ack.Rows {
			t.Errorf("LOAD DATA from %d rows on: %d rows, of which %d are the same", least, ack.Rows, same)
		}
		must(t, mysql.Run(l, "DELETE FROM f"))
		commit(t, l)
	}
}

var openLoader, begin, commit = enginetest.OpenLoader, enginetest.Begin, enginetest.Commit

func insert(t *testing.T, l engine.Loader, table *engine.Table, ids ...int64) (engine.Ack, error) {
	t.Helper()
	return l.Insert(within(t), table, rowsOf(ids...), 0, len(ids))
}

func mustInsert(t *testing.T, l engine.Loader, table *engine.Table, ids ...int64) {
	t.Helper()
	if ack, err := insert(t, l, table, ids...); err != nil || ack.Rows != int64(len(ids)) {
		t.Fatalf("insert %d: %+v, %v", ids, ack, err)
	}
}

func createSmall(t *testing.T, db *mysql.DB) *engine.Table {
	t.Helper()
	table := small()
	must(t, db.Apply(within(t), engine.CreateTable{Table: table}))
	return table
}

// TestTrapDuplicateLocksGap: with REPEATABLE READ, a row refused as a duplicate
// locks the keys around it until the transaction ends.
func TestTrapDuplicateLocksGap(t *testing.T) { onEach(t, testTrapDuplicateLocksGap) }

func testTrapDuplicateLocksGap(t *testing.T, db *mysql.DB) {
	table := createSmall(t, db)
	a, b := openLoader(t, db), openLoader(t, db)
	begin(t, a)
	mustInsert(t, a, table, 10, 20, 30)
	commit(t, a)
	begin(t, a)
	mustInsert(t, a, table, 1)
	if _, err := insert(t, a, table, 20); !errors.Is(err, engine.ErrDuplicateKey) {
		t.Fatal(err)
	}
	began := time.Now()
	begin(t, b)
	mustInsert(t, b, table, 15, 25)
	commit(t, b)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it waited for %v", took)
	}
	commit(t, a)
}

// TestLoaderRepeats: MyRocks has no savepoints to roll back to. The transaction's
// statements are sent again. If another transaction has taken a key in between, the
// whole transaction must be retried.
func TestLoaderRepeats(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "mariadb-rocksdb").(*mysql.DB)
	table := createSmall(t, db)
	c := session(t, db)
	exec(t, c, "BEGIN", "INSERT INTO small VALUES (1000, 1)", "SAVEPOINT a", "INSERT INTO small VALUES (1001, 1)")
	if _, err := c.ExecContext(within(t), "ROLLBACK TO SAVEPOINT a"); err == nil {
		t.Fatal("the server has learnt it")
	}
	exec(t, c, "ROLLBACK")
	ignores := *table
	ignores.Ignore = true
	l := openLoader(t, db)
	mysql.LimitLoader(l, 60)
	for i := range int64(3) {
		begin(t, l)
		mustInsert(t, l, table, i*100+1, i*100+2, i*100+3)
		for range 3 {
			if _, err := insert(t, l, table, i*100+4, i*100+5, i*100+1); !errors.Is(err, engine.ErrDuplicateKey) {
				t.Fatal(err)
			}
			if ack, err := insert(t, l, &ignores, i*100+1, i*100+6); err != nil || ack.Rows+ack.Skipped != 2 {
				t.Fatalf("%+v, %v", ack, err)
			}
		}
		commit(t, l)
		if n := count(t, db); n != int(i+1)*4 {
			t.Errorf("%d rows after %d transactions", n, i+1)
		}
	}
	// A transaction that waits for a key may get it while the statements are sent
	// again. Either way, no row is lost or duplicated.
	for round := range int64(10) {
		key := 5000 + round
		begin(t, l)
		mustInsert(t, l, table, key)
		done := make(chan error, 1)
		go func() {
			_, err := db.Pool().ExecContext(context.WithoutCancel(t.Context()), fmt.Sprintf("INSERT INTO small VALUES (%d, 7)", key))
			done <- err
		}()
		time.Sleep(50 * time.Millisecond)
		_, err := insert(t, l, table, 6000, 1)
		switch {
		case errors.Is(err, engine.ErrRefused):
			commit(t, l)
		case engine.Retryable(err):
			must(t, l.Reset(within(t)))
		default:
			t.Fatal(err)
		}
		other := db.Classify(<-done)
		if taken := other == nil; taken == errors.Is(err, engine.ErrRefused) || !taken && !errors.Is(other, engine.ErrDuplicateKey) {
			t.Fatalf("the loader got %v, the other %v", err, other)
		}
	}
	if n := count(t, db); n != 12+10 {
		t.Errorf("%d rows", n)
	}
}

// TestLoaderKillQuery: after KILL QUERY, the whole transaction can be retried on
// the same connection.
func TestLoaderKillQuery(t *testing.T) { onEach(t, testLoaderKillQuery) }

func testLoaderKillQuery(t *testing.T, db *mysql.DB) {
	table := createSmall(t, db)
	a, b := openLoader(t, db), openLoader(t, db)
	begin(t, a)
	mustInsert(t, a, table, 1)
	begin(t, b)
	mustInsert(t, b, table, 2)
	id, done := mysql.ConnectionID(b), make(chan error, 1)
	ctx := within(t)
	go func() {
		_, err := b.Insert(ctx, table, rowsOf(1), 0, 1)
		done <- err
	}()
	blocked(t, db, id)
	exec(t, session(t, db), fmt.Sprintf("KILL QUERY %d", id))
	if err := <-done; !engine.Retryable(err) || errors.Is(err, engine.ErrRefused) || errors.Is(err, engine.ErrConnectionLost) {
		t.Errorf("got %v", err)
	}
	mustInsert(t, a, table, 2) // not locked by any session
	commit(t, a)
	must(t, b.Reset(within(t)))
	begin(t, b)
	mustInsert(t, b, table, 3)
	commit(t, b)
	if n := count(t, db); n != 3 || mysql.ConnectionID(b) != id {
		t.Errorf("%d rows, connection %d, before %d", n, mysql.ConnectionID(b), id)
	}
}

// TestLoaderCancelCommit: the result of a COMMIT interrupted by the context's end
// is unknown, and the error reports this. Here, a lock of the whole server delays the commit.
func TestLoaderCancelCommit(t *testing.T) { onEachOwn(t, testLoaderCancelCommit) }

func testLoaderCancelCommit(t *testing.T, db *mysql.DB) {
	table := createSmall(t, db)
	l := openLoader(t, db)
	begin(t, l)
	mustInsert(t, l, table, 1)
	c := session(t, db)
	exec(t, c, "FLUSH TABLES WITH READ LOCK")
	ctx, cancel := context.WithTimeout(within(t), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := l.Commit(ctx)
	took := time.Since(began)
	exec(t, c, "UNLOCK TABLES")
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, engine.ErrConnectionLost) || took > 8*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
	must(t, l.Reset(within(t)))
	was := count(t, db)
	begin(t, l)
	mustInsert(t, l, table, 2)
	commit(t, l)
	if n := count(t, db); n != was+1 {
		t.Errorf("%d rows, %d before", n, was)
	}
}

// TestTrapInsertIgnoreBendsValues: INSERT IGNORE stores adjusted values, also for a
// single row. A loader refuses them. Values that a strict INSERT accepts with a
// note, such as a rounded decimal, are accepted in both cases.
func TestTrapInsertIgnoreBendsValues(t *testing.T) { onEach(t, testTrapInsertIgnoreBendsValues) }

func testTrapInsertIgnoreBendsValues(t *testing.T, db *mysql.DB) {
	c := session(t, db)
	exec(t, c, "CREATE TABLE bent (id INT NOT NULL PRIMARY KEY, n INT, price DECIMAL(8,2), note VARCHAR(5))")
	// The server's behavior.
	exec(t, c, "INSERT IGNORE INTO bent VALUES (1, '12 apples', 1, 'too long')")
	var n, note string
	if err := c.QueryRowContext(within(t), "SELECT n, note FROM bent").Scan(&n, &note); err != nil || n != "12" || note != "too l" {
		t.Fatalf("the server has mended its ways: %s, %s, %v", n, note, err)
	}
	l := openLoader(t, db)
	begin(t, l)
	for id, row := range [][]string{{"12 apples", "1", "a"}, {"1", "1", "too long"}, {"3000000000", "1", "a"}, {"1", "x", "a"}, {"1", "1.005", "a"}, {"1", "2", "a    "}, {"", "1", "a"}} {
		for _, ignore := range []bool{true, false} {
			table := &engine.Table{Name: "bent", Ignore: ignore, Columns: []engine.Column{{Name: "id", Type: engine.Int32}, {Name: "n", Type: engine.Varchar, Size: 100},
				{Name: "price", Type: engine.Decimal, Size: 20, Scale: 4}, {Name: "note", Type: engine.Varchar, Size: 100}}}
			b := engine.NewBatch(table.Columns)
			b.Columns[0].Ints = append(b.Columns[0].Ints, int64(10+2*id))
			if ignore {
				b.Columns[0].Ints[0]++
			}
			for i, x := range row {
				b.Columns[i+1].AppendBytes([]byte(x))
			}
			b.EndRow()
			ack, err := l.Insert(within(t), table, b, 0, 1)
			switch fine := id == 4 || id == 5; {
			case fine && (err != nil || ack.Rows != 1 || ack.Skipped != 0):
				t.Errorf("%q, ignore %v: %+v, %v", row, ignore, ack, err)
			case !fine && !errors.Is(err, engine.ErrRefused):
				t.Errorf("%q, ignore %v: %+v, %v", row, ignore, ack, err)
			}
		}
	}
	commit(t, l)
	// So does a writer of several rows, by every method.
	wide := &engine.Table{Name: "bent", Ignore: true, PrimaryKey: []string{"id"},
		Columns: []engine.Column{{Name: "id", Type: engine.Int32}, {Name: "note", Type: engine.Varchar, Size: 100}}}
	for _, m := range db.Capabilities().Methods {
		b := engine.NewBatch(wide.Columns)
		for i, note := range []string{"fine", "too long"} {
			b.Columns[0].Ints = append(b.Columns[0].Ints, int64(100+i))
			b.Columns[1].AppendBytes([]byte(note))
			b.EndRow()
		}
		w, err := db.Writer(within(t), wide, m)
		must(t, err)
		if ack, err := w.Write(within(t), b); m != engine.Single && !errors.Is(err, engine.ErrRefused) {
			t.Errorf("%s: %+v, %v", m, ack, err)
		}
		must(t, w.Close())
		exec(t, c, "DELETE FROM bent WHERE id >= 100")
	}
	if err := c.QueryRowContext(within(t), "SELECT COUNT(*) FROM bent").Scan(&n); err != nil || n != "5" {
		t.Errorf("%s rows, %v, want 5", n, err)
	}
	// It also skips a row outside every partition, like one whose key exists.
	exec(t, c, "CREATE TABLE parted (id INT NOT NULL PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (100))")
	parted := &engine.Table{Name: "parted", Ignore: true, PrimaryKey: []string{"id"}, Columns: []engine.Column{{Name: "id", Type: engine.Int32}}}
	for _, m := range db.Capabilities().Methods {
		b := engine.NewBatch(parted.Columns)
		b.Columns[0].Ints = append(b.Columns[0].Ints, 1, 500)
		b.EndRows(2)
		w, err := db.Writer(within(t), parted, m)
		must(t, err)
		if ack, err := w.Write(within(t), b); !errors.Is(err, engine.ErrNoPartition) {
			t.Errorf("%s, a row outside every partition: %+v, %v", m, ack, err)
		}
		must(t, w.Close())
		if err := c.QueryRowContext(within(t), "SELECT COUNT(*) FROM parted").Scan(&n); err != nil || n != "0" {
			t.Errorf("%s left %s rows, %v", m, n, err)
		}
	}
}

// TestLoaderKeepsConnection checks that a loader keeps its connection if a context ends
// between two calls.
func TestLoaderKeepsConnection(t *testing.T) {
	onEach(t, func(t *testing.T, db *mysql.DB) {
		exec(t, session(t, db), "CREATE TABLE plain (id INT NOT NULL PRIMARY KEY, n INT)")
		table := &engine.Table{Name: "plain", Columns: []engine.Column{{Name: "id", Type: engine.Int32}, {Name: "n", Type: engine.Int32}}}
		l := openLoader(t, db)
		id := mysql.ConnectionID(l)
		begin(t, l)
		_, err := insert(t, l, table, 1)
		must(t, err)
		over, end := context.WithCancel(within(t))
		end()
		if _, err := l.Insert(over, table, rowsOf(2), 0, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("insert: %v", err)
		}
		must(t, l.Reset(within(t)))
		begin(t, l)
		_, err = insert(t, l, table, 1)
		must(t, err)
		commit(t, l)
		if now := mysql.ConnectionID(l); now != id {
			t.Errorf("connection %d has become %d", id, now)
		}
	})
}

// TestLoaderLongRows: rows up to the server's limit are sent, each alone if
// necessary. A longer row is refused, and the transaction continues.
func TestLoaderLongRows(t *testing.T) {
	for _, kind := range servers {
		t.Run(kind, func(t *testing.T) { testLoaderLongRows(t, smallPackets(t, kind, 1<<20)) })
	}
}

// smallPackets returns a DB on a server that only this package uses. Its packet
// limit is set after the DB was opened.
func smallPackets(t *testing.T, kind string, bytes int) *mysql.DB {
	t.Helper()
	db := testdb.Open(t, kind+ownServer).(*mysql.DB)
	exec(t, session(t, db), fmt.Sprintf("SET GLOBAL max_allowed_packet = %d", bytes))
	t.Cleanup(func() {
		if _, err := db.Pool().ExecContext(context.WithoutCancel(t.Context()), "SET GLOBAL max_allowed_packet = DEFAULT"); err != nil {
			t.Error(err)
		}
	})
	return db
}

func testLoaderLongRows(t *testing.T, db *mysql.DB) {
	c := session(t, db)
	exec(t, c, "CREATE TABLE longs (id INT NOT NULL PRIMARY KEY, x LONGTEXT)")
	table := &engine.Table{Name: "longs", Columns: []engine.Column{{Name: "id", Type: engine.Int32}, {Name: "x", Type: engine.Varchar, Size: 1 << 28}}}
	l := openLoader(t, db)
	packet, err := mysql.Number(l, "SELECT @@max_allowed_packet")
	must(t, err)
	x := strings.Repeat("x", int(packet)+1)
	b := engine.NewBatch(table.Columns)
	// The second and third rows each fit in a packet, but not together with others.
	for i, size := range []int64{10, packet * 6 / 10, packet - 2000, 10, packet + 1} {
		b.Columns[0].Ints = append(b.Columns[0].Ints, int64(i))
		b.Columns[1].AppendBytes([]byte(x[:size]))
		b.EndRow()
	}
	begin(t, l)
	for range 2 {
		if _, err := l.Insert(within(t), table, b, 0, 5); !errors.Is(err, engine.ErrRefused) {
			t.Fatal(err)
		}
	}
	if ack, err := l.Insert(within(t), table, b, 0, 4); err != nil || ack.Rows != 4 {
		t.Fatalf("%+v, %v", ack, err)
	}
	if _, err := l.Insert(within(t), table, b, 4, 5); !errors.Is(err, engine.ErrRefused) {
		t.Fatal(err)
	}
	commit(t, l)
	var n, bytes int64
	if err := c.QueryRowContext(within(t), "SELECT COUNT(*), SUM(LENGTH(x)) FROM longs").Scan(&n, &bytes); err != nil || n != 4 || bytes != 20+packet*6/10+packet-2000 {
		t.Errorf("%d rows of %d bytes, %v", n, bytes, err)
	}
}

// TestLoaderManyDuplicates: more rows are skipped than the server keeps warnings.
func TestLoaderManyDuplicates(t *testing.T) { onEach(t, testLoaderManyDuplicates) }

func testLoaderManyDuplicates(t *testing.T, db *mysql.DB) {
	table := createSmall(t, db)
	ignores := *table
	ignores.Ignore = true
	l := openLoader(t, db)
	ids := make([]int64, 70_000)
	for i := range ids {
		ids[i] = int64(i)
	}
	begin(t, l)
	mustInsert(t, l, table, ids...)
	if ack, err := insert(t, l, &ignores, append(ids, 70_000)...); err != nil || ack.Rows != 1 || ack.Skipped != 70_000 {
		t.Errorf("%+v, %v", ack, err)
	}
	commit(t, l)
	if n := count(t, db); n != 70_001 {
		t.Errorf("%d rows", n)
	}
}

// TestLoaderOddValues: values that SQL can't represent are refused like other rows.
func TestLoaderOddValues(t *testing.T) { onEach(t, testLoaderOddValues) }

func testLoaderOddValues(t *testing.T, db *mysql.DB) {
	c := session(t, db)
	exec(t, c, "CREATE TABLE odd (id INT NOT NULL PRIMARY KEY, x DOUBLE, s FLOAT, note VARCHAR(20) CHARACTER SET utf8mb4, old VARCHAR(20) CHARACTER SET latin1)")
	l := openLoader(t, db)
	begin(t, l)
	id := int64(0)
	for _, ignore := range []bool{false, true} {
		table := &engine.Table{Name: "odd", Ignore: ignore, Columns: []engine.Column{{Name: "id", Type: engine.Int32}, {Name: "x", Type: engine.Float64},
			{Name: "s", Type: engine.Float32}, {Name: "note", Type: engine.Varchar, Size: 20}, {Name: "old", Type: engine.Varchar, Size: 20}}}
		put := func(x, s float64, note, old string) error {
			b := engine.NewBatch(table.Columns)
			id++
			b.Columns[0].Ints = append(b.Columns[0].Ints, id)
			b.Columns[1].Floats = append(b.Columns[1].Floats, x)
			b.Columns[2].Floats = append(b.Columns[2].Floats, s)
			b.Columns[3].AppendBytes([]byte(note))
			b.Columns[4].AppendBytes([]byte(old))
			b.EndRow()
			_, err := l.Insert(within(t), table, b, 0, 1)
			return err
		}
		inf := math.Inf(1)
		for _, err := range []error{put(math.NaN(), 0, "", ""), put(inf, 0, "", ""), put(-inf, 0, "", ""), put(0, inf, "", ""), put(0, math.NaN(), "", ""),
			put(0, 1e300, "", ""), put(0, 0, "\xff", ""), put(0, 0, "a\xe3'", ""), put(0, 0, "\xe3\\", ""), put(0, 0, "", "日本")} {
			if !errors.Is(err, engine.ErrRefused) {
				t.Errorf("ignore %v: %v", ignore, err)
			}
		}
		if err := put(math.MaxFloat64, math.MaxFloat32, "日本", "é"); err != nil {
			t.Error(err)
		}
	}
	commit(t, l)
	var n int
	if err := c.QueryRowContext(within(t), "SELECT COUNT(*) FROM odd WHERE x > 1e308 AND s > 3e38").Scan(&n); err != nil || n != 2 {
		t.Errorf("%d rows, %v, want 2", n, err)
	}
}

// TestLoaderServerKey: the server assigns keys, and a 0 is stored as a key.
func TestLoaderServerKey(t *testing.T) { onEach(t, testLoaderServerKey) }

func testLoaderServerKey(t *testing.T, db *mysql.DB) {
	c := session(t, db)
	exec(t, c, "CREATE TABLE keyed (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, n INT)")
	table := &engine.Table{Name: "keyed", Columns: []engine.Column{{Name: "id", Type: engine.Int32, Auto: true}, {Name: "n", Type: engine.Int32}}}
	server := *table
	server.ServerKey = "id"
	l := openLoader(t, db)
	begin(t, l)
	zero := engine.NewBatch(table.Columns)
	zero.Columns[0].Ints, zero.Columns[1].Ints = []int64{0}, []int64{7}
	zero.EndRow()
	if _, err := l.Insert(within(t), table, zero, 0, 1); err != nil {
		t.Fatal(err)
	}
	b := engine.NewBatch(server.Inserted())
	b.Columns[0].Ints = []int64{8, 8, 8}
	b.EndRows(3)
	if ack, err := l.Insert(within(t), &server, b, 0, 3); err != nil || ack.Rows != 3 {
		t.Fatalf("%+v, %v", ack, err)
	}
	commit(t, l)
	var keys string
	if err := c.QueryRowContext(within(t), "SELECT GROUP_CONCAT(id ORDER BY id) FROM keyed WHERE id = 0 AND n = 7 OR id > 0 AND n = 8").Scan(&keys); err != nil || keys != "0,1,2,3" {
		t.Errorf("keys %s, %v", keys, err)
	}
}

// TestWriterWritesBytes checks that bytes of all kinds arrive unchanged by each method.
func TestWriterWritesBytes(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "mariadb")
	d, err := rolling.ReadDefinition("CREATE TABLE bytes (id INT NOT NULL PRIMARY KEY, raw VARBINARY(300) NOT NULL)")
	if err != nil {
		t.Fatal(err)
	}
	table := &engine.Table{Name: "bytes", PrimaryKey: []string{"id"}, Columns: []engine.Column{{Name: "id", Type: engine.Int32}, {Name: "raw", Type: engine.Binary}}, Definition: d}
	if err := db.Apply(within(t), engine.CreateTable{Table: table}); err != nil {
		t.Fatal(err)
	}
	b, want := engine.NewBatch(table.Columns), engine.Sum{}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for i, m := range db.Capabilities().Methods {
		w, err := db.Writer(within(t), table, m)
		if err != nil {
			t.Fatal(err)
		}
		b.Reset()
		b.Columns[0].Ints = append(b.Columns[0].Ints, int64(2*i), int64(2*i+1))
		b.Columns[1].AppendBytes(all)
		b.Columns[1].AppendBytes(nil)
		b.EndRows(2)
		want.Add(b, nil)
		if ack, err := w.Write(within(t), b); err != nil || ack.Rows != 2 {
			t.Errorf("%s: %+v, %v", m, ack, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	var got engine.Sum
	if err := db.Scan(within(t), table, nil, func(b *engine.Batch) error { got.Add(b, nil); return nil }); err != nil || !got.Equal(&want) {
		t.Errorf("read %d rows of %d, the same: %v, %v", got.Rows, want.Rows, got.Equal(&want), err)
	}
}

// TestLocalInfileOff checks that loaders and stagings send statements if the server refuses
// LOAD DATA LOCAL, also in the middle of a transaction.
func TestLocalInfileOff(t *testing.T) {
	onEachOwn(t, func(t *testing.T, db *mysql.DB) {
		c := session(t, db)
		exec(t, c, "CREATE TABLE plain (id INT NOT NULL PRIMARY KEY, n INT)")
		db.SetLoadRows(1)
		table := &engine.Table{Name: "plain", Columns: []engine.Column{{Name: "id", Type: engine.Int32}, {Name: "n", Type: engine.Int32}}}
		l := openLoader(t, db)
		begin(t, l)
		mustInsert(t, l, table, 1)
		exec(t, c, "SET GLOBAL local_infile = 0")
		defer exec(t, c, "SET GLOBAL local_infile = 1")
		mustInsert(t, l, table, 2, 3)
		mustInsert(t, l, table, 4)
		commit(t, l)
		s, err := db.Stage(within(t), table, engine.StageOptions{Name: "staged", Columns: table.Columns})
		must(t, err)
		defer s.Close()
		must(t, s.Write(within(t), rowsOf(1, 2, 3)))
		must(t, s.Write(within(t), rowsOf(4)))
		done, err := s.Finish(within(t))
		if want := (engine.Staged{Rows: 4}); err != nil || done != want {
			t.Errorf("staged %+v, %v; want %+v", done, err, want)
		}
		for _, name := range []string{"plain", "staged"} {
			var n int
			if err := c.QueryRowContext(within(t), "SELECT COUNT(*) FROM "+name).Scan(&n); err != nil || n != 4 {
				t.Errorf("%s has %d rows, %v; want 4", name, n, err)
			}
		}
	})
}
