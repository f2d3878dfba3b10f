package postgres

import "github.com/rowmill/rowmill/internal/value"

// types maps the name of a type in pg_type to its value.Type. A domain is looked up by the name of
// its base type. Values of types that are not listed are value.Other.
var types = map[string]value.Type{
	"int2":        {Kind: value.Int, Bits: 16},
	"int4":        {Kind: value.Int, Bits: 32},
	"int8":        {Kind: value.Int, Bits: 64},
	"float4":      {Kind: value.Float, Bits: 32, NaN: true},
	"float8":      {Kind: value.Float, Bits: 64, NaN: true},
	"numeric":     {Kind: value.Decimal, NaN: true},
	"timestamp":   {Kind: value.Time},
	"timestamptz": {Kind: value.Time},
	"date":        {Kind: value.Time, Logical: value.Date},
	"time":        {Logical: value.Clock},
	"timetz":      {Logical: value.Clock},
	"interval":    {Logical: value.Interval},
	"text":        {Kind: value.Text},
	"varchar":     {Kind: value.Text},
	"bpchar":      {Kind: value.Text},
	"name":        {Kind: value.Text},
	"bytea":       {Kind: value.Bytes},
	"bit":         {Logical: value.Bit},
	"bool":        {Logical: value.Bool},
	"json":        {Logical: value.JSON},
	"jsonb":       {Logical: value.JSON},
	"uuid":        {Logical: value.UUID},
}

// typeOf returns the type that pg_type calls name and format_type writes as native, such as
// "numeric(10,2)". For a domain, native is the domain's name, without numbers.
func typeOf(name, native string) value.Type {
	n := value.ParseName(native)
	t := types[name]
	t.Array = n.Array
	switch {
	case t.Logical == value.Bit:
		t.Bits = n.Number(0, 0)
	case t.Kind == value.Decimal:
		t.Precision, t.Scale = n.Number(0, 0), n.Number(1, 0)
	case t.Kind == value.Time || t.Logical == value.Clock || t.Logical == value.Interval:
		t.Digits = n.Number(0, 6)
	case t.Kind == value.Text:
		t.Length = n.Number(0, 0)
	}
	return t
}
