package engine

// SumWords are the pieces of SQL that roll-ups need besides Words. Those that
// end up in a view use nothing that other clients of the server lack.
type SumWords interface {
	// SumType is a column type that holds the sum of any number of values of c.
	SumType(c SchemaColumn) string
	// Double is the type of binary fractions of 64 bits, AsDouble an
	// expression of that type for a number.
	Double() string
	AsDouble(expr string) string
	// Variance is an aggregate expression for the population variance of
	// a group, or "" where there is none.
	Variance(expr string) string
	// SquareRoot is that of a number that is not negative, or NULL.
	SquareRoot(expr string) string
	// Month is the number of the month, counted from January of year 0, in
	// which a position lies; MonthStart the position at which that month begins.
	Month(pos string) string
	MonthStart(month string) string
	// SkipLocked ends a SELECT that locks the rows it reads and leaves
	// out those that somebody else has locked; "" where nobody can.
	SkipLocked() string
	// InsertNew begins an INSERT that leaves out rows whose key is there, and ends
	// it: INSERT IGNORE, ON CONFLICT DO NOTHING.
	InsertNew() (begin, end string)
	// OnKey continues an INSERT: what follows it are assignments, separated by
	// commas, to the row whose key is there already. Sent is the value that the
	// INSERT has for a column, given by its name. An assignment reads no column
	// that one before it has changed: servers differ in what it would see.
	OnKey(key []string) string
	Sent(column string) string
	// Temporary returns the statements that create a table that only its
	// connection sees and that ends with it, empty it and drop it; and what a
	// statement calls it. Body is its columns and its key. None of them is
	// written to what replicas or a recovery read, where that can be had.
	Temporary(name, body string) TemporaryTable
	// SumColumn is the type of a column for values of c, as they are compared
	// there: with its collation.
	SumColumn(c SchemaColumn) string
	// ReplaceView returns the statements that create a view or give it another
	// query, without a moment in which it isn't there where that can be had.
	ReplaceView(name, query string) []string
	// Triggers returns triggers by which each change of rows of t, or of its
	// periods where those are tables of their own, is noted as n says.
	Triggers(t *Table, periods []string, n NoteRow) []Trigger
	// HaveTriggers is a query for the triggers there are: name, with the table's
	// where triggers of two tables may have the same, table, and body. Where one
	// table's are cheaper to read it is a query for those, unless its name is
	// empty.
	HaveTriggers(table string) string
}

// A TemporaryTable is how to make, empty and drop one, and its name in statements.
type TemporaryTable struct{ Create, Clear, Drop, Name string }

// A NoteRow tells triggers what to do with rows that are inserted, updated
// (before and after) and deleted: to insert into Into, unless the key is there,
// what Values says, in a row WHERE Late holds.
type NoteRow struct {
	// Name is what the triggers' names begin with.
	Name string
	// Into is the table with its columns, quoted.
	Into string
	// Values are expressions for a value of t's By column given as an
	// expression; Writer is to follow them: whose transaction it is.
	Values func(by string) []string
	// Watermark is a scalar subquery for the position below which rows are
	// late. Engines where transactions may overlap note every row: one that
	// isn't late when it is written may be when it is committed.
	Watermark string
}
