-- engine.Settle
ANALYZE TABLE `purchases`;
ANALYZE TABLE `purchases`;
SELECT @@GLOBAL.innodb_max_dirty_pages_pct_lwm, @@GLOBAL.innodb_max_dirty_pages_pct;
SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0;
SET GLOBAL innodb_max_dirty_pages_pct = 0;
SELECT `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len' AND STATUS = 'enabled';
SHOW GLOBAL STATUS WHERE Variable_name = 'Innodb_buffer_pool_pages_dirty';
SET GLOBAL innodb_max_dirty_pages_pct = ?;
SET GLOBAL innodb_max_dirty_pages_pct_lwm = ?;
