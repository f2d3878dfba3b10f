-- Window functions: over groups at the merge; over rows never in pieces.

-- name: row numbers of groups
SELECT host_id, COUNT(*) AS n, ROW_NUMBER() OVER (ORDER BY host_id) AS r FROM events GROUP BY host_id ORDER BY host_id;
-- name: rank of groups
SELECT host_id, SUM(i) AS s, RANK() OVER (ORDER BY SUM(i) DESC) AS r FROM events WHERE id < 5000 GROUP BY host_id ORDER BY r, host_id;
-- name: dense rank of groups
SELECT host_id, COUNT(*), DENSE_RANK() OVER (ORDER BY COUNT(*)) AS r FROM events GROUP BY host_id ORDER BY r, host_id;
-- name: running total of groups
SELECT day, SUM(value), SUM(SUM(value)) OVER (ORDER BY day) FROM metrics GROUP BY day ORDER BY day;
-- name: share of the total
SELECT region, COUNT(*), COUNT(*) * 100 / SUM(COUNT(*)) OVER () AS share FROM visits GROUP BY region ORDER BY region;
-- name: previous group
SELECT day, COUNT(*) AS n, LAG(COUNT(*)) OVER (ORDER BY day) AS before_it FROM metrics GROUP BY day ORDER BY day;
-- name: next group
SELECT day, SUM(cnt) AS n, LEAD(SUM(cnt)) OVER (ORDER BY day) AS after_it FROM metrics GROUP BY day ORDER BY day;
-- name: moving average of groups
SELECT day, SUM(value), AVG(SUM(value)) OVER (ORDER BY day ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM metrics GROUP BY day ORDER BY day;
-- name: windows by partition of groups
SELECT host, metric, COUNT(*) AS n, ROW_NUMBER() OVER (PARTITION BY host ORDER BY metric) AS r FROM metrics GROUP BY host, metric ORDER BY host, metric;
-- name: maximum in a partition of groups
SELECT host, metric, SUM(value), MAX(SUM(value)) OVER (PARTITION BY host) FROM metrics GROUP BY host, metric ORDER BY host, metric;
-- name: a named window over groups
SELECT day, COUNT(*), SUM(COUNT(*)) OVER w, ROW_NUMBER() OVER w FROM metrics GROUP BY day WINDOW w AS (ORDER BY day) ORDER BY day;
-- name: row numbers of rows
-- expect: whole
SELECT id, ROW_NUMBER() OVER (ORDER BY at, id) AS r FROM events ORDER BY id LIMIT 50;
-- name: running total of rows
SELECT id, SUM(i) OVER (ORDER BY id) AS s FROM events WHERE id < 300 ORDER BY id;
-- name: rank of rows by host
SELECT host_id, id, RANK() OVER (PARTITION BY host_id ORDER BY d DESC, id) AS r FROM events WHERE id < 300 ORDER BY host_id, r, id;
-- name: count of all rows beside each row
SELECT id, COUNT(*) OVER () AS n FROM orders WHERE id < 50 ORDER BY id;
-- name: a window in a derived table
SELECT COUNT(*), SUM(id) FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY host_id ORDER BY at, id) AS r FROM events) x WHERE r = 1;
-- name: a window over a derived table with groups
SELECT host_id, n, SUM(n) OVER (ORDER BY host_id) FROM (SELECT host_id, COUNT(*) AS n FROM events GROUP BY host_id) x ORDER BY host_id;
-- name: a window in a pruned table
SELECT id, ROW_NUMBER() OVER (ORDER BY id) FROM events WHERE at >= '2024-05-01' AND at < '2024-05-08' ORDER BY id;
-- name: first and last values of groups
SELECT day, COUNT(*), FIRST_VALUE(COUNT(*)) OVER (ORDER BY day), LAST_VALUE(day) OVER (ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM metrics GROUP BY day ORDER BY day;
-- name: ntile and cumulative distribution of groups
SELECT host_id, NTILE(4) OVER (ORDER BY host_id), CUME_DIST() OVER (ORDER BY host_id), PERCENT_RANK() OVER (ORDER BY host_id) FROM events GROUP BY host_id ORDER BY host_id;
-- name: windows with having
SELECT host_id, COUNT(*), ROW_NUMBER() OVER (ORDER BY host_id) FROM events GROUP BY host_id HAVING COUNT(*) > 90 ORDER BY host_id;
-- name: a window over one group
SELECT COUNT(*), SUM(COUNT(*)) OVER () FROM events;
-- name: windows with a limit
SELECT host_id, SUM(i), RANK() OVER (ORDER BY SUM(i)) AS r FROM events WHERE id < 5000 GROUP BY host_id ORDER BY r LIMIT 5;
