-- HAVING: only over complete groups.

-- name: having on a count
-- expect: split
SELECT host_id, COUNT(*) FROM events GROUP BY host_id HAVING COUNT(*) > 90 ORDER BY host_id;
-- name: having that no single piece fulfils
-- expect: split
SELECT i, COUNT(*) FROM events GROUP BY i HAVING COUNT(*) >= 6 ORDER BY i;
-- name: having that only pieces fulfil
SELECT host_id, COUNT(*) FROM events GROUP BY host_id HAVING COUNT(*) < 20 ORDER BY host_id;
-- name: having on a sum that is not selected
SELECT host_id FROM events WHERE id < 5000 GROUP BY host_id HAVING SUM(d) > 0 ORDER BY host_id;
-- name: having on an average
SELECT host_id, AVG(d) FROM events WHERE id < 5000 GROUP BY host_id HAVING AVG(d) BETWEEN -50 AND 50 ORDER BY host_id;
-- name: having on a key
SELECT host_id, COUNT(*) FROM events GROUP BY host_id HAVING host_id > 5 ORDER BY host_id;
-- name: having with AND and OR
SELECT host_id, COUNT(*), SUM(i) FROM events WHERE id < 5000 GROUP BY host_id HAVING COUNT(*) > 80 AND SUM(i) > 0 OR host_id IS NULL ORDER BY host_id;
-- name: having that is NULL
SELECT host_id FROM events GROUP BY host_id HAVING SUM(CASE WHEN host_id = 3 THEN 1 END) > 0;
-- name: having without groups that holds
-- expect: split
SELECT COUNT(*), SUM(i) FROM events WHERE id < 5000 HAVING COUNT(*) > 10;
-- name: having without groups that doesn't hold
SELECT COUNT(*), SUM(i) FROM events WHERE id < 5000 HAVING COUNT(*) > 10000;
-- name: having over no rows
SELECT COUNT(*) FROM events WHERE id = 0 HAVING COUNT(*) = 0;
-- name: having on a distinct count
SELECT region, COUNT(*) FROM visits GROUP BY region HAVING COUNT(DISTINCT page) > 3 ORDER BY region;
-- name: having on extremes
SELECT host_id, MIN(d), MAX(d) FROM events GROUP BY host_id HAVING MAX(d) - MIN(d) > 2000 ORDER BY host_id;
-- name: having with a subquery
SELECT host_id, COUNT(*) FROM events GROUP BY host_id HAVING COUNT(*) > (SELECT COUNT(*) / 2 FROM hosts) ORDER BY host_id;
-- name: having with IN
SELECT host_id, COUNT(*) AS n FROM events GROUP BY host_id HAVING host_id IN (1, 3, 5) ORDER BY n, host_id;
-- name: having with a case
SELECT host_id, COUNT(*) FROM events GROUP BY host_id HAVING CASE WHEN host_id % 2 = 0 THEN COUNT(*) > 90 ELSE COUNT(*) > 95 END ORDER BY host_id;
-- name: having with a text function of a key
SELECT vb, COUNT(*) FROM events GROUP BY vb HAVING LENGTH(vb) = 3 ORDER BY vb;
-- name: having where the table is partitioned by the key
SELECT region, SUM(price) FROM visits GROUP BY region HAVING SUM(price) > 1000 ORDER BY region;
-- name: having that compares aggregates
SELECT host_id, SUM(i), COUNT(*) FROM events WHERE id < 5000 GROUP BY host_id HAVING SUM(i) < COUNT(*) ORDER BY host_id;
