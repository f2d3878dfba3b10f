// Package parse reads the structure of a query: which tables, columns, functions and clauses it
// has, and where each of them stands in its text.
//
// It is not a validator: its callers have the server check the statement, too. But Parse must never
// understand a statement otherwise than the server does. It returns an error for everything that it
// does not know with certainty, and the caller passes such a statement to the server as it is. No
// text is written from the tree: callers replace spans of the original text, so that literals,
// names and types remain as they were.
//
// In: the text of one statement, and the lexical rules of the server and session that it is for
// (sqltext.Syntax). Out: a *Query. Package query is its caller.
package parse

import "github.com/rowmill/rowmill/internal/sqltext"

// A Query is a complete query expression: of a statement, a CTE, a derived table or a subquery.
type Query struct {
	sqltext.Span
	With      []CTE
	Recursive bool
	// Body is the first SELECT. If the first SELECT is in parentheses and something follows these,
	// Body is nil, and First has the SELECT with its own clauses. Rest has the SELECTs after UNION,
	// INTERSECT or EXCEPT, in the order of the text: which of these operators binds more tightly is up
	// to the server.
	Body  *Select
	First *Query
	Rest  []Branch
	// OrderBy, Limit and Offset belong to the whole query, not to one SELECT of a set operation.
	OrderBy       []Order
	Limit, Offset *Expr
	// Tail is the span of ORDER BY, LIMIT and OFFSET together; empty, at the end, without them.
	Tail sqltext.Span
}

// A Branch is a further SELECT of a set operation. Its span includes its parentheses.
type Branch struct {
	sqltext.Span
	Op  string // "UNION", "INTERSECT" or "EXCEPT"
	All bool
	// Query is the branch; one in parentheses may have clauses of its own.
	Query *Query
}

// A CTE is one query of WITH. Its span begins at the name and ends after the parentheses.
type CTE struct {
	sqltext.Span
	Name    string
	Columns []string
	Query   *Query
}

// A Select is one SELECT with its clauses, without ORDER BY and LIMIT, which are the Query's.
type Select struct {
	sqltext.Span
	Distinct bool
	// Options are keywords after SELECT such as SQL_NO_CACHE, in upper case, and optimizer hints,
	// whose texts begin with "/*+".
	Options []string
	Items   []Item
	// ItemsSpan is the text between SELECT (with its options) and FROM.
	ItemsSpan sqltext.Span
	From      []*From
	// FromSpan is the operand of FROM: all elements of From, with the commas between them.
	FromSpan sqltext.Span
	Where    *Expr
	GroupBy  []*Expr
	// GroupSpan is the operand of GROUP BY, without WITH ROLLUP.
	GroupSpan sqltext.Span
	Rollup    bool // WITH ROLLUP
	// Sets reports elements of GROUP BY that aren't expressions: ROLLUP (...), CUBE (...) and GROUPING
	// SETS (...) are read as Calls of these names, () as an empty Row.
	Sets    bool
	Having  *Expr
	Windows []Window
}

// An Item is an element of the select list.
type Item struct {
	sqltext.Span
	Expr  *Expr  // nil for a star
	Star  bool   // * or t.*
	Table string // of t.*
	Alias string // "" if there is none
}

// A Window is a named window.
type Window struct {
	Name string
	Over *Over
}

// A From is an operand of FROM: a table, a derived table, or a join of two.
type From struct {
	sqltext.Span
	// Database and Table are the names of a table, unquoted; Name is their span.
	Database, Table string
	Name            sqltext.Span
	Partitions      []string // of PARTITION (p, ...)
	Query           *Query   // of a derived table
	Lateral         bool
	Alias           string // "" if there is none
	Columns         []string

	// Join is the kind of a join: "INNER", "LEFT", "RIGHT", "FULL", "CROSS"; "" if the operand isn't a
	// join. Operands of FROM that a comma separates are elements of Select.From; within parentheses,
	// or before JOIN on some servers, the comma is a CROSS join.
	Join        string
	Natural     bool
	Left, Right *From
	On          *Expr
	Using       []string
}

// An Order is an element of ORDER BY.
type Order struct {
	sqltext.Span
	Expr *Expr
	Desc bool
	// Nulls is "FIRST" or "LAST" if it is given.
	Nulls string
}

// A Kind is the kind of an expression.
type Kind int

// Kinds of expressions.
const (
	Literal    Kind = iota // a number, a string, NULL, TRUE, DATE '...': Name is its text
	Column                 // Names: [database.][table.]column
	Param                  // ? or $1
	Call                   // Name(Args)
	Unary                  // Name is the operator: "-", "NOT", "~", "BINARY", ...
	Binary                 // Name is the operator in upper case: "+", "AND", "LIKE", ...; Not for NOT LIKE and its kind
	Between                // Args: x, low, high; Not
	In                     // Args: x and the elements, or Query; Not
	Exists                 // Query; NOT EXISTS is a Unary around it
	Subquery               // Query, of one value or row; Name is "ANY" or "ALL" if it follows one of them
	Case                   // Args in the order of the text
	Cast                   // CAST, CONVERT, x::type: Args[0]; Type
	Row                    // (a, b): Args
	Paren                  // (a): Args[0]
	IsTest                 // x IS [NOT] NULL, TRUE, FALSE, UNKNOWN, DISTINCT FROM y: Args; Name is the test; Not
	IntervalOf             // INTERVAL x unit: Args[0]; Unit
	Collate                // x COLLATE name: Args[0]; Name is the collation
	Array                  // ARRAY[...]: Args
	Index                  // x[i], x[i:j]: Args
)

// An Expr is an expression.
type Expr struct {
	sqltext.Span
	Kind Kind
	// Name is the operator, or the function in lower case; see Kind.
	Name string
	// Names are the parts of a Column's name, unquoted. With Syntax.Casts, names that had no quotes
	// are in lower case, as the server reads them.
	Names []string
	Args  []*Expr
	Not   bool
	// Star, Distinct, OrderBy, Separator and Filter belong to a Call: COUNT(*), COUNT(DISTINCT x),
	// GROUP_CONCAT(x ORDER BY y SEPARATOR z), FILTER (WHERE c).
	Star, Distinct bool
	OrderBy        []Order
	Separator      string // its text with quotes, "" if there is none
	Limited        bool   // LIMIT within the call
	Filter         *Expr
	Over           *Over
	// Qualified reports a function with a schema before its name.
	Qualified bool
	// Type is the text of the type of a Cast, or of the character set of CONVERT ... USING.
	Type string
	// Unit is a word in place of an argument, in upper case: for example, DAY in INTERVAL 1 DAY or
	// EXTRACT (DAY FROM x), and BOTH in TRIM (BOTH FROM x).
	Unit  string
	Query *Query
}

// An Over is the window of a window function.
type Over struct {
	sqltext.Span
	Name        string // of a named window that it refers to
	PartitionBy []*Expr
	OrderBy     []Order
	Frame       sqltext.Span
}
