package rolling

import (
	"fmt"
	"slices"
	"strings"
)

// A Definition is a CREATE TABLE statement, parsed as far as a rolling table needs
// it: names, keys, and their places. Types and options are not interpreted; that is
// left to the server.
//
// Engines create tables from its text, never from its parts:
//
//   - the table itself from As, followed by the engine's partitioning clause
//     (PARTITION BY ...); the text ends with the last token;
//   - tables with the same columns, such as templates and periods that are
//     tables of their own, from Copy, which omits the names that must be unique
//     in a schema;
//   - then Indexes, if any, with DefinedIndex.As. In PostgreSQL they are created
//     on the partitioned table (its periods inherit them) and on tables made by
//     Copy that are to be attached; in SQLite on each period's table. Each needs
//     a name of its own there.
type Definition struct {
	// Text is the CREATE TABLE statement, without a terminator.
	Text string
	// Name is the table's name, unquoted; nameFrom and nameTo are its place,
	// including the schema.
	Name             string
	nameFrom, nameTo int
	// Schema is the text before the dot of a qualified name; As omits it.
	Schema  string
	Columns []DefinedColumn
	// PrimaryKey names its columns, also if it is declared at a column.
	PrimaryKey []string
	// Unique holds the columns of each UNIQUE constraint.
	Unique [][]string
	// Keys are the keys written within the statement, except the primary key; the
	// Text of each is valid in ALTER TABLE ... ADD.
	Keys []DefinedIndex
	// Indexes are the CREATE INDEX statements that follow it.
	Indexes []DefinedIndex
	// ForeignKey is the line, from 1, of the first foreign key; 0 if there is none.
	ForeignKey int
	// Partitioned reports that the statement itself partitions the table.
	Partitioned bool
	// partitionLine is the line of the partitioning clause; primaryLine that of the
	// primary key.
	partitionLine, primaryLine int
	// constraints are the places of constraint names: CONSTRAINT x.
	constraints [][2]int
}

// A DefinedColumn is one column of a Definition.
type DefinedColumn struct {
	Name string
	// Type is the type as written, up to its attributes.
	Type string
	// NotNull reports that the column is declared NOT NULL or is part of the primary
	// key.
	NotNull bool
	// Generated columns can't be written to. The server assigns values to Auto
	// columns if none is given.
	Generated, Auto bool
	// Text is the complete column definition, "ts DATETIME NOT NULL".
	Text string
	// Line is its line in the statement, from 1.
	Line int
	// saysNotNull reports that the column itself is declared NOT NULL.
	saysNotNull bool
}

// A DefinedIndex is a key within a CREATE TABLE statement, or a CREATE INDEX
// statement that follows it.
type DefinedIndex struct {
	// Name is the index's name, unquoted; "" if the server chooses one.
	Name string
	// Columns are its columns; expressions are as written.
	Columns []string
	Unique  bool
	// Text is the complete text, without a terminator.
	Text string
	// Line is its line, from 1.
	Line int
	// rest is the text after the table's name.
	rest string
}

// As returns a CREATE INDEX statement for an index and a table with other names,
// which must be quoted; with an empty index name the server chooses one.
// CONCURRENTLY and IF NOT EXISTS are omitted. It returns "" for a key written within
// CREATE TABLE.
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

// As returns the statement for a table with another name, which must be quoted. IF
// NOT EXISTS is omitted, so that the creation of an existing table is an error.
func (d *Definition) As(quoted string) string {
	return "CREATE TABLE " + quoted + d.Text[d.nameTo:]
}

// Copy is As for a table in addition to the defined one: names of constraints are
// omitted, because some servers permit each only once in a schema.
func (d *Definition) Copy(quoted string) string {
	out, from := "CREATE TABLE "+quoted, d.nameTo
	for _, c := range d.constraints {
		out += d.Text[from:c[0]]
		from = c[1]
	}
	return out + d.Text[from:]
}

// Column returns the named column, or nil. Case is ignored if only one column
// matches.
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

// ReadDefinition reads a CREATE TABLE statement of MySQL, MariaDB, PostgreSQL or
// SQLite, and the CREATE INDEX statements on the same table that follow it. It
// refuses statements from which a rolling table can't be created: temporary tables,
// CREATE TABLE ... AS SELECT, LIKE, INHERITS and others whose columns are defined
// elsewhere, and other statements. An error is an *Error whose line counts from the
// first line of the text.
//
// Where servers interpret the same text differently, the first of MySQL, PostgreSQL
// and SQLite that can parse it decides; ParseDeclaration uses the target.
func ReadDefinition(text string) (*Definition, error) {
	d, err := readDefinition(text, mysqlText, postgresText, sqliteText)
	if err != nil {
		return nil, definitionError(text, err)
	}
	return d, nil
}

// definitionError adds its place to an error.
func definitionError(text string, err *sqlError) *Error {
	line, column := place(text, err.at)
	return &Error{Line: line, Column: column, Text: err.text, Hint: err.hint}
}

// place returns line and column, from 1, of an offset.
func place(text string, at int) (line, column int) {
	before := text[:min(max(at, 0), len(text))]
	return 1 + strings.Count(before, "\n"), len(before) - strings.LastIndexByte(before, '\n')
}

// readDefinition reads the text in the first mode that can parse it. The error is
// that of the mode that got furthest.
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

// A definitionReader iterates over the tokens of a definition.
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

// next returns the current token and advances to the next one.
func (r *definitionReader) next() sqlToken {
	t := r.at(0)
	r.pos = min(r.pos+1, len(r.tokens))
	return t
}

// accept advances past the keywords if all of them follow.
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

// name returns a token's name as the server interprets it.
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

// qualified reads a name with or without a schema; "" if there is none.
func (r *definitionReader) qualified() (schema, name string) {
	for {
		t := r.at(0)
		if !t.isName() {
			return "", ""
		}
		r.pos++
		if name != "" {
			// Of catalog, schema and name, only the schema is kept.
			schema = name
		}
		name = r.name(t)
		if !r.accept(".") {
			return schema, name
		}
	}
}

// items reads the text between the parentheses, and returns the start and the end of
// each item.
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

// tail reads the text after the parentheses, and returns its end.
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

// statements reads the statements after CREATE TABLE.
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

// keys checks the columns of the keys, and marks columns of the primary key.
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
