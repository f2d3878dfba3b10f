package postgres

import (
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// words implements engine.Words.
type words struct{ d dialect }

// From implements engine.Words. Reading a period through its own table locks no
// other period and leaves less to plan.
func (w words) From(t *engine.Table, p rolling.Partition) string {
	return w.d.Quote(childName(t, p))
}

func (words) Literal(t *engine.Table, pos int64) string { return byLiteral(t, pos) }

// Position implements engine.Words. It is exact: date_part returns a double, which
// represents both the whole seconds and the microseconds of a minute exactly.
func (words) Position(t *engine.Table, expr string) string {
	switch kindOf(t) {
	case engine.ByDate:
		return fmt.Sprintf("((%s - DATE '1970-01-01')::bigint * %d)", expr, microsPerDay)
	case engine.ByTimestamp, engine.ByInstant:
		return fmt.Sprintf("(date_part('epoch', date_trunc('second', %s))::bigint * 1000000 + date_part('microseconds', %[1]s)::bigint %% 1000000)", expr)
	}
	if t.CountsTime() {
		return fmt.Sprintf("((%s)::bigint * %d)", expr, t.ByUnit())
	}
	return fmt.Sprintf("(%s)::bigint", expr)
}

func (words) Now() string { return "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint" }

// FromPosition implements engine.Words. If the column can't represent the
// position, it is rounded down.
func (words) FromPosition(t *engine.Table, expr string) string {
	floor := func(unit int64) string { return fmt.Sprintf("floor((%s)::numeric / %d)", expr, unit) }
	switch kindOf(t) {
	case engine.ByDate:
		return "(DATE '1970-01-01' + " + floor(microsPerDay) + "::integer)"
	case engine.ByTimestamp, engine.ByInstant:
		from := "TIMESTAMP '1970-01-01 00:00:00'"
		if kindOf(t) == engine.ByInstant {
			from = "TIMESTAMPTZ '1970-01-01 00:00:00+00'"
		}
		// A whole number of seconds as a double is exact.
		return fmt.Sprintf("(%s + (%s) / 1000000 * INTERVAL '1 second' + (%[2]s) %% 1000000 * INTERVAL '1 microsecond')", from, expr)
	}
	if t.CountsTime() {
		return floor(t.ByUnit()) + "::" + integerType(t)
	}
	return "(" + expr + ")::" + integerType(t)
}

// AsText implements engine.Words. The session's settings make it exact.
func (w words) AsText(c engine.SchemaColumn) string { return w.d.Quote(c.Name) + "::text" }

// RowHash implements engine.Words. It is the sum of the 64-bit hashes of the rows' text.
func (w words) RowHash(cols []engine.SchemaColumn) string {
	names := make([]string, len(cols))
	for i, c := range cols {
		names[i] = c.Name
	}
	return "COALESCE(sum(hashtextextended(ROW(" + w.d.list(names) + ")::text, 0)), 0)::text"
}

func (w words) MatchHash(cols []engine.SchemaColumn) string { return w.RowHash(cols) }

// CreateTemplate implements engine.Words.
//
// Compress affects rows of more than 2 kB, because TOAST processes only those. When the table is
// attached, each compressible value of these rows is already compressed, with LZ4 if the server has
// it, and stored in the row. PostgreSQL does not compress shorter rows; for them a rebuilt period
// is smaller only because its pages and indexes are fuller.
func (w words) CreateTemplate(t *engine.Table, name string, o engine.Storage) []string {
	return w.d.createTemplate(t, name, o, "")
}

func (words) Text() string     { return "TEXT" }
func (words) Blob() string     { return "BYTEA" }
func (words) OwnTable() string { return "" }

var _ engine.SumWords = words{}

func (words) SumType(c engine.SchemaColumn) string {
	if c.Kind == value.Float {
		return "DOUBLE PRECISION"
	}
	return "NUMERIC"
}

func (words) Double() string                { return "DOUBLE PRECISION" }
func (words) AsDouble(expr string) string   { return "(" + expr + ")::double precision" }
func (words) Variance(expr string) string   { return "VAR_POP(" + expr + ")" }
func (words) SquareRoot(expr string) string { return "SQRT(" + expr + ")" }

func (words) Month(pos string) string {
	at := fmt.Sprintf("(TIMESTAMP '1970-01-01 00:00:00' + (%s) / 1000000 * INTERVAL '1 second' + (%[1]s) %% 1000000 * INTERVAL '1 microsecond')", pos)
	return fmt.Sprintf("(date_part('year', %s)::bigint * 12 + date_part('month', %[1]s)::bigint - 1)", at)
}

func (words) MonthStart(month string) string {
	return fmt.Sprintf("((make_date(((%s) / 12)::integer, ((%[1]s) %% 12)::integer + 1, 1) - DATE '1970-01-01')::bigint * %d)", month, microsPerDay)
}

// SkipLocked implements engine.SumWords. The clause is empty: notes of an open transaction are not
// visible, and no other transaction writes a note with the same key.
func (words) SkipLocked() string             { return "" }
func (words) InsertNew() (begin, end string) { return "INSERT", " ON CONFLICT DO NOTHING" }

func (w words) OnKey(key []string) string {
	return " ON CONFLICT (" + w.d.list(key) + ") DO UPDATE SET "
}

func (w words) Sent(column string) string { return "excluded." + w.d.Quote(column) }

func (w words) Temporary(name, body string) engine.TemporaryTable {
	q := w.d.Quote(name)
	return engine.TemporaryTable{
		Create: "CREATE TEMPORARY TABLE " + q + " (" + body + ")",
		Clear:  "TRUNCATE TABLE pg_temp." + q,
		Drop:   "DROP TABLE IF EXISTS pg_temp." + q,
		Name:   "pg_temp." + q,
	}
}

func (words) SumColumn(c engine.SchemaColumn) string {
	if c.Collation == "" {
		return c.Native
	}
	return c.Native + " COLLATE " + c.Collation
}

// ReplaceView implements engine.SumWords. A view whose columns stay the same is
// replaced and keeps its grants; otherwise it is dropped and created.
func (w words) ReplaceView(name, query string) []string {
	q := w.d.Quote(name)
	return []string{fmt.Sprintf("DO $rowmill$ BEGIN\nCREATE OR REPLACE VIEW %s AS\n%s;\nEXCEPTION WHEN invalid_table_definition THEN\nDROP VIEW %s;\nCREATE VIEW %s AS\n%s;\nEND $rowmill$",
		q, query, q, q, query)}
}

// Triggers implements engine.SumWords. The triggers fire once per statement, and note the positions
// of all rows that the statement changed. The notes contain the transaction's ID, so that no
// transaction waits for another's note.
func (w words) Triggers(t *engine.Table, _ []string, n engine.NoteRow) []engine.Trigger {
	by := w.d.Quote(t.By)
	var out []engine.Trigger
	for _, e := range []struct{ event, transition, rows string }{
		{"INSERT", "NEW TABLE AS rowmill_new", "SELECT " + by + " FROM rowmill_new"},
		{"UPDATE", "OLD TABLE AS rowmill_old NEW TABLE AS rowmill_new", "SELECT " + by + " FROM rowmill_old UNION ALL SELECT " + by + " FROM rowmill_new"},
		{"DELETE", "OLD TABLE AS rowmill_old", "SELECT " + by + " FROM rowmill_old"},
	} {
		body := fmt.Sprintf(" BEGIN INSERT INTO %s SELECT DISTINCT %s, 'transaction ' || txid_current() FROM (%s) r ON CONFLICT DO NOTHING; RETURN NULL; END ",
			n.Into, strings.Join(n.Values("r."+by), ", "), e.rows)
		when := fmt.Sprintf("AFTER %s ON %s REFERENCING %s FOR EACH STATEMENT", e.event, w.d.Quote(t.Name), e.transition)
		out = append(out, w.always(t, n.Name+"_"+strings.ToLower(e.event), w.trigger(t, n.Name+"_"+strings.ToLower(e.event), when, body)))
	}
	return out
}

// always makes a trigger fire in sessions with session_replication_role = replica, too.
func (w words) always(t *engine.Table, name string, x engine.Trigger) engine.Trigger {
	enable := fmt.Sprintf("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s", w.d.Quote(t.Name), w.d.Quote(name))
	x.Body += firesAlways
	x.Statements, x.Replace = append(x.Statements, enable), append(x.Replace, enable)
	return x
}

// firesAlways and disabled follow the body of a trigger in HaveTriggers.
const (
	firesAlways = "-- always"
	disabled    = "-- disabled"
)

func (words) HaveTriggers(string) string {
	return "SELECT c.relname || '.' || t.tgname, c.relname, p.prosrc || CASE t.tgenabled WHEN 'O' THEN '' WHEN 'A' THEN '" + firesAlways + "' ELSE '" + disabled + "' END FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid " +
		"WHERE NOT t.tgisinternal AND pg_table_is_visible(c.oid)"
}

func (w words) Refuse(t *engine.Table, _ []string, boundary string) []engine.Trigger {
	name := "rowmill_late"
	body := fmt.Sprintf(" BEGIN IF %s < %s THEN RAISE EXCEPTION 'rowmill: the period of this row is sealed' USING ERRCODE = 'check_violation'; END IF; RETURN NEW; END ",
		w.Position(t, "NEW."+w.d.Quote(t.By)), boundary)
	return []engine.Trigger{w.trigger(t, name, "BEFORE INSERT ON "+w.d.Quote(t.Name)+" FOR EACH ROW", body)}
}

// trigger renders a trigger with a function of its own. The function is SECURITY DEFINER, so any
// account that may write rows may run it. The statements in engine.Trigger.Replace replace only the
// function, which takes no lock on the table.
func (w words) trigger(t *engine.Table, name, when, body string) engine.Trigger {
	function := w.d.Quote(name + "_" + t.Name)
	define := fmt.Sprintf("CREATE OR REPLACE FUNCTION %s() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $rowmill$%s$rowmill$", function, body)
	return engine.Trigger{
		Name: t.Name + "." + name, Table: t.Name, Body: body,
		Statements: []string{
			define,
			fmt.Sprintf("CREATE TRIGGER %s %s EXECUTE FUNCTION %s()", w.d.Quote(name), when, function),
		},
		Replace: []string{define},
		Drop: []string{
			fmt.Sprintf("DROP TRIGGER IF EXISTS %s ON %s", w.d.Quote(name), w.d.Quote(t.Name)),
			fmt.Sprintf("DROP FUNCTION IF EXISTS %s()", function),
		},
	}
}
