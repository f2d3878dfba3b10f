-- COUNT: of rows, of values, of expressions; one row even over no rows.

-- name: count of all rows
-- expect: split
SELECT COUNT(*) FROM events;
-- name: count of a column with NULLs
-- expect: split
SELECT COUNT(d) FROM events;
-- name: count of a column without NULLs
SELECT COUNT(id) FROM events;
-- name: count of a constant
SELECT COUNT(1) FROM events;
-- name: count of NULL
SELECT COUNT(NULL) FROM events;
-- name: several counts
-- expect: split
SELECT COUNT(*), COUNT(i), COUNT(d65), COUNT(v), COUNT(day), COUNT(js), COUNT(bl) FROM events;
-- name: count of an expression
SELECT COUNT(i * 1.0 + host_id) FROM events;
-- name: count of a condition
SELECT COUNT(CASE WHEN i > 0 THEN 1 END) FROM events;
-- name: sum of a condition
SELECT SUM(CASE WHEN i > 0 THEN 1 ELSE 0 END) FROM events;
-- name: count in one partition after pruning
SELECT COUNT(*) FROM events WHERE at >= '2024-05-01' AND at < '2024-06-01';
-- name: count in an empty partition
SELECT COUNT(*) FROM events WHERE at >= '2024-03-01' AND at < '2024-04-01';
-- name: count of no rows
-- expect: split
SELECT COUNT(*), COUNT(d) FROM events WHERE id = 0;
-- name: count where the condition is false
SELECT COUNT(*), SUM(i) FROM events WHERE 1 = 0;
-- name: count by host
-- expect: split
SELECT host_id, COUNT(*) FROM events GROUP BY host_id;
-- name: count by host in order
-- expect: split
SELECT host_id, COUNT(*) AS n FROM events GROUP BY host_id ORDER BY host_id;
-- name: count by month
-- expect: split
SELECT EXTRACT(MONTH FROM at) AS m, COUNT(*) FROM events GROUP BY EXTRACT(MONTH FROM at) ORDER BY 1;
-- name: count by two columns
-- expect: split
SELECT host_id, si, COUNT(*) FROM events WHERE si > 30000 GROUP BY host_id, si;
-- name: count of groups with NULL values
SELECT i, COUNT(*), COUNT(i) FROM events WHERE i BETWEEN 1 AND 3 OR i IS NULL GROUP BY i;
-- name: count times a number
SELECT COUNT(*) * 2, COUNT(*) + 1, -COUNT(*) FROM events;
-- name: quotient of counts
SELECT COUNT(d) / COUNT(*) FROM events;
-- name: quotient of counts by host
SELECT host_id, COUNT(d) * 100.0 / COUNT(*) AS percent FROM events GROUP BY host_id ORDER BY host_id;
-- name: count twice the same
SELECT COUNT(*), COUNT(*) FROM orders;
-- name: count of a text over 255 characters
SELECT COUNT(tx) FROM events WHERE tx LIKE 'long%';
-- name: count of a column of times
SELECT COUNT(ts) FROM events;
