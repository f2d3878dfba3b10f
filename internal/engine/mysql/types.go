package mysql

import (
	"strings"

	"github.com/rowmill/rowmill/internal/value"
)

// types maps the first word of a type's name in the catalog to the type. All other types, such as
// INET6 and VECTOR, are value.Other.
var types = map[string]value.Type{
	"tinyint":   {Kind: value.Int, Bits: 8},
	"smallint":  {Kind: value.Int, Bits: 16},
	"mediumint": {Kind: value.Int, Bits: 24},
	"int":       {Kind: value.Int, Bits: 32},
	"bigint":    {Kind: value.Int, Bits: 64},
	"year":      {Kind: value.Int, Logical: value.Year},
	"float":     {Kind: value.Float, Bits: 32},
	"double":    {Kind: value.Float, Bits: 64},
	"decimal":   {Kind: value.Decimal},
	"datetime":  {Kind: value.Time},
	"timestamp": {Kind: value.Time},
	"date":      {Kind: value.Time, Logical: value.Date},
	"time":      {Logical: value.Clock}, // up to 838 hours
	"uuid":      {Logical: value.UUID},
	"char":      {Kind: value.Text}, "varchar": {Kind: value.Text},
	"tinytext": {Kind: value.Text}, "text": {Kind: value.Text}, "mediumtext": {Kind: value.Text},
	"longtext": {Kind: value.Text, Logical: value.TextOrJSON}, // JSON in MariaDB
	"enum":     {Kind: value.Text, Logical: value.Enum}, "set": {Kind: value.Text, Logical: value.Set},
	"json":   {Kind: value.Text, Logical: value.JSON},
	"bit":    {Kind: value.Bytes, Logical: value.Bit},
	"binary": {Kind: value.Bytes}, "varbinary": {Kind: value.Bytes},
	"tinyblob": {Kind: value.Bytes}, "blob": {Kind: value.Bytes}, "mediumblob": {Kind: value.Bytes}, "longblob": {Kind: value.Bytes},
	"geometry": spatial, "point": spatial, "linestring": spatial, "polygon": spatial, "multipoint": spatial,
	"multilinestring": spatial, "multipolygon": spatial, "geometrycollection": spatial, "geomcollection": spatial,
}

var spatial = value.Type{Kind: value.Bytes, Logical: value.Spatial}

// typeOf returns the type for the catalog's text, such as "decimal(10,2) unsigned".
func typeOf(native string) value.Type {
	n := value.ParseName(native)
	t := types[n.First]
	t.Unsigned = n.Has("unsigned")
	switch {
	case t.Logical == value.Bit:
		t.Bits = n.Number(0, 1)
	case t.Logical == value.Enum || t.Logical == value.Set:
		t.Members = n.Members
	case t.Bits == 8 && n.Number(0, 0) == 1: // what BOOLEAN becomes
		t.Logical = value.Bool
	case t.Kind == value.Int && t.Bits == 64 && t.Unsigned:
		t.Kind, t.Precision = value.Decimal, 20
	case t.Kind == value.Decimal:
		t.Precision, t.Scale = n.Number(0, 10), n.Number(1, 0)
	case t.Kind == value.Float && len(n.Numbers) == 2: // FLOAT(7,2)
		t.Precision, t.Scale = n.Number(0, 0), n.Number(1, 0)
	case t.Kind == value.Time || t.Logical == value.Clock:
		t.Digits = n.Number(0, 0)
	case t.Kind == value.Text || t.Kind == value.Bytes:
		t.Length = n.Number(0, 0)
	}
	return t
}

// typeName returns the first word of a type in upper case: DATETIME for "datetime(6)".
func typeName(native string) string { return strings.ToUpper(value.ParseName(native).First) }
