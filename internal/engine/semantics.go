package engine

// Semantics are what a query in pieces has to know of a server beyond the rules of Syntax: where
// servers differ, where a description isn't what a result has, and where a version has a fault. The
// zero value has none of it.
//
// Each field names the servers, and the smallest query that shows it. In these, t has a column k
// INT of 1, 2 and 3. Faults of MySQL that 8.0.15 has and 9.7.4 hasn't are those of all versions
// before 9.7.
type Semantics struct {
	NameSemantics
	RowSemantics
	ValueSemantics
	TimeSemantics
}

// NameSemantics are rules of names.
type NameSemantics struct {
	// FoldsColumns: names of columns that differ in case alone are the same. All but PostgreSQL:
	// SELECT A FROM (SELECT 1 AS a) AS s.
	FoldsColumns bool
	// FoldsOperands: whether names of operands of FROM that differ in case alone are the same
	// depends on a setting. MariaDB, MySQL: SELECT 1 FROM t AS a JOIN t AS A.
	FoldsOperands bool
	// ImplicitNames: an element of the select list without an alias has a name for other clauses.
	// MariaDB, MySQL, PostgreSQL: SELECT lower('B') FROM t ORDER BY lower.
	ImplicitNames bool
	// AliasesInWhere: conditions may use aliases of the select list. SQLite: SELECT k AS a FROM t
	// WHERE a = 1.
	AliasesInWhere bool
	// EarlyCTEs: a CTE hides tables in the CTEs before it. SQLite: WITH a AS (SELECT * FROM t), t
	// AS (SELECT 5) SELECT * FROM a.
	EarlyCTEs bool
	// TableRows: the name of a table within an expression stands for a row of it, and t.f may call
	// f(t). PostgreSQL: SELECT t FROM t.
	TableRows bool
	// SystemColumns aren't the same in a partition as in its table. PostgreSQL: SELECT tableoid
	// FROM t.
	SystemColumns map[string]bool
	// HiddenColumns may be columns that no catalog lists. MariaDB, MySQL: SELECT _rowid FROM t;
	// SQLite: SELECT rowid FROM t.
	HiddenColumns map[string]bool
	// TempSchema stands before the name of a temporary table where another table of this name may
	// come first. PostgreSQL: SELECT * FROM pg_temp.t.
	TempSchema string
	// SwapsNames: of two elements of the select list that are one computed column, both may get the
	// name of one. MariaDB, MySQL: SELECT x AS a, x AS b, COUNT(*) FROM (SELECT k % 2 AS x FROM t)
	// AS s GROUP BY x.
	SwapsNames bool
}

// RowSemantics are rules of the order of rows, of groups and of subtotals.
type RowSemantics struct {
	// NullsLast: ORDER BY sorts NULL after all values, and with DESC before them. PostgreSQL:
	// SELECT NULLIF(k, 1) FROM t ORDER BY 1.
	NullsLast bool
	// MissortsAliases: ORDER BY an expression in which the alias of an aggregate or of a window
	// function stands sorts wrongly. MySQL before 9.7: SELECT k, MAX(k) AS m FROM t GROUP BY k
	// ORDER BY 0 - m.
	MissortsAliases bool
	// ExactText reports a column of texts that are equal only if they are the same: elsewhere
	// collations, blanks at the end, or a domain may make others equal. MariaDB, MySQL: SELECT 'a'
	// = 'a ' COLLATE utf8mb4_bin.
	ExactText func(SchemaColumn) bool `json:"-"`
	// LooseColumns: a column that is neither a key nor aggregated has the value of any row of its
	// group. MariaDB, MySQL, SQLite: SELECT k FROM t GROUP BY k % 2.
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
	// KeepsNames: a subtotal may have the value of the row before in place of NULL, for a key that is
	// selected twice, or whose name another element has, if WHERE has an equality. MySQL before 9.7:
	// SELECT k AS a, k FROM t WHERE id = 1 GROUP BY k WITH ROLLUP, where id is the primary key.
	KeepsNames bool
	// KeepsKeys: the same in all queries, and of a key that is an expression; and counts different
	// values like those of the last group. MariaDB: SELECT NOT k FROM t GROUP BY NOT k WITH ROLLUP.
	KeepsKeys bool
	// KeepsOperands: the same of a key within an expression, or in HAVING. MariaDB, MySQL before 9.7:
	// SELECT k AS a FROM t GROUP BY k WITH ROLLUP HAVING a <> 7 returns the subtotal, too.
	KeepsOperands bool
	// KeepsOneRow: OFFSET doesn't skip the only row of counts over all rows. MySQL: SELECT COUNT(*)
	// FROM t LIMIT 1 OFFSET 1 returns a row.
	KeepsOneRow bool
	// CountsAll: COUNT(x) is COUNT(*) in a query without conditions that selects counts alone.
	// MySQL before 9.7: SELECT COUNT(*), COUNT(NULLIF(k, 1)) FROM t returns 3, 3.
	CountsAll bool
	// MistypesNeighbours: the texts that LAG, LEAD and the like return have another type than
	// described. MySQL before 9.7: SELECT LAG(CONCAT(k, '')) OVER (ORDER BY k) FROM t.
	MistypesNeighbours bool
	// DescribesAnyBranch: a set operation may be described by the sizes of one branch where conditions
	// are never met. PostgreSQL: SELECT 'a'::varchar(3) WHERE false UNION SELECT 'b'::varchar(5).
	DescribesAnyBranch bool
	// NamedCollations: a collation that an expression names counts for more than that of a column.
	// PostgreSQL: SELECT v COLLATE "C" FROM s UNION SELECT v FROM s.
	NamedCollations bool
}

// ValueSemantics are rules of the values of expressions.
type ValueSemantics struct {
	// OperandForm: what an expression returns depends on whether its operands are columns. MariaDB,
	// MySQL: MIN(y) = 90 is false for a YEAR of 1990, and m = 90 is true for SELECT MIN(y) AS m in
	// a table.
	OperandForm bool
	// HiddenDigits: decimal numbers are computed with more digits than their types have. MariaDB,
	// MySQL: SELECT k / 3 AS x, COUNT(*) FROM t GROUP BY x.
	HiddenDigits bool
	// ShortTypes: the type of what a function returns may have fewer digits than the value.
	// MariaDB: BIT_COUNT(-1) is an INT(2); MySQL: COALESCE of an unsigned and a signed integer.
	ShortTypes bool
	// EvenAverages: an average of exact numbers that is taken for an integer is rounded half to even,
	// a decimal column half up. MySQL: SELECT AVG(k) & 7 for 28.5.
	EvenAverages bool
	// QuotientDigits is how many digits after the point a quotient has beyond those of the
	// dividend. MariaDB, MySQL: div_precision_increment.
	QuotientDigits int
	// IntegerDivision: the quotient of integers is one. PostgreSQL, SQLite: SELECT 7 / 2.
	IntegerDivision bool
	// MisreadsFractions: an index of integers may be searched for another number than a fraction.
	// MariaDB, MySQL before 9.7: SELECT k FROM t FORCE INDEX (k) WHERE k = 1.5 returns 2.
	MisreadsFractions bool
	// Affinity: a column may be compared in another way than an expression of the same value.
	// SQLite: SELECT k = '1', +k = '1' FROM t.
	Affinity bool
}

// TimeSemantics are rules of times.
type TimeSemantics struct {
	// NumbersAsTimes: whether a function takes a number for a time depends on whether it is a
	// column. MySQL: UNIX_TIMESTAMP(MIN(k)) is NULL.
	NumbersAsTimes bool
	// MistakesDates: ADDTIME and SUBTIME may take the extreme of dates for a time of day. MySQL
	// before 9.7: SELECT ADDTIME(MIN(DATE('2024-01-01')), '01:00:00') FROM t.
	MistakesDates bool
	// ClockTexts: a text such as 'now' may be the current time. PostgreSQL: SELECT
	// 'now'::timestamp; SQLite: SELECT date('now').
	ClockTexts bool
	// UnixEpoch: functions of times take 'unixepoch' after a number of seconds. SQLite: SELECT
	// date(0, 'unixepoch').
	UnixEpoch bool
	// TypedLiterals: a literal is a value of the type to which it is cast, or of the column with
	// which it is compared. PostgreSQL: day < '2024-01-01 12:00' compares days.
	TypedLiterals bool
	// ZeroDates: a date without a month or a day may become another where the server stores it in
	// between. MariaDB, MySQL, with sql_mode = 'NO_ZERO_IN_DATE': SELECT DISTINCT day FROM days,
	// for 2024-06-00.
	ZeroDates bool
}
