package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/rolling"
)

type (
	// Find reads rows by an index. A Querier prepares a Find once, and recognizes it by its pointer.
	Find struct {
		Table   *Table
		Columns []string // to read; empty is all
		// Index is the secondary index to use, "" the primary key. MySQL and MariaDB get FORCE INDEX;
		// SQLite gets INDEXED BY on a plain table. On other engines the planner chooses.
		Index  string
		On     []string  // columns of the condition, in order; numbers or times
		How    Condition // the condition on them
		Points int       // for In: the number of values
		Order  []string  // ORDER BY, ascending
		Limit  int       // 0 is none
	}
	// Delete removes the rows whose By column, an integer or a time, lies in a half-open range.
	Delete struct {
		Table *Table
		By    string
	}
	// CreateIndexes builds secondary indexes on a table with rows, while writers may have to wait.
	CreateIndexes struct {
		Table      *Table
		Indexes    []Index
		Partitions []rolling.Partition
	}
	// Settle is what DB.Settle runs, with placeholders where it depends on the server's answers.
	Settle struct {
		Tables []*Table
		// Private means that nobody else uses the server, so that it may write as fast as it can.
		Private bool
	}
)

func (Find) step()          {}
func (Delete) step()        {}
func (CreateIndexes) step() {}
func (Settle) step()        {}

// A Condition selects the rows of a Find by the columns in On.
type Condition int

// Conditions.
const (
	AtLeast Condition = iota // a >= ?, of one column
	Above                    // a > ?, of one column
	Equal                    // a = ? AND b = ? AND ...
	// Keyset is every row at or after a point of an index: (a = ? AND b >= ?) OR a > ?. On PostgreSQL
	// and SQLite, the condition begins with a >= ? AND (Wording.Leading): without this, these servers
	// would read the whole index.
	Keyset
	In // a IN (?, ...), of one column with Points values
)

// MaxPoints is the maximum number of values of a Find: SQLite binds no more.
const MaxPoints = 32766

// A Value is bound to a column, whose type determines the field. Int is for integers, and for times
// of whole seconds (microseconds since 1970, UTC). Float is for floats, rounded as they are stored.
type Value struct {
	Int   int64
	Float float64
}

// A Querier reads and deletes on a connection of its own, for one goroutine at a time. Each call is
// a transaction.
type Querier interface {
	// Find runs f with f.Values() values, and returns the number of rows, which it doesn't decode.
	Find(ctx context.Context, f *Find, values []Value) (rows int, err error)
	// Delete removes the rows whose By column lies in [from, to), and returns their number.
	Delete(ctx context.Context, d *Delete, from, to int64) (rows int64, err error)
	// Reset makes the querier usable after an error, on a new connection if the old one was lost.
	Reset(ctx context.Context) error
	Close() error
}

// Values returns the number of values that a Find takes.
func (f *Find) Values() int {
	if f.How == In {
		return f.Points
	}
	return len(f.On)
}

// Type returns the type of the column that value i is bound to.
func (f *Find) Type(i int) Type {
	if f.How == In {
		i = 0
	}
	return f.Table.Columns[f.Table.Column(f.On[i])].Type
}

// Check returns an error unless there are f.Values() values.
func (f *Find) Check(values []Value) error {
	if len(values) != f.Values() {
		return fmt.Errorf("find in %s: %d values for the %d that it takes", f.Table.Name, len(values), f.Values())
	}
	return nil
}

// Validate returns an error if the Find is impossible on any engine.
func (f *Find) Validate() error {
	if f.Table == nil {
		return errors.New("find: it names no table")
	}
	if err := f.Table.Validate(); err != nil {
		return err
	}
	fail := func(format string, args ...any) error {
		return fmt.Errorf("find in %s: %s", f.Table.Name, fmt.Sprintf(format, args...))
	}
	for _, c := range slices.Concat(f.Columns, f.On, f.Order) {
		if f.Table.Column(c) < 0 {
			return fail("it names column %s, which the table doesn't have", c)
		}
	}
	if f.Index != "" && !slices.ContainsFunc(f.Table.Indexes, func(ix Index) bool { return ix.Name == f.Index }) {
		return fail("it names index %s, which the table doesn't have", f.Index)
	}
	for _, c := range f.On {
		switch f.Table.Columns[f.Table.Column(c)].Type {
		case Int32, Int64, Float32, Float64, Time:
		default:
			return fail("column %s is neither a number nor a time", c)
		}
	}
	switch {
	case f.How < AtLeast || f.How > In:
		return fail("condition %d is unknown", f.How)
	case len(f.On) == 0:
		return fail("its condition is on no column")
	case len(f.On) > 1 && f.How != Equal && f.How != Keyset:
		return fail("its condition is on %d columns and can be on one", len(f.On))
	case f.How == In && (f.Points < 1 || f.Points > MaxPoints):
		return fail("it looks for %d values: want 1 to %d", f.Points, MaxPoints)
	case f.How != In && f.Points != 0:
		return fail("only a list of values has Points")
	case f.Limit < 0:
		return fail("limit %d", f.Limit)
	}
	return nil
}

// Wording is the engine-specific part of the SQL of a Find.
type Wording struct {
	Quote func(ident string) string
	// Value returns the placeholder of value i. It is called in the order of the placeholders. A
	// Keyset has several placeholders for one value.
	Value   func(i int) string
	Leading bool // see Keyset
}

// Select returns the statement of a valid Find. from is the quoted table, with any hint.
func (f *Find) Select(from string, w Wording) string {
	columns := f.Columns
	if len(columns) == 0 {
		columns = Names(f.Table.Columns)
	}
	q := "SELECT " + QuoteList(columns, w.Quote) + " FROM " + from + " WHERE " + f.where(w)
	if len(f.Order) > 0 {
		q += " ORDER BY " + QuoteList(f.Order, w.Quote)
	}
	if f.Limit > 0 {
		q += " LIMIT " + strconv.Itoa(f.Limit)
	}
	return q
}

// QuoteList returns identifiers quoted by quote, separated by commas.
func QuoteList(names []string, quote func(string) string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = quote(n)
	}
	return strings.Join(quoted, ", ")
}

func (f *Find) where(w Wording) string {
	is := func(i int, operator string) string { return w.Quote(f.On[i]) + " " + operator + " " + w.Value(i) }
	// equal compares the first n columns for equality, and column n by the operator last.
	equal := func(n int, last string) string {
		var terms []string
		for i := range n {
			terms = append(terms, is(i, "="))
		}
		return strings.Join(append(terms, is(n, last)), " AND ")
	}
	n := len(f.On)
	switch f.How {
	case Above:
		return is(0, ">")
	case Equal:
		return equal(n-1, "=")
	case In:
		points := make([]string, f.Points)
		for i := range points {
			points[i] = w.Value(i)
		}
		return w.Quote(f.On[0]) + " IN (" + strings.Join(points, ", ") + ")"
	case Keyset:
		if n == 1 {
			break
		}
		lead := ""
		if w.Leading {
			lead = is(0, ">=") + " AND ("
		}
		terms := []string{"(" + equal(n-1, ">=") + ")"}
		for i := n - 2; i > 0; i-- {
			terms = append(terms, "("+equal(i, ">")+")")
		}
		q := lead + strings.Join(append(terms, is(0, ">")), " OR ")
		if w.Leading {
			q += ")"
		}
		return q
	}
	return is(0, ">=")
}

// Validate returns an error if the Delete is impossible on any engine.
func (d *Delete) Validate() error {
	if d.Table == nil {
		return errors.New("delete: it names no table")
	}
	if err := d.Table.Validate(); err != nil {
		return err
	}
	i := d.Table.Column(d.By)
	if i < 0 {
		return fmt.Errorf("delete from %s: its range is of column %s, which the table doesn't have", d.Table.Name, d.By)
	}
	switch d.Table.Columns[i].Type {
	case Int32, Int64, Time:
		return nil
	}
	return fmt.Errorf("delete from %s: column %s is neither an integer nor a time", d.Table.Name, d.By)
}

// Validate returns an error if the indexes are impossible on any engine.
func (c *CreateIndexes) Validate() error {
	if c.Table == nil {
		return errors.New("create indexes: of no table")
	}
	if len(c.Indexes) == 0 {
		return fmt.Errorf("create indexes of %s: none is named", c.Table.Name)
	}
	t := *c.Table
	t.Indexes = c.Indexes
	for _, ix := range c.Indexes {
		if ix.Name == "" || len(ix.Columns) == 0 {
			return fmt.Errorf("create indexes of %s: index %q has no name or no columns", c.Table.Name, ix.Name)
		}
	}
	return t.Validate()
}
