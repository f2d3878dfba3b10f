-- SUM: exact for integers and decimals, of any size; NULL if there are only NULLs.

-- name: sum of integers
-- expect: split
SELECT SUM(i) FROM events WHERE id < 5000;
-- name: sum of small integers
-- expect: split
SELECT SUM(si) FROM events;
-- name: sum of large integers
-- expect: split
SELECT SUM(b) FROM events WHERE id < 5000;
-- name: sum of large integers with the extremes
SELECT SUM(b) FROM events;
-- name: sum beyond 64 bits
SELECT SUM(b) FROM events WHERE b > 9000000000000000000 OR b > 4000000000000;
-- name: sum of decimals
-- expect: split
SELECT SUM(d) FROM events;
-- name: sum of decimals of 30 digits
-- expect: split
SELECT SUM(d0) FROM events;
-- name: sum of DECIMAL(65,30)
-- expect: split
SELECT SUM(d65) FROM events WHERE id < 5000;
-- name: sum of DECIMAL(65,30) with the extremes
SELECT SUM(d65) FROM events;
-- name: sum of DECIMAL(65,30) by host
-- expect: split
SELECT host_id, SUM(d65), COUNT(*) FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id;
-- name: sum of a quotient
SELECT SUM(d / 3) FROM events WHERE id < 5000;
-- name: sum of a product
SELECT SUM(d * i) FROM events WHERE id < 5000;
-- name: sum of a sum
SELECT SUM(i + si) FROM events WHERE id < 5000;
-- name: sum of a constant
SELECT SUM(1), SUM(1.50), SUM(0) FROM events;
-- name: sum of a difference of dates
SELECT SUM(amount - tax), SUM(amount + tax), SUM(amount * qty) FROM orders;
-- name: sum over no rows
-- expect: split
SELECT SUM(i), SUM(d), SUM(d65), COUNT(*) FROM events WHERE id = 0;
-- name: sum of groups with only NULL
SELECT host_id, SUM(d) FROM events WHERE d IS NULL GROUP BY host_id ORDER BY host_id;
-- name: sum plus sum
SELECT SUM(i) + SUM(si), SUM(d) - SUM(amount_of) FROM (SELECT i, si, d, i * 1.5 AS amount_of FROM events WHERE id < 5000) x;
-- name: sum of binary fractions
-- expect: whole
SELECT SUM(g) FROM events WHERE id < 5000;
-- name: sum of binary fractions by host
SELECT host_id, SUM(f), SUM(g) FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id;
-- name: sum of a binary fraction times an integer
SELECT SUM(i * 1.5e0) FROM events WHERE id < 5000;
-- name: sum by a calculated key
SELECT i % 7 AS k, SUM(b), SUM(d) FROM events WHERE id < 5000 GROUP BY i % 7 ORDER BY k;
-- name: sum with coalesce
SELECT SUM(COALESCE(d, 0)), COALESCE(SUM(d), 0) FROM events;
-- name: sum of a case
SELECT SUM(CASE WHEN d > 0 THEN d ELSE -d END), SUM(CASE WHEN d > 0 THEN d END) FROM events;
-- name: sum divided by sum
SELECT SUM(d) / SUM(i), SUM(amt) / COUNT(*) FROM (SELECT d, i, d * 2 AS amt FROM events WHERE id < 5000) x;
-- name: sum divided by count by day
SELECT day, SUM(value) / COUNT(value) FROM metrics GROUP BY day ORDER BY day;
-- name: sum in an expression with constants
SELECT SUM(d) * 1.19 + 100, ROUND(SUM(d), 1), ABS(SUM(d)) FROM events;
-- name: sums of a pivot
-- expect: split
SELECT host_id, SUM(CASE WHEN i < 0 THEN d END) AS neg, SUM(CASE WHEN i = 0 THEN d END) AS zero, SUM(CASE WHEN i > 0 THEN d END) AS pos FROM events GROUP BY host_id ORDER BY host_id;
