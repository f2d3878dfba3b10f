package sqlite

import (
	"context"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// recipes implements the part of engine.Reader that knows functions: how an aggregate is split into
// pieces and merged.
type recipes struct{}

func (recipes) Syntax(engine.State) sqltext.Syntax {
	return sqltext.Syntax{Backquoted: true, Bracketed: true, ConcatPipes: true, LimitComma: true}
}

// hiddenColumns are names of a row's number.
var hiddenColumns = engine.WordSet("rowid oid _rowid_")

func (recipes) Semantics(engine.State) engine.Semantics {
	return engine.Semantics{
		NameSemantics:  engine.NameSemantics{FoldsColumns: true, AliasesInWhere: true, EarlyCTEs: true, HiddenColumns: hiddenColumns},
		RowSemantics:   engine.RowSemantics{LooseColumns: true, ExactText: exactText},
		ValueSemantics: engine.ValueSemantics{IntegerDivision: true, Affinity: true},
		TimeSemantics:  engine.TimeSemantics{ClockTexts: true, UnixEpoch: true},
	}
}

// exactText reports texts of the default collation.
func exactText(c engine.SchemaColumn) bool { return c.Collation == "" }

// pureFunctions always return the same for the same arguments.
var pureFunctions = engine.WordSet(`
	abs char coalesce concat concat_ws format glob hex if ifnull iif instr length like likelihood likely lower ltrim
	nullif octet_length printf quote replace round rtrim sign soundex substr substring trim typeof unhex
	unicode unistr unistr_quote unlikely upper zeroblob cast
	acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow power
	radians sin sinh sqrt tan tanh trunc
	json json_array json_array_length json_error_position json_extract json_insert json_object json_patch json_pretty
	json_quote json_remove json_replace json_set json_type json_valid`)

var aggregateFunctions = engine.WordSet(`
	count sum avg min max total group_concat string_agg json_group_array json_group_object median percentile
	percentile_cont percentile_disc`)

var windowFunctions = engine.WordSet(`
	row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value`)

// timeFunctions has the number of arguments from which on each function is pure, because one
// argument is then a time. With fewer arguments, the function returns the current time.
var timeFunctions = map[string]int{"date": 1, "time": 1, "datetime": 1, "julianday": 1, "unixepoch": 1, "strftime": 2, "timediff": 2}

// functions classifies the names in the lists above.
var functions = engine.Functions{Pure: pureFunctions, Aggregate: aggregateFunctions, Window: windowFunctions}

// Function implements engine.Reader. min and max of several arguments aren't aggregates.
func (recipes) Function(name string, args int) engine.FunctionKind {
	least, isTime := timeFunctions[name]
	if (name == "min" || name == "max") && args > 1 || isTime && args >= least {
		return engine.PureFunction
	}
	return functions.Kind(name)
}

// Bytes implements engine.Reader: 1 and 1.0 are equal, but their texts differ. Equal values have
// the same text in a column of integers, or of texts compared as bytes.
func (recipes) Bytes(c engine.ResultColumn, expr string) string {
	if c.Class == engine.ClassInt || c.Class == engine.ClassBytes {
		return ""
	}
	return "quote(" + expr + ")"
}

// UserFunction implements engine.Reader: users have none.
func (recipes) UserFunction(context.Context, *engine.Session, string, []string) (string, error) {
	return "", nil
}

func (recipes) Collations(context.Context, *engine.Session, string) ([]int, error) {
	return nil, nil
}

// ClockValue implements engine.Reader: no function is a ClockFunction.
func (recipes) ClockValue(string) string { return "" }

func (recipes) Ambiguous(engine.ResultColumn, string, engine.KeyUse) string { return "" }

// Aggregate implements engine.Reader. A column may hold values of any type, and its sum is exact
// only if all of them are integers.
func (recipes) Aggregate(c engine.AggregateCall) (engine.Recipe, bool) {
	if c.Ordered || c.Separator != "" || len(c.Args) > 1 {
		return engine.Recipe{}, false
	}
	// The + makes the value of a temporary table's column an expression: see Semantics.Affinity.
	const value = "(+$1)"
	compared := len(c.Inputs) == 1 && c.Inputs[0].Class != engine.ClassOther
	count := engine.Recipe{Parts: []string{"count($1)"}, Merge: []string{"coalesce(sum($1), 0)"}, Value: value, Steps: []engine.MergeStep{engine.MergeSum}, Zero: true, Integers: true}
	switch {
	case c.Name == "count" && c.Star:
		count.Parts[0] = "count(*)"
		return count, true
	case c.Name == "count" && c.Distinct:
		return engine.Recipe{Group: c.Args, Merge: []string{"count(DISTINCT $1)"}, Value: value}, compared
	case c.Name == "count":
		return count, true
	case c.Name != "min" && c.Name != "max" && (c.Distinct || c.Fractions || len(c.Inputs) == 1 && (c.Inputs[0].Class == engine.ClassFloat || c.Inputs[0].Class == engine.ClassBytes)):
		return engine.Recipe{}, false
	case c.Name == "sum":
		return engine.Recipe{Parts: []string{integerSum}, Merge: []string{"sum($1)"}, Value: value, Steps: []engine.MergeStep{engine.MergeSum}, Integers: true}, true
	case c.Name == "avg":
		// SQLite divides the exact sum of the integers by their number, both as binary fractions.
		return engine.Recipe{
			Parts: []string{integerSum, "count($1)"}, Merge: []string{"sum($1)", "coalesce(sum($1), 0)"}, Value: "(CAST($1 AS REAL) / $2)", Integers: true,
		}, true
	case c.Name == "total":
		return engine.Recipe{Parts: []string{integerSum}, Merge: []string{"sum($1)"}, Value: "coalesce(CAST($1 AS REAL), 0.0)", Integers: true}, true
	case (c.Name == "min" || c.Name == "max") && compared:
		call := c.Name + "($1)"
		r := engine.Recipe{Parts: []string{call}, Merge: []string{call}, Value: value}
		switch c.Inputs[0].Class {
		case engine.ClassInt:
			r.Integers, r.Steps = true, []engine.MergeStep{engine.MergeMin}
			if c.Name == "max" {
				r.Steps[0] = engine.MergeMax
			}
		case engine.ClassText: // 1 is equal to 1.0, and 0.0 to -0.0
			r.Parts = append(r.Parts, "max(typeof($1) = 'integer')", "max(typeof($1) = 'real' AND $1 = CAST($1 AS INTEGER))")
			r.Merge = append(r.Merge, "max($1)", "max($1)")
			r.Tie = "typeof($1) IN ('integer', 'real') AND $3 = 1 AND ($2 = 1 AND $1 = CAST($1 AS INTEGER) OR $1 = 0)"
		}
		return r, true
	}
	return engine.Recipe{}, false
}

// integerSum is the sum of the integers in a piece. It is the text 'other' if the piece has values
// of other types, or if the absolute values add up to 1e16 or more. A query with such a piece runs
// whole, because the order of the additions decides whether SQLite refuses a large sum. The sums of
// 500 pieces, one for each SELECT that a view can have, add up to less than 5e18, within SQLite's
// integers.
const integerSum = "CASE WHEN total(abs(CAST($1 AS REAL))) < 1e16 AND total(typeof($1) NOT IN ('integer', 'null')) = 0 THEN sum($1) ELSE 'other' END"
