-- Names of columns, comments, white space, literals: the text of the query is kept.

-- name: names of expressions
SELECT COUNT( * ), SUM(i)+1, SUM( i ) + 1, sum(I) FROM events WHERE id < 5000;
-- name: names of texts and numbers
SELECT 'a', 1, 1.0, NULL, 'it''s', COUNT(*) FROM events;
-- name: an alias without AS
SELECT COUNT(*) total, SUM(i) s FROM events WHERE id < 5000;
-- name: aliases of tables
SELECT ev.host_id, COUNT(ev.id) FROM events AS ev GROUP BY ev.host_id ORDER BY ev.host_id;
-- name: the table's name before columns
SELECT events.host_id, SUM(events.i) FROM events WHERE events.id < 5000 GROUP BY events.host_id ORDER BY events.host_id;
-- name: comments
SELECT /* all */ COUNT(*) /* , SUM(i) */ FROM -- the table
  events /* where */ WHERE id < 5000 -- AND id < 0
;
-- name: a comment with a quote
SELECT COUNT(*) /* it's */, SUM(i) FROM events WHERE id < 5000 /* " */;
-- name: many lines
SELECT
	host_id,
	COUNT(*)
		AS n
FROM
	events
GROUP
	BY
	host_id
ORDER
	BY
	host_id;
-- name: a word of SQL in a text
SELECT COUNT(*), ' FROM events WHERE ', MIN(v) FROM events WHERE v <> ' GROUP BY x' AND id < 5000;
-- name: the table's name in a text
SELECT 'events', COUNT(*) AS events FROM events;
-- name: a column with the name of a function
SELECT count.n FROM (SELECT COUNT(*) AS n FROM events) count;
-- name: names in other cases
SELECT Host_ID, Count(*) AS N FROM events GROUP BY HOST_ID ORDER BY host_id;
-- name: an alias with the name of an aggregate
SELECT host_id, COUNT(*) AS sum, SUM(i) AS count FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id;
-- name: an alias that is another column in the order
SELECT host_id AS i, COUNT(*) FROM events GROUP BY host_id ORDER BY i;
-- name: parentheses around everything
(SELECT (host_id), (COUNT(*)) FROM events WHERE ((id < 5000)) GROUP BY (host_id) ORDER BY (host_id));
-- name: a text over lines
SELECT COUNT(*), 'two
lines' AS t FROM events;
-- name: a text that is not ASCII
SELECT COUNT(*), 'größer' AS "naïve" FROM events WHERE v = 'ü';
-- name: one alias twice
SELECT COUNT(*) AS n, SUM(i) AS n FROM events WHERE id < 5000;
-- name: a semicolon at the end
SELECT COUNT(*) FROM events;
;
