-- GROUP_CONCAT, JSON_ARRAYAGG, JSON_OBJECTAGG, bits, ROLLUP of MariaDB and MySQL.
-- on: mariadb mysql

-- name: list in order
SELECT GROUP_CONCAT(id ORDER BY id) FROM events WHERE i = 5;
-- name: list in order by host
SELECT host_id, GROUP_CONCAT(id ORDER BY id) FROM events WHERE i > 90 GROUP BY host_id ORDER BY host_id;
-- name: list in descending order
SELECT GROUP_CONCAT(id ORDER BY id DESC) FROM events WHERE i = 5;
-- name: list with a separator
SELECT host_id, GROUP_CONCAT(i ORDER BY i, id SEPARATOR ' | ') FROM events WHERE i > 90 GROUP BY host_id ORDER BY host_id;
-- name: list with an empty separator
SELECT GROUP_CONCAT(i ORDER BY id SEPARATOR '') FROM events WHERE id < 50;
-- name: list with a separator of a quote
SELECT GROUP_CONCAT(i ORDER BY id SEPARATOR '''') FROM events WHERE id < 50;
-- name: list of distinct values
-- expect: split
SELECT GROUP_CONCAT(DISTINCT host_id ORDER BY host_id) FROM events;
-- name: list of distinct values by group
SELECT region, GROUP_CONCAT(DISTINCT ms % 7 ORDER BY ms % 7 DESC SEPARATOR '/') FROM visits GROUP BY region ORDER BY region;
-- name: list of distinct texts
SELECT GROUP_CONCAT(DISTINCT vb ORDER BY vb) FROM events;
-- name: list cut at 1024 bytes
SELECT GROUP_CONCAT(id ORDER BY id), LENGTH(GROUP_CONCAT(id ORDER BY id)) FROM events;
-- name: list cut at 10 bytes
-- set: group_concat_max_len = 10
SELECT host_id, GROUP_CONCAT(id ORDER BY id) FROM events GROUP BY host_id ORDER BY host_id;
-- name: list of a megabyte
-- set: group_concat_max_len = 4000000
SELECT LENGTH(GROUP_CONCAT(tx ORDER BY id)), MD5(GROUP_CONCAT(tx, d, at ORDER BY id, at SEPARATOR ';')) FROM events;
-- name: list cut within a character
-- set: group_concat_max_len = 10
SELECT GROUP_CONCAT(v ORDER BY id) FROM events WHERE v IN ('ü', 'beta');
-- name: list of several arguments
SELECT host_id, GROUP_CONCAT(i, '=', si ORDER BY id) FROM events WHERE i > 95 GROUP BY host_id ORDER BY host_id;
-- name: list of NULLs
SELECT GROUP_CONCAT(i ORDER BY id), GROUP_CONCAT(v) FROM nulls;
-- name: list of no rows
SELECT GROUP_CONCAT(i ORDER BY i) FROM empties;
-- name: list with empty texts
SELECT GROUP_CONCAT(v ORDER BY id), COUNT(v) FROM events WHERE v = '' OR v IS NULL;
-- name: list of decimals and times
SELECT GROUP_CONCAT(d ORDER BY id), GROUP_CONCAT(at ORDER BY id), GROUP_CONCAT(day ORDER BY id) FROM events WHERE id < 30;
-- name: list without order in one partition
SELECT GROUP_CONCAT(id) FROM single;
-- name: list in a function
SELECT UPPER(GROUP_CONCAT(v ORDER BY id)), CONCAT('[', GROUP_CONCAT(id ORDER BY id), ']') FROM events WHERE id < 40;
-- name: list beside sums
SELECT host_id, COUNT(*), SUM(d), GROUP_CONCAT(id ORDER BY id), AVG(i) FROM events WHERE i > 95 GROUP BY host_id ORDER BY host_id;
-- name: list in HAVING
SELECT host_id FROM events WHERE i > 97 GROUP BY host_id HAVING GROUP_CONCAT(i ORDER BY i) LIKE '98%' ORDER BY host_id;
-- name: list in an order that ties
SELECT LENGTH(GROUP_CONCAT(host_id ORDER BY host_id)) FROM events WHERE id < 300;
-- name: list of long texts
SELECT GROUP_CONCAT(tx ORDER BY id) FROM events WHERE tx LIKE 'long%';
-- name: list of bytes
SELECT HEX(GROUP_CONCAT(vbin ORDER BY id)), HEX(GROUP_CONCAT(bl ORDER BY id)) FROM events WHERE id < 30;
-- name: list of groups by the partitioning column
SELECT region, GROUP_CONCAT(id ORDER BY id) FROM visits GROUP BY region ORDER BY region;

-- name: JSON array by order of the key
SELECT JSON_ARRAYAGG(id) FROM single;
-- name: JSON array of no rows
SELECT JSON_ARRAYAGG(id) FROM empties;
-- name: JSON array over many partitions
SELECT JSON_LENGTH(JSON_ARRAYAGG(id)) FROM events;
-- name: JSON object
SELECT JSON_OBJECTAGG(id, v) FROM single;
-- name: JSON object over many partitions
SELECT JSON_LENGTH(JSON_OBJECTAGG(id, i)) FROM events;
-- name: JSON object by group
SELECT host_id, JSON_LENGTH(JSON_OBJECTAGG(id, d)) FROM events WHERE i > 90 GROUP BY host_id ORDER BY host_id;

-- name: bits of integers
-- expect: split
SELECT BIT_AND(iu), BIT_OR(iu), BIT_XOR(iu) FROM events WHERE id < 5000;
-- name: bits of large integers
SELECT BIT_AND(bu), BIT_OR(bu), BIT_XOR(bu) FROM events WHERE id <> 5001;
-- name: bits of negative integers
SELECT BIT_AND(i), BIT_OR(i), BIT_XOR(i) FROM events WHERE id < 5000;
-- name: bits by host
SELECT host_id, BIT_AND(mi), BIT_OR(mi), BIT_XOR(mi) FROM events GROUP BY host_id ORDER BY host_id;
-- name: bits of no rows
-- expect: split
SELECT BIT_AND(i), BIT_OR(i), BIT_XOR(i) FROM empties;
-- name: bits of NULLs
SELECT BIT_AND(i), BIT_OR(i), BIT_XOR(i) FROM nulls;
-- name: bits of decimals and fractions
SELECT BIT_OR(d), BIT_AND(g), BIT_XOR(d) FROM events WHERE id < 5000;
-- name: bits in expressions
SELECT BIT_OR(iu) & 255, BIT_XOR(iu) ^ 1, ~BIT_AND(mi) FROM events WHERE id < 5000;
-- name: bits of binary strings
SELECT HEX(BIT_OR(bin4)), HEX(BIT_AND(vbin)) FROM single JOIN events ON events.id = single.id;
-- name: a column of bits
SELECT bt, COUNT(*) FROM events WHERE bt < 40 GROUP BY bt ORDER BY bt;
-- name: extremes and sums of a column of bits
SELECT MIN(bt), MAX(bt), SUM(bt), AVG(bt), COUNT(DISTINCT bt) FROM events;
-- name: a column of bits plus 0
SELECT bt + 0, COUNT(*) FROM events GROUP BY bt + 0 ORDER BY 1 LIMIT 20;
-- name: rows with bits
SELECT id, bt, HEX(bt), BIN(bt), bt & 3 FROM events WHERE id < 60 ORDER BY id;

-- name: rollup of one key
-- expect: split
SELECT host_id, COUNT(*), SUM(d) FROM events WHERE host_id IS NOT NULL AND id < 5000 GROUP BY host_id WITH ROLLUP;
-- name: rollup of two keys
SELECT region, ms % 2 AS odd, COUNT(*), SUM(price) FROM visits WHERE region > 0 AND ms IS NOT NULL GROUP BY region, ms % 2 WITH ROLLUP;
-- name: rollup of three keys
SELECT host_id, i % 2 AS a, si % 2 AS b2, COUNT(*), SUM(d), MAX(at) FROM events WHERE id < 5000 AND i > 0 AND si > 0 AND host_id < 5 GROUP BY host_id, i % 2, si % 2 WITH ROLLUP;
-- name: rollup of a key with NULL
SELECT host_id, COUNT(*) FROM events GROUP BY host_id WITH ROLLUP;
-- name: rollup with averages
SELECT host_id, AVG(d), AVG(i), SUM(d) / COUNT(*) FROM events WHERE host_id IS NOT NULL AND id < 5000 GROUP BY host_id WITH ROLLUP;
-- name: rollup with distinct counts
SELECT host_id, COUNT(DISTINCT i), COUNT(*) FROM events WHERE host_id IS NOT NULL GROUP BY host_id WITH ROLLUP;
-- name: rollup with extremes
SELECT metric, host, MIN(value), MAX(value), MIN(day) FROM metrics GROUP BY metric, host WITH ROLLUP;
-- name: rollup with having
SELECT host_id, COUNT(*) AS n FROM events WHERE host_id IS NOT NULL GROUP BY host_id WITH ROLLUP HAVING n > 95;
-- name: rollup with a limit
SELECT host_id, COUNT(*) FROM events WHERE host_id IS NOT NULL GROUP BY host_id WITH ROLLUP LIMIT 5;
-- name: rollup of no rows
SELECT i, COUNT(*), SUM(d) FROM empties GROUP BY i WITH ROLLUP;
-- name: rollup of text
SELECT vb, COUNT(*) FROM events WHERE vb <> '' GROUP BY vb WITH ROLLUP;
-- name: rollup in a derived table
SELECT COUNT(*), SUM(n) FROM (SELECT host_id, COUNT(*) AS n FROM events WHERE host_id IS NOT NULL GROUP BY host_id WITH ROLLUP) x;
-- name: rollup by the partitioning column
SELECT region, COUNT(*), SUM(price) FROM visits WHERE region IS NOT NULL GROUP BY region WITH ROLLUP;
-- name: rollup with coalesce
SELECT COALESCE(metric, 'all') AS m, SUM(cnt) FROM metrics GROUP BY metric WITH ROLLUP;
-- name: rollup with lists
SELECT host_id, GROUP_CONCAT(id ORDER BY id) FROM events WHERE i > 97 AND host_id IS NOT NULL GROUP BY host_id WITH ROLLUP;
-- name: rollup with GROUPING
-- on: mysql
SELECT host_id, GROUPING(host_id), COUNT(*) FROM events GROUP BY host_id WITH ROLLUP;

-- name: bitwise aggregates as binary fractions
SELECT SIGN(BIT_AND(u.i)), BIT_AND(u.i) + 0e0, BIT_OR(d) + 0e0 FROM nulls u;
-- name: bitwise aggregates of negative numbers as binary fractions, by host
SELECT host_id, BIT_OR(-ABS(i)) * 1e0, SQRT(BIT_XOR(bu)) FROM events GROUP BY host_id ORDER BY host_id;
-- name: having bitwise aggregates above a binary fraction
SELECT host_id, COUNT(*) FROM events GROUP BY host_id HAVING BIT_OR(-ABS(i)) > 5e0 ORDER BY host_id;
-- name: having a bitwise aggregate by its alias above a binary fraction
SELECT host_id, BIT_OR(-ABS(i)) AS b FROM events GROUP BY host_id HAVING b > 5e0 ORDER BY b + 0e0, host_id;
-- name: bitwise aggregates of a derived table as binary fractions
SELECT SUM(b + 0e0 > 5), SUM(SIGN(b)) FROM (SELECT host_id, BIT_OR(-ABS(i)) AS b FROM events GROUP BY host_id) t;
