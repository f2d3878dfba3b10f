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
-- expect: split
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
-- name: named windows of aggregates
-- expect: split
SELECT host_id, SUM(i) AS s, RANK() OVER w, SUM(COUNT(*)) OVER (PARTITION BY host_id % 2) FROM events WHERE id < 5000 GROUP BY host_id WINDOW w AS (PARTITION BY host_id % 3 ORDER BY SUM(i) DESC), w2 AS (ORDER BY MAX(d)) ORDER BY host_id;
-- name: a named window in an expression
-- expect: split
SELECT metric, COUNT(*) * 100 / SUM(COUNT(*)) OVER all_of_it AS share FROM metrics GROUP BY metric WINDOW all_of_it AS () ORDER BY metric;
-- name: a window made of a named one
SELECT day, COUNT(*), ROW_NUMBER() OVER (w ORDER BY day) FROM metrics GROUP BY day WINDOW w AS (PARTITION BY EXTRACT(MONTH FROM day)) ORDER BY day;
-- name: windows over rows of one partition each
-- expect: split
SELECT region, id, RANK() OVER (PARTITION BY region ORDER BY ms) AS r, COUNT(*) OVER (PARTITION BY region) AS n, SUM(ms) OVER (PARTITION BY region ORDER BY at) AS s FROM visits WHERE id < 200;
-- name: windows over rows of one partition each in order
SELECT region, id, DENSE_RANK() OVER (PARTITION BY region ORDER BY at) AS r, MAX(at) OVER (PARTITION BY region) AS newest FROM visits ORDER BY region, id LIMIT 40;
-- name: a named window over rows of one partition each
-- expect: split
SELECT id, ROW_NUMBER() OVER w AS r, LAG(amount) OVER w AS before_it FROM orders WINDOW w AS (PARTITION BY id ORDER BY placed);
-- name: windows over rows by more than the partitioning column
-- expect: split
SELECT country, units, COUNT(*) OVER (PARTITION BY units, country) AS n FROM sales;
-- name: windows over rows of one partition each, perhaps with ties
-- expect: whole: window functions over rows
SELECT region, id, ROW_NUMBER() OVER (PARTITION BY region ORDER BY id) AS r FROM visits;
-- name: windows over rows of one partition each, and over all
-- expect: whole: window functions over rows
SELECT region, COUNT(*) OVER (PARTITION BY region) AS n, COUNT(*) OVER () AS m FROM visits;
-- name: windows over rows by another column
-- expect: whole: window functions over rows
SELECT id, COUNT(*) OVER (PARTITION BY page) AS n FROM visits;
-- name: a window over a column whose name is also an alias
SELECT id, ms AS region, COUNT(*) OVER (PARTITION BY region) AS n FROM visits WHERE id < 90;
-- name: a window over groups by a key whose name is also an alias
SELECT MAX(i) AS host_id, COUNT(*) AS n, RANK() OVER (ORDER BY host_id) AS r FROM events WHERE id < 5000 GROUP BY host_id;
