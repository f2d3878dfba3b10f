-- Joins: one occurrence of the partitioned table is cut, on the preserved side.

-- name: inner join with a dimension
-- expect: split
SELECT h.name, COUNT(*), SUM(e.d) FROM events e JOIN hosts h ON h.id = e.host_id GROUP BY h.name ORDER BY h.name;
-- name: inner join without groups
-- expect: split
SELECT COUNT(*), SUM(e.d), MAX(h.weight) FROM events e INNER JOIN hosts h ON h.id = e.host_id;
-- name: join by comma
SELECT h.rack, COUNT(*) FROM events e, hosts h WHERE h.id = e.host_id GROUP BY h.rack ORDER BY h.rack;
-- name: join with the dimension first
SELECT h.rack, COUNT(*), AVG(e.d) FROM hosts h JOIN events e ON h.id = e.host_id GROUP BY h.rack ORDER BY h.rack;
-- name: left join that preserves the partitioned table
-- expect: split
SELECT h.name, COUNT(*), COUNT(h.id), SUM(e.i) FROM events e LEFT JOIN hosts h ON h.id = e.host_id WHERE e.id < 5000 GROUP BY h.name ORDER BY h.name;
-- name: left join that preserves the dimension
-- expect: whole
SELECT h.id, COUNT(e.id), SUM(e.d) FROM hosts h LEFT JOIN events e ON e.host_id = h.id AND e.i > 95 GROUP BY h.id ORDER BY h.id;
-- name: right join that preserves the partitioned table
SELECT h.name, COUNT(*) FROM hosts h RIGHT JOIN events e ON h.id = e.host_id GROUP BY h.name ORDER BY h.name;
-- name: right join that preserves the dimension
SELECT h.id, COUNT(e.id) FROM events e RIGHT JOIN hosts h ON h.id = e.host_id AND e.i > 95 GROUP BY h.id ORDER BY h.id;
-- name: left join and IS NULL
SELECT COUNT(*), SUM(e.id) FROM events e LEFT JOIN hosts h ON h.id = e.host_id WHERE h.id IS NULL;
-- name: anti join that preserves the dimension
SELECT h.id FROM hosts h LEFT JOIN events e ON e.host_id = h.id AND e.i = 99 WHERE e.id IS NULL ORDER BY h.id;
-- name: cross join
SELECT COUNT(*), SUM(o.qty) FROM orders o CROSS JOIN hosts h;
-- name: join of three tables
SELECT h.rack, p.k, COUNT(*) FROM events e JOIN hosts h ON h.id = e.host_id JOIN plain p ON p.id = e.id GROUP BY h.rack, p.k ORDER BY h.rack, p.k;
-- name: join of three tables with left joins
SELECT COUNT(*), COUNT(h.id), COUNT(p.id), SUM(p.d) FROM events e LEFT JOIN hosts h ON h.id = e.host_id LEFT JOIN plain p ON p.id = e.id;
-- name: inner and left joins
SELECT COUNT(*), COUNT(p.id) FROM hosts h JOIN events e ON h.id = e.host_id LEFT JOIN plain p ON p.host_id = h.id AND p.k = 2;
-- name: a join with USING
-- expect: split
SELECT id, COUNT(*), SUM(e.i) FROM events e JOIN orders o USING (id) WHERE e.id < 60 GROUP BY id ORDER BY id;
-- name: a join with USING of the dimension
-- expect: split
SELECT host_id, COUNT(*), SUM(e.i) FROM events e JOIN plain p USING (host_id) WHERE p.k = 1 GROUP BY host_id ORDER BY host_id;
-- name: two partitioned tables
-- expect: split
SELECT COUNT(*), SUM(o.amount), SUM(e.d) FROM events e JOIN orders o ON o.id = e.id;
-- name: two partitioned tables by group
SELECT o.status, COUNT(*), SUM(e.d) FROM orders o JOIN events e ON o.id = e.id WHERE o.status <> 'void' GROUP BY o.status ORDER BY o.status;
-- name: two partitioned tables, left join
SELECT COUNT(*), COUNT(o.id), SUM(o.amount) FROM events e LEFT JOIN orders o ON o.id = e.id;
-- name: a join with itself
SELECT COUNT(*) FROM events a JOIN events b2 ON a.id = b2.id + 1;
-- name: a join with itself by group
SELECT a.host_id, COUNT(*), SUM(b2.i) FROM events a JOIN events b2 ON a.id = b2.id + 1 AND a.host_id = b2.host_id + 7 GROUP BY a.host_id ORDER BY a.host_id;
-- name: a left join with itself
SELECT COUNT(*), COUNT(b2.id) FROM events a LEFT JOIN events b2 ON a.id = b2.id + 1 WHERE a.id < 500;
-- name: a join with a range
SELECT h.id, COUNT(*) FROM events e JOIN hosts h ON e.i BETWEEN h.id AND h.id + 3 GROUP BY h.id ORDER BY h.id;
-- name: a join with a derived table
SELECT x.rack, COUNT(*), SUM(e.d) FROM events e JOIN (SELECT id, rack FROM hosts WHERE weight > 3) x ON x.id = e.host_id GROUP BY x.rack ORDER BY x.rack;
-- name: a join with a grouped dimension
SELECT COUNT(*), SUM(x.n) FROM events e JOIN (SELECT host_id, COUNT(*) AS n FROM plain GROUP BY host_id) x ON x.host_id = e.host_id;
-- name: a join with aggregates of the partitioned table
SELECT h.name, x.n, x.total FROM hosts h JOIN (SELECT host_id, COUNT(*) AS n, SUM(d) AS total FROM events GROUP BY host_id) x ON x.host_id = h.id ORDER BY h.id;
-- name: a left join with aggregates of the partitioned table
SELECT h.name, x.n FROM hosts h LEFT JOIN (SELECT host_id, COUNT(*) AS n FROM events WHERE i > 95 GROUP BY host_id) x ON x.host_id = h.id ORDER BY h.id;
-- name: rows of a join in order
-- expect: split
SELECT e.id, h.name, e.d FROM events e JOIN hosts h ON h.id = e.host_id WHERE e.i > 80 ORDER BY e.id LIMIT 50;
-- name: rows of a left join in order
SELECT e.id, h.name FROM events e LEFT JOIN hosts h ON h.id = e.host_id ORDER BY e.at DESC, e.id LIMIT 50;
-- name: a join with a view of a dimension
SELECT h.rack, COUNT(*) FROM events e JOIN v_hosts h ON h.id = e.host_id GROUP BY h.rack ORDER BY h.rack;
-- name: a view of the partitioned table
SELECT COUNT(*), SUM(d) FROM v_events;
-- name: a view of the partitioned table by group
SELECT host_id, COUNT(*), SUM(d) FROM v_events GROUP BY host_id ORDER BY host_id;
-- name: a view with aggregates
SELECT COUNT(*), SUM(n) FROM v_monthly;
-- name: a join of a view with the partitioned table
SELECT COUNT(*), SUM(e.d) FROM events e JOIN v_events x ON x.id = e.id;
-- name: a join with USING and a column of one table
SELECT p.host_id, host_id, COUNT(*) FROM events e LEFT JOIN plain p USING (host_id) GROUP BY host_id, p.host_id ORDER BY host_id, p.host_id;
-- name: a left join with USING, by the column of the other table
-- expect: split
SELECT p.host_id, COUNT(*), COUNT(host_id), COUNT(e.host_id), COUNT(p.host_id) FROM events e LEFT JOIN plain p USING (host_id) GROUP BY p.host_id ORDER BY p.host_id;
-- name: a right join with USING
-- expect: split
SELECT host_id, COUNT(*), SUM(e.i) FROM plain p RIGHT JOIN events e USING (host_id) GROUP BY host_id ORDER BY host_id;
-- name: a right join with USING, by the column of the other table
-- expect: split
SELECT p.host_id AS host_id, COUNT(*) FROM plain p RIGHT JOIN events e USING (host_id) GROUP BY p.host_id ORDER BY host_id;
-- name: all columns of a join with USING
-- expect: split
SELECT * FROM orders o JOIN plain p USING (id) ORDER BY id LIMIT 20;
-- name: a natural join of rows
-- expect: split
SELECT id, qty, k FROM orders NATURAL JOIN (SELECT id, k FROM plain) p WHERE k > 2;
-- name: a natural join with groups
-- expect: split
SELECT k, COUNT(*), SUM(amount), MIN(amount) FROM orders NATURAL LEFT JOIN (SELECT id, k FROM plain) p GROUP BY k ORDER BY k;
-- name: the extreme of integers by a key of a table joined naturally
SELECT k, COUNT(*), MIN(orders.id) FROM orders NATURAL LEFT JOIN (SELECT id, k FROM plain) p GROUP BY k ORDER BY k;
-- name: distinct keys of a join with USING
SELECT DISTINCT id, o.id, p.id FROM orders o LEFT JOIN plain p USING (id) ORDER BY o.id LIMIT 30;
-- name: a natural join
-- expect: split
SELECT COUNT(*) FROM hosts NATURAL JOIN (SELECT id, qty FROM orders) o;
-- name: a join without matches
SELECT COUNT(*), SUM(e.d) FROM events e JOIN hosts h ON h.id = e.host_id + 1000;
-- name: aggregates of columns of the dimension
SELECT SUM(h.weight), AVG(h.weight), COUNT(DISTINCT h.rack), MIN(h.since) FROM events e JOIN hosts h ON h.id = e.host_id;
-- name: aggregates of expressions of both tables
SELECT h.rack, SUM(e.d * h.weight), MAX(e.i + h.id) FROM events e JOIN hosts h ON h.id = e.host_id WHERE e.id < 5000 GROUP BY h.rack ORDER BY h.rack;
-- name: a left join with a condition on the preserved table
SELECT COUNT(*), COUNT(h.id) FROM events e LEFT JOIN hosts h ON h.id = e.host_id AND e.i > 0;
-- name: parentheses around a join
SELECT COUNT(*), SUM(c.credit) FROM orders o JOIN (customers c CROSS JOIN hosts h) ON c.id = o.customer_id AND h.id = o.qty;
-- name: a join by groups of the hashed table
SELECT c.segment, o.status, COUNT(*), SUM(o.amount) FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY c.segment, o.status ORDER BY c.segment, o.status;
-- name: groups by the partitioning column in a join
SELECT v.region, COUNT(*), SUM(v.price) FROM visits v JOIN plain p ON p.id = v.id GROUP BY v.region ORDER BY v.region;
-- name: the type of an extreme of an expression, sorted over a join for a distinct count
-- on: mariadb mysql
SELECT w.bytes, MIN(CASE WHEN (e.ti, e.d) = (-1, 10.00) THEN w.x END) AS a2, CASE WHEN COUNT(*) > 10 THEN SUM(e.d) ELSE 0 END AS a3 FROM events e JOIN words w ON w.ci = e.v AND w.id < 30 WHERE e.id < 5000 GROUP BY e.ti, 1 HAVING COUNT(DISTINCT NULLIF(e.mi, -1)) < 1 ORDER BY a3;
-- name: an order by a column of USING whose name another column has
SELECT h.id, e.at FROM events e LEFT JOIN hosts h USING (id) ORDER BY id, e.at LIMIT 9;
-- name: an order by a column of USING whose name a star has
SELECT h.*, e.at FROM events e LEFT JOIN hosts h USING (id) ORDER BY id, e.at LIMIT 9;
-- name: an alias that is the name of a column of both tables
SELECT e.host_id AS x, p.host_id AS host_id, e.id FROM events e JOIN plain p ON p.id = e.id ORDER BY host_id, e.id LIMIT 7;
-- name: a column of the select list whose name both tables have
SELECT e.host_id AS x, p.host_id, e.id FROM events e JOIN plain p ON p.id = e.id ORDER BY host_id, e.id LIMIT 7;
-- name: groups by an alias that is the name of a column of both tables
SELECT e.host_id AS x, p.host_id AS host_id, COUNT(*) FROM events e JOIN plain p ON p.id = e.id GROUP BY x, host_id ORDER BY 1, 2;
-- name: an order of groups by an alias that is the name of a column of both tables
SELECT e.host_id AS x, p.host_id AS host_id, COUNT(*) FROM events e JOIN plain p ON p.id = e.id GROUP BY e.host_id, p.host_id ORDER BY host_id, x LIMIT 9;
-- name: distinct rows, and an order by a name that both tables have
SELECT DISTINCT e.host_id AS x, p.host_id FROM events e JOIN plain p ON p.id = e.id ORDER BY host_id, 1;
-- name: a window in the order of a name that both tables have
SELECT p.host_id, e.host_id AS x, COUNT(*), RANK() OVER (ORDER BY host_id) FROM events e JOIN plain p ON p.id = e.id GROUP BY e.host_id, p.host_id;
-- name: a name that one of the tables has
-- expect: split
SELECT p.host_id, COUNT(*), SUM(qty) FROM orders o JOIN plain p ON p.id = o.id GROUP BY host_id ORDER BY host_id;
