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
// table's lock wait for a limited time and make one attempt: the caller decides when to retry.
type Keeper interface {
	DB
	// SQL is a pool of connections for maintenance: in UTC, strict, with limited waits for locks. Its
	// statements have the engine's placeholders: see Bind. In results, times are strings or time.Time:
	// see Words.AsText.
	SQL() *sql.DB
	Driver

	// Session opens a connection of its own for statements and transactions.
	Session(ctx context.Context) (*Session, error)
	// Kill ends the connection that has the id, if there is one, and waits until the connection's
	// transaction has ended. Kill returns ErrUnsupported on an embedded engine.
	Kill(ctx context.Context, id int64) error
	// Loader opens a connection of its own that can insert into any tables.
	Loader(ctx context.Context) (Loader, error)

	// Describe reads a table from the catalog, or returns ErrNoTable.
	Describe(ctx context.Context, name string) (*Schema, error)
	// PeriodSizes returns each partition's (estimated) rows and bytes, by the partition's name.
	PeriodSizes(ctx context.Context, t *Table) (map[string]PeriodSize, error)
	// Try is Apply with one attempt at each step: if a step waits too long for a lock, Try returns
	// ErrLockTimeout. Detach, Attach and Replace may be repeated after a crash at any point.
	Try(ctx context.Context, steps ...Step) error
	// Lead takes the lock called name in this database, or returns ErrLockTimeout at once. The lock is
	// released when this process ends, or the connection that holds the lock.
	Lead(ctx context.Context, name string) (Lease, error)
	// Blockers lists the transactions that a lock request on the table waits for, oldest first.
	Blockers(ctx context.Context, t *Table) ([]Blocker, error)
	// Running returns the number of statements that run on the server, except rowmill's own.
	Running(ctx context.Context) (int, error)

	// Words returns the engine's SQL for what differs between servers.
	Words() Words
	// Mirroring returns what keeps the target of m equal to its source.
	Mirroring(m *Mirror) Mirroring
}

// A Driver adapts statements and errors of package sql to a database.
type Driver interface {
	// Bind replaces question marks by the engine's placeholders. No question mark may be in a literal.
	Bind(query string) string
	// Classify adds the class to an error of SQL. Nil stays nil.
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

// An Encloser is a Keeper that has partitions for rows outside of the periods: the spare partitions
// of an Outsider, or a partition MAXVALUE or DEFAULT.
type Encloser interface {
	// Enclose moves the rows of an outside partition into a new period without copying them. Only rows
	// that don't belong to the new period are copied, each to the partition where it belongs: there
	// must be few of them. The parameter with is the name of a table that may hold rows for a moment.
	// Enclose makes one attempt, and may be repeated after a crash at any point. After ErrUnsupported,
	// nothing has changed.
	Enclose(ctx context.Context, t *Table, period rolling.Partition, with string) error
}

// A DefaultError is returned, beside the partitions, for a table that also has a default partition.
type DefaultError struct{ Part rolling.Partition }

func (e *DefaultError) Error() string {
	return fmt.Sprintf("%s is the default partition: it takes rows outside every period, each new period requires a scan of it, and no partition can be detached while inserts continue", e.Part.Name)
}

// A Bounded is a Keeper that can limit the number of its connections for maintenance.
type Bounded interface {
	// Bound limits the open connections to BoundConnections. A statement waits until one is free.
	Bound()
}

// A LocalFile is a Keeper whose database is a file that this process reads itself.
type LocalFile interface {
	// Stamp returns, without a connection, a text that changes with each change of the database. It
	// returns "" if it can't read the file's state now.
	Stamp() string
	// Holder returns the Process that holds the Lead lock called name; "" if nobody does.
	Holder(name string) (string, error)
}

// Process names this process in logs and locks, by host and process id.
func Process() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}

// BoundConnections are enough for maintenance that works in turns, as maintain.Scheduler does.
const BoundConnections = 8

// A ClusterNode is a Keeper whose server may be in a cluster whose nodes all accept writes.
type ClusterNode interface {
	// LocalLocks returns ErrUnsupported, as Lead does, if a process on another node could take the
	// same locks at the same time.
	LocalLocks(ctx context.Context) error
}

// A CrowdedError says that new periods would split a partition with so many rows that inserts would
// have to wait for long while the rows are copied.
type CrowdedError struct {
	// Part is the partition. Rows is its rows' range: empty if unknown, or if no row is on the grid.
	Part rolling.Partition
	Rows rolling.Period
	Most int // the most rows that may be copied
}

func (e *CrowdedError) Error() string {
	return fmt.Sprintf("partition %s, which holds its range, has more than %d rows, too many to be copied under a lock", e.Part.Name, e.Most)
}

// A Lease is a lock held by a leader.
type Lease interface {
	// Lost is closed when another process may hold the lock.
	Lost() <-chan struct{}
	// Release releases the lock.
	Release() error
}

// A Blocker is a transaction that blocks a lock request.
type Blocker struct {
	// ID is the server's id of its connection: the argument of KILL and pg_terminate_backend.
	ID int64
	// User and Host are those of the blocking connection.
	User, Host string
	// Age is the time since the transaction began.
	Age time.Duration
	// Statement is its current or last statement, if shown; cut to some 200 characters.
	Statement string
	// Own: the transaction is maintenance by this or another rowmill process, and ends by itself.
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

// A Follower is a Keeper whose server may repeat the changes of another server, its source.
type Follower interface {
	// Standing says why the server doesn't repeat the changes of its source: for example, that a
	// thread has stopped, with its error. It returns "" if the server repeats them, or if that is
	// unknown.
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
	// PrimaryKey names the primary key's columns in order; nil if there is no primary key.
	PrimaryKey []string
	// Unique holds the columns of each unique key except the primary key.
	Unique [][]string
	// UniqueOther names the unique indexes on expressions or on some of the rows.
	UniqueOther []string
	// Indexes are the secondary indexes, including unique ones.
	Indexes []Index
	// Triggers are the names of triggers on the table.
	Triggers []string
	// Partitioned reports partitions of any kind, and PartitionedBy is the catalog's text for them. If
	// rowmill supports these partitions, By and Bounds are set as in Table.
	Partitioned   bool
	PartitionedBy string
	By, Bounds    string
	// View reports that the name is a view's: in SQLite, a rolling table is a view.
	View bool
	// Compacts: the table's storage engine sorts and compresses rows by itself, and can't exchange a
	// partition for a table. Rebuilding has no effect, and merging would move rows under the table's
	// lock.
	Compacts bool
	// Options are the other properties that an engine needs, such as the storage engine.
	Options map[string]string
}

// A SchemaColumn is a column as described by the catalog.
type SchemaColumn struct {
	Name string
	// Native is the server's text, such as "decimal(10,2) unsigned"; Type is its meaning.
	Native string
	value.Type
	Null bool
	// Generated columns can't be written to. Each session computes the values of Virtual columns when
	// it reads them; on MySQL and MariaDB, these values may depend on the session's settings.
	Generated, Virtual bool
	// Auto columns get values from the server if an insert gives none.
	Auto bool
	// Collation is the name used after COLLATE; "" is the default of the type or server.
	Collation string
	// Default is the default as SQL text, "" if there is none.
	Default string
}

// Unkept is the error for a table whose partitions rowmill can't maintain.
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

// Find returns a column by its exact name, else by its name in any case, else nil.
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

// SetKeys sets the keys of the schema from parts, which list the columns of each index in order.
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

// Quoted returns the quoted columns as a list, each after a prefix such as "NEW.".
func Quoted(d Dialect, cols []SchemaColumn, prefix string) string {
	out := make([]string, len(cols))
	for i, c := range cols {
		out[i] = prefix + d.Quote(c.Name)
	}
	return strings.Join(out, ", ")
}

// EqualIn returns the condition that rows of aliases a and b, such as "o.", are equal in cols.
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
	// Database is its default database, State what it does, Statement its current statement or "".
	Database, State, Statement string
}

// A Sizer is a Keeper that can measure each part of a plain table.
type Sizer interface {
	Keeper
	// Footprint measures a plain table, exactly to the page if possible, without preallocated space.
	Footprint(ctx context.Context, table string) (*Footprint, error)
	// Named returns the tables whose names begin with a prefix.
	Named(ctx context.Context, prefix string) ([]string, error)
}

// A Footprint has the sizes of the parts of a plain table, in bytes.
type Footprint struct {
	// Heap is the size of the rows. If Clustered, the rows are stored in the order of the primary key,
	// which then has no index of its own.
	Heap      int64
	Clustered bool
	// Indexes are all other indexes, including the primary key's if the rows aren't Clustered.
	Indexes []IndexFootprint
	// Spare is preallocated space, which no part uses yet.
	Spare int64
	// Saved is how much smaller the table is on disk due to compression of pages; -1 is unknown.
	Saved int64
	// Rough: the sizes are estimates and include preallocated space. Indexes has one element for all.
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
	// Hidden returns what information the server hides from the account.
	Hidden(ctx context.Context) ([]Hidden, error)
}

// A Granter is a Keeper whose server's accounts have privileges.
type Granter interface {
	// Grants returns the statements that give rights to the account. On a server where only the owner
	// of a table may alter it, a Right with TRIGGER makes the account the owner of tables, of their
	// periods, and of rowmill's own tables.
	Grants(ctx context.Context, tables []string, rights []Right) ([]string, error)
}

// KeepRights are all privileges that a command may need.
const KeepRights = "SELECT, INSERT, UPDATE, DELETE, CREATE, CREATE TEMPORARY TABLES, ALTER, DROP, INDEX, TRIGGER, LOCK TABLES, CREATE VIEW, SHOW VIEW, EVENT"

// A Right is a list of privileges on Table, or on all tables of the database if Table is "".
type Right struct{ Table, Privileges string }

// Hidden is information that is hidden from an account.
type Hidden struct {
	// What lists the hidden information for users. Grant is the statement that makes it visible.
	What, Grant string
}

// ProbeTable is the scratch table on which privileges are tested.
const ProbeTable = "rowmill_probe"

// Needs are the privileges that are needed in addition to those on tables, views and rows.
type Needs struct {
	// Triggers: to create triggers, which exact roll-ups, late = "reject", and adoption need.
	Triggers bool
	// Locks: to lock whole tables, as an adoption does.
	Locks bool
	// Temporary: to create temporary tables, in which roll-ups are computed.
	Temporary bool
}

// Probe tests the account's privileges before a change, so that none is missing halfway.
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
				// This statement fails if its object was not created.
				_, _ = c.ExecContext(context.WithoutCancel(ctx), q)
			}
			return err
		}
	}
	return nil
}
