package engine

import (
	"context"
	"github.com/rowmill/rowmill/internal/sqltext"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Reader is a Keeper on which package query can run one query in pieces, on several sessions. The
// package splits the query and merges the answers; a Reader knows its server.
type Reader interface {
	Keeper
	// Syntax returns the lexical rules of sessions with these settings, Semantics all other rules.
	Syntax(State) sqltext.Syntax
	Semantics(State) Semantics
	// ReadSession opens a session with these settings; nil stands for the settings of a new client.
	ReadSession(ctx context.Context, st State) (*Session, error)
	// ReadState reads all settings of a session that can change an answer.
	ReadState(ctx context.Context, s *Session) (State, error)
	// StateRefusal says why sessions with these settings can't run queries in pieces, for example
	// because texts aren't UTF-8. It returns "" if they can.
	StateRefusal(State) string
	// Freeze returns settings under which NOW() stays at its present value in this session. If it
	// returns none, the server can't stop the clock.
	Freeze(ctx context.Context, s *Session) (State, error)
	// DescribeQuery returns the columns of a query's result without running the query.
	DescribeQuery(ctx context.Context, s *Session, query string) ([]ResultColumn, error)
	// Collations returns, for each column of a result, a number that stands for its collation. It
	// returns nil if columns with equal descriptions always have the same collation.
	Collations(ctx context.Context, s *Session, query string) ([]int, error)
	// ExplainQuery returns the server's plan of a query, or the error that the query would have.
	ExplainQuery(ctx context.Context, s *Session, query string) (*QueryPlan, error)
	// TableParts reads a table and its partitions from the catalog. It returns ErrNoTable for a view,
	// unless the view is a rolling table: see Capabilities.PeriodTables.
	TableParts(ctx context.Context, s *Session, database, table string) (*TableParts, error)
	// LockedParts is TableParts for a table that OneSnapshot has locked against changes. With
	// Capabilities.SnapshotCatalog, the session has no transaction; otherwise it is one of the
	// snapshot's sessions.
	LockedParts(ctx context.Context, s *Session, database, table string) (*TableParts, error)
	// PartFrom returns an operand of FROM, without an alias, that reads exactly these partitions.
	PartFrom(t *TableParts, parts []string) string
	// OneSnapshot begins a read-only transaction in each session. Until these transactions end, nobody
	// can alter the tables, whose names are quoted. proof says why all sessions see the same rows; it
	// is "" if that isn't certain. lock permits a brief lock against writes. The error is
	// ErrLockTimeout if OneSnapshot can't lock a table within WaitForTables.
	OneSnapshot(ctx context.Context, sessions []*Session, tables []string, lock bool) (proof string, err error)
	// Aggregate returns how an aggregate is computed from pieces' values, or false if it can't be.
	Aggregate(AggregateCall) (Recipe, bool)
	// Bytes returns an expression over expr, a column's value. For two values whose texts differ, the
	// results of the expression differ. Bytes returns "" if equal values always have the same text.
	Bytes(c ResultColumn, expr string) string
	// Ambiguous returns a condition over expr, a column's value. It is true in two cases: the value's
	// text may also stand for another value, or, in this use, the server may treat the value as equal
	// to another one. Ambiguous returns "" if this can't happen for any value, and "TRUE" if it can
	// for all.
	Ambiguous(c ResultColumn, expr string, use KeyUse) string
	// Function returns the kind of a function, given its name in lower case and its number of
	// arguments.
	Function(name string, args int) FunctionKind
	// MergeState returns st with settings under which a temporary table stores any value as it is.
	MergeState(st State) State
	// Carry returns an expression for a text from which TempTable restores a column's value exactly.
	// It returns "" if the value's usual text is enough.
	Carry(c ResultColumn, expr string) string
	// TempTable creates a temporary table with the columns of a query, but doesn't run the query. The
	// session has the settings of MergeState. cols describe the query's columns; they may be nil if no
	// rows will be inserted as texts. TempTable returns ErrUnsupported if a column can't hold the
	// values that its texts stand for.
	TempTable(ctx context.Context, s *Session, name, query string, cols []ResultColumn) (*TempTable, error)
	// UserFunction says why a statement may call a user's function, or returns "". names are the
	// functions that the statement names; its operators and casts may call others.
	UserFunction(ctx context.Context, s *Session, statement string, names []string) (why string, err error)
	// ClockValue returns an expression for call, a call of a ClockFunction. The expression's result is
	// SQL text, which can replace the call in any statement.
	ClockValue(call string) string
	// Cores is the number of processor cores if the server is on this machine, else 0.
	Cores() int
}

// A Talker is a Reader whose sessions of ReadSession take only one statement at a time.
type Talker interface {
	Reader
	// Talk opens a session like a new client's, which takes several statements in one text.
	Talk(ctx context.Context) (*Session, error)
}

// Talk opens a session like a new client's, which takes several statements in one text.
func Talk(ctx context.Context, r Reader) (*Session, error) {
	if t, ok := r.(Talker); ok {
		return t.Talk(ctx)
	}
	return r.ReadSession(ctx, nil)
}

// A PartVersioner is a Reader that can prove that the rows of a partition have not changed.
type PartVersioner interface {
	Reader
	// PartVersions returns the versions of partitions in a session's open transaction. If rows of a
	// partition change, then either its version changes, or triggers insert a row into the table
	// called into. why says why there are no versions.
	PartVersions(ctx context.Context, s *Session, t *TableParts, into string) (versions map[string]string, why string, err error)
	// TimeWords are names of functions that return the current time.
	TimeWords() []string
}

// A State is the settings of a session, in the order in which they must be set.
type State []Setting

// A Setting has the server's name of a setting, and its value.
type Setting struct{ Name, Value string }

// A LocalReader is a Reader whose answers depend on definitions, such as time zones and users'
// functions, that another server with the same rows may lack.
type LocalReader interface {
	// Locals identifies, by name, the definitions that queries of sessions with a State may use.
	Locals(ctx context.Context, s *Session, st State) (map[string]string, error)
	// LocalWord returns a word of the query that needs a definition not in Locals, or "".
	LocalWord(query string) string
}

// Get returns the value of the named setting, "" if st doesn't have it.
func (st State) Get(name string) string {
	for _, s := range st {
		if s.Name == name {
			return s.Value
		}
	}
	return ""
}

// A ResultColumn is one column of a result, as the server describes it.
type ResultColumn struct {
	Name   string
	Native string // the server's name of the type, as far as the protocol has it
	Class  ResultClass
	// Scale is the number of digits after the point of a ClassDecimal, or of a time's seconds.
	Scale int
	// Precision is the largest number of digits of a ClassDecimal; 0 is unknown.
	Precision int
	// Width is the length to which the server pads values of a fixed length, or the number of bits of
	// a value of bits; 0 for other types.
	Width int
	// Binary values are bytes, not characters. If they are also Hex, their texts are \x and two digits
	// for each byte.
	Binary, Hex bool
	// Folded: the collation may equate different texts. Not all engines set it.
	Folded bool
	// Temporal is the kind of a time's type, on servers with Semantics.OperandForm.
	Temporal Temporal
	// AllDigits: the texts of these binary fractions have enough digits to be exact.
	AllDigits bool
	// Padded: texts that differ only in blanks at the end are equal.
	Padded bool
	// Unsigned integers may be as large as 2^64-1.
	Unsigned bool
	// Provisional is set only by DescribeQuery: the column may have another type when the query runs.
	Provisional bool
	// Declared: Class is known from declarations; the result alone would give ClassOther.
	Declared bool
	// Carried: TempTable gets the texts of Reader.Carry for this column.
	Carried bool
	// Packet is the column's description in the server's protocol, for package serve, or nil.
	Packet []byte
}

// A Temporal is a kind of type for times.
type Temporal int

// Kinds of types for times.
const (
	NotTemporal Temporal = iota
	Duration             // or a time of day
	Year
	Date
	DateTime
)

// Dated reports a type whose values have a day.
func (t Temporal) Dated() bool { return t == Date || t == DateTime }

// A KeyUse is the purpose for which values of a column are compared for equality.
type KeyUse int

// Uses of columns.
const (
	// KeySorts: to form groups, or to sort.
	KeySorts KeyUse = iota
	// KeyDistinct: to aggregate DISTINCT values.
	KeyDistinct
	// KeyWindows: to form groups over which window functions run.
	KeyWindows
)

// A ResultClass says what may be done outside the server with the texts of a column's values.
type ResultClass int

// Classes of result columns.
const (
	// ClassOther: texts can only be passed on, because a text doesn't have the whole value.
	ClassOther ResultClass = iota
	// ClassInt: integers of at most 64 bits, in decimal.
	ClassInt
	// ClassDecimal: exact decimal numbers, with at most Scale digits after the point. If Scale is -1,
	// this number is unknown.
	ClassDecimal
	// ClassFloat: binary fractions, whose sums depend on the order of addition. Different values may
	// have the same text, so that they can't be keys; minima and maxima are exact.
	ClassFloat
	// ClassBytes: texts and bytes that are compared and ordered by their bytes.
	ClassBytes
	// ClassTime: dates, times and durations, whose texts have a fixed form and are ordered as bytes.
	ClassTime
	// ClassText: values that only the server can compare, such as texts with a collation. A temporary
	// table's column of the same type holds the values exactly.
	ClassText
)

// A QueryPlan is the server's plan for a query.
type QueryPlan struct {
	// Tables are the tables that are read, in the server's order; nil if the plan names none.
	Tables []PlannedTable
	// ByRelation: the Parts in Tables are all partitions read, by names that no other table has.
	ByRelation bool
	// Parallel is the number of processes that the server uses for the query, at least 1.
	Parallel int
	// Rows is the estimated number of rows that the query reads; -1 is unknown.
	Rows int64
	// Result is the estimated number of rows in the result; 0 if the plan doesn't say.
	Result int64
}

// Of returns the indexes of the partitions of t that the query reads, and the estimated number of
// rows. The query calls t by this alias; uses is how many times the query uses t. If the plan
// doesn't say which partitions the query reads, Of returns all partitions and -1. A plan may omit a
// table of which the query reads no rows.
func (p *QueryPlan) Of(t *TableParts, alias string, uses int) (parts []int, rows int64) {
	if p.Tables != nil && len(p.Tables) == 0 {
		return nil, -1
	}
	var read []string
	found := 0
	at, _ := t.byName()
	for _, one := range p.Tables {
		names := one.Parts
		if p.ByRelation {
			names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, ok := at[name]; return !ok })
		}
		if p.ByRelation && len(names) > 0 || !p.ByRelation && strings.EqualFold(one.Alias, alias) {
			found++
			rows += one.Rows
			read = append(read, names...)
		}
	}
	if found == 0 || !p.ByRelation && max(found, uses) > 1 {
		return t.Read(nil), -1
	}
	return t.Read(read), rows
}

// A PlannedTable is a table of a QueryPlan.
type PlannedTable struct {
	// Alias is the table's name in the query.
	Alias string
	// Parts are the partitions that the query reads; nil if there are none, or the plan doesn't say.
	Parts []string
	Rows  int64
}

// TableParts is a table with its partitions.
type TableParts struct {
	Database, Name string
	Columns        []SchemaColumn
	// Invisible are the columns that neither * nor a NATURAL join includes.
	Invisible []string
	// PrimaryKey names the primary key's columns in order.
	PrimaryKey []string
	// Parts are its partitions in the server's order; none if it isn't partitioned.
	Parts []TablePart
	// By are columns by which the table is partitioned: rows whose values of By are equal, by their
	// collations, lie in one partition. By is nil if no columns guarantee that.
	By []string
	// Refusal says why partitions can't be read one by one, for example row security; "" if they can.
	Refusal string
	// Period: the partitions are ranges of one column, so that the table may be a rolling table of
	// rowmill.
	Period bool
	// Fleeting is a Virtual column whose value may differ between sessions with the same State, or "".
	Fleeting string
	// Created changes whenever the table's columns or partitions change.
	Created string
	// Versioned: a transaction reads the rows from a snapshot.
	Versioned bool
	// Remote: the rows are on other servers. A query over several partitions may have a wrong answer
	// although a query over each single partition has the right one.
	Remote bool
	// Rewritten: a Remote table of a RemoteReader, whose rows only RowsFrom reads unchanged.
	Rewritten bool
}

// A RemoteReader is a Reader of a server that presents tables of other servers. The server rewrites
// conditions and expressions before it sends them to the other servers, and may change their
// meaning.
type RemoteReader interface {
	// RemoteTables lists the presented tables, and the views that may read one.
	RemoteTables(ctx context.Context, s *Session) ([]RemoteTable, error)
	// RowsFrom returns an operand of FROM, without an alias, for columns of some partitions of a
	// presented table, or of all partitions if parts is empty. The only condition that the other
	// servers evaluate is where, which is "" or compares columns with integers and times.
	RowsFrom(t *TableParts, parts, columns []string, where string) string
	// Pushed reports whether the server passes the whole query on to one other server.
	Pushed(ctx context.Context, s *Session, query string) (bool, error)
}

// A RemoteTable is a table, or a view on one, of a RemoteReader.
type RemoteTable struct {
	Database, Name string
	View           bool
}

// byName returns the index of each partition by its names in a plan. certain is false if two
// partitions share a name, or if a name has a comma, which separates names in a plan.
func (t *TableParts) byName() (at map[string]int, certain bool) {
	at, certain = make(map[string]int, len(t.Parts)), true
	for i, p := range t.Parts {
		for _, name := range append([]string{p.Name}, p.Planned...) {
			k, ok := at[name]
			certain = certain && (!ok || k == i) && !strings.Contains(name, ",")
			at[name] = i
		}
	}
	return at, certain
}

// Union returns an operand of FROM that reads the table's columns from other tables, whose names
// are quoted.
func (t *TableParts) Union(d Dialect, tables []string) string {
	columns := Quoted(d, t.Columns, "")
	return "(SELECT " + columns + " FROM " + strings.Join(tables, " UNION ALL SELECT "+columns+" FROM ") + ")"
}

// Has reports whether one of the names in a plan belongs to a partition.
func (t *TableParts) Has(names []string) bool {
	at, _ := t.byName()
	return slices.ContainsFunc(names, func(name string) bool { _, ok := at[name]; return ok })
}

// Read returns the indexes of the partitions that a plan reads, or all if that is uncertain.
func (t *TableParts) Read(planned []string) []int {
	byName, certain := t.byName()
	if !certain {
		planned = nil
	}
	var out []int
	for _, name := range planned {
		i, ok := byName[name]
		if !ok {
			out = nil
			break
		}
		if !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	if out == nil {
		out = make([]int, len(t.Parts))
		for i := range out {
			out[i] = i
		}
	}
	slices.Sort(out)
	return out
}

// A TablePart is one partition.
type TablePart struct {
	Name string
	// Planned are the names of the partition's subpartitions, which a QueryPlan may have in its place.
	Planned []string
	// Period is the name of the partition's rolling.Partition, if TableParts.Period.
	Period string
	// Outside: the partition is rowmill's own for rows outside of all periods.
	Outside bool
	// Reordered: the partition's columns are in another order than the table's.
	Reordered bool
	// Renamed: it is a table of another server, where the table or a column has another name.
	Renamed bool
	// Rows and Bytes are the server's estimates; -1 is unknown.
	Rows, Bytes int64
}

// Estimate adds the server's estimates, as text, for a portion of the partition.
func (p *TablePart) Estimate(rows, bytes []byte) {
	for to, text := range map[*int64][]byte{&p.Rows: rows, &p.Bytes: bytes} {
		if n, err := strconv.ParseInt(string(text), 10, 64); err == nil && n >= 0 && *to >= 0 {
			*to += n
		} else {
			*to = -1
		}
	}
}

// A FunctionKind is what a function's name stands for.
type FunctionKind int

// Kinds of functions.
const (
	// UnknownFunction is a user's function, or one that may not be safe in pieces.
	UnknownFunction FunctionKind = iota
	// PureFunction depends only on its arguments and on the State, which may include a frozen clock.
	PureFunction
	// AggregateFunction computes one value from many rows.
	AggregateFunction
	// WindowFunction needs OVER.
	WindowFunction
	// ClockFunction returns the time at which the transaction or the statement began. Reader.Freeze
	// doesn't stop this clock: see Reader.ClockValue.
	ClockFunction
)

// An AggregateCall is a call of an aggregate function.
type AggregateCall struct {
	Name           string // in lower case
	Distinct, Star bool
	// Args are the texts of the call's arguments. Inputs describe these arguments.
	Args   []string
	Inputs []ResultColumn
	// Ordered: the parentheses contain ORDER BY. SelfOrdered: this ORDER BY sorts only by
	// the first argument; Order is the text that follows the argument in ORDER BY, such as DESC.
	// Separator is the text after SEPARATOR, with its quotes.
	Ordered, SelfOrdered bool
	// Grouped: the query has GROUP BY.
	Grouped bool
	// Divided: an argument contains a division, whose value may have more digits than its type.
	Divided bool
	// Computed: an argument is more than columns, numbers and arithmetic, so that its values may have
	// fewer digits than its type.
	Computed bool
	// Quotients is the number of divisions in the statement, including averages over a window.
	Quotients int
	// QuotientDigits is Semantics.QuotientDigits.
	QuotientDigits int
	// Fractions: an argument contains a column of binary fractions, or a number with a point or an
	// exponent.
	Fractions        bool
	Order, Separator string
	// Result describes the result of the call.
	Result ResultColumn
}

// A Recipe says how an aggregate is computed from pieces' values. Its texts are SQL with $1, $2
// and so on.
type Recipe struct {
	// Parts are what each piece computes per group. $1 is the aggregate's first argument.
	Parts []string
	// Merge has an expression for each of Parts, which merges the values of all pieces, per group. $1
	// is the column with the part. The result is stored in a column of the part's type.
	Merge []string
	// Value computes the aggregate from the merged parts, the first of which is $1. It keeps all
	// digits that the server computes with.
	Value string
	// Tie is a condition on merged parts, or "". If it is true, Value may differ from the server's.
	Tie string
	// Typed are expressions, one for each of Merge. If Typed isn't nil, the columns that store the
	// results of Merge get the types of these expressions, otherwise the types of Parts.
	Typed []string
	// Steps say how values of each of Parts are merged outside of the server, and Final how the
	// aggregate follows from the merged values. Steps and Final are nil if the result would not be
	// exact.
	Steps []MergeStep
	Final FinalStep
	// Zero: the aggregate of no rows is 0, not NULL.
	Zero bool
	// Integers: all Parts are integers. If Steps isn't nil, the aggregate is an integer, too. If a
	// piece gives another type for a part, the query runs whole.
	Integers bool
	// Group are the arguments of a DISTINCT aggregate: the pieces group by them in addition to the
	// query's keys, and compute no Parts. Merge computes the aggregate, or what Value needs, from all
	// groups; $1 is the first of Group.
	Group []string
	// Keyed: the aggregate is GROUPING, which depends only on the keys of groups with subtotals. It
	// needs no Parts: its arguments are keys, and $1 in the only Merge is the first argument.
	Keyed bool
	// Order: the last digits of the aggregate depend on the order of additions.
	Order bool
	// Alone: if the aggregate is a part of an expression, the server may compute the expression with
	// other digits than Value has. Cut: the same, but only if the server stores the groups' values, as
	// for a sort, before it evaluates the expression.
	Alone, Cut bool
}

// A MergeStep merges two partial values of one group into one. NULL and x merge into x.
type MergeStep int

// Merge steps.
const (
	MergeSum MergeStep = iota // exactly, of ClassInt and ClassDecimal
	MergeMin                  // the lesser by the order of their class
	MergeMax
	MergeBitAnd // of unsigned 64-bit integers
	MergeBitOr
	MergeBitXor
)

// A FinalStep computes an aggregate's value from merged parts.
type FinalStep int

// Final steps.
const (
	// FinalFirst is the first part itself.
	FinalFirst FinalStep = iota
	// FinalQuotient is the first part divided by the second, rounded half away from zero to as many
	// digits as the result's column has. It is NULL if the second is 0.
	FinalQuotient
)

// WaitForTables is how long OneSnapshot waits for tables that another session is altering.
const WaitForTables = 5 * time.Second

// WaitForLock is how long OneSnapshot waits for a lock before it continues without the lock.
const WaitForLock = time.Second
