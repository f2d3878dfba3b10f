-- layout plain on mariadb

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
SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'sbtest1';
SELECT PARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'sbtest1' ORDER BY PARTITION_ORDINAL_POSITION;

-- create the table
CREATE TABLE `sbtest1` (
  `id` INT NOT NULL AUTO_INCREMENT,
  `k` INT DEFAULT '0' NOT NULL,
  `c` CHAR(120) DEFAULT '' NOT NULL,
  `pad` CHAR(60) DEFAULT '' NOT NULL,
  PRIMARY KEY (`id`),
  KEY `k_1` (`k`)
) ENGINE=`InnoDB` DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- insert a batch of 1 row
INSERT INTO `sbtest1` (`id`, `k`, `c`, `pad`) VALUES (0, 9784, '78331551146-72206335100-85458191077-00736331577-49055310508-16839841268-79371433037-74868321720-28885912244-22164349931', '65199641137-29843522443-06705181294-76883979652-19890470255');

-- sample the server, every interval
SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_rows_inserted', 'Innodb_buffer_pool_pages_total', 'Innodb_buffer_pool_pages_data', 'Innodb_buffer_pool_pages_dirty', 'Innodb_buffer_pool_reads', 'Innodb_buffer_pool_read_requests', 'Innodb_pages_written', 'Innodb_buffer_pool_wait_free', 'Innodb_checkpoint_age', 'Innodb_checkpoint_max_age', 'Innodb_os_log_written', 'Innodb_log_waits', 'Innodb_data_fsyncs', 'Innodb_history_list_length', 'Innodb_row_lock_waits', 'Threads_running');
SELECT COALESCE(SUM(DATA_LENGTH), 0), COALESCE(SUM(INDEX_LENGTH), 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('sbtest1');

-- verify every row at the end
SELECT `id`, `k`, `c`, `pad` FROM `sbtest1`;

-- measure the table at the end
SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'sbtest1';
SELECT SPACE, NAME, FILE_SIZE, ALLOCATED_SIZE FROM information_schema.INNODB_SYS_TABLESPACES WHERE NAME = CONCAT(DATABASE(), '/sbtest1') OR LEFT(NAME, CHAR_LENGTH(CONCAT(DATABASE(), '/sbtest1#p#'))) = CONCAT(DATABASE(), '/sbtest1#p#');
ANALYZE TABLE `sbtest1`;
SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'sbtest1';

