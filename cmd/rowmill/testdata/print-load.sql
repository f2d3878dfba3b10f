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
SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases_1';
SELECT PARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases_1' ORDER BY PARTITION_ORDINAL_POSITION;
SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases_2';
SELECT PARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases_2' ORDER BY PARTITION_ORDINAL_POSITION;

-- create the table
CREATE TABLE `purchases_1` (
  `transactionid` BIGINT NOT NULL AUTO_INCREMENT,
  `dateandtime` DATETIME NOT NULL,
  `cashregisterid` INT NOT NULL,
  `customerid` INT NOT NULL,
  `productid` INT NOT NULL,
  `price` INT NOT NULL,
  `data` VARCHAR(4000) NOT NULL,
  PRIMARY KEY (`transactionid`),
  KEY `marketsegment` (`productid`, `customerid`, `price`),
  KEY `registersegment` (`cashregisterid`, `customerid`, `price`),
  KEY `pdc` (`price`, `dateandtime`, `customerid`)
) ENGINE=`InnoDB` DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- insert a batch of 100 rows in one transaction; its first 2 are shown
BEGIN;
LOAD DATA LOCAL INFILE 'Reader::rowmill' INTO TABLE `purchases_1` CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n' (`transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data`);
SHOW WARNINGS LIMIT 5;
COMMIT;

-- create the table
CREATE TABLE `purchases_2` (
  `transactionid` BIGINT NOT NULL AUTO_INCREMENT,
  `dateandtime` DATETIME NOT NULL,
  `cashregisterid` INT NOT NULL,
  `customerid` INT NOT NULL,
  `productid` INT NOT NULL,
  `price` INT NOT NULL,
  `data` VARCHAR(4000) NOT NULL,
  PRIMARY KEY (`transactionid`),
  KEY `marketsegment` (`productid`, `customerid`, `price`),
  KEY `registersegment` (`cashregisterid`, `customerid`, `price`),
  KEY `pdc` (`price`, `dateandtime`, `customerid`)
) ENGINE=`InnoDB` DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- insert a batch of 100 rows in one transaction; its first 2 are shown
BEGIN;
LOAD DATA LOCAL INFILE 'Reader::rowmill' INTO TABLE `purchases_2` CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n' (`transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data`);
SHOW WARNINGS LIMIT 5;
COMMIT;

-- sample the server, every interval
SET SESSION information_schema_stats_expiry = 0;
SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_rows_inserted', 'Innodb_buffer_pool_pages_total', 'Innodb_buffer_pool_pages_data', 'Innodb_buffer_pool_pages_dirty', 'Innodb_buffer_pool_reads', 'Innodb_buffer_pool_read_requests', 'Innodb_pages_written', 'Innodb_buffer_pool_wait_free', 'Innodb_checkpoint_age', 'Innodb_checkpoint_max_age', 'Innodb_os_log_written', 'Innodb_log_waits', 'Innodb_data_fsyncs', 'Innodb_history_list_length', 'Innodb_row_lock_waits', 'Threads_running');
SELECT NAME, `COUNT` FROM information_schema.INNODB_METRICS WHERE STATUS = 'enabled' AND NAME IN ('log_lsn_checkpoint_age', 'log_max_modified_age_sync', 'trx_rseg_history_len');
SELECT COALESCE(SUM(DATA_LENGTH), 0), COALESCE(SUM(INDEX_LENGTH), 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('purchases_1', 'purchases_2');

-- verify every row at the end
SELECT `transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data` FROM `purchases_1`;

-- measure the table at the end
SET SESSION information_schema_stats_expiry = 0;
SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases_1';
SELECT SPACE, NAME, FILE_SIZE, ALLOCATED_SIZE FROM information_schema.INNODB_TABLESPACES WHERE NAME = CONCAT(DATABASE(), '/purchases_1') OR LEFT(NAME, CHAR_LENGTH(CONCAT(DATABASE(), '/purchases_1#p#'))) = CONCAT(DATABASE(), '/purchases_1#p#');
ANALYZE TABLE `purchases_1`;
SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases_1';

-- verify every row at the end
SELECT `transactionid`, `dateandtime`, `cashregisterid`, `customerid`, `productid`, `price`, `data` FROM `purchases_2`;

-- measure the table at the end
SET SESSION information_schema_stats_expiry = 0;
SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases_2';
SELECT SPACE, NAME, FILE_SIZE, ALLOCATED_SIZE FROM information_schema.INNODB_TABLESPACES WHERE NAME = CONCAT(DATABASE(), '/purchases_2') OR LEFT(NAME, CHAR_LENGTH(CONCAT(DATABASE(), '/purchases_2#p#'))) = CONCAT(DATABASE(), '/purchases_2#p#');
ANALYZE TABLE `purchases_2`;
SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases_2';

