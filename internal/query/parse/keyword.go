package parse

// A word is what the parser knows of a keyword.
type word struct {
	text string // in upper case, "" if it is none
	// reserved words are neither names nor aliases where they have no quotes. Some servers permit some
	// of them, and their queries are passed through whole.
	reserved bool
	// notAlias are words that may follow an expression or a table, so that they are aliases only after
	// AS.
	notAlias bool
}

var words = func() map[string]word {
	m := map[string]word{}
	for _, w := range []string{
		"ALL", "AND", "AS", "ASC", "BETWEEN", "BINARY", "BY", "CASE", "COLLATE", "CREATE", "CROSS", "DEFAULT", "DELETE", "DESC", "DISTINCT", "DISTINCTROW",
		"DIV", "ELSE", "END", "EXCEPT", "EXISTS", "FALSE", "FETCH", "FOR", "FROM", "GROUP", "HAVING", "IN", "INNER", "INSERT", "INTERSECT", "INTERVAL",
		"INTO", "IS", "JOIN", "LEFT", "LIKE", "LIMIT", "MINUS", "MOD", "NATURAL", "NOT", "NULL", "ON", "OR", "ORDER", "REGEXP", "RIGHT", "RLIKE", "SELECT", "SET",
		"STRAIGHT_JOIN", "TABLE", "THEN", "TRUE", "UNION", "UNIQUE", "UPDATE", "USING", "VALUES", "WHEN", "WHERE", "WITH", "XOR",
	} {
		m[w] = word{w, true, true}
	}
	for _, w := range []string{
		"AGAINST", "ANTI", "ASOF", "AT", "CONNECT", "CYCLE", "ESCAPE", "FILTER", "FORCE", "FULL", "GLOB", "GROUPS", "IGNORE", "ILIKE", "INDEXED", "ISNULL",
		"LATERAL", "LOCK", "MATCH", "MEMBER", "NOTNULL", "NULLS", "OFFSET", "ONLY", "OPERATOR", "OUTER", "OVER", "OVERLAPS", "PARTITION", "PIVOT",
		"PROCEDURE", "QUALIFY", "RANGE", "RESPECT", "RETURNING", "ROW", "ROWS", "SEARCH", "SEMI", "SEPARATOR", "SIMILAR", "SOUNDS", "START",
		"TABLESAMPLE", "TO", "UNPIVOT", "USE", "WINDOW", "WITHIN",
	} {
		m[w] = word{w, false, true}
	}
	for _, w := range []string{
		"ANY", "ARRAY", "BOTH", "CALL", "CAST", "CHARACTER", "CONVERT", "CUBE", "CURRENT_CATALOG", "CURRENT_DATE", "CURRENT_ROLE", "CURRENT_SCHEMA", "CURRENT_TIME",
		"CURRENT_TIMESTAMP", "CURRENT_USER", "DATE", "DAY", "DAY_HOUR", "DAY_MICROSECOND", "DAY_MINUTE", "DAY_SECOND", "DOUBLE", "EXTRACT", "FIRST",
		"FUNCTION", "GET_FORMAT", "GROUPING", "HIGH_PRIORITY", "HOUR", "HOUR_MICROSECOND", "HOUR_MINUTE", "HOUR_SECOND", "INDEX", "KEY", "LAST", "LEADING",
		"LOCALTIME", "LOCALTIMESTAMP", "MATERIALIZED", "MICROSECOND", "MID", "MINUTE", "MINUTE_MICROSECOND", "MINUTE_SECOND", "MONTH", "NEXT", "OF", "OVERLAY",
		"PLACING", "POSITION", "PRECISION", "QUARTER", "RECURSIVE", "REPEATABLE", "ROLLUP", "SCHEMA", "SECOND", "SECOND_MICROSECOND", "SESSION_USER", "SETS", "SHARE",
		"SOME", "SQL_BIG_RESULT", "SQL_BUFFER_RESULT", "SQL_CACHE", "SQL_CALC_FOUND_ROWS", "SQL_NO_CACHE", "SQL_SMALL_RESULT", "SUBSTR", "SUBSTRING",
		"SYSTEM_TIME", "TIES", "TIME", "TIMESTAMP", "TIMESTAMPADD", "TIMESTAMPDIFF", "TRAILING", "TRIM", "UNKNOWN", "USER", "UTC_DATE",
		"UTC_TIME", "UTC_TIMESTAMP", "VARYING", "WEEK", "WITHOUT", "YEAR", "YEAR_MONTH", "ZONE",
		// First words of other statements, for those who classify statements.
		"ALTER", "ANALYZE", "BEGIN", "CHECKPOINT", "CLOSE", "COMMIT", "COPY", "DEALLOCATE", "DECLARE", "DESCRIBE", "DO", "DROP", "EVENT", "EXECUTE", "EXPLAIN",
		"FLUSH", "GRANT", "HANDLER", "IF", "KILL", "LOAD", "LOOP", "OPEN", "OPTIMIZE", "PACKAGE", "PRAGMA", "PREPARE", "RELEASE", "RENAME", "REPAIR", "REPEAT", "REPLACE",
		"RESET", "REVOKE", "ROLLBACK", "SAVEPOINT", "SHOW", "TRANSACTION", "TRIGGER", "TRUNCATE", "UNLOCK", "VIEW", "WHILE", "WORK", "XA",
	} {
		m[w] = word{w, false, false}
	}
	return m
}()

// longestWord is the length of the longest keyword.
const longestWord = 20

// keyword returns what is known of a word.
func keyword(s string) word {
	if len(s) > longestWord {
		return word{}
	}
	var upper [longestWord]byte
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		upper[i] = c
	}
	return words[string(upper[:len(s)])]
}

// units are the units of INTERVAL and of functions of time.
var units = map[string]bool{
	"MICROSECOND": true, "SECOND": true, "MINUTE": true, "HOUR": true, "DAY": true, "WEEK": true, "MONTH": true, "QUARTER": true, "YEAR": true,
	"SECOND_MICROSECOND": true, "MINUTE_MICROSECOND": true, "MINUTE_SECOND": true, "HOUR_MICROSECOND": true, "HOUR_SECOND": true, "HOUR_MINUTE": true,
	"DAY_MICROSECOND": true, "DAY_SECOND": true, "DAY_MINUTE": true, "DAY_HOUR": true, "YEAR_MONTH": true,
}

// options are the words between SELECT and its list, where introducers are known, that are
// recorded.
var options = map[string]bool{
	"HIGH_PRIORITY": true, "STRAIGHT_JOIN": true, "SQL_SMALL_RESULT": true, "SQL_BIG_RESULT": true, "SQL_BUFFER_RESULT": true, "SQL_NO_CACHE": true,
	"SQL_CACHE": true, "SQL_CALC_FOUND_ROWS": true,
}

// bare are functions that are called without parentheses: by all servers, by those with
// Syntax.Introducer, by those with Syntax.Casts. Elsewhere they are names.
var bare, bareIntroducer, bareCasts = map[string]bool{"CURRENT_DATE": true, "CURRENT_TIME": true, "CURRENT_TIMESTAMP": true, "CURRENT_USER": true},
	map[string]bool{"LOCALTIME": true, "LOCALTIMESTAMP": true, "UTC_DATE": true, "UTC_TIME": true, "UTC_TIMESTAMP": true, "CURRENT_ROLE": true},
	map[string]bool{"LOCALTIME": true, "LOCALTIMESTAMP": true, "CURRENT_ROLE": true, "CURRENT_CATALOG": true, "CURRENT_SCHEMA": true, "SESSION_USER": true, "USER": true}

// callable are reserved words that are also names of functions.
var callable = map[string]bool{"LEFT": true, "RIGHT": true, "MOD": true, "INSERT": true, "INTERVAL": true}

// adjacent are functions whose name must be followed by ( without a space where introducers are
// known, unless a setting says otherwise: else the name is that of a stored function.
var adjacent = map[string]bool{
	"adddate": true, "bit_and": true, "bit_or": true, "bit_xor": true, "cast": true, "count": true, "curdate": true, "curtime": true, "date_add": true,
	"date_sub": true, "extract": true, "group_concat": true, "json_arrayagg": true, "json_objectagg": true, "max": true, "mid": true, "min": true,
	"now": true, "position": true, "session_user": true, "st_collect": true, "std": true, "stddev": true, "stddev_pop": true, "stddev_samp": true,
	"subdate": true, "substr": true, "substring": true, "sum": true, "sysdate": true, "system_user": true, "trim": true, "variance": true,
	"var_pop": true, "var_samp": true,
}

// charsets are the character sets of introducers.
var charsets = map[string]bool{
	"_armscii8": true, "_ascii": true, "_big5": true, "_binary": true, "_cp1250": true, "_cp1251": true, "_cp1256": true, "_cp1257": true, "_cp850": true,
	"_cp852": true, "_cp866": true, "_cp932": true, "_dec8": true, "_eucjpms": true, "_euckr": true, "_gb18030": true, "_gb2312": true, "_gbk": true,
	"_geostd8": true, "_greek": true, "_hebrew": true, "_hp8": true, "_keybcs2": true, "_koi8r": true, "_koi8u": true, "_latin1": true, "_latin2": true,
	"_latin5": true, "_latin7": true, "_macce": true, "_macroman": true, "_sjis": true, "_swe7": true, "_tis620": true, "_ucs2": true, "_ujis": true,
	"_utf16": true, "_utf16le": true, "_utf32": true, "_utf8": true, "_utf8mb3": true, "_utf8mb4": true,
}

// literalTypes are names of types that stand before a string where Syntax.Casts holds.
var literalTypes = map[string]bool{
	"bigint": true, "bit": true, "bool": true, "boolean": true, "bpchar": true, "bytea": true, "char": true, "cidr": true, "date": true, "decimal": true,
	"float4": true, "float8": true, "inet": true, "int": true, "int2": true, "int4": true, "int8": true, "integer": true, "interval": true, "json": true,
	"jsonb": true, "macaddr": true, "money": true, "numeric": true, "real": true, "smallint": true, "text": true, "time": true, "timestamp": true,
	"timestamptz": true, "timetz": true, "uuid": true, "varbit": true, "varchar": true,
}

// Precedences of operators, from 1. A word that has one may follow an operand.
var (
	// Where Syntax.Introducer holds.
	precIntroducer = map[string]int{
		"OR": 1, "XOR": 2, "AND": 3, "&&": 3, "NOT": 4,
		"=": 5, "<=>": 5, ">=": 5, ">": 5, "<=": 5, "<": 5, "<>": 5, "!=": 5, "IS": 5,
		"BETWEEN": 6, "LIKE": 6, "IN": 6, "REGEXP": 6, "RLIKE": 6, "SOUNDS": 6, "MEMBER": 6,
		"|": 7, "&": 8, "<<": 9, ">>": 9, "+": 10, "-": 10, "*": 11, "/": 11, "DIV": 11, "%": 11, "MOD": 11, "^": 12,
		"||": 13, "unary": 14, "COLLATE": 15, "->": 16, "->>": 16,
	}
	// Where Syntax.Casts holds. Operators that aren't here have that of "other".
	precCasts = map[string]int{
		"OR": 1, "AND": 3, "NOT": 4, "IS": 5, "ISNULL": 5, "NOTNULL": 5, "=": 6, ">=": 6, ">": 6, "<=": 6, "<": 6, "<>": 6, "!=": 6,
		"BETWEEN": 7, "LIKE": 7, "IN": 7, "ILIKE": 7, "SIMILAR": 7,
		"other": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, "^": 11, "AT": 12, "COLLATE": 13, "unary": 14, "[": 15, "::": 16,
	}
	// Elsewhere.
	precPlain = map[string]int{
		"OR": 1, "AND": 3, "NOT": 4,
		"=": 5, "==": 5, "<>": 5, "!=": 5, "IS": 5, "BETWEEN": 5, "IN": 5, "LIKE": 5, "GLOB": 5, "REGEXP": 5, "ISNULL": 5, "NOTNULL": 5,
		">=": 6, ">": 6, "<=": 6, "<": 6, "|": 7, "&": 7, "<<": 7, ">>": 7, "+": 8, "-": 8, "*": 9, "/": 9, "%": 9,
		"||": 10, "->": 10, "->>": 10, "COLLATE": 11, "unary": 12,
	}
)
