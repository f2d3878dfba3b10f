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
  PRIMARY KEY (`id`, `at`),
  KEY `market` (`price`, `register`),
  KEY `a``b` (`note's ``name```)
) ENGINE=`InnoDB` DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
PARTITION BY RANGE COLUMNS (`at`) (
  PARTITION `p20261120_18` VALUES LESS THAN ('2026-11-20 20:00:00')
);
-- engine.CreatePartitions
ALTER TABLE `purchases` ADD PARTITION (
  PARTITION `p20261120_20` VALUES LESS THAN ('2026-11-20 22:00:00'),
  PARTITION `p20261120_22` VALUES LESS THAN ('2026-11-21 00:00:00')
);
-- engine.DropPartition
ALTER TABLE `purchases` DROP PARTITION `p20261120_18`;
