package rolling

// A Definition is a CREATE TABLE statement, read as far as a rolling table
// needs it: names, keys, and where they stand. What a type or an option means
// is the server's business.
type Definition struct {
	// Text is the statement, without a terminator.
	Text string
	// Name is the table's, unquoted; nameFrom and nameTo are where it stands.
	Name             string
	nameFrom, nameTo int
	Columns          []DefinedColumn
	// PrimaryKey names its columns, also when one column says so of itself.
	PrimaryKey []string
	// Unique holds the columns of each UNIQUE constraint.
	Unique [][]string
	// ForeignKey is the line, from 1, of the first foreign key; 0 without one.
	ForeignKey int
	// Partitioned tells that the statement cuts the table itself.
	Partitioned bool
}

// A DefinedColumn is one column of a Definition.
type DefinedColumn struct {
	Name string
	// Type is the type as it is written, up to its attributes.
	Type string
	// NotNull tells that it says so, or is part of the primary key.
	NotNull bool
	// Text is the whole of it, "ts DATETIME NOT NULL".
	Text string
	// Line is where it stands in the statement, from 1.
	Line int
}

// As returns the statement for a table of another name, which is quoted
// already.
func (d *Definition) As(quoted string) string {
	return d.Text[:d.nameFrom] + quoted + d.Text[d.nameTo:]
}
