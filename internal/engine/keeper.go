package engine

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// A Keeper is a DB that can maintain declared rolling tables for years. Operations that take a
// table's lock wait for a limited time and are tried once: the caller decides when to retry.
type Keeper interface {
	DB
	// SQL is a pool of connections for maintenance: UTC, strict, with limited waits for locks. Bind
	// makes the placeholders of its statements. Times come as text or as time.Time: see AsText.
	SQL() *sql.DB
	Driver

	// Session opens a connection of its own for statements and transactions.
	Session(ctx context.Context) (*Session, error)
	// Kill ends a connection by its id, if it exists, and waits until its transaction has ended. It
	// returns ErrUnsupported on an embedded engine.
	Kill(ctx context.Context, id int64) error
	// Loader opens a connection of its own that can insert into any tables.
	Loader(ctx context.Context) (Loader, error)

	// Describe reads a table from the catalog, or returns ErrNoTable.
	Describe(ctx context.Context, name string) (*Schema, error)
	// PeriodSizes returns the rows (estimated) and bytes of each partition, by its name.
	PeriodSizes(ctx context.Context, t *Table) (map[string]PeriodSize, error)
	// Try is Apply with one attempt at each step: it returns ErrLockTimeout after the limited wait.
	// Detach, Attach and Replace may be repeated after a crash at any point.
	Try(ctx context.Context, steps ...Step) error
	// Lead takes the lock of that name in this database, or returns ErrLockTimeout at once. The lock
	// ends with this process or its connection.
	Lead(ctx context.Context, name string) (Lease, error)
	// Blockers lists the transactions that a lock request on the table waits for, oldest first.
	Blockers(ctx context.Context, t *Table) ([]Blocker, error)
	// Running returns the number of statements that run on the server, without rowmill's own.
	Running(ctx context.Context) (int, error)

	// Words returns the engine's SQL for constructs that differ between servers.
	Words() Words
	// Mirroring returns what keeps the target of m equal to its source.
	Mirroring(m *Mirror) Mirroring
}

// A Driver adapts statements and errors of package sql to a database.
type Driver interface {
	// Bind replaces question marks, none of them in a literal, by the engine's placeholders.
	Bind(query string) string
	// Classify adds its class to an error of SQL. Nil stays nil.
	Classify(err error) error
}

// An Outsider is a Keeper whose partitions have no lower bounds. Its tables have spare partitions
// for rows before and between their periods.
type Outsider interface {
	// Outside returns the number of rows in the spare partitions.
	Outside(ctx context.Context, t *Table) (int64, error)
	// Spare returns the names of the spare partitions.
	Spare(ctx context.Context, t *Table) ([]string, error)
	Encloser
}

// An Encloser is a Keeper with partitions for rows outside of the periods: spare partitions of an
// Outsider, or a partition MAXVALUE or DEFAULT.
type Encloser interface {
	// Enclose moves the rows of an outside partition into a new period, and leaves the outside
	// partition empty. It copies only rows that don't belong to the new period, which must be few. The
	// parameter with is the name of a table that may hold the rows for a moment. Enclose tries once,
	// and may be repeated after a crash at any point. After ErrUnsupported, nothing has changed.
	Enclose(ctx context.Context, t *Table, period rolling.Partition, with string) error
}

// A DefaultError is returned with the partitions of a table that also has a default partition.
type DefaultError struct{ Part rolling.Partition }

func (e *DefaultError) Error() string {
	return fmt.Sprintf("%s is the default partition: it takes rows outside every period, each new period requires a scan of it, and no partition can be detached while inserts continue", e.Part.Name)
}

// A Bounded is a Keeper whose connections for maintenance can be bounded.
type Bounded interface {
	// Bound limits the open connections to BoundConnections. Statements wait for a free one.
	Bound()
}

// A LocalFile is a Keeper whose database is a file that this process reads itself.
type LocalFile interface {
	// Stamp returns, without a connection, a text that differs after each change of the database, or
	// "" if it can't tell now.
	Stamp() string
	// Holder returns the process that holds a lock of Lead, as Process names it; "" if none does.
	Holder(name string) (string, error)
}

// Process names this process in logs and locks: host and process id.
func Process() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// BoundConnections are enough for maintenance that takes turns as maintain.Scheduler does.
const BoundConnections = 8

// A ClusterNode is a Keeper whose server may be a node of a cluster that writes on all nodes.
type ClusterNode interface {
	// LocalLocks returns ErrUnsupported, as Lead does, if another process could take the same locks on
	// another node.
	LocalLocks(ctx context.Context) error
}

// A CrowdedError is returned if new periods would split a partition with so many rows that inserts
// would wait for long while they are copied.
type CrowdedError struct {
	// Part is the partition, Rows the range of its rows; empty if none is a position of the grid.
	Part rolling.Partition
	Rows rolling.Period
	Most int // rows that are copied
}

func (e *CrowdedError) Error() string {
	return fmt.Sprintf("partition %s, which holds its range, has more than %d rows, too many to be copied under a lock", e.Part.Name, e.Most)
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
	// ID is the server's id of its connection: the argument of KILL and pg_terminate_backend.
	ID int64
	// User and Host are those of its connection.
	User, Host string
	// Age is the time since the transaction began.
	Age time.Duration
	// Statement is its current or last statement, if provided; cut to some 200 characters.
	Statement string
	// Own reports that it is rowmill's maintenance, of any process, which ends by itself.
	Own bool
}

// String describes the connection, the age of its transaction, and its statement.
func (b Blocker) String() string {
	whose := ""
	if b.Own {
		whose = "rowmill's own "
	}
	return fmt.Sprintf("%sconnection %d of %s@%s, in a transaction for %s: %s", whose, b.ID, b.User, b.Host, b.Age.Round(time.Second), b.Statement)
}

// A Follower is a Keeper that can tell why it doesn't repeat the changes of its source.
type Follower interface {
	// Standing returns what has stopped, with its error; "" if all runs, or it is unknown.
	Standing(ctx context.Context) (why string, err error)
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
	// UniqueOther names the other unique indexes: on expressions, or on some of the rows.
	UniqueOther []string
	// Indexes are the secondary indexes, including unique ones.
	Indexes []Index
	// Triggers are the names of triggers on the table.
	Triggers []string
	// Partitioned reports partitions of any kind, and PartitionedBy is the catalog's text for them. By
	// and Bounds are those of Table, if rowmill supports these partitions.
	Partitioned   bool
	PartitionedBy string
	By, Bounds    string
	// View reports that the name is that of a view: in SQLite, of a rolling table.
	View bool
	// Compacts: its storage engine sorts and compresses rows by itself, and exchanges no tables.
	// Rebuilding has no effect, and merging would move rows under the table's lock.
	Compacts bool
	// Options are the other properties that an engine needs, such as the storage engine.
	Options map[string]string
}

// A SchemaColumn is a column as described by the catalog.
type SchemaColumn struct {
	Name string
	// Native is the server's text, "decimal(10,2) unsigned"; Type is what it means.
	Native string
	value.Type
	Null bool
	// Generated columns can't be written to. The values of Virtual ones are computed by each session
	// that reads them, on MySQL and MariaDB by its settings.
	Generated, Virtual bool
	// Auto columns are assigned values by the server if none is given.
	Auto bool
	// Collation is in the form used after COLLATE; "" is the default of the type or server.
	Collation string
	// Default is the default as SQL text, "" if there is none.
	Default string
}

// Unkept is the error of a table whose partitions rowmill can't keep.
func (s *Schema) Unkept() error {
	return Hinted(Classed(ErrUnsupported, fmt.Errorf("table %s is partitioned by %s, and rowmill keeps ranges of one column of times or integers, or of an expression that grows with it: TO_DAYS, TO_SECONDS, UNIX_TIMESTAMP, YEAR, YEAR * 100 + MONTH",
		s.Name, cmp.Or(s.PartitionedBy, "something"))),
		"a plain table, which rowmill apply adopts by copying: ALTER TABLE %s REMOVE PARTITIONING where the server has that statement, at a time when inserts may wait; elsewhere a copy of its rows", s.Name)
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

// Find returns a column by the rules of SQL: exactly, else without regard to case, else nil.
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

// Key returns the columns of the primary key.
func (s *Schema) Key() []SchemaColumn {
	out := make([]SchemaColumn, len(s.PrimaryKey))
	for i, name := range s.PrimaryKey {
		out[i] = *s.Column(name)
	}
	return out
}

// A KeyPart is one column of an index. Other marks an expression, or an index on some of the rows.
type KeyPart struct {
	Index, Column          string
	Primary, Unique, Other bool
}

// SetKeys sets the keys from their columns, in order, index by index.
func (s *Schema) SetKeys(parts []KeyPart) {
	for i, p := range parts {
		if i == 0 || parts[i-1].Index != p.Index {
			s.Indexes = append(s.Indexes, Index{Name: p.Index})
		}
		ix := &s.Indexes[len(s.Indexes)-1]
		ix.Columns = append(ix.Columns, p.Column)
		p.Other = p.Other || len(ix.Columns) > 1 && parts[i-1].Other
		parts[i] = p
		switch {
		case i+1 < len(parts) && parts[i+1].Index == p.Index: // not its last column
		case p.Primary:
			s.PrimaryKey, s.Indexes = ix.Columns, s.Indexes[:len(s.Indexes)-1]
		case p.Unique && p.Other:
			s.UniqueOther = append(s.UniqueOther, p.Index)
		case p.Unique:
			s.Unique = append(s.Unique, ix.Columns)
		}
	}
}

// Writable returns those of the columns that can be written to.
func Writable(cols []SchemaColumn) []SchemaColumn {
	return slices.DeleteFunc(slices.Clone(cols), func(c SchemaColumn) bool { return c.Generated })
}

// Quoted lists columns, each after a prefix such as "NEW.".
func Quoted(d Dialect, cols []SchemaColumn, prefix string) string {
	out := make([]string, len(cols))
	for i, c := range cols {
		out[i] = prefix + d.Quote(c.Name)
	}
	return strings.Join(out, ", ")
}

// EqualIn returns a condition that rows of two aliases, such as "o.", have equal values in columns.
func EqualIn(d Dialect, cols []SchemaColumn, a, b string) string {
	parts := make([]string, len(cols))
	for i, c := range cols {
		parts[i] = a + d.Quote(c.Name) + " = " + b + d.Quote(c.Name)
	}
	return strings.Join(parts, " AND ")
}

// Names returns the names of the columns that can be written to, in order.
func (s *Schema) Names() []string {
	var out []string
	for _, c := range Writable(s.Columns) {
		out = append(out, c.Name)
	}
	return out
}

// A ServerSession is one connection to a server.
type ServerSession struct {
	ID int64
	// Database is its default database, State the server's word, Statement the current one or "".
	Database, State, Statement string
}

// A Sizer is a Keeper that can measure each part of a plain table.
type Sizer interface {
	Keeper
	// Footprint measures a plain table, to the page if possible, without preallocated space.
	Footprint(ctx context.Context, table string) (*Footprint, error)
	// Named returns the tables whose names begin with a prefix.
	Named(ctx context.Context, prefix string) ([]string, error)
}

// A Footprint is the sizes of the parts of a plain table, in bytes.
type Footprint struct {
	// Heap is the size of the rows. If Clustered, they are stored in the order of the primary key,
	// without another index for it.
	Heap      int64
	Clustered bool
	// Indexes are the other indexes, including that of the primary key if it is separate.
	Indexes []IndexFootprint
	// Spare is space that is preallocated beyond the parts.
	Spare int64
	// Saved is how much of the sizes above isn't on disk, due to compression of pages; -1 is unknown.
	Saved int64
	// Rough: the sizes are estimates with preallocated space, and Indexes has one element for all.
	Rough bool
}

// An IndexFootprint is the size of one index.
type IndexFootprint struct {
	Name    string
	Columns []string
	Bytes   int64
}

// Total is the size of all parts on disk.
func (f *Footprint) Total() int64 {
	n := f.Heap
	for _, ix := range f.Indexes {
		n += ix.Bytes
	}
	return n - max(f.Saved, 0)
}

// A Limited is a Keeper whose server hides information from accounts without a privilege.
type Limited interface {
	// Hidden returns the information hidden from the account.
	Hidden(ctx context.Context) ([]Hidden, error)
}

// A Granter is a Keeper whose server's accounts have privileges.
type Granter interface {
	// Grants returns the statements that give rights to the account. Where only the owner of a table
	// may alter it, TRIGGER stands for being the owner of tables, periods, and rowmill's own tables.
	Grants(ctx context.Context, tables []string, rights []Right) ([]string, error)
}

// KeepRights are all privileges that a verb may need.
const KeepRights = "SELECT, INSERT, UPDATE, DELETE, CREATE, CREATE TEMPORARY TABLES, ALTER, DROP, INDEX, TRIGGER, LOCK TABLES, CREATE VIEW, SHOW VIEW, EVENT"

// A Right is a list of privileges on a table, or on all tables of the database for "".
type Right struct{ Table, Privileges string }

// Hidden is information that is hidden from an account.
type Hidden struct {
	// What is a list of the information, for users; Grant the statement that makes it visible.
	What, Grant string
}

// ProbeTable is the scratch table on which privileges are tested.
const ProbeTable = "rowmill_probe"

// Needs are privileges in addition to those on tables, views and rows.
type Needs struct {
	// Triggers are needed by exact roll-ups, late = "reject", and adoption.
	Triggers bool
	// Locks are locks on whole tables, which an adoption takes.
	Locks bool
	// Temporary tables are needed to compute roll-ups.
	Temporary bool
}

// Probe tests the account's privileges, so that no change fails halfway.
func Probe(ctx context.Context, db Keeper, n Needs) error {
	words, ok := db.Words().(ProbeWords)
	if !ok {
		return nil
	}
	c, err := db.SQL().Conn(ctx)
	if err != nil {
		return db.Classify(err)
	}
	defer c.Close()
	statements, undo := words.Probe(n)
	for _, q := range statements {
		if _, err := c.ExecContext(ctx, q); err != nil {
			err = fmt.Errorf("check the account's privileges with the scratch table %s: %w", ProbeTable, db.Classify(err))
			for _, q := range undo {
				// It may fail because its object was not created.
				_, _ = c.ExecContext(context.WithoutCancel(ctx), q)
			}
			return err
		}
	}
	return nil
}
