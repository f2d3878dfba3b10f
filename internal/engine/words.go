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
	// Position is an expression for the position, a BIGINT, of a value of t's By
	// column given as an expression; FromPosition is the reverse.
	Position(t *Table, expr string) string
	FromPosition(t *Table, expr string) string
	// Now is the present as a position of an axis of time, in a view: a BIGINT.
	Now() string
	// AsText is an expression for a column's value as text, which the server accepts
	// as exactly that value of the column.
	AsText(c SchemaColumn) string
	// KeyText is AsText for a column of a key, in a form that text of any character
	// set can represent. KeyValue returns the value to bind for such a text and its
	// placeholder, so that the server compares it as the column does.
	KeyText(c SchemaColumn) string
	KeyValue(c SchemaColumn, text string) (placeholder string, value any, err error)
	// CopyRows is a statement that copies rows from one table into another.
	CopyRows(c CopyRows) string
	// RowHash is an aggregate expression of type text for a checksum of the columns
	// of a group of rows. It is independent of their order and includes NULLs.
	RowHash(cols []SchemaColumn) string
	// MatchHash is RowHash in whatever form is fastest, for tables that are compared at one moment: it
	// is never stored.
	MatchHash(cols []SchemaColumn) string
	// CreateTemplate returns statements that create an empty table of the given name
	// with the columns and keys of a standalone table or of a period of t.
	CreateTemplate(t *Table, name string, o Storage) []string
	// Text and Blob are types of any length, Text for any characters.
	Text() string
	Blob() string
	// OwnTable is the text after the parentheses of CREATE TABLE for rowmill's own
	// tables: their changes commit with those of other tables, and names in them are
	// compared as the server compares table names.
	OwnTable() string
}

// Storage describes how a period's rows are stored on disk.
type Storage struct {
	// Compress requests the engine's best compression for a period. Alone permits one
	// that a table can't have if it is to become a period.
	Compress, Alone bool
	// Assigns requests that the server assigns values to the same columns as in the table, where a
	// period gets none.
	Assigns bool
}

// UntypedWords are those of an engine whose columns accept values outside of their
// types: see Capabilities.Untyped.
type UntypedWords interface {
	// Unrestorable is a condition that is true for values of a column, given as an
	// expression, that inserting their text (AsText) into it would not restore.
	Unrestorable(c SchemaColumn, expr string) string
}

// CompactWords are those of an engine that can store a filled table more densely
// than it was after filling.
type CompactWords interface {
	// Compact returns statements that do so for a standalone table: rows and every
	// index sorted, pages full.
	Compact(table string) []string
}

// MergeWords are those of an engine on which a table of rows and a period can be merged into
// another table while others write to the period: see Staging.Run.
type MergeWords interface {
	// Differs is a condition that two values of a column, given as expressions, are not
	// the same as the server stores them: see Loader.Compare. NULL is the same as NULL.
	Differs(c SchemaColumn, a, b string) string
}

// ProbeWords are the Words of an engine with privileges.
type ProbeWords interface {
	// Probe returns statements that use the needed privileges on a table called ProbeTable, and leave
	// nothing behind; undo removes what remains after one has failed. All run on one connection.
	Probe(n Needs) (statements, undo []string)
}

// SumWords are the pieces of SQL that roll-ups (continuous aggregates) need besides
// Words. Those used in views need no functions that other clients lack.
type SumWords interface {
	// SumType is a column type that holds the sum of any number of values of c.
	SumType(c SchemaColumn) string
	// Double is the type of 64-bit binary fractions, AsDouble a conversion of a number to that type.
	Double() string
	AsDouble(expr string) string
	// Variance is an aggregate expression for the population variance of a group, or
	// "" if there is none.
	Variance(expr string) string
	// SquareRoot is the square root of a number that is not negative, or NULL.
	SquareRoot(expr string) string
	// Month is the number of the month of a position, counted from January of year
	// 0; MonthStart the position at which that month begins.
	Month(pos string) string
	MonthStart(month string) string
	// SkipLocked ends a SELECT that locks the rows it reads and skips rows locked by
	// others; "" if rows can't be locked by others.
	SkipLocked() string
	// InsertNew begins and ends an INSERT that skips rows whose key exists: INSERT
	// IGNORE, ON CONFLICT DO NOTHING.
	InsertNew() (begin, end string)
	// OnKey continues an INSERT, before assignments to the existing row with the same
	// key. Sent is the value that the INSERT has for a column. An assignment must not
	// read a column changed by an earlier one: servers differ in the value it sees.
	OnKey(key []string) string
	Sent(column string) string
	// Temporary is a table that only its connection sees, and that ends with it. Body is its columns
	// and its key. If possible, it is not written to the log for replicas or recovery.
	Temporary(name, body string) TemporaryTable
	// SumColumn is the type of a column for values of c that compares them in the
	// same way: with its collation.
	SumColumn(c SchemaColumn) string
	// ReplaceView returns the statements that create a view or change its query, if
	// possible without a moment in which it is missing.
	ReplaceView(name, query string) []string
	// Triggers returns triggers that note each change of rows of t as n specifies,
	// or of its periods if those are tables of their own.
	Triggers(t *Table, periods []string, n NoteRow) []Trigger
	// HaveTriggers is a query for the triggers there are: name, with the table's
	// where triggers of two tables may have the same, table, and body; of one table
	// if its name isn't empty and they are cheaper to read.
	HaveTriggers(table string) string
}

// A TemporaryTable is the statements to create, empty and drop a table, and its name in statements.
type TemporaryTable struct{ Create, Clear, Drop, Name string }

// A NoteRow tells triggers what to insert for rows that are inserted, updated
// (before and after) or deleted: Values and the writer into Into, unless the key
// exists. See Watermark for the rows that are noted.
type NoteRow struct {
	Name string // the prefix of the triggers' names
	Into string // the quoted table with its columns
	// Values are expressions for a value of t's By column given as an expression. The
	// trigger adds the writer after them: the transaction, if possible.
	Values func(by string) []string
	// Watermark is a scalar subquery for the position below which rows are late.
	// Engines with concurrent transactions note every row: a row that isn't late
	// when it is written may be late when it is committed.
	Watermark string
}

// LateWords are the pieces of SQL that refuse rows whose period is sealed.
type LateWords interface {
	// Refuse returns triggers that fail the INSERT of a row whose position lies below the boundary, a
	// scalar subquery. Periods are the tables that hold t's periods, if they are tables of their own.
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
	// Where is a condition on the rows; "" is all of them. They are copied in the order
	// of Key, if there is one.
	Where string
	// Skip keeps a row of Into with the same key.
	Skip bool
}

// SQL returns the statement with the parts in which servers differ: the verb, what
// follows the list of columns, and what follows the order.
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

// BytesFromKey and NumberFromKey are parts of Words.KeyValue: they return the value of
// a key column's text, for hexadecimal digits and for an integer or a float.
func BytesFromKey(c SchemaColumn, text string) ([]byte, error) {
	p, err := hex.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("key column %s: %q is not hexadecimal", c.Name, text)
	}
	return p, nil
}

// NumberFromKey returns the text itself for a column of another kind.
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
