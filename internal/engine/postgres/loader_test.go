package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/enginetest"
	"github.com/rowmill/rowmill/internal/engine/postgres"
)

var loader, begin, commit, insertAll, refused = enginetest.OpenLoader, enginetest.Begin, enginetest.Commit, enginetest.Insert, enginetest.Refuse

// texts returns a table of text columns c1, c2 and so on, and a batch of its
// rows. The value "NULL" becomes NULL.
func texts(name string, rows ...[]string) (*engine.Table, *engine.Batch) {
	t := &engine.Table{Name: name}
	for i := range rows[0] {
		t.Columns = append(t.Columns, engine.Column{Name: fmt.Sprintf("c%d", i+1), Type: engine.Varchar})
	}
	b := engine.NewBatch(t.Columns)
	for _, row := range rows {
		for i, v := range row {
			if v == "NULL" {
				b.Columns[i].AppendNull()
			} else {
				b.Columns[i].AppendBytes([]byte(v))
			}
		}
		b.EndRow()
	}
	return t, b
}

// TestLoaderTypes checks that the server converts text to the type of any
// column, with one row or several.
func TestLoaderTypes(t *testing.T) {
	t.Parallel()
	db := open(t)
	l := loader(t, db)
	for _, c := range []struct{ kind, text, want string }{
		{"json", `{"a": "it's \\ \u00e9"}`, `{"a": "it's \\ \u00e9"}`},
		{"jsonb", `{"b":1,"a":[true]}`, `{"a": [true], "b": 1}`},
		{"uuid", "A0EEBC999C0B4EF8BB6D6BB9BD380A11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
		{"inet", "192.168.0.1/24", "192.168.0.1/24"},
		{"boolean", "yes", "true"},
		{"numeric(12,3)", "-12345678.9005", "-12345678.901"},
		{"numeric", "NaN", "NaN"},
		{"timestamptz", "2026-03-29 03:30:00+02", "2026-03-29 01:30:00+00"},
		{"timestamptz", "2026-03-29 03:30:00.25", "2026-03-29 03:30:00.25+00"},
		{"timestamp", "2026-03-29T03:30:00", "2026-03-29 03:30:00"},
		{"date", "2026-02-28", "2026-02-28"},
		{"time", "23:59:60", "24:00:00"},
		{"interval", "1 day 02:03", "1 day 02:03:00"},
		{"integer[]", "{1,2}", "{1,2}"},
		{"double precision", "1e-300", "1e-300"},
		{"bigint", "-9223372036854775808", "-9223372036854775808"},
		{"char(5)", "ab", "ab"},
		{"text", `\x00'`, `\x00'`},
		{"bytea", `\x00ff`, `\x00ff`},
	} {
		for _, rows := range []int{1, 2, 3} {
			run(t, db, "DROP TABLE IF EXISTS v", "CREATE TABLE v (c1 "+c.kind+", c2 bigserial)")
			values := [][]string{{c.text}, {"NULL"}, {c.text}}[:rows]
			table, b := texts("v", values...)
			begin(t, l)
			insertAll(t, l, table, b)
			commit(t, l)
			want := strings.Join([]string{c.want, "NULL", c.want}[:rows], "|")
			if got := value(t, db, "SELECT string_agg(COALESCE(c1 #>> '{}', 'NULL'), '|' ORDER BY c2) FROM (SELECT to_jsonb(c1::text) AS c1, c2 FROM v) v"); got != want {
				t.Errorf("%s, %d rows: got %s, want %s", c.kind, rows, got, want)
			}
		}
	}
}

// TestTrapRefusedRowEndsTransaction checks that an error about a row leaves the
// transaction as it was, and that any other error ends it.
func TestTrapRefusedRowEndsTransaction(t *testing.T) {
	t.Parallel()
	enginetest.Refusals{
		Setup: []string{
			`CREATE TABLE r (c1 text NOT NULL PRIMARY KEY, c2 int CHECK (c2 <> 13), c3 varchar(5), c4 bytea, flag boolean,
				g int GENERATED ALWAYS AS (1) STORED, always bigint GENERATED ALWAYS AS IDENTITY)`,
			`INSERT INTO r (c1) VALUES ('there')`,
			`CREATE FUNCTION raise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.c1 = 'raise' THEN RAISE EXCEPTION 'not that one'; END IF;
			IF NEW.c1 = 'assert' THEN RAISE EXCEPTION USING ERRCODE = 'XX001'; END IF;
			RETURN NEW; END $$`,
			`CREATE TRIGGER raise BEFORE INSERT ON r FOR EACH ROW EXECUTE FUNCTION raise()`,
			`CREATE TABLE parent (c1 text PRIMARY KEY)`,
			`CREATE TABLE child (c1 text REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`,
			`CREATE TABLE parts (c1 date) PARTITION BY RANGE (c1)`,
			`CREATE TABLE plain (c1 text)`,
			`CREATE VIEW checked AS SELECT * FROM plain WHERE c1 <> 'x' WITH CHECK OPTION`,
		},
		Tables: []string{"r", "child", "plain"},
		Refused: []enginetest.Refusal{
			{Name: "duplicate", Table: "r", Row: []any{"c1", "there"}, Class: engine.ErrDuplicateKey},
			{Name: "null", Table: "r", Row: []any{"c1", nil}},
			{Name: "no number", Table: "r", Row: []any{"c1", "k", "c2", "one"}},
			{Name: "range", Table: "r", Row: []any{"c1", "k", "c2", "99999999999"}},
			{Name: "check", Table: "r", Row: []any{"c1", "k", "c2", "13"}},
			{Name: "long", Table: "r", Row: []any{"c1", "k", "c3", "longer"}},
			{Name: "bytes", Table: "r", Row: []any{"c1", "k", "c4", `\xf`}},
			{Name: "index entry", Table: "r", Row: []any{"c1", randomText(9000)}},
			{Name: "not UTF-8", Table: "r", Row: []any{"c1", "\xff"}},
			{Name: "zero byte", Table: "r", Row: []any{"c1", "a\x00b"}},
			{Name: "trigger", Table: "r", Row: []any{"c1", "raise"}},
			{Name: "parent", Table: "child", Row: []any{"c1", "orphan"}},
			{Name: "partition", Table: "parts", Row: []any{"c1", "2026-01-01"}, Class: engine.ErrNoPartition},
			{Name: "view", Table: "checked", Row: []any{"c1", "x"}},
		},
		Ended: []enginetest.Refusal{
			{Name: "no table", Table: "nowhere", Row: []any{"c1", "x"}, Class: engine.ErrNoTable, Text: "42P01"},
			{Name: "no column", Table: "plain", Row: []any{"c1", "x", "c2", "y"}, Text: "42703"},
			{Name: "identity", Table: "r", Row: []any{"c1", "x", "always", "1"}, Text: "428C9"},
			{Name: "generated", Table: "r", Row: []any{"c1", "x", "g", "1"}, Text: "428C9"},
			{Name: "type", Table: "r", Row: []any{"c1", "x", "flag", int64(1)}, Text: "42804"},
			{Name: "data corrupted", Table: "r", Row: []any{"c1", "assert"}, Text: "XX001"},
		},
	}.Run(t, open(t))
}

// TestUpdateKeysThatOnlyTheServerEquates checks that rows whose keys differ only in trailing
// blanks, which CHAR ignores, are refused together, undone together, and updated one by one.
func TestUpdateKeysThatOnlyTheServerEquates(t *testing.T) {
	t.Parallel()
	db := open(t)
	run(t, db, "CREATE TABLE r (c1 char(5) PRIMARY KEY, c2 text)", "CREATE TABLE other (c1 text)")
	table, b := texts("r", []string{"a", "one"}, []string{"b", "new"}, []string{"a ", "two"})
	table.PrimaryKey, table.Update = []string{"c1"}, true
	other, more := texts("other", []string{"x"})
	l := enginetest.OpenLoader(t, db)
	for _, first := range []bool{true, false} {
		run(t, db, "INSERT INTO r VALUES ('a', 'zero')")
		begin(t, l)
		if !first {
			insertAll(t, l, other, more)
		}
		enginetest.Refuse(t, l, table, b)
		for row, want := range []engine.Ack{{Updated: 1}, {Rows: 1}, {Updated: 1}} {
			ack, err := l.Insert(t.Context(), table, b, row, row+1)
			if err != nil || ack.Rows != want.Rows || ack.Updated != want.Updated || ack.Skipped != want.Skipped {
				t.Errorf("row %d: %+v, %v; want %+v", row, ack, err, want)
			}
		}
		commit(t, l)
		if got := value(t, db, "SELECT string_agg(c1 || c2, ' ' ORDER BY c1) FROM r"); got != "atwo bnew" {
			t.Errorf("there are %s", got)
		}
		run(t, db, "DELETE FROM r")
	}
}

func randomText(n int) string {
	p := make([]byte, n)
	x := uint32(1)
	for i := range p {
		x = x*1664525 + 1013904223
		p[i] = 'a' + byte(x>>24)%26
	}
	return string(p)
}

func wantValue(t testing.TB, db *postgres.DB, q, want string) {
	t.Helper()
	if got := value(t, db, q); got != want {
		t.Errorf("%s: got %s, want %s", q, got, want)
	}
}

// TestLoaderSplits checks that rows that need several statements are one
// Insert, and that a row too long for the server is refused.
func TestLoaderSplits(t *testing.T) {
	t.Parallel()
	db := open(t)
	run(t, db, "CREATE TABLE v (c1 text PRIMARY KEY)")
	table, b := texts("v", []string{"1"}, []string{"2"}, []string{"3"}, []string{"4"}, []string{"5"}, []string{"5"})
	long, row := texts("v", []string{strings.Repeat("x", 200)})
	l := loader(t, db)
	postgres.SetLongest(l, table, 45, 200)
	begin(t, l)
	for range 2 { // without and with a savepoint
		refused(t, l, table, b, engine.ErrDuplicateKey)
		refused(t, l, long, row, engine.ErrRefused)
		if ack, err := l.Insert(within(t), table, b, 0, 0); err != nil || ack.Rows != 0 {
			t.Fatalf("no rows: %+v, %v", ack, err)
		}
		if _, err := l.Insert(within(t), table, b, 1, 2); err != nil && !errors.Is(err, engine.ErrDuplicateKey) {
			t.Fatal(err)
		}
	}
	for _, r := range [][2]int{{2, 5}, {0, 1}} {
		if ack, err := l.Insert(within(t), table, b, r[0], r[1]); err != nil || ack.Rows != int64(r[1]-r[0]) {
			t.Fatalf("%+v, %v", ack, err)
		}
	}
	ignore := *table
	ignore.Ignore = true
	postgres.SetLongest(l, &ignore, 45, 200)
	if ack, err := l.Insert(within(t), &ignore, b, 0, 6); err != nil || ack.Rows != 0 || ack.Skipped != 6 {
		t.Fatalf("%+v, %v", ack, err)
	}
	if err := l.Begin(within(t)); err == nil {
		t.Error("a second transaction was begun")
	}
	commit(t, l)
	wantValue(t, db, "SELECT string_agg(c1, '' ORDER BY c1) FROM v", "12345")
}

// TestLoaderReleases checks that no subtransaction stays open after an Insert.
func TestLoaderReleases(t *testing.T) {
	t.Parallel()
	db := open(t)
	run(t, db, "CREATE TABLE v (c1 text)")
	table, b := texts("v", []string{"1"})
	l := loader(t, db)
	begin(t, l)
	for range 3 {
		insertAll(t, l, table, b)
	}
	if err := postgres.Run(l, "ROLLBACK TO rowmill"); err == nil {
		t.Error("a savepoint is left")
	}
}

// TestLoaderCommitCanceled checks that the outcome of a canceled COMMIT is
// unknown to the caller, and can be found out afterwards.
func TestLoaderCommitCanceled(t *testing.T) {
	t.Parallel()
	db := open(t)
	run(t, db, "CREATE TABLE v (c1 text)",
		"CREATE FUNCTION waits() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN NULL; END $$",
		"CREATE CONSTRAINT TRIGGER waits AFTER INSERT ON v DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION waits()")
	table, b := texts("v", []string{"1"})
	l, other := loader(t, db), session(t, db)
	begin(t, l)
	must(t, postgres.Run(l, "SET CONSTRAINTS ALL DEFERRED"))
	insertAll(t, l, table, b)
	exec(t, other, "SELECT pg_advisory_lock(7)")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	pid := postgres.PID(l)
	go func() { result <- l.Commit(ctx) }()
	blocked(t, db, pid)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) || !errors.Is(err, engine.ErrConnectionLost) {
		t.Errorf("got %v", err)
	}
	exec(t, other, "SELECT pg_advisory_unlock(7)")
	wantValue(t, db, "SELECT count(*) FROM v", "0")
	must(t, errors.Join(l.Reset(within(t)), l.Close(), l.Close()))
	if err := l.Reset(within(t)); err == nil {
		t.Error("usable after Close")
	}
}

// TestLoaderKeepsConnection checks that a loader keeps its connection if a context ends
// between two calls.
func TestLoaderKeepsConnection(t *testing.T) {
	t.Parallel()
	db := open(t)
	run(t, db, "CREATE TABLE r (c1 text PRIMARY KEY)")
	table, b := texts("r", []string{"a"})
	l := enginetest.OpenLoader(t, db)
	pid := postgres.PID(l)
	begin(t, l)
	insertAll(t, l, table, b)
	over, end := context.WithCancel(t.Context())
	end()
	if _, err := l.Insert(over, table, b, 0, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("insert: %v", err)
	}
	if err := l.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	begin(t, l)
	insertAll(t, l, table, b)
	commit(t, l)
	if now := postgres.PID(l); now != pid {
		t.Errorf("connection %d has become %d", pid, now)
	}
}

// TestLoaderCopyPauses checks that rows that exist are skipped, and that COPY is tried
// again later.
func TestLoaderCopyPauses(t *testing.T) {
	t.Parallel()
	db := open(t)
	db.SetCopyRows(1)
	run(t, db, "CREATE TABLE r (c1 text PRIMARY KEY)", "CREATE TABLE dates (d date)")
	table, b := texts("r", []string{"a"}, []string{"b"})
	table.Ignore = true
	l := enginetest.OpenLoader(t, db)
	begin(t, l)
	for i := range 40 {
		ack, err := l.Insert(t.Context(), table, b, 0, 2)
		want := engine.Ack{Skipped: 2}
		if i == 0 {
			want = engine.Ack{Rows: 2}
		}
		if err != nil || ack.Rows != want.Rows || ack.Skipped != want.Skipped {
			t.Fatalf("insert %d: %+v, %v", i, ack, err)
		}
	}
	// COPY would read a number as a date.
	dates := &engine.Table{Name: "dates", Columns: []engine.Column{{Name: "d", Type: engine.Int32}}}
	days := engine.NewBatch(dates.Columns)
	days.Columns[0].Ints = append(days.Columns[0].Ints, 20260101)
	days.EndRow()
	if ack, err := l.Insert(t.Context(), dates, days, 0, 1); err == nil {
		t.Errorf("a number was inserted as a date: %+v", ack)
	}
}

// TestLoaderNotices: a trigger that raises a message for each row answers while the rows are
// sent, more than the buffers of the connection hold.
func TestLoaderNotices(t *testing.T) {
	t.Parallel()
	db := open(t)
	run(t, db, "CREATE TABLE noisy (c1 text, c2 text)",
		"CREATE FUNCTION noise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING '%', repeat('n', 8000); RETURN NEW; END $$",
		"CREATE TRIGGER noisy BEFORE INSERT ON noisy FOR EACH ROW EXECUTE FUNCTION noise()")
	rows := make([][]string, 2000)
	for i := range rows {
		rows[i] = []string{fmt.Sprint(i), strings.Repeat("x", 8000)}
	}
	table, b := texts("noisy", rows...)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	l := loader(t, db)
	must(t, l.Begin(ctx))
	if _, err := l.Insert(ctx, table, b, 0, b.Rows()); err != nil {
		t.Fatal(err)
	}
	commit(t, l)
	if got := value(t, db, "SELECT COUNT(*) FROM noisy"); got != "2000" {
		t.Errorf("%s rows", got)
	}
}
