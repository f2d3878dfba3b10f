-- engine.CreateTable
CREATE TABLE `purchases` (
  `id` BIGINT NOT NULL AUTO_INCREMENT,
  `at` DATETIME NOT NULL,
  `register` INT,
  `price` FLOAT NOT NULL,
  `weight` DOUBLE DEFAULT 0 NOT NULL,
  `note's ``name``` VARCHAR(40),
  `code` CHAR(4) NOT NULL,
  `total` DECIMAL(12,2) NOT NULL,
  PRIMARY KEY (`id`),
  KEY `market` (`price`, `register`),
  KEY `a``b` (`note's ``name```)
) ENGINE=`InnoDB` DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
-- engine.Inspect
SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases';
SELECT PARTITION_NAME, PARTITION_DESCRIPTION FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases' ORDER BY PARTITION_ORDINAL_POSITION;
-- engine.Select
SELECT `id`, `at`, `register`, `price`, `weight`, `note's ``name```, `code`, `total` FROM `purchases`;
-- engine.Measure
SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases';
SELECT SPACE, NAME, FILE_SIZE, ALLOCATED_SIZE FROM information_schema.INNODB_SYS_TABLESPACES WHERE NAME = CONCAT(DATABASE(), '/purchases') OR LEFT(NAME, CHAR_LENGTH(CONCAT(DATABASE(), '/purchases#p#'))) = CONCAT(DATABASE(), '/purchases#p#');
ANALYZE TABLE `purchases`;
SELECT COALESCE(PARTITION_NAME, ''), COALESCE(TABLE_ROWS, 0), COALESCE(DATA_LENGTH, 0), COALESCE(INDEX_LENGTH, 0), COALESCE(UNIX_TIMESTAMP(UPDATE_TIME), 0) FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'purchases';
-- engine.Sample
SHOW GLOBAL STATUS WHERE Variable_name IN ('Innodb_rows_inserted', 'Innodb_buffer_pool_pages_total', 'Innodb_buffer_pool_pages_data', 'Innodb_buffer_pool_pages_dirty', 'Innodb_buffer_pool_reads', 'Innodb_buffer_pool_read_requests', 'Innodb_pages_written', 'Innodb_buffer_pool_wait_free', 'Innodb_checkpoint_age', 'Innodb_checkpoint_max_age', 'Innodb_os_log_written', 'Innodb_log_waits', 'Innodb_data_fsyncs', 'Innodb_history_list_length', 'Innodb_row_lock_waits', 'Threads_running');
SELECT COALESCE(SUM(DATA_LENGTH), 0), COALESCE(SUM(INDEX_LENGTH), 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('purchases');
-- engine.DropTable
DROP TABLE IF EXISTS `purchases`;
