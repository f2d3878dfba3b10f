-- layout: by day, each day divided by a hash
-- server: mysql
-- refused: is partitioned by RANGE (to_days; each period by HASH; REMOVE PARTITIONING
CREATE TABLE events (id BIGINT NOT NULL, at DATETIME NOT NULL, PRIMARY KEY (id, at))
PARTITION BY RANGE (TO_DAYS(at)) SUBPARTITION BY HASH (id) SUBPARTITIONS 2 (PARTITION p_1 VALUES LESS THAN (TO_DAYS('{{date 0}}')), PARTITION p_0 VALUES LESS THAN (TO_DAYS('{{date 1}}')))

INSERT INTO events VALUES (1, '{{date 0}}')
