package engine

// SumWords are the pieces of SQL that roll-ups (continuous aggregates) need in
// addition to Words. Those used in views need no functions that other clients of the
// server lack.
type SumWords interface {
	// SumType is a column type that holds the sum of any number of values of c.
	SumType(c SchemaColumn) string
	// Double is the type of 64-bit binary fractions, AsDouble a conversion of a
	// number to that type.
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
	// OnKey continues an INSERT. It is followed by assignments, separated by commas,
	// to the existing row with the same key. Sent is the value that the INSERT has
	// for a column, given by its name. An assignment must not read a column changed
	// by an earlier assignment: servers differ in the value it would see.
	OnKey(key []string) string
	Sent(column string) string
	// Temporary returns the statements that create, empty and drop a table visible
	// only to its connection, which ends with it; and its name in statements. Body
	// is its columns and its key. If possible, none of them is written to the log
	// for replicas or recovery.
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
	// where triggers of two tables may have the same, table, and body. Where one
	// table's are cheaper to read it is a query for those, unless its name is
	// empty.
	HaveTriggers(table string) string
}

// A TemporaryTable is the statements to create, empty and drop a table, and its name
// in statements.
type TemporaryTable struct{ Create, Clear, Drop, Name string }

// A NoteRow tells triggers what to insert for rows that are inserted, updated
// (before and after) or deleted: Values and the writer into Into, unless the key
// exists. See Watermark for the rows that are noted.
type NoteRow struct {
	// Name is the prefix of the triggers' names.
	Name string
	// Into is the quoted table with its columns.
	Into string
	// Values are expressions for a value of t's By column given as an expression.
	// The trigger adds the writer after them, which identifies the transaction if
	// possible.
	Values func(by string) []string
	// Watermark is a scalar subquery for the position below which rows are late.
	// Engines with concurrent transactions note every row: a row that isn't late
	// when it is written may be late when it is committed.
	Watermark string
}
