package plan

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rowmill/rowmill/internal/engine"
)

var update = flag.Bool("update", false, "write the table of rules anew")

// codeName is a name of the code, which a rename may leave in a reason.
var codeName = regexp.MustCompile(`\b[a-z]+[A-Z]\w*`)

// allRules reads the rules of rules.go, in their order there.
func allRules(t *testing.T) (list []rule) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "rules.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if !ok {
			return true
		}
		var r rule
		for _, e := range literal.Elts {
			field := e.(*ast.KeyValueExpr)
			text, err := strconv.Unquote(field.Value.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if field.Key.(*ast.Ident).Name == "trait" {
				r.trait = text
			} else {
				r.reason = text
			}
		}
		list = append(list, r)
		return false
	})
	if len(list) < 50 {
		t.Fatalf("%d rules", len(list))
	}
	return list
}

// Each rule has a reason, without names of the code, and its trait is one of engine.Semantics.
func TestRules(t *testing.T) {
	reasons := map[string]bool{}
	for i, r := range allRules(t) {
		if r.reason == "" || reasons[r.reason] {
			t.Errorf("rule %d has no reason of its own: %q", i, r.reason)
		}
		reasons[r.reason] = true
		if n := codeName.FindString(r.reason); n != "" {
			t.Errorf("%q has %s", r.reason, n)
		}
		if _, ok := reflect.TypeFor[engine.Semantics]().FieldByName(r.trait); r.trait != "" && !ok {
			t.Errorf("%q: engine.Semantics has no field %s", r.reason, r.trait)
		}
	}
}

// because is what the table in docs/querying.md says of a rule and of those after it that have no
// entry here.
var because = map[rule]string{
	zeroByte:         "such a text can't be written in pieces with certainty",
	noTable:          "there is nothing to cut. `--by-range` cuts by the primary key",
	view:             "a view; a table of another kind, or without the privilege to read it",
	fleetingColumn:   "MariaDB: a virtual column may call `NOW()`, `CONNECTION_ID()`, `RAND()` and the like",
	onlySubquery:     "a piece would see a part of the rows only: `NOT IN` and `NOT EXISTS` of the table, the outer side of a join that adds rows, several uses of the table",
	readsAgain:       "the other table of a join is so large that reading it in each piece would take longer",
	unorderedLimit:   "SQL doesn't determine which rows it returns. A `LIMIT` around a derived table or CTE with groups is whole in any order",
	limitForm:        "such a limit leaves nothing to gain, or isn't known before the query runs",
	sortsAll:         "`ORDER BY` without `LIMIT`: the pieces would return all rows to be sorted again",
	selectOption:     "an option of MariaDB and MySQL may change how the answer is computed; `SQL_NO_CACHE` and `STRAIGHT_JOIN` don't",
	unknownFunction:  "any function that isn't known to be the same everywhere: `UUID`, `SLEEP`, `LAST_INSERT_ID`, user-defined functions",
	clockText:        "PostgreSQL, SQLite: such a text has another value in each session; so may a text of a column that is cast to a time",
	datesOutside:     "MariaDB: `NOT BETWEEN` of texts, of which the first has a time of day, on an index of dates",
	systemColumn:     "PostgreSQL: a partition has another row type and other system columns than its table",
	databaseOfColumn: "a piece has other names, or the server looks for the name in another place",
	caseOfOperands:   "MariaDB, MySQL: the server's file system decides whether they are the same",
	caseOfLetters:    "servers know the case of different letters",
	earlyCTE:         "SQLite, where pieces read the tables of periods",
	nameOfItem:       "PostgreSQL calls the element `v::text` by the name `v`, and sorts by the text; MariaDB and MySQL call the string `'v'` so. Beside `t.v`, a name that both tables of a join have is not certain: write `ORDER BY t.v`",
	outerAggregate:   "an aggregate belongs to the query of its columns: `(SELECT SUM(t.x))` makes one group of the rows of `t`",
	windowsOfRows:    "they need all rows in one place, unless a window has all partitioning columns: other windows, `MEDIAN`, `PERCENTILE_CONT`",
	lastDigits:       "binary fractions: see below",
	noParts:          "subqueries and stars over groups; lists (`GROUP_CONCAT`, `string_agg`, `array_agg`) other than of distinct values in their own order, and those of texts too on MariaDB and MySQL; JSON aggregates, and variances of binary fractions. Of texts that their collation takes for equal, members of an `ENUM` or `SET` among them, the server returns the one that it reads first, but texts ordered as bytes are split on MariaDB and MySQL; MySQL writes the extremes of a `FLOAT` with the digits of one or of a `DOUBLE`",
	constantKey:      "such as `ORDER BY NULL`; what stands behind `*` isn't counted",
	looseColumn:      "the server takes its value from any row of the group",
	keyAmbiguous:     "groups of pieces couldn't be told apart with certainty; also texts in character sets such as `cp932` or `big5`, of which several codes are one character in UTF-8",
	keyDigits:        "MariaDB, MySQL: what a function returns may have fewer digits than its type, and a quotient has more",
	digitsWithin:     "MariaDB, MySQL: `AVG(x) * 100` is computed from fewer digits if the server stores the groups first: for another order than that of `GROUP BY`, for windows, for `DISTINCT`. MySQL after 8.0.15: always; before, in bit operations and functions of integers",
	equalValues:      "SQL doesn't determine which of several equal values, or of rows that are equal in an order, comes first",
	windowOrder:      "MySQL: of a `TIME`, `ENUM` or `SET`",
	typeUncertain:    "MariaDB, MySQL: of some joins with groups, and of subtotals over a join",
	rollupNames:      "MariaDB, and with an equality in `WHERE` MySQL before 9.7, may keep the value of the row before in place of `NULL` in a subtotal",
	rollupKept:       "MariaDB and MySQL before 9.7 may keep the value of the row before in place of `NULL` in a subtotal: with `GROUP BY` an alias or a position they don't",
	constantInSets:   "PostgreSQL 15 doesn't sort by it, though it is `NULL` in some rows",
	offsetOfOne:      "MySQL returns the row of `SELECT COUNT(*)` nevertheless",
	lostRows:         "MariaDB, MySQL: such a query may lose rows. An alias or a position in `ORDER BY` is split",
	lostOffset:       "MariaDB forgets `OFFSET` if it finds that all of them are constant",
	swappedNames:     "MariaDB, MySQL: with groups of a computed column of a derived table",
	countsAlone:      "MySQL before 9.7 takes `COUNT(x)` for `COUNT(*)` where a query of all rows selects counts and nothing else",
	sortsByAlias:     "MySQL before 9.7 doesn't sort by it",
	computedKey:      "MariaDB, MySQL: what a function returns may depend on how its argument was computed. Comparisons, arithmetic and `CASE` over such keys are split, and functions of keys that are columns",
	numberAsTime:     "MySQL, over groups: before 9.7, and in all versions of a number that is taken for a time",
	namedCollation:   "MariaDB, MySQL, over groups: which collation decides depends on whether a text is a column",
	notStored:        "a temporary table of the merge by the server may not hold all that it returns",
	formAround:       "what surrounds a derived table or CTE with groups may have another result if its rows come in another order",
	setForm:          "a branch that is run by itself might return other rows, for example because of a `LIMIT` without an order; or its text can't be run by itself",
	unionCollations:  "SQLite",
	branchTypes:      "or signed and unsigned ones: MySQL may compute the result in another type than it describes",
	branchQuotients:  "MariaDB, MySQL: a quotient is stored with more digits in a column that has them",
	branchSizes:      "PostgreSQL may describe the size of another branch; a collation that is named counts for more than that of a column",
	branchRows:       "the server would have to sort or compare all of them again",
}

// The lines before and after the rules in docs/querying.md.
const (
	rulesBegin = "| rule | because |\n|---|---|\n"
	rulesEnd   = "\n\n"
)

// The table of rules in docs/querying.md is that of the code: go test ./internal/query/plan
// -update.
func TestRulesInDocs(t *testing.T) {
	const file = "../../../docs/querying.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), rulesBegin)
	_, after, ended := strings.Cut(rest, rulesEnd)
	if !found || !ended {
		t.Fatalf("%s has no table that begins with %q", file, rulesBegin)
	}
	want := before + rulesBegin + printedRules(t) + rulesEnd + after
	switch {
	case want == string(text):
	case *update:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s: the table of rules isn't that of rules.go; run with -update", file)
	}
}

var verbs = regexp.MustCompile(`%[sd]`)

// printedRules are the lines of the table.
func printedRules(t *testing.T) string {
	var lines, reasons []string
	why := ""
	end := func() {
		if why != "" {
			lines = append(lines, "| "+strings.Join(reasons, "; ")+" | "+why+" |")
		}
		reasons = nil
	}
	for _, r := range allRules(t) {
		if b := because[r]; b != "" {
			end()
			why = b
		}
		next := 0
		reasons = append(reasons, "`"+verbs.ReplaceAllStringFunc(r.reason, func(verb string) string {
			if verb == "%d" {
				return "N"
			}
			next++
			return string(rune('w' + next))
		})+"`")
	}
	end()
	return strings.Join(lines, "\n")
}
