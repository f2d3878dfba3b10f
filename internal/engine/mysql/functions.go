package mysql

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/mysqlwire"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// recipes implements the methods of engine.Reader about functions, for example how an aggregate is
// computed in pieces and merged.
type recipes struct{ *server }

// Syntax implements engine.Reader. Some of the rules depend on sql_mode.
func (db recipes) Syntax(st engine.State) sqltext.Syntax {
	mode := map[string]bool{}
	for m := range strings.SplitSeq(strings.ToUpper(st.Get("sql_mode")), ",") {
		mode[strings.TrimSpace(m)] = true
	}
	// For a combined mode, such as ANSI, the server also returns the modes that it consists of.
	return sqltext.Syntax{
		Backslash:    !mode["NO_BACKSLASH_ESCAPES"],
		DoubleQuoted: !mode["ANSI_QUOTES"],
		ConcatPipes:  mode["PIPES_AS_CONCAT"],
		HighNot:      mode["HIGH_NOT_PRECEDENCE"],
		Backquoted:   true, Introducer: true, HashComments: true, DashSpace: true, ExecutableComments: true,
		WithRollup: true, LimitComma: true, UserVars: true,
	}
}

func (db recipes) Semantics(st engine.State) engine.Semantics {
	digits, err := strconv.Atoi(st.Get("div_precision_increment"))
	if err != nil {
		digits = 4 // the default, if the session wasn't asked
	}
	mariadb, early := db.dialect.mariadb, db.before(9, 7)
	mode := strings.ToUpper(st.Get("sql_mode"))
	return engine.Semantics{
		NameSemantics:  engine.NameSemantics{FoldsColumns: true, FoldsOperands: true, ImplicitNames: true, HiddenColumns: map[string]bool{"_rowid": true}, SwapsNames: true},
		RowSemantics:   engine.RowSemantics{LooseColumns: true, LosesOffset: mariadb, KeepsOneRow: !mariadb, KeepsNames: !mariadb && early, KeepsKeys: mariadb, ForgetsRows: true, KeepsOperands: mariadb || early, MissortsAliases: early, CountsAll: early, MistypesNeighbours: early, ExactText: exactText},
		ValueSemantics: engine.ValueSemantics{OperandForm: true, EvenAverages: !mariadb, HiddenDigits: true, ShortTypes: true, MisreadsFractions: mariadb || early, QuotientDigits: digits},
		TimeSemantics:  engine.TimeSemantics{NumbersAsTimes: !mariadb, MistakesDates: early, MissesDates: mariadb, ZeroDates: strings.Contains(mode, "NO_ZERO_")},
	}
}

// exactText reports a collation by which texts differ if only their blanks at the end differ.
func exactText(c engine.SchemaColumn) bool {
	return strings.HasSuffix(c.Collation, "_0900_bin") || strings.HasSuffix(c.Collation, "_nopad_bin")
}

// before reports whether the server is MySQL, and older than version.
func (db recipes) before(version ...int) bool {
	var have []int
	for part := range strings.SplitSeq(db.info.Version, ".") {
		n, _ := strconv.Atoi(part)
		have = append(have, n)
	}
	return !db.dialect.mariadb && slices.Compare(have, version) < 0
}

// pureFunctions always return the same result for the same arguments and settings. They include
// functions of the current time, because TIMESTAMP is set in the sessions of pieces. They exclude
// SYSDATE, which ignores TIMESTAMP, functions of the session (CONNECTION_ID, LAST_INSERT_ID, USER,
// FOUND_ROWS, locks), random functions, functions of files and plugins, and functions whose result
// depends on how the server computed an argument (COERCIBILITY, CHARSET, COLLATION).
var pureFunctions = engine.WordSet(`
	abs acos asin atan atan2 ceil ceiling conv cos cot crc32 degrees exp floor ln log log10 log2 mod pi pow power
	radians round sign sin sqrt tan truncate
	ascii bin bit_length char char_length character_length chr concat concat_ws elt export_set field find_in_set
	format from_base64 hex insert instr lcase left length lengthb locate lower lpad ltrim make_set mid oct
	octet_length ord position quote repeat replace reverse right rpad rtrim soundex space strcmp substr
	substring substring_index to_base64 to_char trim ucase unhex upper
	natural_sort_key sformat regexp_instr regexp_like regexp_replace regexp_substr
	adddate addtime add_months convert_tz curdate current_date current_time current_timestamp curtime date
	date_add date_format date_sub datediff day dayname dayofmonth dayofweek dayofyear extract from_days
	from_unixtime get_format hour last_day localtime localtimestamp makedate maketime microsecond minute
	month monthname now period_add period_diff quarter sec_to_time second str_to_date subdate subtime time
	time_format time_to_sec timediff timestamp timestampadd timestampdiff to_days to_seconds
	unix_timestamp utc_date utc_time utc_timestamp week weekday weekofyear year yearweek
	if ifnull nullif coalesce greatest least isnull interval nvl nvl2
	cast convert bit_count
	md5 sha sha1 sha2 crc32c uncompressed_length
	inet_aton inet_ntoa inet6_aton inet6_ntoa is_ipv4 is_ipv6 is_ipv4_compat is_ipv4_mapped is_uuid uuid_to_bin
	bin_to_uuid
	json_array json_array_append json_array_insert json_compact json_contains json_contains_path json_depth json_detailed
	json_equals json_exists json_extract json_insert json_keys json_length json_loose json_merge json_merge_patch
	json_merge_preserve json_normalize json_object json_overlaps json_pretty json_query json_quote json_remove
	json_replace json_search json_set json_storage_size json_type json_unquote json_valid json_value`)

// aggregateFunctions compute one value from many rows. recipes.Aggregate says how to compute the
// value from the values of pieces. A query with an aggregate for which there is no such way isn't
// split.
var aggregateFunctions = engine.WordSet(`
	count sum avg min max bit_and bit_or bit_xor std stddev stddev_pop stddev_samp var_pop var_samp variance
	group_concat json_arrayagg json_objectagg any_value st_collect grouping median percentile_cont percentile_disc`)

var windowFunctions = engine.WordSet(`
	row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value`)

// functions classifies the names in the lists above.
var functions = engine.Functions{Pure: pureFunctions, Aggregate: aggregateFunctions, Window: windowFunctions}

func (db recipes) Function(name string, _ int) engine.FunctionKind {
	// In some versions of MySQL, such as 8.0.15, a regular expression function that gets NULL for one
	// row returns NULL for all further rows. So results depend on the order of the rows.
	if !db.dialect.mariadb && strings.HasPrefix(name, "regexp_") {
		return engine.UnknownFunction
	}
	return functions.Kind(name)
}

func (db recipes) Bytes(c engine.ResultColumn, expr string) string {
	switch c.Class {
	case engine.ClassInt, engine.ClassDecimal, engine.ClassBytes, engine.ClassTime:
		return ""
	}
	return "CAST(" + expr + " AS BINARY)"
}

// UserFunction implements engine.Reader. It never finds one: if a user's function has the name of a
// built-in function, a query calls it only by also naming its database.
func (db recipes) UserFunction(context.Context, *engine.Session, string, []string) (string, error) {
	return "", nil
}

// ClockValue implements engine.Reader: no function is a ClockFunction.
func (db recipes) ClockValue(string) string { return "" }

// Ambiguous implements engine.Reader. For example, the empty text of an ENUM may be one of its
// members, or stand for an invalid value. Another example are texts that are equal in their first
// max_sort_length bytes: a server that groups by sorting takes them for equal; a server that groups
// in a temporary table doesn't.
func (db recipes) Ambiguous(c engine.ResultColumn, expr string, use engine.KeyUse) string {
	switch {
	case c.Native == "BIT":
		return "TRUE" // results contain a BIT as bytes or as a number, depending on how the server groups
	case use == engine.KeyWindows && db.server != nil && !db.dialect.mariadb && (c.Native == "TIME" || c.Native == "ENUM" || c.Native == "SET"):
		return "TRUE" // MySQL may take different values for equal, depending on what else the window is ordered by
	case c.Native == "ENUM" || c.Native == "SET":
		return expr + " = ''"
	case use == engine.KeyDistinct && db.clips(c):
		return expr + " IN (" + clipped + ")"
	}
	var list []string
	if f, texts := texts(c); texts && f.Length > usualSortLength {
		list = append(list, fmt.Sprintf("LENGTH(%[1]s) >= %[2]d OR LENGTH(WEIGHT_STRING(%[1]s)) >= %[3]d", expr, surelyCompared, 2*surelyCompared))
	}
	if a := db.ambiguousEmpty(c, expr, use); a != "" {
		list = append(list, a)
	}
	return strings.Join(list, " OR ")
}

// clips reports whether the server may clip an integer to the range of INT or BIGINT. The types of
// some functions' results are too small: TO_SECONDS on MySQL, PERIOD_ADD on MariaDB. A server that
// groups in a temporary table clips the results to the range of their type; a server that groups by
// sorting doesn't.
func (db recipes) clips(c engine.ResultColumn) bool {
	return db.server != nil && c.Class == engine.ClassInt && computed(c)
}

// clipped are the limits of INT and BIGINT, signed and unsigned: they may stand for larger values.
const clipped = "2147483647, -2147483648, 4294967295, 9223372036854775807, -9223372036854775808, 18446744073709551615"

// ambiguousEmpty returns a condition for texts that MySQL may confuse with the empty text or NULL.
// If MySQL groups in a temporary table, texts of blanks only are not in the group of the empty
// text; if it groups by sorting, they are. If an expression's result is empty, MySQL may sort it
// like NULL.
func (db recipes) ambiguousEmpty(c engine.ResultColumn, expr string, use engine.KeyUse) string {
	f, texts := texts(c)
	switch {
	case db.server == nil || db.dialect.mariadb || !texts || use == engine.KeyDistinct:
	case f.Computed && f.Flags&flagNotNull == 0:
		return expr + " = ''"
	case c.Class == engine.ClassText && use == engine.KeyWindows:
		return expr + " = '' AND LENGTH(" + expr + ") > 0"
	}
	return ""
}

// surelyCompared is a number of characters. If texts differ in their first surelyCompared
// characters, sorting surely tells them apart: the server compares the first usualSortLength bytes
// of their sort keys, and a character's sort key has two bytes in most collations, and hardly ever
// more than four.
const surelyCompared = usualSortLength / 4

// texts reports whether a column's values are texts or bytes.
func texts(c engine.ResultColumn) (mysqlwire.Column, bool) {
	f, err := parseField(c.Packet)
	return f, err == nil && (binaryNames[c.Native] != "" || c.Binary && c.Class == engine.ClassBytes)
}

func (db recipes) Aggregate(c engine.AggregateCall) (engine.Recipe, bool) {
	// The server computes a quotient with more digits than its type and the results of pieces have.
	if c.Divided && (c.Result.Class == engine.ClassDecimal || slices.ContainsFunc(c.Inputs, func(in engine.ResultColumn) bool { return in.Class == engine.ClassDecimal })) && (c.Name != "count" || c.Distinct) {
		return engine.Recipe{}, false
	}
	// An expression may have more digits than the largest DECIMAL. If the server uses a temporary
	// table, it cuts off the digits that this type can't hold.
	if c.Name != "count" && slices.ContainsFunc(c.Inputs, fullDecimal) {
		return engine.Recipe{}, false
	}
	if fewerDigits(c) {
		return engine.Recipe{}, false
	}
	if c.Distinct {
		r, ok := db.distinctRecipe(c)
		return r, ok && sumDigits(c) < 0
	}
	mysql := db.server != nil && !db.dialect.mariadb
	if c.Ordered || c.Separator != "" || len(c.Args) > 1 && c.Name != "grouping" {
		return engine.Recipe{}, false
	}
	call := strings.ToUpper(c.Name) + "($1)"
	same := engine.Recipe{Parts: []string{call}, Merge: []string{call}, Value: "$1"}
	step := func(s engine.MergeStep) (engine.Recipe, bool) {
		same.Steps = []engine.MergeStep{s}
		return same, true
	}
	switch c.Name {
	case "count":
		r := engine.Recipe{Parts: []string{"COUNT($1)"}, Merge: []string{"COALESCE(SUM($1), 0)"}, Value: "$1", Steps: []engine.MergeStep{engine.MergeSum}, Zero: true}
		if c.Star {
			r.Parts[0] = "COUNT(*)"
		}
		return r, true
	case "sum":
		switch c.Result.Class {
		case engine.ClassDecimal, engine.ClassInt:
			same.Steps = []engine.MergeStep{engine.MergeSum}
			return unlessCut(c, same), true
		case engine.ClassFloat:
			same.Order = true
			return same, true
		}
	case "avg":
		// The type of an average of EXTRACT has too few digits. A server that stores the average, such as
		// in a temporary table, changes it to a value that fits the type.
		if strings.Contains(strings.ToLower(c.Args[0]), "extract") {
			return engine.Recipe{}, false
		}
		// If an average has more digits than the largest DECIMAL, the server cuts it when it stores it.
		if in := c.Inputs[0]; c.Result.Class == engine.ClassDecimal && in.Class == engine.ClassDecimal && in.Precision-in.Scale+c.Result.Scale > mostDigits {
			return engine.Recipe{}, false
		}
		r := engine.Recipe{Parts: []string{"SUM($1)", "COUNT($1)"}, Merge: []string{"SUM($1)", "COALESCE(SUM($1), 0)"}, Value: "($1 / $2)"}
		switch {
		case c.Result.Class == engine.ClassFloat && numeric(c.Inputs):
			r.Order = true
			return r, true
		case c.Result.Class == engine.ClassDecimal:
			// MySQL after 8.0.15 rounds a quotient within an expression, but not an average.
			r.Alone, r.Cut = mysql && !db.before(8, 0, 16), true
			if (mysql && c.Inputs[0].Class == engine.ClassInt || c.Computed) && computed(c.Inputs[0]) {
				// Some types have too few digits for their values: on MySQL COALESCE of an unsigned and a
				// signed integer, and FLOOR of a large integer; on MariaDB BIT_COUNT and YEARWEEK. A server
				// that stores an average which is too large for its type stores the type's largest value.
				r.Tie = "ABS($1) >= $2 * 1" + strings.Repeat("0", max(0, c.Result.Precision-c.Result.Scale))
			}
			if quotientRounds(c.Inputs[0].Scale, c.Result.Scale) {
				r.Steps, r.Final = []engine.MergeStep{engine.MergeSum, engine.MergeSum}, engine.FinalQuotient
			}
			return unlessCut(c, r), true
		}
	case "min", "max":
		return extremeRecipe(c, same, mysql)
	case "bit_and", "bit_or", "bit_xor":
		if c.Result.Class == engine.ClassInt {
			// The result is unsigned. Within an expression of floating-point numbers, MariaDB treats it as a
			// signed number, unless the result was stored in a temporary table before.
			same.Alone = db.server != nil && db.dialect.mariadb
			return step(map[string]engine.MergeStep{"bit_and": engine.MergeBitAnd, "bit_or": engine.MergeBitOr, "bit_xor": engine.MergeBitXor}[c.Name])
		}
	case "std", "stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "variance":
		return varianceRecipe(c)
	case "grouping":
		args := make([]string, len(c.Args))
		for i := range args {
			args[i] = "$" + string(rune('1'+i))
		}
		return engine.Recipe{Keyed: true, Merge: []string{"GROUPING(" + strings.Join(args, ", ") + ")"}}, len(args) < 10
	}
	return engine.Recipe{}, false
}

// fullDecimal reports whether an expression has the maximum number of digits of a DECIMAL.
func fullDecimal(c engine.ResultColumn) bool {
	return c.Class == engine.ClassDecimal && c.Precision >= mostDigits && computed(c)
}

// mostDigits is the maximum number of digits of a DECIMAL.
const mostDigits = 65

// wordDigits is the number of decimal digits in a word of the server's DECIMAL arithmetic.
const wordDigits = 9

// fewerDigits reports whether the server may compute a quotient with fewer digits than a merge of
// pieces. The server chooses the number of digits for each quotient separately, and a function of
// decimals may return an integer. If all digits after the point fit in one word, the server and a
// merge compute the same digits.
func fewerDigits(c engine.AggregateCall) bool {
	n := c.Quotients
	if c.Name == "avg" {
		n++
	}
	if n == 0 || !c.Computed || len(c.Inputs) == 0 || c.Name == "count" {
		return false
	}
	scale := c.Inputs[0].Scale
	return c.Inputs[0].Class == engine.ClassDecimal && scale != 0 && (scale < 0 || c.QuotientDigits == 0 || scale+n*c.QuotientDigits > wordDigits)
}

// digitsOfRows is the number of digits by which a sum may be longer than its values: rowmill
// expects at most 10^12 rows.
const digitsOfRows = 12

// sumDigits returns how many digits before the point the server keeps of a sum, or -1 if the sum of
// 10^12 rows can't need more digits. If the sum of the rows that the server has read so far needs
// more, the server replaces this sum by the largest number. So the result depends on the order of
// the rows.
func sumDigits(c engine.AggregateCall) int {
	if c.Name != "sum" && c.Name != "avg" || c.Inputs[0].Class != engine.ClassDecimal {
		return -1
	}
	in := c.Inputs[0]
	if most := mostDigits - in.Scale; most < in.Precision-in.Scale+digitsOfRows {
		return most
	}
	return -1
}

// unlessCut adds a Tie, a condition under which the merged result may differ from the server's:
// that the sum of some of the rows may have too many digits (see sumDigits). The Tie tests the sum
// of the absolute values of all rows, because no sum of some rows is larger.
func unlessCut(c engine.AggregateCall, r engine.Recipe) engine.Recipe {
	most := sumDigits(c)
	if most < 0 {
		return r
	}
	r.Parts, r.Merge = append(r.Parts, "SUM(ABS($1))"), append(r.Merge, "SUM($1)")
	r.Tie, r.Steps = fmt.Sprintf("$%d >= 1%s", len(r.Parts), strings.Repeat("0", most-1)), nil
	return r
}

// numeric reports whether the first argument is a number, and not a time or text to be converted.
func numeric(inputs []engine.ResultColumn) bool {
	switch inputs[0].Class {
	case engine.ClassInt, engine.ClassDecimal, engine.ClassFloat:
		return true
	}
	return false
}

// varianceRecipe returns the recipe of a variance of exact numbers, from exact sums. The server
// itself computes the variance in floating point, row after row, so that its last digits depend on
// the order of rows. Floating-point numbers have no recipe: the difference of the sums, from which
// the variance is computed, could lose all digits.
func varianceRecipe(c engine.AggregateCall) (engine.Recipe, bool) {
	square := ""
	switch in := c.Inputs[0]; {
	case c.Result.Class != engine.ClassFloat:
		return engine.Recipe{}, false
	case in.Class == engine.ClassInt:
		square = "SUM(CAST($1 AS DECIMAL(20,0)) * $1)"
	case in.Class == engine.ClassDecimal && in.Precision > 0 && in.Precision <= 21 && in.Scale <= 15: // the sum of squares has at most 65 digits
		square = "SUM($1 * $1)"
	default:
		return engine.Recipe{}, false
	}
	value := "(CASE WHEN $1 > 0 THEN ($1 * $3 - $2 * $2 + 0e0) / $1 / $1 END)"
	if strings.HasSuffix(c.Name, "_samp") {
		value = "(CASE WHEN $1 > 1 THEN ($1 * $3 - $2 * $2 + 0e0) / $1 / ($1 - 1) END)"
	}
	if strings.HasPrefix(c.Name, "std") {
		value = "SQRT(" + value + ")"
	}
	r := engine.Recipe{Parts: []string{"COUNT($1)", "SUM($1)", square}, Merge: []string{"COALESCE(SUM($1), 0)", "SUM($1)", "SUM($1)"}, Value: value, Order: true}
	if c.Result.Scale >= 0 { // MariaDB shows this many digits, and computes with more
		r.Value, r.Alone = "ROUND("+value+", "+strconv.Itoa(c.Result.Scale)+")", true
	}
	return r, true
}

// quotientRounds reports whether the server rounds the quotient of a decimal, with scale digits
// after the point, and a count. The quotient's type has result digits after the point. The server
// computes whole words of nine digits. If these words have more than result digits, it rounds;
// otherwise there is no further digit by which to round. See do_div_mod in strings/decimal.c.
func quotientRounds(scale, result int) bool {
	up := func(n int) int { return (n + 8) / 9 * 9 }
	digits := up(up(scale) + max(0, result-scale-(up(scale)-scale)))
	return digits > result
}

// integerDigits is the minimum number of digits in the type of a rounded BIGINT on MySQL.
const integerDigits = 16

// extremeRecipe returns the recipe of MIN or MAX. Different values may be equal: 0 and -0, and
// texts or members of an ENUM under a collation. The server returns the one that it reads first.
func extremeRecipe(c engine.AggregateCall, same engine.Recipe, mysql bool) (engine.Recipe, bool) {
	switch {
	case c.Inputs[0].Class == engine.ClassOther && c.Result.Class != engine.ClassOther:
		return engine.Recipe{}, false // a column that holds the extreme would show leading zeros, which the extreme itself doesn't have
	case c.Result.Native == "FLOAT" && (c.Result.Scale >= 0 || mysql):
		return engine.Recipe{}, false // a FLOAT's text doesn't have all digits, and MySQL writes some with the digits of a DOUBLE
	case c.Result.Native == "FLOAT":
		call := same.Parts[0]
		same.Parts = []string{call + " + 0e0", "MAX($1 = 0 AND CAST($1 AS CHAR) = '-0')"} // a DOUBLE, whose text has all digits
		same.Merge = append(same.Merge, "MAX($1)")
		same.Typed = []string{call, same.Parts[1]}
		same.Tie = "$1 = 0 AND $2 = 1"
		return same, true
	case c.Result.Native == "TIME" && c.Inputs[0].Native == "TIME":
		same.Parts = append(same.Parts, "MAX($1 = 0 AND CAST($1 AS CHAR) LIKE '-%')")
		same.Merge = append(same.Merge, "MAX($1)")
		same.Tie = "$1 = 0 AND $2 = 1"
		return same, true
	case mysql && !c.Grouped && c.Result.Class == engine.ClassText && c.Inputs[0].Temporal != engine.NotTemporal && c.Inputs[0].Temporal != engine.Year:
		// MySQL 8.0.15 describes the MIN or MAX of a computed time as a text, but stores it as a time.
		// With GROUP BY, it may be a text or a time.
		undecided := "CAST($1 AS CHAR) LIKE '%-00%'" // a date without a month or a day
		if c.Inputs[0].Temporal == engine.Duration {
			undecided = "$1 = 0 AND CAST($1 AS CHAR) LIKE '-%'"
		}
		same.Parts, same.Merge = append(same.Parts, "MAX("+undecided+")"), append(same.Merge, "MAX($1)")
		same.Value, same.Tie, same.Alone = "CAST($1 AS CHAR)", "$2 = 1", true
		return same, true
	case c.Result.Class == engine.ClassInt || c.Result.Class == engine.ClassDecimal || c.Result.Class == engine.ClassBytes || c.Result.Class == engine.ClassTime:
		// Within an expression, MySQL may take the MIN or MAX of a BIGINT UNSIGNED for a signed number.
		// No other type has this fault.
		same.Alone = mysql && c.Result.Native == "BIGINT" && c.Result.Unsigned
		same.Steps = []engine.MergeStep{engine.MergeMin}
		if c.Name == "max" {
			same.Steps[0] = engine.MergeMax
		}
		if mysql && c.Result.Class == engine.ClassDecimal && c.Result.Precision-c.Result.Scale >= integerDigits && (c.Result.Scale == 0 || c.Computed) && computed(c.Inputs[0]) {
			// FLOOR of large integers returns values with more digits than its type has. A server that
			// stores an extreme which is too large for this type stores the type's largest value.
			same.Tie = "ABS($1) = " + largest(c.Result)
		}
		return same, true
	case c.Result.Padded:
		same.Parts, same.Merge = append(same.Parts, endsInBlank), append(same.Merge, "MAX($1)")
		same.Tie = "$2 = 1"
		return same, true
	case c.Result.Class == engine.ClassFloat:
		same.Parts = append(same.Parts, "MAX($1 = 0 AND CAST($1 AS CHAR) = '-0')")
		same.Merge = append(same.Merge, "MAX($1)")
		same.Tie = "$1 = 0 AND $2 = 1"
		return same, true
	}
	return engine.Recipe{}, false
}

// endsInBlank is 1 if one of the texts ends in a blank. In a Padded column, such a text equals the
// text without the blank.
const endsInBlank = "MAX($1 LIKE '% ')"

// separatorArgument finds $1 to $9 in a separator: a recipe would replace them.
var separatorArgument = regexp.MustCompile(`\$[1-9]`)

// largest returns the largest number of a DECIMAL type.
func largest(c engine.ResultColumn) string {
	return strings.TrimSuffix(strings.Repeat("9", c.Precision-c.Scale)+"."+strings.Repeat("9", c.Scale), ".")
}

// distinctRecipe returns the recipe of COUNT, SUM or AVG(DISTINCT ...), or of GROUP_CONCAT(DISTINCT
// x ORDER BY x).
func (db recipes) distinctRecipe(c engine.AggregateCall) (engine.Recipe, bool) {
	var args []string
	for i, in := range c.Inputs {
		if in.Class == engine.ClassOther || in.Class == engine.ClassFloat || in.Native == "BIT" {
			return engine.Recipe{}, false // its text may stand for several values
		}
		args = append(args, "$"+string(rune('1'+i)))
	}
	if len(args) == 0 || len(args) > 9 || c.Name != "group_concat" && (c.Ordered || c.Separator != "") {
		return engine.Recipe{}, false
	}
	r := engine.Recipe{Group: c.Args, Merge: []string{strings.ToUpper(c.Name) + "(DISTINCT " + strings.Join(args, ", ") + ")"}, Zero: c.Name == "count"}
	switch c.Name {
	case "min", "max", "bit_and", "bit_or":
		c.Distinct = false
		return db.Aggregate(c)
	case "count":
		return r, true
	case "sum":
		return r, c.Result.Class == engine.ClassDecimal && numeric(c.Inputs)
	case "avg":
		c.Distinct = false
		all, ok := db.Aggregate(c)
		r.Merge, r.Typed = []string{"SUM(DISTINCT $1)", "COUNT(DISTINCT $1)"}, all.Parts
		r.Value, r.Tie, r.Alone, r.Cut = all.Value, all.Tie, all.Alone, all.Cut
		return r, ok && !all.Order
	case "group_concat":
		// group_concat_max_len cuts the merged text as it cuts the text of the whole query.
		if !c.SelfOrdered || len(args) != 1 || c.Inputs[0].Class == engine.ClassText || separatorArgument.MatchString(c.Separator) {
			return engine.Recipe{}, false
		}
		r.Merge[0] = "GROUP_CONCAT(DISTINCT $1 ORDER BY $1 " + c.Order
		if c.Separator != "" {
			r.Merge[0] += " SEPARATOR " + c.Separator
		}
		r.Merge[0] += ")"
		return r, true
	}
	return engine.Recipe{}, false
}
