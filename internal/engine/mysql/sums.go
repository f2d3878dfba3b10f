package mysql

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.SumWords = dialect{}

// digits matches the precision and scale of a decimal type.
var digits = regexp.MustCompile(`\((\d+)(?:,\s*(\d+))?\)`)

// SumType implements engine.SumWords. Like the server's own SUM, it has 22 digits
// more than a value, up to the maximum of 65.
func (dialect) SumType(c engine.SchemaColumn) string {
	precision, scale := 20, 0
	switch {
	case c.Kind == engine.KindFloat:
		return "DOUBLE"
	case c.Kind == engine.KindDecimal && typeName(c.Native) == "DECIMAL":
		precision = 10
		if m := digits.FindStringSubmatch(c.Native); m != nil {
			precision, _ = strconv.Atoi(m[1])
			scale, _ = strconv.Atoi(m[2])
		}
	}
	return fmt.Sprintf("DECIMAL(%d,%d)", min(precision+22, 65), scale)
}

// Double implements engine.SumWords.
func (dialect) Double() string { return "DOUBLE" }

// AsDouble implements engine.SumWords. MySQL can cast to DOUBLE only since 8.0.17.
func (dialect) AsDouble(expr string) string { return "(" + expr + " + 0e0)" }

// Variance implements engine.SumWords.
func (dialect) Variance(expr string) string { return "VAR_POP(" + expr + ")" }

// SquareRoot implements engine.SumWords.
func (dialect) SquareRoot(expr string) string { return "SQRT(" + expr + ")" }

// Month implements engine.SumWords.
func (dialect) Month(pos string) string {
	at := "TIMESTAMPADD(MICROSECOND, " + pos + ", " + zeroTime + ")"
	return "(YEAR(" + at + ") * 12 + MONTH(" + at + ") - 1)"
}

// MonthStart implements engine.SumWords.
func (dialect) MonthStart(month string) string {
	return fmt.Sprintf("TIMESTAMPDIFF(MICROSECOND, %s, MAKEDATE((%s) DIV 12, 1) + INTERVAL ((%s) %% 12) MONTH)", zeroTime, month, month)
}

// SkipLocked implements engine.SumWords. MariaDB supports it since 10.6.
func (dialect) SkipLocked() string { return " FOR UPDATE SKIP LOCKED" }

// InsertNew implements engine.SumWords. The tables it is used for have no
// partitions and only integers and short names, so it ignores only duplicate keys.
func (dialect) InsertNew() (begin, end string) { return "INSERT IGNORE", "" }

// OnKey implements engine.SumWords.
func (dialect) OnKey([]string) string { return " ON DUPLICATE KEY UPDATE " }

// Sent implements engine.SumWords. MariaDB has no other form.
func (d dialect) Sent(column string) string { return "VALUES(" + d.Quote(column) + ")" }

// Temporary implements engine.SumWords. It names the storage engine, because
// MyRocks, if it is the default, has no temporary tables.
func (d dialect) Temporary(name, body string) engine.TemporaryTable {
	q := d.Quote(name)
	return engine.TemporaryTable{
		Create: "CREATE TEMPORARY TABLE " + q + " (" + body + ") ENGINE=InnoDB",
		Clear:  "TRUNCATE TABLE " + q,
		Drop:   "DROP TEMPORARY TABLE IF EXISTS " + q,
		Name:   q,
	}
}

// SumColumn implements engine.SumWords.
func (d dialect) SumColumn(c engine.SchemaColumn) string {
	if c.Collation == "" || typeName(c.Native) == "JSON" {
		return c.Native
	}
	charset, _, _ := strings.Cut(c.Collation, "_")
	return c.Native + " CHARACTER SET " + charset + " COLLATE " + c.Collation
}

// ReplaceView implements engine.SumWords.
func (d dialect) ReplaceView(name, query string) []string {
	return []string{"CREATE OR REPLACE VIEW " + d.Quote(name) + " AS\n" + query}
}

// Triggers implements engine.SumWords. Each row looks up its note, and the first
// one of a connection writes it. The lookup locks the note, so that the consumer of
// notes skips those of open transactions.
func (d dialect) Triggers(t *engine.Table, _ []string, n engine.NoteRow) []engine.Trigger {
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

// trigger returns a row trigger with two alternative names. MySQL can't replace a
// trigger, and when MariaDB does, a crash of the server may lose it. The names have
// the same length, which is limited to 64.
func (d dialect) trigger(t *engine.Table, name, when, body string) engine.Trigger {
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

// unquoted removes quotes and backslashes from literals, because the catalog shows
// them differently from the statement: MySQL shows the unescaped character.
var unquoted = strings.NewReplacer("'", "", `\`, "")

// HaveTriggers implements engine.SumWords. CHAR(39) and CHAR(92) are a quote and a
// backslash under any sql_mode. MariaDB opens the tables of every database unless
// EVENT_OBJECT_SCHEMA is given; with EVENT_OBJECT_TABLE it opens only one.
func (dialect) HaveTriggers(table string) string {
	q := "SELECT TRIGGER_NAME, EVENT_OBJECT_TABLE, REPLACE(REPLACE(ACTION_STATEMENT, CHAR(39), ''), CHAR(92), '') " +
		"FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE() AND EVENT_OBJECT_SCHEMA = DATABASE()"
	if table != "" {
		q += " AND EVENT_OBJECT_TABLE = " + quoteText(table)
	}
	return q
}
