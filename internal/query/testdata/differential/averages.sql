-- AVG: sum and count in the pieces, one division at the end, with the server's digits.

-- name: average of integers
-- expect: split
SELECT AVG(i) FROM events;
-- name: average of small integers
SELECT AVG(si), AVG(host_id) FROM events;
-- name: average of large integers
SELECT AVG(b) FROM events;
-- name: average of decimals
-- expect: split
SELECT AVG(d) FROM events;
-- name: average of decimals of 30 digits
SELECT AVG(d0) FROM events;
-- name: average of DECIMAL(65,30)
SELECT AVG(d65) FROM events WHERE id < 5000;
-- name: average of DECIMAL(65,30) with the extremes
SELECT AVG(d65) FROM events;
-- name: average by host
-- expect: split
SELECT host_id, AVG(i), AVG(d), AVG(d0) FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id;
-- name: averages that end in a half
SELECT AVG(x) FROM (SELECT CASE WHEN id % 2 = 0 THEN 0.00001 ELSE 0 END AS x FROM events) y;
-- name: average of thirds
SELECT AVG(d / 3), AVG(i / 7) FROM events WHERE id < 5000;
-- name: average of binary fractions
-- expect: whole
SELECT AVG(g), AVG(f) FROM events WHERE id < 5000;
-- name: average of no rows
-- expect: split
SELECT AVG(i), AVG(d), COUNT(*) FROM events WHERE id = 0;
-- name: average of one row
SELECT AVG(i), AVG(d) FROM single;
-- name: average of only NULL
SELECT AVG(i), AVG(d), AVG(g) FROM nulls;
-- name: average of a constant
SELECT AVG(1), AVG(1.5), AVG(2.000) FROM events;
-- name: average of a condition
SELECT AVG(CASE WHEN i > 0 THEN 1 ELSE 0 END) FROM events;
-- name: average in an expression
SELECT AVG(d) * 2, AVG(d) + AVG(i), ROUND(AVG(d), 3), AVG(i) / 3 FROM events WHERE id < 5000;
-- name: average beside sum and count
SELECT SUM(d), COUNT(d), AVG(d), SUM(d) / COUNT(d) FROM events;
-- name: average in a condition
SELECT host_id FROM events GROUP BY host_id HAVING AVG(d) > 0 ORDER BY host_id;
-- name: average in the order
SELECT host_id, COUNT(*) FROM events WHERE id < 5000 GROUP BY host_id ORDER BY AVG(d), host_id;
-- name: average of values near 1e9
SELECT AVG(value), AVG(value - 1000000000) FROM metrics;
-- name: average by day and host
SELECT day, host, AVG(value), AVG(cnt) FROM metrics GROUP BY day, host ORDER BY day, host;
-- name: average compared
SELECT host_id, AVG(i) > 0, AVG(d) BETWEEN -10 AND 10 FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id;
-- name: average of negative values
SELECT AVG(-d), AVG(-i), AVG(-d65) FROM events WHERE id < 5000;
-- name: an average that has more digits than its type, where it is stored
-- on: mariadb mysql
SELECT e.c, e.l, SUM(DISTINCT e.d65), AVG(COALESCE(e.iu, 0)) AS a1 FROM events e WHERE e.id < 5000 GROUP BY e.c, e.l ORDER BY a1, 1, 2;
-- name: averages of conditions
-- on: mariadb mysql
-- expect: split
SELECT host_id, AVG(CASE WHEN i > 10 THEN 1 ELSE 0 END) FROM events GROUP BY host_id ORDER BY host_id;

-- Numbers whose types MySQL gives too few digits, to which it cuts them where it stores a derived table.
-- name: averages of FLOOR of large integers in a derived table
-- on: mariadb mysql
SELECT COUNT(DISTINCT x), MAX(x), SUM(x), MIN(x) FROM (SELECT c, AVG(FLOOR(bu)) AS x FROM events WHERE id < 5000 AND d IS NULL GROUP BY c) t;
-- name: averages of COALESCE of CEILING in a derived table
-- on: mariadb mysql
SELECT COUNT(DISTINCT x), MAX(x), SUM(x), MIN(x) FROM (SELECT c, AVG(COALESCE(CEILING(bu), 1)) AS x FROM events WHERE id < 5000 AND d IS NULL GROUP BY c) t;
-- name: extremes of FLOOR of large integers with a fraction in a derived table
-- on: mariadb mysql
SELECT COUNT(DISTINCT x), MAX(x), SUM(x), MIN(x) FROM (SELECT c, MAX(FLOOR(bu) * 1.5) AS x FROM events WHERE id < 5000 AND d IS NULL GROUP BY c) t;
-- name: sums of FLOOR of large integers with a fraction in a derived table
-- on: mariadb mysql
SELECT COUNT(DISTINCT x), MAX(x), SUM(x), MIN(x) FROM (SELECT c, SUM(FLOOR(bu) * 2.5) AS x FROM events WHERE id < 5000 AND d IS NULL GROUP BY c) t;
-- name: averages of counts of bits, where they are stored
-- on: mariadb mysql
SELECT MAX(a), SUM(a) FROM (SELECT host_id, AVG(BIT_COUNT(bu)) AS a FROM events WHERE id < 5000 GROUP BY host_id) x;
-- name: averages of weeks, where they are stored
-- on: mariadb mysql
SELECT host_id, AVG(YEARWEEK(day)) AS a FROM events WHERE id < 5000 GROUP BY host_id ORDER BY COUNT(*), host_id;
-- name: averages of counts of bits over a window
-- on: mariadb mysql
SELECT host_id, AVG(MAX(BIT_COUNT(bu))) OVER (ORDER BY host_id) AS a FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id;
