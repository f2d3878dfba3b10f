package enginetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
)

// RunReader runs the tests of engine.Reader.
func RunReader(t *testing.T, open func(testing.TB) engine.Keeper) {
	s := readers{open: func(t testing.TB) reader { return open(t).(reader) }}
	beside(t, []test{
		{"Texts", s.texts},
		{"LargeTexts", s.largeTexts},
		{"EndOfText", s.endOfText},
		{"Describe", s.describe},
		{"States", s.states},
		{"Parts", s.parts},
		{"Plans", s.plans},
		{"Snapshots", s.snapshots},
		{"SnapshotLocks", s.snapshotLocks},
	})
}

// reader is the part of engine.Reader that needs a server.
type reader interface {
	engine.Keeper
	ReadSession(ctx context.Context, st engine.State) (*engine.Session, error)
	ReadState(ctx context.Context, s *engine.Session) (engine.State, error)
	StateRefusal(engine.State) string
	Freeze(ctx context.Context, s *engine.Session) (engine.State, error)
	DescribeQuery(ctx context.Context, s *engine.Session, query string) ([]engine.ResultColumn, error)
	ExplainQuery(ctx context.Context, s *engine.Session, query string) (*engine.QueryPlan, error)
	TableParts(ctx context.Context, s *engine.Session, database, table string) (*engine.TableParts, error)
	PartFrom(t *engine.TableParts, parts []string) string
	OneSnapshot(ctx context.Context, sessions []*engine.Session, tables []string, lock bool) (proof string, err error)
	Cores() int
}

type readers struct {
	open func(testing.TB) reader
	// own reports that no other test uses the server meanwhile, so that a test may lock all of it.
	own bool
}

// hostile are the tests that hold with any settings of the server.
func (s readers) hostile() []test {
	return []test{{"States", s.states}, {"Parts", s.parts}, {"Plans", s.plans}}
}

// readSession opens a session for reading that is closed when the test ends.
func readSession(t testing.TB, db reader, st engine.State) *engine.Session {
	t.Helper()
	s, err := db.ReadSession(within(t), st)
	if err != nil {
		t.Fatalf("session for reading: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close session: %v", err)
		}
	})
	if st == nil && caseName(db) == "mysql" { // a hostile server has other values
		Must(t, s.SetState(within(t), "sql_big_selects", "1"))
		Must(t, s.SetState(within(t), "sql_select_limit", "18446744073709551615"))
		if db.Info().Engine == "mysql" {
			Must(t, s.SetState(within(t), "max_execution_time", "0"))
		}
	}
	return s
}

// textsOf returns the columns and rows of a query; the values of a row are joined by |.
func textsOf(t testing.TB, s *engine.Session, query string) (cols []engine.ResultColumn, rows []string) {
	t.Helper()
	err := s.Text(within(t), query, func(c []engine.ResultColumn) error {
		cols = c
		return nil
	}, func(values [][]byte) error {
		list := make([]string, len(values))
		for i, v := range values {
			if list[i] = string(v); v == nil {
				list[i] = "NULL"
			}
		}
		rows = append(rows, strings.Join(list, "|"))
		return nil
	})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return cols, rows
}

// wantText checks the only value of a query.
func wantText(t testing.TB, s *engine.Session, want, query string) {
	t.Helper()
	if _, rows := textsOf(t, s, query); len(rows) != 1 || rows[0] != want {
		t.Fatalf("%s: %q, want %q", query, rows, want)
	}
}

// A readCase is a column with one value, and what a reader must return for it.
type readCase struct {
	native, value string             // the column's type, and the value as SQL
	text          string             // the text that must be read
	class         engine.ResultClass // the class that the column must have
}

// readCases are the cases of each engine.
var readCases = map[string][]readCase{
	"mysql": {
		{"TINYINT", "-128", "-128", engine.ClassInt},
		{"BIGINT UNSIGNED", "18446744073709551615", "18446744073709551615", engine.ClassInt},
		{"INT(6) ZEROFILL", "42", "000042", engine.ClassOther},
		{"YEAR", "2026", "2026", engine.ClassTime},
		{"FLOAT", "0.1", "0.1", engine.ClassFloat},
		{"FLOAT", "16777217", "16777200", engine.ClassFloat},
		{"FLOAT(9,2)", "1.5", "1.50", engine.ClassFloat},
		{"DOUBLE", "1e100", "1e100", engine.ClassFloat},
		{"DOUBLE(20,3)", "123456789.1", "123456789.100", engine.ClassFloat},
		{"DOUBLE", "0.1e0+0.2e0", "0.30000000000000004", engine.ClassFloat},
		{"DECIMAL(38,10)", "-1234567890123456789012345678.0000000001", "-1234567890123456789012345678.0000000001", engine.ClassDecimal},
		{"DECIMAL(5,2)", "1.5", "1.50", engine.ClassDecimal},
		{"VARCHAR(20) COLLATE utf8mb4_bin", "'a '", "a ", engine.ClassText},
		{"VARCHAR(20) COLLATE utf8mb4_general_ci", "''", "", engine.ClassText},
		{"VARCHAR(20) CHARACTER SET latin1", "'é'", "é", engine.ClassText},
		{"VARBINARY(20)", "X'00FF27'", "\x00\xff'", engine.ClassBytes},
		{"BINARY(3)", "'a'", "a\x00\x00", engine.ClassBytes},
		{"BLOB", "'x'", "x", engine.ClassBytes},
		{"TEXT", "'x'", "x", engine.ClassText},
		{"DATE", "'2026-11-20'", "2026-11-20", engine.ClassTime},
		{"DATETIME(3)", "'2026-11-20 18:00:00.5'", "2026-11-20 18:00:00.500", engine.ClassTime},
		{"TIME(1)", "'-100:00:00.5'", "-100:00:00.5", engine.ClassText},
		{"ENUM('b','a')", "'a'", "a", engine.ClassText},
		{"SET('x','y')", "'x,y'", "x,y", engine.ClassText},
		{"BIT(9)", "b'100000001'", "\x01\x01", engine.ClassText},
		{"POINT", "POINT(0, 0)", "\x00\x00\x00\x00\x01\x01" + strings.Repeat("\x00", 19), engine.ClassText},
	},
	"postgres": {
		{"SMALLINT", "-32768", "-32768", engine.ClassInt},
		{"BIGINT", "9223372036854775807", "9223372036854775807", engine.ClassInt},
		{"REAL", "0.1", "0.1", engine.ClassFloat},
		{"DOUBLE PRECISION", "0.1::float8 + 0.2::float8", "0.30000000000000004", engine.ClassFloat},
		{"NUMERIC", "1.10", "1.10", engine.ClassDecimal},
		{"NUMERIC(38,10)", "-1234567890123456789012345678.0000000001", "-1234567890123456789012345678.0000000001", engine.ClassDecimal},
		{"NUMERIC(5,2)", "'NaN'", "NaN", engine.ClassDecimal},
		{"BOOLEAN", "true", "t", engine.ClassBytes},
		{"VARCHAR(20)", "'a '", "a ", engine.ClassText},
		{"TEXT", "''", "", engine.ClassText},
		{"CHAR(3)", "'a'", "a  ", engine.ClassText},
		{"BYTEA", `'\x00ff'`, `\x00ff`, engine.ClassBytes},
		{"UUID", "'A0EEBC99-9c0b-4ef8-bb6d-6bb9bd380a11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", engine.ClassBytes},
		{"DATE", "'2026-11-20'", "2026-11-20", engine.ClassTime},
		{"TIMESTAMP", "'2026-11-20 18:00:00.5'", "2026-11-20 18:00:00.5", engine.ClassTime},
		{"TIME", "'18:00:00'", "18:00:00", engine.ClassTime},
		{"INTERVAL", "'1 month'", "1 mon", engine.ClassText},
		{"JSONB", `'{"a": 1.0}'`, `{"a": 1.0}`, engine.ClassText},
		{"INT[]", "ARRAY[1,NULL]", "{1,NULL}", engine.ClassText},
		{"BIT(3)", "B'101'", "101", engine.ClassText},
		{"INET", "'10.0.0.1'", "10.0.0.1", engine.ClassText},
	},
	"sqlite": {
		{"INTEGER", "-9223372036854775808", "-9223372036854775808", engine.ClassInt},
		{"REAL", "0.5 + 0.25", "0.75", engine.ClassFloat},
		{"REAL", "1e100", "1.0e+100", engine.ClassFloat},
		{"TEXT", "'it''s'", "it's", engine.ClassBytes},
		{"TEXT", "''", "", engine.ClassBytes},
		{"BLOB", "X'00ff'", "\x00\xff", engine.ClassBytes},
		{"BLOB", "X''", "", engine.ClassBytes},
		{"ANY", "1.5", "1.5", engine.ClassOther},
	},
}

// caseName returns the engine's key in maps of cases, such as readCases.
func caseName(db engine.DB) string {
	if name := db.Info().Engine; name != "mariadb" {
		return name
	}
	return "mysql"
}

// casesOf returns the types and values that the server can store.
func casesOf(db engine.DB) []readCase {
	cases := readCases[caseName(db)]
	if strings.EqualFold(db.Info().Storage, "rocksdb") {
		cases = slices.DeleteFunc(slices.Clone(cases), func(c readCase) bool { return c.native == "POINT" })
	}
	return cases
}

// typed creates a table with a column and a value for each case. want are the texts to be read.
func (s readers) typed(t testing.TB, db reader) (name string, list, want []string) {
	defs, values := []string{}, []string{}
	for i, c := range casesOf(db) {
		column := fmt.Sprintf("c%d", i)
		list = append(list, column)
		defs = append(defs, column+" "+c.native)
		values = append(values, c.value)
		want = append(want, c.text)
	}
	name = db.Dialect().Quote("typed values")
	w := session(t, db)
	options := ""
	if db.Info().Engine == "sqlite" {
		options = " STRICT"
	}
	run(t, w, -1, "CREATE TABLE "+name+" ("+strings.Join(defs, ", ")+")"+options)
	run(t, w, 1, "INSERT INTO "+name+" VALUES ("+strings.Join(values, ", ")+")")
	run(t, w, 1, "INSERT INTO "+name+" (c0) VALUES (NULL)")
	return name, list, want
}

// texts checks the texts and descriptions of values of all types.
func (s readers) texts(t *testing.T) {
	db := s.open(t)
	name, list, want := s.typed(t, db)
	c := readSession(t, db, nil)
	query := "SELECT " + strings.Join(list, ", ") + " FROM " + name + " WHERE NOT c0 IS NULL"
	cols, err := db.DescribeQuery(within(t), c, query)
	Must(t, err)
	if len(cols) != len(list) {
		t.Fatalf("%d columns, want %d", len(cols), len(list))
	}
	got, _ := textsOf(t, c, query)
	rows := 0
	Must(t, c.Text(within(t), query, nil, func(values [][]byte) error {
		rows++
		for i, x := range casesOf(db) {
			if string(values[i]) != want[i] || values[i] == nil {
				t.Errorf("%s of %s: %q, want %q", x.native, x.value, values[i], want[i])
			}
			if cols[i].Class != x.class || cols[i].Name != list[i] {
				t.Errorf("%s: column %s, class %d, want %s, %d", x.native, cols[i].Name, cols[i].Class, list[i], x.class)
			}
			if got[i].Name != list[i] || got[i].Native != cols[i].Native || string(got[i].Packet) != string(cols[i].Packet) {
				t.Errorf("%s: the result's column is %+v, described as %+v", x.native, got[i], cols[i])
			}
		}
		return nil
	}))
	if rows != 1 {
		t.Errorf("%d rows", rows)
	}
	for i, x := range casesOf(db) {
		if x.native == "POINT" {
			continue
		}
		if db.Info().Engine == "postgres" && slices.Contains([]string{"BOOLEAN", "BYTEA", "UUID", "JSONB", "BIT(3)"}, x.native) {
			continue // it has no greatest value
		}
		Must(t, c.Text(within(t), "SELECT MAX("+list[i]+") FROM "+name+" WHERE c0 IS NULL", nil, func(values [][]byte) error {
			if values[0] != nil {
				t.Errorf("%s: %q, want NULL", x.native, values[0])
			}
			return nil
		}))
	}
	// A query without rows, and a statement without columns.
	if cols, rows := textsOf(t, c, "SELECT c0 FROM "+name+" WHERE 1 = 0"); len(cols) != 1 || len(rows) != 0 {
		t.Errorf("%d columns, %d rows", len(cols), len(rows))
	}
	if cols, rows := textsOf(t, c, "DELETE FROM "+name+" WHERE c0 IS NULL"); len(cols) != 0 || len(rows) != 0 || c.TextEnd().Affected != 1 {
		t.Errorf("%d columns, %d rows, %d affected", len(cols), len(rows), c.TextEnd().Affected)
	}
	wantText(t, c, "1", "SELECT COUNT(*) FROM "+name)
}

// largeTexts checks long values, and many rows.
func (s readers) largeTexts(t *testing.T) {
	db := s.open(t)
	c := readSession(t, db, nil)
	repeat := map[string]string{"mysql": "REPEAT('x', %d)", "postgres": "repeat('x', %d)", "sqlite": "replace(hex(zeroblob(%d/2)), '0', 'x')"}[caseName(db)]
	for _, n := range []int{1 << 16, 1<<24 - 6, 1<<24 - 4, 1 << 24} {
		n &^= 1
		Must(t, c.Text(within(t), "SELECT 1, "+fmt.Sprintf(repeat, n)+", 2", nil, func(v [][]byte) error {
			if len(v[1]) != n || strings.Trim(string(v[1]), "x") != "" || string(v[0])+string(v[2]) != "12" {
				t.Errorf("%d bytes, want %d", len(v[1]), n)
			}
			return nil
		}))
		wantText(t, c, "ok", "SELECT 'ok'")
	}
	const many = 50000
	query := fmt.Sprintf("WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100) SELECT a.i, b.i FROM n a, n b, n c WHERE c.i <= %d", many/10000)
	rows := 0
	Must(t, c.Text(within(t), query, nil, func([][]byte) error { rows++; return nil }))
	if rows != many {
		t.Errorf("%d rows, want %d", rows, many)
	}
}

// endOfText checks how a result ends before its last row: by an error of the caller, by an error of
// the server, or by the end of the context.
func (s readers) endOfText(t *testing.T) {
	db := s.open(t)
	c := readSession(t, db, nil)
	const numbers = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 990) "
	// A join of more tables returns its first row late where the server hashes all but one of them.
	const endless = numbers + "SELECT a.i, '0123456789012345678901234567890123456789' FROM n a, n b"
	own := errors.New("enough")
	rows := 0
	if err := c.Text(within(t), endless, nil, func([][]byte) error {
		if rows++; rows == 100 {
			return own
		}
		return nil
	}); !errors.Is(err, own) || rows != 100 {
		t.Errorf("%d rows, %v", rows, err)
	}
	c = readSession(t, db, nil)
	wantText(t, c, "1", "SELECT 1")
	if err := c.Text(within(t), endless, func([]engine.ResultColumn) error { return own }, nil); !errors.Is(err, own) {
		t.Errorf("the error of head: %v", err)
	}
	c = readSession(t, db, nil)
	id := c.ID()
	ctx, cancel := context.WithCancel(within(t))
	err := c.Text(ctx, endless, nil, func([][]byte) error { cancel(); return nil })
	wantError(t, err, context.Canceled)
	if id != 0 {
		list := map[string]string{
			"mysql":    "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = %d",
			"postgres": "SELECT COUNT(*) FROM pg_stat_activity WHERE pid = %d",
		}[caseName(db)]
		wantText(t, readSession(t, db, nil), "0", fmt.Sprintf(list, id))
	}
	c = readSession(t, db, nil)
	// A waiting statement is ended as well.
	ctx, cancel = context.WithTimeout(within(t), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	wantError(t, c.Text(ctx, numbers+"SELECT COUNT(*) FROM n a, n b, n c, n d", nil, func([][]byte) error { return nil }), context.DeadlineExceeded)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	c = readSession(t, db, nil)
	for _, q := range []string{"SELECT FROM FROM", "SELECT * FROM nix", "SELECT 1; SELECT 2"} {
		err := c.Text(within(t), q, nil, func([][]byte) error { return nil })
		if err == nil && (db.Info().Engine != "sqlite" || q != "SELECT 1; SELECT 2") {
			t.Errorf("%s: no error", q)
		}
		if _, err := db.DescribeQuery(within(t), c, q); err == nil {
			t.Errorf("describe %s: no error", q)
		}
	}
	wantText(t, c, "1", "SELECT 1")
	if _, err := db.DescribeQuery(within(t), c, "SELECT * FROM nix"); !errors.Is(err, engine.ErrNoTable) {
		t.Errorf("describe a missing table: %v", err)
	}
	wantError(t, c.Text(canceled(), "SELECT 1", nil, nil), context.Canceled)
	wantText(t, c, "1", "SELECT 1")
}

// describe checks that the description of a query is that of its result.
func (s readers) describe(t *testing.T) {
	db := s.open(t)
	name, list, _ := s.typed(t, db)
	c := readSession(t, db, nil)
	for _, column := range list {
		for _, expr := range []string{"MIN(%s)", "COUNT(%s)", "COALESCE(%s, NULL)", "COUNT(DISTINCT %s)"} {
			query := "SELECT " + fmt.Sprintf(expr, column) + " FROM " + name
			cols, err := db.DescribeQuery(within(t), c, query)
			if err != nil {
				continue // such as MIN of a POINT
			}
			if got, _ := textsOf(t, c, query); len(got) != len(cols) || got[0].Name != cols[0].Name || got[0].Native != cols[0].Native ||
				string(got[0].Packet) != string(cols[0].Packet) {
				t.Errorf("%s: column %+v, described as %+v", query, got, cols)
			}
		}
	}
}

// states checks that the settings of a session can be read and set.
func (s readers) states(t *testing.T) {
	db := s.open(t)
	a, err := db.ReadSession(within(t), nil)
	Must(t, err)
	t.Cleanup(func() { Must(t, a.Close()) })
	st, err := db.ReadState(within(t), a)
	Must(t, err)
	if len(st) == 0 {
		if !db.Capabilities().Embedded {
			t.Error("no settings")
		}
		return
	}
	changes := map[string]engine.State{
		"mysql": {
			{Name: "sql_mode", Value: "ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES"}, {Name: "time_zone", Value: "-03:30"}, {Name: "collation_connection", Value: "utf8mb4_unicode_ci"},
			{Name: "div_precision_increment", Value: "7"}, {Name: "group_concat_max_len", Value: "33"}, {Name: "sql_select_limit", Value: "5"}, {Name: "lc_time_names", Value: "en_GB"},
			{Name: "default_week_format", Value: "3"}, {Name: "sql_auto_is_null", Value: "1"}, {Name: "max_sort_length", Value: "64"},
		},
		"postgres": {
			{Name: "datestyle", Value: "SQL, DMY"}, {Name: "intervalstyle", Value: "iso_8601"}, {Name: "timezone", Value: "Asia/Kolkata"}, {Name: "extra_float_digits", Value: "-3"},
			{Name: "bytea_output", Value: "escape"}, {Name: "search_path", Value: `"$user", "a'b\""" , public`}, {Name: "standard_conforming_strings", Value: "off"},
		},
	}[caseName(db)]
	foreign := db.Info().Engine == "mysql" && !strings.HasPrefix(st.Get("lc_time_names"), "en_")
	if foreign { // SET refuses this default: the build has no messages in its language
		changes = slices.DeleteFunc(changes, func(x engine.Setting) bool { return x.Name == "lc_time_names" })
	}
	for _, x := range changes {
		Must(t, a.SetState(within(t), x.Name, x.Value))
	}
	changed, err := db.ReadState(within(t), a)
	Must(t, err)
	for _, x := range changes {
		if before := st.Get(x.Name); changed.Get(x.Name) == before && !strings.EqualFold(before, x.Value) && before != "ON" {
			t.Errorf("%s is %q as before", x.Name, st.Get(x.Name))
		}
	}
	for _, want := range []engine.State{changed, st} {
		b := readSession(t, db, want)
		got, err := db.ReadState(within(t), b)
		Must(t, err)
		if !slices.Equal(got, want) {
			t.Errorf("settings\n%q\nwant\n%q", got, want)
		}
		Must(t, b.SetStates(within(t), st)) // from any settings
		if got, err = db.ReadState(within(t), b); err != nil || !slices.Equal(got, st) {
			t.Errorf("settings\n%q\nwant\n%q, %v", got, st, err)
		}
		if foreign {
			continue
		}
		Must(t, b.SetStates(within(t), want))
		b.Knows(nil)
		Must(t, b.SetStates(within(t), changes)) // with none of the present values known
		Must(t, b.SetStates(within(t), want))
		if got, err = db.ReadState(within(t), b); err != nil || !slices.Equal(got, want) {
			t.Errorf("settings\n%q\nwant\n%q, %v", got, want, err)
		}
	}
	style := st.Get("datestyle") // texts in another style than ISO may be misread
	if refused := db.StateRefusal(st); (refused != "") != (st.Get("sql_select_limit") == "1" || style != "" && !strings.HasPrefix(style, "ISO")) {
		t.Errorf("refused: %s", refused)
	}
	if _, err := db.ReadSession(within(t), engine.State{{Name: "no such setting", Value: "1"}}); err == nil {
		t.Error("a setting that doesn't exist")
	}
	now, err := db.Freeze(within(t), a)
	Must(t, err)
	if len(now) > 0 {
		Must(t, a.SetStates(within(t), now))
		time.Sleep(20 * time.Millisecond)
		b := readSession(t, db, append(slices.Clone(st), now...))
		_, one := textsOf(t, a, "SELECT NOW(6) + 0")
		cur, err := db.ReadState(within(t), a)
		Must(t, err)
		a.Knows(cur)
		Must(t, a.SetStates(within(t), st))
		_, other := textsOf(t, b, "SELECT NOW(6) + 0")
		_, same := textsOf(t, a, "SELECT NOW(6) + 0")
		if slices.Equal(one, other) || !slices.Equal(same, other) { // the first is in another time zone
			t.Errorf("now is %q, %q and %q", one, same, other)
		}
	}
}

// snapshotLocks checks that TRUNCATE TABLE waits for the end of a snapshot of the table, and that
// the sessions of this snapshot still read all rows meanwhile. A second snapshot, requested while
// the statement waits, waits for the statement and sees none of the rows.
func (s readers) snapshotLocks(t *testing.T) {
	db := s.open(t)
	if db.Capabilities().Embedded {
		t.Skip("its snapshots have the definitions of tables")
	}
	name := db.Dialect().Quote("held")
	w := session(t, db)
	run(t, w, -1, "CREATE TABLE "+name+" (id INT PRIMARY KEY)")
	run(t, w, 3, "INSERT INTO "+name+" VALUES (1), (2), (3)")
	sessions := []*engine.Session{readSession(t, db, nil), readSession(t, db, nil)}
	_, err := db.OneSnapshot(within(t), sessions, []string{name}, false)
	Must(t, err)
	altered := make(chan error, 1)
	go func() {
		_, err := w.Exec(within(t), "TRUNCATE TABLE "+name)
		altered <- err
	}()
	select {
	case err := <-altered:
		t.Fatalf("the table was emptied below a snapshot: %v", err)
	case <-time.After(150 * time.Millisecond): // it waits
	}
	for i, c := range sessions {
		wantText(t, c, "3", "SELECT COUNT(*) FROM "+name)
		if t.Failed() {
			t.Fatalf("session %d", i)
		}
	}
	more := []*engine.Session{readSession(t, db, nil), readSession(t, db, nil)}
	got := make(chan error, 1)
	go func() {
		_, err := db.OneSnapshot(within(t), more, []string{name}, false)
		got <- err
	}()
	for _, c := range sessions {
		Must(t, c.Rollback(within(t)))
	}
	Must(t, <-altered)
	Must(t, <-got)
	for _, c := range more {
		err := c.Text(within(t), "SELECT 1 FROM "+name, nil, func([][]byte) error { return errors.New("the table has a row") })
		if err != nil && !errors.Is(err, engine.ErrAltered) { // after the snapshot
			t.Error(err)
		}
		Must(t, c.Rollback(within(t)))
	}
	if _, err := db.OneSnapshot(within(t), more, []string{db.Dialect().Quote("no such table")}, false); err == nil {
		t.Error("a table that doesn't exist")
	}
}

// snapshots checks that all sessions see the same rows while others change them.
func (s readers) snapshots(t *testing.T) {
	db := s.open(t)
	name := db.Dialect().Quote("ledger")
	w := session(t, db)
	run(t, w, -1, "CREATE TABLE "+name+" (id INT PRIMARY KEY, n INT NOT NULL)")
	const accounts = 50
	for i := range accounts {
		run(t, w, 1, fmt.Sprintf("INSERT INTO %s VALUES (%d, 100)", name, i))
	}
	ctx, stop := context.WithCancel(within(t))
	var writers sync.WaitGroup
	moved := make([]int, 2)
	for k := range moved {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				from, to := (i*7+k)%accounts, (i*13+5*k+1)%accounts
				if from > to {
					from, to = to, from
				}
				if engine.InTx(ctx, db, db.SQL(), nil, func(tx *sql.Tx) error {
					return engine.ExecEach(ctx, tx, []string{fmt.Sprintf("UPDATE %s SET n = n - 1 WHERE id = %d", name, from),
						fmt.Sprintf("UPDATE %s SET n = n + 1 WHERE id = %d", name, to)})
				}) == nil {
					moved[k]++
				}
			}
		})
	}
	defer func() { stop(); writers.Wait() }()
	proofs := 0
	for _, count := range []int{1, 2, 3, 2, 3, 2, 3} {
		sessions := make([]*engine.Session, count)
		for i := range sessions {
			sessions[i] = readSession(t, db, nil)
		}
		proof, err := db.OneSnapshot(within(t), sessions, []string{name}, s.own)
		Must(t, err)
		if proof != "" && count > 1 {
			proofs++
		}
		var first []string
		for i, c := range sessions {
			time.Sleep(5 * time.Millisecond) // for changes
			_, rows := textsOf(t, c, "SELECT id, n FROM "+name+" ORDER BY id")
			if i == 0 {
				first = rows
			}
			if proof != "" && !slices.Equal(rows, first) {
				t.Errorf("session %d sees other rows than the first, although %s", i, proof)
			}
			sum := 0
			for _, r := range rows {
				var id, n int
				if _, err := fmt.Sscanf(r, "%d|%d", &id, &n); err != nil {
					t.Fatal(err)
				}
				sum += n
			}
			if sum != 100*accounts {
				t.Errorf("session %d sees a sum of %d", i, sum)
			}
		}
		for _, c := range sessions {
			if _, err := c.Exec(within(t), "UPDATE "+name+" SET n = 0"); err == nil {
				t.Error("a session for reading has written")
			}
			Must(t, c.Close())
		}
	}
	if c := db.Capabilities(); proofs == 0 && (s.own || c.SharesSnapshots || c.Embedded) {
		t.Error("no proof of one snapshot")
	}
	stop()
	writers.Wait()
	if moved[0]+moved[1] == 0 {
		t.Error("nothing was changed meanwhile")
	}
	wantText(t, readSession(t, db, nil), fmt.Sprint(100*accounts), "SELECT SUM(n) FROM "+name)
}
