-- layout: Zabbix 7: `history_bin` by day of `clock`, without rows
-- server: mysql
-- table: history_bin
-- says: time   = "clock"; epoch  = "s"; every = "1d"
CREATE TABLE history_bin (itemid BIGINT UNSIGNED NOT NULL, clock INTEGER DEFAULT '0' NOT NULL, ns INTEGER DEFAULT '0' NOT NULL, value LONGBLOB NOT NULL, PRIMARY KEY (itemid, clock, ns))
PARTITION BY RANGE (clock) (PARTITION p_1 VALUES LESS THAN ({{unix 0}}), PARTITION p_0 VALUES LESS THAN ({{unix 1}}), PARTITION n1 VALUES LESS THAN ({{unix 2}}))
