-- What PostgreSQL writes in its own way, and its types.
-- on: postgres

-- name: filtered aggregates
-- expect: split
SELECT COUNT(*) FILTER (WHERE i > 0), SUM(d) FILTER (WHERE host_id = 3), MAX(at) FILTER (WHERE false) FROM events;
-- name: filtered aggregates by host
SELECT host_id, count(*) FILTER (WHERE i > 0) AS p, avg(d) FILTER (WHERE i > 0) FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id;
-- name: filtered distinct aggregates
SELECT count(DISTINCT i) FILTER (WHERE host_id < 4), count(DISTINCT i) FROM events;
-- name: casts with colons
-- expect: split
SELECT host_id::text AS h, sum(i)::numeric(20,2), count(*)::int FROM events WHERE id < 5000 GROUP BY host_id::text ORDER BY h;
-- name: rows per month
-- expect: split
SELECT date_trunc('month', at) AS m, count(*), sum(d) FROM events GROUP BY date_trunc('month', at) ORDER BY m;
-- name: rows per month by position
SELECT date_trunc('month', at) AS m, count(*), avg(d) FROM events GROUP BY 1 ORDER BY 1;
-- name: rows per day with a zone
SELECT date_trunc('day', ts) AS m, count(*) FROM events WHERE id < 5000 GROUP BY 1 ORDER BY 1;
-- name: rows per hour with a zone of the session
-- set: TimeZone = Europe/Berlin
SELECT date_trunc('hour', ts) AS h, count(*), min(ts), max(ts) FROM ticks GROUP BY 1 ORDER BY 1;
-- name: pruning with a zone of the session
-- set: TimeZone = America/New_York
SELECT count(*), min(ts), max(ts) FROM ticks WHERE ts >= '2024-03-30 20:30:00' AND ts < '2024-03-30 23:00:00';
-- name: hours with a zone of the session
-- set: TimeZone = Europe/Berlin
SELECT extract(hour FROM ts) AS h, count(*) FROM ticks GROUP BY extract(hour FROM ts) ORDER BY h;
-- name: a conversion of zones
SELECT (max(ts) AT TIME ZONE 'Asia/Kolkata')::text, min(at AT TIME ZONE 'Europe/Berlin') FROM events WHERE id < 5000;
-- name: another style of dates
-- set: DateStyle = German, DMY
SELECT min(at), max(day), min(ts) FROM events WHERE id < 5000;
-- name: another style of dates in groups
-- set: DateStyle = SQL, MDY
SELECT day, count(*), max(at) FROM events WHERE id < 5000 GROUP BY day ORDER BY day;
-- name: another style of intervals
-- set: IntervalStyle = iso_8601
SELECT min(dur), max(dur), sum(dur) FROM events WHERE id < 5000;
-- name: sums of intervals
SELECT sum(dur), avg(dur), min(dur), max(dur) FROM events WHERE id < 5000;
-- name: group by an interval
SELECT dur, count(*) FROM events WHERE dur BETWEEN '-10 min' AND '10 min' GROUP BY dur ORDER BY dur;
-- name: intervals that are equal and look different
SELECT dur, count(*) FROM events WHERE id IN (5003, 5004) GROUP BY dur;
-- name: a month and thirty days
SELECT count(DISTINCT x), min(x), max(x) FROM (SELECT CASE WHEN id % 2 = 0 THEN interval '1 month' ELSE interval '30 days' END AS x FROM events) y;
-- name: differences of times
SELECT max(at) - min(at), max(ts - at AT TIME ZONE 'UTC') FROM events WHERE id < 5000;
-- name: numeric without a scale
SELECT sum(n), min(n), max(n), count(DISTINCT n) FROM events WHERE id < 5000;
-- name: sums of numeric without a scale
-- expect: split
SELECT sum(n), count(DISTINCT n) FROM events WHERE id < 5000;
-- name: average of numeric without a scale
SELECT avg(n) FROM events WHERE id < 5000;
-- name: averages of numeric by host
SELECT host_id, avg(n), avg(d), avg(i), avg(b) FROM events WHERE id < 5000 GROUP BY host_id ORDER BY host_id;
-- name: numerics of one value and other scales
SELECT n, count(*) FROM events WHERE n = 0 OR n = 1 GROUP BY n;
-- name: group by numeric without a scale
SELECT n, count(*) FROM events WHERE n > 14200 AND id < 5000 GROUP BY n ORDER BY n;
-- name: extremes of numeric without a scale
SELECT min(n), max(n), sum(n) FROM events WHERE n = 0;
-- name: a numeric of 500 digits
SELECT min(n), max(n), sum(n), avg(n) FROM events WHERE id <= 5002;
-- name: NaN
SELECT max(n), min(n), sum(n), count(n), max(f), max(g) FROM events;
-- name: group by NaN
SELECT n, f, g, count(*) FROM events WHERE n = 'NaN' GROUP BY n, f, g;
-- name: infinite dates
SELECT min(day), max(day), min(ts), max(ts), min(dur), max(dur) FROM events;
-- name: order by infinite dates
SELECT day, id FROM events ORDER BY day DESC, id LIMIT 30;
-- name: infinite fractions
SELECT min(f), max(f), min(g), max(g) FROM events WHERE id < 5005;
-- name: order by fractions with NaN
SELECT g, id FROM events ORDER BY g DESC, id LIMIT 130;
-- name: zero and minus zero in groups
SELECT g, f, count(*) FROM events WHERE g = 0 GROUP BY g, f;
-- name: fewer digits of fractions
-- set: extra_float_digits = 0
SELECT g, count(*), max(f) FROM events WHERE id < 5000 GROUP BY g ORDER BY g LIMIT 100;
-- name: deviations of exact values
SELECT stddev(i), stddev_pop(i), var_samp(d), variance(d) FROM events WHERE id < 5000;
-- name: deviations of fractions
SELECT stddev(g), var_pop(f) FROM events WHERE id < 5000;
-- name: regression and correlation
SELECT corr(g, f), regr_slope(g, f), covar_pop(g, f) FROM events WHERE id < 5000;
-- name: truth values
-- expect: split
SELECT bool_and(bo), bool_or(bo), every(i < 1000) FROM events WHERE id < 5000;
-- name: truth values by host
SELECT host_id, bool_and(i > -100), bool_or(i > 99), count(bo) FROM events GROUP BY host_id ORDER BY host_id;
-- name: group by a truth value
SELECT bo, count(*), sum(i) FROM events WHERE id < 5000 GROUP BY bo ORDER BY bo;
-- name: truth values of no rows
SELECT bool_and(i > 0), bool_or(i > 0), every(true) FROM empties;
-- name: tests of truth
SELECT bo IS TRUE, bo IS NOT FALSE, bo IS UNKNOWN, count(*) FROM events GROUP BY 1, 2, 3 ORDER BY 1, 2, 3;
-- name: bits of integers
-- expect: split
SELECT bit_and(i), bit_or(i), bit_xor(i) FROM events WHERE id < 5000;
-- name: bits of bit strings
SELECT bit_and(bt), bit_or(bt), bit_xor(bt) FROM events;
-- name: bits of small and large integers
SELECT bit_and(si), bit_or(b), bit_xor(b) FROM events;
-- name: bits of no rows
SELECT bit_and(i), bit_or(i) FROM empties;
-- name: group by bit strings
SELECT bt, count(*) FROM events WHERE bt < B'0000101000' GROUP BY bt ORDER BY bt;
-- name: group by varying bit strings
SELECT vbt, count(*) FROM events GROUP BY vbt ORDER BY vbt LIMIT 60;
-- name: lists in order
SELECT string_agg(id::text, ',' ORDER BY id) FROM events WHERE i = 5;
-- name: lists in order by host
SELECT host_id, string_agg(v, '/' ORDER BY id), array_agg(i ORDER BY id) FROM events WHERE i > 90 AND id < 5000 GROUP BY host_id ORDER BY host_id;
-- name: lists of distinct values
SELECT string_agg(DISTINCT vb, ',' ORDER BY vb), array_agg(DISTINCT host_id ORDER BY host_id) FROM events;
-- name: lists of no rows
SELECT string_agg(v, ','), array_agg(i), json_agg(i), jsonb_agg(i) FROM empties;
-- name: lists with NULL
SELECT array_agg(i ORDER BY id), string_agg(v, ',' ORDER BY id) FROM events WHERE id < 30;
-- name: lists of JSON
SELECT json_agg(i ORDER BY id), jsonb_agg(js ORDER BY id), jsonb_object_agg(id, i) FROM events WHERE id < 20;
-- name: lists without order in one partition
SELECT array_agg(id), string_agg(v, '') FROM single;
-- name: lists of rows
SELECT json_agg(x ORDER BY x.id) FROM (SELECT id, v FROM events WHERE id < 5) x;
-- name: distinct on
SELECT DISTINCT ON (host_id) host_id, id, at FROM events ORDER BY host_id, at DESC, id;
-- name: distinct on two columns
SELECT DISTINCT ON (region, page) region, page, id FROM visits ORDER BY region, page, id DESC;
-- name: grouping sets
SELECT host_id, i % 2 AS odd, count(*), grouping(host_id, i % 2) FROM events WHERE id < 5000 GROUP BY GROUPING SETS ((host_id, i % 2), (host_id), ()) ORDER BY 1, 2, 4;
-- name: rollup
SELECT region, page, count(*), sum(price) FROM visits GROUP BY ROLLUP (region, page) ORDER BY region, page, 3, 4;
-- name: cube
SELECT metric, host, count(*) FROM metrics GROUP BY CUBE (metric, host) ORDER BY 1, 2, 3;
-- name: percentiles
-- expect: whole
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY d), percentile_disc(0.9) WITHIN GROUP (ORDER BY i), mode() WITHIN GROUP (ORDER BY host_id) FROM events;
-- name: percentiles by host
SELECT host_id, percentile_disc(0.5) WITHIN GROUP (ORDER BY i) FROM events GROUP BY host_id ORDER BY host_id;
-- name: NULLS FIRST
-- expect: split
SELECT i, id FROM events ORDER BY i NULLS FIRST, id LIMIT 150;
-- name: NULLS LAST in descending order
SELECT d, id FROM events ORDER BY d DESC NULLS LAST, id LIMIT 40;
-- name: groups with NULLS LAST
SELECT host_id, count(*) FROM events GROUP BY host_id ORDER BY host_id DESC NULLS LAST;
-- name: FETCH FIRST
SELECT id FROM events ORDER BY id OFFSET 5 ROWS FETCH FIRST 10 ROWS ONLY;
-- name: FETCH WITH TIES
SELECT qty FROM orders ORDER BY qty FETCH FIRST 3 ROWS WITH TIES;
-- name: LIMIT ALL and OFFSET alone
SELECT id FROM orders ORDER BY id LIMIT ALL OFFSET 380;
-- name: a limit by an expression
SELECT id FROM orders ORDER BY id LIMIT 2 + 3;
-- name: an enumeration
-- expect: split
SELECT en, count(*) FROM events GROUP BY en ORDER BY en;
-- name: extremes of an enumeration by itself
SELECT en, count(*), min(en), max(en) FROM events GROUP BY en ORDER BY en;
-- name: an enumeration in the condition
SELECT count(*), sum(id) FROM events WHERE en > 'alpha';
-- name: identifiers of 128 bits
-- expect: split
SELECT u, count(*) FROM events GROUP BY u ORDER BY u LIMIT 30;
-- name: distinct identifiers of 128 bits
SELECT count(DISTINCT u) FROM events;
-- name: addresses
SELECT ip, count(*), min(ip), max(ip) FROM events GROUP BY ip ORDER BY ip;
-- name: arrays
SELECT ar, count(*) FROM events WHERE id < 5000 GROUP BY ar ORDER BY ar;
-- name: elements of arrays
SELECT ar[1] AS a, count(*), sum(ar[3]) FROM events GROUP BY ar[1] ORDER BY a;
-- name: extremes of arrays
SELECT min(ar), max(ar), max(array_length(ar, 1)) FROM events;
-- name: = ANY of an array
SELECT count(*), sum(id) FROM events WHERE host_id = ANY (ARRAY[1, 3, 5]) OR 2 = ANY (ar);
-- name: ranges
SELECT rg, count(*) FROM events GROUP BY rg ORDER BY rg;
-- name: a range in the condition
SELECT count(*), sum(id) FROM events WHERE rg @> 3 OR isempty(rg);
-- name: JSON of bytes
SELECT js, count(*) FROM events WHERE id < 5000 GROUP BY js ORDER BY js;
-- name: JSON numbers of one value and other scales
SELECT js, count(*) FROM events WHERE js IN ('1', '1.0', '1.00') GROUP BY js;
-- name: values of JSON
SELECT js->'a' AS a, js->>'a' AS t, count(*) FROM events WHERE id < 5000 GROUP BY 1, 2 ORDER BY 2;
-- name: values of JSON in the condition
SELECT count(*), sum((js->>'a')::int) FROM events WHERE js @> '{"a": 1}' AND js ? 'b';
-- name: texts of JSON
SELECT j::text, count(*) FROM events WHERE id < 5000 GROUP BY j::text ORDER BY 2;
-- name: rows with JSON
SELECT id, js, j, js #> '{b,2}' FROM events WHERE id < 30 ORDER BY id;
-- name: bytes
SELECT bl, count(*), max(bl::text) FROM events WHERE id < 5000 GROUP BY bl ORDER BY bl;
-- name: bytes in the older form
-- set: bytea_output = escape
SELECT bl, count(*) FROM events GROUP BY bl ORDER BY bl;
-- name: times of day
SELECT min(tm), max(tm), count(DISTINCT tm), min(tz), max(tz) FROM events WHERE id < 5000;
-- name: group by a time of day with a zone
SELECT tz, count(*) FROM events GROUP BY tz ORDER BY tz;
-- name: fixed texts
-- expect: split
SELECT c, count(*), length(c), c || '|' FROM events GROUP BY c ORDER BY c;
-- name: extremes of fixed texts
SELECT min(c), max(c), max(c::text || '|') FROM events;
-- name: fixed texts with blanks
SELECT pad, count(*), sum(x) FROM words GROUP BY pad ORDER BY pad;
-- name: group by a collation that ignores case
SELECT ci, count(*) FROM words GROUP BY ci ORDER BY ci;
-- name: counts by a collation that ignores case
-- expect: split
SELECT count(*) AS n, sum(x) AS s FROM words GROUP BY ci ORDER BY n, s;
-- name: distinct counts by a collation that ignores case
SELECT count(DISTINCT ci), count(DISTINCT pad), count(DISTINCT vb), count(DISTINCT icu) FROM words;
-- name: distinct rows by a collation that ignores case
SELECT DISTINCT ci FROM words ORDER BY ci;
-- name: group by words ordered as bytes
-- expect: split
SELECT vb, count(*), sum(x) FROM words GROUP BY vb ORDER BY vb;
-- name: group by a text of Unicode's order
SELECT icu, count(*), sum(x) FROM words GROUP BY icu ORDER BY icu;
-- name: extremes of texts of several collations
SELECT min(vb), max(vb), min(icu), max(icu), min(pad), max(pad) FROM words;
-- name: extremes by a collation that ignores case
SELECT min(ci), max(ci) FROM words WHERE ci = 'e';
-- name: events by a collation that ignores case
SELECT vi, count(*) FROM events WHERE id < 5000 GROUP BY vi ORDER BY vi;
-- name: events by a collation that ignores case, sums
SELECT count(*) AS n, sum(id) AS s FROM events GROUP BY vi ORDER BY n, s;
-- name: a collation in the order
SELECT vb, id FROM words ORDER BY vb COLLATE "und-x-icu", id;
-- name: a collation in the keys
SELECT icu COLLATE "C" AS k, count(*) FROM words GROUP BY icu COLLATE "C" ORDER BY k;
-- name: users by name in another case
SELECT login, score FROM users WHERE login = 'USER5' OR login = 'user7' ORDER BY score;
-- name: odd names
-- expect: split
SELECT "a b", "select", count(*), sum("group") FROM "odd name""s" GROUP BY "a b", "select" ORDER BY 1, 2;
-- name: a partition by its own name
SELECT count(*), sum(d) FROM events_p04;
-- name: only the parent
SELECT count(*) FROM ONLY events;
-- name: inheritance
SELECT v, count(*) FROM parent GROUP BY v ORDER BY v;
-- name: the table of each row
SELECT tableoid::regclass::text AS t, count(*) FROM events GROUP BY tableoid ORDER BY t;
-- name: places of rows
SELECT count(DISTINCT ctid) > 0 FROM events;
-- name: a sample of rows
SELECT count(*) >= 0 FROM events TABLESAMPLE BERNOULLI (50) REPEATABLE (1);
-- name: text between dollars
SELECT count(*), $$it's$$, $x$ $$ $x$ FROM events WHERE v <> $$a'b$$;
-- name: escapes and prefixes
SELECT count(*), E'a\tb\'', U&'\0041', B'101', X'1F' FROM events WHERE v = 'x\y';
-- name: texts over several lines
SELECT count(*), 'one'
  'two' FROM events;
-- name: nested comments
SELECT /* a /* b */ c */ count(*) FROM events;
-- name: lateral joins
SELECT h.id, x.n FROM hosts h, LATERAL (SELECT count(*) AS n FROM events e WHERE e.host_id = h.id) x ORDER BY h.id;
-- name: lateral joins from the partitioned table
SELECT sum(x.w), count(*) FROM events e CROSS JOIN LATERAL (SELECT h.weight AS w FROM hosts h WHERE h.id = e.host_id) x;
-- name: functions in FROM
SELECT g.x, count(e.id) FROM generate_series(1, 12) AS g (x) LEFT JOIN events e ON e.host_id = g.x GROUP BY g.x ORDER BY g.x;
-- name: functions in FROM joined
SELECT g.x, count(*) FROM events e JOIN generate_series(1, 3) AS g (x) ON e.host_id = g.x GROUP BY g.x ORDER BY g.x;
-- name: sets in the select list
SELECT unnest(ar) AS u, count(*) FROM events GROUP BY 1 ORDER BY 1;
-- name: VALUES as a table
SELECT x.k, count(*) FROM events e JOIN (VALUES (1, 'a'), (2, 'b')) AS x (id, k) ON x.id = e.host_id GROUP BY x.k ORDER BY x.k;
-- name: full joins
SELECT count(*), count(e.id), count(p.id) FROM events e FULL JOIN plain p ON p.id = e.id;
-- name: a full join by group
SELECT h.id, count(e.id) FROM events e FULL JOIN hosts h ON h.id = e.host_id GROUP BY h.id ORDER BY h.id;
-- name: a CTE that is materialized
WITH x AS MATERIALIZED (SELECT host_id, d FROM events WHERE i > 0) SELECT host_id, count(*), sum(d) FROM x GROUP BY host_id ORDER BY host_id;
-- name: a CTE that is not materialized
WITH x AS NOT MATERIALIZED (SELECT host_id, d FROM events WHERE i > 0) SELECT host_id, count(*) FROM x GROUP BY host_id ORDER BY host_id;
-- name: INTERSECT and EXCEPT
SELECT qty AS v FROM orders INTERSECT SELECT k FROM plain ORDER BY v;
-- name: EXCEPT ALL
SELECT qty::int AS v FROM orders EXCEPT ALL SELECT k FROM plain ORDER BY v;
-- name: a row as a value
SELECT count(*), max(ROW(host_id, i)::text) FROM events WHERE ROW(host_id, i) > ROW(3, 5);
-- name: the row of a table as a value
SELECT o FROM orders o WHERE id = 7;
-- name: IS DISTINCT FROM
SELECT host_id IS NOT DISTINCT FROM NULL AS k, count(*) FROM events GROUP BY 1 ORDER BY 1;
-- name: ILIKE and regular expressions
SELECT count(*), sum(id) FROM events WHERE v ILIKE 'A%' OR vb ~ '^[0-9]' OR tx !~* 'T' OR v SIMILAR TO '(b|g)%';
-- name: BETWEEN SYMMETRIC
SELECT count(*), sum(i) FROM events WHERE i BETWEEN SYMMETRIC 5 AND -5;
-- name: OVERLAPS
SELECT count(*) FROM events WHERE (at, interval '1 day') OVERLAPS (timestamp '2024-05-01', timestamp '2024-05-03');
-- name: now within a condition
SELECT count(*), max(now()) = min(now()), max(current_timestamp) = now() FROM events WHERE at < now();
-- name: the clock
SELECT count(*), max(clock_timestamp()) IS NOT NULL FROM events;
-- name: random
-- expect: whole
SELECT count(*), random() < 0 FROM events;
-- name: random in the condition
SELECT count(*) FROM events WHERE random() >= 0;
-- name: a user's function
-- expect: whole
SELECT sum(twice(i)), twice(count(*)::int) FROM events WHERE id < 5000;
-- name: a sequence and locks
SELECT count(*), pg_try_advisory_xact_lock(4711) FROM orders WHERE id < 2;
-- name: settings
SELECT count(*), current_setting('search_path') IS NOT NULL, current_schema(), pg_backend_pid() > 0 FROM events;
-- name: rows that are locked
-- expect: whole
SELECT id FROM orders WHERE id < 3 ORDER BY id FOR UPDATE;
-- name: rows that are shared
SELECT id FROM orders WHERE id BETWEEN 3 AND 5 ORDER BY id FOR SHARE SKIP LOCKED;
-- name: the catalog
SELECT count(*) > 0 FROM pg_class WHERE relname = 'events';
-- name: TABLE
TABLE hosts ORDER BY id;
-- name: VALUES
VALUES (1, 'a'), (2, 'b');
-- name: names in other cases are other names
SELECT Count(*) AS Total, SUM(i) AS "Total" FROM Events WHERE id < 5000;
-- name: names that PostgreSQL gives
SELECT count(*), count(*) + 1, sum(i), host_id, 'x', case when host_id > 1 then 1 end, host_id::text, extract(month from max(at)), coalesce(host_id, 0), (select 1) FROM events WHERE id < 5000 GROUP BY host_id ORDER BY 4;
-- name: mathematics
SELECT sum(i / 7), sum(i % 7), max(2 ^ 3), max(|/ 16.0), sum(i & 7), sum(i # 3), max(@ i), sum(~i), max(i << 2) FROM events WHERE id < 5000;
-- name: division of integers
SELECT host_id / 2 AS h, sum(i) / count(*), count(*) / 7 FROM events WHERE id < 5000 GROUP BY host_id / 2 ORDER BY h;
-- name: rounding of numerics
SELECT round(avg(d), 3), trunc(sum(d), 1), div(sum(d), 7), mod(sum(d), 7), scale(sum(d65)) FROM events WHERE id < 5000;
-- name: many text functions
SELECT max(lpad(id::text, 6, '0')), min(reverse(vb)), max(replace(v, 'a', 'A')), max(left(tx, 3)), min(md5(v)), max(strpos(tx, 't')), max(char_length(v)), min(concat_ws('-', v, vb, c)), max(split_part(tx, ' ', 2)), max(initcap(v)), max(format('%s-%s', host_id, i)) FROM events;
-- name: many functions of times
SELECT max(date_part('dow', at)), min(to_char(at, 'YYYY-MM-DD HH24:MI')), max(age(at, '2020-01-01')), min(make_date(2024, host_id, 1)), max(extract(epoch FROM at)), min(at::date), max(date_bin('15 minutes', at, '2020-01-01')) FROM events WHERE id < 5000;
-- name: sums of large integers are numeric
-- expect: split
SELECT sum(b), sum(i), sum(si), avg(b), pg_typeof(sum(b))::text, pg_typeof(sum(i))::text FROM events;
-- name: an integer out of range
SELECT sum(i + 2147483647) FROM events;
-- name: an integer out of range over aggregates
SELECT max(i) + 1 FROM events;
-- name: a sum of integers out of range
SELECT sum(i)::int * 1000000 FROM events WHERE i > 0 AND id < 5000;
-- name: a value that can't be converted
SELECT sum(v::int) FROM events;
-- name: a value that can't be converted, in groups
SELECT host_id, max(vb::int) FROM events WHERE host_id < 3 GROUP BY host_id;
-- name: comparisons of several collations
SELECT count(*) FROM words WHERE ci = icu;
-- name: columns that are not grouped
SELECT host_id, i, count(*) FROM events GROUP BY host_id;
-- name: columns that follow from the key
-- expect: whole
SELECT h.id, h.name, count(*) FROM events e JOIN hosts h ON h.id = e.host_id GROUP BY h.id ORDER BY h.id;
-- name: another search path
-- set: search_path = pg_catalog
SELECT count(*) FROM public.events;
-- name: a schema before the table
SELECT public.orders.status, count(*) FROM public.orders GROUP BY public.orders.status ORDER BY 1;
-- name: NULL equals NULL
-- set: transform_null_equals = on
SELECT count(*) FROM events WHERE host_id = NULL;
-- name: arrays as text
-- set: array_nulls = off
SELECT count(*), '{1,NULL}'::text[] FROM events;
-- name: backslashes in texts
-- set: standard_conforming_strings = off
SELECT count(*), 'a\tb', '\'' FROM events WHERE v = 'x\\y';
-- name: another encoding of the client
-- set: client_encoding = LATIN1
SELECT v, count(*) FROM events WHERE id < 100 GROUP BY v ORDER BY v;
-- name: another unit of money and numbers
-- set: lc_numeric = C
SELECT to_char(sum(d), '999G999D99'), count(*) FROM events WHERE id < 5000;
-- name: another isolation level
-- set: default_transaction_isolation = serializable
SELECT count(*), sum(d) FROM events;
-- name: no parallel plans
-- set: max_parallel_workers_per_gather = 0
SELECT count(*), sum(d) FROM events;
-- name: no hashing
-- set: enable_hashagg = off
SELECT host_id, count(*), sum(d) FROM events GROUP BY host_id ORDER BY host_id;
-- name: a limit on the time of a statement
-- set: statement_timeout = 60000
SELECT count(*) FROM events;
-- name: XML and records
SELECT count(*), max(xmlserialize(CONTENT xmlelement(name a, id) AS text)) FROM orders WHERE id < 10;
-- name: windows with FILTER and frames of groups
SELECT day, sum(cnt) AS n, sum(sum(cnt)) OVER (ORDER BY day GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING EXCLUDE CURRENT ROW) FROM metrics GROUP BY day ORDER BY day;
-- name: a mood and its neighbours
SELECT en, lag(en) OVER (ORDER BY en), count(*) FROM events WHERE en IS NOT NULL GROUP BY en ORDER BY en;
-- name: LIKE on a collation that lacks it, after a condition that no row meets
SELECT COUNT(*), MIN(w.id) FROM words w WHERE w.x > 1000 AND w.ci LIKE 'a%';
-- name: UNION ALL of numbers with other digits, of which a branch has no rows
-- expect: whole: different sizes
SELECT 'one', u.d FROM nulls u WHERE (NOT u.g IN (-0.25, 10.00, NULL) OR u.day IS NULL) AND u.day = '2024-01-01' UNION ALL SELECT 'two', e.d0 FROM events e WHERE e.id < 5000;
-- name: sums of groups of texts that are equal, each in a group with a number
SELECT e.vi AS a1, SUM(e.i / 7) AS a3 FROM events e GROUP BY CUBE (e.vi, e.id);
-- name: deviations of numbers among which are NaN and the infinities
-- expect: split
SELECT id % 50 AS k, stddev_pop(n), var_pop(n), stddev_samp(n), var_samp(n) FROM events GROUP BY k ORDER BY k;
-- name: deviations of single numbers, some of them NaN and infinite
-- expect: split
SELECT id % 5000 + 1 AS k, stddev_pop(n), var_pop(n), stddev_samp(n), var_samp(n) FROM events WHERE id > 900 GROUP BY k ORDER BY k;
-- name: arrays with NULL that sessions read as texts
-- set: array_nulls = off
-- expect: whole: array_nulls is off
SELECT DISTINCT ARRAY[v, NULL] FROM events WHERE id < 100;
-- name: an order by a column whose name a cast has
-- expect: whole
SELECT id::text, host_id FROM events ORDER BY id LIMIT 5;
-- name: an order by a column whose name a cast of groups has
-- expect: whole
SELECT id::text, max(i) FROM events GROUP BY id ORDER BY id LIMIT 5;
-- name: an order by a column whose name a cast of distinct rows has
-- expect: whole
SELECT DISTINCT id::text, id AS z FROM events ORDER BY id LIMIT 5;
-- name: an order by a column whose name a cast behind a star has
SELECT v.*, (ms)::text FROM visits v ORDER BY ms, id LIMIT 5;
-- name: an order by a column whose name CASE has
-- expect: whole
SELECT CASE WHEN id < 5 THEN -id ELSE id END, CASE WHEN id < 9 THEN 0 ELSE i END FROM events ORDER BY i, 1 LIMIT 5;
-- name: an order by a column beside a cast of the same column with an alias
-- expect: split
SELECT id::text AS x, id FROM events ORDER BY id LIMIT 5;
-- name: an order by a column beside other expressions
-- expect: split
SELECT i + 1, host_id::int, id FROM events ORDER BY id LIMIT 5;
-- name: an order of an outer query by a column whose name a cast has
SELECT host_id::text, c FROM (SELECT host_id, count(*) AS c FROM events GROUP BY host_id) x ORDER BY host_id LIMIT 3;
-- name: an order by an expression of a column whose name a cast has
SELECT id::text FROM events ORDER BY id + 0 LIMIT 5;
-- name: an order by a column whose name a window has
SELECT id::text, rank() OVER (PARTITION BY id ORDER BY at) FROM events ORDER BY id LIMIT 5;
-- name: a constant among grouping sets
-- expect: whole
SELECT 1 AS k, i % 3 AS m, count(*) FROM events GROUP BY CUBE (1, i % 3) ORDER BY 2 NULLS FIRST, 1, 3 NULLS FIRST;
-- name: a subquery of a column that depends on the primary key
SELECT (SELECT max(h.id) FROM hosts h WHERE h.id = m.cnt), count(*) FROM metrics m GROUP BY day, host, metric, seq ORDER BY day, host, metric, seq;
-- name: columns of a CTE that are renamed where it is read
-- expect: whole
WITH c AS (SELECT host_id, i, count(*) AS n FROM events GROUP BY host_id, i) SELECT * FROM c AS d(host_id, n, i) ORDER BY host_id, i LIMIT 30;
-- name: an alias in parentheses in the order
-- expect: split
SELECT -i AS i, id FROM events WHERE id < 500 ORDER BY (i), id LIMIT 20;
-- name: an alias in parentheses in the keys
-- expect: split
SELECT host_id % 3 AS x, COUNT(*) FROM events GROUP BY (x) ORDER BY (x) DESC;
