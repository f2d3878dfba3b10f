package adopt

import (
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/state"
	"github.com/rowmill/rowmill/rolling"
)

// TestRunRefuses: tables that can't be adopted are refused before anything is
// changed.
func TestRunRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before []string // on the plain table
		key    string   // of the declaration
		change func(definition string) string
		kinds  []string
		only   bool // duplicates are not allowed
		want   string
	}{
		"keys that are no longer unique": {before: []string{"CREATE UNIQUE INDEX by_name ON events (name, ver, id)"}, only: true,
			want: "no longer unique afterwards: PRIMARY KEY (id), UNIQUE (name, ver, id)"},
		"an expression that is no longer unique": {before: []string{"CREATE UNIQUE INDEX of_sums ON events ((ver + 0), name)"}, kinds: []string{"mysql"}, only: true,
			want: "unique index of_sums"},
		"a part that is no longer unique": {before: []string{"CREATE UNIQUE INDEX of_some ON events (id, ver) WHERE ver > 5"}, kinds: []string{"sqlite", "postgres"}, only: true,
			want: "unique index of_some"},
		"rows share the new key": {key: "(ts)", want: "rows of the table may share it"},
		"key without the time":   {key: "(id)", want: "lacks ts, by which the table rolls"},
		"a foreign key": {before: []string{"CREATE TABLE other (event BIGINT, FOREIGN KEY (event) REFERENCES events (id))"},
			want: " would stay with events__rowmill_old"},
		"a trigger": {before: []string{"CREATE TRIGGER mine AFTER INSERT ON events BEGIN SELECT 1; END"}, kinds: []string{"sqlite"}, want: "trigger mine would stay with events__rowmill_old"},
		"a trigger of MySQL": {before: []string{"CREATE TRIGGER mine BEFORE INSERT ON events FOR EACH ROW SET NEW.ver = 1"},
			kinds: []string{"mariadb", "mysql"}, want: "trigger mine would stay with events__rowmill_old"},
		"a type that partitions can't have": {before: []string{"ALTER TABLE events ADD g POINT"}, change: func(d string) string { return strings.Replace(d, "ver BIGINT", "g POINT, ver BIGINT", 1) },
			kinds: []string{"mariadb", "mysql"}, want: "doesn't support"},
		"a view": {before: []string{"CREATE VIEW mine AS SELECT id FROM events"}, kinds: []string{"postgres"}, want: "view mine would stay with events__rowmill_old"},
		"a column of the declaration only": {change: func(d string) string { return strings.Replace(d, "ver BIGINT", "more INT, ver BIGINT", 1) },
			want: "column more is in the declaration only"},
		"a column of the table only": {change: func(d string) string { return strings.Replace(d, "name VARCHAR(40), ", "", 1) },
			want: "column name, which the declaration lacks"},
		"another type": {change: func(d string) string { return strings.Replace(d, "VARCHAR(40)", "VARCHAR(41)", 1) }, want: "column name is"},
		"another collation": {change: func(d string) string { return strings.Replace(d, "utf8mb4_bin", "utf8mb4_general_ci", 1) },
			kinds: []string{"mariadb", "mysql"}, want: "collation of column name is utf8mb4_bin"},
		"another collation of PostgreSQL": {change: func(d string) string { return strings.Replace(d, "VARCHAR(40)", `VARCHAR(40) COLLATE "en-x-icu"`, 1) },
			kinds: []string{"postgres"}, want: "collation of column name is the default in the table"},
		"a time that no period holds":    {before: []string{"INSERT INTO events (id, ts, ver) VALUES (77, '0001-01-01 00:00:00', 1)"}, want: "1 row has a ts that no period can hold"},
		"an instant in another spelling": {before: []string{"INSERT INTO events (id, ts, ver) VALUES (77, '2026-03-28 12:00:00.5', 1)"}, kinds: []string{"sqlite"}, want: "1 row has a ts that no period can hold"},
		"infinity":                       {before: []string{"INSERT INTO events (id, ts, ver) VALUES (77, 'infinity', 1)"}, kinds: []string{"postgres"}, want: "1 row has a ts that no period can hold"},
		"no month": {before: []string{"INSERT /*+ SET_VAR(sql_mode = '') */ INTO events (id, ts, ver) VALUES (77, '2026-00-10 01:00:00', 1), (78, '2026-03-00 00:00:00', 1)"}, kinds: []string{"mysql", "mariadb"},
			want: "2 rows have a ts that no period can hold"},
		"stray times":      {before: []string{"INSERT INTO events (id, ts, ver) VALUES (77, '1900-01-01 00:00:00', 1), (78, '9999-12-31 00:00:00', 1)"}, want: "or from 2026-04-03 23:00:00 on: 2 of 52; the others are from 2026-03-28 "},
		"one stray time":   {before: []string{"INSERT INTO events (id, ts, ver) VALUES (77, '1970-01-20 00:00:00', 1)"}, want: "on: 1 of 51; the others are from 2026-03-28 "},
		"too many periods": {before: []string{"UPDATE events SET ts = '1900-01-01 00:00:00' WHERE id < 40"}, want: "take a longer period"},
	} {
		t.Run(name, func(t *testing.T) {
			kinds := c.kinds
			if kinds == nil {
				kinds = servers
			}
			on(t, kinds, func(t *testing.T, w *world) {
				w.fill(50)
				for _, q := range c.before {
					w.exec(q)
				}
				key := c.key
				if key == "" {
					key = "(id, ts)"
				}
				text := definition(w.kind, key)
				if c.change != nil {
					text = c.change(text)
				}
				w.d = declareNow(text)
				had := w.tables()
				o := w.options()
				o.AllowDuplicates = !c.only
				err := Run(t.Context(), o)
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("error %v, want %q", err, c.want)
				}
				if got := w.tables(); !slices.Equal(got, had) || w.rolls() {
					t.Errorf("tables %v, had %v", got, had)
				}
			})
		})
	}
}

// TestVerifyRepairs: rows that differ without a trigger's entry are found by the comparison, and
// copied: what differs when it is copied, while that goes on; all later, if the load is limited,
// because rows are compared after the copy then.
func TestVerifyRepairs(t *testing.T) {
	for at, limited := range map[string]bool{"copy: chunk": false, "copy: noted": true} {
		t.Run(at, func(t *testing.T) {
			onServers(t, func(t *testing.T, w *world) {
				w.fill(1200)
				o := w.options()
				if limited {
					o.Limits.Nice = 1e-9
				}
				done, early := false, int64(0)
				o.at = func(point string) error {
					if point == "copy: noted" {
						early = w.journal().CheckedRows
					}
					if point != at || done {
						return nil
					}
					done = true
					into := "events__rowmill_new"
					if w.kind == "sqlite" {
						into = "events__rowmill_new_p20260329"
					}
					w.exec("DELETE FROM " + into + " WHERE id BETWEEN 100 AND 200")
					w.exec("UPDATE " + into + " SET v = 1 WHERE id BETWEEN 700 AND 800")
					return nil
				}
				must(t, Run(t.Context(), o))
				w.check("events")
				if early != 0 {
					t.Errorf("%d rows were found equal while they were copied", early)
				}
			})
		})
	}
}

// journal returns the state of the adoption.
func (w *world) journal() (d data) {
	w.t.Helper()
	c, err := UnderWay(w.t.Context(), state.New(w.db), "events")
	must(w.t, err)
	must(w.t, c.Load(&d))
	return d
}

// TestCompareEarly: on servers, all rows are compared while more are copied.
func TestCompareEarly(t *testing.T) {
	onServers(t, func(t *testing.T, w *world) {
		w.fill(1200)
		o := w.options()
		o.at = func(point string) error {
			if point == "copy: noted" {
				if d := w.journal(); d.Rows == 0 || d.CheckedRows != d.Rows && !w.db.Capabilities().SerialWrites {
					t.Errorf("%d of %d rows were compared", d.CheckedRows, d.Rows)
				}
			}
			return nil
		}
		must(t, Run(t.Context(), o))
		w.check("events")
	})
}

// TestTrapCounterGoesOn: generated keys continue from the previous counter, also if
// the rows with the highest keys were deleted.
func TestTrapCounterGoesOn(t *testing.T) {
	on(t, concurrent, func(t *testing.T, w *world) {
		w.fill(100)
		for range 50 {
			w.exec("INSERT INTO events (ts, ver) VALUES ('2026-03-29 00:00:00', 1)")
		}
		w.exec("DELETE FROM events WHERE id > 100")
		must(t, Run(t.Context(), w.options()))
		w.exec("INSERT INTO events (ts, ver) VALUES ('2026-03-29 00:00:00', 1)")
		w.wantNumber(151, "SELECT MAX(id) FROM events") // the next row's
	})
}

// TestTrapOpenTransaction: a transaction that has used the table delays the cut-over
// and is reported; inserts wait no longer than one attempt.
func TestTrapOpenTransaction(t *testing.T) {
	on(t, concurrent, func(t *testing.T, w *world) {
		w.fill(500)
		o := w.options()
		release := func() {}
		o.at = func(point string) error {
			if point == "verify: noted" {
				tx, err := w.users.Begin()
				if err != nil {
					return err
				}
				release = func() { _ = tx.Rollback() }
				var n int
				return tx.QueryRow("SELECT COUNT(*) FROM events").Scan(&n)
			}
			return nil
		}
		var blockers []engine.Blocker
		paused := 0
		o.Progress = func(p Progress) {
			if strings.Contains(p.Paused, "change the names waits for the lock") {
				blockers = append(blockers, p.Blockers...)
				if paused++; paused == 2 {
					release()
				}
			}
		}
		stop := w.load(2, 500)
		err := Run(t.Context(), o)
		stop()
		must(t, err)
		w.check("events")
		if paused < 2 {
			t.Errorf("it was held up %d times", paused)
		}
		if len(blockers) == 0 || blockers[0].ID == 0 {
			t.Errorf("blockers %v", blockers)
		}
		t.Logf("the longest transaction %v", w.stall)
	})
}

func TestAddedColumns(t *testing.T) {
	schema := &engine.Schema{Name: "t", Columns: []engine.SchemaColumn{{Name: "id", Native: "bigint(20)"}, {Name: "ts", Native: "datetime"}, {Name: "v", Native: "double"}}}
	const head = "CREATE TABLE t (id BIGINT NOT NULL, ts DATETIME NOT NULL, "
	for name, c := range map[string]struct {
		text  string
		added string
		err   string
	}{
		"nothing":       {head + "v DOUBLE, PRIMARY KEY (id, ts))", "", ""},
		"one":           {head + "v DOUBLE, w INT NULL, PRIMARY KEY (id, ts))", "w INT NULL", ""},
		"with default":  {head + "v DOUBLE, w INT NOT NULL DEFAULT 7, PRIMARY KEY (id, ts))", "w INT NOT NULL DEFAULT 7", ""},
		"not null":      {head + "v DOUBLE, w INT NOT NULL, PRIMARY KEY (id, ts))", "", "column w is NOT NULL"},
		"dropped":       {head + "PRIMARY KEY (id, ts))", "", "column v, which the declaration lacks"},
		"another type":  {head + "v DECIMAL(10,2), PRIMARY KEY (id, ts))", "", "column v is double in the table and DECIMAL(10,2)"},
		"other name of": {head + "v DOUBLE PRECISION, PRIMARY KEY (id, ts))", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := rolling.ReadDefinition(c.text)
			must(t, err)
			got, err := AddedColumns(schema, d)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			must(t, err)
			text := ""
			for _, a := range got {
				text += a.Definition
			}
			if text != c.added {
				t.Errorf("added %q, want %q", text, c.added)
			}
		})
	}
}

func TestOtherType(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"INT", "int(11)", false},
		{"INTEGER", "int", false},
		{"int4", "integer", false},
		{"INT UNSIGNED", "int(10)", true},
		{"INT UNSIGNED", "int(10) unsigned", false},
		{"BIGINT", "int", true},
		{"VARCHAR(10)", "character varying(10)", false},
		{"VARCHAR(10)", "character varying(20)", true},
		{"DECIMAL(10)", "numeric(10,0)", false},
		{"DECIMAL(10, 2)", "numeric(10,2)", false},
		{"DECIMAL(10,2)", "decimal(12,2)", true},
		{"TIMESTAMP", "timestamp without time zone", false},
		{"TIMESTAMPTZ", "timestamp with time zone", false},
		{"TIMESTAMPTZ", "timestamp without time zone", true},
		{"DATETIME(6)", "datetime(6)", false},
		{"DATETIME(0)", "datetime", false},
		{"BOOLEAN", "tinyint(1)", false},
		{"mood", "mood2", false},
		{"DOUBLE", "DOUBLE", false},
		{"REAL", "double", false},
	} {
		if got := otherType(c.a, c.b); got != c.want {
			t.Errorf("otherType(%q, %q) = %v", c.a, c.b, got)
		}
	}
}

func TestLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		schema engine.Schema
		key    []string   // the primary key of the rolling table
		unique [][]string // its other unique keys
		want   []string
	}{
		"primary key":        {engine.Schema{PrimaryKey: []string{"id"}}, []string{"id", "ts"}, nil, []string{"PRIMARY KEY (id)"}},
		"kept":               {engine.Schema{PrimaryKey: []string{"ts", "id"}}, []string{"id", "ts"}, nil, nil},
		"kept by a part":     {engine.Schema{PrimaryKey: []string{"id", "ts", "n"}}, []string{"ID", "ts"}, nil, nil},
		"kept by another":    {engine.Schema{PrimaryKey: []string{"id", "ts"}, Unique: [][]string{{"k", "ts"}}}, []string{"id", "ts"}, [][]string{{"ts", "k"}}, nil},
		"unique key":         {engine.Schema{PrimaryKey: []string{"id", "ts"}, Unique: [][]string{{"k"}}}, []string{"id", "ts"}, [][]string{{"k", "ts"}}, []string{"UNIQUE (k)"}},
		"both, and an index": {engine.Schema{PrimaryKey: []string{"id"}, Unique: [][]string{{"a", "b"}}, UniqueOther: []string{"odd"}}, []string{"id", "ts"}, nil, []string{"PRIMARY KEY (id)", "UNIQUE (a, b)", "unique index odd"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Lost(&c.schema, &engine.Table{PrimaryKey: c.key}, &rolling.Definition{Unique: c.unique})
			if !slices.Equal(got, c.want) {
				t.Errorf("lost %q, want %q", got, c.want)
			}
		})
	}
}
