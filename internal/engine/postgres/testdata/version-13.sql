-- engine.DropPartition
BEGIN;
SET LOCAL lock_timeout = '500ms';
SET LOCAL statement_timeout = '1s';
LOCK TABLE ONLY "purchases", ONLY "purchases_p20261120_18" IN ACCESS EXCLUSIVE MODE;
ALTER TABLE "purchases" DETACH PARTITION "purchases_p20261120_18";
COMMENT ON TABLE "purchases_p20261120_18" IS 'rowmill: to be dropped, was a partition of purchases';
COMMIT;
DROP TABLE "purchases_p20261120_18";
-- engine.Sample
SELECT 'pg_stat_bgwriter' AS source, * FROM pg_stat_bgwriter;
SELECT 'now' AS source, w.lsn - '0/0' AS wal, w.lsn - c.redo_lsn AS checkpoint_age, pg_size_bytes(current_setting('max_wal_size')) AS max_wal_size, pg_size_bytes(current_setting('shared_buffers')) AS shared_buffers FROM pg_control_checkpoint() c, (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END AS lsn) w;
SELECT 'now' AS source, count(*) FILTER (WHERE state = 'active' AND pid <> pg_backend_pid()) AS active, count(*) FILTER (WHERE wait_event_type = 'Lock') AS waiting_lock, count(*) FILTER (WHERE wait_event_type = 'LWLock') AS waiting_lwlock, count(*) FILTER (WHERE wait_event_type = 'IO') AS waiting_io, count(*) FILTER (WHERE backend_type = 'autovacuum worker') AS autovacuum_workers FROM pg_stat_activity;
-- engine.Detach
BEGIN;
SET LOCAL lock_timeout = '500ms';
SET LOCAL statement_timeout = '1s';
LOCK TABLE ONLY "purchases", ONLY "purchases_p20261120_18" IN ACCESS EXCLUSIVE MODE;
ALTER TABLE "purchases" DETACH PARTITION "purchases_p20261120_18";
ALTER TABLE "purchases_p20261120_18" RENAME TO "it's gone";
COMMIT;
