package sqltext

import "strings"

// A Keyword is a word with a meaning in SQL.
type Keyword struct {
	text string // in upper case, "" if it is none
	// Reserved says that the word must be quoted to be a name or an alias. A query that has it as an
	// unquoted name isn't split into pieces, because some servers accept such a name.
	Reserved bool
	// NotAlias reports a word that may follow an expression or table: it is an alias only after AS.
	NotAlias bool
}

var words = func() map[string]Keyword {
	m := map[string]Keyword{}
	for _, list := range []struct {
		words              string
		reserved, notAlias bool
	}{
		{`ALL AND AS ASC BETWEEN BINARY BY CASE COLLATE CREATE CROSS DEFAULT DELETE DESC DISTINCT DISTINCTROW DIV ELSE END EXCEPT EXISTS FALSE FETCH FOR
			FROM GROUP HAVING IN INNER INSERT INTERSECT INTERVAL INTO IS JOIN LEFT LIKE LIMIT MINUS MOD NATURAL NOT NULL ON OR ORDER REGEXP RIGHT RLIKE
			SELECT SET STRAIGHT_JOIN TABLE THEN TRUE UNION UNIQUE UPDATE USING VALUES WHEN WHERE WITH XOR`, true, true},
		{`AGAINST ANTI ASOF AT CONNECT CYCLE ESCAPE FILTER FORCE FULL GLOB GROUPS IGNORE ILIKE INDEXED ISNULL LATERAL LOCK MATCH MEMBER NOTNULL NULLS
			OFFSET ONLY OPERATOR OUTER OVER OVERLAPS PARTITION PIVOT PROCEDURE QUALIFY RANGE RESPECT RETURNING ROW ROWS SEARCH SEMI SEPARATOR SIMILAR
			SOUNDS START TABLESAMPLE TO UNPIVOT USE WINDOW WITHIN`, false, true},
		{`ANY ARRAY BOTH CALL CAST CHARACTER CONVERT CUBE CURRENT_CATALOG CURRENT_DATE CURRENT_ROLE CURRENT_SCHEMA CURRENT_TIME CURRENT_TIMESTAMP
			CURRENT_USER DATE DAY DAY_HOUR DAY_MICROSECOND DAY_MINUTE DAY_SECOND DOUBLE EXTRACT FIRST FUNCTION GET_FORMAT GROUPING HIGH_PRIORITY HOUR
			HOUR_MICROSECOND HOUR_MINUTE HOUR_SECOND INDEX KEY LAST LEADING LOCALTIME LOCALTIMESTAMP MATERIALIZED MICROSECOND MID MINUTE
			MINUTE_MICROSECOND MINUTE_SECOND MONTH NEXT OF OVERLAY PLACING POSITION PRECISION QUARTER RECURSIVE ROLLUP SCHEMA SECOND
			SECOND_MICROSECOND SESSION_USER SETS SHARE SOME SQL_BIG_RESULT SQL_BUFFER_RESULT SQL_CACHE SQL_CALC_FOUND_ROWS SQL_NO_CACHE
			SQL_SMALL_RESULT SUBSTR SUBSTRING TIES TIME TIMESTAMP TIMESTAMPADD TIMESTAMPDIFF TRAILING TRIM UNKNOWN USER UTC_DATE UTC_TIME
			UTC_TIMESTAMP VARYING WEEK WITHOUT YEAR YEAR_MONTH ZONE`, false, false},
		// First words of other statements, for callers that classify statements.
		{`ALTER ANALYZE BEGIN CHECKPOINT CLOSE COMMIT COPY DEALLOCATE DECLARE DESCRIBE DO DROP EVENT EXECUTE EXPLAIN FLUSH GRANT HANDLER IF KILL LOAD
			LOOP OPEN OPTIMIZE PACKAGE PRAGMA PREPARE RELEASE RENAME REPAIR REPEAT REPLACE RESET REVOKE ROLLBACK SAVEPOINT SHOW TRANSACTION TRIGGER
			TRUNCATE UNLOCK VIEW WHILE WORK XA`, false, false},
	} {
		for _, w := range strings.Fields(list.words) {
			m[w] = Keyword{w, list.reserved, list.notAlias}
		}
	}
	return m
}()

// longestWord is the length of the longest keyword.
const longestWord = 20

// LookUp returns the keyword for a word in any case; the zero Keyword if the word isn't one.
func LookUp(s string) Keyword {
	if len(s) > longestWord {
		return Keyword{}
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
