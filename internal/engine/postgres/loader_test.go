package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

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

// TestLoaderValues inserts vectors of all types as literals.
func TestLoaderValues(t *testing.T) {
	t.Parallel()
	db := open(t)
	run(t, db, "CREATE TABLE v (i int, l bigint, r real, d double precision, at timestamptz, day date, b bytea)")
	table := &engine.Table{Name: "v", Columns: []engine.Column{{Name: "i", Type: engine.Int32}, {Name: "l", Type: engine.Int64}, {Name: "r", Type: engine.Float32},
		{Name: "d", Type: engine.Float64}, {Name: "at", Type: engine.Time}, {Name: "day", Type: engine.Time}, {Name: "b", Type: engine.Binary}}}
	b := engine.NewBatch(table.Columns)
	for i := range 3 {
		if i == 1 {
			for c := range b.Columns {
				b.Columns[c].AppendNull()
			}
			b.EndRow()
			continue
		}
		b.Columns[0].Ints = append(b.Columns[0].Ints, -1<<31)
		b.Columns[1].Ints = append(b.Columns[1].Ints, -1<<63)
		b.Columns[2].Floats = append(b.Columns[2].Floats, float64(float32(0.1)))
		b.Columns[3].Floats = append(b.Columns[3].Floats, 0.1)
		b.Columns[4].Ints = append(b.Columns[4].Ints, 1774747800123456)
		b.Columns[5].Ints = append(b.Columns[5].Ints, 1774742400000000)
		b.Columns[6].AppendBytes([]byte{0, 255, '\'', '\\'}[:i*2])
		b.EndRow()
	}
	l := loader(t, db)
	begin(t, l)
	insertAll(t, l, table, b)
	commit(t, l)
	const row = `(-2147483648,-9223372036854775808,0.1,0.1,"2026-03-29 01:30:00.123456+00",2026-03-29,"\\x%s")`
	run(t, db, "SET TimeZone = 'UTC'")
	want := fmt.Sprintf(row, "") + " (,,,,,,) " + fmt.Sprintf(row, "00ff275c")
	if got := value(t, db, "SELECT string_agg(v::text, ' ' ORDER BY ctid) FROM v"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestTrapRefusedRowEndsTransaction checks that an error about a row leaves the
// transaction as it was, whether it is the first Insert or a later one, and
// that any other error ends the transaction.
func TestTrapRefusedRowEndsTransaction(t *testing.T) {
	t.Parallel()
	db := open(t)
	run(t, db, `CREATE TABLE plain (c1 text)`,
		`CREATE TABLE r (c1 text NOT NULL PRIMARY KEY, c2 int CHECK (c2 <> 13), c3 varchar(5), c4 bytea, g int GENERATED ALWAYS AS (1) STORED, always bigint GENERATED ALWAYS AS IDENTITY)`,
		`INSERT INTO r (c1) VALUES ('there')`,
		`CREATE FUNCTION raise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.c1 = 'raise' THEN RAISE EXCEPTION 'not that one'; END IF;
			IF NEW.c1 = 'assert' THEN RAISE EXCEPTION USING ERRCODE = 'XX001'; END IF;
			RETURN NEW; END $$`,
		`CREATE TRIGGER raise BEFORE INSERT ON r FOR EACH ROW EXECUTE FUNCTION raise()`,
		`CREATE TABLE parent (c1 text PRIMARY KEY)`,
		`CREATE TABLE child (c1 text REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`,
		`CREATE TABLE parts (c1 date) PARTITION BY RANGE (c1)`,
		`CREATE VIEW checked AS SELECT * FROM plain WHERE c1 <> 'x' WITH CHECK OPTION`)
	l := loader(t, db)
	plain, one := texts("plain", []string{"kept"})
	good, more := texts("r", []string{"a", "1", "abc", ""}, []string{"b", "2", "abc", ""})
	for name, c := range map[string]struct {
		table string
		row   []string
		class error
	}{
		"duplicate":   {"r", []string{"there"}, engine.ErrDuplicateKey},
		"null":        {"r", []string{"NULL"}, engine.ErrRefused},
		"no number":   {"r", []string{"k", "one"}, engine.ErrRefused},
		"range":       {"r", []string{"k", "99999999999"}, engine.ErrRefused},
		"check":       {"r", []string{"k", "13"}, engine.ErrRefused},
		"long":        {"r", []string{"k", "1", "longer"}, engine.ErrRefused},
		"bytes":       {"r", []string{"k", "1", "a", `\xf`}, engine.ErrRefused},
		"index entry": {"r", []string{randomText(9000)}, engine.ErrRefused},
		"not UTF-8":   {"r", []string{"\xff"}, engine.ErrRefused},
		"zero byte":   {"r", []string{"a\x00b"}, engine.ErrRefused},
		"trigger":     {"r", []string{"raise"}, engine.ErrRefused},
		"parent":      {"child", []string{"orphan"}, engine.ErrRefused},
		"partition":   {"parts", []string{"2026-01-01"}, engine.ErrNoPartition},
		"view":        {"checked", []string{"x"}, engine.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, db, "TRUNCATE plain", "DELETE FROM r WHERE c1 <> 'there'")
			bad, b := texts(c.table, c.row)
			begin(t, l)
			refused(t, l, bad, b, c.class)
			refused(t, l, bad, b, c.class)
			insertAll(t, l, plain, one)
			refused(t, l, bad, b, c.class)
			refused(t, l, bad, b, c.class)
			insertAll(t, l, good, more)
			refused(t, l, bad, b, c.class)
			commit(t, l)
			if got := value(t, db, "SELECT (SELECT count(*) FROM plain) || ' ' || (SELECT count(*) FROM r) || ' ' || (SELECT count(*) FROM child)"); got != "1 3 0" {
				t.Errorf("rows: %s", got)
			}
		})
	}
	none, lost := texts("nowhere", []string{"x"})
	column, b5 := texts("plain", []string{"x", "y"})
	generated := &engine.Table{Name: "r", Columns: []engine.Column{{Name: "c1", Type: engine.Varchar}, {Name: "always", Type: engine.Varchar}}}
	_, b2 := texts("r", []string{"x", "1"})
	computed := &engine.Table{Name: "r", Columns: []engine.Column{{Name: "c1", Type: engine.Varchar}, {Name: "g", Type: engine.Varchar}}}
	mismatch := &engine.Table{Name: "plain", Columns: []engine.Column{{Name: "c1", Type: engine.Int64}}}
	run(t, db, "ALTER TABLE plain ADD flag boolean")
	mismatch.Columns[0].Name = "flag"
	ints := engine.NewBatch(mismatch.Columns)
	ints.Columns[0].Ints = append(ints.Columns[0].Ints, 1)
	ints.EndRow()
	broken, corrupt := texts("r", []string{"assert"})
	for name, c := range map[string]struct {
		table *engine.Table
		b     *engine.Batch
		code  string
	}{
		"no table": {none, lost, "42P01"}, "no column": {column, b5, "42703"}, "identity": {generated, b2, "428C9"}, "generated": {computed, b2, "428C9"},
		"type": {mismatch, ints, "42804"}, "data corrupted": {broken, corrupt, "XX001"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, db, "TRUNCATE plain")
			for _, first := range []bool{true, false} {
				begin(t, l)
				if !first {
					insertAll(t, l, plain, one)
				}
				_, err := l.Insert(within(t), c.table, c.b, 0, c.b.Rows())
				var server *pgconn.PgError
				if errors.Is(err, engine.ErrRefused) || !errors.As(err, &server) || server.Code != c.code {
					t.Fatalf("got %v", err)
				}
				if _, err := l.Insert(within(t), plain, one, 0, 1); err == nil || errors.Is(err, engine.ErrRefused) {
					t.Errorf("in a transaction that is over: %v", err)
				}
				if err := l.Commit(within(t)); err == nil {
					t.Error("a transaction that is over was committed")
				}
				must(t, l.Reset(within(t)))
				wantValue(t, db, "SELECT count(*) FROM plain", "0")
			}
		})
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

// TestLoaderSession checks the session's settings, and that no subtransaction
// stays open after an Insert.
func TestLoaderSession(t *testing.T) {
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
	must(t, l.Reset(within(t)))
	begin(t, l)
	const check = `DO $$ BEGIN IF current_setting('lock_timeout') <> '10s' OR current_setting('TimeZone') <> 'UTC' OR current_setting('transaction_isolation') <> 'read committed'
		OR current_setting('standard_conforming_strings') <> 'on' OR (SELECT source FROM pg_settings WHERE name = 'synchronous_commit') = 'session' THEN RAISE 'the session is another'; END IF; END $$`
	if err := postgres.Run(l, check); err != nil {
		t.Error(err)
	}
	commit(t, l)
	wantValue(t, db, "SELECT count(*) FROM v", "0")
}

// TestLoaderBlocked checks that a lock timeout ends the transaction at once.
func TestLoaderBlocked(t *testing.T) {
	t.Parallel()
	db := open(t)
	run(t, db, "CREATE TABLE small (c1 text PRIMARY KEY, c2 text)")
	table, both := texts("small", []string{"1"}, []string{"2"})
	l, other := loader(t, db), session(t, db)
	exec(t, other, "BEGIN", "INSERT INTO small VALUES ('2', '')")
	must(t, postgres.Run(l, "SET lock_timeout = '10ms'"))
	begin(t, l)
	if _, err := l.Insert(within(t), table, both, 0, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Insert(within(t), table, both, 1, 2); !errors.Is(err, engine.ErrLockTimeout) || !engine.Retryable(err) || errors.Is(err, engine.ErrRefused) {
		t.Fatalf("got %v", err)
	}
	exec(t, other, "INSERT INTO small VALUES ('1', '')") // key 1 is free before Reset
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
