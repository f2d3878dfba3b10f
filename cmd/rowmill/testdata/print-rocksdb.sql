-- layout rolling on mariadb

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

-- look for the table and its periods
SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'readings';
SELECT PARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'readings' ORDER BY PARTITION_ORDINAL_POSITION;

-- create the table
CREATE TABLE `readings` (
  `id` INT NOT NULL,
  `ts` DATETIME NOT NULL,
  `value` DOUBLE NOT NULL,
  PRIMARY KEY (`id`, `ts`),
  KEY `ts` (`ts`)
) ENGINE=`ROCKSDB` DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
PARTITION BY RANGE COLUMNS (`ts`) (
  PARTITION `p20260101_000000` VALUES LESS THAN ('2026-01-01 00:00:50'),
  PARTITION `p20260101_000050` VALUES LESS THAN ('2026-01-01 00:01:40'),
  PARTITION `p20260101_000140` VALUES LESS THAN ('2026-01-01 00:02:30')
);

-- insert a batch of 1000 rows in one transaction; its first 2 are shown
INSERT INTO `readings` (`id`, `ts`, `value`) VALUES (122565, '2026-01-01 00:00:00', 978.3134671063731),(526186, '2026-01-01 00:00:00', 94.11291770108865);

-- create periods ahead, while inserts run
ALTER TABLE `readings` ADD PARTITION (
  PARTITION `p20260101_000230` VALUES LESS THAN ('2026-01-01 00:03:20')
);

-- sample the server, every interval
SHOW GLOBAL STATUS WHERE Variable_name IN ('Rocksdb_rows_inserted', 'Rocksdb_block_cache_miss', 'Rocksdb_wal_bytes', 'Rocksdb_wal_synced', 'Rocksdb_compact_read_bytes', 'Rocksdb_compact_write_bytes', 'Rocksdb_flush_write_bytes', 'Rocksdb_stall_micros', 'Threads_running');
SELECT COALESCE(SUM(DATA_LENGTH), 0), COALESCE(SUM(INDEX_LENGTH), 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('readings');

-- measure the table at the end
SET GLOBAL rocksdb_force_flush_memtable_now = ON;
ANALYZE TABLE `readings`;
SELECT COALESCE(SUM(DATA_LENGTH), 0), COALESCE(SUM(INDEX_LENGTH), 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('readings');

