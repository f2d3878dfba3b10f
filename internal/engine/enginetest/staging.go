package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// RunStager runs the suite for engines that can fill a separate table, and then make this table a
// period of a rolling table. open is as for RunKeeper.
func RunStager(t *testing.T, open func(testing.TB) engine.Stager) {
	s := stagers{open}
	beside(t, []test{
		{"Becomes", s.becomes},
		{"Duplicates", s.duplicates},
		{"SkipTwoKeys", s.skipTwoKeys},
		{"Merges", s.merges},
		{"Values", s.values},
		{"Columns", s.columns},
		{"Refused", s.refused},
		{"Misuse", s.misuse},
		{"Cancel", s.cancel},
		{"Killed", s.killed},
		{"Altered", s.altered},
	})
}

type stagers struct {
	open func(testing.TB) engine.Stager
}

// staged is the name of the tests' standalone table.
const staged = "readings_staged"

// stage opens a staging that is closed when the test ends.
func stage(t testing.TB, db engine.Stager, table *engine.Table, o engine.StageOptions) engine.Staging {
	t.Helper()
	o.Name = staged
	s, err := db.Stage(within(t), table, o)
	if err != nil {
		t.Fatalf("stage: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close a staging: %v", err)
		}
	})
	return s
}

// fill stages batches, all rows of which must be accepted.
func fill(t testing.TB, db engine.Stager, table *engine.Table, o engine.StageOptions, batches ...*engine.Batch) {
	t.Helper()
	s := stage(t, db, table, o)
	rows := 0
	for _, b := range batches {
		rows += b.Rows()
		if err := s.Write(within(t), b); err != nil {
			t.Fatalf("write: %v", err)
		}
	}
	done, err := s.Finish(within(t))
	if err != nil {
		t.Fatalf("finish: %v", err)
	}
	want(t, "the result", done, engine.Staged{Rows: int64(rows)})
	Must(t, s.Close())
}

// attempt stages a batch, and returns the error of Write or else of Finish.
func attempt(t testing.TB, db engine.Stager, table *engine.Table, o engine.StageOptions, b *engine.Batch) (engine.Staged, error) {
	t.Helper()
	s := stage(t, db, table, o)
	defer s.Close()
	if err := s.Write(within(t), b); err != nil {
		if _, after := s.Finish(within(t)); after == nil {
			t.Error("finished after an error")
		}
		return engine.Staged{}, err
	}
	return s.Finish(within(t))
}

// declaredTable creates a rolling table with two periods of one day each, by the times in column
// ts. columns is the text between the parentheses of its CREATE TABLE; more has further statements,
// such as CREATE INDEX.
func declaredTable(t testing.TB, db engine.Keeper, name, columns string, more ...string) *kept {
	t.Helper()
	text := fmt.Sprintf("CREATE TABLE %s (%s)", name, columns)
	d, err := rolling.ReadDefinition(strings.Join(append([]string{text}, more...), ";\n"))
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	k := &kept{db: db, quote: db.Dialect().Quote, Table: &engine.Table{Name: name, Grid: grid(t, "1d"), By: "ts", Definition: d}}
	k.parts = periods(t, k.Grid, start-start%day, 2)
	k.create(t)
	return k
}

// create creates the table, its periods and the indexes of its declaration.
func (k *kept) create(t testing.TB) {
	t.Helper()
	apply(t, k.db, engine.CreateTable{Table: k.Table, Partitions: k.parts})
}

// columnsOf returns the columns of a batch of k.
func (k *kept) columnsOf() []engine.Column {
	cols := keptColumns()
	if k.Epoch != 0 {
		cols[1].Type = engine.Int64
	}
	return cols
}

// becomes makes a staged table a period in each possible way: in a gap, instead of an empty period,
// and after the last period. It compares the periods with those of a table filled by statements.
func (s stagers) becomes(t *testing.T) {
	eachKind(t, s.open, func(t *testing.T, db engine.Stager, kind string) {
		a := created(t, db, "a", kind, 5)
		a.insert(t, a.parts, 0, 200)
		b := keptTable(t, db, "b", kind, 5)
		b.Table.Definition = mustRead(t, b.Definition.Text+";\nCREATE INDEX n_price ON b (n, price);\nCREATE INDEX late ON b (value)")
		after := b.parts[4]
		b.parts = b.parts[:4]
		b.create(t)
		// Left by an interrupted load.
		b.exec(t, db.SQL(), "CREATE TABLE "+staged+" (other INT)")
		fill := func(p rolling.Partition) {
			fill(t, db, b.Table, engine.StageOptions{Columns: b.columnsOf()}, b.batch(p, 0, 150), b.batch(p, 150, 151), b.batch(p, 151, 200))
			has, like := b.schema(t, staged), b.schema(t, "b")
			if len(has.PrimaryKey) != 2 || len(like.Indexes) != 2 || len(has.Indexes) != 2 {
				t.Fatalf("the table has the primary key %v and the indexes %v, the rolling one %v", has.PrimaryKey, has.Indexes, like.Indexes)
			}
		}

		compare := []int{4}
		if kind == "time" { // for these two ways, one kind of column By is enough
			compare = []int{0, 1, 3, 4}
			// The staged table becomes a period in a gap.
			b.step(t, engine.Detach{Table: b.Table, Have: b.parts, Part: b.parts[1], Into: "gone"})
			fill(b.parts[1])
			b.step(t, engine.Attach{Table: b.Table, Have: b.without(b.parts, 1), Part: b.parts[1], From: staged})
			b.wantParts(t, b.parts)
			// It replaces an empty period.
			for _, i := range []int{0, 3} {
				fill(b.parts[i])
				r := b.merge(t, i, 1, b.parts[i].Name, staged)
				b.step(t, r)
				b.parts = replaced(b.parts, r)
				b.wantParts(t, b.parts)
				b.step(t, engine.DropTables{Names: r.Out})
			}
		}
		// The staged table becomes the period after the last one.
		fill(after)
		b.step(t, engine.Attach{Table: b.Table, Have: b.parts, Part: after, From: staged})
		b.parts = append(b.parts, after)
		b.wantParts(t, b.parts)

		for _, i := range compare {
			want(t, "a period", b.part(t, b.parts[i]), a.part(t, a.parts[i]))
		}
		if left := b.tables(t, staged); len(left) > 0 {
			t.Errorf("tables %q are left", left)
		}
		// The period has its keys, and takes rows.
		l := OpenLoader(t, db)
		table := &engine.Table{Name: "b", Columns: b.columnsOf(), Grid: b.Grid, By: b.By, Epoch: b.Epoch}
		Begin(t, l)
		_, err := l.Insert(within(t), table, b.batch(b.parts[4], 7, 8), 0, 1)
		wantError(t, err, engine.ErrDuplicateKey)
		if _, err := l.Insert(within(t), table, b.batch(b.parts[4], 200, 210), 0, 10); err != nil {
			t.Fatal(err)
		}
		Must(t, l.Commit(within(t)))
		want(t, "rows after an insert", b.part(t, after).Rows, 210)
	})
}

// altered checks that a staged table can't become a period after a column was added to the rolling
// table, and that the attempt changes nothing. A table that is staged after the change can become a
// period.
func (s stagers) altered(t *testing.T) {
	db := s.open(t)
	k := created(t, db, "readings", "time", 2)
	k.insert(t, k.parts, 0, 20)
	p := k.parts[0]
	stage := func() { fill(t, db, k.Table, engine.StageOptions{Columns: k.columnsOf()}, k.batch(p, 100, 150)) }
	rows := func(from string, n int64) {
		t.Helper()
		var got int64
		Must(t, db.SQL().QueryRowContext(within(t), "SELECT COUNT(*) FROM "+from).Scan(&got))
		want(t, "the number of rows", got, n)
	}
	stage()
	k.step(t, engine.AddColumn{Table: k.Table, Have: k.parts, Name: "added", Definition: "added INT"})
	r := k.merge(t, 0, 1, p.Name, staged)
	for range 2 {
		wantError(t, db.Try(within(t), r), engine.ErrDiffers)
		k.wantParts(t, k.parts)
		rows(k.Words().From(k.Table, p), 20)
		rows(staged, 50)
	}
	if db.Info().Engine == "sqlite" { // which creates tables as they are declared
		return
	}
	stage()
	k.step(t, r)
	rows(k.Words().From(k.Table, p), 50)
	rows(r.Out[0], 20)
}

func mustRead(t testing.TB, text string) *rolling.Definition {
	t.Helper()
	d, err := rolling.ReadDefinition(text)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return d
}

// keyed returns a table with a text as its key, the options that stage its columns, and a batch
// with a row for each of the given keys. The rows are numbered from 1.
func (s stagers) keyed(t testing.TB, db engine.Keeper, keys ...string) (*kept, engine.StageOptions, *engine.Batch) {
	t.Helper()
	e := db.Info().Engine
	text := map[string]string{"mariadb": "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "mysql": "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
		"postgres": "VARCHAR(20)", "sqlite": "TEXT COLLATE NOCASE"}[e]
	k := declaredTable(t, db, "readings", fmt.Sprintf("k %s NOT NULL, ts %s NOT NULL, n INT, PRIMARY KEY (k, ts)", text, types[e].time), "CREATE INDEX n ON readings (n)")
	o := engine.StageOptions{Columns: []engine.Column{{Name: "k", Type: engine.Varchar, Size: 20}, {Name: "ts", Type: engine.Time}, {Name: "n", Type: engine.Int32, Null: true}}}
	return k, o, keyedRows(k, o, 1, keys...)
}

func keyedRows(k *kept, o engine.StageOptions, first int, keys ...string) *engine.Batch {
	b := engine.NewBatch(o.Columns)
	for i, key := range keys {
		b.Columns[0].AppendBytes([]byte(key))
		b.Columns[1].Ints = append(b.Columns[1].Ints, k.parts[0].From)
		b.Columns[2].Ints = append(b.Columns[2].Ints, int64(first+i))
		b.EndRow()
	}
	return b
}

// duplicates stages rows whose keys are equal by the server's comparison.
func (s stagers) duplicates(t *testing.T) {
	db := s.open(t)
	k, o, b := s.keyed(t, db, "b", "a", "A", "a", "c")
	_, err := attempt(t, db, k.Table, o, b)
	wantError(t, err, engine.ErrDuplicateKey)

	o.Skip = true
	st := stage(t, db, k.Table, o)
	Must(t, st.Write(within(t), b))
	Must(t, st.Write(within(t), keyedRows(k, o, 6, "d", "b")))
	done, err := st.Finish(within(t))
	Must(t, err)
	keep := engine.Staged{Rows: 4, Skipped: 3} // b, a, c, d
	numbers := "1,2,5,6"
	if db.Info().Engine == "postgres" { // which compares case
		keep, numbers = engine.Staged{Rows: 5, Skipped: 2}, "1,2,3,5,6"
	}
	want(t, "the result", done, keep)
	want(t, "the rows kept", k.numbers(t, staged), numbers)
	k.step(t, engine.Attach{Table: k.Table, Have: k.parts[:1], Part: periods(t, k.Grid, k.parts[1].To, 1)[0], From: k.shifted(t)})

	// Nothing to skip.
	done, err = attempt(t, db, k.Table, o, keyedRows(k, o, 1, "a", "b"))
	Must(t, err)
	want(t, "the result", done, engine.Staged{Rows: 2})
}

// shifted moves the times of the staged table's rows to the beginning of the period after the last
// one, and returns the staged table's name.
func (k *kept) shifted(t testing.TB) string {
	k.exec(t, k.db.SQL(), "UPDATE "+staged+" SET ts = "+k.Words().Literal(k.Table, k.parts[1].To))
	return staged
}

// numbers returns the values of column n, in order.
func (k *kept) numbers(t testing.TB, table string) string {
	t.Helper()
	list, err := engine.List[string](within(t), k.db, k.db.SQL(), "SELECT "+k.Words().AsText(*k.schema(t, k.Name).Column("n"))+" FROM "+k.quote(table)+" ORDER BY n")
	Must(t, err)
	return strings.Join(list, ",")
}

// skipTwoKeys stages rows of a table with a primary key and a unique key. A row that is skipped
// because its primary key exists must not reserve its value of the unique key.
func (s stagers) skipTwoKeys(t *testing.T) {
	db := s.open(t)
	k := declaredTable(t, db, "readings", "a INT NOT NULL, ts "+types[db.Info().Engine].time+" NOT NULL, b INT NOT NULL, n INT, PRIMARY KEY (a, ts)",
		"CREATE UNIQUE INDEX b ON readings (b, ts)", "CREATE INDEX n ON readings (n)")
	o := engine.StageOptions{Skip: true, Columns: []engine.Column{{Name: "a", Type: engine.Int32}, {Name: "ts", Type: engine.Time}, {Name: "b", Type: engine.Int32}, {Name: "n", Type: engine.Int32}}}
	b := engine.NewBatch(o.Columns)
	for i, row := range [][2]int64{{1, 1}, {2, 1}, {2, 2}, {3, 3}} {
		for c, x := range []int64{row[0], k.parts[0].From, row[1], int64(i)} {
			b.Columns[c].Ints = append(b.Columns[c].Ints, x)
		}
		b.EndRow()
	}
	done, err := attempt(t, db, k.Table, o, b)
	Must(t, err)
	want(t, "the result", done, engine.Staged{Rows: 3, Skipped: 1})
	want(t, "the rows kept", k.numbers(t, staged), "0,2,3")
	if has := k.schema(t, staged); len(has.Unique) != 1 || len(has.Indexes) != 2 {
		t.Errorf("the table has the unique keys %v and the indexes %v", has.Unique, has.Indexes)
	}
	o.Skip = false
	_, err = attempt(t, db, k.Table, o, b)
	wantError(t, err, engine.ErrDuplicateKey)
}

// values stages values of every type, and compares them with those that a loader inserts.
func (s stagers) values(t *testing.T) {
	db := s.open(t)
	e := db.Info().Engine
	a := declaredTable(t, db, "a", valueColumns(db))
	b := declaredTable(t, db, "b", valueColumns(db))
	o := engine.StageOptions{}
	var rows [][]any
	add := func(c engine.Column, values ...any) {
		c.Null = true
		o.Columns = append(o.Columns, c)
		for i, v := range values {
			for len(rows) <= i {
				rows = append(rows, nil)
			}
			for len(rows[i]) < len(o.Columns)-1 {
				rows[i] = append(rows[i], nil)
			}
			rows[i] = append(rows[i], v)
		}
	}
	text := func(values []string) (out []any) {
		for _, v := range values {
			if db.Capabilities().NoZeroBytes {
				v = strings.ReplaceAll(v, "\x00", "0")
			}
			out = append(out, v)
		}
		return out
	}
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	add(engine.Column{Name: "small", Type: engine.Int32}, -32768, 32767, 0)
	add(engine.Column{Name: "large", Type: engine.Int64}, -1<<63, 1<<63-1, 0)
	add(engine.Column{Name: "counted", Type: engine.Int64}, 17, -17) // the column is a decimal
	add(engine.Column{Name: "price", Type: engine.Decimal, Size: 12, Scale: 4}, "12345678.1234", "-0.5", "007.10", "-0", "+1")
	add(engine.Column{Name: "single", Type: engine.Float32}, 0.1, -1e30, 1.1754944e-38, 0.0)
	add(engine.Column{Name: "value", Type: engine.Float64}, 0.1, -1e300, 5e-324, 1e21, 123456789.125, 0.0)
	add(engine.Column{Name: "note", Type: engine.Varchar, Size: 200}, text(edgeText)...)
	add(engine.Column{Name: "raw", Type: engine.Binary}, every, []byte{}, []byte{0}, []byte(`\x41`), []byte{0xff, '\'', 0xc3, '\t', '\\', 0xe0, '\n'})
	add(engine.Column{Name: "at", Type: engine.Time}, int64(start)+1, int64(start)+999_999, int64(start), int64(-1))
	add(engine.Column{Name: "d", Type: engine.Varchar, Size: 20}, "2026-11-20", "1999-12-31")
	for _, c := range valueTexts[e] {
		add(engine.Column{Name: c.column, Type: c.kind, Size: 1000}, c.values...)
	}
	// Each of the values, then NULL.
	rows = append(rows, nil)
	for i := range rows {
		for len(rows[i]) < len(o.Columns) {
			rows[i] = append(rows[i], nil)
		}
		rows[i] = append(rows[i], i, a.parts[0].From+int64(i)*second)
	}
	o.Columns = append(o.Columns, engine.Column{Name: "id", Type: engine.Int32}, engine.Column{Name: "ts", Type: engine.Time})
	batch := anyBatch(o.Columns, rows)

	table := &engine.Table{Name: "a", Columns: o.Columns, Grid: a.Grid, By: a.By}
	l := OpenLoader(t, db)
	Begin(t, l)
	for i := range rows { // few rows go by INSERT
		if _, err := l.Insert(within(t), table, batch, i, i+1); err != nil {
			t.Fatalf("row %v: %v", rows[i], err)
		}
	}
	Must(t, l.Commit(within(t)))
	fill(t, db, b.Table, o, batch)
	for _, c := range b.schema(t, "b").Columns {
		x := "SELECT " + b.Words().AsText(c) + " FROM %s ORDER BY id"
		got := b.list(t, fmt.Sprintf(x, staged))
		for i, w := range b.list(t, fmt.Sprintf(x, "a")) {
			if got[i] != w {
				t.Errorf("column %s: %q was staged as %.60q, loaded as %.60q", c.Name, rows[i], got[i], w)
			}
		}
	}
	want(t, "the staged table", b.of(t, staged), a.whole(t))
	o.Skip = true
	done, err := attempt(t, db, b.Table, o, batch)
	Must(t, err)
	want(t, "the result with Skip", done, engine.Staged{Rows: int64(len(rows))})
	want(t, "the table staged with Skip", b.of(t, staged), a.whole(t))
}

// list returns a column of text, NULL as "NULL?".
func (k *kept) list(t testing.TB, q string) (out []string) {
	t.Helper()
	rows, err := k.db.SQL().QueryContext(within(t), q)
	Must(t, err)
	defer rows.Close()
	for rows.Next() {
		p := []byte(nil)
		Must(t, rows.Scan(&p))
		if p == nil {
			p = []byte("NULL?")
		}
		out = append(out, string(p))
	}
	Must(t, rows.Err())
	return out
}

// anyBatch returns a batch of rows of int, int64, float64, string, []byte or nil.
func anyBatch(cols []engine.Column, rows [][]any) *engine.Batch {
	b := engine.NewBatch(cols)
	for _, row := range rows {
		for c, x := range row {
			appendAny(&b.Columns[c], x)
		}
		b.EndRow()
	}
	return b
}

// appendAny appends a value of one of anyBatch's types.
func appendAny(v *engine.Vector, x any) {
	switch x := x.(type) {
	case nil:
		v.AppendNull()
	case int:
		v.Ints = append(v.Ints, int64(x))
	case int64:
		v.Ints = append(v.Ints, x)
	case float64:
		v.Floats = append(v.Floats, x)
	case string:
		v.AppendBytes([]byte(x))
	case []byte:
		v.AppendBytes(x)
	}
}

// valueColumns returns the columns of a table of values.
func valueColumns(db engine.DB) string {
	e := db.Info().Engine
	ty := types[e]
	common := fmt.Sprintf("id INT NOT NULL, ts %s NOT NULL, small SMALLINT, large BIGINT, counted DECIMAL(20,2), price DECIMAL(12,4), single %s, value %s, note %s, raw %s, at %s, d DATE, ",
		ty.time, map[bool]string{true: "REAL", false: "FLOAT"}[e == "postgres"], ty.float, ty.text, ty.bytes, ty.time)
	more := map[string]string{
		"mysql": "big BIGINT UNSIGNED, bits BIT(12), fixed BINARY(4), choice ENUM('a', 'b', '3'), nth ENUM('a', 'b', '3'), few SET('x', 'y'), clock TIME(3), y YEAR, yn YEAR, stamp TIMESTAMP(6) NULL, doc JSON, " +
			"latin VARCHAR(20) CHARACTER SET latin1, flag TINYINT(1), def INT NOT NULL DEFAULT 42, gen INT GENERATED ALWAYS AS (small + 1) STORED, ",
		"postgres": "ok BOOLEAN, bits BIT(4), doc JSONB, raw_doc JSON, u UUID, list INT[], stamp TIMESTAMPTZ, clock TIME, note10 VARCHAR(10), c CHAR(5), " +
			"def INT NOT NULL DEFAULT 42, gen INT GENERATED ALWAYS AS (small + 1) STORED, amount INT CHECK (amount > 0), ",
		"sqlite": "def INT NOT NULL DEFAULT 42, any_ ANY, ",
	}
	more["mariadb"] = more["mysql"]
	if strings.EqualFold(db.Info().Storage, "rocksdb") { // RocksDB has no generated columns in partitions
		more[e] = strings.ReplaceAll(more[e], "gen INT GENERATED ALWAYS AS (small + 1) STORED, ", "")
	}
	return common + more[e] + "PRIMARY KEY (id, ts)"
}

type valueText struct {
	column string
	kind   engine.Type
	values []any
}

// valueTexts are values of the types that only some engines have.
var valueTexts = map[string][]valueText{
	"mariadb": mysqlTexts,
	"mysql":   mysqlTexts,
	"postgres": {
		{"ok", engine.Varchar, []any{"t", "false", "yes"}},
		{"bits", engine.Varchar, []any{"1010", "0000"}},
		{"doc", engine.Varchar, []any{`{"b": [1, "\u00e9\\"], "a": "\t"}`, `"\\N"`, "null"}},
		{"raw_doc", engine.Varchar, []any{"{\"b\" :\t[1]\n}", `"\\x"`}},
		{"u", engine.Varchar, []any{"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"}},
		{"list", engine.Varchar, []any{"{1,NULL,3}", "{}"}},
		{"stamp", engine.Time, []any{int64(start) + 1, int64(-1)}},
		{"clock", engine.Varchar, []any{"23:59:59.5", "00:00"}},
		{"note10", engine.Varchar, []any{"0123456789", "trailing   ", "\\.", "\\N", "\r"}},
		{"c", engine.Char, []any{"a", "ab ", ""}},
		{"amount", engine.Int32, []any{1, 2}},
	},
	"sqlite": {{"any_", engine.Varchar, []any{"1", "x"}}},
}

var mysqlTexts = []valueText{
	{"big", engine.Decimal, []any{"18446744073709551615", "0"}},
	{"bits", engine.Binary, []any{[]byte{0x0f, 0xff}, []byte{0}, []byte{'1'}}},
	{"fixed", engine.Binary, []any{[]byte{1, 2, 3, 4}, []byte{0}, []byte("a ")}},
	{"choice", engine.Varchar, []any{"b", "3", "A"}},
	{"nth", engine.Int32, []any{3, 1}}, // the index, not the text
	{"few", engine.Varchar, []any{"x,y", "", "y"}},
	{"clock", engine.Varchar, []any{"-838:59:59", "12:00:00.123", "00:00:01"}},
	{"y", engine.Varchar, []any{"2026", "1901"}},
	{"yn", engine.Int32, []any{2026, 0, 5}}, // 0 is the year 0, not 2000
	{"stamp", engine.Time, []any{int64(start) + 1, int64(1e6)}},
	{"doc", engine.Varchar, []any{`{"b": [1, "é\\"], "a": "\t"}`, `"\\N"`, "null"}},
	{"latin", engine.Varchar, []any{"é", "ÿ\t"}},
	{"flag", engine.Int32, []any{1, 0, -1}},
}

// columns stages rows that have only some of the table's columns, in another order. The other
// columns get their defaults. An AUTO_INCREMENT or identity column must be among the staged ones;
// the server stores its values unchanged, even 0.
func (s stagers) columns(t *testing.T) {
	db := s.open(t)
	e := db.Info().Engine
	k := declaredTable(t, db, "readings", "id INT NOT NULL, ts "+types[e].time+" NOT NULL, n INT DEFAULT 7, must INT NOT NULL, PRIMARY KEY (id, ts)", "CREATE INDEX n ON readings (n, must)")
	ts, id, must := engine.Column{Name: "ts", Type: engine.Time}, engine.Column{Name: "id", Type: engine.Int32}, engine.Column{Name: "must", Type: engine.Int64}
	o := engine.StageOptions{Columns: []engine.Column{must, ts, id}}
	fill(t, db, k.Table, o, anyBatch(o.Columns, [][]any{{1, k.parts[0].From, 0}, {-1, k.parts[0].From, 5}}))
	for where, rows := range map[string]int64{"n = 7": 2, "must = 1 AND id = 0": 1, "must = -1 AND id = 5": 1} {
		var n int64
		Must(t, db.SQL().QueryRowContext(within(t), "SELECT COUNT(*) FROM "+staged+" WHERE "+where).Scan(&n))
		want(t, "rows with "+where, n, rows)
	}
	// The column must has no default, so it has to be staged.
	o.Columns = []engine.Column{ts, id}
	if _, err := attempt(t, db, k.Table, o, anyBatch(o.Columns, [][]any{{k.parts[0].From, 0}})); err == nil {
		t.Error("staged without a value of column must")
	}

	auto := map[string]string{"mariadb": "INT NOT NULL AUTO_INCREMENT", "mysql": "INT NOT NULL AUTO_INCREMENT", "postgres": "INT GENERATED BY DEFAULT AS IDENTITY"}[e]
	if auto == "" {
		return
	}
	k = declaredTable(t, db, "numbered", "id "+auto+", ts "+types[e].time+" NOT NULL, PRIMARY KEY (id, ts)")
	o.Columns = []engine.Column{ts}
	o.Name = staged
	_, err := db.Stage(within(t), k.Table, o)
	wantError(t, err, engine.ErrUnsupported)
	o.Columns = []engine.Column{ts, id}
	fill(t, db, k.Table, o, anyBatch(o.Columns, [][]any{{k.parts[1].To, 0}, {k.parts[1].To, 1000}}))
	after := periods(t, k.Grid, k.parts[1].To, 1)[0]
	k.step(t, engine.Attach{Table: k.Table, Have: k.parts, Part: after, From: staged})
	want(t, "the ids", strings.Join(k.list(t, "SELECT "+k.Words().AsText(k.schema(t, "numbered").Columns[0])+" FROM numbered ORDER BY id"), ","), "0,1000")
	if e == "postgres" {
		return // where explicit values never advance an identity
	}
	k.exec(t, db.SQL(), "INSERT INTO numbered (ts) VALUES ("+k.Words().Literal(k.Table, k.parts[0].From)+")")
	want(t, "a new id", k.list(t, "SELECT "+k.Words().AsText(k.schema(t, "numbered").Columns[0])+" FROM numbered ORDER BY ts")[0], "1001")
}

// refused stages values that a server refuses or would change, alone and after others.
func (s stagers) refused(t *testing.T) {
	db := s.open(t)
	e := db.Info().Engine
	k := declaredTable(t, db, "readings", valueColumns(db))
	type refusal struct {
		column string
		kind   engine.Type
		value  any
	}
	cases := []refusal{{"def", engine.Int32, nil}, {"ts", engine.Time, nil}}
	if e != "sqlite" {
		cases = append(cases, []refusal{
			{"small", engine.Int32, 40000}, {"small", engine.Varchar, "x"}, {"small", engine.Varchar, "1x"}, {"small", engine.Varchar, ""},
			{"price", engine.Decimal, "123456789.5"}, {"price", engine.Decimal, "x"}, {"note", engine.Varchar, "\xff\xfe"}, {"note", engine.Varchar, "a\xe0"},
			{"d", engine.Varchar, "2026-02-30"}, {"at", engine.Varchar, "soon"}, {"single", engine.Float64, 1e300}, {"doc", engine.Varchar, "{"},
		}...)
	}
	if e == "postgres" {
		for column, value := range map[string]string{"note10": "01234567890", "bits": "10", "u": "x", "ok": "maybe", "amount": "0", "note": "a\x00"} {
			cases = append(cases, struct {
				column string
				kind   engine.Type
				value  any
			}{column, engine.Varchar, value})
		}
	}
	if e == "mysql" || e == "mariadb" {
		for column, value := range map[string]any{"note": strings.Repeat("x", 201), "choice": "c", "few": "z", "clock": "900:00:00", "latin": "日", "y": "1800"} {
			cases = append(cases, struct {
				column string
				kind   engine.Type
				value  any
			}{column, engine.Varchar, value})
		}
		cases = append(cases, struct {
			column string
			kind   engine.Type
			value  any
		}{"bits", engine.Binary, []byte{0xff, 0xff}})
	}
	for _, skip := range []bool{false, true} {
		for _, c := range cases {
			o := engine.StageOptions{Skip: skip, Columns: []engine.Column{{Name: "id", Type: engine.Int32}}}
			row := []any{2}
			if c.column != "ts" {
				o.Columns = append(o.Columns, engine.Column{Name: "ts", Type: engine.Time})
				row = append(row, k.parts[0].From)
			}
			o.Columns = append(o.Columns, engine.Column{Name: c.column, Type: c.kind, Size: 1000, Null: true})
			done, err := attempt(t, db, k.Table, o, anyBatch(o.Columns, [][]any{append(row, c.value)}))
			if err == nil {
				t.Errorf("%.20q in column %s was staged: %+v", c.value, c.column, done)
			} else if !errors.Is(err, engine.ErrRefused) {
				t.Errorf("%.20q in column %s: %v isn't a refusal", c.value, c.column, err)
			}
		}
	}
	Must(t, Try(t, db, engine.DropTables{Names: []string{staged}}))
	if left := k.tables(t, staged); len(left) > 0 {
		t.Errorf("tables %q are left", left)
	}
}

// merges stages rows, removes from another table the rows with the same keys, and copies the rest.
func (s stagers) merges(t *testing.T) {
	db := s.open(t)
	k, o, b := s.keyed(t, db, "b", "a", "d", "f")
	o.Bare = true
	fill(t, db, k.Table, o, b)
	// Engines that don't build indexes sorted at the end have them from the beginning.
	kept := db.Info().Engine == "sqlite" || strings.EqualFold(db.Info().Storage, "rocksdb")
	if has := k.schema(t, staged); len(has.PrimaryKey) != 2 || !kept && len(has.Indexes) > 0 {
		t.Errorf("a bare table has the primary key %v and the indexes %v", has.PrimaryKey, has.Indexes)
	}
	const own = "readings_own"
	k.exec(t, db.SQL(), "CREATE TABLE "+own+" AS SELECT * FROM "+staged)
	o.Bare = false
	st := stage(t, db, k.Table, o)
	words, is := db.Words().(engine.MergeWords)
	if !is {
		_, err := st.Run(within(t), "DELETE FROM "+own)
		wantError(t, err, engine.ErrUnsupported)
		return
	}
	Must(t, st.Write(within(t), keyedRows(k, o, 5, "a", "D", "f", "h")))
	schema := k.schema(t, "readings")
	var differ []string
	for _, c := range schema.Columns {
		differ = append(differ, words.Differs(c, "s."+c.Name, own+"."+c.Name))
	}
	run := func(what, q string, rows int64) {
		t.Helper()
		n, err := st.Run(within(t), q)
		Must(t, err)
		want(t, what, n, rows)
	}
	same := int64(3) // a, d, f; for PostgreSQL, D is another key than d
	if db.Info().Engine == "postgres" {
		same--
	}
	run("rows changed", "UPDATE "+staged+" SET n = 4 WHERE k = 'f'", 1)
	there := "DELETE FROM " + own + " WHERE EXISTS (SELECT 1 FROM " + staged + " s WHERE s.k = " + own + ".k AND s.ts = " + own + ".ts"
	run("rows that differ", there+" AND ("+strings.Join(differ, " OR ")+"))", same-1)
	run("rows that are the same", there+")", 1)
	run("rows copied", k.Words().CopyRows(engine.CopyRows{Into: staged, From: own, Columns: schema.Names()}), 4-same)
	_, err := st.Finish(within(t))
	Must(t, err)
	want(t, "its rows", k.of(t, staged).Rows, 8-same)
	want(t, "its indexes", len(k.schema(t, staged).Indexes), 1)
}

// misuse makes calls that a caller must not make.
func (s stagers) misuse(t *testing.T) {
	db := s.open(t)
	k, o, b := s.keyed(t, db, "a")
	for what, change := range map[string]func(*engine.StageOptions){
		"no name":            func(o *engine.StageOptions) { o.Name = "" },
		"the table's name":   func(o *engine.StageOptions) { o.Name = "readings" },
		"no columns":         func(o *engine.StageOptions) { o.Columns = nil },
		"a column not there": func(o *engine.StageOptions) { o.Columns = []engine.Column{{Name: "other"}} },
	} {
		wrong := o
		wrong.Name = staged
		change(&wrong)
		if _, err := db.Stage(within(t), k.Table, wrong); err == nil {
			t.Errorf("staged with %s", what)
		}
	}
	o.Name = staged
	_, err := db.Stage(within(t), &engine.Table{Name: "missing"}, o)
	wantError(t, err, engine.ErrNoTable)
	st := stage(t, db, k.Table, o)
	Must(t, st.Write(within(t), engine.NewBatch(o.Columns)))
	if err := st.Write(within(t), engine.NewBatch(o.Columns[:2])); err == nil {
		t.Error("written a batch of two columns of three")
	}
	Must(t, st.Close())
	st = stage(t, db, k.Table, o)
	done, err := st.Finish(within(t))
	Must(t, err)
	want(t, "the result without rows", done, engine.Staged{})
	if err := st.Write(within(t), b); err == nil {
		t.Error("written after Finish")
	}
	if _, err := st.Finish(within(t)); err == nil {
		t.Error("finished twice")
	}
	want(t, "its rows", k.of(t, staged).Rows, 0)
}

// cancel ends the context of each call.
func (s stagers) cancel(t *testing.T) {
	db := s.open(t)
	k, o, b := s.keyed(t, db, "a", "b")
	over, end := context.WithCancel(within(t))
	end()
	o.Name = staged
	_, err := db.Stage(over, k.Table, o)
	wantError(t, err, context.Canceled)
	for what, call := range map[string]func(st engine.Staging) error{
		"write":  func(st engine.Staging) error { return st.Write(over, b) },
		"finish": func(st engine.Staging) error { _, err := st.Finish(over); return err },
	} {
		st := stage(t, db, k.Table, o)
		Must(t, st.Write(within(t), b))
		wantError(t, call(st), context.Canceled)
		if err := st.Write(within(t), b); err == nil {
			t.Errorf("written after a canceled %s", what)
		}
		Must(t, st.Close())
		Must(t, Try(t, db, engine.DropTables{Names: []string{staged}}))
	}
	fill(t, db, k.Table, o, b)
}

// killed kills the connection while the table is being filled.
func (s stagers) killed(t *testing.T) {
	db := s.open(t)
	if db.Capabilities().Embedded {
		t.Skip("there is no connection to kill")
	}
	k, o, b := s.keyed(t, db, "a", "b")
	st := stage(t, db, k.Table, o)
	Must(t, st.Write(within(t), b))
	q := map[string]string{"postgres": "SELECT pg_terminate_backend(%d)"}[db.Info().Engine]
	if q == "" {
		q = "KILL %d"
	}
	blockers := Blockers(t, db, &engine.Table{Name: staged}, true)
	if len(blockers) != 1 {
		t.Fatalf("%d transactions have the table, want 1", len(blockers))
	}
	k.exec(t, db.SQL(), fmt.Sprintf(q, blockers[0].ID))
	_, err := st.Finish(within(t))
	wantError(t, err, engine.ErrConnectionLost)
	Must(t, st.Close())
	fill(t, db, k.Table, o, b) // drops what is left
}
