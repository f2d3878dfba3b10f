package engine

// Semantics are what package query must know of a server in addition to Syntax: where servers
// differ, where a result differs from its description, and where a version has a fault. A server to
// which none of this applies has the zero value.
//
// Each field names the servers to which it applies, and the smallest query that shows it. In these
// queries, t has a column k INT with the rows 1, 2 and 3. "MySQL before 9.7" stands for faults that
// were seen in 8.0.15 and not in 9.7.4.
type Semantics struct {
	NameSemantics
	RowSemantics
	ValueSemantics
	TimeSemantics
}

// NameSemantics are rules of names.
type NameSemantics struct {
	// FoldsColumns: names of columns that differ only in case are the same name. All but PostgreSQL:
	// SELECT A FROM (SELECT 1 AS a) AS s.
	FoldsColumns bool
	// FoldsOperands: a setting decides whether names of operands of FROM that differ only in case are
	// the same name. MariaDB, MySQL: SELECT 1 FROM t AS a JOIN t AS A.
	FoldsOperands bool
	// ImplicitNames: an element of the select list without an alias has a name that clauses can use.
	// MariaDB, MySQL, PostgreSQL: SELECT lower('B') FROM t ORDER BY lower.
	ImplicitNames bool
	// AliasesInWhere: conditions may use aliases of the select list. SQLite: SELECT k AS a FROM t
	// WHERE a = 1.
	AliasesInWhere bool
	// EarlyCTEs: a CTE hides the table of the same name even in the CTEs before it. SQLite: WITH a AS
	// (SELECT * FROM t), t AS (SELECT 5) SELECT * FROM a.
	EarlyCTEs bool
	// TableRows: a table's name within an expression stands for a row of the table, and t.f may call
	// f(t). PostgreSQL: SELECT t FROM t.
	TableRows bool
	// SystemColumns have other values in a partition than in its table. PostgreSQL: SELECT tableoid
	// FROM t.
	SystemColumns map[string]bool
	// HiddenColumns are names of columns that may exist although no catalog lists them. MariaDB,
	// MySQL: SELECT _rowid FROM t; SQLite: SELECT rowid FROM t.
	HiddenColumns map[string]bool
	// TempSchema must precede a temporary table's name where another table may be found by the name.
	// PostgreSQL: SELECT * FROM pg_temp.t.
	TempSchema string
	// SwapsNames: if two elements of the select list are the same computed column, both may get the
	// name of one of them. MariaDB, MySQL: SELECT x AS a, x AS b, COUNT(*) FROM (SELECT k % 2 AS x
	// FROM t) AS s GROUP BY x.
	SwapsNames bool
}

// RowSemantics are rules of the order of rows, of groups and of subtotals.
type RowSemantics struct {
	// NullsLast: ORDER BY sorts NULL after all values, and with DESC before them. PostgreSQL:
	// SELECT NULLIF(k, 1) FROM t ORDER BY 1.
	NullsLast bool
	// MissortsAliases: ORDER BY sorts wrongly by an expression that contains the alias of an aggregate
	// or of a window function. MySQL before 9.7: SELECT k, MAX(k) AS m FROM t GROUP BY k ORDER BY 0 -
	// m.
	MissortsAliases bool
	// ExactText reports a column in which only identical texts are equal. In other columns, a
	// collation, blanks at the end, or a domain may make different texts equal. MariaDB, MySQL: SELECT
	// 'a' = 'a ' COLLATE utf8mb4_bin.
	ExactText func(SchemaColumn) bool `json:"-"`
	// LooseColumns: a column that is neither a key of the groups nor aggregated has its value from any
	// row of the group. MariaDB, MySQL, SQLite: SELECT k FROM t GROUP BY k % 2.
	LooseColumns bool
	// UnorderedParts: the list of partitions isn't in the order of their ranges. PostgreSQL lists
	// them by the texts of their bounds.
	UnorderedParts bool
	// ForgetsRows: DISTINCT with ORDER BY an expression may lose rows. MariaDB, MySQL: SELECT DISTINCT
	// CONCAT(a, 'x'), b FROM t ORDER BY b, CONCAT(a, 'x'), where a has another character set.
	ForgetsRows bool
	// LosesOffset: DISTINCT of a constant ignores OFFSET. MariaDB: SELECT DISTINCT 1 + 0 FROM t
	// LIMIT 1 OFFSET 1 returns a row.
	LosesOffset bool
	// KeepsNames: if WHERE has an equality, a key may have the previous row's value in a subtotal,
	// where NULL is right. This happens to a key that is selected twice, or whose name is also the
	// alias of another element. MySQL before 9.7: SELECT k AS a, k FROM t WHERE id = 1 GROUP BY k WITH
	// ROLLUP, where id is the primary key.
	KeepsNames bool
	// KeepsKeys: in any query, a subtotal may have the previous row's value in place of NULL, also for
	// a key that is an expression; and the subtotal's COUNT(DISTINCT) may be that of the last group.
	// MariaDB: SELECT NOT k FROM t GROUP BY NOT k WITH ROLLUP.
	KeepsKeys bool
	// KeepsOperands: a subtotal may have the previous row's value of a key within an expression, or in
	// HAVING. MariaDB, MySQL before 9.7: SELECT k AS a FROM t GROUP BY k WITH ROLLUP HAVING a <> 7
	// returns the subtotal, too.
	KeepsOperands bool
	// KeepsOneRow: if a query counts all rows, OFFSET doesn't skip its only row. MySQL: SELECT
	// COUNT(*) FROM t LIMIT 1 OFFSET 1 returns a row.
	KeepsOneRow bool
	// CountsAll: COUNT(x) counts NULLs like COUNT(*) in a query that has no conditions and selects
	// only counts. MySQL before 9.7: SELECT COUNT(*), COUNT(NULLIF(k, 1)) FROM t returns 3, 3.
	CountsAll bool
	// MistypesNeighbours: texts returned by LAG, LEAD and similar functions have another type than the
	// server's description of the result says. MySQL before 9.7: SELECT LAG(CONCAT(k, '')) OVER (ORDER
	// BY k) FROM t.
	MistypesNeighbours bool
	// DescribesAnyBranch: if a branch of a set operation has a condition that is never true, the
	// server's description of the result may have the sizes of any one branch. PostgreSQL: SELECT
	// 'a'::varchar(3) WHERE false UNION SELECT 'b'::varchar(5).
	DescribesAnyBranch bool
	// NamedCollations: a collation named in an expression takes precedence over a column's.
	// PostgreSQL: SELECT v COLLATE "C" FROM s UNION SELECT v FROM s.
	NamedCollations bool
}

// ValueSemantics are rules of the values of expressions.
type ValueSemantics struct {
	// OperandForm: an expression's value depends on whether its operands are columns. MariaDB, MySQL:
	// MIN(y) = 90 is false for a YEAR of 1990, but m = 90 is true if a table holds the result of
	// SELECT MIN(y) AS m.
	OperandForm bool
	// HiddenDigits: the server computes decimal numbers with more digits than their types have.
	// MariaDB, MySQL: SELECT k / 3 AS x, COUNT(*) FROM t GROUP BY x.
	HiddenDigits bool
	// ShortTypes: a function's result type may have fewer digits than its value. MariaDB:
	// BIT_COUNT(-1) is an INT(2); MySQL: COALESCE of an unsigned and a signed integer.
	ShortTypes bool
	// EvenAverages: where an average of exact numbers is used as an integer, the server rounds it half
	// to even; it rounds a decimal column half up. MySQL: SELECT AVG(k) & 7 for 28.5.
	EvenAverages bool
	// QuotientDigits is the number of digits after the point that a quotient has in addition to those
	// of the dividend. MariaDB, MySQL: div_precision_increment.
	QuotientDigits int
	// IntegerDivision: a quotient of integers is an integer. PostgreSQL, SQLite: SELECT 7 / 2.
	IntegerDivision bool
	// MisreadsFractions: the server may search an index of integers for another number than the given
	// fraction. MariaDB, MySQL before 9.7: SELECT k FROM t FORCE INDEX (k) WHERE k = 1.5 returns 2.
	MisreadsFractions bool
	// Affinity: the server may compare a column in another way than an expression with the column's
	// value. SQLite: SELECT k = '1', +k = '1' FROM t.
	Affinity bool
}

// TimeSemantics are rules of times.
type TimeSemantics struct {
	// NumbersAsTimes: some functions take a number for a time only if it is a column, or only if it
	// isn't. MySQL: UNIX_TIMESTAMP(MIN(k)) is NULL.
	NumbersAsTimes bool
	// MistakesDates: ADDTIME and SUBTIME may take the minimum or maximum of dates for a time of day.
	// MySQL before 9.7: SELECT ADDTIME(MIN(DATE('2024-01-01')), '01:00:00') FROM t.
	MistakesDates bool
	// ClockTexts: a text such as 'now' may be the current time. PostgreSQL: SELECT
	// 'now'::timestamp; SQLite: SELECT date('now').
	ClockTexts bool
	// UnixEpoch: functions of times take 'unixepoch' as an argument after a number of seconds. SQLite:
	// SELECT date(0, 'unixepoch').
	UnixEpoch bool
	// TypedLiterals: a literal takes the type to which it is cast, or the type of the column with
	// which it is compared. PostgreSQL: day < '2024-01-01 12:00' compares days.
	TypedLiterals bool
	// MissesDates: with an index, a date that is not between texts may be missed if the first text has
	// a time of day. MariaDB: SELECT day FROM t FORCE INDEX (day) WHERE day NOT BETWEEN '2024-01-02
	// 10:30:00' AND '2024-02-03' lacks 2024-01-02.
	MissesDates bool
	// ZeroDates: a date without a month or a day may change if the server stores it in a temporary
	// table. MariaDB, MySQL, with sql_mode = 'NO_ZERO_IN_DATE': SELECT DISTINCT day FROM days, for
	// 2024-06-00.
	ZeroDates bool
}
