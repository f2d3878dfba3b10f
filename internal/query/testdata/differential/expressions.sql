-- Expressions over aggregates and keys, which the server computes.

-- name: arithmetic
SELECT SUM(i) * 2 - COUNT(*), SUM(d) / 7, -SUM(d), (SUM(i) + 1) * (COUNT(*) - 1) FROM events WHERE id < 5000;
-- name: case over aggregates
SELECT CASE WHEN COUNT(*) > 100 THEN 'many' ELSE 'few' END, CASE WHEN SUM(d) IS NULL THEN 0 ELSE SUM(d) END FROM events;
-- name: case over aggregates by host
SELECT host_id, CASE WHEN SUM(i) > 0 THEN SUM(d) ELSE AVG(d) END FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id;
-- name: nullif and coalesce
SELECT NULLIF(COUNT(*), 0), COALESCE(MAX(i), 0), SUM(d) / NULLIF(SUM(host_id) - SUM(host_id), 0) FROM events WHERE id < 5000;
-- name: text functions over aggregates
SELECT CONCAT(MIN(v), '..', MAX(v)), UPPER(MAX(vb)), LENGTH(MAX(tx)) FROM events WHERE id < 5000;
-- name: rounding
SELECT ROUND(SUM(d), 1), ROUND(AVG(d), 2), FLOOR(AVG(d)), CEILING(AVG(d)) FROM events WHERE id < 5000;
-- name: casts of aggregates
SELECT CAST(SUM(d) AS DECIMAL(20,4)), CAST(COUNT(*) AS CHAR(10)), CAST(AVG(d) AS DECIMAL(10,1)) FROM events WHERE id < 5000;
-- name: comparison of aggregates
SELECT COUNT(*) > COUNT(d), SUM(i) = SUM(i), MAX(i) IN (100, 2147483647), MIN(d) BETWEEN -1e10 AND 0 FROM events;
-- name: logic over aggregates
SELECT COUNT(*) > 0 AND SUM(i) IS NOT NULL, NOT (COUNT(*) = 0), COUNT(*) > 0 OR SUM(i) > 0 FROM events WHERE id < 5000;
-- name: aggregates of conditions
SELECT MAX(CASE WHEN v = 'alpha' THEN d END), MIN(CASE WHEN i > 0 THEN at END) FROM events;
-- name: an aggregate in a function of two aggregates
SELECT GREATEST(SUM(i), COUNT(*)), LEAST(MIN(d), MAX(d)), MOD(COUNT(*), 7), POWER(COUNT(*), 2) FROM events WHERE id < 5000;
-- name: the same aggregate in several expressions
SELECT SUM(d), SUM(d) + 1, SUM(d) * SUM(d) FROM plain JOIN orders USING (id);
-- name: constants only
SELECT 1 + 1, 'a' FROM single;
-- name: constants of many rows
SELECT 1, 'x' FROM orders WHERE id < 10;
-- name: expressions of rows
SELECT id, i * 2, d / 3, COALESCE(v, '-'), CASE WHEN i > 0 THEN 'p' ELSE 'n' END FROM events WHERE id < 200 ORDER BY id;
-- name: divisions of rows
SELECT id, d / 7, i / 3, d65 / 3 FROM events WHERE id < 100 ORDER BY id;
-- name: long results of rows
SELECT id, CONCAT(tx, tx, tx) FROM events WHERE tx LIKE 'long%' ORDER BY id;
-- name: extract from extremes
SELECT EXTRACT(YEAR FROM MAX(at)), EXTRACT(DAY FROM MIN(at)) FROM events;
-- name: substring of an extreme
SELECT SUBSTRING(MAX(tx), 1, 20), TRIM(MIN(c)) FROM events WHERE tx > 't2' AND id < 5000;
-- name: aggregates of arithmetic with NULL
SELECT SUM(i + NULL), COUNT(i + NULL), MAX(NULL) IS NULL FROM events;
-- name: modulus and signs
SELECT i % 3 AS r, COUNT(*), SUM(i) % 7, SIGN(SUM(d)) FROM events WHERE id < 5000 GROUP BY i % 3 ORDER BY r;
-- name: an expression of two keys
SELECT host_id * 100 + i % 2 AS k, COUNT(*) FROM events GROUP BY host_id, i % 2 ORDER BY 1, 2;
-- name: an expression of part of a key
SELECT i % 10 + 1 AS k1, COUNT(*) FROM events GROUP BY i % 10 ORDER BY k1;
-- name: a condition over keys and aggregates
SELECT host_id, host_id > 5 AND COUNT(*) > 90 FROM events GROUP BY host_id ORDER BY host_id;
-- name: aggregates nested in functions
SELECT ABS(MIN(i)) + ABS(MAX(i)), COALESCE(NULLIF(SUM(i), 0), MAX(i), -1) FROM events WHERE id < 5000;
