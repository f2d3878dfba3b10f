package adopt

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

// belongings is a query for what belongs to the table events and isn't in its
// definition, for each server.
var belongings = map[string]string{
	"postgres": "SELECT 'grant ' || grantee || ' ' || privilege_type || ' ' || is_grantable FROM information_schema.role_table_grants WHERE table_name = 'events' AND grantee <> current_user " +
		"UNION ALL SELECT 'grant ' || grantee || ' ' || privilege_type || ' on ' || column_name FROM information_schema.column_privileges WHERE table_name = 'events' AND grantee <> current_user " +
		"UNION ALL SELECT 'owner ' || tableowner FROM pg_tables WHERE tablename = 'events' " +
		"UNION ALL SELECT 'publication ' || pubname || ' of ' || tablename FROM pg_publication_tables " +
		"UNION ALL SELECT 'comment ' || objsubid || ' ' || description FROM pg_description WHERE objoid = 'events'::regclass " +
		"UNION ALL SELECT 'storage ' || attname || ' ' || attstorage::text FROM pg_attribute WHERE attrelid = 'events'::regclass AND attnum > 0 " +
		"UNION ALL SELECT 'default ' || column_name || ' ' || column_default FROM information_schema.columns WHERE table_name = 'events' AND column_default IS NOT NULL " +
		"UNION ALL SELECT 'check ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c' AND conrelid = 'events'::regclass ORDER BY 1",
}

func (w *world) belongings() []string {
	w.t.Helper()
	out, err := engine.List[string](w.t.Context(), w.db, w.db.SQL(), belongings[w.kind])
	must(w.t, err)
	return out
}

// reader creates an account that is dropped after the test.
func (w *world) reader() string {
	name := fmt.Sprintf("reader_%d", w.number("SELECT pg_backend_pid()"))
	w.exec("CREATE ROLE " + name)
	w.t.Cleanup(func() {
		w.exec("DROP OWNED BY " + name)
		w.exec("DROP ROLE " + name)
	})
	return name
}

// TestAttributes: what belongs to a table, and not to its name or definition, is that
// of the rolling table afterwards, and that of the plain table after an undo.
func TestAttributes(t *testing.T) {
	on(t, []string{"postgres"}, func(t *testing.T, w *world) {
		w.fill(50)
		who := w.reader()
		for _, q := range []string{
			"GRANT SELECT (id, ver) ON events TO " + who, "GRANT INSERT ON events TO " + who + " WITH GRANT OPTION", "GRANT UPDATE ON events TO PUBLIC",
			"ALTER DEFAULT PRIVILEGES GRANT SELECT, DELETE ON TABLES TO " + who,
			"CREATE PUBLICATION all_of_it FOR TABLE events WITH (publish_via_partition_root = true)",
			"COMMENT ON TABLE events IS 'of the shop''s {}'", "COMMENT ON COLUMN events.name IS 'any'",
			"ALTER TABLE events ALTER COLUMN name SET STORAGE EXTERNAL, ALTER COLUMN ver SET DEFAULT 7, ADD CONSTRAINT positive CHECK (ver >= 0)",
		} {
			w.exec(q)
		}
		want := w.belongings()
		same := func(when string) {
			t.Helper()
			if got := w.belongings(); !slices.Equal(got, want) {
				t.Errorf("%s:\n%s\nwant:\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
		o := w.options()
		plan, err := Plan(t.Context(), o)
		must(t, err)
		planned := w.planned(plan.Statements, nil)
		// What comes during the adoption counts, too; what can't be carried over stops it.
		o.at = func(p string) error {
			if p == "verify: noted" {
				w.exec("COMMENT ON COLUMN events.ver IS 'late'")
				w.exec("REVOKE UPDATE ON events FROM PUBLIC")
				want = w.belongings()
				w.exec("CREATE RULE quiet AS ON DELETE TO events WHERE OLD.ver > 99 DO NOTHING")
			}
			return nil
		}
		if err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "rule quiet on table events") || w.rolls() {
			t.Fatalf("with a rule: %v", err)
		}
		w.exec("DROP RULE quiet ON events")
		same("before the swap")
		must(t, Run(t.Context(), w.options()))
		same("adopted")
		for _, q := range []string{"GRANT UPDATE ON TABLE \"events__rowmill_new\" TO PUBLIC", "ALTER PUBLICATION all_of_it ADD TABLE \"events__rowmill_new\"", "ALTER PUBLICATION all_of_it DROP TABLE \"events\""} {
			if !strings.Contains(planned, q) {
				t.Errorf("no %s in the plan:\n%s", q, planned)
			}
		}
		for _, q := range []string{
			"COMMENT ON TABLE events IS 'rolling'", "COMMENT ON COLUMN events.name IS NULL", "REVOKE SELECT (ver) ON events FROM " + who, "GRANT SELECT (ts) ON events TO " + who,
			"CREATE PUBLICATION more FOR TABLE events WITH (publish_via_partition_root = true)",
		} {
			w.exec(q)
		}
		want = w.belongings()
		w.exec("CREATE STATISTICS related ON name, ver FROM events")
		if err := Undo(t.Context(), w.options()); err == nil || !strings.Contains(err.Error(), "statistics object related") || !w.rolls() {
			t.Fatalf("with statistics: %v", err)
		}
		w.exec("DROP STATISTICS related")
		must(t, Undo(t.Context(), w.options()))
		same("undone")
		must(t, Run(t.Context(), w.options()))
		must(t, Finish(t.Context(), w.options()))
		same("finished")
	})
}

// TestAttributesThatStay: an adoption is refused, before anything is changed, with all
// that can't be carried over.
func TestAttributesThatStay(t *testing.T) {
	on(t, []string{"postgres"}, func(t *testing.T, w *world) {
		for _, q := range []string{
			"CREATE TABLE parent (ver BIGINT)", "ALTER TABLE events INHERIT parent", "CREATE TABLE child () INHERITS (events)",
			"CREATE VIEW mine AS SELECT id FROM events", "CREATE POLICY owned ON events USING (ver > 0)", "ALTER TABLE events ENABLE ROW LEVEL SECURITY",
			"CREATE RULE quiet AS ON DELETE TO events WHERE OLD.ver > 99 DO NOTHING", "CREATE STATISTICS related ON name, ver FROM events",
			"CREATE FUNCTION age(e events) RETURNS bigint LANGUAGE sql AS 'SELECT e.ver'", "CREATE FUNCTION many(e events[]) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
			"ALTER TABLE events REPLICA IDENTITY FULL, SET (fillfactor = 70, autovacuum_enabled = false), CLUSTER ON events_pkey, ADD EXCLUDE (v WITH =)",
			"ALTER TABLE events ALTER COLUMN name SET STATISTICS 500, ALTER COLUMN ver SET (n_distinct = 5)",
			"CREATE PUBLICATION leaves FOR TABLE events", "CREATE PUBLICATION anything FOR ALL TABLES WITH (publish_via_partition_root = true)",
			"CREATE PUBLICATION ids FOR TABLE events (id) WITH (publish_via_partition_root = true)",
			"SET allow_system_table_mods = on; INSERT INTO pg_seclabel VALUES ('events'::regclass, 'pg_class'::regclass, 0, 'guard', 'secret'); INSERT INTO pg_subscription_rel VALUES (1, 'events'::regclass, 'r', NULL); RESET allow_system_table_mods",
		} {
			w.exec(q)
		}
		had := w.tables()
		_, planned := Plan(t.Context(), w.options())
		for _, err := range []error{planned, Run(t.Context(), w.options())} {
			for _, want := range []string{
				"table parent", "table child", "view mine", "policy owned on table events", "row level security", "rule quiet on table events", "statistics object related",
				"function age(events)", "function many(events[])", "REPLICA IDENTITY FULL", "fillfactor=70, autovacuum_enabled=false", "CLUSTER ON events_pkey",
				"constraint events_v_excl on table events", "the statistics target of column name", "n_distinct=5 of column ver",
				"publication leaves", "publication anything", "publication ids", "the security label of guard", "the subscription that writes to it",
			} {
				if err == nil || !strings.Contains(err.Error(), want+" would stay with events__rowmill_old") {
					t.Errorf("no %q in %v", want, err)
				}
			}
		}
		w.wantTables(had...)
	})
}

// TestAttributesOfTheDeclaration: what only the declaration can give the rolling table
// must be in it.
func TestAttributesOfTheDeclaration(t *testing.T) {
	on(t, concurrent, func(t *testing.T, w *world) {
		w.fill(20)
		before := []string{
			"ALTER TABLE events COMMENT = 'of the shop', STATS_PERSISTENT = 0, MODIFY name VARCHAR(40) COMMENT 'any', MODIFY d DECIMAL(10,2) DEFAULT 5.25, " +
				"ADD changed DATETIME NULL ON UPDATE CURRENT_TIMESTAMP",
		}
		missing := []string{"its comment ", "its option stats_persistent", "comment of column name", "default of column d", "ON UPDATE of column changed"}
		mended := strings.NewReplacer("name VARCHAR(40)", "name VARCHAR(40) COMMENT 'any'", "d DECIMAL(10,2)", "d DECIMAL(10,2) DEFAULT 5.25, changed DATETIME NULL ON UPDATE CURRENT_TIMESTAMP",
			"DEFAULT CHARSET", "COMMENT = 'of the shop' STATS_PERSISTENT = 0 DEFAULT CHARSET").Replace(definition(w.kind, "(id, ts)"))
		plain := strings.Replace(definition(w.kind, "(id, ts)"), "d DECIMAL(10,2)", "d DECIMAL(10,2), changed DATETIME NULL", 1)
		switch w.kind {
		case "mariadb":
			before = append(before, "ALTER TABLE events ADD CHECK (ver >= 0)")
			missing = append(missing, "CHECK constraint 1")
			mended = strings.Replace(mended, "PRIMARY KEY", "CHECK (ver >= 0), PRIMARY KEY", 1)
		case "postgres":
			before, missing = []string{"ALTER TABLE events ALTER COLUMN name SET COMPRESSION pglz"}, []string{"compression of column name"}
			plain = definition(w.kind, "(id, ts)")
			mended = strings.Replace(plain, "VARCHAR(40)", "VARCHAR(40) COMPRESSION pglz", 1)
		}
		for _, q := range before {
			w.exec(q)
		}
		w.d = declareNow(plain)
		err := Run(t.Context(), w.options())
		for _, want := range missing {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("no %q in %v", want, err)
			}
		}
		w.wantTables("events")
		w.d = declareNow(mended)
		must(t, Run(t.Context(), w.options()))
		// The declaration's own don't hinder the way back.
		must(t, Undo(t.Context(), w.options()))
		w.d = declareNow(strings.Replace(mended, "name VARCHAR(40)", "name VARCHAR(40) /* the same */", 1))
		if w.kind != "postgres" {
			w.exec("ALTER TABLE events COMMENT = ''")
		}
		must(t, Run(t.Context(), w.options()))
		must(t, Undo(t.Context(), w.options()))
	})
}

// TestGrantsOfColumns: privileges on the table's columns belong to its name.
func TestGrantsOfColumns(t *testing.T) {
	on(t, []string{"mariadb", "mysql"}, func(t *testing.T, w *world) {
		w.fill(20)
		who := fmt.Sprintf("reader_%d", w.number("SELECT CONNECTION_ID()"))
		w.exec("CREATE USER " + who)
		t.Cleanup(func() { w.exec("DROP USER " + who) })
		w.exec("GRANT SELECT (id, ver), INSERT (name), DELETE ON events TO " + who)
		grants := func() string {
			t.Helper()
			out, err := engine.List[string](t.Context(), w.db, w.db.SQL(), "SHOW GRANTS FOR "+who)
			must(t, err)
			return strings.Join(out, "\n")
		}
		want := grants()
		must(t, Run(t.Context(), w.options()))
		if got := grants(); got != want {
			t.Errorf("adopted: %s, want %s", got, want)
		}
		must(t, Undo(t.Context(), w.options()))
		if got := grants(); got != want {
			t.Errorf("undone: %s, want %s", got, want)
		}
	})
}

// TestNamesFollow: on PostgreSQL, what has the table's name in its own goes by it after the swap,
// too, as programs name constraints and sequences; an undo restores all names.
func TestNamesFollow(t *testing.T) {
	on(t, []string{"postgres"}, func(t *testing.T, w *world) {
		w.fill(50)
		names := func() (out []string) {
			out, err := engine.List[string](t.Context(), w.db, w.db.SQL(), "SELECT relname::text FROM pg_class WHERE relkind IN ('i', 'S') AND relname LIKE 'events%' ORDER BY 1")
			must(t, err)
			return out
		}
		had := names()
		must(t, Run(t.Context(), w.options()))
		w.exec("INSERT INTO events SELECT * FROM events ON CONFLICT ON CONSTRAINT events_pkey DO NOTHING")
		w.exec("SELECT setval('events_id_seq', currval('events_id_seq')) FROM (SELECT nextval('events_id_seq')) AS n")
		must(t, Undo(t.Context(), w.options()))
		if got := names(); !slices.Equal(got, had) {
			t.Errorf("names %v, want %v", got, had)
		}
	})
}
