package postgres

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowmill/rowmill/internal/value"
)

func TestTypeOf(t *testing.T) {
	for _, c := range []struct {
		name, native string
		want         value.Type
	}{
		{"int2", "smallint", value.Type{Kind: value.Int, Bits: 16}},
		{"float8", "double precision", value.Type{Kind: value.Float, Bits: 64, NaN: true}},
		{"numeric", "numeric", value.Type{Kind: value.Decimal, NaN: true}},
		{"numeric", "numeric(10,2)", value.Type{Kind: value.Decimal, NaN: true, Precision: 10, Scale: 2}},
		{"timestamp", "timestamp(3) without time zone", value.Type{Kind: value.Time, Digits: 3}},
		{"timestamptz", "timestamp with time zone", value.Type{Kind: value.Time, Digits: 6}},
		{"date", "day_of_birth", value.Type{Kind: value.Time, Logical: value.Date, Digits: 6}}, // a domain
		{"timetz", "time(2) with time zone", value.Type{Logical: value.Clock, Digits: 2}},
		{"interval", "interval day to second(1)", value.Type{Logical: value.Interval, Digits: 1}},
		{"varchar", "character varying(3)", value.Type{Kind: value.Text, Length: 3}},
		{"bpchar", "character(2)", value.Type{Kind: value.Text, Length: 2}},
		{"_varchar", "character varying(3)[]", value.Type{Array: true}},
		{"bit", "bit(8)", value.Type{Logical: value.Bit, Bits: 8}},
		{"bit", "flags", value.Type{Logical: value.Bit}}, // a domain
		{"varbit", "bit varying(8)", value.Type{}},
		{"_bit", "bit(3)[]", value.Type{Array: true}},
		{"jsonb", "jsonb", value.Type{Logical: value.JSON}},
		{"_json", "json[]", value.Type{Array: true}},
	} {
		if d := cmp.Diff(c.want, typeOf(c.name, c.native)); d != "" {
			t.Errorf("%s, %s: %s", c.name, c.native, d)
		}
	}
}
