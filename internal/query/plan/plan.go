// Package plan decides how a statement is answered in pieces: which table is cut, what each piece
// computes, and how the pieces' results are merged. If the answer isn't certain to be the server's
// own, byte for byte, the statement is whole: it is passed to the server as it is, and one of the
// rules says why. engine.Semantics has the differences between servers.
package plan

import (
	"context"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// Options decide what is split.
type Options struct {
	// Always also splits statements that are no faster in pieces. ByRange also splits tables without
	// partitions. Inexact also splits aggregates whose last digits depend on the order of additions.
	Always, ByRange, Inexact bool
}

// SmallRows is the estimated number of rows below which a query is passed through whole: one
// session reads 50,000 rows in less than a few dozen milliseconds, and splitting costs some five
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
	// Branches are the SELECTs of a set operation, such as UNION. Each has a plan of its own. The
	// outer plan then has no Table and no Partial; its Pieces are the pieces of all branches in turn.
	// Merge says how the branches' answers are combined: rowmill passes them on one after the other,
	// or the server stores them in temporary tables and computes the answer.
	Branches []Branch
	Why      string // of a branch: why it is run as one piece, or why it can't even be run so; "" if it is split
	Pieces   []Piece
	Merge    Merge
	// EstimatedRows is the server's estimate of the rows that are read; -1 is unknown.
	EstimatedRows int64
	// Parallel is the number of processes that the server itself would use.
	Parallel int
}

// A Statement describes a query before it is split.
type Statement struct {
	// Text is the statement. State is the client's session settings, under which it runs.
	Text  string
	State engine.State
	// Columns describe the answer.
	Columns []engine.ResultColumn
	// Clock reports that pieces have constants in place of NOW() and other functions of the current
	// time.
	Clock bool
	// Tables are the tables that the statement reads: database and name. "" is the current database.
	Tables [][2]string
	// Certain is the text of a branch that may be run whole; "" if the branch, run by itself, might
	// return other rows than as a part of the set operation.
	Certain string
	// Harmless reports that all functions and tables of the statement are known, so that it changes
	// nothing in the session that runs it.
	Harmless bool
	InUnion  bool // it is the plan of a branch
	// OnlyCounts reports that the statement computes only counts over all rows, at least one of them
	// a COUNT(x): see engine.Semantics.CountsAll.
	OnlyCounts bool
}

// A Source is the table that is divided among pieces.
type Source struct {
	// Table is the table, Alias its name in the query.
	Table *engine.TableParts
	Alias string
	// Namesakes is the number of tables in the statement that are called Alias, this one included: a
	// subquery may use the name again.
	Namesakes int
	// Alone reports that the statement reads no other table, and this one once.
	Alone bool
	// Parts are the partitions that the server would read, in the table's order; the pieces are
	// made of them. Pruned is the number of partitions that the server would skip.
	Parts []string
	// Named are the partitions that the statement names.
	Named  []string
	Pruned int
	// Disjoint reports that no group has rows in two of the Parts. The merge relies on it, and so no
	// partition may be divided among pieces.
	Disjoint bool
	// Locals are the head's own definitions, such as time zones; nil until they are read: see
	// engine.LocalReader.
	Locals map[string]string
	// Through is the reason why a table on several servers is read through the head; "" if the nodes'
	// tables are read directly, or the table is on one server.
	Through string
	// Fetched are the tables of other servers whose rows the head fetches, to compute the pieces
	// itself: see Piece.Text.
	Fetched []string
}

// RolledUp describes the use of roll-ups in place of the table's rows.
type RolledUp struct {
	// Rollups are read by the first pieces, in place of rows. NoRollup is the reason why no roll-up
	// is used; "" if one is used, or if the table has none.
	Rollups  []RollupUse
	NoRollup string
	// SameRows checks, in a session's transaction, whether the roll-ups still match the partitions
	// that they replace. It returns the reason why they don't, or "". It is nil if no check is
	// needed, because rowmill notices every change of rows. Changed are the periods whose rows are
	// read because the roll-up doesn't match them.
	SameRows func(ctx context.Context, s *engine.Session) (string, error)
	Changed  []string
}

// Partials describe the query of each piece, and the columns of its result.
type Partials struct {
	// Partial is the query of a piece, split at the operand of FROM that each piece replaces: the
	// texts before and after it. For example, FROM t AS x has the operand t; a piece replaces it with
	// t PARTITION (p1), or with a derived table in parentheses.
	Partial [2]string
	// Sample is the client's statement, split at the same operand as Partial. If the types of the
	// columns are known only from a result, the statement is run on one partition. Joined reports that
	// the statement also reads other tables.
	Sample [2]string
	Joined bool
	// PartialColumns describe the result of a piece: first the keys, then the parts of the
	// aggregates.
	PartialColumns []engine.ResultColumn
	// Keys is the number of key columns in the result of a piece. If pieces return rows in place of
	// groups, it is the number of columns of the answer.
	Keys int
}

// A Piece is one statement that reads some partitions of the table.
type Piece struct {
	Parts []string
	// Where selects the piece's rows by a range of the primary key, in a table without partitions; ""
	// otherwise.
	Where string
	// Query is the text of a piece that reads a roll-up in place of the table. Rollup is the
	// roll-up's name. Both are "" otherwise.
	Query, Rollup string
	// Text is the text of a piece in which derived tables replace tables of other servers; ""
	// otherwise.
	Text string
	// Node is the index of the server with the piece's rows; 0 on a single server. If the rows are on
	// another server, Server is the name of that server, and Table is the table on it.
	Node   int
	Server string
	Table  *engine.TableParts
	// Rows is the estimated number of rows, -1 if unknown.
	Rows int64
}

// A RollupUse is a roll-up that a plan reads in place of rows.
type RollupUse struct {
	// Name is the roll-up's name, Every the length of its buckets.
	Name  string
	Every rolling.Grid
	// Ranges are the times for which it replaces rows: complete buckets, in order.
	Ranges []rolling.Period
	// Proof is a query. It returns 1 in every column while the buckets hold exactly the table's rows.
	Proof string
}

// A MergeKind is a way to compute the answer from the results of pieces.
type MergeKind int

// Kinds of merges.
const (
	// Concatenate passes the rows of the pieces on, in the order of the pieces: no group is in two
	// pieces, and the statement asks for no other order.
	Concatenate MergeKind = iota
	// InMemory merges groups in a hash table, by typed values.
	InMemory
	// OnServer merges in temporary tables of the server.
	OnServer
)

// A Merge says how the results of the pieces, the partials, become the answer.
//
// On the server there are two temporary tables. The first, PartialTable, has the rows of the
// partials, with the names and types of their columns. Groups fills the second, GroupTable, with
// one row per group and the columns of Typed. Final reads the answer from it: expressions, HAVING
// as WHERE, windows, ORDER BY, LIMIT. No statement names a temporary table twice.
type Merge struct {
	Kind MergeKind
	// Rows reports that pieces return rows of the answer, not groups. In each row, the columns of the
	// answer are followed by columns to sort by. Then there is no GroupTable, and Final reads
	// PartialTable.
	Rows bool
	// Steps say how two partial groups whose keys have the same bytes become one: one step for each
	// column after the keys. They are nil if only the server can merge the groups; then Kind isn't
	// InMemory.
	Steps []engine.MergeStep

	// Outputs are the columns of the answer in terms of a group, for InMemory.
	Outputs []Output
	// OrderBy, NullsLast, Limit and Offset are for InMemory.
	OrderBy       []SortKey
	NullsLast     bool  // for keys, by which groups that are equal in OrderBy are sorted
	Limit, Offset int64 // Limit -1 is none
	// Unique reports that no two groups are equal in all of OrderBy. Otherwise the limit may separate
	// two groups that are equal in OrderBy, and the answer isn't determined.
	Unique bool

	// Typed is a query whose result columns have the names and types of the table GroupTable; the
	// server only describes it, with LIMIT 0. Groups and Final are the statements of the server's
	// merge: Groups is a query for the rows of GroupTable, in the order of its columns.
	Typed, Groups, Final string
	// Ties are queries over the temporary tables. Each returns a row if SQL permits several answers.
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
	// Zero reports an output that is 0, not NULL, over no rows: a count.
	Zero bool
	// Class is the class of the value, if the server doesn't describe it; else ClassOther.
	Class engine.ResultClass
}

// A SortKey is an output to sort by.
type SortKey struct {
	Output int
	Desc   bool
	// NullsLast sorts NULL after all values; otherwise before them. Desc doesn't reverse it.
	NullsLast bool
}
