package sqlite

import (
	"fmt"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// words implements engine.Words. Position, FromPosition and Literal use only
// SQLite's built-in functions, so that any client can read a view that contains
// them. AsText and RowHash use functions that only connections of DB.SQL have.
type words struct {
	dialect
	// taken reports whether an index with that name exists; nil: none does.
	taken func(index string) bool
}

// Words implements engine.Keeper.
func (db *DB) Words() engine.Words { return words{dialect{pragmas: db.pragmas}, db.hasIndex} }

// epochOf returns the value of one unit of t's column By in units of a position if
// the column is an integer, or 0 if it is a time as text.
func epochOf(t *engine.Table) int64 {
	switch {
	case t.Grid.Valid() && t.Grid.Axis() == rolling.Sequence:
		return 1
	case t.Epoch > 0:
		return max(int64(t.Epoch/time.Microsecond), 1)
	case t.Grid.Valid():
		return 0
	}
	if i := t.Column(t.By); i >= 0 && (t.Columns[i].Type == engine.Int32 || t.Columns[i].Type == engine.Int64) {
		return 1
	}
	if t.Definition != nil {
		for _, c := range t.Definition.Columns {
			if strings.EqualFold(c.Name, t.By) && kindOf(c.Type) == engine.KindInt {
				return 1
			}
		}
	}
	return 0
}

// From implements engine.Words.
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
		return fmt.Sprint(floorDiv(pos, unit))
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

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Position implements engine.Words. The fraction is added separately, because
// strftime rounds to milliseconds.
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

// FromPosition implements engine.Words.
func (words) FromPosition(t *engine.Table, expr string) string {
	// SQLite's division truncates towards zero, and a remainder has the sign of the
	// dividend.
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

// hashColumns limits the arguments of one function call. SQLite allows 1000, older
// versions 127.
const hashColumns = 100

// RowHash implements engine.Words.
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

// RowHashLike implements engine.Words. There is only one kind of hash.
func (w words) RowHashLike(checksum string, cols []engine.SchemaColumn) (string, error) {
	if engine.HashName(checksum) != "" {
		return "", engine.UnknownHash(checksum)
	}
	return w.RowHash(cols), nil
}

// CreateTemplate implements engine.Words. Indexes keep their names when their table
// is renamed. So if an earlier template of the same name was renamed to become a
// period, the indexes of the new one need different names.
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

// Text implements engine.Words.
func (words) Text() string { return "TEXT" }

// Blob implements engine.Words.
func (words) Blob() string { return "BLOB" }

// OwnTable implements engine.Words.
func (words) OwnTable() string { return "" }

// kindOf returns the kind of a declared type by SQLite's affinity rules
// ("Datatypes In SQLite", section 3.1, at sqlite.org) and by the usual names of
// time types.
func kindOf(native string) engine.Kind {
	s := strings.ToUpper(native)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(s, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("INT"):
		return engine.KindInt
	case has("CHAR", "CLOB", "TEXT"):
		return engine.KindText
	case has("BLOB"):
		return engine.KindBytes
	case s == "" || s == "ANY":
		return engine.KindOther
	case has("REAL", "FLOA", "DOUB"):
		return engine.KindFloat
	case has("DATETIME", "TIMESTAMP"):
		return engine.KindTime
	case has("DEC", "NUMERIC"):
		return engine.KindDecimal
	}
	return engine.KindOther
}
