-- The tables of the differential tests, for MariaDB and MySQL. A statement ends with ; at the end of a line.
-- "-- on: KIND" before a statement leaves it to that kind of server.

SET sql_mode = '', time_zone = '+00:00';

CREATE TABLE nums (n INT NOT NULL PRIMARY KEY);
INSERT INTO nums
WITH RECURSIVE d (x) AS (SELECT 0 UNION ALL SELECT x + 1 FROM d WHERE x < 9)
SELECT a.x + 10 * b.x + 100 * c.x + 1000 * e.x FROM d a, d b, d c, d e WHERE a.x + 10 * b.x + 100 * c.x + 1000 * e.x < 1500;

-- RANGE by time: 14 periods, of which p03, p09 and pmax are empty. It has a column of nearly every type.
CREATE TABLE events (
  id BIGINT UNSIGNED NOT NULL,
  at DATETIME(6) NOT NULL,
  host_id INT,
  ti TINYINT,
  tu TINYINT UNSIGNED,
  si SMALLINT,
  mi MEDIUMINT UNSIGNED,
  i INT,
  iu INT UNSIGNED,
  b BIGINT,
  bu BIGINT UNSIGNED,
  d DECIMAL(12,2),
  d0 DECIMAL(30,0),
  d65 DECIMAL(65,30),
  f FLOAT,
  g DOUBLE,
  day DATE,
  ts TIMESTAMP(3) NULL DEFAULT NULL,
  dur TIME(2),
  y YEAR,
  c CHAR(12) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci,
  v VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci,
  vb VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  l VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci,
  vbin VARBINARY(20),
  bin4 BINARY(4),
  en ENUM('zeta', 'alpha', 'Mid', ''),
  st SET('r', 'g', 'b', 'with space'),
  bt BIT(10),
  bo TINYINT(1),
  js JSON,
  bl BLOB,
  tx TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci,
  PRIMARY KEY (id, at),
  KEY host (host_id, at),
  KEY day (day)
) PARTITION BY RANGE (TO_DAYS(at)) (
  PARTITION p00 VALUES LESS THAN (TO_DAYS('2024-01-01')),
  PARTITION p01 VALUES LESS THAN (TO_DAYS('2024-02-01')),
  PARTITION p02 VALUES LESS THAN (TO_DAYS('2024-03-01')),
  PARTITION p03 VALUES LESS THAN (TO_DAYS('2024-04-01')),
  PARTITION p04 VALUES LESS THAN (TO_DAYS('2024-05-01')),
  PARTITION p05 VALUES LESS THAN (TO_DAYS('2024-06-01')),
  PARTITION p06 VALUES LESS THAN (TO_DAYS('2024-07-01')),
  PARTITION p07 VALUES LESS THAN (TO_DAYS('2024-08-01')),
  PARTITION p08 VALUES LESS THAN (TO_DAYS('2024-09-01')),
  PARTITION p09 VALUES LESS THAN (TO_DAYS('2024-10-01')),
  PARTITION p10 VALUES LESS THAN (TO_DAYS('2024-11-01')),
  PARTITION p11 VALUES LESS THAN (TO_DAYS('2024-12-01')),
  PARTITION p12 VALUES LESS THAN (TO_DAYS('2025-01-01')),
  PARTITION pmax VALUES LESS THAN MAXVALUE
);

-- 1,200 rows; a row of March or September moves to the next month.
INSERT INTO events
SELECT n + 1,
  CASE MONTH(at0) WHEN 3 THEN at0 + INTERVAL 31 DAY WHEN 9 THEN at0 + INTERVAL 30 DAY ELSE at0 END,
  NULLIF(1 + n * 7 % 13, 13),
  NULLIF(n * 37 % 256 - 128, 5), NULLIF(n * 91 % 256, 7), NULLIF(n * 4391 % 65536 - 32768, 0), n * 104729 % 16777216,
  CASE WHEN n % 11 = 3 THEN NULL ELSE n * 31 % 201 - 100 END, n * 15485863 % 4294967296,
  CASE WHEN n % 17 = 5 THEN NULL ELSE (n * 15485863 % 1000003 - 500000) * 9000001 END,
  CASE WHEN n % 19 = 5 THEN NULL ELSE n * 15485863 % 1000003 * 1000000000000 END,
  CASE WHEN n % 13 = 4 THEN NULL ELSE (n * 7919 % 200003 - 100000) / 100 END,
  CASE WHEN n % 9 = 4 THEN NULL ELSE CAST(n * 7919 % 200003 - 100000 AS DECIMAL(30)) * 100000000000000000000 + n END,
  CASE WHEN n % 7 = 4 THEN NULL ELSE CAST(n * 7919 % 200003 - 100000 AS DECIMAL(65,30)) / 7 END,
  CASE WHEN n % 8 = 4 THEN NULL ELSE (n % 41 - 20) / 4 END,
  CASE WHEN n % 10 = 4 THEN NULL ELSE (n * 31 % 1009 - 500) * 1.37e0 END,
  CASE WHEN n % 15 = 4 THEN NULL ELSE DATE(at0) + INTERVAL n % 5 DAY END,
  CASE WHEN n % 12 = 4 THEN NULL ELSE at0 + INTERVAL n % 24 HOUR END,
  CASE WHEN n % 14 = 4 THEN NULL ELSE SEC_TO_TIME((n * 7919 % 20011 - 10000) / 4) END,
  CASE WHEN n % 16 = 4 THEN NULL ELSE 1990 + n % 40 END,
  ELT(1 + n % 9, 'abc', 'abd', 'xyz', '', 'Q', 'q8', 'lmn', 'ä', NULL),
  ELT(1 + n * 5 % 12, 'alpha', 'beta', 'gamma', 'delta', '0123', '123', '', 'a b', 'a''b', 'x\\y', 'ü', NULL),
  ELT(1 + n * 7 % 11, 'abc', 'ABC', 'Abc', 'abd', '', '0123', '123', ' 123', 'é', 'e', NULL),
  ELT(1 + n % 7, 'one', 'two', 'three', '', 'Zo', 'zz', NULL),
  ELT(1 + n * 3 % 8, 'one', 'two', X'00FF', X'00FE', '', X'0000', 'One', NULL),
  ELT(1 + n % 5, 'ab', X'00', X'FFFFFFFF', 'abcd', NULL),
  ELT(1 + n % 5, 'zeta', 'alpha', 'Mid', '', NULL),
  ELT(1 + n % 8, 'r', 'g', 'r,b', '', 'with space', 'r,g,b', 'g,with space', NULL),
  CASE WHEN n % 21 = 4 THEN NULL ELSE n * 37 % 1024 END,
  ELT(1 + n % 3, 0, 1, NULL),
  CASE n % 6 WHEN 0 THEN NULL WHEN 1 THEN '{"a": 1, "b": [1, 2, "x"]}' WHEN 2 THEN '[]' WHEN 3 THEN CONCAT('{"a": ', n % 10, '}') WHEN 4 THEN '"text"' ELSE 'null' END,
  ELT(1 + n % 6, 'blob', X'0001FF', '', REPEAT('z', 20), 'Blob', NULL),
  CASE n % 50 WHEN 7 THEN CONCAT(REPEAT('long ', 60), n % 3) WHEN 8 THEN NULL ELSE CONCAT('t', n % 30) END
FROM (SELECT n, CAST('2023-11-20' AS DATETIME(6)) + INTERVAL n * 487 % 1200 * 29100 + n SECOND + INTERVAL n * 7919 % 1000000 MICROSECOND AS at0 FROM nums WHERE n < 1200) x;

-- The extremes of each type, zero dates, and values that sort differently as text.
INSERT INTO events VALUES
  (5001, '2024-01-01 00:00:00', 1, -128, 0, -32768, 0, -2147483648, 0, -9223372036854775808, 0,
   -9999999999.99, -999999999999999999999999999999, -99999999999999999999999999999999999.999999999999999999999999999999,
   -3.402823e38, -1.7976931348623157e308, '0000-00-00', '1970-01-01 00:00:01', '-838:59:59', 0, '', '', '', '', '', '', 'zeta', '', 0, 0, '{}', '', ''),
  (5002, '2024-02-29 23:59:59.999999', 2, 127, 255, 32767, 16777215, 2147483647, 4294967295, 9223372036854775807, 18446744073709551615,
   9999999999.99, 999999999999999999999999999999, 99999999999999999999999999999999999.999999999999999999999999999999,
   3.402823e38, 1.7976931348623157e308, '9999-12-31', '2038-01-19 03:14:07.999', '838:59:59', 2155, 'zzzzzzzzzzzz', '9', 'zz', 'zz', X'FF', X'FF', 'Mid', 'r,g,b,with space', 1023, 1, '[1]', X'FF', 'zz'),
  (5003, '2024-06-01 00:00:00', 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.000000000000000000000000000001, 0e0 * -1, 0e0 * -1, '2024-00-00', NULL, '00:00:00', 1901, 'a', 'a', 'a', 'a', 'a', 'a', '', 'r', 1, 1, '1.0', 'a', 'a'),
  (5004, '2024-06-01 00:00:00.000001', 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1e-38, 2.2250738585072014e-308, '2024-06-00', NULL, '-00:00:01', 2000, 'a ', 'a ', 'a', 'a ', 'a ', 'a ', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (5005, '2024-12-31 23:59:59.999999', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
-- The value of an ENUM for what it doesn't have is another '' than its own.
INSERT INTO events (id, at, host_id, en) VALUES (5006, '2024-11-11', 4, 'none of them');

-- RANGE COLUMNS of two columns, one of them text.
CREATE TABLE metrics (
  day DATE NOT NULL,
  host VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,
  metric VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,
  seq INT NOT NULL,
  value DECIMAL(20,6),
  cnt INT UNSIGNED,
  note VARCHAR(300),
  PRIMARY KEY (day, host, metric, seq)
) PARTITION BY RANGE COLUMNS (day, host) (
  PARTITION a1 VALUES LESS THAN ('2024-01-10', 'h5'),
  PARTITION a2 VALUES LESS THAN ('2024-01-20', 'h1'),
  PARTITION a3 VALUES LESS THAN ('2024-01-20', 'h5'),
  PARTITION a4 VALUES LESS THAN ('2024-02-01', MAXVALUE),
  PARTITION a5 VALUES LESS THAN (MAXVALUE, MAXVALUE)
);
INSERT INTO metrics
SELECT '2024-01-01' + INTERVAL n % 45 DAY, CONCAT('h', n * 7 % 9), ELT(1 + n % 4, 'cpu', 'mem', 'disk', 'net'), n,
  CASE WHEN n % 10 = 3 THEN NULL ELSE 1000000000 + n * 7919 % 1000 / 1000 END, n * 31 % 500, REPEAT(CHAR(97 + n % 26), n % 300)
FROM nums WHERE n < 500;

-- LIST with NULL.
CREATE TABLE visits (
  id INT NOT NULL,
  region INT,
  page VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci,
  ms INT,
  price DECIMAL(8,3),
  at DATETIME,
  KEY id (id)
) PARTITION BY LIST (region) (
  PARTITION north VALUES IN (1, 2, 3),
  PARTITION south VALUES IN (4, 5, NULL),
  PARTITION east VALUES IN (6, 7),
  PARTITION nobody VALUES IN (99),
  PARTITION west VALUES IN (-1, 0, 8)
);
INSERT INTO visits
SELECT n, NULLIF(n * 7 % 11 - 1, 9), ELT(1 + n * 3 % 7, '/', '/a', '/A', '/b', '/a ', '', NULL),
  CASE WHEN n % 8 = 1 THEN NULL ELSE n * 7919 % 3000 END, CASE WHEN n % 6 = 1 THEN NULL ELSE n * 7919 % 100000 / 1000 END,
  '2024-03-01' + INTERVAL n * 7 HOUR
FROM nums WHERE n < 330 AND COALESCE(n * 7 % 11 - 1, 0) <= 8 OR n < 330 AND n * 7 % 11 - 1 = 9;

-- HASH.
CREATE TABLE orders (
  id INT NOT NULL PRIMARY KEY,
  customer_id INT,
  placed DATE,
  amount DECIMAL(10,2),
  tax DECIMAL(10,4),
  qty SMALLINT,
  status ENUM('new', 'paid', 'shipped', 'void'),
  KEY customer (customer_id)
) PARTITION BY HASH (id) PARTITIONS 6;
INSERT INTO orders
SELECT n, NULLIF(n * 11 % 37, 0), '2024-01-01' + INTERVAL n * 13 % 200 DAY, CASE WHEN n % 9 = 2 THEN NULL ELSE n * 7919 % 100000 / 100 END,
  n * 31 % 1000 / 10000, n % 12, ELT(1 + n % 5, 'new', 'paid', 'shipped', 'void', NULL)
FROM nums WHERE n < 400;

-- KEY of text, whose collation takes different bytes for equal.
CREATE TABLE users (
  login VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,
  score INT,
  born DATE,
  PRIMARY KEY (login)
) PARTITION BY KEY (login) PARTITIONS 4;
INSERT INTO users
SELECT CONCAT(ELT(1 + n % 3, 'User', 'user', 'USER'), n), n * 31 % 77, CASE WHEN n % 9 = 0 THEN NULL ELSE '1970-01-01' + INTERVAL n * 100 DAY END FROM nums WHERE n < 150;

-- LIST COLUMNS of text.
CREATE TABLE sales (
  country VARCHAR(2) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,
  id INT NOT NULL,
  units INT,
  revenue DECIMAL(18,4),
  PRIMARY KEY (country, id)
) PARTITION BY LIST COLUMNS (country) (
  PARTITION eu VALUES IN ('de', 'fr', 'it'),
  PARTITION am VALUES IN ('us', 'br'),
  PARTITION as_ VALUES IN ('jp', 'cn', 'in')
);
INSERT INTO sales
SELECT ELT(1 + n % 8, 'de', 'fr', 'it', 'us', 'br', 'jp', 'cn', 'IN'), n, CASE WHEN n % 7 = 3 THEN NULL ELSE n % 40 END, n * 7919 % 1000003 / 10000 FROM nums WHERE n < 240;

-- RANGE with subpartitions by HASH.
CREATE TABLE logs (
  id INT NOT NULL,
  at DATETIME NOT NULL,
  level TINYINT,
  msg VARCHAR(400) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  bytes BIGINT,
  PRIMARY KEY (id, at)
) PARTITION BY RANGE (YEAR(at)) SUBPARTITION BY HASH (id) SUBPARTITIONS 3 (
  PARTITION y22 VALUES LESS THAN (2023),
  PARTITION y23 VALUES LESS THAN (2024),
  PARTITION y24 VALUES LESS THAN (2025),
  PARTITION y25 VALUES LESS THAN (2026)
);
INSERT INTO logs
SELECT n, '2022-03-01' + INTERVAL n * 3 DAY, NULLIF(n % 6, 5), ELT(1 + n % 4, 'started', 'stopped', REPEAT('e', 300), NULL), n * 7919 * 7919 FROM nums WHERE n < 400;

-- RANGE over UNIX_TIMESTAMP of a TIMESTAMP, across a change of summer time in many zones.
CREATE TABLE ticks (
  ts TIMESTAMP NOT NULL,
  n INT NOT NULL,
  v INT,
  PRIMARY KEY (ts, n)
) PARTITION BY RANGE (UNIX_TIMESTAMP(ts)) (
  PARTITION t1 VALUES LESS THAN (UNIX_TIMESTAMP('2024-03-31 00:00:00')),
  PARTITION t2 VALUES LESS THAN (UNIX_TIMESTAMP('2024-03-31 02:00:00')),
  PARTITION t3 VALUES LESS THAN (UNIX_TIMESTAMP('2024-03-31 12:00:00')),
  PARTITION t4 VALUES LESS THAN MAXVALUE
);
INSERT INTO ticks SELECT TIMESTAMP('2024-03-30 12:00:00') + INTERVAL n * 15 MINUTE, n, n % 10 FROM nums WHERE n < 192;

-- A name that needs quotes, and columns that do.
CREATE TABLE `odd name``s` (
  `group` INT NOT NULL,
  `a b` INT,
  `select` VARCHAR(10),
  PRIMARY KEY (`group`)
) PARTITION BY RANGE (`group`) (
  PARTITION `p 1` VALUES LESS THAN (10),
  PARTITION `p``2` VALUES LESS THAN (20),
  PARTITION `PARTITION` VALUES LESS THAN (30)
);
INSERT INTO `odd name``s` SELECT n, n % 4, CONCAT('s', n % 3) FROM nums WHERE n < 30;

-- Only NULLs, no rows, one row.
CREATE TABLE nulls (id INT NOT NULL PRIMARY KEY, i INT, d DECIMAL(10,3), g DOUBLE, v VARCHAR(10), day DATE) PARTITION BY RANGE (id) (
  PARTITION p1 VALUES LESS THAN (10), PARTITION p2 VALUES LESS THAN (20), PARTITION p3 VALUES LESS THAN (30));
INSERT INTO nulls (id) SELECT n FROM nums WHERE n < 25;
CREATE TABLE empties LIKE nulls;
CREATE TABLE single LIKE nulls;
INSERT INTO single VALUES (15, 7, 1.125, 0.5, 'x', '2024-05-05');

-- The variance of values near 1e9, of which a sum of squares in binary fractions makes -384.
CREATE TABLE near (id INT NOT NULL PRIMARY KEY, k INT, i INT, d DECIMAL(20,3), g DOUBLE) PARTITION BY HASH (id) PARTITIONS 3;
INSERT INTO near SELECT n, n % 3, 1000000000 + n % 2, 1000000000 + n % 7 / 4, 1000000000 + n % 7 / 4e0 FROM nums WHERE n < 60;

-- Texts that a collation takes for equal: case, accents, trailing blanks.
CREATE TABLE words (
  id INT NOT NULL,
  ci VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci,
  uni VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci,
  pad VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  l1 VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci,
  asc_ VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin,
  bytes VARBINARY(20),
  x INT,
  PRIMARY KEY (id)
) PARTITION BY RANGE (id) (
  PARTITION w1 VALUES LESS THAN (20), PARTITION w2 VALUES LESS THAN (40), PARTITION w3 VALUES LESS THAN (60), PARTITION w4 VALUES LESS THAN (80));
INSERT INTO words
SELECT n, ELT(k, 'straße', 'Strasse', 'e', 'E', 'é', 'a', 'a ', 'A', '', ' ', NULL), ELT(k, 'straße', 'Strasse', 'e', 'E', 'é', 'a', 'a ', 'A', '', ' ', NULL),
  ELT(k, 'a', 'a ', 'a  ', 'A', 'b', 'B', '', ' ', 'ab', 'ab ', NULL), ELT(k, 'ä', 'ae', 'AE', 'a', 'A', 'z', '', ' ', 'ö', 'oe', NULL),
  ELT(k, 'a', 'a ', 'B', 'b', '', ' ', 'x', 'X', '0', '00', NULL), ELT(k, 'a', 'a ', 'B', 'b', '', ' ', 'x', 'X', '0', '00', NULL), n % 9
FROM (SELECT n, 1 + n * 3 % 11 AS k FROM nums WHERE n < 80) x;
-- on: mariadb
ALTER TABLE words ADD nopad VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_nopad_ci;
-- on: mysql
ALTER TABLE words ADD nopad VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci;
UPDATE words SET nopad = pad;

-- Types of fixed length, others than those of events, and texts of which the server sorts by the beginning only.
CREATE TABLE wide (
  id INT NOT NULL PRIMARY KEY,
  t0 TIME,
  b8 BINARY(8),
  c5 CHAR(5) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci,
  v VARCHAR(2000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  vb VARBINARY(2000),
  tx TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
) PARTITION BY RANGE (id) (PARTITION x1 VALUES LESS THAN (20), PARTITION x2 VALUES LESS THAN (40), PARTITION x3 VALUES LESS THAN (60));
INSERT INTO wide SELECT n, SEC_TO_TIME(n * 7919 % 20011), ELT(1 + n % 3, 'ab', X'00', 'abcdefgh'), ELT(1 + n % 3, 'ab', '', 'xyz'),
  CONCAT(REPEAT('v', 1100), n * 7 % 13), CONCAT(REPEAT('b', 1100), n * 7 % 13), CONCAT(REPEAT('t', 1100), n * 7 % 13) FROM nums WHERE n < 60;

-- Character sets of which several codes are one character in UTF-8, or none; leading zeros.
CREATE TABLE codes (
  id INT NOT NULL PRIMARY KEY,
  jp VARCHAR(10) CHARACTER SET cp932 COLLATE cp932_bin,
  cn VARCHAR(10) CHARACTER SET big5 COLLATE big5_bin,
  gr VARCHAR(10) CHARACTER SET greek COLLATE greek_bin,
  wide VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  latin VARCHAR(10) CHARACTER SET latin1 COLLATE latin1_bin,
  z INT(8) ZEROFILL,
  bz BIGINT UNSIGNED ZEROFILL
) PARTITION BY HASH (id) PARTITIONS 3;
INSERT INTO codes SELECT n, ELT(1 + n % 3, X'8790', X'81E0', X'8341'), ELT(1 + n % 3, X'A15A', X'A1C3', X'A440'), ELT(1 + n % 3, X'D2', X'FF', X'C1'),
  ELT(1 + n % 3, X'F09F9880', X'F09F9881', 'x'), ELT(1 + n % 3, X'81', X'8D', X'E9'), n * 7, n * 1000 FROM nums WHERE n < 60;

-- Virtual columns: of settings of the session, and, where the server permits it, of the session itself.
CREATE TABLE computed (
  id INT NOT NULL PRIMARY KEY,
  seventh DECIMAL(30,12) AS (id / 7) VIRTUAL
) PARTITION BY HASH (id) PARTITIONS 3;
INSERT INTO computed (id) SELECT n FROM nums WHERE n < 60;

-- on: mariadb
CREATE TABLE fleeting (id INT NOT NULL PRIMARY KEY, session BIGINT AS (CONNECTION_ID()) VIRTUAL) PARTITION BY HASH (id) PARTITIONS 3;
-- on: mariadb
INSERT INTO fleeting (id) SELECT n FROM nums WHERE n < 60;

-- Tables without partitions, to join.
CREATE TABLE hosts (
  id INT NOT NULL PRIMARY KEY,
  name VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,
  rack VARCHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci,
  weight DECIMAL(8,3),
  since DATE
);
INSERT INTO hosts SELECT n, CONCAT('host', n), ELT(1 + n % 4, 'r1', 'r2', 'R3', NULL), CASE WHEN n = 5 THEN NULL ELSE n * 1.125 END, '2020-01-01' + INTERVAL n MONTH FROM nums WHERE n BETWEEN 1 AND 10;
CREATE TABLE customers (id INT NOT NULL PRIMARY KEY, name VARCHAR(30), segment VARCHAR(10), credit DECIMAL(12,2));
INSERT INTO customers SELECT n, CONCAT('customer ', n), ELT(1 + n % 4, 'gold', 'silver', 'bronze', NULL), n * 100.5 FROM nums WHERE n BETWEEN 1 AND 40;
CREATE TABLE plain (id INT NOT NULL PRIMARY KEY, host_id INT, k INT, v VARCHAR(20), d DECIMAL(10,2), day DATE);
INSERT INTO plain SELECT n, NULLIF(n % 15, 0), n % 6, CONCAT('v', n % 10), n * 7919 % 10007 / 100, '2024-01-01' + INTERVAL n DAY FROM nums WHERE n < 120;

CREATE VIEW v_events AS SELECT id, at, host_id, i, d, v FROM events WHERE i IS NOT NULL;
CREATE VIEW v_hosts AS SELECT id, name, rack FROM hosts;
CREATE VIEW v_monthly AS SELECT MONTH(at) AS m, COUNT(*) AS n, SUM(d) AS total FROM events GROUP BY MONTH(at);
CREATE FUNCTION twice (x INT) RETURNS INT DETERMINISTIC RETURN 2 * x;

ANALYZE TABLE events, metrics, visits, orders, users, sales, logs, ticks, codes, hosts, customers, plain;
