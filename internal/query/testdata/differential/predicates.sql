-- WHERE: pruning is the server's own; conditions are never enumerated or split at an OR.

-- name: a half-open range of time
-- expect: split
SELECT COUNT(*), SUM(d) FROM events WHERE at >= '2024-04-15' AND at < '2024-07-15';
-- name: BETWEEN of times
-- expect: split
SELECT COUNT(*), MIN(at), MAX(at) FROM events WHERE at BETWEEN '2024-04-30 12:00:00' AND '2024-06-01 00:00:00';
-- name: BETWEEN of times with fractions
SELECT COUNT(*), SUM(id) FROM events WHERE at BETWEEN '2024-06-01 00:00:00.000000' AND '2024-06-01 00:00:00.000001';
-- name: BETWEEN of decimals
SELECT COUNT(*), SUM(d) FROM events WHERE d BETWEEN -10.5 AND 10.5;
-- name: BETWEEN of integers
SELECT COUNT(*), SUM(i) FROM events WHERE i BETWEEN -5 AND 5;
-- name: BETWEEN reversed
SELECT COUNT(*), SUM(i) FROM events WHERE i BETWEEN 5 AND -5;
-- name: NOT BETWEEN
SELECT COUNT(*), SUM(i) FROM events WHERE i NOT BETWEEN -90 AND 90;
-- name: BETWEEN of the partitioning column by a hash
SELECT COUNT(*), SUM(amount) FROM orders WHERE id BETWEEN 17 AND 215;
-- name: BETWEEN of dates
SELECT COUNT(*), SUM(value) FROM metrics WHERE day BETWEEN '2024-01-05' AND '2024-01-25';
-- name: IN or equal
-- expect: split
SELECT COUNT(*), SUM(id) FROM visits WHERE region IN (1, 2) OR ms = 3;
-- name: IN or equal, of rows that fulfil both
SELECT COUNT(*), SUM(id) FROM visits WHERE region IN (1, 2) OR region = 2 OR id < 50;
-- name: IN of the partitioning column
-- expect: split
SELECT region, COUNT(*) FROM visits WHERE region IN (1, 4, 7, 99) GROUP BY region ORDER BY region;
-- name: IN with a value twice
SELECT COUNT(*) FROM visits WHERE region IN (1, 1, 2, 4, 1);
-- name: IN with NULL
SELECT COUNT(*) FROM visits WHERE region IN (1, 5, NULL);
-- name: NOT IN
-- expect: split
SELECT COUNT(*), SUM(id) FROM visits WHERE region NOT IN (1, 2, 6);
-- name: NOT IN with NULL
SELECT COUNT(*), SUM(id) FROM visits WHERE region NOT IN (1, NULL);
-- name: NOT IN of another column
SELECT COUNT(*), SUM(id) FROM visits WHERE page NOT IN ('/a', '');
-- name: IS NULL of the partitioning column
SELECT COUNT(*), SUM(ms), MIN(id) FROM visits WHERE region IS NULL;
-- name: IS NULL or a value
SELECT COUNT(*), SUM(ms) FROM visits WHERE region IS NULL OR region = 1;
-- name: IS NOT NULL
SELECT COUNT(*), COUNT(region) FROM visits WHERE region IS NOT NULL;
-- name: IN of a hashed key
SELECT COUNT(*), SUM(amount) FROM orders WHERE id IN (1, 7, 13, 200, 399, 1000);
-- name: equal to a hashed key
SELECT COUNT(*), SUM(amount), MAX(status) FROM orders WHERE id = 77;
-- name: not equal
SELECT COUNT(*), SUM(i) FROM events WHERE host_id <> 3;
-- name: OR of ranges of time
SELECT COUNT(*), SUM(id) FROM events WHERE at < '2024-01-15' OR at >= '2024-11-15';
-- name: overlapping ranges of time
SELECT COUNT(*), SUM(id) FROM events WHERE at < '2024-06-15' OR at >= '2024-04-15';
-- name: OR that must keep its parentheses
SELECT COUNT(*), SUM(id) FROM events WHERE host_id = 1 OR host_id = 2 AND i > 0 OR id = 5001;
-- name: a range of time and an OR
SELECT COUNT(*) FROM events WHERE (host_id = 1 OR i = 5) AND at >= '2024-05-01';
-- name: NOT of a condition
SELECT COUNT(*), SUM(i) FROM events WHERE NOT (host_id = 3 OR i > 50);
-- name: a condition that is always true
SELECT COUNT(*) FROM events WHERE 1 = 1;
-- name: a condition that is NULL
SELECT COUNT(*), MAX(i) FROM events WHERE NULL = 1;
-- name: LIKE
SELECT COUNT(*), MIN(v) FROM events WHERE v LIKE 'a%' AND id < 5000;
-- name: LIKE with a blank and a wildcard
SELECT COUNT(*) FROM events WHERE v LIKE 'a_b' OR vb LIKE '%12_';
-- name: NOT LIKE
SELECT COUNT(*) FROM events WHERE vb NOT LIKE '%b%';
-- name: a text with a quote
SELECT COUNT(*), MIN(id) FROM events WHERE v = 'a''b';
-- name: a comparison of columns
SELECT COUNT(*), SUM(id) FROM events WHERE i > host_id AND si < i;
-- name: a comparison of expressions
SELECT COUNT(*), SUM(id) FROM events WHERE i + host_id = 10 OR ABS(i) = 77;
-- name: COALESCE in the condition
SELECT COUNT(*), SUM(id) FROM events WHERE COALESCE(i, 0) = 0;
-- name: CASE in the condition
SELECT COUNT(*), SUM(id) FROM events WHERE CASE WHEN i > 0 THEN host_id ELSE 0 END = 5;
-- name: a range of two partitioning columns
SELECT COUNT(*), SUM(value) FROM metrics WHERE day = '2024-01-20' AND host >= 'h1' AND host < 'h5';
-- name: one of two partitioning columns
SELECT COUNT(*), SUM(value) FROM metrics WHERE host = 'h3';
-- name: a function of the partitioning column
SELECT COUNT(*), SUM(d) FROM events WHERE EXTRACT(MONTH FROM at) IN (2, 4);
-- name: a subpartitioned table with a range
SELECT level, COUNT(*), SUM(bytes) FROM logs WHERE at >= '2023-01-01' AND at < '2025-01-01' GROUP BY level ORDER BY level;
-- name: a subpartitioned table and its keys
SELECT COUNT(*), SUM(bytes) FROM logs WHERE at >= '2023-06-01' AND id = 200;
-- name: a list of texts
SELECT country, COUNT(*), SUM(revenue) FROM sales WHERE country IN ('de', 'us') GROUP BY country ORDER BY country;
-- name: rows by the primary key
SELECT id, amount, status FROM orders WHERE id IN (5, 50, 300) ORDER BY id;
-- name: a condition with subtraction of times
SELECT COUNT(*) FROM events WHERE at > CAST('2024-05-01' AS DATE) - INTERVAL '10' DAY;
-- name: a condition on a decimal with many digits
SELECT COUNT(*), SUM(id) FROM events WHERE d65 > 0.000000000000000000000000000000 AND d65 < 0.5;
-- name: rows of pairs
SELECT COUNT(*), SUM(id) FROM events WHERE (host_id, i) IN ((1, 5), (2, 10), (3, -20));
-- name: pruned to nothing
SELECT host_id, COUNT(*) FROM events WHERE at < '2024-01-01' AND at > '2024-02-01' GROUP BY host_id;
-- name: pruned to nothing without groups
SELECT COUNT(*), SUM(d), MIN(at) FROM events WHERE at < '2024-01-01' AND at > '2024-02-01';
-- name: at a boundary of a period
SELECT COUNT(*), MIN(id) FROM events WHERE at = '2024-06-01 00:00:00';
-- name: between two boundaries of periods
SELECT COUNT(*), MIN(at), MAX(at) FROM events WHERE at > '2024-05-31 23:59:59.999999' AND at <= '2024-06-01 00:00:00.000001';
