-- The tables of the differential tests, for PostgreSQL. A statement ends with ; at the end of a line.

SET TIME ZONE 'UTC';

CREATE TABLE nums (n int PRIMARY KEY);
INSERT INTO nums SELECT generate_series(0, 1499);
CREATE TYPE mood AS ENUM ('zeta', 'alpha', 'Mid', '');
CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);

-- RANGE by time: 14 partitions with the default, of which p03, p09 and the default are empty.
CREATE TABLE events (
  id bigint NOT NULL,
  at timestamp NOT NULL,
  host_id int,
  si smallint,
  i int,
  b bigint,
  d numeric(12,2),
  d0 numeric(30,0),
  d65 numeric(65,30),
  n numeric,
  f real,
  g double precision,
  day date,
  ts timestamptz(3),
  dur interval,
  tm time(2),
  tz timetz,
  c char(12),
  v varchar(40),
  vb varchar(40) COLLATE "C",
  vi text COLLATE ci,
  en mood,
  bt bit(10),
  vbt varbit(16),
  bo boolean,
  js jsonb,
  j json,
  bl bytea,
  tx text,
  u uuid,
  ip inet,
  ar int[],
  rg int4range,
  PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
CREATE INDEX ON events (host_id, at);
CREATE TABLE events_p00 PARTITION OF events FOR VALUES FROM (MINVALUE) TO ('2024-01-01');
CREATE TABLE events_p01 PARTITION OF events FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
CREATE TABLE events_p02 PARTITION OF events FOR VALUES FROM ('2024-02-01') TO ('2024-03-01');
CREATE TABLE events_p03 PARTITION OF events FOR VALUES FROM ('2024-03-01') TO ('2024-04-01');
CREATE TABLE events_p04 PARTITION OF events FOR VALUES FROM ('2024-04-01') TO ('2024-05-01');
CREATE TABLE events_p05 PARTITION OF events FOR VALUES FROM ('2024-05-01') TO ('2024-06-01');
CREATE TABLE events_p06 PARTITION OF events FOR VALUES FROM ('2024-06-01') TO ('2024-07-01');
CREATE TABLE events_p07 PARTITION OF events FOR VALUES FROM ('2024-07-01') TO ('2024-08-01');
CREATE TABLE events_p08 PARTITION OF events FOR VALUES FROM ('2024-08-01') TO ('2024-09-01');
CREATE TABLE events_p09 PARTITION OF events FOR VALUES FROM ('2024-09-01') TO ('2024-10-01');
CREATE TABLE events_p10 PARTITION OF events FOR VALUES FROM ('2024-10-01') TO ('2024-11-01');
CREATE TABLE events_p11 PARTITION OF events FOR VALUES FROM ('2024-11-01') TO ('2024-12-01');
CREATE TABLE events_p12 PARTITION OF events FOR VALUES FROM ('2024-12-01') TO ('2025-01-01');
CREATE TABLE events_rest PARTITION OF events DEFAULT;

-- 1,200 rows; a row of March or September moves to the next month.
INSERT INTO events
SELECT n + 1,
  CASE extract(month FROM at0) WHEN 3 THEN at0 + interval '31 days' WHEN 9 THEN at0 + interval '30 days' ELSE at0 END,
  NULLIF(1 + n * 7 % 13, 13),
  NULLIF(n * 4391 % 65536 - 32768, 0),
  CASE WHEN n % 11 <> 3 THEN n * 31 % 201 - 100 END,
  CASE WHEN n % 17 <> 5 THEN (n::bigint * 15485863 % 1000003 - 500000) * 9000001 END,
  CASE WHEN n % 13 <> 4 THEN (n * 7919 % 200003 - 100000) / 100.0 END,
  CASE WHEN n % 9 <> 4 THEN (n * 7919 % 200003 - 100000) * 100000000000000000000::numeric + n END,
  CASE WHEN n % 7 <> 4 THEN (n * 7919 % 200003 - 100000)::numeric(65,30) / 7 END,
  CASE WHEN n % 7 <> 2 THEN round((n * 7919 % 200003 - 100000)::numeric / 7, n % 6) END,
  CASE WHEN n % 8 <> 4 THEN (n % 41 - 20) / 4.0 END,
  CASE WHEN n % 10 <> 4 THEN (n * 31 % 1009 - 500) * 1.37 END,
  CASE WHEN n % 15 <> 4 THEN at0::date + n % 5 END,
  CASE WHEN n % 12 <> 4 THEN at0 AT TIME ZONE 'UTC' + n % 24 * interval '1 hour' END,
  CASE WHEN n % 14 <> 4 THEN (n * 7919 % 20011 - 10000) / 4.0 * interval '1 second' + n % 3 * interval '1 month' END,
  CASE WHEN n % 14 <> 5 THEN time '00:00' + (n * 7919 % 86400) * interval '1 second' END,
  CASE WHEN n % 14 <> 6 THEN (time '00:00' + (n % 24) * interval '1 hour') AT TIME ZONE 'UTC' END,
  (ARRAY['abc', 'abd', 'xyz', '', 'Q', 'q8', 'lmn', 'ä', NULL])[1 + n % 9],
  (ARRAY['alpha', 'beta', 'gamma', 'delta', '0123', '123', '', 'a b', 'a''b', 'x\y', 'ü', NULL])[1 + n * 5 % 12],
  (ARRAY['abc', 'ABC', 'Abc', 'abd', '', '0123', '123', ' 123', 'é', 'e', NULL])[1 + n * 7 % 11],
  (ARRAY['abc', 'ABC', 'Abc', 'abd', '', '0123', '123', ' 123', 'é', 'e', NULL])[1 + n * 7 % 11],
  (ARRAY['zeta', 'alpha', 'Mid', '', NULL]::mood[])[1 + n % 5],
  CASE WHEN n % 21 <> 4 THEN (n * 37 % 1024)::bit(10) END,
  CASE WHEN n % 21 <> 5 THEN substring((n * 37 % 1024)::bit(10)::varbit FOR n % 11) END,
  CASE n % 3 WHEN 0 THEN true WHEN 1 THEN false END,
  CASE n % 6 WHEN 1 THEN '{"a": 1, "b": [1, 2, "x"]}'::jsonb WHEN 2 THEN '[]' WHEN 3 THEN jsonb_build_object('a', n % 10) WHEN 4 THEN '"text"' WHEN 5 THEN 'null' END,
  CASE n % 6 WHEN 1 THEN '{"a":  1, "a": 2}'::json WHEN 2 THEN '[ ]' WHEN 3 THEN '{"b": null}' END,
  (ARRAY['blob', '\x0001ff', '', 'zzzzzzzzzzzzzzzz', 'Blob', NULL]::bytea[])[1 + n % 6],
  CASE n % 50 WHEN 7 THEN repeat('long ', 60) || n % 3 WHEN 8 THEN NULL ELSE 't' || n % 30 END,
  CASE WHEN n % 4 <> 0 THEN md5((n % 40)::text)::uuid END,
  CASE WHEN n % 5 <> 0 THEN '10.0.0.0'::inet + n % 50 END,
  CASE WHEN n % 7 <> 0 THEN ARRAY[n % 3, NULL, n % 5] END,
  CASE WHEN n % 8 <> 0 THEN int4range(n % 5, n % 5 + n % 3) END
FROM (SELECT n, timestamp '2023-11-20' + (n * 487 % 1200 * 29100 + n) * interval '1 second' + (n * 7919 % 1000000) * interval '1 microsecond' AS at0 FROM nums WHERE n < 1200) x;

-- The extremes of each type, and values that sort differently as text.
INSERT INTO events (id, at, host_id, si, i, b, d, d0, d65, n, f, g, day, ts, dur, tm, c, v, vb, vi, en, bt, bo, js, bl, tx) VALUES
  (5001, '2024-01-01', 1, -32768, -2147483648, -9223372036854775808, -9999999999.99, -999999999999999999999999999999,
   -99999999999999999999999999999999999.999999999999999999999999999999, -1e500, '-Infinity', '-Infinity', '-infinity', '-infinity', '-178000000 years', '00:00', '', '', '', '', 'zeta', B'0000000000', false, '{}', '', ''),
  (5002, '2024-02-29 23:59:59.999999', 2, 32767, 2147483647, 9223372036854775807, 9999999999.99, 999999999999999999999999999999,
   99999999999999999999999999999999999.999999999999999999999999999999, 1e-500, 'Infinity', 'Infinity', 'infinity', 'infinity', '178000000 years', '24:00', 'zzzzzzzzzzzz', '9', 'zz', 'ZZ', 'Mid', B'1111111111', true, '[1]', '\xff', 'zz'),
  (5003, '2024-06-01', 3, 0, 0, 0, 0, 0, 0.000000000000000000000000000001, 0.00, '-0', '-0', '4713-01-01 BC', '2000-01-01 00:00+00', '0', '12:00', 'a', 'a', 'a', 'a', '', B'0000000001', true, '1.0', 'a', 'a'),
  (5004, '2024-06-01 00:00:00.000001', 3, 0, 0, 0, 0, 0, 0, 0.000000, 1e-38, 2.2250738585072014e-308, '5874897-12-31', '4713-01-01 00:00+00 BC', '1 month -30 days', '12:00', 'a ', 'a ', 'a ', 'A', NULL, NULL, NULL, '1.00', 'a ', 'a '),
  (5005, '2024-12-31 23:59:59.999999', NULL, NULL, NULL, NULL, NULL, NULL, NULL, 'NaN', 'NaN', 'NaN', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

-- RANGE of two columns, one of them text.
CREATE TABLE metrics (
  day date NOT NULL,
  host varchar(20) COLLATE "C" NOT NULL,
  metric varchar(20) NOT NULL,
  seq int NOT NULL,
  value numeric(20,6),
  cnt int,
  note varchar(300),
  PRIMARY KEY (day, host, metric, seq)
) PARTITION BY RANGE (day, host);
CREATE TABLE metrics_a1 PARTITION OF metrics FOR VALUES FROM (MINVALUE, MINVALUE) TO ('2024-01-10', 'h5');
CREATE TABLE metrics_a2 PARTITION OF metrics FOR VALUES FROM ('2024-01-10', 'h5') TO ('2024-01-20', 'h1');
CREATE TABLE metrics_a3 PARTITION OF metrics FOR VALUES FROM ('2024-01-20', 'h1') TO ('2024-01-20', 'h5');
CREATE TABLE metrics_a4 PARTITION OF metrics FOR VALUES FROM ('2024-01-20', 'h5') TO ('2024-02-01', MAXVALUE);
CREATE TABLE metrics_a5 PARTITION OF metrics FOR VALUES FROM ('2024-02-01', MAXVALUE) TO (MAXVALUE, MAXVALUE);
INSERT INTO metrics
SELECT date '2024-01-01' + n % 45, 'h' || n * 7 % 9, (ARRAY['cpu', 'mem', 'disk', 'net'])[1 + n % 4], n,
  CASE WHEN n % 10 <> 3 THEN 1000000000 + n * 7919 % 1000 / 1000.0 END, n * 31 % 500, repeat(chr(97 + n % 26), n % 300)
FROM nums WHERE n < 500;

-- LIST with NULL and a default.
CREATE TABLE visits (
  id int NOT NULL,
  region int,
  page varchar(30),
  ms int,
  price numeric(8,3),
  at timestamp
) PARTITION BY LIST (region);
CREATE TABLE visits_north PARTITION OF visits FOR VALUES IN (1, 2, 3);
CREATE TABLE visits_south PARTITION OF visits FOR VALUES IN (4, 5, NULL);
CREATE TABLE visits_east PARTITION OF visits FOR VALUES IN (6, 7);
CREATE TABLE visits_nobody PARTITION OF visits FOR VALUES IN (99);
CREATE TABLE visits_rest PARTITION OF visits DEFAULT;
CREATE INDEX ON visits (id);
INSERT INTO visits
SELECT n, NULLIF(n * 7 % 11 - 1, 9), (ARRAY['/', '/a', '/A', '/b', '/a ', '', NULL])[1 + n * 3 % 7],
  CASE WHEN n % 8 <> 1 THEN n * 7919 % 3000 END, CASE WHEN n % 6 <> 1 THEN n * 7919 % 100000 / 1000.0 END,
  timestamp '2024-03-01' + n * 7 * interval '1 hour'
FROM nums WHERE n < 330;

-- HASH.
CREATE TABLE orders (
  id int NOT NULL PRIMARY KEY,
  customer_id int,
  placed date,
  amount numeric(10,2),
  tax numeric(10,4),
  qty smallint,
  status varchar(10)
) PARTITION BY HASH (id);
CREATE TABLE orders_0 PARTITION OF orders FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE orders_1 PARTITION OF orders FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE orders_2 PARTITION OF orders FOR VALUES WITH (MODULUS 4, REMAINDER 2);
CREATE TABLE orders_3 PARTITION OF orders FOR VALUES WITH (MODULUS 4, REMAINDER 3);
CREATE INDEX ON orders (customer_id);
INSERT INTO orders
SELECT n, NULLIF(n * 11 % 37, 0), date '2024-01-01' + n * 13 % 200, CASE WHEN n % 9 <> 2 THEN n * 7919 % 100000 / 100.0 END,
  n * 31 % 1000 / 10000.0, n % 12, (ARRAY['new', 'paid', 'shipped', 'void', NULL])[1 + n % 5]
FROM nums WHERE n < 400;

-- HASH of text whose collation takes different bytes for equal.
CREATE TABLE users (
  login varchar(30) COLLATE ci NOT NULL PRIMARY KEY,
  score int,
  born date
) PARTITION BY HASH (login);
CREATE TABLE users_0 PARTITION OF users FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE users_1 PARTITION OF users FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE users_2 PARTITION OF users FOR VALUES WITH (MODULUS 3, REMAINDER 2);
INSERT INTO users
SELECT (ARRAY['User', 'user', 'USER'])[1 + n % 3] || n, n * 31 % 77, CASE WHEN n % 9 <> 0 THEN date '1970-01-01' + n * 100 END FROM nums WHERE n < 150;

-- LIST of text.
CREATE TABLE sales (
  country varchar(2) NOT NULL,
  id int NOT NULL,
  units int,
  revenue numeric(18,4),
  PRIMARY KEY (country, id)
) PARTITION BY LIST (country);
CREATE TABLE sales_eu PARTITION OF sales FOR VALUES IN ('de', 'fr', 'it');
CREATE TABLE sales_am PARTITION OF sales FOR VALUES IN ('us', 'br');
CREATE TABLE sales_as PARTITION OF sales FOR VALUES IN ('jp', 'cn', 'IN', 'in');
INSERT INTO sales
SELECT (ARRAY['de', 'fr', 'it', 'us', 'br', 'jp', 'cn', 'IN'])[1 + n % 8], n, CASE WHEN n % 7 <> 3 THEN n % 40 END, n * 7919 % 1000003 / 10000.0 FROM nums WHERE n < 240;

-- RANGE whose partitions are partitioned by LIST or HASH, or not at all.
CREATE TABLE logs (
  id int NOT NULL,
  at timestamp NOT NULL,
  level smallint,
  msg varchar(400) COLLATE "C",
  bytes bigint
) PARTITION BY RANGE (at);
CREATE TABLE logs_22 PARTITION OF logs FOR VALUES FROM ('2022-01-01') TO ('2023-01-01') PARTITION BY LIST (level);
CREATE TABLE logs_22_low PARTITION OF logs_22 FOR VALUES IN (0, 1, 2);
CREATE TABLE logs_22_high PARTITION OF logs_22 FOR VALUES IN (3, 4, NULL);
CREATE TABLE logs_23 PARTITION OF logs FOR VALUES FROM ('2023-01-01') TO ('2024-01-01') PARTITION BY HASH (id);
CREATE TABLE logs_23_0 PARTITION OF logs_23 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE logs_23_1 PARTITION OF logs_23 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE logs_24 PARTITION OF logs FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE logs_25 PARTITION OF logs FOR VALUES FROM ('2025-01-01') TO ('2026-01-01');
INSERT INTO logs
SELECT n, timestamp '2022-03-01' + n * interval '3 days', NULLIF(n % 6, 5), (ARRAY['started', 'stopped', repeat('e', 300), NULL])[1 + n % 4], n * 7919::bigint * 7919 FROM nums WHERE n < 400;

-- RANGE by a time with a zone, across a change of summer time in many zones.
CREATE TABLE ticks (ts timestamptz NOT NULL, n int NOT NULL, v int, PRIMARY KEY (ts, n)) PARTITION BY RANGE (ts);
CREATE TABLE ticks_1 PARTITION OF ticks FOR VALUES FROM (MINVALUE) TO ('2024-03-31 00:00+00');
CREATE TABLE ticks_2 PARTITION OF ticks FOR VALUES FROM ('2024-03-31 00:00+00') TO ('2024-03-31 02:00+00');
CREATE TABLE ticks_3 PARTITION OF ticks FOR VALUES FROM ('2024-03-31 02:00+00') TO ('2024-03-31 12:00+00');
CREATE TABLE ticks_4 PARTITION OF ticks FOR VALUES FROM ('2024-03-31 12:00+00') TO (MAXVALUE);
INSERT INTO ticks SELECT timestamptz '2024-03-30 12:00+00' + n * interval '15 minutes', n, n % 10 FROM nums WHERE n < 192;

-- A name that needs quotes, and columns and partitions that do.
CREATE TABLE "odd name""s" ("group" int PRIMARY KEY, "a b" int, "select" varchar(10)) PARTITION BY RANGE ("group");
CREATE TABLE "p 1" PARTITION OF "odd name""s" FOR VALUES FROM (0) TO (10);
CREATE TABLE "p""2" PARTITION OF "odd name""s" FOR VALUES FROM (10) TO (20);
CREATE SCHEMA "other one";
CREATE TABLE "other one"."PARTITION" PARTITION OF "odd name""s" FOR VALUES FROM (20) TO (30);
INSERT INTO "odd name""s" SELECT n, n % 4, 's' || n % 3 FROM nums WHERE n < 30;

-- Only NULLs, no rows, one row.
CREATE TABLE nulls (id int NOT NULL PRIMARY KEY, i int, d numeric(10,3), g double precision, v varchar(10), day date) PARTITION BY RANGE (id);
CREATE TABLE nulls_1 PARTITION OF nulls FOR VALUES FROM (0) TO (10);
CREATE TABLE nulls_2 PARTITION OF nulls FOR VALUES FROM (10) TO (20);
CREATE TABLE nulls_3 PARTITION OF nulls FOR VALUES FROM (20) TO (30);
INSERT INTO nulls (id) SELECT n FROM nums WHERE n < 25;
CREATE TABLE empties (id int NOT NULL PRIMARY KEY, i int, d numeric(10,3), g double precision, v varchar(10), day date) PARTITION BY RANGE (id);
CREATE TABLE empties_1 PARTITION OF empties FOR VALUES FROM (0) TO (10);
CREATE TABLE empties_2 PARTITION OF empties FOR VALUES FROM (10) TO (20);
CREATE TABLE single (id int NOT NULL PRIMARY KEY, i int, d numeric(10,3), g double precision, v varchar(10), day date) PARTITION BY RANGE (id);
CREATE TABLE single_1 PARTITION OF single FOR VALUES FROM (0) TO (10);
CREATE TABLE single_2 PARTITION OF single FOR VALUES FROM (10) TO (20);
INSERT INTO single VALUES (15, 7, 1.125, 0.5, 'x', '2024-05-05');

-- The variance of values near 1e9, of which a sum of squares in binary fractions makes -384.
CREATE TABLE near (id int NOT NULL PRIMARY KEY, k int, i int, d numeric(20,3), g double precision) PARTITION BY HASH (id);
CREATE TABLE near_0 PARTITION OF near FOR VALUES WITH (MODULUS 3, REMAINDER 0);
CREATE TABLE near_1 PARTITION OF near FOR VALUES WITH (MODULUS 3, REMAINDER 1);
CREATE TABLE near_2 PARTITION OF near FOR VALUES WITH (MODULUS 3, REMAINDER 2);
INSERT INTO near SELECT n, n % 3, 1000000000 + n % 2, 1000000000 + n % 7 / 4.0, 1000000000 + n % 7 / 4.0 FROM nums WHERE n < 60;

-- Texts that a collation takes for equal: case, accents; blanks at the end matter except in char.
CREATE TABLE words (
  id int NOT NULL PRIMARY KEY,
  ci text COLLATE ci,
  pad char(10),
  vb text COLLATE "C",
  icu text COLLATE "und-x-icu",
  x int
) PARTITION BY RANGE (id);
CREATE TABLE words_1 PARTITION OF words FOR VALUES FROM (0) TO (20);
CREATE TABLE words_2 PARTITION OF words FOR VALUES FROM (20) TO (40);
CREATE TABLE words_3 PARTITION OF words FOR VALUES FROM (40) TO (60);
CREATE TABLE words_4 PARTITION OF words FOR VALUES FROM (60) TO (80);
INSERT INTO words
SELECT n, (ARRAY['straße', 'Strasse', 'e', 'E', 'é', 'a', 'a ', 'A', '', ' ', NULL])[k],
  (ARRAY['a', 'a ', 'a  ', 'A', 'b', 'B', '', ' ', 'ab', 'ab ', NULL])[k], (ARRAY['a', 'a ', 'a  ', 'A', 'b', 'B', '', ' ', 'ab', 'ab ', NULL])[k],
  (ARRAY['straße', 'Strasse', 'e', 'E', 'é', 'a', 'a ', 'A', '', ' ', NULL])[k], n % 9
FROM (SELECT n, 1 + n * 3 % 11 AS k FROM nums WHERE n < 80) x;

-- A parent of the old kind, by inheritance, which is no partitioned table.
CREATE TABLE parent (id int, v int);
CREATE TABLE child () INHERITS (parent);
INSERT INTO parent SELECT n, n % 5 FROM nums WHERE n < 20;
INSERT INTO child SELECT n, n % 5 FROM nums WHERE n BETWEEN 20 AND 50;

-- Tables without partitions, to join.
CREATE TABLE hosts (id int NOT NULL PRIMARY KEY, name varchar(30) NOT NULL, rack varchar(10), weight numeric(8,3), since date);
INSERT INTO hosts SELECT n, 'host' || n, (ARRAY['r1', 'r2', 'R3', NULL])[1 + n % 4], CASE WHEN n <> 5 THEN n * 1.125 END, date '2020-01-01' + n * interval '1 month' FROM nums WHERE n BETWEEN 1 AND 10;
CREATE TABLE customers (id int NOT NULL PRIMARY KEY, name varchar(30), segment varchar(10), credit numeric(12,2));
INSERT INTO customers SELECT n, 'customer ' || n, (ARRAY['gold', 'silver', 'bronze', NULL])[1 + n % 4], n * 100.5 FROM nums WHERE n BETWEEN 1 AND 40;
CREATE TABLE plain (id int NOT NULL PRIMARY KEY, host_id int, k int, v varchar(20), d numeric(10,2), day date);
INSERT INTO plain SELECT n, NULLIF(n % 15, 0), n % 6, 'v' || n % 10, n * 7919 % 10007 / 100.0, date '2024-01-01' + n FROM nums WHERE n < 120;

CREATE VIEW v_events AS SELECT id, at, host_id, i, d, v FROM events WHERE i IS NOT NULL;
CREATE VIEW v_hosts AS SELECT id, name, rack FROM hosts;
CREATE VIEW v_monthly AS SELECT extract(month FROM at) AS m, count(*) AS n, sum(d) AS total FROM events GROUP BY extract(month FROM at);
-- Equal values with other texts.
CREATE TABLE scales (id int NOT NULL, n numeric, bp bpchar, iv interval, g double precision, tx text) PARTITION BY LIST (id);
CREATE TABLE scales_0 PARTITION OF scales FOR VALUES IN (0, 4, 8, 12, 16, 20);
CREATE TABLE scales_1 PARTITION OF scales FOR VALUES IN (1, 5, 9, 13, 17, 21);
CREATE TABLE scales_2 PARTITION OF scales FOR VALUES IN (2, 6, 10, 14, 18, 22);
CREATE TABLE scales_3 PARTITION OF scales FOR VALUES IN (3, 7, 11, 15, 19, 23);
INSERT INTO scales SELECT i, round(1, i % 5), ('a' || repeat(' ', i % 4))::bpchar, CASE WHEN i % 2 = 0 THEN interval '1 month' ELSE interval '30 days' END,
  CASE i % 3 WHEN 0 THEN 1e16 WHEN 1 THEN 1 ELSE -1e16 END, CASE WHEN i = 7 THEN 'now' ELSE '2024-01-01' END
FROM generate_series(0, 23) AS s(i), generate_series(1, 3);

-- Columns whose names differ by case alone, and partitions whose columns have another order.
CREATE TABLE capitals (id int, "K" int, k int) PARTITION BY LIST ("K");
CREATE TABLE capitals_0 PARTITION OF capitals FOR VALUES IN (0, 1);
CREATE TABLE capitals_1 PARTITION OF capitals FOR VALUES IN (2, 3);
INSERT INTO capitals SELECT n, n % 4, n % 5 FROM nums WHERE n < 60;
CREATE TABLE shuffled (id int, a text, b int) PARTITION BY RANGE (id);
CREATE TABLE shuffled_0 (b int, id int, a text);
CREATE TABLE shuffled_1 (x int, a text, b int, id int);
ALTER TABLE shuffled_1 DROP x;
ALTER TABLE shuffled ATTACH PARTITION shuffled_0 FOR VALUES FROM (0) TO (10);
ALTER TABLE shuffled ATTACH PARTITION shuffled_1 FOR VALUES FROM (10) TO (100);
INSERT INTO shuffled SELECT n, 't' || n % 7, n * 3 FROM nums WHERE n < 40;
CREATE FUNCTION shadow (e events) RETURNS int LANGUAGE sql AS 'SELECT e.i';

CREATE FUNCTION twice (x int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 2 * x';

ANALYZE;
