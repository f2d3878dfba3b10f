-- on: mariadb mysql
-- Reports in the words of MariaDB and MySQL: dates as groups, tables of pages and hosts, and what dashboards draw.

-- name: hours of the day
-- expect: split
SELECT HOUR(at) AS h, COUNT(*) AS n, SUM(bytes) AS bytes, MAX(level) AS worst FROM logs GROUP BY HOUR(at) ORDER BY h
-- name: a week day for each hour
-- expect: split
SELECT WEEKDAY(at) AS d, HOUR(at) AS h, COUNT(*) AS n, AVG(ms) AS ms FROM visits GROUP BY WEEKDAY(at), HOUR(at) ORDER BY d, h
-- name: quarters of a year
-- expect: split: usual versions
SELECT YEAR(at) AS y, QUARTER(at) AS q, COUNT(*), COUNT(msg), SUM(bytes) FROM logs GROUP BY YEAR(at), QUARTER(at) ORDER BY y, q
-- name: an interval of a quarter of an hour
-- expect: split
SELECT UNIX_TIMESTAMP(at) DIV 900 * 900 AS time, COUNT(*) AS n, AVG(price) AS price FROM visits WHERE at >= '2024-03-02' AND at < '2024-05-01' GROUP BY 1 ORDER BY 1
-- name: days of a month of orders
-- expect: split
SELECT DAYOFMONTH(placed) AS d, COUNT(*) AS orders, SUM(amount * qty) AS turnover, MIN(tax), MAX(tax) FROM orders WHERE placed BETWEEN '2024-02-01' AND '2024-02-29' GROUP BY DAYOFMONTH(placed) ORDER BY d
-- name: lengths of pages with their slowest visit
-- expect: split
SELECT LENGTH(page) AS letters, COUNT(*) AS n, MIN(ms) AS fastest, MAX(ms) AS slowest, SUM(ms) / COUNT(ms) AS mean FROM visits WHERE page IS NOT NULL GROUP BY LENGTH(page) ORDER BY COUNT(*) DESC, letters
-- name: slow visits of each region
-- expect: split
SELECT region, SUM(ms > 1000) AS slow, SUM(ms <= 1000) AS fast, COUNT(*) - COUNT(ms) AS unknown FROM visits GROUP BY region ORDER BY region
-- name: regions that were slow more often than a third of the time
-- expect: split
SELECT region, COUNT(*) AS n FROM visits WHERE ms IS NOT NULL GROUP BY region HAVING 3 * SUM(ms > 2000) > COUNT(*) ORDER BY n DESC, region
-- name: levels as columns
-- expect: split: usual versions
SELECT YEAR(at) AS y, SUM(IF(level = 0, 1, 0)) AS l0, SUM(IF(level = 1, 1, 0)) AS l1, SUM(IF(level = 2, 1, 0)) AS l2, SUM(IF(level IS NULL, 1, 0)) AS none FROM logs GROUP BY y ORDER BY y
-- name: messages of a kind
-- expect: split
SELECT LEFT(msg, 3) AS kind, COUNT(*), MIN(at), MAX(at) FROM logs WHERE msg LIKE 'st%' GROUP BY LEFT(msg, 3) ORDER BY kind
-- name: the busiest days
-- expect: split
SELECT DATE(at) AS day, COUNT(*) AS n, SUM(price) AS price FROM visits GROUP BY DATE(at) ORDER BY n DESC, day LIMIT 7
-- name: the busiest days after the first seven
-- expect: split
SELECT DATE(at) AS day, COUNT(*) AS n, SUM(price) AS price FROM visits GROUP BY DATE(at) ORDER BY n DESC, day LIMIT 7, 7
-- name: scores of each decade
-- expect: split
SELECT YEAR(born) DIV 10 * 10 AS decade, COUNT(*) AS people, SUM(score) AS score, MAX(born) AS youngest FROM users WHERE born IS NOT NULL GROUP BY decade ORDER BY decade
-- name: the best of the users
-- expect: split
SELECT login, score FROM users WHERE score > 50 ORDER BY score DESC, login LIMIT 12
-- name: a metric of each host
-- expect: split
SELECT host, SUM(CASE metric WHEN 'cpu' THEN value END) AS cpu, SUM(CASE metric WHEN 'mem' THEN value END) AS mem, SUM(CASE metric WHEN 'net' THEN cnt END) AS net FROM metrics GROUP BY host ORDER BY host
-- name: a metric by day with the days before
-- expect: split
SELECT day, metric, COUNT(*) AS n, SUM(value) AS v, SUM(cnt) AS c FROM metrics WHERE day >= '2024-01-05' AND metric IN ('cpu', 'net') GROUP BY day, metric ORDER BY day, metric
-- name: hosts that lack a metric on some day
-- expect: split
SELECT host, day FROM metrics GROUP BY host, day HAVING SUM(metric = 'disk') = 0 ORDER BY host, day
-- name: revenue of continents
-- expect: split
SELECT CASE WHEN country IN ('de', 'fr', 'it') THEN 'Europe' WHEN country IN ('us', 'br') THEN 'America' ELSE 'Asia' END AS continent, SUM(revenue) AS revenue, COUNT(*) AS n FROM sales GROUP BY continent ORDER BY revenue DESC
-- name: mean revenue of a unit
-- expect: split
SELECT country, SUM(revenue) / SUM(units) AS each_, ROUND(100 * SUM(units) / COUNT(*), 1) AS percent FROM sales GROUP BY country ORDER BY country
-- name: orders without customers and with
-- expect: split
SELECT customer_id IS NULL AS anonymous, COUNT(*) AS n, SUM(amount) AS amount, MAX(placed) AS last_ FROM orders GROUP BY customer_id IS NULL ORDER BY 1
-- name: weeks between two orders
-- expect: split
SELECT customer_id, DATEDIFF(MAX(placed), MIN(placed)) DIV 7 AS weeks, COUNT(DISTINCT placed) AS days FROM orders WHERE customer_id IS NOT NULL GROUP BY customer_id HAVING COUNT(*) > 1 ORDER BY weeks DESC, customer_id
-- name: the segments of customers by month
SELECT c.segment, MONTH(o.placed) AS m, COUNT(*) AS n, SUM(o.amount) AS amount FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY c.segment, MONTH(o.placed) ORDER BY c.segment, m
-- name: ticks of each minute
-- expect: split
SELECT UNIX_TIMESTAMP(ts) DIV 60 AS minute, COUNT(*) AS n, SUM(v) AS v, MAX(v) - MIN(v) AS spread FROM ticks GROUP BY minute ORDER BY minute
-- name: ticks of an hour that there is twice
-- expect: split
-- set: time_zone = +01:00
SELECT COUNT(*), MIN(ts), MAX(ts), SUM(v) FROM ticks WHERE ts >= '2024-03-31 01:00:00' AND ts < '2024-03-31 14:00:00'
-- name: names beside numbers of a host
-- expect: split
SELECT h.rack, DATE(e.at) AS day, COUNT(*) AS n, SUM(e.d) AS d FROM events e JOIN hosts h ON h.id = e.host_id WHERE e.at >= '2024-02-01' AND e.at < '2024-07-01' AND e.id < 5000 GROUP BY h.rack, DATE(e.at) ORDER BY h.rack, day
