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
	// Literal is a position as a literal of the type of t's By column.
	Literal(t *Table, pos int64) string
	// Position is an expression for the position, a BIGINT, of a value of t's By column, for which
	// expr stands. FromPosition is the reverse.
	Position(t *Table, expr string) string
	FromPosition(t *Table, expr string) string
	// Now is the present as a position of an axis of time, in a view: a BIGINT.
	Now() string
	// AsText is an expression for a text that the server takes as exactly the column's value.
	AsText(c SchemaColumn) string
	// KeyText is AsText for a column of a key, in characters that all character sets have. KeyValue
	// returns what to bind for such a text, and its placeholder: it is compared as the column is.
	KeyText(c SchemaColumn) string
	KeyValue(c SchemaColumn, text string) (placeholder string, value any, err error)
	// CopyRows is a statement that copies rows from one table into another.
	CopyRows(c CopyRows) string
	// RowHash is an aggregate expression for a checksum, a text, of columns of a group of rows in any
	// order. It includes NULLs.
	RowHash(cols []SchemaColumn) string
	// MatchHash is a RowHash that need not be the same in another version of rowmill.
	MatchHash(cols []SchemaColumn) string
	// CreateTemplate returns statements that create an empty table of this name with the columns and
	// keys of t, or of its periods.
	CreateTemplate(t *Table, name string, o Storage) []string
	// Text and Blob are types of any length, Text for any characters.
	Text() string
	Blob() string
	// OwnTable ends CREATE TABLE for rowmill's own tables: their changes commit with those of other
	// tables, and names in them are compared as the server compares names of tables.
	OwnTable() string
}

// Storage describes how a period's rows are stored on disk.
type Storage struct {
	// Compress requests the engine's best compression. Alone permits one that a period can't have.
	Compress, Alone bool
	// Assigns requests that the server assigns values to the same columns as in the table.
	Assigns bool
}

// UntypedWords are those of an engine with Capabilities.Untyped.
type UntypedWords interface {
	// Unrestorable is a condition for values of a column that inserting their AsText would change.
	Unrestorable(c SchemaColumn, expr string) string
}

// CompactWords are those of an engine that can store a filled table more densely.
type CompactWords interface {
	// Compact returns statements that sort a standalone table and its indexes, and fill their pages.
	Compact(table string) []string
}

// MergeWords are those of an engine that can merge a table and a period into another table while
// others write to the period: see Staging.Run.
type MergeWords interface {
	// Differs is a condition that two values of a column aren't stored in the same way: see
	// Loader.Compare. NULL is the same as NULL.
	Differs(c SchemaColumn, a, b string) string
}

// ProbeWords are the Words of an engine with privileges.
type ProbeWords interface {
	// Probe returns statements that use the needed privileges on ProbeTable, which they remove. undo
	// removes what is left after one has failed, on the same connection.
	Probe(n Needs) (statements, undo []string)
}

// SumWords are further pieces of SQL for roll-ups. Those in views need no functions of rowmill.
type SumWords interface {
	// SumType is a column type that holds the sum of any number of values of c.
	SumType(c SchemaColumn) string
	// Double is the type of 64-bit binary fractions, AsDouble a conversion of a number to that type.
	Double() string
	AsDouble(expr string) string
	// Variance is an aggregate for the population variance, or "" if the engine has none.
	Variance(expr string) string
	// SquareRoot is the square root of a number that is not negative, or NULL.
	SquareRoot(expr string) string
	// Month numbers the month of a position, from January of year 0. MonthStart is where it begins.
	Month(pos string) string
	MonthStart(month string) string
	// SkipLocked ends a SELECT that locks its rows, and skips those that others have locked. It is ""
	// where rows have no locks.
	SkipLocked() string
	// InsertNew begins and ends an INSERT that skips rows whose key exists: INSERT
	// IGNORE, ON CONFLICT DO NOTHING.
	InsertNew() (begin, end string)
	// OnKey continues an INSERT, before assignments to the row with the same key. Sent is the value
	// that the INSERT has for a column. No assignment may read a column that an earlier one changes.
	OnKey(key []string) string
	Sent(column string) string
	// Temporary is a table of one connection, if possible without a log. Body is its columns and key.
	Temporary(name, body string) TemporaryTable
	// SumColumn is the type of a column that compares values of c as c does, with its collation.
	SumColumn(c SchemaColumn) string
	// ReplaceView returns statements that create a view or change its query, if possible at once.
	ReplaceView(name, query string) []string
	// Triggers returns triggers on t, or on its periods if these are tables, that note each change of
	// rows.
	Triggers(t *Table, periods []string, n NoteRow) []Trigger
	// HaveTriggers is a query for existing triggers: their names, which are unique, tables and bodies.
	// It may have only those of one table, unless table is "".
	HaveTriggers(table string) string
}

// A TemporaryTable is the statements to create, empty and drop a table, and its name in statements.
type TemporaryTable struct{ Create, Clear, Drop, Name string }

// A NoteRow is what triggers insert for each row that is inserted, updated (before and after) or
// deleted, unless the key exists.
type NoteRow struct {
	Name string // the prefix of the triggers' names
	Into string // the quoted table with its columns
	// Values are expressions, given one for a value of t's By column. The trigger adds the writer: the
	// transaction, if possible.
	Values func(by string) []string
	// Watermark is a scalar subquery for the position below which rows are late, and noted. Engines
	// with concurrent transactions note all rows: one may be late only when it is committed.
	Watermark string
}

// LateWords are the pieces of SQL that refuse rows whose period is sealed.
type LateWords interface {
	// Refuse returns triggers that refuse rows whose position lies below boundary, a scalar subquery.
	// periods are t's, if they are tables of their own.
	Refuse(t *Table, periods []string, boundary string) []Trigger
	// HaveTriggers is that of SumWords.
	HaveTriggers(table string) string
}

// CopyRows describes an INSERT of rows that exist.
type CopyRows struct {
	// Into is a table, quoted, From an item of FROM. Columns and Key are names.
	Into, From   string
	Columns, Key []string
	// Values, unless empty, are the rows as SQL text, in place of those of From.
	Values string
	// Where is a condition on the rows, or "". They are copied in the order of Key, if it isn't empty.
	Where string
	// Skip keeps a row of Into with the same key.
	Skip bool
}

// SQL returns the statement, given its verb, what follows the list of columns, and its end.
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

// BytesFromKey is a part of Words.KeyValue: the value of hexadecimal digits.
func BytesFromKey(c SchemaColumn, text string) ([]byte, error) {
	p, err := hex.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("key column %s: %q is not hexadecimal", c.Name, text)
	}
	return p, nil
}

// NumberFromKey is a part of Words.KeyValue: the value of a number, and a text of another kind.
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
