package sqlite

import (
	"context"

	"github.com/rowmill/rowmill/internal/engine"
)

// Syntax implements engine.Reader.
func (db *DB) Syntax(engine.State) engine.Syntax {
	return engine.Syntax{Backquoted: true, Bracketed: true, ConcatPipes: true, GroupOrder: true, LimitComma: true}
}

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

// timeFunctions are pure if they have a time among their arguments, that is at least this number of arguments: else they
// return the current time.
var timeFunctions = map[string]int{"date": 1, "time": 1, "datetime": 1, "julianday": 1, "unixepoch": 1, "strftime": 2, "timediff": 2}

// functions are the lists together.
var functions = engine.Functions{Pure: pureFunctions, Aggregate: aggregateFunctions, Window: windowFunctions}

// Function implements engine.Reader. min and max of several arguments aren't aggregates.
func (db *DB) Function(name string, args int) engine.FunctionKind {
	least, isTime := timeFunctions[name]
	if (name == "min" || name == "max") && args > 1 || isTime && args >= least {
		return engine.PureFunction
	}
	return functions.Kind(name)
}

// Bytes implements engine.Reader. The values of a column that has a type, which has no collation, are equal only if their texts are.
func (db *DB) Bytes(c engine.ResultColumn, expr string) string {
	if c.Class == engine.ClassInt || c.Class == engine.ClassBytes {
		return ""
	}
	return "quote(" + expr + ")"
}

// UserFunction implements engine.Reader: users have none.
func (db *DB) UserFunction(context.Context, *engine.Session, []string) (string, error) {
	return "", nil
}

// ClockValue implements engine.Reader: no function is a ClockFunction.
func (db *DB) ClockValue(string) string { return "" }

// Ambiguous implements engine.Reader.
func (db *DB) Ambiguous(engine.ResultColumn, string, bool) string { return "" }

// Aggregate implements engine.Reader. A column may hold values of any type: the sum is exact only if all of
// them are integers, which the type of the sum tells.
func (db *DB) Aggregate(c engine.AggregateCall) (engine.Recipe, bool) {
	if c.Ordered || c.Separator != "" || len(c.Args) > 1 {
		return engine.Recipe{}, false
	}
	const other = "max(typeof($1) NOT IN ('integer', 'null'))"
	switch c.Name {
	case "count":
		if c.Distinct {
			return engine.Recipe{}, false
		}
		r := engine.Recipe{Parts: []string{"count($1)"}, Merge: []string{"coalesce(sum($1), 0)"}, Value: "$1", Steps: []engine.MergeStep{engine.MergeSum}, Zero: true, Integers: true}
		if c.Star {
			r.Parts[0] = "count(*)"
		}
		return r, true
	case "sum", "min", "max":
		if len(c.Inputs) == 1 && c.Inputs[0].Class == engine.ClassInt && !c.Distinct {
			return integerRecipe(c.Name), true
		}
	}
	switch c.Name {
	case "sum":
		return engine.Recipe{Parts: []string{"sum($1)", other}, Merge: []string{"sum($1)", "max($1)"}, Value: "$1", Tie: "$2 = 1"}, !c.Distinct
	case "avg":
		return engine.Recipe{
			Parts: []string{"sum($1)", "count($1)", other}, Merge: []string{"sum($1)", "coalesce(sum($1), 0)", "max($1)"},
			Value: "(CAST($1 AS REAL) / $2)", Tie: "$3 = 1",
		}, !c.Distinct
	case "min", "max":
		// 1 is equal to 1.0, 0.0 to -0.0, and a collation may make texts equal.
		call := c.Name + "($1)"
		r := engine.Recipe{
			Parts: []string{call, "max(typeof($1) = 'integer')", "max(typeof($1) = 'real')", "max(typeof($1) = 'text')"},
			Merge: []string{call, "max($1)", "max($1)", "max($1)"},
			Value: "$1", Tie: "$3 = 1 AND ($2 = 1 OR $1 = 0)",
		}
		if c.Result.Class != engine.ClassBytes && c.Result.Class != engine.ClassTime {
			r.Tie += " OR $4 = 1"
		}
		return r, true
	}
	return engine.Recipe{}, false
}

// mostPart is the largest sum of magnitudes in a piece. The sum of as many pieces as a view has terms is far from the largest integer.
const mostPart = "1e15"

// integerRecipe is that of the sum, the least or the greatest of integers. SQLite refuses a sum beyond its integers, which
// may depend on the order of the additions: then the part isn't a number, and the whole query tells.
func integerRecipe(name string) engine.Recipe {
	r := engine.Recipe{Parts: []string{name + "($1)"}, Merge: []string{name + "($1)"}, Value: "$1", Integers: true}
	switch name {
	case "sum":
		r.Parts[0] = "CASE WHEN total(abs(CAST($1 AS REAL))) < " + mostPart + " THEN sum($1) ELSE 'large' END"
		r.Steps = []engine.MergeStep{engine.MergeSum}
	case "min":
		r.Steps = []engine.MergeStep{engine.MergeMin}
	case "max":
		r.Steps = []engine.MergeStep{engine.MergeMax}
	}
	return r
}
