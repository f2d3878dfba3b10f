-- Errors are those of the server, whole and split.

-- name: an unknown column
SELECT nothing FROM events;
-- name: an unknown table
SELECT COUNT(*) FROM nothing_here;
-- name: a syntax error
SELECT COUNT(* FROM events;
-- name: an unknown function
SELECT no_such_function(i) FROM events;
-- name: an ambiguous column
SELECT id FROM events e JOIN hosts h ON h.id = e.host_id;
-- name: an aggregate in WHERE
SELECT host_id FROM events WHERE COUNT(*) > 1;
-- name: an aggregate of an aggregate
SELECT SUM(COUNT(*)) FROM events;
-- name: a subquery of more than one row
SELECT COUNT(*) FROM events WHERE host_id = (SELECT id FROM hosts);
-- name: a subquery of more than one row in the select list
SELECT id, (SELECT id FROM hosts) FROM events;
-- name: a branch with another number of columns
SELECT id FROM events UNION ALL SELECT id, host_id FROM plain;
-- name: a sum out of range
SELECT SUM(b) + 9223372036854775807 - 1 FROM events WHERE b > 0;
-- name: a product out of range
SELECT MAX(b) * 3 FROM events;
-- name: a product of rows out of range
SELECT SUM(b * 3) FROM events;
-- name: division by zero
SELECT SUM(d / (host_id - host_id)) FROM events WHERE id < 5000;
-- name: division by zero over aggregates
SELECT SUM(d) / (COUNT(*) - COUNT(*)) FROM events WHERE id < 5000;
-- name: a negative limit
SELECT id FROM events LIMIT -1;
-- name: GROUP BY a position that doesn't exist
SELECT host_id, COUNT(*) FROM events GROUP BY 7;
-- name: ORDER BY a position that doesn't exist
SELECT host_id, COUNT(*) FROM events GROUP BY host_id ORDER BY 9;
-- name: nothing
;
