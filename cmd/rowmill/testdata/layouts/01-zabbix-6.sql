-- layout: Zabbix 6, made anew: `history_uint` by day of `clock`, seconds since 1970, kept by an event and partition_maintenance
-- server: mysql
-- table: history_uint
-- says: time   = "clock"; epoch  = "s"; every = "1d"; event e_partitions
-- apply: event e_partitions creates or drops partitions of table history_uint, and of history; ALTER DEFINER
-- mend: ALTER EVENT e_partitions DISABLE
CREATE TABLE history_uint (itemid BIGINT UNSIGNED NOT NULL, clock INTEGER DEFAULT '0' NOT NULL, value BIGINT UNSIGNED DEFAULT '0' NOT NULL, ns INTEGER DEFAULT '0' NOT NULL, PRIMARY KEY (itemid, clock, ns))
PARTITION BY RANGE (clock) (
  PARTITION p_2 VALUES LESS THAN ({{unix -1}}), PARTITION p_1 VALUES LESS THAN ({{unix 0}}), PARTITION p_0 VALUES LESS THAN ({{unix 1}}), PARTITION p1 VALUES LESS THAN ({{unix 2}}))

CREATE TABLE history (itemid BIGINT UNSIGNED NOT NULL, clock INTEGER DEFAULT '0' NOT NULL, value DOUBLE PRECISION DEFAULT '0.0000' NOT NULL, ns INTEGER DEFAULT '0' NOT NULL, PRIMARY KEY (itemid, clock, ns))
PARTITION BY RANGE (clock) (PARTITION p_0 VALUES LESS THAN ({{unix 1}}))

CREATE PROCEDURE partition_create(SCHEMANAME VARCHAR(64), TABLENAME VARCHAR(64), PARTITIONNAME VARCHAR(64), CLOCK INT)
BEGIN
  SET @sql = CONCAT('ALTER TABLE ', SCHEMANAME, '.', TABLENAME, ' ADD PARTITION (PARTITION ', PARTITIONNAME, ' VALUES LESS THAN (', CLOCK, '))');
  PREPARE STMT FROM @sql; EXECUTE STMT; DEALLOCATE PREPARE STMT;
END

CREATE PROCEDURE partition_maintenance(SCHEMA_NAME VARCHAR(32), TABLE_NAME VARCHAR(32), KEEP_DATA_DAYS INT, HOURLY_INTERVAL INT, CREATE_NEXT_INTERVALS INT)
BEGIN
  CALL partition_create(SCHEMA_NAME, TABLE_NAME, 'p', UNIX_TIMESTAMP());
END

CREATE PROCEDURE partition_maintenance_all(SCHEMA_NAME VARCHAR(32))
BEGIN
  CALL partition_maintenance(SCHEMA_NAME, 'history', 28, 24, 14);
  CALL partition_maintenance(SCHEMA_NAME, 'history_uint', 28, 24, 14);
END

CREATE EVENT e_partitions ON SCHEDULE EVERY 1 DAY DO CALL partition_maintenance_all(DATABASE())

INSERT INTO history_uint VALUES (1, {{unix -1}} + 60, 1, 0), (1, {{unix 0}} + 60, 2, 0), (2, {{unix 0}} + 60, 3, 0)
