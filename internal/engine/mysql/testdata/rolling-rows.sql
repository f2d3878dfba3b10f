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
) ENGINE=`InnoDB` DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
PARTITION BY RANGE (`id`) (
  PARTITION `p0000000000000000000` VALUES LESS THAN (1000),
  PARTITION `p0000000000000001000` VALUES LESS THAN (2000)
);
-- engine.CreatePartitions
ALTER TABLE `purchases` ADD PARTITION (
  PARTITION `p0000000000000002000` VALUES LESS THAN (3000)
);
-- engine.DropPartition
ALTER TABLE `purchases` DROP PARTITION `p0000000000000000000`;
-- engine.Select
SELECT `id`, `at`, `register`, `price`, `weight`, `note's ``name```, `code`, `total` FROM `purchases` PARTITION (`p0000000000000001000`);
-- engine.DropTable
DROP TABLE IF EXISTS `purchases`;
