-- Reports as people ask for them: counts, sums and averages by a key or by time, the first rows, and what is computed further.

-- name: rows and amount of each status
-- expect: split
SELECT status, COUNT(*) AS orders, SUM(amount) AS amount, SUM(qty) AS pieces FROM orders GROUP BY status
-- name: revenue of each country
SELECT country, SUM(revenue) AS revenue, SUM(units) AS units, COUNT(*) AS n FROM sales GROUP BY country ORDER BY country
-- name: the best customers
-- expect: split
SELECT customer_id, SUM(amount) AS spent, COUNT(*) AS orders FROM orders WHERE customer_id IS NOT NULL GROUP BY customer_id ORDER BY spent DESC, customer_id LIMIT 10
-- name: the best customers with their names
SELECT c.id, c.name, SUM(o.amount) AS spent FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY c.id, c.name ORDER BY spent DESC, c.id LIMIT 5
-- name: customers above their credit
-- expect: split
SELECT o.customer_id, MAX(c.credit) AS credit, SUM(o.amount) AS spent FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY o.customer_id HAVING SUM(o.amount) > MAX(c.credit) ORDER BY 1
-- name: orders of each month
-- expect: split
SELECT EXTRACT(MONTH FROM placed) AS m, COUNT(*), SUM(amount + tax) FROM orders GROUP BY EXTRACT(MONTH FROM placed) ORDER BY 1
-- name: amount with tax by size of order
-- expect: split
SELECT CASE WHEN qty < 3 THEN 1 WHEN qty < 8 THEN 2 ELSE 3 END AS size, COUNT(*), SUM(amount * (1 + tax)), AVG(amount) FROM orders GROUP BY CASE WHEN qty < 3 THEN 1 WHEN qty < 8 THEN 2 ELSE 3 END ORDER BY 1
-- name: void orders of each customer
-- expect: split
SELECT customer_id, SUM(CASE WHEN status = 'void' THEN 1 ELSE 0 END) AS voids, COUNT(*) AS orders FROM orders GROUP BY customer_id HAVING SUM(CASE WHEN status = 'void' THEN 1 ELSE 0 END) > 1 ORDER BY voids DESC, customer_id
-- name: share of void orders
-- expect: split
SELECT 100 * SUM(CASE WHEN status = 'void' THEN 1 ELSE 0 END) / COUNT(*) FROM orders
-- name: different customers of each status
-- expect: split
SELECT status, COUNT(DISTINCT customer_id) FROM orders GROUP BY status
-- name: first and last order of each customer
-- expect: split
SELECT customer_id, MIN(placed), MAX(placed), MIN(id), MAX(id) FROM orders GROUP BY customer_id ORDER BY customer_id
-- name: customers by number of orders
-- expect: split
SELECT n, COUNT(*) AS customers FROM (SELECT customer_id, COUNT(*) AS n FROM orders GROUP BY customer_id) x GROUP BY n ORDER BY n
-- name: orders of a week
-- expect: split
SELECT placed, COUNT(*), SUM(amount) FROM orders WHERE placed >= '2024-02-01' AND placed < '2024-02-08' GROUP BY placed ORDER BY placed
-- name: large orders
-- expect: split
SELECT id, customer_id, amount FROM orders WHERE amount > 900 ORDER BY amount DESC, id LIMIT 20
-- name: a page of large orders
-- expect: split
SELECT id, amount FROM orders WHERE amount IS NOT NULL ORDER BY amount DESC, id LIMIT 10 OFFSET 30
-- name: orders of good customers
-- expect: split
SELECT COUNT(*), SUM(amount) FROM orders WHERE customer_id IN (SELECT id FROM customers WHERE segment = 'gold')
-- name: orders of nobody
-- expect: split
SELECT COUNT(*), SUM(amount) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM customers c WHERE c.id = o.customer_id)
-- name: amount by segment
SELECT c.segment, COUNT(*) AS n, SUM(o.amount) AS amount FROM orders o LEFT JOIN customers c ON c.id = o.customer_id GROUP BY c.segment ORDER BY n, amount
-- name: events of each host
-- expect: split
SELECT host_id, COUNT(*), SUM(d), MIN(i), MAX(i) FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id
-- name: events of each rack
SELECT h.rack, COUNT(*), SUM(e.d) FROM events e JOIN hosts h ON h.id = e.host_id WHERE e.id < 5000 GROUP BY h.rack ORDER BY 2, 3
-- name: events of each day of a month
-- expect: split
SELECT CAST(at AS DATE) AS on_day, COUNT(*) AS n FROM events WHERE at >= '2024-05-01' AND at < '2024-06-01' GROUP BY CAST(at AS DATE) ORDER BY 1
-- name: events of each hour of the day
-- expect: split
SELECT EXTRACT(HOUR FROM at) AS h, COUNT(*) AS n, SUM(b) AS total FROM events WHERE id < 5000 GROUP BY EXTRACT(HOUR FROM at) ORDER BY 1
-- name: events of each month and host
-- expect: split
SELECT EXTRACT(YEAR FROM at) AS y1, EXTRACT(MONTH FROM at) AS m1, host_id, COUNT(*) AS n FROM events WHERE host_id < 4 GROUP BY EXTRACT(YEAR FROM at), EXTRACT(MONTH FROM at), host_id ORDER BY 1, 2, 3
-- name: days with many events
-- expect: split
SELECT CAST(at AS DATE) AS on_day, COUNT(*) AS n FROM events GROUP BY CAST(at AS DATE) HAVING COUNT(*) >= 5 ORDER BY n DESC, on_day LIMIT 10
-- name: the latest events
-- expect: split
SELECT at, id, host_id, i FROM events WHERE id < 5000 ORDER BY at DESC, id LIMIT 15
-- name: the latest events of a host
-- expect: split
SELECT at, id, d FROM events WHERE host_id = 5 ORDER BY at DESC, id LIMIT 5
-- name: running total of days
-- expect: split
SELECT CAST(at AS DATE) AS on_day, SUM(COUNT(*)) OVER (ORDER BY CAST(at AS DATE)) AS total FROM events WHERE at >= '2024-05-01' AND at < '2024-06-01' GROUP BY CAST(at AS DATE) ORDER BY 1
-- name: rank of hosts
-- expect: split
SELECT host_id, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM events GROUP BY host_id ORDER BY place, host_id
-- name: change from month to month
SELECT EXTRACT(YEAR FROM at) AS y1, EXTRACT(MONTH FROM at) AS m1, COUNT(*) - LAG(COUNT(*)) OVER (ORDER BY EXTRACT(YEAR FROM at), EXTRACT(MONTH FROM at)) AS change FROM events GROUP BY EXTRACT(YEAR FROM at), EXTRACT(MONTH FROM at) ORDER BY 1, 2
-- name: hosts without an event above a limit
-- expect: split
SELECT host_id, MAX(i) FROM events WHERE id < 5000 GROUP BY host_id HAVING MAX(i) < 100 ORDER BY host_id
-- name: a table of counts
-- expect: split
SELECT SUM(CASE WHEN i < -50 THEN 1 ELSE 0 END) AS low, SUM(CASE WHEN i BETWEEN -50 AND 50 THEN 1 ELSE 0 END) AS middle, SUM(CASE WHEN i > 50 THEN 1 ELSE 0 END) AS high, SUM(CASE WHEN i IS NULL THEN 1 ELSE 0 END) AS none FROM events
-- name: missing values of columns
-- expect: split
SELECT COUNT(*) - COUNT(i) AS i, COUNT(*) - COUNT(d) AS d, COUNT(*) - COUNT(day) AS day, COUNT(*) - COUNT(host_id) AS host FROM events WHERE id < 5000
-- name: average by host with two digits
SELECT host_id, ROUND(AVG(d), 2) AS mean FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id
-- name: averages by host
-- expect: split
SELECT host_id, AVG(i) AS mean_i, AVG(d) AS mean_d FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id
-- name: hosts of a list
-- expect: split
SELECT host_id, COUNT(*), SUM(d) FROM events WHERE host_id IN (2, 3, 5, 7) GROUP BY host_id ORDER BY host_id
-- name: values by tens
SELECT FLOOR(i / 10) AS ten, COUNT(*) AS n FROM events WHERE i BETWEEN 0 AND 99 GROUP BY FLOOR(i / 10) ORDER BY 1
-- name: values by remainder
-- expect: split
SELECT i % 5 AS rest, COUNT(*) AS n, SUM(d) AS total FROM events WHERE id < 5000 GROUP BY i % 5 ORDER BY 1
-- name: pages by region
-- expect: split
SELECT region, COUNT(*) AS visits, SUM(ms) AS ms, AVG(ms) AS mean, MAX(ms) AS slowest FROM visits GROUP BY region ORDER BY region
-- name: slow visits
-- expect: split
SELECT id, region, ms FROM visits WHERE ms > 2900 ORDER BY ms DESC, id LIMIT 10
-- name: different pages of each region
-- expect: split
SELECT region, COUNT(DISTINCT ms), COUNT(DISTINCT price) FROM visits GROUP BY region ORDER BY region
-- name: price of visits by day
-- expect: split
SELECT CAST(at AS DATE) AS on_day, SUM(price) AS price, COUNT(price) AS n FROM visits GROUP BY CAST(at AS DATE) ORDER BY 1 LIMIT 30
-- name: visits by weekly average
SELECT AVG(n), MIN(n), MAX(n) FROM (SELECT CAST(at AS DATE) AS on_day, COUNT(*) AS n FROM visits GROUP BY CAST(at AS DATE)) x
-- name: log lines of each level
-- expect: split
SELECT level, COUNT(*), SUM(bytes), MAX(bytes) FROM logs GROUP BY level ORDER BY level
-- name: log lines of each year and level
-- expect: split
SELECT EXTRACT(YEAR FROM at) AS y1, level, COUNT(*) AS n, SUM(bytes) AS total FROM logs GROUP BY EXTRACT(YEAR FROM at), level ORDER BY 1, 2
-- name: log lines of a year
SELECT COUNT(*), SUM(bytes) FROM logs WHERE at >= '2023-01-01' AND at < '2024-01-01'
-- name: the largest log lines
-- expect: split
SELECT id, at, bytes FROM logs WHERE level = 2 ORDER BY bytes DESC, id LIMIT 7
-- name: measurements of each metric
-- expect: split
SELECT metric, COUNT(*), SUM(value), AVG(value), SUM(cnt) FROM metrics GROUP BY metric ORDER BY 2, 3
-- name: measurements of each day
-- expect: split
SELECT day, COUNT(value), SUM(value), MIN(value), MAX(value) FROM metrics GROUP BY day ORDER BY day
-- name: measurements of the last days
SELECT day, SUM(cnt) FROM metrics WHERE day >= '2024-02-01' GROUP BY day ORDER BY day
-- name: mean of each day's sum
SELECT AVG(total) FROM (SELECT day, SUM(cnt) AS total FROM metrics GROUP BY day) x
-- name: units and revenue
-- expect: split
SELECT SUM(units), SUM(revenue), SUM(revenue) / SUM(units), COUNT(*) FROM sales
-- name: units by size
-- expect: split
SELECT CASE WHEN units IS NULL THEN 0 WHEN units < 10 THEN 1 WHEN units < 30 THEN 2 ELSE 3 END AS size, COUNT(*), SUM(revenue) FROM sales GROUP BY CASE WHEN units IS NULL THEN 0 WHEN units < 10 THEN 1 WHEN units < 30 THEN 2 ELSE 3 END ORDER BY 1
-- name: scores
-- expect: split
SELECT COUNT(*), SUM(score), MIN(score), MAX(score), AVG(score), COUNT(DISTINCT score) FROM users
-- name: users by year of birth
-- expect: split
SELECT EXTRACT(YEAR FROM born) AS y1, COUNT(*) AS n FROM users GROUP BY EXTRACT(YEAR FROM born) ORDER BY 1
-- name: users of several years
-- expect: split
SELECT score, COUNT(*) AS n FROM users WHERE born IS NOT NULL GROUP BY score HAVING COUNT(*) > 1 ORDER BY n DESC, score LIMIT 12
-- name: every key once
-- expect: split
SELECT DISTINCT host_id FROM events ORDER BY host_id
-- name: every pair of keys once
-- expect: split
SELECT DISTINCT customer_id, qty FROM orders WHERE amount > 500 ORDER BY 1, 2
-- name: totals with a CTE
-- expect: split
WITH big AS (SELECT id, customer_id, amount FROM orders WHERE amount > 300) SELECT customer_id, COUNT(*), SUM(amount) FROM big GROUP BY customer_id ORDER BY 1
-- name: totals of a CTE of totals
WITH daily AS (SELECT placed, SUM(amount) AS total FROM orders GROUP BY placed) SELECT COUNT(*), MIN(total), MAX(total), SUM(total) FROM daily
-- name: two reports in one
SELECT 'orders', COUNT(*), SUM(amount) FROM orders UNION ALL SELECT 'sales', COUNT(*), SUM(revenue) FROM sales
-- name: ticks of each hour
SELECT EXTRACT(DAY FROM ts) AS d1, EXTRACT(HOUR FROM ts) AS h1, COUNT(*), SUM(v) FROM ticks GROUP BY EXTRACT(DAY FROM ts), EXTRACT(HOUR FROM ts) ORDER BY 1, 2
