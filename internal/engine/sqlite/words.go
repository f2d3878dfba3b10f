package sqlite

import (
	"fmt"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// words implements engine.Words. AsText and RowHash use functions that only the connections of
// DB.SQL have; all other words work for any client.
type words struct {
	dialect
	// taken reports whether an index with that name exists; nil: none does.
	taken func(index string) bool
}

func (db *database) Words() engine.Words { return words{dialect{pragmas: db.pragmas}, db.hasIndex} }

// epochOf returns how many units of a position make up one unit of t's integer column By: 1000000
// if By counts seconds, because positions are microseconds. It returns 0 if By is a time as text.
func epochOf(t *engine.Table) int64 {
	switch {
	case t.Grid.Valid() && t.Grid.Axis() == rolling.Sequence:
		return 1
	case t.Epoch > 0:
		return max(t.Epoch.Microseconds(), 1)
	case t.Grid.Valid():
		return 0
	}
	if i := t.Column(t.By); i >= 0 && (t.Columns[i].Type == engine.Int32 || t.Columns[i].Type == engine.Int64) {
		return 1
	}
	if t.Definition != nil {
		if c := t.Definition.Column(t.By); c != nil && affinity(c.Type) == value.Int {
			return 1
		}
	}
	return 0
}

func (w words) From(t *engine.Table, p rolling.Partition) string {
	if !t.Rolling() {
		return w.Quote(t.Name)
	}
	return w.Quote(store(t, p))
}

// endOfTime sorts after every time with a four-digit year. As text, the year 10000
// would sort before the year 2000.
const endOfTime = "'9999-12-31 24:00:00'"

// Literal implements engine.Words. Times are text in the format of SQLite's own
// functions, with microseconds if they are not zero.
func (words) Literal(t *engine.Table, pos int64) string {
	if unit := epochOf(t); unit > 0 {
		return fmt.Sprint(engine.FloorDiv(pos, unit))
	}
	if pos >= rolling.MaxTime {
		return endOfTime
	}
	at := rolling.Instant(pos)
	if at.Nanosecond() == 0 {
		return at.Format("'2006-01-02 15:04:05'")
	}
	return at.Format("'2006-01-02 15:04:05.000000'")
}

// Position implements engine.Words. It adds the fraction of a second separately, because strftime
// rounds to milliseconds.
func (words) Position(t *engine.Table, expr string) string {
	switch unit := epochOf(t); unit {
	case 0:
		return fmt.Sprintf("(strftime('%%s', substr(%s, 1, 19)) * 1000000 + CAST(substr(substr(%s, 21) || '000000', 1, 6) AS INTEGER))", expr, expr)
	case 1:
		return "(" + expr + ")"
	default:
		return fmt.Sprintf("((%s) * %d)", expr, unit)
	}
}

// Now implements engine.Words, in milliseconds.
func (words) Now() string {
	return "((strftime('%s', 'now') * 1000 + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER)) * 1000)"
}

func (words) FromPosition(t *engine.Table, expr string) string {
	// SQLite's division truncates towards zero, and a remainder has the sign of the dividend.
	floor := func(unit int64) string {
		return fmt.Sprintf("((%s) / %d - ((%s) %% %d < 0))", expr, unit, expr, unit)
	}
	switch unit := epochOf(t); unit {
	case 0:
		return fmt.Sprintf("(strftime('%%Y-%%m-%%d %%H:%%M:%%S', %s, 'unixepoch') || CASE WHEN (%s) %% 1000000 = 0 THEN '' ELSE printf('.%%06d', ((%s) %% 1000000 + 1000000) %% 1000000) END)",
			floor(1000000), expr, expr)
	case 1:
		return "(" + expr + ")"
	default:
		return floor(unit)
	}
}

// AsText implements engine.Words. Bytes are returned unchanged.
func (w words) AsText(c engine.SchemaColumn) string { return "rowmill_text(" + w.Quote(c.Name) + ")" }

// hashColumns limits the arguments of one function call. SQLite allows 1000, older versions 127.
const hashColumns = 100

func (w words) RowHash(cols []engine.SchemaColumn) string {
	var names, rows []string
	for _, c := range cols {
		// Without the unary plus, the driver converts columns declared as times.
		names = append(names, "+"+w.Quote(c.Name))
	}
	for len(names) > hashColumns {
		rows = append(rows, "rowmill_row("+strings.Join(names[:hashColumns], ", ")+")")
		names = names[hashColumns:]
	}
	return "rowmill_hash(" + strings.Join(append(rows, names...), ", ") + ")"
}

func (w words) MatchHash(cols []engine.SchemaColumn) string { return w.RowHash(cols) }

// CreateTemplate implements engine.Words. If the name of an index is taken, CreateTemplate appends
// a number to it: a template that was renamed to become a period has kept the names of its indexes.
func (w words) CreateTemplate(t *engine.Table, name string, _ engine.Storage) []string {
	if t.Definition == nil && len(t.Columns) == 0 {
		// The columns and keys are unknown. This statement fails with a message.
		return []string{fmt.Sprintf("CREATE TABLE %s (the columns of %s are not known)", w.Quote(name), w.Quote(t.Name))}
	}
	return w.createFree(t, name, func(index string) string {
		free := index
		for i := 2; w.taken != nil && w.taken(free); i++ {
			free = fmt.Sprintf("%s_%d", index, i)
		}
		return free
	})
}

func (words) Text() string     { return "TEXT" }
func (words) Blob() string     { return "BLOB" }
func (words) OwnTable() string { return "" }

// SumType implements engine.SumWords. Decimal fractions are summed as binary ones.
func (words) SumType(c engine.SchemaColumn) string {
	if c.Kind == value.Int {
		return "INTEGER"
	}
	return "REAL"
}

func (words) Double() string              { return "REAL" }
func (words) AsDouble(expr string) string { return "CAST(" + expr + " AS REAL)" }
func (words) Variance(string) string      { return "" }

// SquareRoot implements engine.SumWords with Newton's method, because not every build of
// SQLite has sqrt. The values decrease to the root; 1100 steps suffice for any double.
func (words) SquareRoot(expr string) string {
	return fmt.Sprintf("(WITH RECURSIVE root(v, x, i) AS (SELECT v, max(v, 1.0), 0 FROM (SELECT CAST(%s AS REAL) AS v) "+
		"UNION ALL SELECT v, (x + v / x) / 2, i + 1 FROM root WHERE v > 0 AND (x + v / x) / 2 < x AND i < 1100) "+
		"SELECT CASE WHEN v > 0 THEN x ELSE v END FROM root ORDER BY i DESC LIMIT 1)", expr)
}

func (words) Month(pos string) string {
	// Round down to whole seconds: SQLite's division truncates towards zero.
	s := fmt.Sprintf("(%s) / 1000000 - ((%s) %% 1000000 < 0)", pos, pos)
	return fmt.Sprintf("(strftime('%%Y', %s, 'unixepoch') * 12 + strftime('%%m', %s, 'unixepoch') - 1)", s, s)
}

func (words) MonthStart(month string) string {
	return fmt.Sprintf("(strftime('%%s', printf('%%04d-%%02d-01', (%s) / 12, (%s) %% 12 + 1)) * 1000000)", month, month)
}

// SkipLocked implements engine.SumWords. SQLite has no row locks to skip.
func (words) SkipLocked() string             { return "" }
func (words) InsertNew() (begin, end string) { return "INSERT OR IGNORE", "" }

func (w words) OnKey(key []string) string {
	return " ON CONFLICT (" + w.list(key) + ") DO UPDATE SET "
}

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

// SumColumn implements engine.SumWords. SQLite's catalog doesn't report collations.
func (words) SumColumn(c engine.SchemaColumn) string { return c.Native }

func (w words) ReplaceView(name, query string) []string {
	return []string{"DROP VIEW IF EXISTS " + w.Quote(name), "CREATE VIEW " + w.Quote(name) + " AS\n" + query}
}

// Triggers implements engine.SumWords. The triggers note only rows below the watermark (late rows).
// Only one transaction writes at a time, so a row that isn't late when it is written isn't late
// when its transaction commits, either.
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

func (words) HaveTriggers(string) string {
	return "SELECT name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger'"
}

func (w words) Refuse(t *engine.Table, periods []string, boundary string) []engine.Trigger {
	var out []engine.Trigger
	for _, p := range periods {
		out = append(out, w.trigger("rowmill_late_"+p, p, fmt.Sprintf("BEFORE INSERT ON %s WHEN %s < %s BEGIN SELECT RAISE(ABORT, 'rowmill: the period of this row is sealed'); END",
			w.Quote(p), w.Position(t, "NEW."+w.Quote(t.By)), boundary)))
	}
	return out
}

// trigger returns a trigger whose Body is its whole CREATE statement.
func (w words) trigger(name, table, text string) engine.Trigger {
	q := "CREATE TRIGGER " + w.Quote(name) + " " + text
	return engine.Trigger{Name: name, Table: table, Body: q, Statements: []string{q}, Drop: []string{"DROP TRIGGER IF EXISTS " + w.Quote(name)}}
}

// Unrestorable implements engine.UntypedWords: it returns the condition that an insert of the
// value's text would change the value. Any column may hold values of any storage class. In a BLOB
// column, only blobs come back from their text; in a column without a type, or of type ANY, only
// texts; in any other column, by its affinity, all values but blobs. NULL comes back in every
// column.
func (words) Unrestorable(c engine.SchemaColumn, expr string) string {
	class := "typeof(" + expr + ")"
	switch {
	case c.Kind == value.Bytes:
		return class + " NOT IN ('blob', 'null')"
	case c.Kind == value.Other && (c.Native == "" || strings.EqualFold(c.Native, "any")):
		return class + " NOT IN ('text', 'null')"
	}
	return class + " = 'blob'"
}
