-- Set operations of MariaDB and MySQL whose branches have other types, and texts of which a sort compares the beginning only.
-- on: mariadb mysql

-- name: UNION ALL of bytes of other fixed lengths
SELECT bin4 AS b FROM events WHERE id < 40 UNION ALL SELECT b8 FROM wide;
-- name: UNION ALL of durations with other digits
SELECT dur AS t FROM events WHERE id < 40 UNION ALL SELECT t0 FROM wide;
-- name: UNION ALL of fixed texts with their blanks
-- set: sql_mode = PAD_CHAR_TO_FULL_LENGTH
SELECT c5 AS c FROM wide UNION ALL SELECT c FROM events WHERE id < 40;
-- name: UNION ALL of integers with and without a sign
SELECT i AS n FROM events WHERE id < 40 UNION ALL SELECT iu FROM events WHERE id > 1100;
-- name: UNION ALL of a constant in subtotals
SELECT 'all' AS what, COUNT(*) AS n FROM orders GROUP BY what WITH ROLLUP UNION ALL SELECT 'events', COUNT(*) FROM events ORDER BY n, what;
-- name: UNION ALL of a text of a column and one that is computed, in order
SELECT l1 AS t, id FROM words UNION ALL SELECT DATE_FORMAT(placed, '%b %d'), id FROM orders WHERE id < 20 ORDER BY t, id;
-- name: UNION ALL of a text of a column and one of a constant, in order
-- expect: split
SELECT 'all' AS t, COUNT(*) AS n FROM orders UNION ALL SELECT DATE_FORMAT(placed, '%Y-%m'), COUNT(*) FROM orders GROUP BY 1 ORDER BY t, n;
-- name: UNION ALL in the order of a subquery
-- expect: whole
SELECT qty AS v FROM orders UNION ALL SELECT k FROM plain ORDER BY (SELECT MAX(id) FROM hosts);
-- name: UNION ALL of a quotient behind a star
-- expect: whole
SELECT p.*, d / 3 AS q FROM plain p UNION ALL SELECT id, host_id, i, 'v', d, day, d FROM events WHERE id < 20;
-- name: UNION ALL of expressions with long names
SELECT COUNT(*) AS n, 0 AS m FROM orders UNION ALL SELECT COUNT(*), SUM(CASE WHEN i > 1000000000 THEN 1 WHEN i > 100000000 THEN 2 WHEN i > 10000000 THEN 3 ELSE 0 END) FROM events ORDER BY n;
-- name: UNION ALL of columns of the same name
SELECT COUNT(*) AS n, 0 AS m FROM orders UNION ALL SELECT COUNT(*), COUNT(*) FROM events ORDER BY n;
-- name: UNION ALL of a literal and a column of its name
SELECT 'k' AS t, qty FROM orders WHERE qty > 3 UNION ALL SELECT 'k', k FROM plain ORDER BY 2, 1;
-- name: UNION ALL of a literal that ends in a blank
SELECT 'k ', qty FROM orders WHERE qty > 3 UNION ALL SELECT ' k', k FROM plain ORDER BY 2, 1;
-- name: groups of texts with the same beginning
-- expect: whole: run again
SELECT COUNT(*), COUNT(DISTINCT id % 5) FROM wide GROUP BY v;
-- name: groups of bytes with the same beginning
-- expect: whole: run again
SELECT vb, COUNT(*) FROM wide GROUP BY vb;
-- name: groups of bytes with the same beginning, the first ones
-- expect: whole: run again
SELECT id % 3 AS k, vb, COUNT(*) AS n FROM wide WHERE id % 3 = id * 7 % 13 GROUP BY k, vb ORDER BY vb, k LIMIT 3;
-- name: groups of long texts with the same beginning
-- expect: whole: run again
SELECT COUNT(*), COUNT(DISTINCT id % 5) FROM wide GROUP BY tx;
-- name: first rows of texts with the same beginning
-- expect: whole: run again
SELECT v, id FROM wide ORDER BY v DESC, id LIMIT 7;
-- name: first rows of bytes with the same beginning
-- expect: whole: run again
SELECT vb, id FROM wide ORDER BY vb, id LIMIT 7;
-- name: groups in the order of bytes with the same beginning
-- expect: whole: run again
SELECT id % 7 AS k, MAX(vb) AS m FROM wide GROUP BY k ORDER BY m, k LIMIT 3;
-- name: counts of distinct texts with the same beginning
-- expect: whole: run again
SELECT COUNT(DISTINCT v), COUNT(DISTINCT vb), COUNT(DISTINCT tx) FROM wide;
-- name: UNION ALL of texts with the same beginning, in order
-- expect: whole: run again
SELECT v, id FROM wide WHERE id < 20 UNION ALL SELECT v, id FROM wide WHERE id > 30 ORDER BY v, id LIMIT 9;
-- name: the type of a key of different values over a join
SELECT t.x1, COUNT(DISTINCT t.x2) FROM (SELECT NULLIF(o.customer_id, 7) AS x1, o.customer_id AS x2, o.status AS x3 FROM orders o JOIN plain p USING (id)) t GROUP BY t.x1;
-- name: UNION ALL of a sum of quotients and a column with more digits
-- expect: whole: quotients
SELECT 'one', e.d65 FROM events e WHERE e.id < 5000 UNION ALL SELECT 'two', SUM(o.amount / 3) FROM orders o WHERE o.id < 100;
-- name: UNION ALL of an average and a column with more digits
SELECT 'one', e.d65 FROM events e WHERE e.id < 5000 UNION ALL SELECT 'two', AVG(o.amount) FROM orders o WHERE o.id < 100;
