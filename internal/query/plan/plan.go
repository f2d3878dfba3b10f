// Package plan decides how a statement is answered in pieces: which table is cut, what each piece
// computes, and how the answer follows from that. A statement for which the answer isn't certain to
// be the server's own, byte for byte, is whole, by one of the rules. What differs between servers
// is in engine.Semantics.
package plan

import (
	"context"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Options decide what is split.
type Options struct {
	// Always splits also what pieces don't make faster, ByRange tables without partitions, Inexact
	// aggregates whose last digits depend on the order of the additions.
	Always, ByRange, Inexact bool
}

// SmallRows is the estimated number of rows below which a query is passed through whole: one
// session reads as many in less than a few dozen milliseconds, and pieces cost some five
// milliseconds.
const SmallRows = 50_000

// A Plan says how a statement is answered. It is data: Explain prints it, execute runs it.
type Plan struct {
	Statement
	Source
	RolledUp
	Partials

	// Whole is why the statement is passed to the server whole; "" if it is split.
	Whole string
	// Branches are those of a set operation, each with a plan of its own. Then there is no Table
	// and no Partial, Pieces are those of all branches in turn, and Merge says how the answer
	// follows from those of the branches: they are passed on one after the other, or the server
	// computes it from their temporary tables.
	Branches []Branch
	Why      string // why it is run as one piece, its text, or can't be; "" if it is split
	Pieces   []Piece
	Merge    Merge
	// EstimatedRows is the server's estimate of the rows that are read; -1 is unknown.
	EstimatedRows int64
	// Parallel is the number of processes that the server itself would use.
	Parallel int
}

// A Statement is what is known of the text of a query.
type Statement struct {
	// Text is the statement, State the settings of the session that it is for.
	Text  string
	State engine.State
	// Columns describe the answer.
	Columns []engine.ResultColumn
	// Clock reports that pieces have values in the place of functions that return the current time.
	Clock bool
	// Tables are those that the statement reads, each with its database, "" for the current one.
	Tables [][2]string
	// Certain is the text by which a branch can be run whole; "" if its rows might then be others.
	Certain string
	// Harmless reports that the statement changes nothing in the session that runs it: all of its
	// functions and tables are known.
	Harmless bool
	InUnion  bool // it is the plan of a branch
	// OnlyCounts reports that it has several counts of all rows, of values among them, and computes
	// nothing else.
	OnlyCounts bool
}

// A Source is the table that is cut.
type Source struct {
	// Table is the table that is cut, Alias its name in the query.
	Table *engine.TableParts
	Alias string
	// Namesakes is how many tables of the statement have that name.
	Namesakes int
	// Alone reports that the statement reads no other table, and this one once.
	Alone bool
	// Parts are the partitions that the server would read, in the table's order; Pruned is the
	// number of the others. Pieces are made of them.
	Parts []string
	// Named are the partitions that the statement names.
	Named  []string
	Pruned int
	// Disjoint reports that no group is in two of the Parts, on which the merge relies: a part is
	// not cut any further.
	Disjoint bool
	// Locals are those of the head, once it has been asked for them: see engine.LocalReader.
	Locals map[string]string
	// Through is why the rows of a table on several servers are read through the head; "" if they
	// aren't, or if it is on one.
	Through string
	// Fetched are the tables of other servers of which pieces read only rows: see Piece.Text.
	Fetched []string
}

// RolledUp is what is read from roll-ups in the place of rows.
type RolledUp struct {
	// Rollups are those that the first pieces read in the place of rows. NoRollup is why none of
	// the table's is used; "" if it has none.
	Rollups  []RollupUse
	NoRollup string
	// SameRows returns why partitions in whose place Rollups are read aren't those of which they
	// have the rows, in the transaction of a session; "" if they are. It is nil if nothing changes
	// rows unnoticed. Changed are the periods that are read for that reason.
	SameRows func(ctx context.Context, s *engine.Session) (string, error)
	Changed  []string
}

// Partials are the queries of pieces, and their results.
type Partials struct {
	// Partial is the query of a piece: before and after the operand of FROM that is replaced,
	// without its alias. A derived table in parentheses may stand in its place.
	Partial [2]string
	// Sample is the statement before and after the same operand. Joined reports that it reads other
	// tables, too.
	Sample [2]string
	Joined bool
	// PartialColumns describe the result of a piece: first the keys, then the parts of the
	// aggregates.
	PartialColumns []engine.ResultColumn
	// Keys is the number of key columns of a partial; if partials are rows, the number of columns
	// of the answer.
	Keys int
}

// A Piece is some partitions of the table, read by one statement.
type Piece struct {
	Parts []string
	// Where is a condition on the rows in place of partitions, of a table that is cut by ranges of
	// its primary key; "" if there is none.
	Where string
	// Query is the whole text of the piece if it doesn't read the table but a roll-up of it, and
	// Rollup is the roll-up's name; "" otherwise.
	Query, Rollup string
	// Text is the whole text of the piece if it has derived tables in the place of tables of other
	// servers; "" otherwise.
	Text string
	// Node is the index of the server that has them; 0 on a single server. Server is its name, and
	// Table the table there, if they are not those of the plan.
	Node   int
	Server string
	Table  *engine.TableParts
	// Rows is the estimated number of rows, -1 if unknown.
	Rows int64
}

// A RollupUse is a roll-up that a plan reads in place of rows.
type RollupUse struct {
	// Name is that of the roll-up, Every the length of its buckets.
	Name  string
	Every rolling.Grid
	// Ranges are the time that it stands for: whole buckets, in order.
	Ranges []rolling.Period
	// Proof returns 1 in every column as long as its buckets have exactly the rows of the table.
	Proof string
}

// A MergeKind is how the results of pieces become the answer.
type MergeKind int

// Kinds of merges.
const (
	// Concatenate passes the rows of the pieces on, in the order of the pieces: no group is in two
	// pieces, and no order is asked for.
	Concatenate MergeKind = iota
	// InMemory merges groups in a hash table, by typed values.
	InMemory
	// OnServer merges in temporary tables of the server.
	OnServer
)

// A Merge is how partials become the answer.
//
// On the server there are two temporary tables. The first, PartialTable, has the rows of the
// partials, with the names and types of their columns. Groups fills the second, GroupTable, with
// one row per group and the columns of Typed. Final reads the answer from it: expressions, HAVING
// as WHERE, windows, ORDER BY, LIMIT. No statement names a temporary table twice.
type Merge struct {
	Kind MergeKind
	// Rows reports that partials are rows of the answer, with columns to sort by after them, and
	// not groups. Then there is no second table, and Final reads the first.
	Rows bool
	// Steps, one for each column of a partial after its keys, say how two partial groups whose keys
	// have the same bytes may be made one, before anything else; nil if they must not be, which
	// excludes InMemory.
	Steps []engine.MergeStep

	// Outputs are the columns of the answer in terms of a group, for InMemory.
	Outputs []Output
	// OrderBy, NullsLast and Limit are for InMemory: outputs to sort by, of classes whose order is
	// known.
	OrderBy       []SortKey
	NullsLast     bool  // of the keys, by which groups are sorted where OrderBy doesn't
	Limit, Offset int64 // Limit -1 is none
	// Unique reports that no two groups are equal in all of OrderBy. Otherwise the answer is not
	// determined if the groups on both sides of an end of the limit are equal in OrderBy.
	Unique bool

	// Typed is a query whose result columns have the names and types of the second table; it is
	// only described, with LIMIT 0. Groups and Final are the statements of the server's merge:
	// Groups is a query for the rows of the second table, in the order of its columns.
	Typed, Groups, Final string
	// Ties are queries over the same tables, each of which returns a row if SQL doesn't determine
	// the answer.
	Ties []string
}

// Names of the temporary tables in the statements of a Merge.
const (
	PartialTable = "rowmill_partial"
	GroupTable   = "rowmill_group"
)

// An Output is one column of the answer of an InMemory merge.
type Output struct {
	// Key is the index of a key column, or -1.
	Key int
	// Parts are the indexes of partial columns, which Merge.Steps merges; Final is how the value
	// follows from them.
	Parts []int
	Final engine.FinalStep
	// Zero reports that no value is 0 and not NULL: a count.
	Zero bool
	// Class is that of the value where the server doesn't describe it; else ClassOther.
	Class engine.ResultClass
}

// A SortKey is an output to sort by.
type SortKey struct {
	Output int
	Desc   bool
	// NullsLast sorts NULL after all values; otherwise before them. Desc doesn't reverse it.
	NullsLast bool
}
