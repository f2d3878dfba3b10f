-- Every kind of partitioning, whole and pruned.

-- name: LIST
SELECT page, COUNT(*), SUM(ms), AVG(price) FROM visits GROUP BY page ORDER BY page, 2;
-- name: LIST of texts
-- expect: split
SELECT COUNT(*), SUM(units), SUM(revenue), AVG(revenue) FROM sales;
-- name: LIST of texts by group
SELECT country, COUNT(*), SUM(units), AVG(revenue) FROM sales GROUP BY country ORDER BY country;
-- name: HASH
-- expect: split
SELECT status, COUNT(*), SUM(amount), SUM(tax), AVG(amount) FROM orders GROUP BY status ORDER BY status;
-- name: HASH by another key
SELECT customer_id, COUNT(*), SUM(amount) FROM orders GROUP BY customer_id ORDER BY customer_id;
-- name: HASH or KEY of texts
-- expect: split
SELECT COUNT(*), SUM(score), MIN(born), MAX(born) FROM users;
-- name: HASH or KEY of texts by group
SELECT score, COUNT(*) FROM users GROUP BY score ORDER BY score;
-- name: KEY with another case of letters
SELECT login, score FROM users WHERE login = 'user5' OR login = 'USER7';
-- name: groups by the key of texts
SELECT login, COUNT(*), SUM(score) FROM users GROUP BY login ORDER BY login LIMIT 30;
-- name: RANGE of two columns
-- expect: split
SELECT metric, COUNT(*), SUM(value), MAX(cnt) FROM metrics GROUP BY metric ORDER BY metric;
-- name: RANGE with subpartitions
-- expect: split
SELECT level, COUNT(*), SUM(bytes), MIN(at) FROM logs GROUP BY level ORDER BY level;
-- name: RANGE with subpartitions, long texts
SELECT msg, COUNT(*) FROM logs GROUP BY msg ORDER BY msg;
-- name: RANGE with subpartitions, rows
SELECT id, at, level FROM logs ORDER BY at DESC, id LIMIT 20;
-- name: RANGE with subpartitions, one year
SELECT COUNT(*), SUM(bytes) FROM logs WHERE at >= '2024-01-01' AND at < '2025-01-01';
-- name: RANGE with subpartitions, by year
SELECT EXTRACT(YEAR FROM at), COUNT(*) FROM logs GROUP BY EXTRACT(YEAR FROM at) ORDER BY 1;
-- name: RANGE across a change of summer time
-- expect: split
SELECT v, COUNT(*), MIN(ts), MAX(ts) FROM ticks GROUP BY v ORDER BY v;
-- name: RANGE across a change of summer time, pruned
SELECT COUNT(*), MIN(ts), MAX(ts) FROM ticks WHERE ts >= '2024-03-31 00:30:00' AND ts < '2024-03-31 03:00:00';
-- name: HASH of an integer and values near 1e9
SELECT k, COUNT(*), SUM(i), AVG(i), SUM(d), AVG(d) FROM near GROUP BY k ORDER BY k;
-- name: a table without partitions
SELECT k, COUNT(*), SUM(d) FROM plain GROUP BY k ORDER BY k;
-- name: no table
SELECT 1 + 1 AS two;
