-- DISTINCT: of rows and in aggregates.

-- name: distinct count
-- expect: split
SELECT COUNT(DISTINCT host_id) FROM events;
-- name: distinct count of decimals
SELECT COUNT(DISTINCT d) FROM events;
-- name: distinct count of an expression
SELECT COUNT(DISTINCT i % 10) FROM events;
-- name: distinct count by host
-- expect: split
SELECT host_id, COUNT(DISTINCT i) FROM events GROUP BY host_id ORDER BY host_id;
-- name: distinct sum
-- expect: split
SELECT SUM(DISTINCT i) FROM events WHERE id < 5000;
-- name: distinct average
SELECT AVG(DISTINCT i) FROM events WHERE id < 5000;
-- name: distinct sum of decimals by host
SELECT host_id, SUM(DISTINCT d), AVG(DISTINCT d) FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id;
-- name: distinct extremes
SELECT MIN(DISTINCT i), MAX(DISTINCT d) FROM events;
-- name: distinct beside plain aggregates
SELECT COUNT(DISTINCT host_id), COUNT(*), SUM(i), MAX(d) FROM events WHERE id < 5000;
-- name: distinct beside plain aggregates by month
SELECT EXTRACT(MONTH FROM at) AS m, COUNT(DISTINCT host_id), COUNT(*), SUM(d), AVG(d) FROM events WHERE id < 5000 GROUP BY EXTRACT(MONTH FROM at) ORDER BY m;
-- name: two distinct counts
SELECT COUNT(DISTINCT host_id), COUNT(DISTINCT i) FROM events;
-- name: two distinct counts by key
SELECT region, COUNT(DISTINCT page), COUNT(DISTINCT ms) FROM visits GROUP BY region ORDER BY region;
-- name: distinct count of texts
SELECT COUNT(DISTINCT v), COUNT(DISTINCT vb) FROM events;
-- name: distinct count of times
SELECT COUNT(DISTINCT day), COUNT(DISTINCT at) FROM events;
-- name: distinct count of no rows
SELECT COUNT(DISTINCT i), SUM(DISTINCT d) FROM events WHERE id = 0;
-- name: distinct count of only NULL
SELECT COUNT(DISTINCT i), COUNT(DISTINCT v) FROM nulls;
-- name: distinct rows
-- expect: split
SELECT DISTINCT host_id FROM events;
-- name: distinct rows in order
-- expect: split
SELECT DISTINCT host_id FROM events ORDER BY host_id;
-- name: distinct rows of two columns
SELECT DISTINCT region, ms % 3 AS r FROM visits ORDER BY region, r;
-- name: distinct rows of texts ordered as bytes
SELECT DISTINCT vb FROM events ORDER BY vb;
-- name: distinct rows with a limit
SELECT DISTINCT host_id FROM events ORDER BY host_id LIMIT 5;
-- name: distinct rows with a limit and an offset
SELECT DISTINCT i FROM events ORDER BY i LIMIT 10 OFFSET 5;
-- name: distinct of aggregates
SELECT DISTINCT COUNT(*) FROM orders GROUP BY status;
-- name: distinct of groups
SELECT DISTINCT qty % 2 FROM orders GROUP BY qty ORDER BY 1;
-- name: distinct rows of expressions
SELECT DISTINCT i % 5 AS r, host_id % 2 AS h FROM events ORDER BY r, h;
-- name: distinct decimals of one value and other scale
SELECT COUNT(DISTINCT d * 1.0), COUNT(DISTINCT d * 1.00) FROM events;
-- name: distinct of a whole table
SELECT COUNT(*) FROM (SELECT DISTINCT region, page FROM visits) x;
-- name: distinct in a condition
SELECT host_id FROM events GROUP BY host_id HAVING COUNT(DISTINCT i) > 60 ORDER BY host_id;
-- name: sums and averages of distinct values together
SELECT SUM(DISTINCT d), AVG(DISTINCT d), COUNT(DISTINCT d), AVG(DISTINCT i), AVG(d) FROM events WHERE id < 5000;
-- name: averages of distinct values by group
SELECT host_id, AVG(DISTINCT d), SUM(DISTINCT d), AVG(DISTINCT i) FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id;
-- name: averages of distinct values of no rows and of NULLs
SELECT AVG(DISTINCT i), SUM(DISTINCT d), AVG(DISTINCT d) FROM nulls;
-- name: averages of distinct values within expressions
SELECT AVG(DISTINCT d) * 2, ROUND(AVG(DISTINCT d), 1), AVG(DISTINCT d) > AVG(d), SUM(DISTINCT d) / COUNT(DISTINCT d) FROM events WHERE id < 5000;
-- name: averages of distinct values in a condition
SELECT host_id, AVG(DISTINCT d) FROM events WHERE id < 5000 GROUP BY host_id HAVING AVG(DISTINCT d) > 1 ORDER BY 2 DESC, 1;
