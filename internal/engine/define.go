package engine

import "context"

// A Definer is a Sizer that lists tables, and returns their definitions.
type Definer interface {
	Sizer
	// Tables lists the tables of the database, not their partitions, with their sizes by the server's
	// statistics. It reads no rows.
	Tables(ctx context.Context) ([]ListedTable, error)
	// Estimate is like Footprint, but uses the statistics that the server already has: it changes
	// nothing, and needs only the privilege SELECT.
	Estimate(ctx context.Context, table string) (*Footprint, error)
	// Definition returns the statements, separated by semicolons, that create the table without its
	// partitions: CREATE TABLE, and a statement for each index that CREATE TABLE can't contain. It
	// returns ErrNoTable if there is no such table.
	Definition(ctx context.Context, name string) (string, error)
}

// A ListedTable is a table as Definer.Tables lists it.
type ListedTable struct {
	Name string `json:"name"`
	Rows int64  `json:"rows"` // estimated; -1 is unknown
	// Data holds the rows with their primary key, Index the secondary indexes, in bytes.
	Data  int64 `json:"data_bytes"`
	Index int64 `json:"index_bytes"`
	// Partitions is the number of the table's partitions; 0 for a plain table.
	Partitions int `json:"partitions"`
}
