-- Subqueries: the partitioned table is never cut inside of NOT IN or NOT EXISTS.

-- name: IN with a subquery of a dimension
-- expect: split
SELECT COUNT(*), SUM(d) FROM events WHERE host_id IN (SELECT id FROM hosts WHERE weight > 4);
-- name: NOT IN with a subquery of a dimension
SELECT COUNT(*), SUM(d) FROM events WHERE host_id NOT IN (SELECT id FROM hosts WHERE weight > 4);
-- name: NOT IN with a subquery that has a NULL
SELECT COUNT(*), SUM(d) FROM events WHERE host_id NOT IN (SELECT host_id FROM plain);
-- name: EXISTS with a dimension
-- expect: split
SELECT COUNT(*), SUM(e.d) FROM events e WHERE EXISTS (SELECT 1 FROM hosts h WHERE h.id = e.host_id AND h.rack = 'r1');
-- name: NOT EXISTS with a dimension
SELECT COUNT(*), SUM(e.d) FROM events e WHERE NOT EXISTS (SELECT 1 FROM hosts h WHERE h.id = e.host_id);
-- name: the partitioned table inside of IN
SELECT COUNT(*), SUM(id) FROM hosts WHERE id IN (SELECT host_id FROM events WHERE i > 97);
-- name: the partitioned table inside of NOT IN
-- expect: whole
SELECT COUNT(*), SUM(id) FROM hosts WHERE id NOT IN (SELECT host_id FROM events WHERE i > 97 AND host_id IS NOT NULL);
-- name: the partitioned table inside of NOT IN with NULL
SELECT COUNT(*), SUM(id) FROM hosts WHERE id NOT IN (SELECT host_id FROM events WHERE i > 97);
-- name: the partitioned table inside of EXISTS
SELECT h.id FROM hosts h WHERE EXISTS (SELECT 1 FROM events e WHERE e.host_id = h.id AND e.i = 99) ORDER BY h.id;
-- name: the partitioned table inside of NOT EXISTS
SELECT h.id FROM hosts h WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.host_id = h.id AND e.i = 99) ORDER BY h.id;
-- name: the partitioned table inside and outside
SELECT COUNT(*), SUM(id) FROM events WHERE id IN (SELECT id + 1 FROM events WHERE i > 50);
-- name: the partitioned table inside of NOT IN and outside
SELECT COUNT(*), SUM(id) FROM events WHERE id NOT IN (SELECT id + 1 FROM events);
-- name: above the average of all rows
SELECT COUNT(*), MIN(d) FROM events WHERE d > (SELECT AVG(d) FROM events);
-- name: the newest row
SELECT id, at FROM events WHERE at = (SELECT MAX(at) FROM events);
-- name: the newest row of each host
SELECT e.host_id, e.id FROM events e WHERE e.at = (SELECT MAX(x.at) FROM events x WHERE x.host_id = e.host_id) ORDER BY e.host_id;
-- name: a scalar subquery of a dimension in the select list
SELECT e.id, (SELECT h.name FROM hosts h WHERE h.id = e.host_id) AS name FROM events e WHERE e.i > 90 ORDER BY e.id;
-- name: a scalar subquery beside aggregates
SELECT COUNT(*), (SELECT COUNT(*) FROM hosts) FROM events;
-- name: a scalar subquery of the partitioned table in the select list
SELECT h.id, (SELECT COUNT(*) FROM events e WHERE e.host_id = h.id) AS n FROM hosts h ORDER BY h.id;
-- name: a scalar subquery of an aggregate alone
SELECT (SELECT SUM(d) FROM events) AS total, (SELECT COUNT(*) FROM orders) AS n;
-- name: a scalar subquery in an aggregate
SELECT SUM(d * (SELECT MAX(id) FROM hosts)), COUNT(*) FROM events;
-- name: a correlated subquery in an aggregate
SELECT SUM((SELECT h.weight FROM hosts h WHERE h.id = e.host_id)) FROM events e;
-- name: a derived table that only filters
-- expect: split
SELECT host_id, COUNT(*), SUM(d) FROM (SELECT host_id, d FROM events WHERE i > 0) x GROUP BY host_id ORDER BY host_id;
-- name: a derived table with groups
SELECT COUNT(*), SUM(n), MAX(total) FROM (SELECT host_id, COUNT(*) AS n, SUM(d) AS total FROM events GROUP BY host_id) x;
-- name: a derived table with groups, grouped again
SELECT m, COUNT(*), AVG(n) FROM (SELECT host_id, EXTRACT(MONTH FROM at) AS m, COUNT(*) AS n FROM events GROUP BY host_id, EXTRACT(MONTH FROM at)) x GROUP BY m ORDER BY m;
-- name: a derived table with a limit
SELECT COUNT(*), SUM(id) FROM (SELECT id FROM events ORDER BY id LIMIT 100) x;
-- name: a derived table with a limit per group
SELECT SUM(total) FROM (SELECT i, SUM(d) AS total FROM events WHERE id < 5000 GROUP BY i ORDER BY SUM(d) DESC, i LIMIT 5) x;
-- name: a derived table with distinct rows
SELECT COUNT(*), SUM(i) FROM (SELECT DISTINCT host_id, i FROM events WHERE id < 5000) x;
-- name: derived tables within derived tables
SELECT k, SUM(n) FROM (SELECT k, COUNT(*) AS n FROM (SELECT i % 5 AS k FROM events WHERE id < 5000) y GROUP BY k) x GROUP BY k ORDER BY k;
-- name: a derived table with names of its own
SELECT x.a, COUNT(x.b2) FROM (SELECT host_id AS a, d AS b2 FROM events) x GROUP BY x.a ORDER BY x.a;
-- name: = ANY of a dimension
SELECT COUNT(*) FROM events WHERE host_id = ANY (SELECT id FROM hosts WHERE rack = 'r1');
-- name: > ALL of a dimension
SELECT COUNT(*), SUM(id) FROM events WHERE i > ALL (SELECT id FROM hosts);
-- name: > ALL of the partitioned table
SELECT COUNT(*) FROM plain WHERE id > ALL (SELECT i FROM events WHERE i < 50);
-- name: a subquery within a subquery
SELECT COUNT(*) FROM events WHERE host_id IN (SELECT id FROM hosts WHERE id IN (SELECT host_id FROM plain WHERE k = 2));
-- name: a subquery in a case
SELECT SUM(CASE WHEN host_id IN (SELECT id FROM hosts WHERE rack = 'r2') THEN 1 ELSE 0 END) FROM events;
-- name: a subquery in the keys
SELECT host_id IN (SELECT id FROM hosts WHERE rack = 'r2') AS r2, COUNT(*) FROM events GROUP BY host_id IN (SELECT id FROM hosts WHERE rack = 'r2') ORDER BY 1;
-- name: a subquery with two columns
SELECT COUNT(*) FROM events WHERE (host_id, i) IN (SELECT host_id, k FROM plain);
-- name: a subquery in the order
SELECT id FROM orders o WHERE id < 50 ORDER BY (SELECT c.credit FROM customers c WHERE c.id = o.customer_id), id;
-- name: a derived table of the primary key
SELECT COUNT(*), SUM(s) FROM (SELECT id, SUM(amount) AS s FROM orders GROUP BY id) x;
-- name: a derived table grouped by the partitioning column
SELECT MAX(n), MIN(n), COUNT(*) FROM (SELECT region, COUNT(*) AS n FROM visits GROUP BY region) x;
