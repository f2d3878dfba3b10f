package mysql_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/mysql"
	"github.com/rowmill/rowmill/internal/testdb"
)

// TestTempTableKeepsValues sends rows of every type through a temporary table, as texts, and reads
// the same texts: with a strict session and another, and values that the session would refuse.
func TestTempTableKeepsValues(t *testing.T) { onEach(t, testTempTableKeepsValues) }

func testTempTableKeepsValues(t *testing.T, db *mysql.DB) {
	ctx := within(t)
	s := session(t, db)
	exec(t, s, "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'", `CREATE TABLE types (
		i INT, u BIGINT UNSIGNED, d DECIMAL(65,30), f DOUBLE, dt DATE, tm DATETIME(6), ti TIME(3), y YEAR, v VARCHAR(30) CHARACTER SET latin1,
		x VARCHAR(40) CHARACTER SET utf8mb4, c CHAR(5), b VARBINARY(20), bl BLOB, e ENUM('a','b''\\c'), st SET('x','y'), bi BIT(10), n INT)`,
		`INSERT INTO types VALUES
		(1, 18446744073709551615, 12345678901234567890123456789012345.000000000000000000000000000001, 0.1, '0001-01-01', '2021-02-31 23:59:59.999999',
		 '-838:59:59.000', 1999, 'é''"', '😀 \\ '' \n\0', 'ab ', X'00FF5C27', '', 'b''\\c', 'x,y', b'1000000001', NULL),
		(-1, 0, -0.1, 1.7976931348623157e308, '9999-12-31', '0001-01-01', '00:00:00.001', 0, '', '', '', '', X'0D0A', 'a', '', b'0', NULL),
		(0, 9223372036854775808, 0, 3.3333333333333335e-100, '2020-02-30', '1000-01-01', '12:00:00', 2155, '\\', 'a\\''b', NULL, NULL, NULL, NULL, NULL, NULL, NULL)`)
	reads, err := db.ReadSession(ctx, nil)
	must(t, err)
	defer reads.Close()
	st, err := db.ReadState(ctx, reads)
	must(t, err)
	const query = "SELECT * FROM types"
	for _, mode := range []string{"TRADITIONAL", "ANSI,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,NO_ZERO_DATE", "", "PIPES_AS_CONCAT,NO_ZERO_IN_DATE,STRICT_TRANS_TABLES"} {
		for i := range st {
			if st[i].Name == "sql_mode" {
				st[i].Value = mode
			}
		}
		merge, err := db.ReadSession(ctx, db.MergeState(st))
		must(t, err)
		cols, err := db.DescribeQuery(ctx, merge, query)
		must(t, err)
		table, err := db.TempTable(ctx, merge, "it`s", query, cols)
		must(t, err)
		var rows []byte
		want := texts(t, merge, query, func(v [][]byte) {
			rows, err = table.Append(rows, v)
			must(t, err)
		})
		must(t, table.Insert(ctx, rows))
		if got := texts(t, merge, "SELECT * FROM `it``s`", nil); got != want {
			t.Errorf("sql_mode %q:\ngot  %q\nwant %q", mode, got, want)
		}
		must(t, merge.Close())
	}
}

// texts returns all values of a query.
func texts(t *testing.T, s *engine.Session, query string, each func(v [][]byte)) string {
	t.Helper()
	var b strings.Builder
	must(t, s.Text(within(t), query, nil, func(v [][]byte) error {
		b.WriteString("\n" + string(bytes.Join(v, []byte("|"))))
		if each != nil {
			each(v)
		}
		return nil
	}))
	return b.String()
}

// TestTempTableRefusesTexts: values whose texts don't have all of the value, and those that the
// server would change, are errors.
func TestTempTableRefusesTexts(t *testing.T) { onEach(t, testTempTableRefusesTexts) }

func testTempTableRefusesTexts(t *testing.T, db *mysql.DB) {
	ctx := within(t)
	s := session(t, db)
	exec(t, s, "CREATE TABLE some (f FLOAT, g DOUBLE(10,2), z INT ZEROFILL, e ENUM('a'), i TINYINT, dt DATE)")
	merge, err := db.ReadSession(ctx, nil)
	must(t, err)
	defer merge.Close()
	for _, column := range []string{"f", "g", "z"} {
		cols, err := db.DescribeQuery(ctx, merge, "SELECT "+column+" FROM some")
		must(t, err)
		if _, err := db.TempTable(ctx, merge, "x", "SELECT "+column+" FROM some", cols); !errors.Is(err, engine.ErrUnsupported) {
			t.Errorf("column %s: error %v", column, err)
		}
	}
	st, err := db.ReadState(ctx, merge)
	must(t, err)
	must(t, merge.SetStates(ctx, db.MergeState(st)))
	cols, err := db.DescribeQuery(ctx, merge, "SELECT e, i, dt FROM some")
	must(t, err)
	table, err := db.TempTable(ctx, merge, "x", "SELECT e, i, dt FROM some", cols)
	must(t, err)
	for _, row := range [][][]byte{{[]byte(""), []byte("1"), nil}, {[]byte("a"), []byte("300"), nil}} { // the empty text is that of an invalid ENUM
		rows, err := table.Append(nil, row)
		must(t, err)
		if err := table.Insert(ctx, rows); err == nil {
			t.Errorf("row %q was inserted as another one", row)
		}
	}
	for _, row := range [][][]byte{{[]byte("a"), []byte("1); DROP TABLE some"), nil}, {nil, nil, []byte("0000-00-00")}, {nil, nil, []byte("2020-00-10")}} {
		if _, err := table.Append(nil, row); err == nil {
			t.Errorf("row %q was accepted", row)
		}
	}
}

// TestTempTableDoesNotLock: the rows of the query are changed by an open transaction.
func TestTempTableDoesNotLock(t *testing.T) { onEach(t, testTempTableDoesNotLock) }

func testTempTableDoesNotLock(t *testing.T, db *mysql.DB) {
	ctx := within(t)
	s := session(t, db)
	exec(t, s, "CREATE TABLE some (i INT PRIMARY KEY, n INT)", "INSERT INTO some VALUES (1, 1), (2, 2)")
	exec(t, s, "BEGIN", "UPDATE some SET n = 3")
	merge := readSession(t, db)
	_, err := merge.Exec(ctx, "SET SESSION innodb_lock_wait_timeout = 1")
	must(t, err)
	for i, query := range []string{"SELECT n, COUNT(*) AS c FROM some GROUP BY n", "SELECT n FROM some", "SELECT n FROM some WHERE i = 1", "SELECT MAX(i) AS m FROM some"} {
		cols, err := db.DescribeQuery(ctx, merge, query)
		must(t, err)
		if _, err = db.TempTable(ctx, merge, fmt.Sprint("x", i), query, cols); err != nil {
			t.Error(query, err)
		}
	}
	exec(t, s, "ROLLBACK")
}

// TestTempTableIsNotLogged: replicas don't execute the statements of a merge.
func TestTempTableIsNotLogged(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "mariadb?set=log_bin=log,binlog_format=MIXED").(*mysql.DB)
	ctx := within(t)
	s := session(t, db)
	exec(t, s, "CREATE TABLE some (i INT)")
	position := func() string { return texts(t, readSession(t, db), "SHOW MASTER STATUS", nil) }
	before := position()
	if !strings.Contains(before, "log.0") {
		t.Fatalf("the server has no binary log: %q", before)
	}
	merge := readSession(t, db)
	cols, err := db.DescribeQuery(ctx, merge, "SELECT i FROM some")
	must(t, err)
	table, err := db.TempTable(ctx, merge, "x", "SELECT i FROM some", cols)
	must(t, err)
	must(t, table.Insert(ctx, []byte("(1),(2),")))
	if after := position(); after != before {
		t.Errorf("the binary log was at %q, and is at %q", before, after)
	}
	poor := few(t, db, "SELECT, CREATE TEMPORARY TABLES")
	before = position()
	if _, err := poor.TempTable(ctx, readSession(t, poor), "x", "SELECT i FROM some", cols); !errors.Is(err, engine.ErrUnsupported) {
		t.Errorf("without the privilege: error %v", err)
	}
	if after := position(); after != before {
		t.Errorf("the binary log was at %q, and is at %q", before, after)
	}
}

// readSession opens a session for reading that is closed when the test ends.
func readSession(t *testing.T, db *mysql.DB) *engine.Session {
	t.Helper()
	s, err := db.ReadSession(within(t), nil)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	return s
}
