package adopt

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/rolling"
)

// AddedColumns returns the columns that a declaration has and its table lacks, in
// the order of the declaration. The caller sets Table and Have. It returns an
// error that says what to do if the declaration lacks a column or has it with
// another type, or if existing rows could have no value for a new column: none of
// these changes is possible on a large table without rewriting it.
func AddedColumns(schema *engine.Schema, d *rolling.Definition) ([]engine.AddColumn, error) {
	var out []engine.AddColumn
	var errs []error
	for i := range d.Columns {
		c := &d.Columns[i]
		have := schema.Find(c.Name)
		switch {
		case have == nil && c.Auto:
			errs = append(errs, engine.Hinted(fmt.Errorf("column %s: an auto-increment column can't be added to a table with rows", c.Name),
				"a column without AUTO_INCREMENT, IDENTITY or SERIAL"))
		case have == nil && c.NotNull && !hasDefault(c.Text) && !c.Generated:
			errs = append(errs, engine.Hinted(fmt.Errorf("column %s is NOT NULL, and existing rows have no value for it", c.Name),
				"%s DEFAULT ..., or without NOT NULL", c.Text))
		case have == nil:
			out = append(out, engine.AddColumn{Name: c.Name, Definition: c.Text})
		case otherType(c.Type, have.Native):
			errs = append(errs, engine.Hinted(fmt.Errorf("column %s is %s in the table and %s in the declaration: rowmill doesn't change types",
				c.Name, have.Native, c.Type),
				"a new column of the new type, filled by your program; or leave the type as it is"))
		}
	}
	for _, c := range schema.Columns {
		if d.Column(c.Name) == nil {
			errs = append(errs, engine.Hinted(fmt.Errorf("the table has column %s, which the declaration lacks: rowmill doesn't drop columns", c.Name),
				"add it to the declaration, or ALTER TABLE ... DROP COLUMN in a quiet hour"))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

var defaultWord = regexp.MustCompile(`(?i)\bDEFAULT\b`)

func hasDefault(text string) bool { return defaultWord.MatchString(text) }

// sameColumn returns an error that describes how two columns differ.
func sameColumn(a, b engine.SchemaColumn) error {
	switch {
	case !strings.EqualFold(a.Name, b.Name):
		return fmt.Errorf("columns %s and %s are in the same place", a.Name, b.Name)
	case !strings.EqualFold(a.Native, b.Native):
		return fmt.Errorf("column %s is %s and %s", a.Name, a.Native, b.Native)
	case a.Null != b.Null:
		return fmt.Errorf("column %s may be NULL in one of them only", a.Name)
	case a.Generated != b.Generated:
		return fmt.Errorf("column %s is generated in one of them only", a.Name)
	}
	return nil
}

// sameNames maps type names to one of their synonyms. SQLite keeps the declared
// name, so names without synonyms are listed too.
var sameNames = map[string]string{
	"integer": "int", "int4": "int", "mediumint": "mediumint", "int8": "bigint", "int2": "smallint",
	"serial": "int", "bigserial": "bigint", "serial4": "int", "serial8": "bigint", "smallserial": "smallint",
	"double precision": "double", "float8": "double", "real": "real", "float4": "real",
	"numeric": "decimal", "dec": "decimal", "fixed": "decimal",
	"character varying": "varchar", "char varying": "varchar", "character": "char", "bpchar": "char",
	"timestamp without time zone": "timestamp", "timestamptz": "timestamp with time zone",
	"time without time zone": "time", "timetz": "time with time zone",
	"boolean": "tinyint", "bool": "tinyint", "decimal": "decimal", "int": "int", "bigint": "bigint", "smallint": "smallint",
	"tinyint": "tinyint", "double": "double", "varchar": "varchar", "char": "char", "text": "text",
	"datetime": "datetime", "date": "date", "timestamp": "timestamp", "timestamp with time zone": "timestamp with time zone",
	"time": "time", "uuid": "uuid", "bytea": "bytea", "blob": "blob", "longtext": "longtext", "mediumtext": "mediumtext",
	"longblob": "longblob", "varbinary": "varbinary", "binary": "binary", "jsonb": "jsonb",
}

var typeParts = regexp.MustCompile(`(?i)^\s*([a-z][a-z0-9_]*(?:\s+(?:precision|varying))?)\s*(\([^)]*\))?\s*(with(?:out)?\s+time\s+zone)?\s*(.*)$`)

// otherType reports whether two types certainly differ. It reports false for
// unknown names, for names that servers replace, and if only one of the types has
// a length.
func otherType(a, b string) bool {
	name1, size1, rest1, ok1 := canonical(a)
	name2, size2, rest2, ok2 := canonical(b)
	if !ok1 || !ok2 {
		return false
	}
	if name1 != name2 {
		// REAL proves no difference: MySQL replaces it by DOUBLE.
		return !slices.Contains([]string{name1, name2}, "real")
	}
	if size1 != "" && size2 != "" && size1 != size2 {
		return true
	}
	return strings.Contains(rest1, "unsigned") != strings.Contains(rest2, "unsigned")
}

// canonical splits a type into its parts: "INT(11) UNSIGNED" is int, without a
// size, and unsigned.
func canonical(s string) (name, size, rest string, ok bool) {
	m := typeParts.FindStringSubmatch(strings.ToLower(s))
	if m == nil {
		return "", "", "", false
	}
	name = strings.Join(strings.Fields(m[1]), " ")
	if m[3] != "" {
		name += " " + strings.Join(strings.Fields(m[3]), " ")
	} else if i := strings.Index(m[4], "time zone"); i >= 0 {
		name += " " + strings.Join(strings.Fields(m[4]), " ")
	}
	if name, ok = sameNames[name]; !ok {
		return "", "", "", false
	}
	size = strings.ReplaceAll(m[2], " ", "")
	switch name {
	case "int", "bigint", "smallint", "tinyint", "mediumint", "double", "real": // the size is a display width
		size = ""
	case "decimal":
		if size != "" && !strings.Contains(size, ",") {
			size = strings.TrimSuffix(size, ")") + ",0)"
		}
	case "timestamp", "datetime", "time", "timestamp with time zone", "time with time zone":
		if size == "(0)" {
			size = ""
		}
	}
	return name, size, m[4], true
}
