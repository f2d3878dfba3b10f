package engine

import "context"

// A Housekeeper is a Reader that tells what very many tables cost its server.
type Housekeeper interface {
	Reader
	Sizer
	// HasDatabase reports whether there is a database of that name.
	HasDatabase(ctx context.Context, name string) (bool, error)
	// CreateDatabase creates an empty database. DropDatabase drops it, if it exists, with all of its
	// tables. DropDatabase ends other processes' connections to the database; the caller must have
	// closed its own.
	CreateDatabase(ctx context.Context, name string) error
	DropDatabase(ctx context.Context, name string) error
	// Household reads what the server keeps for the tables of this database.
	Household(ctx context.Context) (Household, error)
	// HoldTables returns the statements by which a session opens tables. Sessions don't share what
	// they open: with each session, the server needs the same memory again. The tables stay open as
	// long as the session.
	HoldTables(tables []string) []string
}

// A Household is what a server keeps in memory and on disk for its tables.
type Household struct {
	// DictionaryBytes is the size of the data dictionary on disk.
	DictionaryBytes int64
	// Opened counts how often a table was opened since the server's start; -1 if it isn't counted.
	Opened int64
	// Caches are the settings that limit the cached data of open tables, and the number of open files.
	Caches map[string]string
}
