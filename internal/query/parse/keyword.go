package parse

import "github.com/rowmill/rowmill/internal/engine"

// units are the units of INTERVAL and of functions of time.
var units = engine.WordSet(`
	MICROSECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR SECOND_MICROSECOND MINUTE_MICROSECOND MINUTE_SECOND HOUR_MICROSECOND
	HOUR_SECOND HOUR_MINUTE DAY_MICROSECOND DAY_SECOND DAY_MINUTE DAY_HOUR YEAR_MONTH`)

// options are words that Select.Options may have, with Syntax.Introducer.
var options = engine.WordSet(`
	HIGH_PRIORITY STRAIGHT_JOIN SQL_SMALL_RESULT SQL_BIG_RESULT SQL_BUFFER_RESULT SQL_NO_CACHE SQL_CACHE SQL_CALC_FOUND_ROWS`)

// Functions that are called without parentheses: bare on all servers, bareIntroducer on servers
// with Syntax.Introducer, and bareCasts on servers with Syntax.Casts. On other servers the words of
// the last two lists are names.
var (
	bare           = engine.WordSet("CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER")
	bareIntroducer = engine.WordSet("LOCALTIME LOCALTIMESTAMP UTC_DATE UTC_TIME UTC_TIMESTAMP CURRENT_ROLE")
	bareCasts      = engine.WordSet("LOCALTIME LOCALTIMESTAMP CURRENT_ROLE CURRENT_CATALOG CURRENT_SCHEMA SESSION_USER USER")
)

// callable are reserved words that are also names of functions.
var callable = engine.WordSet("LEFT RIGHT MOD INSERT INTERVAL")

// adjacent are functions whose name must be directly followed by ( on servers with
// Syntax.Introducer. After a space, these servers look for a stored function of this name, unless a
// setting permits the space.
var adjacent = engine.WordSet(`
	adddate bit_and bit_or bit_xor cast count curdate curtime date_add date_sub extract group_concat json_arrayagg json_objectagg
	max mid min now position session_user st_collect std stddev stddev_pop stddev_samp subdate substr substring sum sysdate
	system_user trim variance var_pop var_samp`)

// charsets are the character sets of introducers.
var charsets = engine.WordSet(`
	_armscii8 _ascii _big5 _binary _cp1250 _cp1251 _cp1256 _cp1257 _cp850 _cp852 _cp866 _cp932 _dec8 _eucjpms _euckr _gb18030
	_gb2312 _gbk _geostd8 _greek _hebrew _hp8 _keybcs2 _koi8r _koi8u _latin1 _latin2 _latin5 _latin7 _macce _macroman _sjis _swe7
	_tis620 _ucs2 _ujis _utf16 _utf16le _utf32 _utf8 _utf8mb3 _utf8mb4`)

// literalTypes are names of types that may stand before a string, with Syntax.Casts.
var literalTypes = engine.WordSet(`
	bigint bit bool boolean bpchar bytea char cidr date decimal float4 float8 inet int int2 int4 int8 integer interval json jsonb
	macaddr money numeric real smallint text time timestamp timestamptz timetz uuid varbit varchar`)

// Precedences of operators, from 1. Only a word with a precedence may follow an operand.
var (
	// With Syntax.Introducer.
	precIntroducer = map[string]int{
		"OR": 1, "XOR": 2, "AND": 3, "&&": 3, "NOT": 4,
		"=": 5, "<=>": 5, ">=": 5, ">": 5, "<=": 5, "<": 5, "<>": 5, "!=": 5, "IS": 5,
		"BETWEEN": 6, "LIKE": 6, "IN": 6, "REGEXP": 6, "RLIKE": 6, "SOUNDS": 6, "MEMBER": 6,
		"|": 7, "&": 8, "<<": 9, ">>": 9, "+": 10, "-": 10, "*": 11, "/": 11, "DIV": 11, "%": 11, "MOD": 11, "^": 12,
		"||": 13, "unary": 14, "COLLATE": 15, "->": 16, "->>": 16,
	}
	// With Syntax.Casts. All operators that aren't listed have the precedence of "other".
	precCasts = map[string]int{
		"OR": 1, "AND": 3, "NOT": 4, "IS": 5, "ISNULL": 5, "NOTNULL": 5, "=": 6, ">=": 6, ">": 6, "<=": 6, "<": 6, "<>": 6, "!=": 6,
		"BETWEEN": 7, "LIKE": 7, "IN": 7, "ILIKE": 7, "SIMILAR": 7,
		"other": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, "^": 11, "AT": 12, "COLLATE": 13, "unary": 14, "[": 15, "::": 16,
	}
	// On other servers.
	precPlain = map[string]int{
		"OR": 1, "AND": 3, "NOT": 4,
		"=": 5, "==": 5, "<>": 5, "!=": 5, "IS": 5, "BETWEEN": 5, "IN": 5, "LIKE": 5, "GLOB": 5, "REGEXP": 5, "ISNULL": 5, "NOTNULL": 5,
		">=": 6, ">": 6, "<=": 6, "<": 6, "|": 7, "&": 7, "<<": 7, ">>": 7, "+": 8, "-": 8, "*": 9, "/": 9, "%": 9,
		"||": 10, "->": 10, "->>": 10, "COLLATE": 11, "unary": 12,
	}
)
