package mysql_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
)

// Differences, and possible differences, between MySQL 8.0 and MariaDB.

// figures takes one sample, by name.
func figures(t *testing.T, c engine.Counters) map[string]float64 {
	t.Helper()
	described := c.Describe()
	values := make([]float64, len(described))
	must(t, c.Sample(within(t), values))
	out := map[string]float64{}
	for i, d := range described {
		out[d.Name] = values[i]
	}
	return out
}

func counters(t *testing.T, db *mysql.DB) engine.Counters {
	t.Helper()
	c, err := db.Counters(within(t), small())
	must(t, err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestFiguresOfRedo: both servers report how full the redo log is. MySQL has
// metrics that stay 0 until they are enabled; these are left out.
func TestFiguresOfRedo(t *testing.T) { onEach(t, testFiguresOfRedo) }

func testFiguresOfRedo(t *testing.T, db *mysql.DB) {
	c, w := counters(t, db), smallWriter(t, db, engine.Multi)
	before := figures(t, c)
	for i := range int64(20) {
		if _, err := w.Write(within(t), rowsOf(i*2, i*2+1)); err != nil {
			t.Fatal(err)
		}
	}
	after := figures(t, c)
	// With durability off, the log is written once a second.
	for ctx := within(t); after[engine.CounterRedoWritten] <= before[engine.CounterRedoWritten]; after = figures(t, c) {
		select {
		case <-ctx.Done():
			t.Fatalf("redo written stays at %v", after[engine.CounterRedoWritten])
		case <-time.After(50 * time.Millisecond):
		}
	}
	// The redo log is 64 MiB.
	if age := after[engine.CounterCheckpointMax]; !(age > 16<<20 && age <= 64<<20) {
		t.Errorf("writes are held up at a checkpoint age of %v", age)
	}
	if age := after[engine.CounterCheckpointAge]; !(age > 0 && age < 64<<20) {
		t.Errorf("checkpoint age %v", age)
	}
	// MariaDB's number of pages leaves out the memory for their descriptors.
	if cache := after[engine.CounterCache]; !(cache > 60<<20 && cache <= 64<<20) {
		t.Errorf("cache of %v bytes", cache)
	}
}

// TestDisabledFigures: a metric that is not enabled is left out.
func TestDisabledFigures(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "mysql?set=innodb_monitor_enable=log_lsn_current").(*mysql.DB)
	got := figures(t, counters(t, db))
	for _, name := range []string{engine.CounterCheckpointAge, engine.CounterCheckpointMax} {
		if v, ok := got[name]; ok {
			t.Errorf("%s is %v", name, v)
		}
	}
	if _, ok := got[engine.CounterPurgeLag]; !ok {
		t.Errorf("%s is missing, which is always there", engine.CounterPurgeLag)
	}
}

// TestSizesAreFresh: by default, MySQL 8.0 shows sizes that are up to a day old.
// The table's statistics are not persistent, so that they follow its rows.
func TestSizesAreFresh(t *testing.T) { onEach(t, testSizesAreFresh) }

func testSizesAreFresh(t *testing.T, db *mysql.DB) {
	s := session(t, db)
	exec(t, s, "CREATE TABLE small (id BIGINT PRIMARY KEY, n INT NOT NULL, filler CHAR(200) NOT NULL DEFAULT '') STATS_PERSISTENT = 0")
	c := counters(t, db)
	// Another session makes the server cache the size.
	exec(t, s, "SELECT SUM(DATA_LENGTH) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()")
	before := figures(t, c)
	for i := range 5 {
		exec(t, s, fmt.Sprintf("INSERT INTO small (id, n) WITH RECURSIVE seq (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM seq WHERE n < 1000) SELECT n + %d, 1 FROM seq", i*1000))
	}
	after := figures(t, c)
	if a, b := before[engine.CounterTableData], after[engine.CounterTableData]; !(b > a && b > 500<<10) {
		t.Errorf("table of %v bytes is one of %v after 5000 rows of 200 bytes", a, b)
	}
}

// TestNamesHaveCase: a table isn't found by its name in different case.
func TestNamesHaveCase(t *testing.T) { onEach(t, testNamesHaveCase) }

func testNamesHaveCase(t *testing.T, db *mysql.DB) {
	table, other := small(), small()
	other.Name = "SMALL"
	must(t, db.Apply(within(t), engine.CreateTable{Table: table}))
	for _, c := range []struct {
		table *engine.Table
		want  bool
	}{{table, true}, {other, false}} {
		if got, err := db.Catalog().Exists(within(t), c.table); got != c.want || err != nil {
			t.Errorf("%s exists: %v, %v", c.table.Name, got, err)
		}
		if _, err := db.Catalog().Partitions(within(t), c.table); errors.Is(err, engine.ErrNoTable) == c.want {
			t.Errorf("partitions of %s: %v", c.table.Name, err)
		}
	}
}

// TestPasswords: the default authentication of either server, over the socket.
// MySQL's requires the full password once, before it has a cached hash of it.
func TestPasswords(t *testing.T) { onEachAlone(t, testPasswords) }

func testPasswords(t *testing.T, db *mysql.DB) {
	t.Setenv("HOME", t.TempDir())
	s, user := session(t, db), "joe_"+db.Info().Engine
	exec(t, s, "CREATE USER "+user+"@localhost IDENTIFIED BY 'ge heim'", "GRANT ALL ON *.* TO "+user+"@localhost")
	defer exec(t, s, "DROP USER "+user+"@localhost")
	target := db.Target()
	target.User = user
	for _, password := range []string{"ge heim", "geheim", "", "ge heim"} {
		t.Setenv("MYSQL_PWD", password)
		other, err := mysql.Open(within(t), target)
		if (err == nil) != (password == "ge heim") {
			t.Errorf("with password %q: %v", password, err)
		}
		if err == nil {
			w := smallWriter(t, other, engine.Multi)
			if _, err := w.Write(within(t), rowsOf(1)); err != nil {
				t.Error(err)
			}
			if err := errors.Join(w.Close(), other.Close()); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestFewPrivileges: an account with access to the tables only can load, measure and
// settle; figures that need more privileges are left out, and what isn't settled is a
// warning.
func TestFewPrivileges(t *testing.T) { onEachAlone(t, testFewPrivileges) }

func testFewPrivileges(t *testing.T, db *mysql.DB) {
	few := few(t, db, "ALL")
	for _, m := range few.Capabilities().Methods {
		w := smallWriter(t, few, m)
		if _, err := w.Write(within(t), rowsOf(1, 2, 3)); err != nil {
			t.Errorf("%s: %v", m, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	if sizes, err := few.Catalog().Sizes(within(t), small()); err != nil || sizes.Data <= 0 {
		t.Errorf("sizes %+v, %v", sizes, err)
	}
	c, err := few.Counters(within(t), small())
	must(t, err)
	defer c.Close()
	got := figures(t, c)
	for name, v := range got {
		if math.IsNaN(v) {
			t.Errorf("%s can't be read", name)
		}
	}
	if got[engine.CounterRedoWritten] <= 0 {
		t.Errorf("figures %v", got)
	}
	warnings, err := few.Settle(within(t), engine.Settle{Tables: []*engine.Table{small()}})
	if err != nil || len(warnings) == 0 || !strings.Contains(warnings[0], "dirty pages are written later") {
		t.Errorf("warnings %q, %v", warnings, err)
	}
	_, err = db.Settle(within(t), engine.Settle{Tables: []*engine.Table{{Name: "nowhere"}}})
	if !errors.Is(err, engine.ErrNoTable) {
		t.Errorf("of a table that is not there: %v", err)
	}
}

// TestLoadIsDisabled: the server refuses LOAD DATA LOCAL, and the error has a hint.
func TestLoadIsDisabled(t *testing.T) {
	t.Parallel()
	for _, kind := range servers {
		t.Run(kind, func(t *testing.T) {
			db := testdb.Open(t, kind+"?set=local_infile=0").(*mysql.DB)
			w := smallWriter(t, db, engine.Load)
			for range 2 { // the connection stays usable
				_, err := w.Write(within(t), rowsOf(1, 2))
				var hint *engine.HintError
				if !errors.Is(err, engine.ErrUnsupported) || engine.Retryable(err) || !errors.As(err, &hint) {
					t.Errorf("got %v with the hint %v", err, hint)
				}
			}
			if n := count(t, db); n != 0 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

// TestSizesOfManyPartitions: the size of a table with many partitions is derived
// from its files, and only a few partitions are analyzed, although the statistics
// of all are outdated: they show empty partitions.
func TestSizesOfManyPartitions(t *testing.T) { onEach(t, testSizesOfManyPartitions) }

func testSizesOfManyPartitions(t *testing.T, db *mysql.DB) {
	const parts, rows, bytes = 20, 800, 1000
	exec := func(q string) {
		t.Helper()
		if _, err := db.Pool().ExecContext(within(t), q); err != nil {
			t.Fatal(err)
		}
	}
	var defs []string
	for i := range parts {
		defs = append(defs, fmt.Sprintf("PARTITION p%d VALUES LESS THAN (%d)", i, (i+1)*rows))
	}
	exec("CREATE TABLE many (id INT NOT NULL PRIMARY KEY, filler VARCHAR(1000) NOT NULL, k INT NOT NULL, KEY k (k)) ENGINE=InnoDB STATS_AUTO_RECALC=0 STATS_PERSISTENT=1 " +
		"PARTITION BY RANGE (id) (" + strings.Join(defs, ", ") + ")")
	exec(fmt.Sprintf("INSERT INTO many WITH RECURSIVE n AS (SELECT 0 AS id UNION ALL SELECT id + 1 FROM n WHERE id < %d) SELECT id, REPEAT('x', %d), id FROM n", rows-1, bytes))
	for i := 1; i < parts; i++ {
		exec(fmt.Sprintf("INSERT INTO many SELECT id + %d, filler, k FROM many PARTITION (p0)", i*rows))
	}
	read := func() (n int) {
		t.Helper()
		q := "SELECT COUNT(*) FROM mysql.innodb_table_stats WHERE database_name = DATABASE() AND table_name LIKE 'many#%' AND n_rows > 0"
		must(t, db.Pool().QueryRowContext(within(t), q).Scan(&n))
		return n
	}
	if n := read(); n > 0 {
		t.Fatalf("%d partitions have statistics before", n)
	}
	table := &engine.Table{Name: "many"}
	var sizes engine.Sizes
	for range 2 {
		var err error
		if sizes, err = db.Catalog().Sizes(within(t), table); err != nil {
			t.Fatal(err)
		}
	}
	if n := read(); n > 4 {
		t.Errorf("%d of %d partitions were analyzed", n, parts)
	}
	// Each file has unused space, up to 8 MB for two indexes on MySQL.
	if both, want := sizes.Data+sizes.Index, int64(parts*rows*bytes); both < want || both > want+parts*10<<20 {
		t.Errorf("sizes %+v, want somewhat more than %d", sizes, want)
	}
	if sizes.Data < 5*sizes.Index || sizes.Index <= 0 {
		t.Errorf("sizes %+v: rows of %d bytes with an index of 4", sizes, bytes)
	}
}

// TestFootprintOfFewRows: MariaDB counts one leaf page for an index of less than 32 pages.
func TestFootprintOfFewRows(t *testing.T) {
	onEach(t, func(t *testing.T, db *mysql.DB) {
		exec(t, session(t, db), "CREATE TABLE few (id INT PRIMARY KEY, filler CHAR(100) CHARACTER SET latin1 NOT NULL, k INT NOT NULL, KEY k (k))",
			"INSERT INTO few WITH RECURSIVE n AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM n WHERE id < 1000) SELECT id, 'x', id FROM n",
			"INSERT INTO few SELECT id + 1000, filler, k FROM few")
		f, err := db.Footprint(within(t), "few")
		must(t, err)
		if f.Heap < 2000*110 || f.Heap > 2000*250 || f.Indexes[0].Bytes < 2000*8 || f.Indexes[0].Bytes > 2000*40 {
			t.Errorf("footprint %+v of 2000 rows of 110 bytes", *f)
		}
	})
}
