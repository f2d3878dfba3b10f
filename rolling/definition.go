package rolling

import (
	"fmt"
	"slices"
	"strings"
)

// A Definition is a CREATE TABLE statement, parsed as far as a rolling table needs it: names, keys,
// and their places. Types and options are not interpreted; that is left to the server.
//
// Tables and indexes are created from its text, not put together from its parts:
//
//   - on MySQL, MariaDB and PostgreSQL the rolling table, from Split, with PARTITION BY added;
//   - on SQLite the table of each period, from As;
//   - the scratch table in which bytes per row are measured, from Copy, which omits the names of
//     constraints, because a schema may have each name only once;
//   - the indexes of CREATE INDEX statements, from DefinedIndex.As: on SQLite on each period's table.
type Definition struct {
	// Text is the CREATE TABLE statement without a terminator. Its columns and keys end at itemsTo.
	Text    string
	itemsTo int
	// Name is the table's name, unquoted; it ends at nameTo in Text. The name, with its schema, begins
	// at nameLine and nameColumn of the text that was read.
	Name                         string
	nameTo, nameLine, nameColumn int
	// Schema is the text before the dot of a qualified name; As omits it.
	Schema  string
	Columns []DefinedColumn
	// PrimaryKey names the key's columns, even if the key is declared at a column.
	PrimaryKey []string
	// Unique holds the columns of each UNIQUE constraint.
	Unique [][]string
	// Keys are the statement's keys, but not the primary key; ALTER TABLE ... ADD accepts their Text.
	Keys []DefinedIndex
	// Indexes are the CREATE INDEX statements that follow the CREATE TABLE statement.
	Indexes []DefinedIndex
	// ForeignKey is the line, from 1, of the first foreign key; 0 if there is none.
	ForeignKey int
	// Partitioned reports that the statement itself partitions the table.
	Partitioned bool
	// partitionLine and primaryLine are the lines of the partitioning clause and of the primary key.
	partitionLine, primaryLine int
	// constraints are the places of CONSTRAINT x.
	constraints [][2]int
	// items are the columns, keys and constraints in their order.
	items []definedItem
}

// A definedItem is a column, a key or a constraint, with its place in the text.
type definedItem struct {
	place
	kind itemKind
	name string // of a column or a key
	// columns are a key's columns; end is where their list ends, or for a column where its name ends.
	columns []string
	end     int
	// What a column has besides its type: parts of its text, which can be cut out.
	primary, unique, references place
	nulls                       []place
}

// A place is a part of a text; the zero place is none.
type place struct{ from, to int }

func (p place) is() bool { return p.to > 0 }

type itemKind int

const (
	otherItem itemKind = iota
	columnItem
	primaryItem
	uniqueItem
	keyItem
	specialItem // FULLTEXT, SPATIAL
	foreignItem
)

// A DefinedColumn is one column of a Definition.
type DefinedColumn struct {
	Name string
	// Type is the type as written, up to its attributes.
	Type string
	// NotNull reports that the column is declared NOT NULL or is part of the primary key.
	NotNull bool
	// Generated columns can't be written to. Auto columns get a value from the server if none is
	// given.
	Generated, Auto bool
	// Text is the whole definition, "ts DATETIME NOT NULL".
	Text string
	// Line is its line in the statement, from 1.
	Line        int
	saysNotNull bool
}

// A DefinedIndex is a key within a CREATE TABLE statement, or a CREATE INDEX statement after it.
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
	rest string // what follows the table's name in Text; "" for a key within CREATE TABLE
	end  int    // where its columns end in Text; 0 for a key within CREATE TABLE
}

// As returns a CREATE INDEX statement with other names for the index and the table. The names must
// be quoted; if the index name is empty, the server chooses one. CONCURRENTLY and IF NOT EXISTS are
// omitted. It returns "" for a key written within CREATE TABLE.
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

// Split is As in two parts, before and after the place of PARTITION BY in PostgreSQL.
func (d *Definition) Split(quoted string) (table, options string) {
	return "CREATE TABLE " + quoted + d.Text[d.nameTo:d.itemsTo], d.Text[d.itemsTo:]
}

// Copy is As for a further table, without names of constraints, which a schema may have only once.
func (d *Definition) Copy(quoted string) string {
	out, from := "CREATE TABLE "+quoted, d.nameTo
	for _, c := range d.constraints {
		out += d.Text[from:c[0]]
		from = c[1]
	}
	return out + d.Text[from:]
}

// Column returns the named column, or nil. Case is ignored if only one column matches.
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

// ReadDefinition reads a CREATE TABLE statement of MySQL, MariaDB, PostgreSQL or SQLite, and the
// CREATE INDEX statements on the same table that follow it. It refuses other statements, and tables
// that can't roll: temporary tables, and tables whose columns are defined elsewhere, e.g. by CREATE
// TABLE ... AS SELECT, LIKE or INHERITS. An error is an *Error whose line counts from the first
// line of the text.
//
// Servers may interpret the same text differently. Then the first of MySQL, PostgreSQL and SQLite
// that can parse the text decides. ParseDeclaration uses the target's dialect instead.
func ReadDefinition(text string) (*Definition, error) { return ReadDefinitionFor("", text) }

// ReadDefinitionFor is ReadDefinition for the server of a target.
func ReadDefinitionFor(target, text string) (*Definition, error) {
	try := dialects
	if d := dialectOf(target); d != nil {
		try = []*dialect{d}
	}
	d, err := readDefinition(text, try...)
	if err != nil {
		return nil, definitionError(text, err)
	}
	return d, nil
}

func definitionError(text string, err *sqlError) *Error {
	line, column := lineColumn(text, err.at)
	return &Error{Line: line, Column: column, Text: err.text, Hint: err.hint}
}

// lineColumn returns line and column, from 1, of an offset.
func lineColumn(text string, at int) (line, column int) {
	before := text[:min(max(at, 0), len(text))]
	return 1 + strings.Count(before, "\n"), len(before) - strings.LastIndexByte(before, '\n')
}

// readDefinition reads the text in the first dialect that can parse it. If none can, it returns the
// error of the dialect that got furthest in the text.
func readDefinition(text string, dialects ...*dialect) (*Definition, *sqlError) {
	var worst *sqlError
	for _, d := range dialects {
		tokens, err := sqlTokens(text, d)
		if err == nil {
			r := definitionReader{dialect: d, text: text, tokens: tokens, d: &Definition{}}
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

type definitionReader struct {
	*dialect
	text   string
	tokens []sqlToken
	pos    int
	d      *Definition
	start  int // the offset at which the statement begins
}

func (r *definitionReader) at(n int) sqlToken {
	if i := r.pos + n; i >= 0 && i < len(r.tokens) {
		return r.tokens[i]
	}
	return sqlToken{kind: sqlEnd, from: len(r.text), to: len(r.text)}
}

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
	line, _ := lineColumn(r.text, t.from)
	return line
}

// name returns a token's name as the server interprets it.
func (r *definitionReader) name(t sqlToken) string {
	if r.exactNames && t.kind == sqlWord {
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
	r.d.itemsTo = r.at(-1).to - r.start
	end, err := r.tail()
	if err != nil {
		return err
	}
	r.d.Text = r.text[r.start:end]
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

func (r *definitionReader) head() *sqlError {
	t := r.next()
	if !t.is("create") {
		return r.fail(t, "CREATE TABLE name (...)", "want CREATE TABLE, not %s", t)
	}
	r.start = t.from
	if t = r.next(); !t.is("table") {
		return r.fail(t, "CREATE TABLE name (...)", "want CREATE TABLE, not CREATE %s: a table that rolls is neither temporary nor unlogged, and is never replaced", t)
	}
	r.accept("if", "not", "exists")
	t = r.at(0)
	if r.d.Schema, r.d.Name = r.qualified(); r.d.Name == "" {
		return r.fail(t, "", "want the table's name, not %s", t)
	}
	r.d.nameLine, r.d.nameColumn = lineColumn(r.text, t.from)
	r.d.nameTo = r.at(-1).to - r.start
	if t = r.at(0); t.is("(") && !r.at(1).is("like") {
		return nil
	}
	return r.fail(t, "write the columns and keys out", "want the columns and keys in parentheses after the table's name, not %s", t)
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

// items reads the text between the parentheses, and returns where each item begins and ends.
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

// rest reads up to the end of a statement, and calls see with each token outside of parentheses.
func (r *definitionReader) rest(see func(t sqlToken) *sqlError) (end int, err *sqlError) {
	for depth := 0; ; r.pos++ {
		t := r.at(0)
		switch {
		case t.kind == sqlEnd && depth > 0:
			return 0, r.fail(t, "", "a ( is never closed")
		case t.kind == sqlEnd, t.is(";") && depth == 0:
			return r.at(-1).to, nil
		case t.isAny("(", "["):
			depth++
		case t.isAny(")", "]"):
			if depth--; depth < 0 {
				return 0, r.fail(t, "", "this %s was never opened", t.text)
			}
		case depth > 0:
		case t.is("create"):
			return 0, r.fail(t, "a ; before it", "a statement begins within another")
		default:
			if err := see(t); err != nil {
				return 0, err
			}
		}
	}
}

func (r *definitionReader) tail() (end int, err *sqlError) {
	return r.rest(func(t sqlToken) *sqlError {
		switch {
		case t.isAny("as", "select", "inherits"):
			return r.fail(t, "write the columns and keys out; rows are loaded afterwards", "%s takes columns or rows from elsewhere", strings.ToUpper(t.text))
		case t.is("system") && r.at(1).is("versioning"):
			return r.fail(t, "leave it out", "a table WITH SYSTEM VERSIONING can't roll")
		case t.is("partition") && r.at(1).is("by"):
			r.d.Partitioned, r.d.partitionLine = true, r.line(t)
		}
		return nil
	})
}

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

func (r *definitionReader) lineStart(line int) int {
	at := 0
	for ; line > 1; line-- {
		at += strings.IndexByte(r.text[at:], '\n') + 1
	}
	return at + len(r.text[at:]) - len(strings.TrimLeft(r.text[at:], " \t\r"))
}

func (r *definitionReader) item(from, to int) *sqlError {
	all := r.tokens
	r.tokens, r.pos = all[:to], from
	defer func() { r.tokens = all }()
	first := r.at(0)
	r.d.items = append(r.d.items, definedItem{place: r.place(first, r.tokens[to-1])})
	item := &r.d.items[len(r.d.items)-1]
	if first.is("constraint") {
		if err := r.constraintName(); err != nil {
			return err
		}
	}
	t := r.at(0)
	switch {
	case t.kind == sqlWord && t.is("primary") && r.at(1).is("key"):
		r.pos += 2
		item.kind = primaryItem
		return r.primaryKey(t)
	case t.is("unique"), r.tableKeys && t.isAny("fulltext", "spatial"):
		r.pos++
		if !r.accept("key") {
			r.accept("index")
		}
		if item.kind = specialItem; t.is("unique") {
			item.kind = uniqueItem
		}
		return r.key(first, t.is("unique"))
	case r.tableKeys && t.isAny("key", "index"):
		r.pos++
		item.kind = keyItem
		return r.key(first, false)
	case t.isAny("key", "index", "fulltext", "spatial") && (r.at(1).isAny("(", "key", "index") || r.at(1).isName() && r.at(2).is("(") && r.d.Column(r.at(3).text) != nil):
		return r.fail(t, "CREATE INDEX ON table (...); after the statement", "%s has no %s within CREATE TABLE", r.servers, strings.ToUpper(t.text))
	case t.is("foreign") && r.at(1).is("key"):
		item.kind = foreignItem
		r.foreignKey(t)
		return nil
	case t.is("check") && r.at(1).is("("):
		return nil
	case t.is("exclude") && (r.at(1).is("using") || r.at(1).is("(")):
		return r.fail(t, "leave it out", "an EXCLUDE constraint holds within one period only")
	case t.is("like") && !r.tableKeys || t.is("like") && r.at(1).isName():
		return r.fail(t, "write the columns and keys out", "LIKE takes the columns from elsewhere")
	case t.is("period") && r.at(1).is("for"):
		return r.fail(t, "leave it out", "a table with PERIOD FOR can't roll")
	case first.is("constraint"):
		return r.fail(t, "PRIMARY KEY (...), UNIQUE (...), CHECK (...)", "want a constraint, not %s", t)
	}
	item.kind = columnItem
	return r.column(item)
}

func (r *definitionReader) place(first, last sqlToken) place {
	return place{first.from - r.start, last.to - r.start}
}

// constraintName advances past CONSTRAINT and its name, and records their place.
func (r *definitionReader) constraintName() *sqlError {
	t := r.next()
	end := t.to
	begins := func(t sqlToken) bool {
		return t.kind == sqlWord && t.isAny("primary", "unique", "check", "foreign", "not", "null", "references", "default", "generated", "exclude", "collate")
	}
	if r.at(0).isName() && !begins(r.at(0)) {
		end = r.next().to
	}
	if !begins(r.at(0)) {
		return r.fail(r.at(0), "PRIMARY KEY, UNIQUE, CHECK", "want a constraint, not %s", r.at(0))
	}
	// Within an executable comment, the end of the token may be the end of the comment.
	if !strings.Contains(r.text[t.from:end], "*/") {
		r.d.constraints = append(r.d.constraints, [2]int{t.from - r.start, end - r.start})
	}
	return nil
}

func (r *definitionReader) foreignKey(t sqlToken) {
	if r.d.ForeignKey == 0 {
		r.d.ForeignKey = r.line(t)
	}
}

func (r *definitionReader) setPrimaryKey(t sqlToken, columns []string) *sqlError {
	if r.d.PrimaryKey != nil {
		return r.fail(t, "one PRIMARY KEY (a, b)", "there are two primary keys")
	}
	r.d.PrimaryKey, r.d.primaryLine = columns, r.line(t)
	return nil
}

func (r *definitionReader) primaryKey(t sqlToken) *sqlError {
	for !r.at(0).is("(") && r.at(0).kind != sqlEnd {
		r.pos++ // a name, USING BTREE
	}
	columns, err := r.columns()
	if err != nil {
		return err
	}
	r.keyed("", columns)
	return r.setPrimaryKey(t, columns)
}

// keyed records the columns of the key that was just read.
func (r *definitionReader) keyed(name string, columns []string) {
	item := &r.d.items[len(r.d.items)-1]
	item.name, item.columns, item.end = name, columns, r.at(-1).from-r.start
}

func (r *definitionReader) key(first sqlToken, unique bool) *sqlError {
	k := DefinedIndex{Unique: unique, Line: r.line(first)}
	r.accept("if", "not", "exists")
	if r.at(0).isName() && !r.at(0).isAny("using", "nulls") {
		k.Name = r.name(r.next())
	}
	for r.at(0).isAny("using", "btree", "hash", "rtree", "nulls", "not", "distinct") {
		r.pos++
	}
	var err *sqlError
	if k.Columns, err = r.columns(); err != nil {
		return err
	}
	r.keyed(k.Name, k.Columns)
	k.Text = r.text[first.from:r.tokens[len(r.tokens)-1].to]
	r.d.Keys = append(r.d.Keys, k)
	if unique {
		r.d.Unique = append(r.d.Unique, k.Columns)
	}
	return nil
}

func (r *definitionReader) columns() ([]string, *sqlError) {
	if t := r.next(); !t.is("(") {
		return nil, r.fail(t, "(a, b)", "want the columns of the key in parentheses, not %s", t)
	}
	var out []string
	from, depth := r.pos, 0
	for {
		t := r.next()
		switch {
		case t.kind == sqlEnd:
			return nil, r.fail(t, "(a, b)", "the columns of the key don't end")
		case t.isAny("(", "["):
			depth++
		case t.isAny(")", "]") && depth > 0:
			depth--
		case t.isAny(",", ")") && depth == 0:
			name := r.keyColumn(r.tokens[from : r.pos-1])
			if name == "" {
				return nil, r.fail(t, "(a, b)", "want a column before %s", t)
			}
			out = append(out, name)
			if from = r.pos; t.is(")") {
				return out, nil
			}
		}
	}
}

// keyColumn returns the column of one part of a key, or its expression as written.
func (r *definitionReader) keyColumn(part []sqlToken) string {
	if len(part) == 0 {
		return ""
	}
	prefix := len(part) > 2 && part[1].is("(") && part[2].kind == sqlNumber // name(10)
	switch {
	case part[0].isName() && (len(part) == 1 || prefix || part[1].kind != sqlPunct):
		return r.name(part[0])
	case part[0].isAny("(") || part[0].isName():
		return r.text[part[0].from:part[len(part)-1].to]
	}
	return ""
}

// attributes are the words that end a column's type.
var attributes = map[string]bool{
	"not": true, "null": true, "default": true, "primary": true, "unique": true, "key": true, "references": true,
	"check": true, "constraint": true, "generated": true, "as": true, "auto_increment": true, "autoincrement": true,
	"comment": true, "collate": true, "charset": true, "on": true, "column_format": true, "storage": true,
	"visible": true, "invisible": true, "virtual": true, "stored": true, "persistent": true, "compressed": true,
	"compression": true, "srid": true, "ref_system_id": true, "engine_attribute": true, "deferrable": true,
	"secondary_engine_attribute": true, "initially": true, "first": true, "after": true, "options": true,
}

func (r *definitionReader) column(item *definedItem) *sqlError {
	t := r.at(0)
	if !t.isName() {
		return r.fail(t, "", "want a column or a key, not %s", t)
	}
	r.pos++
	c := DefinedColumn{Name: r.name(t), Line: r.line(t), Text: r.text[t.from:r.tokens[len(r.tokens)-1].to]}
	from, depth := r.pos, 0
typed:
	for ; ; r.pos++ {
		a := r.at(0)
		switch {
		case a.kind == sqlEnd:
			break typed
		case a.isAny("(", "["):
			depth++
		case a.isAny(")", "]"):
			depth--
		case depth > 0 || a.kind != sqlWord:
		case a.isAny("with", "without"):
			if !r.at(1).is("time") {
				break typed
			}
		case a.is("character") && r.pos > from && r.at(1).is("set"), attributes[strings.ToLower(a.text)]:
			break typed
		}
	}
	if r.pos > from {
		c.Type = r.text[r.tokens[from].from:r.tokens[r.pos-1].to]
	}
	if c.Type == "" && !r.untyped {
		return r.fail(t, "a type, such as BIGINT NOT NULL", "column %s has no type", c.Name)
	}
	switch strings.ToLower(c.Type) {
	case "serial", "bigserial", "smallserial", "serial4", "serial8", "serial2":
		c.Auto, c.NotNull, c.saysNotNull = true, true, true
	}
	item.name, item.end = c.Name, t.to-r.start
	if err := r.attributes(&c, item, r.text[t.from:t.to]); err != nil {
		return err
	}
	c.NotNull = c.NotNull || c.saysNotNull
	r.d.Columns = append(r.d.Columns, c)
	return nil
}

// attributes reads the text after a column's type; written is the column's name as written.
func (r *definitionReader) attributes(c *DefinedColumn, item *definedItem, written string) *sqlError {
	named := sqlToken{} // the word CONSTRAINT before the attribute
	for depth := 0; ; {
		t := r.next()
		first := t
		if named.to > 0 {
			first, named = named, sqlToken{}
		}
		switch {
		case t.kind == sqlEnd:
			return nil
		case t.isAny("(", "["):
			depth++
		case t.isAny(")", "]"):
			depth--
		case depth > 0 || t.kind != sqlWord:
		case t.is("not"):
			if r.accept("null") {
				c.saysNotNull = true
			}
		case t.is("null"):
			item.nulls = append(item.nulls, r.place(t, t))
		case t.isAny("default", "comment", "collate"):
			if r.at(0).kind != sqlPunct {
				value := r.next() // which may look like an attribute
				if t.is("default") && value.is("null") {
					item.nulls = append(item.nulls, r.place(t, value))
				}
			}
		case t.is("constraint"):
			r.pos--
			if err := r.constraintName(); err != nil {
				return err
			}
			named = t
		case t.is("primary"):
			r.accept("key")
			if r.at(0).isAny("asc", "desc") {
				r.pos++
			}
			r.onConflict()
			c.Auto = r.accept("autoincrement") || c.Auto
			item.primary = r.place(first, r.at(-1))
			if err := r.setPrimaryKey(t, []string{c.Name}); err != nil {
				return err
			}
		case t.is("unique"):
			r.accept("key")
			r.onConflict()
			item.unique = r.place(first, r.at(-1))
			r.d.Unique = append(r.d.Unique, []string{c.Name})
			r.d.Keys = append(r.d.Keys, DefinedIndex{Columns: []string{c.Name}, Unique: true, Text: "UNIQUE (" + written + ")", Line: r.line(t)})
		case t.is("key") && r.tableKeys:
			item.primary = r.place(t, t)
			if err := r.setPrimaryKey(t, []string{c.Name}); err != nil {
				return err
			}
		case t.is("references"):
			r.foreignKey(t)
			r.referred()
			item.references = r.place(first, r.at(-1))
		case t.isAny("auto_increment", "autoincrement", "identity"):
			c.Auto = true
		case t.is("as") && r.at(0).is("("):
			c.Generated = true
		case t.is("system") && r.at(0).is("versioning"):
			return r.fail(t, "leave it out", "a table with SYSTEM VERSIONING can't roll")
		}
	}
}

// onConflict advances past SQLite's ON CONFLICT clause of a key.
func (r *definitionReader) onConflict() {
	if r.accept("on", "conflict") {
		r.next()
	}
}

// referred advances past what follows REFERENCES at a column.
func (r *definitionReader) referred() {
	r.qualified()
	if r.at(0).is("(") {
		for !r.at(0).is(")") && r.at(0).kind != sqlEnd {
			r.pos++
		}
		r.next()
	}
	for {
		switch t := r.at(0); {
		case t.is("on") && r.at(1).isAny("delete", "update"):
			r.pos += 2
			if !r.accept("no", "action") && !r.accept("set") || r.at(-1).is("set") {
				r.next()
			}
		case t.is("match"), t.is("initially"):
			r.pos += 2
		case t.is("not") && r.at(1).is("deferrable"):
			r.pos += 2
		case t.is("deferrable"):
			r.pos++
		default:
			return
		}
	}
}

func (r *definitionReader) index() *sqlError {
	first := r.at(0)
	const hint = "only CREATE INDEX on the same table may follow CREATE TABLE; run other statements yourself"
	r.pos++
	unique := first.is("create") && r.accept("unique")
	if !first.is("create") || !r.accept("index") {
		return r.fail(first, hint, "several statements: %s %s", strings.ToUpper(first.text), strings.ToUpper(r.at(0).text))
	}
	ix := DefinedIndex{Unique: unique, Line: r.line(first)}
	r.accept("concurrently")
	r.accept("if", "not", "exists")
	if t := r.at(0); !(t.kind == sqlWord && t.is("on") && !r.at(1).is("on")) {
		if _, ix.Name = r.qualified(); ix.Name == "" {
			return r.fail(t, "CREATE INDEX name ON table (column)", "want the name of the index, not %s", t)
		}
	}
	if t := r.next(); !t.is("on") {
		return r.fail(t, "CREATE INDEX name ON table (column)", "want ON, not %s", t)
	}
	if t := r.at(0); t.is("only") && r.at(1).isName() {
		return r.fail(t, "leave ONLY out", "an index ON ONLY the table isn't on its periods")
	}
	t := r.at(0)
	if _, name := r.qualified(); name == "" || !r.sameName(name, r.d.Name) {
		return r.fail(t, "ON "+r.d.Name, "the index is on another table, %s", t)
	}
	rest := r.at(0)
	if r.accept("using") {
		r.pos++
	}
	var err *sqlError
	if ix.Columns, err = r.columns(); err != nil {
		return err
	}
	closed := r.at(-1).from
	end, err := r.rest(func(sqlToken) *sqlError { return nil })
	if err != nil {
		return err
	}
	ix.rest, ix.Text, ix.end = r.text[rest.from:end], r.text[first.from:end], closed-first.from
	if ix.Name != "" && slices.ContainsFunc(r.d.Indexes, func(o DefinedIndex) bool { return r.sameName(o.Name, ix.Name) }) {
		return r.fail(first, "another name", "there are two indexes %s", ix.Name)
	}
	r.d.Indexes = append(r.d.Indexes, ix)
	return nil
}

func (d *dialect) sameName(a, b string) bool {
	if d.exactNames {
		return a == b
	}
	return strings.EqualFold(a, b)
}
