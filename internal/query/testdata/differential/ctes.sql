-- WITH: a CTE is cut as a derived table is, and only where it is read once.

-- name: a CTE that only filters
WITH x AS (SELECT host_id, d FROM events WHERE i > 0) SELECT host_id, COUNT(*), SUM(d) FROM x GROUP BY host_id ORDER BY host_id;
-- name: a CTE with groups
WITH x AS (SELECT host_id, COUNT(*) AS n FROM events GROUP BY host_id) SELECT COUNT(*), SUM(n), MAX(n) FROM x;
-- name: a CTE with groups in order
WITH x AS (SELECT host_id, SUM(d) AS total FROM events GROUP BY host_id) SELECT host_id, total FROM x ORDER BY total DESC, host_id LIMIT 3;
-- name: a CTE of a dimension
-- expect: split
WITH h AS (SELECT id, rack FROM hosts WHERE weight > 2) SELECT h.rack, COUNT(*) FROM events e JOIN h ON h.id = e.host_id GROUP BY h.rack ORDER BY h.rack;
-- name: a CTE of a dimension in a subquery
WITH h AS (SELECT id FROM hosts WHERE rack = 'r1') SELECT COUNT(*), SUM(d) FROM events WHERE host_id IN (SELECT id FROM h);
-- name: a CTE read twice
WITH x AS (SELECT host_id, COUNT(*) AS n FROM events GROUP BY host_id) SELECT a.host_id, a.n, b2.n FROM x a JOIN x b2 ON a.host_id = b2.host_id + 1 ORDER BY a.host_id;
-- name: a CTE compared with its own average
WITH x AS (SELECT host_id, COUNT(*) AS n FROM events GROUP BY host_id) SELECT host_id, n FROM x WHERE n > (SELECT AVG(n) FROM x) ORDER BY host_id;
-- name: two CTEs
WITH a AS (SELECT host_id, COUNT(*) AS n FROM events WHERE i > 0 GROUP BY host_id), b2 AS (SELECT host_id, COUNT(*) AS n FROM plain GROUP BY host_id) SELECT a.host_id, a.n, b2.n FROM a JOIN b2 ON a.host_id = b2.host_id ORDER BY a.host_id;
-- name: a CTE of a CTE
WITH a AS (SELECT host_id, i FROM events WHERE id < 5000), x AS (SELECT host_id, SUM(i) AS s FROM a GROUP BY host_id) SELECT host_id, s FROM x ORDER BY host_id;
-- name: a CTE with names of columns
WITH x (h, n) AS (SELECT host_id, COUNT(*) FROM events GROUP BY host_id) SELECT h, n FROM x ORDER BY h;
-- name: a CTE that hides a table
WITH hosts AS (SELECT 1 AS id, 'other' AS name) SELECT h.name, COUNT(*) FROM events e JOIN hosts h ON h.id = e.host_id GROUP BY h.name;
-- name: a CTE that hides the partitioned table
WITH events AS (SELECT id, k FROM plain) SELECT COUNT(*), SUM(k) FROM events;
-- name: a CTE that hides the partitioned table and reads it
WITH orders AS (SELECT id, qty FROM orders WHERE qty > 3) SELECT COUNT(*), SUM(qty) FROM orders;
-- name: a recursive CTE
WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 12) SELECT t.n, COUNT(e.id) FROM t LEFT JOIN events e ON e.host_id = t.n GROUP BY t.n ORDER BY t.n;
-- name: a recursive CTE joined inside
WITH RECURSIVE t (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 12) SELECT t.n, COUNT(*), SUM(e.d) FROM events e JOIN t ON e.host_id = t.n GROUP BY t.n ORDER BY t.n;
-- name: a recursive CTE over the partitioned table
WITH RECURSIVE t (id, depth) AS (SELECT id, 1 FROM orders WHERE id = 3 UNION ALL SELECT o.id, t.depth + 1 FROM orders o JOIN t ON o.id = t.id * 2 WHERE t.depth < 8) SELECT COUNT(*), MAX(depth), SUM(id) FROM t;
-- name: a CTE that is not read
WITH unused AS (SELECT COUNT(*) AS n FROM orders) SELECT COUNT(*), SUM(d) FROM events;
-- name: a CTE with a limit
WITH x AS (SELECT id, d FROM events ORDER BY id LIMIT 50) SELECT COUNT(*), SUM(d) FROM x;
-- name: a CTE within a derived table
SELECT SUM(n) FROM (WITH x AS (SELECT host_id FROM events WHERE i > 0) SELECT host_id, COUNT(*) AS n FROM x GROUP BY host_id) y;
-- name: a CTE with a union
WITH x AS (SELECT id, qty AS v FROM orders UNION ALL SELECT id, k FROM plain) SELECT COUNT(*), SUM(v) FROM x;
-- name: a CTE of distinct rows
WITH x AS (SELECT DISTINCT host_id FROM events) SELECT COUNT(*), MAX(host_id) FROM x;
-- name: groups of a derived table with groups by an alias
-- expect: split
SELECT n AS x, COUNT(*) AS c FROM (SELECT host_id, COUNT(*) AS n FROM events GROUP BY host_id) d GROUP BY x ORDER BY x;
