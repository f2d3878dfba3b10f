package mysql

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

func (db *server) Words() engine.Words { return speaker{db.dialect.words(), db} }

// words implements engine.Words.
type words struct{ dialect }

func (d dialect) words() words { return words{d} }

func (d words) From(t *engine.Table, p rolling.Partition) string {
	return d.Quote(t.Name) + " PARTITION (" + d.Quote(p.Name) + ")"
}

// Literal implements engine.Words. For an integer column, a position that lies between two values
// is rounded up, so that a condition on a half-open range still selects the same rows.
func (d words) Literal(t *engine.Table, pos int64) string {
	switch kindOf(t) {
	case engine.ByInteger:
		unit := t.ByUnit()
		n := pos / unit
		if pos%unit > 0 {
			n++
		}
		return strconv.FormatInt(n, 10)
	case engine.ByDate:
		if pos%boundUnit(t) == 0 {
			return dateText(pos)
		}
	}
	return datetimeText(pos)
}

// zeroTime is the instant at position 0.
const zeroTime = "TIMESTAMP'1970-01-01 00:00:00'"

// The range of positions of a TIMESTAMP. Position 0 is excluded: it is the zero date of TIMESTAMP,
// and FROM_UNIXTIME(0) is NULL in MariaDB from 11.7 on.
const (
	firstTimestamp int64 = 1
	lastTimestamp  int64 = 2147483647_000000
)

// Position implements engine.Words. It converts a TIMESTAMP independently of the session's time
// zone, because triggers and views run in the sessions of other programs.
func (d words) Position(t *engine.Table, expr string) string {
	switch {
	case t.CountsTime():
		return "CAST(" + expr + " AS SIGNED) * " + strconv.FormatInt(t.ByUnit(), 10)
	case kindOf(t) == engine.ByInteger:
		return "CAST(" + expr + " AS SIGNED)"
	case kindOf(t) == engine.ByInstant:
		return "CAST(UNIX_TIMESTAMP(" + expr + ") * 1000000 AS SIGNED)"
	}
	return "TIMESTAMPDIFF(MICROSECOND, " + zeroTime + ", " + expr + ")"
}

func (words) Now() string { return "TIMESTAMPDIFF(MICROSECOND, " + zeroTime + ", UTC_TIMESTAMP(6))" }

func (d words) FromPosition(t *engine.Table, expr string) string {
	at := "TIMESTAMPADD(MICROSECOND, " + expr + ", " + zeroTime + ")"
	switch {
	case t.CountsTime():
		// Not the operator /, which returns a decimal and rounds.
		return "((" + expr + ") DIV " + strconv.FormatInt(t.ByUnit(), 10) + ")"
	case kindOf(t) == engine.ByInteger:
		return "(" + expr + ")"
	case kindOf(t) == engine.ByInstant:
		// The position is clamped to the range of FROM_UNIXTIME: outside of that range, the result would
		// be NULL, and a comparison with NULL selects no rows. The position is multiplied by 0.000001,
		// not divided, because the number of digits of a quotient depends on the session.
		return fmt.Sprintf("FROM_UNIXTIME(LEAST(GREATEST(%s, %d), %d) * 0.000001)", expr, firstTimestamp, lastTimestamp)
	case kindOf(t) == engine.ByDate:
		return "DATE(" + at + ")"
	}
	return at
}

func (d words) AsText(c engine.SchemaColumn) string {
	name := d.Quote(c.Name)
	switch c.Kind {
	case value.Text, value.Bytes:
		return name
	case value.Float:
		// As text, a FLOAT has six digits; a DOUBLE of the same value has all digits. MySQL 9.7 returns
		// all digits of a DOUBLE only in JSON, and elsewhere as many as fit in 22 characters.
		if d.mariadb {
			return "CONCAT(" + name + " * 1e0)"
		}
		return "JSON_UNQUOTE(CAST(" + name + " * 1e0 AS JSON))"
	}
	return "CAST(" + name + " AS CHAR)"
}

func (d words) CreateTemplate(t *engine.Table, name string, o engine.Storage) []string {
	out := []string{"CREATE TABLE " + d.Quote(name) + " LIKE " + d.Quote(t.Name)}
	if t.Rolling() {
		out = append(out, "ALTER TABLE "+d.Quote(name)+" REMOVE PARTITIONING")
	}
	return append(out, d.compress(name, o)...)
}

// compress renders the statement that makes an empty InnoDB table compress its pages. MariaDB can
// then exchange the table only with a partition of a table that was created with compression: see
// createDeclared.
func (d words) compress(name string, o engine.Storage) []string {
	switch {
	case !o.Compress || d.rocksdb() || d.mariadb && !o.Alone:
		return nil
	case d.mariadb:
		return []string{"ALTER TABLE " + d.Quote(name) + " PAGE_COMPRESSED=1"}
	}
	return []string{"ALTER TABLE " + d.Quote(name) + " COMPRESSION = 'zlib'"}
}

func (words) Text() string { return "LONGTEXT CHARACTER SET utf8mb4" }
func (words) Blob() string { return "LONGBLOB" }

// OwnTable implements engine.Words. The defaults of the server and the database may be unsuitable.
func (d words) OwnTable() string {
	storage, collation := "InnoDB", "utf8mb4_bin"
	if d.rocksdb() {
		storage = d.storage
	}
	if d.folds {
		collation = "utf8mb4_general_ci"
	}
	return " ENGINE=" + storage + " DEFAULT CHARSET=utf8mb4 COLLATE=" + collation
}

// Compact implements engine.CompactWords. MyRocks compacts by itself.
func (d words) Compact(table string) []string {
	if d.rocksdb() {
		return nil
	}
	return []string{"ALTER TABLE " + d.Quote(table) + " FORCE"}
}

// kindOf returns the kind of t's column, which determines the partitioning expression and the form
// of a bound. An integer has RANGE (c), a DATETIME or DATE has RANGE COLUMNS (c), and a TIMESTAMP
// has RANGE (UNIX_TIMESTAMP(c)), because the server allows no other function.
func kindOf(t *engine.Table) engine.ByKind {
	return t.ByKind(func(native string) engine.ByKind {
		switch typeName(native) {
		case "DATE":
			return engine.ByDate
		case "TIMESTAMP":
			return engine.ByInstant
		}
		return engine.ByTimestamp
	})
}

// boundUnit is the unit of a bound, in units of a position.
func boundUnit(t *engine.Table) int64 {
	switch kindOf(t) {
	case engine.ByInteger:
		return t.ByUnit()
	case engine.ByInstant:
		return time.Second.Microseconds()
	case engine.ByDate:
		return (24 * time.Hour).Microseconds()
	}
	return 1
}

// partitionBy renders the partitioning expression.
func (d dialect) partitionBy(t *engine.Table) string {
	if f := formOf(t); f != nil {
		return "RANGE (" + f.expression(d.Quote(t.By)) + ")"
	}
	switch kindOf(t) {
	case engine.ByTimestamp, engine.ByDate:
		return "RANGE COLUMNS (" + d.Quote(t.By) + ")"
	case engine.ByInstant:
		return "RANGE (UNIX_TIMESTAMP(" + d.Quote(t.By) + "))"
	}
	return "RANGE (" + d.Quote(t.By) + ")"
}

// datetimeText renders a position as a DATETIME literal, with fractional seconds only if needed.
func datetimeText(pos int64) string {
	layout := value.TimeLayout
	if pos%time.Second.Microseconds() != 0 {
		layout += ".000000"
	}
	return "'" + rolling.Instant(pos).Format(layout) + "'"
}

var _ engine.SumWords = words{}

// SumType implements engine.SumWords. Like the result of the server's SUM, the type has 22 digits
// more than the column, but at most 65.
func (words) SumType(c engine.SchemaColumn) string {
	if c.Kind == value.Float {
		return "DOUBLE"
	}
	return fmt.Sprintf("DECIMAL(%d,%d)", min(cmp.Or(c.Precision, 20)+22, 65), c.Scale)
}

func (words) Double() string { return "DOUBLE" }

// AsDouble implements engine.SumWords. MySQL before 8.0.17 can't cast to DOUBLE.
func (words) AsDouble(expr string) string   { return "(" + expr + " + 0e0)" }
func (words) Variance(expr string) string   { return "VAR_POP(" + expr + ")" }
func (words) SquareRoot(expr string) string { return "SQRT(" + expr + ")" }

func (words) Month(pos string) string {
	at := "TIMESTAMPADD(MICROSECOND, " + pos + ", " + zeroTime + ")"
	return "(YEAR(" + at + ") * 12 + MONTH(" + at + ") - 1)"
}

func (words) MonthStart(month string) string {
	return fmt.Sprintf("TIMESTAMPDIFF(MICROSECOND, %s, MAKEDATE((%s) DIV 12, 1) + INTERVAL ((%s) %% 12) MONTH)", zeroTime, month, month)
}

// SkipLocked implements engine.SumWords. MariaDB supports it since 10.6.
func (words) SkipLocked() string { return " FOR UPDATE SKIP LOCKED" }

// InsertNew implements engine.SumWords. IGNORE would hide not only duplicate keys, but other
// errors, too. Those can't occur in the tables for which InsertNew is used: these tables have no
// partitions, and only integers and short names.
func (words) InsertNew() (begin, end string) { return "INSERT IGNORE", "" }
func (words) OnKey([]string) string          { return " ON DUPLICATE KEY UPDATE " }

// Sent implements engine.SumWords. MariaDB has only this form.
func (d words) Sent(column string) string { return "VALUES(" + d.Quote(column) + ")" }

// Temporary implements engine.SumWords. MyRocks has no temporary tables.
func (d words) Temporary(name, body string) engine.TemporaryTable {
	q := d.Quote(name)
	return engine.TemporaryTable{
		Create: "CREATE TEMPORARY TABLE " + q + " (" + body + ") ENGINE=InnoDB",
		Clear:  "TRUNCATE TABLE " + q,
		Drop:   "DROP TEMPORARY TABLE IF EXISTS " + q,
		Name:   q,
	}
}

func (d words) SumColumn(c engine.SchemaColumn) string {
	if c.Collation == "" || c.Logical == value.JSON {
		return c.Native
	}
	charset, _, _ := strings.Cut(c.Collation, "_")
	return c.Native + " CHARACTER SET " + charset + " COLLATE " + c.Collation
}

func (d words) ReplaceView(name, query string) []string {
	return []string{"CREATE OR REPLACE VIEW " + d.Quote(name) + " AS\n" + query}
}

// Triggers implements engine.SumWords. If a connection changes several rows with equal notes, its
// first change inserts the note. Each further change finds the note and locks it, so that consumers
// skip the note until the transaction has ended.
func (d words) Triggers(t *engine.Table, _ []string, n engine.NoteRow) []engine.Trigger {
	insert := func(row string) string {
		return fmt.Sprintf("INSERT IGNORE INTO %s VALUES (%s, CONCAT('connection ', CONNECTION_ID()))",
			n.Into, strings.Join(n.Values(row+"."+d.Quote(t.By)), ", "))
	}
	var out []engine.Trigger
	for _, e := range []struct{ event, body string }{
		{"INSERT", insert("NEW")},
		{"UPDATE", "BEGIN " + insert("OLD") + "; " + insert("NEW") + "; END"},
		{"DELETE", insert("OLD")},
	} {
		out = append(out, d.trigger(t, n.Name+"_"+strings.ToLower(e.event)+"_"+t.Name, "AFTER "+e.event, e.body))
	}
	return out
}

// trigger returns a row trigger with a second name of the same length; names have at most 64
// characters. MySQL can't replace a trigger, and MariaDB may lose a replaced trigger in a crash. So
// a changed trigger is created with the other name before the old one is dropped.
func (d words) trigger(t *engine.Table, name, when, body string) engine.Trigger {
	named := func(name string) engine.Trigger {
		return engine.Trigger{
			Name: name, Table: t.Name, Body: unquoted.Replace(body),
			Statements: []string{fmt.Sprintf("CREATE TRIGGER %s %s ON %s FOR EACH ROW %s", d.Quote(name), when, d.Quote(t.Name), body)},
			Drop:       []string{"DROP TRIGGER IF EXISTS " + d.Quote(name)},
		}
	}
	out, other := named(name), named(strings.Replace(name, "rowmill_", "rowmill2", 1))
	out.Other = &other
	return out
}

// unquoted removes quotes and backslashes from literals, because MySQL's catalog shows these
// characters without the escapes that the statement had.
var unquoted = strings.NewReplacer("'", "", `\`, "")

// HaveTriggers implements engine.SumWords. CHAR(39) and CHAR(92) are a quote and a backslash in any
// sql_mode. The condition on EVENT_OBJECT_SCHEMA keeps MariaDB from opening the tables of every
// database; with a condition on EVENT_OBJECT_TABLE as well, MariaDB opens only one table.
func (words) HaveTriggers(table string) string {
	q := "SELECT TRIGGER_NAME, EVENT_OBJECT_TABLE, REPLACE(REPLACE(ACTION_STATEMENT, CHAR(39), ''), CHAR(92), '') " +
		"FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE() AND EVENT_OBJECT_SCHEMA = DATABASE()"
	if table != "" {
		q += " AND EVENT_OBJECT_TABLE = " + quoteText(table)
	}
	return q
}

func (d words) Refuse(t *engine.Table, _ []string, boundary string) []engine.Trigger {
	body := fmt.Sprintf("BEGIN IF %s < %s THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = %s; END IF; END",
		d.Position(t, "NEW."+d.Quote(t.By)), boundary, quoteText("rowmill: the period of this row is sealed"))
	return []engine.Trigger{d.trigger(t, "rowmill_late_"+t.Name, "BEFORE INSERT", body)}
}

// hashOf renders the hash of an expression, in hexadecimal digits.
func hashOf(expr string) string { return "SHA2(" + expr + ", 256)" }

// RowHash implements engine.Words: the sum of the first 64 bits of each row's hash. Each value
// except NULL is preceded by its length, so that different rows have different texts.
func (d words) RowHash(cols []engine.SchemaColumn) string {
	values := make([]string, len(cols))
	for i, c := range cols {
		v := d.Quote(c.Name)
		switch {
		case c.Kind == value.Float:
			// The JSON text has all digits, as in AsText, and is the same for 0 and -0. For NULL, it is a
			// text that no number has.
			v = "JSON_ARRAY(" + v + " + 0e0)"
		case c.Kind == value.Decimal || c.Kind == value.Other || c.Logical == value.JSON:
			v = "CAST(" + v + " AS CHAR)"
		}
		v = "CAST(" + v + " AS BINARY)"
		if long(c.Native) {
			v = hashOf(v) // several long values may exceed the maximum length of a text
		}
		values[i] = "COALESCE(CONCAT(LENGTH(" + v + "), ':', " + v + "), 'n')"
	}
	row := "''"
	if len(values) > 0 {
		row = "CONCAT(" + strings.Join(values, ", ") + ")"
	}
	return sumOfHashes(row)
}

// sumOfHashes renders the sum of the first 64 bits of the hashes of an expression.
func sumOfHashes(row string) string {
	return "CONCAT('sha2:', CAST(COALESCE(SUM(CAST(CONV(LEFT(" + hashOf(row) + ", 16), 16, 10) AS UNSIGNED)), 0) AS CHAR))"
}

// MatchHash implements engine.Words in half of RowHash's time. The text of a row begins with a
// digit for each column that can be NULL, 1 if it is. The values that are not NULL follow; only
// texts are preceded by their length. 01#7#5#hello is the row 7, NULL, 'hello', whose last column
// is NOT NULL.
func (d words) MatchHash(cols []engine.SchemaColumn) string {
	nulls, values := []string{"''"}, []string{"'#'"}
	for _, c := range cols {
		v := d.Quote(c.Name)
		if c.Null {
			nulls = append(nulls, "ISNULL("+v+")")
		}
		switch {
		case c.Kind == value.Float && !d.mariadb:
			v = "JSON_ARRAY(" + v + " + 0e0)" // all digits, as in RowHash
		case c.Kind == value.Float:
			v += " + 0e0"
		case c.Kind == value.Int || c.Kind == value.Decimal || c.Kind == value.Time:
		case c.Kind == value.Other || c.Logical == value.JSON:
			v = "CAST(" + v + " AS CHAR)"
			fallthrough
		default:
			if b := "CAST(" + v + " AS BINARY)"; long(c.Native) {
				v = hashOf(b)
			} else {
				v = "LENGTH(" + v + "), " + b
			}
		}
		values = append(values, v)
	}
	return sumOfHashes("CONCAT_WS(" + strings.Join(slices.Insert(values, 1, "CONCAT("+strings.Join(nulls, ", ")+")"), ", ") + ")")
}

// long reports whether values of a type can be large.
func long(native string) bool {
	name := typeName(native)
	return strings.HasSuffix(name, "TEXT") || strings.HasSuffix(name, "BLOB") || name == "JSON"
}
