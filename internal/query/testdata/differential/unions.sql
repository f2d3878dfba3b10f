-- UNION, per branch.

-- name: UNION ALL of two tables
SELECT id FROM orders WHERE id < 20 UNION ALL SELECT id FROM plain WHERE id < 10;
-- name: UNION ALL in order
SELECT id, qty AS v FROM orders UNION ALL SELECT id, k FROM plain ORDER BY id, v;
-- name: UNION of distinct rows
SELECT qty AS v FROM orders UNION SELECT k FROM plain ORDER BY v;
-- name: UNION ALL of counts
SELECT 'events' AS t, COUNT(*) AS n FROM events UNION ALL SELECT 'orders', COUNT(*) FROM orders UNION ALL SELECT 'plain', COUNT(*) FROM plain;
-- name: UNION ALL of groups
SELECT host_id, COUNT(*) AS n FROM events GROUP BY host_id UNION ALL SELECT host_id, COUNT(*) FROM plain GROUP BY host_id;
-- name: UNION ALL of groups in order
SELECT host_id, COUNT(*) AS n FROM events GROUP BY host_id UNION ALL SELECT host_id, COUNT(*) FROM plain GROUP BY host_id ORDER BY host_id, n;
-- name: UNION of groups in order
SELECT host_id FROM events GROUP BY host_id UNION SELECT host_id FROM plain GROUP BY host_id ORDER BY host_id;
-- name: UNION ALL of one table twice
SELECT COUNT(*) AS n FROM events WHERE i > 0 UNION ALL SELECT COUNT(*) FROM events WHERE i <= 0;
-- name: UNION ALL with a limit
SELECT id FROM orders UNION ALL SELECT id FROM plain ORDER BY id LIMIT 15;
-- name: UNION ALL with a branch in parentheses
(SELECT id FROM orders ORDER BY id DESC LIMIT 3) UNION ALL (SELECT id FROM plain ORDER BY id LIMIT 2) ORDER BY id;
-- name: UNION with branches of other types
SELECT amount AS v FROM orders WHERE id < 5 UNION ALL SELECT k FROM plain WHERE id < 5;
-- name: UNION with NULL
SELECT qty AS v FROM orders WHERE id < 5 UNION ALL SELECT NULL;
-- name: UNION of a branch that is pruned to one partition
SELECT COUNT(*) AS n FROM events WHERE at >= '2024-05-01' AND at < '2024-06-01' UNION ALL SELECT COUNT(*) FROM events;
-- name: rows of a branch that is pruned to one partition
SELECT id FROM events WHERE at >= '2024-05-01' AND at < '2024-05-10' UNION ALL SELECT id FROM events WHERE at >= '2024-12-01' ORDER BY id;
-- name: UNION in a derived table
SELECT COUNT(*), SUM(v) FROM (SELECT qty AS v FROM orders UNION ALL SELECT k FROM plain) x;
-- name: UNION of distinct rows in a derived table
SELECT COUNT(*), SUM(v) FROM (SELECT qty AS v FROM orders UNION SELECT k FROM plain) x;
-- name: UNION in a subquery
SELECT COUNT(*) FROM events WHERE host_id IN (SELECT id FROM hosts WHERE id < 3 UNION SELECT k FROM plain WHERE k > 4);
-- name: UNION ALL and UNION
SELECT qty AS v FROM orders UNION ALL SELECT k FROM plain UNION SELECT 99 ORDER BY v;
-- name: UNION of a total
SELECT host_id, SUM(d) AS total FROM events WHERE id < 5000 GROUP BY host_id UNION ALL SELECT NULL, SUM(d) FROM events WHERE id < 5000;
-- name: UNION of texts of other lengths
SELECT vb AS t FROM events WHERE id < 30 UNION ALL SELECT tx FROM events WHERE id < 30 ORDER BY 1;
-- name: UNION ALL of three tables
SELECT 1 AS k, SUM(d) AS s FROM events UNION ALL SELECT 2, SUM(amount) FROM orders UNION ALL SELECT 3, SUM(revenue) FROM sales ORDER BY k;
