package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

func (db *server) Mirroring(m *engine.Mirror) engine.Mirroring { return mirror{m, db} }

type mirror struct {
	*engine.Mirror
	db *server
}

// NoPosition implements engine.Mirroring. It finds infinity, and years after 9999.
func (m mirror) NoPosition() string {
	if m.Table.Epoch != 0 {
		return ""
	}
	return m.Quote(m.Table.By) + " >= '9999-12-31 23:59:59.999999'"
}

// Tables returns the statements that create the log and, if the target rolls, the table for late
// rows. The log has no sequence, so that a client's lastval() still returns the value of the
// table's own sequence.
func (m mirror) Tables() []string {
	typeOf := words{}.SumColumn
	out := []string{fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s (%s)", m.Quote(m.Log), m.Definitions(m.Logged(), typeOf))}
	return append(out, m.LateTables(typeOf)...)
}

func (m mirror) triggerNames() []string {
	return []string{m.Table.Name + "__rowmill_log", m.Table.Name + "__rowmill_truncate"}
}

// Triggers returns two triggers. The row trigger does nothing but write keys into the log, so that
// no row can make it fail. The other trigger refuses TRUNCATE. Their functions run with their
// owner's rights, so that clients need no rights on the log.
func (m mirror) Triggers(ctx context.Context) ([]engine.MirrorTrigger, error) {
	schema, err := engine.List[string](ctx, m.db, m.db.SQL(), "SELECT current_schema()::text")
	if err == nil && len(schema) != 1 {
		err = errors.New("there is none")
	}
	if err != nil {
		return nil, fmt.Errorf("read the current schema: %w", err)
	}
	in, on, cols := m.Quote(schema[0])+".", m.Quote(m.Source.Name), m.Logged()
	log := in + m.Quote(m.Log)
	trigger := func(name, when, each, body string) engine.MirrorTrigger {
		f := in + m.Quote(name)
		return engine.MirrorTrigger{Name: name, Statements: []string{
			"CREATE OR REPLACE FUNCTION " + f + "() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $rowmill$ BEGIN " + body + " RETURN NULL; END $rowmill$",
			"CREATE TRIGGER " + m.Quote(name) + " " + when + " ON " + on + " FOR EACH " + each + " EXECUTE FUNCTION " + f + "()",
		}}
	}
	names := m.triggerNames()
	return []engine.MirrorTrigger{
		trigger(names[0], "AFTER INSERT OR UPDATE OR DELETE", "ROW",
			"IF TG_OP = 'DELETE' OR TG_OP = 'UPDATE' AND ROW("+m.List(cols, "OLD.")+") IS DISTINCT FROM ROW("+m.List(cols, "NEW.")+") THEN "+m.LogValues(log, "OLD.")+"; END IF; "+
				"IF TG_OP <> 'DELETE' THEN "+m.LogValues(log, "NEW.")+"; END IF;"),
		trigger(names[1], "BEFORE TRUNCATE", "STATEMENT", "RAISE EXCEPTION 'rowmill adopts this table: it can be truncated once that is done';"),
	}, nil
}

func (m mirror) CreateTrigger(ctx context.Context, t engine.MirrorTrigger) error {
	if err := engine.ExecEach(ctx, m.db.SQL(), t.Statements); err != nil {
		return engine.Hinted(classify(err), "the privilege TRIGGER")
	}
	return nil
}

func (m mirror) DropTriggers(table string) (triggers, functions []string) {
	for _, n := range m.triggerNames() {
		triggers = append(triggers, "DROP TRIGGER IF EXISTS "+m.Quote(n)+" ON "+m.Quote(table))
		functions = append(functions, "DROP FUNCTION IF EXISTS "+m.Quote(n)+"()")
	}
	return triggers, functions
}

func (m mirror) Snapshot(ctx context.Context) (*sql.Tx, error) {
	tx, err := m.db.SQL().BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, "SET LOCAL jit = off"); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return tx, nil
}

// byIndex makes the planner find each key by its index. A new table has no statistics: the planner
// would scan all of it for a few hundred keys, or spend a millisecond compiling the query.
const byIndex = "SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_seqscan = off; SET LOCAL jit = off"

func (m mirror) ReplayStatements() []string {
	take, use := m.replay("n", engine.Predicate{})
	return slices.Concat([]string{byIndex, take}, use)
}

// replay returns two results. take is a statement that deletes a batch of entries from the log and
// returns them. use are the statements that apply these entries. They have a parameter for each
// column of the log: an array of the entries' values, as text.
func (m mirror) replay(limit string, later engine.Predicate) (take string, use []string) {
	cols := m.Logged()
	log, late, dst := m.Quote(m.Log), m.Quote(m.Late), m.Quote(m.Target.Name)
	texts, arrays, names, native := make([]string, len(cols)), make([]string, len(cols)), make([]string, len(cols)), make([]string, len(cols))
	for i, c := range cols {
		texts[i] = m.Quote(c.Name) + "::text"
		arrays[i] = fmt.Sprintf("$%d::text[]", i+1)
		names[i] = fmt.Sprintf("k%d", i+1)
		native[i] = fmt.Sprintf("k%d::%s AS %s", i+1, c.Native, m.Quote(c.Name))
	}
	// The log has no order. Entries of rows that the copy has yet to reach are taken last, and are not
	// applied, because the copy reads these rows itself. When the copy reaches them, all other entries
	// have been applied. If they had not been, a row of the target might still have a value of a
	// second unique key that belongs to another row in the source now, and the copy could not insert
	// that row.
	comes, first := "0", ""
	if later.Text != "" {
		comes = "CASE WHEN " + later.Text + " THEN 1 ELSE 0 END"
		first = " ORDER BY " + comes
	}
	take = fmt.Sprintf("DELETE FROM %s WHERE ctid = ANY (ARRAY(SELECT ctid FROM %s%s LIMIT %s)) RETURNING %s, %s", log, log, first, limit, comes, strings.Join(texts, ", "))
	// A subquery, so that a volatile conversion runs once.
	keys := fmt.Sprintf("(SELECT %s FROM unnest(%s) AS u(%s))", strings.Join(native, ", "), strings.Join(arrays, ", "), strings.Join(names, ", "))
	use = append(use, fmt.Sprintf("DELETE FROM %s AS n USING %s AS l WHERE %s", dst, keys, m.SameEntry(m.Target.Key, "n.", "l.")))
	if m.Target.Rolls {
		use = append(use, fmt.Sprintf("DELETE FROM %s AS n USING %s AS l WHERE %s", late, keys, m.SameKey(m.Plain, "n.", "l.")))
	}
	// OFFSET 0 keeps the other conditions out of the subquery: with outdated statistics, the planner
	// could use an index on the time instead of the key.
	rows := func(of []engine.SchemaColumn) string {
		return fmt.Sprintf("FROM (SELECT DISTINCT %s FROM %s AS a) AS l CROSS JOIN LATERAL (SELECT * FROM %s AS s WHERE %s OFFSET 0) AS o",
			m.List(of, ""), keys, m.Quote(m.Source.Name), m.SameKey(m.Source.Key, "s.", "l."))
	}
	insert := fmt.Sprintf("INSERT INTO %s (%s) OVERRIDING SYSTEM VALUE SELECT %s %s WHERE %s",
		dst, m.List(m.Columns, ""), m.List(m.Columns, "o."), rows(cols), m.SameEntry(m.Source.Key, "o.", "l."))
	inside := m.Inside("o.")
	if inside != "" {
		insert += " AND " + inside
	}
	// A change of a row has two entries, for the old and the new row, which may be in different
	// batches. So the target may still have a row with the new row's key, because the entry that
	// deletes it is in a later batch.
	use = append(use, insert+fmt.Sprintf(" ON CONFLICT (%s) DO UPDATE SET (%s) = ROW(%s)", m.List(m.Target.Key, ""), m.List(m.Columns, ""), m.List(m.Columns, "EXCLUDED.")))
	if inside != "" {
		use = append(use, fmt.Sprintf("INSERT INTO %s (%s, rowmill_reason, rowmill_at_us) SELECT %s, %s, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint %s WHERE (%s) IS NOT TRUE",
			late, m.List(m.Columns, ""), m.List(m.Columns, "o."), quoteText(engine.LateReason), rows(m.Source.Key), inside))
	}
	return take, use
}

func (m mirror) Replay(ctx context.Context, x engine.Exec, limit int, later engine.Predicate) (int, error) {
	if _, err := x.ExecContext(ctx, byIndex); err != nil {
		return 0, err
	}
	take, use := m.replay(fmt.Sprint(limit), later)
	n, now := 0, 0
	keys := make([][]*string, len(m.Logged()))
	err := engine.Each(ctx, m.db, x, func(r *sql.Rows) error {
		var comes int
		key := make([]*string, len(keys))
		into := []any{&comes}
		for i := range key {
			into = append(into, &key[i])
		}
		if err := r.Scan(into...); err != nil {
			return err
		}
		n++
		if comes != 0 {
			return nil
		}
		now++
		for i := range key {
			keys[i] = append(keys[i], key[i])
		}
		return nil
	}, take, slices.Concat(later.Args, later.Args)...)
	if err != nil || now == 0 {
		return n, err
	}
	// Each statement names all arrays, so that all parameters are used.
	args := make([]any, len(keys))
	for i := range keys {
		args[i] = keys[i]
	}
	return n, engine.ExecEach(ctx, x, use, args...)
}

// lock returns the statement that takes the lock of the cut-over.
func (m mirror) lock() string {
	return "LOCK TABLE " + m.Quote(m.Source.Name) + ", " + m.Quote(m.Target.Name) + " IN ACCESS EXCLUSIVE MODE"
}

func (m mirror) CutOverStatements(final []string) (remark string, statements []string, err error) {
	names, err := m.names()
	return "", slices.Concat([]string{"BEGIN", m.lock()}, final, names, []string{"COMMIT"}), err
}

// names returns the statements that rename both tables, and the indexes, constraints and sequences
// that are named after them: programs use these names in ON CONFLICT ON CONSTRAINT and currval.
// The indexes and constraints of partitions keep their names.
func (m mirror) names() ([]string, error) {
	out, err := m.RenameStatements(m)
	follow := func(on, from string) string {
		return fmt.Sprintf(`DO $rowmill$ DECLARE r record; BEGIN
FOR r IN SELECT p.kind, c.relname AS had, %[3]s || substr(c.relname, %[4]d) AS has FROM (SELECT 'INDEX' AS kind, indexrelid AS id FROM pg_index WHERE indrelid = %[1]s::regclass
UNION ALL SELECT 'SEQUENCE', objid FROM pg_depend WHERE classid = 'pg_class'::regclass AND refobjid = %[1]s::regclass AND deptype IN ('a', 'i')) AS p JOIN pg_class AS c ON c.oid = p.id AND c.relkind IN ('i', 'I', 'S')
WHERE left(c.relname, %[4]d - 1) = %[2]s LOOP
IF octet_length(r.has) < 64 AND to_regclass(quote_ident(r.has)) IS NULL THEN EXECUTE format('ALTER %%s %%I RENAME TO %%I', r.kind, r.had, r.has); END IF;
END LOOP; END $rowmill$`, quoteText(m.Quote(on)), quoteText(from), quoteText(on), len([]rune(from))+1)
	}
	if m.Alike {
		out = append(out, m.alike())
	}
	return append(out, follow(m.Aside, m.Source.Name), follow(m.Table.Name, m.Target.Name)), err
}

// alike returns a statement to run after both tables have been renamed. Each index of the target
// gets the name of the source's index with the same definition. A constraint is renamed with its
// index.
func (m mirror) alike() string {
	indexes := func(table string) string {
		return fmt.Sprintf(`(SELECT c.relname, i.indexrelid, d.def, row_number() OVER (PARTITION BY d.def ORDER BY c.relname) AS n FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid,
LATERAL (SELECT concat(indisprimary, ' ', indisunique, ' ', regexp_replace(pg_get_indexdef(indexrelid), '^.*? USING ', '')) AS def) AS d WHERE indrelid = %s::regclass)`, quoteText(m.Quote(table)))
	}
	return fmt.Sprintf(`DO $rowmill$ DECLARE r record; BEGIN
FOR r IN SELECT s.relname AS name, s.indexrelid AS id, t.relname AS had FROM %s AS s JOIN %s AS t USING (def, n) WHERE s.relname <> t.relname LOOP
EXECUTE format('ALTER INDEX %%I RENAME TO %%I', r.name, 'rowmill_index_' || r.id);
EXECUTE format('ALTER INDEX %%I RENAME TO %%I', r.had, r.name);
END LOOP; END $rowmill$`, indexes(m.Aside), indexes(m.Table.Name))
}

// CutOver executes the cut-over in one transaction. A session that waits for the table's lock looks
// up the table's name again once it has the lock, even for a prepared statement. So that session
// uses the new table.
func (m mirror) CutOver(ctx context.Context, c engine.CutOver) error {
	names, err := m.names()
	if err != nil {
		return err
	}
	target, err := m.db.catalog().Describe(ctx, m.Target.Name) // before the lock is taken, for which Describe would wait
	if err != nil {
		return err
	}
	tx, err := m.db.SQL().BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback() // no effect after a commit
	if _, err := tx.ExecContext(ctx, m.lock()); err != nil {
		return err
	}
	sequences, err := m.continueSequences(ctx, tx, target)
	if err != nil {
		return err
	}
	return c.Finish(ctx, tx, slices.Concat(sequences, names))
}

// continueSequences returns statements by which the target's sequences continue the source's.
func (m mirror) continueSequences(ctx context.Context, x engine.Exec, target *engine.Schema) ([]string, error) {
	var out []string
	for _, c := range m.Columns {
		var from, to sql.NullString
		err := x.QueryRowContext(ctx, "SELECT pg_get_serial_sequence($1, $2), pg_get_serial_sequence($3, $2)", m.Quote(m.Source.Name), c.Name, m.Quote(m.Target.Name)).Scan(&from, &to)
		if err != nil {
			return nil, fmt.Errorf("read the sequence of column %s: %w", c.Name, err)
		}
		switch have := target.Find(c.Name); {
		case !from.Valid || have == nil:
		case to.Valid && to.String != from.String:
			out = append(out, fmt.Sprintf("SELECT setval(%s, s.last_value, s.is_called) FROM %s AS s", quoteText(to.String), from.String))
		case !to.Valid && strings.Contains(have.Default, "nextval"):
			// Both tables use the same sequence, which must survive the old table.
			out = append(out, fmt.Sprintf("ALTER SEQUENCE %s OWNED BY %s.%s", from.String, m.Quote(m.Target.Name), m.Quote(c.Name)))
		}
	}
	return out, nil
}

func (w words) KeyText(c engine.SchemaColumn) string { return w.AsText(c) }

// KeyValue implements engine.Words: the server converts text to the column's type.
func (words) KeyValue(_ engine.SchemaColumn, text string) (placeholder string, value any, err error) {
	return "?", text, nil
}

// CopyRows implements engine.Words. Identity columns need OVERRIDING.
func (w words) CopyRows(c engine.CopyRows) string {
	tail := ""
	if c.Skip {
		tail = " ON CONFLICT DO NOTHING"
	}
	return c.SQL(w.d.Quote, "INSERT INTO", " OVERRIDING SYSTEM VALUE", tail)
}
