package adopt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/value"
	"github.com/rowmill/rowmill/rolling"
)

// AddedColumns returns the columns that a declaration has and its table lacks, in the order of the
// declaration. The caller sets Table and Have of each. Three changes would rewrite the whole table,
// so they are errors that say what to do: the declaration lacks a column of the table, has another
// type for a column, or has a new column for which existing rows have no value.
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

func hasDefault(text string) bool {
	words := strings.FieldsFunc(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, "DEFAULT") })
}

// families lists the names of column types. The names in one string mean the same type. SQLite
// keeps the name that was declared, so types with only one name are listed too.
var families = []string{
	"tinyint bool boolean", "smallint int2 smallserial", "mediumint", "int integer int4 serial serial4", "bigint int8 bigserial serial8",
	"double float8", "real float4", "decimal numeric dec fixed", "char character bpchar", "varchar",
	"timestamp", "timestamptz", "time", "timetz", "datetime", "date",
	"text", "mediumtext", "longtext", "blob", "longblob", "bytea", "binary", "varbinary", "uuid", "jsonb",
}

// otherType reports whether two types certainly differ. It reports false for unknown names, for
// names that some servers replace by another type's name, such as REAL, and if only one of the
// types has a length.
func otherType(a, b string) bool {
	x, y := value.ParseName(a), value.ParseName(b)
	family, other := familyOf(x), familyOf(y)
	switch {
	case family == "" || other == "":
		return false
	case family != other:
		return family != "real" && other != "real" // MySQL replaces REAL by DOUBLE
	}
	size, otherSize := sizeOf(family, x), sizeOf(family, y)
	return len(size) > 0 && len(otherSize) > 0 && !slices.Equal(size, otherSize) || x.Has("unsigned") != y.Has("unsigned")
}

func familyOf(n value.Name) string {
	first := strings.TrimSuffix(n.First, "[]")
	switch {
	case first == "timestamp" && n.Has("with"), first == "time" && n.Has("with"):
		first += "tz"
	case (first == "char" || first == "character") && n.Has("varying"):
		first = "varchar"
	}
	for _, f := range families {
		if names := strings.Fields(f); slices.Contains(names, first) {
			return names[0]
		}
	}
	return ""
}

// sizeOf returns the numbers in a type's name that limit its values, e.g. 10 and 2, not a width.
func sizeOf(family string, n value.Name) []int {
	switch family {
	case "tinyint", "smallint", "mediumint", "int", "bigint", "double", "real": // a display width
		return nil
	case "decimal":
		if len(n.Numbers) == 1 {
			return []int{n.Numbers[0], 0}
		}
	case "timestamp", "timestamptz", "time", "timetz", "datetime":
		if n.Number(0, 0) == 0 {
			return nil
		}
	}
	return n.Numbers
}
