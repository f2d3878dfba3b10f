-- Sessions of MariaDB and MySQL with settings that change an answer.
-- on: mariadb mysql

-- name: four more digits of a division
-- set: div_precision_increment = 0
SELECT AVG(i), AVG(d), SUM(d) / COUNT(*), AVG(d65) FROM events WHERE id < 5000;
-- name: thirty digits of a division
-- set: div_precision_increment = 30
SELECT AVG(i), AVG(d), SUM(d) / COUNT(*), AVG(d65) FROM events WHERE id < 5000;
-- name: ten digits of a division by host
-- set: div_precision_increment = 10
SELECT host_id, AVG(i), AVG(d), AVG(d0) / 3 FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id;
-- name: quotes around names
-- set: sql_mode = ANSI_QUOTES
-- expect: split
SELECT "host_id", COUNT(*) AS "n" FROM "events" GROUP BY "host_id" ORDER BY "host_id";
-- name: quotes around texts
-- expect: split
SELECT COUNT(*), "a 'text'", MAX(i) FROM events WHERE vb = "abc" OR v = "x\\y";
-- name: backslashes that are none
-- set: sql_mode = NO_BACKSLASH_ESCAPES
SELECT COUNT(*), '\', MIN(v) FROM events WHERE v = 'x\y' OR v = '\';
-- name: backslashes
SELECT COUNT(*), '\'', "\"", '\\', '\n' FROM events WHERE v = 'x\\y';
-- name: pipes that concatenate
-- set: sql_mode = PIPES_AS_CONCAT
SELECT COUNT(*), MAX(v || '-' || vb) FROM events WHERE id < 5000;
-- name: pipes that are OR
SELECT COUNT(*), SUM(id) FROM events WHERE i > 90 || host_id = 3;
-- name: only full groups
-- set: sql_mode = ONLY_FULL_GROUP_BY
SELECT host_id, COUNT(*), SUM(d) FROM events GROUP BY host_id ORDER BY host_id;
-- name: only full groups refuses a column
-- set: sql_mode = ONLY_FULL_GROUP_BY
SELECT host_id, i, COUNT(*) FROM events GROUP BY host_id;
-- name: a mode of ANSI
-- set: sql_mode = ANSI
SELECT "host_id", COUNT(*), MAX("v" || "vb") FROM "events" WHERE "id" < 5000 GROUP BY "host_id" ORDER BY "host_id";
-- name: fixed texts with their blanks
-- set: sql_mode = PAD_CHAR_TO_FULL_LENGTH
SELECT c, LENGTH(c), COUNT(*) FROM events WHERE id < 5000 GROUP BY c, LENGTH(c) ORDER BY c, 2;
-- name: extremes of fixed texts with their blanks
-- set: sql_mode = PAD_CHAR_TO_FULL_LENGTH
SELECT MIN(c), MAX(c), CONCAT(MAX(c), '|') FROM events;
-- name: reals as floats and high precedence of NOT
-- set: sql_mode = HIGH_NOT_PRECEDENCE,REAL_AS_FLOAT
SELECT COUNT(*), SUM(NOT i BETWEEN -5 AND 5) FROM events WHERE NOT host_id = 3;
-- name: spaces before parentheses
-- set: sql_mode = IGNORE_SPACE
SELECT COUNT (*), SUM (i), MAX (d) FROM events WHERE id < 5000;
-- name: subtraction without a sign
-- set: sql_mode = NO_UNSIGNED_SUBTRACTION
SELECT SUM(tu - 200), MIN(iu - iu - 1) FROM events WHERE id < 5000;
-- name: a limit of the session
-- set: sql_select_limit = 5
SELECT id FROM orders ORDER BY id;
-- name: a limit of the session on groups
-- set: sql_select_limit = 3
SELECT status, COUNT(*) FROM orders GROUP BY status ORDER BY status;
-- name: a limit of the session and a limit
-- set: sql_select_limit = 5
SELECT id FROM orders ORDER BY id LIMIT 8;
-- name: a limit of the session on one row
-- set: sql_select_limit = 1
SELECT COUNT(*), SUM(amount) FROM orders;
-- name: a limit of the session on a derived table
-- set: sql_select_limit = 2
SELECT COUNT(*) FROM (SELECT id FROM orders) x;
-- name: a limit of the session of nothing
-- set: sql_select_limit = 0
SELECT COUNT(*) FROM orders;
-- name: NULL from a division by zero
-- set: sql_mode = ERROR_FOR_DIVISION_BY_ZERO,STRICT_ALL_TABLES
SELECT SUM(d / (host_id - 1)), COUNT(d / (host_id - 1)), SUM(i) / (COUNT(*) - COUNT(*)) FROM events WHERE id < 5000;
-- name: another collation of the connection
-- set: collation_connection = utf8mb4_bin
SELECT COUNT(*), MAX('B' > 'a'), CASE WHEN 'a' = 'A' THEN 1 ELSE 0 END, MAX(CONCAT(i)) FROM events;
-- name: groups of texts that the query makes
-- set: collation_connection = utf8mb4_bin
SELECT CASE WHEN i % 3 = 0 THEN 'a' WHEN i % 3 = 1 THEN 'A' ELSE 'b' END AS k, COUNT(*) FROM events GROUP BY k ORDER BY k;
-- name: groups of texts that the query makes, ignoring case
-- set: collation_connection = utf8mb4_general_ci
SELECT CASE WHEN i % 3 = 0 THEN 'a' WHEN i % 3 = 1 THEN 'A' ELSE 'b' END AS k, COUNT(*) FROM events WHERE i IS NOT NULL AND i % 3 <> 1 GROUP BY k ORDER BY k;
-- name: names of weekdays in another language
-- on: mariadb
-- set: lc_time_names = de_DE
SELECT DAYNAME(at) AS w, COUNT(*) FROM events GROUP BY DAYNAME(at), DAYOFWEEK(at) ORDER BY DAYOFWEEK(at);
-- name: another week mode
-- set: default_week_format = 3
SELECT WEEK(at) AS w, COUNT(*) FROM events GROUP BY WEEK(at) ORDER BY w;
-- name: a small limit of sorting
-- set: max_sort_length = 8
SELECT tx, id FROM events WHERE id < 5000 AND tx NOT LIKE 'long%' ORDER BY tx, id LIMIT 60;
-- name: NULL is an automatic value
-- set: sql_auto_is_null = 1
SELECT COUNT(*) FROM orders WHERE id IS NULL;
-- name: results in latin1
-- set: character_set_results = latin1
SELECT v, c, vb, COUNT(*) FROM events WHERE id < 100 GROUP BY v, c, vb ORDER BY v, c, vb;
-- name: results as bytes
-- set: character_set_results = NULL
SELECT l1, COUNT(*) FROM words WHERE l1 <> '' GROUP BY l1 ORDER BY COUNT(*), MIN(id);
-- name: another isolation level
-- on: mysql
-- set: transaction_isolation = READ-COMMITTED
SELECT COUNT(*), SUM(d) FROM events;
-- name: big tables in memory
-- set: max_heap_table_size = 16384
SELECT id, tx, COUNT(*) FROM events GROUP BY id, tx ORDER BY id LIMIT 100;
-- name: a sort by the beginning of texts
-- set: max_sort_length = 64
-- expect: whole: max_sort_length is 64
SELECT LEFT(note, 10) AS k, COUNT(*) FROM metrics GROUP BY LEFT(note, 10) ORDER BY k;
-- name: too little memory to sort what a piece sorts
-- set: sort_buffer_size = 32768
SELECT COUNT(DISTINCT v), COUNT(DISTINCT vb), COUNT(DISTINCT tx) FROM wide;
-- name: groups of dates without a month
-- set: sql_mode = STRICT_TRANS_TABLES,NO_ZERO_IN_DATE
SELECT day, MAX(mi) AS m FROM events GROUP BY day ORDER BY m, day;
-- name: extremes of dates without a month
-- set: sql_mode = STRICT_TRANS_TABLES,NO_ZERO_IN_DATE
SELECT ti, MAX(day) AS m, COUNT(DISTINCT mi) FROM events WHERE id > 5000 GROUP BY ti ORDER BY ti;
-- name: distinct dates in a strict mode
-- set: sql_mode = STRICT_TRANS_TABLES,NO_ZERO_IN_DATE
SELECT DISTINCT day FROM events WHERE id < 5000 ORDER BY day;
-- name: quotients without more digits, of sums of integers among decimal numbers
-- set: div_precision_increment = 0
SELECT SUM(CASE WHEN value >= 0.5 THEN seq ELSE value END) / COUNT(*) AS a, AVG(LEAST(seq, value)) AS b, AVG(value) AS c FROM metrics;
-- name: a virtual column of the digits of quotients
-- expect: split
-- set: div_precision_increment = 9
SELECT SUM(seventh), MAX(seventh), COUNT(seventh) FROM computed;
-- name: a virtual column of the session
-- on: mariadb
-- expect: whole: the generated column session of fleeting may have another value in each session
SELECT COUNT(DISTINCT session), COUNT(*) FROM fleeting;
-- name: a join with a virtual column of the session
-- on: mariadb
-- expect: whole: may have another value in each session
SELECT COUNT(*) FROM computed c JOIN fleeting f ON f.id = c.id AND f.session > 0;
