-- layout: Zabbix 7: `trends` by month of `clock`, whose bounds are at midnight local time
-- server: mysql
-- table: trends
-- says: time   = "clock"; epoch  = "s"; every = "1mo"
CREATE TABLE trends (itemid BIGINT UNSIGNED NOT NULL, clock INTEGER DEFAULT '0' NOT NULL, num INTEGER DEFAULT '0' NOT NULL, value_avg DOUBLE PRECISION DEFAULT '0.0000' NOT NULL, PRIMARY KEY (itemid, clock))
PARTITION BY RANGE (clock) (
  PARTITION p2 VALUES LESS THAN ({{unixmonth -1}} - 3600), PARTITION p1 VALUES LESS THAN ({{unixmonth 0}} - 3600), PARTITION p0 VALUES LESS THAN ({{unixmonth 1}} - 3600), PARTITION n1 VALUES LESS THAN ({{unixmonth 2}} - 3600))

INSERT INTO trends VALUES (1, {{unix -1}} + 3600, 1, 1), (1, {{unix 0}} + 3600, 2, 2)
