-- No rows, one row, only NULLs, empty partitions.

-- name: aggregates of an empty table
-- expect: split
SELECT COUNT(*), COUNT(i), SUM(i), MIN(d), AVG(d) FROM empties;
-- name: extremes of texts of an empty table
SELECT COUNT(*), MIN(v), MAX(v) FROM empties;
-- name: groups of an empty table
SELECT i, COUNT(*), SUM(d) FROM empties GROUP BY i;
-- name: groups of an empty table in order
SELECT i, COUNT(*), SUM(d) FROM empties GROUP BY i ORDER BY i;
-- name: rows of an empty table
SELECT * FROM empties;
-- name: rows of an empty table in order
SELECT id, v FROM empties ORDER BY id LIMIT 3;
-- name: distinct rows of an empty table
SELECT DISTINCT i, v FROM empties;
-- name: distinct count of an empty table
SELECT COUNT(DISTINCT i), SUM(DISTINCT d), AVG(DISTINCT d) FROM empties;
-- name: deviation of an empty table
SELECT VAR_POP(i), STDDEV_SAMP(d), AVG(g) FROM empties;
-- name: expressions of an empty table
SELECT COUNT(*) + 1, COALESCE(SUM(i), -1), SUM(i) IS NULL FROM empties;
-- name: having of an empty table
SELECT COUNT(*) FROM empties HAVING COUNT(*) > 0;
-- name: having that an empty table fulfils
SELECT SUM(i) FROM empties HAVING COUNT(*) = 0;
-- name: aggregates of one row
-- expect: split
SELECT COUNT(*), COUNT(i), SUM(i), MIN(d), AVG(d), SUM(d), MIN(day) FROM single;
-- name: extremes of texts of one row
SELECT MIN(v), MAX(v), MIN(g), SUM(g) FROM single;
-- name: groups of one row
SELECT v, day, COUNT(*), SUM(d), AVG(i) FROM single GROUP BY v, day;
-- name: rows of one row
SELECT * FROM single ORDER BY id;
-- name: aggregates of NULLs
-- expect: split
SELECT COUNT(*), COUNT(i), SUM(i), MIN(d), AVG(d), MAX(day) FROM nulls;
-- name: sums and extremes of NULLs of other types
SELECT SUM(g), MIN(v), MAX(v), AVG(g) FROM nulls;
-- name: groups of NULLs
SELECT i, d, v, day, COUNT(*), COUNT(i), SUM(i), AVG(d) FROM nulls GROUP BY i, d, v, day;
-- name: distinct NULLs
SELECT DISTINCT i, v FROM nulls;
-- name: distinct count of NULLs
SELECT COUNT(DISTINCT i), COUNT(DISTINCT v) FROM nulls;
-- name: order by NULLs
SELECT v, id FROM nulls ORDER BY v, id LIMIT 12;
-- name: an empty table joined
SELECT COUNT(*), SUM(e.i) FROM empties e JOIN hosts h ON h.id = e.i;
-- name: an empty table on the preserved side
SELECT COUNT(*), COUNT(h.id) FROM empties e LEFT JOIN hosts h ON h.id = e.i;
-- name: an empty table on the side that is filled with NULL
SELECT COUNT(*), COUNT(e.id) FROM hosts h LEFT JOIN empties e ON h.id = e.i;
-- name: empty periods only
SELECT COUNT(*), SUM(d), MAX(at) FROM events WHERE at >= '2024-09-01' AND at < '2024-10-01' OR at >= '2024-03-01' AND at < '2024-04-01';
-- name: groups of empty periods only
SELECT host_id, COUNT(*) FROM events WHERE at >= '2024-09-01' AND at < '2024-10-01' GROUP BY host_id;
-- name: a union of nothing
SELECT id FROM empties UNION ALL SELECT id FROM empties;
-- name: a subquery over nothing
SELECT COUNT(*) FROM events WHERE host_id IN (SELECT id FROM empties);
-- name: a derived table of nothing
SELECT COUNT(*), SUM(s) FROM (SELECT i, SUM(d) AS s FROM empties GROUP BY i) x;
