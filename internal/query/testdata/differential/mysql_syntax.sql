-- What MariaDB and MySQL write in their own way; what goes to the server whole.
-- on: mariadb mysql

-- name: limit with a comma
-- expect: split
SELECT id, d FROM events ORDER BY id LIMIT 20, 10;
-- name: names in backquotes
-- expect: split
SELECT `host_id`, COUNT(*) AS `the number` FROM `events` GROUP BY `host_id` ORDER BY `the number`, `host_id`;
-- name: odd names
-- expect: split
SELECT `a b`, `select`, COUNT(*), SUM(`group`) FROM `odd name``s` GROUP BY `a b`, `select` ORDER BY 1, 2;
-- name: an alias as a text
SELECT host_id AS 'host id', COUNT(*) 'n' FROM events GROUP BY host_id ORDER BY host_id;
-- name: a comment to the end of the line
SELECT COUNT(*) # all of them
FROM events;
-- name: two dashes that are none
SELECT COUNT(*), 5--3 FROM events;
-- name: a comment that is executed
SELECT COUNT(*) /*! , SUM(i) */ FROM events WHERE id < 5000;
-- name: options of SELECT
SELECT SQL_SMALL_RESULT host_id, COUNT(*) FROM events GROUP BY host_id ORDER BY host_id;
-- name: straight joins
-- expect: split
SELECT STRAIGHT_JOIN h.rack, COUNT(*) FROM hosts h JOIN events e ON h.id = e.host_id GROUP BY h.rack ORDER BY h.rack;
-- name: a straight join in the middle
SELECT COUNT(*), SUM(e.d) FROM events e STRAIGHT_JOIN hosts h ON h.id = e.host_id;
-- name: an index hint
SELECT COUNT(*), SUM(d) FROM events USE INDEX (host) WHERE host_id = 3;
-- name: chosen partitions
-- expect: split
SELECT COUNT(*), SUM(d), MIN(at), MAX(at) FROM events PARTITION (p04, p05, p11);
-- name: one chosen partition
SELECT COUNT(*), SUM(d) FROM events PARTITION (p03);
-- name: chosen subpartitions
SELECT COUNT(*), SUM(bytes) FROM logs PARTITION (y23sp0, y24);
-- name: chosen partitions with an alias
SELECT e.host_id, COUNT(*) FROM events PARTITION (p01, p02) AS e GROUP BY e.host_id ORDER BY e.host_id;
-- name: another database's name
SELECT COUNT(*), MAX(n) FROM nums WHERE n IN (SELECT id FROM events);
-- name: group by order descending by position
SELECT host_id, COUNT(*) FROM events GROUP BY host_id ORDER BY 2 DESC, 1 DESC;
-- name: order by NULL
SELECT host_id, COUNT(*) FROM events GROUP BY host_id ORDER BY NULL;
-- name: having with an alias
-- expect: split
SELECT host_id, COUNT(*) AS n FROM events GROUP BY host_id HAVING n > 90 ORDER BY host_id;
-- name: having without aggregates or groups
SELECT id, i FROM orders JOIN events USING (id) HAVING i > 95 ORDER BY id;
-- name: distinct rows under another name
SELECT DISTINCTROW host_id FROM events ORDER BY host_id;
-- name: integer division and modulus
SELECT i DIV 10 AS k, COUNT(*), SUM(i MOD 7) FROM events WHERE id < 5000 GROUP BY i DIV 10 ORDER BY k;
-- name: IF, IFNULL
-- expect: split
SELECT IF(i > 0, 'p', 'n') AS k, COUNT(*), SUM(IFNULL(d, 0)) FROM events GROUP BY IF(i > 0, 'p', 'n') ORDER BY k;
-- name: comparison that takes NULL for equal
SELECT i <=> NULL AS k, COUNT(*) FROM events GROUP BY i <=> NULL ORDER BY k;
-- name: regular expressions
SELECT COUNT(*), SUM(id) FROM events WHERE v REGEXP '^[ab]' OR vb RLIKE '[0-9]$';
-- name: XOR and shifts
SELECT COUNT(*), SUM(mi << 2), MAX(iu >> 3), SUM(i > 0 XOR host_id > 5) FROM events WHERE id < 5000;
-- name: conditions as numbers
SELECT SUM(i > 0), SUM(d IS NULL), AVG(i > 0), MAX(v = 'alpha') FROM events;
-- name: conditions by host
SELECT host_id, SUM(i > 0) AS pos, SUM(i < 0) AS neg, SUM(i > 0) / COUNT(*) AS share FROM events GROUP BY host_id ORDER BY host_id;
-- name: columns that are not grouped
-- expect: whole
SELECT host_id, name, COUNT(*) FROM events JOIN hosts ON hosts.id = host_id GROUP BY hosts.id ORDER BY hosts.id;
-- name: ANY_VALUE
-- on: mysql
SELECT host_id, COUNT(ANY_VALUE(host_id)) FROM events GROUP BY host_id ORDER BY host_id;
-- name: distinct count of two columns
-- expect: split
SELECT COUNT(DISTINCT host_id, i) FROM events;
-- name: distinct count of two columns by key
SELECT region, COUNT(DISTINCT page, ms % 3) FROM visits GROUP BY region ORDER BY region;
-- name: fields of a list
SELECT FIELD(en, 'alpha', 'Mid') AS k, ELT(1 + host_id % 3, 'a', 'b', 'c') AS e3, COUNT(*) FROM events GROUP BY k, e3 ORDER BY k, e3;
-- name: many text functions
SELECT MAX(LPAD(id, 6, '0')), MIN(REVERSE(vb)), MAX(REPLACE(v, 'a', 'A')), MAX(LEFT(tx, 3)), MIN(MD5(v)), MAX(INSTR(tx, 't')), MAX(CHAR_LENGTH(v)), MIN(CONCAT_WS('-', v, vb, c)) FROM events;
-- name: checksums
-- expect: split
SELECT COUNT(*), BIT_XOR(CRC32(CONCAT_WS('|', id, at, d, v))), SUM(CRC32(v)) FROM events;
-- name: many number functions
SELECT SUM(FLOOR(d)), SUM(TRUNCATE(d, 1)), MAX(ROUND(d, -1)), SUM(SIGN(i)), MAX(CONV(mi, 10, 16)), MIN(FORMAT(d, 2)) FROM events WHERE id < 5000;
-- name: network functions
SELECT INET_NTOA(iu) AS ip, COUNT(*) FROM events WHERE iu < 90000000 GROUP BY INET_NTOA(iu) ORDER BY MIN(iu);
-- name: FROM DUAL
SELECT 1 + 1 FROM DUAL;
-- name: statements that are no query
SHOW TABLES LIKE 'orders';
-- name: a table statement in parentheses
(SELECT COUNT(*) FROM events) UNION ALL (SELECT COUNT(*) FROM orders);
-- name: lateral derived tables
-- on: mysql
SELECT h.id, x.n FROM hosts h, LATERAL (SELECT COUNT(*) AS n FROM events e WHERE e.host_id = h.id) x ORDER BY h.id;
-- name: a table of JSON
-- on: mariadb
SELECT j.x, COUNT(*) FROM events e JOIN JSON_TABLE('[1,2,3]', '$[*]' COLUMNS (x INT PATH '$')) j ON j.x = e.host_id GROUP BY j.x ORDER BY j.x;
-- name: INTERSECT
-- on: mariadb
SELECT qty AS v FROM orders INTERSECT SELECT k FROM plain ORDER BY v;
-- name: EXCEPT
-- on: mariadb
SELECT qty AS v FROM orders EXCEPT SELECT k FROM plain ORDER BY v;
-- name: OFFSET with ROWS
-- on: mariadb
SELECT id FROM orders ORDER BY id OFFSET 5 ROWS FETCH FIRST 3 ROWS ONLY;
-- name: FETCH WITH TIES
-- on: mariadb
SELECT qty FROM orders ORDER BY qty FETCH FIRST 3 ROWS WITH TIES;
-- name: MEDIAN
-- on: mariadb
-- expect: whole
SELECT host_id, MEDIAN(i) OVER (PARTITION BY host_id) FROM events WHERE id < 100 ORDER BY id;
-- name: PERCENTILE
-- on: mariadb
SELECT DISTINCT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY i) OVER (PARTITION BY host_id) AS p FROM events WHERE id < 100 ORDER BY p;
-- name: SET STATEMENT
-- on: mariadb
SET STATEMENT group_concat_max_len = 20 FOR SELECT GROUP_CONCAT(id ORDER BY id) FROM events;
-- name: a user's function
-- expect: whole
SELECT twice(SUM(i)), COUNT(*) FROM events WHERE id < 5000;
-- name: a variable of the user
-- expect: whole
SELECT COUNT(*), @x FROM events;
-- name: a variable of the server
SELECT COUNT(*), @@div_precision_increment FROM events;
-- name: RAND
SELECT COUNT(*), RAND() < 0 FROM events;
-- name: RAND in the condition
SELECT COUNT(*) FROM events WHERE RAND() >= 0;
-- name: UUID
SELECT COUNT(*), LENGTH(UUID()) FROM events;
-- name: SLEEP
SELECT COUNT(*), SLEEP(0) FROM events;
-- name: the last identity
SELECT COUNT(*), LAST_INSERT_ID() FROM events;
-- name: found rows
-- expect: whole
SELECT SQL_CALC_FOUND_ROWS id FROM orders ORDER BY id LIMIT 3;
-- name: rows that are locked
-- expect: whole
SELECT id FROM orders WHERE id < 3 ORDER BY id FOR UPDATE;
-- name: rows that are locked in share mode
-- expect: whole
SELECT id FROM orders WHERE id < 3 ORDER BY id LOCK IN SHARE MODE;
-- name: the connection and the user
SELECT COUNT(*), CONNECTION_ID() > 0, CURRENT_USER() <> '' FROM events;
-- name: locks of the user
SELECT COUNT(*), IS_FREE_LOCK('rowmill') FROM events;
-- name: the database
SELECT COUNT(*), DATABASE() IS NOT NULL, LENGTH(VERSION()) > 0 FROM events;
-- name: the catalog
SELECT COUNT(*) > 0 FROM information_schema.columns WHERE table_name = 'events';
-- name: a table and the catalog
SELECT COUNT(*) FROM orders o JOIN information_schema.schemata s ON s.schema_name = 'information_schema';
-- name: a view with chosen partitions
SELECT COUNT(*) FROM v_events WHERE at >= '2024-05-01' AND at < '2024-06-01';
-- name: standard deviations under other names
SELECT STD(i), STDDEV(i), VARIANCE(d) FROM near;
-- name: grouped by a position of an aggregate
SELECT host_id, COUNT(*) FROM events GROUP BY 2;
-- name: aliases in the keys
SELECT i % 10 AS k, k_of.n FROM events JOIN (SELECT 1 AS n) k_of GROUP BY k, k_of.n ORDER BY k;
-- name: an alias and a column of one name in the keys
SELECT host_id % 2 AS i, COUNT(*) FROM events GROUP BY i ORDER BY COUNT(*) DESC, MIN(id) LIMIT 3;
-- name: an alias and a column of one name in HAVING
SELECT host_id % 3 AS si, COUNT(*) FROM events GROUP BY host_id % 3 HAVING si > 0 ORDER BY si;
-- name: a quoted alias in ORDER BY
SELECT host_id AS `key`, SUM(i) AS `sum of i` FROM events WHERE id < 5000 GROUP BY `key` ORDER BY `sum of i` DESC, `key`;
-- name: group by descending on MariaDB
-- on: mariadb
SELECT host_id, COUNT(*) FROM events GROUP BY host_id DESC;
-- name: collations of literals in IN
SELECT COUNT(*), SUM(id) FROM events WHERE vb IN ('abc', 'ABC ', "Abc");
-- name: user-defined names of a derived table
SELECT `x y`.`n n` FROM (SELECT COUNT(*) AS `n n` FROM events) AS `x y`;
-- name: values beyond 64 bits
SELECT COUNT(*), 18446744073709551616, 1e400 > 0, -9223372036854775809 FROM events;
-- name: subtotals and a key that is selected twice
-- expect mysql: split
-- expect mariadb: whole: selects n.i twice
SELECT n.i AS a, n.i AS b, COUNT(*) FROM near n GROUP BY n.i WITH ROLLUP;
-- name: subtotals of distinct values of single rows
-- expect mysql: split
-- expect mariadb: whole: it has WITH ROLLUP and COUNT(DISTINCT w.ci)
SELECT COUNT(DISTINCT w.ci) FROM words w GROUP BY w.id WITH ROLLUP;
-- name: aliases of tables that differ in case alone
-- expect: whole
SELECT SUM(a.i), SUM(A.host_id) FROM events a JOIN plain A ON a.id = A.id;
-- name: an order by a name that is the value of a string
-- expect: whole
SELECT 'i', id FROM events ORDER BY i, id LIMIT 5;
-- name: a window in the order of a name that is the value of a string
-- expect: whole
SELECT 'host_id', host_id AS x, COUNT(*), RANK() OVER (ORDER BY host_id) AS r FROM events GROUP BY host_id;
-- name: names that are the same in some alphabets
-- expect: whole
SELECT id AS ſ, host_id AS s FROM events ORDER BY s, ſ LIMIT 3;
-- name: an order by an expression of the alias of a window
-- expect mysql: whole: usual versions
-- expect mariadb: split
SELECT region, id, RANK() OVER (PARTITION BY region ORDER BY id) AS r FROM visits ORDER BY -r, region, id LIMIT 5;
-- name: subtotals, and a string that is the name of a key
-- expect mariadb: whole
-- expect mysql: split
SELECT 'host_id', host_id, COUNT(*) FROM events GROUP BY host_id WITH ROLLUP;
-- name: subtotals, and keys whose aliases are those of each other
-- expect mariadb: whole
-- expect mysql: split
SELECT host_id AS i, i AS host_id, COUNT(*) FROM events WHERE i < -90 GROUP BY host_id, i WITH ROLLUP;
-- name: a computed column of a derived table twice
-- expect: whole
SELECT x AS a, COUNT(DISTINCT id), x AS b FROM (SELECT -i AS x, id FROM events) d GROUP BY x;
-- name: a column that groups don't determine
-- set: sql_mode = ''
-- expect: whole
SELECT ms, region, COUNT(DISTINCT price) FROM visits GROUP BY region;
-- name: subtotals that are compared by an alias
-- expect mariadb: whole
-- expect mysql: whole: usual versions
SELECT placed AS a1 FROM orders o WHERE o.id = 77 GROUP BY o.placed WITH ROLLUP HAVING a1 <> 1;
-- name: extremes of computed dates in groups that are stored
SELECT MAX(CAST(o.placed AS DATE)) FROM orders o GROUP BY CAST(o.placed AS DATE);
