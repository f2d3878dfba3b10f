package engine

import "context"

// A Definer is a Sizer that tells what tables there are, and how they were made.
type Definer interface {
	Sizer
	// Tables lists the tables of the database with what the server's statistics say of their sizes,
	// without reading their rows. Partitions are no tables.
	Tables(ctx context.Context) ([]ListedTable, error)
	// Estimate is Footprint by what the server knows already: it changes nothing, and needs no
	// privilege but SELECT.
	Estimate(ctx context.Context, table string) (*Footprint, error)
	// Definition returns the statements that make a table as it is, but with no partitions: CREATE
	// TABLE, and what indexes need statements of their own, separated by semicolons. It is ErrNoTable
	// if there is no such table.
	Definition(ctx context.Context, name string) (string, error)
}

// A ListedTable is a table in a list.
type ListedTable struct {
	Name string `json:"name"`
	Rows int64  `json:"rows"` // estimated; -1 is unknown
	// Data holds the rows with their primary key, Index the secondary indexes, in bytes.
	Data  int64 `json:"data_bytes"`
	Index int64 `json:"index_bytes"`
	// Partitions is the number of its partitions; 0 for a plain table.
	Partitions int `json:"partitions"`
}
