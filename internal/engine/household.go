package engine

import "context"

// A Housekeeper is a Reader whose server may hold very many tables: it tells what they cost.
type Housekeeper interface {
	Reader
	Sizer
	// HasDatabase reports whether there is a database of that name.
	HasDatabase(ctx context.Context, name string) (bool, error)
	// CreateDatabase creates an empty database, and DropDatabase drops it with all of its tables, if
	// it exists. No connection may use it then, but those of others are ended.
	CreateDatabase(ctx context.Context, name string) error
	DropDatabase(ctx context.Context, name string) error
	// Household reads what the server keeps for the tables of this database.
	Household(ctx context.Context) (Household, error)
	// HoldTables returns the statements by which a session opens tables for itself, such that another
	// session that does so needs as much again. What it opened stays as long as the session.
	HoldTables(tables []string) []string
}

// A Household is what a server keeps for tables.
type Household struct {
	// DictionaryBytes is the size of the data dictionary on disk.
	DictionaryBytes int64
	// Opened counts how often a table was opened since the server's start; -1 is not counted.
	Opened int64
	// Caches are the settings that limit what is kept of open tables, and how many files are open.
	Caches map[string]string
}
