-- steps l.i0, l.x, l.i1, l.i2, settle, qr100, qp100, qr500, qp500, qr1000, qp1000 on mariadb://root@192.0.2.1/db

-- each connection
SET NAMES utf8mb4 COLLATE utf8mb4_general_ci;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', autocommit = 1, completion_type = 'NO_CHAIN', sql_auto_is_null = 0, sql_safe_updates = 0, sql_select_limit = 18446744073709551615, sql_big_selects = 1, unique_checks = 1, foreign_key_checks = 1, div_precision_increment = 4, net_write_timeout = 3600, sql_quote_show_create = 1 /*!80000 , max_execution_time = 0 */ /*M!100108 , max_statement_time = 0 */;
SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE;
SET SESSION explicit_defaults_for_timestamp = ON;

-- the connection that changes tables
SET NAMES utf8mb4 COLLATE utf8mb4_general_ci;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00', autocommit = 1, completion_type = 'NO_CHAIN', sql_auto_is_null = 0, sql_safe_updates = 0, sql_select_limit = 18446744073709551615, sql_big_selects = 1, unique_checks = 1, foreign_key_checks = 1, div_precision_increment = 4, net_write_timeout = 3600, sql_quote_show_create = 1, lock_wait_timeout = 1, innodb_lock_wait_timeout = 5, alter_algorithm = 'DEFAULT' /*!80000 , max_execution_time = 0 */ /*M!100108 , max_statement_time = 0 */;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
SET SESSION explicit_defaults_for_timestamp = ON;

-- look for the table
SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases';
SELECT PARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases' ORDER BY PARTITION_ORDINAL_POSITION;

-- drop the table if it exists
DROP TABLE IF EXISTS `purchases`;

-- create the table
CREATE TABLE `purchases` (
  `transactionid` BIGINT NOT NULL AUTO_INCREMENT,
  `dateandtime` DATETIME NOT NULL,
  `cashregisterid` INT NOT NULL,
  `customerid` INT NOT NULL,
  `productid` INT NOT NULL,
  `price` INT NOT NULL,
  `data` VARCHAR(4000) NOT NULL,
  PRIMARY KEY (`transactionid`)
) ENGINE=`InnoDB` DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- l.i0: insert a batch of 100 rows in one transaction; its first 2 are shown
INSERT INTO `purchases` (`transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data`) VALUES (1, '2026-01-01 00:00:00', 978, 78331, 7220, 427, 'aaaaaaaBAv'),(2, '2026-01-01 00:00:00', 94, 95072, 3231, 46, 'aaaaaaaaaaWIIfc');

-- l.x: build the indexes, one after the other
ALTER TABLE `purchases` ADD KEY `marketsegment` (`productid`, `customerid`, `price`);
ALTER TABLE `purchases` ADD KEY `registersegment` (`cashregisterid`, `customerid`, `price`);
ALTER TABLE `purchases` ADD KEY `pdc` (`price`, `dateandtime`, `customerid`);

-- l.i1: insert a batch of 50 rows in one transaction; its first 2 are shown
INSERT INTO `purchases` (`transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data`) VALUES (1, '2026-01-01 00:00:00', 978, 78331, 7220, 427, 'aaaaaaaBAv'),(2, '2026-01-01 00:00:00', 94, 95072, 3231, 46, 'aaaaaaaaaaWIIfc');

-- l.i1: delete the oldest 50 rows, while inserts run
DELETE FROM `purchases` WHERE `transactionid` >= ? AND `transactionid` < ?;

-- l.i2: insert a batch of 5 rows in one transaction; its first 2 are shown
INSERT INTO `purchases` (`transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data`) VALUES (1, '2026-01-01 00:00:00', 978, 78331, 7220, 427, 'aaaaaaaBAv'),(2, '2026-01-01 00:00:00', 94, 95072, 3231, 46, 'aaaaaaaaaaWIIfc');

-- l.i2: delete the oldest 5 rows, while inserts run
DELETE FROM `purchases` WHERE `transactionid` >= ? AND `transactionid` < ?;

-- settle: finish what writes have left
ANALYZE TABLE `purchases`;
SELECT @@GLOBAL.innodb_max_dirty_pages_pct_lwm, @@GLOBAL.innodb_max_dirty_pages_pct;
SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0;
SET GLOBAL innodb_max_dirty_pages_pct = 0;
SHOW GLOBAL STATUS WHERE Variable_name = 'Innodb_history_list_length';
SHOW GLOBAL STATUS WHERE Variable_name = 'Innodb_buffer_pool_pages_dirty';
SET GLOBAL innodb_max_dirty_pages_pct = ?;
SET GLOBAL innodb_max_dirty_pages_pct_lwm = ?;

-- qr100: insert a batch of 50 rows in one transaction; its first 2 are shown
INSERT INTO `purchases` (`transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data`) VALUES (1, '2026-01-01 00:00:00', 978, 78331, 7220, 427, 'aaaaaaaBAv'),(2, '2026-01-01 00:00:00', 94, 95072, 3231, 46, 'aaaaaaaaaaWIIfc');

-- qr100: delete the oldest 50 rows, while inserts run
DELETE FROM `purchases` WHERE `transactionid` >= ? AND `transactionid` < ?;

-- qr100:  query, while inserts run
SELECT `productid`, `customerid`, `price` FROM `purchases` FORCE INDEX (`marketsegment`) WHERE `productid` >= ? ORDER BY `productid`, `customerid`, `price` LIMIT 10;
SELECT `cashregisterid`, `customerid`, `price` FROM `purchases` FORCE INDEX (`registersegment`) WHERE `cashregisterid` > ? ORDER BY `cashregisterid`, `customerid`, `price` LIMIT 10;
SELECT `price`, `dateandtime`, `customerid` FROM `purchases` FORCE INDEX (`pdc`) WHERE `price` >= ? ORDER BY `price`, `dateandtime`, `customerid` LIMIT 10;

-- qp100: insert a batch of 50 rows in one transaction; its first 2 are shown
INSERT INTO `purchases` (`transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data`) VALUES (1, '2026-01-01 00:00:00', 978, 78331, 7220, 427, 'aaaaaaaBAv'),(2, '2026-01-01 00:00:00', 94, 95072, 3231, 46, 'aaaaaaaaaaWIIfc');

-- qp100: delete the oldest 50 rows, while inserts run
DELETE FROM `purchases` WHERE `transactionid` >= ? AND `transactionid` < ?;

-- qp100:  query, while inserts run
SELECT `transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data` FROM `purchases` WHERE `transactionid` IN (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- qr500: insert a batch of 50 rows in one transaction; its first 2 are shown
INSERT INTO `purchases` (`transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data`) VALUES (1, '2026-01-01 00:00:00', 978, 78331, 7220, 427, 'aaaaaaaBAv'),(2, '2026-01-01 00:00:00', 94, 95072, 3231, 46, 'aaaaaaaaaaWIIfc');

-- qr500: delete the oldest 50 rows, while inserts run
DELETE FROM `purchases` WHERE `transactionid` >= ? AND `transactionid` < ?;

-- qr500:  query, while inserts run
SELECT `productid`, `customerid`, `price` FROM `purchases` FORCE INDEX (`marketsegment`) WHERE `productid` >= ? ORDER BY `productid`, `customerid`, `price` LIMIT 10;
SELECT `cashregisterid`, `customerid`, `price` FROM `purchases` FORCE INDEX (`registersegment`) WHERE `cashregisterid` > ? ORDER BY `cashregisterid`, `customerid`, `price` LIMIT 10;
SELECT `price`, `dateandtime`, `customerid` FROM `purchases` FORCE INDEX (`pdc`) WHERE `price` >= ? ORDER BY `price`, `dateandtime`, `customerid` LIMIT 10;

-- qp500: insert a batch of 50 rows in one transaction; its first 2 are shown
INSERT INTO `purchases` (`transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data`) VALUES (1, '2026-01-01 00:00:00', 978, 78331, 7220, 427, 'aaaaaaaBAv'),(2, '2026-01-01 00:00:00', 94, 95072, 3231, 46, 'aaaaaaaaaaWIIfc');

-- qp500: delete the oldest 50 rows, while inserts run
DELETE FROM `purchases` WHERE `transactionid` >= ? AND `transactionid` < ?;

-- qp500:  query, while inserts run
SELECT `transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data` FROM `purchases` WHERE `transactionid` IN (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- qr1000: insert a batch of 50 rows in one transaction; its first 2 are shown
INSERT INTO `purchases` (`transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data`) VALUES (1, '2026-01-01 00:00:00', 978, 78331, 7220, 427, 'aaaaaaaBAv'),(2, '2026-01-01 00:00:00', 94, 95072, 3231, 46, 'aaaaaaaaaaWIIfc');

-- qr1000: delete the oldest 50 rows, while inserts run
DELETE FROM `purchases` WHERE `transactionid` >= ? AND `transactionid` < ?;

-- qr1000:  query, while inserts run
SELECT `productid`, `customerid`, `price` FROM `purchases` FORCE INDEX (`marketsegment`) WHERE `productid` >= ? ORDER BY `productid`, `customerid`, `price` LIMIT 10;
SELECT `cashregisterid`, `customerid`, `price` FROM `purchases` FORCE INDEX (`registersegment`) WHERE `cashregisterid` > ? ORDER BY `cashregisterid`, `customerid`, `price` LIMIT 10;
SELECT `price`, `dateandtime`, `customerid` FROM `purchases` FORCE INDEX (`pdc`) WHERE `price` >= ? ORDER BY `price`, `dateandtime`, `customerid` LIMIT 10;

-- qp1000: insert a batch of 50 rows in one transaction; its first 2 are shown
INSERT INTO `purchases` (`transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data`) VALUES (1, '2026-01-01 00:00:00', 978, 78331, 7220, 427, 'aaaaaaaBAv'),(2, '2026-01-01 00:00:00', 94, 95072, 3231, 46, 'aaaaaaaaaaWIIfc');

-- qp1000: delete the oldest 50 rows, while inserts run
DELETE FROM `purchases` WHERE `transactionid` >= ? AND `transactionid` < ?;

-- qp1000:  query, while inserts run
SELECT `transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data` FROM `purchases` WHERE `transactionid` IN (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- sample the server, every interval
SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_rows_inserted', 'Innodb_buffer_pool_pages_total', 'Innodb_buffer_pool_pages_data', 'Innodb_buffer_pool_pages_dirty', 'Innodb_buffer_pool_reads', 'Innodb_buffer_pool_read_requests', 'Innodb_pages_written', 'Innodb_buffer_pool_wait_free', 'Innodb_checkpoint_age', 'Innodb_checkpoint_max_age', 'Innodb_os_log_written', 'Innodb_log_waits', 'Innodb_data_fsyncs', 'Innodb_history_list_length', 'Innodb_row_lock_waits', 'Threads_running');
SELECT COALESCE(SUM(DATA_LENGTH), 0), COALESCE(SUM(INDEX_LENGTH), 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('purchases');

-- verify every row at the end
SELECT `transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data` FROM `purchases`;

-- measure the table after each step
SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases';
SELECT SPACE, NAME, FILE_SIZE, ALLOCATED_SIZE FROM information_schema.INNODB_SYS_TABLESPACES WHERE NAME = CONCAT(DATABASE(), '/purchases') OR LEFT(NAME, CHAR_LENGTH(CONCAT(DATABASE(), '/purchases#p#'))) = CONCAT(DATABASE(), '/purchases#p#');
ANALYZE TABLE `purchases`;
SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases';

