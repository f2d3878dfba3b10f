-- layout plain on mysql

-- each connection
SET NAMES utf8mb4 COLLATE utf8mb4_general_ci;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', autocommit = 1, completion_type = 'NO_CHAIN', sql_auto_is_null = 0, sql_safe_updates = 0, sql_select_limit = 18446744073709551615, sql_big_selects = 1, unique_checks = 1, foreign_key_checks = 1, div_precision_increment = 4, net_write_timeout = 3600, sql_quote_show_create = 1 /*!80000 , max_execution_time = 0 */ /*M!100108 , max_statement_time = 0 */;
SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE;
SET SESSION explicit_defaults_for_timestamp = ON;

-- the connection that changes tables
SET NAMES utf8mb4 COLLATE utf8mb4_general_ci;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00', autocommit = 1, completion_type = 'NO_CHAIN', sql_auto_is_null = 0, sql_safe_updates = 0, sql_select_limit = 18446744073709551615, sql_big_selects = 1, unique_checks = 1, foreign_key_checks = 1, div_precision_increment = 4, net_write_timeout = 3600, sql_quote_show_create = 1, lock_wait_timeout = 1, innodb_lock_wait_timeout = 5, old_alter_table = OFF /*!80000 , max_execution_time = 0 */ /*M!100108 , max_statement_time = 0 */;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
SET SESSION explicit_defaults_for_timestamp = ON;

-- look for the table and its periods
SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases';
SELECT PARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases' ORDER BY PARTITION_ORDINAL_POSITION;

-- drop the table if it exists, with its periods
DROP TABLE IF EXISTS `purchases`;

-- create the table
CREATE TABLE `purchases` (
  `transactionid` INT NOT NULL AUTO_INCREMENT,
  `dateandtime` DATETIME NOT NULL,
  `cashregisterid` INT NOT NULL,
  `customerid` INT NOT NULL,
  `productid` INT NOT NULL,
  `price` FLOAT NOT NULL,
  PRIMARY KEY (`transactionid`),
  KEY `marketsegment` (`price`, `customerid`),
  KEY `registersegment` (`cashregisterid`, `price`, `customerid`),
  KEY `pdc` (`price`, `dateandtime`, `customerid`)
) ENGINE=`InnoDB` DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- insert a batch of 1000 rows in one transaction; its first 2 are shown
INSERT INTO `purchases` (`transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`) VALUES (1, '2026-01-01 00:00:00', 783, 97831, 7220, 982.5829),(2, '2026-01-01 00:00:00', 950, 9411, 3231, 94.574066);

-- sample the server, every interval
SET SESSION information_schema_stats_expiry = 0;
SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_rows_inserted', 'Innodb_buffer_pool_pages_total', 'Innodb_buffer_pool_pages_data', 'Innodb_buffer_pool_pages_dirty', 'Innodb_buffer_pool_reads', 'Innodb_buffer_pool_read_requests', 'Innodb_pages_written', 'Innodb_buffer_pool_wait_free', 'Innodb_checkpoint_age', 'Innodb_checkpoint_max_age', 'Innodb_os_log_written', 'Innodb_log_waits', 'Innodb_data_fsyncs', 'Innodb_history_list_length', 'Innodb_row_lock_waits', 'Threads_running');
SELECT NAME, `COUNT` FROM information_schema.INNODB_METRICS WHERE STATUS = 'enabled' AND NAME IN ('log_lsn_checkpoint_age', 'log_max_modified_age_sync', 'trx_rseg_history_len');
SELECT COALESCE(SUM(DATA_LENGTH), 0), COALESCE(SUM(INDEX_LENGTH), 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('purchases');

-- verify every row at the end
SELECT `transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price` FROM `purchases`;

-- measure the table at the end
SET SESSION information_schema_stats_expiry = 0;
SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases';
SELECT SPACE, NAME, FILE_SIZE, ALLOCATED_SIZE FROM information_schema.INNODB_TABLESPACES WHERE NAME = CONCAT(DATABASE(), '/purchases') OR LEFT(NAME, CHAR_LENGTH(CONCAT(DATABASE(), '/purchases#p#'))) = CONCAT(DATABASE(), '/purchases#p#');
ANALYZE TABLE `purchases`;
SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases';

-- layout rolling on mysql

-- each connection
SET NAMES utf8mb4 COLLATE utf8mb4_general_ci;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', autocommit = 1, completion_type = 'NO_CHAIN', sql_auto_is_null = 0, sql_safe_updates = 0, sql_select_limit = 18446744073709551615, sql_big_selects = 1, unique_checks = 1, foreign_key_checks = 1, div_precision_increment = 4, net_write_timeout = 3600, sql_quote_show_create = 1 /*!80000 , max_execution_time = 0 */ /*M!100108 , max_statement_time = 0 */;
SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE;
SET SESSION explicit_defaults_for_timestamp = ON;

-- the connection that changes tables
SET NAMES utf8mb4 COLLATE utf8mb4_general_ci;
SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00', autocommit = 1, completion_type = 'NO_CHAIN', sql_auto_is_null = 0, sql_safe_updates = 0, sql_select_limit = 18446744073709551615, sql_big_selects = 1, unique_checks = 1, foreign_key_checks = 1, div_precision_increment = 4, net_write_timeout = 3600, sql_quote_show_create = 1, lock_wait_timeout = 1, innodb_lock_wait_timeout = 5, old_alter_table = OFF /*!80000 , max_execution_time = 0 */ /*M!100108 , max_statement_time = 0 */;
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE;
SET SESSION explicit_defaults_for_timestamp = ON;

-- measure bytes per row on a sample, to find the period
DROP TABLE IF EXISTS `rowmill_sample_purchases`;
CREATE TABLE `rowmill_sample_purchases` (
  `transactionid` INT NOT NULL AUTO_INCREMENT,
  `dateandtime` DATETIME NOT NULL,
  `cashregisterid` INT NOT NULL,
  `customerid` INT NOT NULL,
  `productid` INT NOT NULL,
  `price` FLOAT NOT NULL,
  PRIMARY KEY (`transactionid`),
  KEY `marketsegment` (`price`, `customerid`),
  KEY `registersegment` (`cashregisterid`, `price`, `customerid`),
  KEY `pdc` (`price`, `dateandtime`, `customerid`)
) ENGINE=`InnoDB` DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- load the sample; its first 2 are shown
INSERT INTO `rowmill_sample_purchases` (`transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`) VALUES (1, '2026-01-01 00:00:00', 783, 97831, 7220, 982.5829),(2, '2026-01-01 00:00:00', 950, 9411, 3231, 94.574066);

-- measure bytes per row on a sample, to find the period
SET SESSION information_schema_stats_expiry = 0;
SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'rowmill_sample_purchases';
SELECT SPACE, NAME, FILE_SIZE, ALLOCATED_SIZE FROM information_schema.INNODB_TABLESPACES WHERE NAME = CONCAT(DATABASE(), '/rowmill_sample_purchases') OR LEFT(NAME, CHAR_LENGTH(CONCAT(DATABASE(), '/rowmill_sample_purchases#p#'))) = CONCAT(DATABASE(), '/rowmill_sample_purchases#p#');
ANALYZE TABLE `rowmill_sample_purchases`;
SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'rowmill_sample_purchases';
DROP TABLE IF EXISTS `rowmill_sample_purchases`;

-- look for the table and its periods
SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases';
SELECT PARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases' ORDER BY PARTITION_ORDINAL_POSITION;

-- drop the table if it exists, with its periods
DROP TABLE IF EXISTS `purchases`;

-- create the table
CREATE TABLE `purchases` (
  `transactionid` INT NOT NULL AUTO_INCREMENT,
  `dateandtime` DATETIME NOT NULL,
  `cashregisterid` INT NOT NULL,
  `customerid` INT NOT NULL,
  `productid` INT NOT NULL,
  `price` FLOAT NOT NULL,
  PRIMARY KEY (`transactionid`),
  KEY `marketsegment` (`price`, `customerid`),
  KEY `registersegment` (`cashregisterid`, `price`, `customerid`),
  KEY `pdc` (`price`, `dateandtime`, `customerid`)
) ENGINE=`InnoDB` DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
PARTITION BY RANGE (`transactionid`) (
  PARTITION `p0000000000000000000` VALUES LESS THAN (100000),
  PARTITION `p0000000000000100000` VALUES LESS THAN (200000),
  PARTITION `p0000000000000200000` VALUES LESS THAN (300000)
);

-- insert a batch of 1000 rows in one transaction; its first 2 are shown
INSERT INTO `purchases` (`transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`) VALUES (1, '2026-01-01 00:00:00', 783, 97831, 7220, 982.5829),(2, '2026-01-01 00:00:00', 950, 9411, 3231, 94.574066);

-- create periods ahead, while inserts run
ALTER TABLE `purchases` ADD PARTITION (
  PARTITION `p0000000000000300000` VALUES LESS THAN (400000)
);

-- sample the server, every interval
SET SESSION information_schema_stats_expiry = 0;
SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_rows_inserted', 'Innodb_buffer_pool_pages_total', 'Innodb_buffer_pool_pages_data', 'Innodb_buffer_pool_pages_dirty', 'Innodb_buffer_pool_reads', 'Innodb_buffer_pool_read_requests', 'Innodb_pages_written', 'Innodb_buffer_pool_wait_free', 'Innodb_checkpoint_age', 'Innodb_checkpoint_max_age', 'Innodb_os_log_written', 'Innodb_log_waits', 'Innodb_data_fsyncs', 'Innodb_history_list_length', 'Innodb_row_lock_waits', 'Threads_running');
SELECT NAME, `COUNT` FROM information_schema.INNODB_METRICS WHERE STATUS = 'enabled' AND NAME IN ('log_lsn_checkpoint_age', 'log_max_modified_age_sync', 'trx_rseg_history_len');
SELECT COALESCE(SUM(DATA_LENGTH), 0), COALESCE(SUM(INDEX_LENGTH), 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('purchases');

-- verify every row at the end
SELECT `transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price` FROM `purchases` PARTITION (`p0000000000000000000`);

-- measure the table at the end
SET SESSION information_schema_stats_expiry = 0;
SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases';
SELECT SPACE, NAME, FILE_SIZE, ALLOCATED_SIZE FROM information_schema.INNODB_TABLESPACES WHERE NAME = CONCAT(DATABASE(), '/purchases') OR LEFT(NAME, CHAR_LENGTH(CONCAT(DATABASE(), '/purchases#p#'))) = CONCAT(DATABASE(), '/purchases#p#');

