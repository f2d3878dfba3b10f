package engine

import (
	"strconv"
	"strings"
)

// NativeType splits a type from a catalog or a declaration into the first word of
// its name, in lower case, and the integers in its parentheses: "DECIMAL(10,2)
// UNSIGNED" is decimal, 10 and 2, "timestamp(3) with time zone" is timestamp and 3.
// An enum has its members there, so it has none. An array of PostgreSQL keeps its
// brackets: "json[]".
func NativeType(native string) (name string, digits []int) {
	name, rest, found := strings.Cut(strings.ToLower(native), "(")
	if f := strings.Fields(name); len(f) > 0 {
		name = f[0]
	}
	if !found {
		return name, nil
	}
	inside, _, _ := strings.Cut(rest, ")")
	for _, d := range strings.Split(inside, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(d))
		if err != nil {
			return name, nil
		}
		digits = append(digits, n)
	}
	return name, digits
}
