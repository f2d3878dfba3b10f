package postgres

import (
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.SumWords = words{}

// SumType implements engine.SumWords.
func (words) SumType(c engine.SchemaColumn) string {
	if c.Kind == engine.KindFloat {
		return "DOUBLE PRECISION"
	}
	return "NUMERIC"
}

// Double implements engine.SumWords.
func (words) Double() string { return "DOUBLE PRECISION" }

// AsDouble implements engine.SumWords.
func (words) AsDouble(expr string) string { return "(" + expr + ")::double precision" }

// Variance implements engine.SumWords.
func (words) Variance(expr string) string { return "VAR_POP(" + expr + ")" }

// SquareRoot implements engine.SumWords.
func (words) SquareRoot(expr string) string { return "SQRT(" + expr + ")" }

// Month implements engine.SumWords.
func (words) Month(pos string) string {
	at := fmt.Sprintf("(TIMESTAMP '1970-01-01 00:00:00' + (%s) / 1000000 * INTERVAL '1 second' + (%[1]s) %% 1000000 * INTERVAL '1 microsecond')", pos)
	return fmt.Sprintf("(date_part('year', %s)::bigint * 12 + date_part('month', %[1]s)::bigint - 1)", at)
}

// MonthStart implements engine.SumWords.
func (words) MonthStart(month string) string {
	return fmt.Sprintf("((make_date(((%s) / 12)::integer, ((%[1]s) %% 12)::integer + 1, 1) - DATE '1970-01-01')::bigint * %d)", month, microsPerDay)
}

// SkipLocked implements engine.SumWords. It is empty: notes of an open transaction
// are not visible, and no other transaction writes a note with the same key.
func (words) SkipLocked() string { return "" }

// InsertNew implements engine.SumWords.
func (words) InsertNew() (begin, end string) { return "INSERT", " ON CONFLICT DO NOTHING" }

// OnKey implements engine.SumWords.
func (w words) OnKey(key []string) string {
	quoted := make([]string, len(key))
	for i, k := range key {
		quoted[i] = w.d.Quote(k)
	}
	return " ON CONFLICT (" + strings.Join(quoted, ", ") + ") DO UPDATE SET "
}

// Sent implements engine.SumWords.
func (w words) Sent(column string) string { return "excluded." + w.d.Quote(column) }

// Temporary implements engine.SumWords.
func (w words) Temporary(name, body string) engine.TemporaryTable {
	q := w.d.Quote(name)
	return engine.TemporaryTable{
		Create: "CREATE TEMPORARY TABLE " + q + " (" + body + ")",
		Clear:  "TRUNCATE TABLE pg_temp." + q,
		Drop:   "DROP TABLE IF EXISTS pg_temp." + q,
		Name:   "pg_temp." + q,
	}
}

// SumColumn implements engine.SumWords.
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

// Triggers implements engine.SumWords. The triggers fire once per statement,
// with the rows that it changed. Each transaction writes its own notes, so that
// none waits for another.
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
		out = append(out, w.trigger(t, n.Name+"_"+strings.ToLower(e.event), when, body))
	}
	return out
}

// HaveTriggers implements engine.SumWords.
func (words) HaveTriggers(string) string {
	return "SELECT c.relname || '.' || t.tgname, c.relname, p.prosrc FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid " +
		"WHERE NOT t.tgisinternal AND pg_table_is_visible(c.oid)"
}
