-- ORDER BY, LIMIT, OFFSET and ties. "order" names the result columns that the order fixes, where it isn't total.

-- name: order by key and limit
-- expect: split
SELECT id, at, d FROM events ORDER BY id LIMIT 10;
-- name: order descending and limit
-- expect: split
SELECT id, i FROM events ORDER BY id DESC LIMIT 10;
-- name: order by the partitioning column and limit
SELECT at, id FROM events ORDER BY at LIMIT 25;
-- name: order by the partitioning column descending
SELECT at, id FROM events ORDER BY at DESC, id LIMIT 25;
-- name: limit and offset
-- expect: split
SELECT id, v FROM events ORDER BY id LIMIT 7 OFFSET 93;
-- name: offset beyond the end
SELECT id FROM events ORDER BY id LIMIT 5 OFFSET 5000;
-- name: limit zero
SELECT id FROM events ORDER BY id LIMIT 0;
-- name: limit over all rows
SELECT id FROM orders ORDER BY id LIMIT 100000;
-- name: all rows in order
-- expect: split
SELECT id, at, host_id, i, b, d, d0, d65, ts FROM events ORDER BY id, at;
-- name: all rows in order, with dates that have zeros
SELECT id, day FROM events ORDER BY id, at;
-- name: all rows in no order
SELECT id, host_id, d FROM events;
-- name: order by two columns
SELECT host_id, id FROM events ORDER BY host_id DESC, id LIMIT 40;
-- name: order by a decimal
SELECT d, id FROM events ORDER BY d, id LIMIT 30;
-- name: order by a DECIMAL(65,30)
SELECT d65, id FROM events ORDER BY d65 DESC, id LIMIT 30;
-- name: order by a double
SELECT g, id FROM events WHERE g IS NOT NULL ORDER BY g, id LIMIT 30;
-- name: order by a float descending
SELECT f, id FROM events ORDER BY f DESC, id LIMIT 30;
-- name: order by a text
SELECT v, id FROM events WHERE id < 5000 ORDER BY v, id LIMIT 300;
-- name: order by a text ordered as bytes
SELECT vb, id FROM events ORDER BY vb DESC, id LIMIT 300;
-- name: order by an enumeration
SELECT en, id FROM events WHERE id < 5000 ORDER BY en, id LIMIT 500;
-- name: order by an expression
SELECT id, i FROM events WHERE id < 5000 ORDER BY ABS(i), id LIMIT 50;
-- name: order by an expression that is not selected
SELECT id FROM events WHERE id < 5000 ORDER BY i * si, id LIMIT 50;
-- name: order by a column that is not selected
SELECT id FROM events ORDER BY at DESC, id LIMIT 15;
-- name: order by position
SELECT host_id, id FROM events ORDER BY 1, 2 DESC LIMIT 20;
-- name: order by an alias
SELECT id, i * 2 AS twofold FROM events ORDER BY twofold, id LIMIT 20;
-- name: order by an alias that hides a column
SELECT id, -id AS i FROM orders ORDER BY i LIMIT 5;
-- name: order that ties at the limit
SELECT host_id FROM events ORDER BY host_id LIMIT 50;
-- name: order that ties at the limit, with other columns
-- order: 1
SELECT host_id, COUNT(*) AS n FROM events GROUP BY host_id, i % 2 ORDER BY host_id LIMIT 26;
-- name: order that ties, without a limit
-- order: 1
SELECT host_id, id FROM events ORDER BY host_id;
-- name: order of groups by a count
SELECT i, COUNT(*) AS n FROM events GROUP BY i ORDER BY n DESC, i LIMIT 10;
-- name: groups by a sum, the first ten
-- expect: split
SELECT i, SUM(d) AS total FROM events WHERE id < 5000 GROUP BY i ORDER BY total DESC, i LIMIT 10;
-- name: groups by a sum, the first ten of many
SELECT id % 97 AS k, SUM(b) AS total, COUNT(*) FROM events WHERE id < 5000 GROUP BY id % 97 ORDER BY SUM(b) DESC LIMIT 10;
-- name: groups by a sum with an offset
SELECT id % 97 AS k, SUM(b) FROM events WHERE id < 5000 GROUP BY id % 97 ORDER BY 2, 1 LIMIT 10 OFFSET 20;
-- name: groups by an expression of aggregates
SELECT host_id, SUM(d) / COUNT(*) AS mean FROM events WHERE id < 5000 GROUP BY host_id ORDER BY SUM(d) / COUNT(*) DESC, host_id LIMIT 4;
-- name: groups by an extreme
SELECT host_id, MAX(at) FROM events GROUP BY host_id ORDER BY MAX(at) DESC, host_id LIMIT 5;
-- name: groups by an aggregate that is not selected
SELECT host_id FROM events WHERE id < 5000 GROUP BY host_id ORDER BY MAX(d65) DESC, host_id;
-- name: groups in an order of two keys
SELECT region, page, COUNT(*) FROM visits WHERE page LIKE '/b%' OR page = '' GROUP BY region, page ORDER BY region DESC, page;
-- name: limit of a single row
SELECT COUNT(*) FROM events LIMIT 1;
-- name: offset of a single row
-- expect: split
-- expect mysql: whole: OFFSET of a single row
SELECT COUNT(*) FROM events LIMIT 1 OFFSET 1;
-- name: order of a single row
SELECT SUM(i) AS s FROM events WHERE id < 5000 ORDER BY s;
-- name: limit of groups that lie in one partition each
SELECT region, COUNT(*), SUM(price) FROM visits GROUP BY region ORDER BY region LIMIT 4;
-- name: limit of groups that lie in one partition each, by a sum
SELECT region, SUM(ms) AS total FROM visits GROUP BY region ORDER BY total DESC, region LIMIT 3;
-- name: order by NULL values
SELECT id, i FROM events WHERE id < 400 ORDER BY i, id DESC;
-- name: order by a condition
SELECT id, i FROM events WHERE id < 300 ORDER BY i > 0, id;
-- name: order by IS NULL
SELECT id, i FROM events WHERE id < 300 ORDER BY i IS NULL DESC, i, id;
-- name: order by a case
SELECT id, host_id FROM events WHERE id < 300 ORDER BY CASE host_id WHEN 3 THEN 0 WHEN 5 THEN 1 ELSE 2 END, id LIMIT 60;
-- name: every column of all rows
SELECT * FROM events ORDER BY id, at;
-- name: every column of some rows
SELECT * FROM events WHERE host_id = 4 ORDER BY id DESC;
-- name: a star of a table
SELECT o.*, o.id + 1 AS next FROM orders o ORDER BY o.id DESC LIMIT 30;
-- name: the first row only
SELECT id, at FROM events ORDER BY at, id LIMIT 1;
-- name: the last row of one host
SELECT id, at, d FROM events WHERE host_id = 7 ORDER BY at DESC, id DESC LIMIT 1;
-- name: limit without order in one partition
SELECT COUNT(*) FROM (SELECT id FROM events WHERE at >= '2024-05-01' LIMIT 10) x;
-- name: long texts in order
SELECT id, tx FROM events WHERE tx LIKE 'long%' ORDER BY tx, id;
