package rolling

import (
	"fmt"
	"strings"
)

// Lengths of names, in bytes.
const (
	// maxColumnName leaves room for the suffixes that roll-ups append to a column's
	// name for its parts.
	maxColumnName = 48
	// maxPeriodTable leaves room for a period's name in the 63 bytes of PostgreSQL's
	// names, which consist of the table's name, _ and p20261120_183015_250000.
	maxPeriodTable = 63 - 25
	// maxName leaves room in the 64 characters of the other servers for _late, _live
	// and similar suffixes.
	maxName = 50
)

// badName returns why a name is not valid, or "".
func badName(name string, limit int) string {
	switch {
	case len(name) > limit:
		return fmt.Sprintf("it has %d bytes, and at most %d leave room for what is appended to it", len(name), limit)
	case strings.HasPrefix(strings.ToLower(name), "rowmill_"):
		return "rowmill_ begins the names of rowmill's own tables and columns"
	}
	for i, c := range []byte(name) {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return fmt.Sprintf("it has %q", c)
		}
	}
	return ""
}

// names checks the names of the table and its roll-ups, and of the objects created
// with them.
func (r *declarationReader) names() {
	taken := map[string]string{}
	take := func(at *fileValue, name, what string) {
		key := strings.ToLower(name)
		if other, ok := taken[key]; ok {
			if what == other {
				r.fail(at, "another name", "there are two of the name %s", name)
			} else {
				r.fail(at, "another name", "%s is also %s", name, other)
			}
			return
		}
		taken[key] = what
	}
	limit := maxName
	if r.family == postgresFamily {
		limit = maxPeriodTable
	}
	if r.name != nil && r.d.Name != "" {
		long := len(r.d.Name) > limit
		if why := badName(r.d.Name, limit); long || strings.Contains(why, "rowmill_") {
			r.fail(r.name, "another name", "a table that rolls can't be called %q: %s", r.d.Name, why)
		}
		take(r.name, r.d.Name, "the table")
		take(r.name, r.d.Name+"_late", "the table of "+r.d.Name+"'s late rows")
	}
	for i := range r.d.Rollups {
		l := &r.d.Rollups[i]
		if l.Name == "" {
			continue
		}
		at := &fileValue{line: l.Line, column: 1}
		if why := badName(l.Name, limit); why != "" {
			r.fail(at, "another name: letters, digits and _", "a level can't be called %q: %s", l.Name, why)
		}
		take(at, l.Name, "a level")
		take(at, l.Name+"_live", "the view of a level")
	}
}
