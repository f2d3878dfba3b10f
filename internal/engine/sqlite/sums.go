package sqlite

import (
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

// SumType implements engine.SumWords. Decimal fractions are summed as binary ones.
func (words) SumType(c engine.SchemaColumn) string {
	if c.Kind == engine.KindInt {
		return "INTEGER"
	}
	return "REAL"
}

// Double implements engine.SumWords.
func (words) Double() string { return "REAL" }

// AsDouble implements engine.SumWords.
func (words) AsDouble(expr string) string { return "CAST(" + expr + " AS REAL)" }

// Variance implements engine.SumWords.
func (words) Variance(string) string { return "" }

// SquareRoot implements engine.SumWords with Newton's method, because not every
// build of SQLite has sqrt. From a start above the root, the values decrease until
// they reach it; 1100 iterations are sufficient for any double.
func (words) SquareRoot(expr string) string {
	return fmt.Sprintf("(WITH RECURSIVE root(v, x, i) AS (SELECT v, max(v, 1.0), 0 FROM (SELECT CAST(%s AS REAL) AS v) "+
		"UNION ALL SELECT v, (x + v / x) / 2, i + 1 FROM root WHERE v > 0 AND (x + v / x) / 2 < x AND i < 1100) "+
		"SELECT CASE WHEN v > 0 THEN x ELSE v END FROM root ORDER BY i DESC LIMIT 1)", expr)
}

// Month implements engine.SumWords.
func (words) Month(pos string) string {
	// Round down to whole seconds: SQLite's division truncates towards zero.
	s := fmt.Sprintf("(%s) / 1000000 - ((%s) %% 1000000 < 0)", pos, pos)
	return fmt.Sprintf("(strftime('%%Y', %s, 'unixepoch') * 12 + strftime('%%m', %s, 'unixepoch') - 1)", s, s)
}

// MonthStart implements engine.SumWords.
func (words) MonthStart(month string) string {
	return fmt.Sprintf("(strftime('%%s', printf('%%04d-%%02d-01', (%s) / 12, (%s) %% 12 + 1)) * 1000000)", month, month)
}

// SkipLocked implements engine.SumWords. SQLite has no row locks to skip.
func (words) SkipLocked() string { return "" }

// InsertNew implements engine.SumWords.
func (words) InsertNew() (begin, end string) { return "INSERT OR IGNORE", "" }

// OnKey implements engine.SumWords.
func (w words) OnKey(key []string) string {
	quoted := make([]string, len(key))
	for i, k := range key {
		quoted[i] = w.Quote(k)
	}
	return " ON CONFLICT (" + strings.Join(quoted, ", ") + ") DO UPDATE SET "
}

// Sent implements engine.SumWords.
func (w words) Sent(column string) string { return "excluded." + w.Quote(column) }

// Temporary implements engine.SumWords. A temporary table is in a separate file,
// so that filling it doesn't block writers.
func (w words) Temporary(name, body string) engine.TemporaryTable {
	q := w.Quote(name)
	return engine.TemporaryTable{
		Create: "CREATE TEMPORARY TABLE " + q + " (" + body + ")",
		Clear:  "DELETE FROM temp." + q,
		Drop:   "DROP TABLE IF EXISTS temp." + q,
		Name:   "temp." + q,
	}
}

// SumColumn implements engine.SumWords. SQLite's catalog doesn't report
// collations.
func (words) SumColumn(c engine.SchemaColumn) string { return c.Native }

// ReplaceView implements engine.SumWords.
func (w words) ReplaceView(name, query string) []string {
	return []string{"DROP VIEW IF EXISTS " + w.Quote(name), "CREATE VIEW " + w.Quote(name) + " AS\n" + query}
}

// Triggers implements engine.SumWords. Only one transaction writes at a time, so a
// row that isn't late when it is written isn't late at commit, either.
func (w words) Triggers(t *engine.Table, periods []string, n engine.NoteRow) []engine.Trigger {
	if !t.Rolling() {
		periods = []string{t.Name}
	}
	by := w.Quote(t.By)
	var out []engine.Trigger
	for _, p := range periods {
		for _, e := range []struct {
			event string
			rows  []string
		}{{"INSERT", []string{"NEW"}}, {"UPDATE", []string{"OLD", "NEW"}}, {"DELETE", []string{"OLD"}}} {
			var body, late []string
			for _, r := range e.rows {
				x := r + "." + by
				is := w.Position(t, x) + " < " + n.Watermark
				late = append(late, is)
				body = append(body, fmt.Sprintf("INSERT OR IGNORE INTO %s SELECT %s, 'trigger' WHERE %s;", n.Into, strings.Join(n.Values(x), ", "), is))
			}
			name := n.Name + "_" + strings.ToLower(e.event) + "_" + p
			out = append(out, w.trigger(name, p, fmt.Sprintf("AFTER %s ON %s WHEN %s BEGIN %s END", e.event, w.Quote(p), strings.Join(late, " OR "), strings.Join(body, " "))))
		}
	}
	return out
}

// HaveTriggers implements engine.SumWords.
func (words) HaveTriggers(string) string {
	return "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger'"
}
