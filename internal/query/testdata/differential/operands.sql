-- on: mariadb mysql
-- Expressions over groups: their operands are columns of temporary tables in the merge, and expressions in the query.

-- name: an aggregate of the query around a subquery
-- expect: whole: may be an aggregate of the query around it
SELECT (SELECT SUM(e.i)) FROM events e WHERE e.id < 5000
-- name: an aggregate of the query around a subquery with a table
-- expect: whole: may be an aggregate of the query around it
SELECT (SELECT SUM(e.i) FROM hosts LIMIT 1) FROM events e WHERE e.id < 5000
-- name: an aggregate of the query around a subquery without its table's name
-- expect: whole: may be an aggregate of the query around it
SELECT (SELECT MAX(mi) FROM hosts WHERE id = 3) FROM events WHERE id < 5000
-- name: an aggregate of a subquery by its own column
-- expect: split
SELECT host_id, COUNT(*) FROM events WHERE host_id < (SELECT MAX(id) FROM hosts WHERE rack = 'r1') GROUP BY host_id ORDER BY 1
-- name: an aggregate of a subquery by columns of both
-- expect: split
SELECT COUNT(*) FROM events e WHERE e.i < (SELECT SUM(h.id + e.host_id) FROM hosts h WHERE h.id < 4)
-- name: an aggregate of a subquery over a derived table
-- expect: split
SELECT COUNT(*) FROM events e WHERE e.i < (SELECT MAX(x) FROM (SELECT id AS x FROM hosts) h)
-- name: a count in a subquery
-- expect: split
SELECT COUNT(*), SUM(i) FROM events e WHERE (SELECT COUNT(*) FROM hosts h WHERE h.id < e.host_id) > 3
-- name: a separator that looks like an argument
SELECT host_id, GROUP_CONCAT(DISTINCT i ORDER BY i SEPARATOR '$1') FROM events WHERE id < 300 GROUP BY host_id ORDER BY 1
-- name: a separator with a dollar sign
SELECT GROUP_CONCAT(DISTINCT ti ORDER BY ti DESC SEPARATOR '$$') FROM events WHERE id < 30
-- name: JSON of a truth value that is grouped by
-- set: sql_mode = NO_ENGINE_SUBSTITUTION
-- expect: whole: tells texts, JSON and truth values apart
SELECT JSON_OBJECT('k', i > 3), COUNT(*) FROM events GROUP BY i > 3 ORDER BY 2
-- name: JSON of a negation
-- set: sql_mode = NO_ENGINE_SUBSTITUTION
-- expect: whole: tells texts, JSON and truth values apart
SELECT JSON_ARRAY(NOT bo), COUNT(*) FROM events GROUP BY NOT bo ORDER BY 2
-- name: JSON of an extreme of truth values
-- expect: whole: tells texts, JSON and truth values apart
SELECT JSON_ARRAY(MAX(i > 5), COUNT(*)) FROM events
-- name: JSON that is grouped by
-- expect: split
SELECT JSON_LENGTH(js), COUNT(*) FROM events GROUP BY JSON_LENGTH(js) ORDER BY 1
-- name: the extreme of years and a constant
-- expect: split
SELECT MIN(y) = 90, MIN(y) < 95, NULLIF(MIN(y), 90), MAX(y) IN (55, 2155) FROM events WHERE id < 5000
-- name: the extreme of years in HAVING
-- expect: split
SELECT host_id, MIN(y) AS m FROM events WHERE id < 5000 GROUP BY host_id HAVING m < 95 OR MAX(y) = 29 ORDER BY 1
-- name: the order of an extreme of years and a constant
-- expect: split
SELECT host_id, MIN(y) FROM events WHERE id < 5000 GROUP BY host_id ORDER BY MIN(y) = 90, host_id
-- name: the extreme of dates and a number
-- expect: split
SELECT MIN(day) = 240101, MAX(day) > 241201, MIN(day) = 20231121, MAX(day) BETWEEN 240101 AND 20251231 FROM events WHERE id < 5000
-- name: the extreme of times of day and a text
-- expect: split
SELECT host_id, MAX(at) FROM events GROUP BY host_id HAVING MAX(at) < 20250601 AND MAX(at) > '2024-06-01' ORDER BY 1
-- name: the extreme of large integers and a text
-- expect: split
SELECT MIN(b) = '-9223372036854775808', MAX(b) > '9223372036854775806', MAX(b) = 9223372036854775807 FROM events
-- name: the extreme of large integers without a sign and a text
SELECT MAX(bu) = '18446744073709551615', MAX(bu) = 18446744073709551615 FROM events
-- name: a computed key of large integers and a text
-- expect: split
SELECT bu + 0 AS k, COUNT(*) FROM events GROUP BY k HAVING k = '18446744073709551615' OR k < '7' ORDER BY 1
-- name: a computed duration and a text
-- expect: split
SELECT TIME(at) AS k, COUNT(*) FROM events WHERE id < 5000 GROUP BY k HAVING k > '23:50' ORDER BY 1
-- name: a computed date and a number
-- expect: split
SELECT DATE(at) AS k, COUNT(*) FROM events GROUP BY k HAVING k = 240305 OR k = 20240229 OR k > '2024-12-28' ORDER BY 1
-- name: a computed year and a number
-- expect: split: usual versions
SELECT YEAR(at) AS k, COUNT(*) FROM events GROUP BY k HAVING k > 23 ORDER BY 1
-- name: a column of years and a number
-- expect: split
SELECT y, COUNT(*), y = 95 FROM events GROUP BY y HAVING y > 95 ORDER BY y
-- name: differences of unsigned extremes
-- expect: split
SELECT MAX(iu) - MIN(iu), MAX(iu) DIV 7, MAX(tu) % 7, -MAX(ti), ~MAX(si), MAX(mi) << 3 FROM events
-- name: arithmetic with extremes of times
-- expect: split
SELECT MAX(at) + INTERVAL 1 DAY, DATEDIFF(MAX(at), MIN(at)), MAX(day) + 0, CONCAT(MIN(ts), ''), TIMESTAMPDIFF(MINUTE, MIN(at), MAX(at)), MAX(y) + 1 FROM events WHERE id < 5000
-- name: a text that a literal makes, and a column of another collation
-- expect: whole: combines several texts
SELECT IF(i > 3, 'one', 'Two') AS k, l, COUNT(*) FROM events GROUP BY k, l HAVING k = l ORDER BY 1, 2, 3
-- name: a text of a collation that is named
-- expect: whole: whose collation is named
SELECT v COLLATE utf8mb4_bin AS k, COUNT(*) FROM events WHERE id < 5000 GROUP BY k HAVING k = 'ALPHA' OR k = 'alpha' ORDER BY 2
-- name: places of computed texts
SELECT LOCATE(LOWER(v), vb), LOWER(v), vb, COUNT(*) FROM events WHERE id < 5000 GROUP BY LOWER(v), vb ORDER BY 4, 3, 2
-- name: a computed text and a literal
-- set: sql_mode = NO_ENGINE_SUBSTITUTION
-- expect: split
SELECT DATE_FORMAT(at, '%Y-%m') AS k, COUNT(*) FROM events GROUP BY k HAVING k > '2024-02' ORDER BY 1
-- name: two computed texts of one collation
-- set: sql_mode = NO_ENGINE_SUBSTITUTION
-- expect: whole: combines several texts
SELECT DATE_FORMAT(at, '%Y') AS k, DATE_FORMAT(at, '%m') AS m, COUNT(*) FROM events GROUP BY k, m HAVING k > m ORDER BY 1, 2
-- name: a function of a computed text
-- set: sql_mode = NO_ENGINE_SUBSTITUTION
-- expect: whole: is computed from a key that is an expression
SELECT DATE_FORMAT(at, '%Y-%m') AS k, COUNT(*), CONCAT(DATE_FORMAT(at, '%Y-%m'), '!') FROM events GROUP BY k ORDER BY 1
-- name: a function of a column that is grouped by
-- expect: split
SELECT CONCAT('host ', host_id), COUNT(*), host_id DIV 2, host_id / 2, FROM_UNIXTIME(host_id) FROM events GROUP BY host_id ORDER BY host_id
-- name: an expression of a key with subtotals
-- set: sql_mode = NO_ENGINE_SUBSTITUTION
-- expect mariadb: whole: it has WITH ROLLUP and repeats
-- expect mysql: whole: usual versions
SELECT i % 2, i % 2 + 1, COUNT(*) FROM events WHERE id < 5000 GROUP BY i % 2 WITH ROLLUP
-- name: HAVING of a key with subtotals
-- expect mariadb: whole: it has WITH ROLLUP and an expression of
-- expect mysql: whole: usual versions
SELECT host_id, i, COUNT(*) FROM events WHERE id < 20 GROUP BY host_id, i WITH ROLLUP HAVING i IS NULL AND host_id > 2
-- name: HAVING of an aggregate with subtotals
-- expect: split
SELECT host_id, COUNT(*) FROM events WHERE id < 5000 GROUP BY host_id WITH ROLLUP HAVING COUNT(*) > 90
-- name: DISTINCT with subtotals
-- expect mariadb: whole: it has WITH ROLLUP and DISTINCT
-- expect mysql: split
SELECT DISTINCT COUNT(*) > 90 FROM events WHERE id < 5000 GROUP BY host_id WITH ROLLUP
-- name: windows over quotients
-- expect: whole: has a quotient
SELECT host_id, SUM(COUNT(*) / 3) OVER () FROM events GROUP BY host_id
-- name: windows over quotients of sums
-- expect: whole: has a quotient
SELECT host_id, SUM(SUM(d) / 7) OVER (ORDER BY host_id) FROM events WHERE id < 5000 GROUP BY host_id ORDER BY 1
-- name: windows over averages
-- expect: whole
SELECT host_id, SUM(AVG(d)) OVER (ORDER BY host_id) FROM events WHERE id < 5000 GROUP BY host_id ORDER BY 1
-- name: windows ordered by quotients
-- expect: whole: has a quotient
SELECT host_id, RANK() OVER (ORDER BY COUNT(*) / 7, host_id) FROM events GROUP BY host_id ORDER BY 1
-- name: windows over sums
-- expect: split
SELECT host_id, SUM(SUM(d)) OVER (ORDER BY host_id), SUM(COUNT(*) * 3) OVER () FROM events WHERE id < 5000 GROUP BY host_id ORDER BY 1
-- name: groups of cp932
-- expect: whole
SELECT HEX(jp), COUNT(*) FROM codes GROUP BY jp ORDER BY 1
-- name: distinct texts of cp932
-- expect: whole
SELECT COUNT(DISTINCT jp) FROM codes
-- name: groups of big5
-- expect: whole
SELECT HEX(cn), COUNT(*) FROM codes GROUP BY cn ORDER BY 1
-- name: groups of Greek
-- expect: whole
SELECT HEX(gr), COUNT(*), HEX(MAX(gr)) FROM codes GROUP BY gr ORDER BY 1
-- name: rows in the order of cp932
-- expect: whole
SELECT jp, id FROM codes ORDER BY jp, id LIMIT 45
-- name: groups of four bytes
SELECT wide, COUNT(*) FROM codes GROUP BY wide ORDER BY 2, 1
-- name: groups of four bytes in three
-- set: character_set_results = utf8mb3
SELECT HEX(wide), COUNT(*) FROM codes GROUP BY wide ORDER BY 2, 1
-- name: shown in three bytes
-- set: character_set_results = utf8mb3
SELECT wide, COUNT(*) FROM codes GROUP BY wide ORDER BY 2, 1
-- name: groups of control characters in latin1
SELECT HEX(latin), COUNT(*) FROM codes GROUP BY latin ORDER BY 1
-- name: extremes of leading zeros
-- expect: whole
SELECT CONCAT(MAX(z)), MAX(z), MIN(bz) FROM codes
-- name: sums of leading zeros
SELECT CONCAT(SUM(z)), SUM(bz), COUNT(z), AVG(z) FROM codes
-- name: groups by the remainder of leading zeros
SELECT z % 7 AS k, SUM(bz), CONCAT(z % 7) FROM codes GROUP BY k ORDER BY 1
-- name: a computed text and bytes
-- expect: whole: whose collation is named
SELECT IF(i > 3, 'Y', 'n') AS k, COUNT(*) FROM events GROUP BY k HAVING k = X'79'
-- name: digits and bytes
-- expect: whole: whose collation is named
SELECT HEX(i % 16) AS k, COUNT(*) FROM events GROUP BY k HAVING k = x'62'
-- name: a cast duration and short texts
-- expect: split
SELECT CAST(at AS TIME) AS k, COUNT(*) FROM events WHERE id < 5000 GROUP BY k HAVING k >= '9:00' AND k < '10:00' ORDER BY 1
-- name: a made duration and a short text
-- expect: split
SELECT MAKETIME(i, 0, 0) AS k, COUNT(*) FROM events WHERE i > 0 AND id < 5000 GROUP BY k HAVING k > '9:0' ORDER BY 1
-- name: an added duration and a number
SELECT ADDTIME(dur, '01:00:00') AS k, COUNT(*) FROM events WHERE id < 5000 GROUP BY k HAVING k > 90000 ORDER BY 1
-- name: JSON taken out and compared
-- expect: whole
SELECT JSON_EXTRACT(js, '$') AS k, COUNT(*) FROM events WHERE id < 5000 GROUP BY k HAVING k = 'text' ORDER BY 2
-- name: a computed year of a column and a number
SELECT NULLIF(y, 2000) AS k, COUNT(*) FROM events WHERE id < 5000 GROUP BY k HAVING k = 95 OR k < 92 ORDER BY 1
-- name: a chosen year and a number
SELECT COALESCE(y, 1999) AS k, COUNT(*) FROM events WHERE id < 5000 GROUP BY k HAVING k = 95 OR k = 2003 ORDER BY 1
-- name: a chosen year of two and a number
SELECT IF(i > 0, y, NULL) AS k, COUNT(*) FROM events WHERE id < 5000 GROUP BY k HAVING k <> 95 ORDER BY 1
-- name: seconds beyond the digits of their type
SELECT TO_SECONDS(day) AS k, COUNT(DISTINCT i) FROM events WHERE id < 500 GROUP BY k ORDER BY 1
-- name: negative numbers without a sign
SELECT CAST(ti AS UNSIGNED) AS k, COUNT(DISTINCT d) FROM events WHERE id < 5000 GROUP BY k ORDER BY 1
-- name: sums of different negative numbers without a sign
SELECT SUM(DISTINCT CAST(ti AS UNSIGNED)) FROM events WHERE id < 5000
-- name: subtotals of seconds beyond the digits of their type
SELECT TO_SECONDS(day) AS k, COUNT(*) FROM events WHERE id < 500 GROUP BY k WITH ROLLUP
-- name: counts of different values by month
-- expect: split
SELECT MONTH(at) AS k, COUNT(DISTINCT i), COUNT(DISTINCT host_id) FROM events WHERE id < 5000 GROUP BY k ORDER BY 1
-- name: a number that is taken for a time
-- expect mariadb: split
-- expect mysql: whole: takes a number for a time
SELECT UNIX_TIMESTAMP(MIN(i)), UNIX_TIMESTAMP(MIN(d)) FROM events WHERE id < 5000
-- name: a sort by an expression of an alias
-- expect: whole
SELECT host_id, MAX(id) AS q FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id, q / 3
-- name: a sort by an expression of an aggregate
-- expect: split
SELECT host_id, MAX(i) AS q FROM events WHERE id < 5000 GROUP BY host_id ORDER BY MAX(i) % 10, host_id
-- name: places of a pattern
SELECT REGEXP_INSTR(v, 'c'), COUNT(*) FROM events GROUP BY REGEXP_INSTR(v, 'c') ORDER BY 1
-- name: computed years of zero in an order
SELECT id, COALESCE(y, 1999) AS k FROM events WHERE id BETWEEN 4000 AND 5003 OR id < 20 ORDER BY k, id LIMIT 12
-- name: years of zero and subtotals
SELECT host_id, MIN(y) FROM events GROUP BY host_id WITH ROLLUP
-- name: extremes of years of zero
SELECT host_id, MIN(y), MAX(y) FROM events GROUP BY host_id ORDER BY 1
-- name: texts of other rows of a window
-- expect mysql: whole: usual versions
-- expect mariadb: split
SELECT id, LAST_VALUE(v) OVER (PARTITION BY id, at ORDER BY id), LEAD(vbin) OVER (PARTITION BY id, at ORDER BY id) FROM events WHERE id < 50
-- name: numbers of other rows of a window
SELECT country, id, LEAD(units) OVER (PARTITION BY country ORDER BY id), ROW_NUMBER() OVER (PARTITION BY country ORDER BY id) FROM sales
-- name: an average within an expression where the server stores the groups to sort them
-- expect: whole: within an expression
SELECT day, host, AVG(value) * 100 AS x FROM metrics GROUP BY day, host ORDER BY x DESC, 1, 2
-- name: an average within an expression by the second key
-- expect: whole: within an expression
SELECT day, host, SUM(seq) / AVG(seq) FROM metrics GROUP BY day, host ORDER BY 2, 1
-- name: an average within an expression beside DISTINCT values
-- expect: whole: within an expression
SELECT host_id, AVG(d) * 100 AS x, COUNT(DISTINCT i) FROM events WHERE id < 5000 GROUP BY host_id ORDER BY x, 1
-- name: an average within an expression beside a window
-- expect: whole: within an expression
SELECT day, host, AVG(value) * 3, RANK() OVER (ORDER BY day, host) FROM metrics GROUP BY day, host ORDER BY 1, 2
-- name: an average within an expression of distinct rows
-- expect: whole: within an expression
SELECT DISTINCT AVG(seq) * 3 FROM metrics GROUP BY day, host
-- name: an average within HAVING by an alias
-- expect: whole: within an expression
SELECT day, host, AVG(seq) AS a FROM metrics GROUP BY day, host HAVING a * 3 > 7 ORDER BY COUNT(*), 1, 2
-- name: an average within an expression of a stored result
-- expect: whole: the option SQL_BUFFER_RESULT
SELECT SQL_BUFFER_RESULT day, host, AVG(seq) * 3 FROM metrics GROUP BY day, host
-- name: an average within a derived table that is sorted
-- expect: whole
SELECT x FROM (SELECT day, host, AVG(seq) * 3 AS x FROM metrics GROUP BY day, host ORDER BY x, day, host LIMIT 30) y ORDER BY 1
-- name: an average that the order is by
-- expect: split
SELECT day, host, AVG(seq) AS a FROM metrics GROUP BY day, host ORDER BY a DESC, 1, 2
-- name: an average that the order is by, beside a condition on counts
-- expect: split
SELECT host_id, AVG(d) AS a, COUNT(DISTINCT i) FROM events WHERE id < 5000 GROUP BY host_id HAVING COUNT(*) > 3 ORDER BY a, 1 LIMIT 5
-- name: quotients of sums where the server stores the groups
-- expect: split
SELECT day, host, SUM(seq) / COUNT(seq) * 3 AS x FROM metrics GROUP BY day, host ORDER BY COUNT(*), 1, 2
-- name: averages of all rows beside DISTINCT values
-- expect: split
SELECT AVG(i), COUNT(DISTINCT host_id), SUM(d) / COUNT(d) FROM events WHERE id < 5000
-- name: an average within an expression
-- on: mariadb
-- expect: split
SELECT day, host, AVG(value) * 100 FROM metrics GROUP BY day, host
-- name: an average within an expression in the order of the groups
-- on: mariadb
-- expect: split
SELECT day, host, AVG(seq) * 3, SUM(seq) / AVG(seq) FROM metrics GROUP BY day, host ORDER BY day DESC, host
-- name: an average within an expression in the order of the first key
-- on: mariadb
-- expect: split
SELECT day, AVG(seq) * 3 FROM metrics GROUP BY day, host ORDER BY 1
-- name: an average of all rows within an expression
-- on: mariadb
-- expect: split
SELECT AVG(seq) * 3, COUNT(DISTINCT host) FROM metrics HAVING AVG(seq) > 1
-- name: the largest of large rounded integers beside a list of different values
-- on: mysql
SELECT MAX(FLOOR(e.bu)) AS a1, GROUP_CONCAT(DISTINCT e.i ORDER BY e.i DESC) AS a3 FROM events e
-- name: the extreme of small integers by a key of a joined table
-- on: mysql mariadb
SELECT MIN(e.tu) AS a2 FROM (SELECT * FROM events e WHERE e.id < 5000) e LEFT JOIN hosts h USING (id) WHERE e.id < 5000 AND (e.bu, h.weight) < (5, 0.5) GROUP BY h.id
