package rolling

import (
	"slices"
	"strings"
)

// item reads one column or constraint, the tokens in [from, to).
func (r *definitionReader) item(from, to int) *sqlError {
	all := r.tokens
	r.tokens, r.pos = all[:to], from
	defer func() { r.tokens = all }()
	first := r.at(0)
	if first.is("constraint") {
		if err := r.constraintName(); err != nil {
			return err
		}
	}
	t := r.at(0)
	inMySQL := r.mode == mysqlText
	switch {
	case t.kind == sqlWord && t.is("primary") && r.at(1).is("key"):
		r.pos += 2
		return r.primaryKey(t)
	case t.is("unique"):
		r.pos++
		if !r.accept("key") {
			r.accept("index")
		}
		return r.key(first, true)
	case inMySQL && t.isAny("key", "index"):
		r.pos++
		return r.key(first, false)
	case inMySQL && t.isAny("fulltext", "spatial"):
		r.pos++
		if !r.accept("key") {
			r.accept("index")
		}
		return r.key(first, false)
	case t.is("foreign") && r.at(1).is("key"):
		r.foreignKey(t)
		return nil
	case t.is("check") && r.at(1).is("("):
		return nil
	case t.is("exclude") && (r.at(1).is("using") || r.at(1).is("(")):
		return r.fail(t, "leave it out", "an EXCLUDE constraint holds within one period only")
	case t.is("like") && !inMySQL || t.is("like") && r.at(1).isName():
		return r.fail(t, "write the columns and keys out", "LIKE takes the columns from elsewhere")
	case t.is("period") && r.at(1).is("for"):
		return r.fail(t, "leave it out", "a table with PERIOD FOR can't roll")
	case first.is("constraint"):
		return r.fail(t, "PRIMARY KEY (...), UNIQUE (...), CHECK (...)", "want a constraint, not %s", t)
	}
	return r.column()
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
	// Within an executable comment, the end of the token may be the end of the
	// comment.
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
	return r.setPrimaryKey(t, columns)
}

// key reads a key, starting at its name.
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
	k.Text = r.text[first.from:r.tokens[len(r.tokens)-1].to]
	r.d.Keys = append(r.d.Keys, k)
	if unique {
		r.d.Unique = append(r.d.Unique, k.Columns)
	}
	return nil
}

// columns reads the list of columns of a key, starting at its parenthesis.
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
	case part[0].isName() && (len(part) == 1 || prefix || !part[1].isAny("(", ".", ":", "|", "+", "-", "*", "/")):
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

// column reads a column.
func (r *definitionReader) column() *sqlError {
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
	if c.Type == "" && r.mode != sqliteText {
		return r.fail(t, "a type, such as BIGINT NOT NULL", "column %s has no type", c.Name)
	}
	switch strings.ToLower(c.Type) {
	case "serial", "bigserial", "smallserial", "serial4", "serial8", "serial2":
		c.Auto, c.NotNull, c.saysNotNull = true, true, true
	}
	if err := r.attributes(&c, r.text[t.from:t.to]); err != nil {
		return err
	}
	c.NotNull = c.NotNull || c.saysNotNull
	r.d.Columns = append(r.d.Columns, c)
	return nil
}

// attributes reads the text after a column's type; written is the column's name as
// written.
func (r *definitionReader) attributes(c *DefinedColumn, written string) *sqlError {
	for depth := 0; ; {
		t := r.next()
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
		case t.isAny("default", "comment", "collate"):
			if r.at(0).kind != sqlPunct {
				r.pos++ // the value, which may look like an attribute
			}
		case t.is("constraint"):
			r.pos--
			if err := r.constraintName(); err != nil {
				return err
			}
		case t.is("primary"):
			r.accept("key")
			if err := r.setPrimaryKey(t, []string{c.Name}); err != nil {
				return err
			}
		case t.is("unique"):
			r.accept("key")
			r.d.Unique = append(r.d.Unique, []string{c.Name})
			r.d.Keys = append(r.d.Keys, DefinedIndex{Columns: []string{c.Name}, Unique: true, Text: "UNIQUE (" + written + ")", Line: r.line(t)})
		case t.is("key") && r.mode == mysqlText:
			if err := r.setPrimaryKey(t, []string{c.Name}); err != nil {
				return err
			}
		case t.is("references"):
			r.foreignKey(t)
		case t.isAny("auto_increment", "autoincrement", "identity"):
			c.Auto = true
		case t.is("as") && r.at(0).is("("):
			c.Generated = true
		case t.is("system") && r.at(0).is("versioning"):
			return r.fail(t, "leave it out", "a table with SYSTEM VERSIONING can't roll")
		}
	}
}

// index reads one CREATE INDEX statement.
func (r *definitionReader) index() *sqlError {
	first := r.at(0)
	const hint = "only CREATE INDEX on the same table may follow CREATE TABLE; whatever else there is to do is to be done by its owner"
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
	if _, name := r.qualified(); name == "" || !sameName(name, r.d.Name, r.mode) {
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
	depth := 0
	for ; r.at(0).kind != sqlEnd && !(r.at(0).is(";") && depth == 0); r.pos++ {
		switch t := r.at(0); {
		case t.isAny("(", "["):
			depth++
		case t.isAny(")", "]"):
			if depth--; depth < 0 {
				return r.fail(t, "", "this %s was never opened", t.text)
			}
		case depth == 0 && t.is("create"):
			return r.fail(t, "a ; before it", "a statement begins within another")
		}
	}
	if depth > 0 {
		return r.fail(r.at(0), "", "a ( is never closed")
	}
	ix.rest, ix.Text = r.text[rest.from:r.at(-1).to], r.text[first.from:r.at(-1).to]
	if ix.Name != "" && slices.ContainsFunc(r.d.Indexes, func(o DefinedIndex) bool { return sameName(o.Name, ix.Name, r.mode) }) {
		return r.fail(first, "another name", "there are two indexes %s", ix.Name)
	}
	r.d.Indexes = append(r.d.Indexes, ix)
	return nil
}

// sameName compares names in the same way as the server.
func sameName(a, b string, mode sqlMode) bool {
	if mode == postgresText {
		return a == b
	}
	return strings.EqualFold(a, b)
}
