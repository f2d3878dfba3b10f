-- on: postgres
-- Equal values with other texts, clocks in texts, names in capitals, and what a user may define.

-- name: first rows by numbers of any scale
SELECT n FROM scales ORDER BY n LIMIT 3
-- name: first rows by numbers of any scale and their place
SELECT n, id FROM scales ORDER BY n, id LIMIT 7
-- name: groups of CHAR without a length
SELECT octet_length(bp), count(*) FROM scales GROUP BY bp ORDER BY 1, 2
-- name: distinct CHAR without a length
SELECT DISTINCT bp FROM scales
-- name: the extreme of CHAR without a length
-- expect: whole
SELECT octet_length(max(bp)), octet_length(min(bp)) FROM scales
-- name: subtotals of CHAR without a length
SELECT octet_length(bp), count(*) FROM scales GROUP BY ROLLUP (bp) ORDER BY 2, 1
-- name: windows over CHAR without a length
SELECT octet_length(bp), count(*), rank() OVER (ORDER BY count(*), bp) FROM scales GROUP BY bp
-- name: a list of distinct numbers of any scale
-- expect: whole
SELECT array_agg(DISTINCT n ORDER BY n) FROM scales
-- name: a list of distinct intervals
-- expect: whole
SELECT array_agg(DISTINCT iv ORDER BY iv) FROM scales
-- name: a list of distinct integers
-- expect: split
SELECT array_agg(DISTINCT id % 7 ORDER BY id % 7) FROM scales
-- name: the sum of distinct numbers of any scale
-- expect: whole
SELECT sum(DISTINCT n), avg(DISTINCT n) FROM scales
-- name: the type of a row
-- expect: whole
SELECT pg_typeof(s), count(*) FROM scales s GROUP BY 1
-- name: a column that depends on the primary key
-- expect: whole: neither grouped by nor aggregated
SELECT id, amount, count(*) FROM orders GROUP BY id ORDER BY id LIMIT 5
-- name: now in an escaped text
-- expect: whole: may be the current time
SELECT count(*) FROM events WHERE at < E'now'
-- name: now in a text between dollars
-- expect: whole: may be the current time
SELECT count(*) FROM events WHERE at < $$now$$
-- name: now in parts
-- expect: whole: may be the current time
SELECT count(*) FROM events WHERE at < ('no' || 'w')::timestamp
-- name: now by a function in parts
-- expect: whole: may be the current time
SELECT count(*) FROM events WHERE at < timestamp(('no' || 'w'))
-- name: a constant time
-- expect: split
SELECT count(*) FROM events WHERE at < '2024-06-01'::timestamp AND at >= CAST('2024-01-01' AS date)
-- name: a column in capitals beside one that isn't
SELECT k, count(*) FROM capitals GROUP BY k ORDER BY k
-- name: the column in capitals
-- expect: split
SELECT "K", count(*) FROM capitals GROUP BY "K" ORDER BY "K"
-- name: windows over a column in capitals beside one that isn't
-- expect: whole
SELECT id, count(*) OVER (PARTITION BY k) FROM capitals
-- name: windows over the column in capitals
SELECT id, count(*) OVER (PARTITION BY "K") FROM capitals
-- name: an alias that differs from a column by case
SELECT id % 3 AS k, count(*) FROM capitals GROUP BY id % 3 ORDER BY k
-- name: times in another style
-- set: datestyle = SQL, MDY
-- expect: whole: datestyle
SELECT max(at), count(*) FROM events GROUP BY host_id ORDER BY 2, 1
-- name: binary fractions with fewer digits
-- set: extra_float_digits = 0
-- expect: whole: extra_float_digits
SELECT array[g], count(*) FROM events GROUP BY 1 ORDER BY 2, 1
-- name: a schema before that of the system
-- set: search_path = public, pg_catalog
-- expect: whole: search_path
SELECT count(*), sum(i) FROM events
-- name: the function of a user as a column
-- expect: whole: may be the function of a user
SELECT count(*) FROM events e WHERE e.shadow > 5
-- name: a row as text
SELECT count(DISTINCT s::text) FROM shuffled s
-- name: a row as JSON
SELECT row_to_json(s) FROM shuffled s ORDER BY s.id LIMIT 4
-- name: now in a column
-- expect: whole: may read the current time from a text
SELECT count(*) FROM scales WHERE tx::timestamptz > '2024-05-05'
-- name: now after the name of a type
-- expect: whole: may be the current time
SELECT count(*) FROM events WHERE at < timestamp 'now'
-- name: windows over extremes of any scale
-- expect: whole: is up to the server
SELECT id, max(max(n)) OVER () FROM scales GROUP BY id
-- name: windows over binary fractions within an expression
-- expect: whole: the last digits
SELECT id, floor(sum(max(g)) OVER ())::bigint FROM scales GROUP BY id
-- name: sums of distinct extremes of any scale
SELECT sum(DISTINCT s) FROM (SELECT id % 5 AS k, max(n) AS s FROM scales GROUP BY 1) x
-- name: a list of distinct CHAR without a length
-- expect: whole
SELECT array_agg(DISTINCT bp ORDER BY bp) FROM scales
