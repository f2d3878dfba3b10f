-- GROUP BY: keys of all kinds, NULL as one group, groups that lie in one partition.

-- name: group by a key with NULL
-- expect: split
SELECT i, COUNT(*) FROM events GROUP BY i ORDER BY i;
-- name: group by a date
-- expect: split
SELECT day, COUNT(*), SUM(d) FROM events WHERE id < 5000 GROUP BY day ORDER BY day;
-- name: group by a decimal
SELECT d, COUNT(*) FROM events WHERE d > 900 GROUP BY d ORDER BY d;
-- name: group by a DECIMAL(65,30)
SELECT d65, COUNT(*) FROM events WHERE d65 > 14000 GROUP BY d65 ORDER BY d65;
-- name: group by a binary fraction
SELECT f, COUNT(*) FROM events GROUP BY f ORDER BY f;
-- name: group by a double
SELECT g, COUNT(*) FROM events WHERE id > 4000 OR g > 600 GROUP BY g ORDER BY g;
-- name: group by a text
SELECT v, COUNT(*) FROM events WHERE id < 5000 GROUP BY v ORDER BY v;
-- name: group by a text ordered as bytes
SELECT vb, COUNT(*), MIN(id) FROM events GROUP BY vb ORDER BY vb;
-- name: group by a key that looks like a number
SELECT vb, COUNT(*) FROM events WHERE vb IN ('0123', '123', ' 123') GROUP BY vb ORDER BY vb;
-- name: empty text and NULL are two groups
SELECT v, COUNT(*) FROM events WHERE v = '' OR v IS NULL GROUP BY v ORDER BY v;
-- name: group by a fixed text
SELECT c, COUNT(*), SUM(i) FROM events WHERE id < 5000 GROUP BY c ORDER BY c;
-- name: group by an enumeration
SELECT en, COUNT(*) FROM events WHERE id < 5000 GROUP BY en ORDER BY en;
-- name: group by a condition
SELECT i > 0, COUNT(*) FROM events GROUP BY i > 0 ORDER BY 1;
-- name: group by IS NULL
SELECT d IS NULL, COUNT(*), SUM(i) FROM events WHERE id < 5000 GROUP BY d IS NULL ORDER BY 1;
-- name: group by a case
SELECT CASE WHEN i < 0 THEN 'neg' WHEN i = 0 THEN 'zero' WHEN i > 0 THEN 'pos' ELSE 'none' END AS k, COUNT(*), SUM(d) FROM events GROUP BY CASE WHEN i < 0 THEN 'neg' WHEN i = 0 THEN 'zero' WHEN i > 0 THEN 'pos' ELSE 'none' END ORDER BY COUNT(*), k;
-- name: group by an expression
-- expect: split
SELECT i % 10 AS k, COUNT(*) FROM events GROUP BY i % 10 ORDER BY k;
-- name: group by position
SELECT host_id, COUNT(*) FROM events GROUP BY 1 ORDER BY 1;
-- name: group by two positions
SELECT host_id, i % 3 AS r, COUNT(*) FROM events GROUP BY 1, 2 ORDER BY 1, 2;
-- name: group by an alias
SELECT i % 4 AS quarter_of, COUNT(*) FROM events GROUP BY quarter_of ORDER BY quarter_of;
-- name: group by an alias that is also a column
SELECT i % 4 AS si, COUNT(*) FROM plain p JOIN events e ON e.id = p.id GROUP BY i % 4 ORDER BY 1;
-- name: group by three keys
SELECT host_id, i % 2 AS a, si % 2 AS b2, COUNT(*), SUM(d) FROM events WHERE id < 5000 GROUP BY host_id, i % 2, si % 2 ORDER BY 1, 2, 3;
-- name: group by a key that is not selected
SELECT COUNT(*) FROM events GROUP BY host_id ORDER BY host_id;
-- name: group by an expression that is not selected
SELECT SUM(d), COUNT(*) FROM events WHERE id < 5000 GROUP BY i % 5 ORDER BY i % 5;
-- name: an expression of a key
-- expect: split
SELECT host_id + 100, host_id * 2, COUNT(*) FROM events GROUP BY host_id ORDER BY host_id;
-- name: an expression of key and aggregate
SELECT host_id, host_id * COUNT(*), SUM(d) + host_id FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id;
-- name: groups without aggregates
SELECT host_id FROM events GROUP BY host_id ORDER BY host_id;
-- name: groups without aggregates of two keys
SELECT host_id, i % 3 FROM events GROUP BY host_id, i % 3 ORDER BY 1, 2;
-- name: group by the partitioning column
-- expect: split
SELECT region, COUNT(*), SUM(price) FROM visits GROUP BY region ORDER BY region;
-- name: group by the partitioning column without order
SELECT region, COUNT(*), AVG(price), COUNT(DISTINCT page) FROM visits GROUP BY region;
-- name: group by the partitioning columns
SELECT day, host, COUNT(*), SUM(value), COUNT(DISTINCT metric) FROM metrics GROUP BY day, host ORDER BY day, host;
-- name: group by one of two partitioning columns
SELECT host, COUNT(*), SUM(value), AVG(cnt) FROM metrics GROUP BY host ORDER BY host;
-- name: group by the partitioning column and another
SELECT region, ms % 2 AS odd, COUNT(*), MAX(page) FROM visits GROUP BY region, ms % 2 ORDER BY 1, 2;
-- name: group by the primary key
SELECT id, COUNT(*), SUM(amount) FROM orders GROUP BY id ORDER BY id LIMIT 20;
-- name: group by year and month
SELECT EXTRACT(YEAR FROM at) AS y4, EXTRACT(MONTH FROM at) AS m, COUNT(*), AVG(d) FROM events GROUP BY EXTRACT(YEAR FROM at), EXTRACT(MONTH FROM at) ORDER BY 1, 2;
-- name: group by a long text
SELECT tx, COUNT(*) FROM events WHERE tx LIKE 'long%' GROUP BY tx ORDER BY tx;
-- name: group by a note of up to 300 letters
SELECT note, COUNT(*) FROM metrics GROUP BY note ORDER BY note;
-- name: group by a concatenation
SELECT CONCAT(vb, '/', i % 2) AS k, COUNT(*) FROM events WHERE id < 5000 GROUP BY CONCAT(vb, '/', i % 2) ORDER BY COUNT(*), MIN(id);
-- name: group by a length
SELECT LENGTH(tx), COUNT(*) FROM events GROUP BY LENGTH(tx) ORDER BY 1;
-- name: group by coalesce
SELECT COALESCE(host_id, -1), COUNT(*) FROM events GROUP BY COALESCE(host_id, -1) ORDER BY 1;
-- name: group by a constant
SELECT 'x', COUNT(*) FROM events GROUP BY 'x' || 'y';
-- name: many groups
SELECT id, d FROM events WHERE id < 5000 GROUP BY id, d ORDER BY id;
-- name: columns twice
SELECT host_id, host_id, COUNT(*), COUNT(*), host_id AS again FROM events GROUP BY host_id ORDER BY host_id;
-- name: a literal beside groups
SELECT 'all', 1, NULL, host_id, COUNT(*), 1.50 FROM events GROUP BY host_id ORDER BY host_id;
-- name: group by a nested expression
SELECT (i + 100) / 50, COUNT(*) FROM events WHERE id < 5000 GROUP BY (i + 100) / 50 ORDER BY 1;
-- name: upper case of keys
SELECT UPPER(v), COUNT(*) FROM events WHERE id < 5000 GROUP BY UPPER(v) ORDER BY 1;
-- name: a function of a key
SELECT UPPER(vb), LENGTH(vb), COUNT(*) FROM events GROUP BY vb ORDER BY vb;
-- name: subtotals of a condition that is written again
-- on: mariadb mysql
SELECT NOT si AS k, COUNT(*) FROM events WHERE id < 5000 GROUP BY NOT si WITH ROLLUP;
-- name: subtotals of a condition by its alias
-- on: mariadb mysql
SELECT si > 5 AND i > 3 AS k, COUNT(*) FROM events WHERE id < 5000 GROUP BY k WITH ROLLUP;
-- name: subtotals of two conditions that are written again
-- on: mariadb mysql
SELECT i % 3 AS m, NULLIF(si, 3) AS k, COUNT(*) FROM events WHERE id < 5000 GROUP BY i % 3, NULLIF(si, 3) WITH ROLLUP;
-- name: subtotals of integers beyond their type
-- on: mariadb
SELECT PERIOD_ADD(202401, iu) AS k, COUNT(*) AS n FROM events WHERE id < 5000 GROUP BY k WITH ROLLUP;
-- name: subtotals of a remainder by its alias
-- on: mariadb mysql
SELECT i % 3 AS k, COUNT(*), SUM(d), MIN(b) FROM events WHERE id < 5000 GROUP BY k WITH ROLLUP;
-- name: subtotals of a negated column by its position
-- on: mariadb mysql
SELECT NOT si AS k, COUNT(d), MAX(i) FROM events GROUP BY 1 WITH ROLLUP;
-- name: subtotals of a column and an alias
-- on: mariadb mysql
SELECT host_id, i % 2 AS k, COUNT(*), MAX(si) FROM events WHERE id < 5000 GROUP BY host_id, k WITH ROLLUP;
-- name: subtotals of a condition on an average, by its alias
-- on: mariadb mysql
SELECT si BETWEEN 3 AND 90 AS k, AVG(i), COUNT(b) FROM events WHERE id < 5000 GROUP BY k WITH ROLLUP;
-- name: subtotals of an hour by its alias
-- on: mariadb mysql
SELECT HOUR(at) AS h, COUNT(*), SUM(i) FROM events WHERE id < 5000 GROUP BY h WITH ROLLUP;
