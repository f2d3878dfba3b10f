-- MIN and MAX: by the order of the type, never by that of the text.

-- name: extremes of integers
-- expect: split
SELECT MIN(i), MAX(i) FROM events;
-- name: extremes of integers with other lengths
-- expect: split
SELECT MIN(i), MAX(i), MIN(si), MAX(si) FROM events WHERE id < 5000;
-- name: extremes of large integers
SELECT MIN(b), MAX(b) FROM events;
-- name: extremes of decimals
-- expect: split
SELECT MIN(d), MAX(d), MIN(d0), MAX(d0) FROM events;
-- name: extremes of DECIMAL(65,30)
SELECT MIN(d65), MAX(d65) FROM events;
-- name: smallest positive DECIMAL(65,30)
SELECT MIN(d65), MAX(-d65) FROM events WHERE d65 > 0;
-- name: extremes of binary fractions
SELECT MIN(f), MAX(f), MIN(g), MAX(g) FROM events;
-- name: extremes of ordinary binary fractions
SELECT MIN(f), MAX(f), MIN(g), MAX(g) FROM events WHERE id < 5000;
-- name: smallest and largest magnitudes
SELECT MIN(ABS(g)), MAX(ABS(g)), MIN(ABS(f)), MAX(ABS(f)) FROM events WHERE g <> 0;
-- name: zero and minus zero
SELECT MIN(g), MAX(g), MIN(f), MAX(f) FROM events WHERE g = 0;
-- name: extremes of a time
-- expect: split
SELECT MIN(at), MAX(at) FROM events;
-- name: extremes of a date
SELECT MIN(day), MAX(day) FROM events;
-- name: extremes of a timestamp
SELECT MIN(ts), MAX(ts) FROM events;
-- name: extremes of a duration
SELECT MIN(dur), MAX(dur) FROM events;
-- name: extremes of texts
SELECT MIN(v), MAX(v), MIN(c), MAX(c) FROM events;
-- name: extremes of texts ordered as bytes
SELECT MIN(vb), MAX(vb) FROM events;
-- name: extremes of long texts
SELECT MIN(tx), MAX(tx), MIN(LENGTH(tx)), MAX(LENGTH(tx)) FROM events;
-- name: extremes of long texts by host
SELECT host_id, MAX(tx) FROM events WHERE tx LIKE 'long%' GROUP BY host_id ORDER BY host_id;
-- name: extremes of an enumeration
SELECT MIN(en), MAX(en) FROM events WHERE id < 5000;
-- name: extremes by host
-- expect: split
SELECT host_id, MIN(i), MAX(i), MIN(d), MAX(d), MIN(at), MAX(at) FROM events GROUP BY host_id ORDER BY host_id;
-- name: extremes of no rows
SELECT MIN(i), MAX(d), MIN(at), MAX(v), COUNT(*) FROM events WHERE id = 0;
-- name: extremes of only NULL
SELECT MIN(i), MAX(d), MIN(g), MAX(v), MIN(day) FROM nulls;
-- name: difference of extremes
SELECT MAX(i) - MIN(i), MAX(d) - MIN(d), MAX(d) * 2 FROM events WHERE id < 5000;
-- name: extremes of expressions
SELECT MIN(i * 2 + 1), MAX(d / 3), MIN(-i), MAX(ABS(i)) FROM events WHERE id < 5000;
-- name: extremes of numbers in texts
SELECT MIN(v), MAX(v) FROM events WHERE v IN ('9', '0123', '123');
-- name: extremes of a concatenation
SELECT MIN(CONCAT(v, '-', i)), MAX(CONCAT(vb, '/', si)) FROM events;
-- name: extremes of the partitioning column by the other
SELECT region, MIN(at), MAX(at), MIN(ms), MAX(price) FROM visits GROUP BY region ORDER BY region;
-- name: greatest of extremes
SELECT GREATEST(MAX(i), MAX(si)), LEAST(MIN(i), MIN(si)) FROM events WHERE id < 5000;
