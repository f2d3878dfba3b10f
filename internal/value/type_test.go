package value

import (
	"math"
	"slices"
	"testing"
)

func TestParseName(t *testing.T) {
	for native, want := range map[string]struct {
		first   string
		numbers []int
		members []string
		array   bool
		has     string
	}{
		"DECIMAL(10,2) UNSIGNED":         {first: "decimal", numbers: []int{10, 2}, has: "unsigned"},
		"bigint(20) unsigned":            {first: "bigint", numbers: []int{20}, has: "unsigned"},
		"double precision":               {first: "double", has: "precision"},
		"character varying( 64 )":        {first: "character", numbers: []int{64}, has: "varying"},
		"timestamp(3) without time zone": {first: "timestamp", numbers: []int{3}, has: "without"},
		"character varying(3)[]":         {first: "character", numbers: []int{3}, array: true},
		"json[]":                         {first: "json[]", array: true},
		"numeric(10, x)":                 {first: "numeric"},
		"enum('a','b')":                  {first: "enum", members: []string{"a", "b"}},
		"set('it''s',' b, c ','')":       {first: "set", members: []string{"it's", " b, c ", ""}},
		"enum('''')":                     {first: "enum", members: []string{"'"}},
		"enum('ä()','2') charset x":      {first: "enum", members: []string{"ä()", "2"}, has: "charset"},
		`enum('a\\b')`:                   {first: "enum", members: []string{`a\\b`, `a\b`}},
		"enum(":                          {first: "enum"},
		"enum('a":                        {first: "enum"},
		"":                               {},
	} {
		n := ParseName(native)
		if n.First != want.first || !slices.Equal(n.Numbers, want.numbers) || !slices.Equal(n.Members, want.members) || n.Array != want.array ||
			want.has != "" && !n.Has(want.has) || n.Has("zerofill") {
			t.Errorf("%q: %+v, want %+v", native, n, want)
		}
	}
}

func TestIntRange(t *testing.T) {
	for name, c := range map[string]struct {
		typ      Type
		from, to int64
	}{
		"unknown":        {Type{}, math.MinInt64, math.MaxInt64},
		"small":          {Type{Bits: 16}, math.MinInt16, math.MaxInt16},
		"medium":         {Type{Bits: 24}, -1 << 23, 1<<23 - 1},
		"tiny, unsigned": {Type{Bits: 8, Unsigned: true}, 0, math.MaxUint8},
		"big, unsigned":  {Type{Bits: 64, Unsigned: true}, 0, math.MaxInt64},
	} {
		if from, to := c.typ.IntRange(); from != c.from || to != c.to {
			t.Errorf("%s: %d to %d, want %d to %d", name, from, to, c.from, c.to)
		}
	}
}
