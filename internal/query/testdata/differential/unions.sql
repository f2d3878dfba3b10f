-- UNION, per branch.

-- name: UNION ALL of two tables
-- expect: split
SELECT id FROM orders WHERE id < 20 UNION ALL SELECT id FROM plain WHERE id < 10;
-- name: UNION ALL in order
-- expect: split
SELECT id, qty AS v FROM orders UNION ALL SELECT id, k FROM plain ORDER BY id, v;
-- name: UNION of distinct rows
-- expect: split
SELECT qty AS v FROM orders UNION SELECT k FROM plain ORDER BY v;
-- name: UNION ALL of counts
-- expect: split
SELECT 'events' AS t, COUNT(*) AS n FROM events UNION ALL SELECT 'orders', COUNT(*) FROM orders UNION ALL SELECT 'plain', COUNT(*) FROM plain;
-- name: UNION ALL of groups
-- expect: split
SELECT host_id, COUNT(*) AS n FROM events GROUP BY host_id UNION ALL SELECT host_id, COUNT(*) FROM plain GROUP BY host_id;
-- name: UNION ALL of groups in order
-- expect: split
SELECT host_id, COUNT(*) AS n FROM events GROUP BY host_id UNION ALL SELECT host_id, COUNT(*) FROM plain GROUP BY host_id ORDER BY host_id, n;
-- name: UNION of groups in order
-- expect: split
SELECT host_id FROM events GROUP BY host_id UNION SELECT host_id FROM plain GROUP BY host_id ORDER BY host_id;
-- name: UNION ALL of one table twice
-- expect: split
SELECT COUNT(*) AS n FROM events WHERE i > 0 UNION ALL SELECT COUNT(*) FROM events WHERE i <= 0;
-- name: UNION ALL with a limit
-- expect: split
SELECT id FROM orders UNION ALL SELECT id FROM plain ORDER BY id LIMIT 15;
-- name: UNION ALL with a branch in parentheses
(SELECT id FROM orders ORDER BY id DESC LIMIT 3) UNION ALL (SELECT id FROM plain ORDER BY id LIMIT 2) ORDER BY id;
-- name: UNION with branches of other types
SELECT amount AS v FROM orders WHERE id < 5 UNION ALL SELECT k FROM plain WHERE id < 5;
-- name: UNION with NULL
-- expect: split
SELECT qty AS v FROM orders WHERE id < 5 UNION ALL SELECT NULL;
-- name: UNION of a branch that is pruned to one partition
-- expect: split
SELECT COUNT(*) AS n FROM events WHERE at >= '2024-05-01' AND at < '2024-06-01' UNION ALL SELECT COUNT(*) FROM events;
-- name: rows of a branch that is pruned to one partition
-- expect: split
SELECT id FROM events WHERE at >= '2024-05-01' AND at < '2024-05-10' UNION ALL SELECT id FROM events WHERE at >= '2024-12-01' ORDER BY id;
-- name: UNION in a derived table
SELECT COUNT(*), SUM(v) FROM (SELECT qty AS v FROM orders UNION ALL SELECT k FROM plain) x;
-- name: UNION of distinct rows in a derived table
SELECT COUNT(*), SUM(v) FROM (SELECT qty AS v FROM orders UNION SELECT k FROM plain) x;
-- name: UNION in a subquery
SELECT COUNT(*) FROM events WHERE host_id IN (SELECT id FROM hosts WHERE id < 3 UNION SELECT k FROM plain WHERE k > 4);
-- name: UNION ALL and UNION
-- expect: split
SELECT qty AS v FROM orders UNION ALL SELECT k FROM plain UNION SELECT 99 ORDER BY v;
-- name: UNION of a total
-- expect: split
SELECT host_id, SUM(d) AS total FROM events WHERE id < 5000 GROUP BY host_id UNION ALL SELECT NULL, SUM(d) FROM events WHERE id < 5000;
-- name: UNION of texts of other lengths
SELECT vb AS t FROM events WHERE id < 30 UNION ALL SELECT tx FROM events WHERE id < 30 ORDER BY 1;
-- name: UNION ALL of three tables
-- expect: split
SELECT 1 AS k, SUM(d) AS s FROM events UNION ALL SELECT 2, SUM(amount) FROM orders UNION ALL SELECT 3, SUM(revenue) FROM sales ORDER BY k;
-- name: UNION ALL of texts
-- expect: split
SELECT c FROM events WHERE id < 900 UNION ALL SELECT v FROM events WHERE id < 90;
-- name: UNION of texts that a collation takes for equal
SELECT ci AS t FROM words UNION SELECT uni FROM words;
-- name: UNION of times and NULL
-- expect: split
SELECT MIN(at) AS t, MAX(day) AS d FROM events WHERE id < 5000 UNION SELECT NULL, MAX(day) FROM plain ORDER BY 1, 2;
-- name: UNION of a decimal and an integer
SELECT k, SUM(d) AS s FROM plain GROUP BY k UNION SELECT host_id, COUNT(*) FROM events WHERE host_id IS NOT NULL GROUP BY host_id ORDER BY s, k;
-- name: UNION ALL with a limit that ties
-- expect: whole: run again: SQL doesn't determine the answer
SELECT 'x' AS t, k AS n FROM plain UNION ALL SELECT 'x', qty FROM orders ORDER BY n LIMIT 9;
-- name: UNION ALL with a limit and an offset
SELECT host_id AS h, SUM(i) AS n FROM events WHERE id < 5000 GROUP BY host_id UNION ALL SELECT id, k FROM plain ORDER BY n DESC, h LIMIT 12 OFFSET 7;
-- name: UNION ALL of the first rows of two tables
(SELECT id, amount FROM orders ORDER BY id DESC LIMIT 3) UNION ALL (SELECT id, d FROM events ORDER BY id LIMIT 4);
-- name: UNION ALL of a CTE
-- expect: split
WITH t AS (SELECT host_id, d FROM events WHERE i > 0) SELECT host_id, SUM(d) AS s FROM t GROUP BY host_id UNION ALL SELECT 99, AVG(qty) FROM orders ORDER BY host_id, s;
-- name: UNION ALL with the time of the statement
-- expect: split
SELECT COUNT(*) AS n, CURRENT_DATE = CURRENT_DATE AS same FROM events WHERE at < CURRENT_TIMESTAMP UNION ALL SELECT COUNT(*), CURRENT_DATE > '2020-01-01' FROM orders;
-- name: INTERSECT of keys
SELECT host_id FROM events INTERSECT SELECT k FROM plain ORDER BY host_id;
-- name: EXCEPT of keys
SELECT id FROM orders WHERE qty > 3 EXCEPT SELECT id FROM plain ORDER BY id;
-- name: INTERSECT before UNION
SELECT qty AS v FROM orders UNION ALL SELECT k FROM plain INTERSECT SELECT 3 ORDER BY v;
-- name: UNION of binary fractions
-- expect: whole
SELECT SUM(g) AS s FROM events WHERE id < 5000 UNION ALL SELECT 1.5 FROM plain WHERE id = 1;
-- name: UNION ALL of a quotient
SELECT d / 3 AS q FROM events WHERE id < 20 UNION ALL SELECT SUM(d) / 7 FROM plain;
-- name: UNION ALL with a branch that fails
SELECT COUNT(*) AS n FROM orders UNION ALL SELECT (SELECT id FROM plain) FROM events;
-- name: UNION ALL of durations and years
SELECT dur AS t FROM events WHERE id < 500 UNION ALL SELECT dur FROM events WHERE id > 600;
-- name: UNION ALL with a branch of no rows
-- expect: split
SELECT i, d FROM empties UNION ALL SELECT COUNT(*), SUM(d) FROM empties UNION ALL SELECT host_id, MAX(d) FROM events GROUP BY host_id;
