-- The types of MariaDB and MySQL: their extremes, ENUM, SET, JSON, bytes, zero dates, and what sorts otherwise as text.
-- on: mariadb mysql

-- name: extremes of each integer
-- expect: split
SELECT MIN(ti), MAX(ti), MIN(tu), MAX(tu), MIN(si), MAX(si), MIN(mi), MAX(mi), MIN(i), MAX(i), MIN(iu), MAX(iu), MIN(b), MAX(b), MIN(bu), MAX(bu) FROM events;
-- name: sums of each integer
-- expect: split
SELECT SUM(ti), SUM(tu), SUM(si), SUM(mi), SUM(i), SUM(iu), SUM(b), SUM(bu) FROM events;
-- name: averages of each integer
SELECT AVG(ti), AVG(tu), AVG(si), AVG(mi), AVG(i), AVG(iu), AVG(b), AVG(bu) FROM events;
-- name: group by each small integer
SELECT ti, tu, COUNT(*) FROM events WHERE ti BETWEEN -5 AND 5 GROUP BY ti, tu ORDER BY ti, tu;
-- name: group by an unsigned integer of 64 bits
SELECT bu, COUNT(*), SUM(bu) FROM events WHERE bu > 900000000000000000 GROUP BY bu ORDER BY bu DESC;
-- name: order by an unsigned integer of 64 bits
SELECT bu, id FROM events ORDER BY bu DESC, id LIMIT 20;
-- name: distinct sum of an unsigned integer of 64 bits
SELECT SUM(DISTINCT bu), COUNT(DISTINCT bu), AVG(DISTINCT bu) FROM events;
-- name: a truth value
SELECT bo, COUNT(*), SUM(bo), AVG(bo), MAX(bo) FROM events GROUP BY bo ORDER BY bo;
-- name: a year
SELECT y, COUNT(*) FROM events WHERE y < 1994 OR y > 2027 GROUP BY y ORDER BY y;
-- name: aggregates of a year
SELECT MIN(y), MAX(y), SUM(y), AVG(y), COUNT(DISTINCT y) FROM events;
-- name: group by an enumeration in its order
SELECT en, COUNT(*) FROM events GROUP BY en ORDER BY en;
-- name: an enumeration's two empty values
SELECT en, en + 0, COUNT(*) FROM events WHERE en = '' GROUP BY en, en + 0 ORDER BY en + 0;
-- name: extremes of an enumeration are those of its texts
SELECT MIN(en), MAX(en), COUNT(DISTINCT en) FROM events;
-- name: sums of an enumeration
SELECT SUM(en), AVG(en), MAX(en + 0) FROM events WHERE id < 5000;
-- name: enumeration and text
SELECT CONCAT(en, '!'), COUNT(*) FROM events WHERE id < 5000 GROUP BY CONCAT(en, '!') ORDER BY 1;
-- name: an enumeration in the condition
SELECT COUNT(*), MIN(id) FROM events WHERE en > 1 AND en = 'Mid' OR en = 'ALPHA';
-- name: status by its order
SELECT status, COUNT(*), SUM(amount) FROM orders GROUP BY status ORDER BY status DESC;
-- name: status by its text
SELECT status, COUNT(*) FROM orders GROUP BY status ORDER BY CONCAT(status);
-- name: group by a set
SELECT st, COUNT(*) FROM events GROUP BY st ORDER BY st;
-- name: extremes of a set
SELECT MIN(st), MAX(st), COUNT(DISTINCT st), SUM(st) FROM events WHERE id < 5000;
-- name: a set in the condition
SELECT COUNT(*), SUM(id) FROM events WHERE FIND_IN_SET('g', st) AND st & 4;
-- name: rows with sets and enumerations
SELECT id, en, st, en + 0, st + 0 FROM events WHERE id < 60 OR id > 5000 ORDER BY id;
-- name: order by a set
SELECT st, id FROM events ORDER BY st DESC, id LIMIT 300;
-- name: group by JSON
SELECT js, COUNT(*) FROM events WHERE id < 5000 GROUP BY js ORDER BY COUNT(*), MIN(id);
-- name: a value from JSON
SELECT JSON_EXTRACT(js, '$.a') AS a, COUNT(*) FROM events WHERE id < 5000 GROUP BY JSON_EXTRACT(js, '$.a') ORDER BY COUNT(*), MIN(id);
-- name: a text from JSON
SELECT JSON_UNQUOTE(JSON_EXTRACT(js, '$.b[2]')) AS t, COUNT(*), SUM(JSON_EXTRACT(js, '$.a')) FROM events WHERE id < 5000 GROUP BY JSON_UNQUOTE(JSON_EXTRACT(js, '$.b[2]')) ORDER BY COUNT(*);
-- name: lengths of JSON
SELECT SUM(JSON_LENGTH(js)), MAX(JSON_LENGTH(js)), COUNT(js) FROM events;
-- name: rows with JSON
SELECT id, js, JSON_VALID(js), JSON_TYPE(js) FROM events WHERE id < 30 ORDER BY id;
-- name: extremes of JSON
SELECT MIN(CAST(js AS CHAR)), MAX(CAST(js AS CHAR)) FROM events;
-- name: the operator for a value of JSON
-- on: mysql
SELECT js->'$.a', COUNT(*) FROM events WHERE js->>'$.a' = '1' GROUP BY js->'$.a';
-- name: group by bytes
-- expect: split
SELECT vbin, COUNT(*), HEX(vbin) FROM events GROUP BY vbin ORDER BY vbin;
-- name: group by fixed bytes
SELECT bin4, COUNT(*), HEX(bin4) FROM events GROUP BY bin4 ORDER BY bin4;
-- name: extremes of bytes
SELECT HEX(MIN(vbin)), HEX(MAX(vbin)), HEX(MIN(bin4)), HEX(MAX(bin4)), HEX(MIN(bl)), HEX(MAX(bl)) FROM events;
-- name: distinct bytes
SELECT COUNT(DISTINCT vbin), COUNT(DISTINCT bin4), COUNT(DISTINCT bl) FROM events;
-- name: group by a blob
SELECT bl, COUNT(*) FROM events GROUP BY bl ORDER BY bl;
-- name: rows with bytes
SELECT id, vbin, bin4, bl, HEX(bin4) FROM events WHERE id < 40 OR id > 5000 ORDER BY id;
-- name: zero dates
SELECT day, COUNT(*) FROM events WHERE day < '2023-11-22' OR day > '2025-01-01' GROUP BY day ORDER BY day;
-- name: zero dates with partial zeros
SELECT id, day, day + 0, MONTH(day), DAYOFMONTH(day) FROM events WHERE id > 5000 ORDER BY id;
-- name: extremes of zero dates
SELECT MIN(day), MAX(day), COUNT(DISTINCT day) FROM events WHERE id > 0;
-- name: zero dates are not NULL
SELECT COUNT(*), COUNT(day), SUM(day IS NULL), SUM(day = '0000-00-00') FROM events;
-- name: extremes of durations
SELECT MIN(dur), MAX(dur), SUM(dur), AVG(dur) FROM events WHERE id < 5000;
-- name: durations in order
SELECT dur, id FROM events ORDER BY dur, id LIMIT 40;
-- name: durations in descending order
SELECT dur, id FROM events ORDER BY dur DESC, id LIMIT 40;
-- name: group by a duration
SELECT dur, COUNT(*) FROM events WHERE dur BETWEEN '-00:10:00' AND '00:10:00' GROUP BY dur ORDER BY dur;
-- name: extremes of ordinary durations
SELECT MIN(dur), MAX(dur), MIN(TIME_TO_SEC(dur)), SUM(TIME_TO_SEC(dur)) FROM events WHERE id < 5000;
-- name: negative durations
SELECT COUNT(*), MIN(dur), MAX(dur), SEC_TO_TIME(SUM(TIME_TO_SEC(dur))) FROM events WHERE dur < 0 AND id < 5000;
-- name: extremes of fractions of a second
SELECT MIN(at), MAX(at), MIN(ts), MAX(ts), MAX(MICROSECOND(at)) FROM events;
-- name: group by a timestamp
SELECT ts, COUNT(*) FROM events WHERE ts < '2023-11-25' OR ts > '2025-01-01' GROUP BY ts ORDER BY ts;
-- name: fixed texts lose their blanks
SELECT c, LENGTH(c), COUNT(*) FROM events WHERE c LIKE 'a%' GROUP BY c, LENGTH(c) ORDER BY c, LENGTH(c);
-- name: minus zero
SELECT g, f, COUNT(*) FROM events WHERE g = 0 GROUP BY g, f;
-- name: huge and tiny fractions
SELECT id, f, g, g * 2, f * 2 FROM events WHERE id > 5000 ORDER BY id;
-- name: extremes of huge and tiny fractions
SELECT MIN(f), MAX(f), MIN(g), MAX(g), COUNT(DISTINCT f), COUNT(DISTINCT g) FROM events;
-- name: group by a rounded fraction
SELECT ROUND(g), COUNT(*) FROM events WHERE id < 5000 GROUP BY ROUND(g) ORDER BY 1 LIMIT 50;
-- name: DECIMAL(65,30) in order
SELECT id, d65, d65 * 2, d65 / 3 FROM events WHERE id < 50 ORDER BY d65, id;
-- name: DECIMAL(65,30) beyond its digits
SELECT SUM(d65), AVG(d65), MAX(d65), MIN(d65) FROM events WHERE id IN (5001, 5002, 1, 2, 3);
-- name: DECIMAL(65,30) twice the largest
SELECT SUM(d65), SUM(d65 + d65), COUNT(*) FROM events WHERE d65 > 10000;
-- name: decimals whose sums have more digits
SELECT SUM(d * d), SUM(d * d * d), AVG(d * d65) FROM events WHERE id < 5000;
-- name: rows with every type
SELECT * FROM events WHERE id > 5000 ORDER BY id, at;
-- name: long texts
SELECT tx, COUNT(*), LENGTH(tx) FROM events WHERE LENGTH(tx) > 255 GROUP BY tx ORDER BY tx;
-- name: numbers in texts are not numbers
SELECT vb, COUNT(*), SUM(vb) FROM events WHERE vb IN ('0123', '123', ' 123') GROUP BY vb ORDER BY vb;
-- name: a sum of texts
SELECT SUM(v), AVG(v) FROM events WHERE id < 5000;
-- name: a comparison of text and number
SELECT COUNT(*), MIN(v) FROM events WHERE v = 123;
-- name: hexadecimal and binary literals
SELECT COUNT(*), SUM(i + 0x10), MAX(b'101' + 0), HEX(MAX(X'41')) FROM events WHERE id < 5000;
-- name: literals with an introducer
SELECT COUNT(*), _utf8mb4'ä', _latin1'x', N'n', 'a' 'b' FROM events;
-- name: casts
SELECT CAST(v AS SIGNED), COUNT(*) FROM events WHERE v IN ('123', '0123', '9') GROUP BY CAST(v AS SIGNED) ORDER BY 1;
-- name: casts to other types
SELECT MAX(CAST(i AS CHAR)), MIN(CAST(d AS SIGNED)), MAX(CAST(at AS DATE)), SUM(CAST(i AS DECIMAL(20,5))), MAX(CAST(i AS UNSIGNED)) FROM events WHERE id < 5000;
-- name: a binary cast
SELECT BINARY v AS k, COUNT(*) FROM events WHERE v LIKE '%a%' GROUP BY BINARY v ORDER BY k;
-- name: sums of more digits than a DECIMAL has
-- expect: whole: can't be computed from parts
SELECT d65 IS NULL, AVG(i + d65), SUM(i + d65), MAX(i + d65) FROM events GROUP BY d65 IS NULL ORDER BY 1;
-- name: subtotals of more digits than a DECIMAL has
SELECT AVG(e.i + e.d65) FROM events e GROUP BY e.d65 WITH ROLLUP;
-- name: a fixed text that NULLIF computes
SELECT NULLIF(e.c, 'abc') AS c1 FROM events e WHERE e.id < 5000 GROUP BY e.l, NULLIF(e.c, 'abc');
-- name: a fixed text that NULLIF computes, sorted
SELECT NULLIF(e.c, 'abc') AS c1, e.id FROM events e WHERE e.id < 5000 ORDER BY 1, 2;
-- name: extremes of single fractions
-- on: mariadb
-- expect: split
SELECT MIN(f), MAX(f) FROM events WHERE id < 5000;
-- name: extremes of the largest single fractions
-- on: mariadb
-- expect: split
SELECT MIN(f), MAX(f), MIN(-f) FROM events;
-- name: extremes of single fractions by group
-- on: mariadb
-- expect: split
SELECT host_id, MIN(f), MAX(f), COUNT(f) FROM events GROUP BY host_id ORDER BY host_id;
-- name: extremes of single fractions in expressions
-- on: mariadb
-- expect: split
SELECT MAX(f) - MIN(f), MAX(f) * 2, ROUND(MIN(f), 2), CONCAT(MAX(f)), MAX(f) > 4.9 FROM events WHERE id < 5000;
-- name: extremes of single fractions that are computed
SELECT MIN(f / 3), MAX(f * 1.1), MIN(ABS(f)), MAX(COALESCE(f, 0)) FROM events WHERE id < 5000;
-- name: single fractions of zero and minus zero
SELECT MIN(f), MAX(f), MIN(-f) FROM events WHERE f = 0;
-- name: a fixed text that NULLIF computes over a join
SELECT NULLIF(o.status, 'x') AS a1 FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY NULLIF(o.status, 'x') HAVING COUNT(DISTINCT o.id) >= 7;
-- name: types of subtotals over a join
SELECT o.id AS a1 FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY o.id WITH ROLLUP;
-- name: types of subtotals over an outer join
SELECT w.id AS a1 FROM words w LEFT JOIN hosts h ON h.id = w.x GROUP BY w.id, w.x WITH ROLLUP;
-- name: types of subtotals of one row
SELECT o.status AS a1 FROM orders o WHERE o.id = 77 GROUP BY o.status WITH ROLLUP;
-- name: averages of the largest decimals, stored for a distinct count
SELECT e.si, CASE WHEN e.vb <= 'abc' THEN 1 ELSE 0 END AS a1, AVG(e.d65), COUNT(DISTINCT e.b, e.bu % 3) FROM events e GROUP BY e.si, e.vb;
-- name: sums of the largest numbers, of which one on the way is too large
SELECT SUM(d65) FROM events WHERE at < '2024-02-01' GROUP BY REPLACE(l, 'a', '');
-- name: averages of integers among decimal numbers
SELECT AVG(LEAST(cnt, value)), AVG(CASE WHEN cnt > 0 THEN 1 ELSE value END), AVG(IF(cnt > 0, cnt, value)) FROM metrics;
-- name: windows over groups of durations
SELECT dur, b DIV 2, SUM(COUNT(*)) OVER (ORDER BY dur, b DIV 2) FROM events WHERE id < 5000 GROUP BY dur, b DIV 2;
-- name: windows over groups of a set
SELECT st, SUM(COUNT(*)) OVER (ORDER BY st) FROM events GROUP BY st;
-- name: an offset beyond distinct values that are constant
SELECT DISTINCT CASE WHEN COALESCE(d, 0) IS NULL THEN 1 ELSE 0 END AS k FROM events WHERE id < 5000 AND ti IN (SELECT id FROM events WHERE id < 40) ORDER BY k DESC LIMIT 1 OFFSET 5;
-- name: quotients of sums of integers among decimal numbers
SELECT SUM(CASE WHEN value >= 0.5 THEN seq ELSE value END) / COUNT(*) AS a, SUM(value) / COUNT(*) AS b FROM metrics WHERE host IN ('h1', 'h7');
-- name: quotients of sums of integers among decimal numbers with two digits
SELECT host_id, SUM(CASE WHEN d > 100 THEN d ELSE 0 END) / COUNT(*) AS a, AVG(COALESCE(d, 0)) FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id;
-- name: texts of sums of integers among decimal numbers
SELECT CONCAT(SUM(CASE WHEN value >= 0.5 THEN seq ELSE value END)), CONCAT(MAX(LEAST(seq, value))), LENGTH(SUM(IF(value > 0, seq, value))) FROM metrics;
-- name: long computed texts as keys
SELECT CONCAT(v, REPEAT('x', 600)) AS k, COUNT(*) FROM events WHERE id < 5000 GROUP BY 1;
-- name: extremes of bytes by host, which are stored
SELECT host_id, MIN(bl) AS k, MAX(REPEAT(vbin, 90)) AS m FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id LIMIT 5;
-- name: rows in the order of a quotient whose digits beyond its type decide
-- expect: whole: sorts by a quotient
SELECT id, i FROM events WHERE id < 5000 ORDER BY i / 1000000, id DESC LIMIT 20;
-- name: rows with products in order
-- expect: split
SELECT id, d * i AS p, d + 1.5 FROM events WHERE id < 5000 ORDER BY p, id LIMIT 20;
-- name: groups of a product
-- expect: split
SELECT d * 2 AS p, COUNT(*) FROM events WHERE id < 5000 GROUP BY d * 2 ORDER BY p LIMIT 20;
-- name: extremes of texts that end in blanks, ordered as bytes
-- expect: whole: rows tie
SELECT MIN(t), MAX(t), COUNT(*) FROM (SELECT CONCAT(vb, ' ') COLLATE utf8mb4_bin AS t, id FROM events) AS x WHERE id < 5000;
-- name: rows in the order of an alias of a quotient within an expression
-- expect: whole: sorts by a quotient
SELECT id, i / 1000000 AS q FROM events WHERE id < 5000 ORDER BY q + 1, id DESC LIMIT 20;
