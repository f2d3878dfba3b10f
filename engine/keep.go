package engine

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// A Keeper is a DB that can keep rolling tables which people have declared, for
// years. Everything that takes a table's lock waits for it a bounded time and
// is tried once: who calls decides when to try again.
type Keeper interface {
	DB
	// SQL is a pool of connections prepared by Session{Maintenance: true}: UTC,
	// strict, bounded waits for locks. Its statements have the placeholders
	// that Bind makes. Values of times come as text or as time.Time, as
	// the driver has it: ask for AsText to be sure.
	SQL() *sql.DB
	// Bind rewrites a statement whose placeholders are question marks, none of
	// them in a literal, into the engine's.
	Bind(query string) string
	// Classify marks an error of SQL with its class. Nil stays nil.
	Classify(err error) error

	// Loader opens a connection of its own that inserts into any tables.
	Loader(ctx context.Context) (Loader, error)

	// Describe reads a table from the catalog: columns, keys, how it is
	// partitioned. It returns ErrNoTable for one that is not there.
	Describe(ctx context.Context, name string) (*Schema, error)
	// PeriodSizes returns, by the partition's name, rows (estimated) and bytes.
	PeriodSizes(ctx context.Context, t *Table) (map[string]PeriodSize, error)
	// Try applies steps as Apply does, but each is tried once: ErrLockTimeout is
	// returned as soon as the bounded wait has passed. Detach, Attach and
	// Replace look what of them is done already, so that they may be
	// tried again after a crash at any point.
	Try(ctx context.Context, steps ...Step) error
	// Lead takes the lock of that name, of this database, for as long as its
	// process and its connection live. It returns ErrLockTimeout at once when
	// somebody else has it.
	Lead(ctx context.Context, name string) (Lease, error)
	// Blockers lists the transactions that hold a lock on the table, or run in
	// it, oldest first: what a lock that wasn't to be had waits for.
	Blockers(ctx context.Context, t *Table) ([]Blocker, error)
	// Load tells how busy the server is, for work that can wait.
	Load(ctx context.Context) (ServerLoad, error)

	// Words returns how the engine writes what SQL has no common words for.
	Words() Words
}

// An Outsider is a Keeper whose tables keep rows that are older than every
// period, because its partitions have no lower bounds.
type Outsider interface {
	// Outside returns the number of such rows.
	Outside(ctx context.Context, t *Table) (int64, error)
}

// CompactWords are those of an engine that can lay a filled table out more
// densely than it became while it was filled.
type CompactWords interface {
	// Compact returns statements that do so with a standalone table: rows and
	// every index sorted, pages full.
	Compact(table string) []string
}

// A Lease is a lock that a leader holds.
type Lease interface {
	// Lost is closed once the lock may be somebody else's.
	Lost() <-chan struct{}
	// Release gives it back.
	Release() error
}

// A Blocker is a transaction in the way.
type Blocker struct {
	// ID is what the server knows its connection by: what KILL and
	// pg_terminate_backend take.
	ID int64
	// User and Host say whose it is.
	User, Host string
	// Age is for how long the transaction has been open.
	Age time.Duration
	// Statement is what it runs, or ran last, where the server says; cut to
	// some 200 characters.
	Statement string
	// Own tells that the connection is one of SQL's, of this process or another:
	// rowmill's maintenance, which ends it by itself.
	Own bool
}

// String names the connection, whose it is, for how long its transaction has
// been open, and what it runs.
func (b Blocker) String() string {
	whose := ""
	if b.Own {
		whose = "rowmill's own "
	}
	return fmt.Sprintf("%sconnection %d of %s@%s, in a transaction for %s: %s", whose, b.ID, b.User, b.Host, b.Age.Round(time.Second), b.Statement)
}

// ServerLoad is how busy a server is.
type ServerLoad struct {
	// Running is the number of statements that run now, rowmill's own not
	// counted.
	Running int
	// ReplicaLag is that of the replica furthest behind; -1 where there is none
	// or it can't be known.
	ReplicaLag time.Duration
}

// PeriodSize is what one period holds.
type PeriodSize struct {
	Rows        int64 // the server's estimate
	Data, Index int64 // bytes
}

// A Schema is a table as the catalog has it.
type Schema struct {
	Name    string
	Columns []SchemaColumn
	// PrimaryKey names its columns in order; nil without one.
	PrimaryKey []string
	// Unique holds the columns of each unique key but the primary one.
	Unique [][]string
	// UniqueOther names the unique indexes that Unique hasn't: of expressions, or
	// of some of the rows.
	UniqueOther []string
	// Indexes are the secondary indexes, unique ones included.
	Indexes []Index
	// ForeignKeys are the names of foreign keys of, and to, the table.
	ForeignKeys []string
	// Triggers are the names of triggers on the table.
	Triggers []string
	// Partitioned tells that it has partitions of any kind; By is the column
	// when it is cut by range of one column that rowmill can go by.
	Partitioned bool
	By          string
	// View tells that the name is a view's: in SQLite, of a rolling table.
	View bool
	// Compacts tells that its storage engine sorts and compresses rows by
	// itself, and can't swap tables for partitions: rebuilding a period is of no
	// use, and merging some would move rows under the table's lock.
	Compacts bool
	// Options is the rest: storage engine, row format, access method.
	Options map[string]string
}

// A SchemaColumn is a column as the catalog has it.
type SchemaColumn struct {
	Name string
	// Native is the type as the server writes it, "decimal(10,2) unsigned".
	Native string
	Null   bool
	// Kind says how values of it can be carried.
	Kind Kind
	// Generated columns can't be written to.
	Generated bool
	// Auto columns get their values from the server where none is given.
	Auto bool
	// Collation is that of text, as SQL has it after COLLATE; "" is the
	// type's or the server's own.
	Collation string
	// Default is the default as SQL text, "" without one.
	Default string
}

// A Kind is a class of types whose values are carried alike.
type Kind int

// Kinds of columns.
const (
	KindOther   Kind = iota // as the server's text, which it also reads
	KindInt                 // fits an int64
	KindFloat               // a binary fraction
	KindDecimal             // a decimal fraction, or an integer beyond int64
	KindTime                // an instant or a civil time, to the microsecond, UTC
	KindText                // characters
	KindBytes               // anything
)

// String returns the kind's name.
func (k Kind) String() string {
	return [...]string{"other", "integer", "float", "decimal", "time", "text", "bytes"}[k]
}

// Column returns the named column, or nil.
func (s *Schema) Column(name string) *SchemaColumn {
	for i := range s.Columns {
		if s.Columns[i].Name == name {
			return &s.Columns[i]
		}
	}
	return nil
}

// Find returns a column as SQL finds it: whatever the case of its name, if no
// other has that very name; nil without one.
func (s *Schema) Find(name string) *SchemaColumn {
	if c := s.Column(name); c != nil {
		return c
	}
	for i := range s.Columns {
		if strings.EqualFold(s.Columns[i].Name, name) {
			return &s.Columns[i]
		}
	}
	return nil
}

// Names returns the names of the columns that can be written to, in order.
func (s *Schema) Names() []string {
	var out []string
	for _, c := range s.Columns {
		if !c.Generated {
			out = append(out, c.Name)
		}
	}
	return out
}

// Words are pieces of SQL. Columns are given as names, which they quote.
type Words interface {
	// From is what a FROM names to read or write one period of t: a
	// partition, a table.
	From(t *Table, p rolling.Partition) string
	// Literal is a position as a value of t's By column.
	Literal(t *Table, pos int64) string
	// Position is an expression for the position, a BIGINT, of a value of t's
	// By column given as an expression.
	Position(t *Table, expr string) string
	// FromPosition is the reverse: a value of the By column's type from an
	// expression for a position.
	FromPosition(t *Table, expr string) string
	// AsText is an expression for a column's value as text that reads back
	// exactly: what the server itself takes as a value of that column.
	AsText(c SchemaColumn) string
	// RowHash is an aggregate expression, text, for a checksum of the columns
	// of a group of rows: independent of their order, and NULLs counted. Which
	// of the server's functions it is made with stands before a colon, "sha2:123";
	// the first that rowmill used on an engine has no name. It adds up over
	// groups only on the server.
	RowHash(cols []SchemaColumn) string
	// RowHashLike is a RowHash made as checksum was, by an earlier release of
	// rowmill or of the server. Its error is ErrUnsupported where this server
	// can't make such a one.
	RowHashLike(checksum string, cols []SchemaColumn) (string, error)
	// CreateTemplate returns statements that create an empty table under a
	// name with the columns and keys of a standalone table or of a period of t.
	CreateTemplate(t *Table, name string, o Storage) []string
	// Text and Blob are types of any length, Text of any characters.
	Text() string
	Blob() string
	// OwnTable is what follows the parentheses of CREATE TABLE for rowmill's own
	// tables: their changes commit with those of other tables, and names in
	// them, of any characters, are compared as the server compares those of
	// tables.
	OwnTable() string
}

// A SessionLister is a DB whose server tells of its sessions.
type SessionLister interface {
	// Sessions lists those that the target's user may see, its own at least.
	Sessions(ctx context.Context) ([]ServerSession, error)
}

// A ServerSession is one connection to a server.
type ServerSession struct {
	ID int64
	// Database is its default one, State what it does or waits for, in the
	// server's words, Statement what it runs; "" where there is none.
	Database, State, Statement string
}

// HashName is the name of the function that a checksum was made with: see
// Words.RowHash.
func HashName(checksum string) string {
	name, _, named := strings.Cut(checksum, ":")
	if !named {
		return ""
	}
	return name
}

// UnknownHash is the error of RowHashLike for a checksum that the engine never
// made.
func UnknownHash(checksum string) error {
	return Classed(ErrUnsupported, fmt.Errorf("the checksum %s is made with %q, which this release of rowmill doesn't know", checksum, HashName(checksum)))
}

// Storage is how a period's rows are to lie on disk.
type Storage struct {
	// Compress asks for the engine's best way of compressing a period.
	Compress bool
}

type (
	// Detach makes a partition a table of its own, called Into. Have lists the
	// partitions there are, in order, the detached one included.
	Detach struct {
		Table *Table
		Have  []rolling.Partition
		Part  rolling.Partition
		Into  string
	}
	// Attach makes the table From a partition: before the first, after the
	// last, or in a gap. Its rows are known to lie within: who attaches has
	// checked.
	Attach struct {
		Table *Table
		Have  []rolling.Partition
		Part  rolling.Partition
		From  string
	}
	// Replace puts the rows of the table With in the place of one or more
	// adjacent partitions, Old, which become the one partition New, of the same
	// bounds. No reader sees rows twice or not at all. The rows of each old
	// partition end up in the table of the same place in Out, which doesn't name
	// With: whether tables have changed places can't be seen afterwards. See
	// Capabilities.LastName for what New is called.
	Replace struct {
		Table *Table
		Have  []rolling.Partition
		Old   []rolling.Partition
		New   rolling.Partition
		With  string
		Out   []string
	}
	// DropTables drops standalone tables, those that exist.
	DropTables struct{ Names []string }
	// AddColumn adds a column to a table and all of its periods, by the way that
	// blocks inserts the least. Definition is the column as CREATE TABLE has
	// it, with its name, as its owner wrote it.
	AddColumn struct {
		Table      *Table
		Have       []rolling.Partition
		Name       string
		Definition string
	}
)

func (Detach) step()     {}
func (Attach) step()     {}
func (Replace) step()    {}
func (DropTables) step() {}
func (AddColumn) step()  {}
