package archive

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/testdb"
)

// rich contains tables with all kinds of types, and rows with their extreme
// values.
var rich = map[string]struct {
	create string
	rows   []string // after VALUES
}{
	"mysql": {
		"CREATE TABLE rich (id BIGINT UNSIGNED NOT NULL, ts DATETIME(6) NOT NULL, tiny TINYINT, flag BIT(9), big BIGINT, ub BIGINT UNSIGNED, " +
			"f FLOAT, d DOUBLE, n DECIMAL(10,2), wide DECIMAL(38,10), huge DECIMAL(65,30), day DATE, at DATETIME, ms TIMESTAMP(3) NULL, clock TIME(6), y YEAR, " +
			"c CHAR(5), v VARCHAR(100), tx LONGTEXT, bin BINARY(4), vb VARBINARY(40), bl LONGBLOB, e ENUM('b','a'), s SET('x','y'), j JSON, `od,d``name` INT, " +
			"twice BIGINT AS (tiny * 2) VIRTUAL, PRIMARY KEY (id, ts))",
		[]string{
			"(1, '2026-11-20 00:00:00', -128, b'101010101', -9223372036854775808, 18446744073709551615, 0.1, 0.1, -12345678.90, '-1234567890123456789012345678.0123456789', '12345678901234567890123456789012345.123456789012345678901234567891', '2026-02-28', '1000-01-01', '2026-03-29 01:30:00.123', '-838:59:59', 1901, 'a', 'grüße 🙂', '', x'00ff0001', x'', x'deadbeef', 'a', 'x,y', '{\"a\": [1, null, \"ü\"]}', 1, DEFAULT)",
			"(18446744073709551615, '2026-11-20 23:59:59.999999', 127, b'0', 9223372036854775807, 0, -3.4028234e38, 1.7976931348623157e308, 0.00, '0.0000000001', 0, '9999-12-31', '9999-12-31 23:59:59', '1970-01-01 00:00:01', '838:59:59', 2155, '', '', 'x', x'00000000', x'00', '', 'b', '', 'null', -1, DEFAULT)",
			"(9007199254740993, '2026-11-20 12:00:00.5', 0, b'1', 0, 9223372036854775808, 1.17549435e-38, 5e-324, 0.05, -0.5, -0.000000000000000000000000000001, '2026-11-20', '2026-11-20 12:00:00', '2026-11-20 12:00:00.5', '00:00:00.000001', 2026, 'ab   ', '  x ', 'line\\nline\\\\', x'27000000', x'5c27', x'00', 'a', 'y', '[]', 0, DEFAULT)",
			"(9007199254740992, '2026-11-20 12:00:00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, DEFAULT)",
		},
	},
	"postgres": {
		"CREATE TABLE rich (id BIGINT NOT NULL, ts TIMESTAMPTZ NOT NULL, small SMALLINT, b BOOLEAN, f REAL, d DOUBLE PRECISION, n NUMERIC(10,2), any_n NUMERIC, day DATE, at TIMESTAMP, clock TIME, span INTERVAL, " +
			"c CHAR(5), v VARCHAR(100), tx TEXT, bin BYTEA, u UUID, ip INET, j JSON, jb JSONB, ints INT[], texts TEXT[], bits BIT(3), money MONEY, rng INT4RANGE, \"Od,d\"\"name\" INT, " +
			"twice BIGINT GENERATED ALWAYS AS (id * 2) STORED, PRIMARY KEY (id, ts))",
		[]string{
			"(-4611686018427387904, '2026-11-20 00:00:00+00', -32768, true, 0.1, 0.1, -12345678.90, 1e-50, '2026-02-28', '2026-11-20 12:00:00.123456', '23:59:59.999999', '1 mon -3 days 04:05:06.7', 'a', 'grüße 🙂', '', '\\x00ff', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', '10.0.0.1/24', '{\"a\" : 1}', '{\"a\": [1, null, \"ü\"]}', '{1,NULL,-3}', '{\"a,b\",NULL,\"\"}', '101', '-12.34', '[1,5)', 1, DEFAULT)",
			"(4611686018427387903, '2026-11-20 23:59:59.999999+00', 32767, false, '3.4028235e38', '1.7976931348623157e308', 0.00, 123456789012345678901234567890.5, '0001-01-01', '9999-12-31 23:59:59', '00:00:00', '0', '', '', 'x', '', '00000000-0000-0000-0000-000000000000', '::1', 'null', '[]', '{}', '{}', '000', '0', 'empty', -1, DEFAULT)",
			"(0, '2026-11-20 12:00:00.5+00', 0, NULL, '1e-45', '5e-324', 0.05, -0.5, '2026-11-20', '2026-11-20 12:00:00', '12:00', '-1 day', 'ab', '  x ', E'line\\nline\\\\', '\\x5c27', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, DEFAULT)",
			"(1, '2026-11-20 12:00:00+00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, DEFAULT)",
		},
	},
	"sqlite": {
		"CREATE TABLE rich (id INTEGER NOT NULL, ts DATETIME NOT NULL, f REAL, n DECIMAL(10,2), tx TEXT, bl BLOB, whatever, \"od,d\"\"name\" INT, t TIMESTAMP, flag BOOLEAN, PRIMARY KEY (id, ts))",
		[]string{
			"(-9223372036854775808, '2026-11-20 00:00:00', 0.1, 12.34, 'grüße 🙂', x'00ff', 'x', 1, '2026-11-20T12:00:00.123Z', 1)",
			"(9223372036854775807, '2026-11-20 23:59:59.999999', 1.7976931348623157e308, -0.1, '', x'', '12', 'no number', '2026-11-20 12:00:00', 0)",
			"(0, '2026-11-20 12:00:00.5', 5e-324, 100, 'a' || char(0) || 'b', x'5c27', '', 1.5, NULL, 'maybe')",
			"(1, '2026-11-20 12:00:00', 9e999, -9e999, CAST(x'ff41' AS TEXT), NULL, NULL, NULL, 1763640000, NULL)",
			"(2, '2026-11-20 12:00:00', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
		},
	},
}

// richOf returns the table for a server.
func richOf(db engine.Keeper) (create string, rows []string) {
	name := db.Info().Engine
	if name == "mariadb" {
		name = "mysql"
	}
	r := rich[name]
	return r.create, r.rows
}

// TestRichTypes: all values are restored exactly, by the server's own checksum.
func TestRichTypes(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		create, rows := richOf(db)
		w := newWorld(t, db, create)
		for _, r := range rows {
			w.exec("INSERT INTO rich VALUES " + r)
		}
		f := w.roundTrip()
		if f.Rows != int64(len(rows)) {
			t.Errorf("%d rows of %d", f.Rows, len(rows))
		}
		i, err := Look(f.Path)
		must(t, err)
		for _, c := range i.columns {
			t.Logf("%-12s %-24s %-8s %s", c.Name, c.Native, c.Kind, c.Form)
		}
		if i.Create != create || i.Table != "rich" || i.Engine != db.Info().Engine || i.Name != w.part().Name || i.Bounds != "2026-11-20 00:00:00 to 2026-11-21 00:00:00" {
			t.Errorf("the file says %+v", i)
		}
		again := w.write()
		if again.Path != f.Path || again.Rows != f.Rows || again.Sum != f.Sum || again.Bytes != f.Bytes || again.Kept != f.Kept {
			t.Errorf("written again: %+v, first %+v", again, f)
		}
	})
}

// TestTrapValuesWithoutPlace: values that the column's natural Parquet type can't
// represent are stored as text, and restored.
func TestTrapValuesWithoutPlace(t *testing.T) {
	cases := map[string]struct{ create, insert string }{
		"mysql": {
			"CREATE TABLE odd (id INT NOT NULL, ts DATETIME NOT NULL, at DATETIME NULL, day DATE, z INT(8) ZEROFILL, PRIMARY KEY (id, ts))",
			"(1, '2026-11-20 00:00:01', '0000-00-00 00:00:00', '0000-00-00', 7), (2, '2026-11-20 00:00:01', '2026-11-20 00:00:00', '2026-00-00', 8)",
		},
		"postgres": {
			"CREATE TABLE odd (id INT NOT NULL, ts TIMESTAMPTZ NOT NULL, at TIMESTAMPTZ, day DATE, n NUMERIC(5,2), f DOUBLE PRECISION, PRIMARY KEY (id, ts))",
			"(1, '2026-11-20 00:00:01+00', 'infinity', '-infinity', 'NaN', 'NaN'), (2, '2026-11-20 00:00:01+00', '294276-12-31 23:59:59.999999+00', '4713-01-01 BC', 1.00, '-Infinity'), (3, '2026-11-20 00:00:01+00', '2026-11-20 00:00:00+00', '2026-11-20', 2, '-0')",
		},
		"sqlite": {
			"CREATE TABLE odd (id INT NOT NULL, ts DATETIME NOT NULL, at DATETIME, day TEXT, PRIMARY KEY (id, ts))",
			"(1, '2026-11-20 00:00:01', 'yesterday', ''), (2, '2026-11-20 00:00:01', '2026-11-20 00:00', x'41')",
		},
	}
	cases["mariadb"] = cases["mysql"]
	onServers(t, func(t *testing.T, db engine.Keeper) {
		c := cases[db.Info().Engine]
		w := newWorld(t, db, c.create)
		w.exec("INSERT INTO odd VALUES " + c.insert)
		if isEngine(db, "sqlite") {
			_, err := Write(t.Context(), db, w.table, w.s, w.part(), w.dir)
			if err == nil || !strings.Contains(err.Error(), "column day has values of another storage class") {
				t.Fatalf("bytes in a text column: %v", err)
			}
			w.exec("UPDATE " + db.Words().From(w.table, w.part()) + " SET day = CAST(day AS TEXT)")
		}
		f := w.roundTrip()
		if got := w.form(f, "at"); got != formText {
			t.Errorf("column at is written as %s", got)
		}
		if got := w.form(f, "ts"); got != formTimestamp {
			t.Errorf("column ts is written as %s", got)
		}
	})
}

// TestTrapAutoIncrementZero: a row whose automatic key is 0 keeps it; MySQL would
// assign the next number.
func TestTrapAutoIncrementZero(t *testing.T) {
	testdb.OnKinds(t, []string{"mariadb", "mysql"}, func(t *testing.T, kind string) {
		w := newWorld(t, open(t, kind), "CREATE TABLE auto (id INT NOT NULL AUTO_INCREMENT, ts DATETIME NOT NULL, PRIMARY KEY (id, ts))")
		w.exec("INSERT INTO auto VALUES (5, '2026-11-20 00:00:01'), (6, '2026-11-20 00:00:01')")
		w.exec("UPDATE auto SET id = 0 WHERE id = 5")
		w.roundTrip()
	})
}

// TestTrapLargeRow: a value that fits into the server's packets is restored although it
// doesn't as a literal, in which bytes take twice their length.
func TestTrapLargeRow(t *testing.T) {
	testdb.OnKinds(t, []string{"mariadb"}, func(t *testing.T, kind string) {
		w := newWorld(t, open(t, kind), "CREATE TABLE large (id INT NOT NULL, ts DATETIME NOT NULL, b LONGBLOB, n INT, f DOUBLE, note TEXT, PRIMARY KEY (id, ts))")
		w.exec("INSERT INTO large VALUES (1, '2026-11-20 00:00:01', REPEAT('x', @@max_allowed_packet * 0.6), NULL, 0.5, 'it''s'), (2, '2026-11-20 00:00:01', '', 1, NULL, NULL)")
		w.roundTrip()
	})
}

// TestTrapKeysBeyondDoubles: keys that are equal as binary fractions are distinct
// rows, also across chunks.
func TestTrapKeysBeyondDoubles(t *testing.T) {
	onServers(t, func(t *testing.T, db engine.Keeper) {
		id, ts := "BIGINT UNSIGNED", "DATETIME"
		switch db.Info().Engine {
		case "postgres":
			id, ts = "NUMERIC(30,0)", "TIMESTAMP"
		case "sqlite":
			id = "BIGINT"
		}
		w := newWorld(t, db, "CREATE TABLE k (id "+id+" NOT NULL, name VARCHAR(20) NOT NULL, ts "+ts+" NOT NULL, PRIMARY KEY (id, name, ts))")
		var rows []string
		for i := range 40 {
			for _, n := range []string{"a", "B", "c d", "ö", "'"} {
				rows = append(rows, fmt.Sprintf("(%d, '%s', '2026-11-20 00:00:%02d')", int64(1)<<53+int64(i), strings.ReplaceAll(n, "'", "''"), i))
			}
		}
		w.exec("INSERT INTO k VALUES " + strings.Join(rows, ", "))
		for _, chunk := range []int{1, 3, 7, 1000} {
			f, err := (&writing{chunk: chunk, groups: 30}).write(t.Context(), db, w.table, w.s, w.part(), t.TempDir())
			must(t, err)
			if f.Rows != int64(len(rows)) {
				t.Errorf("chunks of %d: %d rows of %d", chunk, f.Rows, len(rows))
			}
			if _, err := Verify(t.Context(), f.Path); err != nil {
				t.Error(err)
			}
		}
		w.roundTrip()
	})
}
