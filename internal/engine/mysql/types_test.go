package mysql

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowmill/rowmill/internal/value"
)

func TestTypeOf(t *testing.T) {
	for native, want := range map[string]value.Type{
		"tinyint(1)":             {Kind: value.Int, Bits: 8, Logical: value.Bool},
		"tinyint(4)":             {Kind: value.Int, Bits: 8},
		"int(10) unsigned":       {Kind: value.Int, Bits: 32, Unsigned: true},
		"bigint(20)":             {Kind: value.Int, Bits: 64},
		"bigint unsigned":        {Kind: value.Decimal, Bits: 64, Unsigned: true, Precision: 20},
		"year(4)":                {Kind: value.Int, Logical: value.Year},
		"decimal(10,2)":          {Kind: value.Decimal, Precision: 10, Scale: 2},
		"decimal(65,0) unsigned": {Kind: value.Decimal, Precision: 65, Unsigned: true},
		"float":                  {Kind: value.Float, Bits: 32},
		"double(7,2)":            {Kind: value.Float, Bits: 64, Precision: 7, Scale: 2},
		"datetime(6)":            {Kind: value.Time, Digits: 6},
		"timestamp":              {Kind: value.Time},
		"date":                   {Kind: value.Time, Logical: value.Date},
		"time(3)":                {Logical: value.Clock, Digits: 3},
		"varchar(64)":            {Kind: value.Text, Length: 64},
		"longtext":               {Kind: value.Text, Logical: value.TextOrJSON},
		"json":                   {Kind: value.Text, Logical: value.JSON},
		"enum('a','it''s')":      {Kind: value.Text, Logical: value.Enum, Members: []string{"a", "it's"}},
		"set('a')":               {Kind: value.Text, Logical: value.Set, Members: []string{"a"}},
		"bit(8)":                 {Kind: value.Bytes, Logical: value.Bit, Bits: 8},
		"varbinary(16)":          {Kind: value.Bytes, Length: 16},
		"point":                  {Kind: value.Bytes, Logical: value.Spatial},
		"uuid":                   {Logical: value.UUID},
		"inet6":                  {},
	} {
		if d := cmp.Diff(want, typeOf(native)); d != "" {
			t.Errorf("%s: %s", native, d)
		}
	}
}
