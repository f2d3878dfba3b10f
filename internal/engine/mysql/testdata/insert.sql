-- engine.Insert
INSERT INTO `purchases` (`id`, `at`, `register`, `price`, `weight`, `note's ``name```, `code`, `total`) VALUES (1, '2026-11-20 18:00:00', NULL, 0.1, 1e+21, 'it\'s \\ \0 	😀', 'ab', '12.50'),(2, '2026-11-20 18:00:00', 7, 0.1, 1e+21, NULL, 'ab', '12.50');
-- engine.Insert
BEGIN;
INSERT INTO `purchases` (`id`, `at`, `register`, `price`, `weight`, `note's ``name```, `code`, `total`) VALUES (1, '2026-11-20 18:00:00', NULL, 0.1, 1e+21, 'it\'s \\ \0 	😀', 'ab', '12.50');
INSERT INTO `purchases` (`id`, `at`, `register`, `price`, `weight`, `note's ``name```, `code`, `total`) VALUES (2, '2026-11-20 18:00:00', 7, 0.1, 1e+21, NULL, 'ab', '12.50');
COMMIT;
-- engine.Insert
INSERT INTO `purchases` (`id`, `at`, `register`, `price`, `weight`, `note's ``name```, `code`, `total`) VALUES (?, ?, ?, ?, ?, ?, ?, ?),(?, ?, ?, ?, ?, ?, ?, ?);
-- engine.Insert
BEGIN;
LOAD DATA LOCAL INFILE 'Reader::rowmill' INTO TABLE `purchases` CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n' (`id`, `at`, `register`, `price`, `weight`, `note's ``name```, `code`, `total`);
SHOW WARNINGS LIMIT 5;
COMMIT;
-- engine.Insert
INSERT INTO `purchases` (`id`, `at`, `register`, `price`, `weight`, `note's ``name```, `code`, `total`) VALUES (0, '2026-11-20 18:00:00', NULL, 0.1, 1e+21, 'it\'s \\ \0 	😀', 'ab', '12.50'),(0, '2026-11-20 18:00:00', 7, 0.1, 1e+21, NULL, 'ab', '12.50');
-- engine.Insert
INSERT INTO `purchases` (`id`, `at`, `register`, `price`, `weight`, `note's ``name```, `code`, `total`) VALUES (0, ?, ?, ?, ?, ?, ?, ?),(0, ?, ?, ?, ?, ?, ?, ?);
-- engine.Insert
BEGIN;
LOAD DATA LOCAL INFILE 'Reader::rowmill' INTO TABLE `purchases` CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n' (`at`, `register`, `price`, `weight`, `note's ``name```, `code`, `total`);
SHOW WARNINGS LIMIT 5;
COMMIT;
