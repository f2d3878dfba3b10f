package engine

import (
	"context"
	"slices"
	"strings"
	"time"
)

// A Reader is a Keeper whose server can answer one query in pieces, on several sessions. Package
// query splits the query and merges the answers; what differs between servers is here: the lexical
// rules of their statements, the description and the plan of a query, the partitions of any table,
// the settings that change an answer, and one snapshot for several sessions.
type Reader interface {
	Keeper
	// Syntax returns the lexical rules of statements in sessions with these settings.
	Syntax(State) Syntax
	// Semantics returns what else a query in pieces has to know of the server in such sessions.
	Semantics(State) Semantics
	// ReadSession opens a session with these settings. Nil settings are those that the
	// server gives to any client, and not rowmill's own.
	ReadSession(ctx context.Context, st State) (*Session, error)
	// ReadState reads all settings of a session that can change the answer to a query, in
	// the order in which they have to be set.
	ReadState(ctx context.Context, s *Session) (State, error)
	// StateRefusal returns why no query of a session with these settings can be split, such as texts
	// that aren't UTF-8; "" if it can.
	StateRefusal(State) string
	// Freeze returns settings that stop the clock: in all sessions that have them, NOW() is what it is
	// now in this one, or what its client has set. None means that the server can't.
	Freeze(ctx context.Context, s *Session) (State, error)
	// DescribeQuery returns the columns of the result of a query without running it.
	DescribeQuery(ctx context.Context, s *Session, query string) ([]ResultColumn, error)
	// Collations returns, for each column of the result of a query, a number that tells the collation
	// by which its texts are compared from others; nil if equal descriptions of columns are enough for
	// that.
	Collations(ctx context.Context, s *Session, query string) ([]int, error)
	// ExplainQuery returns what the server plans for a query. An error of the server is
	// that which the query itself would have: a syntax error, a missing privilege.
	ExplainQuery(ctx context.Context, s *Session, query string) (*QueryPlan, error)
	// TableParts reads a table from the catalog with its partitions, of any kind. Its error
	// is ErrNoTable if there is no such table, or the name is that of a view; in an engine with
	// Capabilities.PeriodTables, the view of a rolling table is that table.
	TableParts(ctx context.Context, s *Session, database, table string) (*TableParts, error)
	// LockedParts is TableParts while the sessions of a query keep others from altering the table: see
	// OneSnapshot. What it returns was not put together from before and after a change. The session is
	// one of them, or without a transaction: see Capabilities.SnapshotCatalog.
	LockedParts(ctx context.Context, s *Session, database, table string) (*TableParts, error)
	// PartFrom returns the operand of FROM, without an alias, that reads some partitions of a
	// table, one or more, and nothing else.
	PartFrom(t *TableParts, parts []string) string
	// OneSnapshot begins a read-only transaction in each session, so that all of them see the
	// same rows. Lock permits a brief lock against writes, where there is no way without one.
	// proof says in plain words why the snapshot is one; it is "" if that can't be had, and
	// the transactions are begun nevertheless.
	//
	// Tables are those that the sessions will read, quoted. Until a session's transaction ends, they
	// can't be altered, and none of the sessions waits for another that waits for it: each has its
	// locks on them when OneSnapshot returns. They are locked before the snapshot where a snapshot
	// doesn't have the rows of a table that is emptied or created meanwhile. The error is
	// ErrLockTimeout if a lock isn't granted within WaitForTables.
	OneSnapshot(ctx context.Context, sessions []*Session, tables []string, lock bool) (proof string, err error)
	// Aggregate returns how a call of an aggregate function is computed from parts, or false if
	// it can't be.
	Aggregate(AggregateCall) (Recipe, bool)
	// Bytes is an expression that is the same for two values of a column only if the server returns
	// the same text for both, given an expression for the values; "" if equal values always have the
	// same text.
	Bytes(c ResultColumn, expr string) string
	// Ambiguous is a condition on a column that is true where its text may stand for another value as
	// well, or where the server may take it for another in such a use; "" if there is no such value,
	// "TRUE" if all are.
	Ambiguous(c ResultColumn, expr string, use KeyUse) string
	// Function reports whether a function, in lower case, with this number of arguments is one of the
	// server's own that always returns the same for the same arguments within one statement and the
	// same settings.
	Function(name string, args int) FunctionKind
	// MergeState returns st changed such that temporary tables take the values of any result as they
	// are: nothing is refused, cut or replaced. Statements are parsed as with st.
	MergeState(st State) State
	// Carry is an expression for a text from which TempTable makes the same value again, given a
	// column and the expression for its values; "" if the value's own text is enough.
	Carry(c ResultColumn, expr string) string
	// TempTable creates a temporary table, whose columns have the names and types of a query that it
	// doesn't run, and returns what inserts rows. The session is one of ReadSession with the settings
	// of MergeState; the end of its connection removes the table. cols describe the query's result;
	// they may be nil if no rows are inserted by texts. It is ErrUnsupported if a column can't hold
	// the values that its texts stand for.
	TempTable(ctx context.Context, s *Session, name, query string, cols []ResultColumn) (*TempTable, error)
	// UserFunction returns why a statement may call a function of a user: because one of these names
	// of functions is also that of a user's, which a call may mean, or by an operator or a cast; "" if
	// there is none.
	UserFunction(ctx context.Context, s *Session, statement string, names []string) (why string, err error)
	// ClockValue is an expression for a text that has the same value and type in any statement as a
	// call of a ClockFunction has in that of the expression.
	ClockValue(call string) string
	// Cores returns the number of processor cores for queries: of this machine if
	// the server is on it, else 0.
	Cores() int
}

// A Talker is a Reader whose ReadSession takes one statement in a text only.
type Talker interface {
	Reader
	// Talk opens a session that is as any client's, to which several statements can be sent in one
	// text.
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
	// PartVersions returns a version for each partition whose rows change only with their version, or
	// with a note of the change that commits together with it: a row in the table into. They are read
	// for the open transaction of a session, during which they don't change. why says why there are
	// none: no triggers write notes, a missing privilege.
	PartVersions(ctx context.Context, s *Session, t *TableParts, into string) (versions map[string]string, why string, err error)
	// TimeWords are names of functions that return the current time.
	TimeWords() []string
}

// A State is the settings of a session, in the order in which they have to be set.
type State []Setting

// A Setting is one of a State: the server's name for it and its value, as Session.State returns it
// and Session.SetState takes it.
type Setting struct{ Name, Value string }

// A LocalReader is a Reader whose queries may have other answers than those of another server with
// the same rows: it has definitions of its own, such as those of time zones, and of what users have
// made.
type LocalReader interface {
	// Locals returns, for each thing that sessions of a State and their queries may refer to, what
	// distinguishes its definition from others.
	Locals(ctx context.Context, s *Session, st State) (map[string]string, error)
	// LocalWord returns a word of a query that may mean another thing on each server, whatever Locals
	// says; "" if it has none.
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

// Syntax is the lexical rules of a server's statements. The zero value is standard SQL: 'text'
// with doubled quotes, "identifier", -- comment, /* comment */.
type Syntax struct {
	Backslash          bool // \ escapes within strings
	DoubleQuoted       bool // "x" is a string, not an identifier
	Backquoted         bool // `x` is an identifier
	Bracketed          bool // [x] is an identifier
	Dollar             bool // $tag$text$tag$ is a string, $1 a parameter
	Prefixed           bool // E'..', B'..', X'..', U&'..' are strings
	Introducer         bool // _utf8mb4'..', N'..', x'..', b'..', 0x.., 0b.. are literals, and adjacent strings are one
	HashComments       bool // # begins a comment
	DashSpace          bool // -- begins a comment only before white space
	ExecutableComments bool // /*! begins text that is executed
	NestedComments     bool // comments nest
	ConcatPipes        bool // || concatenates; otherwise it is OR
	HighNot            bool // NOT binds as tightly as unary operators
	Casts              bool // x::type
	WithRollup         bool // GROUP BY ... WITH ROLLUP
	LimitComma         bool // LIMIT offset, count
	UserVars           bool // @x and @@x are variables
}

// A ResultColumn is one column of a result, as the server describes it.
type ResultColumn struct {
	Name string
	// Native is the server's name of the type, as much of it as the protocol has.
	Native string
	Class  ResultClass
	// Scale is the number of digits after the point of a ClassDecimal, or of a second, also of a
	// duration.
	Scale int
	// Precision is the largest number of digits of a ClassDecimal; 0 is unknown.
	Precision int
	// Width is the length to which the values of a type of fixed length are padded, and the number of
	// bits of an expression, which may come as bytes or as decimal digits; 0 of all others.
	Width int
	// Binary reports that values are bytes and not characters; Hex that their texts are \x and
	// two hexadecimal digits for each byte, and not the bytes themselves.
	Binary, Hex bool
	// Folded reports texts that may be equal though they aren't the same, by their collation. Not all
	// engines tell.
	Folded bool
	// Temporal tells types of time apart where Semantics.OperandForm holds.
	Temporal Temporal
	// AllDigits reports a binary fraction whose text stands for no other.
	AllDigits bool
	// Padded reports texts that are equal if they differ in the blanks at their ends alone.
	Padded bool
	// Unsigned integers reach 2^64-1.
	Unsigned bool
	// Provisional reports that the type may be another one when the query runs, which depends on how
	// the server computes it: only DescribeQuery sets it.
	Provisional bool
	// Declared reports that Class follows from declarations: a result of the query doesn't tell it,
	// and its columns have ClassOther.
	Declared bool
	// Carried reports that the texts of a column that TempTable gets are those of Reader.Carry.
	Carried bool
	// Packet is the column's description in the protocol of the server, for a front
	// that speaks the same; nil if there is none.
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
	// ClassOther: nothing but passing them on, not even storing them in a table: the text doesn't have
	// all of the value.
	ClassOther ResultClass = iota
	// ClassInt: integers of at most 64 bits, in decimal.
	ClassInt
	// ClassDecimal: exact decimal numbers. Values of an expression may have fewer digits after the
	// point than Scale; -1 is a different number of digits for each value.
	ClassDecimal
	// ClassFloat: binary fractions. Sums depend on the order of addition. Different values may have
	// the same text, but texts are ordered as values are: extremes are exact, keys are not.
	ClassFloat
	// ClassBytes: texts and bytes that are equal only if their bytes are, and ordered as bytes.
	ClassBytes
	// ClassTime: dates, times and durations whose texts have one fixed form, which order as bytes.
	ClassTime
	// ClassText: characters, compared by a collation that only the server knows, and other values that
	// only the server compares. A column of the same type holds them exactly.
	ClassText
)

// A QueryPlan is what a server plans for a query.
type QueryPlan struct {
	// Tables are the tables that are read, in the server's order; nil if the server doesn't tell.
	Tables []PlannedTable
	// ByRelation reports that partitions have names that no other table's have, and all that are read
	// are among Tables, under whatever alias.
	ByRelation bool
	// Parallel is the number of the server's own processes for the query, 1 if it uses one.
	Parallel int
	// Rows is the estimated number of rows that are read; -1 is unknown.
	Rows int64
	// Result is the estimated number of rows of the result; 0 if the server doesn't tell.
	Result int64
}

// Of returns what the server reads of a table that the query calls alias, as it calls uses of its
// tables: the indexes of the partitions, all of them if the plan doesn't tell, and the estimated
// rows, -1 if they aren't known. A plan may lack a table, which the server answers for without
// reading rows: then one of the same alias is another.
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
	// Parts are the partitions that are read, after pruning; nil if it has none, or the
	// server doesn't tell.
	Parts []string
	Rows  int64
}

// TableParts is a table with its partitions.
type TableParts struct {
	Database, Name string
	Columns        []SchemaColumn
	// Invisible names the columns for which * doesn't stand, and by which NATURAL doesn't join.
	Invisible []string
	// PrimaryKey names its columns in order.
	PrimaryKey []string
	// Parts are its partitions in the server's order; none if it isn't partitioned.
	Parts []TablePart
	// By are the columns that decide about a row's partition; nil if that is not known to depend on
	// columns alone. Rows with equal values of By, by the columns' own collations, lie in one
	// partition.
	By []string
	// Refusal says why partitions can't be read one by one: a storage engine that ignores
	// the choice, a missing privilege, row security. "" if they can.
	Refusal string
	// Period reports that it is partitioned by ranges of one column, that is a table that
	// rowmill may know as a rolling table.
	Period bool
	// Fleeting names a Virtual column whose value may depend on which session reads it, and when,
	// beyond what State has; "" if there is none.
	Fleeting string
	// Created identifies the definition: it changes whenever the table's columns or partitions do.
	Created string
	// Versioned reports that a transaction has a snapshot of the rows.
	Versioned bool
	// Remote reports that its rows are on other servers, which this one asks. It may answer some
	// queries over several of them wrongly, where one over single partitions is right.
	Remote bool
	// Rewritten reports a Remote table of a RemoteReader, which has only its rows read as they are.
	Rewritten bool
}

// A RemoteReader is a Reader of a server that may present tables of other servers as its own, and
// that writes conditions and expressions anew for those servers, not always with the same meaning.
type RemoteReader interface {
	// RemoteTables lists such tables, and the views that may read one.
	RemoteTables(ctx context.Context, s *Session) ([]RemoteTable, error)
	// RowsFrom returns an operand of FROM, without an alias, that reads rows of such a table: columns
	// of some partitions, or of all if parts is empty, and nothing else is left to the other servers
	// than a condition: comparisons of columns with integers, dates and times, or "".
	RowsFrom(t *TableParts, parts, columns []string, where string) string
	// Pushed reports that the server passes on a query as a whole to one other server.
	Pushed(ctx context.Context, s *Session, query string) (bool, error)
}

// A RemoteTable is a table, or a view, of a RemoteReader.
type RemoteTable struct {
	Database, Name string
	View           bool
}

// byName returns the indexes of the partitions by the names in a plan. They aren't certain if
// several have one name, or one has a comma, by which a plan joins names.
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

// Has reports whether one of the names in a plan is that of a partition.
func (t *TableParts) Has(names []string) bool {
	at, _ := t.byName()
	return slices.ContainsFunc(names, func(name string) bool { _, ok := at[name]; return ok })
}

// Read returns the indexes of the partitions that a plan reads: all if it doesn't tell, or if one
// of its names is not certainly that of a partition.
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
	// Planned are the names by which a QueryPlan calls it, in addition to Name: its subpartitions.
	Planned []string
	// Period is the name of the rolling.Partition that it is, if TableParts.Period.
	Period string
	// Outside reports that it is rowmill's own partition for rows that lie in no period.
	Outside bool
	// Reordered reports that it has the table's columns in another order.
	Reordered bool
	// Renamed reports that it presents a table of another server that has another name, or whose
	// columns have.
	Renamed bool
	// Rows and Bytes are the server's estimates; -1 is unknown.
	Rows, Bytes int64
}

// A FunctionKind is what a function's name stands for.
type FunctionKind int

// Kinds of functions.
const (
	// UnknownFunction is a user's, or one that is not known to be safe in pieces.
	UnknownFunction FunctionKind = iota
	// PureFunction depends on its arguments and on carried settings alone. That includes
	// the current time where a statement's is frozen for all pieces.
	PureFunction
	// AggregateFunction computes one value from many rows.
	AggregateFunction
	// WindowFunction needs OVER.
	WindowFunction
	// ClockFunction is the time at which the transaction or the statement began, of sessions whose
	// clock Reader.Freeze doesn't stop: see Reader.ClockValue.
	ClockFunction
)

// An AggregateCall is a call of an aggregate function.
type AggregateCall struct {
	Name           string // in lower case
	Distinct, Star bool
	// Args are the texts of its arguments, Inputs describe them as columns of a result.
	Args   []string
	Inputs []ResultColumn
	// Ordered reports ORDER BY within the parentheses; SelfOrdered that it is by the first argument
	// alone, and Order the words after this, such as DESC. Separator is the text of one, with its
	// quotes.
	Ordered, SelfOrdered bool
	// Grouped reports a query with groups, of which it may have several.
	Grouped bool
	// Divided reports that an argument has a division, whose value may have more digits than its type.
	Divided bool
	// Computed reports an argument that isn't made of columns, numbers and arithmetic alone: its
	// values may have fewer digits than its type.
	Computed bool
	// Quotients is how many divisions there may be between the call and a value of the statement, at
	// most.
	Quotients int
	// QuotientDigits is Semantics.QuotientDigits.
	QuotientDigits int
	// Fractions reports that an argument has a binary fraction: a column, or a number with a point or
	// an exponent.
	Fractions        bool
	Order, Separator string
	// Result describes the call.
	Result ResultColumn
}

// A Recipe says how an aggregate is computed from parts. The texts are SQL with $1, $2 and so on.
type Recipe struct {
	// Parts are computed by each piece, per group; $1 is the call's first argument.
	Parts []string
	// Merge, one for each of Parts, computes it from those of all pieces, per group; $1 is that part,
	// a column. The result is stored in a column of the part's own type.
	Merge []string
	// Value is the aggregate in terms of its merged parts, $1 being the first of them, with all digits
	// that the server computes with.
	Value string
	// Tie is a condition on merged parts, under which SQL doesn't determine the
	// aggregate's value; "" if it always does.
	Tie string
	// Typed are texts with the types of the columns that the results of Merge are stored in, one for
	// each; nil if they are Parts.
	Typed []string
	// Steps, one for each of Parts, say how values are merged outside the server; nil if that
	// would not be exact. Final says how the aggregate follows from them.
	Steps []MergeStep
	Final FinalStep
	// Zero reports that the aggregate of no rows is 0 and not NULL.
	Zero bool
	// Integers reports that all of Parts are integers, also where the server describes columns without
	// a type, and so is the value if it has Steps. A part that isn't makes the query whole.
	Integers bool
	// Group are expressions by which pieces have to group in addition: the values of a DISTINCT
	// aggregate. Then there are no Parts, and Merge computes from the groups of all pieces, $1 being
	// the first of Group: the aggregate, which is stored in a column of its own type, or what Value
	// needs, in columns of Typed.
	Group []string
	// Keyed reports a function of the keys of groups with subtotals: there are no Parts, the arguments
	// have to be keys, and $1 in the only Merge is the first of them.
	Keyed bool
	// Order reports that the result depends on the order of additions, in its last digits.
	Order bool
	// Alone reports that Value has the server's digits only where the aggregate is a whole column, and
	// not within an expression. Cut reports the same of queries for which the server may store the
	// groups' values in a table before it evaluates expressions of them: to sort them, for instance.
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
	// FinalQuotient is the first part divided by the second, with the digits of the result's
	// column, rounded half away from zero; NULL if the second is 0.
	FinalQuotient
)

// WaitForTables is how long OneSnapshot waits for tables that another session is altering, or waits
// to alter.
const WaitForTables = 5 * time.Second

// WaitForLock is how long OneSnapshot waits for a lock before it does without.
const WaitForLock = time.Second
