package engine

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// Words are pieces of SQL. Columns are given by name; the methods quote them.
type Words interface {
	// From is the operand of FROM to read or write one period of t.
	From(t *Table, p rolling.Partition) string
	// Literal is an SQL literal of a position, of the type of t's By column.
	Literal(t *Table, pos int64) string
	// Position is an expression for a position, a BIGINT. expr stands for a value of t's By column.
	// FromPosition is the reverse.
	Position(t *Table, expr string) string
	FromPosition(t *Table, expr string) string
	// Now is an expression, for views, of the present time as a position: a BIGINT.
	Now() string
	// AsText is an expression for a text from which the server reads exactly the column's value.
	AsText(c SchemaColumn) string
	// KeyText is AsText for a column of a key, with only characters that exist in all character sets.
	// KeyValue returns the value to bind for such a text, and a placeholder that compares like the
	// column.
	KeyText(c SchemaColumn) string
	KeyValue(c SchemaColumn, text string) (placeholder string, value any, err error)
	// CopyRows is a statement that copies rows from one table into another.
	CopyRows(c CopyRows) string
	// RowHash is an aggregate expression for a checksum, as text, of the columns of a group of rows.
	// The order of the rows doesn't matter. A NULL changes the checksum, too.
	RowHash(cols []SchemaColumn) string
	// MatchHash is a RowHash that may change with rowmill's version.
	MatchHash(cols []SchemaColumn) string
	// CreateTemplate returns statements that create an empty table called name, with the columns
	// and keys of t or, if the periods are tables, of a period.
	CreateTemplate(t *Table, name string, o Storage) []string
	// Text and Blob are types of any length, Text for any characters.
	Text() string
	Blob() string
	// OwnTable is the end of a CREATE TABLE for rowmill's own tables: changes of these tables commit
	// together with changes of other tables, and names in them are compared as the server compares
	// table names.
	OwnTable() string
}

// Storage describes how a period's rows are stored on disk.
type Storage struct {
	// Compress requests the best compression. Alone permits a compression that a period can't have.
	Compress, Alone bool
	// Assigns requests that the server assigns values to the same columns as in the rolling table.
	Assigns bool
}

// UntypedWords are the Words of an engine with Capabilities.Untyped.
type UntypedWords interface {
	// Unrestorable is the condition that an insert of a value's AsText would change the value.
	Unrestorable(c SchemaColumn, expr string) string
}

// CompactWords are the Words of an engine that can store a filled table more densely.
type CompactWords interface {
	// Compact returns statements that sort a standalone table and its indexes, and fill their pages.
	Compact(table string) []string
}

// MergeWords are the Words of an engine that can merge a table and a period into another table
// while other clients write to the period: see Staging.Run.
type MergeWords interface {
	// Differs is the condition that two values of a column are stored in different ways: see
	// Loader.Compare. Two NULLs don't differ.
	Differs(c SchemaColumn, a, b string) string
}

// ProbeWords are the Words of an engine with privileges.
type ProbeWords interface {
	// Probe returns statements that use the needed privileges on ProbeTable, and then drop it. If a
	// statement fails, undo drops what is left, on the same connection.
	Probe(n Needs) (statements, undo []string)
}

// SumWords are pieces of SQL for roll-ups. Those for views call no function that rowmill defines.
type SumWords interface {
	// SumType is a column type that holds the sum of any number of values of c.
	SumType(c SchemaColumn) string
	// Double is the type of 64-bit binary fractions. AsDouble converts a number to that type.
	Double() string
	AsDouble(expr string) string
	// Variance is an aggregate for the population variance, or "" if the engine has none.
	Variance(expr string) string
	// SquareRoot is the square root of a number that is not negative, or NULL.
	SquareRoot(expr string) string
	// Month is the number of a position's month; January of year 0 has 0. MonthStart is its start.
	Month(pos string) string
	MonthStart(month string) string
	// SkipLocked is the end of a SELECT that locks its rows, and skips rows that others have locked.
	// It is "" if the engine has no row locks.
	SkipLocked() string
	// InsertNew is the beginning and the end of an INSERT that skips rows whose key exists: INSERT
	// IGNORE, ON CONFLICT DO NOTHING.
	InsertNew() (begin, end string)
	// OnKey returns a continuation of an INSERT. The caller appends assignments to it, which change an
	// existing row with the same key. Sent is the value that the INSERT has for a column. No
	// assignment may read a column that an earlier assignment changes.
	OnKey(key []string) string
	Sent(column string) string
	// Temporary is a table of one connection, if possible unlogged. Body has its columns and key.
	Temporary(name, body string) TemporaryTable
	// SumColumn is a column type with c's collation, which compares values as c does.
	SumColumn(c SchemaColumn) string
	// ReplaceView returns statements that create a view or change its query, if possible atomically.
	ReplaceView(name, query string) []string
	// Triggers returns triggers that note each change of t's rows. They are on t or, if the periods
	// are tables of their own, on the periods.
	Triggers(t *Table, periods []string, n NoteRow) []Trigger
	// HaveTriggers is a query for the names, tables and bodies of existing triggers; the names are
	// unique. Unless table is "", the query may return only the triggers of this table.
	HaveTriggers(table string) string
}

// A TemporaryTable has a table's name in statements, and statements to create, empty and drop it.
type TemporaryTable struct{ Create, Clear, Drop, Name string }

// A NoteRow is what triggers insert for each row that is inserted, updated (before and after) or
// deleted. The triggers don't insert a row whose key Into already has.
type NoteRow struct {
	Name string // the prefix of the triggers' names
	Into string // the quoted table with its columns
	// Values returns expressions for the values that are inserted. by is an expression for the row's
	// value of t's By column. The trigger adds one value that stands for the writer: its transaction,
	// if possible.
	Values func(by string) []string
	// Watermark is a scalar subquery for a position. Rows below this position are late, and are noted.
	// Engines with concurrent transactions note all rows, because a row may become late before its
	// transaction commits.
	Watermark string
}

// LateWords are the pieces of SQL that refuse rows of sealed periods.
type LateWords interface {
	// Refuse returns triggers that refuse rows whose position lies below boundary, a scalar subquery.
	// periods are t's periods, if these are tables of their own.
	Refuse(t *Table, periods []string, boundary string) []Trigger
	// HaveTriggers is the same as in SumWords.
	HaveTriggers(table string) string
}

// CopyRows describes an INSERT that copies rows.
type CopyRows struct {
	// Into is a quoted table, From an item of FROM. Columns and Key are names.
	Into, From   string
	Columns, Key []string
	// Values, unless empty, has the rows as SQL text; From is then unused.
	Values string
	// Where is a condition on the rows, or "". They are copied in the order of Key, if it has columns.
	Where string
	// Skip keeps the row of Into if one with the same key exists.
	Skip bool
}

// SQL returns the statement. verb begins it, override follows the list of columns, tail ends it.
func (c CopyRows) SQL(quote func(string) string, verb, override, tail string) string {
	cols := QuoteList(c.Columns, quote)
	q := fmt.Sprintf("%s %s (%s)%s ", verb, c.Into, cols, override)
	if c.Values != "" {
		return q + "VALUES " + c.Values + tail
	}
	q += fmt.Sprintf("SELECT %s FROM %s", cols, c.From)
	if c.Where != "" {
		q += " WHERE " + c.Where
	}
	if len(c.Key) > 0 {
		q += " ORDER BY " + QuoteList(c.Key, quote)
	}
	return q + tail
}

// BytesFromKey is a part of Words.KeyValue: it returns the bytes that hexadecimal digits stand for.
func BytesFromKey(c SchemaColumn, text string) ([]byte, error) {
	p, err := hex.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("key column %s: %q is not hexadecimal", c.Name, text)
	}
	return p, nil
}

// NumberFromKey is a part of Words.KeyValue: a number becomes its value, other texts stay.
func NumberFromKey(c SchemaColumn, text string) (any, error) {
	switch c.Kind {
	case value.Int:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("key column %s: %q is not an integer", c.Name, text)
		}
		return n, nil
	case value.Float:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("key column %s: %q is not a number", c.Name, text)
		}
		return f, nil
	}
	return text, nil
}
