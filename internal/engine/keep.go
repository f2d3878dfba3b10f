package engine

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/rowmill/rowmill/rolling"
)

// A Keeper is a DB that can maintain declared rolling tables for years. Every
// operation that takes a table's lock waits for it for a limited time and is tried
// once: the caller decides when to retry.
type Keeper interface {
	DB
	// SQL is a pool of connections prepared by Session{Maintenance: true}: UTC,
	// strict, limited waits for locks. Its statements have the placeholders that
	// Bind produces. Times are returned as text or as time.Time, depending on the
	// driver: use AsText to be certain.
	SQL() *sql.DB
	// Bind replaces the question marks that are placeholders in a statement by those
	// of the engine. None of them may be in a literal.
	Bind(query string) string
	// Classify adds its class to an error of SQL. Nil stays nil.
	Classify(err error) error

	// Loader opens a connection of its own that can insert into any tables.
	Loader(ctx context.Context) (Loader, error)

	// Describe reads a table from the catalog: columns, keys, partitioning. It
	// returns ErrNoTable if the table does not exist.
	Describe(ctx context.Context, name string) (*Schema, error)
	// PeriodSizes returns the rows (estimated) and bytes of each partition, by its
	// name.
	PeriodSizes(ctx context.Context, t *Table) (map[string]PeriodSize, error)
	// Try applies steps as Apply does, but tries each once: it returns
	// ErrLockTimeout as soon as the limited wait has passed. Detach, Attach and
	// Replace check which part of them is already done, so that they may be repeated
	// after a crash at any point.
	Try(ctx context.Context, steps ...Step) error
	// Lead takes the lock of that name, in this database, for as long as its process
	// and its connection live. It returns ErrLockTimeout at once if the lock is
	// taken.
	Lead(ctx context.Context, name string) (Lease, error)
	// Blockers lists the transactions that hold a lock on the table, or use it,
	// oldest first: those for which a lock request waits.
	Blockers(ctx context.Context, t *Table) ([]Blocker, error)
	// Load reports how busy the server is, for work that can be postponed.
	Load(ctx context.Context) (ServerLoad, error)

	// Words returns the engine's SQL for constructs that differ between servers.
	Words() Words
}

// An Outsider is a Keeper whose tables keep rows older than every period, because
// its partitions have no lower bounds.
type Outsider interface {
	// Outside returns the number of such rows.
	Outside(ctx context.Context, t *Table) (int64, error)
}

// CompactWords are those of an engine that can store a filled table more densely
// than it was after filling.
type CompactWords interface {
	// Compact returns statements that do so for a standalone table: rows and every
	// index sorted, pages full.
	Compact(table string) []string
}

// A Lease is a lock held by a leader.
type Lease interface {
	// Lost is closed once another process may hold the lock.
	Lost() <-chan struct{}
	// Release releases the lock.
	Release() error
}

// A Blocker is a transaction that blocks a lock request.
type Blocker struct {
	// ID is the server's id of its connection: the argument of KILL and
	// pg_terminate_backend.
	ID int64
	// User and Host are those of its connection.
	User, Host string
	// Age is the time since the transaction began.
	Age time.Duration
	// Statement is its current or last statement, if the server provides it; cut to
	// some 200 characters.
	Statement string
	// Own reports that the connection is one of SQL's, of this process or another:
	// rowmill's maintenance, which ends it without intervention.
	Own bool
}

// String describes the connection, its user and host, the age of its transaction,
// and its statement.
func (b Blocker) String() string {
	whose := ""
	if b.Own {
		whose = "rowmill's own "
	}
	return fmt.Sprintf("%sconnection %d of %s@%s, in a transaction for %s: %s", whose, b.ID, b.User, b.Host, b.Age.Round(time.Second), b.Statement)
}

// ServerLoad is the current load of a server.
type ServerLoad struct {
	// Running is the number of statements that are running now, without rowmill's
	// own.
	Running int
	// ReplicaLag is the lag of the slowest replica; -1 if there is none or it is
	// unknown.
	ReplicaLag time.Duration
}

// PeriodSize is the size of one period.
type PeriodSize struct {
	Rows        int64 // the server's estimate
	Data, Index int64 // bytes
}

// A Schema is a table as described by the catalog.
type Schema struct {
	Name    string
	Columns []SchemaColumn
	// PrimaryKey names its columns in order; nil if there is none.
	PrimaryKey []string
	// Unique holds the columns of each unique key except the primary key.
	Unique [][]string
	// UniqueOther names the unique indexes that are not in Unique: on expressions,
	// or on some of the rows.
	UniqueOther []string
	// Indexes are the secondary indexes, including unique ones.
	Indexes []Index
	// ForeignKeys are the names of foreign keys of the table, and of others that
	// reference it.
	ForeignKeys []string
	// Triggers are the names of triggers on the table.
	Triggers []string
	// Partitioned reports that it has partitions of any kind. By is the column if it
	// is partitioned by range of one column that rowmill supports.
	Partitioned bool
	By          string
	// View reports that the name is that of a view: in SQLite, of a rolling table.
	View bool
	// Compacts reports that its storage engine sorts and compresses rows by itself,
	// and can't exchange tables with partitions: rebuilding a period has no effect,
	// and merging several would move rows under the table's lock.
	Compacts bool
	// Options are the other properties: storage engine, row format, access method.
	Options map[string]string
}

// A SchemaColumn is a column as described by the catalog.
type SchemaColumn struct {
	Name string
	// Native is the type as written by the server, "decimal(10,2) unsigned".
	Native string
	Null   bool
	// Kind determines how its values are transported.
	Kind Kind
	// Generated columns can't be written to.
	Generated bool
	// Auto columns are assigned values by the server if none is given.
	Auto bool
	// Collation is that of a text column, in the form used after COLLATE; "" is the
	// default of the type or the server.
	Collation string
	// Default is the default as SQL text, "" if there is none.
	Default string
}

// A Kind is a class of types whose values are transported in the same way.
type Kind int

// Kinds of columns.
const (
	KindOther   Kind = iota // the server's text, which the server also accepts
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

// Find returns a column by the rules of SQL: an exact match, else one without regard
// to case; nil if there is none.
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

// Words are pieces of SQL. Columns are given by name; the methods quote them.
type Words interface {
	// From is the operand of FROM to read or write one period of t: a partition or a
	// table.
	From(t *Table, p rolling.Partition) string
	// Literal is a position as a literal of the type of t's By column.
	Literal(t *Table, pos int64) string
	// Position is an expression for the position, a BIGINT, of a value of t's By
	// column given as an expression.
	Position(t *Table, expr string) string
	// FromPosition is the reverse: an expression of the By column's type for a
	// position given as an expression.
	FromPosition(t *Table, expr string) string
	// AsText is an expression for a column's value as text that is read back
	// exactly: the server accepts it as a value of that column.
	AsText(c SchemaColumn) string
	// RowHash is an aggregate expression of type text for a checksum of the columns
	// of a group of rows. It is independent of their order and includes NULLs. The
	// server function it is made with precedes a colon, "sha2:123"; the first one
	// that rowmill used on an engine has no name. Checksums of groups can only be
	// added up on the server.
	RowHash(cols []SchemaColumn) string
	// RowHashLike is a RowHash with the function of a checksum from an earlier
	// release of rowmill or of the server. Its error is ErrUnsupported if this
	// server lacks that function.
	RowHashLike(checksum string, cols []SchemaColumn) (string, error)
	// CreateTemplate returns statements that create an empty table of the given name
	// with the columns and keys of a standalone table or of a period of t.
	CreateTemplate(t *Table, name string, o Storage) []string
	// Text and Blob are types of any length, Text for any characters.
	Text() string
	Blob() string
	// OwnTable is the text after the parentheses of CREATE TABLE for rowmill's own
	// tables: their changes commit with those of other tables, and names in them, of
	// any characters, are compared in the same way as the server compares table
	// names.
	OwnTable() string
}

// A SessionLister is a DB whose server can list its sessions.
type SessionLister interface {
	// Sessions lists the sessions visible to the target's user, at least its own.
	Sessions(ctx context.Context) ([]ServerSession, error)
}

// A ServerSession is one connection to a server.
type ServerSession struct {
	ID int64
	// Database is its default database, State its current state in the server's
	// words, Statement its current statement; "" if there is none.
	Database, State, Statement string
}

// HashName is the name of the function that produced a checksum: see Words.RowHash.
func HashName(checksum string) string {
	name, _, named := strings.Cut(checksum, ":")
	if !named {
		return ""
	}
	return name
}

// UnknownHash is the error of RowHashLike for a checksum that the engine never
// produced.
func UnknownHash(checksum string) error {
	return Classed(ErrUnsupported, fmt.Errorf("the checksum %s is made with %q, which this release of rowmill doesn't know", checksum, HashName(checksum)))
}

// Storage describes how a period's rows are stored on disk.
type Storage struct {
	// Compress requests the engine's best compression for a period.
	Compress bool
}

type (
	// Detach converts a partition to a standalone table, called Into. Have lists the
	// existing partitions in order, including the detached one.
	Detach struct {
		Table *Table
		Have  []rolling.Partition
		Part  rolling.Partition
		Into  string
	}
	// Attach makes the table From a partition: before the first, after the last, or
	// in a gap. The caller must have checked that its rows lie within the bounds.
	Attach struct {
		Table *Table
		Have  []rolling.Partition
		Part  rolling.Partition
		From  string
	}
	// Replace puts the rows of the table With in the place of one or more adjacent
	// partitions, Old, which become the one partition New, of the same bounds.
	// Readers see each row exactly once. The rows of each old partition are moved to
	// the table at the same index of Out. Out must not name With, because it can't
	// be determined afterwards whether tables were exchanged. See
	// Capabilities.LastName for the name of New.
	Replace struct {
		Table *Table
		Have  []rolling.Partition
		Old   []rolling.Partition
		New   rolling.Partition
		With  string
		Out   []string
	}
	// DropTables drops the standalone tables that exist.
	DropTables struct{ Names []string }
	// AddColumn adds a column to a table and all of its periods, with the method
	// that blocks inserts the least. Definition is the column as in CREATE TABLE,
	// with its name, as its owner wrote it.
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
