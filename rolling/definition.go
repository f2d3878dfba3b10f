package rolling

import (
	"fmt"
	"slices"
	"strings"
)

// A Definition is a CREATE TABLE statement, read as far as a rolling table
// needs it: names, keys, and where they stand. What a type or an option means
// is the server's business.
//
// Engines create from it, never from its parts:
//
//   - the table itself from As, and what belongs to their way of cutting it
//     (PARTITION BY ...) after that text, which ends with the last token;
//   - tables with the same columns beside it, such as templates and periods
//     that are tables of their own, from Copy, which leaves out the names that
//     a schema can have only once;
//   - then Indexes, where there are any, with DefinedIndex.As. In PostgreSQL
//     they are made on the partitioned table (its periods get them by
//     themselves) and on tables made by Copy that are to be attached; in
//     SQLite on each period's table. Each needs a name of its own there.
type Definition struct {
	// Text is the CREATE TABLE statement, without a terminator.
	Text string
	// Name is the table's, unquoted; nameFrom and nameTo are where it stands,
	// with its schema.
	Name             string
	nameFrom, nameTo int
	// Schema is what stands before the name and a dot; As leaves it out.
	Schema  string
	Columns []DefinedColumn
	// PrimaryKey names its columns, also when one column says so of itself.
	PrimaryKey []string
	// Unique holds the columns of each UNIQUE constraint.
	Unique [][]string
	// Keys are the keys written within the statement, the primary one not
	// counted; the Text of each is what ALTER TABLE ... ADD takes.
	Keys []DefinedIndex
	// Indexes are the CREATE INDEX statements after it.
	Indexes []DefinedIndex
	// ForeignKey is the line, from 1, of the first foreign key; 0 without one.
	ForeignKey int
	// Partitioned tells that the statement cuts the table itself.
	Partitioned bool
	// partitionLine is where it does; primaryLine where the primary key is.
	partitionLine, primaryLine int
	// constraints are where names of constraints stand: CONSTRAINT x.
	constraints [][2]int
}

// A DefinedColumn is one column of a Definition.
type DefinedColumn struct {
	Name string
	// Type is the type as it is written, up to its attributes.
	Type string
	// NotNull tells that it says so, or is part of the primary key.
	NotNull bool
	// Generated columns can't be written to; Auto ones get their values from
	// the server where none is given.
	Generated, Auto bool
	// Text is the whole of it, "ts DATETIME NOT NULL".
	Text string
	// Line is where it stands in the statement, from 1.
	Line int
	// saysNotNull is NotNull by its own words.
	saysNotNull bool
}

// A DefinedIndex is a key within a CREATE TABLE statement, or a CREATE INDEX
// statement after it.
type DefinedIndex struct {
	// Name is the index's, unquoted; "" where the server is to choose one.
	Name string
	// Columns are its columns; expressions stand as they are written.
	Columns []string
	Unique  bool
	// Text is the whole of it, without a terminator.
	Text string
	// Line is where it stands, from 1.
	Line int
	// rest is what follows the table's name.
	rest string
}

// As returns a CREATE INDEX statement for an index and a table of other names,
// which are quoted already; an empty index has the server choose its name.
// CONCURRENTLY and IF NOT EXISTS are left out. It returns "" for a key that is
// written within CREATE TABLE.
func (i *DefinedIndex) As(index, table string) string {
	if i.rest == "" {
		return ""
	}
	text := "CREATE "
	if i.Unique {
		text += "UNIQUE "
	}
	text += "INDEX "
	if index != "" {
		text += index + " "
	}
	return text + "ON " + table + " " + i.rest
}

// As returns the statement for a table of another name, which is quoted
// already. IF NOT EXISTS is left out: who creates a table wants to know.
func (d *Definition) As(quoted string) string {
	return "CREATE TABLE " + quoted + d.Text[d.nameTo:]
}

// Copy is As for a table beside the defined one: names of constraints are left
// out, because some servers allow each only once in a schema.
func (d *Definition) Copy(quoted string) string {
	out, from := "CREATE TABLE "+quoted, d.nameTo
	for _, c := range d.constraints {
		out += d.Text[from:c[0]]
		from = c[1]
	}
	return out + d.Text[from:]
}

// Column returns the named column, or nil. Case doesn't count where one
// column only could be meant.
func (d *Definition) Column(name string) *DefinedColumn {
	var found *DefinedColumn
	for i := range d.Columns {
		c := &d.Columns[i]
		if c.Name == name {
			return c
		}
		if strings.EqualFold(c.Name, name) {
			found = c
		}
	}
	return found
}

// ReadDefinition reads a CREATE TABLE statement of MySQL, MariaDB, PostgreSQL
// or SQLite, and CREATE INDEX statements on the same table after it. It refuses
// what a table that rolls can't be made from: temporary tables, CREATE TABLE
// ... AS SELECT, LIKE, INHERITS and others whose columns stand elsewhere, and
// other statements. An error is an *Error whose line counts from the text's
// first.
//
// Where servers read the same text differently, the first of MySQL, PostgreSQL
// and SQLite that it makes sense to decides; ParseDeclaration goes by the target.
func ReadDefinition(text string) (*Definition, error) {
	d, err := readDefinition(text, mysqlText, postgresText, sqliteText)
	if err != nil {
		return nil, definitionError(text, err)
	}
	return d, nil
}

// definitionError gives an error its place.
func definitionError(text string, err *sqlError) *Error {
	line, column := place(text, err.at)
	return &Error{Line: line, Column: column, Text: err.text, Hint: err.hint}
}

// place returns line and column, from 1, of an offset.
func place(text string, at int) (line, column int) {
	before := text[:min(max(at, 0), len(text))]
	return 1 + strings.Count(before, "\n"), len(before) - strings.LastIndexByte(before, '\n')
}

// readDefinition reads the text in the first mode that fits. The error is that
// of the mode that got furthest.
func readDefinition(text string, modes ...sqlMode) (*Definition, *sqlError) {
	var worst *sqlError
	for _, mode := range modes {
		tokens, err := sqlTokens(text, mode)
		if err == nil {
			r := definitionReader{text: text, mode: mode, tokens: tokens, d: &Definition{}}
			if err = r.read(); err == nil {
				return r.d, nil
			}
		}
		if worst == nil || err.at > worst.at {
			worst = err
		}
	}
	return nil, worst
}

// A definitionReader goes through the tokens of a definition.
type definitionReader struct {
	text   string
	mode   sqlMode
	tokens []sqlToken
	pos    int
	d      *Definition
	start  int // the offset at which the statement begins
}

// at returns the token n places further.
func (r *definitionReader) at(n int) sqlToken {
	if i := r.pos + n; i >= 0 && i < len(r.tokens) {
		return r.tokens[i]
	}
	return sqlToken{kind: sqlEnd, from: len(r.text), to: len(r.text)}
}

// next returns the present token and goes on to the one after it.
func (r *definitionReader) next() sqlToken {
	t := r.at(0)
	r.pos = min(r.pos+1, len(r.tokens))
	return t
}

// accept goes past the keywords, if all of them are there.
func (r *definitionReader) accept(words ...string) bool {
	for i, w := range words {
		if !r.at(i).is(w) {
			return false
		}
	}
	r.pos += len(words)
	return true
}

func (r *definitionReader) fail(t sqlToken, hint, format string, args ...any) *sqlError {
	return &sqlError{t.from, fmt.Sprintf(format, args...), hint}
}

func (r *definitionReader) line(t sqlToken) int {
	line, _ := place(r.text, t.from)
	return line
}

// name returns a token as the server knows it.
func (r *definitionReader) name(t sqlToken) string {
	if r.mode == postgresText && t.kind == sqlWord {
		return strings.ToLower(t.text)
	}
	return t.text
}

func (r *definitionReader) read() *sqlError {
	if len(r.tokens) == 0 {
		return &sqlError{0, "there is no statement", "CREATE TABLE name (column type NOT NULL, ...)"}
	}
	if err := r.head(); err != nil {
		return err
	}
	items, err := r.items()
	if err != nil {
		return err
	}
	end, err := r.tail()
	if err != nil {
		return err
	}
	r.d.Text = r.text[r.start:end]
	r.d.nameFrom, r.d.nameTo = r.d.nameFrom-r.start, r.d.nameTo-r.start
	after := r.pos
	for _, item := range items {
		if err := r.item(item[0], item[1]); err != nil {
			return err
		}
	}
	r.pos = after
	if err := r.keys(); err != nil {
		return err
	}
	return r.statements()
}

// head reads up to the table's name.
func (r *definitionReader) head() *sqlError {
	t := r.next()
	if !t.is("create") {
		return r.fail(t, "CREATE TABLE name (...)", "want CREATE TABLE, not %s", t)
	}
	r.start = t.from
	for t = r.next(); !t.is("table"); t = r.next() {
		const hint = "CREATE TABLE name (...)"
		switch {
		case t.isAny("temporary", "temp", "global", "local"):
			return r.fail(t, hint, "a temporary table ends with its connection and can't roll")
		case t.is("unlogged"):
			return r.fail(t, hint, "an unlogged table is emptied by a crash and can't roll")
		case t.is("or"):
			return r.fail(t, hint, "OR REPLACE would drop a table that is there")
		case t.isAny("foreign", "virtual"):
			return r.fail(t, hint, "the rows of a %s table don't lie in the database", strings.ToLower(t.text))
		default:
			return r.fail(t, hint, "want CREATE TABLE, not CREATE %s", t)
		}
	}
	r.accept("if", "not", "exists")
	t = r.at(0)
	if r.d.Schema, r.d.Name = r.qualified(); r.d.Name == "" {
		return r.fail(t, "", "want the table's name, not %s", t)
	}
	r.d.nameFrom, r.d.nameTo = t.from, r.at(-1).to
	t = r.at(0)
	switch {
	case t.is("like"), t.is("("):
		if t.is("like") || r.at(1).is("like") {
			return r.fail(t, "write the columns and keys out", "LIKE takes the columns from elsewhere")
		}
		return nil
	case t.isAny("as", "select"):
		return r.fail(t, "write the columns and keys out; rows are loaded afterwards", "CREATE TABLE ... AS SELECT has no keys")
	case t.isAny("partition", "of"):
		return r.fail(t, "write the columns and keys out", "the table takes its columns from elsewhere")
	}
	return r.fail(t, "CREATE TABLE name (...)", "want ( after the table's name, not %s", t)
}

// qualified reads a name with or without a schema; "" for none.
func (r *definitionReader) qualified() (schema, name string) {
	for {
		t := r.at(0)
		if !t.isName() {
			return "", ""
		}
		r.pos++
		if name != "" {
			// Of a catalog, a schema and a name, the schema counts.
			schema = name
		}
		name = r.name(t)
		if !r.accept(".") {
			return schema, name
		}
	}
}

// items reads what is between the parentheses, and returns where each item
// begins and ends.
func (r *definitionReader) items() ([][2]int, *sqlError) {
	open := r.next()
	var items [][2]int
	depth, from := 0, r.pos
	for {
		t := r.at(0)
		switch {
		case t.kind == sqlEnd:
			return nil, r.fail(open, "a ) at the end", "this ( is never closed")
		case t.isAny("(", "["):
			depth++
		case t.isAny(")", "]") && depth > 0:
			depth--
		case t.is("]"):
			return nil, r.fail(t, "", "this ] was never opened")
		case t.is(";"):
			return nil, r.fail(t, "a ) before it", "the statement ends within its parentheses")
		case depth == 0 && t.isAny(",", ")"):
			if r.pos == from {
				return nil, r.fail(t, "", "want a column or a key before %s", t)
			}
			items = append(items, [2]int{from, r.pos})
			from = r.pos + 1
			if t.is(")") {
				r.pos++
				return items, nil
			}
		}
		r.pos++
	}
}

// tail reads what is after the parentheses, and returns where it ends.
func (r *definitionReader) tail() (end int, err *sqlError) {
	depth := 0
	for ; ; r.pos++ {
		t := r.at(0)
		end = r.at(-1).to
		switch {
		case t.kind == sqlEnd && depth > 0:
			return 0, r.fail(t, "", "a ( is never closed")
		case t.kind == sqlEnd, t.is(";") && depth == 0:
			return end, nil
		case t.isAny("(", "["):
			depth++
		case t.isAny(")", "]"):
			if depth--; depth < 0 {
				return 0, r.fail(t, "", "this %s was never opened", t.text)
			}
		case depth > 0:
		case t.isAny("as", "select"):
			return 0, r.fail(t, "leave it out; rows are loaded afterwards", "CREATE TABLE ... AS SELECT would fill the table before it rolls")
		case t.is("inherits"):
			return 0, r.fail(t, "write the columns and keys out", "INHERITS takes columns from elsewhere")
		case t.is("create"):
			return 0, r.fail(t, "a ; before it", "a statement begins within another")
		case t.is("system") && r.at(1).is("versioning"):
			return 0, r.fail(t, "leave it out", "a table WITH SYSTEM VERSIONING can't roll")
		case t.is("partition") && r.at(1).is("by"):
			r.d.Partitioned, r.d.partitionLine = true, r.line(t)
		}
	}
}

// statements reads those after CREATE TABLE.
func (r *definitionReader) statements() *sqlError {
	for {
		for r.accept(";") {
		}
		if r.at(0).kind == sqlEnd {
			return nil
		}
		if err := r.index(); err != nil {
			return err
		}
	}
}

// keys checks what the keys name, and marks columns of the primary key.
func (r *definitionReader) keys() *sqlError {
	d := r.d
	for i, c := range d.Columns {
		if slices.ContainsFunc(d.Columns[:i], func(o DefinedColumn) bool { return o.Name == c.Name }) {
			return &sqlError{r.lineStart(c.Line), fmt.Sprintf("there are two columns %s", c.Name), "another name"}
		}
	}
	if len(d.Columns) == 0 {
		return &sqlError{r.start, "the table has no columns", ""}
	}
	for i, name := range d.PrimaryKey {
		c := d.Column(name)
		if c == nil {
			return &sqlError{r.lineStart(d.primaryLine), fmt.Sprintf("the primary key names column %s, which the table doesn't have", name), ""}
		}
		c.NotNull, d.PrimaryKey[i] = true, c.Name
	}
	return nil
}

// lineStart returns the offset at which the text of a line begins.
func (r *definitionReader) lineStart(line int) int {
	at := 0
	for ; line > 1; line-- {
		at += strings.IndexByte(r.text[at:], '\n') + 1
	}
	return at + len(r.text[at:]) - len(strings.TrimLeft(r.text[at:], " \t\r"))
}
