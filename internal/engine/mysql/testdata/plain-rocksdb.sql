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
) ENGINE=`ROCKSDB` DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
-- engine.Measure
SET GLOBAL rocksdb_force_flush_memtable_now = ON;
ANALYZE TABLE `purchases`;
SELECT COALESCE(SUM(DATA_LENGTH), 0), COALESCE(SUM(INDEX_LENGTH), 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('purchases');
-- engine.Sample
SHOW GLOBAL STATUS WHERE Variable_name IN ('Rocksdb_rows_inserted', 'Rocksdb_block_cache_miss', 'Rocksdb_wal_bytes', 'Rocksdb_wal_synced', 'Rocksdb_compact_read_bytes', 'Rocksdb_compact_write_bytes', 'Rocksdb_flush_write_bytes', 'Rocksdb_stall_micros', 'Threads_running');
SELECT COALESCE(SUM(DATA_LENGTH), 0), COALESCE(SUM(INDEX_LENGTH), 0) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN ('purchases');
