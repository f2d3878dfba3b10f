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
// package splits the query and merges the answers; a Reader has what differs between servers.
type Reader interface {
	Keeper
	// Syntax returns the lexical rules of sessions with these settings, Semantics their other rules.
	Syntax(State) sqltext.Syntax
	Semantics(State) Semantics
	// ReadSession opens a session with these settings; nil stands for those of any new client.
	ReadSession(ctx context.Context, st State) (*Session, error)
	// ReadState reads all settings of a session that can change an answer.
	ReadState(ctx context.Context, s *Session) (State, error)
	// StateRefusal says why sessions with these settings can't run queries in pieces, or "". An
	// example is texts that aren't UTF-8.
	StateRefusal(State) string
	// Freeze returns settings under which NOW() returns what it returns now in this session. None
	// means that the server can't stop the clock.
	Freeze(ctx context.Context, s *Session) (State, error)
	// DescribeQuery returns the columns of a query's result without running the query.
	DescribeQuery(ctx context.Context, s *Session, query string) ([]ResultColumn, error)
	// Collations returns a number for the collation of each column of a result. It returns nil if
	// columns with equal descriptions always have the same collation.
	Collations(ctx context.Context, s *Session, query string) ([]int, error)
	// ExplainQuery returns the server's plan of a query, or the error that the query would have.
	ExplainQuery(ctx context.Context, s *Session, query string) (*QueryPlan, error)
	// TableParts reads a table and its partitions from the catalog. It returns ErrNoTable for a view,
	// except for a rolling table that is one: see Capabilities.PeriodTables.
	TableParts(ctx context.Context, s *Session, database, table string) (*TableParts, error)
	// LockedParts is TableParts after OneSnapshot has locked the table: no change of the table can
	// come in between. The session is one of the snapshot, or has no transaction: see
	// Capabilities.SnapshotCatalog.
	LockedParts(ctx context.Context, s *Session, database, table string) (*TableParts, error)
	// PartFrom returns an operand of FROM, without an alias, that reads exactly these partitions.
	PartFrom(t *TableParts, parts []string) string
	// OneSnapshot begins a read-only transaction in each session, and locks the tables, which are
	// quoted, against being altered until these transactions end. All sessions see the same rows, and
	// proof says why; it is "" if that can't be had. lock permits a brief lock against writes. The
	// error is ErrLockTimeout if a table isn't locked within WaitForTables.
	OneSnapshot(ctx context.Context, sessions []*Session, tables []string, lock bool) (proof string, err error)
	// Aggregate returns how an aggregate is computed from parts, or false if it can't be.
	Aggregate(AggregateCall) (Recipe, bool)
	// Bytes returns an expression over expr, a column's value, that differs for two values whose texts
	// differ. It returns "" if equal values always have the same text.
	Bytes(c ResultColumn, expr string) string
	// Ambiguous returns a condition over expr, a column's value. It is true for values whose text may
	// also stand for another value, or that the server may treat in this use as equal to another. It
	// returns "" if there are no such values, and "TRUE" if all may be.
	Ambiguous(c ResultColumn, expr string, use KeyUse) string
	// Function returns the kind of a function, given its name in lower case and its number of
	// arguments.
	Function(name string, args int) FunctionKind
	// MergeState returns st with settings under which a temporary table stores any value as it is.
	MergeState(st State) State
	// Carry returns an expression for a text from which TempTable restores a column's value exactly.
	// It returns "" if the value's usual text is sufficient.
	Carry(c ResultColumn, expr string) string
	// TempTable creates a temporary table with the columns of a query, which it doesn't run. The
	// session has the settings of MergeState. cols describe the query's columns; nil is enough if no
	// rows are inserted as texts. It returns ErrUnsupported if a column can't hold what its texts
	// stand for.
	TempTable(ctx context.Context, s *Session, name, query string, cols []ResultColumn) (*TempTable, error)
	// UserFunction says why a statement may call a user's function, or "". names are the functions
	// that it calls; operators and casts may call others.
	UserFunction(ctx context.Context, s *Session, statement string, names []string) (why string, err error)
	// ClockValue is an expression for a text that, in any statement, stands for what this call of a
	// ClockFunction returns.
	ClockValue(call string) string
	// Cores is the number of processor cores if the server is on this machine, else 0.
	Cores() int
}

// A Talker is a Reader whose ReadSession takes only one statement at a time.
type Talker interface {
	Reader
	// Talk opens a session of any new client, which takes several statements in one text.
	Talk(ctx context.Context) (*Session, error)
}

// Talk opens a session as any client's, which takes several statements in one text.
func Talk(ctx context.Context, r Reader) (*Session, error) {
	if t, ok := r.(Talker); ok {
		return t.Talk(ctx)
	}
	return r.ReadSession(ctx, nil)
}

// A PartVersioner is a Reader that can tell that the rows of a partition have not changed.
type PartVersioner interface {
	Reader
	// PartVersions returns versions of partitions, as of a session's open transaction. Rows change
	// only together with their partition's version, or with a new row in the table into, which
	// triggers insert. why says why there are no versions.
	PartVersions(ctx context.Context, s *Session, t *TableParts, into string) (versions map[string]string, why string, err error)
	// TimeWords are names of functions that return the current time.
	TimeWords() []string
}

// A State is the settings of a session, in the order in which they have to be set.
type State []Setting

// A Setting has the server's name of a setting, and its value.
type Setting struct{ Name, Value string }

// A LocalReader is a Reader whose answers depend on definitions that other servers with the same
// rows may not have, such as time zones and users' functions.
type LocalReader interface {
	// Locals identifies the definitions that queries of sessions with a State may use, by their names.
	Locals(ctx context.Context, s *Session, st State) (map[string]string, error)
	// LocalWord returns a word of a query that Locals doesn't cover, or "".
	LocalWord(query string) string
}

// Get returns the value of a setting, "" if there is none of that name.
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
	// Scale is the number of digits after the point of a ClassDecimal, or of seconds.
	Scale int
	// Precision is the largest number of digits of a ClassDecimal; 0 is unknown.
	Precision int
	// Width is the length to which values of a fixed length are padded, or the number of bits of a
	// value of bits; else 0.
	Width int
	// Binary values are bytes, not characters. If they are Hex, their texts are \x and two digits for
	// each byte.
	Binary, Hex bool
	// Folded: texts that differ may be equal by the collation. Not all engines tell.
	Folded bool
	// Temporal is the type of a time where Semantics.OperandForm holds.
	Temporal Temporal
	// AllDigits: the texts of these binary fractions have all of their digits.
	AllDigits bool
	// Padded: texts are equal if they differ only in blanks at the end.
	Padded bool
	// Unsigned integers reach 2^64-1.
	Unsigned bool
	// Provisional is set only by DescribeQuery: the type may be another when the query runs.
	Provisional bool
	// Declared: Class follows from declarations, and a result alone has ClassOther in its place.
	Declared bool
	// Carried: TempTable gets the texts of Reader.Carry for this column.
	Carried bool
	// Packet is the description in the server's protocol, for a front that speaks it; it may be nil.
	Packet []byte
}

// A Temporal is a type of time.
type Temporal int

// Types of time.
const (
	NotTemporal Temporal = iota
	Duration             // or a time of day
	Year
	Date
	DateTime
)

// Dated reports a type whose values have a day.
func (t Temporal) Dated() bool { return t == Date || t == DateTime }

// A KeyUse is what equal values of a column are wanted for.
type KeyUse int

// Uses of columns.
const (
	// KeySorts: for groups, or an order.
	KeySorts KeyUse = iota
	// KeyDistinct: for an aggregate of DISTINCT values.
	KeyDistinct
	// KeyWindows: for groups over which there are windows.
	KeyWindows
)

// A ResultClass is what may be done with the texts of a column's values outside the server.
type ResultClass int

// Classes of result columns.
const (
	// ClassOther: they can only be passed on, because a text doesn't have all of the value.
	ClassOther ResultClass = iota
	// ClassInt: integers of at most 64 bits, in decimal.
	ClassInt
	// ClassDecimal: exact decimal numbers, with at most Scale digits after the point. A Scale of -1 is
	// unknown.
	ClassDecimal
	// ClassFloat: binary fractions, whose sums depend on the order of addition. Different values may
	// have the same text, so they are no keys; minima and maxima are exact.
	ClassFloat
	// ClassBytes: texts and bytes that are equal only if their bytes are, and ordered as bytes.
	ClassBytes
	// ClassTime: dates, times and durations whose texts have a fixed form and are ordered as bytes.
	ClassTime
	// ClassText: values that only the server compares, such as texts with a collation. A column of the
	// same type holds them exactly.
	ClassText
)

// A QueryPlan is what a server plans for a query.
type QueryPlan struct {
	// Tables are the tables that are read, in the server's order; nil if the server doesn't tell.
	Tables []PlannedTable
	// ByRelation: Tables has every partition that is read, by a name that no other table has.
	ByRelation bool
	// Parallel is the number of the server's own processes for the query, 1 if it uses one.
	Parallel int
	// Rows is the estimated number of rows that are read; -1 is unknown.
	Rows int64
	// Result is the estimated number of rows of the result; 0 if the server doesn't tell.
	Result int64
}

// Of returns the indexes of the partitions that are read of a table with this alias, which the
// query has uses times, and the estimated rows. If the plan doesn't tell, these are all partitions
// and -1. A plan may lack a table of which no rows are read.
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
	// Alias is the name by which the query calls it.
	Alias string
	// Parts are the partitions that are read; nil if there are none, or the server doesn't tell.
	Parts []string
	Rows  int64
}

// TableParts is a table with its partitions.
type TableParts struct {
	Database, Name string
	Columns        []SchemaColumn
	// Invisible are the columns that are neither part of * nor of a NATURAL join.
	Invisible []string
	// PrimaryKey names its columns in order.
	PrimaryKey []string
	// Parts are its partitions in the server's order; none if it isn't partitioned.
	Parts []TablePart
	// By are columns: rows with equal values of them, by their collations, lie in one partition. nil
	// if there are none.
	By []string
	// Refusal says why partitions can't be read one by one, such as row security, or "".
	Refusal string
	// Period: it has ranges of one column, so that it may be a rolling table of rowmill.
	Period bool
	// Fleeting is a Virtual column whose value may differ between sessions of the same State, or "".
	Fleeting string
	// Created changes whenever the table's columns or partitions change.
	Created string
	// Versioned: a transaction has a snapshot of the rows.
	Versioned bool
	// Remote: the rows are on other servers. A query over several of these may have a wrong answer
	// where one over single partitions has the right one.
	Remote bool
	// Rewritten is a Remote table of a RemoteReader: only RowsFrom reads it as it is.
	Rewritten bool
}

// A RemoteReader is a Reader of a server that presents tables of other servers, for which it
// rewrites conditions and expressions, not always with the same meaning.
type RemoteReader interface {
	// RemoteTables lists such tables, and the views that may read one.
	RemoteTables(ctx context.Context, s *Session) ([]RemoteTable, error)
	// RowsFrom returns an operand of FROM, without an alias, for columns of some partitions of such a
	// table, or of all if parts is empty. The other servers evaluate nothing but where: comparisons of
	// columns with integers and times, or "".
	RowsFrom(t *TableParts, parts, columns []string, where string) string
	// Pushed reports that the server passes on a query as a whole to one other server.
	Pushed(ctx context.Context, s *Session, query string) (bool, error)
}

// A RemoteTable is a table, or a view, of a RemoteReader.
type RemoteTable struct {
	Database, Name string
	View           bool
}

// byName returns the indexes of the partitions by the names in a plan. It isn't certain if two have
// the same name, or one has a comma, which separates names in a plan.
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

// Union returns an operand of FROM that reads the table's columns from other tables, which are
// quoted.
func (t *TableParts) Union(d Dialect, tables []string) string {
	columns := Quoted(d, t.Columns, "")
	return "(SELECT " + columns + " FROM " + strings.Join(tables, " UNION ALL SELECT "+columns+" FROM ") + ")"
}

// Has reports whether one of the names in a plan is that of a partition.
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
	// Planned are further names of it in a QueryPlan: its subpartitions.
	Planned []string
	// Period is the name of its rolling.Partition, if TableParts.Period.
	Period string
	// Outside: it is rowmill's own partition for rows outside of all periods.
	Outside bool
	// Reordered: its columns are in another order than the table's.
	Reordered bool
	// Renamed: it is a table of another server with other names, of itself or of columns.
	Renamed bool
	// Rows and Bytes are the server's estimates; -1 is unknown.
	Rows, Bytes int64
}

// Estimate adds the server's estimates of a part of it, as text.
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
	// UnknownFunction is a user's, or one that is not known to be safe in pieces.
	UnknownFunction FunctionKind = iota
	// PureFunction depends on its arguments and on the State alone, which may include a frozen clock.
	PureFunction
	// AggregateFunction computes one value from many rows.
	AggregateFunction
	// WindowFunction needs OVER.
	WindowFunction
	// ClockFunction returns when the transaction or the statement began, and Reader.Freeze doesn't
	// stop its clock: see Reader.ClockValue.
	ClockFunction
)

// An AggregateCall is a call of an aggregate function.
type AggregateCall struct {
	Name           string // in lower case
	Distinct, Star bool
	// Args are the texts of its arguments, Inputs describe them.
	Args   []string
	Inputs []ResultColumn
	// Ordered: there is ORDER BY within the parentheses. SelfOrdered: it is by the first argument
	// alone, and Order is what follows, such as DESC. Separator is the text after SEPARATOR, with its
	// quotes.
	Ordered, SelfOrdered bool
	// Grouped: the query has GROUP BY.
	Grouped bool
	// Divided: an argument has a division, whose value may have more digits than its type.
	Divided bool
	// Computed: an argument is more than columns, numbers and arithmetic, and its values may have
	// fewer digits than its type.
	Computed bool
	// Quotients is the largest number of divisions between the call and a value of the statement.
	Quotients int
	// QuotientDigits is Semantics.QuotientDigits.
	QuotientDigits int
	// Fractions: an argument has a column of binary fractions, or a number with a point or an
	// exponent.
	Fractions        bool
	Order, Separator string
	// Result describes the call.
	Result ResultColumn
}

// A Recipe says how an aggregate is computed from parts. Its texts are SQL with $1, $2 and so on.
type Recipe struct {
	// Parts are computed by each piece, per group. $1 is the first argument.
	Parts []string
	// Merge has for each of Parts an expression that merges the pieces' values, per group. $1 is the
	// part, a column. The result is stored in a column of the part's type.
	Merge []string
	// Value computes the aggregate from the merged parts, $1 being the first, with all digits that the
	// server computes with.
	Value string
	// Tie is a condition on merged parts under which SQL leaves the aggregate's value open, or "".
	Tie string
	// Typed are expressions with the types of the columns for the results of Merge; nil stands for
	// Parts.
	Typed []string
	// Steps say, for each of Parts, how values are merged outside of the server, and Final how the
	// aggregate follows. They are nil if that would not be exact.
	Steps []MergeStep
	Final FinalStep
	// Zero: the aggregate of no rows is 0, not NULL.
	Zero bool
	// Integers: all Parts are integers, and with Steps the aggregate is. A query with another part
	// runs whole.
	Integers bool
	// Group are expressions by which pieces also have to group: the values of a DISTINCT aggregate.
	// There are no Parts, and Merge computes from all groups, $1 being the first of Group, the
	// aggregate, or what Value needs.
	Group []string
	// Keyed: it is a function of keys of groups with subtotals. There are no Parts, the arguments are
	// keys, and $1 in the only Merge is the first.
	Keyed bool
	// Order: the last digits depend on the order of additions.
	Order bool
	// Alone: Value has the server's digits only where the aggregate is a whole column. Cut: and only
	// if the server doesn't store the groups' values before it evaluates expressions, as for a sort.
	Alone, Cut bool
}

// A MergeStep merges two partial values of one group into one. NULL and x are x.
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
	// FinalQuotient is the first part divided by the second, rounded half away from zero to the digits
	// of the result's column. It is NULL if the second is 0.
	FinalQuotient
)

// WaitForTables is how long OneSnapshot waits for tables that another session alters.
const WaitForTables = 5 * time.Second

// WaitForLock is how long OneSnapshot waits for a lock before it does without.
const WaitForLock = time.Second
