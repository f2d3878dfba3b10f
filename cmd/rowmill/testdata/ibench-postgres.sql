-- steps qr100, qp100 on sandbox:postgres

-- each connection
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SET DateStyle = 'ISO, YMD';
SET TimeZone = 'UTC';
SET extra_float_digits = 1;
SET bytea_output = 'hex';
SET IntervalStyle = 'postgres';
SET quote_all_identifiers = off;
SET transform_null_equals = off;
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
SET default_transaction_deferrable = off;
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_min_messages = 'notice';
SET idle_session_timeout = 0;
SELECT pg_catalog.set_config('search_path', COALESCE((SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.i) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY s(name, i) WHERE s.name::text OPERATOR(pg_catalog.<>) 'pg_catalog'), 'public'), false);

-- the connection that changes tables
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SET DateStyle = 'ISO, YMD';
SET TimeZone = 'UTC';
SET extra_float_digits = 1;
SET bytea_output = 'hex';
SET IntervalStyle = 'postgres';
SET quote_all_identifiers = off;
SET transform_null_equals = off;
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
SET default_transaction_deferrable = off;
SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_min_messages = 'notice';
SET idle_session_timeout = 0;
SET lock_timeout = '2s';
SELECT pg_catalog.set_config('search_path', COALESCE((SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' ORDER BY s.i) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY s(name, i) WHERE s.name::text OPERATOR(pg_catalog.<>) 'pg_catalog'), 'public'), false);

-- look for the table
SELECT COUNT(*) FROM pg_class WHERE relkind IN ('r', 'p') AND oid = to_regclass('"purchases"');
SELECT c.relname, pg_get_expr(c.relpartbound, c.oid), CASE WHEN NOT pg_table_is_visible(c.oid) THEN c.oid::regclass::text END, c.relkind::text FROM pg_class p LEFT JOIN pg_inherits i ON i.inhparent = p.oid LEFT JOIN pg_class c ON c.oid = i.inhrelid AND c.relispartition WHERE p.relkind IN ('r', 'p') AND p.oid = to_regclass('"purchases"');

-- qr100: insert a batch of 50 rows in one transaction; its first 2 are shown
INSERT INTO "purchases" ("transactionid", "dateandtime", "cashregisterid", "customerid", "productid", "price", "data") VALUES (1,'2026-01-01 00:00:00',978,78331,7220,427,'aaaaaaaBAv'),(2,'2026-01-01 00:00:00',94,95072,3231,46,'aaaaaaaaaaWIIfc');

-- qr100: delete the oldest 50 rows, while inserts run
DELETE FROM "purchases" WHERE "transactionid" >= $1 AND "transactionid" < $2;

-- qr100:  query, while inserts run
SELECT "productid", "customerid", "price" FROM "purchases" WHERE "productid" >= $1 ORDER BY "productid", "customerid", "price" LIMIT 10;
SELECT "cashregisterid", "customerid", "price" FROM "purchases" WHERE "cashregisterid" > $1 ORDER BY "cashregisterid", "customerid", "price" LIMIT 10;
SELECT "price", "dateandtime", "customerid" FROM "purchases" WHERE "price" >= $1 ORDER BY "price", "dateandtime", "customerid" LIMIT 10;

-- qp100: insert a batch of 50 rows in one transaction; its first 2 are shown
INSERT INTO "purchases" ("transactionid", "dateandtime", "cashregisterid", "customerid", "productid", "price", "data") VALUES (1,'2026-01-01 00:00:00',978,78331,7220,427,'aaaaaaaBAv'),(2,'2026-01-01 00:00:00',94,95072,3231,46,'aaaaaaaaaaWIIfc');

-- qp100: delete the oldest 50 rows, while inserts run
DELETE FROM "purchases" WHERE "transactionid" >= $1 AND "transactionid" < $2;

-- qp100:  query, while inserts run
SELECT "transactionid", "dateandtime", "cashregisterid", "customerid", "productid", "price", "data" FROM "purchases" WHERE "transactionid" IN ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- sample the server, every interval
SELECT 'pg_stat_database' AS source, * FROM pg_stat_database WHERE datname = current_database();
SELECT 'pg_stat_bgwriter' AS source, * FROM pg_stat_bgwriter;
SELECT 'pg_stat_wal' AS source, * FROM pg_stat_wal;
SELECT 'now' AS source, w.lsn - '0/0' AS wal, w.lsn - c.redo_lsn AS checkpoint_age, pg_size_bytes(current_setting('max_wal_size')) AS max_wal_size, pg_size_bytes(current_setting('shared_buffers')) AS shared_buffers FROM pg_control_checkpoint() c, (SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_insert_lsn() END AS lsn) w;
SELECT 'now' AS source, count(*) FILTER (WHERE state = 'active' AND pid <> pg_backend_pid()) AS active, count(*) FILTER (WHERE wait_event_type = 'Lock') AS waiting_lock, count(*) FILTER (WHERE wait_event_type = 'LWLock') AS waiting_lwlock, count(*) FILTER (WHERE wait_event_type = 'IO') AS waiting_io, count(*) FILTER (WHERE backend_type = 'autovacuum worker') AS autovacuum_workers FROM pg_stat_activity;
SELECT 'tables' AS source, COALESCE(sum(pg_table_size(r.oid) + COALESCE((SELECT sum(pg_relation_size(i.indexrelid)) FROM pg_index i WHERE i.indrelid = r.oid AND i.indisprimary), 0)), 0) AS data, COALESCE(sum((SELECT sum(pg_relation_size(i.indexrelid)) FROM pg_index i WHERE i.indrelid = r.oid AND NOT i.indisprimary)), 0) AS index, count(*) AS count, COALESCE(sum(pg_stat_get_dead_tuples(r.oid)), 0) AS dead FROM (SELECT c.oid FROM pg_class c WHERE c.relkind = 'r' AND (c.oid IN (to_regclass('"purchases"')) OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent IN (to_regclass('"purchases"'))))) r;

-- measure the table after each step
SELECT COALESCE(sum(pg_table_size(r.oid) + COALESCE((SELECT sum(pg_relation_size(i.indexrelid)) FROM pg_index i WHERE i.indrelid = r.oid AND i.indisprimary), 0)), 0) AS data, COALESCE(sum((SELECT sum(pg_relation_size(i.indexrelid)) FROM pg_index i WHERE i.indrelid = r.oid AND NOT i.indisprimary)), 0) AS index FROM (SELECT c.oid FROM pg_class c WHERE c.relkind = 'r' AND (c.oid IN (to_regclass('"purchases"')) OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent IN (to_regclass('"purchases"'))))) r;

