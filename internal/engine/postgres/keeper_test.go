package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/engine/postgres"
	"github.com/rowmill/rowmill/internal/testdb"
	values "github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// run runs statements on the pool.
func run(t testing.TB, db *postgres.DB, statements ...string) {
	t.Helper()
	for _, q := range statements {
		if _, err := db.SQL().ExecContext(within(t), q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

func TestSQL(t *testing.T) {
	t.Parallel()
	db := open(t)
	run(t, db, `CREATE TABLE v (i BIGINT, s SMALLINT, f DOUBLE PRECISION, d NUMERIC(20,5), x TEXT, b BYTEA, at TIMESTAMP, tz TIMESTAMPTZ, day DATE, u UUID)`)
	const text = `INSERT INTO v VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	moment := time.Date(2026, 3, 29, 3, 30, 0, 123456000, time.FixedZone("CEST", 7200))
	for name, args := range map[string][]any{
		"values": {int64(-7), 3, 0.1, "12.5", "it's", []byte{0, 255}, moment.UTC(), moment, moment.UTC(), "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
		"text": {"-7", "3", "0.1", "12.5", "it's", `\x00ff`, "2026-03-29 01:30:00.123456", "2026-03-29 01:30:00.123456", "2026-03-29",
			"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, db, "DELETE FROM v")
			if _, err := db.SQL().ExecContext(within(t), db.Bind(text), args...); err != nil {
				t.Fatal(err)
			}
			s, err := db.Describe(within(t), "v")
			must(t, err)
			var got []string
			for _, c := range s.Columns {
				var v string
				must(t, db.SQL().QueryRowContext(within(t), "SELECT "+db.Words().AsText(c)+" FROM v").Scan(&v))
				got = append(got, v)
			}
			want := []string{"-7", "3", "0.1", "12.50000", "it's", `\x00ff`, "2026-03-29 01:30:00.123456", "2026-03-29 01:30:00.123456+00", "2026-03-29",
				"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			var n int
			for want, operator := range []string{"<", "<="} {
				q := db.Bind("SELECT count(*) FROM v WHERE (i, at) >= (?, ?) AND tz " + operator + " ?")
				if err := db.SQL().QueryRowContext(within(t), q, got[0], got[6], got[7]).Scan(&n); err != nil || n != want {
					t.Errorf("%s: %d rows, %v", q, n, err)
				}
			}
		})
	}
	// The table changes between two uses of the same statement.
	for range 3 {
		if err := db.SQL().QueryRowContext(within(t), "SELECT * FROM v").Err(); err != nil {
			t.Error(err)
		}
		run(t, db, "ALTER TABLE v DROP COLUMN x", "ALTER TABLE v ADD COLUMN x INTEGER DEFAULT 1")
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	db := open(t)
	if _, err := db.Describe(within(t), "nothing"); !errors.Is(err, engine.ErrNoTable) {
		t.Errorf("got %v", err)
	}
	run(t, db, `CREATE DOMAIN euro AS NUMERIC(10,2)`,
		`CREATE TABLE "sho""ps" (id INTEGER PRIMARY KEY)`,
		`CREATE UNLOGGED TABLE "it's" (id BIGINT GENERATED ALWAYS AS IDENTITY, n SERIAL, "a b" VARCHAR(40) NOT NULL DEFAULT 'x', price euro, raw BYTEA,
			at TIMESTAMP(3) NOT NULL, tz TIMESTAMPTZ, r REAL, j JSONB, twice INTEGER GENERATED ALWAYS AS (n * 2) STORED, shop INTEGER REFERENCES "sho""ps",
			gone INTEGER, PRIMARY KEY (at, id), UNIQUE (n, at)) WITH (fillfactor=70)`,
		`ALTER TABLE "it's" DROP COLUMN gone`,
		`CREATE INDEX low ON "it's" (lower("a b"), price) INCLUDE (raw)`, `CREATE UNIQUE INDEX positive ON "it's" (price) WHERE price > 0`,
		`CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`, `CREATE TRIGGER tr BEFORE INSERT ON "it's" FOR EACH ROW EXECUTE FUNCTION f()`,
		`CREATE VIEW v AS SELECT 1 AS one`,
		`CREATE TABLE p (id BIGINT NOT NULL, at TIMESTAMPTZ NOT NULL) PARTITION BY RANGE (at)`, `CREATE TABLE p_rest PARTITION OF p DEFAULT`,
		`CREATE TABLE two (a BIGINT, b BIGINT) PARTITION BY RANGE (a, b)`)
	got, err := db.Describe(within(t), "it's")
	must(t, err)
	want := &engine.Schema{
		Name: "it's",
		Columns: []engine.SchemaColumn{
			{Name: "id", Native: "bigint", Type: values.Type{Kind: values.Int, Bits: 64}, Auto: true},
			{Name: "n", Native: "integer", Type: values.Type{Kind: values.Int, Bits: 32}, Auto: true, Default: `nextval('"it''s_n_seq"'::regclass)`},
			{Name: "a b", Native: "character varying(40)", Type: values.Type{Kind: values.Text, Length: 40}, Default: `'x'::character varying`},
			{Name: "price", Native: "euro", Type: values.Type{Kind: values.Decimal, NaN: true}, Null: true},
			{Name: "raw", Native: "bytea", Type: values.Type{Kind: values.Bytes}, Null: true},
			{Name: "at", Native: "timestamp(3) without time zone", Type: values.Type{Kind: values.Time, Digits: 3}},
			{Name: "tz", Native: "timestamp with time zone", Type: values.Type{Kind: values.Time, Digits: 6}, Null: true},
			{Name: "r", Native: "real", Type: values.Type{Kind: values.Float, Bits: 32, NaN: true}, Null: true},
			{Name: "j", Native: "jsonb", Type: values.Type{Logical: values.JSON}, Null: true},
			{Name: "twice", Native: "integer", Type: values.Type{Kind: values.Int, Bits: 32}, Null: true, Generated: true},
			{Name: "shop", Native: "integer", Type: values.Type{Kind: values.Int, Bits: 32}, Null: true},
		},
		PrimaryKey: []string{"at", "id"},
		Unique:     [][]string{{"n", "at"}}, UniqueOther: []string{"positive"},
		Indexes: []engine.Index{{Name: "it's_n_at_key", Columns: []string{"n", "at"}},
			{Name: "low", Columns: []string{"lower(\"a b\"::text)", "price"}}, {Name: "positive", Columns: []string{"price"}}},
		Triggers: []string{"tr"},
		Options:  map[string]string{"identity": "always: id"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if v, err := db.Describe(within(t), "v"); err != nil || !v.View || v.Partitioned {
		t.Errorf("%+v, %v", v, err)
	}
	if p, err := db.Describe(within(t), "p"); err != nil || !p.Partitioned || p.By != "at" || p.Options["default_partition"] != "p_rest" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := db.Describe(within(t), "two"); err != nil || !p.Partitioned || p.By != "" {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestLead checks that a lock is kept while it is pinged, until the database is closed.
func TestLead(t *testing.T) {
	t.Parallel()
	db := open(t)
	lease, err := db.Lead(within(t), "readings")
	must(t, err)
	select {
	case <-lease.Lost():
		t.Fatal("lost")
	case <-time.After(1200 * time.Millisecond): // longer than the ping interval
	}
	must(t, db.Close())
	<-lease.Lost()
	if _, err := db.Lead(within(t), "readings"); err == nil {
		t.Error("a closed database gives leases")
	}
}

func TestRunning(t *testing.T) {
	// It counts every statement on the server.
	db := openAlone(t)
	before, err := db.Running(within(t))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	busy, own := make(chan error, 1), make(chan error, 1)
	c := session(t, db)
	go func() {
		_, err := c.Exec(ctx, "SELECT pg_sleep(60)").ReadAll()
		busy <- err
	}()
	go func() {
		_, err := db.SQL().ExecContext(ctx, "SELECT pg_sleep(60)")
		own <- err
	}()
	for value(t, db, "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(60)' AND state = 'active'") != "2" {
		time.Sleep(5 * time.Millisecond)
	}
	got, err := db.Running(within(t))
	if err != nil || got != before+1 {
		t.Errorf("%d, %v; before %d", got, err, before)
	}
	cancel()
	<-busy
	<-own
}

// kindsOfTables returns a rolling table for each type of time column.
func kindsOfTables(t testing.TB) map[string]*engine.Table {
	t.Helper()
	day, err := rolling.Parse("1d")
	must(t, err)
	rows, err := rolling.Parse("100 rows")
	must(t, err)
	declared := func(kind string, grid rolling.Grid, epoch time.Duration) *engine.Table {
		return &engine.Table{Name: "r", Grid: grid, By: "ts", Epoch: epoch,
			Definition: &rolling.Definition{Name: "r", Columns: []rolling.DefinedColumn{{Name: "id", Type: "date"}, {Name: "ts", Type: kind}}}}
	}
	return map[string]*engine.Table{
		"TIMESTAMP":                   declared("TIMESTAMP", day, 0),
		"timestamp(6)":                declared("timestamp(6)", day, 0),
		"timestamptz":                 declared("timestamptz", day, 0),
		"Timestamp(6) With Time Zone": declared("Timestamp(6) With Time Zone", day, 0),
		"date":                        declared("date", day, 0),
		"bigint":                      declared("bigint", day, time.Microsecond),
		"int8":                        declared("int8", day, time.Millisecond),
		"integer":                     declared("integer", day, time.Second),
		"BIGSERIAL":                   declared("BIGSERIAL", rows, 0),
	}
}

// TestWordsOfPositions checks that positions convert both ways exactly to the
// microsecond, or to the resolution of the column.
func TestWordsOfPositions(t *testing.T) {
	t.Parallel()
	db := open(t)
	w := db.Words()
	for kind, table := range kindsOfTables(t) {
		t.Run(kind, func(t *testing.T) {
			unit, positions := int64(1), []int64{0, 1, 99, 1795197600123456, 1795197600000000, 253402300799999999, 9466848000000001}
			column := kind
			switch {
			case table.Epoch > 0:
				unit = table.Epoch.Microseconds()
			case kind == "date":
				unit = 86400e6
			case kind == "BIGSERIAL":
				column = "bigint"
			}
			if table.Grid.Axis() == rolling.Time {
				positions = append(positions, -1, -999999, -86400e6, -30610224000000000, -1234567890123456)
			}
			if kind == "integer" {
				positions = []int64{0, 1, 1795197600123456, -1, -1234567890123456}
			}
			for _, pos := range positions {
				want := pos - (pos%unit+unit)%unit
				for what, expr := range map[string]string{
					"literal":       w.Position(table, w.Literal(table, pos)),
					"column":        w.Position(table, "("+w.Literal(table, pos)+")::"+column),
					"from position": w.Position(table, w.FromPosition(table, fmt.Sprint("'", pos, "'::bigint"))),
					"of sums":       w.Position(table, w.FromPosition(table, fmt.Sprintf("'%d'::bigint + '1'::bigint", pos-1))),
				} {
					var got int64
					var kept string
					err := db.SQL().QueryRowContext(within(t), "SELECT "+expr+", pg_typeof("+w.FromPosition(table, "'0'::bigint")+")::text").Scan(&got, &kept)
					if err != nil || got != want {
						t.Errorf("%s of %d: %d, %v (%s)", what, pos, got, err, expr)
					}
					var is bool
					if err := db.SQL().QueryRowContext(within(t), "SELECT '"+kept+"'::regtype = format_type('"+column+"'::regtype, NULL)::regtype").Scan(&is); err != nil || !is {
						t.Fatalf("a value from a position is of type %s, %v", kept, err)
					}
				}
			}
		})
	}
}

// TestRowHash checks that the hash is independent of the account's settings.
func TestRowHash(t *testing.T) {
	t.Parallel()
	db := open(t)
	run(t, db, "CREATE TABLE a (i BIGINT, s TEXT, f DOUBLE PRECISION, at TIMESTAMPTZ)",
		"INSERT INTO a SELECT n, 's' || n, sqrt(n), to_timestamp(n) FROM generate_series(1, 1000) n")
	s, err := db.Describe(within(t), "a")
	must(t, err)
	var before, after string
	q := "SELECT " + db.Words().RowHash(s.Columns) + " FROM a"
	must(t, db.SQL().QueryRowContext(within(t), q).Scan(&before))
	run(t, db, "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET extra_float_digits = 0', current_database()); "+
		"EXECUTE format('ALTER DATABASE %I SET TimeZone = ''Europe/Berlin''', current_database()); "+
		"EXECUTE format('ALTER DATABASE %I SET DateStyle = ''German''', current_database()); END $$")
	again, err := postgres.Open(within(t), db.Target())
	must(t, err)
	defer again.Close()
	if err := again.SQL().QueryRowContext(within(t), q).Scan(&after); err != nil || before != after {
		t.Errorf("with other settings %s, %s, %v", before, after, err)
	}
}

// TestTemplate checks that a template has columns, defaults, keys and checks,
// but assigns no keys, and that index names never collide.
func TestTemplate(t *testing.T) {
	t.Parallel()
	db := open(t)
	long := strings.Repeat("long", 15)
	table := &engine.Table{Name: long}
	run(t, db, `CREATE TABLE `+long+` (id BIGINT GENERATED ALWAYS AS IDENTITY, at TIMESTAMP NOT NULL, "no te" TEXT DEFAULT 'x' CHECK ("no te" <> ''),
		j JSONB, fixed TEXT COLLATE "C", n INTEGER, twice INTEGER GENERATED ALWAYS AS (n * 2) STORED, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)`,
		"ALTER TABLE "+long+" ALTER COLUMN fixed SET STORAGE PLAIN", "CREATE INDEX ON "+long+" (n)", "CREATE INDEX ON "+long+" USING gin (j)")
	want, err := db.Describe(within(t), long)
	must(t, err)
	for i, o := range []engine.Storage{{}, {Compress: true}, {Compress: true}} {
		name := strings.Repeat("long", 14) + `'"%s$$` + strconv.Itoa(i)
		run(t, db, db.Words().CreateTemplate(table, name, o)...)
		got, err := db.Describe(within(t), name)
		must(t, err)
		if got.Columns[0].Auto {
			t.Error("it assigns keys")
		}
		got.Columns[0].Auto = true
		if d := cmp.Diff(want.Columns, got.Columns); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(want.PrimaryKey, got.PrimaryKey); d != "" || len(got.Indexes) != 2 {
			t.Error(d, got.Indexes)
		}
		q := fmt.Sprintf("SELECT string_agg(attstorage::text || attcompression::text, ',' ORDER BY attnum) FROM pg_attribute WHERE attnum > 0 AND attrelid = to_regclass('%s')",
			strings.ReplaceAll(db.Dialect().Quote(name), "'", "''"))
		layout := map[bool]string{true: "p,p,ml,ml,p,p,p", false: "p,p,x,x,p,p,p"}[o.Compress]
		wantValue(t, db, q, layout)
	}
}

// TestBlockersThatAreNoConnections checks that a prepared transaction is a
// blocker: it holds its locks without a connection, even after a restart.
func TestBlockersThatAreNoConnections(t *testing.T) {
	t.Parallel()
	db := testdb.Open(t, "postgres?set=max_prepared_transactions=4,wal_level=replica,max_wal_senders=4").(*postgres.DB)
	table, _ := rolls(t, db, 2, 2)
	c := session(t, db)
	exec(t, c, "BEGIN", "UPDATE rolls SET n = 1 WHERE id = 1", "PREPARE TRANSACTION 'it''s'")
	got, err := db.Blockers(within(t), table)
	if err != nil || len(got) != 1 || got[0].ID != 0 || got[0].User == "" || got[0].Statement != "PREPARE TRANSACTION 'it''s'" || got[0].Age <= 0 {
		t.Errorf("%+v, %v", got, err)
	}
	exec(t, c, "ROLLBACK PREPARED 'it''s'")
	if got, err := db.Blockers(within(t), table); err != nil || len(got) > 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
