package sqlite

import (
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/value"
)

// typeOf parses a declared type. SQLite itself takes only the kind from it, by the rules of
// affinity ("Datatypes In SQLite", section 3.1, at sqlite.org). typeOf also knows the usual names
// of time types. SQLite doesn't enforce the rest of the type, such as a length, so writers must:
// see Capabilities.Untyped.
func typeOf(native string) value.Type {
	n := value.ParseName(native)
	t := value.Type{Kind: affinity(native), Array: n.Array}
	switch t.Kind {
	case value.Int:
		t.Bits = intBits[n.First]
		t.Unsigned = t.Bits > 0 && n.Has("unsigned")
		if t.Bits == 8 && n.Number(0, 0) == 1 { // what BOOLEAN becomes elsewhere
			t.Logical = value.Bool
		}
	case value.Float:
		t.Bits = 64
	case value.Decimal:
		t.Precision, t.Scale = n.Number(0, 0), n.Number(1, 0)
	case value.Time:
		t.Digits = n.Number(0, 6)
	case value.Text:
		if len(n.Numbers) == 1 && slices.Contains([]string{"char", "varchar", "character", "nchar", "nvarchar", "varying", "native"}, n.First) {
			t.Length = n.Numbers[0]
		}
	case value.Other:
		t.Logical = logical[n.First]
		if t.Logical == value.Bit && !n.Has("varying") && !n.Array && len(n.Numbers) <= 1 {
			t.Bits = n.Number(0, 1)
		}
	}
	if t.Kind == value.Decimal || t.Kind == value.Other && native != "" { // the affinity is NUMERIC
		t.Exact = 15
	}
	return t
}

// intBits has the widths of integer types, as servers that enforce a width define them. INT and
// INTEGER have 64 bits, as in SQLite.
var intBits = map[string]int{"tinyint": 8, "smallint": 16, "int2": 16, "mediumint": 24, "int4": 32, "bigint": 64, "int8": 64, "int": 64, "integer": 64}

var logical = map[string]value.Logical{
	"date": value.Date, "time": value.Clock, "year": value.Year, "bool": value.Bool, "boolean": value.Bool,
	"json": value.JSON, "jsonb": value.JSON, "bit": value.Bit, "uuid": value.UUID,
}

// affinity returns the kind of a declared type.
func affinity(native string) value.Kind {
	s := strings.ToUpper(native)
	if s == "" || s == "ANY" {
		return value.Other
	}
	for _, a := range []struct {
		kind  value.Kind
		parts []string
	}{
		{value.Int, []string{"INT"}},
		{value.Text, []string{"CHAR", "CLOB", "TEXT"}},
		{value.Bytes, []string{"BLOB"}},
		{value.Float, []string{"REAL", "FLOA", "DOUB"}},
		{value.Time, []string{"DATETIME", "TIMESTAMP"}},
		{value.Decimal, []string{"DEC", "NUMERIC"}},
	} {
		if slices.ContainsFunc(a.parts, func(p string) bool { return strings.Contains(s, p) }) {
			return a.kind
		}
	}
	return value.Other
}
