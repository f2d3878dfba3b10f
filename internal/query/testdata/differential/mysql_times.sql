-- Functions of dates and times of MariaDB and MySQL.
-- on: mariadb mysql

-- name: rows per day of a month
-- expect: split
SELECT DATE(at) AS dy, COUNT(*), SUM(d) FROM events WHERE at >= '2024-05-01' AND at < '2024-06-15' GROUP BY DATE(at) ORDER BY dy;
-- name: rows per month
-- expect: split
SELECT DATE_FORMAT(at, '%Y-%m') AS m, COUNT(*), AVG(d) FROM events GROUP BY DATE_FORMAT(at, '%Y-%m') ORDER BY m;
-- name: rows per hour
SELECT HOUR(at) AS h, COUNT(*) FROM events GROUP BY HOUR(at) ORDER BY h;
-- name: rows per ten minutes
SELECT FROM_UNIXTIME(UNIX_TIMESTAMP(ts) DIV 600 * 600) AS t, COUNT(*), SUM(v) FROM ticks GROUP BY 1 ORDER BY 1 LIMIT 30;
-- name: rows per day of the week
SELECT DAYOFWEEK(at), DAYNAME(at), COUNT(*) FROM events GROUP BY DAYOFWEEK(at), DAYNAME(at) ORDER BY 1;
-- name: rows per week
SELECT YEARWEEK(at), WEEK(at, 3), COUNT(*) FROM events GROUP BY YEARWEEK(at), WEEK(at, 3) ORDER BY 1, 2;
-- name: rows per quarter
SELECT YEAR(at), QUARTER(at), COUNT(*) FROM events GROUP BY YEAR(at), QUARTER(at) ORDER BY 1, 2;
-- name: months in words
SELECT MONTHNAME(at), COUNT(*) FROM events GROUP BY MONTHNAME(at), MONTH(at) ORDER BY MONTH(at);
-- name: days between
SELECT MAX(DATEDIFF(ts, at)), MIN(TIMESTAMPDIFF(HOUR, at, ts)) FROM events WHERE id < 5000;
-- name: intervals
SELECT COUNT(*), MIN(at + INTERVAL 1 MONTH), MAX(DATE_SUB(at, INTERVAL '1:30' HOUR_MINUTE)) FROM events;
-- name: a range with an interval
SELECT COUNT(*) FROM events WHERE at >= '2024-06-01' - INTERVAL 1 WEEK AND at < '2024-06-01' + INTERVAL 1 WEEK;
-- name: literals of dates and times
SELECT COUNT(*), DATE '2024-01-01', TIMESTAMP '2024-01-01 00:00:00', TIME '10:00:00' FROM events WHERE at < TIMESTAMP '2024-05-01 00:00:00';
-- name: dates as numbers
SELECT COUNT(*), MAX(at + 0), MIN(day + 0), MAX(TO_DAYS(at)) FROM events WHERE id < 5000;
-- name: last days of months
SELECT LAST_DAY(at), COUNT(*) FROM events GROUP BY LAST_DAY(at) ORDER BY 1;
-- name: time of day
SELECT MIN(TIME(at)), MAX(TIME(at)), MAX(ADDTIME(TIME(at), '01:00:00')) FROM events;
-- name: unix time
SELECT MIN(UNIX_TIMESTAMP(ts)), MAX(UNIX_TIMESTAMP(ts)), COUNT(*) FROM ticks;
-- name: average of unix time
SELECT AVG(UNIX_TIMESTAMP(ts)), FROM_UNIXTIME(AVG(UNIX_TIMESTAMP(ts))) FROM ticks;
-- name: text of a date in an extreme
SELECT MAX(DATE_FORMAT(at, '%d.%m.%Y')), MIN(DATE_FORMAT(at, '%W')) FROM events;
-- name: dates from text
SELECT COUNT(*) FROM events WHERE day = STR_TO_DATE('05.02.2024', '%d.%m.%Y');
-- name: now within a condition
SELECT COUNT(*), SUM(d) FROM events WHERE at < NOW() AND id < 5000;
-- name: today within a condition
SELECT COUNT(*) FROM events WHERE day > CURDATE() - INTERVAL 100 YEAR;
-- name: now twice is one time
SELECT COUNT(*), MAX(NOW()) = MIN(NOW()), MAX(CURRENT_TIMESTAMP) = NOW() FROM events;
-- name: extract a unit of two
SELECT EXTRACT(YEAR_MONTH FROM at) AS ym, COUNT(*) FROM events GROUP BY EXTRACT(YEAR_MONTH FROM at) ORDER BY ym;
-- name: greatest of dates
SELECT MAX(GREATEST(at, '2024-06-01')), MIN(LEAST(at, TIMESTAMP '2024-06-01 00:00:00')) FROM events;
-- name: case of dates
SELECT MAX(CASE WHEN i > 0 THEN at ELSE day END), MIN(COALESCE(ts, at)) FROM events WHERE id < 5000;
-- name: a timestamp in another zone
-- set: time_zone = +02:00
SELECT MIN(ts), MAX(ts), COUNT(*) FROM ticks WHERE ts >= '2024-03-31 02:30:00' AND ts < '2024-03-31 05:00:00';
-- name: a timestamp by hour in another zone
-- set: time_zone = -05:30
SELECT HOUR(ts) AS h, COUNT(*), MIN(ts) FROM ticks GROUP BY HOUR(ts) ORDER BY h;
-- name: rows with a timestamp in another zone
-- set: time_zone = +13:00
SELECT id, ts, at FROM events WHERE id < 40 ORDER BY id;
-- name: unix time in another zone
-- set: time_zone = -08:00
SELECT MIN(UNIX_TIMESTAMP(at)), MAX(FROM_UNIXTIME(1700000000)), COUNT(*) FROM events;
-- name: a conversion of zones
SELECT CONVERT_TZ(MAX(at), '+00:00', '+05:45'), MIN(CONVERT_TZ(ts, '+00:00', '-03:00')) FROM events WHERE id < 5000;
-- name: seconds and fractions
SELECT SUM(SECOND(at)), SUM(MICROSECOND(at)), MAX(TIME_TO_SEC(dur)) FROM events;
-- name: rows per day of the partitioning column
SELECT TO_DAYS(at) AS k, COUNT(*) FROM events WHERE at < '2024-01-10' GROUP BY TO_DAYS(at) ORDER BY k;
-- name: a period of two columns
SELECT PERIOD_DIFF(EXTRACT(YEAR_MONTH FROM MAX(at)), EXTRACT(YEAR_MONTH FROM MIN(at))) FROM events;
-- name: extremes of durations
-- expect: split
SELECT MIN(dur), MAX(dur) FROM events;
-- name: extremes of durations by group
-- expect: split
SELECT host_id, MIN(dur), MAX(dur), COUNT(dur) FROM events GROUP BY host_id ORDER BY host_id;
-- name: extremes of durations in expressions
-- expect: split
SELECT TIME_TO_SEC(MAX(dur)) - TIME_TO_SEC(MIN(dur)), ADDTIME(MIN(dur), '01:00:00'), HOUR(MAX(dur)) FROM events WHERE id < 5000;
-- name: extremes of computed durations
SELECT MIN(SEC_TO_TIME(i * 7)), MAX(TIMEDIFF(at, '2024-01-01')) FROM events WHERE id < 300;
-- name: extremes of short durations
-- expect: split
SELECT host_id, MIN(dur) AS d FROM events WHERE dur < '00:30:00' GROUP BY host_id HAVING MIN(dur) < 0 ORDER BY d, host_id LIMIT 7;
-- name: durations of nothing but zero
SELECT MIN(dur), MAX(dur), MIN(-dur), MIN(SEC_TO_TIME(0 * i)) FROM events WHERE dur = 0;
-- name: negative durations as numbers
-- expect: split
SELECT host_id, MIN(dur) + 1, MIN(dur) - MAX(dur), SUM(i) + MIN(dur), -MIN(dur) FROM events GROUP BY host_id HAVING MIN(dur) + 1 < 0 ORDER BY MIN(dur) + 1, host_id LIMIT 5;
-- name: negative durations cut to integers
SELECT host_id, CAST(MIN(dur) AS SIGNED), MIN(dur) % 7, MIN(dur) DIV 3 FROM events GROUP BY host_id ORDER BY host_id;
-- name: a time added to the extremes of dates
-- expect mariadb: split
-- expect mysql: whole: usual versions
SELECT host_id, ADDTIME(MIN(day), '01:00:00') FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id;
-- name: dates that are not between texts
-- expect mariadb: whole: may miss dates
-- expect mysql: split
SELECT COUNT(*), SUM(i) FROM events WHERE day NOT BETWEEN '2023-12-05 10:30:00' AND '2024-10-15';
-- name: dates that are between texts
-- expect: split
SELECT COUNT(*), SUM(i) FROM events WHERE day BETWEEN '2023-12-05 10:30:00' AND '2024-10-15';
