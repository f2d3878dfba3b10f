package sqlite

import (
	"database/sql"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// firstDay is 2026-11-20 00:00:00.
const firstDay = int64(1795132800e6)

// declared returns a table with a definition, and n of its periods.
func declared(t testing.TB, text, by, every string, pos int64, n int) (*engine.Table, []rolling.Partition) {
	t.Helper()
	d, err := rolling.ReadDefinition(text)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	g, err := rolling.Parse(every)
	must(t, err)
	var parts []rolling.Partition
	for range n {
		p, err := g.At(pos)
		must(t, err)
		parts, pos = append(parts, g.Named(p)), p.To
	}
	return &engine.Table{Name: d.Name, Definition: d, By: by, Grid: g, PrimaryKey: d.PrimaryKey}, parts
}

const readingsText = `CREATE TABLE readings (
  sensor INTEGER NOT NULL, ts DATETIME NOT NULL, value REAL DEFAULT 1.5, unit TEXT NOT NULL DEFAULT 'it''s C',
  twice REAL GENERATED ALWAYS AS (value * 2) VIRTUAL, level INTEGER NOT NULL DEFAULT (1 + 2) CHECK (level < 100),
  PRIMARY KEY (sensor, ts)) WITHOUT ROWID;
CREATE INDEX by_ts ON readings (ts, value)`

func mustTry(t testing.TB, db *DB, steps ...engine.Step) {
	t.Helper()
	must(t, db.Try(t.Context(), steps...))
}

func mustExec(t testing.TB, db *DB, q string, args ...any) {
	t.Helper()
	if _, err := db.SQL().ExecContext(t.Context(), q, args...); err != nil {
		t.Fatalf("%.200s: %v", q, err)
	}
}

// lines returns the result of a query, one line per row.
func lines(t testing.TB, db *DB, q string, args ...any) []string {
	t.Helper()
	rows, err := db.SQL().QueryContext(t.Context(), q, args...)
	if err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	defer rows.Close()
	names, err := rows.Columns()
	must(t, err)
	var out []string
	for rows.Next() {
		values, dst := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range values {
			dst[i] = &values[i]
		}
		must(t, rows.Scan(dst...))
		var line []string
		for _, v := range values {
			if !v.Valid {
				v.String = "NULL"
			}
			line = append(line, v.String)
		}
		out = append(out, strings.Join(line, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", q, err)
	}
	return out
}

func wantLines(t testing.TB, db *DB, q string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, lines(t, db, q)); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", q, diff)
	}
}

func TestRenderDeclared(t *testing.T) {
	d := dialect{}
	table, parts := declared(t, readingsText, "ts", "1d", firstDay, 4)
	table.Name = `rea"dings`
	seq, rows := declared(t, "CREATE TABLE events (id INTEGER NOT NULL, note TEXT, PRIMARY KEY (id))", "id", "1000 rows", 0, 2)
	epoch, days := declared(t, "CREATE TABLE hits (at INTEGER PRIMARY KEY, n INTEGER)", "at", "1d", firstDay, 1)
	epoch.Epoch = time.Millisecond
	merged := rolling.Partition{Name: "p20261120m", Period: rolling.Period{From: parts[0].From, To: parts[1].To}}
	enginetest.RunRenderings(t, []enginetest.Rendering{{Name: "declared", Dialect: d, Steps: []engine.Step{
		engine.CreateTable{Table: table, Partitions: parts[:2]}, engine.CreatePartitions{Table: table, Have: parts[:2], New: parts[3:]},
		engine.DropPartition{Table: table, Have: parts[:2], Drop: parts[0]}, engine.Detach{Table: table, Have: parts[:2], Part: parts[1], Into: "out"},
		engine.Attach{Table: table, Have: parts[:1], Part: parts[1], From: "in"},
		engine.Replace{Table: table, Have: parts, Old: parts[:2], New: merged, With: "in", Out: []string{"out1", "out2"}},
		engine.AddColumn{Table: table, Have: parts[:1], Name: "x", Definition: "x INTEGER NOT NULL DEFAULT -1"},
		engine.AddColumn{Table: &engine.Table{Name: "plain"}, Name: "x", Definition: "x INTEGER"},
		engine.DropTables{Names: []string{"a", `b"c`}}, engine.CreateTable{Table: seq, Partitions: rows}, engine.CreateTable{Table: epoch, Partitions: days},
	}}}, map[string]engine.Step{
		"the only period":   engine.Detach{Table: table, Have: parts[:1], Part: parts[0], Into: "out"},
		"rows nowhere":      engine.Replace{Table: table, Have: parts, Old: parts[:2], New: merged, With: "in", Out: []string{"out1"}},
		"both in one":       engine.Replace{Table: table, Have: parts, Old: parts[:1], New: parts[0], With: "in", Out: []string{"in"}},
		"nothing to put in": engine.Replace{Table: table, Have: parts, With: "in"},
		"no name":           engine.CreateTable{Table: &engine.Table{Definition: table.Definition}},
	})
}

// TestViewTakesChanges checks that changes of the view are applied to the periods.
func TestViewTakesChanges(t *testing.T) {
	t.Parallel()
	for _, periods := range []int{3, 40} {
		db := openTest(t, "")
		table, parts := declared(t, readingsText, "ts", "1d", firstDay, periods)
		mustTry(t, db, engine.CreateTable{Table: table, Partitions: parts})
		mustExec(t, db, "INSERT INTO readings (sensor, ts) VALUES (1, '2026-11-20 00:00:00'), (2, '2026-11-21 10:00:00.25'), (3, '2026-11-22 23:59:59.999999')")
		mustExec(t, db, "INSERT INTO readings (sensor, ts, value, unit, level) VALUES (4, '2026-11-21 00:00:00', 2, 'F', 7)")
		wantLines(t, db, "SELECT sensor, CAST(ts AS TEXT), value, unit, twice, level FROM readings ORDER BY sensor",
			"1|2026-11-20 00:00:00|NULL|it's C|NULL|3", "2|2026-11-21 10:00:00.250000|NULL|it's C|NULL|3", "3|2026-11-22 23:59:59.999999|NULL|it's C|NULL|3", "4|2026-11-21 00:00:00|2|F|4|7")
		for i, want := range []string{"1", "2", "1"} {
			wantLines(t, db, "SELECT count(*) FROM "+db.Words().From(table, parts[i]), want)
		}
		mustExec(t, db, "UPDATE readings SET value = 9, ts = '2026-11-21 10:00:00.5' WHERE sensor = 2")
		mustExec(t, db, "UPDATE readings SET unit = 'K' WHERE sensor > 2")
		wantLines(t, db, "SELECT sensor, CAST(ts AS TEXT), value, unit FROM readings WHERE sensor > 1 ORDER BY sensor",
			"2|2026-11-21 10:00:00.500000|9|it's C", "3|2026-11-22 23:59:59.999999|NULL|K", "4|2026-11-21 00:00:00|2|K")
		mustExec(t, db, "DELETE FROM readings WHERE ts >= '2026-11-21' AND sensor < 4")
		wantLines(t, db, "SELECT sensor FROM readings ORDER BY sensor", "1", "4")
		for q, what := range map[string]string{
			"UPDATE readings SET ts = '2026-11-22 00:00:00' WHERE sensor = 1": movesText,
			"UPDATE readings SET ts = '2025-01-01 00:00:00' WHERE sensor = 1": outsideText,
			"UPDATE readings SET ts = '2026-11-20T01:00:00' WHERE sensor = 1": "must be YYYY",
			"UPDATE readings SET level = 100 WHERE sensor = 1":                "CHECK",
			"INSERT INTO readings (sensor, ts) VALUES (NULL, '2026-11-20 1')": "must be YYYY",
			"INSERT INTO readings (ts) VALUES ('2026-11-20 01:00:00')":        "NOT NULL",
		} {
			if _, err := db.SQL().Exec(q); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %v, want %q", q, err, what)
			}
		}
		wantLines(t, db, "SELECT sensor, CAST(ts AS TEXT) FROM readings ORDER BY sensor", "1|2026-11-20 00:00:00", "4|2026-11-21 00:00:00")
		// Queries by time use the index of each period.
		plan := strings.Join(lines(t, db, "EXPLAIN QUERY PLAN SELECT * FROM readings WHERE ts >= '2026-11-21 00:00:00' AND ts < '2026-11-21 01:00:00'"), "\n")
		if strings.Count(plan, "SEARCH") != periods || strings.Contains(plan, "SCAN") {
			t.Errorf("plan:\n%s", plan)
		}
	}
}

// TestViewSpellsInstants checks that an instant is stored in one format, whatever
// number of fractional digits is inserted, so that it is one key.
func TestViewSpellsInstants(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	table, parts := declared(t, readingsText, "ts", "1d", firstDay, 2)
	mustTry(t, db, engine.CreateTable{Table: table, Partitions: parts})
	for _, first := range []string{".123", ".1230", ".123000"} {
		mustExec(t, db, "DELETE FROM readings")
		mustExec(t, db, "INSERT INTO readings (sensor, ts) VALUES (1, '2026-11-20 10:00:00"+first+"')")
		for _, ts := range []string{"2026-11-20 10:00:00.123", "2026-11-20 10:00:00.12300", "2026-11-20 10:00:00.123000"} {
			if _, err := db.SQL().Exec("INSERT INTO readings (sensor, ts) VALUES (1, '" + ts + "')"); !errors.Is(db.Classify(err), engine.ErrDuplicateKey) {
				t.Errorf("%s beside %s: %v", ts, first, err)
			}
		}
		wantLines(t, db, "SELECT CAST(ts AS TEXT) FROM readings", "2026-11-20 10:00:00.123000")
	}
	mustExec(t, db, "DELETE FROM readings")
	mustExec(t, db, "INSERT INTO readings (sensor, ts) VALUES (1, '2026-11-20 10:00:00.000'), (2, '2026-11-20 00:00:00.0')")
	wantLines(t, db, "SELECT sensor, CAST(ts AS TEXT) FROM readings ORDER BY sensor", "1|2026-11-20 10:00:00", "2|2026-11-20 00:00:00")
	mustExec(t, db, "UPDATE readings SET ts = '2026-11-20 12:00:00.5' WHERE sensor = 1")
	wantLines(t, db, "SELECT CAST(ts AS TEXT) FROM readings WHERE sensor = 1", "2026-11-20 12:00:00.500000")
	// An update of another column doesn't change a time in another format.
	mustExec(t, db, "UPDATE "+db.Words().From(table, parts[0])+" SET ts = '2026-11-20 12:00:00.5' WHERE sensor = 1")
	mustExec(t, db, "INSERT INTO readings (sensor, ts) VALUES (1, '2026-11-20 12:00:00.500000')")
	mustExec(t, db, "UPDATE readings SET value = 7 WHERE sensor = 1")
	wantLines(t, db, "SELECT CAST(ts AS TEXT), value FROM readings WHERE sensor = 1 ORDER BY 1", "2026-11-20 12:00:00.5|7", "2026-11-20 12:00:00.500000|7")
}

// TestViewIsNoTable checks the documented limits of statements on the view.
func TestViewIsNoTable(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	table, parts := declared(t, readingsText, "ts", "1d", firstDay, 2)
	mustTry(t, db, engine.CreateTable{Table: table, Partitions: parts})
	r, err := db.SQL().Exec("INSERT INTO readings (sensor, ts) VALUES (1, '2026-11-20 00:00:00'), (2, '2026-11-20 00:00:00')")
	must(t, err)
	if n, err := r.RowsAffected(); n != 0 || err != nil {
		t.Errorf("%d rows are counted, %v", n, err)
	}
	_, err = db.SQL().Exec("INSERT INTO readings (sensor, ts) VALUES (1, '2026-11-20 00:00:00') ON CONFLICT DO NOTHING")
	if err == nil || !strings.Contains(err.Error(), "cannot UPSERT a view") {
		t.Errorf("ON CONFLICT: %v", err)
	}
	mustExec(t, db, "INSERT OR REPLACE INTO readings (sensor, ts, value) VALUES (1, '2026-11-20 00:00:00', 8)")
	mustExec(t, db, "INSERT OR IGNORE INTO readings (sensor, ts, value) VALUES (2, '2026-11-20 00:00:00', 9)")
	wantLines(t, db, "SELECT sensor, value FROM readings ORDER BY sensor", "1|8", "2|NULL")
}

// TestViewOfSequence uses a declared table whose key is a sequence, SQLite's rowid.
func TestViewOfSequence(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	table, parts := declared(t, "CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, note TEXT UNIQUE)", "id", "1000 rows", 0, 3)
	mustTry(t, db, engine.CreateTable{Table: table, Partitions: parts})
	mustExec(t, db, "INSERT INTO events VALUES (0, 'a'), (999, 'b'), (1000, 'c'), (2999, 'd')")
	for i, want := range []string{"2", "1", "1"} {
		wantLines(t, db, "SELECT count(*) FROM "+db.Words().From(table, parts[i]), want)
	}
	for _, id := range []any{3000, -1, "17", 1.5, nil, []byte("1")} {
		if _, err := db.SQL().Exec("INSERT INTO events VALUES (?, 'x')", id); err == nil {
			t.Errorf("id %v was taken", id)
		}
	}
	if _, err := db.SQL().Exec("INSERT INTO events VALUES (1000, 'x')"); !errors.Is(db.Classify(err), engine.ErrDuplicateKey) {
		t.Errorf("the same key again: %v", err)
	}
	wantLines(t, db, "SELECT count(*) FROM events", "4")
}

// TestAddedColumnHasItsDefault adds a NOT NULL column while inserts don't name it.
func TestAddedColumnHasItsDefault(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	table, parts := declared(t, readingsText, "ts", "1d", firstDay, 2)
	mustTry(t, db, engine.CreateTable{Table: table, Partitions: parts})
	insert := "INSERT INTO readings (sensor, ts) VALUES (?, '2026-11-20 00:00:00')"
	mustExec(t, db, insert, 1)
	step := engine.AddColumn{Table: table, Have: parts, Name: "x", Definition: "x INTEGER NOT NULL DEFAULT -7"}
	mustTry(t, db, step, step)
	mustExec(t, db, insert, 2)
	wantLines(t, db, "SELECT sensor, x FROM readings ORDER BY sensor", "1|-7", "2|-7")
	err := db.Try(t.Context(), engine.AddColumn{Table: table, Have: parts, Name: "y", Definition: "y INTEGER NOT NULL"})
	if err == nil {
		t.Error("a column without a default that must not be NULL was added")
	}
	wantLines(t, db, "SELECT sensor, x FROM readings ORDER BY sensor", "1|-7", "2|-7")
}

// TestRebuildsKeepIndexes checks that indexes keep their names through repeated
// rebuilds of a period, and that other views of the table still work.
func TestRebuildsKeepIndexes(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	table, parts := declared(t, readingsText, "ts", "1d", firstDay, 3)
	mustTry(t, db, engine.CreateTable{Table: table, Partitions: parts})
	mustExec(t, db, `CREATE VIEW "readings_live" AS SELECT sensor, ts FROM readings`)
	mustExec(t, db, `CREATE VIEW broken AS SELECT * FROM nowhere`)
	mustExec(t, db, "INSERT INTO readings (sensor, ts) VALUES (1, '2026-11-20 00:00:00'), (2, '2026-11-21 10:00:00.25')")
	for i := range 5 {
		for _, q := range db.Words().CreateTemplate(table, "rebuilt", engine.Storage{}) {
			mustExec(t, db, q)
		}
		mustExec(t, db, "INSERT INTO rebuilt (sensor, ts) SELECT sensor, ts FROM "+db.Words().From(table, parts[0]))
		mustTry(t, db, engine.Replace{Table: table, Have: parts, Old: parts[:1], New: parts[0], With: "rebuilt", Out: []string{"old"}}, engine.DropTables{Names: []string{"old"}})
		wantLines(t, db, "SELECT count(*) FROM readings_live", "2")
		s, err := db.Describe(t.Context(), "readings_p20261120")
		if err != nil || len(s.Indexes) != 1 {
			t.Fatalf("rebuilt %d times: indexes %+v, %v", i+1, s.Indexes, err)
		}
	}
	mustTry(t, db, engine.Detach{Table: table, Have: parts, Part: parts[1], Into: "gone"})
	wantLines(t, db, "SELECT count(*) FROM readings_live", "1")
	mustTry(t, db, engine.Attach{Table: table, Have: parts, Part: parts[1], From: "gone"})
	wantLines(t, db, "SELECT count(*) FROM readings_live", "2")
	wantLines(t, db, "PRAGMA integrity_check", "ok")
}

// TestRealAsText checks that AsText of any real is read back as the same value.
func TestRealAsText(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	mustExec(t, db, "CREATE TABLE r (v REAL)")
	rnd := rand.New(rand.NewPCG(1, 2))
	all := []float64{math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64, 2.2250738585072011e-308, 1e15, 1e16, 123456789012345678}
	for range 100_000 {
		if f := math.Float64frombits(rnd.Uint64()); f == f {
			all = append(all, f)
		}
		all = append(all, rnd.NormFloat64(), math.Round(rnd.Float64()*1e6)/100)
	}
	tx, err := db.SQL().Begin()
	must(t, err)
	defer tx.Rollback()
	insert, err := tx.Prepare("INSERT INTO r VALUES (?) RETURNING v, " + db.Words().AsText(engine.SchemaColumn{Name: "v"}))
	must(t, err)
	bad := 0
	for _, f := range all {
		var back float64
		var text string
		must(t, insert.QueryRow(textOf(f)).Scan(&back, &text))
		if back != f || text != textOf(f) {
			if bad++; bad < 10 {
				t.Errorf("%s came back as %s", textOf(f), text)
			}
		}
	}
	t.Logf("%d reals, %d came back as others", len(all), bad)
}

func TestTypeOf(t *testing.T) {
	t.Parallel()
	for native, want := range map[string]value.Type{
		"INTEGER": {Kind: value.Int, Bits: 64}, "bigint": {Kind: value.Int, Bits: 64}, "UNSIGNED BIG INT": {Kind: value.Int},
		"TINYINT UNSIGNED": {Kind: value.Int, Bits: 8, Unsigned: true}, "MEDIUMINT": {Kind: value.Int, Bits: 24},
		"TEXT": {Kind: value.Text}, "VARCHAR(20)": {Kind: value.Text, Length: 20}, "CHARACTER VARYING": {Kind: value.Text}, "TEXT(5)": {Kind: value.Text},
		"BLOB": {Kind: value.Bytes}, "": {}, "ANY": {},
		"DOUBLE PRECISION": {Kind: value.Float, Bits: 64}, "real": {Kind: value.Float, Bits: 64}, "FLOAT": {Kind: value.Float, Bits: 64},
		"DATETIME": {Kind: value.Time, Digits: 6}, "TIMESTAMP(3)": {Kind: value.Time, Digits: 3}, "DATE": {Logical: value.Date},
		"TIME": {Logical: value.Clock}, "YEAR": {Logical: value.Year}, "BOOLEAN": {Logical: value.Bool}, "JSON": {Logical: value.JSON},
		"DECIMAL(10,2)": {Kind: value.Decimal, Precision: 10, Scale: 2}, "NUMERIC": {Kind: value.Decimal},
		"BIT": {Logical: value.Bit, Bits: 1}, "bit(8)": {Logical: value.Bit, Bits: 8}, "bit varying(8)": {Logical: value.Bit}, "bits": {},
	} {
		if (want.Kind == value.Decimal || want.Kind == value.Other) && native != "" {
			want.Exact = 15
		}
		if d := cmp.Diff(want, typeOf(native)); d != "" {
			t.Errorf("%q: %s", native, d)
		}
	}
}

func TestDefaultOf(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"x INT":                                     "",
		"x INT DEFAULT 5 NOT NULL":                  "5",
		"x INT NOT NULL DEFAULT -5":                 "-5",
		"x REAL DEFAULT + 1.5e-3":                   "+1.5e-3",
		"x TEXT DEFAULT 'a''b) DEFAULT 7'":          "'a''b) DEFAULT 7'",
		"x INT DEFAULT (1 + (2)) CHECK (x)":         "(1 + (2))",
		"x TEXT DEFAULT CURRENT_TIMESTAMP":          "CURRENT_TIMESTAMP",
		"x INT CHECK (x <> 'DEFAULT 1')":            "",
		`"a DEFAULT 3" INT`:                         "",
		"[a DEFAULT 3] INT /* DEFAULT 4 */":         "",
		"x BLOB DEFAULT x'00ff'":                    "x'00ff'",
		`x TEXT DEFAULT "a'b"`:                      "'a''b'",
		"x TEXT DEFAULT word":                       "'word'",
		"x INT DEFAULT TRUE":                        "TRUE",
		"x INT DEFAULT/* c */7-- DEFAULT 8\nUNIQUE": "7",
	} {
		if got := defaultOf(text); got != want {
			t.Errorf("%s: default %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]bool{"x INT not  null": true, "x INT NOT NULL CHECK (x > 0)": true, "x INT NULL": false, "": false,
		"x INT CHECK (x is NOT NULL)": false, "x INT CHECK (x IS NOT NULL OR y)": false, "x TEXT DEFAULT 'a NOT NULL b'": false} {
		if saysNotNull(text) != want {
			t.Errorf("%s: NOT NULL is %v, want %v", text, !want, want)
		}
	}
}

// FuzzDefaultOf checks that parsing ends for any text.
func FuzzDefaultOf(f *testing.F) {
	f.Add("x INT DEFAULT (1 + 'a''b') /* c */ -- d\n[e] \"f\" `g` 1e-5 x'00'")
	f.Fuzz(func(t *testing.T, s string) {
		def := defaultOf(s)
		saysNotNull(s)
		if len(def) > 2*len(s)+2 {
			t.Errorf("%q has the default %q", s, def)
		}
	})
}

func TestRollsBy(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"ts", "*/", "a%2Ab", "% */\n", `"`, "日本"} {
		table, parts := declared(t, readingsText, by, "1d", firstDay, 1)
		view := dialect{}.view(table, []string{"x"}, parts)
		if got := rollsBy(view); got != by || strings.Count(view, "*/") != 1 {
			t.Errorf("%q came back as %q from\n%s", by, got, view)
		}
	}
	if got := rollsBy("CREATE VIEW a AS SELECT 1"); got != "" {
		t.Errorf("somebody else's view rolls by %q", got)
	}
}

// TestDescribeOdd describes unusual tables.
func TestDescribeOdd(t *testing.T) {
	t.Parallel()
	db := openTest(t, "")
	mustExec(t, db, "CREATE TABLE odd (a INTEGER, b, c TEXT, d ANY, PRIMARY KEY (c, a), UNIQUE (d)) WITHOUT ROWID")
	mustExec(t, db, "CREATE INDEX part ON odd (a) WHERE b > 1")
	mustExec(t, db, "CREATE UNIQUE INDEX expression ON odd (lower(c))")
	mustExec(t, db, "CREATE TRIGGER watch AFTER INSERT ON odd BEGIN SELECT 1; END")
	mustExec(t, db, "CREATE TABLE child (x INTEGER PRIMARY KEY, c TEXT, a INTEGER, FOREIGN KEY (c, a) REFERENCES ODD (c, a)) STRICT")
	mustExec(t, db, "CREATE VIEW seen AS SELECT a, c FROM odd")
	s, err := db.Describe(t.Context(), "ODD")
	must(t, err)
	want := &engine.Schema{
		Name: "odd", PrimaryKey: []string{"c", "a"}, Unique: [][]string{{"d"}}, UniqueOther: []string{"expression"}, Triggers: []string{"watch"},
		Columns: []engine.SchemaColumn{
			{Name: "a", Native: "INTEGER", Type: value.Type{Kind: value.Int, Bits: 64}}, {Name: "b", Null: true},
			{Name: "c", Native: "TEXT", Type: value.Type{Kind: value.Text}}, {Name: "d", Native: "ANY", Type: value.Type{Exact: 15}, Null: true},
		},
		Indexes: []engine.Index{{Name: "sqlite_autoindex_odd_2", Columns: []string{"d"}}},
		Options: map[string]string{"without rowid": "yes"},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	child, err := db.Describe(t.Context(), "child")
	if err != nil || !child.Column("x").Auto || child.Column("x").Null {
		t.Errorf("%+v, %v", child, err)
	}
	seen, err := db.Describe(t.Context(), "seen")
	if err != nil || !seen.View || seen.Partitioned || len(seen.Columns) != 2 {
		t.Errorf("%+v, %v", seen, err)
	}
}

// TestPeriodSizes checks the estimates for large periods, with and without rowid.
func TestPeriodSizes(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"", " WITHOUT ROWID"} {
		db := openTest(t, "")
		table, parts := declared(t, "CREATE TABLE r (id INTEGER NOT NULL, ts DATETIME NOT NULL, note TEXT, PRIMARY KEY (id, ts))"+end, "ts", "1d", firstDay, 3)
		mustTry(t, db, engine.CreateTable{Table: table, Partitions: parts})
		const rows = 60_000
		mustExec(t, db, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO "+db.Words().From(table, parts[0])+
			" SELECT i, '2026-11-20 00:00:00', printf('%.*c', i % 50, 'x') FROM n", rows)
		mustExec(t, db, "INSERT INTO r VALUES (1, '2026-11-21 00:00:00', 'x')")
		check := func(within float64) {
			t.Helper()
			sizes, err := db.PeriodSizes(t.Context(), table)
			must(t, err)
			got := sizes[parts[0].Name]
			if math.Abs(float64(got.Rows)-rows) > within*rows || sizes[parts[1].Name].Rows != 1 || sizes[parts[2].Name].Rows != 0 {
				t.Errorf("%s: %+v", end, sizes)
			}
			if within > 0 && (got.Data < rows*40 || (got.Index == 0) == (end == "")) {
				t.Errorf("%s: %+v", end, got)
			}
		}
		check(0.1)
		// While a reader keeps the last writes in the log, rows are counted.
		tx, err := db.openReader(t.Context())
		must(t, err)
		for _, q := range []string{"BEGIN", "SELECT count(*) FROM r"} {
			if _, err := tx.Exec(q, nil); err != nil {
				t.Fatal(err)
			}
		}
		mustExec(t, db, "DELETE FROM r WHERE id <= 100 AND ts < '2026-11-21 00:00:00'")
		mustExec(t, db, "INSERT INTO r SELECT i.id + 100000, i.ts, 'x' FROM r_p20261120 AS i LIMIT 100")
		check(0)
		tx.Close()
	}
}
