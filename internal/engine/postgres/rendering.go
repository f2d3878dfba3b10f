package postgres

import (
	"slices"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
)

var _ engine.RenderWords = words{}

// renderings lists the settings that affect the text of values: words of the
// affected types, and values other than those of rowmill's sessions. For
// extra_float_digits, PostgreSQL 11 adds the given number of digits; later versions
// print the shortest exact text, or, with 0, only the digits that are certain.
var renderings = []struct {
	types, name string
	values      []string
}{
	{"date timestamp", "DateStyle", []string{"'ISO, DMY'", "'SQL, MDY'", "'SQL, DMY'", "'German, DMY'", "'Postgres, MDY'", "'Postgres, DMY'"}},
	{"real double float", "extra_float_digits", []string{"0", "3"}},
	{"interval", "IntervalStyle", []string{"'sql_standard'", "'postgres_verbose'", "'iso_8601'"}},
	{"bytea", "bytea_output", []string{"'escape'"}},
	{"timestamptz with", "TimeZone", []string{"DEFAULT"}},
	{"money", "lc_monetary", []string{"DEFAULT", "'C'"}},
}

// Renderings implements engine.RenderWords.
func (words) Renderings(cols []engine.SchemaColumn) [][]string {
	var all []string // the account's default settings
	sets := [][]string{nil}
	for _, r := range renderings {
		if !slices.ContainsFunc(cols, func(c engine.SchemaColumn) bool {
			return slices.ContainsFunc(strings.Fields(r.types), func(word string) bool {
				return slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(c.Native), func(x rune) bool { return strings.ContainsRune(" ()[],", x) }),
					func(is string) bool { return is == word })
			})
		}) {
			continue
		}
		all = append(all, "SET LOCAL "+r.name+" = DEFAULT")
		for _, set := range sets {
			for _, v := range r.values {
				sets = append(sets, append(slices.Clone(set), "SET LOCAL "+r.name+" = "+v))
			}
		}
	}
	if all == nil {
		return nil
	}
	sets = sets[1:]
	slices.SortStableFunc(sets, func(a, b []string) int { return len(a) - len(b) })
	return append([][]string{all}, sets...)
}
