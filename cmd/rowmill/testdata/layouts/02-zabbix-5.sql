-- layout: Zabbix 6, upgraded from 5: `history` without a primary key
-- server: mysql
-- table: history
-- refused: it has no primary key; ADD PRIMARY KEY
CREATE TABLE history (itemid BIGINT UNSIGNED NOT NULL, clock INTEGER DEFAULT '0' NOT NULL, value DOUBLE PRECISION DEFAULT '0.0000' NOT NULL, ns INTEGER DEFAULT '0' NOT NULL, KEY history_1 (itemid, clock))
PARTITION BY RANGE (clock) (PARTITION p_1 VALUES LESS THAN ({{unix 0}}), PARTITION p_0 VALUES LESS THAN ({{unix 1}}))

INSERT INTO history VALUES (1, {{unix 0}} + 60, 1, 0)
