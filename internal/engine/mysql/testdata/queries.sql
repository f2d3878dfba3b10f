-- engine.Find
SELECT `id`, `at`, `register`, `price`, `weight`, `note's ``name```, `code`, `total` FROM `purchases` WHERE `id` = ?;
-- engine.Find
SELECT `id`, `at`, `register`, `price`, `weight`, `note's ``name```, `code`, `total` FROM `purchases` WHERE `id` IN (?, ?, ?);
-- engine.Find
SELECT `id`, `price` FROM `purchases` WHERE `id` >= ? ORDER BY `id` LIMIT 10;
-- engine.Find
SELECT `id`, `at`, `register`, `price`, `weight`, `note's ``name```, `code`, `total` FROM `purchases` FORCE INDEX (`market`) WHERE `price` > ? ORDER BY `price`, `register` LIMIT 10;
-- engine.Find
SELECT `id`, `at`, `register`, `price`, `weight`, `note's ``name```, `code`, `total` FROM `purchases` FORCE INDEX (`market`) WHERE `price` = ? AND `register` = ?;
-- engine.Find
SELECT `id`, `at`, `register`, `price`, `weight`, `note's ``name```, `code`, `total` FROM `purchases` FORCE INDEX (`market`) WHERE `price` >= ?;
-- engine.Find
SELECT `price`, `register` FROM `purchases` FORCE INDEX (`market`) WHERE (`price` = ? AND `register` >= ?) OR `price` > ? ORDER BY `price`, `register` LIMIT 10;
-- engine.Find
SELECT `price`, `register` FROM `purchases` WHERE (`price` = ? AND `at` = ? AND `register` >= ?) OR (`price` = ? AND `at` > ?) OR `price` > ?;
-- engine.Delete
DELETE FROM `purchases` WHERE `id` >= ? AND `id` < ?;
-- engine.CreateIndexes
ALTER TABLE `purchases` ADD KEY `market` (`price`, `register`), ADD KEY `a``b` (`note's ``name```);
-- engine.Find
SELECT `id`, `at`, `register`, `price`, `weight`, `note's ``name```, `code`, `total` FROM `purchases` FORCE INDEX (`market`) WHERE `price` >= ? LIMIT 5;
-- engine.Delete
DELETE FROM `purchases` WHERE `at` >= ? AND `at` < ?;
-- engine.CreateIndexes
ALTER TABLE `purchases` ADD KEY `market` (`price`, `register`), ADD KEY `a``b` (`note's ``name```);
-- engine.Settle
ANALYZE TABLE `purchases`;
ANALYZE TABLE `purchases`;
SELECT @@GLOBAL.innodb_max_dirty_pages_pct_lwm, @@GLOBAL.innodb_max_dirty_pages_pct;
SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0;
SET GLOBAL innodb_max_dirty_pages_pct = 0;
SHOW GLOBAL STATUS WHERE Variable_name = 'Innodb_history_list_length';
SHOW GLOBAL STATUS WHERE Variable_name = 'Innodb_buffer_pool_pages_dirty';
SET GLOBAL innodb_max_dirty_pages_pct = ?;
SET GLOBAL innodb_max_dirty_pages_pct_lwm = ?;
