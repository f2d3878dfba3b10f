package postgres

import (
	"context"
	"strings"

	"github.com/rowmill/rowmill/internal/engine"
	"github.com/rowmill/rowmill/internal/sqltext"
)

// recipes implements the part of engine.Reader that knows functions: how an aggregate is split into
// pieces and merged.
type recipes struct{}

func (recipes) Syntax(st engine.State) sqltext.Syntax {
	return sqltext.Syntax{
		Backslash: st.Get("standard_conforming_strings") == "off",
		Dollar:    true, Prefixed: true, NestedComments: true, ConcatPipes: true, Casts: true,
	}
}

// systemColumns are columns that every table has. Their values depend on the partition.
var systemColumns = engine.WordSet("tableoid ctid xmin xmax cmin cmax")

func (recipes) Semantics(engine.State) engine.Semantics {
	return engine.Semantics{
		NameSemantics:  engine.NameSemantics{ImplicitNames: true, TableRows: true, SystemColumns: systemColumns, TempSchema: "pg_temp."},
		RowSemantics:   engine.RowSemantics{NullsLast: true, UnorderedParts: true, ExactText: exactText, DescribesAnyBranch: true, NamedCollations: true},
		ValueSemantics: engine.ValueSemantics{IntegerDivision: true},
		TimeSemantics:  engine.TimeSemantics{ClockTexts: true, TypedLiterals: true},
	}
}

// exactText reports whether a column has a text type and the default collation, so that equal
// values are the same text. Equal values of a domain, or of bpchar without a length, may differ.
func exactText(c engine.SchemaColumn) bool {
	return c.Collation == "" && (c.Native == "text" || strings.HasPrefix(c.Native, "character varying") || strings.HasPrefix(c.Native, "character("))
}

// pureFunctions always return the same result for the same arguments and settings. They are the
// immutable functions of pg_proc, and the stable ones that depend on settings alone.
var pureFunctions = engine.WordSet(`
	abs acos acosd acosh asin asind asinh atan atan2 atan2d atand atanh cbrt ceil ceiling cos cosd cosh cot cotd
	degrees div erf erfc exp factorial floor gcd lcm ln log log10 min_scale mod pi pow power radians round scale sign sin
	sind sinh sqrt tan tand tanh trim_scale trunc width_bucket
	ascii bit_length btrim char_length character_length chr concat concat_ws convert convert_from convert_to
	decode encode format get_bit get_byte initcap left length lower lpad ltrim md5 normalize octet_length
	overlay parse_ident position quote_ident quote_literal quote_nullable regexp_count regexp_instr regexp_like
	regexp_match regexp_replace regexp_split_to_array regexp_substr repeat replace reverse right rpad rtrim
	set_bit set_byte sha224 sha256 sha384 sha512 split_part starts_with string_to_array strpos substr substring to_ascii
	to_bin to_hex to_oct translate trim unicode_assigned unistr upper bit_count casefold crc32 crc32c
	date_bin date_part date_trunc extract isfinite justify_days justify_hours justify_interval make_date
	make_interval make_time make_timestamp make_timestamptz timezone to_char to_date to_number to_timestamp
	date time timestamp timestamptz interval overlaps date_add date_subtract
	coalesce nullif greatest least num_nonnulls num_nulls
	array_append array_cat array_dims array_fill array_length array_lower array_ndims array_position array_positions
	array_prepend array_remove array_replace array_to_string array_upper cardinality trim_array
	array_to_json row_to_json to_json to_jsonb json_array_length json_build_array json_build_object
	json_extract_path json_extract_path_text json_object json_strip_nulls json_typeof jsonb_array_length
	jsonb_build_array jsonb_build_object jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object
	jsonb_path_exists jsonb_path_match jsonb_path_query_array jsonb_path_query_first jsonb_pretty jsonb_set
	jsonb_set_lax jsonb_strip_nulls jsonb_typeof json_value json_query json_exists json_scalar
	abbrev broadcast family host hostmask inet_merge inet_same_family masklen netmask network set_masklen text
	lower_inc upper_inc lower_inf upper_inf isempty range_merge
	int4range int8range numrange tsrange tstzrange daterange
	int2 int4 int8 float4 float8 numeric bool varchar bpchar bytea
	cast row pg_typeof`)

var clockFunctions = engine.WordSet("now current_timestamp transaction_timestamp statement_timestamp current_date current_time localtime localtimestamp")

// UserFunction implements engine.Reader. By the types of the arguments, a user's function may fit a
// call better than the server's function of the same name. Example: round(double precision,
// integer).
func (recipes) UserFunction(ctx context.Context, s *engine.Session, statement string, names []string) (why string, err error) {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = "'" + strings.ReplaceAll(n, "'", "''") + "'"
	}
	if len(list) == 0 {
		list = []string{"NULL"}
	}
	err = s.Text(ctx, "SELECT p.proname || ' may be the function of a user of this name' FROM pg_catalog.pg_proc p WHERE p.proname IN ("+strings.Join(list, ", ")+
		") AND p.pronamespace <> 'pg_catalog'::regnamespace AND pg_catalog.pg_function_is_visible(p.oid) LIMIT 1", nil, func(v [][]byte) error {
		why = string(v[0])
		return nil
	})
	if err != nil || why != "" {
		return why, err
	}
	casts := strings.Contains(statement, "::") || strings.Contains(strings.ToLower(statement), "cast")
	err = s.Text(ctx, changingOperators, nil, func(v [][]byte) error {
		name, text := string(v[0]), string(v[1])
		if name == "" && casts || name == "implicit" || name != "" && (impliedOperators[name] || strings.Contains(statement, name)) {
			why = text
		}
		return nil
	})
	return why, err
}

// impliedOperators are operators that a statement may call without naming them: by IN, BETWEEN,
// LIKE, NULLIF, CASE, USING and the like.
var impliedOperators = engine.WordSet("= <> != < <= > >= ~~ !~~ ~~* !~~* ~ !~")

// changingOperators is a query for operators and casts of users and extensions whose function isn't
// immutable: they may return another result in another session or transaction. (A stable function
// returns the same result only within a statement.) Each row has a name and an explanation. The
// name is the operator's, 'implicit' for a cast that needs no syntax, or empty for another cast.
// Object identifiers below 16384 belong to the server itself: see FirstNormalObjectId in its
// transam.h.
const changingOperators = "SELECT o.oprname, 'the operator ' || o.oprname || ' may be one of a user, whose function ' || p.proname || ' isn''t IMMUTABLE' " +
	"FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode " +
	"WHERE o.oid >= 16384 AND p.provolatile <> 'i' AND pg_catalog.pg_operator_is_visible(o.oid) UNION ALL " +
	"SELECT CASE c.castcontext WHEN 'i' THEN 'implicit' ELSE '' END, 'it may have a cast of a user from ' || c.castsource::regtype || ' to ' || c.casttarget::regtype || ', whose function ' || " +
	"p.proname || ' isn''t IMMUTABLE' FROM pg_catalog.pg_cast c JOIN pg_catalog.pg_proc p ON p.oid = c.castfunc WHERE c.oid >= 16384 AND p.provolatile <> 'i'"

func (recipes) Collations(context.Context, *engine.Session, string) ([]int, error) {
	return nil, nil
}

func (recipes) ClockValue(call string) string {
	return "quote_literal((" + call + ")::text) || '::' || pg_typeof(" + call + ")::text"
}

var aggregateFunctions = engine.WordSet(`
	count sum avg min max bit_and bit_or bit_xor bool_and bool_or every any_value string_agg array_agg json_agg jsonb_agg
	json_object_agg jsonb_object_agg json_agg_strict jsonb_agg_strict json_object_agg_strict json_object_agg_unique
	json_objectagg json_arrayagg range_agg range_intersect_agg xmlagg
	corr covar_pop covar_samp regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
	stddev stddev_pop stddev_samp variance var_pop var_samp mode percentile_cont percentile_disc grouping`)

var windowFunctions = engine.WordSet(`
	row_number rank dense_rank percent_rank cume_dist ntile lag lead first_value last_value nth_value`)

var functions = engine.Functions{Pure: pureFunctions, Clock: clockFunctions, Aggregate: aggregateFunctions, Window: windowFunctions}

func (recipes) Function(name string, args int) engine.FunctionKind {
	if name == "age" && args == 2 {
		return engine.PureFunction
	}
	return functions.Kind(name)
}

func (recipes) Bytes(c engine.ResultColumn, expr string) string {
	switch c.Class {
	case engine.ClassInt, engine.ClassBytes, engine.ClassTime:
		return ""
	case engine.ClassDecimal:
		if c.Scale >= 0 {
			return ""
		}
	case engine.ClassText:
		if !c.Folded && distinctTexts[strings.ToLower(c.Native)] {
			return ""
		}
	}
	if c.Native == "char" {
		return "pg_catalog.concat(" + expr + ") COLLATE \"C\"" // a cast to text removes the blanks
	}
	return "(" + expr + ")::text COLLATE \"C\""
}

func (recipes) Ambiguous(engine.ResultColumn, string, engine.KeyUse) string { return "" }

func (recipes) Aggregate(c engine.AggregateCall) (engine.Recipe, bool) {
	if c.Distinct {
		return distinctRecipe(c)
	}
	if c.Ordered && !(c.Name == "sum" || c.Name == "min" || c.Name == "max") || c.Separator != "" || len(c.Args) > 1 && c.Name != "grouping" {
		return engine.Recipe{}, false
	}
	call := c.Name + "($1)"
	same := engine.Recipe{Parts: []string{call}, Merge: []string{call}, Value: "$1"}
	switch c.Name {
	case "count":
		r := engine.Recipe{Parts: []string{"count($1)"}, Merge: []string{"coalesce(sum($1), 0)"}, Value: "$1", Steps: []engine.MergeStep{engine.MergeSum}, Zero: true}
		if c.Star {
			r.Parts[0] = "count(*)"
		}
		return r, true
	case "sum":
		switch {
		case c.Result.Class == engine.ClassFloat:
			same.Order = true
			return same, true
		case c.Result.Class == engine.ClassInt || c.Result.Class == engine.ClassDecimal:
			same.Steps = []engine.MergeStep{engine.MergeSum}
			return same, true
		case exactNumber(c.Result):
			return same, true
		}
	case "avg":
		r := engine.Recipe{Parts: []string{"sum($1)", "count($1)"}, Merge: []string{"sum($1)", "coalesce(sum($1), 0)"}, Value: "($1::numeric / $2::numeric)"}
		if c.Result.Class == engine.ClassFloat {
			r.Value, r.Order = "($1::double precision / nullif($2, 0))", true
			return r, c.Inputs[0].Class == engine.ClassFloat
		}
		return r, exactNumber(c.Result) && exactNumber(c.Inputs[0])
	case "min", "max":
		return extremeRecipe(c, same)
	case "bit_and", "bit_or", "bit_xor":
		return same, c.Result.Class == engine.ClassInt
	case "bool_and", "bool_or", "every":
		return same, true
	case "var_pop", "var_samp", "variance", "stddev", "stddev_pop", "stddev_samp":
		if exactNumber(c.Result) && exactNumber(c.Inputs[0]) {
			return varianceRecipe(c), true
		}
	case "grouping":
		args := make([]string, len(c.Args))
		for i := range args {
			args[i] = "$" + string(rune('1'+i))
		}
		return engine.Recipe{Keyed: true, Merge: []string{"grouping(" + strings.Join(args, ", ") + ")"}}, len(args) < 10
	}
	return engine.Recipe{}, false
}

// exactNumber reports an integer or a numeric, of any scale.
func exactNumber(c engine.ResultColumn) bool {
	return c.Class == engine.ClassInt || c.Class == engine.ClassDecimal || strings.HasPrefix(strings.ToLower(c.Native), "numeric")
}

// varianceRecipe is the recipe of a variance or standard deviation of exact numbers, which the
// server computes from numeric sums: see numeric_stddev_internal in its numeric.c.
func varianceRecipe(c engine.AggregateCall) engine.Recipe {
	name := c.Name
	below, none := "$1 * ($1 - 1)", "$1 <= 1"
	if strings.HasSuffix(name, "_pop") {
		below, none = "$1 * $1", "$1 = 0"
	}
	value := "($1 * $3 - $2 * $2) / nullif(" + below + ", 0)"
	if strings.HasPrefix(name, "stddev") {
		// The server gives the root as many digits as the variance; sqrt() alone would give it more.
		value = "round(sqrt(round(" + value + ", scale(" + value + ") + 30)), scale(" + value + "))"
	}
	r := engine.Recipe{
		Parts: []string{"count($1)::numeric", "sum($1)::numeric", "sum($1::numeric * $1::numeric)"},
		Merge: []string{"coalesce(sum($1), 0)", "sum($1)", "sum($1)"},
		Value: "(CASE WHEN " + none + " THEN NULL WHEN ($3)::text IN ('NaN', 'Infinity') THEN 'NaN'::numeric WHEN $1 * $3 - $2 * $2 <= 0 THEN 0::numeric ELSE " + value + " END)",
	}
	if in := c.Inputs[0]; in.Class != engine.ClassInt && (in.Class != engine.ClassDecimal || in.Scale < 0) {
		// With more than 8000 digits after the point, squares may be inexact: they have at most 16,383.
		r.Parts, r.Merge, r.Tie = append(r.Parts, "max(scale($1::numeric))"), append(r.Merge, "max($1)"), "$4 > 8000"
	}
	return r
}

// distinctTexts are types whose values are equal only if their texts are equal. rowmill lets the
// server compare such values. The type interval isn't among them: '1 month' equals '30 days'.
var distinctTexts = engine.WordSet("text varchar char name date time timestamp timestamptz oid inet cidr")

// extremeRecipe is the recipe of min and max. Equal numbers may have different texts, such as 1.0
// and 1.00, or 0 and -0: then the server returns the one that it meets first.
func extremeRecipe(c engine.AggregateCall, same engine.Recipe) (engine.Recipe, bool) {
	in := c.Inputs[0]
	switch {
	case c.Result.Class == engine.ClassInt || c.Result.Class == engine.ClassDecimal && c.Result.Scale >= 0 || c.Result.Class == engine.ClassBytes || c.Result.Class == engine.ClassTime:
		same.Steps = []engine.MergeStep{engine.MergeMin}
		if c.Name == "max" {
			same.Steps[0] = engine.MergeMax
		}
		return same, true
	case c.Result.Class == engine.ClassText && !c.Result.Folded && distinctTexts[strings.ToLower(c.Result.Native)], in.Class == engine.ClassDecimal && in.Scale >= 0:
		return same, true
	case exactNumber(c.Result):
		same.Parts = append(same.Parts, "min(scale($1))", "max(scale($1))")
		same.Merge = append(same.Merge, "min($1)", "max($1)")
		same.Tie = "$2 <> $3"
		return same, true
	case c.Result.Class == engine.ClassFloat:
		same.Parts = append(same.Parts, "bool_or($1 = 0 AND ($1)::text = '-0')")
		same.Merge = append(same.Merge, "bool_or($1)")
		same.Tie = "$1 = 0 AND $2"
		return same, true
	}
	return engine.Recipe{}, false
}

// distinctRecipe is the recipe of aggregates of distinct values. Values with the same text are
// equal, but values with different texts may be equal, too, such as 1.0 and 1.00.
func distinctRecipe(c engine.AggregateCall) (engine.Recipe, bool) {
	if len(c.Args) != 1 {
		return engine.Recipe{}, false
	}
	in := c.Inputs[0]
	if native := strings.ToLower(in.Native); native == "record" || native == "unknown" {
		return engine.Recipe{}, false
	}
	switch c.Name {
	case "min", "max", "bit_and", "bit_or", "bool_and", "bool_or", "every":
		c.Distinct = false
		return recipes{}.Aggregate(c)
	case "count":
		return engine.Recipe{Group: c.Args, Merge: []string{"count(DISTINCT $1)"}, Zero: true}, !c.Ordered
	case "sum", "avg":
		// Equal numbers may have different digits. The number that the server meets first decides how
		// many digits the result has.
		return engine.Recipe{Group: c.Args, Merge: []string{c.Name + "(DISTINCT $1)"}},
			!c.Ordered && exactNumber(c.Result) && (in.Class == engine.ClassInt || in.Class == engine.ClassDecimal && in.Scale >= 0)
	case "array_agg":
		return engine.Recipe{Group: c.Args, Merge: []string{"array_agg(DISTINCT $1 ORDER BY $1 " + c.Order + ")"}},
			c.SelfOrdered && c.Separator == "" && in.Class != engine.ClassOther && in.Class != engine.ClassFloat && recipes{}.Bytes(in, "") == ""
	}
	return engine.Recipe{}, false
}
